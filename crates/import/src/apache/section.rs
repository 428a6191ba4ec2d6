//! Sections of Apache: `Directory`, `Files`, `Location`, and what stands in none.
//!
//! Owns: for which paths a section is ([`parts`]), in the order in which they are merged there; `directives` has
//! what stands in it. Guarantees: a section whose paths cannot be said is for more of them where it keeps clients
//! out, and for none where it lets them in.

use lamna_config::render::quoted;
use lamna_config::route::pattern::compile;

use super::access::{self, Let, Passwords};
use super::routes::{Routes, Strength};
use super::syntax::Directive;
use super::{condition, directives, proxy, redirect, rewrite};
use crate::matching::{Kind, Literal, PathTest, Test};
use crate::{Draft, Files, Site};

/// The name of the section that the file of a folder (`.htaccess`) is.
pub(super) const OF_FILE: &str = ".htaccess";

/// A section and its paths.
#[derive(Debug)]
pub(super) struct Part<'d> {
    pub(super) directives: Vec<&'d Directive>,
    /// Tests of the path, of which all have to fit; none for every path.
    pub(super) tests: Vec<Literal>,
    /// The beginning of the paths of a folder, with a slash at its end; none for what is no folder.
    pub(super) folder: Option<String>,
    pub(super) line: usize,
    pub(super) text: String,
    /// Its requests are more than those of the section.
    is_wider: bool,
    pub(super) is_location: bool,
    /// It is for fewer requests, by a condition that cannot be said.
    pub(super) is_conditional: bool,
    /// Tests of the section around it.
    within: Vec<Literal>,
}

impl Part<'_> {
    /// Whether it is for every path.
    pub(super) fn is_whole(&self) -> bool {
        self.tests.is_empty()
    }
}

/// The surroundings of the sections of a site.
pub(super) struct Around<'a> {
    pub(super) files: Files<'a>,
    pub(super) is_tls: Option<bool>,
    /// The configuration is that of a folder.
    pub(super) is_folder: bool,
}

/// The sections of a site, in the order in which they are merged.
pub(super) fn parts<'d>(
    all: &[&'d Directive],
    root: Option<&str>,
    aliases: &[(String, String)],
    draft: &mut Draft,
) -> Vec<Part<'d>> {
    let plain: Vec<&Directive> = all.iter().copied().filter(|one| !is_section(one)).collect();
    let line = plain.first().map_or(1, |one| one.line);
    let first = Part {
        directives: plain,
        tests: Vec::new(),
        folder: None,
        line,
        text: String::new(),
        is_wider: false,
        is_location: false,
        is_conditional: false,
        within: Vec::new(),
    };
    let (mut folders, mut matches, mut locations) = (Vec::new(), Vec::new(), Vec::new());
    let mut inner = Inner::default();
    for section in all.iter().copied().filter(|one| is_section(one)) {
        match &*section.name {
            "directory" | OF_FILE if section.argument(0) != "~" => {
                let path = section.argument(0).trim_end_matches('/');
                for (prefix, is_exact) in urls(path, root, aliases) {
                    let tests = match &*prefix {
                        "/" => Vec::new(),
                        prefix => vec![(Test::Path(vec![PathTest::new(Kind::Prefix, prefix, false)]), false)],
                    };
                    // What a folder says itself comes behind what is said of it.
                    let place = (path.matches('/').count(), section.name == OF_FILE);
                    folders.push((place, part(section, tests, Some(prefix), !is_exact, false, &mut inner, draft)));
                }
            }
            "directory" | "directorymatch" => {
                let regex = section.arguments().last().map_or("", String::as_str);
                let tests = match of_directories(regex, root, aliases) {
                    Some(tests) if tests.is_empty() => {
                        draft.need_not(section.line, format!("`{}`: nothing of this site is there", section.text()));
                        continue;
                    }
                    Some(tests) => vec![(Test::Path(tests), false)],
                    None => Vec::new(),
                };
                matches.push(part(section, tests, None, true, false, &mut inner, draft));
            }
            "files" | "filesmatch" => of_names(section, &[], false, &mut inner, draft),
            "location" | "locationmatch" => {
                let path = section.arguments().last().map_or("", String::as_str);
                let is_regex = section.name == "locationmatch" || section.argument(0) == "~";
                let (tests, is_wider) = match is_regex {
                    true => {
                        let regex = crate::nginx::restricting(path);
                        match compile(&regex) {
                            Ok(_) => {
                                (vec![(Test::Path(vec![PathTest::new(Kind::Regex, &regex, false)]), false)], false)
                            }
                            Err(_) => (Vec::new(), true),
                        }
                    }
                    false if matches!(path, "/" | "") => (Vec::new(), false),
                    false if path.contains(['*', '?', '[']) => {
                        let regex = format!("^{}(?:/|$)", glob(path));
                        (vec![(Test::Path(vec![PathTest::new(Kind::Regex, &regex, false)]), false)], false)
                    }
                    false => (vec![(Test::Path(redirect::beneath(path)), false)], false),
                };
                locations.push(part(section, tests, None, is_wider, true, &mut inner, draft));
            }
            "proxy" | "proxymatch" if !keeps_out(section, true) => {}
            _ => of_condition(section, &[], &mut inner, draft),
        }
    }
    folders.sort_by_key(|(place, _)| *place);
    [first]
        .into_iter()
        .chain(folders.into_iter().map(|(_, part)| part))
        .chain(matches)
        .chain(inner.names)
        .chain(locations)
        .chain(inner.conditions)
        .collect()
}

