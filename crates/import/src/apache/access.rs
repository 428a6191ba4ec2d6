//! Access of Apache: `Require`, `Order`, `Allow` and `Deny`, and passwords.
//!
//! Owns: what a section says about it as `access` of a route. Guarantees: what cannot be said lets fewer in, nobody if
//! need be.

use lamna_config::access::check_user;
use lamna_config::render::quoted;

use super::syntax::Directive;
use crate::matching::is_network;
use crate::{Draft, Files, Site, list};

/// Everybody who is let in by something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Let {
    All,
    None,
    /// Clients of these networks.
    From(Vec<String>),
    /// All but clients of these networks.
    NotFrom(Vec<String>),
    /// These users; none named for all.
    Users(Vec<String>),
    Both(Vec<Let>),
    Either(Vec<Let>),
}

/// Passwords as a section says them, or one around it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Passwords {
    file: Option<String>,
    groups: Option<String>,
    /// By another way than passwords in a file: which.
    other: Option<String>,
    is_basic: bool,
}

impl Let {
    /// Whether a password is among what lets somebody in.
    pub(super) fn asks_password(&self) -> bool {
        match self {
            Let::Users(_) => true,
            Let::Both(parts) | Let::Either(parts) => parts.iter().any(Let::asks_password),
            _ => false,
        }
    }
}

impl Passwords {
    /// Takes over a directive. False if it is about something else.
    pub(super) fn take(&mut self, directive: &Directive) -> bool {
        let value = directive.argument(0);
        match &*directive.name {
            "authuserfile" => self.file = Some(value.to_owned()),
            "authgroupfile" => self.groups = Some(value.to_owned()),
            "authtype" => {
                self.is_basic = value.eq_ignore_ascii_case("basic");
                if !self.is_basic && !value.eq_ignore_ascii_case("none") {
                    self.other = Some(directive.text());
                }
            }
            "authbasicprovider" => {
                if !value.eq_ignore_ascii_case("file") {
                    self.other = Some(directive.text());
                }
            }
            "authname" => {}
            _ => return false,
        }
        true
    }
}

/// Whether a directive is about who is let in.
pub(super) fn is_about(directive: &Directive) -> bool {
    matches!(
        &*directive.name,
        "require"
            | "requireall"
            | "requireany"
            | "requirenone"
            | "order"
            | "allow"
            | "deny"
            | "satisfy"
            | "limit"
            | "limitexcept"
    )
}

/// The words of a section about access. Two modules of Apache say them: a section replaces what stands around it of
/// the one that it speaks of, and keeps that of the other.
#[derive(Clone, Debug)]
pub(super) struct Said<'d> {
    first: &'d Directive,
    pub(super) requires: Option<Let>,
    pub(super) olds: Option<Let>,
    /// Words for some methods alone: they are for all, beside all others.
    pub(super) limits: Option<Let>,
    is_any: Option<bool>,
}

impl Said<'_> {
    /// Takes over what stands around it and is not replaced.
    pub(super) fn inherit(&mut self, outer: &Said<'_>) {
        if self.olds.is_none() {
            self.olds.clone_from(&outer.olds);
            self.is_any = self.is_any.or(outer.is_any);
        }
        if self.requires.is_none() {
            self.requires.clone_from(&outer.requires);
        }
        if self.limits.is_none() {
            self.limits.clone_from(&outer.limits);
        }
    }

    /// Whether nothing of `other` stands beneath it.
    pub(super) fn replaces(&self, other: &Said<'_>) -> bool {
        self.beside(other).is_none()
    }

    /// The words of another section that stand beside these.
    pub(super) fn beside(&self, other: &Said<'_>) -> Option<Let> {
        let requires = other.requires.clone().filter(|_| self.requires.is_none());
        let olds = other.olds.clone().filter(|_| self.olds.is_none());
        let limits = other.limits.clone().filter(|_| self.requires.is_none() || self.olds.is_none());
        let all: Vec<Let> = requires.into_iter().chain(olds).chain(limits).collect();
        (!all.is_empty()).then(|| both(all))
    }

    /// Everybody who is let in; none if it does not say.
    pub(super) fn whole(&self) -> Option<Let> {
        let parts: Vec<Let> = self.requires.iter().chain(&self.olds).cloned().collect();
        let is_any = self.is_any == Some(true) && parts.len() > 1;
        let whole = if is_any { either(parts) } else { both(parts) };
        let is_said = self.requires.is_some() || self.olds.is_some() || self.limits.is_some();
        is_said.then(|| both([whole].into_iter().chain(self.limits.clone()).collect()))
    }
}

