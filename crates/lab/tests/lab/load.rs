//! The load generator counts what happened and charges the server with what it caused.

use std::net::TcpListener;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use lamna_lab::load::plan::{Pace, Plan, RequestForm, Target};
use lamna_lab::load::verdict::Doubt;
use lamna_lab::load::{LoadError, Outcome, run};

use crate::server::{Reply, Server};

fn targets(paths: &[&str], close: bool) -> Vec<Target> {
    let form = RequestForm { host: "test".into(), close, ..RequestForm::default() };
    paths.iter().map(|path| form.target(path)).collect()
}

/// `requests` requests for /a over 4 connections, as fast as they are answered.
fn plan(server: &Server, requests: u64) -> Plan {
    let mut plan = Plan::simple(server.address, targets(&["/a"], false));
    plan.connections = 4;
    plan.duration = None;
    plan.requests = Some(requests);
    plan
}

fn execute(plan: &Plan) -> Outcome {
    let outcome = run(plan, &mut |_| true).expect("the server is there");
    let counts = &outcome.counts;
    let ended = counts.answered + counts.timed_out + counts.lost + counts.malformed + counts.unanswered;
    assert_eq!(counts.requests, ended, "a request is unaccounted for: {counts:?}");
    assert_eq!(counts.statuses.values().sum::<u64>(), counts.answered);
    assert_eq!(counts.measured, outcome.latency.count());
    outcome
}

#[test]
fn every_request_that_was_due_in_a_pause_is_charged_with_it() {
    // For 800 ms from the 50th request on, nobody is answered.
    let pause = Duration::from_millis(800);
    let until: Mutex<Option<Instant>> = Mutex::new(None);
    let server = Server::start(move |number, _| {
        let mut until = until.lock().expect("no thread panics with it");
        if number == 50 {
            *until = Some(Instant::now() + pause);
        }
        let left = until.map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()));
        Reply::ok("x").after(left)
    });
    let mut plan = plan(&server, 200);
    plan.pace = Pace::Rate { per_second: 100.0, poisson: false };
    let outcome = execute(&plan);
    // Requests are due every 10 ms: 40 of them in the first 400 ms of the pause, and each waited for the rest of it.
    // The first of them may have been sent up to one interval after the pause began.
    let slow: u64 = outcome.latency.buckets().filter(|(ns, _)| *ns >= 400_000_000).map(|(_, count)| count).sum();
    assert!(slow >= 39, "only {slow} requests were charged");
    assert!(outcome.latency.max_ns() >= 790_000_000);
    assert_eq!(outcome.counts.answered, 200);
    assert!(outcome.counts.waited >= 39, "four connections cannot have carried them all: {:?}", outcome.counts);
    assert!(outcome.doubts.iter().any(|doubt| matches!(doubt, Doubt::TooFewConnections { .. })));
}

#[test]
fn a_known_delay_is_the_latency() {
    let server =
        Server::start(|number, _| Reply::ok("x").after(Duration::from_millis(if number % 10 == 9 { 50 } else { 5 })));
    let outcome = execute(&plan(&server, 100));
    assert!(outcome.latency.min_ns() >= 5_000_000);
    let slow: u64 = outcome.latency.buckets().filter(|(ns, _)| *ns >= 50_000_000).map(|(_, count)| count).sum();
    assert!(slow >= 10, "{slow}");
}

#[test]
fn the_counts_are_those_of_the_servers_log() {
    for (new_connections, pipelining, threads) in [(false, 1, 1), (false, 1, 3), (true, 1, 2), (false, 8, 2)] {
        let server = Server::start(move |_, _| match new_connections {
            true => Reply::raw("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx").closing(),
            false => Reply::ok("x"),
        });
        let mut plan = plan(&server, 1000);
        plan.targets = targets(&["/a", "/b"], new_connections);
        (plan.new_connections, plan.pipelining, plan.threads) = (new_connections, pipelining, threads);
        let outcome = execute(&plan);
        assert_eq!(server.answered().len(), 1000);
        assert_eq!(outcome.counts.answered, 1000);
        assert_eq!(outcome.counts.connections, server.connections() as u64);
        assert_eq!(outcome.counts.connections, if new_connections { 1000 } else { 4 });
        assert_eq!(outcome.counts.content_bytes, 1000);
        assert_eq!(outcome.per_second.iter().sum::<u64>(), 1000);
    }
}

