//! Connections to the applications that gateways ask.
//!
//! Owns: where an upstream is ([`address`]), what its name means ([`resolve`]), establishing connections without waiting
//! ([`dial`]) and those that are kept between requests ([`pool`]). Guarantees: nothing here waits on a thread that serves.
//! Which upstream is asked is `lamna_policy::upstream`'s to say; what is said on a connection is `lamna_proto::gateway`'s.
//! No engine asks any yet: `lamna_proto::gateway` says how one will.

pub mod address;
pub mod dial;
pub mod pool;
pub mod resolve;
