//! The transport between a connection and its peer: a socket, a TLS session if the listener speaks TLS, and before both
//! the header of a proxy where one is expected.
//!
//! Owns: the socket and the session, and the answers that only both together can give: whether more can be received
//! than the socket will announce, whether everything has left before the connection is closed, until when a handshake
//! may last. Engines ask it in the place of the socket. A plain connection costs what it does without: one word, no
//! call and no allocation. Does not wait.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;

use lamna_config::settings::ListenAddress;
use lamna_io::accept;
use lamna_io::listen::Listener;
use lamna_io::log::errors::{self, Level, Peer};
use lamna_io::send::{Sender, Sent};
use lamna_proto::conn::{Connection, Fate, Interest, SendDeadline};
use lamna_proto::limits::Limits;
use lamna_proto::parse::proxy::Source;
use lamna_proto::time::Instant;
use lamna_proto::transmit::Segment;
use lamna_sys::metrics::step_timer;
use lamna_sys::metrics::step_timer::Step;
use lamna_tls::{Alpn, Endpoint, Negotiated, Over, Phase, Session, TlsSession, Way};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, Shutdown, sockopt};

use crate::worker::proxy_header::ProxyHeader;
use crate::worker::turn_budget::within_turn;

/// A socket, and what is spoken on it below HTTP.
#[derive(Debug)]
pub struct Transport {
    socket: OwnedFd,
    /// The layers between the socket and HTTP; none for a plain connection.
    layers: Option<Box<Layers>>,
    /// Sending has been shut down.
    shut: bool,
    /// The peer, or the network, has ended it both ways.
    pub failed: bool,
    /// Its kind in clear text.
    clear: Clear,
}

/// The kinds of connections in clear text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Clear {
    /// Sites that speak TLS are not served over it.
    Led,
    /// They are: its address says so.
    Served,
    /// They are: it is a Unix socket, and its peer a program of this machine.
    Local,
}

/// The layers between a socket and HTTP, in the order in which bytes pass them.
#[derive(Debug, Default)]
struct Layers {
    /// The header that a proxy sends first, where one is expected.
    header: Option<Box<ProxyHeader>>,
    /// TLS, where that is spoken.
    secured: Option<Secured>,
}

impl Layers {
    /// Those of a connection with this TLS session, if it has one.
    fn over_tls(secured: Option<Secured>) -> Option<Box<Layers>> {
        secured.map(|secured| Box::new(Layers { secured: Some(secured), ..Layers::default() }))
    }
}

/// A TLS session and what its socket has done for it.
#[derive(Debug)]
struct Secured {
    session: TlsSession,
    /// When the handshake began.
    since: Instant,
    /// Until when the peer has to take what has been encrypted.
    taking: SendDeadline,
    /// The least number of bytes that the peer has to take in each period of the send deadline.
    send_bytes_min: u32,
    /// The connection has been told of the end of the session.
    has_told: bool,
    /// The socket is of no use any more.
    is_broken: bool,
    /// Why the handshake has failed was said.
    has_reported: bool,
}

/// The result of receiving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// So many bytes.
    Bytes(usize),
    /// Nothing yet.
    Nothing,
    /// The end.
    End,
    /// The connection is gone.
    Broken,
}

/// The kind of connections in clear text to `listener`.
fn clear_of(listener: &Listener) -> Clear {
    match listener.address() {
        ListenAddress::Unix(_) => Clear::Local,
        ListenAddress::Tcp(_) if listener.serves_in_clear() => Clear::Served,
        ListenAddress::Tcp(_) => Clear::Led,
    }
}

impl Transport {
    /// Plain, over a socket, of which the kernel says what it is.
    pub fn plain(socket: OwnedFd) -> Transport {
        let is_local = sockopt::socket_domain(&socket) == Ok(AddressFamily::UNIX);
        let clear = if is_local { Clear::Local } else { Clear::Led };
        Transport { socket, layers: None, shut: false, failed: false, clear }
    }

