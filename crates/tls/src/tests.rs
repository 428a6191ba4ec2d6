//! A session against the client of rustls, in memory, and against records that no client would send.
//!
//! Owns: nothing that serves.

use std::path::Path;
use std::sync::Arc;

use lamna_config::settings::{ClientCa, Settings, SiteSettings, SiteTls};
use lamna_proto::time::Instant;
use lamna_sys::shared_memory::SharedMemory;
use proptest::prelude::*;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::version::{TLS12, TLS13};
use rustls::{AlertDescription, ClientConfig, Error, HandshakeKind, SupportedProtocolVersion};
use tempfile::TempDir;

use super::buffers::BUFFER_BYTES;
use super::crypto::provider;
use super::handshake::HANDSHAKE_BYTES_MAX;
use super::record::{ContentType, OVERHEAD_BYTES_MAX, Sealer, Version};
use super::testing::{self, Made, Pair, client, client_config, files_of};
use super::*;

/// Sites with a certificate each.
struct Served {
    _directory: TempDir,
    endpoint: Arc<Endpoint>,
    made: Vec<Made>,
    tickets: Arc<Tickets>,
    settings: Settings,
}

fn site(hosts: &[&str], tls: Option<SiteTls>) -> SiteSettings {
    let hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
    SiteSettings { hosts, tls, ..SiteSettings::new("/".into()) }
}

fn serve(names: &[&str]) -> Served {
    let directory = tempfile::tempdir().unwrap();
    let (mut made, mut sites) = (Vec::new(), Vec::new());
    for name in names {
        let pair = testing::pair(name);
        let own = directory.path().join(name);
        std::fs::create_dir(&own).unwrap();
        sites.push(site(&[name], Some(SiteTls::Files(files_of(&own, &pair)))));
        made.push(pair);
    }
    let settings = Settings { sites, ..Settings::default() };
    let tickets = Arc::new(Tickets::new().unwrap());
    let endpoint = Endpoint::open(&settings, tickets.clone(), SharedMemory::default(), &[Alpn::Http2, Alpn::Http1])
        .unwrap()
        .unwrap();
    Served { _directory: directory, endpoint, made, tickets, settings }
}

impl Served {
    fn config(&self, versions: &[&'static SupportedProtocolVersion]) -> ClientConfig {
        client_config(&self.made.iter().collect::<Vec<_>>(), versions)
    }

    fn session(&self) -> TlsSession {
        TlsSession::new(self.endpoint.clone())
    }

    fn pair(&self, config: &Arc<ClientConfig>, name: &str) -> Pair<TlsSession> {
        Pair::new(client(config, name), self.session())
    }

    /// A connection of `version` on which the handshake is over.
    fn open(&self, version: &'static SupportedProtocolVersion) -> Pair<TlsSession> {
        let name = self.settings.sites[0].hosts[0].clone();
        let mut pair = self.pair(&Arc::new(self.config(&[version])), &name);
        pair.exchange().unwrap();
        assert_eq!(pair.server.phase(), Phase::Open);
        pair
    }
}

fn send_all(pair: &mut Pair<TlsSession>, mut content: &[u8], now: Instant) -> Vec<u8> {
    let mut received = Vec::new();
    while !content.is_empty() {
        let taken = pair.server.write([content, &[]], now);
        assert!(taken > 0, "{:?}", pair.server);
        content = &content[taken..];
        pair.exchange().unwrap();
        received.extend(pair.client_received());
    }
    received
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|index| (index * 31 % 251) as u8).collect()
}

