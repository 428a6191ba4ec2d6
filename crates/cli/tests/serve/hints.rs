//! Hints: what the server learns of requests, over every engine, and what it does with it.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::client::PATIENCE;
use crate::control::order;
use crate::engine::{AMPED, CO_AMPED, Engine, for_engines};
use crate::server::{Launch, Server, eventually};

for_engines!(all learning_is_of_every_architecture: [
    sped = SPED,
    sped_2 = SPED_2,
    amped = AMPED,
    amped_2 = AMPED_2,
    proactor = PROACTOR,
    pipelined = PIPELINED,
    thread_pool = THREAD_POOL,
    thread_per_request = THREAD_PER_REQUEST,
    thread_per_session = THREAD_PER_SESSION,
    co_amped_1 = CO_AMPED_1,
    mp = MP_OF_ONE,
] => [
    what_a_page_is_followed_by_is_learned_and_kept_over_a_restart,
]);

mod ahead {
    use super::{
        for_engines, what_a_page_names_is_read_ahead_of_requests, what_is_likely_next_is_read_ahead_of_requests,
    };

    for_engines!([
        sped = SPED,
        amped = AMPED,
        proactor = PROACTOR,
        pipelined = PIPELINED,
        thread_pool = THREAD_POOL,
        thread_per_request = THREAD_PER_REQUEST,
        thread_per_session = THREAD_PER_SESSION,
    ] => [
        what_is_likely_next_is_read_ahead_of_requests,
        what_a_page_names_is_read_ahead_of_requests,
    ]);
}

/// Visits of the page: so many that what follows is likely.
const VISITS: usize = 9;

fn launch(engine: Engine, config: &str) -> Launch {
    Launch::new(engine)
        .file("index.html", "<title>page</title>")
        .file("style.css", "body{}")
        .file("font.woff2", "font")
        .config(&format!("hints_file = \"hints.table\"\n{config}"))
}

/// A page, its stylesheet, and a font that only the stylesheet names: each over a connection of its own, as often as
/// said.
fn visit(server: &Server, times: usize) {
    for _ in 0..times {
        let mut client = server.connect();
        let site = server.address();
        let mut ask = |path: &str, fields: &str| {
            client.send(format!("GET {path} HTTP/1.1\r\nHost: {site}\r\n{fields}\r\n").as_bytes());
            assert_eq!(client.receive(true).expect("it answers").status, 200);
        };
        ask("/", "");
        ask("/style.css", &format!("Referer: http://{site}/\r\n"));
        ask("/font.woff2", &format!("Referer: http://{site}/style.css\r\n"));
    }
}

fn stats(server: &Server) -> Value {
    let told = order(server, &["stats", "--json"]).expect("it answers");
    serde_json::from_str(&told).expect("it is JSON")
}

fn figure(server: &Server, name: &str) -> u64 {
    stats(server)["hints"][name].as_u64().expect("it is a number")
}

/// What follows `/`, once something is known.
fn following(server: &Server) -> Vec<String> {
    let told = order(server, &["hints", "/", "--json"]).expect("the site has hints");
    let report: Value = serde_json::from_str(&told).expect("it is JSON");
    let following = report["following"].as_array().expect("it is a list").iter();
    following.map(|one| one["path"].as_str().expect("it is a path").to_owned()).collect()
}

fn wait_for_observations(server: &Server, count: u64) {
    eventually("requests are learned from", PATIENCE, || (figure(server, "observations") >= count).then_some(()));
}

fn what_a_page_is_followed_by_is_learned_and_kept_over_a_restart(engine: Engine) {
    let server = launch(engine, "hints = true").start();
    visit(&server, VISITS);
    wait_for_observations(&server, 3 * VISITS as u64);
    let is_of_processes = ["mp", "co-amped"].contains(&engine.architecture);
    if !is_of_processes {
        assert_eq!(following(&server), ["/style.css", "/font.woff2"]);
        let told = order(&server, &["hints", "/"]).expect("the site has hints");
        assert!(told.contains("/style.css in 90.0 % of the visits") && told.contains("in the cache"), "{told}");
    }
    let directory = server.into_directory();
    assert!(directory.path().join("hints.table").is_file());
    let server = launch(engine, "hints = true").from(directory).start();
    assert_eq!(following(&server), ["/style.css", "/font.woff2"], "it was kept");
    let told = order(&server, &["hints", "/style.css"]).expect("the site has hints");
    assert!(told.contains("/font.woff2"), "{told}");
}

