//! Request fields that Caddy sets, adds and takes away in what applications are sent.
//!
//! Owns: `request_header` and `header_up`. Guarantees: no client says to an application what it could not say there: a
//! field whose value cannot be said here is removed. Where the name of a field is not whole, it is taken out of every
//! request, which a site with a service does, or the application is asked for nothing.

use lamna_config::render::quoted;
use lamna_config::route::request_fields::{objection, value as judged};

use super::{Draft, Line, Matcher, Route, Site, deny_keys};
use crate::DENIED_WORDS;
use crate::told::{BELIEVED_WORDS, is_believed};

/// A field of requests, and what becomes of it.
#[derive(Clone, Debug)]
pub(crate) struct RequestField {
    line: usize,
    text: String,
    /// Its name; a star at its end stands for more.
    name: String,
    does: Does,
    /// The `match` of what it is for; none is all that applications answer.
    matches: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Does {
    Set(String),
    Add(String),
    Default(String),
    Remove,
}

impl RequestField {
    /// For what a matcher fits.
    pub(super) fn for_paths_of(self, matcher: &Matcher) -> RequestField {
        RequestField { matches: Some(matcher.to_wider_toml()), ..self }
    }

    /// The value of `request_headers`.
    fn value(&self) -> String {
        let name = quoted(&self.name);
        match &self.does {
            Does::Set(value) => format!("{{ {name} = {} }}", quoted(value)),
            Does::Remove => format!("{{ {name} = false }}"),
            Does::Add(value) => format!("[{{ add = {{ {name} = {} }} }}]", quoted(value)),
            Does::Default(value) => format!("[{{ default = {{ {name} = {} }} }}]", quoted(value)),
        }
    }
}

/// The name of a field without the sign that says what becomes of it.
fn bare(word: &str) -> &str {
    word.trim_end_matches(':').trim_start_matches(['-', '>', '+', '?'])
}

/// Whether a line writes a field in the place of a client's word that an application would believe. `words` are its
/// own.
pub(super) fn overwrites(words: &[String]) -> bool {
    // What is added stands beside what the client says there as well.
    words.first().is_some_and(|word| !word.starts_with(['+', '?']) && is_believed(bare(word)))
}

/// The field that a line is about. `words` are its own. None if nothing is made of it, which is told.
pub(super) fn read(line: &Line, words: &[String], draft: &mut Draft) -> Option<RequestField> {
    let (word, text) = (words.first()?, line.text());
    let name = bare(word).replace('_', "-");
    let mut lose = |why: &str| draft.lose(line.line, format!("`{text}`: {why}"));
    let of = |does: Does| {
        Some(RequestField { line: line.line, text: text.clone(), name: name.clone(), does, matches: None })
    };
    if name.contains('*') && word.starts_with('-') && is_believed(&name) {
        return of(Does::Remove);
    }
    if let Some(why) = objection(&name) {
        lose(&format!("the field {why} (docs/gateways.md)"));
        return None;
    }
    if word.starts_with('-') {
        return of(Does::Remove);
    }
    let value = match words {
        [_, value] => template(value).filter(|_| name == bare(word)),
        _ => None,
    };
    match (value, word.as_bytes().first()) {
        (Some(value), Some(b'+')) => of(Does::Add(value)),
        (Some(value), Some(b'?')) => of(Does::Default(value)),
        (Some(value), _) => of(Does::Set(value)),
        (None, Some(b'+' | b'?')) => {
            lose("its name or its value cannot be said here");
            None
        }
        (None, _) => {
            lose(
                "its name or its value cannot be said here: an application is sent no such field, neither by this server \
                 nor by a client",
            );
            of(Does::Remove)
        }
    }
}

/// A value of Caddy with the variables of this server. None if a placeholder is not known here.
fn template(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['{', '$']) {
        out.push_str(&rest[..at]);
        if rest[at..].starts_with('$') {
            out.push_str("$$");
            rest = &rest[at + 1..];
            continue;
        }
        let (name, tail) = rest[at + 1..].split_once('}')?;
        let field = name.strip_prefix("http.request.header.").or(name.strip_prefix("header."));
        out.push_str(&match (name, field) {
            ("remote_host" | "client_ip" | "http.request.remote.host" | "http.vars.client_ip", _) => "${client}".into(),
            ("host" | "http.request.host", _) => "${host}".into(),
            ("hostport" | "http.request.hostport", _) => "${http_host}".into(),
            ("scheme" | "http.request.scheme", _) => "${scheme}".into(),
            ("http.request.uuid", _) => "${request_id}".into(),
            ("http.auth.user.id", _) => "${user}".into(),
            (_, Some(field)) if field.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') => {
                format!("${{http_{}}}", field.to_ascii_lowercase().replace('-', "_"))
            }
            _ => return None,
        });
        rest = tail;
    }
    out.push_str(rest);
    (!out.is_empty() && judged(&out, &[]).is_ok()).then_some(out)
}

