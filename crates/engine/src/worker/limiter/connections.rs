//! Limits of connections by client network: one that has as many open as it may gets no further one, and the memory and
//! the descriptors that they hold together are bounded.
//!
//! Owns: [`ConnectionLimit`], which decides for one connection when it is accepted or when a proxy has named its
//! client, and [`ConnectionPermit`], by which a connection is counted until it ends, in whatever engine or thread.
//! Guarantees: no network is refused for connections that have ended; an exempt client costs one comparison for each
//! exempt network, any other a hash and one exchange.

use std::fmt;
use std::hash::BuildHasher;
use std::hash::RandomState;
use std::io::Write as _;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use lamna_config::proxies::TrustedProxies;
use lamna_config::route::condition::Network;
use lamna_config::settings::Settings;
use lamna_io::listen::Listener;
use lamna_io::log::errors::{Level, Peer, report_peer};
use lamna_proto::limits::UNCOUNTED_BYTES_MAX;
use lamna_site::content::access::network_of;
use lamna_sys::memory::limit_bytes;
use lamna_sys::metrics::counters::Counters;
use lamna_sys::shared_memory::SharedMemory;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown};
use rustix::process::{Resource, getrlimit};

use super::crowd::{self, Entry};
use super::loads::{Load, Loads, Relieved};
use super::sync;

/// 4 MiB, of which the kernel gives what is touched: room for half a million networks that are connected at once.
const BUCKETS: usize = 1 << 16;
/// The share of one network in the descriptors, as a divisor: for its connections, and for the files and sockets that
/// their answers hold. With the quarter that the cache may have, and the reserve for files, something is left for
/// others.
const DESCRIPTORS_SHARE: u64 = 3;
/// So many of one connection are looked for in others when their network has too many.
const DESCRIPTORS_MANY: u64 = 8;

/// The share of one network in a limit of memory, as a divisor.
const MEMORY_SHARE: u64 = 4;

type Buckets = [[sync::Word; crowd::WAYS]; BUCKETS];

/// The open connections of each client network. Clones, and what a fork copies, are the same.
#[derive(Clone)]
pub struct Connected {
    buckets: SharedMemory<Buckets>,
    /// Bytes of memory that these connections hold while they wait, at the same places.
    held: SharedMemory<Buckets>,
    /// Descriptors that they hold meanwhile beside their own sockets, at the same places.
    descriptors: SharedMemory<Buckets>,
    /// Connections to applications for each client network.
    applications: SharedMemory<Buckets>,
    /// Those of this process that hold much.
    loads: Arc<Loads>,
    /// Its key is secret.
    hasher: RandomState,
    /// Processes that may count at the same time, each in a part of its own.
    parts: usize,
    /// The part of this process.
    own: usize,
}

/// The bounds on connections of one engine.
pub struct ConnectionLimit {
    /// The most of a network.
    most: u64,
    /// The most bytes that those of a network hold in one process.
    most_bytes: u64,
    /// The most descriptors of a network in one process.
    most_descriptors: u64,
    exempt: Vec<Network>,
    proxies: TrustedProxies,
    connected: Connected,
    counters: SharedMemory<Counters>,
}

/// By which a connection is counted. It leaves when this is dropped.
pub struct ConnectionPermit {
    limit: Arc<ConnectionLimit>,
    /// None until a proxy has named the client.
    place: Option<u32>,
    /// Memory and descriptors that it holds, as they are counted.
    held: Held,
    /// By which it may be told to end; none before it has held much.
    load: Option<Arc<Load>>,
}

/// Memory and descriptors that a connection holds while it waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Memory.
    pub bytes: u64,
    /// Files and sockets beside its own.
    pub descriptors: u64,
}

/// A network has as many connections as it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crowded;

impl Connected {
    /// The address space that it takes.
    pub(super) const MAPPED_BYTES: usize = 4 * size_of::<Buckets>();

