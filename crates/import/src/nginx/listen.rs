//! Addresses of nginx.
//!
//! Owns: `listen`. What an address speaks is decided in `tls`.

use super::syntax::Directive;
use crate::{Draft, Site};

/// The most that `backlog` can be.
const BACKLOG_MAX: u32 = 65_535;

/// An address of a server.
pub(super) struct Listen {
    pub(super) line: usize,
    pub(super) text: String,
    pub(super) address: String,
    pub(super) has_tls: bool,
    /// Connections begin with a header of the PROXY protocol.
    pub(super) has_proxy_header: bool,
    /// Connections that may wait.
    pub(super) backlog: Option<u32>,
}

/// An address. None if it cannot be carried over.
pub(super) fn listen(directive: &Directive, site: &mut Site, draft: &mut Draft) -> Option<Listen> {
    let address = directive.argument(0);
    let address = match address.parse::<u16>() {
        Ok(port) => format!("0.0.0.0:{port}"),
        Err(_) => address.replace("*:", "0.0.0.0:"),
    };
    // Without a port it is 80.
    let address =
        match address.parse::<std::net::Ipv4Addr>().is_ok() || address == "localhost" || address.ends_with(']') {
            true => format!("{address}:80"),
            false => address,
        };
    let address =
        address.strip_prefix("localhost:").map_or_else(|| address.clone(), |port| format!("127.0.0.1:{port}"));
    let (mut has_tls, mut has_proxy_header, mut backlog) = (false, false, None);
    for option in &directive.arguments[directive.arguments.len().min(1)..] {
        match &**option {
            "default_server" | "default" => site.is_default = true,
            "ssl" | "http2" => has_tls |= option == "ssl",
            "quic" | "http3" => {
                draft.lose(directive.line, format!("`{}`: HTTP/3 is not spoken", directive.text()));
                return None;
            }
            "proxy_protocol" => has_proxy_header = true,
            option if option.starts_with("backlog=") => {
                let count = option["backlog=".len()..].parse::<u32>().ok();
                // -1 is what the kernel takes at most, which is what it is given here.
                backlog = count.filter(|count| *count > 0).map(|count| count.min(BACKLOG_MAX));
            }
            option if option.starts_with("ipv6only=") || option == "reuseport" => {}
            option => {
                draft.lose(directive.line, format!("`{option}` of `{}`: Lamna has nothing like it", directive.text()))
            }
        }
    }
    let is_address = address.starts_with("unix:")
        || address.rsplit_once(':').is_some_and(|(host, port)| {
            !host.is_empty() && port.parse::<u16>().is_ok() && host.parse::<std::net::Ipv4Addr>().is_ok()
                || address.parse::<std::net::SocketAddr>().is_ok()
        });
    if !is_address {
        draft.lose(directive.line, format!("`{}`: an address is an IP address and a port", directive.text()));
        return None;
    }
    Some(Listen { line: directive.line, text: directive.text(), address, has_tls, has_proxy_header, backlog })
}
