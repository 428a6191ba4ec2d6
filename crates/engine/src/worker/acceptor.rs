//! When a worker takes new connections: the one place that decides it, for every engine.
//!
//! Owns: how many are taken at once, what is left to workers that have fewer, the reserve of descriptors, pauses, and
//! how many connections make room (which ones: `room.rs`). Guarantees: running out of descriptors or memory costs
//! waiting, never a connection. Does not wait for listeners and does not serve: an engine does, as [`Accepting`] says.
//!
//! ```text
//!             more than its share                no room
//!   Passing <─────────────────────── Taking ───────────────> Short ──> are there idle connections to close?
//!      │                             ^  ^ ^                    ^          yes │                │ no, or they take a while
//!      │ time is over                │  │ └────────────────────┼──────────────┘                v
//!      └────────────> TakingAny ─────┘  │                      └───── no ── time is over: ── Paused
//!                       one batch       └──────────────────────────── yes ─ is there room?
//!   Closed is for good, and can be reached from every state.
//! ```

use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use lamna_io::accept::{Accepted, DescriptorReserve, accept, concerns_one_connection};
use lamna_io::listen::Listener;
use lamna_io::wait::{Poll, Token};
use lamna_proto::time::Instant;
use lamna_sys::metrics::scoreboard::Scoreboard;
use rustix::io::Errno;

use crate::worker::connection_state::ConnectionState;
use crate::worker::limiter::connections::{Crowded, turn_away};
use crate::worker::shared::Shared;

/// Connections accepted at once, before others get their turn. As many as take a millisecond: a connection that comes
/// in a crowd waits for all before it.
const BATCH_MAX: usize = 64;
/// The same where there are other workers, who are to have their share. Few: while one worker takes them, those that
/// the kernel has woken for the next ones are on their way.
const BATCH_SHARED_MAX: usize = 4;
/// Connections that are refused before others get their turn.
const REFUSED_MAX: usize = 4;
/// How long a worker that has more than its share leaves new connections to the others. Of several that wait for one
/// listening socket the kernel always wakes the same first, so without this it would get nearly all.
const PASS_MS: u32 = 1;
/// How long nothing is accepted after descriptors or memory ran out.
pub const PAUSE_MS: u32 = 100;
/// Connections given up at once when descriptors run out.
const SHED_MAX: usize = 16;

/// Decides when a worker takes connections.
#[derive(Debug)]
pub struct Acceptor {
    state: State,
    share: Share,
    reserve: DescriptorReserve,
    /// The last order to the engine: whether to wait for listeners.
    watches: bool,
}

/// Whether a worker takes care that others have as many connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// It leaves them those that are beyond its share.
    Fair,
    /// It takes what it gets: balance is kept elsewhere, or not needed.
    Any,
}

/// The state of a worker as to new connections: the module draws the transitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It takes them.
    Taking,
    /// It takes one batch, whatever its share: those that it was left for did not take them.
    TakingAny,
    /// It leaves them to others until then.
    Passing { until: Instant },
    /// There is no room for the next: idle ones are to make room.
    Short { errno: Errno },
    /// It looks for room then.
    Paused { until: Instant },
    /// It takes no more.
    Closed,
}

/// The result of making room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freed {
    /// So many connections were closed.
    Now(usize),
    /// So many are on their way out: the engine says when there is room ([`Acceptor::handle_room`]).
    Soon(usize),
    /// None makes room.
    Nothing,
}

/// One batch of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Batch {
    most: usize,
    takes_any: bool,
}

impl Acceptor {
    /// One that takes connections, for an engine that does not wait for listeners yet.
    pub fn new(share: Share) -> Acceptor {
        Acceptor { state: State::Taking, share, reserve: DescriptorReserve::new(), watches: false }
    }

    /// Whether connections are taken now.
    pub fn is_taking(&self) -> bool {
        matches!(self.state, State::Taking | State::TakingAny)
    }

    /// Whether no more will be taken.
    pub fn is_closed(&self) -> bool {
        self.state == State::Closed
    }

    /// When to look again.
    pub fn due(&self) -> Option<Instant> {
        match self.state {
            State::Passing { until } | State::Paused { until } => Some(until),
            State::Short { .. } => Some(Instant::from_ms(0)),
            State::Taking | State::TakingAny | State::Closed => None,
        }
    }

    /// Takes no more connections.
    pub fn close(&mut self) {
        self.state = State::Closed;
    }

    /// Nothing more is taken for the moment.
    pub fn pause(&mut self, now: Instant) {
        if !self.is_closed() {
            self.state = State::Paused { until: now.after_ms(PAUSE_MS) };
        }
    }