/// The words of these directives about access.
pub(super) fn said<'d>(
    directives: &[&'d Directive],
    passwords: &Passwords,
    files: Files<'_>,
    draft: &mut Draft,
) -> Option<Said<'d>> {
    let about: Vec<&Directive> = directives.iter().copied().filter(|one| is_about(one)).collect();
    let first = *about.first()?;
    let satisfy = about.iter().rev().find(|one| one.name == "satisfy");
    let is_any = satisfy.map(|one| one.argument(0).eq_ignore_ascii_case("any"));
    let of = |about: &[&Directive], draft: &mut Draft| {
        let requires: Vec<&Directive> = about.iter().copied().filter(|one| one.name.starts_with("require")).collect();
        let olds: Vec<&Directive> =
            about.iter().copied().filter(|one| matches!(&*one.name, "order" | "allow" | "deny")).collect();
        let requires = (!requires.is_empty())
            .then(|| either(requires.iter().filter_map(|one| required(one, passwords, files, draft)).collect()));
        let olds = (!olds.is_empty()).then(|| ordered(&olds, draft));
        (requires, olds)
    };
    let (requires, olds) = of(&about, draft);
    let mut limits = Vec::new();
    for one in about.iter().filter(|one| one.name.starts_with("limit")) {
        let why = "what only some methods are for is not done: it is for all of them";
        draft.lose(one.line, format!("`{}`: {why}", one.text()));
        let (requires, olds) = of(&one.within().iter().collect::<Vec<_>>(), draft);
        limits.extend(requires.into_iter().chain(olds));
    }
    let limits = (!limits.is_empty()).then(|| both(limits));
    Some(Said { first, requires, olds, limits, is_any })
}

/// Routes' further conditions and their `access`, the one that counts first first.
pub(super) fn rules(
    whole: &Let,
    said: &Said<'_>,
    passwords: &Passwords,
    files: Files<'_>,
    site: &mut Site,
    draft: &mut Draft,
) -> Vec<(Option<Vec<String>>, String)> {
    let about = [said.first];
    let users =
        |names: &[String], site: &mut Site, draft: &mut Draft| users(names, passwords, about[0], files, site, draft);
    match whole {
        Let::All => vec![(None, quoted("anyone"))],
        Let::None => vec![(None, quoted("deny"))],
        Let::From(networks) => vec![(None, format!("{{ allow = {} }}", list(networks)))],
        Let::NotFrom(networks) => vec![(None, format!("{{ deny = {} }}", list(networks)))],
        Let::Users(names) => {
            vec![(None, users(names, site, draft).map_or(quoted("deny"), |names| format!("{{ users = {names} }}")))]
        }
        Let::Both(parts) => {
            let (mut keys, mut is_said) = (Vec::new(), true);
            for part in parts {
                match part {
                    Let::Users(names) => match users(names, site, draft) {
                        Some(names) => keys.push(format!("users = {names}")),
                        None => is_said = false,
                    },
                    Let::From(networks) => keys.push(format!("allow = {}", list(networks))),
                    Let::NotFrom(networks) => keys.push(format!("deny = {}", list(networks))),
                    _ => is_said = false,
                }
            }
            let names: Vec<&str> = keys.iter().filter_map(|key| key.split(' ').next()).collect();
            let is_once = names.iter().all(|name| names.iter().filter(|other| other == &name).count() == 1);
            if !is_said || !is_once {
                let why = "these rules cannot be said together: nobody is let in";
                draft.lose(about[0].line, format!("`{}`: {why}", about[0].text()));
                vec![(None, quoted("deny"))]
            } else {
                vec![(None, format!("{{ {} }}", keys.join(", ")))]
            }
        }
        Let::Either(parts) => {
            let mut rules = Vec::new();
            for part in parts {
                match part {
                    Let::From(networks) => rules.insert(0, (Some(networks.clone()), quoted("anyone"))),
                    Let::Users(names) if rules.iter().all(|(networks, _)| networks.is_some()) => {
                        let value =
                            users(names, site, draft).map_or(quoted("deny"), |names| format!("{{ users = {names} }}"));
                        rules.push((None, value));
                    }
                    _ => draft.lose(
                        about[0].line,
                        format!("`{}`: one of these rules cannot be said, and lets nobody in", about[0].text()),
                    ),
                }
            }
            if rules.iter().all(|(networks, _)| networks.is_some()) {
                rules.push((None, quoted("deny")));
            }
            rules
        }
    }
}

