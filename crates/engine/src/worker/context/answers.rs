//! Requests that an application answers: with its cached answers, or by asking it.
//!
//! Owns: looking for kept answers, and which program asks where there is none that may be used. Guarantees: a kept
//! answer is found in the worker's private cache as a file is, without a lock, an allocation or a system call. Which
//! answers may be used is decided by `lamna_proto::caching`, what becomes of those that come by `gateway::Cached`.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use lamna_config::answer_cache::{AnswerCache, is_among};
use lamna_proto::caching::status::Forwarded;
use lamna_proto::caching::{Facts, Use, VaryNames, usable, write_conditions};
use lamna_proto::counter::add;
use lamna_proto::error::Refusal;
use lamna_proto::exchange::RequestedResource;
use lamna_proto::gateway::fields::{Fields, LineEnds};
use lamna_proto::message::{Method, Request};
use lamna_proto::resource::Representation;
use lamna_site::cache::answer::{Answer, StoredResponse};
use lamna_site::cache::answer_key::{AnswerKey, WITH_COOKIES, write_variant};
use lamna_site::cache::two_generation_map::Key;
use lamna_site::cache::{Entry, Lookup};
use lamna_site::content::access::{AuthAssertions, Identity};
use lamna_site::content::answers;
use lamna_site::content::route::Effective;
use lamna_site::gateway::{self, Cached, Gateway, GatewayRequest, Role, Wanted};
use lamna_site::upstream::group::Group;
use lamna_sys::metrics::counters::AnswerOutcome;
use rustix::net::{getpeername, getsockname};

use super::WorkerContext;
use super::asked::Asked;
use super::scripts::LetIn;
use super::steps::Outcome;
use crate::worker::cache_key::CacheKeyParts;
use crate::worker::shared::Shared;

/// A request that an application answers.
#[derive(Clone, Copy)]
pub(super) struct ApplicationRequest<'a> {
    pub(super) asked: &'a Asked<'a>,
    /// The user that it is from, where the server has made sure of that.
    pub(super) identity: Option<Identity<'a>>,
    /// The effective rules of the routes.
    pub(super) rules: &'a Arc<Effective>,
    pub(super) group: &'a Arc<Group>,
    /// The file that it runs, if it runs files.
    pub(super) script: Option<LetIn<'a>>,
}

/// The result of looking for a cached answer to a request.
enum Found {
    /// This was handed out last, and is the answer.
    Answer(AnswerOutcome),
    /// The same, and it is to be refreshed.
    Stale(Arc<Entry>),
    /// It may be used once it has been validated, or if the application fails.
    Validate(Arc<Entry>, Forwarded),
    /// Nothing that is for this request.
    Nothing(Forwarded),
    /// That answers are not for others.
    Passes,
}

/// How long a request has for refreshing an answer before another one does.
const REFRESH_PATIENCE_MS: u64 = 10_000;