    /// Descriptors or memory have run out.
    pub fn handle_shortage(&mut self, errno: Errno) {
        if !self.is_closed() {
            self.state = State::Short { errno };
        }
    }

    /// A connection has ended: there may be room.
    pub fn handle_room(&mut self, now: Instant) {
        if matches!(self.state, State::Paused { .. } | State::Short { .. }) {
            self.state = State::Paused { until: now };
        }
    }

    /// Leaves the connections that wait to workers that have fewer, if this one has more than its share: then true. If
    /// those are stalled, it will be back.
    pub fn pass_if_over_share(&mut self, scoreboard: &Scoreboard, connections: usize, now: Instant) -> bool {
        let passes = self.is_taking() && self.share == Share::Fair && scoreboard.is_over_share(connections);
        if passes {
            self.state = State::Passing { until: now.after_ms(PASS_MS) };
        }
        passes
    }

    /// Whether everything that may wait in a listen queue can be taken without asking for each. With other workers
    /// there it would take their share as well.
    pub fn has_room_for_many(&self, shared: &Shared, connections: usize) -> bool {
        let (_, workers) = shared.scoreboard.load();
        let backlog = || shared.listeners.iter().map(|listener| listener.backlog()).max().unwrap_or_default();
        workers <= 1 && self.reserve.leaves(connections + backlog() as usize)
    }

    /// A connection was taken. What it is to the worker that has its socket; none if its client network has enough of
    /// them.
    pub fn admit(
        &mut self,
        shared: &Shared,
        listener: usize,
        accepted: Accepted,
        now: Instant,
    ) -> Option<ConnectionState> {
        let descriptor = accepted.socket.as_raw_fd();
        let connection = let_in(shared, &shared.listeners[listener], accepted, now)?;
        if self.reserve.has_given(&descriptor) {
            self.handle_shortage(Errno::MFILE);
        }
        Some(connection)
    }

    /// Takes the next connection that waits at `listener`. None if none waits, there is no room, or many have been
    /// refused: then others get their turn.
    pub fn take(&mut self, shared: &Shared, listener: usize, now: Instant) -> Option<ConnectionState> {
        let mut refused = 0;
        for _ in 0..BATCH_MAX {
            match accept(shared.listeners[listener].as_fd()) {
                Ok(accepted) => match self.admit(shared, listener, accepted, now) {
                    None if refused < REFUSED_MAX => refused += 1,
                    admitted => return admitted,
                },
                Err(Errno::AGAIN) => return None,
                // It was gone before it could be taken.
                Err(errno) if concerns_one_connection(errno) => {}
                Err(errno) => {
                    self.handle_shortage(errno);
                    return None;
                }
            }
        }
        None
    }

    /// Looks whether a pause is over, at `now`. If there is no room, why: then room is to be made.
    pub fn look(&mut self, shared: &Shared, now: Instant) -> Option<Errno> {
        let any = shared.control.interrupt(false).descriptor();
        self.look_with(now, |reserve| reserve.is_whole(any))
    }

    fn look_with(&mut self, now: Instant, has_room: impl FnOnce(&DescriptorReserve) -> bool) -> Option<Errno> {
        self.state = match self.state {
            State::Passing { until } if until <= now => State::TakingAny,
            State::Paused { until } if until <= now => {
                if has_room(&self.reserve) {
                    State::Taking
                } else {
                    State::Short { errno: Errno::MFILE }
                }
            }
            state => state,
        };
        match self.state {
            State::Short { errno } => Some(errno),
            _ => None,
        }
    }

    /// Room was to be made, for want of `errno`.
    pub fn handle_freed(&mut self, freed: Freed, shared: &Shared, errno: Errno, now: Instant) {
        if let Freed::Now(count) | Freed::Soon(count) = freed {
            shared.counters.work.idle_shed.fetch_add(count as u64, Relaxed);
        }
        match freed {
            Freed::Now(1..) => self.state = State::Taking,
            Freed::Soon(1..) => self.pause(now),
            Freed::Now(0) | Freed::Soon(0) | Freed::Nothing => {
                self.pause(now);
                shared.handle_exhaustion(errno);
            }
        }
    }

    fn begin_batch(&mut self, scoreboard: &Scoreboard) -> Batch {
        let takes_any = self.state == State::TakingAny;
        if takes_any {
            self.state = State::Taking;
        }
        let (_, workers) = scoreboard.load();
        let most = if workers <= 1 || self.share == Share::Any { BATCH_MAX } else { BATCH_SHARED_MAX };
        Batch { most, takes_any }
    }
}

/// How many of so many connections are given up at once: half of them at most, so that the newest stay.
pub fn shed_max(connections: usize) -> usize {
    SHED_MAX.min(connections.div_ceil(2))
}

