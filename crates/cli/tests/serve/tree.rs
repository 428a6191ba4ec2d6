//! The site that the conversations are about.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use crate::script::{PROBE, PROBE_CONTENT};

/// Sun, 06 Nov 1994 08:49:37 GMT, which RFC 9110 uses as well.
const MODIFIED_UNIX_SECONDS: u64 = 784_111_777;
/// After this a file counts as settled: the server gives files that changed less than 20 ms ago no validators, so what
/// a quick server answers first would not be what it answers from then on.
const SETTLED: Duration = Duration::from_millis(30);
/// More than the server holds in memory: sent from the file.
pub(crate) const LARGE_BYTES: usize = 3_000_000;

/// A directory whose name would add a field to a head that does not escape it.
const INJECTING: &str = "no index/odd\r\nX-Injected: yes";

/// Fills `directory` (which has an empty `site`) with the site and what surrounds it.
pub(crate) fn plant(directory: &Path) {
    let site = directory.join("site");
    for name in [
        "sub/deep",
        "bare/inner",
        "list/b",
        "no index",
        ".git",
        ".well-known",
        "app",
        "errors",
        "dots/...",
        "odd",
        INJECTING,
    ] {
        fs::create_dir_all(site.join(name)).expect("directories can be made");
    }
    for name in ["outside", "other/sub", "aliased/sub"] {
        fs::create_dir_all(directory.join(name)).expect("directories can be made");
    }
    let files: &[(&str, &[u8])] = &[
        (&PROBE[1..], PROBE_CONTENT),
        ("index.html", b"<!doctype html><title>home</title>\n"),
        ("hello.txt", b"hello\n"),
        ("digits.txt", b"0123456789"),
        ("empty.txt", b""),
        ("data.json", b"{}\n"),
        ("unknown.xyzzy", b"?\n"),
        ("README", b"no extension\n"),
        ("sub/index.html", b"sub\n"),
        ("sub/deep/page.html", b"deep\n"),
        ("bare/inner/file.txt", b"inner\n"),
        ("list/a.txt", b"a\n"),
        ("list/b/index.html", b"b\n"),
        ("list/c <&>.txt", b"c c\n"),
        ("list/.hidden", b"hidden\n"),
        ("no index/with space.txt", b"space\n"),
        ("gr\u{fc}\u{df}e.txt", b"servus\n"),
        ("100%.txt", b"percent\n"),
        ("a+b.txt", b"plus\n"),
        ("semi;colon=1.txt", b"semicolon\n"),
        (".hidden", b"hidden\n"),
        (".git/config", b"hidden\n"),
        (".well-known/security.txt", b"Contact: x\n"),
        (".well-known/.hidden", b"hidden\n"),
        ("dots/.../file.txt", b"hidden\n"),
        ("page.html", b"<p>plain</p>\n"),
        ("page.html.br", b"<brotli>"),
        ("page.html.zst", b"<zstandard>"),
        ("page.html.gz", b"<gzip>"),
        ("only-gzip.css", b"body{}\n"),
        ("only-gzip.css.gz", b"<gzipped css>"),
        ("odd\nname.txt", b"line\n"),
        ("odd\tname.txt", b"tab\n"),
        ("odd\\name.txt", b"backslash\n"),
        ("odd/a\nb.txt", b"line\n"),
        ("odd/a\tb.txt", b"tab\n"),
        ("odd/a\\b.txt", b"backslash\n"),
        ("photo.png", b"png"),
        ("photo.png.gz", b"<gzipped png>"),
        ("errors/404.html", b"<h1>our own 404</h1>\n"),
        ("app/index.html", b"app\n"),
        ("app/code.js", b"code\n"),
    ];
    for (name, content) in files {
        write(&site.join(name), content);
    }
    write(&site.join("stale.html"), b"<p>new</p>\n");
    write(&site.join("stale.html.gz"), b"<old>");
    touch(&site.join("stale.html"), MODIFIED_UNIX_SECONDS + 10);
    write(&site.join("medium.bin"), &pattern(50_000, 7));
    for name in ["large.bin", "cold.bin", "large.html"] {
        write(&site.join(name), &pattern(LARGE_BYTES, 1));
    }
    write(&site.join("large.html.gz"), &pattern(LARGE_BYTES / 4, 3));
    write(&directory.join("outside/secret.txt"), b"secret\n");
    write(&directory.join("secret.txt"), b"secret\n");
    write(&directory.join("other/index.html"), b"other\n");
    write(&directory.join("other/hello.txt"), b"other hello\n");
    write(&directory.join("aliased/file.txt"), b"aliased\n");
    write(&directory.join("aliased/sub/index.html"), b"aliased sub\n");
    link(directory, &site);
    std::thread::sleep(SETTLED);
}

