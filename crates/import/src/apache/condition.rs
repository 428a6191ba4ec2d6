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
pub(super) const ALTERNATIVES_MAX: usize = 64;

/// The use of conditions: it says which requests they must not miss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// They refuse: no request that fits may be missed.
    Refuses,
    /// They exempt from refusals: none may be taken that does not fit.
    Exempts,
    /// They lead elsewhere: where they cannot be said, nothing is kept from anybody by that.
    Leads,
    Answers,
}

impl Use {
    /// Whether a test for fewer requests than are meant is good enough.
    fn takes_fewer(self, is_not: bool) -> bool {
        match self {
            Use::Refuses => is_not,
            Use::Exempts => !is_not,
            Use::Leads | Use::Answers => true,
        }
    }
}

/// The conditions in front of a rule.
pub(super) fn conditions(lines: &[&Directive], use_of: Use) -> Conditions {
    let mut conditions = Conditions { any: vec![Vec::new()], ..Conditions::default() };
    let mut group: Vec<Vec<Literal>> = Vec::new();
    // Whether a file is one of the alternatives.
    let mut has_file = false;
    for line in lines {
        let (text, pattern, flags) = (line.argument(0), line.argument(1), line.argument(2).to_ascii_uppercase());
        let is_or = flags.contains("OR");
        if let Some(is_there) = of_file(text, pattern) {
            conditions.file = Some(conditions.file.unwrap_or(is_there) && is_there);
            has_file = true;
            if !is_or {
                close(&mut conditions.any, &mut group, &mut has_file);
            }
            continue;
        }
        group.push(vec![literal(text, pattern, flags.contains("NC"), use_of)]);
        if !is_or {
            close(&mut conditions.any, &mut group, &mut has_file);
        }
    }
    close(&mut conditions.any, &mut group, &mut has_file);
    conditions
}

/// Whether an expression (`<If>`) may ask who the client is. Scheme, host, path, query and method restrict no client.
pub(super) fn asks_for_client(expression: &str) -> bool {
    const OF_URL: [&str; 9] = [
        "HTTPS",
        "HTTP_HOST",
        "QUERY_STRING",
        "REQUEST_METHOD",
        "REQUEST_SCHEME",
        "REQUEST_URI",
        "SERVER_NAME",
        "SERVER_PORT",
        "THE_REQUEST",
    ];
    let mut names = expression.split("%{").skip(1).filter_map(|rest| rest.split('}').next()).peekable();
    let is_constant = names.peek().is_none();
    let calls = |expression: &str| {
        let before = |at: usize| expression[..at].chars().next_back();
        expression.match_indices('(').any(|(at, _)| before(at).is_some_and(char::is_alphanumeric))
    };
    is_constant
        || names.any(|name| !OF_URL.contains(&name.to_ascii_uppercase().as_str()))
        || expression.split_whitespace().any(|word| word == "-R")
        || calls(expression)
}

fn close(any: &mut Vec<Vec<Literal>>, group: &mut Vec<Vec<Literal>>, has_file: &mut bool) {
    let is_file_too = std::mem::take(has_file);
    if group.is_empty() {
        return;
    }
    let unsaid = |why: &str| vec![(Test::Unsaid(Unsaid::of_request(why)), false)];
    if is_file_too {
        group.push(unsaid("a file that is there is no alternative to something else"));
    }
    let with =
        |before: &Vec<Literal>| group.iter().map(|one| [before.clone(), one.clone()].concat()).collect::<Vec<_>>();
    *any = any.iter().flat_map(with).take(ALTERNATIVES_MAX + 1).collect();
    if any.len() > ALTERNATIVES_MAX {
        *any = vec![unsaid("it has too many alternatives")];
    }
    group.clear();
}

/// Whether it asks that there is a file or a folder, or that there is none.
pub(super) fn of_file(text: &str, pattern: &str) -> Option<bool> {
    let is_name = ["REQUEST_FILENAME", "DOCUMENT_ROOT", "SCRIPT_FILENAME", "CONTEXT_DOCUMENT_ROOT"]
        .iter()
        .any(|name| text.contains(name));
    let (is_there, test) = pattern.strip_prefix('!').map_or((true, pattern), |test| (false, test));
    (is_name && matches!(test, "-f" | "-d" | "-l" | "-s" | "-F" | "-U")).then_some(is_there)
}

