//! Which request comes next, and when it is due: one feed for each thread.
//!
//! Guarantees: over all threads together a sequence is asked in its order, each entry once a turn; rates and numbers of
//! requests are those of the plan, whatever the number of threads. Does not look at clocks.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lamna_sim::kernel::Stream;
use lamna_sim::workload::Alias;

use super::plan::{Order, Pace, Plan};

/// The next request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Next {
    /// Nanoseconds from the beginning of the run; 0 if the pace is closed.
    pub(super) due_ns: u64,
    /// Index of the target.
    pub(super) target: u32,
}

/// How far a sequence has been asked, for all threads.
#[derive(Debug, Default)]
pub(super) struct Cursor(AtomicUsize);

/// The feed of one thread.
pub(super) struct Feed {
    choice: Choice,
    schedule: Schedule,
    random: Stream,
    /// Requests that this thread may still make.
    left: u64,
}

enum Choice {
    Only,
    Weighted(Alias),
    Sequence { targets: Arc<[u32]>, looped: bool, cursor: Arc<Cursor> },
}

enum Schedule {
    Closed,
    /// The k-th request of this thread is due after `first + k * interval`.
    Even {
        first_ns: f64,
        interval_ns: f64,
        made: u64,
    },
    Poisson {
        mean_ns: f64,
        last_ns: f64,
    },
    Times {
        due_ns: Arc<[u64]>,
        period_ns: u64,
    },
}

impl Feed {
    /// For thread `thread` of `plan.threads`.
    pub(super) fn new(plan: &Plan, thread: usize, cursor: &Arc<Cursor>) -> Feed {
        let threads = plan.threads as u64;
        let share = |total: u64| total / threads + u64::from((thread as u64) < total % threads);
        Feed {
            choice: Choice::new(plan, cursor),
            schedule: Schedule::new(plan, thread),
            random: Stream::new(plan.seed, &format!("feed {thread}")),
            left: plan.requests.map_or(u64::MAX, share),
        }
    }

    /// The next request; none when there are no more.
    pub(super) fn next(&mut self) -> Option<Next> {
        self.left = self.left.checked_sub(1)?;
        let (target, turn, at) = self.choice.next(&mut self.random)?;
        let due_ns = self.schedule.next(&mut self.random, turn, at)?;
        Some(Next { due_ns, target })
    }
}

impl Choice {
    fn new(plan: &Plan, cursor: &Arc<Cursor>) -> Choice {
        match &plan.order {
            Order::Sequence { targets, looped } => {
                Choice::Sequence { targets: targets.clone(), looped: *looped, cursor: cursor.clone() }
            }
            Order::Weighted if plan.targets.len() == 1 => Choice::Only,
            Order::Weighted => Choice::Weighted(Alias::new(plan.targets.iter().map(|target| target.weight).collect())),
        }
    }

    /// The target, and for a sequence its turn and place in it.
    fn next(&self, random: &mut Stream) -> Option<(u32, u64, usize)> {
        match self {
            Choice::Only => Some((0, 0, 0)),
            Choice::Weighted(alias) => Some((alias.draw(random), 0, 0)),
            Choice::Sequence { targets, looped, cursor } => {
                let count = cursor.0.fetch_add(1, Ordering::Relaxed);
                let (turn, at) = (count / targets.len(), count % targets.len());
                (*looped || turn == 0).then(|| (targets[at], turn as u64, at))
            }
        }
    }
}

impl Schedule {
    fn new(plan: &Plan, thread: usize) -> Schedule {
        match &plan.pace {
            Pace::Closed { .. } => Schedule::Closed,
            Pace::Rate { per_second, poisson } => {
                let interval_ns = 1e9 / per_second;
                let own_ns = interval_ns * plan.threads as f64;
                match poisson {
                    true => Schedule::Poisson { mean_ns: own_ns, last_ns: 0.0 },
                    false => Schedule::Even { first_ns: interval_ns * thread as f64, interval_ns: own_ns, made: 0 },
                }
            }
            Pace::Times { due_ns, period_ns } => Schedule::Times { due_ns: due_ns.clone(), period_ns: *period_ns },
        }
    }

