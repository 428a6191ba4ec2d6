//! How servers end: draining, being told twice, workers that do not follow, and the first process of a container.

use std::fs;
use std::io::ErrorKind;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};

use crate::client::{Client, PATIENCE};
use crate::engine::{AMPED, CO_AMPED, Engine, MP, for_engines};
use crate::processes::{is_gone, stop};
use crate::server::{Launch, Server, eventually};
use crate::skip::skipped;
use crate::tree::pattern;

for_engines!(all every_architecture_ends: [
    sped_2 = SPED_2,
    amped = AMPED,
    co_amped = CO_AMPED,
    mp = MP,
    pipelined = PIPELINED,
    proactor = PROACTOR,
    thread_pool = THREAD_POOL,
    thread_per_request = THREAD_PER_REQUEST,
    thread_per_session = THREAD_PER_SESSION,
] => [
    a_server_that_drains_refuses_who_comes_and_finishes_what_has_begun,
    who_waits_to_be_accepted_when_draining_begins_is_answered,
    what_has_not_ended_within_the_drain_timeout_is_cut_off_and_counted,
    a_second_order_to_end_ends_the_server_at_once,
]);

const LARGE_BYTES: usize = 20_000_000;

/// A server at a port and at a Unix socket, which is returned, with a large file and a small one.
fn start(engine: Engine, config: &str) -> (Server, PathBuf) {
    let launch = Launch::new(engine).config(config).file("large.bin", pattern(LARGE_BYTES, 1)).file("a.txt", "hello\n");
    let socket = launch.directory().join("socket");
    let server = launch.argument("--listen").argument(&format!("unix:{}", socket.display())).start();
    (server, socket)
}

/// A download that does not go on until somebody reads.
fn download(server: &Server) -> Client<TcpStream> {
    let mut client = server.connect();
    client.send(b"GET /large.bin HTTP/1.1\r\nHost: test\r\n\r\n");
    assert_eq!(client.receive_head().unwrap().status, 200);
    client
}

fn is_refused<T>(result: std::io::Result<T>) -> Option<()> {
    result.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused).then_some(())
}

fn a_server_that_drains_refuses_who_comes_and_finishes_what_has_begun(engine: Engine) {
    let (mut server, socket) = start(engine, "");
    let mut slow = download(&server);
    server.signal(Signal::TERM);
    server.wait_to_hear("finishing what has begun");
    eventually("who comes to the port is refused", PATIENCE, || is_refused(TcpStream::connect(server.address())));
    eventually("who comes to the Unix socket is refused", PATIENCE, || is_refused(UnixStream::connect(&socket)));
    assert!(slow.receive_exactly(LARGE_BYTES).unwrap() == pattern(LARGE_BYTES, 1));
    assert!(server.wait().success());
    assert!(!socket.exists());
}

/// The main process and its workers, if these are processes.
fn processes(server: &Server) -> Vec<Pid> {
    [server.pid()].into_iter().chain(children_of(server.pid())).collect()
}

fn children_of(process: Pid) -> Vec<Pid> {
    let path = format!("/proc/{0}/task/{0}/children", process.as_raw_nonzero());
    let children = fs::read_to_string(path).unwrap_or_default();
    children.split_whitespace().filter_map(|id| Pid::from_raw(id.parse().ok()?)).collect()
}

fn who_waits_to_be_accepted_when_draining_begins_is_answered(engine: Engine) {
    let (mut server, socket) = start(engine, "");
    assert!(server.connect().get("/a.txt").is_ok());
    let all = processes(&server);
    all.iter().for_each(|process| stop(*process));
    let request = b"GET /a.txt HTTP/1.1\r\nHost: test\r\n\r\n";
    let mut waiting: Vec<_> = (0..20).map(|_| server.connect()).collect();
    waiting.iter_mut().for_each(|client| client.send(request));
    let mut local: Vec<_> = (0..20).map(|_| Client::new(UnixStream::connect(&socket).unwrap())).collect();
    local.iter_mut().for_each(|client| client.send(request));
    server.signal(Signal::TERM);
    all.iter().rev().for_each(|process| kill_process(*process, Signal::CONT).unwrap());
    for client in &mut waiting {
        assert_eq!(client.receive(true).unwrap().content, b"hello\n");
    }
    for client in &mut local {
        client.stream.set_read_timeout(Some(PATIENCE)).unwrap();
        assert_eq!(client.receive(true).unwrap().content, b"hello\n");
    }
    assert!(server.wait().success());
}

