//! Access logs of several sites: which request is in which, and what becomes of the files, with every engine.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use rustix::process::Signal;

use crate::client::PATIENCE;
use crate::control::order;
use crate::engine::{AMPED, Engine, for_engines};
use crate::http2::{Http2, request};
use crate::request_id::lines;
use crate::server::{Launch, Server, eventually};

for_engines!(all every_architecture_has_logs_of_sites: [
    mp = MP,
    thread_pool = THREAD_POOL,
    thread_per_request = THREAD_PER_REQUEST,
    thread_per_session = THREAD_PER_SESSION,
    sped = SPED,
    amped = AMPED,
    amped_with_helper_processes = AMPED_WITH_HELPER_PROCESSES,
    amped_caches_off = AMPED_CACHES_OFF,
    co_amped = CO_AMPED,
    pipelined = PIPELINED,
    proactor = PROACTOR,
] => [
    the_manual_says_which_lines_there_are,
    a_request_is_in_the_log_that_site_and_route_say,
    logs_that_were_renamed_are_opened_again,
    a_full_disk_loses_the_lines_of_its_log_and_counts_them,
]);

const MANUAL: &str = include_str!("../../../../docs/logs.md");

/// With the log of the server in a file beside the site.
fn launch(engine: Engine, config: &str) -> Launch {
    let launch = Launch::new(engine).file("index.html", "hello\n").file("a.txt", "a").config(config);
    let log = launch.directory().join("access.log").display().to_string();
    launch.argument("--log").argument(&log)
}

/// The status of the answer to one request, by a connection of its own.
fn ask(server: &Server, request: &str, fields: &str) -> u16 {
    let mut client = server.connect();
    client.send(format!("{request} HTTP/1.1\r\nConnection: close\r\n{fields}\r\n").as_bytes());
    client.receive(!request.starts_with("HEAD")).unwrap_or_else(|fault| panic!("{request}: {fault}")).status
}

/// A line without what differs from run to run: the time, and the bytes of a page.
fn masked(line: &str) -> String {
    let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
    if let Some(at) = words.iter().position(|word| word.starts_with('[') && word.contains('/')) {
        words.splice(at..=at + 1, ["[TIME]".to_owned()]);
    }
    if let Some(at) = words.iter().position(|word| word == "404") {
        words[at + 1] = "BYTES".to_owned();
    }
    words.join(" ")
}

/// The configuration of the manual, and lines as `GET http://HOST/PATH (FIELDS) -> LOG: LINE`.
fn the_manual_says_which_lines_there_are(engine: Engine) {
    let fenced = |kind: &str| MANUAL.split(&format!("```{kind}\n")).nth(1).and_then(|rest| rest.split("```").next());
    let server = launch(engine, fenced("toml").expect("there is one")).file("health", "well").start();
    let mut expected: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let manual: Vec<&str> = fenced("text").expect("there is one").lines().collect();
    assert!(manual.len() >= 7);
    for line in &manual {
        let (asked, logged) = line.split_once(" -> ").expect(line);
        let (url, field) = asked.split_once(" (").map_or((asked, None), |(url, rest)| (url, rest.strip_suffix(')')));
        let (host, path) = url.strip_prefix("GET http://").and_then(|url| url.split_once('/')).expect(line);
        let field = field.map_or_else(String::new, |field| format!("{field}\r\n"));
        ask(&server, &format!("GET /{path}"), &format!("Host: {host}\r\n{field}"));
        if let Some((log, line)) = logged.split_once(": ") {
            expected.entry(log).or_default().push(line);
        }
    }
    for (url, words) in [
        ("http://example.org/health", "log      none: a route says `log = \"off\"`\n"),
        ("http://example.org/api/x", "/api.log, in the format vhost-combined\n"),
        ("http://quiet.example/", "log      none: it is off for the site\n"),
        ("http://shop.example/", "/shop.log, in the format $status"),
    ] {
        let explained = order(&server, &["explain", url]).expect("it says");
        assert!(explained.contains(words), "{explained}");
    }
    for (log, expected) in expected {
        let written = lines(&server.directory().join(log), expected.len());
        let mut written: Vec<String> = written.iter().map(|line| masked(line)).collect();
        // Several workers write, in any order.
        written.sort();
        let mut expected = expected.clone();
        expected.sort_unstable();
        assert_eq!(written, expected, "{log}");
    }
    server.finish();
}

