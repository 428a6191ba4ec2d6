//! `rewrite` of nginx: of a server, and of a location, within which it stays.
//!
//! Owns: what becomes of it. One of a server is a route before all locations. One of a location is said by the route of
//! that location if it is for all of its paths; one for some of them is a route of its own, if its expression says by
//! its beginning that it is for none but paths of the location, and no other location is among these. Guarantees: what
//! one that cannot be said is for is not served, as it was another program's, or led elsewhere; for more paths if need
//! be.

use lamna_config::render::quoted;
use lamna_config::route::pattern::Pattern;
use lamna_config::route::template::Template;

use super::pattern::{deny_fitting, wider};
use super::syntax::Directive;
use super::{Names, location_of};
use crate::{DENIED_WORDS, Draft, Route, Site, is_program};

/// One of a location, for some of its paths.
#[derive(Clone, Debug)]
pub(super) struct Rewrite {
    pub(super) line: usize,
    text: String,
    pattern: Pattern,
    does: (&'static str, String),
}

/// The form of a location's rewrite here.
pub(super) enum Within {
    /// For all of its paths.
    All(&'static str, String),
    /// For some.
    Some(Rewrite),
    /// For all but those that fit an expression.
    Except((&'static str, String), String),
    /// It cannot be said, for what fits this expression; none is all of the location.
    Lost(Option<String>),
}

/// Expressions that fit any path.
const ANY: [&str; 8] = ["^", ".*", "^.*", "^.*$", "(.*)", "^(.*)$", "^/", "^/(.*)$"];

/// The expression, and what is done.
fn read(directive: &Directive, names: &Names) -> Result<(Pattern, (&'static str, String)), String> {
    let (regex, to) = (directive.argument(0), directive.argument(1));
    let pattern = Pattern::from_regex(regex)?;
    let to = match (leads_away(directive), to.strip_suffix('?')) {
        (true, _) => with_whole_path(regex, to),
        // A file is the same with and without a query; it has none.
        (false, Some(bare)) if !is_program(bare) => bare.to_owned(),
        (false, _) => to.to_owned(),
    };
    let to = location_of(&to, names)?;
    if let Some(missing) = Template::parse(&to)?.missing_from(Some(&pattern)) {
        return Err(format!("it names {missing}, and the expression has no such group"));
    }
    if leads_away(directive) && !["/", "$path", "http"].iter().any(|start| to.starts_with(start)) {
        return Err("where it leads does not begin with `/`".to_owned());
    }
    let status = match directive.argument(2) {
        "permanent" => Some(301),
        _ if leads_away(directive) => Some(302),
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

/// Whether the client is told another address.
pub(super) fn leads_away(directive: &Directive) -> bool {
    let to = directive.argument(1);
    matches!(directive.argument(2), "permanent" | "redirect") || to.contains("://") || to.starts_with("$scheme")
}

/// The effect of one that is for all paths, and leads all of them to one place.
pub(super) fn of_all(directive: &Directive, names: &Names) -> Option<(&'static str, String)> {
    let (_, does) = read(directive, names).ok().filter(|_| ANY.contains(&directive.argument(0)))?;
    (!does.1.contains("${")).then_some(does)
}

/// With the path in the place of a group that is all of it.
fn with_whole_path(regex: &str, to: &str) -> String {
    match regex {
        "^(.*)$" | "(.*)" | "^(.*)" => to.replace("$1", "$uri"),
        "^/(.*)$" | "^/(.*)" => to.replace("/$1", "$uri"),
        _ => to.to_owned(),
    }
}

/// Whether nothing behind one is reached by the paths of `location`; none is a whole server.
pub(super) fn ends(directive: &Directive, location: Option<&Pattern>) -> bool {
    let is_last = leads_away(directive) || matches!(directive.argument(2), "last" | "break");
    let rest = match location {
        Some(Pattern::Prefix(prefix)) => {
            directive.argument(0).strip_prefix('^').and_then(|rest| rest.strip_prefix(prefix.as_str()))
        }
        _ => None,
    };
    is_last && (ANY.contains(&directive.argument(0)) || matches!(rest, Some("" | "(.*)" | "(.*)$" | ".*" | ".*$")))
}

/// One of a server: a route that comes before all locations. `is_reached` unless one before it is for all paths.
pub(super) fn of_server(directive: &Directive, is_reached: bool, names: &Names, site: &mut Site, draft: &mut Draft) {
    let (pattern, does) = match read(directive, names) {
        Ok(read) => read,
        Err(why) if is_reached => return lose(directive, &why, site, draft),
        Err(why) => return draft.lose(directive.line, format!("`{}`: {why}", directive.text())),
    };
    let priority = 20_000 - i32::try_from(site.routes.len()).unwrap_or(0);
    let matches = format!("{{ regex = {} }}", quoted(&pattern.text()));
    let keys = vec![("match", matches), ("priority", priority.to_string()), does];
    site.routes.push(Route { line: directive.line, keys });
}

/// Says why one of a server is not carried over; what it fits is not served.
pub(super) fn lose(directive: &Directive, why: &str, site: &mut Site, draft: &mut Draft) {
    let regex = wider(directive.argument(0));
    let denied = format!("{DENIED_WORDS}, and so is all that fits `{regex}`");
    draft.lose(directive.line, format!("`{}`: {why}; {denied}", directive.text()));
    site.routes.push(deny_fitting(directive.line, &regex));
}

/// One of a location of `pattern`. `is_reached` unless one before it is for all of its paths.
pub(super) fn of_location(
    directive: &Directive,
    location: &Pattern,
    is_reached: bool,
    names: &Names,
    draft: &mut Draft,
) -> Within {
    let begins_within = |pattern: &Pattern| match location {
        Pattern::Prefix(prefix) => pattern.prefix().starts_with(prefix.as_str()),
        Pattern::Exact(_) | Pattern::Glob(_) | Pattern::Regex(_) => false,
    };
    let mut lost = |why: &str| {
        let regex = wider(directive.argument(0));
        let regex = Pattern::from_regex(&regex).ok().filter(begins_within).map(|_| regex);
        let denied = match &regex {
            _ if !is_reached => String::new(),
            Some(regex) => format!("; {DENIED_WORDS}, and so is all that fits `{regex}`"),
            None => format!("; {DENIED_WORDS}, for all of its location"),
        };
        draft.lose(directive.line, format!("`{}`: {why}{denied}", directive.text()));
        Within::Lost(regex)
    };
    if let Some(except) = except(directive, location, names) {
        return except;
    }
    let (pattern, does) = match read(directive, names) {
        Ok(read) => read,
        Err(why) => return lost(&why),
    };
    let text = pattern.text();
    let has_groups = does.1.contains("${");
    if ANY.contains(&&*text) && !has_groups {
        return Within::All(does.0, does.1);
    }
    let of_all = ["^(.*)$", "(.*)"].contains(&&*text) && matches!(directive.argument(1), "$1" | "${1}");
    if of_all || !begins_within(&pattern) {
        return lost(
            "it stays within its location, and cannot be said there: its expression does not begin as the paths of the location do",
        );
    }
    Within::Some(Rewrite { line: directive.line, text: directive.text(), pattern, does })
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
    /// Its route beside that of its location, of `priority`; `others` are the patterns of all other locations that come
    /// after it.
    pub(super) fn route<'p>(
        &self,
        priority: i32,
        mut others: impl Iterator<Item = &'p Pattern>,
        draft: &mut Draft,
    ) -> Route {
        if others.any(|other| !other.is_apart_from(&self.pattern)) {
            let regex = self.pattern.text();
            let denied = format!("{DENIED_WORDS}, and so is all that fits `{regex}`");
            draft.lose(self.line, format!("`{}`: another location is among its paths; {denied}", self.text));
            return deny_fitting(self.line, &regex);
        }
        let matches = format!("{{ regex = {} }}", quoted(&self.pattern.text()));
        let keys = vec![("match", matches), ("priority", priority.to_string()), self.does.clone()];
        Route { line: self.line, keys }
    }
}
