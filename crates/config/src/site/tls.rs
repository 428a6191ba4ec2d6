//! How a site speaks TLS: `certificate`, `key`, `client_ca`, `client_certificates` and `tls`.
//!
//! Owns: the settings as values, and their judgement. Whether the files make a pair is found out when they are loaded.

use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::path::PathBuf;

use super::SiteTable;
use super::row::SiteKey;
use crate::acme::check_name;
use crate::checker::Checker;
use crate::page::{Page, path, quoted};

/// Where the certificate of a site comes from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SiteTls {
    /// From files.
    Files(TlsFiles),
    /// From the certificate authority of this machine, for names that are local.
    Local,
    /// From a certificate authority that is asked for one by ACME, for each host of its own.
    Auto,
}

impl SiteTls {
    /// A number that two sites have in common only if they show the same certificate to the same clients, or both show
    /// one to every client that a certificate authority has issued for the name.
    pub fn identity(&self) -> u64 {
        let mut hasher = std::hash::DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }
}

/// The files that a site speaks TLS with, in PEM.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TlsFiles {
    /// The certificate, followed by those that lead to one that clients know.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// Which certificates of clients are taken; none: clients are not asked for one.
    pub client_ca: Option<ClientCa>,
}

/// Which certificates of clients are taken.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClientCa {
    /// The authorities that sign them, in PEM.
    pub file: PathBuf,
    /// Clients without one are taken as well: `access` says what they may.
    pub is_optional: bool,
}

/// The five keys.
pub(super) struct Tls;

impl SiteKey for Tls {
    type Value = Option<SiteTls>;

    fn judge(given: &SiteTable, at: &Range<usize>, tls: &mut Option<SiteTls>, checker: &mut Checker<'_>) {
        *tls = judge(given, at, checker);
    }

    fn render(tls: &Option<SiteTls>, page: &mut Page) {
        match tls {
            None => {}
            Some(SiteTls::Local) => page.line("tls", quoted("local")),
            Some(SiteTls::Auto) => page.line("tls", quoted("auto")),
            Some(SiteTls::Files(files)) => {
                page.line("certificate", path(&files.certificate));
                page.line("key", path(&files.key));
                if let Some(client_ca) = &files.client_ca {
                    page.line("client_ca", path(&client_ca.file));
                    if client_ca.is_optional {
                        page.line("client_certificates", quoted("optional"));
                    }
                }
            }
        }
    }
}

fn judge(given: &SiteTable, at: &Range<usize>, checker: &mut Checker<'_>) -> Option<SiteTls> {
    let ordered = given.tls.as_ref().map(|tls| {
        let ordered = if tls.get_ref() == "auto" { SiteTls::Auto } else { SiteTls::Local };
        let is_known = ["auto", "local"].contains(&&**tls.get_ref());
        checker.expect(is_known, tls, "is not a way to get a certificate: expected \"auto\" or \"local\"");
        ordered
    });
    if ordered == Some(SiteTls::Auto) {
        if given.hosts.is_empty() && !checker.was_taken("hosts", at) {
            let message = "certificates are ordered for names, and this site has no `hosts`";
            let hint = "name them: hosts = [\"example.org\", \"www.example.org\"]".to_owned();
            checker.problem_with_hint(at.clone(), message, Some(hint));
        }
        for host in &given.hosts {
            if let Err(why) = check_name(&host.get_ref().to_ascii_lowercase()) {
                checker.expect(false, host, why);
            }
        }
    }
    let files = match (&given.certificate, &given.key) {
        (Some(certificate), Some(key)) => {
            let is_optional = client_certificates(given, checker);
            let client_ca = given.client_ca.as_ref().map(|file| ClientCa { file: checker.path(file), is_optional });
            Some(TlsFiles { certificate: checker.path(certificate), key: checker.path(key), client_ca })
        }
        (Some(certificate), None) => {
            checker.problem(certificate.span(), "a `certificate` needs its `key`".to_owned());
            None
        }
        (None, Some(key)) => {
            checker.problem(key.span(), "a `key` needs its `certificate`".to_owned());
            None
        }
        (None, None) => {
            if let Some(client_ca) = &given.client_ca {
                checker.problem(client_ca.span(), "a `client_ca` needs a `certificate` and a `key`".to_owned());
            }
            client_certificates(given, checker);
            None
        }
    };
    if let (Some(tls), Some(_)) = (&given.tls, &files) {
        checker.problem(tls.span(), "this site has a `certificate`: leave one of them out".to_owned());
    }
    files.map(SiteTls::Files).or(ordered)
}

/// Whether clients may come without a certificate.
fn client_certificates(given: &SiteTable, checker: &mut Checker<'_>) -> bool {
    let Some(word) = &given.client_certificates else { return false };
    let is_known = ["required", "optional"].contains(&&**word.get_ref());
    checker.expect(
        is_known,
        word,
        "does not say whether clients need a certificate: expected \"required\" or \"optional\"",
    );
    if given.client_ca.is_none() {
        checker
            .problem(word.span(), "`client_certificates` needs a `client_ca`, which says whose are taken".to_owned());
    }
    word.get_ref() == "optional"
}
