//! Files that are sent in parts (Content-Range): what is kept, what is said about it, and that it becomes a file whole
//! or not at all.

use std::fs;
use std::net::TcpStream;
use std::time::{Duration, SystemTime};

use rustix::process::Signal;

use super::{BYTES, ask, names};
use crate::client::{Client, PATIENCE, Response};
use crate::engine::{AMPED, Engine, for_engines};
use crate::http2::{self, Http2};
use crate::server::{Launch, Server, eventually};
use crate::tree::pattern;

for_engines!(all every_architecture_takes_uploads_in_parts: [
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
    parts_are_put_together_wherever_they_were_cut,
    a_file_is_sent_by_one_client_at_a_time,
    parts_that_make_no_sense_are_refused,
    parts_of_one_network_leave_room_for_others,
]);

/// Where the server keeps parts.
const FOLDER: &str = ".lamna-parts";

fn start(engine: Engine) -> Server {
    Launch::new(engine).file("hello.txt", "hello\n").argument("--upload").start()
}

/// Sends bytes `first` to `end` of `content` as a part of it.
fn put_part(client: &mut Client<TcpStream>, path: &str, content: &[u8], first: usize, end: usize) -> Response {
    let field = format!("Content-Range: bytes {first}-{}/{}\r\n", end - 1, content.len());
    ask(client, "PUT", path, &field, &content[first..end])
}

/// The bytes that have arrived.
fn arrived(server: &Server, path: &str, total: usize) -> usize {
    let answer = ask(&mut server.connect(), "PUT", path, &format!("Content-Range: bytes */{total}\r\n"), b"");
    assert_eq!(answer.status, 308, "{answer:?}");
    end_of(&answer)
}

/// Behind the last byte that an answer names.
fn end_of(answer: &Response) -> usize {
    answer.field("Range").map_or(0, |range| {
        range.strip_prefix("bytes=0-").and_then(|last| last.parse::<usize>().ok()).expect("a range from the first byte")
            + 1
    })
}

/// Sends what is missing, as soon as the server has noticed that nobody else sends it.
fn finish(server: &Server, path: &str, content: &[u8]) -> u16 {
    eventually("the rest is taken", PATIENCE, || {
        let first = arrived(server, path, content.len());
        let answer = put_part(&mut server.connect(), path, content, first.min(content.len() - 1), content.len());
        (answer.status != 409).then_some(answer.status)
    })
}

fn parts_are_put_together_wherever_they_were_cut(engine: Engine) {
    let server = start(engine);
    let content = pattern(BYTES, 3);
    let mut client = server.connect();
    assert_eq!(arrived(&server, "/new", BYTES), 0);
    let answer = put_part(&mut client, "/new", &content, 0, 100_000);
    assert_eq!((answer.status, end_of(&answer)), (308, 100_000));
    // Nothing is there before all of it is.
    assert_eq!(client.get("/new").unwrap().status, 404);
    assert_eq!(client.get(&format!("/{FOLDER}/")).unwrap().status, 404);
    assert_eq!(arrived(&server, "/new", BYTES), 100_000);
    let gap = put_part(&mut server.connect(), "/new", &content, 100_001, BYTES);
    assert_eq!((gap.status, end_of(&gap)), (409, 100_000));
    let mut cut = server.connect();
    let rest = BYTES - 100_000;
    let range = format!("bytes 100000-{}/{BYTES}", BYTES - 1);
    cut.send(
        format!("PUT /new HTTP/1.1\r\nHost: a\r\nContent-Length: {rest}\r\nContent-Range: {range}\r\n\r\n").as_bytes(),
    );
    cut.send(&content[100_000..200_000]);
    drop(cut);
    assert_eq!(finish(&server, "/new", &content), 201);
    // Another process may have taken the rest of it.
    let is_served = |client: &mut Client<TcpStream>| (client.get("/new").unwrap().content == content).then_some(());
    eventually("it is served", PATIENCE, || is_served(&mut client));
    // In the place of the file, in pieces, from the beginning again, and with bytes that were sent before.
    let content = pattern(BYTES, 5);
    for (first, end) in [(0, 10), (0, 20), (15, 200_000)] {
        let answer = put_part(&mut client, "/new", &content, first, end);
        assert_eq!((answer.status, end_of(&answer)), (308, end));
    }
    assert_eq!(put_part(&mut client, "/new", &content, 200_000, BYTES).status, 204);
    assert!(client.get("/new").unwrap().content == content);
    assert_eq!(names(&server.site()), ["hello.txt", "new"].map(String::from).into());
    server.finish();
}

