//! The connections that rest with one stage, found by descriptor number, and their timeouts.
//!
//! Owns: parcels while they wait for their sockets. Guarantees: constant-time access; a token of a connection that has
//! left finds nothing. No timer is set for a request: all residents are looked at, at most once a second.

use lamna_proto::limits::Limits;
use lamna_proto::time::Instant;

use super::parcel::{Parcel, Station};
use crate::io::wait::Token;

/// The parcels that rest with a stage.
#[derive(Default)]
pub(super) struct Residents {
    parcels: Vec<Option<Box<Parcel>>>,
    /// How many there are, and how many of them are idle.
    count: usize,
    idle: usize,
    /// No timeout is due before.
    next_look: Option<Instant>,
}

/// How often all of them are looked at, at most.
const LOOK_MS: u32 = 1000;

impl Residents {
    /// A parcel comes to rest.
    pub(super) fn settle(&mut self, parcel: Box<Parcel>, limits: &Limits) {
        let due = parcel.slot.connection.poll_timeout(limits);
        self.next_look = earlier(self.next_look, due);
        let index = parcel.token().index as usize;
        if index >= self.parcels.len() {
            self.parcels.resize_with(index + 1, || None);
        }
        self.count += 1;
        self.idle += usize::from(parcel.slot.connection.is_idle());
        self.parcels[index] = Some(parcel);
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// How many are between requests.
    pub(super) fn idle(&self) -> usize {
        self.idle
    }

    /// Takes a parcel away, if it is here.
    pub(super) fn leave(&mut self, token: Token) -> Option<Box<Parcel>> {
        let place = self.parcels.get_mut(token.index as usize)?;
        let parcel = place.take_if(|parcel| parcel.slot.generation == token.generation)?;
        self.count -= 1;
        self.idle -= usize::from(parcel.slot.connection.is_idle());
        Some(parcel)
    }

    /// When `expired` may have something.
    pub(super) fn next_look(&self) -> Option<Instant> {
        self.next_look
    }

    /// Those whose timeout has passed at `now`.
    pub(super) fn expired(&mut self, now: Instant, limits: &Limits) -> Vec<Token> {
        if self.next_look.is_none_or(|at| at > now) {
            return Vec::new();
        }
        let (mut expired, mut next) = (Vec::new(), None);
        for parcel in self.parcels.iter().flatten() {
            match parcel.slot.connection.poll_timeout(limits) {
                Some(due) if due <= now => expired.push(parcel.token()),
                due => next = earlier(next, due),
            }
        }
        self.next_look = next.map(|next| next.max(now.after_ms(LOOK_MS)));
        expired
    }

    /// All of them.
    pub(super) fn tokens(&self) -> Vec<Token> {
        self.parcels.iter().flatten().map(|parcel| parcel.token()).collect()
    }

    /// All of them leave, to the successor of the pool that is handing over.
    pub(super) fn vacate(&mut self, station: &Station<'_>) {
        (self.count, self.idle) = (0, 0);
        for parcel in self.parcels.drain(..).flatten() {
            let kept = station.keep(parcel);
            debug_assert!(kept.is_none(), "a pool that does not hand over keeps its connections");
        }
    }

    /// Those that have been idle longest, at most `count`.
    pub(super) fn longest_idle(&self, count: usize, limits: &Limits) -> Vec<Token> {
        let idle = self.parcels.iter().flatten().filter(|parcel| parcel.slot.connection.is_idle());
        let mut idle: Vec<_> =
            idle.map(|parcel| (parcel.slot.connection.poll_timeout(limits), parcel.token())).collect();
        idle.sort_unstable_by_key(|(due, _)| *due);
        idle.into_iter().take(count).map(|(_, token)| token).collect()
    }
}

fn earlier(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    one.into_iter().chain(other).min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::slots::Slot;

    fn parcel(now: Instant) -> Box<Parcel> {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().into();
        let mut slot = Slot::new(socket, None, now);
        slot.generation = 1;
        Parcel::new(slot)
    }

    #[test]
    fn a_parcel_leaves_once_and_only_by_its_own_token() {
        let mut residents = Residents::default();
        let parcel = parcel(Instant(0));
        let token = parcel.token();
        residents.settle(parcel, &Limits::default());
        assert!(residents.leave(Token { generation: 2, ..token }).is_none());
        assert_eq!((residents.count(), residents.idle()), (1, 1));
        assert!(residents.leave(token).is_some());
        assert!(residents.leave(token).is_none());
        assert_eq!((residents.count(), residents.idle()), (0, 0));
    }

    #[test]
    fn timeouts_pass_for_those_who_rest_and_the_next_look_is_not_before_the_next_timeout() {
        let (mut residents, limits) = (Residents::default(), Limits::default());
        let (early, late) = (parcel(Instant(0)), parcel(Instant(9_000)));
        let (token, limit) = (early.token(), u64::from(limits.idle_timeout_ms));
        residents.settle(late, &limits);
        residents.settle(early, &limits);
        assert_eq!(residents.next_look(), Some(Instant(limit)));
        assert!(residents.expired(Instant(limit - 1), &limits).is_empty());
        assert_eq!(residents.expired(Instant(limit), &limits), [token]);
        residents.leave(token);
        assert_eq!(residents.next_look(), Some(Instant(limit + 9_000)));
    }
}
