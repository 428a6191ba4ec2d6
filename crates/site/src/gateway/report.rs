//! Messages about applications for the error log.
//!
//! Owns: the words. Says nothing about the request but its site and its ID: a reader of the log need not be permitted
//! to read requests.

use lamna_io::log::errors::{Level, Peer, report_peer};
use lamna_proto::gateway::GatewayError;
use rustix::io::Errno;

/// An application could not be asked, or did not answer as it should.
pub(super) fn failure((site, request): (&str, &str), upstream: &str, error: GatewayError, why: Option<&str>) {
    report_peer(Peer::Gateway, site, request, || {
        let why = why.map(|why| format!(" ({why})")).unwrap_or_default();
        (Level::Error, format!("upstream {upstream}: {error}{why}"))
    });
}

/// An answer is longer than it said that it would be.
pub(super) fn surplus((site, request): (&str, &str), upstream: &str) {
    report_peer(Peer::Gateway, site, request, || {
        (Level::Warning, format!("upstream {upstream}: {} The rest is dropped.", GatewayError::TooLong))
    });
}

/// Reports the failure of filters on an answer.
pub(super) fn filtering((site, request): (&str, &str), level: Level, why: &str) {
    report_peer(Peer::Gateway, site, request, || (level, why.to_owned()));
}

/// No place of an application can be asked: each is held to be down.
pub(super) fn none_available((site, request): (&str, &str)) {
    report_peer(Peer::Gateway, site, request, || (Level::Error, GatewayError::NoneAvailable.to_string()));
}

/// An auth service has said neither yes nor no.
pub(super) fn service((site, request): (&str, &str), path: &str, status: u16) {
    report_peer(Peer::Gateway, site, request, || {
        let message =
            format!("the service that decides about access answered {status} to {path}: the request is refused");
        (Level::Error, message)
    });
}

/// The content of a request cannot be kept in a file, or not be read from there.
pub(super) fn not_kept((site, request): (&str, &str), directory: &str, errno: Errno) {
    report_peer(Peer::Gateway, site, request, || {
        (Level::Error, format!("buffer_directory {directory}: content of a request cannot be kept: {errno}"))
    });
}

/// Reports an application's diagnostic output, in pieces as they come.
pub(super) fn diagnostic((site, request): (&str, &str), text: &[u8]) {
    for line in text.split(|&byte| byte == b'\n').filter(|line| !line.trim_ascii().is_empty()) {
        report_peer(Peer::Application, site, request, || {
            (Level::of_line(line), format!("application: {}", String::from_utf8_lossy(line)))
        });
    }
}

/// The name of an upstream cannot be looked up.
pub(super) fn unresolved((site, request): (&str, &str), upstream: &str, why: &str) {
    report_peer(Peer::Gateway, site, request, || {
        (Level::Error, format!("upstream {upstream}: the name cannot be looked up: {why}"))
    });
}
