//! PROACTOR: one io_uring per worker, to which every step is handed (the asynchronous pool of JAWS).
//!
//! Its whole character: it is not told that a step has become possible, but that it has been done. Accepting and
//! receiving go on by themselves, sending borrows the cache, files are opened and read by the same ring, and one system
//! call per turn hands over what is to be done and takes what has been done. So network and disk are waited for in one
//! place, and many connections share a system call. It costs buffers: what is under way belongs to the kernel, and a
//! connection cannot be closed before the kernel has given everything back.
//!
//! One step is done by hand: a range of a file that is in memory goes out with `sendfile`, which costs less than half
//! of reading and sending it through the ring when the transfer is long (a ring has only `splice`, which needs a pipe and
//! a kernel thread). A range that is not in memory is read by the ring and sent from where it was read to.

mod admission;
mod disk;
mod hands;
mod needs;
mod ring_connection;

use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use lamna_proto::conn::{Fate, Interest};
use lamna_proto::time::Instant;
use lamna_proto::workspace::Workspace;
use rustix::io::Errno;

use self::disk::Disk;
use self::hands::RingHands;
use crate::engine::proactor::ring_connection::{Out, RingConnection, SocketPoll};
use crate::io::KernelFeatures;
use crate::io::wait::Token;
use crate::metrics::memory_accounting::Reservation;
use crate::metrics::step_timer::{self, Step};
use crate::sys::ring::{Completion, Event, OpId, Outgoing, Ring};
use crate::worker::acceptor::{Accepting, Acceptor, Share};
use crate::worker::connection_table::{ConnectionState, ConnectionTable};
use crate::worker::context::WorkerContext;
use crate::worker::drive::{self, Turn};
use crate::worker::executor::PendingId;
use crate::worker::run_queue::RunQueue;
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
/// What makes waiting impossible, or no descriptors to begin with.
pub fn run(shared: &Arc<Shared>, index: usize, helpers_max: usize) -> Result<(), Errno> {
    Worker::new(shared, index, helpers_max)?.run()
}

/// What an operation in the ring is for.
#[derive(Clone, Copy, Debug)]
enum Tag {
    Waker,
    Accept(usize),
    Receive(Token),
    Out(Token),
    Socket(PendingId, SocketPoll),
    FileRange(PendingId),
    Name(usize),
    Content(usize),
}

struct Worker<'a> {
    /// First, so that it ends before what its operations are about.
    ring: Ring<Tag, Option<Reservation>>,
    shared: &'a Shared,
    index: usize,
    disk: Disk,
    slots: ConnectionTable,
    /// By the index of the slot.
    ring_connections: Vec<RingConnection>,
    /// Connections that can go on without a completion.
    queue: RunQueue,
    context: WorkerContext<'a>,
    workspace: Option<Box<Workspace>>,
    /// By listener.
    accepts: Vec<Option<OpId>>,
    acceptor: Acceptor,
    #[expect(clippy::vec_box, reason = "moved to the ring and back as they are, without copying or allocating")]
    spare_outgoing: Vec<Box<Outgoing>>,
    draining: bool,
    /// Everything is being taken back from the kernel, to be given to the successor.
    handing_over: bool,
}

/// How many buffers for what is sent are kept for the next time, and the largest one.
const SPARE_MAX: usize = 64;
const SPARE_BYTES_MAX: usize = 64 * 1024;
const DRIVEN: &str = "one connection is driven at a time";

