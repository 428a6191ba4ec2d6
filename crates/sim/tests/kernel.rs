//! The calendar's order and the independence of streams.

use lamna_sim::kernel::{Calendar, Stream};
use lamna_sim::resource::{Handover, Lock, TaskId};
use proptest::prelude::*;

proptest! {
    #[test]
    fn events_come_in_order_of_time_and_then_of_scheduling(delays in prop::collection::vec(0..20_u64, 0..200)) {
        let mut calendar = Calendar::new();
        for (number, &delay) in delays.iter().enumerate() {
            calendar.after(delay, (delay, number));
        }
        let mut expected: Vec<_> = delays.iter().copied().zip(0..).collect();
        expected.sort_unstable();
        let found: Vec<_> = std::iter::from_fn(|| calendar.next()).collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn a_lock_has_one_owner_and_forgets_nobody(grant: bool, choices in prop::collection::vec(0..8_u32, 1..300)) {
        let mut lock = Lock::new(if grant { Handover::Grant } else { Handover::Compete });
        let (mut owner, mut waiting) = (None, Vec::new());
        for (now, task) in (0..).zip(choices) {
            if owner == Some(task) {
                owner = None;
                if let Some(TaskId(woken)) = lock.release(now) {
                    waiting.retain(|&other| other != woken);
                    // The woken task asks again at once.
                    prop_assert!(lock.acquire(TaskId(woken), now));
                    owner = Some(woken);
                } else {
                    prop_assert!(waiting.is_empty());
                }
            } else if !waiting.contains(&task) {
                let got = lock.acquire(TaskId(task), now);
                prop_assert_eq!(got, owner.is_none());
                if got { owner = Some(task) } else { waiting.push(task) }
            }
            prop_assert_eq!(lock.waiting_len(), waiting.len());
        }
    }
}

#[test]
fn streams_of_one_seed_differ_by_name_and_repeat_by_name() {
    let draws = |name| {
        let mut stream = Stream::new(7, name);
        (0..100).map(|_| stream.bits()).collect::<Vec<_>>()
    };
    assert_eq!(draws("a"), draws("a"));
    assert!(draws("a").iter().zip(draws("b")).all(|(a, b)| *a != b));
}

#[test]
fn a_stream_is_uniform_to_a_chi_square_test() {
    let mut stream = Stream::new(3, "uniform");
    let mut counts = [0_f64; 64];
    (0..640_000).for_each(|_| counts[stream.below(64) as usize] += 1.0);
    let chi: f64 = counts.iter().map(|count| (count - 1e4).powi(2) / 1e4).sum();
    // 63 degrees of freedom: 0.1 % of good generators exceed 104.
    assert!(chi < 104.0, "{chi}");
}
