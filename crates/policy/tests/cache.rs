//! Every policy over random operations: the victim is the one the algorithm names, nothing is lost, bytes stay bounded.

use lamna_policy::cache::{Admission, Algorithm, Bounded, ObjectId, Objective, Offer, Removal, Replacement, hand_over};
use proptest::prelude::*;

use crate::reference::Reference;

const IDS: u32 = 24;

#[derive(Clone, Debug)]
enum Operation {
    Use(u32, u64),
    Evict,
    Withdraw(u32),
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let operation = prop_oneof![
        6 => (0..IDS, 1..400_u64).prop_map(|(id, size)| Operation::Use(id, size)),
        3 => Just(Operation::Evict),
        1 => (0..IDS).prop_map(Operation::Withdraw),
    ];
    prop::collection::vec(operation, 0..200)
}

fn algorithms() -> impl Strategy<Value = Algorithm> {
    prop::sample::select(Algorithm::ALL.to_vec())
}

fn objectives() -> impl Strategy<Value = Objective> {
    prop::sample::select(vec![Objective::Requests, Objective::Bytes])
}

fn held(policy: &dyn Replacement) -> Vec<u32> {
    (0..IDS).filter(|&id| policy.holds(ObjectId(id))).collect()
}

proptest! {
    #[test]
    fn names_the_victim_that_the_algorithm_names(
        algorithm in algorithms(), objective in objectives(), operations in operations(),
    ) {
        let bound = 1_000;
        let mut policy = algorithm.build(bound, objective);
        let mut reference = Reference::new(algorithm, objective, bound);
        for operation in operations {
            match operation {
                Operation::Use(id, _) if policy.holds(ObjectId(id)) => {
                    policy.hit(ObjectId(id));
                    reference.hit(ObjectId(id));
                }
                Operation::Use(id, size) => {
                    policy.admit(ObjectId(id), size);
                    reference.admit(ObjectId(id), size);
                }
                Operation::Evict => {
                    let victim = policy.victim();
                    if let Some(named) = reference.victim() {
                        prop_assert_eq!(victim, named);
                    }
                    prop_assert_eq!(victim.is_some(), !policy.is_empty());
                    prop_assert!(victim.is_none_or(|victim| policy.holds(victim)), "a victim is held");
                    prop_assert_eq!(victim, policy.victim(), "naming is stable");
                    if let Some(victim) = victim {
                        policy.remove(victim, Removal::Evicted);
                        reference.remove(victim, Removal::Evicted);
                    }
                }
                Operation::Withdraw(id) if policy.holds(ObjectId(id)) => {
                    policy.remove(ObjectId(id), Removal::Withdrawn);
                    reference.remove(ObjectId(id), Removal::Withdrawn);
                }
                Operation::Withdraw(_) => {}
            }
            prop_assert_eq!(held(policy.as_ref()), reference.ids());
            prop_assert_eq!(policy.len(), reference.ids().len());
        }
    }

    #[test]
    fn keeps_the_bytes_within_the_bound_and_loses_no_object(
        algorithm in algorithms(), objective in objectives(), operations in operations(), filtered: bool,
    ) {
        let mut cache = Bounded::new(algorithm, objective, 1_000);
        if filtered {
            cache = cache.with_admission(Admission::new(objective, 300, 50));
        }
        let mut held = std::collections::BTreeMap::new();
        for operation in operations {
            match operation {
                Operation::Use(id, size) => {
                    let hit = cache.request(ObjectId(id));
                    prop_assert_eq!(hit, held.contains_key(&id));
                    if !hit && cache.offer(ObjectId(id), size, |gone| { held.remove(&gone.0); }) == Offer::Admitted {
                        held.insert(id, size);
                    }
                }
                Operation::Evict => cache.rebound(cache.bound_bytes(), |gone| { held.remove(&gone.0); }),
                Operation::Withdraw(id) => {
                    cache.withdraw(ObjectId(id));
                    held.remove(&id);
                }
            }
            prop_assert!(cache.bytes() <= cache.bound_bytes());
            prop_assert_eq!(cache.bytes(), held.values().sum::<u64>());
            prop_assert_eq!(cache.len(), held.len());
        }
    }

    #[test]
    fn hands_everything_over_to_another_policy(
        from in algorithms(), to in algorithms(), operations in operations(),
    ) {
        let mut cache = Bounded::new(from, Objective::Requests, 1_000);
        for operation in operations {
            if let Operation::Use(id, size) = operation && !cache.request(ObjectId(id)) {
                let _ = cache.offer(ObjectId(id), size, |_| ());
            }
        }
        let before: Vec<_> = (0..IDS).filter(|&id| cache.holds(ObjectId(id))).collect();
        cache.change_policy(to.build(1_000, Objective::Requests));
        let after: Vec<_> = (0..IDS).filter(|&id| cache.holds(ObjectId(id))).collect();
        prop_assert_eq!(before.len(), cache.len());
        prop_assert_eq!(before, after);
        cache.rebound(0, |_| ());
        prop_assert_eq!((cache.len(), cache.bytes()), (0, 0));
    }
}

