//! The handshake before a request that is explained.
//!
//! Owns: the outcome for a client without a certificate of its own. Guarantees: the certificate is chosen by the
//! function by which the TLS endpoint chooses (`lamna_tls::selection`). Speaks no TLS.

use std::net::Ipv4Addr;

use lamna_config::settings::SiteTls;
use lamna_site::content::admission::Demand;
use lamna_site::content::explain::{Asked, Scheme};
use lamna_site::content::site::Site;
use lamna_tls::alert::Alert;
use lamna_tls::record::Version;
use lamna_tls::{Alpn, Failure, Negotiated};

use super::Explainer;

/// The outcome of what comes before a request.
pub(super) enum Handshake {
    /// None takes place: the request comes in clear text.
    None,
    /// It ends before there is a request, with these words.
    Ends(String),
    /// It is done.
    Done(Box<Negotiated>),
}

impl Explainer {
    /// The handshake of a client without a certificate of its own, before it asks for what is `asked` of `site`.
    ///
    /// # Errors
    /// It cannot be found out here: why, in words.
    pub(super) fn handshake(&self, asked: &Asked, site: &Site) -> Result<Handshake, String> {
        let identity = match asked.scheme {
            Some(Scheme::Http) => None,
            // Where no site has a certificate, a proxy in front of the server has.
            Some(Scheme::Https) if self.settings.speak_tls() => match self.chosen(asked)? {
                Ok(identity) => Some(identity),
                Err(failure) => return Ok(Handshake::Ends(told(&failure))),
            },
            _ => site.settings.tls.as_ref().map(SiteTls::identity),
        };
        let Some(identity) = identity else { return Ok(Handshake::None) };
        let is_shown = |tls: &&SiteTls| tls.identity() == identity;
        let shown = self.settings.sites.iter().filter_map(|site| site.tls.as_ref()).find(is_shown);
        let asks_clients = match Demand::of(shown) {
            Demand::Client { may_lack: false, .. } => {
                let why = "clients have to show a certificate: the handshake ends with the alert certificate_required";
                return Ok(Handshake::Ends(why.to_owned()));
            }
            Demand::Client { .. } => true,
            Demand::Certificate(_) | Demand::Nothing => false,
        };
        let authorities = self.shared.tls.as_ref().and_then(|endpoint| endpoint.authorities(identity));
        if asks_clients && authorities.is_none() {
            return Err(format!(
                "{} asks clients for certificates, and its own cannot be read here: `lamna ctl explain` asks the server",
                site.label()
            ));
        }
        Ok(Handshake::Done(Box::new(Negotiated {
            version: Version::V13,
            identity,
            name: None,
            is_resumed: false,
            suite: None,
            group: None,
            alpn: Alpn::Http1,
            authorities,
            client: None,
        })))
    }

    /// The certificate that a client of the host is shown, or why it is shown none.
    ///
    /// # Errors
    /// It cannot be found out here: why, in words.
    fn chosen(&self, asked: &Asked) -> Result<Result<u64, Failure>, String> {
        // Addresses are no server names (RFC 6066 3).
        let name = asked.host_name()?.filter(|host| !host.starts_with('[') && host.parse::<Ipv4Addr>().is_err());
        match &self.endpoint {
            Some(endpoint) => Ok(endpoint.choose(name).map(|one| one.identity).ok_or_else(|| endpoint.refusal(name))),
            None => self.certificates.choose(name).map_err(|error| error.to_string()),
        }
    }
}

/// The words for the end of a handshake.
fn told(failure: &Failure) -> String {
    let alert = failure.alert.map_or("close_notify", Alert::name);
    format!("{failure}: the handshake ends with the alert {alert}")
}
