//! Trusted proxies of nginx, which say who a client is: `set_real_ip_from` and `real_ip_header`.
//!
//! Owns: the key `trusted_proxies`, which is for all sites.

use lamna_config::route::condition::Network;

use super::syntax::Directive;
use crate::{Draft, list};

/// The directives of a block, with line and text.
#[derive(Clone, Debug, Default)]
pub(super) struct Proxies {
    from: Vec<(usize, String, String)>,
    field: Option<(usize, String, String)>,
}

/// A server's final directives: lines and texts, and networks if they mean the same here.
pub(crate) type Said = (Vec<(usize, String)>, Option<Vec<String>>);

impl Proxies {
    /// Takes over what a directive says. False if it is about something else.
    pub(super) fn take(&mut self, directive: &Directive) -> bool {
        let said = (directive.line, directive.text(), directive.argument(0).to_owned());
        match &*directive.name {
            "set_real_ip_from" => self.from.push(said),
            "real_ip_header" => self.field = Some(said),
            // Proxies that are believed are passed over, as with `on`.
            "real_ip_recursive" if directive.argument(0) == "on" => {}
            _ => return false,
        }
        true
    }

    pub(super) fn said(&self) -> Said {
        let lines = self.from.iter().chain(&self.field).map(|(line, text, _)| (*line, text.clone())).collect();
        // Where connections begin with a header of the PROXY protocol, the field counts only if that names a proxy.
        let is_told = |field: &str| field.eq_ignore_ascii_case("x-forwarded-for") || field == "proxy_protocol";
        let is_usual = self.field.as_ref().is_some_and(|(_, _, field)| is_told(field));
        let networks: Vec<String> = self.from.iter().map(|(_, _, network)| network.clone()).collect();
        let are_networks = networks.iter().all(|one| one.parse::<Network>().is_ok());
        (lines, (!networks.is_empty() && is_usual && are_networks).then_some(networks))
    }
}

/// Writes the key where all servers say the same.
pub(super) fn finish(draft: &mut Draft) {
    let said = std::mem::take(&mut draft.proxies);
    let first = said.first().and_then(|(_, networks)| networks.clone());
    match first.filter(|_| said.iter().all(|(_, networks)| *networks == said[0].1)) {
        Some(networks) => {
            draft.key("trusted_proxies", list(&networks));
            let fields = said.into_iter().flat_map(|(lines, _)| lines);
            for (line, text) in fields.filter(|(_, text)| text == "real_ip_header proxy_protocol") {
                let why = "`trusted_proxies` are believed in `X-Forwarded-For` as well, of which nginx believes nothing then: \
                           leave clients out of these networks";
                draft.lose(line, format!("`{text}`: {why}"));
            }
        }
        None => {
            for (line, text) in said.into_iter().flat_map(|(lines, _)| lines) {
                let why = "proxies are believed in `X-Forwarded-For`, by their networks, and for all sites (`trusted_proxies`)";
                draft.lose(line, format!("`{text}`: {why}"));
            }
        }
    }
}
