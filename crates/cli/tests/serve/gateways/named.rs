//! Applications with a name: all routes that name one have the same places, connections and clients.

use std::fs;
use std::sync::atomic::Ordering::Relaxed;

use super::Application;
use super::sticky::Place;
use crate::client::{PATIENCE, Response};
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
    co_amped = CO_AMPED,
    pipelined = PIPELINED,
    proactor = PROACTOR,
] => [
    routes_that_name_an_application_have_one_and_reports_name_it,
    an_application_keeps_its_connections_over_a_reload_that_changes_something_else,
]);

fn ask(server: &Server, path: &str, cookie: &str) -> Response {
    let mut client = server.connect();
    client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\nCookie: {cookie}\r\n\r\n").as_bytes());
    client.receive(true).unwrap_or_else(|fault| panic!("{path}: {fault}"))
}

fn content(response: &Response) -> String {
    String::from_utf8(response.content.clone()).unwrap()
}

fn routes_that_name_an_application_have_one_and_reports_name_it(engine: Engine) {
    let places = [Place::start(), Place::start()];
    let [first, second] = [&places[0], &places[1]].map(|place| place.address);
    let config = format!(
        "[[site]]\nhosts = [\"a\"]\nroot = \"site\"\n\
         [[site.application]]\nname = \"shop\"\nproxy = {{ to = [\"http://{first}\", \"http://{second}\"], sticky = {{ set_cookie = \"place\" }} }}\n\
         [[site.route]]\nmatch = \"/*\"\ntry = [\"$path\", \"@shop\"]\n\
         [[site.route]]\nmatch = \"/cart/*\"\napplication = \"shop\"\n\
         [[site.route]]\nmatch = \"/bare/*\"\ntry = \"@shop\"\nstrip_prefix = \"/bare\"\n"
    );
    let launch = Launch::new(engine).argument("--h2c").file("file.txt", "file\n").file("cart/file.txt", "file\n");
    let server = launch.config(&config).start();
    assert_eq!(content(&ask(&server, "/file.txt", "a=b")), "file\n");
    let begun = ask(&server, "/cart/file.txt", "a=b");
    let cookie = begun.field("Set-Cookie").expect("it has none yet");
    assert!(cookie.contains("Path=/;"), "it is for all routes: {cookie}");
    let cookie = cookie.split(';').next().unwrap().to_owned();
    for path in ["/cart/x", "/bare/x", "/nothing", "/file.txt/x"] {
        assert_eq!(content(&ask(&server, path, &cookie)), content(&begun), "{path}: one place");
        let mut over_http2 = Http2::connect(server.address());
        let answer = over_http2.try_ask(request("GET", path, &[("cookie", &cookie)])).unwrap();
        assert_eq!(answer.content, begun.content, "{path}: one place over HTTP/2");
    }
    let list = order(&server, &["upstream", "list"]).unwrap();
    for address in [first, second] {
        let line = list.lines().find(|line| line.contains(&address.to_string())).unwrap();
        assert!(line.contains("shop"), "{list}");
        let metrics = text(&get(&server, "/metrics"));
        let info = format!("lamna_upstream_info{{site=\"a\",upstream=\"{address}\",application=\"shop\"}} 1");
        assert!(metrics.contains(&info), "{metrics}");
    }
    let refused = order(&server, &["upstream", "drain", "shop"]).expect_err("it is no place");
    assert!(refused.contains(&format!("one of its places: {first}, {second}")), "{refused}");
    let own = if content(&begun) == first.port().to_string() { first } else { second };
    order(&server, &["upstream", "drain", &own.to_string()]).unwrap();
    for path in ["/cart/x", "/bare/x", "/nothing"] {
        assert_ne!(content(&ask(&server, path, &cookie)), content(&begun), "{path}: it is drained for all routes");
    }
    let explained = order(&server, &["explain", "http://a/cart/x"]).unwrap();
    assert!(explained.contains("application `shop`"), "{explained}");
    server.finish();
}

fn an_application_keeps_its_connections_over_a_reload_that_changes_something_else(engine: Engine) {
    let application = Application::start();
    let lines = |more: &str| {
        format!(
            "[[site]]\n{more}application = [{{ name = \"app\", proxy = \"http://{}\" }}]\n\
             route = [{{ match = \"/app/*\", application = \"app\" }}]\n",
            application.address
        )
    };
    let server = Launch::new(engine).config(&lines("")).start();
    let asked = || assert_eq!(server.connect().get("/app/sized/3").unwrap().status, 200);
    asked();
    let before = application.accepted.load(Relaxed);
    asked();
    let path = server.directory().join("lamna.toml");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace(&lines(""), &lines("headers = { X-A = \"1\" }\n"))).unwrap();
    order(&server, &["reload"]).unwrap();
    // Where a process takes over, the one before may accept a connection meanwhile.
    let is_reloaded = || server.connect().get("/app/sized/3").ok()?.field("X-A").map(drop);
    eventually("it is reloaded", PATIENCE, is_reloaded);
    if matches!(engine.architecture, "mp" | "co-amped") {
        // Other processes serve, with connections of their own.
        order(&server, &["drain"]).unwrap();
        return;
    }
    assert_eq!(application.accepted.load(Relaxed), before, "the connection is the one of before");
    server.finish();
}
