//! Removing a folder with all that is in it.
//!
//! Owns: [`Erase`], which goes on step by step, and [`Staging`], a hidden name that is removed with all that it holds.
//! Guarantees: links are removed and not followed; what is not to be removed stays, with the folders that it is in.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::AtFlags;
use rustix::io::Errno;

use super::super::{Refused, refused};
use super::ENTRIES_MAX;
use super::walk::{Entry, Event, Places, Walk, open_folder};
use crate::content::at_once::Permit;

/// Entries that could not be removed and are named in an answer.
const FAILURES_MAX: usize = 100;

/// A removal under way.
#[derive(Debug)]
pub(super) struct Erase {
    walk: Walk,
    /// Where the folder is, and its name there.
    parent: OwnedFd,
    name: Vec<u8>,
    /// For each folder on the way whether something in it stays.
    stays: Vec<bool>,
    /// Paths that stay, and the status of each.
    pub(super) failures: Vec<(Vec<u8>, u16)>,
}

impl Erase {
    /// The removal of the folder `name` in `parent`, which is asked for by `path`, without a slash at its end. Its
    /// entries are judged by their paths in `places`; itself is the caller's to judge.
    pub(super) fn new(parent: OwnedFd, name: &[u8], path: &[u8], places: Places) -> Result<Erase, Refused> {
        let walk = Walk::new(open_folder(&parent, name).map_err(refused)?, path, places)?;
        Ok(Erase { walk, parent, name: name.to_vec(), stays: vec![false], failures: Vec::new() })
    }

    /// Goes on. `judge` has the status of an entry that is to stay. True if it is over.
    pub(super) fn step(&mut self, judge: &dyn Fn(&Entry) -> Option<u16>) -> bool {
        let mut left = ENTRIES_MAX;
        while left > 0 {
            left -= 1;
            match self.walk.next() {
                Ok(Event::Reads(count)) => left = left.saturating_sub(count),
                Err(Refused(status, _)) => {
                    // The folder cannot be read on.
                    self.fail(Vec::new(), status);
                    return true;
                }
                Ok(Event::Over) => return true,
                Ok(Event::Entry(entry)) => self.take(entry, judge),
                Ok(Event::Left(level)) => {
                    let path = level.path.strip_suffix(b"/").unwrap_or(&level.path).to_vec();
                    let stays = self.stays.pop().unwrap_or_default();
                    let (parent, name) = match self.walk.innermost() {
                        Some(outer) => (&outer.directory, super::name_of(&path)),
                        None => (&self.parent, &self.name[..]),
                    };
                    let removed = match stays {
                        true => Err(Errno::NOTEMPTY),
                        false => rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR),
                    };
                    match removed {
                        Ok(()) | Err(Errno::NOENT) => {}
                        // What stays in it is told of; a folder for the sake of that is not.
                        Err(Errno::NOTEMPTY | Errno::EXIST) if stays => self.keep_outer(),
                        Err(Errno::NOTEMPTY | Errno::EXIST) => self.fail(path, 409),
                        Err(errno) => self.fail(path, refused(errno).0),
                    }
                }
            }
        }
        false
    }

    fn take(&mut self, mut entry: Entry, judge: &dyn Fn(&Entry) -> Option<u16>) {
        if let Some(status) = judge(&entry) {
            return self.fail(entry.path, status);
        }
        let Some(level) = self.walk.innermost() else { return };
        if entry.kind.is_dir() {
            match self.walk.enter(&mut entry) {
                Ok(()) => self.stays.push(false),
                Err(Refused(status, _)) => self.fail(entry.path, status),
            }
            return;
        }
        match rustix::fs::unlinkat(&level.directory, &*entry.name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => self.fail(entry.path, refused(errno).0),
        }
    }

    fn fail(&mut self, path: Vec<u8>, status: u16) {
        self.keep_outer();
        if self.failures.len() < FAILURES_MAX {
            self.failures.push((path, status));
        }
    }

    fn keep_outer(&mut self) {
        if let Some(stays) = self.stays.last_mut() {
            *stays = true;
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.walk.memory_bytes()
    }

    pub(super) fn descriptors(&self) -> usize {
        1 + self.walk.descriptors()
    }
}

/// A hidden name for what is on its way to another one, or has been replaced. Whatever it holds is removed with it, in
/// a thread of its own: the giver up may be an event loop.
#[derive(Debug)]
pub(super) struct Staging {
    parent: Option<OwnedFd>,
    pub(super) name: Vec<u8>,
    /// The work counts until that is done.
    permit: Option<Permit>,
}

impl Staging {
    /// An unused one in `parent`.
    pub(super) fn new(parent: &OwnedFd) -> Result<Staging, Refused> {
        let parent = rustix::io::fcntl_dupfd_cloexec(parent.as_fd(), 0).map_err(refused)?;
        let name = lamna_io::new_file::unused_name().into_bytes();
        Ok(Staging { parent: Some(parent), name, permit: None })
    }

    /// The work of `permit` is what it holds.
    pub(super) fn counts_as(&mut self, permit: Option<Permit>) {
        self.permit = permit;
    }

    /// Nothing has its name.
    pub(super) fn forget(mut self) -> Option<Permit> {
        self.parent = None;
        self.permit.take()
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        let (Some(parent), name, permit) = (self.parent.take(), std::mem::take(&mut self.name), self.permit.take())
        else {
            return;
        };
        let erase = move || {
            if rustix::fs::unlinkat(&parent, &*name, AtFlags::empty()).is_err()
                && let Ok(mut erase) = Erase::new(parent, &name, b"", Places::Unasked)
            {
                while !erase.step(&|_| None) {}
            }
            drop(permit);
        };
        // Without a thread it stays, hidden.
        let _ = std::thread::Builder::new().name("eraser".to_owned()).spawn(erase);
    }
}
