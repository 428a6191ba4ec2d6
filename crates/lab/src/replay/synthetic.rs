//! Workloads that never were a log: Zipf's law over a number of files, and the six profiles of the PIPELINED paper.
//!
//! The fit of the profiles to the paper's Tables 4 and 5 is `lamna_sim`'s, which replays them in its models; here they
//! become requests over real sockets. Guarantees: the same name and seed give the same requests, for ever.

use std::fmt;

use lamna_sim::kernel::Stream;
use lamna_sim::workload::{Alias, PROFILES, Profile, file_sizes, zipf};

use super::read::anonymous_path;
use super::{File, Request, Skipped, Trace};

/// Requests of a synthetic trace for which no number was given.
const REQUESTS: u64 = 100_000;

/// Nominal interval of requests: synthetic workloads have no times of their own.
const INTERVAL_NS: u64 = 1_000_000;

/// Why a text does not name a synthetic workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownWorkload(String);

impl fmt::Display for UnknownWorkload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = PROFILES.iter().map(|profile| profile.name).collect();
        write!(f, "{}: neither zipf:FILES,EXPONENT,BYTES nor profile:NAME of {}", self.0, names.join(", "))
    }
}

impl std::error::Error for UnknownWorkload {}

/// Whether `name` means a synthetic workload and not a log file.
pub fn is_synthetic(name: &str) -> bool {
    name.starts_with("zipf:") || name.starts_with("profile:")
}

/// Files and how often each is asked for.
#[derive(Clone, Debug)]
pub struct Model {
    /// In the order of their popularity.
    pub files: Vec<File>,
    /// How often each is asked for, in comparison.
    pub weights: Vec<f64>,
}

impl Model {
    /// The workload called `name`: `zipf:FILES,EXPONENT,BYTES`, or `profile:NAME` of the PIPELINED paper.
    ///
    /// # Errors
    /// If there is none of that name.
    pub fn named(name: &str) -> Result<Model, UnknownWorkload> {
        let unknown = || UnknownWorkload(name.to_owned());
        match name.split_once(':').ok_or_else(unknown)? {
            ("profile", profile) => {
                let profile = Profile::named(profile).ok_or_else(unknown)?;
                Ok(Model::zipf(profile.files, profile.zipf_exponent, profile.data_set_bytes))
            }
            ("zipf", parameters) => zipf_of(parameters).ok_or_else(unknown),
            _ => Err(unknown()),
        }
    }

    /// Log-normal sizes that add up to `bytes`, asked for by Zipf's law.
    fn zipf(files: usize, exponent: f64, bytes: u64) -> Model {
        let file = |(number, bytes)| File { path: anonymous_path(number, "html"), bytes };
        Model { files: (0..).zip(file_sizes(files, bytes)).map(file).collect(), weights: zipf(files, exponent) }
    }

    /// Keeps the files that are asked for until they reach `data_set_bytes`, as Flash (6.2) cuts a log; all if they
    /// never do. The weights stay as they are.
    pub fn truncate(&mut self, data_set_bytes: u64, seed: u64) {
        if self.files.iter().map(|file| file.bytes).sum::<u64>() <= data_set_bytes {
            return;
        }
        let (alias, mut random) = (Alias::new(self.weights.clone()), Stream::new(seed, "truncate"));
        let (mut kept, mut bytes) = (vec![false; self.files.len()], 0);
        while bytes < data_set_bytes {
            let file = alias.draw(&mut random) as usize;
            if !std::mem::replace(&mut kept[file], true) {
                bytes += self.files[file].bytes;
            }
        }
        let mut keep = kept.iter();
        self.weights.retain(|_| *keep.next().expect("as many as files"));
        let mut keep = kept.iter();
        self.files.retain(|_| *keep.next().expect("as many as files"));
    }

    /// `count` requests one after the other.
    fn trace(self, name: &str, count: u64, seed: u64) -> Trace {
        let (alias, mut random) = (Alias::new(self.weights), Stream::new(seed, "requests"));
        let request = |number| Request { at_ns: number * INTERVAL_NS, file: alias.draw(&mut random) };
        Trace {
            name: name.to_owned(),
            files: self.files,
            requests: (0..count).map(request).collect(),
            skipped: Skipped::default(),
        }
    }
}

