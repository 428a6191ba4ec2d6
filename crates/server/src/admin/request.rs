//! One request to the endpoint: the little HTTP/1.1 that an administrator's tools speak.
//!
//! Owns: its syntax and its bounds. Guarantees: nothing beyond [`HEAD_BYTES_MAX`] and [`CONTENT_BYTES_MAX`] is kept. It
//! is far less strict than the parser for what is served, because nobody stands between these two ends who could read a
//! request differently; content has to come with Content-Length.

use std::net::IpAddr;

/// Bytes of the longest head.
pub(super) const HEAD_BYTES_MAX: usize = 8 * 1024;
/// Bytes of the longest content: a change is a few dozen.
pub(super) const CONTENT_BYTES_MAX: usize = 16 * 1024;
/// Header fields of one request.
const FIELDS_MAX: usize = 64;

/// A request, whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) method: String,
    /// Without the query.
    pub(super) path: String,
    /// It comes from a page in a browser: such a request is not an administrator's (cross-site request forgery).
    pub(super) from_page: bool,
    /// The name or address by which the server is asked, in lower case and without port; none if it is not said.
    pub(super) host: Option<String>,
    /// What stands for the right to give orders over TCP (RFC 6750 2.1).
    pub(super) token: Option<Vec<u8>>,
    pub(super) content: Vec<u8>,
}

/// What has arrived so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Parsed {
    /// More is needed.
    Partial,
    /// A whole request.
    Complete(Request),
    /// It will not become one: the status that says so, and why in words.
    Refused(u16, &'static str),
}

/// Looks at the bytes received so far.
pub(super) fn parse(input: &[u8]) -> Parsed {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut head = httparse::Request::new(&mut fields);
    let length = match head.parse(&input[..input.len().min(HEAD_BYTES_MAX)]) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) if input.len() < HEAD_BYTES_MAX => return Parsed::Partial,
        Ok(httparse::Status::Partial) => return Parsed::Refused(431, "the head of a request may have 8 KiB"),
        Err(httparse::Error::TooManyHeaders) => return Parsed::Refused(431, "a request may have 64 fields"),
        Err(_) => return Parsed::Refused(400, "this is not a request of HTTP/1.1"),
    };
    let (Some(method), Some(target)) = (head.method, head.path) else {
        return Parsed::Refused(400, "this is not a request of HTTP/1.1");
    };
    if field(head.headers, "transfer-encoding").is_some() {
        return Parsed::Refused(411, "content has to come with Content-Length");
    }
    let Ok(content_length) = content_length(head.headers) else {
        return Parsed::Refused(400, "Content-Length is a number");
    };
    if content_length > CONTENT_BYTES_MAX {
        return Parsed::Refused(413, "the content of a request may have 16 KiB");
    }
    let Some(content) = input.get(length..length + content_length) else { return Parsed::Partial };
    Parsed::Complete(Request {
        method: method.to_owned(),
        path: target.split('?').next().unwrap_or_default().to_owned(),
        from_page: field(head.headers, "origin").is_some() || field(head.headers, "sec-fetch-site").is_some(),
        host: field(head.headers, "host").map(host_name),
        token: field(head.headers, "authorization").and_then(bearer),
        content: content.to_owned(),
    })
}

fn field<'a>(fields: &[httparse::Header<'a>], name: &str) -> Option<&'a [u8]> {
    fields.iter().find(|field| field.name.eq_ignore_ascii_case(name)).map(|field| field.value)
}

fn content_length(fields: &[httparse::Header<'_>]) -> Result<usize, ()> {
    let Some(value) = field(fields, "content-length") else { return Ok(0) };
    let text = str::from_utf8(value).map_err(|_| ())?;
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(());
    }
    // More than any number: more than is allowed.
    if text.is_empty() { Err(()) } else { Ok(text.parse().unwrap_or(usize::MAX)) }
}

fn bearer(value: &[u8]) -> Option<Vec<u8>> {
    let (scheme, token) = value.split_at_checked(b"Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then(|| token.trim_ascii().to_owned())
}

/// What is no text is no name that anybody has.
fn host_name(value: &[u8]) -> String {
    let host = str::from_utf8(value).unwrap_or("?").to_ascii_lowercase();
    let name = match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => name,
        _ => &host,
    };
    let name = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    name.strip_suffix('.').unwrap_or(name).to_owned()
}

