//! Routes by which nothing is answered.
//!
//! Owns: their keys, and for what they are where Caddy asks more than a route can: for more rather than less.

use super::matcher::Matcher;
use super::syntax::Line;
use super::{DENIED_PRIORITY, DENIED_WORDS, Draft, Route, Site, denied};

/// Nothing is answered for what cannot be done, and for more rather than less.
pub(super) fn deny(line: &Line, matcher: &Matcher, site: &mut Site) {
    let mut keys = vec![("match", matcher.to_wider_toml()), ("priority", DENIED_PRIORITY.to_owned())];
    keys.extend(denied());
    site.routes.push(Route { line: line.line, keys });
}

/// Nothing is answered for paths that `uri` changes.
pub(super) fn deny_changed(line: &Line, words: &[String], matcher: &Matcher, site: &mut Site, draft: &mut Draft) {
    let word = |at: usize| words.get(at).map_or("", String::as_str);
    let slashed = |path: &str| format!("/{}", path.trim_start_matches('/'));
    let is_plain = |text: &str| !text.is_empty() && !text.contains(['{', '*', '[', '\\', '?', '%']);
    let changed = match (word(0), word(1)) {
        _ if !matcher.is_any() => matcher.clone(),
        ("strip_prefix", prefix) if is_plain(prefix) => Matcher::of_paths(&[format!("{}*", slashed(prefix))]),
        ("strip_suffix", suffix) if is_plain(suffix) => Matcher::of_paths(&[format!("*{suffix}")]),
        ("replace", text) if is_plain(text) => Matcher::of_regex(&regex::escape(text)),
        ("path_regexp", regex) => Matcher::of_regex(regex),
        _ => matcher.clone(),
    };
    let why = "another path cannot be said so";
    draft.lose(line.line, format!("`{}`: {why}; {DENIED_WORDS}", line.text()));
    deny(line, &changed, site);
}

/// Nothing is answered for what Caddy may have a matcher fit, and it does not fit here.
pub(super) fn deny_beyond(line: &Line, matcher: &Matcher, site: &mut Site, draft: &mut Draft) {
    let Some(beyond) = matcher.beyond() else { return };
    let why = "of several parameters of one name the first counts here, and any there";
    draft.lose(line.line, format!("`{}`: {why}; what fits {beyond} is answered with 404", line.text()));
    let keys = [("match", beyond)].into_iter().chain(deny_keys()).collect();
    site.routes.push(Route { line: line.line, keys });
}

/// Whether nothing is answered for it.
pub(super) fn is_denied(route: &Route) -> bool {
    route.keys.iter().any(|(key, value)| *key == "priority" && value == DENIED_PRIORITY)
}

/// Keys of a route that denies every client.
pub(super) fn deny_keys() -> impl Iterator<Item = (&'static str, String)> {
    [("priority", DENIED_PRIORITY.to_owned())].into_iter().chain(denied())
}
