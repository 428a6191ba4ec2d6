//! Who is let in by nginx: `allow`, `deny` and `auth_request` as `access`.
//!
//! Owns: which sequences of them mean the same here. nginx takes the first that fits, and here who is denied is refused whatever else is said.

use super::Draft;
use super::syntax::Directive;
use crate::config::import::{DENIED_WORDS, list};
use crate::config::render::quoted;
use crate::config::route::condition::Network;

/// What a block says about who is let in.
#[derive(Clone, Debug, Default)]
pub(super) struct Access {
    /// Line and text of each.
    lines: Vec<(usize, String)>,
    /// Whether it allows, and whom.
    rules: Vec<(bool, String)>,
    /// The service that is asked: line, text and path.
    asked: Option<(usize, String, String)>,
    /// Variables, and the fields of its answer that they hold.
    sets: Vec<(String, String)>,
    /// The fields that the application gets, and the one that names the user.
    fields: Vec<String>,
    user: Option<String>,
    /// Passwords are asked for.
    has_passwords: bool,
    /// Something else restricts as well.
    has_others: bool,
}

/// What becomes of it.
pub(super) enum Let {
    /// Everybody in.
    All,
    /// Nobody in, because nginx lets nobody, or what it says cannot be said.
    Nobody,
    /// As the value of `access` says.
    Some(String),
}

/// Why a directive that restricts is not carried over; none for others.
fn why_not(name: &str) -> Option<&'static str> {
    match name {
        "auth_basic" | "auth_basic_user_file" => Some(
            "hashes of passwords are of another kind here: make new ones with `lamna hash-password`, and name them in `users` and \
             `access` (docs/access.md)",
        ),
        "internal" => Some("paths that only this server asks for are not done"),
        "satisfy" => Some("networks and passwords are both asked for"),
        _ => None,
    }
}

/// Whether a directive is about who is let in.
pub(super) fn is_about(directive: &Directive) -> bool {
    matches!(&*directive.name, "allow" | "deny" | "auth_request" | "auth_request_set")
        || why_not(&directive.name).is_some()
}

impl Access {
    /// What a block with these directives inherits: of each kind nothing, if it says something of that kind itself.
    pub(super) fn inherited_by(&self, directives: &[&Directive]) -> Access {
        let has = |names: &[&str]| directives.iter().any(|one| names.contains(&&*one.name));
        let mut access = self.clone();
        if has(&["allow", "deny"]) {
            (access.lines, access.rules) = (Vec::new(), Vec::new());
        }
        if has(&["auth_basic"]) {
            access.has_passwords = false;
        }
        if has(&["auth_request"]) {
            (access.asked, access.fields, access.user) = (None, Vec::new(), None);
        }
        access
    }

    /// The path by which nginx asks who is let in.
    pub(super) fn asked_path(&self) -> Option<String> {
        self.asked.as_ref().map(|(_, _, path)| path.clone())
    }

    /// Takes over what a directive tells an application, if it is what the service has said.
    pub(super) fn take_field(&mut self, directive: &Directive, draft: &mut Draft) -> bool {
        let (name, value) = (directive.argument(0), directive.argument(1));
        let Some((_, field)) = self.sets.iter().find(|(variable, _)| variable == value) else { return false };
        match &*directive.name {
            "fastcgi_param" if name == "REMOTE_USER" => self.user = Some(field.clone()),
            "fastcgi_param" if name.replace('_', "-").eq_ignore_ascii_case(&format!("http-{field}")) => {
                self.fields.push(field.clone());
            }
            "proxy_set_header" if name.eq_ignore_ascii_case(field) => self.fields.push(name.to_owned()),
            "proxy_set_header" | "fastcgi_param" => {
                let why = format!("the application is told it as the service says it, in `{field}`");
                draft.lose(directive.line, format!("`{}`: {why}", directive.text()));
                self.fields.push(field.clone());
            }
            _ => return false,
        }
        true
    }

    fn set(&mut self, directive: &Directive, draft: &mut Draft) {
        let (variable, value) = (directive.argument(0), directive.argument(1));
        match value.strip_prefix("$upstream_http_") {
            Some(field) => self.sets.push((variable.to_owned(), in_title_case(field))),
            None => {
                draft.lose(directive.line, format!("`{}`: only fields of the answer are taken over", directive.text()));
            }
        }
    }

