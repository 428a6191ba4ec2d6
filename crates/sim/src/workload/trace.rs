//! Reading the anonymous traces of the project: `NAME.csv` or `NAME.csv.zst` (`seconds,method,file,status,bytes`, one
//! line a request) beside `NAME.files.csv` (`file,ext,size`).
//!
//! A request counts if its file's size is known, and transfers the whole file: what a 304 or an aborted transfer saved
//! is not modelled. Compressed traces are read through the `zstdcat` program, so that no decompressor is linked for
//! them.

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

/// A trace with what a workload leaves out.
#[derive(Clone, Debug)]
pub struct Trace {
    /// The file's name without its extensions.
    pub name: String,
    /// Bytes of each file.
    pub sizes: Vec<u64>,
    /// Whether each file is a page, to which others may belong: a directory, HTML, or a name without extension.
    pub is_page: Vec<bool>,
    /// Each request: seconds since the first one, and what was asked for.
    pub requests: Vec<(u64, FileId)>,
}

/// Extensions of pages, as the tables of files have them.
const PAGES: [&str; 5] = ["dir", "none", "htm", "html", "shtml"];

/// Reads the trace whose requests are in `path`. Lines of requests that do not parse are skipped, like requests of
/// unknown files; the table of files has to be whole.
pub fn read_trace(path: &Path) -> Result<Workload, TraceError> {
    let Trace { name, sizes, requests, .. } = read_timed_trace(path)?;
    Ok(Workload::log(name, sizes, requests.into_iter().map(|(_, file)| file).collect()))
}

/// The same, with the seconds of requests and the kinds of files.
pub fn read_timed_trace(path: &Path) -> Result<Trace, TraceError> {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let stem = name.trim_end_matches(".zst").trim_end_matches(".csv").to_owned();
    let table_path = path.with_file_name(format!("{stem}.files.csv"));
    let table = fs::read_to_string(&table_path).map_err(|error| TraceError::Unreadable(table_path.clone(), error))?;
    let mut ids = HashMap::new();
    let (mut sizes, mut is_page) = (Vec::new(), Vec::new());
    for (number, line) in table.lines().enumerate().skip(1) {
        let bad = || TraceError::BadLine(table_path.clone(), number + 1);
        let (file, rest) = line.split_once(',').ok_or_else(bad)?;
        let (extension, size) = rest.rsplit_once(',').ok_or_else(bad)?;
        if size.is_empty() {
            continue;
        }
        ids.insert(file.to_owned(), sizes.len() as FileId);
        sizes.push(size.parse::<u64>().map_err(|_| bad())?);
        is_page.push(PAGES.contains(&extension));
    }
    let text = text(path)?;
    let request = |line: &str| {
        let mut cells = line.split(',');
        let seconds = cells.next()?.parse().unwrap_or(0);
        Some((seconds, ids.get(cells.nth(1)?).copied()?))
    };
    let requests: Vec<_> = text.lines().skip(1).filter_map(request).collect();
    if requests.is_empty() {
        return Err(TraceError::Empty(path.into()));
    }
    Ok(Trace { name: stem, sizes, is_page, requests })
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
