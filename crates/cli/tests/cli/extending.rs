//! The extensions of docs/extending.md, added to a copy of the tree as it says: how many files each touches, and that
//! the server built of the copy has them all.
//!
//! Owns: the meaning of a block of code with `add=FILE`. It is a new file; or it goes behind the first line that has
//! the text after `behind=`; or to the end of its file. A block for the shell makes the file.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use crate::first_use::start_program;

/// The sections that add something, and the files that they touch.
const EXTENSIONS: [(&str, &[&str]); 5] = [
    ("A cache policy", &["crates/policy/src/cache/clock.rs", "crates/policy/src/cache/mod.rs"]),
    ("A filter of the server", &["crates/filter/src/lib.rs", "crates/filter/src/upper_case.rs"]),
    ("A responder", &["crates/site/src/content/health.rs", "crates/site/src/content/mod.rs"]),
    ("A key of a route", &["crates/config/src/route/rows.rs", "crates/site/src/content/route/additions.rs"]),
    // A file for the counter, and one of those in which something is counted.
    ("A counter", &["crates/engine/src/worker/context/responders.rs", "crates/sys/src/metrics/counters.rs"]),
];

/// The configuration of a server that has them.
const CONFIG: &str = r#"
cache_policy = "clock"
[[site]]
root = "site"
[[site.route]]
match = "*.txt"
filters = ["upper_case"]
attachment = true
"#;

/// Text by the path of its file in the tree.
type Files = BTreeMap<String, String>;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the crate is in the repository").to_owned()
}

/// The blocks of a section that add something: the words behind the language, and the code.
fn blocks<'d>(document: &'d str, section: &str) -> Vec<(&'d str, &'d str)> {
    let rest = document.split_once(&format!("\n## {section}\n")).unwrap_or_else(|| panic!("no section `{section}`")).1;
    let text = rest.split("\n## ").next().unwrap_or(rest);
    let blocks = text.split("\n```").skip(1).step_by(2);
    blocks
        .filter_map(|block| block.split_once('\n'))
        .filter_map(|(info, code)| Some((info.split_once("add=")?.1, code)))
        .collect()
}

/// Adds the blocks of a section to `files`, which has the files that were touched before. Returns those that the
/// section touches.
fn add(document: &str, section: &str, files: &mut Files) -> Vec<String> {
    let mut touched = Vec::new();
    for (place, code) in blocks(document, section) {
        let (name, line) = place.split_once(" behind=").unwrap_or((place, ""));
        let was = files.get(name).cloned().or_else(|| fs::read_to_string(repository().join(name)).ok());
        let code = format!("{code}\n");
        let is = match was {
            None => code.strip_prefix("sed ").map_or(code.clone(), edited),
            Some(text) if line.is_empty() => format!("{text}{code}"),
            Some(text) => {
                let at = text.find(line).unwrap_or_else(|| panic!("{name} has no `{line}`"));
                let at = at + text[at..].find('\n').map_or(text.len() - at, |end| end + 1);
                format!("{}{code}{}", &text[..at], &text[at..])
            }
        };
        files.insert(name.to_owned(), is);
        touched.push(name.to_owned());
    }
    touched.sort();
    touched.dedup();
    touched
}

/// The file that `sed` makes with these arguments.
fn edited(arguments: &str) -> String {
    let (arguments, _) = arguments.split_once(" > ").expect("the output goes to a file");
    let made = Command::new("sed").args(arguments.split(' ')).current_dir(repository()).output().expect("sed runs");
    assert!(made.status.success(), "{made:?}");
    String::from_utf8(made.stdout).expect("sources are text")
}

fn document() -> String {
    fs::read_to_string(repository().join("docs/extending.md")).expect("it is there")
}

/// All files that the extensions touch, with them.
fn extended() -> Files {
    let mut files = Files::new();
    EXTENSIONS.iter().for_each(|(section, _)| _ = add(&document(), section, &mut files));
    files
}

#[test]
fn an_extension_touches_the_files_that_it_is_said_to_and_no_other() {
    let document = document();
    for (section, files) in EXTENSIONS {
        assert_eq!(add(&document, section, &mut Files::new()), files, "{section}");
    }
}

