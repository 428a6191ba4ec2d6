//! The addresses at which a site is reached: other servers answer for a site at its own addresses, and here each site
//! answers at all of them.
//!
//! Owns: the route by which a site that only this machine reaches is there for it alone, and words for what is reached
//! at other addresses here. A client counts by its address, as trusted proxies tell it. Guarantees: what is listened
//! for on loopback or on a Unix socket is not reached from further away. Pure.

use std::net::{IpAddr, SocketAddr};

use crate::{DENIED_PRIORITY, Draft, Route, denied, list};

/// The clients that reach an address, the nearest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Reach {
    UnixSocket,
    Loopback,
    Anywhere,
}

/// All addresses of clients, and those of this machine.
const ANY: [&str; 2] = ["0.0.0.0/0", "::/0"];
const LOOPBACK: [&str; 2] = ["127.0.0.0/8", "::1"];

/// Has no site be reached from further away than the other server has it.
pub(super) fn keep(draft: &mut Draft) {
    let Some(furthest) = furthest(&draft.listen) else { return };
    let all = draft.listen.clone();
    draft.listen.retain(|one| !all.iter().any(|other| covers(other, one)));
    let everywhere: Vec<IpAddr> = draft.listen.iter().filter_map(|one| address(one)).collect();
    let mut said = Vec::new();
    for site in &mut draft.sites {
        let Some(own) = self::furthest(&site.listens) else { continue };
        let only =
            format!("this server listens at {} only, and a site answers on every address", site.listens.join(", "));
        if own < furthest {
            // A client whose address is not known is one on a Unix socket.
            let beyond = match own {
                Reach::UnixSocket => format!("{{ client = {} }}", list(&ANY)),
                _ => format!("{{ client = {}, not = {{ client = {} }} }}", list(&ANY), list(&LOOPBACK)),
            };
            let keys = [("match", beyond), ("priority", DENIED_PRIORITY.to_owned())];
            site.routes.push(Route { line: site.line, keys: keys.into_iter().chain(denied()).collect() });
            said.push((site.line, format!("{only}: clients from elsewhere get 404")));
            continue;
        }
        let of_site: Vec<IpAddr> = site.listens.iter().filter_map(|one| address(one)).collect();
        let is_for_some = !of_site.is_empty() && !of_site.iter().any(IpAddr::is_unspecified);
        if is_for_some && !everywhere.iter().all(|one| of_site.contains(one)) {
            said.push((site.line, only));
        }
    }
    said.into_iter().for_each(|(line, words)| draft.lose(line, words));
}

/// Whether a socket at `one` is one at `other` as well: only one of them can be had.
fn covers(one: &str, other: &str) -> bool {
    let (Ok(one), Ok(other)) = (one.parse::<SocketAddr>(), other.parse::<SocketAddr>()) else { return false };
    let is_wider = one.ip().is_unspecified() && !other.ip().is_unspecified();
    is_wider && one.port() == other.port() && one.is_ipv4() == other.is_ipv4()
}

fn furthest(addresses: &[String]) -> Option<Reach> {
    let from = |address: &String| match self::address(address) {
        None if address.starts_with("unix:") => Reach::UnixSocket,
        Some(ip) if ip.is_loopback() => Reach::Loopback,
        _ => Reach::Anywhere,
    };
    addresses.iter().map(from).max()
}

fn address(text: &str) -> Option<IpAddr> {
    text.parse::<SocketAddr>().ok().map(|address| address.ip())
}
