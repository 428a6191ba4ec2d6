//! The primitives of inboxes. The model has loom's in their place.

use std::sync::PoisonError;
pub(super) use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

pub(super) use lamna_io::waker::Waker;
use lamna_sys::metrics::step_timer::{self, Step};

/// Sleeps until another thread wakes it, or for `timeout`, and now and then without a reason.
pub(super) fn sleep<'a, T>(
    condvar: &Condvar,
    guard: MutexGuard<'a, T>,
    timeout: Option<Duration>,
) -> MutexGuard<'a, T> {
    let _step = step_timer::step(Step::Wait);
    match timeout {
        Some(timeout) => condvar.wait_timeout(guard, timeout).unwrap_or_else(PoisonError::into_inner).0,
        None => condvar.wait(guard).unwrap_or_else(PoisonError::into_inner),
    }
}