    /// Over a socket that was taken from `listener` at `now`: with TLS by `endpoint` if that listener speaks it.
    pub fn accepted(
        socket: OwnedFd,
        listener: &Listener,
        endpoint: Option<&Arc<Endpoint>>,
        limits: &Limits,
        now: Instant,
    ) -> Transport {
        let mut secured =
            endpoint.filter(|_| listener.speaks_tls()).map(|endpoint| Secured::new(endpoint, limits, now));
        if let Some(secured) = secured.as_mut().filter(|_| !listener.speaks_http2()) {
            secured.session.keep_to_http1();
        }
        let clear = clear_of(listener);
        Transport { socket, layers: Layers::over_tls(secured), shut: false, failed: false, clear }
    }

    /// It has come to `listener`, in another process.
    pub fn has_come_to(&mut self, listener: &Listener) {
        self.clear = clear_of(listener);
    }

    /// With TLS by `endpoint`, over a socket that no listener of a server has taken.
    #[cfg(test)]
    pub(crate) fn over_tls(socket: OwnedFd, endpoint: &Arc<Endpoint>, limits: &Limits, now: Instant) -> Transport {
        let mut transport = Transport::plain(socket);
        transport.layers = Layers::over_tls(Some(Secured::new(endpoint, limits, now)));
        transport
    }

    fn secured(&self) -> Option<&Secured> {
        self.layers.as_ref()?.secured.as_ref()
    }

    fn secured_mut(&mut self) -> Option<&mut Secured> {
        secured_in(&mut self.layers)
    }

    /// The header of a proxy comes first, from a peer that is trusted or not.
    pub fn expect_header(&mut self, is_trusted: bool) {
        self.layers.get_or_insert_default().header = Some(Box::new(ProxyHeader::new(is_trusted)));
    }

    /// The client for which a proxy has said that it has connected. Returned once.
    pub fn take_source(&mut self) -> Option<Source> {
        self.layers.as_mut()?.header.as_mut()?.take_source()
    }

    /// The parameters that a TLS handshake has agreed on.
    pub fn negotiated(&self) -> Option<&Negotiated> {
        self.secured()?.session.negotiated()
    }

    /// Whether a handshake has to end before anything is said.
    pub fn is_handshaking(&self) -> bool {
        self.secured().is_some_and(|secured| secured.session.phase() == Phase::Handshaking)
    }

    /// Whether a TLS handshake has ended, and the session has not.
    pub fn is_established(&self) -> bool {
        self.secured().is_some_and(|secured| secured.session.phase() == Phase::Open)
    }

    /// Whether TLS is spoken.
    pub fn is_secured(&self) -> bool {
        self.secured().is_some()
    }

