//! Copying a file, or a folder with what a client may read in it, under a hidden name.
//!
//! Owns: [`TreeCopy`], which goes on step by step. Guarantees: a file is copied only with a permission that is a
//! verdict on its own paths, to a path that takes it; what the client may not read is left out, as it is in listings;
//! files that change meanwhile are not copied in parts. Moves nothing into place.

use std::os::fd::{AsFd, OwnedFd};

use lamna_io::file_state::{self, Stamp};
use lamna_io::new_file::NewFile;
use lamna_io::{Wait, open, properties};
use rustix::fs::{FileType, Mode};
use rustix::io::{pread, retry_on_intr};

use super::super::{ChangeTarget, FAILED, NOT_HERE, Refused, refused};
use super::ENTRIES_MAX;
use super::erase::Staging;
use super::walk::{Entry, Event, Places, Walk, open_folder};
use crate::content::tree::Tree;

/// Bytes that are copied at once, and pieces of one step.
const PIECE_BYTES: usize = 128 * 1024;
const PIECES_MAX: usize = 32;
const CHANGED: Refused = Refused(409, "A file was changed while it was copied.");
const TOO_LARGE: Refused = Refused(413, "A file is larger than is accepted.");
/// The mode of a new folder, before the process's umask.
const MODE: Mode = Mode::RWXU.union(Mode::RWXG).union(Mode::RWXO);

/// A copy under way.
#[derive(Debug)]
pub(super) struct TreeCopy {
    /// The file that is being copied.
    file: Option<FileCopy>,
    folders: Option<Folders>,
    buffer: Vec<u8>,
}

#[derive(Debug)]
struct FileCopy {
    from: OwnedFd,
    stamp: Stamp,
    at: u64,
    to: NewFile,
    /// Its name in the folder that it is copied to; none for one that the caller moves.
    name: Option<Vec<u8>>,
}

#[derive(Debug)]
struct Folders {
    walk: Walk,
    /// The copies of the folders on the way, the innermost last.
    copies: Vec<OwnedFd>,
    /// The path of the tree, and the paths at which the copy will be.
    from: Vec<u8>,
    to: Vec<Vec<u8>>,
}

/// The state of a copy after a step.
#[derive(Debug)]
pub(super) enum Progress {
    /// There is more to be done.
    Goes,
    /// This is the file, to be moved into place.
    File(NewFile),
    /// The folder is whole.
    Folder,
}

impl TreeCopy {
    /// The copy of one file to `parent`.
    pub(super) fn of_file(from: OwnedFd, stamp: Stamp, parent: OwnedFd, most: u64) -> Result<TreeCopy, Refused> {
        let file = Some(begin_file(from, stamp, parent, None, most)?);
        Ok(TreeCopy { file, folders: None, buffer: Vec::new() })
    }

    /// The copy of the folder `from`, which is asked for by `path`, without a slash at its end, to the hidden name in
    /// `parent`. It will be at the paths `to`. If it is not `deep`, the copy is empty.
    pub(super) fn of_folder(
        (from, path): (OwnedFd, &[u8]),
        (parent, staging): (&OwnedFd, &Staging),
        to: Vec<Vec<u8>>,
        is_deep: bool,
    ) -> Result<TreeCopy, Refused> {
        rustix::fs::mkdirat(parent, &*staging.name, MODE).map_err(refused)?;
        let copy = open_folder(parent, &staging.name).map_err(refused)?;
        copy_properties(&from, &copy);
        let walk = Walk::new(from, path, Places::Unasked)?;
        let folders = is_deep.then(|| Folders { walk, copies: vec![copy], from: path.to_vec(), to });
        Ok(TreeCopy { file: None, folders, buffer: Vec::new() })
    }

    /// Goes on with what `tree` shows, to where `target` takes it.
    pub(super) fn step(&mut self, tree: &Tree, target: &ChangeTarget) -> Result<Progress, Refused> {
        let (mut pieces, mut entries) = (0, 0);
        while pieces < PIECES_MAX && entries < ENTRIES_MAX {
            if let Some(file) = &mut self.file {
                pieces += 1;
                self.buffer.resize(PIECE_BYTES, 0);
                let read = retry_on_intr(|| pread(&file.from, &mut self.buffer[..], file.at)).map_err(refused)?;
                file.to.write(&self.buffer[..read]).map_err(refused)?;
                file.at += read as u64;
                if file.at > file.stamp.size {
                    return Err(CHANGED);
                }
                if read == 0
                    && let Some(done) = self.finish_file()?
                {
                    return Ok(Progress::File(done));
                }
                continue;
            }
            entries += 1;
            let Some(folders) = &mut self.folders else { return Ok(Progress::Folder) };
            match folders.walk.next()? {
                Event::Over => return Ok(Progress::Folder),
                Event::Reads(count) => entries += count,
                Event::Left(_) => drop(folders.copies.pop()),
                Event::Entry(mut entry) => self.file = folders.take(&mut entry, tree, target)?,
            }
        }
        Ok(Progress::Goes)
    }

