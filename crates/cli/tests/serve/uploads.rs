//! Uploads: what is stored, what is refused, and that only whole files are ever seen.
//!
//! Owns: servers that clients may write to. Guarantees: every server is looked at for leftovers when it has ended.

mod changes;
pub(crate) mod faults;
mod moves;
mod parts;

use std::collections::BTreeSet;
use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::thread;

use rustix::process::Signal;

use crate::client::{Client, PATIENCE, Response};
use crate::engine::{Engine, PROACTOR, for_engines, names_of_one_process};
use crate::server::{Launch, Server, eventually};
use crate::tree::pattern;

for_engines!(all every_architecture_takes_uploads: [
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
    a_file_is_stored_replaced_and_served,
    what_cannot_be_stored_is_refused_with_its_reason,
    forms_store_their_files,
    uploads_that_are_cut_leave_nothing,
    a_killed_server_leaves_nothing,
]);

const BYTES: usize = 300_000;

fn start(engine: Engine) -> Server {
    Launch::new(engine).file("hello.txt", "hello\n").argument("--upload").argument("--browse").start()
}

fn put(client: &mut Client<TcpStream>, path: &str, fields: &str, content: &[u8]) -> Response {
    ask(client, "PUT", path, fields, content)
}

/// Sends a request with content and receives what is answered.
fn ask(client: &mut Client<TcpStream>, method: &str, path: &str, fields: &str, content: &[u8]) -> Response {
    let head = format!("{method} {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n{fields}\r\n", content.len());
    client.send(head.as_bytes());
    client.send(content);
    client.receive(true).expect("a request is answered")
}

fn names(directory: &Path) -> BTreeSet<String> {
    let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    fs::read_dir(directory).unwrap().map(name).collect()
}

