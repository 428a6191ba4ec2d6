//! Conditions of a route on a request besides its path: method, host, header fields, query, client and protocol.
//!
//! Owns: [`Condition`] as a plain value, and [`Test`], which answers it for a request. Pure.

use std::borrow::Cow;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use lamna_proto::message::{Method, Request};
use lamna_proto::parse::percent;
use regex::bytes::Regex;

use super::pattern::compile;

/// One thing that is asked of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// One of these methods.
    Method(Vec<String>),
    /// One of these hosts, in lower case; `*.example.org` is one or more labels in front.
    Host(Vec<String>),
    /// A header field.
    Header(String, ValueTest),
    /// A parameter of the query, decoded.
    Query(String, ValueTest),
    /// A client in one of these networks.
    Client(Vec<Network>),
    /// One of these versions of HTTP, as in `HTTP/1.1`.
    Protocol(Vec<String>),
    /// Not all of these.
    Not(Vec<Condition>),
}

/// A test of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueTest {
    /// It is there.
    Present,
    /// It is not there.
    Absent,
    /// It is one of these.
    OneOf(Vec<String>),
    /// It matches this.
    Regex(String),
}

/// An address, or all that begin with the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

/// A request, as conditions look at it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asked<'a> {
    /// The host, without port.
    pub host: Option<&'a [u8]>,
    /// The query, without `?`.
    pub query: Option<&'a [u8]>,
    /// The method that is asked for, if it is another one than that of the request.
    pub method: Option<&'a [u8]>,
    /// The head.
    pub request: Option<Request<'a>>,
    /// The address of the client, if that is known.
    pub client: Option<IpAddr>,
}

/// A condition that is ready to be asked.
#[derive(Debug)]
pub struct Test {
    condition: Condition,
    regex: Option<Regex>,
    /// The tests that must not all hold, of [`Condition::Not`].
    inner: Vec<Test>,
}

impl Condition {
    /// Whether it asks who the client is.
    pub fn looks_at_client(&self) -> bool {
        match self {
            Condition::Client(_) => true,
            Condition::Not(inner) => inner.iter().any(Condition::looks_at_client),
            _ => false,
        }
    }

    /// Whether it is plain that no request fulfils both.
    pub fn excludes(&self, other: &Condition) -> bool {
        let apart = |one: &[String], two: &[String]| !one.iter().any(|each| two.contains(each));
        match (self, other) {
            (Condition::Method(one), Condition::Method(two)) => {
                let lets_head = |methods: &[String]| is_method(methods, b"HEAD");
                apart(one, two) && !(lets_head(one) && lets_head(two))
            }
            (Condition::Protocol(one), Condition::Protocol(two)) => apart(one, two),
            (Condition::Host(one), Condition::Host(two)) => {
                let are_names = !one.iter().chain(two).any(|host| host.starts_with("*."));
                are_names && apart(one, two)
            }
            (Condition::Query(name, one), Condition::Query(other, two)) => name == other && one.excludes(two),
            (Condition::Header(name, one), Condition::Header(other, two)) => {
                let is_absence = |test: &ValueTest| *test == ValueTest::Absent;
                // A field may be there twice, with both values.
                name.eq_ignore_ascii_case(other) && is_absence(one) != is_absence(two)
            }
            _ => false,
        }
    }
}

impl ValueTest {
    fn excludes(&self, other: &ValueTest) -> bool {
        match (self, other) {
            (ValueTest::Absent, ValueTest::Absent) => false,
            (ValueTest::Absent, _) | (_, ValueTest::Absent) => true,
            // A parameter may be there twice, and the first counts.
            (ValueTest::OneOf(one), ValueTest::OneOf(two)) => !one.iter().any(|each| two.contains(each)),
            _ => false,
        }
    }
}

impl Test {
    /// Ready to be asked.
    ///
    /// # Errors
    /// A regular expression in it is none: see [`compile`].
    pub fn new(condition: &Condition) -> Result<Test, String> {
        let regex = match condition {
            Condition::Header(_, ValueTest::Regex(text)) | Condition::Query(_, ValueTest::Regex(text)) => {
                Some(compile(text)?)
            }
            _ => None,
        };
        let inner = match condition {
            Condition::Not(inner) => inner.iter().map(Test::new).collect::<Result<_, _>>()?,
            _ => Vec::new(),
        };
        Ok(Test { condition: condition.clone(), regex, inner })
    }

    /// The header fields that it looks at.
    pub fn headers(&self) -> Vec<&str> {
        match &self.condition {
            Condition::Header(name, _) => vec![name],
            _ => self.inner.iter().flat_map(Test::headers).collect(),
        }
    }

    /// The header field without which no request fulfils it.
    pub fn needed_header(&self) -> Option<&str> {
        match &self.condition {
            Condition::Header(_, ValueTest::Absent) => None,
            Condition::Header(name, _) => Some(name),
            _ => None,
        }
    }