    /// The file is copied. Gives it out if its caller moves it.
    fn finish_file(&mut self) -> Result<Option<NewFile>, Refused> {
        let Some(FileCopy { from, stamp, to, name, .. }) = self.file.take() else { return Ok(None) };
        let (_, now) = file_state::inspect(from.as_fd()).map_err(|_| FAILED)?;
        if now != stamp {
            return Err(CHANGED);
        }
        if let Ok(Some(properties)) = properties::read(from.as_fd()) {
            // Where they cannot be kept, the copy has none.
            let _ = to.set_properties(&properties);
        }
        match name {
            None => Ok(Some(to)),
            Some(name) => to.move_to_unused(&name).map(|()| None).map_err(refused),
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.buffer.capacity() + self.folders.as_ref().map_or(0, |folders| folders.walk.memory_bytes())
    }

    pub(super) fn descriptors(&self) -> usize {
        3 * usize::from(self.file.is_some())
            + self.folders.as_ref().map_or(0, |folders| folders.walk.depth() + folders.walk.descriptors())
    }
}

impl Folders {
    /// Begins with `entry`, if it is shown to the client.
    fn take(&mut self, entry: &mut Entry, tree: &Tree, target: &ChangeTarget) -> Result<Option<FileCopy>, Refused> {
        if entry.name.starts_with(b".") {
            return Ok(None);
        }
        let (root, names) = tree.site().root_of(&entry.path);
        let root = root.directory(Wait::Yes, tree.clock.now().ms()).map_err(super::super::refused_by)?;
        // A link to a folder is left out, so that a tree comes to an end; one to a file is that file.
        let is_folder = match entry.kind {
            FileType::Directory => true,
            FileType::RegularFile | FileType::Symlink => false,
            _ => return Ok(None),
        };
        let Some(outer) = self.walk.innermost() else { return Ok(None) };
        let shown = if is_folder { [&entry.path[..], b"/"].concat() } else { entry.path.clone() };
        if !tree.serves(&shown) || tree.is_elsewhere(&outer.path, &shown) {
            return Ok(None);
        }
        let Ok(opened) = open::open_beneath(root.as_fd(), names, Wait::Yes, &tree.abilities) else { return Ok(None) };
        let Ok((kind, stamp)) = file_state::inspect(opened.as_fd()) else { return Ok(None) };
        let is_as_said = kind == if is_folder { file_state::Kind::Directory } else { file_state::Kind::Regular };
        if !is_as_said || tree.permit(&shown, &opened).is_none() {
            return Ok(None);
        }
        let within = entry.path.strip_prefix(&*self.from).ok_or(FAILED)?;
        if !self.to.iter().all(|to| target.takes(&[&**to, within].concat(), is_folder)) {
            return Err(NOT_HERE);
        }
        let copy = self.copies.last().ok_or(FAILED)?;
        if is_folder {
            rustix::fs::mkdirat(copy, &*entry.name, MODE).map_err(refused)?;
            let inner = open_folder(copy, &entry.name).map_err(refused)?;
            copy_properties(&opened, &inner);
            self.walk.enter(entry)?;
            self.copies.push(inner);
            return Ok(None);
        }
        let parent = rustix::io::fcntl_dupfd_cloexec(copy, 0).map_err(refused)?;
        begin_file(opened, stamp, parent, Some(entry.name.clone()), target.bytes_max()).map(Some)
    }
}

fn begin_file(
    from: OwnedFd,
    stamp: Stamp,
    parent: OwnedFd,
    name: Option<Vec<u8>>,
    most: u64,
) -> Result<FileCopy, Refused> {
    if stamp.size > most {
        return Err(TOO_LARGE);
    }
    Ok(FileCopy { from, stamp, at: 0, to: NewFile::create(parent).map_err(refused)?, name })
}

fn copy_properties(from: &OwnedFd, to: &OwnedFd) {
    if let Ok(Some(kept)) = properties::read(from.as_fd()) {
        // Where they cannot be kept, the copy has none.
        let _ = properties::write(to.as_fd(), &kept);
    }
}