#[test]
fn every_cipher_suite_of_both_versions_carries_bytes_both_ways() {
    let served = serve(&["example.org"]);
    for suite in provider().cipher_suites.iter() {
        let only = Arc::new(CryptoProvider { cipher_suites: vec![*suite], ..(*provider()).clone() });
        let version = if suite.tls13().is_some() { &TLS13 } else { &TLS12 };
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from(served.made[0].certificate.clone())).unwrap();
        let builder = ClientConfig::builder_with_provider(only).with_protocol_versions(&[version]).unwrap();
        let config = Arc::new(builder.with_root_certificates(roots).with_no_client_auth());
        let mut pair = served.pair(&config, "example.org");
        if let Err(error) = pair.exchange() {
            // The certificate is of ECDSA.
            assert!(format!("{suite:?}").contains("_RSA_"), "{suite:?}: {error}");
            continue;
        }
        let content = pattern(100_000);
        for chunk in content.chunks(7000) {
            pair.client_sends(chunk);
            pair.exchange().unwrap();
        }
        assert!(pair.received == content, "{suite:?}");
        assert!(send_all(&mut pair, &content, Instant::from_ms(0)) == content, "{suite:?}");
        assert_eq!(pair.server.negotiated().unwrap().suite, Some(suite.suite()));
    }
}

#[test]
fn the_cheapest_suite_is_chosen_but_for_clients_that_say_which_is_cheapest_for_them() {
    let served = serve(&["example.org"]);
    for version in [&TLS12, &TLS13] {
        for (first, expected) in [("AES_256", "AES_128"), ("AES_128", "AES_128"), ("CHACHA20", "CHACHA20")] {
            let mut own = (*provider()).clone();
            own.cipher_suites.sort_by_key(|suite| !format!("{suite:?}").contains(first));
            let mut roots = rustls::RootCertStore::empty();
            roots.add(CertificateDer::from(served.made[0].certificate.clone())).unwrap();
            let builder =
                ClientConfig::builder_with_provider(Arc::new(own)).with_protocol_versions(&[version]).unwrap();
            let config = Arc::new(builder.with_root_certificates(roots).with_no_client_auth());
            let mut pair = served.pair(&config, "example.org");
            pair.exchange().unwrap();
            let name = pair.server.negotiated().unwrap().suite_name();
            assert!(name.contains(expected), "{first} first, TLS {version:?}: {name}");
        }
    }
}

#[test]
fn what_was_agreed_on_is_known() {
    let served = serve(&["example.org"]);
    for (version, name) in [(&TLS12, "1.2"), (&TLS13, "1.3")] {
        let pair = served.open(version);
        let negotiated = pair.server.negotiated().unwrap();
        assert_eq!((negotiated.told().version, negotiated.name.as_deref()), (name, Some("example.org")));
        assert!(["x25519", "X25519MLKEM768"].contains(&negotiated.group_name()), "{negotiated:?}");
        assert!(negotiated.suite_name().contains("AES"), "{negotiated:?}");
        assert_eq!((negotiated.alpn, negotiated.is_resumed, &negotiated.client), (Alpn::Http1, false, &None));
    }
}

#[test]
fn the_best_protocol_that_both_speak_is_chosen() {
    let served = serve(&["example.org"]);
    for (offered, expected) in
        [(&["http/1.1", "h2"][..], Alpn::Http2), (&["http/1.1"], Alpn::Http1), (&[], Alpn::Http1)]
    {
        let mut config = served.config(rustls::ALL_VERSIONS);
        config.alpn_protocols = offered.iter().map(|name| name.as_bytes().to_vec()).collect();
        let mut pair = served.pair(&Arc::new(config), "example.org");
        pair.exchange().unwrap();
        assert_eq!(pair.server.negotiated().unwrap().alpn, expected);
    }
    let mut config = served.config(rustls::ALL_VERSIONS);
    config.alpn_protocols = vec![b"smtp".to_vec()];
    let refused = served.pair(&Arc::new(config), "example.org").exchange();
    assert_eq!(refused, Err(Error::AlertReceived(AlertDescription::NoApplicationProtocol)));
}

