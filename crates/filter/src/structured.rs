//! The filter `structured`: an overview of a page, and its sections as pages of their own (JAWS framework paper, 3.6:
//! structured caching).
//!
//! ```text
//! ?section=ID, ?view=outline, Prefer: view=outline, Save-Data: on ── recipe ──> section=ID, outline ── start ──> scan, structure, page
//! ```
//!
//! Owns: what a request asks for ([`Asked`]), and what of a page that takes, where its structure is known already
//! ([`Excerpt`]). `source` is what pages are written in, `html`, `markdown` and `plain` find headings, `scan` finds
//! tags, `structure` keeps the sections, `page` makes what is served. Guarantees: without being asked it leaves pages
//! alone. Needs the whole page. For files only.

mod html;
mod markdown;
mod page;
mod plain;
mod scan;
mod source;
mod structure;

use std::ops::Range;
use std::sync::Arc;

pub use source::Source;
pub use structure::{Section, Structure};

use lamna_proto::parse::percent;

use crate::client_hints::is_on;
use crate::{Content, Effect, Fault, Filter, Kind, Lines, Make, Parameters};
use structure::{ID_BYTES_MAX, SECTIONS_MAX};

/// The row of the table.
pub(crate) const KIND: Kind = Kind {
    name: "structured",
    about: "Gives an overview of a page, or one of its sections, on request.",
    version: 3,
    effect: Effect::None,
    required: &[],
    optional: &[("save_data", "\"true\": also to clients that save data (Save-Data: on)")],
    make,
};

#[derive(Debug)]
struct Structured {
    save_data: bool,
}

fn make(parameters: &Parameters) -> Result<Arc<dyn Make>, String> {
    let save_data = match parameters.get("save_data").map(String::as_str) {
        None | Some("false") => false,
        Some("true") => true,
        Some(_) => return Err("`save_data` is \"true\" or \"false\"".into()),
    };
    Ok(Arc::new(Structured { save_data }))
}

impl Make for Structured {
    fn start(&self, content: &mut Content) -> Option<Box<dyn Filter>> {
        let asked = Asked::of_recipe(content.query.as_deref()?)?;
        let source = source_of(content)?;
        if !source.is_html() {
            // It is shown as it is to who gets the whole.
            if asked == Asked::OutlineToSave {
                return None;
            }
            content.media_type = format!("text/html; charset={}", plain::charset(&content.media_type));
        }
        if asked == Asked::OutlinePreferred {
            content.fields.push(("Preference-Applied", "view=outline"));
        }
        Some(Box::new(Making { asked, source, content: Vec::new() }))
    }

    fn recipe(&self, query: &[u8], lines: Lines<'_>) -> Option<String> {
        let asked = match Asked::of_query(query) {
            Some(asked) => asked,
            None if lines("prefer").into_iter().any(prefers_outline) => Asked::OutlinePreferred,
            None if self.save_data && lines("save-data").into_iter().any(is_on) => Asked::OutlineToSave,
            None => return None,
        };
        asked.recipe()
    }

    fn is_preference(&self, recipe: &str) -> bool {
        matches!(Asked::of_recipe(recipe), Some(Asked::OutlineToSave | Asked::OutlinePreferred))
    }

    fn has_recipes(&self) -> bool {
        true
    }

    fn recipes_max(&self, recipe: &str, bytes: u64) -> Option<u32> {
        Asked::of_recipe(recipe)?;
        let pages = AT_ONCE_BYTES / bytes.max(1);
        Some(pages.clamp(100, SECTIONS_MAX as u64 + 2) as u32)
    }

    fn varies_by(&self) -> &'static [&'static str] {
        if self.save_data { &["Prefer", "Save-Data"] } else { &["Prefer"] }
    }

    fn needs_whole(&self) -> bool {
        true
    }

    fn divides(&self, content: &Content) -> Option<Source> {
        source_of(content)
    }
}

/// The markup of content that has sections.
fn source_of(content: &Content) -> Option<Source> {
    if !content.is_plain() {
        return None;
    }
    let is_text = content.is_of(&["text/plain", "text/markdown"]);
    let is_page = content.is_of(&["text/html", "application/xhtml+xml"]);
    is_page.then_some(Source::HTML).or_else(|| is_text.then(|| Source::text(plain::charset(&content.media_type))))
}

/// How many bytes of one page are read in a short time to make sections of it: that is a few seconds.
const AT_ONCE_BYTES: u64 = 1 << 30;

/// The requested form of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Asked {
    Whole,
    Outline,
    OutlinePreferred,
    OutlineToSave,
    Section(String),
}

