//! The hinted policy: GDSF where nothing is expected, and what is expected stays longer.

use lamna_policy::cache::{Algorithm, Bounded, Hinted, ObjectId, Objective, Offer, Removal, Replacement};
use lamna_policy::hints::Probability;
use proptest::prelude::*;

const IDS: u32 = 16;

proptest! {
    #[test]
    fn without_expectations_the_victims_are_those_of_gdsf(
        operations in prop::collection::vec((0..IDS, 1..400_u64, 0..4_u8), 0..200), by_bytes: bool,
    ) {
        let objective = if by_bytes { Objective::Bytes } else { Objective::Requests };
        let mut hinted: Box<dyn Replacement> = Box::new(Hinted::new(objective));
        let mut gdsf = Algorithm::Gdsf.build(1_000, objective);
        for (id, size, choice) in operations {
            let object = ObjectId(id);
            for policy in [&mut hinted, &mut gdsf] {
                match choice {
                    0 => if let Some(victim) = policy.victim() {
                        policy.remove(victim, Removal::Evicted);
                    },
                    1 if policy.holds(object) => policy.resize(object, size),
                    _ if policy.holds(object) => policy.hit(object),
                    _ => policy.admit(object, size),
                }
            }
            prop_assert_eq!(hinted.victim(), gdsf.victim());
            prop_assert_eq!(hinted.len(), gdsf.len());
        }
    }

    #[test]
    fn the_bound_is_kept_and_a_victim_is_held_whatever_is_expected(
        operations in prop::collection::vec((0..IDS, 1..400_u64, 0..5_u8, 0..1_001_u16), 0..300),
    ) {
        let mut cache = Bounded::of_policy(Box::new(Hinted::new(Objective::Requests)), 1_000);
        let mut held = std::collections::BTreeMap::new();
        for (id, size, choice, thousandths) in operations {
            let (object, probability) = (ObjectId(id), Probability::per_mille(thousandths));
            let offers = match choice {
                0 => {
                    cache.withdraw(object);
                    held.remove(&id);
                    false
                }
                1 | 2 => {
                    cache.expect(object, probability);
                    !cache.holds(object) && cache.deserves_room(size, probability)
                }
                _ => !cache.request(object),
            };
            if offers && cache.offer(object, size, |gone| { held.remove(&gone.0); }) == Offer::Admitted {
                held.insert(id, size);
            }
            prop_assert_eq!(cache.bytes(), held.values().sum::<u64>());
            prop_assert!(cache.bytes() <= 1_000);
            prop_assert_eq!(cache.len(), held.len());
        }
    }
}

fn four_equal() -> Hinted {
    let mut policy = Hinted::new(Objective::Requests);
    (0..4).for_each(|id| policy.admit(ObjectId(id), 100));
    policy
}

#[test]
fn what_is_expected_outlasts_its_equals_until_it_was_used() {
    let mut policy = four_equal();
    policy.expect(ObjectId(0), Probability::CERTAIN);
    for id in [1, 2, 3] {
        assert_eq!(policy.victim(), Some(ObjectId(id)));
        policy.remove(ObjectId(id), Removal::Evicted);
    }
    policy.hit(ObjectId(0));
    policy.admit(ObjectId(1), 100);
    policy.hit(ObjectId(1));
    assert_eq!(policy.victim(), Some(ObjectId(0)), "both were used twice, it before the other");
}

#[test]
fn what_is_expected_in_vain_goes_when_it_has_aged() {
    let mut policy = four_equal();
    policy.expect(ObjectId(0), Probability::CERTAIN);
    let mut rounds = 0;
    // Newcomers come and go; each eviction ages what stays.
    while policy.holds(ObjectId(0)) {
        let victim = policy.victim().expect("four are held");
        policy.remove(victim, Removal::Evicted);
        policy.admit(ObjectId(10 + rounds), 100);
        rounds += 1;
        assert!(rounds < 40, "it stays for ever");
    }
    assert!(rounds >= 4, "it went before its equals");
}

#[test]
fn what_nobody_asked_for_deserves_no_room_of_what_was_used_more_than_it_is_likely() {
    let mut policy = four_equal();
    assert!(policy.deserves_room(100, Probability::CERTAIN));
    assert!(!policy.deserves_room(100, Probability::per_mille(100)));
    assert!(!policy.deserves_room(100_000, Probability::CERTAIN), "a thousand times the bytes");
    (0..4).for_each(|id| (0..9).for_each(|_| policy.hit(ObjectId(id))));
    assert!(!policy.deserves_room(100, Probability::CERTAIN));
    assert!(!Algorithm::Lru.build(1, Objective::Requests).deserves_room(1, Probability::CERTAIN));
}
