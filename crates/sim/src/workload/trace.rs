//! Reading the anonymous traces of the project: `NAME.csv` or `NAME.csv.zst` (`seconds,method,file,status,bytes`, one line a
//! request) beside `NAME.files.csv` (`file,ext,size`).
//!
//! A request counts if its file's size is known, and transfers the whole file: what a 304 or an aborted transfer saved is
//! not modelled. Compressed traces are read through the `zstdcat` program, so that no decompressor is linked for them.

use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{FileId, Workload};

/// Why a trace could not be read.
#[derive(Debug)]
pub enum TraceError {
    /// A file is missing or unreadable, or `zstdcat` is.
    Unreadable(PathBuf, std::io::Error),
    /// `zstdcat` refused the file.
    NotCompressed(PathBuf),
    /// A line of the table of files is not `file,ext,size`. Counted from one.
    BadLine(PathBuf, usize),
    /// No request names a file of known size.
    Empty(PathBuf),
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TraceError::Unreadable(path, error) => write!(f, "{}: {error}", path.display()),
            TraceError::NotCompressed(path) => {
                write!(f, "{}: zstdcat cannot read it", path.display())
            }
            TraceError::BadLine(path, line) => {
                write!(f, "{}:{line}: not a line of the format", path.display())
            }
            TraceError::Empty(path) => {
                write!(f, "{}: no request of a file of known size", path.display())
            }
        }
    }
}

impl std::error::Error for TraceError {}

/// Reads the trace whose requests are in `path`. Lines of requests that do not parse are skipped, like requests of unknown
/// files; the table of files has to be whole.
pub fn read_trace(path: &Path) -> Result<Workload, TraceError> {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let stem = name.trim_end_matches(".zst").trim_end_matches(".csv").to_owned();
    let table_path = path.with_file_name(format!("{stem}.files.csv"));
    let table = fs::read_to_string(&table_path).map_err(|error| TraceError::Unreadable(table_path.clone(), error))?;
    let mut ids = HashMap::new();
    let mut sizes = Vec::new();
    for (number, line) in table.lines().enumerate().skip(1) {
        let bad = || TraceError::BadLine(table_path.clone(), number + 1);
        let (file, rest) = line.split_once(',').ok_or_else(bad)?;
        let (_, size) = rest.rsplit_once(',').ok_or_else(bad)?;
        if size.is_empty() {
            continue;
        }
        ids.insert(file.to_owned(), sizes.len() as FileId);
        sizes.push(size.parse::<u64>().map_err(|_| bad())?);
    }
    let text = text(path)?;
    let file = |line: &str| ids.get(line.split(',').nth(2)?).copied();
    let requests: Vec<_> = text.lines().skip(1).filter_map(file).collect();
    if requests.is_empty() {
        return Err(TraceError::Empty(path.into()));
    }
    Ok(Workload::log(stem, sizes, requests))
}

fn text(path: &Path) -> Result<String, TraceError> {
    let unreadable = |error| TraceError::Unreadable(path.into(), error);
    if path.extension().is_none_or(|extension| extension != "zst") {
        return fs::read_to_string(path).map_err(unreadable);
    }
    let output = Command::new("zstdcat").arg("--").arg(path).output().map_err(unreadable)?;
    if !output.status.success() {
        return Err(TraceError::NotCompressed(path.into()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
