//! The accept stage: takes connections and gives them to the read stage.
//!
//! Owns: listening, and pausing while there are no descriptors. Guarantees: a connection that was taken is given on. It is
//! also the stage that the main thread wakes, and so the one that tells the others.

use std::sync::atomic::Ordering;

use lamna_io::wait::Poll;
use lamna_proto::time::Instant;
use rustix::io::Errno;

use super::queue::{Sleep, Urgency};
use super::stage_job::{StageContext, StageJob};
use super::{GENERATION_OURS, Gives, Pool};
use crate::worker::acceptor::{self, Accepting, Acceptor, Freed, Share};
use crate::worker::connection_state::ConnectionState;
use crate::worker::shared::Shared;

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
    acceptor: Acceptor,
}

/// The life of the accept stage.
///
/// # Errors
/// What makes waiting impossible.
pub(super) fn run(pool: &Pool, ends: StageQueues) -> Result<(), Errno> {
    let station = StageContext::new(pool);
    let acceptor = Acceptor::new(Share::Any);
    let mut stage = Accept { station, poll: Poll::new()?, ends, generation: 0, acceptor };
    pool.bells.accept.register(&stage.poll)?;
    stage.begin_accepting()?;
    pool.shared.control.report_begun();
    while !pool.is_over() && !pool.shared.control.is_stopping() {
        stage.wait()?;
        let begins = stage.station.begin() || pool.shared.control.is_handing_over();
        stage.adopt();
        if begins && !stage.acceptor.is_closed() {
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
        let (closed, due) = (self.acceptor.is_closed(), self.acceptor.due());
        let Accept { station, poll, ends, .. } = self;
        let (pool, now) = (station.pool, station.context.now);
        let again_ms = due.map(|at| at.since(now) + 1);
        let timeout_ms = again_ms.into_iter().chain(station.flush_ms()).min();
        pool.bells.accept.poll(poll, Sleep::Light, timeout_ms, || {
            let control = &pool.shared.control;
            !ends.to_read.is_settled() || pool.is_over() || control.is_stopping() || control.is_closing() && !closed
        })
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

    fn resume_queued(&mut self) {
        if self.station.pool.shed.swap(false, Ordering::Acquire) {
            self.acceptor.handle_room(self.station.context.now);
        }
        self.settle_accepting();
        self.station.context.flush_if_due();
    }

    /// No more connections: the pool lives as long as those that it has.
    fn close(&mut self) {
        let pool = self.station.pool;
        self.end_accepting();
        if pool.shared.control.is_handing_over() {
            pool.shared.close_arrivals(pool.index);
        }
        pool.ring_all();
        pool.count_out();
    }
}

impl<'a> Accepting<'a> for Accept<'a> {
    fn acceptor(&mut self) -> &mut Acceptor {
        &mut self.acceptor
    }

    fn shared(&self) -> &'a Shared {
        &self.station.pool.shared
    }

    fn now(&self) -> Instant {
        self.station.context.now
    }

    fn connections(&self) -> usize {
        self.shared().connection_counters[self.station.pool.index].count()
    }

    fn watch(&mut self, watches: bool) -> Result<(), Errno> {
        acceptor::watch_in(&self.poll, &self.shared().listeners, GENERATION_OURS, watches)
    }

    fn begin(&mut self, mut slot: ConnectionState) {
        self.station.context.count_connection();
        slot.count_guard = Some(self.shared().connection_counters[self.station.pool.index].welcome());
        self.give_slot(slot);
    }

    /// The read stage has the idle connections, and says when it has given up some.
    fn shed(&mut self, _: usize) -> Freed {
        let pool = self.station.pool;
        pool.sheds.store(true, Ordering::Release);
        pool.bells.read.ring(Urgency::Now);
        Freed::Nothing
    }
}
