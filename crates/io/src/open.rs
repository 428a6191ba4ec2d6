//! Opening names beneath a directory, never outside it, and without waiting for the disk where that can be had.
//!
//! Owns: the strategies for names: `openat2` with RESOLVE_BENEATH, its RESOLVE_CACHED form, and a fallback that opens
//! by path and then asks the kernel where the result really is. Guarantees: whatever is returned lies beneath the root,
//! also while directories are renamed meanwhile. Does not look at what it opened.

use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use crate::{Blocked, Counters, KernelFeatures, Wait};

/// Opens `name` (relative, no leading `/`; empty for the root itself) beneath `root`, for reading.
///
/// Symbolic links are followed as long as they stay beneath the root, absolute ones included. Never blocks on a FIFO
/// or a device.
///
/// # Errors
/// [`Blocked::Disk`] with [`Wait::No`] if the name is not in the dentry cache; else what `open(2)` says, with `EXDEV`
/// for what lies outside.
pub fn open_beneath(
    root: BorrowedFd<'_>,
    name: &[u8],
    wait: Wait,
    abilities: &KernelFeatures,
) -> Result<OwnedFd, Blocked> {
    let name = if name.is_empty() { b"." } else { name };
    if !abilities.openat2.load(Relaxed) {
        return open_by_path(root, name, wait);
    }
    let cached = abilities.resolve_cached.load(Relaxed);
    if wait == Wait::No && !cached {
        return Err(Blocked::Disk);
    }
    let mut resolve = BENEATH;
    if wait == Wait::No {
        resolve |= ResolveFlags::CACHED;
    }
    match retry(|| rustix::fs::openat2(root, name, READ, Mode::empty(), resolve)) {
        Err(Errno::AGAIN) if wait == Wait::No => {
            Counters::count(&abilities.counters.open_blocked);
            Err(Blocked::Disk)
        }
        Err(Errno::INVAL) if wait == Wait::No => {
            // Before Linux 5.12.
            abilities.resolve_cached.store(false, Relaxed);
            Err(Blocked::Disk)
        }
        Err(Errno::NOSYS | Errno::PERM) if !works(root) => {
            abilities.openat2.store(false, Relaxed);
            open_by_path(root, name, wait)
        }
        // An absolute link, perhaps to a place inside.
        Err(Errno::XDEV) => open_by_path(root, name, wait),
        result => {
            if wait == Wait::No {
                Counters::count(&abilities.counters.open_cached);
            }
            Ok(result?)
        }
    }
}

/// How names are resolved by `openat2`.
pub const BENEATH: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_MAGICLINKS);
/// How what is not to be opened is found.
const FIND: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);
/// How files are opened.
pub const READ: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NOCTTY).union(OFlags::NONBLOCK);

/// Whether `openat2` exists and is not forbidden (seccomp filters answer ENOSYS or EPERM to everything).
fn works(root: BorrowedFd<'_>) -> bool {
    rustix::fs::openat2(root, ".", OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::empty()).is_ok()
}

/// Opens without restriction, asks the kernel for the real path of what was opened, and gives it out only if that lies
/// beneath the real path of the root. The check is on the open file, so no rename can slip in between.
fn open_by_path(root: BorrowedFd<'_>, name: &[u8], wait: Wait) -> Result<OwnedFd, Blocked> {
    if wait == Wait::No {
        return Err(Blocked::Disk);
    }
    let found = find_by_path(root, name)?;
    let descriptor = format!("/proc/self/fd/{}", found.as_raw_fd());
    Ok(retry(|| rustix::fs::openat(CWD, descriptor.as_str(), READ, Mode::empty()))?)
}