/// Links that stay inside, links that lead out, one that leads nowhere, and things that are no files.
fn link(directory: &Path, site: &Path) {
    let links = [
        ("link-inside.txt", Path::new("hello.txt").to_owned()),
        ("link-absolute.txt", site.join("hello.txt")),
        ("link-directory", Path::new("sub").to_owned()),
        ("sub/link-up.txt", Path::new("../hello.txt").to_owned()),
        ("link-outside.txt", Path::new("../outside/secret.txt").to_owned()),
        ("link-outside-absolute.txt", directory.join("secret.txt")),
        ("link-outside-directory", Path::new("../outside").to_owned()),
        ("odd/link-inside.txt", Path::new("../hello.txt").to_owned()),
        ("odd/link-inside-absolute", site.join("sub")),
        ("odd/link-outside.txt", Path::new("../../outside/secret.txt").to_owned()),
        ("odd/link-outside-absolute.txt", Path::new("/etc/passwd").to_owned()),
        ("odd/link-outside-directory", Path::new("../../outside").to_owned()),
        ("odd/link-nowhere", Path::new("nothing").to_owned()),
        ("odd/link-device", Path::new("/dev/zero").to_owned()),
        ("odd/link-fifo", Path::new("../fifo").to_owned()),
        ("link-loop", Path::new("link-loop").to_owned()),
        ("link-nowhere", Path::new("nothing").to_owned()),
        ("link-process", Path::new("/proc/self/environ").to_owned()),
        ("link-device", Path::new("/dev/zero").to_owned()),
    ];
    for (name, target) in links {
        symlink(target, site.join(name)).expect("links can be made");
    }
    rustix::fs::mknodat(rustix::fs::CWD, site.join("fifo"), rustix::fs::FileType::Fifo, 0o644.into(), 0)
        .expect("FIFOs can be made");
    std::os::unix::net::UnixListener::bind(site.join("socket")).expect("sockets can be made");
}

/// Bytes that are nowhere the same as a little further on.
///
/// Byte `index` is the lowest of `(index * factor) ^ (index >> 8) ^ (index >> 16)`. So 256 bytes that begin at a
/// multiple of 256 differ from the first ones in the same bits, and there are 256 such rows. They are copied, because
/// tests need many megabytes, and a byte at a time takes long in a program that is not optimised.
pub(crate) fn pattern(length: usize, factor: usize) -> Vec<u8> {
    const ROW: usize = 256;
    let first: Vec<u8> = (0..ROW).map(|index| (index * factor) as u8).collect();
    let rows: Vec<Vec<u8>> = (0..=u8::MAX).map(|bits| first.iter().map(|byte| byte ^ bits).collect()).collect();
    let mut bytes = Vec::with_capacity(length);
    for row in 0..length.div_ceil(ROW) {
        let row = &rows[usize::from((row ^ (row >> 8)) as u8)];
        bytes.extend_from_slice(&row[..ROW.min(length - bytes.len())]);
    }
    bytes
}

#[test]
fn a_pattern_has_the_bytes_that_its_rule_says() {
    for (length, factor) in [(0, 1), (1, 1), (255, 7), (70_001, 7), (200_000, 3), (17_000_000, 1)] {
        let bytes = pattern(length, factor);
        assert_eq!(bytes.len(), length);
        let byte = |index: usize| ((index * factor) ^ (index >> 8) ^ (index >> 16)) as u8;
        // Every byte of a short one, some of a long one.
        assert!((0..length).step_by(1 + length / 100_000).all(|index| bytes[index] == byte(index)));
    }
}

fn write(path: &Path, content: &[u8]) {
    fs::write(path, content).expect("a file can be written");
    touch(path, MODIFIED_UNIX_SECONDS);
}

fn touch(path: &Path, unix_seconds: u64) {
    let file = File::options().write(true).open(path).expect("it was written");
    file.set_modified(UNIX_EPOCH + Duration::from_secs(unix_seconds)).expect("it is ours");
}
