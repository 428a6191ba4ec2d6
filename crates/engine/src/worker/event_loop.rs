//! The event loop that SPED and AMPED share: one thread that waits for all its connections at once.
//!
//! Owns: receiving, driving connections, sending; the order of its work is that of [`Life`]. Guarantees: a connection
//! gets a bounded turn; one receive and one send for a request that is answered from memory. Does not decide where
//! steps that may block are carried out: its [`Executor`](crate::worker::executor::Executor) does, and that is the
//! whole difference between the engines.

mod accepting;
mod held;
mod lookup_prefetch;

use crate::worker::acceptor::Accepting;
use crate::worker::drive::{self, Leaves, OnSockets, Turn};
use crate::worker::executor::{Completed, PendingId};
use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use lamna_io::wait::{Poll, Token};
use lamna_io::watch::Watching;
use lamna_proto::conn::Interest;
use lamna_proto::time::Instant;
use lamna_proto::workspace::Workspace;
use rustix::io::Errno;

use crate::worker::connection_state::ConnectionState;
use crate::worker::life::{Base, Life};
use crate::worker::shared::Shared;
use crate::worker::socket_waits::SocketWaits;

/// One event loop.
pub struct Worker<'a, C> {
    base: Base<'a>,
    executor: C,
    poll: Poll,
    sockets: SocketWaits,
    _watching: Watching,
    /// Those that no connection has: one, and some for connections that are received from before they are driven.
    #[expect(clippy::vec_box, reason = "lent to connections as they are, without copying or allocating")]
    workspaces: Vec<Box<Workspace>>,
    /// Connections that have something to send, in the order in which they do.
    held: VecDeque<Token>,
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
        let base = Base::new(shared, index);
        let workspaces = vec![base.context.workspace()];
        let (poll, sockets, held) = (Poll::new()?, SocketWaits::default(), VecDeque::new());
        let _watching = SocketWaits::watch(poll.as_fd())?;
        let mut worker = Worker { base, executor, poll, sockets, _watching, workspaces, held };
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
    /// The wait for events fails; no peer can cause that.
    pub fn run(mut self) -> Result<(), Errno> {
        match catch_unwind(AssertUnwindSafe(|| self.live_and_leave())) {
            Ok(served) => served,
            Err(panic) => {
                self.rescue();
                resume_unwind(panic)
            }
        }
    }

    /// After a panic: the connection that was being driven, which still has its workspace, is closed. The others wait
    /// in the inboxes of workers, this one's own among them, for the worker that takes its place. Without a connection
    /// to blame they are closed as well, because the next to drive them might fail again.
    fn rescue(&mut self) {
        for token in std::mem::take(&mut self.held) {
            if let Some(connection) = self.base.connections.find(token).filter(|connection| connection.http.is_lent()) {
                self.workspaces.push(connection.reclaim());
            }
        }
        let tokens = self.base.connections.tokens();
        let (driven, others): (Vec<Token>, Vec<Token>) =
            tokens.into_iter().partition(|token| self.base.connections.get(*token).http.is_lent());
        if !driven.is_empty() {
            for mut connection in others.into_iter().filter_map(|token| self.base.connections.take(token)) {
                // The epoll set that knows it ends with this worker.
                connection.make_movable();
                self.base.shared.adopt(connection);
            }
        }
        self.base.context.flush();
    }

    fn live_and_leave(&mut self) -> Result<(), Errno> {
        self.live()?;
        if self.base.shared.control.is_handing_over() {
            self.leave();
        }
        Ok(())
    }

    /// Gives all connections to the successor.
    fn leave(&mut self) {
        for token in self.base.connections.tokens() {
            self.give(token);
        }
        // What a program does is not done again elsewhere: its step is waited for.
        while self.base.connections.count() > 0
            && !self.base.shared.control.is_stopping()
            && self.poll.wait(Some(STEP_LOOK_MS)).is_ok()
        {
            self.base.shared.control.waker(self.base.index).reset();
            self.update_time();
            for completed in self.executor.completed(&mut self.base.context) {
                let token = completed.pending().token;
                if self.base.connections.find(token).is_some() {
                    self.lend(token);
                    drive::handle_completed(self.base.connections.get(token), completed, &mut self.base.context);
                    self.reclaim(token);
                    self.give(token);
                }
            }
        }
        self.base.shared.close_arrivals(self.base.index);
    }

    /// Gives a connection to the successor, unless a step of a program is being carried out for it.
    fn give(&mut self, token: Token) {
        if !self.base.connections.get(token).http.is_running() {
            self.base.shared.hand_over(self.base.connections.take(token));
        }
    }

    fn handle_event(&mut self, index: usize) {
        let event = self.poll.event(index);
        if event.token.generation != GENERATION_OURS {
            let Some(connection) = self.base.connections.find(event.token) else { return };
            // What was received from before has noticed it.
            if !connection.http.is_lent() || self.held.contains(&event.token) {
                connection.notice(&event);
            }
            self.drive_leaving(event.token, Leaves::Steps);
        } else if event.token.index == WAKER {
            self.drive_held();
            self.handle_wake();
        } else if SocketWaits::is_socket(event.token.index) {
            SocketWaits::note(&event);
            self.handle_socket(event.token.index);
        } else {
            self.accept_from(event.token.index as usize);
        }
    }

    /// The socket that a program waited for is ready.
    fn handle_socket(&mut self, index: u32) {
        let Some(PendingId { token, exchange }) = self.sockets.end(index) else { return };
        let Some(connection) = self.base.connections.find(token) else { return };
        connection.http.handle_socket(exchange);
        self.drive_leaving(token, Leaves::Parts);
    }
}

