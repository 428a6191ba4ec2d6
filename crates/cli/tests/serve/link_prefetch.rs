//! Links to the page that is likely to be next (`Link: rel=prefetch`), with every engine: who is sent one, and what is
//! counted of it.
//!
//! Owns: these cases. A client belongs to the control group of a page or does not, for an hour: so there are several
//! pages, of which one at least is no such page to the clients here.

use std::net::TcpStream;

use rustls::pki_types::ServerName;

use crate::client::{Client, PATIENCE, Response};
use crate::control::figure;
use crate::engine::{AMPED, Engine, for_engines};
use crate::http2::Http2;
use crate::server::{Launch, Server, eventually};
use crate::tls::trusting;

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
    who_navigates_is_sent_a_link_to_the_likely_next_page_and_nobody_else,
    over_http_2_what_is_fetched_ahead_and_shown_is_counted,
]);

/// Pages that are followed by the same one.
const PAGES: usize = 6;
/// For each client of the control group there are so many others.
const TOLD_PER_CONTROL: u64 = 15;
const LINK: &str = "</next.html>; rel=prefetch";
/// What browsers send when somebody follows a link.
const NAVIGATION: [(&str, &str); 3] =
    [("accept", "text/html,*/*;q=0.8"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")];
/// And when they fetch ahead.
const AHEAD: [(&str, &str); 4] = [
    ("accept", "text/html,*/*;q=0.8"),
    ("sec-fetch-mode", "no-cors"),
    ("sec-fetch-dest", "empty"),
    ("sec-purpose", "prefetch"),
];

fn launch(engine: Engine, more: &str) -> Launch {
    let lines = format!(
        "[[site]]\nroot = \"site\"\nlink_prefetch = true\nheaders = {{ Cache-Control = \"max-age=60\" }}\n{more}"
    );
    let launch = Launch::new(engine).config(&lines).file("next.html", "<p>next").file("next.css", "p { color: red }");
    (0..PAGES).fold(launch, |launch, page| launch.file(&path(page)[1..], format!("<p>page {page}")))
}

fn path(page: usize) -> String {
    format!("/page{page}.html")
}

fn get(client: &mut Client<TcpStream>, path: &str, fields: &[(&str, &str)]) -> Response {
    let fields: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n").as_bytes());
    client.receive(true).unwrap()
}

/// What a page sends along with requests for what is on it, or behind it.
fn from(page: usize) -> String {
    format!("http://a{}", path(page))
}

fn with<'f>(fields: &[(&'f str, &'f str)], more: (&'f str, &'f str)) -> Vec<(&'f str, &'f str)> {
    [fields, &[more]].concat()
}

/// A page that is sent with a link, after all pages have been followed by the same one often enough.
fn linked(server: &Server) -> usize {
    let mut hosts = (2..5_u8).cycle();
    eventually("a link is sent", PATIENCE, || {
        let host = hosts.next().unwrap();
        (0..PAGES).find(|page| {
            let mut client = server.connect();
            let is_linked = get(&mut client, &path(*page), &NAVIGATION).field("link") == Some(LINK);
            if !is_linked {
                let mut other = server.connect_from(host);
                get(&mut other, &path(*page), &NAVIGATION);
                for client in [&mut client, &mut other] {
                    get(client, "/next.html", &with(&NAVIGATION, ("referer", &from(*page))));
                }
            }
            is_linked
        })
    })
}

fn count(server: &Server, fate: &str) -> u64 {
    figure(server, &format!("lamna_link_prefetch_total{{fate=\"{fate}\"}}"))
}

fn who_navigates_is_sent_a_link_to_the_likely_next_page_and_nobody_else(engine: Engine) {
    let server = launch(engine, "").start();
    let page = linked(&server);
    let path = path(page);
    for fields in [
        vec![("accept", "*/*")],
        vec![],
        // It may be a robot's, which do not fetch ahead.
        vec![NAVIGATION[0]],
        with(&NAVIGATION, ("save-data", "on")),
        with(&NAVIGATION, ("range", "bytes=0-1")),
        with(&NAVIGATION, ("if-none-match", "\"x\"")),
        AHEAD.to_vec(),
    ] {
        for _ in 0..3 {
            assert_eq!(get(&mut server.connect(), &path, &fields).field("link"), None, "{fields:?}");
        }
    }
    // On one connection it is sent once: the client has the page then, or will have it soon.
    let sent = count(&server, "sent");
    eventually("a link is sent", PATIENCE, || {
        let mut client = server.connect();
        let first = get(&mut client, &path, &NAVIGATION);
        assert_eq!((first.status, &*first.content), (200, format!("<p>page {page}").as_bytes()));
        first.field("link").map(|link| {
            assert_eq!(link, LINK);
            assert_eq!(get(&mut client, &path, &NAVIGATION).field("link"), None);
            assert_eq!(get(&mut client, "/next.html", &AHEAD).field("link"), None);
        })
    });
    assert!(count(&server, "sent") > sent);
    server.finish();
}

fn over_http_2_what_is_fetched_ahead_and_shown_is_counted(engine: Engine) {
    let server = launch(engine, "").argument("--tls").start();
    let config = trusting(&server);
    let name = || ServerName::try_from("127.0.0.1").unwrap();
    let mut hosts = (2..5_u8).cycle();
    let (mut client, page) = eventually("a link is sent", PATIENCE, || {
        let host = hosts.next().unwrap();
        (0..PAGES).find_map(|page| {
            let connect = |host| Http2::connect_secured_from(host, server.address(), &config, name());
            let mut client = connect(None);
            let (_, answer) = client.get_with_hints(&path(page), &NAVIGATION);
            if answer.fields.iter().any(|(name, value)| name == "link" && value == LINK) {
                return Some((client, page));
            }
            let mut other = connect(Some(host));
            other.get_with_hints(&path(page), &NAVIGATION);
            for client in [&mut client, &mut other] {
                client.get_with_hints("/next.html", &with(&NAVIGATION, ("referer", &from(page))));
            }
            None
        })
    });
    let referer = from(page);
    let counts = || ["fetched", "shown", "asked"].map(|fate| count(&server, fate));
    // Who had asked for the next page when the link became known may be counted.
    let [_, _, asked] = counts();
    let (_, ahead) = client.get_with_hints("/next.html", &with(&AHEAD, ("referer", &referer)));
    assert_eq!((ahead.status, &*ahead.content), (200, &b"<p>next"[..]));
    assert_eq!(counts(), [1, 0, asked]);
    // Shown from what was fetched, so that nobody has asked for it.
    for _ in 0..2 {
        client.get_with_hints("/next.css", &[("sec-fetch-dest", "style"), ("referer", "https://a/next.html")]);
        assert_eq!(counts(), [1, 1, asked]);
    }
    // Who is told and asks all the same has fetched nothing ahead.
    client.get_with_hints("/next.html", &with(&NAVIGATION, ("referer", &referer)));
    assert_eq!(counts(), [1, 1, asked + 1]);
    server.finish();
}

#[test]
fn a_site_whose_pages_are_fetched_in_vain_ends_it() {
    // Two are more than the grace. Each page that the control group has asked for until then speaks for as many as
    // there are others.
    let server = launch(AMPED, "link_prefetch_waste_percent_max = 0\n").file("next.html", "x".repeat(700_000)).start();
    let page = linked(&server);
    let used = (TOLD_PER_CONTROL * count(&server, "control_asked")).saturating_sub(count(&server, "asked"));
    for _ in 0..used + 2 {
        let mut client = server.connect();
        get(&mut client, &path(page), &NAVIGATION);
        get(&mut client, "/next.html", &with(&AHEAD, ("referer", &from(page))));
    }
    for _ in 0..5 {
        assert_eq!(get(&mut server.connect(), &path(page), &NAVIGATION).field("link"), None);
    }
    assert_eq!((count(&server, "fetched"), count(&server, "withheld_budget")), (used + 2, 5));
    let wasted = figure(&server, "lamna_link_prefetch_wasted_bytes");
    assert!((700_000..=1_400_000).contains(&wasted), "{wasted}");
    server.finish();
}

#[test]
fn what_access_rules_keep_and_what_applications_make_is_not_fetched_ahead() {
    let rules = "[[site.route]]\nmatch = \"/next.html\"\naccess = { allow = [\"127.0.0.0/8\"] }\n";
    let server = launch(AMPED, rules).file("open.html", "<p>open").start();
    for _ in 0..20 {
        for page in 0..PAGES {
            let mut client = server.connect();
            assert_eq!(get(&mut client, &path(page), &NAVIGATION).field("link"), None);
            let next = get(&mut client, "/next.html", &with(&NAVIGATION, ("referer", &from(page))));
            assert_eq!(next.status, 200);
        }
    }
    // The rest of the site may be.
    let mut hosts = (2..5_u8).cycle();
    eventually("a link is sent", PATIENCE, || {
        let host = hosts.next().unwrap();
        (0..PAGES).find(|page| {
            let referer = from(*page);
            let follow = with(&NAVIGATION, ("referer", &referer));
            get(&mut server.connect_from(host), "/open.html", &follow);
            let mut client = server.connect();
            get(&mut client, "/open.html", &follow);
            let link = get(&mut client, &path(*page), &NAVIGATION).field("link").map(str::to_owned);
            link.is_some_and(|link| link == "</open.html>; rel=prefetch")
        })
    });
    server.finish();
}
