//! The path of a request as it goes to an application: in one spelling, or as it came.
//!
//! Owns: [`write_asked`], the only way of a client's path to an application, and [`write()`], the one spelling.
//! Guarantees: what [`write()`] writes is a path of RFC 3986 and means what
//! [`normalise`](crate::parse::path::normalise) found the received one to mean, so that no application finds another
//! path in it than our rules judged. Reserved characters keep the spelling in which they came, encoded or not, because
//! the two may differ to an application (RFC 3986 2.2). A path that goes as it came is one in which no application
//! finds a path that has other rules. Knows no rules: they are asked for.

use crate::parse::path::{DotSegments, PathError, dot_segments, has_encoded_backslash, normalise_for_rules};
use crate::parse::percent::octet;

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

/// Appends `path` as it came, but for bytes above 0x7F, which are encoded. It has to be one that
/// [`normalise_for_rules`] takes.
fn write_as_sent(path: &[u8], out: &mut Vec<u8>) {
    for &byte in path {
        if byte.is_ascii() { out.push(byte) } else { push_escaped(byte, out) }
    }
}

/// Whether [`write_as_sent`] writes `written`.
fn is_as_sent(path: &[u8], written: &[u8]) -> bool {
    let mut rest = written;
    let is_next = |byte: &u8| {
        let behind = match rest {
            [first, behind @ ..] if byte.is_ascii() && first == byte => Some(behind),
            [b'%', escape @ ..] if !byte.is_ascii() => {
                octet(escape).filter(|(escaped, _)| escaped == byte).map(|(_, behind)| behind)
            }
            _ => None,
        };
        rest = behind.unwrap_or_default();
        behind.is_some()
    };
    path.iter().all(is_next) && rest.is_empty()
}

/// Calls `each` with every path that some application may find in `path`, which has no dot segment, if it gets it as it
/// came. They are decoded, as paths are that rules are compared with. An application decodes its path or not; takes an
/// encoded slash or backslash for a slash or not, before it looks at segments or after; and merges slashes or not. A
/// path may be told several times.
fn readings(path: &[u8], each: &mut dyn FnMut(&[u8])) {
    let mut reading = Vec::with_capacity(path.len());
    let mut merged = Vec::with_capacity(path.len());
    for decoding in DECODINGS {
        reading.clear();
        decoding.decode(path, &mut reading);
        each(&reading);
        merged.clear();
        merge(&reading, &mut merged);
        each(&merged);
    }
}

/// How an application takes a path apart.
#[derive(Clone, Copy)]
struct Decoding {
    decodes: bool,
    slashes: bool,
    backslashes: bool,
}

const DECODINGS: [Decoding; 5] = [
    Decoding { decodes: false, slashes: false, backslashes: false },
    Decoding { decodes: true, slashes: false, backslashes: false },
    Decoding { decodes: true, slashes: true, backslashes: false },
    Decoding { decodes: true, slashes: false, backslashes: true },
    Decoding { decodes: true, slashes: true, backslashes: true },
];

impl Decoding {
    fn decode(self, path: &[u8], out: &mut Vec<u8>) {
        let mut rest = path;
        while let [byte, after @ ..] = rest {
            let escape = if *byte == b'%' && self.decodes { octet(after) } else { None };
            rest = escape.map_or(after, |(_, after)| after);
            match escape {
                None => out.push(*byte),
                Some((b'/', _)) if !self.slashes => out.extend_from_slice(b"%2F"),
                Some((b'\\', _)) if self.backslashes => out.push(b'/'),
                Some((byte, _)) => out.push(byte),
            }
        }
    }
}

fn merge(path: &[u8], out: &mut Vec<u8>) {
    for &byte in path {
        if byte != b'/' || out.last() != Some(&b'/') {
            out.push(byte);
        }
    }
}

/// Appends a path that was decoded, for a target that we make ourselves.
pub fn write_decoded(path: &[u8], out: &mut Vec<u8>) {
    for &byte in path {
        if byte == b'/' || is_plain(byte) { out.push(byte) } else { push_escaped(byte, out) }
    }
}

/// The spellings in which an application may be asked for a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spelling {
    /// As the client has sent it, where no rule tells its readings apart.
    AsSent,
    /// That of [`write()`].
    Normal,
}

