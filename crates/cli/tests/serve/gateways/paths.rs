//! The path that an application is asked for: what the client has sent, as long as no rule reads it otherwise.
//!
//! Owns: an application that answers with the target that it is asked for ([`Echo`]).

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use crate::access::{ADA, SESAME};
use crate::client::APPLICATION_PATIENCE;
use crate::control::order;
use crate::engine::{Engine, for_engines};
use crate::http2::Http2;
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
    an_application_is_asked_for_what_the_client_has_sent,
    an_application_gets_no_spelling_that_its_rules_read_otherwise,
    a_script_is_told_the_path_decoded_and_the_target_as_it_came,
    spellings_that_an_application_may_tell_apart_are_kept_apart,
    an_application_is_asked_without_a_prefix_that_it_does_not_know,
]);

/// An application that answers with the target that it is asked for, for caches to keep.
pub(crate) struct Echo {
    pub(crate) address: SocketAddr,
    is_over: Arc<AtomicBool>,
}

impl Echo {
    pub(crate) fn start() -> Echo {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, is_over) = (listener.local_addr().unwrap(), Arc::new(AtomicBool::new(false)));
        let over = is_over.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if over.load(Relaxed) {
                    return;
                }
                stream.set_read_timeout(Some(APPLICATION_PATIENCE)).unwrap();
                thread::spawn(move || echo(stream));
            }
        });
        Echo { address, is_over }
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
        let _ = TcpStream::connect(self.address);
    }
}

fn echo(mut stream: TcpStream) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head).ok()? == 0 {
                return None;
            }
        }
        let target = head.split(' ').nth(1)?;
        let prefix = head.lines().find(|line| line.starts_with("X-Forwarded-Prefix: ")).unwrap_or("X-Without: prefix");
        let length = target.len();
        let said =
            format!("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\n{prefix}\r\nContent-Length: {length}\r\n\r\n");
        stream.write_all(format!("{said}{target}").as_bytes()).ok()?;
    }
}

/// The status for `target`, and the content if that is 200.
pub(super) fn ask(server: &Server, target: &[u8], fields: &str) -> (u16, String) {
    let mut client = server.connect();
    client.send(&[b"GET ", target, b" HTTP/1.1\r\nHost: a\r\n", fields.as_bytes(), b"\r\n"].concat());
    let response = client.receive(true).unwrap_or_else(|fault| panic!("{}: {fault}", String::from_utf8_lossy(target)));
    let content = String::from_utf8_lossy(&response.content).into_owned();
    (response.status, if response.status == 200 { content } else { String::new() })
}

pub(super) fn site(routes: &str) -> String {
    format!("limit_exempt = []\n[[site]]\nroot = \"site\"\nusers = {{ ada = \"{SESAME}\" }}\n{routes}")
}

