//! COPY and MOVE (RFC 4918 9.8, 9.9), and the form in listings that moves something.
//!
//! Owns: [`Transfer`], and in which order what is there is looked at, copied, moved into place and removed. Guarantees:
//! the destination is what was there before, or all of what has come, at every moment and whatever fails; what a client
//! may not read, remove or replace stays where it is; each entry is judged on all its paths and on the one that it will
//! have; the root of an alias stays.
//!
//! ```text
//!   COPY   look at what is replaced -> copy under a hidden name -> into place -> remove what was replaced
//!   MOVE   look at both trees -> into place by rename(2) -> remove what was replaced
//! ```

use std::os::fd::{AsFd, OwnedFd};

use lamna_io::file_state::Stamp;
use lamna_io::new_file::NewFile;
use lamna_proto::exchange::program::{Holds, Input, Next, Program, StepResult};
use lamna_proto::parse::path;
use rustix::fs::{AtFlags, FileType, RenameFlags};
use rustix::io::Errno;

use super::super::mkdir::EXISTS_FORM;
use super::super::{
    Action, CONDITION, ChangeTarget, ELSEWHERE, FAILED, FORBIDDEN, MALFORMED, NOT_FOR_ALL, NOT_HERE, Refused, name_of,
    parent_of, refused,
};
use super::erase::{Erase, Staging};
use super::place::Change;
use super::remove::stays;
use super::survey::Survey;
use super::tree_copy::{Progress, TreeCopy};
use super::walk::{Entry, Places, Walk, open_folder};
use super::{BAD_DEPTH, Depth, IS_BUSY, NOTHING, Rights, UNDER_WAY};
use crate::content::at_once::Permit;
use crate::content::tree::Tree;

/// The request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) is_move: bool,
    pub(super) depth: Depth,
    pub(super) overwrites: bool,
    pub(super) rights: Rights,
}

/// A copy or a move.
#[derive(Debug)]
pub(super) struct Transfer {
    source: ChangeTarget,
    /// The destination, or why there is none.
    destination: Result<ChangeTarget, Refused>,
    tree: Tree,
    asked: Asked,
    plan: Option<Plan>,
    work: Work,
}

/// The facts about both ends.
#[derive(Debug)]
struct Plan {
    /// The folder that the source is in, if it leaves it.
    from: Option<OwnedFd>,
    /// The source, for a copy; none for a move.
    opened: Option<(OwnedFd, Stamp)>,
    is_folder: bool,
    /// A folder and no link to one.
    is_real_folder: bool,
    /// The folder that the destination is in.
    to: OwnedFd,
    /// The kind of thing that is replaced.
    there: Option<FileType>,
    destination_paths: Vec<Vec<u8>>,
    /// Where the locks of the source are.
    source_place: String,
    permit: Option<Permit>,
}

#[derive(Debug)]
enum Work {
    /// Nothing is begun.
    Begins,
    /// The source is looked at, before it moves.
    LooksAtSource(Survey),
    /// The tree that is replaced is looked at.
    LooksAtReplaced(Survey),
    /// All has been looked at.
    Decided,
    Copies(Box<TreeCopy>, Option<Staging>),
    /// The tree that was replaced is removed.
    Erases(Box<Erase>, Staging),
}

const SAME: Refused = Refused(403, "Source and destination are the same, or one is in the other.");
const ROOT: Refused = Refused(403, "The root of the site can be neither moved nor replaced.");
const OTHER_FILE_SYSTEM: Refused =
    Refused(403, "The destination is on another file system: copy, and delete the source then.");
const UNSEEN: Refused = Refused(403, "There is something in this folder that you may not read, move or replace.");

impl Transfer {
    pub(super) fn new(
        (source, path): (ChangeTarget, Option<Result<Vec<u8>, Refused>>),
        tree: Tree,
        asked: Asked,
    ) -> Transfer {
        let destination = path.unwrap_or(Err(MALFORMED)).map(|path| ChangeTarget { path, ..source.clone() });
        Transfer { source, destination, tree, asked, plan: None, work: Work::Begins }
    }

