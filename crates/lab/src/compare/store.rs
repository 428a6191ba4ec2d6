//! Results as data: one file of JSON lines for each scenario, written measurement by measurement.
//!
//! Guarantees: whatever ends a run, what was measured before is there and is not measured again; a file made under
//! another scenario, length or mode is begun anew. A last line that was cut off is ignored.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Values;
use crate::machine::Machine;
use crate::statistics::{Estimate, estimate};

/// Under which circumstances.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// The scenario's name.
    pub scenario: String,
    /// Digest of the scenario's text and how it is run.
    pub digest: String,
    /// Whether it had to be quick.
    pub quick: bool,
    /// The machine.
    pub machine: Machine,
    /// The versions that servers report.
    pub versions: BTreeMap<String, String>,
    /// The command line.
    pub command: String,
    /// Length of a measurement.
    pub seconds: f64,
    /// Processors of the servers; none: any.
    pub server_processors: Vec<usize>,
    /// Processors of the load generator; none: any.
    pub client_processors: Vec<usize>,
}

/// A line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Record {
    /// The first line.
    Header(Header),
    /// A measurement.
    Sample {
        /// Name of the server.
        server: String,
        /// Label of the point.
        point: String,
        /// From zero.
        round: usize,
        /// By name of the metric.
        values: Values,
        /// Doubts of the load generator, without figures.
        doubts: Vec<String>,
    },
    /// A measurement that could not be made.
    Failure {
        /// Name of the server.
        server: String,
        /// Label of the point.
        point: String,
        /// In words.
        reason: String,
    },
}

/// All that is known of a scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct Results {
    /// Under which circumstances.
    pub header: Header,
    /// Samples and failures in the order in which they came.
    pub records: Vec<Record>,
}

/// A file of results being written.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    file: fs::File,
    results: Results,
}

impl Store {
    /// Opens the results of `header`'s scenario in `path`, or begins them anew if they are of another.
    ///
    /// # Errors
    /// If the file cannot be read or written.
    pub fn open(path: &Path, header: Header) -> io::Result<Store> {
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        let before = Results::read(path).ok().flatten().filter(|results| results.header.digest == header.digest);
        let mut results = before.unwrap_or(Results { header, records: Vec::new() });
        // What could not be measured may be possible now.
        results.records.retain(|record| !matches!(record, Record::Failure { .. }));
        // Written whole, so that a line that was cut off is gone.
        let mut file = fs::File::create(path)?;
        write_line(&mut file, &Record::Header(results.header.clone()))?;
        for record in &results.records {
            write_line(&mut file, record)?;
        }
        Ok(Store { path: path.to_owned(), file, results })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds a line.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn add(&mut self, record: Record) -> io::Result<()> {
        write_line(&mut self.file, &record)?;
        self.results.records.push(record);
        Ok(())
    }

    /// Whether this measurement was made.
    pub fn has(&self, server: &str, point: &str, round: usize) -> bool {
        let same = |record: &Record| matches!(record, Record::Sample { server: s, point: p, round: r, .. } if (s.as_str(), p.as_str(), *r) == (server, point, round));
        self.results.records.iter().any(same)
    }

    /// Whether this server failed at this point.
    pub fn has_failed(&self, server: &str, point: &str) -> bool {
        self.results.failure(server, point).is_some()
    }

    /// Whether nothing is left to measure.
    pub fn is_complete(&self, server: &str, point: &str, rounds: usize) -> bool {
        self.has_failed(server, point) || (0..rounds).all(|round| self.has(server, point, round))
    }

    /// The results so far.
    pub fn into_results(self) -> Results {
        self.results
    }
}

impl Results {
    /// Reads a file; none if it does not begin with a header.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn read(path: &Path) -> io::Result<Option<Results>> {
        let text = fs::read_to_string(path)?;
        let mut records = text.lines().map_while(|line| serde_json::from_str(line).ok());
        Ok(match records.next() {
            Some(Record::Header(header)) => Some(Results { header, records: records.collect() }),
            _ => None,
        })
    }

    /// Without what is about other servers.
    pub fn only(mut self, servers: &[String]) -> Results {
        self.records.retain(|record| match record {
            Record::Sample { server, .. } | Record::Failure { server, .. } => servers.contains(server),
            Record::Header(_) => true,
        });
        self
    }

    /// The samples of a metric.
    pub fn samples<'a>(&'a self, server: &'a str, point: &'a str, metric: &'a str) -> impl Iterator<Item = f64> + 'a {
        self.records.iter().filter_map(move |record| match record {
            Record::Sample { server: s, point: p, values, .. } if s == server && p == point => {
                values.get(metric).copied()
            }
            _ => None,
        })
    }

