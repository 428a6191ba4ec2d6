//! A service says who is let in: files, listings, uploads and applications are for whom it says yes to, and what it
//! says besides comes to applications, and from nobody else.
//!
//! Owns: a service that answers by the session that a request shows ([`Service`]). It ends with the test.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use super::ask;
use crate::client::{APPLICATION_PATIENCE, Client, PATIENCE, Response};
use crate::control::order;
use crate::engine::{AMPED, Engine, for_engines, names_of_one_process};
use crate::gateways::Application;
use crate::gateways::php::start_php;
use crate::http2::{Http2, request};
use crate::request_id::{lines, logged};
use crate::server::{Launch, Server, eventually};
use crate::skip::skipped;
use crate::tls::{client_config, connect_as, make_pair};
use crate::tree::pattern;

for_engines!(all services_have_every_engine: [
    mp = MP,
    thread_pool = THREAD_POOL,
    thread_per_request = THREAD_PER_REQUEST,
    thread_per_session = THREAD_PER_SESSION,
    sped = SPED,
    sped_caches_off = SPED_CACHES_OFF,
    amped = AMPED,
    amped_2 = AMPED_2,
    amped_with_helper_processes = AMPED_WITH_HELPER_PROCESSES,
    co_amped = CO_AMPED,
    pipelined = PIPELINED,
    proactor = PROACTOR,
] => [
    files_listings_and_uploads_are_for_whom_the_service_lets_in,
    nothing_is_copied_or_moved_to_where_a_service_decides,
    the_service_is_told_the_request_and_is_asked_once_for_each,
    who_is_not_let_in_gets_what_the_service_answers,
    without_a_clear_yes_nobody_is_let_in,
    applications_are_told_what_the_service_says_and_by_nobody_else,
    tunnels_and_streams_are_for_whom_the_service_lets_in,
    what_is_for_one_user_is_not_kept_for_others,
    the_log_names_whom_the_service_names,
    a_request_that_a_service_is_asked_about_counts_once,
    a_service_and_an_application_are_told_what_is_believed_of_a_proxy,
]);

/// See the module.
struct Service {
    address: SocketAddr,
    shared: Arc<(Mutex<State>, Condvar)>,
}

#[derive(Default)]
struct State {
    /// The heads of the questions.
    asked: Vec<String>,
    is_held: bool,
    is_over: bool,
}

impl Service {
    fn start() -> Service {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared: Arc<(Mutex<State>, Condvar)> = Arc::default();
        let of_thread = shared.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if of_thread.0.lock().unwrap().is_over {
                    return;
                }
                let shared = of_thread.clone();
                stream.set_read_timeout(Some(APPLICATION_PATIENCE)).unwrap();
                thread::spawn(move || converse(stream, &shared));
            }
        });
        Service { address, shared }
    }

    /// The heads of the questions so far.
    fn asked(&self) -> Vec<String> {
        self.shared.0.lock().unwrap().asked.clone()
    }

    /// From now on nothing is answered, or what was held back is.
    fn hold(&self, is_held: bool) {
        self.shared.0.lock().unwrap().is_held = is_held;
        self.shared.1.notify_all();
    }

    /// The keys of a rule that asks it.
    fn rule(&self) -> String {
        format!(
            "{{ service = {{ to = \"http://{}\", path = \"/verify?a=b\", fields = [\"Remote-User\", \"Remote-Groups\"], \
             user = \"Remote-User\", timeout_ms = 20000 }} }}",
            self.address
        )
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.shared.0.lock().unwrap().is_over = true;
        self.shared.1.notify_all();
        let _ = TcpStream::connect(self.address);
    }
}

