//! What a lookup costs with 100 to 1,000,000 cached entries: for a hundred hot keys, for keys as often asked for as a Zipf
//! law with exponent 0.8 says, and for keys from all over.
//!
//!     cargo run --release -p lamna-server --example cache_costs
//!
//! Prints nanoseconds of a hit in a worker's front, and of one in the store. No figure is judged here.

use std::sync::Arc;
use std::time::Instant;

use lamna_proto::message::Status;
use lamna_proto::resource::{Description, Representation, Resource};
use lamna_server::cache::generations::Key;
use lamna_server::cache::{Entry, Front, Lookup, Store};
use lamna_server::content::file::Stamps;

const HOT: usize = 100;
const LOOKUPS: usize = 2_000_000;
const NOW_MS: u64 = 5000;

fn main() {
    println!("entries,bytes,front_hot_ns,front_zipf_ns,front_all_ns,store_hot_ns,store_zipf_ns,store_all_ns");
    for entries in [100, 1_000, 10_000, 100_000, 1_000_000] {
        let store = Store::new(8 << 30, 1 << 20);
        let page =
            Arc::new(Resource::one(Status(404), Representation::with_content(&Description::of(Status(404)), b"x")));
        let paths: Vec<String> = (0..entries).map(|number| format!("/pub/directory/page{number:07}.html")).collect();
        let mut front = Front::new(&store);
        for path in &paths {
            store.insert(key(path), Arc::new(Entry::shared(page.clone(), Stamps::none(), NOW_MS)));
            assert!(matches!(front.lookup(&store, key(path), NOW_MS), Lookup::Fresh(_)));
        }
        let orders: [(&[String], Order); 3] = [(&paths[..HOT], even), (&paths, zipf), (&paths, even)];
        let fronts = orders.map(|(paths, order)| {
            nanoseconds(paths, order, |path| matches!(front.lookup(&store, key(path), NOW_MS), Lookup::Fresh(_)))
        });
        let stores =
            orders.map(|(paths, order)| nanoseconds(paths, order, |path| store.lookup(key(path), 1).is_some()));
        let figures: Vec<String> = fronts.into_iter().chain(stores).map(|figure| format!("{figure:.1}")).collect();
        println!("{entries},{},{}", store.bytes(), figures.join(","));
    }
}

fn key(path: &str) -> Key<'_> {
    Key { site: 0, path: path.as_bytes() }
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

/// Nanoseconds for each lookup of paths in an order that no prefetcher guesses. The least of three rounds.
fn nanoseconds(paths: &[String], order: Order, mut look_up: impl FnMut(&str) -> bool) -> f64 {
    let mut round = || {
        let (begin, mut number) = (Instant::now(), 1u64);
        for _ in 0..LOOKUPS {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let place = order((number >> 40) as f64 / (1u64 << 24) as f64);
            assert!(look_up(&paths[(place * paths.len() as f64) as usize]), "everything is cached");
        }
        begin.elapsed().as_nanos() as f64 / LOOKUPS as f64
    };
    (0..3).map(|_| round()).fold(f64::INFINITY, f64::min)
}
