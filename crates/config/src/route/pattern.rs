//! Patterns of paths: an exact path, a prefix, a glob or a regular expression, and how specific each is.
//!
//! Owns: the syntax of globs, their translation to regular expressions, and [`Specificity`]. Pure. Patterns are
//! compared with decoded and normalised paths, byte by byte: `.` and `\d` know ASCII only, so that their automata stay
//! small.

use regex::bytes::{Regex, RegexBuilder};

/// A pattern that paths are compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// This path and no other.
    Exact(String),
    /// Every path that begins with this, itself included. Written with `*` at the end, which is capture 1.
    Prefix(String),
    /// A text with `*` (anything but a slash; anything at all at its beginning and its end) and `**` (anything at all).
    Glob(String),
    /// A regular expression, found anywhere in the path unless it is anchored.
    Regex(String),
}

/// How much a pattern says about the paths that it matches. The greater is looked at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Specificity {
    /// One path only.
    is_exact: bool,
    /// Bytes before the first wildcard.
    prefix: usize,
    /// Bytes that are no wildcards.
    literals: usize,
}

/// Patterns that one text with braces may stand for.
const ALTERNATIVES_MAX: usize = 64;

/// The most memory that one regular expression may take.
const REGEX_BYTES_MAX: usize = 1 << 20;

impl Pattern {
    /// The patterns that a text stands for: several if it has braces, as in `*.{css,js}`.
    ///
    /// # Errors
    /// The fault of the text, as words that follow it.
    pub fn from_glob(text: &str) -> Result<Vec<Pattern>, String> {
        if !text.starts_with(['/', '*']) {
            return Err("must start with `/` or `*`: it is compared with the path".into());
        }
        if text.contains('?') {
            return Err("has a `?`: a path has no query, which is compared by `query = { ... }`".into());
        }
        if has_escape(text) {
            return Err(
                "has a percent-encoded byte: it is compared with the decoded path, so write the byte itself".into()
            );
        }
        let mut texts = vec![String::new()];
        expand(text, &mut texts)?;
        texts.into_iter().map(|text| Pattern::of_plain(&text)).collect()
    }

    /// Without braces.
    fn of_plain(text: &str) -> Result<Pattern, String> {
        let odd = ["//", "/./", "/../"].iter().find(|part| text.contains(**part));
        if odd.is_some() || text.ends_with("/.") || text.ends_with("/..") {
            return Err("never fits: it is compared with the path without `//`, `.` and `..` in it".into());
        }
        Ok(match text.find('*') {
            None => Pattern::Exact(text.to_owned()),
            Some(0) if text.bytes().all(|byte| byte == b'*') => Pattern::Prefix("/".to_owned()),
            Some(at) if at > 0 && text[at..].bytes().all(|byte| byte == b'*') => Pattern::Prefix(text[..at].to_owned()),
            Some(_) => Pattern::Glob(text.to_owned()),
        })
    }

    /// A regular expression that can be compiled.
    ///
    /// # Errors
    /// The fault of the expression.
    pub fn from_regex(text: &str) -> Result<Pattern, String> {
        compile(text)?;
        Ok(Pattern::Regex(text.to_owned()))
    }

    /// As it is written.
    pub fn text(&self) -> String {
        match self {
            Pattern::Exact(text) | Pattern::Glob(text) | Pattern::Regex(text) => text.clone(),
            Pattern::Prefix(text) => format!("{text}*"),
        }
    }

    /// Whether it is a regular expression.
    pub fn is_regex(&self) -> bool {
        matches!(self, Pattern::Regex(_))
    }

    /// The regular expression that matches what it matches, with the same captures.
    pub fn to_regex(&self) -> String {
        match self {
            Pattern::Exact(text) => format!("\\A{}\\z", regex::escape(text)),
            Pattern::Prefix(text) => format!("(?s)\\A{}(.*)\\z", regex::escape(text)),
            Pattern::Glob(text) => glob_to_regex(text),
            Pattern::Regex(text) => text.clone(),
        }
    }

