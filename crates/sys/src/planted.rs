//! A defect that tests have the server do: code that is led astray, in a thread that serves.
//!
//! Owns: what it tries, all that a sandbox is to deny. Programs that are built without debug assertions, which releases
//! are, do not have it.
#![allow(unsafe_code)]

use super::contain::{Point, is_asked};
use super::say::say;

/// Reaches out if a test has asked for that: with `LAMNA_TEST_REACH=POINT:NAME` in the environment, when `name` is
/// `NAME`. Says what came of it.
pub(super) fn reach_out_if_asked(point: Point, name: &[u8]) {
    static ASKED: std::sync::OnceLock<Option<(String, String)>> = std::sync::OnceLock::new();
    if !is_asked(&ASKED, "LAMNA_TEST_REACH", point, name) {
        return;
    }
    let told =
        |result: std::io::Result<()>| result.map_or_else(|error| format!("{:?}", error.kind()), |()| "done".to_owned());
    let [file, shell, ring, write, namespace, connect] =
        [tries::file, tries::shell, tries::ring, tries::write, tries::namespace, tries::connect]
            .map(|attempt: fn() -> _| told(attempt()));
    say!(
        "lamna: planted: file {file}, shell {shell}, ring {ring}, write {write}, namespace {namespace}, connect {connect}"
    );
}

mod tries {
    use std::fs::File;
    use std::io;
    use std::process::Command;

    use io_uring::{IoUring, opcode, types};

    /// A file that is none of the server's business.
    const FILE: &str = "/etc/passwd";

    /// That file, or the one that a test names with `LAMNA_TEST_REACH_FILE`.
    pub(super) fn file() -> io::Result<()> {
        File::open(std::env::var_os("LAMNA_TEST_REACH_FILE").unwrap_or_else(|| FILE.into())).map(drop)
    }

    pub(super) fn shell() -> io::Result<()> {
        Command::new("/bin/sh").args(["-c", "exit 0"]).status().map(drop)
    }

    /// The file by io_uring, which seccomp does not see.
    pub(super) fn ring() -> io::Result<()> {
        let mut ring = IoUring::new(2)?;
        let open = opcode::OpenAt::new(types::Fd(libc::AT_FDCWD), c"/etc/passwd".as_ptr())
            .flags(libc::O_RDONLY | libc::O_CLOEXEC);
        // SAFETY: the path lives for ever.
        unsafe { ring.submission().push(&open.build()) }.map_err(io::Error::other)?;
        ring.submit_and_wait(1)?;
        let result = ring.completion().next().map_or(-libc::EIO, |done| done.result());
        if result < 0 {
            return Err(io::Error::from_raw_os_error(-result));
        }
        // SAFETY: the kernel has just made it for this thread alone.
        drop(unsafe { <std::os::fd::OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(result) });
        Ok(())
    }

    pub(super) fn write() -> io::Result<()> {
        let path = std::env::temp_dir().join(format!("lamna-planted-{}", std::process::id()));
        File::create(&path).and_then(|_| std::fs::remove_file(path))
    }

    pub(super) fn namespace() -> io::Result<()> {
        // SAFETY: it changes how this thread sees mounts, and touches no memory.
        match unsafe { libc::unshare(libc::CLONE_NEWNS) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// No process listens there: a caller that may connect is refused.
    pub(super) fn connect() -> io::Result<()> {
        match std::net::TcpStream::connect("127.0.0.1:1") {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
            other => other.map(drop),
        }
    }
}
