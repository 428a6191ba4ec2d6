//! Locations of nginx as routes.
//!
//! If several locations fit, nginx takes one, and here routes that fit come together. So a location says explicitly
//! what others are not to say for it.

use lamna_config::render::quoted;
use lamna_config::route::pattern::{Pattern, compile};

use super::directory::{alias, root};
use super::limit::{self, Speed};
use super::pattern::{restricting, spelled};
use super::rewrite::{self, Rewrite, Within};
use super::syntax::Directive;
use super::turn::{self, Turn};
use super::{
    Action, Caching, Limit, Names, Scope, acts, index_names, inherited, pages, settle, table, unknown, with_caching,
};
use super::{continuation, pattern, refusal, request_fields, scripts, source, tried};
use crate::{DENIED_PRIORITY, DENIED_WORDS, Draft, Route, Site, beside_applications, denied, is_program, list};

/// A location that is carried over.
pub(super) struct Location {
    pub(super) line: usize,
    /// As nginx chooses: the greater one first.
    priority: i32,
    pub(super) pattern: Pattern,
    /// Its request limits.
    pub(super) limits: Vec<Limit>,
    /// How fast it is sent, if it says so itself.
    pub(super) speed: Option<Speed>,
    fields: Vec<(String, Vec<String>)>,
    /// Whether it has fields of its own, in place of those of the server.
    has_own_fields: bool,
    pub(super) scope: Scope,
    pub(super) action: Action,
    rewrites: Vec<Rewrite>,
    /// Expressions for paths of it that its `rewrite` leaves as they are, with their lines.
    excepted: Vec<(usize, String)>,
}

impl Location {
    /// Says that its fields are not those of what leads to it: `try_files` and index files have nginx look for the
    /// location of their path anew.
    pub(super) fn say_fields_of_tried(&self, names: &Names, outer: &Scope, draft: &mut Draft) {
        let fits = |path: &str| match &self.pattern {
            Pattern::Exact(own) => own == path,
            Pattern::Regex(text) => compile(text).is_ok_and(|regex| regex.is_match(path.as_bytes())),
            Pattern::Prefix(_) | Pattern::Glob(_) => false,
        };
        let has_own = self.has_own_fields || self.scope.caching != outer.caching;
        let index = index_files(outer, names.asks_applications);
        let is_led_to =
            || names.tried.iter().any(|path| fits(path)) || index.iter().any(|name| fits(&format!("/{name}")));
        if has_own && is_led_to() {
            let pattern = self.pattern.text();
            let why = "they are for who asks for it by this path; what tried paths and folders lead to has the fields of \
                       its own location";
            draft.lose(self.line, format!("fields of `location` `{pattern}`: {why}"));
        }
    }

    /// Whether it has files run that end in some way.
    pub(super) fn runs_scripts(&self) -> bool {
        matches!(&self.action.gateway, Some(("fastcgi", value)) if !value.contains("extensions = []"))
    }
}

/// A location, in what it stands, and the pattern and priority of the location around it.
type Unread<'d> = (&'d Directive, Scope, Option<(Pattern, i32)>);

/// Reads the locations of a server, and those within them.
pub(super) fn read(
    directives: &[&Directive],
    scope: &Scope,
    names: &Names,
    site: &mut Site,
    draft: &mut Draft,
) -> Vec<Location> {
    let mut read = Vec::new();
    let mut rest: Vec<Unread<'_>> = directives.iter().rev().map(|one| (*one, scope.clone(), None)).collect();
    while let Some((directive, outer, around)) = rest.pop() {
        let is_outermost = around.is_none();
        let Some(found) = location(directive, (read.len(), around.as_ref()), &outer, names, site, draft) else {
            continue;
        };
        directive.carry();
        let within = directive.block.iter().flatten().filter(|one| one.name == "location");
        let mut scope = Scope { fields: found.fields.clone(), ..found.scope.clone() };
        scope.gateway.forget_pass();
        for inner in within.rev() {
            match may_stand_beside(inner, &found, is_outermost, directives) {
                true => rest.push((inner, scope.clone(), Some((found.pattern.clone(), found.priority)))),
                false => {
                    let text = inner.text();
                    draft.lose(inner.line, format!("`{text}` and all that it says: a location within another"));
                    if source::is_decided_in(inner) {
                        draft.lose(
                            found.line,
                            format!("`{}`: {DENIED_WORDS}, for the sake of `{text}`", directive.text()),
                        );
                        // Whatever else is said of its paths: what is within counted before that.
                        let matches = match &found.pattern {
                            Pattern::Regex(text) => format!("{{ regex = {} }}", quoted(&restricting(text))),
                            plain => quoted(&plain.text()),
                        };
                        let keys = [("match", matches), ("priority", DENIED_PRIORITY.to_owned())];
                        let keys = keys.into_iter().chain(denied()).collect();
                        site.routes.push(Route { line: found.line, keys });
                    }
                }
            }
        }
        read.push(found);
    }
    read
}

