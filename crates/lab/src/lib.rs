//! The laboratory: measures any HTTP/1 server from outside, over real sockets.
//!
//! Owns: the load generator ([`load`]) and logs as workloads ([`replay`]). Guarantees: a figure that the generator itself spoiled is said to be spoiled; what
//! was cut short is reported as far as it went. Does not see the inside of any server, Lamna's included.

pub mod load;
pub mod replay;
