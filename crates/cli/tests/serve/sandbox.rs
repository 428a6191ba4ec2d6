//! What the threads of a server can still do: code that is led astray reaches nothing, and everything that is
//! configured still works.
//!
//! `LAMNA_TEST_REACH` has a server that was built for tests reach for what is not its own, at one point for one target.

use std::fs;
use std::net::{IpAddr, TcpStream, ToSocketAddrs};
use std::path::PathBuf;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::process::Signal;

use crate::client::{Client, PATIENCE};
use crate::control::{ctl, get, order, runtime, text};
use crate::engine::{AMPED, AMPED_WITH_HELPER_PROCESSES, Engine, MP, for_engines};
use crate::gateways::Application;
use crate::server::{Launch, Server, eventually, processes_of};
use crate::skip::skipped;
use crate::tls;

for_engines!(all every_architecture_is_confined: [
    mp = MP,
    thread_pool = THREAD_POOL,
    thread_per_request = THREAD_PER_REQUEST,
    thread_per_session = THREAD_PER_SESSION,
    sped = SPED,
    amped = AMPED,
    amped_2 = AMPED_2,
    amped_with_helper_processes = AMPED_WITH_HELPER_PROCESSES,
    co_amped = CO_AMPED,
    pipelined = PIPELINED,
    proactor = PROACTOR,
    proactor_without_openat2 = PROACTOR_WITHOUT_OPENAT2,
] => [
    a_defect_where_a_target_is_looked_up_reaches_nothing,
    a_defect_where_a_target_is_found_out_reaches_nothing,
    a_defect_without_a_sandbox_reaches_everything,
    every_thread_but_the_first_is_confined,
    a_root_that_is_exchanged_for_another_directory_is_served,
    a_reload_that_names_another_root_and_another_log_serves_it,
    an_application_is_found_by_its_name,
]);

/// Whether this kernel has all that the test `name` needs. Where it has not, that is said.
fn is_possible(name: &str) -> bool {
    let server = Launch::new(AMPED).start();
    let said = server.finish();
    let is_whole = said.contains("sandbox: Landlock (version ") && said.contains(" and seccomp");
    if !is_whole {
        let what = said.lines().find(|line| line.contains("sandbox: ")).unwrap_or("the server says nothing of it");
        skipped(name, what);
    }
    is_whole
}

fn planted(engine: Engine, point: &str, config: &str) -> Server {
    let variable = format!("LAMNA_TEST_REACH={point}:/planted");
    let launch = Launch::new(engine).file("planted", "planted").file("a.txt", "hello").config(config);
    launch.wrapped(&["env", &variable]).start()
}

/// What came of it.
fn reached(engine: Engine, point: &str, config: &str) -> String {
    let mut server = planted(engine, point, config);
    assert_eq!(server.connect().get("/planted").unwrap().content, b"planted");
    let said = server.wait_to_hear("planted: ");
    assert_eq!(server.connect().get("/a.txt").unwrap().content, b"hello");
    server.finish();
    said.split_once("planted: ").expect("it was waited for").1.to_owned()
}

const NOTHING: &str = "file PermissionDenied, shell PermissionDenied, ring PermissionDenied, write PermissionDenied, \
                       namespace PermissionDenied, connect PermissionDenied";

fn a_defect_where_a_target_is_looked_up_reaches_nothing(engine: Engine) {
    if is_possible("a_defect_where_a_target_is_looked_up_reaches_nothing") {
        assert_eq!(reached(engine, "look-up", ""), NOTHING);
    }
}

fn a_defect_where_a_target_is_found_out_reaches_nothing(engine: Engine) {
    if is_possible("a_defect_where_a_target_is_found_out_reaches_nothing") {
        assert_eq!(reached(engine, "translate", ""), NOTHING);
    }
}

/// Where certificates are ordered, keys are beside what answers challenges.
#[test]
fn a_defect_where_certificates_are_ordered_reads_no_key() {
    let test = "a_defect_where_certificates_are_ordered_reads_no_key";
    if !is_possible(test) {
        return;
    }
    let auto = "[[site]]\nroot = \"site\"\nhosts = [\"a.test\"]\ntls = \"auto\"\n";
    let config =
        format!("acme_directory = \"https://127.0.0.1:1/\"\n[[site]]\nroot = \"site\"\ntls = \"local\"\n{auto}");
    for (engine, is_confined) in [(AMPED, true), (MP, true), (AMPED_WITH_HELPER_PROCESSES, true), (AMPED, false)] {
        for key in ["acme/127.0.0.1:1+/account-key.pem", "tls/local-ca-key.pem"] {
            let launch = Launch::new(engine).file("planted", "planted").config(&match is_confined {
                true => config.clone(),
                false => format!("sandbox = false\n{config}"),
            });
            let key = launch.directory().join("state/lamna").join(key);
            let file = format!("LAMNA_TEST_REACH_FILE={}", key.display());
            let mut server = launch.wrapped(&["env", "LAMNA_TEST_REACH=translate:/planted", &file]).start();
            assert!(key.exists(), "{key:?}");
            let mut client = tls::connect(&server, &tls::trusting(&server));
            assert_eq!(client.get("/planted").unwrap().content, b"planted");
            let said = server.wait_to_hear("planted: file ");
            let expected = if is_confined { "file PermissionDenied, " } else { "file done, " };
            assert!(said.contains(expected), "{key:?}: {said}");
            drop(client);
            server.finish();
        }
    }
}