    /// Finds out what is at both ends, and whether this may be done.
    fn plan(&self) -> Result<Plan, Refused> {
        let (source, Asked { is_move, depth, overwrites, rights }) = (&self.source, self.asked);
        let destination = self.destination.as_ref().map_err(|refused| *refused)?;
        match depth {
            _ if source.is_from_elsewhere => return Err(ELSEWHERE),
            _ if source.path.is_empty() => return Err(MALFORMED),
            Depth::Infinity => {}
            Depth::Zero if !is_move => {}
            _ => return Err(BAD_DEPTH),
        }
        source.check_if()?;
        let (from, to) = (source.bare_path(), destination.bare_path());
        if source.is_root(from) || destination.is_root(to) {
            return Err(ROOT);
        }
        let (opened, is_folder, stamp) = source.open_at(&source.path)?;
        let shown = if is_folder { [from, b"/"].concat() } else { from.to_vec() };
        if !self.tree.serves(&shown) {
            return Err(NOTHING);
        }
        self.tree.permit(&shown, &opened).ok_or(FORBIDDEN)?;
        if source.site().in_user_directory(to).is_some() {
            return Err(NOT_HERE);
        }
        destination.check(Action::Upload, to)?;
        if !destination.takes(to, is_folder) {
            return Err(NOT_HERE);
        }
        if is_folder && !rights.mkdir {
            return Err(NOT_FOR_ALL);
        }
        let to_folder = destination.directory(Action::Upload, to)?;
        if is_folder {
            destination.directory(Action::Mkdir, to)?;
        }
        let from_folder = is_move.then(|| source.directory(Action::Delete, from)).transpose()?;
        if is_move && !source.may(Action::Delete, from) {
            return Err(NOT_HERE);
        }
        let (source_place, place) = (source.place(from), destination.place(to));
        let is_within = |one: &str, other: &str| one.strip_prefix(other).is_some_and(|rest| rest.starts_with('/'));
        let has_same_root = std::ptr::eq(source.site().root_of(from).0, source.site().root_of(to).0);
        let is_knotted = source_place == place || is_within(&source_place, &place) || is_within(&place, &source_place);
        if has_same_root && is_knotted || contains(&opened, &to_folder) {
            return Err(SAME);
        }
        let there = match rustix::fs::statat(&to_folder, name_of(to), AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => None,
            Err(errno) => return Err(refused(errno)),
            Ok(_) if !overwrites => return Err(CONDITION),
            Ok(stat) if stamp.is_of(&stat) => return Err(SAME),
            Ok(_) if !rights.delete => return Err(NOT_FOR_ALL),
            Ok(_) if !destination.may(Action::Delete, to) => return Err(NOT_HERE),
            Ok(stat) => {
                destination.directory(Action::Delete, to)?;
                Some(FileType::from_raw_mode(stat.st_mode))
            }
        };
        let change = if there.is_some_and(FileType::is_dir) { Change::Remove } else { Change::Store };
        destination.check_locks(to, change)?;
        let mut is_real_folder = is_folder;
        if let Some(folder) = &from_folder {
            source.check_locks(from, Change::Remove)?;
            let own = rustix::fs::statat(folder, name_of(from), AtFlags::SYMLINK_NOFOLLOW).map_err(refused)?;
            is_real_folder = FileType::from_raw_mode(own.st_mode).is_dir();
        }
        let works_on_trees = is_folder || there.is_some_and(FileType::is_dir);
        let permit = works_on_trees.then(|| UNDER_WAY.begin(source.locker.network)).transpose();
        Ok(Plan {
            from: from_folder,
            opened: (!is_move).then_some((opened, stamp)),
            is_folder,
            is_real_folder,
            to: to_folder,
            there,
            destination_paths: destination.all_paths(to)?,
            source_place,
            permit: permit.map_err(|_| IS_BUSY)?,
        })
    }

