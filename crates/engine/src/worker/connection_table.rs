//! The connections of one worker, found by descriptor number, with their deadlines.
//!
//! Owns: the connections that the worker has. Guarantees: constant-time access without hashing; a token of a closed connection never
//! finds its successor; a deadline costs one store to move, whatever the number of connections. Does not drive them.

use std::borrow::{Borrow, BorrowMut};

use lamna_io::wait::Token;
use lamna_proto::time::Instant;
use lamna_sys::metrics::scoreboard::WorkerScore;

use crate::worker::connection_state::{ConnectionState, Posture};
use crate::worker::room::{self, Chosen};

/// Connections by descriptor number, or what carries them: `C`.
#[derive(Debug)]
pub struct ConnectionTable<C = ConnectionState> {
    slots: Vec<Option<C>>,
    /// For each slot, when to look at it, in units of [`TICK_MS`]; zero for never. Apart from the slots, so that looking
    /// through all of them touches four bytes each.
    deadlines: Vec<u32>,
    count: usize,
    /// Those that are idle.
    idle: usize,
    /// Those whose peers are slow.
    slow: usize,
    generation: u32,
    /// No deadline is earlier than this.
    earliest: u32,
    /// How many connections others have been told of, and of how many that are idle, and slow.
    shown: (usize, (usize, usize)),
}

const TICK_MS: u64 = 100;

impl<C> Default for ConnectionTable<C> {
    fn default() -> ConnectionTable<C> {
        let (slots, deadlines) = (Vec::new(), Vec::new());
        ConnectionTable {
            slots,
            deadlines,
            count: 0,
            idle: 0,
            slow: 0,
            generation: 0,
            earliest: u32::MAX,
            shown: (0, (0, 0)),
        }
    }
}

impl ConnectionTable {
    /// Keeps a connection that comes from another worker.
    pub fn admit(&mut self, mut slot: ConnectionState) -> Token {
        // Zero is the generation of listening sockets and wakers.
        self.generation = self.generation.checked_add(1).unwrap_or(1);
        slot.generation = self.generation;
        self.adopt(slot)
    }

    /// Closes a connection.
    pub fn remove(&mut self, token: Token) {
        if let Some(slot) = self.take(token) {
            slot.close();
        }
    }
}

impl<C: BorrowMut<ConnectionState>> ConnectionTable<C> {
    /// Keeps a connection that is known already, under the token of its descriptor and its generation.
    pub fn adopt(&mut self, mut kept: C) -> Token {
        let slot: &mut ConnectionState = kept.borrow_mut();
        slot.posture = Posture::Active;
        let token = slot.token();
        self.reserve(token.index as usize);
        self.slots[token.index as usize] = Some(kept);
        self.count += 1;
        token
    }

    /// Gives up the connection of `token`, if it is still there, without closing it.
    pub fn take(&mut self, token: Token) -> Option<C> {
        self.find(token)?;
        self.pose(token, Posture::Active);
        self.deadlines[token.index as usize] = 0;
        self.count -= 1;
        self.slots[token.index as usize].take()
    }

    fn reserve(&mut self, index: usize) {
        if index >= self.slots.len() {
            self.slots.resize_with(index + 1, || None);
            self.deadlines.resize(index + 1, 0);
        }
    }

    /// The connection of `token`, if it is still there.
    pub fn find(&mut self, token: Token) -> Option<&mut ConnectionState> {
        let slot = self.slots.get_mut(token.index as usize)?.as_mut()?.borrow_mut();
        (slot.generation == token.generation).then_some(slot)
    }