fn literal(text: &str, pattern: &str, is_any_case: bool, use_of: Use) -> Literal {
    let (is_not, pattern) = pattern.strip_prefix('!').map_or((false, pattern), |pattern| (true, pattern));
    let unsaid = |why: String| (Test::Unsaid(Unsaid::of_request(why)), false);
    let soft =
        |why: String| (Test::Unsaid(Unsaid { is_of_request: use_of != Use::Leads, ..Unsaid::of_request(why) }), false);
    let name = text.strip_prefix("%{").and_then(|rest| rest.strip_suffix('}')).unwrap_or("");
    let bare = pattern.trim_start_matches('^').trim_end_matches('$').trim_start_matches('=').trim_matches('"');
    let is_exact = pattern.starts_with('=') || pattern.starts_with('^') && pattern.ends_with('$');
    let regex = |value: &str| if is_any_case { format!("(?i){value}") } else { value.to_owned() };
    match name.to_ascii_uppercase().as_str() {
        "HTTPS" if matches!(bare, "on" | "off") => (Test::Tls, is_not != (bare == "off")),
        "SERVER_PORT" if matches!(bare, "80" | "443") => (Test::Tls, is_not != (bare == "80")),
        "REQUEST_SCHEME" if matches!(bare, "http" | "https") => (Test::Tls, is_not != (bare == "http")),
        "ENV:REDIRECT_STATUS" => (Test::Always, false),
        "HTTP_HOST" | "SERVER_NAME" => match hosts(pattern, use_of.takes_fewer(is_not)) {
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
        "REMOTE_ADDR" => match clients(pattern, use_of.takes_fewer(is_not)) {
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

/// Hosts that an expression means, each whole. Without `$` at its end it is for longer ones as well: that is said only
/// where fewer are good enough.
fn hosts(pattern: &str, takes_fewer: bool) -> Option<Vec<String>> {
    if let Some(host) = pattern.strip_prefix('=') {
        return lamna_config::address::host_name(host).ok().map(|host| vec![host]);
    }
    let rest = pattern.strip_prefix('^')?;
    let rest = match rest.strip_suffix('$') {
        Some(rest) => rest,
        None if takes_fewer => rest,
        None => return None,
    };
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

/// Networks that an expression over addresses means. Without `$` at its end the last number goes on.
fn clients(pattern: &str, takes_fewer: bool) -> Option<Vec<String>> {
    let rest = pattern.strip_prefix(['^', '='])?;
    let (rest, is_whole) = rest.strip_suffix('$').map_or((rest, pattern.starts_with('=')), |rest| (rest, true));
    let group = rest.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
    // Without a group the ends are those of the first and the last one alone.
    if group.is_none() && rest.contains('|') {
        return None;
    }
    let mut networks = Vec::new();
    for one in group.unwrap_or(rest).split('|') {
        let text = one.replace("\\.", ".").replace("\\:", ":");
        if is_whole {
            networks.push(Some(text).filter(|text| is_network(text) && !text.contains('/'))?);
            continue;
        }
        // A dot that is not escaped may be a digit.
        if one.replace("\\.", "").contains('.') && !takes_fewer {
            return None;
        }
        let parts: Vec<&str> = text.split('.').collect();
        let (last, first) = parts.split_last()?;
        if first.len() > 3 || !first.iter().all(|part| part.parse::<u8>().is_ok()) {
            return None;
        }
        let lasts: Vec<String> = match *last {
            "" if !first.is_empty() => vec![first.join(".")],
            last if !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit()) => {
                let numbers = (0..=u8::MAX).map(|number| number.to_string()).filter(|number| number.starts_with(last));
                numbers.map(|number| first.iter().copied().chain([&*number]).collect::<Vec<_>>().join(".")).collect()
            }
            _ => return None,
        };
        for start in lasts {
            let count = start.split('.').count();
            let whole = format!("{start}{}", ".0".repeat(4_usize.checked_sub(count)?));
            networks.push(if count == 4 { whole } else { format!("{whole}/{}", count * 8) });
        }
    }
    (!networks.is_empty()).then_some(networks)
}