#[test]
fn a_run_of_a_given_length_accounts_for_what_was_under_way() {
    let server = Server::start(|_, _| Reply::ok("x"));
    let mut plan = plan(&server, 0);
    (plan.requests, plan.duration, plan.warmup) = (None, Some(Duration::from_millis(200)), Duration::from_millis(100));
    let outcome = execute(&plan);
    assert_eq!(server.answered().len() as u64, outcome.counts.answered);
    assert!(outcome.counts.measured < outcome.counts.answered, "the warm-up was measured");
    assert_eq!(outcome.counts.unanswered, 0);
}

#[test]
fn requests_behind_a_closing_answer_are_asked_again() {
    let server = Server::start(|number, _| match number % 3 {
        2 => Reply::raw("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx").closing(),
        _ => Reply::ok("x"),
    });
    let mut plan = plan(&server, 300);
    plan.pipelining = 4;
    let outcome = execute(&plan);
    assert_eq!((outcome.counts.answered, outcome.counts.lost), (300, 0));
    assert!(outcome.counts.resent > 0);
}

#[test]
fn a_connection_that_breaks_loses_its_request() {
    let server = Server::start(|number, _| match number % 10 {
        9 => Reply::raw("").closing(),
        8 => Reply::raw("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf").closing(),
        _ => Reply::ok("x"),
    });
    let outcome = execute(&plan(&server, 100));
    assert_eq!((outcome.counts.answered, outcome.counts.lost), (80, 20));
    assert!(outcome.doubts.contains(&Doubt::Unanswered { count: 20 }));
}

#[test]
fn all_kinds_of_framing_are_understood() {
    let server = Server::start(|number, _| match number % 4 {
        0 => Reply::raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"),
        1 => Reply::raw("HTTP/1.0 200 OK\r\n\r\nabc").closing(),
        2 => Reply::raw("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"),
        _ => Reply::raw("HTTP/1.1 304 Not Modified\r\nContent-Length: 3\r\n\r\n"),
    });
    let mut plan = plan(&server, 100);
    plan.targets[0].content = Some(b"abc".to_vec().into());
    let outcome = execute(&plan);
    assert_eq!(outcome.counts.statuses, [(200, 75), (304, 25)].into());
    assert_eq!((outcome.counts.wrong_content, outcome.counts.lost), (0, 0));
}

#[test]
fn wrong_content_is_counted_and_the_first_difference_named() {
    let server = Server::start(|number, _| Reply::ok(["right", "riGht", "righ", "rightly"][number % 4]));
    let mut plan = plan(&server, 40);
    plan.connections = 1;
    plan.targets[0].content = Some(b"right".to_vec().into());
    let outcome = execute(&plan);
    assert_eq!(outcome.counts.wrong_content, 30);
    assert_eq!(outcome.first_wrong.as_deref(), Some("/a: differs from byte 2 on"));
}

#[test]
fn large_content_is_counted_to_the_byte_whether_looked_at_or_not() {
    let content = "0123456789".repeat(100_000);
    let expected = content.clone();
    let server = Server::start(move |_, _| Reply::ok(&content));
    for check in [false, true] {
        let mut plan = plan(&server, 8);
        plan.targets[0].content = check.then(|| expected.as_bytes().into());
        let outcome = execute(&plan);
        assert_eq!((outcome.counts.content_bytes, outcome.counts.wrong_content), (8_000_000, 0));
    }
}

#[test]
fn what_is_not_http_is_counted_as_such() {
    let server = Server::start(|number, _| if number % 2 == 0 { Reply::ok("x") } else { Reply::raw("220 hello\r\n") });
    let outcome = execute(&plan(&server, 20));
    assert_eq!((outcome.counts.answered, outcome.counts.malformed), (10, 10));
}

