//! Sites that are for clients with a certificate: whichever way a request comes, it is from such a client, or it is not
//! answered.
//!
//! Owns: these cases. What a connection is, and what a site demands, is decided in `content::admission`; here it is
//! tried from outside.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ClientConnection};

use super::{ClientPair, TlsStream, config_for, connect_as, make_client, make_pair};
use crate::client::{Client, PATIENCE};
use crate::control::order;
use crate::engine::{AMPED, CO_AMPED, Engine, MP, PIPELINED, PROACTOR, SPED, THREAD_PER_REQUEST, THREAD_POOL};
use crate::http2::{self, Http2};
use crate::server::{Launch, Server, eventually};
use crate::skip::skipped;

const SECRET: &[u8] = b"for those who are known";

/// The table of site `name`, with further lines.
fn site(name: &str, lines: &str) -> String {
    format!(
        "[[site]]\nroot = \"site/{name}\"\nhosts = [\"{name}.test\"]\ncertificate = \"{name}/certificate.pem\"\n\
         key = \"{name}/key.pem\"\n{lines}"
    )
}

const KNOWN: &str = "client_ca = \"ca.pem\"\n";

/// `a.test`, which is for everybody, and `b.test`, with their certificates; the authority of `b.test` is in `ca.pem`,
/// and vouches for the client that is returned.
fn launch(engine: Engine, config: &str) -> (Launch, ClientPair) {
    let launch = Launch::new(engine).config(config).file("a/a.txt", "for all").file("b/a.txt", SECRET);
    for name in ["a", "b"] {
        let directory = launch.directory().join(name);
        fs::create_dir(&directory).unwrap();
        make_pair(&directory, &[&format!("{name}.test")]);
    }
    let alice = make_client(launch.directory(), "alice");
    (launch, alice)
}

/// The same without the client.
pub(crate) fn two_sites(engine: Engine) -> Launch {
    launch(engine, &[site("a", ""), site("b", KNOWN)].concat()).0
}

/// A client without a certificate that trusts both sites.
fn nobody(server: &Server, version: &'static rustls::SupportedProtocolVersion) -> ClientConfig {
    let [a, b] = ["a", "b"].map(|name| server.directory().join(name).join("certificate.pem"));
    config_for(&[&a, &b], &[version])
}

/// What a client gets for a request to `host` on a new connection to `name`: the status, or none if the handshake or
/// the request fails.
fn status(server: &Server, config: &Arc<ClientConfig>, name: &str, host: &str) -> Option<u16> {
    ask(&mut connect_as(server, config, name), host)
}

fn ask(client: &mut Client<TlsStream>, host: &str) -> Option<u16> {
    let request = format!("GET /a.txt HTTP/1.1\r\nHost: {host}\r\n\r\n");
    client.stream.write_all(request.as_bytes()).and_then(|()| client.stream.flush()).ok()?;
    let answer = client.receive(true).ok()?;
    assert_eq!(answer.content == SECRET, answer.status == 200 && host.starts_with('b'), "{answer:?}");
    Some(answer.status)
}

/// Ends a server whose configuration was read again: of an engine of processes another process has taken over then.
fn end_reloaded(server: Server, engine: Engine) {
    if [MP, CO_AMPED].iter().any(|other| other.architecture == engine.architecture) {
        order(&server, &["drain"]).expect("who serves now can end");
    } else {
        server.finish();
    }
}

/// An address of loopback whose port 80 can be listened at.
pub(crate) fn port_80(test: &str, last: u8) -> Option<SocketAddr> {
    let address = SocketAddr::from(([127, 0, 0, last], 80));
    match TcpListener::bind(address) {
        Ok(_) => Some(address),
        Err(error) => {
            skipped(test, &format!("port 80 is not to be had: {error}"));
            None
        }
    }
}

fn plain(address: SocketAddr, request: &str) -> (u16, String) {
    let mut client = Client::connect(address);
    client.send(request.as_bytes());
    let answer = client.receive(!request.starts_with("HEAD")).unwrap_or_else(|fault| panic!("{request}: {fault}"));
    assert!(answer.content != SECRET, "{request}");
    (answer.status, answer.field("Location").unwrap_or_default().to_owned())
}

