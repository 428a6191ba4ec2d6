//! Fields of requests that nginx writes in what an application is sent: `proxy_set_header`, and `HTTP_*` of
//! `fastcgi_param`, `uwsgi_param` and `scgi_param`.
//!
//! Owns: which values can be said here. Guarantees: what nginx writes in the place of a client's word is never the
//! client's word here: a field whose value cannot be said is removed.

use lamna_config::render::quoted;
use lamna_config::route::request_fields::{objection, value as judged};

use super::Draft;
use super::syntax::Directive;

/// A field and its value; none if it goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RequestField {
    pub(super) name: String,
    value: Option<String>,
}

/// The field of which CGI makes the variable `name`, but for those that are no fields of a client.
pub(super) fn of_variable(name: &str) -> Option<String> {
    name.strip_prefix("HTTP_").filter(|field| !matches!(*field, "" | "PROXY")).map(|field| field.replace('_', "-"))
}

/// The field that `directive` writes under `name`; none if it is lost or as it is here anyway, which is told.
pub(super) fn read(name: &str, directive: &Directive, draft: &mut Draft) -> Option<RequestField> {
    let (text, value) = (directive.text(), directive.argument(1));
    let hyphened = name.replace('_', "-");
    let own = format!("$http_{}", hyphened.to_ascii_lowercase().replace('-', "_"));
    if value == own {
        draft.need_not(directive.line, format!("`{text}`: what a client sends goes on"));
        return None;
    }
    if let Some(why) = objection(&hyphened) {
        draft.lose(directive.line, format!("`{text}`: the field {why} (docs/gateways.md)"));
        return None;
    }
    if value.is_empty() {
        return Some(RequestField { name: hyphened, value: None });
    }
    let value = match template(value) {
        Some(value) if hyphened == name => Some(value),
        _ => {
            let why = "its name or its value cannot be said here: an application is sent no such field, neither by this \
                       server nor by a client";
            draft.lose(directive.line, format!("`{text}`: {why}"));
            None
        }
    };
    Some(RequestField { name: hyphened, value })
}

/// A value of nginx with the variables of this server. None if one is not known here.
fn template(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        let braced = after.strip_prefix('{').and_then(|inner| inner.split_once('}'));
        let length = after.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count();
        let (name, tail) = braced.unwrap_or((&after[..length], &after[length..]));
        out.push_str(&match name {
            "remote_addr" => "${client}".to_owned(),
            "scheme" | "host" | "request_id" | "http_host" => format!("${{{name}}}"),
            "remote_user" => "${user}".to_owned(),
            // A list of everything that came is no one field.
            "http_cookie" | "http_x_forwarded_for" => return None,
            field if field.starts_with("http_") => format!("${{{field}}}"),
            _ => return None,
        });
        rest = tail;
    }
    out.push_str(rest);
    judged(&out, &[]).is_ok().then_some(out)
}

/// The value of `request_headers` of a location with `own` fields. `others` are those of less specific locations, of
/// which nginx takes over none.
pub(super) fn table(own: &[&RequestField], others: &[&RequestField]) -> Option<String> {
    let is_own = |name: &str| own.iter().any(|one| one.name.eq_ignore_ascii_case(name));
    let mut members: Vec<String> = Vec::new();
    let mut kept: Vec<&str> = Vec::new();
    for RequestField { name, value } in own {
        let value = value.as_ref().map_or_else(|| "false".to_owned(), |value| quoted(value));
        members.push(format!("{} = {value}", quoted(name)));
    }
    for RequestField { name, .. } in others.iter().filter(|one| !is_own(&one.name)) {
        if !kept.iter().any(|other| other.eq_ignore_ascii_case(name)) {
            kept.push(name);
            members.push(format!("{} = true", quoted(name)));
        }
    }
    (!members.is_empty()).then(|| format!("{{ {} }}", members.join(", ")))
}

#[cfg(test)]
mod tests {
    use crate::{Files, nginx};

    fn text_of(inner: &str) -> String {
        let files = Files { read: &|_| Err("no such file".into()), list: &|_| Vec::new() };
        nginx(&format!("server {{ root /srv; {inner} }}"), files)
            .unwrap_or_else(|note| panic!("{inner}: {note:?}"))
            .text
    }

    #[test]
    fn fields_of_requests_are_carried_over_where_their_values_can_be_said() {
        for (said, expected) in [
            ("X-Real-IP $remote_addr", "\"X-Real-IP\" = \"${client}\""),
            ("X-Site ${host}", "\"X-Site\" = \"${host}\""),
            ("X-Api-Key abc", "\"X-Api-Key\" = \"abc\""),
            ("X-Scheme \"$scheme-$request_id\"", "\"X-Scheme\" = \"${scheme}-${request_id}\""),
            ("X-Agent $http_user_agent", "\"X-Agent\" = \"${http_user_agent}\""),
            ("X-User $remote_user", "\"X-User\" = \"${user}\""),
            ("Accept-Encoding \"\"", "\"Accept-Encoding\" = false"),
            ("X-Verify $ssl_client_verify", "\"X-Verify\" = false"),
            ("X_Verify yes", "\"X-Verify\" = false"),
        ] {
            let text = text_of(&format!(
                "location / {{ proxy_set_header {said}; proxy_pass http://a; }} location /b/ {{ proxy_pass http://a; }}"
            ));
            assert!(text.contains(&format!("request_headers = {{ {expected} }}")), "{said}: {text}");
            // Another location inherits nothing of it.
            let (name, _) = expected.split_once(" = ").unwrap();
            assert!(text.contains(&format!("request_headers = {{ {name} = true }}")), "{said}: {text}");
            assert_eq!(text.contains("Not carried over"), said.contains("erify"), "{said}: {text}");
        }
        let text = text_of(
            "proxy_set_header X-A 1; location / { proxy_pass http://a; } \
                       location /b/ { proxy_set_header X-B 2; proxy_pass http://a; }",
        );
        assert!(text.contains("{ \"X-A\" = \"1\", \"X-B\" = true }"), "{text}");
        assert!(text.contains("{ \"X-B\" = \"2\", \"X-A\" = true }"), "{text}");
        for (said, why) in [
            ("X-Forwarded-For $http_cf_connecting_ip", "is written by the server"),
            ("Content-Length \"\"", "belongs to the connection"),
            ("X-Same $http_x_same", "what a client sends goes on"),
        ] {
            let text = text_of(&format!("location / {{ proxy_set_header {said}; proxy_pass http://a; }}"));
            assert!(text.contains(why) && !text.contains("request_headers"), "{said}: {text}");
        }
    }
}
