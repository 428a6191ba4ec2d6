//! Messages of the server on standard error.
//!
//! Owns: how a line gets there. Guarantees: a line is written in one piece, because several processes write to the same
//! place while one takes the place of another; a server goes on if the reader is gone, or if the place is full.
//! `eprintln!` panics then, so nothing in the server uses it. Does not word anything.

use std::fmt;
use std::io::{Write, stderr};

/// Says one line.
#[macro_export]
macro_rules! say {
    ($($part:tt)*) => {
        $crate::say::line(format_args!($($part)*))
    };
}

pub use crate::say;

/// Says one line.
pub fn line(line: fmt::Arguments<'_>) {
    // If it fails the message is lost.
    let _ = stderr().write_all(format!("{line}\n").as_bytes());
}
