//! The matrix of transports: three sites that ask for different certificates of clients, and connections, tickets and
//! times that cross them.
//!
//! Owns: the model ([`may`]), and clients whose tickets are offered under every name. A connection that is kept while
//! the configuration, the engine or the process changes may be refused what it had before; it is never given what a new
//! one would not be given.

use std::collections::VecDeque;
use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ClientSessionStore, Resumption, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::version::{TLS12, TLS13};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, NamedGroup, SignatureScheme, StreamOwned,
    SupportedProtocolVersion,
};

use super::{Differences, engines};
use crate::client::Client;
use crate::control::order;
use crate::engine::Engine;
use crate::http2::Http2;
use crate::server::{Launch, Server, eventually};
use crate::skip::skipped;
use crate::tls::{ClientPair, TlsStream, make_client, make_pair};

/// A site, by its name: `a.test`, `b.test`, `c.test`.
type Site = char;

/// What a client shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    Nothing,
    /// A certificate of the first authority.
    Alice,
    /// One of the second.
    Mallory,
}

/// What is served, one configuration after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Site b is for everybody.
    Open,
    /// Site b is for clients of the first authority.
    First,
    /// The same, in another process.
    Upgraded,
    /// Site b is for clients of the second authority.
    Second,
    /// The same, in another engine.
    OtherEngine,
    /// Site b is for clients of the first authority again: the file of authorities has another content, and the
    /// configuration is the same.
    Rewritten,
    /// Clients of site b may come without a certificate, and may have nothing then.
    Optional,
}

const STAGES: [Stage; 7] =
    [Stage::Open, Stage::First, Stage::Upgraded, Stage::Second, Stage::OtherEngine, Stage::Rewritten, Stage::Optional];

/// The model: whether a client that has shown this may have what `site` has, on a connection to `named`. Site c is for
/// clients of the first authority at all times.
fn may(stage: Stage, site: Site, named: Option<Site>, shown: Shown) -> bool {
    let is_let_in = match (site, stage) {
        ('a', _) | ('b', Stage::Open) => true,
        ('b', Stage::First | Stage::Upgraded | Stage::Rewritten) | ('c', _) => shown == Shown::Alice,
        _ => shown == Shown::Mallory,
    };
    is_let_in && named == Some(site)
}

/// The same in clear text: only a trusted proxy that says that its client speaks TLS is served, and what needs a
/// client's certificate it never has.
fn may_in_clear(stage: Stage, site: Site, is_proxied: bool) -> bool {
    is_proxied && (site == 'a' || site == 'b' && stage == Stage::Open)
}

/// Names that are sent in a handshake, and whose site they mean. An address is not sent: the first site answers.
const NAMES: [(&str, Site); 5] =
    [("a.test", 'a'), ("b.test", 'b'), ("c.test", 'c'), ("B.Test", 'b'), ("127.0.0.1", 'a')];

/// How a request names its host, and whose site that means.
const HOSTS: [(&str, Site); 8] = [
    ("GET /secret.txt HTTP/1.1\r\nHost: a.test\r\n", 'a'),
    ("GET /secret.txt HTTP/1.1\r\nHost: b.test\r\n", 'b'),
    ("GET /secret.txt HTTP/1.1\r\nHost: c.test\r\n", 'c'),
    ("GET /secret.txt HTTP/1.1\r\nHost: B.TEST:8443\r\n", 'b'),
    ("GET https://b.test/secret.txt HTTP/1.1\r\nHost: b.test\r\n", 'b'),
    ("GET http://b.test/secret.txt HTTP/1.1\r\nHost: a.test\r\n", 'b'),
    ("GET https://c.test/secret.txt HTTP/1.1\r\nHost: a.test\r\n", 'c'),
    // The last one, because the connection ends with it.
    ("GET /secret.txt HTTP/1.0\r\n", 'a'),
];

/// Tickets, all of which are offered under any name.
#[derive(Debug, Default)]
struct Tickets {
    tls12: Mutex<Option<Tls12ClientSessionValue>>,
    tls13: Mutex<VecDeque<Tls13ClientSessionValue>>,
}