    /// The key that names the service.
    fn service(&self, services: &dyn Fn(&str) -> Result<String, String>) -> Result<Option<String>, String> {
        let Some((_, _, path)) = &self.asked else { return Ok(None) };
        let mut keys = services(path)?;
        let mut fields: Vec<&String> = Vec::new();
        self.fields.iter().for_each(|one| {
            if !fields.contains(&one) {
                fields.push(one)
            }
        });
        if !fields.is_empty() {
            keys.push_str(&format!(", fields = {}", list(&fields)));
        }
        if let Some(user) = &self.user {
            keys.push_str(&format!(", user = {}", quoted(user)));
        }
        Ok(Some(format!("service = {{ {keys} }}")))
    }

    /// Takes over what a directive says. False if it is about something else.
    pub(super) fn take(&mut self, directive: &Directive, draft: &mut Draft) -> bool {
        match &*directive.name {
            "allow" | "deny" => {
                self.lines.push((directive.line, directive.text()));
                self.rules.push((directive.name == "allow", directive.argument(0).to_owned()));
            }
            "auth_basic" if directive.argument(0) == "off" => {}
            "auth_request" if directive.argument(0) == "off" => {}
            "auth_request" => {
                self.asked = Some((directive.line, directive.text(), directive.argument(0).to_owned()));
            }
            "auth_request_set" => self.set(directive, draft),
            "satisfy" if directive.argument(0) == "all" => {}
            name => {
                let Some(why) = why_not(name) else { return false };
                draft.lose(directive.line, format!("`{}`: {why}; {DENIED_WORDS}", directive.text()));
                let is_password = name.starts_with("auth_basic");
                self.has_passwords |= is_password;
                self.has_others |= !is_password;
            }
        }
        true
    }

    /// The value of `access` that becomes of it, if one does. What is lost has been said.
    pub(super) fn value(&self, services: &dyn Fn(&str) -> Result<String, String>) -> Option<String> {
        match self.decide(services, &mut Draft::default()) {
            Let::Some(value) => Some(value),
            Let::All | Let::Nobody => None,
        }
    }

    /// What becomes of all of it.
    pub(super) fn decide(&self, services: &dyn Fn(&str) -> Result<String, String>, draft: &mut Draft) -> Let {
        let service = match (self.service(services), &self.asked) {
            (Ok(service), _) => service,
            (Err(why), asked) => {
                if let Some((line, text, _)) = asked {
                    draft.lose(*line, format!("`{text}`: {why}; {DENIED_WORDS}"));
                }
                return Let::Nobody;
            }
        };
        if self.has_others || self.has_passwords {
            return Let::Nobody;
        }
        // What follows a word about all is never reached.
        let end = self.rules.iter().position(|(_, whom)| whom == "all");
        let (rules, last) = match end {
            Some(at) => (&self.rules[..at], self.rules[at].0),
            None => (&self.rules[..], true),
        };
        let first_allow = rules.iter().position(|(allows, _)| *allows).unwrap_or(rules.len());
        let (denied, allowed) = rules.split_at(first_allow);
        let is_simple = allowed.iter().all(|(allows, _)| *allows) && (allowed.is_empty() || !last);
        let are_networks = rules.iter().all(|(_, whom)| whom.parse::<Network>().is_ok());
        if !last && allowed.is_empty() {
            return Let::Nobody;
        }
        if !is_simple || !are_networks {
            for (line, text) in &self.lines {
                let why = "networks that are denied come first here, and are not allowed again";
                draft.lose(*line, format!("`{text}`: {why}; {DENIED_WORDS}"));
            }
            return Let::Nobody;
        }
        let keys: Vec<String> = [("allow", allowed), ("deny", denied)]
            .into_iter()
            .filter(|(_, rules)| !rules.is_empty())
            .map(|(key, rules)| format!("{key} = {}", list(&rules.iter().map(|(_, whom)| whom).collect::<Vec<_>>())))
            .chain(service)
            .collect();
        if keys.is_empty() { Let::All } else { Let::Some(format!("{{ {} }}", keys.join(", "))) }
    }
}

/// `remote_user` as `Remote-User`.
fn in_title_case(variable: &str) -> String {
    let word = |word: &str| {
        let (first, rest) = word.split_at(word.len().min(1));
        first.to_ascii_uppercase() + rest
    };
    variable.split('_').map(word).collect::<Vec<_>>().join("-")
}