fn what_has_not_ended_within_the_drain_timeout_is_cut_off_and_counted(engine: Engine) {
    let (mut server, _) = start(engine, "drain_timeout_ms = 300\n");
    let mut slow = [download(&server), download(&server)];
    server.signal(Signal::TERM);
    let said = server.wait_to_hear("cut off");
    assert!(said.contains("2 connections were cut off, not having ended within 0.300 s (drain_timeout_ms)"), "{said}");
    assert!(server.wait().success());
    for client in &mut slow {
        assert!(client.receive_rest().len() < LARGE_BYTES);
    }
}

fn a_second_order_to_end_ends_the_server_at_once(engine: Engine) {
    for second in [Signal::TERM, Signal::INT] {
        let (mut server, _) = start(engine, "");
        let slow = download(&server);
        server.signal(Signal::TERM);
        server.wait_to_hear("finishing what has begun");
        server.signal(second);
        // Otherwise it would go on for as long as this client does not read.
        server.wait();
        drop(slow);
    }
}

#[test]
fn a_worker_process_that_somebody_has_stopped_ends_with_its_server() {
    for engine in [CO_AMPED, MP] {
        let (mut server, _) = start(engine, "");
        assert!(server.connect().get("/a.txt").is_ok());
        let workers = processes(&server).split_off(1);
        stop(workers[0]);
        server.signal(Signal::TERM);
        assert!(server.wait().success());
        assert!(workers.iter().all(|worker| is_gone(*worker)));
    }
}

#[test]
fn the_drain_timeout_can_be_changed_while_serving_and_stays_in_another_process() {
    let (mut server, _) = start(AMPED, "");
    let runtime = server.directory().join("control");
    assert!(ctl(&runtime, &["set", "--drain-timeout-ms", "300"]).contains("drain_timeout_ms: 300 instead of 600000"));
    assert!(ctl(&runtime, &["arch", "set", "mp"]).contains("mp serves in place of amped"));
    server.wait_to_hear("has taken over");
    let slow = download(&server);
    ctl(&runtime, &["drain"]);
    server.wait_to_hear("1 connection was cut off");
    server.wait_to_hear("served ");
    drop(slow);
}

#[test]
fn after_an_engine_of_processes_the_server_can_choose_again() {
    for architecture in ["mp", "co-amped"] {
        let (mut server, _) = start(AMPED, "");
        let runtime = server.directory().join("control");
        ctl(&runtime, &["arch", "set", architecture]);
        server.wait_to_hear("has taken over");
        let why = ctl(&runtime, &["arch", "why"]);
        assert!(why.contains(&format!("{architecture} serves because an administrator has set it")), "{why}");
        let set = ctl(&runtime, &["arch", "set", "auto"]);
        assert!(set.contains("the server chooses from now on; amped serves in place of"), "{set}");
        server.wait_to_hear("(auto: amped, ");
        let why = ctl(&runtime, &["arch", "why"]);
        assert!(why.contains("amped serves because the server began to choose with it"), "{why}");
        assert!(server.connect().get("/a.txt").is_ok());
        ctl(&runtime, &["drain"]);
        server.wait_to_hear("served ");
    }
}

/// What `lamna ctl` has said and done.
fn ctl(runtime: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lamna"));
    let output = command.arg("ctl").args(arguments).env("LAMNA_RUNTIME_DIR", runtime).output().unwrap();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{arguments:?}: {said}");
    said
}

