//! What requests are called: in answers, in both logs, and towards applications, with every engine.

use std::collections::BTreeSet;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};

use crate::client::{Client, PATIENCE, Response};
use crate::engine::{AMPED, Engine, for_engines};
use crate::gateways::Application;
use crate::http2::{Http2, request};
use crate::server::{Launch, eventually};

for_engines!(all every_architecture_names_requests: [
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
    every_answer_says_what_its_request_is_called_and_so_does_the_log,
    an_application_is_told_what_the_answer_and_the_logs_say,
    answers_over_http_2_say_it_as_well,
]);

/// With a log at this path.
pub(crate) fn logged(launch: Launch, format: &str) -> (Launch, PathBuf) {
    let log = launch.directory().join("access.log");
    let launch = launch.argument("--log").argument(&log.display().to_string());
    (launch.argument("--log-format").argument(format), log)
}

/// The lines of a log, once there are so many.
pub(crate) fn lines(log: &Path, count: usize) -> Vec<String> {
    eventually("all is logged", PATIENCE, || {
        let text = fs::read_to_string(log).unwrap_or_default();
        (text.lines().count() == count).then(|| text.lines().map(str::to_owned).collect())
    })
}

#[track_caller]
fn id_of(response: &Response) -> String {
    let told: Vec<_> = response.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case("x-request-id")).collect();
    assert_eq!(told.len(), 1, "{response:?}");
    let id = told[0].1.clone();
    assert!(id.len() == 16 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
    id
}

fn every_answer_says_what_its_request_is_called_and_so_does_the_log(engine: Engine) {
    let large = "x".repeat(300_000);
    let launch = Launch::new(engine).file("a.txt", "hello").file("large.bin", large).config("request_id = true\n");
    let (launch, log) = logged(launch, "combined");
    let server = launch.start();
    let requests = [
        ("GET /a.txt", "", 200),
        ("GET /a.txt", "", 200),
        ("HEAD /a.txt", "", 200),
        ("GET /nothing", "", 404),
        ("GET /large.bin", "", 200),
        ("GET /large.bin", "Range: bytes=5-9\r\n", 206),
        ("GET /large.bin", "Range: bytes=0-1,7-9\r\n", 206),
        ("GET /a.txt", "Range: bytes=99-\r\n", 416),
        ("GET /a.txt", "If-None-Match: *\r\n", 304),
        ("GET /a.txt", "If-Match: \"none\"\r\n", 412),
        ("OPTIONS /a.txt", "", 204),
        ("DELETE /a.txt", "Content-Length: 0\r\n", 405),
        // A client cannot say what it is.
        ("GET /a.txt", "X-Request-Id: mine\r\n", 200),
    ];
    let mut ids = Vec::new();
    let mut client = server.connect();
    for (line, fields, status) in requests {
        client.send(format!("{line} HTTP/1.1\r\nHost: a\r\n{fields}\r\n").as_bytes());
        let response = client.receive(!line.starts_with("HEAD")).unwrap();
        assert_eq!(response.status, status, "{line} {fields}");
        ids.push(id_of(&response));
        if response.field("Connection") == Some("close") {
            client = server.connect();
        }
    }
    // Those that wait for each other are told apart as well.
    client.send("GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n".repeat(5).as_bytes());
    ids.extend((0..5).map(|_| id_of(&client.receive(true).unwrap())));
    drop(client);
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "{ids:?}");
    let mut logged: Vec<String> = lines(&log, ids.len());
    for line in &mut logged {
        *line = line.rsplit(' ').next().unwrap().trim_matches('"').to_owned();
    }
    logged.sort();
    ids.sort();
    assert_eq!(logged, ids);
    server.finish();
}

fn an_application_is_told_what_the_answer_and_the_logs_say(engine: Engine) {
    let application = Application::start();
    let dead = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let config = format!(
        "request_id = true\n[[site]]\nroot = \"site\"\n\
         [[site.route]]\nmatch = \"/app/*\"\nproxy = \"http://{}\"\n\
         [[site.route]]\nmatch = \"/dead/*\"\nproxy = \"http://{dead}\"\n",
        application.address
    );
    let (launch, log) = logged(Launch::new(engine).config(&config), "json");
    let mut server = launch.start();
    let mut client = server.connect();
    client.send(b"GET /app/told HTTP/1.1\r\nHost: a\r\nX-Request-Id: mine\r\nx_request_id: mine\r\n\r\n");
    let answer = client.receive(true).unwrap();
    let told = String::from_utf8(answer.content.clone()).unwrap();
    let id = id_of(&answer);
    assert!(told.contains(&format!("X-Request-Id: {id}\r\n")) && !told.contains("mine"), "{told}");
    assert_eq!(told.to_ascii_lowercase().matches("request-id").count(), 1, "{told}");

    client.send(b"GET /dead/a HTTP/1.1\r\nHost: a\r\n\r\n");
    let answer = client.receive(true).unwrap();
    assert_eq!(answer.status, 502);
    let of_dead = id_of(&answer);
    let error = server.wait_to_hear("upstream ");
    assert!(error.contains(&format!(": request {of_dead}: upstream ")), "{error}");
    drop(client);
    let logged = lines(&log, 2);
    for (line, id) in logged.iter().zip([&id, &of_dead]) {
        assert!(line.contains(&format!("\"request_id\":\"{id}\"")), "{line}");
    }
    server.finish();
}

