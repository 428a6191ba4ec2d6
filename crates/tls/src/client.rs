//! The client's side of TLS, for what a server asks of others: trust, and a stream over any other.
//!
//! Owns: the configuration, and [`ClientSession`], which never waits. Opens no socket: the stream under it is the
//! caller's, who says how long it may wait.

use std::fmt;
use std::io::{self, BufRead, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lamna_config::gateway::UpstreamTls;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, ConfigBuilder, DigitallySignedStruct, RootCertStore, SignatureScheme, StreamOwned,
    WantsVerifier,
};

use super::certificates::{self, PairError, Stamp};
use super::crypto::provider;

/// The certificates that a client trusts, and the protocols that it speaks.
#[derive(Clone)]
pub struct Trust {
    config: Arc<ClientConfig>,
    /// The file that its certificates are from, and its state before it was read; none if they are from no such file.
    source: Option<(PathBuf, Option<Stamp>)>,
}

/// Why no server can be trusted.
#[derive(Debug)]
pub enum TrustError {
    /// A file that was named.
    File(PairError),
    /// The system has no certificates: why.
    None(String),
    /// rustls does not take what it was given: a defect.
    Config(String),
}

/// Accepts every certificate as that of the server that was asked. The handshake must still be signed by the key that
/// was shown.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
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
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

impl fmt::Display for TrustError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TrustError::File(error) => error.fmt(formatter),
            TrustError::None(why) => write!(
                formatter,
                "this system has no certificates to trust servers by: install its package of CA certificates \
                 (ca-certificates), or name a file with SSL_CERT_FILE{why}"
            ),
            TrustError::Config(words) => formatter.write_str(words),
        }
    }
}

impl std::error::Error for TrustError {}

impl Trust {
    /// In the certificates of the file `roots`, or in those that the system trusts.
    ///
    /// # Errors
    /// There are none.
    pub fn of(roots: Option<&Path>) -> Result<Trust, TrustError> {
        let source = roots.map(|path| (path.to_owned(), certificates::stamp(path)));
        let store = match roots {
            Some(path) => RootCertStore::clone(&*certificates::roots(path).map_err(TrustError::File)?),
            None => of_system()?,
        };
        let trust = Trust::with(|builder| builder.with_root_certificates(store).with_no_client_auth())?;
        Ok(Trust { source, ..trust })
    }

    /// Whether the file that its certificates are from is as it was read.
    pub fn is_current(&self) -> bool {
        self.source.as_ref().is_none_or(|(path, state)| certificates::stamp(path) == *state)
    }

    /// The trust of a gateway.
    ///
    /// # Errors
    /// As [`Trust::of`].
    pub fn of_gateway(settings: &UpstreamTls) -> Result<Trust, TrustError> {
        if settings.verify {
            return Trust::of(settings.ca.as_deref());
        }
        let anybody = Arc::new(Anybody(provider()));
        Trust::with(|builder| builder.dangerous().with_custom_certificate_verifier(anybody).with_no_client_auth())
    }

    fn with(
        finish: impl FnOnce(ConfigBuilder<ClientConfig, WantsVerifier>) -> ClientConfig,
    ) -> Result<Trust, TrustError> {
        let builder = ClientConfig::builder_with_provider(provider()).with_protocol_versions(rustls::ALL_VERSIONS);
        let mut config = finish(builder.map_err(|error| TrustError::Config(error.to_string()))?);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Trust { config: Arc::new(config), source: None })
    }

    /// TLS with `host` over `stream`. The handshake is done with the first bytes.
    ///
    /// # Errors
    /// `host` is no name.
    pub fn connect<S: Read + Write>(&self, host: &str, stream: S) -> io::Result<impl Read + Write + use<S>> {
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(host).map_err(io::Error::other)?;
        let connection = ClientConnection::new(self.config.clone(), name).map_err(io::Error::other)?;
        Ok(StreamOwned::new(connection, stream))
    }
}

/// Bytes that a session encrypts before the socket has taken them.
const UNSENT_BYTES_MAX: usize = 64 * 1024;
/// Times that something is received of what a server says about a session that is kept.
const QUIET_RECEIVES_MAX: usize = 4;

/// TLS with one server, over a stream that does not wait.
pub struct ClientSession {
    connection: ClientConnection,
}

impl Trust {
    /// TLS with `host`, which is a name or an address. Nothing is sent yet.
    ///
    /// # Errors
    /// `host` is neither.
    pub fn begin(&self, host: &str) -> Result<ClientSession, String> {
        let name = ServerName::try_from(host.to_owned()).map_err(|error| format!("`{host}`: {error}"))?;
        let mut connection = ClientConnection::new(self.config.clone(), name).map_err(|error| error.to_string())?;
        connection.set_buffer_limit(Some(UNSENT_BYTES_MAX));
        Ok(ClientSession { connection })
    }
}

