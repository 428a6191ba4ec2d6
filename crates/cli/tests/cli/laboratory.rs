//! `lamna lab`, `load`, `replay`, `sim` and `tune` run the program `lamna-lab`, wherever that is.

use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

/// A directory with a copy of the built program, without `lamna-lab` beside it.
fn alone() -> TempDir {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    shell(directory.path(), "ln \"$1\" lamna 2>/dev/null || cp \"$1\" lamna", env!("CARGO_BIN_EXE_lamna"));
    directory
}

/// A program `lamna-lab` in `directory` that prints `name` and the words that it is given, and ends with 7.
fn put_laboratory(directory: &Path, name: &str) {
    let text = format!("#!/bin/sh\necho \"{name}: $*\"\nexit 7\n");
    shell(directory, "printf %s \"$1\" > lamna-lab && chmod +x lamna-lab", &text);
}

/// Programs are written by another process: while this one writes a file, a process that another test starts may have
/// it open as well, and nobody can run it (ETXTBSY).
fn shell(directory: &Path, script: &str, argument: &str) {
    let mut shell = Command::new("/bin/sh");
    let status = shell.args(["-c", script, "sh", argument]).current_dir(directory).status();
    assert!(status.expect("there is a shell").success(), "{script}");
}

fn run(program: &Path, path: &Path, words: &[&str]) -> Output {
    Command::new(program.join("lamna")).args(words).env("PATH", path).output().expect("the program is there")
}

#[test]
fn the_laboratory_beside_the_program_goes_before_the_one_on_the_path() {
    let (program, path) = (alone(), tempfile::tempdir().unwrap());
    put_laboratory(path.path(), "path");
    let output = run(program.path(), path.path(), &["sim", "policies", "--requests", "5"]);
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "path: sim policies --requests 5\n");

    put_laboratory(program.path(), "beside");
    for (words, passed) in [
        (&["lab", "run", "cached", "--quick"][..], "run cached --quick"),
        (&["lab", "--help"], "--help"),
        (&["load", "-n", "5", "http://127.0.0.1:1/"], "load -n 5 http://127.0.0.1:1/"),
        (&["replay", "--help"], "replay --help"),
        (&["tune"], "tune"),
    ] {
        let output = run(program.path(), path.path(), words);
        assert_eq!(output.status.code(), Some(7), "{output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), format!("beside: {passed}\n"));
    }
}

#[test]
fn without_the_laboratory_it_is_said_how_to_get_it() {
    let (program, path) = (alone(), tempfile::tempdir().unwrap());
    for command in ["lab", "load", "replay", "sim", "tune"] {
        let output = run(program.path(), path.path(), &[command, "--help"]);
        assert_eq!(output.status.code(), Some(69), "{output:?}");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            errors.contains("lamna-lab") && errors.contains("cargo install --locked --path crates/lab"),
            "{errors}"
        );
    }
}
