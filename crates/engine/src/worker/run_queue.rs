//! Connections that used up their turn, or have no leave to send yet, and can go on without an event.
//!
//! Owns: their order, which is that of `lamna_policy::schedule`. Guarantees: a connection stands in it once; a new request waits for few
//! of their turns, where nobody needs leave to send. Does not know whether there is leave ([`uplink`](super::uplink)).

use lamna_io::wait::Token;
use lamna_policy::schedule::{Claim, Queue, Schedule, Slot};
use lamna_sys::metrics::scoreboard::WorkerScore;

use crate::worker::connection_state::ConnectionState;
use crate::worker::connection_table::ConnectionTable;

/// Turns of connections that had one already, before events are looked at again: a new request waits for no more of them.
const TURNS_MAX: usize = 2;
/// Turns by leave, before events are looked at again.
const PACED_TURNS_MAX: usize = 16;

/// Those of one worker.
#[derive(Debug)]
pub struct RunQueue {
    queue: Queue,
    /// By slot: who stands there or stood there last, and what it had to send.
    known: Vec<(Token, u64)>,
    /// Whether it was last shown as one that has the shortest go first.
    shown: bool,
}

impl RunQueue {
    /// Nobody waits; who does is to go on in this order, for so many bytes at a time.
    pub fn new(schedule: Schedule, turn_bytes: u64) -> RunQueue {
        RunQueue { queue: Queue::new(schedule).with_turn(turn_bytes), known: Vec::new(), shown: false }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Lets `connection`, which is that of `token`, go on when it is its turn.
    pub fn push(&mut self, token: Token, connection: &mut ConnectionState) {
        let (slot, index) = (Slot(token.index), token.index as usize);
        let remaining = connection.connection.remaining_bytes();
        if index >= self.known.len() {
            self.known.resize(index + 1, (token, 0));
        }
        let (before, left) = std::mem::replace(&mut self.known[index], (token, remaining));
        // Who has more to send than it had is at another answer.
        match before == token && remaining <= left {
            true => self.queue.resume(slot, Claim::of(remaining)),
            false => self.queue.push(slot, Claim::of(remaining)),
        }
        connection.queued = true;
    }

    /// Lets others know which order is in force.
    pub fn show_order(&mut self, score: &WorkerScore) {
        let is_shortest_first = self.queue.in_force() == Schedule::Srpt;
        if std::mem::replace(&mut self.shown, is_shortest_first) != is_shortest_first {
            score.show_shortest_first(is_shortest_first);
        }
    }

    /// How many are to have a turn before events are looked at again.
    pub fn turns(&self, is_paced: bool) -> usize {
        self.queue.len().min(if is_paced { PACED_TURNS_MAX } else { TURNS_MAX })
    }

    /// The next one, unless it has gone meanwhile.
    pub fn pop(&mut self, table: &mut ConnectionTable) -> Option<Token> {
        let slot = self.queue.pop()?;
        let (token, _) = *self.known.get(slot.0 as usize)?;
        let connection = table.find(token)?;
        connection.queued = false;
        Some(token)
    }
}
