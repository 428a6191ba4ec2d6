//! Connections that move to another engine or to another process, in whatever state they are.
//!
//! Owns: the way between two engines ([`handover`]) and between two processes ([`transfer`], [`arrivals`]). Guarantees:
//! a connection is in one place at a time. Does not decide when to move: `process` does.

pub mod arrivals;
pub mod handover;
pub mod transfer;
