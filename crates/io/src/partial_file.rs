//! Files of which a part has arrived, kept so that their senders can go on.
//!
//! Owns: [`PartialFile`], and the hidden directory [`FOLDER`] of a root in which such files are. The name of one is a
//! hash of where it is to be stored, the bytes that it will have, and a hash of the owner who began it: so no name
//! collides with another or leads out of the directory, and nothing else has to be remembered over a restart.
//! Guarantees: one user at a time, over all processes, by a lock (`flock(2)`) that ends with its holder; together they
//! are within [`Bounds`], and no owner has more of them than is left for all others; a file that has not grown for a
//! while is deleted by the next user of the directory, and by [`sweep`]. The directory is there only as long as
//! something is in it.
//!
//! ```text
//!   ca978112ca1bbdcafac231b39a23dc4d-300                    path, length; of nobody in particular
//!   ca978112ca1bbdcafac231b39a23dc4d-300-3e23e8160039594a   path, length, owner
//! ```

use std::os::fd::{BorrowedFd, OwnedFd};

use lamna_sys::clock::unix_ms;
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, SeekFrom, Stat};
use rustix::io::Errno;

use super::new_file::{Before, NewFile};

/// The directory of partial files, in the root. Hidden, and so never served.
pub const FOLDER: &str = ".lamna-parts";

/// A file of which a part has arrived, locked for this upload. Stays if it is dropped.
#[derive(Debug)]
pub struct PartialFile {
    folder: OwnedFd,
    file: OwnedFd,
    name: String,
    arrived: u64,
    total: u64,
}

/// A file that is to be sent in parts.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// The path in the root at which it is to be stored.
    pub path: &'a [u8],
    /// Its length, in bytes.
    pub total: u64,
    /// The party that it counts for if it is begun now, in bytes of any form. None: it counts for all together.
    pub owner: Option<&'a [u8]>,
}

/// Bounds of all partial files of a root. An owner has at most as much as is left for all others: half if there are no
/// others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// How many.
    pub files_max: usize,
    /// Bytes of all of them, counted as if they were complete.
    pub bytes_max: u64,
    /// How long one stays that nothing is added to, in seconds.
    pub kept_s: u64,
}

/// Why a partial file cannot be gone on with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Another upload adds to it.
    Busy,
    /// Only so many bytes have arrived.
    Gap(u64),
    /// There are too many, or they are too large.
    TooMany,
    /// Those of this owner are too many, or too large: there would be less left for all others.
    TooManyOfOwner,
    /// The error of a system call.
    Failed(Errno),
}

impl From<Errno> for Refused {
    fn from(errno: Errno) -> Refused {
        Refused::Failed(errno)
    }
}

/// A name in the directory, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part<'a> {
    key: &'a str,
    total: u64,
    owner: Option<&'a str>,
}

/// A number of files, and their bytes, counted as if they were complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Totals {
    files: usize,
    bytes: u64,
}

/// Totals of the directory.
#[derive(Debug, Default)]
struct QuotaScan {
    of_all: Totals,
    of_owner: Totals,
    /// Names of the partial files of the requested one: there is one, unless others were put there by hand.
    own: Vec<String>,
}

/// Bytes of the hash of a path, and of that of an owner, in a name.
const KEY_BYTES: usize = 16;
const OWNER_BYTES: usize = 8;
/// Only its owner may enter it.
const FOLDER_MODE: Mode = Mode::RWXU;
const FILE_MODE: Mode =
    Mode::RUSR.union(Mode::WUSR).union(Mode::RGRP).union(Mode::WGRP).union(Mode::ROTH).union(Mode::WOTH);
const OPEN: OFlags = OFlags::RDWR.union(OFlags::CLOEXEC).union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK);
/// How often the directory is made anew that others delete at the same time.
const TRIES_MAX: usize = 16;

