//! Folder by folder through what a visitor can reach: for archives ([`super::download`]) and searches
//! ([`super::search`]).
//!
//! Owns: how the first folder and those within it are opened, and which entries of one are gone through, in which
//! order. Guarantees: nothing outside the root is opened, and who goes on into every folder comes to an end: links to
//! folders are not followed. Waits for the disk. Does not decide which entries are shown: that is [`Tree`]'s and its
//! caller's.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use lamna_io::file_state;
use lamna_io::{Blocked, Wait, open};
use lamna_proto::resource::Resource;
use rustix::io::Errno;

use super::directory;
use super::listing::{Controls, Kind};
use super::tree::Tree;

/// A folder, and what of it has not been gone through.
#[derive(Debug)]
pub(super) struct Level {
    /// The path that it is asked for by, with a slash at the end.
    pub(super) path: Vec<u8>,
    /// Its name beneath the root, without a slash; empty for the root itself.
    name: Vec<u8>,
    entries: std::vec::IntoIter<(Vec<u8>, Kind)>,
}

/// Something in a folder.
pub(super) struct Entry {
    /// Its name in the folder.
    pub(super) own: Vec<u8>,
    /// The path that it is asked for by, with a slash at the end if it is a folder.
    pub(super) path: Vec<u8>,
    /// Its name beneath the root, without a slash at the end.
    pub(super) name: Vec<u8>,
    pub(super) kind: Kind,
}

/// The folder that is asked for by `path`, with its root.
///
/// # Errors
/// The answer if it cannot be opened or is no folder.
pub(super) fn begin(tree: &Tree, path: &[u8]) -> Result<(Arc<OwnedFd>, Level), Arc<Resource>> {
    let errors = &tree.rules_of(path).errors;
    let refused = |blocked| match blocked {
        Blocked::Failed(rustix::io::Errno::ACCESS | rustix::io::Errno::PERM) => errors.forbidden.clone(),
        Blocked::Failed(rustix::io::Errno::MFILE | rustix::io::Errno::NFILE) => errors.overloaded.clone(),
        Blocked::Failed(_) | Blocked::Disk => errors.not_found.clone(),
    };
    let (root, name) = tree.site().root_of(path);
    let root = root.directory(Wait::Yes, tree.clock.now().ms()).map_err(refused)?;
    let name = name.strip_suffix(b"/").unwrap_or(name).to_vec();
    let level = Level::open(tree, &root, path.to_vec(), name).map_err(refused)?;
    let level = level.ok_or_else(|| errors.not_found.clone())?;
    Ok((root, level))
}

impl Level {
    /// Bytes of memory that it takes, about.
    pub(super) fn memory_bytes(&self) -> usize {
        /// A name and what it stands for.
        const ENTRY_BYTES: usize = 64;
        self.path.capacity() + self.name.capacity() + self.entries.as_slice().len() * ENTRY_BYTES
    }

    /// The folder `name` beneath `root`, which is asked for by `path`. None if it is no folder.
    ///
    /// # Errors
    /// The error of `openat2(2)`, `fstat(2)` or `getdents64(2)`.
    pub(super) fn open(tree: &Tree, root: &OwnedFd, path: Vec<u8>, name: Vec<u8>) -> Result<Option<Level>, Blocked> {
        let bare = if name == b"." { b"" } else { &name[..] };
        let wanted = if bare.is_empty() { b"." } else { bare };
        let opened = open::open_beneath(root.as_fd(), wanted, Wait::Yes, &tree.abilities)?;
        if file_state::inspect(opened.as_fd())?.0 != file_state::Kind::Directory {
            return Ok(None);
        }
        if tree.permit(&path, &opened).is_none() {
            return Err(Blocked::Failed(Errno::ACCESS));
        }
        let listed = directory::ListedDirectory {
            root: root.as_fd(),
            name: bare,
            path: &path,
            controls: Controls::default(),
            shows: None,
            abilities: &tree.abilities,
        };
        let mut entries = directory::reachable(&opened, &listed)?;
        entries.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        let name = bare.to_vec();
        Ok(Some(Level { path, name, entries: entries.into_iter() }))
    }

    /// The next entry; none if there is none left.
    pub(super) fn next(&mut self) -> Option<Entry> {
        let (own, kind) = self.entries.next()?;
        let slash = if kind == Kind::Directory { &b"/"[..] } else { b"" };
        let path = [&self.path[..], &own, slash].concat();
        let name = if self.name.is_empty() { own.clone() } else { [&self.name, &b"/"[..], &own].concat() };
        Some(Entry { own, path, name, kind })
    }

    /// Leaves out all but those that are `wanted`, unless that would be all. Whether it has done so.
    pub(super) fn narrow(&mut self, wanted: impl Fn(&[u8], Kind) -> bool) -> bool {
        let is_wanted = |entry: &(Vec<u8>, Kind)| wanted(&entry.0, entry.1);
        let has_any = self.entries.as_slice().iter().any(is_wanted);
        if has_any {
            self.entries = self.entries.by_ref().filter(is_wanted).collect::<Vec<_>>().into_iter();
        }
        has_any
    }
}
