//! The observation record that serving threads send to the learner, and the bounded queues that carry it.
//!
//! Owns: [`Observation`], a record of fixed size, and [`Queues`]. Guarantees: telling allocates nothing, takes no lock,
//! makes no system call and never waits: a record that finds its queue full is dropped and counted. The learner polls
//! the queues, so no thread is woken. Which records are dropped depends on when they come and not on what they say: so
//! what is dropped changes no probability.
//!
//! Does not: hold addresses, cookies or queries. What tells connections from each other is a number that means nothing
//! a moment later.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crossbeam_channel::{Receiver, Sender, bounded};

/// Bytes that target and `Referer` may have together. What is longer is not learned.
pub const TEXT_BYTES: usize = 232;

/// Queues that all threads share: threads are dealt out to them in turn, or connections if these go from thread to
/// thread.
const QUEUES: usize = 8;

/// Records that wait in one queue. With [`super::learning::LOOK_MS`] this bounds what learning costs: about 10,000
/// records a second and queue.
const QUEUE_RECORDS: usize = 256;

/// A request that was answered, as a serving thread tells it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Observation {
    /// The path, and behind it the path that `Referer` names on the same site.
    pub(super) text: [u8; TEXT_BYTES],
    pub(super) target_length: u8,
    pub(super) referer_length: u8,
    /// Whether it is a page that was navigated to, as far as that can be told.
    pub(super) is_page: bool,
    /// Whether it may be what follows a page: it has no query.
    pub(super) follows: bool,
    /// The index of the site.
    pub(super) site: u32,
    /// The server's clock, in milliseconds.
    pub(super) at_ms: u32,
    /// The site's number in the table.
    pub(super) site_number: u64,
    /// Tells connections from each other; zero where their order says nothing.
    pub(super) connection: u64,
}

impl Observation {
    /// The record of a request for `target`, which is normalised, with the path that `Referer` names. None if that is
    /// too long.
    pub(super) fn new(target: &[u8], referer: &[u8]) -> Option<Observation> {
        let mut text = [0; TEXT_BYTES];
        let end = target.len() + referer.len();
        text.get_mut(..target.len())?.copy_from_slice(target);
        text.get_mut(target.len()..end)?.copy_from_slice(referer);
        Some(Observation {
            text,
            // At most `TEXT_BYTES`.
            target_length: target.len() as u8,
            referer_length: referer.len() as u8,
            is_page: false,
            follows: true,
            site: 0,
            at_ms: 0,
            site_number: 0,
            connection: 0,
        })
    }

    /// The path that was asked for.
    pub(super) fn target(&self) -> &[u8] {
        &self.text[..usize::from(self.target_length)]
    }

    /// The path that `Referer` names, as it was received; empty if there is none.
    pub(super) fn referer(&self) -> &[u8] {
        &self.text[usize::from(self.target_length)..][..usize::from(self.referer_length)]
    }
}

const _: () = assert!(TEXT_BYTES <= u8::MAX as usize);

/// The queues from serving threads to the learner.
#[derive(Debug)]
pub(super) struct Queues {
    queues: [(Sender<Observation>, Receiver<Observation>); QUEUES],
    dealt: AtomicUsize,
}

impl Default for Queues {
    fn default() -> Queues {
        Queues { queues: std::array::from_fn(|_| bounded(QUEUE_RECORDS)), dealt: AtomicUsize::new(0) }
    }
}

impl Queues {
    /// Bytes that they take.
    pub(super) const MEMORY_BYTES: usize = QUEUES * QUEUE_RECORDS * (size_of::<Observation>() + size_of::<usize>());

    /// The queue of one more thread.
    pub(super) fn deal(&self) -> usize {
        self.dealt.fetch_add(1, Relaxed) % QUEUES
    }

    /// The queue of a connection that threads take turns at: so what they tell of it stays in order.
    pub(super) fn of_connection(connection: u64) -> usize {
        (connection % QUEUES as u64) as usize
    }

    /// Whether a record would be dropped.
    pub(super) fn is_full(&self, queue: usize) -> bool {
        self.queues[queue].0.is_full()
    }

    /// Tells the learner. Whether there was room.
    pub(super) fn tell(&self, queue: usize, observation: Observation) -> bool {
        self.queues[queue].0.try_send(observation).is_ok()
    }

    /// The next record, of the queues in turn.
    pub(super) fn take(&self, queue: usize) -> Option<Observation> {
        self.queues[queue].1.try_recv().ok()
    }

    /// Their numbers.
    pub(super) fn all() -> std::ops::Range<usize> {
        0..QUEUES
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_told_is_what_arrives_unless_it_is_too_long(target: Vec<u8>, referer: Vec<u8>) {
            let told = Observation::new(&target, &referer);
            prop_assert_eq!(told.is_some(), target.len() + referer.len() <= TEXT_BYTES);
            if let Some(told) = told {
                prop_assert_eq!((told.target(), told.referer()), (&*target, &*referer));
            }
        }
    }

    #[test]
    fn what_finds_its_lane_full_is_dropped() {
        let queues = Queues::default();
        let one = Observation::new(b"/a", b"").unwrap();
        assert_eq!((0..1_000).filter(|_| queues.tell(0, one)).count(), QUEUE_RECORDS);
        assert!(queues.is_full(0) && !queues.is_full(1));
        assert_eq!(std::iter::from_fn(|| queues.take(0)).count(), QUEUE_RECORDS);
    }
}
