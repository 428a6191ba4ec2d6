//! How connections rest with a stage that waits for their sockets, and how they get home.
//!
//! Owns: waiting for events, what happens to connections that are away, deadlines, making room. Guarantees: an event of
//! a connection that is with another stage is kept until it comes home; a registered connection is closed at home only,
//! where events of it may still come.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

use lamna_io::wait::{Event, Poll, Token};
use lamna_proto::conn::Interest;

use super::inbox::{Sleep, Urgency};
use super::job::Job;
use super::pool::End;
use super::route::Duty;
use super::stage::Stage;
use crate::worker::acceptor::shed_max;
use crate::worker::drive::Turn;
use crate::worker::liveness::{self, Arranged};

/// A registered connection that is with another stage, and what has happened to it meanwhile.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Away {
    generation: u32,
    happened: bool,
    ending: bool,
}

/// The generation of what is no connection.
pub(super) const GENERATION_OURS: u32 = 0;
/// By which the waker of a stage is known in its poll.
pub(super) const BELL: Token = Token { index: u32::MAX, generation: GENERATION_OURS };
/// How long those that come home may wait to be looked at, and their timeouts with them.
const HOMECOMING_MS: u32 = 1000;

// Waiting, and what comes about.
impl Stage<'_> {
    /// Waits for something to do, and takes what this stage has been given.
    pub(super) fn wait(&mut self) -> End {
        let (inbox, timeout_ms) = (self.pool.inbox(self.duty), self.timeout_ms());
        let Some(poll) = &mut self.poll else {
            inbox.wait(&mut self.jobs, timeout_ms);
            return Ok(());
        };
        // The first event of a connection that has come home wakes this stage. If it has been, the connection does.
        let is_deep = self.duty == Duty::Read && self.awaited == 0 && !self.draining;
        let may_sleep = inbox.may_sleep(if is_deep { Sleep::Deep } else { Sleep::Light });
        let waited = poll.wait(if may_sleep { timeout_ms } else { Some(0) });
        inbox.take(&mut self.jobs);
        waited
    }

    fn timeout_ms(&self) -> Option<u64> {
        if !self.again.is_empty() {
            return Some(0);
        }
        let may_come_home = self.duty == Duty::Read && self.pool.live() > 1 + self.resting.count();
        let homecoming = may_come_home.then(|| self.context.now.after_ms(HOMECOMING_MS));
        self.context.wait_ms([self.resting.next_deadline(), homecoming].into_iter().flatten())
    }

    pub(super) fn handle_events(&mut self) {
        for index in 0..self.poll.as_ref().map_or(0, Poll::event_count) {
            let Some(event) = self.poll.as_ref().map(|poll| poll.event(index)) else { return };
            match self.resting.take(event.token) {
                Some(mut job) => {
                    job.state.notice(&event);
                    self.drive(job);
                }
                None => self.note_event(&event),
            }
        }
    }

    pub(super) fn resume_queued(&mut self) {
        for token in std::mem::take(&mut self.again) {
            self.resting.take(token).into_iter().for_each(|job| self.drive(job));
        }
    }

    pub(super) fn handle_deadlines(&mut self) {
        let (pool, now) = (self.pool, self.context.now);
        let limits = &pool.shared.limits;
        for token in self.resting.expired(now) {
            match self.resting.find(token).and_then(|state| state.deadline(limits, now)) {
                // It was looked at for what it holds.
                Some(deadline) if deadline > now => self.resting.set_deadline(token, Some(deadline)),
                Some(_) => {
                    let Some(mut job) = self.resting.take(token) else { continue };
                    self.work_on(&mut job, |state, _| state.handle_timeout(limits, now));
                    self.drive(job);
                }
                None => {}
            }
        }
    }

    /// Gives up connections for the sake of their descriptors, if that is asked. Where none of those that rest with the
    /// read stage makes room, one of those whose peers take nothing may.
    pub(super) fn make_room(&mut self) {
        let pool = self.pool;
        if !pool.is_asked_for_room(self.duty) {
            return;
        }
        let most = shed_max(pool.shared.connection_counters[pool.index].count());
        let chosen = self.resting.making_room(most, |_| true).tokens;
        match (self.duty, chosen.is_empty()) {
            (Duty::Read, true) => pool.ask_for_room(Duty::Data),
            (Duty::Read, false) => pool.has_room.store(true, Ordering::Release),
            _ => {}
        }
        for token in chosen {
            let Some(mut job) = self.resting.take(token) else { continue };
            if self.duty == Duty::Data {
                self.work_on(&mut job, |state, _| state.handle_broken());
            }
            self.go_home(job, Interest::CLOSE);
            pool.shared.counters.work.idle_shed.fetch_add(1, Ordering::Relaxed);
        }
        pool.ring_accept();
    }

    /// Lets others know how many rest here.
    pub(super) fn show_load(&self) {
        let (score, (idle, slow)) = (self.pool.shared.score(self.pool.index), self.resting.idle_and_slow());
        match self.duty {
            Duty::Read => score.show_idle(idle),
            Duty::Data => score.show_slow(slow),
            _ => {}
        }
    }
}