#[test]
fn no_request_in_clear_text_is_answered_by_a_site_with_a_certificate() {
    let Some(address) = port_80("no_request_in_clear_text_is_answered_by_a_site_with_a_certificate", 81) else {
        return;
    };
    let (a, b) = (site("a", ""), site("b", KNOWN));
    let nameless = b.replace("hosts = [\"b.test\"]\n", "");
    for (engine, config, first) in [
        (AMPED, format!("{b}{a}"), Some("b.test")),
        (PIPELINED, format!("{a}{b}"), Some("a.test")),
        (THREAD_POOL, nameless.clone(), None),
        (MP, format!("{b}{a}"), Some("b.test")),
        (PROACTOR, nameless, None),
    ] {
        let (launch, _alice) = launch(engine, &config);
        let server = launch.argument("--h2c").argument("--listen").argument(&address.to_string()).start();
        let to = |host: &str| (308, format!("https://{host}/a.txt"));
        for (host, there) in [
            ("b.test", "b.test"),
            ("B.TEST", "B.TEST"),
            ("b.test.", "b.test."),
            ("b.test:80", "b.test"),
            ("other.test", "other.test"),
            ("127.0.0.81", "127.0.0.81"),
        ] {
            assert_eq!(plain(address, &format!("GET /a.txt HTTP/1.1\r\nHost: {host}\r\n\r\n")), to(there));
            assert_eq!(plain(address, &format!("GET /a.txt HTTP/1.0\r\nHost: {host}\r\n\r\n")), to(there));
            let field = "X-Forwarded-Proto: https\r\nForwarded: proto=https";
            assert_eq!(plain(address, &format!("GET /a.txt HTTP/1.1\r\nHost: {host}\r\n{field}\r\n\r\n")), to(there));
        }
        let absolute = "GET http://b.test/a.txt HTTP/1.1\r\nHost: a.test\r\n\r\n";
        assert_eq!(plain(address, absolute), to("b.test"));
        // Without a host it is the first one, or none.
        let without = plain(address, "GET /a.txt HTTP/1.0\r\n\r\n");
        assert_eq!(without, first.map_or((400, String::new()), to), "{engine:?}");
        for request in [
            "GET /a.txt HTTP/1.1\r\n\r\n",
            "GET /a.txt HTTP/1.1\r\nHost:\r\n\r\n",
            "GET /a.txt HTTP/1.0\r\nHost:\r\n\r\n",
        ] {
            assert!([308, 400].contains(&plain(address, request).0), "{request}");
        }
        for method in ["HEAD", "OPTIONS", "POST", "PUT", "DELETE", "PROPFIND", "BREW"] {
            let request = format!("{method} /a.txt HTTP/1.1\r\nHost: b.test\r\nContent-Length: 0\r\n\r\n");
            assert_eq!(plain(address, &request), to("b.test"), "{method}");
        }
        // The way there is longer than a head: it is refused, and not served.
        let long = format!("GET /a.txt?{} HTTP/1.1\r\nHost: b.test\r\n\r\n", "x".repeat(7_000));
        assert!([308, 414].contains(&plain(address, &long).0));
        let mut client = Http2::connect(address);
        let requests = ["GET", "POST", "OPTIONS"].map(|method| {
            let request = http::Request::builder().method(method).uri("http://b.test/a.txt");
            request.body(Vec::new()).expect("it is valid")
        });
        for answer in client.ask(requests.into()) {
            assert_eq!(answer.expect("there is an answer").status, 308);
        }
        drop(client);
        server.finish();
    }
}

#[test]
fn a_way_to_https_that_is_too_long_is_refused() {
    let Some(address) = port_80("a_way_to_https_that_is_too_long_is_refused", 82) else { return };
    let headers = format!("headers = {{ \"X-Long\" = \"{}\" }}\n", "x".repeat(15_000));
    let limits = "[limits]\ntarget_bytes_max = 60000\nhead_bytes_max = 64000\n";
    let (launch, _alice) = launch(AMPED, &format!("{limits}{}", site("b", &format!("{KNOWN}{headers}"))));
    let server = launch.argument("--listen").argument(&address.to_string()).start();
    assert_eq!(plain(address, "GET /a.txt HTTP/1.1\r\nHost: b.test\r\n\r\n").0, 308);
    let long = format!("GET /a.txt?{} HTTP/1.1\r\nHost: b.test\r\n\r\n", "x".repeat(55_000));
    assert_eq!(plain(address, &long).0, 414);
    server.finish();
}

