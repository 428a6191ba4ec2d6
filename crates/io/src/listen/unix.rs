//! Unix stream sockets: the file in the file system that comes and goes with them.
//!
//! Owns: making the file, removing a stale one before and its own one after. Guarantees that a live socket, a file that
//! is no socket and another process's file are never removed.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use lamna_config::settings::ListenAddress;
use rustix::fs::{FileType, Mode, Stat};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::{BACKLOG, BindError, Listener, Rules, stream_socket};

/// Binds a path, replacing a stale socket.
pub(super) fn bind(path: &Path) -> Result<Listener, BindError> {
    let failed = |errno| unix_error(path, errno);
    let address = SocketAddrUnix::new(path).map_err(failed)?;
    let socket = stream_socket(AddressFamily::UNIX).map_err(failed)?;
    match rustix::net::bind(&socket, &address) {
        Err(Errno::ADDRINUSE) => {
            remove_stale(path, &address)?;
            rustix::net::bind(&socket, &address).map_err(failed)?;
        }
        result => result.map_err(failed)?,
    }
    let file = SocketFile::of(path).map_err(failed)?;
    let address = ListenAddress::Unix(path.to_owned());
    let rules = Rules::unsaid(&address);
    let listener =
        Listener { descriptor: socket, address, file: Some(file), left: AtomicBool::new(false), lent: false, rules };
    rustix::net::listen(&listener, BACKLOG as i32).map_err(failed)?;
    Ok(listener)
}

/// A socket that another program takes connections from, and its file, which goes when this is dropped.
#[derive(Debug)]
pub struct OwnSocket {
    descriptor: OwnedFd,
    file: SocketFile,
}

impl OwnSocket {
    /// Binds a path, in the place of any socket there: who connects finds the old one or the new one. The socket waits,
    /// as programs expect it, and only this user may connect.
    ///
    /// # Errors
    /// The existing file is no socket, or none can be made.
    pub fn bind_over(path: &Path) -> io::Result<OwnSocket> {
        match rustix::fs::lstat(path) {
            Ok(found) if FileType::from_raw_mode(found.st_mode) != FileType::Socket => {
                let why = format!("{} is there, and is no socket", path.display());
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
            }
            Ok(_) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno.into()),
        }
        let mut temporary = path.as_os_str().to_owned();
        temporary.push("~");
        let temporary = PathBuf::from(temporary);
        // Of a server that was killed between the steps.
        _ = rustix::fs::unlink(&temporary);
        let descriptor = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        rustix::net::bind(&descriptor, &SocketAddrUnix::new(&temporary)?)?;
        rustix::fs::chmod(&temporary, Mode::RUSR | Mode::WUSR)?;
        rustix::net::listen(&descriptor, BACKLOG as i32)?;
        rustix::fs::rename(&temporary, path)?;
        Ok(OwnSocket { descriptor, file: SocketFile::of(path)? })
    }
}

impl AsFd for OwnSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl Drop for OwnSocket {
    fn drop(&mut self) {
        self.file.remove();
    }
}

/// Whether a socket could be made here, or replaced. Makes nothing.
pub(super) fn probe(path: &Path) -> Result<(), BindError> {
    use rustix::fs::{Access, AtFlags, CWD, accessat};
    let failed = |errno| unix_error(path, errno);
    SocketAddrUnix::new(path).map_err(failed)?;
    match rustix::fs::lstat(path) {
        Ok(found) if FileType::from_raw_mode(found.st_mode) == FileType::Socket => Ok(()),
        Ok(_) => Err(in_the_way(path, NOT_A_SOCKET)),
        Err(Errno::NOENT) => {
            let directory = path.parent().unwrap_or(Path::new("/"));
            accessat(CWD, directory, Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS).map_err(failed)
        }
        Err(errno) => Err(failed(errno)),
    }
}

const NOT_A_SOCKET: &str =
    "there is a file of this name that is not a socket; remove it or pass --listen with another path";

fn in_the_way(path: &Path, remedy: &str) -> BindError {
    BindError {
        what: format!("cannot listen on unix:{}", path.display()),
        error: Errno::ADDRINUSE.into(),
        remedy: remedy.into(),
    }
}

/// Removes a socket that no one listens on, and nothing else.
fn remove_stale(path: &Path, address: &SocketAddrUnix) -> Result<(), BindError> {
    let failed = |errno| unix_error(path, errno);
    let found = rustix::fs::lstat(path).map_err(failed)?;
    if FileType::from_raw_mode(found.st_mode) != FileType::Socket {
        return Err(in_the_way(path, NOT_A_SOCKET));
    }
    let probe = stream_socket(AddressFamily::UNIX).map_err(failed)?;
    match rustix::net::connect(&probe, address) {
        Err(Errno::CONNREFUSED) => rustix::fs::unlink(path).map_err(failed),
        // EAGAIN: there is a listener, whose backlog is full.
        Ok(()) | Err(Errno::AGAIN) => {
            Err(in_the_way(path, "another program listens on it; stop it or pass --listen with another path"))
        }
        Err(errno) => Err(failed(errno)),
    }
}

