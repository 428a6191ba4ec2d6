//! How far apart two processors are: the time in which one has what the other wrote.
//!
//! Owns: a line of memory that two threads pass to and fro, and waiting until that is fast. Guarantees: some two milliseconds for a
//! look, and no thread afterwards. The host of a virtual machine moves its processors about. While they are where they share a
//! cache, a line takes 30 to 40 ns; where they do not, 170, and each response is copied into memory that the other one
//! has just read: 50,000 bytes take the server 8 us here and 12 to 30 there. That lasts from a tenth of a second to many
//! seconds, and nothing that one processor does by itself shows it.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use super::server::confined;

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

/// Waits until processors are near each other, no longer than `patience`, and says how far apart they are then, in nanoseconds.
///
/// # Errors
/// As [`line_ns`].
pub(super) fn wait_until_near(processors: usize, patience: Duration) -> io::Result<f64> {
    let begun = Instant::now();
    loop {
        let ns = line_ns(processors)?;
        if ns < APART_NS || begun.elapsed() > patience {
            return Ok(ns);
        }
        thread::sleep(PAUSE);
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
    use crate::measure::trial::processors;

    #[test]
    fn a_line_takes_time_if_there_are_two_to_pass_it() {
        assert_eq!(line_ns(1).unwrap(), 0.0);
        assert_eq!(line_ns(processors()).unwrap() > 0.0, processors() > 1);
    }

    #[test]
    fn waiting_ends_when_patience_does() {
        let ns = wait_until_near(processors(), Duration::ZERO).unwrap();
        assert_eq!(ns > 0.0, processors() > 1);
    }
}
