//! The content of a request on its way in: how much may still come, how slowly, and discarding content without a taker.
//!
//! Owns: [`Incoming`]. Content is looked at when its taker is known: a program ([`super::running`]) or none.
//! Guarantees: discarded content is bounded, and read to its end, so that the connection stays in step.

use super::{Connection, DRIVEN, Receiving};
use crate::conn::framing::{Content, Piece};
use crate::conn::pace::Pace;
use crate::error::Refusal;
use crate::exchange::{Exchange, ExchangeId, State};
use crate::limits::Limits;
use crate::time::Instant;

/// Content that is being received.
#[derive(Debug)]
pub(super) struct Incoming {
    /// The exchange that it belongs to, which may have been answered already.
    pub(super) id: ExchangeId,
    pub(super) content: Content,
    /// How many bytes of it may still come.
    pub(super) bytes_left: u64,
    /// The client waits for an interim answer before it sends it.
    pub(super) continues: bool,
    /// Whether the request is the last of the connection.
    pub(super) closing: bool,
    /// How fast it arrives: of what arrived at this driver.
    pub(super) pace: Option<Pace>,
}

impl Incoming {
    /// The next piece of it in `input`, the last of which was received at `now`.
    pub(super) fn take(&mut self, input: &[u8], limits: &Limits, now: Instant) -> Result<Piece, Refusal> {
        let piece = self.content.next(input)?;
        self.bytes_left = self.bytes_left.checked_sub(piece.content.len() as u64).ok_or(Refusal::ContentTooLarge)?;
        self.pace.get_or_insert(Pace::new(now)).count(piece.consumed, limits, now);
        Ok(piece)
    }

    /// From now on at most `bytes_max` may come.
    ///
    /// # Errors
    /// It is known that more will.
    pub(super) fn limit(&mut self, bytes_max: u64) -> Result<(), Refusal> {
        self.bytes_left = bytes_max;
        if self.content.known_bytes() > bytes_max { Err(Refusal::ContentTooLarge) } else { Ok(()) }
    }

    /// Until when more has to arrive, so that it does not come slower than it may.
    pub(super) fn patience(&self, limits: &Limits) -> Option<Instant> {
        let pace = self.pace.as_ref().filter(|_| !matches!(self.content, Content::Tunnel))?;
        Some(pace.until(limits))
    }

    /// For so long, until `now`, it was not for the peer that nothing arrived.
    pub(super) fn forgive(&mut self, ms: u64, now: Instant) {
        if let Some(pace) = &mut self.pace {
            pace.forgive(ms, now);
        }
    }
}

/// Whose the content is that is being received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taker {
    /// It is not known yet.
    Unknown,
    /// A program.
    Program,
    /// None: it is discarded.
    Nobody,
}

impl Connection {
    /// The exchange whose content is being received, unless it has been answered.
    fn receiving_exchange(&mut self) -> Option<&mut Exchange> {
        let active = self.active.as_mut()?;
        let id = active.receiving.as_ref()?.id;
        active.exchanges.iter_mut().find(|exchange| exchange.id == id)
    }

    pub(super) fn taker(&mut self) -> Taker {
        match self.receiving_exchange().map(|exchange| &exchange.state) {
            Some(State::Wanting | State::Translating) => Taker::Unknown,
            Some(State::Running(_)) => Taker::Program,
            Some(State::Translated(_) | State::Postponed | State::Answering(_)) | None => Taker::Nobody,
        }
    }

    /// Discards the content that has arrived without a taker. Whether that was the end of it.
    pub(super) fn discard_content(&mut self) -> Result<bool, Refusal> {
        let workspace = self.workspace.as_mut().expect(DRIVEN);
        let incoming = self.active.as_mut().and_then(|active| active.receiving.as_mut());
        let Some(incoming) = incoming else { return Ok(true) };
        loop {
            let piece = incoming.take(workspace.input.unread(), &workspace.outlet.limits, self.received)?;
            workspace.input.consume(piece.consumed);
            if piece.ended {
                self.end_content();
                return Ok(true);
            }
            if workspace.input.unread().is_empty() {
                return Ok(false);
            }
        }
    }

    /// The content has been received.
    pub(super) fn end_content(&mut self) {
        if let Some(exchange) = self.receiving_exchange() {
            exchange.awaits_content = false;
        }
        let Some(incoming) = self.active.as_mut().and_then(|active| active.receiving.take()) else { return };
        self.receiving = Receiving::Idle;
        self.closing = incoming.closing || self.draining && !self.promised;
        let workspace = self.workspace.as_mut().expect(DRIVEN);
        self.lingers |= workspace.input.discard_if(self.closing);
    }

    /// The answer is known, and it does not take the content of the request: at most so much may come.
    pub(super) fn begin_discarding(&mut self) -> Result<(), Refusal> {
        let outlet = &mut self.workspace.as_mut().expect(DRIVEN).outlet;
        let Some(incoming) = self.active.as_mut().and_then(|active| active.receiving.as_mut()) else { return Ok(()) };
        incoming.limit(outlet.limits.body_bytes_max)?;
        if std::mem::take(&mut incoming.continues) {
            outlet.output.extend_from_slice(CONTINUE);
        }
        Ok(())
    }
}

/// RFC 9110 15.2.1.
pub(super) const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
