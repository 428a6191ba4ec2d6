//! Telling the learner of requests: which, and what of them.
//!
//! Owns: the tests that a request passes before it is told. Guarantees: where nothing is learned nothing is done.
//! Requests whose targets access rules keep from some clients are not told.

use lamna_site::cache::Entry;
use lamna_site::hints::RequestSample;

use super::WorkerContext;
use super::asked::Asked;
use crate::worker::cache_key::CacheKeyParts;

impl WorkerContext<'_> {
    /// The connection that is driven from now on is called by `number` where its order is learned from, and in traces.
    /// Zero is none.
    pub fn set_connection(&mut self, number: u64) {
        self.connection = number;
        self.sampler.set_connection(number);
    }

    /// Its connections are driven by other threads as well, in turns.
    pub fn share_connections(&mut self) {
        self.sampler.share_connections();
    }

    /// The sample of a request for the learner; none if nothing is to be learned of it.
    pub(super) fn sample<'t>(&mut self, asked: &Asked<'t>) -> Option<RequestSample<'t>> {
        let proxies = &self.shared.proxies;
        let hints = self.shared.hints.as_ref()?;
        if !hints.has_site(asked.site.index) {
            return None;
        }
        if self.sampler.lacks_room(hints) {
            return None;
        }
        let sample = hints.sample(asked.site.index, asked.requested)?;
        if !proxies.is_empty() && proxies.trust(asked.peer.address) {
            // A connection of a proxy is many clients'.
            self.sampler.set_connection(0);
        }
        Some(sample).filter(|_| self.may_be_learned(asked))
    }

    /// Whether anything may be learned of a request for others. Nothing is of a path that some rule of access may keep
    /// from some clients, even if it lets this one in. The same holds for the resources that follow a page, for those
    /// that it needs and for the next page.
    pub(super) fn may_be_learned(&mut self, asked: &Asked<'_>) -> bool {
        asked.site.guard.is_none() || self.rules(asked).is_for_anybody
    }

    /// Tells the learner of a request that an application answers, whatever with. Whether it is a page is for the
    /// client to say.
    pub(super) fn sample_asked(&mut self, asked: &Asked<'_>) {
        let Some(sample) = self.sample(asked) else { return };
        let Some(hints) = &self.shared.hints else { return };
        let cache_key = self.cache_key(asked);
        let path = CacheKeyParts::of(cache_key.key().path).path;
        if !path.is_empty() {
            self.sampler.tell(hints, &sample, path, sample.is_document(), self.now);
        }
        self.cache_keys.take_back(cache_key);
    }

    /// Tells the learner of a request that had to be looked for, and is answered with `entry`.
    pub fn sample_found(&mut self, asked: &Asked<'_>, entry: &Entry) {
        let Some(sample) = self.sample(asked) else { return };
        let cache_key = self.cache_key(asked);
        let path = CacheKeyParts::of(cache_key.key().path).path;
        self.sampler.observe(self.shared.hints.as_deref(), &sample, path, entry, self.now);
        self.cache_keys.take_back(cache_key);
    }
}
