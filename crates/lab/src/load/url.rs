//! URLs as the load generator takes them: `http://HOST[:PORT][/PATH]`.
//!
//! Guarantees: the path is sent as it was given, so that a test can send what a browser never would; only spaces and
//! control bytes are refused, because they would end the request line.

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;

/// A URL taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// Name or address, with the brackets of an IPv6 address.
    pub host: String,
    /// 80 if none is given.
    pub port: u16,
    /// Path and query, from the slash on.
    pub path: String,
}

/// Why a text is not such a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UrlError {
    /// Another scheme than `http`.
    Scheme,
    /// No host.
    Host,
    /// Not a port number.
    Port,
    /// A space or control byte in the path.
    Path,
}

impl fmt::Display for UrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            UrlError::Scheme => "only http:// can be measured",
            UrlError::Host => "no host in the URL",
            UrlError::Port => "the port is not a number up to 65535",
            UrlError::Path => "a space or control byte in the path: write it as %20 and so on",
        })
    }
}

impl std::error::Error for UrlError {}

impl Url {
    /// The value of the `Host` field.
    pub fn authority(&self) -> String {
        if self.port == 80 { self.host.clone() } else { format!("{}:{}", self.host, self.port) }
    }

    /// The first address of the host.
    ///
    /// # Errors
    /// Those of name resolution; not found if the name has no address.
    pub fn resolve(&self) -> io::Result<SocketAddr> {
        let name = self.host.trim_start_matches('[').trim_end_matches(']');
        let mut addresses = (name, self.port).to_socket_addrs()?;
        addresses.next().ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the name has no address"))
    }
}

impl FromStr for Url {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Url, UrlError> {
        let rest = match text.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => rest,
            Some(_) => return Err(UrlError::Scheme),
            None => text,
        };
        let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let path = path.split('#').next().unwrap_or_default();
        if path.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
            return Err(UrlError::Path);
        }
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        let (host, port) = split_port(authority)?;
        Ok(Url { host: host.to_owned(), port, path })
    }
}

fn split_port(authority: &str) -> Result<(&str, u16), UrlError> {
    // A colon within brackets belongs to the address.
    let (host, port) = match authority.rfind(':').filter(|&at| !authority[at..].contains(']')) {
        Some(at) => (&authority[..at], authority[at + 1..].parse().map_err(|_| UrlError::Port)?),
        None => (authority, 80),
    };
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-._[]:".contains(&byte);
    if host.is_empty() || !host.bytes().all(fits) {
        return Err(UrlError::Host);
    }
    Ok((host, port))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn host_port_and_path_are_found() {
        let cases = [
            ("http://localhost:8080/a?b=c#d", "localhost", 8080, "/a?b=c"),
            ("http://[::1]:80", "[::1]", 80, "/"),
            ("HTTP://example.org", "example.org", 80, "/"),
            ("127.0.0.1:1/%zz/../x", "127.0.0.1", 1, "/%zz/../x"),
            ("h?q", "h", 80, "/?q"),
        ];
        for (text, host, port, path) in cases {
            let expected = Url { host: host.into(), port, path: path.into() };
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let cases = [
            ("https://h/", UrlError::Scheme),
            ("http:///x", UrlError::Host),
            ("http://a b/", UrlError::Host),
            ("http://h:99999/", UrlError::Port),
            ("http://h/a b", UrlError::Path),
        ];
        for (text, error) in cases {
            assert_eq!(text.parse::<Url>(), Err(error), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_is_a_panic_and_what_parses_cannot_split_a_request(text in ".{0,40}", path in "[^ ]{0,20}") {
            for text in [text, format!("http://h{path}")] {
                if let Ok(url) = text.parse::<Url>() {
                    prop_assert!(url.path.starts_with('/'));
                    prop_assert!(!url.path.contains(['\r', '\n', ' ']));
                    prop_assert!(!url.host.contains(['\r', '\n', ' ']));
                }
            }
        }
    }
}
