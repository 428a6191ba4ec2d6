//! PROACTOR: one io_uring per worker, to which every step is handed (the asynchronous pool of JAWS).
//!
//! Its whole character: it is not told that a step has become possible, but that it has been done. Accepting and
//! receiving go on by themselves, sending borrows the cache, files are opened and read by the same ring, and one system
//! call per turn hands over what is to be done and takes what has been done. So network and disk are waited for in one
//! place, and many connections share a system call. It costs buffers: what is under way belongs to the kernel, and a
//! connection cannot be closed before the kernel has given everything back.
//!
//! One step is done by hand: a range of a file that is in memory goes out with `sendfile`, which costs less than half
//! of reading and sending it through the ring when the transfer is long (a ring has only `splice`, which needs a pipe
//! and a kernel thread). A range that is not in memory is read by the ring and sent from where it was read to.

mod admission;
mod disk;
mod hands;
mod needs;
mod ring_connection;

use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use lamna_io::KernelFeatures;
use lamna_io::wait::Token;
use lamna_proto::conn::{Fate, Interest};
use lamna_proto::time::Instant;
use lamna_proto::workspace::Workspace;
use lamna_sys::metrics::memory_accounting::Reservation;
use lamna_sys::metrics::step_timer::{self, Step};
use lamna_sys::ring::{Completion, Event, OpId, Outgoing, Ring};
use rustix::io::Errno;

use self::disk::Disk;
use self::hands::RingHands;
use crate::engine::proactor::ring_connection::{Out, RingConnection, SocketPoll};
use crate::worker::acceptor::Accepting;
use crate::worker::connection_state::ConnectionState;
use crate::worker::drive::{self, Leaves, Turn};
use crate::worker::executor::{Completed, PendingId};
use crate::worker::life::{Base, Life};
use crate::worker::shared::Shared;

/// Whether this engine can run here.
///
/// # Errors
/// Why not.
pub fn test(abilities: &KernelFeatures) -> Result<(), Errno> {
    if !abilities.io_uring.load(Relaxed) {
        return Err(Errno::NOSYS);
    }
    Ring::<Tag, ()>::new(1).map(drop)
}

/// Serves as worker `index`, with at most `helpers_max` threads that wait for the disk, until told to drain or stop.
///
/// # Errors
/// The wait for events fails, or there are no descriptors to begin with.
pub fn run(shared: &Arc<Shared>, index: usize, helpers_max: usize) -> Result<(), Errno> {
    Worker::new(shared, index, helpers_max)?.live()
}

/// The purpose of an operation in the ring.
#[derive(Clone, Copy, Debug)]
enum Tag {
    Waker,
    Accept(usize),
    Receive(Token),
    Out(Token),
    HangUp(Token),
    Socket(PendingId, SocketPoll),
    FileRange(PendingId),
    Name(usize),
    Content(usize),
}

struct Worker<'a> {
    /// First, so that it ends before what its operations are about.
    ring: Ring<Tag, Option<Reservation>>,
    base: Base<'a>,
    disk: Disk,
    /// By descriptor number.
    ring_connections: Vec<RingConnection>,
    workspace: Option<Box<Workspace>>,
    /// By listener.
    accepts: Vec<Option<OpId>>,
    #[expect(clippy::vec_box, reason = "moved to the ring and back as they are, without copying or allocating")]
    spare_outgoing: Vec<Box<Outgoing>>,
    /// Connections whose programs have something to do, and most likely to send: when all that has come about has been
    /// looked at, so that they send one right after the other.
    held: VecDeque<Token>,
    /// Everything is being taken back from the kernel, to be given to the successor.
    handing_over: bool,
}

/// How many buffers for what is sent are kept for the next time, and the largest one.
const SPARE_MAX: usize = 64;
const SPARE_BYTES_MAX: usize = 64 * 1024;
const DRIVEN: &str = "one connection is driven at a time";

