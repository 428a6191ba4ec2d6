//! The access logs of sites, over changes of engine and upgrades.

use std::fs;
use std::path::Path;

use super::Line;
use crate::engine::{Engine, for_engines};
use crate::logs::TWO;
use crate::request_id::lines;
use crate::server::Launch;

for_engines!([
    sped = SPED,
    amped = AMPED,
    thread_pool = THREAD_POOL,
    mp = MP,
    helper_processes = AMPED_WITH_HELPER_PROCESSES,
] => [
    other_engines_and_processes_go_on_with_the_logs_of_sites,
    a_reload_changes_logs_and_one_that_cannot_leaves_them,
]);

fn other_engines_and_processes_go_on_with_the_logs_of_sites(engine: Engine) {
    let launch = Launch::new(engine).config(TWO);
    let log = launch.directory().join("access.log").display().to_string();
    let mut line = Line::start(launch.argument("--log").argument(&log));
    let directory = line.server.directory().to_owned();
    let mut asked = 0;
    let mut ask = |line: &Line| {
        for _ in 0..5 {
            asked += 1;
            for host in ["a.test", "b.test"] {
                let mut client = line.server.connect();
                client.send(format!("GET /{asked} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").as_bytes());
                assert_eq!(client.receive(true).expect("an answer").status, 404);
            }
        }
        asked
    };
    ask(&line);
    line.upgrade();
    line.is_alone();
    ask(&line);
    // Processes that help cannot be had in worker processes.
    let (other, takes_process) = match (engine.architecture, engine.arguments) {
        ("mp", _) => ("amped", true),
        (_, []) => ("mp", true),
        _ => ("sped", false),
    };
    let (done, said) = line.ctl(&["arch", "set", other]);
    assert!(done, "{said}");
    if takes_process {
        line.hear_of_successor();
        line.is_alone();
    }
    let asked = ask(&line);
    for log in ["access.log", "b.log"] {
        let mut written = lines(&directory.join(log), asked);
        written.sort_by_key(|line| line.trim_start_matches('/').parse::<usize>().ok());
        assert_eq!(written, (1..=asked).map(|number| format!("/{number}")).collect::<Vec<_>>(), "{log}");
    }
    line.end();
}

fn a_reload_changes_logs_and_one_that_cannot_leaves_them(engine: Engine) {
    let launch = Launch::new(engine).config(TWO);
    let log = launch.directory().join("access.log").display().to_string();
    let mut line = Line::start(launch.argument("--log").argument(&log));
    let directory = line.server.directory().to_owned();
    let reload = |line: &Line, config: &str| {
        fs::write(directory.join("lamna.toml"), config).expect("it can be written");
        line.ctl(&["reload"])
    };
    let ask = |line: &Line, host: &str| {
        let mut client = line.server.connect();
        client.send(format!("GET /x HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").as_bytes());
        assert_eq!(client.receive(true).expect("an answer").status, 404);
    };
    ask(&line, "b.test");
    lines(&directory.join("b.log"), 1);
    fs::create_dir(directory.join("folder")).expect("a new directory");
    for (log, why) in [("no/such/b.log", "does not exist"), ("folder", "is a directory")] {
        let (done, said) = reload(&line, &TWO.replace("b.log", log));
        assert!(!done && said.contains(why) && said.contains("lamna.toml:8:7"), "{said}");
    }
    let (done, said) = reload(&line, &TWO.replace("$request_uri", "$requset_uri"));
    assert!(!done && said.contains("did you mean `$request_uri`?"), "{said}");
    ask(&line, "b.test");
    lines(&directory.join("b.log"), 2);
    let takes_process = matches!(engine.architecture, "mp" | "co-amped") || !engine.arguments.is_empty();
    for log in ["c.log", "off"] {
        let (done, said) = reload(&line, &TWO.replace("b.log", log));
        assert!(done, "{said}");
        if takes_process {
            line.hear_of_successor();
            line.is_alone();
        }
        for host in ["a.test", "b.test"] {
            ask(&line, host);
        }
    }
    line.end_but(|| {
        let counts = ["access.log", "b.log", "c.log"].map(|log| lines_in(&directory.join(log)));
        // The engine before may take a last connection when another one serves.
        let late = usize::from(!takes_process);
        let [of_server, before, after] = counts;
        assert!(
            of_server == 2 && (2..=2 + late).contains(&before) && (3..=3 + late).contains(&(before + after)),
            "{counts:?}"
        );
    });
}

fn lines_in(log: &Path) -> usize {
    fs::read_to_string(log).unwrap_or_default().lines().count()
}
