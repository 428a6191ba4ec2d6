//! URIs that an answer names besides its target (`Location`, `Content-Location`), as targets of the same server.
//!
//! Owns: its resolution (RFC 3986 5.2). Guarantees: another origin than that of the request is never given (RFC 9111
//! 4.4).

use crate::gateway::path;

/// A target of the origin that was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named<'a> {
    /// The path in the one spelling in which applications are asked ([`path::write`]).
    pub path: Vec<u8>,
    /// The query, as it was written.
    pub query: Option<&'a [u8]>,
}

/// The target that `reference` means in an answer to a request for `target`, in the spelling in which it was asked for,
/// at `authority`. None if it is of another origin, or of none.
pub fn named<'a>(reference: &'a [u8], is_secure: bool, authority: &[u8], target: &[u8]) -> Option<Named<'a>> {
    let reference = until(reference.trim_ascii(), b"#");
    let rest = match scheme_of(reference) {
        Some((scheme, rest)) => {
            let own: &[u8] = if is_secure { b"https" } else { b"http" };
            rest.strip_prefix(b"//").filter(|_| scheme.eq_ignore_ascii_case(own)).map(Some)?
        }
        None => reference.strip_prefix(b"//"),
    };
    let relative = match rest {
        None => reference,
        Some(rest) => {
            let other = until(rest, b"/?");
            if !host_of(other, is_secure).eq_ignore_ascii_case(host_of(authority, is_secure)) {
                return None;
            }
            &rest[other.len()..]
        }
    };
    let given = until(relative, b"?");
    let query = relative.get(given.len() + 1..);
    let mut path = Vec::new();
    match given.first() {
        Some(b'/') => path::write(given, &mut path).ok()?,
        // Behind an authority there is no path but the root.
        None if rest.is_some() => path.push(b'/'),
        None => path.extend_from_slice(target),
        Some(_) => {
            let folder = &target[..memchr::memrchr(b'/', target)? + 1];
            path::write(&[folder, given].concat(), &mut path).ok()?;
        }
    }
    Some(Named { path, query })
}

/// Up to the first of `ends`.
fn until<'a>(text: &'a [u8], ends: &[u8]) -> &'a [u8] {
    text.split(|byte| ends.contains(byte)).next().unwrap_or_default()
}

/// A scheme and what follows it.
fn scheme_of(reference: &[u8]) -> Option<(&[u8], &[u8])> {
    let (scheme, rest) = reference.split_at(reference.iter().position(|byte| b":/?".contains(byte))?);
    Some((scheme, rest.strip_prefix(b":")?))
}

/// An authority without the port that its scheme has by itself.
fn host_of(authority: &[u8], is_secure: bool) -> &[u8] {
    let usual: &[u8] = if is_secure { b":443" } else { b":80" };
    authority.strip_suffix(usual).or(authority.strip_suffix(b":")).unwrap_or(authority)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(reference: &str, is_secure: bool, authority: &str, target: &str) -> Option<String> {
        let found = named(reference.as_bytes(), is_secure, authority.as_bytes(), target.as_bytes())?;
        let query = found.query.map(|query| format!("?{}", String::from_utf8_lossy(query))).unwrap_or_default();
        Some(format!("{}{query}", String::from_utf8_lossy(&found.path)))
    }

    #[test]
    fn what_is_named_is_found_as_it_is_asked_for() {
        for (reference, expected) in [
            ("/list", "/list"),
            ("/list?page=2#end", "/list?page=2"),
            ("/a/../%6cist", "/list"),
            ("/a%3bb;c", "/a%3Bb;c"),
            ("list", "/forms/list"),
            ("../list", "/list"),
            ("a:b/c", ""),
            ("./a:b/c", "/forms/a:b/c"),
            ("?page=2", "/forms/new%201?page=2"),
            ("", "/forms/new%201"),
            ("//test/list", "/list"),
            ("http://test/list", "/list"),
            ("HTTP://TEST:80/list", "/list"),
            ("http://test:/list", "/list"),
            ("http://test", "/"),
            ("http://test?a", "/?a"),
        ] {
            let expected = Some(expected.to_owned()).filter(|text| !text.is_empty());
            assert_eq!(shown(reference, false, "test", "/forms/new%201"), expected, "{reference}");
        }
        assert_eq!(shown("a", false, "test", "/100%25/x"), Some("/100%25/a".to_owned()), "a path is decoded once");
    }

    #[test]
    fn another_origin_is_none_of_its_business() {
        for reference in [
            "http://other/list",
            "https://test/list",
            "http://test:81/list",
            "//other/list",
            "http://test@other/",
            "http:/list",
            "http://testing/",
            "mailto:a@test",
        ] {
            assert_eq!(shown(reference, false, "test", "/"), None, "{reference}");
        }
        assert_eq!(shown("https://test:443/list", true, "test", "/"), Some("/list".to_owned()));
        assert_eq!(shown("http://test/list", true, "test", "/"), None);
        assert_eq!(shown("http://test:8080/list", false, "test:8080", "/"), Some("/list".to_owned()));
        assert_eq!(shown("/../../list", false, "test", "/"), None, "nothing is above the root");
    }
}
