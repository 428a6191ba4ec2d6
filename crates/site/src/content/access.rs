//! Access control of a site: a request passes by its credentials, its action and its network.
//!
//! ```text
//!   rules of the action ─ none ──────────────────────────────> served
//!          └─ network ─ no ──────────────────────────────────> 403
//!              └─ nothing shown, or a wrong token ───────────> 401
//!                  └─ a token, or a password that is remembered ─ named by the rules ─> served, or 403
//!                  └─ another password ─ too many wrong ones of the user, or of the network ─> 429
//!                       └─ Verify ─ right: asked again ─ wrong: 401
//!          └─ a service decides ─ it has let the request in ──> served
//!              └─ Ask: gateway::Question ─ let in: asked again ─ not: what it answers
//! ```
//!
//! Owns: [`Guard`] of a site and its memory. Guarantees: what is remembered of a password is a keyed hash of it, for a
//! bounded number and a bounded time; a verified client is let in without an allocation, and without a lock when this
//! worker knows it. Waits for nothing: that is the business of [`verify`].

pub mod authorization;
#[cfg(test)]
mod authorization_checks;
mod remembered;
mod verify;

use std::fmt;
use std::net::IpAddr;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lamna_config::access::{AccessRule, Accounts, ServiceSettings};
use lamna_config::password::PasswordHash;
use lamna_policy::limit::{Period, Rate, TICKS_PER_MS};
use lamna_proto::exchange::program::Program;
use lamna_proto::exchange::{Finding, RequestedResource};
use lamna_proto::message::Request;
use lamna_proto::resource::{HeadTooLong, Resource};
use lamna_proto::time::Instant;
use ring::{digest, hmac, rand};

use self::authorization::Shown;
use self::remembered::{Remembered, Verified};
use super::action::Action;
use super::answers::{self, Extras};
use super::route::Effective;

/// A keyed hash of credentials, by which they are remembered.
type Tag = [u8; 32];

/// A network of clients: a /32 of IPv4 or a /64 of IPv6.
pub type Network = (bool, u64);

/// How long a password is not verified again.
const REMEMBERED_MS: u32 = 10 * 60 * 1000;
/// Passwords that are remembered.
const REMEMBERED_MAX: usize = 1024;
/// Networks that are remembered, each with a password that it has shown.
const MET_MAX: usize = 8192;
/// Wrong passwords that one network sends for one user: so many at once, and so many in a minute.
const WRONG_OF_USER_MAX: u32 = 10;
/// Wrong passwords that one network sends for whatever users. More than for one, so that a client that goes on with an
/// old password keeps no other user of its network out.
const WRONG_OF_NETWORK_MAX: u32 = 100;
/// How long a password waits until it is verified.
const TURN_MS: u32 = 10_000;

/// The credentials that a site accepts, and the users verified so far.
pub struct Guard {
    users: Vec<(String, PasswordHash)>,
    /// The rule that every user fulfils.
    users_rule: AccessRule,
    /// Keyed hashes of what the configuration has.
    tokens: Vec<(String, Tag)>,
    key: hmac::Key,
    /// Passwords that are verified at once.
    turns: usize,
    held: Mutex<Held>,
}

/// The mutable part of a [`Guard`].
struct Held {
    /// By the password.
    verified: Remembered,
    /// By the password and the network that has shown it: whoever else guesses it is bounded as by any other guess.
    met: Remembered,
    under_way: Vec<Tag>,
}

impl Default for Held {
    fn default() -> Held {
        Held { verified: Remembered::new(REMEMBERED_MAX), met: Remembered::new(MET_MAX), under_way: Vec::new() }
    }
}

/// Counts wrong passwords, for all processes of a server.
pub trait WrongPasswords: fmt::Debug + Send + Sync {
    /// In how many ticks another one of `attempts` is taken, if not now.
    fn wait(&self, attempts: Attempts<'_>, rate: Rate, now: Instant) -> Option<u64>;

    /// There was another one.
    fn count(&self, attempts: Attempts<'_>, rate: Rate, now: Instant);
}

/// Wrong passwords that are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Attempts<'n> {
    /// The number of the site.
    pub site: u32,
    /// The network that sent them.
    pub network: Network,
    /// The name that they were sent for, whether there is such a user or not; none for all names.
    pub name: Option<&'n [u8]>,
}

impl fmt::Debug for Guard {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Guard").finish_non_exhaustive()
    }
}