/// Takes over `request_header`. False if nothing is to be made of it.
pub(super) fn take(line: &Line, words: &[String], matcher: &Matcher, draft: &mut Draft) -> bool {
    if words.is_empty() {
        return false;
    }
    if let Some(found) = read(line, words, draft) {
        draft.request_fields.push(if matcher.is_any() { found } else { found.for_paths_of(matcher) });
    }
    true
}

/// Makes routes of what is said of request fields.
pub(super) fn settle(site: &mut Site, draft: &mut Draft) {
    let asked: Vec<String> = site
        .routes
        .iter()
        .filter(|route| route.keys.iter().any(|(key, value)| matches!(*key, "proxy" | "fastcgi") && value != "false"))
        .filter_map(|route| Some(route.keys.first()?.1.clone()))
        .collect();
    let mut routes: Vec<(String, RequestField)> = Vec::new();
    for one in std::mem::take(&mut draft.request_fields) {
        let paths = one.matches.as_ref().map_or(&asked[..], std::slice::from_ref).to_vec();
        if !one.name.contains('*') {
            for matches in paths {
                let is_same =
                    |(of, other): &(String, RequestField)| *of == matches && other.name.eq_ignore_ascii_case(&one.name);
                let before = routes.iter().position(is_same).map(|at| routes.remove(at).1);
                if let (Some(Does::Set(_)), Does::Default(_)) = (before.as_ref().map(|before| &before.does), &one.does)
                {
                    draft.need_not(one.line, format!("`{}`: it is set before", one.text));
                    routes.extend(before.map(|before| (matches, before)));
                    continue;
                }
                // The last counts, and what takes the client's own field out counts with it.
                let is_gone = before.as_ref().is_some_and(|before| matches!(before.does, Does::Remove | Does::Set(_)));
                let mut one = one.clone();
                if let (true, Does::Add(value) | Does::Default(value)) = (is_gone, &one.does) {
                    one.does = Does::Set(value.clone());
                }
                if let Some(before) = before.filter(|before| !matches!(before.does, Does::Remove)) {
                    draft.lose(before.line, format!("`{}`: `{}` takes its place", before.text, one.text));
                }
                routes.push((matches, one));
            }
            continue;
        }
        let why = match hide(&one.name, site) {
            true => "an application is told no such field, neither by this server nor by a client".to_owned(),
            false => {
                let deny = |matches: String| {
                    let keys = [("match", matches)].into_iter().chain(deny_keys()).collect();
                    Route { line: one.line, keys }
                };
                site.routes.extend(paths.into_iter().map(deny));
                format!("{BELIEVED_WORDS}; {DENIED_WORDS}")
            }
        };
        draft.lose(one.line, format!("`{}`: {why}", one.text));
    }
    site.routes.extend(routes.into_iter().map(|(matches, one)| Route {
        line: one.line,
        keys: vec![("match", matches), ("request_headers", one.value())],
    }));
}