impl WorkerContext<'_> {
    /// The outcome of a request that an application answers.
    pub(super) fn ask(&mut self, application_request: &ApplicationRequest<'_>) -> Outcome {
        let shared = self.shared;
        let Some(request) = application_request.asked.requested.request else {
            return Outcome::Refuse(Refusal::RunFailed);
        };
        if shared.services.suspends_gateway(&application_request.group.name) {
            return self.without_asking(application_request, 503, answers::NOT_AVAILABLE);
        }
        self.sample_asked(application_request.asked);
        let settings = application_request.rules.rules.answer_cache.as_ref().filter(|_| !self.caches.are_off());
        let Some(settings) = settings else { return application_request.begin(shared, request) };
        let reads = request.head.method.reads();
        let is_tunnel = request.head.method == Method::Connect;
        // What a service has let in is for who asks: it may have said who that is.
        let has_assertions = AuthAssertions::of(application_request.asked.requested.found).is_some();
        if is_tunnel || reads && (has_assertions || !gateway::may_be_cached(request)) {
            return application_request.begin(shared, request);
        }
        let Some(site) = self.write_answer_key(application_request, request, settings) else {
            return application_request.begin(shared, request);
        };
        let target_length = self.answer_key.len();
        let mut facts =
            Facts::of(request.head.method == Method::Get, Fields::of(request), settings.ignore_reload, |name| {
                is_among(&settings.ignore_cookies, name)
            });
        // The application is told of the client, by whatever that has said so with.
        let tells_identity = application_request.rules.request_fields.tell_of_one_client();
        facts.has_authorization |= application_request.identity.is_some() || tells_identity;
        if facts.is_diverted && reads {
            return application_request.begin(shared, request);
        }
        let found = match reads {
            true => self.find_answer(site, request, &facts),
            false => Found::Nothing(Forwarded::Method),
        };
        let outcome = match &found {
            Found::Answer(outcome) => Some(*outcome),
            Found::Stale(_) => Some(AnswerOutcome::Stale),
            Found::Validate(..) => Some(AnswerOutcome::Validated),
            Found::Nothing(Forwarded::Method) => None,
            Found::Nothing(Forwarded::Bypass) | Found::Passes => Some(AnswerOutcome::Passed),
            Found::Nothing(_) => Some(AnswerOutcome::Miss),
        };
        if let Some(outcome) = outcome {
            add(&self.work.kept_answers[outcome as usize], 1);
        }
        if let Found::Stale(entry) = &found {
            self.refresh_answer(application_request, request, site, target_length, &facts, entry);
        }
        if let Found::Answer(_) | Found::Stale(_) = found {
            return Outcome::Stored(site);
        }
        if facts.directives.only_if_cached && reads {
            return self.without_asking(
                application_request,
                504,
                "This is not kept here, and nothing else was asked for.",
            );
        }
        let role = WorkerContext::role(&facts, &found, reads);
        let (stale, why) = match found {
            Found::Validate(entry, why) => (Some(entry), why),
            Found::Nothing(why) => (None, why),
            Found::Passes | Found::Answer(_) | Found::Stale(_) => (None, Forwarded::Bypass),
        };
        let wanted = self.wanted(request, settings, site, target_length, facts, stale, why);
        match application_request.begin_wanted(shared, request, wanted) {
            Ok((gateway, wanted)) => Outcome::Run(Box::new(Cached::new(gateway, wanted, role))),
            Err(refusal) => Outcome::Refuse(refusal),
        }
    }

    /// An error page, and nothing goes to the application.
    fn without_asking(&mut self, application_request: &ApplicationRequest<'_>, status: u16, cause: &str) -> Outcome {
        let Ok(page) = answers::error(status, cause, &application_request.rules.extras(status)) else {
            return Outcome::Refuse(Refusal::RunFailed);
        };
        Outcome::Answer(Arc::new(page))
    }

    /// Writes what the answer is found by, and says of which site. None if it cannot be.
    fn write_answer_key(
        &mut self,
        application_request: &ApplicationRequest<'_>,
        request: Request<'_>,
        settings: &AnswerCache,
    ) -> Option<u32> {
        let asked = application_request.asked;
        let requested = asked.requested;
        let cache_key = self.cache_key(asked);
        let Key { site, path: key } = cache_key.key();
        let outcome = CacheKeyParts::of(key).outcome;
        self.asked_path.clear();
        let script = application_request.script.map(LetIn::script);
        let is_path = gateway::write_asked_path(
            asked.site,
            application_request.rules,
            script,
            requested.path,
            &mut self.asked_path,
        )
        .is_ok();
        let (authority, is_secure) = (gateway::told_authority(request, asked.believed()), asked.is_secure());
        gateway::write_told_way(request, asked.believed(), (authority, is_secure), &mut self.told_way);
        let answer_key = AnswerKey {
            path: &self.asked_path,
            outcome,
            is_secure,
            authority,
            way: &self.told_way,
            query: requested.query,
        };
        self.answer_key.clear();
        let fits = is_path && answer_key.write(&settings.ignore_query, &mut self.answer_key);
        self.cache_keys.take_back(cache_key);
        fits.then_some(site)
    }

    /// Looks up the cached answer under the key. Where answers vary, the selecting fields of the request are added to
    /// the key.
    fn find_answer(&mut self, site: u32, request: Request<'_>, facts: &Facts) -> Found {
        let mut variant: Option<(Arc<VaryNames>, u64)> = None;
        let now_ms = self.now.ms();
        for _ in 0..2 {
            if let Some((names, number)) = &variant {
                write_variant(*number, |out| names.write(Fields::of(request), out), &mut self.answer_key);
            }
            let missing = if variant.is_some() { Forwarded::VaryMiss } else { Forwarded::Miss };
            let key = Key { site, path: &self.answer_key };
            let found = match self.local.lookup(&self.shared.store, key, now_ms) {
                Lookup::Fresh(entry) | Lookup::Aging(entry) => entry,
                Lookup::Stale(entry) => {
                    return match entry.stored_response() {
                        Some(StoredResponse::Answer(answer))
                            if !entry.is_disturbed() && answer.is_for(Fields::of(request)) =>
                        {
                            Found::Validate(entry, Forwarded::Stale)
                        }
                        _ => Found::Nothing(missing),
                    };
                }
                Lookup::Unknown if facts.has_cookie => return self.find_note_for_cookies(site, missing),
                Lookup::Unknown => return Found::Nothing(missing),
            };
            match found.stored_response() {
                Some(StoredResponse::Answer(answer)) if !answer.is_for(Fields::of(request)) => {
                    return Found::Nothing(missing);
                }
                Some(StoredResponse::Answer(answer)) => {
                    return match usable(&answer.terms, answer.age_ms(now_ms), facts) {
                        Use::Fresh => Found::Answer(AnswerOutcome::Hit),
                        Use::Refresh
                            if refreshes(answer, facts) && answer.wants_refresh(now_ms, REFRESH_PATIENCE_MS) =>
                        {
                            Found::Stale(found.clone())
                        }
                        Use::Stale | Use::Refresh => Found::Answer(AnswerOutcome::Stale),
                        Use::Validate => {
                            let is_fresh = answer.age_ms(now_ms) < answer.terms.lifetime_s.saturating_mul(1000);
                            let why = if is_fresh { Forwarded::Request } else { Forwarded::Stale };
                            Found::Validate(found.clone(), why)
                        }
                        Use::Unfit(_) => Found::Nothing(Forwarded::Bypass),
                    };
                }
                Some(StoredResponse::Passes { .. }) => return Found::Passes,
                Some(StoredResponse::Varies { names, number }) if variant.is_none() => {
                    variant = Some((names.clone(), *number))
                }
                Some(StoredResponse::Varies { .. }) | None => return Found::Nothing(missing),
            }
        }
        Found::Nothing(Forwarded::Miss)
    }

    /// Whether answers are known not to be for others if the request has cookies.
    fn find_note_for_cookies(&mut self, site: u32, missing: Forwarded) -> Found {
        self.answer_key.push(WITH_COOKIES);
        let key = Key { site, path: &self.answer_key };
        let found = self.local.lookup(&self.shared.store, key, self.now.ms());
        let is_known = matches!(found, Lookup::Fresh(entry) if matches!(entry.stored_response(), Some(StoredResponse::Passes { .. })));
        self.answer_key.pop();
        if is_known { Found::Passes } else { Found::Nothing(missing) }
    }

    /// Whether a request asks the application for all requests that want the same, or waits for the one that does.
    fn role(facts: &Facts, found: &Found, reads: bool) -> Role {
        let may_share = reads && !facts.has_authorization && !facts.directives.no_store;
        match found {
            Found::Validate(entry, _) if may_share => {
                Role::Joins { may_lead: facts.is_get && (!facts.is_conditional || has_validator(entry)) }
            }
            // One that is for a part may be answered from what another one gets, but another one not from what it gets.
            Found::Nothing(Forwarded::Miss | Forwarded::VaryMiss) if may_share => {
                Role::Joins { may_lead: facts.is_get && !facts.is_conditional }
            }
            _ => Role::Alone,
        }
    }

    #[expect(clippy::too_many_arguments, reason = "what is wanted is made of them")]
    fn wanted(
        &self,
        request: Request<'_>,
        settings: &AnswerCache,
        site: u32,
        target_length: usize,
        facts: Facts,
        stale: Option<Arc<Entry>>,
        why: Forwarded,
    ) -> Wanted {
        // Whoever changes the target later has to name this key.
        let ways = self.shared.store.ways();
        ways.note(&self.told_way);
        if let Some(key) = AnswerKey::read(&self.answer_key[..target_length]) {
            ways.note_path(key.path);
        }
        let validates = facts.is_get && stale.as_ref().is_some_and(has_validator);
        let (start, end) = (usize::from(request.head.fields_at), usize::from(request.head.length));
        Wanted {
            store: self.shared.store.clone(),
            clock: self.shared.clock,
            settings: settings.clone(),
            site,
            depends_on_requests: self.shared.sites.at(site).routes.depends_on_requests(),
            method: request.method_token().into(),
            target: self.answer_key[..target_length].into(),
            key: self.answer_key[..].into(),
            facts,
            fields: request.bytes[start..end].strip_suffix(b"\r\n").unwrap_or_default().into(),
            stale,
            validates,
            why,
        }
    }

    /// Has a stale answer refreshed that is being used.
    fn refresh_answer(
        &self,
        application_request: &ApplicationRequest<'_>,
        request: Request<'_>,
        site: u32,
        target_length: usize,
        facts: &Facts,
        entry: &Arc<Entry>,
    ) {
        let (shared, key) = (self.shared, Key { site, path: &self.answer_key });
        let Some(settings) = &application_request.rules.rules.answer_cache else { return };
        let Some(lead) = shared.store.answer_flights().lead(key) else { return };
        let wanted = self.wanted(request, settings, site, target_length, *facts, Some(entry.clone()), Forwarded::Stale);
        if let Ok((gateway, wanted)) = application_request.begin_wanted(shared, request, wanted) {
            Cached::refresh(gateway, wanted, lead);
        }
    }
}

