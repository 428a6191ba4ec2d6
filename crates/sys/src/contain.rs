//! Panics that end a piece of work, and not the thread that does it.
//!
//! Owns: catching them, and saying so. Guarantees: the caller learns that the work failed. What `work` was changing
//! when it panicked is the caller's to throw away or to repair. The message of the panic itself is on standard error
//! already.

use std::panic::{AssertUnwindSafe, catch_unwind};
#[cfg(debug_assertions)]
use std::sync::OnceLock;

use crate::say::say;

/// Does `work`. None if it panicked, which is said, with what follows from it.
pub fn contain<R>(consequence: &str, work: impl FnOnce() -> R) -> Option<R> {
    let done = catch_unwind(AssertUnwindSafe(work)).ok();
    if done.is_none() {
        say!("lamna: a part of the server has failed, which is a defect of Lamna: please report it. {consequence}");
    }
    done
}

/// Where tests let the server fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// A target is found out.
    Translate,
    /// A target is looked up in the caches by the driver of its connection.
    LookUp,
    /// A coding is made.
    Compress,
    /// A target's directories are watched.
    Watch,
    /// A buffer of the access log is written.
    Log,
}

/// Panics if a test has asked for that: with `LAMNA_TEST_PANIC=POINT:NAME` in the environment, when `name` is `NAME`;
/// or reaches for what is not its own ([`planted`](super::planted)). Programs that are built without debug assertions,
/// which releases are, never do.
pub fn fail_if_asked(point: Point, name: &[u8]) {
    #[cfg(debug_assertions)]
    {
        static ASKED: OnceLock<Option<(String, String)>> = OnceLock::new();
        super::planted::reach_out_if_asked(point, name);
        assert!(!is_asked(&ASKED, "LAMNA_TEST_PANIC", point, name), "a test has asked for this");
    }
    let _ = (point, name);
}

/// Whether the variable `POINT:NAME` asks for this point and this name.
#[cfg(debug_assertions)]
pub(super) fn is_asked(asked: &OnceLock<Option<(String, String)>>, variable: &str, point: Point, name: &[u8]) -> bool {
    let asked = asked.get_or_init(|| {
        let text = std::env::var(variable).ok()?;
        let (point, name) = text.split_once(':')?;
        Some((point.to_owned(), name.to_owned()))
    });
    asked.as_ref().is_some_and(|(asked, of)| *asked == point.name() && of.as_bytes() == name)
}

#[cfg(debug_assertions)]
impl Point {
    fn name(self) -> &'static str {
        match self {
            Point::Translate => "translate",
            Point::LookUp => "look-up",
            Point::Compress => "compress",
            Point::Watch => "watch",
            Point::Log => "log",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_has_work_done_learns_that_it_panicked() {
        assert_eq!(contain("", || 1), Some(1));
        assert_eq!(contain::<u8>("", || std::panic::resume_unwind(Box::new("on purpose"))), None);
    }
}
