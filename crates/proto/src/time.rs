//! The core's own instant, so that a simulator or a test can be the clock.
//!
//! Owns: the type. Nothing in this crate reads a clock; every step that depends on time is given it.

/// Microseconds since an origin that the driver chooses, never going back. Timeouts (`limits`) are in milliseconds;
/// what answers take is told in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant {
    us: u64,
}

impl Instant {
    /// `ms` milliseconds after the origin.
    pub const fn from_ms(ms: u64) -> Instant {
        Instant { us: ms.saturating_mul(1000) }
    }

    /// `us` microseconds after the origin.
    pub const fn from_us(us: u64) -> Instant {
        Instant { us }
    }

    /// Whole milliseconds since the origin.
    pub const fn ms(self) -> u64 {
        self.us / 1000
    }

    /// Microseconds since the origin.
    pub const fn us(self) -> u64 {
        self.us
    }

    /// The instant `ms` milliseconds later.
    #[must_use]
    pub fn after_ms(self, ms: u32) -> Instant {
        self.after_long_ms(u64::from(ms))
    }

    /// As [`Instant::after_ms`], for what has no bound; there is a last instant.
    #[must_use]
    pub fn after_long_ms(self, ms: u64) -> Instant {
        Instant { us: self.us.saturating_add(ms.saturating_mul(1000)) }
    }

    /// Whole milliseconds from `earlier` to this instant; zero if that is not in the past.
    pub fn since(self, earlier: Instant) -> u64 {
        self.since_us(earlier) / 1000
    }

    /// Microseconds from `earlier` to this instant; zero if that is not in the past.
    pub fn since_us(self, earlier: Instant) -> u64 {
        self.us.saturating_sub(earlier.us)
    }
}

/// An [`Instant`] in six bytes without alignment, for a connection of which there may be a million. Bound: 2^48
/// microseconds, 8.9 years after the origin; a later instant becomes that one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CompactInstant([u16; 3]);

impl From<Instant> for CompactInstant {
    fn from(instant: Instant) -> CompactInstant {
        let us = instant.us.min((1 << 48) - 1);
        CompactInstant([us as u16, (us >> 16) as u16, (us >> 32) as u16])
    }
}

impl From<CompactInstant> for Instant {
    fn from(CompactInstant([low, middle, high]): CompactInstant) -> Instant {
        Instant { us: u64::from(low) | u64::from(middle) << 16 | u64::from(high) << 32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compact_instant_is_the_instant_up_to_its_bound() {
        let last = (1u64 << 48) - 1;
        for us in [0, 1, 0xFFFF, 0x1_0000, 0xFFFF_FFFF, 0x1_0000_0000, 0x1234_5678_9ABC, last] {
            assert_eq!(Instant::from(CompactInstant::from(Instant::from_us(us))), Instant::from_us(us));
        }
        for us in [last + 1, u64::MAX] {
            assert_eq!(Instant::from(CompactInstant::from(Instant::from_us(us))), Instant::from_us(last));
        }
    }
}
