//! The results of a handshake, for the protocol above, the log and the metrics.
//!
//! Owns: the names of versions, suites and groups.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use lamna_io::log::line::Tls;
use lamna_sys::metrics::counters::{Counters, TLS_GROUPS, TLS_KINDS, TLS_SUITES};
use rustls::{CipherSuite, NamedGroup, ServerConfig};

use super::record::Version;
use super::tickets::BoundTickets;

/// The certificate and configuration of a site for a client that asks for it.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// Its certificate, and all that goes with it.
    pub config: Arc<ServerConfig>,
    /// [`SiteTls::identity`](lamna_config::settings::SiteTls::identity).
    pub identity: u64,
    /// A digest of the authorities by which certificates of clients are judged ([`Endpoint::authorities`]).
    ///
    /// [`Endpoint::authorities`]: super::Endpoint::authorities
    pub authorities: Option<u64>,
    /// Tickets for clients that come again; none where each handshake is to be whole.
    pub tickets: Option<BoundTickets>,
}

impl Chosen {
    /// The certificate and the authorities of its clients, if they are asked for theirs.
    pub(super) fn judges(&self) -> Option<(u64, u64)> {
        self.authorities.map(|authorities| (self.identity, authorities))
    }
}

/// The results of a handshake. Small: every established connection has one.
#[derive(Clone, Debug)]
pub struct Negotiated {
    /// The version of TLS.
    pub version: Version,
    /// Which certificate was shown: [`SiteTls::identity`](lamna_config::settings::SiteTls::identity).
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
    /// The authorities by which the client's certificate was judged, or would have been: [`Chosen::authorities`].
    pub authorities: Option<u64>,
    /// The client's certificate, if it has shown one. It was verified.
    pub client: Option<Box<ClientCertificate>>,
}

/// The certificate of a client, which one of `client_ca` has signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificate {
    /// Whose it is, as in `CN=alice`; none if it does not say.
    pub subject: Option<Box<str>>,
    /// The last second, since 1970, in which it is valid.
    pub until: i64,
}

/// The connection of a request.
#[derive(Clone, Copy, Debug)]
pub struct Over<'a> {
    /// How it is secured.
    pub way: Way<'a>,
    /// The socket of its connection, for callers that need both ends of it.
    pub socket: Option<BorrowedFd<'a>>,
}

/// How a connection is secured. It follows from the socket and the session, so that it is the same wherever the
/// connection goes.
#[derive(Clone, Copy, Debug)]
pub enum Way<'a> {
    /// In clear text, over a network.
    Clear,
    /// The same, to an address where sites that speak TLS are served in clear text as well.
    Open,
    /// In clear text, from a program of this machine: by a Unix socket.
    Local,
    /// By TLS.
    Secured(&'a Negotiated),
    /// By TLS, of which nothing has been agreed on. No request comes so.
    Unsettled,
}

impl<'a> Over<'a> {
    /// Whether it is TLS.
    pub fn is_secure(&self) -> bool {
        matches!(self.way, Way::Secured(_))
    }

    /// The subject of the certificate that the client has shown, and that one of `client_ca` has signed.
    pub fn client_subject(&self) -> Option<&'a str> {
        match self.way {
            Way::Secured(negotiated) => negotiated.client_subject(),
            Way::Clear | Way::Open | Way::Local | Way::Unsettled => None,
        }
    }
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
        self.told().as_bytes()
    }

    /// The same, to be shown.
    pub fn told(self) -> &'static str {
        match self {
            Alpn::Http1 => "http/1.1",
            Alpn::Http2 => "h2",
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

/// Cipher suites that may be agreed on, by their IANA names. The last stands for any other.
pub const SUITES: [(Option<CipherSuite>, &str); TLS_SUITES] = [
    (Some(CipherSuite::TLS13_AES_256_GCM_SHA384), "TLS_AES_256_GCM_SHA384"),
    (Some(CipherSuite::TLS13_AES_128_GCM_SHA256), "TLS_AES_128_GCM_SHA256"),
    (Some(CipherSuite::TLS13_CHACHA20_POLY1305_SHA256), "TLS_CHACHA20_POLY1305_SHA256"),
    (Some(CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384), "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"),
    (Some(CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256), "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"),
    (Some(CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256), "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"),
    (Some(CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384), "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"),
    (Some(CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256), "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"),
    (Some(CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256), "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"),
    (None, "other"),
];

/// Groups that may be agreed on, by their IANA names. The last but one stands for any other, the last for none.
pub const GROUPS: [(Option<NamedGroup>, &str); TLS_GROUPS] = [
    (Some(NamedGroup::X25519), "x25519"),
    (Some(NamedGroup::secp256r1), "secp256r1"),
    (Some(NamedGroup::secp384r1), "secp384r1"),
    (Some(NamedGroup::X25519MLKEM768), "X25519MLKEM768"),
    (Some(NamedGroup::secp256r1MLKEM768), "SecP256r1MLKEM768"),
    (None, "other"),
    (None, ""),
];

/// Kinds of handshakes that are counted apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// The version of TLS.
    pub version: Version,
    /// The protocol above.
    pub alpn: Alpn,
    /// The client came with a ticket.
    pub is_resumed: bool,
}