fn is_section(directive: &Directive) -> bool {
    directive.inner.is_some() && !access::is_about(directive)
}

/// Sections within others, in the order in which they are merged: both after all folders.
#[derive(Default)]
struct Inner<'d> {
    names: Vec<Part<'d>>,
    conditions: Vec<Part<'d>>,
}

/// A section, and what stands in it. Nothing within is left out.
fn part<'d>(
    section: &'d Directive,
    tests: Vec<Literal>,
    folder: Option<String>,
    is_wider: bool,
    is_location: bool,
    inner: &mut Inner<'d>,
    draft: &mut Draft,
) -> Part<'d> {
    for one in section.within().iter().filter(|one| is_section(one)) {
        match &*one.name {
            "files" | "filesmatch" => of_names(one, &tests, is_wider, inner, draft),
            _ => of_condition(one, &tests, inner, draft),
        }
    }
    let directives = section.within().iter().filter(|one| !is_section(one)).collect();
    let (line, text) = (section.line, section.text());
    let is_conditional = false;
    Part { directives, within: tests.clone(), tests, folder, line, text, is_wider, is_location, is_conditional }
}

/// Whether something in a section, of which `asks_for_client` says whom it is for, keeps clients out.
fn keeps_out(section: &Directive, asks_for_client: bool) -> bool {
    let within = section.within();
    within.iter().any(|one| is_refusal(one, asks_for_client) || is_section(one) && keeps_out(one, asks_for_client))
}

/// Whether a directive may keep clients out. One that leads elsewhere does where it is for some clients.
fn is_refusal(directive: &Directive, asks_for_client: bool) -> bool {
    match &*directive.name {
        "rewriterule" => {
            let refusal = rewrite::refusal(directive);
            refusal == Some("403") || asks_for_client && refusal.is_some()
        }
        "redirectpermanent" | "redirecttemp" => asks_for_client,
        "redirect" | "redirectmatch" => {
            let status = directive.argument(0);
            asks_for_client || status.eq_ignore_ascii_case("gone") || status.starts_with(['4', '5'])
        }
        name => access::is_about(directive) || directives::may_refuse(name),
    }
}