impl PartialFile {
    /// The file that is `wanted` beneath `root`, to be written from byte `from` on: what has arrived behind that is
    /// given up. With `from` 0 it is begun if there is none.
    ///
    /// # Errors
    /// See [`Refused`]; nothing has changed then.
    pub fn open(root: BorrowedFd<'_>, wanted: Wanted<'_>, from: u64, bounds: Bounds) -> Result<PartialFile, Refused> {
        let total = wanted.total;
        let name = file_name(wanted);
        for _ in 0..TRIES_MAX {
            let folder = match open_folder(root) {
                Err(Errno::NOENT) if from > 0 => return Err(Refused::Gap(0)),
                Err(Errno::NOENT) => match retry(|| rustix::fs::mkdirat(root, FOLDER, FOLDER_MODE)) {
                    Ok(()) | Err(Errno::EXIST) => continue,
                    Err(errno) => return Err(errno.into()),
                },
                folder => folder?,
            };
            // Held for a look at the directory. Files are locked without waiting.
            retry(|| rustix::fs::flock(&folder, FlockOperation::LockExclusive))?;
            let opened = open_in(&folder, &name, from, bounds);
            retry(|| rustix::fs::flock(&folder, FlockOperation::Unlock))?;
            match opened {
                // The user of the last file has deleted the directory meanwhile.
                Err(Refused::Failed(Errno::NOENT)) => {}
                Err(refused) => {
                    remove_folder(&folder);
                    return Err(refused);
                }
                Ok((file, name)) => {
                    let arrived = retry(|| rustix::fs::seek(&file, SeekFrom::Start(from)))?;
                    return Ok(PartialFile { folder, file, name, arrived, total });
                }
            }
        }
        Err(Refused::Busy)
    }

    /// Bytes that have arrived of the file that is `wanted` beneath `root`, whoever began it; 0 if there is none.
    ///
    /// # Errors
    /// The error of a system call.
    pub fn arrived(root: BorrowedFd<'_>, wanted: Wanted<'_>) -> Result<u64, Errno> {
        let name = file_name(wanted);
        let state = open_folder(root).and_then(|folder| match begun(&folder, &name)? {
            Some(begun) => stat(&folder, &begun),
            None => Err(Errno::NOENT),
        });
        match state {
            Ok(state) => Ok(size(&state).min(wanted.total)),
            Err(Errno::NOENT) => Ok(0),
            Err(errno) => Err(errno),
        }
    }

    /// Writes `bytes` behind what has arrived.
    ///
    /// # Errors
    /// The error of `write(2)`.
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<(), Errno> {
        while !bytes.is_empty() {
            let written = retry(|| rustix::io::write(&self.file, bytes))?;
            self.arrived += written as u64;
            bytes = &bytes[written..];
        }
        Ok(())
    }

    /// Bytes that have arrived.
    pub fn bytes(&self) -> u64 {
        self.arrived
    }

    /// Whether all of it has arrived.
    pub fn is_complete(&self) -> bool {
        self.arrived == self.total
    }

    /// Gives up what has arrived.
    pub fn discard(self) {
        let PartialFile { folder, file, name, .. } = self;
        // If that fails, it is deleted when its time has come.
        let _ = rustix::fs::unlinkat(&folder, name.as_str(), AtFlags::empty());
        drop(file);
        remove_folder(&folder);
    }

    /// Moves it, which is complete, to `name` in `directory`: in the place of a file that is there, or only where
    /// nothing is. If that cannot be done, it is given up. Says whether a file was replaced.
    ///
    /// # Errors
    /// The errors of [`NewFile::move_to`] and [`NewFile::move_to_unused`]; `EXDEV` if `directory` is on another file
    /// system.
    pub fn move_to(self, directory: OwnedFd, name: &[u8], only_unused: bool) -> Result<Before, Errno> {
        let PartialFile { folder, file, name: own, .. } = self;
        let place = rustix::io::fcntl_dupfd_cloexec(&folder, 0)?;
        let file = NewFile::complete(directory, file, place, own);
        file.keep_properties(name);
        let moved = match only_unused {
            true => file.move_to_unused(name).map(|()| Before::Nothing),
            false => file.move_to(name),
        };
        remove_folder(&folder);
        moved
    }

