//! Pages for errors, fixed answers, and errors of applications that are answered with a page.
//!
//! Owns: an application that answers `/STATUS` with that status. Each case says what a client has to see, and is asked
//! with several methods, versions and engines.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use crate::access::SESAME;
use crate::client::{APPLICATION_PATIENCE, PATIENCE};
use crate::control::order;
use crate::engine::{AMPED, Engine, for_engines};
use crate::http2::{self, Http2};
use crate::server::{Launch, Server, eventually};

for_engines!([
    sped = SPED,
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
    every_error_has_the_page_for_its_status,
    fixed_answers_are_given_to_every_method,
    a_file_is_not_sent_for_another_path_where_a_route_answers_otherwise,
]);

// Processes are replaced by others.
mod threads {
    use crate::engine::for_engines;
    use crate::pages::pages_and_answers_are_those_of_the_files_when_they_were_read_last;

    for_engines!([amped = AMPED, thread_pool = THREAD_POOL, proactor = PROACTOR] => [
        pages_and_answers_are_those_of_the_files_when_they_were_read_last,
    ]);
}

/// An application that answers with the status that is the last part of the path. It ends with the test.
struct Application {
    address: SocketAddr,
    is_over: Arc<AtomicBool>,
}

impl Application {
    fn start() -> Application {
        let listener = TcpListener::bind("127.0.0.1:0").expect("there are ports");
        let address = listener.local_addr().expect("it is bound");
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = is_over.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if ends.load(Relaxed) {
                    return;
                }
                stream.set_read_timeout(Some(APPLICATION_PATIENCE)).expect("a fresh socket takes options");
                thread::spawn(move || answer(stream));
            }
        });
        Application { address, is_over }
    }
}

impl Drop for Application {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
        let _ = TcpStream::connect(self.address);
    }
}

/// Content of the application, more than comes at once.
const OWN: &str = "the application's own words\n";

fn answer(stream: TcpStream) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut stream = stream;
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head).ok()? == 0 {
                return None;
            }
        }
        let mut words = head.split(' ');
        let (method, path) = (words.next()?, words.next()?);
        let status = path.rsplit('/').next()?;
        let content = if path.contains("/large/") { OWN.repeat(40_000) } else { OWN.to_owned() };
        let fields = "Content-Type: text/x-own\r\nETag: \"own\"\r\nContent-Language: de\r\nX-Own: 1\r\n\
                      WWW-Authenticate: Basic realm=\"own\"\r\nRetry-After: 77\r\nAllow: GET, PATCH\r\n";
        let head = format!("HTTP/1.1 {status} Own\r\n{fields}Content-Length: {}\r\n\r\n", content.len());
        stream.write_all(head.as_bytes()).ok()?;
        if method != "HEAD" {
            stream.write_all(content.as_bytes()).ok()?;
        }
    }
}

/// A port where nothing listens.
fn dead_port() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("there are ports")
}

/// An answer, whatever the version.
#[derive(Debug)]
struct Seen {
    status: u16,
    fields: Vec<(String, String)>,
    content: String,
}

