//! Content that is kept until it is whole before an application is asked, with every engine.

use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

use super::php::start_php;
use super::{Application, post};
use crate::client::{Client, PATIENCE, Response};
use crate::control::order;
use crate::engine::{AMPED, Engine, for_engines, names_of_one_process};
use crate::http2::{Http2, request};
use crate::server::{Launch, Server, eventually, processes_of};
use crate::skip::skipped;
use crate::tree::pattern;
use crate::uploads::faults::{DISK_BYTES, memory, small_disk};

for_engines!(all every_architecture_keeps_content: [
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
    an_application_is_asked_when_content_is_whole_and_is_told_its_length,
    streams_of_http_2_are_kept_as_well,
    fastcgi_gets_content_whose_length_the_client_did_not_say,
    what_is_idempotent_is_asked_again_with_its_content,
    what_is_too_long_is_refused,
    a_full_disk_is_said_and_holds_nothing_afterwards,
    nothing_is_left_when_the_client_leaves,
    content_takes_little_memory_however_long_it_is,
]);

/// More than the kernel takes on the way to a server that does not read (4 MiB of ours and 6 MiB of its).
const LONG: usize = 16 << 20;

fn start(engine: Engine, application: &Application) -> Server {
    let to = application.address;
    let route = |path: &str, more: &str| {
        format!("[[site.route]]\nmatch = \"/app/{path}*\"\nproxy = {{ to = \"http://{to}\", buffer = {more} }}\n")
    };
    // The last route that says something of a path has its way.
    let lines = format!(
        "[[site]]\nroot = \"site\"\n{}{}",
        route("", "\"32 KiB\", buffer_directory = \"kept\""),
        route("small/", "true, body_bytes_max = 100000")
    );
    let launch = Launch::new(engine).config(&lines).argument("--h2c");
    std::fs::create_dir(launch.directory().join("kept")).unwrap();
    launch.start()
}

/// Sends `content` in chunks, all but the last byte of it, and its end with [`end_chunks`].
pub(super) fn begin_chunks(client: &mut Client<TcpStream>, path: &str, content: &[u8]) {
    client.send(format!("POST {path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n").as_bytes());
    for chunk in content[..content.len() - 1].chunks(50_000) {
        client.send(&[format!("{:x}\r\n", chunk.len()).as_bytes(), chunk, b"\r\n"].concat());
    }
}

pub(super) fn end_chunks(client: &mut Client<TcpStream>, content: &[u8]) -> Response {
    client.send(&[b"1\r\n", &content[content.len() - 1..], b"\r\n0\r\n\r\n"].concat());
    client.receive(true).unwrap()
}

