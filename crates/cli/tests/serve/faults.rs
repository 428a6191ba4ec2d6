//! Faults: what fails, vanishes, dawdles or changes costs nobody else anything.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rustix::net::sockopt;
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};

use crate::client::{Client, PATIENCE};
use crate::engine::{AMPED, AMPED_WITHOUT_CACHESTAT, AMPED_WITHOUT_NOWAIT, AMPED_WITHOUT_OPENAT2, Engine, for_engines};
use crate::script::cool;
use crate::server::{Launch, Server, eventually};
use crate::skip::skipped;
use crate::tree::pattern;

for_engines!(all every_architecture_meets_the_faults: [
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
    a_file_truncated_in_mid_download_ends_that_connection_only,
    a_file_edited_in_mid_download_ends_that_connection_only,
    a_file_replaced_in_mid_download_is_never_mixed,
    an_edit_in_place_is_seen_within_a_second,
    files_that_come_and_go_are_seen_within_a_second,
    a_root_switched_by_a_link_is_seen_within_a_second,
    a_slow_reader_delays_nobody,
    a_slow_writer_delays_nobody,
    clients_that_vanish_are_forgotten,
    what_cannot_be_read_is_forbidden,
    a_second_interrupt_stops_at_once,
]);

/// Each way to send files, when files change under it.
mod send {
    use super::{
        a_file_edited_in_mid_download_ends_that_connection_only, a_file_replaced_in_mid_download_is_never_mixed,
        a_file_truncated_in_mid_download_ends_that_connection_only, a_slow_reader_delays_nobody,
    };

    crate::engine::for_engines!([
        amped_copy = AMPED_COPY,
        amped_mapped = AMPED_MAPPED,
        thread_pool_copy = THREAD_POOL_COPY,
        thread_pool_mapped = THREAD_POOL_MAPPED,
        pipelined_mapped = PIPELINED_MAPPED,
        proactor_mapped = PROACTOR_MAPPED,
    ] => [
        a_file_truncated_in_mid_download_ends_that_connection_only,
        a_file_edited_in_mid_download_ends_that_connection_only,
        a_file_replaced_in_mid_download_is_never_mixed,
        a_slow_reader_delays_nobody,
    ]);
}

/// Engines of one process: what happens to descriptors happens to all connections, and the order to drain reaches every
/// worker at once. The module `processes` has the like for the others.
mod one_process {
    use super::{
        a_terminated_server_finishes_what_has_begun, when_descriptors_run_out_connections_wait_and_are_answered,
    };

    crate::engine::for_engines!([
        thread_pool = THREAD_POOL,
        thread_per_request = THREAD_PER_REQUEST,
        thread_per_session = THREAD_PER_SESSION,
        sped = SPED,
        amped = AMPED,
        amped_with_helper_processes = AMPED_WITH_HELPER_PROCESSES,
        pipelined = PIPELINED,
        proactor = PROACTOR,
    ] => [
        when_descriptors_run_out_connections_wait_and_are_answered,
        a_terminated_server_finishes_what_has_begun,
    ]);
}

/// Engines of one process for which an idle connection holds no thread.
mod idle {
    use super::{five_thousand_idle_connections_and_a_request, when_descriptors_run_out_idle_connections_make_room};

    crate::engine::for_engines!([
        sped = SPED,
        amped = AMPED,
        amped_with_helper_processes = AMPED_WITH_HELPER_PROCESSES,
        pipelined = PIPELINED,
        proactor = PROACTOR,
        thread_pool = THREAD_POOL,
        thread_per_request = THREAD_PER_REQUEST,
    ] => [
        when_descriptors_run_out_idle_connections_make_room,
        five_thousand_idle_connections_and_a_request,
    ]);
}

/// Engines that have a bounded number of threads and no queue for what is beyond it.
mod bounded {
    use super::a_request_beyond_the_bound_is_refused_politely;

    crate::engine::for_engines!([
        thread_per_request = THREAD_PER_REQUEST,
        thread_per_session = THREAD_PER_SESSION,
    ] => [
        a_request_beyond_the_bound_is_refused_politely,
    ]);
}

