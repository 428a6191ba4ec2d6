//! The merge of the routes of a site: blocks of which one is taken, and several words about the same paths.
//!
//! Owns: what a `handle` says for which other ones say something else, and one route in the place of several with the
//! same `match`. Caddy goes from one directive to the next in an order of its own, until one answers; here all routes
//! that fit count, and of each key the most specific.

use std::collections::BTreeMap;
use std::ops::Range;

use lamna_config::render::quoted;
use lamna_config::route::{self, is_plain_path};

use super::syntax::Line;
use super::{deny_keys, is_denied};
use crate::proof::{SCRIPT_NAMES, Source, Use};
use crate::{DENIED_WORDS, Draft, LOCATION_WORDS, Route, Site, list};

/// A `handle`: its `match`, and which of the routes of its site it has made.
#[derive(Clone, Debug)]
pub(crate) struct Handle {
    pub(super) line: usize,
    pub(super) matches: String,
    /// The common beginning of all its paths, if that is all that it asks.
    pub(super) prefix: Option<String>,
    pub(super) routes: Range<usize>,
    /// Whether PHP runs its scripts.
    pub(super) has_scripts: bool,
}

/// A `file_server`: its `match`, whether it is for all paths, and whether it lists folders.
#[derive(Clone, Debug)]
pub(crate) struct FileServer {
    pub(super) line: usize,
    pub(super) text: String,
    pub(super) matches: Option<String>,
    pub(super) whole: bool,
    pub(super) lists: bool,
    /// Lines that name files which are sent to nobody.
    pub(super) hidden: Vec<Line>,
}

/// Listings are for a whole site: where one part of it has none, there are none.
pub(super) fn list_folders(file_servers: &[FileServer], site: &mut Site, draft: &mut Draft) {
    let is_whole = file_servers.iter().all(|one| one.lists) && file_servers.iter().any(|one| one.whole);
    for one in file_servers.iter().filter(|one| one.lists && !is_whole) {
        draft.lose(one.line, format!("`browse` of `{}`: listings are for a whole site", one.text));
    }
    if is_whole && !file_servers.is_empty() {
        site.keys.push(("browse", "true".into()));
    }
}

/// The keys of a route that say where answers come from, each by the first of its names: `proxy` is any application.
pub(super) fn directs(route: &Route) -> impl Iterator<Item = &'static str> + '_ {
    route.keys.iter().filter_map(|(key, _)| directing(key))
}

/// The first name of the key that says where answers come from, if this one does.
fn directing(key: &str) -> Option<&'static str> {
    route::directing().find(|(names, _)| names.contains(&key)).and_then(|(names, _)| names.first().copied())
}

/// Has each `handle` say what others are not to say for it.
pub(super) fn settle_handles(handles: &[Handle], site: &mut Site) {
    let mut missing: Vec<(usize, Route)> = Vec::new();
    for handle in handles {
        let outside = |(at, route): &(usize, &Route)| !handle.routes.contains(at) && !is_denied(route);
        let others: Vec<&str> =
            site.routes.iter().enumerate().filter(outside).flat_map(|(_, route)| directs(route)).collect();
        let is_own = |route: &&Route| route.keys.first().is_some_and(|(_, value)| *value == handle.matches);
        let inner = site.routes[handle.routes.clone()].iter();
        let own: Vec<&str> = inner.filter(is_own).filter(|route| !is_denied(route)).flat_map(directs).collect();
        // A redirect leaves nothing to say.
        let is_missing = |key: &&'static str| others.contains(key) && !own.contains(key) && !own.contains(&"redirect");
        let nothing = route::directing().filter_map(|(names, nothing)| Some((*names.first()?, nothing)));
        let mut keys = vec![("match", handle.matches.clone())];
        keys.extend(nothing.filter(|(key, _)| is_missing(key)).map(|(key, nothing)| (key, nothing.to_owned())));
        if keys.len() > 1 {
            missing.push((handle.routes.end, Route { line: handle.line, keys }));
        }
    }
    // At its end, and the outer one behind the inner one.
    missing.into_iter().rev().for_each(|(at, route)| site.routes.insert(at, route));
}

