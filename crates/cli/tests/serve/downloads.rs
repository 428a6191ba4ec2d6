//! Folders as archives: what is in them, over HTTP/1.0, HTTP/1.1 and HTTP/2, with every engine.
//!
//! Owns: these cases, and a reader of archives.

use std::fs;
use std::os::unix::fs::symlink;

use crate::client::{Client, PATIENCE};
use crate::engine::{Engine, for_engines};
use crate::http2::Http2;
use crate::server::{Launch, Server, eventually};
use crate::tree::pattern;

for_engines!([
    mp = MP,
    thread_pool = THREAD_POOL,
    thread_per_request = THREAD_PER_REQUEST,
    thread_per_session = THREAD_PER_SESSION,
    sped = SPED,
    amped = AMPED,
    amped_with_helper_processes = AMPED_WITH_HELPER_PROCESSES,
    co_amped = CO_AMPED,
    pipelined = PIPELINED,
    proactor = PROACTOR,
] => [
    a_folder_is_downloaded_as_its_listings_show_it,
    a_download_that_is_left_ends,
    what_is_not_listed_is_not_downloaded,
    a_file_that_becomes_shorter_breaks_its_download_off,
]);

// Each process of `mp` has one client.
for_engines!([
    amped_crowded = AMPED,
    proactor_crowded = PROACTOR,
    pipelined_crowded = PIPELINED,
    thread_pool_crowded = THREAD_POOL,
] => [a_network_has_few_downloads_at_once_and_another_one_when_one_has_ended]);

const BYTES: usize = 1_000_000;

fn a_network_has_few_downloads_at_once_and_another_one_when_one_has_ended(engine: Engine) {
    const AT_ONCE: usize = 4;
    let server = Launch::new(engine).argument("--browse").file("d/a", "small").start();
    // More than the buffers of the system hold. It takes no room on the disk.
    fs::File::create(server.site().join("d/large")).and_then(|file| file.set_len(64 << 20)).expect("it can be made");
    let begin = |form: &str| {
        let mut client = server.connect();
        client.send(format!("GET /d/?download={form} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
        let head = client.receive_head().unwrap();
        (client, head.status, head.field("Retry-After").map(str::to_owned))
    };
    let mut under_way: Vec<_> = (0..AT_ONCE).map(|_| begin("tar")).collect();
    assert!(under_way.iter().all(|(_, status, _)| *status == 200));
    let (_, status, wait) = begin("zip");
    assert_eq!((status, wait.as_deref()), (503, Some("1")));
    assert_eq!(server.connect().get("/d/a").unwrap().status, 200, "files are no archives");
    under_way.pop();
    eventually("there is room again", PATIENCE, || (begin("tar").1 == 200).then_some(()));
    drop(under_way);
    server.finish();
}

/// The content of a body in chunks.
fn unchunk(mut rest: &[u8]) -> Vec<u8> {
    let mut content = Vec::new();
    loop {
        let end = rest.windows(2).position(|pair| pair == b"\r\n").expect("a chunk begins with its size");
        let size = std::str::from_utf8(&rest[..end]).ok().and_then(|size| usize::from_str_radix(size, 16).ok());
        let size = size.expect("sizes are hexadecimal");
        let chunk = &rest[end + 2..];
        content.extend_from_slice(&chunk[..size]);
        assert_eq!(&chunk[size..size + 2], b"\r\n");
        rest = &chunk[size + 2..];
        if size == 0 {
            assert!(rest.is_empty(), "nothing follows");
            return content;
        }
    }
}

/// The archive of a folder, asked for in this version.
fn archive(server: &Server, path: &str, version: &str) -> Vec<u8> {
    archive_as(server, path, "x-tar", version)
}

/// The same, of this type.
fn archive_as(server: &Server, path: &str, media_type: &str, version: &str) -> Vec<u8> {
    let mut client = server.connect();
    let form = media_type.trim_start_matches("x-");
    let request = format!("GET {path}?download={form} HTTP/{version}\r\nHost: a\r\nConnection: close\r\n\r\n");
    client.send(request.as_bytes());
    let answer = client.receive_rest();
    let head_end = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("there is a head") + 4;
    let head = String::from_utf8_lossy(&answer[..head_end]);
    assert!(
        head.starts_with("HTTP/1.1 200 ") && head.contains(&format!("\r\nContent-Type: application/{media_type}\r\n")),
        "{head}"
    );
    match version {
        "1.0" => answer[head_end..].to_vec(),
        _ => unchunk(&answer[head_end..]),
    }
}

/// The names of the entries of an archive, and their content.
fn entries(archive: &[u8]) -> Vec<(String, Vec<u8>)> {
    let (mut entries, mut at, mut path) = (Vec::new(), 0, None);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end_matches('\0').to_owned();
    while archive[at] != 0 {
        let block = &archive[at..at + 512];
        assert_eq!(&block[257..262], b"ustar");
        let size = usize::from_str_radix(&text(&block[124..135]), 8).expect("a size is octal");
        let content = &archive[at + 512..at + 512 + size];
        at += 512 + size.next_multiple_of(512);
        if block[156] == b'x' {
            let records = text(content);
            path = records.lines().find_map(|line| Some(line.split_once(" path=")?.1.to_owned()));
            continue;
        }
        entries.push((path.take().unwrap_or_else(|| text(&block[..100])), content.to_vec()));
    }
    assert_eq!(archive.len(), at + 1024, "two empty blocks are the end");
    entries
}

fn start(engine: Engine) -> Server {
    let launch = Launch::new(engine)
        .argument("--browse")
        .argument("--h2c")
        .file("tree/b.txt", "b\n")
        .file("tree/a/large.bin", pattern(BYTES, 7))
        .file("tree/a/empty", "")
        .file("tree/a/.hidden", "not told")
        .file(&format!("tree/a/{}", "n".repeat(120)), "long\n")
        .file("tree/é.txt", "umlaut\n")
        .file("tree/page/index.html", "<p>page\n")
        .file("tree/page/beside.txt", "not listed")
        .file("other/inside.txt", "inside\n");
    let tree = launch.site().join("tree");
    fs::write(launch.directory().join("outside.txt"), "outside").unwrap();
    symlink("../../outside.txt", tree.join("leads-out")).unwrap();
    symlink("../other/inside.txt", tree.join("leads-in")).unwrap();
    symlink(".", tree.join("circle")).unwrap();
    launch.start()
}

fn a_folder_is_downloaded_as_its_listings_show_it(engine: Engine) {
    let server = start(engine);
    let whole = archive(&server, "/tree/", "1.1");
    let found = entries(&whole);
    let long = "n".repeat(120);
    let expected = [
        ("tree/a/", Vec::new()),
        ("tree/a/empty", Vec::new()),
        ("tree/a/large.bin", pattern(BYTES, 7)),
        (&format!("tree/a/{long}"), b"long\n".to_vec()),
        ("tree/b.txt", b"b\n".to_vec()),
        ("tree/leads-in", b"inside\n".to_vec()),
        ("tree/page/", Vec::new()),
        ("tree/page/index.html", b"<p>page\n".to_vec()),
        ("tree/é.txt", b"umlaut\n".to_vec()),
    ];
    let names = |entries: &[(String, Vec<u8>)]| entries.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&found), expected.each_ref().map(|(name, _)| (*name).to_owned()));
    assert!(found.iter().zip(&expected).all(|((_, one), (_, other))| one == other));
    // The same bytes each time, in every version.
    assert!(archive(&server, "/tree/", "1.0") == whole);
    let mut http2 = Http2::connect(server.address());
    let answer = http2.get("/tree/?download=tar");
    assert!(answer.content == whole);
    let field = |name: &str| answer.fields.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str());
    assert_eq!(field("content-disposition"), Some("attachment; filename*=UTF-8''tree.tar"));
    // The same as zip, whose directory is at the end.
    let zip = archive_as(&server, "/tree/", "zip", "1.1");
    let end = &zip[zip.len() - 22..];
    assert_eq!((&zip[..4], &end[..4]), (&b"PK\x03\x04"[..], &b"PK\x05\x06"[..]));
    assert_eq!(usize::from(u16::from_le_bytes([end[10], end[11]])), expected.len());
    assert!(http2.get("/tree/?download=zip").content == zip && zip.len() < BYTES);
    server.finish();
}

