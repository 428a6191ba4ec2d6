//! Searching the pages of a folder: with every engine.

use std::fs;

use serde_json::Value;

use crate::access::{ADA, SESAME};
use crate::client::{PATIENCE, Response};
use crate::engine::{AMPED, Engine, for_engines};
use crate::server::{Launch, Server, eventually};

for_engines!([
    sped = SPED,
    amped = AMPED,
    co_amped = CO_AMPED,
    proactor = PROACTOR,
    thread_pool = THREAD_POOL,
    thread_per_request = THREAD_PER_REQUEST,
    thread_per_session = THREAD_PER_SESSION,
    pipelined = PIPELINED,
    mp = MP,
] => [
    the_manual_says_what_is_found, nothing_is_found_that_is_not_served_to_who_asks,
    a_page_that_has_changed_is_searched_as_it_is, what_is_no_query_is_said,
]);

const MANUAL: &str = include_str!("../../../../docs/search.md");

fn ask(server: &Server, target: &str, fields: &str) -> Response {
    let mut client = server.connect();
    client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n").as_bytes());
    let response = client.receive(true).unwrap_or_else(|fault| panic!("{target}: {fault}"));
    response.check().unwrap_or_else(|fault| panic!("{target}: {fault}"));
    response
}

/// The addresses that a search finds, in their order.
fn found(server: &Server, target: &str, fields: &str) -> Vec<String> {
    let response = ask(server, target, &format!("Accept: application/json\r\n{fields}"));
    assert_eq!(response.status, 200, "{target}: {}", String::from_utf8_lossy(&response.content));
    let page: Value = serde_json::from_slice(&response.content).unwrap();
    assert_eq!(page["complete"], Value::Bool(true));
    let results = page["results"].as_array().unwrap();
    results.iter().map(|one| one["href"].as_str().unwrap().to_owned()).collect()
}

/// The configuration of the manual, and lines as `GET /?q=a -> /b.html /c.html`.
fn the_manual_says_what_is_found(engine: Engine) {
    let fenced = |kind: &str| MANUAL.split(&format!("```{kind}\n")).nth(1).and_then(|rest| rest.split("```").next());
    let server = Launch::new(engine)
        .file("symphony.html", "<title>Symphonies</title><p>The performance of symphonic music.")
        .file("docs/servers.html", "<title>Servers</title><p>The performance of well-kept web servers: performance")
        .file("docs/notes.md", "# Notes\n\nOn performance.")
        .file("docs/.draft.html", "performance")
        .config(fenced("toml").expect("there is one"))
        .start();
    let lines: Vec<&str> = fenced("text").expect("there is one").lines().collect();
    assert!(lines.len() >= 4);
    for line in lines {
        let (request, expected) = line.split_once(" -> ").expect(line);
        let target = request.strip_prefix("GET ").expect(line).replace(' ', "%20").replace('"', "%22");
        assert_eq!(found(&server, &target, "").join(" "), expected, "{line}");
    }
    let page = ask(&server, "/?q=servers", "Accept: text/html\r\n");
    let text = String::from_utf8(page.content.clone()).unwrap();
    assert!(
        text.contains("<a href=\"/docs/servers.html\">Servers</a>") && text.contains("1 result in 3 pages"),
        "{text}"
    );
    assert!(page.field("Cache-Control") == Some("no-cache") && page.field("Vary").unwrap().starts_with("Accept"));
    assert_eq!(ask(&server, "/?q=", "").status, 200, "the form");
    server.finish();
}

