//! Stretches of files on their way to a socket: how much at once, and whether the file is still the one described.
//!
//! Owns: the quantum and the check that every stretch of an answer comes from one state of its file.

use std::os::fd::AsFd;

use crate::account::{self, Step};
use crate::content::file;
use crate::engine::desk::Stretch;

/// Bytes made ready and sent at once, so that one large file does not keep others waiting.
pub const QUANTUM_BYTES: u64 = 256 * 1024;

impl Stretch {
    /// The part of it that is made ready at once.
    pub fn quantum(&self) -> u64 {
        self.length.min(QUANTUM_BYTES)
    }

    /// Whether the file is in the state that the head describes. A file that was replaced keeps its old content under
    /// the open descriptor and passes; one that was edited or truncated in place does not.
    pub fn is_unchanged(&self) -> bool {
        let _step = account::step(Step::Read);
        let Some(file) = &self.representation.file else { return false };
        let Ok((_, stamp)) = file::inspect(file.as_fd()) else { return false };
        stamp.version() == self.representation.version
    }
}
