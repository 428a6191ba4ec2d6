//! Requests of routes whose answers are kept: asked of the application for all who want the same, and kept as they
//! come.
//!
//! ```text
//!  begin ──> Joins ── another asks ───> Waits ── fetched: kept, or failed ──> that is the answer
//!               │ none does               │ it is not for others
//!               v                         v
//!             Leads ──────────────────> Alone
//!               └── head: keepable? ──> parts go to the client and are collected ── end ──> kept, and complete
//!               │         └─ no ──> parts go to the client, those who wait are released
//!               ├─ 304 to our own condition ──> the kept answer is as good as new, and is the answer
//!               └─ fails, or 5xx ──> the stale answer, if it may be used; else what happened
//! ```
//!
//! Owns: [`Cached`], a [`Gateway`] with what becomes of its answer. Guarantees: an answer that breaks off, is too long
//! or was overtaken by a change is never kept; the client is given each part when it comes, whatever is collected. A
//! leader holds up no request: it does not lead before its first step, which comes when its turn has come on its
//! connection; what it collects is received as fast as the application gives it, however slowly its own client reads;
//! and if it leaves, the fetch goes on in the background. What may be kept and used is decided by
//! `lamna_proto::caching`.

mod changes;
mod waiting;

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use lamna_config::answer_cache::AnswerCache;
use lamna_proto::caching::{
    self, Facts, Given, NotKept, Terms, Varies, VaryNames, keepable, status, usable_after_failure,
};
use lamna_proto::exchange::program::{Holds, Input, Next, Part, Program, StepResult, StreamHead};
use lamna_proto::gateway::fields::{Fields, LineEnds};
use lamna_proto::message::Status;
use lamna_proto::resource::{Aged, Answered, Representation, Resource};
use lamna_proto::time::Instant;
use lamna_sys::clock::{Clock, unix_ms};
use lamna_sys::metrics::memory_accounting::Reservation;

use super::exchange::Gateway;
use crate::cache::answer::{Answer, StoredResponse, sum_of_fields};
use crate::cache::answer_flights::{Fetched, Lead, Selected, Wait};
use crate::cache::answer_key::{WITH_COOKIES, write_variant};
use crate::cache::two_generation_map::Key;
use crate::cache::{Entry, Store};

/// The request, and the facts about it that caching goes by.
#[derive(Debug)]
pub struct Wanted {
    /// Where answers are kept.
    pub store: Arc<Store>,
    /// The server's clock.
    pub clock: Clock,
    /// How the route has them kept.
    pub settings: AnswerCache,
    /// The site.
    pub site: u32,
    /// Whether more than a path decides about some route of the site.
    pub depends_on_requests: bool,
    /// The method.
    pub method: Box<[u8]>,
    /// The key of the target, without what the request selects by.
    pub target: Box<[u8]>,
    /// The key by which the answer was looked for: that of the target, or with what the request selects by.
    pub key: Box<[u8]>,
    /// The facts of the request that matter to caches.
    pub facts: Facts,
    /// The fields of the request, as lines.
    pub fields: Box<[u8]>,
    /// The stored answer, which is to be validated, or to be used if the application fails.
    pub stale: Option<Arc<Entry>>,
    /// Whether the application is asked if `stale` still holds.
    pub validates: bool,
    /// Why the application is asked.
    pub why: status::Forwarded,
}

/// How a request is asked.
#[derive(Debug)]
pub enum Role {
    /// It is not decided before the first step.
    Joins {
        /// Whether others can have what it gets.
        may_lead: bool,
    },
    /// For all who want the same.
    Leads(Lead),
    /// Perhaps not at all: another request asks.
    Waits(Wait),
    /// For its client.
    Alone,
}

/// See the module.
#[derive(Debug)]
pub struct Cached {
    /// Nothing once it has gone to the background.
    inner: Option<Box<Inner>>,
    /// It has no client.
    is_in_background: bool,
}

#[derive(Debug)]
struct Inner {
    wanted: Wanted,
    gateway: Box<Gateway>,
    role: Role,
    progress: Progress,
    /// Parts that came before the client had room for them.
    ahead: VecDeque<Box<Part>>,
    /// The events that the gateway waits for.
    next: Next,
    /// All of the answer has come.
    has_ended: bool,
    /// When it began to ask.
    asked: Option<Instant>,
    /// The number of invalidations by then.
    voids: u64,
}

