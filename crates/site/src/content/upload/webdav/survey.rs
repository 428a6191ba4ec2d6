//! A look at each entry of a tree, and at the tree itself, before anything is done to it as a whole.
//!
//! Owns: [`Survey`]. Changes nothing.

use super::super::Refused;
use super::ENTRIES_MAX;
use super::walk::{Entry, Event, Walk};

/// A survey under way.
#[derive(Debug)]
pub(super) struct Survey {
    walk: Walk,
    has_begun: bool,
}

impl Survey {
    pub(super) fn new(walk: Walk) -> Survey {
        Survey { walk, has_begun: false }
    }

    /// Goes on. True if it is over, and `judge` has refused nothing.
    pub(super) fn step(&mut self, judge: &dyn Fn(&Entry) -> Result<(), Refused>) -> Result<bool, Refused> {
        if !self.has_begun {
            self.walk.top().iter().try_for_each(judge)?;
            self.has_begun = true;
        }
        let mut left = ENTRIES_MAX;
        while left > 0 {
            left -= 1;
            match self.walk.next()? {
                Event::Reads(count) => left = left.saturating_sub(count),
                Event::Entry(mut entry) => {
                    judge(&entry)?;
                    if entry.kind.is_dir() {
                        self.walk.enter(&mut entry)?;
                    }
                }
                Event::Left(_) => {}
                Event::Over => return Ok(true),
            }
        }
        Ok(false)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.walk.memory_bytes()
    }

    pub(super) fn descriptors(&self) -> usize {
        self.walk.descriptors()
    }
}
