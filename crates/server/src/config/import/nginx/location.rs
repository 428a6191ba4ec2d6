//! Locations of nginx as routes.
//!
//! Of several locations nginx takes one, and here routes that fit come together: so a location says explicitly what others are not to
//! say for it.

use super::limit::{self, Speed};
use super::syntax::Directive;
use super::{Action, Limit, Names, Scope, acts, inherited, pages, rewrite, settle, table, unknown, with_caching};
use crate::config::import::{DENIED_PRIORITY, Draft, Route, Site, denied, list};
use crate::config::render::quoted;
use crate::config::route::pattern::Pattern;

/// A location that is carried over.
pub(super) struct Location {
    pub(super) line: usize,
    /// As nginx chooses: the greater one first.
    priority: i32,
    pub(super) pattern: Pattern,
    /// What it says of how often it may be asked.
    pub(super) limits: Vec<Limit>,
    /// How fast it is sent, if it says so itself.
    pub(super) speed: Option<Speed>,
    fields: Vec<(String, Vec<String>)>,
    /// Whether it has fields of its own, in place of those of the server.
    has_own_fields: bool,
    pub(super) scope: Scope,
    pub(super) action: Action,
    rewrites: Vec<Route>,
}

/// Reads the locations of a server, and those within them.
pub(super) fn read(
    directives: &[&Directive],
    scope: &Scope,
    names: &Names,
    site: &mut Site,
    draft: &mut Draft,
) -> Vec<Location> {
    let mut read = Vec::new();
    let mut rest: Vec<(&Directive, Scope, bool)> =
        directives.iter().rev().map(|one| (*one, scope.clone(), true)).collect();
    while let Some((directive, outer, is_outermost)) = rest.pop() {
        let Some(found) = location(directive, read.len(), &outer, names, site, draft) else { continue };
        let within = directive.block.iter().flatten().filter(|one| one.name == "location");
        let mut scope = Scope { fields: found.fields.clone(), ..found.scope.clone() };
        scope.gateway.forget_pass();
        for inner in within.rev() {
            match may_stand_beside(inner, &found, is_outermost, directives) {
                true => rest.push((inner, scope.clone(), false)),
                false => draft
                    .lose(inner.line, format!("`{}` and all that it says: a location within another", inner.text())),
            }
        }
        read.push(found);
    }
    read
}

/// Whether `inner`, which is within `found`, is chosen for the same requests where it stands beside it.
fn may_stand_beside(inner: &Directive, found: &Location, is_outermost: bool, siblings: &[&Directive]) -> bool {
    let Pattern::Prefix(prefix) = &found.pattern else { return false };
    if found.priority != 0 {
        return false;
    }
    match (inner.argument(0), inner.argument(1)) {
        ("=" | "^~", path) | (path, "") if path.starts_with('/') => path.starts_with(prefix.as_str()),
        // Expressions are looked at where the prefix around them was chosen: for any other path than a sibling's.
        ("~" | "~*", _) => {
            let is_other = |one: &&&Directive| one.argument(0).starts_with(['/', '~']);
            is_outermost && prefix == "/" && siblings.iter().filter(is_other).count() == 1
        }
        _ => false,
    }
}

