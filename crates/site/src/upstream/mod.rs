//! Connections to the applications that gateways ask.
//!
//! Owns: what the name of one means ([`resolve`]), establishing connections without waiting ([`dial`]), those that are
//! kept between requests ([`pool`]), whether places are well ([`check`]), all of that for one application ([`group`]),
//! how that is doing ([`status`]), and requests without a client ([`background`]). Guarantees: nothing here waits on a
//! thread that serves. Which upstream is asked is `lamna_policy::upstream`'s to say; what is said on a connection is
//! `lamna_proto::gateway`'s. Where one is says the configuration (`config/upstream_address.rs`).

pub mod background;
mod check;
pub mod dial;
pub mod expectations;
pub mod group;
pub mod link;
pub mod pool;
pub mod resolve;
pub mod shares;
pub mod status;