/// Caddy asks for each of several passwords, and here one list counts: where two do, nobody is let in.
pub(super) fn deny_two_passwords(handles: &[Handle], site: &mut Site, draft: &mut Draft) {
    let asks = |(at, route): (usize, &Route)| {
        let (_, users) = route.keys.iter().find(|(key, value)| *key == "access" && value.starts_with("{ users"))?;
        Some((at, route.line, route.keys[0].1.clone(), users.clone()))
    };
    let asking: Vec<(usize, usize, String, String)> = site.routes.iter().enumerate().filter_map(asks).collect();
    let is_in_one = |at: usize, other: usize| {
        handles.iter().any(|handle| handle.routes.contains(&at) && !handle.routes.contains(&other))
    };
    for (number, (at, _, matches, users)) in asking.iter().enumerate() {
        for (other, line, others, more) in &asking[number + 1..] {
            // Of blocks one is taken.
            if users == more || is_in_one(*at, *other) && is_in_one(*other, *at) {
                continue;
            }
            for both in super::order::shared(matches, others) {
                let why = format!("for {both} another password is asked for as well; {DENIED_WORDS}");
                draft.lose(*line, format!("`basic_auth`: {why}"));
                let keys = [("match", both)].into_iter().chain(deny_keys()).collect();
                site.routes.push(Route { line: *line, keys });
            }
        }
    }
}

/// Caddy asks an application for the path that comes of a `rewrite`; here routes are not asked again, and a file would
/// be sent in its place.
pub(super) fn deny_rewritten(site: &mut Site, draft: &mut Draft) {
    let is_proxy = |(key, value): &&(&str, String)| *key == "proxy" && value != "false";
    let asked: Vec<String> = site
        .routes
        .iter()
        .filter(|route| route.keys.iter().any(|key| is_proxy(&key)))
        .filter_map(|route| Some(route.keys.first()?.1.clone()))
        .collect();
    for (line, text, matches, to) in std::mem::take(&mut draft.rewritten) {
        let start = to.split('$').next().unwrap_or_default();
        let meets = |asked: &String| match asked.strip_prefix('"').and_then(|path| path.strip_suffix('"')) {
            Some(path) => {
                let first = path.split('*').next().unwrap_or_default();
                start.starts_with(first) && (path.contains('*') || start == first)
                    || to.contains('$') && first.starts_with(start)
            }
            None => true,
        };
        // Beside an application for the same requests it is seen to there.
        if asked.iter().any(|asked| *asked != matches && meets(asked)) {
            draft.lose(line, format!("`{text}`: an application may be asked for that path; {DENIED_WORDS}"));
            let keys = [("match", matches)].into_iter().chain(deny_keys()).collect();
            site.routes.push(Route { line, keys });
        }
    }
}

/// One route for those that have the same `match` and say where answers come from.
pub(super) fn merge(site: &mut Site, draft: &mut Draft) {
    let mut at_match: BTreeMap<String, usize> = BTreeMap::new();
    let mut merged: Vec<Route> = Vec::new();
    for route in std::mem::take(&mut site.routes) {
        if is_denied(&route) || directs(&route).next().is_none() {
            merged.push(route);
            continue;
        }
        let matches = route.keys[0].1.clone();
        match at_match.get(&matches) {
            None => {
                at_match.insert(matches, merged.len());
                merged.push(route);
            }
            Some(at) => join(&mut merged[*at], route, draft),
        }
    }
    merged.iter_mut().for_each(|route| agree(route, draft));
    site.routes = merged;
}

