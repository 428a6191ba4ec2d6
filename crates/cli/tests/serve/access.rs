//! Who is let in: by password, token and network, by route and by action; and that nothing leads past a rule.
//!
//! Owns: these cases, with every engine, and the recipes of the manual.

mod hashes;
mod identity;
mod listings;
mod service;
mod unread;
mod uploaders;
mod ways;
mod withheld;

use std::net::TcpStream;
use std::time::Instant;

use crate::client::{Client, Response};
use crate::engine::{Engine, for_engines};
use crate::http2::{Http2, request};
use crate::server::{Launch, Server};

for_engines!([
    mp = MP,
    thread_pool = THREAD_POOL,
    thread_per_request = THREAD_PER_REQUEST,
    thread_per_session = THREAD_PER_SESSION,
    sped = SPED,
    sped_caches_off = SPED_CACHES_OFF,
    amped = AMPED,
    amped_with_helper_processes = AMPED_WITH_HELPER_PROCESSES,
    co_amped = CO_AMPED,
    pipelined = PIPELINED,
    proactor = PROACTOR,
] => [
    the_manual_says_who_is_let_in,
    nothing_leads_past_a_rule,
    many_are_let_in_with_one_password_over_either_version,
    wrong_passwords_are_held_back_and_known_ones_are_not,
    a_change_that_is_for_anybody_tells_no_guess_of_a_password_from_another,
]);

const MANUAL: &str = include_str!("../../../../docs/access.md");

/// Hashes of `open sesame` and `other`, which cost next to nothing.
pub(crate) const SESAME: &str =
    "$argon2id$v=19$m=64,t=1,p=1$c2FsdHNhbHRzYWx0c2FsdA$kyj4KAQPkDHofxQqmZFrtcrDql5eltyrs3W6/tB5JPs";
pub(crate) const OTHER: &str =
    "$argon2id$v=19$m=64,t=1,p=1$c2FsdHNhbHRzYWx0c2FsdA$BvYTkGmZf5MeMxdpG4ejdNh5dYfFhvxujCGPWIhqBo8";
/// `ada:open sesame`, `ada:wrong` and `bob:other`.
pub(crate) const ADA: &str = "Authorization: Basic YWRhOm9wZW4gc2VzYW1l\r\n";
pub(crate) const WRONG: &str = "Authorization: Basic YWRhOndyb25n\r\n";
pub(crate) const BOB: &str = "Authorization: Basic Ym9iOm90aGVy\r\n";

fn ask(server: &Server, method: &str, target: &str, fields: &str, content: &str) -> Response {
    let mut client = server.connect();
    let length = if content.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", content.len()) };
    client.send(format!("{method} {target} HTTP/1.1\r\nHost: a\r\n{length}{fields}\r\n{content}").as_bytes());
    let response = client.receive(method != "HEAD").unwrap_or_else(|fault| panic!("{method} {target}: {fault}"));
    response.check().unwrap_or_else(|fault| panic!("{method} {target}: {fault}"));
    response
}

fn fenced<'t>(text: &'t str, kind: &str) -> Vec<&'t str> {
    let fence = format!("```{kind}\n");
    text.split(&fence).skip(1).map(|piece| piece.split("```").next().unwrap_or_default()).collect()
}

/// A configuration of the manual with hashes that cost nothing.
fn cheap(text: &str) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some(at) = rest.find("$argon2id$") {
        let end = at + rest[at..].find('"').expect("a hash is quoted");
        out.push_str(&rest[..at]);
        out.push_str(SESAME);
        rest = &rest[end..];
    }
    out + rest
}

/// Each configuration is followed by what comes of it: lines as `GET /a (ada) -> 200`.
fn the_manual_says_who_is_let_in(engine: Engine) {
    let (configurations, exchanges) = (fenced(MANUAL, "toml"), fenced(MANUAL, "text"));
    assert!(configurations.len() >= 4 && configurations.len() == exchanges.len());
    for (configuration, lines) in configurations.into_iter().zip(exchanges) {
        let launch =
            Launch::new(engine).file("a.txt", "a\n").file("intranet/b.txt", "b\n").config(&cheap(configuration));
        let server = launch.start();
        for line in lines.lines() {
            let (asked, status) = line.split_once(" -> ").expect(line);
            let (asked, who) =
                asked.split_once(" (").map_or((asked, ""), |(asked, who)| (asked, who.trim_end_matches(')')));
            let (method, target) = asked.split_once(' ').expect(line);
            let fields = match who {
                "" => "",
                "ada" => ADA,
                "a wrong password" => WRONG,
                "the token" => "Authorization: Bearer abcdefghijklmnop\r\n",
                other => panic!("{other}"),
            };
            for _ in 0..2 {
                let content = if method == "PUT" { "new\n" } else { "" };
                let response = ask(&server, method, target, fields, content);
                let is_made_anew = method == "PUT" && status == "201" && response.status == 204;
                assert!(response.status.to_string() == status || is_made_anew, "{line}: {response:?}");
                assert_eq!(response.field("WWW-Authenticate").is_some(), status == "401", "{line}");
            }
        }
        server.finish();
    }
}

