//! Lamna's deeds: engines, I/O strategies, caches and content. The only serving crate that makes system calls.

mod calendar;
pub mod config;
pub mod content;
pub mod log;
