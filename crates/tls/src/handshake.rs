//! A handshake in progress: rustls, given one record at a time.
//!
//! Owns: the connection of rustls until the handshake is over, and how much a client may send before that. Then the
//! traffic keys go to the record layer (`record`), and of rustls only what key updates need stays
//! ([`KernelConnection`]): an established connection holds no buffers of rustls. One record at a time, so that none is
//! taken that belongs to the time after.

use std::sync::Arc;

use lamna_sys::metrics::counters::Counters;
use rustls::kernel::KernelConnection;
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, EncodeError};
use rustls::{HandshakeKind, ProtocolVersion};

use super::alert::{Alert, Failure};
use super::buffers::Window;
use super::client_hello::ClientHello;
use super::der;
use super::endpoint::Endpoint;
use super::negotiated::{Chosen, ClientCertificate, Negotiated};
use super::record::{Opener, Sealer, Version, record_length};

/// Bytes that a client may send in a handshake: a ClientHello, and the certificates of a client.
pub const HANDSHAKE_BYTES_MAX: usize = 64 * 1024;

/// The result of a handshake.
pub struct Outcome {
    pub(super) sealer: Sealer,
    pub(super) opener: Opener,
    pub(super) kernel: KernelConnection<ServerConnectionData>,
    pub(super) negotiated: Negotiated,
}

/// A handshake that is not over.
pub struct Handshake {
    connection: UnbufferedServerConnection,
    /// The name that the client has asked for.
    name: Option<Box<str>>,
    chosen: Chosen,
    endpoint: Arc<Endpoint>,
    /// Bytes of the input that rustls has looked at, and wants to see again.
    seen: usize,
    consumed: usize,
}

impl Handshake {
    /// Begins with a client of `endpoint` that has sent `hello`, and for which `chosen` was chosen. HTTP/2 is not
    /// agreed on if `is_http1`.
    ///
    /// # Errors
    /// A configuration that rustls does not accept: a defect.
    pub fn begin(
        endpoint: Arc<Endpoint>,
        chosen: Chosen,
        hello: &ClientHello<'_>,
        is_http1: bool,
    ) -> Result<Handshake, Failure> {
        let name = hello.name().map(Box::from);
        match UnbufferedServerConnection::new(hello.config(&chosen, is_http1)) {
            Ok(connection) => Ok(Handshake { connection, name, chosen, endpoint, seen: 0, consumed: 0 }),
            Err(error) => Err(Failure { alert: Some(Alert::InternalError), words: error.to_string() }),
        }
    }

    /// Where handshakes are counted.
    pub(super) fn counters(&self) -> &Counters {
        self.endpoint.counters()
    }

    /// Goes as far as `input` lets it. What the client is to be sent is in `output`. True if the handshake is over:
    /// what is left in `input` was encrypted with the keys of the connection.
    ///
    /// # Errors
    /// It cannot go on. The alert is in `output`.
    pub fn advance(&mut self, input: &mut Window, output: &mut Window) -> Result<bool, Failure> {
        while let Some(length) = record_length(&input.bytes()[self.seen..])? {
            if self.seen + length > input.length() {
                break;
            }
            self.seen += length;
            if self.consumed + self.seen > HANDSHAKE_BYTES_MAX {
                return Err(Failure {
                    alert: Some(Alert::DecodeError),
                    words: "its handshake was too long".to_owned(),
                });
            }
            if self.take(input, output)? {
                return Ok(true);
            }
        }
        match self.consumed + input.length() > HANDSHAKE_BYTES_MAX {
            true => Err(Failure { alert: Some(Alert::DecodeError), words: "its handshake was too long".to_owned() }),
            false => Ok(false),
        }
    }

    /// Has rustls look at the records that have been seen.
    fn take(&mut self, input: &mut Window, output: &mut Window) -> Result<bool, Failure> {
        loop {
            let status = self.connection.process_tls_records(&mut input.bytes_mut()[..self.seen]);
            let discard = status.discard;
            let outcome = match status.state {
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    let mut least = 0;
                    loop {
                        match data.encode(output.space(least)) {
                            Ok(bytes) => break output.add(bytes),
                            Err(EncodeError::InsufficientSize(error)) => least = error.required_size,
                            Err(EncodeError::AlreadyEncoded) => break,
                        }
                    }
                    None
                }
                Ok(ConnectionState::TransmitTlsData(data)) => {
                    // It is in the output, which is sent in order.
                    data.done();
                    None
                }
                Ok(ConnectionState::BlockedHandshake) => Some(Ok(false)),
                Ok(ConnectionState::WriteTraffic(_)) => Some(Ok(true)),
                Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => {
                    Some(Err(Failure::told("the peer has closed it during the handshake")))
                }
                // Neither early data nor data in a handshake are taken.
                Ok(_) => Some(Err(Failure::of(Alert::UnexpectedMessage))),
                Err(error) => Some(Err(Failure::told(error))),
            };
            input.consume(discard);
            self.seen -= discard;
            self.consumed += discard;
            match outcome {
                None => {}
                Some(Ok(is_over)) => return Ok(is_over && !self.connection.is_handshaking()),
                Some(Err(failure)) => {
                    self.flush_alert(input, output);
                    return Err(failure);
                }
            }
        }
    }

    /// Sends the alert that rustls has after an error. It counts on the records that it has seen to be there still.
    fn flush_alert(&mut self, input: &mut Window, output: &mut Window) {
        loop {
            match self.connection.process_tls_records(&mut input.bytes_mut()[..self.seen]).state {
                Ok(ConnectionState::EncodeTlsData(mut data)) => match data.encode(output.space(1024)) {
                    Ok(bytes) => output.add(bytes),
                    Err(_) => return,
                },
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                _ => return,
            }
        }
    }

    /// The end of a handshake that is over.
    ///
    /// # Errors
    /// The keys are of an algorithm that is not offered: a defect.
    pub fn finish(self) -> Result<Outcome, Failure> {
        let connection = self.connection;
        let version = match connection.protocol_version() {
            Some(ProtocolVersion::TLSv1_3) => Version::V13,
            _ => Version::V12,
        };
        let negotiated = Negotiated {
            version,
            identity: self.chosen.identity,
            name: self.name,
            is_resumed: connection.handshake_kind() == Some(HandshakeKind::Resumed),
            suite: connection.negotiated_cipher_suite().map(|suite| suite.suite()),
            group: connection.negotiated_key_exchange_group().map(|group| group.name()),
            alpn: connection.alpn_protocol().into(),
            authorities: self.chosen.authorities,
            client: connection.peer_certificates().and_then(|chain| client_of(chain.first()?)).map(Box::new),
        };
        negotiated.count_in(self.endpoint.counters());
        let defect = |error: rustls::Error| Failure { alert: None, words: error.to_string() };
        let (secrets, kernel) = connection.dangerous_into_kernel_connection().map_err(defect)?;
        let (sealer, opener) = (Sealer::new(secrets.tx, version)?, Opener::new(secrets.rx, version)?);
        Ok(Outcome { sealer, opener, kernel, negotiated })
    }
}

/// The identity of a client that has shown this certificate, which was verified.
fn client_of(certificate: &[u8]) -> Option<ClientCertificate> {
    // rustls has read it. If its end cannot be found here it is over.
    let until = der::validity(certificate).map_or(i64::MIN, |validity| validity.until);
    Some(ClientCertificate { subject: der::subject(certificate), until })
}

impl std::fmt::Debug for Handshake {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Handshake").field("name", &self.name).finish_non_exhaustive()
    }
}
