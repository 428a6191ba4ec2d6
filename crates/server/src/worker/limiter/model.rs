//! The table of limits, run through every interleaving (`models`): threads that take for the same network at once, and for two
//! networks that share a bucket.

#[path = "table.rs"]
#[allow(clippy::duplicate_mod, dead_code, reason = "the same source over other primitives")]
mod table;

/// What it is made of in the model.
mod sync {
    pub(super) use loom::sync::atomic::{AtomicU64 as Word, Ordering::Relaxed};
}

use std::sync::Arc;

use crate::loom_support::{check, spawn};
use lamna_policy::limit::{Decision, Rate};
use sync::Word;
use table::{WAYS, take};

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
