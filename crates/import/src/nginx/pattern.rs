//! Paths and expressions of nginx as patterns, also those that cannot be read here.
//!
//! Owns: how a location is written ([`spelled`]), its path as a pattern ([`of_path`]), and expressions without what
//! cannot be read ([`without_looks`], [`wider`]). Guarantees: what fits an expression fits the one that comes of it as
//! well, and more may. Pure.

use lamna_config::render::quoted;
use lamna_config::route::pattern::Pattern;

use super::syntax::Directive;
use crate::{DENIED_PRIORITY, Route, denied};

/// How a location is compared (`=`, `^~`, `~`, `~*` or nothing), and with what. nginx takes both also without a space
/// between them.
pub(super) fn spelled(location: &Directive) -> (&str, &str) {
    const KINDS: [&str; 4] = ["=", "^~", "~*", "~"];
    match (location.argument(0), location.argument(1)) {
        (one, "") => {
            let kind = KINDS.into_iter().find(|kind| one.starts_with(kind)).unwrap_or("");
            (kind, &one[kind.len()..])
        }
        both => both,
    }
}

/// The pattern for a path of a location, or for all that begin so; an expression where a star or a brace would mean
/// something here.
pub(super) fn of_path(path: &str, is_exact: bool) -> Pattern {
    let plain = if is_exact { Pattern::Exact(path.to_owned()) } else { Pattern::Prefix(path.to_owned()) };
    match Pattern::from_glob(&plain.text()) {
        Ok(patterns) if patterns == [plain.clone()] => plain,
        _ => Pattern::Regex(format!("^{}{}", regex::escape(path), if is_exact { "$" } else { "" })),
    }
}

/// An expression that can be read here and that fits at least what `regex` fits.
pub(super) fn wider(regex: &str) -> String {
    let wider = without_looks(regex);
    if Pattern::from_regex(&wider).is_ok() { wider } else { "^".to_owned() }
}

/// The same expression where it restricts: in PCRE `$` fits before a last end of a line as well. A dot fits any byte
/// here, which is more.
pub(crate) fn restricting(regex: &str) -> String {
    let (mut out, mut is_escaped, mut in_class, mut has_dot) = (String::new(), false, false, false);
    for character in regex.chars() {
        let is_plain = !is_escaped;
        is_escaped = is_plain && character == '\\';
        match character {
            '[' if is_plain => in_class = true,
            ']' if is_plain => in_class = false,
            '$' if is_plain && !in_class => out.push_str("\\n?"),
            '.' if is_plain && !in_class => has_dot = true,
            _ => {}
        }
        out.push(character);
    }
    let found = if has_dot { format!("(?s){out}") } else { out };
    if Pattern::from_regex(&found).is_ok() { found } else { regex.to_owned() }
}

/// The route by which nothing is there for paths that fit an expression.
pub(super) fn deny_fitting(line: usize, regex: &str) -> Route {
    let keys =
        [("match", format!("{{ regex = {} }}", quoted(&restricting(regex)))), ("priority", DENIED_PRIORITY.to_owned())];
    Route { line, keys: keys.into_iter().chain(denied()).collect() }
}

/// Without what it says of what stands around a place (`(?!x)`, `(?<=x)` and the like): each only narrows what fits.
pub(super) fn without_looks(regex: &str) -> String {
    const LOOKS: [&str; 4] = ["(?!", "(?=", "(?<!", "(?<="];
    let (mut out, mut rest) = (String::new(), regex);
    while let Some(first) = rest.chars().next() {
        if let Some(look) = LOOKS.iter().find(|look| rest.starts_with(**look)) {
            rest = &rest[look.len() + inside(&rest[look.len()..])..];
            // What repeats it would repeat what stands before.
            rest = rest.trim_start_matches(['*', '+', '?']);
        } else if let Some(group) = rest.strip_prefix("(?>") {
            out.push_str("(?:");
            rest = group;
        } else {
            let length =
                if first == '\\' { 1 + rest[1..].chars().next().map_or(0, char::len_utf8) } else { first.len_utf8() };
            out.push_str(&rest[..length]);
            rest = &rest[length..];
        }
    }
    out
}

/// Bytes up to the end of the group that has been opened before.
fn inside(text: &str) -> usize {
    let (mut depth, mut is_escaped, mut in_class) = (1, false, false);
    for (at, character) in text.char_indices() {
        match character {
            _ if is_escaped => {
                is_escaped = false;
                continue;
            }
            '\\' => is_escaped = true,
            '[' => in_class = true,
            ']' => in_class = false,
            '(' if !in_class => depth += 1,
            ')' if !in_class => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_is_compared_as_it_says_with_or_without_a_space() {
        for (text, expected) in [
            ("= /a", ("=", "/a")),
            ("=/a", ("=", "/a")),
            ("^~/a", ("^~", "/a")),
            ("~* x$", ("~*", "x$")),
            ("~*x$", ("~*", "x$")),
            ("~x$", ("~", "x$")),
            ("/a", ("", "/a")),
            ("@a", ("", "@a")),
        ] {
            let found = super::super::syntax::parse(&format!("location {text} {{ }}")).unwrap();
            assert_eq!(spelled(&found[0]), expected, "{text}");
        }
    }

    #[test]
    fn an_expression_that_restricts_fits_before_the_end_of_a_line_as_well() {
        for (regex, expected) in [
            (r"\.php$", r"\.php\n?$"),
            (r"\$[$.]$", r"\$[$.]\n?$"),
            (r"^/a/.*\.php(/|$)", r"(?s)^/a/.*\.php(/|\n?$)"),
            (r"^/a", r"^/a"),
        ] {
            assert_eq!(restricting(regex), expected, "{regex}");
        }
    }

    #[test]
    fn what_looks_around_is_left_out() {
        for (regex, expected) in [
            (r"^/(?!static/).*\.php$", r"^/.*\.php$"),
            (r"^/a(?=(b|[)]c))d", "^/ad"),
            (r"(?<!x)\(?!y\)z)w", r"\(?!y\)z)w"),
            (r"(?>a|b)c", "(?:a|b)c"),
            (r"^/a(?!b", "^/a"),
            (r"\.php$", r"\.php$"),
        ] {
            assert_eq!(without_looks(regex), expected, "{regex}");
        }
    }
}
