//! How many workers an engine should have: as many as are busy, and no more than there are processors.
//!
//! Owns: the bounds between which nothing is changed. A worker too many costs a second warm cache, and wakes for
//! nothing. A worker too few leaves a processor idle while requests wait. Where the workers wait for a processor that
//! other programs use, another worker would wait as well.

/// The measurements of the workers in one interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WorkerLoad {
    /// How many there are.
    pub workers: usize,
    /// Processors that the server may use.
    pub processors: usize,
    /// CPU time of the server as a part of that of one processor: 2.0 is two processors busy all the time.
    pub busy: f64,
    /// Time in which they could have run and waited for a processor, in the same measure.
    pub kept_waiting: f64,
}

/// Decides on the number of workers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Workers {
    /// Since when more, or fewer, would have been right.
    more_since_ms: Option<u64>,
    fewer_since_ms: Option<u64>,
}

/// Part of a processor that each worker is busy with before there is another.
const FULL: f64 = 0.85;
/// Part of a processor that each of one worker fewer would be busy with, below which there are too many.
const EMPTY: f64 = 0.5;
/// Time waited for a processor, as a part of that on one, from which on there is none left.
const CROWDED: f64 = 0.5;
/// How long it has to have been so.
const MORE_AFTER_MS: u64 = 2_000;
const FEWER_AFTER_MS: u64 = 60_000;

impl Workers {
    /// How many workers there should be from now on, if that is another number.
    pub fn observe(&mut self, now_ms: u64, load: WorkerLoad) -> Option<usize> {
        let WorkerLoad { workers, processors, busy, kept_waiting } = load;
        // A worker that is kept waiting is as full as one that runs.
        let is_full = busy + kept_waiting > FULL * workers as f64;
        let wants_more = workers < processors && is_full && kept_waiting < CROWDED * busy;
        let wants_fewer = workers > 1 && busy < EMPTY * (workers - 1) as f64;
        self.more_since_ms = wants_more.then(|| self.more_since_ms.unwrap_or(now_ms));
        self.fewer_since_ms = wants_fewer.then(|| self.fewer_since_ms.unwrap_or(now_ms));
        let is_due = |since: Option<u64>, after_ms| since.is_some_and(|since| now_ms >= since + after_ms);
        let wanted = if is_due(self.more_since_ms, MORE_AFTER_MS) {
            // As many as the work seems to be for: doubling finds out soon.
            (workers * 2).min(processors)
        } else if is_due(self.fewer_since_ms, FEWER_AFTER_MS) {
            workers - 1
        } else {
            return None;
        };
        *self = Workers::default();
        Some(wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(workers: usize, processors: usize, busy: f64) -> WorkerLoad {
        WorkerLoad { workers, processors, busy, kept_waiting: 0.0 }
    }

    fn after(seconds: u64, load: WorkerLoad) -> usize {
        let (mut workers, mut load) = (Workers::default(), load);
        for tick in 0..seconds * 2 {
            load.workers = workers.observe(tick * 500, load).unwrap_or(load.workers);
        }
        load.workers
    }

    #[test]
    fn a_full_worker_gets_company_while_there_are_processors() {
        assert_eq!(after(3, load(1, 4, 0.95)), 2);
        assert_eq!(after(30, load(1, 4, 4.0)), 4);
        assert_eq!(after(30, load(1, 1, 1.0)), 1);
        assert_eq!(after(1, load(1, 4, 0.95)), 1, "a moment is not enough");
    }

    #[test]
    fn a_worker_that_waits_a_little_for_its_processor_is_full_and_one_that_waits_long_gets_no_company() {
        assert_eq!(after(3, WorkerLoad { kept_waiting: 0.2, ..load(1, 4, 0.7) }), 2);
        assert_eq!(after(600, WorkerLoad { kept_waiting: 0.5, ..load(1, 4, 0.5) }), 1);
    }

    #[test]
    fn workers_go_slowly_and_the_last_stays() {
        assert_eq!(after(59, load(4, 4, 0.1)), 4);
        assert_eq!(after(600, load(4, 4, 0.1)), 1);
    }

    #[test]
    fn between_the_bounds_nothing_changes() {
        for busy in [0.55, 0.6, 0.8, 1.2, 1.6] {
            assert_eq!(after(600, load(2, 4, busy)), 2, "{busy}");
        }
    }
}