#[test]
fn a_proxy_that_has_spoken_tls_with_the_client_has_told_nothing_of_its_certificate() {
    let test = "a_proxy_that_has_spoken_tls_with_the_client_has_told_nothing_of_its_certificate";
    let Some(address) = port_80(test, 83) else { return };
    for (engine, known, of_b) in [(AMPED, KNOWN, 403), (THREAD_POOL, KNOWN, 403), (SPED, "", 200)] {
        let config = format!("trusted_proxies = [\"127.0.0.1\"]\n{}{}", site("a", ""), site("b", known));
        let (launch, _alice) = launch(engine, &config);
        let socket = launch.directory().join("socket");
        let launch = launch.argument("--listen").argument(&format!("unix:{}", socket.display()));
        let server = launch.argument("--listen").argument(&address.to_string()).start();
        let get = |host: &str, fields: &str| format!("GET /a.txt HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n");
        let through = |host: &str, fields: &str| {
            let mut client = Client::connect(address);
            client.send(get(host, fields).as_bytes());
            client.receive(true).unwrap().status
        };
        let https = "X-Forwarded-Proto: https\r\n";
        assert_eq!([through("a.test", https), through("a.test", "")], [200, 308]);
        assert_eq!([through("b.test", https), through("b.test", "")], [of_b, 308]);
        // Programs of this machine are served in clear text, and have no certificate either.
        for (host, expected) in [("a.test", 200), ("b.test", of_b)] {
            let mut client = Client::new(std::os::unix::net::UnixStream::connect(&socket).unwrap());
            client.send(get(host, "").as_bytes());
            assert_eq!(client.receive(true).unwrap().status, expected, "{host}");
        }
        server.finish();
    }
}

#[test]
fn a_connection_of_another_site_gets_nothing() {
    for (engine, config) in [
        (AMPED, [site("a", ""), site("b", KNOWN)].concat()),
        (PROACTOR, [site("b", KNOWN), site("a", "")].concat()),
        (
            THREAD_PER_REQUEST,
            [site("b", "client_ca = \"ca.pem\"\nclient_certificates = \"optional\"\n"), site("a", "")].concat(),
        ),
    ] {
        let (launch, alice) = launch(engine, &config);
        let server = launch.start();
        let nobody = nobody(&server, &TLS13);
        let alice = Arc::new(alice.config(nobody.clone()));
        let nobody = Arc::new(nobody);
        let of_none = if config.contains("site/b\"\nhosts") && !config.starts_with("[[site]]\nroot = \"site/a\"") {
            421
        } else {
            200
        };
        let mut client = connect_as(&server, &nobody, "a.test");
        for (request, expected) in [
            ("GET /a.txt HTTP/1.1\r\nHost: a.test\r\n\r\n", 200),
            ("GET /a.txt HTTP/1.1\r\nHost: b.test\r\n\r\n", 421),
            ("GET /a.txt HTTP/1.1\r\nHost: B.Test.:443\r\n\r\n", 421),
            ("GET https://b.test/a.txt HTTP/1.1\r\nHost: a.test\r\n\r\n", 421),
            ("OPTIONS /a.txt HTTP/1.1\r\nHost: b.test\r\n\r\n", 421),
            ("PUT /a.txt HTTP/1.1\r\nHost: b.test\r\nContent-Length: 0\r\n\r\n", 421),
            ("GET /a.txt HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", of_none),
        ] {
            client.send(request.as_bytes());
            assert_eq!(client.receive(true).unwrap().status, expected, "{request}");
        }
        // Names in other spellings are names: whoever is known gets in by them, and nobody else does.
        for name in ["b.test", "B.TEST"] {
            assert_eq!(status(&server, &alice, name, "b.test"), Some(200));
            assert_eq!(status(&server, &alice, name, "b.test."), Some(200));
            let without = status(&server, &nobody, name, "b.test");
            assert_eq!(without, (engine.architecture == THREAD_PER_REQUEST.architecture).then_some(200));
        }
        let name = ServerName::try_from("a.test").unwrap();
        let mut client = Http2::connect_secured(server.address(), &nobody, name);
        let requests = ["a.test", "b.test", "B.TEST."].map(|host| {
            http::Request::builder().uri(format!("https://{host}/a.txt")).body(Vec::new()).expect("it is valid")
        });
        let statuses: Vec<u16> = client.ask(requests.into()).into_iter().map(|answer| answer.unwrap().status).collect();
        assert_eq!(statuses, [200, 421, 421]);
        drop(client);
        server.finish();
    }
}

