//! Certificates that are ordered: from `pebble`, a certificate authority for tests, which asks the server as a real one
//! would.
//!
//! Each test has an address of loopback to itself, so that the server listens at ports 80 and 443. `pebble` and
//! `pebble-challtestsrv` are looked for in the directory that `LAMNA_PEBBLE` names, and in `PATH`.

mod pebble;

use std::fs;
use std::io::Write;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rcgen::{CertificateParams, CustomExtension, KeyPair};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme, StreamOwned};

use crate::client::{Client, Response};
use crate::control::order;
use crate::engine::{
    AMPED, AMPED_WITH_HELPER_PROCESSES, CO_AMPED, Engine, MP, PIPELINED, PROACTOR, THREAD_PER_REQUEST, THREAD_POOL,
};
use crate::server::{Launch, Server, eventually};
use crate::tls::{TlsStream, client_config};
use pebble::Pebble;

/// Within which a certificate is there. It takes a few seconds; only a broken server, or a very busy machine, takes as
/// long.
const ISSUED_WITHIN: Duration = Duration::from_secs(120);

/// From whom certificates are ordered, and by which profile: where none is named, `pebble` takes any.
fn acme(pebble: &Pebble, profile: &str) -> String {
    let (directory, roots) = (pebble.directory(), pebble.roots());
    format!("acme_directory = {directory:?}\nacme_roots = {roots:?}\nacme_profile = {profile:?}\n")
}

/// A server that orders from `pebble` by its usual profile, at port 443 and, if `http`, at port 80.
fn launch(engine: Engine, pebble: &Pebble, http: bool, config: &str) -> Launch {
    launch_with(engine, pebble, http, &format!("{}{config}", acme(pebble, "default")))
}

/// The same with a whole configuration.
fn launch_with(engine: Engine, pebble: &Pebble, http: bool, config: &str) -> Launch {
    let address = pebble.site();
    let launch = Launch::new(engine).listen(format!("{address}:443")).config(config);
    let launch = launch.file("index.html", "of the site");
    if http { launch.argument("--listen").argument(&format!("{address}:80")) } else { launch }
}

/// The table of a site that orders certificates for `hosts`.
fn site(hosts: &[&str]) -> String {
    format!("[[site]]\nroot = \"site\"\nhosts = {hosts:?}\ntls = \"auto\"\n")
}

/// A handshake as `name`; why not, if it fails.
fn handshake(address: IpAddr, config: &Arc<ClientConfig>, name: &str) -> Result<TlsStream, String> {
    let server = ServerName::try_from(name.to_owned()).expect("it is a name");
    let connection = ClientConnection::new(config.clone(), server).expect("the configuration is whole");
    let socket = Client::connect(SocketAddr::new(address, 443)).stream;
    let mut stream = StreamOwned::new(connection, socket);
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock).map_err(|error| error.to_string())?;
    }
    Ok(stream)
}

/// The number of the certificate that is served for `name`, which clients trust; once there is one.
fn certificate_of(pebble: &Pebble, config: &Arc<ClientConfig>, name: &str) -> Vec<u8> {
    eventually("a certificate is served", ISSUED_WITHIN, || {
        let stream = handshake(pebble.site(), config, name).ok()?;
        stream.conn.peer_certificates().map(|chain| chain[0].to_vec())
    })
}

/// A connection to a server that has a certificate for `name`.
fn connect(pebble: &Pebble, config: &Arc<ClientConfig>, name: &str) -> Client<TlsStream> {
    // Each process takes it when it looks, so that the next connection may meet one that has not.
    Client::new(eventually("a certificate is served", ISSUED_WITHIN, || handshake(pebble.site(), config, name).ok()))
}

fn get(client: &mut Client<impl std::io::Read + std::io::Write>, host: &str, path: &str) -> Response {
    client.send(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes());
    client.receive(true).expect("an answer")
}

fn plain(pebble: &Pebble) -> Client<TcpStream> {
    Client::connect(SocketAddr::new(pebble.site(), 80))
}

/// What `ctl status` says once it has all of `words`.
fn status_with(server: &Server, words: &[&str]) -> String {
    eventually("the status says it", ISSUED_WITHIN, || {
        let status = order(server, &["status"]).expect("it answers");
        words.iter().all(|word| status.contains(word)).then_some(status)
    })
}

fn state(directory: &Path) -> std::path::PathBuf {
    let mut found = fs::read_dir(directory.join("state/lamna/acme")).expect("it is there").flatten();
    let place = found.next().expect("one certificate authority").path();
    assert!(found.next().is_none());
    place
}

/// Takes any certificate: that of a challenge is for somebody who looks at something else.
#[derive(Debug)]
struct Anybody;

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        rustls::crypto::ring::default_provider().signature_verification_algorithms.supported_schemes()
    }
}

