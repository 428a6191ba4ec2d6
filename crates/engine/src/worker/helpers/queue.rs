//! The queue between a worker and its helper threads: the jobs, and the helpers that are there to take them up.
//!
//! Owns: the count of helpers, of those that rest, and waking them. Guarantees: a job is taken up by one helper; as
//! long as fewer helpers are busy or rest than there may be, none waits without one being hired for it; a helper that
//! leaves has left no job behind that was counted on it; once it is over, everybody leaves who has nothing to do.
//! Checked through every interleaving in `model`. Makes no threads.

use std::sync::PoisonError;
use std::time::Duration;

use lamna_policy::schedule::Schedule;

use super::job_queue::{JobId, JobQueue};
use super::sync::{Condvar, Mutex, MutexGuard, rest};

/// Jobs, and the helpers that there are for them.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

#[derive(Debug)]
struct State<T> {
    job_queue: JobQueue<T>,
    /// Helpers that have been hired and have not left.
    helpers: usize,
    /// Those of them that wait for work.
    resting: usize,
    /// The worker is gone.
    is_over: bool,
}

impl<T> Queue<T> {
    /// No jobs and no helpers; jobs are taken up in the order of `schedule`.
    pub(crate) fn new(schedule: Schedule) -> Queue<T> {
        let state = State { job_queue: JobQueue::new(schedule), helpers: 0, resting: 0, is_over: false };
        Queue { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Lets `add` add to the jobs. Returns its result, and whether a helper has to be made, which counts from now on:
    /// there are fewer than `helpers_max`, and none rests that could take the job up.
    pub(crate) fn submit<R>(&self, helpers_max: usize, add: impl FnOnce(&mut JobQueue<T>) -> R) -> (R, bool) {
        let mut state = self.lock();
        let added = add(&mut state.job_queue);
        let hires = state.job_queue.len() > state.resting && state.helpers < helpers_max.max(1);
        state.helpers += usize::from(hires);
        if state.resting > 0 {
            self.changed.notify_one();
        }
        (added, hires)
    }

    /// One more waits for a job.
    pub(super) fn want(&self, number: JobId) {
        self.lock().job_queue.want(number);
    }

    /// The next job for a helper, waited for. None: the helper leaves and counts no more, because there was nothing to
    /// do for `rest_time`, because there are more than `helpers_max` and all busy, or because it is over.
    pub(crate) fn next(&self, rest_time: Duration, helpers_max: usize) -> Option<T> {
        let mut state = self.lock();
        let mut has_rested = false;
        // If somebody rests, a job may be there that counts on one of those who do, and this may be the one who was
        // woken.
        while state.helpers <= helpers_max.max(1) || state.resting > 0 {
            if let Some(job) = state.job_queue.take() {
                return Some(job);
            }
            if has_rested || state.is_over {
                break;
            }
            state.resting += 1;
            (state, has_rested) = rest(&self.changed, &self.state, state, rest_time);
            state.resting -= 1;
        }
        state.helpers -= 1;
        None
    }

    /// A helper could not be made after all. Returns whether there is none now.
    pub(crate) fn has_lost_all(&self) -> bool {
        let mut state = self.lock();
        state.helpers -= 1;
        state.helpers == 0
    }

    /// The next job, if one waits.
    pub(crate) fn take(&self) -> Option<T> {
        self.lock().job_queue.take()
    }

    /// No jobs will come. What is left is done, and then all helpers leave.
    pub(crate) fn end(&self) {
        self.lock().is_over = true;
        self.changed.notify_all();
    }

    /// Helpers that there are.
    #[cfg(test)]
    pub(super) fn helpers(&self) -> usize {
        self.lock().helpers
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