/// An engine that waits for listeners, and has many connections at a time.
pub trait Accepting<'a> {
    /// The acceptor, which decides for it.
    fn acceptor(&mut self) -> &mut Acceptor;

    /// State that all workers of the engine share.
    fn shared(&self) -> &'a Shared;

    /// The time of this batch of events.
    fn now(&self) -> Instant;

    /// How many connections it has.
    fn connections(&self) -> usize;

    /// Waits for listeners from now on, or no more.
    ///
    /// # Errors
    /// No descriptors or memory: it is tried again.
    fn watch(&mut self, watches: bool) -> Result<(), Errno>;

    /// Begins with a connection.
    fn begin(&mut self, connection: ConnectionState);

    /// Closes those that make room, at most `most`: as [`room::choose`](crate::worker::room::choose) says.
    fn shed(&mut self, most: usize) -> Freed;

    /// Begins to take connections.
    ///
    /// # Errors
    /// No descriptors or memory.
    fn begin_accepting(&mut self) -> Result<(), Errno> {
        self.watch(true)?;
        self.acceptor().watches = true;
        Ok(())
    }

    /// Takes no more connections.
    fn end_accepting(&mut self) {
        self.acceptor().close();
        self.settle_accepting();
    }

    /// Takes a batch of connections from a listener that has some. [`Accepting::settle_accepting`] follows when all
    /// events have been handled.
    fn accept_from(&mut self, listener: usize) {
        let shared = self.shared();
        let Batch { most, takes_any } = self.acceptor().begin_batch(&shared.scoreboard);
        for _ in 0..most {
            let (connections, now) = (self.connections(), self.now());
            let acceptor = self.acceptor();
            if !acceptor.is_taking() || shared.control.is_closing() {
                return;
            }
            if !takes_any && acceptor.pass_if_over_share(&shared.scoreboard, connections, now) {
                return;
            }
            let Some(connection) = acceptor.take(shared, listener, now) else { return };
            self.begin(connection);
        }
    }

    /// Makes room if there is none, ends pauses that are over, and waits for listeners if connections are taken. To be
    /// called after each batch of events, and when the acceptor is due.
    fn settle_accepting(&mut self) {
        let (shared, now) = (self.shared(), self.now());
        if let Some(errno) = self.acceptor().look(shared, now) {
            let freed = self.shed(shed_max(self.connections()));
            self.acceptor().handle_freed(freed, shared, errno, now);
        }
        let watches = self.acceptor().is_taking();
        if watches != self.acceptor().watches {
            match self.watch(watches) {
                Ok(()) => self.acceptor().watches = watches,
                Err(_) => self.acceptor().pause(now),
            }
        }
    }
}

/// Waits in `poll` for all listeners, with their indices and `generation` for tokens, or no more.
///
/// # Errors
/// No descriptors or memory. Then none is waited for.
pub fn watch_in(poll: &Poll, listeners: &[Arc<Listener>], generation: u32, watches: bool) -> Result<(), Errno> {
    let mut added = Ok(());
    for (index, listener) in listeners.iter().enumerate().filter(|_| watches) {
        let token = Token { index: index as u32, generation };
        added = added.and_then(|()| poll.add_listener(listener.as_fd(), token));
    }
    if !watches || added.is_err() {
        listeners.iter().for_each(|listener| poll.remove(listener.as_fd()));
    }
    added
}

/// The state of a connection that was taken, for the worker that has its socket. None if its client network has as many
/// connections as it may.
fn let_in(shared: &Shared, listener: &Listener, accepted: Accepted, now: Instant) -> Option<ConnectionState> {
    let permit = match shared.limiter.connections().map(|limit| limit.admit(accepted.client, listener)) {
        Some(Err(Crowded)) => {
            shared.counters.work.connections.fetch_add(1, Relaxed);
            let speaks_tls = shared.tls.is_some() && listener.speaks_tls();
            if !speaks_tls && listener.proxies().is_none() {
                turn_away(accepted.socket.as_fd());
            }
            return None;
        }
        Some(Ok(permit)) => permit,
        None => None,
    };
    Some(ConnectionState::accepted(accepted, listener, shared.tls.as_ref(), &shared.limits, now).with_permit(permit))
}

