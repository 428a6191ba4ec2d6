//! Where the time of serving goes: by step of a request, in nanoseconds and in times that the step was taken.
//!
//! Owns: the steps, and the books. Guarantees: a step's time is its own, without that of steps inside it, so all steps
//! together are the whole time of the threads that serve; nothing is shared until books are balanced, twice a second
//! and when a thread ends. Switched off, a step costs reading one byte of the thread's own; switched on, two readings
//! of the monotonic clock, which enter no kernel (vdso(7)).
//!
//! Steps are taken where system calls are made and nowhere else; what is not within a step is HTTP processing. Clocks
//! run on while a thread has no processor. So time in steps is time that a request takes; what waiting itself costs
//! follows from the processor time, see [`StepTimes::switching_ns`].
//!
//! ```text
//!   closed --a thread looks at the clock--> Protocol --step--> Receive, Send, ... --end of the step--> Protocol
//! ```

use std::cell::{Cell, RefCell};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::metrics::counters::Counters;
use crate::shared_memory::SharedMemory;
use crate::shared_memory::process_shared;

/// The step in which a serving thread is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Taking requests apart, looking up, making heads: all that is no other step.
    Protocol,
    /// Waiting for something to do, and saying what for.
    Wait,
    /// Taking a connection.
    Accept,
    /// Receiving from a socket.
    Receive,
    /// Finding a file: names, attributes, opening.
    Translate,
    /// Reading files.
    Read,
    /// Sending to a socket, from wherever the content is.
    Send,
    /// Locks, queues and wakings between threads.
    Synchronize,
    /// Writing the access log.
    Log,
    /// Closing a socket.
    Close,
    /// Everything that a ring carries out for `proactor`: receiving, sending, files, waiting.
    Ring,
}

const STEPS: usize = 11;

impl Step {
    /// All of them.
    pub const ALL: [Step; STEPS] = [
        Step::Protocol,
        Step::Wait,
        Step::Accept,
        Step::Receive,
        Step::Translate,
        Step::Read,
        Step::Send,
        Step::Synchronize,
        Step::Log,
        Step::Close,
        Step::Ring,
    ];

    /// In figures.
    pub fn name(self) -> &'static str {
        match self {
            Step::Protocol => "protocol",
            Step::Wait => "wait",
            Step::Accept => "accept",
            Step::Receive => "receive",
            Step::Translate => "translate",
            Step::Read => "read",
            Step::Send => "send",
            Step::Synchronize => "synchronize",
            Step::Log => "log",
            Step::Close => "close",
            Step::Ring => "ring",
        }
    }
}

process_shared! {
    /// The common books, in memory that all processes of a server share.
    #[derive(Debug, Default)]
    pub struct StepTotals {
        is_kept: AtomicBool,
        ns: [AtomicU64; STEPS],
        times: [AtomicU64; STEPS],
        processor_ns: AtomicU64,
    }
}

impl StepTotals {
    /// From now on books are kept.
    pub fn begin(&self) {
        self.keep(true);
    }

    /// Whether threads that begin from now on keep books. Those that keep them already go on.
    pub fn keep(&self, is_kept: bool) {
        self.is_kept.store(is_kept, Relaxed);
    }

    /// The times; none if none are kept.
    pub fn account(&self) -> Option<StepTimes> {
        let read = |counter: &AtomicU64| counter.load(Relaxed);
        self.is_kept.load(Relaxed).then(|| StepTimes {
            steps: Step::ALL
                .map(|step| StepTime {
                    step: step.name().to_owned(),
                    ns: read(&self.ns[step as usize]),
                    times: read(&self.times[step as usize]),
                })
                .to_vec(),
            processor_ns: read(&self.processor_ns),
        })
    }
}

/// Times by step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepTimes {
    /// Each step, in the order of [`Step::ALL`].
    pub steps: Vec<StepTime>,
    /// Time on a processor of all threads whose steps these are.
    pub processor_ns: u64,
}

