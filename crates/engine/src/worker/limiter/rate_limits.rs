//! Rate limits for the bytes of a connection: how fast it gets them, and the parties for which they are counted.
//!
//! Owns: [`RateLimits`], which a request brings, and [`Pacing`], by which its connection keeps them. Guarantees: no
//! thread waits in this process. The kernel paces slow connections by its own timer (`SO_MAX_PACING_RATE`), in every
//! engine alike. A connection without such limits has no pacing, and costs one comparison for each send.

use std::os::fd::AsFd;

use lamna_policy::limit::TICKS_PER_MS;
use lamna_policy::volume::{Bandwidth, Volume};
use lamna_proto::time::Instant;
use lamna_sys::tcp;

use super::share::Share;
use super::{Counted, table};

/// Bytes that are counted together, so that the table is not written to with each send.
const COUNTED_BYTES: u64 = 64 * 1024;
/// The least and the most that waits in a socket that is slowed down: half a second's worth between them. With more, a
/// timeout of a peer that does not read could pass while the kernel sends.
const WAITING_BYTES: (u64, u64) = (16 * 1024, 512 * 1024);

/// The rate limits for the answer to a request.
#[derive(Debug, Default)]
pub struct RateLimits {
    /// How fast it is sent.
    pub(super) bandwidth: Option<Bandwidth>,
    /// Its shares in bandwidth that it has in common with other connections.
    pub(super) shares: Vec<Share>,
    /// The meters that count its bytes.
    pub(super) meters: Vec<Meter>,
}

/// Counts bytes for one limit and network.
#[derive(Debug)]
pub struct Meter {
    counted: Counted,
    hash: u64,
    volume: Volume,
    bytes: u64,
    /// The part of them that the table has counted, in ticks and bytes.
    charged: (u64, u64),
    now: Instant,
}

/// The rate limits that apply to a connection from a request with rate limits on.
#[derive(Debug)]
pub struct Pacing {
    rate_limits: RateLimits,
    /// Bytes since these rate limits apply.
    sent: u64,
    /// The rate to which its socket was slowed down, in bytes per second.
    pace: Option<u64>,
    /// The bound on unsent bytes in the socket before it was slowed down.
    unsent_bound: u32,
    /// Nothing has been under way since these rate limits came: the next request replaces them.
    is_done: bool,
}

impl RateLimits {
    /// None if they say nothing.
    pub(super) fn any(self) -> Option<Box<RateLimits>> {
        (!self.is_empty()).then(|| Box::new(self))
    }

    fn is_empty(&self) -> bool {
        self.bandwidth.is_none() && self.shares.is_empty() && self.meters.is_empty()
    }

    /// Those of two requests that are answered at the same time, or of two kinds of limits for one.
    pub(super) fn join(&mut self, other: RateLimits) {
        self.bandwidth = match (self.bandwidth, other.bandwidth) {
            (Some(one), Some(other)) => Some(one.slower(other)),
            (one, other) => one.or(other),
        };
        for meter in other.meters {
            if self.meters.iter().all(|known| known.hash != meter.hash) {
                self.meters.push(meter);
            }
        }
        for share in other.shares {
            if self.shares.iter().all(|known| known.hash != share.hash) {
                self.shares.push(share);
            }
        }
    }
}

impl Meter {
    pub(super) fn new(counted: Counted, hash: u64, volume: Volume, now: Instant) -> Meter {
        Meter { counted, hash, volume, bytes: 0, charged: (0, 0), now }
    }

    fn count(&mut self, bytes: u64, now: Instant) {
        self.bytes += bytes;
        self.now = now;
        if self.bytes - self.charged.1 >= COUNTED_BYTES {
            self.charge();
        }
    }

    fn charge(&mut self) {
        // Of all of them, so that nothing is lost to rounding.
        let all = self.volume.ticks(self.bytes);
        let (now, ticks) = (self.now.ms() * TICKS_PER_MS, all.saturating_sub(self.charged.0));
        if ticks > 0 {
            table::change(&*self.counted.buckets, self.hash, |arrival| self.volume.charge(arrival, now, ticks));
            self.charged = (all, self.bytes);
        }
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.charge();
    }
}

impl Pacing {
    /// The pacing of a connection that had none.
    pub fn new(rate_limits: RateLimits, socket: impl AsFd) -> Pacing {
        let mut pacing = Pacing { rate_limits, sent: 0, pace: None, unsent_bound: 0, is_done: false };
        pacing.enter(socket);
        pacing
    }

    /// The connection has nothing under way.
    pub fn handle_idle(&mut self) {
        self.is_done = true;
        self.rate_limits.shares.iter_mut().for_each(Share::leave);
    }

    /// A request with other rate limits, or none, has come. False if the pacing is over.
    pub fn handle_request(&mut self, rate_limits: Option<Box<RateLimits>>, socket: impl AsFd) -> bool {
        if std::mem::take(&mut self.is_done) {
            self.sent = 0;
            self.rate_limits = rate_limits.map_or_else(RateLimits::default, |rate_limits| *rate_limits);
        } else if let Some(rate_limits) = rate_limits {
            self.rate_limits.join(*rate_limits);
        }
        self.enter(socket);
        !self.rate_limits.is_empty()
    }

