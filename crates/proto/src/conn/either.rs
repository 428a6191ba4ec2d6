//! A connection of whichever version of HTTP its peer speaks.
//!
//! Owns: which version that is. Guarantees: a connection begins as one of HTTP/1.x, and becomes one of HTTP/2 if its
//! first bytes are the preface and the workspace allows that (RFC 9113 3.3), or if it was made as one because TLS said
//! so. Does not change after that.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::{Answered, Interest, http1, http2};
use crate::encoding::{Encoded, Malformed};
use crate::exchange::early_hints::LinkField;
use crate::exchange::program::{Program, SocketWait, Step, StepResult};
use crate::exchange::{ContentBuffer, Done, ExchangeId, Need, RequestedResource};
use crate::limits::Limits;
use crate::message::Version;
use crate::time::Instant;
use crate::transmit::Transmit;
use crate::workspace::{PagesByHost, Workspace};

/// One connection. The contract is that of [`conn`](crate::conn).
#[derive(Debug)]
pub enum Connection {
    /// HTTP/1.x, or nothing has been received yet.
    Http1(http1::Connection),
    /// HTTP/2. Apart, because it is larger and most connections of clear text are not.
    Http2(Box<http2::Connection>),
}

/// Calls the method of whichever it is.
macro_rules! either {
    ($connection:expr, $one:ident => $call:expr) => {
        match $connection {
            Connection::Http1($one) => $call,
            Connection::Http2($one) => $call,
        }
    };
}

// Being made, lent, parked and looked at.
impl Connection {
    /// A connection on which nothing has been received, established at `now`.
    pub fn new(now: Instant) -> Connection {
        Connection::Http1(http1::Connection::new(now))
    }

    /// HTTP/2 in clear text is not spoken, whatever the workspaces say that it is lent.
    pub fn keep_version(&mut self) {
        if let Connection::Http1(one) = self {
            one.keep_version();
        }
    }

    /// The peer speaks HTTP/2: ALPN has said so. To be told before anything is received; later it changes nothing.
    ///
    /// # Panics
    /// If it has no workspace.
    pub fn expect_http2(&mut self) {
        match self {
            Connection::Http1(one) if !one.has_begun() => self.become_http2(),
            _ => {}
        }
    }

    fn become_http2(&mut self) {
        let Connection::Http1(one) = self else { return };
        let (workspace, received) = one.give_up();
        let mut connection = http2::Connection::new(received);
        connection.lend(workspace);
        *self = Connection::Http2(Box::new(connection));
    }

    /// Gives the connection what it needs to be driven.
    ///
    /// # Panics
    /// If it has a workspace.
    #[inline]
    pub fn lend(&mut self, workspace: Box<Workspace>) {
        either!(self, one => one.lend(workspace));
    }

    /// Whether it has a workspace.
    #[inline]
    pub fn is_lent(&self) -> bool {
        either!(self, one => one.is_lent())
    }

    /// Parks the connection: takes the workspace back, and keeps what is the connection's own. Reports that have not
    /// been taken may be lost.
    ///
    /// # Panics
    /// If it has no workspace, or a need was handed out that was neither answered nor deferred.
    #[inline]
    pub fn reclaim(&mut self) -> Box<Workspace> {
        either!(self, one => one.reclaim())
    }

    /// The events to wait for. Meaningful when `poll_need` and `poll_transmit` have nothing more.
    #[inline]
    pub fn interest(&self) -> Interest {
        either!(self, one => one.interest())
    }