    /// Nothing is connected, and one process counts.
    ///
    /// # Errors
    /// No room in the address space.
    pub fn new() -> Result<Connected, Errno> {
        let (buckets, applications) = (SharedMemory::zeroed()?, SharedMemory::zeroed()?);
        let (held, descriptors) = (SharedMemory::zeroed()?, SharedMemory::zeroed()?);
        let (hasher, loads) = (RandomState::new(), Arc::default());
        Ok(Connected { buckets, held, descriptors, applications, loads, hasher, parts: 1, own: 0 })
    }

    /// The same, with a part for each of `processes`.
    pub fn among(self, processes: usize) -> Connected {
        Connected { parts: processes.clamp(1, BUCKETS), ..self }
    }

    /// The same, for the process of number `number`.
    pub(super) fn of(self, number: usize) -> Connected {
        Connected { own: number % self.parts, ..self }
    }

    /// Process `number` has ended.
    pub fn clear(&self, number: usize) {
        for table in [&*self.buckets, &*self.held, &*self.descriptors, &*self.applications] {
            crowd::clear(table, self.parts, number % self.parts);
        }
    }

    fn enter(&self, client: IpAddr, most: u64) -> Entry {
        let hash = self.hasher.hash_one(network_of(client));
        crowd::enter(&*self.buckets, self.parts, self.own, hash, most)
    }

    /// Counts at `place` of `table` what a connection holds `now`. If that is more than `before`: what those of its
    /// network hold together.
    fn count(&self, table: &Buckets, place: u32, before: u64, now: u64) -> Option<u64> {
        let word = crowd::word(table, self.parts, self.own, place);
        if now < before {
            let together = word.fetch_sub(before - now, Relaxed);
            debug_assert!(together >= before, "a connection holds more than its network at {place}");
        }
        (now > before).then(|| word.fetch_add(now - before, Relaxed) + (now - before))
    }

    /// Asserts that nothing is counted any more of the network of `client`, or of one that shares its places. For
    /// tests, when all connections have ended.
    ///
    /// # Panics
    /// If something is.
    pub(super) fn check_gone(&self, client: IpAddr) {
        let hash = self.hasher.hash_one(network_of(client));
        for table in [&*self.buckets, &*self.held, &*self.descriptors, &*self.applications] {
            let words = crowd::words_of(table, self.parts, self.own, hash);
            assert!(words.iter().all(|word| word.load(Relaxed) == 0), "something is counted of {client}: {words:?}");
        }
        assert!(self.loads.is_empty(), "connections that hold much are known, and gone");
    }

    /// Asserts that the counts of each network are those of its connections, of what these hold, and of the connections
    /// to applications, which are at the places `asked`. `permits` and `asked` are all that there are: while
    /// connections come and go, no thread sees all of them at once.
    #[cfg(test)]
    fn check_invariants<'s>(&self, permits: impl Iterator<Item = &'s ConnectionPermit> + Clone, asked: &[u32]) {
        for place in 0..(BUCKETS / self.parts * crowd::WAYS) as u32 {
            let of_network = permits.clone().filter(|permit| permit.place == Some(place));
            let sum = |measure: fn(&ConnectionPermit) -> u64| of_network.clone().map(measure).sum::<u64>();
            let counted = |table: &Buckets| crowd::word(table, self.parts, self.own, place).load(Relaxed);
            let connections = crowd::count_at(&*self.buckets, self.parts, self.own, place);
            assert_eq!(connections, sum(|_| 1), "connections at {place}");
            let applications = crowd::count_at(&*self.applications, self.parts, self.own, place);
            let of_place = asked.iter().filter(|other| **other == place).count() as u64;
            assert_eq!(applications, of_place, "connections to applications at {place}");
            assert_eq!(counted(&self.held), sum(|permit| permit.held.bytes), "bytes at {place}");
            assert_eq!(counted(&self.descriptors), sum(|permit| permit.held.descriptors), "descriptors at {place}");
        }
    }

    /// One more connection to an application for `client`, if its network has fewer than `most`.
    pub(super) fn enter_application(&self, client: IpAddr, most: u64) -> Entry {
        let hash = self.hasher.hash_one(network_of(client));
        crowd::enter(&*self.applications, self.parts, self.own, hash, most)
    }

    /// One that was counted at `place` has ended.
    pub(super) fn leave_application(&self, place: u32) {
        crowd::leave(&*self.applications, self.parts, self.own, place);
    }
}

