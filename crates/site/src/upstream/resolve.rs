//! Addresses of the names of upstreams, looked up again and again, on threads that do not serve.
//!
//! Owns: a thread for each name. So a name server that does not answer for one name holds up no other, and no request.
//! Guarantees: starting never fails and never waits because of a name; a name that once had addresses keeps them while
//! it cannot be looked up; who serves reads an atomic, and takes a lock, for a few instructions, only when the
//! addresses have changed. Asks by getaddrinfo(3), so that a name means what it means to every other program of the
//! machine; that does not tell how long an answer is good for, hence the period.
//!
//! To be started in the process that serves: threads do not survive a fork.
//!
//! ```text
//!  Unknown --addresses--> Known --addresses--> Known
//!    |  ^                   |  ^
//!    |  +----failed---------+  +-- failed: the old ones stay
//! ```

#[cfg(test)]
mod model;
mod published;

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub(crate) use published::Published;

/// Primitives of publishing; the loom model substitutes its own.
mod sync {
    pub(super) use std::sync::Mutex;
    pub(super) use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
}

/// Looks up a name: its addresses, in the order in which they are to be tried.
pub type Lookup = dyn Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync;

/// How often names are looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResolveSettings {
    /// After an answer.
    pub period: Duration,
    /// After a failure.
    pub retry: Duration,
}

impl Default for ResolveSettings {
    /// Names of containers move when these are started again: half a minute of failures is what one would live with.
    fn default() -> ResolveSettings {
        ResolveSettings { period: Duration::from_secs(15), retry: Duration::from_secs(2) }
    }
}

/// Addresses of one name. More are not tried.
const ADDRESSES_MAX: usize = 16;

/// Asks as every other program does.
///
/// # Errors
/// The name has no addresses, or no name server knows.
pub fn by_system(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    (host, port).to_socket_addrs().map(Iterator::collect)
}

/// Looks up names until it is dropped. That does not wait for a look-up that is under way.
pub struct Resolver {
    names: Vec<Arc<Name>>,
    end: Arc<End>,
}

/// A name, and what it means.
struct Name {
    host: String,
    port: u16,
    addresses: Published<Arc<[SocketAddr]>>,
    status: Mutex<Status>,
    /// Told when the name has been looked up for the first time.
    first: Condvar,
}

#[derive(Default)]
struct Status {
    was_looked_up: bool,
    /// Why the last look-up failed.
    error: Option<String>,
}

#[derive(Default)]
struct End {
    has_come: Mutex<bool>,
    changed: Condvar,
}

/// One thread's view of a name.
#[derive(Clone)]
pub struct NameView {
    name: Arc<Name>,
    generation: u64,
    addresses: Arc<[SocketAddr]>,
}

impl Resolver {
    /// Begins to look up these names, and returns. Where a thread cannot be had the name has no addresses; that is said
    /// by [`NameView::error`].
    pub fn start(names: &[(String, u16)], settings: ResolveSettings, lookup: Arc<Lookup>) -> Resolver {
        let end = Arc::new(End::default());
        let start = |(host, port): &(String, u16)| {
            let name = Arc::new(Name::new(host.clone(), *port));
            let (of_thread, end, lookup) = (Arc::clone(&name), Arc::clone(&end), Arc::clone(&lookup));
            let thread = std::thread::Builder::new().name("resolver".to_owned());
            if let Err(error) = thread.spawn(move || of_thread.keep_looking(settings, &*lookup, &end)) {
                name.learn(Err(error));
            }
            name
        };
        Resolver { names: names.iter().map(start).collect(), end: Arc::clone(&end) }
    }

    /// A view of a name, by its index, for a thread of its own.
    pub fn view(&self, index: usize) -> Option<NameView> {
        let name = Arc::clone(self.names.get(index)?);
        let (addresses, generation) = (Arc::from([]), 0);
        Some(NameView { name, generation, addresses })
    }

