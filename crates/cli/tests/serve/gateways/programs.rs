//! Applications behind a proxy that the server starts, and that listen themselves. They are skipped, by name, where
//! there is no Python.

use std::collections::BTreeSet;
use std::fs;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};

use super::supervised::{end_successor_after, exists, has_python, process, told};
use crate::client::PATIENCE;
use crate::control::{ctl, get, runtime, text};
use crate::engine::{AMPED, Engine, MP, for_engines};
use crate::server::{Launch, eventually};

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
    who_asks_before_an_application_listens_waits_for_it,
]);

const APPLICATION: &str = include_str!("http_application.py");
const NAME: &str = "gateways::programs";

/// The lines of a configuration that has the application answer everything.
fn lines(directory: &Path, place: &str, word: &str, further: &str) -> String {
    let directory = directory.display();
    format!(
        "[[site]]\nroot = \"site\"\n[[site.route]]\nmatch = \"/*\"\n[site.route.proxy]\nto = {place}\nconnect_timeout_ms = 60000\n\
         command = [\"python3\", \"{directory}/http_application.py\", \"{word}\", \"{{socket}}\"]\n{further}\n"
    )
}

/// At a Unix socket.
fn launch(engine: Engine, word: &str, further: &str) -> Launch {
    let launch = Launch::new(engine);
    fs::write(launch.directory().join("http_application.py"), APPLICATION).unwrap();
    let lines = lines(launch.directory(), &socket(launch.directory()), word, further);
    launch.config(&lines)
}

fn socket(directory: &Path) -> String {
    format!("\"unix:{}/app.sock\"", directory.display())
}

/// At a port that nobody listens at.
fn launch_at_port(engine: Engine, word: &str) -> (Launch, u16) {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let launch = Launch::new(engine);
    fs::write(launch.directory().join("http_application.py"), APPLICATION).unwrap();
    let lines = lines(launch.directory(), &format!("\"http://127.0.0.1:{port}\""), word, "");
    (launch.config(&lines.replace("{socket}", "{host}:{port}")), port)
}

fn who_asks_before_an_application_listens_waits_for_it(engine: Engine) {
    if !has_python(NAME) {
        return;
    }
    let mut server = launch(engine, "slow", "").start();
    let path = server.directory().join("app.sock");
    // It listens later than the server.
    let first = process(&server);
    assert_eq!(told(&server, "/place"), format!("SOCKET={}", path.display()));
    assert_eq!(told(&server, "/arguments"), path.display().to_string());
    told(&server, "/say");
    server.wait_to_hear("said on standard output");
    kill_process(Pid::from_raw(first).unwrap(), Signal::KILL).unwrap();
    eventually("the process has gone", PATIENCE, || (!exists(first)).then_some(()));
    // What it has left of its socket is in nobody's way.
    let second = process(&server);
    assert_ne!(first, second);
    let status = ctl(&runtime(&server), &["status"]).output;
    let line = status.lines().find(|line| line.starts_with("started")).unwrap_or_else(|| panic!("{status}"));
    let ended = format!("process {first} has ended");
    assert!(line.contains(&format!("process {second} for ")) && line.contains(&ended), "{line}");
    assert!(line.contains("1 end before") && line.contains("python3"), "{line}");
    let metrics = text(&get(&server, "/metrics"));
    for (name, value) in [("lamna_application_processes", 1), ("lamna_application_ends_total", 1)] {
        let sample = format!("\n{name}{{application=\"unix:{}\"}} {value}\n", path.display());
        assert!(metrics.contains(&sample), "{sample}: {metrics}");
    }
    drop(server.into_directory());
    assert!(!exists(second));
}

#[test]
fn each_instance_has_a_place_of_its_own_and_they_share_the_requests() {
    if !has_python(NAME) {
        return;
    }
    let server = launch(AMPED, "word", "instances = 3").start();
    let mut places = BTreeSet::new();
    eventually("each has answered", PATIENCE, || {
        places.insert(told(&server, "/place"));
        (places.len() == 3).then_some(())
    });
    let path = server.directory().join("app.sock").display().to_string();
    let expected = ["", ".2", ".3"].map(|end| format!("SOCKET={path}{end}"));
    assert_eq!(places, BTreeSet::from(expected));
    server.finish();
}

