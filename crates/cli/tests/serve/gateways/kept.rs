//! Answers of applications that are kept: who asks what is kept gets it, who asks what is being asked for waits, and
//! nobody gets what is not for others.
//!
//! Owns: an application that answers what it is told to ([`Scripted`]). Staleness comes of the `Age` of answers, and
//! not of waiting.

mod spoiled;

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use crate::client::{APPLICATION_PATIENCE, Client, PATIENCE, Response};
use crate::control::{self, figure, order};
use crate::engine::{AMPED, Engine, for_engines};
use crate::http2::{Http2, request};
use crate::server::{Launch, Server, eventually};

for_engines!(all kept_answers_have_every_engine: [
    mp = MP,
    thread_pool = THREAD_POOL,
    thread_per_request = THREAD_PER_REQUEST,
    thread_per_session = THREAD_PER_SESSION,
    sped = SPED,
    amped = AMPED,
    amped_2 = AMPED_2,
    co_amped = CO_AMPED,
    pipelined = PIPELINED,
    proactor = PROACTOR,
] => [
    fresh_answers_are_not_asked_for_again,
    what_is_not_for_others_is_asked_for_each_time,
    answers_differ_by_what_vary_names,
    stale_answers_are_validated,
    stale_answers_are_used_while_they_are_refreshed,
    stale_answers_are_used_when_the_application_fails,
]);

// Where all connections are of one process.
for_engines!([
    one_thread_pool = THREAD_POOL,
    one_thread_per_request = THREAD_PER_REQUEST,
    one_thread_per_session = THREAD_PER_SESSION,
    one_sped = SPED,
    one_sped_2 = SPED_2,
    one_amped = AMPED,
    one_pipelined = PIPELINED,
    one_proactor = PROACTOR,
] => [
    of_many_who_ask_at_once_one_is_passed_on,
    those_who_wait_for_what_is_not_for_others_ask_themselves,
    who_leaves_ends_nobodys_fetch,
    who_does_not_read_holds_nobody_up,
    who_waits_for_its_turn_holds_nobody_up,
    streams_share_what_is_kept,
    a_change_overtakes_what_is_asked_for_of_every_variant,
]);

/// Answers what it is told to, and remembers what it was asked.
struct Scripted {
    address: SocketAddr,
    shared: Arc<(Mutex<Script>, Condvar)>,
}

#[derive(Default)]
struct Script {
    /// By target.
    answers: HashMap<String, Vec<u8>>,
    /// To requests with `If-None-Match`.
    validations: HashMap<String, Vec<u8>>,
    asked: Vec<String>,
    is_held: bool,
    /// Nothing is answered to requests for this.
    held: Option<String>,
    /// Nor to requests with the field `X-Slow`, whose answers are made when they come.
    holds_slow: bool,
    is_over: bool,
}

impl Scripted {
    fn start() -> Scripted {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared: Arc<(Mutex<Script>, Condvar)> = Arc::default();
        let of_thread = shared.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if of_thread.0.lock().unwrap().is_over {
                    return;
                }
                let shared = of_thread.clone();
                thread::spawn(move || converse(stream, &shared));
            }
        });
        Scripted { address, shared }
    }

    /// From now on a request for `target` is answered with this head, its length added, and this content.
    fn answers(&self, target: &str, head: &str, content: &str) {
        let length = content.len();
        let text = format!("HTTP/1.1 {head}\r\nContent-Length: {length}\r\n\r\n{content}");
        self.answers_raw(target, &text);
    }

    fn answers_raw(&self, target: &str, text: &str) {
        self.shared.0.lock().unwrap().answers.insert(target.to_owned(), text.as_bytes().to_vec());
    }

    /// From now on a request that validates is answered with this head.
    fn validates(&self, target: &str, head: &str) {
        let text = format!("HTTP/1.1 {head}\r\n\r\n");
        self.shared.0.lock().unwrap().validations.insert(target.to_owned(), text.into_bytes());
    }

    /// How often `target` has been asked for.
    fn asked(&self, target: &str) -> usize {
        self.requests(target).len()
    }

    /// The requests for `target`.
    fn requests(&self, target: &str) -> Vec<String> {
        let asked = &self.shared.0.lock().unwrap().asked;
        asked.iter().filter(|head| head.split(' ').nth(1) == Some(target)).cloned().collect()
    }

    /// From now on nothing is answered to requests for `target` alone.
    fn hold_only(&self, target: Option<&str>) {
        self.shared.0.lock().unwrap().held = target.map(str::to_owned);
        self.shared.1.notify_all();
    }

    /// From now on nothing is answered to requests with `X-Slow`, or what was held back is.
    fn hold_slow(&self, is_held: bool) {
        self.shared.0.lock().unwrap().holds_slow = is_held;
        self.shared.1.notify_all();
    }

    /// From now on nothing is answered, or what was held back is.
    fn hold(&self, is_held: bool) {
        self.shared.0.lock().unwrap().is_held = is_held;
        self.shared.1.notify_all();
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.shared.0.lock().unwrap().is_over = true;
        self.shared.1.notify_all();
        let _ = TcpStream::connect(self.address);
    }
}

