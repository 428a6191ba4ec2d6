//! Limits of bytes: how much a client may get in a time, and how fast one connection gets it.
//!
//! Owns: [`Volume`] and [`Bandwidth`] as values and as text, and what a volume decides: by the algorithm of
//! [`limit`](crate::limit), but counted when bytes have been sent, because their number is not known before. Pure:
//! instants are given, in ticks.

use std::fmt;
use std::str::FromStr;

use crate::limit::TICKS_PER_MS;
use crate::size::{format_size, parse_size};

/// So many bytes in a period, and so many at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Volume {
    bytes: u64,
    period_s: u64,
    burst: u64,
}

/// How fast a connection gets what it asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bandwidth {
    /// Bytes in a second.
    pub bytes_per_s: u64,
    /// Bytes that come as fast as they can before that.
    pub after: u64,
}

/// The least and the most of a volume: 1 KiB, and what 50 bits count, so that no product overflows.
const BYTES: std::ops::RangeInclusive<u64> = 1 << 10..=1 << 50;
/// The least and the most of a bandwidth. With less nothing would move for longer than a connection is waited for.
const BYTES_PER_S: std::ops::RangeInclusive<u64> = 1 << 10..=1 << 40;
/// Names of periods, and their seconds.
const PERIODS: [(&str, u64); 4] = [("s", 1), ("m", 60), ("h", 3600), ("d", 86_400)];
/// The longest refusal, whatever was sent to the client.
const WAIT_S_MAX: u64 = 30 * 86_400;

impl Volume {
    /// How many bytes may come at once.
    pub fn burst(self) -> u64 {
        self.burst
    }

    /// Ticks that `bytes` last at the steady rate.
    pub fn ticks(self, bytes: u64) -> u64 {
        let ticks = u128::from(bytes) * u128::from(self.period_s * 1000 * TICKS_PER_MS) / u128::from(self.bytes);
        ticks.min(u128::from(u64::MAX)) as u64
    }

    /// In how many seconds a burst that was taken is there again, rounded up.
    pub fn window_s(self) -> u64 {
        self.ticks(self.burst).div_ceil(1000 * TICKS_PER_MS)
    }

    /// For how many ticks a client with the theoretical arrival time `arrival`, 0 if it is new, gets nothing more at
    /// `now`.
    pub fn wait(self, arrival: u64, now: u64) -> Option<u64> {
        let over = arrival.saturating_sub(now).checked_sub(self.ticks(self.burst))?;
        (over > 0).then_some(over)
    }

    /// The theoretical arrival time once he has got what lasts for `ticks`.
    pub fn charge(self, arrival: u64, now: u64, ticks: u64) -> u64 {
        let latest = now + self.ticks(self.burst) + WAIT_S_MAX * 1000 * TICKS_PER_MS;
        arrival.max(now).saturating_add(ticks).min(latest)
    }
}

/// As `10GB/d` or `1GiB/h`, with ` burst 20GB` behind it if not as many as in a period may come at once.
impl FromStr for Volume {
    type Err = String;

    fn from_str(text: &str) -> Result<Volume, String> {
        let expected = "is not an amount in a time: expected one as in 10GB/d, 500MB/h or 500MB/h burst 2GB";
        let (rate, burst) = text.split_once(" burst ").map_or((text, None), |(rate, burst)| (rate, Some(burst)));
        let (amount, period) = rate.split_once('/').ok_or(expected)?;
        let (_, period_s) = PERIODS.into_iter().find(|(name, _)| *name == period).ok_or(expected)?;
        let bytes = parse_size(amount).map_err(|_| expected)?;
        let burst = burst.map_or(Ok(bytes), |burst| parse_size(burst).map_err(|_| expected))?;
        if ![bytes, burst].iter().all(|amount| BYTES.contains(amount)) {
            return Err("needs amounts from 1KiB to 1024TiB".to_owned());
        }
        Ok(Volume { bytes, period_s, burst })
    }
}

impl fmt::Display for Volume {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let period = PERIODS.iter().find(|(_, seconds)| *seconds == self.period_s).map_or("s", |(name, _)| name);
        write!(formatter, "{}/{period} burst {}", format_size(self.bytes), format_size(self.burst))
    }
}

impl Bandwidth {
    /// The bandwidth of a connection to which both apply.
    pub fn slower(self, other: Bandwidth) -> Bandwidth {
        Bandwidth { bytes_per_s: self.bytes_per_s.min(other.bytes_per_s), after: self.after.min(other.after) }
    }
}

