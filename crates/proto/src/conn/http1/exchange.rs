//! A request of HTTP/1.x that is not yet answered in full, and the content that is being received.
//!
//! Owns: [`Exchange`] and [`Incoming`]: what they have because they stand in a line on one connection. How far an
//! exchange is, is [`State`]'s.

use super::writer::Persistence;
use crate::conn::framing::{Content, Piece};
use crate::conn::pace::Pace;
use crate::error::Refusal;
use crate::exchange::state::State;
use crate::exchange::{ExchangeId, Saved};
use crate::limits::Limits;
use crate::tally::Outcome;
use crate::time::Instant;

/// A request that is not yet answered in full.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(super) id: ExchangeId,
    pub(super) request: Option<Saved>,
    pub(super) state: State,
    /// The answer says this of the connection, once it is decided on.
    pub(super) persistence: Persistence,
    /// Its content has not been received to the end, and it is not answered before that.
    pub(super) awaits_content: bool,
    /// When its head had been received.
    pub(super) started: Instant,
}

impl Exchange {
    /// Its answer as it is counted and logged, once that has begun.
    pub(super) fn outcome(&self) -> Option<Outcome> {
        self.state.outcome(self.started, false)
    }

    /// Whether a part of its answer may have left.
    pub(super) fn has_begun(&self) -> bool {
        self.state.begun().is_some()
    }
}

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
