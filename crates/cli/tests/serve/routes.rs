//! Routes over sockets: the examples of the manual with every kind of engine, files of site generators, and a thousand
//! routes.

use std::fs;
use std::os::unix::fs::symlink;

use crate::client::Response;
use crate::engine::{AMPED, Engine, PROACTOR, SPED, for_engines};
use crate::server::{Launch, Server};

for_engines!([
    sped = SPED,
    sped_caches_off = SPED_CACHES_OFF,
    amped = AMPED,
    amped_entries_off = AMPED_ENTRIES_OFF,
    amped_with_helper_processes = AMPED_WITH_HELPER_PROCESSES,
    co_amped = CO_AMPED,
    proactor = PROACTOR,
    thread_pool = THREAD_POOL,
    thread_per_request = THREAD_PER_REQUEST,
    thread_per_session = THREAD_PER_SESSION,
    pipelined = PIPELINED,
    mp = MP,
] => [
    the_manual_says_what_happens, files_of_generators_are_followed,
    files_of_generators_are_not_shown_whichever_way_leads_to_them, fields_are_on_every_answer, conditions_are_asked,
    pages_for_404_are_found_however_a_site_is_named,
]);

const MANUAL: &str = include_str!("../../../../docs/routes.md");

/// The site that the manual is about.
pub(crate) fn planted(engine: Engine) -> Launch {
    let launch = Launch::new(engine)
        .file("index.html", "<p>home\n")
        .file("contact.html", "<p>contact\n")
        .file("404.html", "<p>nothing here\n")
        .file("docs/index.html", "<p>docs\n")
        .file("assets/app.3f2a9c1b.js", "app()\n")
        .file("assets/logo.svg", "<svg/>\n")
        .file("api/list.json", "[]\n");
    fs::create_dir(launch.site().join("photos")).expect("directories can be made");
    launch
}

/// The pieces of `text` between fences of this kind.
fn fenced<'t>(text: &'t str, kind: &str) -> Vec<&'t str> {
    let fence = format!("```{kind}\n");
    text.split(&fence).skip(1).map(|piece| piece.split("```").next().unwrap_or_default()).collect()
}

fn the_manual_says_what_happens(engine: Engine) {
    let (configurations, exchanges) = (fenced(MANUAL, "toml"), fenced(MANUAL, "text"));
    assert!(configurations.len() >= 3 && configurations.len() == exchanges.len());
    for (configuration, lines) in configurations.into_iter().zip(exchanges) {
        let server = planted(engine).config(configuration).start();
        // Once found out, and once cached.
        for _ in 0..2 {
            lines.lines().for_each(|line| hold(&server, line));
        }
        server.finish();
    }
}

/// Holds the server to a line as `GET /path (Name: value) -> 200; Name: value; no Name`.
pub(crate) fn hold(server: &Server, line: &str) {
    let (request, answer) = line.split_once(" -> ").expect(line);
    let mut parts = request.split(" (").map(|part| part.trim().trim_end_matches(')'));
    let (method, target) = parts.next().and_then(|start| start.split_once(' ')).expect(line);
    let fields: String = parts.map(|field| format!("{field}\r\n")).collect();
    let response = ask(server, method, target, &fields);
    let mut expected = answer.split("; ");
    assert_eq!(expected.next(), Some(&*response.status.to_string()), "{line}\n{response:?}");
    let mut joined: Vec<String> = Vec::new();
    for part in expected {
        // A parameter of a media type is no field.
        match part.starts_with("no ") || part.split_once(": ").is_some() {
            true => joined.push(part.to_owned()),
            false => joined.last_mut().expect(line).push_str(&format!("; {part}")),
        }
    }
    for part in joined {
        if let Some(name) = part.strip_prefix("no ") {
            assert_eq!(response.field(name), None, "{line}\n{response:?}");
            continue;
        }
        let (name, value) = part.split_once(": ").expect(line);
        let found = response.field(name).unwrap_or_else(|| panic!("{line}\nno {name} in {response:?}"));
        let fits = value.strip_prefix('*').map_or(found == value, |end| found.ends_with(end));
        assert!(fits, "{line}\n{name} is {found}");
        assert_eq!(
            response.fields.iter().filter(|(one, _)| one.eq_ignore_ascii_case(name)).count(),
            1,
            "{line}\n{name}"
        );
    }
}

fn ask(server: &Server, method: &str, target: &str, fields: &str) -> Response {
    let mut client = server.connect();
    client.send(format!("{method} {target} HTTP/1.1\r\nHost: www.example.org\r\n{fields}\r\n").as_bytes());
    let response = client.receive(method != "HEAD").unwrap_or_else(|fault| panic!("{method} {target}: {fault}"));
    response.check().unwrap_or_else(|fault| panic!("{method} {target}: {fault}"));
    response
}