// One connection.
impl Stage<'_> {
    /// It has to wait for its peer, or for its turn.
    pub(super) fn rest(&mut self, mut job: Box<Job>, turn: Turn) {
        let is_home = self.duty == Duty::Read;
        let is_queued = if is_home { job.state.readable } else { matches!(turn, Turn::GoesOn(_)) };
        if (is_home || !is_queued) && !self.register(&mut job) {
            // It cannot be waited for.
            self.work_on(&mut job, |state, _| state.handle_broken());
            return self.go_home(job, Interest::CLOSE);
        }
        // What happens while it waits for room is kept for it at home.
        let (tells_input, tells_room, is_room_first) = (true, !is_home, !is_home);
        let deadline = job.state.deadline(&self.pool.shared.limits, self.context.now);
        let arranged = Arranged { is_queued, tells_input, tells_room, is_room_first, deadline };
        liveness::assert_woken(&mut job.state, turn.interest(), arranged);
        self.again.extend(is_queued.then(|| job.state.token()));
        self.settle(job, turn.interest());
    }

    /// Has its socket waited for: at home as long as it lives, by the data stage from the first time that its peer is
    /// slow.
    fn register(&self, job: &mut Job) -> bool {
        let Some(poll) = &self.poll else { return false };
        let (socket, token) = (job.state.transport.as_fd(), job.state.token());
        if self.duty == Duty::Read {
            job.state.registered = job.state.registered || poll.add_receiver(socket, token).is_ok();
            return job.state.registered;
        }
        job.sender_registered = job.sender_registered || poll.add_sender(socket, token).is_ok();
        job.sender_registered
    }

    fn settle(&mut self, job: Box<Job>, interest: Interest) {
        let deadline = job.state.deadline(&self.pool.shared.limits, self.context.now);
        let phase = job.state.phase(interest);
        let token = self.resting.adopt(job);
        self.resting.set_deadline(token, deadline);
        self.resting.set_phase(token, phase);
    }

    /// It leaves for another stage. If it leaves home, events of it are kept.
    pub(super) fn note_leaving(&mut self, job: &Job) {
        if self.duty == Duty::Read && job.state.registered {
            let Token { index, generation } = job.state.token();
            if index as usize >= self.away.len() {
                self.away.resize(index as usize + 1, Away::default());
            }
            self.away[index as usize] = Away { generation, ..Away::default() };
        }
    }

    /// An event of a connection that does not rest here: it may be away.
    fn note_event(&mut self, event: &Event) {
        let away = self.away.get_mut(event.token.index as usize);
        if let Some(away) = away.filter(|away| away.generation == event.token.generation) {
            self.awaited += usize::from(!away.happened);
            away.happened = true;
            away.ending |= event.ending;
        }
    }

    /// It is back from another stage, or new.
    pub(super) fn come_home(&mut self, mut job: Box<Job>) {
        if job.state.registered {
            let away = std::mem::take(&mut self.away[job.state.token().index as usize]);
            debug_assert_eq!(away.generation, job.state.generation, "a registered connection is closed at home");
            self.awaited -= usize::from(away.happened);
            job.state.readable |= away.happened;
            job.state.ending |= away.ending;
        }
        if job.tasks.is_empty() && self.is_at_rest(&mut job) {
            self.settle(job, Interest::RECEIVE);
        } else {
            self.drive(job);
        }
    }

    /// Gives a connection that waits for `interest` back to the read stage, or closes it if nothing there refers to it.
    pub(super) fn go_home(&mut self, mut job: Box<Job>, interest: Interest) {
        if interest.is_over() && (self.duty == Duty::Read || !job.state.registered) {
            drop(job);
            return self.pool.count_out();
        }
        // The next request of an idle connection is an event, which wakes the read stage anyway.
        let urgency = if self.is_at_rest(&mut job) { Urgency::Whenever } else { Urgency::Now };
        self.outputs.put(Duty::Read, job, urgency);
    }

    /// Whether there is nothing to do for it before its next event at home.
    fn is_at_rest(&self, Job { state, .. }: &mut Job) -> bool {
        let is_quiet = state.registered && !state.readable && state.is_idle() && state.interest() == Interest::RECEIVE;
        is_quiet && !self.pool.shared.control.is_closing()
    }
}
