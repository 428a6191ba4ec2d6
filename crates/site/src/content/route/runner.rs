//! Which files an application runs.
//!
//! Owns: what of a path says so, and by which routes. Guarantees: a file that a route has an application run, for some
//! request, is never taken for text: a script is rather sent to no client than read by one. Opens nothing.

use std::sync::Arc;

use super::{Effective, Routes};
use crate::upstream::group::Group;

impl Routes {
    /// The application that runs the file at `path`: of the routes that may apply, whatever else they ask of a request,
    /// the most specific whose application runs files of its extension.
    pub fn runner(&self, path: &[u8]) -> Option<&Arc<Group>> {
        if !self.run_files() {
            return None;
        }
        let settings = self.matcher.application_at(path)?;
        self.groups.iter().find(|group| group.settings == *settings)
    }

    /// Whether some application runs the file at `path`. No folder is run.
    pub fn is_run(&self, path: &[u8]) -> bool {
        !path.ends_with(b"/") && self.runner(path).is_some()
    }

    /// Whether a route leaves `path` to files (`fastcgi = false`), whatever else of a request decides.
    pub fn leave_to_files(&self, path: &[u8]) -> bool {
        self.matcher.leaves_to_files(path)
    }

    /// Whether a request for `path`, to which `rules` apply, has `group` run the file there: it is neither led away nor
    /// answered by something else.
    pub fn run_at(&self, path: &[u8], rules: &Effective, group: &Arc<Group>) -> bool {
        let is_led_away = rules.rules.redirect.as_ref().is_some_and(|(redirect, _)| !redirect.if_missing);
        let own = rules.gateway.as_ref().filter(|own| runs(own, path)).or_else(|| self.runner(path));
        let is_same = own.is_some_and(|own| Arc::ptr_eq(own, group));
        is_same && !is_led_away && !rules.asks_an_application() && self.look_for(path, rules)
    }

    /// Whether `path` itself is looked for, or what is behind it, where `rules` apply to it.
    fn look_for(&self, path: &[u8], rules: &Effective) -> bool {
        let is_there = |found: &[u8]| found.strip_prefix(path).is_some_and(|rest| matches!(rest, [] | [b'/', ..]));
        let rewritten = match &rules.rules.rewrite {
            None => Some(path.to_vec()),
            Some((template, id)) => self.filled(template, *id, path, path),
        };
        let Some(rewritten) = rewritten else { return false };
        match rules.rules.try_files.as_ref().filter(|(tried, _)| !tried.is_empty()) {
            None => is_there(&rewritten),
            Some((tried, id)) => {
                let mut found = tried.iter().filter_map(|template| self.filled(template, *id, &rewritten, path));
                found.any(|found| is_there(&found))
            }
        }
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
