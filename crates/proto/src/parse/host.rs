//! Host and port, as in `Host` fields and in the authority of a request target (RFC 9110 7.2, RFC 3986 3.2.2).
//!
//! Guarantees: every byte of a name is one that RFC 3986 allows there, and every label of it has one, so a name can be
//! compared, logged and sent on as it is. Does not decode, resolve or compare names, nor know default ports.

use std::fmt;
use std::net::Ipv6Addr;

use super::list;

/// A host, and the port if one is given. The default port depends on the scheme, which is not known here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Host<'a> {
    /// A registered name, an IPv4 address, or an IPv6 address with its brackets; never empty. In the sender's case, and
    /// percent-encoded as it came: names are equal regardless of ASCII case.
    pub name: &'a [u8],
    /// The port; `None` if there is none or it is empty, which mean the same (RFC 3986 6.2.3).
    pub port: Option<u16>,
}

/// Why an authority was refused. For a `Host` field, that is answered with 400 (RFC 9112 3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostError {
    /// There is no name.
    Empty,
    /// A name contains a byte that is not allowed there, or a broken percent-encoding.
    Name,
    /// A name begins with a dot or has two in a row: it has an empty label. One dot at the end is the DNS root, and
    /// allowed.
    Label,
    /// Brackets do not hold an IPv6 address, or something other than a port follows them. Zones and the address formats
    /// of the future (RFC 3986, IPvFuture) are refused as well: no peer can know our zones.
    Literal,
    /// A port is not a number up to 65535.
    Port,
    /// There is a user, which is an error in requests (RFC 9110 4.2.4).
    Userinfo,
}

impl fmt::Display for HostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HostError::Empty => "the host is empty",
            HostError::Name => "the host name has bytes that are not allowed",
            HostError::Label => "the host name has an empty label",
            HostError::Literal => "the host is not an IPv6 address",
            HostError::Port => "the port is not a number up to 65535",
            HostError::Userinfo => "a user is not allowed before the host",
        })
    }
}

impl std::error::Error for HostError {}

/// Reads an authority: `host` or `host:port`.
///
/// # Errors
/// Whatever is not one, and an empty host: `http` and `https` have no use for it (RFC 9110 4.2.1).
pub fn parse(authority: &[u8]) -> Result<Host<'_>, HostError> {
    plain(authority).map_or_else(|| any_form(authority), Ok)
}

/// Reads an authority of any form.
fn any_form(authority: &[u8]) -> Result<Host<'_>, HostError> {
    if authority.contains(&b'@') {
        return Err(HostError::Userinfo);
    }
    let (name, port) = match authority {
        [b'[', ..] => bracketed(authority)?,
        _ => registered(authority)?,
    };
    Ok(Host { name, port: port_number(port)? })
}

/// Reads the value of a `Host` field, which is `None` if it is empty: that is how a client says that its target has no
/// authority (RFC 9112 3.2).
///
/// # Errors
/// As [`parse`], but for the empty value.
pub fn parse_field(value: &[u8]) -> Result<Option<Host<'_>>, HostError> {
    match list::trim(value) {
        [] => Ok(None),
        authority => parse(authority).map(Some),
    }
}

/// The name in an authority that [`parse`] has accepted.
pub fn name_of(authority: &[u8]) -> &[u8] {
    let end = match authority {
        [b'[', ..] => memchr::memchr(b']', authority).map(|bracket| bracket + 1),
        _ => memchr::memchr(b':', authority),
    };
    &authority[..end.unwrap_or(authority.len())]
}

/// Nearly every authority, with one look at each byte, because every request comes through here: a name without an
/// encoding, and a port or none. None for whatever else there is, right or wrong.
fn plain(authority: &[u8]) -> Option<Host<'_>> {
    let mut previous = b'.';
    let mut is_plain = |&byte: &u8| {
        let follows = std::mem::replace(&mut previous, byte) == b'.' && byte == b'.';
        is_name_byte(byte) && !follows
    };
    let end = authority.iter().position(|byte| !is_plain(byte)).unwrap_or(authority.len());
    let (name, port) = authority.split_at(end);
    let port = match port {
        [] => None,
        [b':', digits @ ..] => port_number(digits).ok()?,
        _ => return None,
    };
    (!name.is_empty()).then_some(Host { name, port })
}

