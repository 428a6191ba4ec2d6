//! The proactor's operations in the ring on behalf of files: names and the content of small files on their way into
//! memory, so that translating them no longer waits.
//!
//! Owns: translations that would have waited. Guarantees: each is finished once, for all exchanges that wait for it. At
//! most as many are in the ring at a time as there may be helpers; among the others the one with the most waiting
//! exchanges comes first, as in AMPED. Helper threads get only targets with which the ring cannot help: listings, error
//! pages, and links out of the tree and back. So too where the file system cannot tell what is in memory, or memory
//! does not keep the bytes that the ring has read. Decides nothing about targets: it asks again once everything it
//! might need is there.

use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use lamna_io::file_state;
use lamna_io::file_state::{Kind, Stamp};
use lamna_io::{Counters, KernelFeatures, Wait, open};
use lamna_site::cache::Entry;
use lamna_site::cache::leased_buffer;
use lamna_site::content::translate::translate;
use lamna_sys::metrics::memory_accounting::Reservation;
use lamna_sys::ring::Ring;
use rustix::io::Errno;

use super::Tag;
use crate::worker::coalesced_lookups::{CoalescedLookups, Joined};
use crate::worker::context::{TranslationTarget, WorkerContext};
use crate::worker::executor::{Completed, PendingId};
use crate::worker::helpers::job_queue::{JobId, JobQueue};
use crate::worker::helpers::runners::Runners;
use crate::worker::helpers::{HelperThreads, Helpers, Job, JobOutcome};
use crate::worker::shared::Shared;

/// Translations that would have waited, and helpers for those that the ring cannot help.
pub(super) struct Disk {
    shared: Arc<Shared>,
    lookups: CoalescedLookups<Place>,
    /// Not in the ring yet.
    job_queue: JobQueue<Waiting>,
    /// In the ring.
    wanted: Vec<Option<Wanted>>,
    helpers: HelperThreads,
    /// For what programs do.
    pub(super) runners: Runners,
}

/// Where a translation waits to be taken up.
#[derive(Clone, Copy, Debug)]
enum Place {
    JobQueue(JobId),
    Helpers(JobId),
}

/// A target whose names are on their way into memory, or are to be.
struct Wanted {
    /// The exchange that waits for it; none if a cached translation is being compared.
    pending: Option<PendingId>,
    target: TranslationTarget,
    directory: Arc<OwnedFd>,
    /// Names beneath `directory` that come next, the last one first. One by one, so that an exchange that waits for
    /// many names does not take all the threads that may wait for the disk.
    names: Vec<Vec<u8>>,
}

/// One that waits for room in the ring, and since when.
struct Waiting {
    wanted: Wanted,
    since: Instant,
}

impl Disk {
    /// Nothing is under way for worker `index`.
    pub(super) fn new(shared: &Arc<Shared>, index: usize) -> Disk {
        Disk {
            shared: shared.clone(),
            lookups: CoalescedLookups::default(),
            job_queue: JobQueue::new(shared.schedule),
            wanted: Vec::new(),
            helpers: HelperThreads::new(shared.clone(), index),
            runners: Runners::new(shared.clone(), index),
        }
    }

    /// Translates `target` and keeps what is found, at once or, returning nothing, later.
    pub(super) fn translate(
        &mut self,
        ring: &mut Ring<Tag, Option<Reservation>>,
        context: &mut WorkerContext<'_>,
        pending: Option<PendingId>,
        target: TranslationTarget,
    ) -> Option<Arc<Entry>> {
        let translation = target.translation(context.shared, Wait::No, context.now);
        if let Ok(entry) = translate(&translation) {
            context.keep(&target, &entry);
            return Some(entry);
        }
        if let Some(pending) = pending
            && let Joined::Another(place) = self.lookups.join(&target, pending)
        {
            self.want(place);
            return None;
        }
        let is_found_again = can_tell(&context.shared.abilities) && !context.shared.reads_elsewhere();
        match translation.names().filter(|_| is_found_again) {
            Some((directory, names)) => {
                let names = names.into_iter().rev().collect();
                self.submit(ring, context, Wanted { pending, target, directory, names });
            }
            None => self.help(pending, target),
        }
        None
    }

    /// One more waits for what waits at `place`.
    fn want(&mut self, place: Option<Place>) {
        match place {
            Some(Place::JobQueue(number)) => self.job_queue.want(number),
            Some(Place::Helpers(number)) => self.helpers.want(number),
            None => {}
        }
    }

    fn help(&mut self, pending: Option<PendingId>, target: TranslationTarget) {
        let wanted = self.lookups.wanted(&target);
        let number = self.helpers.submit(Job::Translate { pending, target: target.clone(), again: true }, wanted);
        if pending.is_some() {
            self.lookups.place(&target, number.map(Place::Helpers));
        }
    }

    /// Has the names of `wanted` brought in when it is its turn.
    fn submit(&mut self, ring: &mut Ring<Tag, Option<Reservation>>, context: &mut WorkerContext<'_>, wanted: Wanted) {
        Counters::count(&context.shared.abilities.counters.helper_jobs);
        let waiting = |wanted| Waiting { wanted, since: Instant::now() };
        if wanted.pending.is_some() {
            let target = wanted.target.clone();
            let number = self.job_queue.add(waiting(wanted), 1, 1);
            self.lookups.place(&target, Some(Place::JobQueue(number)));
        } else {
            // What is compared is known, and a hot file is behind it.
            self.job_queue.add_at_once(waiting(wanted));
        }
        self.fill_ring(ring, context);
    }