/// The access decision for a request.
pub enum Verdict {
    /// It goes on.
    Passes,
    /// This is its answer.
    Answer(Arc<Resource>),
    /// This finds out.
    Verify(Box<dyn Program>),
    /// This service is asked.
    Ask(Arc<ServiceSettings>),
}

/// The assertions of auth services that have let a request in. They belong to that request alone.
#[derive(Clone, Debug, Default)]
pub struct AuthAssertions {
    /// Those that have let it in.
    pub services: Vec<Arc<ServiceSettings>>,
    /// Fields that they add for applications, as lines.
    pub lines: Vec<u8>,
    /// The user that a service has named.
    pub user: Option<Box<str>>,
}

impl AuthAssertions {
    /// The assertions that go with this request.
    pub fn of(found: Option<&Finding>) -> Option<&AuthAssertions> {
        found?.downcast_ref()
    }

    fn is_by(&self, service: &Arc<ServiceSettings>) -> bool {
        self.services.iter().any(|one| Arc::ptr_eq(one, service) || one == service)
    }
}

/// The identity of a client, by its kind of evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity<'a> {
    /// A user, who has given a password.
    User(&'a str),
    /// A token.
    Token(&'a str),
    /// Whose certificate it is.
    Certificate(&'a str),
    /// A user that a service has named.
    Service(&'a str),
}

impl<'a> Identity<'a> {
    /// The name in it.
    pub fn name(self) -> &'a str {
        let (Identity::User(name) | Identity::Token(name) | Identity::Certificate(name) | Identity::Service(name)) =
            self;
        name
    }

    /// How he has said so, as `AUTH_TYPE` has it (RFC 3875 4.1.1).
    pub fn scheme(self) -> &'static str {
        match self {
            Identity::User(_) => "Basic",
            Identity::Token(_) => "Bearer",
            Identity::Certificate(_) => "Certificate",
            Identity::Service(_) => "Service",
        }
    }

    /// Whether `rule` names him.
    fn is_named_by(self, rule: &AccessRule) -> bool {
        let names = match self {
            Identity::User(_) => &rule.users,
            Identity::Token(_) => &rule.tokens,
            Identity::Certificate(_) => &rule.certificates,
            Identity::Service(_) => return false,
        };
        AccessRule::names(names, self.name())
    }
}

/// The rules that a request has to keep: of one action, or of several for a request that may do anything.
pub struct Rules<'e>([Option<&'e AccessRule>; Action::ALL.len()]);

impl<'e> Rules<'e> {
    /// Those of `effective` for what `requested` does.
    pub fn of(effective: &'e Effective, requested: &RequestedResource<'_>) -> Rules<'e> {
        if effective.answers_every_method() {
            return Rules::of_application(effective, requested);
        }
        Rules(Action::ALL.map(|action| effective.whom(action).filter(|_| action.is_of(requested))))
    }

    fn of_users(rule: &'e AccessRule) -> Rules<'e> {
        Rules([Some(rule), None, None, None])
    }

    /// Those of `effective` for this action alone.
    pub fn of_action(effective: &'e Effective, action: Action) -> Rules<'e> {
        Rules(Action::ALL.map(|one| effective.whom(one).filter(|_| one == action)))
    }

    /// The same where an application answers `requested`. Whatever is done there reads what it answers: an action of
    /// which nothing is said is for those who may read.
    pub fn of_application(effective: &'e Effective, requested: &RequestedResource<'_>) -> Rules<'e> {
        let own = Action::of_application(requested);
        let whom = |action| match effective.says_whom(action) {
            true => effective.whom(action),
            false => effective.whom(Action::Read),
        };
        Rules(Action::ALL.map(|action| whom(action).filter(|_| own.is_none_or(|own| own == action))))
    }

    /// Whether anybody may.
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    /// Whether the client has to show credentials.
    pub fn ask_for_credentials(&self) -> bool {
        self.iter().any(AccessRule::asks_for_credentials)
    }

    fn iter(&self) -> impl Iterator<Item = &'e AccessRule> {
        self.0.iter().flatten().copied()
    }

    /// A service that has not been asked yet.
    fn service_besides(&self, assertions: Option<&AuthAssertions>) -> Option<&'e Arc<ServiceSettings>> {
        let mut services = self.iter().filter_map(|rule| rule.service.as_ref());
        services.find(|service| !assertions.is_some_and(|assertions| assertions.is_by(service)))
    }

    /// Those that still ask for credentials when the client is `identity`.
    fn besides(&self, identity: Option<Identity<'_>>) -> Rules<'e> {
        let is_left = |rule: &&AccessRule| {
            rule.asks_for_credentials() && !identity.is_some_and(|identity| identity.is_named_by(rule))
        };
        Rules(self.0.map(|rule| rule.filter(is_left)))
    }
}