    /// Whether it can be moved into `directory`: not to another file system.
    ///
    /// # Errors
    /// The error of `fstat(2)`.
    pub fn can_be_moved_to(&self, directory: BorrowedFd<'_>) -> Result<bool, Errno> {
        Ok(rustix::fs::fstat(&self.file)?.st_dev == rustix::fs::fstat(directory)?.st_dev)
    }
}

/// Deletes the partial files of `root` that have not grown for `kept_s` seconds. To be called from time to time.
///
/// # Errors
/// The error of a system call.
pub fn sweep(root: BorrowedFd<'_>, kept_s: u64) -> Result<(), Errno> {
    let folder = match open_folder(root) {
        Err(Errno::NOENT) => return Ok(()),
        folder => folder?,
    };
    retry(|| rustix::fs::flock(&folder, FlockOperation::LockExclusive))?;
    scan(&folder, None, kept_s)?;
    remove_folder(&folder);
    Ok(())
}

/// In `folder`, which is locked. A file that is begun gets the name `wanted`; one that is there has it but for its
/// owner.
fn open_in(folder: &OwnedFd, wanted: &str, from: u64, bounds: Bounds) -> Result<(OwnedFd, String), Refused> {
    let part = Part::of(wanted).ok_or(Errno::INVAL)?;
    let scan = scan(folder, Some(part), bounds.kept_s)?;
    if let Some(name) = scan.own.iter().find(|name| part.is_file_of(name)) {
        let file = lock(folder, name)?;
        let arrived = size(&rustix::fs::fstat(&file)?);
        if from > arrived {
            return Err(Refused::Gap(arrived));
        }
        retry(|| rustix::fs::ftruncate(&file, from))?;
        return Ok((file, name.clone()));
    }
    if from > 0 {
        return Err(Refused::Gap(0));
    }
    // Another file is sent under the same name now.
    let others = scan.own.iter().map(|name| lock(folder, name)).collect::<Result<Vec<_>, _>>()?;
    let (mut of_all, mut of_owner) = (scan.of_all, scan.of_owner);
    for other in scan.own.iter().filter_map(|name| Part::of(name)) {
        of_all.remove(other);
        if other.owner == part.owner {
            of_owner.remove(other);
        }
    }
    of_all.add(part);
    of_owner.add(part);
    of_all.check(bounds).map_err(|()| Refused::TooMany)?;
    if part.owner.is_some() {
        of_all.and(of_owner).check(bounds).map_err(|()| Refused::TooManyOfOwner)?;
    }
    for name in &scan.own {
        retry(|| rustix::fs::unlinkat(folder, name.as_str(), AtFlags::empty()))?;
    }
    drop(others);
    let flags = OPEN | OFlags::CREATE | OFlags::EXCL;
    let file = retry(|| rustix::fs::openat(folder, wanted, flags, FILE_MODE))?;
    retry(|| rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive))?;
    Ok((file, wanted.to_owned()))
}

impl Totals {
    fn add(&mut self, part: Part<'_>) {
        *self = self.and(Totals { files: 1, bytes: part.total });
    }

    fn remove(&mut self, part: Part<'_>) {
        *self = Totals { files: self.files.saturating_sub(1), bytes: self.bytes.saturating_sub(part.total) };
    }

    fn and(self, other: Totals) -> Totals {
        Totals { files: self.files + other.files, bytes: self.bytes.saturating_add(other.bytes) }
    }

    fn check(self, bounds: Bounds) -> Result<(), ()> {
        if self.files <= bounds.files_max && self.bytes <= bounds.bytes_max { Ok(()) } else { Err(()) }
    }
}

/// The name in `folder` of the file that `wanted` names but for its owner.
fn begun(folder: &OwnedFd, wanted: &str) -> Result<Option<String>, Errno> {
    let Some(part) = Part::of(wanted) else { return Ok(None) };
    for entry in rustix::fs::Dir::read_from(folder)? {
        let entry = entry?;
        if let Some(name) = entry.file_name().to_str().ok().filter(|name| part.is_file_of(name)) {
            return Ok(Some(name.to_owned()));
        }
    }
    Ok(None)
}