#[test]
fn each_name_gets_its_own_certificate_and_others_none() {
    let served = serve(&["example.org", "example.net", "*.example.com"]);
    let config = Arc::new(served.config(rustls::ALL_VERSIONS));
    for name in ["example.org", "example.net", "EXAMPLE.net", "a.example.com"] {
        let mut pair = served.pair(&config, name);
        pair.exchange().unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(pair.server.server_name(), Some(&*name.to_ascii_lowercase()));
    }
    for name in ["example.com", "other.example.org", "unknown.test"] {
        let mut pair = served.pair(&config, name);
        assert_eq!(pair.exchange(), Err(Error::AlertReceived(AlertDescription::UnrecognisedName)), "{name}");
        assert_eq!(pair.server.phase(), Phase::Failed);
        assert!(pair.server.failure().unwrap().to_string().contains(name));
    }
}

#[test]
fn a_site_without_a_certificate_is_not_served_with_another_s() {
    let directory = tempfile::tempdir().unwrap();
    let made = testing::pair("example.org");
    let tls = Some(SiteTls::Files(files_of(directory.path(), &made)));
    let sites = vec![site(&["plain.example"], None), site(&[], tls)];
    let settings = Settings { sites, ..Settings::default() };
    let endpoint =
        Endpoint::open(&settings, Arc::new(Tickets::new().unwrap()), SharedMemory::default(), &[Alpn::Http1])
            .unwrap()
            .unwrap();
    assert!(endpoint.choose(Some("plain.example")).is_none());
    assert!(endpoint.choose(Some("example.org")).is_some(), "the certificate of the site for any name has it");
    assert!(endpoint.choose(Some("other.example")).is_none(), "and no other");
    assert!(endpoint.choose(None).is_some());
}

#[test]
fn a_client_comes_again_with_a_ticket_also_to_another_process() {
    let served = serve(&["example.org", "example.net"]);
    let tickets = Arc::new(Tickets::from_bytes(&served.tickets.to_bytes()));
    let other = Endpoint::open(&served.settings, tickets, SharedMemory::default(), &[Alpn::Http1]).unwrap().unwrap();
    for version in [&TLS12, &TLS13] {
        let config = Arc::new(served.config(&[version]));
        let mut first = served.pair(&config, "example.org");
        first.exchange().unwrap();
        assert_eq!(first.client.handshake_kind(), Some(HandshakeKind::Full));
        let mut second = Pair::new(client(&config, "example.org"), TlsSession::new(other.clone()));
        second.exchange().unwrap();
        assert_eq!(second.client.handshake_kind(), Some(HandshakeKind::Resumed), "{version:?}");
        assert!(second.server.negotiated().unwrap().is_resumed);
        second.client_sends(b"hello");
        second.exchange().unwrap();
        assert_eq!(second.received, b"hello");
    }
}

#[test]
fn a_day_after_its_last_whole_handshake_a_client_makes_another_however_often_it_has_come() {
    const HOUR: u64 = 60 * 60;
    let served = serve(&["example.org"]);
    for version in [&TLS12, &TLS13] {
        let config = Arc::new(served.config(&[version]));
        let come = |hours: u64| {
            served.tickets.put_ahead(hours * HOUR);
            let mut pair = served.pair(&config, "example.org");
            pair.exchange().unwrap();
            pair.client.handshake_kind()
        };
        assert_eq!(come(0), Some(HandshakeKind::Full));
        for hours in [5, 10, 15, 20, 23] {
            assert_eq!(come(hours), Some(HandshakeKind::Resumed), "{version:?} after {hours} hours");
        }
        assert_eq!(come(25), Some(HandshakeKind::Full), "{version:?}");
        assert_eq!(come(26), Some(HandshakeKind::Resumed), "{version:?}");
    }
}

fn with_client_ca(directory: &Path, authority: &Made) -> (Made, Settings) {
    let made = testing::pair("example.org");
    let mut files = files_of(directory, &made);
    let client_ca = directory.join("ca.pem");
    std::fs::write(&client_ca, &authority.certificate_pem).unwrap();
    files.client_ca = Some(ClientCa { file: client_ca, is_optional: false });
    (made, Settings { sites: vec![site(&["example.org"], Some(SiteTls::Files(files)))], ..Settings::default() })
}

