//! Matchers of Caddy as the `match` of a route.
//!
//! Owns: their syntax, and which of them can be said here. Guarantees: the wider form of a matcher fits at least what
//! Caddy has it fit, whatever of it cannot be said. Whether one that cannot be said asks who the client is, is in
//! `who`.

use std::collections::BTreeMap;

use lamna_config::render::quoted;
use lamna_config::route::condition::Network;
use lamna_config::route::pattern::{Pattern, compile};

use super::syntax::Line;
use super::who::{self, About};
use crate::{Draft, list};

/// The conditions of a matcher on a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Matcher {
    /// Paths: one of them; empty for any.
    paths: Vec<String>,
    regex: Option<String>,
    conditions: Vec<Condition>,
}

/// A key of `match`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Condition {
    key: String,
    value: String,
    /// The value that fits all that Caddy has it fit, if that is more.
    wider: Option<String>,
}

impl Condition {
    fn new(key: &str, value: String) -> Condition {
        Condition { key: key.to_owned(), value, wider: None }
    }

    /// The name of the field or parameter that it is about, if a matcher may name that several times.
    fn is_about(&self, key: &str, name: &str) -> bool {
        let start = format!("{{ {} = ", quoted(name).to_ascii_lowercase());
        self.key == key && self.value.to_ascii_lowercase().starts_with(&start)
    }
}

/// Matchers with names.
#[derive(Clone, Debug, Default)]
pub(super) struct Matchers {
    named: BTreeMap<String, Named>,
}

/// The form of a named matcher here: all that it asks, or less, so that more requests fit, and why.
#[derive(Clone, Debug)]
struct Named {
    matcher: Matcher,
    missing: Option<String>,
    about: About,
}

/// A matcher that cannot be said here.
#[derive(Clone, Debug)]
pub(super) struct Unsaid {
    pub(super) why: String,
    /// One that can be said, and that fits at least as much.
    pub(super) wider: Matcher,
    pub(super) about: About,
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

    /// The paths that an expression fits; all if it cannot be read here.
    pub(super) fn of_regex(regex: &str) -> Matcher {
        Matcher { regex: compile(regex).is_ok().then(|| regex.to_owned()), ..Matcher::default() }
    }

    pub(super) fn is_any(&self) -> bool {
        *self == Matcher::default()
    }

    /// The common beginning of all its paths, if that is all that it asks.
    pub(super) fn prefix(&self) -> Option<&str> {
        match &self.paths[..] {
            [one] if self.regex.is_none() && self.conditions.is_empty() => {
                one.strip_suffix('*').filter(|one| !one.contains('*'))
            }
            _ => None,
        }
    }

    /// A matcher that fits where both fit.
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

    /// Where the paths that it is asked about have lost a beginning: for the whole paths.
    ///
    /// # Errors
    /// Why it cannot be said.
    pub(super) fn beneath(&self, prefix: &str) -> Result<Matcher, String> {
        if self.regex.is_some() {
            return Err(format!("an expression for paths without `{prefix}` cannot be said"));
        }
        let whole = |path: &String| match path.strip_prefix('*') {
            Some(rest) => format!("{prefix}/**{}", rest.trim_start_matches('*')),
            None => format!("{prefix}{path}"),
        };
        Ok(Matcher { paths: self.paths.iter().map(whole).collect(), ..self.clone() })
    }

    /// Without what it asks about a field; a star at the end of the name stands for any ending.
    pub(super) fn without_field(mut self, name: &str) -> Matcher {
        let start = format!("\"{}", name.trim_end_matches('*'));
        let start = if name.ends_with('*') { start } else { format!("{start}\"") };
        self.conditions.retain(|one| match &*one.key {
            "host" => name != "host",
            "header" | "not" => !one.value.to_ascii_lowercase().contains(&start),
            _ => true,
        });
        self
    }

    pub(super) fn paths(&self) -> &[String] {
        &self.paths
    }

    /// Whether it asks who the client is.
    pub(super) fn asks_who(&self) -> bool {
        self.conditions.iter().any(|one| matches!(&*one.key, "header" | "client" | "not"))
    }

    /// With all that Caddy has it fit, and more.
    pub(super) fn widened(&self) -> Matcher {
        let widened = |one: &Condition| Condition::new(&one.key, one.wider.as_ref().unwrap_or(&one.value).clone());
        Matcher { conditions: self.conditions.iter().map(widened).collect(), ..self.clone() }
    }

