//! Listen addresses as text: `8080`, `:8080`, `127.0.0.1:8080`, `[::1]:8080`, `localhost:8080`, `unix:PATH`.
//!
//! Owns: the syntax, both ways. Resolves no names: what a name means can change between two starts, and a server that
//! listens somewhere else than last time is a surprise. `localhost` alone is understood, as 127.0.0.1. A port without
//! an address is loopback here, as for the endpoint that controls the server; `listen` takes it for every address
//! ([`listen`](super::listen)).

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

/// Where the server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// A TCP address.
    Tcp(SocketAddr),
    /// A Unix stream socket at this path.
    Unix(PathBuf),
}

/// Why a text is not a listen address, as the rest of a sentence that starts with the text itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressError(String);

impl fmt::Display for AddressError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for AddressError {}

impl FromStr for ListenAddress {
    type Err = AddressError;

    /// Reads an address. A relative path of a Unix socket is kept as it is: the caller knows what it is relative to.
    fn from_str(text: &str) -> Result<Self, AddressError> {
        if let Some(path) = text.strip_prefix("unix:") {
            return unix(path);
        }
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Ok(ListenAddress::Tcp(address));
        }
        let port = text.strip_prefix("localhost:").or_else(|| text.strip_prefix(':')).unwrap_or(text);
        match port_alone(port) {
            Some(port) => port.map(|port| ListenAddress::Tcp((Ipv4Addr::LOCALHOST, port).into())),
            None => Err(AddressError(remedy(text))),
        }
    }
}

impl ListenAddress {
    /// Whether it means the listener at `own`: port 0 is any port of its address.
    pub fn means(&self, own: &ListenAddress) -> bool {
        match (self, own) {
            (ListenAddress::Tcp(named), ListenAddress::Tcp(own)) if named.port() == 0 => named.ip() == own.ip(),
            (named, own) => named == own,
        }
    }

    /// Whether no two sockets can listen at both at a time: the same address, or the same port of every interface.
    pub(super) fn overlaps(&self, other: &ListenAddress) -> bool {
        match (self, other) {
            (ListenAddress::Unix(one), ListenAddress::Unix(other)) => one == other,
            (ListenAddress::Tcp(one), ListenAddress::Tcp(other)) => {
                let is_same_family = one.is_ipv4() == other.is_ipv4();
                let is_every = one.ip().is_unspecified() || other.ip().is_unspecified();
                // Port 0 is another free port each time.
                one.port() != 0 && one.port() == other.port() && (one.ip() == other.ip() || is_every && is_same_family)
            }
            _ => false,
        }
    }
}

impl fmt::Display for ListenAddress {
    /// Writes what [`FromStr`] reads back as the same address. A path that is not UTF-8 is written lossily.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListenAddress::Tcp(address) => write!(formatter, "{address}"),
            ListenAddress::Unix(path) => write!(formatter, "unix:{}", path.display()),
        }
    }
}

fn unix(path: &str) -> Result<ListenAddress, AddressError> {
    if path.is_empty() || path.contains('\0') {
        return Err(AddressError("needs the path of the socket, as in unix:/run/lamna/http.sock".into()));
    }
    Ok(ListenAddress::Unix(PathBuf::from(path)))
}

/// The port that a text of digits is; none of any other text.
pub(super) fn port_alone(text: &str) -> Option<Result<u16, AddressError>> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.is_empty();
    is_number.then(|| text.parse().map_err(|_| AddressError("has a port above 65535".into())))
}

fn remedy(text: &str) -> String {
    let host = text.rsplit_once(':').map_or(text, |(host, _)| host);
    if text.parse::<std::net::IpAddr>().is_ok() {
        return "has no port: write it as in 127.0.0.1:8080 or [::1]:8080".into();
    }
    if host == "*" {
        return "is not an address: :PORT is every address, 0.0.0.0:PORT every IPv4 one, [::]:PORT every IPv6 one"
            .into();
    }
    "is not an address: expected PORT, IPV4:PORT, [IPV6]:PORT, localhost:PORT or unix:PATH".into()
}

/// Where the endpoint is to be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AdminAddress {
    /// Nowhere.
    Off,
    /// A Unix socket that `lamna ctl` finds.
    #[default]
    Found,
    /// Here.
    At(ListenAddress),
}

impl FromStr for AdminAddress {
    type Err = AddressError;

    /// Reads `auto`, `off`, `unix:PATH`, or a TCP address as `--listen` takes it.
    fn from_str(text: &str) -> Result<AdminAddress, AddressError> {
        match text {
            "off" => Ok(AdminAddress::Off),
            "auto" => Ok(AdminAddress::Found),
            address => address.parse().map(AdminAddress::At),
        }
    }
}

