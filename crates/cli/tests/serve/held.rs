//! What clients can have a server hold: memory of those that pipeline and read nothing, of names that are spelled in
//! many ways, and of content that an application does not take.
//!
//! Owns: measuring the memory of a server with all its processes. Guarantees: nothing is asserted before it has been
//! stable for a while.

use std::fs;
use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::sockopt::set_socket_recv_buffer_size;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::client::{Client, PATIENCE, Response};
use crate::control::get;
use crate::engine::{Engine, for_engines};
use crate::server::{Launch, Server, eventually};
use crate::skip::skipped;
use crate::tree::pattern;

for_engines!(all every_architecture_is_held_to_its_bounds: [
    mp = MP_OF_SOME,
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
    who_pipelines_one_file_in_many_spellings_and_reads_nothing_is_held_little_for,
    who_pipelines_many_files_and_reads_nothing_is_held_little_for,
    a_text_is_compressed_once_however_it_is_spelled,
    an_application_is_held_once_for_all_its_routes,
    a_listing_is_as_old_as_any_answer_and_of_the_form_that_is_asked_for,
    a_file_of_the_future_has_validators_that_are_not,
]);

for_engines!([
    amped_sending = AMPED,
    pipelined_sending = PIPELINED,
    proactor_sending = PROACTOR,
    thread_pool_sending = THREAD_POOL,
] => [content_that_nobody_takes_is_held_little_for]);

for_engines!([
    amped_without_nowait = AMPED_WITHOUT_NOWAIT,
    pipelined_without_nowait = PIPELINED_WITHOUT_NOWAIT,
] => [what_was_read_for_those_who_do_not_take_it_is_given_back_and_read_again]);

for_engines!([
    amped_copy = AMPED_COPY,
    pipelined_copy = PIPELINED_COPY,
    thread_pool_copy = THREAD_POOL_COPY,
] => [a_file_that_is_edited_while_it_is_sent_never_ends_as_a_whole_answer]);

const CONNECTIONS: usize = 2_000;
const PIPELINED: usize = 8;
const FILE_BYTES: usize = 200 * 1024;
const CACHE_BYTES: u64 = 32 << 20;
/// What a connection that is answered may take beside what the cache counts: its buffers while it is blocked, or a
/// thread's stack and buffers.
const BYTES_EACH: u64 = 112 * 1024;
/// The program itself, and what it has begun to read.
const BYTES_BESIDE: u64 = 64 << 20;

fn who_pipelines_one_file_in_many_spellings_and_reads_nothing_is_held_little_for(engine: Engine) {
    let launch = Launch::new(engine).file("abcdefghijklmn.bin", vec![7; FILE_BYTES]);
    hold("one file in many spellings", launch, |number| spelled("abcdefghijklmn", number) + ".bin");
}

fn who_pipelines_many_files_and_reads_nothing_is_held_little_for(engine: Engine) {
    const FILES: usize = 512;
    let name = |number| format!("{:03}.bin", number % FILES);
    let launch = (0..FILES).fold(Launch::new(engine), |launch, number| launch.file(&name(number), vec![7; FILE_BYTES]));
    hold("many files", launch, name);
}

/// Of 2^length ways to write `name` the one of this number: which letters are percent-encoded.
fn spelled(name: &str, number: usize) -> String {
    let letter = |(index, byte): (usize, u8)| match number >> index & 1 {
        0 => char::from(byte).to_string(),
        _ => format!("%{byte:02x}"),
    };
    name.bytes().enumerate().map(letter).collect()
}

