//! Workloads have the figures they are fitted to, and what is read from files is what is in them.

use std::fs;

use lamna_sim::parameters::Parameters;
use lamna_sim::workload::{PROFILES, Workload, file_sizes, fit_exponent, lru_hit_ratio, read_trace, zipf};

#[test]
fn each_profile_has_its_data_set_and_its_locality() {
    for profile in &PROFILES {
        let sizes = file_sizes(profile.files, profile.data_set_bytes);
        let bytes: u64 = sizes.iter().sum();
        assert!((bytes as f64 / profile.data_set_bytes as f64 - 1.0).abs() < 0.001, "{}", profile.name);
        let weights = zipf(profile.files, profile.zipf_exponent);
        let hits = lru_hit_ratio(&weights, &sizes, profile.locality_cache_bytes);
        assert!((hits - profile.locality).abs() < 0.0005, "{}: {hits}", profile.name);
    }
}

#[test]
fn the_exponent_of_the_smallest_profile_is_found_again() {
    let profile = PROFILES.iter().find(|profile| profile.name == "nasa").expect("it is there");
    assert!((fit_exponent(profile) - profile.zipf_exponent).abs() < 0.001);
}

#[test]
fn an_lru_cache_driven_by_the_workload_has_the_computed_hit_ratio() {
    use lamna_policy::cache::{Algorithm, Bounded, ObjectId, Objective};
    let profile = PROFILES.iter().find(|profile| profile.name == "nasa").expect("it is there");
    let workload = profile.workload();
    let cache_bytes = 20 << 20;
    let mut cache = Bounded::new(Algorithm::Lru, Objective::Requests, cache_bytes);
    for &file in workload.recency(1).iter().rev() {
        let _ = cache.offer(ObjectId(file), workload.sizes[file as usize], |_| ());
    }
    let mut requests = workload.requests(1);
    let (mut hits, total) = (0, 400_000);
    for _ in 0..total {
        let file = ObjectId(requests.next_file());
        if cache.request(file) {
            hits += 1;
        } else {
            let _ = cache.offer(file, workload.sizes[file.0 as usize], |_| ());
        }
    }
    let weights = zipf(profile.files, profile.zipf_exponent);
    let expected = 1.0 - lru_hit_ratio(&weights, &workload.sizes, cache_bytes);
    let found = 1.0 - f64::from(hits) / f64::from(total);
    assert!((found / expected - 1.0).abs() < 0.05, "{found} against {expected}");
}

#[test]
fn draws_have_the_weights_they_were_given() {
    let workload = Workload::independent("four", vec![1; 4], vec![1.0, 2.0, 3.0, 4.0]);
    let mut requests = workload.requests(5);
    let mut counts = [0.0; 4];
    (0..400_000).for_each(|_| counts[requests.next_file() as usize] += 1.0);
    for (file, count) in counts.iter().enumerate() {
        assert!((count / 40_000.0 / (file as f64 + 1.0) - 1.0).abs() < 0.02, "{counts:?}");
    }
}

#[test]
fn a_trace_is_read_in_its_order_without_files_of_unknown_size() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("tiny.csv");
    fs::write(&path, "seconds,method,file,status,bytes\n0,GET,1,200,10\n1,GET,2,404,5\n2,GET,3,304,0\n")
        .expect("written");
    fs::write(folder.path().join("tiny.files.csv"), "file,ext,size\n1,html,10\n2,gif,\n3,html,30\n").expect("written");
    let workload = read_trace(&path).expect("a trace");
    let mut requests = workload.requests(0);
    let sizes: Vec<_> = (0..4).map(|_| workload.sizes[requests.next_file() as usize]).collect();
    assert_eq!(sizes, [10, 30, 10, 30]);
    assert_eq!(workload.data_set_bytes(), 40);
}

#[test]
fn built_in_parameter_sets_are_valid() {
    assert_eq!(Parameters::paper().name, "paper-2005");
    assert_eq!(Parameters::linux().name, "linux-2026");
    assert!(Parameters::named("no-such-set").is_err());
}

#[test]
fn the_measured_parameter_set_is_valid() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../results/sim/amd-epyc-2.toml");
    let parameters = Parameters::named(path).expect("it was written by calibrate");
    assert!(parameters.disks.contains_key("this"));
}

#[test]
fn every_scenario_file_is_valid() {
    use lamna_sim::scenario::Scenario;
    use lamna_sim::sweep::Sweep;
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios");
    for entry in fs::read_dir(folder).expect("the folder is there") {
        let path = entry.expect("readable").path();
        let text = fs::read_to_string(&path).expect("readable");
        let valid = toml::from_str::<Scenario>(&text).is_ok() || toml::from_str::<Sweep>(&text).is_ok();
        assert!(valid, "{}", path.display());
    }
}
