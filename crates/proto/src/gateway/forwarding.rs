//! The way of a request in its fields: `Via` (RFC 9110 7.6.3), `Forwarded` (RFC 7239) and `X-Forwarded-*`.
//!
//! Owns: these fields in what goes to an application. Guarantees: an application sees what we know, and what a proxy
//! that is trusted said; nothing that any other client claims, in whatever spelling.

use std::io::Write;
use std::net::IpAddr;

use super::fields::{Fields, starts_with};
use super::{Believed, Inbound, Origin};
use crate::parse::list;

/// Our name in `Via`.
const PSEUDONYM: &str = "lamna";

/// Whether a field is one of those that tell of the way of a request, whose values are believed. `_` counts as `-`,
/// because interfaces like CGI and WSGI make no difference between the two.
fn tells_of_the_way(name: &[u8]) -> bool {
    spells(name, "forwarded") || spells(name, "x-real-ip") || spells(&name[..name.len().min(11)], "x-forwarded")
}

/// Whether a field is the request ID, which the server sets itself for an application.
fn names_request(name: &[u8]) -> bool {
    spells(name, "x-request-id")
}

/// Whether a field names the user, as a proxy does that has verified one. Behind CGI and WSGI it is one letter from
/// `REMOTE_USER`, which is the server's.
fn names_user(name: &[u8]) -> bool {
    spells(name, "remote-user")
}

/// The interface by which an application is told of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interface {
    /// Fields, with the way of a request written anew.
    Http,
    /// Variables, which have one sign for a hyphen and every other sign.
    Script,
}

/// Whether a field of a client goes on to an application: none that the server says itself, or that a client could pass
/// off as such a one, in whatever spelling. What a trusted proxy says of the way of a request, and of its user, does.
pub fn goes_on(name: &[u8], value: &[u8], origin: Origin, interface: Interface) -> bool {
    let is_spelled_well = match interface {
        Interface::Http => !is_disguised(name),
        Interface::Script => !is_odd(name),
    };
    is_spelled_well
        && !names_request(name)
        && (!names_user(name) || origin.believed != Believed::Nothing)
        && (!tells_of_the_way(name)
            || match interface {
                Interface::Http => is_kept(name, value, origin),
                Interface::Script => is_believed(name, value, origin),
            })
}

/// Whether what an application gets in this field tells of the one client that asks, whatever the request has there.
pub(crate) fn tells_of_client(name: &[u8]) -> bool {
    ["x-forwarded-for", "x-real-ip", "forwarded", "x-request-id"].iter().any(|own| spells(name, own))
}

/// Whether `name` is `lower` to some application: in any case, and with another sign for `-`. CGI has `_` for it (RFC
/// 3875 4.1.18), PHP for `.` too.
pub fn spells(name: &[u8], lower: &str) -> bool {
    let same = |(a, b): (&u8, u8)| match a.is_ascii_alphanumeric() {
        true => a.to_ascii_lowercase() == b,
        false => b == b'-',
    };
    name.len() == lower.len() && name.iter().zip(lower.bytes()).all(same)
}

/// Appends the lines for `request`: `Via` and `X-Forwarded-*` always, `Forwarded` if the route wants it or a trusted
/// proxy writes it.
pub(crate) fn write(request: &Inbound<'_>, wants_forwarded: bool, out: &mut Vec<u8>) {
    let Inbound { fields, origin, .. } = *request;
    let authority = request.authority.filter(|authority| !authority.is_empty());
    write_line(out, "Via", |out| {
        append_received(fields, "via", out);
        [origin.protocol.version(), " ", PSEUDONYM].iter().for_each(|part| out.extend_from_slice(part.as_bytes()));
    });
    let of = |believed| if origin.believed == believed { fields } else { Fields::default() };
    let (x_forwarded, forwarded) = (of(Believed::XForwarded), of(Believed::Forwarded));
    write_addresses(origin, x_forwarded, out);
    write_first(out, "X-Forwarded-Proto", x_forwarded, Some(scheme(origin).as_bytes()));
    write_first(out, "X-Forwarded-Host", x_forwarded, authority);
    if wants_forwarded || forwarded.values("forwarded").next().is_some() {
        write_line(out, "Forwarded", |out| {
            append_received(forwarded, "forwarded", out);
            append_element(origin, authority, out);
        });
    }
}

