//! PROPFIND (RFC 4918 9.1): what a file or a folder is, and what is in a folder.
//!
//! Owns: [`Propfind`]. Guarantees: only what the client may read is told of, as it is: files that are answered with
//! something else than what is in them are left out, as in archives; the answer is sent while the folder is read, so
//! that memory is bounded however much is in it. A folder need not be listed for browsers.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use lamna_io::file_state::Stamp;
use lamna_io::{Wait, open};
use lamna_proto::exchange::program::{Holds, Input, Next, Part, Program, StepResult, StreamHead};
use lamna_proto::message::Status;
use rustix::fs::{AtFlags, Dir, FileType, StatxFlags};

use super::super::{ChangeTarget, FORBIDDEN, MALFORMED, Refused, refused};
use super::locks::{self, Lock};
use super::properties::{Described, MEDIA_TYPE, MULTISTATUS, MULTISTATUS_END, Wanted};
use super::xml::{self, BODY_BYTES_MAX};
use super::{BAD_BODY, BAD_DEPTH, Depth, ENTRIES_MAX, NOTHING, dead};
use crate::content::download::{Bytes, stream_fields};
use crate::content::media_type;
use crate::content::permitted::other_places;
use crate::content::tree::Tree;

/// An answer about properties.
#[derive(Debug)]
pub(super) struct Propfind {
    target: ChangeTarget,
    tree: Tree,
    depth: Depth,
    body: Vec<u8>,
    told: Option<Told>,
}

/// An answer under way.
#[derive(Debug)]
struct Told {
    wanted: Wanted,
    /// The path that was asked for, with a slash at the end if it is a folder.
    path: Vec<u8>,
    locks: Vec<Lock>,
    /// Text that is given next.
    text: String,
    has_begun: bool,
    /// The folder, if what is in it is told of as well.
    folder: Option<Folder>,
}

#[derive(Debug)]
struct Folder {
    root: Arc<OwnedFd>,
    /// Its name beneath the root, with a slash at the end unless it is the root.
    name: Vec<u8>,
    opened: OwnedFd,
    entries: Dir,
    /// Its other paths.
    others: Vec<Vec<u8>>,
    /// The place of its locks, with a slash at the end unless it is the root.
    place: String,
}

/// Bytes of a part, about.
const PART_BYTES: usize = 64 * 1024;

impl Propfind {
    pub(super) fn new(target: ChangeTarget, tree: Tree, depth: Depth) -> Propfind {
        Propfind { target, tree, depth, body: Vec::new(), told: None }
    }

    fn begin(&self) -> Result<Told, Refused> {
        let (target, tree) = (&self.target, &self.tree);
        if target.path.is_empty() {
            return Err(MALFORMED);
        }
        if self.depth == Depth::Unknown {
            return Err(BAD_DEPTH);
        }
        let body = (!self.body.is_empty()).then(|| xml::parse(&self.body)).transpose();
        let wanted = body.and_then(Wanted::of).map_err(|_| BAD_BODY)?;
        let (opened, is_folder, stamp) = target.open_at(&target.path)?;
        let bare = target.bare_path();
        let path = if is_folder { [bare, b"/"].concat() } else { bare.to_vec() };
        if !tree.serves(&path) {
            return Err(NOTHING);
        }
        tree.permit(&path, &opened).ok_or(FORBIDDEN)?;
        let mut locks = target.locks_at(&path)?;
        let place = if locks.is_empty() { String::new() } else { target.place(bare) };
        // Of no others anything is told.
        let is_listed = is_folder && self.depth == Depth::One;
        locks.retain(|lock| lock.covers(&place) || is_listed && lock.is_in(&place));
        let mut told =
            Told { wanted, path: path.clone(), locks, text: MULTISTATUS.to_owned(), has_begun: false, folder: None };
        let created = || created_at(opened.as_fd(), b"", AtFlags::EMPTY_PATH);
        let described = Described {
            path: &path,
            is_folder,
            stamp,
            created_unix_seconds: told.wanted.needs_creation().then(created).flatten(),
            media_type: self.media_type(&path),
            locks: covering(&told.locks, &place),
            can_be_locked: self.can_be_locked(&path),
            quota: (is_folder && told.wanted.needs_quota()).then(|| quota(&opened)).flatten(),
            dead: if told.wanted.needs_dead() { dead::of(opened.as_fd()) } else { Vec::new() },
        };
        described.write(&told.wanted, &mut told.text);
        if is_folder && self.depth == Depth::One {
            let others = other_places(tree.site(), &path, opened.as_fd()).map_err(refused)?;
            let name = match tree.site().root_of(&path).1 {
                b"." => Vec::new(),
                name => name.to_vec(),
            };
            told.folder = Some(Folder {
                root: target.root_directory(&path)?,
                name,
                entries: Dir::read_from(opened.as_fd()).map_err(refused)?,
                opened,
                others,
                place: if place.is_empty() { place } else { format!("{place}/") },
            });
        }
        Ok(told)
    }

