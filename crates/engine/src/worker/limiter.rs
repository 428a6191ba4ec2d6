//! Limits of requests, bytes and connections by client network or another key: a request over one is answered with 429.
//!
//! Owns: [`Limiter`], which decides for one request, and the table behind it, which all processes of a server share.
//! Guarantees: memory is bounded and taken as networks come; without a limit a request costs one comparison, with one a
//! hash and one atomic exchange of a word that only requests of the same client network change.
//!
//! A network is a /32 of IPv4 or a /64 of IPv6. A request that is asked for again, because there was no room for its
//! answer behind earlier ones of its connection, counts again. So does one that has waited for another one's answer
//! from an application, where users are counted.

mod applications;
pub mod connections;
mod crowd;
mod loads;
#[cfg(test)]
mod model;
pub mod preview;
pub mod rate_limits;
mod share;
mod table;

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::Arc;

use lamna_policy::limit::{Decision, Rate, TICKS_PER_MS};
use lamna_policy::volume::Volume;
use lamna_proto::exchange::RequestedResource;
use lamna_proto::parse::path;
use lamna_proto::resource::Resource;
use lamna_proto::time::Instant;
use rustix::io::Errno;

use applications::ApplicationLimit;
use connections::{Connected, ConnectionLimit};
use lamna_config::route::condition::Network;
use lamna_config::route::headers;
use lamna_config::settings::Settings;
use lamna_config::site_limit::{LimitKey, SiteLimit};
use lamna_site::content::access::{Attempts, Identity, WrongPasswords, network_of};
use lamna_site::content::answers::{self, Extras};
use lamna_site::content::at_once::ClientNetwork;
use lamna_site::content::page_file::PageFile;
use lamna_site::content::site::{Site, Sites};
use lamna_site::gateway::spooled::{SpoolLimit, SpoolPayer, Spooled};
use lamna_site::upstream::shares::Payer;
use lamna_sys::metrics::counters::Counters;
use lamna_sys::shared_memory::SharedMemory;
use rate_limits::{Meter, RateLimits};
use share::Sharing;

/// The atomics of the table. The model substitutes loom's.
mod sync {
    pub(super) use std::sync::atomic::{AtomicU64 as Word, Ordering::Relaxed};
}

/// 16 MiB, of which the kernel gives what is touched: two words for each of a million networks.
const BUCKETS: usize = 1 << 18;

type Buckets = [[sync::Word; table::WAYS]; BUCKETS];

/// Counts of each client network. Clones, and copies by a fork, share the same memory.
#[derive(Clone)]
pub struct Counted {
    buckets: SharedMemory<Buckets>,
    /// Its key is secret, so that no client chooses the network whose word it shares.
    hasher: RandomState,
    /// The connections of each that are open.
    connected: Connected,
    /// Those that share bandwidth.
    sharing: Sharing,
    /// Files of this process that keep content for applications.
    spooled: Arc<Spooled>,
}

/// Decides whether requests are within the limits.
#[derive(Clone, Debug)]
pub struct Limiter {
    /// The limit of each client network over all sites.
    rate: Option<Rate>,
    /// Networks that no limit is for.
    exempt: Vec<Network>,
    counted: Counted,
    /// The same, for the verification of passwords.
    wrong_passwords: Arc<dyn WrongPasswords>,
    /// Decides about connections, if there is a limit of them.
    connections: Option<Arc<ConnectionLimit>>,
    /// Decides about connections to applications, if there is a limit of them.
    applications: Option<Arc<ApplicationLimit>>,
    /// Decides about files that keep content for applications.
    spools: Arc<SpoolLimit>,
    counters: SharedMemory<Counters>,
}

/// The quantity that a limit bounds, with its bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limited {
    /// Requests.
    Requests(Rate),
    /// Bytes that are sent.
    Bytes(Volume),
}