impl ClientSession {
    /// Goes on with the handshake as far as the stream lets it. Whether it is finished.
    ///
    /// # Errors
    /// It failed, and why: the certificate is not trusted, or the server speaks no TLS, or it has left.
    pub fn handshake<S: Read + Write>(&mut self, stream: &mut S) -> io::Result<bool> {
        while self.connection.is_handshaking() {
            self.flush(stream)?;
            if !self.connection.is_handshaking() {
                break;
            }
            match self.receive(stream) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => {
                    // The server is told why, if it still listens.
                    let _ = self.flush(stream);
                    return Err(error);
                }
            }
        }
        self.flush(stream)?;
        Ok(true)
    }

    /// Receives what is there, and decrypts it. 0 at the end.
    fn receive<S: Read>(&mut self, stream: &mut S) -> io::Result<usize> {
        let bytes = self.connection.read_tls(stream)?;
        self.connection.process_new_packets().map_err(io::Error::other)?;
        Ok(bytes)
    }

    /// Appends plaintext, up to the capacity of `into`. 0 at the end, which the server has to say: a connection that
    /// ends without a word is an error.
    ///
    /// # Errors
    /// [`ErrorKind::WouldBlock`] if nothing is there.
    pub fn read<S: Read>(&mut self, stream: &mut S, into: &mut Vec<u8>) -> io::Result<usize> {
        let before = into.len();
        let mut end = false;
        loop {
            let room = into.capacity() - into.len();
            let mut reader = self.connection.reader();
            match reader.fill_buf() {
                Ok([]) => return Ok(into.len() - before),
                Ok(plain) => {
                    let bytes = plain.len().min(room);
                    into.extend_from_slice(&plain[..bytes]);
                    reader.consume(bytes);
                    if bytes == room {
                        return Ok(into.len() - before);
                    }
                    continue;
                }
                Err(error) if error.kind() != ErrorKind::WouldBlock && into.len() == before => return Err(error),
                Err(error) if error.kind() != ErrorKind::WouldBlock || end => return Ok(into.len() - before),
                Err(_) => {}
            }
            match self.receive(stream) {
                Ok(bytes) => end = bytes == 0,
                Err(_) if into.len() > before => return Ok(into.len() - before),
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether the connection is open, and the server has said nothing that is not read. What it says about the session
    /// is taken in.
    pub fn is_quiet<S: Read>(&mut self, stream: &mut S) -> bool {
        // Tickets and requests for new keys: one that sends without end is none to be kept.
        for _ in 0..QUIET_RECEIVES_MAX {
            if !matches!(self.connection.reader().fill_buf(), Err(error) if error.kind() == ErrorKind::WouldBlock) {
                return false;
            }
            match self.receive(stream) {
                Ok(0) => return false,
                Ok(_) => {}
                Err(error) => return error.kind() == ErrorKind::WouldBlock,
            }
        }
        false
    }

    /// Whether there is something to read that no event of the socket tells.
    pub fn has_plaintext(&mut self) -> bool {
        self.connection.reader().fill_buf().is_ok_and(|plain| !plain.is_empty())
    }

    /// Encrypts and sends. Returns how many bytes were taken, which the stream may not have taken yet:
    /// [`ClientSession::wants_write`].
    ///
    /// # Errors
    /// The stream's, but for [`ErrorKind::WouldBlock`].
    pub fn write<S: Write>(&mut self, stream: &mut S, bytes: &[u8]) -> io::Result<usize> {
        self.flush(stream)?;
        let taken = self.connection.writer().write(bytes)?;
        self.flush(stream)?;
        Ok(taken)
    }

    /// Sends what is encrypted, as far as the stream takes it. Whether that was anything.
    ///
    /// # Errors
    /// The stream's, but for [`ErrorKind::WouldBlock`].
    pub fn flush<S: Write>(&mut self, stream: &mut S) -> io::Result<bool> {
        let mut has_sent = false;
        while self.connection.wants_write() {
            match self.connection.write_tls(stream) {
                Ok(_) => has_sent = true,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(has_sent)
    }

    /// Whether there is something to send that the stream has not taken.
    pub fn wants_write(&self) -> bool {
        self.connection.wants_write()
    }

    /// Says that nothing more is sent, behind all that was.
    pub fn end_sending(&mut self) {
        self.connection.send_close_notify();
    }
}

impl fmt::Debug for ClientSession {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ClientSession").finish_non_exhaustive()
    }
}

impl fmt::Debug for Trust {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Trust").finish_non_exhaustive()
    }
}

fn of_system() -> Result<RootCertStore, TrustError> {
    let found = rustls_native_certs::load_native_certs();
    let mut store = RootCertStore::empty();
    // Of hundreds of certificates one that cannot be read is nothing to fail for.
    store.add_parsable_certificates(found.certs);
    match store.is_empty() {
        false => Ok(store),
        true => Err(TrustError::None(found.errors.first().map_or_else(String::new, |error| format!(" ({error})")))),
    }
}