/// Reads a location, without those within it.
fn location(
    directive: &Directive,
    at: usize,
    outer: &Scope,
    names: &Names,
    site: &mut Site,
    draft: &mut Draft,
) -> Option<Location> {
    // What asks a service is carried over where it is named.
    let is_asked = outer.services.has_to_itself(directive, &names.asked);
    let inner = directive.block.as_deref().filter(|_| !is_asked).unwrap_or_default();
    let (line, order) = (directive.line, i32::try_from(at).unwrap_or(i32::MAX / 2));
    let found = match (directive.argument(0), directive.argument(1)) {
        ("=", path) => Ok((30_000, Pattern::Exact(path.to_owned()))),
        ("^~", path) => Ok((8_000, Pattern::Prefix(path.to_owned()))),
        ("~", regex) => Pattern::from_regex(regex).map(|pattern| (6_000 - order, pattern)),
        ("~*", regex) => Pattern::from_regex(&format!("(?i){regex}")).map(|pattern| (6_000 - order, pattern)),
        (name, "") if name.starts_with('@') => Err("locations with a name are not done".to_owned()),
        (path, "") if path.starts_with('/') => Ok((0, Pattern::Prefix(path.to_owned()))),
        _ => Err("it is no path".to_owned()),
    };
    let (priority, pattern) = match found {
        Ok(found) => found,
        Err(why) => {
            draft.lose(line, format!("`{}` and all that it says: {why}", directive.text()));
            return None;
        }
    };
    let mut made = Site::default();
    let mut scope = outer.clone();
    if inner.iter().any(|one| one.name == "proxy_set_header") {
        scope.gateway.forget_host();
    }
    scope.access = outer.access.inherited_by(&inner.iter().collect::<Vec<_>>());
    let (mut own, mut limits, mut action) = (Vec::new(), Vec::new(), Action::default());
    for inner in inner {
        match &*inner.name {
            "location" => {}
            "limit_req" => limits.extend(Limit::new(inner, &scope, draft)),
            "limit_conn" => limit::lose_connections(inner, draft),
            "alias" => alias(inner, &pattern, site, draft),
            "rewrite" => rewrite(inner, names, &mut made, draft),
            _ if inherited(inner, &mut scope, &mut own, draft) => {}
            _ if acts(inner, names, &mut action, draft) => {}
            _ => unknown(inner, draft),
        }
    }
    if scope.root != outer.root {
        root(line, &scope, &pattern, site, draft);
    }
    if scope.autoindex != outer.autoindex {
        draft.lose(line, format!("`autoindex` of `{}`: listings are for a whole site", directive.text()));
    }
    settle(&scope, Some(&pattern), &mut action, site, draft);
    action.is_denied |= is_asked;
    let speed = (scope.speed != outer.speed).then(|| scope.speed.clone());
    let has_own_fields = !own.is_empty();
    let fields = if has_own_fields { own } else { scope.fields.clone() };
    Some(Location {
        line,
        priority,
        pattern,
        limits,
        speed,
        fields,
        has_own_fields,
        scope,
        action,
        rewrites: made.routes,
    })
}

fn alias(directive: &Directive, pattern: &Pattern, site: &mut Site, draft: &mut Draft) {
    match pattern {
        Pattern::Prefix(prefix) if prefix.ends_with('/') && prefix != "/" && !directive.argument(0).contains('$') => {
            site.aliases.push((prefix.clone(), directive.argument(0).to_owned()));
        }
        _ => draft.lose(
            directive.line,
            format!("`{}`: another directory is for a path that ends with `/`", directive.text()),
        ),
    }
}

/// Another root for a location: files are beneath it with their whole path.
fn root(line: usize, scope: &Scope, pattern: &Pattern, site: &mut Site, draft: &mut Draft) {
    let Some(root) = &scope.root else { return };
    match pattern {
        Pattern::Prefix(prefix) if prefix.ends_with('/') && prefix != "/" => {
            site.aliases.push((prefix.clone(), format!("{}{prefix}", root.trim_end_matches('/'))));
        }
        Pattern::Prefix(prefix) if prefix == "/" => {
            match site.keys.iter_mut().find(|(key, _)| *key == "root") {
                Some((_, value)) => *value = quoted(root),
                None => site.keys.insert(0, ("root", quoted(root))),
            }
            draft.lost.retain(|note| note.line != site.line || !note.words.contains("has no `root`"));
        }
        _ => {
            draft.lose(line, format!("`root {root}` of a location: another directory is for a path that ends with `/`"))
        }
    }
}

