//! The key `service` of `access`: which service is asked who is let in. From its table to settings, and back to text.
//!
//! Owns: its judgement, with words for what is wrong.

use serde_json::{Map, Value};
use toml::Spanned;

use super::shapes::{GatewayTable, ServiceTable};
use super::{Switch, checks, gateways};
use crate::access::ServiceSettings;
use crate::checker::Checker;
use crate::gateway::GatewayProtocol;
use crate::schema::values::{several, table, text};

/// Fields that a service cannot say: they frame the request, or say how it has come.
const NOT_TAKEN: [&str; 22] = [
    "connection",
    "content-length",
    "content-type",
    "expect",
    "forwarded",
    "host",
    "keep-alive",
    "max-forwards",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-method",
    "x-forwarded-port",
    "x-forwarded-proto",
    "x-forwarded-uri",
    "x-real-ip",
    "x-request-id",
];
/// Beginnings of further ones.
const NOT_TAKEN_BEGINNINGS: [&str; 2] = ["sec-websocket-", "if-"];
const FIELDS_MAX: usize = 32;

/// The service that a rule names.
pub(super) fn judge(given: &Spanned<Box<ServiceTable>>, checker: &mut Checker<'_>) -> Option<ServiceSettings> {
    let (table, span) = (given.get_ref(), given.span());
    let copy = GatewayTable {
        to: table.to.clone(),
        host: table.host.clone(),
        connect_timeout_ms: table.connect_timeout_ms.clone(),
        timeout_ms: table.timeout_ms.clone(),
        ca: table.ca.clone(),
        server_name: table.server_name.clone(),
        verify: table.verify.clone(),
        ..GatewayTable::default()
    };
    let gateway = gateways::of_table(GatewayProtocol::Http, (&copy, &[]), span.clone(), checker);
    if matches!(&gateway, Switch::Set(gateway) if !gateway.base_path.is_empty()) {
        checker.problem(span, "`to` has no path for a service: what it is asked for is in `path`");
        return None;
    }
    let Some(path) = &table.path else {
        checker.problem(span, "`path` says what the service is asked for, and it is missing");
        return None;
    };
    let path = checks::path_of(path.get_ref(), path.span(), checker)?;
    let mut fields = Vec::new();
    for name in table.fields.iter().flat_map(|names| &names.get_ref().0) {
        let at = table.fields.as_ref().map_or(given.span(), Spanned::span);
        if !is_name(name) {
            let what = "is not a field that a service can say: expected the name of one, as in Remote-User";
            checker.problem(at, format!("`{}` {what}", name.escape_debug()));
        } else if !fields.iter().any(|other: &String| other.eq_ignore_ascii_case(name)) {
            fields.push(name.clone());
        }
    }
    if fields.len() > FIELDS_MAX {
        checker.problem(span, format!("`fields` names at most {FIELDS_MAX} fields"));
    }
    let user = table.user.as_ref().map(|name| {
        let what = "is not the name of a field that says who the user is, as in Remote-User";
        checker.expect(is_name(name.get_ref()), name, what);
        name.get_ref().clone()
    });
    match gateway {
        Switch::Set(gateway) => Some(ServiceSettings { gateway, path, fields, user }),
        Switch::Unset | Switch::Off => None,
    }
}

/// A name without underscores: interfaces like CGI make no difference between `_` and `-`, and one spelling is enough.
fn is_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    let lower = name.to_ascii_lowercase();
    !name.is_empty()
        && name.bytes().all(is_plain)
        && !NOT_TAKEN.contains(&&*lower)
        && !NOT_TAKEN_BEGINNINGS.iter().any(|beginning| lower.starts_with(beginning))
}

