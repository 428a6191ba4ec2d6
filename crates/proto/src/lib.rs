//! The protocol core of Lamna: pure state machines between bytes and content. No sockets, no threads, no clocks.

pub mod date;
pub mod exchange;
pub mod limits;
pub mod parse;
