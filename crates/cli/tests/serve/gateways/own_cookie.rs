//! A cookie of the server that names the place of a client: what it says, what becomes of one that is not the server's,
//! and of one whose place is gone.

use super::sticky::Place;
use crate::client::Response;
use crate::control::order;
use crate::engine::{Engine, for_engines};
use crate::http2::{Http2, request};
use crate::server::{Launch, Server};

for_engines!([
    mp = MP,
    thread_pool = THREAD_POOL,
    thread_per_request = THREAD_PER_REQUEST,
    thread_per_session = THREAD_PER_SESSION,
    sped = SPED,
    amped = AMPED,
    co_amped = CO_AMPED,
    pipelined = PIPELINED,
    proactor = PROACTOR,
] => [
    a_client_is_kept_to_its_place_by_a_cookie_of_the_server,
    kept_answers_have_no_cookie,
]);

fn ask(server: &Server, path: &str, cookie: Option<&str>) -> Response {
    let mut client = server.connect();
    let cookie = cookie.map(|cookie| format!("Cookie: a=b; place={cookie}\r\n")).unwrap_or_default();
    client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n{cookie}\r\n").as_bytes());
    let response = client.receive(true).unwrap_or_else(|fault| panic!("{path} {cookie}: {fault}"));
    assert_eq!(response.status, 200, "{path} {cookie}");
    response
}

/// The place that has answered.
fn place_of(response: &Response) -> String {
    String::from_utf8(response.content.clone()).unwrap()
}

/// The value of the cookie that is given.
fn given(response: &Response) -> Option<String> {
    let (value, attributes) = response.field("Set-Cookie")?.strip_prefix("place=")?.split_once("; ")?;
    assert_eq!(attributes, "Path=/app/; HttpOnly; SameSite=Lax");
    Some(value.to_owned())
}

fn a_client_is_kept_to_its_place_by_a_cookie_of_the_server(engine: Engine) {
    let places = [Place::start(), Place::start(), Place::start()];
    let to: Vec<String> = places.iter().map(|place| format!("\"http://{}\"", place.address)).collect();
    let config = format!(
        "[[site]]\nhosts = [\"a\"]\n[[site.route]]\nmatch = \"/app/*\"\nproxy = {{ to = [{}], sticky = {{ set_cookie = \"place\" }} }}\n",
        to.join(", ")
    );
    let server = Launch::new(engine).argument("--h2c").config(&config).start();
    let clients: Vec<(String, String)> = (0..12)
        .map(|_| {
            let first = ask(&server, "/app/x", None);
            (place_of(&first), given(&first).expect("it has none yet"))
        })
        .collect();
    for (place, cookie) in &clients {
        assert!(cookie.len() == 22 && !cookie.contains(place.as_str()), "it says nothing: {cookie}");
        let same = clients.iter().filter(|(other, _)| other == place).all(|(_, other)| other == cookie);
        assert!(same && clients.iter().all(|(other, value)| other == place || value != cookie), "{clients:?}");
    }
    let check = |when: &str| {
        for (place, cookie) in &clients {
            let again = ask(&server, "/app/y", Some(cookie));
            assert_eq!((place_of(&again), given(&again)), (place.clone(), None), "{when}");
        }
        let (place, cookie) = &clients[0];
        let fields = [("cookie", "a=b"), ("cookie", &*format!("place={cookie}"))];
        let answer = Http2::connect(server.address()).try_ask(request("GET", "/app/", &fields)).unwrap();
        assert_eq!(String::from_utf8(answer.content).unwrap(), *place, "{when}");
        assert!(answer.fields.iter().all(|(name, _)| name != "set-cookie"), "{when}: {:?}", answer.fields);
    };
    check("from the start");
    let mut forged = clients[0].1.clone().into_bytes();
    forged[3] = if forged[3] == b'A' { b'B' } else { b'A' };
    let forged = String::from_utf8(forged).unwrap();
    for cookie in ["", "x", &forged, &clients[0].0, &"A".repeat(3_000)] {
        let answer = ask(&server, "/app/x", Some(cookie));
        let value = given(&answer).unwrap_or_else(|| panic!("{cookie} names no place"));
        assert!(clients.iter().any(|(place, other)| (place, other) == (&place_of(&answer), &value)));
    }
    order(&server, &["reload"]).unwrap();
    check("after a reload");
    if !matches!(engine.architecture, "mp" | "co-amped") {
        let other = if engine.architecture == "amped" { "thread-pool" } else { "amped" };
        order(&server, &["arch", "set", other]).unwrap();
        check("by another engine");
    }
    // Its place is gone: another one, and its cookie.
    let (gone, cookie) = &clients[0];
    order(&server, &["upstream", "drain", &format!("127.0.0.1:{gone}")]).unwrap();
    let moved = ask(&server, "/app/x", Some(cookie));
    let now = given(&moved).expect("it has another place");
    assert!(place_of(&moved) != *gone && now != *cookie);
    assert_eq!(place_of(&ask(&server, "/app/x", Some(&now))), place_of(&moved));
    server.finish();
}

fn kept_answers_have_no_cookie(engine: Engine) {
    let places = [Place::start(), Place::start()];
    let [first, second] = [&places[0], &places[1]].map(|place| place.address);
    let config = format!(
        "[[site]]\n[[site.route]]\nmatch = \"/app/*\"\ncache = {{ fresh_s = 60 }}\n\
         proxy = {{ to = [\"http://{first}\", \"http://{second}\"], sticky = {{ set_cookie = \"place\" }} }}\n"
    );
    let server = Launch::new(engine).config(&config).start();
    let mut client = server.connect();
    let mut get = || client.get("/app/page").unwrap();
    let asked = get();
    assert!(given(&asked).is_some(), "who asks the application gets one");
    for _ in 0..5 {
        let kept = get();
        assert!(kept.field("Cache-Status").is_some_and(|status| status.contains("hit")), "{:?}", kept.fields);
        assert_eq!((kept.field("Set-Cookie"), place_of(&kept)), (None, place_of(&asked)));
    }
    server.finish();
}
