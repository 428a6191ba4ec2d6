//! Properties that clients have given to files and folders, kept with these by the file system.
//!
//! Owns: the extended attribute (xattr(7)) that holds them, in whatever form. Guarantees: it goes where its file goes,
//! and ends with it; what a link leads to is not asked. Bounded here, and by the file system: ext4 has about 4 KB for
//! each file. Does not know what is in it.

use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::fs::XattrFlags;
use rustix::io::{Errno, retry_on_intr};

const NAME: &str = "user.lamna.properties";
/// Bytes of all properties of a file.
pub const BYTES_MAX: usize = 16 * 1024;

/// Those of an open file or folder; none if it has none, or the file system keeps none.
///
/// # Errors
/// The error of `fgetxattr(2)`.
pub fn read(file: BorrowedFd<'_>) -> Result<Option<Vec<u8>>, Errno> {
    let mut bytes = vec![0; BYTES_MAX];
    given(retry_on_intr(|| rustix::fs::fgetxattr(file, NAME, &mut bytes[..])), bytes)
}

/// Those of `name` in an open folder. A link has none.
///
/// # Errors
/// The error of `lgetxattr(2)`.
pub fn read_at(folder: BorrowedFd<'_>, name: &[u8]) -> Result<Option<Vec<u8>>, Errno> {
    let path = [format!("/proc/self/fd/{}/", folder.as_raw_fd()).as_bytes(), name].concat();
    // Most files have none: that is found out without memory for some.
    match retry_on_intr(|| rustix::fs::lgetxattr_query(&*path, NAME)) {
        Ok(0) => Ok(None),
        Ok(_) => {
            let mut bytes = vec![0; BYTES_MAX];
            given(retry_on_intr(|| rustix::fs::lgetxattr(&*path, NAME, &mut bytes[..])), bytes)
        }
        Err(errno) => given(Err(errno), Vec::new()),
    }
}

fn given(length: Result<usize, Errno>, mut bytes: Vec<u8>) -> Result<Option<Vec<u8>>, Errno> {
    match length {
        Ok(length) => {
            bytes.truncate(length);
            Ok((length > 0).then_some(bytes))
        }
        Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Gives an open file or folder these in the place of others; none of them if that is empty.
///
/// # Errors
/// `ENOSPC` or `E2BIG` if they are too many; `EOPNOTSUPP` if the file system keeps none; else what `fsetxattr(2)` says.
pub fn write(file: BorrowedFd<'_>, properties: &[u8]) -> Result<(), Errno> {
    if properties.is_empty() {
        return match retry_on_intr(|| rustix::fs::fremovexattr(file, NAME)) {
            Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(()),
            removed => removed,
        };
    }
    if properties.len() > BYTES_MAX {
        return Err(Errno::TOOBIG);
    }
    retry_on_intr(|| rustix::fs::fsetxattr(file, NAME, properties, XattrFlags::empty()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn properties_go_with_their_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        std::fs::write(&path, "").unwrap();
        let file = std::fs::File::open(&path).unwrap();
        let folder = std::fs::File::open(directory.path()).unwrap();
        assert_eq!(read(file.as_fd()), Ok(None));
        match write(file.as_fd(), b"abc") {
            // Not every file system has them.
            Err(Errno::OPNOTSUPP) => return,
            written => written.unwrap(),
        }
        std::fs::rename(&path, directory.path().join("b")).unwrap();
        assert_eq!(read_at(folder.as_fd(), b"b"), Ok(Some(b"abc".to_vec())));
        assert_eq!(read_at(folder.as_fd(), b"a"), Ok(None));
        assert_eq!(read(file.as_fd()), Ok(Some(b"abc".to_vec())));
        write(file.as_fd(), b"").unwrap();
        assert_eq!((read(file.as_fd()), write(file.as_fd(), b"")), (Ok(None), Ok(())));
        assert_eq!(write(file.as_fd(), &vec![0; BYTES_MAX + 1]), Err(Errno::TOOBIG));
    }
}