/// Passwords that a worker knows, without asking anybody: few, found by their first byte.
#[derive(Debug, Default)]
pub struct Known([Option<(u32, Tag, Verified)>; 16]);

impl Guard {
    /// That of a site with these accounts.
    pub fn new(accounts: &Accounts) -> Guard {
        let random = rand::SystemRandom::new();
        // The kernel gives random numbers to every process that has started.
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &random).expect("the system has random numbers");
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Guard {
            users: accounts.users.iter().map(|(name, hash)| (name.clone(), hash.clone())).collect(),
            users_rule: AccessRule { users: vec!["*".to_owned()], ..AccessRule::NONE },
            tokens: accounts.tokens.iter().map(|(name, hash)| (name.clone(), tag(&key, &[hash]))).collect(),
            key,
            turns: (processors / 2).max(1),
            held: Mutex::default(),
        }
    }

    /// Decides about a request with the action that `rules` are about, on `site`.
    pub fn judge(
        self: &Arc<Guard>,
        rules: &Rules<'_>,
        access_request: &AccessRequest<'_>,
        known: &mut Known,
    ) -> Result<Verdict, HeadTooLong> {
        if rules.iter().any(|rule| keeps_network_out(rule, access_request.client)) {
            return access_request.forbidden("This is not for the network that the request comes from.");
        }
        match self.judge_identity(rules, access_request, known)? {
            Verdict::Passes => {}
            verdict => return Ok(verdict),
        }
        let service = rules.service_besides(AuthAssertions::of(access_request.requested.found));
        Ok(service.map_or(Verdict::Passes, |service| Verdict::Ask(service.clone())))
    }

    /// Finds out whose the password is that a request shows, where its answer goes by what its client may have beyond
    /// what it asks for. None if that is known, or nothing can be found out: no users, or a service has been shown it.
    pub fn identify(
        self: &Arc<Guard>,
        access_request: &AccessRequest<'_>,
        known: &mut Known,
    ) -> Result<Option<Verdict>, HeadTooLong> {
        let Some(Shown::Basic(encoded)) = shown(access_request.requested.request) else { return Ok(None) };
        if self.users.is_empty() || AuthAssertions::of(access_request.requested.found).is_some() {
            return Ok(None);
        }
        let rules = Rules::of_users(&self.users_rule);
        self.user_of(&rules, access_request, encoded, known).map(ControlFlow::break_value)
    }

    /// Decides about a request by which a client signs in with a password.
    pub fn sign_in(
        self: &Arc<Guard>,
        access_request: &AccessRequest<'_>,
        known: &mut Known,
    ) -> Result<Verdict, HeadTooLong> {
        self.judge_identity(&Rules::of_users(&self.users_rule), access_request, known)
    }

    /// Whether there are users who can give a password.
    pub fn has_users(&self) -> bool {
        !self.users.is_empty()
    }

    /// The same by what the request shows.
    fn judge_identity(
        self: &Arc<Guard>,
        rules: &Rules<'_>,
        access_request: &AccessRequest<'_>,
        known: &mut Known,
    ) -> Result<Verdict, HeadTooLong> {
        let rules = &rules.besides(access_request.client_subject.map(Identity::Certificate));
        if rules.is_empty() {
            return Ok(Verdict::Passes);
        }
        if rules.iter().any(|rule| rule.users.is_empty() && rule.tokens.is_empty()) {
            return access_request.forbidden("This is for clients that show a certificate.");
        }
        let identity = match shown(access_request.requested.request) {
            None => return self.unauthorized(rules, access_request),
            Some(Shown::Bearer(token)) => match self.token(token) {
                Some(identity) => identity,
                None => return self.unauthorized(rules, access_request),
            },
            // Passwords that nothing here takes are not verified.
            Some(Shown::Basic(_)) if rules.iter().any(|rule| rule.users.is_empty()) => {
                return self.unauthorized(rules, access_request);
            }
            Some(Shown::Basic(encoded)) => match self.user_of(rules, access_request, encoded, known)? {
                ControlFlow::Continue(user) => Identity::User(user),
                ControlFlow::Break(verdict) => return Ok(verdict),
            },
        };
        match rules.iter().all(|rule| identity.is_named_by(rule)) {
            true => Ok(Verdict::Passes),
            false => access_request.forbidden("The credentials of this request give no access here."),
        }
    }

    /// The user whose name and password a request shows, or what is to be answered or found out first.
    fn user_of(
        self: &Arc<Guard>,
        rules: &Rules<'_>,
        access_request: &AccessRequest<'_>,
        encoded: &[u8],
        known: &mut Known,
    ) -> Result<ControlFlow<Verdict, &str>, HeadTooLong> {
        let of = (access_request.site, access_request.now);
        let from = self.tag_from(access_request.network(), encoded);
        if let Some(user) = self.known(&from, of, known) {
            return Ok(ControlFlow::Continue(user));
        }
        Ok(match self.verify(rules, access_request, from, encoded)? {
            ControlFlow::Continue(user) => ControlFlow::Continue(self.name(user)),
            ControlFlow::Break(verdict) => ControlFlow::Break(verdict),
        })
    }

    /// The identity that a request from `network` shows on the site of this number: a token, or a password that this
    /// network has shown before. Others count for nothing: guesses are told apart only where they are counted.
    pub fn identity(
        &self,
        (request, network): (Option<Request<'_>>, Option<Network>),
        of: (u32, Instant),
        known: &mut Known,
    ) -> Option<Identity<'_>> {
        match shown(request)? {
            Shown::Bearer(token) => self.token(token),
            Shown::Basic(encoded) => self.known(&self.tag_from(network, encoded), of, known).map(Identity::User),
        }
    }

    /// The identity that a token belongs to. All tokens are compared, each whole and as a hash with a secret key, so
    /// timing reveals nothing.
    fn token(&self, token: &[u8]) -> Option<Identity<'_>> {
        let shown = tag(&self.key, &[digest::digest(&digest::SHA256, token).as_ref()]);
        let mut found = None;
        for (name, other) in &self.tokens {
            if shown.iter().zip(other).fold(0, |sum, (one, other)| sum | (one ^ other)) == 0 {
                found = Some(Identity::Token(name));
            }
        }
        found
    }

    /// The user whose password a network has shown, by the tag of both.
    fn known(&self, tag: &Tag, (site, now): (u32, Instant), known: &mut Known) -> Option<&str> {
        let place = &mut known.0[usize::from(tag[0]) % 16];
        let own = place.filter(|(of, other, verified)| *of == site && other == tag && now < verified.until);
        let verified = match own {
            Some((_, _, verified)) => verified,
            None => {
                let verified = self.held().met.find(tag, now)?;
                *place = Some((site, *tag, verified));
                verified
            }
        };
        self.users.get(usize::from(verified.user)).map(|(name, _)| &**name)
    }

    fn name(&self, user: u16) -> &str {
        self.users.get(usize::from(user)).map_or("", |(name, _)| &**name)
    }

    /// A user whose password another network has shown, or how to find out. A network that has sent too many wrong ones
    /// is told no more of a right one than of those.
    fn verify(
        self: &Arc<Guard>,
        rules: &Rules<'_>,
        access_request: &AccessRequest<'_>,
        from: Tag,
        encoded: &[u8],
    ) -> Result<ControlFlow<Verdict, u16>, HeadTooLong> {
        let name = authorization::name_and_password(encoded).map(|(name, _)| name.into_bytes());
        let tries = Tries {
            counted: access_request.wrong.clone(),
            of: access_request.network().map(|network| (access_request.site, network)),
            name: name.unwrap_or_default(),
        };
        if let Some(wait_s) = tries.wait_s(access_request.now) {
            let wait = [("Retry-After".to_owned(), wait_s.to_string())];
            let cause = "Too many wrong passwords came from this network.";
            return Ok(ControlFlow::Break(Verdict::Answer(access_request.answer(429, cause, &wait)?)));
        }
        let tag = self.tag_of(encoded);
        if let Some(user) = self.meet(&tag, from, access_request.now) {
            return Ok(ControlFlow::Continue(user));
        }
        let refused = access_request.answer(401, WRONG, &challenges(rules))?;
        let busy = access_request.answer(503, "Too many passwords are being verified.", &[])?;
        Ok(ControlFlow::Break(Verdict::Verify(Box::new(verify::Verify {
            guard: self.clone(),
            tag,
            from,
            encoded: encoded.to_vec(),
            tries,
            refused,
            busy,
            until: access_request.now.after_ms(TURN_MS),
        }))))
    }

    fn unauthorized(&self, rules: &Rules<'_>, access_request: &AccessRequest<'_>) -> Result<Verdict, HeadTooLong> {
        Ok(Verdict::Answer(access_request.answer(401, WRONG, &challenges(rules))?))
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn verified(&self, tag: &Tag, now: Instant) -> Option<Verified> {
        self.held().verified.find(tag, now)
    }

    /// The user whose password a further network shows, if it is remembered. That network is as well, from now on.
    fn meet(&self, tag: &Tag, from: Tag, now: Instant) -> Option<u16> {
        let held = &mut *self.held();
        let verified = held.verified.find(tag, now)?;
        held.met.add(from, verified, now);
        Some(verified.user)
    }

    /// This password has been verified, shown by a network.
    fn remember(&self, (tag, from): (Tag, Tag), user: u16, now: Instant) {
        let verified = Verified { user, until: now.after_ms(REMEMBERED_MS) };
        let held = &mut *self.held();
        held.verified.add(tag, verified, now);
        held.met.add(from, verified, now);
    }

    /// The tag of a name and password.
    fn tag_of(&self, encoded: &[u8]) -> Tag {
        tag(&self.key, &[OF_PASSWORD, encoded])
    }

    /// The tag of the same, shown by a network; none if the network is not known.
    fn tag_from(&self, network: Option<Network>, encoded: &[u8]) -> Tag {
        let (is_known, (is_ipv6, bits)) = (network.is_some(), network.unwrap_or_default());
        tag(&self.key, &[OF_NETWORK, &[u8::from(is_known), u8::from(is_ipv6)], &bits.to_be_bytes(), encoded])
    }
}

