//! Connections that used up their turn and can go on without an event.
//!
//! Owns: their order. Guarantees: a connection stands in it once; a new request waits for few of their turns.

use std::collections::VecDeque;

use crate::io::wait::Token;
use crate::worker::connection_table::{ConnectionState, ConnectionTable};

/// Turns of connections that had one already, before events are looked at again: a new request waits for no more of them.
const TURNS_MAX: usize = 2;

/// Those of one worker, first come first served.
#[derive(Debug, Default)]
pub struct RunQueue {
    tokens: VecDeque<Token>,
}

impl RunQueue {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Lets `connection`, which is that of `token`, go on when it is its turn.
    pub fn push(&mut self, token: Token, connection: &mut ConnectionState) {
        if !connection.queued {
            connection.queued = true;
            self.tokens.push_back(token);
        }
    }

    /// How many are to have a turn before events are looked at again.
    pub fn turns(&self) -> usize {
        self.tokens.len().min(TURNS_MAX)
    }

    /// The next one, unless it has gone meanwhile.
    pub fn pop(&mut self, table: &mut ConnectionTable) -> Option<Token> {
        let token = self.tokens.pop_front()?;
        let connection = table.find(token)?;
        connection.queued = false;
        Some(token)
    }
}
