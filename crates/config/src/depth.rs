//! How far settings are checked outside of the file that names them, and whether a directory can be used.
//!
//! Owns: [`Depth`]. Makes nothing and keeps nothing open.

use std::path::Path;

use rustix::fs::{Access, AtFlags, CWD, accessat};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::address::ListenAddress;

/// How much of what is outside of the file is looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Depth {
    /// Nothing.
    Text,
    /// The resources that every process needs to serve with these settings.
    Serve,
    /// Also those of a process that binds its addresses itself, which the successor of another does not.
    Check(Probe),
}

/// Finds out whether one could listen at an address: a message and what to do about it if not.
pub type Probe = fn(&ListenAddress) -> Result<(), (String, String)>;

/// Whether a directory is there, and this user may look for names in it, as a message if not.
pub(crate) fn check_directory(path: &Path) -> Result<(), String> {
    let shown = path.display();
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => {}
        Ok(_) => return Err(format!("`{shown}` is not a directory")),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(format!("the directory `{shown}` does not exist"));
        }
        Err(error) => return Err(format!("the directory `{shown}` cannot be looked at: {error}")),
    }
    match accessat(CWD, path, Access::EXEC_OK, AtFlags::EACCESS) {
        Err(Errno::ACCESS) => {
            Err(format!("this user ({}) may not search the directory `{shown}`: change its owner or mode", geteuid()))
        }
        _ => Ok(()),
    }
}
