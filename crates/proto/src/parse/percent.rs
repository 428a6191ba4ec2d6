//! Percent-encoding (RFC 3986 2.1), decoded.
//!
//! Owns: which three bytes stand for one. Does not judge what comes out: a path does ([`super::path`]).

use std::borrow::Cow;

/// The byte that the two hexadecimal digits behind a `%` stand for, and the rest behind them.
pub(crate) fn octet(digits: &[u8]) -> Option<(u8, &[u8])> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let [high, low, rest @ ..] = digits else { return None };
    // Two digits of 16 make at most 255.
    Some(((digit(*high)? * 16 + digit(*low)?) as u8, rest))
}

/// `text` decoded. A `%` without two digits behind it stays.
pub fn decoded(text: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memchr(b'%', text).is_none() {
        return text.into();
    }
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, behind @ ..] = rest {
        let (byte, left) = octet(behind).filter(|_| *first == b'%').unwrap_or((*first, behind));
        out.push(byte);
        rest = left;
    }
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percent_sign_without_two_digits_stays() {
        let examples = [("a%20b", "a b"), ("%41%6a%6A", "Ajj"), ("100%", "100%"), ("%4", "%4"), ("%+4%g0", "%+4%g0")];
        for (text, expected) in examples.into_iter().chain([("%2541", "%41"), ("%%41", "%A"), ("", "")]) {
            assert_eq!(&*decoded(text.as_bytes()), expected.as_bytes(), "{text}");
        }
    }
}