/// Answers questions until something ends the connection.
fn converse(stream: TcpStream, (state, changed): &(Mutex<State>, Condvar)) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head).ok()? == 0 {
                return None;
            }
        }
        let session = head.lines().find_map(|line| line.strip_prefix("Cookie: session=")).unwrap_or("none").to_owned();
        let mut state = state.lock().unwrap();
        state.asked.push(head);
        changed.notify_all();
        while state.is_held && !state.is_over {
            state = changed.wait(state).unwrap();
        }
        if state.is_over {
            return None;
        }
        drop(state);
        let sized = |head: &str, bytes: usize| {
            [format!("HTTP/1.1 {head}\r\nContent-Length: {bytes}\r\n\r\n").as_bytes(), &pattern(bytes, 4)].concat()
        };
        let answer = match &*session {
            "none" => sized("302 Found\r\nLocation: https://login.test/?rd=x\r\nSet-Cookie: state=1; Secure", 7),
            "ada" | "bob" => sized(
                &format!("200 OK\r\nRemote-User: {session}\r\nremote-groups: staff\r\nX-Other: no\r\nSet-Cookie: a=b"),
                0,
            ),
            "nobody" => b"HTTP/1.1 204 No Content\r\n\r\n".to_vec(),
            "long" => sized("200 OK", 50_000),
            "endless" => sized("200 OK", 3_000_000),
            "hints" => [&b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"[..], &sized("200 OK", 0)].concat(),
            "unauthorized" => {
                sized("401 Unauthorized\r\nWWW-Authenticate: Custom realm=\"x\"\r\nCache-Control: no-store", 70_000)
            }
            "forbidden" => sized("403 Forbidden", 9),
            "often" => sized("429 Too Many Requests\r\nRetry-After: 7", 0),
            "failed" => sized("500 Internal Server Error\r\nRemote-User: ada", 5),
            "missing" => sized("404 Not Found", 5),
            "fresh" => b"HTTP/1.1 304 Not Modified\r\n\r\n".to_vec(),
            "nonsense" => b"220 mail.example ESMTP\r\n\r\n".to_vec(),
            "cut" => b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this".to_vec(),
            "silence" => {
                let _ = reader.read(&mut [0]);
                return None;
            }
            _ => return None,
        };
        stream.write_all(&answer).ok()?;
        if matches!(&*session, "nonsense" | "cut") {
            return None;
        }
    }
}

fn cookie(session: &str) -> String {
    format!("Cookie: session={session}\r\n")
}

/// A site of which all is for whom the service lets in, but for `/open/`.
fn launch(engine: Engine, service: &Service) -> Launch {
    let rule = service.rule();
    let config = format!(
        "[[site]]\nroot = \"site\"\nbrowse = true\nupload = true\ndelete = true\naccess = {rule}\n\
         [[site.route]]\nmatch = \"/open/*\"\naccess = {{ anyone = true }}\n"
    );
    let launch = Launch::new(engine).config(&config).file("a.txt", "the secret\n").file("open/b.txt", "open\n");
    launch.file("folder/c.txt", "the secret\n")
}