/// A key and a certificate for `name`, in PEM, with this extension.
fn pair(name: &str, extensions: Vec<CustomExtension>) -> (String, String, Vec<u8>) {
    let key = KeyPair::generate().expect("a key can be made");
    let mut parameters = CertificateParams::new([name.to_owned()]).expect("it is a name");
    parameters.custom_extensions = extensions;
    let certificate = parameters.self_signed(&key).expect("it can be signed");
    (key.serialize_pem(), certificate.pem(), certificate.der().to_vec())
}

#[test]
fn what_another_process_has_ordered_is_served_and_its_challenges_are_answered() {
    let name = "what_another_process_has_ordered_is_served_and_its_challenges_are_answered";
    let Some(address) = pebble::address(name) else { return };
    for engine in [AMPED, MP, PIPELINED, PROACTOR, THREAD_PER_REQUEST] {
        // Nobody listens there.
        let config = format!("acme_directory = \"https://{address}:1/dir\"\n{}", site(&["a.test", "b.test"]));
        let launch = Launch::new(engine).listen(format!("{address}:443")).config(&config).file("index.html", "here");
        let server = launch.argument("--listen").argument(&format!("{address}:80")).start();
        let local = Arc::new(client_config(pair("c.test", Vec::new()).1.as_bytes()));
        let status =
            status_with(&server, &["a.test: none yet; 1 attempt failed", "b.test: none yet; 1 attempt failed"]);
        assert!(status.contains("cannot be asked: Connection refused"), "{status}");
        let failed = handshake(address, &local, "a.test").expect_err("it has no certificate");
        assert!(failed.contains("InternalError"), "{failed}");
        let unknown = handshake(address, &local, "c.test").expect_err("there is no such site");
        assert!(unknown.contains("UnrecognisedName") || unknown.contains("UnrecognizedName"), "{unknown}");
        let http = |host: &str, path: &str| get(&mut Client::connect(SocketAddr::new(address, 80)), host, path);
        let answer = http("A.test", "/.well-known/acme-challenge/token");
        assert!(answer.status == 200 && answer.content.starts_with(b"token."), "{answer:?}");
        assert_eq!(http("a.test", "/").field("Location"), Some("https://a.test/"));

        // A handshake for a challenge, and only that, gets the certificate of the challenge.
        let place = state(server.directory());
        let digest = [7; 32];
        let (key, certificate, challenge) = pair("a.test", vec![CustomExtension::new_acme_identifier(&digest)]);
        fs::write(place.join("challenges/a.test.pem"), key + &certificate).unwrap();
        let mut asking = (*local).clone();
        asking.dangerous().set_certificate_verifier(Arc::new(Anybody));
        asking.alpn_protocols = vec![b"acme-tls/1".to_vec()];
        let asking = Arc::new(asking);
        let mut stream = handshake(address, &asking, "a.test").unwrap();
        assert_eq!(stream.conn.alpn_protocol(), Some(&b"acme-tls/1"[..]));
        assert_eq!(stream.conn.peer_certificates().unwrap()[0].to_vec(), challenge);
        // Such a connection is for nothing else.
        stream.write_all(b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n").unwrap();
        assert_eq!(Client::new(stream).receive(true).unwrap().status, 421);
        let other = handshake(address, &asking, "b.test").expect_err("no challenge is under way for it");
        assert!(other.contains("InternalError"), "{other}");
        assert!(handshake(address, &local, "a.test").is_err());

        // What is installed is served.
        let (key, certificate, _) = pair("a.test", Vec::new());
        let trusted = Arc::new(client_config(certificate.as_bytes()));
        fs::write(place.join("certificates/new"), key + &certificate).unwrap();
        fs::rename(place.join("certificates/new"), place.join("certificates/a.test.pem")).unwrap();
        let stream = eventually("it is served", ISSUED_WITHIN, || handshake(address, &trusted, "a.test").ok());
        assert_eq!(get(&mut Client::new(stream), "a.test", "/").content, b"here");
        assert!(handshake(address, &trusted, "b.test").is_err());
        server.finish();
    }
}

macro_rules! with_pebble {
    ($name:ident, $pebble:ident => $body:block) => {
        #[test]
        fn $name() {
            let Some($pebble) = Pebble::start(stringify!($name)) else { return };
            $body
        }
    };
}

fn a_site_is_secured_by_a_file_over_plain_http(engine: Engine, pebble: &Pebble) {
    let server = launch(engine, pebble, true, &site(&["a.test", "b.test"])).start();
    let trusted = pebble.trusting();
    for name in ["a.test", "b.test"] {
        let mut client = connect(pebble, &trusted, name);
        assert_eq!(get(&mut client, name, "/").content, b"of the site");
    }
    status_with(&server, &["a.test: until 2", "b.test: until 2"]);
    // Everything else goes on to https, also what only looks like a challenge, or asks for somebody else's.
    let redirected = |host: &str, path: &str| {
        let answer = get(&mut plain(pebble), host, path);
        (answer.status, answer.field("Location").map(str::to_owned))
    };
    assert_eq!(redirected("a.test", "/"), (308, Some("https://a.test/".to_owned())));
    assert_eq!(redirected("a.test", "/.well-known/acme-challenge/a.b").0, 308);
    assert_eq!(redirected("c.test", "/.well-known/acme-challenge/token").0, 308);
    let answer = get(&mut plain(pebble), "A.test", "/.well-known/acme-challenge/token");
    assert_eq!((answer.status, answer.field("Content-Type")), (200, Some("application/octet-stream")));
    assert!(answer.content.starts_with(b"token.") && answer.content.len() == 49, "{answer:?}");
    let place = state(server.directory());
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&place), 0o700);
    for file in ["account-key.pem", "certificates/a.test.pem", "certificates/b.test.json"] {
        assert_eq!(mode(&place.join(file)), 0o600, "{file}");
    }
    let said = server.finish();
    assert!(said.contains("a.test: ordering a certificate from") && said.contains("by http-01"), "{said}");
    assert_eq!(said.matches("a certificate was issued").count(), 2, "{said}");
}

