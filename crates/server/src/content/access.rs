//! Who is let in: by what a request shows, what it does and where it comes from.
//!
//! ```text
//!   rules of the action ─ none ──────────────────────────────> served
//!          └─ network ─ no ──────────────────────────────────> 403
//!              └─ nothing shown, or a wrong token ───────────> 401
//!                  └─ a token, or a password that is remembered ─ named by the rules ─> served, or 403
//!                  └─ another password ─ too many wrong ones of the network ──────────> 429
//!                       └─ Verify ─ right: asked again ─ wrong: 401
//! ```
//!
//! Owns: [`Guard`] of a site and its memory. Guarantees: what is remembered of a password is a keyed hash of it, for a bounded number and
//! a bounded time; whoever has been verified is let in without an allocation, and without a lock when this worker knows it. Waits for
//! nothing: that is the business of [`verify`].

pub mod authorization;
mod verify;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lamna_policy::limit::{Decision, Period, Rate, TICKS_PER_MS};
use lamna_proto::exchange::Translate;
use lamna_proto::exchange::program::Program;
use lamna_proto::resource::{HeadTooLong, Resource};
use lamna_proto::time::Instant;
use ring::{digest, hmac, rand};

use self::authorization::Shown;
use super::answers::{self, Extras};
use super::route::Effective;
use crate::config::access::{AccessRule, Accounts};

/// What is remembered of something shown: a keyed hash.
type Tag = [u8; 32];

/// A network of clients: a /32 of IPv4 or a /64 of IPv6.
type Network = (bool, u64);

/// Who has been verified, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Verified {
    user: u16,
    until: Instant,
}

/// How long a password is not verified again.
const REMEMBERED_MS: u32 = 10 * 60 * 1000;
/// Passwords that are remembered.
const REMEMBERED_MAX: usize = 1024;
/// Networks whose wrong passwords are counted.
const NETWORKS_MAX: usize = 4096;
/// Wrong passwords of one network: so many at once, and so many in a minute.
const WRONG_MAX: u32 = 10;
/// How long a password waits until it is verified.
const TURN_MS: u32 = 10_000;

/// Who can say who he is to a site, and who has.
pub struct Guard {
    users: Vec<(String, String)>,
    /// Keyed hashes of what the configuration has.
    tokens: Vec<(String, Tag)>,
    key: hmac::Key,
    wrong: Rate,
    /// Passwords that are verified at once.
    turns: usize,
    held: Mutex<Held>,
}

/// What changes.
#[derive(Default)]
struct Held {
    verified: HashMap<Tag, Verified>,
    under_way: Vec<Tag>,
    /// By network: until when its wrong passwords would have lasted at the steady rate.
    wrong: HashMap<Network, u64>,
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Guard").finish_non_exhaustive()
    }
}

/// What is decided about a request.
pub enum Verdict {
    /// It goes on.
    Passes,
    /// This is its answer.
    Answer(Arc<Resource>),
    /// This finds out.
    Verify(Box<dyn Program>),
}

