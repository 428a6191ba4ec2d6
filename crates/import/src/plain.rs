//! Servers at port 80 that lead to the same with TLS, and answer something beside that: here the site with TLS stands
//! in their place, and port 80 leads to it.
//!
//! Owns: what the site with TLS is given of them, which is what an authority asks for before it issues a certificate
//! (RFC 8555 section 8.3: it follows redirects to port 443), and words for all else. Pure.

use lamna_config::render::quoted;

use crate::{Note, Route, Site};

/// Something that a server that leads to TLS answers itself.
#[derive(Clone, Debug)]
pub(crate) struct Beside {
    pub(crate) line: usize,
    /// The pattern of its paths.
    pub(crate) pattern: String,
}

/// Where an authority looks for what proves who has a name, and others for the like (RFC 8615).
const WELL_KNOWN: &str = "/.well-known/";

/// Beyond the priorities of locations.
const PRIORITY: &str = "95000";

/// Whether a site speaks TLS.
pub(crate) fn has_tls(site: &Site) -> bool {
    site.keys.iter().any(|(key, _)| matches!(*key, "tls" | "certificate"))
}

/// Whether a site answers for `host`: one with TLS that has no names does for all that no other one has.
pub(crate) fn is_for(site: &Site, host: &String) -> bool {
    site.hosts.contains(host) || site.hosts.is_empty() && has_tls(site)
}

/// Leaves `plain` the hosts for which none of `sites` stands in its place. Whether it is not needed any more, and what
/// is not handed on.
pub(crate) fn give_way(plain: &mut Site, sites: &mut [Site]) -> (bool, Vec<Note>) {
    let had_hosts = !plain.hosts.is_empty();
    let stands_for = |site: &Site, host: &String| has_tls(site) && is_for(site, host);
    let hosts = std::mem::take(&mut plain.hosts);
    let (done, own): (Vec<String>, _) =
        hosts.into_iter().partition(|host| sites.iter().any(|site| stands_for(site, host)));
    plain.hosts = own;
    let is_default = |site: &Site| !had_hosts && has_tls(site) && site.hosts.is_empty();
    let is_needless = had_hosts && plain.hosts.is_empty() || sites.iter().any(is_default);
    let stands = |site: &&mut Site| is_default(site) || done.iter().any(|host| stands_for(site, host));
    (is_needless, sites.iter_mut().filter(stands).flat_map(|site| hand_on(plain, site)).collect())
}

/// Gives `site`, which stands in the place of `plain`, what it needs of that, and says what is not handed on.
pub(crate) fn hand_on(plain: &Site, site: &mut Site) -> Vec<Note> {
    let mut notes = Vec::new();
    for one in &plain.beside_tls {
        let matches = quoted(&one.pattern);
        let is_its =
            |route: &&Route| route.line == one.line && route.keys.first().is_some_and(|(_, own)| *own == matches);
        let routes: Vec<&Route> = plain.routes.iter().filter(is_its).collect();
        let well_known = routes.iter().find_map(|route| prefix(route)).filter(|prefix| prefix.starts_with(WELL_KNOWN));
        match well_known {
            Some(prefix) if site.routes.iter().any(|route| self::prefix(route) == Some(prefix)) => {}
            Some(prefix) => {
                site.routes.extend(routes.iter().map(|route| in_place(route, site)).collect::<Vec<_>>());
                let folder = folder(plain, prefix);
                site.aliases.extend(folder.filter(|_| !routes.iter().any(|route| asks(route))));
            }
            None => {
                let why = "everything at this port leads to the same with TLS, and so does this";
                notes.push(Note::new(one.line, format!("`location {}`: {why}", one.pattern)));
            }
        }
    }
    notes
}

/// The beginning of the paths of a route.
fn prefix(route: &Route) -> Option<&str> {
    route.keys.first()?.1.strip_prefix('"')?.strip_suffix("*\"")
}

/// The directory of what is beneath `prefix`.
fn folder(plain: &Site, prefix: &str) -> Option<(String, String)> {
    let slashed = format!("{}/", prefix.trim_end_matches('/'));
    let own = plain.aliases.iter().find(|(other, _)| *other == slashed);
    let root = || {
        let (_, root) = plain.keys.iter().find(|(key, _)| *key == "root")?;
        let root = root.trim_matches('"').trim_end_matches('/');
        Some((slashed.clone(), format!("{root}{slashed}")))
    };
    own.cloned().or_else(root)
}

/// Whether an application answers, or nothing is looked for.
fn asks(route: &Route) -> bool {
    route.keys.iter().any(|(key, value)| {
        matches!(*key, "proxy" | "fastcgi" | "uwsgi" | "scgi" | "respond" | "redirect") && value != "false"
    })
}

