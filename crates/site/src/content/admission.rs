//! Whether a site may answer at all over the connection that a request has come by.
//!
//! Owns: [`admit`], which is asked for every request of every version before anything else of its site is looked at
//! (`worker::context::routing`). Guarantees: there is an answer for every pair of what a site demands and what a
//! connection is, and only [`Admission::Served`] lets in. What a handshake has found out counts as long as it is still
//! true: the certificate that was shown is that of the site, the authorities are those of today, and the client's
//! certificate has not expired. Pure. Does not say who is let in beyond that ([`access`](super::access)).

use lamna_config::settings::{ClientCa, SiteTls, TlsFiles};
use lamna_tls::{Negotiated, Way};

/// The demand of a site on connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demand {
    /// Nothing: it has no certificate.
    Nothing,
    /// That the client was shown this certificate ([`SiteTls::identity`]).
    Certificate(u64),
    /// The same, and that the client's certificate is good.
    Client {
        /// The certificate of the site.
        identity: u64,
        /// Clients without a certificate are served as well.
        may_lack: bool,
    },
}

impl Demand {
    /// That of a site that speaks TLS so.
    pub fn of(tls: Option<&SiteTls>) -> Demand {
        let Some(tls) = tls else { return Demand::Nothing };
        let identity = tls.identity();
        match tls {
            SiteTls::Files(TlsFiles { client_ca: Some(ClientCa { is_optional, .. }), .. }) => {
                Demand::Client { identity, may_lack: *is_optional }
            }
            SiteTls::Files(_) | SiteTls::Local | SiteTls::Auto => Demand::Certificate(identity),
        }
    }
}

/// The outcome for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The site answers it.
    Served,
    /// It is led to the same place over https, or refused. It is served in clear text only where the address says so.
    Led,
    /// It belongs to another connection (421): of the site's own certificate, with a handshake of today.
    Misdirected,
    /// It lacks the certificate of a client, and no other connection of its kind would have one (403).
    Unknown,
}

/// Further facts that the decision depends on.
pub struct AdmissionFacts<H, T> {
    /// Whether a trusted proxy says that its client speaks TLS with it.
    pub says_https: H,
    /// The authorities by which the clients of the site with this certificate are judged now.
    pub authorities: T,
    /// Seconds since 1970.
    pub unix_seconds: u64,
}

/// Decides about a request to a site with this `demand`, which has come in this `way`.
pub fn admit(
    demand: Demand,
    way: Way<'_>,
    facts: AdmissionFacts<impl Fn() -> bool, impl Fn(u64) -> Option<u64>>,
) -> Admission {
    let AdmissionFacts { says_https, authorities, unix_seconds } = facts;
    match (way, demand) {
        (Way::Unsettled, _) | (Way::Secured(_), Demand::Nothing) => Admission::Misdirected,
        (Way::Secured(over), Demand::Certificate(identity)) if over.identity == identity => Admission::Served,
        (Way::Secured(over), Demand::Client { identity, may_lack }) if over.identity == identity => {
            judge(over, may_lack, authorities(identity), unix_seconds)
        }
        (Way::Secured(_), Demand::Certificate(_) | Demand::Client { .. }) => Admission::Misdirected,
        (Way::Clear | Way::Open | Way::Local, Demand::Nothing) => Admission::Served,
        (Way::Clear, Demand::Certificate(_) | Demand::Client { .. }) if !says_https() => Admission::Led,
        (Way::Clear | Way::Open | Way::Local, Demand::Certificate(_) | Demand::Client { may_lack: true, .. }) => {
            Admission::Served
        }
        // The proxy that has spoken TLS with the client has told nothing of its certificate, and in clear text there is
        // none.
        (Way::Clear | Way::Open | Way::Local, Demand::Client { may_lack: false, .. }) => Admission::Unknown,
    }
}

/// Decides about a request over a connection with the site's own certificate, where clients show one.
fn judge(over: &Negotiated, may_lack: bool, authorities: Option<u64>, unix_seconds: u64) -> Admission {
    let now = i64::try_from(unix_seconds).unwrap_or(i64::MAX);
    match &over.client {
        _ if authorities.is_none() || over.authorities != authorities => Admission::Misdirected,
        Some(certificate) if certificate.until < now => Admission::Misdirected,
        Some(_) => Admission::Served,
        None if may_lack => Admission::Served,
        None => Admission::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lamna_tls::record::Version;
    use lamna_tls::{Alpn, ClientCertificate};

    const OWN: u64 = 1;
    const TODAY: u64 = 7;
    const NOW: u64 = 1_000_000;

    fn connections() -> Vec<Negotiated> {
        let certificate = |until| Some(Box::new(ClientCertificate { subject: None, until }));
        let mut all = Vec::new();
        for identity in [OWN, OWN + 1] {
            for authorities in [None, Some(TODAY), Some(TODAY + 1)] {
                for client in [None, certificate(NOW as i64), certificate(NOW as i64 - 1), certificate(0)] {
                    all.push(Negotiated {
                        version: Version::V13,
                        identity,
                        name: None,
                        is_resumed: false,
                        suite: None,
                        group: None,
                        alpn: Alpn::Http1,
                        authorities,
                        client,
                    });
                }
            }
        }
        all
    }

    /// Every pair of what a site demands and what a connection is, held against what the documentation promises, one
    /// promise at a time.
    #[test]
    fn every_pair_has_the_answer_that_was_promised() {
        let connections = connections();
        let ways = connections.iter().map(Way::Secured).chain([Way::Clear, Way::Open, Way::Local, Way::Unsettled]);
        let ways: Vec<Way<'_>> = ways.collect();
        let client = |may_lack| Demand::Client { identity: OWN, may_lack };
        let mut pairs = 0;
        for demand in [Demand::Nothing, Demand::Certificate(OWN), client(true), client(false)] {
            for way in &ways {
                for (says_https, now) in
                    [(false, Some(TODAY)), (true, Some(TODAY)), (false, Some(TODAY + 2)), (false, None)]
                {
                    let facts = AdmissionFacts { says_https: || says_https, authorities: |_| now, unix_seconds: NOW };
                    let admission = admit(demand, *way, facts);
                    let served = admission == Admission::Served;
                    let told = format!("{demand:?} {way:?} {says_https} {now:?}: {admission:?}");
                    match *way {
                        // A certificate is for its own site, and a site without one is not behind another's.
                        Way::Secured(over) if demand == Demand::Nothing || over.identity != OWN => {
                            assert_eq!(admission, Admission::Misdirected, "{told}");
                        }
                        Way::Secured(over) if demand != Demand::Certificate(OWN) => {
                            let is_of_today = now.is_some() && over.authorities == now;
                            let is_good = over.client.as_ref().is_none_or(|client| client.until >= NOW as i64);
                            let has_one = over.client.is_some();
                            assert_eq!(served, is_of_today && is_good && (has_one || demand == client(true)), "{told}");
                        }
                        Way::Secured(_) => assert!(served, "{told}"),
                        Way::Unsettled => assert_eq!(admission, Admission::Misdirected, "{told}"),
                        // Clear text is for sites without a certificate; a proxy, programs of this machine and
                        // clients of an address that is for it are asked for no more.
                        Way::Clear if demand != Demand::Nothing && !says_https => {
                            assert_eq!(admission, Admission::Led, "{told}");
                        }
                        Way::Clear | Way::Open | Way::Local => {
                            assert_eq!(served, demand != client(false), "{told}");
                        }
                    }
                    pairs += 1;
                }
            }
        }
        assert_eq!(pairs, 4 * 28 * 4);
    }
}
