//! Through a tree of folders, entry by entry, with an open folder for each level.
//!
//! Owns: [`Walk`]. Guarantees: nothing outside the tree is reached: links are entries and are not followed, and each
//! folder is opened in the one that it is in; depth and names held are bounded. Judges nothing.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};

use super::super::{Refused, refused};
use super::DEPTH_MAX;

/// A folder on the way.
#[derive(Debug)]
pub(super) struct Level {
    pub(super) directory: OwnedFd,
    /// The path that it is asked for by, with a slash at the end.
    pub(super) path: Vec<u8>,
    names: std::vec::IntoIter<Vec<u8>>,
}

/// Something in a folder.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) name: Vec<u8>,
    /// The path that it is asked for by, without a slash at the end.
    pub(super) path: Vec<u8>,
    pub(super) kind: FileType,
}

/// The next event.
#[derive(Debug)]
pub(super) enum Event {
    /// An entry of the innermost folder.
    Entry(Entry),
    /// That folder is over, and its outer one is the innermost.
    Left(Level),
    /// That was all.
    Over,
}

#[derive(Debug)]
pub(super) struct Walk {
    levels: Vec<Level>,
}

/// Names of one folder.
const NAMES_MAX: usize = 100_000;
const TOO_LARGE: Refused = Refused(507, "A folder has too many entries, or is too deep, for one request.");
/// How a folder is opened in another one.
const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Opens the folder `name` in `parent`, which is no link.
///
/// # Errors
/// The error of `open(2)`.
pub(super) fn open_folder(parent: &OwnedFd, name: &[u8]) -> Result<OwnedFd, Errno> {
    retry_on_intr(|| rustix::fs::openat(parent, name, FOLDER, Mode::empty()))
}

fn level(directory: OwnedFd, path: Vec<u8>) -> Result<Level, Refused> {
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::read_from(directory.as_fd()).map_err(refused)? {
        let entry = entry.map_err(refused)?;
        let name = entry.file_name().to_bytes();
        if matches!(name, b"." | b"..") {
            continue;
        }
        if names.len() == NAMES_MAX {
            return Err(TOO_LARGE);
        }
        names.push(name.to_vec());
    }
    Ok(Level { directory, path, names: names.into_iter() })
}

impl Walk {
    /// Through `directory`, which is asked for by `path`, without a slash at its end.
    pub(super) fn new(directory: OwnedFd, path: &[u8]) -> Result<Walk, Refused> {
        Ok(Walk { levels: vec![level(directory, [path, b"/"].concat())?] })
    }

    /// The next event. Entries that are gone meanwhile are left out.
    pub(super) fn next(&mut self) -> Result<Event, Refused> {
        let Some(level) = self.levels.last_mut() else { return Ok(Event::Over) };
        for name in level.names.by_ref() {
            match rustix::fs::statat(&level.directory, &*name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => {
                    let path = [&level.path[..], &name].concat();
                    return Ok(Event::Entry(Entry { name, path, kind: FileType::from_raw_mode(stat.st_mode) }));
                }
                Err(Errno::NOENT) => {}
                Err(errno) => return Err(refused(errno)),
            }
        }
        Ok(self.levels.pop().map_or(Event::Over, Event::Left))
    }

    /// Goes into `entry` of the innermost folder, which is a folder.
    pub(super) fn enter(&mut self, entry: &Entry) -> Result<(), Refused> {
        let Some(outer) = self.levels.last() else { return Ok(()) };
        if self.levels.len() >= DEPTH_MAX {
            return Err(TOO_LARGE);
        }
        let directory = open_folder(&outer.directory, &entry.name).map_err(refused)?;
        self.levels.push(level(directory, [&entry.path[..], b"/"].concat())?);
        Ok(())
    }

    /// The innermost folder.
    pub(super) fn innermost(&self) -> Option<&Level> {
        self.levels.last()
    }

    /// How many folders are within each other here.
    pub(super) fn depth(&self) -> usize {
        self.levels.len()
    }

    /// Bytes of memory that it takes, about.
    pub(super) fn memory_bytes(&self) -> usize {
        /// A name and what it stands in.
        const NAME_BYTES: usize = 64;
        self.levels.iter().map(|level| level.path.capacity() + level.names.as_slice().len() * NAME_BYTES).sum()
    }
}
