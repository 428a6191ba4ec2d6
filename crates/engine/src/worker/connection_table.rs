//! The connections of one worker, found by descriptor number, with their deadlines.
//!
//! Owns: the connections that the worker has. Guarantees: constant-time access without hashing; a token of a closed
//! connection never finds its successor; a deadline costs one store to move, whatever the number of connections. Does
//! not drive them.

use std::borrow::{Borrow, BorrowMut};

use lamna_io::wait::Token;
use lamna_proto::time::Instant;
use lamna_sys::metrics::scoreboard::WorkerScore;

use crate::worker::connection_state::{ConnectionPhase, ConnectionState};
use crate::worker::room::{self, Chosen};

/// Connections by descriptor number, or what carries them: `C`.
#[derive(Debug)]
pub struct ConnectionTable<C = ConnectionState> {
    connections: Vec<Option<C>>,
    /// For each connection, when to look at it, in units of [`TICK_MS`]; zero for never. A vector of its own, so that
    /// a pass over all of them touches four bytes each.
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
        let (connections, deadlines) = (Vec::new(), Vec::new());
        ConnectionTable {
            connections,
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
    pub fn admit(&mut self, mut connection: ConnectionState) -> Token {
        // Zero is the generation of listening sockets and wakers.
        self.generation = self.generation.checked_add(1).unwrap_or(1);
        connection.generation = self.generation;
        self.adopt(connection)
    }

    /// Closes a connection.
    pub fn remove(&mut self, token: Token) {
        if let Some(connection) = self.take(token) {
            connection.close();
        }
    }
}

impl<C: BorrowMut<ConnectionState>> ConnectionTable<C> {
    /// Keeps a connection that is known already, under the token of its descriptor and its generation.
    pub fn adopt(&mut self, mut kept: C) -> Token {
        let connection: &mut ConnectionState = kept.borrow_mut();
        connection.phase = ConnectionPhase::Active;
        let token = connection.token();
        self.reserve(token.index as usize);
        debug_assert!(self.connections[token.index as usize].is_none(), "a descriptor belongs to one connection");
        self.connections[token.index as usize] = Some(kept);
        self.count += 1;
        self.check_if_few();
        token
    }

    /// Gives up the connection of `token`, if it is still there, without closing it.
    pub fn take(&mut self, token: Token) -> Option<C> {
        self.find(token)?;
        self.set_phase(token, ConnectionPhase::Active);
        self.deadlines[token.index as usize] = 0;
        self.count -= 1;
        let taken = self.connections[token.index as usize].take();
        self.check_if_few();
        taken
    }

    fn reserve(&mut self, index: usize) {
        if index >= self.connections.len() {
            self.connections.resize_with(index + 1, || None);
            self.deadlines.resize(index + 1, 0);
        }
    }

    /// The connection of `token`, if it is still there.
    pub fn find(&mut self, token: Token) -> Option<&mut ConnectionState> {
        let connection = self.connections.get_mut(token.index as usize)?.as_mut()?.borrow_mut();
        (connection.generation == token.generation).then_some(connection)
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
    pub fn idle_and_slow(&self) -> (usize, usize) {
        (self.idle, self.slow)
    }

    /// Lets others know how many there are.
    pub fn show_load(&mut self, score: &WorkerScore) {
        let (count, idle_and_slow) = self.shown;
        if count != self.count {
            score.show(self.count);
        }
        if idle_and_slow != self.idle_and_slow() {
            score.show_idle_and_slow(self.idle_and_slow());
        }
        self.shown = (self.count, self.idle_and_slow());
    }

    /// How the connection of `token`, if it is still there, is left after a turn.
    pub fn set_phase(&mut self, token: Token, phase: ConnectionPhase) {
        let Some(connection) = self.find(token) else { return };
        let before = std::mem::replace(&mut connection.phase, phase);
        if before != phase {
            self.idle =
                self.idle + usize::from(phase == ConnectionPhase::Idle) - usize::from(before == ConnectionPhase::Idle);
            self.slow =
                self.slow + usize::from(phase == ConnectionPhase::Slow) - usize::from(before == ConnectionPhase::Slow);
        }
        self.check_if_few();
    }

    /// Tokens of all connections.
    pub fn tokens(&self) -> Vec<Token> {
        self.all().map(ConnectionState::token).collect()
    }

    /// Tokens of those that wait between requests.
    pub fn idle_tokens(&self) -> Vec<Token> {
        self.all().filter(|connection| connection.is_idle()).map(ConnectionState::token).collect()
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
            expired.extend(self.connections[index].as_ref().map(|connection| connection.borrow().token()));
        }
        // The next look is due no sooner than a second from now: deadlines move all the time, and looking costs.
        self.earliest = if earliest == u32::MAX { earliest } else { earliest.max(tick + LOOK_TICKS) };
        self.check_if_few();
        expired
    }