/// How far its answer is.
#[derive(Debug)]
enum Progress {
    /// Its head has not come.
    Head,
    /// It is kept when it is whole.
    Collects(Box<Collected>),
    /// It is not kept.
    Passes,
}

#[derive(Debug)]
struct Collected {
    status: u16,
    reason: Option<Box<str>>,
    /// Field lines as the client got them.
    fields: Vec<u8>,
    length: Option<u64>,
    terms: Terms,
    received: Instant,
    unix_seconds: u64,
    varies: Varies,
    content: Vec<u8>,
    bytes_max: u64,
    /// Room for it, and for what the client has not taken of it.
    reservations: Vec<Reservation>,
    reserved: usize,
}

impl Collected {
    /// Makes sure that there is room for `bytes` bytes. Whether there is.
    fn reserve(&mut self, bytes: usize, store: &Store) -> bool {
        while self.reserved < bytes {
            let step = (bytes - self.reserved).max(RESERVED_BYTES);
            // Twice: what the client has not taken is there as well.
            let Some(reservation) = store.lend(2 * step as u64, COLLECTED_SHARE) else { return false };
            self.reservations.push(reservation);
            self.reserved += step;
        }
        true
    }
}

/// Room is made in steps.
const RESERVED_BYTES: usize = 64 * 1024;
/// How long it is known that the answers for a target are not shared.
const PASSES_MS: u64 = 10_000;
/// How long a request waits for another's answer. It is longer than most applications take, and shorter than clients
/// wait.
const WAIT_MS: u32 = 20_000;
/// The part of the store that answers may take while they are collected, as a divisor.
const COLLECTED_SHARE: u64 = 8;

impl Cached {
    /// Asks through `gateway`, which has not begun.
    pub fn new(mut gateway: Box<Gateway>, wanted: Wanted, role: Role) -> Cached {
        // What is kept is for others.
        gateway.cookie.iter_mut().for_each(|cookie| cookie.is_deferred = true);
        let voids = wanted.store.answer_flights().voids();
        let inner = Inner {
            wanted,
            gateway,
            role,
            progress: Progress::Head,
            ahead: VecDeque::new(),
            next: Next::default(),
            has_ended: false,
            asked: None,
            voids,
        };
        Cached { inner: Some(Box::new(inner)), is_in_background: false }
    }

    /// Refreshes an answer in the background, without a client.
    pub fn refresh(mut gateway: Box<Gateway>, wanted: Wanted, lead: Lead) {
        gateway.ask_for_nobody();
        let (store, clock) = (wanted.store.clone(), wanted.clock);
        let mut cached = Cached::new(gateway, wanted, Role::Leads(lead));
        cached.is_in_background = true;
        store.background().carry_out(Box::new(cached), clock);
    }
}

impl Program for Cached {
    fn content_bytes_max(&self) -> u64 {
        self.inner.as_ref().map_or(0, |inner| inner.gateway.content_bytes_max())
    }

    fn may_block(&self) -> bool {
        self.inner.as_ref().is_some_and(|inner| inner.gateway.may_block())
    }

    fn holds(&self) -> Holds {
        let Some(inner) = &self.inner else { return Holds::default() };
        // What is collected is lent by the store.
        let ahead = inner.ahead.iter().filter_map(|part| part.content.as_ref()).map(|content| content.own_bytes());
        let Wanted { target, key, fields, .. } = &inner.wanted;
        let words = target.len() + key.len() + fields.len();
        inner.gateway.holds().and(Holds::of_bytes(size_of::<Inner>() + words + ahead.sum::<usize>()))
    }

    fn run(&mut self, input: Input<'_>) -> StepResult {
        self.inner.as_mut().map_or(StepResult::Failed, |inner| inner.run(input))
    }

    fn asks(&self) -> Option<String> {
        self.inner.as_ref()?.gateway.asks()
    }

    fn socket(&self) -> Option<BorrowedFd<'_>> {
        let inner = self.inner.as_ref()?;
        match &inner.role {
            Role::Waits(wait) => Some(wait.socket()),
            Role::Joins { .. } | Role::Leads(_) | Role::Alone => inner.gateway.socket(),
        }
    }
}

