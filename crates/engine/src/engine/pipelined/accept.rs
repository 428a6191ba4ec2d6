//! The accept stage: takes connections and gives them to the read stage.
//!
//! Owns: listening, and pausing while there are no descriptors. Guarantees: a connection that was taken is given on. It
//! is also the stage that the main thread wakes, and so the one that tells the others.

use std::os::fd::AsFd;

use lamna_io::wait::Poll;
use lamna_proto::time::Instant;
use rustix::io::Errno;

use super::job::Job;
use super::pool::{BELL, End, Outputs, Pool};
use super::route::Duty;
use crate::worker::acceptor::{self, Accepting, Acceptor, Freed, Share};
use crate::worker::blocking::Driver;
use crate::worker::connection_state::ConnectionState;
use crate::worker::idle_set::{DRAIN_LOOK_MS, GENERATION_OURS};
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
    stage.handle_orders();
    // It ends when there are no more connections, and none can come.
    let has_ended = |stage: &Accept<'_>| stage.acceptor.is_closed() && stage.connections() == 0;
    while !(pool.is_over() || control.is_stopping() || has_ended(&stage)) {
        stage.wait()?;
    }
    Ok(())
}

impl Accept<'_> {
    /// Gives on what has come, and waits for connections or the main thread.
    fn wait(&mut self) -> End {
        self.outputs.deliver();
        // The last connection to end wakes nobody.
        let look_again = self.acceptor.is_closed().then(|| self.driver.now().after_ms(DRAIN_LOOK_MS));
        let due = self.driver.flush_if_due().into_iter().chain(self.acceptor.due()).chain(look_again).min();
        // One more, because milliseconds are rounded: waking too early would only mean waiting again.
        self.poll.wait(due.map(|at| at.since(self.driver.now()) + 1))?;
        self.driver.flush_if_due();
        for index in 0..self.poll.event_count() {
            match self.poll.event(index).token {
                BELL => self.handle_orders(),
                listener => self.accept_from(listener.index as usize),
            }
        }
        self.settle_accepting();
        Ok(())
    }

    /// Does what the main thread wants, and takes connections that come from another engine.
    fn handle_orders(&mut self) {
        let (shared, index) = (&self.pool.shared, self.pool.index);
        shared.arrivals(index).into_iter().for_each(|state| self.give(state));
        if !shared.control.is_closing() {
            return;
        }
        if !self.acceptor.is_closed() {
            // No more connections: the pool lives as long as those that it has.
            self.end_accepting();
            if shared.control.is_handing_over() {
                shared.close_arrivals(index);
            }
        }
        self.pool.ring_all();
    }

    fn give(&mut self, mut state: ConnectionState) {
        self.generation = self.generation.wrapping_add(1).max(GENERATION_OURS + 1);
        state.generation = self.generation;
        self.outputs.put(Duty::Read, Job::new(state));
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

    /// Where none of those at home makes room, one of those whose peers take nothing may.
    fn shed(&mut self, most: usize) -> Freed {
        let idle = self.pool.home.take_making_room(most);
        if !idle.is_empty() {
            return Freed::Now(idle.len());
        }
        let slow = self.pool.slow.take_making_room(most);
        let count = slow.len();
        slow.into_iter().for_each(|job| self.driver.give_up(job.state));
        Freed::Now(count)
    }
}
