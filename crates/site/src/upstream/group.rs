//! The places where one application is, as a gateway asks them.
//!
//! Owns: [`Group`]: which place is asked next, what its name means at the moment, and the connections that are kept to
//! it; shared by all workers of a process. Guarantees: a caller waits for nothing but a lock that is held for a choice;
//! what a name means is looked up on threads of their own, which begin with [`Group::prepare`] or the first request, so
//! that a process may still be forked before.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use lamna_config::gateway::{GatewaySettings, UpstreamSettings};
use lamna_config::route::describe_gateway;
use lamna_config::upstream_address::{self, UpstreamAddress};
use lamna_policy::upstream::affinity::number;
use lamna_policy::upstream::health::{Availability, HealthSettings};
use lamna_policy::upstream::retry::Budget;
use lamna_policy::upstream::{Attempt, Balance, Outcome, Upstreams};
use lamna_proto::base64::encode_url_safe;
use lamna_proto::gateway::GatewayError;
use lamna_proto::time::Instant;
use lamna_sys::clock::{Clock, unix_ms};
use lamna_sys::metrics::applications::Place as CountedPlace;
use lamna_sys::metrics::counters::Counters;
use lamna_sys::shared_memory::SharedMemory;
use lamna_tls::client::{ClientSession, Trust};
use lamna_tls::{Tickets, TlsError, trust_of};

use crate::upstream::check::Checks;
use crate::upstream::dial::Destination;
use crate::upstream::expectations::Expectations;
use crate::upstream::link::Link;
use crate::upstream::pool::Pool;
use crate::upstream::resolve::{NameView, ResolveSettings, Resolver, by_system};

/// The places of one application.
#[derive(Debug)]
pub struct Group {
    /// The configuration.
    pub settings: GatewaySettings,
    /// Its name where services are suspended; nothing if it cannot be suspended.
    pub name: String,
    members: Vec<Member>,
    choice: Mutex<Upstreams>,
    /// How many requests may still be tried again after an answer.
    retries: Mutex<Budget>,
    /// Looks up the names among the places.
    resolver: OnceLock<Option<Resolver>>,
    /// Certificates that it trusts for places that are asked by `https`; none if there are no such places, or the
    /// error.
    trust: OnceLock<Result<Option<Trust>, String>>,
    /// Where requests are counted: the row of each place, if there was room.
    counted: OnceLock<(SharedMemory<Counters>, Vec<Option<usize>>)>,
    /// Asks whether places are well.
    checks: OnceLock<Checks>,
    /// Whether it answers clients that wait to be told to send their content.
    pub expectations: Expectations,
    /// The keys by which cookies of the server name places.
    keys: OnceLock<Arc<Tickets>>,
}

/// One place.
#[derive(Debug)]
struct Member {
    place: Place,
    pool: Pool,
    /// Why the last request has failed, in words, and when, in seconds since 1970.
    last_failure: Mutex<Option<(String, u64)>>,
}

#[derive(Debug)]
enum Place {
    Fixed(Destination),
    /// A name: the number of it among the names, and what is known of it.
    Named(usize, Mutex<Option<NameView>>),
}

/// Where a place is at the moment.
#[derive(Debug)]
pub enum Located {
    /// There.
    At(Destination),
    /// It is being looked up for the first time.
    Unknown,
    /// It cannot be looked up: why.
    Failed(String),
}

/// By which requests get to the same place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Affinity {
    /// Any place will do.
    #[default]
    None,
    /// Requests with the same number get to the same place.
    Number(u64),
    /// This place, as long as it is in use.
    Place(usize),
}

/// Requests that may be tried again after an answer, though few have come before.
const RETRIES_AT_ONCE: u32 = 10;

/// How a place is doing, for reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberStatus {
    /// Where it is, as it is configured.
    pub address: String,
    /// Whether it is asked, and how much.
    pub availability: Option<Availability>,
    /// Requests under way.
    pub load: u32,
    /// The time in which an answer is expected to begin, in milliseconds; none where that is not looked at.
    pub time_ms: Option<u32>,
    /// Connections that are kept.
    pub kept: usize,
    /// Why the last request has failed, in words, and when, in seconds since 1970.
    pub last_failure: Option<(String, u64)>,
}

impl Group {
    /// The same under this name.
    pub fn named(self, name: String) -> Group {
        Group { name, ..self }
    }

    /// The application in words, without the files that it runs.
    pub fn in_words(&self) -> String {
        match self.settings.cgi {
            Some(_) => "a CGI program".to_owned(),
            None => describe_gateway(&GatewaySettings { scripts: None, ..self.settings.clone() }),
        }
    }