/// Has a service of the site be the only one that says a field: what it may say is taken out of every request. False if
/// there is no service.
fn hide(name: &str, site: &mut Site) -> bool {
    if name.contains('*') {
        return false;
    }
    let is_service = |(key, value): &&mut (&str, String)| *key == "access" && value.starts_with("{ service = ");
    let mut services = site.routes.iter_mut().flat_map(|route| &mut route.keys).filter(is_service).peekable();
    let is_there = services.peek().is_some();
    for (_, value) in services {
        let start = value.strip_suffix(" } }").unwrap_or(value).to_owned();
        *value = match start.strip_suffix(']').filter(|start| start.contains("fields = [")) {
            Some(fields) => format!("{fields}, {}] }} }}", quoted(name)),
            None => format!("{start}, fields = [{}] }} }}", quoted(name)),
        };
    }
    is_there
}

#[cfg(test)]
mod tests {
    fn text_of(inner: &str) -> String {
        crate::caddy(&format!("http://a.example {{\n{inner}\n}}"))
            .unwrap_or_else(|note| panic!("{inner}: {note:?}"))
            .text
    }

    #[test]
    fn fields_of_requests_and_of_answers_are_carried_over() {
        for (said, expected) in [
            ("header_up X-Real-IP {remote_host}", "request_headers = { \"X-Real-IP\" = \"${client}\" }"),
            ("header_up X-User {http.auth.user.id}", "request_headers = { \"X-User\" = \"${user}\" }"),
            ("header_up X-Of {header.User-Agent}", "request_headers = { \"X-Of\" = \"${http_user_agent}\" }"),
            ("header_up +X-A b$", "request_headers = [{ add = { \"X-A\" = \"b$$\" } }]"),
            ("header_up -Accept-Encoding", "request_headers = { \"Accept-Encoding\" = false }"),
            ("header_up Host {upstream_hostport}", "host = \"10.0.0.1:80\""),
            ("header_down -X-Powered-By", "headers = [{ remove = [\"X-Powered-By\"] }]"),
            ("header_down X-A b", "headers = [{ set = { \"X-A\" = \"b\" } }]"),
        ] {
            let text = text_of(&format!("reverse_proxy /api/* 10.0.0.1:80 {{\n{said}\n}}"));
            assert!(text.contains(expected) && !text.contains("Not carried over"), "{said}: {text}");
        }
        let text = text_of("request_header X-A b\nreverse_proxy /api/* 10.0.0.1:80 {\nheader_up X-A c\n}");
        assert_eq!(text.matches("\"X-A\"").count(), 1, "{text}");
        assert!(text.contains("request_headers = { \"X-A\" = \"c\" }"), "{text}");
        for (said, expected) in [
            ("header_up -X-Org\nheader_up +X-Org acme", "request_headers = { \"X-Org\" = \"acme\" }"),
            ("header_up X-Org a\nheader_up +X-Org b", "request_headers = { \"X-Org\" = \"b\" }"),
            ("header_up -X-Org\nheader_up ?X-Org acme", "request_headers = { \"X-Org\" = \"acme\" }"),
        ] {
            let text = text_of(&format!("reverse_proxy /api/* 10.0.0.1:80 {{\n{said}\n}}"));
            assert!(text.contains(expected), "{said}: {text}");
            assert_eq!(text.contains("Not carried over"), said.contains("X-Org a\n"), "{said}: {text}");
        }
        for (said, why) in [
            ("header_up X-Forwarded-For {header.CF-Connecting-IP}", "is written by the server"),
            ("header_up X-A {unknown}", "an application is sent no such field"),
        ] {
            let text = text_of(&format!("reverse_proxy /api/* 10.0.0.1:80 {{\n{said}\n}}"));
            assert!(text.contains(why), "{said}: {text}");
        }
    }
}
