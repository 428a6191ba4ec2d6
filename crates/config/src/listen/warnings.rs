//! Warnings about where the server listens: what its sites are there, and who reaches them.
//!
//! Owns: these sentences. Guarantees: without `listen` nothing is said, because it is not known yet where the server
//! listens; what a service manager passes is not looked at.

use super::{ListenRules, ListenSettings, PLAIN_PORT};
use crate::access::{ACTIONS, Allowed};
use crate::address::ListenAddress;
use crate::settings::{ListenAt, Settings, SiteSettings};

/// The port of https (RFC 9110 4.2.2).
const HTTPS_PORT: u16 = 443;

/// Warnings that no site is in. One line each.
pub(crate) fn of_server(settings: &Settings) -> Vec<String> {
    settings.listen.iter().filter_map(|one| of_port(one, settings)).chain(unnamed_proxies(settings)).collect()
}

/// Warnings about a site that is called `name`.
pub(crate) fn of_site(name: &str, site: &SiteSettings, settings: &Settings) -> Vec<String> {
    out_of_reach(name, site, settings).into_iter().chain(open_changes(name, site, settings)).collect()
}

/// All addresses, and what is done there.
fn rules(settings: &Settings) -> impl Iterator<Item = (ListenAddress, ListenRules)> {
    settings.listen.iter().flat_map(|one| one.rules(settings))
}

fn speaks_tls(rules: &ListenRules, settings: &Settings) -> bool {
    rules.tls && settings.speak_tls()
}

/// A contradiction between what an entry says of TLS, its port and its `redirect`.
fn of_port(one: &ListenSettings, settings: &Settings) -> Option<String> {
    let (_, rules) = one.rules(settings).into_iter().next()?;
    let at = &one.at;
    if speaks_tls(&rules, settings) {
        return (one.redirect == Some(true)).then(|| {
            format!(
                "{at} speaks TLS, and `redirect` leads from there to https, which would be a circle: nothing is redirected \
                 there; say `tls = false` to have it lead to another address"
            )
        });
    }
    if at.port() != Some(HTTPS_PORT) {
        return None;
    }
    Some(match settings.speak_tls() && rules.redirect {
        true => format!(
            "{at} is the port of https, does not speak TLS, and leads requests to https: a circle; say `tls = true`, or \
             `redirect = false` if a proxy in front speaks TLS"
        ),
        false => format!(
            "{at} is the port of https, and TLS is not spoken there: browsers get no answer; give a site `tls`, or \
             `certificate` and `key`, or listen at port {PLAIN_PORT}"
        ),
    })
}

/// Addresses of `proxy_protocol` at which the server does not listen.
fn unnamed_proxies(settings: &Settings) -> Vec<String> {
    let is_there = |named: &ListenAt| rules(settings).any(|(address, _)| named.means(&address));
    let is_nowhere = |named: &&ListenAt| !settings.listen.is_empty() && !is_there(named);
    let nowhere = settings.proxy_protocol.iter().filter(is_nowhere);
    nowhere
        .map(|address| format!("`proxy_protocol` names {address}, and `listen` does not: it has no effect"))
        .collect()
}

/// A site that no client can reach: one without a certificate where every address speaks TLS, or one with a certificate
/// where none does.
fn out_of_reach(name: &str, site: &SiteSettings, settings: &Settings) -> Option<String> {
    if settings.listen.is_empty() || !settings.speak_tls() {
        return None;
    }
    if site.tls.is_none() {
        let is_reached = rules(settings).any(|(_, rules)| !rules.tls);
        return (!is_reached).then(|| {
            format!(
                "{name} has no certificate, and every address speaks TLS, because another site has one: no client reaches it; \
                 give it `tls`, or `certificate` and `key`, or an address `tls = false`"
            )
        });
    }
    let serves = |(address, rules): (ListenAddress, ListenRules)| {
        rules.tls || !rules.redirect || matches!(address, ListenAddress::Unix(_))
    };
    // A trusted proxy may say that its client speaks TLS with it.
    let is_reached = rules(settings).any(serves) || !settings.proxies.is_empty();
    (!is_reached).then(|| {
        format!(
            "{name} has a certificate, and no address speaks TLS: its clients are led to https, where this server does not \
             answer; listen at port {HTTPS_PORT} as well, or say `tls = true` or `redirect = false` for an address"
        )
    })
}

/// Changes that every client of a network may make.
fn open_changes(name: &str, site: &SiteSettings, settings: &Settings) -> Option<String> {
    let open = settings.listen.iter().find(|one| one.at.is_open())?;
    let of_site = [site.upload, site.delete, site.mkdir];
    let mounts = site.webdav || site.routes.iter().any(|route| route.webdav == Some(true));
    let mut actions = Vec::new();
    for (place, action) in ACTIONS.iter().enumerate().skip(1) {
        let is_restricted = |rules: &crate::access::AccessRules| matches!(rules.0[place], Some(Allowed::Only(_)));
        let of_route = |route: &crate::route::RouteSettings| [route.upload, route.delete, route.mkdir][place - 1];
        let is_opened = site.routes.iter().any(|route| {
            let may = of_route(route) == Some(true) || of_site[place - 1] && of_route(route).is_none();
            let is_anyone = matches!(route.access.0[place], Some(Allowed::Anyone));
            let says_nothing = route.access.0[place].is_none() && !is_restricted(&site.access);
            may && (is_anyone || of_route(route) == Some(true) && says_nothing)
        });
        if is_opened || of_site[place - 1] && !is_restricted(&site.access) {
            actions.push(*action);
        }
    }
    (!actions.is_empty()).then(|| {
        format!(
            "{name} lets every client {} without a password, and other machines reach it at {}: say who may, as in \
             access = {{ actions = [{}], users = [\"*\"] }}, or listen at 127.0.0.1",
            actions.iter().map(|action| words(action, mounts)).collect::<Vec<_>>().join(", "),
            open.at,
            actions.iter().map(|action| format!("\"{action}\"")).collect::<Vec<_>>().join(", "),
        )
    })
}

