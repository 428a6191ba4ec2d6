//! The end of an engine, and of what it shared.
//!
//! Owns: how long either is waited for. Guarantees: no thread waits for a disk longer than that.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use lamna_engine::worker::shared::Shared;

use super::DRAIN_POLL;
use crate::process::running_engine::RunningEngine;

/// How long helpers that still wait for a disk are waited for.
const RELEASE_TIME_MAX: Duration = Duration::from_secs(1);

/// Ends an engine that cannot go on. What it has taken meanwhile is answered first.
pub(super) fn finish_and_stop(running: &RunningEngine) {
    running.shared.control.drain();
    let until = Instant::now() + RELEASE_TIME_MAX;
    while !running.is_over() && Instant::now() < until {
        thread::sleep(DRAIN_POLL);
    }
    running.shared.control.stop();
}

/// Lets go of what is shared, and with it of the files of Unix sockets, once helpers have done so. They end with their
/// workers; one that still waits for a disk is not waited for.
pub(super) fn release(mut shared: Arc<Shared>) {
    let until = Instant::now() + RELEASE_TIME_MAX;
    while let Err(still_shared) = Arc::try_unwrap(shared)
        && Instant::now() < until
    {
        shared = still_shared;
        thread::sleep(Duration::from_millis(1));
    }
}