    /// Why it could go on although nothing happens, which is a defect: nothing would ever wake it. Said of a connection
    /// that is left: it was polled until it gave nothing more, and the sockets of its programs have been asked for.
    /// Whatever has been received and not been read, has been given or made and not been written, has room, or has
    /// ended and is not told is part of this. Drivers ask in builds with debug assertions.
    pub fn standstill(&self) -> Option<&'static str> {
        either!(self, one => one.standstill())
    }

    /// Whether the connection waits between requests, so that nothing is lost by closing it.
    #[inline]
    pub fn is_idle(&self) -> bool {
        either!(self, one => one.is_idle())
    }

    /// Whether no request of it is under way: at most a part of a head has come.
    pub fn is_asking(&self) -> bool {
        either!(self, one => one.is_asking())
    }

    /// Whether it drains and is idle, and its peer may ask once more: the last answer did not say that it was the last.
    /// With HTTP/2 all are told.
    pub fn is_promised(&self) -> bool {
        match self {
            Connection::Http1(one) => one.is_promised(),
            Connection::Http2(_) => false,
        }
    }

    /// The bytes for the peer if the connection is closed while it is idle; nothing where the end of the connection
    /// says it.
    pub fn farewell(&self) -> Option<impl AsRef<[u8]> + use<>> {
        match self {
            Connection::Http1(_) => None,
            Connection::Http2(one) => one.farewell(),
        }
    }

    /// Bytes of memory that the connection holds beyond itself while it is parked.
    pub fn memory_bytes(&self) -> usize {
        match self {
            Connection::Http1(one) => one.memory_bytes(),
            Connection::Http2(one) => size_of::<http2::Connection>() + one.memory_bytes(),
        }
    }

    /// Descriptors that its answers hold: files, and sockets of programs.
    pub fn descriptors(&self) -> usize {
        either!(self, one => one.descriptors())
    }

    /// Bytes of content in memory that its answers hold which wait behind the one that is being sent.
    #[inline]
    pub fn queued_content_bytes(&self) -> u64 {
        either!(self, one => one.queued_content_bytes())
    }

    /// Until when the current wait may last; none if it depends on us alone. Changes with every `handle_*`.
    #[inline]
    pub fn poll_timeout(&self, limits: &Limits) -> Option<Instant> {
        either!(self, one => one.poll_timeout(limits))
    }

    /// Whether it can go on in another process: neither a program can nor the state of HTTP/2.
    pub fn is_transferable(&self) -> bool {
        match self {
            Connection::Http1(one) => one.is_transferable(),
            Connection::Http2(_) => false,
        }
    }

    /// Whether a driver carries out a step of a program: until `handle_step_result` the connection has to stay where it
    /// is.
    #[inline]
    pub fn is_running(&self) -> bool {
        either!(self, one => one.is_running())
    }

    /// The version that its peer is known to speak, none before its first bytes.
    pub fn version(&self) -> Option<Version> {
        match self {
            Connection::Http1(one) => one.has_begun().then_some(Version::Http11),
            Connection::Http2(_) => Some(Version::Http2),
        }
    }

    /// Checks that its parts agree, in a build with assertions; after whatever it is told. The work is bounded by what
    /// one connection may hold.
    ///
    /// # Panics
    /// If they do not.
    #[inline]
    fn check_invariants(&self) {
        if cfg!(debug_assertions) {
            either!(self, one => one.check_invariants());
        }
    }

    /// Becomes a connection of HTTP/2 if it begins like one. False if more bytes are needed to know that.
    fn choose_version(&mut self) -> bool {
        let Connection::Http1(one) = self else { return true };
        match one.first_bytes().and_then(http2::preface_in) {
            None => true,
            Some(false) => false,
            Some(true) => {
                self.become_http2();
                true
            }
        }
    }
}

// What the world tells.
impl Connection {
    /// Room for received bytes; empty if the input is full of what has to wait.
    #[inline]
    pub fn receive_space(&mut self) -> &mut [u8] {
        either!(self, one => one.receive_space())
    }

    /// `bytes` bytes were written to the start of `receive_space`.
    #[inline]
    pub fn handle_received(&mut self, bytes: usize, now: Instant) {
        either!(self, one => one.handle_received(bytes, now));
        self.check_invariants();
    }

    /// The peer has closed its side: it will read answers, and send nothing more (RFC 9112 8).
    #[inline]
    pub fn handle_end(&mut self) {
        either!(self, one => one.handle_end());
        self.check_invariants();
    }

    /// The wait that `poll_timeout` named is over. A request half received is answered with 408 (RFC 9110 15.5.9).
    /// Ignored if no wait was named: a timer may have been overtaken.
    #[inline]
    pub fn handle_timeout(&mut self, now: Instant) {
        either!(self, one => one.handle_timeout(now));
        self.check_invariants();
    }