fn an_application_is_asked_for_what_the_client_has_sent(engine: Engine) {
    let echo = Echo::start();
    let to = echo.address;
    let routes = format!(
        "[[site.route]]\nmatch = \"/*\"\nproxy = \"http://{to}\"\n\
         [[site.route]]\nmatch = \"/one/*\"\npath = \"normal\"\n\
         [[site.route]]\nmatch = \"/files/*\"\nproxy = false\n"
    );
    let launch = Launch::new(engine).argument("--h2c").file("files/caf\u{e9}", "a name").file("files/a/b", "a file");
    let server = launch.config(&site(&routes)).start();
    let same = [
        "/api/queues/%2F/q",
        "/web/2020/https://example.com/x",
        "/a//b?c=%2F//",
        "/%7Ea%41",
        "/a|b",
        "/a%2fb%2F",
        "/%ff%C3%a9%5c",
    ];
    let check = |round: &str| {
        for target in same {
            assert_eq!(ask(&server, target.as_bytes(), ""), (200, target.to_owned()), "{round}: {target}");
        }
        for (target, asked) in [
            ("/caf\u{e9}", (200, "/caf%C3%A9")),
            ("/a/./b/../%63", (200, "/a/c")),
            ("//a/%63", (200, "/a/c")),
            ("/%2Fa", (400, "")),
            ("/one//%7E|", (200, "/one/~%7C")),
            ("/one/%2F", (400, "")),
            ("/a/..%2Fb", (400, "")),
            ("/a/%2e%2e%2Fb", (400, "")),
            ("/..;/a", (400, "")),
            ("/a%2F%00", (400, "")),
            ("/../a", (400, "")),
            ("/a?\u{e9}", (400, "")),
            // A slash that is encoded is in no name of a file.
            ("/files/a/b", (200, "a file")),
            ("/files/a%2Fb", (400, "")),
            ("/files%2Fa/b", (400, "")),
            ("/files/caf\u{e9}", (200, "a name")),
            ("/files//caf%c3%a9", (200, "a name")),
        ] {
            let (status, content) = asked;
            assert_eq!(ask(&server, target.as_bytes(), ""), (status, content.to_owned()), "{round}: {target}");
        }
        let mut over_http2 = Http2::connect(server.address());
        for target in same {
            // The client does not send all that it could.
            if let Ok(uri) = target.parse::<http::Uri>() {
                let answer = over_http2.get(&uri.to_string());
                assert_eq!((answer.status, &answer.content[..]), (200, target.as_bytes()), "{round}: {target}");
            }
        }
    };
    check("from the start");
    order(&server, &["reload"]).unwrap();
    check("after a reload");
    let other = if engine.architecture == "amped" { "thread-pool" } else { "amped" };
    if !matches!(engine.architecture, "mp" | "co-amped") {
        order(&server, &["arch", "set", other]).unwrap();
        check("by another engine");
    }
    server.finish();
}

fn an_application_gets_no_spelling_that_its_rules_read_otherwise(engine: Engine) {
    let echo = Echo::start();
    let routes = format!(
        "[[site.limit]]\npath = \"/slow/\"\nrequests = \"1/h\"\n\
         [[site.route]]\nmatch = \"/*\"\nproxy = \"http://{}\"\n\
         [[site.route]]\nmatch = [\"/admin\", \"/admin/*\"]\naccess = {{ users = [\"ada\"] }}\n\
         [[site.route]]\nmatch = \"/asked/*\"\naccess = {{ service = {{ to = \"http://{}\", path = \"/verify\" }} }}\n\
         [[site.route]]\nmatch = \"/asked/raw/*\"\npath = \"as-sent\"\n",
        echo.address, echo.address
    );
    let server = Launch::new(engine).config(&site(&routes)).start();
    for round in 0..2 {
        for (target, stranger, ada) in [
            ("/admin/x", 401, (200, "/admin/x")),
            ("/%61dmin", 401, (200, "/admin")),
            ("//admin/", 401, (200, "/admin/")),
            ("/admin//x", 401, (200, "/admin//x")),
            ("/admin/a%2Fb", 401, (200, "/admin/a%2Fb")),
            ("/x/../admin", 401, (200, "/admin")),
            ("/admin%2Fsecret", 401, (400, "")),
            ("/%2Fadmin", 401, (400, "")),
            ("/x/..%2Fadmin", 400, (400, "")),
            ("/x%2F..%2Fadmin", 400, (400, "")),
            ("/x/..%5Cadmin", 400, (400, "")),
            ("/%5Cadmin", 400, (400, "")),
            ("/x/..;/admin", 400, (400, "")),
            ("/%2Fx/admin", 400, (400, "")),
            ("//x/admin", 200, (200, "/x/admin")),
            ("/x//admin", 200, (200, "/x//admin")),
            ("/%2561dmin", 200, (200, "/%2561dmin")),
            ("/x%2Fy", 200, (200, "/x%2Fy")),
            // A service goes by the path as well, and what it takes for the same is not known.
            ("/asked//%7E", 200, (200, "/asked/~")),
            ("/asked/a%2Fb", 400, (400, "")),
            ("/asked/raw//a%2Fb", 200, (200, "/asked/raw//a%2Fb")),
            // There is no telling which limit counts it.
            ("/slow%2Fx", if round == 0 { 400 } else { 429 }, (429, "")),
        ] {
            assert_eq!(ask(&server, target.as_bytes(), "").0, stranger, "{round}: {target}");
            let (status, content) = ada;
            assert_eq!(ask(&server, target.as_bytes(), ADA), (status, content.to_owned()), "{round}: {target}");
        }
    }
    server.finish();
}

