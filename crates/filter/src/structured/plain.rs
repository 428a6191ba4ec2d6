//! Plain texts, as pages that have sections.
//!
//! Owns: which lines of a text are headings, and the HTML of a part of it. Guarantees: everything that is in the text
//! is in that of its sections, as text.
//!
//! | heading | level |
//! | --- | --- |
//! | a line behind an empty one, with a line of `=`, `-` or others below it | 1, 2 or 3 |
//! | a line behind an empty one that begins with one to six `#` and a space | as many |
//! | a line between empty ones that begins with a section's number (`2.1. Title`) | as many as it has numbers |

use std::ops::Range;

use super::source::Source;
use super::structure::{Builder, Section, Structure, shown};

/// Longer lines are no headings.
const HEADING_BYTES_MAX: usize = 120;

/// The charset that a media type says, in a form that can be written into a page.
pub(super) fn charset(media_type: &str) -> String {
    let parameters = media_type.split(';').skip(1).filter_map(|parameter| parameter.split_once('='));
    let said = parameters.filter(|(name, _)| name.trim().eq_ignore_ascii_case("charset")).map(|(_, value)| value);
    let plain = said.map(|value| value.trim().trim_matches('"')).find(|value| {
        !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:+".contains(&byte))
    });
    plain.unwrap_or("utf-8").to_owned()
}

/// A part of a text.
enum Block<'a> {
    Heading {
        level: usize,
        title: &'a [u8],
        range: Range<usize>,
    },
    /// Without the line break.
    Line(&'a [u8]),
}

/// The structure of `text`.
pub(super) fn structure(text: &[u8], charset: &str) -> Structure {
    let mut builder = Builder::new(Source::text(charset.to_owned()), text.len());
    for block in blocks(text) {
        let Block::Heading { level, title, range } = block else { continue };
        let (mut escaped, level) = (Vec::new(), level as u8);
        push_escaped(&mut escaped, title);
        if builder.made.title.is_empty() {
            builder.made.title = shown(&escaped);
        }
        builder.add(Section { level, range, ..Section::default() }, &escaped);
    }
    let mut made = builder.made;
    made.charset = Some(charset.to_owned());
    made.has_beginning = !text[made.sections[0].range.clone()].trim_ascii().is_empty();
    made
}

/// A part of a text as HTML.
pub(super) fn html(text: &[u8]) -> Vec<u8> {
    let mut html = Vec::with_capacity(text.len() + text.len() / 8);
    let mut is_in_text = false;
    for block in blocks(text) {
        match block {
            Block::Heading { level, title, .. } => {
                if std::mem::take(&mut is_in_text) {
                    html.extend_from_slice(b"</pre>\n");
                }
                html.extend_from_slice(format!("<h{level}>").as_bytes());
                push_escaped(&mut html, title);
                html.extend_from_slice(format!("</h{level}>\n").as_bytes());
            }
            Block::Line(line) => {
                if !std::mem::replace(&mut is_in_text, true) {
                    // A line break behind the tag is none of the text's.
                    html.extend_from_slice(b"<pre>\n");
                }
                push_escaped(&mut html, line);
                html.push(b'\n');
            }
        }
    }
    if is_in_text {
        html.extend_from_slice(b"</pre>\n");
    }
    html
}

fn blocks(text: &[u8]) -> impl Iterator<Item = Block<'_>> {
    let mut lines: Vec<&[u8]> = Vec::new();
    let mut starts: Vec<usize> = Vec::new();
    let mut start = 0;
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        let own = line.strip_suffix(b"\n").unwrap_or(line);
        lines.push(own.strip_suffix(b"\r").unwrap_or(own));
        starts.push(start);
        start += line.len();
    }
    starts.push(start);
    let mut at = 0;
    std::iter::from_fn(move || {
        let line = *lines.get(at)?;
        let from = at;
        let Some(Heading { level, title, lines: count }) = heading(&lines, at) else {
            at += 1;
            return Some(Block::Line(line));
        };
        at += count;
        Some(Block::Heading { level, title, range: starts[from]..starts[at] })
    })
}

fn push_escaped(out: &mut Vec<u8>, text: &[u8]) {
    for byte in text {
        match byte {
            b'&' => out.extend_from_slice(b"&amp;"),
            b'<' => out.extend_from_slice(b"&lt;"),
            b'>' => out.extend_from_slice(b"&gt;"),
            other => out.push(*other),
        }
    }
}

struct Heading<'a> {
    level: usize,
    title: &'a [u8],
    /// That it takes.
    lines: usize,
}