impl ConnectionLimit {
    /// The limit for `settings`, if they set any, with the counts of connected clients.
    pub fn new(
        settings: &Settings,
        connected: &Connected,
        counters: &SharedMemory<Counters>,
    ) -> Option<Arc<ConnectionLimit>> {
        let unless_any = |most: u64| if most > 0 { most } else { u64::MAX };
        // One network does not have the descriptors that others need, whatever the limit says: zero is for any number.
        let by_descriptors =
            getrlimit(Resource::Nofile).current.map_or(u64::MAX, |limit| (limit / DESCRIPTORS_SHARE).max(1));
        let (most, most_descriptors) = match settings.connection_limit {
            0 => (u64::MAX, u64::MAX),
            most => (most.min(by_descriptors), by_descriptors),
        };
        // Whatever is said, one network does not take the memory that all of them and the cache have to do with.
        let most_of_limit = limit_bytes().map_or(u64::MAX, |bytes| bytes / MEMORY_SHARE);
        let most_bytes = unless_any(settings.network_bytes_max).min(most_of_limit);
        if (most, most_bytes) == (u64::MAX, u64::MAX) {
            return None;
        }
        let (exempt, proxies) = (settings.limit_exempt.clone(), settings.proxies.clone());
        let (connected, counters) = (connected.clone(), counters.clone());
        Some(Arc::new(ConnectionLimit { most, most_bytes, most_descriptors, exempt, proxies, connected, counters }))
    }

    /// Counts a connection from `client` that was taken from `listener`. One that a proxy is to say something about is
    /// counted when that has been said.
    ///
    /// # Errors
    /// There are too many.
    pub fn admit(
        self: &Arc<Self>,
        client: Option<IpAddr>,
        listener: &Listener,
    ) -> Result<Option<ConnectionPermit>, Crowded> {
        match listener.proxies() {
            Some(_) => {
                Ok(Some(ConnectionPermit { limit: self.clone(), place: None, held: Held::default(), load: None }))
            }
            None => self.enter(client, self.most),
        }
    }

    /// Counts a connection that is there already, whatever the limit.
    pub fn keep(self: &Arc<Self>, client: Option<IpAddr>) -> Option<ConnectionPermit> {
        self.enter(client, u64::MAX).ok().flatten()
    }

    fn enter(self: &Arc<Self>, client: Option<IpAddr>, most: u64) -> Result<Option<ConnectionPermit>, Crowded> {
        let Some(client) = client.filter(|client| !self.is_exempt(*client)) else { return Ok(None) };
        match self.connected.enter(client, most) {
            Entry::Counted(place) => Ok(Some(ConnectionPermit {
                limit: self.clone(),
                place: Some(place),
                held: Held::default(),
                load: None,
            })),
            Entry::Uncounted => Ok(None),
            Entry::Refused => {
                self.counters.work.connections_limited.fetch_add(1, Relaxed);
                report_peer(Peer::Crowded, "", "", || {
                    let most = self.most;
                    let what = format!("{client} is refused a connection: its network has {most} (`connection_limit`)");
                    (Level::Warning, what)
                });
                Err(Crowded)
            }
        }
    }

    /// Those of the network at `place` hold `together` bytes.
    fn relieve_memory(&self, place: u32, together: u64) {
        let Some(excess) = together.checked_sub(self.most_bytes).filter(|excess| *excess > 0) else { return };
        let Relieved { doomed, .. } = self.connected.loads.relieve(place, excess, |held| held.bytes);
        self.tell_closed(doomed, || format!("more than {} bytes (`network_bytes_max`)", self.most_bytes));
    }

