//! Whether text is UTF-8, as its media type says by default.
//!
//! Owns: [`is_utf8`]. Guarantees: what is in the field `Content-Type` counts before what is in the text (RFC 7303 3,
//! and the HTML standard), so nothing is said there of text that says or is something else. Looks at the beginning
//! only for what the text says of itself. Pure, and bounded by what it is given.

/// Bytes of a file that may say which encoding it has: those that the HTML standard looks at.
pub(super) const LOOKED_AT_BYTES: usize = 1024;

/// The end of the media type of text that is taken to be UTF-8.
const PARAMETER: &str = "; charset=utf-8";

/// The media type without its parameter, if that says UTF-8.
pub(super) fn without_charset(media_type: &str) -> Option<&str> {
    media_type.strip_suffix(PARAMETER)
}

/// Whether text that begins with `content` is in UTF-8, and says nothing else. `is_whole`: nothing follows.
pub(super) fn is_utf8(content: &[u8], is_whole: bool) -> bool {
    let is_valid = match std::str::from_utf8(content) {
        Ok(_) => true,
        // The rest of the last character follows.
        Err(error) => !is_whole && error.error_len().is_none(),
    };
    // A byte order mark is certain, and counts before all that is said.
    is_valid && (content.starts_with(b"\xef\xbb\xbf") || declared(content).is_none_or(means_utf8))
}

/// The encoding that text says it has.
fn declared(content: &[u8]) -> Option<&[u8]> {
    let beginning = &content[..content.len().min(LOOKED_AT_BYTES)];
    of_css(beginning).or_else(|| of_xml(beginning)).or_else(|| of_html(beginning))
}

/// Whether a label names UTF-8 (Encoding standard 4.2). UTF-16 means it, because no label could be read in UTF-16 (HTML
/// standard 13.2.3.2).
fn means_utf8(label: &[u8]) -> bool {
    const LABELS: [&[u8]; 9] = [
        b"utf-8",
        b"utf8",
        b"unicode-1-1-utf-8",
        b"unicode11utf8",
        b"unicode20utf8",
        b"x-unicode20utf8",
        b"utf-16",
        b"utf-16le",
        b"utf-16be",
    ];
    let label = label.trim_ascii();
    LABELS.iter().any(|one| label.eq_ignore_ascii_case(one))
}

/// `@charset "...";` (CSS Syntax 3.2): with these bytes, and at the very beginning.
fn of_css(text: &[u8]) -> Option<&[u8]> {
    until(text.strip_prefix(b"@charset \"")?, b"\"")
}

/// `<?xml version="1.0" encoding="..."?>`, at the very beginning.
fn of_xml(text: &[u8]) -> Option<&[u8]> {
    let declaration = until(text.strip_prefix(b"<?xml")?, b">")?;
    let at = memchr::memmem::find(declaration, b"encoding")?;
    value(&declaration[at + b"encoding".len()..])
}

/// The first `<meta>` that names one: by `charset`, or in the `content` of an `http-equiv`.
fn of_html(text: &[u8]) -> Option<&[u8]> {
    let mut rest = text;
    while let Some(at) = memchr::memchr(b'<', rest) {
        rest = &rest[at + 1..];
        if let Some(comment) = rest.strip_prefix(b"!--") {
            rest = &comment[memchr::memmem::find(comment, b"-->")?..];
        } else if starts_with(rest, b"meta")
            && rest.get(4).is_some_and(|byte| byte.is_ascii_whitespace() || *byte == b'/')
        {
            let tag = until(rest, b">")?;
            if let Some(label) = named(tag) {
                return Some(label);
            }
            rest = &rest[tag.len()..];
        }
    }
    None
}

/// The value of the first `charset=` in a tag.
fn named(tag: &[u8]) -> Option<&[u8]> {
    const NAME: &[u8] = b"charset";
    let mut places = (0..tag.len()).filter(|at| starts_with(&tag[*at..], NAME));
    places.find_map(|at| value(&tag[at + NAME.len()..]))
}

/// The value behind `=`, in quotes or without.
fn value(text: &[u8]) -> Option<&[u8]> {
    let text = text.trim_ascii_start().strip_prefix(b"=")?.trim_ascii_start();
    match text {
        [quote @ (b'"' | b'\''), rest @ ..] => until(rest, &[*quote]),
        _ => text.split(|byte| byte.is_ascii_whitespace() || b"\"';/>".contains(byte)).next(),
    }
}

/// The text before `end`, if that is there.
fn until<'t>(text: &'t [u8], end: &[u8]) -> Option<&'t [u8]> {
    memchr::memmem::find(text, end).map(|at| &text[..at])
}

/// Whether `text` begins with `lower`, in any case.
fn starts_with(text: &[u8], lower: &[u8]) -> bool {
    text.get(..lower.len()).is_some_and(|beginning| beginning.eq_ignore_ascii_case(lower))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn text_that_says_nothing_else_is_utf8() {
        for text in [
            "",
            "plain",
            "caf\u{e9}",
            "<meta charset=utf-8>",
            "<!doctype html><META  CharSet = 'UTF8' />",
            "<meta http-equiv=Content-Type content=\"text/html; charset=UTF-8\">",
            "<!-- <meta charset=iso-8859-1> --><p>",
            "<metadata charset=x>",
            "<p>charset=iso-8859-1",
            "<?xml version=\"1.0\"?><a encoding=\"x\"/>",
            "<?xml version='1.0' encoding='utf-8'?>",
            " <?xml encoding='latin1'?>",
            "@charset \"utf-8\";",
            " @charset \"latin1\";",
            "\u{feff}<meta charset=iso-8859-1>",
            "<meta charset=utf-16>",
        ] {
            assert!(is_utf8(text.as_bytes(), true), "{text}");
        }
        let late = format!("{}<meta charset=iso-8859-1>", " ".repeat(LOOKED_AT_BYTES));
        assert!(is_utf8(late.as_bytes(), true), "nobody looks there");
    }

    #[test]
    fn text_that_says_or_is_something_else_is_not() {
        for text in [
            &b"caf\xe9"[..],
            b"\xff\xfea\0",
            b"\xfe\xff\0a",
            b"<meta charset=iso-8859-1>",
            b"<!doctype html><META name=x><Meta\nCHARSET='Shift_JIS'>",
            b"<meta content='text/html;charset=windows-1252' http-equiv=content-type>",
            b"<!-- --><meta charset=gbk>",
            b"<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?><a/>",
            b"<?xml version='1.0' encoding = 'Shift_JIS' ?>",
            b"@charset \"windows-1251\"; a {}",
        ] {
            assert!(!is_utf8(text, true), "{}", text.escape_ascii());
        }
    }

    #[test]
    fn a_character_may_go_on_behind_the_beginning_of_a_text() {
        let text = "caf\u{e9}".as_bytes();
        assert!(is_utf8(&text[..text.len() - 1], false));
        assert!(!is_utf8(&text[..text.len() - 1], true));
        assert!(!is_utf8(b"caf\xe9t", false));
    }

    #[test]
    fn only_a_type_that_says_utf8_has_it_taken_away() {
        assert_eq!(without_charset("text/html; charset=utf-8"), Some("text/html"));
        assert_eq!(without_charset("text/html; charset=gbk"), None);
        assert_eq!(without_charset("image/png"), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_judged(text in "(<|!--|-->|meta|charset|=|'|\"|>|<\\?xml|encoding|utf-8|\\PC| ){0,40}", at in 0..60usize) {
            let bytes = text.as_bytes();
            is_utf8(&bytes[..at.min(bytes.len())], false);
        }
    }
}
