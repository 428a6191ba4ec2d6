//! Sections of Apache: `Directory`, `Files`, `Location`, and what stands in none.
//!
//! Owns: for which paths a section is ([`parts`]), in the order in which they are merged there; `directives` has
//! what stands in it. Guarantees: a section whose paths cannot be said is for more of them where it keeps clients
//! out, and for none where it lets them in.

use lamna_config::route::pattern::compile;

use super::access::{self, Passwords};
use super::routes::{Routes, Strength};
use super::syntax::Directive;
use super::{directives, proxy, redirect, rewrite};
use crate::matching::{Kind, Literal, PathTest, Test};
use crate::{Draft, Files, Site};

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
    /// Its paths are more than those of the section.
    is_wider: bool,
    pub(super) is_location: bool,
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
    };
    let (mut folders, mut matches, mut names, mut locations) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for section in all.iter().copied().filter(|one| is_section(one)) {
        match &*section.name {
            "directory" if section.argument(0) != "~" => {
                let path = section.argument(0).trim_end_matches('/');
                for (prefix, is_exact) in urls(path, root, aliases) {
                    of_folder(section, &prefix, !is_exact, path.matches('/').count(), &mut folders, &mut names);
                }
            }
            "directory" | "directorymatch" => {
                let regex = section.arguments().last().map_or("", String::as_str);
                let regex = crate::nginx::restricting(regex.trim_start_matches('^'));
                let (tests, is_wider) = match compile(&regex) {
                    Ok(_) => (vec![(Test::Path(vec![PathTest::new(Kind::Regex, &regex, false)]), false)], true),
                    Err(_) => (Vec::new(), true),
                };
                matches.push(part(section, tests, None, is_wider, false));
            }
            "files" | "filesmatch" => names.push(of_names(section, &[])),
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
                locations.push(part(section, tests, None, is_wider, true));
            }
            "proxy" | "proxymatch" | "macro" | "if" | "ifelse" | "elseif" | "else" => {
                let restricts = section.within().iter().any(access::is_about);
                if section.name.starts_with("proxy") {
                    continue;
                }
                draft.lose(
                    section.line,
                    format!("`{}` and all that it says: conditions of this kind are not understood", section.text()),
                );
                if restricts {
                    locations.push(part(section, Vec::new(), None, true, true));
                }
            }
            _ => draft
                .lose(section.line, format!("`{}` and all that it says: Lamna has nothing like it", section.text())),
        }
    }
    folders.sort_by_key(|(depth, _)| *depth);
    [first]
        .into_iter()
        .chain(folders.into_iter().map(|(_, part)| part))
        .chain(matches)
        .chain(names)
        .chain(locations)
        .collect()
}

fn is_section(directive: &Directive) -> bool {
    directive.inner.is_some() && !access::is_about(directive)
}

fn part<'d>(
    section: &'d Directive,
    tests: Vec<Literal>,
    folder: Option<String>,
    is_wider: bool,
    is_location: bool,
) -> Part<'d> {
    let directives = section.within().iter().filter(|one| !is_section(one)).collect();
    Part { directives, tests, folder, line: section.line, text: section.text(), is_wider, is_location }
}

fn of_folder<'d>(
    section: &'d Directive,
    prefix: &str,
    is_wider: bool,
    depth: usize,
    folders: &mut Vec<(usize, Part<'d>)>,
    names: &mut Vec<Part<'d>>,
) {
    let tests = match prefix {
        "/" => Vec::new(),
        prefix => vec![(Test::Path(vec![PathTest::new(Kind::Prefix, prefix, false)]), false)],
    };
    folders.push((depth, part(section, tests.clone(), Some(prefix.to_owned()), is_wider, false)));
    let inner = section.within().iter().filter(|one| matches!(&*one.name, "files" | "filesmatch"));
    names.extend(inner.map(|inner| of_names(inner, &tests)));
}

/// A section for names of files, beneath some paths.
fn of_names<'d>(section: &'d Directive, around: &[Literal]) -> Part<'d> {
    let name = section.arguments().last().map_or("", String::as_str);
    let is_regex = section.name == "filesmatch" || section.argument(0) == "~";
    let regex = if is_regex { of_name(name) } else { format!("/{}(?:/|$)", glob(name)) };
    let (tests, is_wider) = match compile(&regex) {
        _ if name == "*" => (around.to_vec(), false),
        // One expression for both: a beginning and an expression.
        Ok(_) => match around {
            [(Test::Path(paths), false)] => {
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
            _ => (vec![(Test::Path(vec![PathTest::new(Kind::Regex, &regex, false)]), false)], is_regex),
        },
        Err(_) => (around.to_vec(), true),
    };
    part(section, tests, None, is_wider, false)
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
    let mut passwords = Passwords::default();
    let mut balancers = proxy::Balancers::default();
    let mut said = proxy::Said::default();
    let mut has_access = false;
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
        let mut own = passwords.clone();
        for directive in &part.directives {
            own.take(directive);
        }
        if part.is_whole() {
            passwords = own.clone();
        }
        if let Some(rules) = access::of(&part.directives, &own, around.files, site, draft) {
            let lets_in = rules.iter().all(|(_, value)| value == "\"anyone\"");
            if part.is_wider && lets_in && has_access {
                draft.lose(
                    part.line,
                    format!(
                        "`{}`: its paths cannot be said exactly, so it lets nobody in who is not let in around it",
                        part.text
                    ),
                );
            } else if has_access || !lets_in {
                has_access = true;
                for (clients, value) in rules.iter().rev() {
                    let mut tests = part.tests.clone();
                    tests.extend(clients.iter().map(|clients| (Test::Client(clients.clone()), false)));
                    let line =
                        Directive { line: part.line, name: String::new(), words: vec![part.text.clone()], inner: None };
                    routes.emit(Strength::Section, &line, &tests, vec![("access", value.clone())], true, draft);
                }
            }
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
                for one in part.directives.iter().filter(|one| one.name == "rewriterule") {
                    draft.lose(one.line, format!("`{}`: rules stand in a server or a folder", one.text()));
                }
            }
        }
        directives::plain(part, around, &balancers, said, has_reverse, site, routes, draft);
    }
    made
}
