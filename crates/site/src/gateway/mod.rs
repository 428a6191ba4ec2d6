//! Requests that an application answers: programs that ask it, over connections of their own.
//!
//! ```text
//! request ── route ──> begin ──> Gateway: choose a place ── dial, or a kept connection ── send <──> receive ──> parts of the answer
//!                                    ^                                                      |
//!                                    +--------------- failed, and nothing is lost ----------+
//! ```
//!
//! Owns: [`Gateway`], a program (`lamna_proto::exchange::program`), which requests it answers ([`begin`]), which of its
//! answers are cached ([`Cached`]), and asking a service whether a request is let in ([`AuthRequest`]). Guarantees: no
//! step waits, so that the driver of the client's connection carries it out in line, but those that write content to a
//! file or read it, which say so; memory for one exchange is bounded by a buffer each way; a request that may have had
//! an effect is sent once. Speaks through the codecs of `lamna_proto::gateway`; where applications are is `upstream`'s.

mod affinity;
mod asked_path;
mod cached;
mod codec;
mod exchange;
mod outgoing;
mod piece;
mod reading;
mod report;
mod request;
mod restored;
mod service;
mod spare;
pub mod spooled;
#[cfg(test)]
mod tests;
mod websocket;

pub use asked_path::write_asked_path;
pub use cached::{Cached, Role, Wanted};
pub use exchange::Gateway;
pub use request::{
    GatewayRequest, authority_of, begin, begin_auth_request, begin_with, may_be_cached, told_authority, write_told_way,
};
pub use service::AuthRequest;
