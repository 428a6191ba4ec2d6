//! Sites in maintenance: every request is answered with 503 until the operator ends it, whatever it asks for, and but
//! for clients that are excepted.

use std::fs;
use std::thread;
use std::time::Duration;

use crate::client::{PATIENCE, Response};
use crate::control::{ctl, get, order, runtime, text};
use crate::engine::{AMPED, Engine, for_engines};
use crate::gateways::Application;
use crate::http2::{Http2, request};
use crate::server::{Launch, Server, eventually};

for_engines!([
    sped_2 = SPED_2,
    amped = AMPED,
    amped_with_helper_processes = AMPED_WITH_HELPER_PROCESSES,
    co_amped = CO_AMPED,
    mp = MP,
    pipelined = PIPELINED,
    proactor = PROACTOR,
    thread_pool = THREAD_POOL,
    thread_per_request = THREAD_PER_REQUEST,
    thread_per_session = THREAD_PER_SESSION,
] => [
    a_site_in_maintenance_answers_nothing_but_503_and_at_once,
    what_has_begun_is_finished_and_excepted_clients_are_served,
    a_site_begins_in_maintenance_by_its_key_and_an_order_counts_before_it,
]);

fn say(server: &Server, arguments: &[&str]) -> String {
    let words = [&["maintenance"], arguments].concat();
    order(server, &words).unwrap_or_else(|said| panic!("{arguments:?}: {said}"))
}

