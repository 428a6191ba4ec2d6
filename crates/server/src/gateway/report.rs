//! What the error log says of applications.
//!
//! Owns: the words. Says nothing about the request but its site and what it is called: whoever may read the log may not read requests.

use lamna_proto::gateway::GatewayError;
use rustix::io::Errno;

use crate::log::errors::{Level, Peer, report_peer};

/// An application could not be asked, or did not answer as it should.
pub(super) fn failure((site, request): (&str, &str), upstream: &str, error: GatewayError, errno: Option<Errno>) {
    report_peer(Peer::Gateway, site, request, || {
        let why = errno.map(|errno| format!(" ({errno})")).unwrap_or_default();
        (Level::Error, format!("upstream {upstream}: {error}{why}"))
    });
}

/// No place of an application can be asked: each is held to be down.
pub(super) fn none_available((site, request): (&str, &str)) {
    report_peer(Peer::Gateway, site, request, || (Level::Error, GatewayError::NoneAvailable.to_string()));
}

/// What an application says for the error log, in pieces as they come.
pub(super) fn diagnostic((site, request): (&str, &str), text: &[u8]) {
    for line in text.split(|&byte| byte == b'\n').filter(|line| !line.trim_ascii().is_empty()) {
        report_peer(Peer::Application, site, request, || {
            (Level::Warning, format!("application: {}", String::from_utf8_lossy(line)))
        });
    }
}

/// The name of an upstream cannot be looked up.
pub(super) fn unresolved((site, request): (&str, &str), upstream: &str, why: &str) {
    report_peer(Peer::Gateway, site, request, || {
        (Level::Error, format!("upstream {upstream}: the name cannot be looked up: {why}"))
    });
}
