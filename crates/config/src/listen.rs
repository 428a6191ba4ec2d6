//! Where the server listens: addresses as `listen` names them.
//!
//! Owns: [`ListenAt`], which is one address or a port of every address, and [`ListenSettings`], which is one entry of
//! `listen`. Opens nothing.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use super::address::{AddressError, ListenAddress, port_alone};

/// Where a text of `listen` says to listen: `443` and `:443` are a port of every address, IPv4 and IPv6.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAt {
    /// This port of every address of this machine. There is a socket for IPv4 and one for IPv6, if there is IPv6.
    EveryAddress(u16),
    /// One address, or the path of a Unix socket.
    Address(ListenAddress),
}

/// One entry of `listen`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenSettings {
    /// Where.
    pub at: ListenAt,
}

impl ListenAt {
    /// The addresses that it stands for: what is of IPv6 comes last.
    pub fn addresses(&self) -> Vec<ListenAddress> {
        match self {
            ListenAt::EveryAddress(port) => {
                let every: [SocketAddr; 2] =
                    [(Ipv4Addr::UNSPECIFIED, *port).into(), (Ipv6Addr::UNSPECIFIED, *port).into()];
                every.map(ListenAddress::Tcp).to_vec()
            }
            ListenAt::Address(address) => vec![address.clone()],
        }
    }

    /// Whether it means the listener at `own`: port 0 is any port of its address.
    pub fn means(&self, own: &ListenAddress) -> bool {
        self.addresses().iter().any(|named| named.means(own))
    }

    /// Whether no two sockets can listen at both at a time.
    pub(super) fn overlaps(&self, other: &ListenAt) -> bool {
        self.addresses().iter().any(|one| other.addresses().iter().any(|other| one.overlaps(other)))
    }

    /// The path, if it is a Unix socket.
    pub fn socket(&self) -> Option<&std::path::Path> {
        match self {
            ListenAt::Address(ListenAddress::Unix(path)) => Some(path),
            _ => None,
        }
    }

    /// The port, unless it is a Unix socket.
    pub fn port(&self) -> Option<u16> {
        match self {
            ListenAt::EveryAddress(port) => Some(*port),
            ListenAt::Address(ListenAddress::Tcp(address)) => Some(address.port()),
            ListenAt::Address(ListenAddress::Unix(_)) => None,
        }
    }

    /// Whether only this machine reaches it over TCP.
    pub fn is_loopback(&self) -> bool {
        matches!(self, ListenAt::Address(ListenAddress::Tcp(address)) if address.ip().is_loopback())
    }

    /// Whether other machines reach it: over TCP, and not by loopback.
    pub fn is_open(&self) -> bool {
        self.socket().is_none() && !self.is_loopback()
    }
}

impl FromStr for ListenAt {
    type Err = AddressError;

    /// Reads an address. A relative path of a Unix socket is kept as it is: the caller knows what it is relative to.
    fn from_str(text: &str) -> Result<ListenAt, AddressError> {
        match port_alone(text.strip_prefix(':').unwrap_or(text)) {
            Some(port) => port.map(ListenAt::EveryAddress),
            None => text.parse().map(ListenAt::Address),
        }
    }
}

impl fmt::Display for ListenAt {
    /// Writes what [`FromStr`] reads back as the same.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListenAt::EveryAddress(port) => write!(formatter, ":{port}"),
            ListenAt::Address(address) => address.fmt(formatter),
        }
    }
}

impl From<ListenAddress> for ListenAt {
    fn from(address: ListenAddress) -> ListenAt {
        ListenAt::Address(address)
    }
}

impl From<ListenAt> for ListenSettings {
    fn from(at: ListenAt) -> ListenSettings {
        ListenSettings { at }
    }
}

impl From<ListenAddress> for ListenSettings {
    fn from(address: ListenAddress) -> ListenSettings {
        ListenAt::Address(address).into()
    }
}

impl FromStr for ListenSettings {
    type Err = AddressError;

    /// Reads an address, of which nothing more is said.
    fn from_str(text: &str) -> Result<ListenSettings, AddressError> {
        text.parse().map(|at: ListenAt| at.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> ListenAt {
        text.parse().expect("test addresses are well formed")
    }

    #[test]
    fn a_port_alone_is_of_every_address_and_localhost_of_this_machine() {
        for text in ["443", ":443"] {
            assert_eq!(at(text), ListenAt::EveryAddress(443));
            let addresses: Vec<String> = at(text).addresses().iter().map(ToString::to_string).collect();
            assert_eq!(addresses, ["0.0.0.0:443", "[::]:443"]);
            assert!(at(text).is_open() && !at(text).is_loopback());
        }
        for text in ["localhost:443", "127.0.0.1:443", "[::1]:443"] {
            assert!(at(text).is_loopback() && !at(text).is_open(), "{text}");
        }
        assert!(!at("unix:/s").is_open());
        assert!("70000".parse::<ListenAt>().unwrap_err().to_string().contains("65535"));
        assert!(":".parse::<ListenAt>().is_err() && "".parse::<ListenAt>().is_err());
    }

    #[test]
    fn what_is_written_is_read_back() {
        for text in [":0", ":443", "0.0.0.0:80", "[::]:80", "unix:/a"] {
            assert_eq!(at(text).to_string(), text);
        }
    }

    #[test]
    fn a_port_of_every_address_overlaps_each_address_at_that_port() {
        for other in ["443", "0.0.0.0:443", "[::]:443", "127.0.0.1:443", "[::1]:443"] {
            assert!(at("443").overlaps(&at(other)) && at(other).overlaps(&at("443")), "{other}");
        }
        assert!(!at("443").overlaps(&at("80")) && !at("0").overlaps(&at("0")) && !at("443").overlaps(&at("unix:443")));
    }

    #[test]
    fn a_port_of_every_address_means_both_sockets() {
        let own = |text: &str| text.parse::<ListenAddress>().unwrap();
        assert!(at("443").means(&own("0.0.0.0:443")) && at("443").means(&own("[::]:443")));
        assert!(!at("443").means(&own("127.0.0.1:443")) && !at("443").means(&own("[::]:80")));
        assert!(at("0").means(&own("[::]:80")));
    }
}
