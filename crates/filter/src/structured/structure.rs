//! The structure of a page: its sections, and what they use.
//!
//! Owns: [`Structure`], and [`Builder`], which makes it of one heading after the other. Guarantees: the sections follow
//! each other without gaps from the first byte to the last; each has an id of its own; the structure holds no more than
//! a twentieth of the content's size, or 4 KiB. A section left out for that is part of the one before. The reader of
//! the content says what a heading is:
//! [`super::source`].

use std::collections::HashMap;
use std::ops::Range;

use super::source::Source;
use crate::markdown::{slug, unused};

/// The structure of a page.
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
    /// Its markup language.
    pub source: Source,
    /// Where the body begins.
    pub body: usize,
    /// Parts that each section needs as well: elements of the head that say how the page looks, or what links and
    /// footnotes mean.
    pub shared: Vec<Range<usize>>,
    /// In order; never none.
    pub sections: Vec<Section>,
    /// Headings that were left out.
    pub left_out: usize,
    /// Bytes of the page, as HTML.
    pub bytes: usize,
    /// Whether there is anything to read or to see before the first heading.
    pub has_beginning: bool,
}

/// A heading and what follows it, up to the next heading.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Section {
    /// The level of the heading, from 1 to 6; 0 for the part before the first.
    pub level: u8,
    /// The id by which it is asked for.
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
pub(super) const TEXT_BYTES_MAX: usize = 200;
pub(super) const ID_BYTES_MAX: usize = 128;

impl Section {
    /// Bytes of memory, about.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Section>() + self.id.len() + self.text.len()
    }
}

impl Structure {
    /// That of a page of HTML.
    pub fn of(html: &[u8]) -> Structure {
        super::html::structure(html)
    }

    /// Bytes of memory, about.
    pub fn memory_bytes(&self) -> usize {
        let shared = self.shared.len() * size_of::<Range<usize>>();
        size_of::<Structure>() + shared + self.sections.iter().map(Section::bytes).sum::<usize>()
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

/// Makes a structure of the headings of a page, in their order.
pub(super) struct Builder {
    pub(super) made: Structure,
    ids: HashMap<String, u32>,
    bytes: usize,
    bytes_max: usize,
}

impl Builder {
    /// The builder for a page of so many bytes, before its first heading.
    pub(super) fn new(source: Source, length: usize) -> Builder {
        let first = Section { id: "start".into(), range: 0..length, ..Section::default() };
        let bytes = first.bytes();
        Builder {
            made: Structure { source, sections: vec![first], bytes: length, ..Structure::default() },
            ids: HashMap::from([("start".to_owned(), 1)]),
            bytes,
            bytes_max: (length / 20).max(BYTES_MIN),
        }
    }

    /// The section that what comes next belongs to.
    pub(super) fn last(&mut self) -> &mut Section {
        let at = self.made.sections.len() - 1; // There is one from the beginning.
        &mut self.made.sections[at]
    }

    /// Adds a section that begins at `section.range.start`, if there is room for it. `text` is that of the heading, as
    /// HTML.
    pub(super) fn add(&mut self, mut section: Section, text: &[u8]) {
        section.text = shown(text);
        if section.id.is_empty() {
            section.id = slug(&section.text);
            let end = (0..=section.id.len().min(ID_BYTES_MAX - 16)).rev().find(|at| section.id.is_char_boundary(*at));
            section.id.truncate(end.unwrap_or(0));
        }
        let room = self.bytes_max.saturating_sub(self.bytes);
        if self.made.sections.len() >= SECTIONS_MAX || section.bytes() + 16 > room {
            self.made.left_out += 1;
            return;
        }
        let id = unused(section.id.clone(), &mut self.ids);
        // A number behind it makes it one that the page does not have.
        section.has_anchor &= id == section.id;
        section.id = id;
        section.parent = self.made.parent_for(section.level);
        let at = section.range.start;
        section.range = at..std::mem::replace(&mut self.last().range.end, at);
        self.bytes += section.bytes();
        self.made.sections.push(section);
    }
}

/// A name that means the same in an attribute, in a query and here.
pub(super) fn plain_id(value: &[u8]) -> Option<String> {
    let is_plain = |byte: &u8| !byte.is_ascii_whitespace() && !byte.is_ascii_control() && !b"&<>\"'".contains(byte);
    let fits = !value.is_empty() && value.len() <= ID_BYTES_MAX && value.iter().all(is_plain);
    String::from_utf8(value.to_vec()).ok().filter(|_| fits)
}

/// Text of HTML as a line of text of HTML: entities stay what they are, and no tag begins.
pub(super) fn shown(source: &[u8]) -> String {
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
