//! What `lamna limit preview` says of logs.

use std::fs;
use std::io::Write;
use std::process::{Command, Output, Stdio};

fn run(arguments: &[&str], input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lamna"));
    let command = command.args(["limit", "preview"]).args(arguments);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A command that fails early does not read.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

/// So many requests of a client in the second `second`, in the combined format.
fn lines(client: &str, path: &str, second: u8, count: usize) -> String {
    let line =
        format!("{client} - - [21/Nov/2026:04:00:{second:02} +0000] \"GET {path} HTTP/1.1\" 200 5 \"-\" \"x\"\n");
    line.repeat(count)
}

#[test]
fn the_networks_that_a_limit_would_have_met_are_listed_with_times() {
    let log = lines("192.0.2.1", "/login", 1, 7)
        + &lines("192.0.2.2", "/login", 2, 2)
        + &lines("127.0.0.1", "/", 3, 9)
        + "what is this\n"
        + &lines("192.0.2.1", "/login", 4, 1);
    let output = run(&["--log", "-", "--requests", "1/h burst 3", "--path", "/login"], &log);
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(
        said,
        "19 requests of 2 networks, 2026-11-21T04:00:01Z to 2026-11-21T04:00:04Z\n\
         9 requests of clients that no limit is for\n\
         1 line in no known format, not counted\n\
         site-1 (/login: 1/h burst 3): 1 network, 5 requests refused\n  \
         192.0.2.1                5 of 8 refused, 2026-11-21T04:00:01Z to 2026-11-21T04:00:04Z\n"
    );
}

#[test]
fn the_limits_are_those_of_the_configuration_and_json_is_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let config =
        "request_limit = \"off\"\n[[site]]\nroot = \".\"\n[[site.limit]]\npath = \"/a\"\nrequests = \"1/h burst 1\"\n";
    fs::write(path("lamna.toml"), config).unwrap();
    fs::write(path("old.log"), lines("2001:db8::1", "/a", 1, 1)).unwrap();
    let json = "{\"time\":\"2026-11-21T04:00:02.500Z\",\"client.address\":\"2001:db8::2\",\"http.request.method\":\"GET\",\"url.path\":\"//a\"}\n";
    fs::write(path("new.log"), json).unwrap();
    let output =
        run(&["--log", &path("old.log"), "--log", &path("new.log"), "--config", &path("lamna.toml"), "--json"], "");
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&said["requests"], &said["networks"], &said["refused"]), (&2.into(), &1.into(), &1.into()));
    let limit = &said["limits"][0];
    assert_eq!((&limit["name"], &limit["met"][0]["network"]), (&"site-1".into(), &"2001:db8::/64".into()));
    assert_eq!(limit["met"][0]["first"], "2026-11-21T04:00:02Z");
}

#[test]
fn a_log_that_cannot_be_read_and_a_rate_that_is_none_are_named() {
    let output = run(&["--log", "/nowhere/access.log"], "");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && said.contains("/nowhere/access.log: cannot be read"), "{said}");
    let output = run(&["--log", "-", "--requests", "fast"], "");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains("is not a rate"), "{said}");
}

#[test]
fn the_default_limit_meets_nobody_who_asks_for_pages() {
    let output = run(&["--log", "-"], &lines("192.0.2.1", "/", 1, 100));
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.ends_with("server (500/s burst 5000): nobody\n"), "{said}");
}
