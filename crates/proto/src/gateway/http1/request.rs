//! Writing the head of a request to an application (RFC 9112 3, RFC 9110 7.6).
//!
//! Owns: which fields are written, and in which words. Guarantees: one `Host`, at most one of `Content-Length` and
//! `Transfer-Encoding`, no field of one connection but our own, no byte that two parsers could take for different
//! things. A request that cannot be written so is an error, and nothing is written.

use std::io::Write;

use crate::gateway::fields::{EndToEnd, Fields, is_token};
use crate::gateway::forwarding::Interface;
use crate::gateway::{Inbound, RequestContent, forwarding, usually_has_content};
use crate::parse::{host, list};

/// The value of `Host`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostChoice<'a> {
    /// The host that the client asked for, or the upstream's name if it named none. Users expect that: links and
    /// redirects of the application are right.
    Client {
        /// The upstream's name, with its port.
        upstream: &'a [u8],
    },
    /// This, whatever the client asked for: the upstream's own name, or one that the route says.
    Fixed(&'a [u8]),
}

/// How to ask.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'a> {
    /// The value of `Host`.
    pub host: HostChoice<'a>,
    /// Whether to say `Forwarded` as well as `X-Forwarded-*`.
    pub forwarded: bool,
    /// Whether the application is asked to say 100 before the content is sent: where the client waits for it (RFC 9110
    /// 10.1.1).
    pub expects_continue: bool,
    /// The protocol to change to, from [`requested_upgrade`].
    pub upgrade: Option<&'a [u8]>,
    /// Whether the connection is to be kept.
    pub keep_alive: bool,
}

/// Why a request cannot be written. Requests that our parser accepted can be, but for
/// [`Unwritable::Forwards`] and [`Unwritable::Connection`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unwritable {
    /// The method is not a token.
    Method,
    /// The path does not begin with a slash, or the path or query has a byte that is not visible, or a `#`.
    Target,
    /// The authority that was asked for is not one, or neither the client nor the upstream gives one.
    Host,
    /// `Max-Forwards` is 0: the receiver itself has to answer OPTIONS and TRACE (RFC 9110 7.6.2).
    Forwards,
    /// `Connection` names too many fields.
    Connection,
    /// An upgrade with content, or to something that is not a protocol.
    Upgrade,
}

/// Not passed on with the others.
const OURS: &[&str] = &["host", "via", "expect", "max-forwards", "cookie", "trailer"];

/// Appends the head of `request` to `out`. `out` grows by the length of the request's head and some 400 bytes at most.
///
/// # Errors
/// See [`Unwritable`]; `out` is then as it was.
pub fn write_head(request: &Inbound<'_>, how: &Outgoing<'_>, out: &mut Vec<u8>) -> Result<(), Unwritable> {
    let start = out.len();
    append(request, how, out).inspect_err(|_| out.truncate(start))
}

fn append(request: &Inbound<'_>, how: &Outgoing<'_>, out: &mut Vec<u8>) -> Result<(), Unwritable> {
    append_request_line(request, out)?;
    let own_host = request.own.values("host").next();
    append_line(out, "Host", host_of(request, own_host.map_or(how.host, HostChoice::Fixed))?);
    append_framing(request, out);
    append_connection(request, how, out)?;
    forwarding::write(request, how.forwarded, out);
    let goes_on = |(name, value): &(&[u8], &[u8])| forwarding::goes_on(name, value, request.origin, Interface::Http);
    let end_to_end = EndToEnd::of(request.fields).map_err(|_| Unwritable::Connection)?.without(OURS);
    let own = request.own.iter().filter(|(name, _)| !name.eq_ignore_ascii_case(b"host"));
    for (name, value) in end_to_end.iter().filter(goes_on).chain(own) {
        append_parts(out, &[name, b": ", value, b"\r\n"]);
    }
    append_cookie(request.fields, &end_to_end, out);
    append_max_forwards(request, out)?;
    out.extend_from_slice(b"\r\n");
    Ok(())
}

fn append_request_line(request: &Inbound<'_>, out: &mut Vec<u8>) -> Result<(), Unwritable> {
    if !is_token(request.method) {
        return Err(Unwritable::Method);
    }
    let is_of_target = |bytes: &[u8]| bytes.iter().all(|&byte| byte.is_ascii_graphic() && byte != b'#');
    let query = request.query.unwrap_or_default();
    if !request.path.starts_with(b"/")
        || !is_of_target(request.path)
        || !is_of_target(query)
        || request.path.contains(&b'?')
    {
        return Err(Unwritable::Target);
    }
    append_parts(out, &[request.method, b" ", request.path]);
    if request.query.is_some() {
        append_parts(out, &[b"?", query]);
    }
    out.extend_from_slice(b" HTTP/1.1\r\n");
    Ok(())
}