    /// Its median.
    pub fn estimate(&self, server: &str, point: &str, metric: &str) -> Option<Estimate> {
        estimate(self.samples(server, point, metric))
    }

    /// Why there are no samples.
    pub fn failure(&self, server: &str, point: &str) -> Option<&str> {
        self.records.iter().find_map(|record| match record {
            Record::Failure { server: s, point: p, reason } if s == server && p == point => Some(reason.as_str()),
            _ => None,
        })
    }

    /// Servers that were measured or failed, in the order of their first record.
    pub fn servers(&self) -> Vec<&str> {
        let mut servers = Vec::new();
        for record in &self.records {
            let (Record::Sample { server, .. } | Record::Failure { server, .. }) = record else { continue };
            if !servers.contains(&server.as_str()) {
                servers.push(server);
            }
        }
        servers
    }

    /// Doubts of the load generator, each with the number of measurements it was about.
    pub fn doubts(&self) -> BTreeMap<String, usize> {
        let mut doubts = BTreeMap::new();
        for record in &self.records {
            let Record::Sample { doubts: of_sample, .. } = record else { continue };
            for doubt in of_sample {
                *doubts.entry(doubt.clone()).or_default() += 1;
            }
        }
        doubts
    }
}

/// FNV-1a of a text, in hexadecimal: enough to notice that something changed.
pub fn digest(text: &str) -> String {
    let hash = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    format!("{hash:016x}")
}

fn write_line(file: &mut fs::File, record: &Record) -> io::Result<()> {
    let line = serde_json::to_string(record).map_err(io::Error::other)? + "\n";
    file.write_all(line.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(digest: &str) -> Header {
        Header {
            scenario: "s".into(),
            digest: digest.into(),
            quick: false,
            machine: Machine::default(),
            versions: BTreeMap::new(),
            command: String::new(),
            seconds: 1.0,
            server_processors: vec![],
            client_processors: vec![],
        }
    }

    fn sample(round: usize, value: f64) -> Record {
        let values = [("cpu_us".to_owned(), value)].into();
        Record::Sample { server: "a".into(), point: "p".into(), round, values, doubts: vec!["late".into()] }
    }

    #[test]
    fn an_interrupted_run_goes_on_where_it_was() {
        let directory = tempfile::tempdir().expect("a temporary directory can be made");
        let path = directory.path().join("s.jsonl");
        let mut store = Store::open(&path, header("1")).expect("it can be written");
        store.add(sample(0, 1.0)).expect("it can be written");
        store.add(sample(1, 3.0)).expect("it can be written");
        drop(store);
        let mut text = fs::read_to_string(&path).expect("it is there");
        text.push_str("{\"kind\":\"sample\",\"serv");
        fs::write(&path, text).expect("it is ours");
        let mut store = Store::open(&path, header("1")).expect("it can be read");
        assert!(store.has("a", "p", 1) && !store.has("a", "p", 2) && !store.is_complete("a", "p", 3));
        store.add(sample(2, 2.0)).expect("it can be written");
        assert!(store.is_complete("a", "p", 3));
        let results = Results::read(&path).expect("it is there").expect("it has a header");
        assert_eq!(results, store.into_results());
        assert_eq!(results.estimate("a", "p", "cpu_us").map(|estimate| estimate.median), Some(2.0));
        assert_eq!(results.doubts(), [("late".to_owned(), 3)].into());
    }

    #[test]
    fn other_circumstances_begin_anew() {
        let directory = tempfile::tempdir().expect("a temporary directory can be made");
        let path = directory.path().join("s.jsonl");
        Store::open(&path, header("1")).and_then(|mut store| store.add(sample(0, 1.0))).expect("it can be written");
        let store = Store::open(&path, header("2")).expect("it can be written");
        assert!(!store.has("a", "p", 0));
    }

    #[test]
    fn a_failure_is_final_for_its_point() {
        let directory = tempfile::tempdir().expect("a temporary directory can be made");
        let mut store = Store::open(&directory.path().join("s.jsonl"), header("1")).expect("it can be written");
        let (server, point, reason) = ("b".to_owned(), "p".to_owned(), "gone".to_owned());
        store.add(Record::Failure { server, point, reason }).expect("it can be written");
        assert!(store.is_complete("b", "p", 5) && !store.is_complete("b", "q", 5));
        assert_eq!(store.into_results().failure("b", "p"), Some("gone"));
    }
}
