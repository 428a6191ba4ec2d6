//! How many threads a pool should have, or how many helpers there may be: enough that no work waits, within a bound.
//!
//! Owns: the bounds between which nothing is changed. With one thread too few, a request waits while the disk or a
//! client would have time for it. One thread too many takes memory, and a place in the run queue.
//!
//! # How it decides
//! ```text
//!  size
//!   max ─┬──────────────────── never more
//!        │      ▲ twice as many: all are busy at once, and who wants one waits DELAY_US, for MORE_AFTER_MS
//!        │      │
//!        │   as it is
//!        │      │
//!        │      ▼ half as many: not even half have been busy at once, for FEWER_AFTER_MS
//!   min ─┴──────────────────── never fewer
//! ```
//! Growing is quick, because it is a client who waits. Shrinking is slow, so that a burst each minute finds the threads
//! there. Where the pool's throughput is known, growing has to pay: if twice as many threads do not do [`GAIN`] times
//! as much in the next interval, what they wait for (a disk, as a rule) can do no more. Half of them would then wait in
//! its queue instead of in ours, and in ours the most wanted comes first. So the pool returns to its size, and does not
//! try again for [`IN_VAIN_FOR_MS`].

/// The measurements of a pool in one interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PoolLoad {
    /// How many there are, or may be.
    pub size: usize,
    /// How many there are at least.
    pub size_min: usize,
    /// How many there may be at most.
    pub size_max: usize,
    /// The most that were busy at a time.
    pub busy_peak: usize,
    /// How long work has waited for one of them, in microseconds, on average.
    pub delay_us: f64,
    /// Jobs that it finished in a second, if that is known.
    pub done_per_s: Option<f64>,
    /// Memory is scarce: there are to be no more.
    pub is_short_of_memory: bool,
}

/// Another size of a pool.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Resize {
    /// How many there should be.
    pub size: usize,
    /// If it was larger before: having grown to that brought nothing.
    pub in_vain: Option<InVain>,
}

/// The throughput of a pool before and after it had grown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InVain {
    /// In a second.
    pub before_per_s: f64,
    /// In a second.
    pub after_per_s: f64,
}

/// Decides on the size of a pool.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pool {
    /// Since when more, or fewer, would have been right.
    more_since_ms: Option<u64>,
    fewer_since_ms: Option<u64>,
    /// It has just grown.
    growth: Option<Growth>,
    /// Growing was in vain: it is not to grow before then.
    stays_until_ms: u64,
}

/// The state before the last interval.
#[derive(Clone, Copy, Debug)]
struct Growth {
    size: usize,
    done_per_s: f64,
}

/// A wait for a thread that is worth another one: many times what making one costs (some 30 us), little against a disk.
const DELAY_US: f64 = 2_000.0;
/// How long it has to have been so: two readings.
const MORE_AFTER_MS: u64 = 500;
const FEWER_AFTER_MS: u64 = 60_000;

/// How much more a pool of twice the size has to get done.
const GAIN: f64 = 1.1;
/// How long what was found out then holds.
const IN_VAIN_FOR_MS: u64 = 60_000;

impl Pool {
    /// How many there should be from now on, if that is another number.
    pub fn observe(&mut self, now_ms: u64, load: PoolLoad) -> Option<Resize> {
        if let Some(back) = self.undo_growth(now_ms, load) {
            return Some(back);
        }
        let PoolLoad { size, size_min, size_max, busy_peak, delay_us, is_short_of_memory, done_per_s } = load;
        let may_grow = size < size_max && !is_short_of_memory && now_ms >= self.stays_until_ms;
        let wants_more = may_grow && busy_peak >= size && delay_us >= DELAY_US;
        let wants_fewer = size > size_min && busy_peak < size.div_ceil(2);
        self.more_since_ms = wants_more.then(|| self.more_since_ms.unwrap_or(now_ms));
        self.fewer_since_ms = wants_fewer.then(|| self.fewer_since_ms.unwrap_or(now_ms));
        let is_due = |since: Option<u64>, after_ms| since.is_some_and(|since| now_ms >= since + after_ms);
        let wanted = if is_due(self.more_since_ms, MORE_AFTER_MS) {
            self.growth = done_per_s.map(|done_per_s| Growth { size, done_per_s });
            (size * 2).min(size_max)
        } else if is_due(self.fewer_since_ms, FEWER_AFTER_MS) {
            (size / 2).max(size_min)
        } else {
            return None;
        };
        (self.more_since_ms, self.fewer_since_ms) = (None, None);
        Some(Resize { size: wanted, in_vain: None })
    }

