//! Where the endpoint is, so that two servers never collide and `lamna ctl` finds the one that there is.
//!
//! A server without `--admin` makes `DIRECTORY/PID.sock` in the first of these directories that it can have for itself:
//! for root `/run/lamna`, which outlives sessions; `lamna` in the service manager's `$RUNTIME_DIRECTORY`;
//! `$XDG_RUNTIME_DIR/lamna`; `/tmp/lamna-UID`. With `$LAMNA_RUNTIME_DIR` that is the one directory. In a directory that
//! is its user's own and that others may enter, as service managers make them (0755), it makes a directory `lamna` that
//! they may not.
//!
//! A search for servers looks into all of them, into `/run/user/UID/lamna`, and into `/run/*/lamna`. Root looks for
//! those of other users if it has none of its own: so no other user's server can come between root and its own.
//!
//! Owns: these directories and what is stale in them. Guarantees: a directory is its user's own and closed to others
//! (0700), whoever made it first; sockets are made and swept under a lock on the directory, so that one that has been
//! bound and not yet listened on is not taken for stale. A socket of another name, or elsewhere, is left alone; in a
//! directory of another user nothing is removed and no lock is waited for.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use lamna_config::settings::ListenAddress;
use lamna_io::listen::{self, BindError, Listener};
use lamna_sys::runtime_directory::{NAME, directories};
use rustix::fs::{CWD, FileType, FlockOperation, Mode, OFlags, Stat, flock, fstat, lstat, mkdirat, openat};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use rustix::process::geteuid;

/// The sockets of the servers of this user that are alive, and how many stale ones were removed on the way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Servers {
    /// In the order of their names.
    pub sockets: Vec<PathBuf>,
    /// Sockets of servers that died without removing theirs.
    pub stale: usize,
}

/// Looks for the servers of this user; for root, if it has none, for those of all users.
pub fn find() -> Servers {
    let mut servers = Servers::default();
    for path in directories_to_search() {
        // One that is not there, or is another user's, has no servers of ours.
        let Ok(directory) = Directory::open(&path) else { continue };
        servers.stale += directory.sweep();
        servers.sockets.extend(sockets_in(&path));
    }
    if servers.sockets.is_empty() && geteuid().is_root() {
        let others = directories_to_search().into_iter().filter(|path| is_private_of_somebody(path));
        servers.sockets = others.flat_map(|path| sockets_in(&path)).filter(|path| !is_stale(path)).collect();
    }
    servers
}

/// Directories that are this user's own and closed to others: no other user can have put anything there.
pub(super) fn own_directories() -> Vec<PathBuf> {
    directories_to_search().into_iter().filter(|path| Directory::open(path).is_ok()).collect()
}

/// These; and for root, after them, those of other users.
pub(super) fn trusted_directories() -> Vec<PathBuf> {
    let mut all = own_directories();
    if geteuid().is_root() {
        let others =
            directories_to_search().into_iter().filter(|path| is_private_of_somebody(path) && !all.contains(path));
        all.extend(others.collect::<Vec<_>>());
    }
    all
}

/// Whether it is closed to all but its owner, any user.
fn is_private_of_somebody(path: &Path) -> bool {
    lstat(path).is_ok_and(|found| {
        FileType::from_raw_mode(found.st_mode) == FileType::Directory
            && !Mode::from_raw_mode(found.st_mode).intersects(Mode::RWXG | Mode::RWXO)
    })
}

/// Calls `work` with a directory that is this user's own and locked, the first for which that succeeds.
///
/// # Errors
/// The error of `work` for the last one, or why there is none.
pub(super) fn with_directory<T>(work: impl Fn(&Path) -> io::Result<T>) -> io::Result<T> {
    let mut result = Err(Errno::NOENT.into());
    for path in directories() {
        result = Directory::make(&path).map_err(io::Error::from).and_then(|directory| work(&directory.path));
        if result.is_ok() {
            break;
        }
    }
    result
}

/// Makes a directory that is this user's own, unless it is there.
///
/// # Errors
/// It cannot be made, or is another user's.
pub(crate) fn make_directory(path: &Path) -> io::Result<()> {
    Ok(Directory::make(path).map(drop)?)
}

/// Binds a socket that [`find`] finds.
///
/// # Errors
/// The fault in the last of the directories.
pub(super) fn bind() -> Result<Listener, BindError> {
    let mut result = Err(failed(Path::new("/tmp"), Errno::NOENT));
    for path in directories() {
        result = Directory::make(&path).map_err(|errno| failed(&path, errno)).and_then(|directory| directory.bind());
        if result.is_ok() {
            break;
        }
    }
    result
}

/// Only its user may speak to it, even without the endpoint's own look at credentials.
pub(super) fn close_to_others(path: &Path) {
    // If that fails, credentials are still looked at.
    let _ = rustix::fs::chmod(path, Mode::RUSR | Mode::WUSR);
}

fn failed(directory: &Path, errno: Errno) -> BindError {
    let what = format!("cannot make a control socket in {}", directory.display());
    BindError::new(what, errno, "name a place with --admin unix:PATH, or do without it: --admin off".to_owned())
}

