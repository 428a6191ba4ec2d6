//! Where tags and texts of HTML are.
//!
//! Owns: [`Tokens`], which divides bytes of HTML into tags, texts and what is neither, each with its range. Guarantees:
//! the ranges follow each other without gaps, from the first byte to the last, whatever the bytes are; it takes linear
//! time. It divides as a browser does in content of HTML: attributes in quotes may hold `>`, what is in scripts and
//! styles is no tag. Does not decode entities, and builds no tree.

use std::ops::Range;

/// A part of HTML.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) range: Range<usize>,
}

/// The kind of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The start of the element of this name, in lower case.
    Start(String),
    /// Its end.
    End(String),
    Text,
    /// The content of an element like `script`, up to its end tag: no HTML.
    Raw,
    /// A comment, a document type, or a tag that never ends.
    Other,
}

/// Elements whose content is no HTML.
const RAW: [&str; 9] = ["script", "style", "title", "textarea", "xmp", "iframe", "noembed", "noframes", "plaintext"];

pub(super) struct Tokens<'a> {
    bytes: &'a [u8],
    at: usize,
    end: usize,
    /// Is in the element `RAW[raw]`.
    raw: Option<usize>,
}

impl<'a> Tokens<'a> {
    /// The tokens of `range`, which begins where no tag is open.
    pub(super) fn new(bytes: &'a [u8], range: Range<usize>) -> Tokens<'a> {
        Tokens { bytes, at: range.start, end: range.end, raw: None }
    }

    fn rest(&self, from: usize) -> &'a [u8] {
        &self.bytes[from.min(self.end)..self.end]
    }

    /// Where the element `name` ends whose content is no HTML.
    fn raw_end(&self, name: &str) -> usize {
        let rest = self.rest(self.at);
        let is_end = |at: &usize| {
            let tag = &rest[at + 1..];
            let behind = tag.get(1 + name.len());
            tag.first() == Some(&b'/')
                && tag.get(1..=name.len()).is_some_and(|found| found.eq_ignore_ascii_case(name.as_bytes()))
                && behind.is_none_or(|byte| byte.is_ascii_whitespace() || matches!(byte, b'>' | b'/'))
        };
        let end = memchr::memchr_iter(b'<', rest).find(is_end).filter(|_| name != "plaintext");
        end.map_or(self.end, |end| self.at + end)
    }

    /// The part that begins at `<`, and where it ends; none if that is text.
    fn markup(&self) -> Option<(Kind, usize)> {
        let rest = self.rest(self.at);
        match rest.get(1)? {
            b'!' | b'?' => Some((Kind::Other, self.at + comment_bytes(rest))),
            b'/' => match rest.get(2)? {
                byte if byte.is_ascii_alphabetic() => Some(self.tag(2, Kind::End)),
                _ => Some((Kind::Other, self.at + up_to(rest, b'>'))),
            },
            byte if byte.is_ascii_alphabetic() => Some(self.tag(1, Kind::Start)),
            _ => None,
        }
    }

    fn tag(&self, name_at: usize, kind: fn(String) -> Kind) -> (Kind, usize) {
        let rest = self.rest(self.at);
        let name = rest[name_at..].split(|byte| byte.is_ascii_whitespace() || matches!(byte, b'>' | b'/')).next();
        let name = String::from_utf8_lossy(name.unwrap_or_default()).to_ascii_lowercase();
        let mut attributes = Attributes { bytes: rest, at: name_at + name_bytes(&rest[name_at..]) };
        attributes.by_ref().for_each(drop);
        match rest.get(attributes.at) {
            Some(b'>') => (kind(name), self.at + attributes.at + 1),
            _ => (Kind::Other, self.end),
        }
    }
}

fn name_bytes(bytes: &[u8]) -> usize {
    let is_end = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b'>' | b'/');
    bytes.iter().position(is_end).unwrap_or(bytes.len())
}

fn up_to(bytes: &[u8], last: u8) -> usize {
    memchr::memchr(last, bytes).map_or(bytes.len(), |at| at + 1)
}

fn comment_bytes(bytes: &[u8]) -> usize {
    if !bytes.starts_with(b"<!--") {
        return up_to(bytes, b'>');
    }
    if bytes.starts_with(b"<!-->") {
        return 5;
    }
    let mut ends = memchr::memchr_iter(b'>', bytes);
    let is_end = |at: &usize| *at > 5 && (bytes[..*at].ends_with(b"--") || bytes[..*at].ends_with(b"--!"));
    ends.find(is_end).map_or(bytes.len(), |at| at + 1)
}

