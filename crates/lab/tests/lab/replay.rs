//! A log that is replayed arrives at the server as it was recorded.

use std::collections::HashSet;
use std::fs;
use std::time::Duration;

use lamna_lab::load::plan::{Plan, RequestForm};
use lamna_lab::load::run;
use lamna_lab::replay::{Speed, Trace, read};

use crate::server::{Reply, Server};

fn log(paths: &[&str]) -> Trace {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let file = directory.path().join("access.log");
    let line = |(second, path): (usize, &&str)| {
        format!("h - - [10/Oct/2000:13:55:{second:02} +0000] \"GET {path} HTTP/1.1\" 200 1\n")
    };
    fs::write(&file, paths.iter().enumerate().map(line).collect::<String>()).expect("it is ours");
    read::read(&file).expect("it has requests")
}

fn plan(server: &Server, trace: &Trace, speed: Speed, looped: bool) -> Plan {
    let form = RequestForm { host: "test".into(), ..RequestForm::default() };
    let targets = trace.targets(|path| form.target(path));
    let (order, pace) = (trace.order(looped), trace.pace(speed));
    Plan { order, pace, duration: None, connections: 1, ..Plan::simple(server.address, targets) }
}

#[test]
fn requests_come_in_the_order_and_at_the_times_of_the_log() {
    let server = Server::start(|_, _| Reply::ok("x"));
    let trace = log(&["/a", "/b", "/a", "/c"]);
    // Three seconds of log, ten times as fast.
    let outcome = run(&plan(&server, &trace, Speed::Times(10.0), false), &mut |_| true).expect("the server is there");
    assert_eq!(server.answered(), ["/a", "/b", "/a", "/c"].map(|path| format!("GET {path} HTTP/1.1")));
    assert_eq!(outcome.counts.answered, 4);
    assert!(outcome.seconds >= 0.3, "{}", outcome.seconds);
}

#[test]
fn a_looped_log_goes_on_for_as_long_as_it_is_wanted() {
    let server = Server::start(|_, _| Reply::ok("x"));
    let trace = log(&["/a", "/b", "/c"]);
    let mut plan = plan(&server, &trace, Speed::AsAnswered, true);
    (plan.requests, plan.threads, plan.connections) = (Some(300), 2, 4);
    plan.timeout = Duration::from_secs(5);
    run(&plan, &mut |_| true).expect("the server is there");
    let answered = server.answered();
    assert_eq!(answered.len(), 300);
    assert_eq!(answered.iter().collect::<HashSet<_>>().len(), 3);
    for path in ["/a", "/b", "/c"] {
        assert_eq!(answered.iter().filter(|line| line.contains(path)).count(), 100);
    }
}
