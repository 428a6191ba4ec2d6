//! Conditions of `RewriteCond`, and patterns of `RewriteRule`.
//!
//! Owns: what they mean as tests of requests, and which of them ask whether a file is there.

use lamna_config::render::quoted;
use lamna_config::route::pattern::compile;

use super::syntax::Directive;
use crate::matching::{Kind, Literal, PathTest, Test, Unsaid, is_network};

/// Conditions of a rule, of which one has to fit whole.
#[derive(Clone, Debug, Default)]
pub(super) struct Conditions {
    pub(super) any: Vec<Vec<Literal>>,
    /// Whether it is for paths at which there is nothing, or something.
    pub(super) file: Option<bool>,
}

/// Conditions beyond which they are not told apart.
const ALTERNATIVES_MAX: usize = 64;

/// The conditions in front of a rule. `is_soft`: where they cannot be said, nothing is kept from anybody by that.
pub(super) fn conditions(lines: &[&Directive], is_soft: bool) -> Conditions {
    let mut conditions = Conditions { any: vec![Vec::new()], ..Conditions::default() };
    let mut group: Vec<Vec<Literal>> = Vec::new();
    for line in lines {
        let (text, pattern, flags) = (line.argument(0), line.argument(1), line.argument(2).to_ascii_uppercase());
        let is_or = flags.contains("OR");
        if let Some(is_there) = of_file(text, pattern) {
            conditions.file = Some(conditions.file.unwrap_or(is_there) && is_there);
            if !is_or {
                close(&mut conditions.any, &mut group);
            }
            continue;
        }
        group.push(vec![literal(text, pattern, flags.contains("NC"), is_soft)]);
        if !is_or {
            close(&mut conditions.any, &mut group);
        }
    }
    close(&mut conditions.any, &mut group);
    conditions
}

fn close(any: &mut Vec<Vec<Literal>>, group: &mut Vec<Vec<Literal>>) {
    if group.is_empty() {
        return;
    }
    let with =
        |before: &Vec<Literal>| group.iter().map(|one| [before.clone(), one.clone()].concat()).collect::<Vec<_>>();
    *any = any.iter().flat_map(with).take(ALTERNATIVES_MAX).collect();
    group.clear();
}

/// Whether it asks that there is a file or a folder, or that there is none.
fn of_file(text: &str, pattern: &str) -> Option<bool> {
    let is_name = ["REQUEST_FILENAME", "DOCUMENT_ROOT", "SCRIPT_FILENAME", "CONTEXT_DOCUMENT_ROOT"]
        .iter()
        .any(|name| text.contains(name));
    let (is_there, test) = pattern.strip_prefix('!').map_or((true, pattern), |test| (false, test));
    (is_name && matches!(test, "-f" | "-d" | "-l" | "-s" | "-F" | "-U")).then_some(is_there)
}

fn literal(text: &str, pattern: &str, is_any_case: bool, is_soft: bool) -> Literal {
    let (is_not, pattern) = pattern.strip_prefix('!').map_or((false, pattern), |pattern| (true, pattern));
    let unsaid = |why: String| (Test::Unsaid(Unsaid { why, is_of_request: true }), false);
    let soft = |why: String| (Test::Unsaid(Unsaid { why, is_of_request: !is_soft }), false);
    let name = text.strip_prefix("%{").and_then(|rest| rest.strip_suffix('}')).unwrap_or("");
    let bare = pattern.trim_start_matches('^').trim_end_matches('$').trim_start_matches('=').trim_matches('"');
    let is_exact = pattern.starts_with('=') || pattern.starts_with('^') && pattern.ends_with('$');
    let regex = |value: &str| if is_any_case { format!("(?i){value}") } else { value.to_owned() };
    match name.to_ascii_uppercase().as_str() {
        "HTTPS" if matches!(bare, "on" | "off") => (Test::Tls, is_not != (bare == "off")),
        "SERVER_PORT" if matches!(bare, "80" | "443") => (Test::Tls, is_not != (bare == "80")),
        "REQUEST_SCHEME" if matches!(bare, "http" | "https") => (Test::Tls, is_not != (bare == "http")),
        "ENV:REDIRECT_STATUS" => (Test::Always, false),
        "HTTP_HOST" | "SERVER_NAME" => match hosts(pattern) {
            Some(hosts) => (Test::Host(hosts), is_not),
            None => soft(format!("hosts are compared whole, and `{pattern}` is none")),
        },
        "REQUEST_URI" | "SCRIPT_NAME" => match pattern.strip_prefix('=') {
            Some(path) => (Test::Path(vec![PathTest::new(Kind::Exact, path, is_any_case)]), is_not),
            None if is_not => match plain(pattern) {
                Some(tests) => {
                    (Test::Path(tests.into_iter().map(|one| PathTest { is_any_case, ..one }).collect()), true)
                }
                None => soft(format!("paths that must not fit are said by their beginnings, and `{pattern}` is none")),
            },
            None => {
                (Test::Path(vec![PathTest::new(Kind::Regex, &crate::nginx::restricting(pattern), is_any_case)]), false)
            }
        },
        "REQUEST_METHOD" => {
            let methods: Vec<String> =
                bare.trim_start_matches('(').trim_end_matches(')').split('|').map(str::to_owned).collect();
            match methods.iter().all(|one| !one.is_empty() && one.bytes().all(|byte| byte.is_ascii_uppercase())) {
                true => (Test::Method(methods), is_not),
                false => unsaid(format!("methods are named, and `{pattern}` is none")),
            }
        }
        "REMOTE_ADDR" => match client(pattern) {
            Some(clients) => (Test::Client(clients), is_not),
            None => unsaid(format!("clients are named by their networks, and `{pattern}` is none")),
        },
        "QUERY_STRING" | "THE_REQUEST" => soft(format!("`{text}` is not asked as a whole")),
        name if name == "HTTP_REFERER"
            || name == "HTTP_USER_AGENT"
            || name == "HTTP_COOKIE"
            || name.starts_with("HTTP_ACCEPT")
            || name.starts_with("HTTP:")
            || name == "HTTP_FORWARDED" =>
        {
            let field = name.trim_start_matches("HTTP").trim_start_matches(['_', ':']).replace('_', "-");
            let is_name = !field.is_empty() && field.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
            if !is_name {
                return unsaid(format!("`{text}` names no field"));
            }
            if matches!(pattern, "^$" | "=" | "" | "=\"\"") {
                return (Test::Header(field, "true".into()), !is_not);
            }
            let value = match pattern.strip_prefix('=') {
                Some(value) => format!("^{}$", regex::escape(value)),
                None => pattern.to_owned(),
            };
            let value = regex(&value);
            match compile(&value) {
                // Without the field there is an empty text.
                Ok(read) if read.is_match(b"") && pattern != "." => match matches!(pattern, ".*" | "^.*$" | "^") {
                    true => (Test::Always, is_not),
                    false => unsaid(format!("`{pattern}` fits without the field as well")),
                },
                Ok(_) if matches!(pattern, "." | ".+" | "^.+$") => (Test::Header(field, "true".into()), is_not),
                Ok(_) => (Test::Header(field, format!("{{ regex = {} }}", quoted(&value))), is_not),
                Err(_) => unsaid(format!("`{pattern}` cannot be read here")),
            }
        }
        _ if is_exact && text == "on" => (Test::Always, is_not),
        _ => unsaid(format!("`{text}` is not asked by routes")),
    }
}