fn a_file_is_stored_replaced_and_served(engine: Engine) {
    let server = start(engine);
    let mut client = server.connect();
    let (first, second) = (pattern(BYTES, 3), pattern(BYTES / 2, 5));
    assert_eq!(client.get("/new%20file.bin").unwrap().status, 404);
    let created = put(&mut client, "/new%20file.bin", "", &first);
    assert_eq!((created.status, created.field("Location")), (201, Some("/new%20file.bin")));
    // Who was told 404 before is not told so again.
    assert!(client.get("/new%20file.bin").unwrap().content == first);
    assert_eq!(put(&mut client, "/new%20file.bin", "", &second).status, 204);
    assert!(client.get("/new%20file.bin").unwrap().content == second);
    assert_eq!(put(&mut client, "/empty", "", b"").status, 201);
    client.send(b"PUT /chunked HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n");
    assert_eq!(client.receive_head().unwrap().status, 100);
    client.send(b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
    assert_eq!(client.receive(true).unwrap().status, 201);
    let site = server.site();
    assert_eq!(fs::read(site.join("chunked")).unwrap(), b"abcde");
    assert_eq!(fs::read(site.join("empty")).unwrap(), b"");
    assert!(fs::read(site.join("new file.bin")).unwrap() == second);
    assert_eq!(names(&site).len(), 4);
    server.finish();
}

fn what_cannot_be_stored_is_refused_with_its_reason(engine: Engine) {
    let server = start(engine);
    fs::create_dir(server.site().join("folder")).unwrap();
    for (path, fields, status) in [
        ("/missing/a", "", 409),
        ("/folder", "", 409),
        ("/folder/", "", 400),
        ("/.hidden", "", 403),
        ("/folder/../../outside", "", 400),
        ("/hello.txt/a", "", 409),
        ("/hello.txt", "If-None-Match: *\r\n", 412),
        ("/hello.txt", "If-Match: \"x\"\r\n", 412),
        ("/other", "If-Match: *\r\n", 412),
        ("/new", "Sec-Fetch-Site: cross-site\r\n", 403),
        ("/new", "Origin: http://elsewhere.example\r\n", 403),
        ("/new", "Origin: null\r\n", 403),
    ] {
        let answer = put(&mut server.connect(), path, fields, b"abc");
        assert_eq!(answer.status, status, "{path} {fields}");
    }
    let mut client = server.connect();
    for method in ["DELETE", "PATCH", "POST"] {
        client.send(format!("{method} /hello.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc").as_bytes());
        let answer = client.receive(true).unwrap();
        assert_eq!((answer.status, answer.field("Allow")), (405, Some("GET, HEAD, OPTIONS, PUT, POST")), "{method}");
    }
    assert_eq!(client.get("/hello.txt").unwrap().content, b"hello\n");
    assert_eq!(names(&server.site()), ["folder", "hello.txt"].map(String::from).into());
    assert_eq!(names(&server.site().join("folder")), BTreeSet::new());
    server.finish();
}

fn forms_store_their_files(engine: Engine) {
    let server = start(engine);
    let mut client = server.connect();
    let page = client.get("/").unwrap();
    assert!(String::from_utf8(page.content).unwrap().contains("<form class=\"upload\" method=\"post\""));
    let content = pattern(BYTES, 7);
    let mut form = b"--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"one.bin\"\r\n\r\n".to_vec();
    form.extend_from_slice(&content);
    form.extend_from_slice(
        b"\r\n--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"two\"\r\n\r\n2\r\n--b--\r\n",
    );
    let post = |client: &mut Client<TcpStream>, form: &[u8]| {
        let length = form.len();
        let head = format!(
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: {length}\r\n\r\n"
        );
        client.send(head.as_bytes());
        client.send(form);
        client.receive(true).unwrap()
    };
    let answer = post(&mut client, &form);
    assert_eq!((answer.status, answer.field("Location")), (303, Some("/")));
    let page = client.get("/").unwrap();
    assert!(String::from_utf8(page.content).unwrap().contains("one.bin"), "the listing is that of now");
    assert!(client.get("/one.bin").unwrap().content == content);
    assert_eq!(client.get("/two").unwrap().content, b"2");
    // What is cut off is not stored, nor is what has no place.
    assert_eq!(post(&mut server.connect(), &form[..form.len() - 8]).status, 400);
    let outside = b"--b\r\nContent-Disposition: form-data; filename=\"../../x\"\r\n\r\nx\r\n--b--\r\n";
    assert_eq!(post(&mut server.connect(), outside).status, 303);
    assert_eq!(names(&server.site()), ["hello.txt", "one.bin", "two", "x"].map(String::from).into());
    server.finish();
}

/// The bytes of an upload of which only a part is sent.
fn begin(server: &Server, name: &str, sent: usize) -> Client<TcpStream> {
    let mut client = server.connect();
    client.send(format!("PUT /{name} HTTP/1.1\r\nHost: a\r\nContent-Length: {BYTES}\r\n\r\n").as_bytes());
    client.send(&pattern(BYTES, 3)[..sent]);
    client
}

fn uploads_that_are_cut_leave_nothing(engine: Engine) {
    let server = start(engine);
    // More than there are processes would have to wait for each other.
    for round in 0..10 {
        let cut =
            (0..3).map(|number| begin(&server, &format!("cut-{round}-{number}"), (round * 30_011 + number) % BYTES));
        let whole = format!("whole-{round}");
        let cut: Vec<_> = cut.collect();
        assert_eq!(put(&mut server.connect(), &format!("/{whole}"), "", &pattern(BYTES, 3)).status, 201);
        drop(cut);
    }
    let site = server.site();
    server.signal(Signal::TERM);
    let directory = server.into_directory();
    let expected: BTreeSet<String> =
        (0..10).map(|round| format!("whole-{round}")).chain(["hello.txt".to_owned()]).collect();
    assert_eq!(names(&site), expected);
    assert!((0..10).all(|round| fs::read(site.join(format!("whole-{round}"))).unwrap() == pattern(BYTES, 3)));
    drop(directory);
}

fn a_killed_server_leaves_nothing(engine: Engine) {
    let mut server = start(engine);
    let _cut = begin(&server, "cut", 200_000);
    let other = put(&mut server.connect(), "/whole", "", b"abc");
    assert_eq!(other.status, 201);
    server.signal(Signal::KILL);
    server.wait();
    assert_eq!(names(&server.site()), ["hello.txt", "whole"].map(String::from).into());
}

#[test]
fn switches_in_the_middle_of_uploads_lose_nothing() {
    let server = start(PROACTOR);
    let content = pattern(BYTES, 3);
    let engines = names_of_one_process();
    let mut clients: Vec<_> = (0..6).map(|number| begin(&server, &format!("file-{number}"), 10)).collect();
    let step = (BYTES - 10) / engines.len();
    for (index, engine) in engines.iter().enumerate() {
        let at = 10 + index * step;
        let end = if index + 1 == engines.len() { BYTES } else { at + step };
        clients.iter_mut().for_each(|client| client.send(&content[at..at + 1_000]));
        let set = crate::control::order(&server, &["arch", "set", engine]);
        assert!(set.is_ok() || set.as_ref().is_err_and(|error| error.contains("io_uring is refused")), "{set:?}");
        clients.iter_mut().for_each(|client| client.send(&content[at + 1_000..end]));
    }
    for (number, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.receive(true).unwrap().status, 201);
        assert!(fs::read(server.site().join(format!("file-{number}"))).unwrap() == content, "{number}");
    }
    assert_eq!(names(&server.site()).len(), 7);
    server.finish();
}

#[test]
fn many_clients_at_once_store_whole_files_under_one_name() {
    let server = start(PROACTOR);
    thread::scope(|scope| {
        for writer in 0..8 {
            let mut client = server.connect();
            scope.spawn(move || {
                let content = pattern(BYTES, 3 + writer);
                for _ in 0..5 {
                    assert!(matches!(put(&mut client, "/one", "", &content).status, 201 | 204));
                    let read = client.get("/one").unwrap().content;
                    assert!(
                        (0..8).any(|other| read == pattern(BYTES, 3 + other)),
                        "a file is one of those that were sent"
                    );
                }
            });
        }
    });
    eventually("nothing is left over", PATIENCE, || (names(&server.site()).len() == 2).then_some(()));
    server.finish();
}
