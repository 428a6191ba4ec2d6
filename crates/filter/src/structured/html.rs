//! Where the sections of a page of HTML are.
//!
//! Owns: what of HTML is a heading, and what of the head sections need as well. Guarantees: one pass over the bytes.
//! Text in scripts, styles and comments is no heading.

use std::ops::Range;

use super::scan::{Kind, Tokens, attribute};
use super::source::Source;
use super::structure::{Builder, Section, Structure, TEXT_BYTES_MAX, plain_id, shown};

/// Style sheets of a head.
const STYLES_MAX: usize = 16;

/// The structure of a page.
pub(super) fn structure(html: &[u8]) -> Structure {
    let mut builder = Builder::new(Source::HTML, html.len());
    let mut heading: Option<Section> = None;
    let mut text: Vec<u8> = Vec::new();
    let mut is_title = false;
    for token in Tokens::new(html, 0..html.len()) {
        let source = &html[token.range.clone()];
        match token.kind {
            Kind::Start(name) => {
                if let (None, Some(level)) = (&heading, level(&name)) {
                    let id = attribute(source, "id").and_then(plain_id);
                    let has_anchor = id.is_some();
                    let id = id.unwrap_or_default();
                    heading = Some(Section { level, has_anchor, id, range: token.range, ..Section::default() });
                    text.clear();
                    continue;
                }
                is_title = name == "title" && builder.made.title.is_empty();
                meet(&mut builder.made, &name, source, &token.range, html);
                builder.last().resources += u32::from(is_resource(&name));
            }
            Kind::End(name) => {
                if name == "head" {
                    builder.made.body = builder.made.body.max(token.range.end);
                }
                // A heading is ended by any other, as browsers do.
                if let Some(section) = heading.take_if(|_| level(&name).is_some()) {
                    builder.add(section, &text);
                }
            }
            Kind::Text if heading.is_some() && text.len() < 2 * TEXT_BYTES_MAX => text.extend_from_slice(source),
            Kind::Raw if std::mem::take(&mut is_title) => builder.made.title = shown(source),
            Kind::Text | Kind::Raw | Kind::Other => {}
        }
    }
    if let Some(section) = heading {
        builder.add(section, &text);
    }
    let mut made = builder.made;
    made.body = made.body.min(made.sections[0].range.end);
    made.has_beginning = says_something(html, made.body..made.sections[0].range.end);
    made
}

/// Notes the properties of the whole page that a start tag declares.
fn meet(made: &mut Structure, name: &str, tag: &[u8], range: &Range<usize>, html: &[u8]) {
    let is_in_head = made.sections.len() == 1;
    match name {
        "html" => made.lang = attribute(tag, "lang").and_then(plain_id),
        "body" if is_in_head => made.body = range.end,
        "base" => made.has_base |= attribute(tag, "href").is_some(),
        "meta" if made.charset.is_none() => made.charset = attribute(tag, "charset").and_then(plain_id),
        "link" if is_in_head && made.shared.len() < STYLES_MAX => {
            let is_style = |rel: &[u8]| rel.eq_ignore_ascii_case(b"stylesheet");
            made.shared.extend(attribute(tag, "rel").is_some_and(is_style).then(|| range.clone()));
        }
        "style" if is_in_head && made.shared.len() < STYLES_MAX => {
            let end = Tokens::new(html, range.start..html.len()).find(|token| matches!(token.kind, Kind::End(_)));
            made.shared.extend(end.map(|end| range.start..end.range.end));
        }
        _ => {}
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
