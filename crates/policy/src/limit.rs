//! Rate limits: how much a client may take in a time, with a burst.
//!
//! Owns: [`Rate`] as a value and as text, and its one decision, the generic cell rate algorithm (GCRA). The state of a
//! client is one instant, its *theoretical arrival time*, until when what it has taken would have lasted at the steady
//! rate. A client that has taken nothing for so long is like a new one, so nothing has to be cleaned up. Pure: instants
//! are given, in ticks.

use std::fmt;
use std::str::FromStr;

/// Ticks in a millisecond. Rates above this many requests in a millisecond cannot be told apart.
pub const TICKS_PER_MS: u64 = 64;

/// So many requests in a period, and so many at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    count: u32,
    period: Period,
    burst: u32,
}

/// The unit of time of a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Period {
    /// A second.
    Second,
    /// A minute.
    Minute,
    /// An hour.
    Hour,
}

/// Whether a client may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Yes. From now on its theoretical arrival time is this one.
    Admitted(u64),
    /// No, for so many ticks, and nothing is taken.
    Refused(u64),
}

/// The most of a period, and at once.
const COUNT_MAX: u32 = 10_000_000;
/// The most in a second: one in a tick.
const PER_SECOND_MAX: u64 = 1000 * TICKS_PER_MS;

impl Rate {
    /// `count` in each `period`, of which `burst` may come at once.
    ///
    /// # Errors
    /// The fault in the numbers, as the rest of a sentence.
    pub fn new(count: u32, period: Period, burst: u32) -> Result<Rate, &'static str> {
        if !(1..=COUNT_MAX).contains(&count) || !(1..=COUNT_MAX).contains(&burst) {
            return Err("needs numbers from 1 to 10000000");
        }
        if u64::from(count) > PER_SECOND_MAX * period.seconds() {
            return Err("is more than 64000 in a second");
        }
        Ok(Rate { count, period, burst })
    }

    /// Ticks between two at the steady rate.
    pub fn interval(self) -> u64 {
        // At least one tick: see `new`.
        self.period.seconds() * 1000 * TICKS_PER_MS / u64::from(self.count)
    }

    /// How many may come at once.
    pub fn burst(self) -> u32 {
        self.burst
    }

    /// In how many seconds a burst that was taken is there again, rounded up.
    pub fn window_s(self) -> u64 {
        (self.interval() * u64::from(self.burst)).div_ceil(1000 * TICKS_PER_MS)
    }

    /// Whether a client with the theoretical arrival time `arrival`, 0 if it is new, may take one at `now`.
    pub fn decide(self, arrival: u64, now: u64) -> Decision {
        let tolerance = self.interval() * u64::from(self.burst - 1);
        let arrival = arrival.max(now);
        match (arrival - now).checked_sub(tolerance) {
            None | Some(0) => Decision::Admitted(arrival + self.interval()),
            Some(wait) => Decision::Refused(wait),
        }
    }
}

impl Period {
    fn seconds(self) -> u64 {
        match self {
            Period::Second => 1,
            Period::Minute => 60,
            Period::Hour => 3600,
        }
    }
}

/// As `20/s`, `300/m` or `1000/h`, with ` burst 50` behind it if not as many as in a period may come at once.
impl FromStr for Rate {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Rate, &'static str> {
        let expected = "is not a rate: expected one as in 20/s, 300/m, 1000/h or 20/s burst 100";
        let (rate, burst) = text.split_once(" burst ").map_or((text, None), |(rate, burst)| (rate, Some(burst)));
        let (count, period) = rate.split_once('/').ok_or(expected)?;
        let number = |text: &str| match text.bytes().all(|byte| byte.is_ascii_digit()) {
            true => text.parse::<u32>().map_err(|_| expected),
            false => Err(expected),
        };
        let period = match period {
            "s" => Period::Second,
            "m" => Period::Minute,
            "h" => Period::Hour,
            _ => return Err(expected),
        };
        let count = number(count)?;
        Rate::new(count, period, burst.map_or(Ok(count), number)?)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let period = match self.period {
            Period::Second => 's',
            Period::Minute => 'm',
            Period::Hour => 'h',
        };
        write!(formatter, "{}/{period} burst {}", self.count, self.burst)
    }
}