/// Writes a location as routes.
pub(super) fn push_location(one: &Location, all: &[Location], outer: &Scope, site: &mut Site, draft: &mut Draft) {
    let others = || all.iter().filter(|other| !std::ptr::eq(*other, one) && !other.pattern.is_apart_from(&one.pattern));
    let matches = match &one.pattern {
        Pattern::Regex(text) => format!("{{ regex = {} }}", quoted(text)),
        Pattern::Prefix(text) if text == "/" => quoted("*"),
        plain => match Pattern::from_glob(&plain.text()) {
            Ok(patterns) if patterns == [plain.clone()] => quoted(&plain.text()),
            _ => {
                return draft.lose(
                    one.line,
                    format!("this location and all that it says: `{}` is no pattern here", plain.text()),
                );
            }
        },
    };
    let mut keys = vec![("match", matches.clone())];
    if one.priority != 0 {
        keys.push(("priority", one.priority.to_string()));
    }
    let mut fields = one.fields.clone();
    with_caching(one.scope.caching.as_deref(), &mut fields);
    // What the site says already is said again only if another location might say something else.
    let is_said = |name: &str| fields.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
    let mut of_others: Vec<String> =
        others().flat_map(|other| other.fields.iter().map(|(name, _)| name.clone())).collect();
    of_others.extend(others().filter_map(|other| other.scope.caching.as_ref().map(|_| "Cache-Control".to_owned())));
    if one.has_own_fields {
        of_others.extend(outer.fields.iter().map(|(name, _)| name.clone()));
    }
    let mut removed: Vec<String> = Vec::new();
    for name in of_others {
        if !is_said(&name) && !removed.iter().any(|other| other.eq_ignore_ascii_case(&name)) {
            removed.push(name);
        }
    }
    let is_of_site =
        fields == outer.fields && one.scope.caching == outer.caching && others().all(|other| other.fields == fields);
    if (!is_of_site && !fields.is_empty()) || !removed.is_empty() {
        keys.push(("headers", table(&fields, &removed)));
    }
    if one.scope.index != outer.index
        && let Some(index) = &one.scope.index
    {
        keys.push(("index", list(index)));
    }
    if one.scope.error_pages != outer.error_pages {
        keys.push(("error_pages", pages(&one.scope.error_pages)));
    }
    if one.action.is_denied {
        keys.extend(denied());
    } else if let Some(value) = &one.action.redirect {
        keys.push(("redirect", value.clone()));
    } else {
        let acts = |is: &dyn Fn(&Action) -> bool| others().any(|other| is(&other.action));
        match &one.action.tried {
            Some(tried) => keys.push(("try", list(tried))),
            None if acts(&|action| action.tried.is_some()) => keys.push(("try", "[]".into())),
            None => {}
        }
        let of_site = outer.access.value(&|path| outer.services.keys(path, &outer.upstreams));
        let own = &one.action.access;
        if *own != of_site || acts(&|action| action.access != *own) {
            keys.push(("access", own.clone().unwrap_or_else(|| "{ anyone = true }".to_owned())));
        }
        for key in ["proxy", "fastcgi"] {
            match &one.action.gateway {
                Some((own, value)) if *own == key => {
                    keys.push((key, value.clone()));
                    keys.extend(one.scope.gateway.cache().map(|cache| ("cache", cache)));
                }
                _ if acts(&|action| action.gateway.as_ref().is_some_and(|(other, _)| *other == key)) => {
                    keys.push((key, "false".into()));
                }
                _ => {}
            }
        }
        if acts(&|action| action.redirect.is_some()) {
            keys.push(("redirect", "false".into()));
        }
        if acts(&|action| action.is_denied) {
            keys.push(("rewrite", "false".into()));
        }
    }
    let says_nothing = keys.iter().all(|(key, _)| matches!(*key, "match" | "priority"));
    if !says_nothing {
        site.routes.push(Route { line: one.line, keys });
    }
    site.routes.extend(one.rewrites.iter().cloned());
}

/// Writes where answers of a whole server come from as routes.
pub(super) fn push_action(line: usize, action: &Action, site: &mut Site) {
    let mut keys = vec![("match", quoted("*"))];
    if action.is_denied {
        keys.push(("priority", DENIED_PRIORITY.to_owned()));
        keys.extend(denied());
    } else if let Some(to) = &action.redirect {
        keys.push(("priority", "10000".to_owned()));
        keys.push(("redirect", to.clone()));
    } else if let Some(tried) = &action.tried {
        keys.push(("priority", "-1".to_owned()));
        keys.push(("try", list(tried)));
    } else {
        return;
    }
    site.routes.push(Route { line, keys });
}