impl<'a> Worker<'a> {
    fn new(shared: &'a Arc<Shared>, index: usize, helpers_max: usize) -> Result<Worker<'a>, Errno> {
        let base = Base::new(shared, index);
        let mut worker = Worker {
            ring: Ring::new(u32::try_from(helpers_max).unwrap_or(u32::MAX))?,
            disk: Disk::new(shared, index),
            ring_connections: Vec::new(),
            workspace: Some(base.context.workspace()),
            base,
            accepts: vec![None; shared.listeners.len()],
            spare_outgoing: Vec::new(),
            held: VecDeque::new(),
            handing_over: false,
        };
        worker.await_wake();
        worker.begin_accepting()?;
        shared.control.report_begun();
        Ok(worker)
    }

    fn handle(&mut self, completion: Completion<Tag, Option<Reservation>>) {
        let Completion { tag, event, more } = completion;
        match (tag, event) {
            (Tag::Receive(token), Event::Received(received)) => {
                let bytes = match &received {
                    Ok(Some(received)) => Ok(self.ring.bytes(received)),
                    Ok(None) => Ok(&[][..]),
                    Err(errno) => Err(*errno),
                };
                self.ring_connections[token.index as usize].handle_received(bytes, more);
                if let Ok(Some(received)) = received {
                    self.ring.give_back(received);
                }
                self.handle_arrived(token);
            }
            (Tag::Out(token), Event::Sent(outgoing, sent)) => self.handle_sent(token, outgoing, sent),
            (Tag::Out(token), Event::Polled) => self.handle_writable(token),
            (Tag::HangUp(token), Event::Changed(has_failed)) => self.handle_hang_up(token, has_failed, more),
            (Tag::Socket(pending, poll), Event::Polled) => self.handle_socket(pending, poll),
            (Tag::Accept(listener), Event::Accepted(socket)) => self.handle_accepted(listener, socket, more),
            (Tag::FileRange(pending), Event::Read(room, bytes)) => self.handle_stretch(pending, room, bytes),
            (Tag::Name(index), Event::Opened(opened)) => {
                let completed = self.disk.handle_opened(&mut self.ring, &mut self.base.context, index, opened);
                completed.into_iter().for_each(|one| self.handle_completed(one));
            }
            (Tag::Content(index), _) => {
                let completed = self.disk.next_name(&mut self.ring, &mut self.base.context, index);
                completed.into_iter().for_each(|one| self.handle_completed(one));
            }
            (Tag::Waker, _) => self.handle_woken(),
            (tag, event) => debug_assert!(false, "{tag:?} does not come back with {event:?}"),
        }
    }

    fn await_wake(&mut self) {
        let waker = self.base.shared.control.waker(self.base.index).descriptor();
        self.ring.poll_readable(waker.as_fd(), Tag::Waker);
    }

    fn handle_woken(&mut self) {
        self.handle_wake();
        self.await_wake();
    }
}

// Driving connections.
impl Worker<'_> {
    /// Nothing if the turn is to go on later.
    fn turn(&mut self, token: Token, leaves: Leaves) -> Option<Turn> {
        let mut hands = RingHands {
            ring: &mut self.ring,
            disk: &mut self.disk,
            ring_connection: &mut self.ring_connections[token.index as usize],
            token,
            spare_outgoing: &mut self.spare_outgoing,
        };
        drive::turn_leaving(self.base.connections.get(token), token, &mut self.base.context, &mut hands, leaves)
    }

    /// Lets a connection go on up to what it leaves for later.
    fn drive_leaving(&mut self, token: Token, leaves: Leaves) {
        if self.ring_connections[token.index as usize].closing {
            return self.close(token);
        }
        if self.handing_over {
            return self.give_if_free(token);
        }
        let workspace = self.workspace.take().expect(DRIVEN);
        self.base.connections.get(token).http.lend(workspace);
        let turn = self.turn(token, leaves);
        self.workspace = Some(self.base.connections.get(token).reclaim());
        let Some(turn) = turn else { return self.held.push_back(token) };
        let interest = self.base.queue_if_it_goes_on(token, turn);
        let (connection, ring_connection) =
            (self.base.connections.get(token), &mut self.ring_connections[token.index as usize]);
        if interest.is_over() && !ring_connection.is_sending() {
            return self.close(token);
        }
        let has_left = connection.is_idle() && !connection.readable && connection.writable;
        if has_left
            && (ring_connection.leaving || self.base.draining && connection.may_end(false, self.base.context.now))
        {
            return self.finish(token);
        }
        if interest.done {
            self.await_sockets(token);
        }
        let (connection, ring_connection) =
            (self.base.connections.get(token), &mut self.ring_connections[token.index as usize]);
        ring_connection.receive_from(&mut self.ring, connection.transport.as_fd(), Tag::Receive(token));
        if interest.done {
            ring_connection.await_failure(&mut self.ring, connection.transport.as_fd(), Tag::HangUp(token));
        }
        let deadline = self.deadline(token);
        let tells = self.ring_connections[token.index as usize].tells();
        self.base.rest(token, interest, deadline, tells);
    }

    /// Lets those go on that are held.
    fn drive_held(&mut self) {
        while let Some(token) = self.held.pop_front() {
            if self.base.connections.find(token).is_some() {
                self.drive(token);
            }
        }
    }

