//! Log lines about a translation.
//!
//! Owns: their words. Guarantees: a line is written for a client that waits, and for nobody else. Answers nothing.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use lamna_io::log::errors::{self, Level, Peer};
use lamna_sys::denied::denied;
use rustix::io::Errno;

use super::Translation;

impl Translation<'_> {
    /// Writes a log line about the target, if a client waits for the answer.
    pub(super) fn report(&self, peer: Peer, what: impl FnOnce() -> (Level, String)) {
        if self.store.is_none() {
            return;
        }
        errors::report_peer(peer, &self.site.label(), self.request, || {
            let (level, what) = what();
            let path = String::from_utf8_lossy(self.path);
            let shown: String = path.chars().take(PATH_CHARACTERS_SHOWN).collect();
            (level, format!("`{}`: {what}", shown.escape_debug()))
        });
    }

    /// Why the kernel refuses what is asked for. Looks at the way there by name: once for each line that is written.
    pub(super) fn why_denied(&self, errno: Errno) -> String {
        if errno == Errno::NXIO {
            return "it is neither a file nor a directory".to_owned();
        }
        let found = self.file_path().and_then(|file| {
            let indices = self.site.settings.index.iter().map(|index| file.join(index));
            [file.clone()].into_iter().chain(indices).find_map(|path| denied(&path))
        });
        found.map_or_else(|| errno.to_string(), |denied| denied.to_string())
    }

    /// The name of what is asked for in the file system.
    pub fn file_path(&self) -> Option<PathBuf> {
        let path = self.path;
        let (root, name) = match self.alias_or_root(path) {
            Some((root, name)) => (root.path(), name),
            None => {
                let user = self.site.in_user_directory(path)?;
                let name = path.get(b"/~".len() + user.len() + 1..).unwrap_or_default();
                (self.site.user_root(user, self.wait, self.now_ms).ok()?.path(), name)
            }
        };
        Some(root.join(OsStr::from_bytes(name)))
    }
}

/// Longest part of a path in a message, in characters.
const PATH_CHARACTERS_SHOWN: usize = 200;
