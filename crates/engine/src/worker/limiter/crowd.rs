//! How many connections each client network has open: a word for each network, in buckets of one cache line.
//!
//! Guarantees: bounded memory, no lock and no allocation. Each process changes the words of its own part only, and
//! reads those of the others, so what a process that was killed had counted goes with its part. Where a bucket of a
//! part is full of other networks, a connection is let in and not counted.

use super::sync::{Relaxed, Word};

/// Words of a bucket.
pub(super) const WAYS: usize = 8;

/// Bits of a word that are a count. The others tell networks in one bucket apart. A word whose count is zero is zero,
/// and free.
const COUNT_BITS: u32 = 24;
const COUNT: u64 = (1 << COUNT_BITS) - 1;

/// One bucket.
type Bucket = [Word; WAYS];

/// The decision about a connection that wants in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// It is in, and counted at this word of the part. The owner of this leaves there once.
    Counted(u32),
    /// It is in. There was no room to count it.
    Uncounted,
    /// There are as many as there may be.
    Refused,
}

/// Lets a connection of the network with `hash` in, if it has fewer than `most` in all parts. It is counted in part
/// `own` of `parts`, all of which are of the same length. Of several that come at once in different parts, each may
/// miss the others.
pub(super) fn enter(buckets: &[Bucket], parts: usize, own: usize, hash: u64, most: u64) -> Entry {
    let length = buckets.len() / parts;
    let (at, tag) = ((hash % length as u64) as usize, hash & !COUNT);
    let of_others = || (0..parts).filter(|part| *part != own).map(|part| count(&buckets[part * length + at], tag));
    let others: u64 = if most == u64::MAX { 0 } else { of_others().sum() };
    let bucket = &buckets[own * length + at];
    loop {
        let (mut own_count, mut place) = (0, None);
        for (way, word) in bucket.iter().enumerate() {
            let known = word.load(Relaxed);
            if known != 0 && known & !COUNT == tag {
                own_count += known & COUNT;
                // Its own word rather than a free one before it.
                place = Some((way, known));
            } else if known == 0 && place.is_none() {
                place = Some((way, 0));
            }
        }
        if others + own_count >= most {
            return Entry::Refused;
        }
        let Some((way, known)) = place.filter(|(_, known)| known & COUNT != COUNT) else { return Entry::Uncounted };
        // A thread that has lost against another looks again.
        if bucket[way].compare_exchange(known, (tag | known & COUNT) + 1, Relaxed, Relaxed).is_ok() {
            return Entry::Counted((at * WAYS + way) as u32);
        }
    }
}

/// Takes a connection back that was counted at `place` of part `own`.
pub(super) fn leave(buckets: &[Bucket], parts: usize, own: usize, place: u32) {
    let word = word(buckets, parts, own, place);
    let mut known = word.load(Relaxed);
    loop {
        debug_assert!(known & COUNT > 0, "a connection leaves that was not counted at {place}");
        // The last one frees the word.
        let next = if known & COUNT <= 1 { 0 } else { known - 1 };
        match word.compare_exchange(known, next, Relaxed, Relaxed) {
            Ok(_) => return,
            Err(other) => known = other,
        }
    }
}

/// The word at `place` of part `own`.
pub(super) fn word(buckets: &[Bucket], parts: usize, own: usize, place: u32) -> &Word {
    let (at, way) = (place as usize / WAYS, place as usize % WAYS);
    &buckets[buckets.len() / parts * own + at][way]
}

/// The words of part `own` among which that of the network with `hash` is.
pub(super) fn words_of(buckets: &[Bucket], parts: usize, own: usize, hash: u64) -> &Bucket {
    let length = buckets.len() / parts;
    &buckets[length * own + (hash % length as u64) as usize]
}

/// How many connections are counted at `place` of part `own`.
pub(super) fn count_at(buckets: &[Bucket], parts: usize, own: usize, place: u32) -> u64 {
    word(buckets, parts, own, place).load(Relaxed) & COUNT
}

/// The process of part `own` has gone, with all its connections.
pub(super) fn clear(buckets: &[Bucket], parts: usize, own: usize) {
    let length = buckets.len() / parts;
    for word in buckets[own * length..(own + 1) * length].iter().flatten() {
        // What was never written to takes no memory, and is not to begin to.
        if word.load(Relaxed) != 0 {
            word.store(0, Relaxed);
        }
    }
}

/// How many connections of the network with `hash` are counted in all parts.
pub(super) fn counted(buckets: &[Bucket], parts: usize, hash: u64) -> u64 {
    let length = buckets.len() / parts;
    let (at, tag) = ((hash % length as u64) as usize, hash & !COUNT);
    (0..parts).map(|part| count(&buckets[part * length + at], tag)).sum()
}

fn count(bucket: &Bucket, tag: u64) -> u64 {
    let words = bucket.iter().map(|word| word.load(Relaxed));
    words.filter(|word| *word != 0 && word & !COUNT == tag).map(|word| word & COUNT).sum()
}
