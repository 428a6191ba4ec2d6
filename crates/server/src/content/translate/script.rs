//! Files that an application runs, found on the way from a path to a file.
//!
//! Owns: which files are scripts, by the route of the path. Guarantees: where a route has an application that runs files of some extension, no
//! such file is ever served as text; a script is a regular file beneath the root, found from the root down, so that `/image.png/x.php` never
//! has a picture run.

use std::sync::Arc;

use super::{Open, Question};
use crate::cache::{Entry, Script};
use crate::config::gateway::ScriptSettings;
use crate::content::site::Root;
use crate::io::Blocked;
use crate::io::file_state::Stamps;

impl Question<'_> {
    fn scripts(&self) -> Option<&ScriptSettings> {
        self.rules.rules.gateway.as_ref()?.scripts.as_ref()
    }

    /// Whether a file of this name is run.
    pub(super) fn is_script(&self, name: &[u8]) -> bool {
        self.scripts().is_some_and(|scripts| has_extension(name, &scripts.extensions))
    }

    /// Index files that are scripts, where the route says nothing of index files.
    pub(super) fn index_scripts(&self) -> &[String] {
        self.scripts().map_or(&[], |scripts| &scripts.index)
    }

    /// The entry of a script.
    pub(super) fn script(&self, open: &Open, path_info: Vec<u8>) -> Result<Arc<Entry>, Blocked> {
        let root = self.alias_or_root(self.path).map_or(&self.site.root, |(root, _)| root);
        let name = [b"/", &*open.name].concat();
        let script = Script { root: Root::path(root), name, path_info };
        let stamps = Stamps::new(vec![open.stamp]);
        Ok(Arc::new(Entry::of_script(script, self.rules.errors.not_found.clone(), stamps, self.now_ms)))
    }

    /// The script that a path goes beyond, as `/a.php` in `/a.php/b`: the first file on the way down (RFC 3875 4.1.5).
    pub(super) fn script_before_its_end(&self) -> Result<Option<Arc<Entry>>, Blocked> {
        if self.scripts().is_none() || self.is_hidden(self.path) {
            return Ok(None);
        }
        let ends = memchr::memchr_iter(b'/', self.path).skip(1);
        for end in ends.filter(|end| self.is_script(&self.path[..*end])) {
            let place = self.place(&self.path[..end])?;
            if let Some(open) = self.open_regular(&place.directory, place.name)? {
                return self.script(&open, self.path[end..].to_vec()).map(Some);
            }
        }
        Ok(None)
    }
}

/// Whether the last part of `name` ends with one of these, and is more than that.
fn has_extension(name: &[u8], extensions: &[String]) -> bool {
    let file = name.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    let dot = memchr::memrchr(b'.', file);
    dot.is_some_and(|dot| dot > 0 && extensions.iter().any(|one| file[dot + 1..] == *one.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_told_by_the_extension_of_its_own_name() {
        let php = ["php".to_owned()];
        for (name, is) in [
            ("a.php", true),
            ("b/a.php", true),
            ("a.PHP", false),
            (".php", false),
            ("a.php.txt", false),
            ("a.php/b", false),
        ] {
            assert_eq!(has_extension(name.as_bytes(), &php), is, "{name}");
        }
    }
}