with_pebble!(a_site_is_secured_with_every_kind_of_engine, pebble => {
    for engine in [AMPED, MP, CO_AMPED, PIPELINED, PROACTOR, THREAD_POOL, AMPED_WITH_HELPER_PROCESSES] {
        a_site_is_secured_by_a_file_over_plain_http(engine, &pebble);
    }
});

with_pebble!(without_port_80_a_handshake_is_the_challenge, pebble => {
    for engine in [AMPED, MP, PIPELINED, PROACTOR] {
        let server = launch(engine, &pebble, false, &site(&["a.test"])).start();
        let trusted = pebble.trusting();
        let mut client = connect(&pebble, &trusted, "a.test");
        assert_eq!(get(&mut client, "a.test", "/").content, b"of the site");
        // Nobody who is not asked to can begin one.
        let mut asking = client_config(&pebble.root());
        asking.alpn_protocols = vec![b"acme-tls/1".to_vec()];
        let refused = handshake(pebble.site(), &Arc::new(asking), "a.test").expect_err("no challenge is under way");
        assert!(refused.contains("NoApplicationProtocol"), "{refused}");
        let said = server.finish();
        assert!(said.contains("by tls-alpn-01"), "{said}");
    }
});

with_pebble!(a_certificate_is_renewed_when_its_authority_says, pebble => {
    let short = acme(&pebble, "short") + "acme_contact = \"a@b.test\"\n";
    let server = launch_with(AMPED, &pebble, true, &format!("{short}{}", site(&["a.test"]))).start();
    let trusted = pebble.trusting();
    let mut old = connect(&pebble, &trusted, "a.test");
    let first = certificate_of(&pebble, &trusted, "a.test");
    pebble.ask_for_renewal(&state(server.directory()).join("certificates/a.test.pem"));
    order(&server, &["reload"]).unwrap();
    eventually("another certificate is served", ISSUED_WITHIN, || {
        (certificate_of(&pebble, &trusted, "a.test") != first).then_some(())
    });
    // Whoever was there stays.
    assert_eq!(get(&mut old, "a.test", "/").status, 200);
    let text = fs::read_to_string(state(server.directory()).join("certificates/a.test.json")).unwrap();
    assert!(!text.contains("\"issued\": 1,") && text.contains("\"failed\": 0"), "{text}");
    server.finish();
});

with_pebble!(what_is_refused_is_said_and_does_not_keep_others_from_being_served, pebble => {
    pebble.resolve("lost.test", "127.0.0.1");
    let hosts = site(&["a.test", "blocked.test", "lost.test"]);
    let server = launch(AMPED, &pebble, true, &format!("admin = \"auto\"\n{hosts}")).start();
    let trusted = pebble.trusting();
    let mut client = connect(&pebble, &trusted, "a.test");
    assert_eq!(get(&mut client, "a.test", "/").status, 200);
    let status = status_with(&server, &["blocked.test: none yet; 1 attempt failed", "lost.test: none yet; 1 attempt failed"]);
    assert!(status.contains("issues nothing for this name") && status.contains("does not reach this server"), "{status}");
    let metrics = String::from_utf8(crate::control::get(&server, "/metrics").content).unwrap();
    for line in [
        "lamna_certificate_orders_total{host=\"a.test\",result=\"issued\"} 1",
        "lamna_certificate_orders_total{host=\"lost.test\",result=\"failed\"} 1",
        "lamna_certificate_failures{host=\"blocked.test\"} 1",
        "lamna_certificate_expiry_timestamp_seconds{host=\"a.test\"} ",
    ] {
        assert!(metrics.contains(&format!("\n{line}")), "{line}: {metrics}");
    }
    let failed = handshake(pebble.site(), &trusted, "blocked.test").expect_err("it has no certificate");
    assert!(failed.contains("InternalError"), "{failed}");
    // What has been mended is not waited for.
    pebble.resolve("lost.test", &pebble.site().to_string());
    order(&server, &["reload"]).unwrap();
    certificate_of(&pebble, &trusted, "lost.test");
    let said = server.finish();
    assert!(said.contains("error: blocked.test: no certificate was issued by https://"), "{said}");
});

