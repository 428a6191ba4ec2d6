//! Requests that wait for a program, and programs that run, by client network.
//!
//! Owns: [`FairQueue`], which says whose request gets the next program, and [`Permit`], by which one that runs counts.
//! Guarantees: while requests of several networks wait, the next program is for the one that has the fewest, in turn
//! among equals; a network may have all programs as long as nobody else waits; at most [`WAITING_MAX`] requests wait,
//! and what is beyond that is the newest of the network that has most of them. A program whose client does not read is
//! asked to yield if its network has more than its share and another network has waited for long. No request whose
//! client has left gets a program, keeps a place among those that wait, or has a program yield. Knows nothing else of
//! requests.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lamna_site::content::at_once::ClientNetwork;

/// A client network. None for clients that are not known by one.
pub(super) type Network = Option<ClientNetwork>;

/// Requests that wait: each holds a descriptor and its variables.
pub(super) const WAITING_MAX: usize = 512;

/// A request that waits for its program.
pub(super) trait Waiting {
    /// Whether its client has left. Does not wait.
    fn has_left(&self) -> bool;
}

/// See the module.
#[derive(Debug)]
pub(super) struct FairQueue<T> {
    programs_max: usize,
    /// How long others wait, and a client reads nothing, before a program has to yield.
    patience: Duration,
    state: Mutex<State<T>>,
    changed: Condvar,
}

#[derive(Debug)]
struct State<T> {
    /// A queue for each network that waits. The one that was served last is behind the others.
    queues: VecDeque<Queue<T>>,
    running: Vec<Running>,
    numbers: u64,
    has_ended: bool,
}

/// Requests of one network, with when they came: never none.
#[derive(Debug)]
struct Queue<T> {
    network: Network,
    requests: VecDeque<(Instant, T)>,
}

#[derive(Debug)]
struct Running {
    number: u64,
    network: Network,
    /// The program waits for its client.
    stall: Option<Stall>,
}

/// A wait of a program for its client. It ends when the client takes something, and with it that the program has to
/// yield.
#[derive(Clone, Copy, Debug)]
struct Stall {
    since: Instant,
    has_to_yield: bool,
}

/// The place of a program that runs. It ends with the value.
#[derive(Debug)]
pub(super) struct Permit<'a, T> {
    queue: &'a FairQueue<T>,
    number: u64,
    /// The network whose program it is.
    pub(super) network: Network,
}