    /// The channel over which requests come.
    pub fn over(&self) -> Over<'_> {
        let way = match self.secured() {
            None => match self.clear {
                Clear::Local => Way::Local,
                Clear::Served => Way::Open,
                Clear::Led => Way::Clear,
            },
            Some(secured) => secured.session.negotiated().map_or(Way::Unsettled, Way::Secured),
        };
        Over { way, socket: Some(self.socket.as_fd()) }
    }

    /// Whether another process can go on with it. Keys stay where they were made, and so does what a proxy has said.
    pub fn is_transferable(&self) -> bool {
        self.layers.is_none()
    }

    /// Whether nothing is lost of it by closing it: no handshake is under way, and nothing waits to be sent or read.
    pub fn is_idle(&self) -> bool {
        self.secured().is_none_or(|secured| secured.session.is_idle())
    }

    /// Whether there is something to receive of which no event will tell.
    pub fn has_buffered_input(&self) -> bool {
        self.secured().is_some_and(|secured| secured.session.has_plaintext() || secured.has_untold_end())
    }

    /// The events that a connection with `interest` of its own waits for. The end of a TLS session is said before it is
    /// closed.
    pub fn wants(&mut self, interest: Interest) -> Interest {
        let Some(secured) = self.secured_mut() else { return interest };
        if secured.is_broken {
            return Interest::CLOSE;
        }
        let session = &mut secured.session;
        match session.phase() {
            Phase::Handshaking if interest.is_over() => Interest::CLOSE,
            Phase::Handshaking => Interest { send: !session.output().is_empty(), ..Interest::RECEIVE },
            Phase::Failed if session.output().is_empty() => Interest::CLOSE,
            Phase::Failed => Interest::SEND,
            Phase::Open | Phase::Ended => {
                if interest.fate != Fate::Open && !interest.send {
                    session.end_sending();
                }
                if interest.send && session.has_ended_sending() && session.output().is_empty() {
                    // The end has been said, and nothing can be said behind it.
                    return Interest::CLOSE;
                }
                match (session.output().is_empty(), interest.fate) {
                    (true, _) => interest,
                    (false, Fate::Open) => Interest { send: true, ..interest },
                    // Nothing is received before that has left: as after the answer itself.
                    (false, Fate::Linger | Fate::Close) => Interest::SEND,
                }
            }
        }
    }

    /// Until when the peer may take for what it is waited for, where `of_connection` is what the connection says about
    /// that.
    pub fn poll_timeout(&self, of_connection: Option<Instant>, limits: &Limits) -> Option<Instant> {
        // Before its end a handshake is all that is waited for.
        let of_connection = of_connection.filter(|_| !self.is_handshaking());
        of_connection.into_iter().chain(self.own_timeout(limits)).min()
    }

    /// Until when the peer may take for a handshake, or to take what has been encrypted.
    fn own_timeout(&self, limits: &Limits) -> Option<Instant> {
        let secured = self.secured()?;
        match secured.session.phase() {
            Phase::Handshaking => Some(secured.since.after_ms(limits.head_timeout_ms)),
            _ => secured.taking.until(limits.send_timeout_ms),
        }
    }

    /// A time of [`ConnectionState::poll_timeout`](super::connection_state::ConnectionState::poll_timeout) may have
    /// passed. True if that of the session has, and with it the end has come: the peer is not waited for any more. What
    /// the connection waits for is the connection's.
    pub fn handle_timeout(&mut self, limits: &Limits, now: Instant) -> bool {
        let is_late = self.own_timeout(limits).is_some_and(|until| until <= now);
        if let Some(secured) = self.secured_mut() {
            secured.is_broken |= is_late;
        }
        is_late
    }

    /// The socket is of no use any more.
    pub fn handle_broken(&mut self) {
        if let Some(secured) = self.secured_mut() {
            secured.is_broken = true;
        }
    }

    /// Lets the peer see the end of what we send, while what it sends is still received (RFC 9112 9.6). Everything has
    /// been sent.
    pub fn end_sending(&mut self) {
        if !self.shut {
            self.shut = true;
            let _step = step_timer::step(Step::Close);
            // If it fails the peer is gone, which the next receive will tell.
            let _ = rustix::net::shutdown(&self.socket, Shutdown::Write);
        }
    }

    /// Lets go of buffers that are not needed while it waits.
    pub fn settle(&mut self) {
        if let Some(secured) = self.secured_mut() {
            secured.session.settle();
        }
    }

    /// Bytes of memory that it holds in buffers.
    pub fn held_bytes(&self) -> usize {
        let Some(layers) = &self.layers else { return 0 };
        let header = layers.header.as_ref().map_or(0, |header| header.held_bytes());
        header + layers.secured.as_ref().map_or(0, |secured| secured.session.held_bytes())
    }
}

// Receiving.
impl Transport {
    /// Receives once for `connection`. Returns whether there may be more; `ending` says that the end is on its way.
    pub fn receive(&mut self, connection: &mut Connection, ending: bool, now: Instant) -> bool {
        let Transport { socket, layers, .. } = self;
        let (mut asked, socket) = (None, socket.as_fd());
        let from_socket = |space: &mut [u8]| {
            let room = space.len();
            asked = Some(false);
            match rustix::io::retry_on_intr(|| rustix::net::recv(socket, &mut *space, RecvFlags::empty())) {
                Ok((_, 0)) => Received::End,
                Ok((_, bytes)) => {
                    // Fewer than there was room for: nothing more is there, and more will be an event.
                    asked = Some(bytes == room);
                    Received::Bytes(bytes)
                }
                Err(Errno::AGAIN) => Received::Nothing,
                Err(_) => Received::Broken,
            }
        };
        let received = receive_through(layers, connection, now, from_socket);
        // Where the session had something left, the socket was not asked: what events have told of it goes on to hold.
        let is_full = asked != Some(false);
        self.report_failure();
        matches!(received, Received::Bytes(_)) && (is_full || ending) || self.has_buffered_input()
    }

