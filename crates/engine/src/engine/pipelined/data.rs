//! The data stage: reads files and sends them, a piece at a time, and waits for slow peers.
//!
//! Owns: connections that cannot take more for the moment, and their timeouts. Guarantees: a connection gets a bounded
//! turn, however large its file; never waits for the disk: what is not in memory goes to the read helper.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

use lamna_io::wait::{Poll, Token};
use lamna_proto::conn::Interest;
use rustix::io::Errno;

use super::hands::{Duty, Task};
use super::header::send_home;
use super::parked_connections::ParkedConnections;
use super::queue::{Sleep, Urgency};
use super::stage_job::{StageContext, StageJob};
use super::{BELL, Gives, Pool, Takes};
use crate::worker::acceptor::shed_max;
use crate::worker::drive::Turn;
use crate::worker::liveness::{self, Arranged};

/// Where connections come from and go to.
pub(super) struct StageQueues {
    /// With answers that are not sent yet.
    pub from_header: Takes,
    /// With ranges that have been read.
    pub from_helper: Takes,
    /// Whose ranges are not in memory.
    pub to_helper: Gives,
    /// Whose answers are sent.
    pub to_read: Gives,
}

struct Data<'a> {
    station: StageContext<'a>,
    poll: Poll,
    ends: StageQueues,
    parked: ParkedConnections,
    /// Connections that used up their turn.
    again: Vec<Token>,
    /// What rested here has been handed over.
    vacated: bool,
}

/// The life of the data stage.
///
/// # Errors
/// What makes waiting impossible.
pub(super) fn run(pool: &Pool, ends: StageQueues) -> Result<(), Errno> {
    let (parked, again) = (ParkedConnections::default(), Vec::new());
    let mut stage = Data { station: StageContext::new(pool), poll: Poll::new()?, ends, parked, again, vacated: false };
    pool.bells.data.register(&stage.poll)?;
    while !pool.is_over() {
        stage.wait()?;
        stage.station.begin();
        stage.take_jobs();
        for index in 0..stage.poll.event_count() {
            let token = stage.poll.event(index).token;
            if token != BELL
                && let Some(job) = stage.parked.leave(token)
            {
                stage.drive_writable(job);
            }
        }
        stage.resume_queued();
        pool.shared.score(pool.index).show_slow(stage.parked.count());
        if pool.shared.control.is_handing_over() && !stage.vacated {
            stage.vacated = true;
            stage.parked.vacate(&mut stage.station);
        }
        stage.ends.to_read.deliver();
        stage.ends.to_helper.deliver();
    }
    Ok(())
}

impl Data<'_> {
    fn wait(&mut self) -> Result<(), Errno> {
        let Data { station, poll, ends, parked, again, vacated } = self;
        let (pool, now) = (station.pool, station.context.now);
        let look_ms = parked.next_look().map(|at| at.since(now) + 1);
        let timeout_ms = look_ms.into_iter().chain(station.flush_ms()).min();
        pool.bells.data.poll(poll, Sleep::Light, timeout_ms, || {
            let arrived = !(ends.from_header.is_empty() && ends.from_helper.is_empty());
            let settled = ends.to_helper.is_settled() && ends.to_read.is_settled();
            let leaves = pool.shared.control.is_handing_over() && !*vacated;
            let sheds = pool.sheds_slow.load(Ordering::Relaxed);
            arrived || sheds || pool.is_over() || !settled || !again.is_empty() || leaves
        })
    }

    fn take_jobs(&mut self) {
        while let Some(job) = self.ends.from_helper.take() {
            self.drive_writable(job);
        }
        while let Some(job) = self.ends.from_header.take() {
            self.drive_writable(job);
        }
    }

    fn resume_queued(&mut self) {
        for token in std::mem::take(&mut self.again) {
            if let Some(job) = self.parked.leave(token) {
                self.drive(job);
            }
        }
        let now = self.station.context.now;
        for token in self.parked.expired(now, &self.station.pool.shared.limits) {
            if let Some(mut job) = self.parked.leave(token) {
                let limits = &self.station.pool.shared.limits;
                self.station.work_on(&mut job, |slot, _| slot.handle_timeout(limits, now));
                self.drive(job);
            }
        }
        if self.station.pool.sheds_slow.swap(false, Ordering::Acquire) {
            self.shed();
        }
        self.station.context.flush_if_due();
    }

    /// Gives up answers for the sake of their descriptors. Connections are closed at home.
    fn shed(&mut self) {
        let pool = self.station.pool;
        let most = shed_max(pool.shared.connection_counters[pool.index].count());
        for token in self.parked.making_room(most, &pool.shared.limits) {
            if let Some(mut job) = self.parked.leave(token) {
                self.station.work_on(&mut job, |slot, _| slot.handle_broken());
                send_home(&self.station, job, Interest::CLOSE, &mut self.ends.to_read);
                pool.shared.counters.idle_shed.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// There is room, or may be: it may have been made while the connection was elsewhere, and that event was for nobody.
    fn drive_writable(&mut self, mut job: Box<StageJob>) {
        job.slot.writable = true;
        self.drive(job);
    }

    fn drive(&mut self, job: Box<StageJob>) {
        let Some(mut job) = self.station.keep(job) else { return };
        let turn = self.station.turn(&mut job, Duty::SendFiles);
        let token = job.token();
        match turn {
            Turn::Waits(interest) if interest.is_over() => {
                send_home(&self.station, job, interest, &mut self.ends.to_read);
            }
            _ if job.has(Task::is_for_read_helper) => self.ends.to_helper.put(job, Urgency::Now),
            Turn::GoesOn(_) => {
                self.again.push(token);
                self.parked.settle(job, &self.station.pool.shared.limits, self.station.context.now);
            }
            Turn::Waits(interest) if interest.send => self.settle(job, interest),
            Turn::Waits(interest) => send_home(&self.station, job, interest, &mut self.ends.to_read),
        }
    }

    /// It waits for its peer to take more.
    fn settle(&mut self, mut job: Box<StageJob>, interest: Interest) {
        if !job.sender_registered {
            job.sender_registered = self.poll.add_sender(job.slot.transport.as_fd(), job.token()).is_ok();
        }
        if job.sender_registered {
            // What happens meanwhile is kept for it at home.
            let (is_queued, tells_input, tells_room, is_room_first) = (false, true, true, true);
            let deadline = job.slot.deadline(&self.station.pool.shared.limits, self.station.context.now);
            let arranged = Arranged { is_queued, tells_input, tells_room, is_room_first, deadline };
            liveness::assert_woken(&mut job.slot, interest, arranged);
            self.parked.settle(job, &self.station.pool.shared.limits, self.station.context.now);
        } else {
            // It cannot be waited for.
            self.station.work_on(&mut job, |slot, _| slot.handle_broken());
            send_home(&self.station, job, Interest::CLOSE, &mut self.ends.to_read);
        }
    }
}
