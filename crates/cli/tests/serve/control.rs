//! Control of running servers: what `lamna ctl` and the endpoint say and do, whoever asks and however badly.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Signal, geteuid};

use crate::client::{Client, PATIENCE, Response};
use crate::engine::{AMPED, Engine, MP, THREAD_POOL, for_engines};
use crate::processes::stop;
use crate::server::{Launch, Server, eventually};
use crate::skip::skipped;
use crate::tls;

for_engines!([
    amped = AMPED,
    sped_2 = SPED_2,
    co_amped = CO_AMPED,
    mp = MP,
    pipelined = PIPELINED,
    proactor = PROACTOR,
    thread_pool = THREAD_POOL,
] => [
    the_endpoint_knows_the_server_and_counts_its_work,
    the_log_and_the_metrics_tell_the_same_durations,
    a_server_that_drains_is_alive_and_not_ready,
    clients_of_the_endpoint_that_do_not_behave_hold_up_nobody,
]);

/// What `lamna ctl` did.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) code: Option<i32>,
    pub(crate) output: String,
    pub(crate) error: String,
}

/// Runs `lamna ctl` for the servers of a directory.
pub(crate) fn ctl(runtime: &Path, arguments: &[&str]) -> Told {
    told(command(runtime, arguments))
}

/// What `lamna ctl` says to an order.
///
/// # Errors
/// It says that it could not be carried out.
pub(crate) fn order(server: &Server, arguments: &[&str]) -> Result<String, String> {
    let told = ctl(&runtime(server), arguments);
    if told.code == Some(0) { Ok(told.output) } else { Err(told.error) }
}

fn command(runtime: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lamna"));
    command.arg("ctl").args(arguments).env("LAMNA_RUNTIME_DIR", runtime);
    command
}

fn told(mut command: Command) -> Told {
    let output = command.output().expect("the program can be started");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("the program prints UTF-8");
    Told { code: output.status.code(), output: text(output.stdout), error: text(output.stderr) }
}

/// The directory of a server's control socket.
pub(crate) fn runtime(server: &Server) -> PathBuf {
    server.directory().join("control")
}

/// The control socket of a server.
fn socket(server: &Server) -> PathBuf {
    runtime(server).join(format!("{}.sock", server.pid().as_raw_nonzero()))
}

fn connect(server: &Server) -> Client<UnixStream> {
    let stream = UnixStream::connect(socket(server)).expect("the endpoint is open");
    stream.set_read_timeout(Some(PATIENCE)).expect("a fresh socket takes options");
    stream.set_write_timeout(Some(PATIENCE)).expect("a fresh socket takes options");
    Client::new(stream)
}

/// A figure of the server.
pub(crate) fn figure(server: &Server, name: &str) -> u64 {
    let page = String::from_utf8(get(server, "/metrics").content).unwrap();
    let line = page.lines().find(|line| line.split(' ').next() == Some(name));
    let line = line.unwrap_or_else(|| panic!("{name} is in {page}"));
    line.split(' ').nth(1).unwrap().parse().unwrap()
}

/// Waits until everything that the server's one worker has answered so far is counted: a worker hands its counters over
/// once a second. Asks for `path` meanwhile, because a worker without work has nothing to hand over.
pub(crate) fn wait_until_counted(server: &Server, path: &str) {
    let requests = || figure(server, "lamna_requests_total");
    let before = requests();
    let mut client = server.connect();
    eventually("the counters are handed over", PATIENCE, || {
        client.get(path).expect("it answers");
        (requests() > before).then_some(())
    });
}

pub(crate) fn get(server: &Server, path: &str) -> Response {
    connect(server).get(path).expect("the endpoint answers")
}