    fn media_type(&self, path: &[u8]) -> std::borrow::Cow<'static, str> {
        match &self.target.rules_of(path).rules.media_type {
            Some(own) => own.clone().into(),
            None => media_type::by_name(path).essence.into(),
        }
    }

    fn can_be_locked(&self, path: &[u8]) -> bool {
        self.target.permits(super::Action::Upload, path)
    }

    /// Writes what comes next. True if that was all.
    fn fill(&self, told: &mut Told) -> Result<bool, Refused> {
        let Told { wanted, path, locks, text, folder: Some(folder), .. } = told else { return Ok(true) };
        for _ in 0..ENTRIES_MAX {
            if text.len() >= PART_BYTES {
                return Ok(false);
            }
            let Some(entry) = folder.entries.next() else { return Ok(true) };
            let entry = entry.map_err(refused)?;
            let name = entry.file_name().to_bytes();
            if !name.starts_with(b".") {
                self.describe(name, (path, folder), (wanted, locks), text);
            }
        }
        Ok(false)
    }

    /// Writes of the entry `name` of `folder`, which has this path, if the client may know of it.
    fn describe(
        &self,
        name: &[u8],
        (path, folder): (&[u8], &Folder),
        (wanted, locks): (&Wanted, &[Lock]),
        text: &mut String,
    ) -> Option<()> {
        let tree = &self.tree;
        let mut stat = rustix::fs::statat(&folder.opened, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        let is_link = FileType::from_raw_mode(stat.st_mode) == FileType::Symlink;
        let beneath_root = || [&folder.name[..], name].concat();
        if is_link {
            // From the root on, as it would be asked for.
            stat = open::stat_beneath(folder.root.as_fd(), &beneath_root(), &tree.abilities).ok()?;
        }
        let is_folder = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => true,
            FileType::RegularFile => false,
            _ => return None,
        };
        let slash = if is_folder { &b"/"[..] } else { b"" };
        let own = [path, name, slash].concat();
        let is_shown = |path: &[u8]| tree.serves(path) && tree.site().routes.runner(path).is_none();
        let mut others = folder.others.iter().map(|other| [other, name, slash].concat());
        if !is_shown(&own) || tree.is_elsewhere(path, &own) || !others.all(|other| is_shown(&other)) {
            return None;
        }
        if is_link {
            let opened = open::open_beneath(folder.root.as_fd(), &beneath_root(), Wait::Yes, &tree.abilities).ok()?;
            tree.permit(&own, &opened)?;
        }
        let created = || created_at(folder.opened.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW);
        let place = if locks.is_empty() { String::new() } else { folder.place.clone() + &locks::place_of(name) };
        let described = Described {
            path: &own,
            is_folder,
            stamp: Stamp::of(&stat),
            created_unix_seconds: wanted.needs_creation().then(created).flatten(),
            media_type: self.media_type(&own),
            locks: covering(locks, &place),
            can_be_locked: self.can_be_locked(&own),
            quota: (is_folder && wanted.needs_quota()).then(|| quota(&folder.opened)).flatten(),
            dead: if wanted.needs_dead() { dead::of_entry(folder.opened.as_fd(), name) } else { Vec::new() },
        };
        described.write(wanted, text);
        Some(())
    }

    fn head(&self) -> StreamHead {
        let rules = self.target.rules();
        let fields = stream_fields(&[("Content-Type", MEDIA_TYPE.as_bytes())], &rules.extras(207));
        StreamHead { status: Status(207), reason: None, fields, length: None, tunnels: false }
    }
}

