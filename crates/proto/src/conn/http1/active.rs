//! The state that a connection holds only while it is busy, and the life of the requests in it.
//!
//! Owns: [`Active`], the requests that have not been answered in full, in order, and [`ScratchSpace`], what a worker
//! lends besides. Guarantees: given back as soon as there is none. Does not read input or write output.

use std::collections::VecDeque;
use std::sync::Arc;

use super::exchange::{Exchange, Incoming};
use crate::conn::send_deadline::SendDeadline;
use crate::exchange::answer::Answer;
use crate::exchange::state::State;
use crate::exchange::{ExchangeId, Need, Saved};
use crate::held::{Charge, Held};
use crate::in_flight::InFlightAnswers;
use crate::limits::{Limits, UNCOUNTED_BYTES_MAX};
use crate::message::{Head, Request};
use crate::resource::Resource;

/// A worker's state for connections of HTTP/1.x: part of a [`Workspace`](crate::workspace::Workspace).
#[derive(Debug, Default)]
pub(crate) struct ScratchSpace {
    /// The request at the front of the input that waits for its first answer, if there is one.
    pub(super) current: Option<Head>,
    /// Parts for connections that become busy.
    #[expect(clippy::vec_box, reason = "moved between connections as they are, without copying or allocating")]
    spare: Vec<Box<Active>>,
}

/// How many spare parts a worker keeps.
const SPARE_MAX: usize = 256;

impl ScratchSpace {
    /// An empty part for a connection that becomes busy.
    pub(super) fn take(&mut self) -> Box<Active> {
        self.spare.pop().unwrap_or_default()
    }

    /// Takes back a part that is empty, if there is room for it.
    pub(super) fn take_back(&mut self, mut active: Box<Active>) {
        debug_assert!(active.is_empty());
        active.taking.clear();
        if self.spare.len() < SPARE_MAX {
            self.spare.push(active);
        }
    }
}

/// The state that a connection holds only while it is busy.
#[derive(Debug, Default)]
pub(crate) struct Active {
    /// Received and not consumed, while parked.
    pub(super) unread: Vec<u8>,
    /// Whether that fills the input, while parked.
    pub(super) is_full: bool,
    /// To be sent, while parked.
    pub(super) unsent: Vec<u8>,
    /// The content that is being received.
    pub(super) receiving: Option<Incoming>,
    /// Requests not yet answered in full, in order.
    pub(super) exchanges: VecDeque<Exchange>,
    /// Answers that have been written and have not left, while parked.
    pub(super) in_flight: InFlightAnswers,
    /// Until when the peer has to take what there is for it.
    pub(super) taking: SendDeadline,
    /// Space for requests to be saved.
    spare_bytes: Vec<Vec<u8>>,
    /// Its charge in the memory that all connections hold.
    charge: Option<Charge>,
}

/// How many saved requests' space is kept: enough for a connection that pipelines as much as it may by default.
const SPARE_COUNT_MAX: usize = 8;
/// The largest space that is kept, in bytes: most heads fit, and few large ones must not make every connection large.
const SPARE_BYTES_MAX: usize = 2 * 1024;

impl Active {
    /// One that holds this, while parked.
    pub(super) fn holding(
        unread: Vec<u8>,
        unsent: Vec<u8>,
        receiving: Option<Incoming>,
        exchanges: VecDeque<Exchange>,
        in_flight: InFlightAnswers,
    ) -> Active {
        Active { unread, unsent, receiving, exchanges, in_flight, ..Active::default() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.unread.is_empty()
            && self.unsent.is_empty()
            && self.receiving.is_none()
            && self.exchanges.is_empty()
            && self.in_flight.is_empty()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let exchanges = self.exchanges.iter();
        let sending: usize = exchanges.clone().map(|one| one.state.memory_bytes()).sum();
        let saved: usize = exchanges.filter_map(|one| Some(one.request.as_ref()?.memory_bytes())).sum();
        let queued = self.exchanges.capacity() * size_of::<Exchange>() + self.in_flight.memory_bytes();
        let spare: usize = self.spare_bytes.iter().map(Vec::capacity).sum();
        let buffered = self.unread.capacity() + self.unsent.capacity();
        size_of::<Active>() + queued + saved + sending + spare + buffered
    }

    /// Counts what is held in `held`, if it is worth it.
    pub(super) fn count_in(&mut self, held: &Arc<Held>) {
        let bytes = Some(self.memory_bytes()).filter(|bytes| *bytes > UNCOUNTED_BYTES_MAX).map(|bytes| bytes as u64);
        if self.charge.as_ref().map(Charge::bytes) != bytes {
            self.charge = bytes.map(|bytes| Charge::new(held, bytes));
        }
    }

    /// Nothing is held any more.
    pub(super) fn discount(&mut self) {
        self.charge = None;
    }

    /// Whether another request may be begun behind those that there are.
    pub(super) fn has_room(&self, limits: &Limits, held_bytes_max: u64) -> bool {
        let Some(waiting) = self.exchanges.len().checked_sub(1) else { return true };
        let is_postponed = |exchange: &Exchange| exchange.state.is_postponed();
        held_bytes_max > 0
            && waiting + 1 < limits.exchanges_max
            && !self.exchanges.iter().any(is_postponed)
            && (waiting == 0 || self.waiting_bytes() < held_bytes_max)
    }

    /// Whether `resource` may be held by an exchange that is not the first in line.
    pub(super) fn may_hold(&self, resource: &Resource, held_bytes_max: u64) -> bool {
        self.waiting_bytes() + resource.held_bytes() <= held_bytes_max
    }

    /// Bytes of content in memory that is held behind the first in line.
    pub(super) fn waiting_bytes(&self) -> u64 {
        self.exchanges.iter().skip(1).map(|one| one.state.held_bytes()).sum()
    }

    /// A copy of `request`.
    pub(super) fn save(&mut self, request: Request<'_>) -> Saved {
        let mut bytes = self.spare_bytes.pop().unwrap_or_default();
        bytes.clear();
        bytes.extend_from_slice(&request.bytes[..usize::from(request.head.length)]);
        Saved::new(bytes, *request.head)
    }

    /// Keeps the space of a request that is not needed any more.
    pub(super) fn recycle(&mut self, bytes: Vec<u8>) {
        if self.spare_bytes.len() < SPARE_COUNT_MAX && bytes.capacity() <= SPARE_BYTES_MAX {
            self.spare_bytes.push(bytes);
        }
    }

    /// The exchange that has a need which has not been handed out.
    pub(super) fn wanting(&self) -> Option<usize> {
        let front_reads = self.exchanges.front()?.state.answer().is_some_and(Answer::wants_read);
        let wants = |exchange: &Exchange| exchange.state.is_wanting();
        if front_reads { Some(0) } else { self.exchanges.iter().position(wants) }
    }

    pub(super) fn need(&mut self) -> Option<(ExchangeId, Need<'_>)> {
        let index = self.wanting()?;
        let Exchange { id, request, state, .. } = &mut self.exchanges[index];
        Some((*id, state.need(request)?))
    }

    /// `bytes` of the segment that was offered have been sent.
    pub(super) fn segment_sent(&mut self, bytes: u64) {
        match self.exchanges.front_mut().map(|exchange| &mut exchange.state) {
            Some(State::Answering(answer)) => answer.take(bytes),
            Some(State::Running(running)) => {
                if let Some(sending) = running.sending_mut() {
                    sending.take(bytes);
                }
            }
            _ => {}
        }
    }
}
