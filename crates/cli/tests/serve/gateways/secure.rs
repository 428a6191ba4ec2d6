//! Applications that are asked by `https`: what they answer comes through byte for byte, and who is not known is not
//! talked to.
//!
//! Owns: applications that speak TLS, with a certificate of their own ([`start_secure`]).

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::{Application, Line, post};
use crate::client::PATIENCE;
use crate::engine::{AMPED, Engine, PROACTOR, THREAD_POOL, for_engines};
use crate::server::{Launch, eventually};
use crate::tls::make_pair;
use crate::tree::pattern;

for_engines!([
    mp = MP,
    thread_pool = THREAD_POOL,
    thread_per_request = THREAD_PER_REQUEST,
    thread_per_session = THREAD_PER_SESSION,
    sped = SPED,
    amped = AMPED,
    amped_with_helper_processes = AMPED_WITH_HELPER_PROCESSES,
    co_amped = CO_AMPED,
    pipelined = PIPELINED,
    proactor = PROACTOR,
] => [
    answers_and_content_come_through_whole,
    who_is_not_known_is_not_talked_to_and_the_log_says_why,
    who_is_not_known_any_more_is_not_talked_to_after_a_reload,
    a_web_socket_is_a_tunnel_to_its_end,
    an_application_learns_that_its_client_has_left,
]);

impl Line for StreamOwned<ServerConnection, TcpStream> {
    fn end(&mut self) {
        self.conn.send_close_notify();
        // Who has left needs no end.
        let _ = self.flush();
    }
}

