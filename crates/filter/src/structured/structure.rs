//! The structure of a page: its sections, and what they use.
//!
//! Owns: [`Structure`], made in one pass over the bytes. Guarantees: the sections follow each other without gaps from the first byte to the last;
//! each has an id of its own; the structure holds no more than a twentieth of the content's size, or 4 KiB. What is
//! left out for that is part of the section before.

use std::collections::HashMap;
use std::ops::Range;

use super::scan::{Kind, Tokens, attribute};
use crate::markdown::{slug, unused};

/// What a page is made of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Structure {
    /// The title, as HTML without tags.
    pub title: String,
    /// The language, if the page says it.
    pub lang: Option<String>,
    /// The character encoding, if the page says it.
    pub charset: Option<String>,
    /// Whether links of the page are relative to another address than its own.
    pub has_base: bool,
    /// Where the body begins.
    pub body: usize,
    /// Elements of the head that say how the page looks.
    pub styles: Vec<Range<usize>>,
    /// In order; never none.
    pub sections: Vec<Section>,
    /// Headings that were left out.
    pub left_out: usize,
    /// Bytes of the page.
    pub bytes: usize,
    /// Whether there is anything to read or to see before the first heading.
    pub has_beginning: bool,
}

/// A heading and what follows it, up to the next heading.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Section {
    /// Of the heading, from 1 to 6; 0 for what is before the first.
    pub level: u8,
    /// By which it is asked for.
    pub id: String,
    /// Whether the id is one that the page itself has.
    pub has_anchor: bool,
    /// The heading, as HTML without tags.
    pub text: String,
    /// Where it is.
    pub range: Range<usize>,
    /// The section of which it is a part.
    pub parent: Option<usize>,
    /// Sub-resources in it: images, scripts, frames and the like.
    pub resources: u32,
}

/// The structure of a small page may hold so much.
pub(super) const BYTES_MIN: usize = 4096;
/// Sections at most.
pub(super) const SECTIONS_MAX: usize = 2000;
/// Bytes of the text of a heading, and of an id.
const TEXT_BYTES_MAX: usize = 200;
pub(super) const ID_BYTES_MAX: usize = 128;
/// Style sheets of a head.
const STYLES_MAX: usize = 16;

impl Section {
    /// Of memory, about.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Section>() + self.id.len() + self.text.len()
    }
}

impl Structure {
    /// That of a page.
    pub fn of(html: &[u8]) -> Structure {
        let bytes_max = (html.len() / 20).max(BYTES_MIN);
        let first = Section { id: "start".into(), range: 0..html.len(), ..Section::default() };
        let mut made = Structure { sections: vec![first], ..Structure::default() };
        let mut ids = HashMap::from([("start".to_owned(), 1)]);
        let mut bytes = made.sections[0].bytes();
        let mut heading: Option<(String, Section)> = None;
        let mut text: Vec<u8> = Vec::new();
        let mut is_title = false;
        for token in Tokens::new(html, 0..html.len()) {
            let source = &html[token.range.clone()];
            match token.kind {
                Kind::Start(name) => {
                    if let (None, Some(level)) = (&heading, level(&name)) {
                        let id = attribute(source, "id").and_then(plain_id);
                        let section = Section {
                            level,
                            has_anchor: id.is_some(),
                            id: id.unwrap_or_default(),
                            range: token.range,
                            ..Section::default()
                        };
                        (heading, text) = (Some((name, section)), Vec::new());
                        continue;
                    }
                    is_title = name == "title" && made.title.is_empty();
                    made.meets(&name, source, &token.range, html);
                    made.sections
                        .last_mut()
                        .iter_mut()
                        .for_each(|last| last.resources += u32::from(is_resource(&name)));
                }
                Kind::End(name) => {
                    if name == "head" {
                        made.body = made.body.max(token.range.end);
                    }
                    // A heading is ended by any other, as browsers do.
                    let ended = heading.take_if(|_| level(&name).is_some());
                    if let Some((_, section)) = ended {
                        bytes += made.add(section, &text, &mut ids, bytes_max.saturating_sub(bytes));
                    }
                }
                Kind::Text if heading.is_some() && text.len() < 2 * TEXT_BYTES_MAX => text.extend_from_slice(source),
                Kind::Raw if std::mem::take(&mut is_title) => made.title = shown(source),
                Kind::Text | Kind::Raw | Kind::Other => {}
            }
        }
        if let Some((_, section)) = heading {
            made.add(section, &text, &mut ids, bytes_max.saturating_sub(bytes));
        }
        made.body = made.body.min(made.sections[0].range.end);
        made.bytes = html.len();
        made.has_beginning = says_something(html, made.body..made.sections[0].range.end);
        made
    }