    fn enter(&mut self, socket: impl AsFd) {
        self.rate_limits.shares.iter_mut().for_each(Share::enter);
        self.set_pace(socket);
    }

    /// So many bytes were given to the socket.
    pub fn handle_sent(&mut self, bytes: u64, socket: impl AsFd, now: Instant) {
        self.sent += bytes;
        self.rate_limits.meters.iter_mut().for_each(|meter| meter.count(bytes, now));
        self.set_pace(socket);
    }

    fn set_pace(&mut self, socket: impl AsFd) {
        let due = self.rate_limits.bandwidth.filter(|bandwidth| self.sent >= bandwidth.after);
        let parts = self.rate_limits.shares.iter().filter_map(Share::part);
        let pace = due.map(|bandwidth| bandwidth.bytes_per_s).into_iter().chain(parts).min();
        if pace == self.pace {
            return;
        }
        if self.pace.is_none() {
            self.unsent_bound = tcp::unsent_bound(&socket).unwrap_or(0);
        }
        self.pace = pace;
        // A socket that is not one of TCP knows neither, and is not slowed down.
        let _ = tcp::pace(&socket, pace);
        let waiting = pace.map_or(self.unsent_bound, |pace| (pace / 2).clamp(WAITING_BYTES.0, WAITING_BYTES.1) as u32);
        let _ = tcp::bound_unsent(&socket, waiting);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::limiter::share::Sharing;
    use std::net::{TcpListener, TcpStream};

    fn socket() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (listener.accept().unwrap().0, peer)
    }

    fn slow(text: &str) -> RateLimits {
        RateLimits { bandwidth: Some(text.parse().unwrap()), ..RateLimits::default() }
    }

    #[test]
    fn a_socket_is_slowed_down_after_so_many_bytes_until_a_request_that_is_not_limited() {
        let ((socket, _peer), now) = (socket(), Instant::from_ms(1));
        let mut pacing = Pacing::new(slow("64KiB/s after 1MiB"), &socket);
        assert_eq!(tcp::pace_of(&socket).unwrap(), None);
        pacing.handle_sent((1 << 20) - 1, &socket, now);
        assert_eq!(tcp::pace_of(&socket).unwrap(), None);
        pacing.handle_sent(1, &socket, now);
        assert_eq!(tcp::pace_of(&socket).unwrap(), Some(64 << 10));
        assert!(pacing.handle_request(None, &socket), "it is asked for while the other answer is sent");
        assert_eq!(tcp::pace_of(&socket).unwrap(), Some(64 << 10));
        pacing.handle_idle();
        assert!(!pacing.handle_request(None, &socket));
        assert_eq!(tcp::pace_of(&socket).unwrap(), None);
    }

    #[test]
    fn answers_at_the_same_time_get_what_the_slower_one_gets() {
        let (socket, _peer) = socket();
        let mut pacing = Pacing::new(slow("64KiB/s"), &socket);
        assert!(pacing.handle_request(Some(Box::new(slow("32KiB/s after 5MiB"))), &socket));
        assert_eq!(tcp::pace_of(&socket).unwrap(), Some(32 << 10));
    }

    #[test]
    fn connections_that_share_are_slowed_down_while_others_have_something_under_way() {
        let sharing = Sharing::new().unwrap();
        let rate_limits = || RateLimits { shares: vec![sharing.share(7 << 40, 1 << 20)], ..RateLimits::default() };
        let ((one, _one), (other, _other), now) = (socket(), socket(), Instant::from_ms(1));
        let mut pacing = Pacing::new(rate_limits(), &one);
        assert_eq!(tcp::pace_of(&one).unwrap(), Some(1 << 20));
        let mut second = Pacing::new(rate_limits(), &other);
        pacing.handle_sent(1, &one, now);
        assert_eq!((tcp::pace_of(&one).unwrap(), tcp::pace_of(&other).unwrap()), (Some(1 << 19), Some(1 << 19)));
        second.handle_idle();
        pacing.handle_sent(1, &one, now);
        assert_eq!(tcp::pace_of(&one).unwrap(), Some(1 << 20));
        assert!(second.handle_request(Some(Box::new(rate_limits())), &other));
        pacing.handle_sent(1, &one, now);
        assert_eq!(tcp::pace_of(&one).unwrap(), Some(1 << 19));
        drop(second);
        pacing.handle_sent(1, &one, now);
        assert_eq!(tcp::pace_of(&one).unwrap(), Some(1 << 20));
    }

    #[test]
    fn bytes_are_counted_for_their_network_also_the_last_ones() {
        let ((socket, _peer), counted) = (socket(), Counted::new().unwrap());
        let (volume, now): (Volume, _) = ("1MiB/h".parse().unwrap(), Instant::from_ms(1));
        let wait = || volume.wait(table::arrival(&*counted.buckets, 77), TICKS_PER_MS);
        let rate_limits =
            RateLimits { meters: vec![Meter::new(counted.clone(), 77, volume, now)], ..RateLimits::default() };
        let mut pacing = Pacing::new(rate_limits, &socket);
        (0..1024).for_each(|_| pacing.handle_sent(1024, &socket, now));
        assert_eq!(wait(), None);
        pacing.handle_sent(1024, &socket, now);
        drop(pacing);
        assert_eq!(wait(), Some(volume.ticks(1024)));
    }
}
