//! Numbers of URLs in the table, and the page of the same site that a `Referer` names.
//!
//! Owns: [`UrlHasher`]. Guarantees: a URL has the same number after a restart, because the key is kept with what was
//! learned; who does not know the key cannot choose URLs of the same number (SipHash-1-3: Aumasson, Bernstein,
//! INDOCRYPT 2012).

use std::hash::Hasher;

use lamna_policy::hints::UrlId;
use siphasher::sip::SipHasher13;

/// The key, as it is kept.
pub(super) type Key = [u8; 16];

/// Numbers URLs.
#[derive(Clone, Copy, Debug)]
pub(super) struct UrlHasher {
    key: Key,
}

impl UrlHasher {
    pub(super) fn new(key: Key) -> UrlHasher {
        UrlHasher { key }
    }

    pub(super) fn key(&self) -> &Key {
        &self.key
    }

    /// The number of `path`, normalised, on the site with the number `site`.
    pub(super) fn url(&self, site: u64, path: &[u8]) -> UrlId {
        let mut hasher = SipHasher13::new_with_key(&self.key);
        hasher.write(&site.to_le_bytes());
        hasher.write(path);
        UrlId::of_hash(hasher.finish())
    }
}

/// The number of a site, by its label. It is the same for all keys: the table mixes it with them.
pub(super) fn site_number(label: &str) -> u64 {
    let mut hasher = SipHasher13::new();
    hasher.write(label.as_bytes());
    hasher.finish()
}

/// The path of `referer` as it was received, without its query, if it is an `http` or `https` URL of `host`, whatever
/// its port.
pub fn path_of_same_host<'r>(referer: &'r [u8], host: Option<&[u8]>) -> Option<&'r [u8]> {
    let rest = referer.strip_prefix(b"http")?;
    let rest = rest.strip_prefix(b"s").unwrap_or(rest).strip_prefix(b"://")?;
    let host = host?;
    let (named, rest) = rest.split_at_checked(host.len())?;
    if !named.eq_ignore_ascii_case(host) {
        return None;
    }
    let path_at = memchr::memchr(b'/', rest)?;
    let is_port = |between: &[u8]| match between.split_first() {
        None => true,
        Some((b':', digits)) => digits.iter().all(u8::is_ascii_digit),
        Some(_) => false,
    };
    if !is_port(&rest[..path_at]) {
        return None;
    }
    let path = &rest[path_at..];
    Some(&path[..memchr::memchr2(b'?', b'#', path).unwrap_or(path.len())])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_referer_counts_if_it_is_of_the_same_host() {
        let path = |referer: &'static str| path_of_same_host(referer.as_bytes(), Some(b"a.example"));
        assert_eq!(path("https://a.example/x/y?q=1"), Some(&b"/x/y"[..]));
        assert_eq!(path("http://A.example:8080/"), Some(&b"/"[..]));
        assert_eq!(path("http://a.example/#top"), Some(&b"/"[..]));
        let others = [
            "http://b.example/",
            "http://a.example.org/",
            "http://a.example@b/",
            "ftp://a.example/",
            "http://a.example",
            "",
        ];
        others.iter().for_each(|other| assert_eq!(path(other), None, "{other}"));
        assert_eq!(path_of_same_host(b"http://a.example/", None), None);
    }

    proptest! {
        #[test]
        fn any_bytes_may_be_a_referer(referer: Vec<u8>, host: Vec<u8>) {
            if let Some(path) = path_of_same_host(&referer, Some(&host)) {
                prop_assert_eq!(path[0], b'/');
            }
        }
    }

    #[test]
    fn the_number_of_a_url_depends_on_key_site_and_path_and_nothing_else() {
        let hasher = UrlHasher::new([7; 16]);
        assert_eq!(hasher.url(1, b"/a"), UrlHasher::new([7; 16]).url(1, b"/a"));
        let others = [hasher.url(2, b"/a"), hasher.url(1, b"/b"), UrlHasher::new([8; 16]).url(1, b"/a")];
        assert!(others.iter().all(|other| *other != hasher.url(1, b"/a")));
    }
}