/// Whether `inner`, which is within `found`, is chosen for the same requests where it stands beside it.
fn may_stand_beside(inner: &Directive, found: &Location, is_outermost: bool, siblings: &[&Directive]) -> bool {
    let Pattern::Prefix(prefix) = &found.pattern else { return false };
    match spelled(inner) {
        ("=" | "^~" | "", path) if path.starts_with('/') => path.starts_with(prefix.as_str()),
        (kind @ ("~" | "~*"), regex) if is_outermost => {
            // Expressions are looked at where the prefix around them was chosen: for any other path than a sibling's.
            let is_other =
                |one: &&&Directive| matches!(spelled(one), ("~" | "~*", _)) || one.argument(0).starts_with('/');
            let is_alone = prefix == "/" && siblings.iter().filter(is_other).count() == 1;
            let is_path = |path: &str| path.starts_with(prefix.as_str()) && path.len() > prefix.len();
            let path_of = |one: &Directive| matches!(spelled(one), ("^~" | "", path) if is_path(path));
            let within = found_within(siblings, prefix);
            let is_last = !siblings.iter().any(|one| path_of(one)) && !within.iter().any(|one| path_of(one));
            is_alone || is_last && joined(prefix, regex, kind == "~*").is_some()
        }
        _ => false,
    }
}

/// The locations that stand in the one of `prefix`.
fn found_within<'d>(siblings: &[&'d Directive], prefix: &str) -> Vec<&'d Directive> {
    let is_it = |one: &&&Directive| matches!(spelled(one), ("^~" | "", path) if path == prefix);
    let block = siblings.iter().find(is_it).and_then(|one| one.block.as_deref()).unwrap_or_default();
    block.iter().filter(|one| one.name == "location").collect()
}

/// The expression for paths that begin with `prefix`, in its case, and that `regex` fits, in any case if so. None if it
/// cannot be said.
fn joined(prefix: &str, regex: &str, is_any_case: bool) -> Option<String> {
    let flags = if is_any_case { "i" } else { "" };
    if let Some(rest) = regex.strip_prefix('^').filter(|rest| !rest.contains('|')) {
        if is_any_case {
            let is_same = rest.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix));
            let rest = is_same.then(|| &rest[prefix.len()..]).filter(|rest| !rest.starts_with(['?', '*', '+', '{']))?;
            let is_plain = regex::escape(prefix) == prefix;
            return is_plain.then(|| format!("^{prefix}(?i:{rest})"));
        }
        let pattern = Pattern::from_regex(regex).ok()?;
        return pattern.prefix().starts_with(prefix).then(|| regex.to_owned());
    }
    if regex.contains('^') && !regex.contains("[^") {
        return None;
    }
    let escaped = |text: &str| regex::escape(text);
    Some(match regex.strip_prefix('/').and(prefix.strip_suffix('/')) {
        // The slash that ends the one may begin the other.
        Some(before) => format!("^{}(?:/(?s:.*))?(?{flags}:{regex})", escaped(before)),
        None => format!("^{}(?s:.*)(?{flags}:{regex})", escaped(prefix)),
    })
}

