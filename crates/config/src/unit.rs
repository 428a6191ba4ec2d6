//! Units of numbers in the file.
//!
//! Owns: how a number of each is read by people.

use lamna_policy::size::format_size;

/// The unit of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Things.
    Count,
    /// Bytes, which may also be written with a unit.
    Bytes,
    /// Milliseconds.
    Milliseconds,
    /// Seconds.
    Seconds,
    /// Hundredths.
    Percent,
}

impl Unit {
    /// A number of it, as people read it.
    pub fn show(self, number: u64) -> String {
        match self {
            Unit::Bytes => format_size(number),
            Unit::Count | Unit::Milliseconds | Unit::Seconds | Unit::Percent => number.to_string(),
        }
    }
}
