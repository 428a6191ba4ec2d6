//! Telling the learner of requests: which, and what of them.
//!
//! Owns: [`Observer`], what a worker needs for it. Guarantees: where nothing is learned nothing is done; what is told allocates nothing,
//! takes no lock and makes no system call. What access rules keep from somebody is not told.

use std::net::IpAddr;

use lamna_proto::exchange::Translate;
use lamna_proto::time::Instant;

use super::WorkerContext;
use crate::cache::Entry;
use crate::content::access::Rules;
use crate::hints::{Hints, Sight};
use crate::worker::address::KeyParts;
use crate::worker::shared::Shared;

/// How a worker tells the learner of requests.
#[derive(Debug)]
pub(super) struct Observer {
    lane: usize,
    /// Connections go from one thread to another between two requests.
    by_connection: bool,
    /// Tells the connection that is being driven from others; zero if its order says nothing.
    connection: u64,
    /// Requests that there was no room for.
    dropped: u64,
}

impl Observer {
    pub(super) fn new(shared: &Shared) -> Observer {
        Observer {
            lane: shared.hints.as_ref().map_or(0, |hints| hints.lane()),
            by_connection: false,
            connection: 0,
            dropped: 0,
        }
    }

    /// Tells of a request for `path` that is answered with `entry`.
    pub(super) fn observe(&mut self, shared: &Shared, sight: &Sight<'_>, path: &[u8], entry: &Entry, now: Instant) {
        let Some(hints) = &shared.hints else { return };
        if entry.resource.status.0 != 200 || path.is_empty() {
            return;
        }
        let is_html = entry.resource.variants.first().media_type().starts_with("text/html");
        self.tell(hints, sight, path, is_html, now);
    }

    fn tell(&mut self, hints: &Hints, sight: &Sight<'_>, path: &[u8], is_html: bool, now: Instant) {
        let has_room = hints.observe(self.lane(hints), sight, path, is_html, self.connection, now.ms());
        self.dropped += u64::from(!has_room);
    }

    fn lane(&self, hints: &Hints) -> usize {
        if self.by_connection { hints.lane_of(self.connection) } else { self.lane }
    }

    pub(super) fn flush(&mut self, shared: &Shared) {
        if let (Some(hints), 1..) = (&shared.hints, self.dropped) {
            hints.count_dropped(std::mem::take(&mut self.dropped));
        }
    }
}

impl WorkerContext<'_> {
    /// The connection that is driven from now on is called by `number` where its order is learned from. Zero is none.
    pub fn set_connection(&mut self, number: u64) {
        self.observer.connection = number;
    }

    /// Its connections are driven by other threads as well, in turns.
    pub fn share_connections(&mut self) {
        self.observer.by_connection = true;
    }

    /// What is to be learned of a request; none if nothing is.
    pub(super) fn sight<'t>(&mut self, translate: &Translate<'t>, peer: Option<IpAddr>) -> Option<Sight<'t>> {
        let Shared { sites, proxies, .. } = self.shared;
        let hints = self.shared.hints.as_ref()?;
        let site = sites.find(translate.host);
        if !hints.has_site(site.index) {
            return None;
        }
        if hints.is_full(self.observer.lane(hints)) {
            self.observer.dropped += 1;
            return None;
        }
        let sight = hints.sight(site.index, translate)?;
        if !proxies.is_empty() && proxies.trust(peer) {
            // A connection of a proxy is many clients'.
            self.observer.connection = 0;
        }
        if site.guard.is_some() {
            let rules = self.addresses.rules(sites, translate, proxies.client(peer, translate.request));
            return Some(sight).filter(|_| Rules::of(&rules, translate).is_empty());
        }
        Some(sight)
    }

    /// Tells the learner of a request that an application answers, whatever with. Whether it is a page is for the client to say.
    pub(super) fn observe_asked(&mut self, translate: &Translate<'_>, peer: Option<IpAddr>) {
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
    pub fn observe_found(&mut self, translate: &Translate<'_>, peer: Option<IpAddr>, entry: &Entry) {
        let Some(sight) = self.sight(translate, peer) else { return };
        let client = || self.shared.proxies.client(peer, translate.request);
        let address = self.addresses.address(&self.shared.sites, translate, client);
        let path = KeyParts::of(address.key().path).path;
        self.observer.observe(self.shared, &sight, path, entry, self.now);
        self.addresses.take_back(address);
    }
}