/// Begin what is hashed: so none of the one is any of the other, whatever a client sends.
const OF_PASSWORD: &[u8] = &[0];
const OF_NETWORK: &[u8] = &[1];

/// The wrong passwords of one network, for one user and for all.
struct Tries {
    counted: Arc<dyn WrongPasswords>,
    /// The network, and the site that it tried; none if the network is not known.
    of: Option<(u32, Network)>,
    /// The name of the user.
    name: Vec<u8>,
}

impl Tries {
    /// The two counts, with the rate of each. None if the network is not known.
    fn counts(&self) -> impl Iterator<Item = (Attempts<'_>, Rate)> {
        let of = |name, most| {
            let (site, network) = self.of?;
            Some((Attempts { site, network, name }, Rate::new(most, Period::Minute, most).expect("it is a rate")))
        };
        [of(Some(&*self.name), WRONG_OF_USER_MAX), of(None, WRONG_OF_NETWORK_MAX)].into_iter().flatten()
    }

    /// In how many seconds another password is verified, if not now.
    fn wait_s(&self, now: Instant) -> Option<u64> {
        let ticks = self.counts().filter_map(|(of, rate)| self.counted.wait(of, rate, now)).max()?;
        Some(ticks.div_ceil(1000 * TICKS_PER_MS))
    }