#[test]
fn a_site_for_known_clients_wants_their_certificate_and_knows_whose_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let (authority, alice) = testing::authority_and_client("alice");
    let (made, settings) = with_client_ca(directory.path(), &authority);
    let endpoint =
        Endpoint::open(&settings, Arc::new(Tickets::new().unwrap()), SharedMemory::default(), &[Alpn::Http1])
            .unwrap()
            .unwrap();
    for version in [&TLS12, &TLS13] {
        let anonymous = Arc::new(client_config(&[&made], &[version]));
        let mut pair = Pair::new(client(&anonymous, "example.org"), TlsSession::new(endpoint.clone()));
        assert!(matches!(pair.exchange(), Err(Error::AlertReceived(_))), "{version:?}");
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from(made.certificate.clone())).unwrap();
        let key = PrivateKeyDer::from_pem_slice(alice.key_pem.as_bytes()).unwrap();
        let known = ClientConfig::builder_with_provider(provider()).with_protocol_versions(&[version]).unwrap();
        let known = known.with_root_certificates(roots);
        let known = Arc::new(known.with_client_auth_cert(vec![alice.certificate.clone().into()], key).unwrap());
        for _ in 0..2 {
            let mut pair = Pair::new(client(&known, "example.org"), TlsSession::new(endpoint.clone()));
            pair.exchange().unwrap();
            let negotiated = pair.server.negotiated().unwrap();
            let told = (negotiated.client_subject(), negotiated.is_resumed, negotiated.authorities.is_some());
            assert_eq!(told, (Some("CN=alice"), false, true), "who is known is asked each time");
        }
    }
}

#[test]
fn keys_are_updated_whenever_the_client_asks() {
    let served = serve(&["example.org"]);
    let mut pair = served.open(&TLS13);
    for round in 0..5_u8 {
        pair.client.refresh_traffic_keys().unwrap();
        pair.client_sends(&[round; 100]);
        pair.exchange().unwrap();
        assert_eq!(send_all(&mut pair, &[round; 200], Instant::from_ms(0)), [round; 200]);
    }
    assert_eq!(pair.received.len(), 500);
}

#[test]
fn the_end_is_said_by_both_sides() {
    let served = serve(&["example.org"]);
    for version in [&TLS12, &TLS13] {
        let mut pair = served.open(version);
        pair.client_sends(b"last");
        pair.client.send_close_notify();
        pair.exchange().unwrap();
        assert_eq!((&pair.received[..], pair.server.phase()), (&b"last"[..], Phase::Ended));
        assert_eq!(send_all(&mut pair, b"still", Instant::from_ms(0)), b"still");
        pair.server.end_sending();
        pair.exchange().unwrap();
        let mut nothing = [0; 10];
        assert_eq!(std::io::Read::read(&mut pair.client.reader(), &mut nothing).unwrap(), 0, "it is no truncation");
        assert_eq!(pair.server.write([b"more", b""], Instant::from_ms(0)), 0);
    }
}

#[test]
fn an_open_session_that_waits_holds_no_buffer() {
    let served = serve(&["example.org"]);
    for version in [&TLS12, &TLS13] {
        let mut pair = served.open(version);
        pair.client_sends(b"hello");
        pair.exchange().unwrap();
        send_all(&mut pair, &pattern(50_000), Instant::from_ms(0));
        pair.server.settle();
        assert_eq!(pair.server.held_bytes(), 0);
    }
}

#[test]
fn half_a_record_holds_no_more_than_itself() {
    let served = serve(&["example.org"]);
    let mut session = served.session();
    let hello = testing::client_hello("example.org");
    for (index, byte) in hello[..hello.len() - 1].iter().enumerate() {
        session.receive_space()[0] = *byte;
        session.handle_received(1);
        session.advance();
        session.settle();
        assert_eq!((session.held_bytes(), session.phase()), (index + 1, Phase::Handshaking));
    }
}