fn host_of<'a>(request: &Inbound<'a>, choice: HostChoice<'a>) -> Result<&'a [u8], Unwritable> {
    let asked = request.authority.filter(|authority| !authority.is_empty());
    let authority = match choice {
        HostChoice::Client { upstream } => asked.unwrap_or(upstream),
        HostChoice::Fixed(host) => host,
    };
    // What was asked for is written in any case, in `X-Forwarded-Host`.
    let is_valid = asked.into_iter().chain([authority]).all(|one| host::parse(one).is_ok());
    if is_valid { Ok(authority) } else { Err(Unwritable::Host) }
}

/// RFC 9112 6. A method for which content is usual gets a length even without any (RFC 9110 8.6).
fn append_framing(request: &Inbound<'_>, out: &mut Vec<u8>) {
    // Writing to a vector does not fail.
    match request.content {
        RequestContent::Sized(bytes) => _ = write!(out, "Content-Length: {bytes}\r\n"),
        RequestContent::Streamed => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
        RequestContent::None if usually_has_content(request.method) => {
            out.extend_from_slice(b"Content-Length: 0\r\n");
        }
        RequestContent::None | RequestContent::Buffered => {}
    }
}

/// Puts the length of the content into a head that was written for [`RequestContent::Buffered`].
pub fn add_length(head: &mut Vec<u8>, bytes: u64) {
    // In front of the empty line.
    head.truncate(head.len().saturating_sub(b"\r\n".len()));
    // Writing to a vector does not fail.
    _ = write!(head, "Content-Length: {bytes}\r\n\r\n");
}

/// Our own `Connection`, and the fields that it names.
fn append_connection(request: &Inbound<'_>, how: &Outgoing<'_>, out: &mut Vec<u8>) -> Result<(), Unwritable> {
    if let Some(protocol) = how.upgrade {
        if request.content != RequestContent::None || !is_protocol(protocol) {
            return Err(Unwritable::Upgrade);
        }
        append_parts(out, &[b"Connection: upgrade\r\nUpgrade: ", protocol, b"\r\n"]);
        return Ok(());
    }
    // RFC 9110 10.1.4: trailers are passed on if the client takes them.
    let takes_trailers = request.fields.has_member("te", "trailers");
    match (takes_trailers, how.keep_alive) {
        (true, true) => out.extend_from_slice(b"Connection: TE\r\nTE: trailers\r\n"),
        (true, false) => out.extend_from_slice(b"Connection: close, TE\r\nTE: trailers\r\n"),
        (false, true) => {}
        (false, false) => out.extend_from_slice(b"Connection: close\r\n"),
    }
    if how.expects_continue && request.content != RequestContent::None {
        out.extend_from_slice(b"Expect: 100-continue\r\n");
    }
    Ok(())
}

/// RFC 9113 8.2.3: the pieces in which other versions send cookies are one field here.
fn append_cookie(fields: Fields<'_>, end_to_end: &EndToEnd<'_>, out: &mut Vec<u8>) {
    let mut separator: &[u8] = b"Cookie: ";
    for value in fields.values("cookie").filter(|_| !end_to_end.is_named(b"cookie")) {
        append_parts(out, &[separator, value]);
        separator = b"; ";
    }
    if separator == b"; " {
        out.extend_from_slice(b"\r\n");
    }
}

/// RFC 9110 7.6.2.
fn append_max_forwards(request: &Inbound<'_>, out: &mut Vec<u8>) -> Result<(), Unwritable> {
    let Some(value) = request.fields.values("max-forwards").next() else { return Ok(()) };
    let digits = std::str::from_utf8(value).ok().filter(|_| value.iter().all(u8::is_ascii_digit));
    let left = digits.and_then(|digits| digits.parse::<u64>().ok());
    if let Some(left) = left.filter(|_| matches!(request.method, b"OPTIONS" | b"TRACE")) {
        let left = left.checked_sub(1).ok_or(Unwritable::Forwards)?;
        _ = write!(out, "Max-Forwards: {left}\r\n");
    }
    Ok(())
}

fn append_line(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    append_parts(out, &[name.as_bytes(), b": ", value, b"\r\n"]);
}

fn append_parts(out: &mut Vec<u8>, parts: &[&[u8]]) {
    parts.iter().for_each(|part| out.extend_from_slice(part));
}

/// `name` or `name/version` (RFC 9110 7.8).
fn is_protocol(bytes: &[u8]) -> bool {
    bytes.split(|&byte| byte == b'/').all(is_token) && bytes.iter().filter(|&&byte| byte == b'/').count() <= 1
}