/// More than the buffers of two sockets hold.
const LARGE_BYTES: usize = 20_000_000;
/// An edit is seen within a second of its end; the rest is for a busy machine.
const SEEN_WITHIN: Duration = Duration::from_secs(15);

fn when_descriptors_run_out_connections_wait_and_are_answered(engine: Engine) {
    let mut server = with_few_descriptors(engine);
    let mut clients: Vec<_> = (0..60).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.send(b"GET /hello.txt HTTP/1.1\r\n");
    }
    server.wait_to_hear("cannot accept connections for the moment");
    for mut client in clients {
        client.send(b"Host: a\r\n\r\n");
        assert_eq!(client.receive(true).unwrap().status, 200);
    }
    server.finish();
}

fn when_descriptors_run_out_idle_connections_make_room(engine: Engine) {
    let server = with_few_descriptors(engine);
    let mut clients = Vec::new();
    for _ in 0..60 {
        let mut client = server.connect();
        assert_eq!(client.get("/hello.txt").unwrap().status, 200);
        clients.push(client);
    }
    assert!(clients[59].get("/hello.txt").is_ok(), "the last one is not the one that was idle longest");
    assert!(clients[0].expect_end().is_ok());
    server.finish();
}

fn a_request_beyond_the_bound_is_refused_politely(engine: Engine) {
    // An application that takes requests and does not answer before it is told to.
    let application = TcpListener::bind("127.0.0.1:0").unwrap();
    let route =
        format!("[[site.route]]\nmatch = \"/slow\"\nproxy = \"http://{}\"\n", application.local_addr().unwrap());
    let launch = Launch::new(engine).file("hello.txt", "hello\n").argument("--threads-max").argument("3");
    let server = launch.config(&format!("[[site]]\nroot = \"site\"\n{route}")).start();
    let ask = || {
        let mut client = server.connect();
        let response = client.get("/hello.txt").unwrap();
        (client, response)
    };
    let mut busy: Vec<_> = (0..3).map(|_| server.connect()).collect();
    for client in &mut busy {
        client.send(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    // Each has a thread, which waits for the application.
    let waiting: Vec<_> = (0..3).map(|_| application.accept().unwrap().0).collect();
    let (mut client, refusal) = ask();
    assert_eq!(refusal.status, 503);
    assert_eq!((refusal.field("Retry-After"), refusal.field("Connection")), (Some("1"), Some("close")));
    client.expect_end().unwrap();
    for mut request in waiting {
        request.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
    }
    for mut client in busy {
        assert_eq!(client.receive(true).unwrap().status, 200);
    }
    eventually("a thread is free", PATIENCE, || (ask().1.status == 200).then_some(()));
    server.finish();
}

fn with_few_descriptors(engine: Engine) -> Server {
    let command = ["sh", "-c", "ulimit -n 40; exec \"$0\" \"$@\""];
    Launch::new(engine).file("hello.txt", "hello\n").wrapped(&command).start()
}

fn a_file_truncated_in_mid_download_ends_that_connection_only(engine: Engine) {
    let download = Download::begin(engine);
    let other = download.server.connect();
    OpenOptions::new().write(true).open(download.path()).unwrap().set_len(1000).unwrap();
    let received = download.received_after(other);
    assert!(received.len() < LARGE_BYTES, "the whole file was received though it was truncated");
}

/// What has been handed to the kernel is in the pages of the file until it is acknowledged (sendfile(2), NOTES), so
/// that an edit in place can be seen in it: what the server can do is to end the download.
fn a_file_edited_in_mid_download_ends_that_connection_only(engine: Engine) {
    let download = Download::begin(engine);
    let other = download.server.connect();
    let mut file = OpenOptions::new().write(true).open(download.path()).unwrap();
    file.write_all(&pattern(LARGE_BYTES, 3)).unwrap();
    let received = download.received_after(other);
    assert!(received.len() < LARGE_BYTES, "the whole file was received though it was edited");
}

fn a_file_replaced_in_mid_download_is_never_mixed(engine: Engine) {
    let download = Download::begin(engine);
    let mut other = download.server.connect();
    let new = download.server.directory().join("new.bin");
    fs::write(&new, "new").unwrap();
    fs::rename(&new, download.path()).unwrap();
    eventually("the new file is served", PATIENCE, || {
        let response = other.get("/large.bin").unwrap();
        (response.content == b"new").then_some(())
    });
    let received = download.received_after(other);
    assert!(received == pattern(LARGE_BYTES, 1), "{} bytes of the old file were received", received.len());
}

#[test]
fn the_way_cold_content_takes_is_counted() {
    for (engine, counter) in [
        (AMPED, "by cachestat"),
        (AMPED_WITHOUT_CACHESTAT, "by page"),
        (AMPED_WITHOUT_NOWAIT, "by cachestat"),
        (AMPED_WITHOUT_OPENAT2, "by cachestat"),
    ] {
        let server = Launch::new(engine).file("large.bin", pattern(LARGE_BYTES, 1)).argument("--account").start();
        cool(&server.site().join("large.bin"));
        assert!(server.connect().get("/large.bin").unwrap().content == pattern(LARGE_BYTES, 1));
        let said = server.finish();
        assert_ne!(number_before(counter, &said), 0, "{engine:?}: {said}");
        assert_ne!(number_after("helper jobs: ", &said), 0, "{engine:?}: {said}");
    }
}

fn number_before(text: &str, said: &str) -> u64 {
    let before = said.split(text).next().expect("splitting gives a part");
    before.trim_end().rsplit(' ').next().and_then(|word| word.parse().ok()).expect("the summary has this counter")
}

fn number_after(text: &str, said: &str) -> u64 {
    let after = said.split(text).nth(1).expect("the summary has this counter");
    after.split(|end: char| !end.is_ascii_digit()).next().and_then(|word| word.parse().ok()).expect("a number")
}

/// A download of a large file that has begun and is not being read.
struct Download {
    server: Server,
    client: Client<TcpStream>,
}

impl Download {
    fn begin(engine: Engine) -> Download {
        let launch = Launch::new(engine).file("large.bin", pattern(LARGE_BYTES, 1)).file("hello.txt", "hello\n");
        let server = launch.start();
        let mut client = server.connect();
        client.send(b"GET /large.bin HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        let head = client.receive_head().unwrap();
        assert_eq!(head.field("Content-Length"), Some(&*LARGE_BYTES.to_string()));
        Download { server, client }
    }

    fn path(&self) -> std::path::PathBuf {
        self.server.site().join("large.bin")
    }

    /// What is received to the end, after seeing that `other` is served meanwhile.
    fn received_after(mut self, mut other: Client<TcpStream>) -> Vec<u8> {
        assert_eq!(other.get("/hello.txt").unwrap().content, b"hello\n");
        let received = self.client.receive_rest();
        assert_eq!(other.get("/hello.txt").unwrap().content, b"hello\n");
        drop(other);
        self.server.finish();
        received
    }
}

fn an_edit_in_place_is_seen_within_a_second(engine: Engine) {
    let server = Launch::new(engine).file("a.txt", "version 0").file("b.bin", pattern(400_000, 0)).start();
    let mut client = server.connect();
    let mut etags = vec![client.get("/a.txt").unwrap().field("ETag").map(str::to_owned)];
    for round in 1..4_u8 {
        let text = format!("version {round}");
        fs::write(server.site().join("a.txt"), &text).unwrap();
        let large = pattern(400_000, usize::from(round));
        fs::write(server.site().join("b.bin"), &large).unwrap();
        let etag = eventually("an edit", SEEN_WITHIN, || {
            let response = client.get("/a.txt").unwrap();
            (response.content == text.as_bytes()).then(|| response.field("ETag").map(str::to_owned))
        });
        // What was read while it might still be changing has none.
        assert!(etag.is_none() || !etags.contains(&etag), "two states have the entity tag {etag:?}");
        etags.push(etag);
        eventually("an edit of a large file", SEEN_WITHIN, || {
            (client.get("/b.bin").unwrap().content == large).then_some(())
        });
    }
    server.finish();
}

fn files_that_come_and_go_are_seen_within_a_second(engine: Engine) {
    let server = Launch::new(engine).file("dir/there.txt", "there").start();
    let mut client = server.connect();
    let mut status_of = |path: &str| client.get(path).unwrap().status;
    assert_eq!(status_of("/dir/there.txt"), 200);
    assert_eq!(status_of("/dir/new.txt"), 404);
    fs::write(server.site().join("dir/new.txt"), "new").unwrap();
    fs::remove_file(server.site().join("dir/there.txt")).unwrap();
    eventually("a file is there", SEEN_WITHIN, || (status_of("/dir/new.txt") == 200).then_some(()));
    eventually("a file is gone", SEEN_WITHIN, || (status_of("/dir/there.txt") == 404).then_some(()));
    fs::remove_dir_all(server.site().join("dir")).unwrap();
    eventually("a directory is gone", SEEN_WITHIN, || (status_of("/dir/new.txt") == 404).then_some(()));
    server.finish();
}

fn a_root_switched_by_a_link_is_seen_within_a_second(engine: Engine) {
    let launch = Launch::new(engine).config("[[site]]\nroot = \"current\"\n");
    for release in ["one", "two"] {
        let directory = launch.directory().join(release);
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join("index.html"), release).unwrap();
    }
    symlink("one", launch.directory().join("current")).unwrap();
    let server = launch.start();
    let mut client = server.connect();
    assert_eq!(client.get("/").unwrap().content, b"one");
    symlink("two", server.directory().join("next")).unwrap();
    fs::rename(server.directory().join("next"), server.directory().join("current")).unwrap();
    fs::remove_dir_all(server.directory().join("one")).unwrap();
    eventually("the new release", SEEN_WITHIN, || (client.get("/").unwrap().content == b"two").then_some(()));
    server.finish();
}

fn a_slow_reader_delays_nobody(engine: Engine) {
    let Download { server, client: mut slow } = Download::begin(engine);
    let mut other = server.connect();
    let mut received = Vec::new();
    for _ in 0..100 {
        received.extend(slow.receive_exactly(10_000).unwrap());
        assert_eq!(other.get("/hello.txt").unwrap().content, b"hello\n");
    }
    received.extend(slow.receive_rest());
    assert!(received == pattern(LARGE_BYTES, 1), "{} bytes were received", received.len());
    server.finish();
}

fn a_slow_writer_delays_nobody(engine: Engine) {
    let server = Launch::new(engine).file("hello.txt", "hello\n").start();
    let (mut slow, mut other) = (server.connect(), server.connect());
    for byte in b"GET /hello.txt HTTP/1.1\r\nHost: slow.example\r\nAccept: */*\r\n\r\n" {
        slow.send(&[*byte]);
        assert_eq!(other.get("/hello.txt").unwrap().content, b"hello\n");
    }
    assert_eq!(slow.receive(true).unwrap().content, b"hello\n");
    server.finish();
}

fn clients_that_vanish_are_forgotten(engine: Engine) {
    let server = Launch::new(engine).file("large.bin", pattern(LARGE_BYTES, 1)).file("hello.txt", "hello\n").start();
    for round in 0..60 {
        let mut client = server.connect();
        let requests = ["GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n".repeat(3), "GET /lar".to_owned(), String::new()];
        client.send(requests[round % 3].as_bytes());
        if round % 2 == 0 && round % 3 == 0 {
            client.receive_exactly(100_000).unwrap();
        }
        // Closing without lingering sends a reset (socket(7)).
        sockopt::set_socket_linger(&client.stream, Some(Duration::ZERO)).unwrap();
    }
    assert_eq!(server.connect().get("/hello.txt").unwrap().content, b"hello\n");
    let descriptors = format!("/proc/{}/fd", server.pid().as_raw_nonzero());
    eventually("the descriptors are closed", PATIENCE, || {
        (fs::read_dir(&descriptors).unwrap().count() < 30).then_some(())
    });
    server.finish();
}

fn five_thousand_idle_connections_and_a_request(engine: Engine) {
    const CONNECTIONS: usize = 5000;
    let limit = getrlimit(Resource::Nofile);
    if limit.maximum.is_some_and(|maximum| maximum < 3 * CONNECTIONS as u64) {
        let reason = format!("at most {:?} descriptors, {} would be needed", limit.maximum, 3 * CONNECTIONS);
        return skipped("five_thousand_idle_connections_and_a_request", &reason);
    }
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }).unwrap();
    let server = Launch::new(engine).file("hello.txt", "hello\n").start();
    let mut clients = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut client = server.connect();
        assert_eq!(client.get("/hello.txt").unwrap().content, b"hello\n");
        clients.push(client);
    }
    assert_eq!(server.connect().get("/hello.txt").unwrap().content, b"hello\n");
    for client in clients.iter_mut().step_by(97) {
        assert_eq!(client.get("/hello.txt").unwrap().content, b"hello\n");
    }
    drop(clients);
    server.finish();
}

