//! A file that is written under no name and moved into place whole.
//!
//! Owns: [`NewFile`]. Guarantees: a reader of the name sees what was there before or all of what was written; a file
//! that is not moved into place leaves nothing behind, not even if the process is killed, where the file system has
//! files without names (`O_TMPFILE`, open(2)). Elsewhere it has a hidden name meanwhile, which a killed process leaves.
//! Giving a file up does not wait for the disk: freeing gigabytes takes seconds. Does not write to stable storage:
//! after a loss of power the file is what the file system makes of it.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use crate::properties;

/// A file that is being written.
#[derive(Debug)]
pub struct NewFile {
    directory: OwnedFd,
    /// Absent once it has been given up.
    file: Option<OwnedFd>,
    /// Something has been written to it, and it has no name that stays.
    holds_space: bool,
    /// Its name meanwhile, if it has to have one.
    name: Option<Named>,
}

/// A name that a file has meanwhile.
#[derive(Debug)]
struct Named {
    /// Where; none for the directory that it is to be moved into.
    directory: Option<OwnedFd>,
    name: String,
}

/// The file that was under the name before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    /// Nothing.
    Nothing,
    /// A file, which has been replaced.
    File,
}

const WRITE: OFlags = OFlags::WRONLY.union(OFlags::CLOEXEC);
/// The mode of a new file, before the process's umask.
const MODE: Mode = Mode::RUSR.union(Mode::WUSR).union(Mode::RGRP).union(Mode::WGRP).union(Mode::ROTH).union(Mode::WOTH);

