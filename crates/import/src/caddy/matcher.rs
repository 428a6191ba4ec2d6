//! Matchers of Caddy as the `match` of a route.
//!
//! Owns: their syntax, and which of them can be said here.

use std::collections::BTreeMap;

use lamna_config::render::quoted;
use lamna_config::route::condition::Network;
use lamna_config::route::pattern::{Pattern, compile};

use super::syntax::Line;
use crate::{Draft, list};

/// What is asked of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Matcher {
    /// Paths: one of them; empty for any.
    paths: Vec<String>,
    regex: Option<String>,
    /// Keys of `match` and their values.
    conditions: Vec<(String, String)>,
}

/// Matchers with names.
#[derive(Debug, Default)]
pub(super) struct Matchers {
    named: BTreeMap<String, Named>,
}

/// What can be said here of a matcher: all that it asks, or less, so that more fits, and why.
#[derive(Clone, Debug)]
struct Named {
    matcher: Matcher,
    missing: Option<String>,
}

/// A matcher that cannot be said here.
#[derive(Clone, Debug)]
pub(super) struct Unsaid {
    pub(super) why: String,
    /// One that can be said, and that fits at least as much.
    pub(super) wider: Matcher,
}

impl Matcher {
    /// Every request.
    pub(super) fn any() -> Matcher {
        Matcher::default()
    }

    /// These paths.
    pub(super) fn of_paths(paths: &[impl AsRef<str>]) -> Matcher {
        Matcher { paths: paths.iter().map(|path| path.as_ref().to_owned()).collect(), ..Matcher::default() }
    }

    pub(super) fn is_any(&self) -> bool {
        *self == Matcher::default()
    }

    /// What all of its paths begin with, if that is all that it asks.
    pub(super) fn prefix(&self) -> Option<&str> {
        match &self.paths[..] {
            [one] if self.regex.is_none() && self.conditions.is_empty() => {
                one.strip_suffix('*').filter(|one| !one.contains('*'))
            }
            _ => None,
        }
    }

    /// What fits both.
    pub(super) fn and(&self, other: &Matcher) -> Result<Matcher, String> {
        let mut both = self.clone();
        if both.paths.is_empty() {
            both.paths = other.paths.clone();
        } else if !other.paths.is_empty() && other.paths != both.paths {
            let outer = both.prefix().map(str::to_owned);
            let is_within = |path: &String| outer.as_ref().is_some_and(|outer| path.starts_with(outer.as_str()));
            if !other.paths.iter().all(is_within) {
                return Err("its paths and those of what it stands in cannot be said together".into());
            }
            both.paths = other.paths.clone();
        }
        if both.regex.is_some() && other.regex.is_some() {
            return Err("two expressions cannot be said together".into());
        }
        both.regex = both.regex.or_else(|| other.regex.clone());
        both.conditions.extend(other.conditions.iter().cloned());
        Ok(both)
    }

    /// As the value of `match`.
    pub(super) fn to_toml(&self) -> Result<String, String> {
        if self.is_any() {
            return Ok(quoted("*"));
        }
        if let Some(wrong) = self.paths.iter().find(|path| Pattern::from_glob(path).is_err()) {
            return Err(format!("`{wrong}` is no pattern here"));
        }
        let mut keys: Vec<String> = self.conditions.iter().map(|(key, value)| format!("{key} = {value}")).collect();
        match (&self.regex, &self.paths[..]) {
            (Some(_), [_, ..]) => return Err("a path and an expression cannot be said together".into()),
            (Some(regex), []) => keys.insert(0, format!("regex = {}", quoted(regex))),
            (None, [one]) if keys.is_empty() => return Ok(quoted(one)),
            (None, []) => {}
            (None, paths) => keys.insert(0, format!("path = {}", list(paths))),
        }
        let mut names: Vec<&str> = keys.iter().filter_map(|key| key.split_once(" = ").map(|(name, _)| name)).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        if names.len() < count {
            return Err("two conditions of one kind cannot be said together".into());
        }
        Ok(format!("{{ {} }}", keys.join(", ")))
    }

    /// As the value of `match`, or of one that fits more if it cannot be said.
    pub(super) fn to_wider_toml(&self) -> String {
        let paths = Matcher { paths: self.paths.clone(), ..Matcher::default() };
        let regex = Matcher { regex: self.regex.clone(), ..Matcher::default() };
        let each = self.conditions.iter().cloned().map(|one| Matcher { conditions: vec![one], ..Matcher::default() });
        let narrow = [self.clone(), regex, paths].into_iter().chain(each).filter(|one| !one.is_any());
        narrow.into_iter().find_map(|one| one.to_toml().ok()).unwrap_or_else(|| quoted("*"))
    }