    /// How many captures it has, and the names of those that have one.
    pub fn captures(&self) -> (usize, Vec<String>) {
        match self {
            Pattern::Exact(_) => (0, Vec::new()),
            Pattern::Prefix(_) => (1, Vec::new()),
            Pattern::Glob(_) | Pattern::Regex(_) => match compile(&self.to_regex()) {
                Ok(regex) => (regex.captures_len() - 1, regex.capture_names().flatten().map(str::to_owned).collect()),
                Err(_) => (0, Vec::new()),
            },
        }
    }

    /// The beginning of every path that it matches: a slash at least.
    pub fn prefix(&self) -> String {
        let prefix = match self {
            Pattern::Exact(text) | Pattern::Prefix(text) => text.clone(),
            Pattern::Glob(text) => text[..text.find('*').unwrap_or(text.len())].to_owned(),
            Pattern::Regex(text) => regex_prefix(text),
        };
        if prefix.is_empty() { "/".to_owned() } else { prefix }
    }

    /// The suffix of every path that it matches.
    fn suffix(&self) -> &str {
        match self {
            Pattern::Exact(text) => text,
            Pattern::Glob(text) => &text[text.rfind('*').map_or(0, |at| at + 1)..],
            Pattern::Prefix(_) | Pattern::Regex(_) => "",
        }
    }

    /// How much it says.
    pub fn specificity(&self) -> Specificity {
        let prefix = self.prefix().len();
        match self {
            Pattern::Exact(text) => Specificity { is_exact: true, prefix, literals: text.len() },
            Pattern::Glob(text) => {
                let literals = text.bytes().filter(|byte| *byte != b'*').count();
                Specificity { is_exact: false, prefix, literals }
            }
            Pattern::Prefix(_) => Specificity { is_exact: false, prefix, literals: prefix },
            // It says more than what it begins with, whatever that is.
            Pattern::Regex(_) => Specificity { is_exact: false, prefix, literals: prefix + 1 },
        }
    }

    /// Whether it is plain that no path matches both.
    pub fn is_apart_from(&self, other: &Pattern) -> bool {
        let (one, two) = (self.prefix(), other.prefix());
        let exact = |pattern: &Pattern| matches!(pattern, Pattern::Exact(_));
        if exact(self) && exact(other) {
            return one != two;
        }
        let shares_beginning = match (exact(self), exact(other)) {
            (true, _) => one.starts_with(&two),
            (_, true) => two.starts_with(&one),
            _ => one.starts_with(&two) || two.starts_with(&one),
        };
        let (one, two) = (self.suffix(), other.suffix());
        let shares_end = one.ends_with(two) || two.ends_with(one);
        !shares_beginning || !shares_end
    }

    /// A path that it matches, as far as that is plain. Stars stand for themselves, so that no other pattern matches by
    /// chance.
    pub fn sample(&self) -> String {
        let text = match self {
            Pattern::Exact(text) => return text.clone(),
            Pattern::Prefix(text) => format!("{text}*"),
            Pattern::Glob(text) => text.clone(),
            Pattern::Regex(text) => format!("{}*", regex_prefix(text)),
        };
        if text.starts_with('/') { text } else { format!("/{text}") }
    }
}

/// A regular expression over bytes.
///
/// # Errors
/// The fault of the expression, on one line.
pub fn compile(text: &str) -> Result<Regex, String> {
    RegexBuilder::new(text).unicode(false).size_limit(REGEX_BYTES_MAX).build().map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => "is too large: repetitions in it multiply".to_owned(),
        other => {
            // The last line says what is wrong; those before it draw the place.
            let words = other.to_string();
            let last = words.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
            format!("is no regular expression: {last}")
        }
    })
}

/// Whether there is a percent sign with two hexadecimal digits.
pub(crate) fn has_escape(text: &str) -> bool {
    let is_escape = |three: &[u8]| three[0] == b'%' && three[1..].iter().all(u8::is_ascii_hexdigit);
    text.as_bytes().windows(3).any(is_escape)
}

