//! An adversary: clients of all versions of HTTP and an application that do what they like, against a worker that is
//! replaced, reloaded and narrowed meanwhile, in an order that a seed decides.
//!
//! Owns: what may happen ([`Operation`]), and the search for the shortest run that fails. Everything is in one thread:
//! the real event loop with its connections, caches, gateways and limits, stepped by the test; sockets of this machine
//! are the wire. `LAMNA_SEED=7` runs one seed alone, `LAMNA_SEEDS=10000` so many.
//!
//! ```text
//!  clients ──cut, stall, reset, half-close──> worker ──> application ──cut, early, broken answers──> worker ──> clients
//!                                               │ changed, reloaded, limits shrunk, clock ahead
//!                                               v
//!                                            its successor
//! ```
//!
//! One seed of four is mild: the application is faultless, no limit shrinks and no time is lost. Then each client that
//! stays gets every answer.
//!
//! Held after each operation: the invariants of the connections and their exchanges, the table, the run queue, the
//! cache and the gateways. Held of each answer: it is the expected one byte for byte, a page that says why there is
//! none, or broken off. Held in the end: each client that waits is answered, no POST came twice, and nothing is left in
//! any table.

mod application;
mod client;
mod dice;
mod world;

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use self::dice::Dice;

/// Runs by default.
const SEEDS: u64 = 256;
/// Operations of a run.
const OPERATIONS_MAX: usize = 50;

/// Something that happens. The number decides about everything that is left open.
#[derive(Clone, Copy, Debug)]
enum Operation {
    /// A client connects, and knows what it will ask.
    Connect(u64),
    /// A client sends some of what it has to say.
    Send(u64),
    /// A client takes some of what there is for it.
    Take(u64),
    /// A client says that nothing more comes.
    HalfClose(u64),
    /// A client leaves without a word.
    Leave(u64),
    /// A client resets its connection.
    Reset(u64),
    /// The worker does what it can.
    Work,
    /// A step that is carried out elsewhere comes back.
    Complete,
    /// The application goes on with one of its connections.
    Serve(u64),
    /// Kept answers are dropped.
    Purge(u64),
    /// Another worker takes over; some time may have passed.
    Change(u64),
    /// The same, with other settings.
    Reload(u64),
}

fn operations(seed: u64) -> Vec<Operation> {
    let mut dice = Dice::seeded(seed);
    let count = 10 + dice.below(OPERATIONS_MAX - 10);
    let one = |_| {
        let (kind, number) = (dice.below(100), dice.number());
        match kind {
            0..12 => Operation::Connect(number),
            12..32 => Operation::Send(number),
            32..46 => Operation::Take(number),
            46..49 => Operation::HalfClose(number),
            49..51 => Operation::Leave(number),
            51..53 => Operation::Reset(number),
            53..75 => Operation::Work,
            75..81 => Operation::Complete,
            81..92 => Operation::Serve(number),
            92..93 => Operation::Purge(number),
            93..97 => Operation::Change(number),
            _ => Operation::Reload(number),
        }
    };
    (0..count).map(one).collect()
}

/// Sums of what clients have got.
#[derive(Clone, Copy, Debug, Default)]
struct Got {
    answers: usize,
    /// Pages in the place of one.
    pages: usize,
    /// Requests of clients that stayed, and got neither.
    broken: usize,
    /// Answers to POST.
    posts: usize,
}

impl Got {
    fn add(&mut self, other: Got) {
        self.answers += other.answers;
        self.pages += other.pages;
        self.broken += other.broken;
        self.posts += other.posts;
    }
}

/// Runs operations of a seed, and comes to the end.
fn run(seed: u64, operations: &[Operation]) -> Result<Got, Box<dyn Any + Send>> {
    catch_unwind(AssertUnwindSafe(|| world::run(seed, operations)))
}

#[test]
fn whatever_clients_and_applications_do_answers_are_whole_or_broken_off_and_nothing_is_left() {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seeds = match number("LAMNA_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("LAMNA_SEEDS").unwrap_or(SEEDS),
    };
    let (mut sum, runs) = (Got::default(), seeds.end - seeds.start);
    for seed in seeds {
        let all = operations(seed);
        match run(seed, &all) {
            Ok(got) => sum.add(got),
            // Why, is said above.
            Err(_) => {
                let shortest = (0..all.len()).find(|count| run(seed, &all[..*count]).is_err()).unwrap_or(all.len());
                let (count, beginning) = (all.len(), &all[..shortest]);
                panic!("LAMNA_SEED={seed} fails after {shortest} of {count} operations: {beginning:#?}");
            }
        }
    }
    let has_happened = [sum.answers, sum.pages, sum.broken, sum.posts].iter().all(|count| *count as u64 >= runs / 4);
    assert!(runs < SEEDS || has_happened, "hardly anything has happened: {sum:?}");
}
