//! Paths of request targets, decoded (RFC 3986 2.1, 3.3 and 5.2.4).
//!
//! Owns: the one place where a path is decoded. A path that [`normalise`] gives out names exactly one thing beneath a
//! root, in one way; what could mean something else to a file system is refused rather than repaired. Does not know any
//! file system, and does not keep links from leading elsewhere.

use std::fmt;

use super::percent::octet;

/// Why a path was refused. All are the client's fault: 400.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathError {
    /// It does not begin with a slash.
    Relative,
    /// A percent sign without two hexadecimal digits.
    Escape,
    /// NUL, which ends names in system calls.
    Nul,
    /// A raw control byte: no target has one. Encoded, it is a byte of a name like any other.
    Control,
    /// `%2f`: a slash that does not separate, which no file name can hold.
    EncodedSlash,
    /// A raw backslash, which no URI has: some clients mean a slash by it. Encoded, it is a byte of a name.
    Backslash,
    /// `..` at the root.
    AboveRoot,
    /// A dot segment that only some applications see ([`DotSegments::Hidden`]).
    HiddenDots,
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PathError::Relative => "the path does not begin with a slash",
            PathError::Escape => "the path has a percent sign without two hexadecimal digits",
            PathError::Nul => "the path has a NUL",
            PathError::Control => "the path has a control byte that is not encoded",
            PathError::EncodedSlash => "the path has an encoded slash",
            PathError::Backslash => "the path has a backslash that is not encoded",
            PathError::AboveRoot => "the path leads above the root",
            PathError::HiddenDots => "the path has a dot segment beside an encoded slash or parameters",
        })
    }
}

impl std::error::Error for PathError {}

/// Decodes a path and removes what does not name anything, into `out`, whose former content is lost.
///
/// Percent-encodings are decoded exactly once, and only then are `.` and `..` resolved, so that an encoding cannot hide
/// them. Repeated slashes become one. The result begins with a slash, and ends with one if the path ended with `/`,
/// `/.` or `/..`; it is not longer than the path. A segment may hold any byte that a name of a file may: all but NUL
/// and the slash, so line ends, backslashes and bytes that are not UTF-8, too. Whoever shows it must escape it. It may
/// hold percent signs (from `%25`): do not normalise it again.
///
/// # Errors
/// See [`PathError`]; `out` is then empty.
pub fn normalise(path: &[u8], out: &mut Vec<u8>) -> Result<(), PathError> {
    out.clear();
    normalise_into(path, out).inspect_err(|_| out.clear())
}

/// The same for the rules of a request that an application may answer, which may read `%2F` as a slash: here it
/// separates as one. Says how long what came before the first one is in `out`; none if there is none. No file has a
/// name with a slash, so that a path with one leads to no file behind that place.
///
/// # Errors
/// As [`normalise`]; and [`PathError::EncodedSlash`] if there is a dot segment beside an encoded slash.
pub fn normalise_for_rules(path: &[u8], out: &mut Vec<u8>) -> Result<Option<usize>, PathError> {
    let Some(first) = encoded_slash(path) else { return normalise(path, out).map(|()| None) };
    out.clear();
    let mut separated = path[..first].to_vec();
    let mut rest = &path[first..];
    while let Some(at) = encoded_slash(rest) {
        separated.extend_from_slice(&rest[..at]);
        separated.push(b'/');
        rest = &rest[at + ENCODED_SLASH.len()..];
    }
    separated.extend_from_slice(rest);
    if dot_segments(&separated) != DotSegments::None {
        return Err(PathError::EncodedSlash);
    }
    normalise(&path[..first], out)?;
    let before = out.len();
    normalise(&separated, out)?;
    Ok(Some(before))
}

const ENCODED_SLASH: &[u8] = b"%2f";

/// Where the first encoded slash of a path begins.
pub fn encoded_slash(path: &[u8]) -> Option<usize> {
    find_escape(path, ENCODED_SLASH)
}

