//! What a filter costs for each 64 KiB in each form: linked, as shared objects, and in WebAssembly.
//!
//!     cargo run --release -p lamna-server --features wasm --example filter_overhead -- rot13-c.so rot13-rust.so rot13.wasm
//!
//! Content goes through the same chain, in the same pieces, as when it is served. The figure is the median of 21 runs
//! of 512 pieces, in processor time of the thread.

#[path = "embedded/rot13.rs"]
mod rot13;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use lamna_filter::{Bounds, Chain, Content, Make, Step, Then};
use lamna_server::config::service::{NativeSettings, OnFailure, ServiceDefinition, WasmSettings, What};
use lamna_server::service::Registry;
use rustix::time::{ClockId, clock_gettime};

const PIECE_BYTES: usize = 64 << 10;
const PIECES: usize = 512;
const RUNS: usize = 21;

/// Gives every piece back as it is: what the chain itself costs.
#[derive(Debug)]
struct Nothing;

impl Make for Nothing {
    fn start(&self, _: &mut Content) -> Option<Box<dyn lamna_filter::Filter>> {
        Some(Box::new(Nothing))
    }
}

impl lamna_filter::Filter for Nothing {
    fn take(&mut self, piece: &[u8], out: &mut Vec<u8>) -> Result<(), lamna_filter::Fault> {
        out.extend_from_slice(piece);
        Ok(())
    }

    fn finish(&mut self, _: &mut Vec<u8>) -> Result<(), lamna_filter::Fault> {
        Ok(())
    }
}

fn main() {
    let linked = |make: Arc<dyn Make>| Chain::of(&[lamna_filter::Link::new("linked".to_owned(), make)]);
    report("a filter that does nothing, linked", &linked(Arc::new(Nothing)));
    report("rot13, linked", &linked(Arc::new(rot13::Rot13)));
    report("rot13, linked, as a service", &service(What::Embedded));
    for object in std::env::args_os().skip(1) {
        let name = format!("rot13, {}", object.to_string_lossy());
        let (file, parameters, time_max_ms) = (PathBuf::from(object), Default::default(), 1000);
        let what = match file.extension().is_some_and(|extension| extension == "wasm") {
            true => {
                let (memory_bytes_max, fuel_max) = (16 << 20, 1_000_000_000);
                What::Wasm(WasmSettings { component: file, parameters, time_max_ms, memory_bytes_max, fuel_max })
            }
            false => What::Native(NativeSettings { object: file, parameters, time_max_ms }),
        };
        report(&name, &service(what));
    }
}

fn service(what: What) -> Chain {
    let registry = Registry::with_embedded([("rot13".to_owned(), Arc::new(rot13::Rot13) as Arc<dyn Make>)].into());
    let definition =
        ServiceDefinition { name: "rot13".to_owned(), what, on_failure: OnFailure::Error, is_suspended: false };
    registry.set(&[definition]).unwrap_or_else(|why| panic!("{why}"));
    let step = Step { name: "rot13".to_owned(), parameters: Default::default() };
    registry.chain(&[step]).expect("it has just been made")
}

fn report(name: &str, chain: &Chain) {
    let content: Vec<u8> = b"Lorem ipsum dolor sit amet. ".iter().copied().cycle().take(PIECE_BYTES).collect();
    let mut runs: Vec<Duration> = (0..RUNS).map(|_| run(chain, &content)).collect();
    runs.sort_unstable();
    let each = runs[RUNS / 2] / PIECES as u32;
    println!("{name}: {:.1} us for each 64 KiB", each.as_nanos() as f64 / 1000.0);
}

/// Every piece in turn, as an answer of an application goes through a chain.
fn run(chain: &Chain, content: &[u8]) -> Duration {
    let bounds = Bounds { given: u64::MAX, held: 1 << 20 };
    let mut run = chain.start(&mut Content::new("text/plain"), bounds).expect("it takes text");
    let mut out = Vec::with_capacity(2 * PIECE_BYTES);
    let begun = thread_time();
    for _ in 0..PIECES {
        out.clear();
        let mut piece = content;
        while !run.go_on(&mut piece, Then::More, &mut out, 2 * PIECE_BYTES).expect("it does not fail") {}
        assert_eq!(out.len(), PIECE_BYTES);
    }
    thread_time() - begun
}

fn thread_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}
