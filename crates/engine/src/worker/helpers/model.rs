//! The queue of helpers, run through every interleaving (`models`).

#[path = "queue.rs"]
#[allow(clippy::duplicate_mod, reason = "the same source over other primitives")]
mod queue;

/// The synchronisation primitives of the model: loom's.
mod sync {
    pub(super) use loom::sync::{Condvar, Mutex, MutexGuard};
    use std::time::Duration;

    /// Waits until another thread wakes it; or, with no time to wait, for as long as others take for whatever they do.
    pub(super) fn rest<'a, T>(
        condvar: &Condvar,
        mutex: &'a Mutex<T>,
        guard: MutexGuard<'a, T>,
        time: Duration,
    ) -> (MutexGuard<'a, T>, bool) {
        if !time.is_zero() {
            return (condvar.wait(guard).unwrap(), false);
        }
        drop(guard);
        loom::thread::yield_now();
        (mutex.lock().unwrap(), true)
    }
}

use std::sync::Arc;
use std::time::Duration;

use lamna_loom::{Tally, check, spawn};
use lamna_policy::schedule::Schedule;

use super::job_queue;
use queue::Queue;

/// A worker that submits two jobs to at most so many helpers, which rest for so long; then it is gone. Everybody
/// leaves.
fn run(helpers_max: usize, rest_time: Duration, waits: bool) -> Tally {
    let queue = Arc::new(Queue::new(Schedule::default()));
    let done = Tally::default();
    let mut helpers = Vec::new();
    for job in 0..2 {
        let (number, hires) = queue.submit(helpers_max, |job_queue| job_queue.add(job, 1, 1));
        queue.want(number);
        if hires {
            let (queue, done) = (queue.clone(), done.clone());
            helpers.push(spawn(move || {
                while let Some(job) = queue.next(rest_time, helpers_max) {
                    done.note(job);
                }
            }));
        }
    }
    assert!(helpers.len() <= helpers_max || rest_time.is_zero(), "more were hired than there may be");
    if waits {
        while done.sorted().len() < 2 {
            loom::thread::yield_now();
        }
    }
    queue.end();
    helpers.into_iter().for_each(|helper| helper.join().unwrap());
    assert_eq!(queue.helpers(), 0, "somebody who left is still counted");
    done
}

#[test]
fn each_job_is_done_once_however_soon_helpers_leave() {
    for helpers_max in [1, 2] {
        for rest_time in [Duration::ZERO, Duration::from_secs(10)] {
            check(move || assert_eq!(run(helpers_max, rest_time, true).sorted(), [0, 1]));
        }
    }
}

#[test]
fn what_is_left_when_it_is_over_is_done_and_everybody_leaves() {
    for rest_time in [Duration::ZERO, Duration::from_secs(10)] {
        check(move || assert_eq!(run(2, rest_time, false).sorted(), [0, 1]));
    }
}

#[test]
fn a_worker_whose_last_helper_could_not_be_made_has_all_that_is_left_to_do() {
    check(|| {
        let queue = Arc::new(Queue::new(Schedule::default()));
        let done = Tally::default();
        let (_, hires) = queue.submit(2, |job_queue| job_queue.add(0, 1, 1));
        assert!(hires);
        let (helped, noted) = (queue.clone(), done.clone());
        let helper = spawn(move || {
            while let Some(job) = helped.next(Duration::ZERO, 2) {
                noted.note(job);
            }
        });
        let (_, hires) = queue.submit(2, |job_queue| job_queue.add(1, 1, 1));
        if hires && queue.has_lost_all() {
            while let Some(job) = queue.take() {
                done.note(job);
            }
        }
        helper.join().unwrap();
        assert_eq!(done.sorted(), [0, 1]);
        assert_eq!(queue.helpers(), 0);
    });
}
