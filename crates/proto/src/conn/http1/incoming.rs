//! The content of a request on its way in: how much may still come, how slowly, and discarding content without a taker.
//!
//! Owns: the fate of each byte of it that arrives. Content is looked at when its taker is known: a program
//! ([`super::running`]) or none. Guarantees: discarded content is bounded, and read to its end, so that the connection
//! stays in step.

use super::exchange::Exchange;
use super::{Connection, DRIVEN, Receiving};
use crate::error::Refusal;
use crate::exchange::state::State;

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
            Some(State::Wanting | State::Resolving) => Taker::Unknown,
            Some(State::Running(_)) => Taker::Program,
            Some(State::Resolved(_) | State::Postponed | State::Answering(_) | State::Answered(_)) | None => {
                Taker::Nobody
            }
        }
    }

    /// Discards the content that has arrived without a taker. Whether that was the end of it.
    pub(super) fn discard_content(&mut self) -> Result<bool, Refusal> {
        let workspace = self.workspace.as_mut().expect(DRIVEN);
        let incoming = self.active.as_mut().and_then(|active| active.receiving.as_mut());
        let Some(incoming) = incoming else { return Ok(true) };
        loop {
            let piece =
                incoming.take(workspace.input.unread(), &workspace.output_buffer.limits, self.received.into())?;
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
        let output_buffer = &mut self.workspace.as_mut().expect(DRIVEN).output_buffer;
        let Some(incoming) = self.active.as_mut().and_then(|active| active.receiving.as_mut()) else { return Ok(()) };
        incoming.limit(output_buffer.limits.body_bytes_max)?;
        if std::mem::take(&mut incoming.continues) {
            output_buffer.bytes.extend_from_slice(CONTINUE);
        }
        Ok(())
    }
}

/// RFC 9110 15.2.1.
pub(super) const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