/// The address with its brackets, and the digits of the port.
fn bracketed(authority: &[u8]) -> Result<(&[u8], &[u8]), HostError> {
    let end = memchr::memchr(b']', authority).ok_or(HostError::Literal)?;
    let address = std::str::from_utf8(&authority[1..end]).map_err(|_| HostError::Literal)?;
    address.parse::<Ipv6Addr>().map_err(|_| HostError::Literal)?;
    match &authority[end + 1..] {
        [] => Ok((authority, b"")),
        [b':', port @ ..] => Ok((&authority[..=end], port)),
        _ => Err(HostError::Literal),
    }
}

/// The name, and the digits of the port. IPv4 addresses have the form of a name.
fn registered(authority: &[u8]) -> Result<(&[u8], &[u8]), HostError> {
    let (name, port) = match memchr::memchr(b':', authority) {
        Some(colon) => (&authority[..colon], &authority[colon + 1..]),
        None => (authority, &b""[..]),
    };
    match name {
        [] => Err(HostError::Empty),
        _ if !is_registered_name(name) => Err(HostError::Name),
        _ if has_empty_label(name) => Err(HostError::Label),
        _ => Ok((name, port)),
    }
}

/// RFC 3986 3.2.2: unreserved, sub-delims, and percent-encoded bytes.
fn is_registered_name(mut name: &[u8]) -> bool {
    loop {
        name = match name {
            [] => return true,
            [b'%', high, low, rest @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => rest,
            [byte, rest @ ..] if is_name_byte(*byte) => rest,
            _ => return false,
        }
    }
}

/// RFC 3986 3.2.2 allows any dots. But names of `http` are resolved as domain names, whose labels have at least one
/// byte (RFC 1034 3.1), and an origin server must not guess which host was meant (RFC 9110 7.2).
fn has_empty_label(name: &[u8]) -> bool {
    name[0] == b'.' || name.windows(2).any(|pair| pair == b"..")
}

fn is_name_byte(byte: u8) -> bool {
    NAME_BYTE[usize::from(byte)]
}

/// A table, because every request comes through here.
static NAME_BYTE: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        let other = matches!(
            byte as u8,
            b'-' | b'.' | b'_' | b'~' | b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b';' | b'='
        );
        table[byte] = (byte as u8).is_ascii_alphanumeric() || other;
        byte += 1;
    }
    table
};