/// Reads a location, without those within it.
fn location(
    directive: &Directive,
    (at, around): (usize, Option<&(Pattern, i32)>),
    outer: &Scope,
    names: &Names,
    site: &mut Site,
    draft: &mut Draft,
) -> Option<Location> {
    // What asks a service is carried over where it is named.
    let is_asked = outer.services.has_to_itself(directive, &names.asked);
    if is_asked {
        directive.block.iter().flatten().for_each(Directive::carry);
    }
    let inner = directive.block.as_deref().filter(|_| !is_asked).unwrap_or_default();
    let (line, order) = (directive.line, i32::try_from(at).unwrap_or(i32::MAX / 2));
    // Those within another are looked at before those beside it.
    let (first, within) = match around {
        Some((Pattern::Prefix(prefix), _)) if prefix != "/" => (20_000, Some(prefix.as_str())),
        _ => (8_000, None),
    };
    let expression = |regex: &str, is_any_case: bool| match within {
        Some(prefix) => joined(prefix, regex, is_any_case).ok_or("what fits it and the one around it cannot be said"),
        None if is_any_case => Ok(format!("(?i){regex}")),
        None => Ok(regex.to_owned()),
    };
    let found = match spelled(directive) {
        ("=", path) => Ok((30_000, pattern::of_path(path, true))),
        // The longest one counts.
        ("^~", path) => Ok((9_000 + i32::try_from(path.len()).unwrap_or(0), pattern::of_path(path, false))),
        // The first one counts.
        (kind @ ("~" | "~*"), regex) => {
            let found = expression(regex, kind == "~*").map_err(str::to_owned);
            found.and_then(|regex| Pattern::from_regex(&regex)).map(|pattern| (first - 2 * order, pattern))
        }
        ("", name) if name.starts_with('@') => Err("locations with a name are not done".to_owned()),
        // Within one after which no expression is looked at, none is.
        ("", path) if path.starts_with('/') => {
            let of_around = around.map_or(0, |(_, priority)| *priority);
            let is_same = matches!(around, Some((Pattern::Prefix(prefix), _)) if prefix == path);
            let length = i32::try_from(path.len()).unwrap_or(0);
            let priority = if of_around >= 9_000 { 9_000 + length + i32::from(is_same) } else { 0 };
            Ok((priority, pattern::of_path(path, false)))
        }
        _ => Err("it is no path".to_owned()),
    };
    let (priority, pattern) = match found {
        Ok(found) => found,
        Err(why) => {
            draft.lose(line, format!("`{}` and all that it says: {why}", directive.text()));
            deny_unread(directive, site, draft);
            return None;
        }
    };
    let mut rewrites = Vec::new();
    let mut scope = Scope { log: outer.log.within(), ..outer.clone() };
    if inner.iter().any(|one| one.name == "proxy_set_header") {
        scope.gateway.forget_host();
    }
    if inner.iter().any(|one| one.name == "proxy_redirect") {
        scope.gateway.forget_addresses();
    }
    scope.access = outer.access.inherited_by(&inner.iter().collect::<Vec<_>>());
    let (mut own, mut limits, mut action) = (Vec::new(), Vec::new(), Action::default());
    let (mut is_lost_rewrite, mut roots, mut excepted) = (false, Vec::new(), Vec::new());
    let (mut refused, mut is_reached) = (Vec::new(), true);
    let is_run = runs_scripts_of(inner, &pattern);
    // Scripts are come to by other paths as well: as index files, and by what is tried.
    let is_index = is_index(&pattern, outer, names);
    let is_tried = tried::leads_to(&names.tried, directive, &pattern);
    let is_named = source::has_file(&pattern, &names.indexes.iter().map(String::as_str).collect::<Vec<_>>());
    let asked_at = (!is_run && !is_index && !is_named && !is_tried).then_some(&pattern);
    for inner in inner {
        match &*inner.name {
            "location" => {}
            "limit_req" => limits.extend(Limit::new(inner, &scope, draft)),
            "limit_conn" => limit::lose_connections(inner, draft),
            "autoindex" if (inner.argument(0) == "on") != outer.autoindex => {
                draft.lose(inner.line, format!("`{}`: listings are for a whole site", inner.text()));
            }
            // It is asked for by what is tried and by index files only, which lead to the script and not to this route.
            "internal" if is_run => action.is_internal = true,
            "if" | "limit_except" if refusal::whom(inner, names.has_tls).is_some() => {
                let whom = refusal::whom(inner, names.has_tls);
                refused.extend(whom.into_iter().flat_map(|whom| refusal::said(inner, whom, asked_at, draft)));
            }
            "if" if turn::of(inner, names).is_some() => match turn::of(inner, names) {
                Some(Turn::Carried(keys, does)) if asked_at.is_some() => {
                    action.turned.push((inner.line, inner.text(), keys, does));
                }
                Some(Turn::Carried(keys, _)) => {
                    refusal::lose_turn(inner, draft);
                    refused.extend(refusal::routes(inner.line, refusal::Whom::Some(keys), asked_at));
                }
                Some(Turn::Denied(whom)) => {
                    refusal::lose_turn(inner, draft);
                    action.is_denied |= whom.is_none();
                    refused.extend(whom.into_iter().flat_map(|whom| refusal::routes(inner.line, whom, asked_at)));
                }
                None => {}
            },
            "alias" => alias(inner, &pattern, &mut action, site, draft),
            "rewrite" => {
                match rewrite::of_location(inner, &pattern, is_reached, names, draft) {
                    Within::Lost(regex) => {
                        is_lost_rewrite = true;
                        match regex.filter(|_| is_reached) {
                            Some(regex) => refused.push(pattern::deny_fitting(inner.line, &regex)),
                            None => action.is_denied |= is_reached,
                        }
                    }
                    Within::All(key, value) => {
                        action.rewrite.get_or_insert((key, value));
                    }
                    Within::Some(rewrite) => rewrites.push(rewrite),
                    Within::Except(does, except) => {
                        action.rewrite.get_or_insert(does);
                        excepted.push((inner.line, except));
                    }
                }
                is_reached &= !rewrite::ends(inner, Some(&pattern));
            }
            "root" => roots.push(inner),
            _ if inherited(inner, &mut scope, &mut own, draft) => {}
            _ if acts(inner, names, &mut action, draft) => {}
            _ => {
                unknown(inner, draft);
                continue;
            }
        }
        if inner.name != "location" {
            inner.carry();
        }
    }
    site.routes.extend(refused);
    for directive in roots {
        root(directive, &mut scope, &pattern, (names, &mut action), site, draft);
    }
    settle(&scope, Some(&pattern), &mut action, site, draft);
    action.is_denied |= is_asked;
    let leads = action.redirect.is_some() || matches!(action.rewrite, Some(("redirect", _)));
    if leads && !is_run && (is_named || is_tried) && !action.is_denied {
        let why = "its files are looked for by other paths as well, and nginx leads those who come to it elsewhere";
        draft.lose(line, format!("`{}`: {why}; {DENIED_WORDS}", directive.text()));
        action.is_denied = true;
    }
    let goes_on = continuation::is_behind_files(inner);
    action.tries_files_alone = continuation::tries_files_alone(inner);
    if action.gateway.as_ref().is_some_and(|(key, _)| matches!(*key, "proxy" | "uwsgi" | "scgi"))
        && !goes_on
        && action.tried.take().is_some()
    {
        let tries = inner.iter().filter(|one| one.name == "try_files");
        let why = "the application beside it is asked for every path";
        tries.for_each(|one| draft.lose(one.line, format!("`{}`: {why}", one.text())));
    }
    let is_changed = |rewrite: &Option<(&str, String)>| matches!(rewrite, Some(("rewrite", _)));
    // Scripts are looked for at the path that comes of it; any other application is asked for the one that the client
    // asks for.
    let runs_files = matches!(&action.gateway, Some(("fastcgi", value)) if !value.contains("extensions = []"));
    let is_carried = runs_files && !is_lost_rewrite;
    if action.gateway.is_some()
        && !is_carried
        && (is_lost_rewrite || !rewrites.is_empty() || is_changed(&action.rewrite))
    {
        let why =
            "an application is asked for the path that the client asks for, so what it is for is answered with 404";
        for rewrite in inner.iter().filter(|one| one.name == "rewrite") {
            draft.lose(rewrite.line, format!("`{}`: {why}", rewrite.text()));
        }
        (action.is_denied, action.gateway) = (true, None);
        rewrites.clear();
    }
    let speed = (scope.speed != outer.speed).then(|| scope.speed.clone());
    let has_own_fields = !own.is_empty();
    let fields = if has_own_fields { own } else { scope.fields.clone() };
    Some(Location { line, priority, pattern, limits, speed, fields, has_own_fields, scope, action, rewrites, excepted })
}

