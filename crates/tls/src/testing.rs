//! Fixtures for tests of TLS: pairs made on the spot, and a client of rustls that talks to a session in memory.
//!
//! Owns: nothing that serves.

use std::io::{Cursor, Read, Write};
use std::path::Path;
use std::sync::Arc;

use lamna_config::settings::TlsFiles;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use super::crypto::provider;
use super::session::Session;

/// A self-signed certificate and its key.
pub struct Made {
    /// In DER.
    pub certificate: Vec<u8>,
    /// In PEM.
    pub certificate_pem: String,
    /// In PEM.
    pub key_pem: String,
}

/// A pair of `name`, valid now.
pub fn pair(name: &str) -> Made {
    pair_of(name, (2024, 1, 1), (2090, 1, 1))
}

/// A pair of `name`, valid from one date to another.
pub fn pair_of(name: &str, from: (i32, u8, u8), until: (i32, u8, u8)) -> Made {
    let mut parameters = CertificateParams::new([name.to_owned()]).unwrap();
    parameters.not_before = date_time_ymd(from.0, from.1, from.2);
    parameters.not_after = date_time_ymd(until.0, until.1, until.2);
    parameters.distinguished_name.remove(DnType::CommonName);
    parameters.distinguished_name.push(DnType::CommonName, name);
    parameters.distinguished_name.push(DnType::OrganizationName, "Lamna\"s tests");
    let key = KeyPair::generate().unwrap();
    let certificate = parameters.self_signed(&key).unwrap();
    Made { certificate: certificate.der().to_vec(), certificate_pem: certificate.pem(), key_pem: key.serialize_pem() }
}

/// A certificate of `name`, and those of its issuer and of the issuer of that.
pub fn chain(name: &str) -> (CertificateDer<'static>, Vec<CertificateDer<'static>>) {
    let authority = |name: &str| {
        let mut parameters = CertificateParams::new(Vec::<String>::new()).unwrap();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.distinguished_name.push(DnType::CommonName, name);
        parameters
    };
    let (root_key, middle_key) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let root = authority("Root").self_signed(&root_key).unwrap();
    let root_issuer = Issuer::new(authority("Root"), root_key);
    let middle = authority("Middle").signed_by(&middle_key, &root_issuer).unwrap();
    let issuer = Issuer::new(authority("Middle"), middle_key);
    let own = CertificateParams::new([name.to_owned()]).unwrap();
    let own = own.signed_by(&KeyPair::generate().unwrap(), &issuer).unwrap();
    (own.into(), vec![middle.into(), root.into()])
}

/// Writes it to files.
pub fn files_of(directory: &Path, pair: &Made) -> TlsFiles {
    let files =
        TlsFiles { certificate: directory.join("certificate.pem"), key: directory.join("key.pem"), client_ca: None };
    std::fs::write(&files.certificate, &pair.certificate_pem).unwrap();
    std::fs::write(&files.key, &pair.key_pem).unwrap();
    files
}

/// The configuration of a client, with the certificates that it trusts and the versions that it speaks.
pub fn client_config(trusted: &[&Made], versions: &[&'static rustls::SupportedProtocolVersion]) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    for made in trusted {
        roots.add(CertificateDer::from(made.certificate.clone())).unwrap();
    }
    let builder = ClientConfig::builder_with_provider(provider()).with_protocol_versions(versions).unwrap();
    builder.with_root_certificates(roots).with_no_client_auth()
}

/// A client that asks for `name`.
pub fn client(config: &Arc<ClientConfig>, name: &str) -> ClientConnection {
    ClientConnection::new(config.clone(), ServerName::try_from(name.to_owned()).unwrap()).unwrap()
}

/// The first message of a client that asks for `name`.
pub fn client_hello(name: &str) -> Vec<u8> {
    let config = Arc::new(client_config(&[], rustls::ALL_VERSIONS));
    let mut hello = Vec::new();
    client(&config, name).write_tls(&mut hello).unwrap();
    hello
}

/// Both ends in memory, and what has gone from one to the other.
pub struct Pair<S> {
    /// The client.
    pub client: ClientConnection,
    /// The server.
    pub server: S,
    /// Plaintext that has arrived at the server.
    pub received: Vec<u8>,
    returned: Vec<u8>,
    /// Bytes moved at once.
    pub piece: usize,
}

impl<S: Session> Pair<S> {
    /// Two that have said nothing.
    pub fn new(client: ClientConnection, server: S) -> Pair<S> {
        Pair { client, server, received: Vec::new(), returned: Vec::new(), piece: usize::MAX }
    }

    /// Moves bytes both ways until nothing moves any more. What the client says about them.
    pub fn exchange(&mut self) -> Result<(), rustls::Error> {
        loop {
            let mut to_server = Vec::new();
            while self.client.wants_write() {
                self.client.write_tls(&mut to_server).unwrap();
            }
            let mut rest = &to_server[..];
            while !rest.is_empty() {
                let space = self.server.receive_space();
                let taken = rest.len().min(space.len()).min(self.piece);
                space[..taken].copy_from_slice(&rest[..taken]);
                self.server.handle_received(taken);
                self.server.advance();
                self.read();
                self.server.settle();
                rest = &rest[taken..];
            }
            let to_client = self.server.output().to_vec();
            self.server.handle_sent(to_client.len());
            self.server.settle();
            if to_server.is_empty() && to_client.is_empty() {
                return Ok(());
            }
            let mut cursor = Cursor::new(&to_client[..]);
            while cursor.position() < to_client.len() as u64 {
                self.client.read_tls(&mut cursor).unwrap();
                self.client.process_new_packets()?;
                // Nothing more for the moment is an error of its own.
                let _ = self.client.reader().read_to_end(&mut self.returned);
            }
        }
    }

    fn read(&mut self) {
        let mut buffer = [0; 1000];
        loop {
            match self.server.read(&mut buffer) {
                0 => return,
                bytes => self.received.extend_from_slice(&buffer[..bytes]),
            }
        }
    }

    /// Bytes that have arrived at the client.
    pub fn client_received(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.returned)
    }

    /// Has the client send something.
    pub fn client_sends(&mut self, bytes: &[u8]) {
        self.client.writer().write_all(bytes).unwrap();
    }
}

/// An authority, and a client that it vouches for.
pub fn authority_and_client(name: &str) -> (Made, Made) {
    let mut parameters = CertificateParams::new(Vec::new()).unwrap();
    parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    parameters.distinguished_name.push(DnType::CommonName, "authority");
    let key = KeyPair::generate().unwrap();
    let authority = parameters.self_signed(&key).unwrap();
    let issuer = rcgen::Issuer::new(parameters, key);
    let mut parameters = CertificateParams::new(Vec::new()).unwrap();
    parameters.distinguished_name = rcgen::DistinguishedName::new();
    parameters.distinguished_name.push(DnType::CommonName, name);
    parameters.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate().unwrap();
    let client = parameters.signed_by(&key, &issuer).unwrap();
    let made = |certificate: &rcgen::Certificate, key_pem| Made {
        certificate: certificate.der().to_vec(),
        certificate_pem: certificate.pem(),
        key_pem,
    };
    (made(&authority, String::new()), made(&client, key.serialize_pem()))
}