fn a_download_that_is_left_ends(engine: Engine) {
    let server = start(engine);
    for _ in 0..3 {
        let mut client = server.connect();
        client.send(b"GET /tree/?download=tar HTTP/1.1\r\nHost: a\r\n\r\n");
        client.receive_exactly(10_000).unwrap();
        // The head alone is whole for who asks for it alone, and the connection goes on.
        let mut client = server.connect();
        client.send(b"HEAD /tree/?download=tar HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(client.receive_head().unwrap().status, 200);
        assert_eq!(client.get("/tree/b.txt").unwrap().content, b"b\n");
    }
    server.finish();
}

fn a_file_that_becomes_shorter_breaks_its_download_off(engine: Engine) {
    // More than sockets hold of an answer that nobody reads.
    const LARGE_BYTES: u64 = 256 << 20;
    let server = start(engine);
    let file = fs::File::create(server.site().join("other/large.bin")).unwrap();
    file.set_len(LARGE_BYTES).unwrap();
    let mut client = server.connect();
    client.send(b"GET /other/?download=tar HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    client.receive_exactly(10_000).unwrap();
    file.set_len(1_000).unwrap();
    let rest = client.receive_rest();
    assert!((rest.len() as u64) < LARGE_BYTES && !rest.ends_with(b"\r\n0\r\n\r\n"), "{}", rest.len());
    assert!(!entries(&archive(&server, "/other/", "1.1")).is_empty());
    server.finish();
}

fn what_is_not_listed_is_not_downloaded(engine: Engine) {
    let server = start(engine);
    let status = |client: &mut Client<_>, path: &str| client.get(path).map(|answer| answer.status);
    let mut client = server.connect();
    assert_eq!(status(&mut client, "/tree/page/?download=tar"), Ok(404), "it has an index file");
    assert_eq!(status(&mut client, "/tree/b.txt?download=tar"), Ok(200), "a file is itself");
    assert_eq!(status(&mut client, "/tree/?download=rar"), Ok(200), "a listing");
    assert_eq!(status(&mut client, "/tree/none/?download=tar"), Ok(404));
    assert_eq!(status(&mut client, "/tree/b.txt/?download=tar"), Ok(404));
    server.finish();
    let server = Launch::new(engine).file("tree/b.txt", "b\n").start();
    assert_eq!(server.connect().get("/tree/?download=tar").unwrap().status, 403, "nothing is listed");
    server.finish();
    // What a route answers in another way is not a file of the folder.
    let route = "route = [{ match = \"/tree/moved*\", redirect = { to = \"/\", status = 302 } }]";
    let routes = &format!("[[site]]\nroot = \"site\"\nbrowse = true\n{route}\n");
    let launch = Launch::new(engine).file("tree/b.txt", "b\n").file("tree/moved.txt", "m\n").config(routes);
    let server = launch.start();
    let names: Vec<_> = entries(&archive(&server, "/tree/", "1.1")).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["tree/b.txt"]);
    server.finish();
}
