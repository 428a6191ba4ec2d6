//! Matchers of Caddy as the `match` of a route.
//!
//! Owns: their syntax, and which of them can be said here.

use std::collections::BTreeMap;

use super::syntax::Line;
use crate::config::import::{Draft, list};
use crate::config::render::quoted;
use crate::config::route::condition::Network;
use crate::config::route::pattern::{Pattern, compile};

/// What is asked of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Matcher {
    /// Paths: one of them; empty for any.
    paths: Vec<String>,
    regex: Option<String>,
    /// Keys of `match` and their values.
    conditions: Vec<(String, String)>,
}

/// Matchers with names; none inside for those that cannot be said here.
#[derive(Debug, Default)]
pub(super) struct Matchers {
    named: BTreeMap<String, Option<Matcher>>,
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

    fn add(&mut self, words: &[String]) -> Result<(), String> {
        let (kind, arguments) = words.split_first().ok_or("it is empty")?;
        let value = |index: usize| arguments.get(index).map(String::as_str).unwrap_or_default();
        match &**kind {
            "path" => self.paths.extend(arguments.iter().cloned()),
            "path_regexp" => {
                let regex = arguments.last().ok_or("it has no expression")?;
                compile(regex)?;
                self.regex = Some(regex.clone());
            }
            "method" => self.conditions.push(("method".into(), list(arguments))),
            "host" => self.conditions.push(("host".into(), list(arguments))),
            "remote_ip" | "client_ip" => {
                if let Some(wrong) = arguments.iter().find(|one| one.parse::<Network>().is_err()) {
                    return Err(format!("`{wrong}` is not a network"));
                }
                self.conditions.push(("client".into(), list(arguments)));
            }
            "header" if !value(0).starts_with('!') => {
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
            "query" => {
                let (name, text) = value(0).split_once('=').ok_or("it is no `name=value`")?;
                let tested = if text == "*" { "true".to_owned() } else { quoted(text) };
                self.conditions.push(("query".into(), format!("{{ {} = {tested} }}", quoted(name))));
            }
            other => return Err(format!("the matcher `{other}` cannot be said here")),
        }
        Ok(())
    }
}

impl Matchers {
    /// `@name kind arguments`, or `@name { ... }`.
    pub(super) fn define(&mut self, line: &Line, draft: &mut Draft) {
        let mut matcher = Matcher::default();
        let inline = (line.words.len() > 1).then(|| line.words[1..].to_vec());
        let inner = line.block.iter().flatten().map(|one| one.words.clone());
        let failed = inline.into_iter().chain(inner).find_map(|words| matcher.add(&words).err());
        if let Some(why) = &failed {
            draft.lose(line.line, format!("`{}`, and all that it is for: {why}", line.text()));
        }
        self.named.insert(line.word(0).to_owned(), failed.is_none().then_some(matcher));
    }

    /// The matcher that a directive begins with, and its further words.
    pub(super) fn of<'l>(&self, line: &'l Line) -> (Result<Matcher, String>, &'l [String]) {
        let rest = &line.words[line.words.len().min(1)..];
        match rest.split_first() {
            Some((first, rest)) if first == "*" => (Ok(Matcher::any()), rest),
            Some((first, rest)) if first.starts_with('@') => {
                let named = self.named.get(first).cloned().flatten();
                (named.ok_or_else(|| format!("`{first}` is not carried over")), rest)
            }
            // The only word of `redir`, `rewrite` and `try_files` is where to.
            Some((first, others)) if first.starts_with('/') && takes_path(line, others) => {
                (Ok(Matcher { paths: vec![first.clone()], ..Matcher::default() }), others)
            }
            _ => (Ok(Matcher::any()), rest),
        }
    }
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
