//! Hit ratios of the replacement policies on a workload, without a server around them: the policies of `lamna_policy`
//! driven by the same requests, at cache sizes given as shares of the data set.
//!
//! With sizes all equal, the offline optimum (Belady, 1966: evict what is needed latest) is a bound for every policy;
//! with real sizes the optimum is not computable in reasonable time and is left out.

use std::collections::BinaryHeap;

use lamna_policy::cache::{Admission, Algorithm, Bounded, ObjectId, Objective};
use serde::Serialize;

use crate::report::{Panel, Series};
use crate::workload::{FileId, Workload};

/// One policy at one size.
#[derive(Clone, Debug, Serialize)]
pub struct HitRatio {
    /// The name of the workload.
    pub workload: String,
    /// The policy's name; `+filter` with the size-aware admission filter; `optimal` for the bound.
    pub policy: String,
    /// Whether every file counted as one unit.
    pub equal_sizes: bool,
    /// The cache as a share of the data set.
    pub share: f64,
    /// Requests found.
    pub hit_ratio: f64,
    /// Bytes found; equal to `hit_ratio` for equal sizes.
    pub byte_hit_ratio: f64,
}

/// Drives every policy, with and without the filter, with `requests` requests after as many to warm up (at most once
/// through a log, so that its first requests are not forgotten compulsory misses).
pub fn hit_ratios(workload: &Workload, shares: &[f64], requests: usize, seed: u64) -> Vec<HitRatio> {
    let requests = workload.period().map_or(requests, |period| period.min(requests));
    let mut source = workload.requests(seed);
    let order: Vec<FileId> = (0..2 * requests).map(|_| source.next_file()).collect();
    let unit = vec![1; workload.sizes.len()];
    let mut results = Vec::new();
    for equal_sizes in [false, true] {
        let sizes: &[u64] = if equal_sizes { &unit } else { &workload.sizes };
        let total: u64 = sizes.iter().sum();
        for &share in shares {
            let bound = (total as f64 * share) as u64;
            let mut add = |policy: String, (hit_ratio, byte_hit_ratio)| {
                let workload = workload.name.clone();
                results.push(HitRatio { workload, policy, equal_sizes, share, hit_ratio, byte_hit_ratio });
            };
            for algorithm in Algorithm::ALL {
                let cache = || Bounded::new(algorithm, Objective::Requests, bound);
                add(algorithm.name().into(), drive(cache(), &order, sizes));
                let fitting = bound / (total / sizes.len() as u64).max(1);
                let filter = Admission::new(Objective::Requests, bound / 10, fitting * 10);
                add(format!("{}+filter", algorithm.name()), drive(cache().with_admission(filter), &order, sizes));
            }
            if equal_sizes {
                add("optimal".into(), optimal(&order, bound as usize, sizes.len()));
            }
        }
    }
    results
}

/// As CSV.
pub fn hit_ratios_csv(results: &[HitRatio]) -> String {
    let mut text = String::from("workload,policy,equal_sizes,share,hit_ratio,byte_hit_ratio\n");
    for r in results {
        let HitRatio { workload, policy, equal_sizes, share, hit_ratio, byte_hit_ratio } = r;
        text.push_str(&format!("{workload},{policy},{equal_sizes},{share},{hit_ratio:.5},{byte_hit_ratio:.5}\n"));
    }
    text
}

/// As pictures: for each workload one with the real sizes and one with equal ones.
pub fn hit_ratio_panels(results: &[HitRatio]) -> Vec<Panel> {
    let mut workloads: Vec<&str> = results.iter().map(|result| &*result.workload).collect();
    workloads.dedup();
    workloads.into_iter().flat_map(|name| [false, true].map(|equal_sizes| panel(name, equal_sizes, results))).collect()
}

fn panel(workload: &str, equal_sizes: bool, results: &[HitRatio]) -> Panel {
    // One filtered policy shows what the filter does; all of them would hide the rest.
    let is_drawn = |policy: &str| !policy.ends_with("+filter") || policy == "lru+filter";
    let mut series: Vec<Series> = Vec::new();
    for result in results.iter().filter(|r| r.workload == workload && r.equal_sizes == equal_sizes) {
        let point = (result.share * 100.0, result.hit_ratio * 100.0);
        match series.iter_mut().find(|series| series.name == result.policy) {
            Some(series) => series.points.push(point),
            None if is_drawn(&result.policy) => {
                series.push(Series { name: result.policy.clone(), points: vec![point] });
            }
            None => {}
        }
    }
    let kind = if equal_sizes { "all sizes equal" } else { "real sizes" };
    let title = format!("{workload}, {kind}");
    Panel { title, x: "cache, % of the data set".into(), y: "hits, %".into(), series }
}

/// Hit ratios over the second half of `order`.
fn drive(mut cache: Bounded, order: &[FileId], sizes: &[u64]) -> (f64, f64) {
    let (mut hits, mut bytes, mut bytes_found) = (0_u64, 0, 0);
    for (number, &file) in order.iter().enumerate() {
        let size = sizes[file as usize];
        let hit = cache.request(ObjectId(file));
        if !hit {
            let _ = cache.offer(ObjectId(file), size, |_| ());
        }
        if number >= order.len() / 2 {
            bytes += size;
            hits += u64::from(hit);
            bytes_found += if hit { size } else { 0 };
        }
    }
    (hits as f64 / (order.len() / 2).max(1) as f64, bytes_found as f64 / bytes.max(1) as f64)
}

/// The most hits any policy can have with room for `room` equal objects, over the second half of `order`.
fn optimal(order: &[FileId], room: usize, files: usize) -> (f64, f64) {
    let mut next_use = vec![usize::MAX; order.len()];
    let mut last = vec![usize::MAX; files];
    for (number, &file) in order.iter().enumerate().rev() {
        next_use[number] = std::mem::replace(&mut last[file as usize], number);
    }
    // Held files by next use; entries that no longer agree with `needed` are stale.
    let mut needed = vec![None; files];
    let mut latest = BinaryHeap::new();
    let (mut held, mut hits) = (0, 0_u64);
    for (number, &file) in order.iter().enumerate() {
        let hit = needed[file as usize].is_some();
        hits += u64::from(hit && number >= order.len() / 2);
        held += usize::from(!hit);
        needed[file as usize] = Some(next_use[number]);
        latest.push((next_use[number], file));
        while held > room {
            let Some((next, victim)) = latest.pop() else {
                break;
            };
            if needed[victim as usize] == Some(next) {
                needed[victim as usize] = None;
                held -= 1;
            }
        }
    }
    let ratio = hits as f64 / (order.len() / 2).max(1) as f64;
    (ratio, ratio)
}
