//! The syntax of nginx: words, strings, comments, blocks.
//!
//! Owns: [`parse`]. Knows no directive.

use std::cell::Cell;
use std::iter::Peekable;
use std::str::CharIndices;

use crate::Note;
use crate::audit::Tree;

/// The directives of a text.
///
/// # Errors
/// Where it is not what nginx reads, and why.
pub(super) fn parse(text: &str) -> Result<Vec<Directive>, Note> {
    let mut words = Words { characters: text.char_indices().peekable(), text, line: 1 };
    block(&mut words, None)
}

/// Puts all of it behind the line `after`.
pub(super) fn place(directives: &mut [Directive], after: usize) {
    for directive in directives {
        directive.line += after;
        place(directive.block.as_deref_mut().unwrap_or_default(), after);
    }
}

/// `name arguments;` or `name arguments { ... }`
#[derive(Debug)]
pub(super) struct Directive {
    pub(super) line: usize,
    pub(super) name: String,
    pub(super) arguments: Vec<String>,
    pub(super) block: Option<Vec<Directive>>,
    /// Whether it has been carried over.
    is_carried: Cell<bool>,
}

/// As it has been read, and not carried over yet.
impl Clone for Directive {
    fn clone(&self) -> Directive {
        let Directive { line, name, arguments, block, is_carried: _ } = self;
        let (name, arguments, block) = (name.clone(), arguments.clone(), block.clone());
        Directive { line: *line, name, arguments, block, is_carried: Cell::new(false) }
    }
}

impl Tree for Directive {
    fn place(&self) -> (usize, String) {
        (self.line, self.text())
    }

    fn arguments(&mut self) -> &mut [String] {
        &mut self.arguments
    }

    fn inner(&mut self) -> Option<&mut Vec<Directive>> {
        self.block.as_mut()
    }
}

impl Directive {
    /// One that stands in the place of others.
    pub(super) fn new(line: usize, name: &str, arguments: Vec<String>, block: Option<Vec<Directive>>) -> Directive {
        Directive { line, name: name.to_owned(), arguments, block, is_carried: Cell::new(false) }
    }

    /// Marks it as carried over: its meaning is in the result. Every other directive is in one of the lists.
    pub(super) fn carry(&self) {
        self.is_carried.set(true);
    }

    pub(super) fn is_carried(&self) -> bool {
        self.is_carried.get()
    }

    /// As it is written, without its block.
    pub(super) fn text(&self) -> String {
        format!("{} {}", self.name, self.arguments.join(" ")).trim_end().to_owned()
    }

    /// An argument; empty if there are fewer.
    pub(super) fn argument(&self, at: usize) -> &str {
        self.arguments.get(at).map_or("", String::as_str)
    }
}

struct Words<'t> {
    characters: Peekable<CharIndices<'t>>,
    text: &'t str,
    line: usize,
}

enum Word {
    Text(String),
    End,
    Open,
    Close,
}

impl Words<'_> {
    fn bump(&mut self) -> Option<char> {
        let (_, character) = self.characters.next()?;
        self.line += usize::from(character == '\n');
        Some(character)
    }

    fn next(&mut self) -> Result<Option<Word>, Note> {
        while let Some((_, character)) = self.characters.peek().copied() {
            match character {
                '#' => {
                    while self.characters.peek().is_some_and(|(_, one)| *one != '\n') {
                        self.bump();
                    }
                }
                one if one.is_whitespace() => _ = self.bump(),
                _ => break,
            }
        }
        let Some((start, first)) = self.characters.peek().copied() else { return Ok(None) };
        match first {
            ';' | '{' | '}' => {
                self.bump();
                return Ok(Some(match first {
                    ';' => Word::End,
                    '{' => Word::Open,
                    _ => Word::Close,
                }));
            }
            '"' | '\'' => return self.quoted(first).map(|text| Some(Word::Text(text))),
            _ => {}
        }
        let mut end = start;
        while let Some((at, character)) = self.characters.peek().copied() {
            // A brace within a word is one of a variable (`${a}`), or of a repetition (`{2,3}`), which nginx wants in
            // quotes. Any other begins a block, without a space as well.
            let counts =
                self.text[at + character.len_utf8()..].starts_with(|next: char| next.is_ascii_digit() || next == ',');
            let is_repetition = character == '{' && at > start && (self.text[..at].ends_with('$') || counts);
            if character.is_whitespace() || character == ';' || character == '{' && !is_repetition {
                break;
            }
            self.bump();
            end = at + character.len_utf8();
            if character == '\\' {
                end += self.bump().map_or(0, char::len_utf8);
            }
        }
        Ok(Some(Word::Text(self.text[start..end].to_owned())))
    }

    fn quoted(&mut self, quote: char) -> Result<String, Note> {
        let line = self.line;
        self.bump();
        let mut text = String::new();
        while let Some(character) = self.bump() {
            match character {
                one if one == quote => return Ok(text),
                '\\' => match self.bump() {
                    Some(one) if one == quote || one == '\\' => text.push(one),
                    Some('n') => text.push('\n'),
                    Some('r') => text.push('\r'),
                    Some('t') => text.push('\t'),
                    Some(one) => text.extend(['\\', one]),
                    None => break,
                },
                one => text.push(one),
            }
        }
        Err(Note::new(line, "this quotation does not end"))
    }
}

/// Directives up to the end, or to the brace that ends the block that began at `begun`.
fn block(words: &mut Words<'_>, begun: Option<usize>) -> Result<Vec<Directive>, Note> {
    let mut directives = Vec::new();
    let mut current: Option<Directive> = None;
    loop {
        let word = words.next()?;
        let line = words.line;
        match (word, current.take()) {
            (None, None) if begun.is_none() => return Ok(directives),
            (None, Some(Directive { line, .. })) => {
                return Err(Note::new(line, "this directive has no `;` at its end"));
            }
            (None, None) => {
                return Err(Note::new(begun.unwrap_or(line), "this block has no `}` at its end"));
            }
            (Some(Word::Text(name)), None) => {
                current =
                    Some(Directive { line, name, arguments: Vec::new(), block: None, is_carried: Cell::new(false) });
            }
            (Some(Word::Text(argument)), Some(mut directive)) => {
                directive.arguments.push(argument);
                current = Some(directive);
            }
            (Some(Word::End), Some(directive)) => directives.push(directive),
            (Some(Word::Open), Some(mut directive)) => {
                directive.block = Some(block(words, Some(directive.line))?);
                directives.push(directive);
            }
            (Some(Word::Close), None) if begun.is_some() => return Ok(directives),
            (Some(Word::Close), Some(Directive { line, .. })) => {
                return Err(Note::new(line, "this directive has no `;` at its end"));
            }
            (Some(Word::Open | Word::Close), None) => {
                return Err(Note::new(line, "this brace belongs to nothing"));
            }
            (Some(Word::End), None) => {}
        }
    }
}