impl<T: Waiting> FairQueue<T> {
    /// For so many programs at once.
    pub(super) fn new(programs_max: usize, patience: Duration) -> FairQueue<T> {
        let state = State { queues: VecDeque::new(), running: Vec::new(), numbers: 0, has_ended: false };
        FairQueue { programs_max, patience, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// A request of `network` waits. Returns the one, this or another, for which there is no room.
    pub(super) fn push(&self, network: Network, request: T, now: Instant) -> Option<T> {
        let mut state = self.lock();
        match state.queues.iter_mut().find(|queue| queue.network == network) {
            Some(queue) => queue.requests.push_back((now, request)),
            None => state.queues.push_back(Queue { network, requests: [(now, request)].into() }),
        }
        self.changed.notify_one();
        let waiting: usize = state.queues.iter().map(|queue| queue.requests.len()).sum();
        let longest = state.queues.iter_mut().max_by_key(|queue| queue.requests.len());
        let refused = longest.filter(|_| waiting > WAITING_MAX).and_then(|queue| queue.requests.pop_back());
        state.queues.retain(|queue| !queue.requests.is_empty());
        state.check_invariants(self.programs_max);
        refused.map(|(_, request)| request)
    }

    /// Waits for the next request whose turn it is; none if there are no more.
    pub(super) fn next(&self) -> Option<(Permit<'_, T>, T)> {
        let mut state = self.lock();
        loop {
            if let Some((network, request)) = state.take_next() {
                if request.has_left() {
                    continue;
                }
                state.numbers += 1;
                let number = state.numbers;
                state.running.push(Running { number, network, stall: None });
                state.check_invariants(self.programs_max);
                return Some((Permit { queue: self, number, network }, request));
            }
            if state.has_ended {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// No request comes any more. Those that wait are served.
    pub(super) fn end(&self) {
        self.lock().has_ended = true;
        self.changed.notify_all();
    }

    /// Whether a request waits.
    pub(super) fn has_waiting(&self) -> bool {
        !self.lock().queues.is_empty()
    }

    /// Drops requests whose clients have left, and asks a program to yield where others have waited for too long. To be
    /// called now and then.
    pub(super) fn look(&self, now: Instant) {
        let mut state = self.lock();
        state.queues.iter_mut().for_each(|queue| queue.requests.retain(|(_, request)| !request.has_left()));
        state.queues.retain(|queue| !queue.requests.is_empty());
        let is_long = |since: Instant| now.saturating_duration_since(since) >= self.patience;
        let is_free = state.running.len() < self.programs_max;
        if is_free || state.running.iter().any(Running::has_to_yield) {
            return;
        }
        let networks = state.networks();
        let share = (self.programs_max / networks.max(1)).max(1);
        // A network that has its share already waits for programs of its own.
        let is_due = |queue: &&Queue<T>| {
            let has_waited = queue.requests.front().is_some_and(|(since, _)| is_long(*since));
            has_waited && state.count(queue.network) < share
        };
        let Some(waiting) = state.queues.iter().find(is_due).map(|queue| queue.network) else { return };
        let counts: Vec<usize> = state.running.iter().map(|one| state.count(one.network)).collect();
        // With more networks than programs, one program is a share, and still goes to those that wait in time: behind
        // what others have beyond their share.
        let is_within = |at: usize| counts[at] <= share;
        let may_go =
            |at: usize, one: &Running| one.network != waiting && (!is_within(at) || self.programs_max < networks);
        let stalled = state.running.iter().enumerate().filter(|(at, one)| may_go(*at, one));
        let slowest = stalled
            .filter_map(|(at, one)| Some((at, one.stall.map(|stall| stall.since).filter(|since| is_long(*since))?)))
            .min_by_key(|&(at, since)| (is_within(at), since))
            .map(|(at, _)| at);
        if let Some(stall) = slowest.and_then(|at| state.running[at].stall.as_mut()) {
            stall.has_to_yield = true;
        }
        state.check_invariants(self.programs_max);
    }
}

impl<T> FairQueue<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> State<T> {
    /// Checks that there are no more programs than threads that run them, that each network that waits has one queue
    /// with something in it, that no more wait than may, and that one program at most has to yield, in a build with
    /// assertions.
    fn check_invariants(&self, programs_max: usize) {
        if cfg!(debug_assertions) {
            assert!(self.running.len() <= programs_max, "{} programs run", self.running.len());
            let lengths = self.queues.iter().map(|queue| queue.requests.len());
            assert!(lengths.clone().all(|length| length > 0), "an empty queue is served");
            assert!(lengths.sum::<usize>() <= WAITING_MAX, "too many requests wait");
            let count = |network| self.queues.iter().filter(|queue| queue.network == network).count();
            assert!(self.queues.iter().all(|queue| count(queue.network) == 1), "a network has two queues");
            assert!(self.running.iter().filter(|one| one.has_to_yield()).count() <= 1, "more than one has to yield");
        }
    }

    /// The oldest request of the network that has the fewest programs.
    fn take_next(&mut self) -> Option<(Network, T)> {
        let fewest = |(_, queue): &(usize, &Queue<T>)| self.count(queue.network);
        let at = self.queues.iter().enumerate().min_by_key(fewest)?.0;
        let mut queue = self.queues.remove(at)?;
        let (_, request) = queue.requests.pop_front()?;
        let network = queue.network;
        if !queue.requests.is_empty() {
            self.queues.push_back(queue);
        }
        Some((network, request))
    }

    /// Programs of `network` that run.
    fn count(&self, network: Network) -> usize {
        self.running.iter().filter(|one| one.network == network).count()
    }

    /// Networks that wait, or have a program.
    fn networks(&self) -> usize {
        let waiting = self.queues.iter().map(|queue| queue.network);
        let mut all: Vec<Network> = Vec::new();
        for network in waiting.chain(self.running.iter().map(|one| one.network)) {
            if !all.contains(&network) {
                all.push(network);
            }
        }
        all.len()
    }
}

impl Running {
    fn has_to_yield(&self) -> bool {
        self.stall.is_some_and(|stall| stall.has_to_yield)
    }
}

impl<T> Permit<'_, T> {
    /// The client has taken nothing since then, and the program waits for it; or it does not. Whether others are to
    /// have the place, because of that wait and no earlier one.
    #[must_use]
    pub(super) fn stall(&self, since: Option<Instant>) -> bool {
        let mut state = self.queue.lock();
        let Some(one) = state.running.iter_mut().find(|one| one.number == self.number) else { return false };
        if one.stall.map(|stall| stall.since) != since {
            one.stall = since.map(|since| Stall { since, has_to_yield: false });
        }
        one.has_to_yield()
    }
}

impl<T> Drop for Permit<'_, T> {
    fn drop(&mut self) {
        self.queue.lock().running.retain(|one| one.number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(5);
    /// A request whose client has left.
    const LEFT: u32 = u32::MAX;

    impl<T> Permit<'_, T> {
        fn has_to_yield(&self) -> bool {
            self.queue.lock().running.iter().any(|one| one.number == self.number && one.has_to_yield())
        }
    }

    impl Waiting for u32 {
        fn has_left(&self) -> bool {
            *self == LEFT
        }
    }

    fn network(number: u8) -> Network {
        Some(ClientNetwork::of([192, 0, 2, number].into()))
    }

    fn push(queue: &FairQueue<u32>, of: u8, count: u32) {
        (0..count).for_each(|number| assert_eq!(queue.push(network(of), number, Instant::now()), None));
    }

    #[test]
    fn the_next_program_is_for_the_network_that_has_the_fewest() {
        let queue = FairQueue::new(9, PATIENCE);
        push(&queue, 1, 5);
        // Nobody else waits: all are for one network.
        let first: Vec<_> = (0..3).map(|_| queue.next().unwrap()).collect();
        assert_eq!(first.iter().map(|(_, request)| *request).collect::<Vec<_>>(), [0, 1, 2]);
        push(&queue, 2, 3);
        push(&queue, 3, 1);
        let next: Vec<_> = (0..6).map(|_| queue.next().unwrap()).collect();
        let served: Vec<_> = next.iter().map(|(permit, request)| (permit.network, *request)).collect();
        let expected = [(2, 0), (3, 0), (2, 1), (2, 2), (1, 3), (1, 4)];
        assert_eq!(served, expected.map(|(of, request)| (network(of), request)));
    }

    #[test]
    fn nothing_is_done_for_a_client_that_has_left_while_it_waited() {
        let (queue, start) = (FairQueue::new(1, PATIENCE), Instant::now());
        push(&queue, 1, 1);
        let (permit, _) = queue.next().unwrap();
        assert!(!permit.stall(Some(start)));
        for of in [2, 3] {
            assert_eq!(queue.push(network(of), LEFT, start), None);
        }
        queue.look(start + PATIENCE);
        assert!(!queue.has_waiting() && !permit.has_to_yield());
        // It is looked at once more when its turn is there.
        assert_eq!(queue.push(network(2), LEFT, start), None);
        push(&queue, 2, 1);
        drop(permit);
        assert_eq!(queue.next().unwrap().1, 0);
        assert!(!queue.has_waiting());
    }

    #[test]
    fn equals_are_served_in_turn() {
        let queue = FairQueue::new(1, PATIENCE);
        push(&queue, 1, 3);
        push(&queue, 2, 2);
        let mut served = Vec::new();
        for _ in 0..5 {
            served.push(queue.next().unwrap().0.network);
        }
        assert_eq!(served, [1, 2, 1, 2, 1].map(network));
        queue.end();
        assert!(queue.next().is_none());
    }

    #[test]
    fn what_there_is_no_room_for_is_of_the_network_that_has_most() {
        let queue = FairQueue::new(2, PATIENCE);
        push(&queue, 1, WAITING_MAX as u32);
        assert_eq!(queue.push(network(2), 7, Instant::now()), Some(WAITING_MAX as u32 - 1));
        assert_eq!(queue.push(network(1), 9, Instant::now()), Some(9));
        let (one, two) = (queue.next().unwrap(), queue.next().unwrap());
        assert_eq!((one.1, two.1, two.0.network), (0, 7, network(2)));
        // Where each has one it is the one that has come.
        let queue = FairQueue::new(1, PATIENCE);
        for number in 0..=WAITING_MAX as u32 {
            let network = Some(ClientNetwork::of(std::net::Ipv4Addr::from(number).into()));
            let refused = queue.push(network, number, Instant::now());
            assert_eq!(refused, (number == WAITING_MAX as u32).then_some(number));
        }
        queue.end();
        assert_eq!(std::iter::from_fn(|| queue.next()).count(), WAITING_MAX);
    }

    #[test]
    fn the_slowest_reader_yields_where_its_network_has_more_than_its_share_and_another_waits() {
        let (queue, start) = (FairQueue::new(4, PATIENCE), Instant::now());
        push(&queue, 1, 3);
        push(&queue, 2, 1);
        let permits: Vec<_> = (0..4).map(|_| queue.next().unwrap().0).collect();
        let (own, others): (Vec<_>, Vec<_>) = permits.into_iter().partition(|permit| permit.network == network(1));
        let yielding = || own.iter().map(Permit::has_to_yield).collect::<Vec<_>>();
        assert!(!others[0].stall(Some(start)));
        assert!(!own[1].stall(Some(start)));
        assert!(!own[2].stall(Some(start + Duration::from_secs(1))));
        // Nobody waits, or not for long, or who has more waits itself.
        queue.look(start + 2 * PATIENCE);
        push(&queue, 1, 1);
        queue.look(start + 10 * PATIENCE);
        assert_eq!(yielding(), [false; 3]);
        assert_eq!(queue.push(network(2), 0, start), None);
        queue.look(start + PATIENCE - Duration::from_millis(1));
        assert_eq!(yielding(), [false; 3]);
        queue.look(start + PATIENCE);
        assert_eq!(yielding(), [false, true, false]);
        // One after the other, and nobody down to less than its share.
        queue.look(start + 2 * PATIENCE);
        assert_eq!((yielding(), others[0].has_to_yield()), (vec![false, true, false], false));
    }

    /// One network has every program, and more requests that wait: they do not stand before those of others.
    #[test]
    fn a_network_that_has_its_share_and_waits_for_more_keeps_no_other_from_its_own() {
        let (queue, start) = (FairQueue::new(4, PATIENCE), Instant::now());
        push(&queue, 1, 4);
        let permits: Vec<_> = (0..4).map(|_| queue.next().unwrap().0).collect();
        permits.iter().for_each(|permit| assert!(!permit.stall(Some(start))));
        assert_eq!(queue.push(network(1), 4, start), None);
        queue.look(start + PATIENCE);
        assert!(!permits.iter().any(Permit::has_to_yield), "there is nobody else");
        assert_eq!(queue.push(network(2), 0, start), None);
        queue.look(start + PATIENCE);
        assert_eq!(permits.iter().filter(|permit| permit.has_to_yield()).count(), 1);
    }

    /// The programs of a network beyond its share are for networks that have less, not for one that has as much.
    #[test]
    fn a_network_beyond_its_share_takes_no_program_of_another() {
        let (queue, start) = (FairQueue::new(7, PATIENCE), Instant::now());
        push(&queue, 1, 3);
        push(&queue, 2, 3);
        push(&queue, 3, 1);
        let permits: Vec<_> = (0..7).map(|_| queue.next().unwrap().0).collect();
        permits.iter().for_each(|permit| assert!(!permit.stall(Some(start))));
        assert_eq!(queue.push(network(1), 3, start), None);
        queue.look(start + PATIENCE);
        assert!(!permits.iter().any(Permit::has_to_yield), "two are a share, and it has three");
    }

    #[test]
    fn with_more_networks_than_programs_a_stalled_one_yields_to_who_has_none() {
        let (queue, start) = (FairQueue::new(1, PATIENCE), Instant::now());
        push(&queue, 1, 1);
        let (permit, _) = queue.next().unwrap();
        assert!(!permit.stall(Some(start)));
        assert_eq!(queue.push(network(2), 0, start), None);
        queue.look(start + PATIENCE);
        assert!(permit.has_to_yield());
    }

    #[test]
    fn a_program_whose_client_takes_something_does_not_have_to_yield_any_more() {
        let (queue, start) = (FairQueue::new(1, PATIENCE), Instant::now());
        push(&queue, 1, 1);
        let (permit, _) = queue.next().unwrap();
        assert!(!permit.stall(Some(start)));
        assert_eq!(queue.push(network(2), 0, start), None);
        queue.look(start + PATIENCE);
        assert!(permit.stall(Some(start)));
        assert!(!permit.stall(Some(start + PATIENCE)), "it waits anew");
        queue.look(start + 2 * PATIENCE);
        assert!(permit.has_to_yield());
        assert!(!permit.stall(None), "it goes on");
    }

    #[test]
    fn a_network_with_no_more_than_its_share_keeps_it_where_another_has_more() {
        for waiting in [1, 3] {
            let (queue, start) = (FairQueue::new(4, PATIENCE), Instant::now());
            push(&queue, 1, 1);
            push(&queue, 2, 3);
            let permits: Vec<_> = (0..4).map(|_| queue.next().unwrap().0).collect();
            for permit in &permits {
                // The only program of the one is the slowest.
                let since = if permit.network == network(1) { start } else { start + Duration::from_secs(1) };
                assert!(!permit.stall(Some(since)));
            }
            (0..waiting).for_each(|number| assert_eq!(queue.push(network(3 + number), 0, start), None));
            queue.look(start + 2 * PATIENCE);
            let yielding: Vec<_> = permits.iter().filter(|permit| permit.has_to_yield()).collect();
            assert_eq!(yielding.iter().map(|permit| permit.network).collect::<Vec<_>>(), [network(2)]);
        }
    }
}