fn an_application_is_asked_when_content_is_whole_and_is_told_its_length(engine: Engine) {
    let application = Application::start();
    let server = start(engine, &application);
    let content = pattern(LONG, 7);
    let mut client = server.connect();
    // The server has read most of it when all has been sent.
    begin_chunks(&mut client, "/app/echo", &content);
    assert_eq!(application.accepted.load(Relaxed), 0, "the application is not asked before");
    assert!(end_chunks(&mut client, &content).content == content);
    for bytes in [1, 2, 20_000, 32 << 10, (32 << 10) + 1, 400_000] {
        let content = pattern(bytes, 5);
        assert!(post(&mut client, "/app/echo", &content).content == content, "{bytes}");
        begin_chunks(&mut client, "/app/echo", &content);
        assert!(end_chunks(&mut client, &content).content == content, "{bytes} in chunks");
        begin_chunks(&mut client, "/app/framing", &content);
        assert_eq!(end_chunks(&mut client, &content).content, format!("{bytes} - {bytes}").as_bytes());
    }
    client.send(b"POST /app/framing HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
    assert_eq!(client.receive(true).unwrap().content, b"0 - 0");
    assert_eq!(client.get("/app/sized/70000").unwrap().content, pattern(70_000, 3), "the connection is in step");
    let mut refused = server.connect();
    assert_eq!(post(&mut refused, "/app/refuses", &content).status, 413, "an answer before the end is passed on");
    server.finish();
}

fn streams_of_http_2_are_kept_as_well(engine: Engine) {
    let application = Application::start();
    let server = start(engine, &application);
    let mut client = Http2::connect(server.address());
    let sizes = [1, 30_000, 70_000, 700_000];
    let contents = sizes.map(|bytes| pattern(bytes, 5));
    let of = |path: &str| {
        contents.iter().map(|content| request("POST", path, &[]).map(|_| content.clone())).collect::<Vec<_>>()
    };
    for (answer, content) in client.ask(of("/app/echo")).into_iter().zip(&contents) {
        assert!(answer.unwrap().content == *content);
    }
    for (answer, bytes) in client.ask(of("/app/framing")).into_iter().zip(sizes) {
        assert_eq!(answer.unwrap().content, format!("{bytes} - {bytes}").as_bytes());
    }
    drop(client);
    server.finish();
}

fn fastcgi_gets_content_whose_length_the_client_did_not_say(engine: Engine) {
    const SCRIPT: &str = "<?php echo $_SERVER['CONTENT_LENGTH'], ' ', md5(file_get_contents('php://input'));";
    const SUM: &str = "<?php echo md5_file('content');";
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("php.sock");
    let Some(_php) = start_php(directory.path(), &socket) else {
        return skipped("gateways::buffered", "php-fpm is not installed");
    };
    let fastcgi = format!("fastcgi = {{ to = \"unix:{}\", buffer = true }}", socket.display());
    let content = pattern(300_000, 3);
    let launch = Launch::new(engine).file("index.php", SCRIPT).file("sum.php", SUM).file("content", &content);
    let server =
        launch.config(&format!("[[site]]\nroot = \"site\"\n[[site.route]]\nmatch = \"/*\"\n{fastcgi}\n")).start();
    let mut client = server.connect();
    let sum = String::from_utf8(client.get("/sum.php").unwrap().content).unwrap();
    for _ in 0..2 {
        begin_chunks(&mut client, "/", &content);
        let answer = end_chunks(&mut client, &content);
        assert_eq!((answer.status, String::from_utf8(answer.content).unwrap()), (200, format!("300000 {sum}")));
    }
    assert_eq!(post(&mut client, "/", &content).content, format!("300000 {sum}").as_bytes());
    server.finish();
}

/// Takes connections and something of what is said on each, and closes them without an answer.
fn closing() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            // Whatever comes of it, the connection is closed.
            let _ = stream.read(&mut [0; 10_000]);
        }
    });
    address
}

fn what_is_idempotent_is_asked_again_with_its_content(engine: Engine) {
    let application = Application::start();
    let (to, bad) = (application.address, closing());
    // Nobody listens there any more.
    let deserted = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let route = |path: &str, first: SocketAddr| {
        format!(
            "[[site.route]]\nmatch = \"{path}\"\n\
             proxy = {{ to = [\"http://{first}\", \"http://{to}\"], weights = [1, 0], buffer = \"10 KiB\" }}\n"
        )
    };
    let lines = format!("[[site]]\nroot = \"site\"\n{}{}", route("/app/echo", bad), route("/app/framing", deserted));
    let server = Launch::new(engine).config(&lines).start();
    for bytes in [5_000, 500_000] {
        let content = pattern(bytes, 5);
        let ask = |method: &str, path: &str| {
            let mut client = server.connect();
            client.send(format!("{method} {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {bytes}\r\n\r\n").as_bytes());
            client.send(&content);
            client.receive(true).unwrap()
        };
        assert_eq!(ask("POST", "/app/echo").status, 502, "what has been asked may have had an effect");
        assert!(ask("PUT", "/app/echo").content == content);
        assert_eq!(ask("POST", "/app/framing").content, format!("{bytes} - {bytes}").as_bytes());
    }
    server.finish();
}

fn what_is_too_long_is_refused(engine: Engine) {
    let application = Application::start();
    let server = start(engine, &application);
    let content = pattern(100_001, 3);
    assert_eq!(post(&mut server.connect(), "/app/small/echo", &content).status, 413);
    let mut client = server.connect();
    begin_chunks(&mut client, "/app/small/echo", &content);
    assert_eq!(end_chunks(&mut client, &content).status, 413);
    assert_eq!(application.accepted.load(Relaxed), 0, "the application is not asked");
    server.finish();
}

fn a_full_disk_is_said_and_holds_nothing_afterwards(engine: Engine) {
    let application = Application::start();
    let to = application.address;
    let buffer = "buffer = \"64 KiB\", buffer_directory = \"site\"";
    let lines = format!(
        "[[site]]\nroot = \"site\"\n[[site.route]]\nmatch = \"/app/*\"\nproxy = {{ to = \"http://{to}\", {buffer} }}\n"
    );
    let launch = Launch::new(engine).config(&lines);
    let Some(words) = small_disk(&launch.site()) else {
        return skipped("a_full_disk_is_said_and_holds_nothing_afterwards", "file systems cannot be mounted here");
    };
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut server = launch.wrapped(&words).start();
    let (large, fits) = (pattern(3 * DISK_BYTES, 3), pattern(DISK_BYTES * 3 / 4, 5));
    for _ in 0..3 {
        assert_eq!(post(&mut server.connect(), "/app/echo", &large).status, 507);
        // There is room again for what fits, once who closes files has closed the one before.
        eventually("there is room", PATIENCE, || {
            let answer = post(&mut server.connect(), "/app/echo", &fits);
            assert!(answer.status == 507 || answer.content == fits);
            (answer.status == 200).then_some(())
        });
    }
    server.wait_to_hear("content of a request cannot be kept");
    server.finish();
}

