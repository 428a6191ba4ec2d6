//! Single steps of a request, as single calls: what divides the sums that trials measure.
//!
//! Owns: which ones there are, and their medians. Guarantees: measured on the one processor that the thread is confined
//! to.

use std::io;

use serde::{Deserialize, Serialize};

use crate::simulator::micro;

/// Single steps, in microseconds.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(in crate::simulator) struct Steps {
    pub(super) parse: f64,
    pub(super) calls: micro::SocketCalls,
    pub(super) switch: f64,
    pub(super) hand_off: f64,
    pub(super) lock: f64,
    pub(super) turn: f64,
    /// How fast the machine was; 0: not known.
    #[serde(default)]
    yardstick: f64,
}

impl Steps {
    /// On the one processor that the thread is confined to.
    pub(super) fn measure() -> io::Result<Steps> {
        let switch = micro::switch_us()?;
        Ok(Steps {
            parse: micro::parse_and_answer_us(),
            calls: micro::socket_calls()?,
            switch,
            hand_off: micro::hand_off_us(switch)?,
            lock: micro::lock_us(),
            turn: micro::turn_us()?,
            yardstick: micro::yardstick_us(1)?,
        })
    }

    /// As on a machine as fast as it is when the yardstick takes so long. Turns are a matter of the clock.
    pub(super) fn at_speed(&self, yardstick_us: f64) -> Steps {
        let factor = if self.yardstick > 0.0 { yardstick_us / self.yardstick } else { 1.0 };
        let calls = &self.calls;
        Steps {
            parse: self.parse * factor,
            calls: micro::SocketCalls {
                send_request_us: calls.send_request_us * factor,
                poll_us: calls.poll_us * factor,
                receive_request_us: calls.receive_request_us * factor,
                send_response_us: calls.send_response_us * factor,
                receive_response_us: calls.receive_response_us * factor,
            },
            switch: self.switch * factor,
            hand_off: self.hand_off * factor,
            lock: self.lock * factor,
            turn: self.turn,
            yardstick: yardstick_us,
        }
    }

    /// Value by value.
    pub(super) fn median(all: &[Steps]) -> Steps {
        let of = |value: fn(&Steps) -> f64| micro::middle(all.iter().map(value).collect());
        Steps {
            parse: of(|steps| steps.parse),
            calls: micro::SocketCalls {
                send_request_us: of(|steps| steps.calls.send_request_us),
                poll_us: of(|steps| steps.calls.poll_us),
                receive_request_us: of(|steps| steps.calls.receive_request_us),
                send_response_us: of(|steps| steps.calls.send_response_us),
                receive_response_us: of(|steps| steps.calls.receive_response_us),
            },
            switch: of(|steps| steps.switch),
            hand_off: of(|steps| steps.hand_off),
            lock: of(|steps| steps.lock),
            turn: of(|steps| steps.turn),
            yardstick: of(|steps| steps.yardstick),
        }
    }
}
