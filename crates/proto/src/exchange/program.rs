//! What answers a request by doing something: takes its content, and makes its answer.
//!
//! Owns: the contract between the core and whoever carries programs out. The core keeps a program with its exchange, so that it
//! goes wherever the connection goes, and never calls it: each step may block, so where it is carried out is the driver's
//! choice. Guarantees: a program is begun once for a request and no step of it is done twice, whatever drivers do; a program
//! whose exchange ends is dropped.
//!
//! ```text
//!   Need::Translate --Done::Run--> waits for content <--Continue--+
//!                                        | some, or its end       |
//!                                        v                        |
//!                       Need::Run: step, run, handle_ran ---------+
//!                                        | Answer
//!                                        v
//!                                the answer is sent
//! ```

use std::fmt;
use std::sync::Arc;

use crate::resource::Resource;

/// Something that has been begun for one request.
pub trait Program: fmt::Debug + Send {
    /// Bytes of content that it takes; more are refused (413).
    fn content_bytes_max(&self) -> u64;

    /// Keeps a piece of content for the next step, without waiting for anything. False if it has no room, or has to be asked first:
    /// then it is a step. For drivers that have steps carried out elsewhere, at a price for each.
    fn gather(&mut self, _content: &[u8]) -> bool {
        false
    }

    /// Takes the next piece of content; `is_last` says that there is no more. Called in order, each time with something new:
    /// bytes, or the end; what was gathered comes before it. May block.
    fn run(&mut self, content: &[u8], is_last: bool) -> Ran;
}

/// What came of a step.
#[derive(Clone, Debug)]
#[must_use]
pub enum Ran {
    /// More content is wanted. If there is none: another step.
    Continue,
    /// This is the answer. What remains of the content is not read, and the connection closes behind the answer.
    Answer(Arc<Resource>),
    /// It cannot go on, for no fault of the client's.
    Failed,
}

/// The next step of a program: what [`Need::Run`](super::Need::Run) asks for.
#[derive(Debug)]
pub struct Step<'a> {
    /// To be given back with what came of it.
    pub program: Box<dyn Program>,
    /// See [`Program::run`].
    pub content: &'a [u8],
    /// See [`Program::run`].
    pub is_last: bool,
}