/// Writes what `text` stands for behind each of `texts`.
fn expand(text: &str, texts: &mut Vec<String>) -> Result<(), String> {
    let mut rest = text;
    while let Some(open) = rest.find(['{', '}']) {
        let (before, at) = rest.split_at(open);
        let close = at.find('}').filter(|close| at.starts_with('{') && !at[1..*close].contains('{'));
        let close = close.ok_or("has a brace without its other half, or braces within braces")?;
        let alternatives: Vec<&str> = at[1..close].split(',').collect();
        if texts.len() * alternatives.len() > ALTERNATIVES_MAX {
            return Err(format!("stands for more than {ALTERNATIVES_MAX} patterns"));
        }
        let longer =
            |start: &String| alternatives.iter().map(|one| format!("{start}{before}{one}")).collect::<Vec<_>>();
        *texts = texts.iter().flat_map(longer).collect();
        rest = &at[close + 1..];
    }
    texts.iter_mut().for_each(|start| start.push_str(rest));
    Ok(())
}

fn glob_to_regex(text: &str) -> String {
    let mut regex = "(?s)\\A".to_owned();
    let mut rest = text;
    while let Some(at) = rest.find('*') {
        regex.push_str(&regex::escape(&rest[..at]));
        let is_first = rest.len() == text.len() && at == 0;
        let stars = rest[at..].bytes().take_while(|byte| *byte == b'*').count();
        rest = &rest[at + stars..];
        regex.push_str(if stars > 1 || is_first || rest.is_empty() { "(.*)" } else { "([^/]*)" });
    }
    regex.push_str(&regex::escape(rest));
    regex.push_str("\\z");
    regex
}