/// Sites: what each says, and its name.
const SITES: [(&str, &str, Option<&str>); 4] = [
    ("as-server.test", "", Some("access.log")),
    ("own.test", "log = \"own.log\"\nlog_format = \"json\"\n", Some("own.log")),
    ("shared.test", "log = \"own.log\"\nlog_format = '$request_method $host$request_uri $status'\n", Some("own.log")),
    ("off.test", "log = \"off\"\n", None),
];

/// The word of the routes about a request.
#[derive(Clone, Copy)]
enum Routed {
    /// It is in the log of its site.
    Site,
    /// It is in none.
    Nowhere,
    /// It is in a log of its own.
    Apart,
}

/// Requests, and what the routes of every site say about them.
const REQUESTS: [(&str, &str, Routed); 18] = [
    ("GET", "/", Routed::Site),
    ("GET", "/a.txt", Routed::Site),
    ("HEAD", "/a.txt", Routed::Site),
    ("GET", "/nothing", Routed::Site),
    ("GET", "/quiet/", Routed::Nowhere),
    ("GET", "/quiet/a.txt", Routed::Nowhere),
    ("GET", "/quiet/%61.txt", Routed::Nowhere),
    ("GET", "/x/../quiet/a.txt", Routed::Nowhere),
    ("GET", "/quiet/loud/a.txt", Routed::Site),
    ("GET", "/quiet/moved", Routed::Nowhere),
    ("PUT", "/quiet/a.txt", Routed::Nowhere),
    ("OPTIONS", "/quiet/a.txt", Routed::Nowhere),
    ("GET", "/apart/a.txt", Routed::Apart),
    ("GET", "/apart/nothing", Routed::Apart),
    ("GET", "/x/../%61part/a.txt", Routed::Apart),
    ("POST", "/apart/a.txt", Routed::Apart),
    ("GET", "/apart/loud/a.txt", Routed::Site),
    ("GET", "/apart/quiet/a.txt", Routed::Nowhere),
];

/// Every site meets every request, over HTTP/1.1 and HTTP/2; a model of one line says in which log each is.
fn a_request_is_in_the_log_that_site_and_route_say(engine: Engine) {
    let mut config = "h2c = true\n".to_owned();
    for (host, says, _) in SITES {
        config += &format!(
            "[[site]]\nhosts = [{host:?}]\nroot = \"site\"\n{says}\
             [[site.route]]\nmatch = \"/quiet/*\"\nlog = \"off\"\n\
             [[site.route]]\nmatch = \"/quiet/loud/*\"\nlog = \"on\"\n\
             [[site.route]]\nmatch = \"/quiet/moved\"\nredirect = \"/a.txt\"\n\
             [[site.route]]\nmatch = \"/apart/*\"\nlog = \"apart.log\"\n\
             [[site.route]]\nmatch = \"/apart/loud/*\"\nlog = \"on\"\n\
             [[site.route]]\nmatch = \"/apart/quiet/*\"\nlog = \"off\"\n"
        );
    }
    let launch = launch(engine, &config).file("quiet/a.txt", "a").file("quiet/loud/a.txt", "a");
    let server = launch.file("apart/a.txt", "a").start();
    let mut expected: BTreeMap<&str, usize> = BTreeMap::new();
    for round in 0..2 {
        for (host, _, log) in SITES {
            for (method, path, routed) in REQUESTS {
                if round == 0 {
                    ask(&server, &format!("{method} {path}"), &format!("Host: {host}\r\nContent-Length: 0\r\n"));
                } else {
                    let mut asked = request(method, path, &[]);
                    *asked.uri_mut() = format!("http://{host}{path}").parse().expect("it is one");
                    Http2::connect(server.address()).ask(vec![asked]).remove(0).expect("an answer");
                }
                let log = match routed {
                    Routed::Site => log,
                    Routed::Nowhere => None,
                    Routed::Apart => Some("apart.log"),
                };
                log.into_iter().for_each(|log| *expected.entry(log).or_default() += 1);
            }
        }
    }
    for (log, count) in expected {
        let written = lines(&server.directory().join(log), count);
        assert!(written.iter().all(|line| !line.contains("/quiet/a") && !line.contains("/quiet/moved")), "{written:?}");
        let is_apart = |line: &String| line.contains("part/") && !line.contains("/apart/loud/");
        assert!(written.iter().all(|line| is_apart(line) == (log == "apart.log")), "{log}: {written:?}");
    }
    server.finish();
}