/// Whether a path has an encoded backslash, which some systems take for a slash.
pub fn has_encoded_backslash(path: &[u8]) -> bool {
    find_escape(path, b"%5c").is_some()
}

fn find_escape(path: &[u8], escape: &[u8]) -> Option<usize> {
    let is_there = |at: &usize| path[*at..].get(..escape.len()).is_some_and(|one| one.eq_ignore_ascii_case(escape));
    memchr::memchr_iter(b'%', path).find(is_there)
}

/// The segments `.` and `..` of a path, however they are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DotSegments {
    /// There are none.
    None,
    /// Each is a segment of its own for every reader.
    Plain,
    /// One is there for some readers only: beside an encoded slash or backslash, or with parameters (`..;a=b`), which
    /// servlets leave out (RFC 3986 3.3).
    Hidden,
}

/// Finds the dot segments of a path.
pub fn dot_segments(path: &[u8]) -> DotSegments {
    let mut found = DotSegments::None;
    for segment in path.split(|&byte| byte == b'/') {
        // Dots since the last separator; none if there was something else.
        let mut dots = Some(0);
        let mut is_whole = true;
        let mut rest = segment;
        while let [byte, after @ ..] = rest {
            let (byte, after) = if *byte == b'%' { octet(after).unwrap_or((b'%', after)) } else { (*byte, after) };
            rest = after;
            match byte {
                b'/' | b'\\' | b';' => {
                    if matches!(dots, Some(1 | 2)) {
                        return DotSegments::Hidden;
                    }
                    // What follows a semicolon is a parameter.
                    dots = (byte != b';').then_some(0);
                    is_whole = false;
                }
                b'.' => dots = dots.map(|dots| dots + 1),
                _ => dots = None,
            }
        }
        match (dots, is_whole) {
            (Some(1 | 2), true) => found = DotSegments::Plain,
            (Some(1 | 2), false) => return DotSegments::Hidden,
            _ => {}
        }
    }
    found
}

/// Whether [`normalise`] would give `path` out as it is. False for some of which it would, names that begin with a dot:
/// it is for one look at each byte of every request.
pub fn is_normal(path: &[u8]) -> bool {
    let mut previous = 0;
    path.first() == Some(&b'/')
        && path.iter().all(|&byte| {
            let follows_slash = std::mem::replace(&mut previous, byte) == b'/';
            PLAIN[usize::from(byte)] && !(follows_slash && matches!(byte, b'/' | b'.'))
        })
}

/// Bytes that stand for themselves in a path.
static PLAIN: [bool; 256] = {
    let mut table = [true; 256];
    let mut control = 0;
    while control < 0x20 {
        table[control] = false;
        control += 1;
    }
    table[0x7f] = false;
    table[b'%' as usize] = false;
    table[b'\\' as usize] = false;
    table
};

fn normalise_into(path: &[u8], out: &mut Vec<u8>) -> Result<(), PathError> {
    let relative = path.strip_prefix(b"/").ok_or(PathError::Relative)?;
    out.push(b'/');
    let mut segments = relative.split(|&byte| byte == b'/').peekable();
    // Before each segment, `out` ends with a slash.
    while let Some(segment) = segments.next() {
        let start = out.len();
        decode(segment, out)?;
        match &out[start..] {
            b"" => {}
            b"." => out.truncate(start),
            b".." => out.truncate(parent_len(&out[..start])?),
            _ if segments.peek().is_some() => out.push(b'/'),
            _ => {}
        }
    }
    Ok(())
}

/// Bytes of the parent of a directory, both with a slash at the end.
fn parent_len(directory: &[u8]) -> Result<usize, PathError> {
    let name = directory.strip_suffix(b"/").unwrap_or(directory);
    let slash = memchr::memrchr(b'/', name).ok_or(PathError::AboveRoot)?;
    Ok(slash + 1)
}

