//! Which connections end if a client network holds more memory or descriptors than it may: those that hold most, the
//! largest first, until the others are within the bound.
//!
//! Owns: [`Loads`], the connections of this process that hold much, and [`Load`], one of them. Guarantees: it is
//! decided when any connection holds more, whether its client says anything or not. A connection that is to end is told
//! by its own word ([`Load::is_doomed`]), so that the thread that drives it needs no lock.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::connections::Held;

/// A connection that holds much.
#[derive(Debug, Default)]
pub(super) struct Load {
    bytes: AtomicU64,
    descriptors: AtomicU64,
    is_doomed: AtomicBool,
}

/// The connections of a process that hold much, by the place of their network.
#[derive(Debug, Default)]
pub(super) struct Loads(Mutex<HashMap<u32, Vec<Arc<Load>>>>);

/// The result of relieving a network that holds too much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Relieved {
    /// So many more of its connections are to end.
    pub doomed: usize,
    /// The rest, without those that are to end, is within the bound.
    pub is_enough: bool,
}

impl Load {
    /// Whether the connection is to end.
    pub(super) fn is_doomed(&self) -> bool {
        self.is_doomed.load(Relaxed)
    }

    /// The connection is to end.
    pub(super) fn doom(&self) {
        self.is_doomed.store(true, Relaxed);
    }

    /// It holds so much now.
    pub(super) fn set(&self, held: Held) {
        self.bytes.store(held.bytes, Relaxed);
        self.descriptors.store(held.descriptors, Relaxed);
    }

    fn held(&self) -> Held {
        Held { bytes: self.bytes.load(Relaxed), descriptors: self.descriptors.load(Relaxed) }
    }
}

impl Loads {
    /// A connection of the network at `place` holds much from now on.
    pub(super) fn begin(&self, place: u32) -> Arc<Load> {
        let load = Arc::new(Load::default());
        self.lock().entry(place).or_default().push(load.clone());
        load
    }

    /// Whether none is known.
    pub(super) fn is_empty(&self) -> bool {
        self.lock().is_empty()
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

    /// The network at `place` holds `excess` more than it may of what `measure` tells: has those end that hold most of
    /// it.
    pub(super) fn relieve(&self, place: u32, excess: u64, measure: impl Fn(Held) -> u64) -> Relieved {
        let loads = self.lock();
        let of_network = loads.get(&place).map_or(&[][..], Vec::as_slice);
        // What they hold changes meanwhile: it is looked at once, since nothing that is sorted may change its order.
        let held = |load: &Arc<Load>| measure(load.held());
        let leaving: u64 = of_network.iter().filter(|load| load.is_doomed()).map(held).sum();
        let mut left = excess.saturating_sub(leaving);
        if left == 0 {
            return Relieved { doomed: 0, is_enough: true };
        }
        let staying = of_network.iter().filter(|load| !load.is_doomed());
        let staying = staying.map(|load| (held(load), load)).filter(|(held, _)| *held > 0);
        let mut staying: Vec<(u64, &Arc<Load>)> = staying.collect();
        staying.sort_unstable_by_key(|(held, _)| std::cmp::Reverse(*held));
        let mut doomed = 0;
        for (held, load) in staying {
            if left == 0 {
                break;
            }
            load.doom();
            left = left.saturating_sub(held);
            doomed += 1;
        }
        Relieved { doomed, is_enough: left == 0 }
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
            load.set(Held { bytes, descriptors: 0 });
            load
        };
        let own: Vec<_> = [10, 40, 20, 30].into_iter().map(|bytes| of(1, bytes)).collect();
        let other = of(2, 1000);
        let doomed = || own.iter().map(|load| load.is_doomed()).collect::<Vec<_>>();
        let relieve = |place, excess| loads.relieve(place, excess, |held| held.bytes).doomed;
        assert_eq!(relieve(1, 45), 2);
        assert_eq!(doomed(), [false, true, false, true]);
        // They are on their way out.
        assert_eq!(relieve(1, 60), 0);
        loads.end(1, &own[1]);
        assert_eq!(relieve(1, 45), 1);
        assert_eq!(doomed(), [false, true, true, true]);
        assert!(!other.is_doomed() && relieve(3, 1) == 0);
        own.iter().for_each(|load| loads.end(1, load));
        loads.end(2, &other);
        assert!(loads.lock().is_empty());
    }
}