    /// Bytes of memory, about.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Structure>() + self.sections.iter().map(Section::bytes).sum::<usize>()
    }

    /// What a start tag says of the page as a whole.
    fn meets(&mut self, name: &str, tag: &[u8], range: &Range<usize>, html: &[u8]) {
        let is_in_head = self.sections.len() == 1;
        match name {
            "html" => self.lang = attribute(tag, "lang").and_then(plain_id),
            "body" if is_in_head => self.body = range.end,
            "base" => self.has_base |= attribute(tag, "href").is_some(),
            "meta" if self.charset.is_none() => self.charset = attribute(tag, "charset").and_then(plain_id),
            "link" if is_in_head && self.styles.len() < STYLES_MAX => {
                let is_style = |rel: &[u8]| rel.eq_ignore_ascii_case(b"stylesheet");
                self.styles.extend(attribute(tag, "rel").is_some_and(is_style).then(|| range.clone()));
            }
            "style" if is_in_head && self.styles.len() < STYLES_MAX => {
                let end = Tokens::new(html, range.start..html.len()).find(|token| matches!(token.kind, Kind::End(_)));
                self.styles.extend(end.map(|end| range.start..end.range.end));
            }
            _ => {}
        }
    }

    /// Adds a section if there is room for it, and says how much that took.
    fn add(&mut self, mut section: Section, text: &[u8], ids: &mut HashMap<String, u32>, room: usize) -> usize {
        section.text = shown(text);
        if section.id.is_empty() {
            section.id = slug(&section.text);
            let end = (0..=section.id.len().min(ID_BYTES_MAX - 16)).rev().find(|at| section.id.is_char_boundary(*at));
            section.id.truncate(end.unwrap_or(0));
        }
        if self.sections.len() >= SECTIONS_MAX || section.bytes() + 16 > room {
            self.left_out += 1;
            return 0;
        }
        let id = unused(section.id.clone(), ids);
        // A number behind it makes it one that the page does not have.
        section.has_anchor &= id == section.id;
        section.id = id;
        let at = section.range.start;
        section.parent = self.parent_for(section.level);
        let last = self.sections.len() - 1; // There is one from the beginning.
        section.range = at..self.sections[last].range.end;
        self.sections[last].range.end = at;
        let bytes = section.bytes();
        self.sections.push(section);
        bytes
    }

    /// The last section of a lower level than `level`, upwards from the last one.
    fn parent_for(&self, level: u8) -> Option<usize> {
        let mut at = self.sections.len().checked_sub(1)?;
        loop {
            let section = &self.sections[at];
            if section.level == 0 {
                return None;
            }
            if section.level < level {
                return Some(at);
            }
            at = section.parent?;
        }
    }

    /// The section with this id.
    pub fn find(&self, id: &str) -> Option<usize> {
        self.sections.iter().position(|section| section.id == id)
    }
}

/// Whether there is anything to read or to see in a part of a page.
fn says_something(html: &[u8], range: Range<usize>) -> bool {
    Tokens::new(html, range).any(|token| match token.kind {
        Kind::Text => !html[token.range].trim_ascii().is_empty(),
        Kind::Start(name) => matches!(&*name, "img" | "video" | "audio" | "iframe" | "object" | "embed" | "svg"),
        Kind::End(_) | Kind::Raw | Kind::Other => false,
    })
}

fn level(name: &str) -> Option<u8> {
    match name.as_bytes() {
        [b'h', digit @ b'1'..=b'6'] => Some(digit - b'0'),
        _ => None,
    }
}

fn is_resource(name: &str) -> bool {
    matches!(name, "img" | "script" | "iframe" | "video" | "audio" | "source" | "object" | "embed" | "link")
}

/// A name that means the same in an attribute, in a query and here.
fn plain_id(value: &[u8]) -> Option<String> {
    let is_plain = |byte: &u8| !byte.is_ascii_whitespace() && !byte.is_ascii_control() && !b"&<>\"'".contains(byte);
    let fits = !value.is_empty() && value.len() <= ID_BYTES_MAX && value.iter().all(is_plain);
    String::from_utf8(value.to_vec()).ok().filter(|_| fits)
}

/// Text of HTML as a line of text of HTML: entities stay what they are, and no tag begins.
fn shown(source: &[u8]) -> String {
    let text = String::from_utf8_lossy(source);
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = words.join(" ").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;");
    if line.len() <= TEXT_BYTES_MAX {
        return line;
    }
    let end = (0..=TEXT_BYTES_MAX).rev().find(|at| line.is_char_boundary(*at)).unwrap_or(0);
    // An entity is not cut.
    let (kept, rest) = (&line[..end], line[..end].rfind('&'));
    let kept = rest.filter(|at| !kept[*at..].contains(';')).map_or(kept, |at| &kept[..at]);
    format!("{kept}…")
}