impl ClientSessionStore for Tickets {
    fn set_kx_hint(&self, _: ServerName<'static>, _: NamedGroup) {}

    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        None
    }

    fn set_tls12_session(&self, _: ServerName<'static>, value: Tls12ClientSessionValue) {
        *self.tls12.lock().unwrap() = Some(value);
    }

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.tls12.lock().unwrap().clone()
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {}

    fn insert_tls13_ticket(&self, _: ServerName<'static>, value: Tls13ClientSessionValue) {
        self.tls13.lock().unwrap().push_back(value);
    }

    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.tls13.lock().unwrap().pop_front()
    }
}

/// Takes any certificate of a server: whose it is does not matter here.
#[derive(Debug)]
struct AnyServer(Arc<rustls::crypto::CryptoProvider>);

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

fn config_of(version: &'static SupportedProtocolVersion, pair: Option<ClientPair>) -> ClientConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider.clone()).with_protocol_versions(&[version]);
    let config = config.expect("it is spoken").dangerous();
    let config = config.with_custom_certificate_verifier(Arc::new(AnyServer(provider))).with_no_client_auth();
    match pair {
        Some(pair) => pair.config(config),
        None => config,
    }
}

/// A client of one kind, with a connection that it keeps for each name.
struct Guest {
    shown: Shown,
    version: &'static str,
    config: ClientConfig,
    kept: Vec<(usize, Client<TlsStream>)>,
    /// What it was given, at any time and under any name.
    tickets: Arc<Tickets>,
}

fn connect(server: &Server, config: &Arc<ClientConfig>, name: &str) -> Client<TlsStream> {
    let name = ServerName::try_from(name.to_owned()).expect("it is a name");
    let connection = ClientConnection::new(config.clone(), name).expect("the configuration is whole");
    Client::new(StreamOwned::new(connection, Client::connect(server.address()).stream))
}

/// What comes of a request: the status, and whether the site's own content is there.
fn ask<S: std::io::Read + std::io::Write>(client: &mut Client<S>, head: &str, site: Site) -> (u16, bool) {
    client.send(format!("{head}\r\n").as_bytes());
    match client.receive(true) {
        Ok(response) => {
            let content = String::from_utf8_lossy(&response.content).into_owned();
            (response.status, content.contains(&format!("OF-{site}")))
        }
        Err(_) => (0, false),
    }
}

fn fault(is_let_in: bool, is_kept: bool, (status, is_shown): (u16, bool)) -> Option<String> {
    match (is_let_in, is_shown) {
        (false, true) => Some(format!("it is let in, status {status}")),
        (true, false) if !is_kept => Some(format!("it is not let in, status {status}")),
        _ if status >= 500 => Some(format!("the server fails, status {status}")),
        _ => None,
    }
}

impl Guest {
    fn try_all(&mut self, server: &Server, stage: Stage, differences: &mut Differences) {
        let (shown, version) = (self.shown, self.version);
        // Connections of before.
        for (at, mut client) in std::mem::take(&mut self.kept) {
            let (name, named) = NAMES[at];
            for (head, site) in &HOSTS[..HOSTS.len() - 1] {
                let fault = fault(may(stage, *site, Some(named), shown), true, ask(&mut client, head, *site));
                differences.count(|| format!("{stage:?} kept {version} {shown:?} to {name}: {head:?}"), fault);
            }
        }
        let shared = self.tickets.clone();
        let fresh = |tickets: &Arc<Tickets>| {
            let mut config = self.config.clone();
            config.resumption = Resumption::store(tickets.clone());
            Arc::new(config)
        };
        // New ones, each without a ticket, and then with one that was given for another name.
        for round in ["new", "resumed"] {
            for (at, (name, named)) in NAMES.iter().enumerate() {
                let tickets = if round == "new" { Arc::default() } else { shared.clone() };
                let config = fresh(&tickets);
                let mut client = connect(server, &config, name);
                for (head, site) in HOSTS {
                    let is_over = head.contains("HTTP/1.0");
                    let seen = ask(&mut client, head, site);
                    let fault = fault(may(stage, site, Some(*named), shown), false, seen);
                    differences.count(|| format!("{stage:?} {round} {version} {shown:?} to {name}: {head:?}"), fault);
                    if is_over {
                        break;
                    }
                }
                // What it was given is offered under the other names, now and after the next change.
                shared.tls13.lock().unwrap().extend(tickets_of(&tickets, &shared));
                let old = tickets.tls12.lock().unwrap().clone();
                if let Some(old) = old.filter(|_| round == "new") {
                    *shared.tls12.lock().unwrap() = Some(old);
                }
                if round == "new" {
                    let mut kept = connect(server, &fresh(&Arc::default()), name);
                    let _ = ask(&mut kept, "GET /secret.txt HTTP/1.1\r\nHost: a.test\r\n", 'a');
                    self.kept.push((at, kept));
                }
            }
        }
    }