fn a_defect_without_a_sandbox_reaches_everything(engine: Engine) {
    let reached = reached(engine, "look-up", "sandbox = false\n");
    for part in ["file done", "shell done", "write done", "connect done"] {
        assert!(reached.contains(part), "so that the other tests show something: {reached}");
    }
}

/// Of every thread of every process of a server that is not the first of its process: name, and whether it is confined.
fn threads(server: &Server) -> Vec<(String, bool)> {
    let mut found = Vec::new();
    for process in processes_of(&server.directory().join("lamna.toml")).into_keys() {
        let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
        for task in tasks.filter(|task| task.file_name().to_str() != Some(&process.to_string())) {
            // One that has just ended has no status.
            let Ok(status) = fs::read_to_string(task.path().join("status")) else { continue };
            let value = |name: &str| status.lines().find_map(|line| Some(line.strip_prefix(name)?.trim().to_owned()));
            let is_confined = value("Seccomp:").as_deref() == Some("2") && value("NoNewPrivs:").as_deref() == Some("1");
            found.push((value("Name:").unwrap_or_default(), is_confined));
        }
    }
    found
}

fn every_thread_but_the_first_is_confined(engine: Engine) {
    if !is_possible("every_thread_but_the_first_is_confined") {
        return;
    }
    let page = "<p>hello</p>".repeat(1000);
    let launch = Launch::new(engine).file("a.html", page).config("error_log = \"error.log\"\n").argument("--log");
    let log = launch.directory().join("access.log").display().to_string();
    let server = launch.argument(&log).start();
    let mut client = server.connect();
    for _ in 0..20 {
        client.send(b"GET /a.html HTTP/1.1\r\nHost: a\r\nAccept-Encoding: br, gzip\r\n\r\n");
        assert_eq!(client.receive(true).unwrap().status, 200);
    }
    // One that has just begun is on its way into it.
    eventually("every thread is confined", PATIENCE, || {
        let threads = threads(&server);
        let is_worker = |(name, _): &(String, bool)| name.starts_with("worker-");
        (threads.iter().any(is_worker) && threads.iter().all(|(_, is_confined)| *is_confined)).then_some(())
    });
    drop(client);
    server.finish();
}

fn content(server: &Server) -> Vec<u8> {
    let answer = server.connect().get("/a.txt").unwrap();
    assert_eq!(answer.status, 200, "there is such a file at all times");
    answer.content
}

fn a_root_that_is_exchanged_for_another_directory_is_served(engine: Engine) {
    let server = Launch::new(engine).file("a.txt", "before").start();
    let mut held = server.connect();
    assert_eq!(held.get("/a.txt").unwrap().content, b"before");
    let (next, site) = (server.directory().join("next"), server.site());
    fs::create_dir(&next).unwrap();
    fs::write(next.join("a.txt"), "after").unwrap();
    renameat_with(CWD, &next, CWD, &site, RenameFlags::EXCHANGE).unwrap();
    eventually("the new directory is served", PATIENCE, || (content(&server) == b"after").then_some(()));
    // Another process may know what it has known for a moment longer.
    let sees_it = |client: &mut Client<TcpStream>| client.get("/a.txt").unwrap().content == b"after";
    eventually("a connection sees it that was there before", PATIENCE, || sees_it(&mut held).then_some(()));
    drop(held);
    end(engine, server);
}

/// Ends whoever serves: another process, where the workers or the helpers of the first one are processes.
fn end(engine: Engine, mut server: Server) {
    if ["mp", "co-amped"].contains(&engine.architecture) || engine.arguments.contains(&"--helpers") {
        server.wait_to_hear("has taken over");
        order(&server, &["drain"]).unwrap();
        server.wait_to_hear("served ");
    } else {
        server.finish();
    }
}

