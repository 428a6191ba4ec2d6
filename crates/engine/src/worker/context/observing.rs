//! Telling the learner of requests: which, and what of them.
//!
//! Owns: what is asked of a request before it is told. Guarantees: where nothing is learned nothing is done. What access rules keep from
//! somebody is not told.

use lamna_config::proxies::Peer;
use lamna_proto::exchange::Translate;
use lamna_site::cache::Entry;
use lamna_site::hints::Sight;

use super::WorkerContext;
use crate::worker::address::KeyParts;
use crate::worker::shared::Shared;

impl WorkerContext<'_> {
    /// The connection that is driven from now on is called by `number` where its order is learned from. Zero is none.
    pub fn set_connection(&mut self, number: u64) {
        self.observer.set_connection(number);
    }

    /// Its connections are driven by other threads as well, in turns.
    pub fn share_connections(&mut self) {
        self.observer.share_connections();
    }

    /// What is to be learned of a request; none if nothing is.
    pub(super) fn sight<'t>(&mut self, translate: &Translate<'t>, peer: Peer) -> Option<Sight<'t>> {
        let Shared { sites, proxies, .. } = self.shared;
        let hints = self.shared.hints.as_ref()?;
        let site = sites.find(translate.host);
        if !hints.has_site(site.index) {
            return None;
        }
        if self.observer.lacks_room(hints) {
            return None;
        }
        let sight = hints.sight(site.index, translate)?;
        if !proxies.is_empty() && proxies.trust(peer.address) {
            // A connection of a proxy is many clients'.
            self.observer.set_connection(0);
        }
        Some(sight).filter(|_| self.may_be_learned(translate, peer))
    }

    /// Whether anything may be learned of a request for others: nothing of a path that some rule of access may keep from somebody, whoever asks and however he is
    /// let in. For what follows a page, for what it needs and for the page that is next alike.
    pub(super) fn may_be_learned(&mut self, translate: &Translate<'_>, peer: Peer) -> bool {
        let Shared { sites, proxies, .. } = self.shared;
        if sites.find(translate.host).guard.is_none() {
            return true;
        }
        self.addresses.rules(sites, translate, proxies.client(peer, translate.request)).is_for_anybody
    }

    /// Tells the learner of a request that an application answers, whatever with. Whether it is a page is for the client to say.
    pub(super) fn observe_asked(&mut self, translate: &Translate<'_>, peer: Peer) {
        let Some(sight) = self.sight(translate, peer) else { return };
        let Some(hints) = &self.shared.hints else { return };
        let client = || self.shared.proxies.client(peer, translate.request);
        let address = self.addresses.address(&self.shared.sites, translate, client);
        let path = KeyParts::of(address.key().path).path;
        if !path.is_empty() {
            self.observer.tell(hints, &sight, path, sight.is_document(), self.now);
        }
        self.addresses.take_back(address);
    }

    /// Tells the learner of a request that had to be looked for, and is answered with `entry`.
    pub fn observe_found(&mut self, translate: &Translate<'_>, peer: Peer, entry: &Entry) {
        let Some(sight) = self.sight(translate, peer) else { return };
        let client = || self.shared.proxies.client(peer, translate.request);
        let address = self.addresses.address(&self.shared.sites, translate, client);
        let path = KeyParts::of(address.key().path).path;
        self.observer.observe(self.shared.hints.as_deref(), &sight, path, entry, self.now);
        self.addresses.take_back(address);
    }
}
