//! The two helpers of a pool: the only threads of it that wait for the disk.
//!
//! Owns: translating and reading for connections whose stage would have had to wait. Guarantees: a connection that is
//! given here comes back, with what was found or that it failed; when the pool hands its connections over, as it is. One
//! thing at a time, in order, as the architecture has it.

use rustix::io::Errno;

use super::hands::Task;
use super::queue::Urgency;
use super::stage_job::StageJob;
use super::{Gives, Pool, Takes};
use crate::worker::context::{Target, find_once};
use crate::worker::helpers::read_range;

/// What the path helper is asked to do.
pub(super) enum HelperJob {
    /// Carry out the first of its tasks that the connection waits for.
    Help(Box<StageJob>),
    /// Compare a target with the file system, for nobody in particular.
    Refresh(Target),
}

/// Where the path helper's connections come from and go to.
pub(super) struct PathEnds {
    /// With targets.
    pub from_find: Takes<HelperJob>,
    /// With what the first of them stands for.
    pub to_find: Gives,
}

/// Where the read helper's connections come from and go to.
pub(super) struct ReadEnds {
    /// With ranges.
    pub from_data: Takes,
    /// With ranges in memory.
    pub to_data: Gives,
}

/// The life of the path helper.
///
/// # Errors
/// None.
pub(super) fn translate_paths(pool: &Pool, mut ends: PathEnds) -> Result<(), Errno> {
    let doorbell = &pool.bells.path_helper;
    doorbell.introduce();
    while !pool.is_over() {
        doorbell.park(None, || !ends.from_find.is_empty() || pool.is_over() || !ends.to_find.is_settled());
        while let Some(helper_job) = ends.from_find.take().filter(|_| !pool.is_over()) {
            let counters = &pool.shared.abilities.counters;
            counters.begin_helper_job(0);
            match helper_job {
                HelperJob::Help(mut job) => {
                    job.carry_out_first(Task::is_for_path_helper, |task| find_or_run(pool, task));
                    ends.to_find.put(job, Urgency::Now);
                }
                HelperJob::Refresh(_) if pool.shared.control.is_handing_over() => {}
                HelperJob::Refresh(target) => {
                    let now = pool.shared.clock.now();
                    pool.shared.store.insert(target.key(), find_once(&pool.shared, &target, now));
                }
            }
            counters.end_helper_job();
            ends.to_find.deliver();
        }
        ends.to_find.deliver();
    }
    Ok(())
}

fn find_or_run(pool: &Pool, task: Task) -> Task {
    match task {
        Task::Translate(pending, target) if !pool.shared.control.is_handing_over() => {
            let entry = find_once(&pool.shared, &target, pool.shared.clock.now());
            Task::Found(pending, target, entry)
        }
        // The successor does not do again what a program has begun to do.
        Task::Run(step) => Task::Completed(step.carry_out()),
        task => task,
    }
}

/// The life of the read helper.
///
/// # Errors
/// None.
pub(super) fn read_pages(pool: &Pool, mut ends: ReadEnds) -> Result<(), Errno> {
    let doorbell = &pool.bells.read_helper;
    doorbell.introduce();
    while !pool.is_over() {
        doorbell.park(None, || !ends.from_data.is_empty() || pool.is_over() || !ends.to_data.is_settled());
        while let Some(mut job) = ends.from_data.take().filter(|_| !pool.is_over()) {
            pool.shared.abilities.counters.begin_helper_job(0);
            job.carry_out_first(Task::is_for_read_helper, |task| read(pool, task));
            pool.shared.abilities.counters.end_helper_job();
            ends.to_data.put(job, Urgency::Now);
            ends.to_data.deliver();
        }
        ends.to_data.deliver();
    }
    Ok(())
}

fn read(pool: &Pool, task: Task) -> Task {
    match task {
        Task::Read(pending, range) if !pool.shared.control.is_handing_over() => {
            Task::Completed(read_range(&pool.shared, pending, &range))
        }
        task => task,
    }
}