fn answers_over_http_2_say_it_as_well(engine: Engine) {
    let launch = Launch::new(engine).file("a.txt", "hello").file("large.bin", "x".repeat(300_000));
    let (launch, log) = logged(launch.config("request_id = true\nh2c = true\n"), "json");
    let server = launch.start();
    let mut client = Http2::connect(server.address());
    let ranged = request("GET", "/a.txt", &[("range", "bytes=0-1"), ("x-request-id", "mine")]);
    let requests = ["/a.txt", "/a.txt", "/nothing", "/large.bin"].map(|path| request("GET", path, &[]));
    let answers = client.ask(requests.into_iter().chain([ranged]).collect());
    let ids: BTreeSet<String> = answers
        .iter()
        .map(|answer| {
            let fields = &answer.as_ref().unwrap().fields;
            let told: Vec<_> = fields.iter().filter(|(name, _)| name == "x-request-id").collect();
            assert_eq!(told.len(), 1, "{fields:?}");
            told[0].1.clone()
        })
        .collect();
    assert_eq!(ids.len(), 5);
    drop(client);
    for line in lines(&log, 5) {
        assert!(ids.iter().any(|id| line.contains(&format!("\"request_id\":\"{id}\""))), "{line}");
    }
    server.finish();
}

#[test]
fn without_the_setting_clients_are_told_nothing_and_the_combined_log_is_as_ever() {
    for (format, is_named) in [("combined", false), ("json", true)] {
        let (launch, log) = logged(Launch::new(AMPED).file("a.txt", "hello"), format);
        let server = launch.start();
        let answer = server.connect().get("/a.txt").unwrap();
        assert_eq!(answer.field("X-Request-Id"), None);
        let line = lines(&log, 1).remove(0);
        assert_eq!(line.contains("\"request_id\":\""), is_named, "{line}");
        assert!(is_named || line.ends_with("\"-\" \"-\""), "{line}");
        server.finish();
    }
}

#[test]
fn a_trusted_proxy_says_what_a_request_is_called_if_it_says_so_plainly() {
    let application = Application::start();
    let config = format!(
        "request_id = true\ntrusted_proxies = [\"127.0.0.0/8\"]\n[[site]]\nroot = \"site\"\n\
         [[site.route]]\nmatch = \"/app/*\"\nproxy = \"http://{}\"\n",
        application.address
    );
    let (launch, log) = logged(Launch::new(AMPED).config(&config), "json");
    let server = launch.start();
    let mut client = server.connect();
    let mut ask = |fields: &str| -> Response {
        client.send(format!("GET /app/told HTTP/1.1\r\nHost: a\r\n{fields}\r\n").as_bytes());
        client.receive(true).unwrap()
    };
    let told = |answer: &Response| String::from_utf8(answer.content.clone()).unwrap();
    let named = ask("X-Request-Id: 7f0c-4e\r\n");
    assert!(told(&named).contains("X-Request-Id: 7f0c-4e\r\n"), "{}", told(&named));
    assert_eq!(named.field("X-Request-Id"), None, "it knows");
    let nonsense = ask("X-Request-Id: a b\"c\r\n");
    assert!(!told(&nonsense).contains("a b"), "{}", told(&nonsense));
    let unnamed = ask("");
    let id = id_of(&unnamed);
    assert!(told(&unnamed).contains(&format!("X-Request-Id: {id}\r\n")));
    let logged = lines(&log, 3);
    assert!(logged[0].contains("\"request_id\":\"7f0c-4e\""), "{}", logged[0]);
    assert!(!logged[1].contains("a b") && logged[1].contains("\"request_id\":\""), "{}", logged[1]);
    assert!(logged[2].contains(&format!("\"request_id\":\"{id}\"")), "{}", logged[2]);
    server.finish();
}

#[test]
fn what_may_not_be_read_is_said_with_what_the_request_is_called() {
    let mut server = Launch::new(AMPED).file("a/b.txt", "b").config("request_id = true\n").start();
    let mut client: Client<_> = server.connect();
    let answer = client.get("/a/").unwrap();
    assert_eq!(answer.status, 403);
    let said = server.wait_to_hear("has no index file");
    assert!(said.contains(&format!("request {}: `/a/`", id_of(&answer))), "{said}");
    drop(client);
    server.finish();
}
