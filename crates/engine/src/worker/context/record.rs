//! Requests that have been answered, in the access log.
//!
//! Owns: to which log a request belongs, and where each part of its record comes from. Guarantees: the routes of a site
//! are asked only where some of them say where requests are logged, and nothing is allocated for a path that was
//! asked for before. Writes no line.

use std::net::IpAddr;
use std::sync::Arc;

use lamna_config::access_log::SiteLog;
use lamna_config::proxies::{Peer, TrustedProxies};
use lamna_io::log::{LogBuffer, Record};
use lamna_proto::conn::{Answered, Connection};
use lamna_proto::exchange::RequestedResource;
use lamna_proto::message::{Field, Request};
use lamna_proto::parse::host;
use lamna_proto::parse::target::{self, Target};
use lamna_proto::time::Instant;
use lamna_site::content::access::{AuthAssertions, Identity, Known, network_of};
use lamna_site::content::route::Effective;
use lamna_site::content::site::{Site, Sites};
use lamna_site::gateway;
use lamna_sys::metrics::step_timer::{self, Step};
use lamna_tls::Negotiated;

use super::WorkerContext;
use super::asked::counted_client;
use crate::worker::cache_key::CacheKeys;
use crate::worker::transport::Transport;

impl WorkerContext<'_> {
    /// Logs what `connection`, which is with `peer` over `transport`, has answered.
    pub fn report(&mut self, connection: &mut Connection, transport: &Transport, peer: Peer) {
        let shared = self.shared;
        let Some(buffer) = &mut self.log else { return };
        let _step = step_timer::step(Step::Log);
        while let Some(answered) = connection.poll_answered() {
            let client = shared.proxies.client(peer, answered.request);
            let Some(log) = log_of(buffer, &shared.sites, &answered, client, &mut self.cache_keys) else { continue };
            let tls = transport.negotiated().map(Negotiated::told);
            let is_named = shared.request_id || buffer.names_requests(log);
            let (named, mut digits) = (answered.request.filter(|_| is_named), [0; 16]);
            let id = named.map(|request| shared.proxies.name_of(peer, request, &mut digits));
            let user = user_of((&shared.sites, &shared.proxies), (&answered, client), self.now, &mut self.known);
            buffer.push(log, self.unix_ms, &Record { tls, id, user, ..record(&answered, client) });
        }
    }
}

/// The log that an answered request of `client` belongs to, if any.
fn log_of(
    buffer: &LogBuffer,
    sites: &Sites,
    answered: &Answered<'_>,
    client: Option<IpAddr>,
    cache_keys: &mut CacheKeys,
) -> Option<u32> {
    let Some(request) = answered.request.filter(|_| !buffer.is_of_one_log()) else { return buffer.of_server() };
    let site = sites.find(host_of(request));
    let SiteLog { log, asks_routes } = buffer.of_site(site.index);
    match asks_routes {
        true => match rules_of(site, request, client, cache_keys) {
            Some(rules) => buffer.of_route(site.index, rules.rules.log.as_ref()),
            None => log,
        },
        false => log,
    }
}

/// The rules that the routes of a site make for a request, if it is for a path.
fn rules_of(
    site: &Site,
    request: Request<'_>,
    client: Option<IpAddr>,
    cache_keys: &mut CacheKeys,
) -> Option<Arc<Effective>> {
    let Ok(Target::Origin { path, query } | Target::Absolute { path, query, .. }) =
        target::parse(request.target(), false)
    else {
        return None;
    };
    let requested = RequestedResource {
        host: host_of(request),
        path,
        query,
        path_and_query: path,
        request: Some(request),
        is_again: false,
        redirects: 0,
        led: None,
        found: None,
    };
    Some(cache_keys.rules(site, &requested, || client))
}

/// The name of the host that is asked.
fn host_of(request: Request<'_>) -> Option<&[u8]> {
    gateway::authority_of(request).map(host::name_of).filter(|name| !name.is_empty())
}

/// The user that an answered request is from, where the server has made sure of that.
fn user_of<'s>(
    (sites, proxies): (&'s Sites, &TrustedProxies),
    (answered, client): (&'s Answered<'_>, Option<IpAddr>),
    now: Instant,
    known: &mut Known,
) -> Option<&'s str> {
    if let Some(assertions) = AuthAssertions::of(answered.found.as_ref()) {
        return assertions.user.as_deref();
    }
    let request = answered.request.filter(|_| sites.have_guards() && ![401, 403, 429].contains(&answered.status))?;
    let site = sites.find(host_of(request));
    let network = counted_client(client, proxies).map(network_of);
    site.guard.as_ref()?.identity((Some(request), network), (site.index, now), known).map(Identity::name)
}

/// The record of an answered request of `client`.
fn record<'a>(answered: &Answered<'a>, client: Option<IpAddr>) -> Record<'a> {
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
        host: request.and_then(gateway::authority_of),
        duration_us: answered.ended.since_us(answered.started),
        tls: None,
        id: None,
        request,
    }
}