fn nothing_is_found_that_is_not_served_to_who_asks(engine: Engine) {
    let config = format!(
        "[[site]]\nroot = \"site\"\nusers = {{ ada = {SESAME:?} }}\nbrowse = true\n\
         [[site.route]]\nmatch = \"/open/*\"\nsearch = true\n\
         [[site.route]]\nmatch = \"/open/in/*\"\naccess = {{ users = [\"ada\"] }}\n\
         [[site.route]]\nmatch = \"/open/moved/*\"\nredirect = \"/\"\n\
         [[site.route]]\nmatch = \"/open/other/*\"\nfilters = [{{ name = \"substitute\", from = \"word\", to = \"x\" }}]\n"
    );
    let mut launch = Launch::new(engine).config(&config).file("outside.html", "word");
    for name in ["a.html", "in/b.html", "moved/c.html", "other/d.html", ".hidden/e.html", "f.css", "g.bin"] {
        launch = launch.file(&format!("open/{name}"), "word");
    }
    let root = launch.directory().join("site/open");
    fs::write(launch.directory().join("secret.html"), "word").unwrap();
    std::os::unix::fs::symlink("../../secret.html", root.join("link.html")).unwrap();
    std::os::unix::fs::symlink("..", root.join("up")).unwrap();
    let server = launch.start();
    assert_eq!(found(&server, "/open/?q=word", ""), ["/open/a.html"]);
    // Who may read a folder finds what is in it, when he asks there.
    assert_eq!(ask(&server, "/open/in/?q=word", "").status, 401);
    assert_eq!(found(&server, "/open/in/?q=word", ADA), ["/open/in/b.html"]);
    // Where it is not on, a query means nothing.
    let listed = ask(&server, "/?q=word", "Accept: application/json\r\n");
    assert!(String::from_utf8_lossy(&listed.content).contains("\"entries\""));
    server.finish();
}

const ON: &str = "[[site]]\nroot = \"site\"\n[[site.route]]\nmatch = \"*\"\nsearch = true\n";

fn a_page_that_has_changed_is_searched_as_it_is(engine: Engine) {
    let launch = Launch::new(engine).config(ON).file("a.html", "first").file("b.html", "other");
    let page = launch.directory().join("site/a.html");
    let server = launch.start();
    for _ in 0..2 {
        assert_eq!(found(&server, "/?q=first", ""), ["/a.html"]);
    }
    fs::write(&page, "second").unwrap();
    assert_eq!((found(&server, "/?q=first", ""), found(&server, "/?q=second", "")), (vec![], vec!["/a.html".into()]));
    fs::remove_file(&page).unwrap();
    assert_eq!(found(&server, "/?q=NOT+nothing", ""), ["/b.html"]);
    // Many at once are answered, or asked to come again.
    let mut clients: Vec<_> = (0..8).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.send(b"GET /?q=other HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    for client in &mut clients {
        assert!(matches!(client.receive(true).unwrap().status, 200 | 503));
    }
    drop(clients);
    eventually("searches have ended", PATIENCE, || (ask(&server, "/?q=other", "").status == 200).then_some(()));
    server.finish();
}

fn what_is_no_query_is_said(engine: Engine) {
    let server = Launch::new(engine).config(ON).file("a.html", "word").start();
    for query in ["(a", "a+AND", "%22", "...", &"a".repeat(300), &"(".repeat(100)] {
        let refused = ask(&server, &format!("/?q={query}"), "");
        assert_eq!(refused.status, 400, "{query}");
        assert!(String::from_utf8_lossy(&refused.content).contains("cannot be searched for"), "{query}");
    }
    server.finish();
}

#[test]
fn pages_are_found_behind_filters_that_keep_their_words() {
    let route = |path: &str, what: &str| format!("[[site.route]]\nmatch = \"{path}\"\n{what}\n");
    let config = [
        "[[site]]\nroot = \"site\"\n".to_owned(),
        route("/*", "search = true"),
        route("/structured/*", "structured = true"),
        route("/omit/*", "filters = [\"omit\"]"),
        route("/include/*", "filters = [\"include\"]"),
        route("/substitute/*", "filters = [{ name = \"substitute\", from = \"a\", to = \"b\" }]"),
    ]
    .concat();
    let page = "<h1>Title</h1><p>It is marked.</p>";
    let chosen = "<!--#if expr=\"$no\" --><p>It is marked.</p><!--#endif -->";
    let mut launch = Launch::new(AMPED).config(&config).file("include/chosen.html", chosen);
    for folder in ["structured", "omit", "include", "substitute"] {
        launch = launch.file(&format!("{folder}/page.html"), page);
    }
    let server = launch.start();
    for _ in 0..2 {
        let expected = ["/include/page.html", "/omit/page.html", "/structured/page.html"];
        assert_eq!(found(&server, "/?q=marked", ""), expected);
        assert_eq!(found(&server, "/structured/?q=marked", ""), ["/structured/page.html"]);
    }
    server.finish();
}
