//! Where a server's time goes, seen from outside: by its system calls, in the categories of the JAWS papers.
//!
//! Owns: the trace of a server at work ([`trace`]), what its lines mean ([`events`]), and which call belongs to which
//! category ([`category`]). Needs the right to trace the kernel, usually root; where it is missing, that is an error
//! with its reason.

pub mod category;
pub mod events;
pub mod trace;
