//! Addresses of upstreams as text: `http://127.0.0.1:3000`, `http://app.internal`, `unix:/run/app.sock`, `localhost:9000`,
//! `3000`.
//!
//! Owns: the syntax, both ways. Names are kept as names: what they mean is found out while serving (`upstream/resolve.rs`),
//! because it changes, and because a name that means nothing yet must not keep a server from starting. Does not know TLS:
//! `https://` is refused.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

/// Where an upstream is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpstreamAddress {
    /// These addresses, to be tried in order. More than one for `localhost`, which some programs take for one, some for the
    /// other.
    Fixed {
        /// At least one.
        addresses: Vec<SocketAddr>,
        /// As the text named it, for `Host`.
        authority: String,
    },
    /// A name, and a port.
    Named {
        /// In lower case.
        host: String,
        /// The port.
        port: u16,
    },
    /// A Unix stream socket.
    Unix(PathBuf),
}

/// Why a text is not an address of an upstream, as the rest of a sentence that starts with the text itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressError(&'static str);

impl fmt::Display for AddressError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.0)
    }
}

impl std::error::Error for AddressError {}

/// The port of `http://` where none is given.
const HTTP_PORT: u16 = 80;
/// Bytes of a path that fit into the address of a Unix socket (unix(7)), without the NUL after it.
const UNIX_PATH_BYTES_MAX: usize = 107;

impl UpstreamAddress {
    /// What `Host` says for this upstream if nothing else is wanted (RFC 9110 7.2).
    pub fn authority(&self) -> String {
        match self {
            UpstreamAddress::Fixed { authority, .. } => authority.clone(),
            UpstreamAddress::Named { host, port: HTTP_PORT } => host.clone(),
            UpstreamAddress::Named { host, port } => format!("{host}:{port}"),
            UpstreamAddress::Unix(_) => "localhost".into(),
        }
    }
}

impl FromStr for UpstreamAddress {
    type Err = AddressError;

    /// Reads an address. A port is needed where the text has no scheme. A relative path of a Unix socket is kept as it is:
    /// the caller knows what it is relative to.
    fn from_str(text: &str) -> Result<Self, AddressError> {
        if text.starts_with("https://") {
            return Err(AddressError("uses TLS, which this server does not speak with upstreams: write http://"));
        }
        let (rest, default_port) = match text.strip_prefix("http://") {
            Some(rest) => (rest.strip_suffix('/').unwrap_or(rest), Some(HTTP_PORT)),
            None if text.contains("://") => return Err(AddressError("has a scheme that is not http")),
            None => (text, None),
        };
        if let Some(path) = rest.strip_prefix("unix:") {
            return unix(path);
        }
        if rest.contains(['/', '?', '#']) {
            return Err(AddressError("has a path: an upstream is a host and a port, and gets the path of the request"));
        }
        if rest.contains('@') {
            return Err(AddressError("has a user: upstreams are asked without one"));
        }
        tcp(rest, default_port)
    }
}

impl fmt::Display for UpstreamAddress {
    /// Writes what [`FromStr`] reads back as the same address. A path that is not UTF-8 is written lossily.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UpstreamAddress::Unix(path) => write!(formatter, "unix:{}", path.display()),
            UpstreamAddress::Named { host, port } => write!(formatter, "{host}:{port}"),
            UpstreamAddress::Fixed { addresses, authority } if addresses.len() > 1 => {
                let port = addresses.first().map_or(HTTP_PORT, SocketAddr::port);
                let name = authority.split(':').next().unwrap_or_default();
                write!(formatter, "{name}:{port}")
            }
            UpstreamAddress::Fixed { addresses, .. } => {
                addresses.iter().try_for_each(|address| write!(formatter, "{address}"))
            }
        }
    }
}

fn unix(path: &str) -> Result<UpstreamAddress, AddressError> {
    match path.len() {
        _ if path.contains('\0') => Err(AddressError("has a NUL in the path of the socket")),
        0 => Err(AddressError("needs the path of the socket, as in unix:/run/app.sock")),
        1..=UNIX_PATH_BYTES_MAX => Ok(UpstreamAddress::Unix(PathBuf::from(path))),
        _ => Err(AddressError("has a path that is longer than the 107 bytes of a Unix socket's")),
    }
}

fn tcp(text: &str, default_port: Option<u16>) -> Result<UpstreamAddress, AddressError> {
    let is_port = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if let Some(port) = text.strip_prefix(':').or(Some(text)).filter(|port| default_port.is_none() && is_port(port)) {
        return Ok(localhost(port_of(port)?));
    }
    // An address of version 6 has colons of its own.
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port_of(port)?)),
        _ => (text, None),
    };
    let port = port.or(default_port).ok_or(AddressError("needs a port, as in 127.0.0.1:9000"))?;
    if let Some(literal) = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        let address: Ipv6Addr = literal.parse().map_err(|_| AddressError("has no IPv6 address in its brackets"))?;
        return Ok(fixed((address, port).into()));
    }
    if let Ok(address) = host.parse::<Ipv4Addr>() {
        return Ok(fixed((address, port).into()));
    }
    if host.parse::<Ipv6Addr>().is_ok() {
        return Err(AddressError("has an IPv6 address without brackets: write it as in [::1]:3000"));
    }
    if host.eq_ignore_ascii_case("localhost") {
        return Ok(localhost(port));
    }
    if !is_name(host) {
        return Err(AddressError("is not an address: expected http://HOST:PORT, HOST:PORT, PORT or unix:PATH"));
    }
    Ok(UpstreamAddress::Named { host: host.to_ascii_lowercase(), port })
}

