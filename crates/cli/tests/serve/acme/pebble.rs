//! `pebble`, a certificate authority for tests, and the name server that leads it to an address of loopback.
//!
//! Owns: both processes, which are killed and waited for when the value goes. Guarantees: no two tests share an
//! address.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use tempfile::TempDir;

use crate::client::{Client, PATIENCE};
use crate::server::eventually;
use crate::skip::skipped;
use crate::tls::client_config;

/// Ports of an address that belongs to one test.
const DIRECTORY: u16 = 14_000;
const MANAGEMENT: u16 = 15_000;
const DNS: u16 = 8053;
const DNS_MANAGEMENT: u16 = 8055;

/// A certificate authority at an address of its own, which looks for servers there.
#[derive(Debug)]
pub(super) struct Pebble {
    address: IpAddr,
    files: TempDir,
    programs: [PathBuf; 2],
    children: Vec<Child>,
}

fn find(name: &str) -> Option<PathBuf> {
    let named = std::env::var_os("LAMNA_PEBBLE").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = named.into_iter().chain(std::env::split_paths(&path));
    places.map(|place| place.join(name)).find(|file| file.is_file())
}

/// An address of loopback that no other test has; none if the test `name` may not listen at ports 80 and 443 there,
/// which is said.
pub(super) fn address(name: &str) -> Option<IpAddr> {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    let (process, test) = (std::process::id(), NEXT.fetch_add(1, Relaxed));
    let address = Ipv4Addr::new(127, 64 + (process / 250 % 128) as u8, (process % 250) as u8 + 1, test).into();
    if [80, 443].into_iter().any(|port| TcpListener::bind((address, port)).is_err()) {
        skipped(name, "ports 80 and 443 are not to be had");
        return None;
    }
    Some(address)
}