#[test]
fn nothing_is_learned_where_hints_are_off() {
    let server = launch(AMPED, "").start();
    visit(&server, VISITS);
    assert_eq!(figure(&server, "observations"), 0);
    let why = order(&server, &["hints", "/"]).expect_err("nothing is learned");
    assert!(why.contains("hints = true"), "{why}");
    assert!(!threads(&server).contains(&"hints".to_owned()), "{:?}", threads(&server));
    let told = order(&server, &["set", "hints=true"]).expect("it can be changed while serving");
    assert!(told.contains("hints"), "{told}");
    visit(&server, VISITS);
    wait_for_observations(&server, 3 * VISITS as u64);
    assert_eq!(following(&server), ["/style.css", "/font.woff2"]);
}

#[test]
fn a_site_says_for_itself_whether_it_has_hints() {
    let config = "hints = true\n[[site]]\nroot = \"site\"\nhints = false\n";
    let server = launch(AMPED, config).start();
    visit(&server, VISITS);
    assert!(order(&server, &["hints", "/"]).is_err());
    assert_eq!(figure(&server, "observations"), 0);
}

#[test]
fn what_was_learned_goes_on_over_a_change_of_engines_and_of_policy() {
    let server = launch(AMPED, "hints = true").start();
    visit(&server, VISITS);
    wait_for_observations(&server, 3 * VISITS as u64);
    order(&server, &["arch", "set", "thread-pool"]).expect("they can take each other's place");
    assert_eq!(following(&server), ["/style.css", "/font.woff2"]);
    let told = order(&server, &["set", "--cache-policy", "hinted"]).expect("it is a policy");
    assert!(told.contains("hinted"), "{told}");
    visit(&server, VISITS);
    wait_for_observations(&server, 6 * VISITS as u64);
}

#[test]
fn a_damaged_file_is_said_and_learning_begins_anew() {
    let launch = launch(AMPED, "hints = true");
    fs::write(launch.directory().join("hints.table"), "no table").expect("a file can be written");
    let mut server = launch.start();
    assert!(server.said().contains("hints begin anew"), "{}", server.said());
    visit(&server, VISITS);
    wait_for_observations(&server, 3 * VISITS as u64);
    assert_eq!(following(&server), ["/style.css", "/font.woff2"]);
}

#[test]
fn worker_processes_learn_by_themselves_and_begin_with_what_the_first_has_kept() {
    let server = launch(CO_AMPED, "hints = true").start();
    visit(&server, 4 * VISITS);
    wait_for_observations(&server, 12 * VISITS as u64);
    let directory = server.into_directory();
    let kept = fs::read(directory.path().join("hints.table")).expect("the first process keeps what it knows");
    // The kernel chose which process took a connection: the first may have served nobody.
    let known = if kept.windows(10).any(|bytes| bytes == b"/style.css") { 3 } else { 0 };
    let server = launch(CO_AMPED, "hints = true").from(directory).start();
    // The sum is of both processes, and one of them serves before the other has begun.
    eventually("both begin with what was kept", PATIENCE, || (figure(&server, "urls") == 2 * known).then_some(()));
}

fn what_is_likely_next_is_read_ahead_of_requests(engine: Engine) {
    let config = "hints = true\nprecache = true\nhints_percent = 20\ncache_watch = false";
    let launched = launch(engine, config);
    let server = launched.start();
    visit(&server, VISITS);
    wait_for_observations(&server, 3 * VISITS as u64);
    // The file as it is kept, and a cache that is empty.
    let server = launch(engine, config).from(server.into_directory()).start();
    assert_eq!(figure(&server, "ahead"), 0);
    let site = server.address();
    let mut client = server.connect();
    client.send(format!("GET / HTTP/1.1\r\nHost: {site}\r\n\r\n").as_bytes());
    assert_eq!(client.receive(true).expect("it answers").status, 200);
    eventually("what follows is read ahead", PATIENCE, || (figure(&server, "ahead") == 2).then_some(()));
    let told = order(&server, &["hints", "/"]).expect("the site has hints");
    assert_eq!(told.matches("read ahead and not asked for yet").count(), 2, "{told}");
    let misses = stats(&server)["lookups"]["misses"].as_u64();
    client.send(format!("GET /style.css HTTP/1.1\r\nHost: {site}\r\nReferer: http://{site}/\r\n\r\n").as_bytes());
    let answer = client.receive(true).expect("it answers");
    assert_eq!((answer.status, &*answer.content), (200, &b"body{}"[..]));
    eventually("it is used", PATIENCE, || (figure(&server, "ahead_used") == 1).then_some(()));
    eventually("it is counted", PATIENCE, || (stats(&server)["requests"].as_u64() >= Some(2)).then_some(()));
    assert!(stats(&server)["lookups"]["misses"].as_u64() <= misses.max(Some(1)), "nobody waited for it");
}

