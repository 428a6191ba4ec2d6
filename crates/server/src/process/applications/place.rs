//! Where applications listen that the server starts.
//!
//! Owns: the two ways in which a process comes to its socket. A FastCGI application is handed one that the server has
//! bound. Others listen themselves, one process at each place, where no other may listen then.

use std::io;
use std::net::SocketAddr;
use std::num::NonZero;
use std::path::Path;

use lamna_config::gateway::{CommandSettings, Instances, ProgramPlace, ProgramSettings};
use lamna_config::settings::Settings;
use rustix::fs::{FileType, lstat, unlink};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, socket_with, sockopt};

/// An application that is to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted<'a> {
    /// It is handed its socket.
    Handed(&'a CommandSettings),
    /// It listens itself.
    Itself(&'a ProgramSettings),
}

/// An application that runs.
#[derive(Clone, Debug)]
pub(super) enum Started {
    /// See [`Wanted`].
    Handed(CommandSettings),
    /// See [`Wanted`].
    Itself(ProgramSettings),
}

/// The applications of all routes, one for each place. Where two differ, the configuration is refused.
pub(super) fn wanted(settings: &Settings) -> Vec<Wanted<'_>> {
    let mut found: Vec<Wanted<'_>> = Vec::new();
    let handed = settings.sites.iter().flat_map(|site| site.commands()).map(Wanted::Handed);
    let themselves = settings.sites.iter().flat_map(|site| site.programs()).map(Wanted::Itself);
    for one in handed.chain(themselves) {
        if !found.iter().any(|other| other.is_where(one)) {
            found.push(one);
        }
    }
    found
}

impl Wanted<'_> {
    /// Whether both come to the same socket in the same way.
    pub(super) fn is_where(self, other: Wanted<'_>) -> bool {
        match (self, other) {
            (Wanted::Handed(one), Wanted::Handed(other)) => one.socket == other.socket,
            (Wanted::Itself(one), Wanted::Itself(other)) => one.place == other.place,
            (Wanted::Handed(_), Wanted::Itself(_)) | (Wanted::Itself(_), Wanted::Handed(_)) => false,
        }
    }

    pub(super) fn to_owned(self) -> Started {
        match self {
            Wanted::Handed(settings) => Started::Handed(settings.clone()),
            Wanted::Itself(settings) => Started::Itself(settings.clone()),
        }
    }
}

impl Started {
    pub(super) fn borrow(&self) -> Wanted<'_> {
        match self {
            Started::Handed(settings) => Wanted::Handed(settings),
            Started::Itself(settings) => Wanted::Itself(settings),
        }
    }

    /// The program and its arguments.
    pub(super) fn program(&self) -> &[String] {
        match self {
            Started::Handed(settings) => &settings.program,
            Started::Itself(settings) => &settings.program,
        }
    }

    pub(super) fn instances(&self) -> Instances {
        match self {
            Started::Handed(settings) => settings.instances,
            Started::Itself(_) => Instances::Fixed(NonZero::<u32>::MIN),
        }
    }

    /// The socket that the server has to bind, if it does.
    pub(super) fn handed(&self) -> Option<&Path> {
        match self {
            Started::Handed(settings) => Some(&settings.socket),
            Started::Itself(_) => None,
        }
    }

    /// Where it listens itself, if it does.
    pub(super) fn own_place(&self) -> Option<&ProgramPlace> {
        match self {
            Started::Handed(_) => None,
            Started::Itself(settings) => Some(&settings.place),
        }
    }

    /// Its name in the log.
    pub(super) fn name(&self) -> String {
        match self {
            Started::Handed(settings) => format!("unix:{}", settings.socket.display()),
            Started::Itself(settings) => settings.place.to_string(),
        }
    }
}

/// Whether no process listens there. A Unix socket that a former one has left is removed.
///
/// # Errors
/// A file is there that is no socket, or the system does not say.
pub(super) fn is_free(place: &ProgramPlace) -> io::Result<bool> {
    match place {
        ProgramPlace::Port(address) => Ok(is_port_free(address)?),
        ProgramPlace::Socket(path) => is_path_free(path),
    }
}

/// Binds it, and does not listen: no client can be connected to it meanwhile.
fn is_port_free(address: &SocketAddr) -> Result<bool, Errno> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // Remains of connections that have ended are in no one's way.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    match bind(&socket, address) {
        Ok(()) => Ok(true),
        Err(Errno::ADDRINUSE) => Ok(false),
        Err(error) => Err(error),
    }
}

fn is_path_free(path: &Path) -> io::Result<bool> {
    match lstat(path) {
        Err(Errno::NOENT) => return Ok(true),
        Err(error) => return Err(error.into()),
        Ok(found) if FileType::from_raw_mode(found.st_mode) != FileType::Socket => {
            let why = format!("{} is there, and is no socket", path.display());
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
        }
        Ok(_) => {}
    }
    let socket =
        socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?;
    match connect(&socket, &SocketAddrUnix::new(path)?) {
        Err(Errno::CONNREFUSED) => {
            unlink(path)?;
            Ok(true)
        }
        Err(Errno::NOENT) => Ok(true),
        // EAGAIN: its queue is full.
        Ok(()) | Err(Errno::AGAIN) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_place_is_free_where_nobody_listens() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = ProgramPlace::Port(listener.local_addr().unwrap());
        assert!(!is_free(&port).unwrap());
        drop(listener);
        assert!(is_free(&port).unwrap());

        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        let socket = ProgramPlace::Socket(path.clone());
        assert!(is_free(&socket).unwrap());
        let listener = UnixListener::bind(&path).unwrap();
        assert!(!is_free(&socket).unwrap());
        drop(listener);
        assert!(is_free(&socket).unwrap() && !path.exists(), "what is left of it is in the way");
        std::fs::write(&path, "text").unwrap();
        assert!(is_free(&socket).is_err() && path.exists());
    }
}
