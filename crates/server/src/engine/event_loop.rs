//! The event loop that SPED and AMPED share: one thread that waits for all its connections at once.
//!
//! Owns: receiving, driving connections, sending, deadlines, logging. Guarantees: a connection gets a bounded
//! turn; one receive and one send for a request that is answered from memory. Does not decide where steps that may block
//! are carried out: its [`Carrier`] does, and that is the whole difference between the engines.

mod accepting;
mod foresee;

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use lamna_proto::conn::Interest;
use lamna_proto::exchange::{Done, ExchangeId, Need, Read};
use lamna_proto::time::Instant;
use lamna_proto::transmit::{Segment, Transmit};
use lamna_proto::workspace::Workspace;
use rustix::io::Errno;

use crate::cache::Entry;
use crate::engine::Shared;
use crate::engine::desk::{Desk, Found, Stretch, Target};
use crate::engine::portion::{PATIENCE_MS, Portion};
use crate::engine::sampling::stall_ms;
use crate::engine::slots::Slots;
use crate::engine::stretch::{TURN_BYTES, within_turn};
use crate::io::accept::Reserve;
use crate::io::send::Sent;
use crate::io::wait::{Poll, Token};

/// Names an exchange of a connection of this worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// The connection.
    pub token: Token,
    /// The exchange.
    pub exchange: ExchangeId,
}

/// What came of a step that was carried out.
#[derive(Debug)]
pub enum Outcome {
    /// A target was translated.
    Translated(Ticket, Arc<Entry>),
    /// So many bytes are ready.
    Ready(Ticket, u64),
    /// So many bytes as this has are ready: in it.
    Held(Ticket, Box<Portion>),
    /// The file is no longer what was described, or cannot be read.
    Failed(Ticket),
}