#[test]
fn silence_times_out_and_the_rest_goes_on() {
    let server = Server::start(|number, _| if number == 3 { Reply::raw("") } else { Reply::ok("x") });
    let mut plan = plan(&server, 20);
    plan.timeout = Duration::from_millis(300);
    let outcome = execute(&plan);
    assert_eq!((outcome.counts.answered, outcome.counts.timed_out), (19, 1));
}

#[test]
fn slow_readers_and_writers_are_slow_and_get_everything() {
    let server = Server::start(|_, head| Reply::ok(&"y".repeat(head.len())));
    let mut plan = plan(&server, 4);
    (plan.read_rate, plan.write_rate) = (Some(500), Some(300));
    let outcome = execute(&plan);
    let head = plan.targets[0].request.len() as u64 - 4;
    assert_eq!(outcome.counts.content_bytes, 4 * head);
    // One portion is a tenth of a second: the request of 34 bytes takes two, the answer of 69 takes two.
    assert!(outcome.latency.min_ns() >= 200_000_000, "{}", outcome.latency.min_ns());
}

#[test]
fn idle_connections_ask_once_and_stay() {
    let server = Server::start(|_, _| Reply::ok("x"));
    let mut plan = plan(&server, 40);
    plan.idle_connections = 10;
    let outcome = execute(&plan);
    assert_eq!((outcome.counts.answered, outcome.counts.measured), (50, 40));
    assert_eq!((outcome.counts.connections, outcome.counts.idle_closed), (14, 0));
}

#[test]
fn thinking_connections_ask_less() {
    let server = Server::start(|_, _| Reply::ok("x"));
    let mut plan = plan(&server, 0);
    (plan.requests, plan.duration) = (None, Some(Duration::from_millis(300)));
    plan.pace = Pace::Closed { think: Duration::from_millis(100) };
    let outcome = execute(&plan);
    assert!(outcome.counts.answered <= 4 * 4, "{:?}", outcome.counts);
    assert!(outcome.counts.answered >= 4);
}

#[test]
fn an_unreachable_server_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let address = listener.local_addr().expect("it is bound");
    drop(listener);
    for new_connections in [false, true] {
        let mut plan = Plan::simple(address, targets(&["/"], new_connections));
        plan.new_connections = new_connections;
        let error = run(&plan, &mut |_| true).expect_err("nobody listens");
        assert!(matches!(error, LoadError::Unreachable { .. }));
        assert!(error.to_string().starts_with(&format!("cannot connect to {address}: ")), "{error}");
    }
}

#[test]
fn too_few_descriptors_are_said_before_anything_is_opened() {
    let server = Server::start(|_, _| Reply::ok("x"));
    let mut plan = plan(&server, 1);
    plan.connections = 4_000_000_000;
    let error = run(&plan, &mut |_| true).expect_err("no machine has that many");
    assert!(matches!(error, LoadError::TooFewDescriptors { needed: 4_000_000_064, .. }), "{error}");
    assert_eq!(server.connections(), 0);
}

#[test]
fn an_interrupted_run_keeps_what_it_has() {
    let server = Server::start(|_, _| Reply::ok("x"));
    let mut plan = plan(&server, 0);
    (plan.requests, plan.duration) = (None, Some(Duration::from_secs(3600)));
    let outcome = run(&plan, &mut |progress| progress.responses < 100).expect("the server is there");
    assert!(outcome.counts.answered >= 100);
    assert!(outcome.seconds < 3600.0);
    assert_eq!(server.answered().len() as u64, outcome.counts.answered);
}

#[test]
fn an_outcome_written_and_read_can_be_merged() {
    let server = Server::start(|_, _| Reply::ok("x"));
    let first = execute(&plan(&server, 30));
    let text = serde_json::to_string(&first).expect("plain data");
    let mut sum: Outcome = serde_json::from_str(&text).expect("what was written");
    sum.merge(&execute(&plan(&server, 12)));
    assert_eq!((sum.counts.answered, sum.latency.count()), (42, 42));
}
