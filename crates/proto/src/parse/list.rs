//! The syntax that header fields share: lists, parameters, tokens and quality values (RFC 9110 5.6 and 12.4.2).
//!
//! Guarantees: every iterator is bounded by the length of its input, and yields pieces of the input without the
//! optional whitespace around them. Does not know any particular field. Lists of entity tags are not read here: a
//! backslash in an entity tag escapes nothing.

/// The members of one line of a comma-separated list, empty ones left out (RFC 9110 5.6.1.2).
pub(crate) fn members(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    split(line, b',').filter(|member| !member.is_empty())
}

/// A member up to its first semicolon, and what the semicolons after that separate (RFC 9110 5.6.6).
pub(crate) fn parameters(member: &[u8]) -> (&[u8], impl Iterator<Item = &[u8]>) {
    let mut pieces = split(member, b';');
    let value = pieces.next().unwrap_or_default();
    (value, pieces.filter(|piece| !piece.is_empty()))
}

/// A quality value in thousandths, 0 to 1000, if `parameter` is a weight: `q=0.25` is `Some(Ok(250))`, `q=2` is
/// `Some(Err(Malformed))`, and `level=1` is `None` (RFC 9110 12.4.2).
pub(crate) fn weight(parameter: &[u8]) -> Option<Result<u16, Malformed>> {
    match parameter {
        [b'q' | b'Q', b'=', value @ ..] => Some(quality(value)),
        _ => None,
    }
}

/// The input does not follow its grammar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// `bytes` without the spaces and tabs at both ends (RFC 9110 5.6.3).
pub(crate) fn trim(mut bytes: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = bytes {
        bytes = rest;
    }
    bytes
}

/// Whether `byte` may be part of a token (RFC 9110 5.6.2).
pub const fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(byte, b'!' | b'#'..=b'\'' | b'*' | b'+' | b'-' | b'.' | b'^'..=b'`' | b'|' | b'~')
}

/// Splits at each `delimiter` outside of quoted strings (RFC 9110 5.6.4). A quoted string that never ends takes the
/// rest of the line with it.
fn split(line: &[u8], delimiter: u8) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(line);
    std::iter::from_fn(move || {
        let line = rest?;
        let end = unquoted_position(line, delimiter);
        rest = end.map(|end| &line[end + 1..]);
        Some(trim(&line[..end.unwrap_or(line.len())]))
    })
}

fn unquoted_position(line: &[u8], delimiter: u8) -> Option<usize> {
    let (mut quoted, mut escaped) = (false, false);
    line.iter().position(|&byte| {
        let found = byte == delimiter && !quoted;
        quoted ^= byte == b'"' && !escaped;
        escaped = byte == b'\\' && quoted && !escaped;
        found
    })
}

fn quality(value: &[u8]) -> Result<u16, Malformed> {
    let (whole, fraction) = match value {
        [whole] | [whole, b'.'] => (whole, &[][..]),
        [whole, b'.', fraction @ ..] if fraction.len() <= 3 => (whole, fraction),
        _ => return Err(Malformed),
    };
    if !matches!(whole, b'0' | b'1') || !fraction.iter().all(u8::is_ascii_digit) {
        return Err(Malformed);
    }
    let digits = [whole].into_iter().chain(fraction).chain(b"000").take(4);
    let thousandths = digits.fold(0, |sum, digit| sum * 10 + u16::from(digit - b'0'));
    if thousandths > 1000 { Err(Malformed) } else { Ok(thousandths) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn members_of(line: &str) -> Vec<&str> {
        members(line.as_bytes()).map(|member| std::str::from_utf8(member).unwrap()).collect()
    }

    // RFC 9110 5.6.1.2.
    #[test]
    fn empty_members_and_optional_whitespace_are_left_out() {
        assert_eq!(members_of("foo , ,bar,charlie"), ["foo", "bar", "charlie"]);
        assert_eq!(members_of(",\t, "), [""; 0]);
        assert_eq!(members_of(""), [""; 0]);
    }

    // RFC 9110 5.6.4.
    #[test]
    fn commas_in_quoted_strings_do_not_separate() {
        assert_eq!(members_of(r#"a="1,2", b="\",", c"#), [r#"a="1,2""#, r#"b="\",""#, "c"]);
        assert_eq!(members_of(r#"a, "b, c"#), ["a", r#""b, c"#]);
    }

    #[test]
    fn parameters_are_separated_by_semicolons() {
        let (value, parameters) = parameters(b"text/html ; level=1;;q=\"a;b\" ");
        assert_eq!(value, b"text/html");
        assert_eq!(parameters.collect::<Vec<_>>(), [&b"level=1"[..], b"q=\"a;b\""]);
    }

    // RFC 9110 12.4.2: at most three digits, at most one.
    #[test]
    fn weights_are_read_strictly() {
        let accepted: [(&[u8], u16); 9] = [
            (b"q=0", 0),
            (b"q=0.", 0),
            (b"q=0.001", 1),
            (b"q=0.5", 500),
            (b"q=0.25", 250),
            (b"Q=0.999", 999),
            (b"q=1", 1000),
            (b"q=1.", 1000),
            (b"q=1.000", 1000),
        ];
        for (parameter, thousandths) in accepted {
            assert_eq!(weight(parameter), Some(Ok(thousandths)));
        }
        for parameter in ["q=", "q=.5", "q=1.001", "q=2", "q=-1", "q=0.1234", "q=0,5", "q= 1", "q=1.1"] {
            assert_eq!(weight(parameter.as_bytes()), Some(Err(Malformed)), "{parameter}");
        }
        assert_eq!(weight(b"level=1"), None);
        assert_eq!(weight(b"q"), None);
    }

    #[test]
    fn tokens_have_no_separators() {
        let separators = b"\"(),/:;<=>?@[\\]{} \t\x00\x7f\x80";
        assert!(!separators.iter().any(|&byte| is_token_byte(byte)));
        assert_eq!((0..=255).filter(|&byte| is_token_byte(byte)).count(), 26 * 2 + 10 + 15);
    }

    proptest! {
        #[test]
        fn members_are_trimmed_pieces_of_the_line(line: Vec<u8>) {
            let total: usize = members(&line).map(<[u8]>::len).sum();
            prop_assert!(total <= line.len());
            for member in members(&line) {
                prop_assert_eq!(trim(member), member);
                prop_assert!(!member.is_empty());
            }
        }

        #[test]
        fn weights_never_exceed_one(parameter: Vec<u8>) {
            if let Some(Ok(thousandths)) = weight(&parameter) {
                prop_assert!(thousandths <= 1000);
            }
        }

        #[test]
        fn any_joined_tokens_come_apart_again(tokens in prop::collection::vec("[a-z]{1,5}", 0..6)) {
            let line = tokens.join(" ,\t");
            prop_assert_eq!(members_of(&line), tokens);
        }
    }
}
