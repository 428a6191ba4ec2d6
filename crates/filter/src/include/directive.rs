//! Directives of server-side includes, as they stand in a text: `<!--#name attribute="value" -->`.
//!
//! Owns: where they begin and end, their attributes, and conditions. Guarantees: every byte of a text is either between
//! two directives or in one; what is no directive that there is, is said to be wrong and nothing else. Knows no files.

use memchr::memmem;

/// A directive that is longer is wrong.
const DIRECTIVE_BYTES_MAX: usize = 4096;

/// A piece of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    /// It is as it is.
    Text(&'a [u8]),
    /// A directive.
    Directive(Directive),
}

/// A directive that there is. Values may name variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Directive {
    /// The content of another file: at this path of the site, which may be relative.
    IncludePath(String),
    /// The same: a name in the directory of the file or beneath it.
    IncludeFile(String),
    /// A variable has this value from now on.
    Set(String, String),
    /// The value of a variable.
    Echo(String, Encoding),
    /// The text behind it is for when this holds.
    If(String),
    /// The text behind it is for when this holds, and no condition before it did.
    Elif(String),
    /// The text behind it is for when no condition before it held.
    Else,
    /// The text behind it is there in any case.
    Endif,
    /// Sets the text shown in place of a failed directive.
    Error(String),
    /// It is none that there is.
    Wrong,
}

/// How a value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    /// As it is.
    None,
    /// As text of HTML.
    Entity,
    /// As a part of a URL.
    Url,
}

const BEGIN: &[u8] = b"<!--#";
const END: &[u8] = b"-->";

/// The pieces of `text`, in order.
pub(super) fn pieces(text: &[u8]) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let begin = memmem::find(rest, BEGIN).unwrap_or(rest.len());
        if rest.is_empty() {
            return None;
        }
        if begin > 0 {
            let (before, behind) = rest.split_at(begin);
            rest = behind;
            return Some(Piece::Text(before));
        }
        let inside = &rest[BEGIN.len()..];
        let Some(end) = end_of(inside) else {
            // It never ends: there is nothing that it could be but text.
            return Some(Piece::Text(std::mem::take(&mut rest)));
        };
        rest = &inside[end + END.len()..];
        let inside = &inside[..end];
        let inside = std::str::from_utf8(inside).ok().filter(|inside| inside.len() <= DIRECTIVE_BYTES_MAX);
        let directive = inside.and_then(parse);
        Some(Piece::Directive(directive.unwrap_or(Directive::Wrong)))
    })
}

/// Where the end of a directive begins, which is not between quotes. A quote that nothing closes is none.
fn end_of(inside: &[u8]) -> Option<usize> {
    let mut quote = None;
    for (at, &byte) in inside.iter().enumerate().take(DIRECTIVE_BYTES_MAX) {
        match quote {
            Some(open) if byte == open => quote = None,
            Some(_) => {}
            None if matches!(byte, b'"' | b'\'') => quote = Some(byte),
            None if inside[at..].starts_with(END) => return Some(at),
            None => {}
        }
    }
    memmem::find(inside, END)
}

/// Parses the text between `<!--#` and `-->`; none if it is no directive.
fn parse(inside: &str) -> Option<Directive> {
    let inside = inside.trim();
    let (name, rest) = inside.split_at(inside.find(|c: char| c.is_ascii_whitespace()).unwrap_or(inside.len()));
    let attributes = attributes(rest)?;
    let only = |wanted: &str| match &attributes[..] {
        [(name, value)] if name == wanted => Some(value.clone()),
        _ => None,
    };
    let two = |one: &str, other: &str| match &attributes[..] {
        [(first, value), (second, further)] if first == one && second == other => {
            Some((value.clone(), further.clone()))
        }
        _ => None,
    };
    match name {
        "include" => only("virtual").map(Directive::IncludePath).or_else(|| only("file").map(Directive::IncludeFile)),
        "set" => two("var", "value").map(|(name, value)| Directive::Set(name, value)),
        "echo" => echo(&attributes),
        "if" => only("expr").map(Directive::If),
        "elif" => only("expr").map(Directive::Elif),
        "else" => attributes.is_empty().then_some(Directive::Else),
        "endif" => attributes.is_empty().then_some(Directive::Endif),
        "config" => only("errmsg").map(Directive::Error),
        _ => None,
    }
}

fn echo(attributes: &[(String, String)]) -> Option<Directive> {
    let mut encoding = Encoding::Entity;
    let mut variable = None;
    for (name, value) in attributes {
        match (&**name, &**value) {
            ("var", name) => variable = Some(name.to_owned()),
            ("encoding", "none") => encoding = Encoding::None,
            ("encoding", "entity") => encoding = Encoding::Entity,
            ("encoding", "url") => encoding = Encoding::Url,
            _ => return None,
        }
    }
    Some(Directive::Echo(variable?, encoding))
}

/// `name="value"`, any number of times; none if it is something else.
fn attributes(mut rest: &str) -> Option<Vec<(String, String)>> {
    let mut attributes = Vec::new();
    loop {
        rest = rest.trim_start();
        if rest.is_empty() {
            return Some(attributes);
        }
        let (name, behind) = rest.split_once('=')?;
        let name = name.trim_end();
        let behind = behind.trim_start();
        let quote = behind.chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
        let (value, behind) = behind[1..].split_once(quote)?;
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return None;
        }
        attributes.push((name.to_owned(), value.to_owned()));
        rest = behind;
    }
}

/// A condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    /// The text is not empty.
    IsSet(String),
    /// Both are the same, or are not.
    Compare(String, bool, String),
    /// The other does not hold.
    Not(Box<Condition>),
}

/// Characters that have a meaning to other servers which is not known here.
const OPERATORS: [char; 8] = ['=', '!', '<', '>', '&', '|', '(', ')'];

