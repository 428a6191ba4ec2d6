//! The cache of an engine that begins, as its settings have it.
//!
//! Owns: its bounds. What it keeps and what goes first is `lamna_site::cache`'s.

use lamna_config::settings::{Architecture, Settings};
use lamna_site::cache::{self, Bounds, Headroom, Replacing, Store, Watcher};
use lamna_site::content::site::Sites;
use lamna_sys::clock::Clock;
use lamna_sys::shared_memory::SharedMemory;
use rustix::process::{Resource, getrlimit};

use crate::process::embedded::Embedded;

/// The cache for `sites`, which is empty.
pub(super) fn store(
    settings: &Settings,
    embedded: &Embedded,
    sites: &Sites,
    clock: Clock,
    counters: &SharedMemory<cache::counters::Counters>,
) -> Store {
    let is_small = settings.architecture == Architecture::Mp;
    let bounds = Bounds {
        bytes_max: settings.cache_bytes_max,
        descriptors_max: settings
            .cache_files_max
            .unwrap_or_else(|| getrlimit(Resource::Nofile).current.unwrap_or(1 << 20) / CACHE_DESCRIPTOR_SHARE),
        entries_max: is_small.then_some(settings.process_translations_max),
    };
    // Small caches are of many processes, and there are few inotify instances for each user.
    let watches = settings.cache_watch && !is_small;
    let watcher = watches.then(|| Watcher::new(sites.root_paths(), clock, counters.clone()).ok()).flatten();
    Store::with(
        bounds,
        Replacing::with(settings.cache_policy, embedded.cache_policy.clone()),
        watcher,
        counters.clone(),
    )
    .with_caches(settings.caches)
    .alone(settings.replaces_page_cache())
    .with_headroom(settings.uses_headroom().then(Headroom::within_limit).flatten())
}

/// Unless it is set, the cache may hold every fourth descriptor: the others are for connections.
const CACHE_DESCRIPTOR_SHARE: u64 = 4;