#[test]
fn first_records_are_small_and_those_of_long_answers_full() {
    let served = serve(&["example.org"]);
    let mut pair = served.open(&TLS13);
    let sizes = |pair: &mut Pair<TlsSession>, now: u64| {
        let (mut sizes, mut left) = (Vec::new(), 100_000_usize);
        while left > 0 {
            left -= pair.server.write([&pattern(left), &[]], Instant::from_ms(now));
            let mut records = pair.server.output();
            while let Ok(Some(length)) = record::record_length(records) {
                sizes.push(length);
                records = &records[length..];
            }
            pair.exchange().unwrap();
        }
        sizes
    };
    let begun = sizes(&mut pair, 0);
    assert!(begun[..10].iter().all(|size| *size <= 1400), "{begun:?}");
    assert!(
        begun[begun.len() - 6..begun.len() - 2].iter().filter(|size| **size == 16_384 + 22).count() >= 2,
        "{begun:?}"
    );
    assert!(sizes(&mut pair, 10)[0] > 1400, "the path is warm");
    assert!(sizes(&mut pair, 5000)[0] <= 1400, "it was idle");
}

#[test]
fn a_slow_reader_holds_one_buffer_and_nothing_is_lost() {
    let served = serve(&["example.org"]);
    let mut pair = served.open(&TLS13);
    let content = pattern(200_000);
    let taken = pair.server.write([&content, &[]], Instant::from_ms(0));
    assert!(taken > 0 && taken < BUFFER_BYTES);
    assert_eq!(pair.server.write([&content[taken..], &[]], Instant::from_ms(0)), 0, "it is full");
    assert!(pair.server.held_bytes() <= BUFFER_BYTES);
    pair.server.end_sending();
    assert!(pair.server.held_bytes() <= BUFFER_BYTES, "there is room for the end");
    pair.exchange().unwrap();
    assert_eq!(pair.client_received(), content[..taken]);
}

#[test]
fn plain_http_is_answered_in_words_and_ends() {
    let served = serve(&["example.org"]);
    let mut session = served.session();
    let request = b"GET /a HTTP/1.1\r\nHost: example.org\r\n\r\n";
    session.receive_space()[..request.len()].copy_from_slice(request);
    session.handle_received(request.len());
    session.advance();
    assert_eq!(session.phase(), Phase::Failed);
    assert!(String::from_utf8_lossy(session.output()).contains("https://example.org/a"));
}

#[test]
fn a_client_that_leaves_in_the_handshake_or_does_not_end_it_fails() {
    let served = serve(&["example.org"]);
    let mut session = served.session();
    session.handle_end();
    assert_eq!((session.phase(), session.output()), (Phase::Failed, &[][..]));
    let mut session = served.session();
    let record = [&[22, 3, 1, 0x40, 0][..], &[1, 0, 0xff, 0xff], &[0; 16_380]].concat();
    let mut sent = 0;
    while session.phase() == Phase::Handshaking {
        let mut rest = &record[..];
        while !rest.is_empty() && session.phase() == Phase::Handshaking {
            let space = session.receive_space();
            let bytes = space.len().min(rest.len());
            space[..bytes].copy_from_slice(&rest[..bytes]);
            session.handle_received(bytes);
            session.advance();
            (sent, rest) = (sent + bytes, &rest[bytes..]);
        }
        assert!(sent <= HANDSHAKE_BYTES_MAX + record.len());
    }
}

/// A client that has the keys of a connection and sends what it likes.
struct Forger(Sealer);

impl Forger {
    fn new(served: &Served, version: &'static SupportedProtocolVersion) -> (Forger, TlsSession) {
        let mut config = served.config(&[version]);
        config.enable_secret_extraction = true;
        config.resumption = rustls::client::Resumption::disabled();
        let mut pair = served.pair(&Arc::new(config), "example.org");
        pair.exchange().unwrap();
        let version = if version == &TLS13 { Version::V13 } else { Version::V12 };
        #[allow(deprecated)]
        let secrets = pair.client.dangerous_extract_secrets().unwrap();
        (Forger(Sealer::new(secrets.tx, version).unwrap()), pair.server)
    }

