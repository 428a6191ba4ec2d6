//! Whether two configurations let the same clients in.
//!
//! Owns: the comparison. Rows of settings, sites and routes say which of them decide about that: hosts, certificates,
//! accounts, trusted proxies, and rules of access and of changes. Does not look at content: the answer to a client that
//! is let in may be another one.

use crate::route;
use crate::setting::SETTINGS;
use crate::settings::Settings;
use crate::site;

/// Whether a client that `before` lets in for a request is let in by `after` as well, and the other way round, as far
/// as settings tell: of one site the same settings have to be there.
pub fn is_the_same(before: &Settings, after: &Settings) -> bool {
    let mut settings = SETTINGS.iter().filter(|setting| setting.admits);
    let mut pairs = before.sites.iter().zip(&after.sites);
    before.sites.len() == after.sites.len()
        && settings.all(|setting| setting.values(before) == setting.values(after))
        && pairs
            .all(|(one, other)| site::admit_the_same(one, other) && route::admit_the_same(&one.routes, &other.routes))
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