fn what_a_page_names_is_read_ahead_of_requests(engine: Engine) {
    let page =
        "<title>page</title><link rel=stylesheet href=style.css><img src=/shown.png><img src=late.png loading=lazy>";
    let server = launch(engine, "hints = true\nprecache = true\ncache_watch = false")
        .file("index.html", page)
        .file("shown.png", "a picture")
        .file("late.png", "a picture")
        .file("other.png", "a picture")
        .start();
    let site = server.address();
    let mut client = server.connect();
    let mut ask = |path: &str| {
        client.send(format!("GET {path} HTTP/1.1\r\nHost: {site}\r\n\r\n").as_bytes());
        assert_eq!(client.receive(true).expect("it answers").status, 200);
    };
    // Nobody has ever asked for the page, or for what it names.
    ask("/");
    eventually("what the page names is read ahead", PATIENCE, || (figure(&server, "ahead") == 2).then_some(()));
    let told = order(&server, &["hints", "/"]).expect("the site has hints");
    assert_eq!(told.matches("read ahead and not asked for yet").count(), 2, "{told}");
    assert!(told.contains("/style.css") && told.contains("/shown.png") && !told.contains("/late.png"), "{told}");
    ask("/shown.png");
    eventually("it is used", PATIENCE, || (figure(&server, "ahead_used") == 1).then_some(()));
    // Another state of the page names something else.
    let changed = page.replace("shown", "other");
    fs::write(server.directory().join("site/index.html"), changed).expect("it can be written");
    eventually("the new state is read", PATIENCE, || {
        ask("/");
        (figure(&server, "ahead") == 3).then_some(())
    });
}

#[test]
fn beside_applications_and_access_rules_what_is_for_everybody_is_read_ahead_and_nothing_else() {
    // Nobody listens there: an application that was asked would be an error.
    let page = "<title>page</title><link rel=stylesheet href=/mine.css><link rel=stylesheet href=/made/a.css>\
                <link rel=stylesheet href=/moved.css><link rel=stylesheet href=/style.css>";
    let server = launch(
        AMPED,
        "hints = true\nprecache = true\ncache_watch = false\n[[site]]\nroot = \"site\"\n\
         [[site.route]]\nmatch = \"/made/*\"\nproxy = \"http://127.0.0.1:9\"\n\
         [[site.route]]\nmatch = \"/moved.css\"\nrewrite = \"/made/a.css\"\n\
         [[site.route]]\nmatch = \"/mine.css\"\naccess = { allow = [\"127.0.0.0/8\"] }\n",
    )
    .file("index.html", page)
    .file("mine.css", "q{}")
    .file("moved.css", "r{}")
    .file("made/a.css", "s{}")
    .start();
    let site = server.address();
    let mut client = server.connect();
    let mut ask = || {
        client.send(format!("GET / HTTP/1.1\r\nHost: {site}\r\n\r\n").as_bytes());
        assert_eq!(client.receive(true).expect("it answers").status, 200);
    };
    // It is named last, and one is read after the other.
    eventually("what is for everybody is read ahead", PATIENCE, || {
        ask();
        (figure(&server, "ahead") >= 1).then_some(())
    });
    let told = order(&server, &["hints", "/"]).expect("the site has hints");
    let ahead: Vec<&str> = told.lines().filter(|line| line.contains("read ahead and not asked for yet")).collect();
    assert!(ahead.len() == 1 && ahead[0].contains("/style.css"), "{told}");
}

/// The names of the threads of the process.
fn threads(server: &Server) -> Vec<String> {
    let tasks = Path::new("/proc").join(server.pid().as_raw_nonzero().to_string()).join("task");
    let names = fs::read_dir(tasks).expect("it lives").flatten();
    names
        .filter_map(|task| fs::read_to_string(task.path().join("comm")).ok())
        .map(|name| name.trim().to_owned())
        .collect()
}
