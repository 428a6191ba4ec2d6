//! Applications as people write them, in PHP, Node and Python, behind every engine. They are skipped, by name, where a
//! language is not installed.
//!
//! The upload has 20 MB; `LAMNA_UPLOAD_BYTES` says another number.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};

use super::php::start_php;
use super::post;
use crate::client::{Client, PATIENCE, Response};
use crate::engine::{Engine, for_engines};
use crate::server::{Launch, eventually};
use crate::skip::skipped;
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
    php_keeps_sessions_and_takes_uploads,
    node_sends_events_and_speaks_over_web_sockets,
    python_takes_content_and_makes_answers_while_they_are_sent,
]);

pub(super) fn is_installed(program: &str) -> bool {
    let tried = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    let is_installed = tried.is_ok_and(|status| status.success());
    if !is_installed {
        skipped("gateways::languages", &format!("{program} is not installed"));
    }
    is_installed
}

fn text(response: &Response) -> (u16, String) {
    (response.status, String::from_utf8_lossy(&response.content).into_owned())
}

/// Someone with a browser.
struct Visitor {
    client: Client<TcpStream>,
    cookie: String,
}

impl Visitor {
    fn ask(&mut self, method: &str, path: &str, kind: &str, content: &[u8]) -> Response {
        let (cookie, bytes) = (&self.cookie, content.len());
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: a\r\nCookie: {cookie}\r\nContent-Type: {kind}\r\nContent-Length: {bytes}\r\n\r\n"
        );
        self.client.send(head.as_bytes());
        self.client.send(content);
        let response = self.client.receive(true).unwrap();
        for (name, value) in &response.fields {
            if name.eq_ignore_ascii_case("set-cookie") {
                value.split(';').next().unwrap_or_default().clone_into(&mut self.cookie);
            }
        }
        response
    }

    fn files(&mut self) -> (u16, String) {
        text(&self.ask("GET", "/files", "text/plain", b""))
    }
}

const FORM: &str = "application/x-www-form-urlencoded";

fn php_keeps_sessions_and_takes_uploads(engine: Engine) {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("php.sock");
    let Some(_php) = start_php(directory.path(), &socket) else {
        return skipped("gateways::languages", "php-fpm is not installed");
    };
    let bytes = std::env::var("LAMNA_UPLOAD_BYTES").map_or(20_000_000, |text| text.parse().unwrap());
    let upload = pattern(bytes, 7);
    for buffer in ["false", "true"] {
        let launch = Launch::new(engine).file("index.php", include_str!("application.php"));
        let uploads = launch.site().join("uploads");
        fs::create_dir_all(&uploads).unwrap();
        let socket = socket.display();
        let lines = format!(
            "[[site]]\nroot = \"site\"\n[[site.route]]\nmatch = \"/*\"\ntry = [\"$path\", \"/index.php\"]\n\
             fastcgi = {{ to = \"unix:{socket}\", buffer = {buffer}, body_bytes_max = \"2 GiB\" }}\n"
        );
        let server = launch.config(&lines).start();
        let mut ada = Visitor { client: server.connect(), cookie: String::new() };
        let mut bob = Visitor { client: server.connect(), cookie: String::new() };
        assert_eq!(ada.files(), (403, "sign in first".to_owned()));
        let signed_in = ada.ask("POST", "/sign-in", FORM, b"name=Ada");
        assert_eq!((signed_in.status, signed_in.field("location")), (303, Some("/files")));
        assert_eq!(bob.ask("POST", "/sign-in", FORM, b"name=Bob").status, 303);
        let mut content =
            b"--border\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.bin\"\r\n\r\n".to_vec();
        content.extend_from_slice(&upload);
        content.extend_from_slice(b"\r\n--border--\r\n");
        let taken = ada.ask("POST", "/files", "multipart/form-data; boundary=border", &content);
        assert_eq!(taken.status, 303, "{}", text(&taken).1);
        assert!(fs::read(uploads.join("a.bin")).unwrap() == upload, "all of it has arrived");
        assert_eq!(ada.files(), (200, format!("Ada: a.bin {bytes}")));
        assert_eq!(bob.files(), (200, "Bob: ".to_owned()), "each has a session of its own");
        // What was left is a file like others.
        assert!(ada.ask("GET", "/uploads/a.bin", FORM, b"").content == upload);
        assert_eq!(text(&ada.ask("POST", "/sign-out", FORM, b"")).1, "signed out");
        assert_eq!((ada.files().0, bob.files().0), (403, 200));
        server.finish();
    }
}

