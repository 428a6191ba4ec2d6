//! Tests that each of the three caches can be off: its work is done again, and the result is the same.

use lamna_config::settings::{Settings, SiteSettings};

use super::*;
use crate::content::site::Sites;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// A site with a text, a sibling of it and nothing else, all at rest.
fn site() -> (tempfile::TempDir, Sites) {
    let directory = tempfile::tempdir().unwrap();
    for (name, content) in [("a.txt", "content"), ("a.txt.gz", "coded"), ("b.bin", "bytes")] {
        std::fs::write(directory.path().join(name), content).unwrap();
    }
    let sites = sites(directory.path());
    (directory, sites)
}

fn sites(root: &Path) -> Sites {
    let settings = Settings { sites: vec![SiteSettings::new(root.to_owned())], ..Settings::default() };
    Sites::open(&settings).unwrap()
}

/// A file that changed long ago is settled; waiting for it to be so takes a while.
fn settle(path: &Path) {
    let at = SystemTime::now() - Duration::from_secs(60);
    std::fs::File::options().write(true).open(path).unwrap().set_modified(at).unwrap();
    std::thread::sleep(Duration::from_millis(40));
}

fn ask(sites: &Sites, path: &[u8], caches: CacheSwitches, previous: Option<&Arc<Entry>>) -> Arc<Entry> {
    let abilities = KernelFeatures::default();
    translate(&translation(sites, path, caches, previous, &abilities)).unwrap()
}

fn translation<'a>(
    sites: &'a Sites,
    path: &'a [u8],
    caches: CacheSwitches,
    previous: Option<&'a Arc<Entry>>,
    abilities: &'a KernelFeatures,
) -> Translation<'a> {
    let previous = previous.map(Previous::of);
    let (site, wait) = (sites.at(0), Wait::Yes);
    let content_bytes_max = Store::content_bytes_max_of(1 << 30, caches);
    Translation {
        site,
        rules: site.routes.plain(),
        host: b"",
        recipe: None,
        path,
        before_encoded_slash: None,
        view: View::default(),
        wait,
        makes_until: Some(std::time::Instant::now() + std::time::Duration::from_secs(30)),
        request: "",
        previous,
        now_ms: 5000,
        abilities,
        holder: None,
        store: None,
        content_bytes_max,
        caches,
    }
}

fn heads(entry: &Entry) -> Vec<Vec<u8>> {
    entry.resource.variants.all().map(|one| one.head().to_vec()).collect()
}

fn all() -> impl Iterator<Item = CacheSwitches> {
    (0..8).map(|bits| CacheSwitches { translations: bits & 1 > 0, entries: bits & 2 > 0, content: bits & 4 > 0 })
}

#[test]
fn content_is_in_memory_or_in_the_file_as_its_cache_is_on_or_off() {
    let (directory, sites) = site();
    settle(&directory.path().join("b.bin"));
    for caches in all() {
        let entry = ask(&sites, b"/b.bin", caches, None);
        let one = entry.resource.variants.first();
        assert_eq!((one.content().is_some(), one.file.is_some()), (caches.content, !caches.content), "{caches:?}");
    }
}

#[test]
fn what_is_too_large_for_a_small_store_is_not_read_into_memory() {
    let (directory, sites) = site();
    let name = directory.path().join("b.bin");
    std::fs::write(&name, vec![0; 20_000]).unwrap();
    settle(&name);
    let abilities = KernelFeatures::default();
    for (store_bytes, is_held) in [(64 << 10, false), (1 << 20, true), (1 << 30, true)] {
        let content_bytes_max = Store::content_bytes_max_of(store_bytes, CacheSwitches::default());
        let translation = Translation {
            content_bytes_max,
            ..translation(&sites, b"/b.bin", CacheSwitches::default(), None, &abilities)
        };
        let entry = translate(&translation).unwrap();
        assert_eq!(entry.resource.variants.first().content().is_some(), is_held, "{store_bytes}");
    }
}

#[test]
fn what_is_known_is_used_again_only_by_the_caches_that_are_on() {
    let (directory, sites) = site();
    settle(&directory.path().join("b.bin"));
    for caches in all() {
        let known = ask(&sites, b"/b.bin", caches, None);
        let again = ask(&sites, b"/b.bin", caches, Some(&known));
        assert_eq!(Arc::ptr_eq(&known, &again), caches.entries || caches.translations, "{caches:?}");
        assert_eq!(heads(&known), heads(&again), "{caches:?}");
    }
}

