//! The files of certificates that are ordered (ACME, RFC 8555), as all processes of all servers that share a state
//! directory see them.
//!
//! ```text
//!   STATE/acme/CA/account-key.pem           the key of the account
//!                 account.json              where the account is, once it is registered
//!                 certificates/NAME.pem     key and chain
//!                 certificates/NAME.json    what came of ordering it (acme::record)
//!                 challenges/NAME.pem       the certificate of a TLS-ALPN-01 challenge, while it is answered
//!                 locks/NAME                held by the process that orders
//! ```
//!
//! Owns: the names of the files, their permissions, the key of the account and what follows from it alone: answers to
//! HTTP-01 challenges, and certificates of TLS-ALPN-01 challenges (RFC 8737). The key is made before anything is
//! served, so every process can answer a challenge from the start. A key and its chain are one file, so they cannot be
//! of two states. Orders nothing.

use std::fmt;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use lamna_config::settings::{Settings, TlsFiles};
use lamna_config::state::state_directory;
use lamna_proto::base64;
use rcgen::{CertificateParams, CustomExtension, KeyPair, PublicKeyData};
use rustix::fs::FlockOperation;
use rustix::io::Errno;

use super::certificates;
use super::crypto;
use super::local_ca::write;

/// The protocol that a certificate authority offers in the handshake of a challenge, and no other beside it.
pub const CHALLENGE_PROTOCOL: &[u8] = b"acme-tls/1";

/// Where challenges are answered over plain HTTP (RFC 8555 8.3).
pub const CHALLENGE_PATH: &[u8] = b"/.well-known/acme-challenge/";

/// Bytes of a token. Certificate authorities send some forty.
const TOKEN_BYTES_MAX: usize = 256;

/// Why the files cannot be kept.
#[derive(Debug)]
pub struct StateError {
    what: String,
    error: io::Error,
}

impl StateError {
    fn of(path: &Path, error: impl Into<io::Error>) -> StateError {
        StateError { what: path.display().to_string(), error: error.into() }
    }

    /// The file or directory, and what the kernel says of it.
    pub fn into_parts(self) -> (PathBuf, Errno) {
        (self.what.into(), Errno::from_io_error(&self.error).unwrap_or(Errno::INVAL))
    }
}

impl fmt::Display for StateError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: certificates cannot be kept there: {}", self.what, self.error)?;
        match self.error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => formatter.write_str(
                ". Name a directory of this user with STATE_DIRECTORY or XDG_STATE_HOME (systemd: StateDirectory=lamna)",
            ),
            _ => Ok(()),
        }
    }
}

impl std::error::Error for StateError {}

/// The files for one certificate authority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateFiles {
    directory: PathBuf,
}