fn what_cannot_be_read_is_forbidden(engine: Engine) {
    let launch = Launch::new(engine).file("locked.txt", "x").file("locked/file.txt", "x").file("hello.txt", "hello\n");
    let launch = match as_nobody(launch) {
        Ok(launch) => launch,
        Err(reason) => return skipped("what_cannot_be_read_is_forbidden", &reason),
    };
    let set_mode = |path: &Path, mode| fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    set_mode(&launch.site().join("locked.txt"), 0);
    set_mode(&launch.site().join("locked"), 0);
    let server = launch.start();
    let mut client = server.connect();
    for path in ["/locked.txt", "/locked", "/locked/", "/locked/file.txt"] {
        assert_eq!(client.get(path).unwrap().status, 403, "{path}");
    }
    assert_eq!(client.get("/hello.txt").unwrap().content, b"hello\n");
    set_mode(&server.site().join("locked.txt"), 0o644);
    eventually("a file may be read", SEEN_WITHIN, || (client.get("/locked.txt").unwrap().status == 200).then_some(()));
    // Else the directory cannot be removed.
    set_mode(&server.site().join("locked"), 0o755);
    server.finish();
}

/// Lets `launch` run as somebody for whom permissions count: nobody, if we are root.
fn as_nobody(launch: Launch) -> Result<Launch, String> {
    if !rustix::process::geteuid().is_root() {
        return Ok(launch);
    }
    let command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    // Temporary directories are private, and the built program may lie in one that is.
    let copy = launch.directory().join("lamna");
    fs::copy(env!("CARGO_BIN_EXE_lamna"), &copy).map_err(|error| format!("the program cannot be copied: {error}"))?;
    fs::set_permissions(launch.directory(), PermissionsExt::from_mode(0o755)).expect("it is ours");
    let trial = std::process::Command::new(command[0]).args(&command[1..]).arg(&copy).arg("--version").output();
    match trial {
        Ok(output) if output.status.success() => Ok(launch.wrapped(&command).program(&copy)),
        Ok(output) => Err(format!("setpriv: {}", String::from_utf8_lossy(&output.stderr).trim())),
        Err(error) => Err(format!("setpriv: {error}")),
    }
}

