//! The read stage: waits for requests, receives and parses them. Idle connections are at home here and hold no thread.
//!
//! Owns: the epoll set of all persistent connections, their timeouts, and closing them. Guarantees: an event of a
//! connection that is with another stage is kept until it comes home.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use lamna_io::wait::{Event, Poll, Token};
use lamna_proto::conn::Interest;
use rustix::io::Errno;

use super::applications;
use super::hands::Duty;
use super::parked_connections::ParkedConnections;
use super::queue::{Sleep, Urgency};
use super::stage_job::{StageContext, StageJob};
use super::{BELL, Gives, Pool, Takes};
use crate::worker::acceptor::shed_max;
use crate::worker::connection_state::ConnectionState;
use crate::worker::liveness::{self, Arranged};

/// Where connections come from and go to.
pub(super) struct StageQueues {
    /// New ones.
    pub from_accept: Takes,
    /// Answered ones.
    pub from_header: Takes,
    /// Answered ones.
    pub from_data: Takes,
    /// With requests.
    pub to_find: Gives,
}

struct Read<'a> {
    pool: Arc<Pool>,
    station: StageContext<'a>,
    poll: Poll,
    ends: StageQueues,
    parked: ParkedConnections,
    /// For each descriptor, who is away and what happened to it meanwhile.
    away: Vec<Away>,
    /// Registered connections that are with other stages.
    away_count: usize,
    /// Those of them for which something happened.
    awaited_count: usize,
    /// Connections that can go on without an event.
    again: Vec<Token>,
    /// What rested here has been handed over.
    vacated: bool,
}

#[derive(Clone, Copy, Default)]
struct Away {
    generation: u32,
    happened: bool,
    ending: bool,
}

/// How long those that come home may wait to be looked at, and their timeouts with them.
const HOMECOMING_MS: u64 = 1000;

/// The life of the read stage.
///
/// # Errors
/// What makes waiting impossible.
pub(super) fn run(pool: &Arc<Pool>, ends: StageQueues) -> Result<(), Errno> {
    let mut stage = Read {
        pool: pool.clone(),
        station: StageContext::new(pool),
        poll: Poll::new()?,
        ends,
        parked: ParkedConnections::default(),
        away: Vec::new(),
        away_count: 0,
        awaited_count: 0,
        again: Vec::new(),
        vacated: false,
    };
    pool.bells.read.register(&stage.poll)?;
    while !pool.is_over() {
        stage.wait()?;
        let drains = stage.station.begin();
        stage.take_jobs();
        for index in 0..stage.poll.event_count() {
            stage.handle_event(stage.poll.event(index));
        }
        if drains {
            stage.drain();
        }
        if pool.shared.control.is_handing_over() && !stage.vacated {
            stage.vacate();
        }
        stage.resume_queued();
        pool.shared.score(pool.index).show_idle(stage.parked.idle());
        stage.ends.to_find.deliver();
    }
    Ok(())
}

impl Read<'_> {
    fn wait(&mut self) -> Result<(), Errno> {
        let (pool, now) = (self.station.pool, self.station.context.now);
        // Somebody for whom something has happened is on the way home: be woken when it arrives.
        let lightly = self.awaited_count > 0 || self.station.draining;
        let sleep = if lightly { Sleep::Light } else { Sleep::Deep };
        let look_ms = self.parked.next_look().map(|at| at.since(now) + 1);
        let homecoming_ms = (self.away_count > 0).then_some(HOMECOMING_MS);
        let timeout_ms = look_ms.into_iter().chain(homecoming_ms).chain(self.station.flush_ms()).min();
        let Read { poll, ends, again, station, vacated, .. } = self;
        pool.bells.read.poll(poll, sleep, timeout_ms, || {
            let arrived = !(ends.from_accept.is_empty() && ends.from_header.is_empty() && ends.from_data.is_empty());
            let told = pool.is_over()
                || pool.sheds.load(Ordering::Relaxed)
                || pool.shared.control.is_draining() && !station.draining
                || pool.shared.control.is_handing_over() && !*vacated;
            arrived || told || !ends.to_find.is_settled() || !again.is_empty()
        })
    }

    fn take_jobs(&mut self) {
        while let Some(job) = self.ends.from_accept.take() {
            self.drive(job);
        }
        while let Some(job) = self.ends.from_header.take() {
            self.come_home(job);
        }
        while let Some(job) = self.ends.from_data.take() {
            self.come_home(job);
        }
    }

    fn handle_event(&mut self, event: Event) {
        if event.token == BELL {
            return;
        }
        if let Some(mut job) = self.parked.leave(event.token) {
            job.slot.readable |= event.readable;
            job.slot.ending |= event.ending;
            job.slot.transport.failed |= event.failed;
            return self.drive(job);
        }
        let Some(away) = self.away.get_mut(event.token.index as usize) else { return };
        if away.generation == event.token.generation {
            self.awaited_count += usize::from(!away.happened);
            away.happened = true;
            away.ending |= event.ending;
        }
    }

    fn resume_queued(&mut self) {
        let (pool, now) = (self.station.pool, self.station.context.now);
        for token in std::mem::take(&mut self.again) {
            if let Some(job) = self.parked.leave(token) {
                self.drive(job);
            }
        }
        for token in self.parked.expired(now, &pool.shared.limits) {
            if let Some(mut job) = self.parked.leave(token) {
                self.station.work_on(&mut job, |slot, _| slot.handle_timeout(&pool.shared.limits, now));
                self.drive(job);
            }
        }
        if pool.sheds.swap(false, Ordering::Acquire) {
            self.shed();
        }
        self.station.context.flush_if_due();
    }

    /// Gives up connections for the sake of their descriptors. Where none of those that rest here makes room, one of those whose peers take
    /// nothing may.
    fn shed(&mut self) {
        let pool = self.station.pool;
        let most = shed_max(pool.shared.connection_counters[pool.index].count());
        let chosen = self.parked.making_room(most, &pool.shared.limits);
        if chosen.is_empty() {
            pool.sheds_slow.store(true, Ordering::Release);
            pool.bells.data.ring(Urgency::Now);
        }
        for token in chosen {
            if let Some(job) = self.parked.leave(token) {
                pool.close(job);
                pool.shared.counters.idle_shed.fetch_add(1, Ordering::Relaxed);
                pool.shed.store(true, Ordering::Release);
            }
        }
        pool.bells.accept.ring(Urgency::Now);
    }

    /// Hands over all that rest here; the others as they come home.
    fn vacate(&mut self) {
        self.vacated = true;
        self.parked.vacate(&mut self.station);
    }

    fn drain(&mut self) {
        for token in self.parked.tokens() {
            if let Some(mut job) = self.parked.leave(token) {
                // A request may have arrived that nobody has looked at.
                job.slot.readable = true;
                self.drive(job);
            }
        }
    }
}