    fn record(&mut self, content_type: ContentType, content: &[u8]) -> Vec<u8> {
        let mut out = vec![0; content.len() + OVERHEAD_BYTES_MAX];
        let end = self.0.seal(content_type, [content, &[]], &mut out, 0).unwrap();
        out.truncate(end);
        out
    }

    fn send(&mut self, session: &mut TlsSession, content_type: ContentType, content: &[u8]) {
        give(session, &self.record(content_type, content));
    }
}

fn give(session: &mut TlsSession, bytes: &[u8]) {
    let space = session.receive_space();
    space[..bytes.len()].copy_from_slice(bytes);
    session.handle_received(bytes.len());
    session.advance();
}

#[test]
fn a_changed_record_ends_the_session_with_an_alert() {
    let served = serve(&["example.org"]);
    for version in [&TLS12, &TLS13] {
        let (mut forger, mut session) = Forger::new(&served, version);
        let mut record = forger.record(ContentType::Data, b"content");
        let last = record.len() - 1;
        record[last] ^= 1;
        give(&mut session, &record);
        assert_eq!((session.phase(), session.has_plaintext()), (Phase::Failed, false));
        assert!(!session.output().is_empty(), "the peer is told");
    }
}

#[test]
fn a_record_is_taken_once() {
    let served = serve(&["example.org"]);
    let (mut forger, mut session) = Forger::new(&served, &TLS13);
    let record = forger.record(ContentType::Data, b"content");
    give(&mut session, &record);
    assert_eq!(session.read(&mut [0; 100]), 7);
    give(&mut session, &record);
    assert_eq!(session.phase(), Phase::Failed);
}

#[test]
fn records_without_content_are_not_taken_for_ever() {
    let served = serve(&["example.org"]);
    for version in [&TLS12, &TLS13] {
        let (mut forger, mut session) = Forger::new(&served, version);
        let mut count = 0;
        while session.phase() == Phase::Open {
            forger.send(&mut session, ContentType::Data, b"");
            count += 1;
            assert!(count < 100);
        }
        assert!(count > 10);
    }
}

#[test]
fn a_flood_of_key_updates_ends_and_holds_little() {
    let served = serve(&["example.org"]);
    let (mut forger, mut session) = Forger::new(&served, &TLS13);
    forger.send(&mut session, ContentType::Handshake, &[24, 0, 0, 1, 1]);
    assert_eq!(session.phase(), Phase::Open);
    let one = session.output().len();
    assert!(one > 0);
    // The next one is made with keys that the forger does not have: so it is refused, and nothing more is held.
    forger.send(&mut session, ContentType::Handshake, &[24, 0, 0, 1, 1]);
    assert_eq!(session.phase(), Phase::Failed);
    assert!(session.output().len() < one + 100);
}

#[test]
fn messages_that_have_no_place_end_the_session() {
    let served = serve(&["example.org"]);
    for message in
        [&[24, 0, 0, 1, 2][..], &[24, 0, 0, 1], &[1, 0, 0, 0], &[4, 0, 0, 0], b"", &[24, 0, 0, 1, 0, 24, 0, 0, 1, 0]]
    {
        let (mut forger, mut session) = Forger::new(&served, &TLS13);
        forger.send(&mut session, ContentType::Handshake, message);
        assert_eq!(session.phase(), Phase::Failed, "{message:?}");
    }
    let (mut forger, mut session) = Forger::new(&served, &TLS13);
    forger.send(&mut session, ContentType::ChangeCipherSpec, &[1]);
    assert_eq!(session.phase(), Phase::Failed);
}

#[test]
fn a_renegotiation_is_declined_and_the_session_goes_on() {
    let served = serve(&["example.org"]);
    let (mut forger, mut session) = Forger::new(&served, &TLS12);
    forger.send(&mut session, ContentType::Handshake, &[1, 0, 0, 0]);
    assert_eq!(session.phase(), Phase::Open);
    assert!(!session.output().is_empty());
    forger.send(&mut session, ContentType::Data, b"content");
    assert_eq!(session.read(&mut [0; 100]), 7);
}

