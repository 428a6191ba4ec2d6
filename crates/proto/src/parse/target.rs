//! Request targets: what the second word of a request line asks for (RFC 9112 3.2).
//!
//! Owns: telling the four forms of a target apart, and checking the authority in them. Borrows from its input. Does not
//! decode paths, which is [`super::path`]'s, nor know what a method allows.

use std::fmt;

use super::host::{self, HostError};

/// A request target. Paths are absolute and still encoded; a query is what follows the first question mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'a> {
    /// `/path?query`: a resource of the server that `Host` names.
    Origin {
        /// Begins with a slash.
        path: &'a [u8],
        /// May be empty.
        query: Option<&'a [u8]>,
    },
    /// `http://authority/path?query`: as a proxy gets it; servers must accept it too, and it overrides `Host`.
    Absolute {
        /// The scheme.
        scheme: Scheme,
        /// `host` or `host:port`, which `host::parse` reads.
        authority: &'a [u8],
        /// Begins with a slash.
        path: &'a [u8],
        /// May be empty.
        query: Option<&'a [u8]>,
    },
    /// `host:port`, for CONNECT only. `host::parse` reads it, and finds a port.
    Authority(&'a [u8]),
    /// `*`: the server as a whole. Only OPTIONS may have it, which the caller sees to.
    Asterisk,
}

/// A scheme of HTTP resources (RFC 9110 4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Without TLS.
    Http,
    /// With TLS.
    Https,
}

/// Why a target was refused: 400, in every case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetError {
    /// A control byte or a space, a byte that is not ASCII outside of the path, or there are no bytes.
    Byte,
    /// A fragment: clients keep it to themselves (RFC 9110 4.2.5).
    Fragment,
    /// None of the four forms, or the wrong one for the method.
    Form,
    /// A CONNECT without a port (RFC 9110 9.3.6).
    Port,
    /// The authority is not one.
    Host(HostError),
}

impl fmt::Display for TargetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TargetError::Byte => f.write_str("the request target is empty or has bytes that no target has"),
            TargetError::Fragment => f.write_str("the request target has a fragment"),
            TargetError::Form => f.write_str("the request target has none of the forms that the method allows"),
            TargetError::Port => f.write_str("the request target has no port"),
            TargetError::Host(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for TargetError {}

impl From<HostError> for TargetError {
    fn from(error: HostError) -> TargetError {
        TargetError::Host(error)
    }
}

/// Reads a request target; `connect` says that the method is CONNECT, which has a form of its own (RFC 9112 3.2).
///
/// # Errors
/// Whatever has none of the forms. Bytes are checked for being visible only, as browsers send some that RFC
/// 3986 reserves; what a path must not contain is found by [`super::path::normalise`]. A path may have bytes above
/// 0x7F, which clients should have encoded (RFC 3987 3.1) and some do not.
pub fn parse(target: &[u8], connect: bool) -> Result<Target<'_>, TargetError> {
    match plain_origin_form(target) {
        Some(origin) if !connect => Ok(origin),
        _ => any_form(target, connect),
    }
}

fn any_form(target: &[u8], connect: bool) -> Result<Target<'_>, TargetError> {
    if target.is_empty() || !target.iter().all(|byte| byte.is_ascii_graphic() || !byte.is_ascii()) {
        return Err(TargetError::Byte);
    }
    if target.contains(&b'#') {
        return Err(TargetError::Fragment);
    }
    match target {
        _ if connect => authority_form(target),
        b"*" => Ok(Target::Asterisk),
        [b'/', ..] => {
            let (path, query) = split_query(target)?;
            Ok(Target::Origin { path, query })
        }
        _ => absolute_form(target),
    }
}

/// Nearly every target, with one look at each byte, because every request comes through here: an origin-form without a
/// query. None for whatever else there is, right or wrong.
fn plain_origin_form(target: &[u8]) -> Option<Target<'_>> {
    let is_origin = target.first() == Some(&b'/') && target.iter().all(|&byte| PLAIN[usize::from(byte)]);
    is_origin.then_some(Target::Origin { path: target, query: None })
}

/// Bytes that neither end a path nor are wrong in one.
static PLAIN: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0x21;
    while byte < table.len() {
        table[byte] = byte != 0x7f && byte != b'#' as usize && byte != b'?' as usize;
        byte += 1;
    }
    table
};

/// RFC 9112 3.2.3.
fn authority_form(target: &[u8]) -> Result<Target<'_>, TargetError> {
    match host::parse(target)?.port {
        Some(_) => Ok(Target::Authority(target)),
        None => Err(TargetError::Port),
    }
}

/// RFC 9112 3.2.2. An empty path is the same as `/` (RFC 9110 4.2.3).
fn absolute_form(target: &[u8]) -> Result<Target<'_>, TargetError> {
    let schemes: [(&[u8], Scheme); 2] = [(b"http://", Scheme::Http), (b"https://", Scheme::Https)];
    let scheme_and_rest = schemes.iter().find_map(|&(prefix, scheme)| {
        let (start, rest) = target.split_at_checked(prefix.len())?;
        start.eq_ignore_ascii_case(prefix).then_some((scheme, rest))
    });
    let (scheme, rest) = scheme_and_rest.ok_or(TargetError::Form)?;
    let end = memchr::memchr2(b'/', b'?', rest).unwrap_or(rest.len());
    let (authority, path_and_query) = rest.split_at(end);
    host::parse(authority)?;
    let (path, query) = split_query(path_and_query)?;
    let path = if path.is_empty() { b"/" } else { path };
    Ok(Target::Absolute { scheme, authority, path, query })
}

