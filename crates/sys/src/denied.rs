//! Which part of a path denies access to it.
//!
//! Owns: the search for it, and the sentence that says it. Looks at names only after the kernel has refused one: what
//! it says is for people, and decides nothing. Waits for the disk.

use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, accessat, readlink};
use rustix::io::Errno;
use rustix::process::geteuid;

/// The component of a path that denies access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denied {
    /// The component of the path.
    pub path: PathBuf,
    /// The permission that is missing there.
    pub missing: Missing,
}

/// A permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// To look up names in a directory: `x`.
    Search,
    /// To read a file or to list a directory: `r`.
    Read,
}

/// The first component of `path`, which is absolute, that keeps this process from reading what is there. None if
/// nothing does, as the kernel says, or if something on the way does not exist.
pub fn denied(path: &Path) -> Option<Denied> {
    search(path, LINKS_MAX)
}

/// Symbolic links that are followed: as many as the kernel would.
const LINKS_MAX: usize = 40;

fn search(path: &Path, links_max: usize) -> Option<Denied> {
    let may = |path: &Path, access| accessat(CWD, path, access, AtFlags::EACCESS);
    let mut reached = PathBuf::from("/");
    let names = path.components().filter(|part| !matches!(part, Component::RootDir));
    for name in names {
        if !reached.is_dir() {
            return None;
        }
        if may(&reached, Access::EXEC_OK) == Err(Errno::ACCESS) {
            return Some(Denied { path: reached, missing: Missing::Search });
        }
        let next = reached.join(name);
        if may(&next, Access::EXISTS) == Err(Errno::ACCESS) {
            // The directory may be searched, so this is a link to where something denies access.
            let target = readlink(&next, Vec::new()).ok()?;
            let target = reached.join(std::str::from_utf8(target.as_bytes()).ok()?);
            return if links_max == 0 { None } else { search(&target, links_max - 1) };
        }
        reached = next;
    }
    (may(&reached, Access::READ_OK) == Err(Errno::ACCESS)).then_some(Denied { path: reached, missing: Missing::Read })
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display().to_string();
        let deed = match self.missing {
            Missing::Search => "search the directory",
            Missing::Read => "read",
        };
        write!(f, "user {} may not {deed} `{}`", geteuid().as_raw(), path.escape_debug())?;
        match std::fs::metadata(&self.path) {
            Ok(found) => {
                write!(f, " (mode {:04o}, of user {} and group {})", found.mode() & 0o7777, found.uid(), found.gid())
            }
            Err(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{Permissions, create_dir_all, set_permissions, write};
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn what_may_be_read_or_is_not_there_is_denied_by_nothing() {
        let root = tempfile::tempdir().unwrap();
        write(root.path().join("file"), "").unwrap();
        for name in ["", "file", "nothing", "file/beneath", "nothing/at/all"] {
            assert_eq!(denied(&root.path().join(name)), None, "{name}");
        }
    }

    #[test]
    fn the_component_that_denies_is_found_through_links() {
        if geteuid().is_root() {
            eprintln!("skipped: root is denied nothing; crates/cli/tests/serve/errors.rs shows it for another user");
            return;
        }
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        create_dir_all(at("closed/inner")).unwrap();
        write(at("secret"), "").unwrap();
        symlink("closed/inner", at("link")).unwrap();
        set_permissions(at("closed"), Permissions::from_mode(0o000)).unwrap();
        set_permissions(at("secret"), Permissions::from_mode(0o200)).unwrap();
        let found = |name: &str| denied(&at(name)).map(|found| (found.path, found.missing));
        assert_eq!(found("closed/inner/file"), Some((at("closed"), Missing::Search)));
        assert_eq!(found("link/file"), Some((at("closed"), Missing::Search)));
        assert_eq!(found("closed"), Some((at("closed"), Missing::Read)));
        assert_eq!(found("secret"), Some((at("secret"), Missing::Read)));
        set_permissions(at("closed"), Permissions::from_mode(0o700)).unwrap();
    }
}
