//! Which files an application runs.
//!
//! Owns: what of a path says so, and by which routes. Guarantees: a file that a route has an application run, for some request, is never taken for text: a
//! script is rather seen by nobody than read. Opens nothing.

use std::sync::Arc;

use super::Routes;
use crate::config::route::Switch;
use crate::upstream::group::Group;

impl Routes {
    /// The application that runs the file at `path`: of the routes that may apply, whatever else they ask of a request, the most specific whose application
    /// runs files of its extension.
    pub fn runner(&self, path: &[u8]) -> Option<&Arc<Group>> {
        if !self.run_files() {
            return None;
        }
        for id in self.matcher.by_path(path) {
            let route = self.matcher.route(id);
            let is_certain = route.conditions.is_empty();
            let group = match &route.gateway {
                Switch::Set(gateway) => self.groups.iter().find(|group| group.settings == *gateway),
                Switch::Off if is_certain => return None,
                Switch::Off | Switch::Unset => continue,
            };
            match group.filter(|group| runs(group, path)) {
                Some(group) => return Some(group),
                None if is_certain => return None,
                None => {}
            }
        }
        None
    }
}

/// Whether this application runs files, and those with the extension of `name`.
pub fn runs(group: &Group, name: &[u8]) -> bool {
    group.settings.scripts.as_ref().is_some_and(|scripts| has_extension(name, &scripts.extensions))
}

/// Whether the last part of `name` ends with one of these, and is more than that. Without any, every name does.
fn has_extension(name: &[u8], extensions: &[String]) -> bool {
    if extensions.is_empty() {
        return true;
    }
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