    /// Those of the network at `place` hold `together` descriptors beside their own. False if they are too many, and
    /// those that hold many of them are not enough.
    fn relieve_descriptors(&self, place: u32, together: u64) -> bool {
        let Connected { buckets, parts, own, .. } = &self.connected;
        let all = together + crowd::count_at(&**buckets, *parts, *own, place);
        let Some(excess) = all.checked_sub(self.most_descriptors).filter(|excess| *excess > 0) else { return true };
        let Relieved { doomed, is_enough } = self.connected.loads.relieve(place, excess, |held| held.descriptors);
        self.tell_closed(doomed + usize::from(!is_enough), || {
            format!("more than {} descriptors (`connection_limit`)", self.most_descriptors)
        });
        is_enough
    }

    /// So many connections are to end because those of their network hold more than they may.
    fn tell_closed(&self, doomed: usize, bound: impl FnOnce() -> String) {
        if doomed == 0 {
            return;
        }
        self.counters.work.connections_limited.fetch_add(doomed as u64, Relaxed);
        report_peer(Peer::Crowded, "", "", || {
            let bound = bound();
            let what =
                format!("connections are closed, those that hold most first: those of their network hold {bound}");
            (Level::Warning, what)
        });
    }

    /// A proxy has the connections of all its clients.
    fn is_exempt(&self, client: IpAddr) -> bool {
        self.exempt.iter().any(|network| network.contains(client)) || self.proxies.trust(Some(client))
    }
}

impl ConnectionPermit {
    /// A proxy has named the client of a connection that was not counted yet.
    ///
    /// # Errors
    /// There are too many.
    pub fn name(self, client: IpAddr) -> Result<Option<ConnectionPermit>, Crowded> {
        match self.place {
            Some(_) => Ok(Some(self)),
            None => self.limit.enter(Some(client), self.limit.most),
        }
    }

    /// The connection waits, and holds this meanwhile.
    pub fn hold(&mut self, held: Held) {
        // What nearly every connection holds is not worth a write to memory that others read.
        let bytes = if held.bytes > UNCOUNTED_BYTES_MAX as u64 { held.bytes } else { 0 };
        let held = Held { bytes, ..held };
        let Some(place) = self.place.filter(|_| held != self.held) else { return };
        let before = std::mem::replace(&mut self.held, held);
        let (is_heavy, ConnectionPermit { limit, load, .. }) = (self.is_heavy(), self);
        let begin = || limit.connected.loads.begin(place);
        if is_heavy {
            load.get_or_insert_with(begin).set(held);
        } else if let Some(load) = load {
            load.set(Held::default());
        }
        let connected = &limit.connected;
        if let Some(together) = connected.count(&connected.held, place, before.bytes, held.bytes) {
            limit.relieve_memory(place, together);
        }
        if let Some(together) = connected.count(&connected.descriptors, place, before.descriptors, held.descriptors)
            && !limit.relieve_descriptors(place, together)
        {
            // None holds many: this one is the one too many.
            load.get_or_insert_with(begin).doom();
        }
    }

    /// Whether its network holds more than it may, and this connection is one of those that hold most of it. Then it is
    /// to end.
    pub fn is_doomed(&self) -> bool {
        self.load.as_ref().is_some_and(|load| load.is_doomed())
    }

    /// Whether it holds so much that it may be told to end.
    pub fn is_heavy(&self) -> bool {
        self.held.bytes > 0 || self.held.descriptors >= DESCRIPTORS_MANY
    }

    /// The network that it counts for, if it counts for any: the same number for all connections of a network in this
    /// process.
    pub fn network(&self) -> Option<u32> {
        self.place
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.hold(Held::default());
        if let Some(place) = self.place {
            if let Some(load) = self.load.take() {
                self.limit.connected.loads.end(place, &load);
            }
            let Connected { buckets, parts, own, .. } = &self.limit.connected;
            crowd::leave(&**buckets, *parts, *own, place);
        }
    }
}