impl Seen {
    fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(one, _)| one.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

/// The versions that are tried.
const VERSIONS: [&str; 3] = ["HTTP/1.0", "HTTP/1.1", "HTTP/2"];

/// Asks on a connection of its own: some errors end it.
fn ask(server: &Server, version: &str, method: &str, path: &str, fields: &[(&str, &str)], content: &[u8]) -> Seen {
    let told = if content.is_empty() { None } else { Some(content.len().to_string()) };
    if version == "HTTP/2" {
        let mut request = http2::request(method, path, fields);
        *request.body_mut() = content.to_vec();
        let mut client = Http2::connect(server.address());
        let answer = client.ask_to_be_refused(vec![request]).remove(0).expect("it is answered");
        let content = String::from_utf8_lossy(&answer.content).into_owned();
        return Seen { status: answer.status, fields: answer.fields, content };
    }
    let mut client = server.connect();
    let mut head = format!("{method} {path} {version}\r\nHost: a.test\r\n");
    fields.iter().for_each(|(name, value)| head += &format!("{name}: {value}\r\n"));
    told.iter().for_each(|length| head += &format!("Content-Length: {length}\r\n"));
    client.send(format!("{head}\r\n").as_bytes());
    client.send(content);
    let response =
        client.receive(method != "HEAD").unwrap_or_else(|fault| panic!("{version} {method} {path}: {fault}"));
    response.check().unwrap_or_else(|fault| panic!("{version} {method} {path}: {fault}"));
    let content = String::from_utf8_lossy(&response.content).into_owned();
    Seen { status: response.status, fields: response.fields, content }
}

/// A page, of which clients see that it is this one.
fn page(name: &str) -> String {
    format!("<!doctype html><p>the page {name}\n")
}

fn launch(engine: Engine, application: SocketAddr) -> Launch {
    let dead = dead_port();
    let config = format!(
        r#"limit_exempt = []
request_limit = "off"
[[site]]
root = "site"
users = {{ ada = "{SESAME}" }}
upload = true
upload_bytes_max = 64
error_pages = {{ "4xx" = "/4xx.html", "5xx" = "/5xx.html", "410" = "/410.html", "502" = "/502.html", "404" = "/404.html" }}
headers = {{ X-Site = "1" }}
[[site.limit]]
path = "/limited"
requests = "1/h burst 1"
[[site.route]]
match = "/keep/*"
access = {{ users = ["ada"] }}
[[site.route]]
match = "/denied/*"
access = "deny"
[[site.route]]
match = "/gone"
respond = 410
[[site.route]]
match = "/own-page"
respond = 503
error_pages = {{ "5xx" = "/route.html" }}
[[site.route]]
match = "/down/*"
proxy = "http://{dead}"
[[site.route]]
match = "/down/own/*"
error_pages = {{ "502" = "/route.html", "503" = "/route.html" }}
[[site.route]]
match = "/app/*"
proxy = "http://{application}"
intercept_errors = true
[[site.route]]
match = "/app/route/*"
error_pages = {{ "404" = "/route.html" }}
[[site.route]]
match = "/app/own/*"
intercept_errors = false
[[site.route]]
match = "/app/kept/*"
cache = {{ fresh_s = 600 }}
[[site.route]]
match = "/app/filtered/*"
filters = [{{ name = "substitute", from = "page", to = "leaf" }}]
"#
    );
    let pages = ["4xx", "5xx", "410", "502", "404", "route"];
    let launch = Launch::new(engine).config(&config).argument("--h2c").file("a.txt", "a\n");
    pages.iter().fold(launch, |launch, name| launch.file(&format!("{name}.html"), page(name)))
}

/// The method, the target, content; the status, the page, and a field that the answer has to have.
type Case<'c> = (&'c str, &'c str, &'c [u8], u16, &'c str, &'c str);

fn every_error_has_the_page_for_its_status(engine: Engine) {
    let application = Application::start();
    let server = launch(engine, application.address).start();
    let long = [b'x'; 65];
    let none: &[u8] = &[];
    let cases: &[Case<'_>] = &[
        ("GET", "/nothing", none, 404, "404", "X-Site: 1"),
        ("GET", "/%2f", none, 400, "4xx", "X-Site: 1"),
        ("GET", "/keep/a", none, 401, "4xx", "WWW-Authenticate: Basic realm=\"Lamna\", charset=\"UTF-8\""),
        ("GET", "/denied/a", none, 403, "4xx", "X-Site: 1"),
        ("PUT", "/new.txt", &long, 413, "4xx", "X-Site: 1"),
        ("GET", "/gone", none, 410, "410", "X-Site: 1"),
        ("GET", "/own-page", none, 503, "route", "Retry-After: 1"),
        ("GET", "/down/a", none, 502, "502", "X-Site: 1"),
        ("GET", "/app/404", none, 404, "404", "X-Own: 1"),
        ("GET", "/app/401", none, 401, "4xx", "WWW-Authenticate: Basic realm=\"own\""),
        ("GET", "/app/405", none, 405, "4xx", "Allow: GET, PATCH"),
        ("GET", "/app/503", none, 503, "5xx", "Retry-After: 77"),
        ("GET", "/app/large/500", none, 500, "5xx", "X-Own: 1"),
        ("POST", "/app/502", none, 502, "502", "X-Own: 1"),
        ("GET", "/app/route/404", none, 404, "route", "X-Own: 1"),
        ("GET", "/app/kept/410", none, 410, "410", "X-Own: 1"),
        ("GET", "/app/kept/410", none, 410, "410", "X-Own: 1"),
    ];
    for version in VERSIONS {
        for (method, target, content, status, name, field) in cases {
            let heads = if *method == "GET" { &["GET", "HEAD"][..] } else { std::slice::from_ref(method) };
            for method in heads {
                // Ranges and conditions are for what is there (RFC 9110 13.2.1).
                for fields in
                    [&[][..], &[("Range", "bytes=0-3"), ("If-None-Match", "*"), ("Accept", "application/json")]]
                {
                    let seen = ask(&server, version, method, target, fields, content);
                    let case = format!("{version} {method} {target} {fields:?}: {seen:?}");
                    let expected = page(name);
                    assert_eq!(seen.status, *status, "{case}");
                    assert_eq!(seen.content, if *method == "HEAD" { "" } else { &expected }, "{case}");
                    assert_eq!(seen.field("Content-Type"), Some("text/html; charset=utf-8"), "{case}");
                    assert_eq!(seen.field("Content-Length"), Some(&*expected.len().to_string()), "{case}");
                    assert!(seen.field("ETag").is_none() && seen.field("Content-Language").is_none(), "{case}");
                    let (field, value) = field.split_once(": ").expect("it is written so");
                    assert_eq!(seen.field(field), Some(value), "{case}");
                }
            }
        }
        // Content of the application that is no error, and where it is not asked for.
        for (target, status) in [("/app/200", 200), ("/app/own/404", 404), ("/app/own/503", 503)] {
            let seen = ask(&server, version, "GET", target, &[], none);
            assert_eq!((seen.status, &*seen.content, seen.field("ETag")), (status, OWN, Some("\"own\"")), "{target}");
        }
    }
    // A page that is filtered, as the answer would have been.
    let seen = ask(&server, "HTTP/2", "GET", "/app/filtered/404", &[], none);
    assert_eq!((seen.status, &*seen.content), (404, &*page("404").replace("page", "leaf")));
    // What is limited is so for all engines' clients of this machine.
    let statuses: Vec<Seen> = (0..2).map(|_| ask(&server, "HTTP/1.1", "GET", "/limited", &[], none)).collect();
    assert_eq!((statuses[0].status, statuses[1].status), (404, 429));
    assert_eq!(statuses[1].content, page("4xx"));
    assert!(statuses[1].field("Retry-After").is_some() && statuses[1].field("RateLimit").is_some());
    server.finish();
}