fn words(action: &str, mounts: bool) -> &'static str {
    match action {
        "upload" => "upload files",
        "delete" if mounts => "delete files and whole folders",
        "delete" => "delete files",
        _ => "make folders",
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::{parse_unseen, warnings};

    /// The warnings about a site with these lines, at addresses by this value of `listen`.
    fn said(listen: &str, site: &str) -> Vec<String> {
        let text = format!("listen = {listen}\n[[site]]\n{site}\n");
        let settings = parse_unseen(&text, Path::new("/nonexistent/a.toml")).expect(&text);
        warnings(&settings).into_iter().filter(|line| !line.contains("read")).collect()
    }

    const TLS: &str = "root = \"/nonexistent\"\ntls = \"local\"";
    const PLAIN: &str = "root = \"/nonexistent\"";

    fn has(listen: &str, site: &str, words: &str) {
        let said = said(listen, site);
        assert!(said.len() == 1 && said[0].contains(words), "{listen} {site}: {said:?}");
    }

    #[test]
    fn addresses_that_are_right_have_no_warning() {
        for (listen, site) in [
            ("[\"443\", \"80\"]", TLS),
            ("[{ address = \"8443\", tls = true }, { address = \"8080\", tls = false }]", TLS),
            ("[{ address = \"80\", redirect = false }]", TLS),
            ("[\"unix:/s\"]", TLS),
            (
                "[{ address = \"443\", redirect = false, tls = false }, \"8443\"]",
                "root = \"/nonexistent\"\n[[site]]\nhosts = [\"a.test\"]\nroot = \"/nonexistent\"",
            ),
            ("[\"80\"]", PLAIN),
            ("[]", "root = \"/nonexistent\"\nupload = true"),
            ("[\"localhost:8080\"]", "root = \"/nonexistent\"\nupload = true\ndelete = true"),
        ] {
            let said = said(listen, site);
            // Port 443 in clear text is said whatever it is for.
            let others =
                said.iter().filter(|line| !listen.contains("redirect = false, tls") || !line.contains("port of https"));
            assert_eq!(others.count(), 0, "{listen} {site}: {said:?}");
        }
    }

    #[test]
    fn the_port_of_https_without_tls_is_said() {
        has("[\"443\", \"80\"]", PLAIN, ":443 is the port of https, and TLS is not spoken there");
        has("[\"127.0.0.1:443\"]", PLAIN, "127.0.0.1:443 is the port of https");
    }

    #[test]
    fn a_redirect_to_itself_is_said() {
        has("[{ address = \"443\", redirect = true }, \"80\"]", TLS, "would be a circle");
        has("[{ address = \"443\", tls = false }, \"8443\"]", TLS, "leads requests to https: a circle");
    }

    #[test]
    fn a_site_that_no_address_reaches_is_said() {
        has("[{ address = \"8080\", tls = false }]", TLS, "has a certificate, and no address speaks TLS");
        has("[\"80\"]", TLS, "has a certificate, and no address speaks TLS");
        let two = format!("{PLAIN}\n[[site]]\nhosts = [\"a.test\"]\n{TLS}");
        has("[\"443\"]", &two, "site 1 has no certificate, and every address speaks TLS");
        has("[{ address = \"80\", tls = true }]", &two, "site 1 has no certificate");
    }

    #[test]
    fn changes_for_every_client_of_a_network_are_said() {
        const HASH: &str =
            "$argon2id$v=19$m=64,t=1,p=1$c2FsdHNhbHRzYWx0c2FsdA$kyj4KAQPkDHofxQqmZFrtcrDql5eltyrs3W6/tB5JPs";
        let users = format!("users = {{ ada = \"{HASH}\" }}");
        let restricted = format!("access = {{ actions = [\"upload\"], users = [\"*\"] }}\n{users}");
        has(
            "[\"80\"]",
            &format!("{PLAIN}\nupload = true\ndelete = true"),
            "upload files, delete files without a password",
        );
        let said_of = |lines: &str| {
            said("[\"0.0.0.0:80\"]", &format!("{PLAIN}\n{lines}"))
                .into_iter()
                .find(|line| line.contains("without a password"))
        };
        assert!(said_of(&format!("upload = true\n{restricted}")).is_none());
        assert!(said_of(&format!("delete = true\n{restricted}")).is_some_and(|line| line.contains("delete files")));
        let mounted = said_of("delete = true\nwebdav = true");
        assert!(mounted.is_some_and(|line| line.contains("whole folders without a password")));
        assert!(said_of("webdav = true").is_none());
        let route = |more: &str| format!("route = [{{ match = \"/in/*\", upload = true{more} }}]");
        assert!(said_of(&route("")).is_some_and(|line| line.contains("upload files")));
        assert!(said_of(&format!("{}\n{restricted}", route(""))).is_none());
        let anyone = ", access = { actions = [\"upload\"], anyone = true }";
        assert!(said_of(&format!("{}\n{restricted}", route(anyone))).is_some());
    }
}