fn files_of_generators_are_followed(engine: Engine) {
    let redirects = "# from the generator\n/old/*  /assets/:splat 301\n/contact  /elsewhere 302\n/contact.html /never 302\n\
                     /kept.html /elsewhere 302!\n/app/* /index.html 200\n/* /contact.html 404\n";
    let launch = planted(engine)
        .config("[[site]]\nroot = \"site\"\nrule_files = true\n")
        .file("kept.html", "kept\n")
        .file("_redirects", redirects)
        .file("_headers", "/*\n  X-A: 1\n/assets/*\n  X-A: 2\n  Cache-Control: max-age=60\n");
    let server = launch.start();
    for line in [
        "GET /old/logo.svg -> 301; Location: /assets/logo.svg; X-A: 1",
        "GET /contact -> 302; Location: /elsewhere",
        "GET /contact.html -> 200; X-A: 1",
        "GET /kept.html -> 302; Location: /elsewhere",
        "GET /app/users/1 -> 200; Content-Type: text/html; charset=utf-8",
        "GET /assets/logo.svg -> 200; X-A: 2; Cache-Control: max-age=60",
        "GET /assets/gone.svg -> 404; X-A: 2; no Cache-Control",
        "GET /_redirects -> 404",
        "GET /_headers -> 404",
    ] {
        hold(&server, line);
    }
    assert_eq!(ask(&server, "GET", "/gone", "").content, b"<p>contact\n");
    server.finish();
}

fn files_of_generators_are_not_shown_whichever_way_leads_to_them(engine: Engine) {
    let launch = Launch::new(engine)
        .file("_redirects", "/old /new\n")
        .file("_headers", "/*\n  X-A: 1\n")
        .file("sub/a.txt", "a\n");
    let root = launch.site().display().to_string();
    let above = launch.directory().display().to_string();
    symlink(launch.site().join("_redirects"), launch.site().join("link.txt")).unwrap();
    let lines = format!(
        "[[site]]\nroot = \"site\"\nrule_files = true\nbrowse = true\n[[site.alias]]\nprefix = \"/again/\"\nroot = {root:?}\n\
         [[site.alias]]\nprefix = \"/above/\"\nroot = {above:?}\n[[site.route]]\nmatch = \"/to\"\nrewrite = \"/again/_redirects\"\n\
         [[site.route]]\nmatch = \"/tried\"\ntry = [\"/_redirects\", \"/again/_redirects\"]\n[[site.route]]\nmatch = \"*\"\nsearch = true\n"
    );
    let server = launch.config(&lines).start();
    let paths = [
        "/_redirects",
        "/again/_redirects",
        "/again/_headers",
        "/above/site/_redirects",
        "/link.txt",
        "/again/link.txt",
        "/to",
        "/tried",
    ];
    for path in paths {
        assert_eq!(ask(&server, "GET", path, "").status, 404, "{path}");
    }
    assert_eq!(ask(&server, "GET", "/again/sub/a.txt", "").content, b"a\n");
    for path in ["/", "/again/", "/above/site/", "/?download=tar", "/again/?download=tar", "/again/?q=old"] {
        let response = ask(&server, "GET", path, "");
        let content = String::from_utf8_lossy(&response.content).into_owned();
        assert!(
            response.status == 200 && !content.contains("_redirects") && !content.contains("_headers"),
            "{path}: {content}"
        );
    }
    server.finish();
}

fn fields_are_on_every_answer(engine: Engine) {
    let config = "[[site]]\nroot = \"site\"\nheaders = { X-Site = \"1\", Server = \"own\" }\nbrowse = true\n\
                  [[site.route]]\nmatch = \"/docs/*\"\nheaders = { X-Route = \"1\", X-Site = \"2\", Content-Type = \"text/plain\" }\n";
    let server = planted(engine).config(config).start();
    for (method, target, fields, status) in [
        ("GET", "/docs/", "", 200),
        ("HEAD", "/docs/", "", 200),
        ("GET", "/docs/", "Range: bytes=0-1\r\n", 206),
        ("GET", "/docs/", "Range: bytes=99-\r\n", 416),
        ("GET", "/docs/", "If-None-Match: *\r\n", 304),
        ("GET", "/docs/", "If-Match: \"x\"\r\n", 412),
        ("GET", "/docs/x/../", "", 200),
        ("GET", "/docs/gone", "", 404),
        ("OPTIONS", "/docs/", "", 204),
        ("POST", "/docs/", "", 405),
        ("POST", "/docs/", "Content-Length: 1\r\n\r\nx", 405),
        ("BREW", "/docs/", "", 501),
        ("GET", "/docs/", "Expect: tea\r\n", 417),
    ] {
        let response = ask(&server, method, target, fields);
        assert_eq!(response.status, status, "{method} {target} {fields:?}\n{response:?}");
        let values =
            |name| response.fields.iter().filter(|(one, _)| one == name).map(|(_, value)| &**value).collect::<Vec<_>>();
        assert_eq!(values("X-Route"), ["1"], "{method} {target} {fields:?}");
        assert_eq!((values("X-Site"), values("Server")), (vec!["2"], vec!["own"]), "{method} {target} {fields:?}");
    }
    assert_eq!(ask(&server, "GET", "/docs/", "").field("Content-Type"), Some("text/plain"));
    assert_eq!(ask(&server, "GET", "/", "").field("X-Route"), None);
    server.finish();
}

