//! Containment of filters that are not the server's own.
//!
//! Owns: the bounds on each call, and what follows when one is exceeded: the generation of the service is marked as
//! failed, once, with its reason. Guarantees: a panic ends the run that it happened in and nothing else; what a filter
//! says of the content is not held against the service. A call is measured when it returns: native code that never
//! returns is not ended. One that takes a tenth more than it may may go unnoticed.

use std::cell::Cell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use lamna_filter::{Content, Fault, Filter, Make};
use lamna_io::log::errors::{self, Level};
use lamna_sys::clock::thread_time;
use lamna_sys::shared_memory::SharedMemory;

use crate::service::board::Board;

/// The most bytes that one call may give.
const GIVEN_BYTES_MAX: usize = 4 << 20;

/// The bounds of one generation of a service.
#[derive(Clone)]
pub(super) struct Guard {
    board: SharedMemory<Board>,
    slot: usize,
    generation: u64,
    name: Arc<str>,
    time_max: Duration,
}

impl fmt::Debug for Guard {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Guard").field("name", &self.name).field("generation", &self.generation).finish()
    }
}

impl Guard {
    pub(super) fn new(board: SharedMemory<Board>, slot: usize, generation: u64, name: &str, time_max_ms: u64) -> Guard {
        Guard { board, slot, generation, name: name.into(), time_max: Duration::from_millis(time_max_ms) }
    }

    /// Makes a call. What it fails by is said.
    fn call<T>(&self, work: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
        let stopwatch = Stopwatch::start(self.time_max);
        // Whatever it was changing when it panicked is not used again.
        let done = catch_unwind(AssertUnwindSafe(work));
        let done = done.unwrap_or_else(|_| Err(Fault::Failed("it panicked".into())));
        let done = match (done, stopwatch.excess()) {
            (Ok(_), Some(took)) => {
                let (took, most) = (took.as_millis(), self.time_max.as_millis());
                Err(Fault::Failed(format!("a call took {took} ms of processor time, and {most} ms are its bound")))
            }
            (done, _) => done,
        };
        if let Err(Fault::Failed(why)) = &done {
            self.fail(why);
        }
        done
    }

    /// The same for a call that gives something.
    fn give(&self, out: &mut Vec<u8>, work: impl FnOnce(&mut Vec<u8>) -> Result<(), Fault>) -> Result<(), Fault> {
        self.call(|| {
            let before = out.len();
            work(out)?;
            match out.len() - before {
                given if given > GIVEN_BYTES_MAX => {
                    Err(Fault::Failed(format!("a call gave {given} bytes, and {GIVEN_BYTES_MAX} are its bound")))
                }
                _ => Ok(()),
            }
        })
    }

    fn fail(&self, why: &str) {
        if self.board.fail(self.slot, self.generation, why) {
            let name = &self.name;
            errors::report(
                Level::Error,
                format_args!(
                    "the service `{name}` is suspended: {why}. When that is mended: lamna ctl service replace {name}, \
                     or resume {name}"
                ),
            );
        }
    }
}

/// Measures whether a call takes more processor time than it may, as good as for nothing while it does not: the
/// processor time of a thread costs a system call, and the time of day none. No call takes more processor time than
/// time, and what the thread has used between an older look at both clocks and the call is no more than the time
/// between.
struct Stopwatch {
    time_max: Duration,
    begun: Instant,
    looked: Look,
}

/// Both clocks, at once.
#[derive(Clone, Copy)]
struct Look {
    at: Instant,
    used: Duration,
}

/// A look is taken for so many parts of a bound: what is taken beyond that is found in any case.
const LOOK_PARTS: u32 = 10;

impl Stopwatch {
    fn start(time_max: Duration) -> Stopwatch {
        thread_local! {
            static LOOKED: Cell<Option<Look>> = const { Cell::new(None) };
        }
        let begun = Instant::now();
        let is_young = |look: &Look| begun.saturating_duration_since(look.at) <= time_max / LOOK_PARTS;
        let looked = LOOKED.get().filter(is_young).unwrap_or_else(|| {
            let look = Look { at: begun, used: thread_time() };
            LOOKED.set(Some(look));
            look
        });
        Stopwatch { time_max, begun, looked }
    }

    /// How much processor time was used, at least, if that is more than there may be.
    fn excess(&self) -> Option<Duration> {
        if self.begun.elapsed() <= self.time_max {
            return None;
        }
        let used = thread_time().saturating_sub(self.looked.used);
        let used = used.saturating_sub(self.begun.saturating_duration_since(self.looked.at));
        Some(used).filter(|used| *used > self.time_max)
    }
}

/// A factory of guarded filters of a service.
#[derive(Debug)]
pub(super) struct Guarded {
    make: Arc<dyn Make>,
    guard: Guard,
}

impl Guarded {
    pub(super) fn new(make: Arc<dyn Make>, guard: Guard) -> Guarded {
        Guarded { make, guard }
    }
}

impl Make for Guarded {
    fn start(&self, content: &mut Content) -> Option<Box<dyn Filter>> {
        let filter = match self.guard.call(|| Ok(self.make.start(content))) {
            Ok(filter) => filter?,
            Err(fault) => Box::new(Broken(fault)),
        };
        Some(Box::new(GuardedFilter { filter: Some(filter), guard: self.guard.clone(), is_counted: false }))
    }

    fn reads(&self) -> Option<&'static str> {
        self.make.reads()
    }

    fn varies(&self) -> bool {
        self.make.varies()
    }

    fn needs_whole(&self) -> bool {
        self.make.needs_whole()
    }
}

struct GuardedFilter {
    filter: Option<Box<dyn Filter>>,
    guard: Guard,
    /// A chain is started as well to find out whether it has anything to do: only what gets content counts.
    is_counted: bool,
}

impl GuardedFilter {
    fn count(&mut self) {
        if !std::mem::replace(&mut self.is_counted, true) {
            self.guard.board.slots.get(self.guard.slot).into_iter().for_each(|slot| slot.count_run());
        }
    }

    fn filter(&mut self) -> &mut dyn Filter {
        &mut **self.filter.as_mut().expect("it is there until it is dropped")
    }
}

impl Filter for GuardedFilter {
    fn take(&mut self, piece: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
        self.count();
        self.guard.clone().give(out, |out| self.filter().take(piece, out))
    }

    fn more(&mut self, out: &mut Vec<u8>) -> Result<bool, Fault> {
        let mut has_more = false;
        self.guard.clone().give(out, |out| {
            has_more = self.filter().more(out)?;
            Ok(())
        })?;
        Ok(has_more)
    }

    fn flush(&mut self, out: &mut Vec<u8>) -> Result<(), Fault> {
        self.guard.clone().give(out, |out| self.filter().flush(out))
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Fault> {
        self.count();
        self.guard.clone().give(out, |out| self.filter().finish(out))
    }
}

impl Drop for GuardedFilter {
    fn drop(&mut self) {
        let filter = self.filter.take();
        let _ = self.guard.call(|| {
            drop(filter);
            Ok(())
        });
    }
}

/// A filter that could not begin.
pub(super) struct Broken(pub(super) Fault);

impl Filter for Broken {
    fn take(&mut self, _: &[u8], _: &mut Vec<u8>) -> Result<(), Fault> {
        Err(self.0.clone())
    }

    fn finish(&mut self, _: &mut Vec<u8>) -> Result<(), Fault> {
        Err(self.0.clone())
    }
}