/// Who somebody is.
#[derive(Clone, Copy)]
enum Who<'g> {
    User(&'g str),
    Token(&'g str),
}

/// Passwords that a worker knows, without asking anybody: few, found by their first byte.
#[derive(Debug, Default)]
pub struct Known([Option<(u32, Tag, Verified)>; 16]);

impl Guard {
    /// That of a site with these accounts.
    pub fn new(accounts: &Accounts) -> Guard {
        let random = rand::SystemRandom::new();
        // The kernel gives random numbers to whoever has started.
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &random).expect("the system has random numbers");
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Guard {
            users: accounts.users.iter().map(|(name, hash)| (name.clone(), hash.clone())).collect(),
            tokens: accounts.tokens.iter().map(|(name, hash)| (name.clone(), tag(&key, hash))).collect(),
            key,
            wrong: Rate::new(WRONG_MAX, Period::Minute, WRONG_MAX).expect("it is a rate"),
            turns: (processors / 2).max(1),
            held: Mutex::default(),
        }
    }

    /// What is decided about a request that does what `rules` are about, on `site`.
    pub fn judge(
        self: &Arc<Guard>,
        rules: &[&AccessRule],
        asking: &Asking<'_>,
        known: &mut Known,
    ) -> Result<Verdict, HeadTooLong> {
        let is_kept_out = |rule: &&AccessRule| match asking.client {
            Some(client) => {
                rule.deny.iter().any(|network| network.contains(client))
                    || !rule.allow.is_empty() && !rule.allow.iter().any(|network| network.contains(client))
            }
            None => !(rule.allow.is_empty() && rule.deny.is_empty()),
        };
        if rules.iter().any(is_kept_out) {
            return asking.forbidden("This is not for the network that the request comes from.");
        }
        if !rules.iter().any(|rule| rule.asks_for_credentials()) {
            return Ok(Verdict::Passes);
        }
        let mut lines = asking.translate.request.into_iter().flat_map(|request| request.lines_named(b"authorization"));
        let shown = match (lines.next(), lines.next()) {
            (Some(value), None) => authorization::parse(value),
            _ => None,
        };
        let who = match shown {
            None => return self.unauthorized(rules, asking),
            Some(Shown::Bearer(token)) => match self.token(token) {
                Some(who) => who,
                None => return self.unauthorized(rules, asking),
            },
            // Passwords that nothing here takes are not verified.
            Some(Shown::Basic(_)) if rules.iter().any(|rule| rule.asks_for_credentials() && rule.users.is_empty()) => {
                return self.unauthorized(rules, asking);
            }
            Some(Shown::Basic(encoded)) => {
                let tag = tag(&self.key, encoded);
                match self.known(&tag, asking, known) {
                    Some(user) => Who::User(user),
                    None => return self.verify(rules, asking, tag, encoded),
                }
            }
        };
        let lets_in = |rule: &&AccessRule| {
            let (names, name) = match who {
                Who::User(name) => (&rule.users, name),
                Who::Token(name) => (&rule.tokens, name),
            };
            !rule.asks_for_credentials() || names.iter().any(|one| one == "*" || one == name)
        };
        match rules.iter().all(lets_in) {
            true => Ok(Verdict::Passes),
            false => asking.forbidden("This is not for whoever the request says it is from."),
        }
    }

    /// Whose token it is. All are looked at, whole, and what is compared is hashed with a key that nobody knows: time says nothing.
    fn token(&self, token: &[u8]) -> Option<Who<'_>> {
        let shown = tag(&self.key, digest::digest(&digest::SHA256, token).as_ref());
        let mut found = None;
        for (name, other) in &self.tokens {
            if shown.iter().zip(other).fold(0, |sum, (one, other)| sum | (one ^ other)) == 0 {
                found = Some(Who::Token(name));
            }
        }
        found
    }

    fn known(&self, tag: &Tag, asking: &Asking<'_>, known: &mut Known) -> Option<&str> {
        let place = &mut known.0[usize::from(tag[0]) % 16];
        let own =
            place.filter(|(site, other, verified)| *site == asking.site && other == tag && asking.now < verified.until);
        let verified = match own {
            Some((_, _, verified)) => verified,
            None => {
                let verified = self.verified(tag, asking.now)?;
                *place = Some((asking.site, *tag, verified));
                verified
            }
        };
        self.users.get(usize::from(verified.user)).map(|(name, _)| &**name)
    }

    fn verify(
        self: &Arc<Guard>,
        rules: &[&AccessRule],
        asking: &Asking<'_>,
        tag: Tag,
        encoded: &[u8],
    ) -> Result<Verdict, HeadTooLong> {
        let network = asking.client.filter(|_| !asking.is_of_proxy).map(network_of);
        if let Some(wait_s) = self.wait_s(network, asking.now) {
            let wait = [("Retry-After".to_owned(), wait_s.to_string())];
            let cause = "Too many wrong passwords came from this network.";
            return Ok(Verdict::Answer(asking.answer(429, cause, &wait)?));
        }
        let refused = asking.answer(401, WRONG, &challenges(rules))?;
        let busy = asking.answer(503, "Too many passwords are being verified.", &[])?;
        Ok(Verdict::Verify(Box::new(verify::Verify {
            guard: self.clone(),
            tag,
            encoded: encoded.to_vec(),
            network,
            refused,
            busy,
            until: asking.now.after_ms(TURN_MS),
        })))
    }

    fn unauthorized(&self, rules: &[&AccessRule], asking: &Asking<'_>) -> Result<Verdict, HeadTooLong> {
        Ok(Verdict::Answer(asking.answer(401, WRONG, &challenges(rules))?))
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn verified(&self, tag: &Tag, now: Instant) -> Option<Verified> {
        self.held().verified.get(tag).copied().filter(|verified| now < verified.until)
    }

    fn remember(&self, tag: Tag, user: u16, now: Instant) {
        let verified = &mut self.held().verified;
        if verified.len() >= REMEMBERED_MAX {
            verified.retain(|_, one| now < one.until);
        }
        if verified.len() >= REMEMBERED_MAX {
            let oldest = verified.iter().min_by_key(|(_, one)| one.until).map(|(tag, _)| *tag);
            oldest.map(|tag| verified.remove(&tag));
        }
        verified.insert(tag, Verified { user, until: now.after_ms(REMEMBERED_MS) });
    }

    /// In how many seconds another password of this network is verified, if not now.
    fn wait_s(&self, network: Option<Network>, now: Instant) -> Option<u64> {
        let arrival = self.held().wrong.get(&network?).copied()?;
        match self.wrong.decide(arrival, now.ms() * TICKS_PER_MS) {
            Decision::Admitted(_) => None,
            Decision::Refused(ticks) => Some(ticks.div_ceil(1000 * TICKS_PER_MS)),
        }
    }

    fn count_wrong(&self, network: Option<Network>, now: Instant) {
        let Some(network) = network else { return };
        let (wrong, now) = (&mut self.held().wrong, now.ms() * TICKS_PER_MS);
        if wrong.len() >= NETWORKS_MAX {
            wrong.retain(|_, arrival| *arrival > now);
        }
        if wrong.len() >= NETWORKS_MAX {
            wrong.clear();
        }
        let arrival = wrong.entry(network).or_default();
        if let Decision::Admitted(next) = self.wrong.decide(*arrival, now) {
            *arrival = next;
        }
    }
}