    /// Receives from `source` for `connection`, when bytes are taken from the socket elsewhere.
    pub fn receive_from(
        &mut self,
        connection: &mut Connection,
        now: Instant,
        source: impl FnOnce(&mut [u8]) -> Received,
    ) -> Received {
        let received = receive_through(&mut self.layers, connection, now, source);
        self.report_failure();
        received
    }

    /// Says once in the error log why a handshake has failed. Who just leaves is not worth a line.
    fn report_failure(&mut self) {
        let Transport { socket, layers, .. } = self;
        let Some(secured) = secured_in(layers) else { return };
        let failure = match secured.session.failure() {
            Some(failure) if secured.session.negotiated().is_none() && !failure.is_departure() => failure,
            _ => return,
        };
        if !std::mem::replace(&mut secured.has_reported, true) {
            errors::report_peer(Peer::Handshake, "", "", || {
                let peer = accept::client_of(socket.as_fd()).map_or_else(|| "a client".to_owned(), |ip| ip.to_string());
                (Level::Info, format!("a TLS handshake of {peer} has failed: {failure}"))
            });
        }
    }

    /// Takes bytes back that were received and not looked at.
    pub fn return_received(&mut self, connection: &mut Connection, bytes: &[u8], now: Instant) {
        let header = self.layers.as_mut().and_then(|layers| layers.header.as_mut());
        if let Some(header) = header.filter(|header| header.is_awaited()) {
            return header.put_back(bytes);
        }
        match self.secured_mut() {
            None => connection.return_received(bytes, now),
            Some(secured) => secured.session.return_received(bytes),
        }
    }
}

/// Receives from `source` for `connection`, through the header of a proxy that is awaited and the TLS session.
fn receive_through(
    layers: &mut Option<Box<Layers>>,
    connection: &mut Connection,
    now: Instant,
    source: impl FnOnce(&mut [u8]) -> Received,
) -> Received {
    let Some(layers) = layers else { return receive_plain(connection, now, source) };
    let Layers { header, secured } = &mut **layers;
    let source = |space: &mut [u8]| {
        let received = source(space);
        match header {
            None => received,
            Some(header) => header.strip(space, received),
        }
    };
    match secured {
        None => receive_plain(connection, now, source),
        Some(secured) => secured.receive(connection, now, source),
    }
}

/// The TLS session of `layers`. Apart from [`Transport`], so that its socket can be used beside.
fn secured_in(layers: &mut Option<Box<Layers>>) -> Option<&mut Secured> {
    layers.as_mut()?.secured.as_mut()
}

fn receive_plain(connection: &mut Connection, now: Instant, source: impl FnOnce(&mut [u8]) -> Received) -> Received {
    let received = source(connection.receive_space());
    match received {
        Received::Bytes(0) | Received::Nothing => {}
        Received::Bytes(bytes) => connection.handle_received(bytes, now),
        Received::End => connection.handle_end(),
        Received::Broken => connection.handle_broken(),
    }
    received
}

impl Secured {
    fn new(endpoint: &Arc<Endpoint>, limits: &Limits, now: Instant) -> Secured {
        Secured {
            session: TlsSession::new(endpoint.clone()),
            since: now,
            taking: SendDeadline::NONE,
            send_bytes_min: limits.send_bytes_min,
            has_told: false,
            is_broken: false,
            has_reported: false,
        }
    }

    fn receive(
        &mut self,
        connection: &mut Connection,
        now: Instant,
        source: impl FnOnce(&mut [u8]) -> Received,
    ) -> Received {
        // What another worker has received may not have been looked at.
        self.session.advance();
        let has_ended = self.session.phase() == Phase::Ended;
        let mut received = if has_ended { Received::End } else { Received::Bytes(0) };
        if !self.session.has_plaintext() && !has_ended {
            received = source(self.session.receive_space());
            match received {
                Received::Bytes(bytes) => {
                    self.session.handle_received(bytes);
                    self.session.advance();
                }
                Received::Nothing => self.session.handle_received(0),
                Received::End => {
                    self.session.handle_received(0);
                    self.session.handle_end();
                }
                Received::Broken => {
                    self.is_broken = true;
                    connection.handle_broken();
                    return received;
                }
            }
        }
        self.hand_over(connection, now);
        received
    }

