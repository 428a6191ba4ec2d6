//! Measuring the real server on this machine.

pub mod load;
pub mod server;