fn port_number(digits: &[u8]) -> Result<Option<u16>, HostError> {
    let append = |number: u16, digit: &u8| match digit {
        b'0'..=b'9' => number.checked_mul(10)?.checked_add(u16::from(digit - b'0')),
        _ => None,
    };
    match digits {
        [] => Ok(None),
        _ => digits.iter().try_fold(0, append).map(Some).ok_or(HostError::Port),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn assert_host(authority: &str, name: &str, port: Option<u16>) {
        assert_eq!(name_of(authority.as_bytes()), name.as_bytes(), "{authority}");
        assert_eq!(parse(authority.as_bytes()), Ok(Host { name: name.as_bytes(), port }), "{authority}");
    }

    fn assert_refused(authorities: &[&str], error: HostError) {
        for authority in authorities {
            assert_eq!(parse(authority.as_bytes()), Err(error), "{authority}");
        }
    }

    // RFC 3986 3.2.2 and 3.2.3.
    #[test]
    fn names_and_addresses_are_read_with_their_port() {
        assert_host("example.com", "example.com", None);
        assert_host("Example.COM.:8080", "Example.COM.", Some(8080));
        assert_host("a_b-c~d.e%20!$&'()*+,;=:1", "a_b-c~d.e%20!$&'()*+,;=", Some(1));
        assert_host("192.0.2.16:80", "192.0.2.16", Some(80));
        assert_host("[2001:db8::7]", "[2001:db8::7]", None);
        assert_host("[::ffff:192.0.2.1]:443", "[::ffff:192.0.2.1]", Some(443));
    }

    // RFC 3986 6.2.3: an empty port is the default port.
    #[test]
    fn ports_may_be_empty_or_padded_but_not_too_large() {
        assert_host("a:", "a", None);
        assert_host("[::1]:", "[::1]", None);
        assert_host("a:0", "a", Some(0));
        assert_host("a:65535", "a", Some(65535));
        assert_host("a:0000000080", "a", Some(80));
        assert_refused(&["a:65536", "a:99999999999999999999", "[::1]:65536"], HostError::Port);
        assert_refused(&["a:-1", "a:+1", "a: 1", "a:1:2", "a:b", "[::1]:x"], HostError::Port);
    }

    // RFC 9112 3.2: a Host field may be empty; RFC 9110 4.2.1: an authority of http may not.
    #[test]
    fn only_a_host_field_may_be_empty() {
        assert_refused(&["", ":", ":80", "::1"], HostError::Empty);
        assert_eq!(parse_field(b""), Ok(None));
        assert_eq!(parse_field(b" \t"), Ok(None));
        assert_eq!(parse_field(b":80"), Err(HostError::Empty));
        assert_eq!(parse_field(b" a:1 "), Ok(Some(Host { name: b"a", port: Some(1) })));
    }

    #[test]
    fn bytes_that_no_name_has_are_refused() {
        let names = [
            "a b", "a/b", "a?b", "a#b", "a\\b", "a\0", "a\r\nb", "a\u{e9}", "<a>", "a%", "a%2", "a%zz", "a%2%20", "a[",
            "a]", "\"a\"",
        ];
        assert_refused(&names, HostError::Name);
    }

    // RFC 1034 3.1.
    #[test]
    fn every_label_has_a_byte_and_only_one_dot_may_be_the_last() {
        assert_host("example.org.", "example.org.", None);
        assert_host("a.:80", "a.", Some(80));
        assert_refused(&[".", "..", ".a", "a..", "a..b", ".:80", "a..b:80", "..a.b"], HostError::Label);
    }

    // RFC 9110 4.2.4.
    #[test]
    fn users_are_refused() {
        assert_refused(&["user@example.com", "user:password@example.com", "@a", "@[::1]"], HostError::Userinfo);
    }

    #[test]
    fn brackets_hold_an_ipv6_address_and_nothing_else() {
        let literals = [
            "[]",
            "[",
            "[::1",
            "[::1]a",
            "[::1]]",
            "[1.2.3.4]",
            "[a]",
            "[v1.x]",
            "[fe80::1%25eth0]",
            "[fe80::1%eth0]",
            "[ ::1]",
            "[::1::]",
        ];
        assert_refused(&literals, HostError::Literal);
    }

    proptest! {
        #[test]
        fn any_bytes_can_be_read(authority: Vec<u8>) {
            if let Ok(host) = parse(&authority) {
                prop_assert!(!host.name.is_empty());
                prop_assert!(authority.starts_with(host.name));
                prop_assert!(host.name.iter().all(u8::is_ascii_graphic));
                let labels = host.name.strip_suffix(b".").unwrap_or(host.name);
                prop_assert!(labels.split(|&byte| byte == b'.').all(|label| !label.is_empty()));
            }
        }

        #[test]
        fn the_short_way_reads_what_the_long_one_does(authority in "[a.:0-9@%-]{0,12}") {
            let authority = authority.as_bytes();
            if let Some(host) = plain(authority) {
                prop_assert_eq!(any_form(authority), Ok(host));
            }
        }

        #[test]
        fn a_name_is_read_exactly_if_all_its_labels_have_a_byte(name in "[a.]{1,8}") {
            let labels = name.strip_suffix('.').unwrap_or(&name);
            let expected = labels.split('.').all(|label| !label.is_empty());
            prop_assert_eq!(parse(name.as_bytes()).is_ok(), expected);
        }

        #[test]
        fn what_is_put_together_comes_apart(name in "([a-z0-9-]{1,8}[.]){0,3}[a-z0-9-]{1,8}[.]?", port: Option<u16>) {
            let authority = port.map_or(name.clone(), |port| format!("{name}:{port}"));
            prop_assert_eq!(parse(authority.as_bytes()), Ok(Host { name: name.as_bytes(), port }));
        }

        #[test]
        fn any_ipv6_address_is_read(address: Ipv6Addr, port: u16) {
            let authority = format!("[{address}]:{port}");
            let host = parse(authority.as_bytes()).unwrap();
            let name = format!("[{address}]");
            prop_assert_eq!(host, Host { name: name.as_bytes(), port: Some(port) });
        }
    }
}
