//! The accept stage: takes connections and gives them to the read stage.
//!
//! Owns: listening, and pausing while there are no descriptors. Guarantees: a connection that was taken is given on. It is
//! also the stage that the main thread wakes, and so the one that tells the others.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

use lamna_proto::time::Instant;
use rustix::io::Errno;

use super::queue::{Sleep, Urgency};
use super::stage_job::{StageContext, StageJob};
use super::{GENERATION_OURS, Gives, Pool};
use crate::io::accept::{Accepted, DescriptorReserve, accept, concerns_one_connection};
use crate::io::wait::{Poll, Token};
use crate::worker::connection_table::ConnectionState;

/// Where connections go from here.
pub(super) struct StageQueues {
    /// All of them.
    pub to_read: Gives,
}

struct Accept<'a> {
    station: StageContext<'a>,
    poll: Poll,
    ends: StageQueues,
    generation: u32,
    reserve: DescriptorReserve,
    accepting: bool,
    /// Nothing more is accepted or adopted.
    closed: bool,
    /// When to try again to accept.
    accept_again: Option<Instant>,
}

/// Connections accepted at once, before they are given on and other workers get their share.
const ACCEPT_MAX: usize = 64;
const ACCEPT_PAUSE_MS: u32 = 100;

/// The life of the accept stage.
///
/// # Errors
/// What makes waiting impossible.
pub(super) fn run(pool: &Pool, ends: StageQueues) -> Result<(), Errno> {
    let station = StageContext::new(pool);
    let mut stage = Accept {
        station,
        poll: Poll::new()?,
        ends,
        generation: 0,
        reserve: DescriptorReserve::new(),
        accepting: false,
        closed: false,
        accept_again: None,
    };
    pool.bells.accept.register(&stage.poll)?;
    stage.listen()?;
    pool.shared.control.report_begun();
    while !pool.is_over() && !pool.shared.control.is_stopping() {
        stage.wait()?;
        let begins = stage.station.begin() || pool.shared.control.is_handing_over();
        stage.adopt();
        if begins && !stage.closed {
            stage.close();
        }
        for index in 0..stage.poll.event_count() {
            let token = stage.poll.event(index).token;
            if token != super::BELL {
                stage.accept_from(token.index as usize);
            }
        }
        stage.resume_queued();
        stage.ends.to_read.deliver();
    }
    Ok(())
}

impl Accept<'_> {
    fn wait(&mut self) -> Result<(), Errno> {
        let closed = self.closed;
        let Accept { station, poll, ends, accept_again, .. } = self;
        let (pool, now) = (station.pool, station.context.now);
        let again_ms = accept_again.map(|at| at.since(now) + 1);
        let timeout_ms = again_ms.into_iter().chain(station.flush_ms()).min();
        pool.bells.accept.poll(poll, Sleep::Light, timeout_ms, || {
            let control = &pool.shared.control;
            !ends.to_read.is_settled() || pool.is_over() || control.is_stopping() || control.is_closing() && !closed
        })
    }

    fn listen(&mut self) -> Result<(), Errno> {
        if self.accepting || self.closed {
            return Ok(());
        }
        for (index, listener) in self.station.pool.shared.listeners.iter().enumerate() {
            let token = Token { index: index as u32, generation: GENERATION_OURS };
            self.poll.add_listener(listener.as_fd(), token)?;
        }
        self.accepting = true;
        Ok(())
    }

    fn unlisten(&mut self) {
        self.accepting = false;
        for listener in self.station.pool.shared.listeners.iter() {
            self.poll.remove(listener.as_fd());
        }
    }

    fn accept_from(&mut self, listener: usize) {
        let pool = self.station.pool;
        for _ in 0..ACCEPT_MAX {
            if !self.accepting {
                return;
            }
            match accept(pool.shared.listeners[listener].as_fd()) {
                Ok(accepted) => {
                    let crowded = self.reserve.has_given(&accepted.socket);
                    self.give(accepted, listener);
                    if crowded {
                        return self.pause_accepting(Errno::MFILE);
                    }
                }
                Err(Errno::AGAIN) => return,
                Err(errno) if concerns_one_connection(errno) => {}
                Err(errno) => return self.pause_accepting(errno),
            }
        }
    }

    fn give(&mut self, accepted: Accepted, listener: usize) {
        self.station.context.count_connection();
        let pool = self.station.pool;
        let (listener, endpoint) = (&pool.shared.listeners[listener], pool.shared.tls.as_ref());
        let mut slot = ConnectionState::accepted(accepted, listener, endpoint, self.station.context.now);
        slot.count_guard = Some(pool.shared.connection_counters[pool.index].welcome());
        self.give_slot(slot);
    }

    fn give_slot(&mut self, mut slot: ConnectionState) {
        self.station.pool.count_in();
        self.generation = self.generation.wrapping_add(1).max(GENERATION_OURS + 1);
        slot.generation = self.generation;
        self.ends.to_read.put(StageJob::new(slot), Urgency::Now);
    }

    /// Goes on with connections that come from another engine.
    fn adopt(&mut self) {
        for slot in self.station.pool.shared.arrivals(self.station.pool.index) {
            self.give_slot(slot);
        }
    }

    /// Out of descriptors or memory: connections wait in the listen queue, where they are not lost, until the read stage
    /// has given up idle ones or some time has passed.
    fn pause_accepting(&mut self, errno: Errno) {
        let pool = self.station.pool;
        self.unlisten();
        self.accept_again = Some(self.station.context.now.after_ms(ACCEPT_PAUSE_MS));
        pool.sheds.store(true, Ordering::Release);
        pool.bells.read.ring(Urgency::Now);
        pool.shared.handle_exhaustion(errno);
    }

    fn resume_queued(&mut self) {
        let pool = self.station.pool;
        let is_time = self.accept_again.is_some_and(|at| at <= self.station.context.now);
        if is_time || pool.shed.swap(false, Ordering::Acquire) {
            let room = self.reserve.is_whole(pool.shared.control.waker(pool.index).descriptor());
            // Without room, or if it fails again: after another pause.
            let listening = room && self.listen().is_ok();
            self.accept_again = (!listening).then(|| self.station.context.now.after_ms(ACCEPT_PAUSE_MS));
        }
        self.station.context.flush_if_due();
    }

    /// No more connections: the pool lives as long as those that it has.
    fn close(&mut self) {
        let pool = self.station.pool;
        self.closed = true;
        self.unlisten();
        if pool.shared.control.is_handing_over() {
            pool.shared.close_arrivals(pool.index);
        }
        pool.ring_all();
        pool.count_out();
    }
}
