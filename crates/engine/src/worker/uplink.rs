//! The uplink that all workers send over, where the configuration says how fast it is.
//!
//! Owns: [`Uplink`], which says when something may be sent so that what has been sent is never much ahead of what the
//! link can have carried. So answers wait in the server, where the `schedule` decides which goes on, and not in queues
//! of the kernel or of a router, which serve in the order of arrival. Guarantees: one atomic in memory that all
//! processes share; no lock. Without a rate no worker asks it.
//!
//! It is the generic cell rate algorithm (ITU-T I.371) with bytes for cells: `free` is when the link will have carried
//! everything.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use lamna_proto::time::Instant;
use lamna_sys::clock::Clock;
use lamna_sys::shared_memory::SharedMemory;

/// How far what is sent may be ahead of the link. A worker that waits is woken by the millisecond, and must not leave
/// the link idle.
const AHEAD_US: u64 = 4_000;
/// Bytes of memory in a turn; of a file it is a quarter ([`turn_budget`](super::turn_budget)). Where the link is slow,
/// an answer of a few bytes waits for one such turn.
pub const TURN_BYTES: u64 = 64 * 1024;
/// The longest sleep of a thread that waits for a permit: then it looks at its orders.
const SLEEP_US_MAX: u64 = 20_000;

/// How connections of a worker get permits to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendPermit {
    /// They need none.
    Unlimited,
    /// A connection that has something to send stands in the run queue until it is its turn. Whether that is now.
    ByTurn(bool),
    /// The thread sleeps until there is a permit.
    BySleep,
}

/// When the link is free, in microseconds of the server's clock. In memory that processes share.
pub type LinkClock = SharedMemory<AtomicU64>;

/// A link of a known rate.
#[derive(Clone, Debug)]
pub struct Uplink {
    bytes_per_s: u64,
    free: LinkClock,
    clock: Clock,
}

impl Uplink {
    /// A link of this rate, and none for a rate of zero: then no connection needs a permit. It is free now, whatever
    /// has been sent: the old time was perhaps computed at another rate, at which a turn could take a minute.
    pub fn new(bytes_per_s: u64, free: &LinkClock, clock: Clock) -> Option<Uplink> {
        free.store(0, Relaxed);
        (bytes_per_s > 0).then(|| Uplink { bytes_per_s, free: free.clone(), clock })
    }

    /// When something may be sent; none for now.
    pub fn due(&self) -> Option<Instant> {
        self.due_at(self.clock.now())
    }

    fn due_at(&self, now: Instant) -> Option<Instant> {
        let free_us = self.free.load(Relaxed);
        (free_us > now.us() + AHEAD_US).then(|| Instant::from_us(free_us - AHEAD_US))
    }

    /// Sleeps until something may be sent, or it is time to look at orders. For threads that do nothing else meanwhile.
    pub fn wait(&self) {
        let wait_us = self.due().map_or(0, |due| due.us().saturating_sub(self.clock.now().us()));
        if wait_us > 0 {
            std::thread::sleep(Duration::from_micros(wait_us.min(SLEEP_US_MAX)));
        }
    }

    /// So much has been sent.
    pub fn count(&self, bytes: u64) {
        self.count_at(self.clock.now(), bytes);
    }

    fn count_at(&self, now: Instant, bytes: u64) {
        let takes_us = bytes.saturating_mul(1_000_000) / self.bytes_per_s;
        let add = |free_us: u64| Some(free_us.max(now.us()).saturating_add(takes_us));
        // It adds something each time, so it is never refused.
        let _ = self.free.fetch_update(Relaxed, Relaxed, add);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn uplink(bytes_per_s: u64) -> Uplink {
        Uplink::new(bytes_per_s, &SharedMemory::default(), Clock::start()).expect("it has a rate")
    }

    #[test]
    fn without_a_rate_nobody_needs_a_permit() {
        assert!(Uplink::new(0, &SharedMemory::default(), Clock::start()).is_none());
    }

    #[test]
    fn who_has_sent_a_lot_waits_until_the_link_has_carried_it() {
        let uplink = uplink(1_000_000);
        let at = Instant::from_us;
        assert_eq!(uplink.due_at(at(0)), None);
        uplink.count_at(at(0), 100_000);
        assert_eq!(uplink.due_at(at(0)), Some(at(96_000)));
        assert_eq!(uplink.due_at(at(95_999)), Some(at(96_000)));
        assert_eq!(uplink.due_at(at(96_000)), None);
        // What it did not carry while nothing was sent, it does not carry later.
        uplink.count_at(at(10_000_000), 100_000);
        assert_eq!(uplink.due_at(at(10_000_000)), Some(at(10_096_000)));
    }

    #[test]
    fn all_who_hold_it_send_over_one_link() {
        let free = SharedMemory::default();
        let [one, other] = [(); 2].map(|()| Uplink::new(1_000, &free, Clock::start()).expect("it has a rate"));
        one.count_at(Instant::from_us(0), 1_000);
        assert_eq!(other.due_at(Instant::from_us(0)), Some(Instant::from_us(996_000)));
    }

    #[test]
    fn nobody_waits_for_what_was_sent_at_another_rate() {
        let free = SharedMemory::default();
        let slow = Uplink::new(1, &free, Clock::start()).expect("it has a rate");
        slow.count_at(Instant::from_us(0), 1_000_000);
        assert!(slow.due_at(Instant::from_us(0)).is_some());
        let fast = Uplink::new(1_000_000, &free, Clock::start()).expect("it has a rate");
        assert_eq!(fast.due_at(Instant::from_us(0)), None);
    }

    proptest! {
        #[test]
        fn no_more_is_sent_than_the_link_carries_and_one_turn(
            bytes_per_s in 1_000_u64..1_000_000_000,
            turns in proptest::collection::vec((0_u64..20_000, 1_u64..TURN_BYTES), 1..200),
        ) {
            let uplink = uplink(bytes_per_s);
            let (mut now_us, mut sent) = (0, 0);
            for (later_us, bytes) in turns {
                now_us += later_us;
                if uplink.due_at(Instant::from_us(now_us)).is_none() {
                    uplink.count_at(Instant::from_us(now_us), bytes);
                    sent += bytes;
                }
                let carries = bytes_per_s as u128 * u128::from(now_us + AHEAD_US) / 1_000_000;
                // Each count is rounded down by less than a microsecond's worth.
                let rounding = 200 * (bytes_per_s / 1_000_000 + 1);
                prop_assert!(u128::from(sent) <= carries + u128::from(TURN_BYTES + rounding));
            }
        }
    }
}