/// A server that starts the application, and has it answer everything.
fn launch(engine: Engine, place: &str, program: &str, file: &str, content: &str) -> Launch {
    let launch = Launch::new(engine);
    let path = launch.directory().join(file);
    fs::write(&path, content).unwrap();
    let path = path.display();
    let lines = format!(
        "[[site]]\nroot = \"site\"\n[[site.route]]\nmatch = \"/*\"\n\
         proxy = {{ to = \"{place}\", command = [\"{program}\", \"{path}\"], connect_timeout_ms = 60000 }}\n"
    );
    launch.config(&lines)
}

fn node_sends_events_and_speaks_over_web_sockets(engine: Engine) {
    if !is_installed("node") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let place = format!("unix:{}", directory.path().join("node.sock").display());
    let server = launch(engine, &place, "node", "app.js", include_str!("application.js")).start();
    let (mut listener, mut teller) = (server.connect(), server.connect());
    listener.send(b"GET /events HTTP/1.1\r\nHost: a\r\n\r\n");
    let head = listener.receive_head().unwrap();
    assert_eq!((head.status, head.field("content-type")), (200, Some("text/event-stream")));
    // An event is there before the next is made.
    expect_event(&mut listener, "begun");
    for word in ["one", "two"] {
        assert_eq!(post(&mut teller, "/tell", word.as_bytes()).content, b"1");
        expect_event(&mut listener, word);
    }
    listener.reset();
    eventually("the application learns that its listener has left", PATIENCE, || {
        (teller.get("/listeners").unwrap().content == b"0").then_some(())
    });

    let mut socket = server.connect();
    socket.send(
        b"GET /talk HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
          Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    );
    let head = socket.receive_head().unwrap();
    // The key and what it becomes are those of RFC 6455 1.3.
    assert_eq!((head.status, head.field("sec-websocket-accept")), (101, Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")));
    for word in ["hello", "", "once more"] {
        socket.send(&frame(1, word.as_bytes()));
        let expected = [&[0x81, word.len() as u8], word.as_bytes()].concat();
        assert_eq!(socket.receive_exactly(expected.len()).unwrap(), expected);
    }
    socket.send(&frame(8, &[3, 0xe8]));
    assert_eq!(socket.receive_exactly(4).unwrap(), [0x88, 2, 3, 0xe8]);
    socket.expect_end().unwrap();
    server.finish();
}

/// A chunk with an event.
fn expect_event(client: &mut Client<TcpStream>, word: &str) {
    let event = format!("data: {word}\n\n");
    let chunk = format!("{:x}\r\n{event}\r\n", event.len());
    assert_eq!(String::from_utf8_lossy(&client.receive_exactly(chunk.len()).unwrap()), chunk);
}

/// A short frame of a WebSocket, masked as clients have to.
fn frame(kind: u8, content: &[u8]) -> Vec<u8> {
    const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];
    let masked = content.iter().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask);
    [0x80 | kind, 0x80 | content.len() as u8].into_iter().chain(MASK).chain(masked).collect()
}

/// Says the SHA-256 of a file.
pub(super) fn digest_of(file: &Path) -> Option<String> {
    let output = Command::new("sha256sum").arg(file).output().ok()?;
    String::from_utf8(output.stdout).ok()?.split(' ').next().map(str::to_owned)
}

fn python_takes_content_and_makes_answers_while_they_are_sent(engine: Engine) {
    if !is_installed("python3") || !is_installed("sha256sum") {
        return;
    }
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let place = format!("http://127.0.0.1:{port}");
    let mut server = launch(engine, &place, "python3", "app.py", include_str!("wsgi_application.py")).start();
    let mut client = server.connect();
    let rows: String = (0..20_000).map(|number| format!("row {number}\n")).collect();
    assert!(client.get("/rows?count=20000").unwrap().content == rows.into_bytes());
    let content = pattern(3_000_000, 11);
    let file = server.directory().join("content");
    fs::write(&file, &content).unwrap();
    assert_eq!(text(&post(&mut client, "/digest", &content)), (200, digest_of(&file).unwrap()));
    assert_eq!(text(&client.get("/none").unwrap()), (404, "nothing is here".to_owned()));
    assert_eq!(client.get("/fails").unwrap().status, 500);
    server.wait_to_hear("RuntimeError: the application has failed");
    assert_eq!(client.get("/rows?count=1").unwrap().content, b"row 0\n", "it goes on");
    server.finish();
}
