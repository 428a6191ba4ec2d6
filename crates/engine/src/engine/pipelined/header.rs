//! The header stage: sends what is ready to be sent, head and content in memory together, and sends connections home.
//!
//! Owns: the only send that most connections need. Guarantees: never waits for a peer or for the disk: what the socket
//! does not take, and what has to be read from a file, is the data stage's.

use lamna_proto::conn::Interest;
use rustix::io::Errno;

use super::hands::{Duty, Task};
use super::queue::Urgency;
use super::stage_job::{StageContext, StageJob};
use super::{Gives, Pool, Takes};

/// Where connections come from and go to.
pub(super) struct StageQueues {
    /// With answers.
    pub from_find: Takes,
    /// Those that wait for their peers, or for the find stage.
    pub to_read: Gives,
    /// Those whose answers are not sent yet.
    pub to_data: Gives,
}

/// The life of the header stage.
///
/// # Errors
/// None.
pub(super) fn run(pool: &Pool, mut ends: StageQueues) -> Result<(), Errno> {
    let doorbell = &pool.bells.header;
    doorbell.introduce();
    let mut station = StageContext::new(pool);
    while !pool.is_over() {
        doorbell.park(station.flush_ms(), || {
            let settled = ends.to_read.is_settled() && ends.to_data.is_settled();
            !ends.from_find.is_empty() || pool.is_over() || !settled
        });
        station.begin();
        while let Some(job) = ends.from_find.take() {
            let Some(mut job) = station.keep(job) else { continue };
            let interest = station.turn(&mut job, Duty::Send).interest();
            if interest.send || job.has(Task::is_for_data) {
                ends.to_data.put(job, Urgency::Now);
            } else {
                send_home(&station, job, interest, &mut ends.to_read);
            }
        }
        ends.to_read.deliver();
        ends.to_data.deliver();
        station.context.flush_if_due();
    }
    Ok(())
}

/// Gives a connection that waits for `interest` back to the read stage, or closes it if nothing there refers to it.
pub(super) fn send_home(station: &StageContext<'_>, job: Box<StageJob>, interest: Interest, to_read: &mut Gives) {
    let slot = &job.slot;
    if interest.is_over() && !slot.registered {
        return station.pool.close(job);
    }
    // The next request of an idle connection is an event, which wakes the read stage anyway.
    let rests = slot.registered && !slot.readable && interest == Interest::RECEIVE && slot.is_idle();
    to_read.put(job, if rests && !station.draining { Urgency::Whenever } else { Urgency::Now });
}
