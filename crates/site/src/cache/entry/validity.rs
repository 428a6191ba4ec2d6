//! Whether what was found out about files still holds: when it was last compared with them, and whether changes since
//! would have been noticed.
//!
//! Owns: three numbers, changed without a lock by workers, the watcher and threads that compare. Guarantees: what was
//! disturbed since it was compared is never called fresh. Checked against every interleaving in `cache::model`.

use super::sync::{AcqRel, Acquire, AtomicU32, AtomicU64, Relaxed};
use crate::cache::freshness::{FRESH_MS, REFRESH_MS};

/// Whether what was found out about files still holds.
///
/// Two numbers tell whether changes are noticed: `events`, zero while its names are not watched, then counting what
/// happened to them; and `seen`, the value of `events` when the last comparison that found nothing new began.
///
/// ```text
/// events 0                      not watched: good for FRESH_MS
/// events 1, seen 0              watched, but not yet compared since: good for FRESH_MS
/// events = seen                 watched: good as long as the watcher is awake, and for `recheck_ms`
/// events > 1, events != seen    disturbed: to be compared before it is used
/// with UNWATCHED                no longer watched, otherwise as above
/// ```
#[derive(Debug)]
pub(super) struct Validity {
    /// When it was last compared with the file system, in the server's milliseconds. Zero: it must not be used without
    /// comparing, because the file was changing while it was read.
    checked_ms: AtomicU64,
    events: AtomicU32,
    seen: AtomicU32,
}

/// How long it may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cache) struct Freshness {
    /// Not from this moment on, without asking again.
    pub until_ms: u64,
    /// From this moment on it should be compared while it is in use.
    pub refresh_at_ms: u64,
}

impl Validity {
    /// Compared at `checked_ms`, and not watched.
    pub(super) fn new(checked_ms: u64) -> Validity {
        Validity { checked_ms: AtomicU64::new(checked_ms), events: AtomicU32::new(0), seen: AtomicU32::new(0) }
    }

    /// The event count to be handed to [`Validity::confirm`]: read it before the comparison begins.
    pub(super) fn events(&self) -> u32 {
        self.events.load(Acquire)
    }

    /// It was compared at `now_ms` and still holds; `events` was read before.
    pub(super) fn confirm(&self, now_ms: u64, events: u32) {
        self.seen.store(events, Relaxed);
        self.checked_ms.store(now_ms, Relaxed);
    }

    /// When it was last compared; zero if it must be compared at each use.
    pub(super) fn confirmed_ms(&self) -> u64 {
        self.checked_ms.load(Relaxed)
    }

    /// Something happened to one of its names.
    pub(super) fn disturb(&self) {
        self.events.fetch_add(1, AcqRel);
    }

    /// Whether something happened since it was compared.
    pub(super) fn is_disturbed(&self) -> bool {
        let events = self.events();
        events > 1 && self.seen.load(Relaxed) != events
    }

    /// Records that something has happened to one of its names.
    pub(super) fn handle_change(&self) {
        if self.is_being_watched() { self.disturb() } else { self.end_watch() }
    }

    /// Its names are being watched from now on.
    pub(super) fn begin_watch(&self) {
        // If it is watched already, or was, this is like an event.
        let counted = |events: u32| Some((events & !UNWATCHED).wrapping_add(1));
        let _ = self.events.fetch_update(AcqRel, Acquire, counted);
    }

    /// Records that something has happened to its names, and that later changes go unnoticed.
    pub(super) fn end_watch(&self) {
        let counted = |events: u32| Some(events.wrapping_add(1) | UNWATCHED);
        let _ = self.events.fetch_update(AcqRel, Acquire, counted);
    }

    /// Whether its names are being watched, regardless of what was noticed.
    pub(super) fn is_being_watched(&self) -> bool {
        is_watching(self.events())
    }

    /// Whether changes would have been noticed since it was compared, and there were none.
    pub(super) fn is_watched(&self) -> bool {
        let events = self.events();
        is_watching(events) && self.seen.load(Relaxed) == events
    }

    /// How long it may be used at `now_ms`, the watcher having been awake at `awake_ms`, and if it is watched for
    /// `recheck_ms` after it was compared. Nothing: it has to be compared.
    pub(super) fn freshness(&self, now_ms: u64, awake_ms: u64, recheck_ms: u64) -> Option<Freshness> {
        let checked_ms = self.checked_ms.load(Relaxed);
        if checked_ms == 0 || self.is_disturbed() {
            return None;
        }
        let plain = Freshness { until_ms: checked_ms + FRESH_MS, refresh_at_ms: checked_ms + REFRESH_MS };
        let until_ms = (awake_ms.min(now_ms) + FRESH_MS).min(checked_ms + recheck_ms);
        let watched = Freshness { until_ms, refresh_at_ms: checked_ms + recheck_ms - FRESH_MS };
        let best = if self.is_watched() && until_ms > plain.until_ms { watched } else { plain };
        (best.until_ms > now_ms).then_some(best)
    }
}

/// A bit of [`Validity::events`].
const UNWATCHED: u32 = 1 << 31;

fn is_watching(events: u32) -> bool {
    events > 0 && events & UNWATCHED == 0
}