/// Nothing if the connection ends.
fn converse(stream: TcpStream, (script, changed): &(Mutex<Script>, Condvar)) -> Option<()> {
    stream.set_read_timeout(Some(APPLICATION_PATIENCE)).unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head).ok()? == 0 {
                return None;
            }
        }
        let target = head.split(' ').nth(1)?.to_owned();
        let validates = head.contains("\r\nIf-None-Match: ");
        let mut script = script.lock().unwrap();
        script.asked.push(head);
        changed.notify_all();
        let is_slow = script.asked.last()?.contains("\r\nX-Slow: ");
        let of_now = script.answers.get(&target).filter(|_| is_slow).cloned();
        while (script.is_held || script.held.as_ref() == Some(&target) || is_slow && script.holds_slow)
            && !script.is_over
        {
            script = changed.wait(script).unwrap();
        }
        if script.is_over {
            return None;
        }
        if let Some(answer) = of_now {
            drop(script);
            stream.write_all(&answer).ok()?;
            continue;
        }
        let validation = script.validations.get(&target).filter(|_| validates);
        let answer = validation.or(script.answers.get(&target)).cloned();
        drop(script);
        let answer = answer?;
        stream.write_all(&answer).ok()?;
        // What is not whole ends with the connection.
        if String::from_utf8_lossy(&answer).contains("X-Breaks-Off") {
            return None;
        }
    }
}

/// A server whose answers are kept, but for those beneath `/not/`.
fn start(engine: Engine, application: &Scripted) -> Server {
    let to = application.address;
    let lines = format!(
        "[[site]]\nroot = \"site\"\nroute = [\
         {{ match = \"/*\", proxy = \"http://{to}\", cache = {{ bytes_max = \"16MiB\" }} }}, \
         {{ match = \"/not/*\", proxy = \"http://{to}\" }}, \
         {{ match = \"/default/*\", proxy = \"http://{to}\", cache = {{ fresh_s = 1000, bytes_max = 100, \
            ignore_query = [\"utm_*\"], ignore_cookies = [\"_*\"], ignore_reload = true, stale_if_error_s = 1000 }} }}]\n"
    );
    Launch::new(engine).config(&format!("cache_bytes = \"4GiB\"\nh2c = true\n{lines}")).start()
}

#[track_caller]
fn get(client: &mut Client<TcpStream>, target: &str, fields: &str) -> Response {
    client.send(format!("GET {target} HTTP/1.1\r\nHost: test\r\n{fields}\r\n").as_bytes());
    let response = client.receive(true).expect("a request is answered");
    response.check().unwrap();
    response
}

#[track_caller]
fn assert_got(response: &Response, content: &str, cache_status: &str) {
    assert_eq!(String::from_utf8_lossy(&response.content), content);
    assert_eq!(response.field("Cache-Status"), Some(cache_status), "{response:?}");
}

const HIT: &str = "Lamna; hit";
const MISS: &str = "Lamna; fwd=uri-miss; stored";

