//! Where a request leads besides its target: the field `Destination` of WebDAV, URLs in `If`, and the query of a form
//! that moves something.
//!
//! Owns: which URLs are of the host that is asked, and their paths. Guarantees: a path is normalised as that of a
//! request is, and leads to the same site. Judges no rights.

use lamna_proto::exchange::RequestedResource;
use lamna_proto::message::{Field, Method, Request};
use lamna_proto::parse::path;

use super::super::Refused;
use crate::content::action::move_of;

const NONE: Refused = Refused(400, "The Destination is missing, or is no URL with a path.");
const ELSEWHERE: Refused = Refused(502, "The Destination is on another server than the one that is asked.");

/// The authority that a request was sent to.
pub(super) fn authority_of(request: Request<'_>) -> Option<&[u8]> {
    request.field(Field::Host)
}

/// The path that a copy or a move leads to, normalised, if there is one on this host.
pub fn destination_of(requested: &RequestedResource<'_>) -> Option<Vec<u8>> {
    of(requested)?.ok()
}

/// The same; none for other requests.
pub(super) fn of(requested: &RequestedResource<'_>) -> Option<Result<Vec<u8>, Refused>> {
    let request = requested.request?;
    match request.head.method {
        Method::Copy | Method::Move => {}
        Method::Post => return requested.query.and_then(move_of)?.map(|url| path_of(url, authority_of(request))),
        _ => return None,
    }
    let mut lines = request.lines_named(b"destination");
    Some(match (lines.next(), lines.next()) {
        (Some(url), None) => path_of(url, authority_of(request)),
        _ => Err(NONE),
    })
}

/// The path in `url`, which has no host, normalised.
pub(in super::super) fn path_of_url(url: &[u8]) -> Option<Vec<u8>> {
    path_of(url, None).ok()
}

/// The path of `url`, which is on `host`, normalised.
///
/// # Errors
/// It is on another one, or no URL of a file.
pub(super) fn path_of(url: &[u8], host: Option<&[u8]>) -> Result<Vec<u8>, Refused> {
    let rest = url.strip_prefix(b"http://").map(|rest| (rest, &b":80"[..]));
    let rest = rest.or_else(|| url.strip_prefix(b"https://").map(|rest| (rest, &b":443"[..])));
    let given = match rest {
        // Behind a proxy the scheme may be another one than here.
        Some((rest, port)) => {
            let end = memchr::memchr(b'/', rest).ok_or(NONE)?;
            let own = host.ok_or(ELSEWHERE)?;
            let without = |authority: &[u8]| authority.strip_suffix(port).unwrap_or(authority).to_ascii_lowercase();
            if without(&rest[..end]) != without(own) {
                return Err(ELSEWHERE);
            }
            &rest[end..]
        }
        None if url.starts_with(b"/") && !url.starts_with(b"//") => url,
        None => return Err(NONE),
    };
    if memchr::memchr2(b'?', b'#', given).is_some() || path::encoded_slash(given).is_some() {
        return Err(NONE);
    }
    let mut normal = Vec::new();
    path::normalise(given, &mut normal).map_err(|_| NONE)?;
    Ok(normal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_destination_is_a_path_of_the_host_that_is_asked() {
        let path =
            |url: &str, host: &str| path_of(url.as_bytes(), Some(host.as_bytes())).map_err(|Refused(status, _)| status);
        for (url, host, expected) in [
            ("http://a/b%20c", "a", Ok("/b c")),
            ("https://A:443/b/../c/", "a", Ok("/c/")),
            ("http://a:8080/b", "A:8080", Ok("/b")),
            ("http://a/b", "a:80", Ok("/b")),
            ("/b", "a", Ok("/b")),
            ("http://a/b", "a:8080", Err(502)),
            ("http://user@a/b", "a", Err(502)),
            ("http://b/b", "a", Err(502)),
            ("http://a", "a", Err(400)),
            ("//a/b", "a", Err(400)),
            ("b", "a", Err(400)),
            ("ftp://a/b", "a", Err(400)),
            ("/b?c", "a", Err(400)),
            ("/b%2fc", "a", Err(400)),
            ("/../b", "a", Err(400)),
            ("/%00", "a", Err(400)),
        ] {
            assert_eq!(path(url, host), expected.map(|path| path.as_bytes().to_vec()), "{url} {host}");
        }
    }
}