/// Tells a peer that speaks plain HTTP, and is refused, to come again. What has not arrived is not waited for.
pub fn turn_away(socket: BorrowedFd<'_>) {
    let mut request = [0; 4096];
    // A connection that is closed with bytes unread is reset, and the answer may be lost.
    let arrived = match rustix::net::recv(socket, &mut request, RecvFlags::DONTWAIT) {
        Ok((_, bytes)) if bytes < request.len() => &request[..bytes],
        _ => return,
    };
    // HTTP/2 by prior knowledge begins with `PRI`: it would not understand.
    if arrived.is_empty() || arrived.starts_with(b"PRI ") {
        return;
    }
    let mut answer = [0; 512];
    let mut rest = &mut answer[..];
    let content = "There are too many connections from your network. Please close some.\n";
    let written = write!(
        rest,
        "HTTP/1.1 429 Too Many Requests\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n\
         Retry-After: 1\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n{content}",
        content.len()
    );
    let left = rest.len();
    if written.is_ok() {
        let length = answer.len() - left;
        let _ = rustix::net::send(socket, &answer[..length], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        let _ = rustix::net::shutdown(socket, Shutdown::Write);
    }
}

impl fmt::Debug for Connected {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Connected").field("parts", &self.parts).field("own", &self.own).finish_non_exhaustive()
    }
}

impl fmt::Debug for ConnectionLimit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ConnectionLimit").field("most", &self.most).finish_non_exhaustive()
    }
}

