//! The waits of a connection: for whom, until when, and what comes when one is over (RFC 9112 9.5).
//!
//! Owns: the instants that waits are counted from. Guarantees: every wait for a peer has an end. Does not read a clock.

use super::exchange::Exchange;
use super::{Connection, Receiving, Wait};
use crate::error::Refusal;
use crate::exchange::state::State;
use crate::limits::{LINGER_MS_MAX, Limits, READ_CONTENT_TIMEOUT_MS};
use crate::time::Instant;

impl Connection {
    /// Until when the current wait may last; none if it depends on us alone. Changes with every `handle_*`.
    pub fn poll_timeout(&self, limits: &Limits) -> Option<Instant> {
        if !self.broken && self.is_waiting_program() {
            return self.running_timeout(limits);
        }
        let since = |wait_ms| self.since().after_ms(wait_ms);
        let until = match self.wait() {
            Wait::Done | Wait::Close => return None,
            Wait::Send => self.taking_until(limits),
            // A peer that still sends has not read the answer yet.
            Wait::Linger => {
                let most = since(limits.linger_timeout_ms.max(LINGER_MS_MAX));
                self.last().after_ms(limits.linger_timeout_ms).min(most)
            }
            Wait::Receive => match self.receiving {
                Receiving::Idle => since(limits.idle_timeout_ms),
                Receiving::Head => since(limits.head_timeout_ms),
                Receiving::Content => since(limits.body_timeout_ms),
            },
        };
        if let Some(read) = self.front_answer().and_then(|answer| answer.read.as_ref()) {
            return Some(until.min(read.since.after_ms(READ_CONTENT_TIMEOUT_MS)));
        }
        let incoming = self.active.as_ref().and_then(|active| active.receiving.as_ref());
        let patience = incoming.filter(|_| self.receiving == Receiving::Content).and_then(|one| one.patience(limits));
        Some(patience.map_or(until, |patience| patience.min(until)))
    }

    /// Until when the peer has to take more of what there is for it.
    pub(super) fn taking_until(&self, limits: &Limits) -> Instant {
        let deadline = self.active.as_ref().and_then(|active| active.taking.until(limits.send_timeout_ms));
        deadline.unwrap_or(self.last().after_ms(limits.send_timeout_ms))
    }

    /// Notes whether it is for the peer to go on.
    pub(super) fn note_taking(&mut self, now: Instant) {
        let (has_output, is_amid) =
            (self.has_output(), self.front_answer().is_some_and(|answer| answer.begun && !answer.is_finished()));
        let Some(active) = &mut self.active else { return };
        match (has_output, is_amid) {
            (true, _) => active.taking.run(now),
            (false, true) => active.taking.pause(now),
            (false, false) => active.taking.clear(),
        }
    }

    /// The wait that `poll_timeout` named is over. A request half received is answered with 408 (RFC 9110 15.5.9).
    /// Ignored if no wait was named: a timer may have been overtaken.
    pub fn handle_timeout(&mut self, now: Instant) {
        if !self.broken && self.is_waiting_program() {
            return self.handle_running_timeout(now);
        }
        match self.wait() {
            Wait::Receive if self.receiving != Receiving::Idle => {
                self.since = now.into();
                self.refuse(Refusal::Timeout);
            }
            Wait::Send if self.let_go_of_content(now) => {}
            Wait::Receive | Wait::Send | Wait::Linger => self.handle_broken(),
            Wait::Done | Wait::Close => {}
        }
    }

    /// Gives back what was read for a peer that has not taken it in time. False if there is none.
    fn let_go_of_content(&mut self, now: Instant) -> bool {
        let front = self.active.as_mut().and_then(|active| active.exchanges.front_mut());
        let Some(Exchange { state: State::Answering(answer), .. }) = front else { return false };
        let is_late = answer.read.as_ref().is_some_and(|read| read.since.after_ms(READ_CONTENT_TIMEOUT_MS) <= now);
        if is_late {
            answer.let_go();
        }
        is_late
    }

    pub(super) fn since(&self) -> Instant {
        self.since.into()
    }

    pub(super) fn received(&self) -> Instant {
        self.received.into()
    }

    /// When something was received or left last.
    pub(super) fn last(&self) -> Instant {
        self.since().max(self.received())
    }
}