/// A route before those of `site`, of which nothing else counts for its paths.
fn in_place(route: &Route, site: &Site) -> Route {
    let mut keys: Vec<(&'static str, String)> =
        route.keys.iter().filter(|(key, _)| *key != "priority").cloned().collect();
    keys.insert(1, ("priority", PRIORITY.to_owned()));
    let of_site = || site.routes.iter().flat_map(|route| &route.keys).chain(&site.keys).map(|(key, _)| *key);
    let says = |keys: &[(&str, String)], named: &[&str]| keys.iter().any(|(key, _)| named.contains(key));
    let nothing: [(&[&'static str], String); 6] = [
        (&["proxy", "fastcgi", "uwsgi", "scgi"], "false".to_owned()),
        (&["redirect"], "false".to_owned()),
        (&["respond"], "false".to_owned()),
        (&["rewrite"], "false".to_owned()),
        (&["try"], "[]".to_owned()),
        (&["access"], quoted("anyone")),
    ];
    let missing =
        nothing.into_iter().filter(|(named, _)| !says(&keys, named) && of_site().any(|key| named.contains(&key)));
    let missing: Vec<(&'static str, String)> = missing.map(|(named, value)| (named[0], value)).collect();
    keys.extend(missing);
    Route { line: route.line, keys }
}

#[cfg(test)]
mod tests {
    use crate::asked::Asked;
    use crate::{Files, nginx};

    const TLS: &str = "server { listen 443 ssl; server_name a.example; ssl_certificate /c; ssl_certificate_key /k; \
                       root /srv; location / { proxy_pass http://app:1; } }";

    fn of(plain: &str, is_first: bool) -> (String, Vec<String>) {
        let files = Files { read: &|_| Err("no such file".into()), list: &|_| Vec::new() };
        let plain = format!("server {{ listen 80; server_name a.example; {plain} }}");
        let (one, two) = if is_first { (&*plain, TLS) } else { (TLS, &*plain) };
        let imported = nginx(&format!("http {{ {one}\n{two} }}"), files).unwrap();
        (imported.text, imported.lost.into_iter().map(|note| note.words).collect())
    }

    #[test]
    fn the_site_with_tls_stands_in_the_place_of_a_server_that_leads_to_it() {
        for is_first in [true, false] {
            let (text, lost) = of(
                "location /health { return 200 ok; } location / { return 301 https://$host$request_uri; }",
                is_first,
            );
            for path in ["/", "/health"] {
                assert_eq!(Asked::of(path).place(&text, "a.example"), "app:1", "{is_first}: {text}");
            }
            assert!(text.contains("certificate = \"/c\""), "{text}");
            assert!(
                lost.iter().any(|words| words.contains("`location /health") && words.contains("leads")),
                "{lost:?}"
            );
        }
    }

    #[test]
    fn a_site_with_tls_that_has_no_names_stands_in_the_place_of_one_with_names() {
        let files = Files { read: &|_| Err("no such file".into()), list: &|_| Vec::new() };
        let plain = "server { listen 80; server_name a.example; return 301 https://$host$request_uri; }";
        let nameless = TLS.replace("a.example", "_");
        for servers in [format!("{plain}{nameless}"), format!("{nameless}{plain}")] {
            let text = nginx(&servers, files).unwrap().text;
            for host in ["a.example", "b.example"] {
                assert_eq!(Asked::of("/").place(&text, host), "app:1", "{host}: {text}");
            }
        }
    }

    #[test]
    fn what_an_authority_asks_for_is_where_it_is_led_to() {
        for is_first in [true, false] {
            let (text, _) = of(
                "location /.well-known/acme-challenge/ { root /var/www/certbot; } \
                 location / { return 301 https://$host$request_uri; }",
                is_first,
            );
            let of = |path| Asked::of(path).place(&text, "a.example");
            assert_eq!((&*of("/.well-known/acme-challenge/x"), &*of("/a")), ("nothing", "app:1"), "{text}");
            assert!(text.contains("root = \"/var/www/certbot/.well-known/acme-challenge/\""), "{text}");
            let (text, _) = of_proxied(is_first);
            let of = |path| Asked::of(path).place(&text, "a.example");
            assert_eq!((&*of("/.well-known/acme-challenge/x"), &*of("/a")), ("bot:2", "app:1"), "{text}");
        }
    }

    fn of_proxied(is_first: bool) -> (String, Vec<String>) {
        let challenge = "location ^~ /.well-known/acme-challenge/ { proxy_pass http://bot:2; }";
        of(&format!("{challenge} location / {{ return 301 https://$host$request_uri; }}"), is_first)
    }
}
