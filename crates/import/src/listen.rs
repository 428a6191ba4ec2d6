//! The entries of `listen`: what is done at addresses that is not done elsewhere.
//!
//! Owns: how what the other server says of its addresses becomes keys. Guarantees: no site is served in clear text that
//! the other server serves over TLS alone. Pure.

use std::collections::BTreeMap;

use lamna_config::render::quoted;

use super::Draft;

/// The words of the other server about an address.
#[derive(Debug, Default)]
pub(super) struct Entry {
    /// A site speaks TLS there.
    pub(super) is_secure: bool,
    /// Plain HTTP is spoken there: in this line.
    pub(super) plain: Option<usize>,
    /// Connections begin with a header of the PROXY protocol: in this line.
    pub(super) proxy_protocol: Option<usize>,
    /// Connections that may wait.
    pub(super) backlog: Option<u32>,
    /// Sites that are served there in clear text, by their lines, with the line and the text that say so.
    pub(super) clear: Vec<(usize, usize, String)>,
    /// Keys and values, once everything has been said.
    keys: Vec<String>,
}

/// Makes keys of what is said.
pub(super) fn settle(draft: &mut Draft) {
    let is_secure = |(key, _): &(&str, String)| matches!(*key, "tls" | "certificate");
    let secured: Vec<usize> =
        draft.sites.iter().filter(|site| site.keys.iter().any(is_secure)).map(|site| site.line).collect();
    let has_proxies = draft.keys.iter().any(|(key, _)| *key == "trusted_proxies");
    let mut entries: BTreeMap<String, Entry> = std::mem::take(&mut draft.entries);
    for (address, entry) in &mut entries {
        let is_port_80 = address.ends_with(":80");
        let speaks_tls = !secured.is_empty() && !address.starts_with("unix:");
        if speaks_tls && entry.is_secure && is_port_80 {
            entry.keys.push("tls = true".to_owned());
        }
        if let Some(line) = entry.plain.filter(|_| speaks_tls && entry.is_secure) {
            draft.lose(
                line,
                format!("plain HTTP at {address}: TLS is spoken there as well, and an address speaks one of them"),
            );
        }
        let is_plain = speaks_tls && entry.plain.is_some() && !entry.is_secure;
        if is_plain && !is_port_80 {
            entry.keys.push("tls = false".to_owned());
        }
        if is_plain {
            // What one site serves in clear text, all sites that are reached there would.
            let serves = |site: &usize| entry.clear.iter().any(|(other, ..)| other == site);
            if secured.iter().all(serves) {
                entry.keys.push("redirect = false".to_owned());
            } else {
                let why = "it leads to https where a site has a certificate, because not all that have one are served in clear text there";
                entry.clear.iter().filter(|(site, ..)| secured.contains(site)).for_each(|(_, line, text)| {
                    draft.lose(*line, format!("`{text}`: {why}"));
                });
            }
        }
        match entry.proxy_protocol {
            Some(_) if has_proxies => entry.keys.push("proxy_protocol = true".to_owned()),
            Some(line) => {
                let why = "`proxy_protocol` takes `trusted_proxies`, which name the proxies: no connection is understood there before";
                draft.lose(line, format!("the PROXY protocol at {address}: {why}"));
            }
            None => {}
        }
        entry.keys.extend(entry.backlog.map(|count| format!("backlog = {count}")));
    }
    draft.entries = entries;
}

/// The value of `listen`.
pub(super) fn render(draft: &Draft) -> String {
    let entry = |address: &String| match draft.entries.get(address).map(|entry| &entry.keys[..]) {
        None | Some([]) => quoted(address),
        Some(keys) => format!("{{ address = {}, {} }}", quoted(address), keys.join(", ")),
    };
    let entries: Vec<String> = draft.listen.iter().map(entry).collect();
    format!("[{}]", entries.join(", "))
}
