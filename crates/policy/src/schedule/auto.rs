//! `auto`: round robin, and shortest first while that is worth something.
//!
//! Owns: the decision, from what waits when a turn is given. Guarantees: a function of what it is told; it changes its
//! mind once in
//! [`WINDOW`] choices at most. Does not order anything: [`Queue`](super::Queue) does, by the discipline that is in
//! force.
//!
//! Shortest first is worth something where several wait, and what they have left differs. The one that has waited
//! longest and the one that came last stand for all: looking at two costs the same however many wait. Where all have as
//! much left, turns are as good, and what is sent advances evenly.
//!
//! ```text
//! RoundRobin --in a quarter of the choices several wait and differ--> Srpt
//!            <--in less than one choice of sixteen------------------
//! ```

use super::Schedule;

/// Choices between two decisions.
pub const WINDOW: u32 = 256;
/// So many wait, or the order makes little difference.
const CROWD: usize = 4;
/// The least ratio of remaining work that counts as a difference, as a power of two.
const DIFFERENCE_LOG2: u32 = 2;

/// Counts since the last decision.
#[derive(Clone, Copy, Debug)]
pub(super) struct Selector {
    in_force: Schedule,
    choices: u32,
    /// Choices in which the order mattered.
    mattered: u32,
}

impl Selector {
    pub(super) fn new() -> Selector {
        Selector { in_force: Schedule::RoundRobin, choices: 0, mattered: 0 }
    }

    /// The discipline that is in force.
    pub(super) fn in_force(&self) -> Schedule {
        self.in_force
    }

    /// Notes a choice among so many, of which the oldest and the newest have this much left. Returns the discipline in
    /// force from now on, if that changes.
    pub(super) fn observe(&mut self, waiting: usize, oldest: u64, newest: u64) -> Option<Schedule> {
        let differ = oldest.max(1).ilog2().abs_diff(newest.max(1).ilog2()) >= DIFFERENCE_LOG2;
        self.choices += 1;
        self.mattered += u32::from(waiting >= CROWD && differ);
        if self.choices < WINDOW {
            return None;
        }
        let decided = match self.in_force {
            Schedule::Srpt if self.mattered < WINDOW / 16 => Schedule::RoundRobin,
            _ if self.mattered >= WINDOW / 4 => Schedule::Srpt,
            as_before => as_before,
        };
        let before = std::mem::replace(self, Selector { in_force: decided, choices: 0, mattered: 0 });
        (before.in_force != decided).then_some(decided)
    }
}
