//! Parked connections that move to another driver, in mid-request, in mid-batch or in mid-answer.
//!
//! Owns: what the driver that leaves has to say before another goes on. Guarantees: no byte is lost, sent twice or
//! reordered, and every need that is not met is handed out again. Does not move anything: a parked connection is plain
//! data.

use super::{Connection, Receiving};
use crate::exchange::state::State;
use crate::time::Instant;

impl Connection {
    /// Needs that were handed out and are not met will be handed out again: the driver that had deferred them has let
    /// go of them. What it still does for them counts for nobody.
    ///
    /// # Panics
    /// If the connection is not parked, as with the other methods here.
    pub fn recall_needs(&mut self) {
        self.assert_parked();
        let (mut has_lost, mut is_cut) = (false, false);
        let exchanges = self.active.iter_mut().flat_map(|active| &mut active.exchanges);
        for exchange in exchanges {
            match &mut exchange.state {
                State::Resolving => exchange.state = State::Wanting,
                State::Answering(answer) => (answer.reading, answer.paused) = (false, false),
                // A step that its driver has not finished is not done again.
                State::Running(running) => {
                    let is_away = running.is_away();
                    running.lose();
                    match (is_away, running.has_begun()) {
                        (true, true) => is_cut = true,
                        (true, false) => (exchange.awaits_content, has_lost) = (false, true),
                        (false, _) => {}
                    }
                }
                State::Wanting | State::Resolved(_) | State::Postponed | State::Answered(_) => {}
            }
        }
        if let Some(active) = self.active.as_mut().filter(|_| has_lost) {
            active.receiving = None;
            (self.closing, self.lingers, self.receiving) = (true, true, Receiving::Idle);
        }
        if is_cut {
            // What has left of the answer cannot be completed.
            self.handle_broken();
        }
    }

    /// `bytes`, of which `handle_sent` has been said, have not been sent: they come before everything else. For drivers
    /// that say it when they hand bytes to the kernel, and take them back.
    pub fn return_unsent(&mut self, bytes: &[u8]) {
        self.assert_parked();
        if !(bytes.is_empty() || self.broken) {
            let active = self.active.get_or_insert_default();
            active.unsent.splice(..0, bytes.iter().copied());
            active.in_flight.put_before(bytes.len());
        }
    }

    /// `bytes` have been received that were not written into `receive_space`: they follow what was. For drivers that
    /// receive ahead.
    pub fn return_received(&mut self, bytes: &[u8], now: Instant) {
        self.assert_parked();
        if bytes.is_empty() || self.broken {
            return;
        }
        self.received = now.into();
        if self.closing {
            self.lingers = true;
            return;
        }
        if self.receiving != Receiving::Head {
            self.since = now.into();
        }
        if self.receiving == Receiving::Idle {
            self.receiving = Receiving::Head;
        }
        let active = self.active.get_or_insert_default();
        active.unread.extend_from_slice(bytes);
        // Whether there is room for more is known when there is a workspace.
        active.is_full = true;
    }

    pub(super) fn assert_parked(&self) {
        assert!(self.workspace.is_none(), "a connection that moves is parked");
    }
}
