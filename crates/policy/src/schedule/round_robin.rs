//! Round robin: after its turn each goes to the end of the line, so all advance equally fast. With short turns this is
//! processor sharing (Kleinrock: "Time-shared systems: a theoretical treatment", JACM 1967): an answer takes `1 / (1 -
//! load)` times as long as it would alone, whatever its size.
//!
//! The event loops behave so by themselves. It needs no knowledge of sizes, and favours none.

use super::{Discipline, Waiter};

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct RoundRobin;

impl Discipline for RoundRobin {
    fn rank(waiter: &Waiter) -> u64 {
        waiter.queued
    }
}
