//! The policy of `clock.rs` beside the built-in ones, on one sequence of requests.
//!
//!     cargo run -p lamna-policy --example own_policy

mod clock;

use clock::Clock;
use lamna_policy::cache::{Algorithm, Bounded, ObjectId, Objective};

/// Requests for `files` files of 100 bytes: three of four go to the first tenth of them.
fn requests(files: u32, count: u32) -> impl Iterator<Item = ObjectId> {
    let mut state = 1_u32;
    (0..count).map(move |_| {
        // A linear congruential generator (Numerical Recipes): the same sequence in every run.
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let (choice, file) = (state >> 30, (state >> 8) % files);
        ObjectId(if choice == 0 { file } else { file / 10 })
    })
}

/// Which part of the requests a cache with room for `room` files answers.
fn hit_ratio(mut cache: Bounded, requests: impl Iterator<Item = ObjectId>) -> f64 {
    let (mut hits, mut count) = (0, 0);
    for object in requests {
        count += 1;
        if cache.request(object) {
            hits += 1;
        } else {
            // A file that is refused is served without being kept.
            let _ = cache.offer(object, 100, |_| ());
        }
    }
    f64::from(hits) / f64::from(count)
}

fn main() {
    let (files, count, bound_bytes) = (1_000, 100_000, 20_000);
    let clock = Bounded::of_policy(Box::new(Clock::default()), bound_bytes);
    println!("clock    {:.3}", hit_ratio(clock, requests(files, count)));
    for algorithm in Algorithm::ALL {
        let cache = Bounded::new(algorithm, Objective::Requests, bound_bytes);
        println!("{:8} {:.3}", algorithm.name(), hit_ratio(cache, requests(files, count)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_victim_is_held_and_the_bound_is_kept_on_any_requests() {
        let mut cache = Bounded::of_policy(Box::new(Clock::default()), 2_000);
        let mut held = std::collections::BTreeSet::new();
        for object in requests(200, 20_000) {
            if !cache.request(object) {
                let _ = cache.offer(object, 100, |victim| assert!(held.remove(&victim), "{victim:?} was not held"));
                held.insert(object);
            }
            assert!(cache.bytes() <= 2_000 && cache.len() == held.len());
        }
    }
}