/// A name that is being ordered by this process and by no other.
#[derive(Debug)]
pub struct Lock(#[expect(dead_code, reason = "the lock ends with the file")] File);

impl StateFiles {
    /// Those that `settings` lead to.
    ///
    /// # Errors
    /// There is no state directory.
    pub fn of(settings: &Settings) -> Result<StateFiles, StateError> {
        let none = || {
            let why = "there is no state directory: set STATE_DIRECTORY, XDG_STATE_HOME or HOME";
            StateError { what: "acme".to_owned(), error: io::Error::new(io::ErrorKind::NotFound, why) }
        };
        let state = state_directory().ok_or_else(none)?;
        Ok(StateFiles { directory: state.join("acme").join(label(&settings.acme.directory)) })
    }

    /// In `directory`, for whatever certificate authority.
    pub fn at(directory: PathBuf) -> StateFiles {
        StateFiles { directory }
    }

    /// Where they are.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Where the certificates of challenges are. Any process may have to answer a challenge, so it is the one directory
    /// that threads that serve may read. Nothing in it is worth anything to others.
    pub fn challenges(&self) -> PathBuf {
        self.directory.join("challenges")
    }

    /// Makes the directories and the key of the account where they are not there.
    ///
    /// # Errors
    /// They cannot be made.
    pub fn prepare(&self) -> Result<(), StateError> {
        for name in ["", "certificates", "challenges", "locks"] {
            let path = self.directory.join(name);
            let made = DirBuilder::new().recursive(true).mode(0o700).create(&path);
            made.map_err(|error| StateError::of(&path, error))?;
        }
        let path = self.account_key();
        // Not the lock of the account, for which a certificate authority is waited for.
        let lock = self.lock_file("account-key")?;
        rustix::fs::flock(&lock, FlockOperation::LockExclusive).map_err(|errno| StateError::of(&path, errno))?;
        if !path.exists() {
            let key = KeyPair::generate().map_err(|error| StateError::of(&path, io::Error::other(error)))?;
            write(&path, &key.serialize_pem(), 0o600).map_err(|error| StateError::of(&path, error))?;
        }
        self.key().map(drop)
    }

    /// Key and certificate of `name` as a site has them. One file is both, which the readers of either part take.
    pub fn pair(&self, name: &str) -> TlsFiles {
        let file = self.certificate(name);
        TlsFiles { certificate: file.clone(), key: file, client_ca: None }
    }

    /// The key of `name`, and its certificate with the chain.
    pub fn certificate(&self, name: &str) -> PathBuf {
        self.directory.join("certificates").join(format!("{name}.pem"))
    }

    /// The record of ordering `name`.
    pub fn record(&self, name: &str) -> PathBuf {
        self.directory.join("certificates").join(format!("{name}.json"))
    }

    /// The certificate that answers the TLS-ALPN-01 challenge for `name`, while there is one.
    pub fn challenge(&self, name: &str) -> TlsFiles {
        let file = self.challenges().join(format!("{name}.pem"));
        TlsFiles { certificate: file.clone(), key: file, client_ca: None }
    }

    /// Where the account is known to be.
    pub fn account(&self) -> PathBuf {
        self.directory.join("account.json")
    }

    fn account_key(&self) -> PathBuf {
        self.directory.join("account-key.pem")
    }

    fn lock_file(&self, name: &str) -> Result<File, StateError> {
        let path = self.directory.join("locks").join(name);
        File::create(&path).map_err(|error| StateError::of(&path, error))
    }

    /// Takes the lock of `name`; none if another process has it. It is let go when it is dropped, or its process ends.
    ///
    /// # Errors
    /// There can be no lock.
    pub fn lock(&self, name: &str) -> Result<Option<Lock>, StateError> {
        let file = self.lock_file(name)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Lock(file))),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(errno) => Err(StateError::of(&self.directory.join("locks").join(name), errno)),
        }
    }

    /// Waits for the lock of the account: registering is done by one process after the other.
    ///
    /// # Errors
    /// There can be no lock.
    pub fn lock_to_register(&self) -> Result<Lock, StateError> {
        let file = self.lock_file("account")?;
        let locked = rustix::fs::flock(&file, FlockOperation::LockExclusive);
        locked.map(|()| Lock(file)).map_err(|errno| StateError::of(&self.account(), errno))
    }

    /// The key of the account.
    ///
    /// # Errors
    /// It is not there, or is no key.
    pub fn key(&self) -> Result<KeyPair, StateError> {
        let path = self.account_key();
        let text = fs::read_to_string(&path).map_err(|error| StateError::of(&path, error))?;
        let key = KeyPair::from_pem(&text).map_err(|error| StateError::of(&path, io::Error::other(error)))?;
        match key.algorithm() == &rcgen::PKCS_ECDSA_P256_SHA256 {
            true => Ok(key),
            false => Err(StateError::of(&path, io::Error::other("the key is not of ECDSA with P-256"))),
        }
    }

    /// The thumbprint of the account's key (RFC 7638): the second half of every answer to a challenge.
    ///
    /// # Errors
    /// As [`StateFiles::key`].
    pub fn thumbprint(&self) -> Result<String, StateError> {
        let key = self.key()?;
        // An uncompressed point: 4, and 32 bytes each of x and y.
        let point = key.der_bytes().get(1..).unwrap_or_default();
        let [x, y] = [point.get(..32), point.get(32..)].map(|part| base64::encode_url_safe(part.unwrap_or_default()));
        let jwk = format!(r#"{{"crv":"P-256","kty":"EC","x":"{x}","y":"{y}"}}"#);
        Ok(base64::encode_url_safe(&crypto::sha256(jwk.as_bytes())))
    }

    /// Keeps a key and a chain, both in PEM, for `name`: the file is replaced if they are a pair for it, and is what it
    /// was if not.
    ///
    /// # Errors
    /// They are no such pair, or cannot be written.
    pub fn install(&self, name: &str, key: &str, chain: &str) -> Result<(), StateError> {
        let (path, beside) =
            (self.certificate(name), self.directory.join("certificates").join(format!("{name}.issued")));
        let text = format!("{}\n{}\n", key.trim_end(), chain.trim_end());
        write(&beside, &text, 0o600).map_err(|error| StateError::of(&beside, error))?;
        let files = TlsFiles { certificate: beside.clone(), key: beside.clone(), client_ca: None };
        let wrong = |words: String| StateError::of(&beside, io::Error::new(io::ErrorKind::InvalidData, words));
        let pair = certificates::load(&files, &crypto::provider()).map_err(|error| wrong(error.words))?;
        if !pair.covers(name) {
            return Err(wrong(format!("the certificate that was issued does not name {name}")));
        }
        fs::rename(&beside, &path).map_err(|error| StateError::of(&path, error))
    }

    /// The certificate of `name` without its chain, in DER, if there is one that can be served.
    pub fn leaf(&self, name: &str) -> Option<Vec<u8>> {
        let pair = certificates::load(&self.pair(name), &crypto::provider()).ok().filter(|pair| pair.covers(name))?;
        pair.certified.cert.first().map(|leaf| leaf.to_vec())
    }

    /// Keeps what came of ordering `name`.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write_record(&self, name: &str, text: &str) -> io::Result<()> {
        write(&self.record(name), text, 0o600)
    }

    /// Keeps where the account is.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write_account(&self, text: &str) -> io::Result<()> {
        write(&self.account(), text, 0o600)
    }

    /// Lets every process answer the TLS-ALPN-01 challenge for `name`, of which `digest` is that of the key
    /// authorization.
    ///
    /// # Errors
    /// The certificate cannot be made or written.
    pub fn begin_challenge(&self, name: &str, digest: &[u8; 32]) -> Result<(), StateError> {
        let path = self.challenge(name).certificate;
        let text = challenge_certificate(name, digest).map_err(io::Error::other);
        text.and_then(|text| write(&path, &text, 0o600)).map_err(|error| StateError::of(&path, error))
    }

    /// No challenge for `name` is answered any more.
    pub fn end_challenge(&self, name: &str) {
        // There may have been none.
        let _ = fs::remove_file(self.challenge(name).certificate);
    }
}