    fn try_http2(&self, server: &Server, stage: Stage, differences: &mut Differences) {
        let config = Arc::new(self.config.clone());
        for (name, named) in NAMES {
            for site in ['a', 'b', 'c'] {
                let server_name = ServerName::try_from(name.to_owned()).expect("it is a name");
                let request = http::Request::get(format!("https://{site}.test/secret.txt")).body(Vec::new());
                let answer = Http2::try_connect_secured(server.address(), &config, server_name)
                    .and_then(|mut client| client.try_ask(request.expect("it is valid")).ok());
                let seen = match answer {
                    Some(answer) => {
                        let content = String::from_utf8_lossy(&answer.content).into_owned();
                        (answer.status, content.contains(&format!("OF-{site}")))
                    }
                    None => (0, false),
                };
                let fault = fault(may(stage, site, Some(named), self.shown), false, seen);
                differences
                    .count(|| format!("{stage:?} HTTP/2 {} {:?} to {name}: {site}", self.version, self.shown), fault);
            }
        }
    }
}

fn tickets_of(from: &Arc<Tickets>, to: &Arc<Tickets>) -> Vec<Tls13ClientSessionValue> {
    if Arc::ptr_eq(from, to) { Vec::new() } else { from.tls13.lock().unwrap().drain(..).collect() }
}

fn config_at(stage: Stage) -> String {
    let site = |name: Site, more: &str| {
        format!(
            "[[site]]\nroot = \"site/{name}\"\nhosts = [\"{name}.test\"]\ncertificate = \"{name}/certificate.pem\"\nkey = \"{name}/key.pem\"\n{more}"
        )
    };
    let of_b = match stage {
        Stage::Open => "",
        Stage::First | Stage::Upgraded => "client_ca = \"first/ca.pem\"\n",
        Stage::Second | Stage::OtherEngine | Stage::Rewritten => "client_ca = \"now.pem\"\n",
        Stage::Optional => {
            "client_ca = \"second/ca.pem\"\nclient_certificates = \"optional\"\naccess = { certificates = [\"*\"] }\n"
        }
    };
    let of_c = "client_ca = \"first/ca.pem\"\nclient_certificates = \"optional\"\naccess = { certificates = [\"CN=alice\"] }\n";
    "trusted_proxies = [\"127.0.0.0/8\"]\n".to_owned() + &site('a', "") + &site('b', of_b) + &site('c', of_c)
}