/// A section whose condition cannot be said: what it keeps out is kept out of all that is around it.
fn of_condition<'d>(section: &'d Directive, around: &[Literal], inner: &mut Inner<'d>, draft: &mut Draft) {
    let asks_for_client = condition::asks_for_client(&section.arguments().join(" "));
    let refuses = keeps_out(section, asks_for_client);
    let what = if refuses { "whom it keeps out is kept out without its condition" } else { "it is left out" };
    let why = "conditions of this kind are not understood";
    draft.lose(section.line, format!("`{}` and all that it says: {why}; {what}", section.text()));
    if !refuses {
        return;
    }
    let count = inner.names.len();
    let mut made = part(section, around.to_vec(), None, true, true, inner, draft);
    let mut names = inner.names.split_off(count);
    names.iter_mut().for_each(|one| one.is_conditional = true);
    made.directives.retain(|one| {
        is_refusal(one, asks_for_client) || Passwords::default().take(one) || one.name == "rewriteengine"
    });
    made.is_conditional = true;
    inner.conditions.push(made);
    inner.conditions.extend(names);
}

/// The tests of paths for an expression over names of directories. None if they cannot be said: any path may fit.
fn of_directories(regex: &str, root: Option<&str>, aliases: &[(String, String)]) -> Option<Vec<PathTest>> {
    let places = root.iter().map(|root| ("/", *root)).chain(aliases.iter().map(|(from, to)| (&**from, &**to)));
    let mut found = Vec::new();
    for (prefix, directory) in places {
        let directory = format!("{}/", directory.trim_end_matches('/'));
        let of_url = match regex.strip_prefix('^') {
            Some(rest) if !rewrite::has_alternatives(rest) => {
                let (start, length) = literal_start(rest, Some(&directory));
                if start == directory {
                    // The slash at the end of the directory is that of the prefix.
                    format!("^{}{}", regex::escape(prefix), of_name(&rest[length..]))
                } else if directory.starts_with(&start) {
                    return None;
                } else {
                    continue;
                }
            }
            Some(_) => return None,
            None => {
                // It must not begin to fit within the name of the directory.
                if rewrite::has_alternatives(regex) {
                    return None;
                }
                let begins = |start: &String| {
                    (0..directory.len() - 1).filter(|at| directory.is_char_boundary(*at)).any(|at| {
                        let rest = &directory[at..];
                        rest.starts_with(&**start) || start.starts_with(rest)
                    })
                };
                let starts = literal_starts(regex)?;
                if starts.iter().any(begins) {
                    return None;
                }
                of_name(regex)
            }
        };
        let of_url = crate::nginx::restricting(&of_url);
        compile(&of_url).ok()?;
        let test = PathTest::new(Kind::Regex, &of_url, false);
        if !found.contains(&test) {
            found.push(test);
        }
    }
    Some(found)
}

/// The text with which everything begins that fits, no longer than `up_to`, and its length in the expression.
fn literal_start(regex: &str, up_to: Option<&str>) -> (String, usize) {
    let (mut text, mut length) = (String::new(), 0);
    let mut rest = regex.chars();
    while up_to.is_none_or(|up_to| text.len() < up_to.len()) {
        let one = match rest.next() {
            Some('\\') => match rest.next().filter(|next| !next.is_alphanumeric()) {
                Some(next) => next,
                None => break,
            },
            Some(one) if !".*+?()[]{}|^$".contains(one) => one,
            _ => break,
        };
        // What may come again or be left out is no part of it.
        if rest.as_str().starts_with(['*', '?', '{', '+']) {
            break;
        }
        text.push(one);
        length = regex.len() - rest.as_str().len();
    }
    (text, length)
}