/// Whether a field that tells of the way of a request goes on to a script, as it came: if a trusted proxy writes it.
/// `X-Real-IP` is nobody's, and goes on if it names the client that is believed.
fn is_believed(name: &[u8], value: &[u8], origin: Origin) -> bool {
    let is_client = || origin.behind.is_some() && address(value) == origin.behind.map(|client| client.to_canonical());
    match origin.believed {
        Believed::Nothing => false,
        _ if is_odd(name) => false,
        _ if name.eq_ignore_ascii_case(b"x-real-ip") => is_client(),
        Believed::XForwarded => !name.eq_ignore_ascii_case(b"forwarded"),
        Believed::Forwarded => name.eq_ignore_ascii_case(b"forwarded"),
    }
}

/// The same for an application that speaks HTTP, for fields that [`write()`] does not write anew.
fn is_kept(name: &[u8], value: &[u8], origin: Origin) -> bool {
    const WRITTEN: [&str; 4] = ["x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "forwarded"];
    is_believed(name, value, origin) && !WRITTEN.iter().any(|one| name.eq_ignore_ascii_case(one.as_bytes()))
}

/// Appends what a trusted proxy says of the way of a request that an answer may depend on, whoever the client is: each
/// such field with its value. A host and a scheme that are said once are left out: a caller knows them as `authority`
/// and `is_secure`.
pub fn append_told(fields: Fields<'_>, believed: Believed, (authority, is_secure): (&[u8], bool), out: &mut Vec<u8>) {
    match believed {
        Believed::Nothing => {}
        Believed::XForwarded => append_x_forwarded(fields, out),
        Believed::Forwarded => append_forwarded(fields, (authority, is_secure), out),
    }
}

fn append_x_forwarded(fields: Fields<'_>, out: &mut Vec<u8>) {
    let is_once = |name: &str| fields.values(name).nth(1).is_none();
    let is_scheme = |value: &[u8]| value.eq_ignore_ascii_case(b"https") || value.eq_ignore_ascii_case(b"http");
    let tells = |(name, value): &(&[u8], &[u8])| match () {
        () if !spells(&name[..name.len().min(11)], "x-forwarded") => false,
        () if name.eq_ignore_ascii_case(b"x-forwarded-for") => false,
        () if name.eq_ignore_ascii_case(b"x-forwarded-host") => !is_once("x-forwarded-host"),
        () if name.eq_ignore_ascii_case(b"x-forwarded-proto") => !is_once("x-forwarded-proto") || !is_scheme(value),
        () => true,
    };
    for (name, value) in fields.iter().filter(tells) {
        out.extend(name.iter().map(u8::to_ascii_lowercase));
        [&b": "[..], value, b"\r\n"].iter().for_each(|part| out.extend_from_slice(part));
    }
}

/// All parameters but those that name a node. Nothing if they are the host and the scheme that are known.
fn append_forwarded(fields: Fields<'_>, (authority, is_secure): (&[u8], bool), out: &mut Vec<u8>) {
    let is_of_node = |byte: &u8| byte.is_ascii_alphanumeric() || b".:_-[]\"".contains(byte);
    let names_node = |piece: &[u8]| {
        let node = parameter(piece, "for").or(parameter(piece, "by"));
        node.is_some_and(|node| node.iter().all(is_of_node))
    };
    let pieces = || {
        let pieces = fields.values("forwarded").flat_map(|line| line.split(|byte| matches!(byte, b',' | b';')));
        pieces.map(<[u8]>::trim_ascii).filter(|piece| !piece.is_empty() && !names_node(piece))
    };
    let scheme: &[u8] = if is_secure { b"https" } else { b"http" };
    let is_known = |piece: &[u8]| {
        let is = |name, known| parameter(piece, name).is_some_and(|value| value.eq_ignore_ascii_case(known));
        is("proto", scheme) || is("host", authority)
    };
    if !pieces().all(is_known) {
        pieces().for_each(|piece| [piece, b";"].iter().for_each(|part| out.extend_from_slice(part)));
    }
}

/// The value of the parameter `name` of `piece`, without the quotes of a quoted string.
fn parameter<'p>(piece: &'p [u8], name: &str) -> Option<&'p [u8]> {
    let (start, value) = piece.split_at_checked(name.len())?;
    let value = value.strip_prefix(b"=").filter(|_| start.eq_ignore_ascii_case(name.as_bytes()))?;
    Some(value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")).unwrap_or(value))
}

