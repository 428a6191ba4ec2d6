//! The first five minutes: what a server that was started by hand does and says.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// A server that is killed at the end of its test.
pub(crate) struct Server {
    child: Child,
    /// What it has said up to the line that says where it serves, which is the last.
    said: Vec<String>,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts `lamna` in `directory`, and waits until it serves.
fn start(directory: &Path, arguments: &[&str], environment: &[(&str, &Path)]) -> Server {
    start_program(Path::new(env!("CARGO_BIN_EXE_lamna")), directory, arguments, environment)
}

/// The same with another build of the program.
pub(crate) fn start_program(
    program: &Path,
    directory: &Path,
    arguments: &[&str],
    environment: &[(&str, &Path)],
) -> Server {
    let runtime = tempfile::tempdir().unwrap();
    let mut child = Command::new(program)
        .args(arguments)
        .current_dir(directory)
        .env("LAMNA_RUNTIME_DIR", runtime.path().join("control"))
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = Vec::new();
    for line in BufReader::new(child.stderr.take().unwrap()).lines() {
        let line = line.unwrap();
        let is_last = line.starts_with("lamna: serving ");
        said.push(line);
        if is_last {
            break;
        }
    }
    Server { child, said }
}

impl Server {
    fn said(&self) -> String {
        self.said.join("\n")
    }

    /// The answer to `method` for `/` with these further fields, head and content.
    fn ask(&self, method: &str, fields: &str) -> String {
        self.ask_for("/", method, fields)
    }

    /// The same for a path.
    pub(crate) fn ask_for(&self, path: &str, method: &str, fields: &str) -> String {
        let line = self.said.last().unwrap();
        let port = line.split("http://").nth(1).and_then(|rest| rest.split([' ', ',']).next()?.rsplit(':').next());
        let mut stream = TcpStream::connect(("127.0.0.1", port.unwrap().parse().unwrap())).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        write!(stream, "{method} {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{fields}\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

/// A directory with a file that is no index.
fn folder() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("notes.txt"), "notes").unwrap();
    directory
}

#[test]
fn a_folder_without_an_index_is_listed_for_this_machine() {
    let folder = folder();
    let server = start(folder.path(), &["--port", "0"], &[]);
    let answer = server.ask("GET", "");
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("href=\"./notes.txt\""), "{answer}");
    assert!(server.said().contains("has no index file: it is listed"), "{}", server.said());

    let server = start(folder.path(), &["--port", "0", "--browse=false"], &[]);
    assert!(server.ask("GET", "").starts_with("HTTP/1.1 403 "));
}

#[test]
fn a_folder_without_an_index_that_others_reach_is_not_listed_and_page_and_terminal_say_how() {
    let folder = folder();
    let server = start(folder.path(), &["--listen", "0.0.0.0:0"], &[]);
    let answer = server.ask("GET", "");
    assert!(answer.starts_with("HTTP/1.1 403 ") && answer.contains("--browse"), "{answer}");
    let said = server.said();
    assert!(said.contains("lamna: warning: ") && said.contains("--browse lists it"), "{said}");

    fs::write(folder.path().join("index.html"), "home").unwrap();
    let server = start(folder.path(), &["--listen", "0.0.0.0:0"], &[]);
    assert!(server.ask("GET", "").ends_with("home") && !server.said().contains("--browse"), "{}", server.said());
}

#[test]
fn open_has_the_browser_open_the_address() {
    let folder = folder();
    let (browser, opened) = (folder.path().join("browser"), folder.path().join("opened"));
    fs::write(&browser, format!("#!/bin/sh\nprintf %s \"$*\" > {0}.new && mv {0}.new {0}\n", opened.display()))
        .unwrap();
    fs::set_permissions(&browser, fs::Permissions::from_mode(0o755)).unwrap();
    let server = start(folder.path(), &["--port", "0", "--open"], &[("BROWSER", &browser)]);
    let end = Instant::now() + Duration::from_secs(20);
    while !opened.exists() {
        assert!(Instant::now() < end, "no browser was opened: {}", server.said());
        std::thread::sleep(Duration::from_millis(5));
    }
    let url = fs::read_to_string(&opened).unwrap();
    assert!(server.said().contains(url.trim_end_matches('/')) && url.starts_with("http://127.0.0.1:"), "{url}");
}

#[test]
fn a_browser_that_is_not_there_and_a_code_for_nobody_are_said_and_the_server_serves() {
    let folder = folder();
    let server =
        start(folder.path(), &["--port", "0", "--open", "--qr"], &[("BROWSER", Path::new("/nowhere/browser"))]);
    let said = server.said();
    assert!(said.contains("/nowhere/browser, which is not there; open http://127.0.0.1:"), "{said}");
    assert!(said.contains("no QR code: only this machine reaches the server"), "{said}");
    assert!(server.ask("GET", "").starts_with("HTTP/1.1 200 "));
}

#[test]
fn cors_lets_pages_of_other_origins_read_and_preflights_are_answered() {
    let folder = folder();
    let server = start(folder.path(), &["--port", "0", "--cors=https://a.example", "--header", "X-A: 1"], &[]);
    let asks =
        "Origin: https://a.example\r\nAccess-Control-Request-Method: GET\r\nAccess-Control-Request-Headers: range\r\n";
    let preflight = server.ask("OPTIONS", asks);
    for field in ["Origin: https://a.example", "Methods: GET, HEAD, OPTIONS", "Headers: *"] {
        assert!(preflight.contains(&format!("\r\nAccess-Control-Allow-{field}\r\n")), "{preflight}");
    }
    let answer = server.ask("GET", "Origin: https://a.example\r\n");
    assert!(answer.contains("\r\nAccess-Control-Allow-Origin: https://a.example\r\n"), "{answer}");
    assert!(answer.contains("\r\nX-A: 1\r\n"), "{answer}");
}

#[test]
fn quiet_says_nothing_but_what_is_wrong() {
    let folder = folder();
    fs::write(folder.path().join("index.html"), "").unwrap();
    let checked = Command::new(env!("CARGO_BIN_EXE_lamna"))
        .args(["check", "--quiet", "--port", "0"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let settings = String::from_utf8(checked.stdout).unwrap();
    assert!(
        settings.contains("\nlog = \"off\"\n") && settings.contains("\nerror_log_level = \"warning\"\n"),
        "{settings}"
    );
}
