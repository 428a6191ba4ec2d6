//! A TLS connection as a state machine over bytes: records in, plaintext out; plaintext in, records out.
//!
//! Owns: the trait [`Session`], which is all that a transport knows, and [`TlsSession`], which keeps it for the
//! server's side of TLS 1.2 and 1.3. Makes no system call and reads no clock. Guarantees: every step does bounded work;
//! what a peer sends never causes more than the end of its own session; a session that waits holds no buffer but for
//! bytes that it cannot use yet.
//!
//! ```text
//!   Hello ── name known ──> Handshake ── finished ──> Established ── close_notify, both ways ──> over
//!     └── no TLS: answered in words ──> Over <── failure: alert ──┘
//! ```
//!
//! rustls does the handshake, and the keys of later key updates (`handshake`). Records of an established connection are
//! made and read here (`record`): no allocation, one copy, and an idle connection holds two keys and their schedule.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use lamna_proto::time::Instant;
use lamna_sys::metrics::counters::Counters;
use rustls::kernel::KernelConnection;
use rustls::server::ServerConnectionData;

use super::alert::{Alert, Failure};
use super::buffers::Window;
use super::client_hello::{self, Hello};
use super::endpoint::Endpoint;
use super::handshake::{Handshake, Outcome};
use super::negotiated::Negotiated;
use super::plain_http;
use super::record::{
    ContentType, HEADER_BYTES, OVERHEAD_BYTES_MAX, Opener, PLAINTEXT_BYTES_MAX, Sealer, Version, record_length,
};

/// A session between a socket and a connection.
pub trait Session: fmt::Debug + Send {
    /// Where bytes of the socket go. Never empty.
    fn receive_space(&mut self) -> &mut [u8];

    /// So many bytes have been received.
    fn handle_received(&mut self, bytes: usize);

    /// The socket has come to its end.
    fn handle_end(&mut self);

    /// Goes on with what has been received. Does nothing where there is nothing to do.
    fn advance(&mut self);

    /// Moves plaintext to `into`. Returns how many bytes.
    fn read(&mut self, into: &mut [u8]) -> usize;

    /// Whether there is plaintext to read, which no event of the socket will announce.
    fn has_plaintext(&self) -> bool;

    /// Takes plaintext, as far as there is room, at `now`. Returns how many bytes.
    fn write(&mut self, parts: [&[u8]; 2], now: Instant) -> usize;

    /// How many bytes [`Session::write`] would take.
    fn room(&self) -> usize;

    /// Bytes for the socket.
    fn output(&self) -> &[u8];

    /// So many of them have been sent.
    fn handle_sent(&mut self, bytes: usize);

    /// Tells the peer that nothing more will come.
    fn end_sending(&mut self);

    /// Whether it has been told so: nothing is written any more.
    fn has_ended_sending(&self) -> bool;

    /// Where it is.
    fn phase(&self) -> Phase;

    /// The results of the handshake, once they are known.
    fn negotiated(&self) -> Option<&Negotiated>;

    /// Why it has failed.
    fn failure(&self) -> Option<&Failure>;

    /// Whether nothing is lost by ending it: no handshake has begun, no record is incomplete, and nothing waits to be
    /// read or sent.
    fn is_idle(&self) -> bool;

    /// Takes bytes back that were received elsewhere. [`Session::advance`] looks at them.
    fn return_received(&mut self, bytes: &[u8]);

    /// Takes bytes back that had been taken as sent and have not left. They leave before others.
    fn return_unsent(&mut self, bytes: &[u8]);

    /// Lets go of what a session that waits does not need.
    fn settle(&mut self);

    /// Bytes of memory in buffers.
    fn held_bytes(&self) -> usize;
}

/// Where a session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Nothing can be read or written yet.
    Handshaking,
    /// As long as it lasts.
    Open,
    /// The peer sends nothing more. It may still be written to.
    Ended,
    /// Nothing more can be read or written. What is in the output is still to be sent.
    Failed,
}