fn a_terminated_server_finishes_what_has_begun(engine: Engine) {
    let Download { mut server, client: mut downloading } = Download::begin(engine);
    let (mut idle, mut asking) = (server.connect(), server.connect());
    assert_eq!(idle.get("/hello.txt").unwrap().status, 200);
    asking.send(b"GET /hello.txt HTTP/1.1\r\n");
    let mut received = downloading.receive_exactly(10_000).unwrap();
    // So that the server has seen the half request.
    assert_eq!(idle.get("/hello.txt").unwrap().status, 200);
    server.signal(Signal::TERM);
    server.wait_to_hear("finishing what has begun");
    idle.expect_end().unwrap();
    eventually("who comes now is refused", PATIENCE, || TcpStream::connect(server.address()).err());
    asking.send(b"Host: a\r\n\r\n");
    let answer = asking.receive(true).unwrap();
    assert_eq!((&*answer.content, answer.field("Connection")), (&b"hello\n"[..], Some("close")));
    received.extend(downloading.receive_rest());
    assert!(received == pattern(LARGE_BYTES, 1), "{} bytes were received", received.len());
    assert!(server.wait().success());
}

fn a_second_interrupt_stops_at_once(engine: Engine) {
    let Download { mut server, client: downloading } = Download::begin(engine);
    server.signal(Signal::INT);
    server.wait_to_hear("finishing what has begun");
    server.signal(Signal::INT);
    assert!(server.wait().success());
    drop(downloading);
}