fn a_file_is_sent_by_one_client_at_a_time(engine: Engine) {
    let server = start(engine);
    let content = pattern(BYTES, 3);
    let range = format!("bytes 0-{}/{BYTES}", BYTES - 1);
    let begin = || {
        let mut first = server.connect();
        let length = format!("Content-Length: {BYTES}\r\n");
        first.send(format!("PUT /one HTTP/1.1\r\nHost: a\r\n{length}Content-Range: {range}\r\n\r\n").as_bytes());
        first.send(&content[..200_000]);
        first
    };
    let mut first = begin();
    let second = eventually("the first has begun", PATIENCE, || {
        let answer = put_part(&mut server.connect(), "/one", &content, 0, 10);
        assert!(matches!(answer.status, 308 | 409), "{answer:?}");
        if answer.status == 409 {
            return Some(answer);
        }
        // It was quicker, and the first has been told so. Otherwise its ten bytes are given up when the first begins.
        first.stream.set_nonblocking(true).unwrap();
        let is_answered = first.stream.peek(&mut [0]).is_ok();
        first.stream.set_nonblocking(false).unwrap();
        if is_answered {
            first = begin();
        }
        None
    });
    assert_eq!(second.field("Retry-After"), Some("1"));
    assert_eq!(put_part(&mut server.connect(), "/other", &content, 0, BYTES).status, 201);
    first.send(&content[200_000..]);
    assert_eq!(first.receive(true).unwrap().status, 201);
    assert!(fs::read(server.site().join("one")).unwrap() == content);
    assert_eq!(names(&server.site()), ["hello.txt", "one", "other"].map(String::from).into());
    server.finish();
}

fn parts_that_make_no_sense_are_refused(engine: Engine) {
    let config = "[[site]]\nroot = \"site\"\nupload = true\nupload_bytes_max = \"1MiB\"\nupload_resume_bytes_max = 2000000\n\
                  [[site]]\nhosts = [\"whole.example\"]\nroot = \"site\"\nupload = true\nupload_resume_s = 0\n";
    let server = Launch::new(engine).file("hello.txt", "hello\n").config(config).start();
    for (path, fields, status) in [
        ("/a", "Content-Range: bytes 0-2/*\r\n", 400),
        ("/a", "Content-Range: bytes 0-2\r\n", 400),
        ("/a", "Content-Range: bytes 0-3/10\r\n", 400),
        ("/a", "Content-Range: bytes 8-10/10\r\n", 400),
        ("/a", "Content-Range: items 0-2/10\r\n", 400),
        ("/a", "Content-Range: bytes 0-2/3\r\nContent-Range: bytes 0-2/3\r\n", 400),
        ("/a", "Content-Range: bytes */10\r\n", 413),
        ("/a", "Content-Range: bytes 0-2/2000000\r\n", 413),
        ("/a", "Content-Range: bytes 0-2/1000001\r\n", 507),
        ("/a", "Content-Range: bytes 3-5/10\r\n", 409),
        ("/missing/a", "Content-Range: bytes 0-2/3\r\n", 409),
        ("/.lamna-parts/a", "Content-Range: bytes 0-2/3\r\n", 403),
        ("/.lamna-parts", "", 403),
        ("/hello.txt", "Content-Range: bytes 0-2/10\r\nIf-None-Match: *\r\n", 412),
        ("/a", "Content-Range: bytes 0-2/10\r\nOrigin: http://b.example\r\n", 403),
    ] {
        let answer = ask(&mut server.connect(), "PUT", path, fields, b"abc");
        assert_eq!(answer.status, status, "{path} {fields}");
    }
    let mut other = server.connect();
    other.send(b"PUT /a HTTP/1.1\r\nHost: whole.example\r\nContent-Range: bytes 0-2/3\r\nContent-Length: 3\r\n\r\nabc");
    assert_eq!(other.receive(true).unwrap().status, 400);
    assert_eq!(names(&server.site()), ["hello.txt".to_owned()].into());
    // Without a length in the head: less than was said is kept, and more is not taken.
    for (sent, status) in [("3\r\nabc\r\n0\r\n\r\n", 400), ("7\r\nabcdefg\r\n0\r\n\r\n", 413)] {
        let mut client = server.connect();
        client.send(b"PUT /c HTTP/1.1\r\nHost: a\r\nContent-Range: bytes 0-5/6\r\nTransfer-Encoding: chunked\r\n\r\n");
        client.send(sent.as_bytes());
        assert_eq!(client.receive(true).unwrap().status, status);
    }
    assert_eq!(finish(&server, "/c", b"abcdef"), 201);
    assert_eq!(fs::read(server.site().join("c")).unwrap(), b"abcdef");
    assert_eq!(names(&server.site()).len(), 2);
    server.finish();
}

/// A server behind a proxy that says for whom it asks, where little is kept in part.
fn start_behind_proxy(engine: Engine, root: &std::path::Path) -> Server {
    let config = format!(
        "trusted_proxies = [\"127.0.0.0/8\"]\n[[site]]\nroot = \"{}\"\nupload = true\nupload_resume_bytes_max = 100000\n",
        root.display()
    );
    Launch::new(engine).argument("--h2c").config(&config).start()
}