fn a_reload_that_names_another_root_and_another_log_serves_it(engine: Engine) {
    let server = Launch::new(engine).file("a.txt", "before").start();
    let mut held = server.connect();
    assert_eq!(held.get("/a.txt").unwrap().content, b"before");
    let other: PathBuf = server.directory().join("other/root");
    fs::create_dir_all(&other).unwrap();
    fs::create_dir(server.directory().join("logs")).unwrap();
    fs::write(other.join("a.txt"), "after").unwrap();
    let file = server.directory().join("lamna.toml");
    fs::write(file, "error_log = \"logs/error.log\"\n[[site]]\nroot = \"other/root\"\n").unwrap();
    order(&server, &["reload"]).unwrap();
    eventually("the new root is served", PATIENCE, || (content(&server) == b"after").then_some(()));
    // Another process may know what it has known for a moment longer.
    let sees_it = |client: &mut Client<TcpStream>| client.get("/a.txt").unwrap().content == b"after";
    eventually("a connection sees it that was there before", PATIENCE, || sees_it(&mut held).then_some(()));
    assert_eq!(held.get("/nothing/").unwrap().status, 404);
    drop(held);
    end(engine, server);
}

fn an_application_is_found_by_its_name(engine: Engine) {
    let uname = rustix::system::uname();
    let name = uname.nodename().to_string_lossy();
    let found = (&*name, 0).to_socket_addrs().into_iter().flatten();
    if found.map(|address| address.ip()).collect::<Vec<_>>() != [IpAddr::from([127, 0, 0, 1])] {
        return skipped("an_application_is_found_by_its_name", "this machine has no name that leads to itself");
    }
    let application = Application::start();
    let to = format!("http://{name}:{}", application.address.port());
    let config = format!("[[site]]\nroot = \"site\"\nroute = [{{ match = \"/app/*\", proxy = \"{to}\" }}]\n");
    let server = Launch::new(engine).config(&config).start();
    for _ in 0..3 {
        let answer = server.connect().get("/app/told").unwrap();
        assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.content));
    }
    server.finish();
}

#[test]
fn a_root_that_is_a_link_is_followed_at_once_and_by_the_same_threads() {
    let launch = Launch::new(AMPED).file("1/a.txt", "before").file("2/a.txt", "after");
    let (releases, link) = (launch.site(), launch.directory().join("current"));
    std::os::unix::fs::symlink(releases.join("1"), &link).unwrap();
    let server = launch.config("[[site]]\nroot = \"current\"\n").start();
    assert_eq!(content(&server), b"before");
    let next = link.with_extension("next");
    std::os::unix::fs::symlink(releases.join("2"), &next).unwrap();
    fs::rename(next, link).unwrap();
    eventually("the link is followed", PATIENCE, || (content(&server) == b"after").then_some(()));
    let said = server.finish();
    assert!(!said.contains("other threads serve"), "{said}");
}

#[test]
fn status_and_start_say_what_confines_the_threads_that_serve() {
    for engine in [AMPED, MP, AMPED_WITH_HELPER_PROCESSES] {
        for (config, arguments, expected) in [
            ("sandbox = false\n", &[][..], "off (sandbox = false)"),
            ("", &["--without", "landlock"], "seccomp; Landlock is not available here"),
            ("", &["--without", "landlock", "--without", "seccomp"], "none: "),
        ] {
            let launch = arguments.iter().fold(Launch::new(engine), |launch, argument| launch.argument(argument));
            let server = launch.config(config).file("a.txt", "a").start();
            assert_eq!(server.connect().get("/a.txt").unwrap().status, 200);
            let status = ctl(&runtime(&server), &["status"]);
            assert!(status.output.contains(expected), "{status:?}");
            assert!(text(&get(&server, "/v1/status")).contains("\"sandbox\":\""));
            let said = server.finish();
            assert!(said.contains(&format!("sandbox: {expected}")), "{said}");
        }
    }
}

#[test]
fn logs_are_made_anew_after_rotation_by_confined_threads() {
    let launch = Launch::new(AMPED).file("a.txt", "a").argument("--log");
    let log = launch.directory().join("access.log");
    let server = launch.argument(&log.display().to_string()).start();
    assert_eq!(server.connect().get("/a.txt").unwrap().status, 200);
    let has_line = |path: &PathBuf| fs::read_to_string(path).is_ok_and(|text| text.contains("/a.txt"));
    eventually("it is logged", PATIENCE, || has_line(&log).then_some(()));
    fs::rename(&log, log.with_extension("1")).unwrap();
    server.signal(Signal::HUP);
    eventually("there is a new file", PATIENCE, || log.exists().then_some(()));
    assert_eq!(server.connect().get("/a.txt").unwrap().status, 200);
    eventually("it is logged there", PATIENCE, || has_line(&log).then_some(()));
    server.finish();
}
