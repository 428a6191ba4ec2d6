//! A parked connection as bytes and open files, for a driver in another process.
//!
//! Owns: what of a connection travels. Guarantees: no byte is lost, sent twice or reordered; whatever bytes are
//! decoded, the result is an error or a connection that can be driven. Requests that are being resolved, or have been
//! and wait for their turn, travel as their heads, and are resolved again. Exchanges get new names. Reports that have
//! not been taken are lost. Instants are those of the driver's clock: both drivers must count from the same origin.

use std::os::fd::OwnedFd;

use super::active::Active;
use super::exchange::{Exchange, Incoming};
use super::writer::Persistence;
use super::{Connection, Receiving};
use crate::conn::framing::Content;
use crate::encoding::{Encoded, Malformed, Portable, Source, VERSION, checked};
use crate::exchange::answer::{Answer, host_of};
use crate::exchange::state::State;
use crate::exchange::{ExchangeId, Saved};
use crate::message::Method;
use crate::parse::chunked::ChunkedDecoder;
use crate::time::{CompactInstant, Instant};
use crate::workspace::pages::PagesByHost;

impl Connection {
    /// The connection as bytes and open files; nothing if it cannot travel.
    ///
    /// # Panics
    /// If it is not parked.
    pub fn encode(&self) -> Option<Encoded> {
        self.assert_parked();
        if !self.is_transferable() {
            return None;
        }
        let mut encoded = Encoded::default();
        let to = &mut encoded;
        VERSION.write(to);
        self.since().write(to);
        self.received().write(to);
        (self.receiving as u8).write(to);
        let flags = [self.closing, self.draining, self.lingers, self.ended, self.broken];
        flags.iter().for_each(|flag| flag.write(to));
        self.active.is_some().write(to);
        if let Some(active) = &self.active {
            active.unread.write(to);
            active.unsent.write(to);
            active.receiving.write(to);
            active.exchanges.write(to);
            active.in_flight.write(to);
        }
        Some(encoded)
    }

    /// The connection that these bytes and files stand for, parked. `pages` are those of the workspaces that it will be
    /// lent. The work is linear in the bytes.
    ///
    /// # Errors
    /// It is not a connection, or one of another [`VERSION`].
    pub fn decode(bytes: &[u8], files: Vec<OwnedFd>, pages: &dyn PagesByHost) -> Result<Connection, Malformed> {
        let from = &mut Source { bytes, files: files.into(), pages };
        checked((), u16::read(from)? == VERSION)?;
        let mut connection = Connection {
            workspace: None,
            active: None,
            since: compact(Instant::read(from)?)?,
            received: compact(Instant::read(from)?)?,
            last_id: ExchangeId(0),
            receiving: Receiving::read(from)?,
            closing: bool::read(from)?,
            draining: bool::read(from)?,
            promised: false,
            lingers: bool::read(from)?,
            ended: bool::read(from)?,
            broken: bool::read(from)?,
            // The process that takes it says so, if it is so.
            keeps_version: false,
        };
        if bool::read(from)? {
            let (unread, unsent) = (Portable::read(from)?, Portable::read(from)?);
            let (receiving, exchanges) = (Portable::read(from)?, Portable::read(from)?);
            let in_flight = Portable::read(from)?;
            connection.active = Some(Box::new(Active::holding(unread, unsent, receiving, exchanges, in_flight)));
        }
        checked((), from.bytes.is_empty() && connection.is_consistent())?;
        connection.name_exchanges();
        connection.promised =
            connection.draining && !connection.closing && (connection.is_idle() || connection.has_promised(true));
        Ok(connection)
    }

    /// Whether its parts go together.
    fn is_consistent(&self) -> bool {
        let incoming = self.active.as_ref().is_some_and(|active| active.receiving.is_some());
        let exchanges = || self.active.iter().flat_map(|active| &active.exchanges);
        let awaiting = exchanges().filter(|exchange| exchange.awaits_content).count();
        let last_awaits = exchanges().last().is_some_and(|exchange| exchange.awaits_content);
        let ends_within = |active: &Active| active.in_flight.end_within(active.unsent.len());
        incoming == (self.receiving == Receiving::Content)
            && self.active.as_ref().is_none_or(|active| ends_within(active))
            && !(self.broken && exchanges().next().is_some())
            && awaiting == usize::from(last_awaits)
            && (incoming || !last_awaits)
            && !exchanges().skip(1).any(Exchange::has_begun)
            && !exchanges().any(|exchange| exchange.awaits_content && exchange.has_begun())
    }