    /// Those that make room where descriptors have run out, at most `most`, and none that `can_go` does not let go.
    pub fn making_room(&self, most: usize, can_go: impl Fn(Token) -> bool) -> Chosen {
        let of = |connection: &ConnectionState| {
            let token = connection.token();
            connection.candidate(u64::from(self.deadlines[token.index as usize])).filter(|_| can_go(token))
        };
        room::choose(self.all().filter_map(of), most)
    }

    /// Every connection that is there.
    pub fn all(&self) -> impl Iterator<Item = &ConnectionState> {
        self.connections.iter().flatten().map(Borrow::borrow)
    }

    /// In builds with debug assertions, [`check_invariants`](ConnectionTable::check_invariants) where that is soon
    /// done.
    fn check_if_few(&self) {
        if cfg!(debug_assertions) && self.connections.len() <= CHECKED_MAX {
            self.check_invariants();
        }
    }

    /// Asserts that each connection is where its token says, that the counts are those of the connections, and that no
    /// deadline is overslept.
    fn check_invariants(&self) {
        let (mut count, mut idle, mut slow) = (0, 0, 0);
        for (index, connection) in self.connections.iter().enumerate() {
            let Some(connection) = connection.as_ref().map(Borrow::borrow) else {
                assert_eq!(self.deadlines[index], 0, "there is a deadline of no connection at {index}");
                continue;
            };
            assert_eq!(connection.token().index as usize, index, "a connection is not where its token says");
            count += 1;
            idle += usize::from(connection.phase == ConnectionPhase::Idle);
            slow += usize::from(connection.phase == ConnectionPhase::Slow);
        }
        assert_eq!(
            (self.count, self.idle, self.slow),
            (count, idle, slow),
            "the counts are not those of the connections"
        );
        let mut deadlines = self.deadlines.iter().filter(|deadline| **deadline != 0);
        assert!(deadlines.all(|at| self.earliest < at + LOOK_TICKS), "a deadline is overslept by more than a look");
    }
}

const LOOK_TICKS: u32 = 10;
/// The largest table that is looked through after each change, in builds with debug assertions.
const CHECKED_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use lamna_sys::metrics::scoreboard::Scoreboard;
    use lamna_sys::shared_memory::SharedMemory;
    use proptest::prelude::*;
    use std::os::fd::OwnedFd;

    fn socket() -> OwnedFd {
        std::net::UdpSocket::bind("127.0.0.1:0").unwrap().into()
    }

    #[test]
    fn an_idle_plain_connection_takes_at_most_110_bytes() {
        let deadline = size_of::<u32>();
        let bytes = size_of::<Option<ConnectionState>>() + deadline;
        assert!(bytes <= 110, "{bytes}");
    }

    #[test]
    fn a_token_of_a_closed_connection_never_finds_its_successor() {
        let mut connections = ConnectionTable::default();
        let first = connections.admit(ConnectionState::new(socket(), None, Instant::from_ms(0)));
        connections.remove(first);
        let second = connections.admit(ConnectionState::new(socket(), None, Instant::from_ms(0)));
        assert!(connections.find(first).is_none());
        assert!(connections.find(second).is_some());
        connections.remove(first);
        assert_eq!(connections.count(), 1);
    }

    #[test]
    fn no_connection_ever_has_the_generation_of_what_is_not_a_connection() {
        let mut connections = ConnectionTable { generation: u32::MAX - 2, ..ConnectionTable::default() };
        for _ in 0..5 {
            let token = connections.admit(ConnectionState::new(socket(), None, Instant::from_ms(0)));
            assert_ne!(token.generation, 0);
            connections.remove(token);
        }
    }

    #[test]
    fn phases_are_counted_as_long_as_their_connections_are_there() {
        let mut connections = ConnectionTable::default();
        let tokens: Vec<Token> =
            (0..3).map(|_| connections.admit(ConnectionState::new(socket(), None, Instant::from_ms(0)))).collect();
        assert_eq!(connections.idle_and_slow(), (0, 0), "nothing is known of new ones");
        connections.set_phase(tokens[0], ConnectionPhase::Idle);
        connections.set_phase(tokens[1], ConnectionPhase::Slow);
        connections.set_phase(tokens[2], ConnectionPhase::Idle);
        connections.set_phase(tokens[2], ConnectionPhase::Idle);
        assert_eq!(connections.idle_and_slow(), (2, 1));
        connections.set_phase(tokens[1], ConnectionPhase::Idle);
        let moved = connections.take(tokens[0]).unwrap();
        connections.remove(tokens[2]);
        connections.set_phase(tokens[2], ConnectionPhase::Slow);
        assert_eq!((connections.count(), connections.idle_and_slow()), (1, (1, 0)));
        let mut others = ConnectionTable::default();
        let token = others.admit(moved);
        assert_eq!(others.idle_and_slow(), (0, 0), "another worker finds out for itself");
        others.remove(token);
        assert_eq!(others.idle_and_slow(), (0, 0));
    }