/// As it is written in a configuration.
pub(crate) fn render_service(service: &ServiceSettings) -> String {
    let quoted = |text: &str| toml::Value::from(text).to_string();
    let gateway = gateways::render(&service.gateway);
    let mut keys = vec![gateway.trim_start_matches("{ ").trim_end_matches(" }").to_owned()];
    keys.push(format!("path = {}", quoted(&service.path)));
    if !service.fields.is_empty() {
        let names: Vec<String> = service.fields.iter().map(|name| quoted(name)).collect();
        keys.push(format!("fields = [{}]", names.join(", ")));
    }
    keys.extend(service.user.as_ref().map(|name| format!("user = {}", quoted(name))));
    format!("{{ {} }}", keys.join(", "))
}

/// The schema of `service`.
pub(super) fn schema() -> Value {
    let of_gateway = ["to", "host", "connect_timeout_ms", "timeout_ms", "ca", "server_name", "verify"];
    let mut keys: Map<String, Value> =
        gateways::keys().into_iter().filter(|(key, _)| of_gateway.contains(&key.as_str())).collect();
    let names = "Fields of its answer that the application gets, and that no client can say";
    let further = [
        ("path", text("What it is asked for, as in /api/verify")),
        ("fields", several(names)),
        ("user", text("The field of its answer that names the user, for the log and REMOTE_USER")),
    ];
    keys.extend(further.map(|(key, value)| (key.to_owned(), value)));
    table(keys, &["to", "path"], "A service that is asked about each request whether it is let in")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate as config;
    use crate::access::Allowed;

    fn service_of(keys: &str) -> Result<ServiceSettings, String> {
        let text = format!("[[site]]\nroot = \".\"\naccess = {{ service = {keys} }}\n");
        let directory = Path::new(env!("CARGO_MANIFEST_DIR"));
        let settings = config::parse(&text, &directory.join("lamna.toml")).map_err(|error| error.to_string())?;
        match &settings.sites[0].access.0[0] {
            Some(Allowed::Only(rule)) => Ok((**rule.service.as_ref().expect("it names one")).clone()),
            other => Err(format!("{other:?}")),
        }
    }

    #[test]
    fn what_is_shown_is_read_as_the_same() {
        for keys in [
            r#"{ to = "http://127.0.0.1:9091", path = "/verify" }"#,
            r#"{ to = ["unix:/run/a.sock", "http://b.test:81"], path = "/a?b=c", fields = ["Remote-User", "Remote-Groups"], user = "Remote-User" }"#,
            r#"{ to = "https://a.test", path = "/", verify = false, host = "b.test", timeout_ms = 100 }"#,
        ] {
            let service = service_of(keys).unwrap();
            assert_eq!(service_of(&render_service(&service)), Ok(service), "{keys}");
        }
    }

    #[test]
    fn what_cannot_be_asked_or_taken_is_refused_with_the_reason() {
        for (keys, reason) in [
            (r#"{ path = "/verify" }"#, "`to` says where"),
            (r#"{ to = "http://a.test" }"#, "`path` says what the service is asked for"),
            (r#"{ to = "http://a.test", path = "verify" }"#, "is not a path"),
            (r#"{ to = "http://a.test", path = "/", fields = ["Host"] }"#, "`Host` is not a field"),
            (r#"{ to = "http://a.test", path = "/", fields = ["X-Forwarded-For"] }"#, "is not a field"),
            (r#"{ to = "http://a.test", path = "/", fields = ["Remote_User"] }"#, "is not a field"),
            (r#"{ to = "http://a.test", path = "/", user = "a b" }"#, "says who the user is"),
            (r#"{ to = "http://a.test", path = "/", weights = [1] }"#, "weights"),
        ] {
            let refused = service_of(keys).unwrap_err();
            assert!(refused.contains(reason), "{keys}: {refused}");
        }
        let beside = "[[site]]\nroot = \".\"\nusers = { ada = \"x\" }\naccess = { users = [\"*\"], service = { to = \"http://a.test\", path = \"/\" } }\n";
        let refused = config::parse(beside, Path::new("lamna.toml")).unwrap_err().to_string();
        assert!(refused.contains("decides alone"), "{refused}");
    }
}