    /// The connection will be told at the next receive that the session is over.
    fn has_untold_end(&self) -> bool {
        !self.has_told && matches!(self.session.phase(), Phase::Ended | Phase::Failed)
    }

    /// Gives the connection what the session has for it: first bytes, and when it has looked at them the end.
    fn hand_over(&mut self, connection: &mut Connection, now: Instant) {
        if self.session.has_plaintext() {
            if self.session.negotiated().is_some_and(|negotiated| negotiated.alpn == Alpn::Http2) {
                connection.expect_http2();
            }
            let bytes = self.session.read(connection.receive_space());
            return connection.handle_received(bytes, now);
        }
        self.has_told |= self.has_untold_end();
        match self.session.phase() {
            // Whoever receives behind the end finds the end, as often as that is.
            Phase::Ended => connection.handle_end(),
            Phase::Failed => connection.handle_broken(),
            Phase::Open | Phase::Handshaking => {}
        }
    }
}

// Sending.
impl Transport {
    /// Sends what `connection` has to send next, of which a turn that has moved `used` bytes may move so many more.
    /// Returns what came of it, and how many bytes of a turn each byte counts as; nothing if there is nothing to send.
    ///
    /// Bytes that a TLS session has encrypted count as sent, and leave when its buffer is full or nothing follows: so
    /// several answers, and the last one and the end, are one call.
    pub fn send(
        &mut self,
        connection: &mut Connection,
        sender: &mut Sender<'_>,
        used: u64,
        now: Instant,
    ) -> Option<(Sent, u64)> {
        let Transport { socket, layers, .. } = self;
        let socket = socket.as_fd();
        let Some(secured) = secured_in(layers) else {
            let mut transmit = connection.poll_transmit()?;
            let weight = within_turn(&mut transmit, used);
            return Some((sender.send(socket, &transmit), weight));
        };
        loop {
            let (taken, weight) = secured.encrypt(connection, sender, used, now);
            if let Some(sent) = taken {
                return Some((sent, weight));
            }
            if secured.is_broken || secured.session.output().is_empty() {
                return None;
            }
            match secured.flush(socket, now) {
                Sent::All(_) => {}
                other => return Some((other, 1)),
            }
        }
    }

    /// The bytes that a TLS session has for the socket, for a caller that sends them otherwise than by
    /// [`Transport::send`].
    pub fn encrypted(
        &mut self,
        connection: &mut Connection,
        sender: &mut Sender<'_>,
        used: u64,
        now: Instant,
    ) -> Encrypted<'_> {
        let Some(secured) = self.secured_mut() else { return Encrypted::Plain };
        let (taken, weight) = secured.encrypt(connection, sender, used, now);
        match taken {
            Some(sent) => Encrypted::Taken(sent, weight),
            None if secured.is_broken => Encrypted::Output(&[]),
            None => Encrypted::Output(secured.session.output()),
        }
    }

    /// Whether what was sent through this has not been taken by the socket yet.
    pub fn holds_output(&self) -> bool {
        self.secured().is_some_and(|secured| !secured.is_broken && !secured.session.output().is_empty())
    }

    /// So many bytes of [`Encrypted::Output`] are on their way.
    pub fn handle_sent(&mut self, bytes: usize) {
        if let Some(secured) = self.secured_mut() {
            secured.session.handle_sent(bytes);
            secured.note_taking(0, secured.since);
        }
    }

    /// Takes bytes back that were on their way and have not left.
    pub fn return_unsent(&mut self, connection: &mut Connection, bytes: &[u8]) {
        match self.secured_mut() {
            None => connection.return_unsent(bytes),
            Some(secured) => secured.session.return_unsent(bytes),
        }
    }
}

