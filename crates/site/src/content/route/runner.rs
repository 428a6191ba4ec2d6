//! Which files an application runs.
//!
//! Owns: what of a path says so, and by which routes. Guarantees: a file that a route has an application run, for some request, is never taken for text: a
//! script is rather sent to no client than read by one. Opens nothing.

use std::sync::Arc;

use super::Routes;
use crate::upstream::group::Group;

impl Routes {
    /// The application that runs the file at `path`: of the routes that may apply, whatever else they ask of a request, the most specific whose application
    /// runs files of its extension.
    pub fn runner(&self, path: &[u8]) -> Option<&Arc<Group>> {
        if !self.run_files() {
            return None;
        }
        let settings = self.matcher.application_at(path)?;
        self.groups.iter().find(|group| group.settings == *settings)
    }
}

/// Whether this application runs files, and those with the extension of `name`.
pub fn runs(group: &Group, name: &[u8]) -> bool {
    group.settings.scripts.as_ref().is_some_and(|scripts| scripts.run(name))
}

#[cfg(test)]
mod tests {
    use lamna_config::gateway::ScriptSettings;

    #[test]
    fn a_script_is_told_by_the_extension_of_its_own_name() {
        let php = ScriptSettings::default();
        for (name, is) in [
            ("a.php", true),
            ("b/a.php", true),
            ("a.PHP", false),
            (".php", false),
            ("a.php.txt", false),
            ("a.php/b", false),
        ] {
            assert_eq!(php.run(name.as_bytes()), is, "{name}");
        }
    }
}
