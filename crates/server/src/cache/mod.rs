//! What has been found out about targets, kept: one shared store, and a private front of it for each worker.
//!
//! Owns: translations (negative ones too), with their prebuilt heads, open files and the content of small files; when
//! each was last compared with the file system. Guarantees: bounded in bytes; nothing is handed out that has not been
//! compared within [`FRESH_MS`]; no lock is held across a system call, and a front takes none.
//! Does not read files: `content::translate` does, and the engine decides where.

mod compressor;
pub mod counters;
mod entry;
mod front;
pub mod generations;
mod shards;
mod store;

use std::sync::Arc;

pub use entry::Entry;
pub use front::Front;
pub use store::{Bounds, Store};

/// How long a translation is used without looking at the file system again, in milliseconds.
pub const FRESH_MS: u64 = 1000;
/// At this age a translation is looked at again while it is still being used, so that nobody waits for it.
pub const REFRESH_MS: u64 = 500;

/// What a cache says about a target.
#[derive(Debug)]
pub enum Lookup<'a> {
    /// Use it.
    Fresh(&'a Arc<Entry>),
    /// Use it, and look at the file system soon.
    Aging(&'a Arc<Entry>),
    /// Known, but to be compared with the file system before it is used.
    Stale(Arc<Entry>),
    /// Not known.
    Unknown,
}

#[cfg(test)]
mod tests {
    use super::generations::Key;
    use super::*;
    use crate::content::file::Stamps;
    use crate::sys::common::Common;
    use lamna_proto::message::Status;
    use lamna_proto::resource::{Description, Representation, Resource};

    fn entry(now_ms: u64) -> Arc<Entry> {
        let description = Description::of(Status(200));
        let resource = Resource::one(Status(200), Representation::with_content(&description, b"x"));
        Arc::new(Entry::new(resource, Stamps { files: Vec::new(), settled: true }, now_ms))
    }

    const KEY: Key<'static> = Key { site: 0, path: b"/a" };

    #[test]
    fn a_store_may_be_bounded_in_entries() {
        let store =
            Store::with(Bounds { bytes_max: 4 << 20, descriptors_max: 100, entries_max: Some(200) }, Common::default());
        let names = || (0..1000u32).map(u32::to_be_bytes);
        names().for_each(|name| store.insert(Key { site: 0, path: &name }, entry(5000)));
        let kept = names().filter(|name| store.lookup(Key { site: 0, path: name }).is_some()).count();
        assert!((90..=200).contains(&kept), "{kept}");
    }

    #[test]
    fn nothing_older_than_the_bound_is_handed_out_unchecked() {
        let store = Store::new(1 << 20, 100);
        let mut front = Front::new(&store);
        assert!(matches!(front.lookup(&store, KEY, 5000), Lookup::Unknown));
        store.insert(KEY, entry(5000));
        assert!(matches!(front.lookup(&store, KEY, 5100), Lookup::Fresh(_)));
        assert!(matches!(front.lookup(&store, KEY, 5500), Lookup::Aging(_)));
        assert!(matches!(front.lookup(&store, KEY, 5501), Lookup::Fresh(_)), "one refresh is enough");
        let stale = front.lookup(&store, KEY, 6000);
        assert!(matches!(stale, Lookup::Stale(_)), "{stale:?}");
    }

    #[test]
    fn a_confirmation_by_another_worker_counts() {
        let store = Store::new(1 << 20, 100);
        let mut front = Front::new(&store);
        let entry = entry(5000);
        store.insert(KEY, entry.clone());
        assert!(matches!(front.lookup(&store, KEY, 5100), Lookup::Fresh(_)));
        entry.confirm(5900);
        assert!(matches!(front.lookup(&store, KEY, 6100), Lookup::Fresh(_)));
        assert!(matches!(front.lookup(&store, KEY, 6900), Lookup::Stale(_)));
    }
}