/// `text`, `text = text`, `text != text`, or one of these behind `!`; none if it is something else.
pub(super) fn condition(text: &str) -> Option<Condition> {
    let text = text.trim();
    for (operator, is_equal) in [("!=", false), ("==", true), ("=", true)] {
        let Some((left, right)) = text.split_once(operator) else { continue };
        let (left, right) = (unquoted(left), unquoted(right));
        let is_known = !left.is_empty() && is_plain(left) && is_plain(right);
        return is_known.then(|| Condition::Compare(left.to_owned(), is_equal, right.to_owned()));
    }
    if let Some(rest) = text.strip_prefix('!') {
        // Once: no page needs it twice, and what a text can nest has to be bounded.
        let rest = unquoted(rest);
        return is_plain(rest).then(|| Condition::Not(Box::new(Condition::IsSet(rest.to_owned()))));
    }
    let text = unquoted(text);
    (!text.is_empty() && is_plain(text)).then(|| Condition::IsSet(text.to_owned()))
}

/// A text may have slashes, but not be a regular expression, which stands between two.
fn is_plain(text: &str) -> bool {
    let is_expression = text.len() > 1 && text.starts_with('/') && text.ends_with('/');
    !is_expression && !text.contains(OPERATORS)
}

fn unquoted(text: &str) -> &str {
    let text = text.trim();
    ['\'', '"'].iter().find_map(|quote| text.strip_prefix(*quote)?.strip_suffix(*quote)).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn directives_are_found_and_everything_else_is_text() {
        let text = br#"a<!-- b --><!--#include virtual="/c.html" -->d<!--#else--><!--#echo var='x' encoding="none" -->e<!--#open"#;
        let found: Vec<_> = pieces(text).collect();
        assert_eq!(
            found,
            [
                Piece::Text(b"a<!-- b -->"),
                Piece::Directive(Directive::IncludePath("/c.html".into())),
                Piece::Text(b"d"),
                Piece::Directive(Directive::Else),
                Piece::Directive(Directive::Echo("x".into(), Encoding::None)),
                Piece::Text(b"e"),
                Piece::Text(b"<!--#open"),
            ]
        );
    }

    #[test]
    fn an_end_between_quotes_is_none_unless_the_quote_never_ends() {
        let set = Directive::Set("a".into(), "-->".into());
        assert_eq!(pieces(br#"<!--#set var="a" value="-->" -->"#).collect::<Vec<_>>(), [Piece::Directive(set)]);
        let found: Vec<_> = pieces(b"<!--#echo var=\"a -->b").collect();
        assert_eq!(found, [Piece::Directive(Directive::Wrong), Piece::Text(b"b")]);
    }

    #[test]
    fn what_is_no_directive_that_there_is_is_wrong() {
        for inside in [
            "",
            " ",
            "exec cmd=\"ls\"",
            "exec cgi=\"/a\"",
            "include",
            "include virtual=\"a\" file=\"b\"",
            "include virtual=a",
            "echo",
            "echo var=\"a\" encoding=\"rot13\"",
            "else a=\"b\"",
            "set var=\"a\"",
            "if",
            "fsize file=\"a\"",
            "include ?=\"a\"",
        ] {
            let text = format!("<!--#{inside} -->");
            assert_eq!(pieces(text.as_bytes()).collect::<Vec<_>>(), [Piece::Directive(Directive::Wrong)], "{inside}");
        }
        let long = format!("<!--#set var=\"a\" value=\"{}\" -->b", "x".repeat(DIRECTIVE_BYTES_MAX));
        assert_eq!(
            pieces(long.as_bytes()).collect::<Vec<_>>(),
            [Piece::Directive(Directive::Wrong), Piece::Text(b"b")]
        );
    }

    #[test]
    fn text_of_any_charset_stays_as_it_is() {
        let found: Vec<_> = pieces(b"\xe4<!--#else -->\xff<!--#set var=\"\xe4\" value=\"\" -->").collect();
        let directives = [Piece::Directive(Directive::Else), Piece::Directive(Directive::Wrong)];
        let [other, wrong] = directives;
        assert_eq!(found, [Piece::Text(b"\xe4"), other, Piece::Text(b"\xff"), wrong]);
    }

    #[test]
    fn conditions_compare_texts_and_nothing_else() {
        let compare = |left: &str, is_equal, right: &str| Some(Condition::Compare(left.into(), is_equal, right.into()));
        assert_eq!(condition("$a = b"), compare("$a", true, "b"));
        assert_eq!(condition(" '$a'=='b c' "), compare("$a", true, "b c"));
        assert_eq!(condition("$a != /b/c.html"), compare("$a", false, "/b/c.html"));
        assert_eq!(condition("$a = ''"), compare("$a", true, ""));
        assert_eq!(condition("${a}"), Some(Condition::IsSet("${a}".into())));
        assert_eq!(condition("!$a"), Some(Condition::Not(Box::new(Condition::IsSet("$a".into())))));
        for text in ["", "!!$a", "$a = /b/", "$a && $b", "($a)", "= b", "$a < b", "$a = b = c"] {
            assert_eq!(condition(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_comes_back_but_for_its_directives(text in "[<!#a-e=\" >-]{0,60}|(<!--#[a-e=\"' ]{0,9}-->|[ab<>-]{0,4}){0,6}") {
            let mut texts = 0;
            for piece in pieces(text.as_bytes()) {
                if let Piece::Text(piece) = piece {
                    prop_assert!(!piece.is_empty() && memmem::find(text.as_bytes(), piece).is_some());
                    texts += piece.len();
                }
            }
            prop_assert!(texts <= text.len());
            let _ = condition(&text);
        }
    }
}
