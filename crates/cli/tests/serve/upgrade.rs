//! Processes that take each other's place, seen by clients that look at every byte.
//!
//! Owns: the succession of a server's processes, which are ended one by one, by their ids. `LAMNA_UPGRADES` is how many
//! upgrades are made under load, `LAMNA_CHANGES` how many changes between threads and processes.

mod buffered;
mod http2;
mod load;
mod logs;
mod operators;
mod remainder;
mod storm;
mod tls;
mod uploads;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::changes::value_of;
use crate::client::{Client, PATIENCE, Response};
use crate::engine::{AMPED, Engine, MP, for_engines};
use crate::processes::is_gone;
use crate::server::{Launch, Server, eventually};
use crate::skip::skipped;
use crate::tree::pattern;
use load::under_load;

for_engines!([
    sped_2 = SPED_2,
    amped = AMPED,
    pipelined = PIPELINED,
    proactor = PROACTOR,
    thread_pool = THREAD_POOL,
    thread_per_request = THREAD_PER_REQUEST,
    thread_per_session = THREAD_PER_SESSION,
    co_amped = CO_AMPED,
    mp = MP,
    helper_processes = AMPED_WITH_HELPER_PROCESSES,
] => [
    connections_in_every_state_go_on_in_the_new_process,
]);

const SMALL: &str = "/small.txt";
const MIDDLE: &str = "/middle.bin";
const LARGE: &str = "/large.bin";
const MIDDLE_BYTES: usize = 150_000;
const LARGE_BYTES: usize = 20_000_000;

/// What is at `path`.
fn content(path: &str) -> Vec<u8> {
    match path {
        SMALL => b"hello\n".to_vec(),
        MIDDLE => pattern(MIDDLE_BYTES, 3),
        LARGE => pattern(LARGE_BYTES, 1),
        other => panic!("there is nothing at {other}"),
    }
}

