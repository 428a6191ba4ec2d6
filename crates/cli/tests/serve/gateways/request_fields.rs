//! Fields that routes set, add and remove in what applications are sent, with every engine: over HTTP, FastCGI and CGI.
//!
//! Owns: applications that answer with all that they were told ([`Told`]): lines of a head, or variables.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::{fs, thread};

use super::recipes::recipe;
use crate::access::{ADA, SESAME};
use crate::client::APPLICATION_PATIENCE;
use crate::control::order;
use crate::engine::{Engine, for_engines};
use crate::http2::{Http2, request};
use crate::server::{Launch, Server};
use crate::tls::{CERTIFIED, client_config, connect_as, make_client, make_pair};

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
    applications_are_sent_the_fields_that_routes_say,
    nothing_that_a_client_sends_makes_a_second_field,
    a_client_is_told_of_by_what_the_server_has_verified,
    answers_that_vary_by_what_is_said_of_a_client_are_not_kept,
    a_default_is_sent_where_the_field_of_a_client_is_not,
    the_fields_of_the_manual_are_sent,
    addresses_of_an_application_are_put_behind_its_prefix,
]);

/// Applications over HTTP and FastCGI, which end with the test.
pub(crate) struct Told {
    pub(crate) http: SocketAddr,
    pub(crate) fastcgi: SocketAddr,
    /// Requests over HTTP.
    asked: Arc<AtomicU64>,
    /// Further fields of answers over HTTP.
    says: Arc<Mutex<String>>,
    is_over: Arc<AtomicBool>,
}

impl Told {
    pub(crate) fn start() -> Told {
        let (asked, is_over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let says = Arc::new(Mutex::new(String::new()));
        let listen = |converse: fn(TcpStream, &AtomicU64, &Mutex<String>) -> Option<()>| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let (asked, says, is_over) = (asked.clone(), Arc::clone(&says), is_over.clone());
            thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    if is_over.load(Relaxed) {
                        return;
                    }
                    stream.set_read_timeout(Some(APPLICATION_PATIENCE)).unwrap();
                    let (asked, says) = (asked.clone(), says.clone());
                    thread::spawn(move || converse(stream, &asked, &says));
                }
            });
            address
        };
        let (http, fastcgi) = (listen(over_http), listen(over_fastcgi));
        Told { http, fastcgi, asked, says, is_over }
    }

    /// From now on its answers over HTTP have these fields, each with its line end.
    pub(crate) fn say(&self, fields: &str) {
        fields.clone_into(&mut self.says.lock().unwrap());
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
        for address in [self.http, self.fastcgi] {
            let _ = TcpStream::connect(address);
        }
    }
}

fn over_http(mut stream: TcpStream, asked: &AtomicU64, says: &Mutex<String>) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    loop {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            if reader.read_until(b'\n', &mut head).ok()? == 0 {
                return None;
            }
        }
        asked.fetch_add(1, Relaxed);
        let fields = says.lock().unwrap().clone();
        let says = format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: {}\r\n\r\n", head.len());
        stream.write_all(&[says.as_bytes(), &head].concat()).ok()?;
    }
}

fn over_fastcgi(mut stream: TcpStream, _: &AtomicU64, _: &Mutex<String>) -> Option<()> {
    const PARAMS: u8 = 4;
    const STDIN: u8 = 5;
    let mut parameters = Vec::new();
    loop {
        let mut header = [0; 8];
        stream.read_exact(&mut header).ok()?;
        let length = usize::from(u16::from_be_bytes([header[4], header[5]]));
        let mut content = vec![0; length + usize::from(header[6])];
        stream.read_exact(&mut content).ok()?;
        match header[1] {
            PARAMS => parameters.extend_from_slice(&content[..length]),
            STDIN if length == 0 => break,
            _ => {}
        }
    }
    let mut text = b"Content-Type: text/plain\r\n\r\n".to_vec();
    let mut rest = &parameters[..];
    while !rest.is_empty() {
        let lengths = [length(&mut rest)?, length(&mut rest)?];
        let (name, after) = rest.split_at_checked(lengths[0])?;
        let (value, after) = after.split_at_checked(lengths[1])?;
        text.extend([name, b"=", value, b"\n"].concat());
        rest = after;
    }
    for piece in [&text[..], &[]] {
        let [high, low] = (piece.len() as u16).to_be_bytes();
        stream.write_all(&[&[1, 6, 0, 1, high, low, 0, 0], piece].concat()).ok()?;
    }
    stream.write_all(&[1, 3, 0, 1, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]).ok()
}

