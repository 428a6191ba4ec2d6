//! The accept stage: takes connections and gives them to the read stage.
//!
//! Owns: listening, and pausing while there are no descriptors. Guarantees: a connection that was taken is given on. It
//! is also the stage that the main thread wakes, and so the one that tells the others.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

use lamna_io::wait::Poll;
use lamna_proto::time::Instant;
use rustix::io::Errno;

use super::inbox::Urgency;
use super::job::Job;
use super::pool::{End, Outputs, Pool};
use super::rest::{BELL, GENERATION_OURS};
use super::route::Duty;
use crate::worker::acceptor::{self, Accepting, Acceptor, Freed, Share};
use crate::worker::blocking::Driver;
use crate::worker::connection_state::ConnectionState;
use crate::worker::shared::Shared;

struct Accept<'a> {
    pool: &'a Pool,
    /// Knows the time, and counts.
    driver: Driver<'a>,
    poll: Poll,
    outputs: Outputs<'a>,
    generation: u32,
    acceptor: Acceptor,
}

/// The life of the accept stage.
///
/// # Errors
/// The one that makes waiting impossible.
pub(super) fn run(pool: &Pool) -> End {
    let (driver, outputs) = (Driver::new(&pool.shared), Outputs::new(pool, Duty::Accept));
    let acceptor = Acceptor::new(Share::Any);
    let mut stage = Accept { pool, driver, poll: Poll::new()?, outputs, generation: GENERATION_OURS, acceptor };
    let control = &pool.shared.control;
    stage.poll.add_notifier(control.waker(pool.index).descriptor().as_fd(), BELL)?;
    stage.begin_accepting()?;
    control.report_begun();
    loop {
        stage.handle_orders();
        if pool.is_over() || control.is_stopping() {
            return Ok(());
        }
        stage.wait()?;
    }
}

impl Accept<'_> {
    /// Waits for connections or the main thread, and gives on what has come.
    fn wait(&mut self) -> End {
        let due = self.driver.flush_if_due().into_iter().chain(self.acceptor.due()).min();
        // One more, because milliseconds are rounded: waking too early would only mean waiting again.
        self.poll.wait(due.map(|at| at.since(self.driver.now()) + 1))?;
        self.driver.flush_if_due();
        for index in 0..self.poll.event_count() {
            let token = self.poll.event(index).token;
            if token != BELL {
                self.accept_from(token.index as usize);
            }
        }
        if self.pool.has_room.swap(false, Ordering::Acquire) {
            self.acceptor.handle_room(self.driver.now());
        }
        self.settle_accepting();
        self.outputs.deliver();
        Ok(())
    }

    /// Does what the main thread wants, and takes connections that come from another engine.
    fn handle_orders(&mut self) {
        let (shared, index) = (&self.pool.shared, self.pool.index);
        shared.arrivals(index).into_iter().for_each(|state| self.give(state));
        self.outputs.deliver();
        if !shared.control.is_closing() {
            return;
        }
        if !self.acceptor.is_closed() {
            // No more connections: the pool lives as long as those that it has.
            self.end_accepting();
            if shared.control.is_handing_over() {
                shared.close_arrivals(index);
            }
            self.pool.count_out();
        }
        self.pool.ring_all();
    }

    fn give(&mut self, mut state: ConnectionState) {
        self.pool.count_in();
        self.generation = self.generation.wrapping_add(1).max(GENERATION_OURS + 1);
        state.generation = self.generation;
        self.outputs.put(Duty::Read, Job::new(state), Urgency::Now);
    }
}

impl<'a> Accepting<'a> for Accept<'a> {
    fn acceptor(&mut self) -> &mut Acceptor {
        &mut self.acceptor
    }

    fn shared(&self) -> &'a Shared {
        &self.pool.shared
    }

    fn now(&self) -> Instant {
        self.driver.now()
    }

    fn connections(&self) -> usize {
        self.pool.shared.connection_counters[self.pool.index].count()
    }

    fn watch(&mut self, watches: bool) -> Result<(), Errno> {
        acceptor::watch_in(&self.poll, &self.pool.shared.listeners, GENERATION_OURS, watches)
    }

    fn begin(&mut self, mut state: ConnectionState) {
        self.driver.count_connection();
        state.count_guard = Some(self.pool.shared.connection_counters[self.pool.index].welcome());
        self.give(state);
    }

    /// The read stage has the idle connections, and says when it has given up some.
    fn shed(&mut self, _: usize) -> Freed {
        self.pool.ask_for_room(Duty::Read);
        Freed::Nothing
    }
}
