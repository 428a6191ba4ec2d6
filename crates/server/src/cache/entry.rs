//! What a target was found to stand for, and what that rests on.
//!
//! Owns: when an entry was last compared with the file system, and how much memory it holds. Does not look at files.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use lamna_proto::resource::Resource;

use crate::content::file::{Stamp, Stamps};

/// What a target was found to stand for, and what that rests on.
#[derive(Debug)]
pub struct Entry {
    /// What to answer with.
    pub resource: Arc<Resource>,
    /// The state of the files that the resource was made from.
    pub stamps: Stamps,
    /// Whether the resource is this entry's alone, and counts as such.
    owns_resource: bool,
    /// When it was last compared with the file system, in the server's milliseconds. Zero: it must not be used without
    /// comparing, because the file was changing while it was read.
    checked_ms: AtomicU64,
}

impl Entry {
    /// An entry of its own `resource`, compared at `now_ms`.
    pub fn new(resource: Resource, stamps: Stamps, now_ms: u64) -> Entry {
        let checked_ms = AtomicU64::new(if stamps.settled { now_ms } else { 0 });
        Entry { resource: Arc::new(resource), stamps, owns_resource: true, checked_ms }
    }

    /// An entry of a resource that others have as well: the page of an error.
    pub fn shared(resource: Arc<Resource>, stamps: Stamps, now_ms: u64) -> Entry {
        let checked_ms = AtomicU64::new(if stamps.settled { now_ms } else { 0 });
        Entry { resource, stamps, owns_resource: false, checked_ms }
    }

    /// It was compared at `now_ms` and still holds.
    pub fn confirm(&self, now_ms: u64) {
        if self.stamps.settled {
            self.checked_ms.store(now_ms, Relaxed);
        }
    }

    /// Whether clients asked for codings that could be made.
    pub fn has_wishes(&self) -> bool {
        self.resource.variants.codings().is_some_and(|codings| codings.has_wishes())
    }

    pub(super) fn age_ms(&self, now_ms: u64) -> u64 {
        now_ms.saturating_sub(self.checked_ms.load(Relaxed))
    }

    /// Files that it holds open.
    pub(super) fn descriptors(&self) -> u64 {
        self.resource.variants.all().filter(|one| one.file.is_some()).count() as u64
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        let own = size_of::<Entry>() + ARC_BYTES + self.stamps.files.capacity() * size_of::<Stamp>();
        if !self.owns_resource {
            return own as u64;
        }
        let held: usize = self.resource.variants.all().map(|one| one.memory_bytes() + ARC_BYTES).sum();
        (own + held + size_of::<Resource>() + ARC_BYTES) as u64
    }
}

/// The two counts of an `Arc`.
const ARC_BYTES: usize = 16;
