//! The event loop that SPED and AMPED share: one thread that waits for all its connections at once.
//!
//! Owns: receiving, driving connections, sending, deadlines, logging. Guarantees: a connection gets a bounded
//! turn; one receive and one send for a request that is answered from memory. Does not decide where steps that may block
//! are carried out: its [`Executor`](crate::worker::executor::Executor) does, and that is the whole difference between the engines.

mod accepting;
mod foresee;

use crate::worker::acceptor::{Accepting, Acceptor, Share};
use crate::worker::drive::{self, OnSockets, Turn};
use crate::worker::executor::{Completed, PendingId};
use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use lamna_proto::conn::Interest;
use lamna_proto::workspace::Workspace;
use rustix::io::Errno;

use crate::io::wait::{Poll, Token};
use crate::worker::connection_table::ConnectionTable;
use crate::worker::context::WorkerContext;
use crate::worker::run_queue::RunQueue;
use crate::worker::shared::Shared;
use crate::worker::socket_waits::SocketWaits;

/// One event loop.
pub struct Worker<'a, C> {
    shared: &'a Shared,
    index: usize,
    executor: C,
    poll: Poll,
    slots: ConnectionTable,
    sockets: SocketWaits,
    /// Connections that can go on without an event.
    queue: RunQueue,
    context: WorkerContext<'a>,
    /// Those that no connection has: one, and some for connections that are received from before they are driven.
    #[expect(clippy::vec_box, reason = "lent to connections as they are, without copying or allocating")]
    workspaces: Vec<Box<Workspace>>,
    acceptor: Acceptor,
    draining: bool,
}

/// Tokens with this generation are listeners (by index), the waker, or sockets of programs.
const GENERATION_OURS: u32 = 0;
const WAKER: u32 = u32::MAX;
/// How long a worker that leaves waits between two looks at the steps that it waits for.
const STEP_LOOK_MS: u64 = 20;

