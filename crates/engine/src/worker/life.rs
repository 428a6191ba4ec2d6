//! The life of a worker that serves many connections in one thread, whatever tells it what it can do: start, serve,
//! pause accepting, drain, stop.
//!
//! Owns: [`Base`], what such a worker has, and the order of its work in [`Life`]. Guarantees: what has come about is
//! handled before connections that used up their turn go on; deadlines, accepting, counters and orders are looked at
//! after every wait; once it is to hand over, it answers nothing that arrives. Does not wait and does not move bytes:
//! the worker of `event_loop` does so with epoll, that of `proactor` with a ring.

use lamna_io::wait::Token;
use lamna_proto::conn::Interest;
use lamna_proto::time::Instant;
use rustix::io::Errno;

use crate::worker::acceptor::{Accepting, Acceptor, Share};
use crate::worker::connection_state::ConnectionState;
use crate::worker::connection_table::ConnectionTable;
use crate::worker::context::WorkerContext;
use crate::worker::drive::Turn;
use crate::worker::executor::Completed;
use crate::worker::liveness::{self, Arranged};
use crate::worker::run_queue::RunQueue;
use crate::worker::shared::Shared;
use crate::worker::uplink::{SendPermit, Uplink};

/// As long as there are no more, builds with debug assertions look at all connections after each batch of work.
const CHECKED_MAX: usize = 256;

/// State of such a worker.
pub struct Base<'a> {
    /// State that it shares with the other workers.
    pub shared: &'a Shared,
    /// Which worker it is.
    pub index: usize,
    /// Its connections.
    pub connections: ConnectionTable,
    /// Those that can go on without an event.
    pub queue: RunQueue,
    /// The context that it works with.
    pub context: WorkerContext<'a>,
    /// How it takes connections.
    pub acceptor: Acceptor,
    /// It takes no more of them, and ends with the last.
    pub draining: bool,
    /// Its connections are those that another process cannot go on with: each ends here, or goes there as soon as it
    /// can.
    pub finishes: bool,
}

impl<'a> Base<'a> {
    /// The state of worker `index`, which has no connections yet.
    pub fn new(shared: &'a Shared, index: usize) -> Base<'a> {
        let mut context = WorkerContext::new(shared);
        if context.needs_send_permit() {
            context.send_permit = SendPermit::ByTurn(false);
        }
        Base {
            shared,
            index,
            connections: ConnectionTable::default(),
            queue: RunQueue::new(shared.schedule, context.turn_bytes()),
            context,
            acceptor: Acceptor::new(Share::Fair),
            draining: false,
            finishes: shared.control.is_finishing(),
        }
    }

    /// Has a connection whose turn is over go on after others, if it can. Returns what it waits for, or would wait for.
    pub fn queue_if_it_goes_on(&mut self, token: Token, turn: Turn) -> Interest {
        if matches!(turn, Turn::GoesOn(_)) {
            self.queue.push(token, self.connections.get(token));
        }
        turn.interest()
    }

    /// A connection rests that waits for `interest`, until `deadline`. `tells_input`, `tells_room`: the worker is told
    /// when it can receive, and send.
    pub fn rest(
        &mut self,
        token: Token,
        interest: Interest,
        deadline: Option<Instant>,
        (tells_input, tells_room): (bool, bool),
    ) {
        let connection = self.connections.get(token);
        let (is_queued, is_room_first) = (connection.queued, false);
        let arranged = Arranged { is_queued, tells_input, tells_room, is_room_first, deadline };
        liveness::assert_woken(connection, interest, arranged);
        let phase = connection.phase(interest);
        // Who stands in the queue is not late: it could go on.
        let deadline = deadline.filter(|_| !connection.queued);
        self.connections.set_deadline(token, deadline);
        self.connections.set_phase(token, phase);
    }

    fn show_load(&mut self) {
        let score = self.shared.score(self.index);
        self.connections.show_load(score);
        self.queue.show_order(score);
        if cfg!(debug_assertions) && self.connections.count() <= CHECKED_MAX {
            self.queue.check_invariants(&self.connections);
        }
    }
}

/// Behaviour of such a worker.
pub trait Life<'a>: Accepting<'a> {
    /// Its state.
    fn base(&self) -> &Base<'a>;

    /// The same.
    fn base_mut(&mut self) -> &mut Base<'a>;

    /// Whether it is to return.
    fn is_over(&self) -> bool;

    /// Begins to give its connections to the successor, if it is to and has not begun. True if nothing of what has come
    /// about is for it any more: a request that has arrived after the order is answered by the successor, by the rules
    /// of that one.
    fn begin_leaving(&mut self) -> bool;