    /// Back to the size before the last interval, if this one brought nothing. It proves nothing if there was not
    /// enough to do.
    fn undo_growth(&mut self, now_ms: u64, load: PoolLoad) -> Option<Resize> {
        let growth = self.growth.take()?;
        let after_per_s = load.done_per_s?;
        if load.size <= growth.size || load.busy_peak < load.size {
            return None;
        }
        if after_per_s >= growth.done_per_s * GAIN {
            // That this was right says as much as another interval of waiting would.
            self.more_since_ms = now_ms.checked_sub(MORE_AFTER_MS);
            return None;
        }
        *self = Pool { stays_until_ms: now_ms + IN_VAIN_FOR_MS, ..Pool::default() };
        Some(Resize { size: growth.size, in_vain: Some(InVain { before_per_s: growth.done_per_s, after_per_s }) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Work that would keep so many busy at once, each for 10 ms: with fewer, the rest waits.
    struct World {
        pool: Pool,
        load: PoolLoad,
        now_ms: u64,
        /// No more than this is done in a second, however many there are.
        done_per_s_max: f64,
    }

    impl World {
        fn new(size: usize) -> World {
            let load = PoolLoad {
                size,
                size_min: 4,
                size_max: 64,
                busy_peak: 0,
                delay_us: 0.0,
                done_per_s: None,
                is_short_of_memory: false,
            };
            World { pool: Pool::default(), load, now_ms: 0, done_per_s_max: f64::INFINITY }
        }

        /// Some seconds with so much work; the sizes that were chosen.
        fn run(&mut self, seconds: u64, work: usize) -> Vec<usize> {
            let mut chosen = Vec::new();
            for _ in 0..seconds * 2 {
                self.now_ms += 500;
                self.load.busy_peak = work.min(self.load.size);
                self.load.delay_us = 10_000.0 * work.saturating_sub(self.load.size) as f64 / self.load.size as f64;
                self.load.done_per_s = Some((100.0 * self.load.busy_peak as f64).min(self.done_per_s_max));
                if let Some(resize) = self.pool.observe(self.now_ms, self.load) {
                    self.load.size = resize.size;
                    chosen.push(resize.size);
                }
            }
            chosen
        }
    }

    #[test]
    fn a_pool_grows_in_seconds_until_nobody_waits_and_stays_so() {
        let mut world = World::new(4);
        assert_eq!(world.run(4, 40), [8, 16, 32, 64]);
        assert_eq!(world.run(600, 40), []);
    }

    #[test]
    fn a_moment_is_not_enough_and_short_waits_are_none() {
        let mut world = World::new(8);
        for _ in 0..100 {
            world.load = PoolLoad { busy_peak: 8, delay_us: 50_000.0, ..world.load };
            world.now_ms += 500;
            assert_eq!(world.pool.observe(world.now_ms, world.load), None);
            world.run(1, 8);
        }
        assert_eq!(world.run(60, 9), [], "the delay of one in nine is below the bound");
    }

    #[test]
    fn a_pool_shrinks_slowly_and_not_below_what_it_began_with() {
        let mut world = World::new(64);
        assert_eq!(world.run(59, 3), []);
        assert_eq!(world.run(600, 3), [32, 16, 8, 4]);
        assert_eq!(world.run(600, 0), []);
    }

    #[test]
    fn a_load_that_comes_and_goes_does_not_make_it_go_up_and_down() {
        let mut world = World::new(4);
        let mut chosen = Vec::new();
        for _ in 0..60 {
            chosen.extend(world.run(5, 30));
            chosen.extend(world.run(15, 2));
        }
        assert_eq!(chosen, [8, 16, 32]);
    }

    #[test]
    fn a_pool_whose_growth_brings_nothing_goes_back_and_tries_again_in_a_minute() {
        let mut world = World::new(4);
        world.done_per_s_max = 850.0;
        assert_eq!(world.run(59, 40), [8, 16, 8], "16 do no more than 8 and a half");
        assert_eq!(world.run(10, 40), [16, 8]);
        world.done_per_s_max = f64::INFINITY;
        assert_eq!(world.run(61, 40), [16, 32, 64], "a disk that has become faster");
    }

    #[test]
    fn growth_that_met_less_work_was_not_in_vain() {
        let mut world = World::new(8);
        assert_eq!(world.run(1, 40), [16]);
        assert_eq!(world.run(1, 6), []);
        assert_eq!(world.run(3, 40), [32, 64]);
    }

    #[test]
    fn bounds_hold_and_with_little_memory_there_are_no_more() {
        let mut world = World::new(4);
        world.load.size_max = 10;
        assert_eq!(world.run(60, 1000), [8, 10]);
        let mut world = World::new(4);
        world.load.is_short_of_memory = true;
        assert_eq!(world.run(60, 1000), []);
        world.load.is_short_of_memory = false;
        assert_eq!(world.run(1, 1000), [8], "as soon as there is some");
    }
}
