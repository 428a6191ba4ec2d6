//! What is explained of https, where some sites have a certificate and others have none: the outcome of a handshake
//! with the running server.
//!
//! Owns: the sites and the names. The explanation of the configuration and that of the server are held against what a
//! client gets.

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::sync::Arc;

use lamna_server::config;
use lamna_server::content::explain::{Asked, Explanation, Scheme};
use lamna_server::worker::explain::{Explainer, Parts};
use rustls::version::{TLS12, TLS13};
use rustls::{AlertDescription, ClientConfig, Error};

use crate::control::{ctl, runtime};
use crate::engine::{AMPED, MP, PROACTOR};
use crate::server::{Launch, Server};
use crate::tls::{config_for, connect_as, make_pair};

/// The first site has none; a client that names no host is shown the certificate of the second.
const NONE_FIRST: &str = "[[site]]\nroot = \"site\"\nhosts = [\"plain.test\", \"below.wild.test\"]\n\
    [[site]]\nroot = \"site\"\nhosts = [\"a.test\", \"*.wild.test\"]\ncertificate = \"certificate.pem\"\nkey = \"key.pem\"\n";
/// The certificate of the first site, which is for every host, is shown for the names in it.
const ANY_FIRST: &str = "[[site]]\nroot = \"site\"\ncertificate = \"certificate.pem\"\nkey = \"key.pem\"\n\
    [[site]]\nroot = \"site\"\nhosts = [\"plain.test\"]\n\
    [[site]]\nroot = \"site\"\nhosts = [\"a.test\", \"other.test\"]\ncertificate = \"other/certificate.pem\"\nkey = \"other/key.pem\"\n";
/// Clients show a certificate.
const KNOWN: &str = "[[site]]\nroot = \"site\"\nhosts = [\"plain.test\"]\n\
    [[site]]\nroot = \"site\"\nhosts = [\"a.test\"]\ncertificate = \"certificate.pem\"\nkey = \"key.pem\"\nclient_ca = \"certificate.pem\"\n";

const NAMES: [&str; 7] =
    ["plain.test", "below.wild.test", "a.test", "x.wild.test", "other.test", "unknown.test", "127.0.0.1"];

/// The status of an answer, or the alert that has ended the handshake.
type Outcome = Result<u16, &'static str>;

/// A client is refused by the alerts that are explained, and is answered where an answer is.
#[test]
fn a_handshake_ends_as_explained() {
    for (engine, text, (answered, refused)) in
        [(AMPED, NONE_FIRST, (3, 4)), (MP, ANY_FIRST, (5, 2)), (PROACTOR, KNOWN, (0, 7))]
    {
        let launch = Launch::new(engine).config(text).file("a.txt", "a");
        fs::create_dir(launch.directory().join("other")).expect("it is new");
        let names = ["plain.test", "a.test", "*.wild.test", "127.0.0.1"];
        make_pair(launch.directory(), &names);
        make_pair(&launch.directory().join("other"), &["a.test", "other.test"]);
        let server = launch.start();
        let pairs = ["certificate.pem", "other/certificate.pem"].map(|file| server.directory().join(file));
        let client = Arc::new(config_for(&pairs.each_ref().map(|file| &**file), &[&TLS13, &TLS12]));
        let explainer = explainer(server.directory(), text);
        let outcomes = NAMES.map(|name| {
            let asked = Asked {
                host: Some(name.to_owned()),
                target: "/a.txt".to_owned(),
                scheme: Some(Scheme::Https),
                ..Asked::default()
            };
            let outcome = outcome(&server, &client, name);
            let explained = explainer.explain(&asked).unwrap_or_else(|why| panic!("{name}: {why}"));
            assert_eq!(explained_outcome(&explained), outcome, "{name} by {text}: {explained}");
            let told = ctl(&runtime(&server), &["explain", &format!("https://{name}/a.txt"), "--json"]);
            let told = serde_json::from_str(&told.output).unwrap_or_else(|error| panic!("{name}: {error}: {told:?}"));
            assert_eq!(explained_outcome(&told), outcome, "{name} by the server of {text}: {told}");
            outcome
        });
        let count = |is_meant: fn(&Outcome) -> bool| outcomes.iter().filter(|one| is_meant(one)).count();
        assert_eq!((count(Result::is_ok), count(Result::is_err)), (answered, refused), "{text}: {outcomes:?}");
        server.finish();
    }
}

fn explainer(directory: &Path, text: &str) -> Explainer {
    let settings = config::parse(text, &directory.join("lamna.toml")).expect("it is a configuration");
    Explainer::new(&settings, Parts::default()).expect("it serves")
}

fn outcome(server: &Server, client: &Arc<ClientConfig>, name: &str) -> Outcome {
    let mut stream = connect_as(server, client, name).stream;
    let request = format!("GET /a.txt HTTP/1.1\r\nHost: {name}\r\n\r\n");
    let mut head = [0; 12];
    let answered = stream.write_all(request.as_bytes()).and_then(|()| stream.read_exact(&mut head));
    let Err(error) = answered else {
        let head = String::from_utf8_lossy(&head).into_owned();
        return Ok(head.strip_prefix("HTTP/1.1 ").and_then(|status| status.parse().ok()).expect("it is an answer"));
    };
    let alert = error.into_inner().and_then(|error| error.downcast::<Error>().ok());
    match alert.as_deref() {
        Some(Error::AlertReceived(AlertDescription::UnrecognisedName)) => Err("unrecognized_name"),
        Some(Error::AlertReceived(AlertDescription::CertificateRequired)) => Err("certificate_required"),
        other => panic!("{name}: {other:?}"),
    }
}

fn explained_outcome(explained: &Explanation) -> Outcome {
    let shown = explained.to_string();
    let ends = |alert: &&str| shown.contains(&format!("the handshake ends with the alert {alert}"));
    match explained.answer.status {
        Some(status) => Ok(status),
        None => {
            assert!(shown.contains("answer   none"), "{shown}");
            Err(["unrecognized_name", "certificate_required"].into_iter().find(ends).unwrap_or("no alert"))
        }
    }
}