fn length(rest: &mut &[u8]) -> Option<usize> {
    let (first, after) = rest.split_first()?;
    if *first < 128 {
        *rest = after;
        return Some(usize::from(*first));
    }
    let (long, after) = rest.split_first_chunk::<4>()?;
    *rest = after;
    Some((u32::from_be_bytes(*long) & 0x7fff_ffff) as usize)
}

/// What prints its variables.
const PROGRAM: &str = "#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\n'\nenv\n";

/// A site of which `/http/`, `/fastcgi/` and `/cgi/` are for an application each, with `keys` besides and `routes`.
pub(crate) fn launch(engine: Engine, told: &Told, keys: &str, routes: &str) -> Launch {
    let launch = Launch::new(engine).argument("--h2c").file("cgi/told", PROGRAM);
    fs::set_permissions(launch.site().join("cgi/told"), fs::Permissions::from_mode(0o755)).unwrap();
    let site = site(told, keys, routes);
    launch.config(&site)
}

fn site(told: &Told, keys: &str, routes: &str) -> String {
    let Told { http, fastcgi, .. } = told;
    format!(
        "limit_exempt = []\nrequest_limit = \"off\"\n[[site]]\nroot = \"site\"\nusers = {{ ada = \"{SESAME}\" }}\n{keys}\n\
         [[site.route]]\nmatch = \"/http/*\"\nproxy = \"http://{http}\"\n\
         [[site.route]]\nmatch = \"/fastcgi/*\"\nfastcgi = {{ to = \"{fastcgi}\", extensions = [] }}\n\
         [[site.route]]\nmatch = \"/cgi/*\"\ncgi = true\n{routes}"
    )
}

/// The three ways to an application: a path of each.
pub(crate) const WAYS: [&str; 3] = ["/http/told", "/fastcgi/told", "/cgi/told"];

/// The status of a request with these fields, and what the application was told, over either version. A field over
/// HTTP/2 is left out if no client could send it.
pub(crate) fn ask(server: &Server, is_http2: bool, path: &str, fields: &[(&str, &str)]) -> (u16, String) {
    let text = |content: &[u8]| String::from_utf8_lossy(content).into_owned();
    if is_http2 {
        let lower: Vec<_> = fields.iter().map(|(name, value)| (name.to_ascii_lowercase(), *value)).collect();
        let lower: Vec<_> = lower.iter().map(|(name, value)| (&**name, *value)).collect();
        let answer = Http2::connect(server.address()).ask(vec![request("GET", path, &lower)]).remove(0).unwrap();
        return (answer.status, text(&answer.content));
    }
    let lines: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let mut client = server.connect();
    client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n{lines}\r\n").as_bytes());
    let response = client.receive(true).unwrap();
    (response.status, text(&response.content))
}

/// All values that an application was told under `name`, as a field or as the variable that is made of it.
pub(crate) fn values(told: &str, way: &str, name: &str) -> Vec<String> {
    let variable = format!("HTTP_{}=", name.to_ascii_uppercase().replace('-', "_"));
    let field = format!("{}: ", name.to_ascii_lowercase());
    let value = |line: &str| match way.starts_with("/http/") {
        true => line.to_ascii_lowercase().starts_with(&field).then(|| line[field.len()..].to_owned()),
        false => line.strip_prefix(&variable).map(str::to_owned),
    };
    told.lines().filter_map(value).collect()
}