    /// Waits for what the programs of a connection wait for, unless the ring does so already.
    fn await_sockets(&mut self, token: Token) {
        let ring_connection = &mut self.ring_connections[token.index as usize];
        while let Some((exchange, wait)) = self.base.connections.get(token).http.poll_socket() {
            let poll = SocketPoll { number: wait.socket.as_raw_fd(), readable: wait.readable, writable: wait.writable };
            if !ring_connection.polled.contains(&(exchange, poll)) {
                ring_connection.polled.push((exchange, poll));
                let tag = Tag::Socket(PendingId { token, exchange }, poll);
                self.ring.poll_socket(wait.socket, poll.readable, poll.writable, tag);
            }
        }
    }

    /// The socket that a program waited for is ready.
    fn handle_socket(&mut self, PendingId { token, exchange }: PendingId, poll: SocketPoll) {
        let Some(connection) = self.base.connections.find(token) else { return };
        self.ring_connections[token.index as usize].polled.retain(|one| *one != (exchange, poll));
        connection.http.handle_socket(exchange);
        self.drive(token);
    }

    fn handle_arrived(&mut self, token: Token) {
        let connection = self.base.connections.get(token);
        connection.readable =
            self.ring_connections[token.index as usize].is_readable() || connection.transport.has_buffered_input();
        self.drive_leaving(token, Leaves::Steps);
    }

    /// The peer has taken some, or all, of what was handed to the ring.
    fn handle_sent(&mut self, token: Token, mut outgoing: Box<Outgoing>, sent: Result<usize, Errno>) {
        let (connection, ring_connection) =
            (self.base.connections.get(token), &mut self.ring_connections[token.index as usize]);
        ring_connection.out = None;
        ring_connection.progress = self.base.context.now;
        let least = u64::from(self.base.shared.limits.send_bytes_min);
        ring_connection.taking.take(sent.unwrap_or(0) as u64, least, self.base.context.now);
        let taken = matches!(sent, Ok(1..));
        if self.handing_over && !ring_connection.closing && (taken || sent == Err(Errno::CANCELED)) {
            outgoing.handle_sent(sent.unwrap_or(0));
            connection.transport.return_unsent(&mut connection.http, &outgoing.unsent().concat());
            return self.give_if_free(token);
        }
        if taken && outgoing.handle_sent(sent.unwrap_or(0)) && !ring_connection.closing {
            ring_connection.out =
                Some(Out::Send(self.ring.send(connection.transport.as_fd(), outgoing, Tag::Out(token))));
            return;
        }
        connection.writable = true;
        ring_connection.taking.clear();
        self.recycle(outgoing);
        let connection = self.base.connections.get(token);
        if !taken {
            self.give_up(token, ConnectionState::handle_broken);
        } else if connection.waits_for_request() && !connection.readable && !self.base.draining {
            let deadline = self.deadline(token);
            return self.base.connections.set_deadline(token, deadline);
        }
        self.drive(token);
    }

    fn handle_writable(&mut self, token: Token) {
        self.ring_connections[token.index as usize].out = None;
        self.base.connections.get(token).writable = true;
        self.drive(token);
    }

    /// Something has changed at the socket of a connection whose peer has closed its side.
    fn handle_hang_up(&mut self, token: Token, has_failed: bool, more: bool) {
        if !more {
            self.ring_connections[token.index as usize].hang_up = None;
        }
        if has_failed || !more {
            self.base.connections.get(token).transport.failed |= has_failed;
            self.drive(token);
        }
    }

    fn recycle(&mut self, mut outgoing: Box<Outgoing>) {
        outgoing.release();
        if self.spare_outgoing.len() < SPARE_MAX && outgoing.capacity() <= SPARE_BYTES_MAX {
            self.spare_outgoing.push(outgoing);
        }
    }

    /// Until when the current wait may last. The core measures from when it handed bytes over; here a wait for the peer
    /// begins when the peer has taken them.
    fn deadline(&mut self, token: Token) -> Option<Instant> {
        let look = self.base.connections.get(token).look_at(self.base.context.now);
        self.patience(token).into_iter().chain(look).min()
    }

    /// Until when its peer is waited for.
    fn patience(&mut self, token: Token) -> Option<Instant> {
        let limits = &self.base.shared.limits;
        let (connection, ring_connection) =
            (self.base.connections.get(token), &self.ring_connections[token.index as usize]);
        if ring_connection.is_sending() {
            return ring_connection.taking.until(limits.send_timeout_ms);
        }
        if connection.transport.is_handshaking() {
            return connection.poll_timeout(limits);
        }
        let wait_ms = match connection.interest() {
            Interest { fate: Fate::Linger, .. } => limits.linger_timeout_ms,
            interest if interest == Interest::RECEIVE && connection.is_idle() => limits.idle_timeout_ms,
            _ if ring_connection.out.is_some() => limits.send_timeout_ms,
            _ => 0,
        };
        let until = connection.poll_timeout(limits)?;
        // Answers to PING are taken as well, and keep nobody: what an answer may have taken longer is bounded.
        let taken = ring_connection.progress.after_ms(wait_ms).min(until.after_ms(limits.send_timeout_ms));
        [until.max(taken)].into_iter().chain(connection.last_call()).min()
    }