fn files_listings_and_uploads_are_for_whom_the_service_lets_in(engine: Engine) {
    let service = Service::start();
    let server = launch(engine, &service).start();
    for round in 0..2 {
        for session in ["ada", "nobody", "long", "endless", "hints"] {
            let response = ask(&server, "GET", "/a.txt", &cookie(session), "");
            assert_eq!((response.status, &*response.content), (200, &b"the secret\n"[..]), "{session} {round}");
            assert_eq!(response.field("Set-Cookie"), None);
        }
        for target in ["/a.txt", "/folder/", "/folder/?download=tar", "/gone"] {
            assert_eq!(ask(&server, "GET", target, "", "").status, 302, "{target} {round}");
        }
        assert_eq!(ask(&server, "GET", "/gone", &cookie("ada"), "").status, 404);
        let listing = String::from_utf8(ask(&server, "GET", "/folder/", &cookie("ada"), "").content).unwrap();
        assert!(listing.contains("c.txt"), "{listing}");
        assert_eq!(ask(&server, "GET", "/open/b.txt", "", "").content, b"open\n");
    }
    for bytes in [1, 100_000] {
        // Another process may have the one before for a second.
        let path = &*format!("/new-{bytes}.txt");
        let content = String::from_utf8(vec![b'x'; bytes]).unwrap();
        assert_eq!(ask(&server, "PUT", path, "", &content).status, 302);
        assert!(!server.site().join(&path[1..]).exists());
        assert_eq!(ask(&server, "PUT", path, &cookie("ada"), &content).status, 201);
        assert_eq!(ask(&server, "GET", path, &cookie("ada"), "").content, content.as_bytes());
        assert_eq!(ask(&server, "DELETE", path, "", "").status, 302);
        assert_eq!(ask(&server, "DELETE", path, &cookie("ada"), "").status, 204);
    }
    // Content comes when whoever takes it asks for it, and requests behind it are as they were.
    let mut client = server.connect();
    let fields = cookie("ada");
    client.send(
        format!(
            "PUT /slow.txt HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n{fields}\r\n"
        )
        .as_bytes(),
    );
    assert_eq!(client.receive_head().unwrap().status, 100);
    client.send_slowly(b"5\r\nhello\r\n0\r\n\r\n");
    assert_eq!(client.receive(true).unwrap().status, 201);
    let get = |fields: &str| format!("GET /slow.txt HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
    client.send([get(&fields), get(""), get(&fields)].concat().as_bytes());
    let statuses = [(); 3].map(|()| client.receive(true).unwrap().status);
    assert_eq!(statuses, [200, 302, 200]);
    server.finish();
}

/// The service was asked about the source, and decides about the destination by a path of its own.
fn nothing_is_copied_or_moved_to_where_a_service_decides(engine: Engine) {
    let service = Service::start();
    let rule = service.rule();
    let config = format!(
        "[[site]]\nroot = \"site\"\nupload = true\ndelete = true\nmkdir = true\nwebdav = true\n\
         [[site.route]]\nmatch = \"/a/*\"\naccess = {rule}\n\
         [[site.route]]\nmatch = \"/private/*\"\naccess = {rule}\n\
         [[site.route]]\nmatch = \"/kept/*\"\naccess = [{{ actions = [\"delete\"], {} ]\n",
        &rule[1..]
    );
    let launch = Launch::new(engine).config(&config).file("a/x", "x").file("private/old", "old").file("open/y", "y");
    let server = launch.file("kept/old", "old").start();
    let moved = |method: &str, from: &str, to: &str| {
        ask(&server, method, from, &format!("{}Destination: {to}\r\n", cookie("ada")), "").status
    };
    for (method, from, to) in [
        ("MOVE", "/a/x", "/private/x"),
        ("COPY", "/a/x", "/private/x"),
        ("COPY", "/a/x", "/private/old"),
        ("COPY", "/a/x", "/a/z"),
        ("COPY", "/open/y", "/private/y"),
        ("MOVE", "/open", "/private/open"),
        ("COPY", "/open/y", "/kept/old"),
    ] {
        assert_eq!(moved(method, from, to), 403, "{method} {from} {to}");
    }
    assert_eq!(service.asked().len(), 4);
    assert_eq!((moved("COPY", "/a/x", "/open/x"), moved("COPY", "/open/y", "/kept/y")), (201, 201));
    assert_eq!(ask(&server, "GET", "/private/old", &cookie("ada"), "").content, b"old");
    assert!(!server.site().join("private/x").exists() && server.site().join("a/x").exists());
    server.finish();
}

/// A proxy that writes one field passes the others on as its clients send them.
fn a_service_and_an_application_are_told_what_is_believed_of_a_proxy(engine: Engine) {
    for (field, forwarded_for, forwarded_proto, host) in [
        ("forwarded", "192.0.2.7, 127.0.0.1", "http", "private.test"),
        ("x-forwarded-for", "10.0.0.1, 127.0.0.1", "https", "private.test"),
    ] {
        let service = Service::start();
        let config = format!(
            "trusted_proxies = [\"127.0.0.1\"]\nforwarded_field = \"{field}\"\n[[site]]\nroot = \"site\"\n\
             [[site.route]]\nmatch = \"/*\"\naccess = {}\n",
            service.rule()
        );
        let server = Launch::new(engine).file("a.txt", "a\n").config(&config).start();
        let mut client = server.connect();
        client.send(
            format!(
                "GET /a.txt HTTP/1.1\r\nHost: private.test\r\n{}Forwarded: for=192.0.2.7;proto=http;host=evil.test\r\n\
                 X-Forwarded-For: 10.0.0.1\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: public.test\r\nX-Real-IP: 10.9.9.9\r\n\r\n",
                cookie("ada")
            )
            .as_bytes(),
        );
        assert_eq!(client.receive(true).expect("it is answered").status, 200);
        let [head] = &service.asked()[..] else { panic!("it is asked once: {:?}", service.asked()) };
        for line in [
            format!("X-Forwarded-For: {forwarded_for}"),
            format!("X-Forwarded-Proto: {forwarded_proto}"),
            format!("X-Forwarded-Host: {host}"),
        ] {
            assert_eq!(head.matches(&format!("\r\n{line}\r\n")).count(), 1, "{line}: {head}");
        }
        assert!(!head.contains("10.9.9.9"), "{head}");
        assert_eq!(head.contains("\r\nForwarded: "), field == "forwarded", "{head}");
        server.finish();
    }
}

fn the_service_is_told_the_request_and_is_asked_once_for_each(engine: Engine) {
    let service = Service::start();
    let server = launch(engine, &service).start();
    let fields = format!(
        "{}Authorization: Basic eDp5\r\nAccept: text/x\r\nRange: bytes=0-1\r\nIf-None-Match: *\r\nX-Forwarded-Uri: /open/b.txt\r\n\
         x_forwarded_method: HEAD\r\nX-Original-URL: /open/b.txt\r\nX-Rewrite-Url: /open/b.txt\r\nRemote-User: eve\r\n",
        cookie("ada")
    );
    assert_eq!(ask(&server, "PUT", "/open/../%66older/%64.txt?q=%20", &fields, "new\n").status, 201);
    let [head] = &service.asked()[..] else { panic!("it is asked once: {:?}", service.asked()) };
    assert!(head.starts_with("GET /verify?a=b HTTP/1.1\r\nHost: a\r\n"), "{head}");
    for line in [
        "Authorization: Basic eDp5",
        "Cookie: session=ada",
        "Accept: text/x",
        "X-Forwarded-Method: PUT",
        "X-Forwarded-Uri: /folder/d.txt?q=%20",
        "X-Forwarded-For: 127.0.0.1",
        "X-Forwarded-Proto: http",
        "X-Forwarded-Host: a",
    ] {
        assert_eq!(head.matches(&format!("\r\n{line}\r\n")).count(), 1, "{line}: {head}");
    }
    let lower = head.to_lowercase();
    for name in ["content-", "range", "if-none", "x-original", "x-rewrite", "remote-user", "x_forwarded"] {
        assert!(!lower.contains(name), "{name}: {head}");
    }
    assert_eq!((lower.matches("x-forwarded-uri").count(), lower.matches("x-forwarded-method").count()), (1, 1));
    for number in 2..10 {
        assert_eq!(ask(&server, "GET", "/a.txt", &cookie("ada"), "").status, 200);
        assert_eq!(service.asked().len(), number);
    }
    // A preflight shows nothing of who it is from.
    let preflight = "Origin: http://b\r\nAccess-Control-Request-Method: PUT\r\n";
    assert_eq!(ask(&server, "OPTIONS", "/a.txt", preflight, "").status, 204);
    assert_eq!(service.asked().len(), 9);
    server.finish();
}

fn who_is_not_let_in_gets_what_the_service_answers(engine: Engine) {
    let service = Service::start();
    let server = launch(engine, &service).start();
    for _ in 0..2 {
        let login = ask(&server, "GET", "/a.txt", "", "");
        assert_eq!((login.status, login.field("Location")), (302, Some("https://login.test/?rd=x")));
        assert_eq!((login.field("Set-Cookie"), &*login.content), (Some("state=1; Secure"), &*pattern(7, 4)));
        let unauthorized = ask(&server, "GET", "/a.txt", &cookie("unauthorized"), "");
        assert_eq!((unauthorized.status, unauthorized.content.len()), (401, 70_000));
        assert_eq!(unauthorized.field("WWW-Authenticate"), Some("Custom realm=\"x\""));
        assert_eq!(unauthorized.field("Cache-Control"), Some("no-store"));
        assert_eq!(ask(&server, "HEAD", "/a.txt", &cookie("unauthorized"), "").status, 401);
        assert_eq!(ask(&server, "GET", "/a.txt", &cookie("forbidden"), "").status, 403);
        let often = ask(&server, "GET", "/a.txt", &cookie("often"), "");
        assert_eq!((often.status, often.field("Retry-After")), (429, Some("7")));
    }
    server.finish();
}

fn without_a_clear_yes_nobody_is_let_in(engine: Engine) {
    let service = Service::start();
    let rule = service.rule().replace("20000", "300");
    let config = format!("[[site]]\nroot = \"site\"\naccess = {rule}\n");
    let server = Launch::new(engine).config(&config).file("a.txt", "the secret\n").start();
    assert_eq!(ask(&server, "GET", "/a.txt", &cookie("ada"), "").status, 200);
    for (session, status) in [
        ("failed", 502),
        ("missing", 502),
        ("fresh", 502),
        ("nonsense", 502),
        ("cut", 502),
        ("gone", 502),
        ("silence", 504),
    ] {
        let response = ask(&server, "GET", "/a.txt", &cookie(session), "");
        assert_eq!(response.status, status, "{session}");
        assert!(!String::from_utf8_lossy(&response.content).contains("the secret"));
    }
    let address = service.address;
    drop(service);
    eventually("the service has ended", PATIENCE, || TcpStream::connect(address).is_err().then_some(()));
    let status = ask(&server, "GET", "/a.txt", &cookie("ada"), "").status;
    assert!(matches!(status, 502 | 503), "{status}");
    server.finish();
}

/// A server before an application that answers with the head that it is told.
fn before(engine: Engine, service: &Service, application: &Application) -> Launch {
    let (rule, to) = (service.rule(), application.address);
    let config = format!(
        "[[site]]\nroot = \"site\"\n[[site.route]]\nmatch = \"/app/*\"\nproxy = \"http://{to}\"\naccess = {rule}\n\
         [[site.route]]\nmatch = \"/app/told/open\"\naccess = {{ anyone = true }}\n\
         [[site.route]]\nmatch = \"/app/told/kept\"\ncache = {{ fresh_s = 1000 }}\n"
    );
    Launch::new(engine).config(&config).file("a.txt", "a\n")
}

fn told(server: &Server, target: &str, fields: &str) -> String {
    let response = ask(server, "GET", target, fields, "");
    assert_eq!(response.status, 200, "{target}");
    String::from_utf8(response.content).unwrap()
}

fn applications_are_told_what_the_service_says_and_by_nobody_else(engine: Engine) {
    let (service, application) = (Service::start(), Application::start());
    let server = before(engine, &service, &application).start();
    let forged = "Remote-User: root\r\nREMOTE_GROUPS: wheel\r\nremote-user: root\r\nConnection: Remote-User\r\nX-Other: mine\r\n";
    for _ in 0..2 {
        let head = told(&server, "/app/told/x", &format!("{}{forged}", cookie("ada")));
        for line in ["Remote-User: ada", "Remote-Groups: staff", "X-Other: mine", "Cookie: session=ada"] {
            assert_eq!(head.matches(&format!("\r\n{line}\r\n")).count(), 1, "{line}: {head}");
        }
        assert!(!head.contains("root") && !head.contains("wheel"), "{head}");
        for fields in [cookie("nobody"), cookie("long")] {
            let head = told(&server, "/app/told/x", &format!("{fields}{forged}"));
            assert!(!head.to_lowercase().contains("remote"), "the service says nothing: {head}");
        }
        let head = told(&server, "/app/told/open", forged);
        assert!(!head.to_lowercase().contains("remote"), "nobody else says it: {head}");
        assert_eq!(ask(&server, "GET", "/app/told/x", forged, "").status, 302);
    }
    let content = String::from_utf8(vec![b'y'; 300_000]).unwrap();
    assert_eq!(ask(&server, "POST", "/app/echo", "", &content).status, 302);
    let mut client = server.connect();
    for _ in 0..2 {
        assert!(post(&mut client, "ada", &content).content == content.as_bytes());
    }
    server.finish();
}

fn post(client: &mut Client<TcpStream>, session: &str, content: &str) -> Response {
    let (fields, length) = (cookie(session), content.len());
    client.send(format!("POST /app/echo HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n{fields}\r\n").as_bytes());
    client.send(content.as_bytes());
    client.receive(true).unwrap()
}

fn tunnels_and_streams_are_for_whom_the_service_lets_in(engine: Engine) {
    let (service, application) = (Service::start(), Application::start());
    let server = before(engine, &service, &application).argument("--h2c").start();
    let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n";
    assert_eq!(ask(&server, "GET", "/app/web-socket", upgrade, "").status, 302);
    let mut client = server.connect();
    let fields = cookie("ada");
    client.send(format!("GET /app/web-socket HTTP/1.1\r\nHost: a\r\n{upgrade}{fields}\r\n").as_bytes());
    assert_eq!(client.receive_head().unwrap().status, 101);
    client.send(b"through the tunnel");
    assert_eq!(client.receive_exactly(18).unwrap(), b"through the tunnel");
    client.end_sending();
    client.expect_end().unwrap();
    assert!(service.asked().iter().all(|head| !head.contains("Upgrade") && !head.contains("websocket")));
    let mut http2 = Http2::connect(server.address());
    let ada = [("cookie", "session=ada"), ("remote-user", "root")];
    let mut post = request("POST", "/app/echo", &ada);
    *post.body_mut() = pattern(100_000, 5);
    let requests = vec![
        post,
        request("GET", "/app/told/x", &ada),
        request("GET", "/app/told/x", &[]),
        request("GET", "/a.txt", &[]),
    ];
    let answers: Vec<_> = http2.ask(requests).into_iter().map(|answer| answer.unwrap()).collect();
    let statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
    assert_eq!(statuses, [200, 200, 302, 200]);
    assert!(answers[0].content == pattern(100_000, 5));
    let head = String::from_utf8_lossy(&answers[1].content).into_owned();
    assert!(head.contains("\r\nRemote-User: ada\r\n") && !head.contains("root"), "{head}");
    server.finish();
}

fn what_is_for_one_user_is_not_kept_for_others(engine: Engine) {
    let (service, application) = (Service::start(), Application::start());
    let server = before(engine, &service, &application).start();
    for round in 0..3 {
        for user in ["ada", "bob"] {
            let head = told(&server, "/app/told/kept", &cookie(user));
            assert!(head.contains(&format!("\r\nRemote-User: {user}\r\n")), "{round}: {head}");
        }
        assert_eq!(ask(&server, "GET", "/app/told/kept", "", "").status, 302, "{round}");
    }
    server.finish();
}

fn the_log_names_whom_the_service_names(engine: Engine) {
    let service = Service::start();
    let (launch, log) = logged(launch(engine, &service), "json");
    let server = launch.start();
    for (target, session, status) in [("/a.txt", "ada", 200), ("/a.txt", "nobody", 200), ("/a.txt", "none", 302)] {
        assert_eq!(ask(&server, "GET", target, &cookie(session), "").status, status);
    }
    assert_eq!(ask(&server, "GET", "/open/b.txt", &cookie("ada"), "").status, 200);
    let named: Vec<String> = lines(&log, 4).into_iter().filter(|line| line.contains("user.name")).collect();
    assert!(named.len() == 1 && named[0].contains("\"user.name\":\"ada\""), "{named:?}");
    server.finish();
}

fn a_request_that_a_service_is_asked_about_counts_once(engine: Engine) {
    let service = Service::start();
    let rule = service.rule();
    let config = format!(
        "limit_exempt = []\n[[site]]\nroot = \"site\"\naccess = {rule}\n[[site.limit]]\nrequests = \"1/h burst 2\"\n"
    );
    let server = Launch::new(engine).config(&config).file("a.txt", "a\n").start();
    let statuses = [(); 3].map(|()| ask(&server, "GET", "/a.txt", &cookie("ada"), "").status);
    assert_eq!((statuses, service.asked().len()), ([200, 200, 429], 2));
    server.finish();
}

for_engines!([
    secured_mp = MP,
    secured_thread_pool = THREAD_POOL,
    secured_thread_per_request = THREAD_PER_REQUEST,
    secured_thread_per_session = THREAD_PER_SESSION,
    secured_sped = SPED,
    secured_amped = AMPED,
    secured_co_amped = CO_AMPED,
    secured_pipelined = PIPELINED,
    secured_proactor = PROACTOR,
] => [over_tls_the_service_is_told_so, scripts_are_told_whom_the_service_names]);

fn scripts_are_told_whom_the_service_names(engine: Engine) {
    const WHO: &str = "<?php echo $_SERVER['REMOTE_USER'] ?? '-', ' ', $_SERVER['AUTH_TYPE'] ?? '-', ' ', \
                       $_SERVER['HTTP_REMOTE_USER'] ?? '-', ' ', $_SERVER['HTTP_REMOTE_GROUPS'] ?? '-';";
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("php.sock");
    let Some(_php) = start_php(directory.path(), &socket) else {
        return skipped("access::service", "php-fpm is not installed");
    };
    let service = Service::start();
    let config = format!(
        "[[site]]\nroot = \"site\"\naccess = {}\n[[site.route]]\nmatch = \"*\"\nfastcgi = \"unix:{}\"\n\
         [[site.route]]\nmatch = \"/open.php\"\naccess = {{ anyone = true }}\n",
        service.rule(),
        socket.display()
    );
    let server = Launch::new(engine).config(&config).file("who.php", WHO).file("open.php", WHO).start();
    let forged = "Remote-User: root\r\nREMOTE_GROUPS: wheel\r\n";
    for _ in 0..2 {
        for (target, session, expected) in [
            ("/who.php", "ada", "ada Service ada staff"),
            ("/who.php", "nobody", "- - - -"),
            ("/open.php", "ada", "- - - -"),
        ] {
            let response = ask(&server, "GET", target, &format!("{}{forged}", cookie(session)), "");
            assert_eq!((response.status, &*String::from_utf8_lossy(&response.content)), (200, expected), "{target}");
        }
        assert_eq!(ask(&server, "POST", "/who.php", forged, "a=b").status, 302);
    }
    server.finish();
}

fn over_tls_the_service_is_told_so(engine: Engine) {
    let service = Service::start();
    let config = format!(
        "[[site]]\nroot = \"site\"\nhosts = [\"site.test\"]\ncertificate = \"certificate.pem\"\nkey = \"key.pem\"\naccess = {}\n",
        service.rule()
    );
    let launch = Launch::new(engine).config(&config).file("a.txt", "the secret\n");
    make_pair(launch.directory(), &["site.test"]);
    let server = launch.start();
    let own = std::fs::read(server.directory().join("certificate.pem")).unwrap();
    let mut client = connect_as(&server, &Arc::new(client_config(&own)), "site.test");
    for (session, status) in [("none", 302), ("ada", 200), ("forbidden", 403), ("ada", 200)] {
        client.send(format!("GET /a.txt HTTP/1.1\r\nHost: site.test\r\n{}\r\n", cookie(session)).as_bytes());
        assert_eq!(client.receive(true).unwrap().status, status, "{session}");
    }
    assert!(service.asked().iter().all(|head| head.contains("\r\nX-Forwarded-Proto: https\r\n")));
    server.finish();
}

#[test]
fn a_question_that_is_under_way_survives_changes_of_engines_and_reloads() {
    let service = Service::start();
    let server = launch(AMPED, &service).start();
    let mut clients: Vec<Client<TcpStream>> = (0..4).map(|_| server.connect()).collect();
    let orders = names_of_one_process().into_iter().map(|name| vec!["arch", "set", name]).chain([vec!["reload"]]);
    for words in orders {
        service.hold(true);
        let before = service.asked().len();
        for (number, client) in clients.iter_mut().enumerate() {
            let session = if number == 0 { "none" } else { "ada" };
            let line = if number == 1 { "PUT /new.txt" } else { "GET /a.txt" };
            let length = if number == 1 { "Content-Length: 4\r\n" } else { "" };
            let content = if number == 1 { "new\n" } else { "" };
            let fields = cookie(session);
            client.send(format!("{line} HTTP/1.1\r\nHost: a\r\n{length}{fields}\r\n{content}").as_bytes());
        }
        eventually("all are asked about", PATIENCE, || (service.asked().len() == before + 4).then_some(()));
        order(&server, &words).unwrap_or_else(|said| panic!("{words:?}: {said}"));
        service.hold(false);
        for (number, client) in clients.iter_mut().enumerate() {
            let status = client.receive(true).unwrap_or_else(|fault| panic!("{words:?} {number}: {fault}")).status;
            let expected = [302, 201, 200, 200][number];
            assert!(status == expected || (expected, status) == (201, 204), "{words:?} {number}: {status}");
        }
    }
    server.finish();
}
