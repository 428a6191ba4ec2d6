//! What a handshake has agreed on, for the protocol above, the log and the metrics.
//!
//! Owns: the names of versions, suites and groups.

use std::sync::Arc;

use rustls::{CipherSuite, NamedGroup, ServerConfig};

use super::record::Version;

/// What a site shows to a client that asks for it.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// Its certificate, and all that goes with it.
    pub config: Arc<ServerConfig>,
    /// [`SiteTls::identity`](crate::config::settings::SiteTls::identity).
    pub identity: u64,
}

/// What a handshake has agreed on. Small: every established connection has one.
#[derive(Clone, Debug)]
pub struct Negotiated {
    /// The version of TLS.
    pub version: Version,
    /// Which certificate was shown: [`SiteTls::identity`](crate::config::settings::SiteTls::identity).
    pub identity: u64,
    /// The server name that the client asked for.
    pub name: Option<Box<str>>,
    /// The client came with a ticket.
    pub is_resumed: bool,
    /// The cipher suite.
    pub suite: Option<CipherSuite>,
    /// The group of the key exchange; none where a ticket of TLS 1.2 was used.
    pub group: Option<NamedGroup>,
    /// The protocol above.
    pub alpn: Alpn,
    /// The subject of the client's certificate.
    pub client: Option<Box<str>>,
}

/// What a request came over.
#[derive(Clone, Copy, Debug, Default)]
pub struct Over {
    /// The certificate that its client was shown, by its identity; none without TLS.
    pub certificate: Option<u64>,
    /// Without TLS, at the port from which sites that speak it send their clients to the other one.
    pub is_to_be_secured: bool,
}

/// The protocol above TLS (RFC 7301).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Alpn {
    /// HTTP/1.x, also for clients that did not say.
    #[default]
    Http1,
    /// HTTP/2.
    Http2,
}

impl Alpn {
    /// Its name in a handshake.
    pub fn name(self) -> &'static [u8] {
        match self {
            Alpn::Http1 => b"http/1.1",
            Alpn::Http2 => b"h2",
        }
    }
}

impl From<Option<&[u8]>> for Alpn {
    fn from(name: Option<&[u8]>) -> Alpn {
        match name {
            Some(b"h2") => Alpn::Http2,
            _ => Alpn::Http1,
        }
    }
}

impl Negotiated {
    /// The version as OpenTelemetry names it: `1.2` or `1.3`.
    pub fn version_name(&self) -> &'static str {
        match self.version {
            Version::V12 => "1.2",
            Version::V13 => "1.3",
        }
    }

    /// The cipher suite by its IANA name without what all have in common.
    pub fn suite_name(&self) -> &'static str {
        self.suite.and_then(|suite| suite.as_str()).map_or("", |name| name.trim_start_matches("TLS13_"))
    }

    /// The group by its IANA name.
    pub fn group_name(&self) -> &'static str {
        match self.group {
            Some(NamedGroup::X25519) => "x25519",
            Some(NamedGroup::secp256r1) => "secp256r1",
            Some(NamedGroup::secp384r1) => "secp384r1",
            Some(NamedGroup::X25519MLKEM768) => "X25519MLKEM768",
            Some(NamedGroup::secp256r1MLKEM768) => "SecP256r1MLKEM768",
            Some(_) => "other",
            None => "",
        }
    }
}
