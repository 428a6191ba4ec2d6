//! The find stage: finds out what targets stand for, in the caches or without waiting, and leaves the rest to the path
//! helper.
//!
//! Owns: the pool's front of the path translation cache. Guarantees: never waits for the disk.

use rustix::io::Errno;

use super::hands::{Duty, Task};
use super::helpers::HelperJob;
use super::queue::Urgency;
use super::stage_job::{StageContext, StageJob};
use super::{Gives, Pool, Takes};

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
        let interest = self.station.turn(&mut job, Duty::Find).interest();
        for target in self.station.aging.drain(..) {
            self.ends.to_helper.put(HelperJob::Refresh(target), Urgency::Now);
        }
        // What can be sent already does not wait for what cannot: the connection will be back.
        if interest.send || !job.has(Task::is_for_path_helper) {
            self.ends.to_header.put(job, Urgency::Now);
        } else {
            self.ends.to_helper.put(HelperJob::Help(job), Urgency::Now);
        }
    }
}
