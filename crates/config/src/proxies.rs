//! Which proxies are believed about where requests come from, and what they say.
//!
//! Owns: [`TrustedProxies`], the one place that knows who a request's client is: [`TrustedProxies::client`] is what
//! access rules, routes, limits and logs go by. Guarantees: one field is read, the one that is configured, and only
//! from a proxy that is trusted; what a client writes into it itself is never believed. Allocates nothing. Pure.

use std::net::{IpAddr, SocketAddr};

use lamna_proto::message::{Request, RequestId};

use super::route::condition::Network;

/// The field that trusted proxies write.
///
/// Only one is read. A proxy that writes one of them passes the other through as the client sent it. A server that read
/// both would let clients choose their address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ForwardedField {
    /// `X-Forwarded-For`, and `X-Forwarded-Proto`.
    #[default]
    XForwardedFor,
    /// `Forwarded` (RFC 7239).
    Forwarded,
}

impl ForwardedField {
    /// Every one, in the order of documentation.
    pub const ALL: [ForwardedField; 2] = [ForwardedField::XForwardedFor, ForwardedField::Forwarded];

    /// The name in configuration.
    pub fn name(self) -> &'static str {
        match self {
            ForwardedField::XForwardedFor => "x-forwarded-for",
            ForwardedField::Forwarded => "forwarded",
        }
    }

    /// The one of this name.
    pub fn from_name(name: &str) -> Option<ForwardedField> {
        ForwardedField::ALL.into_iter().find(|each| each.name() == name)
    }
}

/// How peers on Unix sockets are written among networks.
pub const UNIX: &str = "unix";

/// The proxies that are trusted. None by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustedProxies {
    /// Their networks.
    pub networks: Vec<Network>,
    /// Whether peers on Unix sockets are.
    pub unix: bool,
    /// The field that they write.
    pub field: ForwardedField,
}

/// The origin of a connection, as far as that is known without its requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    /// The address that it comes from, or that a proxy has named; none for Unix sockets.
    pub address: Option<IpAddr>,
    /// A proxy has connected, and has said that it is for itself, or that it does not know the client. Claims of its
    /// requests about clients were written by no trusted peer.
    pub is_nameless: bool,
}

impl From<Option<IpAddr>> for Peer {
    fn from(address: Option<IpAddr>) -> Peer {
        Peer { address, is_nameless: false }
    }
}

impl TrustedProxies {
    /// Whether no proxy is trusted.
    pub fn is_empty(&self) -> bool {
        self.networks.is_empty() && !self.unix
    }

    /// Whether what `address` says of clients is believed. None is a peer on a Unix socket.
    pub fn trust(&self, address: Option<IpAddr>) -> bool {
        address.map_or(self.unix, |address| self.networks.iter().any(|network| network.contains(address)))
    }

    /// Whether what requests of `peer` say of clients is believed.
    pub fn believe(&self, peer: Peer) -> bool {
        !self.is_empty() && !peer.is_nameless && self.trust(peer.address)
    }

    /// The address of the client that sent `request` on a connection from `peer`, as rules, limits and logs see it. It
    /// is that of `peer` itself unless that is a trusted proxy, else the last address that the proxies have written
    /// down and that is not one of theirs.
    ///
    /// An entry that is not an address ends the way back: then the client is the last proxy that is known.
    #[inline]
    pub fn client(&self, peer: Peer, request: Option<Request<'_>>) -> Option<IpAddr> {
        if self.is_empty() { peer.address } else { self.client_behind(peer, request) }
    }

    fn client_behind(&self, peer: Peer, request: Option<Request<'_>>) -> Option<IpAddr> {
        if !self.believe(peer) {
            return peer.address;
        }
        let Some(request) = request else { return peer.address };
        // The way back from the right ends at the last address that is not trusted. Read from the left, that is the one
        // which each later untrusted address replaces.
        let mut client = None;
        let mut hop = |node: Option<&[u8]>| match node.and_then(address) {
            None => client = None,
            Some(address) if !self.trust(Some(address)) => client = Some(address),
            Some(address) => _ = client.get_or_insert(address),
        };
        match self.field {
            ForwardedField::XForwardedFor => {
                request.lines_named(b"X-Forwarded-For").flat_map(members).for_each(|node| hop(Some(node)));
            }
            ForwardedField::Forwarded => {
                let elements = request.lines_named(b"Forwarded").flat_map(members);
                elements.for_each(|element| hop(pair(element, b"for")));
            }
        }
        client.or(peer.address)
    }