#[test]
fn the_log_is_reopened_on_hup() {
    let launch = Launch::new(AMPED).file("hello.txt", "hello\n");
    let (log, moved) = (launch.directory().join("access.log"), launch.directory().join("access.log.1"));
    let server = launch.argument("--log").argument(log.to_str().unwrap()).start();
    let mut client = server.connect();
    let has_line = |path: &Path, text: &str| fs::read_to_string(path).unwrap_or_default().contains(text).then_some(());
    client.get("/hello.txt?first").unwrap();
    eventually("the first line is written", PATIENCE, || has_line(&log, "first"));
    fs::rename(&log, &moved).unwrap();
    server.signal(Signal::HUP);
    eventually("the log is opened anew", PATIENCE, || log.exists().then_some(()));
    client.get("/hello.txt?second").unwrap();
    eventually("the second line is written", PATIENCE, || has_line(&log, "\"GET /hello.txt?second HTTP/1.1\" 200 6"));
    assert!(has_line(&moved, "second").is_none());
    server.finish();
}

#[test]
fn the_log_is_complete_when_the_server_has_ended() {
    let launch = Launch::new(AMPED).file("cold.bin", pattern(LARGE_BYTES, 1));
    let log = launch.directory().join("access.log");
    let server = launch.argument("--log").argument(log.to_str().unwrap()).start();
    let mut client = server.connect();
    for number in 0..5 {
        cool(&server.site().join("cold.bin"));
        assert_eq!(client.get(&format!("/cold.bin?{number}")).unwrap().content.len(), LARGE_BYTES);
    }
    drop(client);
    let _directory = server.into_directory();
    let lines = fs::read_to_string(&log).unwrap();
    assert!((0..5).all(|number| lines.contains(&format!("/cold.bin?{number} "))), "{lines}");
}

