//! The protocol core of Lamna: pure state machines between bytes and content. No sockets, no threads, no clocks.
//!
//! A [`conn::Connection`] takes bytes and instants in and gives out *needs* ("resolve this target", "make these bytes
//! of that file ready") and *transmits* ("send these bytes"). How to drive one is said in [`conn`]. What it needs is
//! carried out by an engine, in whatever way makes that engine what it is.

pub mod base64;
pub mod caching;
pub mod client;
pub mod codings;
pub mod conn;
pub mod counter;
pub mod date;
pub mod encoding;
pub mod error;
pub mod exchange;
pub mod gateway;
pub mod held;
mod in_flight;
pub mod limits;
pub mod message;
pub mod parse;
pub mod resource;
pub mod tally;
pub mod time;
pub mod transmit;
pub mod workspace;
