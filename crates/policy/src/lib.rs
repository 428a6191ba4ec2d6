//! Pure decisions over numbers: cache replacement, order of service, hints, which engine serves, which upstream gets a
//! request, rate limits, statistics, and how numbers are told. No I/O, no clocks, no threads.
//!
//! The server and the simulator run the same code, so that what the simulator says about a policy is said about the
//! policy that serves.

pub mod cache;
pub mod control;
pub mod hints;
pub mod limit;
pub mod random;
pub mod schedule;
pub mod size;
pub mod stats;
pub mod upstream;
pub mod volume;
pub mod words;