impl ApplicationRequest<'_> {
    /// The program that asks, and keeps nothing.
    fn begin(&self, shared: &Shared, request: Request<'_>) -> Outcome {
        match self.gateway(shared, request, Fields::of(request), self.asked.requested.query) {
            Ok(program) => Outcome::Run(program),
            Err(refusal) => Outcome::Refuse(refusal),
        }
    }

    /// The gateway that asks for the wanted answer: for all of it, or whether the cached one still holds.
    fn begin_wanted(
        &self,
        shared: &Shared,
        request: Request<'_>,
        wanted: Wanted,
    ) -> Result<(Box<Gateway>, Wanted), Refusal> {
        // What is asked for is what it will be found by.
        let key = AnswerKey::read(&wanted.target).filter(|_| request.head.method.reads());
        let query = key.map_or(self.asked.requested.query, |key| key.query);
        let validators =
            wanted.stale.as_ref().filter(|_| wanted.validates).map(|entry| entry.resource.variants.first());
        let Some(kept) = validators else {
            return Ok((self.gateway(shared, request, Fields::of(request), query)?, wanted));
        };
        let mut lines = Vec::with_capacity(wanted.fields.len() + 100);
        let etag = kept.validators().etag;
        write_conditions(Fields::of(request), etag, last_modified(kept), &mut lines);
        let fields = Fields::check(&lines, LineEnds::CrLf).map_err(|_| Refusal::RunFailed)?;
        Ok((self.gateway(shared, request, fields, query)?, wanted))
    }

    /// The gateway that asks for the target, with this query.
    fn gateway(
        &self,
        shared: &Shared,
        request: Request<'_>,
        fields: Fields<'_>,
        query: Option<&[u8]>,
    ) -> Result<Box<Gateway>, Refusal> {
        let ApplicationRequest { asked, identity, rules, group, script } = *self;
        let script = script.map(LetIn::script);
        let requested = &RequestedResource { query, ..*asked.requested };
        let site = asked.site;
        // A proxy adds its peer to what trusted proxies have said; programs of CGI are told who the client is.
        let is_cgi = group.settings.protocol.has_variables();
        let client = if is_cgi { asked.client() } else { asked.peer.address };
        let (is_secure, called) = (asked.is_secure(), &*asked.name());
        let (believed, behind) = (asked.believed(), asked.client());
        let socket = asked.over.socket.filter(|_| is_cgi || group.settings.send_proxy.is_some());
        let ends = socket.and_then(|socket| ends_of(socket, asked.client()?));
        let payer = shared.limiter.payer(asked.client());
        let payer = payer.as_ref();
        let client_subject = asked.over.client_subject().filter(|_| site.asks_for_certificates());
        let gateway_request = GatewayRequest {
            site,
            rules,
            group,
            script,
            requested,
            request,
            client,
            ends,
            identity,
            client_subject,
            believed,
            behind,
            is_secure,
            called,
            payer,
            spools: shared.limiter.spools(asked.counted_client()),
        };
        gateway::begin_with(&gateway_request, fields)
    }
}

/// Both ends of a connection for the client at `client`. The port of a client for which a proxy has connected is not
/// known.
fn ends_of(socket: BorrowedFd<'_>, client: IpAddr) -> Option<(SocketAddr, SocketAddr)> {
    let own = SocketAddr::try_from(getsockname(socket).ok()?).ok()?;
    let peer = SocketAddr::try_from(getpeername(socket).ok()??).ok()?;
    let is_peer = peer.ip().to_canonical() == client.to_canonical();
    Some((SocketAddr::new(client, if is_peer { peer.port() } else { 0 }), own))
}

/// Whether the application can be asked if a kept answer still holds.
fn has_validator(entry: &Arc<Entry>) -> bool {
    matches!(entry.stored_response(), Some(StoredResponse::Answer(answer)) if answer.terms.has_validator)
}

/// Whether a request of `facts` can be made again to refresh `answer`: answers to HEAD, or to a client that has
/// something already, are nothing to keep.
fn refreshes(answer: &Answer, facts: &Facts) -> bool {
    facts.is_get && (!facts.is_conditional || answer.terms.has_validator)
}

/// The `Last-Modified` of a kept answer, as the application wrote it.
fn last_modified(kept: &Representation) -> Option<&[u8]> {
    kept.field("last-modified")
}
