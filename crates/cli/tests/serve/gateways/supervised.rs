//! Applications that the server starts itself, over FastCGI. They are skipped, by name, where there is no Python.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::client::PATIENCE;
use crate::control::ctl;
use crate::engine::{AMPED, Engine, MP, for_engines};
use crate::server::{Launch, Server, eventually};
use crate::skip::skipped;

for_engines!([
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
    an_application_is_started_and_started_again_and_ends_with_the_server,
    as_many_instances_run_as_the_queue_asks_for,
]);

const APPLICATION: &str = include_str!("application.py");

pub(super) fn has_python(what: &str) -> bool {
    let tried = Command::new("python3").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    let has = tried.is_ok_and(|status| status.success());
    if !has {
        skipped(what, "python3 is not installed");
    }
    has
}

/// The lines of a configuration that has the application answer everything.
fn lines(directory: &Path, word: &str, instances: &str) -> String {
    let directory = directory.display();
    format!(
        "[[site]]\nroot = \"site\"\n[[site.route]]\nmatch = \"/*\"\n[site.route.fastcgi]\nto = \"unix:{directory}/app.sock\"\n\
         extensions = []\ncommand = [\"python3\", \"{directory}/application.py\", \"{directory}/noted\", \"{word}\"]\n\
         instances = {instances}\n"
    )
}

fn launch(engine: Engine, instances: &str) -> Launch {
    let launch = Launch::new(engine);
    fs::write(launch.directory().join("application.py"), APPLICATION).unwrap();
    let lines = lines(launch.directory(), "first", instances);
    launch.config(&lines)
}

pub(super) fn told(server: &Server, path: &str) -> String {
    let response = server.connect().get(path).unwrap();
    let content = String::from_utf8_lossy(&response.content).into_owned();
    assert_eq!(response.status, 200, "{content}");
    content
}

/// The process that answers, which leads a process group of its own.
pub(super) fn process(server: &Server) -> i32 {
    let told = told(server, "/");
    let (process, group) = told.split_once(' ').unwrap();
    assert_eq!(process, group);
    process.parse().unwrap()
}