/// What the server says first to a client whose first flight is `hello`: the type of a record, or none.
fn first_record(server: &Server, hello: &[u8]) -> Option<u8> {
    let mut socket = TcpStream::connect(server.address()).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    // It may have been refused before all of it was sent.
    let _ = socket.write_all(hello);
    let mut record = [0];
    socket.read(&mut record).ok().filter(|bytes| *bytes == 1).map(|_| record[0])
}

#[test]
fn a_first_message_that_is_not_understood_is_refused() {
    const ALERT: u8 = 21;
    const HANDSHAKE: u8 = 22;
    for engine in [AMPED, PROACTOR, THREAD_POOL, PIPELINED] {
        let (launch, _alice) = launch(engine, &[site("a", ""), site("b", KNOWN)].concat());
        let server = launch.start();
        let in_records = |protocols: usize, bytes: usize| {
            let mut config = nobody(&server, &TLS13);
            config.alpn_protocols = vec![vec![b'p'; 200]; protocols];
            let name = ServerName::try_from("b.test").unwrap();
            let mut hello = Vec::new();
            ClientConnection::new(Arc::new(config), name).unwrap().write_tls(&mut hello).unwrap();
            let mut message = Vec::new();
            let mut rest = &hello[..];
            while let [HANDSHAKE, _, _, high, low, more @ ..] = rest {
                let (content, after) = more.split_at(usize::from(u16::from_be_bytes([*high, *low])));
                message.extend_from_slice(content);
                rest = after;
            }
            let record = |part: &[u8]| [&[HANDSHAKE, 3, 1][..], &(part.len() as u16).to_be_bytes(), part].concat();
            message.chunks(bytes).flat_map(record).collect::<Vec<u8>>()
        };
        // In pieces it is what it is as a whole.
        for bytes in [1, 100, 16_384] {
            assert_eq!(first_record(&server, &in_records(0, bytes)), Some(HANDSHAKE), "{bytes}");
        }
        let long = in_records(110, 9_000);
        assert!(long.len() > 22_000);
        for hello in [long, in_records(110, 16_384), in_records(90, 16_000)] {
            assert_ne!(first_record(&server, &hello), Some(HANDSHAKE));
        }
        let mut damaged = in_records(0, 16_384);
        let at = damaged.windows(6).position(|bytes| bytes == b"b.test").unwrap();
        damaged[at + 1] = b' ';
        assert_eq!(first_record(&server, &damaged), Some(ALERT));
        server.finish();
    }
}

/// What is changed in a configuration, so that a client that was served must not be, or must show another certificate.
struct Change {
    what: &'static str,
    before: &'static str,
    after: &'static str,
    /// Another authority is written to `ca.pem`.
    exchanges_authority: bool,
    /// The client has a certificate of the first authority.
    is_known: bool,
}

const OPTIONAL: &str = "client_ca = \"ca.pem\"\nclient_certificates = \"optional\"\n";
const FOR_ALICE: &str =
    "client_ca = \"ca.pem\"\nclient_certificates = \"optional\"\naccess = { certificates = [\"CN=alice\"] }\n";

const CHANGES: [Change; 7] = [
    Change { what: "none, required", before: "", after: KNOWN, exchanges_authority: false, is_known: false },
    Change { what: "none, for one", before: "", after: FOR_ALICE, exchanges_authority: false, is_known: false },
    Change { what: "optional, required", before: OPTIONAL, after: KNOWN, exchanges_authority: false, is_known: false },
    Change {
        what: "optional, for one",
        before: OPTIONAL,
        after: FOR_ALICE,
        exchanges_authority: false,
        is_known: false,
    },
    Change {
        what: "another file",
        before: KNOWN,
        after: "client_ca = \"other/ca.pem\"\n",
        exchanges_authority: false,
        is_known: true,
    },
    Change { what: "another authority", before: KNOWN, after: KNOWN, exchanges_authority: true, is_known: true },
    Change { what: "another for one", before: FOR_ALICE, after: FOR_ALICE, exchanges_authority: true, is_known: true },
];