// The end.
impl Transport {
    /// Says `words` before it is closed, as far as the socket takes them. Nothing else waits to be sent.
    pub fn say_last(&mut self, words: &[u8]) {
        match self.secured_mut() {
            // They leave with the end of the session.
            Some(secured) => {
                secured.session.write([words, &[]], secured.since);
            }
            None => {
                let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
                // If it fails the peer is gone, or does not read: it is closed either way.
                let _ = rustix::net::send(&self.socket, words, flags);
            }
        }
    }
}

/// The work for a caller that sends bytes of a session otherwise than by [`Transport::send`].
#[derive(Debug)]
pub enum Encrypted<'s> {
    /// There is no session.
    Plain,
    /// Something has been encrypted, and counts as sent. More may follow.
    Taken(Sent, u64),
    /// These bytes are to be sent; none if there is nothing to send.
    Output(&'s [u8]),
}

impl Secured {
    /// Encrypts what the connection has to send next, as far as there is room. Nothing if there is none, or nothing to
    /// send.
    fn encrypt(
        &mut self,
        connection: &mut Connection,
        sender: &mut Sender<'_>,
        used: u64,
        now: Instant,
    ) -> (Option<Sent>, u64) {
        let room = self.session.room();
        if room == 0 || self.is_broken {
            return (None, 1);
        }
        let mut transmit = match connection.poll_transmit() {
            Some(transmit) => transmit,
            None => {
                // The last answer and the end leave together.
                let interest = connection.interest();
                if interest.fate != Fate::Open && !interest.send {
                    self.session.end_sending();
                }
                return (None, 1);
            }
        };
        let weight = within_turn(&mut transmit, used);
        let bytes = transmit.bytes;
        let (taken, offered) = match transmit.segment {
            None => (self.session.write([bytes, &[]], now), bytes.len()),
            Some(Segment::Shared(content)) => (self.session.write([bytes, content], now), bytes.len() + content.len()),
            Some(segment @ Segment::File { .. }) if bytes.len() < room => {
                match sender.read_stretch(segment, room - bytes.len()) {
                    Ok(content) => {
                        let taken = self.session.write([bytes, content], now);
                        (taken, bytes.len().saturating_add(segment.length() as usize))
                    }
                    Err(other) => return (Some(other), weight),
                }
            }
            Some(segment) => (self.session.write([bytes, &[]], now), bytes.len() + segment.length() as usize),
        };
        match taken {
            0 => (None, weight),
            taken if taken == offered => (Some(Sent::All(taken as u64)), weight),
            taken => (Some(Sent::Part(taken as u64)), weight),
        }
    }

    /// Sends what has been encrypted.
    fn flush(&mut self, socket: BorrowedFd<'_>, now: Instant) -> Sent {
        let _step = step_timer::step(Step::Send);
        let output = self.session.output();
        let offered = output.len();
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        match rustix::io::retry_on_intr(|| rustix::net::send(socket, output, flags)) {
            Ok(sent) => {
                self.session.handle_sent(sent);
                self.note_taking(sent as u64, now);
                if sent == offered { Sent::All(0) } else { Sent::Part(0) }
            }
            Err(Errno::AGAIN) => {
                self.note_taking(0, now);
                Sent::Part(0)
            }
            Err(_) => {
                self.is_broken = true;
                Sent::Broken
            }
        }
    }

    /// The socket has taken `bytes`. Whether there is more decides whether it is for the peer to go on.
    fn note_taking(&mut self, bytes: u64, now: Instant) {
        self.taking.take(bytes, u64::from(self.send_bytes_min), now);
        match self.session.output().is_empty() {
            true => self.taking.clear(),
            false => self.taking.run(now),
        }
    }
}

impl Drop for Transport {
    /// A session that is still open is not cut off without a word, as far as the socket takes it.
    fn drop(&mut self) {
        let Transport { socket, layers, .. } = self;
        if let Some(secured) = secured_in(layers)
            && !secured.is_broken
            && matches!(secured.session.phase(), Phase::Open | Phase::Ended)
        {
            secured.session.end_sending();
            if !secured.session.output().is_empty() {
                let _ = secured.flush(socket.as_fd(), Instant::from_ms(0));
            }
        }
    }
}

impl AsFd for Transport {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl AsRawFd for Transport {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}