/// The connections that wait at a listener, at most `most` and as many as there are descriptors for: for who neither
/// waits for listeners nor has to leave room.
pub fn waiting(shared: &Shared, listener: &Listener, most: usize) -> impl Iterator<Item = ConnectionState> {
    let next = || accept(listener.as_fd());
    let accepted = std::iter::repeat_with(next).take(most).filter_map(|accepted| match accepted {
        Err(errno) if concerns_one_connection(errno) => None,
        accepted => Some(accepted.ok()),
    });
    let connection = |accepted| let_in(shared, listener, accepted, shared.clock.now());
    accepted.map_while(|accepted| accepted).filter_map(connection)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::testing;

    const NOW: Instant = Instant::from_ms(1000);

    fn paused(now: Instant) -> State {
        State::Paused { until: now.after_ms(PAUSE_MS) }
    }

    #[test]
    fn without_room_idle_connections_go_first_and_only_then_accepting_pauses() {
        let (shared, _root) = testing::shared(1, 1);
        let mut acceptor = Acceptor::new(Share::Fair);
        acceptor.handle_shortage(Errno::MFILE);
        assert!(!acceptor.is_taking());
        assert_eq!(acceptor.look_with(NOW, |_| unreachable!()), Some(Errno::MFILE));
        acceptor.handle_freed(Freed::Now(3), &shared, Errno::MFILE, NOW);
        assert!(acceptor.is_taking());
        acceptor.handle_shortage(Errno::NFILE);
        acceptor.handle_freed(Freed::Soon(2), &shared, Errno::NFILE, NOW);
        assert_eq!(acceptor.state, paused(NOW));
        assert_eq!(
            (shared.counters.work.idle_shed.load(Relaxed), shared.counters.work.accept_pauses.load(Relaxed)),
            (5, 0)
        );
        for nobody in [Freed::Nothing, Freed::Now(0), Freed::Soon(0)] {
            acceptor.handle_shortage(Errno::MFILE);
            acceptor.handle_freed(nobody, &shared, Errno::MFILE, NOW);
            assert_eq!(acceptor.state, paused(NOW));
        }
        assert_eq!(shared.counters.work.accept_pauses.load(Relaxed), 3);
    }

    #[test]
    fn a_pause_ends_with_its_time_or_a_connection_and_only_when_there_is_room() {
        let mut acceptor = Acceptor::new(Share::Any);
        acceptor.pause(NOW);
        let due = acceptor.due().unwrap();
        assert_eq!(due, NOW.after_ms(PAUSE_MS));
        assert_eq!(acceptor.look_with(NOW, |_| unreachable!()), None);
        assert_eq!(acceptor.look_with(due, |_| false), Some(Errno::MFILE));
        acceptor.pause(due);
        acceptor.handle_room(due);
        assert_eq!(acceptor.due(), Some(due));
        assert_eq!(acceptor.look_with(due, |_| true), None);
        assert!(acceptor.is_taking() && acceptor.due().is_none());
        acceptor.handle_room(due);
        assert!(acceptor.is_taking(), "there was room");
    }

    #[test]
    fn who_has_more_than_its_share_passes_once_and_then_takes_a_batch_of_what_is_left() {
        let (shared, _root) = testing::shared(1, 1);
        let scoreboard = &shared.scoreboard;
        (0..2).for_each(|index| scoreboard.take(index));
        scoreboard.score(0).show(1000);
        let mut acceptor = Acceptor::new(Share::Fair);
        assert_eq!(acceptor.begin_batch(scoreboard), Batch { most: BATCH_SHARED_MAX, takes_any: false });
        assert!(!acceptor.pass_if_over_share(scoreboard, 500, NOW));
        assert!(acceptor.pass_if_over_share(scoreboard, 1000, NOW));
        let due = acceptor.due().unwrap();
        assert_eq!(acceptor.look_with(due, |_| unreachable!()), None);
        assert!(acceptor.begin_batch(scoreboard).takes_any);
        assert!(!acceptor.begin_batch(scoreboard).takes_any);
        let mut other = Acceptor::new(Share::Any);
        assert_eq!(other.begin_batch(scoreboard), Batch { most: BATCH_MAX, takes_any: false });
        assert!(!other.pass_if_over_share(scoreboard, 1000, NOW));
    }

    #[test]
    fn what_is_closed_stays_closed() {
        let (shared, _root) = testing::shared(1, 1);
        let mut acceptor = Acceptor::new(Share::Fair);
        acceptor.close();
        acceptor.pause(NOW);
        acceptor.handle_shortage(Errno::MFILE);
        acceptor.handle_room(NOW);
        assert!(!acceptor.pass_if_over_share(&shared.scoreboard, 1000, NOW));
        assert_eq!(acceptor.look_with(NOW, |_| true), None);
        assert!(acceptor.is_closed() && acceptor.due().is_none());
    }

    #[test]
    fn half_of_the_connections_stay_when_room_is_made() {
        assert_eq!([0, 1, 2, 9, 1000].map(shed_max), [0, 1, 1, 5, SHED_MAX]);
    }
}