/// Finds `name` beneath `root`, in the way of [`open_by_path`], without opening it.
fn find_by_path(root: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd, Errno> {
    let found = retry(|| rustix::fs::openat(root, name, FIND, Mode::empty()))?;
    let (root_path, found_path) = (real_path(root)?, real_path(found.as_fd())?);
    let is_beneath = Path::new(OsStr::from_bytes(&found_path)).starts_with(OsStr::from_bytes(&root_path));
    if is_beneath { Ok(found) } else { Err(Errno::XDEV) }
}

/// The state of what [`open_beneath`] would open for `name`, without opening it: a device or a FIFO is not touched.
/// Waits.
///
/// # Errors
/// The error of `open(2)`, with `EXDEV` for a file outside.
pub fn stat_beneath(root: BorrowedFd<'_>, name: &[u8], abilities: &KernelFeatures) -> Result<Stat, Errno> {
    let found = match abilities.openat2.load(Relaxed) {
        true => match retry(|| rustix::fs::openat2(root, name, FIND, Mode::empty(), BENEATH)) {
            Err(Errno::XDEV) => find_by_path(root, name)?,
            Err(Errno::NOSYS | Errno::PERM) if !works(root) => find_by_path(root, name)?,
            found => found?,
        },
        false => find_by_path(root, name)?,
    };
    rustix::fs::fstat(found)
}

/// Where an open file or directory really is, if `/proc` is there to say so.
///
/// # Errors
/// The error of `readlink(2)`.
pub fn real_path(file: BorrowedFd<'_>) -> Result<Vec<u8>, Errno> {
    let link = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(rustix::fs::readlinkat(CWD, link.as_str(), Vec::new())?.into_bytes())
}

/// Opens a directory by its full path, as a root for [`open_beneath`].
///
/// # Errors
/// The error of `open(2)`.
pub fn open_root(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    retry(|| rustix::fs::openat(CWD, path, flags, Mode::empty()))
}

/// Whether this thread's sandbox keeps it from a directory that its user may read. What is there is then served by
/// threads that come soon (`worker::confinement`).
pub fn is_out_of_reach(directory: &OwnedFd) -> bool {
    let may_read = rustix::fs::accessat(directory, ".", Access::READ_OK, AtFlags::EACCESS).is_ok();
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    may_read && rustix::fs::openat(directory, ".", flags, Mode::empty()).err() == Some(Errno::ACCESS)
}

/// Opens a directory by its full path if the dentry cache knows the way.
///
/// # Errors
/// [`Blocked::Disk`] if it does not; else what `open(2)` says.
pub fn open_root_cached(path: &Path) -> Result<OwnedFd, Blocked> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match retry(|| rustix::fs::openat2(CWD, path, flags, Mode::empty(), ResolveFlags::CACHED)) {
        Err(Errno::AGAIN | Errno::INVAL | Errno::NOSYS | Errno::PERM) => Err(Blocked::Disk),
        result => Ok(result?),
    }
}

/// Opens the directory `name` beneath the home directory `home` of the user `owner`, as a root for [`open_beneath`]. No
/// link of the user's is followed on the way, and what is found must be the user's own: otherwise anybody could have
/// any directory of the machine served. `name` has no `.`, `..` or empty segments.
///
/// # Errors
/// [`Blocked::Disk`] with [`Wait::No`] if the dentry cache does not know the way; `ENOENT` if the directory is another
/// user's; else the error of `open(2)`.
pub fn open_owned(home: &Path, name: &str, owner: u32, wait: Wait) -> Result<OwnedFd, Blocked> {
    const DIRECTORY: OFlags = FIND.union(OFlags::DIRECTORY);
    let directory = match wait {
        Wait::Yes => {
            let mut directory = open_root(home)?;
            for segment in name.split('/') {
                let flags = DIRECTORY | OFlags::NOFOLLOW;
                directory = retry(|| rustix::fs::openat(&directory, segment, flags, Mode::empty()))?;
            }
            directory
        }
        Wait::No => {
            let home = open_root_cached(home)?;
            let resolve = BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::CACHED;
            match retry(|| rustix::fs::openat2(&home, name, DIRECTORY, Mode::empty(), resolve)) {
                Err(Errno::AGAIN | Errno::INVAL | Errno::NOSYS | Errno::PERM) => return Err(Blocked::Disk),
                result => result?,
            }
        }
    };
    match rustix::fs::fstat(&directory)?.st_uid == owner {
        true => Ok(directory),
        false => Err(Blocked::Failed(Errno::NOENT)),
    }
}