/// Whether index files are among the paths of a location, which are reached by those of their folders.
fn is_index(pattern: &Pattern, scope: &Scope, names: &Names) -> bool {
    let names = index_files(scope, names.asks_applications);
    source::has_file(pattern, &names.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Names of files that stand for their folders.
fn index_files(scope: &Scope, asks_applications: bool) -> Vec<String> {
    let said = scope.index.as_ref().map_or_else(|| vec!["index.html".to_owned()], |(.., names)| names.clone());
    let scripts = asks_applications.then(|| "index.php".to_owned()).filter(|name| !said.contains(name));
    said.into_iter().chain(scripts).filter(|name| asks_applications || !is_program(name)).collect()
}

/// Paths that are tried, with the index files of a folder in its place: a folder that is the same for all is not looked
/// for here.
pub(super) fn with_index_files(tried: &[String], scope: &Scope, runs_scripts: bool) -> Vec<String> {
    let names = index_files(scope, runs_scripts);
    let said = |path: &String| match path.ends_with('/') && !path.contains('$') {
        true => names.iter().map(|name| format!("{path}{name}")).collect(),
        false => vec![path.clone()],
    };
    tried.iter().flat_map(said).collect()
}

/// Has no folder be answered with an index file that is refused by its own path. Whether one is not answered at all.
pub(super) fn keep_indexes(server: &[Directive], scope: &Scope, asks_applications: bool, site: &mut Site) -> bool {
    let names = index_files(scope, asks_applications);
    let (goes_on, mut is_shut) = (continuation::goes_on_from_folders(server), false);
    for (number, (folders, refused)) in source::refused_indexes(server, &names).into_iter().enumerate() {
        let kept: Vec<&str> = names.iter().map(String::as_str).filter(|name| !refused.contains(name)).collect();
        // No file is called so.
        let kept = if kept.is_empty() { vec!["no-index"] } else { kept };
        let priority = INDEX_PRIORITY - i32::try_from(number).unwrap_or(0);
        let matches = format!("{{ regex = {} }}", quoted(&folders));
        // An application would be asked in the place of the folder.
        let does = if goes_on { ("respond", "404".to_owned()) } else { ("index", list(&kept)) };
        let keys = vec![("match", matches), ("priority", priority.to_string()), does];
        site.routes.push(Route { line: site.line, keys });
        is_shut |= goes_on;
    }
    is_shut
}

/// Beyond that of all locations.
const INDEX_PRIORITY: i32 = 90_000;

/// Whether a block has an application of FastCGI run the files of its paths.
fn runs_scripts_of(block: &[Directive], pattern: &Pattern) -> bool {
    block.iter().any(|one| one.name == "fastcgi_pass") && scripts::of(Some(pattern)) != scripts::Scripts::Whole
}

/// Denies what a location is for of which the expression cannot be read here, and more rather than less, if it
/// restricts or has programs answer.
fn deny_unread(directive: &Directive, site: &mut Site, draft: &mut Draft) {
    let regex = match spelled(directive) {
        ("~", regex) => pattern::wider(regex),
        ("~*", regex) => pattern::wider(&format!("(?i){regex}")),
        _ => return,
    };
    if source::is_decided_in(directive) {
        let denied = format!("{DENIED_WORDS}, and so is all that fits `{regex}`");
        draft.lose(directive.line, format!("`{}`: {denied}", directive.text()));
        site.routes.push(pattern::deny_fitting(directive.line, &regex));
    }
}

/// Whether a location of these says that it is not listed.
pub(super) fn stop_listings(locations: &[&Directive]) -> bool {
    let is_stop = |one: &Directive| one.name == "autoindex" && one.argument(0) == "off";
    let within = |one: &Directive| {
        let block = one.block.as_deref().unwrap_or_default();
        let inner: Vec<&Directive> = block.iter().filter(|one| one.name == "location").collect();
        block.iter().any(is_stop) || continuation::tries_files_alone(block) || stop_listings(&inner)
    };
    locations.iter().any(|one| within(one))
}

/// The `root` of the location for all paths, if there is one.
pub(super) fn root_of_all<'d>(locations: &[&'d Directive]) -> Option<&'d Directive> {
    let all = locations.iter().find(|one| matches!(spelled(one), ("" | "^~", "/")))?;
    all.block.iter().flatten().rev().find(|one| one.name == "root")
}