    /// Nothing is connected to before the first request, nor looked up or read unless [`Group::prepare`] is called.
    /// `seed` decides ties.
    pub fn new(settings: GatewaySettings, seed: u64) -> Group {
        let weights: Vec<u32> = settings.upstreams.iter().map(|upstream| upstream.weight).collect();
        let mut names = 0;
        let member = |address: &UpstreamAddress| {
            let place = match &address.place {
                upstream_address::Place::Fixed { addresses, .. } => {
                    Place::Fixed(Destination::Tcp(addresses.as_slice().into()))
                }
                upstream_address::Place::Unix(path) => Place::Fixed(Destination::Unix(path.as_path().into())),
                upstream_address::Place::Named { .. } => {
                    names += 1;
                    Place::Named(names - 1, Mutex::default())
                }
            };
            Member { place, pool: Pool::default(), last_failure: Mutex::default() }
        };
        let members = settings.upstreams.iter().map(|upstream| &upstream.address).map(member).collect();
        let mut health = HealthSettings::default();
        if let Some(check) = &settings.check {
            (health.passes_min, health.misses_max) = (check.passes, check.misses);
        }
        let addresses = settings.upstreams.iter().map(|upstream| upstream.address.to_string());
        let mut numbers: Vec<u64> = Vec::new();
        for address in addresses {
            // The same place twice is two places.
            let mut own = number(address.as_bytes());
            while numbers.contains(&own) {
                own = number(&own.to_be_bytes());
            }
            numbers.push(own);
        }
        let choice =
            Mutex::new(Upstreams::new(&weights, health, seed).with_numbers(numbers).with_balance(settings.balance));
        let percent = settings.retry.as_ref().map_or(0, |retry| retry.percent_max);
        Group {
            settings,
            name: String::new(),
            members,
            choice,
            retries: Mutex::new(Budget::new(percent, RETRIES_AT_ONCE)),
            resolver: OnceLock::new(),
            trust: OnceLock::new(),
            counted: OnceLock::new(),
            checks: OnceLock::new(),
            expectations: Expectations::default(),
            keys: OnceLock::new(),
        }
    }

    /// The place that is asked next, by a request that has tried `tried`. None if there is none left. What is given has
    /// to be given back with [`Group::end`]. Requests of the same `affinity` get to the same place.
    pub fn begin(&self, now: Instant, tried: &[usize], may_retry: bool, affinity: Affinity) -> Option<Attempt> {
        let mut choice = lock(&self.choice);
        (0..self.members.len()).for_each(|index| choice.set_drained(index, self.is_drained(index)));
        let attempt = match affinity {
            Affinity::None => choice.choose(now.ms(), tried, may_retry, None)?,
            Affinity::Number(number) => choice.choose(now.ms(), tried, may_retry, Some(number))?,
            Affinity::Place(index) => match choice.choose_this(index, now.ms(), tried) {
                Some(attempt) => attempt,
                None => choice.choose(now.ms(), tried, may_retry, None)?,
            },
        };
        drop(choice);
        if let Some(row) = self.row(attempt.index()) {
            row.count_asked();
        }
        Some(attempt)
    }

    /// The answer to a request has begun.
    pub fn handle_answer(&self, attempt: &Attempt, now: Instant) {
        if self.settings.balance == Balance::LeastTime {
            lock(&self.choice).handle_answer(attempt, now.ms());
        }
    }

    /// Whether a place is left for a request that has tried `tried`.
    pub fn has_left(&self, now: Instant, tried: &[usize]) -> bool {
        lock(&self.choice).has_left(now.ms(), tried)
    }

    /// There is another request: a part of one may be tried again after an answer.
    pub fn allow_retry(&self) {
        if self.settings.retry.is_some() {
            lock(&self.retries).handle_request();
        }
    }

    /// Takes one of the requests that may be tried again after an answer, if there is one left, and counts it.
    pub fn takes_retry(&self) -> bool {
        let takes = lock(&self.retries).take();
        if let Some((counters, _)) = self.counted.get().filter(|_| takes) {
            counters.work.upstream_retries.fetch_add(1, Relaxed);
        }
        takes
    }

    /// Whether an operator has place `index` get no request.
    fn is_drained(&self, index: usize) -> bool {
        self.row(index).is_some_and(CountedPlace::is_drained)
    }

    /// A request to place `index` has failed: how, and what else is known of it.
    pub fn note_failure(&self, index: usize, error: GatewayError, why: Option<&str>) {
        if let Some(row) = self.row(index) {
            row.count_failed(error);
        }
        if let Some(member) = self.members.get(index) {
            let words = why.map_or_else(|| error.to_string(), |why| format!("{error} ({why})"));
            *lock(&member.last_failure) = Some((words, unix_ms() / 1000));
        }
    }

