//! Refusals of nginx that look at the request: `if` with `return`, and `limit_except`.
//!
//! Owns: which of their conditions can be asked here. Guarantees: what fits the original fits what comes of it as well,
//! so nothing is let in that was refused. Pure.

use lamna_config::render::quoted;
use lamna_config::route::condition::Network;
use lamna_config::route::pattern::{Pattern, compile};

use super::pattern::restricting;
use super::syntax::Directive;
use crate::{DENIED_PRIORITY, DENIED_WORDS, Draft, Route, denied, list};

/// The requests that a refusal is for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Whom {
    /// For no request: it never applies here.
    Nobody,
    /// For requests that fit one of these: keys of `match` with their values.
    Some(Vec<String>),
    /// For paths that fit an expression, in whatever location.
    Paths(String),
}

/// Whether a block of `if` refuses: it answers with something else than another address.
pub(super) fn refuses(directive: &Directive) -> bool {
    let is_refusal = |one: &Directive| match &*one.name {
        "return" => !one.argument(0).starts_with('3') && !one.argument(0).contains("://"),
        "deny" => true,
        _ => false,
    };
    directive.name == "if" && directive.block.iter().flatten().any(is_refusal)
}

/// The condition that the script which FastCGI is asked for is no file.
const MISSING_SCRIPT: &str = "(!-f$document_root$fastcgi_script_name)";

/// The requests that a directive refuses, if they can be expressed. `has_tls` is that of its server.
pub(super) fn whom(directive: &Directive, has_tls: bool) -> Option<Whom> {
    match &*directive.name {
        // A script that is not there is answered with 404.
        "if" if refuses(directive) && directive.arguments.concat() == MISSING_SCRIPT => Some(Whom::Nobody),
        "if" if refuses(directive) => condition(directive, has_tls),
        "limit_except" => {
            let is_plain = matches!(directive.block.as_deref(), Some([only]) if only.text() == "deny all");
            (is_plain && !directive.arguments.is_empty())
                .then(|| Whom::Some(vec![format!("not = {{ method = {} }}", list(&directive.arguments))]))
        }
        _ => None,
    }
}