/// A limit that a request is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exceeded {
    /// Which one of the site, counted from 1; 0 for the one of all sites.
    pub limit: usize,
    /// The quantity that it bounds.
    pub of: Limited,
    /// Seconds until the next request is admitted.
    pub wait_s: u64,
}

impl Counted {
    /// The address space that it takes.
    pub const MAPPED_BYTES: usize = size_of::<Buckets>() + Connected::MAPPED_BYTES + Sharing::MAPPED_BYTES;

    /// Nothing has been counted.
    ///
    /// # Errors
    /// No room in the address space.
    pub fn new() -> Result<Counted, Errno> {
        let (connected, sharing) = (Connected::new()?, Sharing::new()?);
        let (hasher, spooled) = (RandomState::new(), Arc::default());
        Ok(Counted { buckets: SharedMemory::zeroed()?, hasher, connected, sharing, spooled })
    }

    /// The same, where `processes` count connections.
    pub fn among(self, processes: usize) -> Counted {
        Counted { connected: self.connected.among(processes), sharing: self.sharing.among(processes), ..self }
    }

    /// The same, for the process of number `number`.
    pub fn of(self, number: usize) -> Counted {
        Counted { connected: self.connected.of(number), sharing: self.sharing.of(number), ..self }
    }

    /// Asserts that nothing is counted any more of the network of `client`. For tests, when all connections have ended.
    ///
    /// # Panics
    /// If something is.
    pub fn check_gone(&self, client: IpAddr) {
        self.connected.check_gone(client);
    }

    /// Process `number` has ended, and its connections with it.
    pub fn clear(&self, number: usize) {
        self.connected.clear(number);
        self.sharing.clear(number);
    }
}

impl WrongPasswords for Counted {
    fn wait(&self, attempts: Attempts<'_>, rate: Rate, now: Instant) -> Option<u64> {
        let arrival = table::arrival(&*self.buckets, self.hasher.hash_one((attempts, "wrong")));
        match rate.decide(arrival, now.ms() * TICKS_PER_MS) {
            Decision::Admitted(_) => None,
            Decision::Refused(ticks) => Some(ticks),
        }
    }

    fn count(&self, attempts: Attempts<'_>, rate: Rate, now: Instant) {
        let hash = self.hasher.hash_one((attempts, "wrong"));
        // One that is not taken any more is one that was verified meanwhile: it does not count.
        _ = table::take(&*self.buckets, hash, rate, now.ms() * TICKS_PER_MS);
    }
}

impl fmt::Debug for Counted {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Counted").finish_non_exhaustive()
    }
}

impl Limiter {
    /// The limiter for `settings`, with the counts so far. Refused connections are counted in `counters`.
    pub fn new(settings: &Settings, counted: Counted, counters: SharedMemory<Counters>) -> Limiter {
        let connections = ConnectionLimit::new(settings, &counted.connected, &counters);
        let wrong_passwords: Arc<dyn WrongPasswords> = Arc::new(counted.clone());
        let (rate, exempt) = (settings.request_limit, settings.limit_exempt.clone());
        let applications = ApplicationLimit::new(settings, &counted.connected, &counters);
        let spools = Arc::new(SpoolLimit::new(settings, counted.spooled.clone(), counters.clone()));
        Limiter { rate, exempt, counted, wrong_passwords, connections, applications, spools, counters }
    }

    /// The payer of a connection to an application that a request of `client` takes; none if it counts for no network.
    pub fn payer(&self, client: Option<IpAddr>) -> Option<Payer> {
        let (limit, client) = self.applications.as_ref().zip(client)?;
        limit.counts(client).then(|| Payer { shares: limit.clone(), client })
    }

