//! Connections to one upstream that are kept between requests, by all workers of a process.
//!
//! Owns: idle connections. Guarantees: a connection that is given out was open a moment ago, and has received no
//! unrequested bytes; as many are kept as the settings allow, for as long as they allow; no caller waits for another:
//! it is a few bounded queues without locks. Does not know what is under way.

use std::os::fd::AsRawFd;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use crossbeam_channel::{Receiver, Sender, bounded};
use lamna_proto::time::Instant;

use super::link::Link;

/// Connections that are kept. Each is a descriptor, here and in the application.
const KEPT_MAX: usize = 64;
/// How long one is kept unused. Less than applications do: who sends a request just when the application closes cannot
/// know whether it was taken. The shortest of those in wide use is 5 s (Node).
const IDLE_MS: u64 = 4_000;

/// Threads prefer what they have kept themselves, as their event loops watch it: there are so many queues.
const QUEUES: usize = 4;

/// The idle connections to one upstream.
#[derive(Debug)]
pub struct Pool {
    queues: [Queue; QUEUES],
    count: AtomicUsize,
}

#[derive(Debug)]
struct Queue {
    kept: Sender<Idle>,
    idle: Receiver<Idle>,
}

#[derive(Debug)]
struct Idle {
    link: Link,
    since: Instant,
}

impl Default for Queue {
    fn default() -> Queue {
        let (kept, idle) = bounded(KEPT_MAX);
        Queue { kept, idle }
    }
}

impl Default for Pool {
    fn default() -> Pool {
        Pool { queues: Default::default(), count: AtomicUsize::new(0) }
    }
}

impl Pool {
    /// Takes a connection that is open; of those that this thread has kept, or of the others, the one that has waited
    /// longest. `looks`: see [`Link::is_quiet`], which may take a system call for each that is looked at, or two where
    /// TLS is spoken; what has ended, or is too old, is closed.
    pub fn take(&self, now: Instant, looks: bool) -> Option<Link> {
        let own = own_queue();
        (0..QUEUES).find_map(|index| {
            let queue = &self.queues[(own + index) % QUEUES];
            self.drain(queue).find_map(|mut one| (is_fresh(&one, now) && one.link.is_quiet(looks)).then_some(one.link))
        })
    }

    /// Keeps a connection whose last answer is whole and that may carry another request. If there is no room, it is
    /// closed.
    pub fn put(&self, link: Link, now: Instant) {
        self.keep(&self.queues[own_queue()], Idle { link, since: now });
    }

    /// Closes connections that have been idle for too long. A thread that does not serve calls it, now and then:
    /// without requests no worker takes any.
    pub fn close_old(&self, now: Instant) {
        for queue in &self.queues {
            for one in self.drain(queue).take(queue.idle.len()).filter(|one| is_fresh(one, now)) {
                self.keep(queue, one);
            }
        }
    }

    /// Closes all: the upstream has moved, or is out.
    pub fn clear(&self) {
        self.queues.iter().for_each(|queue| self.drain(queue).for_each(drop));
    }

    /// How many are kept.
    pub fn len(&self) -> usize {
        self.queues.iter().map(|queue| queue.idle.len()).sum()
    }

    /// Whether none is kept.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn drain(&self, queue: &Queue) -> impl Iterator<Item = Idle> {
        queue.idle.try_iter().inspect(|_| {
            let count = self.count.fetch_sub(1, Relaxed);
            debug_assert!(count > 0, "a connection was kept that was not counted");
        })
    }

    /// Asserts that what is kept is what is counted, that it is within the bound, and that no connection is kept twice.
    /// Only while no thread takes or keeps one. The work is linear in what is kept.
    ///
    /// # Panics
    /// If it is not.
    pub(super) fn check_invariants(&self) {
        let mut kept: Vec<i32> = Vec::new();
        for queue in &self.queues {
            for one in queue.idle.try_iter().take(queue.idle.len()).collect::<Vec<_>>() {
                kept.push(one.link.socket().as_raw_fd());
                assert!(queue.kept.try_send(one).is_ok(), "there is room where one was");
            }
        }
        assert_eq!(self.count.load(Relaxed), kept.len(), "the count is not that of the queues");
        assert!(kept.len() <= KEPT_MAX, "{} are kept", kept.len());
        kept.sort_unstable();
        assert!(kept.windows(2).all(|two| two[0] != two[1]), "a connection is kept twice: {kept:?}");
    }

    fn keep(&self, queue: &Queue, one: Idle) {
        // A queue has room for all. What is given back, or not kept, is closed.
        if self.count.fetch_add(1, Relaxed) >= KEPT_MAX || queue.kept.try_send(one).is_err() {
            self.count.fetch_sub(1, Relaxed);
        }
    }
}