    /// The value of `match` for what Caddy may have it fit and it does not fit here; none if there is nothing.
    pub(super) fn beyond(&self) -> Option<String> {
        let narrow: Vec<&Condition> = self.conditions.iter().filter(|one| one.wider.is_some()).collect();
        let [only] = &narrow[..] else { return (!narrow.is_empty()).then(|| self.to_wider_toml()) };
        let mut beyond = self.widened();
        beyond.conditions.push(Condition::new("not", format!("{{ {} = {} }}", only.key, only.value)));
        Some(beyond.to_toml().unwrap_or_else(|_| self.to_wider_toml()))
    }

    /// As the value of `match`.
    pub(super) fn to_toml(&self) -> Result<String, String> {
        if self.is_any() {
            return Ok(quoted("*"));
        }
        if let Some(wrong) = self.paths.iter().find(|path| Pattern::from_glob(path).is_err()) {
            return Err(format!("`{wrong}` is no pattern here"));
        }
        let mut keys: Vec<String> = self.conditions.iter().map(|one| format!("{} = {}", one.key, one.value)).collect();
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
        let wide = self.widened();
        let each = wide.conditions.iter().cloned().map(|one| Matcher { conditions: vec![one], ..Matcher::default() });
        let narrow = [wide.clone(), regex, paths].into_iter().chain(each).filter(|one| !one.is_any());
        narrow.into_iter().find_map(|one| one.to_toml().ok()).unwrap_or_else(|| quoted("*"))
    }

    fn add(&mut self, words: &[String]) -> Result<(), String> {
        let (kind, arguments) = words.split_first().ok_or("it is empty")?;
        let value = |index: usize| arguments.get(index).map(String::as_str).unwrap_or_default();
        match &**kind {
            "path" => {
                let mut missing = None;
                for path in arguments {
                    match of_path(path) {
                        Ok(path) => self.paths.push(path),
                        Err((why, wider)) => {
                            missing = Some(why);
                            self.paths.push(wider);
                        }
                    }
                }
                return missing.map_or(Ok(()), Err);
            }
            "path_regexp" if self.regex.is_some() => return Err("two expressions cannot be said together".into()),
            "path_regexp" => {
                let regex = arguments.last().ok_or("it has no expression")?;
                compile(regex)?;
                self.regex = Some(regex.clone());
            }
            "method" | "host" | "header" if arguments.iter().any(|word| word.contains('{')) => {
                return Err("a value is written out".to_owned());
            }
            "method" | "host" if arguments.is_empty() => return Err("it names nothing".to_owned()),
            "method" | "host" => self.add_values(kind, list(arguments)),
            "remote_ip" | "client_ip" => self.add_values("client", list(&networks(arguments)?)),
            "not" if !arguments.is_empty() => {
                let mut inner = Matcher::default();
                inner.add(arguments)?;
                self.conditions.push(Condition::new("not", inner.negated()?));
            }
            "header" if value(0).starts_with('!') && arguments.len() == 1 => {
                self.add_tested("header", &value(0)[1..], "false".to_owned())?;
            }
            "header" if value(0).eq_ignore_ascii_case("host") => return Err("the host is no field here".to_owned()),
            "header" if !value(0).starts_with('!') && arguments.len() <= 2 => {
                // A star stands for something at the beginning and at the end.
                let text = value(1);
                let (after, before) = (text.strip_prefix('*'), text.len() > 1 && text.ends_with('*'));
                let middle = after.unwrap_or(text);
                let middle = if before { &middle[..middle.len() - 1] } else { middle };
                let tested = match text {
                    "*" => "true".to_owned(),
                    "" if arguments.len() == 1 => "true".to_owned(),
                    _ if after.is_some() || before => {
                        let (start, end) = (if after.is_some() { "" } else { "^" }, if before { "" } else { "$" });
                        format!("{{ regex = {} }}", quoted(&format!("{start}{}{end}", regex::escape(middle))))
                    }
                    text => quoted(text),
                };
                self.add_tested("header", value(0), tested)?;
            }
            "header_regexp" if matches!(arguments.len(), 2 | 3) => {
                let (field, regex) = (value(arguments.len() - 2), value(arguments.len() - 1));
                if field.eq_ignore_ascii_case("host") {
                    return Err("the host is no field here".to_owned());
                }
                compile(regex)?;
                self.add_tested("header", field, format!("{{ regex = {} }}", quoted(regex)))?;
            }
            "query" if arguments.len() == 1 => {
                let (name, text) = value(0).split_once('=').ok_or("it is no `name=value`")?;
                let tested = if text == "*" { "true".to_owned() } else { quoted(text) };
                self.add_tested("query", name, tested)?;
                // Caddy looks at all parameters of the name, and here the first counts.
                if let Some(added) = self.conditions.last_mut().filter(|_| text != "*") {
                    added.wider = Some(format!("{{ {} = true }}", quoted(name)));
                }
            }
            _ => return Err(format!("the matcher `{}` cannot be said here", words.join(" "))),
        }
        Ok(())
    }

