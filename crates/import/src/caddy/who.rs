//! The subjects of matchers of Caddy that routes cannot say: they decide what may not be served without them.
//!
//! Owns: [`about`]. Guarantees: one that may ask who the client is, is one that does; what is not known does. Pure.

use super::syntax::Line;

/// The known subjects of a matcher.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct About {
    /// It may ask who the client is, and not only for which address it asks.
    pub(super) asks_who: bool,
    /// Where there is a file, it does not fit, or leads to that file.
    pub(super) leaves_files: bool,
}

/// Matchers that look at the address, and at what is there.
const PLAIN: [&str; 6] = ["path", "path_regexp", "host", "method", "protocol", "file"];

/// Functions and placeholders of expressions that look at the same.
const PLAIN_CALLS: [&str; 10] =
    ["path", "path_regexp", "host", "method", "protocol", "file", "startsWith", "endsWith", "contains", "matches"];
const PLAIN_PLACEHOLDERS: [&str; 12] = [
    "host",
    "path",
    "uri",
    "scheme",
    "method",
    "query",
    "http.request.host",
    "http.request.uri",
    "http.request.uri.path",
    "http.request.scheme",
    "http.request.method",
    "http.request.proto",
];

/// Reads `@name …`, or the lines of its block.
pub(super) fn about(line: &Line) -> About {
    let is_block = line.words.len() <= 1;
    let own = [(&line.words[line.words.len().min(1)..], line.block.as_deref())];
    let inner = line.block.iter().flatten().map(|one| (&one.words[..], one.block.as_deref()));
    let parts: Vec<_> = if is_block { inner.collect() } else { own.into_iter().collect() };
    About {
        asks_who: parts.iter().any(|(words, block)| asks_who(words, *block)),
        leaves_files: parts.iter().any(|(words, block)| leaves_files(words, *block)),
    }
}

fn asks_who(words: &[String], block: Option<&[Line]>) -> bool {
    match words.split_first() {
        Some((kind, rest)) if kind == "not" => {
            // A parameter that has to be there is one that not everybody knows.
            let is_query = |words: &[String]| words.first().is_some_and(|kind| kind == "query");
            let within = block.iter().copied().flatten().any(|one| is_query(&one.words) || asks_who(&one.words, None));
            within || is_query(rest) || !rest.is_empty() && asks_who(rest, None)
        }
        Some((kind, rest)) if kind == "expression" => is_about_client(&rest.join(" ")),
        Some((kind, rest)) if rest.is_empty() && kind.contains(['{', '(']) => is_about_client(kind),
        // What a client understands, not who it is.
        Some((kind, rest)) if kind == "header" => {
            !rest.first().is_some_and(|field| field.to_ascii_lowercase().starts_with("accept"))
        }
        Some((kind, _)) => !PLAIN.contains(&&**kind) && kind != "query",
        None => false,
    }
}

/// Whether an expression may look at something else than the address.
fn is_about_client(expression: &str) -> bool {
    let mut placeholders = expression.split('{').skip(1).filter_map(|rest| rest.split_once('}')).map(|(name, _)| name);
    let is_plain = |name: &str| PLAIN_PLACEHOLDERS.contains(&name) || name.starts_with("file.");
    let called = |before: &str| {
        let start = before.rfind(|one: char| !one.is_ascii_alphanumeric() && one != '_').map_or(0, |at| at + 1);
        before[start..].to_owned()
    };
    let mut calls =
        expression.match_indices('(').map(|(at, _)| called(&expression[..at])).filter(|name| !name.is_empty());
    !placeholders.all(is_plain) || !calls.all(|name| PLAIN_CALLS.contains(&&*name)) || expression.contains("query")
}

/// Whether it is `not file`, of the path itself, or `file` that looks for the path itself first.
fn leaves_files(words: &[String], block: Option<&[Line]>) -> bool {
    let first_is_path = |files: &[String]| files.first().is_some_and(|first| first == "{path}");
    let is_file = |words: &[String]| {
        words.split_first().is_some_and(|(kind, files)| kind == "file" && (files.is_empty() || first_is_path(files)))
    };
    match (words.split_first(), block) {
        (Some((kind, rest)), None) if kind == "not" => is_file(rest),
        (Some((kind, _)), Some([only])) if kind == "not" => is_file(&only.words) && only.block.is_none(),
        (Some((kind, files)), None) if kind == "file" => first_is_path(files),
        (Some((kind, _)), Some(lines)) if kind == "file" => {
            let tries = |line: &&Line| line.word(0) == "try_files";
            lines.iter().find(tries).is_some_and(|line| first_is_path(&line.words[1..]))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::syntax::parse;
    use super::*;

    #[test]
    fn what_is_not_known_to_look_at_the_address_alone_asks_who_the_client_is() {
        for (text, who, leaves) in [
            ("@a path /a", false, false),
            ("@a not file", false, true),
            ("@a {\nnot file {path} {path}/\npath /a\n}", false, true),
            ("@a {\nnot {\nfile\npath /a\n}\n}", false, false),
            ("@a not file /x", false, false),
            ("@a file {path} /index.php", false, true),
            ("@a {\nfile {\ntry_files {path} /a.html\n}\n}", false, true),
            ("@a file /a.html {path}", false, false),
            ("@a {\nheader Accept *webp*\nfile {path}.webp\n}", false, false),
            ("@a query a=1", false, false),
            ("@a not query a=1", true, false),
            ("@a header X-A b", true, false),
            ("@a {\npath /a\nnot remote_ip 10.0.0.0/8\n}", true, false),
            ("@a expression {host}.startsWith('www.')", false, false),
            ("@a expression {host} == 'a' && {http.request.cookie.x} == 'a'", true, false),
            ("@a expression `remote_ip('10.0.0.0/8')`", true, false),
            ("@a `path('/a')`", false, false),
            ("@a odd", true, false),
        ] {
            let found = about(&parse(text).unwrap()[0]);
            assert_eq!(found, About { asks_who: who, leaves_files: leaves }, "{text}");
        }
    }
}
