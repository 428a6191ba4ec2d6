//! HTTP/1.1 as its client: asking an application, and reading what it answers.
//!
//! Owns: [`write_head`] and [`ContentWriter`] for what goes there, [`AnswerReader`] for what comes back. The framing of
//! answers is that of [`crate::client`], which the load generator reads with as well; what is stricter here (bytes of
//! fields, interim answers, upgrades, trailers) costs the load generator nothing. Guarantees: what is written has one
//! reading, whoever reads it; see `tests/proto/gateway.rs`.

mod answer;
mod content;
mod request;

pub use answer::{AnswerReader, Asked, HEAD_BYTES_MAX, INTERIM_MAX, TRAILER_BYTES_MAX};
pub use content::{ContentWriter, Frame, LengthError};
pub use request::{HostChoice, Outgoing, Unwritable, add_length, requested_upgrade, write_head};