    /// Values of which one is to fit, beside those that are said already.
    fn add_values(&mut self, key: &str, values: String) {
        match self.conditions.iter_mut().find(|one| one.key == key) {
            Some(Condition { value: earlier, .. }) => {
                let start = earlier.strip_suffix(']').unwrap_or(earlier);
                *earlier = format!("{start}, {}", &values[1..]);
            }
            None => self.conditions.push(Condition::new(key, values)),
        }
    }

    /// A test of a field or of a parameter. Of several tests of one name one has to fit, which a route cannot say.
    fn add_tested(&mut self, key: &str, name: &str, tested: String) -> Result<(), String> {
        let count = self.conditions.len();
        self.conditions.retain(|one| !one.is_about(key, name));
        if self.conditions.len() < count {
            return Err(format!("two values of `{name}` cannot be said together"));
        }
        self.conditions.push(Condition::new(key, format!("{{ {} = {tested} }}", quoted(name))));
        Ok(())
    }

    /// The value of `not`: what does not fit this.
    fn negated(&self) -> Result<String, String> {
        // Here a star in a host is any number of labels.
        if self.conditions.iter().any(|one| one.key == "host" && one.value.contains('*')) {
            return Err("hosts that do not fit a pattern cannot be said".to_owned());
        }
        if !self.paths.is_empty() || self.regex.is_some() {
            return Err("paths that do not fit cannot be said".to_owned());
        }
        let value = self.to_toml()?;
        if value.starts_with('{') { Ok(value) } else { Err("it is empty".to_owned()) }
    }
}

/// A path as it is written here.
///
/// # Errors
/// Why it cannot be said, and one that fits at least as much.
fn of_path(path: &str) -> Result<String, (String, String)> {
    let Some(at) = path.find(['[', ']', '\\', '?', '{', '}', '%']) else { return Ok(path.to_owned()) };
    let start = path[..at].trim_end_matches('*');
    let wider = if start.starts_with(['/', '*']) { format!("{start}*") } else { "*".to_owned() };
    Err((format!("`{path}`: only a star stands for something in a path here"), wider))
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

impl Unsaid {
    /// Where the paths that it is asked about have lost a beginning: for the whole paths.
    pub(super) fn beneath(self, prefix: Option<&str>) -> Unsaid {
        let Some(prefix) = prefix else { return self };
        Unsaid { wider: self.wider.beneath(prefix).unwrap_or_default(), ..self }
    }
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
        self.named.insert(line.word(0).to_owned(), Named { matcher, missing, about: who::about(line) });
    }

    /// The matcher that a directive begins with, and its further words.
    pub(super) fn of<'l>(&self, line: &'l Line) -> (Result<Matcher, Unsaid>, &'l [String]) {
        let rest = &line.words[line.words.len().min(1)..];
        match rest.split_first() {
            Some((first, rest)) if first == "*" => (Ok(Matcher::any()), rest),
            Some((first, rest)) if first.starts_with('@') => (self.named(first), rest),
            // Every path begins with a slash.
            Some((first, others)) if first == "/*" && takes_path(line, others) => (Ok(Matcher::any()), others),
            // The only word of `redir`, `rewrite` and `try_files` is where to.
            Some((first, others)) if first.starts_with('/') && takes_path(line, others) => {
                let matcher = |path: String| Matcher { paths: vec![path], ..Matcher::default() };
                let unsaid = |(why, wider)| Unsaid { why, wider: matcher(wider), about: About::default() };
                (of_path(first).map(matcher).map_err(unsaid), others)
            }
            _ => (Ok(Matcher::any()), rest),
        }
    }

    fn named(&self, name: &str) -> Result<Matcher, Unsaid> {
        match self.named.get(name) {
            Some(Named { matcher, missing: None, .. }) => Ok(matcher.clone()),
            Some(Named { matcher, about, .. }) => {
                Err(Unsaid { why: format!("`{name}` is not carried over"), wider: matcher.clone(), about: *about })
            }
            None => {
                let about = About { asks_who: true, leaves_files: false };
                Err(Unsaid { why: format!("`{name}` is not there"), wider: Matcher::any(), about })
            }
        }
    }
}

/// `not { ... }`: what does not fit all of it.
fn not_all(line: &Line) -> Result<Option<Condition>, String> {
    let mut inner = Matcher::default();
    for one in line.block.iter().flatten() {
        inner.add(&one.words)?;
    }
    Ok(Some(Condition::new("not", inner.negated()?)))
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
