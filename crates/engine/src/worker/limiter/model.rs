//! The tables of limits, run through every interleaving: threads that take for the same network at once, and for two
//! networks that share a bucket; and threads that begin and end connections at once.

#[path = "crowd.rs"]
#[allow(clippy::duplicate_mod, dead_code, reason = "the same source over other primitives")]
mod crowd;
#[path = "table.rs"]
#[allow(clippy::duplicate_mod, dead_code, reason = "the same source over other primitives")]
mod table;

/// The atomics of the model: loom's.
mod sync {
    pub(super) use loom::sync::atomic::{AtomicU64 as Word, Ordering::Relaxed};
}

use std::sync::Arc;

use crowd::{Entry, enter, leave};
use lamna_loom::{check, spawn};
use lamna_policy::limit::{Decision, Rate};
use sync::Word;
use table::{WAYS, arrival, change, take};

fn buckets() -> Arc<Vec<[Word; WAYS]>> {
    Arc::new(vec![std::array::from_fn(|_| Word::new(0))])
}

fn rate() -> Rate {
    "1/s burst 2".parse().expect("a rate")
}

const ONE: u64 = 1 << 60;
const OTHER: u64 = 2 << 60;

fn admits(buckets: &[[Word; WAYS]], hash: u64) -> usize {
    usize::from(matches!(take(buckets, hash, rate(), 1000), Decision::Admitted(_)))
}

#[test]
fn of_threads_that_take_for_one_network_as_many_are_admitted_as_the_burst_has() {
    check(|| {
        let buckets = buckets();
        let others: Vec<_> = (0..2)
            .map(|_| {
                let buckets = buckets.clone();
                spawn(move || admits(&buckets, ONE))
            })
            .collect();
        let own = admits(&buckets, ONE);
        let all: usize = others.into_iter().map(|other| other.join().unwrap()).sum();
        assert_eq!(own + all, 2);
        assert_eq!(admits(&buckets, ONE), 0);
    });
}

#[test]
fn networks_in_one_bucket_take_nothing_from_each_other() {
    check(|| {
        let buckets = buckets();
        let theirs = buckets.clone();
        let other = spawn(move || admits(&theirs, OTHER) + admits(&theirs, OTHER));
        let own = admits(&buckets, ONE) + admits(&buckets, ONE);
        assert_eq!((own, other.join().unwrap()), (2, 2));
        assert_eq!((admits(&buckets, ONE), admits(&buckets, OTHER)), (0, 0));
    });
}

fn begin(buckets: &[[Word; WAYS]], hash: u64, most: u64) -> Option<u32> {
    match enter(buckets, 1, 0, hash, most) {
        Entry::Counted(place) => Some(place),
        Entry::Uncounted => panic!("there is room"),
        Entry::Refused => None,
    }
}

#[test]
fn of_connections_that_begin_at_once_as_many_are_let_in_as_the_limit_says() {
    check(|| {
        let buckets = buckets();
        let others: Vec<_> = (0..2)
            .map(|_| {
                let buckets = buckets.clone();
                spawn(move || begin(&buckets, ONE, 2))
            })
            .collect();
        let own = begin(&buckets, ONE, 2);
        let all = others.into_iter().filter_map(|other| other.join().unwrap()).chain(own);
        assert_eq!(all.count(), 2);
    });
}

#[test]
fn whoever_begins_and_ends_at_once_nothing_is_left_counted() {
    check(|| {
        let buckets = buckets();
        let (theirs, thirds) = (buckets.clone(), buckets.clone());
        let come_and_go = |buckets: &[[Word; WAYS]], hash| {
            let place = begin(buckets, hash, 9).expect("it is let in");
            leave(buckets, 1, 0, place);
        };
        let other = spawn(move || come_and_go(&theirs, OTHER));
        let third = spawn(move || come_and_go(&thirds, ONE));
        come_and_go(&buckets, ONE);
        other.join().unwrap();
        third.join().unwrap();
        assert!(buckets.iter().flatten().all(|word| word.load(sync::Relaxed) == 0));
    });
}

#[test]
fn bytes_that_are_counted_at_once_are_all_counted() {
    check(|| {
        let buckets = buckets();
        let theirs = buckets.clone();
        let other = spawn(move || change(&theirs, ONE, |arrival| arrival + 5));
        change(&buckets, ONE, |arrival| arrival + 3);
        other.join().unwrap();
        assert_eq!(arrival(&buckets, ONE), 8);
    });
}
