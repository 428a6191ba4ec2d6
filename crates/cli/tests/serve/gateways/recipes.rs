//! The recipes of the manual, as they stand there, with other addresses.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering::Relaxed;

use super::php::start_php;
use super::secure::start_secure;
use super::{Application, post};
use crate::engine::AMPED;
use crate::server::{Launch, Server};
use crate::skip::skipped;

const MANUAL: &str = include_str!("../../../../../docs/gateways.md");

/// The code in `language` beneath a heading.
pub(super) fn recipe(heading: &str, language: &str) -> &'static str {
    let (_, below) =
        MANUAL.split_once(&format!("\n### {heading}\n")).unwrap_or_else(|| panic!("there is no {heading}"));
    let section = below.split("\n### ").next().unwrap();
    let (_, code) =
        section.split_once(&format!("```{language}\n")).unwrap_or_else(|| panic!("{heading} has no {language}"));
    code.split("```").next().unwrap()
}

/// A server with the configuration of a recipe, in which texts have been replaced.
fn serve(launch: Launch, heading: &str, replaced: &[(&str, String)]) -> Server {
    let root = launch.site();
    fs::create_dir_all(&root).unwrap();
    let mut lines = recipe(heading, "toml").to_owned();
    for (text, by) in replaced {
        assert!(lines.contains(text), "{heading} has no {text}");
        lines = lines.replace(text, by);
    }
    launch.config(&lines.replace("/srv/www", &root.display().to_string())).start()
}

/// A program of a recipe, which says its port.
struct Program(Child, SocketAddr);

impl Drop for Program {
    fn drop(&mut self) {
        // It has ended if this fails.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Nothing if the interpreter is not installed.
fn run(interpreter: &str, heading: &str, language: &str, directory: &Path) -> Option<Program> {
    let file = directory.join("app");
    fs::write(&file, recipe(heading, language)).unwrap();
    let mut command = Command::new(interpreter);
    command.arg(&file).env("PORT", "0").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let mut line = String::new();
    let read = BufReader::new(child.stdout.take().unwrap()).read_line(&mut line);
    let port = line.trim().parse::<u16>();
    let program = Program(child, SocketAddr::from(([127, 0, 0, 1], port.clone().unwrap_or(0))));
    assert!(read.is_ok() && port.is_ok(), "{heading} does not say its port: {line:?}");
    Some(program)
}

fn told(server: &Server, path: &str) -> (u16, String) {
    let response = server.connect().get(path).unwrap();
    (response.status, String::from_utf8_lossy(&response.content).into_owned())
}

#[test]
fn node() {
    let launch = Launch::new(AMPED).file("a.txt", "a file\n");
    let Some(program) = run("node", "Node", "js", launch.directory()) else {
        return skipped("gateways::recipes::node", "node is not installed");
    };
    let server = serve(launch, "Node", &[("127.0.0.1:3000", program.1.to_string())]);
    for _ in 0..3 {
        assert_eq!(told(&server, "/api/x?y"), (200, "GET /api/x?y for 127.0.0.1\n".to_owned()));
    }
    assert_eq!(told(&server, "/a.txt"), (200, "a file\n".to_owned()));
    server.finish();
}

#[test]
fn python() {
    let launch = Launch::new(AMPED);
    let Some(program) = run("python3", "Python", "python", launch.directory()) else {
        return skipped("gateways::recipes::python", "python3 is not installed");
    };
    let server = serve(launch, "Python", &[("127.0.0.1:3000", program.1.to_string())]);
    assert_eq!(told(&server, "/x/y"), (200, "GET /x/y of test\n".to_owned()));
    server.finish();
}

#[test]
fn php() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("php.sock");
    let Some(_php) = start_php(directory.path(), &socket) else {
        return skipped("gateways::recipes::php", "php-fpm is not installed");
    };
    let index = "<?php echo $_SERVER['REQUEST_URI'], ' by ', $_SERVER['SCRIPT_NAME'];";
    let launch = Launch::new(AMPED).file("index.php", index).file("a.css", "a {}\n");
    let server = serve(launch, "PHP", &[("/run/php/php-fpm.sock", socket.display().to_string())]);
    assert_eq!(told(&server, "/pretty/address"), (200, "/pretty/address by /index.php".to_owned()));
    assert_eq!(told(&server, "/a.css"), (200, "a {}\n".to_owned()));
    server.finish();
}

#[test]
fn web_socket() {
    let application = Application::start();
    let launch = Launch::new(AMPED).file("a.txt", "a file\n");
    let server = serve(launch, "WebSocket", &[("127.0.0.1:3000", application.address.to_string())]);
    let mut client = server.connect();
    client.send(
        b"GET /app/web-socket HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\r\n",
    );
    assert_eq!(client.receive_head().unwrap().status, 101);
    client.send(b"hello");
    assert_eq!(client.receive_exactly(5).unwrap(), b"hello");
    drop(client);
    assert_eq!(told(&server, "/a.txt"), (200, "a file\n".to_owned()));
    server.finish();
}

#[test]
fn several_places() {
    let (first, second) = (Application::start(), Application::start());
    let addresses = [("10.0.0.1:3000", first.address.to_string()), ("10.0.0.2:3000", second.address.to_string())];
    let server = serve(Launch::new(AMPED), "Several places", &addresses);
    let mut client = server.connect();
    for _ in 0..40 {
        assert_eq!(post(&mut client, "/app/echo", b"x").content, b"x");
    }
    // The spare, where nobody listens, is not asked.
    assert!(first.accepted.load(Relaxed) > 0 && second.accepted.load(Relaxed) > 0);
    server.finish();
}

#[test]
fn one_application_for_several_routes() {
    let (first, second) = (Application::start(), Application::start());
    let replaced = [
        ("127.0.0.1:3000", first.address.to_string()),
        ("127.0.0.1:3001", second.address.to_string()),
        ("\"/up\"", "\"/app/sized/1\"".to_owned()),
    ];
    let launch = Launch::new(AMPED).file("app/sized/2", "a file\n");
    let server = serve(launch, "One application for several routes", &replaced);
    assert_eq!(told(&server, "/app/sized/2"), (200, "a file\n".to_owned()));
    assert_eq!(told(&server, "/app/sized/1").0, 200);
    server.finish();
}

#[test]
fn behind_a_balancer() {
    let application = Application::start();
    let replaced = [("127.0.0.1:3000", application.address.to_string()), ("10.0.0.0/8", "127.0.0.0/8".to_owned())];
    let server = serve(Launch::new(AMPED), "Behind a balancer", &replaced);
    let mut client = server.connect();
    client.send(b"GET /app/told HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 192.0.2.7\r\n\r\n");
    let told = String::from_utf8(client.receive(true).unwrap().content).unwrap();
    assert!(told.contains("\r\nX-Forwarded-For: 192.0.2.7, 127.0.0.1\r\n"), "{told}");
    server.finish();
}

#[test]
fn over_tls() {
    let launch = Launch::new(AMPED);
    let application = start_secure(launch.directory(), &["127.0.0.1"], &[&rustls::version::TLS13]);
    fs::rename(launch.directory().join("certificate.pem"), launch.directory().join("app-ca.pem")).unwrap();
    let server = serve(launch, "Over TLS", &[("app.internal:8443", application.address.to_string())]);
    assert_eq!(told(&server, "/app/sized/0"), (200, String::new()));
    server.finish();
}