    /// Goes on. The answer, if there is one.
    fn go_on(&mut self) -> Result<Option<StepResult>, Refused> {
        let destination = self.destination.as_ref().map_err(|refused| *refused)?;
        let (source, tree) = (&self.source, &self.tree);
        if self.plan.is_none() {
            let plan = self.plan()?;
            let survey = |parent: &OwnedFd, name: &[u8], path: &[u8]| {
                let folder = open_folder(parent, name).map_err(refused)?;
                Walk::new(folder, path, source.places()).map(Survey::new)
            };
            let from = plan.from.as_ref().filter(|_| plan.is_real_folder);
            let from = from.map(|parent| survey(parent, name_of(source.bare_path()), source.bare_path()));
            self.work = match from.transpose()? {
                Some(survey) => Work::LooksAtSource(survey),
                None => Work::Decided,
            };
            self.plan = Some(plan);
            if matches!(self.work, Work::Decided) {
                self.work = self.look_at_replaced()?;
            }
            return Ok(None);
        }
        let Some(plan) = &mut self.plan else { return Err(FAILED) };
        match &mut self.work {
            Work::Begins => return Err(FAILED),
            Work::LooksAtSource(survey) => {
                let judge = |entry: &Entry| moves((source, destination), tree, plan, entry);
                if survey.step(&judge)? {
                    self.work = self.look_at_replaced()?;
                }
            }
            Work::LooksAtReplaced(survey) => {
                let judge = |entry: &Entry| match is_ordinary(entry.kind)
                    && !path::is_hidden(&entry.path)
                    && stays(destination, entry).is_none()
                {
                    true => Ok(()),
                    false => Err(UNSEEN),
                };
                if survey.step(&judge)? {
                    self.work = Work::Decided;
                }
            }
            Work::Decided => match plan.opened.take() {
                None => return self.rename(),
                Some((opened, stamp)) if !plan.is_folder => {
                    let parent = duplicate(&plan.to)?;
                    let copy = TreeCopy::of_file(opened, stamp, parent, destination.bytes_max())?;
                    self.work = Work::Copies(Box::new(copy), None);
                }
                Some((opened, _)) => {
                    let mut staging = Staging::new(&plan.to)?;
                    staging.counts_as(plan.permit.take());
                    let is_deep = self.asked.depth == Depth::Infinity;
                    let (from, to) = ((opened, source.bare_path()), plan.destination_paths.clone());
                    let copy = TreeCopy::of_folder(from, (&plan.to, &staging), to, is_deep)?;
                    self.work = Work::Copies(Box::new(copy), Some(staging));
                }
            },
            Work::Copies(copy, staging) => match copy.step(tree, destination)? {
                Progress::Goes => {}
                Progress::File(file) => return self.put_file(file),
                Progress::Folder => {
                    let staging = staging.take().ok_or(FAILED)?;
                    return self.put(staging);
                }
            },
            Work::Erases(erase, _) => {
                if erase.step(&|_| None) {
                    let is_gone = erase.failures.is_empty();
                    if let Work::Erases(_, staging) = std::mem::replace(&mut self.work, Work::Decided)
                        && is_gone
                    {
                        drop(staging.forget());
                    }
                    return self.finish().map(Some);
                }
            }
        }
        Ok(None)
    }

    fn look_at_replaced(&self) -> Result<Work, Refused> {
        let (Some(plan), Ok(destination)) = (&self.plan, &self.destination) else { return Err(FAILED) };
        let to = destination.bare_path();
        Ok(match plan.there {
            Some(FileType::Directory) => {
                let folder = open_folder(&plan.to, name_of(to)).map_err(refused)?;
                Work::LooksAtReplaced(Survey::new(Walk::new(folder, to, destination.places())?))
            }
            _ => Work::Decided,
        })
    }

