//! Invariants of a gateway, between two steps.
//!
//! Owns: [`Gateway::check_invariants`]. Guarantees: costs nothing in a build without assertions; changes nothing. Where
//! it fails we are wrong, and not the application.

use lamna_policy::upstream::Attempt;

use super::progress::{Told, Upload};
use super::{Gateway, RETRIES_MAX, State};

impl Gateway {
    /// Checks that its parts agree, in a build with assertions.
    ///
    /// # Panics
    /// If they do not.
    pub(super) fn check_invariants(&self) {
        if !cfg!(debug_assertions) {
            return;
        }
        let at = self.attempt.as_ref().map(Attempt::index);
        match &self.state {
            State::Selecting | State::Over => assert_eq!(at, None, "a place is asked by nobody"),
            State::Resolving(index) | State::BackingOff(index, _) => {
                assert_eq!(at, Some(*index), "another place is asked")
            }
            State::Dialling(_) | State::Handshaking(_) => assert!(at.is_some(), "no place is connected to"),
            State::Connected(connection) => {
                assert!(at.is_some(), "no place is talked to");
                let is_known = !connection.phase.is_tunnel() || self.told == Told::Head;
                assert!(is_known, "the client does not know of a tunnel");
            }
        }
        assert!(at.is_none_or(|index| !self.tried.contains(&index)), "a place that has failed is asked again");
        assert!(self.retries <= RETRIES_MAX, "it was tried again {} times", self.retries);
        let is_sent_from_buffer = matches!(self.upload, Upload::Awaited | Upload::Whole);
        assert!(self.buffer.is_none() || is_sent_from_buffer, "content is in the buffer, and has gone on");
    }
}
