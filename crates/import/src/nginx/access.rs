//! Access control of nginx: `allow`, `deny`, `auth_basic` and `auth_request` as `access`.
//!
//! Owns: which sequences of them mean the same here. nginx takes the first that fits; here a denied client is refused
//! whatever else is said. Passwords are carried over if their hashes can be checked here.

use lamna_config::access::check_user;
use lamna_config::render::quoted;
use lamna_config::route::condition::Network;

use super::gateway::told_field;
use super::refusal;
use super::syntax::Directive;
use super::{Draft, Site};
use crate::{DENIED_WORDS, ReadFile, list};

/// The access rules of a block.
#[derive(Clone, Debug, Default)]
pub(super) struct Access {
    /// Line and text of each.
    lines: Vec<(usize, String)>,
    /// Whether each allows, and which clients.
    rules: Vec<(bool, String)>,
    /// The service that is asked: line, text and path.
    asked: Option<(usize, String, String)>,
    /// Variables, and the fields of its answer that they hold.
    sets: Vec<(String, String)>,
    /// The fields that the application gets, and the one that names the user.
    fields: Vec<String>,
    user: Option<String>,
    /// Passwords are asked for: line and text.
    asks_for_passwords: Option<(usize, String)>,
    /// Names and hashes of those that can be checked; none if no file is named.
    users: Option<Vec<(String, String)>>,
    /// Something else restricts as well.
    has_others: bool,
}

/// The outcome of the access rules.
pub(super) enum Let {
    /// Every client is let in.
    All,
    /// No client is let in, because nginx lets none in, or its rules cannot be expressed.
    Nobody,
    /// Clients are let in as the value of `access` says.
    Some(String),
}

/// Why a directive that restricts is not carried over; none for others.
fn why_not(directive: &Directive) -> Option<&'static str> {
    match &*directive.name {
        "internal" => Some("paths that only this server asks for are not done"),
        "satisfy" => Some("networks and passwords are both asked for"),
        "limit_except" => Some("what only some methods are for is not done"),
        // It is in the place of the directives of a file that cannot be read.
        "include" => Some("which clients it lets in is not known"),
        name if DECIDES.contains(&name) && directive.argument(0) != "off" => Some("what it decides is not known here"),
        "if" if refusal::refuses(directive) => Some("conditions of this kind are not understood"),
        _ => None,
    }
}

/// Directives of modules that let in by something that has no counterpart here.
const DECIDES: &[&str] = &[
    "auth_jwt",
    "auth_jwt_require",
    "auth_oidc",
    "auth_require",
    "auth_totp_realm",
    "shib_request",
    "SecRulesEnabled",
    "app_protect_enable",
    "rewrite_by_lua",
    "rewrite_by_lua_block",
    "rewrite_by_lua_file",
    "server_rewrite_by_lua_block",
    "server_rewrite_by_lua_file",
    "secure_link",
    "secure_link_secret",
    "access_by_lua",
    "access_by_lua_block",
    "access_by_lua_file",
    "js_access",
    "disable_symlinks",
    "modsecurity",
    "auth_digest",
    "auth_pam",
    "auth_ldap",
    "auth_ldap_servers",
    "auth_gss",
    "auth_saml",
    "auth_spnego",
    "testcookie",
    "geoip2_access",
];

/// Whether a directive is about access.
pub(super) fn is_about(directive: &Directive) -> bool {
    matches!(
        &*directive.name,
        "allow" | "deny" | "auth_basic" | "auth_basic_user_file" | "auth_request" | "auth_request_set"
    ) || why_not(directive).is_some()
}

impl Access {
    /// The rules that a block with these directives inherits: none of a kind of which it has directives itself.
    pub(super) fn inherited_by(&self, directives: &[&Directive]) -> Access {
        let has = |names: &[&str]| directives.iter().any(|one| names.contains(&&*one.name));
        let mut access = self.clone();
        if has(&["allow", "deny"]) {
            (access.lines, access.rules) = (Vec::new(), Vec::new());
        }
        if has(&["auth_basic"]) {
            access.asks_for_passwords = None;
        }
        if has(&["auth_basic_user_file"]) {
            access.users = None;
        }
        if has(&["auth_request"]) {
            (access.asked, access.fields, access.user) = (None, Vec::new(), None);
        }
        access
    }

    /// Lets no client in, because something else answers there.
    pub(super) fn shut(&mut self) {
        self.has_others = true;
    }

    /// The path that nginx asks for access.
    pub(super) fn asked_path(&self) -> Option<String> {
        self.asked.as_ref().map(|(_, _, path)| path.clone())
    }