/// Adds the keys of `other` to `one`. The first value of a key counts.
fn join(one: &mut Route, other: Route, draft: &mut Draft) {
    let is_answered = answers(one);
    for (key, value) in other.keys.into_iter().skip(1) {
        // What comes behind an answer is not carried out.
        let is_said = one.keys.iter().any(|(own, _)| is_one(own, key));
        if is_answered && directing(key).is_some() && !is_said && value != quoted("/$1") {
            continue;
        }
        let said = one.keys.iter_mut().find(|(own, _)| *own == key || is_one(own, key));
        match said {
            None => one.keys.push((key, value)),
            Some((_, own)) if *own == value || matches!(&*value, "false" | "[]") => {}
            Some((own_key, own)) if matches!(&**own, "false" | "[]") => (*own_key, *own) = (key, value),
            Some((_, own)) => {
                let why = "another directive for the same paths says something else, and one counts";
                draft.lose(other.line, format!("`{key} = {value}`: {why}"));
                // What comes of both is another path.
                if key == "rewrite" {
                    *own = quoted("/.denied");
                }
            }
        }
    }
}

/// Whether a route leads to another path or place, or says that it leads to no other path.
fn leads(route: &Route) -> bool {
    route.keys.iter().any(|(key, value)| *key == "rewrite" || *key == "redirect" && value != "false")
}

/// Whether every request of a route is answered by it.
fn answers(route: &Route) -> bool {
    route.keys.iter().any(|(key, value)| match *key {
        "respond" | "redirect" | "proxy" => value != "false",
        "rewrite" => *value == quoted("/.denied"),
        _ => false,
    })
}

/// Whether two names are of one key that says where answers come from.
fn is_one(name: &str, other: &str) -> bool {
    directing(name).is_some_and(|key| directing(other) == Some(key))
}

/// Drops keys that contradict each other: answers of an application are neither led elsewhere nor tried.
fn agree(route: &mut Route, draft: &mut Draft) {
    let is_set = |route: &Route, key: &str| {
        route.keys.iter().any(|(own, value)| *own == key && !matches!(&**value, "false" | "[]"))
    };
    if is_set(route, "redirect") || is_set(route, "respond") {
        route.keys.retain(|(key, _)| !matches!(*key, "rewrite" | "try" | "proxy" | "fastcgi" | "filters" | "cache"));
        return;
    }
    let is_whole = is_set(route, "proxy");
    if is_whole && let Some(prefix) = stripped(route) {
        route.keys.retain(|(key, _)| *key != "rewrite");
        route.keys.push(("strip_prefix", quoted(&prefix)));
        draft.lose(route.line, format!("a prefix before an application: {LOCATION_WORDS}"));
    } else if is_whole && is_set(route, "rewrite") {
        let why = "an application is asked for the path that the client asks for: what it is for is answered with 404";
        draft.lose(route.line, format!("another path for an application: {why}"));
        let matches = route.keys[0].clone();
        route.keys = vec![matches];
        route.keys.extend(deny_keys());
    } else if is_whole && is_set(route, "try") {
        draft.lose(route.line, "`try_files` beside an application: whether there is a file is not looked at first");
        route.keys.retain(|(key, _)| *key != "try");
    }
}

/// The prefix of all paths of a route, if its `rewrite` takes that away and does nothing else.
fn stripped(route: &Route) -> Option<String> {
    let value = |name: &str| route.keys.iter().find(|(key, _)| *key == name).map(|(_, value)| value.as_str());
    let prefix = value("match")?.strip_prefix('"')?.strip_suffix("/*\"")?;
    (value("rewrite")? == quoted("/$1") && is_plain_path(prefix)).then(|| prefix.to_owned())
}

