//! Addresses of upstreams as text: `http://127.0.0.1:3000`, `https://app.internal`, `unix:/run/app.sock`,
//! `localhost:9000`, `3000`.
//!
//! Owns: the syntax, both ways. Names are kept as names: what they mean is found out while serving
//! (`upstream/resolve.rs`), because it changes, and because a name that means nothing yet must not keep a server from
//! starting.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Where an upstream is, and whether TLS is spoken with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamAddress {
    /// Where.
    pub place: Place,
    /// It is asked by `https`.
    pub is_secure: bool,
}

/// Where an upstream is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// These addresses, to be tried in order. More than one for `localhost`, which some programs take for one, some for
    /// the other.
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
/// The port of `https://` where none is given.
const HTTPS_PORT: u16 = 443;
/// Bytes of a path that fit into the address of a Unix socket (unix(7)), without the NUL after it.
const UNIX_PATH_BYTES_MAX: usize = 107;

impl UpstreamAddress {
    /// The value of `Host` for this upstream if no other is wanted (RFC 9110 7.2).
    pub fn authority(&self) -> String {
        match &self.place {
            Place::Fixed { authority, .. } => authority.clone(),
            Place::Named { host, port } if *port == port_of_scheme(self.is_secure) => host.clone(),
            Place::Named { host, port } => format!("{host}:{port}"),
            Place::Unix(_) => "localhost".into(),
        }
    }

    /// The name or address that its certificate has to name.
    pub fn host(&self) -> String {
        match &self.place {
            Place::Fixed { addresses, .. } if addresses.len() == 1 => addresses[0].ip().to_string(),
            Place::Named { host, .. } => host.trim_end_matches('.').to_owned(),
            Place::Fixed { .. } | Place::Unix(_) => "localhost".into(),
        }
    }
}

fn port_of_scheme(is_secure: bool) -> u16 {
    if is_secure { HTTPS_PORT } else { HTTP_PORT }
}

impl FromStr for UpstreamAddress {
    type Err = AddressError;

    /// Reads an address. A port is needed where the text has no scheme. A relative path of a Unix socket is kept as it
    /// is: the caller knows what it is relative to.
    fn from_str(text: &str) -> Result<Self, AddressError> {
        let is_secure = text.starts_with("https://");
        let (rest, default_port) = match text.strip_prefix("http://").or_else(|| text.strip_prefix("https://")) {
            Some(rest) => (rest.strip_suffix('/').unwrap_or(rest), Some(port_of_scheme(is_secure))),
            None if text.contains("://") => return Err(AddressError("has a scheme that is neither http nor https")),
            None => (text, None),
        };
        if let Some(path) = rest.strip_prefix("unix:") {
            return match is_secure {
                true => Err(AddressError("is a Unix socket, which is private as it is: write unix:PATH")),
                false => unix(path).map(|place| UpstreamAddress { place, is_secure }),
            };
        }
        if rest.contains(['/', '?', '#']) {
            return Err(AddressError("has a path: an upstream is a host and a port, and gets the path of the request"));
        }
        if rest.contains('@') {
            return Err(AddressError("has a user: upstreams are asked without one"));
        }
        tcp(rest, default_port).map(|place| UpstreamAddress { place, is_secure })
    }
}

impl fmt::Display for UpstreamAddress {
    /// Writes what [`FromStr`] reads back as the same address. A path that is not UTF-8 is written lossily.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_secure {
            formatter.write_str("https://")?;
        }
        match &self.place {
            Place::Unix(path) => write!(formatter, "unix:{}", path.display()),
            Place::Named { host, port } => write!(formatter, "{host}:{port}"),
            Place::Fixed { addresses, authority } if addresses.len() > 1 => {
                let port = addresses.first().map_or(HTTP_PORT, SocketAddr::port);
                let name = authority.split(':').next().unwrap_or_default();
                write!(formatter, "{name}:{port}")
            }
            Place::Fixed { addresses, .. } => addresses.iter().try_for_each(|address| write!(formatter, "{address}")),
        }
    }
}

fn unix(path: &str) -> Result<Place, AddressError> {
    check_socket(Path::new(path))?;
    Ok(Place::Unix(PathBuf::from(path)))
}

/// Whether a Unix socket can be at `path`.
///
/// # Errors
/// Why not.
pub(crate) fn check_socket(path: &Path) -> Result<(), AddressError> {
    let bytes = path.as_os_str().as_bytes();
    match bytes.len() {
        _ if bytes.contains(&0) => Err(AddressError("has a NUL in the path of the socket")),
        0 => Err(AddressError("needs the path of the socket, as in unix:/run/app.sock")),
        1..=UNIX_PATH_BYTES_MAX => Ok(()),
        _ => Err(AddressError("has a path that is longer than the 107 bytes of a Unix socket's")),
    }
}