fn either(parts: Vec<Let>) -> Let {
    let mut found: Vec<Let> = Vec::new();
    for part in parts {
        match (part, found.last_mut()) {
            (Let::All, _) => return Let::All,
            (Let::None, _) => {}
            (Let::Either(inner), _) => found.extend(inner),
            (Let::From(more), Some(Let::From(had))) | (Let::Users(more), Some(Let::Users(had))) => {
                if more.is_empty() || had.is_empty() { had.clear() } else { had.extend(more) }
            }
            (part, _) => found.push(part),
        }
    }
    match found.len() {
        0 => Let::None,
        1 => found.remove(0),
        _ => Let::Either(found),
    }
}

pub(super) fn both(parts: Vec<Let>) -> Let {
    let mut found: Vec<Let> = Vec::new();
    for part in parts {
        match part {
            Let::None => return Let::None,
            Let::All => {}
            Let::Both(inner) => found.extend(inner),
            Let::NotFrom(more) => {
                match found.iter_mut().find_map(|one| if let Let::NotFrom(had) = one { Some(had) } else { None }) {
                    Some(had) => had.extend(more),
                    None => found.push(Let::NotFrom(more)),
                }
            }
            part if found.contains(&part) => {}
            part => found.push(part),
        }
    }
    match found.len() {
        0 => Let::All,
        1 => found.remove(0),
        _ => Let::Both(found),
    }
}

/// The meaning of a `Require`; none if it is one that a rule beside it decides.
fn required(directive: &Directive, passwords: &Passwords, files: Files<'_>, draft: &mut Draft) -> Option<Let> {
    let inner = |draft: &mut Draft| -> Vec<Let> {
        directive.within().iter().filter_map(|one| required(one, passwords, files, draft)).collect()
    };
    match &*directive.name {
        "requireall" => return Some(both(inner(draft))),
        "requireany" => return Some(either(inner(draft))),
        "requirenone" => {
            let inner = inner(draft);
            return Some(both(inner.into_iter().map(|one| opposite(one).unwrap_or(Let::None)).collect()));
        }
        "require" => {}
        _ => return None,
    }
    let mut words: Vec<&str> = directive.arguments().iter().map(String::as_str).collect();
    let is_not = words.first().is_some_and(|word| word.eq_ignore_ascii_case("not"));
    if is_not {
        words.remove(0);
    }
    let (kind, rest) = words.split_first()?;
    let names = |rest: &[&str]| rest.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>();
    let found = match (&*kind.to_ascii_lowercase(), rest) {
        ("all", ["granted"]) => Some(Let::All),
        ("all", _) => Some(Let::None),
        ("granted", _) => Some(Let::All),
        ("ip", rest) => {
            rest.iter().map(|one| network(one)).collect::<Option<Vec<_>>>().filter(|all| !all.is_empty()).map(Let::From)
        }
        ("local", _) => Some(Let::From(vec!["127.0.0.0/8".into(), "::1".into()])),
        ("valid-user", _) => Some(Let::Users(Vec::new())),
        ("user", rest) if !rest.is_empty() => Some(Let::Users(names(rest))),
        ("group", rest) => passwords.groups.as_deref().and_then(|file| (files.read)(file).ok()).map(|text| {
            let members =
                text.lines().filter_map(|line| line.split_once(':')).filter(|(group, _)| rest.contains(&group.trim()));
            let users: Vec<String> =
                members.flat_map(|(_, users)| users.split_whitespace()).map(str::to_owned).collect();
            if users.is_empty() { Let::None } else { Let::Users(users) }
        }),
        _ => None,
    };
    let found = if is_not { found.and_then(opposite) } else { found };
    if found.is_none() {
        let why = "clients are let in by their networks and passwords, and nobody by this";
        draft.lose(directive.line, format!("`{}`: {why}", directive.text()));
    }
    Some(found.unwrap_or(Let::None))
}

fn opposite(one: Let) -> Option<Let> {
    match one {
        Let::All => Some(Let::None),
        Let::None => Some(Let::All),
        Let::From(networks) => Some(Let::NotFrom(networks)),
        _ => None,
    }
}

