//! Rules for a head of HTTP/1.x beyond those of every version: where its content ends, and whether the connection
//! persists (RFC 9112 9).
//!
//! Owns: these judgements, and their order. Pure functions of the head.

use super::writer::Persistence;
use crate::conn::framing::Content;
use crate::error::Refusal;
use crate::exchange::rules::{check_host_and_target, check_method, expects_continue};
use crate::limits::Limits;
use crate::message::{Field, Request, Version};
use crate::workspace::pages::PagesByHost;

/// The consequences of a head that can be accepted.
pub(super) struct Judged {
    pub(super) content: Content,
    /// Whether the client waits for an interim answer before it sends the content.
    pub(super) continues: bool,
}

/// Judges a head. `pages` say whether a method that is not known is asked for.
///
/// # Errors
/// The refusal of the request.
pub(super) fn judge(request: Request<'_>, limits: &Limits, pages: &dyn PagesByHost) -> Result<Judged, Refusal> {
    check_host_and_target(request)?;
    let content = Content::of(request, limits)?;
    let continues = expects_continue(request)? && !matches!(content, Content::Empty);
    check_method(request, pages)?;
    Ok(Judged { content, continues })
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