/// A site with a folder for ada, one file for bob in it, and other ways to both.
fn guarded(engine: Engine) -> Server {
    let config = format!(
        r#"[[site]]
root = "site"
browse = true
upload = true
delete = true
mkdir = true
spa = false
users = {{ ada = "{SESAME}", bob = "{OTHER}" }}
error_pages = {{ "404" = "/secret/404.html" }}
[[site.route]]
match = "/secret/*"
access = {{ users = ["ada"] }}
immutable = true
[[site.route]]
match = ["/secret/bob/*", "/page.html", "/note.txt", "/index/index.html"]
access = {{ users = ["bob"] }}
[[site.route]]
match = "/way/*"
rewrite = "/secret/$1"
[[site.route]]
match = "/try/*"
try = ["/secret/$1", "/open.txt"]
[[site.route]]
match = "/clean/*"
try = ["/$1.html"]
"#
    );
    let secret = "the secret\n";
    Launch::new(engine)
        .config(&config)
        .argument("--h2c")
        .file("open.txt", "open\n")
        .file("open/a.txt", "open\n")
        .file("secret/a.txt", secret)
        .file("secret/404.html", secret)
        .file("secret/bob/b.txt", secret)
        .file("page.html", secret)
        .file("index/index.html", secret)
        .file("note.txt", secret)
        .file("note.txt.gz", secret)
        .file("open/dir.txt", "x")
        .start()
}

fn nothing_leads_past_a_rule(engine: Engine) {
    let server = guarded(engine);
    // Whoever may fills the cache.
    assert_eq!(ask(&server, "GET", "/open.txt", "", "").status, 200);
    for round in 0..2 {
        let own = ask(&server, "GET", "/secret/a.txt", ADA, "");
        assert_eq!((own.status, own.field("Cache-Control")), (200, Some("private")), "{round}");
        let tag = own.field("ETag").map(str::to_owned).unwrap_or_default();
        for (method, target, fields) in [
            ("GET", "/secret/a.txt", ""),
            ("HEAD", "/secret/a.txt", ""),
            ("GET", "/secret/gone", ""),
            ("GET", "//x/../secret/%61.txt", ""),
            ("GET", "/secret/", ""),
            ("GET", "/secret/?download=tar", ""),
            ("GET", "/secret/a.txt", "Range: bytes=0-1\r\n"),
            ("GET", "/secret/a.txt", WRONG),
            ("GET", "/secret/a.txt", "Authorization: Basic !\r\n"),
            ("DELETE", "/secret/a.txt", ""),
            ("MKCOL", "/secret/new", ""),
        ] {
            let response = ask(&server, method, target, fields, "");
            assert_eq!(response.status, 401, "{method} {target} {fields}");
            assert_eq!(response.field("Cache-Control"), Some("private"));
        }
        let conditional = ask(&server, "GET", "/secret/a.txt", &format!("If-None-Match: {tag}\r\n"), "");
        assert_eq!(conditional.status, 401);
        assert_eq!(ask(&server, "PUT", "/secret/new.txt", "", "new\n").status, 401);
        // Another user's is no answer, whoever asks.
        for (target, fields) in [("/secret/a.txt", BOB), ("/secret/bob/b.txt", ADA)] {
            assert_eq!(ask(&server, "GET", target, fields, "").status, 403, "{target}");
        }
        for target in
            ["/way/a.txt", "/try/a.txt", "/way/", "/clean/page", "/index/", "/note.txt.gz", "/gone", "/open/gone"]
        {
            for fields in ["", "Accept-Encoding: gzip\r\n"] {
                let response = ask(&server, "GET", target, fields, "");
                let text = String::from_utf8_lossy(&response.content).into_owned();
                assert!(matches!(response.status, 403 | 404) && !text.contains("the secret"), "{target}: {response:?}");
            }
        }
        for target in ["/", "/?download=tar", "/?download=zip"] {
            let response = ask(&server, "GET", target, "", "");
            let text = String::from_utf8_lossy(&response.content).into_owned();
            assert!(response.status == 200 && text.contains("open.txt"), "{target}");
            assert!(!text.contains("secret") && !text.contains("note.txt"), "{target}: {text}");
        }
        let inner = ask(&server, "GET", "/secret/", ADA, "");
        let text = String::from_utf8_lossy(&inner.content).into_owned();
        assert!(inner.status == 200 && text.contains("a.txt") && !text.contains("bob"), "{text}");
        let archive = ask(&server, "GET", "/secret/?download=tar", ADA, "");
        let text = String::from_utf8_lossy(&archive.content).into_owned();
        assert!(text.contains("a.txt") && !text.contains("b.txt"));
    }
    let form = "--x\r\nContent-Disposition: form-data; name=\"f\"; filename=\"note.txt\"\r\n\r\nnew\r\n--x--\r\n";
    let fields = "Content-Type: multipart/form-data; boundary=x\r\n";
    let status = ask(&server, "POST", "/", fields, form).status;
    assert_eq!(status, 403);
    assert_eq!(ask(&server, "DELETE", "/secret", "", "").status, 403);
    let preflight = "Origin: http://b\r\nAccess-Control-Request-Method: PUT\r\n";
    assert_eq!(ask(&server, "OPTIONS", "/secret/a.txt", preflight, "").status, 204);
    server.finish();
}