impl Pebble {
    /// One for the test `name`; none if this machine has none, which is said.
    pub(super) fn start(name: &str) -> Option<Pebble> {
        let (Some(pebble), Some(names)) = (find("pebble"), find("pebble-challtestsrv")) else {
            skipped(name, "pebble and pebble-challtestsrv are not to be found (LAMNA_PEBBLE, PATH)");
            return None;
        };
        let address = address(name)?;
        let files = tempfile::tempdir().expect("a temporary directory can be made");
        let key = KeyPair::generate().expect("a key can be made");
        let own = CertificateParams::new([address.to_string()]).and_then(|own| own.self_signed(&key));
        fs::write(files.path().join("own.pem"), own.expect("it can be signed").pem()).expect("it can be written");
        fs::write(files.path().join("key.pem"), key.serialize_pem()).expect("it can be written");
        let file = |name: &str| files.path().join(name).display().to_string();
        let (own, key) = (file("own.pem"), file("key.pem"));
        let config = format!(
            r#"{{ "pebble": {{
                "listenAddress": "{address}:{DIRECTORY}", "managementListenAddress": "{address}:{MANAGEMENT}",
                "certificate": "{own}", "privateKey": "{key}",
                "httpPort": 80, "tlsPort": 443, "domainBlocklist": ["blocked.test"],
                "retryAfter": {{ "authz": 1, "order": 1 }}, "keyAlgorithm": "ecdsa",
                "profiles": {{
                    "default": {{ "description": "as long as usual", "validityPeriod": 7776000 }},
                    "short": {{ "description": "minutes", "validityPeriod": 450 }}
                }}
            }} }}"#
        );
        fs::write(files.path().join("pebble.json"), config).expect("it can be written");
        let mut pebble = Pebble { address, files, programs: [pebble, names], children: Vec::new() };
        pebble.go_on();
        Some(pebble)
    }

    /// Starts it, and waits until it answers. What it knew before is gone.
    pub(super) fn go_on(&mut self) {
        let (address, [pebble, names]) = (self.address, self.programs.clone());
        let log = |name: &str| File::create(self.files.path().join(name)).expect("a file can be made");
        let mut dns = Command::new(names);
        dns.args(["-http01", "", "-https01", "", "-tlsalpn01", "", "-doh", "", "-defaultIPv6", ""])
            .args(["-dnsserver", &format!("{address}:{DNS}"), "-management", &format!("{address}:{DNS_MANAGEMENT}")])
            .args(["-defaultIPv4", &address.to_string()])
            .stdout(log("names.log"))
            .stderr(log("names-errors.log"));
        let mut authority = Command::new(pebble);
        authority
            .args(["-config", &self.files.path().join("pebble.json").display().to_string()])
            .args(["-dnsserver", &format!("{address}:{DNS}")])
            // Validates at once, and refuses one nonce in twenty. One that is refused three times in a row is a
            // failure.
            .env("PEBBLE_VA_NOSLEEP", "1")
            .env("PEBBLE_WFE_NONCEREJECT", "5")
            .stdout(log("pebble.log"))
            .stderr(log("pebble-errors.log"));
        for mut command in [dns, authority] {
            self.children.push(command.stdin(Stdio::null()).spawn().expect("it can be started"));
        }
        for port in [DIRECTORY, MANAGEMENT, DNS_MANAGEMENT] {
            eventually("pebble listens", PATIENCE, || TcpStream::connect((address, port)).ok());
        }
    }

    /// Ends it.
    pub(super) fn stop(&mut self) {
        for mut child in self.children.drain(..) {
            // It has ended if these fail.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Where it looks for servers.
    pub(super) fn site(&self) -> IpAddr {
        self.address
    }

    /// The URL of its directory.
    pub(super) fn directory(&self) -> String {
        format!("https://{}:{DIRECTORY}/dir", self.address)
    }

    /// What its own server is trusted by.
    pub(super) fn roots(&self) -> PathBuf {
        self.files.path().join("own.pem")
    }

    /// The root of the certificates that it issues, in PEM. It is another one after each start.
    pub(super) fn root(&self) -> Vec<u8> {
        self.manage("GET", "/roots/0", "")
    }

    /// Clients that trust the certificates that it issues.
    pub(super) fn trusting(&self) -> Arc<ClientConfig> {
        Arc::new(client_config(&self.root()))
    }

    /// Certificates issued since it was started.
    pub(super) fn issued(&self) -> usize {
        let log = fs::read_to_string(self.files.path().join("pebble.log")).expect("it is text");
        log.matches("Issued certificate serial").count()
    }

    /// From now on the first certificate of the file is to be renewed at once.
    pub(super) fn ask_for_renewal(&self, file: &Path) {
        let text = fs::read_to_string(file).expect("it is there");
        let start = text.find("-----BEGIN CERTIFICATE").expect("it has a certificate");
        let window = r#"{"suggestedWindow":{"start":"2020-01-01T00:00:00Z","end":"2020-01-02T00:00:00Z"}}"#;
        let request = serde_json::json!({ "Certificate": text[start..], "ARIResponse": window });
        self.manage("POST", "/set-renewal-info/", &request.to_string());
    }

    /// From now on `name` has this address.
    pub(super) fn resolve(&self, name: &str, address: &str) {
        let place = SocketAddr::new(self.address, DNS_MANAGEMENT);
        for (path, content) in [
            ("/clear-a", format!(r#"{{"host":"{name}"}}"#)),
            ("/add-a", format!(r#"{{"host":"{name}","addresses":["{address}"]}}"#)),
        ] {
            exchange(Client::connect(place).stream, "POST", path, &content);
        }
    }

    fn manage(&self, method: &str, path: &str, content: &str) -> Vec<u8> {
        let name = ServerName::try_from(self.address.to_string()).expect("it is an address");
        let trust = client_config(&fs::read(self.roots()).expect("it is there"));
        let connection = ClientConnection::new(Arc::new(trust), name).expect("the configuration is whole");
        let socket = Client::connect(SocketAddr::new(self.address, MANAGEMENT)).stream;
        exchange(StreamOwned::new(connection, socket), method, path, content)
    }
}

/// The content of the answer to one request.
fn exchange(mut stream: impl Read + Write, method: &str, path: &str, content: &str) -> Vec<u8> {
    let length = content.len();
    let head =
        format!("{method} {path} HTTP/1.0\r\nHost: pebble\r\nUser-Agent: test\r\nContent-Length: {length}\r\n\r\n");
    stream.write_all(format!("{head}{content}").as_bytes()).expect("it takes requests");
    let mut answer = Vec::new();
    // An end without close_notify is as good as any here.
    let _ = stream.read_to_end(&mut answer);
    assert!(answer.starts_with(b"HTTP/1.0 200"), "{path}: {}", String::from_utf8_lossy(&answer));
    let head = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").expect("it has a head");
    answer.split_off(head + 4)
}

impl Drop for Pebble {
    fn drop(&mut self) {
        self.stop();
        if std::thread::panicking() {
            let log = fs::read_to_string(self.files.path().join("pebble.log")).unwrap_or_default();
            eprintln!("pebble said:\n{log}");
        }
    }
}