fn fixed_answers_are_given_to_every_method(engine: Engine) {
    let config = r#"
[[site]]
root = "site"
error_pages = { "503" = "/busy.txt" }
headers = { X-Site = "1" }
users = { ada = "{SHA}VBPuJHI7uixaa6LQGWx4s+5GKNE=" }
[[site.route]]
match = "/*"
redirect = "https://elsewhere.test/$1"
[[site.route]]
match = "/health"
respond = { text = "healthy\n" }
[[site.route]]
match = "/robots.txt"
respond = { file = "/other/robots.txt", headers = { Cache-Control = "max-age=60" } }
[[site.route]]
match = "/legal"
respond = { status = 451, text = "<p>no", headers = { Content-Type = "text/html", Link = ["<a>", "<b>"], X-Site = "2" } }
[[site.route]]
match = "/busy"
respond = { status = 503, text = "later", headers = { Retry-After = "3600" } }
[[site.route]]
match = "/busy-page"
respond = { status = 503, headers = { Retry-After = "7" } }
[[site.route]]
match = "/none"
respond = 204
[[site.route]]
match = "/members"
respond = { text = "secret" }
access = { actions = ["read"], users = ["*"] }
[[site.route]]
match = "/absent"
respond = { file = "/absent" }
[[site.route]]
match = "/not/*"
respond = false
"#;
    let launch = Launch::new(engine)
        .config(config)
        .file("busy.txt", "the page\n")
        .argument("--h2c")
        .file("other/robots.txt", "User-agent: *\n");
    let server = launch.file("not/a.txt", "a file\n").start();
    for version in VERSIONS {
        for method in ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PROPFIND"] {
            let content: &[u8] = if method == "POST" { b"form" } else { b"" };
            let cases = [
                ("/health", 200, "healthy\n", "Content-Type: text/plain; charset=utf-8"),
                ("/robots.txt", 200, "User-agent: *\n", "Cache-Control: max-age=60"),
                ("/legal", 451, "<p>no", "Content-Type: text/html"),
                ("/legal", 451, "<p>no", "X-Site: 2"),
                ("/busy", 503, "later", "Retry-After: 3600"),
                ("/busy-page", 503, "the page\n", "Retry-After: 7"),
                ("/none", 204, "", "X-Site: 1"),
            ];
            for (target, status, text, field) in cases {
                let seen = ask(&server, version, method, target, &[], content);
                let case = format!("{version} {method} {target}: {seen:?}");
                assert_eq!((seen.status, &*seen.content), (status, if method == "HEAD" { "" } else { text }), "{case}");
                let (field, value) = field.split_once(": ").expect("it is written so");
                assert_eq!(seen.field(field), Some(value), "{case}");
                let repeated = seen.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case("Retry-After")).count();
                assert!(repeated <= 1, "{case}");
            }
        }
        let get = |target: &str, fields: &[(&str, &str)]| ask(&server, version, "GET", target, fields, b"");
        let etag = get("/health", &[]).field("ETag").expect("it has one").to_owned();
        assert_eq!(get("/health", &[("If-None-Match", &etag)]).status, 304);
        let part = get("/health", &[("Range", "bytes=0-3")]);
        assert_eq!((part.status, &*part.content), (206, "heal"));
        let deleted = ask(&server, version, "DELETE", "/health", &[("If-None-Match", &etag)], b"");
        assert_eq!((deleted.status, &*deleted.content), (200, "healthy\n"));
        // Whatever is asked for, the answer is read: by those who may.
        for method in ["GET", "POST", "PUT", "DELETE", "MKCOL", "PATCH", "PROPFIND"] {
            for target in ["/members", "/members?delete", "/members?mkdir"] {
                let seen = ask(&server, version, method, target, &[], b"");
                assert_eq!((seen.status, seen.content.contains("secret")), (401, false), "{version} {method} {target}");
            }
        }
        assert_eq!(get("/absent", &[]).status, 404);
        // What is more specific is not answered by what is less.
        assert_eq!(get("/elsewhere", &[]).status, 302);
        assert_eq!((get("/not/a.txt", &[]).status, &*get("/not/a.txt", &[]).content), (200, "a file\n"));
    }
    let said = server.finish();
    assert!(said.contains("answers `/absent` with `/absent`, and"), "{said}");
}