fn connections_in_every_state_go_on_in_the_new_process(engine: Engine) {
    let mut line = Line::start(Launch::new(engine));
    let server = &line.server;
    let (mut idle, mut head, mut body) = (server.connect(), server.connect(), server.connect());
    let (mut batch, mut slow, mut ranges) = (server.connect(), server.connect(), server.connect());
    for client in [&mut idle, &mut head, &mut body, &mut batch, &mut slow, &mut ranges] {
        assert!(client.get(SMALL).is_ok(), "a worker has the connection");
    }
    head.send(b"GET /small.txt HTTP/1.1\r\nHo");
    body.send(b"GET /small.txt HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab");
    batch.send(format!("GET {LARGE} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
    batch.send(format!("GET {MIDDLE} HTTP/1.1\r\nHost: a\r\n\r\nGET {SMALL} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
    slow.send(format!("GET {LARGE} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
    assert_eq!(slow.receive_head().unwrap().status, 200);
    ranges.send(
        format!("GET {LARGE} HTTP/1.1\r\nHost: a\r\nRange: bytes=0-9999999,15000000-15000004\r\n\r\n").as_bytes(),
    );
    let parts = ranges.receive_head().unwrap();
    assert_eq!(parts.status, 206);

    line.upgrade();
    line.is_alone();

    let large = content(LARGE);
    assert!(slow.receive_exactly(LARGE_BYTES).unwrap() == large);
    assert!(batch.receive(true).unwrap().content == large);
    assert!(batch.receive(true).unwrap().content == content(MIDDLE));
    assert!(batch.receive(true).unwrap().content == content(SMALL));
    assert!(
        ranges.receive_exactly(parts.field("Content-Length").unwrap().parse().unwrap()).unwrap() == multipart(&parts)
    );
    head.send(b"st: a\r\n\r\n");
    assert_eq!(head.receive(true).unwrap().content, content(SMALL));
    body.send(b"cde\r\n0\r\n\r\n");
    assert_eq!(body.receive(true).unwrap().content, content(SMALL));
    for client in [&mut idle, &mut head, &mut body, &mut batch, &mut slow, &mut ranges, &mut line.server.connect()] {
        assert_eq!(client.get(SMALL).unwrap().content, content(SMALL));
    }
    let said = line.end();
    assert!(!said.contains("could not be"), "{said}");
}

/// The content of an answer with the ranges 0-9999999 and 15000000-15000004 of the large file.
fn multipart(head: &Response) -> Vec<u8> {
    let boundary = head.field("Content-Type").unwrap().split_once("boundary=").unwrap().1;
    let (large, mut expected) = (content(LARGE), Vec::new());
    for (first, last) in [(0, 9_999_999), (15_000_000, 15_000_004)] {
        let head = format!(
            "\r\n--{boundary}\r\nContent-Type: application/octet-stream\r\n\
             Content-Range: bytes {first}-{last}/{LARGE_BYTES}\r\n\r\n"
        );
        expected.extend_from_slice(head.as_bytes());
        expected.extend_from_slice(&large[first..=last]);
    }
    expected.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
    expected
}

#[test]
fn upgrades_under_load_lose_nothing() {
    let upgrades = from_environment("LAMNA_UPGRADES", 5);
    let mut line = Line::start(Launch::new(AMPED));
    let program = line.program.clone();
    under_load(line.server.address(), || {
        for upgrade in 0..upgrades {
            if upgrade % 5 == 2 {
                replace(&program, "#!/bin/sh\nexit 3\n");
                line.signal(Signal::USR2);
                line.server.wait_to_hear("not upgraded");
                restore(&program);
            }
            line.upgrade();
            line.is_alone();
            thread::sleep(Duration::from_millis(50));
        }
    });
    line.end();
}

#[test]
fn what_was_learned_of_requests_goes_on() {
    let launch = Launch::new(AMPED).file("index.html", "<title>page</title>").file("style.css", "body{}");
    let mut line = Line::start(launch.config("hints = true\nhints_file = \"hints.table\""));
    let site = line.server.address();
    for _ in 0..9 {
        let mut client = line.server.connect();
        for request in ["GET / HTTP/1.1", "GET /style.css HTTP/1.1\r\nReferer: http://test/"] {
            client.send(format!("{request}\r\nHost: test\r\n\r\n").as_bytes());
            assert_eq!(client.receive(true).expect("it answers").status, 200);
        }
    }
    let known = |line: &Line| line.ctl(&["hints", "/"]).1.contains("/style.css");
    eventually("it is learned", PATIENCE, || known(&line).then_some(()));
    line.upgrade();
    line.is_alone();
    assert_eq!(site, line.server.address());
    assert!(known(&line), "{}", line.ctl(&["hints", "/"]).1);
    line.end();
}

#[test]
fn threads_and_processes_take_each_others_place_under_load() {
    let changes = from_environment("LAMNA_CHANGES", 7);
    let mut line = Line::start(Launch::new(MP).argument("--processes-max=64"));
    let order = ["amped", "mp", "co-amped", "sped", "co-amped", "thread-pool", "mp"];
    under_load(line.server.address(), || {
        for name in order.iter().cycle().take(changes) {
            let (done, said) = line.ctl(&["arch", "set", name]);
            assert!(done, "{said}");
            line.server.wait_to_hear(&format!("({name}, "));
            line.hear_of_successor();
            line.is_alone();
            thread::sleep(Duration::from_millis(50));
        }
    });
    line.end();
}

#[test]
fn a_connection_that_comes_while_an_engine_leaves_is_taken_though_no_other_follows() {
    let mut line = Line::start(Launch::new(MP));
    for name in ["co-amped", "mp", "amped", "mp"].iter().cycle().take(from_environment("LAMNA_CHANGES", 20)) {
        let (done, said) = line.ctl(&["arch", "set", name]);
        assert!(done, "{said}");
        line.hear_of_successor();
        // Nobody else comes, whose coming would have the first one noticed as well.
        assert_eq!(line.server.connect().get(SMALL).unwrap().content, content(SMALL));
    }
    line.is_alone();
    line.end();
}

#[test]
fn a_program_that_cannot_take_over_changes_nothing() {
    let mut line = Line::start(Launch::new(AMPED));
    let mut open = line.server.connect();
    for (script, why) in [
        ("#!/bin/sh\nexit 3\n", "the new process has ended before it served (exit status: 3)"),
        ("#!/bin/sh\nkill -SEGV $$\n", "the new process has ended before it served (signal: 11"),
        ("#!/bin/sh\nexec sleep 1000\n", "the new process did not serve within 10 s, and was killed"),
        ("no program\n", "cannot be started"),
    ] {
        replace(&line.program, script);
        line.signal(Signal::USR2);
        line.server.wait_to_hear(why);
        assert_eq!(open.get(SMALL).unwrap().content, content(SMALL));
        assert!(line.server.connect().get(SMALL).is_ok());
    }
    replace(&line.program, "#!/bin/sh\nexit 3\n");
    let (done, said) = line.ctl(&["upgrade"]);
    assert!(!done && said.contains("the new process has ended"), "{said}");
    restore(&line.program);
    let (done, said) = line.ctl(&["upgrade"]);
    assert!(done, "{said}");
    line.hear_of_successor();
    line.is_alone();
    assert_eq!(open.get(SMALL).unwrap().content, content(SMALL));
    line.end();
}

#[test]
fn connections_that_find_no_free_process_wait_for_one() {
    let mut line = Line::start(Launch::new(AMPED).argument("--processes=2").argument("--processes-max=4"));
    let clients: Vec<_> = (0..300).map(|_| line.server.connect()).collect();
    let clients: Vec<_> = clients
        .into_iter()
        .map(|mut client| {
            assert!(client.get(SMALL).is_ok());
            client
        })
        .collect();
    let (done, said) = line.ctl(&["arch", "set", "mp"]);
    assert!(done, "{said}");
    line.hear_of_successor();
    thread::scope(|scope| {
        for mut client in clients {
            // Each leaves its process to the next one.
            scope.spawn(move || assert_eq!(client.get(SMALL).unwrap().content, content(SMALL)));
        }
    });
    line.is_alone();
    let said = line.end();
    assert!(!said.contains("could not be"), "{said}");
}

#[test]
fn the_cache_policy_and_ways_to_send_that_were_chosen_stay_chosen_in_other_processes() {
    let mut line = Line::start(Launch::new(AMPED));
    let (done, said) = line.ctl(&["set", "--cache-policy", "sieve", "--send", "copy"]);
    assert!(done, "{said}");
    for (words, architecture) in [(&["upgrade"][..], "amped"), (&["arch", "set", "co-amped"], "co-amped")] {
        let (done, said) = line.ctl(words);
        assert!(done, "{said}");
        line.hear_of_successor();
        line.is_alone();
        let (_, arch) = line.ctl(&["arch"]);
        assert_eq!((value_of(&arch, "cache_policy"), value_of(&arch, "send")), ("sieve", "copy"), "{arch}");
        assert!(arch.contains(architecture), "{arch}");
    }
    // Worker processes are changed through others as well.
    let (done, said) = line.ctl(&["set", "--message-copy-bytes-max", "1KiB"]);
    assert!(done, "{said}");
    line.hear_of_successor();
    line.is_alone();
    assert_eq!(value_of(&line.ctl(&["arch"]).1, "message_copy_bytes_max"), "1KiB");
    line.end();
}

#[test]
fn a_program_that_is_not_there_is_said_to_be_missing_by_the_server_and_to_who_asked() {
    let mut line = Line::start(Launch::new(AMPED));
    fs::remove_file(&line.program).unwrap();
    let (done, said) = line.ctl(&["upgrade"]);
    assert!(!done && said.contains("cannot be started"), "{said}");
    let heard = line.server.wait_to_hear("not upgraded, going on as before");
    assert!(heard.contains("cannot be started"), "{heard}");
    line.end();
}

#[test]
fn both_control_sockets_and_the_token_go_on_to_the_next_process() {
    let mut line = Line::start(Launch::new(AMPED).argument("--admin").argument("127.0.0.1:0"));
    let said = line.server.said();
    let address = said.split("control at ").nth(1).and_then(|rest| rest.split_whitespace().next()).unwrap().to_owned();
    let file = line.runtime().join(format!("{address}.token"));
    let token = fs::read_to_string(&file).unwrap();
    for words in [&["upgrade"][..], &["arch", "set", "co-amped"], &["upgrade"]] {
        let (done, said) = line.ctl(&[&["--admin", &address], words].concat());
        assert!(done, "{said}");
        line.hear_of_successor();
        line.is_alone();
        assert_eq!(fs::read_to_string(&file).unwrap(), token);
        assert!(line.ctl(&["status"]).0, "the Unix socket is found");
    }
    line.end_but(|| assert!(!file.exists()));
}

#[test]
fn what_waits_for_a_process_goes_on_to_the_next_program() {
    let mut line = Line::start(Launch::new(AMPED).argument("--processes=2").argument("--processes-max=2"));
    let mut clients: Vec<_> = (0..300).map(|_| line.server.connect()).collect();
    assert!(clients.iter_mut().all(|client| client.get(SMALL).is_ok()));
    for architecture in ["mp", "amped"] {
        let (done, said) = line.ctl(&["arch", "set", architecture]);
        assert!(done, "{said}");
        line.hear_of_successor();
    }
    for client in &mut clients {
        assert_eq!(client.get(SMALL).unwrap().content, content(SMALL));
    }
    line.is_alone();
    line.end();
}

#[test]
fn connections_are_finished_where_they_are_if_the_new_program_does_not_understand_them() {
    if Command::new("python3").arg("-V").output().is_err() {
        return skipped("a program of another version", "there is no python3");
    }
    let mut line = Line::start(Launch::new(AMPED));
    let (mut slow, mut idle) = (line.server.connect(), line.server.connect());
    assert!(idle.get(SMALL).is_ok());
    slow.send(format!("GET {LARGE} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
    assert_eq!(slow.receive_head().unwrap().status, 200);
    replace(&line.program, OF_ANOTHER_VERSION);
    line.upgrade();
    idle.expect_end().unwrap();
    assert!(slow.receive_exactly(LARGE_BYTES).unwrap() == content(LARGE));
    line.is_alone();
    line.signal(Signal::KILL);
}

/// Says that it serves, and takes connections of a version that there is not.
const OF_ANOTHER_VERSION: &str = r#"#!/usr/bin/env python3
import os, socket, time
passed = dict(word.split("=") for word in os.environ["LAMNA_UPGRADE"].split())
socket.socket(fileno=int(passed["handover"])).send(b"ready 65535")
time.sleep(1000)
"#;

#[test]
fn worker_processes_go_on_if_nobody_takes_over() {
    let mut line = Line::start(Launch::new(MP));
    let mut open = line.server.connect();
    replace(&line.program, "#!/bin/sh\nexit 3\n");
    line.signal(Signal::USR2);
    line.server.wait_to_hear("not upgraded, going on as before: the new process has ended");
    assert_eq!(open.get(SMALL).unwrap().content, content(SMALL));
    line.end();
}

#[test]
fn a_second_order_while_a_process_begins_is_refused_and_an_end_ends_both() {
    let mut line = Line::start(Launch::new(AMPED));
    let begun = line.server.directory().join("begun");
    replace(&line.program, &format!("#!/bin/sh\necho $$ > {}\nexec sleep 1000\n", begun.display()));
    line.signal(Signal::USR2);
    let pid = || fs::read_to_string(&begun).ok()?.trim().parse().ok().and_then(Pid::from_raw);
    let candidate = eventually("the new process begins", PATIENCE, pid);
    line.signal(Signal::USR2);
    line.server.wait_to_hear("another process is taking over already");
    let said = line.end();
    assert!(is_gone(candidate), "{said}");
}

#[test]
fn the_endpoint_answers_others_while_one_waits_for_a_process_that_begins() {
    for engine in [AMPED, MP] {
        let mut line = Line::start(Launch::new(engine));
        let begun = line.server.directory().join("begun");
        replace(&line.program, &format!("#!/bin/sh\necho $$ > {}\nexec sleep 1000\n", begun.display()));
        let runtime = line.runtime();
        thread::scope(|scope| {
            let upgrade = scope.spawn(|| ctl(&runtime, &["upgrade"]));
            let pid = || fs::read_to_string(&begun).ok()?.trim().parse().ok().and_then(Pid::from_raw);
            let candidate = eventually("the new process begins", PATIENCE, pid);
            let (done, said) = line.ctl(&["status"]);
            assert!(done && said.contains("serving, up ") && !upgrade.is_finished(), "{said}");
            // Another order waits until it is known who serves, and is carried out then.
            let later = scope.spawn(|| ctl(&runtime, &["arch", "set", "sped"]));
            restore(&line.program);
            kill_process(candidate, Signal::KILL).unwrap();
            let (done, said) = upgrade.join().unwrap();
            assert!(!done && said.contains("the new process has ended before it served"), "{said}");
            let (done, said) = later.join().unwrap();
            assert!(done && said.contains("sped serves"), "{said}");
        });
        if engine.architecture == "mp" {
            line.hear_of_successor();
            line.is_alone();
        }
        assert!(line.ctl(&["status"]).0);
        line.end();
    }
}

#[test]
fn what_was_chosen_while_serving_stays_chosen_and_the_control_socket_stays_where_it_is() {
    let mut line = Line::start(Launch::new(AMPED));
    let sockets = || fs::read_dir(line.server.directory().join("control")).unwrap().flatten().map(|one| one.path());
    let before: Vec<PathBuf> = sockets().collect();
    let (done, said) = line.ctl(&["arch", "set", "thread-pool"]);
    assert!(done, "{said}");
    let successor = line.upgrade();
    line.is_alone();
    let (done, said) = line.ctl(&["--json", "status"]);
    assert!(done && said.contains(&format!("\"pid\":{}", successor.as_raw_nonzero())), "{said}");
    assert!(said.contains("\"architecture\":\"thread-pool\""), "{said}");
    let sockets = || fs::read_dir(line.server.directory().join("control")).unwrap().flatten().map(|one| one.path());
    assert_eq!(sockets().collect::<Vec<_>>(), before);
    let directory = line.server.directory().join("control");
    line.end_but(|| assert_eq!(fs::read_dir(directory).unwrap().count(), 0, "the last one removes it"));
}

#[test]
fn the_file_of_a_unix_socket_survives_and_goes_with_the_last() {
    let launch = Launch::new(AMPED);
    let path = launch.directory().join("socket");
    let address = format!("unix:{}", path.display());
    let mut line = Line::start(launch.listen(address));
    let ask = || Client::new(UnixStream::connect(&path).unwrap()).get(SMALL).unwrap().content;
    assert_eq!(ask(), content(SMALL));
    line.upgrade();
    line.is_alone();
    assert_eq!(ask(), content(SMALL));
    line.end_but(|| assert!(!path.exists()));
}

/// What a service manager hears, at an address of its own.
struct Manager(UnixDatagram);

impl Manager {
    /// At `path`, and the words that have a server tell it.
    fn at(path: &Path) -> (Manager, String) {
        let socket = UnixDatagram::bind(path).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        (Manager(socket), format!("NOTIFY_SOCKET={}", path.display()))
    }

    fn hear(&self) -> String {
        let mut message = [0; 100];
        let bytes = self.0.recv(&mut message).unwrap();
        String::from_utf8_lossy(&message[..bytes]).into_owned()
    }
}

#[test]
fn a_service_manager_is_told_which_process_serves() {
    let launch = Launch::new(AMPED);
    let (manager, variable) = Manager::at(&launch.directory().join("notify"));
    let mut line = Line::start(launch.wrapped(&["env", &variable]));
    assert_eq!(manager.hear(), "READY=1");
    let process = line.upgrade();
    assert_eq!(
        (manager.hear(), manager.hear()),
        ("READY=1".to_owned(), format!("MAINPID={}", process.as_raw_nonzero()))
    );
    line.is_alone();
    line.end_but(|| assert_eq!(manager.hear(), "STOPPING=1"));
}

#[test]
fn a_service_manager_is_told_when_the_configuration_is_read_again() {
    for engine in [AMPED, MP] {
        let launch = Launch::new(engine).config("[[site]]\nroot = \"site\"\n");
        let config = launch.directory().join("lamna.toml");
        let (manager, variable) = Manager::at(&launch.directory().join("notify"));
        let server = launch.wrapped(&["env", &variable]).start();
        assert_eq!(manager.hear(), "READY=1");
        for text in ["[[site]]\nroot = \"site\"\n", "nonsense"] {
            fs::write(&config, text).unwrap();
            kill_process(server.pid(), Signal::HUP).unwrap();
            let reloading = manager.hear();
            let (_, usec) = reloading.split_once("RELOADING=1\nMONOTONIC_USEC=").expect(&reloading);
            assert!(usec.parse::<u64>().is_ok(), "{reloading}");
            assert_eq!(manager.hear(), "READY=1");
        }
        server.finish();
        assert_eq!(manager.hear(), "STOPPING=1");
    }
}

#[test]
fn a_watchdog_hears_of_the_server_again_and_again() {
    for engine in [AMPED, MP] {
        let launch = Launch::new(engine);
        let (manager, variable) = Manager::at(&launch.directory().join("notify"));
        let server = launch.wrapped(&["env", &variable, "WATCHDOG_USEC=200000"]).start();
        let heard: Vec<String> = (0..4).map(|_| manager.hear()).collect();
        assert_eq!(heard.iter().filter(|one| *one == "READY=1").count(), 1, "{heard:?}");
        assert_eq!(heard.iter().filter(|one| *one == "WATCHDOG=1").count(), 3, "{heard:?}");
        server.finish();
    }
}

#[test]
fn a_variable_that_was_meant_for_another_process_is_ignored() {
    let nonsense = ["env", "LAMNA_UPGRADE=parent=1 clock=1 handover=0"];
    let server = Launch::new(AMPED).file("small.txt", content(SMALL)).wrapped(&nonsense).start();
    assert!(server.connect().get(SMALL).is_ok());
    server.finish();
}

/// What `lamna ctl` has done with the only server of a directory, and said.
fn ctl(runtime: &Path, arguments: &[&str]) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lamna"));
    let output = command.arg("ctl").args(arguments).env("LAMNA_RUNTIME_DIR", runtime).output();
    let output = output.expect("the program can be started");
    (output.status.success(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

/// A server and those that take its place.
struct Line {
    server: Server,
    /// What is started: a link to the program, or something else for a while.
    program: PathBuf,
    /// All processes so far; the last one serves.
    processes: Vec<Pid>,
}

impl Line {
    fn start(launch: Launch) -> Line {
        let program = launch.directory().join("lamna");
        restore(&program);
        let launch = [SMALL, MIDDLE, LARGE].iter().fold(launch, |launch, path| launch.file(&path[1..], content(path)));
        let server = launch.program(&program).start();
        Line { program, processes: vec![server.pid()], server }
    }

    fn current(&self) -> Pid {
        *self.processes.last().expect("there is the first")
    }

    fn signal(&self, signal: Signal) {
        kill_process(self.current(), signal).expect("it serves");
    }

    fn upgrade(&mut self) -> Pid {
        self.signal(Signal::USR2);
        self.hear_of_successor()
    }

    /// Waits until another process has taken over.
    fn hear_of_successor(&mut self) -> Pid {
        let said = self.server.wait_to_hear("has taken over");
        let process = said.split_once("process ").and_then(|(_, rest)| rest.split(' ').next()?.parse().ok());
        self.processes.push(process.and_then(Pid::from_raw).expect("it says which"));
        self.current()
    }

    /// Waits until all processes have gone but the last.
    fn is_alone(&self) {
        for process in &self.processes[..self.processes.len() - 1] {
            eventually("who was succeeded ends", PATIENCE, || is_gone(*process).then_some(()));
        }
    }

    /// `lamna ctl`: whether it could, and what it said.
    fn ctl(&self, arguments: &[&str]) -> (bool, String) {
        ctl(&self.runtime(), arguments)
    }

    /// The directory of its control socket.
    fn runtime(&self) -> PathBuf {
        self.server.directory().join("control")
    }

    /// Ends it. What all have said.
    fn end(self) -> String {
        self.end_but(|| ())
    }

    /// Ends it, and looks at something before its directory goes.
    fn end_but(mut self, look: impl FnOnce()) -> String {
        self.signal(Signal::TERM);
        for process in &self.processes {
            eventually("all processes end", PATIENCE, || is_gone(*process).then_some(()));
        }
        look();
        // The summary is the last that is said.
        self.server.wait_to_hear("served ");
        let said = self.server.said();
        assert!(!said.contains("panicked"), "{said}");
        said
    }
}

/// Puts a script in the place of the program.
fn replace(program: &Path, script: &str) {
    let new = program.with_extension("new");
    fs::write(&new, script).expect("a file can be written");
    fs::set_permissions(&new, fs::Permissions::from_mode(0o755)).expect("it is ours");
    fs::rename(&new, program).expect("it is ours");
}

fn restore(program: &Path) {
    replace_by_link(program, Path::new(env!("CARGO_BIN_EXE_lamna")));
}

/// Puts a link to `other` in the place of the program.
fn replace_by_link(program: &Path, other: &Path) {
    let new = program.with_extension("new");
    symlink(other, &new).expect("a link can be made");
    fs::rename(&new, program).expect("it is ours");
}

fn from_environment(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}
