//! From what a page says to what a browser asks for: URLs of the same site, resolved (RFC 3986 5.2), and what they are
//! numbered by.
//!
//! Owns: [`resolve`] and [`UrlNumbers`]. Guarantees: what it gives can stand in a `Link` field between `<` and `>`, and
//! is asked for as it is. Does not follow URLs to other hosts, although they may be this one by another name.

use std::hash::BuildHasher;

use siphasher::sip::SipHasher13;

/// Numbers URLs and client networks: in the same way in all processes of a server, and by a key that is secret.
#[derive(Clone, Copy, Debug)]
pub(super) struct UrlNumbers(pub(super) [u8; 16]);

impl BuildHasher for UrlNumbers {
    type Hasher = SipHasher13;

    fn build_hasher(&self) -> SipHasher13 {
        SipHasher13::new_with_key(&self.0)
    }
}

/// The longest URL that is hinted, in bytes.
pub(super) const URL_BYTES_MAX: usize = 200;

/// The path and query that `reference` stands for on the page at `base`, a path; none if it leads to another host or is
/// no URL of this kind.
pub fn resolve(base: &str, reference: &str) -> Option<String> {
    let reference = reference.trim_matches(|each: char| each.is_ascii_whitespace());
    let (path, query) = match reference.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (reference, None),
    };
    let has_scheme = path.split('/').next().is_some_and(|first| first.contains(':'));
    if has_scheme || path.starts_with("//") {
        return None;
    }
    let base = base.split('?').next().unwrap_or_default();
    let merged = match path {
        "" => base.to_owned(),
        path if path.starts_with('/') => path.to_owned(),
        path => format!("{}{path}", &base[..base.rfind('/')? + 1]),
    };
    let mut resolved = without_dots(&merged);
    if let Some(query) = query {
        resolved.push('?');
        resolved.push_str(query);
    }
    is_hintable(resolved.as_bytes()).then_some(resolved)
}

/// Whether it can stand in a `Link` field, and browsers ask for it as it is.
pub(super) fn is_hintable(url: &[u8]) -> bool {
    let is_plain = |byte: &u8| byte.is_ascii_graphic() && !b"<>\"\\^`{|}#".contains(byte);
    (1..=URL_BYTES_MAX).contains(&url.len()) && url[0] == b'/' && !url.starts_with(b"//") && url.iter().all(is_plain)
}

/// RFC 3986 5.2.4. `path` begins with a slash.
fn without_dots(path: &str) -> String {
    let mut segments: Vec<&str> = Vec::new();
    let mut rest = path.split('/').skip(1).peekable();
    while let Some(segment) = rest.next() {
        let is_last = rest.peek().is_none();
        match segment {
            "." if is_last => segments.push(""),
            "." => {}
            ".." => {
                segments.pop();
                segments.extend(is_last.then_some(""));
            }
            segment => segments.push(segment),
        }
    }
    format!("/{}", segments.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    // RFC 3986 5.4, as far as it is of one host.
    #[test]
    fn references_are_resolved_as_browsers_do() {
        for (reference, expected) in [
            ("g", "/b/c/g"),
            ("./g", "/b/c/g"),
            ("g/", "/b/c/g/"),
            ("/g", "/g"),
            ("?y", "/b/c/d?y"),
            ("g?y", "/b/c/g?y"),
            ("", "/b/c/d"),
            (".", "/b/c/"),
            ("./", "/b/c/"),
            ("..", "/b/"),
            ("../g", "/b/g"),
            ("../..", "/"),
            ("../../../g", "/g"),
            ("/./g", "/g"),
            ("./g/.", "/b/c/g/"),
            ("g/./h", "/b/c/g/h"),
            ("g/../h", "/b/c/h"),
            (" g\n", "/b/c/g"),
        ] {
            assert_eq!(resolve("/b/c/d?q", reference).as_deref(), Some(expected), "{reference}");
        }
    }

    #[test]
    fn what_leads_elsewhere_or_cannot_stand_in_a_field_is_not_hinted() {
        let long = format!("/{}", "x".repeat(URL_BYTES_MAX));
        for reference in
            ["//g", "https://g/", "data:text/css,x", "javascript:x", "a b", "/é", "/a>", "/a\"b", "/..//x", &long]
        {
            assert_eq!(resolve("/", reference), None, "{reference}");
        }
    }

    proptest! {
        #[test]
        fn what_is_resolved_can_be_hinted(reference: String) {
            let resolved = resolve("/a/b", &reference);
            prop_assert!(resolved.is_none_or(|url| is_hintable(url.as_bytes())));
        }

        #[test]
        fn what_is_resolved_stays_what_it_is(reference in "[a-z./?]{0,12}") {
            if let Some(url) = resolve("/a/b", &reference) {
                prop_assert_eq!(resolve("/x/y", &url), Some(url.clone()));
            }
        }
    }
}