/// That connections which ask for eight names each and read nothing take no more memory than they may.
fn hold(what: &str, launch: Launch, name: impl Fn(usize) -> String) {
    if let Err(reason) = raise_descriptors() {
        return skipped(what, &reason);
    }
    thread::sleep(SETTLED);
    let server = launch.config("cache_bytes = \"32 MiB\"\nlimits = { send_timeout_ms = 600000 }\n").start();
    let clients: Vec<Client<TcpStream>> = (0..CONNECTIONS)
        .map(|connection| {
            let mut client = Client::new(connect_narrowly(server.address()));
            let request = |at| format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", name(connection * PIPELINED + at));
            client.send((0..PIPELINED).map(request).collect::<String>().as_bytes());
            client
        })
        .collect();
    let held = stable_memory(&server);
    let most = CACHE_BYTES + CONNECTIONS as u64 * BYTES_EACH + BYTES_BESIDE;
    eprintln!("{what}: {} MiB", held >> 20);
    assert!(held <= most, "{what}: {} MiB are held, where {} MiB may be", held >> 20, most >> 20);
    // Who reads gets everything, and nothing else.
    let mut first = clients.into_iter().next().expect("there are some");
    for _ in 0..PIPELINED {
        let answer = first.receive(true).unwrap();
        assert_eq!((answer.status, answer.content), (200, vec![7; FILE_BYTES]));
    }
    drop(first);
    server.finish();
}

/// That connections which send content to an application that reads nothing take no more memory than they may. How much
/// is sent says nothing: the buffers of the system are as large as it sees fit.
fn content_that_nobody_takes_is_held_little_for(engine: Engine) {
    const UPLOADS: usize = 32;
    const UPLOADED_EACH: u64 = 256 * 1024;
    let application = TcpListener::bind("127.0.0.1:0").unwrap();
    application.set_nonblocking(true).unwrap();
    let proxy = format!("--proxy=http://{}", application.local_addr().unwrap());
    let server = Launch::new(engine).argument(&proxy).start();
    let mut peers: Vec<TcpStream> = (0..UPLOADS).map(|_| TcpStream::connect(server.address()).unwrap()).collect();
    for peer in &mut peers {
        peer.write_all(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4000000000\r\n\r\n").unwrap();
        peer.set_nonblocking(true).unwrap();
    }
    // Until the application has every one of them, and the buffers of the system are full, which end somewhere.
    let content = vec![b'x'; 1 << 20];
    let mut arrived = Vec::new();
    let (started, mut last_progress) = (Instant::now(), Instant::now());
    let mut sent: u64 = 0;
    while arrived.len() < UPLOADS || last_progress.elapsed() < Duration::from_secs(2) {
        assert!(
            started.elapsed() < PATIENCE,
            "{} of {UPLOADS} have arrived, {} MiB are sent",
            arrived.len(),
            sent >> 20
        );
        arrived.extend(application.accept());
        for peer in &mut peers {
            while let Ok(bytes) = peer.write(&content) {
                (last_progress, sent) = (Instant::now(), sent + bytes as u64);
                assert!(sent < 8 << 30, "somebody takes it");
            }
        }
        thread::sleep(Duration::from_millis(20));
    }
    let (held, most) = (stable_memory(&server), UPLOADS as u64 * UPLOADED_EACH + BYTES_BESIDE);
    eprintln!("content that nobody takes: {} MiB of {} MiB sent", held >> 20, sent >> 20);
    assert!(held <= most, "{} MiB are held of {} MiB, where {} MiB may be", held >> 20, sent >> 20, most >> 20);
    drop((application, arrived, peers));
    server.finish();
}

/// Takes as little as there can be without reading.
pub(crate) fn connect_narrowly(address: SocketAddr) -> TcpStream {
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
    set_socket_recv_buffer_size(&socket, 4096).unwrap();
    connect(&socket, &address).expect("the server listens");
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// As many as there may be. The server has as many.
fn raise_descriptors() -> Result<(), String> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let needed = 3 * CONNECTIONS as u64;
    match maximum {
        Some(maximum) if maximum < needed => Err(format!("{needed} descriptors are needed, and {maximum} allowed")),
        _ => setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).map_err(|error| error.to_string()),
    }
}

/// What the processes of the server hold, when it has not grown for a while.
fn stable_memory(server: &Server) -> u64 {
    let mut last = (0, Instant::now());
    eventually("memory is stable", Duration::from_secs(120), || {
        let bytes = memory_of(server.pid().as_raw_nonzero().get());
        if bytes > last.0 + (1 << 20) {
            last = (bytes, Instant::now());
        }
        thread::sleep(Duration::from_millis(100));
        (last.1.elapsed() > Duration::from_secs(2)).then_some(bytes)
    })
}

