//! Shortest remaining first. It makes the mean number that wait, and so the mean time in the system, the least that any
//! order can (Schrage: "A proof of the optimality of the shortest remaining processing time discipline", Operations
//! Research 1968). Harchol-Balter, Schroeder, Bansal and Agrawal ("Size-based scheduling to improve web performance",
//! ACM TOCS 2003) built it into a server of static files and found that long answers hardly lose by it, because most
//! bytes are in few answers. *JAWS* (1997, section 6) names the idea: small objects before large ones.
//!
//! Remaining work is compared by powers of two, and within one the first to come goes first. So answers that differ by
//! a per cent, as the reads of small files do, are served in the order of arrival, and of two long ones the first is
//! finished before the second begins. Harchol-Balter and others had five such bands and lost little by it.
//!
//! It is no better than its knowledge of sizes: content whose length is not known has to be given one, for which the
//! mean of what its kind has had is as good as any. It takes no account of `incremental`: sharing would delay the
//! answer nearest to its end, and RFC 9218 leaves that to the server (section 10).

use super::{Discipline, Waiter};

/// Below the band: when it came.
const ARRIVED_BITS: u32 = 55;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Srpt;

impl Discipline for Srpt {
    fn rank(waiter: &Waiter) -> u64 {
        let band = u64::from(waiter.priority.remaining.max(1).ilog2());
        band << ARRIVED_BITS | waiter.arrived.min((1 << ARRIVED_BITS) - 1)
    }
}
