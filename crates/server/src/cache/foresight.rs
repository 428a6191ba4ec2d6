//! What lookups that are about to be made will read, fetched from memory before they are.
//!
//! A hit among a million entries reads a row of lines that are not near the processor, each of them known only when the one before
//! has come: of the index, the slot, entry and name, resource, representation, message. One request has to wait for each. Of several
//! that are there at the same time each is taken one step further whenever the worker has done something else meanwhile, received a
//! request or sent an answer, so that none waits (after group and software-pipelined prefetching: Chen, Ailamaki, Gibbons, Mowry,
//! ICDE 2004).
//!
//! Guarantees: changes nothing that anybody can see but the time that it takes; counts as no use. Does not know requests.

use std::sync::Arc;

use super::Entry;
use super::generations::Key;
use super::shard::Depth;
use super::shards::Place;
use super::store::Store;
use crate::sys::prefetch::{prefetch, prefetch_shared};

/// Lookups that are about to be made. One for each worker, so that it allocates nothing for long.
#[derive(Debug, Default)]
pub struct Foresight {
    lookups: Vec<Ahead>,
}

/// How far one of them is: what it has to go on with has been asked for, and is there by the time of its next step.
///
/// ```text
/// Place: bucket -> slot -> name, entry, policy -> Entry: resource -> representation -> message -> (gone)
/// ```
#[derive(Debug)]
enum Ahead {
    /// By where it is looked up, up to this depth.
    Place(Place, Depth),
    /// The entry is there; of what is in it, up to this.
    Entry(Arc<Entry>, Part),
}

#[derive(Clone, Copy, Debug)]
enum Part {
    Resource,
    Representation,
}

/// Entries from which on they are not near the processor: about as many as its second cache has lines for half a kilobyte of each.
const ENTRIES_MIN: u64 = 4096;
/// Of a message. What follows the processor fetches by itself, as it is read in order.
const MESSAGE_BYTES: usize = 1024;

impl Foresight {
    /// Steps until everything has been asked for.
    pub const STEPS: usize = 5;

    /// Whether `store` is so large that it is worth it.
    pub fn is_worthwhile(store: &Store) -> bool {
        store.entries() >= ENTRIES_MIN
    }

    /// `key` is about to be looked up.
    pub fn add(&mut self, store: &Store, key: Key<'_>) {
        let place = store.place(key);
        store.foresee(place, Depth::Bucket);
        self.lookups.push(Ahead::Place(place, Depth::Bucket));
    }

    /// Takes all that were added one step further. To be called again when memory has had time to answer: after a system call, say.
    pub fn step(&mut self, store: &Store) {
        self.lookups.retain_mut(|lookup| match lookup.next(store) {
            Some(next) => {
                *lookup = next;
                true
            }
            None => false,
        });
    }
}

impl Ahead {
    /// Asks for what comes next. Nothing: there is nothing more, or nothing is kept there.
    fn next(&self, store: &Store) -> Option<Ahead> {
        match self {
            Ahead::Place(place, Depth::Bucket) => {
                store.foresee(*place, Depth::Slot);
                Some(Ahead::Place(*place, Depth::Slot))
            }
            Ahead::Place(place, Depth::Slot) => {
                store.foresee(*place, Depth::Entry);
                Some(Ahead::Place(*place, Depth::Entry))
            }
            Ahead::Place(place, Depth::Entry | Depth::Found) => {
                let entry = store.foresee(*place, Depth::Found)?;
                prefetch_shared(&entry.resource);
                Some(Ahead::Entry(entry, Part::Resource))
            }
            Ahead::Entry(entry, Part::Resource) => {
                prefetch_shared(entry.resource.variants.first());
                Some(Ahead::Entry(entry.clone(), Part::Representation))
            }
            Ahead::Entry(entry, Part::Representation) => {
                let message = entry.resource.variants.first().message()?;
                prefetch(message.as_ptr(), message.len().min(MESSAGE_BYTES));
                None
            }
        }
    }
}
