//! The record of a request in the access log.
//!
//! Owns: where each of its parts comes from. Writes nothing.

use std::net::IpAddr;

use lamna_io::log::Record;
use lamna_proto::conn::Answered;
use lamna_proto::message::Field;
use lamna_proto::parse::host;
use lamna_proto::time::Instant;
use lamna_site::content::access::{AuthAssertions, Identity, Known};
use lamna_site::content::site::Sites;
use lamna_site::gateway;

/// The user that an answered request is from, where the server has made sure of that.
pub(super) fn user_of<'s>(
    sites: &'s Sites,
    answered: &'s Answered<'_>,
    now: Instant,
    known: &mut Known,
) -> Option<&'s str> {
    if let Some(assertions) = AuthAssertions::of(answered.found.as_ref()) {
        return assertions.user.as_deref();
    }
    let request = answered.request.filter(|_| sites.have_guards() && ![401, 403, 429].contains(&answered.status))?;
    let host = gateway::authority_of(request).map(host::name_of).filter(|name| !name.is_empty());
    let site = sites.find(host);
    site.guard.as_ref()?.identity(Some(request), (site.index, now), known).map(Identity::name)
}

/// The record in the access log of an answered request of `client`.
pub(super) fn record<'a>(answered: &Answered<'a>, client: Option<IpAddr>) -> Record<'a> {
    let request = answered.request;
    let field = |field| request.and_then(|request| request.field(field));
    Record {
        client,
        user: None,
        method: request.map_or(b"", |request| request.method_token()),
        target: request.map_or(b"", |request| request.target()),
        version: request.map_or("", |request| request.head.version.name()),
        status: answered.status,
        bytes: answered.content_bytes,
        referer: field(Field::Referer),
        user_agent: field(Field::UserAgent),
        host: field(Field::Host),
        duration_us: answered.ended.since_us(answered.started),
        tls: None,
        id: None,
    }
}