impl Iterator for Tokens<'_> {
    type Item = Token;

    fn next(&mut self) -> Option<Token> {
        if self.at >= self.end {
            return None;
        }
        let from = self.at;
        let (kind, end) = match self.raw.take().map(|raw| self.raw_end(RAW[raw])) {
            Some(end) if end > from => (Kind::Raw, end),
            _ if self.bytes[from] == b'<' => self.markup().unwrap_or((Kind::Text, from + 1)),
            _ => (Kind::Text, from + memchr::memchr(b'<', self.rest(from)).unwrap_or(self.end - from)),
        };
        if let Kind::Start(name) = &kind {
            self.raw = RAW.iter().position(|raw| raw == name);
        }
        self.at = end;
        Some(Token { kind, range: from..end })
    }
}

/// Attributes of a tag: names as they are written, and values without quotes.
pub(super) struct Attributes<'a> {
    bytes: &'a [u8],
    /// The end of the tag at last: `>`, or none.
    at: usize,
}

impl<'a> Attributes<'a> {
    /// Those of the start tag `tag`.
    pub(super) fn of(tag: &'a [u8]) -> Attributes<'a> {
        Attributes { bytes: tag, at: 1 + name_bytes(tag.get(1..).unwrap_or_default()) }
    }

    fn skip(&mut self, is_skipped: impl Fn(u8) -> bool) {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        self.at += rest.iter().position(|byte| !is_skipped(*byte)).unwrap_or(rest.len());
    }
}

/// The value of the attribute `name` of a start tag.
pub(super) fn attribute<'a>(tag: &'a [u8], name: &str) -> Option<&'a [u8]> {
    Attributes::of(tag).find(|(own, _)| own.eq_ignore_ascii_case(name.as_bytes())).map(|(_, value)| value)
}

impl<'a> Iterator for Attributes<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        self.skip(|byte| byte.is_ascii_whitespace() || byte == b'/');
        let from = self.at;
        if matches!(self.bytes.get(from), None | Some(b'>')) {
            return None;
        }
        // A name may begin with `=`.
        self.at += 1;
        self.skip(|byte| !byte.is_ascii_whitespace() && !matches!(byte, b'=' | b'>' | b'/'));
        let name = &self.bytes[from..self.at];
        let behind_name = self.at;
        self.skip(|byte| byte.is_ascii_whitespace());
        if self.bytes.get(self.at) != Some(&b'=') {
            self.at = behind_name;
            return Some((name, b""));
        }
        self.at += 1;
        self.skip(|byte| byte.is_ascii_whitespace());
        match self.bytes.get(self.at) {
            Some(&quote @ (b'"' | b'\'')) => {
                let from = self.at + 1;
                self.at = from;
                self.skip(|byte| byte != quote);
                let value = &self.bytes[from..self.at];
                self.at = (self.at + 1).min(self.bytes.len());
                Some((name, value))
            }
            _ => {
                let from = self.at;
                self.skip(|byte| !byte.is_ascii_whitespace() && byte != b'>');
                Some((name, &self.bytes[from..self.at]))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tokens(html: &str) -> Vec<(Kind, &str)> {
        Tokens::new(html.as_bytes(), 0..html.len()).map(|token| (token.kind, &html[token.range])).collect()
    }

    #[test]
    fn tags_are_found_where_a_browser_finds_them() {
        let found = tokens("<!-- <b> --><P a='>' b>x < y</p><script>'<b>'</scripts></SCRIPT >z<");
        let start = |name: &str| Kind::Start(name.into());
        let end = |name: &str| Kind::End(name.into());
        let expected = [
            (Kind::Other, "<!-- <b> -->"),
            (start("p"), "<P a='>' b>"),
            (Kind::Text, "x "),
            (Kind::Text, "<"),
            (Kind::Text, " y"),
            (end("p"), "</p>"),
            (start("script"), "<script>"),
            (Kind::Raw, "'<b>'</scripts>"),
            (end("script"), "</SCRIPT >"),
            (Kind::Text, "z"),
            (Kind::Text, "<"),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn attributes_are_read_with_and_without_quotes() {
        let tag = b"<h2 class=\"a > b\" ID = 'one' x=y/ checked>";
        assert_eq!(attribute(tag, "id"), Some(&b"one"[..]));
        assert_eq!(attribute(tag, "class"), Some(&b"a > b"[..]));
        assert_eq!(attribute(tag, "x"), Some(&b"y/"[..]));
        assert_eq!(attribute(tag, "checked"), Some(&b""[..]));
        assert_eq!(attribute(tag, "y"), None);
    }

    proptest! {
        #[test]
        fn tokens_follow_each_other_without_gaps(html in "[<>/!a\"'= \\-]{0,40}|(<script>|</script|<!--|-->|<h1 id='|'>|x){0,20}") {
            let mut at = 0;
            for token in Tokens::new(html.as_bytes(), 0..html.len()) {
                prop_assert!(token.range.start == at && token.range.end > at);
                at = token.range.end;
            }
            prop_assert_eq!(at, html.len());
        }
    }
}
