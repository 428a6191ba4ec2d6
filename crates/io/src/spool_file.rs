//! A file without a name, for what is too long for memory and is read back soon.
//!
//! Owns: [`SpoolFile`]. Guarantees: no other process finds the file, and nothing is left of it when it is dropped or
//! its process ends, however that ends; where the file system has no files without names (`O_TMPFILE`, open(2)), it has
//! one for the moment between two system calls. Dropping it does not wait for the disk. Does not write to stable
//! storage.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::{Errno, ReadWriteFlags};

use crate::new_file::{close_elsewhere, unused_name};
use crate::{Blocked, Wait};

/// See the module.
#[derive(Debug)]
pub struct SpoolFile {
    /// Absent once it has been dropped.
    file: Option<OwnedFd>,
    bytes: u64,
}

const FLAGS: OFlags = OFlags::RDWR.union(OFlags::CLOEXEC);
/// For the user of the server alone.
const MODE: Mode = Mode::RUSR.union(Mode::WUSR);

impl SpoolFile {
    /// An empty one on the file system of `directory`.
    ///
    /// # Errors
    /// The error of `open(2)`.
    pub fn create(directory: &Path) -> Result<SpoolFile, Errno> {
        // With EXCL it can be given no name later.
        let flags = FLAGS | OFlags::TMPFILE | OFlags::EXCL;
        let file = match rustix::io::retry_on_intr(|| rustix::fs::open(directory, flags, MODE)) {
            // Not every file system has them.
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => create_named(directory)?,
            opened => opened?,
        };
        Ok(SpoolFile { file: Some(file), bytes: 0 })
    }

    /// Bytes that have been written.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Writes `bytes` behind what has been written.
    ///
    /// # Errors
    /// The error of `write(2)`. Then the file is of no use any more, and holds no space.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Errno> {
        let written = self.write_part(bytes).1;
        if written.is_err() {
            // The writer may wait, and gives it up now: a client that is told that the disk is full finds room again.
            self.file = None;
        }
        written
    }

    /// Writes as much of `bytes` behind what has been written as there is room for. How many bytes that were: fewer
    /// than all where the file system is full, or the file may not grow. What has been written stays.
    ///
    /// # Errors
    /// The error of `write(2)`, if it is another.
    pub fn append(&mut self, bytes: &[u8]) -> Result<usize, Errno> {
        match self.write_part(bytes) {
            (written, Ok(()) | Err(Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) => Ok(written),
            (_, Err(errno)) => Err(errno),
        }
    }

    /// How many bytes have been written, and why no more.
    fn write_part(&mut self, bytes: &[u8]) -> (usize, Result<(), Errno>) {
        let Some(file) = &self.file else { return (0, Err(Errno::BADF)) };
        let mut written = 0;
        while written < bytes.len() {
            match rustix::io::retry_on_intr(|| rustix::io::write(file, &bytes[written..])) {
                Ok(part) => {
                    written += part;
                    self.bytes += part as u64;
                }
                Err(errno) => return (written, Err(errno)),
            }
        }
        (written, Ok(()))
    }

    /// Fills `buffer` from `offset` on, as far as that goes at once. How many bytes that were; 0 at the end.
    ///
    /// # Errors
    /// [`Blocked::Disk`] with [`Wait::No`] if none of it is in memory, or if that cannot be told here.
    pub fn read(&self, buffer: &mut [u8], offset: u64, wait: Wait) -> Result<usize, Blocked> {
        let file = self.file.as_ref().ok_or(Blocked::Failed(Errno::BADF))?;
        rustix::io::retry_on_intr(|| match wait {
            Wait::Yes => rustix::io::pread(file, &mut *buffer, offset),
            Wait::No => {
                let slices = &mut [std::io::IoSliceMut::new(buffer)];
                rustix::io::preadv2(file, slices, offset, ReadWriteFlags::NOWAIT)
            }
        })
        .map_err(|errno| match (errno, wait) {
            (Errno::AGAIN | Errno::OPNOTSUPP | Errno::NOSYS | Errno::PERM, Wait::No) => Blocked::Disk,
            _ => Blocked::Failed(errno),
        })
    }
}

impl Drop for SpoolFile {
    fn drop(&mut self) {
        if let Some(file) = self.file.take() {
            close_elsewhere(file);
        }
    }
}

fn create_named(directory: &Path) -> Result<OwnedFd, Errno> {
    let path = directory.join(unused_name());
    let flags = FLAGS | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
    let file = rustix::io::retry_on_intr(|| rustix::fs::open(&path, flags, MODE))?;
    rustix::fs::unlinkat(rustix::fs::CWD, &path, AtFlags::empty())?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_from_anywhere_and_has_no_name() {
        let directory = tempfile::tempdir().unwrap();
        let named = SpoolFile { file: Some(create_named(directory.path()).unwrap()), bytes: 0 };
        for mut file in [SpoolFile::create(directory.path()).unwrap(), named] {
            file.write(b"abc").unwrap();
            assert_eq!(file.append(b"def"), Ok(3));
            assert_eq!(file.bytes(), 6);
            let mut buffer = [0; 4];
            assert_eq!(file.read(&mut buffer, 1, Wait::Yes).unwrap(), 4);
            assert_eq!(&buffer, b"bcde");
            assert_eq!(file.read(&mut buffer, 6, Wait::Yes).unwrap(), 0);
            assert!(matches!(file.read(&mut buffer, 4, Wait::No), Ok(2) | Err(Blocked::Disk)));
            assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
        }
    }

    fn full() -> SpoolFile {
        SpoolFile { file: Some(rustix::fs::open("/dev/full", FLAGS, MODE).unwrap()), bytes: 0 }
    }

    #[test]
    fn where_there_is_no_room_nothing_is_lost_by_appending() {
        let mut file = full();
        assert_eq!((file.append(b"abc"), file.append(b""), file.bytes()), (Ok(0), Ok(0), 0));
        assert!(file.file.is_some(), "what was written before can be read");
    }

    #[test]
    fn where_there_is_no_room_writing_gives_the_file_up() {
        let mut file = full();
        assert_eq!(file.write(b"abc"), Err(Errno::NOSPC));
        assert_eq!((file.write(b"abc"), file.append(b"abc")), (Err(Errno::BADF), Err(Errno::BADF)));
    }

    #[test]
    fn where_nothing_can_be_written_none_is_made() {
        let nowhere = Path::new("/proc/self/fdinfo");
        assert!(SpoolFile::create(nowhere).is_err());
    }
}