impl<'a, C: OnSockets> Worker<'a, C> {
    /// A worker that has not begun.
    ///
    /// # Errors
    /// No descriptors or memory.
    pub fn new(shared: &'a Shared, index: usize, executor: C) -> Result<Worker<'a, C>, Errno> {
        let context = WorkerContext::new(shared);
        let mut worker = Worker {
            shared,
            index,
            executor,
            poll: Poll::new()?,
            slots: ConnectionTable::default(),
            sockets: SocketWaits::default(),
            queue: RunQueue::default(),
            workspaces: vec![context.workspace()],
            context,
            acceptor: Acceptor::new(Share::Fair),
            draining: false,
        };
        let waker = Token { index: WAKER, generation: GENERATION_OURS };
        worker.poll.add_waker(shared.control.waker(index).descriptor().as_fd(), waker)?;
        if let Some(descriptor) = worker.executor.descriptor() {
            worker.poll.add_waker(descriptor, waker)?;
        }
        worker.begin_accepting()?;
        shared.control.report_begun();
        Ok(worker)
    }

    /// Serves until told to drain or stop.
    ///
    /// # Errors
    /// What makes waiting impossible; nothing that a peer can cause.
    pub fn run(mut self) -> Result<(), Errno> {
        match catch_unwind(AssertUnwindSafe(|| self.serve())) {
            Ok(served) => served,
            Err(panic) => {
                self.rescue();
                resume_unwind(panic)
            }
        }
    }

    /// After a panic: the connection that was being driven, which still has its workspace, is closed. The others wait in the
    /// inboxes of workers, this one's own among them, for whoever takes its place. Without a connection to blame they are
    /// closed as well, because the next to drive them might fail again.
    fn rescue(&mut self) {
        let tokens = self.slots.tokens();
        let (driven, others): (Vec<Token>, Vec<Token>) =
            tokens.into_iter().partition(|token| self.slots.get(*token).connection.is_lent());
        if !driven.is_empty() {
            for mut slot in others.into_iter().filter_map(|token| self.slots.take(token)) {
                // The epoll set that knows it ends with this worker.
                slot.make_movable();
                self.shared.adopt(slot);
            }
        }
        self.context.flush();
    }

    fn serve(&mut self) -> Result<(), Errno> {
        while !self.is_over() {
            let timeout_ms = self.timeout_ms();
            self.poll.wait(timeout_ms)?;
            self.update_time();
            self.handle_events();
            self.resume_queued();
            self.handle_time();
            self.context.end_batch(self.shared.score(self.index));
        }
        if self.shared.control.is_handing_over() {
            self.leave();
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        let control = &self.shared.control;
        control.is_stopping() || control.is_handing_over() || self.draining && self.slots.count() == 0
    }

    /// Gives all connections to the successor.
    fn leave(&mut self) {
        for token in self.slots.tokens() {
            self.give(token);
        }
        // What a program does is not done again elsewhere: its step is waited for.
        while self.slots.count() > 0 && !self.shared.control.is_stopping() && self.poll.wait(Some(STEP_LOOK_MS)).is_ok()
        {
            self.shared.control.waker(self.index).reset();
            self.update_time();
            for completed in self.executor.completed(&mut self.context) {
                let token = completed.pending().token;
                if self.slots.find(token).is_some() {
                    self.lend(token);
                    drive::handle_completed(self.slots.get(token), completed, &mut self.context);
                    self.reclaim(token);
                    self.give(token);
                }
            }
        }
        self.shared.close_arrivals(self.index);
    }

    /// Gives a connection to the successor, unless a step of a program is being carried out for it.
    fn give(&mut self, token: Token) {
        if !self.slots.get(token).connection.is_running() {
            self.shared.hand_over(self.slots.take(token));
        }
    }

    /// How long nothing will have to be done.
    fn timeout_ms(&self) -> Option<u64> {
        if !self.queue.is_empty() {
            return Some(0);
        }
        self.context
            .wait_ms([self.slots.next_deadline(), self.acceptor.due(), self.executor.due()].into_iter().flatten())
    }

    fn update_time(&mut self) {
        let (first, others) = self.workspaces.split_first_mut().expect("between batches no connection has one");
        self.context.update_time(first);
        others.iter_mut().for_each(|workspace| self.context.set_time(workspace));
    }

    fn handle_event(&mut self, index: usize) {
        let event = self.poll.event(index);
        if event.token.generation != GENERATION_OURS {
            let Some(slot) = self.slots.find(event.token) else { return };
            if !slot.connection.is_lent() {
                slot.notice(&event);
            }
            self.drive(event.token);
        } else if event.token.index == WAKER {
            self.handle_wake();
        } else if SocketWaits::is_socket(event.token.index) {
            self.handle_socket(event.token.index);
        } else {
            self.accept_from(event.token.index as usize);
        }
    }

    /// What a program waited for is there.
    fn handle_socket(&mut self, index: u32) {
        let Some(PendingId { token, exchange }) = self.sockets.end(index) else { return };
        let Some(slot) = self.slots.find(token) else { return };
        slot.connection.handle_socket(exchange);
        self.drive(token);
    }

    fn handle_wake(&mut self) {
        self.shared.control.waker(self.index).reset();
        self.handle_all_completed();
        let (arrivals, drains) = self.shared.arrivals_and_drain(self.index);
        for slot in arrivals {
            let token = self.slots.admit(slot);
            self.drive(token);
        }
        if drains && !self.draining {
            self.drain();
        }
    }

    /// Gives connections that used up their turn another one, as many as do not keep new requests waiting.
    fn resume_queued(&mut self) {
        for _ in 0..self.queue.turns() {
            if let Some(token) = self.queue.pop(&mut self.slots) {
                self.drive(token);
            }
        }
    }

    fn handle_time(&mut self) {
        for token in self.slots.expired(self.context.now) {
            self.handle_deadline(token);
        }
        if self.executor.due().is_some_and(|due| due <= self.context.now) {
            self.handle_all_completed();
        }
        self.settle_accepting();
        self.slots.show_load(self.shared.score(self.index));
        self.context.flush_if_due();
    }
}

// Driving connections.
impl<C: OnSockets> Worker<'_, C> {
    /// Lets a connection go on as far as it can, within a turn.
    fn drive(&mut self, token: Token) {
        self.lend(token);
        let interest = self.turn(token);
        self.reclaim(token);
        let slot = self.slots.get(token);
        let finished = self.draining && slot.is_idle() && !slot.readable;
        let waits = !interest.done || self.sockets.begin(slot, token, self.poll.as_fd()).is_ok();
        if interest.is_over() || finished || !waits || !self.register(token) {
            self.slots.remove(token);
            return;
        }
        let slot = self.slots.get(token);
        let (deadline, posture) = (slot.poll_timeout(&self.shared.limits), slot.stand(interest));
        self.slots.set_deadline(token, deadline);
        self.slots.pose(token, posture);
    }

    /// Gives the connection a workspace, if it has none.
    fn lend(&mut self, token: Token) {
        let slot = self.slots.get(token);
        if !slot.connection.is_lent() {
            let mut workspace = self.workspaces.pop().unwrap_or_else(|| self.context.workspace());
            if self.draining {
                workspace.drain();
            }
            slot.connection.lend(workspace);
        }
    }

    fn reclaim(&mut self, token: Token) {
        self.workspaces.push(self.slots.get(token).connection.reclaim());
    }

    /// Waits for a connection that did not end in its first turn. False if it cannot be waited for.
    fn register(&mut self, token: Token) -> bool {
        let slot = self.slots.get(token);
        if !slot.registered {
            slot.registered = self.poll.add_connection(slot.transport.as_fd(), token).is_ok();
        }
        slot.registered
    }

    fn turn(&mut self, token: Token) -> Interest {
        let connection = self.slots.get(token);
        let turn = drive::turn(connection, token, &mut self.context, &mut self.executor);
        if matches!(turn, Turn::GoesOn(_)) {
            self.queue.push(token, self.slots.get(token));
        }
        turn.interest()
    }

    fn handle_deadline(&mut self, token: Token) {
        let now = self.context.now;
        let limits = &self.shared.limits;
        let Some(slot) = self.slots.find(token) else { return };
        // It may have been moved since it was looked at last.
        match slot.poll_timeout(limits) {
            Some(deadline) if deadline > now => self.slots.set_deadline(token, Some(deadline)),
            Some(_) => {
                self.lend(token);
                self.slots.get(token).handle_timeout(now);
                self.reclaim(token);
                self.drive(token);
            }
            None => {}
        }
    }

    fn drain(&mut self) {
        self.draining = true;
        self.end_accepting();
        self.workspaces.iter_mut().for_each(|workspace| workspace.drain());
        for token in self.slots.tokens() {
            // A request may have arrived that nobody has looked at.
            self.slots.get(token).readable = true;
            self.drive(token);
        }
    }
}

// Steps that were carried out elsewhere.
impl<C: OnSockets> Worker<'_, C> {
    fn handle_all_completed(&mut self) {
        for completed in self.executor.completed(&mut self.context) {
            self.handle_completed(completed);
        }
    }

    /// Something that was deferred has been carried out. The connection may have gone meanwhile; then what was done for it
    /// is of use to the cache only.
    fn handle_completed(&mut self, completed: Completed) {
        let token = completed.pending().token;
        if self.slots.find(token).is_none() {
            return;
        }
        self.lend(token);
        drive::handle_completed(self.slots.get(token), completed, &mut self.context);
        self.drive(token);
    }
}