    /// Whether the request fulfils it. What is not known is not fulfilled, and so it is what `not` asks for.
    pub fn holds(&self, asked: &Asked<'_>) -> bool {
        let request = asked.request;
        match &self.condition {
            Condition::Method(methods) => {
                let token = asked.method.or(request.map(method_of));
                token.is_some_and(|token| is_method(methods, token))
            }
            Condition::Protocol(names) => {
                request.is_some_and(|request| names.iter().any(|name| name == request.head.version.name()))
            }
            Condition::Host(hosts) => asked.host.is_some_and(|host| hosts.iter().any(|each| is_host(each, host))),
            Condition::Client(networks) => {
                asked.client.is_some_and(|client| networks.iter().any(|network| network.contains(client)))
            }
            Condition::Header(name, test) => {
                let Some(request) = request else { return false };
                let mut lines = request.lines_named(name.as_bytes());
                match test {
                    ValueTest::Present => lines.next().is_some(),
                    ValueTest::Absent => lines.next().is_none(),
                    _ => lines.any(|value| self.fits(test, value)),
                }
            }
            Condition::Not(_) => !self.inner.iter().all(|test| test.holds(asked)),
            Condition::Query(name, test) => {
                let value = asked.query.and_then(|query| parameter(query, name.as_bytes()));
                match (test, value) {
                    (ValueTest::Absent, value) => value.is_none(),
                    (_, None) => false,
                    (ValueTest::Present, Some(_)) => true,
                    (test, Some(value)) => self.fits(test, &decoded(value)),
                }
            }
        }
    }

    fn fits(&self, test: &ValueTest, value: &[u8]) -> bool {
        match test {
            ValueTest::OneOf(values) => values.iter().any(|one| one.as_bytes() == value),
            _ => self.regex.as_ref().is_some_and(|regex| regex.is_match(value)),
        }
    }
}

/// Whether `host` is what `pattern`, in lower case, means.
fn is_host(pattern: &str, host: &[u8]) -> bool {
    let host = host.strip_suffix(b".").unwrap_or(host);
    match pattern.strip_prefix('*') {
        // The dot stands at the beginning of what is left.
        Some(suffix) => {
            let start = host.len().checked_sub(suffix.len()).filter(|start| *start > 0);
            start.is_some_and(|start| host[start..].eq_ignore_ascii_case(suffix.as_bytes()))
        }
        None => host.eq_ignore_ascii_case(pattern.as_bytes()),
    }
}

/// The value of the first parameter `name` of a query, as received.
fn parameter<'q>(query: &'q [u8], name: &[u8]) -> Option<&'q [u8]> {
    query.split(|&byte| byte == b'&').find_map(|pair| {
        let at = memchr::memchr(b'=', pair).unwrap_or(pair.len());
        let is_it = &pair[..at] == name || (is_coded(&pair[..at]) && *decoded(&pair[..at]) == *name);
        is_it.then(|| pair.get(at + 1..).unwrap_or_default())
    })
}

fn is_coded(text: &[u8]) -> bool {
    memchr::memchr2(b'%', b'+', text).is_some()
}

/// Without percent-encoding, and with spaces for plus signs, as forms are sent. What is no encoding stays.
pub fn decoded(text: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memchr(b'+', text).is_none() {
        return percent::decoded(text);
    }
    let spaced: Vec<u8> = text.iter().map(|&byte| if byte == b'+' { b' ' } else { byte }).collect();
    percent::decoded(&spaced).into_owned().into()
}

impl Network {
    /// Networks that every address is in one of.
    pub fn all() -> [Network; 2] {
        [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)]
            .map(|address| Network { address, bits: 0 })
    }

    /// Whether `address` is in it. An IPv4 address that came over IPv6 is one of IPv4.
    #[inline]
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.bits)).unwrap_or(0);
                own.to_bits() & mask == other.to_bits() & mask
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.bits)).unwrap_or(0);
                own.to_bits() & mask == other.to_bits() & mask
            }
            _ => false,
        }
    }
}

impl From<IpAddr> for Network {
    fn from(address: IpAddr) -> Network {
        Network { address, bits: if address.is_ipv4() { 32 } else { 128 } }
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Network, String> {
        let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let expected = "is not a network: expected one as in 192.0.2.0/24, 2001:db8::/32 or 192.0.2.1";
        let address: IpAddr = address.parse().map_err(|_| expected)?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            None => most,
            Some(bits) => bits.parse().ok().filter(|bits| *bits <= most).ok_or(expected)?,
        };
        Ok(Network { address, bits })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.address, self.bits)
    }
}

/// Whether `methods` name `token`. HEAD asks for what GET gets, without its content (RFC 9110 9.3.2): what is said of
/// GET is said of it.
fn is_method(methods: &[String], token: &[u8]) -> bool {
    let names = |token: &[u8]| methods.iter().any(|method| method.as_bytes() == token);
    names(token) || token == b"HEAD" && names(b"GET")
}

