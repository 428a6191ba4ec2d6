//! Invariants of a connection of HTTP/1.x, between any two things that it is told and whatever its peer has sent.
//!
//! Owns: [`Connection::check_invariants`]. Guarantees: costs nothing in a build without assertions; changes nothing.
//! Where it fails we are wrong, and not the peer.

use super::exchange::Exchange;
use super::{Active, Connection, Receiving};
use crate::exchange::state::State;

impl Connection {
    /// Checks that its parts agree, in a build with assertions.
    ///
    /// # Panics
    /// If they do not.
    pub(crate) fn check_invariants(&self) {
        if !cfg!(debug_assertions) {
            return;
        }
        if let Some(active) = &self.active {
            assert!(!self.broken || active.exchanges.is_empty(), "nothing is answered any more");
            self.check_line(active);
            let parked = (&active.in_flight, active.unsent.len());
            let (in_flight, output_bytes) = match &self.workspace {
                Some(workspace) => (&workspace.in_flight, workspace.output_buffer.bytes.len()),
                None => parked,
            };
            in_flight.check_invariants(output_bytes);
        }
        self.check_receiving();
    }

    /// The line: each exchange has a name that is newer than the one before, only the first has begun to be answered,
    /// and only the last can have content that is still to come.
    fn check_line(&self, active: &Active) {
        let mut before: Option<&Exchange> = None;
        for exchange in &active.exchanges {
            let id = exchange.id;
            if let Some(before) = before {
                assert!(is_behind(before.id.0, id.0), "{id:?} stands behind {:?}", before.id);
                assert!(!exchange.has_begun(), "{id:?} is answered before its turn");
                assert!(!before.awaits_content, "{id:?} was received before the content of {:?}", before.id);
            }
            assert!(!matches!(exchange.state, State::Answered(_)), "{id:?} has been answered, and stays");
            exchange.state.check_invariants();
            before = Some(exchange);
        }
        let newest = before.is_none_or(|newest| !is_behind(self.last_id.0, newest.id.0));
        assert!(newest, "{:?} is the newest, and {:?} is there", self.last_id, before.map(|newest| newest.id));
    }

    /// Content that is received belongs to the exchange that awaits it, or to one that has been answered.
    fn check_receiving(&self) {
        let incoming = self.active.as_ref().and_then(|active| active.receiving.as_ref());
        let is_content = self.receiving == Receiving::Content;
        assert_eq!(is_content, incoming.is_some(), "content is received, and it is not known of what");
        let newest = self.active.as_ref().and_then(|active| active.exchanges.back());
        if let Some(newest) = newest.filter(|newest| newest.awaits_content) {
            let of = incoming.map(|incoming| incoming.id);
            assert_eq!(of, Some(newest.id), "the content of another is received");
        }
    }
}

/// Whether the name `later` was given after `earlier`. Names come round.
fn is_behind(earlier: u32, later: u32) -> bool {
    (1..u32::MAX / 2).contains(&later.wrapping_sub(earlier))
}