#[test]
fn an_application_at_a_port_is_told_the_port() {
    if !has_python(NAME) {
        return;
    }
    for engine in [AMPED, MP] {
        let (launch, port) = launch_at_port(engine, "slow");
        let server = launch.start();
        assert_eq!(told(&server, "/place"), format!("HOST=127.0.0.1 PORT={port}"));
        assert_eq!(told(&server, "/arguments"), format!("127.0.0.1:{port}"));
        server.finish();
    }
}

#[test]
fn a_changed_program_takes_the_place_of_the_one_before_and_an_unchanged_one_stays() {
    if !has_python(NAME) {
        return;
    }
    let server = launch(AMPED, "first", "").start();
    let (runtime, file) = (runtime(&server), server.directory().join("lamna.toml"));
    let first = process(&server);
    let before = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("{before}body_bytes_max = 1000\n")).unwrap();
    assert_eq!(ctl(&runtime, &["reload"]).code, Some(0));
    assert_eq!(process(&server), first, "it is the same command");
    fs::write(&file, before.replace("\"first\"", "\"second\"")).unwrap();
    assert_eq!(ctl(&runtime, &["reload"]).code, Some(0));
    // Whoever asks meanwhile is answered by one or the other.
    eventually("the other one answers", PATIENCE, || (told(&server, "/word") == "second").then_some(()));
    eventually("the first one has ended", PATIENCE, || (!exists(first)).then_some(()));
    server.finish();
}

#[test]
fn no_request_fails_while_another_process_takes_over() {
    if !has_python(NAME) {
        return;
    }
    for engine in [AMPED, MP] {
        for at_port in [false, true] {
            let launch = if at_port { launch_at_port(engine, "word").0 } else { launch(engine, "word", "") };
            let mut server = launch.start();
            let first = process(&server);
            server.signal(Signal::USR2);
            eventually("another process answers", PATIENCE, || (process(&server) != first).then_some(()));
            end_successor_after(&mut server, |_| assert!(!exists(first), "it has ended with its server"));
        }
    }
}

#[test]
fn a_program_is_not_started_where_another_one_listens() {
    if !has_python(NAME) {
        return;
    }
    let launch = launch(AMPED, "word", "");
    let other = UnixListener::bind(launch.directory().join("app.sock")).unwrap();
    // It is looked before the server says that it serves.
    let server = launch.start();
    drop(other);
    assert_eq!(told(&server, "/word"), "word");
    let said = server.finish();
    assert!(said.contains("another process listens there"), "{said}");
}

#[test]
fn programs_do_not_outlive_a_server_that_is_killed() {
    if !has_python(NAME) {
        return;
    }
    for engine in [AMPED, MP] {
        let server = launch(engine, "word", "").start();
        let running = process(&server);
        server.signal(Signal::KILL);
        eventually("the process has gone", PATIENCE, || (!exists(running)).then_some(()));
    }
}

#[test]
fn a_program_that_cannot_be_meant_is_refused_with_what_to_write() {
    for (keys, expected) in [
        ("to = \"http://10.0.0.1:3000\", command = \"x\"", "listens on this machine"),
        ("to = \"http://app.internal\", command = \"x\"", "listens on this machine"),
        ("to = \"https://127.0.0.1:3000\", command = \"x\"", "without TLS"),
        ("to = \"unix:/run/x\", command = []", "the list `command` is empty"),
        ("to = \"unix:/run/x\", command = [\"x\", \"{port}\"]", "names what a place"),
        ("to = \"unix:/run/x\", instances = 2", "there is none"),
        ("to = \"unix:/run/x\", command = \"x\", instances = \"auto\"", "is a number"),
        ("to = \"unix:/run/x\", command = \"x\", instances = 0", "between 1 and 1024"),
        ("to = \"http://127.0.0.1:65535\", command = \"x\", instances = 2", "not as many ports"),
        ("to = [\"unix:/run/x\", \"unix:/run/y\"], command = \"x\", instances = 2", "leave `instances` out"),
        ("to = [\"unix:/run/x\", \"unix:/run/x\"], command = \"x\"", "is there once"),
        (
            "to = \"unix:/run/x\", command = \"x\" }\n[[site.route]]\nmatch = \"/b\"\nproxy = { to = \"unix:/run/x\", command = \"y\"",
            "different applications at unix:/run/x",
        ),
    ] {
        let lines = format!("[[site]]\nroot = \"site\"\n[[site.route]]\nmatch = \"/a\"\nproxy = {{ {keys} }}\n");
        let (status, said) = Launch::new(AMPED).config(&lines).fail();
        assert!(!status.success() && said.contains(expected), "{keys}: {said}");
    }
}
