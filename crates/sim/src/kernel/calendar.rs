//! The calendar: a binary heap of events by instant.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Virtual time, or a span of it, in nanoseconds. 2^64 ns are 584 years.
pub type Nanos = u64;

/// An event and its place in the order. Compared by instant, then by the number of its scheduling.
struct Entry<E> {
    /// The instant in the upper half, the number in the lower: one comparison.
    order: u128,
    event: E,
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.order.cmp(&other.order)
    }
}

/// The future events, and the present.
///
/// ```
/// let mut calendar = lamna_sim::kernel::Calendar::new();
/// calendar.after(20, "later");
/// calendar.after(10, "sooner");
/// assert_eq!(calendar.next(), Some("sooner"));
/// assert_eq!(calendar.now(), 10);
/// ```
pub struct Calendar<E> {
    heap: BinaryHeap<Reverse<Entry<E>>>,
    now: Nanos,
    scheduled: u64,
    handled: u64,
}

impl<E> Calendar<E> {
    /// Empty, at instant zero.
    pub fn new() -> Self {
        Calendar { heap: BinaryHeap::new(), now: 0, scheduled: 0, handled: 0 }
    }

    /// The instant of the last event taken.
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Schedules `event` for `delay` from now.
    pub fn after(&mut self, delay: Nanos, event: E) {
        let instant = self.now.saturating_add(delay);
        let order = u128::from(instant) << 64 | u128::from(self.scheduled);
        self.scheduled += 1;
        self.heap.push(Reverse(Entry { order, event }));
    }

    /// Takes the next event and moves the present to it; `None` if nothing is to come. Not an iterator: events are
    /// scheduled between two calls.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Option<E> {
        let Reverse(entry) = self.heap.pop()?;
        self.now = (entry.order >> 64) as Nanos;
        self.handled += 1;
        Some(entry.event)
    }

    /// Events taken since the beginning.
    pub fn handled(&self) -> u64 {
        self.handled
    }
}

impl<E> Default for Calendar<E> {
    fn default() -> Self {
        Self::new()
    }
}