/// Texts with one of which everything begins that fits. None if there is no such text.
fn literal_starts(regex: &str) -> Option<Vec<String>> {
    let (start, length) = literal_start(regex, None);
    let group = regex[length..].strip_prefix('(').map(|rest| rest.strip_prefix("?:").unwrap_or(rest));
    let group = group.and_then(|rest| rest.split_once(')')).filter(|(group, rest)| {
        let is_sign = |one: char| "(\\[.*+?{$".contains(one);
        !group.contains(is_sign) && !rest.starts_with(['*', '?', '{', '+'])
    });
    let starts: Vec<String> = match group {
        Some((group, rest)) => {
            let (end, _) = literal_start(rest, None);
            // A name of a directory begins with a slash.
            let ways = group.split('|').filter(|one| *one != "^" || end.is_empty() || end.starts_with('/'));
            ways.map(|one| format!("{start}{}{end}", one.trim_start_matches('^'))).collect()
        }
        None => vec![start],
    };
    (!starts.iter().any(String::is_empty)).then_some(starts)
}

/// A section for names of files, beneath some paths.
fn of_names<'d>(
    section: &'d Directive,
    around: &[Literal],
    is_around_wider: bool,
    inner: &mut Inner<'d>,
    draft: &mut Draft,
) {
    let name = section.arguments().last().map_or("", String::as_str);
    let is_regex = section.name == "filesmatch" || section.argument(0) == "~";
    let regex = if is_regex { of_name(name) } else { format!("/{}(?:/|$)", glob(name)) };
    let (tests, is_wider) = match compile(&regex) {
        _ if name == "*" => (around.to_vec(), false),
        // One expression for both: a beginning and an expression.
        Ok(_) => match around {
            [(Test::Path(paths), false)] if matches!(&paths[..], [one] if one.kind == Kind::Prefix) => {
                let start = regex::escape(paths[0].text.trim_end_matches('/'));
                let (flags, rest) = regex.strip_prefix("(?i)").map_or(("", &*regex), |rest| ("(?i)", rest));
                (
                    vec![(
                        Test::Path(vec![PathTest::new(
                            Kind::Regex,
                            &format!("{flags}^{start}(?s:.*)(?:{rest})"),
                            false,
                        )]),
                        false,
                    )],
                    is_regex,
                )
            }
            _ => {
                let is_wider = is_regex || !around.is_empty();
                (vec![(Test::Path(vec![PathTest::new(Kind::Regex, &regex, false)]), false)], is_wider)
            }
        },
        Err(_) => (around.to_vec(), true),
    };
    let mut made = part(section, tests, None, is_wider || is_around_wider, false, inner, draft);
    made.within = around.to_vec();
    inner.names.push(made);
}

/// How the paths of a section lie to those of a later one.
#[derive(PartialEq, Eq)]
enum Lies {
    /// All of the later one are among them.
    Around,
    /// None is of both.
    Apart,
    Unknown,
}

/// Beginnings of paths, where tests ask for no more.
fn beginnings(tests: &[Literal]) -> Option<&[PathTest]> {
    let is_plain = |one: &PathTest| matches!(one.kind, Kind::Exact | Kind::Prefix) && !one.is_any_case;
    match tests {
        [(Test::Path(paths), false)] if paths.iter().all(is_plain) => Some(paths),
        _ => None,
    }
}

fn lies(one: &Part<'_>, later: &Part<'_>) -> Lies {
    let fits = |path: &PathTest, around: &PathTest| match around.kind {
        Kind::Prefix => path.text.starts_with(&around.text),
        _ => path.kind == Kind::Exact && path.text == around.text,
    };
    let place = |part: &Part<'_>| beginnings(&part.tests).or(beginnings(&part.within)).map(<[PathTest]>::to_vec);
    let (own, its) = (beginnings(&one.tests), place(later));
    let is_around = match (own, &its) {
        _ if one.is_wider => false,
        _ if one.is_whole() => true,
        (Some(own), Some(its)) => its.iter().all(|path| own.iter().any(|around| fits(path, around))),
        _ => false,
    };
    let is_apart = match (place(one), &its) {
        (Some(own), Some(its)) => its.iter().all(|path| {
            own.iter().all(|around| !path.text.starts_with(&around.text) && !around.text.starts_with(&path.text))
        }),
        _ => false,
    };
    match () {
        () if is_around => Lies::Around,
        () if is_apart => Lies::Apart,
        () => Lies::Unknown,
    }
}

