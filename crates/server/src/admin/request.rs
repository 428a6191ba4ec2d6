//! One request to the endpoint: what its routes look at.
//!
//! Owns: reading these things from a request that the core has parsed.

use std::net::IpAddr;

use lamna_proto::message::{self, Field};

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) method: String,
    /// Without the query.
    pub(super) path: String,
    /// It comes from a page in a browser: such a request is not an administrator's (cross-site request forgery).
    pub(super) from_page: bool,
    /// The name or address by which the server is asked, in lower case and without port; none if it is not said.
    pub(super) host: Option<String>,
    /// The token for the right to give orders over TCP (RFC 6750 2.1).
    pub(super) token: Option<Vec<u8>>,
    pub(super) content: Vec<u8>,
}

impl Request {
    /// The relevant parts of `request`, whose content is still to come.
    pub(super) fn of(request: message::Request<'_>) -> Request {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let target = request.target();
        let has = |name: &'static [u8]| request.lines_named(name).next().is_some();
        Request {
            method: text(request.method_token()),
            path: text(target.split(|&byte| byte == b'?').next().unwrap_or_default()),
            from_page: has(b"origin") || has(b"sec-fetch-site"),
            host: request.field(Field::Host).map(host_name),
            token: request.lines_named(b"authorization").next().and_then(bearer),
            content: Vec::new(),
        }
    }
}

fn bearer(value: &[u8]) -> Option<Vec<u8>> {
    let (scheme, token) = value.split_at_checked(b"Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then(|| token.trim_ascii().to_owned())
}

/// The host in lower case, without port; a value that is no text is no existing name.
fn host_name(value: &[u8]) -> String {
    let host = str::from_utf8(value).unwrap_or("?").to_ascii_lowercase();
    let name = match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => name,
        _ => &host,
    };
    let name = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    name.strip_suffix('.').unwrap_or(name).to_owned()
}

/// Whether no one else can have given this name to this machine (DNS rebinding): it is an address, a name without a
/// dot, a name of a domain that cannot be registered (RFC 6761, 6762, 8375; `internal` by ICANN), the machine's own, or
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
    use lamna_proto::limits::Limits;
    use lamna_proto::parse::head::{self, Parsed};

    fn complete(input: &str) -> Request {
        let Ok(Parsed::Complete(head)) = head::parse(input.as_bytes(), &Limits::default()) else {
            panic!("{input} is a request");
        };
        Request::of(message::Request { bytes: input.as_bytes(), head: &head })
    }

    #[test]
    fn a_request_has_a_method_and_a_path() {
        let request = complete("POST /v1/arch?x=1 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}");
        let (method, path, host) = ("POST".into(), "/v1/arch".into(), Some("localhost".into()));
        assert_eq!(request, Request { method, path, from_page: false, host, token: None, content: Vec::new() });
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
}
