//! Reading ahead of requests: files that are likely next, or named by pages, are brought into the cache before they are
//! asked for.
//!
//! Owns: a thread of its own for each engine that serves, at low priority, which works in every architecture.
//! Guarantees: one read at a time, and none while an exchange waits for a helper. It reads only files that every client
//! may have, that the budget allows and that the replacement policy finds worth the room
//! ([`Store::allows_ahead`](lamna_site::cache::Store::allows_ahead)). Other files are read when a request asks for
//! them.

mod pages;

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use lamna_io::Wait;
use lamna_io::log::errors::{self, Level};
use lamna_site::cache::two_generation_map::Key;
use lamna_site::content::translate::translate;
use lamna_site::hints::{Ahead, Hints, Likely};
use lamna_sys::contain::contain;

use self::pages::Pages;
use super::context::TranslationTarget;
use super::shared::Shared;

/// How long it waits for something to read before it looks whether the engine has ended.
const PATIENCE: Duration = Duration::from_millis(500);

/// How often it is looked whether an exchange waits for the disk, and how many times before the likely files are given
/// up.
const REST_INTERVAL: Duration = Duration::from_millis(10);
const REST_LOOKS: u32 = 50;

/// The priority of the thread (setpriority(2)): about a tenth of what a serving thread gets on the same processor.
const NICE: i32 = 10;

/// Reads ahead for the engine of `shared` until it has ended, if that is wanted.
pub fn begin(shared: &Arc<Shared>) {
    let Some(hints) = shared.hints.clone().filter(|hints| hints.reads_ahead()) else { return };
    let engine = Arc::downgrade(shared);
    let begin = || thread::Builder::new().name("read-ahead".to_owned()).spawn(move || work(&hints, &engine)).map(drop);
    if let Err(error) = shared.confinement.workers.within(begin).and_then(|begun| begun) {
        errors::report(Level::Error, format_args!("nothing is read ahead: no thread for it: {error}"));
    }
}

/// The life of the thread.
fn work(hints: &Hints, engine: &Weak<Shared>) {
    // On Linux this concerns the calling thread alone. If it may not, it goes on as it is.
    let _ = rustix::process::setpriority_process(None, NICE);
    let mut pages = Pages::default();
    while engine.upgrade().is_some_and(|shared| !shared.control.is_closing()) {
        let Some(ahead) = hints.next_ahead(PATIENCE) else { continue };
        let Some(shared) = engine.upgrade() else { return };
        let likely = match ahead {
            Ahead::Likely(likely) => vec![likely],
            Ahead::Page { site, path } => {
                let look = || pages.look(hints, &shared.store, site, &path);
                contain("Whoever asks for what the page names reads it.", look).unwrap_or_default()
            }
        };
        for one in &likely {
            let is_kept = contain("Whoever asks for it reads it.", || read(&shared, one)).unwrap_or(false);
            hints.count_ahead(is_kept);
        }
    }
}

/// Brings it into the cache, if it may. Whether it did.
fn read(shared: &Shared, ahead: &Likely) -> bool {
    let key = Key { site: ahead.site, path: ahead.path.as_bytes() };
    let site = shared.sites.at(ahead.site);
    let may_read =
        site.is_file_for_everybody(key.path) && shared.store.lookup(key, 0).is_none() && comes_to_rest(shared);
    if !may_read || !shared.store.allows_ahead(key, ahead.probability) {
        return false;
    }
    let target = TranslationTarget::of_path(shared, key);
    let Ok(entry) = translate(&target.translation(shared, Wait::Yes, shared.clock.now())) else { return false };
    let is_found = entry.resource.status.0 == 200 && !entry.asks_an_application() && entry.stamps.settled;
    is_found && shared.store.insert_ahead(key, entry, ahead.probability)
}

/// Whether no exchange waits for the disk, soon enough for reading ahead to be of use: all jobs have been begun, or
/// none was given since the last look. Helpers that are no threads do not say when they begin.
fn comes_to_rest(shared: &Shared) -> bool {
    let disk = &shared.abilities.counters;
    let mut seen = None;
    (0..REST_LOOKS).any(|_| {
        let jobs = disk.helper_jobs.load(Relaxed);
        let rests = jobs <= disk.helper_jobs_begun.load(Relaxed) || seen == Some(jobs);
        seen = Some(jobs);
        if !rests {
            thread::sleep(REST_INTERVAL);
        }
        rests
    })
}