/// Bytes of a process and of its children, what they share counted once.
pub(crate) fn memory_of(pid: i32) -> u64 {
    let read = |name: &str| fs::read_to_string(Path::new("/proc").join(pid.to_string()).join(name)).unwrap_or_default();
    let smaps = read("smaps_rollup");
    let line = smaps.lines().find_map(|line| line.strip_prefix("Pss_Anon:"));
    let own = line.and_then(|rest| rest.trim().strip_suffix(" kB")?.parse::<u64>().ok()).map_or(0, |kib| kib << 10);
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let children = tasks.flat_map(|task| {
        let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        children.split_whitespace().filter_map(|child| child.parse().ok()).collect::<Vec<i32>>()
    });
    own + children.map(memory_of).sum::<u64>()
}

/// More than the time for which two changes of a file may leave the same time stamp.
const SETTLED: Duration = Duration::from_millis(100);

fn a_text_is_compressed_once_however_it_is_spelled(engine: Engine) {
    let server = Launch::new(engine).file("abcdefgh.html", "All that there is to say. ".repeat(400)).start();
    thread::sleep(SETTLED);
    let mut client = server.connect();
    let mut ask = |target: &str| {
        client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n").as_bytes());
        client.receive(true).unwrap()
    };
    let is_coded = |answer: &Response| answer.field("Content-Encoding") == Some("gzip");
    eventually("it is compressed", PATIENCE, || is_coded(&ask("/abcdefgh.html")).then_some(()));
    for number in 0..200 {
        for prefix in ["/", "//", "/./", "/x/../"] {
            let target = format!("{prefix}{}.html?x={number}", spelled("abcdefgh", number));
            assert!(is_coded(&ask(&target)), "{target} is another copy");
        }
    }
    drop(client);
    server.finish();
}

fn an_application_is_held_once_for_all_its_routes(engine: Engine) {
    let config = "[[site]]\nroot = \"site\"\nspa = true\nerror_pages = { \"404\" = \"/404.html\" }\n";
    let launch = Launch::new(engine).file("index.html", "The application. ".repeat(400)).config(config);
    let server = launch.file("404.html", "Nothing. ".repeat(400)).start();
    thread::sleep(SETTLED);
    let mut client = server.connect();
    let mut ask = |target: &str| {
        client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n").as_bytes());
        client.receive(true).unwrap()
    };
    let is_coded = |answer: &Response| answer.field("Content-Encoding") == Some("gzip");
    eventually("it is compressed", PATIENCE, || is_coded(&ask("/route")).then_some(()));
    for number in 0..200 {
        let answer = ask(&format!("/user/{number}"));
        assert!(is_coded(&answer), "route {number} is another copy");
        assert_eq!(ask(&format!("/{number}.js")).status, 404);
    }
    fs::write(server.site().join("new.html"), "Another.").unwrap();
    fs::rename(server.site().join("new.html"), server.site().join("index.html")).unwrap();
    eventually("the new one is seen", PATIENCE, || (ask("/user/7").content == b"Another.").then_some(()));
    drop(client);
    server.finish();
}

fn a_listing_is_as_old_as_any_answer_and_of_the_form_that_is_asked_for(engine: Engine) {
    let launch = Launch::new(engine).file("list/a.txt", "a").config("[[site]]\nroot = \"site\"\nbrowse = true\n");
    let server = launch.start();
    let mut client = server.connect();
    let mut ask = |target: &str, fields: &str| {
        client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n").as_bytes());
        client.receive(true).unwrap()
    };
    for _ in 0..3 {
        for target in ["/list/", "/list/?x=1", "//list/?y", "/list/?sort=size&order=desc"] {
            let html = ask(target, "Accept: text/html\r\n");
            assert_eq!(html.field("Content-Type"), Some("text/html; charset=utf-8"), "{target}");
            let json = ask(target, "Accept: application/json\r\n");
            assert_eq!((json.field("Content-Type"), json.field("Vary")), (Some("application/json"), Some("Accept")));
            assert!(String::from_utf8_lossy(&json.content).contains("\"a.txt\""), "{target}");
        }
    }
    assert_eq!(ask("/list/a.txt?sort=size", "").content, b"a");
    fs::write(server.site().join("list/b.txt"), "b").unwrap();
    let is_listed = |answer: Response| String::from_utf8_lossy(&answer.content).contains("b.txt").then_some(());
    eventually("a new file is listed", PATIENCE, || is_listed(ask("/list/", "")));
    drop(client);
    server.finish();
}

