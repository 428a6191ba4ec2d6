//! The shared store: all that has been found out about targets, and the threads that work on it.
//!
//! Owns: the entries of all workers of a process, the bound on their bytes, and the threads that make codings of them.
//! Guarantees: no lock is held across a system call.

use std::sync::Arc;

use super::compressor::Compressor;
use super::counters::Counters;
use super::entry::Entry;
use super::generations::Key;
use super::shards::{self, Shards};
use crate::sys::common::Common;

/// The shared store.
#[derive(Debug)]
pub struct Store {
    shards: Arc<Shards>,
    compressor: Compressor,
}

/// Bounds of a store.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Bytes held, the store's own structures included.
    pub bytes_max: u64,
    /// Open files.
    pub descriptors_max: u64,
    /// Entries, if their number is bounded.
    pub entries_max: Option<usize>,
}

impl Store {
    /// An empty store of at most `bytes_max` bytes, its own structures included, and `descriptors_max` open files.
    pub fn new(bytes_max: u64, descriptors_max: u64) -> Store {
        Store::with(Bounds { bytes_max, descriptors_max, entries_max: None }, Common::default())
    }

    /// An empty store within `bounds` that counts what it does in `counters`.
    pub fn with(bounds: Bounds, counters: Common<Counters>) -> Store {
        let Bounds { bytes_max, descriptors_max, entries_max } = bounds;
        let shards = Arc::new(Shards::new(bytes_max, descriptors_max, entries_max));
        Store { compressor: Compressor::new(shards.clone(), counters), shards }
    }

    /// The largest object that makes sense in a store of `bytes_max` bytes: larger ones would push too much out.
    pub fn object_bytes_max(bytes_max: u64) -> u64 {
        bytes_max / shards::count(bytes_max) / OBJECT_SHARE
    }

    /// The entry of `key`, however old.
    pub fn lookup(&self, key: Key<'_>) -> Option<Arc<Entry>> {
        self.shards.lookup(key)
    }

    /// Keeps `entry`.
    pub fn insert(&self, key: Key<'_>, entry: Arc<Entry>) {
        self.shards.insert(key, entry);
    }

    /// Has the codings of `entry` made that clients wish for, somewhere else.
    pub fn grant_wishes(&self, key: Key<'_>, entry: &Arc<Entry>) {
        self.compressor.submit(key, entry);
    }

    /// Lets go of everything, because descriptors or memory are needed elsewhere. What is in use lives on in the hands
    /// of its users.
    pub fn clear(&self) {
        self.shards.clear();
    }

    /// Bytes held.
    pub fn bytes(&self) -> u64 {
        self.shards.bytes()
    }

    /// Bytes that the store may hold.
    pub fn bytes_max(&self) -> u64 {
        self.shards.bytes_max
    }
}

/// What part of a shard one object may be.
const OBJECT_SHARE: u64 = 8;
