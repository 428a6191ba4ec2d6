//! What a lookup costs with 100 to 1,000,000 cached entries of 500 bytes: for a hundred hot keys, for keys as often
//! asked for as a Zipf law with exponent 0.8 says, and for keys from all over.
//!
//!     cargo run --release -p lamna-server --example cache_costs [ENTRIES...]
//!
//! Prints nanoseconds of a lookup as a worker does it, in its front and in the store if that does not know; of one with
//! the message, head and content, being copied to where it is sent from; of the same in groups of eight that were
//! foreseen, as an event loop does it; and of only copying as much from as many places of one array, which any server
//! has to that answers from memory. Each has in it the few nanoseconds that making a key takes. No figure is judged
//! here.

use std::sync::Arc;
use std::time::Instant;

use lamna_proto::message::Status;
use lamna_proto::resource::{Description, Representation, Resource};
use lamna_server::cache::two_generation_map::Key;
use lamna_server::cache::{Entry, LocalCache, Lookup, LookupPrefetch, Store};
use lamna_server::io::file_state::Stamps;

const HOT: u64 = 100;
const GROUP: usize = 8;
const LOOKUPS: u64 = 2_000_000;
const NOW_MS: u64 = 5000;
const PATH: &[u8] = b"/pub/directory/page0000000.html";
const DIGITS_AT: usize = 19;
const CONTENT: [u8; 500] = [b'x'; 500];

fn main() {
    let given: Vec<u64> = std::env::args().skip(1).filter_map(|number| number.parse().ok()).collect();
    let numbers = if given.is_empty() { vec![100, 1_000, 10_000, 100_000, 1_000_000] } else { given };
    let names =
        ["lookup", "answer", "foreseen", "copy"].map(|what| format!("{what}_hot_ns,{what}_zipf_ns,{what}_all_ns"));
    println!("entries,bytes,{}", names.join(","));
    for entries in numbers {
        println!("{entries},{}", costs(entries));
    }
}

fn costs(entries: u64) -> String {
    let store = Store::new(8 << 30, 1 << 20);
    for number in 0..entries {
        store.insert(key(&mut PATH.to_owned(), number), Arc::new(entry()));
    }
    let (mut front, mut buffer, mut path) = (LocalCache::new(&store), Vec::with_capacity(4096), PATH.to_owned());
    let orders: [(u64, Order); 3] = [(HOT, even), (entries, zipf), (entries, even)];
    let lookups = orders.map(|(entries, order)| {
        nanoseconds(entries, order, |number| {
            assert!(matches!(front.lookup(&store, key(&mut path, number), NOW_MS), Lookup::Fresh(_)));
        })
    });
    let answers = orders.map(|(entries, order)| {
        nanoseconds(entries, order, |number| {
            let Lookup::Fresh(entry) = front.lookup(&store, key(&mut path, number), NOW_MS) else { unreachable!() };
            buffer.clear();
            buffer.extend_from_slice(entry.resource.variants.first().message().expect("it is held"));
        })
    });
    let mut foresight = LookupPrefetch::default();
    let foreseen = orders.map(|(entries, order)| {
        let mut group = Vec::with_capacity(GROUP);
        nanoseconds(entries, order, |number| {
            group.push(number);
            if group.len() < GROUP {
                return;
            }
            group.iter().for_each(|number| foresight.add(&front, &store, key(&mut path, *number), NOW_MS));
            foresight.fetch(&store);
            for number in group.drain(..) {
                let Lookup::Fresh(entry) = front.lookup(&store, key(&mut path, number), NOW_MS) else { unreachable!() };
                buffer.clear();
                buffer.extend_from_slice(entry.resource.variants.first().message().expect("it is held"));
            }
        })
    });
    let message_bytes = entry().resource.variants.first().message().map_or(0, |message| message.len());
    let places_apart = store.bytes() / entries;
    let array = vec![1; (places_apart * entries) as usize + message_bytes];
    let copies = orders.map(|(entries, order)| {
        nanoseconds(entries, order, |number| {
            let (key, at) = (key(&mut path, number), (number * places_apart) as usize);
            buffer.clear();
            buffer.extend_from_slice(key.path);
            buffer.extend_from_slice(&array[at..at + message_bytes]);
        })
    });
    let figures = lookups.into_iter().chain(answers).chain(foreseen).chain(copies).map(|figure| format!("{figure:.1}"));
    format!("{},{}", store.bytes(), figures.collect::<Vec<_>>().join(","))
}

/// With a head like that of a file.
fn entry() -> Entry {
    let description = Description {
        media_type: Some("text/html; charset=utf-8"),
        modified: Some(1_000_000_000),
        etag: Some("\"17979cfe362a0000-0\""),
        ranges: true,
        ..Description::of(Status(200))
    };
    Entry::new(
        Resource::one(Status(200), Representation::with_content(&description, &CONTENT).expect("it is short")),
        Stamps::none(),
        NOW_MS,
    )
}

/// The key of this number, in `path`.
fn key(path: &mut [u8], mut number: u64) -> Key<'_> {
    for place in (DIGITS_AT..DIGITS_AT + 7).rev() {
        path[place] = b'0' + (number % 10) as u8;
        number /= 10;
    }
    Key { site: 0, path }
}

/// Where among all keys the one is that a number from 0 to 1 stands for.
type Order = fn(f64) -> f64;

/// Anywhere.
fn even(number: f64) -> f64 {
    number
}

/// The first ones more often: the share of the first `x` of a Zipf law is about `x` to the power 1 - 0.8.
fn zipf(number: f64) -> f64 {
    number.powi(5)
}

/// Nanoseconds for each of `entries` numbers in an order that no prefetcher guesses. The least of three rounds.
fn nanoseconds(entries: u64, order: Order, mut act: impl FnMut(u64)) -> f64 {
    let mut state = 1u64;
    let mut round = || {
        let begin = Instant::now();
        for _ in 0..LOOKUPS {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let place = order((state >> 40) as f64 / (1u64 << 24) as f64);
            // The popular ones are all over the memory.
            act((place * entries as f64) as u64 * 7_919 % entries);
        }
        begin.elapsed().as_nanos() as f64 / LOOKUPS as f64
    };
    (0..3).map(|_| round()).fold(f64::INFINITY, f64::min)
}