// One connection.
impl Read<'_> {
    /// A connection is back from another stage.
    fn come_home(&mut self, mut job: Box<StageJob>) {
        if job.slot.registered {
            let away = std::mem::take(&mut self.away[job.token().index as usize]);
            debug_assert_eq!(away.generation, job.slot.generation, "a registered connection is closed at home");
            self.away_count -= 1;
            self.awaited_count -= usize::from(away.happened);
            job.slot.readable |= away.happened;
            job.slot.ending |= away.ending;
        }
        let Some(mut job) = self.station.keep(job) else { return };
        let rests = job.slot.registered && !job.slot.readable && job.slot.is_idle() && job.tasks.is_empty();
        if rests && !self.station.draining && job.slot.interest() == Interest::RECEIVE {
            self.parked.settle(job, &self.station.pool.shared.limits, self.station.context.now);
        } else {
            self.drive(job);
        }
    }

    /// Reads what a connection has received, and decides where it goes.
    fn drive(&mut self, job: Box<StageJob>) {
        let Some(mut job) = self.station.keep(job) else { return };
        // Whether there is room is known by trying, which is another stage's.
        job.slot.writable = true;
        let interest = self.station.turn(&mut job, Duty::Receive).interest();
        let finished = self.station.draining && job.slot.may_end(false, self.station.context.now);
        match interest {
            _ if finished => self.station.pool.close(job),
            _ if interest.is_over() => self.station.pool.close(job),
            _ if interest.send || !job.tasks.is_empty() => self.send_off(job),
            // No stage has anything to do for it.
            _ if interest.done => self.hand_to_applications(job.slot),
            _ => self.settle(job, interest),
        }
    }

    /// An application answers a request of it. It comes back as a new one.
    fn hand_to_applications(&mut self, connection: ConnectionState) {
        if connection.registered {
            self.poll.remove(connection.transport.as_fd());
        }
        applications::serve(&self.pool, connection);
    }

    fn send_off(&mut self, job: Box<StageJob>) {
        if job.slot.registered {
            let index = job.token().index as usize;
            if index >= self.away.len() {
                self.away.resize(index + 1, Away::default());
            }
            self.away[index] = Away { generation: job.slot.generation, ..Away::default() };
            self.away_count += 1;
        }
        self.ends.to_find.put(job, Urgency::Now);
    }

    /// It has to wait for its peer. What cannot be waited for is closed.
    fn settle(&mut self, mut job: Box<StageJob>, interest: Interest) {
        let token = job.token();
        if !job.slot.registered {
            if self.poll.add_receiver(job.slot.transport.as_fd(), token).is_err() {
                return self.station.pool.close(job);
            }
            job.slot.registered = true;
        }
        if job.slot.readable {
            self.again.push(token);
        }
        let (is_queued, tells_input, tells_room, is_room_first) = (job.slot.readable, true, false, false);
        let deadline = job.slot.deadline(&self.station.pool.shared.limits, self.station.context.now);
        let arranged = Arranged { is_queued, tells_input, tells_room, is_room_first, deadline };
        liveness::assert_woken(&mut job.slot, interest, arranged);
        self.parked.settle(job, &self.station.pool.shared.limits, self.station.context.now);
    }
}
