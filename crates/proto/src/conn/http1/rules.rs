//! What a request head says about itself that the connection acts on: its host and target, method, expectation and
//! persistence (RFC 9112 3 and 9, RFC 9110 10.1.1).
//!
//! Owns: these judgements. Pure functions of the head.

use crate::error::Refusal;
use crate::exchange::Translate;
use crate::exchange::answer::Persistence;
use crate::message::{Field, Method, Request, Version};
use crate::parse::host;
use crate::parse::target::{self, Target, TargetError};

/// RFC 9112 3.2 and 3.3: the form of the target, and the host that is asked.
pub(super) fn check_host_and_target(request: Request<'_>) -> Result<(), Refusal> {
    if request.head.repeated.contains(Field::Host) {
        return Err(Refusal::HostRepeated);
    }
    match request.field(Field::Host) {
        Some(value) => host::parse_field(value).map_err(|_| Refusal::HostInvalid).map(|_| ())?,
        None if request.head.version == Version::Http11 => return Err(Refusal::HostMissing),
        None => {}
    }
    let connect = request.head.method == Method::Connect;
    let target = target::parse(request.target(), connect).map_err(|error| match error {
        TargetError::Host(_) => Refusal::HostInvalid,
        _ => Refusal::TargetForm,
    })?;
    match target {
        Target::Asterisk if request.head.method != Method::Options => Err(Refusal::TargetForm),
        _ => Ok(()),
    }
}

/// What is refused because of its method: now and for good, or once its content has been received.
pub(super) fn check_method(request: Request<'_>) -> Result<Option<Refusal>, Refusal> {
    match request.head.method {
        Method::Get | Method::Head | Method::Options => Ok(None),
        Method::Disallowed => Ok(Some(Refusal::MethodNotAllowed)),
        Method::Connect | Method::Unknown => Err(Refusal::MethodUnknown),
    }
}

/// RFC 9110 10.1.1. HTTP/1.0 has no interim answers, so the expectation is ignored there.
pub(super) fn expects_continue(request: Request<'_>) -> Result<bool, Refusal> {
    match request.field(Field::Expect) {
        None => Ok(false),
        Some(value) if value.eq_ignore_ascii_case(b"100-continue") => Ok(request.head.version == Version::Http11),
        Some(_) => Err(Refusal::ExpectationFailed),
    }
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
        (false, Version::Http11) => Persistence::Implied,
        (false, Version::Http10) => Persistence::KeepAlive,
    }
}

/// The parts of the target that say what is asked for. The target has been checked.
pub(super) fn translation_of(request: Request<'_>) -> Translate<'_> {
    let field_host = request.field(Field::Host);
    let (authority, path, query) = match target::parse(request.target(), false) {
        Ok(Target::Origin { path, query }) => (field_host, path, query),
        Ok(Target::Absolute { authority, path, query, .. }) => (Some(authority), path, query),
        _ => (field_host, &b"/"[..], None),
    };
    let host = authority.and_then(|value| host::parse(value).ok()).map(|host| host.name);
    Translate { host: host.filter(|name| !name.is_empty()), path, query }
}