    /// Place `index` has been found to be well or not. Whether it is held to be down.
    pub(super) fn handle_check(&self, index: usize, now: Instant, is_well: bool) -> bool {
        let mut choice = lock(&self.choice);
        choice.handle_check(index, now.ms(), is_well);
        choice.availability(index, now.ms()) == Some(Availability::Down)
    }

    /// A check of place `index` has failed: why.
    pub(super) fn note_check(&self, index: usize, why: &str) {
        if let Some(member) = self.members.get(index) {
            *lock(&member.last_failure) = Some((why.to_owned(), unix_ms() / 1000));
        }
    }

    /// The value of `Host` for place `index` if nothing else is wanted.
    pub(super) fn authority_of(&self, index: usize) -> String {
        self.settings.upstreams.get(index).map(|upstream| upstream.address.authority()).unwrap_or_default()
    }

    /// Where requests to place `index` are counted.
    pub(super) fn row(&self, index: usize) -> Option<&CountedPlace> {
        let (counters, rows) = self.counted.get()?;
        counters.places.at(rows.get(index).copied().flatten()?)
    }

    /// A request to a place is over.
    pub fn end(&self, attempt: Attempt, now: Instant, outcome: Outcome) {
        lock(&self.choice).handle_ended(attempt, now.ms(), outcome);
    }

    /// A connection that is kept to place `index`, if there is one. `looks`: see [`Link::is_quiet`].
    pub fn take(&self, index: usize, now: Instant, looks: bool) -> Option<Link> {
        self.members.get(index)?.pool.take(now, looks)
    }

    /// Keeps a connection to place `index` that can carry another request; closes it if the place gets none.
    pub fn put(&self, index: usize, link: Link, now: Instant) {
        if let Some(member) = self.members.get(index).filter(|_| !self.is_drained(index)) {
            member.pool.put(link, now);
        }
    }

    /// Closes connections that have been idle for too long, and all idle ones to places that get no request.
    pub fn close_old(&self, now: Instant) {
        for (index, member) in self.members.iter().enumerate() {
            match self.is_drained(index) {
                true => member.pool.clear(),
                false => member.pool.close_old(now),
            }
        }
    }

    /// Where place `index` is at the moment. Connections that are kept to where it was before are closed.
    pub fn locate(&self, index: usize) -> Located {
        let Some(member) = self.members.get(index) else { return Located::Failed("there is no such place".into()) };
        let (number, view) = match &member.place {
            Place::Fixed(destination) => return Located::At(destination.clone()),
            Place::Named(number, view) => (*number, view),
        };
        let mut view = lock(view);
        if view.is_none() {
            *view = self.resolver().and_then(|resolver| resolver.view(number));
        }
        let Some(view) = &mut *view else { return Located::Failed("names cannot be looked up".into()) };
        let (addresses, is_changed) = view.addresses();
        if is_changed {
            member.pool.clear();
        }
        if !addresses.is_empty() {
            return Located::At(Destination::Tcp(addresses.clone()));
        }
        view.error().map_or(Located::Unknown, Located::Failed)
    }

    /// Reads the certificates that places are known by, and begins to look up the names among them and to check them,
    /// by threads that this one starts: with the first request both would be confined as who serves that. Requests are
    /// counted as those of this site from now on.
    ///
    /// # Errors
    /// Nothing tells who a place is that is asked by `https`.
    pub fn prepare(
        self: &Arc<Self>,
        site: &str,
        counters: &SharedMemory<Counters>,
        (clock, keys): (Clock, &Arc<Tickets>),
    ) -> Result<(), TlsError> {
        let _ = self.keys.set(keys.clone());
        let row = |upstream: &UpstreamSettings| counters.places.take_row(site, &upstream.address.to_string());
        let _ = self.counted.set((counters.clone(), self.settings.upstreams.iter().map(row).collect()));
        // Who has been asked before has read them.
        let _ = self.trust.set(Ok(trust_of(&self.settings)?));
        let _ = self.resolver();
        let _ = self.checks.get_or_init(|| Checks::start(self, site, clock));
        Ok(())
    }

    /// The value of a cookie that names place `index`, and the one that it had before the keys changed. None before
    /// [`Group::prepare`].
    pub fn cookie_values(&self, index: usize) -> Option<[String; 2]> {
        let address = self.settings.upstreams.get(index)?.address.to_string();
        Some(self.keys.get()?.digests(address.as_bytes()).map(|digest| encode_url_safe(&digest)))
    }

    /// Whether places are known by what the file of `ca` holds now.
    pub fn has_current_trust(&self) -> bool {
        let trust = self.trust.get().and_then(|trust| trust.as_ref().ok()?.as_ref());
        trust.is_none_or(Trust::is_current)
    }