impl Drop for Cached {
    /// Its client has left. If others wait for it, it goes on.
    fn drop(&mut self) {
        let Some(inner) = self.inner.take().filter(|_| !self.is_in_background) else { return };
        let is_awaited = matches!(&inner.role, Role::Leads(lead) if lead.is_awaited());
        if inner.asked.is_some() && !inner.gateway.is_over() && is_awaited {
            let (store, clock) = (inner.wanted.store.clone(), inner.wanted.clock);
            let cached = Cached { inner: Some(inner), is_in_background: true };
            store.background().carry_out(Box::new(cached), clock);
        }
    }
}

// Waiting.
impl Inner {
    fn run(&mut self, input: Input<'_>) -> StepResult {
        let now = input.now;
        if let Some(step_result) = self.settle(now) {
            return step_result;
        }
        self.asked.get_or_insert(now);
        if input.room
            && let Some(part) = self.ahead.pop_front()
        {
            return StepResult::Gives(part, self.next(now));
        }
        // Without room the application is asked all the same, and says what it waits for: nothing else would.
        let (has_room, takes) = (input.room, input.room || self.reads_ahead());
        if self.has_ended || !takes && !self.ahead.is_empty() {
            return StepResult::Waits(self.next(now));
        }
        match self.gateway.run(Input { room: takes, ..input }) {
            StepResult::Gives(part, next) => {
                self.next = next;
                match self.handle_part(part, now) {
                    Ok(part) if has_room => return StepResult::Gives(part, self.next(now)),
                    Ok(part) => self.ahead.push_back(part),
                    Err(step_result) => return step_result,
                }
            }
            StepResult::Waits(next) => self.next = next,
            StepResult::Answer(page) => return self.handle_failure(page, now),
            step_result => return step_result,
        }
        StepResult::Waits(self.next(now))
    }

    /// Whether it receives more though its client has not taken what there is: what may be kept, for others.
    fn reads_ahead(&self) -> bool {
        matches!(self.role, Role::Leads(_)) && !matches!(self.progress, Progress::Passes)
    }

    /// The events that the next step waits for. Content is wanted when no part comes before it.
    fn next(&self, now: Instant) -> Next {
        match () {
            () if self.has_ended => Next::ROOM,
            // What there is of the answer is received whether there is room or not: what the gateway would have waited
            // for room with, at once.
            () if self.reads_ahead() => {
                let (Next { room, readable, content, until, .. }, is_ahead) = (self.next, !self.ahead.is_empty());
                let until = if room { Some(now) } else { until };
                Next { room: is_ahead, readable: readable || room, content: content && !is_ahead, until, ..self.next }
            }
            () if self.ahead.is_empty() => self.next,
            () => Next::ROOM,
        }
    }
}

// What comes.
impl Inner {
    /// The part as the client gets it, or what is answered in its place.
    fn handle_part(&mut self, mut part: Box<Part>, now: Instant) -> Result<Box<Part>, StepResult> {
        if let Some(head) = &mut part.head
            && let Some(step_result) = self.handle_head(head, now)
        {
            return Err(step_result);
        }
        if let Some(content) = &part.content {
            self.collect(content.bytes());
        }
        if part.end.is_some() {
            self.has_ended = true;
            self.finish();
        }
        Ok(part)
    }

    /// The answer in its place, if there is one.
    fn handle_head(&mut self, head: &mut StreamHead, now: Instant) -> Option<StepResult> {
        let status = head.status.0;
        if !matches!(&*self.wanted.method, b"GET" | b"HEAD") {
            if caching::invalidates(&self.wanted.method, status) {
                self.invalidate_target();
                self.invalidate_named(lines(&head.fields));
            }
            self.gateway.cookie.iter_mut().for_each(|cookie| cookie.give(head));
            self.progress = Progress::Passes;
            return None;
        }
        if self.wanted.validates && status == 304 {
            return Some(self.handle_confirmed(&head.fields, now));
        }
        if matches!(status, 500 | 502 | 503 | 504)
            && let Some(stale) = self.stale_after_failure(now)
        {
            self.complete(Fetched::Stale);
            return Some(StepResult::Answer(stale));
        }
        let judged = self.judge(head, now);
        let line = status::line(self.wanted.why, judged.as_ref().map(|_| ()).map_err(|why| *why));
        head.fields.extend_from_slice(line.as_bytes());
        self.gateway.cookie.iter_mut().for_each(|cookie| cookie.give(head));
        self.progress = match judged {
            Ok(collected) => Progress::Collects(Box::new(collected)),
            Err(why) => {
                self.pass(why, status, now);
                Progress::Passes
            }
        };
        None
    }