    fn count(&self, now: Instant) {
        for (of, rate) in self.counts() {
            self.counted.count(of, rate, now);
        }
    }
}

/// Whether the networks of `rule` keep a client out.
fn keeps_network_out(rule: &AccessRule, client: Option<IpAddr>) -> bool {
    match client {
        Some(client) => {
            rule.deny.iter().any(|network| network.contains(client))
                || !rule.allow.is_empty() && !rule.allow.iter().any(|network| network.contains(client))
        }
        None => !(rule.allow.is_empty() && rule.deny.is_empty()),
    }
}

/// The facts by which a client is judged without asking anybody.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a> {
    /// The client's address; none if it has none.
    pub client: Option<IpAddr>,
    /// The subject of the certificate that the client has shown.
    pub client_subject: Option<&'a str>,
    /// The user or the token that the request shows, if the server has made sure of it.
    pub identity: Option<Identity<'a>>,
}

impl Evidence<'_> {
    /// Whether a request with this evidence is let in by `rule`. Never, where a service decides.
    pub fn fulfils(self, rule: &AccessRule) -> bool {
        let shown = [self.identity, self.client_subject.map(Identity::Certificate)];
        let is_named = || shown.into_iter().flatten().any(|identity| identity.is_named_by(rule));
        rule.service.is_none() && !keeps_network_out(rule, self.client) && (!rule.asks_for_credentials() || is_named())
    }
}