fn fresh_answers_are_not_asked_for_again(engine: Engine) {
    let application = Scripted::start();
    let server = start(engine, &application);
    let mut client = server.connect();
    let date = "Sun, 06 Nov 1994 08:49:37 GMT";
    application.answers(
        "/a",
        "200 OK\r\nCache-Control: max-age=2000000000\r\nETag: \"e\"\r\nX-Own: 1\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT",
        "0123456789",
    );
    assert_got(&get(&mut client, "/a", ""), "0123456789", MISS);
    for _ in 0..3 {
        let hit = get(&mut client, "/a", "");
        assert_got(&hit, "0123456789", HIT);
        assert_eq!((hit.field("X-Own"), hit.field("Date"), hit.field("ETag")), (Some("1"), Some(date), Some("\"e\"")));
        assert!(hit.field("Age").unwrap().parse::<u64>().unwrap() > 900_000_000, "{hit:?}");
        assert_eq!(hit.field("X-Content-Type-Options"), None, "nothing is added");
    }
    client.send(b"HEAD /a HTTP/1.1\r\nHost: test\r\n\r\n");
    let head = client.receive(false).unwrap();
    assert_eq!((head.status, head.field("Content-Length"), head.field("Cache-Status")), (200, Some("10"), Some(HIT)));
    let known = get(&mut client, "/a", "If-None-Match: \"e\"\r\n");
    assert_eq!((known.status, known.field("ETag"), known.field("Cache-Status")), (304, Some("\"e\""), Some(HIT)));
    assert!(known.field("Age").is_some());
    let part = get(&mut client, "/a", "Range: bytes=2-4\r\n");
    assert_eq!((part.status, &*part.content, part.field("Content-Range")), (206, &b"234"[..], Some("bytes 2-4/10")));
    assert_eq!(application.asked("/a"), 1);
    // Another query, another host and another spelling of the path.
    application.answers("/a?b", "200 OK\r\nCache-Control: max-age=60", "b");
    assert_got(&get(&mut client, "/a?b", ""), "b", MISS);
    client.send(b"GET /a HTTP/1.1\r\nHost: other\r\n\r\n");
    assert_got(&client.receive(true).unwrap(), "0123456789", MISS);
    assert_got(&get(&mut client, "/x/../%61", ""), "0123456789", HIT);
    // What changes it ends what is kept.
    application.answers("/a", "200 OK\r\nCache-Control: max-age=60", "new");
    client.send(b"POST /a HTTP/1.1\r\nHost: test\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(client.receive(true).unwrap().content, b"new");
    assert_got(&get(&mut client, "/a", ""), "new", MISS);
    assert_got(&get(&mut client, "/a", ""), "new", HIT);
    // So does what the answer says it has changed, if it is of the same origin.
    let fresh = "200 OK\r\nCache-Control: max-age=60";
    for (named, is_changed) in [
        ("Location: /x/list?b", true),
        ("Content-Location: list?b", true),
        ("Location: http://TEST/x/list?b#end", true),
        ("Location: http://other/x/list?b", false),
        ("Location: /x/list", false),
    ] {
        application.answers("/x/list?b", fresh, "before");
        get(&mut client, "/x/list?b", "Cache-Control: no-cache\r\n");
        application.answers("/x/list?b", fresh, "after");
        application.answers("/x/form", &format!("303 See Other\r\n{named}"), "");
        assert_eq!(get(&mut client, "/x/list?b", "").content, b"before");
        client.send(b"POST /x/form HTTP/1.1\r\nHost: test\r\nContent-Length: 0\r\n\r\n");
        assert_eq!(client.receive(true).unwrap().status, 303);
        let expected: &[u8] = if is_changed { b"after" } else { b"before" };
        assert_eq!(get(&mut client, "/x/list?b", "").content, expected, "{named}");
    }
    // A change counts for every spelling of the path, whether it is asked for or named.
    for (kept, changed) in [("/~ada", "/%7Eada"), ("/%7Ebob", "/~bob"), ("/b|c", "/b%7Cc"), ("/b//d", "/b/d")] {
        for named in ["", kept] {
            application.answers(kept, fresh, "before");
            get(&mut client, kept, "Cache-Control: no-cache\r\n");
            application.answers(kept, fresh, "after");
            let (target, field) = match named {
                "" => (changed, String::new()),
                named => ("/x/form", format!("\r\nContent-Location: {named}")),
            };
            application.answers(target, &format!("200 OK{field}"), "");
            assert_eq!(get(&mut client, kept, "").content, b"before", "{kept}");
            client.send(format!("POST {target} HTTP/1.1\r\nHost: test\r\nContent-Length: 0\r\n\r\n").as_bytes());
            assert_eq!(client.receive(true).unwrap().status, 200);
            assert_eq!(get(&mut client, kept, "").content, b"after", "{kept} by {target}{field}");
        }
    }
    // What nothing is kept of, and nobody wants to ask for.
    application.answers("/never", "200 OK", "");
    assert_eq!(get(&mut client, "/never", "Cache-Control: only-if-cached\r\n").status, 504);
    assert_eq!(application.asked("/never"), 0);
    server.finish();
}

fn what_is_not_for_others_is_asked_for_each_time(engine: Engine) {
    let application = Scripted::start();
    let server = start(engine, &application);
    let mut client = server.connect();
    for (number, (request, head)) in [
        ("", "Cache-Control: no-store"),
        ("", "Cache-Control: private, max-age=60"),
        ("", "Cache-Control: max-age=60\r\nSet-Cookie: a=b"),
        ("", "Cache-Control: max-age=60\r\nVary: *"),
        ("", "X-No: freshness"),
        ("Authorization: Basic x\r\n", "Cache-Control: max-age=60"),
        ("Cookie: a=b\r\n", "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT"),
        ("Cache-Control: no-store\r\n", "Cache-Control: max-age=60"),
    ]
    .into_iter()
    .enumerate()
    {
        let target = format!("/{number}");
        application.answers(&target, &format!("200 OK\r\n{head}"), "x");
        for _ in 0..3 {
            let response = get(&mut client, &target, request);
            assert_eq!(response.content, b"x");
            let status = response.field("Cache-Status").unwrap();
            assert!(status.starts_with("Lamna; fwd=") && !status.contains("stored"), "{head}: {status}");
        }
        assert_eq!(application.asked(&target), 3, "{request} {head}");
    }
    // Routes that do not say so keep nothing, and say nothing of caches.
    application.answers("/not/a", "200 OK\r\nCache-Control: max-age=60", "x");
    for _ in 0..2 {
        assert_eq!(get(&mut client, "/not/a", "").field("Cache-Status"), None);
    }
    assert_eq!(application.asked("/not/a"), 2);
    // What breaks off, and what is too long.
    application.answers_raw(
        "/broken",
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 9\r\nX-Breaks-Off: 1\r\n\r\nhalf",
    );
    for _ in 0..2 {
        assert!(server.connect().get("/broken").is_err());
    }
    assert_eq!(application.asked("/broken"), 2);
    application.answers("/default/long", "200 OK", &"x".repeat(101));
    application.answers("/default/short", "200 OK", &"x".repeat(100));
    for _ in 0..2 {
        assert_eq!(get(&mut client, "/default/long", "").content.len(), 101);
        assert_eq!(get(&mut client, "/default/short", "").content.len(), 100);
    }
    assert_eq!((application.asked("/default/long"), application.asked("/default/short")), (2, 1));
    // What does not tell requests apart, and does not reach the application.
    application.answers("/default/short", "200 OK", "z");
    for (target, fields) in [
        ("/default/short?utm_x=1", ""),
        ("/default/short?utm_x=2", "Cookie: _ga=1\r\n"),
        ("/default/short?utm_y=3", "Cache-Control: no-cache\r\n"),
    ] {
        assert_eq!(get(&mut client, target, fields).content.len(), 100);
        assert_eq!(application.asked(target), 0);
    }
    assert_eq!(application.asked("/default/short"), 1);
    server.finish();
}

fn answers_differ_by_what_vary_names(engine: Engine) {
    let application = Scripted::start();
    let server = start(engine, &application);
    let mut client = server.connect();
    let answers = |content| {
        application.answers("/a", "200 OK\r\nCache-Control: max-age=60\r\nVary: X-A, Accept-Encoding", content)
    };
    answers("one");
    assert_got(&get(&mut client, "/a", "X-A: 1\r\n"), "one", MISS);
    answers("two");
    let vary_miss = "Lamna; fwd=vary-miss; stored";
    assert_got(&get(&mut client, "/a", "X-A: 2\r\n"), "two", vary_miss);
    answers("packed");
    assert_got(&get(&mut client, "/a", "X-A: 1\r\nAccept-Encoding: gzip, br\r\n"), "packed", vary_miss);
    answers("none of these");
    assert_got(&get(&mut client, "/a", "X-A: 1\r\n"), "one", HIT);
    assert_got(&get(&mut client, "/a", "X-A: 2\r\n"), "two", HIT);
    assert_got(&get(&mut client, "/a", "x-a: 1\r\nAccept-Encoding: GZIP,br\r\n"), "packed", HIT);
    assert_eq!(application.asked("/a"), 3);
    // All of them end with a change.
    client.send(b"DELETE /a HTTP/1.1\r\nHost: test\r\n\r\n");
    assert_eq!(client.receive(true).unwrap().status, 200);
    for field in ["X-A: 1\r\n", "X-A: 2\r\n"] {
        assert_eq!(get(&mut client, "/a", field).content, b"none of these");
    }
    server.finish();
}

fn a_change_overtakes_what_is_asked_for_of_every_variant(engine: Engine) {
    let application = Scripted::start();
    let server = start(engine, &application);
    let (mut slow, mut client) = (server.connect(), server.connect());
    let answers =
        |content| application.answers("/a", "200 OK\r\nCache-Control: max-age=600\r\nVary: Accept-Encoding", content);
    answers("before");
    assert_got(&get(&mut client, "/a", "Accept-Encoding: gzip\r\n"), "before", MISS);
    application.hold_slow(true);
    slow.send(b"GET /a HTTP/1.1\r\nHost: test\r\nAccept-Encoding: br\r\nX-Slow: 1\r\n\r\n");
    eventually("it is asked for", PATIENCE, || (application.asked("/a") == 2).then_some(()));
    answers("after");
    client.send(b"POST /a HTTP/1.1\r\nHost: test\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(client.receive(true).unwrap().status, 200);
    application.hold_slow(false);
    assert_eq!(slow.receive(true).unwrap().content, b"before", "it was asked for before");
    assert_eq!(get(&mut client, "/a", "Accept-Encoding: br\r\n").content, b"after");
    server.finish();
}

fn stale_answers_are_validated(engine: Engine) {
    let application = Scripted::start();
    let server = start(engine, &application);
    let mut client = server.connect();
    application.answers("/a", "200 OK\r\nCache-Control: max-age=10\r\nAge: 20\r\nETag: \"e\"\r\nX-A: old", "content");
    application.validates("/a", "304 Not Modified\r\nETag: \"e\"\r\nCache-Control: max-age=60\r\nX-A: new");
    assert_got(&get(&mut client, "/a", ""), "content", MISS);
    let validated = get(&mut client, "/a", "If-None-Match: \"mine\"\r\n");
    assert_got(&validated, "content", "Lamna; fwd=stale; fwd-status=304");
    assert_eq!((validated.status, validated.field("X-A")), (200, Some("new")));
    let asked = application.requests("/a");
    assert!(asked[1].contains("\r\nIf-None-Match: \"e\"\r\n") && !asked[1].contains("mine"), "{}", asked[1]);
    let hit = get(&mut client, "/a", "");
    assert_got(&hit, "content", HIT);
    assert_eq!((hit.field("X-A"), hit.field("Age").map(|age| age.len() < 3)), (Some("new"), Some(true)));
    assert_eq!(application.asked("/a"), 2);
    // A client that reloads has it validated, and one that has it learns that from what is kept.
    let reloaded = get(&mut client, "/a", "Cache-Control: no-cache\r\nIf-None-Match: \"e\"\r\n");
    assert_eq!((reloaded.status, application.asked("/a")), (304, 3));
    // It is something else by now.
    application.answers("/b", "200 OK\r\nCache-Control: max-age=10\r\nAge: 20\r\nETag: \"e\"", "first");
    assert_eq!(get(&mut client, "/b", "").content, b"first");
    application.answers("/b", "200 OK\r\nCache-Control: max-age=60\r\nETag: \"f\"", "second");
    assert_got(&get(&mut client, "/b", ""), "second", "Lamna; fwd=stale; stored");
    assert_got(&get(&mut client, "/b", ""), "second", HIT);
    // A 304 about what is not kept is not believed.
    application.answers("/c", "200 OK\r\nCache-Control: max-age=10\r\nAge: 20\r\nETag: \"e\"", "first");
    application.validates("/c", "304 Not Modified\r\nETag: \"g\"");
    assert_eq!(get(&mut client, "/c", "").content, b"first");
    assert_got(&get(&mut client, "/c", ""), "first", MISS);
    // What one client's credentials bring about is not for others, and takes nothing from them.
    application.answers("/d", "200 OK\r\nCache-Control: max-age=10\r\nAge: 20\r\nETag: \"e\"", "first");
    application.validates("/d", "304 Not Modified\r\nETag: \"e\"\r\nCache-Control: max-age=60");
    assert_eq!(get(&mut client, "/d", "").content, b"first");
    assert_eq!(get(&mut client, "/d", "Authorization: Basic eDp5\r\n").content, b"first");
    assert_got(&get(&mut client, "/d", ""), "first", "Lamna; fwd=stale; fwd-status=304");
    server.finish();
}

fn stale_answers_are_used_while_they_are_refreshed(engine: Engine) {
    let application = Scripted::start();
    let server = start(engine, &application);
    let mut client = server.connect();
    let head = "200 OK\r\nCache-Control: max-age=10, stale-while-revalidate=1000\r\nAge: 20";
    application.answers("/a", head, "old");
    assert_got(&get(&mut client, "/a", ""), "old", MISS);
    application.hold(true);
    application.answers("/a", "200 OK\r\nCache-Control: max-age=60", "new");
    for _ in 0..5 {
        assert_got(&get(&mut client, "/a", ""), "old", HIT);
    }
    eventually("it is refreshed", PATIENCE, || (application.asked("/a") == 2).then_some(()));
    assert_got(&get(&mut client, "/a", ""), "old", HIT);
    application.hold(false);
    eventually("it has been refreshed", PATIENCE, || (get(&mut client, "/a", "").content == b"new").then_some(()));
    assert_eq!(application.asked("/a"), 2);
    server.finish();
}

fn stale_answers_are_used_when_the_application_fails(engine: Engine) {
    let application = Scripted::start();
    let server = start(engine, &application);
    let mut client = server.connect();
    let stale = "Lamna; fwd=stale; detail=stale-if-error";
    application.answers("/a", "200 OK\r\nCache-Control: max-age=10, stale-if-error=1000\r\nAge: 20", "good");
    application.answers("/b", "200 OK\r\nCache-Control: max-age=10, must-revalidate\r\nAge: 20\r\nETag: \"e\"", "good");
    application.answers("/default/c", "200 OK\r\nCache-Control: max-age=10\r\nAge: 20", "good");
    for target in ["/a", "/b", "/default/c"] {
        assert_got(&get(&mut client, target, ""), "good", MISS);
        application.answers(target, "503 Service Unavailable", "bad");
    }
    for target in ["/a", "/default/c"] {
        let response = get(&mut client, target, "");
        assert_got(&response, "good", stale);
        assert!(response.field("Age").unwrap().parse::<u64>().unwrap() >= 20);
    }
    assert_eq!(get(&mut client, "/b", "").status, 503, "it has forbidden that");
    // It answers nothing at all, or nonsense.
    application.answers_raw("/a", "nonsense\r\n\r\nX-Breaks-Off");
    assert_got(&get(&mut client, "/a", ""), "good", stale);
    // And then is well again.
    application.answers("/a", "200 OK\r\nCache-Control: max-age=60", "well");
    assert_eq!(get(&mut client, "/a", "").content, b"well");
    assert_got(&get(&mut client, "/a", ""), "well", HIT);
    server.finish();
}

/// Clients that have asked for `target`; the application holds what it answers.
fn ask_many(server: &Server, target: &str, count: usize) -> Vec<Client<TcpStream>> {
    let ask = |_| {
        let mut client = server.connect();
        client.send(format!("GET {target} HTTP/1.1\r\nHost: test\r\n\r\n").as_bytes());
        client
    };
    (0..count).map(ask).collect()
}

fn open_connections(server: &Server) -> u64 {
    let page = String::from_utf8(control::get(server, "/metrics").content).unwrap();
    let lines = page.lines().filter(|line| line.starts_with("lamna_connections_open{"));
    lines.map(|line| line.split(' ').nth(1).unwrap().parse::<u64>().unwrap()).sum()
}

fn of_many_who_ask_at_once_one_is_passed_on(engine: Engine) {
    let application = Scripted::start();
    let server = start(engine, &application);
    application.answers("/a", "200 OK\r\nCache-Control: max-age=60", "for all");
    application.hold(true);
    let mut clients = ask_many(&server, "/a", 8);
    eventually("it is asked", PATIENCE, || (application.asked("/a") > 0).then_some(()));
    // Whoever asks now waits as well, or finds what is kept.
    clients.extend(ask_many(&server, "/a", 8));
    application.hold(false);
    for client in &mut clients {
        assert_eq!(client.receive(true).unwrap().content, b"for all");
    }
    assert_eq!(application.asked("/a"), 1);
    server.finish();
}

fn those_who_wait_for_what_is_not_for_others_ask_themselves(engine: Engine) {
    let application = Scripted::start();
    let server = start(engine, &application);
    application.answers("/a", "200 OK\r\nCache-Control: private", "for one");
    application.hold(true);
    let mut clients = ask_many(&server, "/a", 8);
    eventually("it is asked", PATIENCE, || (application.asked("/a") > 0).then_some(()));
    application.hold(false);
    for client in &mut clients {
        assert_eq!(client.receive(true).unwrap().content, b"for one");
    }
    assert_eq!(application.asked("/a"), 8);
    // Now that is known, nobody waits.
    application.hold(true);
    let mut clients = ask_many(&server, "/a", 4);
    eventually("each is asked", PATIENCE, || (application.asked("/a") == 12).then_some(()));
    application.hold(false);
    clients.iter_mut().for_each(|client| assert_eq!(client.receive(true).unwrap().content, b"for one"));
    server.finish();
}

fn who_leaves_ends_nobodys_fetch(engine: Engine) {
    let application = Scripted::start();
    let server = start(engine, &application);
    application.answers("/a", "200 OK\r\nCache-Control: max-age=60", "for all");
    application.hold(true);
    let first = ask_many(&server, "/a", 1);
    eventually("it is asked", PATIENCE, || (application.asked("/a") == 1).then_some(()));
    let mut others = ask_many(&server, "/a", 3);
    let waiting = || (figure(&server, "lamna_kept_answers_waiting") == 3).then_some(());
    eventually("the others wait", PATIENCE, waiting);
    first.into_iter().for_each(Client::reset);
    eventually("it has left", PATIENCE, || (open_connections(&server) == 3).then_some(()));
    application.hold(false);
    for client in &mut others {
        assert_eq!(client.receive(true).unwrap().content, b"for all");
    }
    assert_eq!(application.asked("/a"), 1);
    server.finish();
}

fn who_does_not_read_holds_nobody_up(engine: Engine) {
    let application = Scripted::start();
    let server = start(engine, &application);
    // More than sockets hold.
    let content = "0123456789abcdef".repeat(800_000);
    application.answers("/a", "200 OK\r\nCache-Control: max-age=60", &content);
    application.hold(true);
    let mut first = ask_many(&server, "/a", 1);
    eventually("it is asked", PATIENCE, || (application.asked("/a") == 1).then_some(()));
    let mut other = ask_many(&server, "/a", 1);
    eventually("the other waits", PATIENCE, || (figure(&server, "lamna_kept_answers_waiting") == 1).then_some(()));
    application.hold(false);
    assert!(other[0].receive(true).unwrap().content == content.as_bytes());
    assert!(first[0].receive(true).unwrap().content == content.as_bytes(), "nothing is lost of what it has not taken");
    assert_eq!(application.asked("/a"), 1);
    server.finish();
}

fn who_waits_for_its_turn_holds_nobody_up(engine: Engine) {
    let application = Scripted::start();
    let server = start(engine, &application);
    application.answers("/slow", "200 OK\r\nCache-Control: max-age=60", "slow");
    application.answers("/a", "200 OK\r\nCache-Control: max-age=60", "for all");
    application.hold_only(Some("/slow"));
    let mut first = server.connect();
    first.send(b"GET /slow HTTP/1.1\r\nHost: test\r\n\r\nGET /a HTTP/1.1\r\nHost: test\r\n\r\n");
    eventually("it is asked", PATIENCE, || (application.asked("/slow") == 1).then_some(()));
    assert_got(&get(&mut server.connect(), "/a", ""), "for all", MISS);
    application.hold_only(None);
    assert_eq!(first.receive(true).unwrap().content, b"slow");
    assert_got(&first.receive(true).unwrap(), "for all", HIT);
    assert_eq!(application.asked("/a"), 1);
    server.finish();
}

fn streams_share_what_is_kept(engine: Engine) {
    let application = Scripted::start();
    let server = start(engine, &application);
    application.answers("/a", "200 OK\r\nCache-Control: max-age=60\r\nAge: 7\r\nETag: \"e\"", "for all");
    let mut client = Http2::connect(server.address());
    for answer in client.get_all(&["/a"; 5]) {
        assert_eq!(answer.unwrap().content, b"for all");
    }
    let hit = client.get("/a");
    let field = |name: &str| hit.fields.iter().find(|(other, _)| other == name).map(|(_, value)| &**value);
    assert_eq!((hit.status, &*hit.content, field("cache-status")), (200, &b"for all"[..], Some(HIT)));
    assert!(field("age").unwrap().parse::<u64>().unwrap() >= 7 && field("date").is_some(), "{hit:?}");
    let known = client.ask(vec![request("GET", "/a", &[("if-none-match", "\"e\"")])]).remove(0).unwrap();
    assert!(known.status == 304 && known.fields.iter().any(|(name, _)| name == "age"), "{known:?}");
    assert_eq!(application.asked("/a"), 1);
    server.finish();
}

#[test]
fn what_is_purged_is_asked_for_again() {
    let application = Scripted::start();
    let server = start(AMPED, &application);
    let mut client = server.connect();
    let targets = ["/a", "/a?x", "/a/b", "/c"];
    let fill = |client: &mut Client<TcpStream>| {
        for target in targets {
            application.answers(target, "200 OK\r\nCache-Control: max-age=60\r\nVary: X-A", target);
            assert_eq!(get(client, target, "").content, target.as_bytes());
            assert_got(&get(client, target, ""), target, HIT);
        }
    };
    let gone = |client: &mut Client<TcpStream>| {
        let is_gone = |target: &&str| get(client, target, "").field("Cache-Status") != Some(HIT);
        targets.into_iter().filter(is_gone).collect::<Vec<_>>()
    };
    for (arguments, expected) in [
        (&["http://test/a"][..], &["/a"][..]),
        (&["/a?x"], &["/a?x"]),
        (&["http://elsewhere/a"], &[]),
        (&["--prefix", "/a"], &["/a", "/a?x", "/a/b"]),
        (&["--prefix", "http://test/a/"], &["/a/b"]),
        (&["--all"], &targets),
    ] {
        fill(&mut client);
        let told = order(&server, &[&["cache", "purge"], arguments].concat()).unwrap();
        assert!(told.contains(if expected.is_empty() { "nothing" } else { "purged" }), "{arguments:?}: {told}");
        assert_eq!(gone(&mut client), expected, "{arguments:?}");
    }
    assert!(order(&server, &["cache", "purge"]).is_err());
    server.finish();
}

#[test]
fn what_is_kept_stays_when_engines_change() {
    let application = Scripted::start();
    let server = start(AMPED, &application);
    let mut client = server.connect();
    application.answers("/a", "200 OK\r\nCache-Control: max-age=60", "kept");
    assert_eq!(get(&mut client, "/a", "").content, b"kept");
    for architecture in ["proactor", "thread-pool", "sped"] {
        order(&server, &["arch", "set", architecture]).unwrap();
        assert_got(&get(&mut client, "/a", ""), "kept", HIT);
        assert_got(&get(&mut server.connect(), "/a", ""), "kept", HIT);
    }
    assert_eq!(application.asked("/a"), 1);
    server.finish();
}