    /// The ID of `request`, which has come from `peer`: the one that a trusted proxy has given it, or its number.
    pub fn name_of<'n>(&self, peer: Peer, request: Request<'n>, digits: &'n mut [u8; 16]) -> &'n [u8] {
        let given = if self.believe(peer) { given_name(request) } else { None };
        given.unwrap_or_else(|| {
            *digits = request.head.id.digits();
            digits
        })
    }

    /// Whether the client speaks TLS with a trusted proxy in front, which is `peer`: what the last proxy has written.
    pub fn is_secure(&self, peer: Peer, request: Option<Request<'_>>) -> bool {
        if !self.believe(peer) {
            return false;
        }
        let Some(request) = request else { return false };
        let last = match self.field {
            ForwardedField::XForwardedFor => request.lines_named(b"X-Forwarded-Proto").flat_map(members).last(),
            ForwardedField::Forwarded => {
                let last = request.lines_named(b"Forwarded").flat_map(members).last();
                last.and_then(|element| pair(element, b"proto"))
            }
        };
        last.is_some_and(|scheme| unquoted(scheme).eq_ignore_ascii_case(b"https"))
    }
}

/// Bytes that a name of a request may have: those of a UUID, and of what tracing puts together.
const NAME_BYTES_MAX: usize = 64;

/// The ID that a request carries, if it carries one only, and in characters that mean nothing to readers of logs.
fn given_name(request: Request<'_>) -> Option<&[u8]> {
    let mut lines = request.lines_named(RequestId::FIELD.as_bytes());
    let name = lines.next().filter(|_| lines.next().is_none())?;
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:+/=@~".contains(byte);
    ((1..=NAME_BYTES_MAX).contains(&name.len()) && name.iter().all(is_plain)).then_some(name)
}

/// The members of a list. A comma separates them within quotes as well: no node and no scheme has one, and a quote that
/// a client opens must not swallow what a proxy has written behind it.
fn members(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).filter(|member| !member.is_empty())
}

/// The value of the pair `name` of an element of `Forwarded`.
fn pair<'e>(element: &'e [u8], name: &[u8]) -> Option<&'e [u8]> {
    element.split(|byte| *byte == b';').map(<[u8]>::trim_ascii).find_map(|piece| {
        let (own, value) = piece.split_at(memchr::memchr(b'=', piece)?);
        own.eq_ignore_ascii_case(name).then(|| &value[1..])
    })
}

/// Without the quotes of a quoted string. No address and no scheme has anything in it that is escaped.
fn unquoted(value: &[u8]) -> &[u8] {
    value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")).unwrap_or(value)
}

