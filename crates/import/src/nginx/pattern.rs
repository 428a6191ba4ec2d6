//! Expressions of nginx that cannot be read here, without what makes them so.
//!
//! Owns: [`without_looks`]. Guarantees: what fits an expression fits the one that comes of it as well, and more may. Pure.

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