/// One step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepTime {
    /// Its name.
    pub step: String,
    /// Time in it, without steps within.
    pub ns: u64,
    /// How often it was taken.
    pub times: u64,
}

impl StepTimes {
    /// Time on a processor that belongs to no step but waiting: giving the processor up and getting it back. Too large
    /// by what threads waited for a processor or for the disk within other steps, and then zero.
    pub fn switching_ns(&self) -> u64 {
        let elsewhere: u64 = self.steps.iter().filter(|step| step.step != Step::Wait.name()).map(|step| step.ns).sum();
        self.processor_ns.saturating_sub(elsewhere)
    }
}

/// The shares of a processor's time: one line, the largest first, and one for waiting.
impl fmt::Display for StepTimes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_wait = |step: &&StepTime| step.step == Step::Wait.name();
        let mut shares: Vec<(&str, u64, u64)> =
            self.steps.iter().filter(|step| !is_wait(step)).map(|step| (&*step.step, step.ns, step.times)).collect();
        shares.push(("switching", self.switching_ns(), self.steps.iter().find(is_wait).map_or(0, |step| step.times)));
        shares.sort_by_key(|(_, ns, _)| std::cmp::Reverse(*ns));
        let sum = shares.iter().map(|(_, ns, _)| ns).sum::<u64>().max(1) as f64;
        let taken = shares.iter().filter(|(_, ns, times)| ns + times > 0);
        let share = |&(name, ns, times): &(&str, u64, u64)| {
            format!("{name} {:.1} % ({times} times, {:.1} ms)", ns as f64 / sum * 100.0, ns as f64 / 1e6)
        };
        let shares: Vec<String> = taken.map(share).collect();
        let waited_ms = self.steps.iter().find(is_wait).map_or(0, |step| step.ns / 1_000_000);
        write!(formatter, "{}; waited {waited_ms} ms", shares.join(", "))
    }
}

/// A thread's own totals.
struct ThreadTotals {
    is_open: Cell<bool>,
    step: Cell<Step>,
    since_ns: Cell<u64>,
    ns: [Cell<u64>; STEPS],
    times: [Cell<u64>; STEPS],
    /// Processor time that is in the common books already.
    processor_ns: Cell<u64>,
}

thread_local! {
    static TOTALS: ThreadTotals = const {
        ThreadTotals {
            is_open: Cell::new(false),
            step: Cell::new(Step::Protocol),
            since_ns: Cell::new(0),
            ns: [const { Cell::new(0) }; STEPS],
            times: [const { Cell::new(0) }; STEPS],
            processor_ns: Cell::new(0),
        }
    };
    /// Apart from the totals, which thus needs no destructor and no look whether it has run.
    static CLOSING: RefCell<Closing> = const { RefCell::new(Closing(None)) };
}

/// Balances the totals of a thread that ends.
struct Closing(Option<SharedMemory<Counters>>);

impl Drop for Closing {
    fn drop(&mut self) {
        if let Some(counters) = &self.0 {
            balance(&counters.account);
        }
    }
}

/// A step that lasts as long as the value.
#[must_use]
#[derive(Debug)]
pub struct Taken {
    before: Option<Step>,
}

/// This thread takes a step.
#[inline]
pub fn step(step: Step) -> Taken {
    TOTALS.with(|totals| Taken { before: totals.is_open.get().then(|| totals.enter(step)) })
}

impl Drop for Taken {
    #[inline]
    fn drop(&mut self) {
        if let Some(before) = self.before {
            TOTALS.with(|totals| totals.go_back(before));
        }
    }
}

/// This thread serves: its steps count from now on, if books are kept.
#[inline]
pub fn open(counters: &SharedMemory<Counters>) {
    if counters.account.is_kept.load(Relaxed) {
        TOTALS.with(|totals| totals.open(counters));
    }
}

/// Hands over what this thread has counted.
pub fn balance(ledger: &StepTotals) {
    TOTALS.with(|totals| {
        if totals.is_open.get() {
            totals.charge();
            totals.balance(ledger);
        }
    });
}

