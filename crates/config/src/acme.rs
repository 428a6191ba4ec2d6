//! Where certificates of sites with `tls = "auto"` are ordered, and for which names that can be done.
//!
//! Owns: the settings, their default, and what can be said of a name or an address without asking anybody. Does not
//! order anything.

use std::net::IpAddr;
use std::path::PathBuf;

/// The certificate authority that is asked unless another is named: Let's Encrypt.
pub const DIRECTORY: &str = "https://acme-v02.api.letsencrypt.org/directory";

/// How certificates are ordered (RFC 8555).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcmeSettings {
    /// The directory of the certificate authority, an `https` URL.
    pub directory: String,
    /// An e-mail address that the certificate authority may write to.
    pub contact: Option<String>,
    /// One of the profiles that the certificate authority offers; none for its default.
    pub profile: Option<String>,
    /// Certificates in PEM that the certificate authority's own server is trusted by; none for those of the system.
    pub roots: Option<PathBuf>,
}

impl Default for AcmeSettings {
    fn default() -> Self {
        AcmeSettings { directory: DIRECTORY.to_owned(), contact: None, profile: None, roots: None }
    }
}

/// Whether a certificate for `host` can be ordered with the challenges that a server answers by itself.
///
/// # Errors
/// Why not, in words that follow the name.
pub fn check_name(host: &str) -> Result<(), &'static str> {
    if host.starts_with("*.") {
        return Err("is a pattern, for which a certificate takes a challenge in DNS: name each host, or give a \
                    certificate and a key");
    }
    if host.starts_with('[') || host.parse::<IpAddr>().is_ok() {
        return Err("is an address: certificates are ordered for names");
    }
    let labels: Vec<&str> = host.split('.').collect();
    let is_label = |label: &&str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    match labels.len() > 1 && host.len() <= 253 && labels.iter().all(is_label) {
        true => Ok(()),
        false => Err("is not a name of which certificates are issued: expected one as in www.example.org"),
    }
}

/// Whether `url` can be the directory of a certificate authority.
///
/// # Errors
/// The expected form, in words that follow the text.
pub fn check_directory_url(url: &str) -> Result<(), &'static str> {
    let rest = url.strip_prefix("https://").unwrap_or_default();
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    match !host.is_empty() && url.bytes().all(|byte| byte.is_ascii_graphic()) && !host.contains('@') {
        true => Ok(()),
        false => Err("is not the directory of a certificate authority: expected an https URL, as in \
                      https://acme-v02.api.letsencrypt.org/directory"),
    }
}

