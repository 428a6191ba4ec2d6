//! `rewrite` of nginx: of a server, and of a location, within which it stays.
//!
//! Owns: what becomes of it. One of a server is a route before all locations. One of a location is said by the route of that location if it is for all of
//! its paths; one for some of them is a route of its own, if its expression says by its beginning that it is for none but paths of the location, and no other location is
//! among these.

use lamna_config::render::quoted;
use lamna_config::route::pattern::Pattern;
use lamna_config::route::template::Template;

use super::syntax::Directive;
use super::{Names, location_of};
use crate::{Draft, Route, Site};

/// One of a location, for some of its paths.
#[derive(Clone, Debug)]
pub(super) struct Rewrite {
    pub(super) line: usize,
    text: String,
    pattern: Pattern,
    does: (&'static str, String),
}

/// What one of a location comes to.
pub(super) enum Within {
    /// For all of its paths.
    All(&'static str, String),
    /// For some.
    Some(Rewrite),
    /// For all but those that fit an expression.
    Except((&'static str, String), String),
}

/// Expressions that fit any path.
const ANY: [&str; 8] = ["^", ".*", "^.*", "^.*$", "(.*)", "^(.*)$", "^/", "^/(.*)$"];

/// The expression, and what is done.
fn read(directive: &Directive, names: &Names) -> Result<(Pattern, (&'static str, String)), String> {
    let (regex, to, flag) = (directive.argument(0), directive.argument(1), directive.argument(2));
    let is_address = to.contains("://") || to.starts_with("$scheme");
    let pattern = Pattern::from_regex(regex)?;
    let to = location_of(to, names)?;
    if let Some(missing) = Template::parse(&to)?.missing_from(Some(&pattern)) {
        return Err(format!("it names {missing}, and the expression has no such group"));
    }
    let status = match flag {
        "permanent" => Some(301),
        "redirect" => Some(302),
        _ if is_address => Some(302),
        _ => None,
    };
    let does = match status {
        Some(status) => ("redirect", format!("{{ to = {}, status = {status} }}", quoted(&to))),
        None if to.contains('?') => return Err("files have no query".to_owned()),
        None if to.contains("$host") || !to.starts_with(['/', '$']) => return Err("it is no path".to_owned()),
        None => ("rewrite", quoted(&to)),
    };
    Ok((pattern, does))
}

/// One of a server: a route that comes before all locations.
pub(super) fn of_server(directive: &Directive, names: &Names, site: &mut Site, draft: &mut Draft) {
    let (pattern, does) = match read(directive, names) {
        Ok(read) => read,
        Err(why) => return draft.lose(directive.line, format!("`{}`: {why}", directive.text())),
    };
    let priority = 20_000 - i32::try_from(site.routes.len()).unwrap_or(0);
    let matches = format!("{{ regex = {} }}", quoted(&pattern.text()));
    let keys = vec![("match", matches), ("priority", priority.to_string()), does];
    site.routes.push(Route { line: directive.line, keys });
}

/// One of a location of `pattern`. None, with a note, if it cannot be said.
pub(super) fn of_location(
    directive: &Directive,
    location: &Pattern,
    names: &Names,
    draft: &mut Draft,
) -> Option<Within> {
    let mut lose = |why: &str| draft.lose(directive.line, format!("`{}`: {why}", directive.text()));
    if let Some(except) = except(directive, location, names) {
        return Some(except);
    }
    let (pattern, does) = match read(directive, names) {
        Ok(read) => read,
        Err(why) => {
            lose(&why);
            return None;
        }
    };
    let text = pattern.text();
    let has_groups = does.1.contains("${");
    if ANY.contains(&&*text) && !has_groups {
        return Some(Within::All(does.0, does.1));
    }
    let of_all = ["^(.*)$", "(.*)"].contains(&&*text) && matches!(directive.argument(1), "$1" | "${1}");
    let is_within = match location {
        Pattern::Prefix(prefix) => pattern.prefix().starts_with(prefix.as_str()),
        Pattern::Exact(_) | Pattern::Glob(_) | Pattern::Regex(_) => false,
    };
    if of_all || !is_within {
        lose(
            "it stays within its location, and cannot be said there: its expression does not begin as the paths of the location do",
        );
        return None;
    }
    Some(Within::Some(Rewrite { line: directive.line, text: directive.text(), pattern, does }))
}

/// One whose expression says only how paths do not begin, as in `^/(?!index|remote)`.
fn except(directive: &Directive, location: &Pattern, names: &Names) -> Option<Within> {
    let begins = directive.argument(0).strip_prefix("^/(?!")?.strip_suffix(')')?;
    let Pattern::Regex(of_location) = location else { return None };
    let closes_itself = Pattern::from_regex(&format!("^/(?:{begins})")).is_ok();
    let is_last = matches!(directive.argument(2), "" | "last" | "break");
    let to = location_of(directive.argument(1), names).ok()?;
    let is_path = to.starts_with('/') && !to.contains('?') && !to.contains("$host") && !to.contains("${");
    let regex = format!("^/(?:{begins})(?s:.*)(?:{})", of_location.trim_start_matches('^'));
    let is_plain = closes_itself && is_last && is_path && !of_location.starts_with('^');
    (is_plain && Pattern::from_regex(&regex).is_ok()).then(|| Within::Except(("rewrite", quoted(&to)), regex))
}

impl Rewrite {
    /// Its route beside that of its location, of `priority`; `others` are the patterns of all other locations that come after it.
    pub(super) fn route<'p>(
        &self,
        priority: i32,
        mut others: impl Iterator<Item = &'p Pattern>,
        draft: &mut Draft,
    ) -> Option<Route> {
        if others.any(|other| !other.is_apart_from(&self.pattern)) {
            draft.lose(self.line, format!("`{}`: another location is among its paths", self.text));
            return None;
        }
        let matches = format!("{{ regex = {} }}", quoted(&self.pattern.text()));
        let keys = vec![("match", matches), ("priority", priority.to_string()), self.does.clone()];
        Some(Route { line: self.line, keys })
    }
}
