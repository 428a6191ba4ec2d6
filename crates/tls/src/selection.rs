//! Which certificate a name gets, of those of all sites.
//!
//! Owns: [`Selection`], by which the server chooses for a handshake, and [`ConfiguredCertificates`], by which it is
//! known without keys what would be chosen. Guarantees: a name that no site has gets no certificate, and never that of
//! another site. Reads no key.

use std::collections::{HashMap, HashSet};

use lamna_config::settings::{Settings, SiteTls};

use super::alert::{Alert, Failure};
use super::certificates::{self, PairError};
use super::local_ca;

/// Certificates by name, as they are found for a handshake.
#[derive(Debug)]
pub(crate) struct Selection<C> {
    exact: HashMap<String, Option<C>>,
    /// Certificates of wildcard names, by the part behind the asterisk and the dot.
    patterns: HashMap<String, Option<C>>,
    /// That of the site that has every other name.
    any: Option<C>,
    /// For clients that ask for no name.
    first: Option<C>,
    /// Names whose certificates are ordered. There may be none yet.
    ordered: HashSet<String>,
}

/// The certificate for a name.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Choice<'a, C> {
    /// None: no site with a certificate has the name, or its certificate is not there yet.
    Nothing,
    /// This one.
    Certificate(&'a C),
    /// This one of a site for every name, if it covers this name.
    IfItCovers(&'a C, String),
}

/// A name that a client has made up, as it can be shown.
fn printable(name: &str) -> String {
    name.chars().take(255).map(|character| if character.is_ascii_graphic() { character } else { '?' }).collect()
}

impl<'a, C> Choice<'a, C> {
    fn of(certificate: Option<&'a C>) -> Choice<'a, C> {
        certificate.map_or(Choice::Nothing, Choice::Certificate)
    }
}

impl<C> Default for Selection<C> {
    fn default() -> Selection<C> {
        Selection { exact: HashMap::new(), patterns: HashMap::new(), any: None, first: None, ordered: HashSet::new() }
    }
}

impl<C: Clone> Selection<C> {
    /// Adds a site with these hosts, and its certificate if it has one. It may be ordered.
    pub(crate) fn add(&mut self, hosts: &[String], certificate: Option<&C>, is_ordered: bool) {
        if self.first.is_none() {
            self.first = certificate.cloned();
        }
        if is_ordered {
            self.ordered.extend(hosts.iter().cloned());
        }
        if hosts.is_empty() && self.any.is_none() {
            self.any = certificate.cloned();
        }
        for host in hosts {
            match host.strip_prefix("*.") {
                Some(parent) => self.patterns.insert(parent.to_owned(), certificate.cloned()),
                None => self.exact.insert(host.clone(), certificate.cloned()),
            };
        }
    }
}

impl<C> Selection<C> {
    /// Whether the certificate of `name` is ordered.
    pub(crate) fn orders(&self, name: &str) -> bool {
        self.ordered.contains(&name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase())
    }

    /// The certificate for a client that asks for `name`.
    pub(crate) fn choose(&self, name: Option<&str>) -> Choice<'_, C> {
        let Some(name) = name else { return Choice::of(self.first.as_ref()) };
        let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
        if let Some(certificate) = self.exact.get(&name) {
            return Choice::of(certificate.as_ref());
        }
        let parents = name.match_indices('.').map(|(at, _)| &name[at + 1..]);
        for parent in parents {
            if let Some(certificate) = self.patterns.get(parent) {
                return Choice::of(certificate.as_ref());
            }
        }
        // A site for every name answers for those that its certificate has.
        self.any.as_ref().map_or(Choice::Nothing, |any| Choice::IfItCovers(any, name))
    }

    /// Why a client that asks for `name` gets no certificate.
    pub(crate) fn refusal(&self, name: Option<&str>) -> Failure {
        let shown = name.map(printable);
        let is_ordered = name.is_some_and(|name| self.orders(name));
        match (shown, is_ordered) {
            (Some(name), true) => Failure {
                alert: Some(Alert::InternalError),
                words: format!("the first certificate of {name} has not been issued yet"),
            },
            (Some(name), false) => Failure {
                alert: Some(Alert::UnrecognizedName),
                words: format!("no site with a certificate has the name {name}"),
            },
            (None, _) => Failure::of(Alert::UnrecognizedName),
        }
    }
}

/// The certificates that a configuration gives to names, where no server has loaded them. Those that are ordered count
/// as there.
#[derive(Debug)]
pub struct ConfiguredCertificates {
    selection: Selection<SiteTls>,
    /// The names for which the local authority signs.
    local_names: Vec<String>,
}

impl ConfiguredCertificates {
    /// Those of `settings`.
    pub fn of(settings: &Settings) -> ConfiguredCertificates {
        let mut selection = Selection::default();
        for site in &settings.sites {
            let is_ordered = site.tls == Some(SiteTls::Auto);
            selection.add(&site.hosts, site.tls.as_ref(), is_ordered);
        }
        ConfiguredCertificates { selection, local_names: local_ca::names_for(settings) }
    }

    /// [`SiteTls::identity`] of the certificate for a client that asks for `name`, or why its handshake ends.
    ///
    /// # Errors
    /// The certificate that decides cannot be read.
    pub fn choose(&self, name: Option<&str>) -> Result<Result<u64, Failure>, PairError> {
        let chosen = match self.selection.choose(name) {
            Choice::Nothing => None,
            Choice::Certificate(tls) => Some(tls),
            Choice::IfItCovers(tls, name) => self.covers(tls, &name)?.then_some(tls),
        };
        Ok(chosen.map(SiteTls::identity).ok_or_else(|| self.selection.refusal(name)))
    }

    fn covers(&self, tls: &SiteTls, name: &str) -> Result<bool, PairError> {
        Ok(match tls {
            SiteTls::Files(files) => certificates::covers(&certificates::chain(&files.certificate)?, name),
            SiteTls::Local => self.local_names.iter().any(|local| local == name),
            // It is ordered for hosts, and this site has none.
            SiteTls::Auto => false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selection() -> Selection<u8> {
        let mut selection = Selection::default();
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        selection.add(&names(&["plain.test", "below.wild.test"]), None, false);
        selection.add(&names(&["a.test", "*.wild.test"]), Some(&1), false);
        selection.add(&names(&["new.test"]), None, true);
        selection.add(&[], Some(&2), false);
        selection
    }

    #[test]
    fn a_name_gets_the_certificate_of_its_site_and_of_no_other() {
        let selection = selection();
        for (name, number) in
            [(None, 1), (Some("a.test"), 1), (Some("A.TEST."), 1), (Some("x.wild.test"), 1), (Some("x.y.wild.test"), 1)]
        {
            assert_eq!(selection.choose(name), Choice::Certificate(&number), "{name:?}");
        }
        for name in ["plain.test", "below.wild.test", "new.test"] {
            assert_eq!(selection.choose(Some(name)), Choice::Nothing, "{name}");
        }
        assert_eq!(selection.choose(Some("Other.test.")), Choice::IfItCovers(&2, "other.test".to_owned()));
    }

    #[test]
    fn a_name_without_a_certificate_is_told_whether_it_is_to_get_one() {
        let alert = |name| selection().refusal(name).alert;
        assert_eq!(alert(Some("plain.test")), Some(Alert::UnrecognizedName));
        assert_eq!(alert(Some("New.test.")), Some(Alert::InternalError));
        assert_eq!(alert(None), Some(Alert::UnrecognizedName));
    }
}
