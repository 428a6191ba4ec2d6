//! The bound from which a batch of an event loop counts as a stall.
//!
//! Owns: the bound. Does not measure: workers do, once for each batch of work.

use lamna_proto::time::Instant;

/// A batch of work that takes this long is a stall: clients that have sent something meanwhile have waited for it. Some
/// ticks of the coarse clock, and more than a batch takes that waits for nothing.
pub const STALL_MS: u64 = 20;

/// How long a batch of work from `begun` to `ended` has stalled its loop, in milliseconds.
pub fn stall_ms(begun: Instant, ended: Instant) -> u64 {
    let duration_ms = ended.since(begun);
    if duration_ms >= STALL_MS { duration_ms } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_a_stall_from_some_ticks_on() {
        assert_eq!(stall_ms(Instant::from_ms(100), Instant::from_ms(100)), 0);
        assert_eq!(stall_ms(Instant::from_ms(100), Instant::from_ms(99 + STALL_MS)), 0);
        assert_eq!(stall_ms(Instant::from_ms(100), Instant::from_ms(350)), 250);
    }
}
