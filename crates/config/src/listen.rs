//! Where the server listens, and what it does there: the entries of `listen`.
//!
//! Owns: [`ListenAt`], which is one address or a port of every address; [`ListenSettings`], which is one entry of
//! `listen`; and [`ListenRules`], which are what comes of it for one socket. What an entry does not say, the settings
//! of the whole server say. Opens nothing.

pub(crate) mod entry;
pub(crate) mod warnings;

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use super::address::{AddressError, ListenAddress, port_alone};
use super::settings::Settings;

/// Connections that may wait to be accepted. The kernel caps it by `net.core.somaxconn`, which is 4096 by default.
pub const BACKLOG: u32 = 4096;

/// The port of HTTP without TLS (RFC 9110 4.2.1).
pub const PLAIN_PORT: u16 = 80;

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
    /// Whether TLS is spoken there; none for everywhere but at the port of plain HTTP and at Unix sockets.
    pub tls: Option<bool>,
    /// Whether requests in clear text for sites that speak TLS are led to https; none for yes.
    pub redirect: Option<bool>,
    /// Whether connections begin with a header of the PROXY protocol; none for what [`Settings::proxy_protocol`] names.
    pub proxy_protocol: Option<bool>,
    /// The versions of HTTP; none for both over TLS, and for what [`Settings::h2c`] says in clear text.
    pub protocols: Option<Protocols>,
    /// Connections that may wait to be accepted; none for [`BACKLOG`].
    pub backlog: Option<u32>,
}

/// The versions of HTTP at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocols {
    /// HTTP/1.0 and HTTP/1.1.
    Http1,
    /// These and HTTP/2.
    Http1AndHttp2,
}

/// The treatment of connections at one address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenRules {
    /// Whether TLS is spoken, if sites speak it.
    pub tls: bool,
    /// Whether requests in clear text for sites that speak TLS are led to https. Otherwise they are served.
    pub redirect: bool,
    /// Whether connections begin with a header of the PROXY protocol.
    pub proxy_protocol: bool,
    /// Whether HTTP/2 is spoken beside HTTP/1.1, in the way that is spoken: over TLS or in clear text.
    pub http2: bool,
    /// Connections that may wait to be accepted.
    pub backlog: u32,
}

impl ListenRules {
    /// Those of the socket at `own`, of which `entry` says something, if anything does.
    pub fn of(settings: &Settings, entry: Option<&ListenSettings>, own: &ListenAddress) -> ListenRules {
        let is_plain =
            matches!(own, ListenAddress::Unix(_)) || matches!(own, ListenAddress::Tcp(tcp) if tcp.port() == PLAIN_PORT);
        let tls = entry.and_then(|one| one.tls).unwrap_or(!is_plain);
        let named = || settings.proxy_protocol.iter().any(|named| named.means(own));
        let speaks_tls = tls && settings.speak_tls();
        let protocols = entry.and_then(|one| one.protocols);
        ListenRules {
            tls,
            redirect: entry.and_then(|one| one.redirect).unwrap_or(true),
            proxy_protocol: entry.and_then(|one| one.proxy_protocol).unwrap_or_else(named),
            http2: protocols.map_or(speaks_tls || settings.h2c, |all| all == Protocols::Http1AndHttp2),
            backlog: entry.and_then(|one| one.backlog).unwrap_or(BACKLOG),
        }
    }
}

impl ListenSettings {
    /// The rules of each of its addresses. Port 0 is none in particular.
    pub fn rules(&self, settings: &Settings) -> Vec<(ListenAddress, ListenRules)> {
        let of = |own: ListenAddress| {
            let rules = ListenRules::of(settings, Some(self), &own);
            (own, rules)
        };
        self.at.addresses().into_iter().map(of).collect()
    }
}

/// The entry of `listen` of each of the sockets at `own`. One with a port has the socket at that port; of the others
/// each has the next that it means, so that two entries with port 0 have a socket each.
pub fn entries_of<'s>(listen: &'s [ListenSettings], own: &[&ListenAddress]) -> Vec<Option<&'s ListenSettings>> {
    let mut entries: Vec<Option<&ListenSettings>> = vec![None; own.len()];
    let (any, named): (Vec<_>, Vec<_>) = listen.iter().partition(|one| one.at.port() == Some(0));
    for one in named.into_iter().chain(any) {
        for address in one.at.addresses() {
            let is_next = |place: &usize| entries[*place].is_none() && address.means(own[*place]);
            if let Some(place) = (0..own.len()).find(is_next) {
                entries[place] = Some(one);
            }
        }
    }
    entries
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
    pub fn overlaps(&self, other: &ListenAt) -> bool {
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
        ListenSettings { at, tls: None, redirect: None, proxy_protocol: None, protocols: None, backlog: None }
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
    fn each_socket_has_the_entry_that_names_it() {
        let own: Vec<ListenAddress> = ["127.0.0.1:80", "127.0.0.1:1", "127.0.0.1:2", "0.0.0.0:443", "[::]:443"]
            .map(|text| text.parse().unwrap())
            .into();
        let own: Vec<&ListenAddress> = own.iter().collect();
        let listen = ["127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:80", "443"].map(|text| text.parse().unwrap());
        let at = |place: usize| Some(&listen[place]);
        let entries = entries_of(&listen, &own);
        let is_same = |one: Option<&ListenSettings>, other: Option<&ListenSettings>| match (one, other) {
            (Some(one), Some(other)) => std::ptr::eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        };
        for (entry, place) in entries.iter().zip([2, 0, 1, 3, 3]) {
            assert!(is_same(*entry, at(place)), "{entries:?}");
        }
        assert_eq!(entries_of(&listen[2..], &own[1..2]), [None]);
    }

    #[test]
    fn what_an_entry_does_not_say_the_server_says() {
        let settings = Settings { proxy_protocol: vec![at("8443")], h2c: true, ..Settings::default() };
        let rules = |entry: &ListenSettings, own: &str| ListenRules::of(&settings, Some(entry), &own.parse().unwrap());
        let plain: ListenSettings = "8443".parse().unwrap();
        let own = rules(&plain, "0.0.0.0:8443");
        assert!(own.tls && own.redirect && own.proxy_protocol && own.http2 && own.backlog == BACKLOG);
        assert!(!rules(&plain, "0.0.0.0:80").tls && !rules(&plain, "unix:/s").tls);
        let entry = ListenSettings {
            tls: Some(false),
            redirect: Some(false),
            proxy_protocol: Some(false),
            protocols: Some(Protocols::Http1),
            backlog: Some(7),
            ..plain
        };
        let own = rules(&entry, "0.0.0.0:8443");
        assert!(!own.tls && !own.redirect && !own.proxy_protocol && !own.http2 && own.backlog == 7);
        let entry = ListenSettings { tls: Some(true), ..entry };
        assert!(rules(&entry, "0.0.0.0:80").tls);
    }

    #[test]
    fn a_port_of_every_address_means_both_sockets() {
        let own = |text: &str| text.parse::<ListenAddress>().unwrap();
        assert!(at("443").means(&own("0.0.0.0:443")) && at("443").means(&own("[::]:443")));
        assert!(!at("443").means(&own("127.0.0.1:443")) && !at("443").means(&own("[::]:80")));
        assert!(at("0").means(&own("[::]:80")));
    }
}