/// Nothing is added for a peer on a Unix socket: it is most likely a proxy, and the address before it is the client's.
fn write_addresses(origin: Origin, from_proxy: Fields<'_>, out: &mut Vec<u8>) {
    let start = out.len();
    write_line(out, "X-Forwarded-For", |out| {
        let before = out.len();
        append_received(from_proxy, "x-forwarded-for", out);
        let client = origin.client.map(|(address, _)| address.to_canonical());
        // What another field says of it has to be said in this one as well.
        let told = origin.behind.map(|behind| behind.to_canonical()).filter(|behind| Some(*behind) != client);
        if let (Believed::Forwarded, Some(behind)) = (origin.believed, told) {
            append_address(behind, out);
            out.extend_from_slice(b", ");
        }
        match origin.client {
            Some((address, _)) => append_address(address.to_canonical(), out),
            // Without the comma after the last.
            None => out.truncate(out.len().saturating_sub(2).max(before)),
        }
    });
    if out[start..].ends_with(b": \r\n") {
        out.truncate(start);
    }
}

/// An address as text. The usual ones are written without the machinery of formatting, which costs more than all the
/// rest of the line.
fn append_address(address: IpAddr, out: &mut Vec<u8>) {
    let IpAddr::V4(address) = address else {
        // Writing to a vector does not fail.
        _ = write!(out, "{address}");
        return;
    };
    for (index, octet) in address.octets().into_iter().enumerate() {
        if index > 0 {
            out.push(b'.');
        }
        let digits = [octet / 100, octet / 10 % 10, octet % 10];
        let first = digits.iter().position(|digit| *digit > 0).unwrap_or(2);
        out.extend(digits[first..].iter().map(|digit| b'0' + digit));
    }
}

fn scheme(origin: Origin) -> &'static str {
    if origin.is_secure { "https" } else { "http" }
}

fn write_line(out: &mut Vec<u8>, name: &str, value: impl FnOnce(&mut Vec<u8>)) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    value(out);
    out.extend_from_slice(b"\r\n");
}

/// Writes the first value of the nearest proxy, or what we know.
fn write_first(out: &mut Vec<u8>, name: &str, from_proxy: Fields<'_>, known: Option<&[u8]>) {
    let first = from_proxy.values(name).find(|value| !value.is_empty()).or(known);
    if let Some(value) = first {
        write_line(out, name, |out| out.extend_from_slice(value));
    }
}

/// The members that came, as one list that goes on.
fn append_received(fields: Fields<'_>, name: &str, out: &mut Vec<u8>) {
    for member in fields.values(name).flat_map(list::members) {
        out.extend_from_slice(member);
        out.extend_from_slice(b", ");
    }
}

/// RFC 7239 4. The host is quoted: it may have characters that a token has not.
fn append_element(origin: Origin, authority: Option<&[u8]>, out: &mut Vec<u8>) {
    match origin.client.map(|(address, _)| address.to_canonical()) {
        Some(IpAddr::V4(address)) => _ = write!(out, "for={address}"),
        Some(IpAddr::V6(address)) => _ = write!(out, "for=\"[{address}]\""),
        None => out.extend_from_slice(b"for=unknown"),
    }
    if let Some(authority) = authority {
        out.extend_from_slice(b";host=\"");
        out.extend_from_slice(authority);
        out.push(b'"');
    }
    _ = write!(out, ";proto={}", scheme(origin));
}