    /// Waits until each name has been looked up once, at most so long for each: a server that is just starting would
    /// rather begin with the answers. Whether all have been.
    pub fn await_first(&self, at_most: Duration) -> bool {
        self.names.iter().all(|name| {
            let waits = |status: &mut Status| !status.was_looked_up;
            let waited = name.first.wait_timeout_while(lock(&name.status), at_most, waits);
            waited.unwrap_or_else(PoisonError::into_inner).0.was_looked_up
        })
    }
}

impl fmt::Debug for Resolver {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.names.iter().map(|name| (&name.host, name.port))).finish()
    }
}

impl fmt::Debug for NameView {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{} at {:?}", self.name.host, self.name.port, self.addresses)
    }
}

impl Drop for Resolver {
    fn drop(&mut self) {
        *lock(&self.end.has_come) = true;
        self.end.changed.notify_all();
    }
}

impl Name {
    fn new(host: String, port: u16) -> Name {
        let addresses = Published::new(Arc::from([]));
        Name { host, port, addresses, status: Mutex::default(), first: Condvar::new() }
    }

    fn keep_looking(&self, settings: ResolveSettings, lookup: &Lookup, end: &End) {
        loop {
            let found = lookup(&self.host, self.port);
            let pause = if self.learn(found) { settings.period } else { settings.retry };
            let waited = end.changed.wait_timeout_while(lock(&end.has_come), pause, |has_come| !*has_come);
            if *waited.unwrap_or_else(PoisonError::into_inner).0 {
                return;
            }
        }
    }

    /// Takes note of what was found. Whether that was something.
    fn learn(&self, found: io::Result<Vec<SocketAddr>>) -> bool {
        let found = found.and_then(|mut addresses| {
            addresses.truncate(ADDRESSES_MAX);
            if addresses.is_empty() { Err(io::Error::other("the name has no addresses")) } else { Ok(addresses) }
        });
        if let Ok(addresses) = &found {
            self.addresses.change(|current| {
                let is_other = **current != **addresses;
                if is_other {
                    *current = addresses.as_slice().into();
                }
                is_other
            });
        }
        let error = found.as_ref().err().map(io::Error::to_string);
        *lock(&self.status) = Status { was_looked_up: true, error };
        self.first.notify_all();
        found.is_ok()
    }
}

impl NameView {
    /// The addresses as far as they are known; empty if none ever were. `true` if they are others than the last time:
    /// connections that are kept are then to be closed.
    pub fn addresses(&mut self) -> (&Arc<[SocketAddr]>, bool) {
        let changed = self.name.addresses.read_if_changed(&mut self.generation);
        let is_changed = changed.is_some();
        if let Some(addresses) = changed {
            self.addresses = addresses;
        }
        (&self.addresses, is_changed)
    }

    /// Why the name could not be looked up the last time, for the error log and `ctl status`.
    pub fn error(&self) -> Option<String> {
        lock(&self.name.status).error.clone()
    }
}