    /// Whether the answer that begins with `head` is kept when it is whole.
    fn judge(&mut self, head: &StreamHead, now: Instant) -> Result<Collected, NotKept> {
        let Wanted { store, settings, facts, .. } = &self.wanted;
        let fields = lines(&head.fields);
        let unix_seconds = unix_ms() / 1000;
        let delay_s = self.asked.map_or(0, |asked| now.since(asked) / 1000);
        let given = Given { status: head.status.0, fields, unix_seconds, delay_s };
        let terms = keepable(facts, &given, &settings.terms)?;
        let varies = self.varies(fields);
        if varies == Varies::Always {
            return Err(NotKept::Vary);
        }
        let bytes_max = settings.bytes_max.min(store.answer_bytes_max());
        let expected = head.length.unwrap_or(bytes_max);
        if expected > bytes_max {
            return Err(NotKept::TooLarge);
        }
        // Nothing that is kept makes room for what comes of one request.
        if caching::is_of_request(head.status.0) && self.wanted.stale.is_some() {
            return Err(NotKept::Status);
        }
        Ok(Collected {
            status: head.status.0,
            reason: head.reason.clone(),
            fields: head.fields.clone(),
            length: head.length,
            terms,
            received: now,
            unix_seconds,
            varies,
            content: Vec::new(),
            bytes_max,
            reservations: Vec::new(),
            reserved: 0,
        })
    }

    /// The dependence of an answer with these fields: also on what the server itself says of the client in fields that
    /// routes set, which are none of the request's.
    fn varies(&self, fields: Fields<'_>) -> Varies {
        match Varies::of(fields) {
            Varies::By(names) if names.iter().any(|name| self.gateway.tells_of_client(name)) => Varies::Always,
            varies => varies,
        }
    }

    /// The answer is not cached: no request waits for it, nor for the next.
    fn pass(&mut self, why: NotKept, status: u16, now: Instant) {
        let is_of_target = !matches!(why, NotKept::Method | NotKept::Authorization);
        let leads = matches!(self.role, Role::Leads(_));
        // It says nothing of what others get, for whom something is kept.
        let spoils =
            self.wanted.stale.is_some() && (caching::is_of_condition(status) || caching::is_of_request(status));
        if spoils {
            return self.complete(Fetched::Alone);
        }
        if leads && is_of_target && !self.wanted.facts.directives.no_store {
            let until_ms = now.ms() + PASSES_MS;
            let mut key = self.wanted.key.to_vec();
            if why == NotKept::Cookie {
                key.push(WITH_COOKIES);
            }
            self.wanted
                .store
                .keep_note(Key { site: self.wanted.site, path: &key }, StoredResponse::Passes { until_ms });
        } else if is_of_target && self.wanted.stale.is_some() {
            // What was kept is not what the application says now.
            self.invalidate();
        }
        self.complete(Fetched::Alone);
    }

    fn collect(&mut self, content: &[u8]) {
        let Progress::Collects(collected) = &mut self.progress else { return };
        let length = collected.content.len() + content.len();
        let has_room = collected.reserve(length, &self.wanted.store);
        if length as u64 <= collected.bytes_max && has_room {
            return collected.content.extend_from_slice(content);
        }
        let (status, received) = (collected.status, collected.received);
        self.progress = Progress::Passes;
        match has_room {
            true => self.pass(NotKept::TooLarge, status, received),
            // That is no reason for others not to try.
            false => self.complete(Fetched::Alone),
        }
    }

    /// The answer is whole.
    fn finish(&mut self) {
        let Progress::Collects(collected) = std::mem::replace(&mut self.progress, Progress::Passes) else {
            return self.complete(Fetched::Alone);
        };
        // What announced another length is an answer to HEAD, or none at all.
        let is_whole = collected.length.is_none_or(|length| length == collected.content.len() as u64);
        let kept = is_whole.then(|| self.keep(&collected)).flatten();
        self.complete(kept.map_or(Fetched::Alone, |(entry, selected)| Fetched::Stored(entry, selected)));
    }
}

