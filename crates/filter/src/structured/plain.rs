//! Texts that are no HTML, as pages that have sections.
//!
//! Owns: which lines of a text are headings. Guarantees: everything that is in the text is in the page, as text.
//!
//! | heading | level |
//! | --- | --- |
//! | a line behind an empty one, with a line of `=`, `-` or others below it | 1, 2 or 3 |
//! | a line behind an empty one that begins with one to six `#` and a space | as many |
//! | a line between empty ones that begins with a section's number (`2.1. Title`) | as many as it has numbers |

use std::fmt::Write as _;

use crate::html::escaped;

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

/// The page of `text`.
pub(super) fn page(text: &[u8], charset: &str) -> Vec<u8> {
    let lines: Vec<&[u8]> =
        text.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line)).collect();
    let mut body = Vec::with_capacity(text.len() + text.len() / 8);
    let mut title = None;
    let mut is_in_text = false;
    let mut at = 0;
    while let Some(line) = lines.get(at) {
        let Some(Heading { level, title: own, lines: count }) = heading(&lines, at) else {
            if !is_in_text {
                // A line break behind the tag is none of the text's.
                body.extend_from_slice(b"<pre>\n");
                is_in_text = true;
            }
            push_escaped(&mut body, line);
            body.push(b'\n');
            at += 1;
            continue;
        };
        if std::mem::take(&mut is_in_text) {
            body.extend_from_slice(b"</pre>\n");
        }
        body.extend_from_slice(format!("<h{level}>").as_bytes());
        push_escaped(&mut body, own);
        body.extend_from_slice(format!("</h{level}>\n").as_bytes());
        title.get_or_insert_with(|| String::from_utf8_lossy(own).into_owned());
        at += count;
    }
    if is_in_text {
        body.extend_from_slice(b"</pre>\n");
    }
    let mut page = String::new();
    // Writing to a string does not fail.
    let _ = writeln!(page, "<!doctype html>\n<html><head><meta charset=\"{charset}\">");
    let _ = writeln!(page, "<title>{}</title></head><body>", escaped(title.as_deref().unwrap_or_default()));
    [page.as_bytes(), &body, b"</body></html>\n"].concat()
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

/// How many numbers a line begins with, as `2.1. Title` with two. A sentence is no title, nor is a line without a capital letter.
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
    use super::super::Structure;
    use super::*;
    use proptest::prelude::*;

    const TEXT: &str = "A manual\n========\n\nWords & <words>.\n\n1. First\n\nOne.\r\n\n1.1. Inside\n\nTwo.\n\nSecond\n------\nThree.\n\n\
                        ### Deep\n\n  name  size\n  ----  ----\n\n2. this is no title\n\n3. Nor is this.\n\n4. This neither\nas it goes on.\n";

    #[test]
    fn headings_of_a_text_are_sections() {
        let made = page(TEXT.as_bytes(), "utf-8");
        let structure = Structure::of(&made);
        let found: Vec<_> = structure.sections.iter().map(|one| (one.level, &*one.text)).collect();
        let expected = [(0, ""), (1, "A manual"), (1, "1. First"), (2, "1.1. Inside"), (2, "Second"), (3, "Deep")];
        assert_eq!(found, expected);
        assert_eq!((&*structure.title, structure.charset.as_deref()), ("A manual", Some("utf-8")));
        let text = String::from_utf8(made).unwrap();
        assert!(text.contains("<pre>\n\nWords &amp; &lt;words&gt;.\n\n</pre>"), "{text}");
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
        fn everything_of_a_text_is_in_the_page_as_text(text in "([a-b<&=#1. -]{0,6}\n?){0,12}") {
            let made = String::from_utf8(page(text.as_bytes(), "utf-8")).unwrap();
            let body = made.split_once("<body>").unwrap().1;
            let shown: String = body.split('<').map(|piece| piece.split_once('>').map_or(piece, |(_, rest)| rest)).collect();
            let shown = shown.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
            // Headings are without what makes them headings.
            let letters = |text: &str| text.chars().filter(|letter| "ab<&1".contains(*letter)).collect::<String>();
            prop_assert_eq!(letters(&shown), letters(&text));
        }
    }
}