/// Appends a segment, decoded and checked.
fn decode(mut segment: &[u8], out: &mut Vec<u8>) -> Result<(), PathError> {
    while let [byte, rest @ ..] = segment {
        let (byte, rest) = match byte {
            b'%' => octet(rest).ok_or(PathError::Escape)?,
            0x01..=0x1f | 0x7f => return Err(PathError::Control),
            b'\\' => return Err(PathError::Backslash),
            _ => (*byte, rest),
        };
        out.push(checked(byte)?);
        segment = rest;
    }
    Ok(())
}

fn checked(byte: u8) -> Result<u8, PathError> {
    match byte {
        0 => Err(PathError::Nul),
        // Segments are split at raw slashes, so this one was encoded.
        b'/' => Err(PathError::EncodedSlash),
        _ => Ok(byte),
    }
}

/// Whether a normalised path leads through a hidden name, one that begins with a dot. `/.well-known` is not hidden, as
/// it is reserved for what everybody may read (RFC 8615), but only there.
pub fn is_hidden(normalised: &[u8]) -> bool {
    let is_hidden =
        |(index, segment): (usize, &[u8])| segment.starts_with(b".") && !(index == 0 && segment == b".well-known");
    normalised.split(|&byte| byte == b'/').skip(1).enumerate().any(is_hidden)
}

/// `path` with everything that may not stand in a Location percent-encoded; slashes stay.
pub fn encode(path: &[u8]) -> String {
    let mut encoded = String::with_capacity(path.len());
    for (index, segment) in path.split(|&byte| byte == b'/').enumerate() {
        if index > 0 {
            encoded.push('/');
        }
        push_segment(&mut encoded, segment);
    }
    encoded
}

/// `target`, which has no control bytes, with bytes above 0x7F percent-encoded: as it may stand in a URL.
pub fn to_ascii(target: &[u8]) -> String {
    let mut url = String::with_capacity(target.len());
    for byte in target {
        match byte.is_ascii() {
            true => url.push(char::from(*byte)),
            false => push_segment(&mut url, &[*byte]),
        }
    }
    url
}