// Keeping.
impl Inner {
    /// Whether nothing has been changed meanwhile that would make the answer one of before.
    fn may_keep(&self) -> bool {
        match &self.role {
            Role::Leads(lead) => lead.may_keep(),
            _ => self.wanted.store.answer_flights().voids() == self.voids,
        }
    }

    /// Keeps an answer that is whole.
    fn keep(&self, collected: &Collected) -> Option<(Arc<Entry>, Option<Selected>)> {
        let Collected { status, reason, fields, terms, received, unix_seconds, varies, content, .. } = collected;
        let aged = Aged { since: unix_seconds.saturating_sub(terms.age_s), date: terms.date };
        let cache_line = status::line(self.wanted.why, Ok(()));
        let fields = fields.strip_suffix(cache_line.as_bytes()).unwrap_or(fields);
        let status_code = Status(*status);
        let (reason, fields, cache_status) = (reason.as_deref(), lines(fields), status::HIT);
        let answered = Answered { status: status_code, reason, fields, aged, cache_status };
        let representation = Representation::of_answer(&answered, content).ok()?;
        let resource = Arc::new(Resource::one(Status(*status), representation));
        if caching::is_of_request(*status) {
            self.keep_for_same_fields(resource, *terms, *received);
            return None;
        }
        self.keep_resource(resource, *terms, *received, varies)
    }

    /// Keeps an answer that may have come of fields of the request, for those who send the same, where nothing else is
    /// kept.
    fn keep_for_same_fields(&self, resource: Arc<Resource>, terms: Terms, received: Instant) {
        let Wanted { store, site, key, fields, .. } = &self.wanted;
        let key = Key { site: *site, path: key };
        let is_there = |entry: Arc<Entry>| {
            matches!(entry.stored_response(), Some(StoredResponse::Answer(_) | StoredResponse::Varies { .. }))
        };
        if self.may_keep() && !store.lookup(key, 0).is_some_and(is_there) {
            let answer = Answer::new(terms, received.ms()).for_those_who_send(Some(sum_of_fields(lines(fields))));
            store.keep_answer(key, Arc::new(Entry::of_stored_response(resource, StoredResponse::Answer(answer))));
            if !self.may_keep() {
                store.invalidate_answer(key);
            }
        }
    }

    /// Keeps an answer under the key that it is found by.
    fn keep_resource(
        &self,
        resource: Arc<Resource>,
        terms: Terms,
        received: Instant,
        varies: &Varies,
    ) -> Option<(Arc<Entry>, Option<Selected>)> {
        let Wanted { store, site, target, .. } = &self.wanted;
        let entry =
            Arc::new(Entry::of_stored_response(resource, StoredResponse::Answer(Answer::new(terms, received.ms()))));
        if !self.may_keep() {
            return None;
        }
        let (key, selected) = match varies {
            Varies::By(names) => {
                let (names, number) = self.vary_number(names);
                let part = self.part_of(&names);
                let mut key = target.to_vec();
                write_variant(number, |out| out.extend_from_slice(&part), &mut key);
                (key, Some(Selected { by: names, part: part.into() }))
            }
            Varies::Never | Varies::Always => (target.to_vec(), None),
        };
        let key = Key { site: *site, path: &key };
        store.keep_answer(key, entry.clone());
        if !self.may_keep() {
            // It was overtaken while it was being kept.
            store.invalidate_answer(key);
            return None;
        }
        Some((entry, selected))
    }

    /// Under which number the answers of the target are found, which differ by `names`. That is kept where the target
    /// is found.
    fn vary_number(&self, names: &VaryNames) -> (Arc<VaryNames>, u64) {
        let key = Key { site: self.wanted.site, path: &self.wanted.target };
        let store = &self.wanted.store;
        if let Some(entry) = store.lookup(key, 0)
            && let Some(StoredResponse::Varies { names: known, number }) = entry.stored_response()
            && **known == *names
        {
            return (known.clone(), *number);
        }
        let (names, number) = (Arc::new(names.clone()), store.next_number());
        store.keep_note(key, StoredResponse::Varies { names: names.clone(), number });
        (names, number)
    }