fn a_script_is_told_the_path_decoded_and_the_target_as_it_came(engine: Engine) {
    let script = "#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\n%s|%s|%s' \"$SCRIPT_NAME\" \"$PATH_INFO\" \"$REQUEST_URI\"\n";
    let routes = "[[site.route]]\nmatch = \"/*\"\ncgi = { extensions = [\"cgi\"] }\n\
        [[site.route]]\nmatch = \"/front/*\"\ntry = [\"$path\", \"/front/index.cgi\"]\n\
        [[site.route]]\nmatch = \"/led/*\"\ntry = [\"$path\", \"/x.cgi$path\"]\n\
        [[site.route]]\nmatch = \"/admin/*\"\naccess = { users = [\"ada\"] }\n";
    let launch = Launch::new(engine).config(&site(routes)).file("a/b.txt", "a file").file("front/a/b.txt", "another");
    let names = ["x.cgi", "a/x.cgi", "front/index.cgi"];
    let launch = names.iter().fold(launch, |launch, name| launch.file(name, script));
    for name in names {
        fs::set_permissions(launch.site().join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let server = launch.start();
    for round in 0..2 {
        for (target, status, told) in [
            ("/x.cgi/a%2Fb", 200, "/x.cgi|/a/b|/x.cgi/a%2Fb"),
            ("/x.cgi/%2Fa//b?c", 200, "/x.cgi|/a/b|/x.cgi/%2Fa//b?c"),
            ("/a/x.cgi//%7E%2F", 200, "/a/x.cgi|/~/|/a/x.cgi//%7E%2F"),
            ("/front/a%2Fb", 200, "/front/index.cgi|/a/b|/front/a%2Fb"),
            ("/led/a%2Fb", 200, "/x.cgi|/led/a/b|/led/a%2Fb"),
            // No name has a slash: these are neither the file nor the script.
            ("/front/a%2Fb.txt", 200, "/front/index.cgi|/a/b.txt|/front/a%2Fb.txt"),
            ("/a%2Fb.txt", 400, ""),
            ("/a%2Fx.cgi", 400, ""),
            ("/a%2Fx.cgi/c", 400, ""),
            ("/x.cgi%2Fa", 400, ""),
            ("/x.cgi/..%2Fa", 400, ""),
            // What follows a script may be a path of the site for it.
            ("/x.cgi/admin%2Fa", 401, ""),
            ("/x.cgi/%61dmin/a", 401, ""),
            ("/front/admin%2Fa", 401, ""),
        ] {
            assert_eq!(ask(&server, target.as_bytes(), ""), (status, told.to_owned()), "{round}: {target}");
        }
        assert_eq!(ask(&server, b"/x.cgi/admin%2Fa", ADA).0, 400, "{round}");
        let told = "/x.cgi|/admin/a/b|/x.cgi/admin/a%2Fb";
        assert_eq!(ask(&server, b"/x.cgi/admin/a%2Fb", ADA), (200, told.to_owned()), "{round}");
    }
    server.finish();
}

fn an_application_is_asked_without_a_prefix_that_it_does_not_know(engine: Engine) {
    let echo = Echo::start();
    let routes = format!(
        "[[site.route]]\nmatch = [\"/app\", \"/app/*\"]\nproxy = \"http://{to}\"\nstrip_prefix = \"/app/\"\ncache = true\n\
         [[site.route]]\nmatch = \"/other/*\"\nproxy = \"http://{to}/app/\"\nstrip_prefix = \"/other\"\ncache = true\n\
         [[site.route]]\nmatch = \"/base/*\"\nproxy = \"http://{to}/v1\"\n\
         [[site.route]]\nmatch = \"/app/admin/*\"\naccess = {{ users = [\"ada\"] }}\n",
        to = echo.address
    );
    let server = Launch::new(engine).argument("--h2c").config(&site(&routes)).start();
    for round in ["from the start", "once more", "after a reload"] {
        if round == "after a reload" {
            order(&server, &["reload"]).unwrap();
        }
        for (target, status, told) in [
            ("/app/x?y=/app/z", 200, "/x?y=/app/z"),
            ("/app", 200, "/"),
            ("/app/", 200, "/"),
            ("/app/a%2Fb//%7E", 200, "/a%2Fb//%7E"),
            ("/%61pp/x", 200, "/x"),
            ("/app//host/x", 200, "/host/x"),
            ("/app/%2Fhost", 400, ""),
            ("/app/../x", 404, ""),
            ("/app/..%2Fx", 400, ""),
            ("/apple", 404, ""),
            ("/other/x", 200, "/app/x"),
            ("/other//x%2Fy", 400, ""),
            ("/base/x", 200, "/v1/base/x"),
            ("/app/admin/x", 401, ""),
            ("/app//admin/x", 401, ""),
            ("/app/admin%2Fx", 401, ""),
        ] {
            assert_eq!(ask(&server, target.as_bytes(), ""), (status, told.to_owned()), "{round}: {target}");
        }
        assert_eq!(ask(&server, b"/app/admin%2Fx", ADA).0, 400, "{round}");
        // A client that is no trusted proxy does not say it.
        let mut client = server.connect();
        client.send(b"GET /app/y HTTP/1.1\r\nHost: a\r\nX-Forwarded-Prefix: /evil\r\n\r\n");
        assert_eq!(client.receive(true).unwrap().field("X-Forwarded-Prefix"), Some("/app"), "{round}");
        let answer = Http2::connect(server.address()).get("/app/a%2Fb");
        assert_eq!((answer.status, &answer.content[..]), (200, &b"/a%2Fb"[..]), "{round}");
    }
    server.finish();
    // Over FastCGI the prefix is what leads to the application.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = listener.local_addr().unwrap();
    let asked = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(APPLICATION_PATIENCE)).unwrap();
        let mut records = vec![0; 4096];
        let bytes = stream.read(&mut records).unwrap();
        String::from_utf8_lossy(&records[..bytes]).into_owned()
    });
    let route = format!(
        "[[site.route]]\nmatch = \"/app/*\"\nfastcgi = {{ to = \"{to}\", extensions = [] }}\nstrip_prefix = \"/app\"\n"
    );
    let server = Launch::new(engine).config(&site(&route)).start();
    assert_eq!(ask(&server, b"/app/x%2Fy", "").0, 502);
    let asked = asked.join().unwrap();
    for variable in ["SCRIPT_NAME/app", "PATH_INFO/x/y", "REQUEST_URI/app/x%2Fy"] {
        assert!(asked.contains(variable), "{variable}: {asked:?}");
    }
    server.finish();
}

fn spellings_that_an_application_may_tell_apart_are_kept_apart(engine: Engine) {
    let echo = Echo::start();
    let routes = format!("[[site.route]]\nmatch = \"/*\"\nproxy = \"http://{}\"\ncache = true\n", echo.address);
    let server = Launch::new(engine).config(&site(&routes)).start();
    let targets = ["/a/b", "/a%2Fb", "/a%2fb", "/a//b", "/%61/b", "/a/b%2F", "/a|b", "/a%7Cb"];
    for round in 0..3 {
        for target in targets {
            assert_eq!(ask(&server, target.as_bytes(), ""), (200, target.to_owned()), "{round}: {target}");
        }
    }
    // One that it gets alike is one.
    assert_eq!(ask(&server, b"/a/./b", ""), (200, "/a/b".to_owned()));
    let purged = order(&server, &["cache", "purge", "/a%2Fb"]);
    let is_purged = |said: &String| said.contains("purged 5") || said.contains("purged all");
    assert!(purged.as_ref().is_ok_and(is_purged), "{purged:?}");
    server.finish();
}
