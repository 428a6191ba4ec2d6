//! Logs as workloads: reading them, cutting them, asking a server for them again, and building the site they were
//! served from.
//!
//! Owns: the form in which a log is replayed ([`Trace`]) and what becomes a request. Reading is in [`mod@read`] and
//! [`mod@line`], workloads that never were a log in [`synthetic`], document roots in [`site`].
//!
//! A request is replayed if it was GET or HEAD and its file has a known size, that is, was sent once with status 200;
//! the rest was not served from files, or nothing is known to serve. What is left out is counted by reason, never
//! silently.

pub mod line;
pub mod read;
pub mod site;
pub mod synthetic;
mod time;

use std::sync::Arc;

use lamna_policy::words::count;

use crate::load::plan::{Order, Pace, Target};

/// A log, in the form in which it is replayed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    /// For reports.
    pub name: String,
    /// The requested files.
    pub files: Vec<File>,
    /// The requests, in the order of their times.
    pub requests: Vec<Request>,
    /// Counts of lines left out, by reason.
    pub skipped: Skipped,
}

/// A file of the site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Path and query, as asked for.
    pub path: String,
    /// Its size.
    pub bytes: u64,
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Nanoseconds since the first request.
    pub at_ns: u64,
    /// Index of the file.
    pub file: u32,
}

/// Lines that did not become requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Not of any format that is read.
    pub garbage: u64,
    /// The number of the first of them, from one.
    pub first_garbage: Option<u64>,
    /// Other methods than GET and HEAD.
    pub methods: u64,
    /// Files that were never sent with status 200.
    pub unknown_files: u64,
}

impl Skipped {
    /// In words; none if nothing was skipped.
    pub fn describe(&self) -> Option<String> {
        let mut parts = Vec::new();
        if let Some(line) = self.first_garbage {
            parts.push(format!("{} of no known format (the first is line {line})", count(self.garbage, "line")));
        }
        if self.methods > 0 {
            parts.push(format!("{} by other methods than GET and HEAD", count(self.methods, "request")));
        }
        if self.unknown_files > 0 {
            parts.push(format!("{} for files that were never sent whole", count(self.unknown_files, "request")));
        }
        (!parts.is_empty()).then(|| format!("skipped {}", parts.join(", ")))
    }
}

/// How fast a trace is replayed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Speed {
    /// So many times as fast as it was recorded; positive.
    Times(f64),
    /// As fast as the server answers.
    AsAnswered,
}

impl Trace {
    /// Bytes of all files.
    pub fn data_set_bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// From the first to the last request.
    pub fn span_ns(&self) -> u64 {
        self.requests.last().map_or(0, |request| request.at_ns)
    }

    /// Cuts the trace off where the files asked for so far reach `data_set_bytes`, as Flash (6.2) varies its data set;
    /// the whole trace if it has fewer. Files that are no longer asked for go as well.
    pub fn truncate(&mut self, data_set_bytes: u64) {
        let mut numbers: Vec<Option<u32>> = vec![None; self.files.len()];
        let (mut kept, mut bytes) = (Vec::new(), 0);
        let mut requests = std::mem::take(&mut self.requests);
        let mut length = 0;
        for request in &mut requests {
            if bytes >= data_set_bytes {
                break;
            }
            let file = request.file as usize;
            let number = *numbers[file].get_or_insert_with(|| {
                bytes += self.files[file].bytes;
                kept.push(self.files[file].clone());
                kept.len() as u32 - 1
            });
            request.file = number;
            length += 1;
        }
        requests.truncate(length);
        (self.files, self.requests) = (kept, requests);
    }

    /// The order in which a load generator asks, once or again and again.
    pub fn order(&self, looped: bool) -> Order {
        let targets: Arc<[u32]> = self.requests.iter().map(|request| request.file).collect();
        Order::Sequence { targets, looped }
    }

    /// When it asks. A turn that is repeated begins a second after the last request, the resolution of most logs.
    pub fn pace(&self, speed: Speed) -> Pace {
        match speed {
            Speed::AsAnswered => Pace::Closed { think: std::time::Duration::ZERO },
            Speed::Times(factor) => {
                let scaled = |ns: u64| (ns as f64 / factor) as u64;
                let due_ns = self.requests.iter().map(|request| scaled(request.at_ns)).collect();
                Pace::Times { due_ns, period_ns: scaled(self.span_ns() + 1_000_000_000) }
            }
        }
    }

    /// The targets of a load generator: one for each file, made by `target` from its path.
    pub fn targets(&self, target: impl Fn(&str) -> Target) -> Vec<Target> {
        self.files.iter().map(|file| target(&file.path)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(files: &[u64], asked: &[u32]) -> Trace {
        let file = |(number, &bytes): (usize, &u64)| File { path: format!("/{number}"), bytes };
        let request = |(second, &file): (usize, &u32)| Request { at_ns: second as u64 * 1_000_000_000, file };
        Trace {
            files: files.iter().enumerate().map(file).collect(),
            requests: asked.iter().enumerate().map(request).collect(),
            ..Trace::default()
        }
    }

    #[test]
    fn truncation_stops_when_the_files_reach_the_size() {
        let mut cut = trace(&[10, 20, 30, 40], &[3, 3, 1, 0, 1, 2]);
        cut.truncate(60);
        let paths: Vec<&str> = cut.files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(paths, ["/3", "/1"]);
        assert_eq!(cut.requests.iter().map(|request| request.file).collect::<Vec<_>>(), [0, 0, 1]);
        let mut whole = trace(&[10, 20], &[0, 1]);
        whole.truncate(1_000);
        assert_eq!((whole.files.len(), whole.requests.len()), (2, 2));
    }

    #[test]
    fn a_faster_replay_shortens_all_intervals() {
        let Pace::Times { due_ns, period_ns } = trace(&[1], &[0, 0, 0]).pace(Speed::Times(10.0)) else {
            panic!("a speed has times")
        };
        assert_eq!((&*due_ns, period_ns), (&[0, 100_000_000, 200_000_000][..], 300_000_000));
    }
}
