//! Probe.
use lamna_sim::measure::load::*;
use lamna_sim::measure::server::*;
use std::time::Duration;
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let (arch, workers, bytes, conns, batch) = (
        &args[1],
        args[2].parse().unwrap(),
        args[3].parse::<u64>().unwrap(),
        args[4].parse().unwrap(),
        args[5].parse::<u32>().unwrap(),
    );
    let root = std::path::PathBuf::from("/work/tmp/sim/target/probe-root");
    std::fs::create_dir_all(&root).unwrap();
    std::fs::write(root.join(format!("f{bytes}")), vec![b'x'; bytes as usize]).unwrap();
    let s = ServerSettings {
        program: "/work/tmp/sim/target/release/lamna".into(),
        architecture: arch.clone(),
        workers,
        root,
        cache_bytes: 64 << 20,
        groups: vec![],
        processors: if workers == 1 { vec![0] } else { vec![] },
    };
    let server = Server::start(&s).unwrap().unwrap();
    if workers > 1 && !arch.starts_with("thread") {
        server.bind_workers(2).unwrap();
    }
    confined(&[1], || {
        run(&server, bytes, conns, batch, arch, workers);
        Ok(())
    })
    .unwrap();
}
fn run(server: &Server, bytes: u64, conns: u32, batch: u32, arch: &str, workers: u32) {
    let path = format!("/f{bytes}");
    let usage = if batch == 0 { Use::New } else { Use::Kept { batch } };
    let t = [if batch == 0 { Target::get_and_close(&path, bytes) } else { Target::get(&path, bytes) }];
    let mut load = Load::connect(server.address, conns, &t, usage).unwrap();
    load.run(Duration::from_millis(500), |_| 0).unwrap();
    let before = server.cpu_s().unwrap();
    let seen = load.run(Duration::from_millis(1500), |_| 0).unwrap();
    let cpu = server.cpu_s().unwrap() - before;
    let n = seen.completed as f64;
    println!(
        "{arch:20} w{workers} {bytes:6}B c{conns} b{batch}: {:8.0}/s p50 {:7.1} us p99 {:7.1}; server {:6.2} us/req ({:.0} %), client {:6.2} us ({:.0} %), {:.1} per wait",
        seen.requests_per_s(),
        seen.latency.quantile(0.5) as f64 / 1e3,
        seen.latency.quantile(0.99) as f64 / 1e3,
        cpu * 1e6 / n,
        cpu / seen.elapsed_s * 100.0,
        seen.cpu_s * 1e6 / n,
        seen.cpu_s / seen.elapsed_s * 100.0,
        n / seen.waits as f64
    );
}