/// An application whose certificate, for `names`, is left in `directory` as `certificate.pem`.
pub(super) fn start_secure(
    directory: &Path,
    names: &[&str],
    versions: &[&'static rustls::SupportedProtocolVersion],
) -> Application {
    make_pair(directory, names);
    let certificate = CertificateDer::from_pem_file(directory.join("certificate.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(directory.join("key.pem")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_protocol_versions(versions).unwrap();
    let config = Arc::new(config.with_no_client_auth().with_single_cert(vec![certificate], key).unwrap());
    Application::start_over(move |stream| StreamOwned::new(ServerConnection::new(config.clone()).unwrap(), stream))
}

fn answers_and_content_come_through_whole(engine: Engine) {
    for versions in [&[&rustls::version::TLS13], &[&rustls::version::TLS12]] {
        let launch = Launch::new(engine);
        let application = start_secure(launch.directory(), &["127.0.0.1"], versions);
        let server = launch
            .config(&format!(
                "[[site]]\nroot = \"site\"\nroute = [{{ match = \"/app/*\", proxy = {{ to = \"https://{}\", ca = \"certificate.pem\" }} }}]\n",
                application.address
            ))
            .start();
        let mut client = server.connect();
        for bytes in [0, 1, 1_000, 70_000, 1_000_000] {
            for manner in ["sized", "chunked"] {
                let response = client.get(&format!("/app/{manner}/{bytes}")).unwrap();
                assert!(response.content == pattern(bytes, 3), "{manner} {bytes}: {} bytes", response.content.len());
            }
            let content = pattern(bytes, 5);
            assert!(post(&mut client, "/app/echo", &content).content == content, "{bytes}");
        }
        assert_eq!(application.accepted.load(Relaxed), 1, "a connection is kept for what follows");
        assert!(client.get("/app/unsized/70000").unwrap().content == pattern(70_000, 3));
        let mut cut = server.connect();
        assert!(cut.get("/app/unsized-cut/70000").is_err(), "an end that the application does not say is none");
        assert_eq!(server.connect().get("/app/nothing").unwrap().status, 502);
        let told = String::from_utf8(server.connect().get("/app/told").unwrap().content).unwrap();
        assert!(told.contains("\r\nHost: test\r\n"), "{told}");
        server.finish();
    }
}

fn who_is_not_known_is_not_talked_to_and_the_log_says_why(engine: Engine) {
    let launch = Launch::new(engine);
    let directory = launch.directory().to_owned();
    let application = start_secure(&directory, &["app.test"], &[&rustls::version::TLS13]);
    let plain = Application::start();
    // One that takes connections and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let other = tempfile::tempdir().unwrap();
    make_pair(other.path(), &["app.test"]);
    std::fs::copy(other.path().join("certificate.pem"), directory.join("other.pem")).unwrap();
    let (to, silent_to) = (application.address, silent.local_addr().unwrap());
    let routes = [
        ("known", format!("to = \"https://{to}\", ca = \"certificate.pem\", server_name = \"app.test\"")),
        ("anybody", format!("to = \"https://{to}\", verify = false")),
        ("otherwise", format!("to = \"https://{to}\", ca = \"certificate.pem\"")),
        ("untrusted", format!("to = \"https://{to}\", ca = \"other.pem\", server_name = \"app.test\"")),
        ("plain", format!("to = \"https://{}\", ca = \"certificate.pem\"", plain.address)),
        ("silent", format!("to = \"https://{silent_to}\", ca = \"certificate.pem\", connect_timeout_ms = 100")),
    ];
    let routes =
        routes.map(|(name, keys)| format!("[[site.route]]\nmatch = \"/app/sized/{name}/*\"\nproxy = {{ {keys} }}\n"));
    let mut server = launch.config(&format!("[[site]]\nroot = \"site\"\n{}", routes.concat())).start();
    for (name, status) in
        [("known", 200), ("anybody", 200), ("otherwise", 502), ("untrusted", 502), ("plain", 502), ("silent", 504)]
    {
        assert_eq!(server.connect().get(&format!("/app/sized/{name}/3")).unwrap().status, status, "{name}");
    }
    let heard = |text: &str, said: &str| said.contains(text);
    let said = eventually("the log says why", PATIENCE, || {
        let said = server.said();
        let reasons = ["not valid for name", "BadSignature", "was not established in time"];
        reasons.iter().all(|reason| heard(reason, &said)).then_some(said)
    });
    assert!(said.contains(&format!("upstream https://{to}: The TLS handshake with the upstream failed.")), "{said}");
    assert!(said.contains(&format!("upstream https://{}: The TLS handshake", plain.address)), "{said}");
    assert!(said.contains("does not look at the certificate of"), "{said}");
    server.finish();
}

fn who_is_not_known_any_more_is_not_talked_to_after_a_reload(engine: Engine) {
    let launch = Launch::new(engine);
    let directory = launch.directory().to_owned();
    let application = start_secure(&directory, &["127.0.0.1"], &[&rustls::version::TLS13]);
    let ca = directory.join("ca.pem");
    std::fs::copy(directory.join("certificate.pem"), &ca).unwrap();
    let other = tempfile::tempdir().unwrap();
    make_pair(other.path(), &["127.0.0.1"]);
    let to = application.address;
    let route = format!("[[site.route]]\nmatch = \"/app/*\"\nproxy = {{ to = \"https://{to}\", ca = \"ca.pem\" }}\n");
    let server = launch.config(&format!("[[site]]\nroot = \"site\"\n{route}")).start();
    // A connection for each request: one that is kept is known already.
    let status = || server.connect().get("/app/unsized/3").map_or(0, |answer| answer.status);
    assert_eq!(status(), 200);
    // The configuration stays as it is.
    std::fs::copy(other.path().join("certificate.pem"), &ca).unwrap();
    crate::control::order(&server, &["reload"]).unwrap();
    // A process that leaves may answer what it has taken.
    eventually("it is not known any more", PATIENCE, || (status() == 502).then_some(()));
    if !["mp", "co-amped"].contains(&engine.architecture) {
        assert_eq!(status(), 502);
    }
    std::fs::write(&ca, "no certificate").unwrap();
    let refused = crate::control::order(&server, &["reload"]).unwrap_err();
    assert!(refused.contains("ca.pem"), "{refused}");
    std::fs::copy(directory.join("certificate.pem"), &ca).unwrap();
    crate::control::order(&server, &["reload"]).unwrap();
    eventually("it is known again", PATIENCE, || (status() == 200).then_some(()));
    crate::control::order(&server, &["drain"]).unwrap();
}

#[test]
fn an_engine_changes_whatever_the_files_of_authorities_hold() {
    for engine in [AMPED, PROACTOR, THREAD_POOL] {
        let launch = Launch::new(engine);
        let directory = launch.directory().to_owned();
        let application = start_secure(&directory, &["127.0.0.1"], &[&rustls::version::TLS13]);
        let ca = directory.join("ca.pem");
        std::fs::copy(directory.join("certificate.pem"), &ca).unwrap();
        let to = application.address;
        let route =
            format!("[[site.route]]\nmatch = \"/app/*\"\nproxy = {{ to = \"https://{to}\", ca = \"ca.pem\" }}\n");
        let server = launch.config(&format!("[[site]]\nroot = \"site\"\n{route}")).start();
        let status = || server.connect().get("/app/unsized/3").map_or(0, |answer| answer.status);
        assert_eq!(status(), 200);
        std::fs::remove_file(&ca).unwrap();
        crate::control::order(&server, &["arch", "set", "sped"]).unwrap();
        assert_eq!(status(), 200, "{}: it is known as before", engine.architecture);
        let refused = crate::control::order(&server, &["reload"]).unwrap_err();
        assert!(refused.contains("ca.pem"), "{refused}");
        assert_eq!(status(), 200);
        server.finish();
    }
}

fn a_web_socket_is_a_tunnel_to_its_end(engine: Engine) {
    let launch = Launch::new(engine);
    let application = start_secure(launch.directory(), &["127.0.0.1"], &[&rustls::version::TLS13]);
    let server = launch
        .config(&format!(
            "[[site]]\nroot = \"site\"\nroute = [{{ match = \"/app/*\", proxy = {{ to = \"https://{}\", ca = \"certificate.pem\" }} }}]\n",
            application.address
        ))
        .start();
    let mut client = server.connect();
    client.send(
        b"GET /app/web-socket HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\r\n",
    );
    assert_eq!(client.receive_head().unwrap().status, 101);
    for bytes in [1, 100, 70_000] {
        let message = pattern(bytes, 9);
        thread::scope(|scope| {
            let mut sender = client.stream.try_clone().unwrap();
            let sent = message.clone();
            scope.spawn(move || sender.write_all(&sent).unwrap());
            assert!(client.receive_exactly(bytes).unwrap() == message);
        });
    }
    client.end_sending();
    let mut rest = Vec::new();
    // The application closes when it has been told the end, without a word of its own.
    let _ = client.stream.read_to_end(&mut rest);
    assert!(rest.is_empty());
    server.finish();
}

fn an_application_learns_that_its_client_has_left(engine: Engine) {
    let launch = Launch::new(engine);
    let application = start_secure(launch.directory(), &["127.0.0.1"], &[&rustls::version::TLS13]);
    let server = launch
        .config(&format!(
            "[[site]]\nroot = \"site\"\nroute = [{{ match = \"/app/*\", proxy = {{ to = \"https://{}\", ca = \"certificate.pem\" }} }}]\n",
            application.address
        ))
        .start();
    let mut client = server.connect();
    client.send(b"GET /app/events HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.receive_head().unwrap().status, 200);
    client.reset();
    eventually("the application learns it", PATIENCE, || (application.left.load(Relaxed) == 1).then_some(()));
    server.finish();
}

#[test]
fn a_file_with_no_certificates_keeps_a_server_from_starting_and_says_so() {
    let launch = Launch::new(AMPED);
    std::fs::write(launch.directory().join("empty.pem"), "nothing\n").unwrap();
    let (status, said) = launch
        .config("[[site]]\nroot = \"site\"\nroute = [{ match = \"/*\", proxy = { to = \"https://app.test\", ca = \"empty.pem\" } }]\n")
        .fail();
    assert!(!status.success());
    assert!(
        said.contains("no authority to verify the certificate of https://app.test:443") && said.contains("empty.pem"),
        "{said}"
    );
}