/// Orders `path`, without content.
pub(crate) fn post(server: &Server, path: &str) -> Response {
    let mut client = connect(server);
    client.send(format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n").as_bytes());
    client.receive(true).expect("the endpoint answers")
}

pub(crate) fn text(response: &Response) -> String {
    String::from_utf8(response.content.clone()).expect("the endpoint answers in UTF-8")
}

pub(crate) fn hello(engine: Engine) -> Server {
    Launch::new(engine).file("hello.txt", "hello\n").start()
}

fn the_endpoint_knows_the_server_and_counts_its_work(engine: Engine) {
    let server = hello(engine);
    let mut client = server.connect();
    assert!((0..20).all(|_| client.get("/hello.txt").is_ok_and(|response| response.status == 200)));
    assert_eq!(client.get("/nothing").unwrap().status, 404);
    let status = ctl(&runtime(&server), &["status"]);
    assert_eq!((status.code, &*status.error), (Some(0), ""));
    for part in [format!("process {}", server.pid().as_raw_nonzero()), format!("http://{}", server.address())] {
        assert!(status.output.contains(&part), "{status:?}");
    }
    assert!(status.output.contains("serving, up ") && status.output.contains(engine.architecture), "{status:?}");
    eventually("the open connection is counted", PATIENCE, || {
        let status = text(&get(&server, "/v1/status"));
        status.contains("\"connections_open\":1,").then_some(())
    });
    eventually("it is said to be idle", PATIENCE, || {
        let expected = if engine.architecture == "mp" { "null" } else { "1" };
        text(&get(&server, "/v1/stats")).contains(&format!("\"open\":1,\"idle\":{expected},")).then_some(())
    });
    drop(client);
    eventually("it is no longer counted", PATIENCE, || {
        let expected = if engine.architecture == "mp" { "null" } else { "0" };
        text(&get(&server, "/v1/stats")).contains(&format!("\"open\":0,\"idle\":{expected},")).then_some(())
    });
    eventually("all requests are counted", PATIENCE, || {
        let metrics = text(&get(&server, "/metrics"));
        let expected = [
            "lamna_requests_total 21",
            "http_server_responses_total{class=\"2xx\"} 20",
            "http_server_responses_total{class=\"4xx\"} 1",
            "http_server_request_duration_seconds_bucket{le=\"+Inf\"} 21",
            "http_server_request_duration_seconds_count 21",
        ];
        expected.iter().all(|line| metrics.contains(&format!("\n{line}\n"))).then_some(())
    });
    let stats = ctl(&runtime(&server), &["stats"]);
    assert!(stats.output.contains("2xx 20, 4xx 1"), "{stats:?}");
    assert_eq!(get(&server, "/livez").status, 200);
    assert_eq!(get(&server, "/readyz").status, 200);
    server.finish();
}

/// To the microsecond: both have them from where the last byte leaves.
fn the_log_and_the_metrics_tell_the_same_durations(engine: Engine) {
    for has_tls in [false, true] {
        let launch = Launch::new(engine).file("small", "hello\n").file("large", vec![b'x'; 300_000]);
        let log = launch.directory().join("access.log");
        let logs = ["--log", &log.display().to_string(), "--log-format", "json"].map(str::to_owned);
        let launch = logs.iter().fold(launch, |launch, argument| launch.argument(argument));
        let server = if has_tls { launch.argument("--tls") } else { launch }.start();
        let ask = |path: &str| match has_tls {
            true => tls::connect(&server, &tls::trusting(&server)).get(path).unwrap().status,
            false => server.connect().get(path).unwrap().status,
        };
        let paths = ["/small", "/large", "/small", "/nothing"].into_iter().cycle().take(20);
        assert!(paths.map(ask).all(|status| status == 200 || status == 404));
        let logged = eventually("all requests are logged", PATIENCE, || {
            let text = fs::read_to_string(&log).ok()?;
            let lines = text.lines().map(serde_json::from_str).collect::<Result<Vec<serde_json::Value>, _>>().ok()?;
            let durations = lines.iter().map(|line| line["duration"].as_f64().expect("a line has a duration"));
            (lines.len() == 20).then(|| durations.map(|seconds| (seconds * 1e6).round() as u64).sum::<u64>())
        });
        assert!(logged > 0, "requests take time");
        let counted = eventually("all requests are counted", PATIENCE, || {
            let metrics = text(&get(&server, "/metrics"));
            let value = |name: &str| {
                let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
                line.and_then(|value| value.parse::<f64>().ok())
            };
            let count = value("http_server_request_duration_seconds_count")?;
            let seconds = value("http_server_request_duration_seconds_sum")?;
            (count == 20.0).then(|| (seconds * 1e6).round() as u64)
        });
        assert_eq!(logged, counted, "with TLS: {has_tls}");
        server.finish();
    }
}

fn a_server_that_drains_is_alive_and_not_ready(engine: Engine) {
    let launch = Launch::new(engine);
    let large = fs::File::create(launch.site().join("large.bin")).unwrap();
    large.set_len(64 << 20).unwrap();
    let mut server = launch.start();
    let mut client = server.connect();
    client.send(b"GET /large.bin HTTP/1.1\r\nHost: test\r\n\r\n");
    assert_eq!(client.receive_head().unwrap().status, 200);
    let drained = ctl(&runtime(&server), &["drain"]);
    assert_eq!(drained.code, Some(0), "{drained:?}");
    assert_eq!(get(&server, "/livez").status, 200);
    assert_eq!(get(&server, "/readyz").status, 503);
    assert!(ctl(&runtime(&server), &["status"]).output.contains("draining, up"));
    client.receive_exactly(64 << 20).unwrap();
    assert!(server.wait().success());
    assert!(!socket(&server).exists(), "the socket goes with the server");
}

fn clients_of_the_endpoint_that_do_not_behave_hold_up_nobody(engine: Engine) {
    let server = hello(engine);
    // More than there are places, and none of them says anything.
    let silent: Vec<_> = (0..40).map(|_| UnixStream::connect(socket(&server)).unwrap()).collect();
    let mut deaf = connect(&server);
    deaf.send(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut slow = connect(&server);
    slow.send(b"GET /v1/st");
    assert_eq!(get(&server, "/livez").status, 200);
    assert_eq!(server.connect().get("/hello.txt").unwrap().content, b"hello\n");
    slow.send(b"atus HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(slow.receive(true).unwrap().status, 200);
    drop((silent, deaf));
    // Nothing of it is left open, however it ended.
    assert_eq!(get(&server, "/livez").status, 200);
    let descriptors = || fs::read_dir(format!("/proc/{}/fd", server.pid().as_raw_nonzero())).unwrap().count();
    let before = descriptors();
    for _ in 0..50 {
        drop(connect(&server));
        assert_eq!(get(&server, "/livez").status, 200);
    }
    eventually("connections that have ended are closed", PATIENCE, || (descriptors() <= before).then_some(()));
    server.finish();
}

#[test]
fn open_connections_are_counted_exactly_whatever_they_do_and_whichever_engine_has_them() {
    let launch = Launch::new(AMPED).file("hello.txt", "hello\n");
    fs::File::create(launch.site().join("large.bin")).unwrap().set_len(64 << 20).unwrap();
    let server = launch.start();
    let runtime = runtime(&server);
    let mut idle: Vec<_> = (0..20).map(|_| server.connect()).collect();
    assert!(idle.iter_mut().all(|client| client.get("/hello.txt").is_ok_and(|response| response.status == 200)));
    let mut begun: Vec<_> = (0..5).map(|_| server.connect()).collect();
    begun.iter_mut().for_each(|client| client.send(b"GET /hello.txt HT"));
    let mut slow: Vec<_> = (0..3).map(|_| server.connect()).collect();
    for client in &mut slow {
        client.send(b"GET /large.bin HTTP/1.1\r\nHost: test\r\n\r\n");
        assert_eq!(client.receive_head().unwrap().status, 200);
    }
    let counted = |open: u64, idle: Option<u64>, slow: Option<u64>| {
        let number = |count: Option<u64>| count.map_or("null".to_owned(), |count| count.to_string());
        let (idle, slow) = (number(idle), number(slow));
        let expected = format!("\"open\":{open},\"idle\":{idle},\"slow\":{slow},");
        let stats = || text(&get(&server, "/v1/stats"));
        eventually(&format!("{expected}\n{}", stats()), PATIENCE, || stats().contains(&expected).then_some(()));
    };
    let engines = [
        ("amped", Some(20), Some(3)),
        ("pipelined", Some(20), Some(3)),
        ("thread-pool", Some(20), None),
        ("thread-per-session", None, None),
        ("thread-per-request", Some(20), None),
        ("proactor", Some(20), Some(3)),
        ("sped", Some(20), Some(3)),
    ];
    for (engine, idle_ones, slow_ones) in engines {
        let set = ctl(&runtime, &["arch", "set", engine]);
        if set.error.contains("io_uring is refused") {
            continue;
        }
        assert_eq!(set.code, Some(0), "{set:?}");
        counted(28, idle_ones, slow_ones);
        drop((0..10).map(|_| server.connect()).collect::<Vec<_>>());
        drop(server.connect().get("/hello.txt").unwrap());
        counted(28, idle_ones, slow_ones);
    }
    drop((begun, slow));
    counted(20, Some(20), Some(0));
    drop(idle);
    counted(0, Some(0), Some(0));
    server.finish();
}

#[test]
fn nonsense_is_answered_with_what_is_wrong_with_it() {
    let server = hello(AMPED);
    let status = |request: &str| {
        let mut client = connect(&server);
        client.send(request.as_bytes());
        client.receive(true).expect("nonsense is answered").status
    };
    assert_eq!(status("\0\x01\x02 nonsense\r\n\r\n"), 400);
    assert_eq!(status("GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n"), 404);
    assert_eq!(status("POST /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"), 405);
    assert_eq!(status("GET /v1/drain HTTP/1.1\r\nHost: a\r\n\r\n"), 405);
    assert_eq!(status("DELETE /v1/arch HTTP/1.1\r\nHost: a\r\n\r\n"), 405);
    assert_eq!(status("POST /v1/arch HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n{x}"), 400);
    assert_eq!(status("POST /v1/arch HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}"), 400);
    assert_eq!(
        status("POST /v1/arch HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"),
        400
    );
    assert_eq!(status("POST /v1/arch HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n"), 413);
    assert_eq!(server.connect().get("/hello.txt").unwrap().status, 200);
    server.finish();
}

#[test]
fn a_request_that_is_too_large_is_refused_and_its_sender_can_read_why() {
    let server = hello(AMPED);
    let mut client = connect(&server);
    client.send(format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(100_000)).as_bytes());
    assert_eq!(client.receive(true).unwrap().status, 414);
    assert_eq!(get(&server, "/livez").status, 200);
    server.finish();
}

#[test]
fn two_servers_do_not_collide_and_one_has_to_be_chosen() {
    let shared = tempfile::tempdir().unwrap();
    let runtime = &shared.path().join("control");
    let start = |engine| Launch::new(engine).runtime(runtime).start();
    let (first, second) = (start(AMPED), start(MP));
    let asked = ctl(runtime, &["status"]);
    assert_eq!(asked.code, Some(2), "{asked:?}");
    assert!(asked.error.contains("2 servers are running: choose one with --admin"), "{asked:?}");
    for server in [&first, &second] {
        let socket = runtime.join(format!("{}.sock", server.pid().as_raw_nonzero()));
        let line = format!("--admin unix:{}  process {}", socket.display(), server.pid().as_raw_nonzero());
        assert!(asked.error.contains(&line), "{asked:?}");
        let chosen = ctl(runtime, &["--admin", &format!("unix:{}", socket.display()), "status"]);
        assert!(chosen.output.contains(&format!("http://{}", server.address())), "{chosen:?}");
    }
    let second_at = second.address();
    first.finish();
    let only = ctl(runtime, &["status"]);
    assert!(only.output.contains(&format!("http://{second_at}")), "{only:?}");
}

#[test]
fn the_socket_of_a_server_that_was_killed_is_told_from_a_live_one_and_removed() {
    let mut server = hello(AMPED);
    let (runtime, socket) = (runtime(&server), socket(&server));
    server.signal(Signal::KILL);
    server.wait();
    assert!(fs::symlink_metadata(&socket).unwrap().file_type().is_socket());
    let named = ctl(&runtime, &["--admin", &format!("unix:{}", socket.display()), "status"]);
    assert_eq!(named.code, Some(69), "{named:?}");
    assert!(named.error.contains("the socket is stale, its server has died"), "{named:?}");
    let found = ctl(&runtime, &["status"]);
    assert_eq!(found.code, Some(69), "{found:?}");
    assert!(found.error.contains("no server of this user is running"), "{found:?}");
    assert!(found.error.contains("The stale socket of one that died has been removed"), "{found:?}");
    assert!(!socket.exists());
    assert_eq!(ctl(&runtime, &["status"]).code, Some(69));
}

#[test]
fn a_new_server_removes_the_sockets_of_dead_ones() {
    let mut dead = hello(AMPED);
    let (runtime, stale) = (runtime(&dead), socket(&dead));
    dead.signal(Signal::KILL);
    dead.wait();
    let server = Launch::new(AMPED).runtime(&runtime).start();
    assert!(!stale.exists());
    assert_eq!(ctl(&runtime, &["status"]).code, Some(0));
    server.finish();
}

#[test]
fn a_server_that_is_stopped_is_said_not_to_answer() {
    let server = hello(AMPED);
    stop(server.pid());
    let asked = ctl(&runtime(&server), &["status"]);
    server.signal(Signal::CONT);
    assert_eq!(asked.code, Some(69), "{asked:?}");
    assert!(asked.error.contains("does not answer"), "{asked:?}");
    server.finish();
}

#[test]
fn who_is_neither_root_nor_the_server_s_user_may_not_control_it() {
    if !geteuid().is_root() {
        return skipped("who_is_neither_root_nor_the_server_s_user_may_not_control_it", "it takes root to be another");
    }
    const NOBODY: u32 = 65_534;
    let launch = Launch::new(AMPED);
    let directory = launch.directory().to_owned();
    // Nobody can get to the program and to the socket, so that nothing but the server's own look keeps them out.
    let (program, socket) = (directory.join("lamna"), directory.join("open.sock"));
    fs::copy(env!("CARGO_BIN_EXE_lamna"), &program).unwrap();
    let address = format!("unix:{}", socket.display());
    let server = launch.argument("--admin").argument(&address).start();
    fs::set_permissions(&directory, PermissionsExt::from_mode(0o755)).unwrap();
    let ask = |arguments: &[&str]| {
        let mut command = Command::new(&program);
        command.args(["ctl", "--admin", &address]).args(arguments).uid(NOBODY).gid(NOBODY);
        told(command)
    };
    assert_eq!(fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    let closed = ask(&["status"]);
    assert_eq!(closed.code, Some(77), "{closed:?}");
    fs::set_permissions(&socket, PermissionsExt::from_mode(0o666)).unwrap();
    for command in ["status", "drain"] {
        let refused = ask(&[command]);
        assert_eq!(refused.code, Some(77), "{refused:?}");
        assert!(refused.error.contains("only root and the user that runs this server"), "{refused:?}");
    }
    assert_eq!(ctl(&directory, &["--admin", &address, "status"]).code, Some(0));
    server.finish();
}

#[test]
fn in_a_runtime_directory_as_service_managers_make_it_the_socket_is_closed_to_others_and_found() {
    let launch = Launch::new(AMPED);
    let runtime = launch.directory().join("run");
    fs::create_dir(&runtime).unwrap();
    fs::set_permissions(&runtime, PermissionsExt::from_mode(0o755)).unwrap();
    let mut server = launch.runtime(&runtime).start();
    let within = runtime.join("lamna");
    assert_eq!(fs::metadata(&within).unwrap().permissions().mode() & 0o777, 0o700);
    let status = ctl(&runtime, &["status"]);
    assert_eq!(status.code, Some(0), "{status:?}");
    assert_eq!(ctl(&runtime, &["drain"]).code, Some(0));
    assert!(server.wait().success());
    assert_eq!(fs::read_dir(&within).unwrap().count(), 0);
}

#[test]
fn root_finds_the_servers_of_other_users_unless_it_has_one() {
    if !geteuid().is_root() {
        return skipped("root_finds_the_servers_of_other_users_unless_it_has_one", "it takes root to be another");
    }
    const NOBODY: u32 = 65_534;
    let launch = Launch::new(AMPED);
    let directory = launch.directory().to_owned();
    let (program, runtime) = (directory.join("lamna"), directory.join("of-nobody"));
    fs::copy(env!("CARGO_BIN_EXE_lamna"), &program).unwrap();
    fs::create_dir(&runtime).unwrap();
    fs::set_permissions(&runtime, PermissionsExt::from_mode(0o700)).unwrap();
    std::os::unix::fs::chown(&runtime, Some(NOBODY), Some(NOBODY)).unwrap();
    fs::set_permissions(&directory, PermissionsExt::from_mode(0o755)).unwrap();
    let user = NOBODY.to_string();
    let launch = launch.program(&program).runtime(&runtime);
    let server = launch.wrapped(&["setpriv", "--reuid", &user, "--regid", &user, "--clear-groups"]).start();
    let found = ctl(&runtime, &["status"]);
    assert_eq!(found.code, Some(0), "{found:?}");
    // A directory that others may change could hold anything.
    fs::set_permissions(&runtime, PermissionsExt::from_mode(0o770)).unwrap();
    assert_eq!(ctl(&runtime, &["status"]).code, Some(69));
    server.finish();
}

/// A server with an endpoint on a port as well, and its address.
fn over_tcp(launch: Launch) -> (Server, String) {
    let mut server = launch.argument("--admin").argument("127.0.0.1:0").spawn();
    let line = server.wait_to_hear("lamna: control at ");
    let address = line.split("control at ").nth(1).unwrap().to_owned();
    server.wait_to_hear("lamna: serving");
    (server, address)
}

fn status_over_tcp(address: &str, method: &str, path: &str, fields: &str) -> u16 {
    let mut client = Client::new(TcpStream::connect(address).unwrap());
    client.send(format!("{method} {path} HTTP/1.1\r\n{fields}\r\nContent-Length: 0\r\n\r\n").as_bytes());
    client.receive(true).unwrap().status
}

#[test]
fn over_tcp_anybody_may_look_and_orders_take_the_token() {
    let (mut server, address) = over_tcp(Launch::new(AMPED));
    let runtime = runtime(&server);
    // Beside it there is the Unix socket that is found.
    let status = ctl(&runtime, &["status"]);
    assert_eq!(status.code, Some(0), "{status:?}");
    let file = runtime.join(format!("{address}.token"));
    let token = fs::read_to_string(&file).unwrap();
    assert_eq!((token.len(), fs::metadata(&file).unwrap().permissions().mode() & 0o777), (64, 0o600));
    let drain = |fields: &str| status_over_tcp(&address, "POST", "/v1/drain", fields);
    let own = format!("Host: {address}");
    assert_eq!(drain(&own), 403);
    let last = if token.ends_with('0') { '1' } else { '0' };
    assert_eq!(drain(&format!("{own}\r\nAuthorization: Bearer {}{last}", &token[..63])), 403);
    let with_token = format!("Authorization: Bearer {token}");
    assert_eq!(drain(&format!("Host: rebound.example\r\n{with_token}")), 403);
    assert_eq!(drain(&format!("{own}\r\nOrigin: http://{address}\r\n{with_token}")), 403);
    assert_eq!(status_over_tcp(&address, "GET", "/v1/status", &own), 200);
    // Who cannot read the token may look, and is told what orders take.
    let elsewhere = tempfile::tempdir().unwrap();
    assert_eq!(ctl(elsewhere.path(), &["--admin", &address, "status"]).code, Some(0));
    let refused = ctl(elsewhere.path(), &["--admin", &address, "drain"]);
    assert_eq!(refused.code, Some(77), "{refused:?}");
    assert!(refused.error.contains("token"), "{refused:?}");
    let words = ["--admin", &address, "--token-file", &file.display().to_string(), "set", "--helpers-max", "3"];
    assert_eq!(ctl(elsewhere.path(), &words).code, Some(0));
    // `lamna ctl` finds it and sends it.
    let drained = ctl(&runtime, &["--admin", &address, "drain"]);
    assert_eq!(drained.code, Some(0), "{drained:?}");
    assert!(server.wait().success());
    assert!(!file.exists());
    let gone = ctl(&runtime, &["--admin", &address, "status"]);
    assert_eq!(gone.code, Some(69), "{gone:?}");
    assert!(gone.error.contains("no server listens on"), "{gone:?}");
}

#[test]
fn monitoring_reaches_the_endpoint_by_names_that_only_this_machine_can_have() {
    let launch = Launch::new(AMPED).config("admin_hosts = [\"metrics.example.org\"]");
    let (server, address) = over_tcp(launch);
    let get = |path: &str, host: &str| status_over_tcp(&address, "GET", path, &format!("Host: {host}"));
    for host in ["web1.internal:9100", "web1", "metrics.example.org:9100"] {
        assert_eq!((get("/metrics", host), get("/readyz", host)), (200, 200), "{host}");
    }
    // Whoever may have registered the name learns that the server lives, and nothing else.
    assert_eq!(get("/metrics", "rebound.example"), 403);
    assert_eq!(get("/v1/status", "rebound.example"), 403);
    assert_eq!((get("/readyz", "rebound.example"), get("/livez", "rebound.example")), (200, 200));
    server.finish();
}

#[test]
fn idle_connections_to_the_endpoint_from_one_address_keep_nobody_else_out() {
    let (server, address) = over_tcp(Launch::new(AMPED));
    let from = |source: [u8; 4]| {
        use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};
        let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
        bind(&socket, &std::net::SocketAddr::from((source, 0))).unwrap();
        connect(&socket, &address.parse::<std::net::SocketAddr>().unwrap()).unwrap();
        let stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Client::new(stream)
    };
    // A byte each, so that the endpoint has them before it has the probe.
    let idle = |_| {
        let mut client = from([127, 0, 0, 2]);
        client.send(b"G");
        client
    };
    let before: Vec<_> = (0..15).map(idle).collect();
    let mut probe = from([127, 0, 0, 3]);
    probe.send(b"GET /readyz HTTP/1.1\r\nHost: a\r\n");
    let after: Vec<_> = (0..30).map(idle).collect();
    // It has been taken: another one that came later is answered.
    assert_eq!(get(&server, "/livez").status, 200);
    probe.send(b"\r\n");
    assert_eq!(probe.receive(true).unwrap().status, 200);
    drop((before, after));
    server.finish();
}

#[test]
fn a_server_without_an_endpoint_serves() {
    let server = Launch::new(AMPED).file("hello.txt", "hello\n").argument("--admin").argument("off").start();
    assert_eq!(server.connect().get("/hello.txt").unwrap().status, 200);
    assert!(!runtime(&server).exists());
    assert_eq!(ctl(&runtime(&server), &["status"]).code, Some(69));
    server.finish();
}

#[test]
fn a_server_serves_if_its_endpoint_cannot_be_had_unless_that_was_asked_for() {
    let launch = Launch::new(AMPED).file("hello.txt", "hello\n");
    let in_the_way = launch.directory().join("file");
    fs::write(&in_the_way, "").unwrap();
    let server = launch.runtime(&in_the_way).start();
    assert_eq!(server.connect().get("/hello.txt").unwrap().status, 200);
    assert!(server.finish().contains("`lamna ctl` will not find this server"));

    let launch = Launch::new(AMPED);
    let address = format!("unix:{}/nowhere/a.sock", launch.directory().display());
    let (status, said) = launch.argument("--admin").argument(&address).fail();
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("does not exist"), "{said}");
}

#[test]
fn why_this_architecture_serves_is_one_sentence() {
    let server = hello(AMPED);
    let why = ctl(&runtime(&server), &["arch", "why"]);
    assert_eq!((why.code, why.output.lines().count()), (Some(0), 1), "{why:?}");
    assert!(why.output.contains("amped"), "{why:?}");
    server.finish();
}

#[test]
fn what_makes_no_sense_is_wrong_usage() {
    let nowhere = Path::new("/nonexistent");
    for arguments in [&["arch", "set"][..], &["arch", "set", "mpm"], &["start"], &[], &["--admin", "off", "status"]] {
        assert_eq!(ctl(nowhere, arguments).code, Some(2), "{arguments:?}");
    }
}

#[test]
fn the_whole_answer_arrives_however_slowly_it_is_read() {
    let server = Launch::new(THREAD_POOL).argument("--threads").argument("200").start();
    let mut stream = UnixStream::connect(socket(&server)).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut answer = Vec::new();
    let mut piece = [0; 1000];
    loop {
        match stream.read(&mut piece).unwrap() {
            0 => break,
            bytes => answer.extend_from_slice(&piece[..bytes]),
        }
        assert_eq!(get(&server, "/livez").status, 200);
    }
    let answer = String::from_utf8(answer).unwrap();
    assert!(answer.contains("\nlamna_requests_total 0\n") && answer.ends_with('\n'));
    server.finish();
}