/// What starts a container's process namespace.
const CONTAINER: [&str; 5] = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"];

/// A server that is the first process of a container, and that process; none where there are no containers to be had.
fn contained(engine: Engine, name: &str) -> Option<(Server, PathBuf)> {
    let works = Command::new(CONTAINER[0]).args(&CONTAINER[1..]).arg("true").output();
    if !works.is_ok_and(|output| output.status.success()) {
        skipped(name, "process namespaces cannot be made here");
        return None;
    }
    let launch = Launch::new(engine).file("a.txt", "hello\n").file("large.bin", pattern(LARGE_BYTES, 1));
    let server = launch.wrapped(&CONTAINER).start();
    let runtime = server.directory().join("control");
    Some((server, runtime))
}

/// The first process of the container, as it is called outside.
fn first(server: &Server) -> Pid {
    processes(server)[1]
}

#[test]
fn the_first_process_of_a_container_outlives_those_that_serve() {
    let name = "the_first_process_of_a_container_outlives_those_that_serve";
    let Some((mut server, runtime)) = contained(AMPED, name) else { return };
    let mut open = server.connect();
    assert!(open.get("/a.txt").is_ok());
    for words in [&["arch", "set", "mp"][..], &["upgrade"], &["arch", "set", "amped"]] {
        ctl(&runtime, words);
        server.wait_to_hear("has taken over");
        assert_eq!(open.get("/a.txt").unwrap().content, b"hello\n");
        assert_eq!(server.connect().get("/a.txt").unwrap().content, b"hello\n");
    }
    // Orders come to the first process, and concern whoever serves.
    kill_process(first(&server), Signal::USR2).unwrap();
    server.wait_to_hear("has taken over");
    kill_process(first(&server), Signal::HUP).unwrap();
    server.wait_to_hear("reloaded: the configuration is as it was");
    let mut slow = download(&server);
    kill_process(first(&server), Signal::TERM).unwrap();
    server.wait_to_hear("finishing what has begun");
    assert!(slow.receive_exactly(LARGE_BYTES).unwrap() == pattern(LARGE_BYTES, 1));
    assert!(server.wait().success());
}

#[test]
fn the_first_process_of_a_container_passes_orders_on_as_they_are_given() {
    let name = "the_first_process_of_a_container_passes_orders_on_as_they_are_given";
    for engine in [AMPED, MP] {
        let Some((mut server, runtime)) = contained(engine, name) else { return };
        let order = if engine.architecture == "mp" { "co-amped" } else { "mp" };
        // At the moment at which one process takes the place of another, it is the server that is told to end.
        let set = std::thread::spawn(move || {
            let mut command = Command::new(env!("CARGO_BIN_EXE_lamna"));
            let command = command.args(["ctl", "arch", "set", order]).env("LAMNA_RUNTIME_DIR", runtime);
            drop(command.output());
        });
        server.wait_to_hear(&format!("({order}, "));
        kill_process(first(&server), Signal::TERM).unwrap();
        assert!(server.wait().success());
        set.join().unwrap();
    }
}

#[test]
fn the_first_process_of_a_container_ends_as_the_server_has_ended() {
    let name = "the_first_process_of_a_container_ends_as_the_server_has_ended";
    let Some((mut server, runtime)) = contained(AMPED, name) else { return };
    let only_child = || match children_of(first(&server)).as_slice() {
        [only] => Some(*only),
        _ => None,
    };
    let succeeded = only_child().expect("there is one server");
    ctl(&runtime, &["upgrade"]);
    // The first process gets it when its parent has ended.
    let main = eventually("the successor is left", PATIENCE, || only_child().filter(|process| *process != succeeded));
    kill_process(main, Signal::KILL).unwrap();
    assert_eq!(server.wait().code(), Some(128 + Signal::KILL.as_raw()));
}
