//! TLS over real sockets, with every engine: the same conversations as without, and what only TLS can do or suffer.
//!
//! The client is rustls. An end without `close_notify` is an error there, so that every test that reads to the end
//! checks for it.

pub(crate) mod known_clients;

use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use rustix::process::Signal;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{AlertDescription, ClientConfig, ClientConnection, HandshakeKind, RootCertStore, StreamOwned};

use crate::client::{Client, Duplex, PATIENCE};
use crate::control::{ctl, figure, order, runtime};
use crate::engine::{AMPED, Engine, MP, PIPELINED, PROACTOR, THREAD_POOL, for_engines};
use crate::script::{self, Sending};
use crate::server::{Launch, Server, eventually};
use crate::skip::skipped;
use crate::tree;

// What is said is the same as without TLS, and what only TLS can do.
for_engines!([
    mp = MP,
    sped = SPED,
    amped = AMPED,
    co_amped = CO_AMPED,
    pipelined = PIPELINED,
    thread_pool = THREAD_POOL,
    thread_per_request = THREAD_PER_REQUEST,
    thread_per_session = THREAD_PER_SESSION,
    proactor = PROACTOR,
] => [
    requests, framing, persistence, files, ranges, codings, errors, limits, timeouts,
    long_answers_arrive_whole_however_slowly_they_are_read,
    many_answers_to_one_batch_arrive_in_order,
    both_versions_are_spoken_and_old_clients_come_again_with_tickets,
    plain_http_is_answered_in_words,
    a_handshake_that_is_not_finished_ends,
    what_is_no_tls_ends_and_others_are_served,
    who_leaves_in_the_middle_of_an_answer_harms_nobody,
    draining_finishes_what_has_begun_and_says_the_end,
    a_renewed_certificate_is_served_without_a_restart,
    an_expired_certificate_never_replaces_a_good_one,
    the_dates_of_a_certificate_from_files_are_told,
]);

// Files that are read elsewhere, or by more than one loop.
for_engines!([
    sped_2 = SPED_2,
    amped_without_nowait = AMPED_WITHOUT_NOWAIT,
    amped_with_helper_processes = AMPED_WITH_HELPER_PROCESSES,
    amped_caches_off = AMPED_CACHES_OFF,
    pipelined_without_nowait = PIPELINED_WITHOUT_NOWAIT,
    proactor_without_nowait = PROACTOR_WITHOUT_NOWAIT,
] => [persistence, files, ranges]);

fn requests(engine: Engine) {
    converse(engine, include_str!("suite/requests.txt"), "");
}

fn framing(engine: Engine) {
    converse(engine, include_str!("suite/framing.txt"), "");
}

fn persistence(engine: Engine) {
    converse(engine, include_str!("suite/persistence.txt"), "");
}

fn files(engine: Engine) {
    converse(engine, include_str!("suite/files.txt"), "");
}

fn ranges(engine: Engine) {
    converse(engine, include_str!("suite/ranges.txt"), "");
}

fn codings(engine: Engine) {
    converse(engine, include_str!("suite/codings.txt"), "");
}

fn errors(engine: Engine) {
    converse(
        engine,
        include_str!("suite/errors.txt"),
        "[[site]]\nroot = \"site\"\nerror_pages = { \"404\" = \"/404.html\" }\n",
    );
}

fn limits(engine: Engine) {
    converse(engine, include_str!("suite/limits.txt"), include_str!("suite/limits.toml"));
}

fn timeouts(engine: Engine) {
    converse(engine, include_str!("suite/timeouts.txt"), include_str!("suite/timeouts.toml"));
}

pub(crate) type TlsStream = StreamOwned<ClientConnection, TcpStream>;

impl Duplex for TlsStream {
    fn end_sending(&mut self) {
        if self.conn.is_handshaking() {
            let _ = self.conn.complete_io(&mut self.sock);
        }
        self.conn.send_close_notify();
        let _ = self.conn.complete_io(&mut self.sock);
    }
}

/// What a client trusts: the local authority of `server`.
pub(crate) fn trusting(server: &Server) -> Arc<ClientConfig> {
    let authority = server.directory().join("state/lamna/tls/local-ca.pem");
    Arc::new(config_of(&[&authority]))
}