fn transport(engine: Engine, port: Option<SocketAddr>, differences: &mut Differences) {
    let mut launch = Launch::new(engine).config(&config_at(Stage::Open));
    if let Some(address) = port {
        launch = launch.argument("--listen").argument(&address.to_string());
    }
    for name in ["a", "b", "c"] {
        let directory = launch.directory().join(name);
        fs::create_dir(&directory).expect("it is not there");
        make_pair(&directory, &[&format!("{name}.test")]);
        launch = launch.file(&format!("{name}/secret.txt"), format!("OF-{name}\n"));
    }
    let pair = |authority: &str, name: &str| {
        let directory = launch.directory().join(authority);
        fs::create_dir_all(&directory).expect("it can be made");
        make_client(&directory, name)
    };
    // Each authority is made once; a pair serves both versions.
    let (alice, mallory) = (pair("first", "alice"), pair("second", "mallory"));
    let mut guests = Vec::new();
    for (version, named) in [(&TLS12, "TLS 1.2"), (&TLS13, "TLS 1.3")] {
        for shown in [Shown::Nothing, Shown::Alice, Shown::Mallory] {
            let pair = match shown {
                Shown::Nothing => None,
                Shown::Alice => Some(alice.again()),
                Shown::Mallory => Some(mallory.again()),
            };
            guests.push(Guest {
                shown,
                version: named,
                config: config_of(version, pair),
                kept: Vec::new(),
                tickets: Arc::default(),
            });
        }
    }
    let server = launch.start();
    let mut plain = port.map(Client::<TcpStream>::connect);
    for stage in STAGES {
        let authority = if stage == Stage::Rewritten { "first" } else { "second" };
        let (from, to) = (server.directory().join(authority).join("ca.pem"), server.directory().join("now.pem"));
        fs::copy(from, to).expect("it can be written");
        fs::write(server.directory().join("lamna.toml"), config_at(stage)).expect("it can be written");
        let told = match stage {
            Stage::Open => Ok(String::new()),
            Stage::Upgraded => order(&server, &["upgrade"]),
            Stage::OtherEngine => {
                order(&server, &["arch", "set", if engine.architecture == "sped" { "amped" } else { "sped" }])
            }
            _ => order(&server, &["reload"]),
        };
        told.unwrap_or_else(|said| panic!("{stage:?}: {said}"));
        // Of several processes each takes it up by itself.
        eventually("the new rules are in force", crate::client::PATIENCE, || {
            let shown = if may(stage, 'b', Some('b'), Shown::Alice) { alice.again() } else { mallory.again() };
            let config = Arc::new(config_of(&TLS13, Some(shown)));
            let nobody = Arc::new(config_of(&TLS13, None));
            let is_in_force = |_| {
                let seen = ask(&mut connect(&server, &config, "b.test"), HOSTS[1].0, 'b');
                seen.1 && ask(&mut connect(&server, &nobody, "b.test"), HOSTS[1].0, 'b').1 == (stage == Stage::Open)
            };
            (0..6).all(is_in_force).then_some(())
        });
        for guest in &mut guests {
            guest.try_all(&server, stage, differences);
            guest.try_http2(&server, stage, differences);
        }
        let Some(address) = port else { continue };
        let mut fresh = Client::<TcpStream>::connect(address);
        for (client, which) in plain.iter_mut().map(|client| (client, "kept")).chain([(&mut fresh, "new")]) {
            for (head, site) in &HOSTS[..if which == "kept" { HOSTS.len() - 1 } else { HOSTS.len() }] {
                let heads = [(false, head.to_string()), (true, format!("{head}X-Forwarded-Proto: https\r\n"))];
                for (is_proxied, head) in heads.iter().take(if head.contains("HTTP/1.0") { 1 } else { 2 }) {
                    let may = may_in_clear(stage, *site, *is_proxied);
                    let fault = fault(may, which == "kept", ask(client, head, *site));
                    differences.count(|| format!("{stage:?} {which} in clear text: {head:?}"), fault);
                }
            }
        }
    }
    order(&server, &["drain"]).expect("it serves");
}

#[test]
fn sites_with_certificates_of_clients_are_for_these_at_all_times() {
    let mut differences = Differences::default();
    for (at, engine) in engines().iter().enumerate() {
        let address = SocketAddr::from(([127, 0, 82, 1 + at as u8], 80));
        let port = TcpListener::bind(address).ok().map(|_| address);
        if port.is_none() {
            skipped("matrix::transport at the port of plain HTTP", "port 80 is not to be had");
        }
        transport(*engine, port, &mut differences);
    }
    differences.settle("transport", 2_000);
}
