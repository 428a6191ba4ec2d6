//! Addresses of sites of Caddy: hosts, ports and paths.
//!
//! Owns: what is listened at for one, and the paths that a site is for. Guarantees: a site of a path answers for no
//! other one, and no other site for its paths.

use lamna_config::render::quoted;

use super::syntax::Line;
use super::{Draft, Matcher, Route, Site, deny, deny_keys};
use crate::DENIED_WORDS;

/// Takes over an address. Whether TLS is spoken there, and the path of it.
pub(super) fn take(
    address: &str,
    line: usize,
    interfaces: &[String],
    site: &mut Site,
    draft: &mut Draft,
) -> (bool, Option<String>) {
    if address.contains('{') {
        draft.lose(line, format!("`{address}`: an address is written out"));
        return (false, None);
    }
    let (scheme, rest) = address.split_once("://").unwrap_or(("", address));
    let (authority, path) = rest.split_once('/').map_or((rest, ""), |(authority, path)| (authority, path));
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => (host, port),
        _ => (authority, ""),
    };
    let host = host.to_ascii_lowercase();
    if !host.is_empty() && (lamna_config::address::host_name(&host).is_err() || host.contains('_')) {
        draft.lose(line, format!("`{address}`: it names no host that can have a certificate, so this site is for any"));
        return (false, None);
    }
    let (http, https) = (draft.ports.http(), draft.ports.https());
    let is_plain = scheme == "http"
        || port == http.to_string()
        || host.is_empty() && port != https.to_string() && scheme != "https";
    let or = |port: &str, usual: u16| if port.is_empty() { usual.to_string() } else { port.to_owned() };
    for any in interfaces {
        if is_plain {
            let own = format!("{any}:{}", or(port, http));
            draft.listen(line, own.clone(), true);
            let entry = draft.entries.entry(own).or_default();
            entry.clear.push((site.line, line, address.to_owned()));
        } else {
            // The port of HTTP leads there.
            draft.listen(line, format!("{any}:{http}"), true);
            draft.listen(line, format!("{any}:{}", or(port, https)), false);
        }
    }
    if !host.is_empty() && !site.hosts.contains(&host) {
        site.hosts.push(host);
    }
    let path = (!matches!(path, "" | "*")).then(|| format!("/{path}"));
    (!is_plain, path)
}

/// Has a site answer for the paths of its addresses only, and an earlier one of the same host for none of them.
pub(super) fn keep_paths(addresses: &Line, paths: &[Option<String>], site: &mut Site, draft: &mut Draft) {
    for path in paths.iter().flatten() {
        let is_same = |other: &&mut Site| {
            other.hosts.iter().any(|host| site.hosts.contains(host)) || other.hosts.is_empty() && site.hosts.is_empty()
        };
        let earlier: Vec<&mut Site> = draft.sites.iter_mut().filter(is_same).collect();
        earlier.into_iter().for_each(|other| deny(addresses, &Matcher::of_paths(&[path]), other));
    }
    let Some(first) = paths.first() else { return };
    match first {
        _ if paths.iter().any(|path| path != first) => {
            let text = addresses.text();
            draft.lose(addresses.line, format!("the paths of `{text}`: they are not the same; {DENIED_WORDS}"));
            deny(addresses, &Matcher::any(), site);
        }
        None => {}
        Some(path) => match beyond(path) {
            Some(regex) => {
                let matches = ("match", format!("{{ regex = {} }}", quoted(&regex)));
                let keys = [matches].into_iter().chain(deny_keys()).collect();
                site.routes.push(Route { line: addresses.line, keys });
            }
            None => {
                let why = "a path of a site ends with a star, or has none";
                draft.lose(addresses.line, format!("`{path}` of `{}`: {why}; {DENIED_WORDS}", addresses.text()));
                deny(addresses, &Matcher::any(), site);
            }
        },
    }
}

/// An expression for all paths but those that `path` fits. None if there is none.
fn beyond(path: &str) -> Option<String> {
    let start = path.strip_suffix('*').unwrap_or(path);
    if !start.is_ascii() || start.contains(['*', '?', '[', ']', '\\', '{', '}', '%']) {
        return None;
    }
    let otherwise = start.char_indices().skip(1).map(|(at, next)| {
        let next = regex::escape(&next.to_string());
        format!("{}(?:$|[^{next}])", regex::escape(&start[..at]))
    });
    let longer = (start == path).then(|| format!("{}.", regex::escape(start)));
    let all: Vec<String> = otherwise.chain(longer).collect();
    (!all.is_empty()).then(|| format!("(?s)^(?:{})", all.join("|")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_fits_a_path_or_what_is_beyond_it() {
        for (path, within, others) in [
            (
                "/pub/*",
                &["/pub/", "/pub/a", "/pub/\n"][..],
                &["/", "/pub", "/pu", "/x", "/pubs/a", "/a/pub/", "/pu\n/"][..],
            ),
            ("/pub*", &["/pub", "/pub/a", "/public"], &["/", "/pu", "/x/pub"]),
            ("/a.b", &["/a.b"], &["/", "/a", "/axb", "/a.bc", "/a.b/", "/a.b\n"]),
            ("/a-^]*", &[], &[]),
        ] {
            let Some(regex) = beyond(path) else {
                assert_eq!(path, "/a-^]*");
                continue;
            };
            let regex = regex::bytes::Regex::new(&regex).unwrap();
            within.iter().for_each(|one| assert!(!regex.is_match(one.as_bytes()), "{path} {one:?} {regex}"));
            others.iter().for_each(|one| assert!(regex.is_match(one.as_bytes()), "{path} {one:?} {regex}"));
        }
    }
}
