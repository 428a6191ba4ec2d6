//! What kind of load a server has, from what it counts.
//!
//! Owns: the kinds, and the bounds between them. They are kinds because the order of the engines' costs differs from one
//! to another, not because the load looks different.

/// What was measured in one interval, for the whole server.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reading {
    /// Length of the interval in milliseconds.
    pub interval_ms: u64,
    /// Requests answered.
    pub requests: u64,
    /// Connections accepted.
    pub accepted: u64,
    /// Connections that are open at its end, idle ones included.
    pub connections: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Names and stretches of files that could not be had without waiting for the disk.
    pub blocked: u64,
    /// CPU time of the server, user and system, in microseconds.
    pub cpu_us: u64,
}

impl Reading {
    /// Requests a second.
    pub fn requests_per_s(&self) -> f64 {
        self.requests as f64 * 1000.0 / self.interval_ms.max(1) as f64
    }

    /// CPU time per request in microseconds.
    pub fn cost_us(&self) -> f64 {
        self.cpu_us as f64 / self.requests.max(1) as f64
    }
}

/// A kind of load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Load {
    /// Small answers from memory on connections that persist.
    Cached,
    /// Some requests have to wait for the disk.
    Disk,
    /// Large answers from memory.
    Large,
    /// A new connection for nearly each request.
    Connections,
    /// Thousands of connections, most of them idle.
    Crowd,
}

impl Load {
    /// All of them.
    pub const ALL: [Load; 5] = [Load::Cached, Load::Disk, Load::Large, Load::Connections, Load::Crowd];

    /// The name in profiles and reports.
    pub fn name(self) -> &'static str {
        match self {
            Load::Cached => "cached",
            Load::Disk => "disk",
            Load::Large => "large",
            Load::Connections => "connections",
            Load::Crowd => "crowd",
        }
    }

    /// The load of this name.
    pub fn from_name(name: &str) -> Option<Load> {
        Load::ALL.into_iter().find(|load| load.name() == name)
    }
}

/// Requests a second below which there is nothing to gain.
const REQUESTS_PER_S_MIN: f64 = 20.0;
/// Waits for the disk, per thousand requests, from which on they matter.
const BLOCKED_PER_THOUSAND: u64 = 2;
/// Mean bytes per request from which on moving them is what costs.
const LARGE_BYTES: u64 = 128 * 1024;
/// Open connections from which on looking after them is what costs, if few are active.
const CROWD: u64 = 1_000;

/// The kind of load of a reading. None if there is hardly any.
pub(super) fn classify(reading: &Reading) -> Option<Load> {
    if reading.requests_per_s() < REQUESTS_PER_S_MIN && reading.blocked == 0 {
        return None;
    }
    let requests = reading.requests.max(1);
    if reading.blocked * 1000 > requests * BLOCKED_PER_THOUSAND {
        Some(Load::Disk)
    } else if reading.sent_bytes / requests >= LARGE_BYTES {
        Some(Load::Large)
    } else if reading.accepted * 2 > requests {
        Some(Load::Connections)
    } else if reading.connections >= CROWD && requests < reading.connections * 4 {
        Some(Load::Crowd)
    } else {
        Some(Load::Cached)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUSY: Reading = Reading {
        interval_ms: 500,
        requests: 10_000,
        accepted: 3,
        connections: 64,
        sent_bytes: 10_000 * 700,
        blocked: 0,
        cpu_us: 60_000,
    };

    #[test]
    fn each_kind_of_load_is_told_from_the_others() {
        let kinds = [
            (BUSY, Some(Load::Cached)),
            (Reading { blocked: 30, ..BUSY }, Some(Load::Disk)),
            (Reading { blocked: 3, ..BUSY }, Some(Load::Cached)),
            (Reading { sent_bytes: 10_000 << 18, ..BUSY }, Some(Load::Large)),
            (Reading { accepted: 9_000, ..BUSY }, Some(Load::Connections)),
            (Reading { connections: 10_000, ..BUSY }, Some(Load::Crowd)),
            (Reading { requests: 3, ..BUSY }, None),
            (Reading { requests: 0, blocked: 5, ..BUSY }, Some(Load::Disk)),
        ];
        for (reading, load) in kinds {
            assert_eq!(classify(&reading), load, "{reading:?}");
        }
    }

    #[test]
    fn names_are_understood() {
        assert!(Load::ALL.into_iter().all(|load| Load::from_name(load.name()) == Some(load)));
    }
}