fn ask(server: &Server, host: &str, method: &str, path: &str) -> Response {
    let mut client = server.connect();
    client.send(format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\n\r\n").as_bytes());
    client.receive(method != "HEAD").unwrap_or_else(|fault| panic!("{method} {path}: {fault}"))
}

fn over_http2(server: &Server, host: &str, path: &str) -> (u16, Vec<(String, String)>) {
    let mut request = request("GET", path, &[]);
    *request.uri_mut() = format!("http://{host}{path}").parse().unwrap();
    let answer = Http2::connect(server.address()).try_ask(request).unwrap();
    (answer.status, answer.fields)
}

/// Two sites, of which the first has files, kept answers of an application, a fixed answer, and a page for 503.
fn config(application: &Application) -> String {
    format!(
        "[[site]]\nhosts = [\"a.test\", \"www.a.test\"]\nroot = \"site\"\nerror_pages = {{ 503 = \"/busy.html\" }}\n\
         headers = {{ X-Own = \"1\", Cache-Control = \"max-age=60\" }}\n\
         [[site.route]]\nmatch = \"/app/*\"\nproxy = \"http://{}\"\ncache = {{ fresh_s = 60 }}\n\
         [[site.route]]\nmatch = \"/fixed\"\nrespond = {{ text = \"fixed\" }}\n\
         [[site]]\nhosts = [\"b.test\"]\nroot = \"site\"\n",
        application.address
    )
}

const PATHS: [&str; 5] = ["/file.txt", "/app/sized/10", "/fixed", "/nothing", "/app/../file.txt"];

fn a_site_in_maintenance_answers_nothing_but_503_and_at_once(engine: Engine) {
    let application = Application::start();
    let launch = Launch::new(engine).argument("--h2c").config(&config(&application));
    let log = launch.directory().join("access.log");
    let launch = launch.argument("--log").argument(&log.display().to_string());
    let server = launch.file("file.txt", "hello").file("busy.html", "<p>busy").start();
    // What caches hold from before is not sent either.
    PATHS.iter().for_each(|path| _ = ask(&server, "a.test", "GET", path));
    assert_eq!(say(&server, &["list"]), "no site is in maintenance\n");
    let mut open = server.connect();
    open.send(b"GET /file.txt HTTP/1.1\r\nHost: a.test\r\n\r\n");
    assert_eq!(open.receive(true).unwrap().status, 200);
    for round in 0..2 {
        let told = say(&server, &["on", "www.a.test", "--retry-after", "77"]);
        assert!(told.contains("a.test: on, by order; the page for 503, Retry-After 77 s"), "{told}");
        // No worker is told: each finds out with its next request.
        for (path, method) in PATHS.iter().flat_map(|path| ["GET", "HEAD", "POST", "PUT", "OPTIONS"].map(|m| (path, m)))
        {
            let response = ask(&server, "a.test", method, path);
            assert_eq!(response.status, 503, "{round}: {method} {path}");
            assert_eq!(response.field("Retry-After"), Some("77"), "{method} {path}");
            assert_eq!(response.field("Cache-Control"), Some("no-store"), "{method} {path}");
            assert_eq!(response.field("X-Own"), Some("1"));
            let content = if method == "HEAD" { &b""[..] } else { b"<p>busy" };
            assert_eq!(response.content, content, "{method} {path}");
        }
        for path in PATHS {
            let (status, fields) = over_http2(&server, "a.test", path);
            assert_eq!(status, 503, "{path} over HTTP/2");
            assert!(fields.contains(&("retry-after".into(), "77".into())), "{fields:?}");
        }
        open.send(b"GET /file.txt HTTP/1.1\r\nHost: a.test\r\n\r\n");
        assert_eq!(open.receive(true).unwrap().status, 503, "a connection from before");
        assert_eq!(ask(&server, "b.test", "GET", "/file.txt").status, 200, "another site");
        assert!(order(&server, &["status"]).unwrap().contains("maintenance"));
        let metrics = text(&get(&server, "/metrics"));
        assert!(metrics.contains("lamna_maintenance{site=\"a.test\"} 1"), "{metrics}");
        let url = format!("http://a.test:{}/file.txt", server.address().port());
        let explained = order(&server, &["explain", &url]).unwrap();
        assert!(explained.contains("maintenance") && explained.contains("503"), "{explained}");
        let told = say(&server, &["off", "a.test"]);
        assert!(told.contains("a.test: off, by order"), "{told}");
        for path in &PATHS[..3] {
            assert_eq!(ask(&server, "a.test", "GET", path).status, 200, "{round}: {path}");
            assert_eq!(over_http2(&server, "a.test", path).0, 200, "{path} over HTTP/2");
        }
    }
    let metrics = text(&get(&server, "/metrics"));
    assert!(metrics.contains("lamna_maintenance{site=\"a.test\"} 0"), "{metrics}");
    eventually("the log has what was answered", PATIENCE, || {
        let log = fs::read_to_string(&log).unwrap();
        (log.lines().filter(|line| line.contains("\" 503 ")).count() >= 60).then_some(())
    });
    eventually("it is counted", PATIENCE, || {
        let metrics = text(&get(&server, "/metrics"));
        let line = metrics.lines().find(|line| line.starts_with("lamna_maintenance_responses_total ")).unwrap();
        // A worker without work hands nothing over.
        _ = ask(&server, "a.test", "GET", "/file.txt");
        (line.rsplit(' ').next().unwrap().parse::<u64>().unwrap() >= 60).then_some(())
    });
    let refused = order(&server, &["maintenance", "on", "c.test"]).expect_err("there is no such site");
    assert!(refused.contains("(the sites are a.test, b.test)"), "{refused}");
    server.finish();
}

fn what_has_begun_is_finished_and_excepted_clients_are_served(engine: Engine) {
    let application = Application::start();
    let server = Launch::new(engine).config(&config(&application)).file("file.txt", "hello").start();
    let page = server.directory().join("page.html");
    fs::write(&page, "<p>of the \"order\" \u{e4}").unwrap();
    application.well.store(false, std::sync::atomic::Ordering::Relaxed);
    let mut begun = server.connect();
    begun.send(b"GET /app/gated-within/20000 HTTP/1.1\r\nHost: a.test\r\n\r\n");
    assert_eq!(begun.receive_head().unwrap().status, 200);
    let page = page.display().to_string();
    say(&server, &["on", "a.test", "--page", &page, "--except", "127.0.0.7/32", "--except", "192.0.2.0/24"]);
    let refused = ask(&server, "a.test", "GET", "/file.txt");
    assert_eq!((refused.status, refused.field("Content-Type")), (503, Some("text/html; charset=utf-8")));
    assert_eq!(refused.content, "<p>of the \"order\" \u{e4}".as_bytes());
    let mut excepted = server.connect_from(7);
    excepted.send(b"GET /file.txt HTTP/1.1\r\nHost: a.test\r\n\r\n");
    let served = excepted.receive(true).unwrap();
    assert_eq!((served.status, &*served.content), (200, &b"hello"[..]));
    application.well.store(true, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(begun.receive_exactly(20_000).unwrap().len(), 20_000, "it has begun before");
    let missing = order(&server, &["maintenance", "on", "a.test", "--page", "/no/such/page"]).unwrap_err();
    assert!(missing.contains("cannot read /no/such/page"), "{missing}");
    server.finish();
}

fn a_site_begins_in_maintenance_by_its_key_and_an_order_counts_before_it(engine: Engine) {
    let key = "maintenance = { page = \"/m.html\", retry_after_s = 9, except = [\"127.0.0.7\"] }\n";
    let site = "[[site]]\nhosts = [\"a.test\"]\nroot = \"site\"\n";
    let launch = Launch::new(engine).config(&format!("{site}{key}")).file("file.txt", "hello").file("m.html", "closed");
    let server = launch.start();
    let status = || ask(&server, "a.test", "GET", "/file.txt").status;
    let first = ask(&server, "a.test", "GET", "/file.txt");
    assert_eq!((first.status, first.field("Retry-After"), &*first.content), (503, Some("9"), &b"closed"[..]));
    assert!(say(&server, &[]).contains("a.test: on, by the configuration; the page `/m.html`, Retry-After 9 s"));
    let mut excepted = server.connect_from(7);
    excepted.send(b"GET /file.txt HTTP/1.1\r\nHost: a.test\r\n\r\n");
    assert_eq!(excepted.receive(true).unwrap().status, 200);
    // A reload takes the key away, and gives it back: no order has been given so far.
    let config = server.directory().join("lamna.toml");
    let before = fs::read_to_string(&config).unwrap();
    let reload = |text: &str, expected: u16| {
        fs::write(&config, text).unwrap();
        let told = ctl(&runtime(&server), &["reload"]);
        assert_eq!(told.code, Some(0), "{told:?}");
        eventually("the process that serves has the configuration", PATIENCE, || {
            (status() == expected).then_some(()).or_else(|| {
                thread::sleep(Duration::from_millis(10));
                None
            })
        });
    };
    reload(&before.replace(key, ""), 200);
    reload(&before, 503);
    say(&server, &["off", "a.test"]);
    assert_eq!(status(), 200);
    // The order stays in force, whatever the key says from now on.
    reload(&before.replace("retry_after_s = 9", "retry_after_s = 8"), 200);
    say(&server, &["on", "a.test"]);
    let ordered = ask(&server, "a.test", "GET", "/file.txt");
    assert_eq!((ordered.status, ordered.field("Retry-After"), &*ordered.content), (503, Some("8"), &b"closed"[..]));
    reload(&before.replace(key, ""), 503);
    order(&server, &["drain"]).expect("who serves now can end");
}

#[test]
fn an_order_stays_over_changes_of_the_engine() {
    let server = Launch::new(AMPED).config("[[site]]\nhosts = [\"a.test\"]\nroot = \"site\"\n").start();
    say(&server, &["on", "a.test"]);
    for name in ["thread-pool", "proactor", "pipelined", "sped"] {
        order(&server, &["arch", "set", name]).unwrap();
        assert_eq!(ask(&server, "a.test", "GET", "/").status, 503, "{name}");
    }
    let trace = thread::scope(|scope| {
        let runtime = runtime(&server);
        let tracing = scope.spawn(move || ctl(&runtime, &["trace", "http://a.test/traced", "--wait", "20"]).output);
        while !tracing.is_finished() {
            ask(&server, "a.test", "GET", "/traced");
            thread::sleep(Duration::from_millis(20));
        }
        tracing.join().unwrap()
    });
    let line = trace.lines().find(|line| line.starts_with("maintenance")).unwrap_or_else(|| panic!("{trace}"));
    assert!(line.contains("answers 503 Service Unavailable"), "{trace}");
    server.finish();
}
