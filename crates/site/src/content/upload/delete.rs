//! Deleting files and empty directories: DELETE (RFC 9110 9.3.5), and buttons in listings.
//!
//! Owns: [`Delete`]. Guarantees: what is deleted is what the path serves, or the link that leads to it, never what a
//! link leads to; a directory only if nothing is in it; never a root.

use std::os::fd::{AsFd, OwnedFd};

use lamna_io::{Wait, open};
use lamna_proto::exchange::program::{Holds, Input, Program, StepResult};
use lamna_proto::parse::path;
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::webdav::Change;
use super::{Action, ChangeTarget, Conditions, ELSEWHERE, MALFORMED, Refused, name_of, parent_of, refused, refused_by};
use crate::content::permitted::other_places;

/// Something that is to be deleted.
#[derive(Debug)]
pub(super) struct Delete {
    target: ChangeTarget,
    conditions: Conditions,
    /// The button of a listing: who pressed it is shown the listing.
    is_form: bool,
}

const NOTHING: Refused = Refused(404, "There is nothing at this address.");
const ROOT: Refused = Refused(403, "The root of the site cannot be deleted.");
pub(super) const NOT_EMPTY: Refused =
    Refused(409, "The directory is not empty, though it may look so: hidden files are not listed.");
const IN_USE: Refused = Refused(409, "The system uses this directory.");
/// Longest request content, which is ignored.
const CONTENT_BYTES_MAX: u64 = 4096;

impl Delete {
    /// The deletion of the file or directory at `target`.
    pub(super) fn new(target: ChangeTarget, conditions: Conditions, is_form: bool) -> Delete {
        Delete { target, conditions, is_form }
    }

    /// The path without a slash at its end.
    fn path(&self) -> &[u8] {
        self.target.path.strip_suffix(b"/").unwrap_or(&self.target.path)
    }

    /// The target of the deletion.
    pub(super) fn target(&self) -> &ChangeTarget {
        &self.target
    }

    pub(super) fn delete(&self) -> Result<(), Refused> {
        let (target, path) = (&self.target, self.path());
        self.check()?;
        target.check_if()?;
        let (root, name) = target.site().root_of(path);
        let directory = root.directory(Wait::Yes, target.clock.now().ms()).map_err(refused_by)?;
        // What a request would be answered with: nothing is said about what lies outside.
        let is_outside = match open::stat_beneath(directory.as_fd(), name, &target.abilities) {
            Ok(state) => match FileType::from_raw_mode(state.st_mode) {
                FileType::Directory => false,
                FileType::RegularFile if !target.path.ends_with(b"/") => false,
                _ => return Err(NOTHING),
            },
            Err(Errno::NOENT | Errno::NOTDIR | Errno::XDEV | Errno::LOOP | Errno::NAMETOOLONG) => true,
            Err(other) => return Err(refused(other)),
        };
        let parent = target.directory(Action::Delete, path).map_err(|why| if is_outside { NOTHING } else { why })?;
        let name = name_of(path);
        let own = rustix::fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW).map_err(gone)?;
        // A link that leads out of the root, or nowhere, is itself beneath it.
        let is_link = FileType::from_raw_mode(own.st_mode) == FileType::Symlink;
        let is_deleted_as_link = is_link && self.conditions.are_none() && !target.path.ends_with(b"/");
        if is_outside && !is_deleted_as_link {
            return Err(NOTHING);
        }
        if !is_outside {
            self.conditions.check(&parent, name, &target.abilities)?;
        }
        target.check_locks(path, Change::Remove)?;
        let is_directory = FileType::from_raw_mode(own.st_mode) == FileType::Directory;
        if is_directory {
            self.check_other_paths(&parent, name)?;
        }
        let flags = if is_directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        let place = target.mounts().then(|| target.place(path));
        rustix::fs::unlinkat(&parent, name, flags).map_err(gone)?;
        target.handle_change(path);
        if let Some(place) = place {
            target.drop_locks(path, &place);
        }
        Ok(())
    }

    /// Whether the folder `name` in `parent`, which is to go, may go by its other paths as well: it may be where an
    /// alias leads.
    fn check_other_paths(&self, parent: &OwnedFd, name: &[u8]) -> Result<(), Refused> {
        let (target, flags) = (&self.target, OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC);
        let folder = rustix::fs::openat(parent, name, flags, Mode::empty()).map_err(gone)?;
        let own = [self.path(), b"/"].concat();
        for other in other_places(target.site(), &own, folder.as_fd()).map_err(refused)? {
            let bare = other.strip_suffix(b"/").unwrap_or(&other);
            if bare.is_empty() || matches!(target.site().root_of(bare).1, b"" | b".") {
                return Err(ROOT);
            }
            target.judge(Action::Delete, bare)?;
        }
        Ok(())
    }

    fn check(&self) -> Result<(), Refused> {
        let (target, path) = (&self.target, self.path());
        let is_root = || matches!(target.site().root_of(path).1, b"" | b".");
        match () {
            () if target.is_from_elsewhere => Err(ELSEWHERE),
            () if target.path.is_empty() => Err(MALFORMED),
            () if path.is_empty() || is_root() => Err(ROOT),
            () if path::is_hidden(path) => Err(NOTHING),
            () => target.judge(Action::Delete, path),
        }
    }
}

fn gone(errno: Errno) -> Refused {
    match errno {
        Errno::NOENT => NOTHING,
        Errno::NOTEMPTY | Errno::EXIST => NOT_EMPTY,
        Errno::BUSY => IN_USE,
        other => refused(other),
    }
}

impl Program for Delete {
    fn content_bytes_max(&self) -> u64 {
        CONTENT_BYTES_MAX
    }

    fn holds(&self) -> Holds {
        Holds::default()
    }

    fn run(&mut self, Input { is_last, .. }: Input<'_>) -> StepResult {
        if !is_last {
            return StepResult::Continue;
        }
        match self.delete() {
            Ok(()) if self.is_form => self.target.back_to(parent_of(self.path())),
            Ok(()) => self.target.done(204, None),
            Err(refused) => self.target.refusal(refused),
        }
    }
}