fn port_of(text: &str) -> Result<u16, AddressError> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let port = text.parse().ok().filter(|port| is_number && *port > 0);
    port.ok_or(AddressError("has a port that is not a number from 1 to 65535"))
}

fn fixed(address: SocketAddr) -> UpstreamAddress {
    let authority = if address.port() == HTTP_PORT {
        let text = address.to_string();
        text.strip_suffix(":80").unwrap_or(&text).to_owned()
    } else {
        address.to_string()
    };
    UpstreamAddress::Fixed { addresses: vec![address], authority }
}

fn localhost(port: u16) -> UpstreamAddress {
    let authority = if port == HTTP_PORT { "localhost".to_owned() } else { format!("localhost:{port}") };
    let addresses = vec![(Ipv4Addr::LOCALHOST, port).into(), (Ipv6Addr::LOCALHOST, port).into()];
    UpstreamAddress::Fixed { addresses, authority }
}

/// A domain name (RFC 1123 2.1), with underscores, which names of containers have. Not one that looks like a number, of
/// which resolvers make addresses in ways of their own.
fn is_name(host: &str) -> bool {
    let is_label = |label: &str| {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        (1..=63).contains(&label.len()) && label.bytes().all(is_plain)
    };
    let name = host.strip_suffix('.').unwrap_or(host);
    let last = name.rsplit('.').next().unwrap_or_default();
    let is_number = last.bytes().all(|byte| byte.is_ascii_digit()) || last.starts_with("0x");
    name.len() <= 253 && name.split('.').all(is_label) && !is_number
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Result<UpstreamAddress, AddressError> {
        text.parse()
    }

    #[test]
    fn addresses_are_read_with_what_host_says() {
        for (text, shown, authority) in [
            ("http://127.0.0.1:3000", "127.0.0.1:3000", "127.0.0.1:3000"),
            ("http://127.0.0.1/", "127.0.0.1:80", "127.0.0.1"),
            ("http://[::1]:80", "[::1]:80", "[::1]"),
            ("[::1]:9000", "[::1]:9000", "[::1]:9000"),
            ("http://App.internal", "app.internal:80", "app.internal"),
            ("my_app-1:8080", "my_app-1:8080", "my_app-1:8080"),
            ("unix:/run/a.sock", "unix:/run/a.sock", "localhost"),
            ("http://unix:run/a.sock", "unix:run/a.sock", "localhost"),
            ("3000", "localhost:3000", "localhost:3000"),
            (":3000", "localhost:3000", "localhost:3000"),
            ("http://LocalHost", "localhost:80", "localhost"),
        ] {
            let address = read(text).unwrap();
            assert_eq!((address.to_string(), address.authority()), (shown.into(), authority.into()), "{text}");
            assert_eq!(read(shown), Ok(address), "{shown}");
        }
    }

    #[test]
    fn localhost_is_both_loopback_addresses() {
        let both: Vec<SocketAddr> = vec!["127.0.0.1:5".parse().unwrap(), "[::1]:5".parse().unwrap()];
        assert_eq!(read("5"), Ok(UpstreamAddress::Fixed { addresses: both, authority: "localhost:5".into() }));
    }

    #[test]
    fn what_is_no_address_is_refused_with_the_reason() {
        for (text, reason) in [
            ("https://a", "TLS"),
            ("ftp://a", "scheme"),
            ("http://a/b", "path"),
            ("http://u@a", "user"),
            ("http://", "not an address"),
            ("a", "needs a port"),
            ("a:", "a port"),
            ("a:0", "a port"),
            ("a:65536", "a port"),
            ("a:+1", "a port"),
            ("0", "a port"),
            ("::1:3000", "without brackets"),
            ("[::g]:1", "IPv6"),
            ("a..b:1", "not an address"),
            ("a b:1", "not an address"),
            ("127.1:1", "not an address"),
            ("0x7f.0x1:1", "not an address"),
            ("unix:", "path of the socket"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
        assert!(read(&format!("unix:/{}", "a".repeat(107))).is_err());
        assert!(read(&format!("unix:/{}", "a".repeat(106))).is_ok());
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read_as_the_same(text in "(http://|unix:|)[a-zA-Z0-9.:/\\[\\]_-]{0,24}") {
            if let Ok(address) = read(&text) {
                prop_assert_eq!(read(&address.to_string()), Ok(address));
            }
        }
    }
}
