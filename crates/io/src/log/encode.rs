//! Values as text at the end of a line.
//!
//! Owns: numbers and escapes. Guarantees that no bytes end the line or the quotation they are put into. Allocates
//! nothing but the growth of the line.

use std::io::Write as _;

use crate::log::calendar::{put_four_digits, put_two_digits};

pub(super) fn push_decimal(line: &mut Vec<u8>, mut number: u64) {
    // u64::MAX has twenty digits.
    let mut digits = [0; 20];
    let mut start = digits.len();
    loop {
        start -= 1;
        digits[start] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    line.extend_from_slice(&digits[start..]);
}

/// Microseconds as seconds with six decimals.
pub(super) fn push_seconds(line: &mut Vec<u8>, microseconds: u64) {
    push_decimal(line, microseconds / 1_000_000);
    let mut fraction = *b".000000";
    let rest = (microseconds % 1_000_000) as u32;
    put_two_digits(&mut fraction[1..3], (rest / 10_000) as u8);
    put_four_digits(&mut fraction[3..7], (rest % 10_000) as u16);
    line.extend_from_slice(&fraction);
}

/// Milliseconds as seconds with three decimals.
pub(super) fn push_milliseconds(line: &mut Vec<u8>, milliseconds: u64) {
    push_decimal(line, milliseconds / 1000);
    let rest = (milliseconds % 1000) as u16;
    let mut fraction = [b'.', b'0' + (rest / 100) as u8, b'0', b'0'];
    put_two_digits(&mut fraction[2..4], (rest % 100) as u8);
    line.extend_from_slice(&fraction);
}

/// Appends bytes as [`push_escaped`] does, and `end` as `\xhh`, unless that puts a backslash before it.
pub(super) fn push_escaped_but(line: &mut Vec<u8>, bytes: &[u8], end: u8) {
    if !(b' '..=b'~').contains(&end) || matches!(end, b'"' | b'\\') {
        return push_escaped(line, bytes);
    }
    for (index, part) in bytes.split(|byte| *byte == end).enumerate() {
        if index > 0 {
            push_hexadecimal(line, end);
        }
        push_escaped(line, part);
    }
}

/// Appends bytes as Apache's `ap_escape_logitem` does: quotation mark and backslash behind a backslash, control
/// characters as in C, everything else that is not printable ASCII as `\xhh`.
pub(super) fn push_escaped(line: &mut Vec<u8>, bytes: &[u8]) {
    if is_plain(bytes) {
        return line.extend_from_slice(bytes);
    }
    for &byte in bytes {
        match byte {
            b'"' | b'\\' => line.extend_from_slice(&[b'\\', byte]),
            b'\x08' => line.extend_from_slice(b"\\b"),
            b'\n' => line.extend_from_slice(b"\\n"),
            b'\r' => line.extend_from_slice(b"\\r"),
            b'\t' => line.extend_from_slice(b"\\t"),
            b'\x0b' => line.extend_from_slice(b"\\v"),
            b' '..=b'~' => line.push(byte),
            other => push_hexadecimal(line, other),
        }
    }
}

fn push_hexadecimal(line: &mut Vec<u8>, byte: u8) {
    const HEX_DIGITS: &[u8; 16] = b"0123456789abcdef";
    let (high, low) = (usize::from(byte >> 4), usize::from(byte & 15));
    line.extend_from_slice(&[b'\\', b'x', HEX_DIGITS[high], HEX_DIGITS[low]]);
}

/// Appends the inside of a JSON string (RFC 8259 7). Control characters are escaped, also those above ASCII (C1) and
/// the line and paragraph separators: terminals act on the former, and some readers end lines at the latter.
pub(super) fn push_json_escaped(line: &mut Vec<u8>, value: &[u8]) {
    if is_plain(value) {
        return line.extend_from_slice(value);
    }
    for chunk in value.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '"' | '\\' => line.extend_from_slice(&[b'\\', character as u8]),
                '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' => {
                    write!(line, "\\u{:04x}", u32::from(character)).expect("writing to memory cannot fail");
                }
                other => line.extend_from_slice(other.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        if !chunk.invalid().is_empty() {
            line.extend_from_slice("\u{fffd}".as_bytes());
        }
    }
}

/// Whether bytes stand for themselves in every format. Looks at all of them without a branch, which is several times
/// faster than stopping at the first that does not, as there hardly ever is one.
fn is_plain(bytes: &[u8]) -> bool {
    bytes.iter().fold(true, |plain, &byte| plain & (b' '..=b'~').contains(&byte) & (byte != b'"') & (byte != b'\\'))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn pushed(push: impl Fn(&mut Vec<u8>)) -> String {
        let mut line = Vec::new();
        push(&mut line);
        String::from_utf8(line).expect("UTF-8")
    }

    #[test]
    fn numbers_are_decimal() {
        for number in [0, 9, 10, 4312, u64::MAX] {
            assert_eq!(pushed(|line| push_decimal(line, number)), number.to_string());
        }
    }

    #[test]
    fn microseconds_are_seconds_with_six_decimals() {
        assert_eq!(pushed(|line| push_seconds(line, 0)), "0.000000");
        assert_eq!(pushed(|line| push_seconds(line, 12_345_678)), "12.345678");
    }

    #[test]
    fn escapes_are_apaches() {
        let escaped = pushed(|line| push_escaped(line, b"a\"b\\c\n\r\t\x08\x0b\x00\x1b\x7f\xff"));
        assert_eq!(escaped, "a\\\"b\\\\c\\n\\r\\t\\b\\v\\x00\\x1b\\x7f\\xff");
    }

    #[test]
    fn no_json_string_steers_a_terminal_or_ends_a_line() {
        let text = "\u{1f}\u{7f}\u{80}\u{85}\u{9b}2J\u{9f}\u{a0}\u{2028}\u{2029}\u{202a}é\u{1f600}";
        let escaped = pushed(|line| push_json_escaped(line, text.as_bytes()));
        let expected = "\\u001f\\u007f\\u0080\\u0085\\u009b2J\\u009f\u{a0}\\u2028\\u2029\u{202a}é\u{1f600}";
        assert_eq!(escaped, expected);
    }

    pub(in crate::log) fn any_bytes() -> impl Strategy<Value = Vec<u8>> {
        let awkward = b"\"\\\n\r\t /?\0\x7f\xe2\x82\xac\xff".map(|byte| vec![byte]).to_vec();
        let wide = ["\u{85}", "\u{9b}", "\u{2028}", "\u{2029}", "€"].map(|text| text.as_bytes().to_vec()).to_vec();
        let piece = prop_oneof![
            4 => proptest::sample::select(awkward),
            1 => proptest::sample::select(wide),
            4 => any::<u8>().prop_map(|byte| vec![byte]),
        ];
        vec(piece, 0..40).prop_map(|pieces| pieces.concat())
    }

    /// Undoes the combined format's escapes.
    fn unescape(text: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut rest = text.iter().copied();
        while let Some(byte) = rest.next() {
            bytes.push(match byte {
                b'\\' => match rest.next().expect("something is escaped") {
                    b'b' => 8,
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'v' => 11,
                    b'x' => {
                        let digits = [rest.next(), rest.next()].map(|digit| char::from(digit.expect("two digits")));
                        let digits = digits.map(|digit| digit.to_digit(16).expect("hexadecimal") as u8);
                        digits[0] << 4 | digits[1]
                    }
                    other => other,
                },
                other => other,
            });
        }
        bytes
    }

    proptest! {
        #[test]
        fn escapes_can_be_undone(bytes in any_bytes()) {
            let escaped = pushed(|line| push_escaped(line, &bytes));
            prop_assert_eq!(unescape(escaped.as_bytes()), bytes);
        }

        #[test]
        fn json_strings_have_the_text(bytes in any_bytes()) {
            let escaped = format!("\"{}\"", pushed(|line| push_json_escaped(line, &bytes)));
            let steers = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
            prop_assert!(!escaped.contains(steers));
            let text: String = serde_json::from_str(&escaped).expect("JSON");
            prop_assert_eq!(text, String::from_utf8_lossy(&bytes));
        }
    }
}
