//! What a request head says about itself that the connection acts on: its host and target, method, expectation and
//! persistence (RFC 9112 3 and 9, RFC 9110 10.1.1).
//!
//! Owns: these judgements. Pure functions of the head.

use super::writer::Persistence;
use crate::conn::framing::Content;
use crate::error::Refusal;
use crate::exchange::answer;
use crate::exchange::{Saved, Translate};
use crate::limits::Limits;
use crate::message::{Field, Method, Request, Version};
use crate::parse::host;
use crate::parse::target::{self, Target, TargetError};
use crate::workspace::pages::PagesByHost;

/// What follows from a head that can be accepted.
pub(super) struct Judged {
    pub(super) content: Content,
    /// Whether the client waits for an interim answer before it sends the content.
    pub(super) continues: bool,
}

/// Judges a head. `pages` say whether a method that is not known is asked for.
///
/// # Errors
/// What the request is refused with at once.
pub(super) fn judge(request: Request<'_>, limits: &Limits, pages: &dyn PagesByHost) -> Result<Judged, Refusal> {
    check_host_and_target(request)?;
    let content = Content::of(request, limits)?;
    let continues = expects_continue(request)? && !matches!(content, Content::Empty);
    match request.head.method {
        Method::Unknown if pages.asks_for_every_method(answer::host_of(request)) => Ok(Judged { content, continues }),
        Method::Connect | Method::Unknown => Err(Refusal::MethodUnknown),
        _ => Ok(Judged { content, continues }),
    }
}

/// Whether OPTIONS is answered from the pages, and not asked for: that of the server as a whole always is (RFC 9110 9.3.7).
pub(in crate::conn) fn answers_options(request: Request<'_>, pages: &dyn PagesByHost) -> bool {
    let is_of_server = || request.target() == b"*";
    request.head.method == Method::Options && (is_of_server() || !pages.asks_for_every_method(answer::host_of(request)))
}

/// RFC 9112 3.2 and 3.3: the form of the target, and the host that is asked.
pub(in crate::conn) fn check_host_and_target(request: Request<'_>) -> Result<(), Refusal> {
    if request.head.repeated.contains(Field::Host) {
        return Err(Refusal::HostRepeated);
    }
    let has_empty_host = match request.field(Field::Host) {
        Some(value) => host::parse_field(value).map_err(|_| Refusal::HostInvalid)?.is_none(),
        None if request.head.version != Version::Http10 => return Err(Refusal::HostMissing),
        None => false,
    };
    let target = target::parse(request.target(), answer::asks_authority(request)).map_err(|error| match error {
        TargetError::Host(_) => Refusal::HostInvalid,
        _ => Refusal::TargetForm,
    })?;
    match target {
        Target::Asterisk if request.head.method != Method::Options => Err(Refusal::TargetForm),
        // An empty one says that the target has no authority (RFC 9112 3.2). Those of http and https have one (RFC 9110 4.2.1).
        Target::Origin { .. } | Target::Absolute { .. } if has_empty_host => Err(Refusal::HostInvalid),
        _ => Ok(()),
    }
}

/// RFC 9110 10.1.1. HTTP/1.0 has no interim answers, so the expectation is ignored there.
pub(in crate::conn) fn expects_continue(request: Request<'_>) -> Result<bool, Refusal> {
    if request.field(Field::Expect).is_none() {
        return Ok(false);
    }
    if !request.field_lines(Field::Expect).all(|value| value.eq_ignore_ascii_case(b"100-continue")) {
        return Err(Refusal::ExpectationFailed);
    }
    Ok(request.head.version != Version::Http10)
}

/// RFC 9112 9.3.
pub(super) fn is_persistent(request: Request<'_>) -> bool {
    if request.field(Field::Connection).is_none() {
        return request.head.version == Version::Http11;
    }
    let has = |option: &[u8]| {
        let mut options = request.field_lines(Field::Connection).flat_map(|line| line.split(|&byte| byte == b','));
        options.any(|one| one.trim_ascii().eq_ignore_ascii_case(option))
    };
    !has(b"close") && (request.head.version == Version::Http11 || has(b"keep-alive"))
}

pub(super) fn persistence_of(request: Request<'_>, closing: bool) -> Persistence {
    match (closing || !is_persistent(request), request.head.version) {
        (true, _) => Persistence::Close,
        (false, Version::Http11 | Version::Http2) => Persistence::Implied,
        (false, Version::Http10) => Persistence::KeepAlive,
    }
}

/// The parts of the target that say what is asked for. The target has been checked.
pub(in crate::conn) fn translation_of(request: Request<'_>) -> Translate<'_> {
    let field_host = request.field(Field::Host);
    let (authority, path, query) = match target::parse(request.target(), false) {
        Ok(Target::Origin { path, query }) => (field_host, path, query),
        Ok(Target::Absolute { authority, path, query, .. }) => (Some(authority), path, query),
        _ => (field_host, &b"/"[..], None),
    };
    let host = authority.map(host::name_of).filter(|name| !name.is_empty());
    let length = path.len() + query.map_or(0, |query| 1 + query.len());
    // An absolute-form without a path has a path that does not stand in it.
    let tail = request.target().len().checked_sub(length).map(|start| &request.target()[start..]);
    let path_and_query = tail.filter(|tail| tail.starts_with(path)).unwrap_or(path);
    Translate { host, path, query, path_and_query, request: Some(request), is_again: false, redirects: 0, found: None }
}

/// The same of a request that is kept, with what has been found out about it.
pub(in crate::conn) fn translation_of_saved(saved: &Saved) -> Translate<'_> {
    Translate { found: saved.found.as_ref(), redirects: saved.redirects(), ..translation_of(saved.request()) }
}
