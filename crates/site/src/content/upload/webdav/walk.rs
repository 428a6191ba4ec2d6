//! Through a tree of folders, entry by entry, with an open folder for each level.
//!
//! Owns: [`Walk`]. Guarantees: nothing outside the tree is reached: links are entries and are not followed, and each
//! folder is opened in the one that it is in; each entry is given out with all paths at which it is, those of its
//! folder and, if it is a folder, its own; depth, names held and names read at once are bounded. Judges nothing.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};

use super::super::{ChangeTarget, Refused, refused};
use super::{DEPTH_MAX, ENTRIES_MAX};
use crate::content::permitted::other_places;
use crate::content::site::Sites;

/// The site whose paths lead into a tree.
#[derive(Clone, Debug)]
pub(super) enum Places {
    /// This one.
    Of(Arc<Sites>, u32),
    /// None: nothing is judged by paths, as under a hidden name, or it is by others.
    Unasked,
}

/// A folder on the way.
#[derive(Debug)]
pub(super) struct Level {
    pub(super) directory: OwnedFd,
    /// The path that it is asked for by, with a slash at the end.
    pub(super) path: Vec<u8>,
    /// Its other paths, with a slash at the end.
    others: Vec<Vec<u8>>,
    names: Names,
    /// The folder, until all of it has been read.
    unread: Option<Dir>,
}

/// Names of a folder, each with a zero behind it.
#[derive(Debug, Default)]
struct Names {
    bytes: Vec<u8>,
    at: usize,
    count: usize,
}

/// Something in a folder.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) name: Vec<u8>,
    /// The path that it is asked for by, without a slash at the end.
    pub(super) path: Vec<u8>,
    /// Its other paths, without a slash at the end.
    others: Vec<Vec<u8>>,
    pub(super) kind: FileType,
    /// The folder that it is, or why it cannot be entered, once it was opened.
    folder: Option<Result<OwnedFd, Errno>>,
}

/// The next event.
#[derive(Debug)]
pub(super) enum Event {
    /// So many names were read.
    Reads(usize),
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
    places: Places,
}

/// Names of one folder.
const NAMES_MAX: usize = 100_000;
/// Bytes of the names that are held, of all folders on the way.
const NAMES_BYTES_MAX: usize = 8 << 20;
/// The buffer that a folder is read into.
const DIRECTORY_BYTES: usize = 32 * 1024;
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

impl ChangeTarget {
    /// The paths of its site.
    pub(super) fn places(&self) -> Places {
        Places::Of(self.sites.clone(), self.site)
    }
}

impl Places {
    /// The paths of `folder` beside `path`. Both have a slash at the end.
    fn others(&self, path: &[u8], folder: &OwnedFd) -> Result<Vec<Vec<u8>>, Errno> {
        match self {
            Places::Of(sites, site) => other_places(sites.at(*site), path, folder.as_fd()),
            Places::Unasked => Ok(Vec::new()),
        }
    }
}

impl Names {
    fn next(&mut self) -> Option<Vec<u8>> {
        let rest = &self.bytes[self.at..];
        let end = memchr::memchr(0, rest)?;
        self.at += end + 1;
        Some(rest[..end].to_vec())
    }
}

impl Level {
    fn new(directory: OwnedFd, path: Vec<u8>, others: Vec<Vec<u8>>) -> Result<Level, Refused> {
        let unread = Some(Dir::read_from(directory.as_fd()).map_err(refused)?);
        Ok(Level { directory, path, others, names: Names::default(), unread })
    }

    /// Reads more names, of which `room` bytes may be held. How many, if not all were read before.
    fn read(&mut self, room: usize) -> Result<Option<usize>, Refused> {
        let Some(unread) = &mut self.unread else { return Ok(None) };
        for count in 0..ENTRIES_MAX {
            let Some(entry) = unread.next() else {
                self.unread = None;
                return Ok(Some(count));
            };
            let entry = entry.map_err(refused)?;
            let name = entry.file_name().to_bytes_with_nul();
            if matches!(name, b".\0" | b"..\0") {
                continue;
            }
            self.names.count += 1;
            if self.names.count > NAMES_MAX || self.names.bytes.len() + name.len() > room {
                return Err(TOO_LARGE);
            }
            self.names.bytes.extend_from_slice(name);
        }
        Ok(Some(ENTRIES_MAX))
    }

    fn memory_bytes(&self) -> usize {
        let of_paths: usize = self.others.iter().map(Vec::capacity).sum();
        let of_directory = if self.unread.is_some() { DIRECTORY_BYTES } else { 0 };
        size_of::<Level>() + self.path.capacity() + of_paths + self.names.bytes.capacity() + of_directory
    }
}

impl Entry {
    /// All paths at which it is, without a slash at the end.
    pub(super) fn places(&self) -> impl Iterator<Item = &[u8]> {
        std::iter::once(&*self.path).chain(self.others.iter().map(|other| &**other))
    }
}