fn pages_and_answers_are_those_of_the_files_when_they_were_read_last(engine: Engine) {
    let config = "[[site]]\nroot = \"site\"\nerror_pages = { \"5xx\" = \"/a.html\" }\n\
                  [[site.route]]\nmatch = \"/x\"\nrespond = 503\n";
    let server = Launch::new(engine).config(config).argument("--h2c").file("a.html", page("one")).start();
    let get = || {
        let seen = ask(&server, "HTTP/1.1", "GET", "/x", &[], b"");
        (seen.status, seen.content)
    };
    assert_eq!(get(), (503, page("one")));
    fs::write(server.site().join("a.html"), page("two")).unwrap();
    order(&server, &["reload"]).unwrap();
    eventually("the page is read again", PATIENCE, || (get() == (503, page("two"))).then_some(()));
    order(&server, &["arch", "set", "sped", "--send", "copy"]).unwrap();
    assert_eq!(get(), (503, page("two")));
    let changed = config.replace("respond = 503", "respond = { status = 410, text = \"gone\" }");
    fs::write(server.directory().join("lamna.toml"), changed).unwrap();
    order(&server, &["reload"]).unwrap();
    eventually("the configuration is read again", PATIENCE, || (get() == (410, "gone".to_owned())).then_some(()));
    let explained = order(&server, &["explain", "/x"]).unwrap();
    assert!(explained.contains("step     respond: answers 410 Gone"), "{explained}");
    server.finish();
}

/// A script is never sent as the page of an error, and neither is what not every client may read.
#[test]
fn no_page_is_sent_that_a_client_could_not_have_read() {
    let config = "[[site]]\nroot = \"site\"\nusers = {}\n\
                  error_pages = { \"401\" = \"/kept/401.html\", \"410\" = \"/run.php\", \"451\" = \"/link.html\", \"4xx\" = \"/open.html\" }\n\
                  [[site.route]]\nmatch = \"/*\"\nfastcgi = \"127.0.0.1:9\"\n\
                  [[site.route]]\nmatch = \"/kept/*\"\naccess = \"deny\"\n\
                  [[site.route]]\nmatch = \"/410\"\nrespond = 410\n[[site.route]]\nmatch = \"/401\"\nrespond = 401\n\
                  [[site.route]]\nmatch = \"/451\"\nrespond = 451\n[[site.route]]\nmatch = \"/402\"\nrespond = 402\n"
        .replace("users = {}\n", "");
    let launch = Launch::new(AMPED).config(&config).file("kept/401.html", "SECRET").file("run.php", "<?php SECRET");
    let launch = launch.file("open.html", "open");
    std::os::unix::fs::symlink("kept/401.html", launch.site().join("link.html")).unwrap();
    let server = launch.start();
    for (path, expected) in [("/410", ""), ("/401", ""), ("/451", ""), ("/402", "open"), ("/kept/a", "open")] {
        let seen = ask(&server, "HTTP/1.1", "GET", path, &[], b"");
        assert!(seen.status >= 400 && !seen.content.contains("SECRET"), "{path}: {seen:?}");
        assert!(expected.is_empty() || seen.content == expected, "{path}: {seen:?}");
    }
    let said = server.finish();
    assert!(said.contains("`/kept/401.html` as its page for 401, and not every client may read it"), "{said}");
}