    /// For whom a file counts that keeps content of a request of `client` for an application.
    pub fn spools(&self, client: Option<IpAddr>) -> SpoolPayer<'_> {
        let is_limited = |client: &IpAddr| !self.exempt.iter().any(|network| network.contains(*client));
        SpoolPayer { limit: &self.spools, network: client.filter(is_limited).map(ClientNetwork::of) }
    }

    /// The limit of connections, if there is one.
    pub fn connections(&self) -> Option<&Arc<ConnectionLimit>> {
        self.connections.as_ref()
    }

    /// The counter of wrong passwords.
    pub fn wrong_passwords(&self) -> &Arc<dyn WrongPasswords> {
        &self.wrong_passwords
    }

    /// The same counts, for an engine with other settings.
    pub fn with(&self, settings: &Settings) -> Limiter {
        Limiter::new(settings, self.counted.clone(), self.counters.clone())
    }

    /// Whether there is any limit of requests.
    pub fn has_any(&self, sites: &Sites) -> bool {
        self.rate.is_some() || sites.have_limits()
    }

    /// Counts a request of `client`, and says what applies to its answer. Peers on Unix sockets have no limits.
    /// A request that an application has led to this path counts for those of its limits that are not limits of the
    /// paths before.
    ///
    /// # Errors
    /// It is over a limit.
    pub fn count(
        &self,
        site: &Site,
        requested: &RequestedResource<'_>,
        client: Option<IpAddr>,
        now: Instant,
    ) -> Result<Option<Box<RateLimits>>, Exceeded> {
        let is_limited = |client: &IpAddr| !self.exempt.iter().any(|network| network.contains(*client));
        let Some(client) = client.filter(is_limited) else { return Ok(None) };
        let network = network_of(client);
        if let Some(rate) = self.rate.filter(|_| !requested.is_again) {
            self.take(rate, 0, (u32::MAX, LimitSubject::Network(network)), now)?;
        }
        match site.settings.limits.is_empty() {
            true => Ok(None),
            false => self.of_site(site, requested, Caller { network, user: None }, now),
        }
    }

    /// Counts a request of `client` that has been let in as `user`, and adds what applies to its answer to
    /// `rate_limits`.
    ///
    /// # Errors
    /// It is over a limit of users.
    pub fn count_user(
        &self,
        site: &Site,
        requested: &RequestedResource<'_>,
        (client, user): (Option<IpAddr>, Option<Identity<'_>>),
        rate_limits: &mut Option<Box<RateLimits>>,
        now: Instant,
    ) -> Result<(), Exceeded> {
        let is_limited = |client: &IpAddr| !self.exempt.iter().any(|network| network.contains(*client));
        let Some(client) = client.filter(is_limited) else { return Ok(()) };
        let caller = Caller { network: network_of(client), user: Some(user) };
        add(self.of_site(site, requested, caller, now)?, rate_limits);
        Ok(())
    }

    /// Counts a request of `client` that is from `user` and has come to what is at `places`, paths: for those of their
    /// limits which are not limits of the path that it asks for. Adds what applies to its answer to `rate_limits`.
    ///
    /// # Errors
    /// It is over a limit.
    pub fn count_at(
        &self,
        site: &Site,
        requested: &RequestedResource<'_>,
        (client, user): (Option<IpAddr>, Option<Identity<'_>>),
        places: &[impl AsRef<[u8]>],
        rate_limits: &mut Option<Box<RateLimits>>,
        now: Instant,
    ) -> Result<(), Exceeded> {
        let is_limited = |client: &IpAddr| !self.exempt.iter().any(|network| network.contains(*client));
        let Some(client) = client.filter(is_limited) else { return Ok(()) };
        let mut made = Vec::new();
        let asked = counted_path(requested.path, &mut made);
        let caller = Caller { network: network_of(client), user: Some(user) };
        let fits = |limit: &SiteLimit| {
            let path = limit.path.as_bytes();
            let is_of_place = !asked.starts_with(path) && places.iter().any(|place| place.as_ref().starts_with(path));
            is_of_place && !was_counted(limit, requested)
        };
        add(self.take_all(site, requested, caller, fits, now)?, rate_limits);
        Ok(())
    }

    /// Counts for the limits of users if `caller` is known to be one or none, and for all others if that is not known
    /// yet.
    fn of_site(
        &self,
        site: &Site,
        requested: &RequestedResource<'_>,
        caller: Caller<'_>,
        now: Instant,
    ) -> Result<Option<Box<RateLimits>>, Exceeded> {
        let limits = &site.settings.limits;
        let mut made = Vec::new();
        let path = if limits.is_empty() { requested.path } else { counted_path(requested.path, &mut made) };
        let is_due = |limit: &SiteLimit| caller.user.is_some() == (limit.key == LimitKey::User);
        let is_of_path = |limit: &SiteLimit| is_due(limit) && path.starts_with(limit.path.as_bytes());
        let fits = |limit: &SiteLimit| is_of_path(limit) && !was_counted(limit, requested);
        self.take_all(site, requested, caller, fits, now)
    }

    /// Counts for the limits that `fits` takes.
    fn take_all(
        &self,
        site: &Site,
        requested: &RequestedResource<'_>,
        caller: Caller<'_>,
        fits: impl Fn(&SiteLimit) -> bool,
        now: Instant,
    ) -> Result<Option<Box<RateLimits>>, Exceeded> {
        let limits = &site.settings.limits;
        let mut rate_limits = RateLimits::default();
        let fitting = limits.iter().enumerate().filter(|(_, limit)| fits(limit));
        for (number, limit) in fitting.map(|(at, limit)| (at + 1, limit)) {
            let place = (site.index << 8 | number as u32 & 0xff, caller.subject(&limit.key, requested));
            if let Some(rate) = limit.rate {
                self.take(rate, number, place, now)?;
            }
            if let Some(volume) = limit.volume {
                let hash = self.counted.hasher.hash_one((place, "bytes"));
                let arrival = table::arrival(&*self.counted.buckets, hash);
                if let Some(ticks) = volume.wait(arrival, now.ms() * TICKS_PER_MS) {
                    return Err(Exceeded { limit: number, of: Limited::Bytes(volume), wait_s: seconds(ticks) });
                }
                rate_limits.meters.push(Meter::new(self.counted.clone(), hash, volume, now));
            }
            if let Some(bandwidth) = limit.bandwidth {
                let slower = rate_limits.bandwidth.map_or(bandwidth, |other| bandwidth.slower(other));
                rate_limits.bandwidth = Some(slower);
            }
            if let Some(shared) = limit.shared_bandwidth {
                let hash = self.counted.hasher.hash_one((place, "shared"));
                rate_limits.shares.push(self.counted.sharing.share(hash, shared.bytes_per_s));
            }
        }
        Ok(rate_limits.any())
    }

    fn take(&self, rate: Rate, limit: usize, place: (u32, LimitSubject<'_>), now: Instant) -> Result<(), Exceeded> {
        let hash = self.counted.hasher.hash_one(place);
        match table::take(&*self.counted.buckets, hash, rate, now.ms() * TICKS_PER_MS) {
            Decision::Admitted(_) => Ok(()),
            Decision::Refused(ticks) => Err(Exceeded { limit, of: Limited::Requests(rate), wait_s: seconds(ticks) }),
        }
    }
}

/// Whether a request was counted for `limit` before an application led it to this path.
fn was_counted(limit: &SiteLimit, requested: &RequestedResource<'_>) -> bool {
    requested.led.is_some_and(|led| led.earlier.iter().any(|path| path.starts_with(limit.path.as_bytes())))
}

/// Adds `more` of what applies to an answer to `rate_limits`.
fn add(more: Option<Box<RateLimits>>, rate_limits: &mut Option<Box<RateLimits>>) {
    match (more, rate_limits) {
        (Some(more), Some(rate_limits)) => rate_limits.join(*more),
        (more @ Some(_), rate_limits) => *rate_limits = more,
        (None, _) => {}
    }
}

/// The clients whose requests a limit counts together.
#[derive(Clone, Copy, Hash)]
enum LimitSubject<'a> {
    /// A client network.
    Network((bool, u64)),
    /// Clients with this value of a field, or with this user name in a scheme: the kind of key, and the value or name.
    Named(&'static str, &'a [u8]),
}

/// The client that asks.
#[derive(Clone, Copy)]
struct Caller<'a> {
    network: (bool, u64),
    /// The user that was let in, in turn none for a client without one; none if that is not known yet.
    user: Option<Option<Identity<'a>>>,
}