/// Who asks, and for what.
pub struct Asking<'a> {
    /// The number of the site.
    pub site: u32,
    /// The request.
    pub translate: &'a Translate<'a>,
    /// Whom it is from.
    pub client: Option<IpAddr>,
    /// A proxy does not say whom it is from.
    pub is_of_proxy: bool,
    /// What applies to it besides.
    pub effective: &'a Effective,
    /// The time.
    pub now: Instant,
}

const WRONG: &str = "This is for those who say who they are.";

impl Asking<'_> {
    fn forbidden(&self, cause: &str) -> Result<Verdict, HeadTooLong> {
        Ok(Verdict::Answer(self.answer(403, cause, &[])?))
    }

    fn answer(&self, status: u16, cause: &str, fields: &[(String, String)]) -> Result<Arc<Resource>, HeadTooLong> {
        let extras = self.effective.extras(status);
        let fields = [&*extras.fields, fields].concat();
        answers::error(status, cause, &Extras { fields: fields.into(), vary: extras.vary }).map(Arc::new)
    }
}

/// How who asks can say who he is.
fn challenges(rules: &[&AccessRule]) -> Vec<(String, String)> {
    let asking = || rules.iter().filter(|rule| rule.asks_for_credentials());
    let name = || "WWW-Authenticate".to_owned();
    let mut challenges = Vec::new();
    if asking().all(|rule| !rule.users.is_empty()) {
        challenges.push((name(), "Basic realm=\"Lamna\", charset=\"UTF-8\"".to_owned()));
    }
    if asking().all(|rule| !rule.tokens.is_empty()) || challenges.is_empty() {
        challenges.push((name(), "Bearer realm=\"Lamna\"".to_owned()));
    }
    challenges
}

fn tag(key: &hmac::Key, bytes: &[u8]) -> Tag {
    let mut tag = [0; 32];
    tag.copy_from_slice(hmac::sign(key, bytes).as_ref());
    tag
}

fn network_of(client: IpAddr) -> Network {
    match client.to_canonical() {
        IpAddr::V4(address) => (false, u64::from(address.to_bits())),
        IpAddr::V6(address) => (true, (address.to_bits() >> 64) as u64), // The upper half.
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard() -> Guard {
        Guard::new(&Accounts::default())
    }

    #[test]
    fn wrong_passwords_of_one_network_are_held_back_and_those_of_another_are_not() {
        let guard = guard();
        let (one, other) = (Some(network_of("192.0.2.1".parse().unwrap())), Some((false, 7)));
        for _ in 0..WRONG_MAX {
            assert_eq!(guard.wait_s(one, Instant::from_ms(1000)), None);
            guard.count_wrong(one, Instant::from_ms(1000));
        }
        assert!(guard.wait_s(one, Instant::from_ms(1000)).is_some_and(|wait_s| wait_s <= 6));
        assert_eq!(guard.wait_s(other, Instant::from_ms(1000)), None);
        assert_eq!(guard.wait_s(one, Instant::from_ms(7000)), None);
    }

    #[test]
    fn what_is_remembered_is_bounded_in_number_and_time() {
        let guard = guard();
        let tag = |number: usize| {
            let mut tag = [0; 32];
            tag[..8].copy_from_slice(&number.to_ne_bytes());
            tag
        };
        for number in 0..REMEMBERED_MAX + 10 {
            guard.remember(tag(number), 0, Instant::from_ms(number as u64));
        }
        assert_eq!(guard.held().verified.len(), REMEMBERED_MAX);
        assert!(guard.verified(&tag(REMEMBERED_MAX + 9), Instant::from_ms(2000)).is_some());
        assert!(guard.verified(&tag(0), Instant::from_ms(2000)).is_none());
        assert!(guard.verified(&tag(REMEMBERED_MAX), Instant::from_ms(2000 + u64::from(REMEMBERED_MS))).is_none());
        for number in 0..NETWORKS_MAX as u64 + 10 {
            guard.count_wrong(Some((true, number)), Instant::from_ms(1));
        }
        assert!(guard.held().wrong.len() <= NETWORKS_MAX);
    }
}