    /// The socket has room: content that was let go of because it had none is wanted again.
    #[inline]
    pub fn handle_writable(&mut self) {
        either!(self, one => one.handle_writable());
        self.check_invariants();
    }

    /// The socket took the first `bytes` bytes of the last `poll_transmit`.
    #[inline]
    pub fn handle_sent(&mut self, bytes: u64, now: Instant) {
        either!(self, one => one.handle_sent(bytes, now));
        self.check_invariants();
    }

    /// As `handle_sent`, where the bytes were taken by a buffer before the socket.
    #[inline]
    pub fn handle_taken(&mut self, bytes: u64, now: Instant) {
        either!(self, one => one.handle_taken(bytes, now));
        self.check_invariants();
    }

    /// All bytes that were taken have left.
    #[inline]
    pub fn handle_left(&mut self, now: Instant) {
        either!(self, one => one.handle_left(now));
        self.check_invariants();
    }

    /// Whether answers wait for `handle_left` to be counted.
    #[inline]
    pub fn is_leaving(&self) -> bool {
        either!(self, one => one.is_leaving())
    }

    /// Bytes that are to be sent until an answer has ended. An estimate, for the order among connections.
    pub fn remaining_bytes(&self) -> u64 {
        either!(self, one => one.remaining_bytes())
    }

    /// The peer is gone or has been given up: nothing more can be sent.
    #[inline]
    pub fn handle_broken(&mut self) {
        either!(self, one => one.handle_broken());
        self.check_invariants();
    }

    /// The need of exchange `id` has been met. For a need that was not deferred: before anything else is polled.
    /// Answers to exchanges that are gone are ignored.
    #[inline]
    pub fn handle_done(&mut self, id: ExchangeId, done: Done<'_>, now: Instant) {
        either!(self, one => one.handle_done(id, done, now));
        self.check_invariants();
    }
}

// Programs.
impl Connection {
    /// The request in `Need::Resolve` of exchange `id`, while its result is not known; none if the exchange is gone.
    #[inline]
    pub fn requested_of(&self, id: ExchangeId) -> Option<RequestedResource<'_>> {
        either!(self, one => one.requested_of(id))
    }

    /// The step that `Need::Run` asks for; none if there is nothing in what has arrived but framing. Until
    /// `handle_step_result` the program is the driver's.
    #[inline]
    pub fn step(&mut self, id: ExchangeId, now: Instant) -> Option<Step<'_>> {
        either!(self, one => one.step(id, now))
    }

    /// A socket that a program waits for. Each wait is handed out once; after `recall_needs` those that are not over
    /// are handed out again. A socket that is not waited for any more by the program may still be reported: that is
    /// ignored.
    #[inline]
    pub fn poll_socket(&mut self) -> Option<(ExchangeId, SocketWait<'_>)> {
        either!(self, one => one.poll_socket())
    }

    /// The socket event that the program of exchange `id` waits for has come: its next step can be carried out.
    #[inline]
    pub fn handle_socket(&mut self, id: ExchangeId) {
        either!(self, one => one.handle_socket(id));
        self.check_invariants();
    }

    /// A step of `program`, which answers exchange `id`, has been carried out. If the exchange is gone, so is the
    /// program.
    #[inline]
    pub fn handle_step_result(
        &mut self,
        id: ExchangeId,
        program: Box<dyn Program>,
        step_result: StepResult,
        now: Instant,
    ) {
        either!(self, one => one.handle_step_result(id, program, step_result, now));
        self.check_invariants();
    }
}