/// The answer to an HTTP-01 challenge for `path`: the token and the thumbprint of the account. Any token is answered:
/// only the owner of the account's key can make use of it, and that is the one that has asked for a certificate.
pub fn answer_challenge(path: &[u8], thumbprint: &str) -> Option<String> {
    let token = path.strip_prefix(CHALLENGE_PATH)?;
    let is_token = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let is_whole = (1..=TOKEN_BYTES_MAX).contains(&token.len()) && token.iter().all(is_token);
    let token = str::from_utf8(token).ok().filter(|_| is_whole)?;
    Some(format!("{token}.{thumbprint}"))
}

/// Key and certificate for a TLS-ALPN-01 challenge (RFC 8737 3), in PEM.
fn challenge_certificate(name: &str, digest: &[u8; 32]) -> Result<String, rcgen::Error> {
    let key = KeyPair::generate()?;
    let mut parameters = CertificateParams::new([name.to_owned()])?;
    parameters.custom_extensions = vec![CustomExtension::new_acme_identifier(digest)];
    let certificate = parameters.self_signed(&key)?;
    Ok(format!("{}\n{}", key.serialize_pem(), certificate.pem()))
}

/// The name of the directory for a certificate authority's files: two URLs never have one label.
fn label(directory: &str) -> String {
    let mut label = String::new();
    for byte in directory.trim_start_matches("https://").bytes() {
        match byte {
            b'/' => label.push('+'),
            byte if byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b':') => label.push(char::from(byte)),
            byte => label.push_str(&format!("%{byte:02X}")),
        }
    }
    match label.len() <= 200 {
        true => label,
        false => base64::encode_url_safe(&crypto::sha256(directory.as_bytes())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certificates;
    use crate::crypto::provider;
    use std::os::unix::fs::PermissionsExt;

    fn files() -> (tempfile::TempDir, StateFiles) {
        let directory = tempfile::tempdir().unwrap();
        let files = StateFiles::at(directory.path().join("acme/ca"));
        files.prepare().unwrap();
        (directory, files)
    }

    #[test]
    fn what_is_kept_is_for_its_owner_only_and_the_key_of_the_account_stays() {
        let (_directory, files) = files();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(files.directory()), mode(&files.account_key())), (0o700, 0o600));
        let before = files.thumbprint().unwrap();
        files.prepare().unwrap();
        assert_eq!(files.thumbprint().unwrap(), before);
        assert_eq!(before.len(), 43);
    }

    #[test]
    fn one_at_a_time_orders_a_name() {
        let (_directory, files) = files();
        let held = files.lock("example.org").unwrap();
        assert!(held.is_some() && files.lock("example.org").unwrap().is_none());
        assert!(files.lock("www.example.org").unwrap().is_some());
        drop(held);
        assert!(files.lock("example.org").unwrap().is_some());
    }

    #[test]
    fn a_key_and_its_chain_in_one_file_are_a_pair() {
        let (_directory, files) = files();
        let made = crate::testing::pair("example.org");
        files.install("example.org", &made.key_pem, &made.certificate_pem).unwrap();
        let pair = certificates::load(&files.pair("example.org"), &provider()).unwrap();
        assert!(pair.covers("example.org"));
        assert_eq!(files.leaf("example.org"), Some(made.certificate.clone()));
        // What is no pair, or names another host, does not replace it.
        let other = crate::testing::pair("example.net");
        assert!(files.install("example.org", &made.key_pem, &other.certificate_pem).is_err());
        assert!(files.install("example.org", &other.key_pem, &other.certificate_pem).is_err());
        assert_eq!(files.leaf("example.org"), Some(made.certificate));
    }

    #[test]
    fn the_certificate_of_a_challenge_names_the_host_and_carries_the_digest() {
        let (_directory, files) = files();
        files.begin_challenge("example.org", &[7; 32]).unwrap();
        let pair = certificates::load_unjudged(&files.challenge("example.org"), &provider()).unwrap();
        assert!(memchr::memmem::find(&pair.certified.cert[0], b"example.org").is_some());
        // Critical, and an octet string within an octet string (RFC 8737 3).
        let head = [0x06, 0x08, 0x2b, 6, 1, 5, 5, 7, 1, 31, 0x01, 0x01, 0xff, 0x04, 0x22, 0x04, 0x20];
        let extension = [&head[..], &[7; 32]].concat();
        assert!(memchr::memmem::find(&pair.certified.cert[0], &extension).is_some());
        files.end_challenge("example.org");
        assert!(certificates::load_unjudged(&files.challenge("example.org"), &provider()).is_err());
    }

    #[test]
    fn a_token_is_answered_with_the_thumbprint_and_nothing_else_is() {
        let answer = |path: &str| answer_challenge(path.as_bytes(), "thumb");
        assert_eq!(answer("/.well-known/acme-challenge/a-B_9").as_deref(), Some("a-B_9.thumb"));
        let long = format!("/.well-known/acme-challenge/{}", "a".repeat(257));
        for other in ["/", "/.well-known/acme-challenge/", "/.well-known/acme-challenge/a/b", &long] {
            assert_eq!(answer(other), None, "{other}");
        }
        assert_eq!(answer("/.well-known/acme-challenge/a%3Cb"), None);
    }

    #[test]
    fn two_certificate_authorities_never_share_their_files() {
        let labels = ["https://ca/a/b", "https://ca/a+b", "https://ca/a%2Bb", "https://ca:1/a/b"].map(label);
        assert_eq!(labels[0], "ca+a+b");
        for (at, one) in labels.iter().enumerate() {
            assert!(!labels[at + 1..].contains(one) && !one.contains('/'), "{one}");
        }
    }
}