/// The status of the first byte of a file of so many, which `client` sends.
fn begin_for(server: &Server, client: &str, path: &str, total: usize) -> u16 {
    let fields = format!("X-Forwarded-For: {client}\r\nContent-Range: bytes 0-0/{total}\r\n");
    ask(&mut server.connect(), "PUT", path, &fields, b"a").status
}

fn parts_of_one_network_leave_room_for_others(engine: Engine) {
    let root = tempfile::tempdir().unwrap();
    let server = start_behind_proxy(engine, root.path());
    let begin = |client: &str, path: &str, total| begin_for(&server, client, path, total);
    assert_eq!(begin("192.0.2.1", "/a", 50_001), 507);
    assert_eq!((begin("192.0.2.1", "/a", 30_000), begin("192.0.2.1", "/b", 20_000)), (308, 308));
    assert_eq!(begin("192.0.2.1", "/c", 10), 507);
    assert_eq!((begin("192.0.2.2", "/c", 25_000), begin("2001:db8::1", "/d", 12_500)), (308, 308));
    // All addresses of a network are one.
    assert_eq!(begin("2001:db8::2", "/e", 10), 507);
    assert_eq!(put_part(&mut server.connect(), "/d", &pattern(12_500, 3), 0, 12_500).status, 201);
    assert_eq!(begin("2001:db8::2", "/e", 10), 308);
    server.finish();
    // A restart forgets nothing.
    let server = start_behind_proxy(engine, root.path());
    let begin = |client: &str, path: &str, total| begin_for(&server, client, path, total);
    assert_eq!((begin("192.0.2.1", "/f", 10), begin("192.0.2.3", "/f", 10)), (507, 308));
    assert_eq!(put_part(&mut server.connect(), "/a", &pattern(30_000, 3), 0, 30_000).status, 201);
    assert_eq!(begin("192.0.2.1", "/g", 10), 308);
    // A whole file takes nothing that is shared.
    assert_eq!(ask(&mut server.connect(), "PUT", "/whole", "X-Forwarded-For: 192.0.2.1\r\n", &[0; 90_000]).status, 201);
    server.finish();
}

#[test]
fn parts_of_one_network_leave_room_for_others_over_http2() {
    let root = tempfile::tempdir().unwrap();
    let server = start_behind_proxy(AMPED, root.path());
    let begin = |client: &str, path: &str| {
        let fields = [("x-forwarded-for", client), ("content-range", "bytes 0-0/50000")];
        let mut request = http2::request("PUT", path, &fields);
        *request.body_mut() = b"a".to_vec();
        Http2::connect(server.address()).try_ask(request).unwrap().status
    };
    assert_eq!((begin("192.0.2.1", "/a"), begin("192.0.2.1", "/b")), (308, 507));
    server.finish();
}

/// A server that is given a directory to serve.
fn start_at(root: &std::path::Path) -> Server {
    let config = format!("[[site]]\nroot = \"{}\"\nupload = true\nupload_resume_s = 60\n", root.display());
    Launch::new(AMPED).config(&config).start()
}

#[test]
fn what_has_arrived_outlives_a_server_that_is_killed() {
    let root = tempfile::tempdir().unwrap();
    let content = pattern(BYTES, 3);
    let mut server = start_at(root.path());
    assert_eq!(put_part(&mut server.connect(), "/new", &content, 0, 123_456).status, 308);
    server.signal(Signal::KILL);
    server.wait();
    drop(server);
    let server = start_at(root.path());
    assert_eq!(arrived(&server, "/new", BYTES), 123_456);
    assert_eq!(finish(&server, "/new", &content), 201);
    assert!(fs::read(root.path().join("new")).unwrap() == content);
    assert_eq!(names(root.path()).len(), 1);
    server.finish();
}

#[test]
fn what_nobody_goes_on_with_is_deleted_when_a_server_starts() {
    let root = tempfile::tempdir().unwrap();
    let server = start_at(root.path());
    for name in ["/old", "/young"] {
        assert_eq!(put_part(&mut server.connect(), name, b"abcdef", 0, 3).status, 308);
    }
    server.finish();
    let parts = root.path().join(FOLDER);
    let one = fs::read_dir(&parts).unwrap().next().unwrap().unwrap().path();
    let long_ago = SystemTime::now() - Duration::from_secs(3600);
    fs::File::options().write(true).open(one).unwrap().set_modified(long_ago).unwrap();
    let server = start_at(root.path());
    eventually("the old one is deleted", PATIENCE, || (names(&parts).len() == 1).then_some(()));
    server.finish();
}