// What the application asks.
impl Connection {
    /// Gives the client of exchange `id` hints before its answer (`103 Early Hints`). To be told while the resolution
    /// of the request is asked for and not known; what is answered then leaves behind it, with the same send if it is
    /// known at once. At least one link. False, and nothing is given, where that cannot be: earlier requests of a
    /// connection of HTTP/1.1 are still being answered, the version is HTTP/1.0, or the exchange is gone. Over HTTP/1.1
    /// it is for clients that are known to read such answers (RFC 8297 3).
    pub fn give_early_hints<'l>(&mut self, id: ExchangeId, links: impl Iterator<Item = &'l LinkField>) -> bool {
        either!(self, one => one.give_early_hints(id, links))
    }

    /// `link` goes with the answer to exchange `id`, whose target is being found, if that is a whole resource (200):
    /// what is likely to be wanted after it. In the place of one that was given before.
    #[inline]
    pub fn give_link(&mut self, id: ExchangeId, link: &Arc<LinkField>) {
        either!(self, one => one.give_link(id, link));
    }

    /// The need of exchange `id` will be met later. The request is kept until then.
    #[inline]
    pub fn defer(&mut self, id: ExchangeId) {
        either!(self, one => one.defer(id));
        self.check_invariants();
    }

    /// No further request is taken. What has begun to arrive is finished, and the peer is told that it is the last.
    #[inline]
    pub fn drain(&mut self) {
        either!(self, one => one.drain());
        self.check_invariants();
    }

    /// Needs that were handed out and are not met will be handed out again: the driver that had deferred them has let
    /// go of them. Its late results are ignored.
    ///
    /// # Panics
    /// If the connection is not parked, as with the other methods of those that move.
    #[inline]
    pub fn recall_needs(&mut self) {
        either!(self, one => one.recall_needs());
        self.check_invariants();
    }

    /// `bytes`, of which `handle_sent` has been said, have not been sent: they come before everything else. For drivers
    /// that say it when they hand bytes to the kernel, and take them back.
    #[inline]
    pub fn return_unsent(&mut self, bytes: &[u8]) {
        either!(self, one => one.return_unsent(bytes));
        self.check_invariants();
    }

    /// `bytes` have been received that were not written into `receive_space`: they follow what was. For drivers that
    /// receive ahead.
    #[inline]
    pub fn return_received(&mut self, bytes: &[u8], now: Instant) {
        either!(self, one => one.return_received(bytes, now));
        self.check_invariants();
    }

    /// The connection as bytes and open files; none if it cannot travel.
    ///
    /// # Panics
    /// If it is not parked.
    pub fn encode(&self) -> Option<Encoded> {
        match self {
            Connection::Http1(one) => one.encode(),
            Connection::Http2(_) => None,
        }
    }

    /// The connection that these bytes and files stand for, parked. `pages` are those of the workspaces that it will be
    /// lent. The work is linear in the bytes.
    ///
    /// # Errors
    /// It is not a connection, or one of another [`VERSION`](crate::encoding::VERSION).
    pub fn decode(bytes: &[u8], files: Vec<OwnedFd>, pages: &dyn PagesByHost) -> Result<Connection, Malformed> {
        http1::Connection::decode(bytes, files, pages).map(Connection::Http1)
    }
}

// What we tell the world.
impl Connection {
    /// The next thing that has to be done for an exchange. May change after every `handle_*`.
    #[inline]
    pub fn poll_need(&mut self) -> Option<(ExchangeId, Need<'_>)> {
        if !self.choose_version() {
            return None;
        }
        either!(self, one => one.poll_need())
    }

    /// The request that `poll_need` will hand out for resolution next, if that comes next: so that it can be prepared.
    /// Nothing is handed out by this, and it may return nothing where `poll_need` does.
    #[inline]
    pub fn peek_requested(&mut self) -> Option<RequestedResource<'_>> {
        if !self.choose_version() {
            return None;
        }
        either!(self, one => one.peek_requested())
    }

    /// The next bytes to send. They may change after `handle_done` and `handle_sent`.
    #[inline]
    pub fn poll_transmit(&mut self) -> Option<Transmit<'_>> {
        either!(self, one => one.poll_transmit())
    }

    /// The buffer that holds the content of the next transmit's segment, if that is in memory, and where in it the
    /// segment begins: for drivers that go on sending after `handle_sent`. A clone of the buffer keeps the bytes.
    #[inline]
    pub fn segment_buffer(&self) -> Option<(Arc<dyn ContentBuffer>, u64)> {
        either!(self, one => one.segment_buffer())
    }

    /// A request that has been answered, for the log.
    #[inline]
    pub fn poll_answered(&mut self) -> Option<Answered<'_>> {
        either!(self, one => one.poll_answered())
    }
}
