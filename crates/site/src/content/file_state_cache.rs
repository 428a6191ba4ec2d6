//! A cache of facts derived from files, by the state of each file.
//!
//! Owns: [`FileStateCache`]. Guarantees: it is found only for the state of the file that it was made of; its memory is
//! bounded, and what was not asked for lately goes first. Reads nothing.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use lamna_io::file_state::Stamp;

use crate::cache::two_generation_map::{Generations, Key};

/// A cache of facts derived from files.
pub struct FileStateCache<T>(Mutex<Generations<(Stamp, Arc<T>)>>);

impl<T> FileStateCache<T> {
    /// Nothing yet, and never more than `bytes_max`.
    pub(super) fn new(bytes_max: u64) -> FileStateCache<T> {
        FileStateCache(Mutex::new(Generations::new(bytes_max)))
    }

    /// The fact about the file under `key`, if it was derived from this state of the file.
    pub(super) fn lookup(&self, key: Key<'_>, stamp: &Stamp) -> Option<Arc<T>> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.lookup(key).filter(|(known, _)| known == stamp).map(|(_, found)| found.clone())
    }

    /// Keeps what takes so many bytes of memory.
    pub(super) fn keep(&self, key: Key<'_>, stamp: Stamp, found: &Arc<T>, bytes: usize) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.insert(key, (stamp, found.clone()), bytes as u64);
    }
}

impl<T> fmt::Debug for FileStateCache<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("FileStateCache").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;
    use lamna_io::file_state;

    #[test]
    fn what_is_known_is_known_of_one_state_of_the_file() {
        let state = |content: &str| {
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), content).unwrap();
            file_state::inspect(file.as_file().as_fd()).unwrap().1
        };
        let (kept, key) = (FileStateCache::new(1000), Key { site: 0, path: b"/a" });
        let (now, later) = (state("one"), state("another"));
        kept.keep(key, now, &Arc::new(7), 100);
        assert_eq!(kept.lookup(key, &now).as_deref(), Some(&7));
        assert_eq!(kept.lookup(key, &later), None);
        assert_eq!(kept.lookup(Key { site: 0, path: b"/b" }, &now), None);
    }
}