fn covering<'l>(locks: &'l [Lock], place: &str) -> Vec<&'l Lock> {
    locks.iter().filter(|lock| lock.covers(place)).collect()
}

/// When the file `name` in `folder` was made, in seconds since 1970, where the file system keeps that.
fn created_at(folder: std::os::fd::BorrowedFd<'_>, name: &[u8], flags: AtFlags) -> Option<u64> {
    let stat = rustix::fs::statx(folder, name, flags, StatxFlags::BTIME).ok()?;
    let is_kept = stat.stx_mask & StatxFlags::BTIME.bits() != 0;
    u64::try_from(stat.stx_btime.tv_sec).ok().filter(|_| is_kept)
}

/// Bytes that are free in the file system of `folder`, and bytes that are taken.
fn quota(folder: &OwnedFd) -> Option<(u64, u64)> {
    let of = rustix::fs::fstatvfs(folder).ok()?;
    let bytes = |blocks: u64| blocks.saturating_mul(of.f_frsize);
    Some((bytes(of.f_bavail), bytes(of.f_blocks.saturating_sub(of.f_bfree))))
}

impl Program for Propfind {
    fn content_bytes_max(&self) -> u64 {
        BODY_BYTES_MAX
    }

    fn holds(&self) -> Holds {
        /// The buffer that a folder is read into.
        const DIRECTORY_BYTES: usize = 32 * 1024;
        let of_told = self.told.as_ref().map_or(Holds::default(), |told| Holds {
            bytes: told.text.capacity()
                + told.wanted.memory_bytes()
                + told.locks.iter().map(Lock::memory_bytes).sum::<usize>()
                + told.folder.as_ref().map_or(0, |_| DIRECTORY_BYTES),
            descriptors: 2 * usize::from(told.folder.is_some()),
        });
        of_told.and(Holds::of_bytes(self.body.capacity()))
    }

    fn run(&mut self, Input { content, is_last, room, .. }: Input<'_>) -> StepResult {
        if self.told.is_none() {
            self.body.extend_from_slice(content);
            if !is_last {
                return StepResult::Continue;
            }
            // All of a tree at once would be work without a bound.
            if self.depth == Depth::Infinity {
                return self.target.refused_for(403, "propfind-finite-depth", &[]);
            }
            match self.begin() {
                Ok(told) => self.told = Some(told),
                Err(refused) => return self.target.refusal(refused),
            }
            self.body = Vec::new();
        }
        if !room {
            return StepResult::Waits(Next::ROOM);
        }
        let Some(mut told) = self.told.take() else { return StepResult::Failed };
        let Ok(is_over) = self.fill(&mut told) else { return StepResult::Failed };
        let mut part = Part::default();
        if !told.has_begun {
            part.head = Some(self.head());
            told.has_begun = true;
        }
        if is_over {
            told.text.push_str(MULTISTATUS_END);
            part.end = Some(Vec::new());
        }
        let text = std::mem::take(&mut told.text);
        if text.is_empty() {
            // Nothing of these is for the client.
            self.told = Some(told);
            return StepResult::Waits(Next::ROOM);
        }
        part.content = Some(Arc::new(Bytes(text.into_bytes())));
        self.told = Some(told);
        StepResult::Gives(Box::new(part), Next::ROOM)
    }
}
