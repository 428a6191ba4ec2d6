//! Gateways: which application answers the requests of a route, where it is, and how long it may take.
//!
//! Owns: [`GatewaySettings`] as plain values. Where they are written and judged is in `route`. Knows nothing of connections.

use crate::config::upstream_address::UpstreamAddress;

/// An application that answers requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewaySettings {
    /// What is spoken with it.
    pub protocol: GatewayProtocol,
    /// Where it is: at any of these, at least one.
    pub upstreams: Vec<UpstreamSettings>,
    /// What `Host` says; none for what the client asked for.
    pub host: Option<String>,
    /// How long a connection to it may take to be established.
    pub connect_timeout_ms: u32,
    /// How long it may take to begin its answer, to go on with it, or to take more of the request.
    pub timeout_ms: u32,
    /// Bytes of content that a request may have; none for any number.
    pub body_bytes_max: Option<u64>,
    /// Which files it runs; none if it answers every request.
    pub scripts: Option<ScriptSettings>,
}

/// What is spoken with an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GatewayProtocol {
    /// HTTP/1.1: a reverse proxy.
    Http,
    /// FastCGI.
    FastCgi,
}

/// Which files an application runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptSettings {
    /// Those with one of these at the end of their name, behind a dot. None: the application has no files, and answers every request.
    pub extensions: Vec<String>,
    /// Names that stand for a directory before those of the site.
    pub index: Vec<String>,
}

impl Default for ScriptSettings {
    /// PHP.
    fn default() -> ScriptSettings {
        ScriptSettings { extensions: vec!["php".to_owned()], index: vec!["index.php".to_owned()] }
    }
}

/// One place where an application is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamSettings {
    /// Where.
    pub address: UpstreamAddress,
    /// Its share of the requests beside the others. 0 for a spare: it is asked only when no other can be.
    pub weight: u32,
}

impl GatewaySettings {
    /// The key of the route, or the flag, that names such an application.
    pub fn key(&self) -> &'static str {
        match self.protocol {
            GatewayProtocol::Http => "proxy",
            GatewayProtocol::FastCgi => "fastcgi",
        }
    }

    /// An application at `upstreams`, with everything else as usual.
    pub fn new(protocol: GatewayProtocol, upstreams: Vec<UpstreamSettings>) -> GatewaySettings {
        GatewaySettings {
            protocol,
            upstreams,
            host: None,
            connect_timeout_ms: CONNECT_TIMEOUT_MS,
            timeout_ms: TIMEOUT_MS,
            body_bytes_max: None,
            scripts: (protocol == GatewayProtocol::FastCgi).then(ScriptSettings::default),
        }
    }
}

impl UpstreamSettings {
    /// An application at `address`, with the same share as others.
    pub fn new(address: UpstreamAddress) -> UpstreamSettings {
        UpstreamSettings { address, weight: 1 }
    }
}

/// A connection within one data centre takes less than a millisecond: this is for lost packets (1 s, 2 s) and for little else.
pub const CONNECT_TIMEOUT_MS: u32 = 5_000;
/// What other servers wait for an answer (nginx, Apache, HAProxy's examples).
pub const TIMEOUT_MS: u32 = 60_000;