/// What trusts the certificates of `text`, in PEM.
pub(crate) fn client_config(text: &[u8]) -> ClientConfig {
    let file = tempfile::NamedTempFile::new().expect("a temporary file can be made");
    fs::write(file.path(), text).expect("it can be written");
    config_of(&[file.path()])
}

fn config_of(trusted: &[&Path]) -> ClientConfig {
    config_for(trusted, &[&TLS13, &TLS12])
}

pub(crate) fn config_for(trusted: &[&Path], versions: &[&'static rustls::SupportedProtocolVersion]) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    for path in trusted {
        roots.add(CertificateDer::from_pem_file(path).expect("it is a certificate")).expect("it can be trusted");
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_protocol_versions(versions).expect("it is spoken");
    config.with_root_certificates(roots).with_no_client_auth()
}

/// A client that asks for `name`; for none if it is an address.
pub(crate) fn connect_as(server: &Server, config: &Arc<ClientConfig>, name: &str) -> Client<TlsStream> {
    let name = ServerName::try_from(name.to_owned()).expect("it is a name");
    let connection = ClientConnection::new(config.clone(), name).expect("the configuration is whole");
    Client::new(StreamOwned::new(connection, server.connect().stream))
}

/// The same at another of its addresses.
pub(crate) fn connect_at(address: std::net::SocketAddr, config: &Arc<ClientConfig>) -> Client<TlsStream> {
    let name = ServerName::try_from("localhost").expect("it is a name");
    let connection = ClientConnection::new(config.clone(), name).expect("the configuration is whole");
    Client::new(StreamOwned::new(connection, Client::connect(address).stream))
}

pub(crate) fn connect(server: &Server, config: &Arc<ClientConfig>) -> Client<TlsStream> {
    connect_as(server, config, &IpAddr::from([127, 0, 0, 1]).to_string())
}

fn converse(engine: Engine, text: &str, config: &str) {
    let launch = Launch::new(engine).config(config).argument("--tls");
    tree::plant(launch.directory());
    let server = launch.start();
    let trusted = trusting(&server);
    let mut failures = Vec::new();
    for sending in [Sending::Whole, Sending::Bytes] {
        for case in script::parse(text).into_iter().filter(|case| case.can_be_sent(sending)) {
            if let Err(fault) = case.run(connect(&server, &trusted), &server.site(), sending) {
                failures.push(format!("{} ({}), sent {sending:?}:\n  {fault}", case.name, case.reference));
            }
        }
    }
    server.finish();
    assert!(failures.is_empty(), "{} cases failed\n\n{}\n", failures.len(), failures.join("\n"));
}

fn content(length: usize) -> Vec<u8> {
    (0..length).map(|index| (index * 7 + index / 251) as u8).collect()
}

fn long_answers_arrive_whole_however_slowly_they_are_read(engine: Engine) {
    let (long, short) = (content(3_000_000), content(700));
    let server = Launch::new(engine).file("long.bin", &long).file("short.bin", &short).argument("--tls").start();
    let trusted = trusting(&server);
    let mut slow = connect(&server, &trusted);
    slow.send(b"GET /long.bin HTTP/1.1\r\nHost: a\r\n\r\nGET /short.bin HTTP/1.1\r\nHost: a\r\n\r\n");
    // It takes the first bytes, and nothing more until others have been served.
    assert_eq!(slow.receive_head().unwrap().status, 200);
    let first = slow.receive_exactly(1000).unwrap();
    for _ in 0..3 {
        let mut other = connect(&server, &trusted);
        other.send(b"GET /long.bin HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        assert!(other.receive(true).unwrap().content == long);
        other.expect_end().unwrap();
    }
    assert!([first, slow.receive_exactly(long.len() - 1000).unwrap()].concat() == long);
    assert!(slow.receive(true).unwrap().content == short);
    server.finish();
}

fn many_answers_to_one_batch_arrive_in_order(engine: Engine) {
    let mut launch = Launch::new(engine).argument("--tls");
    let sizes = [1, 500, 1369, 1370, 1371, 16_383, 16_384, 16_385, 40_000, 200_000];
    for size in sizes {
        launch = launch.file(&format!("{size}.bin"), content(size));
    }
    let server = launch.start();
    let mut client = connect(&server, &trusting(&server));
    for _ in 0..3 {
        let requests: String =
            sizes.iter().map(|size| format!("GET /{size}.bin HTTP/1.1\r\nHost: a\r\n\r\n")).collect();
        client.send(requests.as_bytes());
        for size in sizes {
            assert!(client.receive(true).unwrap().content == content(size), "{size}");
        }
    }
    server.finish();
}

fn both_versions_are_spoken_and_old_clients_come_again_with_tickets(engine: Engine) {
    let server = Launch::new(engine).file("a.txt", "a").argument("--tls").start();
    let authority = server.directory().join("state/lamna/tls/local-ca.pem");
    for version in [&TLS12, &TLS13] {
        let config = Arc::new(config_for(&[&authority], &[version]));
        for expected in [HandshakeKind::Full, HandshakeKind::Resumed, HandshakeKind::Resumed] {
            let mut client = connect(&server, &config);
            assert_eq!(client.get("/a.txt").unwrap().content, b"a");
            assert_eq!(client.stream.conn.handshake_kind(), Some(expected), "{version:?}");
            client.end_sending();
            client.expect_end().unwrap();
        }
    }
    server.finish();
}

fn plain_http_is_answered_in_words(engine: Engine) {
    let server = Launch::new(engine).argument("--tls").start();
    let mut client = server.connect();
    client.send(b"GET /a/b HTTP/1.1\r\nHost: localhost:1\r\n\r\n");
    let answer = client.receive(true).unwrap();
    assert_eq!(answer.status, 400);
    assert!(String::from_utf8_lossy(&answer.content).contains("https://localhost:1/a/b"));
    client.expect_end().unwrap();
    server.finish();
}

fn a_handshake_that_is_not_finished_ends(engine: Engine) {
    let server =
        Launch::new(engine).config("[limits]\nhead_timeout_ms = 300\n").file("a.txt", "a").argument("--tls").start();
    let mut silent = server.connect();
    let mut half = server.connect();
    half.send(&[22, 3, 1, 0x02, 0, 1, 0, 1, 0xfc, 3, 3]);
    half.expect_end().unwrap();
    silent.expect_end().unwrap();
    assert_eq!(connect(&server, &trusting(&server)).get("/a.txt").unwrap().content, b"a");
    server.finish();
}

fn what_is_no_tls_ends_and_others_are_served(engine: Engine) {
    let server = Launch::new(engine).file("a.txt", "a").argument("--tls").start();
    let trusted = trusting(&server);
    let mut kept = connect(&server, &trusted);
    assert_eq!(kept.get("/a.txt").unwrap().content, b"a");
    for bytes in [
        &b"\x80\x2e\x01\x00\x02"[..],
        b"\x16\x03\x01\xff\xff",
        b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00",
        b"\x17\x03\x03\x00\x01\x00",
    ] {
        let mut client = server.connect();
        client.send(bytes);
        client.end_sending();
        let mut rest = Vec::new();
        // It may be told by an alert, and may be reset behind that.
        let _ = client.stream.read_to_end(&mut rest);
        assert!(rest.is_empty() || rest[0] == 21, "{rest:?}");
    }
    assert_eq!(kept.get("/a.txt").unwrap().content, b"a");
    server.finish();
}

fn who_leaves_in_the_middle_of_an_answer_harms_nobody(engine: Engine) {
    let long = content(4_000_000);
    let server = Launch::new(engine).file("long.bin", &long).file("a.txt", "a").argument("--tls").start();
    let trusted = trusting(&server);
    for read in [0, 1, 100_000] {
        for _ in 0..3 {
            let mut leaving = connect(&server, &trusted);
            leaving.send(b"GET /long.bin HTTP/1.1\r\nHost: a\r\n\r\nGET /long.bin HTTP/1.1\r\nHost: a\r\n\r\n");
            leaving.receive_head().unwrap();
            leaving.receive_exactly(read).unwrap();
        }
        assert_eq!(connect(&server, &trusted).get("/a.txt").unwrap().content, b"a");
    }
    server.finish();
}

fn draining_finishes_what_has_begun_and_says_the_end(engine: Engine) {
    let long = content(4_000_000);
    let mut server = Launch::new(engine).file("long.bin", &long).file("a.txt", "a").argument("--tls").start();
    let trusted = trusting(&server);
    let (mut busy, mut idle) = (connect(&server, &trusted), connect(&server, &trusted));
    assert_eq!(idle.get("/a.txt").unwrap().content, b"a");
    busy.send(b"GET /long.bin HTTP/1.1\r\nHost: a\r\n\r\n");
    busy.receive_head().unwrap();
    server.signal(Signal::TERM);
    idle.expect_end().unwrap();
    assert!(busy.receive_exactly(long.len()).unwrap() == long);
    busy.expect_end().unwrap();
    assert!(server.wait().success());
}

/// A self-signed pair, written where the server of [`CERTIFIED`] looks for it.
pub(crate) fn make_pair(directory: &Path, names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let made = rcgen::generate_simple_self_signed(names).expect("a certificate can be made");
    fs::write(directory.join("key.pem"), made.signing_key.serialize_pem()).unwrap();
    fs::write(directory.join("certificate.pem"), made.cert.pem()).unwrap();
    made.cert.pem()
}

pub(crate) const CERTIFIED: &str = "[[site]]\nroot = \"site\"\ncertificate = \"certificate.pem\"\nkey = \"key.pem\"\n";

fn a_renewed_certificate_is_served_without_a_restart(engine: Engine) {
    let launch = Launch::new(engine).config(CERTIFIED).file("a.txt", "a");
    make_pair(launch.directory(), &["site.test"]);
    let mut server = launch.start();
    let (certificate, key) = (server.directory().join("certificate.pem"), server.directory().join("key.pem"));
    let before = Arc::new(config_of(&[&certificate]));
    assert_eq!(connect_as(&server, &before, "site.test").get("/a.txt").unwrap().content, b"a");
    // The certificate alone is of no use.
    let other = tempfile::tempdir().unwrap();
    make_pair(other.path(), &["site.test"]);
    fs::copy(other.path().join("certificate.pem"), &certificate).unwrap();
    let said = server.wait_to_hear("still served");
    assert!(said.contains("is of another key than"), "{said}");
    let again = Arc::new(ClientConfig::clone(&before));
    assert_eq!(connect_as(&server, &again, "site.test").get("/a.txt").unwrap().content, b"a");
    fs::copy(other.path().join("key.pem"), &key).unwrap();
    server.wait_to_hear("the new certificate is served");
    let after = || Arc::new(config_of(&[&other.path().join("certificate.pem")]));
    // Of several processes each looks for itself.
    eventually("the new one is served by all", PATIENCE, || {
        let all = (0..8).all(|_| connect_as(&server, &after(), "site.test").get("/a.txt").is_ok());
        all.then_some(())
    });
    server.finish();
}

/// Watched, at a reload, at one that changes other things, at an upgrade, and where another engine takes worker
/// processes.
fn an_expired_certificate_never_replaces_a_good_one(engine: Engine) {
    let launch = Launch::new(engine).config(CERTIFIED).file("a.txt", "a");
    make_pair(launch.directory(), &["site.test"]);
    let mut server = launch.start();
    let (certificate, key) = (server.directory().join("certificate.pem"), server.directory().join("key.pem"));
    let good = server.directory().join("good.pem");
    let before = || Arc::new(config_of(&[&good]));
    fs::copy(&certificate, &good).unwrap();
    let mut expired = rcgen::CertificateParams::new(vec!["site.test".to_owned()]).unwrap();
    (expired.not_before, expired.not_after) = (rcgen::date_time_ymd(2020, 1, 1), rcgen::date_time_ymd(2021, 1, 1));
    let signing_key = rcgen::KeyPair::generate().unwrap();
    fs::write(&key, signing_key.serialize_pem()).unwrap();
    fs::write(&certificate, expired.self_signed(&signing_key).unwrap().pem()).unwrap();
    for config in [CERTIFIED.to_owned(), format!("{CERTIFIED}browse = true\n")] {
        fs::write(server.directory().join("lamna.toml"), config).unwrap();
        let refused = order(&server, &["reload"]).unwrap_err();
        assert!(refused.contains("certificate.pem: the certificate has expired"), "{refused}");
        assert_eq!(connect_as(&server, &before(), "site.test").get("/a.txt").unwrap().content, b"a");
    }
    fs::write(server.directory().join("lamna.toml"), CERTIFIED).unwrap();
    let takes_processes = if engine.architecture == "mp" { "amped" } else { "mp" };
    for words in [&["upgrade"][..], &["arch", "set", takes_processes]] {
        let refused = order(&server, words).unwrap_err();
        assert!(refused.contains("certificate.pem: the certificate has expired"), "{words:?}: {refused}");
        assert_eq!(connect_as(&server, &before(), "site.test").get("/a.txt").unwrap().content, b"a");
    }
    server.signal(Signal::USR2);
    server.wait_to_hear("not upgraded, going on as before: ");
    assert_eq!(connect_as(&server, &before(), "site.test").get("/a.txt").unwrap().content, b"a");
    server.finish();
}

/// What `lamna ctl status` and the metrics say of a certificate from files.
fn the_dates_of_a_certificate_from_files_are_told(engine: Engine) {
    let config = "[[site]]\nhosts = [\"a.test\"]\nroot = \"site\"\ncertificate = \"certificate.pem\"\nkey = \"key.pem\"\n\
                  [[site]]\nhosts = [\"b.test\"]\nroot = \"site\"\ncertificate = \"certificate.pem\"\nkey = \"key.pem\"\n";
    let launch = Launch::new(engine).config(config);
    let mut made = rcgen::CertificateParams::new(vec!["a.test".to_owned(), "b.test".to_owned()]).unwrap();
    (made.not_before, made.not_after) = (rcgen::date_time_ymd(2020, 1, 1), rcgen::date_time_ymd(2090, 1, 1));
    let key = rcgen::KeyPair::generate().unwrap();
    fs::write(launch.directory().join("key.pem"), key.serialize_pem()).unwrap();
    fs::write(launch.directory().join("certificate.pem"), made.self_signed(&key).unwrap().pem()).unwrap();
    let server = launch.start();
    let status = order(&server, &["status"]).unwrap();
    assert!(status.contains("a.test, b.test: from 2020-01-01 00:00 UTC until 2090-01-01 00:00 UTC ("), "{status}");
    for host in ["a.test", "b.test"] {
        for (name, at) in [("expiry", 3_786_912_000_u64), ("not_before", 1_577_836_800)] {
            let sample = format!("lamna_certificate_{name}_timestamp_seconds{{host=\"{host}\"}}");
            assert_eq!(figure(&server, &sample), at, "{sample}");
        }
    }
    server.finish();
}

fn alert_of(client: &mut Client<TlsStream>) -> Option<rustls::Error> {
    let error = client.stream.write_all(b"GET").and_then(|()| client.stream.read(&mut [0; 10])).err()?;
    error.into_inner()?.downcast::<rustls::Error>().ok().map(|error| *error)
}

#[test]
fn a_name_that_no_site_has_gets_an_alert_and_no_certificate() {
    for engine in [AMPED, PROACTOR, THREAD_POOL] {
        let launch = Launch::new(engine)
            .config(&format!("{CERTIFIED}hosts = [\"site.test\", \"*.wild.test\"]\n"))
            .file("a.txt", "a");
        make_pair(launch.directory(), &["site.test", "*.wild.test"]);
        let mut server = launch.start();
        let config = Arc::new(config_of(&[&server.directory().join("certificate.pem")]));
        for name in ["site.test", "a.wild.test"] {
            assert_eq!(connect_as(&server, &config, name).get("/a.txt").unwrap().content, b"a");
        }
        let alert = alert_of(&mut connect_as(&server, &config, "other.test"));
        assert_eq!(alert, Some(rustls::Error::AlertReceived(AlertDescription::UnrecognisedName)));
        let line = server.wait_to_hear("has failed");
        assert!(
            line.contains(
                "info: a TLS handshake of 127.0.0.1 has failed: no site with a certificate has the name other.test"
            ),
            "{line}"
        );
        server.finish();
    }
}

#[test]
fn a_pair_that_does_not_fit_keeps_a_server_from_starting_and_is_found_by_check() {
    let launch = Launch::new(AMPED).config(CERTIFIED);
    make_pair(launch.directory(), &["site.test"]);
    let other = tempfile::tempdir().unwrap();
    make_pair(other.path(), &["site.test"]);
    fs::copy(other.path().join("key.pem"), launch.directory().join("key.pem")).unwrap();
    let (status, said) = launch.fail();
    assert_eq!(status.code(), Some(78));
    assert!(said.contains("is of another key than"), "{said}");
}

/// A client's certificate and its key.
pub(crate) struct ClientPair {
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
}

/// A client called `name`, by an authority that is written to `ca.pem`.
pub(crate) fn make_client(directory: &Path, name: &str) -> ClientPair {
    let [client] = make_clients(directory, [name]);
    client
}

/// Clients with these names, by one authority that is written to `ca.pem`.
pub(crate) fn make_clients<const COUNT: usize>(directory: &Path, names: [&str; COUNT]) -> [ClientPair; COUNT] {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut parameters = rcgen::CertificateParams::new(Vec::new()).unwrap();
    parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    fs::write(directory.join("ca.pem"), parameters.self_signed(&key).unwrap().pem()).unwrap();
    let issuer = rcgen::Issuer::new(parameters, key);
    names.map(|name| {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut parameters = rcgen::CertificateParams::new(Vec::new()).unwrap();
        parameters.distinguished_name = rcgen::DistinguishedName::new();
        parameters.distinguished_name.push(rcgen::DnType::CommonName, name);
        let certificate = parameters.signed_by(&key, &issuer).unwrap().der().clone();
        ClientPair { certificate, key: PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap() }
    })
}

impl ClientPair {
    /// The same for another configuration.
    pub(crate) fn again(&self) -> ClientPair {
        ClientPair { certificate: self.certificate.clone(), key: self.key.clone_key() }
    }

    /// `config` of a client that shows this certificate.
    pub(crate) fn config(self, mut config: ClientConfig) -> ClientConfig {
        let key = config.crypto_provider().key_provider.load_private_key(self.key).unwrap();
        let certified = rustls::sign::CertifiedKey::new(vec![self.certificate], key);
        config.client_auth_cert_resolver = Arc::new(rustls::sign::SingleCertAndKey::from(certified));
        config
    }
}

#[test]
fn clients_without_a_certificate_of_the_right_authority_are_refused() {
    let launch = Launch::new(AMPED).config(&format!("{CERTIFIED}client_ca = \"ca.pem\"\n")).file("a.txt", "a");
    make_pair(launch.directory(), &["site.test"]);
    let client = make_client(launch.directory(), "alice");
    let server = launch.start();
    let config = config_of(&[&server.directory().join("certificate.pem")]);
    let alert = alert_of(&mut connect_as(&server, &Arc::new(config.clone()), "site.test"));
    assert_eq!(alert, Some(rustls::Error::AlertReceived(AlertDescription::CertificateRequired)));
    let known = client.config(config);
    assert_eq!(connect_as(&server, &Arc::new(known), "site.test").get("/a.txt").unwrap().content, b"a");
    server.finish();
}

#[test]
fn connections_go_on_while_engines_change() {
    let long = content(1_000_000);
    let launch = Launch::new(AMPED).file("long.bin", &long).file("a.txt", "a").argument("--tls");
    let runtime = launch.directory().join("control");
    let server = launch.start();
    let trusted = trusting(&server);
    let (over, address) = (AtomicBool::new(false), server.address());
    thread::scope(|scope| {
        let clients: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let name = ServerName::from(IpAddr::from([127, 0, 0, 1]));
                    let connection = ClientConnection::new(trusted.clone(), name).unwrap();
                    let mut client = Client::new(StreamOwned::new(connection, Client::connect(address).stream));
                    let mut answers = 0;
                    while !over.load(Relaxed) {
                        assert!(client.get("/long.bin").unwrap().content == long);
                        assert_eq!(client.get("/a.txt").unwrap().content, b"a");
                        answers += 1;
                    }
                    answers
                })
            })
            .collect();
        let engines = [
            "proactor",
            "thread-pool",
            "pipelined",
            "sped",
            "thread-per-session",
            "proactor",
            "thread-per-request",
            "amped",
        ];
        for name in engines.iter().cycle().take(24) {
            let mut set = Command::new(env!("CARGO_BIN_EXE_lamna"));
            set.args(["ctl", "arch", "set", name]).env("LAMNA_RUNTIME_DIR", &runtime);
            let told = set.output().expect("the program can be started");
            assert!(told.status.success(), "{told:?}");
        }
        over.store(true, Relaxed);
        for client in clients {
            assert!(client.join().unwrap() > 0);
        }
    });
    let said = server.finish();
    assert!(!said.contains("lost"), "{said}");
}

