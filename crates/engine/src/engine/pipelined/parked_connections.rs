//! The connections that rest with one stage, found by descriptor number, and their timeouts.
//!
//! Owns: jobs while they wait for their sockets. Guarantees: constant-time access; a token of a connection that has
//! left finds nothing. No timer is set for a request: all parked are looked at, at most once a second.

use lamna_io::wait::Token;
use lamna_proto::limits::Limits;
use lamna_proto::time::Instant;

use super::stage_job::{StageContext, StageJob};
use crate::worker::room;

/// The jobs that rest with a stage.
#[derive(Default)]
pub(super) struct ParkedConnections {
    jobs: Vec<Option<Box<StageJob>>>,
    /// How many there are, and how many of them are idle.
    count: usize,
    idle: usize,
    /// No timeout is due before.
    next_look: Option<Instant>,
}

/// How often all of them are looked at, at most.
const LOOK_MS: u32 = 1000;

impl ParkedConnections {
    /// A job comes to rest.
    pub(super) fn settle(&mut self, job: Box<StageJob>, limits: &Limits, now: Instant) {
        let due = job.slot.deadline(limits, now);
        self.next_look = earlier(self.next_look, due);
        let index = job.token().index as usize;
        if index >= self.jobs.len() {
            self.jobs.resize_with(index + 1, || None);
        }
        self.count += 1;
        self.idle += usize::from(job.slot.is_idle());
        self.jobs[index] = Some(job);
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// How many are between requests.
    pub(super) fn idle(&self) -> usize {
        self.idle
    }

    /// Takes a job away, if it is here.
    pub(super) fn leave(&mut self, token: Token) -> Option<Box<StageJob>> {
        let place = self.jobs.get_mut(token.index as usize)?;
        let job = place.take_if(|job| job.slot.generation == token.generation)?;
        self.count -= 1;
        self.idle -= usize::from(job.slot.is_idle());
        Some(job)
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
        for job in self.jobs.iter().flatten() {
            match job.slot.deadline(limits, now) {
                Some(due) if due <= now => expired.push(job.token()),
                due => next = earlier(next, due),
            }
        }
        self.next_look = next.map(|next| next.max(now.after_ms(LOOK_MS)));
        expired
    }

    /// All of them.
    pub(super) fn tokens(&self) -> Vec<Token> {
        self.jobs.iter().flatten().map(|job| job.token()).collect()
    }

    /// All of them leave, to the successor of the pool that is handing over.
    pub(super) fn vacate(&mut self, station: &mut StageContext<'_>) {
        (self.count, self.idle) = (0, 0);
        for job in self.jobs.drain(..).flatten() {
            let kept = station.keep(job);
            debug_assert!(kept.is_none(), "a pool that does not hand over keeps its connections");
        }
    }

    /// Those that make room where descriptors have run out, at most `most`.
    pub(super) fn making_room(&self, most: usize, limits: &Limits) -> Vec<Token> {
        let of = |job: &StageJob| {
            let until = job.slot.poll_timeout(limits).map_or(0, Instant::us);
            job.slot.candidate(until)
        };
        room::choose(self.jobs.iter().flatten().filter_map(|job| of(job)), most).tokens
    }
}

fn earlier(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    one.into_iter().chain(other).min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::connection_state::ConnectionState;

    fn job(now: Instant) -> Box<StageJob> {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().into();
        let mut slot = ConnectionState::new(socket, None, now);
        slot.generation = 1;
        StageJob::new(slot)
    }

    #[test]
    fn a_parcel_leaves_once_and_only_by_its_own_token() {
        let mut parked = ParkedConnections::default();
        let job = job(Instant::from_ms(0));
        let token = job.token();
        parked.settle(job, &Limits::default(), Instant::from_ms(0));
        assert!(parked.leave(Token { generation: 2, ..token }).is_none());
        assert_eq!((parked.count(), parked.idle()), (1, 1));
        assert!(parked.leave(token).is_some());
        assert!(parked.leave(token).is_none());
        assert_eq!((parked.count(), parked.idle()), (0, 0));
    }

    #[test]
    fn timeouts_pass_for_those_who_rest_and_the_next_look_is_not_before_the_next_timeout() {
        let (mut parked, limits) = (ParkedConnections::default(), Limits::default());
        let (early, late) = (job(Instant::from_ms(0)), job(Instant::from_ms(9_000)));
        let (token, limit) = (early.token(), u64::from(limits.idle_timeout_ms));
        parked.settle(late, &limits, Instant::from_ms(0));
        parked.settle(early, &limits, Instant::from_ms(0));
        assert_eq!(parked.next_look(), Some(Instant::from_ms(limit)));
        assert!(parked.expired(Instant::from_ms(limit - 1), &limits).is_empty());
        assert_eq!(parked.expired(Instant::from_ms(limit), &limits), [token]);
        parked.leave(token);
        assert_eq!(parked.next_look(), Some(Instant::from_ms(limit + 9_000)));
    }
}