fn retry<T>(call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    rustix::io::retry_on_intr(call)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn tree() -> tempfile::TempDir {
        let outer = tempfile::tempdir().unwrap();
        let root = outer.path().join("root");
        std::fs::create_dir_all(root.join("sub")).unwrap();
        std::fs::write(root.join("sub/file"), "inside").unwrap();
        std::fs::write(outer.path().join("secret"), "outside").unwrap();
        symlink("sub/file", root.join("relative")).unwrap();
        symlink(root.join("sub/file"), root.join("absolute")).unwrap();
        symlink("../secret", root.join("escape")).unwrap();
        symlink(outer.path().join("secret"), root.join("absolute-escape")).unwrap();
        outer
    }

    fn abilities() -> [KernelFeatures; 2] {
        [KernelFeatures::default(), KernelFeatures::without(&["openat2".to_owned()]).unwrap()]
    }

    #[test]
    fn links_that_stay_inside_work_and_others_do_not() {
        let outer = tree();
        let root = open_root(&outer.path().join("root")).unwrap();
        for abilities in abilities() {
            for name in ["sub/file", "relative", "absolute", ""] {
                let opened = open_beneath(root.as_fd(), name.as_bytes(), Wait::Yes, &abilities);
                assert!(opened.is_ok(), "{name}: {opened:?}");
            }
            for name in ["escape", "absolute-escape", "../secret", "sub/../../secret"] {
                let opened = open_beneath(root.as_fd(), name.as_bytes(), Wait::Yes, &abilities);
                assert_eq!(opened.err(), Some(Blocked::Failed(Errno::XDEV)), "{name}");
            }
        }
    }

    #[test]
    fn the_state_of_a_name_is_that_of_what_would_be_opened() {
        let outer = tree();
        let root = open_root(&outer.path().join("root")).unwrap();
        let file = rustix::fs::stat(outer.path().join("root/sub/file")).unwrap();
        for abilities in abilities() {
            for name in ["sub/file", "relative", "absolute"] {
                let found = stat_beneath(root.as_fd(), name.as_bytes(), &abilities);
                assert_eq!(found.map(|stat| stat.st_ino), Ok(file.st_ino), "{name}");
            }
            for name in ["escape", "absolute-escape"] {
                let found = stat_beneath(root.as_fd(), name.as_bytes(), &abilities);
                assert_eq!(found.err(), Some(Errno::XDEV), "{name}");
            }
        }
    }

    #[test]
    fn in_a_home_no_link_is_followed_and_what_is_served_is_the_users_own() {
        let outer = tree();
        let own = rustix::process::geteuid().as_raw();
        let home = outer.path().join("root");
        std::fs::create_dir(home.join("sub/pages")).unwrap();
        symlink("sub", home.join("linked")).unwrap();
        symlink(outer.path(), home.join("out")).unwrap();
        for wait in [Wait::Yes, Wait::No] {
            let open = |name: &str, owner: u32| open_owned(&home, name, owner, wait);
            for name in ["sub", "sub/pages"] {
                assert!(open(name, own).is_ok(), "{name}, {wait:?}");
                assert_eq!(open(name, own + 1).err(), Some(Blocked::Failed(Errno::NOENT)), "{name}, {wait:?}");
            }
            for name in ["linked", "linked/pages", "out", "out/root", "absolute", "sub/file", "nothing"] {
                assert!(matches!(open(name, own), Err(Blocked::Failed(_))), "{name}, {wait:?}");
            }
        }
    }

    #[test]
    fn a_home_may_itself_be_behind_a_link() {
        let outer = tree();
        symlink("root", outer.path().join("home")).unwrap();
        let own = rustix::process::geteuid().as_raw();
        assert!(open_owned(&outer.path().join("home"), "sub", own, Wait::Yes).is_ok());
    }

    #[test]
    fn without_openat2_nothing_is_known_to_be_cached() {
        let outer = tree();
        let root = open_root(&outer.path().join("root")).unwrap();
        let [_, abilities] = abilities();
        let opened = open_beneath(root.as_fd(), b"sub/file", Wait::No, &abilities);
        assert_eq!(opened.err(), Some(Blocked::Disk));
    }

    #[test]
    fn a_name_that_was_just_used_opens_without_waiting() {
        let outer = tree();
        let root = open_root(&outer.path().join("root")).unwrap();
        let [abilities, _] = abilities();
        assert!(open_beneath(root.as_fd(), b"sub/file", Wait::Yes, &abilities).is_ok());
        assert!(open_beneath(root.as_fd(), b"sub/file", Wait::No, &abilities).is_ok());
        assert_eq!(
            open_beneath(root.as_fd(), b"sub/none", Wait::Yes, &abilities).err(),
            Some(Blocked::Failed(Errno::NOENT))
        );
    }
}