impl fmt::Display for AdminAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AdminAddress::Off => formatter.write_str("off"),
            AdminAddress::Found => formatter.write_str("auto"),
            AdminAddress::At(address) => address.fmt(formatter),
        }
    }
}

/// A host name as requests are compared with, in lower case.
///
/// # Errors
/// Why a text is none, as the rest of a sentence that starts with the text itself.
pub fn host_name(text: &str) -> Result<String, String> {
    let host = text.to_ascii_lowercase();
    if let Some((name, port)) = host.rsplit_once(':')
        && !name.contains(':')
        && port.bytes().all(|byte| byte.is_ascii_digit())
    {
        return Err("has a port: a host is named without one".to_owned());
    }
    let is_ipv6 = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .is_some_and(|address| address.parse::<std::net::Ipv6Addr>().is_ok());
    let name = host.strip_prefix("*.").unwrap_or(&host);
    if is_ipv6 || name.split('.').all(is_host_label) {
        return Ok(host);
    }
    Err("is not a host name: expected one as in example.org, *.example.org, 192.0.2.1 or [2001:db8::1]".to_owned())
}

/// DNS labels (RFC 1035 2.3.4), with the underscore that is common in private networks.
fn is_host_label(label: &str) -> bool {
    let is_label_byte = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=63).contains(&label.len()) && label.bytes().all(is_label_byte)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tcp(text: &str) -> ListenAddress {
        ListenAddress::Tcp(text.parse().expect("test addresses are well formed"))
    }

    #[test]
    fn a_port_without_an_address_is_loopback() {
        for text in ["8080", ":8080", "localhost:8080", "127.0.0.1:8080"] {
            assert_eq!(text.parse(), Ok(tcp("127.0.0.1:8080")), "{text}");
        }
    }

    #[test]
    fn addresses_with_ports_and_socket_paths_are_themselves() {
        assert_eq!("[::1]:8080".parse(), Ok(tcp("[::1]:8080")));
        assert_eq!("0.0.0.0:80".parse(), Ok(tcp("0.0.0.0:80")));
        assert_eq!("unix:/run/x".parse(), Ok(ListenAddress::Unix("/run/x".into())));
    }

    #[test]
    fn a_wrong_address_says_how_to_write_it() {
        let message = |text: &str| text.parse::<ListenAddress>().unwrap_err().to_string();
        assert!(message("127.0.0.1").contains("no port"));
        assert!(message("::1").contains("[::1]:8080"));
        assert!(message("*:80").contains("0.0.0.0"));
        assert!(message("70000").contains("65535"));
        assert!(message("unix:").contains("path"));
        assert!(message("example.org:80").contains("expected"));
        assert!(message("").contains("expected"));
    }

    #[test]
    fn addresses_overlap_if_one_socket_keeps_the_other_from_listening() {
        let overlap = |one: &str, other: &str| {
            let (one, other): (ListenAddress, ListenAddress) = (one.parse().unwrap(), other.parse().unwrap());
            assert_eq!(one.overlaps(&other), other.overlaps(&one));
            one.overlaps(&other)
        };
        assert!(
            overlap("80", "127.0.0.1:80") && overlap("0.0.0.0:80", "127.0.0.1:80") && overlap("unix:/a", "unix:/a")
        );
        assert!(!overlap("0.0.0.0:80", "[::]:80") && !overlap("0", "0") && !overlap("80", "81"));
        assert!(
            !overlap("127.0.0.2:80", "127.0.0.1:80") && !overlap("unix:/a", "unix:/b") && !overlap("unix:/a", "80")
        );
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(bytes: [u8; 4], port: u16, path in "/[a-z/. ]{1,30}") {
            for address in [ListenAddress::Tcp((bytes, port).into()), ListenAddress::Unix(path.into())] {
                prop_assert_eq!(address.to_string().parse(), Ok(address));
            }
        }

        #[test]
        fn no_text_panics(text in ".{0,30}") {
            let _ = text.parse::<ListenAddress>();
        }
    }

    #[test]
    fn an_address_is_off_a_path_or_a_port_of_loopback() {
        assert_eq!("off".parse(), Ok(AdminAddress::Off));
        assert_eq!("auto".parse(), Ok(AdminAddress::Found));
        assert_eq!("9000".parse(), Ok(AdminAddress::At(ListenAddress::Tcp(([127, 0, 0, 1], 9000).into()))));
        assert_eq!("unix:/run/a".parse(), Ok(AdminAddress::At(ListenAddress::Unix("/run/a".into()))));
        assert!("on".parse::<AdminAddress>().is_err());
    }
}