#[test]
fn a_connection_of_one_site_gets_nothing_of_a_site_with_another_certificate() {
    for engine in [AMPED, PIPELINED, THREAD_POOL] {
        let site = |name: &str| {
            format!(
                "[[site]]\nroot = \"site/{name}\"\nhosts = [\"{name}.test\"]\ncertificate = \"{name}/certificate.pem\"\nkey = \"{name}/key.pem\"\n"
            )
        };
        let launch = Launch::new(engine).config(&(site("one") + &site("two")));
        let launch = launch.file("one/a.txt", "of one").file("two/a.txt", "of two");
        let pairs: Vec<_> = ["one", "two"].map(|name| launch.directory().join(name)).into_iter().collect();
        for (pair, name) in pairs.iter().zip(["one.test", "two.test"]) {
            fs::create_dir(pair).unwrap();
            make_pair(pair, &[name]);
        }
        let server = launch.start();
        let config = Arc::new(config_of(&[&pairs[0].join("certificate.pem"), &pairs[1].join("certificate.pem")]));
        let mut client = connect_as(&server, &config, "one.test");
        let mut ask = |host: &str| {
            client.send(format!("GET /a.txt HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes());
            let answer = client.receive(true).unwrap();
            (answer.status, answer.content)
        };
        assert_eq!(ask("one.test"), (200, b"of one".to_vec()));
        assert_eq!(ask("two.test").0, 421);
        assert_eq!(ask("one.test:8443"), (200, b"of one".to_vec()), "the connection goes on");
        server.finish();
    }
}

#[test]
fn the_port_of_plain_http_sends_clients_to_the_other_one() {
    let Ok(free) = std::net::TcpListener::bind(("127.0.0.80", 80)) else {
        return skipped("the_port_of_plain_http_sends_clients_to_the_other_one", "port 80 is not to be had");
    };
    drop(free);
    for engine in [AMPED, PIPELINED, MP] {
        let launch = Launch::new(engine).argument("--tls").argument("--listen").argument("127.0.0.80:80");
        let server = launch.file("a.txt", "a").start();
        let mut client = Client::connect(([127, 0, 0, 80], 80).into());
        client.send(b"GET /a.txt?b=c HTTP/1.1\r\nHost: localhost:80\r\n\r\n");
        let answer = client.receive(true).unwrap();
        assert_eq!((answer.status, answer.field("Location")), (308, Some("https://localhost/a.txt?b=c")));
        for (url, status) in
            [("http://localhost/a.txt?b=c", "308"), ("https://localhost/a.txt", "200"), ("/a.txt", "200")]
        {
            let told = ctl(&runtime(&server), &["explain", url]).output;
            assert!(told.contains(&format!("answer   {status} ")), "{url}: {told}");
            assert_eq!(told.contains("Location: https://localhost/a.txt?b=c"), status == "308", "{url}: {told}");
        }
        assert_eq!(connect(&server, &trusting(&server)).get("/a.txt").unwrap().content, b"a");
        server.finish();
    }
}