/// As `500kB/s`, with ` after 5MB` behind it if as much comes as fast as it can first.
impl FromStr for Bandwidth {
    type Err = String;

    fn from_str(text: &str) -> Result<Bandwidth, String> {
        let expected = "is not a bandwidth: expected one as in 500kB/s, or 500kB/s after 5MB";
        let (rate, after) = text.split_once(" after ").map_or((text, None), |(rate, after)| (rate, Some(after)));
        let amount = rate.strip_suffix("/s").ok_or(expected)?;
        let bytes_per_s = parse_size(amount).map_err(|_| expected)?;
        let after = after.map_or(Ok(0), |after| parse_size(after).map_err(|_| expected))?;
        if !BYTES_PER_S.contains(&bytes_per_s) {
            return Err("needs from 1KiB/s to 1TiB/s".to_owned());
        }
        Ok(Bandwidth { bytes_per_s, after })
    }
}

impl fmt::Display for Bandwidth {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/s", format_size(self.bytes_per_s))?;
        match self.after {
            0 => Ok(()),
            after => write!(formatter, " after {}", format_size(after)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: u64 = 1000 * TICKS_PER_MS;

    #[test]
    fn limits_of_bytes_are_written_as_they_are_read() {
        for text in ["10GiB/d burst 10GiB", "1000/h burst 2000KiB", "5MiB/s burst 1KiB"] {
            match text.parse::<Volume>() {
                Ok(volume) => assert_eq!(volume.to_string(), text),
                Err(why) => assert!(text.starts_with("1000/h") && why.contains("1KiB"), "{text}: {why}"),
            }
        }
        assert_eq!("1GB/h".parse::<Volume>().unwrap().burst(), 1_000_000_000);
        for text in ["512KiB/s", "1MiB/s after 5MiB"] {
            assert_eq!(text.parse::<Bandwidth>().unwrap().to_string(), text);
        }
        for text in ["", "1MB", "1MB/w", "MB/h", "1MB/h burst", "1MB/h burst x", "1/h", "2000TiB/h"] {
            assert!(text.parse::<Volume>().is_err(), "{text}");
        }
        for text in ["", "1MB", "1MB/m", "1MB/s after", "1MB/s after x", "100/s"] {
            assert!(text.parse::<Bandwidth>().is_err(), "{text}");
        }
    }

    #[test]
    fn who_has_got_his_burst_waits_until_what_he_got_beyond_it_is_earned() {
        let volume: Volume = "1MiB/s burst 10MiB".parse().unwrap();
        let arrival = volume.charge(0, SECOND, volume.ticks(10 << 20));
        assert_eq!(volume.wait(arrival, SECOND), None);
        let arrival = volume.charge(arrival, SECOND, volume.ticks(5 << 20));
        assert_eq!(volume.wait(arrival, SECOND), Some(5 * SECOND));
        assert_eq!(volume.wait(arrival, 6 * SECOND), None);
        assert_eq!(volume.wait(0, SECOND), None, "somebody new");
    }

    #[test]
    fn nobody_waits_for_longer_than_a_month() {
        let volume: Volume = "1KiB/d".parse().unwrap();
        let arrival = volume.charge(0, SECOND, volume.ticks(1 << 50));
        assert_eq!(volume.wait(arrival, SECOND), Some(WAIT_S_MAX * SECOND));
    }

    proptest! {
        #[test]
        fn over_a_long_time_nobody_gets_more_than_the_rate_and_one_burst(
            bytes in 1024_u64..1 << 40,
            pieces in prop::collection::vec((0_u64..1 << 20, 0_u64..10 * SECOND), 1..60),
        ) {
            let volume: Volume = format!("{bytes}/h").parse().unwrap();
            let (mut arrival, mut now, mut got, mut ticks) = (0, SECOND, 0_u64, 0);
            let mut last = 0;
            for (piece, later) in pieces {
                if volume.wait(arrival, now).is_none() {
                    last = piece;
                    got += piece;
                    let all = volume.ticks(got);
                    arrival = volume.charge(arrival, now, all - ticks);
                    ticks = all;
                }
                now += later;
            }
            let earned = u128::from(bytes) * u128::from(now - SECOND) / u128::from(3600 * SECOND);
            // What is being sent when the limit is reached is sent to its end.
            prop_assert!(u128::from(got) <= earned + u128::from(volume.burst() + last) + 1024 * 60);
        }
    }
}
