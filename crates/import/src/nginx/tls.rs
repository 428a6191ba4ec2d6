//! TLS of nginx: certificates of servers, and the rest of `ssl_…` as far as it has a meaning here.
//!
//! Owns: the keys of a site about TLS. Guarantees: a server that speaks TLS and whose certificate is not carried over
//! is not listened for in plain HTTP at that address.

use lamna_config::render::quoted;

use super::listen::Listen;
use super::syntax::Directive;
use crate::{DENIED_PRIORITY, DENIED_WORDS, Draft, Route, Site, denied};

/// The directives of blocks about TLS.
#[derive(Clone, Debug, Default)]
pub(super) struct Tls {
    certificate: Option<(usize, String)>,
    key: Option<(usize, String)>,
    client_ca: Option<String>,
    /// `ssl_verify_client`.
    verify: Option<(usize, String)>,
    /// How certificates are found that are no longer good: line and text.
    revoked: Option<(usize, String)>,
}

impl Tls {
    /// Takes over what is about the certificate. False if it is something else.
    pub(super) fn take(&mut self, directive: &Directive) -> bool {
        let value = directive.argument(0).to_owned();
        match &*directive.name {
            "ssl_certificate" if !value.contains('$') => self.certificate = Some((directive.line, value)),
            "ssl_certificate_key" if !value.contains('$') => self.key = Some((directive.line, value)),
            "ssl_client_certificate" => self.client_ca = Some(value),
            "ssl_crl" => self.revoked = Some((directive.line, directive.text())),
            "ssl_ocsp" if value == "off" => {}
            "ssl_ocsp" => self.revoked = self.revoked.take().or(Some((directive.line, directive.text()))),
            "ssl_verify_client" => self.verify = Some((directive.line, value)),
            _ => return false,
        }
        true
    }

    /// Gives the site its certificate, and the server its addresses.
    pub(super) fn settle(&self, listens: &[Listen], site: &mut Site, draft: &mut Draft) {
        let has_tls = listens.iter().any(|one| one.has_tls);
        let pair = self.certificate.as_ref().zip(self.key.as_ref()).filter(|_| has_tls);
        for one in listens {
            match (one.has_tls, pair) {
                (true, None) => {
                    let why = "TLS takes `ssl_certificate` and `ssl_certificate_key`";
                    draft.lose(one.line, format!("`{}`: {why}", one.text));
                }
                (is_tls, _) => draft.listen(one.line, one.address.clone(), !is_tls),
            }
            let Some(entry) = draft.entries.get_mut(&one.address) else { continue };
            if !one.has_tls && pair.is_some() {
                entry.clear.push((site.line, one.line, one.text.clone()));
            }
            entry.proxy_protocol = entry.proxy_protocol.or(one.has_proxy_header.then_some(one.line));
            entry.backlog = entry.backlog.max(one.backlog);
        }
        let Some((certificate, key)) = pair else {
            let unused = [("ssl_certificate", &self.certificate), ("ssl_certificate_key", &self.key)];
            for (name, file) in unused.into_iter().filter_map(|(name, file)| Some((name, file.as_ref()?))) {
                if has_tls {
                    draft.lose(file.0, format!("`{name} {}`: it takes both files", file.1));
                }
            }
            return;
        };
        for (name, (line, file)) in [("certificate", certificate), ("key", key)] {
            if !file.starts_with('/') {
                let why = "it is beneath the directory of nginx there, and beside this file here";
                draft.lose(*line, format!("`{file}`: {why}"));
            }
            site.keys.push((name, quoted(file)));
        }
        self.settle_clients(site, draft);
    }

    /// Settles which clients have to show a certificate.
    fn settle_clients(&self, site: &mut Site, draft: &mut Draft) {
        let Some((line, verify)) = &self.verify else { return };
        match (&**verify, &self.client_ca) {
            // A client with a certificate that no authority has signed is let in there as well.
            ("off" | "optional_no_ca", _) => {}
            ("on" | "optional", Some(file)) => {
                site.keys.push(("client_ca", quoted(file)));
                if verify == "optional" {
                    site.keys.push(("client_certificates", quoted("optional")));
                }
                if let Some((line, text)) = &self.revoked {
                    let why = "a certificate that is no longer good would be let in";
                    draft.lose(*line, format!("`{text}`: {why}; {DENIED_WORDS}"));
                    deny_all(*line, site);
                }
            }
            _ => {
                let why = "clients are not asked for certificates without `ssl_client_certificate`";
                draft.lose(*line, format!("`ssl_verify_client {verify}`: {why}; {DENIED_WORDS}"));
                deny_all(*line, site);
            }
        }
    }
}

fn deny_all(line: usize, site: &mut Site) {
    let keys = [("match", quoted("*")), ("priority", DENIED_PRIORITY.to_owned())];
    site.routes.push(Route { line, keys: keys.into_iter().chain(denied()).collect() });
}

/// Whether a directive asks for the behaviour here, and needs no note.
pub(super) fn is_needless(directive: &Directive) -> bool {
    match &*directive.name {
        "ssl_prefer_server_ciphers"
        | "ssl_session_cache"
        | "ssl_session_timeout"
        | "ssl_session_tickets"
        | "ssl_buffer_size"
        | "ssl_dhparam"
        | "ssl_early_data" => true,
        "ssl_protocols" => {
            let spoken = ["TLSv1.2", "TLSv1.3"];
            directive.arguments.len() == spoken.len() && directive.arguments.iter().all(|one| spoken.contains(&&**one))
        }
        // A server without it would not speak TLS here either.
        "ssl" => directive.argument(0) == "off",
        _ => false,
    }
}

/// Why the rest is not carried over.
pub(super) fn lost_words(name: &str) -> &'static str {
    match name {
        "ssl_protocols" => "TLS 1.2 and 1.3 are spoken",
        "ssl_ciphers" | "ssl_ecdh_curve" | "ssl_conf_command" => {
            "suites and groups cannot be chosen: those of TLS 1.3, and of 1.2 those with forward secrecy and AEAD, are offered"
        }
        name if name.starts_with("ssl_stapling") => "answers of OCSP are not stapled",
        _ => "Lamna has nothing like it",
    }
}

/// Whether this is `if ($host = …) { return 301 https://$host$request_uri; }`, as certbot writes it.
pub(super) fn is_redirect_to_itself(directive: &Directive) -> bool {
    let condition = directive.arguments.concat();
    let is_host = condition.starts_with("($host=") && condition.ends_with(')');
    let inner = directive.block.as_deref().unwrap_or_default();
    directive.name == "if"
        && is_host
        && matches!(inner, [only] if only.name == "return" && only.arguments == ["301", "https://$host$request_uri"])
}