    fn add(&mut self, words: &[String]) -> Result<(), String> {
        let (kind, arguments) = words.split_first().ok_or("it is empty")?;
        let value = |index: usize| arguments.get(index).map(String::as_str).unwrap_or_default();
        match &**kind {
            "path" if arguments.iter().any(|path| path.contains('{')) => return Err("a path is written out".to_owned()),
            "path" => self.paths.extend(arguments.iter().cloned()),
            "path_regexp" if self.regex.is_some() => return Err("two expressions cannot be said together".into()),
            "path_regexp" => {
                let regex = arguments.last().ok_or("it has no expression")?;
                compile(regex)?;
                self.regex = Some(regex.clone());
            }
            "method" => self.conditions.push(("method".into(), list(arguments))),
            "host" => self.conditions.push(("host".into(), list(arguments))),
            "remote_ip" | "client_ip" => self.conditions.push(("client".into(), list(&networks(arguments)?))),
            "not" if !arguments.is_empty() => {
                let mut inner = Matcher::default();
                inner.add(arguments)?;
                self.conditions.push(("not".into(), inner.negated()?));
            }
            "header" if value(0).starts_with('!') && arguments.len() == 1 => {
                self.conditions.push(("header".into(), format!("{{ {} = false }}", quoted(&value(0)[1..]))));
            }
            "header" if !value(0).starts_with('!') && arguments.len() <= 2 => {
                let tested = match value(1) {
                    "" | "*" => "true".to_owned(),
                    text if text.contains('*') => {
                        let parts: Vec<String> = text.split('*').map(regex::escape).collect();
                        format!("{{ regex = {} }}", quoted(&format!("^{}$", parts.join(".*"))))
                    }
                    text => quoted(text),
                };
                self.conditions.push(("header".into(), format!("{{ {} = {tested} }}", quoted(value(0)))));
            }
            "query" if arguments.len() == 1 => {
                let (name, text) = value(0).split_once('=').ok_or("it is no `name=value`")?;
                let tested = if text == "*" { "true".to_owned() } else { quoted(text) };
                self.conditions.push(("query".into(), format!("{{ {} = {tested} }}", quoted(name))));
            }
            _ => return Err(format!("the matcher `{}` cannot be said here", words.join(" "))),
        }
        Ok(())
    }

    /// The value of `not`: what does not fit this.
    fn negated(&self) -> Result<String, String> {
        if !self.paths.is_empty() || self.regex.is_some() {
            return Err("paths that do not fit cannot be said".to_owned());
        }
        let value = self.to_toml()?;
        if value.starts_with('{') { Ok(value) } else { Err("it is empty".to_owned()) }
    }
}

/// Networks as they are written here.
fn networks(arguments: &[String]) -> Result<Vec<String>, String> {
    const PRIVATE: [&str; 6] = ["192.168.0.0/16", "172.16.0.0/12", "10.0.0.0/8", "127.0.0.0/8", "fd00::/8", "::1"];
    let mut networks = Vec::new();
    for one in arguments {
        match &**one {
            "private_ranges" => networks.extend(PRIVATE.map(str::to_owned)),
            one if one.parse::<Network>().is_ok() => networks.push(one.to_owned()),
            wrong => return Err(format!("`{wrong}` is not a network")),
        }
    }
    if networks.is_empty() { Err("it names no network".to_owned()) } else { Ok(networks) }
}

impl Matchers {
    /// `@name kind arguments`, or `@name { ... }`.
    pub(super) fn define(&mut self, line: &Line, draft: &mut Draft) {
        let mut matcher = Matcher::default();
        let mut missing = None;
        let mut add = |one: &Line, words: &[String]| {
            let added = match &one.block {
                Some(_) if words.first().is_some_and(|word| word == "not") => not_all(one),
                Some(_) => Err("a block cannot be said here".to_owned()),
                None => matcher.add(words).map(|()| None),
            };
            match added {
                Ok(condition) => matcher.conditions.extend(condition),
                // What it does not ask does not narrow it.
                Err(why) => missing = missing.take().or(Some(why)),
            }
        };
        if line.words.len() > 1 {
            add(line, &line.words[1..]);
        } else {
            line.block.iter().flatten().for_each(|one| add(one, &one.words));
        }
        if let Some(why) = &missing {
            draft.lose(line.line, format!("`{}`, and what it is for: {why}", line.text()));
        } else if matcher.is_any() {
            missing = Some("it says nothing".to_owned());
            draft.lose(line.line, format!("`{}`, and what it is for: it says nothing", line.text()));
        }
        self.named.insert(line.word(0).to_owned(), Named { matcher, missing });
    }

    /// The matcher that a directive begins with, and its further words.
    pub(super) fn of<'l>(&self, line: &'l Line) -> (Result<Matcher, Unsaid>, &'l [String]) {
        let rest = &line.words[line.words.len().min(1)..];
        match rest.split_first() {
            Some((first, rest)) if first == "*" => (Ok(Matcher::any()), rest),
            Some((first, rest)) if first.starts_with('@') => (self.named(first), rest),
            // The only word of `redir`, `rewrite` and `try_files` is where to.
            Some((first, others)) if first.starts_with('/') && takes_path(line, others) => {
                (Ok(Matcher { paths: vec![first.clone()], ..Matcher::default() }), others)
            }
            _ => (Ok(Matcher::any()), rest),
        }
    }

    fn named(&self, name: &str) -> Result<Matcher, Unsaid> {
        match self.named.get(name) {
            Some(Named { matcher, missing: None }) => Ok(matcher.clone()),
            Some(Named { matcher, .. }) => {
                Err(Unsaid { why: format!("`{name}` is not carried over"), wider: matcher.clone() })
            }
            None => Err(Unsaid { why: format!("`{name}` is not there"), wider: Matcher::any() }),
        }
    }
}

/// `not { ... }`: what does not fit all of it.
fn not_all(line: &Line) -> Result<Option<(String, String)>, String> {
    let mut inner = Matcher::default();
    for one in line.block.iter().flatten() {
        inner.add(&one.words)?;
    }
    Ok(Some(("not".to_owned(), inner.negated()?)))
}

/// Whether a path that comes first is one to match.
fn takes_path(line: &Line, others: &[String]) -> bool {
    match line.word(0) {
        "try_files" => false,
        "redir" => others
            .first()
            .is_some_and(|second| second.parse::<u16>().is_err() && second != "permanent" && second != "temporary"),
        "root" | "rewrite" => !others.is_empty(),
        _ => true,
    }
}