fn applications_are_sent_the_fields_that_routes_say(engine: Engine) {
    let told = Told::start();
    let routes = "[[site.route]]\nmatch = \"*\"\nrequest_headers = [{ set = { X-Real-IP = \"$client\", \
                  X-Scheme = \"$scheme\", X-Id = \"$request_id\", X-Site = \"$host\", X-All = \"less\", X-Gone = \"1\", \
                  X-Kept = \"less\", X-Of = \"a $http_x_asked $$\" }, add = { X-Both = \"ours\" }, \
                  default = { X-Else = \"none\" } }]\n\
                  [[site.route]]\nmatch = { regex = \"^/(?<way>[a-z]+)/(?<rest>told.*)$\" }\n\
                  request_headers = [{ set = { X-Way = \"${way}:$2\", X-All = [\"more\", \"and more\"], \
                  Host = \"inner.test\" }, remove = [\"X-Gone\", \"X-Removed\"], keep = [\"X-Kept\"] }]\n";
    let server = launch(engine, &told, "", routes).start();
    let other = if engine.architecture == "sped" { "amped" } else { "sped" };
    for round in ["from the start", "after a reload", "after a change of engine"] {
        match round {
            "after a reload" => _ = order(&server, &["reload"]).unwrap(),
            "after a change of engine" if !matches!(engine.architecture, "mp" | "co-amped") => {
                _ = order(&server, &["arch", "set", other]).unwrap();
            }
            _ => {}
        }
        for (way, is_http2) in WAYS.into_iter().flat_map(|way| [(way, false), (way, true)]) {
            let fields = [
                ("X-Asked", "b"),
                ("X-Removed", "by us"),
                ("X-Both", "theirs"),
                ("X-Kept", "theirs"),
                ("X-All", "theirs"),
                ("X-Other", "o"),
            ];
            let (status, said) = ask(&server, is_http2, way, &fields);
            let called = format!("{round}, {way}, HTTP/2: {is_http2}: {said}");
            assert_eq!(status, 200, "{called}");
            let joined = |values: &[&str]| match way.starts_with("/http/") {
                true => values.iter().map(|value| (*value).to_owned()).collect::<Vec<_>>(),
                false => vec![values.join(", ")],
            };
            for (name, expected) in [
                ("X-Real-IP", joined(&["127.0.0.1"])),
                ("X-Scheme", joined(&["http"])),
                ("X-Site", joined(&["a"])),
                ("X-Of", joined(&["a b $"])),
                ("X-All", joined(&["more", "and more"])),
                ("X-Way", joined(&[&format!("{}:told", way.split('/').nth(1).unwrap())])),
                ("X-Both", joined(&["theirs", "ours"])),
                ("X-Kept", joined(&["theirs"])),
                ("X-Else", joined(&["none"])),
                ("X-Other", joined(&["o"])),
                ("Host", joined(&["inner.test"])),
                ("X-Id", values(&said, way, "X-Request-Id")),
            ] {
                assert_eq!(values(&said, way, name), expected, "{name}: {called}");
            }
            for name in ["X-Gone", "X-Removed"] {
                assert!(values(&said, way, name).is_empty(), "{name}: {called}");
            }
            let said = ask(&server, is_http2, way, &[("X-Else", "theirs")]).1;
            assert_eq!(values(&said, way, "X-Else"), ["theirs"], "{called}");
            // A value that lacks a part is none.
            assert!(values(&said, way, "X-Of").is_empty(), "{called}");
        }
    }
    server.finish();
}

