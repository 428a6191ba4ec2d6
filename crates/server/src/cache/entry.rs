//! What a target was found to stand for, and what that rests on.
//!
//! Owns: when an entry was last compared with the file system and whether changes would be noticed, and how much memory
//! it holds. Guarantees: an entry whose files were disturbed since it was compared is never called fresh. Does not look
//! at files.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use lamna_proto::resource::Resource;

use super::ledger::{Ledger, allocated};
use super::{FRESH_MS, RECHECK_MS, REFRESH_MS};
use crate::content::file::Stamps;

/// What a target was found to stand for, and what that rests on.
///
/// Whether changes are noticed is told by two numbers: `events`, zero as long as nobody watches, then counting what
/// happened to its names; and `seen`, what `events` was when the last comparison that found nothing new began.
///
/// ```text
/// events 0                      nobody watches: good for FRESH_MS
/// events 1, seen 0              watched, but not yet compared since: good for FRESH_MS
/// events = seen                 watched: good as long as the watcher is awake, and for RECHECK_MS
/// events > 1, events != seen    disturbed: to be compared before it is used
/// with UNWATCHED                no longer watched, otherwise as above
/// ```
#[derive(Debug)]
pub struct Entry {
    /// What to answer with.
    pub resource: Arc<Resource>,
    /// The state of the files that the resource was made from.
    pub stamps: Stamps,
    /// When it was last compared with the file system, in the server's milliseconds. Zero: it must not be used without
    /// comparing, because the file was changing while it was read.
    checked_ms: AtomicU64,
    events: AtomicU32,
    seen: AtomicU32,
    /// Whether watching was asked for.
    is_submitted: AtomicBool,
    /// Whether the resource is this entry's alone, and counts as such.
    owns_resource: bool,
    /// How many targets the store keeps it for.
    kept: AtomicU32,
    /// Bytes that the ledger knows of.
    counted_bytes: AtomicU64,
    ledger: OnceLock<Arc<Ledger>>,
}

/// How long an entry may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Freshness {
    /// Not from this moment on, without asking again.
    pub until_ms: u64,
    /// From this moment on it should be compared while it is in use.
    pub refresh_at_ms: u64,
}

impl Entry {
    /// An entry of its own `resource`, compared at `now_ms`.
    pub fn new(resource: Resource, stamps: Stamps, now_ms: u64) -> Entry {
        Entry::of(Arc::new(resource), true, stamps, now_ms)
    }

    /// An entry of a resource that others have as well: the page of an error.
    pub fn shared(resource: Arc<Resource>, stamps: Stamps, now_ms: u64) -> Entry {
        Entry::of(resource, false, stamps, now_ms)
    }

    fn of(resource: Arc<Resource>, owns_resource: bool, stamps: Stamps, now_ms: u64) -> Entry {
        Entry {
            resource,
            checked_ms: AtomicU64::new(if stamps.settled { now_ms } else { 0 }),
            stamps,
            events: AtomicU32::new(0),
            seen: AtomicU32::new(0),
            is_submitted: AtomicBool::new(false),
            owns_resource,
            kept: AtomicU32::new(0),
            counted_bytes: AtomicU64::new(0),
            ledger: OnceLock::new(),
        }
    }

    /// What is to be handed to [`Entry::confirm`]: to be read before a comparison begins.
    pub fn events(&self) -> u32 {
        self.events.load(Acquire)
    }

    /// It was compared at `now_ms` and still holds; `events` was read before.
    pub fn confirm(&self, now_ms: u64, events: u32) {
        if self.stamps.settled {
            self.seen.store(events, Relaxed);
            self.checked_ms.store(now_ms, Relaxed);
        }
    }

    /// Something happened to one of its names. Nothing is answered from it until it has been compared.
    pub fn disturb(&self) {
        self.events.fetch_add(1, AcqRel);
    }

    /// Whether something happened since it was compared.
    pub fn is_disturbed(&self) -> bool {
        let events = self.events();
        events > 1 && self.seen.load(Relaxed) != events
    }

    /// Its names are being watched from now on.
    pub(super) fn begin_watch(&self) {
        // If it is watched already, or was, this is like an event.
        let counted = |events: u32| Some((events & !UNWATCHED).wrapping_add(1));
        let _ = self.events.fetch_update(AcqRel, Acquire, counted);
    }