/// Writes a location as routes.
pub(super) fn push_location(
    one: &Location,
    all: &[Location],
    outer: &Scope,
    (runs_scripts, asks_applications): (bool, bool),
    site: &mut Site,
    draft: &mut Draft,
) {
    let others = || all.iter().filter(|other| !std::ptr::eq(*other, one) && !other.pattern.is_apart_from(&one.pattern));
    let matches = match &one.pattern {
        Pattern::Regex(text) if one.action.restricts() => format!("{{ regex = {} }}", quoted(&restricting(text))),
        Pattern::Regex(text) => format!("{{ regex = {} }}", quoted(text)),
        Pattern::Prefix(text) if text == "/" => quoted("*"),
        plain => quoted(&plain.text()),
    };
    let mut keys = vec![("match", matches.clone())];
    if one.priority != 0 {
        keys.push(("priority", one.priority.to_string()));
    }
    keys.extend(headers(one, &others().collect::<Vec<_>>(), outer, asks_applications, draft));
    if one.action.is_of_files_alone() {
        keys.push(("index", "[]".to_owned()));
    } else if one.scope.index != outer.index
        && let Some(index) = index_names(&one.scope, runs_scripts, draft)
    {
        keys.push(("index", index));
    } else if others().any(|other| other.action.is_of_files_alone()) && !one.action.is_answered() {
        keys.push(("index", list(&index_files(&one.scope, runs_scripts))));
    }
    if one.scope.error_pages != outer.error_pages {
        keys.push(("error_pages", pages(&one.scope.error_pages)));
    }
    let logs = all.iter().map(|other| &other.scope.log);
    keys.extend(one.scope.log.of_location(&outer.log, logs, draft));
    let of_site = outer.access.value(&|path| outer.services.keys(path, &outer.upstreams));
    if one.action.is_denied {
        keys.extend(denied());
    } else if let Some(value) = &one.action.respond {
        // It is the answer whoever asks.
        if of_site.is_some() || others().any(|other| other.action.access.is_some()) {
            keys.push(("access", quoted("anyone")));
        }
        keys.push(("respond", value.clone()));
    } else if let Some(value) = &one.action.redirect {
        keys.push(("redirect", value.clone()));
    } else {
        let acts = |is: &dyn Fn(&Action) -> bool| others().any(|other| is(&other.action));
        match &one.action.tried {
            Some(tried) => keys.push(("try", list(&with_index_files(tried, &one.scope, runs_scripts)))),
            None if acts(&|action| action.tried.is_some()) => keys.push(("try", "[]".into())),
            None => {}
        }
        let own = &one.action.access;
        if *own != of_site || acts(&|action| action.access != *own) {
            keys.push(("access", own.clone().unwrap_or_else(|| "{ anyone = true }".to_owned())));
        }
        // One application answers, or none, however others are spoken to.
        match &one.action.gateway {
            Some((key, value)) => {
                keys.push((key, value.clone()));
                keys.extend(one.scope.gateway.prefix(&one.pattern));
                keys.extend(one.scope.gateway.beside());
                let own = one.scope.gateway.request_fields();
                let of_others: Vec<_> =
                    others().filter(|_| asks_applications).flat_map(|one| one.scope.gateway.request_fields()).collect();
                keys.extend(request_fields::table(&own, &of_others).map(|table| ("request_headers", table)));
                if one.action.is_internal {
                    keys.retain(|(key, _)| *key != "try");
                    keys.extend(denied());
                }
            }
            None if acts(&|action| action.gateway.is_some()) => keys.push(("proxy", "false".into())),
            None => {}
        }
        let own_rewrite = one.action.is_internal.then_some("rewrite");
        let own = one.action.rewrite.as_ref().map(|(key, _)| *key).or(own_rewrite);
        let turns = |action: &Action, key: &str| {
            let mut keys =
                action.rewrite.iter().chain(action.turned.iter().map(|(.., does)| does)).map(|(key, _)| *key);
            keys.any(|other| other == key)
        };
        if acts(&|action| action.respond.is_some()) {
            keys.push(("respond", "false".into()));
        }
        keys.extend(one.action.rewrite.clone().filter(|_| !one.action.is_internal));
        if own != Some("redirect") && acts(&|action| action.redirect.is_some() || turns(action, "redirect")) {
            keys.push(("redirect", "false".into()));
        }
        let is_led = one.action.goes_on_behind_scripts || acts(&|action| action.is_denied || turns(action, "rewrite"));
        if own != Some("rewrite") && is_led {
            keys.push(("rewrite", "false".into()));
        }
    }
    if let Some(narrowed) = &one.action.narrowed {
        // What fits the location and is no file that is run was answered by the application there.
        let narrow = format!("{{ regex = {} }}", quoted(narrowed));
        let own = keys.iter().map(|(key, value)| match *key {
            "match" => ("match", narrow.clone()),
            "priority" => ("priority", (one.priority + 1).to_string()),
            key => (key, value.clone()),
        });
        let mut own: Vec<(&'static str, String)> = own.collect();
        if !own.iter().any(|(key, _)| *key == "rewrite") {
            // The refusal behind it has one.
            own.push(("rewrite", "false".to_owned()));
        }
        site.routes.push(Route { line: one.line, keys: own });
        keys = vec![("match", matches), ("priority", one.priority.to_string())];
        keys.extend(denied());
    }
    let says_nothing = keys.iter().all(|(key, _)| matches!(*key, "match" | "priority"));
    if !says_nothing {
        site.routes.push(Route { line: one.line, keys });
    }
    push_turned(one, site, draft);
    for (line, regex) in &one.excepted {
        let priority = ("priority", (one.priority + 1).to_string());
        let keys =
            vec![("match", format!("{{ regex = {} }}", quoted(regex))), priority, ("rewrite", "false".to_owned())];
        site.routes.push(Route { line: *line, keys });
    }
    let others = || all.iter().filter(|other| !std::ptr::eq(*other, one) && other.priority <= one.priority);
    let is_longer =
        |other: &&Location| other.priority < one.priority || !one.pattern.prefix().starts_with(&other.pattern.prefix());
    for (at, rewrite) in one.rewrites.iter().enumerate() {
        let priority = one.priority + i32::try_from(one.rewrites.len() - at).unwrap_or(1);
        let patterns = others().filter(is_longer).map(|other| &other.pattern);
        site.routes.push(rewrite.route(priority, patterns, draft));
    }
}

/// A priority below that of every expression, and above that of paths.
const BEHIND_SCRIPTS_PRIORITY: i32 = 500;

/// Has nothing be there for paths that go on behind a script, where nginx runs it for none of them: here a script is
/// found in the middle of a path, and what refuses it ends with its name.
pub(super) fn refuse_behind_scripts(read: &mut [Location], site: &mut Site, draft: &mut Draft) {
    let (ending, open): (Vec<&mut Location>, Vec<&mut Location>) = read
        .iter_mut()
        .filter(|one| one.runs_scripts())
        .partition(|one| one.action.narrowed.is_none() && scripts::ends_with_script(&one.pattern));
    let mut extensions: Vec<String> = ending.iter().flat_map(|one| scripts::extensions_of(&one.pattern)).collect();
    extensions.sort_unstable();
    extensions.dedup();
    let Some(line) = ending.first().map(|one| one.line).filter(|_| !extensions.is_empty()) else { return };
    let regex = match &extensions[..] {
        [one] => format!("\\.{one}/"),
        several => format!("\\.(?:{})/", several.join("|")),
    };
    let priority = match open.is_empty() {
        true => DENIED_PRIORITY.to_owned(),
        false => BEHIND_SCRIPTS_PRIORITY.to_string(),
    };
    open.into_iter().for_each(|one| one.action.goes_on_behind_scripts = true);
    let keys = [("match", format!("{{ regex = {} }}", quoted(&regex))), ("priority", priority)];
    site.routes.push(Route { line, keys: keys.into_iter().chain(denied()).collect() });
    let tries = |one: &Location| one.action.tried.iter().flatten().any(|path| is_program(path));
    if read.iter().any(tries) {
        let why = "they are answered with 404, and there by the script that is tried for what is not found";
        draft.lose(line, format!("paths that go on behind a script (`{regex}`): {why}"));
    }
}

/// Writes the redirects of a location for some clients. Where other routes stand beside that of the location, and where
/// several lead elsewhere, these clients are refused instead.
fn push_turned(one: &Location, site: &mut Site, draft: &mut Draft) {
    let is_plain = one.action.narrowed.is_none() && one.rewrites.is_empty() && one.excepted.is_empty();
    for (line, text, keys, does) in &one.action.turned {
        if is_plain && one.action.turned.len() == 1 {
            site.routes.extend(turned(*line, keys, does, Some(&one.pattern), one.priority));
        } else {
            let why = "beside other paths and conditions of its location it cannot be said";
            draft.lose(*line, format!("`{text}`: {why}; {DENIED_WORDS}"));
            site.routes.extend(refusal::routes(*line, refusal::Whom::Some(keys.clone()), Some(&one.pattern)));
        }
    }
}

/// The routes that lead elsewhere who fits one of `keys`, in the location of `pattern`; none is a whole server.
pub(super) fn turned(
    line: usize,
    keys: &[String],
    does: &(&'static str, String),
    pattern: Option<&Pattern>,
    priority: i32,
) -> Vec<Route> {
    let route = |condition: &String| {
        let matches = ("match", refusal::matching(pattern, condition));
        let priority = (priority != 0).then(|| ("priority", priority.to_string()));
        let tried = (does.0 == "rewrite").then(|| ("try", "[]".to_owned()));
        Route { line, keys: [matches].into_iter().chain(priority).chain([does.clone()]).chain(tried).collect() }
    };
    keys.iter().map(route).collect()
}

/// The key `headers` of a location, beside those that are for some of its paths as well.
fn headers(
    one: &Location,
    others: &[&Location],
    outer: &Scope,
    asks_applications: bool,
    draft: &mut Draft,
) -> Option<(&'static str, String)> {
    let mut fields = one.fields.clone();
    let has_own = fields.iter().any(|(name, _)| name.eq_ignore_ascii_case("Cache-Control"));
    let caching = one.scope.caching.as_ref();
    if let Some(Caching { line, text, .. }) = caching.filter(|_| !has_own && one.action.gateway.is_some()) {
        let why = "where an application has a `Cache-Control` of its own, that stays";
        draft.lose(*line, format!("`{text}` in the place of what an application says: {why}"));
    }
    with_caching(caching, &mut fields);
    // What the site says already is said again only if another location might say something else.
    let is_named = |list: &[String], name: &str| list.iter().any(|other| other.eq_ignore_ascii_case(name));
    let mut of_others: Vec<String> =
        others.iter().flat_map(|other| other.fields.iter().map(|(name, _)| name.clone())).collect();
    of_others
        .extend(others.iter().filter_map(|other| other.scope.caching.as_ref().map(|_| "Cache-Control".to_owned())));
    if one.has_own_fields || asks_applications {
        of_others.extend(outer.fields.iter().map(|(name, _)| name.clone()));
    }
    if one.scope.caching != outer.caching {
        of_others.extend(outer.caching.as_ref().map(|_| "Cache-Control".to_owned()));
    }
    let own: Vec<String> = fields.iter().map(|(name, _)| name.clone()).collect();
    let mut kept: Vec<String> = Vec::new();
    for name in of_others {
        // What is added, or is there if nothing else is, is not to be there twice.
        if (asks_applications || !is_named(&own, &name)) && !is_named(&kept, &name) {
            kept.push(name);
        }
    }
    let is_of_site = one.fields == outer.fields
        && one.scope.caching == outer.caching
        && others.iter().all(|other| other.fields == one.fields && other.scope.caching == outer.caching);
    if is_of_site || fields.is_empty() && kept.is_empty() {
        return None;
    }
    let value = if asks_applications { beside_applications(&fields, &kept) } else { table(&fields, &kept) };
    Some(("headers", value))
}

/// Writes where answers of a whole server come from as routes.
pub(super) fn push_action(line: usize, action: &Action, (scope, runs_scripts): (&Scope, bool), site: &mut Site) {
    let mut keys = vec![("match", quoted("*"))];
    if action.is_denied {
        keys.push(("priority", DENIED_PRIORITY.to_owned()));
        keys.extend(denied());
    } else if let Some(value) = &action.respond {
        keys.push(("priority", "10000".to_owned()));
        keys.push(("respond", value.clone()));
    } else if let Some(to) = &action.redirect {
        keys.push(("priority", "10000".to_owned()));
        keys.push(("redirect", to.clone()));
    } else if let Some(tried) = &action.tried {
        keys.push(("priority", "-1".to_owned()));
        keys.push(("try", list(&with_index_files(tried, scope, runs_scripts))));
    } else {
        return;
    }
    site.routes.push(Route { line, keys });
}