/// Which queue this thread keeps connections in.
fn own_queue() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static OWN: usize = THREADS.fetch_add(1, Relaxed) % QUEUES;
    }
    OWN.with(|own| *own)
}

fn is_fresh(one: &Idle, now: Instant) -> bool {
    now.since(one.since) < IDLE_MS
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use super::*;

    /// Our end, its number, and the application's.
    fn connection() -> (Link, i32, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let number = ours.as_raw_fd();
        (Link::new(ours.into(), None), number, theirs)
    }

    #[test]
    fn a_connection_that_is_kept_is_used_again_once() {
        let pool = Pool::default();
        let (socket, number, _peer) = connection();
        pool.put(socket, Instant::from_ms(0));
        assert_eq!(
            (pool.len(), pool.take(Instant::from_ms(1), false).map(|link| link.socket().as_raw_fd())),
            (1, Some(number))
        );
        assert!(pool.take(Instant::from_ms(1), false).is_none() && pool.is_empty());
        pool.check_invariants();
    }

    #[test]
    fn what_the_application_has_closed_or_spoken_on_is_not_used() {
        let pool = Pool::default();
        let ((closed, ..), (spoken, _, mut speaker), (good, number, _peer)) =
            (connection(), connection(), connection());
        speaker.write_all(b"HTTP/1.1 408 Request Timeout\r\n\r\n").unwrap();
        for socket in [closed, spoken, good] {
            pool.put(socket, Instant::from_ms(0));
        }
        assert_eq!(pool.take(Instant::from_ms(1), false).map(|link| link.socket().as_raw_fd()), Some(number));
        assert!(pool.is_empty());
        pool.check_invariants();
    }

    #[test]
    fn what_is_too_old_is_closed() {
        let pool = Pool::default();
        let (socket, _, _peer) = connection();
        pool.put(socket, Instant::from_ms(0));
        assert!(pool.take(Instant::from_ms(IDLE_MS), false).is_none() && pool.is_empty());
        pool.check_invariants();
    }

    #[test]
    fn what_nobody_takes_is_closed_when_it_is_old() {
        let pool = Pool::default();
        let (old, _, mut application_of_old) = connection();
        let (young, number, _application) = connection();
        pool.put(old, Instant::from_ms(0));
        pool.put(young, Instant::from_ms(1));
        pool.close_old(Instant::from_ms(IDLE_MS - 1));
        assert_eq!(pool.len(), 2);
        pool.check_invariants();
        pool.close_old(Instant::from_ms(IDLE_MS));
        assert_eq!(application_of_old.read(&mut [0]).unwrap(), 0, "it was closed");
        let taken = pool.take(Instant::from_ms(IDLE_MS), false);
        assert_eq!(taken.map(|link| link.socket().as_raw_fd()), Some(number));
        pool.check_invariants();
    }

    #[test]
    fn no_more_are_kept_than_there_may_be() {
        let pool = Pool::default();
        let peers: Vec<UnixStream> = (0..KEPT_MAX + 3)
            .map(|_| {
                let (socket, _, peer) = connection();
                pool.put(socket, Instant::from_ms(0));
                peer
            })
            .collect();
        assert_eq!((pool.len(), peers.len()), (KEPT_MAX, KEPT_MAX + 3));
        pool.check_invariants();
        pool.clear();
        assert!(pool.is_empty());
        pool.check_invariants();
    }
}
