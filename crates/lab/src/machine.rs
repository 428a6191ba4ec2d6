//! The machine that a measurement was made on.

use std::fs;

use serde::{Deserialize, Serialize};

/// A machine, as far as it matters for figures.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Name of the processor.
    pub processor: String,
    /// How many of them.
    pub processors: usize,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// Kernel and its release.
    pub kernel: String,
}

impl Machine {
    /// This one.
    pub fn this() -> Machine {
        let line = |file: &str, name: &str| {
            let text = fs::read_to_string(file).unwrap_or_default();
            let line = text
                .lines()
                .find_map(|line| line.strip_prefix(name)?.split_once(':').map(|(_, value)| value.trim().to_owned()));
            line.unwrap_or_default()
        };
        let memory_kib = line("/proc/meminfo", "MemTotal");
        let memory_kib = memory_kib.split(' ').next().and_then(|number| number.parse::<u64>().ok());
        let system = rustix::system::uname();
        Machine {
            processor: line("/proc/cpuinfo", "model name"),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            memory_mib: memory_kib.unwrap_or(0) / 1024,
            kernel: format!("{} {}", system.sysname().to_string_lossy(), system.release().to_string_lossy()),
        }
    }

    /// In a line.
    pub fn describe(&self) -> String {
        format!("{} x {}, {} MiB, {}", self.processors, self.processor, self.memory_mib, self.kernel)
    }
}