#[test]
fn who_was_let_in_before_the_demand_has_changed_is_judged_anew() {
    for (engine, version) in [(AMPED, &TLS13), (AMPED, &TLS12), (THREAD_POOL, &TLS13), (MP, &TLS12), (PROACTOR, &TLS13)]
    {
        for change in &CHANGES {
            // What is exchanged in a file is seen within seconds; one engine has to show it.
            if change.exchanges_authority && engine.architecture != AMPED.architecture {
                continue;
            }
            judged_anew(engine, version, change);
        }
    }
}

fn judged_anew(engine: Engine, version: &'static rustls::SupportedProtocolVersion, change: &Change) {
    let told = format!("{} {version:?} {}", engine.architecture, change.what);
    let (launch, alice) = launch(engine, &site("b", change.before));
    let other = launch.directory().join("other");
    fs::create_dir(&other).unwrap();
    let eve = make_client(&other, "alice");
    let server = launch.start();
    let nobody = nobody(&server, version);
    let eve = Arc::new(eve.config(nobody.clone()));
    let before = Arc::new(if change.is_known { alice.config(nobody) } else { nobody });
    let mut kept = connect_as(&server, &before, "b.test");
    assert_eq!(ask(&mut kept, "b.test"), Some(200), "{told}");
    // Once more, with a ticket if there is one.
    assert_eq!(status(&server, &before, "b.test", "b.test"), Some(200), "{told}");
    if change.exchanges_authority {
        fs::copy(other.join("ca.pem"), server.directory().join("ca.pem")).unwrap();
    }
    fs::write(server.directory().join("lamna.toml"), site("b", change.after)).unwrap();
    order(&server, &["reload"]).unwrap_or_else(|said| panic!("{told}: {said}"));
    // Old workers of an engine of processes may accept for a moment still.
    eventually(&format!("{told}: nobody is let in by what was"), PATIENCE, || {
        let is_refused = |status: Option<u16>| matches!(status, None | Some(403 | 421));
        (0..3).all(|_| is_refused(status(&server, &before, "b.test", "b.test"))).then_some(())
    });
    // Nor on a connection that was there before, which is told so.
    eventually(&format!("{told}: a connection of before is judged anew"), PATIENCE, || {
        match ask(&mut kept, "b.test") {
            Some(403 | 421) => Some(()),
            Some(200) => None,
            other => panic!("{told}: {other:?}"),
        }
    });
    for _ in 0..3 {
        assert!(matches!(status(&server, &before, "b.test", "b.test"), None | Some(403 | 421)), "{told}");
    }
    if change.is_known {
        assert_eq!(status(&server, &eve, "b.test", "b.test"), Some(200), "{told}: the other authority counts now");
    }
    drop(kept);
    end_reloaded(server, engine);
}