fn nothing_that_a_client_sends_makes_a_second_field(engine: Engine) {
    let told = Told::start();
    let routes = "[[site.route]]\nmatch = { regex = \"(?s)^/[a-z]+/told(?<rest>.*)$\" }\n\
                  request_headers = { X-Rest = \"${rest}\", X-Path = \"$path\", X-Asked = \"$http_x_in\", X-End = \"end\" }\n";
    let server = launch(engine, &told, "", routes).start();
    for (way, is_http2) in WAYS.into_iter().flat_map(|way| [(way, false), (way, true)]) {
        for byte in 0..=255u8 {
            let path = format!("{way}/a%{byte:02X}X-Evil:%20b");
            let (status, said) = ask(&server, is_http2, &path, &[]);
            let called = format!("{path}, HTTP/2: {is_http2}: {status} {said}");
            assert!(matches!(status, 200 | 400 | 404), "{called}");
            if status != 200 {
                continue;
            }
            assert!(values(&said, way, "X-Evil").is_empty(), "{called}");
            assert_eq!(values(&said, way, "X-End"), ["end"], "{called}");
            let rest = values(&said, way, "X-Rest");
            assert!(rest.len() == 1 && rest[0].bytes().all(|byte| byte.is_ascii_graphic()), "{called}");
        }
    }
    // Bytes of a field as they are, which only a client of HTTP/1.1 sends: h2 refuses to.
    for (way, byte) in WAYS.into_iter().flat_map(|way| (0..=255u8).map(move |byte| (way, byte))) {
        let mut client = server.connect();
        let start = format!("GET {way} HTTP/1.1\r\nHost: a\r\nX-In: a");
        client.send(&[start.as_bytes(), &[byte], b"X-Evil: b\r\n\r\n"].concat());
        let response = client.receive(true).unwrap();
        let said = String::from_utf8_lossy(&response.content).into_owned();
        let called = format!("{way}, {byte:#x}: {} {said}", response.status);
        assert!(matches!(response.status, 200 | 400), "{called}");
        let is_value = byte == b'\t' || byte >= b' ' && byte != 0x7f;
        assert_eq!(response.status == 200, is_value, "{called}");
        if is_value {
            assert!(values(&said, way, "X-Evil").is_empty(), "{called}");
            assert_eq!(values(&said, way, "X-End"), ["end"], "{called}");
            assert_eq!(values(&said, way, "X-Asked").len(), 1, "{called}");
        }
    }
    for value in [&b"\xe9\xff"[..], b"a\tb", b"\"\\"] {
        let mut request = request("GET", WAYS[0], &[]);
        request.headers_mut().insert("x-in", value.try_into().unwrap());
        let answer = Http2::connect(server.address()).ask(vec![request]).remove(0).unwrap();
        let asked = [b"X-Asked: ", value, b"\r\n"].concat();
        assert!(answer.status == 200 && answer.content.windows(asked.len()).any(|part| part == asked), "{value:?}");
    }
    server.finish();
}

fn a_client_is_told_of_by_what_the_server_has_verified(engine: Engine) {
    let told = Told::start();
    let routes = "[[site.route]]\nmatch = \"/*/told/*\"\naccess = { users = [\"ada\"] }\n\
                  request_headers = { X-User = \"$user\", X-Certificate = \"$certificate_subject\" }\n";
    let server = launch(engine, &told, "", routes).start();
    let forged = "X-User: root\r\nX_USER: root\r\nx.user: root\r\nX-Certificate: CN=root\r\nX_Certificate: CN=root\r\n";
    for way in WAYS {
        for (path, credentials, expected) in [
            (format!("{way}/in"), ADA, &["ada"][..]),
            // No client says it elsewhere, either.
            (way.to_owned(), "", &[]),
        ] {
            let mut client = server.connect();
            client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n{forged}{credentials}\r\n").as_bytes());
            let response = client.receive(true).unwrap();
            let said = String::from_utf8_lossy(&response.content).into_owned();
            assert_eq!(response.status, 200, "{path}: {said}");
            assert_eq!(values(&said, way, "X-User"), expected, "{path}: {said}");
            assert!(!said.contains("root"), "{path}: {said}");
        }
        assert_eq!(ask(&server, true, &format!("{way}/in"), &[("X-User", "ada")]).0, 401);
    }
    server.finish();
    // Over TLS, by its certificate.
    let route = format!(
        "[[site.route]]\nmatch = \"/*\"\nproxy = \"http://{}\"\nrequest_headers = {{ X-Certificate = \"$certificate_subject\", \
         X-Scheme = \"$scheme\" }}\n",
        told.http
    );
    let config = format!("{CERTIFIED}client_ca = \"ca.pem\"\nclient_certificates = \"optional\"\n{route}");
    let launch = Launch::new(engine).config(&config);
    let pem = make_pair(launch.directory(), &["site.test"]);
    let client = make_client(launch.directory(), "alice");
    let server = launch.start();
    let config = client_config(pem.as_bytes());
    for (config, expected) in [(client.config(config.clone()), vec!["CN=alice".to_owned()]), (config, Vec::new())] {
        let mut client = connect_as(&server, &Arc::new(config), "site.test");
        client.send(b"GET /a HTTP/1.1\r\nHost: site.test\r\nX-Certificate: CN=root\r\n\r\n");
        let said = String::from_utf8_lossy(&client.receive(true).unwrap().content).into_owned();
        assert_eq!(values(&said, "/http/", "X-Certificate"), expected, "{said}");
        assert_eq!(values(&said, "/http/", "X-Scheme"), ["https"], "{said}");
    }
    server.finish();
}

