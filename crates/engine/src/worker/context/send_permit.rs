//! Permits to send, for the connections of one worker, and how much at a time.
//!
//! Owns: what a turn asks before it sends. Does not know the link ([`uplink`]) or whose turn it is (`run_queue`).

use super::WorkerContext;
use crate::worker::turn_budget::TURN_BYTES;
use crate::worker::uplink::{self, SendPermit};

impl WorkerContext<'_> {
    /// Whether connections need permits to send.
    pub fn needs_send_permit(&self) -> bool {
        self.send_permit != SendPermit::Unlimited
    }

    /// Whether one that has something to send may. Waits for it, if that is what this worker does.
    pub fn has_send_permit(&self) -> bool {
        match (self.send_permit, &self.shared.uplink) {
            (SendPermit::BySleep, Some(uplink)) => {
                while uplink.due().is_some() && !self.shared.control.is_closing() {
                    uplink.wait();
                }
                true
            }
            (SendPermit::ByTurn(is_turn), _) => is_turn,
            (SendPermit::Unlimited, _) | (_, None) => true,
        }
    }

    /// Bytes of memory that one connection may send before others get their turn.
    pub fn turn_bytes(&self) -> u64 {
        if self.needs_send_permit() { uplink::TURN_BYTES } else { TURN_BYTES }
    }
}