/// The meaning of `Order`, `Allow` and `Deny`.
fn ordered(directives: &[&Directive], draft: &mut Draft) -> Let {
    let order = directives.iter().rev().find(|one| one.name == "order");
    let allows_last = order.is_none_or(|one| one.arguments().concat().to_ascii_lowercase().starts_with("deny"));
    // Networks, whether all are among them, and whether something else is.
    let mut gathered = |name: &str| {
        let (mut networks, mut is_all, mut has_others) = (Vec::new(), false, false);
        for one in directives.iter().filter(|one| one.name == name) {
            for word in one.arguments().iter().filter(|word| !word.eq_ignore_ascii_case("from")) {
                match network(word) {
                    _ if word.eq_ignore_ascii_case("all") => is_all = true,
                    Some(network) => networks.push(network),
                    None => {
                        let why = if name == "allow" { "and nobody is let in by this" } else { "so nobody is let in" };
                        draft.lose(
                            one.line,
                            format!("`{word}` of `{}`: clients are known by their networks, {why}", one.text()),
                        );
                        has_others = true;
                    }
                }
            }
        }
        (networks, is_all, has_others)
    };
    let (allowed, all_allowed, _) = gathered("allow");
    let (denied, all_denied, others_denied) = gathered("deny");
    if others_denied {
        return Let::None;
    }
    match (allows_last, all_allowed, all_denied) {
        (true, true, _) => Let::All,
        (true, false, true) if allowed.is_empty() => Let::None,
        (true, false, true) => Let::From(allowed),
        (true, false, false) if denied.is_empty() => Let::All,
        // Of those that are denied, some are allowed all the same: fewer are let in.
        (true, false, false) => Let::NotFrom(denied),
        (false, _, true) => Let::None,
        (false, true, false) if denied.is_empty() => Let::All,
        (false, true, false) => Let::NotFrom(denied),
        (false, false, false) if allowed.is_empty() => Let::None,
        (false, false, false) if denied.is_empty() => Let::From(allowed),
        (false, false, false) => Let::Both(vec![Let::From(allowed), Let::NotFrom(denied)]),
    }
}

/// A network as it is written here: Apache takes the beginning of an address and a mask as well.
fn network(word: &str) -> Option<String> {
    if is_network(word) {
        return Some(word.to_owned());
    }
    if let Some((address, mask)) = word.split_once('/') {
        let mask: std::net::Ipv4Addr = mask.parse().ok()?;
        let bits = u32::from(mask).leading_ones();
        let is_mask = u32::from(mask).count_ones() == bits;
        return Some(format!("{address}/{bits}")).filter(|network| is_mask && is_network(network));
    }
    let parts: Vec<&str> = word.trim_end_matches('.').split('.').collect();
    let is_start = parts.len() < 4 && parts.iter().all(|part| part.parse::<u8>().is_ok());
    is_start.then(|| {
        let whole: Vec<&str> = parts.iter().copied().chain(std::iter::repeat("0")).take(4).collect();
        format!("{}/{}", whole.join("."), parts.len() * 8)
    })
}

/// Names of users whose passwords can be checked, whom the site knows then.
fn users(
    names: &[String],
    passwords: &Passwords,
    directive: &Directive,
    files: Files<'_>,
    site: &mut Site,
    draft: &mut Draft,
) -> Option<String> {
    let mut lose = |why: String| draft.lose(directive.line, format!("`{}`: {why}; nobody is let in", directive.text()));
    if let Some(other) = &passwords.other {
        lose(format!("`{other}` is not understood: passwords are in files"));
        return None;
    }
    let Some(file) = &passwords.file else {
        lose("it says no `AuthUserFile`".into());
        return None;
    };
    let text = match (files.read)(file) {
        Ok(text) => text,
        Err(why) => {
            lose(format!("`{file}` cannot be read: {why}"));
            return None;
        }
    };
    let mut found = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let Some((name, hash)) = line.split_once(':') else { continue };
        let hash = hash.split(':').next().unwrap_or_default();
        if !names.is_empty() && !names.iter().any(|one| one == name) {
            continue;
        }
        let is_other = site.users.iter().any(|(other, had)| other == name && had != hash);
        match check_user(name, hash) {
            Ok(_) if is_other => lose(format!("the user `{}` has another password elsewhere", name.escape_debug())),
            Ok(_) => {
                if !site.users.iter().any(|(other, _)| other == name) {
                    site.users.push((name.to_owned(), hash.to_owned()));
                }
                found.push(name.to_owned());
            }
            Err(why) => lose(format!("the user `{}` {why}", name.escape_debug())),
        }
    }
    (!found.is_empty()).then(|| list(&found))
}