fn a_default_is_sent_where_the_field_of_a_client_is_not(engine: Engine) {
    let told = Told::start();
    let routes = "[[site.route]]\nmatch = \"*\"\n\
                  request_headers = [{ default = { X-Real-IP = \"$client\", X-Hop = \"ours\", Remote-User = \"nobody\" } }]\n";
    let server = launch(engine, &told, "", routes).start();
    for way in WAYS {
        let fields = [("X-Real-IP", "6.6.6.6"), ("Remote-User", "root"), ("X-Hop", "theirs"), ("Connection", "x-hop")];
        for fields in [&fields[..], &[]] {
            let said = ask(&server, false, way, fields).1;
            for (name, expected) in [("X-Real-IP", "127.0.0.1"), ("Remote-User", "nobody"), ("X-Hop", "ours")] {
                assert_eq!(values(&said, way, name), [expected], "{way}, {name}: {said}");
            }
        }
    }
    server.finish();
}

fn answers_that_vary_by_what_is_said_of_a_client_are_not_kept(engine: Engine) {
    let told = Told::start();
    let routes = "[[site.route]]\nmatch = \"/http/*\"\npriority = 1\ncache = true\n\
                  request_headers = { X-Of = \"$http_x_in\", X-Same = \"s\" }\n";
    let routes = routes.replace("cache = true", &format!("proxy = \"http://{}\"\ncache = true", told.http));
    let server = launch(engine, &told, "", &routes).start();
    for (vary, is_kept) in [("X-Same", true), ("X-Of", false), ("x-of, Accept", false)] {
        let path = format!("/http/{}", vary.len());
        told.say(&format!("Cache-Control: max-age=60\r\nVary: {vary}\r\n"));
        let before = told.asked.load(Relaxed);
        // One connection: worker processes have caches of their own.
        let mut client = server.connect();
        for value in ["a", "b"] {
            client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\nX-In: {value}\r\n\r\n").as_bytes());
            let said = String::from_utf8_lossy(&client.receive(true).unwrap().content).into_owned();
            assert!(is_kept || said.contains(&format!("X-Of: {value}\r\n")), "{vary}: {said}");
        }
        assert_eq!(told.asked.load(Relaxed) - before, if is_kept { 1 } else { 2 }, "{vary}");
    }
    server.finish();
    // Credentials and cookies are those of one client, whatever they are made of, and whether the answer says so.
    told.say("Cache-Control: max-age=60\r\n");
    for (name, value) in
        [("Authorization", "Bearer $http_x_token"), ("Cookie", "s=$http_x_token"), ("Host", "$http_x_token")]
    {
        let routes = format!(
            "[[site.route]]\nmatch = \"/http/*\"\npriority = 1\nproxy = \"http://{}\"\ncache = true\n\
             request_headers = {{ {name} = \"{value}\" }}\n",
            told.http
        );
        let server = launch(engine, &told, "", &routes).start();
        let mut client = server.connect();
        for token in ["ada", "bob"] {
            client.send(format!("GET /http/{name} HTTP/1.1\r\nHost: a\r\nX-Token: {token}\r\n\r\n").as_bytes());
            let said = String::from_utf8_lossy(&client.receive(true).unwrap().content).into_owned();
            assert_eq!(values(&said, "/http/", name), [value.replace("$http_x_token", token)], "{said}");
        }
        server.finish();
    }
}

