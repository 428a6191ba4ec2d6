//! Whether two configurations let the same clients in.
//!
//! Owns: which settings decide about that. Guarantees: hosts, certificates, accounts, trusted proxies, and rules of access and of changes are among
//! them. Does not look at content: the answer to a client that is let in may be another one.

use crate::route::RouteSettings;
use crate::settings::{Settings, SiteSettings};

/// Whether a client that `before` lets in for a request is let in by `after` as well, and the other way round, as far as settings tell: of one site the
/// same settings have to be there.
pub fn is_the_same(before: &Settings, after: &Settings) -> bool {
    let pairs = || before.sites.iter().zip(&after.sites);
    before.proxies == after.proxies
        && before.sites.len() == after.sites.len()
        && pairs().all(|(one, other)| is_of_same_clients(one, other))
}

fn is_of_same_clients(one: &SiteSettings, other: &SiteSettings) -> bool {
    let keys = |site: &SiteSettings| (site.hosts.clone(), site.tls.clone(), site.access.clone(), site.accounts.clone());
    keys(one) == keys(other) && one.changes() == other.changes() && rules_of(one).eq(rules_of(other))
}

/// The routes that say who may do something, without what else they say.
fn rules_of(site: &SiteSettings) -> impl Iterator<Item = RouteSettings> {
    let says = |route: &&RouteSettings| {
        let changes = [route.upload, route.delete, route.mkdir];
        route.access.0.iter().any(Option::is_some) || changes.iter().any(Option::is_some)
    };
    site.routes.iter().filter(says).map(|route| RouteSettings {
        source: route.source,
        priority: route.priority,
        paths: route.paths.clone(),
        conditions: route.conditions.clone(),
        access: route.access.clone(),
        upload: route.upload,
        delete: route.delete,
        mkdir: route.mkdir,
        ..RouteSettings::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(lines: &str) -> Settings {
        crate::parse_unseen(&format!("[[site]]\nroot = \"/\"\n{lines}"), "/a.toml".as_ref()).unwrap()
    }

    #[test]
    fn rules_of_access_and_of_changes_and_proxies_decide_and_content_does_not() {
        let plain = settings("");
        for lines in
            ["browse = true\n", "headers = { X-A = \"1\" }\n", "route = [{ match = \"/a/*\", immutable = true }]\n"]
        {
            assert!(is_the_same(&plain, &settings(lines)), "{lines}");
        }
        for lines in [
            "hosts = [\"a.test\"]\n",
            "upload = true\n",
            "access = { deny = [\"10.0.0.0/8\"] }\n",
            "route = [{ match = \"/a/*\", access = { deny = [\"10.0.0.0/8\"] } }]\n",
            "route = [{ match = \"/a/*\", delete = true }]\n",
            "[[site]]\nroot = \"/\"\nhosts = [\"b.test\"]\n",
        ] {
            assert!(!is_the_same(&plain, &settings(lines)), "{lines}");
            assert!(is_the_same(&settings(lines), &settings(lines)), "{lines}");
        }
        let behind =
            crate::parse_unseen("trusted_proxies = [\"10.0.0.1\"]\n[[site]]\nroot = \"/\"\n", "/a.toml".as_ref());
        assert!(!is_the_same(&plain, &behind.unwrap()));
    }
}
