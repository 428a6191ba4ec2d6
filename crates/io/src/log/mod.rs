//! Access logs: one line for each response. And the error log: one for what goes wrong (`errors`).
//!
//! Owns: how a line is written (`line`) and how the lines of many workers (`buffer`) reach one file (`writer`). Knows
//! nothing of connections, and of time only what callers say, but for the error log, which reads the clock.

mod buffer;
pub mod calendar;
mod encode;
pub mod errors;
pub mod line;
pub mod read;
mod sink;
mod template;
pub mod writer;

pub use buffer::{FLUSH_BYTES, LogBuffer, LogCounters};
pub use line::{LogTime, Record};
pub use writer::AccessLog;
