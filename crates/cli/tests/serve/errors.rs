//! The error log: what it says of what visitors cause and of what the server does, where, and how often.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

use rustix::process::{Signal, geteuid};

use crate::client::{Client, PATIENCE};
use crate::engine::{AMPED, Engine, MP, for_engines};
use crate::server::{Launch, Server, eventually};

for_engines!([
    sped = SPED,
    amped = AMPED,
    amped_with_helper_processes = AMPED_WITH_HELPER_PROCESSES,
    co_amped = CO_AMPED,
    mp = MP,
    pipelined = PIPELINED,
    proactor = PROACTOR,
    thread_pool = THREAD_POOL,
] => [
    what_may_not_be_read_is_named_with_what_denies_it,
]);

/// A user that is denied things: this one, unless it is root.
const NOBODY: [&str; 4] = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];

/// A server of a user that is denied things.
fn start_denied(launch: Launch) -> Server {
    set_mode(launch.directory(), 0o777);
    match geteuid().is_root() {
        true => launch.wrapped(&NOBODY).start(),
        false => launch.start(),
    }
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("the test's own file");
}

fn what_may_not_be_read_is_named_with_what_denies_it(engine: Engine) {
    let launch = Launch::new(engine).file("private/a.txt", "a").file("secret.txt", "b").file("plain/b.txt", "c");
    let site = launch.site();
    let config =
        "[[site]]\nhosts = [\"a.example\"]\nroot = \"site\"\n[[site]]\nhosts = [\"b.example\"]\nroot = \"site\"\n";
    set_mode(&site.join("private"), 0o600);
    set_mode(&site.join("secret.txt"), 0o200);
    let mut server = start_denied(launch.config(config));
    let mut client = server.connect();
    for (host, path) in [("a.example", "/private/a.txt"), ("b.example", "/secret.txt"), ("b.example", "/plain/")] {
        client.send(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes());
        assert_eq!(client.receive(true).unwrap().status, 403, "{path}");
    }
    drop(client);
    let denied = server.wait_to_hear("`/private/a.txt`");
    let private = site.join("private").display().to_string();
    assert!(
        denied.contains(" warning: site a.example: ") && denied.contains("may not search the directory"),
        "{denied}"
    );
    assert!(denied.contains(&format!("`{private}` (mode 0600")), "{denied}");
    let denied = server.wait_to_hear("`/secret.txt`");
    assert!(denied.contains(" warning: site b.example: ") && denied.contains("may not read"), "{denied}");
    let unlisted = server.wait_to_hear("`/plain/`");
    assert!(unlisted.contains(" info: site b.example: ") && unlisted.contains("--browse"), "{unlisted}");
    // So that whoever made it can remove it.
    set_mode(&site.join("private"), 0o700);
    let said = server.finish();
    assert_eq!(said.matches("`/private/a.txt`").count(), 1, "once for each time that it was looked up: {said}");
}

#[test]
fn a_root_that_cannot_be_listed_is_said_at_start_and_one_that_is_closed_later_when_it_is_asked_for() {
    let launch = Launch::new(AMPED).file("a.txt", "a").argument("--browse");
    let site = launch.site();
    set_mode(&site, 0o311);
    let server = start_denied(launch);
    assert_eq!(server.connect().get("/").unwrap().status, 403);
    set_mode(&site, 0o200);
    assert_eq!(server.connect().get("/a.txt").unwrap().status, 403);
    set_mode(&site, 0o700);
    let said = server.finish();
    let unreadable = format!("may not read `{}` (mode 0311", site.display());
    assert_eq!(said.matches(&unreadable).count(), 2, "at start and when asked: {said}");
    assert!(said.contains(&format!("may not search the directory `{}` (mode 0200", site.display())), "{said}");
}

#[test]
fn what_visitors_cause_is_bounded_and_what_is_left_out_is_counted() {
    let launch = (0..60).fold(Launch::new(AMPED), |launch, number| launch.file(&format!("{number}/a.txt"), ""));
    let server = launch.start();
    let mut client = server.connect();
    for number in 0..60 {
        assert_eq!(client.get(&format!("/{number}/")).unwrap().status, 403);
    }
    drop(client);
    let said = server.finish();
    let lines = said.matches("has no index file").count();
    // One in six seconds is added to those at once.
    assert!((20..40).contains(&lines), "{lines} lines: {said}");
}