/// The facts of a request that access rules look at.
pub struct AccessRequest<'a> {
    /// The number of the site.
    pub site: u32,
    /// The request.
    pub requested: &'a RequestedResource<'a>,
    /// The client's address; none if it has none.
    pub client: Option<IpAddr>,
    /// The subject of the certificate that the client has shown.
    pub client_subject: Option<&'a str>,
    /// Whether a proxy sent it without naming the client.
    pub is_of_proxy: bool,
    /// Where wrong passwords are counted.
    pub wrong: &'a Arc<dyn WrongPasswords>,
    /// The routes' effective rules for it.
    pub effective: &'a Effective,
    /// The time.
    pub now: Instant,
}

const WRONG: &str = "This needs credentials that the server accepts.";

impl AccessRequest<'_> {
    /// The network that it comes from, if that is known.
    fn network(&self) -> Option<Network> {
        self.client.filter(|_| !self.is_of_proxy).map(network_of)
    }

    fn forbidden(&self, cause: &str) -> Result<Verdict, HeadTooLong> {
        Ok(Verdict::Answer(self.answer(403, cause, &[])?))
    }

    fn answer(&self, status: u16, cause: &str, fields: &[(String, String)]) -> Result<Arc<Resource>, HeadTooLong> {
        let extras = self.effective.extras(status);
        let fields = [&*extras.fields, fields].concat();
        answers::error(status, cause, &Extras { fields: fields.into(), ..extras }).map(Arc::new)
    }
}

/// The credentials in `Authorization`. A request with two such fields has none.
fn shown(request: Option<Request<'_>>) -> Option<Shown<'_>> {
    let mut lines = request?.lines_named(b"authorization");
    match (lines.next(), lines.next()) {
        (Some(value), None) => authorization::parse(value),
        _ => None,
    }
}

/// The challenges of a 401. All of `rules` require credentials.
fn challenges(rules: &Rules<'_>) -> Vec<(String, String)> {
    let name = || "WWW-Authenticate".to_owned();
    let mut challenges = Vec::new();
    if rules.iter().all(|rule| !rule.users.is_empty()) {
        challenges.push((name(), "Basic realm=\"Lamna\", charset=\"UTF-8\"".to_owned()));
    }
    if rules.iter().all(|rule| !rule.tokens.is_empty()) || challenges.is_empty() {
        challenges.push((name(), "Bearer realm=\"Lamna\"".to_owned()));
    }
    challenges
}

fn tag(key: &hmac::Key, parts: &[&[u8]]) -> Tag {
    let mut context = hmac::Context::with_key(key);
    parts.iter().for_each(|part| context.update(part));
    let mut tag = [0; 32];
    tag.copy_from_slice(context.sign().as_ref());
    tag
}

/// The network of a client.
pub fn network_of(client: IpAddr) -> Network {
    match client.to_canonical() {
        IpAddr::V4(address) => (false, u64::from(address.to_bits())),
        IpAddr::V6(address) => (true, (address.to_bits() >> 64) as u64), // The upper half.
    }
}