impl NewFile {
    /// An empty one, to be moved into `directory`.
    ///
    /// # Errors
    /// The error of `open(2)`.
    pub fn create(directory: OwnedFd) -> Result<NewFile, Errno> {
        match retry(|| rustix::fs::openat(&directory, ".", WRITE | OFlags::TMPFILE, MODE)) {
            Ok(file) => Ok(NewFile::of(directory, file, None)),
            // Not every file system has them.
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT | Errno::INVAL) => NewFile::create_named(directory),
            Err(errno) => Err(errno),
        }
    }

    fn create_named(directory: OwnedFd) -> Result<NewFile, Errno> {
        let name = unused_name();
        let file =
            retry(|| rustix::fs::openat(&directory, name.as_str(), WRITE | OFlags::CREATE | OFlags::EXCL, MODE))?;
        Ok(NewFile::of(directory, file, Some(Named { directory: None, name })))
    }

    fn of(directory: OwnedFd, file: OwnedFd, name: Option<Named>) -> NewFile {
        NewFile { directory, file: Some(file), holds_space: false, name }
    }

    fn file(&self) -> Result<&OwnedFd, Errno> {
        self.file.as_ref().ok_or(Errno::BADF)
    }

    /// `file`, which is complete and has the name `name` in `place`, to be moved into `directory`.
    pub(super) fn complete(directory: OwnedFd, file: OwnedFd, place: OwnedFd, name: String) -> NewFile {
        NewFile::of(directory, file, Some(Named { directory: Some(place), name }))
    }

    /// Writes `bytes` behind what has been written.
    ///
    /// # Errors
    /// The error of `write(2)`.
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<(), Errno> {
        while !bytes.is_empty() {
            self.holds_space = true;
            let file = self.file()?;
            match retry(|| rustix::io::write(file, bytes)) {
                Ok(written) => bytes = &bytes[written..],
                Err(errno) => {
                    // The writer may wait, and gives it up now: a client that is told that the disk is full finds room
                    // again.
                    self.holds_space = false;
                    return Err(errno);
                }
            }
        }
        Ok(())
    }

    /// Gives it the properties of the file `name` in its directory, if one is there that has some.
    pub fn keep_properties(&self, name: &[u8]) {
        if let (Some(file), Ok(Some(properties))) = (&self.file, properties::read_at(self.directory.as_fd(), name)) {
            // Where they cannot be kept, the new file has none.
            let _ = properties::write(file.as_fd(), &properties);
        }
    }

    /// Gives it these properties.
    ///
    /// # Errors
    /// As [`properties::write`].
    pub fn set_properties(&self, properties: &[u8]) -> Result<(), Errno> {
        properties::write(self.file()?.as_fd(), properties)
    }

    /// Moves it to `name` in its directory, in the place of a file that is there, whose permissions it takes over. A
    /// symbolic link is replaced, not followed.
    ///
    /// # Errors
    /// `EISDIR` if a directory is there; else what the system calls say. Then nothing has changed.
    pub fn move_to(mut self, name: &[u8]) -> Result<Before, Errno> {
        if self.name.is_none() {
            match self.link(name) {
                Ok(()) => {
                    self.holds_space = false;
                    return Ok(Before::Nothing);
                }
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno),
            }
            let unused = unused_name();
            self.link(unused.as_bytes())?;
            self.name = Some(Named { directory: None, name: unused });
        }
        let before = self.take_permissions(name)?;
        let Some(own) = &self.name else { return Err(Errno::NOENT) };
        let place = own.directory.as_ref().unwrap_or(&self.directory);
        retry(|| rustix::fs::renameat(place, own.name.as_str(), &self.directory, name))?;
        (self.name, self.holds_space) = (None, false);
        Ok(before)
    }

    /// Moves it to `name` in its directory, where nothing is.
    ///
    /// # Errors
    /// `EEXIST` if something is there, which stays; else what the system calls say.
    pub fn move_to_unused(mut self, name: &[u8]) -> Result<(), Errno> {
        let Some(own) = &self.name else {
            self.link(name)?;
            self.holds_space = false;
            return Ok(());
        };
        let flags = RenameFlags::NOREPLACE;
        let place = own.directory.as_ref().unwrap_or(&self.directory);
        retry(|| rustix::fs::renameat_with(place, own.name.as_str(), &self.directory, name, flags))?;
        (self.name, self.holds_space) = (None, false);
        Ok(())
    }

    fn link(&self, name: &[u8]) -> Result<(), Errno> {
        let descriptor = format!("/proc/self/fd/{}", self.file()?.as_raw_fd());
        retry(|| rustix::fs::linkat(CWD, descriptor.as_str(), &self.directory, name, AtFlags::SYMLINK_FOLLOW))
    }

    fn take_permissions(&self, name: &[u8]) -> Result<Before, Errno> {
        match rustix::fs::statat(&self.directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if rustix::fs::FileType::from_raw_mode(stat.st_mode).is_dir() => Err(Errno::ISDIR),
            Ok(stat) if rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file() => {
                // Without the right to, it has those of a new file.
                let _ = rustix::fs::fchmod(self.file()?.as_fd(), Mode::from_raw_mode(stat.st_mode & 0o777));
                Ok(Before::File)
            }
            Ok(_) => Ok(Before::File),
            Err(Errno::NOENT) => Ok(Before::Nothing),
            Err(errno) => Err(errno),
        }
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some(own) = &self.name {
            let place = own.directory.as_ref().unwrap_or(&self.directory);
            // If that fails, it stays, unreported.
            let _ = rustix::fs::unlinkat(place, own.name.as_str(), AtFlags::empty());
        }
        if let Some(file) = self.file.take().filter(|_| self.holds_space) {
            close_elsewhere(file);
        }
    }
}

/// Closes a file without a name, whose space is freed with that, in a thread for that: who gives a file up may be an
/// event loop.
pub(super) fn close_elsewhere(file: OwnedFd) {
    static CLOSER: OnceLock<Sender<OwnedFd>> = OnceLock::new();
    let closer = CLOSER.get_or_init(|| {
        let (sender, files) = channel();
        // Without the thread there is no receiver.
        let _ = std::thread::Builder::new().name("closer".to_owned()).spawn(move || files.into_iter().for_each(drop));
        sender
    });
    // Without a receiver, it comes back with the error, and is closed here.
    let _ = closer.send(file);
}