    /// The connection of `token`.
    ///
    /// # Panics
    /// If it is gone: for those who have just found it.
    pub fn get(&mut self, token: Token) -> &mut ConnectionState {
        self.find(token).expect("a connection stays until it is removed")
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// How many of them were left idle, and how many waiting for slow peers.
    pub fn postures(&self) -> (usize, usize) {
        (self.idle, self.slow)
    }

    /// Lets others know how many there are.
    pub fn show_load(&mut self, score: &WorkerScore) {
        let (count, postures) = self.shown;
        if count != self.count {
            score.show(self.count);
        }
        if postures != self.postures() {
            score.show_postures(self.postures());
        }
        self.shown = (self.count, self.postures());
    }

    /// How the connection of `token`, if it is still there, is left after a turn.
    pub fn pose(&mut self, token: Token, posture: Posture) {
        let Some(slot) = self.find(token) else { return };
        let before = std::mem::replace(&mut slot.posture, posture);
        if before != posture {
            self.idle = self.idle + usize::from(posture == Posture::Idle) - usize::from(before == Posture::Idle);
            self.slow = self.slow + usize::from(posture == Posture::Slow) - usize::from(before == Posture::Slow);
        }
    }

    /// Tokens of all connections.
    pub fn tokens(&self) -> Vec<Token> {
        self.all().map(ConnectionState::token).collect()
    }

    /// Tokens of those that wait between requests.
    pub fn idle_tokens(&self) -> Vec<Token> {
        self.all().filter(|slot| slot.is_idle()).map(ConnectionState::token).collect()
    }

    fn all(&self) -> impl Iterator<Item = &ConnectionState> {
        self.slots.iter().flatten().map(Borrow::borrow)
    }

    /// Looks at the connection of `token` at `deadline`, not before.
    pub fn set_deadline(&mut self, token: Token, deadline: Option<Instant>) {
        let tick = deadline.map_or(0, |at| at.us().div_ceil(TICK_MS * 1000) as u32);
        self.deadlines[token.index as usize] = tick;
        if tick != 0 && tick < self.earliest {
            self.earliest = tick;
        }
    }

    /// When `expired` may have something, or earlier.
    pub fn next_deadline(&self) -> Option<Instant> {
        (self.count > 0 && self.earliest != u32::MAX).then(|| Instant::from_ms(u64::from(self.earliest) * TICK_MS))
    }

    /// Connections whose deadline has passed at `now`. Their deadlines are unset.
    pub fn expired(&mut self, now: Instant) -> Vec<Token> {
        let tick = (now.ms() / TICK_MS) as u32;
        let mut expired = Vec::new();
        if tick < self.earliest {
            return expired;
        }
        let mut earliest = u32::MAX;
        for (index, deadline) in self.deadlines.iter_mut().enumerate() {
            if *deadline == 0 {
                continue;
            }
            if *deadline > tick {
                earliest = earliest.min(*deadline);
                continue;
            }
            *deadline = 0;
            expired.extend(self.slots[index].as_ref().map(|slot| slot.borrow().token()));
        }
        // The next look is due no sooner than a second from now: deadlines move all the time, and looking costs.
        self.earliest = if earliest == u32::MAX { earliest } else { earliest.max(tick + LOOK_TICKS) };
        expired
    }

    /// Those that make room where descriptors have run out, at most `most`, and none that `can_go` does not let go.
    pub fn making_room(&self, most: usize, can_go: impl Fn(Token) -> bool) -> Chosen {
        let of = |slot: &ConnectionState| {
            let token = slot.token();
            slot.candidate(u64::from(self.deadlines[token.index as usize])).filter(|_| can_go(token))
        };
        room::choose(self.all().filter_map(of), most)
    }
}

const LOOK_TICKS: u32 = 10;

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::OwnedFd;

    fn socket() -> OwnedFd {
        std::net::UdpSocket::bind("127.0.0.1:0").unwrap().into()
    }

    #[test]
    fn a_token_of_a_closed_connection_never_finds_its_successor() {
        let mut slots = ConnectionTable::default();
        let first = slots.admit(ConnectionState::new(socket(), None, Instant::from_ms(0)));
        slots.remove(first);
        let second = slots.admit(ConnectionState::new(socket(), None, Instant::from_ms(0)));
        assert!(slots.find(first).is_none());
        assert!(slots.find(second).is_some());
        slots.remove(first);
        assert_eq!(slots.count(), 1);
    }

    #[test]
    fn no_connection_ever_has_the_generation_of_what_is_not_a_connection() {
        let mut slots = ConnectionTable { generation: u32::MAX - 2, ..ConnectionTable::default() };
        for _ in 0..5 {
            let token = slots.admit(ConnectionState::new(socket(), None, Instant::from_ms(0)));
            assert_ne!(token.generation, 0);
            slots.remove(token);
        }
    }

    #[test]
    fn postures_are_counted_as_long_as_their_connections_are_there() {
        let mut slots = ConnectionTable::default();
        let tokens: Vec<Token> =
            (0..3).map(|_| slots.admit(ConnectionState::new(socket(), None, Instant::from_ms(0)))).collect();
        assert_eq!(slots.postures(), (0, 0), "nothing is known of new ones");
        slots.pose(tokens[0], Posture::Idle);
        slots.pose(tokens[1], Posture::Slow);
        slots.pose(tokens[2], Posture::Idle);
        slots.pose(tokens[2], Posture::Idle);
        assert_eq!(slots.postures(), (2, 1));
        slots.pose(tokens[1], Posture::Idle);
        let moved = slots.take(tokens[0]).unwrap();
        slots.remove(tokens[2]);
        slots.pose(tokens[2], Posture::Slow);
        assert_eq!((slots.count(), slots.postures()), (1, (1, 0)));
        let mut others = ConnectionTable::default();
        let token = others.admit(moved);
        assert_eq!(others.postures(), (0, 0), "another worker finds out for itself");
        others.remove(token);
        assert_eq!(others.postures(), (0, 0));
    }

    #[test]
    fn deadlines_expire_once_and_can_be_moved() {
        let mut slots = ConnectionTable::default();
        let token = slots.admit(ConnectionState::new(socket(), None, Instant::from_ms(0)));
        slots.set_deadline(token, Some(Instant::from_ms(5_000)));
        assert_eq!(slots.next_deadline(), Some(Instant::from_ms(5_000)));
        slots.set_deadline(token, Some(Instant::from_ms(9_000)));
        assert!(slots.expired(Instant::from_ms(5_000)).is_empty());
        assert_eq!(slots.expired(Instant::from_ms(9_000)), [token]);
        assert!(slots.expired(Instant::from_ms(99_000)).is_empty());
    }
}