    fn name_exchanges(&mut self) {
        let Some(active) = &mut self.active else { return };
        for (exchange, name) in active.exchanges.iter_mut().zip(1..) {
            exchange.id = ExchangeId(name);
            self.last_id = exchange.id;
        }
        let last = active.exchanges.back().filter(|exchange| exchange.awaits_content);
        if let (Some(incoming), Some(exchange)) = (&mut active.receiving, last) {
            incoming.id = exchange.id;
        }
    }
}

impl Receiving {
    fn read(from: &mut Source<'_>) -> Result<Receiving, Malformed> {
        let all = [Receiving::Idle, Receiving::Head, Receiving::Content];
        let number = u8::read(from)?;
        all.into_iter().find(|receiving| *receiving as u8 == number).ok_or(Malformed)
    }
}

impl Portable for Incoming {
    fn write(&self, to: &mut Encoded) {
        self.content.write(to);
        self.bytes_left.write(to);
        self.continues.write(to);
        self.closing.write(to);
    }

    fn read(from: &mut Source<'_>) -> Result<Incoming, Malformed> {
        let (content, bytes_left) = (Content::read(from)?, u64::read(from)?);
        let (continues, closing) = (bool::read(from)?, bool::read(from)?);
        let comes = !matches!(content, Content::Empty);
        // It belongs to nothing, until exchanges are named.
        checked(Incoming { id: ExchangeId(0), content, bytes_left, continues, closing, pace: None }, comes)
    }
}

impl Portable for Content {
    fn write(&self, to: &mut Encoded) {
        match self {
            // A program has a tunnel, and does not travel: see `is_transferable`.
            Content::Empty | Content::Tunnel => 0u8.write(to),
            Content::Sized(left) => {
                1u8.write(to);
                left.write(to);
            }
            Content::Chunked(decoder) => {
                2u8.write(to);
                decoder.write(to);
            }
        }
    }

    fn read(from: &mut Source<'_>) -> Result<Content, Malformed> {
        match u8::read(from)? {
            0 => Ok(Content::Empty),
            1 => u64::read(from).map(Content::Sized),
            2 => ChunkedDecoder::read(from).map(Content::Chunked),
            _ => Err(Malformed),
        }
    }
}

/// Persistence, in the order of the numbers that stand for it.
const PERSISTENCE: [Persistence; 3] = [Persistence::Implied, Persistence::KeepAlive, Persistence::Close];
const WANTING: u8 = 0;
const OPTIONS: u8 = 1;
const ANSWERING: u8 = 2;

impl Portable for Exchange {
    fn write(&self, to: &mut Encoded) {
        self.started.write(to);
        self.request.write(to);
        self.awaits_content.write(to);
        let asks_for_options = self.request.as_ref().is_some_and(|saved| saved.head.method == Method::Options);
        match &self.state {
            State::Resolved(_) if asks_for_options => OPTIONS.write(to),
            // A program does not travel: see `is_transferable`.
            State::Wanting
            | State::Resolving
            | State::Resolved(_)
            | State::Postponed
            | State::Running(_)
            | State::Answered(_) => WANTING.write(to),
            State::Answering(answer) => {
                ANSWERING.write(to);
                let persistence = PERSISTENCE.iter().position(|one| *one == self.persistence).unwrap_or(0);
                (persistence as u8).write(to);
                answer.write(to);
            }
        }
    }

    fn read(from: &mut Source<'_>) -> Result<Exchange, Malformed> {
        let (started, request) = (Instant::read(from)?, Option::<Saved>::read(from)?);
        let awaits_content = bool::read(from)?;
        let asks_for_options = request.as_ref().is_some_and(|saved| saved.head.method == Method::Options);
        let mut persistence = Persistence::default();
        let state = match u8::read(from)? {
            WANTING => State::Wanting,
            OPTIONS if asks_for_options => {
                let saved = request.as_ref().ok_or(Malformed)?;
                State::Resolved(from.pages.options_of(host_of(saved.request()), saved.request()))
            }
            ANSWERING => {
                persistence = *PERSISTENCE.get(usize::from(u8::read(from)?)).ok_or(Malformed)?;
                State::Answering(Answer::read(from)?)
            }
            _ => return Err(Malformed),
        };
        let kept = request.is_some() || matches!(state, State::Answering(_));
        checked(Exchange { id: ExchangeId(0), request, state, persistence, awaits_content, started }, kept)
    }
}

/// An instant that a connection can hold as it is.
fn compact(instant: Instant) -> Result<CompactInstant, Malformed> {
    let compact = CompactInstant::from(instant);
    checked(compact, Instant::from(compact) == instant)
}
