//! Whether others on the same host leave the machine alone.
//!
//! Owns: looking at it from two sides, and waiting until both are well. Guarantees: some twenty milliseconds for a
//! look, and no thread afterwards. The host of a virtual machine moves its processors about and lends their cores to
//! others:
//!
//! - how far apart two processors are, which is the time in which one has what the other wrote. While they are where
//!   they share a cache, a line of memory takes 30 to 40 ns; where they do not, 170, and each response is copied into
//!   memory that the other one has just read: 50,000 bytes take the server 8 us here and 12 to 30 there. Nothing that
//!   one processor does by itself shows it;
//! - how fast each is by itself. While another machine runs on the second thread of its core, it takes a third more for
//!   all it does, and more than that for what fetches much from memory.
//!
//! Either lasts from a tenth of a second to many seconds. How fast the machine is while it is left alone is not known
//! beforehand: it is the fastest that this process has seen.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use super::micro;
use crate::process::confined;

/// While the yardstick takes no more than this times its least, no other machine is on the processors' cores. One of
/// two processors that shares its core makes it 1.12.
pub(super) const QUIET: f64 = 1.05;
/// The least that the yardstick took in this process, in nanoseconds.
static LEAST_NS: AtomicU64 = AtomicU64::new(u64::MAX);

/// Above this they share no cache. Cores that do need 20 to 80 ns for a line, others 110 and more.
pub(super) const APART_NS: f64 = 100.0;

const LENGTH: Duration = Duration::from_millis(2);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(20);

/// As long as two lines, since some processors fetch them in pairs.
#[derive(Default)]
#[repr(align(128))]
struct Line(AtomicU64);

/// Time for a line from the first of `processors` to the last, in nanoseconds. 0 if there is one only.
///
/// # Errors
/// No thread, or one that may not be bound.
pub(super) fn line_ns(processors: usize) -> io::Result<f64> {
    if processors < 2 {
        return Ok(0.0);
    }
    let (line, is_over) = (Line::default(), AtomicBool::new(false));
    thread::scope(|scope| {
        let answerer = thread::Builder::new()
            .spawn_scoped(scope, || {
                confined(&[0], || {
                    answer(&line, &is_over);
                    Ok(())
                })
            })
            .inspect_err(|_| is_over.store(true, Relaxed))?;
        let ns = confined(&[processors - 1], || Ok(ask(&line, &is_over)));
        is_over.store(true, Relaxed);
        answerer.join().map_err(|_| io::Error::other("the answerer panicked"))??;
        ns
    })
}

/// Measurements of the machine at one time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    /// See [`line_ns`].
    pub(super) line_ns: f64,
    /// See [`micro::yardstick_us`].
    pub(super) yardstick_us: f64,
}

impl Look {
    /// Looks at so many processors.
    ///
    /// # Errors
    /// As [`line_ns`], and no sockets.
    pub(super) fn now(processors: usize) -> io::Result<Look> {
        let look = Look { line_ns: line_ns(processors)?, yardstick_us: micro::yardstick_us(processors)? };
        LEAST_NS.fetch_min((look.yardstick_us * 1e3) as u64, Relaxed);
        Ok(look)
    }

    /// Whether others leave the machine alone, as far as this process can know yet.
    pub(super) fn is_quiet(self) -> bool {
        self.line_ns < APART_NS && self.yardstick_us * 1e3 <= LEAST_NS.load(Relaxed) as f64 * QUIET
    }

    /// Looks again until it is quiet, no longer than `patience`.
    ///
    /// # Errors
    /// As [`Look::now`].
    pub(super) fn when_quiet(processors: usize, patience: Duration) -> io::Result<Look> {
        let begun = Instant::now();
        loop {
            let look = Look::now(processors)?;
            if look.is_quiet() || begun.elapsed() > patience {
                return Ok(look);
            }
            thread::sleep(PAUSE);
        }
    }
}

/// Makes even numbers odd, and measures once the other has begun.
fn ask(line: &Line, is_over: &AtomicBool) -> f64 {
    while line.0.load(Relaxed) < 2 && !is_over.load(Relaxed) {
        pass(line, 0);
    }
    let (begun, before) = (Instant::now(), line.0.load(Relaxed));
    while begun.elapsed() < LENGTH {
        // More often than the clock is asked, which takes as long as a line.
        (0..256).for_each(|_| pass(line, 0));
    }
    let passed = line.0.load(Relaxed) - before;
    begun.elapsed().as_secs_f64() * 1e9 / passed.max(1) as f64
}

/// Makes odd ones even.
fn answer(line: &Line, is_over: &AtomicBool) {
    while !is_over.load(Relaxed) {
        pass(line, 1);
    }
}

fn pass(line: &Line, parity: u64) {
    let value = line.0.load(Relaxed);
    if value % 2 == parity {
        line.0.store(value + 1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulator::trial::processors;

    #[test]
    fn a_line_takes_time_if_there_are_two_to_pass_it() {
        assert_eq!(line_ns(1).unwrap(), 0.0);
        assert_eq!(line_ns(processors()).unwrap() > 0.0, processors() > 1);
    }

    #[test]
    fn waiting_ends_when_patience_does() {
        let look = Look::when_quiet(processors(), Duration::ZERO).unwrap();
        assert!(look.yardstick_us > 0.0);
        assert_eq!(look.line_ns > 0.0, processors() > 1);
    }

    #[test]
    fn it_is_not_quiet_while_processors_are_apart_or_slower_than_they_were() {
        let look = Look::now(processors()).unwrap();
        let slower = Look { line_ns: 0.0, yardstick_us: look.yardstick_us * 1.06 };
        assert!(!slower.is_quiet());
        assert!(!Look { line_ns: APART_NS, yardstick_us: 0.0 }.is_quiet());
        assert!(Look { line_ns: 0.0, yardstick_us: 0.0 }.is_quiet());
    }
}