impl<'a> Caller<'a> {
    /// The subject for which a limit counts its request. A client without such a field or without a user is counted
    /// with its network.
    fn subject(&self, key: &'a LimitKey, requested: &RequestedResource<'a>) -> LimitSubject<'a> {
        let named = match key {
            LimitKey::Network => None,
            LimitKey::Field(name) => {
                let value = requested.request.and_then(|request| request.lines_named(name.as_bytes()).next());
                value.map(|value| LimitSubject::Named("field", value))
            }
            LimitKey::User => {
                self.user.flatten().map(|identity| LimitSubject::Named(identity.scheme(), identity.name().as_bytes()))
            }
        };
        named.unwrap_or(LimitSubject::Network(self.network))
    }
}

impl Exceeded {
    /// The answer with 429, with `Retry-After` (RFC 9110 10.2.3), `RateLimit` and `RateLimit-Policy`
    /// (draft-ietf-httpapi-ratelimit-headers). Without the fields of the site where they leave no room for
    /// them.
    pub fn answer(&self, site: &Site, page: Option<&PageFile>) -> Arc<Resource> {
        let mut fields = headers::fields(&site.routes.plain().rules.headers, 429);
        let Exceeded { limit, of, wait_s } = self;
        let (what, policy) = match of {
            Limited::Requests(rate) => ("", format!("q={};w={}", rate.burst(), rate.window_s())),
            Limited::Bytes(volume) => {
                ("-bytes", format!("q={};qu=\"content-bytes\";w={}", volume.burst(), volume.window_s()))
            }
        };
        let name = if *limit == 0 { "server".to_owned() } else { format!("site-{limit}{what}") };
        let own = [
            ("Retry-After", wait_s.to_string()),
            ("RateLimit", format!("\"{name}\";r=0;t={wait_s}")),
            ("RateLimit-Policy", format!("\"{name}\";{policy}")),
        ];
        fields.retain(|(field, _)| !own.iter().any(|(own, _)| own.eq_ignore_ascii_case(field)));
        let own = own.map(|(name, value)| (name.to_owned(), value));
        fields.extend_from_slice(&own);
        let cause = match of {
            Limited::Requests(_) => "There were too many requests from you or your network. Please wait a little.",
            Limited::Bytes(_) => "You have got as much as you may for now. Please come again later.",
        };
        // Whatever the fields of the site are, there is an answer: nobody is served for want of one.
        let with = |fields: &[(String, String)]| {
            answers::error(429, cause, &Extras { page, ..Extras::of(fields) }).map(Arc::new)
        };
        with(&fields).or_else(|_| with(&own)).unwrap_or_else(|_| site.routes.plain().errors.overloaded.clone())
    }
}

