//! How long an exchange with an application may be quiet.
//!
//! Owns: the deadline of an exchange, and the end of a WebSocket over which nothing passes. What the client takes is
//! not looked at here: that is the connection's (`lamna_proto::conn`).

use lamna_policy::upstream::Outcome;
use lamna_proto::exchange::program::{Next, Part, StepResult};
use lamna_proto::time::Instant;

use super::progress::Phase;
use super::{Gateway, State};

impl Gateway {
    /// Something has passed, or it is for the client to go on.
    pub(super) fn postpone(&mut self) {
        self.deadline = self.quiet_ms().map_or(Instant::from_ms(u64::MAX), |ms| self.now.after_ms(ms));
    }

    /// The deadline, if there is one: no later than from now on it would be, whatever bounded the wait when it was set.
    pub(super) fn due(&mut self) -> Option<Instant> {
        let latest = self.now.after_ms(self.quiet_ms()?);
        self.deadline = self.deadline.min(latest);
        Some(self.deadline)
    }

    /// How long nothing may pass, if that is bounded. A tunnel whose client has ended its side may have lost its
    /// client, which looks the same as one that only listens, and the application may be one that ends no tunnel.
    fn quiet_ms(&self) -> Option<u32> {
        let settings = &self.group.settings;
        match &self.state {
            State::Connected(connection) => match connection.phase {
                Phase::Unsent | Phase::Sent | Phase::Deaf => Some(settings.timeout_ms),
                Phase::Tunnel => settings.websocket_timeout_ms,
                Phase::TunnelHalfClosed => {
                    let bound_ms = settings.websocket_timeout_ms.unwrap_or(u32::MAX);
                    Some(bound_ms.min(settings.timeout_ms))
                }
            },
            _ => Some(settings.timeout_ms),
        }
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
