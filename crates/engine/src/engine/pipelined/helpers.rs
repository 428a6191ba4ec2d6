//! The two helpers of a pool: the only threads of it that wait for the disk.
//!
//! Owns: translating and reading for connections whose stage would have had to wait. Guarantees: a connection that is
//! given here comes back, with what was found or that it failed; when the pool hands its connections over, as it is.
//! One thing at a time, in order, as the architecture has it.

use std::sync::Arc;

use super::job::Task;
use super::pool::{End, Outputs, Pool};
use super::route::Duty;
use crate::worker::context::find_once;
use crate::worker::helpers::read_range;

/// The life of the helper of `duty`.
pub(super) fn run(pool: &Arc<Pool>, duty: Duty) -> End {
    let (inbox, mut outputs, mut jobs) = (pool.inbox(duty), Outputs::new(pool, duty), Vec::new());
    let back = if duty == Duty::Path { Duty::Find } else { Duty::Data };
    while !pool.is_over() {
        inbox.wait(&mut jobs, None);
        for mut job in jobs.drain(..) {
            if pool.is_over() {
                break;
            }
            counted(pool, || job.carry_out_first(duty, |task| carry_out(pool, task)));
            outputs.put(back, job);
            outputs.deliver();
        }
        if duty == Duty::Path {
            let targets = pool.aging.1.try_iter().take(pool.aging.1.len());
            for target in targets.filter(|_| !pool.is_over() && !pool.shared.control.is_handing_over()) {
                let now = pool.shared.clock.now();
                counted(pool, || pool.shared.store.insert(target.key(), find_once(&pool.shared, &target, now)));
            }
        }
    }
    Ok(())
}

fn counted(pool: &Pool, work: impl FnOnce()) {
    let counters = &pool.shared.abilities.counters;
    counters.begin_helper_job(0);
    work();
    counters.end_helper_job();
}

fn carry_out(pool: &Pool, task: Task) -> Task {
    match task {
        // The successor does not do again what a program has begun to do.
        Task::Run(step) => Task::Completed(step.carry_out()),
        task if pool.shared.control.is_handing_over() => task,
        Task::Translate(pending, target) => {
            let entry = find_once(&pool.shared, &target, pool.shared.clock.now());
            Task::Found(pending, target, entry)
        }
        Task::Read(pending, range) => Task::Completed(read_range(&pool.shared, pending, &range)),
        task => task,
    }
}
