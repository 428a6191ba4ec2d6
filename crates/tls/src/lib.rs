//! TLS, between the socket and the connection: sessions, certificates, tickets.
//!
//! ```text
//!   Settings ── certificates ──> Endpoint (names -> certificates) ── choose ──> Handshake (rustls)
//!                 local_ca ──┘        │ look: renewed files                        │ keys
//!                                     └ Tickets (shared by all processes)     Sealer, Opener (record)
//!   socket <── bytes ──> TlsSession <── plaintext ──> connection
//! ```
//!
//! Owns: everything that is TLS. Makes no system call on sockets and starts no thread: `worker::transport` moves the
//! bytes, and the main thread has files looked at. The dependency on rustls is here and nowhere else.

#![forbid(unsafe_code)]

pub mod acme;
pub mod alert;
pub mod automatic;
pub mod buffers;
pub mod certificates;
pub mod client;
pub mod client_hello;
pub mod crypto;
pub mod der;
pub mod endpoint;
pub mod handshake;
pub mod local_ca;
pub mod negotiated;
mod pem;
pub mod plain_http;
pub mod record;
pub mod selection;
pub mod session;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
pub mod tickets;

pub use alert::Failure;
pub use certificates::{FileStates, Validities};
pub use crypto::offered;
pub use endpoint::{Endpoint, FileCertificate, TlsError, check, in_files, trust_of};
pub use negotiated::{Alpn, ClientCertificate, Negotiated, Over, Way};
pub use selection::ConfiguredCertificates;
pub use session::{Phase, Session, TlsSession};
pub use tickets::Tickets;