/// Plaintext of a record while the network's window may be small: record, headers and all fit one packet.
const SMALL_RECORD_BYTES: usize = 1370;

/// Bytes that are sent in small records: what may be on the way before the first acknowledgement (RFC 6928).
const SMALL_RECORDS_FOR: u32 = 14_000;

/// Milliseconds after which a connection without traffic begins with small records again.
const SMALL_AGAIN_MS: u64 = 1000;

/// Records without content, or about the connection itself, between two with content.
const IDLE_RECORDS_MAX: u8 = 32;

/// Room that is left for records about the connection itself.
const RESERVED_BYTES: usize = 256;

/// The server's side of a TLS connection.
#[derive(Debug)]
pub struct TlsSession {
    state: State,
    /// HTTP/2 is not agreed on.
    is_http1: bool,
    /// Records, or parts of one. The first record may be decrypted.
    input: Window,
    /// Plaintext at the front of the input, and behind it what belongs to the same record.
    plain: Option<Plain>,
    output: Window,
    /// Bytes sent since records began to be small.
    sent_small: u32,
    written_at: Instant,
    /// Nothing more comes from the socket.
    socket_ended: bool,
    /// The peer has said that nothing more comes.
    peer_closed: bool,
    closed: bool,
}

/// Plaintext in the record at the front of the input: what is left to read, and its end.
#[derive(Debug)]
struct Plain {
    text: Range<usize>,
    record_end: usize,
}

enum State {
    Hello(Arc<Endpoint>),
    Handshake(Box<Handshake>),
    Established(Box<Established>),
    Over(Box<Over>),
}

struct Over {
    failure: Failure,
    negotiated: Option<Negotiated>,
}

struct Established {
    sealer: Sealer,
    opener: Opener,
    kernel: KernelConnection<ServerConnectionData>,
    negotiated: Negotiated,
    idle_records: u8,
    /// The peer has asked for other keys in this direction.
    owes_key_update: bool,
}

impl TlsSession {
    /// A session with a new client.
    pub fn new(endpoint: Arc<Endpoint>) -> TlsSession {
        TlsSession {
            state: State::Hello(endpoint),
            is_http1: false,
            input: Window::default(),
            plain: None,
            output: Window::default(),
            sent_small: 0,
            written_at: Instant::from_ms(0),
            socket_ended: false,
            peer_closed: false,
            closed: false,
        }
    }

    /// HTTP/2 is not agreed on with the client, whatever it can. To be told before anything is received.
    pub fn keep_to_http1(&mut self) {
        self.is_http1 = true;
    }

    /// The name that the client has asked for.
    pub fn server_name(&self) -> Option<&str> {
        self.negotiated()?.name.as_deref()
    }

    fn hello(&mut self) -> Result<bool, Failure> {
        let State::Hello(endpoint) = &self.state else { return Ok(false) };
        let received = self.input.bytes();
        if let Some(answer) = plain_http::answer(received, self.socket_ended) {
            let answer = answer?;
            self.output.space(answer.len())[..answer.len()].copy_from_slice(&answer);
            self.output.add(answer.len());
            return Err(Failure::told("the client speaks plain HTTP"));
        }
        let hello = match client_hello::look(received)? {
            Hello::Incomplete => return Ok(false),
            Hello::Complete(hello) => hello,
        };
        let chosen = endpoint.choose_for_challenge(&hello).or_else(|| endpoint.choose(hello.name()));
        let chosen = chosen.ok_or_else(|| endpoint.refusal(hello.name()))?;
        let handshake = Handshake::begin(endpoint.clone(), chosen, &hello, self.is_http1)?;
        self.state = State::Handshake(Box::new(handshake));
        Ok(true)
    }