#[test]
fn an_alert_of_the_client_ends_the_session_unless_it_is_the_end() {
    let served = serve(&["example.org"]);
    for version in [&TLS12, &TLS13] {
        for (alert, expected) in [([2, 20], Phase::Failed), ([1, 0], Phase::Ended), ([1, 90], Phase::Open)] {
            let (mut forger, mut session) = Forger::new(&served, version);
            forger.send(&mut session, ContentType::Alert, &alert);
            assert_eq!(session.phase(), expected, "{version:?} {alert:?}");
        }
    }
}

fn looked(endpoint: &Endpoint) -> String {
    endpoint.look().into_iter().map(|(_, words)| words).collect()
}

#[test]
fn renewed_files_are_served_and_those_that_do_not_fit_are_not() {
    let directory = tempfile::tempdir().unwrap();
    let (old, new, other) = (testing::pair("example.org"), testing::pair("example.org"), testing::pair("example.org"));
    let files = files_of(directory.path(), &old);
    let settings =
        Settings { sites: vec![site(&["example.org"], Some(SiteTls::Files(files.clone())))], ..Settings::default() };
    let endpoint =
        Endpoint::open(&settings, Arc::new(Tickets::new().unwrap()), SharedMemory::default(), &[Alpn::Http1])
            .unwrap()
            .unwrap();
    let serves = |made: &Made| {
        let config = Arc::new(client_config(&[made], rustls::ALL_VERSIONS));
        Pair::new(client(&config, "example.org"), TlsSession::new(endpoint.clone())).exchange().is_ok()
    };
    assert_eq!(looked(&endpoint), "");
    std::fs::write(&files.certificate, &new.certificate_pem).unwrap();
    let words = looked(&endpoint);
    assert!(words.contains("still served") && words.contains("of another key"), "{words}");
    assert!(serves(&old) && !serves(&new));
    assert_eq!(looked(&endpoint), "", "it is said once");
    std::fs::write(&files.key, &new.key_pem).unwrap();
    let words = looked(&endpoint);
    assert!(words.contains("the new certificate is served"), "{words}");
    assert!(serves(&new) && !serves(&old));
    std::fs::remove_file(&files.key).unwrap();
    assert!(looked(&endpoint).contains("still served"));
    assert!(serves(&new));
    // As it is done with links.
    files_of(directory.path(), &other);
    assert!(looked(&endpoint).contains("the new certificate"));
    assert!(serves(&other));
}

/// An endpoint of two sites that share one pair of files.
fn endpoint_of(files: &lamna_config::settings::TlsFiles) -> Arc<Endpoint> {
    let pair = || Some(SiteTls::Files(files.clone()));
    let sites = vec![site(&["example.org"], pair()), site(&["www.example.org"], pair())];
    let settings = Settings { sites, ..Settings::default() };
    Endpoint::open(&settings, Arc::new(Tickets::new().unwrap()), SharedMemory::default(), &[Alpn::Http1])
        .unwrap()
        .unwrap()
}