/// The client of a request that came through proxies: the last address of `X-Forwarded-For` that is not one of a proxy
/// that is trusted, reading from the nearest on; the peer itself if it is not trusted. Entries of an untrusted party
/// are to the left of it, and not believed. None if the list holds something else than an address where the answer
/// would be.
pub fn client_of(peer: IpAddr, fields: Fields<'_>, is_trusted: impl Fn(IpAddr) -> bool) -> Option<IpAddr> {
    if !is_trusted(peer) {
        return Some(peer);
    }
    let mut farthest = peer;
    // The work is bounded by the length of the head: lines are few, and each is read from its end once.
    let lines: Vec<&[u8]> = fields.values("x-forwarded-for").collect();
    for member in lines.iter().rev().flat_map(|line| line.rsplit(|&byte| byte == b',')) {
        let member = list::trim(member);
        if member.is_empty() {
            continue;
        }
        farthest = address(member)?;
        if !is_trusted(farthest) {
            break;
        }
    }
    Some(farthest)
}

/// `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`, `[2001:db8::1]` or `[2001:db8::1]:80`.
fn address(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(text).ok()?;
    let address = match text.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?.0.parse().ok(),
        None => text.parse().ok().or_else(|| text.rsplit_once(':')?.0.parse().ok()),
    };
    address.map(|address: IpAddr| address.to_canonical())
}

/// Whether a name has another sign than letters, digits and hyphens, of which some applications make a hyphen.
pub fn is_odd(name: &[u8]) -> bool {
    !name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
}

