//! The result of a cache lookup.

use std::sync::Arc;

use super::entry::Entry;

/// The result of a cache lookup.
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
