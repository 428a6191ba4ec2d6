//! The header by which a proxy says for whom it has connected: the PROXY protocol, versions 1 and 2.
//!
//! Owns: its syntax. Guarantees: what is taken is at most [`BYTES_MAX`] long; a beginning is never taken for the whole;
//! nothing that a peer sends panics. Does not decide whether the proxy is believed.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use self::Parsed::{Complete, Partial};

/// The longest header. Version 1 has 107 bytes at most; of version 2 this leaves room for a few hundred bytes of
/// extensions, among which proxies send a name and a certificate's subject.
pub const BYTES_MAX: usize = 1024;

/// The beginning of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// The beginning of a header.
    Partial,
    /// A header of so many bytes.
    Complete(usize, Source),
}

/// For whom the proxy has connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// For this client.
    Client(IpAddr),
    /// For itself, as in a check of health, or for a client without an address of the Internet.
    Proxy,
}

/// The bytes are no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
const V1: &[u8; 6] = b"PROXY ";
const V1_BYTES_MAX: usize = 107;

/// Reads the header that `bytes` begin with.
///
/// # Errors
/// They begin with none.
pub fn parse(bytes: &[u8]) -> Result<Parsed, Malformed> {
    let begins = |whole: &[u8]| bytes.iter().zip(whole).all(|(one, other)| one == other);
    if begins(SIGNATURE) {
        return version_2(bytes);
    }
    if begins(V1) {
        return version_1(bytes);
    }
    Err(Malformed)
}

fn version_1(bytes: &[u8]) -> Result<Parsed, Malformed> {
    let seen = &bytes[..bytes.len().min(V1_BYTES_MAX)];
    let Some(end) = memchr::memchr(b'\n', seen) else {
        return if seen.len() < V1_BYTES_MAX { Ok(Partial) } else { Err(Malformed) };
    };
    let line = seen[..end].strip_suffix(b"\r").and_then(|line| line.strip_prefix(V1)).ok_or(Malformed)?;
    let text = str::from_utf8(line).map_err(|_| Malformed)?;
    let mut words = text.split(' ');
    let family = words.next().unwrap_or_default();
    if family == "UNKNOWN" {
        // Whatever follows is to be ignored.
        return Ok(Complete(end + 1, Source::Proxy));
    }
    let mut address = || {
        let word = words.next().ok_or(Malformed)?;
        match family {
            "TCP4" => word.parse().map(IpAddr::V4).map_err(|_| Malformed),
            "TCP6" => word.parse().map(IpAddr::V6).map_err(|_| Malformed),
            _ => Err(Malformed),
        }
    };
    let (source, _) = (address()?, address()?);
    let mut port = || words.next().filter(|port| is_port(port)).ok_or(Malformed);
    let (_, _) = (port()?, port()?);
    match words.next() {
        None => Ok(Complete(end + 1, Source::Client(source.to_canonical()))),
        Some(_) => Err(Malformed),
    }
}

fn is_port(text: &str) -> bool {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    is_plain && text.parse::<u16>().is_ok()
}

