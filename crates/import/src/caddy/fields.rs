//! Request fields that Caddy takes away from applications, or writes in the place of what a client says in them.
//!
//! Owns: `request_header`, and what becomes of it and of `header_up`. Guarantees: no client says to an application what
//! it could not say there. The field is taken out of its requests, which a site with a service does, or the application
//! is asked for nothing.

use lamna_config::render::quoted;

use super::{Draft, Line, Matcher, Route, Site, deny_keys};
use crate::DENIED_WORDS;
use crate::told::{BELIEVED_WORDS, is_believed};

/// A field that is overwritten.
#[derive(Clone, Debug)]
pub(crate) struct Overwritten {
    line: usize,
    text: String,
    /// Its name; a star at its end stands for more.
    name: String,
    /// The `match` of what it is for; none is all that applications answer.
    matches: Option<String>,
}

impl Overwritten {
    /// For what a matcher fits.
    pub(super) fn for_paths_of(self, matcher: &Matcher) -> Overwritten {
        Overwritten { matches: Some(matcher.to_wider_toml()), ..self }
    }
}

/// The field that a line overwrites, if an application believes it. `words` are its own.
pub(super) fn overwritten(line: &Line, words: &[String]) -> Option<Overwritten> {
    let word = words.first()?.trim_end_matches(':');
    let name = word.trim_start_matches(['-', '>']);
    // What is added stands beside what the client says there as well.
    (!word.starts_with(['+', '?']) && is_believed(name)).then(|| Overwritten {
        line: line.line,
        text: line.text(),
        name: name.to_owned(),
        matches: None,
    })
}

/// Takes over `request_header`. False if nothing is to be made of it.
pub(super) fn take(line: &Line, words: &[String], matcher: &Matcher, draft: &mut Draft) -> bool {
    let Some(found) = overwritten(line, words) else { return false };
    draft.overwritten.push(if matcher.is_any() { found } else { found.for_paths_of(matcher) });
    true
}

/// Has no client say what is overwritten there.
pub(super) fn settle(site: &mut Site, draft: &mut Draft) {
    let asked: Vec<String> = site
        .routes
        .iter()
        .filter(|route| route.keys.iter().any(|(key, value)| matches!(*key, "proxy" | "fastcgi") && value != "false"))
        .filter_map(|route| Some(route.keys.first()?.1.clone()))
        .collect();
    for one in std::mem::take(&mut draft.overwritten) {
        let why = match hide(&one.name, site) {
            true => "an application is told no such field, neither by this server nor by a client".to_owned(),
            false => {
                let paths = one.matches.as_ref().map_or(&asked[..], std::slice::from_ref);
                let deny = |matches: &String| {
                    let keys = [("match", matches.clone())].into_iter().chain(deny_keys()).collect();
                    Route { line: one.line, keys }
                };
                site.routes.extend(paths.iter().map(deny));
                format!("{BELIEVED_WORDS}; {DENIED_WORDS}")
            }
        };
        draft.lose(one.line, format!("`{}`: {why}", one.text));
    }
}

/// Has a service of the site be the only one that says a field: what it may say is taken out of every request. False if
/// there is no service.
fn hide(name: &str, site: &mut Site) -> bool {
    if name.contains('*') {
        return false;
    }
    let is_service = |(key, value): &&mut (&str, String)| *key == "access" && value.starts_with("{ service = ");
    let mut services = site.routes.iter_mut().flat_map(|route| &mut route.keys).filter(is_service).peekable();
    let is_there = services.peek().is_some();
    for (_, value) in services {
        let start = value.strip_suffix(" } }").unwrap_or(value).to_owned();
        *value = match start.strip_suffix(']').filter(|start| start.contains("fields = [")) {
            Some(fields) => format!("{fields}, {}] }} }}", quoted(name)),
            None => format!("{start}, fields = [{}] }} }}", quoted(name)),
        };
    }
    is_there
}