    /// Moves the source into place.
    fn rename(&mut self) -> Result<Option<StepResult>, Refused> {
        let (Some(plan), Ok(destination)) = (&mut self.plan, &self.destination) else { return Err(FAILED) };
        let (from, to) = (name_of(self.source.bare_path()), name_of(destination.bare_path()));
        let folder = plan.from.as_ref().ok_or(FAILED)?;
        // Locks may have come since they were looked at.
        self.source.check_locks(self.source.bare_path(), Change::Remove)?;
        let is_replaced_in_one_step = plan.there.is_some_and(|there| !there.is_dir()) && !plan.is_real_folder;
        if plan.there.is_none() || is_replaced_in_one_step {
            let flags = if is_replaced_in_one_step { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
            rustix::fs::renameat_with(folder, from, &plan.to, to, flags).map_err(moved)?;
            return self.finish().map(Some);
        }
        let mut staging = Staging::new(&plan.to)?;
        let aside = rustix::fs::renameat_with(folder, from, &plan.to, &*staging.name, RenameFlags::NOREPLACE);
        if let Err(errno) = aside {
            // There is nothing to be removed.
            staging.forget();
            return Err(moved(errno));
        }
        let exchanged =
            rustix::fs::renameat_with(&plan.to, &*staging.name, &plan.to, to, RenameFlags::EXCHANGE).map_err(moved);
        if let Err(refused) = exchanged {
            let back = rustix::fs::renameat_with(&plan.to, &*staging.name, folder, from, RenameFlags::NOREPLACE);
            if back.is_err() {
                // It is not to be lost: it stays under the hidden name.
                staging.forget();
                return Err(FAILED);
            }
            return Err(refused);
        }
        staging.counts_as(plan.permit.take());
        self.erase(staging)
    }

    /// Puts a copied folder into place.
    fn put(&mut self, staging: Staging) -> Result<Option<StepResult>, Refused> {
        let (Some(plan), Ok(destination)) = (&mut self.plan, &self.destination) else { return Err(FAILED) };
        let to = destination.bare_path();
        let change = if plan.there.is_some_and(FileType::is_dir) { Change::Remove } else { Change::Store };
        destination.check_locks(to, change)?;
        let flags = if plan.there.is_some() { RenameFlags::EXCHANGE } else { RenameFlags::NOREPLACE };
        rustix::fs::renameat_with(&plan.to, &*staging.name, &plan.to, name_of(to), flags).map_err(moved)?;
        match plan.there {
            None => {
                staging.forget();
                self.finish().map(Some)
            }
            Some(_) => self.erase(staging),
        }
    }

    /// Puts a copied file into place.
    fn put_file(&mut self, file: NewFile) -> Result<Option<StepResult>, Refused> {
        let (Some(plan), Ok(destination)) = (&mut self.plan, &self.destination) else { return Err(FAILED) };
        let (to, name) = (destination.bare_path(), name_of(destination.bare_path()));
        let change = if plan.there.is_some_and(FileType::is_dir) { Change::Remove } else { Change::Store };
        destination.check_locks(to, change)?;
        match plan.there {
            None => file.move_to_unused(name).map_err(moved)?,
            Some(FileType::Directory) => {
                let mut staging = Staging::new(&plan.to)?;
                rustix::fs::renameat_with(&plan.to, name, &plan.to, &*staging.name, RenameFlags::NOREPLACE)
                    .map_err(moved)?;
                if let Err(errno) = file.move_to_unused(name) {
                    let back =
                        rustix::fs::renameat_with(&plan.to, &*staging.name, &plan.to, name, RenameFlags::NOREPLACE);
                    // If that fails, it is not to be lost, either.
                    staging.forget();
                    return Err(back.map_or(FAILED, |()| moved(errno)));
                }
                staging.counts_as(plan.permit.take());
                return self.erase(staging);
            }
            Some(_) => {
                file.move_to(name).map_err(moved)?;
            }
        }
        self.finish().map(Some)
    }

    /// Removes what has been replaced, and is under the hidden name now.
    fn erase(&mut self, staging: Staging) -> Result<Option<StepResult>, Refused> {
        let Some(plan) = &self.plan else { return Err(FAILED) };
        match plan.there {
            Some(FileType::Directory) => {
                let erase = Erase::new(duplicate(&plan.to)?, &staging.name, b"", Places::Unasked)?;
                self.work = Work::Erases(Box::new(erase), staging);
                Ok(None)
            }
            _ => {
                if rustix::fs::unlinkat(&plan.to, &*staging.name, AtFlags::empty()).is_ok() {
                    drop(staging.forget());
                }
                self.finish().map(Some)
            }
        }
    }

    fn finish(&mut self) -> Result<StepResult, Refused> {
        let (Some(plan), Ok(destination)) = (&self.plan, &self.destination) else { return Err(FAILED) };
        let (from, to) = (self.source.bare_path(), destination.bare_path());
        destination.handle_change_of_tree(to);
        if self.asked.is_move {
            self.source.handle_change_of_tree(from);
            self.source.drop_locks(from, &plan.source_place);
        }
        if self.source.is_form {
            return Ok(self.source.back_to(parent_of(from)));
        }
        if plan.there.is_some() {
            return Ok(destination.done(204, None));
        }
        let slash = if plan.is_folder { "/" } else { "" };
        Ok(destination.done(201, Some(&format!("{}{slash}", path::encode(to)))))
    }
}

/// Whether an entry of the source may go where it goes with the tree.
fn moves(
    (source, destination): (&ChangeTarget, &ChangeTarget),
    tree: &Tree,
    plan: &Plan,
    entry: &Entry,
) -> Result<(), Refused> {
    let within = entry.path.strip_prefix(source.bare_path()).ok_or(FAILED)?;
    let is_folder = entry.kind.is_dir();
    let slash = if is_folder { &b"/"[..] } else { b"" };
    let leaves = |path: &[u8]| {
        let shown = [path, slash].concat();
        tree.serves(&shown) && source.site().routes.runner(path).is_none()
    };
    let comes = |top: &Vec<u8>| destination.takes(&[&**top, within].concat(), is_folder);
    let is_elsewhere = tree.is_elsewhere(source.bare_path(), &entry.path);
    let may = is_ordinary(entry.kind)
        && !entry.name.starts_with(b".")
        && !is_elsewhere
        && stays(source, entry).is_none()
        && entry.places().all(leaves)
        && plan.destination_paths.iter().all(comes);
    if may { Ok(()) } else { Err(UNSEEN) }
}

fn is_ordinary(kind: FileType) -> bool {
    matches!(kind, FileType::Directory | FileType::RegularFile | FileType::Symlink)
}

/// Whether `folder` is in `outer`, or the same, by whatever names.
fn contains(outer: &OwnedFd, folder: &OwnedFd) -> bool {
    let real = |file: &OwnedFd| lamna_io::open::real_path(file.as_fd()).ok();
    match (real(outer), real(folder)) {
        (Some(outer), Some(folder)) => folder.strip_prefix(&*outer).is_some_and(|rest| matches!(rest, [] | [b'/', ..])),
        _ => false,
    }
}

fn duplicate(folder: &OwnedFd) -> Result<OwnedFd, Refused> {
    rustix::io::fcntl_dupfd_cloexec(folder, 0).map_err(refused)
}

fn moved(errno: Errno) -> Refused {
    match errno {
        Errno::XDEV => OTHER_FILE_SYSTEM,
        Errno::EXIST | Errno::NOTEMPTY => CONDITION,
        Errno::INVAL => SAME,
        other => refused(other),
    }
}

impl Program for Transfer {
    fn content_bytes_max(&self) -> u64 {
        super::xml::BODY_BYTES_MAX
    }