// Driving connections.
impl<C: OnSockets> Worker<'_, C> {
    /// Gives the connection a workspace, if it has none.
    fn lend(&mut self, token: Token) {
        let connection = self.base.connections.get(token);
        if !connection.http.is_lent() {
            let mut workspace = self.workspaces.pop().unwrap_or_else(|| self.base.context.workspace());
            if self.base.finishes {
                workspace.begin_finishing(connection.stays());
            } else if self.base.draining {
                workspace.drain();
            }
            connection.http.lend(workspace);
        }
    }

    fn reclaim(&mut self, token: Token) {
        self.workspaces.push(self.base.connections.get(token).reclaim());
    }

    /// Waits for a connection that did not end in its first turn. False if it cannot be waited for.
    fn register(&mut self, token: Token) -> bool {
        let connection = self.base.connections.get(token);
        if !connection.registered {
            connection.registered = self.poll.add_connection(connection.transport.as_fd(), token).is_ok();
        }
        connection.registered
    }

    /// Nothing if the turn is to go on later.
    fn turn(&mut self, token: Token, leaves: Leaves) -> Option<Turn> {
        let Base { connections, context, .. } = &mut self.base;
        drive::turn_leaving(connections.get(token), token, context, &mut self.executor, leaves)
    }

    /// Nothing keeps the connection in this process any more: it goes to the other one.
    fn send_on(&mut self, token: Token) {
        let Some(connection) = self.base.connections.take(token) else { return };
        if connection.registered {
            // The other process has the socket, too: this set would go on telling of it.
            self.poll.remove(connection.transport.as_fd());
        }
        self.base.shared.hand_over([connection]);
    }

    /// The turn of a connection is over, which has its workspace.
    fn settle(&mut self, token: Token, turn: Turn) {
        let interest = self.base.queue_if_it_goes_on(token, turn);
        self.reclaim(token);
        let connection = self.base.connections.get(token);
        if self.base.finishes && !interest.is_over() && connection.is_transferable() {
            return self.send_on(token);
        }
        let (finishes, now) = (self.base.finishes, self.base.context.now);
        let finished = (finishes || self.base.draining) && connection.may_end(finishes, now);
        let waits = !interest.done || self.sockets.begin(connection, token, self.poll.as_fd()).is_ok();
        if interest.is_over() || finished || !waits || !self.register(token) {
            self.base.connections.remove(token);
            return;
        }
        let deadline = self.base.connections.get(token).deadline(&self.base.shared.limits, self.base.context.now);
        // Both are told of by its registration, once and as long as it lasts.
        self.base.rest(token, interest, deadline, (true, true));
    }
}

impl<'a, C: OnSockets> Life<'a> for Worker<'a, C> {
    fn base(&self) -> &Base<'a> {
        &self.base
    }

    fn base_mut(&mut self) -> &mut Base<'a> {
        &mut self.base
    }

    fn is_over(&self) -> bool {
        let control = &self.base.shared.control;
        let has_ended = self.base.draining && self.base.connections.count() == 0;
        control.is_stopping() || control.is_handing_over() || has_ended
    }

    fn begin_leaving(&mut self) -> bool {
        self.base.shared.control.is_handing_over()
    }

    fn wait(&mut self, timeout_ms: Option<u64>) -> Result<(), Errno> {
        self.poll.wait(timeout_ms)
    }

    fn update_time(&mut self) {
        let (first, others) = self.workspaces.split_first_mut().expect("between batches no connection has one");
        self.base.context.update_time(first);
        others.iter_mut().for_each(|workspace| self.base.context.set_time(workspace));
    }

    fn handle_events(&mut self) {
        self.handle_in_groups();
        self.drive_held();
    }

    fn admit(&mut self, connection: ConnectionState) -> Token {
        self.base.connections.admit(connection)
    }

    fn drive(&mut self, token: Token) {
        self.lend(token);
        let turn = self.turn(token, Leaves::Nothing);
        self.settle(token, turn.unwrap_or(Turn::Waits(Interest::default())));
    }

    fn drive_to_end(&mut self, token: Token) {
        // A request may have arrived that nobody has looked at.
        self.base.connections.get(token).readable = true;
        self.drive(token);
    }

    fn handle_deadline(&mut self, token: Token) {
        let now = self.base.context.now;
        let limits = &self.base.shared.limits;
        let Some(connection) = self.base.connections.find(token) else { return };
        // It may have been moved since it was looked at last.
        match connection.deadline(limits, now) {
            Some(deadline) if deadline > now => self.base.connections.set_deadline(token, Some(deadline)),
            Some(_) => {
                self.lend(token);
                self.base.connections.get(token).handle_timeout(limits, now);
                self.reclaim(token);
                self.drive(token);
            }
            None => {}
        }
    }

    fn due(&self) -> Option<Instant> {
        self.executor.due()
    }

    fn completed(&mut self) -> Vec<Completed> {
        self.executor.completed(&mut self.base.context)
    }

    fn handle_completed(&mut self, completed: Completed) {
        let token = completed.pending().token;
        if self.base.connections.find(token).is_none() {
            return;
        }
        self.lend(token);
        drive::handle_completed(self.base.connections.get(token), completed, &mut self.base.context);
        self.drive(token);
    }

    fn drain_workspaces(&mut self) {
        self.workspaces.iter_mut().for_each(|workspace| workspace.drain());
    }
}