fn conditions_are_asked(engine: Engine) {
    let config = "[[site]]\nroot = \"site\"\n\
                  [[site.route]]\nmatch = { path = \"/docs/*\", method = \"HEAD\" }\nheaders = { X-Method = \"1\" }\n\
                  [[site.route]]\nmatch = { path = \"/docs/*\", host = [\"*.example.org\"] }\nheaders = { X-Host = \"1\" }\n\
                  [[site.route]]\nmatch = { path = \"/docs/*\", header = { X-Ask = { regex = \"^y\" } } }\nheaders = { X-Asked = \"1\" }\n\
                  [[site.route]]\nmatch = { path = \"/docs/*\", client = \"192.0.2.0/24\" }\npriority = 1\nredirect = \"/never\"\n\
                  [[site.route]]\nmatch = { path = \"/docs/*\", query = { to = [\"contact\"] } }\nrewrite = \"/contact.html\"\n";
    let server = planted(engine).config(config).start();
    for _ in 0..2 {
        for line in [
            "GET /docs/ -> 200; no X-Method; X-Host: 1; no X-Asked; Vary: *X-Ask",
            "HEAD /docs/ -> 200; X-Method: 1; X-Host: 1",
            "GET /docs/ (X-Ask: yes) -> 200; X-Asked: 1; Vary: *X-Ask",
            "GET /docs/ (X-Ask: no) -> 200; no X-Asked",
            "GET / (X-Ask: yes) -> 200; no X-Asked; no X-Host",
        ] {
            hold(&server, line);
        }
        assert_eq!(ask(&server, "GET", "/docs/?to=contact", "").content, b"<p>contact\n");
        assert_eq!(ask(&server, "GET", "/docs/?to=other", "").content, b"<p>docs\n");
    }
    server.finish();
}

fn pages_for_404_are_found_however_a_site_is_named(engine: Engine) {
    for config in ["", "[[site]]\nroot = \"site\"\n"] {
        let server = planted(engine).config(config).start();
        let response = ask(&server, "GET", "/gone", "");
        assert_eq!((response.status, &*response.content), (404, &b"<p>nothing here\n"[..]), "{config}");
        server.finish();
    }
}

#[test]
fn a_single_page_application_has_paths_with_dots_and_folders() {
    let server = planted(AMPED).config("[[site]]\nroot = \"site\"\nspa = true\n").start();
    for (path, content) in
        [("/users/jane.doe", "<p>home\n"), ("/photos/", "<p>home\n"), ("/photos", "<p>home\n"), ("/docs/", "<p>docs\n")]
    {
        let response = ask(&server, "GET", path, "");
        assert_eq!((response.status, response.content), (200, content.as_bytes().to_vec()), "{path}");
    }
    for path in ["/gone.js", "/.hidden", "/photos/gone.png"] {
        assert_eq!(ask(&server, "GET", path, "").status, 404, "{path}");
    }
    assert_eq!(ask(&server, "GET", "/docs", "").status, 301);
    server.finish();
}

#[test]
fn a_file_that_comes_later_is_found_though_another_was_tried_first() {
    let config = "[[site]]\nroot = \"site\"\n[[site.route]]\nmatch = \"*\"\ntry = [\"$path\", \"$path.html\", \"/index.html\"]\n";
    for engine in [SPED, AMPED, PROACTOR] {
        let server = planted(engine).config(config).start();
        let site = server.site();
        let settles = |path: &str, content: &str| {
            let found = (0..100).any(|_| {
                std::thread::sleep(std::time::Duration::from_millis(50));
                ask(&server, "GET", path, "").content == content.as_bytes()
            });
            assert!(found, "{path} becomes {content}");
        };
        settles("/later", "<p>home\n");
        fs::write(site.join("later.html"), "page\n").unwrap();
        settles("/later", "page\n");
        // Long enough for its directory to be watched.
        std::thread::sleep(std::time::Duration::from_millis(1500));
        settles("/later", "page\n");
        fs::write(site.join("later"), "file\n").unwrap();
        settles("/later", "file\n");
        server.finish();
    }
}

#[test]
fn a_thousand_routes_with_regular_expressions_are_found() {
    let mut config = "[[site]]\nroot = \"site\"\n".to_owned();
    for number in 0..1000 {
        config.push_str(&format!(
            "[[site.route]]\nmatch = {{ regex = \"^/item{number}/([a-z]+)/(\\\\d+)$\" }}\nredirect = \"/items/{number}/$2/$1\"\n"
        ));
    }
    let server = planted(AMPED).config(&config).start();
    for number in [0, 500, 999] {
        let response = ask(&server, "GET", &format!("/item{number}/abc/7"), "");
        assert_eq!((response.status, response.field("Location")), (302, Some(&*format!("/items/{number}/7/abc"))));
    }
    assert_eq!(ask(&server, "GET", "/contact.html", "").status, 200);
    server.finish();
}