/// Opens a file that is in no other upload's use.
fn lock(folder: &OwnedFd, name: &str) -> Result<OwnedFd, Refused> {
    // The upload that has moved it away or deleted it was done with it: the sender is to ask again.
    let gone = |errno: Errno| if errno == Errno::NOENT { Refused::Busy } else { errno.into() };
    let file = retry(|| rustix::fs::openat(folder, name, OPEN, Mode::empty())).map_err(gone)?;
    match retry(|| rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)) {
        Err(Errno::WOULDBLOCK) => return Err(Refused::Busy),
        locked => locked?,
    }
    // What was moved away before it was locked is no longer ours to write.
    let (opened, named) = (rustix::fs::fstat(&file)?, stat(folder, name).map_err(gone)?);
    let is_same = (opened.st_dev, opened.st_ino) == (named.st_dev, named.st_ino);
    if is_same { Ok(file) } else { Err(Refused::Busy) }
}

/// Counts the files in `folder`, which is locked, all and those of the owner of `wanted`, and deletes those that have
/// not grown for `kept_s` seconds.
fn scan(folder: &OwnedFd, wanted: Option<Part<'_>>, kept_s: u64) -> Result<QuotaScan, Errno> {
    let mut scan = QuotaScan::default();
    let now_s = unix_ms() / 1000;
    for entry in rustix::fs::Dir::read_from(folder)? {
        let entry = entry?;
        let Some((name, part)) = entry.file_name().to_str().ok().and_then(|name| Some((name, Part::of(name)?))) else {
            continue;
        };
        let Ok(state) = stat(folder, name) else { continue };
        let age_s = now_s.saturating_sub(u64::try_from(state.st_mtime).unwrap_or(0));
        // Who has it may be about to add to it.
        if age_s > kept_s && lock(folder, name).is_ok() {
            retry(|| rustix::fs::unlinkat(folder, name, AtFlags::empty()))?;
            continue;
        }
        scan.of_all.add(part);
        if wanted.is_some_and(|wanted| wanted.owner == part.owner) {
            scan.of_owner.add(part);
        }
        if wanted.is_some_and(|wanted| wanted.key == part.key) {
            scan.own.push(name.to_owned());
        }
    }
    Ok(scan)
}

fn open_folder(root: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    retry(|| rustix::fs::openat(root, FOLDER, flags, Mode::empty()))
}

/// Deletes the directory if nothing is in it.
fn remove_folder(folder: &OwnedFd) {
    // Then another upload uses it, or it is gone already.
    let _ = rustix::fs::unlinkat(folder, format!("../{FOLDER}"), AtFlags::REMOVEDIR);
}

fn stat(folder: &OwnedFd, name: &str) -> Result<Stat, Errno> {
    retry(|| rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW))
}

fn size(state: &Stat) -> u64 {
    u64::try_from(state.st_size).unwrap_or(0)
}

