//! Who ends if a client network holds more memory than it may: the connections that hold most, the largest first, until the others are within the bound.
//!
//! Owns: [`Loads`], the connections of this process that hold much, and [`Load`], one of them. Guarantees: it is decided when something more is held, whoever holds it and
//! whether its client says anything; a connection that is to end is told by its own word ([`Load::is_doomed`]), so that who drives it needs no lock.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A connection that holds much.
#[derive(Debug, Default)]
pub(super) struct Load {
    bytes: AtomicU64,
    is_doomed: AtomicBool,
}

/// The connections of a process that hold much, by the place of their network.
#[derive(Debug, Default)]
pub(super) struct Loads(Mutex<HashMap<u32, Vec<Arc<Load>>>>);

impl Load {
    /// Whether the connection is to end.
    pub(super) fn is_doomed(&self) -> bool {
        self.is_doomed.load(Relaxed)
    }

    /// It holds so much now.
    pub(super) fn set(&self, bytes: u64) {
        self.bytes.store(bytes, Relaxed);
    }
}

impl Loads {
    /// A connection of the network at `place` holds much from now on.
    pub(super) fn begin(&self, place: u32) -> Arc<Load> {
        let load = Arc::new(Load::default());
        self.lock().entry(place).or_default().push(load.clone());
        load
    }

    /// It is gone.
    pub(super) fn end(&self, place: u32, load: &Arc<Load>) {
        let mut loads = self.lock();
        if let Some(of_network) = loads.get_mut(&place) {
            of_network.retain(|one| !Arc::ptr_eq(one, load));
            if of_network.is_empty() {
                loads.remove(&place);
            }
        }
    }

    /// The network at `place` holds `excess` bytes more than it may: has those end that hold most. How many more that are.
    pub(super) fn relieve(&self, place: u32, excess: u64) -> usize {
        let loads = self.lock();
        let Some(of_network) = loads.get(&place) else { return 0 };
        // What they hold changes meanwhile: it is looked at once, since nothing that is sorted may change its order.
        let held = |load: &Arc<Load>| load.bytes.load(Relaxed);
        let leaving: u64 = of_network.iter().filter(|load| load.is_doomed()).map(held).sum();
        let mut left = excess.saturating_sub(leaving);
        if left == 0 {
            return 0;
        }
        let staying = of_network.iter().filter(|load| !load.is_doomed());
        let mut staying: Vec<(u64, &Arc<Load>)> = staying.map(|load| (held(load), load)).collect();
        staying.sort_unstable_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
        let mut doomed = 0;
        for (bytes, load) in staying {
            if left == 0 {
                break;
            }
            load.is_doomed.store(true, Relaxed);
            left = left.saturating_sub(bytes);
            doomed += 1;
        }
        doomed
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u32, Vec<Arc<Load>>>> {
        // What is behind this lock is whole after every statement.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_hold_most_end_and_no_more_than_have_to() {
        let loads = Loads::default();
        let of = |place: u32, bytes: u64| {
            let load = loads.begin(place);
            load.set(bytes);
            load
        };
        let own: Vec<_> = [10, 40, 20, 30].into_iter().map(|bytes| of(1, bytes)).collect();
        let other = of(2, 1000);
        let doomed = || own.iter().map(|load| load.is_doomed()).collect::<Vec<_>>();
        assert_eq!(loads.relieve(1, 45), 2);
        assert_eq!(doomed(), [false, true, false, true]);
        // They are on their way out.
        assert_eq!(loads.relieve(1, 60), 0);
        loads.end(1, &own[1]);
        assert_eq!(loads.relieve(1, 45), 1);
        assert_eq!(doomed(), [false, true, true, true]);
        assert!(!other.is_doomed() && loads.relieve(3, 1) == 0);
        own.iter().for_each(|load| loads.end(1, load));
        loads.end(2, &other);
        assert!(loads.lock().is_empty());
    }
}