fn the_fields_of_the_manual_are_sent(engine: Engine) {
    let told = Told::start();
    let lines = recipe("Request fields", "toml").replace("127.0.0.1:3000", &told.http.to_string());
    let accounts = format!("[[site]]\nusers = {{ ada = \"{SESAME}\" }}\n");
    let config = lines.replacen("[[site]]\n", &accounts, 1);
    assert_ne!(config, lines, "the example has no site");
    let server = Launch::new(engine).config(&config).start();
    let mut client = server.connect();
    client.send(
        format!("GET /tenants/acme/x HTTP/1.1\r\nHost: a\r\n{ADA}Accept-Encoding: gzip\r\nX_User: root\r\n\r\n")
            .as_bytes(),
    );
    let response = client.receive(true).unwrap();
    let said = String::from_utf8_lossy(&response.content).into_owned();
    assert_eq!(response.status, 200, "{said}");
    for line in ["X-Real-IP: 127.0.0.1", "X-User: ada", "X-Tenant: acme"] {
        assert!(said.lines().any(|told| told == line), "{line} in {said}");
    }
    assert!(!said.contains("Accept-Encoding") && !said.contains("root") && !said.contains("Authorization"), "{said}");
    server.finish();
}

fn addresses_of_an_application_are_put_behind_its_prefix(engine: Engine) {
    let told = Told::start();
    let to = told.http;
    let routes = format!(
        "[[site.route]]\nmatch = [\"/app\", \"/app/*\"]\nproxy = \"http://{to}\"\nstrip_prefix = \"/app\"\nrestore_prefix = true\n\
         [[site.route]]\nmatch = \"/kept/*\"\nproxy = \"http://{to}/v1\"\nstrip_prefix = \"/kept\"\nrestore_prefix = true\n\
         cache = {{ fresh_s = 60 }}\n\
         [[site.route]]\nmatch = \"/plain/*\"\nproxy = \"http://{to}\"\nstrip_prefix = \"/plain\"\n"
    );
    let server = launch(engine, &told, "", &routes).start();
    let cases = [
        ("/app/x", "Location", "/y?z".to_owned(), "/app/y?z"),
        ("/app", "Content-Location", format!("http://{to}/y"), "http://a/app/y"),
        ("/app/x", "Location", "http://a/y".into(), "http://a/app/y"),
        ("/app/x", "Location", "https://b.test/y".into(), "https://b.test/y"),
        ("/app/x", "Refresh", "1; url=/y".into(), "1; url=/app/y"),
        ("/app/x", "Set-Cookie", "a=b; Path=/; Secure".into(), "a=b; Path=/app; Secure"),
        ("/app/x", "Set-Cookie", "a=b; Domain=127.0.0.1".into(), "a=b"),
        ("/app/x", "X-Other", "/y".into(), "/y"),
        ("/kept/x", "Content-Location", "/v1/x".into(), "/kept/x"),
        ("/kept/y", "Content-Location", "/v2/x".into(), "/v2/x"),
        ("/plain/x", "Location", "/y".into(), "/y"),
    ];
    for round in ["from the start", "after a reload"] {
        if round == "after a reload" {
            order(&server, &["reload"]).unwrap();
        }
        for (path, name, said, expected) in &cases {
            told.say(&format!("{name}: {said}\r\n"));
            // Once more, of what is kept.
            for _ in 0..2 {
                let mut client = server.connect();
                client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
                let answer = client.receive(true).unwrap();
                assert_eq!(answer.field(name), Some(*expected), "{round}: {path} {name}: {said}");
            }
            let answer = Http2::connect(server.address()).get(path);
            let lower = name.to_ascii_lowercase();
            let found = answer.fields.iter().find(|(other, _)| *other == lower).map(|(_, value)| value.as_str());
            assert_eq!(found, Some(*expected), "{round}, HTTP/2: {path} {name}: {said}");
        }
    }
    server.finish();
}