impl fmt::Debug for ConnectionPermit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ConnectionPermit").field("place", &self.place).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn limit(connected: &Connected, most: u64) -> Arc<ConnectionLimit> {
        let settings = Settings { connection_limit: most, ..Settings::default() };
        ConnectionLimit::new(&settings, connected, &SharedMemory::default()).unwrap()
    }

    fn limit_of(connected: &Connected, most: u64) -> ConnectionLimit {
        Arc::into_inner(limit(connected, most)).unwrap()
    }

    fn enter(limit: &Arc<ConnectionLimit>, client: &str) -> Result<Option<ConnectionPermit>, Crowded> {
        limit.enter(client.parse().ok(), limit.most)
    }

    fn bytes(bytes: u64) -> Held {
        Held { bytes, descriptors: 0 }
    }

    fn files(descriptors: u64) -> Held {
        Held { bytes: 0, descriptors }
    }

    #[test]
    fn a_network_has_no_more_connections_than_it_may_and_gets_one_for_each_that_ends() {
        let limit = limit(&Connected::new().unwrap(), 2);
        let first = enter(&limit, "2001:db8::1").unwrap();
        let second = enter(&limit, "2001:db8::2").unwrap();
        assert!(enter(&limit, "2001:db8::3").is_err());
        assert!(enter(&limit, "2001:db8:0:1::3").is_ok(), "another network");
        drop(first);
        let third = enter(&limit, "2001:db8::3").unwrap();
        assert!(third.is_some() && enter(&limit, "2001:db8::1").is_err());
        drop((second, third));
        assert!(enter(&limit, "2001:db8::1").is_ok());
        assert_eq!(limit.counters.work.connections_limited.load(Relaxed), 2);
    }

    #[test]
    fn who_is_exempt_is_not_counted() {
        let limit = limit(&Connected::new().unwrap(), 1);
        let permits: Vec<_> = (0..3).map(|_| enter(&limit, "127.0.0.1")).collect();
        assert!(permits.iter().all(|permit| matches!(permit, Ok(None))));
        assert!(matches!(limit.enter(None, 1), Ok(None)), "a Unix socket");
    }

    #[test]
    fn of_a_network_that_holds_too_much_those_end_that_hold_most_though_they_say_nothing() {
        let settings = Settings { network_bytes_max: 100_000, connection_limit: 0, ..Settings::default() };
        let connected = Connected::new().unwrap();
        let limit = ConnectionLimit::new(&settings, &connected, &SharedMemory::default()).unwrap();
        let mut permits: Vec<ConnectionPermit> = (0..4).map(|_| enter(&limit, "192.0.2.1").unwrap().unwrap()).collect();
        let mut other = enter(&limit, "192.0.2.2").unwrap().unwrap();
        other.hold(bytes(99_000));
        permits[0].hold(bytes(60_000));
        // As much as most connections hold.
        permits[2].hold(bytes(UNCOUNTED_BYTES_MAX as u64));
        permits[3].hold(bytes(10_000));
        let doomed = |permits: &[ConnectionPermit]| permits.iter().map(ConnectionPermit::is_doomed).collect::<Vec<_>>();
        assert_eq!(doomed(&permits), [false; 4]);
        // The last one to hold something is not the one that holds most.
        permits[1].hold(bytes(40_000));
        assert_eq!(doomed(&permits), [true, false, false, false]);
        assert!(!other.is_doomed());
        // It is as good as gone.
        permits[3].hold(bytes(60_000));
        assert_eq!(doomed(&permits), [true, false, false, false]);
        permits[3].hold(bytes(61_000));
        assert_eq!(doomed(&permits), [true, false, false, true]);
        assert_eq!(limit.counters.work.connections_limited.load(Relaxed), 2);
        drop((permits, other));
        let is_zero = |table: &[[sync::Word; crowd::WAYS]]| table.iter().flatten().all(|word| word.load(Relaxed) == 0);
        assert!(is_zero(&*connected.held) && is_zero(&*connected.buckets));
    }

    #[test]
    fn what_answers_hold_open_counts_for_the_descriptors_of_a_network() {
        let connected = Connected::new().unwrap();
        let limit = Arc::new(ConnectionLimit { most_descriptors: 20, ..limit_of(&connected, 100) });
        let mut permits: Vec<ConnectionPermit> = (0..8).map(|_| enter(&limit, "192.0.2.1").unwrap().unwrap()).collect();
        let mut other = enter(&limit, "192.0.2.2").unwrap().unwrap();
        other.hold(files(19));
        let doomed = |permits: &[ConnectionPermit]| permits.iter().map(ConnectionPermit::is_doomed).collect::<Vec<_>>();
        for permit in &mut permits[..7] {
            permit.hold(files(1));
        }
        // With their sockets these are fifteen.
        permits[7].hold(files(5));
        assert_eq!(doomed(&permits), [false; 8]);
        assert!(!permits[7].is_heavy(), "it is not looked at for so few");
        // Nobody has many, so the last one is the one too many.
        permits[0].hold(files(2));
        assert_eq!(doomed(&permits), [true, false, false, false, false, false, false, false]);
        drop(permits.remove(0));
        // One that has many goes before others.
        permits[6].hold(files(DESCRIPTORS_MANY));
        assert_eq!(doomed(&permits), [false, false, false, false, false, false, true]);
        permits[0].hold(files(2));
        assert_eq!(doomed(&permits), [false, false, false, false, false, false, true], "it is as good as gone");
        assert!(!other.is_doomed());
        drop((permits, other));
        let is_zero = |table: &[[sync::Word; crowd::WAYS]]| table.iter().flatten().all(|word| word.load(Relaxed) == 0);
        assert!(is_zero(&*connected.descriptors) && is_zero(&*connected.buckets));
    }

    #[test]
    fn what_travels_is_counted_beyond_the_limit_and_lets_nobody_else_in() {
        let limit = limit(&Connected::new().unwrap(), 1);
        let client: Option<IpAddr> = "192.0.2.1".parse().ok();
        let permits: Vec<_> = (0..3).map(|_| limit.keep(client)).collect();
        assert!(permits.iter().all(Option::is_some) && limit.enter(client, 1).is_err());
        drop(permits);
        assert!(limit.enter(client, 1).is_ok());
    }

    #[test]
    fn processes_count_together_and_one_that_was_killed_leaves_nothing() {
        let connected = Connected::new().unwrap().among(3);
        let limits: Vec<_> = (0..3).map(|number| limit(&connected.clone().of(number), 2)).collect();
        let client = "192.0.2.1";
        let first = enter(&limits[0], client).unwrap();
        let second = enter(&limits[1], client).unwrap();
        assert!(limits.iter().all(|limit| enter(limit, client).is_err()));
        // Killed.
        std::mem::forget(second);
        connected.clear(1);
        let third = enter(&limits[2], client).unwrap();
        assert!(limits.iter().all(|limit| enter(limit, client).is_err()));
        drop((first, third));
        assert!(enter(&limits[1], client).is_ok());
    }

    #[test]
    fn where_there_is_no_room_to_count_connections_are_let_in() {
        let connected = Connected::new().unwrap().among(BUCKETS);
        let limit = limit(&connected, 1);
        let permits: Vec<_> = (0..100_u8).map(|number| enter(&limit, &format!("192.0.2.{number}"))).collect();
        assert!(permits.iter().all(Result::is_ok));
        let counted = permits.iter().flatten().flatten().count();
        assert_eq!(counted, crowd::WAYS);
    }

    /// An operation of a connection. Those that are there are named by a number modulo how many there are.
    #[derive(Clone, Debug)]
    enum Step {
        Enter(u8),
        Hold(usize, u64, u64),
        Leave(usize),
        /// A connection to an application begins.
        Ask(u8),
        /// One ends.
        Answered(usize),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            2 => (0_u8..3).prop_map(Step::Enter),
            3 => (0_usize..99, prop_oneof![Just(0), 1_u64..70_000], 0_u64..12).prop_map(|(which, bytes, files)| Step::Hold(which, bytes, files)),
            1 => (0_usize..99).prop_map(Step::Leave),
            2 => (0_u8..3).prop_map(Step::Ask),
            1 => (0_usize..99).prop_map(Step::Answered),
        ];
        proptest::collection::vec(step, 0..60)
    }

    proptest! {
        #[test]
        fn what_is_counted_is_what_connections_hold_and_those_that_stay_are_within_the_bound(steps in steps()) {
            const MOST: u64 = 6;
            let connected = Connected::new().unwrap().among(BUCKETS / 8);
            let settings = Settings { network_bytes_max: 100_000, ..Settings::default() };
            let of_settings = ConnectionLimit::new(&settings, &connected, &SharedMemory::default()).unwrap();
            let limit = ConnectionLimit { most: MOST, most_descriptors: 20, ..Arc::into_inner(of_settings).unwrap() };
            let limit = Arc::new(limit);
            let (mut permits, mut asked): (Vec<(u8, ConnectionPermit)>, Vec<u32>) = Default::default();
            for step in steps {
                match step {
                    Step::Enter(network) => {
                        let before = permits.iter().filter(|permit| permit.0 == network).count() as u64;
                        match enter(&limit, &format!("192.0.2.{network}")) {
                            Ok(Some(permit)) => permits.push((network, permit)),
                            Ok(None) => prop_assert!(false, "there is room to count three networks"),
                            Err(Crowded) => prop_assert_eq!(before, MOST),
                        }
                    }
                    Step::Hold(which, bytes, descriptors) if !permits.is_empty() => {
                        let which = which % permits.len();
                        permits[which].1.hold(Held { bytes, descriptors });
                    }
                    Step::Leave(which) if !permits.is_empty() => drop(permits.swap_remove(which % permits.len())),
                    Step::Ask(network) => match connected.enter_application([192, 0, 2, network].into(), MOST) {
                        Entry::Counted(place) => asked.push(place),
                        Entry::Uncounted => prop_assert!(false, "there is room to count three networks"),
                        Entry::Refused => prop_assert!(asked.len() as u64 >= MOST),
                    },
                    Step::Answered(which) if !asked.is_empty() => {
                        connected.leave_application(asked.swap_remove(which % asked.len()));
                    }
                    Step::Hold(..) | Step::Leave(_) | Step::Answered(_) => {}
                }
                connected.check_invariants(permits.iter().map(|permit| &permit.1), &asked);
                for network in 0..3 {
                    let of_network = || permits.iter().filter(|permit| permit.0 == network).map(|permit| &permit.1);
                    prop_assert!(of_network().count() as u64 <= MOST);
                    let staying: u64 = of_network().filter(|permit| !permit.is_doomed()).map(|permit| permit.held.bytes).sum();
                    prop_assert!(staying <= 100_000, "{} bytes stay", staying);
                }
            }
            drop(permits);
            asked.drain(..).for_each(|place| connected.leave_application(place));
            connected.check_invariants(std::iter::empty(), &[]);
            (0..3).for_each(|network| connected.check_gone([192, 0, 2, network].into()));
        }
    }
}
