//! One request, and what several steps have to know of it.
//!
//! Owns: [`Asked`]. Guarantees: the site of a request is found once, its client and the outcome of its routes at most
//! once. Decides nothing.

use std::cell::OnceCell;
use std::net::IpAddr;
use std::sync::Arc;

use lamna_config::proxies::{ForwardedField, Peer, TrustedProxies};
use lamna_proto::exchange::RequestedResource;
use lamna_proto::gateway::Believed;
use lamna_proto::message::Request;
use lamna_proto::time::Instant;
use lamna_site::content::access::{AuthAssertions, Evidence, Identity, Known, Network, Rules, network_of};
use lamna_site::content::at_once::ClientNetwork;
use lamna_site::content::route::{Clearance, Effective};
use lamna_site::content::site::{Site, Sites};
use lamna_tls::Over;

/// A request: what it asks for, by which connection it has come, and whose it is.
#[derive(Clone)]
pub struct Asked<'r> {
    /// Its parts, as the core has read them.
    pub requested: &'r RequestedResource<'r>,
    /// The other end of its connection.
    pub peer: Peer,
    /// The transport that it has come over.
    pub over: Over<'r>,
    /// The site that its host stands for.
    pub site: &'r Site,
    proxies: &'r TrustedProxies,
    client: OnceCell<Option<IpAddr>>,
    rules: OnceCell<Arc<Effective>>,
    clearance: OnceCell<Clearance>,
}

impl<'r> Asked<'r> {
    /// The request of `requested`, which has come from `peer`, to one of `sites`.
    pub fn new(
        (sites, proxies): (&'r Sites, &'r TrustedProxies),
        requested: &'r RequestedResource<'r>,
        peer: Peer,
        over: Over<'r>,
    ) -> Asked<'r> {
        let site = sites.find(requested.host);
        let (client, rules, clearance) = (OnceCell::new(), OnceCell::new(), OnceCell::new());
        Asked { requested, peer, over, site, proxies, client, rules, clearance }
    }

    /// The same request for another path of the same site.
    pub(super) fn at<'p>(&self, requested: &'p RequestedResource<'p>) -> Asked<'p>
    where
        'r: 'p,
    {
        let &Asked { peer, over, site, proxies, ref client, ref clearance, .. } = self;
        let (client, clearance) = (client.clone(), clearance.clone());
        Asked { requested, peer, over, site, proxies, client, rules: OnceCell::new(), clearance }
    }

    /// The outcome of the routes of its site, which `find` finds out.
    pub(super) fn rules(&self, find: impl FnOnce() -> Arc<Effective>) -> Arc<Effective> {
        self.rules.get_or_init(find).clone()
    }

    /// The rules of access of its site that it fulfils, by what is known of its client.
    pub(super) fn clearance(&self, (now, known): (Instant, &mut Known)) -> &Clearance {
        self.clearance.get_or_init(|| {
            let Some(guard) = &self.site.guard else { return Clearance::default() };
            let identity = guard.identity(self.shown(), (self.site.index, now), known);
            let evidence = Evidence { client: self.client(), client_subject: self.over.client_subject(), identity };
            self.site.routes.clearance(|rule| evidence.fulfils(rule))
        })
    }

    /// Its client: the peer, or the client for which a trusted proxy says that it asks.
    pub fn client(&self) -> Option<IpAddr> {
        if self.proxies.is_empty() {
            return self.peer.address;
        }
        *self.client.get_or_init(|| self.proxies.client(self.peer, self.requested.request))
    }

    /// The client that it counts for. None for a proxy that does not name its client: it would be all of its clients.
    pub fn counted_client(&self) -> Option<IpAddr> {
        counted_client(self.client(), self.proxies)
    }

    /// The network that it counts for, of that client.
    pub(super) fn network(&self) -> Option<ClientNetwork> {
        self.counted_client().map(ClientNetwork::of)
    }

    /// The request, which may show credentials, and the network that shows them.
    fn shown(&self) -> (Option<Request<'r>>, Option<Network>) {
        (self.requested.request, self.counted_client().map(network_of))
    }

    /// Whether it comes from a proxy that does not name its client.
    pub(super) fn is_of_proxy(&self) -> bool {
        !self.proxies.is_empty() && self.proxies.trust(self.client())
    }

    /// Which words of its peer are believed about its client.
    pub(super) fn believed(&self) -> Believed {
        match self.proxies.field {
            _ if !self.proxies.believe(self.peer) => Believed::Nothing,
            ForwardedField::XForwardedFor => Believed::XForwarded,
            ForwardedField::Forwarded => Believed::Forwarded,
        }
    }

    /// Whether a trusted proxy says that its client speaks TLS.
    pub(super) fn is_said_to_be_secure(&self) -> bool {
        self.proxies.is_secure(self.peer, self.requested.request)
    }

    /// Whether its client speaks TLS, with this server or with a trusted proxy.
    pub(super) fn is_secure(&self) -> bool {
        self.over.is_secure() || self.is_said_to_be_secure()
    }

    /// Its name in logs; empty if there is no request.
    pub(super) fn name(&self) -> Box<str> {
        let mut digits = [0; 16];
        let name = self.requested.request.map(|request| self.proxies.name_of(self.peer, request, &mut digits));
        String::from_utf8_lossy(name.unwrap_or_default()).into()
    }

    /// The user, if the server has made sure of one, where `rules` ask for that.
    pub(super) fn identity(&self, rules: &Rules<'_>, (now, known): (Instant, &mut Known)) -> Option<Identity<'r>> {
        if let Some(user) = AuthAssertions::of(self.requested.found).and_then(|assertions| assertions.user.as_deref()) {
            return Some(Identity::Service(user));
        }
        let guard = self.site.guard.as_ref().filter(|_| rules.ask_for_credentials())?;
        let shown = guard.identity(self.shown(), (self.site.index, now), known);
        shown.or(self.over.client_subject().map(Identity::Certificate))
    }
}

/// The client that a request of `client` counts for; see [`Asked::counted_client`].
pub(super) fn counted_client(client: Option<IpAddr>, proxies: &TrustedProxies) -> Option<IpAddr> {
    client.filter(|client| !proxies.trust(Some(*client)))
}