/// Locks; the value behind a poisoned lock is whole, as it is after every statement.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};

    use super::*;

    const AT_ONCE: ResolveSettings = ResolveSettings { period: Duration::ZERO, retry: Duration::ZERO };
    const PATIENCE: Duration = Duration::from_secs(30);

    type Answer = io::Result<Vec<SocketAddr>>;

    /// A name server that answers what it is told, one question after the other, and says that it was asked.
    fn scripted() -> (Arc<Lookup>, Sender<Answer>, Receiver<String>) {
        let ((answers, given), (asked, questions)) = (channel::<Answer>(), channel());
        let (given, asked) = (Mutex::new(given), Mutex::new(asked));
        let lookup = move |host: &str, port: u16| {
            _ = lock(&asked).send(format!("{host}:{port}"));
            lock(&given).recv().unwrap_or_else(|_| Err(io::Error::other("it is over")))
        };
        (Arc::new(lookup), answers, questions)
    }

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    fn names() -> [(String, u16); 1] {
        [("app".to_owned(), 80)]
    }

    #[test]
    fn a_name_has_the_addresses_of_the_last_answer() {
        let (lookup, answers, questions) = scripted();
        let resolver = Resolver::start(&names(), AT_ONCE, lookup);
        let mut view = resolver.view(0).unwrap();
        assert!(!resolver.await_first(Duration::ZERO), "nobody has answered");
        assert_eq!(view.addresses(), (&Arc::from([]), false));
        assert_eq!(questions.recv().unwrap(), "app:80");
        answers.send(Ok(vec![address("127.0.0.1:80")])).unwrap();
        // It asks again once it has taken note of the answer.
        questions.recv().unwrap();
        assert!(resolver.await_first(PATIENCE));
        assert_eq!(view.addresses(), (&Arc::from([address("127.0.0.1:80")]), true));
        answers.send(Ok(vec![address("127.0.0.1:80")])).unwrap();
        questions.recv().unwrap();
        assert!(!view.addresses().1, "the same again is no change");
        answers.send(Ok(vec![address("127.0.0.2:80"), address("[::1]:80")])).unwrap();
        questions.recv().unwrap();
        assert_eq!(view.addresses(), (&Arc::from([address("127.0.0.2:80"), address("[::1]:80")]), true));
    }

    #[test]
    fn addresses_stay_while_a_name_cannot_be_looked_up() {
        let (lookup, answers, questions) = scripted();
        let resolver = Resolver::start(&names(), AT_ONCE, lookup);
        let mut view = resolver.view(0).unwrap();
        questions.recv().unwrap();
        answers.send(Err(io::Error::other("no such name"))).unwrap();
        questions.recv().unwrap();
        assert!(resolver.await_first(PATIENCE), "a failure is an answer, too");
        assert_eq!((view.addresses().0.len(), view.error().as_deref()), (0, Some("no such name")));
        answers.send(Ok(vec![address("127.0.0.1:80")])).unwrap();
        questions.recv().unwrap();
        assert_eq!((view.addresses().0.len(), view.error()), (1, None));
        answers.send(Ok(vec![])).unwrap();
        questions.recv().unwrap();
        assert_eq!((view.addresses().0.len(), view.error().is_some()), (1, true));
    }

    #[test]
    fn a_name_that_nobody_answers_for_holds_up_no_other() {
        let lookup: Arc<Lookup> = Arc::new(|host: &str, port| match host {
            "hangs" => loop {
                std::thread::park();
            },
            _ => Ok(vec![SocketAddr::from(([127, 0, 0, 1], port))]),
        });
        let names = [("hangs".to_owned(), 1), ("app".to_owned(), 2)];
        let resolver = Resolver::start(&names, ResolveSettings::default(), lookup);
        let mut view = resolver.view(1).unwrap();
        while view.addresses().0.is_empty() {
            std::thread::yield_now();
        }
        assert!(resolver.view(0).unwrap().addresses().0.is_empty() && resolver.view(2).is_none());
    }

    #[test]
    fn a_resolver_that_is_dropped_asks_no_more() {
        let (lookup, answers, questions) = scripted();
        let settings = ResolveSettings { period: PATIENCE, retry: PATIENCE };
        let resolver = Resolver::start(&names(), settings, lookup);
        questions.recv().unwrap();
        answers.send(Ok(vec![address("127.0.0.1:80")])).unwrap();
        drop(resolver);
        let next = questions.recv_timeout(PATIENCE);
        assert_eq!(next, Err(RecvTimeoutError::Disconnected), "the thread has ended, and with it the channel");
    }

    #[test]
    fn the_system_knows_localhost() {
        let found = by_system("localhost", 5).unwrap();
        assert!(found.iter().all(|address| address.ip().is_loopback() && address.port() == 5) && !found.is_empty());
    }
}