/// Access as the sections so far say it.
struct Standing<'s, 'd> {
    part: &'s Part<'d>,
    /// The words of the section itself; and `said`: with those around it.
    own: access::Said<'d>,
    said: access::Said<'d>,
    whole: Let,
    passwords: Passwords,
}

/// Makes routes of the access of a section. The one that is wider than its section narrows what stands, and a section
/// takes nothing away from what another module says.
#[allow(clippy::too_many_arguments)]
fn enter<'s, 'd>(
    part: &'s Part<'d>,
    own: access::Said<'d>,
    passwords: Passwords,
    standing: &mut Vec<Standing<'s, 'd>>,
    around: &Around<'_>,
    site: &mut Site,
    routes: &mut Routes,
    draft: &mut Draft,
) {
    let near = |one: &&Standing<'_, '_>| lies(one.part, part) != Lies::Apart;
    let mut said = own.clone();
    let outer = standing.iter().rev().find(|one| lies(one.part, part) == Lies::Around);
    if let Some(outer) = outer {
        said.inherit(&outer.said);
    }
    let Some(mut whole) = said.whole() else { return };
    let restricted = standing.iter().filter(near).any(|one| one.whole != Let::All);
    if part.is_wider && whole == Let::All {
        if restricted {
            let why = "its paths cannot be said exactly, so it lets nobody in who is not let in around it";
            draft.lose(part.line, format!("`{}`: {why}", part.text));
        }
        return;
    }
    // Sections that let nobody in still let nobody in.
    let mut denied: Vec<Vec<Literal>> = Vec::new();
    let is_closed = whole == Let::None;
    for one in standing.iter().filter(near).filter(|_| !is_closed) {
        let is_around = lies(one.part, part) == Lies::Around;
        let beside = own.beside(&one.own).filter(|_| !is_around);
        let more: Vec<Let> = beside.into_iter().chain(part.is_wider.then(|| one.whole.clone())).collect();
        if !is_around && one.whole == Let::None && more.contains(&Let::None) {
            denied.push(one.part.tests.clone());
            continue;
        }
        for more in more {
            let has_others = more.asks_password() && one.passwords != passwords;
            whole = access::both(vec![whole, if has_others { Let::None } else { more }]);
        }
    }
    if whole != Let::All || restricted {
        let line = Directive { line: part.line, name: String::new(), words: vec![part.text.clone()], inner: None };
        let rules = access::rules(&whole, &said, &passwords, around.files, site, draft);
        for (clients, value) in rules.iter().rev() {
            let mut tests = part.tests.clone();
            tests.extend(clients.iter().map(|clients| (Test::Client(clients.clone()), false)));
            routes.emit(Strength::Section, &line, &tests, vec![("access", value.clone())], true, draft);
        }
        for tests in denied {
            routes.emit(Strength::Section, &line, &tests, vec![("access", quoted("deny"))], true, draft);
        }
    }
    standing.retain(|one| lies(part, one.part) != Lies::Around || !own.replaces(&one.own));
    standing.push(Standing { part, own, said, whole, passwords });
}

/// An expression over names of files as one over paths. It fits more: folders of such names as well.
fn of_name(regex: &str) -> String {
    let (mut out, mut is_escaped, mut in_class) = (String::new(), false, false);
    for one in regex.chars() {
        let was_escaped = is_escaped;
        is_escaped = one == '\\' && !was_escaped;
        match one {
            '^' if !was_escaped && !in_class => out.push('/'),
            '$' if !was_escaped && !in_class => out.push_str("(?:/|\\n?$)"),
            _ => {
                if !was_escaped {
                    in_class = match one {
                        '[' => true,
                        ']' => false,
                        _ => in_class,
                    };
                }
                out.push(one);
            }
        }
    }
    out
}