impl ThreadTotals {
    fn open(&self, counters: &SharedMemory<Counters>) {
        if !self.is_open.replace(true) {
            self.since_ns.set(nanoseconds(ClockId::Monotonic));
            CLOSING.with(|closing| closing.borrow_mut().0 = Some(counters.clone()));
        }
    }

    #[inline(never)]
    fn enter(&self, step: Step) -> Step {
        self.charge();
        let times = &self.times[step as usize];
        times.set(times.get() + 1);
        self.step.replace(step)
    }

    #[inline(never)]
    fn go_back(&self, before: Step) {
        self.charge();
        self.step.set(before);
    }

    /// The time since the last look belongs to the present step.
    fn charge(&self) {
        let now_ns = nanoseconds(ClockId::Monotonic);
        let spent = &self.ns[self.step.get() as usize];
        spent.set(spent.get() + now_ns.saturating_sub(self.since_ns.replace(now_ns)));
    }

    fn balance(&self, ledger: &StepTotals) {
        for (common, own) in ledger.ns.iter().zip(&self.ns).chain(ledger.times.iter().zip(&self.times)) {
            common.fetch_add(own.take(), Relaxed);
        }
        let processor_ns = nanoseconds(ClockId::ThreadCPUTime);
        let new_ns = processor_ns.saturating_sub(self.processor_ns.replace(processor_ns));
        ledger.processor_ns.fetch_add(new_ns, Relaxed);
    }
}

fn nanoseconds(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;

    /// The times of a thread that does `work`.
    fn account_of(is_kept: bool, work: impl FnOnce() + Send) -> StepTimes {
        let counters = SharedMemory::<Counters>::default();
        if is_kept {
            counters.account.begin();
        }
        // Joined by name: a scope does not wait for destructors of what is a thread's own.
        thread::scope(|scope| {
            let thread = scope.spawn(|| {
                open(&counters);
                work();
            });
            thread.join().expect("it does not panic");
        });
        counters.account.begin();
        counters.account.account().expect("books are kept")
    }

    fn of(account: &StepTimes, step: Step) -> (u64, u64) {
        let found = account.steps.iter().find(|found| found.step == step.name()).expect("every step has an account");
        (found.ns, found.times)
    }

    #[test]
    fn a_step_within_a_step_is_not_counted_twice() {
        let before = Instant::now();
        let account = account_of(true, || {
            let _sending = step(Step::Send);
            let reading = step(Step::Read);
            thread::sleep(Duration::from_millis(20));
            drop(reading);
        });
        let whole_ns = before.elapsed().as_nanos() as u64;
        assert!(of(&account, Step::Read).0 >= 20_000_000);
        assert_eq!((of(&account, Step::Send).1, of(&account, Step::Read).1), (1, 1));
        let sum: u64 = account.steps.iter().map(|step| step.ns).sum();
        assert!(sum <= whole_ns, "{sum} of {whole_ns}");
    }

    #[test]
    fn what_is_in_no_step_is_protocol_and_a_thread_that_ends_hands_its_book_over() {
        let account = account_of(true, || thread::sleep(Duration::from_millis(5)));
        assert!(of(&account, Step::Protocol).0 >= 5_000_000);
        assert!(account.processor_ns > 0);
    }

    #[test]
    fn waiting_costs_what_the_processor_was_used_for_beyond_other_steps() {
        let step = |step: Step, ns| StepTime { step: step.name().to_owned(), ns, times: 1 };
        let steps = vec![step(Step::Protocol, 40), step(Step::Wait, 1000), step(Step::Send, 50)];
        assert_eq!(StepTimes { steps: steps.clone(), processor_ns: 100 }.switching_ns(), 10);
        assert_eq!(StepTimes { steps, processor_ns: 60 }.switching_ns(), 0);
    }

    #[test]
    fn without_books_nothing_is_counted() {
        let account = account_of(false, || drop(step(Step::Send)));
        assert!(account.steps.iter().all(|step| (step.ns, step.times) == (0, 0)) && account.processor_ns == 0);
        assert_eq!(StepTotals::default().account(), None);
    }
}