fn many_are_let_in_with_one_password_over_either_version(engine: Engine) {
    let server = guarded(engine);
    let mut clients: Vec<Client<TcpStream>> = (0..8).map(|_| server.connect()).collect();
    for client in &mut clients {
        // A request behind it waits, and is as it was.
        let one = format!("GET /secret/a.txt HTTP/1.1\r\nHost: a\r\n{ADA}\r\n");
        client.send(format!("{one}GET /open.txt HTTP/1.1\r\nHost: a\r\n\r\n{one}").as_bytes());
    }
    for client in &mut clients {
        for content in [&b"the secret\n"[..], b"open\n", b"the secret\n"] {
            let response = client.receive(true).unwrap();
            assert_eq!((response.status, &response.content[..]), (200, content));
        }
    }
    // Content comes to whoever takes it, though a password was verified first.
    let content = "x".repeat(100_000);
    assert_eq!(ask(&server, "PUT", "/note.txt", BOB, &content).status, 204);
    assert_eq!(ask(&server, "GET", "/note.txt", BOB, "").content.len(), content.len());
    let mut http2 = Http2::connect(server.address());
    let fields = [("authorization", "Basic Ym9iOm90aGVy")];
    let mut put = request("PUT", "/secret/bob/c.txt", &fields);
    *put.body_mut() = content.clone().into_bytes();
    let requests = vec![put, request("GET", "/secret/bob/b.txt", &fields), request("GET", "/secret/bob/b.txt", &[])];
    let statuses: Vec<u16> = http2.ask(requests).into_iter().map(|answer| answer.unwrap().status).collect();
    assert_eq!(statuses, [201, 200, 401]);
    server.finish();
}

fn wrong_passwords_are_held_back_and_known_ones_are_not(engine: Engine) {
    let server = guarded(engine);
    assert_eq!(ask(&server, "GET", "/secret/a.txt", ADA, "").status, 200);
    let begun = Instant::now();
    let verified = (0..400).take_while(|_| ask(&server, "GET", "/secret/a.txt", WRONG, "").status == 401).count();
    // All processes count together: ten at once, and one more every six seconds.
    let allowed = 10 + begun.elapsed().as_secs() as usize / 6 + 1;
    assert!((10..=allowed).contains(&verified), "{verified} of {allowed}");
    let held_back = ask(&server, "GET", "/secret/a.txt", WRONG, "");
    assert_eq!(held_back.status, 429);
    assert!(held_back.field("Retry-After").is_some());
    // A right guess is told from a wrong one by nothing, though another network has just shown the same password.
    let from = |host: u8, fields: &str| {
        let mut client = server.connect_from(host);
        client.send(format!("GET /secret/a.txt HTTP/1.1\r\nHost: a\r\n{fields}\r\n").as_bytes());
        client.receive(true).unwrap().status
    };
    let guessed: Vec<u16> = (0..40).map(|_| from(3, WRONG)).filter(|status| *status != 401).collect();
    assert!(guessed.len() >= 20 && guessed.iter().all(|status| *status == 429), "{guessed:?}");
    assert_eq!((from(2, ADA), from(3, ADA)), (200, 429));
    assert_eq!((from(2, ADA), from(4, ADA)), (200, 200), "other networks go on");
    // Who has shown it before goes on, too. Worker processes each know what they were shown themselves.
    let again = ask(&server, "GET", "/secret/a.txt", ADA, "").status;
    assert!(again == 200 || again == 429 && ["mp", "co-amped"].contains(&engine.architecture), "{again}");
    // Only for this user: another one of the same network is verified, for the first time.
    assert_eq!(ask(&server, "GET", "/secret/bob/b.txt", BOB, "").status, 200);
    assert_eq!(ask(&server, "GET", "/open.txt", "", "").status, 200);
    server.finish();
}

