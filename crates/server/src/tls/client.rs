//! The client's side of TLS, for what a server asks of others: whom it trusts, and a stream over any other.
//!
//! Owns: the configuration. Opens no socket: the stream under it is the caller's, who says how long it may wait.

use std::fmt;
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::certificates::{self, PairError};
use super::crypto::provider;

/// Whom a client trusts, and what it speaks.
#[derive(Clone)]
pub struct Trust {
    config: Arc<ClientConfig>,
}

/// Why nobody can be trusted.
#[derive(Debug)]
pub enum TrustError {
    /// A file that was named.
    File(PairError),
    /// The system has no certificates: why.
    None(String),
    /// rustls does not take what it was given: a defect.
    Config(String),
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
        let store = match roots {
            Some(path) => RootCertStore::clone(&*certificates::roots(path).map_err(TrustError::File)?),
            None => of_system()?,
        };
        let builder = ClientConfig::builder_with_provider(provider()).with_protocol_versions(rustls::ALL_VERSIONS);
        let builder = builder.map_err(|error| TrustError::Config(error.to_string()))?;
        let mut config = builder.with_root_certificates(store).with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Trust { config: Arc::new(config) })
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
