//! Lamna's deeds: engines, I/O strategies, caches and content. The only serving crate that makes system calls.

use std::fmt;

pub mod config;
pub mod listen;
mod sys;

/// Why serving ended other than by being told to.
#[derive(Debug)]
pub struct ServeError {
    /// What was being done.
    pub what: String,
    /// Why it failed.
    pub error: std::io::Error,
}

impl fmt::Display for ServeError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.what, self.error)
    }
}

impl std::error::Error for ServeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}
