//! Connections that used up their turn, or have no permit to send yet, and can go on without an event.
//!
//! Owns: their order, which is that of `lamna_policy::schedule`. Guarantees: a connection stands in it once; a new
//! request waits for few of their turns, where none needs a permit to send. Does not know whether there is a permit
//! ([`uplink`](super::uplink)).

use lamna_io::wait::Token;
use lamna_policy::schedule::{Priority, Queue, Schedule, WaiterId};
use lamna_sys::metrics::scoreboard::WorkerScore;

use crate::worker::connection_state::ConnectionState;
use crate::worker::connection_table::ConnectionTable;

/// Turns of connections that had one already, before events are looked at again: a new request waits for no more of
/// them.
const TURNS_MAX: usize = 2;
/// Turns by permit, before events are looked at again.
const PACED_TURNS_MAX: usize = 16;

/// Those of one worker.
#[derive(Debug)]
pub struct RunQueue {
    queue: Queue,
    /// By descriptor number: the connection that stands there or stood there last, and how much it had to send.
    known: Vec<(Token, u64)>,
    /// Whether it was last shown as one that has the shortest go first.
    shown: bool,
}

impl RunQueue {
    /// An empty queue. Connections in it go on in the order of `schedule`, for `turn_bytes` bytes at a time.
    pub fn new(schedule: Schedule, turn_bytes: u64) -> RunQueue {
        RunQueue { queue: Queue::new(schedule).with_turn(turn_bytes), known: Vec::new(), shown: false }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Lets `connection`, which is that of `token`, go on when it is its turn.
    pub fn push(&mut self, token: Token, connection: &mut ConnectionState) {
        let (id, index) = (WaiterId(token.index), token.index as usize);
        let remaining = connection.http.remaining_bytes();
        if index >= self.known.len() {
            self.known.resize(index + 1, (token, 0));
        }
        let (before, left) = std::mem::replace(&mut self.known[index], (token, remaining));
        // Who has more to send than it had is at another answer.
        match before == token && remaining <= left {
            true => self.queue.resume(id, Priority::of(remaining)),
            false => self.queue.push(id, Priority::of(remaining)),
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
        let id = self.queue.pop()?;
        let (token, _) = *self.known.get(id.0 as usize)?;
        let connection = table.find(token)?;
        connection.queued = false;
        Some(token)
    }

    /// Asserts that those connections of `table` stand here that say so, and no others.
    pub fn check_invariants(&self, table: &ConnectionTable) {
        for connection in table.all() {
            let token = connection.token();
            let known = self.known.get(token.index as usize).filter(|(known, _)| *known == token);
            let stands = known.is_some() && self.queue.waits(WaiterId(token.index));
            assert_eq!(connection.queued, stands, "it is otherwise known where {token:?} is");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lamna_proto::time::Instant;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Step {
        Admit,
        Push(usize),
        Pop,
        Remove(usize),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            2 => Just(Step::Admit),
            3 => (0_usize..99).prop_map(Step::Push),
            2 => Just(Step::Pop),
            1 => (0_usize..99).prop_map(Step::Remove),
        ];
        proptest::collection::vec(step, 0..60)
    }

    proptest! {
        #[test]
        fn each_connection_that_was_pushed_is_popped_once_unless_it_has_gone(steps in steps()) {
            for schedule in [Schedule::RoundRobin, Schedule::Srpt] {
                let (mut table, mut queue) = (ConnectionTable::default(), RunQueue::new(schedule, 1));
                let (mut there, mut waiting): (Vec<Token>, Vec<Token>) = Default::default();
                for step in &steps {
                    match step {
                        Step::Admit => {
                            // Descriptors of those that have gone come again.
                            let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().into();
                            there.push(table.admit(ConnectionState::new(socket, None, Instant::from_ms(0))));
                        }
                        Step::Push(which) if !there.is_empty() => {
                            let token = there[which % there.len()];
                            queue.push(token, table.get(token));
                            waiting.retain(|one| *one != token);
                            waiting.push(token);
                        }
                        Step::Remove(which) if !there.is_empty() => {
                            let token = there.swap_remove(which % there.len());
                            table.remove(token);
                            waiting.retain(|one| *one != token);
                        }
                        Step::Push(_) | Step::Remove(_) => {}
                        Step::Pop => {
                            if let Some(token) = queue.pop(&mut table) {
                                let before = waiting.len();
                                waiting.retain(|one| *one != token);
                                prop_assert_eq!(waiting.len() + 1, before, "{:?} was not waiting", token);
                            }
                        }
                    }
                    queue.check_invariants(&table);
                }
                while !queue.is_empty() {
                    queue.pop(&mut table).into_iter().for_each(|token| waiting.retain(|one| *one != token));
                }
                prop_assert!(waiting.is_empty(), "{:?} wait for ever", waiting);
            }
        }
    }
}