#[test]
fn a_full_log_disk_is_reported_and_survived() {
    let mut server = Launch::new(AMPED).file("hello.txt", "hello\n").argument("--log").argument("/dev/full").start();
    let mut client = server.connect();
    for _ in 0..1000 {
        assert_eq!(client.get("/hello.txt").unwrap().content, b"hello\n");
    }
    server.wait_to_hear("log");
    assert_eq!(client.get("/hello.txt").unwrap().content, b"hello\n");
    server.finish();
}

#[test]
fn a_unix_socket_is_served_and_removed() {
    let launch = Launch::new(AMPED).file("hello.txt", "hello\n").file("cold.bin", pattern(LARGE_BYTES, 1));
    let path = launch.directory().join("socket");
    let listen = format!("unix:{}", path.display());
    let server = launch.listen(listen).start();
    let mut client = Client::new(UnixStream::connect(&path).unwrap());
    client.stream.set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(client.get("/hello.txt").unwrap().content, b"hello\n");
    assert_eq!(client.get("/hello.txt").unwrap().content, b"hello\n");
    // Helpers of a server that has just been asked for cold content are still in reserve when it ends.
    cool(&server.site().join("cold.bin"));
    assert_eq!(client.get("/cold.bin").unwrap().content.len(), LARGE_BYTES);
    drop(client);
    let directory = server.into_directory();
    assert!(!path.exists());
    drop(directory);
}

#[test]
fn several_workers_share_connections_and_content() {
    let server = Launch::new(AMPED).file("hello.txt", "hello\n").argument("--workers").argument("3").start();
    let mut clients: Vec<_> = (0..30).map(|_| server.connect()).collect();
    for _ in 0..3 {
        for client in &mut clients {
            assert_eq!(client.get("/hello.txt").unwrap().content, b"hello\n");
        }
    }
    server.finish();
}