fn seconds(ticks: u64) -> u64 {
    ticks.div_ceil(1000 * TICKS_PER_MS)
}

/// The path that limits are compared with. However a path is spelled, it is the same one. What cannot be normalised is
/// refused, and counts where all do.
fn counted_path<'a>(path: &'a [u8], made: &'a mut Vec<u8>) -> &'a [u8] {
    if path::is_normal(path) {
        return path;
    }
    let _ = path::normalise_for_rules(path, made);
    if made.is_empty() { b"/" } else { &made[..] }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn takes(counted: &Counted, network: u64, rate: Rate, now_ms: u64) -> bool {
        let hash = counted.hasher.hash_one(network);
        matches!(table::take(&*counted.buckets, hash, rate, now_ms * TICKS_PER_MS), Decision::Admitted(_))
    }

    #[test]
    fn a_million_networks_are_counted_in_at_most_64_mib() {
        assert!(size_of::<[[sync::Word; table::WAYS]; BUCKETS]>() <= 64 << 20);
        let (counted, rate) = (Counted::new().unwrap(), "1/h burst 2".parse().unwrap());
        const NETWORKS: u64 = 1_000_000;
        for _ in 0..2 {
            // In a bucket that is full, about seven in a million have the tag of another one.
            let refused = (0..NETWORKS).filter(|network| !takes(&counted, *network, rate, 1)).count();
            assert!(refused < 100, "{refused}");
        }
        // All of them are over the limit at once. A network that was forgotten, because more than eight shared a
        // bucket, takes more.
        let forgotten = (0..NETWORKS).filter(|network| takes(&counted, *network, rate, 2)).count();
        assert!(forgotten < NETWORKS as usize / 20, "{forgotten}");
    }

    #[test]
    fn networks_that_have_had_their_time_make_room_for_others() {
        let (counted, rate) = (Counted::new().unwrap(), "1/s".parse().unwrap());
        for second in 0..40 {
            // So many in each second that the table would overflow if it kept them.
            let networks = second * 100_000..(second + 1) * 100_000;
            let now_ms = 1 + second * 2000;
            let refused = networks.clone().filter(|network| !takes(&counted, *network, rate, now_ms)).count();
            assert!(refused < 50, "{refused}");
            let again = networks.filter(|network| takes(&counted, *network, rate, 500 + second * 2000)).count();
            assert!(again < 1000, "{again}");
        }
    }

    #[test]
    fn wrong_passwords_of_one_user_and_network_are_held_back_and_others_are_not() {
        let (counted, rate) = (Counted::new().unwrap(), "10/m".parse().unwrap());
        // Another process.
        let processes = [counted.clone(), counted];
        let at = Instant::from_ms;
        let network = network_of("192.0.2.1".parse().unwrap());
        let one = Attempts { site: 0, network, name: Some(b"ada") };
        let others = [
            Attempts { network: (false, 7), ..one },
            Attempts { site: 1, ..one },
            Attempts { name: Some(b"bob"), ..one },
            Attempts { name: None, ..one },
        ];
        for number in 0..10 {
            assert_eq!(processes[0].wait(one, rate, at(1000)), None);
            processes[number % 2].count(one, rate, at(1000));
        }
        for counted in &processes {
            let wait = counted.wait(one, rate, at(1000)).expect("ten are enough");
            assert!(wait <= 6 * 1000 * TICKS_PER_MS);
            for other in others {
                assert_eq!(counted.wait(other, rate, at(1000)), None, "{other:?}");
            }
            assert_eq!(counted.wait(one, rate, at(7000)), None);
        }
    }

    #[test]
    fn networks_are_what_providers_give_out() {
        let network = |text: &str| network_of(text.parse().unwrap());
        assert_eq!(network("2001:db8::1"), network("2001:db8::ffff:1:2:3"));
        assert_ne!(network("2001:db8::1"), network("2001:db8:0:1::1"));
        assert_ne!(network("192.0.2.1"), network("192.0.2.2"));
        assert_eq!(network("192.0.2.1"), network("::ffff:192.0.2.1"));
        assert_ne!(network("0.0.0.1"), network("0:0:0:1::"));
    }

    /// Prints what a decision costs. Run with `cargo test --release -- --ignored --nocapture nanoseconds_per_decision`.
    #[test]
    #[ignore = "a measurement"]
    fn nanoseconds_per_decision() {
        let (counted, rate) = (Counted::new().unwrap(), "20/s burst 100".parse().unwrap());
        for networks in [1_000_u64, 1_000_000] {
            let begun = std::time::Instant::now();
            let admitted = (0..4_000_000_u64).filter(|one| takes(&counted, one % networks, rate, one / 1000)).count();
            let each = begun.elapsed().as_nanos() as f64 / 4e6;
            println!("{networks} networks: {each:.0} ns for a decision, {admitted} admitted");
        }
    }
}