impl Asked {
    fn of_query(query: &[u8]) -> Option<Asked> {
        let mut parts = query.split(|byte| *byte == b'&');
        parts.find_map(|part| match part {
            b"view=outline" => Some(Asked::Outline),
            b"view=whole" => Some(Asked::Whole),
            _ => part.strip_prefix(b"section=").map(|id| Asked::Section(decoded(id))),
        })
    }

    /// Its one spelling; none for the whole.
    fn recipe(&self) -> Option<String> {
        Some(match self {
            Asked::Whole => return None,
            Asked::Outline => "outline".into(),
            Asked::OutlinePreferred => "outline:preferred".into(),
            Asked::OutlineToSave => "outline:to-save".into(),
            Asked::Section(id) => format!("section={id}"),
        })
    }

    fn of_recipe(recipe: &str) -> Option<Asked> {
        Some(match recipe {
            "outline" => Asked::Outline,
            "outline:preferred" => Asked::OutlinePreferred,
            "outline:to-save" => Asked::OutlineToSave,
            other => Asked::Section(other.strip_prefix("section=")?.to_owned()),
        })
    }
}

/// The id that a query means. Those that no section can have are all the same: none.
fn decoded(id: &[u8]) -> String {
    let bytes = percent::decoded(id).into_owned();
    if bytes.len() > ID_BYTES_MAX {
        return String::new();
    }
    let is_plain = |text: &String| !text.chars().any(|letter| letter.is_control() || letter.is_whitespace());
    String::from_utf8(bytes).ok().filter(is_plain).unwrap_or_default()
}

/// Whether a line of `Prefer` prefers the overview (RFC 7240, section 2).
fn prefers_outline(line: &[u8]) -> bool {
    line.split(|byte| *byte == b',').any(|preference| {
        let own = preference.split(|byte| *byte == b';').next().unwrap_or_default();
        let mut parts = own.splitn(2, |byte| *byte == b'=').map(<[u8]>::trim_ascii);
        let (name, value) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        name.eq_ignore_ascii_case(b"view") && matches!(value, b"outline" | b"\"outline\"")
    })
}

struct Making {
    asked: Asked,
    source: Source,
    content: Vec<u8>,
}

impl Filter for Making {
    fn take(&mut self, piece: &[u8], _: &mut Vec<u8>) -> Result<(), Fault> {
        self.content.extend_from_slice(piece);
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Fault> {
        let structure = self.source.structure(&self.content);
        match structure.as_ref().map(|structure| structure.excerpt_of(&self.asked)).transpose()?.flatten() {
            Some(excerpt) => out.extend_from_slice(&excerpt.page_of(&self.content)),
            None => out.extend_from_slice(&self.content),
        }
        Ok(())
    }
}

/// A page that is made of parts of another one.
#[derive(Debug)]
pub struct Excerpt<'s> {
    structure: &'s Structure,
    /// Which section; none for the overview.
    section: Option<usize>,
    ranges: Vec<Range<usize>>,
}

impl Excerpt<'_> {
    /// The parts of the page that it takes, in the order in which [`Excerpt::page`] wants them. None for an overview.
    pub fn ranges(&self) -> &[Range<usize>] {
        &self.ranges
    }

    /// The page, of these parts.
    pub fn page(&self, pieces: &[&[u8]]) -> Vec<u8> {
        match self.section {
            Some(at) => page::section(self.structure, at, pieces),
            None => page::outline(self.structure).into_bytes(),
        }
    }

    /// The page, of the content as a whole.
    pub fn page_of(&self, content: &[u8]) -> Vec<u8> {
        let pieces: Vec<&[u8]> = self.ranges.iter().map(|range| &content[range.clone()]).collect();
        self.page(&pieces)
    }
}

impl Structure {
    /// The excerpt that a request with this recipe asks for of a page of this structure. None if that is the whole.
    ///
    /// # Errors
    /// There is no such section, or it cannot be a page.
    pub fn excerpt(&self, recipe: &str) -> Result<Option<Excerpt<'_>>, Fault> {
        self.excerpt_of(&Asked::of_recipe(recipe).unwrap_or(Asked::Whole))
    }

    fn excerpt_of(&self, asked: &Asked) -> Result<Option<Excerpt<'_>>, Fault> {
        let overview = Excerpt { structure: self, section: None, ranges: Vec::new() };
        Ok(match asked {
            Asked::Whole => None,
            Asked::Outline | Asked::OutlinePreferred => Some(overview),
            Asked::OutlineToSave => (page::outline(self).len() < self.bytes).then_some(overview),
            Asked::Section(id) => {
                let at = page::find(self, id)?;
                Some(Excerpt { structure: self, section: Some(at), ranges: page::ranges(self, at) })
            }
        })
    }
}

#[cfg(test)]
mod tests;