#[test]
fn a_certificate_that_clients_refuse_for_its_dates_never_replaces_a_good_one() {
    let directory = tempfile::tempdir().unwrap();
    let good = testing::pair("example.org");
    let files = files_of(directory.path(), &good);
    let endpoint = endpoint_of(&files);
    let serves = |made: &Made| {
        let config = Arc::new(client_config(&[made], rustls::ALL_VERSIONS));
        Pair::new(client(&config, "example.org"), TlsSession::new(endpoint.clone())).exchange().is_ok()
    };
    for (bad, why) in [
        (testing::pair_of("example.org", (2020, 1, 1), (2021, 1, 1)), "has expired"),
        (testing::pair_of("example.org", (2090, 1, 1), (2091, 1, 1)), "is not valid yet"),
    ] {
        files_of(directory.path(), &bad);
        let words = endpoint.look();
        let [(lamna_io::log::errors::Level::Error, said)] = &words[..] else { panic!("one for both: {words:?}") };
        assert!(said.contains("still served") && said.contains(why), "{said}");
        assert_eq!(looked(&endpoint), "", "it is said once, though its day may come");
        let refused = endpoint.read_again().unwrap_err().to_string();
        assert!(refused.contains("certificate.pem: the certificate ") && refused.contains(why), "{refused}");
        assert!(serves(&good));
        assert_eq!(endpoint.of_files()[0].hosts, ["example.org", "www.example.org"]);
        assert!(endpoint.of_files()[0].valid_until > Some(1_800_000_000), "that of the one that is served");
    }
    let other = testing::pair("example.org");
    files_of(directory.path(), &other);
    assert!(looked(&endpoint).contains("the new certificate is served") && serves(&other));
}

#[test]
fn at_the_start_a_certificate_that_clients_refuse_is_served_and_a_good_one_replaces_it() {
    let directory = tempfile::tempdir().unwrap();
    let files = files_of(directory.path(), &testing::pair_of("example.org", (2020, 1, 1), (2021, 1, 1)));
    let endpoint = endpoint_of(&files);
    assert_eq!(looked(&endpoint), "", "it was said at the start");
    endpoint.read_again().expect("nothing is worse than before");
    files_of(directory.path(), &testing::pair("example.org"));
    endpoint.read_again().expect("it is better");
    assert!(endpoint.of_files()[0].valid_until > Some(1_800_000_000));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    /// However the bytes are cut, each side gets what the other has sent.
    #[test]
    fn bytes_arrive_as_they_were_sent(
        piece in 1_usize..5000,
        is_new in any::<bool>(),
        steps in prop::collection::vec((0_usize..40_000, 0_usize..3000, 0_usize..40_000), 1..8),
    ) {
        let served = serve(&["example.org"]);
        let mut pair = served.open(if is_new { &TLS13 } else { &TLS12 });
        pair.piece = piece;
        let (mut sent, mut returned, mut expected) = (Vec::new(), Vec::new(), Vec::new());
        for (from_client, head, content) in steps {
            pair.client_sends(&pattern(from_client));
            sent.extend(pattern(from_client));
            let (head, content) = (pattern(head), pattern(content));
            expected.extend_from_slice(&head);
            expected.extend_from_slice(&content);
            let mut taken = 0;
            while taken < head.len() + content.len() {
                let parts = [&head[taken.min(head.len())..], &content[taken.saturating_sub(head.len())..]];
                taken += pair.server.write(parts, Instant::from_ms(0));
                pair.exchange().unwrap();
                returned.extend(pair.client_received());
            }
            pair.exchange().unwrap();
        }
        prop_assert!(pair.received == sent);
        prop_assert!(returned == expected);
    }

    /// Nothing that a peer sends does more than end its session.
    #[test]
    fn no_bytes_cause_more_than_the_end_of_a_session(
        is_open in any::<bool>(),
        bytes in prop::collection::vec(any::<u8>(), 1..400),
        is_record in any::<bool>(),
        piece in 1_usize..100,
    ) {
        let served = serve(&["example.org"]);
        let mut session = if is_open { served.open(&TLS13).server } else { served.session() };
        let mut bytes = bytes;
        if is_record && bytes.len() > 5 {
            let length = (bytes.len() - 5) as u16;
            bytes[..3].copy_from_slice(&[if is_open { 23 } else { 22 }, 3, 3]);
            bytes[3..5].copy_from_slice(&length.to_be_bytes());
        }
        for part in bytes.chunks(piece) {
            let space = session.receive_space();
            space[..part.len()].copy_from_slice(part);
            session.handle_received(part.len());
            session.advance();
            session.settle();
        }
        session.handle_end();
        prop_assert!(session.phase() != Phase::Handshaking);
        prop_assert_eq!(session.read(&mut [0; 100]), 0);
    }
}
