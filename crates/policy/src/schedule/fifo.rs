//! First come, first served: each keeps its place in the order of arrival until it has finished.
//!
//! RFC 9218 (section 10) has this order for responses of the same urgency. Those that are of use only as a whole are
//! served one after the other, in the order in which they were asked for. Those that are `incremental` share: each goes
//! to the end of the line after its turn.
//!
//! Good where all want about as much. One long answer holds up all short ones behind it, up to the bound on waiting.

use super::{Discipline, Waiter};

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Fifo;

impl Discipline for Fifo {
    fn rank(waiter: &Waiter) -> u64 {
        if waiter.priority.incremental { waiter.queued } else { waiter.arrived }
    }
}