/// What a form or a link changes is at another path than the request asks for, and may be for one user.
fn a_change_that_is_for_anybody_tells_no_guess_of_a_password_from_another(engine: Engine) {
    let config = format!(
        r#"
h2c = true
limit_exempt = []
[[site]]
root = "site"
upload = true
delete = true
users = {{ ada = "{SESAME}", bob = "{OTHER}" }}
[[site.route]]
match = ["/drop/ada-*", "/hers/*"]
access = {{ users = ["ada"] }}
"#
    );
    let launch = Launch::new(engine).config(&config).file("drop/a.txt", "a").file("hers/a.txt", "a");
    std::os::unix::fs::symlink("../hers/a.txt", launch.site().join("drop/link.txt")).unwrap();
    let server = launch.start();
    let form = "--x\r\nContent-Disposition: form-data; name=\"f\"; filename=\"ada-y\"\r\n\r\nnew\r\n--x--\r\n";
    let multipart = "multipart/form-data; boundary=x";
    // The form by HTTP/1.1 and by HTTP/2, and a change of what a link leads to.
    let over_http1 = |host: u8, fields: &str| {
        let mut client = server.connect_from(host);
        let head = format!("Host: a\r\nContent-Type: {multipart}\r\nContent-Length: {}\r\n{fields}", form.len());
        client.send(format!("POST /drop/ HTTP/1.1\r\n{head}\r\n{form}").as_bytes());
        client.receive(true).unwrap().status
    };
    let by_link = |host: u8, fields: &str| {
        let mut client = server.connect_from(host);
        client
            .send(format!("PUT /drop/link.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n{fields}\r\nnew").as_bytes());
        client.receive(true).unwrap().status
    };
    // Who shows nothing may change what is for anybody, and no more; who is right is let in at the first request.
    assert_eq!(ask(&server, "PUT", "/drop/open.txt", "", "new").status, 201);
    assert_eq!((over_http1(2, ""), over_http1(2, ADA)), (403, 303));
    let own_link = by_link(2, ADA);
    assert!([201, 204, 403].contains(&own_link), "{own_link}");
    // Elsewhere guesses are counted, and the right one is told from none of them.
    let guesses: Vec<u16> = (0..20).map(|_| over_http1(3, WRONG)).collect();
    assert!(guesses.starts_with(&[401; 10]) && guesses.ends_with(&[429; 5]), "{guesses:?}");
    assert_eq!((over_http1(3, ADA), by_link(3, ADA), by_link(3, WRONG)), (429, 429, 429));
    let mut http2 = Http2::connect(server.address());
    let basic = |line: &'static str| line.trim_start_matches("Authorization: ").trim_end();
    let mut guess = |line: &'static str| {
        let fields = [("authorization", basic(line)), ("content-type", multipart)];
        http2.ask(vec![request("POST", "/drop/", &fields).map(|_| form.as_bytes().to_vec())]).remove(0).unwrap().status
    };
    let guesses: Vec<u16> = (0..20).map(|_| guess(WRONG)).collect();
    assert!(guesses.starts_with(&[401; 10]) && guesses.ends_with(&[429; 5]), "HTTP/2: {guesses:?}");
    assert_eq!(guess(ADA), 429, "HTTP/2");
    // Others go on.
    assert_eq!((over_http1(2, ADA), over_http1(4, ADA), over_http1(4, BOB)), (303, 303, 403));
    server.finish();
}