    fn handshake(&mut self) -> Result<bool, Failure> {
        let State::Handshake(handshake) = &mut self.state else { return Ok(false) };
        if !handshake.advance(&mut self.input, &mut self.output)? {
            return Ok(false);
        }
        let over = State::Over(Box::new(Over { failure: Failure::of(Alert::InternalError), negotiated: None }));
        let State::Handshake(handshake) = std::mem::replace(&mut self.state, over) else { return Ok(false) };
        let Outcome { sealer, opener, kernel, negotiated } = handshake.finish()?;
        self.state = State::Established(Box::new(Established {
            sealer,
            opener,
            kernel,
            negotiated,
            idle_records: 0,
            owes_key_update: false,
        }));
        Ok(true)
    }

    /// Decrypts records until there is plaintext, or none is whole.
    fn open(&mut self) -> Result<(), Failure> {
        let State::Established(established) = &mut self.state else { return Ok(()) };
        while self.plain.is_none() && !self.peer_closed {
            let received = self.input.bytes();
            let Some(length) = record_length(received)?.filter(|length| *length <= received.len()) else {
                return Ok(());
            };
            let record = &mut self.input.bytes_mut()[..length];
            let (content_type, text) = established.opener.open(record)?;
            let content = &record[text.clone()];
            if content_type == ContentType::Data && !content.is_empty() {
                established.idle_records = 0;
                self.plain = Some(Plain { text, record_end: length });
                return Ok(());
            }
            established.idle_records += 1;
            if established.idle_records > IDLE_RECORDS_MAX {
                return Err(Failure {
                    alert: Some(Alert::UnexpectedMessage),
                    words: "it sends nothing but empty records".into(),
                });
            }
            match content_type {
                ContentType::Data => {}
                ContentType::Alert => self.peer_closed = established.alert(content)?,
                ContentType::Handshake => {
                    if let Some(alert) = established.message(content)? {
                        // TLS 1.2: the client may go on as before.
                        seal(established, ContentType::Alert, &alert.message(), &mut self.output)?;
                    }
                }
                ContentType::ChangeCipherSpec => return Err(Failure::of(Alert::UnexpectedMessage)),
            }
            self.input.consume(length);
        }
        if self.peer_closed {
            // What comes behind the end is not looked at.
            self.input.release();
        }
        Ok(())
    }

    fn go_on(&mut self) -> Result<(), Failure> {
        while self.hello()? || self.handshake()? {}
        self.open()?;
        if let State::Established(established) = &mut self.state {
            established.update_keys(&mut self.output)?;
        }
        if self.socket_ended && self.is_handshaking() {
            return Err(Failure::departure());
        }
        Ok(())
    }

    fn is_handshaking(&self) -> bool {
        matches!(self.state, State::Hello(_) | State::Handshake(_))
    }

    fn fail(&mut self, failure: Failure) {
        match &self.state {
            State::Hello(endpoint) => count_failure(endpoint.counters()),
            State::Handshake(handshake) => count_failure(handshake.counters()),
            State::Established(_) | State::Over(_) => {}
        }
        self.input.release();
        self.plain = None;
        if let Some(alert) = failure.alert {
            let message = alert.message();
            let sealed = match &mut self.state {
                State::Established(established) => {
                    seal(established, ContentType::Alert, &message, &mut self.output).is_ok()
                }
                _ => false,
            };
            if !sealed && self.is_handshaking() {
                let record = [21, 3, 3, 0, 2, message[0], message[1]];
                self.output.space(record.len())[..record.len()].copy_from_slice(&record);
                self.output.add(record.len());
            }
        }
        self.closed = true;
        let over = Over { failure, negotiated: self.negotiated().cloned() };
        self.state = State::Over(Box::new(over));
    }

    fn record_bytes_max(&self) -> usize {
        if self.sent_small < SMALL_RECORDS_FOR { SMALL_RECORD_BYTES } else { PLAINTEXT_BYTES_MAX }
    }