/// RFC 9110 8.8.2.1.
fn a_file_of_the_future_has_validators_that_are_not(engine: Engine) {
    let launch = Launch::new(engine).file("a.txt", "a");
    let path = launch.site().join("a.txt");
    let future = std::time::SystemTime::now() + Duration::from_secs(3600 * 24 * 365);
    fs::File::options().write(true).open(&path).unwrap().set_modified(future).unwrap();
    let server = launch.start();
    thread::sleep(SETTLED);
    let mut client = server.connect();
    let answer = client.get("/a.txt").unwrap();
    let field = |name: &str| answer.field(name).unwrap_or_else(|| panic!("no {name}")).to_owned();
    let (etag, modified, date) = (field("ETag"), field("Last-Modified"), field("Date"));
    let year = |date: &str| date.split(' ').nth(3).and_then(|year| year.parse::<u32>().ok());
    assert!(year(&modified).is_some() && year(&modified) <= year(&date), "{modified} is after {date}");
    for fields in [format!("If-None-Match: {etag}"), format!("If-Modified-Since: {modified}")] {
        client.send(format!("GET /a.txt HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n").as_bytes());
        assert_eq!(client.receive(true).unwrap().status, 304, "{fields}");
    }
    drop(client);
    server.finish();
}

fn what_was_read_for_those_who_do_not_take_it_is_given_back_and_read_again(engine: Engine) {
    let content = pattern(6 << 20, 3);
    let config = "cache_bytes = \"8 MiB\"\nlimits = { send_timeout_ms = 600000 }\n";
    let server = Launch::new(engine).file("large.bin", &content).config(config).start();
    thread::sleep(SETTLED);
    let cache_bytes = || {
        let metrics = String::from_utf8(get(&server, "/metrics").content).unwrap();
        let line = metrics.lines().find_map(|line| line.strip_prefix("lamna_cache_bytes "));
        line.and_then(|bytes| bytes.parse::<f64>().ok()).expect("the cache is measured") as u64
    };
    let ask = |_| {
        let mut client = Client::new(connect_narrowly(server.address()));
        client.send(b"GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n");
        client
    };
    let mut clients: Vec<Client<TcpStream>> = (0..12).map(ask).collect();
    eventually("content is held for them", PATIENCE, || (cache_bytes() > 1 << 20).then_some(()));
    eventually("it is given back", Duration::from_secs(120), || (cache_bytes() < 1 << 19).then_some(()));
    for client in clients.iter_mut().take(3) {
        assert!(client.receive(true).unwrap().content == content, "they get what there is all the same");
    }
    drop(clients);
    server.finish();
}

/// Where what is sent is copied: what `sendfile` has given to the socket are the pages of the file itself.
fn a_file_that_is_edited_while_it_is_sent_never_ends_as_a_whole_answer(engine: Engine) {
    let server = Launch::new(engine).config("cache_bytes = \"1 MiB\"\n").start();
    let mut cut = 0;
    for size in (1..30).map(|step| step * 100_000 + step) {
        let path = server.site().join(format!("{size}.bin"));
        fs::write(&path, vec![b'o'; size]).unwrap();
        thread::sleep(SETTLED);
        let mut client = Client::new(connect_narrowly(server.address()));
        client.send(format!("GET /{size}.bin HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").as_bytes());
        let head = client.receive_head().unwrap();
        assert_eq!(head.status, 200);
        let length = head.field("Content-Length").and_then(|length| length.parse::<usize>().ok()).unwrap();
        // In place, and of the same size.
        fs::File::options().write(true).open(&path).unwrap().write_all_at(&vec![b'n'; size], 0).unwrap();
        let received = client.receive_rest();
        if received.len() == length {
            assert!(received.iter().all(|byte| *byte == b'o'), "{size}: a whole answer of two states");
        } else {
            cut += 1;
        }
    }
    assert!(cut > 0, "nothing was edited while it was sent");
    server.finish();
}
