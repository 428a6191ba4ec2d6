//! Places of applications that an operator drains: they get no request, and what they have is finished.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

use super::Application;
use super::sticky::Place;
use crate::client::PATIENCE;
use crate::control::{get, order, text};
use crate::engine::{Engine, for_engines};
use crate::http2::{Http2, request};
use crate::server::{Launch, Server, eventually};

for_engines!([
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
    a_drained_address_gets_no_request_until_it_is_undrained,
    what_is_under_way_at_a_drained_address_is_finished_and_its_connections_are_closed,
    a_tunnel_to_a_drained_address_goes_on_and_new_ones_lead_elsewhere,
]);

fn say(server: &Server, arguments: &[&str]) -> String {
    let words = [&["upstream"], arguments].concat();
    order(server, &words).unwrap_or_else(|said| panic!("{arguments:?}: {said}"))
}

/// Requests by the port that has answered: of clients with a cookie and without one, over HTTP/1.1 and HTTP/2.
fn asked(server: &Server) -> BTreeMap<String, u32> {
    let mut counts = BTreeMap::new();
    let mut client = server.connect();
    let mut over_http2 = Http2::connect(server.address());
    for number in 0..24 {
        let cookie = format!("id=user-{number}");
        for (path, cookie) in [("/sticky/", cookie.as_str()), ("/any/", "a=b")] {
            client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\nCookie: {cookie}\r\n\r\n").as_bytes());
            let answer = client.receive(true).unwrap_or_else(|fault| panic!("{path}: {fault}"));
            assert_eq!(answer.status, 200, "{path}");
            *counts.entry(String::from_utf8(answer.content).unwrap()).or_default() += 1;
        }
        let answer = over_http2.try_ask(request("GET", "/sticky/", &[("cookie", &cookie)])).unwrap();
        assert_eq!(answer.status, 200);
        *counts.entry(String::from_utf8(answer.content).unwrap()).or_default() += 1;
    }
    counts
}

fn a_drained_address_gets_no_request_until_it_is_undrained(engine: Engine) {
    let places = [Place::start(), Place::start()];
    let [first, second] = [&places[0], &places[1]].map(|place| place.address);
    let to = format!("to = [\"http://{first}\", \"http://{second}\"]");
    let config = format!(
        "[[site]]\nhosts = [\"a\"]\n[[site.route]]\nmatch = \"/sticky/*\"\nproxy = {{ {to}, sticky = {{ cookie = \"id\" }} }}\n\
         [[site.route]]\nmatch = \"/any/*\"\nproxy = {{ {to} }}\n"
    );
    let server = Launch::new(engine).argument("--h2c").config(&config).start();
    let all = [first, second].map(|address| address.port().to_string());
    let only_second = |when: &str| {
        let counts = asked(&server);
        assert!(counts.keys().eq([&all[1]]), "{when}: {counts:?}");
        let list = say(&server, &["list"]);
        let line = list.lines().find(|line| line.contains(&first.to_string())).unwrap();
        assert!(line.contains("drained"), "{when}: {list}");
    };
    assert_eq!(asked(&server).len(), 2, "both are asked");
    say(&server, &["drain", &format!("http://{first}")]);
    only_second("drained");
    let metrics = text(&get(&server, "/metrics"));
    assert!(metrics.contains(&format!("lamna_upstream_drained{{site=\"a\",upstream=\"{first}\"}} 1")), "{metrics}");
    let refused = order(&server, &["upstream", "drain", &second.to_string()]).expect_err("it is the last one");
    assert!(refused.contains("would have no place left"), "{refused}");
    let refused = order(&server, &["upstream", "drain", "127.0.0.1:1"]).expect_err("there is none");
    assert!(refused.contains(&first.to_string()), "{refused}");
    order(&server, &["reload"]).unwrap();
    only_second("after a reload");
    if !matches!(engine.architecture, "mp" | "co-amped") {
        let other = if engine.architecture == "amped" { "thread-pool" } else { "amped" };
        order(&server, &["arch", "set", other]).unwrap();
        only_second("by another engine");
    }
    say(&server, &["undrain", &first.to_string()]);
    assert_eq!(asked(&server).len(), 2, "both are asked again");
    server.finish();
}

fn what_is_under_way_at_a_drained_address_is_finished_and_its_connections_are_closed(engine: Engine) {
    let (first, second) = (Application::start(), Application::start());
    let config = format!(
        "[[site]]\n[[site.route]]\nmatch = \"/app/*\"\nproxy = {{ to = [\"http://{}\", \"http://{}\"] }}\n",
        first.address, second.address
    );
    let server = Launch::new(engine).config(&config).start();
    let [a, b] = [&first, &second].map(|application| application.address.to_string());
    say(&server, &["drain", &b]);
    first.well.store(false, Relaxed);
    let mut under_way = server.connect();
    under_way.send(b"GET /app/gated-within/40000 HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(under_way.receive_head().unwrap().status, 200);
    // One that is kept, and idle.
    assert_eq!(server.connect().get("/app/sized/3").unwrap().status, 200);
    say(&server, &["undrain", &b]);
    say(&server, &["drain", &a]);
    eventually("the idle connection is closed", PATIENCE, || (first.open.load(Relaxed) == 1).then_some(()));
    first.well.store(true, Relaxed);
    assert_eq!(under_way.receive_exactly(40_000).unwrap().len(), 40_000);
    eventually("the last connection is closed", PATIENCE, || (first.open.load(Relaxed) == 0).then_some(()));
    for _ in 0..10 {
        assert_eq!(server.connect().get("/app/sized/3").unwrap().status, 200);
    }
    assert_eq!(first.open.load(Relaxed), 0);
    server.finish();
}

fn a_tunnel_to_a_drained_address_goes_on_and_new_ones_lead_elsewhere(engine: Engine) {
    let (first, second) = (Application::start(), Application::start());
    let [a, b] = [&first, &second].map(|application| application.address.to_string());
    let config = format!(
        "[[site]]\n[[site.route]]\nmatch = \"/app/*\"\nproxy = {{ to = [\"http://{a}\", \"http://{b}\"], sticky = \"client\" }}\n"
    );
    let server = Launch::new(engine).config(&config).start();
    let open = || {
        let mut client = server.connect();
        client.send(
            b"GET /app/web-socket HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\r\n",
        );
        assert_eq!(client.receive_head().unwrap().status, 101);
        client
    };
    let mut before = open();
    // One client, so one place has it.
    let (its, other) = if first.open.load(Relaxed) == 1 { (&first, &second) } else { (&second, &first) };
    assert_eq!((its.open.load(Relaxed), other.open.load(Relaxed)), (1, 0));
    let drained = its.address.to_string();
    say(&server, &["drain", &drained]);
    let mut after = open();
    assert_eq!((its.open.load(Relaxed), other.open.load(Relaxed)), (1, 1), "the new one is elsewhere");
    order(&server, &["upgrade"]).unwrap();
    let mut later = open();
    assert_eq!((its.open.load(Relaxed), other.open.load(Relaxed)), (1, 2), "after an upgrade, too");
    for client in [&mut before, &mut after, &mut later] {
        client.send(b"said through the tunnel");
        assert_eq!(client.receive_exactly(23).unwrap(), b"said through the tunnel");
    }
    before.end_sending();
    before.expect_end().unwrap();
    eventually("nothing is left at it", PATIENCE, || (its.open.load(Relaxed) == 0).then_some(()));
    drop((after, later));
    order(&server, &["drain"]).expect("it serves");
    server.finish();
}