    fn try_write(&mut self, [mut first, mut second]: [&[u8]; 2]) -> Result<usize, Failure> {
        let mut taken = 0;
        loop {
            let (most, room) = (self.record_bytes_max(), self.room());
            let State::Established(established) = &mut self.state else { return Ok(taken) };
            established.update_keys(&mut self.output)?;
            let bytes = (first.len() + second.len()).min(most).min(room);
            if bytes == 0 {
                return Ok(taken);
            }
            let (now, later) = first.split_at(first.len().min(bytes));
            let (behind, rest) = second.split_at(bytes - now.len());
            let length = OVERHEAD_BYTES_MAX + bytes;
            let end = established.sealer.seal(ContentType::Data, [now, behind], self.output.space(length), 0)?;
            self.output.add(end);
            (first, second) = (later, rest);
            taken += bytes;
            self.sent_small = self.sent_small.saturating_add(bytes as u32);
        }
    }
}

fn count_failure(counters: &Counters) {
    counters.tls.failures.fetch_add(1, Relaxed);
}

fn seal(
    established: &mut Established,
    content_type: ContentType,
    content: &[u8],
    output: &mut Window,
) -> Result<(), Failure> {
    let space = output.space(content.len() + OVERHEAD_BYTES_MAX);
    let end = established.sealer.seal(content_type, [content, &[]], space, 0)?;
    output.add(end);
    Ok(())
}

const KEY_UPDATE: u8 = 24;

impl Established {
    /// An alert of the peer. True if it is the end of what it sends.
    fn alert(&self, content: &[u8]) -> Result<bool, Failure> {
        const USER_CANCELED: u8 = 90;
        match (content, self.negotiated.version) {
            ([_, 0], _) => Ok(true),
            ([_, USER_CANCELED], _) | ([1, _], Version::V12) => Ok(false),
            ([_, code], _) => Err(Failure::told(format!("the peer has sent alert {code}"))),
            _ => Err(Failure::of(Alert::DecodeError)),
        }
    }

    /// A message about the connection. Returns what the peer is told about it.
    fn message(&mut self, content: &[u8]) -> Result<Option<Alert>, Failure> {
        match (self.negotiated.version, content) {
            (Version::V12, _) => Ok(Some(Alert::NoRenegotiation)),
            (Version::V13, [KEY_UPDATE, 0, 0, 1, is_asked_for @ (0 | 1)]) => {
                let secrets = self.kernel.update_rx_secret().map_err(defect)?;
                self.opener = Opener::new(secrets, Version::V13)?;
                self.owes_key_update |= *is_asked_for == 1;
                Ok(None)
            }
            (Version::V13, _) => Err(Failure::of(Alert::UnexpectedMessage)),
        }
    }

    /// Goes on with other keys if the peer has asked for that, or if these are worn.
    fn update_keys(&mut self, output: &mut Window) -> Result<(), Failure> {
        let is_worn = self.sealer.is_worn();
        if !self.owes_key_update && !is_worn {
            return Ok(());
        }
        if self.negotiated.version == Version::V12 {
            return Err(Failure::of(Alert::InternalError));
        }
        if output.room() < RESERVED_BYTES / 2 {
            // Later: a peer that asks and does not read gets no more than one.
            return Ok(());
        }
        self.owes_key_update = false;
        seal(self, ContentType::Handshake, &[KEY_UPDATE, 0, 0, 1, 0], output)?;
        let secrets = self.kernel.update_tx_secret().map_err(defect)?;
        self.sealer = Sealer::new(secrets, Version::V13)?;
        Ok(())
    }
}

fn defect(error: rustls::Error) -> Failure {
    Failure { alert: Some(Alert::InternalError), words: error.to_string() }
}

impl Session for TlsSession {
    fn receive_space(&mut self) -> &mut [u8] {
        // A record that has begun fits, whatever it is: what is decrypted is read before more is received.
        let least = match record_length(self.input.bytes()) {
            Ok(Some(length)) => length.saturating_sub(self.input.length()).max(1),
            _ => HEADER_BYTES,
        };
        self.input.space(least)
    }

    fn handle_received(&mut self, bytes: usize) {
        self.input.add(bytes);
        if matches!(self.state, State::Over(_)) {
            self.input.release();
        }
    }

    fn handle_end(&mut self) {
        self.socket_ended = true;
        self.advance();
    }

