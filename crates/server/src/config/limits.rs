//! The `[limits]` table: one row for each bound of `lamna_proto::limits`, with its unit and the values that make sense.
//!
//! Owns: names and bounds. Loading, rendering and messages all go through [`ROWS`], so that a bound is written once.

use std::ops::RangeInclusive;

use lamna_proto::limits::Limits;

pub(super) use super::setting::Unit;

/// One limit.
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) unit: Unit,
    /// What may be configured, in `unit`.
    pub(super) bounds: RangeInclusive<u64>,
    pub(super) read: fn(&Limits) -> u64,
    /// Stores a value that is within `bounds`.
    pub(super) write: fn(&mut Limits, u64),
}

/// The conversions lose nothing: every upper bound fits 32 bits.
macro_rules! row {
    ($name:ident, $unit:ident, $bounds:expr) => {
        Row {
            name: stringify!($name),
            unit: Unit::$unit,
            bounds: $bounds,
            read: |limits| limits.$name as u64,
            write: |limits, value| limits.$name = value as _,
        }
    };
}

const MIB: u64 = 1 << 20;
/// Positions in a head are 16 bits wide (`lamna_proto::message::Span`).
const HEAD_BYTES: u64 = 63 << 10;
const HOUR_MS: u64 = 3_600_000;

/// Every limit, in the order of documentation.
pub(super) const ROWS: [Row; 14] = [
    row!(head_bytes_max, Bytes, 256..=HEAD_BYTES),
    row!(target_bytes_max, Bytes, 64..=HEAD_BYTES),
    row!(fields_max, Count, 8..=10_000),
    row!(body_bytes_max, Bytes, 0..=1024 * MIB),
    row!(chunk_overhead_bytes_max, Bytes, 0..=MIB),
    row!(ranges_max, Count, 0..=1024),
    row!(exchanges_max, Count, 1..=1024),
    row!(held_bytes_max, Bytes, 0..=1024 * MIB),
    row!(head_timeout_ms, Milliseconds, 100..=HOUR_MS),
    row!(body_timeout_ms, Milliseconds, 100..=HOUR_MS),
    row!(body_rate_min, Bytes, 0..=MIB),
    row!(idle_timeout_ms, Milliseconds, 100..=HOUR_MS),
    row!(send_timeout_ms, Milliseconds, 100..=HOUR_MS),
    row!(linger_timeout_ms, Milliseconds, 0..=60_000),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_limit_has_a_row() {
        // A field added to `Limits` stops this from compiling until it has a name here, and then a row above.
        #[rustfmt::skip]
        let Limits {
            head_bytes_max: _, target_bytes_max: _, fields_max: _, body_bytes_max: _, chunk_overhead_bytes_max: _,
            ranges_max: _, exchanges_max: _, held_bytes_max: _, head_timeout_ms: _, body_timeout_ms: _, body_rate_min: _, idle_timeout_ms: _,
            send_timeout_ms: _, linger_timeout_ms: _,
        } = Limits::default();
        assert_eq!(ROWS.len(), 14);
    }

    #[test]
    fn rows_write_what_they_read_up_to_their_bounds() {
        for row in &ROWS {
            let mut limits = Limits::default();
            for value in [*row.bounds.start(), *row.bounds.end()] {
                (row.write)(&mut limits, value);
                assert_eq!((row.read)(&limits), value, "{}", row.name);
            }
        }
    }

    #[test]
    fn defaults_are_within_their_bounds() {
        for row in &ROWS {
            assert!(row.bounds.contains(&(row.read)(&Limits::default())), "{}", row.name);
        }
    }
}
