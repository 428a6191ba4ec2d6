//! A look at each entry of a tree before anything is done to the tree as a whole.
//!
//! Owns: [`Survey`]. Changes nothing.

use super::super::Refused;
use super::ENTRIES_MAX;
use super::walk::{Entry, Event, Walk};

/// A survey under way.
#[derive(Debug)]
pub(super) struct Survey(pub(super) Walk);

impl Survey {
    /// Goes on. True if it is over, and `judge` has refused nothing.
    pub(super) fn step(&mut self, judge: &dyn Fn(&Entry) -> Result<(), Refused>) -> Result<bool, Refused> {
        for _ in 0..ENTRIES_MAX {
            match self.0.next()? {
                Event::Entry(entry) => {
                    judge(&entry)?;
                    if entry.kind.is_dir() {
                        self.0.enter(&entry)?;
                    }
                }
                Event::Left(_) => {}
                Event::Over => return Ok(true),
            }
        }
        Ok(false)
    }
}