    /// Takes over what a directive tells an application, if it is what the service has said.
    pub(super) fn take_field(&mut self, directive: &Directive, draft: &mut Draft) -> bool {
        let (name, value) = (directive.argument(0), directive.argument(1));
        let Some((_, field)) = self.sets.iter().find(|(variable, _)| variable == value) else { return false };
        match &*directive.name {
            "fastcgi_param" | "uwsgi_param" | "scgi_param" if name == "REMOTE_USER" => self.user = Some(field.clone()),
            "fastcgi_param" | "uwsgi_param" | "scgi_param"
                if name.replace('_', "-").eq_ignore_ascii_case(&format!("http-{field}")) =>
            {
                self.fields.push(field.clone());
            }
            "proxy_set_header" if name.eq_ignore_ascii_case(field) => self.fields.push(name.to_owned()),
            "proxy_set_header" | "fastcgi_param" | "uwsgi_param" | "scgi_param" => {
                let why = format!("the application is told it as the service says it, in `{field}`");
                draft.lose(directive.line, format!("`{}`: {why}", directive.text()));
                self.fields.push(field.clone());
                // Here it is one that no client can say either.
                self.fields.extend(told_field(directive));
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
            if !fields.iter().any(|other| other.eq_ignore_ascii_case(one)) {
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
            "auth_basic" => self.asks_for_passwords = Some((directive.line, directive.text())),
            "auth_basic_user_file" => self.users = Some(users_of(directive, draft)),
            "auth_request" if directive.argument(0) == "off" => {}
            "auth_request" => {
                self.asked = Some((directive.line, directive.text(), directive.argument(0).to_owned()));
            }
            "auth_request_set" => self.set(directive, draft),
            "satisfy" if directive.argument(0) == "all" => {}
            _ => {
                let Some(why) = why_not(directive) else { return false };
                draft.lose(directive.line, format!("`{}`: {why}; {DENIED_WORDS}", directive.text()));
                self.has_others = true;
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

    fn lose_passwords(&self, why: &str, draft: &mut Draft) {
        if let Some((line, text)) = &self.asks_for_passwords {
            draft.lose(*line, format!("`{text}`: {why}; {DENIED_WORDS}"));
        }
    }

    /// Has `site` know the users that are asked for here. False if it knows one of them with another password.
    pub(super) fn add_users(&self, site: &mut Site, draft: &mut Draft) -> bool {
        let users = self.users.iter().flatten().filter(|_| self.asks_for_passwords.is_some());
        for (name, hash) in users {
            match site.users.iter().find(|(other, _)| other == name) {
                None => site.users.push((name.clone(), hash.clone())),
                Some((_, other)) if other == hash => {}
                Some(_) => {
                    self.lose_passwords(&format!("`{name}` has another password elsewhere in this site"), draft);
                    return false;
                }
            }
        }
        true
    }

    /// Decides over all rules.
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
        if self.has_others {
            if self.users.is_none() {
                self.lose_passwords("there is no file with users", draft);
            }
            return Let::Nobody;
        }
        let users = match (&self.asks_for_passwords, &self.users) {
            (None, _) => None,
            (Some(_), Some(users)) if users.is_empty() => return Let::Nobody,
            (Some(_), Some(_)) if service.is_some() => {
                self.lose_passwords("a service and passwords are not both asked", draft);
                return Let::Nobody;
            }
            (Some(_), Some(users)) => {
                let names: Vec<&String> = users.iter().map(|(name, _)| name).collect();
                Some(format!("users = {}", list(&names)))
            }
            (Some(_), None) => {
                self.lose_passwords("no file of passwords is named", draft);
                return Let::Nobody;
            }
        };
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
            .chain(users)
            .collect();
        if let Some((line, text)) = self.asks_for_passwords.as_ref().filter(|_| self.users.is_some()) {
            draft.lose(*line, format!("the realm of `{text}`: clients are shown none that is configured"));
        }
        if keys.is_empty() { Let::All } else { Let::Some(format!("{{ {} }}", keys.join(", "))) }
    }
}

/// Reads the files of passwords that `directives` name.
pub(super) fn read_files(directives: &[Directive], read: ReadFile<'_>, draft: &mut Draft) {
    for directive in directives {
        if directive.name == "auth_basic_user_file" {
            let path = directive.argument(0);
            draft.files.entry(path.to_owned()).or_insert_with(|| read(path));
        }
        read_files(directive.block.as_deref().unwrap_or_default(), read, draft);
    }
}

/// The users of the file that a directive names whose hashes can be checked here. What is said of the others has no
/// hash in it.
fn users_of(directive: &Directive, draft: &mut Draft) -> Vec<(String, String)> {
    let (line, path) = (directive.line, directive.argument(0));
    let text = match draft.files.get(path) {
        Some(Ok(text)) => text.clone(),
        Some(Err(why)) => {
            draft.lose(line, format!("`{}`: the file cannot be read ({why}); {DENIED_WORDS}", directive.text()));
            return Vec::new();
        }
        None => return Vec::new(),
    };
    let mut users: Vec<(String, String)> = Vec::new();
    let lines = (1..).zip(text.lines().map(str::trim)).filter(|(_, one)| !one.is_empty() && !one.starts_with('#'));
    for (number, one) in lines {
        let mut parts = one.split(':');
        let (name, hash) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let why = match check_user(name, hash) {
            // nginx takes the first of a name.
            Ok(_) if users.iter().any(|(other, _)| other == name) => continue,
            Ok(_) => {
                users.push((name.to_owned(), hash.to_owned()));
                continue;
            }
            Err(why) => format!("it {why}"),
        };
        draft.lose(line, format!("`{}` in line {number} of `{path}`: {why}", name.escape_debug()));
    }
    if users.is_empty() {
        draft.lose(line, format!("`{}`: no user is left in it; {DENIED_WORDS}", directive.text()));
    }
    users
}

/// `remote_user` as `Remote-User`.
fn in_title_case(variable: &str) -> String {
    let word = |word: &str| {
        let (first, rest) = word.split_at(word.len().min(1));
        first.to_ascii_uppercase() + rest
    };
    variable.split('_').map(word).collect::<Vec<_>>().join("-")
}
