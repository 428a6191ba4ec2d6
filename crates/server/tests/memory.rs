//! What the cache says that it holds is what it has allocated: counted by the allocator, for translations to one entry,
//! for negative ones, and for translations to entries of their own, content apart. Prints bytes for each.
//!
//! A binary of its own, because there is one global allocator in a program.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use lamna_policy::cache::Algorithm;
use lamna_proto::exchange::negotiate::Coding;
use lamna_proto::message::Status;
use lamna_proto::resource::{Description, Representation, Resource};
use lamna_server::cache::two_generation_map::Key;
use lamna_server::cache::{Bounds, Entry, Store};
use lamna_server::config::cache_policy::Policy;
use lamna_server::io::file_state::{Stamps, inspect};
use lamna_server::sys::shared_memory::SharedMemory;

/// Counts what is allocated and not freed, with what the allocator adds: a word for each block, in steps of 16 bytes.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

static ALLOCATED_BYTES: AtomicI64 = AtomicI64::new(0);

fn taken(bytes: usize) -> i64 {
    (bytes + 8).next_multiple_of(16).max(32) as i64
}

// SAFETY: everything is handed on to the system's allocator as it is; counting neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED_BYTES.fetch_add(taken(layout.size()), Relaxed);
        // SAFETY: the caller keeps the promises of `GlobalAlloc::alloc`, which are those of the same function here.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        ALLOCATED_BYTES.fetch_sub(taken(layout.size()), Relaxed);
        // SAFETY: as above; `pointer` came from `System` with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

const ENTRIES: u32 = 20_000;
/// As on the traces of the papers: `/pub/directory/page0000000.html`.
const PATH_BYTES: usize = 31;

/// One test, so that no other thread allocates meanwhile.
#[test]
fn the_cache_counts_what_it_allocates() {
    println!("policy   kind         counted  allocated  bytes each, path of {PATH_BYTES} included");
    for algorithm in Algorithm::ALL {
        let page = Arc::new(Resource::one(Status(404), Representation::new(&described(0), None).expect("it is short")));
        let one = Arc::new(Entry::shared(page.clone(), Stamps::none(), 5000));
        let translation = measure(algorithm, "translation", || one.clone());
        assert!(translation < 125.0, "{algorithm}: {translation} bytes, where PIPELINED had 125");
        measure(algorithm, "negative", || Arc::new(Entry::shared(page.clone(), Stamps::none(), 5000)));
        let file = tempfile::tempfile().expect("a temporary file can be made");
        let stamp = || inspect(std::os::fd::AsFd::as_fd(&file)).expect("it is open").1;
        let head_only = || {
            let resource =
                Resource::one(Status(200), Representation::with_content(&described(0), b"").expect("it is short"));
            Arc::new(Entry::new(resource, Stamps { files: [stamp()].into(), settled: true }, 5000))
        };
        let entry = measure(algorithm, "with entry", head_only) - translation;
        println!("{:8} {:12} {entry:7.0}", algorithm.name(), "entry");
        assert!(entry < 850.0, "{algorithm}: {entry} bytes for an entry, where PIPELINED had 850");
    }
}

fn described(size: u64) -> Description<'static> {
    Description {
        media_type: Some("text/html; charset=utf-8"),
        coding: Coding::Identity,
        size,
        modified: Some(1_000_000_000),
        etag: Some("\"17979cfe362a0000-0\""),
        ranges: true,
        vary: Some("Accept-Encoding"),
        ..Description::of(Status(200))
    }
}

/// Bytes for each of many entries, as counted by the store; what was allocated has to agree.
fn measure(algorithm: Algorithm, kind: &str, entry: impl Fn() -> Arc<Entry>) -> f64 {
    let bounds = Bounds { bytes_max: 1 << 30, descriptors_max: 1 << 20, entries_max: None };
    let store = Store::with(bounds, Policy { algorithm, ..Policy::default() }, None, SharedMemory::default());
    let (counted, allocated) = (store.bytes() as i64, ALLOCATED_BYTES.load(Relaxed));
    for number in 0..ENTRIES {
        let path = format!("/pub/directory/page{number:07}.html");
        assert_eq!(path.len(), PATH_BYTES);
        store.insert(Key { site: 0, path: path.as_bytes() }, entry());
    }
    assert_eq!(store.len(), ENTRIES as usize);
    let each = |bytes: i64| bytes as f64 / f64::from(ENTRIES);
    let counted = each(store.bytes() as i64 - counted);
    let allocated = each(ALLOCATED_BYTES.load(Relaxed) - allocated);
    println!("{:8} {kind:12} {counted:7.0}  {allocated:9.0}", algorithm.name());
    assert!((counted / allocated - 1.0).abs() < 0.05, "{kind}: {counted} counted, {allocated} allocated");
    counted
}