/// The method by which a request asks. A WebSocket is asked for by GET, over HTTP/2 with another word (RFC 8441).
fn method_of(request: Request<'_>) -> &[u8] {
    if request.head.method == Method::Connect { b"GET" } else { request.method_token() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lamna_proto::limits::Limits;
    use lamna_proto::parse::head::{self, Parsed};

    fn holds(condition: &Condition, head: &str, query: &str, client: &str) -> bool {
        let bytes = format!("{head}\r\n\r\n");
        let Ok(Parsed::Complete(head)) = head::parse(bytes.as_bytes(), &Limits::default()) else { panic!("{bytes}") };
        let request = Some(Request { bytes: bytes.as_bytes(), head: &head });
        let (host, query) = (Some(&b"WWW.a.example"[..]), Some(query.as_bytes()));
        let asked = Asked { host, query, method: None, request, client: client.parse().ok() };
        Test::new(condition).unwrap().holds(&asked)
    }

    #[test]
    fn header_fields_are_found_by_any_name_in_any_case_and_in_any_line() {
        let with = |test| Condition::Header("X-Debug".into(), test);
        let asks = |test, head: &str| holds(&with(test), head, "", "");
        let twice = "GET / HTTP/1.1\r\nx-debug: a\r\nHost: b\r\nX-DEBUG:  no \r\nX-Debugging: c";
        assert!(asks(ValueTest::Present, twice) && !asks(ValueTest::Absent, twice));
        assert!(asks(ValueTest::OneOf(vec!["no".into()]), twice) && !asks(ValueTest::OneOf(vec!["c".into()]), twice));
        assert!(asks(ValueTest::Regex("^n.$".into()), twice) && !asks(ValueTest::Regex("c".into()), twice));
        assert!(asks(ValueTest::Absent, "GET / HTTP/1.1") && !asks(ValueTest::Present, "GET / HTTP/1.1"));
    }

    #[test]
    fn parameters_of_the_query_are_decoded_and_the_first_counts() {
        let asks = |test, query| holds(&Condition::Query("a b".into(), test), "GET / HTTP/1.1", query, "");
        let is = |value: &str| ValueTest::OneOf(vec![value.into()]);
        assert!(asks(is("1 2"), "x=1&a+b=1%202&a+b=3") && !asks(is("3"), "a%20b=1&a+b=3"));
        assert!(asks(is(""), "a+b") && asks(ValueTest::Present, "a+b") && asks(ValueTest::Absent, "ab=1"));
        assert!(asks(is("100%"), "a%20b=100%") && asks(ValueTest::Regex("^\\d+$".into()), "a%20b=12"));
    }

    #[test]
    fn methods_hosts_protocols_and_clients_are_compared() {
        let head = "HEAD / HTTP/1.0";
        let list = |text: &str| vec![text.to_owned()];
        assert!(holds(&Condition::Method(list("HEAD")), head, "", ""));
        assert!(holds(&Condition::Method(list("GET")), head, "", ""), "what GET gets");
        assert!(!holds(&Condition::Method(list("HEAD")), "GET / HTTP/1.1", "", ""));
        assert!(!holds(&Condition::Method(list("POST")), head, "", ""));
        assert!(holds(&Condition::Protocol(list("HTTP/1.0")), head, "", ""));
        for (host, is) in
            [("www.a.example", true), ("*.a.example", true), ("*.www.a.example", false), ("a.example", false)]
        {
            assert_eq!(holds(&Condition::Host(list(host)), head, "", ""), is, "{host}");
        }
        for (network, client, is) in [
            ("10.0.0.0/8", "10.1.2.3", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("0.0.0.0/0", "1.2.3.4", true),
            ("10.0.0.1", "10.0.0.1", true),
            ("10.0.0.1", "10.0.0.2", false),
            ("10.0.0.0/8", "::ffff:10.0.0.1", true),
            ("2001:db8::/32", "2001:db8:1::1", true),
            ("2001:db8::/32", "2001:db9::1", false),
            ("::/0", "1.2.3.4", false),
            ("10.0.0.0/8", "", false),
        ] {
            let condition = Condition::Client(vec![network.parse().unwrap()]);
            assert_eq!(holds(&condition, head, "", client), is, "{network} {client}");
        }
        for text in ["10.0.0.0/33", "10.0.0", "::/129", "a", "10.0.0.0/"] {
            assert!(text.parse::<Network>().is_err(), "{text}");
        }
    }

    #[test]
    fn what_excludes_each_other_is_known_where_it_is_plain() {
        let method = |names: &[&str]| Condition::Method(names.iter().map(|name| (*name).to_owned()).collect());
        assert!(method(&["GET"]).excludes(&method(&["POST"])) && !method(&["GET"]).excludes(&method(&["POST", "GET"])));
        assert!(!method(&["GET"]).excludes(&method(&["HEAD"])) && method(&["POST"]).excludes(&method(&["HEAD"])));
        let header = |test| Condition::Header("A".into(), test);
        assert!(header(ValueTest::Absent).excludes(&header(ValueTest::Present)));
        let is = |value: &str| ValueTest::OneOf(vec![value.to_owned()]);
        assert!(!header(is("1")).excludes(&header(is("2"))), "a field may be there twice");
        assert!(Condition::Query("a".into(), is("1")).excludes(&Condition::Query("a".into(), is("2"))));
        assert!(!Condition::Query("a".into(), is("1")).excludes(&Condition::Query("b".into(), is("2"))));
    }
}