pub(super) fn exists(process: i32) -> bool {
    // One that has ended and has not been waited for is gone.
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

fn an_application_is_started_and_started_again_and_ends_with_the_server(engine: Engine) {
    if !has_python("gateways::supervised") {
        return;
    }
    let mut server = launch(engine, "1").start();
    let socket = server.directory().join("app.sock");
    let first = process(&server);
    assert_eq!(process(&server), first, "one instance serves one request after the other");
    // Its socket, the log twice, and the connection.
    assert_eq!(told(&server, "/descriptors"), "socket pipe pipe socket");
    assert_eq!(told(&server, "/variables"), "");
    told(&server, "/say");
    server.wait_to_hear("said on standard output");
    server.wait_to_hear("said on standard error");
    kill_process(Pid::from_raw(first).unwrap(), Signal::KILL).unwrap();
    eventually("the instance has gone", PATIENCE, || (!exists(first)).then_some(()));
    // Whoever asks meanwhile waits until the next one has been started.
    let second = process(&server);
    assert_ne!(first, second);
    let said = server.wait_to_hear("has ended");
    // On a busy machine it may have run for so long that it is started again at once.
    assert!(said.contains(&format!("process {first}")), "{said}");
    let directory = server.into_directory();
    assert!(!exists(second) && !socket.exists(), "{directory:?}");
}

fn as_many_instances_run_as_the_queue_asks_for(engine: Engine) {
    if !has_python("gateways::supervised") {
        return;
    }
    let server = launch(engine, "\"auto\"").start();
    // Each of two requests is answered when both are under way, in two processes.
    let mut clients = [server.connect(), server.connect()];
    clients.iter_mut().for_each(|client| client.send(b"GET /both HTTP/1.1\r\nHost: a\r\n\r\n"));
    for client in &mut clients {
        let response = client.receive(true).unwrap();
        assert_eq!((response.status, &response.content[..]), (200, &b"both"[..]));
    }
    server.finish();
}

#[test]
fn a_changed_command_takes_the_place_of_the_one_before_and_an_unchanged_one_stays() {
    for engine in [AMPED, MP] {
        if !has_python("gateways::supervised") {
            return;
        }
        let mut server = launch(engine, "1").start();
        let (runtime, file) = (server.directory().join("control"), server.directory().join("lamna.toml"));
        let first = process(&server);
        assert_eq!(told(&server, "/word"), "first");
        let before = fs::read_to_string(&file).unwrap();
        if engine.architecture == "amped" {
            fs::write(&file, format!("{before}body_bytes_max = 1000\n")).unwrap();
            assert_eq!(ctl(&runtime, &["reload"]).code, Some(0));
            assert_eq!(process(&server), first, "it is the same command");
        }
        fs::write(&file, before.replace("\"first\"", "\"second\"")).unwrap();
        assert_eq!(ctl(&runtime, &["reload"]).code, Some(0));
        eventually("the other command answers", PATIENCE, || {
            let response = server.connect().get("/word").ok()?;
            (response.status == 200 && response.content == b"second").then_some(())
        });
        eventually("the first one has ended", PATIENCE, || (!exists(first)).then_some(()));
        if engine.architecture == "mp" {
            // Worker processes are others: another process has taken over.
            end_successor(&mut server);
        } else {
            server.finish();
        }
    }
}

#[test]
fn a_process_that_takes_over_starts_its_own_instances() {
    for engine in [AMPED, MP] {
        if !has_python("gateways::supervised") {
            return;
        }
        let mut server = launch(engine, "1").start();
        let first = process(&server);
        server.signal(Signal::USR2);
        end_successor_after(&mut server, |server| {
            eventually("another instance answers", PATIENCE, || (process(server) != first).then_some(()));
            assert!(!exists(first), "it has ended with its server");
        });
    }
}

/// Waits for the process that takes over, and ends it.
fn end_successor(server: &mut Server) {
    end_successor_after(server, |_| ());
}

pub(super) fn end_successor_after(server: &mut Server, look: impl FnOnce(&Server)) {
    let said = server.wait_to_hear("has taken over");
    let successor = said.split_once("process ").and_then(|(_, rest)| rest.split(' ').next()?.parse().ok());
    let successor = successor.and_then(Pid::from_raw).unwrap();
    assert!(server.wait().success());
    look(server);
    let last = process(server);
    kill_process(successor, Signal::TERM).unwrap();
    eventually("the last instance has ended", PATIENCE, || (!exists(last)).then_some(()));
    eventually("the successor has ended", PATIENCE, || (!exists(successor.as_raw_nonzero().get())).then_some(()));
}

#[test]
fn instances_do_not_outlive_a_server_that_is_killed() {
    for engine in [AMPED, MP] {
        if !has_python("gateways::supervised") {
            return;
        }
        let server = launch(engine, "2").start();
        let running = process(&server);
        server.signal(Signal::KILL);
        eventually("the instance has gone", PATIENCE, || (!exists(running)).then_some(()));
    }
}

#[test]
fn a_command_that_cannot_be_meant_is_refused_with_what_to_write() {
    for (keys, expected) in [
        ("fastcgi = { to = \"127.0.0.1:1\", command = [\"x\"] }", "is at one Unix socket"),
        ("fastcgi = { to = \"unix:/run/x\", command = [] }", "the list `command` is empty"),
        ("fastcgi = { to = \"unix:/run/x\", instances = 2 }", "there is none"),
        ("fastcgi = { to = \"unix:/run/x\", command = [\"x\"], instances = \"two\" }", "is a number, or"),
        ("fastcgi = { to = \"unix:/run/x\", command = [\"x\"], instances = 0 }", "between 1 and 1024"),
        (
            "fastcgi = { to = \"unix:/run/x\", command = [\"x\"] }\n[[site.route]]\nmatch = \"/b\"\n\
             fastcgi = { to = \"unix:/run/x\", command = [\"y\"] }",
            "different applications at unix:/run/x",
        ),
    ] {
        let lines = format!("[[site]]\nroot = \"site\"\n[[site.route]]\nmatch = \"/a\"\n{keys}\n");
        let (status, said) = Launch::new(AMPED).config(&lines).fail();
        assert!(!status.success() && said.contains(expected), "{keys}: {said}");
    }
}
