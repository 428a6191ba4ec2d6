//! Where the programs are that this one starts.
//!
//! Owns: the search for `lamna`, the server under test, and the path of this program.

use std::path::{Path, PathBuf};

use lamna_lab::peers::find_program;

/// Lamna's program: the one given; or `lamna` in the directory of this program; or the first on PATH.
///
/// # Errors
/// There is none: where it was looked for, and how to get it.
pub(crate) fn lamna(given: Option<&Path>) -> Result<PathBuf, String> {
    if let Some(given) = given {
        return Ok(given.to_owned());
    }
    let beside = this()?.with_file_name("lamna");
    if beside.is_file() {
        return Ok(beside);
    }
    find_program("lamna").ok_or_else(|| {
        format!(
            "there is no program {} and no `lamna` on PATH: build it (cargo build --release -p lamna), or name it with \
             --lamna FILE",
            beside.display()
        )
    })
}

/// This program.
///
/// # Errors
/// The kernel does not say.
pub(crate) fn this() -> Result<PathBuf, String> {
    std::env::current_exe().map_err(|error| format!("the path of this program: {error}"))
}