/// A reload of a configuration that is as it was, but for the content of `client_ca`, and one that an engine takes over
/// without another.
#[test]
fn what_client_ca_holds_when_a_reload_is_done_counts_for_the_next_connection() {
    for (engine, version) in [
        (AMPED, &TLS13),
        (AMPED, &TLS12),
        (SPED, &TLS13),
        (THREAD_POOL, &TLS12),
        (PIPELINED, &TLS13),
        (PROACTOR, &TLS12),
    ] {
        for further in ["", "drain_timeout_ms = 7000\n"] {
            let told = format!("{} {version:?} {further:?}", engine.architecture);
            let (launch, alice) = launch(engine, &site("b", KNOWN));
            let (other, ca) = (launch.directory().join("other"), launch.directory().join("ca.pem"));
            fs::create_dir(&other).unwrap();
            let eve = make_client(&other, "alice");
            let server = launch.start();
            let [alice, eve] = [alice, eve].map(|pair| Arc::new(pair.config(nobody(&server, version))));
            let statuses = || [&alice, &eve].map(|config| status(&server, config, "b.test", "b.test"));
            assert_eq!(statuses(), [Some(200), None], "{told}");
            let first = fs::read(&ca).unwrap();
            let config = server.directory().join("lamna.toml");
            let before = fs::read_to_string(&config).unwrap();
            for turn in 0..3 {
                let (now, expected) = match turn % 2 {
                    0 => (fs::read(other.join("ca.pem")).unwrap(), [None, Some(200)]),
                    _ => (first.clone(), [Some(200), None]),
                };
                let mut kept = connect_as(&server, if turn % 2 == 0 { &alice } else { &eve }, "b.test");
                assert_eq!(ask(&mut kept, "b.test"), Some(200), "{told} {turn}");
                fs::write(&ca, now).unwrap();
                fs::write(&config, format!("{}{before}", if turn == 1 { "" } else { further })).unwrap();
                order(&server, &["reload"]).unwrap_or_else(|said| panic!("{told}: {said}"));
                assert_eq!(statuses(), expected, "{told} {turn}");
                assert_eq!(ask(&mut kept, "b.test"), Some(421), "{told} {turn}: a connection of before is judged anew");
            }
            // What cannot be used refuses the reload, and what was counts on.
            fs::write(&ca, "no certificate").unwrap();
            let refused = order(&server, &["reload"]).unwrap_err();
            assert!(refused.contains("ca.pem"), "{told}: {refused}");
            assert_eq!(statuses(), [None, Some(200)], "{told}");
            end_reloaded(server, engine);
        }
    }
}

#[test]
fn what_client_ca_holds_when_a_reload_is_done_counts_over_http2() {
    let (launch, alice) = launch(AMPED, &site("b", KNOWN));
    let other = launch.directory().join("other");
    fs::create_dir(&other).unwrap();
    let eve = make_client(&other, "alice");
    let server = launch.start();
    let [alice, eve] = [alice, eve].map(|pair| Arc::new(pair.config(nobody(&server, &TLS13))));
    let name = || ServerName::try_from("b.test").unwrap();
    let status = |config| {
        let mut client = Http2::try_connect_secured(server.address(), config, name())?;
        let mut request = http2::request("GET", "/a.txt", &[]);
        *request.uri_mut() = "https://b.test/a.txt".parse().unwrap();
        client.try_ask(request).ok().map(|answer| answer.status)
    };
    assert_eq!([&alice, &eve].map(status), [Some(200), None]);
    fs::copy(other.join("ca.pem"), server.directory().join("ca.pem")).unwrap();
    order(&server, &["reload"]).unwrap();
    assert_eq!([&alice, &eve].map(status), [None, Some(200)]);
    server.finish();
}

#[test]
fn processes_that_judge_by_another_authority_are_there_when_a_reload_is_done() {
    for engine in [MP, CO_AMPED] {
        let (launch, alice) = launch(engine, &site("b", KNOWN));
        let other = launch.directory().join("other");
        fs::create_dir(&other).unwrap();
        let eve = make_client(&other, "alice");
        let server = launch.start();
        let [alice, eve] = [alice, eve].map(|pair| Arc::new(pair.config(nobody(&server, &TLS13))));
        assert!(order(&server, &["reload"]).unwrap().contains("as it was"), "nothing is to be done");
        assert_eq!(status(&server, &alice, "b.test", "b.test"), Some(200));
        fs::copy(other.join("ca.pem"), server.directory().join("ca.pem")).unwrap();
        let said = order(&server, &["reload"]).unwrap();
        assert!(said.contains("files that it names have been read again"), "{said}");
        eventually("the other authority counts", PATIENCE, || {
            let statuses = [&alice, &eve].map(|config| status(&server, config, "b.test", "b.test"));
            (statuses == [None, Some(200)]).then_some(())
        });
        order(&server, &["drain"]).expect("who serves now can end");
    }
}

/// A client of an authority, in `ca.pem`, whose certificate is good for so long.
fn client_for(directory: &Path, seconds: u64) -> ClientPair {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut parameters = rcgen::CertificateParams::new(Vec::new()).unwrap();
    parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    fs::write(directory.join("ca.pem"), parameters.self_signed(&key).unwrap().pem()).unwrap();
    let issuer = rcgen::Issuer::new(parameters, key);
    let key = rcgen::KeyPair::generate().unwrap();
    let mut parameters = rcgen::CertificateParams::new(Vec::new()).unwrap();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    parameters.not_after = rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs(now.as_secs() + seconds);
    let certificate = parameters.signed_by(&key, &issuer).unwrap().der().clone();
    ClientPair { certificate, key: PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap() }
}

