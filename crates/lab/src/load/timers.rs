//! Times at which something is to happen to a connection: the end of thinking, the next portion of a slow reader.
//!
//! A timer is not cancelled: it carries the generation of the connection it was set for, and the taker compares.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The action that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Alarm {
    /// The connection may ask again, or try again to connect.
    Ask,
    /// The slow reader may read on.
    Read,
    /// The slow writer may write on.
    Write,
}

/// A timer that has come due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Timer {
    pub(super) due_ns: u64,
    pub(super) connection: u32,
    pub(super) generation: u32,
    pub(super) alarm: Alarm,
}

/// The timers of one thread.
#[derive(Debug, Default)]
pub(super) struct Timers(BinaryHeap<Reverse<Timer>>);

impl Timers {
    pub(super) fn set(&mut self, timer: Timer) {
        self.0.push(Reverse(timer));
    }

    /// When the first one is due.
    pub(super) fn first_ns(&self) -> Option<u64> {
        self.0.peek().map(|Reverse(timer)| timer.due_ns)
    }

    /// Takes the first one if it is due.
    pub(super) fn take_due(&mut self, now_ns: u64) -> Option<Timer> {
        if self.first_ns()? > now_ns {
            return None;
        }
        self.0.pop().map(|Reverse(timer)| timer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_come_in_the_order_of_their_times_and_not_before() {
        let mut timers = Timers::default();
        for due_ns in [30, 10, 20] {
            timers.set(Timer { due_ns, connection: 0, generation: 0, alarm: Alarm::Ask });
        }
        assert_eq!(timers.take_due(9), None);
        let taken: Vec<u64> = std::iter::from_fn(|| timers.take_due(20)).map(|timer| timer.due_ns).collect();
        assert_eq!(taken, [10, 20]);
        assert_eq!(timers.first_ns(), Some(30));
    }
}