fn tcp(text: &str, default_port: Option<u16>) -> Result<Place, AddressError> {
    let is_port = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if let Some(port) = text.strip_prefix(':').or(Some(text)).filter(|port| default_port.is_none() && is_port(port)) {
        return Ok(localhost(port_of(port)?, HTTP_PORT));
    }
    // An address of version 6 has colons of its own.
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port_of(port)?)),
        _ => (text, None),
    };
    let port = port.or(default_port).ok_or(AddressError("needs a port, as in 127.0.0.1:9000"))?;
    if let Some(literal) = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        let address: Ipv6Addr = literal.parse().map_err(|_| AddressError("has no IPv6 address in its brackets"))?;
        return Ok(fixed((address, port).into(), default_port.unwrap_or(HTTP_PORT)));
    }
    if let Ok(address) = host.parse::<Ipv4Addr>() {
        return Ok(fixed((address, port).into(), default_port.unwrap_or(HTTP_PORT)));
    }
    if host.parse::<Ipv6Addr>().is_ok() {
        return Err(AddressError("has an IPv6 address without brackets: write it as in [::1]:3000"));
    }
    if host.eq_ignore_ascii_case("localhost") {
        return Ok(localhost(port, default_port.unwrap_or(HTTP_PORT)));
    }
    if !is_name(host) {
        return Err(AddressError("is not an address: expected http://HOST:PORT, HOST:PORT, PORT or unix:PATH"));
    }
    Ok(Place::Named { host: host.to_ascii_lowercase(), port })
}

fn port_of(text: &str) -> Result<u16, AddressError> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let port = text.parse().ok().filter(|port| is_number && *port > 0);
    port.ok_or(AddressError("has a port that is not a number from 1 to 65535"))
}

/// `usual` is the port that need not be said.
fn fixed(address: SocketAddr, usual: u16) -> Place {
    let text = address.to_string();
    let authority = match text.strip_suffix(&format!(":{usual}")) {
        Some(host) if address.port() == usual => host.to_owned(),
        _ => text,
    };
    Place::Fixed { addresses: vec![address], authority }
}

fn localhost(port: u16, usual: u16) -> Place {
    let authority = if port == usual { "localhost".to_owned() } else { format!("localhost:{port}") };
    let addresses = vec![(Ipv4Addr::LOCALHOST, port).into(), (Ipv6Addr::LOCALHOST, port).into()];
    Place::Fixed { addresses, authority }
}

/// Whether a certificate can name it.
pub(super) fn is_server_name(text: &str) -> bool {
    text.parse::<IpAddr>().is_ok() || is_name(text)
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
    let is_number = last.bytes().all(|byte| byte.is_ascii_digit())
        || last.get(..2).is_some_and(|begin| begin.eq_ignore_ascii_case("0x"));
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
            ("https://App.internal/", "https://app.internal:443", "app.internal"),
            ("https://app.internal:80", "https://app.internal:80", "app.internal:80"),
            ("https://10.0.0.1", "https://10.0.0.1:443", "10.0.0.1"),
            ("https://[::1]:8443", "https://[::1]:8443", "[::1]:8443"),
            ("https://localhost", "https://localhost:443", "localhost"),
        ] {
            let address = read(text).unwrap();
            assert_eq!((address.to_string(), address.authority()), (shown.into(), authority.into()), "{text}");
            assert_eq!(read(shown), Ok(address), "{shown}");
        }
    }

    #[test]
    fn a_certificate_names_what_the_address_names() {
        for (text, host) in [
            ("https://App.internal:8443", "app.internal"),
            ("https://10.0.0.1", "10.0.0.1"),
            ("https://[::1]", "::1"),
            ("https://localhost:1", "localhost"),
        ] {
            assert_eq!(read(text).unwrap().host(), host, "{text}");
        }
    }

    #[test]
    fn localhost_is_both_loopback_addresses() {
        let both: Vec<SocketAddr> = vec!["127.0.0.1:5".parse().unwrap(), "[::1]:5".parse().unwrap()];
        let place = Place::Fixed { addresses: both, authority: "localhost:5".into() };
        assert_eq!(read("5").map(|address| address.place), Ok(place));
    }

    #[test]
    fn what_is_no_address_is_refused_with_the_reason() {
        for (text, reason) in [
            ("https://unix:/run/a.sock", "Unix socket"),
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
            ("0X7F.1:1", "not an address"),
            ("http://0X", "not an address"),
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
        fn what_is_shown_is_read_as_the_same(text in "(http://|https://|unix:|)[a-zA-Z0-9.:/\\[\\]_-]{0,24}") {
            if let Ok(address) = read(&text) {
                prop_assert_eq!(read(&address.to_string()), Ok(address));
            }
        }
    }
}