    /// Waits until something has come about, at most so long.
    ///
    /// # Errors
    /// The wait for events fails.
    fn wait(&mut self, timeout_ms: Option<u64>) -> Result<(), Errno>;

    /// Reads the clocks for all that it works with.
    fn update_time(&mut self);

    /// Handles what has come about.
    fn handle_events(&mut self);

    /// Keeps a connection that it has not had.
    fn admit(&mut self, connection: ConnectionState) -> Token;

    /// Lets a connection go on as far as it can, within a turn.
    fn drive(&mut self, token: Token);

    /// The same, for a connection that is to end if nothing has arrived.
    fn drive_to_end(&mut self, token: Token) {
        self.drive(token);
    }

    /// The deadline of a connection has passed, unless it was moved.
    fn handle_deadline(&mut self, token: Token);

    /// When to ask for steps that were carried out elsewhere even if nothing has woken it.
    fn due(&self) -> Option<Instant> {
        None
    }

    /// Steps that were carried out elsewhere.
    fn completed(&mut self) -> Vec<Completed>;

    /// One of them. Its connection may have gone meanwhile; then what was done for it is of use to the cache only.
    fn handle_completed(&mut self, completed: Completed);

    /// Workspaces are to say that an answer is the last of its connection.
    fn drain_workspaces(&mut self);

    /// Accepts again if it can, or pauses, after what has been handled.
    fn resume_accepting(&mut self) {
        self.settle_accepting();
    }

    /// Serves until it is over.
    ///
    /// # Errors
    /// The wait for events fails; no peer can cause that.
    fn live(&mut self) -> Result<(), Errno> {
        while !self.is_over() {
            self.wait(self.timeout_ms())?;
            self.update_time();
            if self.begin_leaving() {
                continue;
            }
            self.handle_events();
            self.resume_queued();
            self.handle_time();
            let Base { shared, index, context, .. } = self.base_mut();
            context.end_batch(shared.score(*index));
        }
        Ok(())
    }

    /// How long nothing will have to be done.
    fn timeout_ms(&self) -> Option<u64> {
        let Base { shared, connections, queue, context, acceptor, .. } = self.base();
        let send_due = shared.uplink.as_ref().filter(|_| !queue.is_empty()).and_then(Uplink::due);
        if !queue.is_empty() && send_due.is_none() {
            return Some(0);
        }
        context.wait_ms([send_due, connections.next_deadline(), acceptor.due(), self.due()].into_iter().flatten())
    }

    /// Gives connections in the queue their turn: as many as do not keep new requests waiting, and as there are permits
    /// for.
    fn resume_queued(&mut self) {
        let needs_send_permit = self.base().context.needs_send_permit();
        for _ in 0..self.base().queue.turns(needs_send_permit) {
            let Base { shared, connections, queue, context, .. } = self.base_mut();
            if shared.uplink.as_ref().and_then(Uplink::due).is_some() {
                return;
            }
            let Some(token) = queue.pop(connections) else { continue };
            if needs_send_permit {
                context.send_permit = SendPermit::ByTurn(true);
            }
            self.drive(token);
            if needs_send_permit {
                self.base_mut().context.send_permit = SendPermit::ByTurn(false);
            }
        }
    }

    /// Does what is due.
    fn handle_time(&mut self) {
        let now = self.base().context.now;
        for token in self.base_mut().connections.expired(now) {
            self.handle_deadline(token);
        }
        if self.due().is_some_and(|due| due <= now) {
            self.handle_all_completed();
        }
        self.resume_accepting();
        self.base_mut().show_load();
        self.base_mut().context.flush_if_due();
    }

    /// Another thread has woken it: with steps that were carried out, connections from elsewhere, or orders.
    fn handle_wake(&mut self) {
        let &Base { shared, index, .. } = self.base();
        shared.control.waker(index).reset();
        self.handle_all_completed();
        let (arrivals, drains) = shared.arrivals_and_drain(index);
        for connection in arrivals {
            let token = self.admit(connection);
            self.drive(token);
        }
        if drains && !self.base().draining {
            self.drain();
        }
    }

    /// Handles all steps that were carried out elsewhere.
    fn handle_all_completed(&mut self) {
        for completed in self.completed() {
            self.handle_completed(completed);
        }
    }

    /// Takes no more connections, and ends those that it has as soon as nothing is under way on them.
    fn drain(&mut self) {
        self.base_mut().draining = true;
        self.end_accepting();
        self.drain_workspaces();
        for token in self.base().connections.tokens() {
            self.drive_to_end(token);
        }
    }

    /// A connection has been taken from a listener.
    fn begin_accepted(&mut self, connection: ConnectionState) {
        self.base_mut().context.count_connection();
        let token = self.admit(connection);
        self.base_mut().show_load();
        self.drive(token);
    }
}