/// Builds for about a minute.
#[test]
#[ignore = "builds the server"]
fn a_server_with_all_extensions_is_built_and_has_them() {
    let copy = Path::new(env!("CARGO_TARGET_TMPDIR")).join("extending");
    let program = build(&copy);
    let site = tempfile::tempdir().expect("there is room for one");
    fs::create_dir(site.path().join("site")).expect("it is empty");
    fs::write(site.path().join("site/a.txt"), "Hello\n").expect("it can be written");
    fs::write(site.path().join("lamna.toml"), CONFIG).expect("it can be written");

    let admin = site.path().join("admin");
    let arguments =
        ["serve", "--config", "lamna.toml", "-l", "127.0.0.1:0", "--admin", &format!("unix:{}", admin.display())];
    let server = start_program(&program, site.path(), &arguments, &[]);
    let file = server.ask_for("/a.txt", "GET", "");
    assert!(file.contains("\r\nContent-Disposition: attachment\r\n"), "the key of a route: {file}");
    assert!(file.ends_with("\r\n\r\nHELLO\n"), "the filter: {file}");
    let health = server.ask_for("/health", "GET", "");
    assert!(health.starts_with("HTTP/1.1 200") && health.ends_with("\r\n\r\nhealthy\n"), "the responder: {health}");
    let said = |arguments: &[&str]| {
        let output = Command::new(&program).args(arguments).current_dir(site.path()).output().expect("it runs");
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).expect("it prints text")
    };
    let control = format!("unix:{}", admin.display());
    // Workers hand over what they have counted now and then.
    let programs = || {
        let stats = said(&["ctl", "--admin", &control, "stats", "--json"]);
        serde_json::from_str::<serde_json::Value>(&stats).expect("it is JSON")["programs"].as_u64()
    };
    let until = Instant::now() + Duration::from_secs(20);
    while programs() == Some(0) && Instant::now() < until {
        thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(programs(), Some(1), "the counter");
    let settings = said(&["check", "--config", "lamna.toml"]);
    assert!(settings.contains("cache_policy = \"clock\"") && settings.contains("attachment = true"), "{settings}");
}

/// Builds the program of the tree with the extensions in `copy`. It shares the dependencies with this build: its own
/// crates have another version, so that they are others for cargo.
fn build(copy: &Path) -> PathBuf {
    let mut files = extended();
    // Cargo writes to it.
    let lock = fs::read_to_string(repository().join("Cargo.lock")).expect("it is there");
    files.insert("Cargo.lock".to_owned(), lock);
    let mut edit = |name: &str, from: &str, to: &str| {
        let text = fs::read_to_string(repository().join(name)).expect("it is there");
        assert!(text.contains(from), "{name} has `{from}`");
        files.insert(name.to_owned(), text.replacen(from, to, 1));
    };
    edit("Cargo.toml", "\nversion = \"0.1.0\"\n", "\nversion = \"0.1.0-extended\"\n");
    // The features of dependencies are those of tests. So a test is built, which is empty, and the program with it.
    let targets = "autotests = false\nautobins = false\n[[bin]]\nname = \"lamna-extended\"\npath = \"src/main.rs\"\n\
                   [[test]]\nname = \"extended\"\npath = \"tests/extended.rs\"\n";
    edit("crates/cli/Cargo.toml", "autotests = false\n", targets);
    files.insert("crates/cli/tests/extended.rs".to_owned(), "//! Nothing.\n".to_owned());

    let _ = fs::remove_dir_all(copy);
    for name in ["Cargo.toml", "crates", "docs"] {
        link(&repository().join(name), &copy.join(name)).expect("the tree can be copied");
    }
    for (name, text) in files {
        let path = copy.join(name);
        // A link is to the tree's own file.
        let _ = fs::remove_file(&path);
        fs::write(&path, text).expect("the copy can be changed");
    }
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("it is in the directory of the build");
    let built = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()))
        .args(["test", "--offline", "--workspace", "--test", "extended", "--no-run"])
        .args((!cfg!(debug_assertions)).then_some("--release"))
        .current_dir(copy)
        .env("CARGO_TARGET_DIR", directory)
        .env("CARGO_INCREMENTAL", "0")
        .output()
        .expect("cargo runs");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let profile = if cfg!(debug_assertions) { "debug" } else { "release" };
    directory.join(profile).join("lamna-extended")
}

/// Links the files at `from` to the same places below `to`; copies them where that is another file system.
fn link(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to.parent().expect("it is in a directory"))?;
    if !from.is_dir() {
        return fs::hard_link(from, to).or_else(|_| fs::copy(from, to).map(|_| ()));
    }
    fs::read_dir(from)?.try_for_each(|entry| {
        let entry = entry?;
        link(&entry.path(), &to.join(entry.file_name()))
    })
}
