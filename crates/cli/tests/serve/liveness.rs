//! Nothing that could go on waits for ever: an ordinary client, of the standard library of Go, compares every byte of
//! kept answers over HTTP/2 and of uploads over TLS, with every engine.
//!
//! Owns: the application that is asked, and building the client (`liveness/client.go`). Without Go the tests are
//! skipped, by name.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::thread;

use crate::engine::{Engine, for_engines};
use crate::server::Launch;
use crate::skip::skipped;

for_engines!(all kept_answers_over_http_2_have_every_engine: [
    mp = MP,
    thread_pool = THREAD_POOL,
    thread_per_request = THREAD_PER_REQUEST,
    thread_per_session = THREAD_PER_SESSION,
    sped = SPED,
    amped = AMPED,
    amped_2 = AMPED_2,
    co_amped = CO_AMPED,
    pipelined = PIPELINED,
    proactor = PROACTOR,
] => [
    kept_answers_arrive_whole_on_streams_beside_each_other,
    uploads_over_tls_with_pauses_are_answered,
]);

/// How long the client waits for an answer, in milliseconds.
pub(crate) const PATIENCE_MS: &str = "20000";

/// The program of Go, if there is one.
fn go() -> Option<&'static str> {
    let works = |program: &&str| Command::new(program).arg("version").output().is_ok_and(|ran| ran.status.success());
    ["go", "/usr/local/go/bin/go"].into_iter().find(works)
}

/// The client, built once for each process of tests. None if there is no Go.
fn client() -> Option<&'static PathBuf> {
    static CLIENT: OnceLock<Option<PathBuf>> = OnceLock::new();
    CLIENT.get_or_init(|| go().map(build)).as_ref()
}

fn build(go: &str) -> PathBuf {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let (built, client) = (directory.join(format!("client-{}", std::process::id())), directory.join("client"));
    let source = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/serve/liveness/client.go");
    let mut command = Command::new(go);
    command.arg("build").arg("-o").arg(&built).arg(&source).current_dir(&directory);
    command.env("GOCACHE", directory.join("go-cache")).env("GOTOOLCHAIN", "local").env("GOFLAGS", "");
    let ran = command.output().expect("it has just been found");
    assert!(ran.status.success(), "the client is not built: {}", String::from_utf8_lossy(&ran.stderr));
    // Another process of tests may be running the one that is there.
    std::fs::rename(&built, &client).expect("both are in one directory");
    client
}

/// Runs the client, which ends by itself. False if there is none.
#[track_caller]
pub(crate) fn run(name: &str, arguments: &[&str]) -> bool {
    let Some(client) = client() else {
        skipped(name, "there is no Go to build its client with");
        return false;
    };
    let ran = Command::new(client).args(arguments).output().expect("it was built");
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{name}: {said}{}", String::from_utf8_lossy(&ran.stderr));
    true
}

/// Answers requests for `/p/ID/BYTES` with so many bytes, which differ by ID, and may be kept.
fn application() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || converse(stream));
        }
    });
    address
}

/// Nothing if the connection ends.
fn converse(mut stream: TcpStream) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head).ok()? == 0 {
                return None;
            }
        }
        let mut names = head.split(' ').nth(1)?.split('/').skip(2);
        let (id, bytes) = (names.next()?.parse::<usize>().ok()?, names.next()?.parse::<usize>().ok()?);
        let content: Vec<u8> = (0..bytes).map(|at| (id * 31 + at / 7 + (at >> 8)) as u8).collect();
        write!(stream, "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: {bytes}\r\n\r\n").ok()?;
        stream.write_all(&content).ok()?;
    }
}

fn kept_answers_arrive_whole_on_streams_beside_each_other(engine: Engine) {
    let to = application();
    let route = format!("{{ match = \"/*\", proxy = \"http://{to}\", cache = {{ bytes_max = \"16MiB\" }} }}");
    let lines = format!("h2c = true\n[[site]]\nroot = \"site\"\nroute = [{route}]\n");
    let server = Launch::new(engine).config(&lines).start();
    let address = server.address().to_string();
    if run(
        "kept_answers_arrive_whole_on_streams_beside_each_other",
        &["kept", &address, "2", "8", "80", "60000", "250000", PATIENCE_MS],
    ) {
        server.finish();
    }
}

fn uploads_over_tls_with_pauses_are_answered(engine: Engine) {
    let server = Launch::new(engine).argument("--upload").argument("--tls").start();
    let address = server.address().to_string();
    if run(
        "uploads_over_tls_with_pauses_are_answered",
        &["put", &address, "4", "30", "15000", "100000", "10", PATIENCE_MS],
    ) {
        server.finish();
    }
}
