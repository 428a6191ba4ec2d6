//! Where the access log is written to: standard output or a file.
//!
//! Owns: the file. Opens, reopens and writes; blocks as long as the system does. Counts and reports nothing.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;

/// Where lines go.
pub(super) enum Sink {
    Stdout,
    File(File, PathBuf),
}

/// A write that stopped early.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Torn {
    /// Bytes that were written.
    pub(super) written_bytes: usize,
    /// Why not all.
    pub(super) error: Errno,
}

impl Sink {
    /// Opens this file for appending, created with mode 0640 if need be.
    pub(super) fn file(path: &Path) -> io::Result<Sink> {
        Ok(Sink::File(open_file(path)?, path.to_owned()))
    }

    /// Opens the file again by its name. The old one stays if that fails.
    pub(super) fn reopen(&mut self) -> io::Result<()> {
        if let Sink::File(file, path) = self {
            *file = open_file(path)?;
        }
        Ok(())
    }

    /// Writes all bytes, in one system call if the system lets it.
    pub(super) fn write_all(&self, bytes: &[u8]) -> Result<(), Torn> {
        match self {
            Sink::Stdout => write_all(rustix::stdio::stdout(), bytes),
            Sink::File(file, _) => write_all(file.as_fd(), bytes),
        }
    }
}

/// The system's words for an error, without the number that the standard library adds.
pub(super) fn cause(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

impl fmt::Display for Sink {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Sink::Stdout => formatter.write_str("standard output"),
            Sink::File(_, path) => path.display().fmt(formatter),
        }
    }
}

pub(super) fn open_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o640).open(path)
}

/// Waits where the descriptor does not block, as another process that shares standard output may have set it.
fn write_all(descriptor: BorrowedFd<'_>, bytes: &[u8]) -> Result<(), Torn> {
    let mut written_bytes = 0;
    while written_bytes < bytes.len() {
        match rustix::io::write(descriptor, &bytes[written_bytes..]) {
            Ok(0) => {
                return Err(Torn { written_bytes, error: Errno::IO });
            }
            Ok(count) => written_bytes += count,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => wait_until_writable(descriptor),
            Err(error) => {
                return Err(Torn { written_bytes, error });
            }
        }
    }
    Ok(())
}

fn wait_until_writable(descriptor: BorrowedFd<'_>) {
    // Whatever poll says, trying to write again says it better.
    let _ = rustix::event::poll(&mut [PollFd::new(&descriptor, PollFlags::OUT)], None);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_that_fails_says_how_far_it_came() {
        let (reader, pipe) = io::pipe().expect("a pipe");
        drop(reader);
        let expected = Torn { written_bytes: 0, error: Errno::PIPE };
        assert_eq!(write_all(pipe.as_fd(), b"a\nb\n"), Err(expected));
    }

    #[test]
    fn a_cause_has_no_number() {
        assert_eq!(cause(&Errno::NOSPC.into()), "No space left on device");
    }
}