/// Whether somebody else cannot have given this name to this machine (DNS rebinding): it is an address, a name without a
/// dot, a name of a domain that is nobody's to register (RFC 6761, 6762, 8375; `internal` by ICANN), the machine's own, or
/// one of `allowed`.
pub(super) fn is_own_name(name: &str, allowed: &[String]) -> bool {
    const PRIVATE: [&str; 4] = [".internal", ".local", ".localhost", ".home.arpa"];
    let is_word =
        |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    name.parse::<IpAddr>().is_ok()
        || is_word(name)
        || PRIVATE.iter().any(|domain| name.ends_with(domain))
        || rustix::system::uname().nodename().to_bytes().eq_ignore_ascii_case(name.as_bytes())
        || allowed.iter().any(|each| each == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn complete(input: &str) -> Request {
        match parse(input.as_bytes()) {
            Parsed::Complete(request) => request,
            other => panic!("{other:?}"),
        }
    }

    fn status(input: &str) -> u16 {
        match parse(input.as_bytes()) {
            Parsed::Refused(status, _) => status,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_request_has_a_method_a_path_and_content() {
        let request = complete("POST /v1/arch?x=1 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}");
        let content = b"{}".to_vec();
        let (method, path, host) = ("POST".into(), "/v1/arch".into(), Some("localhost".into()));
        assert_eq!(request, Request { method, path, from_page: false, host, token: None, content });
    }

    #[test]
    fn what_is_too_large_or_unclear_is_refused_with_the_reason() {
        let with = |field: &str| format!("GET / HTTP/1.1\r\n{field}\r\n\r\n");
        assert_eq!(status("\0\0"), 400);
        assert_eq!(status(&with("Content-Length: -1")), 400);
        assert_eq!(status(&with("Content-Length: 99999999999999999999999")), 413);
        assert_eq!(status(&with("Transfer-Encoding: chunked")), 411);
        assert_eq!(status(&with("A: b\r\n".repeat(65).trim_end())), 431);
        assert_eq!(status(&format!("GET /{}", "a".repeat(HEAD_BYTES_MAX))), 431);
    }

    #[test]
    fn what_pages_in_a_browser_send_is_known() {
        let from_page = |field: &str| complete(&format!("GET / HTTP/1.1\r\n{field}\r\n\r\n")).from_page;
        assert!(from_page("Origin: null") && from_page("Sec-Fetch-Site: cross-site"));
        assert!(!from_page("Host: 127.0.0.1"));
    }

    #[test]
    fn a_name_that_somebody_may_have_registered_is_not_ours_unless_it_is_allowed() {
        let host = |value: &str| complete(&format!("GET / HTTP/1.1\r\nHost: {value}\r\n\r\n")).host.unwrap();
        let allowed = ["metrics.example.org".to_owned()];
        for value in ["rebound.example:9000", "127.0.0.1.example", "internal.example", "", "a b", "example.org"] {
            assert!(!is_own_name(&host(value), &allowed), "{value}");
        }
        for value in [
            "127.0.0.1:9000",
            "localhost:9000",
            "LocalHost",
            "[::1]:9000",
            "[::1]",
            "192.0.2.1",
            "web1:9100",
            "web1.internal:9100",
            "web1.local.",
            "Metrics.Example.org:9100",
        ] {
            assert!(is_own_name(&host(value), &allowed), "{value}");
        }
    }

    #[test]
    fn a_token_stands_behind_its_scheme() {
        let token = |value: &str| complete(&format!("GET / HTTP/1.1\r\nAuthorization: {value}\r\n\r\n")).token;
        assert_eq!(token("bearer  abc "), Some(b"abc".to_vec()));
        assert_eq!(token("Basic abc"), None);
        assert_eq!(token("B"), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_request_or_not_and_more_of_them_do_not_change_a_verdict(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            more in prop::collection::vec(any::<u8>(), 0..20),
        ) {
            let verdict = parse(&bytes);
            if verdict != Parsed::Partial {
                prop_assert_eq!(parse(&[bytes, more].concat()), verdict);
            }
        }

        #[test]
        fn a_request_is_partial_until_its_last_byte(path in "/[a-z/]{0,20}", content in "[a-z]{0,30}") {
            let whole = format!("POST {path} HTTP/1.1\r\nContent-Length: {}\r\n\r\n{content}", content.len());
            for end in 0..whole.len() {
                prop_assert_eq!(parse(&whole.as_bytes()[..end]), Parsed::Partial);
            }
            let request = complete(&whole);
            prop_assert_eq!((request.path, request.content), (path, content.into_bytes()));
        }
    }
}
