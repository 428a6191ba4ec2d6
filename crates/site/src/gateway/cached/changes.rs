//! Invalidation of stored answers by a request that has changed something (RFC 9111 4.4).
//!
//! Owns: which keys that are: of the target, and of what the answer names besides. Does not decide whether anything was
//! changed.

use lamna_proto::caching::{self, Named};
use lamna_proto::gateway::fields::Fields;

use lamna_proto::parse::path::normalise_for_rules;

use super::{Inner, Wanted};
use crate::cache::answer_key::AnswerKey;
use crate::cache::two_generation_map::Key;
use crate::cache::ways::is_usual;

/// The spelling of `path` that rules go by. Two spellings with the same one are changed together: what an application
/// reads alike is not known here, and an answer too many that is asked for again does no harm.
fn normal(path: &[u8]) -> Vec<u8> {
    let mut normal = Vec::with_capacity(path.len());
    match normalise_for_rules(path, &mut normal) {
        Ok(_) => normal,
        Err(_) => path.to_vec(),
    }
}

impl Inner {
    /// The target has been changed: its stored answers are not used any more, however they were asked for.
    pub(super) fn invalidate_target(&self) {
        let Some(changed) = AnswerKey::read(&self.wanted.target) else { return };
        self.invalidate_all_of(changed, !changed.outcome.is_empty());
    }

    /// Invalidates the URLs of the same origin that the answer names: they may have been changed as well (RFC 9111
    /// 4.4).
    pub(super) fn invalidate_named(&self, fields: Fields<'_>) {
        let Some(changed) = AnswerKey::read(&self.wanted.target) else { return };
        for reference in ["location", "content-location"].into_iter().flat_map(|name| fields.values(name)) {
            let named = caching::named(reference, changed.is_secure, changed.authority, changed.path);
            let Some(Named { path, query }) = named else { continue };
            let depends = self.wanted.depends_on_requests;
            self.invalidate_all_of(AnswerKey { path: &path, query, outcome: &[], ..changed }, depends);
        }
    }

    /// Invalidates the stored answers of a target, over TLS or without, and by whatever way of a trusted proxy.
    fn invalidate_all_of(&self, changed: AnswerKey<'_>, depends_on_requests: bool) {
        let Wanted { store, site, target, settings, .. } = &self.wanted;
        let Some(ways) = store.ways().known().filter(|_| !depends_on_requests && is_usual(changed.path)) else {
            // The routes make more of it than the target, the ways are too many, or paths are spelled in several ways.
            let path = normal(changed.path);
            let is_target = |other: AnswerKey<'_>| {
                (other.authority, other.query) == (changed.authority, changed.query)
                    && (other.path == changed.path || normal(other.path) == path)
            };
            store.purge_answers(&|key| key.site == *site && AnswerKey::read(key.path).is_some_and(is_target));
            return;
        };
        for (is_secure, way) in ways.iter().flat_map(|way| [(false, way), (true, way)]) {
            let key = AnswerKey { is_secure, way, ..changed };
            // As it is, and as its route has it if that is this one.
            for ignored in [&[][..], &settings.ignore_query] {
                let mut path = Vec::with_capacity(target.len());
                key.write(ignored, &mut path);
                store.invalidate_answer(Key { site: *site, path: &path });
            }
        }
    }

    /// Invalidates the stored answer of the target.
    pub(super) fn invalidate(&self) {
        self.wanted.store.invalidate_answer(Key { site: self.wanted.site, path: &self.wanted.target });
    }
}
