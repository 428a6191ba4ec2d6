//! The find stage: finds out what targets stand for, in the caches or without waiting, and leaves the rest to the path
//! helper.
//!
//! Owns: the pool's front of the path translation cache. Guarantees: never waits for the disk.

use std::sync::Arc;

use rustix::io::Errno;

use super::helpers::HelperJob;
use super::queue::Urgency;
use super::stage_job::{StageContext, StageJob, Want};
use super::{Gives, Pool, Takes};
use crate::cache::Entry;
use crate::content::translate::translate;
use crate::io::{Counters, Wait};
use crate::worker::context::{Found, Target, WorkerContext};
use crate::worker::drive;

/// Where connections come from and go to.
pub(super) struct StageQueues {
    /// With requests.
    pub from_read: Takes,
    /// With what the helper found.
    pub from_helper: Takes,
    /// Whose targets cannot be found without waiting.
    pub to_helper: Gives<HelperJob>,
    /// Whose targets are found.
    pub to_header: Gives,
}

struct Find<'a> {
    station: StageContext<'a>,
    ends: StageQueues,
}

/// The life of the find stage.
///
/// # Errors
/// None.
pub(super) fn run(pool: &Pool, ends: StageQueues) -> Result<(), Errno> {
    let doorbell = &pool.bells.find;
    doorbell.introduce();
    let mut stage = Find { station: StageContext::new(pool), ends };
    while !pool.is_over() {
        let ends = &stage.ends;
        doorbell.park(stage.station.flush_ms(), || {
            let arrived = !(ends.from_read.is_empty() && ends.from_helper.is_empty());
            arrived || pool.is_over() || !ends.to_helper.is_settled() || !ends.to_header.is_settled()
        });
        stage.station.begin();
        while let Some(job) = stage.ends.from_helper.take() {
            stage.find(job);
        }
        while let Some(job) = stage.ends.from_read.take() {
            stage.find(job);
        }
        stage.ends.to_header.deliver();
        stage.ends.to_helper.deliver();
        stage.station.context.flush_if_due();
    }
    Ok(())
}

impl Find<'_> {
    fn find(&mut self, job: Box<StageJob>) {
        let Some(mut job) = self.station.keep(job) else { return };
        if job.step.as_ref().is_some_and(|step| step.ran.is_none()) {
            return self.ends.to_helper.put(HelperJob::Run(job), Urgency::Now);
        }
        self.station.finish_step(&mut job);
        let to_helper = &mut self.ends.to_helper;
        self.station.work_on(&mut job, |job, context| {
            let StageJob { slot, wants, asks_application, .. } = job;
            // What is not found stays wanted.
            wants.retain_mut(|want| {
                let entry = look_up(context, want, to_helper);
                if let Some(entry) = &entry {
                    *asks_application |= drive::answer(slot, want.exchange, entry, context);
                }
                entry.is_none()
            });
        });
        // What can be sent already does not wait for what cannot: the connection will be back.
        if job.wants.is_empty() || job.slot.interest().send {
            self.ends.to_header.put(job, Urgency::Now);
        } else {
            Counters::count(&self.station.pool.shared.abilities.counters.helper_jobs);
            self.ends.to_helper.put(HelperJob::Translate(job), Urgency::Now);
        }
    }
}

/// What the target stands for, if that can be found without waiting.
fn look_up(context: &mut WorkerContext<'_>, want: &mut Want, to_helper: &mut Gives<HelperJob>) -> Option<Arc<Entry>> {
    if let Some(entry) = want.found.take() {
        context.keep(&want.target, &entry);
        return Some(entry);
    }
    match context.look_up_target(&want.target) {
        Found::Fresh(entry) => Some(entry.clone()),
        Found::Aging(entry, target) => {
            let entry = entry.clone();
            refresh(context, target, to_helper);
            Some(entry)
        }
        Found::Missing(target) => {
            want.target = target;
            let entry = translate(&want.target.question(context.shared, Wait::No, context.now)).ok()?;
            context.keep(&want.target, &entry);
            Some(entry)
        }
    }
}

/// Compares a target that is in use with the file system.
fn refresh(context: &mut WorkerContext<'_>, target: Target, to_helper: &mut Gives<HelperJob>) {
    match translate(&target.question(context.shared, Wait::No, context.now)) {
        Ok(entry) => context.keep(&target, &entry),
        Err(_) => {
            Counters::count(&context.shared.abilities.counters.helper_jobs);
            to_helper.put(HelperJob::Refresh(target), Urgency::Now);
        }
    }
}