/// The requests for which the condition of an `if` holds, if they can be expressed.
pub(super) fn condition(directive: &Directive, has_tls: bool) -> Option<Whom> {
    let words = directive.arguments.join(" ");
    let inner = words.strip_prefix('(')?.strip_suffix(')')?.trim();
    let (variable, rest) = inner.split_once(' ').unwrap_or((inner, ""));
    let variable = variable.strip_prefix('$')?;
    let (operator, value) = rest.trim().split_once(' ').unwrap_or((rest.trim(), ""));
    let (is_not, operator) = operator.strip_prefix('!').map_or((false, operator), |operator| (true, operator));
    let value = value.trim();
    if value.contains('$') && operator == "=" {
        return None;
    }
    let expression = match operator {
        "~" => Some(value.to_owned()),
        "~*" => Some(format!("(?i){value}")),
        _ => None,
    };
    if expression.as_ref().is_some_and(|regex| compile(regex).is_err()) {
        return None;
    }
    let either = |key: String| match is_not {
        true => Whom::Some(vec![format!("not = {{ {key} }}")]),
        false => Whom::Some(vec![key]),
    };
    if let Some(field) = variable.strip_prefix("http_").filter(|field| *field != "host") {
        let name = quoted(&field.replace('_', "-"));
        let key = match (operator, value, &expression) {
            ("", ..) => format!("header = {{ {name} = true }}"),
            // What is not there is empty.
            ("=", "", _) if !is_not => {
                let keys = ["false", "\"\""].map(|test| format!("header = {{ {name} = {test} }}"));
                return Some(Whom::Some(keys.to_vec()));
            }
            ("=", "", _) => format!("header = {{ {name} = false }}"),
            ("=", value, _) => format!("header = {{ {name} = {} }}", quoted(value)),
            // What is not there is empty.
            (.., Some(regex)) if compile(regex).ok()?.is_match(b"") => {
                let present = format!("header = {{ {name} = {{ regex = {} }} }}", quoted(regex));
                return Some(match is_not {
                    true => Whom::Some(vec![format!("not = {{ {present} }}, header = {{ {name} = true }}")]),
                    false => Whom::Some(vec![present, format!("header = {{ {name} = false }}")]),
                });
            }
            (.., Some(regex)) => format!("header = {{ {name} = {{ regex = {} }} }}", quoted(regex)),
            _ => return None,
        };
        return Some(either(key));
    }
    if let Some(name) = variable.strip_prefix("cookie_") {
        return cookie(name, is_not, operator, value);
    }
    match (variable, operator) {
        ("request_method", _) => {
            let names = match (operator, &expression) {
                ("=", _) => vec![value],
                ("~", _) => value.strip_prefix("^(")?.strip_suffix(")$")?.split('|').collect(),
                _ => return None,
            };
            if !names.iter().all(|name| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_uppercase())) {
                return None;
            }
            // HEAD is asked for by its own name there.
            let head = is_not && names.contains(&"GET") && !names.contains(&"HEAD");
            let Whom::Some(mut keys) = either(format!("method = {}", list(&names))) else { return None };
            keys.extend(head.then(|| "method = [\"HEAD\"]".to_owned()));
            Some(Whom::Some(keys))
        }
        ("host" | "http_host", "=") if is_host(value) => {
            Some(either(format!("host = {}", list(&[value.to_ascii_lowercase()]))))
        }
        ("remote_addr", "=") if value.parse::<Network>().is_ok() => {
            Some(either(format!("client = {}", list(&[value]))))
        }
        // Port 80 leads to TLS where there is a certificate.
        ("scheme", "=") if has_tls && (value == "http") != is_not && matches!(value, "http" | "https") => {
            Some(Whom::Nobody)
        }
        ("https", "=") if has_tls && (value.is_empty() && !is_not || value == "on" && is_not) => Some(Whom::Nobody),
        ("uri" | "document_uri", "~" | "~*") if !is_not => expression.map(Whom::Paths),
        _ => None,
    }
}

/// The requests for which a condition about a cookie holds. nginx looks at the first one of the name, whatever its
/// case.
fn cookie(name: &str, is_not: bool, operator: &str, value: &str) -> Option<Whom> {
    let before = format!("(?:^|[;,]) *(?i:{}) *= *", regex::escape(name));
    let fits =
        |value: &str| format!("header = {{ \"cookie\" = {{ regex = {} }} }}", quoted(&format!("{before}{value}")));
    let not = |key: String| format!("not = {{ {key} }}");
    let (empty, some) = (fits("(?:;|$)"), fits("[^; ]"));
    Some(Whom::Some(match (operator, value, is_not) {
        ("=", "", false) => vec![not(some), empty],
        ("=", "", true) | ("", ..) => vec![some],
        ("=", value, false) => vec![fits(&format!("{}(?:;|$)", regex::escape(value)))],
        // One that is there twice may be another one first.
        ("=", value, true) => {
            let twice = fits(&format!(".*[;,] *(?i:{}) *=", regex::escape(name)));
            vec![not(fits(&format!("{}(?:;|$)", regex::escape(value)))), twice]
        }
        _ => return None,
    }))
}

fn is_host(value: &str) -> bool {
    !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte))
}

/// The same, with what is said of it.
pub(super) fn said(directive: &Directive, whom: Whom, pattern: Option<&Pattern>, draft: &mut Draft) -> Vec<Route> {
    if whom == Whom::Nobody {
        draft.need_not(directive.line, format!("`{}`: port 80 leads to TLS", directive.text()));
    }
    for inner in directive.block.iter().flatten() {
        match (&*inner.name, inner.argument(0), inner.arguments.len()) {
            ("return", "404", 1) | ("deny", ..) => inner.carry(),
            ("return", ..) => {
                draft.lose(
                    inner.line,
                    format!("`{}`: it is answered with 404, and with no text of its own", inner.text()),
                );
            }
            _ => draft.lose(inner.line, format!("`{}`: nothing is made of it beside a refusal", inner.text())),
        }
    }
    directive.carry();
    routes(directive.line, whom, pattern)
}

