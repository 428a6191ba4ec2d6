//! Requests that an application answers: programs that ask it, over connections of their own.
//!
//! ```text
//! request ── route ──> begin ──> Gateway: choose a place ── dial, or a kept connection ── send <──> receive ──> parts of the answer
//!                                    ^                                                      |
//!                                    +--------------- failed, and nothing is lost ----------+
//! ```
//!
//! Owns: [`Gateway`], a program (`lamna_proto::exchange::program`), and which requests it answers ([`begin`]). Guarantees: no step waits,
//! so that whoever drives the client's connection carries it out in line; memory for one exchange is bounded by a buffer each way; a
//! request that may have had an effect is sent once. Speaks through the codecs of `lamna_proto::gateway`; where applications are is
//! `upstream`'s.

mod codec;
mod exchange;
mod outgoing;
mod piece;
mod report;
mod request;
#[cfg(test)]
mod tests;

pub use exchange::Gateway;
pub use request::{Asking, begin};