#[test]
fn the_log_in_json_is_appended_to_a_file_and_made_anew_after_rotation() {
    let launch = Launch::new(AMPED).file("a/a.txt", "").file("b/b.txt", "");
    let path = launch.directory().join("error.log");
    let config = "error_log = \"error.log\"\nerror_log_format = \"json\"\n";
    let server = launch.config(config).start();
    let lines = |path: &Path| {
        let text = fs::read_to_string(path).unwrap_or_default();
        text.lines()
            .map(|line| serde_json::from_str(line).expect("each line is JSON"))
            .collect::<Vec<serde_json::Value>>()
    };
    let has = |path: &Path, part: &str| {
        lines(path).iter().any(|line| line["message"].as_str().is_some_and(|message| message.contains(part)))
    };
    assert_eq!(server.connect().get("/a/").unwrap().status, 403);
    eventually("the refusal is in the log", PATIENCE, || has(&path, "`/a/`").then_some(()));
    let first = lines(&path).into_iter().find(|line| line["site"] == "1").expect("the line of the site");
    assert_eq!(first["level"], "info");
    assert!(first["time"].as_str().is_some_and(|time| time.ends_with('Z') && time.len() == 24), "{first}");
    let old = path.with_extension("old");
    fs::rename(&path, &old).unwrap();
    assert_eq!(server.connect().get("/b/").unwrap().status, 403);
    eventually("the new file has it", PATIENCE, || has(&path, "`/b/`").then_some(()));
    assert!(!has(&old, "`/b/`") && has(&old, "serving "));
    server.finish();
}

#[test]
fn a_reload_that_fails_is_in_the_log_whoever_asked_for_it() {
    for by_signal in [true, false] {
        let launch = Launch::new(AMPED);
        let (file, runtime) = (launch.directory().join("lamna.toml"), launch.directory().join("control"));
        let mut server = launch.start();
        fs::write(&file, "workers = 0\n").unwrap();
        if by_signal {
            server.signal(Signal::HUP);
        } else {
            let mut ctl = Command::new(env!("CARGO_BIN_EXE_lamna"));
            let asked = ctl.args(["ctl", "reload"]).env("LAMNA_RUNTIME_DIR", &runtime).output().unwrap();
            assert!(!asked.status.success());
        }
        let line = server.wait_to_hear("not reloaded, going on as before");
        assert!(line.contains(" error: "), "{line}");
        server.finish();
    }
}

#[test]
fn an_engine_that_an_administrator_changes_is_in_the_log() {
    let launch = Launch::new(AMPED);
    let runtime = launch.directory().join("control");
    let mut server = launch.start();
    let mut ctl = Command::new(env!("CARGO_BIN_EXE_lamna"));
    assert!(
        ctl.args(["ctl", "arch", "set", "sped"]).env("LAMNA_RUNTIME_DIR", &runtime).output().unwrap().status.success()
    );
    let line = server.wait_to_hear("an administrator has changed it: ");
    assert!(line.contains("sped serves"), "{line}");
    server.finish();
}

#[test]
fn a_quiet_server_says_what_is_wrong_and_nothing_else() {
    let launch = Launch::new(AMPED).file("a.txt", "a").argument("--quiet");
    let socket = launch.directory().join("socket");
    let server = launch.listen(format!("unix:{}", socket.display())).spawn();
    let stream = eventually("it listens", PATIENCE, || UnixStream::connect(&socket).ok());
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(Client::new(stream).get("/a.txt").unwrap().content, b"a");
    let said = server.finish();
    assert!(said.lines().all(|line| line.contains("warning: ")), "{said}");
}

#[test]
fn a_running_server_explains_by_its_own_configuration_and_rights() {
    for (engine, cache) in [(AMPED, "cache    nothing is kept"), (MP, "cache    not looked at")] {
        let launch =
            Launch::new(engine).file("secret.txt", "b").config("[[site]]\nhosts = [\"a.example\"]\nroot = \"site\"\n");
        let (runtime, secret) = (launch.directory().join("control"), launch.site().join("secret.txt"));
        set_mode(&secret, 0o200);
        let server = start_denied(launch);
        let mut ctl = Command::new(env!("CARGO_BIN_EXE_lamna"));
        let asked = ctl
            .args(["ctl", "explain", "http://a.example/secret.txt"])
            .env("LAMNA_RUNTIME_DIR", &runtime)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&asked.stdout).into_owned();
        assert!(asked.status.success() && said.contains("answer   403 Forbidden"), "{asked:?}");
        assert!(said.contains(&format!("may not read `{}`", secret.display())), "{said}");
        assert!(said.contains(cache), "{said}");
        set_mode(&secret, 0o600);
        server.finish();
    }
}