/// Says of an `if` that leads elsewhere that it refuses here.
pub(super) fn lose_turn(directive: &Directive, draft: &mut Draft) {
    draft.lose(
        directive.line,
        format!("`{}`: it keeps from some what is there, and cannot be said here; {DENIED_WORDS}", directive.text()),
    );
}

/// The value of `match` for one condition, in the location of `pattern`; none is a whole server.
pub(super) fn matching(pattern: Option<&Pattern>, condition: &str) -> String {
    let path = match pattern {
        Some(Pattern::Regex(text)) => format!("regex = {}, ", quoted(&restricting(text))),
        Some(plain) => format!("path = {}, ", quoted(&plain.text())),
        None => String::new(),
    };
    format!("{{ {path}{condition} }}")
}

/// The routes that refuse `whom`, in the location of `pattern`; none is a whole server.
pub(super) fn routes(line: usize, whom: Whom, pattern: Option<&Pattern>) -> Vec<Route> {
    let matches: Vec<String> = match whom {
        Whom::Nobody => Vec::new(),
        Whom::Some(conditions) => conditions.iter().map(|one| matching(pattern, one)).collect(),
        Whom::Paths(regex) => vec![format!("{{ regex = {} }}", quoted(&restricting(&regex)))],
    };
    let route = |matches: String| {
        let keys = [("match", matches), ("priority", DENIED_PRIORITY.to_owned())];
        Route { line, keys: keys.into_iter().chain(denied()).collect() }
    };
    matches.into_iter().map(route).collect()
}

#[cfg(test)]
mod tests {
    use super::super::syntax::parse;
    use super::*;

    fn of(text: &str) -> Option<Whom> {
        whom(&parse(text).unwrap()[0], true)
    }

    #[test]
    fn conditions_are_asked_here_or_refuse_everybody() {
        let some = |keys: &[&str]| Some(Whom::Some(keys.iter().map(|key| (*key).to_owned()).collect()));
        for (condition, expected) in [
            ("$http_user_agent ~* \"bot\"", some(&["header = { \"user-agent\" = { regex = \"(?i)bot\" } }"])),
            ("$http_x_key != \"k\"", some(&["not = { header = { \"x-key\" = \"k\" } }"])),
            ("$request_method != POST", some(&["not = { method = [\"POST\"] }"])),
            ("$request_method !~ ^(GET|PUT)$", some(&["not = { method = [\"GET\", \"PUT\"] }", "method = [\"HEAD\"]"])),
            ("$host != a.example", some(&["not = { host = [\"a.example\"] }"])),
            ("$remote_addr = 192.0.2.1", some(&["client = [\"192.0.2.1\"]"])),
            ("$scheme != https", Some(Whom::Nobody)),
            ("$uri ~ \\.inc$", Some(Whom::Paths("\\.inc$".into()))),
            (
                "$http_referer !~ ^$",
                some(&["not = { header = { \"referer\" = { regex = \"^$\" } } }, header = { \"referer\" = true }"]),
            ),
            ("$http_x = \"\"", some(&["header = { \"x\" = false }", "header = { \"x\" = \"\" }"])),
            ("$http_x != \"\"", some(&["not = { header = { \"x\" = false } }"])),
            ("$cookie_a", some(&["header = { \"cookie\" = { regex = \"(?:^|[;,]) *(?i:a) *= *[^; ]\" } }"])),
            ("$cookie_a ~ b", None),
            ("$bad", None),
            ("$invalid_referer", None),
            ("$request_uri ~ x", None),
        ] {
            assert_eq!(of(&format!("if ({condition}) {{ return 403; }}")), expected, "{condition}");
        }
        assert_eq!(of("if ($host = a) { return 301 /b; }"), None);
        assert_eq!(of("limit_except GET { deny all; }"), some(&["not = { method = [\"GET\"] }"]));
        assert_eq!(of("limit_except GET { allow 10.0.0.0/8; deny all; }"), None);
    }
}