    /// What happens to its names will be noticed no longer; something has happened to them.
    pub(super) fn end_watch(&self) {
        let counted = |events: u32| Some(events.wrapping_add(1) | UNWATCHED);
        let _ = self.events.fetch_update(AcqRel, Acquire, counted);
        self.want_watch_again();
    }

    /// Whether changes of its names will be noticed.
    pub fn is_watched(&self) -> bool {
        let events = self.events();
        is_watching(events) && self.seen.load(Relaxed) == events
    }

    /// Whether it should be watched and nobody has asked for that: true once.
    pub fn wants_watch(&self) -> bool {
        let can_be = self.stamps.are_watchable() && !is_watching(self.events());
        can_be && !self.is_submitted.swap(true, Relaxed)
    }

    /// Watching could not be asked for now.
    pub(super) fn want_watch_again(&self) {
        self.is_submitted.store(false, Relaxed);
    }

    /// Whether clients asked for codings that could be made.
    pub fn has_wishes(&self) -> bool {
        self.resource.variants.codings().is_some_and(|codings| codings.has_wishes())
    }

    /// How long it may be used at `now_ms`, the watcher having been awake at `awake_ms`. Nothing: it has to be compared.
    pub(super) fn freshness(&self, now_ms: u64, awake_ms: u64) -> Option<Freshness> {
        let checked_ms = self.checked_ms.load(Relaxed);
        if checked_ms == 0 || self.is_disturbed() {
            return None;
        }
        let plain = Freshness { until_ms: checked_ms + FRESH_MS, refresh_at_ms: checked_ms + REFRESH_MS };
        let until_ms = (awake_ms.min(now_ms) + FRESH_MS).min(checked_ms + RECHECK_MS);
        let watched = Freshness { until_ms, refresh_at_ms: checked_ms + RECHECK_MS - FRESH_MS };
        let best = if self.is_watched() && until_ms > plain.until_ms { watched } else { plain };
        (best.until_ms > now_ms).then_some(best)
    }

    /// Files that it holds open.
    pub(super) fn descriptors(&self) -> u64 {
        self.resource.variants.all().filter(|one| one.file.is_some()).count() as u64
    }

    /// Bytes of memory that it holds.
    pub fn memory_bytes(&self) -> u64 {
        let own = allocated(size_of::<Entry>() + ARC_BYTES) + allocated(size_of_val(&*self.stamps.files));
        if !self.owns_resource {
            return own;
        }
        let variants = &self.resource.variants;
        let mut held = allocated(size_of::<Resource>() + ARC_BYTES) + allocated(variants.memory_bytes());
        for one in variants.all() {
            held += allocated(size_of_val(&**one) + ARC_BYTES);
            held += one.buffer_bytes().map(allocated).iter().sum::<u64>();
            held += one.file.as_ref().map_or(0, |_| OPEN_FILE_BYTES);
        }
        own + held
    }
}

// Accounting.
impl Entry {
    /// The store keeps it for one target more.
    pub(super) fn keep(&self, ledger: &Arc<Ledger>) {
        self.ledger.get_or_init(|| ledger.clone());
        if self.kept.fetch_add(1, Relaxed) == 0 {
            ledger.count_held(self.counted_bytes.load(Relaxed));
        }
        self.weigh();
    }

    /// The store keeps it for one target less.
    pub(super) fn release(&self) {
        if self.kept.fetch_sub(1, Relaxed) == 1
            && let Some(ledger) = self.ledger.get()
        {
            ledger.discount_held(self.counted_bytes.load(Relaxed));
        }
    }

    /// Lets the ledger know what it holds now. To be called by one at a time, while it is kept.
    pub(super) fn weigh(&self) {
        let Some(ledger) = self.ledger.get() else { return };
        let bytes = self.memory_bytes();
        let more = bytes.saturating_sub(self.counted_bytes.fetch_max(bytes, Relaxed));
        ledger.count_alive(more);
        ledger.count_held(more);
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if let Some(ledger) = self.ledger.get() {
            ledger.discount_alive(*self.counted_bytes.get_mut());
        }
    }
}

