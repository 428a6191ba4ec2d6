//! The `[limits]` table: one row for each bound of `lamna_proto::limits`.
//!
//! Owns: names, units, the values that make sense, and what each means. They are rows as those of
//! [`setting`](super::setting): loading, rendering, the schema and the manual go through them, so that a bound is
//! written once.

use super::setting::{Kind, Setting, Unit};

/// The conversions lose nothing: every upper bound fits 32 bits.
macro_rules! row {
    ($name:ident, $unit:ident, $bounds:expr, $text:literal) => {
        Setting::new(
            stringify!($name),
            Kind::Number {
                unit: Unit::$unit,
                bounds: $bounds,
                get: |settings| settings.limits.$name as u64,
                set: |settings, number| settings.limits.$name = number as _,
            },
            $text,
        )
    };
}

const MIB: u64 = 1 << 20;
/// Positions in a head are 16 bits wide (`lamna_proto::message::Span`).
const HEAD_BYTES: u64 = 63 << 10;
const HOUR_MS: u64 = 3_600_000;

/// Every limit, in the order of documentation.
pub(super) static LIMITS: [Setting; 15] = [
    row!(
        head_bytes_max,
        Bytes,
        256..=HEAD_BYTES,
        "A request head: request line and fields; the size of a connection's buffer"
    ),
    row!(target_bytes_max, Bytes, 64..=HEAD_BYTES, "A request target, else 414; less than `head_bytes_max`"),
    row!(fields_max, Count, 8..=10_000, "Header fields of a request, else 431; all cookies are one"),
    row!(body_bytes_max, Bytes, 0..=1024 * MIB, "Request content that is read and discarded, else 413"),
    row!(chunk_overhead_bytes_max, Bytes, 0..=MIB, "Chunk extensions and trailer fields of a request"),
    row!(ranges_max, Count, 0..=1024, "Ranges of a request, else the whole representation is sent"),
    row!(exchanges_max, Count, 1..=1024, "Requests of a connection that may wait for their answer"),
    row!(
        held_bytes_max,
        Bytes,
        0..=1024 * MIB,
        "Content in memory of answers of a connection that wait behind another; what does not fit is looked up again in its turn"
    ),
    row!(head_timeout_ms, Milliseconds, 100..=HOUR_MS, "For a request head to arrive once its first byte has"),
    row!(body_timeout_ms, Milliseconds, 100..=HOUR_MS, "Between two pieces of request content"),
    row!(
        body_rate_min,
        Bytes,
        0..=MIB,
        "Request content that has to arrive in a second, on average, after the first `body_timeout_ms`; 0 for no bound"
    ),
    row!(idle_timeout_ms, Milliseconds, 100..=HOUR_MS, "Idle between two requests"),
    row!(
        send_timeout_ms,
        Milliseconds,
        100..=HOUR_MS,
        "For a peer to take `send_bytes_min` of a response, or all there is of it"
    ),
    row!(
        send_bytes_min,
        Bytes,
        0..=MIB,
        "What a peer has to take of a response in each `send_timeout_ms`; 0 for any byte"
    ),
    row!(linger_timeout_ms, Milliseconds, 0..=60_000, "Reading on after an error, so that the answer arrives"),
];

#[cfg(test)]
mod tests {
    use super::super::setting::Value;
    use super::super::settings::Settings;
    use super::*;
    use lamna_proto::limits::Limits;
    use std::path::Path;

    #[test]
    fn every_limit_has_a_row() {
        // A field added to `Limits` stops this from compiling until it has a name here, and then a row above.
        #[rustfmt::skip]
        let Limits {
            head_bytes_max: _, target_bytes_max: _, fields_max: _, body_bytes_max: _, chunk_overhead_bytes_max: _,
            ranges_max: _, exchanges_max: _, held_bytes_max: _, head_timeout_ms: _, body_timeout_ms: _, body_rate_min: _, idle_timeout_ms: _,
            send_timeout_ms: _, send_bytes_min: _, linger_timeout_ms: _,
        } = Limits::default();
        assert_eq!(LIMITS.len(), 15);
    }

    #[test]
    fn every_limit_is_kept_up_to_its_bounds_and_has_a_default_within_them() {
        for limit in &LIMITS {
            let Kind::Number { bounds, get, .. } = &limit.kind else { panic!("{}", limit.name) };
            assert!(bounds.contains(&get(&Settings::default())), "{}", limit.name);
            for number in [*bounds.start(), *bounds.end()] {
                let mut settings = Settings::default();
                limit.put(&mut settings, &Value::Number(number), Path::new("/")).unwrap();
                assert_eq!(get(&settings), number, "{}", limit.name);
            }
        }
    }
}