    fn advance(&mut self) {
        if let Err(failure) = self.go_on() {
            self.fail(failure);
        }
    }

    fn read(&mut self, into: &mut [u8]) -> usize {
        let mut read = 0;
        while let Some(Plain { text, record_end }) = &mut self.plain {
            let bytes = text.len().min(into.len() - read);
            into[read..read + bytes].copy_from_slice(&self.input.bytes()[text.start..text.start + bytes]);
            text.start += bytes;
            read += bytes;
            if text.start < text.end {
                break;
            }
            let record_end = *record_end;
            self.plain = None;
            self.input.consume(record_end);
            self.advance();
        }
        read
    }

    fn has_plaintext(&self) -> bool {
        self.plain.is_some()
    }

    fn write(&mut self, parts: [&[u8]; 2], now: Instant) -> usize {
        if now.since(self.written_at) >= SMALL_AGAIN_MS {
            self.sent_small = 0;
        }
        self.written_at = now;
        self.try_write(parts).unwrap_or_else(|failure| {
            self.fail(failure);
            0
        })
    }

    fn room(&self) -> usize {
        match self.state {
            State::Established(_) if !self.closed => {
                let room = self.output.room().saturating_sub(RESERVED_BYTES + OVERHEAD_BYTES_MAX);
                // What is left behind full records is not worth one.
                if room < SMALL_RECORD_BYTES { 0 } else { room }
            }
            _ => 0,
        }
    }

    fn output(&self) -> &[u8] {
        self.output.bytes()
    }

    fn handle_sent(&mut self, bytes: usize) {
        self.output.consume(bytes);
    }

    fn end_sending(&mut self) {
        if self.closed {
            return;
        }
        self.closed = true;
        if let State::Established(established) = &mut self.state
            && let Err(failure) = seal(established, ContentType::Alert, &Alert::CloseNotify.message(), &mut self.output)
        {
            self.fail(failure);
        }
    }

    fn has_ended_sending(&self) -> bool {
        self.closed
    }

    fn phase(&self) -> Phase {
        match &self.state {
            State::Hello(_) | State::Handshake(_) => Phase::Handshaking,
            State::Over(_) => Phase::Failed,
            State::Established(_) if self.plain.is_none() && (self.peer_closed || self.socket_ended) => Phase::Ended,
            State::Established(_) => Phase::Open,
        }
    }

    fn negotiated(&self) -> Option<&Negotiated> {
        match &self.state {
            State::Established(established) => Some(&established.negotiated),
            State::Over(over) => over.negotiated.as_ref(),
            _ => None,
        }
    }

    fn failure(&self) -> Option<&Failure> {
        match &self.state {
            State::Over(over) => Some(&over.failure),
            _ => None,
        }
    }

    fn is_idle(&self) -> bool {
        !matches!(self.state, State::Handshake(_)) && self.input.is_empty() && self.output.is_empty()
    }

    fn return_received(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.input.space(bytes.len())[..bytes.len()].copy_from_slice(bytes);
            self.handle_received(bytes.len());
        }
    }

    fn return_unsent(&mut self, bytes: &[u8]) {
        let behind = [bytes, self.output.bytes()].concat();
        self.output.release();
        self.output.space(behind.len())[..behind.len()].copy_from_slice(&behind);
        self.output.add(behind.len());
    }

    fn settle(&mut self) {
        if self.plain.is_none() {
            self.input.settle();
        }
        self.output.settle();
    }

    fn held_bytes(&self) -> usize {
        self.input.held_bytes() + self.output.held_bytes()
    }
}

impl fmt::Debug for State {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            State::Hello(_) => formatter.write_str("Hello"),
            State::Handshake(handshake) => handshake.fmt(formatter),
            State::Established(established) => established.negotiated.fmt(formatter),
            State::Over(over) => over.failure.fmt(formatter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_established_session_is_small() {
        let bytes = size_of::<TlsSession>() + size_of::<Established>();
        assert!(bytes <= 2000, "{bytes} bytes");
    }
}
