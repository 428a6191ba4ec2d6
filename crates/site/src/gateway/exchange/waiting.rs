//! How long an exchange with an application may be quiet.
//!
//! Owns: the deadline of an exchange, and the end of a WebSocket over which nothing passes. What the client takes is
//! not looked at here: that is the connection's (`lamna_proto::conn`).

use lamna_policy::upstream::Outcome;
use lamna_proto::exchange::program::{Next, Part, StepResult};
use lamna_proto::time::Instant;

use super::{Gateway, State};

impl Gateway {
    /// Something has passed, or it is for the client to go on.
    pub(super) fn postpone(&mut self) {
        let settings = &self.group.settings;
        let timeout_ms = if self.is_tunnel() { settings.websocket_timeout_ms } else { Some(settings.timeout_ms) };
        self.deadline = timeout_ms.map_or(Instant::from_ms(u64::MAX), |ms| self.now.after_ms(ms));
    }

    /// Nothing has passed over a tunnel for as long as it may be quiet.
    pub(super) fn end_quiet_tunnel(&mut self) -> StepResult {
        self.state = State::Over;
        if let Some(attempt) = self.attempt.take() {
            self.group.end(attempt, self.now, Outcome::Unknown);
        }
        StepResult::Gives(Box::new(Part { end: Some(Vec::new()), ..Part::default() }), Next::default())
    }
}
