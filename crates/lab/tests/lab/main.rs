//! The laboratory against servers whose behaviour is known.
//!
//! All sockets are on loopback; all waits are bounded. Latencies are only ever asserted from below: a server that
//! waited cannot have been faster.

mod compare;
mod load;
mod program;
mod replay;
mod server;