/// The workload called `name` as a sequence of requests.
///
/// # Errors
/// If there is none of that name.
pub fn synthetic(name: &str, requests: Option<u64>, seed: u64) -> Result<Trace, UnknownWorkload> {
    Ok(Model::named(name)?.trace(name, requests.unwrap_or(REQUESTS), seed))
}

fn zipf_of(parameters: &str) -> Option<Model> {
    let mut parameters = parameters.split(',');
    let files: usize = parameters.next()?.parse().ok().filter(|files| (1..=10_000_000).contains(files))?;
    let exponent: f64 = parameters.next()?.parse().ok().filter(|exponent| (0.0..=10.0).contains(exponent))?;
    let bytes: u64 = parameters.next()?.parse().ok()?;
    parameters.next().is_none().then(|| Model::zipf(files, exponent, bytes))
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashMap};

    use super::*;

    /// Share of the requests that a least-recently-used cache of `bytes` has, if it was filled by `before`, oldest
    /// first.
    fn lru_hits(trace: &Trace, before: impl Iterator<Item = u32>, bytes: u64) -> f64 {
        let (mut by_age, mut ages, mut held, mut hits) = (BTreeMap::new(), HashMap::new(), 0, 0);
        let requests = trace.requests.iter().map(|request| (request.file, true));
        for (now, (file, counts)) in before.map(|file| (file, false)).chain(requests).enumerate() {
            match ages.insert(file, now) {
                Some(age) => {
                    by_age.remove(&age);
                    hits += usize::from(counts);
                }
                None => held += trace.files[file as usize].bytes,
            }
            by_age.insert(now, file);
            while held > bytes {
                let Some((_, oldest)) = by_age.pop_first() else { break };
                ages.remove(&oldest);
                held -= trace.files[oldest as usize].bytes;
            }
        }
        hits as f64 / trace.requests.len() as f64
    }

    #[test]
    fn profiles_have_the_files_bytes_and_locality_of_the_paper() {
        for name in ["nasa", "worldcup98", "clarknet"] {
            let profile = Profile::named(name).expect("it is one of the six");
            let trace = synthetic(&format!("profile:{name}"), Some(300_000), 1).expect("it is one of the six");
            assert_eq!(trace.files.len(), profile.files);
            let bytes = trace.data_set_bytes() as f64 / profile.data_set_bytes as f64;
            assert!((bytes - 1.0).abs() < 0.01, "{name}: {bytes}");
            let before = profile.workload().recency(1).into_iter().rev();
            let hits = lru_hits(&trace, before, profile.locality_cache_bytes);
            assert!((hits - profile.locality).abs() < 0.001, "{name}: {hits} instead of {}", profile.locality);
        }
    }

    #[test]
    fn a_cut_model_has_the_size_and_keeps_the_popular_files() {
        let mut model = Model::named("zipf:1000,1.0,10000000").expect("valid");
        let (first, weight) = (model.files[0].clone(), model.weights[0]);
        model.truncate(5_000_000, 1);
        let bytes: u64 = model.files.iter().map(|file| file.bytes).sum();
        assert!((5_000_000..10_000_000).contains(&bytes), "{bytes}");
        assert_eq!((&model.files[0], model.weights[0]), (&first, weight));
        assert_eq!(model.files.len(), model.weights.len());
    }

    #[test]
    fn names_are_read_and_unknown_ones_listed() {
        let trace = synthetic("zipf:10,1.0,100000", Some(50), 1).expect("valid");
        assert_eq!((trace.files.len(), trace.requests.len()), (10, 50));
        assert_eq!(trace, synthetic("zipf:10,1.0,100000", Some(50), 1).expect("valid"));
        for name in ["zipf:0,1,1", "zipf:1,x,1", "zipf:1,1", "zipf:1,1,1,1", "profile:nobody", "other"] {
            let error = synthetic(name, None, 1).expect_err("no such workload");
            assert!(error.to_string().contains("worldcup98"), "{error}");
        }
    }
}
