//! Writing the header of the PROXY protocol, versions 1 and 2: for whom a connection is made, before anything else on
//! it.
//!
//! Owns: the bytes. `parse::proxy` reads such headers. Guarantees: a header is at most [`HEADER_BYTES_MAX`] long.

use std::io::Write;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// The longest header that is written: version 1 has 107 bytes at most.
pub const HEADER_BYTES_MAX: usize = 107;

/// The version that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProxyVersion {
    /// A line of text.
    V1,
    /// Binary.
    V2,
}

/// For whom a connection is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    /// For a client, who connected from the one address to the other.
    Client(SocketAddr, SocketAddr),
    /// For a client that has no address of the Internet.
    Unknown,
    /// For nobody: it is our own.
    Own,
}

const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";

/// The header.
pub fn header(version: ProxyVersion, sender: Sender) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER_BYTES_MAX);
    let ends = match sender {
        Sender::Client(from, to) => Some(of_one_family(from, to)),
        Sender::Unknown | Sender::Own => None,
    };
    match (version, ends) {
        (ProxyVersion::V1, None) => out.extend_from_slice(b"PROXY UNKNOWN\r\n"),
        (ProxyVersion::V1, Some((from, to))) => {
            let family = if from.is_ipv4() { "TCP4" } else { "TCP6" };
            // Writing to a vector does not fail.
            _ = write!(out, "PROXY {family} {} {} {} {}\r\n", from.ip(), to.ip(), from.port(), to.port());
        }
        (ProxyVersion::V2, ends) => {
            out.extend_from_slice(SIGNATURE);
            // Version 2; LOCAL is 0, PROXY is 1.
            out.push(if sender == Sender::Own { 0x20 } else { 0x21 });
            let mut addresses = Vec::with_capacity(36);
            let family = match ends {
                None => 0,
                Some((from, to)) => {
                    for end in [from, to] {
                        match end.ip() {
                            IpAddr::V4(ip) => addresses.extend_from_slice(&ip.octets()),
                            IpAddr::V6(ip) => addresses.extend_from_slice(&ip.octets()),
                        }
                    }
                    for end in [from, to] {
                        addresses.extend_from_slice(&end.port().to_be_bytes());
                    }
                    if from.is_ipv4() { 0x11 } else { 0x21 }
                }
            };
            out.push(family);
            out.extend_from_slice(&(addresses.len() as u16).to_be_bytes());
            out.extend_from_slice(&addresses);
        }
    }
    out
}

/// Both as addresses of one family: a listener for both has mapped ones.
fn of_one_family(from: SocketAddr, to: SocketAddr) -> (SocketAddr, SocketAddr) {
    let (one, other) = (from.ip().to_canonical(), to.ip().to_canonical());
    let mapped = |ip: IpAddr| -> Ipv6Addr {
        match ip {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        }
    };
    let (one, other) = match one.is_ipv4() == other.is_ipv4() {
        true => (one, other),
        false => (mapped(one).into(), mapped(other).into()),
    };
    (SocketAddr::new(one, from.port()), SocketAddr::new(other, to.port()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::proxy::{Parsed, Source, parse};
    use proptest::prelude::*;

    fn at(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_header_is_as_the_specification_has_it() {
        let client = Sender::Client(at("192.0.2.1:5"), at("[::ffff:198.51.100.2]:443"));
        assert_eq!(header(ProxyVersion::V1, client), b"PROXY TCP4 192.0.2.1 198.51.100.2 5 443\r\n");
        let v2 = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x01\xc6\x33\x64\x02\0\x05\x01\xbb";
        assert_eq!(header(ProxyVersion::V2, client), v2);
        let mixed = Sender::Client(at("192.0.2.1:5"), at("[2001:db8::1]:443"));
        assert_eq!(header(ProxyVersion::V1, mixed), b"PROXY TCP6 ::ffff:192.0.2.1 2001:db8::1 5 443\r\n");
        assert_eq!(header(ProxyVersion::V1, Sender::Own), b"PROXY UNKNOWN\r\n");
        assert_eq!(header(ProxyVersion::V2, Sender::Own), b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0");
        assert_eq!(header(ProxyVersion::V2, Sender::Unknown), b"\r\n\r\n\0\r\nQUIT\n\x21\0\0\0");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_as_the_client(from: (IpAddr, u16), to: (IpAddr, u16), is_text: bool) {
            let version = if is_text { ProxyVersion::V1 } else { ProxyVersion::V2 };
            let written = header(version, Sender::Client(from.into(), to.into()));
            prop_assert!(written.len() <= HEADER_BYTES_MAX);
            let Ok(Parsed::Complete(bytes, Source::Client(client))) = parse(&written) else { panic!("{written:?}") };
            prop_assert_eq!((bytes, client.to_canonical()), (written.len(), from.0.to_canonical()));
        }
    }
}