/// Who carries out what may block.
pub trait Carrier {
    /// Translates `target` and keeps what is found, at once or, returning nothing, later.
    fn translate(&mut self, desk: &mut Desk<'_>, ticket: Ticket, target: Target) -> Option<Arc<Entry>>;

    /// Compares a target that is in use with the file system, for nobody in particular.
    fn refresh(&mut self, desk: &mut Desk<'_>, target: Target);

    /// Makes the beginning of a stretch ready, at once or, returning nothing, later.
    fn make_ready(&mut self, shared: &Shared, ticket: Ticket, stretch: Stretch) -> Option<Outcome>;

    /// What is readable when there may be such steps; none if they wake the worker by its waker.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Steps that were carried out meanwhile. Called when the worker has been woken.
    fn outcomes(&mut self, desk: &mut Desk<'_>) -> Vec<Outcome>;
}

/// One event loop.
pub struct Worker<'a, C> {
    shared: &'a Shared,
    index: usize,
    carrier: C,
    poll: Poll,
    slots: Slots,
    /// Connections that can go on without an event.
    queue: VecDeque<Token>,
    desk: Desk<'a>,
    /// Those that no connection has: one, and some for connections that are received from before they are driven.
    #[expect(clippy::vec_box, reason = "lent to connections as they are, without copying or allocating")]
    workspaces: Vec<Box<Workspace>>,
    accepting: bool,
    reserve: Reserve,
    /// When to try again to accept.
    accept_again: Option<Instant>,
    /// Connections have been left to other workers: those that still wait are taken.
    passed: bool,
    /// How many connections others have been told of.
    shown: usize,
    /// Likewise of how many that are idle, and slow.
    shown_postures: (usize, usize),
    draining: bool,
}

/// Tokens with this generation are listeners (by index) or the waker.
const GENERATION_OURS: u32 = 0;
const WAKER: u32 = u32::MAX;
/// Turns of connections that had one already, before events are looked at again: a new request waits for no more of them.
const TURNS_MAX: usize = 2;
/// Receives of one connection before others get their turn.
const TURN_RECEIVES: u32 = 16;
impl<'a, C: Carrier> Worker<'a, C> {
    /// A worker that has not begun.
    ///
    /// # Errors
    /// No descriptors or memory.
    pub fn new(shared: &'a Shared, index: usize, carrier: C) -> Result<Worker<'a, C>, Errno> {
        let desk = Desk::new(shared);
        let mut worker = Worker {
            shared,
            index,
            carrier,
            poll: Poll::new()?,
            slots: Slots::default(),
            queue: VecDeque::new(),
            workspaces: vec![desk.workspace()],
            desk,
            accepting: false,
            reserve: Reserve::new(),
            accept_again: None,
            passed: false,
            shown: 0,
            shown_postures: (0, 0),
            draining: false,
        };
        let waker = Token { index: WAKER, generation: GENERATION_OURS };
        worker.poll.add_waker(shared.control.waker(index).descriptor().as_fd(), waker)?;
        if let Some(descriptor) = worker.carrier.descriptor() {
            worker.poll.add_waker(descriptor, waker)?;
        }
        worker.listen()?;
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
        self.desk.flush();
    }

    fn serve(&mut self) -> Result<(), Errno> {
        while !self.is_over() {
            let timeout_ms = self.timeout_ms();
            self.poll.wait(timeout_ms)?;
            self.look_at_clock();
            self.handle_events();
            self.go_on();
            self.handle_time();
            self.end_batch();
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
        let tokens = self.slots.tokens();
        self.shared.hand_over(tokens.into_iter().filter_map(|token| self.slots.take(token)));
        self.shared.close_arrivals(self.index);
    }

    /// How long nothing will have to be done.
    fn timeout_ms(&self) -> Option<u64> {
        if !self.queue.is_empty() {
            return Some(0);
        }
        let due = [self.slots.next_deadline(), self.accept_again, self.desk.flush_due()].into_iter().flatten().min()?;
        // One more, because the clock is coarse: waking before its tick would only mean waiting again.
        Some(due.since(self.desk.now) + 1)
    }

    fn look_at_clock(&mut self) {
        let (first, others) = self.workspaces.split_first_mut().expect("between batches no connection has one");
        self.desk.look_at_clock(first);
        others.iter_mut().for_each(|workspace| self.desk.tell_time(workspace));
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
        } else {
            self.accept_from(event.token.index as usize);
        }
    }

    fn handle_wake(&mut self) {
        self.shared.control.waker(self.index).reset();
        for outcome in self.carrier.outcomes(&mut self.desk) {
            self.handle_outcome(outcome);
        }
        for slot in self.shared.arrivals(self.index) {
            let token = self.slots.admit(slot);
            self.drive(token);
        }
        if self.shared.control.is_draining() && !self.draining {
            self.drain();
        }
    }

    /// Looks at the clock once more, from which the next wait counts, and so knows whether it has stalled.
    fn end_batch(&mut self) {
        let begun = std::mem::replace(&mut self.desk.now, self.shared.clock.now());
        let stall_ms = stall_ms(begun, self.desk.now);
        if stall_ms > 0 {
            self.shared.seat(self.index).add_stall(stall_ms);
        }
    }

    /// Gives connections that used up their turn another one, as many as do not keep new requests waiting.
    fn go_on(&mut self) {
        for _ in 0..self.queue.len().min(TURNS_MAX) {
            let Some(token) = self.queue.pop_front() else { return };
            if let Some(slot) = self.slots.find(token) {
                slot.queued = false;
                self.drive(token);
            }
        }
    }

    fn handle_time(&mut self) {
        for token in self.slots.expired(self.desk.now) {
            self.handle_deadline(token);
        }
        self.accept_again_if_due();
        self.show_load();
        self.desk.flush_if_due();
    }

    /// Lets others know how many connections there are.
    fn show_load(&mut self) {
        let seat = self.shared.seat(self.index);
        if self.shown != self.slots.count() {
            self.shown = self.slots.count();
            seat.show(self.shown);
        }
        if self.shown_postures != self.slots.postures() {
            self.shown_postures = self.slots.postures();
            seat.show_postures(self.shown_postures);
        }
    }
}

// Driving connections.
impl<C: Carrier> Worker<'_, C> {
    /// Lets a connection go on as far as it can, within a turn.
    fn drive(&mut self, token: Token) {
        self.lend(token);
        let interest = self.turn(token);
        self.reclaim(token);
        let slot = self.slots.get(token);
        let finished = self.draining && slot.connection.is_idle() && !slot.readable;
        if interest == Interest::Close || finished || !self.register(token) {
            self.slots.remove(token);
            return;
        }
        let slot = self.slots.get(token);
        let now = self.desk.now;
        let patience = slot.portion.as_mut().map(|held| *held.patience.get_or_insert(now.after_ms(PATIENCE_MS)));
        let timeout = slot.connection.poll_timeout(&self.shared.limits);
        let (deadline, posture) = (timeout.into_iter().chain(patience).min(), slot.stand(interest));
        self.slots.set_deadline(token, deadline);
        self.slots.pose(token, posture);
    }

    /// Gives the connection a workspace, if it has none.
    fn lend(&mut self, token: Token) {
        let slot = self.slots.get(token);
        if !slot.connection.is_lent() {
            let mut workspace = self.workspaces.pop().unwrap_or_else(|| self.desk.workspace());
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
            slot.registered = self.poll.add_connection(slot.socket.as_fd(), token).is_ok();
        }
        slot.registered
    }

    fn turn(&mut self, token: Token) -> Interest {
        let mut bytes_left = TURN_BYTES;
        let mut receives_left = TURN_RECEIVES;
        loop {
            self.carry_needs(token);
            let sent = self.transmit(token);
            bytes_left = bytes_left.saturating_sub(sent);
            let slot = self.slots.get(token);
            let interest = slot.connection.interest();
            if interest == Interest::Linger {
                slot.end_sending();
            }
            let can_go_on = match interest {
                Interest::Close => false,
                Interest::Done => sent > 0,
                Interest::Send => slot.writable,
                Interest::Receive | Interest::Linger => slot.readable || sent > 0,
            };
            if !can_go_on {
                return interest;
            }
            if bytes_left == 0 || receives_left == 0 {
                self.queue_up(token);
                return interest;
            }
            let receives = matches!(interest, Interest::Receive | Interest::Linger);
            if receives && slot.readable && sent == 0 {
                receives_left -= 1;
                slot.receive(self.desk.now);
            }
        }
    }

    fn queue_up(&mut self, token: Token) {
        let slot = self.slots.get(token);
        if !slot.queued {
            slot.queued = true;
            self.queue.push_back(token);
        }
    }

    /// Sends what there is to send, as far as the socket takes it. Returns how many bytes of a turn that was.
    fn transmit(&mut self, token: Token) -> u64 {
        let now = self.desk.now;
        let mut used = 0;
        loop {
            let slot = self.slots.get(token);
            if !slot.writable || used >= TURN_BYTES {
                return used;
            }
            let Some(mut transmit) = slot.connection.poll_transmit() else { return used };
            let weight = within_turn(&mut transmit, used);
            let ends_portion = take_from(slot.portion.as_deref(), &mut transmit);
            let sent = self.desk.sender.send(slot.socket.as_fd(), &transmit);
            if ends_portion && matches!(sent, Sent::All(_)) {
                slot.portion = None;
            }
            match sent {
                Sent::Part(0) => slot.writable = false,
                Sent::All(bytes) | Sent::Part(bytes) => {
                    used += bytes * weight;
                    slot.connection.handle_sent(bytes, now);
                    self.desk.handle_sent(bytes);
                }
                Sent::Changed | Sent::Broken => slot.connection.handle_broken(),
            }
            self.report(token);
        }
    }

    /// Logs what has been answered.
    fn report(&mut self, token: Token) {
        let slot = self.slots.get(token);
        self.desk.report(&mut slot.connection, slot.client);
    }

    fn handle_deadline(&mut self, token: Token) {
        let now = self.desk.now;
        let limits = &self.shared.limits;
        let Some(slot) = self.slots.find(token) else { return };
        let is_over = |held: &Portion| held.patience.is_some_and(|until| until <= now);
        if !slot.writable && slot.portion.as_deref().is_some_and(is_over) {
            slot.connection.withdraw_ready();
            slot.portion = None;
        }
        // It may have been moved since it was looked at last.
        match slot.connection.poll_timeout(limits) {
            Some(deadline) if deadline > now => self.slots.set_deadline(token, Some(deadline)),
            Some(_) => {
                self.lend(token);
                self.slots.get(token).connection.handle_timeout(now);
                self.reclaim(token);
                self.drive(token);
            }
            None => {}
        }
    }

    fn drain(&mut self) {
        self.draining = true;
        self.unlisten();
        self.workspaces.iter_mut().for_each(|workspace| workspace.drain());
        for token in self.slots.tokens() {
            // A request may have arrived that nobody has looked at.
            self.slots.get(token).readable = true;
            self.drive(token);
        }
    }
}

// Carrying needs out.
impl<C: Carrier> Worker<'_, C> {
    fn carry_needs(&mut self, token: Token) {
        let now = self.desk.now;
        let slot = self.slots.get(token);
        if slot.writable {
            slot.connection.resume_content();
        }
        loop {
            let slot = self.slots.get(token);
            let Some((exchange, need)) = slot.connection.poll_need() else { return };
            let ticket = Ticket { token, exchange };
            match need {
                Need::Translate(translate) => match self.desk.look_up(&translate) {
                    Found::Fresh(entry) => {
                        slot.connection.handle_done(exchange, Done::Translated(&entry.resource), now);
                    }
                    Found::Aging(entry, target) => {
                        slot.connection.handle_done(exchange, Done::Translated(&entry.resource), now);
                        self.carrier.refresh(&mut self.desk, target);
                    }
                    Found::Missing(target) => self.translate(ticket, target),
                },
                Need::Read(Read { representation, offset, length }) => {
                    let stretch = Stretch { representation: representation.clone(), offset, length };
                    self.make_ready(ticket, stretch);
                }
            }
            self.report(token);
        }
    }

    fn translate(&mut self, ticket: Ticket, target: Target) {
        let entry = self.carrier.translate(&mut self.desk, ticket, target);
        let connection = &mut self.slots.get(ticket.token).connection;
        match entry {
            Some(entry) => connection.handle_done(ticket.exchange, Done::Translated(&entry.resource), self.desk.now),
            None => connection.defer(ticket.exchange),
        }
    }

    fn make_ready(&mut self, ticket: Ticket, stretch: Stretch) {
        let outcome = self.carrier.make_ready(self.shared, ticket, stretch);
        let slot = self.slots.get(ticket.token);
        let done = match outcome {
            Some(Outcome::Ready(_, bytes)) => Done::Ready(bytes),
            Some(Outcome::Held(_, portion)) => slot.hold(portion),
            Some(_) => Done::Failed,
            None => return,
        };
        slot.connection.handle_done(ticket.exchange, done, self.desk.now);
    }

    /// Something that was deferred has been carried out.
    fn handle_outcome(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Translated(ticket, entry) => self.resume(ticket, Done::Translated(&entry.resource)),
            Outcome::Ready(ticket, bytes) => self.resume(ticket, Done::Ready(bytes)),
            Outcome::Held(ticket, portion) => {
                let Some(slot) = self.slots.find(ticket.token) else { return };
                let done = slot.hold(portion);
                self.resume(ticket, done);
            }
            Outcome::Failed(ticket) => self.resume(ticket, Done::Failed),
        }
    }

    /// The connection may have gone meanwhile; then what was done for it is of use to the cache only.
    fn resume(&mut self, ticket: Ticket, done: Done<'_>) {
        let now = self.desk.now;
        if self.slots.find(ticket.token).is_none() {
            return;
        }
        self.lend(ticket.token);
        self.slots.get(ticket.token).connection.handle_done(ticket.exchange, done, now);
        self.reclaim(ticket.token);
        self.drive(ticket.token);
    }
}

/// Has what `portion` holds of a stretch of a file sent from there. True if that is the end of it.
fn take_from<'t>(portion: Option<&'t Portion>, transmit: &mut Transmit<'t>) -> bool {
    let (Some(portion), Some(Segment::File { file, offset, length, .. })) = (portion, transmit.segment) else {
        return false;
    };
    let Some(part) = portion.part(file, offset, length) else { return false };
    transmit.segment = Some(Segment::Shared(part));
    portion.ends_at(offset + length)
}