/// The expression of a pattern of a shell.
fn glob(pattern: &str) -> String {
    let mut out = String::new();
    for one in pattern.chars() {
        match one {
            '*' => out.push_str("[^/]*"),
            '?' => out.push_str("[^/]"),
            '[' | ']' => out.push(one),
            one => out.push_str(&regex::escape(&one.to_string())),
        }
    }
    out
}

/// Beginnings of the paths of a directory, and whether they are no more than those.
fn urls(path: &str, root: Option<&str>, aliases: &[(String, String)]) -> Vec<(String, bool)> {
    let mut found = Vec::new();
    let is_pattern = path.contains(['*', '?', '[']);
    let start = path.split(['*', '?', '[']).next().unwrap_or_default();
    let start = if is_pattern { start.rsplit_once('/').map_or("", |(start, _)| start) } else { start };
    for (prefix, directory) in
        root.iter().map(|root| ("/", *root)).chain(aliases.iter().map(|(prefix, root)| (&**prefix, &**root)))
    {
        let directory = directory.trim_end_matches('/');
        let is_around = start.is_empty() || directory == start || directory.starts_with(&format!("{start}/"));
        if is_around {
            found.push((prefix.to_owned(), !is_pattern));
        } else if let Some(rest) = start.strip_prefix(&format!("{directory}/")) {
            found.push((format!("{prefix}{rest}/"), !is_pattern));
        }
    }
    found
}

/// Carries the sections of a site over.
pub(super) fn carry(
    parts: &[Part<'_>],
    around: &Around<'_>,
    site: &mut Site,
    routes: &mut Routes,
    draft: &mut Draft,
) -> rewrite::Made {
    let mut made = rewrite::Made::default();
    let mut passwords: Vec<(&Part<'_>, Passwords)> = Vec::new();
    let mut standing = Vec::new();
    let mut balancers = proxy::Balancers::default();
    let mut said = proxy::Said::default();
    let every = parts.iter().flat_map(|part| &part.directives);
    for directive in every.clone() {
        match &*directive.name {
            "proxypreservehost" => said.preserves_host = directive.argument(0).eq_ignore_ascii_case("on"),
            "proxytimeout" => said.timeout_s = directive.argument(0).parse().ok(),
            _ => {}
        }
    }
    let has_reverse = every.clone().any(|one| one.name == "proxypassreverse");
    for part in parts {
        for section in part.directives.iter().filter(|one| one.name == "proxy") {
            balancers.take(section, draft);
        }
    }
    for part in parts {
        let outer = passwords.iter().rev().find(|(one, _)| lies(one, part) == Lies::Around);
        let mut own = outer.map_or_else(Passwords::default, |(_, outer)| outer.clone());
        for directive in &part.directives {
            own.take(directive);
        }
        passwords.push((part, own.clone()));
        if let Some(said) = access::said(&part.directives, &own, around.files, draft) {
            enter(part, said, own, &mut standing, around, site, routes, draft);
        }
        let base = part.folder.clone().or((around.is_folder && part.is_whole()).then(|| "/".to_owned()));
        let place = rewrite::Place { base: base.as_deref().unwrap_or(""), is_tls: around.is_tls };
        if part.directives.iter().any(|one| one.name == "rewriterule") {
            let is_known = part.is_whole() || part.folder.is_some();
            if is_known && !part.is_wider {
                let found = rewrite::carry(&part.directives, &place, routes, draft);
                made.leads_to_tls |= found.leads_to_tls;
                if part.is_whole() {
                    made.tried.extend(found.tried);
                } else {
                    directives::in_folder(part, found.tried, routes, draft);
                }
            } else {
                rewrite::refuse(&part.directives, &part.tests, routes, draft);
            }
        }
        directives::plain(part, around, &balancers, said, has_reverse, site, routes, draft);
    }
    made
}
