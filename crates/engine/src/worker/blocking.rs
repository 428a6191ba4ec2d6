//! Driving one connection with blocking calls: what the engines share that give each connection being served a thread
//! or a process of its own.
//!
//! Owns: waiting for one socket with `poll(2)`, receiving, carrying needs out in line, sending. Guarantees: only this
//! thread waits for a slow peer or a slow disk; draining and stopping interrupt every wait. Does not decide which
//! thread serves which connection, nor how long an idle one keeps its thread: that is the whole difference between the
//! engines that use it.
//!
//! # Use
//! A [`Driver`] is a thread's own and outlives its connections. `serve` one until it is over or idle; an idle one may
//! be waited for with `await_request`, or parked elsewhere, being plain data.

mod accept;

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use lamna_io::wait::{ListenerPoll, SocketSet, Token};
use lamna_proto::conn::Interest;
use lamna_proto::time::Instant;
use lamna_proto::workspace::Workspace;
use lamna_site::cache::Entry;
use lamna_sys::metrics::step_timer;
use lamna_sys::metrics::step_timer::Step;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::worker::acceptor::{Acceptor, Share};
use crate::worker::connection_state::ConnectionState;
use crate::worker::context::{FileRange, TranslationTarget, WorkerContext, find_once};
use crate::worker::drive::{self, OnSockets, Turn};
use crate::worker::executor::{Completed, Executor, PendingId};
use crate::worker::liveness::{self, Arranged};
use crate::worker::shared::Shared;
use crate::worker::socket_waits::SocketWaits;

/// Serves connections one at a time.
pub struct Driver<'a> {
    shared: &'a Shared,
    context: WorkerContext<'a>,
    workspace: Option<Box<Workspace>>,
    draining: bool,
    /// The listener that is asked first.
    listener: usize,
    /// The poll set of the listeners, once a wait for them was necessary.
    listener_poll: Option<ListenerPoll>,
    acceptor: Acceptor,
    /// Once draining: until when connections are taken that have been waiting.
    last_call: Option<Instant>,
    /// Where sockets of programs are waited for, once that was necessary.
    sockets: Option<Box<Sockets>>,
}

/// The sockets of the programs that answer the connection being served.
struct Sockets {
    set: SocketSet,
    waits: SocketWaits,
}

/// The readiness that ended a wait.
#[derive(Clone, Copy)]
struct Ready {
    /// Readiness of the connection's socket.
    connection: PollFlags,
    /// Whether a program's socket is ready.
    sockets: bool,
}

/// How a connection was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// Between requests, with nothing more to receive for the moment.
    Idle,
    /// To be closed.
    Over,
    /// As it was, to be handed over to the successor of this engine.
    Moving,
}

/// The result of waiting for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// Bytes may be there: serve it.
    Request,
    /// Nothing came in the time given.
    Nothing,
    /// To be closed: it has been idle too long, or the server stops.
    Over,
}

/// The only connection of a driver needs no name.
const ONLY_ONE: Token = Token { index: 0, generation: 0 };
/// How long a connection that is refused may take to send what there is to refuse.
const REFUSAL_PATIENCE_MS: u32 = 20;

/// Text for the log when serving a connection has panicked: the consequence for the connection.
pub const CONNECTION_ENDS: &str = "The connection that was being served ends; the others go on.";

