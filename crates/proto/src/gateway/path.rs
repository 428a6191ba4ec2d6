//! The path of a request in the one spelling in which it goes to an application.
//!
//! Owns: [`write()`]. Guarantees: what is written is a path of RFC 3986 and means what
//! [`normalise`](crate::parse::path::normalise) found the received one to mean, so that no application finds another
//! path in it than our rules judged. Reserved characters keep the spelling in which they came, encoded or not, because
//! the two may differ to an application (RFC 3986 2.2).

use crate::parse::path::PathError;

/// Appends `path` to `out`: without dot segments and empty segments, unreserved characters as they are, everything else
/// that was encoded in upper-case digits, and encoded what RFC 3986 does not allow in a path. At most three times as
/// long as the path.
///
/// # Errors
/// Whatever [`normalise`](crate::parse::path::normalise) refuses; `out` is then as it was.
pub fn write(path: &[u8], out: &mut Vec<u8>) -> Result<(), PathError> {
    let start = out.len();
    append(path, out).inspect_err(|_| out.truncate(start))
}

/// Appends a path that was decoded, for a target that we make ourselves.
pub fn write_decoded(path: &[u8], out: &mut Vec<u8>) {
    for &byte in path {
        if byte == b'/' || is_plain(byte) { out.push(byte) } else { push_escaped(byte, out) }
    }
}

fn append(path: &[u8], out: &mut Vec<u8>) -> Result<(), PathError> {
    let relative = path.strip_prefix(b"/").ok_or(PathError::Relative)?;
    let root = out.len();
    out.push(b'/');
    let mut segments = relative.split(|&byte| byte == b'/').peekable();
    // Before each segment, `out` ends with a slash.
    while let Some(segment) = segments.next() {
        let start = out.len();
        append_segment(segment, out)?;
        match &out[start..] {
            b"" => {}
            b"." => out.truncate(start),
            b".." => {
                let parent = out[root..start - 1].iter().rposition(|&byte| byte == b'/').ok_or(PathError::AboveRoot)?;
                out.truncate(root + parent + 1);
            }
            _ if segments.peek().is_some() => out.push(b'/'),
            _ => {}
        }
    }
    Ok(())
}

fn append_segment(segment: &[u8], out: &mut Vec<u8>) -> Result<(), PathError> {
    let mut rest = segment;
    while let [byte, after @ ..] = rest {
        rest = after;
        match byte {
            b'%' => {
                let [high, low, after @ ..] = rest else { return Err(PathError::Escape) };
                let digit = |byte: &u8| char::from(*byte).to_digit(16).ok_or(PathError::Escape);
                // Two digits of 16 make at most 255.
                let byte = (digit(high)? * 16 + digit(low)?) as u8;
                rest = after;
                match byte {
                    0 => return Err(PathError::Nul),
                    b'/' => return Err(PathError::EncodedSlash),
                    _ if is_unreserved(byte) => out.push(byte),
                    _ => push_escaped(byte, out),
                }
            }
            0 => return Err(PathError::Nul),
            0x01..=0x1f | 0x7f => return Err(PathError::Control),
            b'\\' => return Err(PathError::Backslash),
            _ if is_plain(*byte) => out.push(*byte),
            _ => push_escaped(*byte, out),
        }
    }
    Ok(())
}

/// RFC 3986 2.3.
fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// pchar (RFC 3986 3.3), but for percent-encodings.
fn is_plain(byte: u8) -> bool {
    is_unreserved(byte)
        || matches!(byte, b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b';' | b'=' | b':' | b'@')
}

fn push_escaped(byte: u8, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    out.extend_from_slice(&[b'%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::path::normalise;
    use proptest::prelude::*;

    fn written(path: &str) -> Result<String, PathError> {
        let mut out = b"before".to_vec();
        let outcome = write(path.as_bytes(), &mut out);
        let text = String::from_utf8(out.split_off(6)).unwrap();
        assert_eq!(out, b"before");
        outcome.map(|()| text)
    }

    #[test]
    fn a_path_has_one_spelling() {
        for (received, expected) in [
            ("/", "/"),
            ("/a/b/", "/a/b/"),
            ("//a///b", "/a/b"),
            ("/a/./b/../c", "/a/c"),
            ("/a/%2e%2E/b", "/b"),
            ("/a/..", "/"),
            ("/%7Euser/%41", "/~user/A"),
            ("/a%3bb;c", "/a%3Bb;c"),
            ("/a|b\"<>^`{}[]", "/a%7Cb%22%3C%3E%5E%60%7B%7D%5B%5D"),
            ("/%c3%a9%5c%0a", "/%C3%A9%5C%0A"),
            ("/%252e%252e/", "/%252e%252e/"),
        ] {
            assert_eq!(written(received).as_deref(), Ok(expected), "{received}");
        }
    }

    #[test]
    fn what_could_mean_something_else_is_refused() {
        for (received, error) in [
            ("a", PathError::Relative),
            ("/..", PathError::AboveRoot),
            ("/a/../../b", PathError::AboveRoot),
            ("/%2e%2e/", PathError::AboveRoot),
            ("/a%2fb", PathError::EncodedSlash),
            ("/a%00", PathError::Nul),
            ("/a%0", PathError::Escape),
            ("/a%zz", PathError::Escape),
            ("/a\\b", PathError::Backslash),
            ("/a\tb", PathError::Control),
        ] {
            assert_eq!(written(received), Err(error), "{received}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_means_what_was_judged(
            path in prop_oneof!["/[ -~]{0,20}", "/((\\.|\\.\\.|%2e|%2F|%25|a|;|%3b|%00|%c3)/?){0,8}"],
        ) {
            let (mut judged, mut again) = (Vec::new(), Vec::new());
            let judgement = normalise(path.as_bytes(), &mut judged);
            match written(&path) {
                Ok(text) => {
                    prop_assert_eq!(judgement, Ok(()));
                    prop_assert_eq!(normalise(text.as_bytes(), &mut again), Ok(()));
                    prop_assert_eq!(&again, &judged);
                    prop_assert_eq!(written(&text), Ok(text.clone()));
                    prop_assert!(text.bytes().all(|byte| is_plain(byte) || matches!(byte, b'/' | b'%')));
                    let mut made = Vec::new();
                    write_decoded(&judged, &mut made);
                    prop_assert_eq!(normalise(&made, &mut again), Ok(()));
                    prop_assert_eq!(&again, &judged);
                }
                Err(error) => prop_assert_eq!(judgement, Err(error)),
            }
        }
    }
}