/// Where they are looked for: also where sessions and service managers have them that this process is no part of.
fn directories_to_search() -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = directories().into_iter().flat_map(|path| [path.join(NAME), path]).collect();
    if std::env::var_os("LAMNA_RUNTIME_DIR").is_none() {
        all.push(format!("/run/user/{}/lamna", geteuid()).into());
        let within = |directory: &str| std::fs::read_dir(directory).into_iter().flatten().flatten();
        all.extend(within("/run").map(|entry| entry.path().join(NAME)));
        if geteuid().is_root() {
            all.extend(within("/run/user").map(|entry| entry.path().join(NAME)));
            let of_user = |name: &str| name.strip_prefix("lamna-").is_some_and(|user| user.parse::<u32>().is_ok());
            let temporary = within("/tmp").filter(|entry| entry.file_name().to_str().is_some_and(of_user));
            all.extend(temporary.map(|entry| entry.path()));
        }
    }
    all.sort();
    all.dedup();
    all
}

/// A directory that is this user's alone, locked.
#[derive(Debug)]
struct Directory {
    path: PathBuf,
    /// Holds the lock.
    _descriptor: OwnedFd,
}

/// The extension of sockets.
const EXTENSION: &str = "sock";
/// Servers of one process id that may be alive in one directory: in so many containers that share it.
const SAME_MAX: u32 = 64;

impl Directory {
    /// Makes it, unless it is there.
    fn make(path: &Path) -> Result<Directory, Errno> {
        // Beneath another user's session directory root would be able to, and its user would no longer.
        let parent = path.parent().unwrap_or(Path::new("/"));
        let owner = rustix::fs::stat(parent)?.st_uid;
        if owner != geteuid().as_raw() && owner != 0 {
            return Err(Errno::PERM);
        }
        match mkdirat(CWD, path, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => match Directory::open(path) {
                Err(Errno::PERM) if is_guarded(path) => Directory::make(&path.join(NAME)),
                result => result,
            },
            Err(errno) => Err(errno),
        }
    }

    fn open(path: &Path) -> Result<Directory, Errno> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
        let descriptor = openat(CWD, path, flags, Mode::empty())?;
        if !is_private(&fstat(&descriptor)?) {
            return Err(Errno::PERM);
        }
        flock(&descriptor, FlockOperation::LockExclusive)?;
        Ok(Directory { path: path.to_owned(), _descriptor: descriptor })
    }

    fn bind(&self) -> Result<Listener, BindError> {
        self.sweep();
        let process = std::process::id();
        let names = (0..SAME_MAX).map(|number| match number {
            0 => format!("{process}.{EXTENSION}"),
            more => format!("{process}-{more}.{EXTENSION}"),
        });
        let free = names.map(|name| self.path.join(name)).find(|path| lstat(path).is_err());
        let path = free.ok_or_else(|| failed(&self.path, Errno::EXIST))?;
        listen::bind_one(&ListenAddress::Unix(path)).map_err(|error| error.for_option("--admin"))
    }

    /// Removes the sockets without a listener. Returns how many.
    fn sweep(&self) -> usize {
        let stale = sockets_in(&self.path).into_iter().filter(|path| is_stale(path));
        stale.filter(|path| rustix::fs::unlink(path).is_ok()).count()
    }
}

fn sockets_in(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == EXTENSION) && is_socket(path));
    paths.sort();
    paths
}

/// Whether it is this user's own, and no other user may change what is in it: they may enter it.
fn is_guarded(path: &Path) -> bool {
    lstat(path).is_ok_and(|found| {
        let others = Mode::from_raw_mode(found.st_mode).intersects(Mode::WGRP | Mode::WOTH);
        let is_directory = FileType::from_raw_mode(found.st_mode) == FileType::Directory;
        is_directory && found.st_uid == geteuid().as_raw() && !others
    })
}

fn is_private(found: &Stat) -> bool {
    let others = Mode::from_raw_mode(found.st_mode).intersects(Mode::RWXG | Mode::RWXO);
    found.st_uid == geteuid().as_raw() && !others
}

fn is_socket(path: &Path) -> bool {
    lstat(path).is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Socket)
}

fn is_stale(path: &Path) -> bool {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let Ok(probe) = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None) else { return false };
    let Ok(address) = SocketAddrUnix::new(path) else { return false };
    connect(&probe, &address) == Err(Errno::CONNREFUSED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixListener;

    #[test]
    fn the_second_server_of_a_process_id_gets_another_name() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("lamna");
        let bind = || Directory::make(&path).unwrap().bind().unwrap();
        let (first, second) = (bind(), bind());
        assert_ne!(first.address(), second.address());
        assert_eq!(sockets_in(&path).len(), 2);
    }

    #[test]
    fn sweeping_removes_stale_sockets_and_nothing_else() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("lamna");
        let directory = Directory::make(&path).unwrap();
        drop(UnixListener::bind(path.join("1.sock")).unwrap());
        drop(UnixListener::bind(path.join("other")).unwrap());
        std::fs::write(path.join("2.sock"), "").unwrap();
        let live = UnixListener::bind(path.join("3.sock")).unwrap();
        assert_eq!(directory.sweep(), 1);
        assert_eq!(sockets_in(&path), [path.join("3.sock")]);
        assert!(path.join("other").exists() && path.join("2.sock").exists());
        drop(live);
    }

    #[test]
    fn in_a_directory_that_others_may_enter_one_is_made_that_they_may_not() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("runtime");
        std::fs::create_dir(&path).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        let listener = Directory::make(&path).unwrap().bind().unwrap();
        let within = path.join("lamna");
        assert_eq!(std::fs::metadata(&within).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(sockets_in(&within).len(), 1);
        drop(listener);
    }

    #[test]
    fn a_directory_that_others_may_change_is_not_used() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("lamna");
        drop(Directory::make(&path).unwrap());
        for mode in [0o775, 0o757, 0o1777] {
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            assert_eq!(Directory::make(&path).unwrap_err(), Errno::PERM, "{mode:o}");
        }
    }
}