/// The first `bytes` of a hash, in hexadecimal digits.
fn hash(of: &[u8], bytes: usize) -> String {
    let hash = ring::digest::digest(&ring::digest::SHA256, of);
    hash.as_ref()[..bytes].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The name of the file that is `wanted`, if it is begun.
fn file_name(Wanted { path, total, owner }: Wanted<'_>) -> String {
    let key = hash(path, KEY_BYTES);
    match owner {
        None => format!("{key}-{total}"),
        Some(owner) => format!("{key}-{total}-{}", hash(owner, OWNER_BYTES)),
    }
}

impl<'a> Part<'a> {
    fn of(name: &'a str) -> Option<Part<'a>> {
        let is_hash = |text: &str, bytes| text.len() == 2 * bytes && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let (key, rest) = name.split_once('-')?;
        let (total, owner) = rest.split_once('-').map_or((rest, None), |(total, owner)| (total, Some(owner)));
        let is_name = is_hash(key, KEY_BYTES) && owner.is_none_or(|owner| is_hash(owner, OWNER_BYTES));
        Some(Part { key, total: total.parse().ok().filter(|_| is_name)?, owner })
    }

    /// Whether `name` is that of the same file, whoever began it.
    fn is_file_of(self, name: &str) -> bool {
        Part::of(name).is_some_and(|other| (other.key, other.total) == (self.key, self.total))
    }
}

fn retry<T>(call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    rustix::io::retry_on_intr(call)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::fd::AsFd;
    use std::path::Path;
    use std::time::{Duration, SystemTime};

    const BOUNDS: Bounds = Bounds { files_max: 2, bytes_max: 100, kept_s: 60 };

    fn directory(path: &Path) -> OwnedFd {
        fs::File::open(path).unwrap().into()
    }

    fn open(root: &Path, path: &str, total: u64, from: u64) -> Result<PartialFile, Refused> {
        let wanted = Wanted { path: path.as_bytes(), total, owner: None };
        PartialFile::open(directory(root).as_fd(), wanted, from, BOUNDS)
    }

    /// Begins a file for `owner` and leaves it, where there are at most ten, of at most 100 bytes.
    fn begin(root: &Path, owner: &str, path: &str, total: u64) -> Result<(), Refused> {
        let wanted = Wanted { path: path.as_bytes(), total, owner: Some(owner.as_bytes()) };
        PartialFile::open(directory(root).as_fd(), wanted, 0, Bounds { files_max: 10, ..BOUNDS }).map(drop)
    }

    fn arrived(root: &Path, path: &str, total: u64) -> u64 {
        let wanted = Wanted { path: path.as_bytes(), total, owner: Some(b"who asks") };
        PartialFile::arrived(directory(root).as_fd(), wanted).unwrap()
    }

    fn is_empty(root: &Path) -> bool {
        fs::read_dir(root).unwrap().next().is_none()
    }

    #[test]
    fn a_file_is_gone_on_with_where_it_was_left() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        let mut file = open(root, "/a", 6, 0).unwrap();
        file.write(b"abcd").unwrap();
        drop(file);
        assert_eq!(arrived(root, "/a", 6), 4);
        assert_eq!(open(root, "/a", 6, 5).err(), Some(Refused::Gap(4)));
        // What comes after the byte that is gone on from is given up.
        let mut file = open(root, "/a", 6, 3).unwrap();
        file.write(b"def").unwrap();
        assert!(file.is_complete() && file.can_be_moved_to(directory(root).as_fd()).unwrap());
        assert_eq!(file.move_to(directory(root), b"a", false), Ok(Before::Nothing));
        assert_eq!(fs::read(root.join("a")).unwrap(), b"abcdef");
        assert_eq!(fs::read_dir(root).unwrap().count(), 1, "the directory is gone with the last of its files");
        assert_eq!(arrived(root, "/a", 6), 0);
    }

    #[test]
    fn two_do_not_add_to_one_file() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        let first = open(root, "/a", 6, 0).unwrap();
        assert_eq!(open(root, "/a", 6, 0).err(), Some(Refused::Busy));
        assert_eq!(open(root, "/a", 7, 0).err(), Some(Refused::Busy));
        assert!(open(root, "/b", 6, 0).is_ok());
        drop(first);
        assert!(open(root, "/a", 7, 0).is_ok());
        assert_eq!(
            (open(root, "/a", 6, 1).err(), open(root, "/c", 6, 1).err()),
            (Some(Refused::Gap(0)), Some(Refused::Gap(0)))
        );
    }

    #[test]
    fn there_are_no_more_and_no_larger_ones_than_the_bounds_allow() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        drop(open(root, "/a", 60, 0).unwrap());
        assert_eq!(open(root, "/b", 41, 0).err(), Some(Refused::TooMany));
        drop(open(root, "/b", 40, 0).unwrap());
        assert_eq!(open(root, "/c", 0, 0).err(), Some(Refused::TooMany));
        // In the place of another of the same name there is room.
        drop(open(root, "/b", 39, 0).unwrap());
        open(root, "/b", 39, 0).unwrap().discard();
        drop(open(root, "/c", 40, 0).unwrap());
    }

    #[test]
    fn an_owner_has_no_more_than_is_left_for_all_others() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        assert_eq!(begin(root, "a", "/0", 51), Err(Refused::TooManyOfOwner));
        assert!(is_empty(root), "what is refused leaves nothing");
        for number in 0..5 {
            assert_eq!(begin(root, "a", &format!("/{number}"), 2), Ok(()));
        }
        assert_eq!(begin(root, "a", "/5", 1), Err(Refused::TooManyOfOwner));
        // One that takes the place of another is not one more, whoever began that.
        assert_eq!((begin(root, "a", "/4", 42), begin(root, "a", "/4", 43)), (Ok(()), Err(Refused::TooManyOfOwner)));
        assert_eq!(arrived(root, "/4", 42), 0);
        // Half of the other half, and so on: there is something for each that comes.
        assert_eq!((begin(root, "b", "/b", 26), begin(root, "b", "/b", 25)), (Err(Refused::TooManyOfOwner), Ok(())));
        assert_eq!((begin(root, "c", "/c", 13), begin(root, "c", "/c", 12)), (Err(Refused::TooManyOfOwner), Ok(())));
        // Those of nobody in particular are bound by what there is.
        let of_nobody = |total| {
            let wanted = Wanted { path: b"/n", total, owner: None };
            PartialFile::open(directory(root).as_fd(), wanted, 0, Bounds { files_max: 10, ..BOUNDS }).map(drop)
        };
        assert_eq!((of_nobody(14), of_nobody(13)), (Err(Refused::TooMany), Ok(())));
    }

    #[test]
    fn a_file_is_gone_on_with_by_another_than_who_began_it() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        begin(root, "a", "/a", 6).unwrap();
        let mut file = open(root, "/a", 6, 0).unwrap();
        file.write(b"abc").unwrap();
        drop(file);
        begin(root, "b", "/a", 6).unwrap();
        assert_eq!(fs::read_dir(root.join(FOLDER)).unwrap().count(), 1);
        // One that a server before owners were written has begun.
        fs::write(root.join(FOLDER).join(file_name(Wanted { path: b"/old", total: 6, owner: None })), "ab").unwrap();
        assert_eq!((arrived(root, "/old", 6), arrived(root, "/old", 7)), (2, 0));
        let wanted = Wanted { path: b"/old", total: 6, owner: Some(b"a") };
        let file = PartialFile::open(directory(root).as_fd(), wanted, 2, BOUNDS).unwrap();
        assert_eq!(file.bytes(), 2);
    }

    #[test]
    fn what_nobody_adds_to_is_deleted_and_what_is_in_use_is_not() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        let used = open(root, "/a", 6, 0).unwrap();
        drop(open(root, "/b", 6, 0).unwrap());
        let long_ago = SystemTime::now() - Duration::from_secs(100);
        for entry in fs::read_dir(root.join(FOLDER)).unwrap() {
            fs::File::options().write(true).open(entry.unwrap().path()).unwrap().set_modified(long_ago).unwrap();
        }
        fs::write(root.join(FOLDER).join("somebody's"), "").unwrap();
        sweep(directory(root).as_fd(), 60).unwrap();
        assert_eq!(fs::read_dir(root.join(FOLDER)).unwrap().count(), 2);
        drop(used);
        fs::remove_file(root.join(FOLDER).join("somebody's")).unwrap();
        sweep(directory(root).as_fd(), 60).unwrap();
        assert!(is_empty(root));
        sweep(directory(root).as_fd(), 60).unwrap();
    }

    #[test]
    fn a_link_in_the_place_of_the_directory_is_not_followed() {
        let (root, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::os::unix::fs::symlink(outside.path(), root.path().join(FOLDER)).unwrap();
        assert!(matches!(open(root.path(), "/a", 6, 0), Err(Refused::Failed(Errno::NOTDIR | Errno::LOOP))));
        assert!(is_empty(outside.path()));
    }

    #[test]
    fn what_is_new_replaces_nothing_and_what_cannot_be_moved_is_given_up() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        fs::write(root.join("a"), "old").unwrap();
        let file = open(root, "/a", 0, 0).unwrap();
        assert_eq!(file.move_to(directory(root), b"a", true), Err(Errno::EXIST));
        assert_eq!((fs::read(root.join("a")).unwrap(), fs::read_dir(root).unwrap().count()), (b"old".to_vec(), 1));
    }
}