fn unix_error(path: &Path, errno: Errno) -> BindError {
    let directory = path.parent().unwrap_or(Path::new("/")).display();
    let remedy = match errno {
        Errno::NOENT => format!("the directory `{directory}` does not exist; create it first"),
        Errno::NOTDIR => format!("`{directory}` is not a directory"),
        Errno::ACCESS | Errno::PERM => {
            format!(
                "this user may not create files in `{directory}` or connect to the socket; change its owner or mode"
            )
        }
        Errno::ROFS => format!("`{directory}` is read-only; pass --listen with a path elsewhere, as below /run"),
        Errno::NAMETOOLONG => "the path of a socket has at most 107 bytes; pass --listen with a shorter one".into(),
        Errno::PROTOTYPE => "the socket there is of another kind; remove it or pass --listen with another path".into(),
        _ => "see unix(7) for the error".into(),
    };
    BindError { what: format!("cannot listen on unix:{}", path.display()), error: errno.into(), remedy }
}

/// The file of a Unix socket, told apart from another of the same name.
#[derive(Debug)]
pub(super) struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
    /// The process that bound it: a forked one must not remove it.
    process: u32,
}

impl SocketFile {
    pub(super) fn of(path: &Path) -> Result<Self, Errno> {
        Ok(SocketFile {
            path: path.to_owned(),
            identity: identity(&rustix::fs::lstat(path)?),
            process: std::process::id(),
        })
    }

    /// Best effort: a file that stays behind is stale, and the next start removes it.
    pub(super) fn remove(&self) {
        let is_ours = rustix::fs::lstat(&self.path).is_ok_and(|found| identity(&found) == self.identity);
        if is_ours && self.process == std::process::id() {
            _ = rustix::fs::unlink(&self.path);
        }
    }
}

fn identity(found: &Stat) -> (u64, u64) {
    (found.st_dev, found.st_ino)
}

#[cfg(test)]
mod tests {
    use super::super::bind;
    use super::super::tests::{assert_prepared, message};
    use super::*;
    use std::fs;
    use std::os::unix::net::{UnixListener, UnixStream};

    #[test]
    fn a_socket_takes_the_place_of_another_and_leaves_that_of_a_successor() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        let first = OwnSocket::bind_over(&path).unwrap();
        UnixStream::connect(&path).unwrap();
        let second = OwnSocket::bind_over(&path).unwrap();
        drop(first);
        UnixStream::connect(&path).unwrap();
        drop(second);
        assert!(!path.exists());
        fs::write(&path, "text").unwrap();
        assert!(OwnSocket::bind_over(&path).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"text");
    }

    #[test]
    fn a_unix_socket_takes_connections_and_its_file_goes_with_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        let listeners = bind(&[ListenAddress::Unix(path.clone()).into()]).unwrap();
        UnixStream::connect(&path).unwrap();
        assert_prepared(&listeners[0]);
        drop(listeners);
        assert!(!path.exists());
    }

    #[test]
    fn a_file_that_replaced_the_socket_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        let listeners = bind(&[ListenAddress::Unix(path.clone()).into()]).unwrap();
        // Moved in, so that the new file cannot get the number of the removed one.
        let other = directory.path().join("b");
        fs::write(&other, "other").unwrap();
        fs::rename(&other, &path).unwrap();
        drop(listeners);
        assert_eq!(fs::read(&path).unwrap(), b"other");
    }

    #[test]
    fn a_stale_unix_socket_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        bind(&[ListenAddress::Unix(path).into()]).unwrap();
    }

    #[test]
    fn a_live_unix_socket_and_a_file_are_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let live = directory.path().join("live");
        let listener = UnixListener::bind(&live).unwrap();
        assert!(message(&[ListenAddress::Unix(live.clone()).into()]).contains("another program listens"));
        UnixStream::connect(&live).unwrap();
        drop(listener);

        let file = directory.path().join("file");
        fs::write(&file, "kept").unwrap();
        assert!(message(&[ListenAddress::Unix(file.clone()).into()]).contains("not a socket"));
        assert_eq!(fs::read(&file).unwrap(), b"kept");
    }

    #[test]
    fn a_socket_path_that_is_too_long_is_reported_with_the_bound() {
        assert!(message(&[ListenAddress::Unix("/x".repeat(100).into()).into()]).contains("107 bytes"));
    }
}