/// Path and query. A query is passed on and repeated as it is, so it has to be ASCII.
fn split_query(target: &[u8]) -> Result<(&[u8], Option<&[u8]>), TargetError> {
    match memchr::memchr(b'?', target) {
        Some(mark) if !target[mark..].is_ascii() => Err(TargetError::Byte),
        Some(mark) => Ok((&target[..mark], Some(&target[mark + 1..]))),
        None => Ok((target, None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn target(text: &str) -> Result<Target<'_>, TargetError> {
        parse(text.as_bytes(), false)
    }

    // RFC 9112 3.2.1.
    #[test]
    fn the_origin_form_is_a_path_and_perhaps_a_query() {
        assert_eq!(target("/where?q=now"), Ok(Target::Origin { path: b"/where", query: Some(b"q=now") }));
        assert_eq!(target("/"), Ok(Target::Origin { path: b"/", query: None }));
        assert_eq!(target("/?"), Ok(Target::Origin { path: b"/", query: Some(b"") }));
        assert_eq!(target("/\u{e9}?q"), Ok(Target::Origin { path: "/\u{e9}".as_bytes(), query: Some(b"q") }));
        assert_eq!(target("//a/?b?/c"), Ok(Target::Origin { path: b"//a/", query: Some(b"b?/c") }));
    }

    // RFC 9112 3.2.2.
    #[test]
    fn the_absolute_form_has_a_scheme_and_an_authority() {
        let absolute = |scheme, authority, path, query| Ok(Target::Absolute { scheme, authority, path, query });
        assert_eq!(
            target("http://www.example.org/pub/WWW/TheProject.html"),
            absolute(Scheme::Http, b"www.example.org", b"/pub/WWW/TheProject.html", None)
        );
        assert_eq!(target("HTTPS://a:1"), absolute(Scheme::Https, b"a:1", b"/", None));
        assert_eq!(target("http://[::1]:80?q/r"), absolute(Scheme::Http, b"[::1]:80", b"/", Some(b"q/r")));
    }

    // RFC 9110 4.2.1 and 4.2.4.
    #[test]
    fn the_authority_of_the_absolute_form_is_checked() {
        assert_eq!(target("http:///a"), Err(TargetError::Host(HostError::Empty)));
        assert_eq!(target("http://"), Err(TargetError::Host(HostError::Empty)));
        assert_eq!(target("http://u@a/"), Err(TargetError::Host(HostError::Userinfo)));
        assert_eq!(target("http://a:b/"), Err(TargetError::Host(HostError::Port)));
    }

    // RFC 9112 3.2.3.
    #[test]
    fn the_authority_form_is_for_connect_and_connect_for_it() {
        assert_eq!(parse(b"www.example.com:80", true), Ok(Target::Authority(b"www.example.com:80")));
        assert_eq!(parse(b"www.example.com", true), Err(TargetError::Port));
        assert_eq!(parse(b"/", true), Err(TargetError::Host(HostError::Name)));
        assert_eq!(parse(b"*", true), Err(TargetError::Port));
        assert_eq!(target("www.example.com:80"), Err(TargetError::Form));
    }

    // RFC 9112 3.2.4.
    #[test]
    fn the_asterisk_stands_alone() {
        assert_eq!(target("*"), Ok(Target::Asterisk));
        assert_eq!(target("*/"), Err(TargetError::Form));
    }

    #[test]
    fn other_targets_are_refused() {
        for text in ["", "/a b", "/\t", "/a?\u{e9}", "/a\0", "/\u{7f}", "\r", "http://a/?\u{e9}"] {
            assert_eq!(target(text), Err(TargetError::Byte), "{text}");
        }
        for text in ["\u{e9}", "\u{e9}://a/", "http://\u{e9}/"] {
            assert!(target(text).is_err(), "{text}");
        }
        assert_eq!(target("/a#b"), Err(TargetError::Fragment));
        for text in ["a", "?q", "ftp://a/", "http:/a", "http:a", "file:///etc/passwd"] {
            assert_eq!(target(text), Err(TargetError::Form), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_can_be_read_as_a_target(text: Vec<u8>, connect: bool) {
            match parse(&text, connect) {
                Ok(Target::Origin { path, .. } | Target::Absolute { path, .. }) => prop_assert!(path.starts_with(b"/")),
                Ok(Target::Authority(_)) => prop_assert!(connect),
                Ok(Target::Asterisk) | Err(_) => {}
            }
        }

        #[test]
        fn the_short_way_reads_what_the_long_one_does(text in "[/?#a*\u{7f}\u{e9} ]{0,8}") {
            if let Some(origin) = plain_origin_form(text.as_bytes()) {
                prop_assert_eq!(any_form(text.as_bytes(), false), Ok(origin));
            }
        }

        #[test]
        fn the_parts_of_an_origin_form_make_it_up(text in "/[!-\"$-~]{0,20}") {
            let Ok(Target::Origin { path, query }) = target(&text) else { panic!("{text}") };
            let joined = match query {
                Some(query) => [path, b"?", query].concat(),
                None => path.to_vec(),
            };
            prop_assert_eq!(joined, text.as_bytes());
        }
    }
}