fn a_file_is_not_sent_for_another_path_where_a_route_answers_otherwise(engine: Engine) {
    let script = "#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\nthe script'\n";
    let config = "[[site]]\nroot = \"site\"\nindex = [\"index.html\"]\n\
        [[site.route]]\nmatch = \"/secret/*\"\nrespond = { status = 403, text = \"fixed\" }\n\
        [[site.route]]\nmatch = \"/nowhere/*\"\nrewrite = \"/.denied\"\n\
        [[site.route]]\nmatch = { path = \"/some/*\", header = { X-Bad = true } }\nrespond = 403\n\
        [[site.route]]\nmatch = { path = \"/open/*\", header = { X-Bad = true } }\nrespond = 403\n\
        [[site.route]]\nmatch = { path = \"/part/*\", header = { X-Bad = true } }\nrewrite = \"/.denied\"\n\
        [[site.route]]\nmatch = \"/parted/*\"\nrewrite = \"/part/$1\"\n\
        [[site.route]]\nmatch = \"/moved/a.txt\"\nredirect = { to = \"/from-moved\", status = 301 }\n\
        [[site.route]]\nmatch = { path = \"/moved/b.txt\", query = { x = \"1\" } }\nredirect = { to = \"/from-moved\", status = 301 }\n\
        [[site.route]]\nmatch = \"/from-moved\"\nrewrite = \"/moved/a.txt\"\n\
        [[site.route]]\nmatch = \"/also-moved\"\nrewrite = \"/moved/b.txt\"\n\
        [[site.route]]\nmatch = \"*.cgi\"\ncgi = true\n\
        [[site.route]]\nmatch = \"/try/*\"\ntry = [\"/secret/$1\"]\n\
        [[site.route]]\nmatch = \"/rewrite/*\"\nrewrite = \"/nowhere/$1\"\n\
        [[site.route]]\nmatch = \"/led/*\"\nrewrite = \"/some/$1\"\n";
    let names = [
        "secret/a.txt",
        "nowhere/a.txt",
        "some/a.txt",
        "part/a.txt",
        "open/a.txt",
        "open/index.html",
        "moved/a.txt",
        "moved/b.txt",
    ];
    let launch = names.iter().fold(Launch::new(engine).config(config), |launch, name| launch.file(name, "the file"));
    let launch = launch.file("secret/run.cgi", script);
    fs::set_permissions(launch.site().join("secret/run.cgi"), fs::Permissions::from_mode(0o755)).unwrap();
    let server = launch.start();
    for _ in 0..2 {
        for path in [
            "/secret/a.txt",
            "/nowhere/a.txt",
            "/try/a.txt",
            "/try/run.cgi",
            "/rewrite/a.txt",
            "/led/a.txt",
            "/parted/a.txt",
        ] {
            let answer = server.connect().get(path).unwrap();
            let content = String::from_utf8_lossy(&answer.content).into_owned();
            assert!(answer.status >= 400, "{path}: {}", answer.status);
            assert!(!content.contains("the file") && !content.contains("the script"), "{path}: {content}");
        }
        for path in ["/open/a.txt", "/open/", "/some/a.txt", "/part/a.txt", "/from-moved", "/also-moved?x=1"] {
            assert_eq!(server.connect().get(path).unwrap().status, 200, "{path}");
        }
    }
    server.finish();
    // Each of them alone: nothing is looked at that a site has none of.
    for route in ["match = \"/in/*\"\nrespond = 403", "match = \"/in/*\"\nrewrite = \"/.denied\""] {
        let config = format!(
            "[[site]]\nroot = \"site\"\n[[site.route]]\n{route}\n[[site.route]]\nmatch = \"/to/*\"\ntry = [\"/in/$1\"]\n"
        );
        let server = Launch::new(engine).config(&config).file("in/a.txt", "the file").start();
        let answer = server.connect().get("/to/a.txt").unwrap();
        assert!(answer.status >= 400 && answer.content != b"the file", "{route}: {}", answer.status);
        server.finish();
    }
}