/// Names nobody, or somebody who is not there.
struct Broken(Option<ObjectId>, usize);

impl Replacement for Broken {
    fn admit(&mut self, _: ObjectId, _: u64) {
        self.1 += 1;
    }

    fn hit(&mut self, _: ObjectId) {}

    fn memory_bytes(&self) -> usize {
        0
    }

    fn victim(&mut self) -> Option<ObjectId> {
        self.0
    }

    fn remove(&mut self, _: ObjectId, _: Removal) {
        self.1 -= 1;
    }

    fn len(&self) -> usize {
        self.1
    }

    fn holds(&self, _: ObjectId) -> bool {
        false
    }
}

#[test]
fn of_a_policy_that_breaks_its_contract_nothing_more_is_admitted() {
    for named in [None, Some(ObjectId(99))] {
        let mut cache = Bounded::of_policy(Box::new(Broken(named, 0)), 1_000);
        let admitted = (0..20).filter(|id| cache.offer(ObjectId(*id), 100, |_| ()) == Offer::Admitted).count();
        assert_eq!((admitted, cache.bytes()), (10, 1_000));
    }
}

#[test]
fn a_recency_order_survives_a_change_of_policy() {
    let mut from = Algorithm::Lru.build(100, Objective::Requests);
    let mut to = Algorithm::Lru.build(100, Objective::Requests);
    for id in [3, 1, 2] {
        from.admit(ObjectId(id), 1);
    }
    hand_over(from.as_mut(), to.as_mut(), |_| 1);
    for id in [3, 1, 2] {
        assert_eq!(to.victim(), Some(ObjectId(id)));
        to.remove(ObjectId(id), Removal::Evicted);
    }
}

#[test]
fn a_scan_does_not_flush_the_hot_set_of_s3_fifo() {
    let mut cache = Bounded::new(Algorithm::S3Fifo, Objective::Requests, 1_000);
    for id in 0..50 {
        let _ = cache.offer(ObjectId(id), 10, |_| ());
    }
    for _ in 0..3 {
        assert!((0..50).all(|id| cache.request(ObjectId(id))));
    }
    for id in 1_000..3_000 {
        let _ = cache.offer(ObjectId(id), 10, |_| ());
    }
    assert!((0..50).all(|id| cache.holds(ObjectId(id))));
}

#[test]
fn a_huge_object_never_enters_past_the_filter() {
    let filter = Admission::new(Objective::Bytes, 100, 1_000);
    let mut cache = Bounded::new(Algorithm::Lru, Objective::Bytes, 1_000).with_admission(filter);
    for _ in 0..100 {
        assert!(!cache.request(ObjectId(7)));
        assert_eq!(cache.offer(ObjectId(7), 101, |_| ()), Offer::Refused);
    }
    assert!(cache.is_empty());
}

#[test]
fn the_filter_prefers_what_is_asked_for_more_often_per_byte() {
    let filter = Admission::new(Objective::Requests, u64::MAX, 1_000);
    let mut cache = Bounded::new(Algorithm::Lru, Objective::Requests, 100).with_admission(filter);
    cache.request(ObjectId(0));
    assert_eq!(cache.offer(ObjectId(0), 100, |_| ()), Offer::Admitted);
    cache.request(ObjectId(1));
    assert_eq!(cache.offer(ObjectId(1), 100, |_| ()), Offer::Refused, "equal: what is there stays");
    cache.request(ObjectId(2));
    assert_eq!(cache.offer(ObjectId(2), 10, |_| ()), Offer::Admitted, "a tenth of the bytes");
}

#[test]
fn names_are_parsed_back() {
    for algorithm in Algorithm::ALL {
        assert_eq!(algorithm.name().parse(), Ok(algorithm));
    }
    assert!("fifo".parse::<Algorithm>().is_err());
}