/// The lengths of files without a name that the processes of a server hold.
pub(super) fn lengths_of_files_held(server: &Server) -> Vec<u64> {
    let kept = server.directory().join("kept");
    let is_kept = |descriptor: &PathBuf| {
        let link = std::fs::read_link(descriptor).unwrap_or_default();
        link.starts_with(&kept) && link.to_string_lossy().ends_with("(deleted)")
    };
    let of = |process: i32| {
        let descriptors = std::fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
        let files = descriptors.map(|descriptor| descriptor.path()).filter(is_kept);
        files.filter_map(|file| Some(std::fs::metadata(file).ok()?.len())).collect::<Vec<u64>>()
    };
    processes_of(&server.directory().join("lamna.toml")).into_keys().flat_map(of).collect()
}

fn files_held(server: &Server) -> usize {
    lengths_of_files_held(server).len()
}

fn nothing_is_left_when_the_client_leaves(engine: Engine) {
    let application = Application::start();
    let server = start(engine, &application);
    let content = pattern(400_000, 7);
    let mut client = server.connect();
    begin_chunks(&mut client, "/app/echo", &content);
    eventually("it is in a file", PATIENCE, || (files_held(&server) == 1).then_some(()));
    drop(client);
    eventually("the file is gone", PATIENCE, || (files_held(&server) == 0).then_some(()));
    assert_eq!(application.accepted.load(Relaxed), 0, "the application is not asked");
    let mut client = server.connect();
    assert!(post(&mut client, "/app/echo", &content).content == content);
    eventually("the file is gone", PATIENCE, || (files_held(&server) == 0).then_some(()));
    assert_eq!(std::fs::read_dir(server.directory().join("kept")).unwrap().count(), 0);
    server.finish();
}

fn content_takes_little_memory_however_long_it_is(engine: Engine) {
    const PIECE_BYTES: usize = 1 << 20;
    const PIECES: usize = 64;
    let application = Application::start();
    let server = start(engine, &application);
    let mut client = server.connect();
    // What the first request needs is there from then on.
    assert_eq!(post(&mut client, "/app/framing", &pattern(400_000, 3)).status, 200);
    let before = memory(&server);
    let bytes = PIECES * PIECE_BYTES;
    client.send(format!("POST /app/framing HTTP/1.1\r\nHost: a\r\nContent-Length: {bytes}\r\n\r\n").as_bytes());
    let piece = pattern(PIECE_BYTES, 3);
    let mut most = 0;
    for _ in 0..PIECES {
        client.send(&piece);
        most = most.max(memory(&server));
    }
    thread::scope(|scope| {
        let answer = scope.spawn(|| client.receive(true).unwrap());
        while !answer.is_finished() {
            most = most.max(memory(&server));
        }
        assert_eq!(answer.join().unwrap().content, format!("{bytes} - {bytes}").as_bytes());
    });
    let grown = most.saturating_sub(before);
    eprintln!("content that is kept took {} KiB", grown >> 10);
    assert!(grown < 1 << 20, "content that is kept took {} KiB", grown >> 10);
    server.finish();
}

#[test]
fn nothing_is_lost_when_engines_change_while_content_is_kept() {
    let application = Application::start();
    let server = start(AMPED, &application);
    let content = pattern(LONG / 4, 7);
    let mut clients: Vec<_> = (0..4).map(|_| server.connect()).collect();
    let pieces = names_of_one_process().len();
    for client in &mut clients {
        client
            .send(format!("PUT /app/echo HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", content.len()).as_bytes());
    }
    for (name, piece) in names_of_one_process().iter().zip(content.chunks(content.len().div_ceil(pieces))) {
        order(&server, &["arch", "set", name]).unwrap_or_else(|said| panic!("{name}: {said}"));
        for client in &mut clients {
            client.send(piece);
        }
    }
    for mut client in clients {
        assert!(client.receive(true).unwrap().content == content);
    }
    server.finish();
}
