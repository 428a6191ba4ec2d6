//! Directories of locations of nginx: `alias` and `root`.
//!
//! Owns: what becomes of them. Guarantees: files of another directory than that of the site are in an alias, or are not
//! served. Pure.

use lamna_config::render::quoted;
use lamna_config::route::pattern::Pattern;

use super::syntax::Directive;
use super::{Action, Names, Scope};
use crate::{DENIED_PRIORITY, DENIED_WORDS, Draft, Route, Site, denied};

/// Another directory in place of what the location begins with.
pub(super) fn alias(directive: &Directive, pattern: &Pattern, action: &mut Action, site: &mut Site, draft: &mut Draft) {
    let to = directive.argument(0);
    match pattern {
        Pattern::Prefix(prefix) if prefix != "/" && !to.contains('$') && prefix.ends_with('/') == to.ends_with('/') => {
            beneath(directive, prefix, to, site, draft);
        }
        Pattern::Prefix(prefix) if prefix.ends_with('/') && prefix != "/" && !to.contains('$') => {
            // nginx puts what follows right behind it, into the last part of the path.
            lose_directory(directive, "the directory ends with `/` where its location does", action, draft);
        }
        _ => lose_directory(directive, "another directory is for paths that begin alike", action, draft),
    }
}

/// Another root for a location: files are beneath it with their whole path.
pub(super) fn root(
    directive: &Directive,
    scope: &mut Scope,
    pattern: &Pattern,
    (names, action): (&Names, &mut Action),
    site: &mut Site,
    draft: &mut Draft,
) {
    let root = directive.argument(0);
    match pattern {
        // All of the site is there.
        Pattern::Exact(_) | Pattern::Regex(_) | Pattern::Glob(_) if names.root.as_deref() == Some(root) => {
            scope.root = Some(root.to_owned());
        }
        _ if root.contains('$') => lose_directory(directive, "a directory is written out", action, draft),
        Pattern::Prefix(prefix) if prefix == "/" => {
            match site.keys.iter_mut().find(|(key, _)| *key == "root") {
                Some((_, value)) => *value = quoted(root),
                None => site.keys.insert(0, ("root", quoted(root))),
            }
            draft.lost.retain(|note| note.line != site.line || !note.words.contains("has no `root`"));
            scope.root = Some(root.to_owned());
        }
        Pattern::Prefix(prefix) => {
            beneath(directive, prefix, &format!("{}{prefix}", root.trim_end_matches('/')), site, draft);
            scope.root = Some(root.to_owned());
        }
        _ => lose_directory(directive, "another directory is for paths that begin alike", action, draft),
    }
}

/// The directory `to` for all paths beneath `prefix`; those that go on without a slash are in it there, and are not
/// served here.
fn beneath(directive: &Directive, prefix: &str, to: &str, site: &mut Site, draft: &mut Draft) {
    let whole = |path: &str| format!("{}/", path.trim_end_matches('/'));
    site.aliases.push((whole(prefix), whole(to)));
    if !prefix.ends_with('/') {
        let rest = format!("^{}[^/]", regex::escape(prefix));
        let why = format!("paths that fit `{rest}` are in another directory there, and are answered with 404");
        draft.lose(directive.line, format!("`{}` for all that `{prefix}` begins: {why}", directive.text()));
        let keys = [("match", format!("{{ regex = {} }}", quoted(&rest))), ("priority", DENIED_PRIORITY.to_owned())];
        site.routes.push(Route { line: directive.line, keys: keys.into_iter().chain(denied()).collect() });
    }
}

/// Denies a location whose files are in another directory: they are not in that of the site here.
fn lose_directory(directive: &Directive, why: &str, action: &mut Action, draft: &mut Draft) {
    draft.lose(directive.line, format!("`{}`: {why}; {DENIED_WORDS}", directive.text()));
    action.is_denied = true;
}