/// The literal text that a regular expression begins with, if it is anchored; less than there is where that is not
/// plain.
fn regex_prefix(text: &str) -> String {
    let Some(rest) = text.strip_prefix('^').or_else(|| text.strip_prefix("\\A")) else { return String::new() };
    if text.contains('|') {
        return String::new();
    }
    let mut prefix = String::new();
    let mut characters = rest.chars().peekable();
    while let Some(character) = characters.next() {
        let literal = match character {
            '\\' => match characters.next() {
                Some(escaped) if escaped.is_ascii_punctuation() => escaped,
                _ => break,
            },
            '.' | '[' | '(' | ')' | '$' | '^' | '?' | '*' | '+' | '{' => break,
            other => other,
        };
        if matches!(characters.peek(), Some('?' | '*' | '+' | '{')) {
            break;
        }
        prefix.push(literal);
    }
    prefix
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn one(text: &str) -> Pattern {
        let mut patterns = Pattern::from_glob(text).unwrap();
        assert_eq!(patterns.len(), 1, "{text}");
        patterns.remove(0)
    }

    fn fits(pattern: &Pattern, path: &str) -> bool {
        compile(&pattern.to_regex()).unwrap().is_match(path.as_bytes())
    }

    #[test]
    fn a_star_crosses_slashes_at_the_beginning_and_the_end_only_and_two_stars_everywhere() {
        for (text, yes, no) in [
            ("/a", &["/a"][..], &["/a/", "/ab"][..]),
            ("/a/*", &["/a/", "/a/b/c"], &["/a"]),
            ("*.css", &["/x.css", "/a/b.css"], &["/x.css/"]),
            ("/a/*.js", &["/a/x.js", "/a/.js"], &["/a/b/x.js"]),
            ("/a/**.js", &["/a/x.js", "/a/b/x.js"], &["/b/x.js"]),
            ("/*/img/*", &["/de/img/a/b"], &["/de/x/img/a"]),
            ("*", &["/", "/a/b"], &[]),
        ] {
            let pattern = one(text);
            assert!(yes.iter().all(|path| fits(&pattern, path)), "{text}");
            assert!(!no.iter().any(|path| fits(&pattern, path)), "{text}");
        }
    }

    #[test]
    fn braces_are_alternatives() {
        let patterns = Pattern::from_glob("/{a,b}/*.{css,js}").unwrap();
        let texts: Vec<String> = patterns.iter().map(Pattern::text).collect();
        assert_eq!(texts, ["/a/*.css", "/a/*.js", "/b/*.css", "/b/*.js"]);
        for text in ["/{a", "/a}", "/{a,{b,c}}", "/{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}"] {
            assert!(Pattern::from_glob(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_can_never_fit_is_refused() {
        for text in ["a", "/a?b=c", "/a%20b", "/a//b", "/a/../b", "/a/."] {
            assert!(Pattern::from_glob(text).is_err(), "{text}");
        }
        assert!(Pattern::from_regex("(").unwrap_err().contains("unclosed group"));
        assert!(Pattern::from_regex("(a{100}){100}{100}").unwrap_err().contains("too large"));
    }

    #[test]
    fn the_longer_beginning_is_more_specific_and_an_exact_path_most() {
        let regex = |text: &str| Pattern::from_regex(text).unwrap();
        let in_order = [
            one("/a"),
            one("/assets/css/*"),
            one("/assets/*.css"),
            regex("^/assets/[a-z]"),
            one("/assets/*"),
            regex("^/as[sx]ets"),
            one("*.css"),
            regex("css$"),
            one("/*"),
        ];
        // That a path begins with a slash says nothing.
        assert_eq!(one("*").specificity(), one("/*").specificity());
        assert!(in_order.windows(2).all(|pair| pair[0].specificity() > pair[1].specificity()));
    }

    #[test]
    fn one_path_is_apart_from_what_begins_with_more() {
        let regex = Pattern::from_regex("^/api/").unwrap();
        for (path, other, apart) in [
            ("/api", one("/api/*"), true),
            ("/api", regex, true),
            ("/api", one("/ap*"), false),
            ("/api", one("*"), false),
        ] {
            let path = one(path);
            assert_eq!((path.is_apart_from(&other), other.is_apart_from(&path)), (apart, apart), "{other:?}");
        }
    }

    #[test]
    fn the_beginning_of_a_regular_expression_is_what_every_match_has() {
        for (text, prefix) in [
            ("^/users/(?<id>[0-9]+)$", "/users/"),
            ("^/a\\.b/c?d", "/a.b/"),
            ("^/a|^/b", "/"),
            ("/a", "/"),
            ("^/ab*", "/a"),
            ("\\A/x\\d", "/x"),
            ("(?i)^/a", "/"),
        ] {
            assert_eq!(Pattern::from_regex(text).unwrap().prefix(), prefix, "{text}");
        }
    }

    proptest! {
        #[test]
        fn patterns_that_are_called_apart_have_no_path_in_common(
            texts in proptest::collection::vec("/[ab]{0,2}[*]{0,2}[ab]{0,2}", 2), path in "/[ab/]{0,5}",
        ) {
            let [one, two] = [&texts[0], &texts[1]].map(|text| Pattern::from_glob(text));
            let (Ok(one), Ok(two)) = (one, two) else { return Ok(()) };
            let both = fits(&one[0], &path) && fits(&two[0], &path);
            prop_assert!(!both || !one[0].is_apart_from(&two[0]));
        }

        #[test]
        fn every_match_has_the_prefix(text in "[\\^]?[/ab.]{0,3}[?*+|]?[ab()]{0,2}", path in "/[ab/]{0,6}") {
            if let Ok(pattern) = Pattern::from_regex(&text) {
                prop_assert!(!fits(&pattern, &path) || path.starts_with(&pattern.prefix()), "{}", pattern.prefix());
            }
        }

        #[test]
        fn a_sample_of_a_glob_is_matched_by_it(text in "[/*][a-c*/]{0,8}") {
            for pattern in Pattern::from_glob(&text).unwrap_or_default() {
                prop_assert!(fits(&pattern, &pattern.sample()), "{}", pattern.sample());
            }
        }
    }
}
