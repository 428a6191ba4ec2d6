//! A target that is to be translated.
//!
//! Owns: [`TranslationTarget`], the value that goes to the translating thread or process. Does not look it up.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use lamna_io::{KernelFeatures, Wait};
use lamna_proto::time::Instant;
use lamna_site::cache::two_generation_map::Key;
use lamna_site::cache::{Entry, Store};
use lamna_site::content::route::{Effective, Routes};
use lamna_site::content::site::Sites;
use lamna_site::content::translate::{Previous, Translation};

use crate::worker::cache_key::{CacheKey, CacheKeyParts};
use crate::worker::shared::Shared;

/// A target to be translated, in values of its own. Equal are those of the same key.
#[derive(Clone, Debug)]
pub struct TranslationTarget {
    /// Index of the site.
    pub site: u32,
    /// The key by which caches find it: see [`CacheKey`].
    key: Vec<u8>,
    /// The effective rules of the site's routes for it.
    rules: Arc<Effective>,
    /// The entry that was found the last time.
    pub previous: Option<Arc<Entry>>,
    /// The identifier of the request that asks for it.
    request: Box<str>,
}

impl PartialEq for TranslationTarget {
    fn eq(&self, other: &TranslationTarget) -> bool {
        self.key() == other.key()
    }
}

impl Eq for TranslationTarget {}

impl Hash for TranslationTarget {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        (self.site, &self.key).hash(hasher);
    }
}

impl TranslationTarget {
    pub(super) fn new(
        shared: &Shared,
        cache_key: &CacheKey<'_>,
        previous: Option<Arc<Entry>>,
        request: Box<str>,
    ) -> TranslationTarget {
        let Key { site, path: key } = cache_key.key();
        let parts = CacheKeyParts::of(key);
        let rules = shared.sites.at(site).routes.effective(parts.path, parts.outcome);
        TranslationTarget { site, key: key.to_vec(), rules, previous, request }
    }

    /// The target of `key`, which is a path that nothing else of a request decides about. No request asks for it.
    pub fn of_path(shared: &Shared, key: Key<'_>) -> TranslationTarget {
        let rules = shared.sites.at(key.site).routes.effective(key.path, &[]);
        TranslationTarget { site: key.site, key: key.path.to_vec(), rules, previous: None, request: Box::default() }
    }

    /// The key by which caches find it.
    pub fn key(&self) -> Key<'_> {
        Key { site: self.site, path: &self.key }
    }

    /// The path, normalised; empty if it cannot be.
    pub fn path(&self) -> &[u8] {
        CacheKeyParts::of(&self.key).path
    }

    /// The effective rules of the site's routes for it.
    pub fn rules(&self) -> &Arc<Effective> {
        &self.rules
    }

    /// Its translation, with what `shared` has.
    pub fn translation<'a>(&'a self, shared: &'a Shared, wait: Wait, now: Instant) -> Translation<'a> {
        let Shared { sites, store, abilities, .. } = shared;
        self.translation_of(Sources { sites, store, abilities, reads_elsewhere: shared.reads_elsewhere() }, wait, now)
    }

    /// The same, with `sources`.
    pub fn translation_of<'a>(&'a self, sources: Sources<'a>, wait: Wait, now: Instant) -> Translation<'a> {
        let Sources { sites, store, abilities, reads_elsewhere } = sources;
        let CacheKeyParts { path, before_encoded_slash, view, outcome } = CacheKeyParts::of(&self.key);
        Translation {
            site: sites.at(self.site),
            rules: &self.rules,
            host: Routes::host_of(outcome),
            recipe: Routes::recipe_of(outcome),
            path,
            before_encoded_slash,
            view,
            wait,
            makes_until: None,
            request: &self.request,
            previous: self.previous.as_ref().map(Previous::of),
            now_ms: now.ms(),
            abilities,
            holder: reads_elsewhere.then(|| (&**store, self.key())),
            store: Some(store),
            content_bytes_max: store.content_bytes_max(),
            caches: store.caches(),
        }
    }
}

/// The sources from which a translation is made.
#[derive(Clone, Copy, Debug)]
pub struct Sources<'a> {
    /// The sites that are served.
    pub sites: &'a Arc<Sites>,
    /// The entries that have been found.
    pub store: &'a Arc<Store>,
    /// The features of the kernel.
    pub abilities: &'a Arc<KernelFeatures>,
    /// See [`Shared::reads_elsewhere`].
    pub reads_elsewhere: bool,
}
