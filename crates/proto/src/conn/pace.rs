//! How slowly the content of a request may arrive.
//!
//! Owns: [`Pace`], for all versions of HTTP. Guarantees: a client pays for each second that it keeps a request waiting,
//! by bytes of content, at `body_rate_min`; what it sends faster counts for a bounded time, so that a fast beginning
//! pays for no endless rest. Time that a program takes is not the client's. Does not know framing.

use crate::limits::{BODY_CREDIT_TIMEOUTS, Limits};
use crate::time::Instant;

/// The pace of one request's content.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// When some arrived last.
    at: Instant,
    /// Until when what has arrived pays, at the least rate.
    paid: Instant,
}

impl Pace {
    /// Content is expected from `now` on.
    pub(crate) fn new(now: Instant) -> Pace {
        Pace { at: now, paid: now }
    }

    /// `bytes` of it arrived.
    pub(crate) fn count(&mut self, bytes: usize, limits: &Limits, now: Instant) {
        if bytes == 0 {
            return;
        }
        self.at = now;
        if limits.body_rate_min > 0 {
            let earned_us = (bytes as u64).saturating_mul(1_000_000) / u64::from(limits.body_rate_min);
            let credit_ms = u64::from(limits.body_timeout_ms) * u64::from(BODY_CREDIT_TIMEOUTS);
            let paid = Instant::from_us(self.paid.us().saturating_add(earned_us)).min(now.after_long_ms(credit_ms));
            self.paid = self.paid.max(paid);
        }
    }

    /// For so long, until `now`, it was not for the client that nothing arrived.
    pub(crate) fn forgive(&mut self, ms: u64, now: Instant) {
        self.paid = self.paid.after_long_ms(ms);
        self.at = self.at.max(now);
    }

    /// Until when more has to arrive: the next piece, and what pays for the time until then.
    pub(crate) fn until(&self, limits: &Limits) -> Instant {
        let from = if limits.body_rate_min > 0 { self.at.min(self.paid) } else { self.at };
        from.after_ms(limits.body_timeout_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { body_timeout_ms: 10_000, body_rate_min: 100, ..Limits::DEFAULT };

    fn at(ms: u64) -> Instant {
        Instant::from_ms(ms)
    }

    #[test]
    fn a_byte_now_and_then_pays_for_little() {
        let mut pace = Pace::new(at(0));
        for second in 1..10 {
            pace.count(1, &LIMITS, at(second * 1000));
        }
        // Nine bytes are 90 milliseconds.
        assert_eq!(pace.until(&LIMITS), at(10_090));
    }

    #[test]
    fn who_keeps_the_rate_goes_on_and_each_piece_has_its_time() {
        let mut pace = Pace::new(at(0));
        for second in 1..1000 {
            pace.count(100, &LIMITS, at(second * 1000));
            assert!(pace.until(&LIMITS) >= at((second + 9) * 1000));
        }
        pace.count(1_000_000, &LIMITS, at(1_000_000));
        assert_eq!(pace.until(&LIMITS), at(1_010_000));
    }

    #[test]
    fn a_fast_beginning_pays_for_a_bounded_time() {
        let mut pace = Pace::new(at(0));
        pace.count(1 << 30, &LIMITS, at(0));
        let mut now = 0;
        while pace.until(&LIMITS) > at(now) {
            now += 5_000;
            pace.count(1, &LIMITS, at(now));
            assert!(now < 100_000);
        }
        assert!(now >= 30_000, "{now}");
    }

    #[test]
    fn time_that_was_not_the_clients_is_not_counted() {
        let mut pace = Pace::new(at(0));
        pace.count(1, &LIMITS, at(5_000));
        pace.forgive(60_000, at(65_000));
        assert_eq!(pace.until(&LIMITS), at(70_010));
    }

    #[test]
    fn without_a_rate_each_piece_has_its_time() {
        let limits = Limits { body_rate_min: 0, ..LIMITS };
        let mut pace = Pace::new(at(0));
        pace.count(1, &limits, at(9_000));
        assert_eq!(pace.until(&limits), at(19_000));
    }
}
