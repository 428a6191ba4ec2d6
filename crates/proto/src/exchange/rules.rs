//! Rules for a request head that every version of HTTP acts on: its host and target, method and expectation (RFC 9112
//! 3, RFC 9110 10.1.1).
//!
//! Owns: these judgements, and what is asked about a request. Pure functions of the head.

use super::RequestedResource;
use super::answer;
use super::saved::Saved;
use crate::error::Refusal;
use crate::message::{Field, Method, Request, Version};
use crate::parse::host;
use crate::parse::target::{self, Target, TargetError};
use crate::workspace::pages::PagesByHost;

/// Whether OPTIONS is answered from the pages, and not asked for: that of the server as a whole always is (RFC 9110
/// 9.3.7).
pub(crate) fn answers_options(request: Request<'_>, pages: &dyn PagesByHost) -> bool {
    let is_of_server = || request.target() == b"*";
    request.head.method == Method::Options && (is_of_server() || !pages.asks_for_every_method(answer::host_of(request)))
}

/// RFC 9112 3.2 and 3.3: the form of the target, and the host that is asked.
pub(crate) fn check_host_and_target(request: Request<'_>) -> Result<(), Refusal> {
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
        // An empty one says that the target has no authority (RFC 9112 3.2). Those of http and https have one (RFC 9110
        // 4.2.1).
        Target::Origin { .. } | Target::Absolute { .. } if has_empty_host => Err(Refusal::HostInvalid),
        _ => Ok(()),
    }
}

/// RFC 9110 10.1.1. HTTP/1.0 has no interim answers, so the expectation is ignored there.
pub(crate) fn expects_continue(request: Request<'_>) -> Result<bool, Refusal> {
    if request.field(Field::Expect).is_none() {
        return Ok(false);
    }
    if !request.field_lines(Field::Expect).all(|value| value.eq_ignore_ascii_case(b"100-continue")) {
        return Err(Refusal::ExpectationFailed);
    }
    Ok(request.head.version != Version::Http10)
}

/// Whether the method is served. A tunnel to an authority is not (RFC 9110 9.3.6); one of RFC 8441, which names a path,
/// may be. `pages` say whether a method that is not known is asked for.
pub(crate) fn check_method(request: Request<'_>, pages: &dyn PagesByHost) -> Result<(), Refusal> {
    match request.head.method {
        Method::Connect if answer::asks_authority(request) => Err(Refusal::MethodUnknown),
        Method::Unknown if !pages.asks_for_every_method(answer::host_of(request)) => Err(Refusal::MethodUnknown),
        _ => Ok(()),
    }
}

/// The parts of the target that say what is asked for. The target has been checked.
pub(crate) fn requested_resource_of(request: Request<'_>) -> RequestedResource<'_> {
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
    RequestedResource {
        host,
        path,
        query,
        path_and_query,
        request: Some(request),
        is_again: false,
        redirects: 0,
        led: None,
        found: None,
    }
}

/// The same of a request that is kept, with what has been found out about it.
pub(crate) fn requested_resource_of_saved(saved: &Saved) -> RequestedResource<'_> {
    let (found, redirects, led) = (saved.found.as_ref(), saved.redirects(), saved.led());
    RequestedResource { found, redirects, led, ..requested_resource_of(saved.request()) }
}
