//! The bytes to the application: the head, and content as it comes or from the buffer.
//!
//! Owns: the sending side of a [`Gateway`]. Guarantees: no more is taken from the client, or read from a file, than the
//! connection takes.

use lamna_io::Wait;
use lamna_proto::exchange::program::Input;
use lamna_proto::gateway::GatewayError;

use super::buffer::ContentBuffer;
use super::progress::{Phase, UpstreamConnection};
use super::{Gateway, Problem, State};

/// Pieces in one step: others have their turn.
const PIECES_MAX: usize = 8;

impl Gateway {
    /// Content that the client has sent goes behind what is being sent.
    pub(super) fn take_content(&mut self, input: &Input<'_>) -> Result<(), Problem> {
        if !self.takes_content() {
            return Ok(());
        }
        let written = match &mut self.state {
            State::Connected(connection) if connection.phase.is_tunnel() => {
                self.outgoing.bytes.extend_from_slice(input.content);
                if input.is_last {
                    connection.phase.end_sending();
                }
                Ok(())
            }
            _ => {
                self.upload.pass(input.content, input.is_last);
                let written = self.codec.write_content(input.content, &mut self.outgoing.bytes);
                written.and_then(|()| match input.is_last {
                    true => self.codec.end_content(&mut self.outgoing.bytes),
                    false => Ok(()),
                })
            }
        };
        // The core has judged the length: this is for what announces none, and has content all the same.
        written.map_err(|_| Problem::of(GatewayError::BrokenOff))
    }

    /// Whether what the client sends goes on to the application, now or when there is a connection.
    pub(super) fn takes_content(&self) -> bool {
        match &self.state {
            State::Over => false,
            _ if !self.expectation.lets_content() => false,
            State::Connected(connection) => match connection.phase {
                Phase::Unsent | Phase::Sent => self.upload.is_open(),
                Phase::Tunnel => true,
                Phase::Deaf | Phase::TunnelHalfClosed => false,
            },
            _ => self.upload.is_open(),
        }
    }

    /// Whether the bytes exchanged are not HTTP any more.
    pub(super) fn is_tunnel(&self) -> bool {
        matches!(&self.state, State::Connected(connection) if connection.phase.is_tunnel())
    }

    /// Sends pending bytes, and buffered content behind them. Whether anything was sent.
    pub(super) fn send(&mut self) -> Result<bool, Problem> {
        // Carried out where that may be, then.
        let wait = if self.buffer.as_ref().is_some_and(ContentBuffer::may_block) { Wait::Yes } else { Wait::No };
        let mut has_sent = false;
        for _ in 0..PIECES_MAX {
            let has_more = self.refill(wait)?;
            has_sent |= self.send_once()?;
            if !has_more || !self.outgoing.is_empty() {
                break;
            }
        }
        Ok(has_sent)
    }

    /// Appends the next piece of buffered content to the pending bytes, if these have left or are only the head.
    /// Whether more may follow at once.
    fn refill(&mut self, wait: Wait) -> Result<bool, Problem> {
        let Some(buffer) = self.buffer.as_mut().filter(|buffer| buffer.has_left()) else { return Ok(false) };
        if !self.outgoing.is_empty() && buffer.sent > 0 {
            return Ok(false);
        }
        let Some(piece) = buffer.next(wait) else { return Ok(false) };
        // The buffered content is as long as was announced.
        let too_long = |_| Problem::of(GatewayError::BrokenOff);
        self.codec.write_content(piece, &mut self.outgoing.bytes).map_err(too_long)?;
        if buffer.sent == buffer.bytes() {
            buffer.end();
            self.codec.end_content(&mut self.outgoing.bytes).map_err(too_long)?;
        }
        Ok(buffer.has_left())
    }

    /// Whether the application has been sent all that there is for it.
    pub(super) fn is_sent(&self) -> bool {
        let has_left = self.buffer.as_ref().is_some_and(ContentBuffer::has_left);
        !has_left
            && self.outgoing.is_empty()
            && !matches!(&self.state, State::Connected(connection) if connection.link.wants_write())
    }

    /// Sends what is on its way. Whether that was anything.
    fn send_once(&mut self) -> Result<bool, Problem> {
        let State::Connected(UpstreamConnection { link, phase, .. }) = &mut self.state else { return Ok(false) };
        let sent = self.outgoing.send(link);
        if sent.any {
            phase.handle_sent();
        }
        match sent.failed {
            None => {}
            Some(errno) if *phase == Phase::Unsent => return Err(Problem::with(GatewayError::Closed, &errno)),
            // It takes no more, and may have answered: that is read, and what the client sends is not asked for.
            Some(_) => {
                self.outgoing.clear();
                self.buffer.iter_mut().for_each(ContentBuffer::stop);
                phase.end_sending();
            }
        }
        if *phase == Phase::TunnelHalfClosed && self.outgoing.is_empty() {
            // The client has said its last word; one that was told so before is told nothing new.
            link.end_sending();
        }
        Ok(sent.any)
    }
}