impl Kind {
    /// All of them, in the order of their counters.
    pub fn all() -> [Kind; TLS_KINDS] {
        std::array::from_fn(|index| Kind {
            version: if index & 1 == 0 { Version::V13 } else { Version::V12 },
            alpn: if index & 2 == 0 { Alpn::Http2 } else { Alpn::Http1 },
            is_resumed: index & 4 != 0,
        })
    }

    /// The place of its counter.
    pub fn index(self) -> usize {
        usize::from(self.version == Version::V12)
            + 2 * usize::from(self.alpn == Alpn::Http1)
            + 4 * usize::from(self.is_resumed)
    }
}

/// The version as OpenTelemetry names it: `1.2` or `1.3`.
pub fn version_name(version: Version) -> &'static str {
    match version {
        Version::V12 => "1.2",
        Version::V13 => "1.3",
    }
}

impl Negotiated {
    /// The cipher suite by its IANA name.
    pub fn suite_name(&self) -> &'static str {
        SUITES[self.suite_index()].1
    }

    /// The group by its IANA name; empty if there was none.
    pub fn group_name(&self) -> &'static str {
        GROUPS[self.group_index()].1
    }

    fn suite_index(&self) -> usize {
        let known = SUITES.iter().position(|(suite, _)| suite.is_some() && *suite == self.suite);
        known.unwrap_or(TLS_SUITES - 1)
    }

    fn group_index(&self) -> usize {
        if self.group.is_none() {
            return TLS_GROUPS - 1;
        }
        GROUPS.iter().position(|(group, _)| *group == self.group).unwrap_or(TLS_GROUPS - 2)
    }

    /// The subject of the client's certificate.
    pub fn client_subject(&self) -> Option<&str> {
        self.client.as_ref()?.subject.as_deref()
    }

    /// Counts a handshake that has ended well.
    pub(super) fn count_in(&self, counters: &Counters) {
        let Negotiated { version, alpn, is_resumed, .. } = *self;
        counters.tls.handshakes[Kind { version, alpn, is_resumed }.index()].fetch_add(1, Relaxed);
        counters.tls.suites[self.suite_index()].fetch_add(1, Relaxed);
        counters.tls.groups[self.group_index()].fetch_add(1, Relaxed);
    }

    /// Its part of a line in the access log.
    pub fn told(&self) -> Tls<'_> {
        Tls {
            version: version_name(self.version),
            cipher: self.suite_name(),
            group: self.group_name(),
            protocol: self.alpn.told(),
            is_resumed: self.is_resumed,
            client_subject: self.client_subject(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_counter_of_its_own() {
        for (index, kind) in Kind::all().into_iter().enumerate() {
            assert_eq!(kind.index(), index, "{kind:?}");
        }
    }

    #[test]
    fn all_that_is_offered_is_counted_by_its_name() {
        let provider = super::super::crypto::provider();
        for suite in &provider.cipher_suites {
            assert!(SUITES.iter().any(|(known, _)| *known == Some(suite.suite())), "{suite:?}");
        }
        for group in &provider.kx_groups {
            assert!(GROUPS.iter().any(|(known, _)| *known == Some(group.name())), "{group:?}");
        }
    }
}