/// The heading that begins with the line `at`, if one does.
fn heading<'a>(lines: &[&'a [u8]], at: usize) -> Option<Heading<'a>> {
    let line = lines[at];
    let is_blank = |line: Option<&&[u8]>| line.is_none_or(|line| line.trim_ascii().is_empty());
    let is_behind_blank = at == 0 || is_blank(lines.get(at - 1));
    let is_possible = is_behind_blank && !is_blank(Some(&line)) && line.len() <= HEADING_BYTES_MAX;
    if !is_possible {
        return None;
    }
    let title = line.trim_ascii();
    let below = lines.get(at + 1).and_then(|below| underline(below, title));
    if let Some(level) = below.filter(|_| line[0] != b' ' || is_blank(lines.get(at + 2))) {
        return Some(Heading { level, title, lines: 2 });
    }
    let signs = line.iter().take_while(|byte| **byte == b'#').count();
    if (1..=6).contains(&signs) && line.get(signs) == Some(&b' ') {
        let title = line[signs..].trim_ascii();
        return (!title.is_empty()).then_some(Heading { level: signs, title, lines: 1 });
    }
    let level = numbers(line).filter(|_| is_blank(lines.get(at + 1)))?;
    Some(Heading { level, title, lines: 1 })
}

/// The level that a line of one sign below `title` means.
fn underline(line: &[u8], title: &[u8]) -> Option<usize> {
    let line = line.trim_ascii();
    let sign = *line.first()?;
    let is_long = line.len() >= 3 && 2 * line.len() >= title.len();
    let is_line = is_long && line.iter().all(|byte| *byte == sign) && !title.iter().all(|byte| *byte == sign);
    match sign {
        _ if !is_line => None,
        b'=' => Some(1),
        b'-' => Some(2),
        b'~' | b'^' | b'*' | b'+' => Some(3),
        _ => None,
    }
}

/// How many numbers a line begins with, as `2.1. Title` with two. A sentence is no title, nor is a line without a
/// capital letter.
fn numbers(line: &[u8]) -> Option<usize> {
    let end = line.iter().position(|byte| !byte.is_ascii_digit() && *byte != b'.')?;
    let (number, rest) = line.split_at(end);
    let number = number.strip_suffix(b".").unwrap_or(number);
    let is_number = |part: &[u8]| (1..=3).contains(&part.len());
    let count = number.split(|byte| *byte == b'.').map(|part| usize::from(is_number(part))).sum::<usize>();
    let is_whole = count == number.split(|byte| *byte == b'.').count() && count <= 6;
    let title = rest.trim_ascii();
    let is_title = rest.first().is_some_and(|byte| matches!(byte, b' ' | b'\t'))
        && title.first().is_some_and(|byte| byte.is_ascii_uppercase() || !byte.is_ascii())
        && !title.last().is_some_and(|byte| b".,;:".contains(byte));
    (is_whole && is_title).then_some(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEXT: &str = "A manual\n========\n\nWords & <words>.\n\n1. First\n\nOne.\r\n\n1.1. Inside\n\nTwo.\n\nSecond\n------\nThree.\n\n\
                        ### Deep\n\n  name  size\n  ----  ----\n\n2. this is no title\n\n3. Nor is this.\n\n4. This neither\nas it goes on.\n";

    #[test]
    fn headings_of_a_text_are_sections() {
        let made = structure(TEXT.as_bytes(), "utf-8");
        let found: Vec<_> = made.sections.iter().map(|one| (one.level, &*one.text)).collect();
        let expected = [(0, ""), (1, "A manual"), (1, "1. First"), (2, "1.1. Inside"), (2, "Second"), (3, "Deep")];
        assert_eq!(found, expected);
        assert_eq!((&*made.title, made.charset.as_deref()), ("A manual", Some("utf-8")));
        let own = &TEXT[made.sections[1].range.clone()];
        assert_eq!(own, "A manual\n========\n\nWords & <words>.\n\n");
        let expected = "<h1>A manual</h1>\n<pre>\n\nWords &amp; &lt;words&gt;.\n\n</pre>\n";
        assert_eq!(String::from_utf8(html(own.as_bytes())).unwrap(), expected);
    }

    #[test]
    fn the_charset_is_that_of_the_media_type_or_utf_8() {
        for (media_type, expected) in [
            ("text/plain", "utf-8"),
            ("text/plain; charset=iso-8859-1", "iso-8859-1"),
            ("text/plain; a=b; Charset=\"KOI8-R\"", "KOI8-R"),
            ("text/plain; charset=\"><script>", "utf-8"),
        ] {
            assert_eq!(charset(media_type), expected);
        }
    }

    proptest! {
        #[test]
        fn everything_of_a_text_is_in_its_sections_as_text(text in "([a-b<&=#1. -]{0,6}\n?){0,12}") {
            let found = structure(text.as_bytes(), "utf-8");
            let parts = found.sections.iter().map(|section| html(text[section.range.clone()].as_bytes()));
            let made: String = parts.map(|part| String::from_utf8(part).unwrap()).collect();
            // The parts have the headings that the whole has: what is between two says nothing of others.
            prop_assert_eq!(made.matches("<h").count(), found.sections.len() - 1);
            let shown: String = made.split('<').map(|piece| piece.split_once('>').map_or(piece, |(_, rest)| rest)).collect();
            let shown = shown.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
            // Headings are without what makes them headings.
            let letters = |text: &str| text.chars().filter(|letter| "ab<&1".contains(*letter)).collect::<String>();
            prop_assert_eq!(letters(&shown), letters(&text));
        }
    }
}
