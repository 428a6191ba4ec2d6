//! Fields of requests and of answers that HAProxy sets, adds and removes.
//!
//! Owns: which of them can be said here, and the values of `request_headers` and `headers`. Guarantees: what HAProxy
//! writes in the place of a client's word is never the client's word here: a field whose value cannot be said is
//! removed where an application would believe it.

use lamna_config::render::quoted;
use lamna_config::route::request_fields::{objection, value as judged};
use lamna_config::site::{FieldUse, is_sendable, is_single};

use super::syntax::Line;
use crate::told::is_believed;
use crate::{Draft, list};

/// A change of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) is_of_request: bool,
    pub(crate) name: String,
    pub(crate) does: Does,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Does {
    Set(String),
    Add(String),
    Remove,
}

impl Change {
    /// Whether nothing of `other`, which is made before, is left.
    pub(super) fn replaces(&self, other: &Change) -> bool {
        self.is_of_request == other.is_of_request
            && self.name.eq_ignore_ascii_case(&other.name)
            && !matches!(self.does, Does::Add(_))
    }
}

/// The change that a rule makes: `words` are its name, the name of the field, and a value. None if it is none, or is
/// told of.
pub(super) fn read(line: &Line, is_of_request: bool, words: &[String], draft: &mut Draft) -> Option<Change> {
    let (verb, name) = (&*words[0], words.get(1).map_or("", String::as_str));
    let text = words.get(2).map_or("", String::as_str);
    if is_of_request {
        return of_request(line, verb, name, text, draft);
    }
    let change = |does| Some(Change { is_of_request, name: name.to_owned(), does });
    let why = match (verb, plain(text)) {
        ("del-header", _) if words.len() > 2 => "names of fields are written out",
        ("del-header", _) if name.eq_ignore_ascii_case("Server") => {
            "the server names itself in it, and it is not removed"
        }
        ("del-header", _) => match is_sendable(name, "", FieldUse::Route) {
            Ok(()) => return change(Does::Remove),
            Err(why) => why,
        },
        ("set-header" | "add-header", Some(value)) => match is_sendable(name, &value, FieldUse::Route) {
            Ok(()) if verb == "set-header" || is_single(name) => return change(Does::Set(value)),
            Ok(()) => return change(Does::Add(value)),
            Err(why) => why,
        },
        ("set-header" | "add-header", None) => "its value is made of something that answers are not given",
        _ => "fields of answers are set, added and removed",
    };
    draft.lose(line.line, format!("`{}`: {why}", line.text()));
    None
}

fn of_request(line: &Line, verb: &str, name: &str, text: &str, draft: &mut Draft) -> Option<Change> {
    let removed = |does| Some(Change { is_of_request: true, name: name.to_owned(), does });
    if name.eq_ignore_ascii_case("X-Forwarded-For")
        || ["X-Forwarded-Proto", "X-Forwarded-Host", "Forwarded", "X-Request-ID", "Via"]
            .iter()
            .any(|one| one.eq_ignore_ascii_case(name))
    {
        let why = "the server writes this field itself, from what it knows of the request";
        draft.need_not(line.line, format!("`{}`: {why}", line.text()));
        return None;
    }
    if let Some(why) = objection(name) {
        draft.lose(line.line, format!("`{}`: the field {why} (docs/gateways.md)", line.text()));
        return None;
    }
    match (verb, template(text)) {
        ("del-header", _) => removed(Does::Remove),
        ("set-header", Some(value)) => removed(Does::Set(value)),
        ("add-header", Some(value)) if lamna_config::route::request_fields::is_single(name) => {
            removed(Does::Set(value))
        }
        ("add-header", Some(value)) => removed(Does::Add(value)),
        _ if is_believed(name) && verb != "add-header" => {
            let why = "its value cannot be said here: an application is sent no such field, neither by this server nor \
                       by a client";
            draft.lose(line.line, format!("`{}`: {why}", line.text()));
            removed(Does::Remove)
        }
        _ => {
            draft.lose(line.line, format!("`{}`: its value cannot be said here", line.text()));
            None
        }
    }
}

/// A value without anything that stands for something else.
fn plain(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        match after.chars().next() {
            Some('%') => rest = &after[1..],
            Some('[' | '{' | 'A'..='Z' | 'a'..='z') => return None,
            _ => rest = after,
        }
        out.push('%');
    }
    out.push_str(rest);
    Some(out)
}

