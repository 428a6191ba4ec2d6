//! The core's own instant, so that a simulator or a test can be the clock.
//!
//! Owns: the type. Nothing in this crate reads a clock; every step that depends on time is given it.

/// Milliseconds since an origin that the driver chooses, never going back. Coarse on purpose: the core uses time for
/// timeouts, whose unit is the millisecond (`limits`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(pub u64);

impl Instant {
    /// The instant `ms` milliseconds later.
    #[must_use]
    pub fn after_ms(self, ms: u32) -> Instant {
        Instant(self.0 + u64::from(ms))
    }

    /// Milliseconds from `earlier` to this instant; zero if that is not in the past.
    pub fn since(self, earlier: Instant) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}
