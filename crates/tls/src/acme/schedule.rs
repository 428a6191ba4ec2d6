//! When a certificate is ordered, and how long a failure is paused for. Numbers in, numbers out.
//!
//! Owns: the policy. A certificate is renewed when a third of its life is left, or when its authority says (RFC 9773);
//! what is chosen at random within bounds follows from the certificate itself, so that all processes choose the same
//! without agreeing on it.

use super::record::Record;
use crate::der::Validity;

/// The next step for a name, and when: seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Order a certificate.
    Order(u64),
    /// Ask the certificate authority when this one is to be renewed.
    Ask(u64),
}

impl Next {
    /// When.
    pub fn at(self) -> u64 {
        match self {
            Next::Order(at) | Next::Ask(at) => at,
        }
    }
}

/// Seconds after a first failure. Each further one multiplies it by [`PAUSE_FACTOR`]: four attempts within the first
/// hour, where the largest authority allows five failed ones.
const PAUSE_S: u64 = 60;
const PAUSE_FACTOR: u64 = 4;
/// The longest.
pub const PAUSE_MAX_S: u64 = 12 * 3600;

/// A certificate that was just issued is kept for at least this part of its life, whatever its authority says: an
/// authority that always says "now" would be asked for one after the other.
const KEPT_FOR: u64 = 90;

/// Bounds of how long the answer of an authority about a renewal is taken to be true.
const ASK_AGAIN_MIN_S: u64 = 60;
/// The longest.
pub const ASK_AGAIN_MAX_S: u64 = 24 * 3600;
/// The same if it did not answer.
pub const ASK_AGAIN_FAILED_S: u64 = 6 * 3600;

/// When a certificate with this validity is renewed. `seed` chooses within what is left open.
pub fn renew_at(validity: Validity, record: &Record, seed: u64) -> u64 {
    let [from, until] = [validity.from, validity.until].map(|second| u64::try_from(second).unwrap_or(0));
    let life = until.saturating_sub(from);
    let within = |span: u64| seed % span.max(1);
    let by_age = from + life / 3 * 2 - within(life / 20).min(from + life / 3 * 2);
    let window = record.renewal.as_ref().filter(|renewal| renewal.of == until).and_then(|renewal| renewal.window);
    let at = match window {
        // Not so late that nothing could go wrong any more.
        Some((start, end)) => (start + within(end.saturating_sub(start))).min(until - (life / 6).min(until)),
        None => by_age,
    };
    at.max(record.issued_at + life / KEPT_FOR)
}

/// The next step for a name with a certificate of this validity; none if it has none that can be used.
pub fn next(validity: Option<Validity>, record: &Record, seed: u64) -> Next {
    let Some(validity) = validity else { return Next::Order(record.not_before) };
    let until = u64::try_from(validity.until).unwrap_or(0);
    let order = renew_at(validity, record, seed).max(record.not_before);
    let ask = record.renewal.as_ref().filter(|renewal| renewal.of == until).map_or(0, |renewal| renewal.ask_at);
    if ask < order { Next::Ask(ask) } else { Next::Order(order) }
}

/// Seconds until the next attempt after so many failures in a row. `random` moves it by up to a quarter, so that
/// servers that have failed at the same time do not come back at the same time.
pub fn pause(failures: u32, random: u64) -> u64 {
    let steps = failures.saturating_sub(1).min(8);
    let pause = (PAUSE_S * PAUSE_FACTOR.pow(steps)).min(PAUSE_MAX_S);
    pause - pause / 4 + random % (pause / 2)
}

/// Seconds until an authority is asked again that has said `said`.
pub fn ask_again(said: u64) -> u64 {
    said.clamp(ASK_AGAIN_MIN_S, ASK_AGAIN_MAX_S)
}

#[cfg(test)]
mod tests {
    use super::super::record::Renewal;
    use super::*;
    use proptest::prelude::*;

    const DAY: u64 = 86_400;

    fn validity(from: u64, days: u64) -> Validity {
        Validity { from: from as i64, until: (from + days * DAY) as i64 }
    }

    #[test]
    fn what_is_not_there_is_ordered_at_once_or_after_the_pause() {
        assert_eq!(next(None, &Record::default(), 7), Next::Order(0));
        assert_eq!(next(None, &Record { not_before: 99, ..Record::default() }, 7), Next::Order(99));
    }

    #[test]
    fn a_third_of_the_life_is_left_when_it_is_renewed_and_servers_differ() {
        let from = 1_000 * DAY;
        let at = |seed| renew_at(validity(from, 90), &Record::default(), seed);
        let latest = from + 60 * DAY;
        assert_eq!(at(0), latest);
        assert!((0..500).map(|seed| at(seed * 7919)).all(|at| at <= latest && at > latest - 5 * DAY));
        assert_ne!(at(1), at(2));
    }

    #[test]
    fn the_authority_may_say_sooner_or_later_and_never_at_once_again_and_again() {
        let from = 1_000 * DAY;
        let until = from + 90 * DAY;
        let said = |start, end| Record {
            renewal: Some(Renewal { of: until, window: Some((start, end)), ask_at: 0 }),
            issued_at: from,
            ..Record::default()
        };
        let at = |record: &Record| renew_at(validity(from, 90), record, 12_345);
        assert_eq!(at(&said(from + 10 * DAY, from + 10 * DAY)), from + 10 * DAY);
        assert_eq!(at(&said(from - DAY, from - DAY)), from + DAY);
        assert_eq!(at(&said(until + DAY, until + DAY)), until - 15 * DAY);
        // What it said of the one before does not count.
        let other = Record { renewal: Some(Renewal { of: 1, window: Some((1, 1)), ask_at: 0 }), ..Record::default() };
        assert!(at(&other) > from + 50 * DAY);
    }

    #[test]
    fn the_authority_is_asked_before_a_renewal_that_is_not_due() {
        let valid = validity(1_000 * DAY, 90);
        assert_eq!(next(Some(valid), &Record::default(), 0), Next::Ask(0));
        let renewal = Renewal { of: valid.until as u64, window: None, ask_at: 2_000 * DAY };
        let record = Record { renewal: Some(renewal), ..Record::default() };
        assert_eq!(next(Some(valid), &record, 0), Next::Order(1_060 * DAY));
    }

    #[test]
    fn pauses_grow_up_to_half_a_day() {
        let middle: Vec<u64> = (1..9).map(|failures| pause(failures, pause_middle(failures))).collect();
        assert_eq!(middle, [60, 240, 960, 3840, 15_360, 43_200, 43_200, 43_200]);
        assert!((0..u32::MAX).step_by(99_999_999).all(|failures| pause(failures, u64::MAX) <= PAUSE_MAX_S * 5 / 4));
    }

    fn pause_middle(failures: u32) -> u64 {
        (PAUSE_S * PAUSE_FACTOR.pow(failures - 1)).min(PAUSE_MAX_S) / 4
    }

    proptest! {
        #[test]
        fn no_numbers_are_too_large(from: i64, until: i64, start: u32, end: u32, seed: u64, at: u32) {
            let validity = Validity { from: from >> 8, until: until >> 8 };
            let of = u64::try_from(validity.until).unwrap_or(0);
            let renewal = Some(Renewal { of, window: Some((start.into(), end.into())), ask_at: at.into() });
            let record = Record { renewal, issued_at: at.into(), ..Record::default() };
            let _ = (next(Some(validity), &record, seed), next(Some(validity), &Record::default(), seed));
        }
    }
}