/// The protocol that a client of HTTP/1.1 asks to change to, if it is one of `allowed` (in lower case): `Upgrade` names
/// it and `Connection` names `Upgrade` (RFC 9110 7.8). An upgrade is a tunnel that no rule looks into, so only named
/// protocols pass; `h2c` must never be among them, because requests inside the tunnel would not be judged.
pub fn requested_upgrade<'a>(fields: Fields<'a>, allowed: &[&str]) -> Option<&'a [u8]> {
    if !fields.has_member("connection", "upgrade") {
        return None;
    }
    let mut protocols = fields.values("upgrade").flat_map(list::members);
    protocols.find(|protocol| allowed.iter().any(|one| protocol.eq_ignore_ascii_case(one.as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::fields::LineEnds;
    use crate::gateway::{Believed, Origin, Protocol};

    fn request<'a>(method: &'a str, fields: &'a str) -> Inbound<'a> {
        Inbound {
            method: method.as_bytes(),
            path: b"/p",
            query: Some(b"q"),
            authority: Some(b"a.example"),
            fields: Fields::check(fields.as_bytes(), LineEnds::CrLf).unwrap(),
            own: Fields::default(),
            content: RequestContent::None,
            origin: Origin {
                client: Some(([192, 0, 2, 1].into(), 5)),
                believed: Believed::Nothing,
                behind: None,
                is_secure: false,
                protocol: Protocol::Http11,
            },
        }
    }

    const HOW: Outgoing<'static> = Outgoing {
        host: HostChoice::Client { upstream: b"up:3000" },
        forwarded: false,
        expects_continue: false,
        upgrade: None,
        keep_alive: true,
    };

    const WAY: &str =
        "Via: 1.1 lamna\r\nX-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: a.example\r\n";

    fn written(request: &Inbound<'_>, how: &Outgoing<'_>) -> Result<String, Unwritable> {
        let mut out = Vec::new();
        write_head(request, how, &mut out)?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn a_length_that_is_known_later_is_put_into_the_head() {
        let mut head =
            written(&Inbound { content: RequestContent::Buffered, ..request("POST", "A: b\r\n") }, &HOW).unwrap();
        let before = head.clone();
        let mut bytes = std::mem::take(&mut head).into_bytes();
        add_length(&mut bytes, 12);
        let expected = format!("{}Content-Length: 12\r\n\r\n", before.strip_suffix("\r\n").unwrap());
        assert_eq!(String::from_utf8(bytes).unwrap(), expected);
    }

    #[test]
    fn what_is_end_to_end_is_passed_on_and_nothing_else() {
        let fields = "Host: other\r\nAccept: */*\r\nConnection: X-Hop, close\r\nX-Hop: 1\r\nContent-Length: 9\r\nTE: gzip\r\n\
                      X_Forwarded_For: 6.6.6.6\r\nX-Real-IP: 6.6.6.6\r\napi_key: k\r\nUpgrade: h2c\r\nExpect: 100-continue\r\n";
        let expected = format!("GET /p?q HTTP/1.1\r\nHost: a.example\r\n{WAY}Accept: */*\r\napi_key: k\r\n\r\n");
        assert_eq!(written(&request("GET", fields), &HOW), Ok(expected));
    }

    #[test]
    fn host_is_the_clients_or_the_upstreams_or_what_the_route_says() {
        let host = |authority, host| {
            let request = Inbound { authority, ..request("GET", "") };
            written(&request, &Outgoing { host, ..HOW }).map(|text| text.lines().nth(1).unwrap().to_string())
        };
        let client = HostChoice::Client { upstream: b"up:3000" };
        assert_eq!(host(Some(&b"c:1"[..]), client).as_deref(), Ok("Host: c:1"));
        assert_eq!(host(None, client).as_deref(), Ok("Host: up:3000"));
        assert_eq!(host(Some(&b""[..]), client).as_deref(), Ok("Host: up:3000"));
        assert_eq!(host(Some(&b"c"[..]), HostChoice::Fixed(b"x")).as_deref(), Ok("Host: x"));
        assert_eq!(host(Some(&b"a b"[..]), client), Err(Unwritable::Host));
    }

    #[test]
    fn rfc_9110_8_6_content_is_announced_in_one_way() {
        let framing = |method, content| {
            let text = written(&Inbound { content, ..request(method, "Content-Length: 77\r\n") }, &HOW).unwrap();
            let is_framing = |line: &&str| line.starts_with("Content-Length") || line.starts_with("Transfer-Encoding");
            text.lines().filter(is_framing).map(str::to_string).collect::<Vec<_>>()
        };
        assert_eq!(framing("GET", RequestContent::None), [""; 0]);
        assert_eq!(framing("POST", RequestContent::None), ["Content-Length: 0"]);
        assert_eq!(framing("GET", RequestContent::Sized(5)), ["Content-Length: 5"]);
        assert_eq!(framing("POST", RequestContent::Streamed), ["Transfer-Encoding: chunked"]);
        assert_eq!(framing("POST", RequestContent::Buffered), [""; 0]);
    }

    #[test]
    fn the_connection_is_ours() {
        let connection = |fields, how| written(&request("GET", fields), &how).unwrap().replace(WAY, "");
        let start = "GET /p?q HTTP/1.1\r\nHost: a.example\r\n";
        let close = Outgoing { keep_alive: false, ..HOW };
        assert_eq!(connection("Connection: keep-alive\r\n", close), format!("{start}Connection: close\r\n\r\n"));
        let trailers = format!("{start}Connection: TE\r\nTE: trailers\r\n\r\n");
        assert_eq!(connection("TE: gzip;q=1, trailers\r\nConnection: TE\r\n", HOW), trailers);
    }

    #[test]
    fn rfc_9110_7_8_only_allowed_protocols_are_changed_to() {
        let asked = |fields: &'static str| {
            requested_upgrade(Fields::check(fields.as_bytes(), LineEnds::CrLf).unwrap(), &["websocket"])
        };
        assert_eq!(asked("Connection: keep-alive, Upgrade\r\nUpgrade: h2c, WebSocket\r\n"), Some(&b"WebSocket"[..]));
        assert_eq!(asked("Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"), None);
        assert_eq!(asked("Upgrade: websocket\r\n"), None);
        let how = Outgoing { upgrade: Some(b"websocket"), ..HOW };
        let text = written(&request("GET", "Upgrade: h2c\r\nSec-WebSocket-Key: k\r\n"), &how).unwrap();
        assert!(text.contains("Connection: upgrade\r\nUpgrade: websocket\r\n") && !text.contains("h2c"), "{text}");
        assert!(text.contains("Sec-WebSocket-Key: k\r\n"));
        let content = Inbound { content: RequestContent::Sized(1), ..request("GET", "") };
        assert_eq!(written(&content, &how), Err(Unwritable::Upgrade));
        let bad = Outgoing { upgrade: Some(b"a\r\nb"), ..HOW };
        assert_eq!(written(&request("GET", ""), &bad), Err(Unwritable::Upgrade));
    }

    #[test]
    fn rfc_9110_10_1_1_only_content_can_be_waited_for() {
        let how = Outgoing { expects_continue: true, ..HOW };
        let expects = |content| {
            written(&Inbound { content, ..request("POST", "") }, &how).unwrap().contains("Expect: 100-continue\r\n")
        };
        assert!(
            expects(RequestContent::Streamed) && expects(RequestContent::Sized(1)) && !expects(RequestContent::None)
        );
    }

    #[test]
    fn rfc_9113_8_2_3_cookies_are_one_field() {
        let text = written(&request("GET", "Cookie: a=1\r\ncookie: b=2\r\n"), &HOW).unwrap();
        assert!(text.ends_with("\r\nCookie: a=1; b=2\r\n\r\n"), "{text}");
        assert!(!written(&request("GET", "Cookie: a=1\r\nConnection: cookie\r\n"), &HOW).unwrap().contains("a=1"));
    }

    #[test]
    fn rfc_9110_7_6_2_forwards_are_counted() {
        let forwards = |method, fields| written(&request(method, fields), &HOW);
        assert!(forwards("OPTIONS", "Max-Forwards: 3\r\n").unwrap().contains("Max-Forwards: 2\r\n"));
        assert_eq!(forwards("TRACE", "Max-Forwards: 0\r\n"), Err(Unwritable::Forwards));
        assert!(!forwards("GET", "Max-Forwards: 0\r\n").unwrap().contains("Max-Forwards"));
    }

    #[test]
    fn what_has_two_readings_is_not_written() {
        let cases: [(Inbound<'_>, Unwritable); 6] = [
            (Inbound { method: b"GET /x HTTP/1.1\r\n", ..request("GET", "") }, Unwritable::Method),
            (Inbound { path: b"p", ..request("GET", "") }, Unwritable::Target),
            (Inbound { path: b"/p HTTP/1.1\r\nX:", ..request("GET", "") }, Unwritable::Target),
            (Inbound { path: b"/p?x", ..request("GET", "") }, Unwritable::Target),
            (Inbound { query: Some(b"a#b"), ..request("GET", "") }, Unwritable::Target),
            (Inbound { authority: Some(b"u@h"), ..request("GET", "") }, Unwritable::Host),
        ];
        for (request, error) in cases {
            let mut out = b"before".to_vec();
            assert_eq!(write_head(&request, &HOW, &mut out), Err(error));
            assert_eq!(out, b"before");
        }
    }
}
