//! The kind of load that a server has, from what it counts.
//!
//! Owns: the kinds, the bounds between them, and how near to a bound a load is. Two loads are of different kinds if the
//! order of the engines' costs differs between them. It is not enough that they look different.

/// The measurements of one interval, for the whole server.
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
    /// Time for which loops stood still in the middle of their work, neither on a processor nor waiting for one, in
    /// milliseconds, added up over all of them.
    pub stalled_ms: u64,
}

impl Reading {
    /// Requests a second.
    pub fn requests_per_s(&self) -> f64 {
        self.requests as f64 * 1000.0 / self.interval_ms.max(1) as f64
    }

    /// Whether loops stood still for a notable part of the interval.
    pub fn is_stalled(&self) -> bool {
        self.stalled_ms as f64 > STALLED * self.interval_ms as f64
    }

    /// CPU time as a part of that of one processor.
    pub fn processors(&self) -> f64 {
        self.cpu_us as f64 / (self.interval_ms.max(1) * 1000) as f64
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
const BLOCKED_PER_THOUSAND: f64 = 2.0;
/// Waits for the disk a second from which on they matter, however many requests need none: where one takes 5 ms, a loop
/// that waits itself stands still for a tenth of its time.
const BLOCKED_PER_S: f64 = 20.0;
/// Mean bytes per request from which on moving them is what costs.
const LARGE_BYTES: f64 = 128.0 * 1024.0 - 1.0;
/// Connections that are taken for each request on a connection that there was, from which on taking them is what costs.
const ACCEPTED: f64 = 1.0;
/// Open connections from which on looking after them is what costs, if few are active.
const CROWD: f64 = 999.0;
/// Open connections for each request of half a second, from which on few are active.
const CROWDED: f64 = 0.25;

/// Part of the time of one loop from which on it is stalled.
const STALLED: f64 = 0.05;
/// The part of a bound that is enough for a load that was of this kind before: so one at the bound does not go to and
/// fro.
const STICKS: f64 = 0.7;
/// How many times its bound, or what part of it, a load has to be to be clearly of one kind.
const CLEAR: f64 = 3.0;

/// The kind of load of a reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind {
    /// The kind that it is taken for.
    pub(super) load: Load,
    /// The kinds that it would be if the bounds were [`CLEAR`] times as low, and as high.
    pub(super) or: [Load; 2],
}

impl Kind {
    /// Whether it is far from every bound that matters.
    pub(super) fn is_clear(&self) -> bool {
        self.or.iter().all(|load| *load == self.load)
    }
}

/// The kind of load of a reading, after one of the kind `before`. None if there is hardly any.
pub(super) fn classify(reading: &Reading, before: Option<Load>) -> Option<Kind> {
    if reading.requests_per_s() < REQUESTS_PER_S_MIN && reading.blocked == 0 {
        return None;
    }
    let or = [1.0 / CLEAR, CLEAR].map(|scale| load(reading, None, scale));
    Some(Kind { load: load(reading, before, 1.0), or })
}

/// The kind of load by bounds that are `scale` times as high.
fn load(reading: &Reading, before: Option<Load>, scale: f64) -> Load {
    let requests = reading.requests.max(1) as f64;
    let reaches =
        |load: Load, value: f64, bound: f64| value > bound * scale * if before == Some(load) { STICKS } else { 1.0 };
    let of_each = |number: u64| number as f64 / requests;
    let blocked_per_s = reading.blocked as f64 * 1000.0 / reading.interval_ms.max(1) as f64;
    let on_open_connections = reading.requests.saturating_sub(reading.accepted).max(1) as f64;
    if reaches(Load::Disk, of_each(reading.blocked) * 1000.0, BLOCKED_PER_THOUSAND)
        || reaches(Load::Disk, blocked_per_s, BLOCKED_PER_S)
        || reading.is_stalled()
    {
        Load::Disk
    } else if reaches(Load::Large, of_each(reading.sent_bytes), LARGE_BYTES) {
        Load::Large
    } else if reaches(Load::Connections, reading.accepted as f64 / on_open_connections, ACCEPTED) {
        Load::Connections
    } else if reaches(Load::Crowd, reading.connections as f64, CROWD)
        && reaches(Load::Crowd, of_each(reading.connections), CROWDED)
    {
        Load::Crowd
    } else {
        Load::Cached
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
        stalled_ms: 0,
    };

    #[test]
    fn each_kind_of_load_is_told_from_the_others() {
        let kinds = [
            (BUSY, Some(Load::Cached)),
            (Reading { blocked: 30, ..BUSY }, Some(Load::Disk)),
            (Reading { blocked: 3, ..BUSY }, Some(Load::Cached)),
            (Reading { requests: 100_000, blocked: 100, ..BUSY }, Some(Load::Disk)),
            (Reading { sent_bytes: 10_000 << 18, ..BUSY }, Some(Load::Large)),
            (Reading { accepted: 9_000, ..BUSY }, Some(Load::Connections)),
            (Reading { connections: 10_000, ..BUSY }, Some(Load::Crowd)),
            (Reading { requests: 3, ..BUSY }, None),
            (Reading { requests: 0, blocked: 5, ..BUSY }, Some(Load::Disk)),
            (Reading { stalled_ms: 100, ..BUSY }, Some(Load::Disk)),
            (Reading { stalled_ms: 20, ..BUSY }, Some(Load::Cached)),
        ];
        for (reading, load) in kinds {
            let kind = |before| classify(&reading, before).map(|kind| kind.load);
            assert_eq!(kind(None), load, "{reading:?}");
            assert_eq!(kind(Some(Load::Cached)), load, "{reading:?}");
        }
    }

    #[test]
    fn a_load_at_the_bound_stays_of_the_kind_that_it_was() {
        for (below, load) in [
            (Reading { blocked: 8, ..BUSY }, Load::Disk),
            (Reading { sent_bytes: 10_000 * 100_000, ..BUSY }, Load::Large),
            (Reading { accepted: 4_500, ..BUSY }, Load::Connections),
            (Reading { connections: 900, requests: 2_000, ..BUSY }, Load::Crowd),
        ] {
            let kind = |reading, before| classify(reading, before).map(|kind| kind.load);
            assert_eq!(kind(&below, None), Some(Load::Cached), "{below:?}");
            assert_eq!(kind(&below, Some(load)), Some(load), "{below:?}");
            assert_eq!(kind(&BUSY, Some(load)), Some(Load::Cached));
            assert!(classify(&below, None).is_some_and(|kind| !kind.is_clear() && kind.or.contains(&load)));
        }
    }

    #[test]
    fn what_is_far_from_every_bound_is_clear() {
        for reading in [
            BUSY,
            Reading { blocked: 200, ..BUSY },
            Reading { sent_bytes: 10_000 << 20, ..BUSY },
            Reading { accepted: 10_000, ..BUSY },
            Reading { connections: 10_000, ..BUSY },
        ] {
            assert!(classify(&reading, None).is_some_and(|kind| kind.is_clear()), "{reading:?}");
        }
    }

    #[test]
    fn names_are_understood() {
        assert!(Load::ALL.into_iter().all(|load| Load::from_name(load.name()) == Some(load)));
    }
}