    /// Tells a connection that something has failed, and logs what comes of it.
    fn give_up(&mut self, token: Token, tell: impl FnOnce(&mut ConnectionState)) {
        let connection = self.base.connections.get(token);
        connection.http.lend(self.workspace.take().expect(DRIVEN));
        tell(connection);
        self.base.context.report(&mut connection.http, &connection.transport, connection.peer);
        self.workspace = Some(connection.reclaim());
    }
}

impl<'a> Life<'a> for Worker<'a> {
    fn base(&self) -> &Base<'a> {
        &self.base
    }

    fn base_mut(&mut self) -> &mut Base<'a> {
        &mut self.base
    }

    fn is_over(&self) -> bool {
        let leaves = self.base.draining || self.handing_over;
        let alone = leaves && self.base.connections.count() == 0 && self.accepts.iter().all(Option::is_none);
        alone || self.base.shared.control.is_stopping()
    }

    /// Completions are taken in before connections go: they hold bytes that these have received.
    fn begin_leaving(&mut self) -> bool {
        if self.base.shared.control.is_handing_over() && !self.handing_over {
            self.hand_over();
        }
        false
    }

    fn wait(&mut self, timeout_ms: Option<u64>) -> Result<(), Errno> {
        let _step = step_timer::step(Step::Ring);
        self.ring.submit_and_wait(timeout_ms)
    }

    fn update_time(&mut self) {
        if let Some(workspace) = &mut self.workspace {
            self.base.context.update_time(workspace);
        }
    }

    fn handle_events(&mut self) {
        for _ in 0..self.ring.completion_count() {
            let Some(completion) = self.ring.next_completion() else { break };
            self.handle(completion);
        }
        self.drive_held();
    }

    /// Nothing is under way for it yet: the ring has received nothing, and tells of what the socket has. It does not
    /// tell of what the session has decrypted with another engine.
    fn admit(&mut self, connection: ConnectionState) -> Token {
        let token = self.base.connections.admit(connection);
        let connection = self.base.connections.get(token);
        connection.readable = connection.transport.has_buffered_input();
        let index = token.index as usize;
        if index >= self.ring_connections.len() {
            self.ring_connections.resize_with(index + 1, || RingConnection::new(self.base.context.now));
        }
        self.ring_connections[index] = RingConnection::new(self.base.context.now);
        token
    }

    fn drive(&mut self, token: Token) {
        self.drive_leaving(token, Leaves::Nothing);
    }

    fn handle_deadline(&mut self, token: Token) {
        let now = self.base.context.now;
        let ring_connection = &self.ring_connections[token.index as usize];
        if self.base.connections.find(token).is_none() || ring_connection.closing {
            return;
        }
        let is_sending = ring_connection.is_sending();
        // It may have been moved since it was looked at last.
        match self.deadline(token) {
            Some(deadline) if deadline > now => self.base.connections.set_deadline(token, Some(deadline)),
            Some(_) if is_sending => {
                self.give_up(token, ConnectionState::handle_broken);
                self.close(token);
            }
            Some(_) => {
                let shared = self.base.shared;
                self.give_up(token, |connection| connection.handle_timeout(&shared.limits, now));
                self.drive(token);
            }
            None => {}
        }
    }

    fn completed(&mut self) -> Vec<Completed> {
        self.disk.completed(&mut self.base.context)
    }

    fn handle_completed(&mut self, completed: Completed) {
        let token = completed.pending().token;
        let Some(connection) = self.base.connections.find(token) else { return };
        connection.http.lend(self.workspace.take().expect(DRIVEN));
        drive::handle_completed(connection, completed, &mut self.base.context);
        self.base.context.report(&mut connection.http, &connection.transport, connection.peer);
        self.workspace = Some(connection.reclaim());
        self.drive(token);
    }

    fn drain_workspaces(&mut self) {
        if let Some(workspace) = &mut self.workspace {
            workspace.drain();
        }
    }

    fn resume_accepting(&mut self) {
        self.settle_accepting();
        // An accept that found no room is over; there may be room again already.
        if self.base.acceptor.is_taking() {
            self.listen();
        }
    }
}