#[test]
fn a_certificate_of_a_client_counts_until_it_ends() {
    for (engine, lines, version) in [(AMPED, KNOWN, &TLS13), (CO_AMPED, OPTIONAL, &TLS12), (THREAD_POOL, KNOWN, &TLS12)]
    {
        let (launch, _alice) = launch(engine, &site("b", lines));
        let client = client_for(launch.directory(), 6);
        let server = launch.start();
        let config = Arc::new(client.config(nobody(&server, version)));
        let mut kept = connect_as(&server, &config, "b.test");
        assert_eq!(ask(&mut kept, "b.test"), Some(200));
        eventually("it ends", PATIENCE, || (ask(&mut kept, "b.test") != Some(200)).then_some(()));
        assert_eq!(ask(&mut kept, "b.test"), Some(421));
        assert_eq!(status(&server, &config, "b.test", "b.test"), None);
        server.finish();
    }
}

#[test]
fn a_connection_in_clear_text_is_none_of_a_site_that_has_a_certificate_now() {
    for engine in [AMPED, PIPELINED, THREAD_POOL, THREAD_PER_REQUEST, PROACTOR, CO_AMPED, MP] {
        let open = "[[site]]\nroot = \"site/b\"\n";
        for after in [
            site("b", KNOWN),
            site("a", "") + &site("b", ""),
            format!("{}hosts = [\"c.test\"]\n{}", open, site("b", "")),
        ] {
            let (launch, _alice) = launch(engine, open);
            let server = launch.start();
            let mut kept = server.connect();
            let mut begun = server.connect();
            let request = b"GET /a.txt HTTP/1.1\r\nHost: b.test\r\n\r\n";
            kept.send(request);
            assert_eq!(kept.receive(true).unwrap().content, SECRET);
            begun.send(&request[..20]);
            fs::write(server.directory().join("lamna.toml"), after).unwrap();
            order(&server, &["reload"]).unwrap();
            // A process that leaves may answer what it has, by what counted for it; nothing else does.
            begun.send(&request[20..]);
            let _ = begun.receive(true);
            for client in [&mut kept, &mut begun] {
                eventually("it is led to https, or closed", PATIENCE, || {
                    // It may be closed already, which sending would not take.
                    let _ = client.stream.write_all(request);
                    match client.receive(true) {
                        Ok(answer) if answer.status == 308 => {
                            assert!(answer.content != SECRET);
                            Some(())
                        }
                        Ok(_) => {
                            assert!(engine.architecture != AMPED.architecture, "one process changes at once");
                            None
                        }
                        Err(_) => Some(()),
                    }
                });
            }
            drop((kept, begun));
            end_reloaded(server, engine);
        }
    }
}

#[test]
fn a_connection_from_before_its_port_spoke_tls_is_led_to_https_at_that_port() {
    let secured = site("a", "");
    let plain_site = "[[site]]\nhosts = [\"a.test\"]\nroot = \"site/a\"\n";
    for engine in [AMPED, THREAD_POOL, PIPELINED, PROACTOR] {
        let (launch, _alice) = launch(engine, plain_site);
        let config = launch.directory().join("lamna.toml");
        let server = launch.start();
        let mut client = server.connect();
        let mut ask = || {
            client.send(b"GET /a.txt HTTP/1.1\r\nHost: a.test\r\n\r\n");
            let answer = client.receive(true).expect("there is an answer");
            (answer.status, answer.field("Location").map(str::to_owned))
        };
        assert_eq!(ask(), (200, None));
        let before = fs::read_to_string(&config).unwrap();
        fs::write(&config, before.replace(plain_site, &secured)).unwrap();
        order(&server, &["reload"]).unwrap();
        let there = format!("https://a.test:{}/a.txt", server.address().port());
        assert_eq!(ask(), (308, Some(there)), "{engine:?}");
        drop(client);
        end_reloaded(server, engine);
    }
}