pub(crate) const TWO: &str = "log_format = '$request_uri'\n[[site]]\nhosts = [\"a.test\"]\nroot = \"site\"\n\
                   [[site]]\nhosts = [\"b.test\"]\nroot = \"site\"\nlog = \"b.log\"\n";

fn logs_that_were_renamed_are_opened_again(engine: Engine) {
    let server = launch(engine, TWO).start();
    let ask_both = |path: &str| {
        for host in ["a.test", "b.test"] {
            assert_eq!(ask(&server, &format!("GET {path}"), &format!("Host: {host}\r\n")), 404);
        }
    };
    let logs = ["access.log", "b.log"].map(|log| server.directory().join(log));
    let old = |log: &Path| log.with_extension("1");
    ask_both("/before");
    for log in &logs {
        lines(log, 1);
        fs::rename(log, old(log)).expect("it is there");
    }
    server.signal(Signal::HUP);
    // Worker processes are told one after the other; what one has not opened yet goes to the file of before.
    let opened = || logs.iter().all(|log| log.exists()).then_some(());
    eventually("they are opened again", PATIENCE, opened);
    for round in 0..20 {
        ask_both(&format!("/after/{round}"));
    }
    for log in &logs {
        eventually("all is logged", PATIENCE, || {
            let text = |log: &Path| fs::read_to_string(log).unwrap_or_default();
            let both = text(&old(log)) + &text(log);
            (both.lines().count() == 21 && text(log).contains("/after/19")).then_some(())
        });
        assert!(fs::read_to_string(old(log)).expect("it is there").starts_with("/before\n"));
    }
    server.finish();
}

fn a_full_disk_loses_the_lines_of_its_log_and_counts_them(engine: Engine) {
    let server = launch(engine, &TWO.replace("b.log", "/dev/full")).start();
    for host in ["a.test", "b.test", "a.test", "b.test", "b.test"] {
        assert_eq!(ask(&server, "GET /a.txt", &format!("Host: {host}\r\n")), 200);
    }
    lines(&server.directory().join("access.log"), 2);
    eventually("what is lost is counted", PATIENCE, || {
        let stats = order(&server, &["stats", "--json"]).expect("it answers");
        let stats: serde_json::Value = serde_json::from_str(&stats).expect("JSON");
        (stats["log_lines_lost"] == 3).then_some(())
    });
    server.finish();
}

#[test]
fn a_log_of_a_site_that_cannot_be_opened_ends_the_start_with_its_place() {
    let (status, said) = launch(AMPED, &TWO.replace("b.log", "no/such/b.log")).fail();
    assert_eq!(status.code(), Some(78), "{said}");
    assert!(
        said.contains("lamna.toml:8:7: the directory") && said.contains("of the access log does not exist"),
        "{said}"
    );
}

/// What the manual says of variables is what there is.
#[test]
fn the_manual_has_every_variable() {
    for (name, _, what) in lamna_server::config::access_log::VARIABLES {
        assert!(MANUAL.contains(&format!("| `${name}` | {what} |\n")), "{name}: {what}");
    }
}