/// Whether `text` can be the address of a contact.
///
/// # Errors
/// The expected form, in words that follow the text.
pub fn check_contact(text: &str) -> Result<(), &'static str> {
    let is_part = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_graphic());
    match text.split_once('@') {
        Some((local, domain)) if is_part(local) && is_part(domain) && !domain.contains('@') => Ok(()),
        _ => Err("is not an e-mail address: expected one as in webmaster@example.org"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::settings::SiteTls;
    use super::super::{Overrides, load};
    use super::*;
    use tempfile::TempDir;

    /// A directory with `site/` and the text as `lamna.toml`.
    fn directory_with(text: &str) -> TempDir {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("site")).unwrap();
        std::fs::write(directory.path().join("lamna.toml"), text).unwrap();
        directory
    }

    #[test]
    fn certificates_are_ordered_for_names_and_for_nothing_else() {
        for name in ["example.org", "www.example.org", "xn--bcher-kva.example", "a.b.c.test"] {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
        let long = format!("{}example.org", "a.".repeat(125));
        for other in ["*.example.org", "192.0.2.1", "[2001:db8::1]", "localhost", "a_b.example.org", "-a.org", &long] {
            assert!(check_name(other).is_err(), "{other}");
        }
    }

    #[test]
    fn a_directory_is_an_https_url_and_a_contact_an_address() {
        assert_eq!(check_directory_url(DIRECTORY), Ok(()));
        assert_eq!(check_directory_url("https://127.0.0.1:14000/dir"), Ok(()));
        for url in ["http://ca.example/dir", "https://", "https:///dir", "ca.example", "https://a b/", "https://a@b/"] {
            assert!(check_directory_url(url).is_err(), "{url}");
        }
        assert_eq!(check_contact("a@example.org"), Ok(()));
        for text in ["a", "@example.org", "a@", "a b@example.org", "a@b@c", "mailto:a"] {
            assert!(check_contact(text).is_err(), "{text}");
        }
    }

    #[test]
    fn domains_are_the_hosts_of_a_directory_that_everybody_reaches() {
        let directory = directory_with("workers = 2\n");
        let domains = ["a.test", "b.test", "a.test"].map(str::to_owned).to_vec();
        let overrides = Overrides { directory: Some(directory.path().join("site")), domains, ..Overrides::default() };
        let settings = load(None, &overrides).unwrap();
        assert_eq!(settings.automatic_names(), ["a.test", "b.test"]);
        assert_eq!((&settings.sites[0].tls, settings.sites[0].browse), (&Some(SiteTls::Auto), false));
        let listen: Vec<String> = settings.listen.iter().map(|one| one.at.to_string()).collect();
        assert_eq!(listen, [":443", ":80"]);
        let chosen = Overrides { listen: vec!["127.0.0.1:8443".parse().unwrap()], ..overrides.clone() };
        assert_eq!(load(None, &chosen).unwrap().listen, ["127.0.0.1:8443".parse().unwrap()]);
        // The sites of a file have their own hosts.
        let with = directory_with("[[site]]\nroot = \"site\"\n");
        let error =
            load(Some(&with.path().join("lamna.toml")), &Overrides { directory: None, ..overrides }).unwrap_err();
        assert!(error.to_string().contains("--domain names the hosts of a directory"), "{error}");
    }

    #[test]
    fn certificates_are_ordered_for_names_from_whom_the_file_says() {
        let directory = directory_with(
            "acme_directory = \"https://ca.test/dir\"\nacme_contact = \"a@b.test\"\nacme_profile = \"short\"\nacme_roots = \"ca.pem\"\n\
             [[site]]\nroot = \"site\"\nhosts = [\"A.test\"]\ntls = \"auto\"\n",
        );
        let settings = load(Some(&directory.path().join("lamna.toml")), &Overrides::default()).unwrap();
        assert_eq!(settings.automatic_names(), ["a.test"]);
        let expected = AcmeSettings {
            directory: "https://ca.test/dir".into(),
            contact: Some("a@b.test".into()),
            profile: Some("short".into()),
            roots: Some(directory.path().canonicalize().unwrap().join("ca.pem")),
        };
        assert_eq!(settings.acme, expected);
        for (lines, expected) in [
            ("[[site]]\nroot = \"site\"\ntls = \"auto\"", "this site has no `hosts`"),
            ("[[site]]\nroot = \"site\"\ntls = \"auto\"\nhosts = [\"*.a.test\"]", "takes a challenge in DNS"),
            ("[[site]]\nroot = \"site\"\ntls = \"auto\"\nhosts = [\"192.0.2.1\"]", "is an address"),
            ("acme_directory = \"http://ca.test\"\n[[site]]\nroot = \"site\"", "expected an https URL"),
            ("acme_contact = \"me\"\n[[site]]\nroot = \"site\"", "is not an e-mail address"),
        ] {
            let directory = directory_with(lines);
            let error =
                load(Some(&directory.path().join("lamna.toml")), &Overrides::default()).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn half_a_pair_is_said() {
        for (keys, expected) in [
            ("certificate = \"a\"", "a `certificate` needs its `key`"),
            ("key = \"a\"", "a `key` needs its `certificate`"),
            ("client_ca = \"a\"", "a `client_ca` needs a `certificate` and a `key`"),
            ("tls = \"on\"", "expected \"auto\" or \"local\""),
            ("tls = \"local\"\ncertificate = \"a\"\nkey = \"b\"", "leave one of them out"),
        ] {
            let directory = directory_with(&format!("[[site]]\nroot = \"site\"\n{keys}\n"));
            let error =
                load(Some(&directory.path().join("lamna.toml")), &Overrides::default()).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
