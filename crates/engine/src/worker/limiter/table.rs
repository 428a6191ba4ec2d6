//! The table of amounts taken: one word for each limit and client network, in buckets of one cache line.
//!
//! Guarantees: bounded memory, no lock and no allocation; a decision reads one line and changes one word of it by one
//! exchange, so that of several threads that ask for the same network at once no more are admitted than the rate
//! allows. Where a bucket is full of networks that are all over their steady rates, the one that is nearest to its own
//! is forgotten.

use lamna_policy::limit::{Decision, Rate};

use super::sync::{Relaxed, Word};

/// Words of a bucket.
pub(super) const WAYS: usize = 8;

/// Bits of a word that are an instant in ticks: more than eight years. The others tell networks in one bucket apart.
const TIME_BITS: u32 = 44;
const TIME: u64 = (1 << TIME_BITS) - 1;

/// Takes one for the party with `hash`, at `now` in ticks, if `rate` admits that.
pub(super) fn take(buckets: &[[Word; WAYS]], hash: u64, rate: Rate, now: u64) -> Decision {
    let bucket = &buckets[(hash % buckets.len() as u64) as usize];
    // The bits that have not decided about the bucket.
    let tag = hash & !TIME;
    loop {
        let (place, known, arrival) = find(bucket, tag);
        let decision = rate.decide(arrival, now);
        let Decision::Admitted(next) = decision else { return decision };
        // A thread that has lost against another looks again: it may have been for the same network.
        if bucket[place].compare_exchange(known, tag | next & TIME, Relaxed, Relaxed).is_ok() {
            return decision;
        }
    }
}

/// The place of `tag` in a bucket, or the one that is given to it; what stands there, and the arrival time of `tag`.
fn find(bucket: &[Word; WAYS], tag: u64) -> (usize, u64, u64) {
    let mut oldest = (0, u64::MAX);
    for (place, word) in bucket.iter().enumerate() {
        let word = word.load(Relaxed);
        if word & !TIME == tag && word != 0 {
            return (place, word, word & TIME);
        }
        if word & TIME < oldest.1 & TIME || oldest.1 == u64::MAX {
            oldest = (place, word);
        }
    }
    (oldest.0, oldest.1, 0)
}

/// The arrival time of the party with `hash`; 0 if it is new.
pub(super) fn arrival(buckets: &[[Word; WAYS]], hash: u64) -> u64 {
    find(&buckets[(hash % buckets.len() as u64) as usize], hash & !TIME).2
}

/// Moves the arrival time of the party with `hash`.
pub(super) fn change(buckets: &[[Word; WAYS]], hash: u64, next: impl Fn(u64) -> u64) {
    let bucket = &buckets[(hash % buckets.len() as u64) as usize];
    let tag = hash & !TIME;
    loop {
        let (place, known, arrival) = find(bucket, tag);
        if bucket[place].compare_exchange(known, tag | next(arrival) & TIME, Relaxed, Relaxed).is_ok() {
            return;
        }
    }
}
