//! Rate limits held against a bucket of tokens, and against what they promise.

use lamna_policy::limit::{Decision, Period, Rate, TICKS_PER_MS};
use proptest::prelude::*;

fn rates() -> impl Strategy<Value = Rate> {
    let period = prop::sample::select(vec![Period::Second, Period::Minute, Period::Hour]);
    (1..2000_u32, period, 1..50_u32).prop_map(|(count, period, burst)| Rate::new(count, period, burst).unwrap())
}

/// The model: a bucket that is filled by one token in each tick, of which each request takes an interval's.
struct Bucket {
    tokens: u64,
    at: u64,
}

impl Bucket {
    fn take(&mut self, rate: Rate, now: u64) -> bool {
        let room = rate.interval() * u64::from(rate.burst());
        self.tokens = room.min(self.tokens + now - self.at);
        self.at = now;
        let is_admitted = self.tokens >= rate.interval();
        self.tokens -= if is_admitted { rate.interval() } else { 0 };
        is_admitted
    }
}

proptest! {
    #[test]
    fn one_instant_does_what_a_bucket_of_tokens_does(
        rate in rates(), start in 0..1_000_000_u64, waits in prop::collection::vec((0..4_u64, 0..200_000_u64), 1..200),
    ) {
        let (mut arrival, mut now) = (0, start);
        let mut bucket = Bucket { tokens: rate.interval() * u64::from(rate.burst()), at: start };
        for (kind, wait) in waits {
            // Mostly at once, now and then much later.
            now += if kind == 0 { wait } else { wait % rate.interval().min(64) };
            let decision = rate.decide(arrival, now);
            prop_assert_eq!(matches!(decision, Decision::Admitted(_)), bucket.take(rate, now));
            match decision {
                Decision::Admitted(next) => arrival = next,
                Decision::Refused(wait) => {
                    prop_assert!(matches!(rate.decide(arrival, now + wait), Decision::Admitted(_)), "not too late");
                    prop_assert!(matches!(rate.decide(arrival, now + wait - 1), Decision::Refused(1)), "nor too early");
                }
            }
        }
    }

    #[test]
    fn no_more_come_through_than_the_burst_and_the_steady_rate(rate in rates(), every in 1..5000_u64) {
        let (mut arrival, mut admitted, mut now) = (0, 0, 0);
        for _ in 0..2000 {
            if let Decision::Admitted(next) = rate.decide(arrival, now) {
                (arrival, admitted) = (next, admitted + 1);
            }
            now += every;
        }
        prop_assert!(admitted <= u64::from(rate.burst()) + now / rate.interval());
    }

    #[test]
    fn a_rate_is_read_as_it_is_written(rate in rates()) {
        prop_assert_eq!(rate.to_string().parse(), Ok(rate));
    }
}

#[test]
fn rates_are_written_as_people_write_them() {
    let rate = |text: &str| text.parse::<Rate>();
    assert_eq!(rate("20/s"), Rate::new(20, Period::Second, 20));
    assert_eq!(rate("300/m burst 7"), Rate::new(300, Period::Minute, 7));
    assert_eq!(rate("1000/h").map(Rate::interval), Ok(3600 * TICKS_PER_MS));
    assert_eq!(rate("20/s burst 100").map(Rate::window_s), Ok(5));
    for text in [
        "",
        "20",
        "20/d",
        "0/s",
        "20/s burst 0",
        "-1/s",
        "+1/s",
        "20 / s",
        "64001/s",
        "20/s burst",
        "1/s burst 10000001",
    ] {
        assert!(rate(text).is_err(), "{text}");
    }
}