    /// Takes up what waits, as far as there is room.
    fn fill_ring(&mut self, ring: &mut Ring<Tag, Option<Reservation>>, context: &mut WorkerContext<'_>) {
        while self.wanted.iter().flatten().count() < context.shared.control.helpers()
            && let Some(Waiting { wanted, since }) = self.job_queue.take()
        {
            context.shared.abilities.counters.begin_helper_job(since.elapsed().as_micros() as u64);
            if wanted.pending.is_some() {
                self.lookups.place(&wanted.target, None);
            }
            self.bring_in(ring, context, wanted);
        }
    }

    fn bring_in(&mut self, ring: &mut Ring<Tag, Option<Reservation>>, context: &mut WorkerContext<'_>, wanted: Wanted) {
        let index = self.wanted.iter().position(Option::is_none).unwrap_or_else(|| {
            self.wanted.push(None);
            self.wanted.len() - 1
        });
        self.wanted[index] = Some(wanted);
        let completed = self.next_name(ring, context, index);
        debug_assert!(completed.is_empty(), "a translation has a name at least");
    }

    /// Brings the next name of translation `index` into memory; if there is none, translates.
    pub(super) fn next_name(
        &mut self,
        ring: &mut Ring<Tag, Option<Reservation>>,
        context: &mut WorkerContext<'_>,
        index: usize,
    ) -> Vec<Completed> {
        let Some(wanted) = self.wanted[index].as_mut() else { return Vec::new() };
        if let Some(name) = wanted.names.pop() {
            let name = if name.is_empty() { b".".to_vec() } else { name };
            let name = CString::new(name).expect("a path with a zero byte does not pass normalisation");
            ring.open(wanted.directory.clone(), name, open::READ, open::BENEATH, Tag::Name(index));
            return Vec::new();
        }
        let Some(Wanted { pending, target, .. }) = self.wanted[index].take() else { return Vec::new() };
        context.shared.abilities.counters.end_helper_job();
        let completed = match translate(&target.translation(context.shared, Wait::No, context.now)) {
            Ok(entry) => self.end(context, pending, &target, &entry),
            Err(_) => {
                Counters::count(&context.shared.abilities.counters.untested);
                self.help(pending, target);
                Vec::new()
            }
        };
        self.fill_ring(ring, context);
        completed
    }

    /// Keeps what was found, for all who wait for it.
    fn end(
        &mut self,
        context: &mut WorkerContext<'_>,
        pending: Option<PendingId>,
        target: &TranslationTarget,
        entry: &Arc<Entry>,
    ) -> Vec<Completed> {
        context.keep(target, entry);
        // A comparison is for nobody, and those who wait for the same target wait for a lookup of their own.
        let others = pending.map(|_| self.lookups.end(target)).unwrap_or_default();
        let all = pending.into_iter().chain(others);
        all.map(|pending| Completed::Translated(pending, entry.clone())).collect()
    }

    /// A name of translation `index` has been looked up. The content of a small file will be needed, too, unless it is
    /// held already.
    pub(super) fn handle_opened(
        &mut self,
        ring: &mut Ring<Tag, Option<Reservation>>,
        context: &mut WorkerContext<'_>,
        index: usize,
        opened: Result<OwnedFd, Errno>,
    ) -> Vec<Completed> {
        if let Ok(file) = opened
            && let Ok((Kind::Regular, stamp)) = file_state::inspect(file.as_fd())
            && (1..=context.shared.store.content_bytes_max()).contains(&stamp.size)
            && !self.holds(index, &stamp)
        {
            ring.read(Arc::new(file), leased_buffer::beside(stamp.size as usize), 0, Tag::Content(index));
            return Vec::new();
        }
        self.next_name(ring, context, index)
    }

    /// Whether the cached translation that is being compared was made from a file in this state.
    fn holds(&self, index: usize, stamp: &Stamp) -> bool {
        let previous = self.wanted[index].as_ref().and_then(|wanted| wanted.target.previous.as_ref());
        previous.is_some_and(|entry| entry.stamps.files.contains(stamp))
    }

    /// Steps that runners and helpers have completed meanwhile.
    pub(super) fn completed(&mut self, context: &mut WorkerContext<'_>) -> Vec<Completed> {
        let mut completed: Vec<Completed> = std::iter::from_fn(|| self.runners.finished()).collect();
        while let Some(finished) = self.helpers.finished() {
            if let (Job::Translate { pending, target, .. }, JobOutcome::Found(entry)) = (finished.job, finished.outcome)
            {
                completed.extend(self.end(context, pending, &target, &entry));
            }
        }
        completed
    }
}

impl Drop for Disk {
    /// Translations that are left count as done here: the successor of the worker does them.
    fn drop(&mut self) {
        let counters = &self.shared.abilities.counters;
        self.wanted.iter().flatten().for_each(|_| counters.end_helper_job());
        for _ in 0..self.job_queue.len() {
            counters.begin_helper_job(0);
            counters.end_helper_job();
        }
    }
}

/// Whether asking again after bringing things into memory can have another result.
fn can_tell(abilities: &KernelFeatures) -> bool {
    [&abilities.openat2, &abilities.resolve_cached, &abilities.nowait].iter().all(|ability| ability.load(Relaxed))
}