    #[test]
    fn deadlines_expire_once_and_can_be_moved() {
        let mut connections = ConnectionTable::default();
        let token = connections.admit(ConnectionState::new(socket(), None, Instant::from_ms(0)));
        connections.set_deadline(token, Some(Instant::from_ms(5_000)));
        assert_eq!(connections.next_deadline(), Some(Instant::from_ms(5_000)));
        connections.set_deadline(token, Some(Instant::from_ms(9_000)));
        assert!(connections.expired(Instant::from_ms(5_000)).is_empty());
        assert_eq!(connections.expired(Instant::from_ms(9_000)), [token]);
        assert!(connections.expired(Instant::from_ms(99_000)).is_empty());
    }

    /// An operation on a table. Connections are named by the order in which they came.
    #[derive(Clone, Debug)]
    enum Step {
        Admit,
        Take(usize),
        Remove(usize),
        SetPhase(usize, ConnectionPhase),
        SetDeadline(usize, Option<u64>),
        Expire(u64),
        ShowLoad,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let phase =
            prop_oneof![Just(ConnectionPhase::Idle), Just(ConnectionPhase::Slow), Just(ConnectionPhase::Active)];
        let step = prop_oneof![
            3 => Just(Step::Admit),
            1 => (0_usize..20).prop_map(Step::Take),
            1 => (0_usize..20).prop_map(Step::Remove),
            3 => (0_usize..20, phase).prop_map(|(which, phase)| Step::SetPhase(which, phase)),
            2 => (0_usize..20, proptest::option::of(1_u64..100)).prop_map(|(which, at)| Step::SetDeadline(which, at)),
            2 => (1_u64..10).prop_map(Step::Expire),
            1 => Just(Step::ShowLoad),
        ];
        proptest::collection::vec(step, 0..60)
    }

    proptest! {
        #[test]
        fn counts_and_deadlines_are_those_of_the_connections_whatever_is_done(steps in steps()) {
            let (mut table, scoreboard) = (ConnectionTable::default(), SharedMemory::<Scoreboard>::default());
            // What is there: its token, how it was left, when to look at it.
            let mut there: Vec<(Token, ConnectionPhase, Option<u64>)> = Vec::new();
            let (mut tokens, mut taken, mut now) = (Vec::new(), Vec::new(), 0);
            let token_of = |tokens: &[Token], which: usize| tokens.get(which).copied();
            for step in steps {
                match step {
                    Step::Admit => {
                        let token = table.admit(ConnectionState::new(socket(), None, Instant::from_ms(0)));
                        tokens.push(token);
                        there.push((token, ConnectionPhase::Active, None));
                    }
                    Step::Take(which) => {
                        let Some(token) = token_of(&tokens, which) else { continue };
                        let is_there = there.iter().any(|one| one.0 == token);
                        let one = table.take(token);
                        prop_assert_eq!(one.is_some(), is_there);
                        // It lives on elsewhere, so that its descriptor is not that of the next.
                        taken.extend(one);
                        there.retain(|one| one.0 != token);
                    }
                    Step::Remove(which) => {
                        let Some(token) = token_of(&tokens, which) else { continue };
                        table.remove(token);
                        there.retain(|one| one.0 != token);
                    }
                    Step::SetPhase(which, phase) => {
                        let Some(token) = token_of(&tokens, which) else { continue };
                        table.set_phase(token, phase);
                        there.iter_mut().filter(|one| one.0 == token).for_each(|one| one.1 = phase);
                    }
                    Step::SetDeadline(which, deadline) => {
                        let known = token_of(&tokens, which).and_then(|token| there.iter_mut().find(|one| one.0 == token));
                        let Some(one) = known else { continue };
                        one.2 = deadline.map(|later| now + later);
                        table.set_deadline(one.0, one.2.map(|at| Instant::from_ms(at * TICK_MS)));
                    }
                    Step::Expire(ticks) => {
                        now += ticks;
                        let is_due = |one: &(Token, ConnectionPhase, Option<u64>), late| one.2.is_some_and(|at| at + late <= now);
                        for token in table.expired(Instant::from_ms(now * TICK_MS)) {
                            let one = there.iter_mut().find(|one| one.0 == token);
                            prop_assert!(one.as_ref().is_some_and(|one| is_due(one, 0)), "it is too early for {:?}", token);
                            one.into_iter().for_each(|one| one.2 = None);
                        }
                        prop_assert!(there.iter().all(|one| !is_due(one, u64::from(LOOK_TICKS))), "one was overslept");
                    }
                    Step::ShowLoad => table.show_load(scoreboard.score(0)),
                }
                table.check_invariants();
                let of = |phase| there.iter().filter(|one| one.1 == phase).count();
                prop_assert_eq!((table.count(), table.idle_and_slow()), (there.len(), (of(ConnectionPhase::Idle), of(ConnectionPhase::Slow))));
                prop_assert!(there.iter().all(|one| table.find(one.0).is_some()));
            }
        }
    }
}