fn version_2(bytes: &[u8]) -> Result<Parsed, Malformed> {
    let Some(&[command, family, high, low]) = bytes.get(12..16) else { return Ok(Partial) };
    let length = 16 + usize::from(u16::from_be_bytes([high, low]));
    if length > BYTES_MAX || command >> 4 != 2 {
        return Err(Malformed);
    }
    let is_local = match command & 0xf {
        0 => true,
        1 => false,
        _ => return Err(Malformed),
    };
    let Some(addresses) = bytes.get(16..length) else { return Ok(Partial) };
    let source = match (is_local, family) {
        (true, _) => Source::Proxy,
        // TCP over IPv4: two addresses and two ports.
        (false, 0x11) => match addresses {
            [a, b, c, d, rest @ ..] if rest.len() >= 8 => Source::Client(Ipv4Addr::new(*a, *b, *c, *d).into()),
            _ => return Err(Malformed),
        },
        (false, 0x21) => match addresses.first_chunk::<16>() {
            Some(source) if addresses.len() >= 36 => Source::Client(IpAddr::V6(Ipv6Addr::from(*source)).to_canonical()),
            _ => return Err(Malformed),
        },
        // Unix sockets, and what is not said.
        (false, 0x31 | 0x00) => Source::Proxy,
        (false, _) => return Err(Malformed),
    };
    Ok(Complete(length, source))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn client(text: &str) -> Source {
        Source::Client(text.parse().unwrap())
    }

    fn version_2(command: u8, family: u8, addresses: &[u8]) -> Vec<u8> {
        let length = (addresses.len() as u16).to_be_bytes();
        [&SIGNATURE[..], &[0x20 | command, family], &length, addresses].concat()
    }

    #[test]
    fn version_1_is_a_line() {
        for (line, source) in [
            ("PROXY TCP4 192.0.2.1 10.0.0.1 4711 443\r\n", client("192.0.2.1")),
            ("PROXY TCP6 2001:db8::1 ::1 0 65535\r\n", client("2001:db8::1")),
            ("PROXY UNKNOWN\r\n", Source::Proxy),
            ("PROXY UNKNOWN ffff:f...f:ffff what ever\r\n", Source::Proxy),
        ] {
            assert_eq!(parse(format!("{line}GET /").as_bytes()), Ok(Complete(line.len(), source)), "{line}");
        }
        for line in [
            "GET / HTTP/1.1\r\n",
            "PROXY TCP4 192.0.2.1 10.0.0.1 4711 443\n",
            "PROXY TCP4 192.0.2.1 10.0.0.1 4711\r\n",
            "PROXY TCP4 192.0.2.1 10.0.0.1 4711 443 1\r\n",
            "PROXY TCP4 192.0.2.1 10.0.0.1 65536 443\r\n",
            "PROXY TCP4 192.0.2.1 10.0.0.1 +1 443\r\n",
            "PROXY TCP4 2001:db8::1 10.0.0.1 1 443\r\n",
            "PROXY TCP6 192.0.2.1 ::1 1 443\r\n",
            "PROXY UDP4 192.0.2.1 10.0.0.1 1 443\r\n",
            "PROXY  TCP4 192.0.2.1 10.0.0.1 1 443\r\n",
            "proxy UNKNOWN\r\n",
        ] {
            assert_eq!(parse(line.as_bytes()), Err(Malformed), "{line}");
        }
        assert_eq!(parse(format!("PROXY UNKNOWN {}\r\n", "a".repeat(100)).as_bytes()), Err(Malformed));
    }

    #[test]
    fn version_2_has_addresses_and_whatever_follows_them() {
        let four = [192, 0, 2, 1, 10, 0, 0, 1, 0, 80, 1, 187];
        let mut six = vec![0; 36];
        six[..16].copy_from_slice(&"2001:db8::1".parse::<Ipv6Addr>().unwrap().octets());
        let extended = [&four[..], &[4, 0, 1, 7]].concat();
        for (bytes, source) in [
            (version_2(1, 0x11, &four), client("192.0.2.1")),
            (version_2(1, 0x11, &extended), client("192.0.2.1")),
            (version_2(1, 0x21, &six), client("2001:db8::1")),
            (version_2(0, 0x11, &four), Source::Proxy),
            (version_2(0, 0, &[]), Source::Proxy),
            (version_2(1, 0, &[]), Source::Proxy),
            (version_2(1, 0x31, &[0; 216]), Source::Proxy),
        ] {
            let followed = [&bytes[..], b"GET /"].concat();
            assert_eq!(parse(&followed), Ok(Complete(bytes.len(), source)));
        }
        for bytes in [
            version_2(2, 0x11, &four),
            version_2(1, 0x11, &four[..11]),
            version_2(1, 0x21, &six[..35]),
            version_2(1, 0x12, &four),
            version_2(1, 0x11, &[0; BYTES_MAX]),
        ] {
            assert_eq!(parse(&bytes), Err(Malformed));
        }
    }

    proptest! {
        #[test]
        fn a_beginning_of_a_header_is_partial_and_what_follows_it_changes_nothing(
            source: [u8; 4], ports: [u16; 2], is_text: bool, at in 0..1000_usize, rest in prop::collection::vec(any::<u8>(), 0..40),
        ) {
            let [one, other] = ports;
            let address = Ipv4Addr::from(source);
            let header = match is_text {
                true => format!("PROXY TCP4 {address} 10.0.0.1 {one} {other}\r\n").into_bytes(),
                false => version_2(1, 0x11, &[&source[..], &[10, 0, 0, 1], &one.to_be_bytes(), &other.to_be_bytes()].concat()),
            };
            prop_assert_eq!(parse(&header[..at % header.len()]), Ok(Partial));
            let whole = [&header[..], &rest].concat();
            prop_assert_eq!(parse(&whole), Ok(Complete(header.len(), Source::Client(address.into()))));
        }

        #[test]
        fn whatever_is_sent_is_judged_within_the_bound(
            version in 0..3_u8, rest in prop::collection::vec(any::<u8>(), 0..1200),
        ) {
            let bytes = match version {
                0 => rest,
                1 => [&V1[..], &rest].concat(),
                _ => [&SIGNATURE[..], &rest].concat(),
            };
            match parse(&bytes) {
                Ok(Complete(length, _)) => prop_assert!(length <= bytes.len().min(BYTES_MAX)),
                Ok(Partial) => prop_assert!(bytes.len() < BYTES_MAX),
                Err(Malformed) => {}
            }
        }
    }
}