/// Caddy sends files only where `file_server` says so, and runs scripts in whatever case their names end.
pub(super) fn refuse_unserved(file_servers: &[FileServer], site: &mut Site) {
    let runs = site.routes.iter().any(|route| route.keys.iter().any(|(key, _)| *key == "fastcgi"));
    let line = site.line;
    if runs {
        // What the application does not know by its name, it refuses; here it would be a text.
        let cases = (1..8_u8).map(|bits| {
            let of =
                |(at, letter): (usize, char)| if bits >> at & 1 == 1 { letter.to_ascii_uppercase() } else { letter };
            "php".chars().enumerate().map(of).collect::<String>()
        });
        let regex = format!("\\.({})(/|$)", cases.collect::<Vec<_>>().join("|"));
        let mut keys = vec![("match", format!("{{ regex = {} }}", quoted(&regex)))];
        keys.extend(deny_keys());
        site.routes.push(Route { line, keys });
    }
    let has_root = site.keys.iter().any(|(key, _)| *key == "root");
    if !has_root || file_servers.iter().any(|one| one.whole) {
        return;
    }
    if file_servers.is_empty() && !runs && site.aliases.is_empty() {
        return site.keys.retain(|(key, _)| *key != "root");
    }
    let rest = vec![("match", quoted("*")), ("priority", "-1".to_owned()), ("rewrite", quoted("/.denied"))];
    site.routes.push(Route { line, keys: rest });
    let scripts = runs.then(|| (line, list(&["*.php", "*.php/*"])));
    let served = file_servers.iter().filter_map(|one| Some((one.line, one.matches.clone()?)));
    for (line, matches) in served.chain(scripts) {
        // Where several routes have the same `match`, one of them says where answers come from.
        let is_same =
            |route: &Route| route.keys[0].1 == matches && !is_denied(route) && directs(route).next().is_some();
        match site.routes.iter().position(is_same) {
            Some(at) if leads(&site.routes[at]) => {}
            Some(at) => site.routes[at].keys.push(("rewrite", "false".to_owned())),
            None => {
                let keys = vec![("match", matches), ("rewrite", "false".to_owned())];
                let is_place = |route: &&mut Route| route.keys.len() == 1 && route.keys[0] == keys[0];
                match site.routes.iter_mut().find(is_place) {
                    Some(place) => place.keys = keys,
                    None => site.routes.push(Route { line, keys }),
                }
            }
        }
    }
}

/// Caddy sends its own configuration to no client, wherever it lies.
pub(super) fn hide_source(file_servers: &[FileServer], site: &mut Site) {
    if !file_servers.is_empty() {
        let keys = [("match", quoted("**/Caddyfile"))].into_iter().chain(deny_keys()).collect();
        site.routes.push(Route { line: site.line, keys });
    }
}

/// Caddy's treatment of paths: of the blocks of which one is taken, the one that fits best has its scripts run or has
/// not.
pub(super) fn source(handles: &[Handle], has_scripts: bool, site: &Site) -> Option<Source> {
    if !has_scripts && !handles.iter().any(|handle| handle.has_scripts) {
        return None;
    }
    let whole = quoted("*");
    let prefixed: Vec<(String, bool)> =
        handles.iter().filter_map(|handle| Some((handle.prefix.clone()?, handle.has_scripts))).collect();
    let rest = has_scripts || handles.iter().any(|handle| handle.matches == whole && handle.has_scripts);
    let of_routes = site.routes.iter().filter_map(|route| {
        let text = route.keys.first()?.1.trim_matches('"').split('*').next()?.to_owned();
        text.starts_with('/').then_some(text)
    });
    let bases: Vec<String> = of_routes.chain(["/".to_owned()]).collect();
    let beneath = |base: &String| {
        let base = base.trim_end_matches('/').to_owned();
        SCRIPT_NAMES.iter().map(move |name| format!("{base}/{name}"))
    };
    let mut paths: Vec<String> = bases.iter().flat_map(beneath).chain(bases.iter().cloned()).collect();
    paths.sort_unstable();
    paths.dedup();
    let does = move |path: &str| {
        let fitting = prefixed.iter().filter(|(prefix, _)| path.starts_with(prefix.as_str()));
        let runs = fitting.max_by_key(|(prefix, _)| prefix.len()).map_or(rest, |(_, runs)| *runs);
        let is_script = path.ends_with(".php") || path.contains(".php/");
        if runs && is_script { Use::Run } else { Use::File }
    };
    Some(Source { paths, does: Box::new(does) })
}
