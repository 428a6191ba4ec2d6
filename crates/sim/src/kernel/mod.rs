//! The kernel: virtual time, the calendar of what will happen, and independent streams of random numbers. It knows
//! nothing of servers.
//!
//! Guarantees: events come out in the order of their instants, and events of one instant in the order in which they
//! were scheduled, so a run is a function of its inputs alone. Time is a whole number of nanoseconds; nothing is
//! rounded differently on another machine.

mod calendar;
mod random;

pub use calendar::{Calendar, Nanos};
pub use random::Stream;
