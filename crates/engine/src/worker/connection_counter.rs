//! The number of connections of a worker whose connections move between threads: each is counted by the guard that it
//! carries.
//!
//! Owns: the count. Guarantees: exact at any moment and balanced by construction, because a connection carries its
//! [`CountGuard`] from the moment it is taken and lets go of it however it ends; nothing is written for a request, and
//! the counts of two workers are never on one cache line. Does not know what connections do.

use std::sync::Arc;

/// The connections that one worker has.
#[derive(Debug, Default)]
pub struct ConnectionCounter {
    /// Every connection holds it once, and so does this.
    place: Arc<Place>,
}

/// The guard that a connection carries: it counts as long as this lives.
#[derive(Debug)]
pub struct CountGuard {
    _place: Arc<Place>,
}

/// A place with as many owners as there are connections. Aligned so that the count of owners is on a cache line of its
/// own.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Place;

impl ConnectionCounter {
    /// One more.
    pub fn welcome(&self) -> CountGuard {
        CountGuard { _place: self.place.clone() }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        Arc::strong_count(&self.place) - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_count_from_their_welcome_to_their_end_in_whatever_thread() {
        let connection_counters = ConnectionCounter::default();
        let all: Vec<CountGuard> = (0..5).map(|_| connection_counters.welcome()).collect();
        assert_eq!(connection_counters.count(), 5);
        std::thread::scope(|scope| all.into_iter().for_each(|one| drop(scope.spawn(move || drop(one)))));
        assert_eq!(connection_counters.count(), 0);
    }
}
