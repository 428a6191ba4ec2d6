//! The syntax of Caddyfiles: words, strings, comments, lines and blocks.
//!
//! Owns: [`parse`]. Knows no directive.

use std::iter::Peekable;
use std::str::CharIndices;

use crate::Note;
use crate::audit::Tree;

/// One line, and the block that it opens.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) line: usize,
    pub(super) words: Vec<String>,
    pub(super) block: Option<Vec<Line>>,
}

impl Tree for Line {
    fn place(&self) -> (usize, String) {
        (self.line, self.text())
    }

    fn arguments(&mut self) -> &mut [String] {
        self.words.get_mut(1..).unwrap_or_default()
    }

    fn inner(&mut self) -> Option<&mut Vec<Line>> {
        self.block.as_mut()
    }
}

impl Line {
    /// As it is written, without its block.
    pub(super) fn text(&self) -> String {
        self.words.join(" ")
    }

    /// A word; empty if there are fewer.
    pub(super) fn word(&self, at: usize) -> &str {
        self.words.get(at).map_or("", String::as_str)
    }
}

/// The lines of a text.
///
/// # Errors
/// Where it is not what Caddy reads, and why.
pub(super) fn parse(text: &str) -> Result<Vec<Line>, Note> {
    let mut words = Words { characters: text.char_indices().peekable(), text, line: 1 };
    block(&mut words, None)
}

struct Words<'t> {
    characters: Peekable<CharIndices<'t>>,
    text: &'t str,
    line: usize,
}

enum Word {
    Text(String),
    Break,
}

impl Words<'_> {
    fn bump(&mut self) -> Option<char> {
        let (_, character) = self.characters.next()?;
        self.line += usize::from(character == '\n');
        Some(character)
    }

    fn peek(&mut self) -> Option<(usize, char)> {
        self.characters.peek().copied()
    }

    fn next(&mut self) -> Result<Option<Word>, Note> {
        loop {
            match self.peek() {
                None => return Ok(None),
                Some((_, '\n')) => {
                    self.bump();
                    return Ok(Some(Word::Break));
                }
                Some((at, '\\')) if self.text[at + 1..].trim_start_matches('\r').starts_with('\n') => {
                    while self.bump() != Some('\n') {}
                }
                Some((_, '#')) => {
                    while self.peek().is_some_and(|(_, one)| one != '\n') {
                        self.bump();
                    }
                }
                Some((_, one)) if one.is_whitespace() => _ = self.bump(),
                Some((_, quote @ ('"' | '`'))) => return self.quoted(quote).map(|text| Some(Word::Text(text))),
                Some((start, _)) => {
                    let mut end = start;
                    while let Some((at, one)) = self.peek().filter(|(_, one)| !one.is_whitespace()) {
                        self.bump();
                        end = at + one.len_utf8();
                    }
                    return Ok(Some(Word::Text(self.text[start..end].to_owned())));
                }
            }
        }
    }

    fn quoted(&mut self, quote: char) -> Result<String, Note> {
        let line = self.line;
        self.bump();
        let mut text = String::new();
        while let Some(character) = self.bump() {
            match character {
                one if one == quote => return Ok(text),
                '\\' if quote == '"' && self.peek().is_some_and(|(_, next)| next == '"' || next == '\\') => {
                    text.extend(self.bump());
                }
                one => text.push(one),
            }
        }
        Err(Note::new(line, "this quotation does not end"))
    }
}

/// Lines up to the end, or to the brace that ends the block that began at `begun`.
fn block(words: &mut Words<'_>, begun: Option<usize>) -> Result<Vec<Line>, Note> {
    let mut lines: Vec<Line> = Vec::new();
    let mut current: Option<Line> = None;
    loop {
        let line = words.line;
        match words.next()? {
            None => {
                return match begun {
                    Some(line) => Err(Note::new(line, "this block has no `}` at its end")),
                    None => {
                        lines.extend(current);
                        Ok(lines)
                    }
                };
            }
            // Addresses go on behind a comma.
            Some(Word::Break) if current.as_ref().is_some_and(|line| begun.is_none() && line.text().ends_with(',')) => {
            }
            Some(Word::Break) => lines.extend(current.take()),
            Some(Word::Text(word)) if word == "{" => {
                let mut opens = current.take().unwrap_or(Line { line, words: Vec::new(), block: None });
                opens.block = Some(block(words, Some(opens.line))?);
                lines.push(opens);
            }
            Some(Word::Text(word)) if word == "}" => {
                if begun.is_none() {
                    return Err(Note::new(line, "this brace belongs to nothing"));
                }
                lines.extend(current);
                return Ok(lines);
            }
            Some(Word::Text(word)) => {
                let line = words.line;
                current.get_or_insert(Line { line, words: Vec::new(), block: None }).words.push(word);
            }
        }
    }
}
