//! The laboratory as a program: it starts servers, measures them and writes results.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;

use crate::{directory_with, outcome};

const SCENARIO: &str = r#"
name = "small"
title = "A small one"
question = "Does it work?"
source = "none"
finding = "none"
expected = "it does"
metrics = ["cpu_us", "system_calls"]
site = { file_bytes = 500 }
load = { connections = 2, quick_seconds = 0.1, quick_rounds = 1 }
"#;

/// The figures of each server; a server that could not be measured fails the test.
fn run(rest: &str) -> BTreeMap<String, Value> {
    let directory = directory_with("");
    fs::write(directory.path().join("small.toml"), format!("{SCENARIO}\n{rest}")).expect("it can be written");
    let arguments = ["lab", "run", "small.toml", "--quick", "--results", "results", "--work", "work"];
    let (code, _, errors) = outcome(&directory, &arguments);
    assert_eq!(code, 0, "{errors}");
    let text = fs::read_to_string(directory.path().join("results/small.jsonl")).expect("it was written");
    let records = text.lines().skip(1).map(|line| serde_json::from_str::<Value>(line).expect("lines are JSON"));
    let measured = records.map(|record| {
        assert_eq!(record["kind"], "sample", "{record}");
        (record["server"].as_str().expect("samples name their server").to_owned(), record["values"].clone())
    });
    measured.collect()
}

#[test]
fn the_program_measures_itself_beside_the_floor() {
    let measured = run("procedure = \"throughput\"\nservers = [\"floor\", \"lamna\", \"lamna-mp\"]\n");
    assert_eq!(measured.keys().collect::<Vec<_>>(), ["floor", "lamna", "lamna-mp"]);
    for (server, values) in &measured {
        assert!(values["cpu_us"].as_f64() > Some(0.0) && values["errors"].as_f64() == Some(0.0), "{server}: {values}");
    }
}

#[test]
fn every_engine_keeps_an_account_of_its_time() {
    let engines = ["sped", "amped", "co-amped", "proactor", "pipelined", "mp", "thread-pool", "thread-per-request"];
    let variants =
        engines.map(|engine| format!("[[variant]]\nname = \"{engine}\"\nof = \"lamna-{engine}\"\naccount = true\n"));
    let names = engines.map(|engine| format!("\"{engine}\"")).join(", ");
    // A scenario's own keys come before its tables.
    let measured = run(&format!("procedure = \"whitebox\"\nservers = [{names}]\n{}", variants.concat()));
    for engine in engines {
        let of = |metric: &str| measured[engine][metric].as_f64().expect("every category has a figure");
        let io = if engine == "proactor" { of("ring_us") } else { of("writing_us").min(of("reading_us")) };
        assert!(io > 0.0 && of("http_us") > 0.0, "{engine}: {}", measured[engine]);
    }
}

#[test]
fn a_server_that_no_chosen_scenario_measures_is_an_error_and_not_an_empty_table() {
    let directory = directory_with("");
    let (code, output, errors) = outcome(&directory, &["lab", "run", "memory", "--only", "nginx,lamna-sped"]);
    assert_eq!((code, output.as_str()), (2, ""));
    assert!(errors.contains("no chosen scenario measures lamna-sped"), "{errors}");
    assert!(!directory.path().join("results").exists());
}
