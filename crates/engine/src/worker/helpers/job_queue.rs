//! The order in which jobs that wait for the disk are taken up. The one that most exchanges wait for comes first; under
//! the schedules `srpt` and `auto`, the one with the fewest reads left for each waiting exchange, by powers of two.
//!
//! Owns: jobs that no helper has taken up. Guarantees: each is taken once. A job with more waiting exchanges goes
//! before one with fewer, and equals go in the order in which they came. So a disk that is asked for more than it can
//! do frees as many as it can. The oldest job is passed over [`PASSED_OVER_MAX`] times in a row at most, so that no job
//! waits more than that many times longer than in a line, and one more time. Knows nothing of the contents of jobs.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use lamna_policy::schedule::{self, Schedule};

/// Jobs, as of one worker. Adding, taking and wanting cost O(log jobs).
#[derive(Debug)]
pub struct JobQueue<T> {
    /// Those that come before all others.
    at_once: VecDeque<T>,
    /// The others in the order in which they came.
    waiting: BTreeMap<JobId, (Priority, T)>,
    /// The one to be taken first, and of equals the oldest.
    ranks: BTreeSet<(u64, JobId)>,
    schedule: Schedule,
    next: u64,
    /// Jobs that were taken in a row while the oldest waited.
    passed_over: u32,
}

/// The identifier of a job as long as it waits. Never that of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct JobId(u64);

/// So that a quarter of the disk's time at least goes to the oldest job.
pub const PASSED_OVER_MAX: u32 = 3;

/// The cost of a job, and the number of exchanges that wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Priority {
    wanted: usize,
    /// Reads until those who wait have all that they want.
    reads: u64,
}

impl Priority {
    /// The least is taken first.
    fn rank(self, schedule: Schedule) -> u64 {
        let waiting = u32::try_from(self.wanted).unwrap_or(u32::MAX);
        match schedule {
            Schedule::Fifo | Schedule::RoundRobin => u64::from(u32::MAX - waiting),
            // Jobs queue where the disk is slow, and there the order matters.
            Schedule::Srpt | Schedule::Auto => {
                u64::from(schedule::Priority::shared(self.reads, waiting).remaining.max(1).ilog2())
            }
        }
    }
}

impl<T> JobQueue<T> {
    /// No jobs; those that come are taken up in this order.
    pub fn new(schedule: Schedule) -> JobQueue<T> {
        JobQueue {
            at_once: VecDeque::new(),
            waiting: BTreeMap::new(),
            ranks: BTreeSet::new(),
            schedule,
            next: 0,
            passed_over: 0,
        }
    }

    /// Adds a job that so many wait for, of so many reads with those that will follow it.
    pub fn add(&mut self, job: T, wanted: usize, reads: u64) -> JobId {
        let number = JobId(self.next);
        self.next += 1;
        let priority = Priority { wanted, reads };
        self.waiting.insert(number, (priority, job));
        self.ranks.insert((priority.rank(self.schedule), number));
        number
    }

    /// Adds a job that comes before all others but those of its kind.
    pub fn add_at_once(&mut self, job: T) {
        self.at_once.push_back(job);
    }

    /// One more waits for a job. Nothing if it has been taken up.
    pub fn want(&mut self, number: JobId) {
        let Some((priority, _)) = self.waiting.get_mut(&number) else { return };
        self.ranks.remove(&(priority.rank(self.schedule), number));
        priority.wanted += 1;
        self.ranks.insert((priority.rank(self.schedule), number));
    }

    /// The job to take up now.
    pub fn take(&mut self) -> Option<T> {
        self.at_once.pop_front().or_else(|| self.take_waiting())
    }

    fn take_waiting(&mut self) -> Option<T> {
        let oldest = *self.waiting.first_key_value()?.0;
        let first = self.ranks.first()?.1;
        let number = if self.passed_over == PASSED_OVER_MAX { oldest } else { first };
        self.passed_over = if number == oldest { 0 } else { self.passed_over + 1 };
        let (priority, job) = self.waiting.remove(&number)?;
        self.ranks.remove(&(priority.rank(self.schedule), number));
        Some(job)
    }

    /// Jobs that wait.
    pub fn len(&self) -> usize {
        self.at_once.len() + self.waiting.len()
    }