with_pebble!(an_authority_that_is_down_keeps_nobody_from_being_served, pebble => {
    let config = format!(
        "{}[[site]]\nroot = \"site\"\nhosts = [\"other.test\"]\ntls = \"local\"\n", site(&["a.test"])
    );
    let mut pebble = pebble;
    pebble.stop();
    for engine in [AMPED, MP] {
        let server = launch(engine, &pebble, true, &config).start();
        let status = status_with(&server, &["a.test: none yet; 1 attempt failed, the next in"]);
        assert!(status.contains("cannot be asked: "), "{status}");
        let local = server.directory().join("state/lamna/tls/local-ca.pem");
        let local = Arc::new(client_config(&fs::read(&local).unwrap()));
        let mut client = Client::new(handshake(pebble.site(), &local, "other.test").unwrap());
        assert_eq!(get(&mut client, "other.test", "/").status, 200);
        let failed = handshake(pebble.site(), &local, "a.test").expect_err("it has no certificate");
        assert!(failed.contains("InternalError"), "{failed}");
        pebble.go_on();
        order(&server, &["reload"]).unwrap();
        certificate_of(&pebble, &pebble.trusting(), "a.test");
        server.finish();
        pebble.stop();
    }
});

with_pebble!(of_two_servers_that_share_their_state_one_orders, pebble => {
    let first = launch(AMPED, &pebble, true, &site(&["a.test"]));
    let address = pebble.site();
    let second = Launch::new(CO_AMPED).listen(format!("{address}:444")).file("index.html", "of the second");
    let second = second.config(&format!("{}{}", acme(&pebble, "default"), site(&["a.test"])));
    fs::create_dir(first.directory().join("state")).unwrap();
    std::os::unix::fs::symlink(first.directory().join("state"), second.directory().join("state")).unwrap();
    let servers = [first.spawn(), second.spawn()].map(|mut server| {
        server.wait_to_hear("lamna: serving ");
        server
    });
    let trusted = pebble.trusting();
    let one = certificate_of(&pebble, &trusted, "a.test");
    for server in &servers {
        status_with(server, &["a.test: until 2"]);
    }
    // Both serve it: the one that listens elsewhere as well.
    eventually("the other one serves it", ISSUED_WITHIN, || {
        let name = ServerName::try_from("a.test").unwrap();
        let connection = ClientConnection::new(trusted.clone(), name).unwrap();
        let socket = Client::connect(SocketAddr::new(address, 444)).stream;
        let mut stream = StreamOwned::new(connection, socket);
        stream.conn.complete_io(&mut stream.sock).ok()?;
        stream.conn.peer_certificates().is_some_and(|chain| chain[0].to_vec() == one).then_some(())
    });
    let said: String = servers.into_iter().map(Server::finish).collect();
    assert_eq!(said.matches("a.test: a certificate was issued").count(), 1, "{said}");
    assert_eq!(pebble.issued(), 1);
});

with_pebble!(a_name_that_is_added_is_ordered_also_after_an_upgrade, pebble => {
    for engine in [AMPED, MP] {
        let server = launch(engine, &pebble, true, &site(&["a.test"])).start();
        let trusted = pebble.trusting();
        certificate_of(&pebble, &trusted, "a.test");
        let file = server.directory().join("lamna.toml");
        let add = |name: &str| {
            let text = fs::read_to_string(&file).unwrap();
            fs::write(&file, text.replace("hosts = [", &format!("hosts = [\"{name}\", "))).unwrap();
            eventually("it is reloaded", ISSUED_WITHIN, || order(&server, &["reload"]).ok());
            certificate_of(&pebble, &trusted, name);
        };
        add("b.test");
        order(&server, &["upgrade"]).unwrap();
        add("c.test");
        let status = status_with(&server, &["a.test: until 2", "b.test: until 2", "c.test: until 2"]);
        assert!(status.contains("serving"), "{status}");
        order(&server, &["drain"]).unwrap();
    }
});