fn bare(path: &[u8]) -> Vec<u8> {
    path.strip_suffix(b"/").unwrap_or(path).to_vec()
}

impl Walk {
    /// Through `directory`, which is asked for by `path`, without a slash at its end.
    pub(super) fn new(directory: OwnedFd, path: &[u8], places: Places) -> Result<Walk, Refused> {
        let path = [path, b"/"].concat();
        let others = places.others(&path, &directory).map_err(refused)?;
        Ok(Walk { levels: vec![Level::new(directory, path, others)?], places })
    }

    /// The folder itself, before the first event.
    pub(super) fn top(&self) -> Option<Entry> {
        let top = self.levels.first()?;
        let others = top.others.iter().map(|other| bare(other)).collect();
        Some(Entry { name: Vec::new(), path: bare(&top.path), others, kind: FileType::Directory, folder: None })
    }

    /// The next event. Entries that are gone meanwhile are left out.
    pub(super) fn next(&mut self) -> Result<Event, Refused> {
        let held: usize = self.levels.iter().rev().skip(1).map(|level| level.names.bytes.len()).sum();
        let Some(level) = self.levels.last_mut() else { return Ok(Event::Over) };
        // All names come first: entries may go meanwhile.
        if let Some(count) = level.read(NAMES_BYTES_MAX.saturating_sub(held))? {
            return Ok(Event::Reads(count));
        }
        while let Some(name) = level.names.next() {
            match rustix::fs::statat(&level.directory, &*name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => {
                    return Ok(Event::Entry(found(level, name, FileType::from_raw_mode(stat.st_mode), &self.places)));
                }
                Err(Errno::NOENT) => {}
                Err(errno) => return Err(refused(errno)),
            }
        }
        Ok(self.levels.pop().map_or(Event::Over, Event::Left))
    }

    /// Goes into `entry` of the innermost folder, which is a folder.
    pub(super) fn enter(&mut self, entry: &mut Entry) -> Result<(), Refused> {
        let Some(outer) = self.levels.last() else { return Ok(()) };
        if self.levels.len() >= DEPTH_MAX {
            return Err(TOO_LARGE);
        }
        let folder = entry.folder.take().unwrap_or_else(|| open_folder(&outer.directory, &entry.name));
        let others = entry.others.iter().map(|other| [other, &b"/"[..]].concat()).collect();
        self.levels.push(Level::new(folder.map_err(refused)?, [&entry.path[..], b"/"].concat(), others)?);
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

    /// Open descriptors.
    pub(super) fn descriptors(&self) -> usize {
        self.levels.len() + self.levels.iter().filter(|level| level.unread.is_some()).count()
    }

    /// Bytes of memory that it takes, about.
    pub(super) fn memory_bytes(&self) -> usize {
        self.levels.iter().map(Level::memory_bytes).sum()
    }
}

/// The entry `name` of `level`. A folder is opened to find its paths out, and is entered as the one that was judged.
fn found(level: &Level, name: Vec<u8>, kind: FileType, places: &Places) -> Entry {
    let path = [&level.path[..], &name].concat();
    let mut others: Vec<Vec<u8>> = level.others.iter().map(|other| [&other[..], &name].concat()).collect();
    let mut folder = None;
    if kind.is_dir() && matches!(places, Places::Of(..)) {
        folder = Some(open_folder(&level.directory, &name).and_then(|folder| {
            let own = places.others(&[&path[..], b"/"].concat(), &folder)?;
            others.extend(own.iter().map(|other| bare(other)));
            others.sort_unstable();
            others.dedup();
            Ok(folder)
        }));
    }
    Entry { name, path, others, kind, folder }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(folder: &std::path::Path) -> Walk {
        Walk::new(std::fs::File::open(folder).unwrap().into(), b"/t", Places::Unasked).unwrap()
    }

    #[test]
    fn names_are_read_in_pieces_and_counted_as_they_are() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..1000 {
            std::fs::write(folder.path().join(format!("{number:0>250}")), "").unwrap();
        }
        let mut walk = walk(folder.path());
        let (mut entries, mut most) = (0, 0);
        loop {
            match walk.next().unwrap() {
                Event::Reads(count) => assert!(count <= ENTRIES_MAX && entries == 0),
                Event::Entry(_) => entries += 1,
                Event::Left(_) => {}
                Event::Over => break,
            }
            most = most.max(walk.memory_bytes());
        }
        assert_eq!(entries, 1000);
        assert!((250_000..1_000_000).contains(&most), "{most}");
    }

    #[test]
    fn names_that_are_held_are_bounded() {
        let folder = tempfile::tempdir().unwrap();
        (0..3).for_each(|number| std::fs::write(folder.path().join(format!("{number}")), "").unwrap());
        let mut level = walk(folder.path()).levels.pop().unwrap();
        assert_eq!(level.read(5), Err(TOO_LARGE));
        let mut level = walk(folder.path()).levels.pop().unwrap();
        assert!(level.read(6).is_ok_and(|count| count == Some(5)) && level.read(6) == Ok(None));
    }
}