    /// Whether none does.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(job_queue: &mut JobQueue<&'static str>) -> Vec<&'static str> {
        std::iter::from_fn(|| job_queue.take()).collect()
    }

    #[test]
    fn what_most_wait_for_comes_first_and_equals_in_the_order_in_which_they_came() {
        let mut job_queue = JobQueue::new(Schedule::RoundRobin);
        job_queue.add("one", 1, 1);
        let popular = job_queue.add("popular", 1, 1);
        job_queue.add("another", 1, 1);
        job_queue.add_at_once("known");
        job_queue.want(popular);
        assert_eq!(all(&mut job_queue), ["known", "popular", "one", "another"]);
        job_queue.want(popular);
        assert!(job_queue.is_empty(), "wanting what has been taken up adds nothing");
    }

    #[test]
    fn who_waits_alone_is_passed_over_three_times_in_a_row() {
        let mut job_queue = JobQueue::new(Schedule::RoundRobin);
        job_queue.add("alone", 1, 1);
        job_queue.add("alone, too", 1, 1);
        for _ in 0..20 {
            job_queue.add("popular", 2, 1);
        }
        let taken = all(&mut job_queue);
        assert_eq!(taken.iter().position(|job| *job == "alone"), Some(3));
        assert_eq!(taken.iter().position(|job| *job == "alone, too"), Some(7));
    }

    #[test]
    fn under_srpt_what_has_the_fewest_reads_left_for_each_who_waits_comes_first() {
        let mut job_queue = JobQueue::new(Schedule::Srpt);
        job_queue.add("long", 1, 100);
        let shared = job_queue.add("long, for many", 1, 100);
        job_queue.add("short", 1, 1);
        job_queue.add("short, too", 1, 1);
        (0..150).for_each(|_| job_queue.want(shared));
        assert_eq!(all(&mut job_queue), ["long, for many", "short", "short, too", "long"]);
    }

    #[test]
    fn under_srpt_a_long_job_is_passed_over_three_times_in_a_row() {
        let mut job_queue = JobQueue::new(Schedule::Srpt);
        job_queue.add("long", 1, 1000);
        for _ in 0..20 {
            job_queue.add("short", 1, 1);
        }
        assert_eq!(all(&mut job_queue).iter().position(|job| *job == "long"), Some(PASSED_OVER_MAX as usize));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Add(usize),
        Want(usize),
        Take,
    }

    proptest! {
        #[test]
        fn each_job_is_taken_once_and_is_the_most_wanted_or_the_oldest(
            steps in proptest::collection::vec(
                prop_oneof![(1_usize..4).prop_map(Step::Add), (0_usize..40).prop_map(Step::Want), Just(Step::Take)],
                0..200,
            ),
        ) {
            let (mut job_queue, mut numbers) = (JobQueue::new(Schedule::RoundRobin), Vec::new());
            // What is waiting, in the order in which it came, with how many want it and how often it was passed over as
            // the oldest.
            let mut waiting: Vec<(usize, usize)> = Vec::new();
            let mut passed_over = 0;
            for step in steps {
                match step {
                    Step::Add(wanted) => {
                        waiting.push((numbers.len(), wanted));
                        numbers.push(job_queue.add(numbers.len(), wanted, 1));
                    }
                    Step::Want(job) if job < numbers.len() => {
                        job_queue.want(numbers[job]);
                        waiting.iter_mut().filter(|waits| waits.0 == job).for_each(|waits| waits.1 += 1);
                    }
                    Step::Want(_) => {}
                    Step::Take => {
                        let Some(taken) = job_queue.take() else {
                            prop_assert!(waiting.is_empty());
                            continue;
                        };
                        let position = waiting.iter().position(|waits| waits.0 == taken);
                        prop_assert!(position.is_some(), "it was waiting");
                        let position = position.unwrap_or(0);
                        let most = waiting.iter().map(|waits| waits.1).max().unwrap_or(0);
                        let first_of_them = waiting.iter().position(|waits| waits.1 == most);
                        prop_assert!(position == 0 || Some(position) == first_of_them);
                        passed_over = if position == 0 { 0 } else { passed_over + 1 };
                        prop_assert!(passed_over <= PASSED_OVER_MAX);
                        waiting.remove(position);
                    }
                }
                prop_assert_eq!(job_queue.len(), waiting.len());
            }
        }
    }
}