    fn holds(&self) -> Holds {
        let of_work = match &self.work {
            Work::Begins | Work::Decided => Holds::default(),
            Work::LooksAtSource(survey) | Work::LooksAtReplaced(survey) => {
                Holds { bytes: survey.memory_bytes(), descriptors: survey.descriptors() }
            }
            Work::Copies(copy, _) => Holds { bytes: copy.memory_bytes(), descriptors: copy.descriptors() },
            Work::Erases(erase, _) => Holds { bytes: erase.memory_bytes(), descriptors: erase.descriptors() },
        };
        of_work.and(Holds { bytes: 0, descriptors: 3 * usize::from(self.plan.is_some()) })
    }

    fn run(&mut self, Input { is_last, .. }: Input<'_>) -> StepResult {
        if !is_last {
            return StepResult::Continue;
        }
        match self.go_on() {
            Ok(Some(answer)) => answer,
            Ok(None) => StepResult::Waits(Next::ROOM),
            Err(CONDITION) if self.source.is_form => self.source.refusal(EXISTS_FORM),
            // What is in the way may be at the other end.
            Err(refused) => match &self.destination {
                Ok(destination) if refused.0 == 423 && !self.asked.is_move => destination.refusal(refused),
                _ => self.source.refusal(refused),
            },
        }
    }
}