impl<'a> Worker<'a> {
    fn new(shared: &'a Arc<Shared>, index: usize, helpers_max: usize) -> Result<Worker<'a>, Errno> {
        let context = WorkerContext::new(shared);
        let mut worker = Worker {
            ring: Ring::new(u32::try_from(helpers_max).unwrap_or(u32::MAX))?,
            shared,
            index,
            disk: Disk::new(shared, index),
            slots: ConnectionTable::default(),
            ring_connections: Vec::new(),
            queue: RunQueue::default(),
            workspace: Some(context.workspace()),
            context,
            accepts: vec![None; shared.listeners.len()],
            acceptor: Acceptor::new(Share::Fair),
            spare_outgoing: Vec::new(),
            draining: false,
            handing_over: false,
        };
        worker.await_wake();
        worker.begin_accepting()?;
        shared.control.report_begun();
        Ok(worker)
    }

    fn run(mut self) -> Result<(), Errno> {
        while !self.is_over() {
            let timeout_ms = self.timeout_ms();
            let in_ring = step_timer::step(Step::Ring);
            self.ring.submit_and_wait(timeout_ms)?;
            drop(in_ring);
            if let Some(workspace) = &mut self.workspace {
                self.context.update_time(workspace);
            }
            for _ in 0..self.ring.completion_count() {
                let Some(completion) = self.ring.next_completion() else { break };
                self.handle(completion);
            }
            self.resume_queued();
            self.handle_time();
            self.context.end_batch(self.shared.score(self.index));
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        let leaves = self.draining || self.handing_over;
        let alone = leaves && self.slots.count() == 0 && self.accepts.iter().all(Option::is_none);
        alone || self.shared.control.is_stopping()
    }

    /// How long nothing will have to be done.
    fn timeout_ms(&self) -> Option<u64> {
        if !self.queue.is_empty() {
            return Some(0);
        }
        self.context.wait_ms([self.slots.next_deadline(), self.acceptor.due()].into_iter().flatten())
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
            (Tag::Socket(pending, poll), Event::Polled) => self.handle_socket(pending, poll),
            (Tag::Accept(listener), Event::Accepted(socket)) => self.handle_accepted(listener, socket, more),
            (Tag::FileRange(pending), Event::Read(room, bytes)) => self.handle_stretch(pending, room, bytes),
            (Tag::Name(index), Event::Opened(opened)) => {
                let completed = self.disk.handle_opened(&mut self.ring, &mut self.context, index, opened);
                self.handle_all_completed(completed);
            }
            (Tag::Content(index), _) => {
                let completed = self.disk.next_name(&mut self.ring, &mut self.context, index);
                self.handle_all_completed(completed);
            }
            (Tag::Waker, _) => self.handle_wake(),
            (tag, event) => debug_assert!(false, "{tag:?} does not come back with {event:?}"),
        }
    }

    fn await_wake(&mut self) {
        let waker = self.shared.control.waker(self.index).descriptor();
        self.ring.poll_readable(waker.as_fd(), Tag::Waker);
    }

    fn handle_wake(&mut self) {
        self.shared.control.waker(self.index).reset();
        self.await_wake();
        let completed = self.disk.completed(&mut self.context);
        self.handle_all_completed(completed);
        let (arrivals, drains) = self.shared.arrivals_and_drain(self.index);
        for slot in arrivals {
            let token = self.admit(slot);
            self.drive(token);
        }
        if drains && !self.draining {
            self.drain();
        }
        if self.shared.control.is_handing_over() && !self.handing_over {
            self.hand_over();
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
        self.settle_accepting();
        // An accept that found no room is over; there may be room again already.
        if self.acceptor.is_taking() {
            self.listen();
        }
        self.slots.show_load(self.shared.score(self.index));
        self.context.flush_if_due();
    }

    fn drain(&mut self) {
        self.draining = true;
        self.end_accepting();
        if let Some(workspace) = &mut self.workspace {
            workspace.drain();
        }
        for token in self.slots.tokens() {
            self.drive(token);
        }
    }
}

// Driving connections.
impl Worker<'_> {
    /// Lets a connection go on as far as it can, within a turn.
    fn drive(&mut self, token: Token) {
        if self.ring_connections[token.index as usize].closing {
            return self.close(token);
        }
        if self.handing_over {
            return self.give_if_free(token);
        }
        let workspace = self.workspace.take().expect(DRIVEN);
        self.slots.get(token).connection.lend(workspace);
        let interest = self.turn(token);
        let slot = self.slots.get(token);
        self.workspace = Some(slot.connection.reclaim());
        let ring_connection = &mut self.ring_connections[token.index as usize];
        if interest.is_over() && !ring_connection.is_sending() {
            return self.close(token);
        }
        if (self.draining || ring_connection.leaving) && slot.is_idle() && !slot.readable && slot.writable {
            return self.finish(token);
        }
        if interest.done {
            self.await_sockets(token);
        }
        let (slot, ring_connection) = (self.slots.get(token), &mut self.ring_connections[token.index as usize]);
        ring_connection.receive_from(&mut self.ring, slot.transport.as_fd(), Tag::Receive(token));
        let deadline = self.deadline(token);
        self.slots.set_deadline(token, deadline);
        let posture = self.slots.get(token).stand(interest);
        self.slots.pose(token, posture);
    }

    fn turn(&mut self, token: Token) -> Interest {
        let mut hands = RingHands {
            ring: &mut self.ring,
            disk: &mut self.disk,
            ring_connection: &mut self.ring_connections[token.index as usize],
            token,
            spare_outgoing: &mut self.spare_outgoing,
        };
        let turn = drive::turn(self.slots.get(token), token, &mut self.context, &mut hands);
        if matches!(turn, Turn::GoesOn(_)) {
            self.queue.push(token, self.slots.get(token));
        }
        turn.interest()
    }

    /// Waits for what the programs of a connection wait for, unless the ring does so already.
    fn await_sockets(&mut self, token: Token) {
        let ring_connection = &mut self.ring_connections[token.index as usize];
        while let Some((exchange, wait)) = self.slots.get(token).connection.poll_socket() {
            let poll = SocketPoll { number: wait.socket.as_raw_fd(), readable: wait.readable, writable: wait.writable };
            if !ring_connection.polled.contains(&(exchange, poll)) {
                ring_connection.polled.push((exchange, poll));
                let tag = Tag::Socket(PendingId { token, exchange }, poll);
                self.ring.poll_socket(wait.socket, poll.readable, poll.writable, tag);
            }
        }
    }

    /// What a program waited for is there.
    fn handle_socket(&mut self, PendingId { token, exchange }: PendingId, poll: SocketPoll) {
        let Some(slot) = self.slots.find(token) else { return };
        self.ring_connections[token.index as usize].polled.retain(|one| *one != (exchange, poll));
        slot.connection.handle_socket(exchange);
        self.drive(token);
    }

    fn handle_arrived(&mut self, token: Token) {
        let slot = self.slots.get(token);
        slot.readable =
            self.ring_connections[token.index as usize].is_readable() || slot.transport.has_buffered_input();
        self.drive(token);
    }

    /// The peer has taken some, or all, of what was handed to the ring.
    fn handle_sent(&mut self, token: Token, mut outgoing: Box<Outgoing>, sent: Result<usize, Errno>) {
        let (slot, ring_connection) = (self.slots.get(token), &mut self.ring_connections[token.index as usize]);
        ring_connection.out = None;
        ring_connection.progress = self.context.now;
        let taken = matches!(sent, Ok(1..));
        if self.handing_over && !ring_connection.closing && (taken || sent == Err(Errno::CANCELED)) {
            outgoing.handle_sent(sent.unwrap_or(0));
            slot.transport.return_unsent(&mut slot.connection, &outgoing.unsent().concat());
            return self.give_if_free(token);
        }
        if taken && outgoing.handle_sent(sent.unwrap_or(0)) && !ring_connection.closing {
            ring_connection.out = Some(Out::Send(self.ring.send(slot.transport.as_fd(), outgoing, Tag::Out(token))));
            return;
        }
        slot.writable = true;
        self.recycle(outgoing);
        let slot = self.slots.get(token);
        if !taken {
            self.give_up(token, ConnectionState::handle_broken);
        } else if waits_for_request(slot) && !slot.readable && !self.draining {
            let deadline = self.deadline(token);
            return self.slots.set_deadline(token, deadline);
        }
        self.drive(token);
    }

    fn handle_writable(&mut self, token: Token) {
        self.ring_connections[token.index as usize].out = None;
        self.slots.get(token).writable = true;
        self.drive(token);
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
        let limits = &self.shared.limits;
        let (slot, ring_connection) = (self.slots.get(token), &self.ring_connections[token.index as usize]);
        if ring_connection.is_sending() {
            return Some(ring_connection.progress.after_ms(limits.send_timeout_ms));
        }
        if slot.transport.is_handshaking() {
            return slot.poll_timeout(limits);
        }
        let wait_ms = match slot.interest() {
            Interest { fate: Fate::Linger, .. } => limits.linger_timeout_ms,
            interest if interest == Interest::RECEIVE && slot.is_idle() => limits.idle_timeout_ms,
            _ => 0,
        };
        slot.poll_timeout(limits).map(|at| at.max(ring_connection.progress.after_ms(wait_ms)))
    }

    fn handle_deadline(&mut self, token: Token) {
        let now = self.context.now;
        let ring_connection = &self.ring_connections[token.index as usize];
        if self.slots.find(token).is_none() || ring_connection.closing {
            return;
        }
        let is_sending = ring_connection.is_sending();
        // It may have been moved since it was looked at last.
        match self.deadline(token) {
            Some(deadline) if deadline > now => self.slots.set_deadline(token, Some(deadline)),
            Some(_) if is_sending => {
                self.give_up(token, ConnectionState::handle_broken);
                self.close(token);
            }
            Some(_) => {
                self.give_up(token, |slot| slot.handle_timeout(now));
                self.drive(token);
            }
            None => {}
        }
    }

    /// Tells a connection that something has failed, and logs what comes of it.
    fn give_up(&mut self, token: Token, tell: impl FnOnce(&mut ConnectionState)) {
        let slot = self.slots.get(token);
        slot.connection.lend(self.workspace.take().expect(DRIVEN));
        tell(slot);
        self.context.report(&mut slot.connection, &slot.transport, slot.client);
        self.workspace = Some(slot.connection.reclaim());
    }
}

/// Whether nothing is to be done for a connection until something arrives.
fn waits_for_request(slot: &mut ConnectionState) -> bool {
    slot.is_idle() && slot.interest() == Interest::RECEIVE
}
