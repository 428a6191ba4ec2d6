//! `lamna lab`, `load`, `replay`, `sim` and `tune`: the program `lamna-lab`, with the same words.
//!
//! Owns: the search for that program. The process becomes it, so that signals, output and exit code are its own. What
//! the words mean is its business.

use std::env;
use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::args::LaboratoryArgs;
use crate::exit::{Exit, Failed};

const NAME: &str = "lamna-lab";

/// Becomes `lamna-lab`, with `command` and the words behind it. Returns only with the reason why that cannot be.
pub(crate) fn run(command: Option<&str>, args: &LaboratoryArgs) -> Result<(), Failed> {
    let own = env::current_exe().ok();
    let Some(program) = find(own.as_deref(), env::var_os("PATH").as_deref()) else {
        return Err(missing(own.as_deref()));
    };
    let error = Command::new(&program).args(command).args(&args.words).exec();
    Err(Failed { exit: Exit::Failure, report: format!("lamna: cannot run {}: {error}", program.display()) })
}

/// The program in the directory of `own`, or else the first on `path`.
fn find(own: Option<&Path>, path: Option<&OsStr>) -> Option<PathBuf> {
    let beside = own.map(|own| own.with_file_name(NAME));
    let on_path = env::split_paths(path.unwrap_or_default()).map(|directory| directory.join(NAME));
    beside.into_iter().chain(on_path).find(|program| program.is_file())
}

fn missing(own: Option<&Path>) -> Failed {
    let beside = own.and_then(Path::parent).unwrap_or(Path::new("."));
    let report = format!(
        "lamna: this needs the program {NAME}, which is neither in {} nor on PATH. In the sources of Lamna:\n  \
         cargo install --locked --path crates/lab, or cargo build --release -p {NAME}",
        beside.display()
    );
    Failed { exit: Exit::Unavailable, report }
}