/// A hidden name, which is not served and which no other process uses.
pub fn unused_name() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let process = rustix::process::getpid().as_raw_nonzero();
    format!(".lamna-new-{process}-{}-{}", lamna_sys::clock::unix_ms(), NEXT.fetch_add(1, Relaxed))
}

fn retry<T>(call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    rustix::io::retry_on_intr(call)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    fn create(directory: &Path, named: bool) -> NewFile {
        let opened: OwnedFd = fs::File::open(directory).unwrap().into();
        if named { NewFile::create_named(opened).unwrap() } else { NewFile::create(opened).unwrap() }
    }

    fn names(directory: &Path) -> Vec<String> {
        fs::read_dir(directory).unwrap().map(|one| one.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn a_file_appears_whole_or_not_at_all() {
        for named in [false, true] {
            let directory = tempfile::tempdir().unwrap();
            let mut file = create(directory.path(), named);
            file.write(b"abc").unwrap();
            assert!(!directory.path().join("a").exists());
            assert_eq!(file.move_to(b"a"), Ok(Before::Nothing));
            assert_eq!(fs::read(directory.path().join("a")).unwrap(), b"abc");
            let mut other = create(directory.path(), named);
            other.write(b"d").unwrap();
            drop(other);
            assert_eq!(names(directory.path()), ["a"]);
        }
    }

    #[test]
    fn a_file_takes_the_place_and_the_permissions_of_another_and_not_of_a_directory() {
        use std::os::unix::fs::PermissionsExt;
        for named in [false, true] {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("a");
            fs::write(&path, "old").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
            let mut file = create(directory.path(), named);
            file.write(b"new").unwrap();
            assert_eq!(file.move_to(b"a"), Ok(Before::File));
            assert_eq!(fs::read(&path).unwrap(), b"new");
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
            fs::create_dir(directory.path().join("d")).unwrap();
            assert_eq!(create(directory.path(), named).move_to(b"d"), Err(Errno::ISDIR));
            assert_eq!(names(directory.path()).len(), 2);
        }
    }

    #[test]
    fn what_is_to_be_new_replaces_nothing() {
        for named in [false, true] {
            let directory = tempfile::tempdir().unwrap();
            assert_eq!(create(directory.path(), named).move_to_unused(b"a"), Ok(()));
            let mut other = create(directory.path(), named);
            other.write(b"b").unwrap();
            assert_eq!(other.move_to_unused(b"a"), Err(Errno::EXIST));
            assert_eq!((fs::read(directory.path().join("a")).unwrap(), names(directory.path()).len()), (Vec::new(), 1));
        }
    }

    #[test]
    fn the_space_of_what_is_given_up_is_freed_by_a_thread_for_that() {
        let directory = tempfile::tempdir().unwrap();
        let mut file = create(directory.path(), false);
        file.write(b"abc").unwrap();
        drop(file);
        let is_closer = |task: fs::DirEntry| fs::read(task.path().join("comm")).is_ok_and(|name| name == b"closer\n");
        let names_itself = || fs::read_dir("/proc/self/task").unwrap().flatten().any(is_closer);
        let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while !names_itself() {
            assert!(std::time::Instant::now() < end, "there is such a thread");
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_link_is_replaced_and_not_followed() {
        let (directory, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(outside.path().join("b"), "safe").unwrap();
        std::os::unix::fs::symlink(outside.path().join("b"), directory.path().join("a")).unwrap();
        let mut file = create(directory.path(), false);
        file.write(b"new").unwrap();
        assert!(file.move_to(b"a").is_ok());
        assert_eq!(fs::read(outside.path().join("b")).unwrap(), b"safe");
        assert_eq!(fs::read(directory.path().join("a")).unwrap(), b"new");
    }
}
