//! Connections to upstreams that are kept between requests: those of one worker, so that no other is waited for.
//!
//! Owns: idle connections. Guarantees: what is given out was open a moment ago, and nothing has come on it that nobody
//! asked for; as many are kept as the settings allow, for as long as they allow, the longest unused going first. Does not
//! know what is under way.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};

use lamna_proto::time::Instant;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

/// How many connections are kept, and how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSettings {
    /// For each upstream.
    pub each_max: usize,
    /// For all together: each is a descriptor, here and in the application.
    pub all_max: usize,
    /// Unused. Less than applications do: who sends a request just when the application closes cannot know whether it was
    /// taken. The shortest of those in wide use is 5 s (Node).
    pub idle_ms: u32,
}

impl Default for PoolSettings {
    fn default() -> PoolSettings {
        PoolSettings { each_max: 32, all_max: 256, idle_ms: 4_000 }
    }
}

/// The idle connections of one worker, by upstream.
#[derive(Debug)]
pub struct Pool {
    settings: PoolSettings,
    /// The longest unused first.
    idle: Vec<VecDeque<Idle>>,
    count: usize,
}

#[derive(Debug)]
struct Idle {
    socket: OwnedFd,
    since: Instant,
}

impl Pool {
    /// For so many upstreams, which are named by their index.
    pub fn new(upstreams: usize, settings: PoolSettings) -> Pool {
        Pool { settings, idle: (0..upstreams).map(|_| VecDeque::new()).collect(), count: 0 }
    }

    /// Takes the connection that was used last, if one is left that is open: others may then grow old and be closed. One
    /// system call for each that is looked at; what has ended is closed.
    pub fn take(&mut self, upstream: usize, now: Instant) -> Option<OwnedFd> {
        let idle = self.idle.get_mut(upstream)?;
        while let Some(last) = idle.pop_back() {
            self.count -= 1;
            let is_fresh = now.since(last.since) < u64::from(self.settings.idle_ms);
            if is_fresh && is_quiet(&last.socket) {
                return Some(last.socket);
            }
        }
        None
    }

    /// Keeps a connection whose last answer is whole and that may carry another request. If there is no room, the longest
    /// unused of the same upstream is closed, or of all.
    pub fn put(&mut self, upstream: usize, socket: OwnedFd, now: Instant) {
        let has_place = self.settings.each_max > 0 && self.settings.all_max > 0;
        let Some(length) = self.idle.get(upstream).map(VecDeque::len).filter(|_| has_place) else { return };
        if length >= self.settings.each_max {
            self.close_front(upstream);
        } else if self.count >= self.settings.all_max {
            self.close_oldest();
        }
        if let Some(idle) = self.idle.get_mut(upstream) {
            idle.push_back(Idle { socket, since: now });
            self.count += 1;
        }
    }

    /// Closes what has been idle for too long. When there will be something to close again.
    pub fn expire(&mut self, now: Instant) -> Option<Instant> {
        let idle_ms = self.settings.idle_ms;
        for idle in &mut self.idle {
            while idle.front().is_some_and(|first| now.since(first.since) >= u64::from(idle_ms)) {
                idle.pop_front();
                self.count -= 1;
            }
        }
        let firsts = self.idle.iter().filter_map(VecDeque::front);
        firsts.map(|first| first.since.after_ms(idle_ms)).min()
    }

    /// Closes all of an upstream that has moved, or that is out.
    pub fn close(&mut self, upstream: usize) {
        if let Some(idle) = self.idle.get_mut(upstream) {
            self.count -= idle.len();
            idle.clear();
        }
    }

    /// Closes the one that is unused for the longest time, where descriptors are short. Whether there was one.
    pub fn close_oldest(&mut self) -> bool {
        let firsts = self.idle.iter().enumerate().filter_map(|(index, idle)| Some((idle.front()?.since, index)));
        let oldest = firsts.min().map(|(_, index)| index);
        oldest.is_some_and(|upstream| self.close_front(upstream))
    }

    /// How many are kept.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether none is kept.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn close_front(&mut self, upstream: usize) -> bool {
        let closed = self.idle.get_mut(upstream).and_then(VecDeque::pop_front).is_some();
        self.count -= usize::from(closed);
        closed
    }
}

