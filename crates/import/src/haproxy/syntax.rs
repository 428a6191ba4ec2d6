//! The syntax of HAProxy: words, quotes, comments, lines and sections.
//!
//! Owns: [`parse`]. Knows no keyword but those that begin a section.

use crate::Note;
use crate::audit::Tree;

/// A line, and for a section those within it.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) line: usize,
    pub(super) words: Vec<String>,
    pub(super) inner: Option<Vec<Line>>,
}

impl Tree for Line {
    fn place(&self) -> (usize, String) {
        (self.line, self.text())
    }

    fn arguments(&mut self) -> &mut [String] {
        self.words.get_mut(1..).unwrap_or_default()
    }

    fn inner(&mut self) -> Option<&mut Vec<Line>> {
        self.inner.as_mut()
    }
}

impl Line {
    /// As it is written, without those within it.
    pub(super) fn text(&self) -> String {
        self.words.join(" ")
    }

    /// A word; empty if there are fewer.
    pub(super) fn word(&self, at: usize) -> &str {
        self.words.get(at).map_or("", String::as_str)
    }

    /// Those within a section.
    pub(super) fn lines(&self) -> &[Line] {
        self.inner.as_deref().unwrap_or_default()
    }
}

/// Words that begin a section.
const SECTIONS: [&str; 18] = [
    "global",
    "defaults",
    "frontend",
    "backend",
    "listen",
    "userlist",
    "peers",
    "resolvers",
    "mailers",
    "cache",
    "program",
    "ring",
    "http-errors",
    "fcgi-app",
    "log-forward",
    "traces",
    "crt-store",
    "log-profile",
];

/// The sections of a text.
///
/// # Errors
/// Where it is not what HAProxy reads, and why.
pub(super) fn parse(text: &str) -> Result<Vec<Line>, Note> {
    let mut sections: Vec<Line> = Vec::new();
    for (at, one) in text.lines().enumerate() {
        let words = words(one).map_err(|why| Note::new(at + 1, why))?;
        let Some(first) = words.first() else { continue };
        if matches!(&**first, ".if" | ".elif" | ".else" | ".endif") {
            return Err(Note::new(
                at + 1,
                format!("`{first}`: which of the lines apply is not known here: leave one set of them"),
            ));
        }
        if SECTIONS.contains(&&**first) {
            sections.push(Line { line: at + 1, words, inner: Some(Vec::new()) });
            continue;
        }
        let line = Line { line: at + 1, words, inner: None };
        match sections.last_mut().and_then(|section| section.inner.as_mut()) {
            Some(inner) => inner.push(line),
            None if line.word(0).starts_with('.') => {}
            None => return Err(Note::new(at + 1, format!("`{}` stands in no section", line.text()))),
        }
    }
    Ok(sections)
}

/// The words of a line.
fn words(line: &str) -> Result<Vec<String>, &'static str> {
    let (mut words, mut word) = (Vec::new(), None::<String>);
    let mut rest = line.chars();
    let mut quote = None;
    while let Some(one) = rest.next() {
        match (quote, one) {
            (Some(end), one) if one == end => quote = None,
            (None, '"' | '\'') => {
                quote = Some(one);
                word.get_or_insert_default();
            }
            (None, '#') => break,
            (None, ' ' | '\t' | '\r') => words.extend(word.take()),
            (None | Some('"'), '\\') => {
                let next = rest.next();
                let text = word.get_or_insert_default();
                match next {
                    // Before other signs it is one of an expression.
                    Some(next @ (' ' | '#' | '\\' | '"' | '\'' | '$')) => text.push(next),
                    Some('n') if quote.is_none() => text.push('\n'),
                    Some('r') if quote.is_none() => text.push('\r'),
                    Some('t') if quote.is_none() => text.push('\t'),
                    Some(next) => text.extend(['\\', next]),
                    None => return Err("a line ends with `\\`"),
                }
            }
            (_, one) => word.get_or_insert_default().push(one),
        }
    }
    if quote.is_some() {
        return Err("a quote has no end");
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_told_apart_by_spaces_outside_of_quotes() {
        for (line, expected) in [
            ("  a  b # c", &["a", "b"][..]),
            (r#"a "b c" 'd\e' f\ g"#, &["a", "b c", r"d\e", "f g"]),
            (r"acl x path_reg ^/a\.b$", &["acl", "x", "path_reg", r"^/a\.b$"]),
            (r#"a "" b"#, &["a", "", "b"]),
        ] {
            assert_eq!(words(line).unwrap(), expected, "{line}");
        }
        assert!(words("a 'b").is_err());
    }
}