/// A bit of [`Entry::events`].
const UNWATCHED: u32 = 1 << 31;

fn is_watching(events: u32) -> bool {
    events > 0 && events & UNWATCHED == 0
}

/// The two counts of an `Arc`.
const ARC_BYTES: usize = 16;
/// An open file in an `Arc`.
const OPEN_FILE_BYTES: u64 = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::file::inspect;
    use lamna_proto::message::Status;
    use lamna_proto::resource::{Description, Representation};
    use std::os::fd::AsFd;

    fn entry() -> Entry {
        let file = tempfile::NamedTempFile::new().unwrap();
        let stamps = Stamps { files: [inspect(file.as_file().as_fd()).unwrap().1].into(), settled: true };
        let representation = Representation::with_content(&Description::of(Status(200)), b"x");
        Entry::new(Resource::one(Status(200), representation), stamps, 5000)
    }

    fn until(entry: &Entry, now_ms: u64, awake_ms: u64) -> Option<u64> {
        entry.freshness(now_ms, awake_ms).map(|freshness| freshness.until_ms)
    }

    #[test]
    fn unwatched_it_is_good_for_a_while_after_each_comparison() {
        let entry = entry();
        assert_eq!(until(&entry, 5000, 0), Some(5000 + FRESH_MS));
        assert_eq!(until(&entry, 5000 + FRESH_MS, 0), None);
        entry.confirm(6000, entry.events());
        assert_eq!(until(&entry, 6000, 0), Some(6000 + FRESH_MS));
    }

    #[test]
    fn watching_counts_from_the_first_comparison_that_begins_after_it() {
        let entry = entry();
        let before = entry.events();
        entry.begin_watch();
        entry.confirm(5100, before);
        assert!(!entry.is_watched());
        assert_eq!(until(&entry, 9000, 8900), None);
        entry.confirm(5200, entry.events());
        assert!(entry.is_watched());
        assert_eq!(until(&entry, 9000, 8900), Some(8900 + FRESH_MS));
    }

    #[test]
    fn it_is_good_only_as_long_as_the_watcher_is_awake_and_not_for_ever() {
        let entry = entry();
        entry.begin_watch();
        entry.confirm(5000, entry.events());
        assert_eq!(until(&entry, 9000, 9000 - FRESH_MS), None);
        assert_eq!(until(&entry, 5000 + RECHECK_MS, 5000 + RECHECK_MS), None);
    }

    #[test]
    fn what_happens_during_a_comparison_is_not_covered_by_it() {
        let entry = entry();
        entry.begin_watch();
        entry.confirm(5000, entry.events());
        let begun = entry.events();
        entry.disturb();
        assert_eq!(until(&entry, 5001, 5001), None);
        entry.confirm(5002, begun);
        assert!(entry.is_disturbed());
        entry.confirm(5003, entry.events());
        assert!(entry.is_watched() && !entry.is_disturbed());
    }

    #[test]
    fn what_is_no_longer_watched_is_compared_at_once_and_then_as_if_it_never_had_been() {
        let entry = entry();
        assert!(entry.wants_watch() && !entry.wants_watch());
        entry.begin_watch();
        entry.confirm(5000, entry.events());
        entry.end_watch();
        assert_eq!(until(&entry, 5001, 5001), None);
        entry.confirm(5002, entry.events());
        assert_eq!(until(&entry, 5003, 5003), Some(5002 + FRESH_MS));
        assert!(entry.wants_watch());
        entry.begin_watch();
        entry.confirm(5004, entry.events());
        assert!(entry.is_watched());
    }

    #[test]
    fn it_counts_once_in_the_ledger_until_it_is_gone() {
        let ledger = Arc::new(Ledger::default());
        let entry = entry();
        let bytes = entry.memory_bytes();
        entry.keep(&ledger);
        entry.keep(&ledger);
        assert_eq!((ledger.alive_bytes(), ledger.lingering_bytes()), (bytes, 0));
        entry.release();
        assert_eq!(ledger.lingering_bytes(), 0);
        entry.release();
        assert_eq!((ledger.alive_bytes(), ledger.lingering_bytes()), (bytes, bytes));
        drop(entry);
        assert_eq!((ledger.alive_bytes(), ledger.lingering_bytes()), (0, 0));
    }
}