/// A value with the variables of this server. None if one is not known here.
fn template(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at].replace('$', "$$"));
        let after = &rest[at + 1..];
        if let Some(inner) = after.strip_prefix('[') {
            let (name, tail) = inner.split_once(']')?;
            let name = name.trim().strip_prefix("req.").unwrap_or(name.trim());
            out.push_str(&match name {
                "src" => "${client}".to_owned(),
                "path" => "${path}".to_owned(),
                "unique-id" => "${request_id}".to_owned(),
                _ => {
                    let field = ["hdr(", "fhdr("].iter().find_map(|start| name.strip_prefix(start))?;
                    let field = field.strip_suffix(')')?.split(',').next()?.trim().to_ascii_lowercase();
                    let is_name = field.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
                    if !is_name || matches!(&*field, "cookie" | "x-forwarded-for") {
                        return None;
                    }
                    format!("${{http_{}}}", field.replace('-', "_"))
                }
            });
            rest = tail;
        } else if let Some(tail) = after.strip_prefix("ci") {
            out.push_str("${client}");
            rest = tail;
        } else if let Some(tail) = after.strip_prefix('%') {
            out.push('%');
            rest = tail;
        } else {
            return None;
        }
    }
    out.push_str(&rest.replace('$', "$$"));
    judged(&out, &[]).is_ok().then_some(out)
}

/// Where a redirect leads, with the variables of this server. None if one is not known here.
pub(crate) fn location(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at].replace('$', "$$"));
        let after = &rest[at + 1..];
        if let Some(inner) = after.strip_prefix('[') {
            let (name, tail) = inner.split_once(']')?;
            let name = name.trim().strip_prefix("req.").unwrap_or(name.trim());
            out.push_str(match name {
                "hdr(host)" | "hdr(Host)" | "hdr(host),lower" | "ssl_fc_sni" | "hdr(host),field(1,:)" => "$host",
                "capture.req.uri" | "path" | "pathq" | "url" | "uri" => "$path",
                _ => return None,
            });
            rest = tail;
        } else if let Some(tail) = after.strip_prefix("HU").or(after.strip_prefix("HP")) {
            out.push_str("$path");
            rest = tail;
        } else if let Some(tail) = after.strip_prefix('%') {
            out.push('%');
            rest = tail;
        } else {
            out.push('%');
            rest = after;
        }
    }
    out.push_str(&rest.replace('$', "$$"));
    Some(out.replace("//$path", "/$path").replace(":/$path", "://$path").replace("$host/$path", "$host$path"))
}

/// The keys of a route that makes these changes, in their order, and leaves fields of `others` as they are.
pub(crate) fn keys(changes: &[&Change], others: &[(bool, String)]) -> Vec<(&'static str, String)> {
    let mut keys = Vec::new();
    for (key, is_of_request) in [("request_headers", true), ("headers", false)] {
        let mut set: Vec<(&str, &str)> = Vec::new();
        let mut add: Vec<(&str, Vec<String>)> = Vec::new();
        let mut removed: Vec<&str> = Vec::new();
        for Change { name, does, .. } in changes.iter().filter(|one| one.is_of_request == is_of_request) {
            let is_it = |other: &str| other.eq_ignore_ascii_case(name);
            if let Does::Add(value) = does {
                if let Some((_, had)) = set.iter().find(|(other, _)| is_it(other)) {
                    let both = vec![(*had).to_owned(), value.clone()];
                    set.retain(|(other, _)| !is_it(other));
                    removed.push(name);
                    add.push((name, both));
                    continue;
                }
                match add.iter_mut().find(|(other, _)| is_it(other)) {
                    Some((_, values)) => values.push(value.clone()),
                    None => add.push((name, vec![value.clone()])),
                }
                continue;
            }
            set.retain(|(other, _)| !is_it(other));
            add.retain(|(other, _)| !is_it(other));
            removed.retain(|other| !is_it(other));
            match does {
                Does::Set(value) => set.push((name, value)),
                _ => removed.push(name),
            }
        }
        let is_said = |name: &str| {
            changes.iter().any(|one| one.is_of_request == is_of_request && one.name.eq_ignore_ascii_case(name))
        };
        let mut kept: Vec<&str> = Vec::new();
        for (of_request, name) in others {
            if *of_request == is_of_request && !is_said(name) && !kept.iter().any(|one| one.eq_ignore_ascii_case(name))
            {
                kept.push(name);
            }
        }
        let mut members = Vec::new();
        if !set.is_empty() {
            let all: Vec<String> =
                set.iter().map(|(name, value)| format!("{} = {}", quoted(name), quoted(value))).collect();
            members.push(format!("set = {{ {} }}", all.join(", ")));
        }
        if !add.is_empty() {
            let all = add.iter().map(|(name, values)| format!("{} = {}", quoted(name), crate::values_of(values)));
            members.push(format!("add = {{ {} }}", all.collect::<Vec<_>>().join(", ")));
        }
        let gone: Vec<&str> =
            removed.iter().filter(|name| !add.iter().any(|(other, _)| other == *name)).copied().collect();
        if !gone.is_empty() {
            members.push(format!("remove = {}", list(&gone)));
        }
        if !kept.is_empty() {
            members.push(format!("keep = {}", list(&kept)));
        }
        if !members.is_empty() {
            keys.push((key, format!("[{{ {} }}]", members.join(", "))));
        }
    }
    keys
}
