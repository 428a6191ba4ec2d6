//! The laboratory as a program: it starts servers, measures them and writes results.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

/// Lamna's program. A test of the whole workspace has built it beside this package's; otherwise it is built now.
fn lamna() -> PathBuf {
    let lamna = Path::new(env!("CARGO_BIN_EXE_lamna-lab")).with_file_name("lamna");
    if !lamna.exists() {
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--quiet", "--package", "lamna"]);
        if lamna.parent().is_some_and(|directory| directory.ends_with("release")) {
            build.arg("--release");
        }
        assert!(build.status().expect("cargo is there").success(), "the server cannot be built");
    }
    lamna
}

/// Runs the program in `directory`.
fn lab(directory: &TempDir, arguments: &[&str]) -> Output {
    lamna();
    let mut program = Command::new(env!("CARGO_BIN_EXE_lamna-lab"));
    program.args(arguments).current_dir(directory.path()).output().expect("the program is built")
}

/// Exit code, standard output and standard error.
fn outcome(directory: &TempDir, arguments: &[&str]) -> (i32, String, String) {
    let output = lab(directory, arguments);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("the program prints UTF-8");
    let code = output.status.code().expect("the program is not killed");
    (code, text(output.stdout), text(output.stderr))
}

fn directory() -> TempDir {
    tempfile::tempdir().expect("a temporary directory can be made")
}

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
    let directory = directory();
    fs::write(directory.path().join("small.toml"), format!("{SCENARIO}\n{rest}")).expect("it can be written");
    let arguments = ["run", "small.toml", "--quick", "--results", "results", "--work", "work"];
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
fn the_program_measures_lamna_beside_the_floor() {
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
    let directory = directory();
    let (code, output, errors) = outcome(&directory, &["run", "memory", "--only", "nginx,lamna-sped"]);
    assert_eq!((code, output.as_str()), (2, ""));
    assert!(errors.contains("no chosen scenario measures lamna-sped"), "{errors}");
    assert!(!directory.path().join("results").exists());
}

#[test]
fn a_profile_that_was_measured_is_one_to_serve_with() {
    let directory = directory();
    fs::create_dir(directory.path().join("site")).unwrap();
    fs::write(directory.path().join("site/a.html"), "hello").unwrap();
    let arguments = ["tune", "--seconds", "0.05", "--rounds", "1", "--output", "profile.toml", "site"];
    let (code, _, errors) = outcome(&directory, &arguments);
    assert_eq!(code, 0, "{errors}");
    let text = fs::read_to_string(directory.path().join("profile.toml")).unwrap();
    for part in ["# Made by: lamna tune", "# cached: sped ", "[connections]", "thread-pool = { ratio = "] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let mut check = Command::new(lamna());
    let checked = check.args(["check", "--profile", "profile.toml", "site"]).current_dir(directory.path()).output();
    let checked = checked.expect("the program is built");
    assert!(checked.status.success(), "{checked:?}");
}

#[test]
fn a_directory_without_files_to_ask_for_is_not_measured() {
    let (code, _, errors) = outcome(&directory(), &["tune"]);
    assert_eq!(code, 2);
    assert!(errors.contains("no file of 1 byte to 64 KiB"), "{errors}");
}

#[test]
fn a_program_that_is_named_and_not_there_cannot_be_tuned() {
    let directory = directory();
    fs::write(directory.path().join("a.html"), "hello").unwrap();
    let (code, _, errors) = outcome(&directory, &["tune", "--lamna", "nowhere"]);
    assert_eq!(code, 1);
    assert!(errors.contains("lamna-lab: nowhere serve"), "{errors}");
}

#[test]
fn advice_takes_the_json_log_of_a_server_and_sizes_as_the_configuration_has_them() {
    let directory = directory();
    let line = r#"{"time":"2026-11-21T04:00:00.250Z","http.request.method":"GET","url.path":"/a","http.response.status_code":200,"bytes":9000}"#;
    fs::write(directory.path().join("log.json"), format!("{line}\n").repeat(50)).unwrap();
    let machine = ["--processors", "2", "--disk", "ssd", "--requests", "500"];
    for memory in ["64MiB", "64MB", "64M"] {
        let question = ["sim", "advise", "--log", "log.json", "--memory", memory];
        let (code, output, errors) = outcome(&directory, &[&question[..], &machine[..]].concat());
        assert_eq!(code, 0, "{errors}");
        assert!(errors.contains("50 requests of 1 file,"), "{errors}");
        assert!(output.contains("The next investment:") && !output.contains(" -"), "{output}");
    }
    fs::write(directory.path().join("other"), "nonsense\n").unwrap();
    let question = ["sim", "advise", "--log", "other", "--memory", "1GiB"];
    let (code, _, errors) = outcome(&directory, &[&question[..], &machine[..]].concat());
    assert_eq!(code, 1);
    assert!(errors.contains("1 line is of no known format") && !errors.contains("unpacked"), "{errors}");
}

#[test]
fn a_scenario_whose_log_is_not_here_says_where_it_would_be() {
    let (code, _, errors) = outcome(&directory(), &["run", "memory", "--quick"]);
    assert_eq!(code, 1, "{errors}");
    assert!(errors.contains("traces/nasa-19950801.csv.zst") && errors.contains("root of the source tree"), "{errors}");
}