/// Appends bytes as one segment of a URL's path: all but the unreserved characters (RFC 3986 2.3) are percent-encoded,
/// so that the result needs no escaping in HTML either.
pub fn push_segment(url: &mut String, segment: &[u8]) {
    const HEX_DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in segment {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            url.push(char::from(byte));
        } else {
            url.push('%');
            url.push(char::from(HEX_DIGITS[usize::from(byte >> 4)]));
            url.push(char::from(HEX_DIGITS[usize::from(byte & 15)]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn normalised(path: &str) -> Result<String, PathError> {
        let mut out = b"left over".to_vec();
        let result = normalise(path.as_bytes(), &mut out);
        assert!(result.is_ok() || out.is_empty());
        result.map(|()| String::from_utf8_lossy(&out).into_owned())
    }

    #[test]
    fn encodings_are_decoded_exactly_once() {
        assert_eq!(normalised("/a%20b%C3%a9"), Ok("/a bé".into()));
        assert_eq!(normalised("/%2541"), Ok("/%41".into()));
        assert_eq!(normalised("/%252e%252e/"), Ok("/%2e%2e/".into()));
        for path in ["/%", "/%4", "/%zz", "/a%/bc", "/%+1", "/%4g"] {
            assert_eq!(normalised(path), Err(PathError::Escape), "{path}");
        }
    }

    #[test]
    fn a_plain_path_is_normal_as_it_is() {
        for path in ["/", "/a", "/a/", "/a/b.c/d", "/a..b/c.", "/\u{e4} b"] {
            assert!(is_normal(path.as_bytes()), "{path}");
        }
        for path in ["", "a", "//", "/a//b", "/./a", "/a/..", "/%61", "/a\\b", "/\x7f", "/a\0"] {
            assert!(!is_normal(path.as_bytes()), "{path}");
        }
    }

    // RFC 3986 5.2.4.
    #[test]
    fn dot_segments_are_resolved_however_they_are_written() {
        assert_eq!(normalised("/a/b/c/./../../g"), Ok("/a/g".into()));
        assert_eq!(normalised("/a/%2e%2E/b"), Ok("/b".into()));
        assert_eq!(normalised("/a/.%2e/b/%2e/c"), Ok("/b/c".into()));
        assert_eq!(normalised("/a//../b"), Ok("/b".into()));
        assert_eq!(normalised("/..."), Ok("/...".into()));
        assert_eq!(normalised("/.a/b../..c"), Ok("/.a/b../..c".into()));
    }

    #[test]
    fn slashes_at_the_end_are_kept_and_repeated_ones_are_not() {
        for (path, expected) in [
            ("/", "/"),
            ("/a", "/a"),
            ("/a/", "/a/"),
            ("//", "/"),
            ("//a///b//", "/a/b/"),
            ("/a/.", "/a/"),
            ("/a/b/..", "/a/"),
            ("/a/..", "/"),
            ("/.", "/"),
            ("/a/b/../", "/a/"),
        ] {
            assert_eq!(normalised(path), Ok(expected.into()), "{path}");
        }
    }

    #[test]
    fn what_a_file_system_could_take_for_something_else_is_refused() {
        for (path, error) in [
            ("", PathError::Relative),
            ("a", PathError::Relative),
            ("%2fa", PathError::Relative),
            ("/%00", PathError::Nul),
            ("/a\0", PathError::Nul),
            ("/\n", PathError::Control),
            ("/\u{7f}", PathError::Control),
            ("/\t", PathError::Control),
            ("/a%2fb", PathError::EncodedSlash),
            ("/a/..%2F..", PathError::EncodedSlash),
            ("/a\\b", PathError::Backslash),
            ("/..", PathError::AboveRoot),
            ("/a/../..", PathError::AboveRoot),
            ("/%2e%2e/a", PathError::AboveRoot),
            ("/./../a", PathError::AboveRoot),
            ("/a/../../a", PathError::AboveRoot),
        ] {
            assert_eq!(normalised(path), Err(error), "{path}");
        }
    }

    #[test]
    fn an_encoded_byte_that_a_file_name_may_hold_is_a_byte_of_a_name() {
        assert_eq!(normalised("/a%0Ab%09%5C%7f%1b"), Ok("/a\nb\t\\\u{7f}\u{1b}".into()));
        assert_eq!(normalised("/..%5c..%5ca"), Ok("/..\\..\\a".into()));
    }

    #[test]
    fn an_encoded_slash_separates_for_rules_and_leads_no_file_beyond_it() {
        for (path, expected) in [
            ("/a%2Fb", Ok(("/a/b", Some(2)))),
            ("/a/%2fb", Ok(("/a/b", Some(3)))),
            ("/%2F%2Fa%2F", Ok(("/a/", Some(1)))),
            ("/a//b%2F/c", Ok(("/a/b/c", Some(4)))),
            ("/a%252Fb", Ok(("/a%2Fb", None))),
            ("/a/../b", Ok(("/b", None))),
            ("/a/..%2Fb", Err(PathError::EncodedSlash)),
            ("/a%2F%2e%2E/b", Err(PathError::EncodedSlash)),
            ("/a/../b%2Fc", Err(PathError::EncodedSlash)),
            ("/a%2F.", Err(PathError::EncodedSlash)),
            ("/a%2F%00", Err(PathError::Nul)),
            ("%2Fa", Err(PathError::Relative)),
            ("/a%2F%zz", Err(PathError::Escape)),
        ] {
            let mut out = b"left over".to_vec();
            let found = normalise_for_rules(path.as_bytes(), &mut out);
            let found = found.map(|before| (str::from_utf8(&out).unwrap(), before));
            assert_eq!(found, expected, "{path}");
            assert!(found.is_ok() || out.is_empty(), "{path}");
        }
    }

    #[test]
    fn a_dot_segment_is_hidden_where_only_some_readers_see_it() {
        for path in ["/a/..b/.c./...", "/a;../b", "/", "/%2e%2ea"] {
            assert_eq!(dot_segments(path.as_bytes()), DotSegments::None, "{path}");
        }
        for path in ["/a/../b", "/.", "/a/%2e%2E", "/.%2e/a"] {
            assert_eq!(dot_segments(path.as_bytes()), DotSegments::Plain, "{path}");
        }
        for path in
            ["/a/..%2Fb", "/a%2F..", "/a/..%5cb", "/a%5C%2e%2e/b", "/..;/a", "/a/.;x=1/b", "/..%3Ba", "/a%2F./b"]
        {
            assert_eq!(dot_segments(path.as_bytes()), DotSegments::Hidden, "{path}");
        }
    }

    // RFC 8615 3.
    #[test]
    fn names_with_a_dot_are_hidden_except_the_well_known_one() {
        for path in
            ["/.git", "/.git/", "/a/.b", "/a/.b/c", "/a/.well-known", "/.well-known/.a", "/.well-known2", "/..."]
        {
            assert!(is_hidden(path.as_bytes()), "{path}");
        }
        for path in ["/", "/a", "/a.b/c.", "/.well-known", "/.well-known/", "/.well-known/acme-challenge/x"] {
            assert!(!is_hidden(path.as_bytes()), "{path}");
        }
    }

    /// Paths made of what matters here.
    fn path() -> impl Strategy<Value = String> {
        let piece = "(/|/|\\.|\\.\\.|a|%2e|%2E|%25|%2f|%61|%5c|%ff|%00|%|\\\\|b)";
        prop::collection::vec(piece, 0..12).prop_map(|pieces| format!("/{}", pieces.concat()))
    }

    fn assert_normal(path: &[u8]) -> Result<(), TestCaseError> {
        let mut out = Vec::new();
        let result = normalise(path, &mut out);
        prop_assert!(!is_normal(path) || result.is_ok() && out == path);
        if result.is_err() {
            return Ok(());
        }
        prop_assert!(out.starts_with(b"/") && out.len() <= path.len());
        prop_assert!(!out.contains(&0));
        prop_assert!(!out.windows(2).any(|pair| pair == b"//"));
        prop_assert!(!out.split(|&byte| byte == b'/').any(|segment| matches!(segment, b"." | b"..")));
        if path.ends_with(b"/") {
            prop_assert!(out.ends_with(b"/"));
        }
        let encode = |byte: &u8| if *byte == b'/' { "/".to_owned() } else { format!("%{byte:02x}") };
        let encoded: String = out.iter().map(encode).collect();
        let mut again = Vec::new();
        prop_assert_eq!(normalise(encoded.as_bytes(), &mut again), Ok(()));
        prop_assert_eq!(out, again);
        Ok(())
    }

    proptest! {
        #[test]
        fn any_bytes_are_normal_or_refused(path: Vec<u8>) {
            assert_normal(&path)?;
            assert_normal(&[b"/", &path[..]].concat())?;
        }

        #[test]
        fn any_path_is_normal_or_refused(path in path()) {
            assert_normal(path.as_bytes())?;
        }

        #[test]
        fn encoding_every_byte_changes_nothing(name in "[ -.0-\\[\\]-~]{1,12}") {
            let encoded: String = name.bytes().map(|byte| format!("%{byte:02X}")).collect();
            let plain = name.replace('%', "%25");
            prop_assert_eq!(normalised(&format!("/{encoded}")), normalised(&format!("/{plain}")));
        }
    }

    #[test]
    fn all_but_unreserved_bytes_of_a_segment_are_encoded() {
        let mut url = String::new();
        push_segment(&mut url, b"a b?#%\"<>&'/:\xff~.txt");
        assert_eq!(url, "a%20b%3F%23%25%22%3C%3E%26%27%2F%3A%FF~.txt");
    }
}