    /// A TLS session for place `index`; none if TLS is not spoken with it.
    ///
    /// # Errors
    /// The place's identity cannot be checked: why.
    pub fn session(&self, index: usize) -> Result<Option<ClientSession>, String> {
        let upstream = self.settings.upstreams.get(index).filter(|upstream| upstream.address.is_secure);
        let Some(upstream) = upstream else { return Ok(None) };
        let trust = self.trust.get_or_init(|| trust_of(&self.settings).map_err(|error| error.to_string()));
        let Some(trust) = trust.as_ref().map_err(String::clone)? else { return Ok(None) };
        let name = self.settings.tls.server_name.clone().unwrap_or_else(|| upstream.address.host());
        trust.begin(&name).map(Some)
    }

    fn resolver(&self) -> Option<&Resolver> {
        let start = || {
            let named = |address: &UpstreamAddress| match &address.place {
                upstream_address::Place::Named { host, port } => Some((host.clone(), *port)),
                upstream_address::Place::Fixed { .. } | upstream_address::Place::Unix(_) => None,
            };
            let names: Vec<_> =
                self.settings.upstreams.iter().filter_map(|upstream| named(&upstream.address)).collect();
            (!names.is_empty()).then(|| Resolver::start(&names, ResolveSettings::default(), Arc::new(by_system)))
        };
        self.resolver.get_or_init(start).as_ref()
    }

    /// The name of place `index` in messages.
    pub fn name(&self, index: usize) -> String {
        self.settings.upstreams.get(index).map(|upstream| upstream.address.to_string()).unwrap_or_default()
    }

    /// The value of `Host` for the first place if the client named no host.
    pub fn authority(&self) -> String {
        self.settings.upstreams.first().map(|upstream| upstream.address.authority()).unwrap_or_default()
    }

    /// Asserts that `under_way` requests are under way, and that the connections that are kept are those that are
    /// counted. For tests, while no thread asks.
    ///
    /// # Panics
    /// If that is not so.
    pub fn check_invariants(&self, under_way: u32) {
        let choice = lock(&self.choice);
        let load: u32 = (0..self.members.len()).map(|index| choice.load(index)).sum();
        assert_eq!(load, under_way, "other requests are counted than are under way");
        self.members.iter().for_each(|member| member.pool.check_invariants());
    }

    /// How all places are doing.
    pub fn status(&self, now: Instant) -> Vec<MemberStatus> {
        let choice = lock(&self.choice);
        let status = |(index, member): (usize, &Member)| MemberStatus {
            address: self.name(index),
            availability: choice.availability(index, now.ms()),
            load: choice.load(index),
            time_ms: choice.time_ms(index, now.ms()),
            kept: member.pool.len(),
            last_failure: lock(&member.last_failure).clone(),
        };
        self.members.iter().enumerate().map(status).collect()
    }
}

/// Locks; the value behind a poisoned lock is whole, as it is after every statement.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lamna_config::gateway::GatewayProtocol;

    fn group(places: &[&str]) -> Group {
        let upstreams = places.iter().map(|place| UpstreamSettings::new(place.parse().unwrap())).collect();
        Group::new(GatewaySettings::new(GatewayProtocol::Http, upstreams), 1)
    }

    #[test]
    fn a_place_that_was_tried_is_not_asked_again() {
        let group = group(&["127.0.0.1:1", "127.0.0.1:2"]);
        let first = group.begin(Instant::from_ms(0), &[], true, Affinity::None).unwrap();
        let second = group.begin(Instant::from_ms(0), &[first.index()], true, Affinity::None).unwrap();
        assert_ne!(first.index(), second.index());
        assert_eq!(group.begin(Instant::from_ms(0), &[0, 1], true, Affinity::None), None);
        assert_eq!(group.status(Instant::from_ms(0)).iter().map(|one| one.load).sum::<u32>(), 2);
        for attempt in [first, second] {
            group.end(attempt, Instant::from_ms(1), Outcome::Answered);
        }
        assert_eq!(group.status(Instant::from_ms(1))[0].load, 0);
    }

    #[test]
    fn a_place_is_where_it_is_configured_or_where_its_name_leads() {
        let group = group(&["127.0.0.1:1", "unix:/run/x.sock", "no.such.name.invalid:80"]);
        assert!(matches!(group.locate(0), Located::At(Destination::Tcp(addresses)) if addresses[0].port() == 1));
        assert!(matches!(group.locate(1), Located::At(Destination::Unix(path)) if path.ends_with("x.sock")));
        assert!(matches!(group.locate(2), Located::Unknown | Located::Failed(_)), "nobody waits for a name");
        assert!(matches!(group.locate(3), Located::Failed(_)));
    }
}
