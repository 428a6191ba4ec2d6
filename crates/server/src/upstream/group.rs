//! The places where one application is, as a gateway asks them.
//!
//! Owns: [`Group`]: which place is asked next, what its name means at the moment, and the connections that are kept to it; shared by all
//! workers of a process. Guarantees: whoever asks waits for nothing but a lock that is held for a choice; what a name means is looked up on
//! threads of their own, which begin with the first request, so that a process may still be forked before.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use lamna_policy::upstream::health::{Availability, HealthSettings};
use lamna_policy::upstream::{Attempt, Outcome, Upstreams};
use lamna_proto::time::Instant;

use crate::config::gateway::GatewaySettings;
use crate::config::upstream_address::UpstreamAddress;
use crate::upstream::dial::Destination;
use crate::upstream::pool::Pool;
use crate::upstream::resolve::{NameView, ResolveSettings, Resolver, by_system};

/// The places of one application.
#[derive(Debug)]
pub struct Group {
    /// What is configured.
    pub settings: GatewaySettings,
    members: Vec<Member>,
    choice: Mutex<Upstreams>,
    /// Looks up the names among the places.
    resolver: OnceLock<Option<Resolver>>,
}

/// One place.
#[derive(Debug)]
struct Member {
    place: Place,
    pool: Pool,
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

/// How a place is doing, for reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberStatus {
    /// Where it is, as it is configured.
    pub address: String,
    /// Whether it is asked, and how much.
    pub availability: Option<Availability>,
    /// Requests under way.
    pub load: u32,
    /// Connections that are kept.
    pub kept: usize,
}

impl Group {
    /// Nothing is connected to before the first request, nor looked up unless [`Group::look_up_names`] is called. `seed` decides ties.
    pub fn new(settings: GatewaySettings, seed: u64) -> Group {
        let weights: Vec<u32> = settings.upstreams.iter().map(|upstream| upstream.weight).collect();
        let mut names = 0;
        let member = |address: &UpstreamAddress| {
            let place = match address {
                UpstreamAddress::Fixed { addresses, .. } => Place::Fixed(Destination::Tcp(addresses.as_slice().into())),
                UpstreamAddress::Unix(path) => Place::Fixed(Destination::Unix(path.as_path().into())),
                UpstreamAddress::Named { .. } => {
                    names += 1;
                    Place::Named(names - 1, Mutex::default())
                }
            };
            Member { place, pool: Pool::default() }
        };
        let members = settings.upstreams.iter().map(|upstream| &upstream.address).map(member).collect();
        let choice = Mutex::new(Upstreams::new(&weights, HealthSettings::default(), seed));
        Group { settings, members, choice, resolver: OnceLock::new() }
    }

    /// The place that is asked next, by a request that has tried `tried`. None if there is none left. What is given has to be given back with
    /// [`Group::end`].
    pub fn begin(&self, now: Instant, tried: &[usize], may_retry: bool) -> Option<Attempt> {
        lock(&self.choice).choose(now.ms(), tried, may_retry)
    }

    /// A request to a place is over.
    pub fn end(&self, attempt: Attempt, now: Instant, outcome: Outcome) {
        lock(&self.choice).handle_ended(attempt, now.ms(), outcome);
    }

    /// A connection that is kept to place `index`, if there is one.
    pub fn take(&self, index: usize, now: Instant) -> Option<OwnedFd> {
        self.members.get(index)?.pool.take(now)
    }

    /// Keeps a connection to place `index` that can carry another request.
    pub fn put(&self, index: usize, socket: OwnedFd, now: Instant) {
        if let Some(member) = self.members.get(index) {
            member.pool.put(socket, now);
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

    /// Begins to look up the names among the places, by threads that this one starts: those that begin with the first request would be
    /// confined as who serves that.
    pub fn look_up_names(&self) {
        let _ = self.resolver();
    }

    fn resolver(&self) -> Option<&Resolver> {
        let start = || {
            let named = |address: &UpstreamAddress| match address {
                UpstreamAddress::Named { host, port } => Some((host.clone(), *port)),
                UpstreamAddress::Fixed { .. } | UpstreamAddress::Unix(_) => None,
            };
            let names: Vec<_> =
                self.settings.upstreams.iter().filter_map(|upstream| named(&upstream.address)).collect();
            (!names.is_empty()).then(|| Resolver::start(&names, ResolveSettings::default(), Arc::new(by_system)))
        };
        self.resolver.get_or_init(start).as_ref()
    }

    /// What place `index` is called in messages.
    pub fn name(&self, index: usize) -> String {
        self.settings.upstreams.get(index).map(|upstream| upstream.address.to_string()).unwrap_or_default()
    }

    /// What `Host` says for the first place if the client named no host.
    pub fn authority(&self) -> String {
        self.settings.upstreams.first().map(|upstream| upstream.address.authority()).unwrap_or_default()
    }

    /// How all places are doing.
    pub fn status(&self, now: Instant) -> Vec<MemberStatus> {
        let choice = lock(&self.choice);
        let status = |(index, member): (usize, &Member)| MemberStatus {
            address: self.name(index),
            availability: choice.availability(index, now.ms()),
            load: choice.load(index),
            kept: member.pool.len(),
        };
        self.members.iter().enumerate().map(status).collect()
    }
}

/// What is behind these locks is whole after every statement.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::gateway::{GatewayProtocol, UpstreamSettings};

    fn group(places: &[&str]) -> Group {
        let upstreams = places.iter().map(|place| UpstreamSettings::new(place.parse().unwrap())).collect();
        Group::new(GatewaySettings::new(GatewayProtocol::Http, upstreams), 1)
    }

    #[test]
    fn a_place_that_was_tried_is_not_asked_again() {
        let group = group(&["127.0.0.1:1", "127.0.0.1:2"]);
        let first = group.begin(Instant::from_ms(0), &[], true).unwrap();
        let second = group.begin(Instant::from_ms(0), &[first.index()], true).unwrap();
        assert_ne!(first.index(), second.index());
        assert_eq!(group.begin(Instant::from_ms(0), &[0, 1], true), None);
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