/// Whether a field is one that we write ourselves, or that names the user, spelled with another sign than a hyphen.
fn is_disguised(name: &[u8]) -> bool {
    const OURS: [&str; 6] = ["host", "content-length", "transfer-encoding", "connection", "via", "proxy-connection"];
    is_odd(name)
        && (tells_of_the_way(name)
            || names_user(name)
            || OURS.iter().any(|one| spells(name, one))
            || starts_with(name, "proxy_"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::fields::LineEnds;
    use crate::gateway::{Protocol, RequestContent};

    fn lines(received: &str, origin: Origin, wants_forwarded: bool) -> String {
        let request = Inbound {
            method: b"GET",
            path: b"/",
            query: None,
            authority: Some(b"a.example:80"),
            fields: Fields::check(received.as_bytes(), LineEnds::CrLf).unwrap(),
            own: Fields::default(),
            content: RequestContent::None,
            origin,
        };
        let mut out = Vec::new();
        write(&request, wants_forwarded, &mut out);
        String::from_utf8(out).unwrap()
    }

    fn origin(client: &str, is_trusted: bool) -> Origin {
        let believed = if is_trusted { Believed::XForwarded } else { Believed::Nothing };
        let client = client.parse().ok().map(|address| (address, 1));
        let behind = Some(IpAddr::from([203, 0, 113, 7]));
        Origin { client, believed, behind, is_secure: true, protocol: Protocol::Http11 }
    }

    const CLAIMS: &str = "X-Forwarded-For: 1.1.1.1\r\nX-Forwarded-Proto: gopher\r\nX-Forwarded-Host: evil\r\n\
                          Forwarded: for=1.1.1.1\r\nVia: 1.0 old, 1.1 b\r\n";

    #[test]
    fn addresses_are_written_as_they_are_read() {
        for text in ["0.0.0.0", "10.0.100.7", "192.168.99.255", "127.0.0.1", "2001:db8::1"] {
            let mut out = Vec::new();
            append_address(text.parse().unwrap(), &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), text);
        }
    }

    #[test]
    fn a_client_is_not_believed() {
        assert_eq!(
            lines(CLAIMS, origin("192.0.2.7", false), false),
            "Via: 1.0 old, 1.1 b, 1.1 lamna\r\nX-Forwarded-For: 192.0.2.7\r\nX-Forwarded-Proto: https\r\n\
             X-Forwarded-Host: a.example:80\r\n"
        );
    }

    #[test]
    fn what_a_trusted_proxy_says_is_kept_and_added_to() {
        assert_eq!(
            lines(CLAIMS, origin("::ffff:192.0.2.7", true), false),
            "Via: 1.0 old, 1.1 b, 1.1 lamna\r\nX-Forwarded-For: 1.1.1.1, 192.0.2.7\r\nX-Forwarded-Proto: gopher\r\n\
             X-Forwarded-Host: evil\r\n"
        );
    }

    /// A proxy that writes one field passes the others on as clients send them.
    #[test]
    fn only_the_field_that_proxies_write_is_believed_and_the_others_are_written_anew() {
        let by_forwarded = Origin { believed: Believed::Forwarded, ..origin("192.0.2.7", true) };
        assert_eq!(
            lines(CLAIMS, by_forwarded, false),
            "Via: 1.0 old, 1.1 b, 1.1 lamna\r\nX-Forwarded-For: 203.0.113.7, 192.0.2.7\r\nX-Forwarded-Proto: https\r\n\
             X-Forwarded-Host: a.example:80\r\nForwarded: for=1.1.1.1, for=192.0.2.7;host=\"a.example:80\";proto=https\r\n"
        );
        let by_other = origin("192.0.2.7", true);
        for (name, value, by_x_forwarded, by_its_own) in [
            ("Forwarded", "for=1.1.1.1", false, true),
            ("X-Forwarded-Prefix", "/app", true, false),
            ("X-Forwarded_Prefix", "/app", false, false),
            ("X-Real-IP", "10.0.0.1", false, false),
            ("X-Real-IP", "203.0.113.7", true, true),
        ] {
            let is_believed = |origin| is_believed(name.as_bytes(), value.as_bytes(), origin);
            assert_eq!((is_believed(by_other), is_believed(by_forwarded)), (by_x_forwarded, by_its_own), "{name}");
            assert!(!is_believed(origin("192.0.2.7", false)), "{name}");
        }
    }

    #[test]
    fn what_an_answer_may_depend_on_is_told_but_for_the_host_and_the_scheme_that_are_known() {
        let told = |fields: &str, believed| {
            let (mut told, lines) = (Vec::new(), format!("X-Forwarded-For: 1.1.1.1\r\n{fields}"));
            let fields = Fields::check(lines.as_bytes(), LineEnds::CrLf).unwrap();
            append_told(fields, believed, (b"a.test", true), &mut told);
            String::from_utf8(told).unwrap()
        };
        for (fields, expected) in [
            ("X-Forwarded-Host: a.test\r\nX-Forwarded-Proto: https\r\n", ""),
            (
                "X-Forwarded-Prefix: /app\r\nForwarded: host=evil\r\nX-Forwarded-Port: 81\r\n",
                "x-forwarded-prefix: /app\r\nx-forwarded-port: 81\r\n",
            ),
            ("X-Forwarded-Proto: gopher\r\n", "x-forwarded-proto: gopher\r\n"),
            ("X-Forwarded-Host: a\r\nX-Forwarded-Host: b\r\n", "x-forwarded-host: a\r\nx-forwarded-host: b\r\n"),
        ] {
            assert_eq!(told(fields, Believed::XForwarded), expected, "{fields}");
            assert_eq!(told(fields, Believed::Nothing), "", "{fields}");
        }
        for (fields, expected) in [
            ("Forwarded: for=\"[2001:db8::1]:80\";Proto=HTTPS;host=\"A.test\", for=10.0.0.1;by=_b\r\n", ""),
            ("Forwarded: host=evil.test, for=192.0.2.7;host=a.test\r\n", "host=evil.test;host=a.test;"),
            ("Forwarded: for=\"x host=evil\"\r\n", "for=\"x host=evil\";"),
            ("Forwarded: proto=http\r\n", "proto=http;"),
            ("X-Forwarded-Prefix: /app\r\n", ""),
        ] {
            assert_eq!(told(fields, Believed::Forwarded), expected, "{fields}");
        }
    }

    #[test]
    fn rfc_7239_6_addresses_of_version_6_are_quoted_and_none_is_unknown() {
        let text = lines("", origin("2001:db8::1", false), true);
        assert!(text.contains("X-Forwarded-For: 2001:db8::1\r\n"), "{text}");
        assert!(text.contains("Forwarded: for=\"[2001:db8::1]\";host=\"a.example:80\";proto=https\r\n"), "{text}");
        assert!(lines("", origin("", false), true).contains("Forwarded: for=unknown;"));
    }

    #[test]
    fn a_peer_without_an_address_adds_none() {
        assert!(!lines(CLAIMS, origin("", false), false).contains("X-Forwarded-For"));
        assert!(lines(CLAIMS, origin("", true), false).contains("X-Forwarded-For: 1.1.1.1\r\n"));
    }

    #[test]
    fn fields_of_the_way_are_known_in_every_spelling() {
        for name in ["Forwarded", "X-Forwarded-For", "x_forwarded_for", "X-FORWARDED_anything", "X_Real-IP"] {
            assert!(tells_of_the_way(name.as_bytes()), "{name}");
        }
        for name in ["X-Forward", "Forwarded-By", "X-Request-Id"] {
            assert!(!tells_of_the_way(name.as_bytes()), "{name}");
        }
        assert!(is_disguised(b"Content_Length") && is_disguised(b"x_forwarded-for") && !is_disguised(b"api_key"));
        // PHP has `_` for `.`, as CGI has for `-`.
        assert!(is_disguised(b"Content.Length") && tells_of_the_way(b"X.Forwarded.For"));
        assert!(spells(b"Remote.User", "remote-user") && spells(b"remote+user", "remote-user"));
    }

    #[test]
    fn what_names_the_user_is_believed_of_a_trusted_proxy_and_of_nobody_else() {
        let (client, proxy) = (origin("192.0.2.7", false), origin("10.0.0.1", true));
        for interface in [Interface::Http, Interface::Script] {
            for name in ["Remote-User", "REMOTE-USER", "remote_user", "Remote_User", "Remote.User"] {
                assert!(!goes_on(name.as_bytes(), b"root", client, interface), "{name}, {interface:?}");
                let is_name = !name.contains(['_', '.']);
                assert_eq!(goes_on(name.as_bytes(), b"ada", proxy, interface), is_name, "{name}, {interface:?}");
            }
            assert!(goes_on(b"X-Api-Key", b"k", client, interface));
            assert_eq!(goes_on(b"api_key", b"k", client, interface), interface == Interface::Http);
        }
    }

    #[test]
    fn the_client_is_who_the_nearest_trusted_proxy_saw() {
        let is_trusted = |address: IpAddr| address.to_string().starts_with("10.");
        let client = |peer: &str, received: &str| {
            let fields = Fields::check(received.as_bytes(), LineEnds::CrLf).unwrap();
            client_of(peer.parse().unwrap(), fields, is_trusted).map(|address| address.to_string())
        };
        let chain = "X-Forwarded-For: 6.6.6.6, 192.0.2.1\r\nX-Forwarded-For: 10.0.0.2:99, ,10.0.0.1\r\n";
        assert_eq!(client("10.9.9.9", chain).as_deref(), Some("192.0.2.1"));
        assert_eq!(client("192.0.2.9", chain).as_deref(), Some("192.0.2.9"));
        assert_eq!(client("10.9.9.9", "").as_deref(), Some("10.9.9.9"));
        assert_eq!(client("10.9.9.9", "X-Forwarded-For: [2001:db8::1]:4\r\n").as_deref(), Some("2001:db8::1"));
        assert_eq!(client("10.9.9.9", "X-Forwarded-For: 1.1.1.1, nonsense\r\n"), None);
        assert_eq!(client("10.9.9.9", "X-Forwarded-For: 10.0.0.1\r\n").as_deref(), Some("10.0.0.1"));
    }
}