/// The address of a node: with a port or without, in brackets or without.
fn address(node: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(unquoted(node)).ok()?;
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let address = bare.parse().ok().or_else(|| text.parse::<SocketAddr>().ok().map(|socket| socket.ip()));
    address.map(|address: IpAddr| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;
    use lamna_proto::limits::Limits;
    use lamna_proto::parse::head::{self, Parsed};
    use proptest::prelude::*;

    fn proxies(field: ForwardedField) -> TrustedProxies {
        let networks = ["10.0.0.0/8", "2001:db8:1::/48"].map(|text| text.parse().unwrap()).to_vec();
        TrustedProxies { networks, unix: false, field }
    }

    fn with<T>(fields: &str, look: impl FnOnce(Request<'_>) -> T) -> T {
        let bytes = format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        let Ok(Parsed::Complete(head)) = head::parse(bytes.as_bytes(), &Limits::default()) else { panic!("{bytes}") };
        look(Request { bytes: bytes.as_bytes(), head: &head })
    }

    fn client(field: ForwardedField, peer: &str, fields: &str) -> String {
        let seen = with(fields, |request| proxies(field).client(Peer::from(peer.parse().ok()), Some(request)));
        seen.map_or_else(|| "none".to_owned(), |address| address.to_string())
    }

    #[test]
    fn the_client_is_the_last_address_that_no_trusted_proxy_has() {
        for (fields, expected) in [
            ("", "10.0.0.1"),
            ("X-Forwarded-For: 192.0.2.1\r\n", "192.0.2.1"),
            ("x-forwarded-for: 6.6.6.6, 192.0.2.1\r\n", "192.0.2.1"),
            ("X-Forwarded-For: 6.6.6.6, 192.0.2.1, 10.9.9.9\r\n", "192.0.2.1"),
            ("X-Forwarded-For: 6.6.6.6\r\nX-Forwarded-For: 192.0.2.1\r\n", "192.0.2.1"),
            ("X-Forwarded-For: 10.0.0.7, 10.0.0.8\r\n", "10.0.0.7"),
            ("X-Forwarded-For: 192.0.2.1:4711, 10.0.0.8\r\n", "192.0.2.1"),
            ("X-Forwarded-For: [2001:db8::1]:4711, 2001:db8:1::2\r\n", "2001:db8::1"),
            ("X-Forwarded-For: ::ffff:192.0.2.1\r\n", "192.0.2.1"),
            // Nothing behind what is no address is believed.
            ("X-Forwarded-For: 192.0.2.1, unknown, 10.0.0.8\r\n", "10.0.0.8"),
            ("X-Forwarded-For: 192.0.2.1, nonsense\r\n", "10.0.0.1"),
            // The field that is not configured is whatever the client likes.
            ("Forwarded: for=192.0.2.1\r\n", "10.0.0.1"),
        ] {
            assert_eq!(client(ForwardedField::XForwardedFor, "10.0.0.1", fields), expected, "{fields}");
        }
    }

    #[test]
    fn a_request_is_called_as_a_trusted_proxy_calls_it_if_that_is_plain() {
        let called = |peer: &str, fields: &str| {
            let proxies = proxies(ForwardedField::XForwardedFor);
            let name =
                |request: Request<'_>| proxies.name_of(Peer::from(peer.parse().ok()), request, &mut [0; 16]).to_vec();
            String::from_utf8(with(fields, name)).unwrap()
        };
        let number = "0".repeat(16);
        let longest = "a".repeat(64);
        for (peer, fields, expected) in [
            ("10.0.0.1", "X-Request-Id: 7f0c-A_b.c:d\r\n", "7f0c-A_b.c:d"),
            ("10.0.0.1", &format!("x-request-id: {longest}\r\n"), &*longest),
            ("192.0.2.1", "X-Request-Id: claimed\r\n", &*number),
            ("10.0.0.1", "", &number),
            ("10.0.0.1", "X-Request-Id:\r\n", &number),
            ("10.0.0.1", "X-Request-Id: a b\r\n", &number),
            ("10.0.0.1", "X-Request-Id: a\"b\r\n", &number),
            ("10.0.0.1", "X-Request-Id: a\r\nX-Request-Id: b\r\n", &number),
            ("10.0.0.1", &format!("X-Request-Id: {longest}a\r\n"), &number),
        ] {
            assert_eq!(called(peer, fields), expected, "{peer} {fields}");
        }
    }

    #[test]
    fn forwarded_is_read_with_quotes_and_ports_and_obfuscated_nodes_end_the_way_back() {
        for (fields, expected) in [
            ("Forwarded: for=192.0.2.1\r\n", "192.0.2.1"),
            ("Forwarded: FOR=\"192.0.2.1:80\";proto=https;by=10.0.0.1\r\n", "192.0.2.1"),
            ("Forwarded: for=\"[2001:db8::1]:4711\", for=10.0.0.8;by=\"[::1]\"\r\n", "2001:db8::1"),
            ("Forwarded: for=\"6.6.6.6, for=192.0.2.1\r\n", "192.0.2.1"),
            ("Forwarded: for=6.6.6.6, for=_hidden, for=10.0.0.8\r\n", "10.0.0.8"),
            ("Forwarded: for=6.6.6.6, proto=https\r\n", "10.0.0.1"),
            ("X-Forwarded-For: 6.6.6.6\r\n", "10.0.0.1"),
        ] {
            assert_eq!(client(ForwardedField::Forwarded, "10.0.0.1", fields), expected, "{fields}");
        }
    }

    #[test]
    fn nobody_but_a_trusted_proxy_is_believed() {
        let fields = "X-Forwarded-For: 6.6.6.6\r\nForwarded: for=6.6.6.6\r\nX-Forwarded-Proto: https\r\n";
        for field in ForwardedField::ALL {
            assert_eq!(client(field, "192.0.2.9", fields), "192.0.2.9");
            assert_eq!(client(field, "", fields), "none", "a peer on a Unix socket");
        }
        let secure = |peer: &str| {
            let trusted = proxies(ForwardedField::XForwardedFor);
            with(fields, |request| trusted.is_secure(Peer::from(peer.parse().ok()), Some(request)))
        };
        assert!(secure("10.0.0.1") && !secure("192.0.2.9"));
        let unix = TrustedProxies { unix: true, ..TrustedProxies::default() };
        assert_eq!(with(fields, |request| unix.client(Peer::default(), Some(request))), "6.6.6.6".parse().ok());
        assert_eq!(with(fields, |request| TrustedProxies::default().client(Peer::default(), Some(request))), None);
    }

    /// A proxy that connects for itself, or does not know the client, passes on what any client has written.
    #[test]
    fn on_a_connection_without_a_client_nothing_is_believed() {
        let fields = "X-Forwarded-For: 6.6.6.6\r\nForwarded: for=6.6.6.6;proto=https\r\nX-Forwarded-Proto: https\r\nX-Request-ID: a\r\n";
        let address = "10.0.0.1".parse().ok();
        for field in ForwardedField::ALL {
            let proxies = proxies(field);
            for (is_nameless, client) in [(false, "6.6.6.6"), (true, "10.0.0.1")] {
                let peer = Peer { address, is_nameless };
                assert_eq!(with(fields, |request| proxies.client(peer, Some(request))), client.parse().ok());
                assert_eq!(with(fields, |request| proxies.is_secure(peer, Some(request))), !is_nameless);
                let name = with(fields, |request| proxies.name_of(peer, request, &mut [0; 16]) == b"a");
                assert_eq!(name, !is_nameless);
            }
        }
    }

    #[test]
    fn the_last_proxy_says_whether_the_client_speaks_tls() {
        for (field, fields, is) in [
            (ForwardedField::XForwardedFor, "X-Forwarded-Proto: HTTPS\r\n", true),
            (ForwardedField::XForwardedFor, "X-Forwarded-Proto: https, http\r\n", false),
            (ForwardedField::XForwardedFor, "", false),
            (ForwardedField::Forwarded, "Forwarded: for=a;proto=\"https\"\r\n", true),
            (ForwardedField::Forwarded, "Forwarded: proto=https, for=a\r\n", false),
        ] {
            let peer = "10.0.0.1".parse().ok();
            assert_eq!(
                with(fields, |request| proxies(field).is_secure(Peer::from(peer), Some(request))),
                is,
                "{fields}"
            );
        }
    }

    proptest! {
        #[test]
        fn what_stands_to_the_left_of_an_untrusted_address_changes_nothing(
            left in "[ -~]{0,40}", hops in 0..3_usize,
        ) {
            let fields = format!("X-Forwarded-For: {left}, 192.0.2.1{}\r\n", ", 10.0.0.9".repeat(hops));
            prop_assert_eq!(client(ForwardedField::XForwardedFor, "10.0.0.1", &fields), "192.0.2.1");
            let fields = format!("Forwarded: {left}, for=192.0.2.1{}\r\n", ", for=10.0.0.9".repeat(hops));
            prop_assert_eq!(client(ForwardedField::Forwarded, "10.0.0.1", &fields), "192.0.2.1");
        }

        #[test]
        fn whatever_clients_write_is_survived(value in "[ -~]{0,80}") {
            for field in ForwardedField::ALL {
                client(field, "10.0.0.1", &format!("X-Forwarded-For: {value}\r\nForwarded: {value}\r\n"));
            }
        }
    }
}
