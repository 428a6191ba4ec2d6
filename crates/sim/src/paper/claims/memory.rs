//! Claims about memory (section 3, figures 2 and 3): no simulation needed.

use super::{Claim, Finding, above, claim, meets};
use crate::arch::Kind;
use crate::parameters::Parameters;
use crate::run::data_cache_bytes;
use crate::scenario::Scenario;

const MIB: f64 = (1 << 20) as f64;

pub(super) fn claims(parameters: &Parameters) -> Vec<Claim> {
    let cache = |kind, processors, gibibytes: u64| cache(parameters, kind, processors, gibibytes);
    let kept = |kind| cache(kind, 16, 4) / cache(kind, 1, 4);
    let all = |test: &dyn Fn(u32, u64) -> bool| (1..=16).all(|n| (1..=4).all(|gib| test(n, gib)));
    let share = |kind| format!("{:.1} %", kept(kind) * 100.0);
    vec![
        claim("3.1", "one Flash server needs 8.7 MB beside 100 MB of data", overhead_of(parameters, 100.0, 1, 8.7), ""),
        claim(
            "3.1",
            "eight Flash servers need 120 MB beside 100 MB (figure 2a, measured)",
            overhead_of(parameters, 100.0, 8, 120.0),
            "Table 1's formula gives 5.4 + 3 MB a server and nothing that grows faster than their number",
        ),
        claim(
            "3.1",
            "eight Flash servers need almost 200 MB beside 200 MB (figure 2b, measured)",
            overhead_of(parameters, 200.0, 8, 200.0),
            "as above",
        ),
        claim(
            "3.4",
            "MP: data cache falls drastically with processors",
            Some((format!("16 processors leave {} of what 1 leaves", share(Kind::Mp)), kept(Kind::Mp) < 0.5)),
            "",
        ),
        claim(
            "3.4",
            "MT: data cache almost constant",
            Some((share(Kind::ThreadPool), kept(Kind::ThreadPool) > 0.95)),
            "",
        ),
        claim(
            "3.4",
            "SPED, AMPED: data cache falls with processors",
            Some((
                format!("SPED {}, AMPED {}", share(Kind::Sped), share(Kind::CoAmped)),
                kept(Kind::Sped) < 0.9 && kept(Kind::CoAmped) < 0.9,
            )),
            "",
        ),
        claim(
            "3.4",
            "AMPED has less data cache than SPED",
            Some((
                format!(
                    "{:.0} against {:.0} MiB at 16 processors, 1 GiB",
                    cache(Kind::CoAmped, 16, 1) / MIB,
                    cache(Kind::Sped, 16, 1) / MIB
                ),
                all(&|n, gib| cache(Kind::CoAmped, n, gib) < cache(Kind::Sped, n, gib)),
            )),
            "",
        ),
        claim(
            "4",
            "PIPELINED: data cache almost constant",
            Some((share(Kind::Pipelined), kept(Kind::Pipelined) > 0.95)),
            "",
        ),
        claim(
            "4",
            "PIPELINED needs marginally less than MT",
            Some((
                format!(
                    "{:.1} MiB less at 16 processors",
                    (cache(Kind::Pipelined, 16, 4) - cache(Kind::ThreadPool, 16, 4)) / MIB
                ),
                all(&|n, gib| cache(Kind::Pipelined, n, gib) > cache(Kind::ThreadPool, n, gib)),
            )),
            "",
        ),
        claim(
            "4",
            "PIPELINED has about a tenth of MT's threads",
            Some((
                format!("{:.1} times fewer", f64::from(parameters.concurrency.threads_per_processor) / 7.0),
                meets(f64::from(parameters.concurrency.threads_per_processor) / 7.0, 10.0),
            )),
            "",
        ),
        claim(
            "6.1",
            "AMPED needs 8 times PIPELINED's overhead with 16 processors (CSE, 4 GB)",
            ratio(parameters),
            "with a private share of the memory, Table 1's formula for one process does not contain the copies",
        ),
    ]
}

fn cache(parameters: &Parameters, architecture: Kind, processors: u32, gibibytes: u64) -> f64 {
    let scenario = Scenario { architecture, processors, system_memory_bytes: gibibytes << 30, ..Default::default() };
    data_cache_bytes(&scenario, parameters) as f64
}

/// Structures of `mib` of data, path translations and helpers, for so many AMPED processes; met within a tenth.
fn overhead_of(parameters: &Parameters, mib: f64, servers: u32, said: f64) -> Finding {
    let memory = &parameters.memory;
    let entries = mib * MIB / memory.file_bytes_mean as f64 * memory.entry_bytes as f64;
    let translations = memory.translation_entries as f64 * 125.0;
    let helpers = 2.0 * memory.helper_bytes as f64;
    let found = f64::from(servers) * (entries + translations + helpers) / MIB;
    Some((format!("{found:.1} MiB"), (found / said - 1.0).abs() < 0.1))
}

fn ratio(parameters: &Parameters) -> Finding {
    let overhead = |architecture: Kind| {
        let scenario = Scenario { architecture, processors: 16, ..Default::default() };
        let overhead = architecture.overhead(&scenario, parameters);
        overhead.divide(scenario.system_memory_bytes, parameters.memory.file_bytes_mean as f64).overhead_bytes as f64
    };
    let ratio = overhead(Kind::CoAmped) / overhead(Kind::Pipelined);
    Some((format!("{ratio:.1} times"), above(ratio, 8.0).abs() < 15.0))
}
