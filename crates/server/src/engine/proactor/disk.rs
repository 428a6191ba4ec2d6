//! What the proactor has under way in the ring on behalf of files: names and the content of small files on their way
//! into memory, so that translating them no longer waits.
//!
//! Owns: translations that would have waited. Guarantees: each is finished once; only what the ring cannot help with
//! (listings, error pages, links out of the tree and back, file systems that cannot tell what is in memory, and memory that
//! does not keep what the ring has read) goes to a helper thread, as in AMPED. Decides nothing about targets: it asks again once everything it might need is there.

use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use rustix::io::Errno;

use super::Tag;
use crate::cache::Entry;
use crate::content::file::{self, Kind, Stamp};
use crate::content::translate::translate;
use crate::engine::Shared;
use crate::engine::desk::{Desk, Target};
use crate::engine::event_loop::{Outcome, Ticket};
use crate::engine::helpers::{HelperThreads, Helpers, Job};
use crate::engine::portion::Room;
use crate::io::{Abilities, Counters, Wait, open};
use crate::sys::ring::Ring;

/// Translations under way, and helpers for those that the ring cannot help.
pub(super) struct Disk {
    wanted: Vec<Option<Wanted>>,
    helpers: HelperThreads,
}

/// A target whose names are on their way into memory.
struct Wanted {
    /// Who waits for it; nobody if a cached translation is being compared.
    ticket: Option<Ticket>,
    target: Target,
    directory: Arc<OwnedFd>,
    /// Names beneath `directory` that come next, the last one first. One by one, so that who waits for many names does
    /// not take all the threads that may wait for the disk.
    names: Vec<Vec<u8>>,
}

impl Disk {
    /// Nothing is under way for worker `index`.
    pub(super) fn new(shared: &Arc<Shared>, index: usize) -> Disk {
        Disk { wanted: Vec::new(), helpers: HelperThreads::new(shared.clone(), index) }
    }

    /// Translates `target` and keeps what is found, at once or, returning nothing, later.
    pub(super) fn translate(
        &mut self,
        ring: &mut Ring<Tag>,
        desk: &mut Desk<'_>,
        ticket: Option<Ticket>,
        target: Target,
    ) -> Option<Arc<Entry>> {
        let question = target.question(desk.shared, Wait::No, desk.now);
        if let Ok(entry) = translate(&question) {
            desk.keep(&target, &entry);
            return Some(entry);
        }
        let is_found_again = can_tell(&desk.shared.abilities) && !desk.shared.reads_elsewhere();
        match question.names().filter(|_| is_found_again) {
            Some((directory, names)) => self.bring_in(ring, desk, Wanted { ticket, target, directory, names }),
            None => self.help(ticket, target),
        }
        None
    }

    fn help(&mut self, ticket: Option<Ticket>, target: Target) {
        self.helpers.submit(Job::Translate { ticket, target, again: true }, 1);
    }

    fn bring_in(&mut self, ring: &mut Ring<Tag>, desk: &mut Desk<'_>, mut wanted: Wanted) {
        wanted.names.reverse();
        let index = self.wanted.iter().position(Option::is_none).unwrap_or_else(|| {
            self.wanted.push(None);
            self.wanted.len() - 1
        });
        self.wanted[index] = Some(wanted);
        let outcome = self.next_name(ring, desk, index);
        debug_assert!(outcome.is_none(), "a translation has a name at least");
    }

    /// Brings the next name of translation `index` into memory; if there is none, translates.
    pub(super) fn next_name(&mut self, ring: &mut Ring<Tag>, desk: &mut Desk<'_>, index: usize) -> Option<Outcome> {
        let wanted = self.wanted[index].as_mut()?;
        if let Some(name) = wanted.names.pop() {
            let name = if name.is_empty() { b".".to_vec() } else { name };
            let name = CString::new(name).expect("a path with a zero byte does not pass normalisation");
            ring.open(wanted.directory.clone(), name, open::READ, open::BENEATH, Tag::Name(index));
            return None;
        }
        let Wanted { ticket, target, .. } = self.wanted[index].take()?;
        match translate(&target.question(desk.shared, Wait::No, desk.now)) {
            Ok(entry) => {
                desk.keep(&target, &entry);
                ticket.map(|ticket| Outcome::Translated(ticket, entry))
            }
            Err(_) => {
                Counters::count(&desk.shared.abilities.counters.untested);
                self.help(ticket, target);
                None
            }
        }
    }

    /// A name of translation `index` has been looked up. The content of a small file will be needed, too, unless it is
    /// held already.
    pub(super) fn handle_opened(
        &mut self,
        ring: &mut Ring<Tag>,
        desk: &mut Desk<'_>,
        index: usize,
        opened: Result<OwnedFd, Errno>,
    ) -> Option<Outcome> {
        if let Ok(file) = opened
            && let Ok((Kind::Regular, stamp)) = file::inspect(file.as_fd())
            && (1..=desk.shared.store.content_bytes_max()).contains(&stamp.size)
            && !self.holds(index, &stamp)
        {
            ring.read(Arc::new(file), Room::beside(stamp.size as usize), 0, Tag::Content(index));
            return None;
        }
        self.next_name(ring, desk, index)
    }

    /// Whether the cached translation that is being compared was made from a file in this state.
    fn holds(&self, index: usize, stamp: &Stamp) -> bool {
        let previous = self.wanted[index].as_ref().and_then(|wanted| wanted.target.previous.as_ref());
        previous.is_some_and(|entry| entry.stamps.files.contains(stamp))
    }

    /// What helpers have found meanwhile.
    pub(super) fn outcomes(&mut self, desk: &mut Desk<'_>) -> Vec<Outcome> {
        let mut outcomes = Vec::new();
        while let Some(finished) = self.helpers.finished() {
            if let (Job::Translate { ticket, target, .. }, Some(entry)) = (finished.job, finished.entry) {
                desk.keep(&target, &entry);
                outcomes.extend(ticket.map(|ticket| Outcome::Translated(ticket, entry)));
            }
        }
        outcomes
    }
}

/// Whether asking again after bringing things into memory can have another result.
fn can_tell(abilities: &Abilities) -> bool {
    [&abilities.openat2, &abilities.resolve_cached, &abilities.nowait].iter().all(|ability| ability.load(Relaxed))
}