    fn next(&mut self, random: &mut Stream, turn: u64, at: usize) -> Option<u64> {
        match self {
            Schedule::Closed => Some(0),
            Schedule::Even { first_ns, interval_ns, made } => {
                // Multiplied, not added up, so that the rate does not drift.
                let due_ns = *first_ns + *interval_ns * *made as f64;
                *made += 1;
                Some(due_ns as u64)
            }
            Schedule::Poisson { mean_ns, last_ns } => {
                *last_ns += random.exponential(*mean_ns);
                Some(*last_ns as u64)
            }
            Schedule::Times { due_ns, period_ns } => Some(due_ns.get(at)? + turn * *period_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::plan::RequestForm;
    use std::time::Duration;

    fn plan(threads: usize, order: Order, pace: Pace, requests: Option<u64>) -> Plan {
        let form = RequestForm { host: "h".into(), ..RequestForm::default() };
        Plan {
            threads,
            order,
            pace,
            requests,
            ..Plan::simple(([127, 0, 0, 1], 1).into(), vec![form.target("/a"), form.target("/b")])
        }
    }

    /// All requests of all threads that are due before `before_ns`, at most `most` of a thread.
    fn all(plan: &Plan, before_ns: u64, most: usize) -> Vec<Next> {
        let cursor = Arc::new(Cursor::default());
        let mut found = Vec::new();
        for thread in 0..plan.threads {
            let mut feed = Feed::new(plan, thread, &cursor);
            found.extend(std::iter::from_fn(|| feed.next()).take_while(|next| next.due_ns < before_ns).take(most));
        }
        found.sort_by_key(|next| next.due_ns);
        found
    }

    #[test]
    fn a_rate_is_kept_by_any_number_of_threads() {
        for threads in 1..5 {
            let plan = plan(threads, Order::Weighted, Pace::Rate { per_second: 1000.0, poisson: false }, None);
            let due: Vec<u64> = all(&plan, 1_000_000_000, usize::MAX).iter().map(|next| next.due_ns).collect();
            let expected: Vec<u64> = (0..1000).map(|number| number * 1_000_000).collect();
            assert_eq!(due, expected);
        }
    }

    #[test]
    fn independent_arrivals_have_the_rate_on_the_whole() {
        let plan = plan(2, Order::Weighted, Pace::Rate { per_second: 1000.0, poisson: true }, None);
        let count = all(&plan, 100_000_000_000, usize::MAX).len() as f64;
        // Six standard deviations of a Poisson variable with mean 100,000.
        assert!((count - 100_000.0).abs() < 6.0 * 100_000_f64.sqrt(), "{count}");
    }

    #[test]
    fn the_number_of_requests_is_that_of_the_plan() {
        let closed = || Pace::Closed { think: Duration::ZERO };
        for threads in 1..5 {
            assert_eq!(all(&plan(threads, Order::Weighted, closed(), Some(10)), 1, usize::MAX).len(), 10);
        }
    }

    #[test]
    fn a_sequence_is_asked_once_or_in_turns() {
        let sequence = |looped| Order::Sequence { targets: vec![0, 1, 1].into(), looped };
        let times = || Pace::Times { due_ns: vec![5, 6, 7].into(), period_ns: 10 };
        let once = all(&plan(2, sequence(false), times(), None), u64::MAX, usize::MAX);
        assert_eq!(once.iter().map(|next| (next.due_ns, next.target)).collect::<Vec<_>>(), [(5, 0), (6, 1), (7, 1)]);
        let turns = all(&plan(1, sequence(true), times(), None), 20, usize::MAX);
        let due: Vec<u64> = turns.iter().map(|next| next.due_ns).collect();
        assert_eq!(due, [5, 6, 7, 15, 16, 17]);
    }

    #[test]
    fn weights_are_kept() {
        let mut plan = plan(1, Order::Weighted, Pace::Closed { think: Duration::ZERO }, Some(10_000));
        plan.targets[0].weight = 3.0;
        let first = all(&plan, 1, usize::MAX).iter().filter(|next| next.target == 0).count();
        // Six standard deviations of a binomial variable around 7,500.
        assert!(first.abs_diff(7_500) < 260, "{first}");
    }
}
