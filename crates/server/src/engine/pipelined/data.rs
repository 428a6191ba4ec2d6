//! The data stage: reads files and sends them, a piece at a time, and waits for slow peers.
//!
//! Owns: connections that cannot take more for the moment, and their timeouts. Guarantees: a connection gets a bounded
//! turn, however large its file; never waits for the disk: what is not in memory goes to the read helper.

use std::os::fd::AsFd;

use lamna_proto::conn::Interest;
use lamna_proto::exchange::Done;
use rustix::io::Errno;

use super::header::send_home;
use super::parked_connections::ParkedConnections;
use super::queue::{Sleep, Urgency};
use super::stage_job::{Reading, StageContext, StageJob};
use super::{BELL, Gives, Pool, Takes};
use crate::io::Counters;
use crate::io::wait::{Poll, Token};
use crate::worker::context::WorkerContext;
use crate::worker::turn_budget::TURN_BYTES;

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
    residents: ParkedConnections,
    /// Connections that used up their turn.
    again: Vec<Token>,
    /// What rested here has been handed over.
    vacated: bool,
}

/// What a connection does after its turn.
enum Next {
    /// It takes another turn after the others.
    Again,
    /// It waits for the read helper.
    Page,
    /// It waits for its peer to take more.
    Wait,
    /// It is done here, and waits for this.
    Leave(Interest),
}

/// The life of the data stage.
///
/// # Errors
/// What makes waiting impossible.
pub(super) fn run(pool: &Pool, ends: StageQueues) -> Result<(), Errno> {
    let (residents, again) = (ParkedConnections::default(), Vec::new());
    let mut stage =
        Data { station: StageContext::new(pool), poll: Poll::new()?, ends, residents, again, vacated: false };
    pool.bells.data.register(&stage.poll)?;
    while !pool.is_over() {
        stage.wait()?;
        stage.station.begin();
        stage.take_parcels();
        for index in 0..stage.poll.event_count() {
            let token = stage.poll.event(index).token;
            if token != BELL {
                stage.go_on_with(token);
            }
        }
        stage.resume_queued();
        pool.shared.score(pool.index).show_slow(stage.residents.count());
        if pool.shared.control.is_handing_over() && !stage.vacated {
            stage.vacated = true;
            stage.residents.vacate(&mut stage.station);
        }
        stage.ends.to_read.deliver();
        stage.ends.to_helper.deliver();
    }
    Ok(())
}

impl Data<'_> {
    fn wait(&mut self) -> Result<(), Errno> {
        let Data { station, poll, ends, residents, again, vacated } = self;
        let (pool, now) = (station.pool, station.context.now);
        let look_ms = residents.next_look().map(|at| at.since(now) + 1);
        let timeout_ms = look_ms.into_iter().chain(station.flush_ms()).min();
        pool.bells.data.poll(poll, Sleep::Light, timeout_ms, || {
            let arrived = !(ends.from_header.is_empty() && ends.from_helper.is_empty());
            let settled = ends.to_helper.is_settled() && ends.to_read.is_settled();
            let leaves = pool.shared.control.is_handing_over() && !*vacated;
            arrived || pool.is_over() || !settled || !again.is_empty() || leaves
        })
    }

    fn take_parcels(&mut self) {
        while let Some(job) = self.ends.from_helper.take() {
            self.drive(job);
        }
        while let Some(job) = self.ends.from_header.take() {
            self.drive(job);
        }
    }

    fn resume_queued(&mut self) {
        for token in std::mem::take(&mut self.again) {
            self.go_on_with(token);
        }
        let now = self.station.context.now;
        for token in self.residents.expired(now, &self.station.pool.shared.limits) {
            if let Some(mut job) = self.residents.leave(token) {
                self.station.work_on(&mut job, |job, _| job.slot.handle_timeout(now));
                self.drive(job);
            }
        }
        self.station.context.flush_if_due();
    }

    fn go_on_with(&mut self, token: Token) {
        if let Some(job) = self.residents.leave(token) {
            self.drive(job);
        }
    }

    fn drive(&mut self, job: Box<StageJob>) {
        let Some(mut job) = self.station.keep(job) else { return };
        // Room may have been made while it was elsewhere, and that event was for nobody.
        job.slot.writable = true;
        let next = self.station.work_on(&mut job, turn);
        let token = job.token();
        match next {
            Next::Leave(interest) => send_home(&self.station, job, interest, &mut self.ends.to_read),
            Next::Page => {
                Counters::count(&self.station.pool.shared.abilities.counters.helper_jobs);
                self.ends.to_helper.put(job, Urgency::Now);
            }
            Next::Again => {
                self.again.push(token);
                self.residents.settle(job, &self.station.pool.shared.limits);
            }
            Next::Wait => {
                if !job.sender_registered {
                    job.sender_registered = self.poll.add_sender(job.slot.transport.as_fd(), token).is_ok();
                }
                if job.sender_registered {
                    self.residents.settle(job, &self.station.pool.shared.limits);
                } else {
                    // It cannot be waited for.
                    self.station.work_on(&mut job, |job, _| job.slot.handle_broken());
                    send_home(&self.station, job, Interest::CLOSE, &mut self.ends.to_read);
                }
            }
        }
    }
}

/// Reads and sends as far as can be without waiting, within a turn.
fn turn(job: &mut StageJob, context: &mut WorkerContext<'_>) -> Next {
    let mut bytes_left = TURN_BYTES;
    loop {
        job.take_needs(context);
        let reads = make_ready(job, context);
        let sent = job.transmit(context);
        bytes_left = bytes_left.saturating_sub(sent);
        let interest = job.slot.interest();
        match interest {
            _ if interest.is_over() => return Next::Leave(interest),
            _ if job.reading.is_some() && !reads => return Next::Page,
            Interest { send: true, .. } if !job.slot.writable => return Next::Wait,
            Interest { send: true, .. } | Interest { done: true, .. } if bytes_left == 0 => return Next::Again,
            Interest { send: true, .. } => {}
            Interest { done: true, .. } if sent > 0 => {}
            _ => return Next::Leave(interest),
        }
    }
}

/// Tells the core of the range that is wanted, if it is in memory or will never be. False if it has to be read.
fn make_ready(job: &mut StageJob, context: &WorkerContext<'_>) -> bool {
    let Some(reading) = job.reading.take() else { return true };
    let done = match (reading.paged_in, &reading.range.representation.file) {
        (Some(false), _) | (_, None) => Done::Failed,
        _ if !reading.range.is_unchanged() => Done::Failed,
        (Some(true), _) => Done::Ready(reading.range.quantum()),
        (None, Some(_)) => match reading.range.in_memory(context.shared) {
            Some(bytes) => Done::Ready(bytes),
            None => {
                job.reading = Some(reading);
                return false;
            }
        },
    };
    let Reading { exchange, .. } = reading;
    job.slot.connection.handle_done(exchange, done, context.now);
    true
}