impl<'a> Driver<'a> {
    /// For a thread that begins.
    pub fn new(shared: &'a Shared) -> Driver<'a> {
        let mut context = WorkerContext::new(shared);
        context.share_connections();
        let workspace = Some(context.workspace());
        Driver {
            shared,
            context,
            workspace,
            draining: false,
            listener: 0,
            acceptor: Acceptor::new(Share::Any),
            last_call: None,
            sockets: None,
            listener_poll: None,
        }
    }

    /// One that answers every request with 503 and Retry-After, as the last of its connection: for [`Driver::refuse`].
    pub fn refusing(shared: &'a Shared) -> Driver<'a> {
        let mut driver = Driver::new(shared);
        driver.context.refuse_all();
        driver.begin_draining();
        driver
    }

    /// Serves `connection` until it is over or idle, waiting for its peer as long as the limits allow.
    pub fn serve(&mut self, connection: &mut ConnectionState) -> Left {
        self.poll_control();
        self.forget_sockets(connection);
        loop {
            match self.advance(connection) {
                Ok(left) => return left,
                Err(interest) => {
                    self.await_progress(connection, interest, None);
                }
            }
        }
    }

    /// Serves `connection` as long as its peer keeps no thread waiting for more than `patience_ms`, which is asked each
    /// time.
    ///
    /// # Errors
    /// Its peer does: for what it is to be waited for.
    pub fn serve_prompt(
        &mut self,
        connection: &mut ConnectionState,
        patience_ms: impl Fn() -> u32,
    ) -> Result<Left, Interest> {
        self.poll_control();
        self.forget_sockets(connection);
        loop {
            match self.advance(connection) {
                Ok(left) => return Ok(left),
                // Who waits for an application keeps its thread: nobody else knows the application's socket.
                Err(interest) if interest.done => {
                    self.await_progress(connection, interest, None);
                }
                Err(interest) if self.await_progress(connection, interest, Some(patience_ms())) => {}
                Err(interest) => return Err(interest),
            }
        }
    }

    /// Serves `connection` until its peer would have to be waited for.
    ///
    /// # Errors
    /// That is so: for what.
    fn advance(&mut self, connection: &mut ConnectionState) -> Result<Left, Interest> {
        loop {
            if self.shared.control.is_stopping() {
                return Ok(Left::Over);
            }
            if self.shared.control.is_handing_over() {
                return Ok(Left::Moving);
            }
            let interest = self.turn(connection);
            self.context.flush_if_due();
            match interest {
                None => self.poll_control(),
                // Everything is done in this thread: nothing is waited for that is done elsewhere, but sockets and
                // moments.
                Some(interest) if interest.is_over() || interest == Interest::DONE && !self.can_wake(connection) => {
                    return Ok(Left::Over);
                }
                Some(interest) if connection.waits_for_request_with(interest) => match self.draining {
                    false => return Ok(Left::Idle),
                    true if connection.may_end(false, self.context.now) => return Ok(Left::Over),
                    // It is about to ask.
                    true => return Err(interest),
                },
                Some(interest) => return Err(interest),
            }
        }
    }

    /// Waits until an idle connection has something to receive: at most `patience_ms`, or as long as it may be idle.
    /// When draining or handing over begins it is said to have a request, so that one that has arrived unseen is found.
    pub fn await_request(&mut self, connection: &mut ConnectionState, patience_ms: Option<u32>) -> Awaited {
        let deadline = connection.poll_timeout(&self.shared.limits);
        let until = patience_ms.map(|ms| self.context.now.after_ms(ms));
        let drained_before = self.draining;
        loop {
            let ready =
                self.wait(Some((connection.transport.as_fd(), PollFlags::IN)), earliest(deadline, until)).connection;
            if self.shared.control.is_stopping() {
                return Awaited::Over;
            }
            if !ready.is_empty() || self.draining != drained_before || self.shared.control.is_handing_over() {
                connection.readable = true;
                return Awaited::Request;
            }
            if deadline.is_some_and(|at| at <= self.context.now) {
                return Awaited::Over;
            }
            if until.is_some_and(|at| at <= self.context.now) {
                return Awaited::Nothing;
            }
        }
    }

    /// Answers with 503 what can be received from `connection` without waiting, and leaves it idle if that was nothing.
    pub fn refuse(&mut self, connection: &mut ConnectionState) -> Left {
        self.poll_control();
        let interest = self.turn(connection);
        self.context.flush_if_due();
        match interest {
            Some(interest) if connection.waits_for_request_with(interest) => Left::Idle,
            _ => Left::Over,
        }
    }

    /// Refuses a connection for which there is no thread or process. Waits a moment for a request to refuse: closing
    /// without an answer would be less polite. Meanwhile others wait, but there is no thread for them either.
    pub fn reject(&mut self, connection: &mut ConnectionState) {
        if self.refuse(connection) == Left::Idle
            && self.await_request(connection, Some(REFUSAL_PATIENCE_MS)) == Awaited::Request
        {
            self.refuse(connection);
        }
    }

    /// Ends a connection, with whatever is under way.
    pub fn give_up(&mut self, mut connection: ConnectionState) {
        connection.http.lend(self.workspace.take().expect(AT_HOME));
        connection.handle_broken();
        self.context.report(&mut connection.http, &connection.transport, connection.peer);
        self.workspace = Some(connection.reclaim());
        connection.close();
    }

    /// The time of the last look at the clock.
    pub fn now(&self) -> Instant {
        self.context.now
    }

    /// A connection was taken for another thread.
    pub fn count_connection(&mut self) {
        self.context.count_connection();
    }

    /// Hands log lines and counters over, because the time of its next use is unknown.
    pub fn rest(&mut self) {
        self.context.flush();
    }

    /// Hands log lines and counters over if it is time to, and says when it will be.
    pub fn flush_if_due(&mut self) -> Option<Instant> {
        self.poll_control();
        self.context.flush_if_due();
        self.context.flush_due()
    }
}

// Waiting.
impl<'a> Driver<'a> {
    /// Waits until a connection that is not idle can go on, or its time is over; at most `patience_ms`. False if that
    /// was too short.
    fn await_progress(
        &mut self,
        connection: &mut ConnectionState,
        interest: Interest,
        patience_ms: Option<u32>,
    ) -> bool {
        let deadline = connection.deadline(&self.shared.limits, self.context.now);
        let (tells_input, tells_room, is_room_first, is_queued) = (true, true, false, false);
        liveness::assert_woken(
            connection,
            interest,
            Arranged { is_queued, tells_input, tells_room, is_room_first, deadline },
        );
        let mut wanted = PollFlags::empty();
        wanted.set(PollFlags::IN, interest.receive);
        wanted.set(PollFlags::OUT, interest.send);
        let is_late =
            |connection: &ConnectionState, limits, now| connection.deadline(limits, now).is_some_and(|at| at <= now);
        let limits = &self.shared.limits;
        if patience_ms == Some(0) && !is_late(connection, limits, self.context.now) {
            return false;
        }
        let until = patience_ms.map(|ms| self.context.now.after_ms(ms));
        let Ready { connection: ready, sockets } =
            self.wait(Some((connection.transport.as_fd(), wanted)), earliest(deadline, until));
        // Each of what is ready counts: a program whose socket is always ready does not keep its own connection from
        // being noticed.
        if sockets {
            self.handle_sockets(connection);
        }
        if wanted.is_empty() && !ready.is_empty() {
            // The peer is gone, and there is nothing to try that would find it.
            connection.http.lend(self.workspace.take().expect(AT_HOME));
            connection.handle_broken();
            self.workspace = Some(connection.reclaim());
            return true;
        }
        // An error or a hang-up is found by trying.
        let has_failed = !ready.is_empty() && !ready.intersects(wanted);
        connection.readable |= interest.receive && (has_failed || ready.contains(PollFlags::IN));
        connection.writable |= interest.send && (has_failed || ready.contains(PollFlags::OUT));
        if ready.is_empty() && is_late(connection, limits, self.context.now) {
            connection.http.lend(self.workspace.take().expect(AT_HOME));
            connection.handle_timeout(&self.shared.limits, self.context.now);
            self.workspace = Some(connection.reclaim());
            return true;
        }
        // Orders of the main thread, and whatever else ended the wait, are looked at as well.
        sockets || !ready.is_empty() || until.is_none_or(|at| at > self.context.now)
    }

    /// Waits for a socket, for sockets of programs, for the main thread, until a moment, or until log lines are to be
    /// handed over.
    fn wait(&mut self, socket: Option<(BorrowedFd<'_>, PollFlags)>, until: Option<Instant>) -> Ready {
        let control = PollFd::new(self.shared.control.interrupt(self.draining).descriptor(), PollFlags::IN);
        let timeout = self.timeout(until);
        let waiting = step_timer::step(Step::Wait);
        // An interrupted call, or one that had no memory, is like one that nothing happened in.
        let sockets = self.sockets.as_deref().filter(|sockets| socket.is_some() && sockets.waits.is_waiting());
        let ready = match (socket, sockets) {
            (Some((socket, wanted)), Some(sockets)) => {
                let connection = PollFd::from_borrowed_fd(socket, wanted);
                let mut waited = [connection, PollFd::new(&sockets.set, PollFlags::IN), control];
                poll(&mut waited, timeout.as_ref()).map(|_| [waited[0].revents(), waited[1].revents()])
            }
            (Some((socket, wanted)), None) => {
                let mut waited = [PollFd::from_borrowed_fd(socket, wanted), control];
                poll(&mut waited, timeout.as_ref()).map(|_| [waited[0].revents(), PollFlags::empty()])
            }
            (None, _) => poll(&mut [control], timeout.as_ref()).map(|_| [PollFlags::empty(); 2]),
        };
        drop(waiting);
        self.poll_control();
        self.context.flush_if_due();
        let [connection, sockets] = ready.unwrap_or([PollFlags::empty(); 2]);
        Ready { connection, sockets: !sockets.is_empty() }
    }

    /// Another connection is served: what the one before waited for is nothing to it, and what its programs wait for
    /// was waited for elsewhere, if at all.
    fn forget_sockets(&mut self, connection: &mut ConnectionState) {
        if let Some(sockets) = &mut self.sockets {
            sockets.waits.clear();
        }
        if !connection.is_idle() {
            connection.http.recall_needs();
        }
    }

    /// Whether something will wake a connection that waits neither for bytes of its peer nor for room.
    fn can_wake(&self, connection: &ConnectionState) -> bool {
        let waits_for_socket = self.sockets.as_ref().is_some_and(|sockets| sockets.waits.is_waiting());
        waits_for_socket || connection.poll_timeout(&self.shared.limits).is_some()
    }

    /// Waits for what the programs of a connection wait for. A thread that has none of those holds no descriptor for
    /// them.
    ///
    /// # Errors
    /// No descriptors or memory: a program would wait for ever.
    fn begin_sockets(&mut self, connection: &mut ConnectionState) -> Result<(), Errno> {
        while let Some((exchange, wait)) = connection.http.poll_socket() {
            let sockets = match &mut self.sockets {
                Some(sockets) => sockets,
                None => {
                    self.sockets.insert(Box::new(Sockets { set: SocketSet::new()?, waits: SocketWaits::default() }))
                }
            };
            sockets.waits.add(PendingId { token: ONLY_ONE, exchange }, wait, sockets.set.as_fd())?;
        }
        Ok(())
    }

    /// Tells the connection which sockets of its programs are ready.
    fn handle_sockets(&mut self, connection: &mut ConnectionState) {
        let Some(sockets) = self.sockets.as_deref_mut() else { return };
        let Sockets { set, waits } = sockets;
        set.take(|token| {
            if let Some(pending) = waits.end(token.index) {
                connection.http.handle_socket(pending.exchange);
            }
        });
    }

    fn timeout(&self, until: Option<Instant>) -> Option<Timespec> {
        let ms = self.timeout_ms(until)?;
        Some(Timespec { tv_sec: (ms / 1000) as i64, tv_nsec: (ms % 1000 * 1_000_000) as i64 })
    }

    fn timeout_ms(&self, until: Option<Instant>) -> Option<u64> {
        let due = earliest(until, self.context.flush_due())?;
        // One more, because milliseconds are rounded: waking too early would only mean waiting again.
        Some(due.since(self.context.now) + 1)
    }

    /// Reads the clocks, and looks at what the main thread wants.
    fn poll_control(&mut self) {
        self.context.update_time(self.workspace.as_mut().expect(AT_HOME));
        if !self.draining && self.shared.control.is_draining() {
            self.begin_draining();
        }
    }

    fn begin_draining(&mut self) {
        self.draining = true;
        self.workspace.as_mut().expect(AT_HOME).drain();
    }
}

const AT_HOME: &str = "the workspace is lent for a turn only";

fn earliest(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    one.into_iter().chain(other).min()
}

// Driving.
impl Driver<'_> {
    /// Lets a connection go on until it would have to wait: then for what. None if it could go on.
    fn turn(&mut self, connection: &mut ConnectionState) -> Option<Interest> {
        connection.http.lend(self.workspace.take().expect(AT_HOME));
        let turn = drive::turn(connection, ONLY_ONE, &mut self.context, &mut InThread);
        let interest = turn.interest();
        let waits = !interest.done || self.begin_sockets(connection).is_ok();
        if !waits {
            connection.handle_broken();
        }
        self.workspace = Some(connection.reclaim());
        match turn {
            Turn::Waits(_) if !waits => Some(Interest::CLOSE),
            Turn::Waits(interest) => Some(interest),
            Turn::GoesOn(_) => None,
        }
    }
}

/// Carries everything out in the thread that serves the connection. Of all threads that look for one target, one looks.
struct InThread;

impl OnSockets for InThread {}

impl Executor for InThread {
    fn translate(
        &mut self,
        context: &mut WorkerContext<'_>,
        _: PendingId,
        target: TranslationTarget,
    ) -> Option<Arc<Entry>> {
        let entry = find_once(context.shared, &target, context.now);
        context.keep(&target, &entry);
        Some(entry)
    }

    fn refresh(&mut self, context: &mut WorkerContext<'_>, target: TranslationTarget) {
        if !context.is_compared(&target) {
            let entry = find_once(context.shared, &target, context.now);
            context.keep(&target, &entry);
        }
    }

    fn make_ready(&mut self, shared: &Shared, pending: PendingId, range: FileRange) -> Option<Completed> {
        Some(Completed::of_range(shared, pending, &range))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::testing;
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixStream;

    const REQUEST: &[u8] = b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n";

    fn pair(driver: &Driver<'_>) -> (UnixStream, ConnectionState) {
        let (peer, ours) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        (peer, ConnectionState::new(ours.into(), None, driver.now()))
    }

    fn received(peer: &mut UnixStream) -> String {
        let mut buffer = [0; 8192];
        let bytes = peer.read(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..bytes]).into_owned()
    }

    #[test]
    fn a_connection_is_left_idle_between_requests_and_over_at_its_end() {
        let (shared, _root) = testing::shared(1, 1);
        let mut driver = Driver::new(&shared);
        let (mut peer, mut connection) = pair(&driver);
        peer.write_all(REQUEST).unwrap();
        assert_eq!(driver.serve(&mut connection), Left::Idle);
        assert!(received(&mut peer).ends_with("\r\n\r\nhello"));
        assert_eq!(driver.await_request(&mut connection, Some(0)), Awaited::Nothing);
        drop(peer);
        assert_eq!(driver.await_request(&mut connection, None), Awaited::Request);
        assert_eq!(driver.serve(&mut connection), Left::Over);
    }

    #[test]
    fn a_request_that_arrives_in_pieces_is_waited_for() {
        let (shared, _root) = testing::shared(1, 1);
        let mut driver = Driver::new(&shared);
        let (mut peer, mut connection) = pair(&driver);
        peer.write_all(&REQUEST[..9]).unwrap();
        std::thread::scope(|scope| {
            let served = scope.spawn(|| driver.serve(&mut connection));
            peer.write_all(&REQUEST[9..]).unwrap();
            assert!(received(&mut peer).starts_with("HTTP/1.1 200 "));
            assert_eq!(served.join().unwrap(), Left::Idle);
        });
    }

    #[test]
    fn draining_interrupts_the_wait_for_a_request_and_answers_one_that_came() {
        let (shared, _root) = testing::shared(1, 1);
        let mut driver = Driver::new(&shared);
        let (mut peer, mut connection) = pair(&driver);
        shared.control.drain();
        peer.write_all(REQUEST).unwrap();
        assert_eq!(driver.await_request(&mut connection, None), Awaited::Request);
        assert_eq!(driver.serve(&mut connection), Left::Over);
        assert!(received(&mut peer).contains("\r\nConnection: close\r\n"));
        let (_idle_peer, mut idle) = pair(&driver);
        assert_eq!(driver.serve(&mut idle), Left::Over);
    }

    #[test]
    fn stopping_interrupts_every_wait() {
        let (shared, _root) = testing::shared(1, 1);
        let mut driver = Driver::new(&shared);
        let (mut peer, mut connection) = pair(&driver);
        peer.write_all(&REQUEST[..9]).unwrap();
        std::thread::scope(|scope| {
            let served = scope.spawn(|| driver.serve(&mut connection));
            shared.control.stop();
            assert_eq!(served.join().unwrap(), Left::Over);
        });
        let (_idle_peer, mut idle) = pair(&driver);
        assert_eq!(driver.await_request(&mut idle, None), Awaited::Over);
    }

    #[test]
    fn a_refused_request_is_told_to_come_again_and_silence_is_left_idle() {
        let (shared, _root) = testing::shared(1, 1);
        let mut refuser = Driver::refusing(&shared);
        let (mut peer, mut connection) = pair(&refuser);
        assert_eq!(refuser.refuse(&mut connection), Left::Idle);
        peer.write_all(REQUEST).unwrap();
        connection.readable = true;
        assert_eq!(refuser.refuse(&mut connection), Left::Over);
        let answer = received(&mut peer);
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
        assert!(answer.contains("\r\nRetry-After: 1\r\n") && answer.contains("\r\nConnection: close\r\n"), "{answer}");
    }
}