#[test]
fn heads_that_are_built_again_are_the_same() {
    let (directory, sites) = site();
    for name in ["a.txt", "a.txt.gz", "b.bin"] {
        settle(&directory.path().join(name));
    }
    let abilities = KernelFeatures::default();
    for path in [&b"/a.txt"[..], b"/b.bin", b"/missing"] {
        for caches in all() {
            let known = ask(&sites, path, caches, None);
            let again = translation(&sites, path, caches, None, &abilities).describe_again(&known);
            assert_eq!(heads(&known), heads(&again), "{caches:?}");
            let contents = |entry: &Entry| {
                entry.resource.variants.all().map(|one| one.content().map(<[u8]>::to_vec)).collect::<Vec<_>>()
            };
            assert_eq!(contents(&known), contents(&again), "{caches:?}");
        }
    }
}

#[test]
fn what_was_not_held_for_want_of_memory_is_held_when_there_is_some() {
    let (directory, sites) = site();
    settle(&directory.path().join("b.bin"));
    let abilities = KernelFeatures::default();
    let pressed =
        Translation { content_bytes_max: 0, ..translation(&sites, b"/b.bin", CacheSwitches::ALL, None, &abilities) };
    let from_file = translate(&pressed).unwrap();
    assert!(from_file.resource.variants.first().file.is_some());
    let pressed = Translation { previous: Some(Previous::of(&from_file)), ..pressed };
    assert!(Arc::ptr_eq(&translate(&pressed).unwrap(), &from_file));
    let held = ask(&sites, b"/b.bin", CacheSwitches::ALL, Some(&from_file));
    assert_eq!(held.resource.variants.first().content(), Some(&b"bytes"[..]));
    assert_eq!(heads(&held), heads(&from_file));
}

#[test]
fn a_listing_is_refused_while_there_is_no_memory_for_it() {
    let (directory, _) = site();
    let site = SiteSettings { browse: true, ..SiteSettings::new(directory.path().to_owned()) };
    let sites = Sites::open(&Settings { sites: vec![site], ..Settings::default() }).unwrap();
    let (abilities, store) = (KernelFeatures::default(), Store::new(1 << 20, 100));
    let asked = Translation { store: Some(&store), ..translation(&sites, b"/", CacheSwitches::ALL, None, &abilities) };
    assert_eq!(translate(&asked).unwrap().resource.status, Status(200));
    let lent = store.lend(1 << 20, 1).unwrap();
    let refused = translate(&asked).unwrap();
    assert_eq!(refused.resource.status, Status(503));
    assert!(!refused.stamps.settled, "the next is asked for anew");
    drop(lent);
    assert_eq!(translate(&asked).unwrap().resource.status, Status(200));
}

#[test]
fn a_listing_is_rendered_in_the_form_that_is_asked_for() {
    let (directory, _) = site();
    let site = SiteSettings { browse: true, ..SiteSettings::new(directory.path().to_owned()) };
    let sites = Sites::open(&Settings { sites: vec![site], ..Settings::default() }).unwrap();
    let abilities = KernelFeatures::default();
    for (number, media_type) in [(0, "text/html; charset=utf-8"), (1, "application/json")] {
        let view = View::of_number(number);
        let asked = Translation { view, ..translation(&sites, b"/", CacheSwitches::ALL, None, &abilities) };
        let resource = translate(&asked).unwrap().resource.clone();
        let mut all = resource.variants.all().map(|one| one.media_type());
        assert!(all.all(|one| one == media_type), "in every coding");
    }
}

#[test]
fn pages_that_stand_for_many_targets_are_made_once() {
    let (directory, _) = site();
    std::fs::write(directory.path().join("index.html"), "the application").unwrap();
    settle(&directory.path().join("index.html"));
    let site = SiteSettings { spa: true, ..SiteSettings::new(directory.path().to_owned()) };
    let sites = Sites::open(&Settings { sites: vec![site], ..Settings::default() }).unwrap();
    let (abilities, store) = (KernelFeatures::default(), Store::new(1 << 20, 100));
    let asked = |path, previous| {
        let translation = translation(&sites, path, CacheSwitches::ALL, previous, &abilities);
        translate(&Translation { store: Some(&store), ..translation }).unwrap()
    };
    let (one, other) = (asked(b"/one", None), asked(b"/other", None));
    assert!(Arc::ptr_eq(&one.resource, &other.resource) && !Arc::ptr_eq(&one, &other));
    assert!(Arc::ptr_eq(&asked(b"/one", Some(&one)), &one), "nothing has changed");
    assert_eq!(store.len(), 1, "who asks keeps what it gets");
    assert!(one.memory_bytes() < 400, "{}", one.memory_bytes());
    std::fs::write(directory.path().join("index.html"), "another application").unwrap();
    settle(&directory.path().join("index.html"));
    let changed = asked(b"/one", Some(&one));
    assert_eq!(changed.resource.variants.first().content(), Some(&b"another application"[..]));
}