/// Beginnings or whole paths that a pattern means, if it is no more than that.
pub(super) fn plain(pattern: &str) -> Option<Vec<PathTest>> {
    let rest = pattern.strip_prefix('^')?;
    let (rest, kind) = match rest.strip_suffix('$') {
        Some(rest) => (rest, Kind::Exact),
        None => (rest.strip_suffix("(.*)").or(rest.strip_suffix(".*")).unwrap_or(rest), Kind::Prefix),
    };
    let (rest, kind) = match rest.strip_suffix("(.*)").or(rest.strip_suffix(".*")) {
        Some(rest) => (rest, Kind::Prefix),
        None => (rest, kind),
    };
    let (start, alternatives, end) = match (rest.find('('), rest.find(')')) {
        (Some(open), Some(close)) if open < close => (
            &rest[..open],
            rest[open + 1..close].trim_start_matches("?:").split('|').collect::<Vec<_>>(),
            &rest[close + 1..],
        ),
        (None, None) => (rest, vec![""], ""),
        _ => return None,
    };
    let tests = alternatives.iter().map(|one| {
        let text = unescaped(&format!("{start}{one}{end}"))?;
        Some(PathTest::new(kind, &text, false))
    });
    tests.collect()
}

/// The text that an expression without signs of its own means.
pub(super) fn unescaped(regex: &str) -> Option<String> {
    let mut out = String::new();
    let mut rest = regex.chars();
    while let Some(one) = rest.next() {
        match one {
            '\\' => out.push(rest.next().filter(|next| !next.is_alphanumeric())?),
            '.' | '*' | '+' | '?' | '(' | ')' | '[' | ']' | '{' | '}' | '|' | '^' | '$' => return None,
            one => out.push(one),
        }
    }
    Some(out)
}

/// Hosts that an expression means, each whole.
fn hosts(pattern: &str) -> Option<Vec<String>> {
    if let Some(host) = pattern.strip_prefix('=') {
        return lamna_config::address::host_name(host).ok().map(|host| vec![host]);
    }
    let rest = pattern.strip_prefix('^')?;
    let rest = rest.strip_suffix('$').unwrap_or(rest);
    let rest = rest
        .strip_suffix("(:[0-9]+)?")
        .or(rest.strip_suffix("(:80)?"))
        .or(rest.strip_suffix("(:\\d+)?"))
        .unwrap_or(rest);
    let rest = rest.strip_suffix("\\.?").unwrap_or(rest);
    let (with_www, rest) = ["(www\\.)?", "(?:www\\.)?", "(www.)?"]
        .iter()
        .find_map(|start| rest.strip_prefix(start))
        .map_or((false, rest), |rest| (true, rest));
    // A dot that is not escaped is meant to be one.
    let host = unescaped(&rest.replace("\\.", ".").replace('.', "\\."))?;
    let host = lamna_config::address::host_name(&host).ok().filter(|host| host.contains('.') || host == "localhost")?;
    let www = with_www.then(|| format!("www.{host}"));
    Some([host].into_iter().chain(www).collect())
}

/// Networks that an expression over addresses means.
fn client(pattern: &str) -> Option<Vec<String>> {
    let rest = pattern.strip_prefix(['^', '='])?;
    let (rest, is_whole) = rest.strip_suffix('$').map_or((rest, pattern.starts_with('=')), |rest| (rest, true));
    let inner = rest.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).unwrap_or(rest);
    let networks = inner.split('|').map(|one| {
        let text = one.replace("\\.", ".").replace("\\:", ":");
        if is_network(&text) {
            return Some(text);
        }
        let parts: Vec<&str> = text.strip_suffix('.')?.split('.').collect();
        let is_start = !is_whole && parts.len() < 4 && parts.iter().all(|part| part.parse::<u8>().is_ok());
        let all: Vec<&str> = parts.iter().copied().chain(std::iter::repeat("0")).take(4).collect();
        is_start.then(|| format!("{}/{}", all.join("."), parts.len() * 8))
    });
    networks.collect()
}
