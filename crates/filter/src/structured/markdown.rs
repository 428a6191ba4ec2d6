//! Sections of Markdown, without the page that is made of it.
//!
//! Owns: where the sections of a text are, and the HTML of one of them. Guarantees: only headings that are in no other
//! block begin a section, so that none is cut. A section has the links and the footnotes that it has in the whole: what
//! they mean is shared ([`Structure::shared`]), up to [`SHARED_MAX`] places of the text. Does not divide texts that are
//! not UTF-8.

use std::ops::Range;

use pulldown_cmark::{Event, Parser, Tag, TagEnd};

use super::source::Source;
use super::structure::{Builder, Section, Structure, plain_id, shown};
use crate::html::escaped;
use crate::markdown::{Markdown, OPTIONS, heading_text, name_headings};

/// Places in a text where links or footnotes are defined. Links that are defined elsewhere are text in sections that do
/// not define them.
const SHARED_MAX: usize = 64;

/// The structure of a text. None if it is not UTF-8.
pub(super) fn structure(pages: &Markdown, text: &[u8]) -> Option<Structure> {
    let text = str::from_utf8(text).ok()?;
    let parser = Parser::new_ext(text, OPTIONS);
    let mut shared: Vec<Range<usize>> =
        parser.reference_definitions().iter().map(|(_, one)| one.span.clone()).collect();
    let (mut events, ranges): (Vec<Event<'_>>, Vec<Range<usize>>) = parser.into_offset_iter().unzip();
    let title = name_headings(&mut events);
    let mut builder = Builder::new(Source::markdown(pages.clone()), text.len());
    let mut depth = 0;
    for (at, event) in events.iter().enumerate() {
        match event {
            Event::Start(tag) => {
                match tag {
                    Tag::Heading { level, id, .. } if depth == 0 => {
                        let id = id.as_ref().and_then(|id| plain_id(id.as_bytes()));
                        let (level, range) = (*level as u8, ranges[at].clone());
                        let section = Section {
                            level,
                            has_anchor: id.is_some(),
                            id: id.unwrap_or_default(),
                            range,
                            ..Section::default()
                        };
                        builder.add(section, escaped(&heading_text(&events[at + 1..])).as_bytes());
                    }
                    Tag::FootnoteDefinition(_) if depth == 0 => shared.push(ranges[at].clone()),
                    Tag::Image { .. } => builder.last().resources += 1,
                    _ => {}
                }
                depth += 1;
            }
            Event::End(_) => depth -= 1,
            _ => {}
        }
    }
    let mut made = builder.made;
    made.shared = joined(shared, text);
    let title = title.unwrap_or_default();
    made.title = shown(escaped(&title).as_bytes());
    made.lang = pages.lang.as_ref().and_then(|lang| plain_id(lang.as_bytes()));
    made.bytes = pages.head(&title).len() + pages.html(events, text.len()).len();
    made.has_beginning = !text[made.sections[0].range.clone()].trim_ascii().is_empty();
    Some(made)
}

/// These ranges in order, and as one those that nothing but space is between.
fn joined(mut ranges: Vec<Range<usize>>, text: &str) -> Vec<Range<usize>> {
    ranges.sort_by_key(|range| range.start);
    let mut made: Vec<Range<usize>> = Vec::new();
    for range in ranges {
        match made.last_mut() {
            Some(last) if text.get(last.end..range.start).is_none_or(|between| between.trim().is_empty()) => {
                last.end = last.end.max(range.end);
            }
            _ => made.push(range),
        }
    }
    made.truncate(SHARED_MAX);
    made
}

/// Between what is shared and a section: whatever is before it ends there.
const BORDER: &str = "\n\n<!-- -->\n\n";

/// The HTML of a section, of its `own` part of the text and the `shared` ones.
pub(super) fn html(pages: &Markdown, section: &Section, own: &[u8], shared: &[&[u8]]) -> String {
    let mut text: String = shared.iter().map(|part| format!("{}\n\n", String::from_utf8_lossy(part))).collect();
    if !text.is_empty() {
        text.push_str(BORDER);
    }
    let own_at = text.len();
    text.push_str(&String::from_utf8_lossy(own));
    let events: Vec<(Event<'_>, Range<usize>)> = Parser::new_ext(&text, OPTIONS).into_offset_iter().collect();
    let (before, own): (Vec<_>, Vec<_>) = events.into_iter().partition(|(_, range)| range.start < own_at);
    let mut own: Vec<Event<'_>> = own.into_iter().map(|(event, _)| event).collect();
    name_headings(&mut own);
    let first = own.iter_mut().find_map(|event| match event {
        Event::Start(Tag::Heading { id, .. }) => Some(id),
        _ => None,
    });
    if let Some(id) = first.filter(|_| section.level > 0) {
        *id = Some(section.id.clone().into());
    }
    let notes = footnotes(&own, before.into_iter().map(|(event, _)| event));
    own.extend(notes);
    pages.html(own, text.len())
}

/// The footnotes among the events `before` to which `own` refers.
fn footnotes<'a>(own: &[Event<'a>], before: impl Iterator<Item = Event<'a>>) -> Vec<Event<'a>> {
    let is_had =
        |label: &str| own.iter().any(|event| matches!(event, Event::FootnoteReference(one) if **one == *label));
    let (mut notes, mut is_kept) = (Vec::new(), false);
    for event in before {
        let is_end = matches!(event, Event::End(TagEnd::FootnoteDefinition));
        if let Event::Start(Tag::FootnoteDefinition(label)) = &event {
            is_kept = is_had(label);
        }
        notes.extend(is_kept.then_some(event));
        is_kept &= !is_end;
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEXT: &str = "Before [one].\n\n# First {#own}\n\nText with a [link][one] and a note[^n].\n\n## A *part*\n\n> # quoted\n\n\
                        - # listed\n\n```\n# code\n```\n\nSecond\n======\n\n    indented\n\n[one]: /one.html\n[^n]: The note\n\n    goes on.\n\n\
                        # First {#own}\n\nNo link.\n";

    fn found() -> Structure {
        structure(&Markdown::default(), TEXT.as_bytes()).unwrap()
    }

    fn section(id: &str) -> String {
        let found = found();
        let excerpt = found.excerpt(&format!("section={id}")).unwrap().unwrap();
        let pieces: Vec<&[u8]> = excerpt.ranges().iter().map(|range| &TEXT.as_bytes()[range.clone()]).collect();
        String::from_utf8(excerpt.page(&pieces)).unwrap()
    }

    #[test]
    fn headings_that_are_in_no_other_block_are_sections() {
        let found = found();
        let shown: Vec<_> = found.sections.iter().map(|one| (one.level, &*one.id, &*one.text, one.parent)).collect();
        let expected = [
            (0, "start", "", None),
            (1, "own", "First", None),
            (2, "a-part", "A part", Some(1)),
            (1, "second", "Second", None),
            (1, "own-2", "First", None),
        ];
        assert_eq!(shown, expected);
        assert_eq!((&*found.title, found.has_beginning), ("First", true));
        assert!(TEXT[found.sections[3].range.clone()].starts_with("Second\n======"));
    }

    #[test]
    fn a_section_has_the_links_and_footnotes_of_the_whole_and_no_others() {
        let first = section("own");
        for part in ["<h1 id=\"own\">First</h1>", "<a href=\"/one.html\">link</a>", "The note", "goes on."] {
            assert!(first.contains(part), "{part}: {first}");
        }
        assert!(section("start").contains("<a href=\"/one.html\">one</a>"));
        for id in ["start", "a-part", "own-2"] {
            assert!(!section(id).contains("The note"), "{id}");
        }
        let (second, last) = (section("second"), section("own-2"));
        assert!(second.contains("<code>indented") && second.matches("The note").count() == 1, "{second}");
        assert!(last.contains("<h1 id=\"own-2\">First</h1>") && last.contains("No link."), "{last}");
    }

    #[test]
    fn a_text_that_is_not_utf_8_is_not_divided() {
        assert!(structure(&Markdown::default(), b"# a\n\xff").is_none());
    }

    #[test]
    fn many_definitions_are_kept_as_places() {
        let together: String = (0..1000).map(|at| format!("[a{at}]: /{at}\n")).collect();
        let found = structure(&Markdown::default(), format!("# a\n{together}# b\n").as_bytes()).unwrap();
        assert_eq!(found.shared.len(), 1);
        let apart: String = (0..1000).map(|at| format!("text\n\n[a{at}]: /{at}\n\n")).collect();
        let found = structure(&Markdown::default(), apart.as_bytes()).unwrap();
        assert_eq!(found.shared.len(), SHARED_MAX);
    }

    proptest! {
        #[test]
        fn sections_cover_any_text_and_are_pages(
            parts in prop::collection::vec(prop::sample::select(vec![
                "# a", "## b {#x}", "c\n===", "\n", "\n\n", "    ", "> ", "- ", "1. ", "```", "[^1]", "[^1]: note", "[a]", "[a]: /x", "text",
                "<div>", "</div>", "<!--", "-->", "|a|\n|-|\n|b|", "é", "*", "\t", "\r\n", "![i](x)",
            ]), 0..40),
        ) {
            let text = parts.concat();
            let found = structure(&Markdown::default(), text.as_bytes()).unwrap();
            let mut at = 0;
            for section in &found.sections {
                prop_assert!(section.range.start == at && section.range.end >= at);
                at = section.range.end;
                let excerpt = found.excerpt(&format!("section={}", section.id)).unwrap().unwrap();
                let pieces: Vec<&[u8]> = excerpt.ranges().iter().map(|range| &text.as_bytes()[range.clone()]).collect();
                let made = String::from_utf8(excerpt.page(&pieces)).unwrap();
                prop_assert!(made.ends_with("</html>\n"));
            }
            prop_assert_eq!(at, text.len());
        }
    }
}