/// Appends `path` in `spelling`. `are_alike` says whether the rules for two paths, decoded, are the same: the first is
/// the one that rules go by. The application does not get the first `prefix_bytes` of it, if it begins as rules see it.
/// A path whose [`readings`] rules tell apart goes in the one spelling, or not at all if it has none. So does one with
/// dot segments, of which there are only the resolved ones for rules, and one in which somebody finds `//` at the
/// beginning: what follows that is an authority in a reference (RFC 3986 4.2), such as one that leads to the same path.
///
/// # Errors
/// Whatever [`normalise`](crate::parse::path::normalise) refuses, an encoded slash or backslash by which
/// readings differ, and dot segments that only some readers see; `out` is then as it was.
pub fn write_asked(
    path: &[u8],
    spelling: Spelling,
    prefix_bytes: usize,
    are_alike: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    out: &mut Vec<u8>,
) -> Result<(), PathError> {
    let start = out.len();
    let written = write(path, out);
    let dots = match &out[start..] == path {
        // Whatever may hide one is encoded or a semicolon.
        true if memchr::memchr2(b'%', b';', path).is_none() => return written,
        _ => dot_segments(path),
    };
    let has_backslash = has_encoded_backslash(path);
    let is_refused = match &written {
        Err(PathError::EncodedSlash) => spelling == Spelling::Normal || dots != DotSegments::None,
        Err(_) => true,
        // It has no one spelling: an application takes it for a slash, or not.
        Ok(()) => {
            dots == DotSegments::Hidden || has_backslash && (spelling == Spelling::Normal || dots != DotSegments::None)
        }
    };
    if is_refused {
        out.truncate(start);
        let of_dots = if dots == DotSegments::None { PathError::Backslash } else { PathError::HiddenDots };
        return Err(written.err().unwrap_or(of_dots));
    }
    let is_as_sent = written.is_ok() && is_as_sent(path, &out[start..]);
    if spelling == Spelling::Normal || dots != DotSegments::None || is_as_sent && !has_backslash {
        return written;
    }
    let mut judged = Vec::new();
    normalise_for_rules(path, &mut judged)?;
    let prefix = path.get(..prefix_bytes).filter(|prefix| judged.starts_with(prefix)).unwrap_or_default();
    let mut is_one = true;
    let mut whole = Vec::new();
    readings(&path[prefix.len()..], &mut |reading| {
        whole.clear();
        whole.extend_from_slice(prefix);
        whole.extend_from_slice(reading);
        is_one = is_one && !reading.starts_with(b"//") && (whole == judged || are_alike(&judged, &whole));
    });
    if is_one {
        out.truncate(start);
        write_as_sent(path, out);
        return Ok(());
    }
    match has_backslash {
        true => Err(PathError::Backslash).inspect_err(|_| out.truncate(start)),
        false => written,
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

    /// Whether a rule about `/admin` is one about `path`.
    fn is_admin(path: &[u8]) -> bool {
        path.strip_prefix(b"/admin").is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
    }

    fn asked(path: &str, spelling: Spelling, rule: fn(&[u8]) -> bool) -> Result<String, PathError> {
        let mut out = b"before".to_vec();
        let mut are_alike = |one: &[u8], other: &[u8]| rule(one) == rule(other);
        let outcome = write_asked(path.as_bytes(), spelling, 0, &mut are_alike, &mut out);
        let text = String::from_utf8(out.split_off(6)).unwrap();
        assert_eq!(out, b"before");
        assert!(outcome.is_ok() || text.is_empty());
        outcome.map(|()| text)
    }

    #[test]
    fn a_path_goes_as_it_came_where_one_rule_is_for_all() {
        for same in [
            "/",
            "/a/b/",
            "/api/queues/%2F/q",
            "/a//b",
            "/%7Euser/%41",
            "/a|b\"<>^`{}[]",
            "/%c3%a9%5c%0a",
            "/a;b=c",
            "/https://example.com/x",
            "/a%2fb%2F",
        ] {
            assert_eq!(asked(same, Spelling::AsSent, |_| true).as_deref(), Ok(same), "{same}");
        }
        assert_eq!(asked("/caf\u{e9}%c3", Spelling::AsSent, |_| true).as_deref(), Ok("/caf%C3%A9%c3"));
        // In a reference, what follows two slashes would be a host.
        assert_eq!(asked("//host/%61", Spelling::AsSent, |_| true).as_deref(), Ok("/host/a"));
        for path in ["/%2Fhost", "/%5Chost", "//a%2F"] {
            assert!(asked(path, Spelling::AsSent, |_| true).is_err(), "{path}");
        }
        // Clients resolve dot segments before they ask.
        assert_eq!(asked("/a//../%62", Spelling::AsSent, |_| true).as_deref(), Ok("/b"));
    }

    #[test]
    fn a_path_that_rules_read_in_two_ways_goes_in_one_spelling_or_not_at_all() {
        for (path, expected) in [
            ("/%61dmin", Ok("/admin")),
            ("//admin/", Ok("/admin/")),
            ("/x//admin", Ok("/x//admin")),
            ("//x/admin", Ok("/x/admin")),
            ("/admin//x", Ok("/admin//x")),
            ("/admin%2Fsecret", Err(PathError::EncodedSlash)),
            ("/admin/a%2Fb", Ok("/admin/a%2Fb")),
            ("/%2Fadmin", Err(PathError::EncodedSlash)),
            ("/%2Fx/admin", Err(PathError::EncodedSlash)),
            ("/x/..%2Fadmin", Err(PathError::EncodedSlash)),
            ("/x%2F..%2Fadmin", Err(PathError::EncodedSlash)),
            ("/x%2F../admin", Err(PathError::EncodedSlash)),
            ("/x/%2e%2e%2Fadmin", Err(PathError::EncodedSlash)),
            ("/x/../admin", Ok("/admin")),
            ("/x/..%5Cadmin", Err(PathError::HiddenDots)),
            ("/%5Cadmin", Err(PathError::Backslash)),
            ("/%5Cadmin/.", Err(PathError::HiddenDots)),
            ("/x/..;/admin", Err(PathError::HiddenDots)),
            ("/admin%00", Err(PathError::Nul)),
            ("/../admin", Err(PathError::AboveRoot)),
        ] {
            assert_eq!(asked(path, Spelling::AsSent, is_admin).as_deref(), expected.as_deref(), "{path}");
        }
    }

    #[test]
    fn a_prefix_that_the_application_does_not_get_hides_no_slashes() {
        for (path, expected) in [
            ("/app/a%2Fb//c", Some("/app/a%2Fb//c")),
            ("/app", Some("/app")),
            ("/app//host/%61", Some("/app/host/a")),
            ("/app/%2Fhost", None),
            ("/app%2Fa%2Fb", None),
        ] {
            let mut out = Vec::new();
            let mut are_alike = |one: &[u8], other: &[u8]| one.starts_with(b"/app/") == other.starts_with(b"/app/");
            let outcome = write_asked(path.as_bytes(), Spelling::AsSent, 4, &mut are_alike, &mut out);
            assert_eq!(outcome.is_ok().then_some(&*out), expected.map(str::as_bytes), "{path}");
        }
    }

    #[test]
    fn an_application_may_have_the_one_spelling_only() {
        for (path, expected) in [
            ("/a//b/%7E|", Ok("/a/b/~%7C")),
            ("/a%2Fb", Err(PathError::EncodedSlash)),
            ("/a/..;/b", Err(PathError::HiddenDots)),
            ("/a%5Cb", Err(PathError::Backslash)),
        ] {
            assert_eq!(asked(path, Spelling::Normal, |_| true).as_deref(), expected.as_deref(), "{path}");
        }
    }

    /// The paths that applications find in a target: by the order in which they decode, split and resolve it.
    fn found_by_applications(target: &str) -> Vec<Vec<u8>> {
        let decoded = crate::parse::percent::decoded(target.as_bytes()).into_owned();
        let backslashes = |path: &[u8]| path.iter().map(|&byte| if byte == b'\\' { b'/' } else { byte }).collect();
        let segments =
            target.split('/').map(|one| crate::parse::percent::decoded(one.as_bytes()).replace(b'/', b"%2F"));
        let split_first = segments.collect::<Vec<_>>().join(&b'/');
        let mut found = vec![target.as_bytes().to_vec(), split_first, backslashes(&decoded), decoded];
        for at in 0..found.len() {
            let kept: Vec<&[u8]> = found[at].split(|&byte| byte == b'/').collect();
            // As of a file system: neither empty segments nor dots.
            let mut resolved: Vec<&[u8]> = Vec::new();
            for segment in &kept {
                match *segment {
                    b"" | b"." => {}
                    b".." => _ = resolved.pop(),
                    other => resolved.push(other),
                }
            }
            // As of RFC 3986: empty segments are some.
            let mut strict: Vec<&[u8]> = Vec::new();
            for segment in &kept[1..] {
                match *segment {
                    b"." => {}
                    b".." => _ = strict.pop(),
                    other => strict.push(other),
                }
            }
            let rooted = |segments: &[&[u8]]| [b"/", &segments.join(&b'/')[..]].concat();
            let (resolved, strict) = (rooted(&resolved), rooted(&strict));
            found.extend([resolved, strict]);
        }
        found
    }

    trait Replace {
        fn replace(&self, byte: u8, with: &[u8]) -> Vec<u8>;
    }

    impl Replace for std::borrow::Cow<'_, [u8]> {
        fn replace(&self, byte: u8, with: &[u8]) -> Vec<u8> {
            self.iter().flat_map(|one| if *one == byte { with.to_vec() } else { vec![*one] }).collect()
        }
    }

    proptest! {
        #[test]
        fn no_application_finds_a_path_that_has_other_rules(
            path in "/((a|admin|%61dmin|\\.|\\.\\.|%2e|%2F|%5C|//|;x|%25)/?){0,6}", is_as_sent: bool,
        ) {
            let spelling = if is_as_sent { Spelling::AsSent } else { Spelling::Normal };
            let mut judged = Vec::new();
            if let Ok(target) = asked(&path, spelling, is_admin) {
                normalise_for_rules(path.as_bytes(), &mut judged).unwrap();
                for found in found_by_applications(&target) {
                    let shown = String::from_utf8_lossy(&found);
                    prop_assert_eq!(is_admin(&found), is_admin(&judged), "{} {}", target, shown);
                }
            }
        }

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