/// Whether the peer has neither closed nor sent anything: an answer that nobody asked for must not become somebody's.
fn is_quiet(socket: &OwnedFd) -> bool {
    let looked = recv(socket.as_fd(), &mut [0_u8], RecvFlags::PEEK | RecvFlags::DONTWAIT);
    matches!(looked.map(|(_, bytes)| bytes), Err(Errno::AGAIN | Errno::INTR))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    use proptest::prelude::*;

    use super::*;

    const SETTINGS: PoolSettings = PoolSettings { each_max: 2, all_max: 3, idle_ms: 1_000 };

    /// Our end, its number, and the application's.
    fn connection() -> (OwnedFd, i32, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let number = ours.as_raw_fd();
        (ours.into(), number, theirs)
    }

    #[test]
    fn the_connection_that_was_used_last_is_used_next() {
        let mut pool = Pool::new(2, SETTINGS);
        let ((first, _, _peer), (second, number, _other)) = (connection(), connection());
        pool.put(0, first, Instant(0));
        pool.put(0, second, Instant(1));
        assert!(pool.take(1, Instant(2)).is_none(), "it is another upstream's");
        assert_eq!(pool.take(0, Instant(2)).map(|socket| socket.as_raw_fd()), Some(number));
        assert_eq!(pool.len(), 1);
    }

    #[test]
    fn a_connection_that_has_ended_or_on_which_something_came_is_not_given_out() {
        let mut pool = Pool::new(1, SETTINGS);
        let ((closed, _, peer), (chatty, _, mut other)) = (connection(), connection());
        drop(peer);
        other.write_all(b"HTTP/1.1 408 Request Timeout\r\n\r\n").unwrap();
        pool.put(0, closed, Instant(0));
        pool.put(0, chatty, Instant(0));
        assert!(pool.take(0, Instant(0)).is_none() && pool.is_empty());
    }

    #[test]
    fn connections_are_closed_when_they_were_idle_for_their_time() {
        let mut pool = Pool::new(2, SETTINGS);
        let ((a, _, _peer), (b, _, _other)) = (connection(), connection());
        pool.put(0, a, Instant(0));
        pool.put(1, b, Instant(300));
        assert_eq!(pool.expire(Instant(999)), Some(Instant(1_000)));
        assert_eq!(pool.len(), 2);
        assert_eq!(pool.expire(Instant(1_000)), Some(Instant(1_300)));
        assert!(pool.take(0, Instant(1_000)).is_none());
        assert!(pool.take(1, Instant(1_300)).is_none(), "it is too old, though nobody had looked");
        assert_eq!(pool.expire(Instant(1_300)), None);
    }

    #[test]
    fn the_longest_unused_makes_room() {
        let mut pool = Pool::new(3, SETTINGS);
        let connections: Vec<_> = (0..5).map(|_| connection()).collect();
        let numbers: Vec<i32> = connections.iter().map(|(_, number, _)| *number).collect();
        let (mut peers, upstreams) = (Vec::new(), [0, 0, 0, 1, 2]);
        for (at, (socket, _, peer)) in connections.into_iter().enumerate() {
            pool.put(upstreams[at], socket, Instant(at as u64));
            peers.push(peer);
            assert!(pool.len() <= SETTINGS.all_max);
        }
        // The first made room for the third, the second for the fifth.
        let mut left = |upstream| pool.take(upstream, Instant(5)).map(|socket| socket.as_raw_fd());
        assert_eq!([left(0), left(0), left(1), left(2)], [Some(numbers[2]), None, Some(numbers[3]), Some(numbers[4])]);
    }

    #[test]
    fn nothing_is_kept_where_nothing_may_be_or_for_whom_nobody_knows() {
        let mut pool = Pool::new(1, PoolSettings { each_max: 0, ..SETTINGS });
        pool.put(0, connection().0, Instant(0));
        let mut other = Pool::new(1, SETTINGS);
        other.put(7, connection().0, Instant(0));
        other.close(7);
        assert!(pool.is_empty() && other.is_empty() && !other.close_oldest() && other.take(7, Instant(0)).is_none());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn the_bounds_hold_whatever_happens(events in prop::collection::vec((0..5_u8, 0..3_usize, 0..600_u64), 0..60)) {
            let (mut pool, mut now, mut peers) = (Pool::new(3, SETTINGS), 0, Vec::new());
            for (event, upstream, wait_ms) in events {
                now += wait_ms;
                match event {
                    0 | 1 => {
                        let (socket, _, peer) = connection();
                        peers.push(peer);
                        pool.put(upstream, socket, Instant(now));
                    }
                    2 => drop(pool.take(upstream, Instant(now))),
                    3 => drop(pool.expire(Instant(now))),
                    _ => pool.close(upstream),
                }
                prop_assert_eq!(pool.len(), pool.idle.iter().map(VecDeque::len).sum::<usize>());
                prop_assert!(pool.len() <= SETTINGS.all_max);
                prop_assert!(pool.idle.iter().all(|idle| idle.len() <= SETTINGS.each_max));
            }
        }
    }
}