    /// The application has confirmed the stored answer (304).
    fn handle_confirmed(&mut self, given: &[u8], now: Instant) -> StepResult {
        let (Some(stale), given_fields) = (self.wanted.stale.clone(), lines(given)) else { return StepResult::Failed };
        let old = stale.resource.variants.first();
        if !caching::is_validated_by(old.validators(), given_fields) {
            // It is about something that is not kept: asked for as if nothing were.
            self.invalidate();
            return StepResult::Again;
        }
        let mut kept_fields = Vec::new();
        old.write_answer_fields(status::HIT, &mut kept_fields);
        let mut fields = Vec::new();
        caching::update(lines(&kept_fields), given_fields, &mut fields);
        let unix_seconds = unix_ms() / 1000;
        let delay_s = self.asked.map_or(0, |asked| now.since(asked) / 1000);
        let status = stale.resource.status;
        // The request's own directives do not apply to the stored answer.
        let facts = Facts { is_get: true, directives: Default::default(), ..self.wanted.facts };
        let judged = Given { status: status.0, fields: lines(&fields), unix_seconds, delay_s };
        let terms = keepable(&facts, &judged, &self.wanted.settings.terms);
        let age_s = terms.map_or(0, |terms| terms.age_s);
        let date = terms.map_or(unix_seconds, |terms| terms.date);
        let aged = Aged { since: unix_seconds.saturating_sub(age_s), date };
        let build = |cache_status| {
            let answered = Answered { status, reason: old.own_reason(), fields: lines(&fields), aged, cache_status };
            let built = Representation::of_answer(&answered, old.content().unwrap_or_default());
            built.map(|representation| Arc::new(Resource::one(status, representation)))
        };
        let Ok(resource) = build(status::VALIDATED) else { return StepResult::Failed };
        let varies = self.varies(lines(&fields));
        let kept = match (terms, build(status::HIT)) {
            _ if self.wanted.facts.directives.no_store => None,
            (Ok(terms), Ok(kept)) if varies != Varies::Always => self.keep_resource(kept, terms, now, &varies),
            // The reason concerns this request, and not the stored answer.
            (Err(NotKept::Authorization | NotKept::Cookie), _) => None,
            _ => {
                self.invalidate();
                None
            }
        };
        self.complete(kept.map_or(Fetched::Alone, |(entry, selected)| Fetched::Stored(entry, selected)));
        StepResult::Answer(resource)
    }

    /// The application cannot be asked, or has given nonsense.
    fn handle_failure(&mut self, page: Arc<Resource>, now: Instant) -> StepResult {
        let stale = self.stale_after_failure(now);
        // Those who wait have their own idea of what they may get.
        let sent = self.gateway.has_asked().then(|| sum_of_fields(lines(&self.wanted.fields)));
        self.complete(Fetched::Failed(page.clone(), sent));
        StepResult::Answer(stale.unwrap_or(page))
    }

    /// The stored answer, if it may be used because the application fails.
    fn stale_after_failure(&self, now: Instant) -> Option<Arc<Resource>> {
        let stale = self.wanted.stale.as_ref()?;
        let Some(StoredResponse::Answer(answer)) = stale.stored_response() else { return None };
        if !usable_after_failure(&answer.terms, answer.age_ms(now.ms()), &self.wanted.facts) {
            return None;
        }
        let old = stale.resource.variants.first();
        let mut fields = Vec::new();
        old.write_answer_fields(status::HIT, &mut fields);
        let aged =
            Aged { since: (unix_ms() / 1000).saturating_sub(answer.age_ms(now.ms()) / 1000), date: answer.terms.date };
        let answered = Answered {
            status: stale.resource.status,
            reason: old.own_reason(),
            fields: lines(&fields),
            aged,
            cache_status: status::STALE_IF_ERROR,
        };
        let built = Representation::of_answer(&answered, old.content().unwrap_or_default()).ok()?;
        Some(Arc::new(Resource::one(stale.resource.status, built)))
    }

    fn complete(&mut self, fetched: Fetched) {
        if let Role::Leads(lead) = std::mem::replace(&mut self.role, Role::Alone) {
            lead.complete(fetched);
        }
    }
}

/// Lines that were checked where they came from.
fn lines(bytes: &[u8]) -> Fields<'_> {
    Fields::check(bytes, LineEnds::CrLf).unwrap_or_default()
}
