//! Access logs as workloads.
//!
//! Owns: which lines of a log become requests. Only GET and HEAD with a status of 200, 206 or 304 do: the rest is not
//! served from files. A file's size is the largest number of bytes logged for it with 200. Does not know formats: the
//! owner of lines takes them apart.

use std::collections::HashMap;

use super::{FileId, Workload};

/// The relevant fields of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// As logged.
    pub method: String,
    /// The path. A query or fragment behind it is not part of the file's name, and is left out.
    pub path: String,
    /// HTTP status.
    pub status: u16,
    /// Bytes of content.
    pub bytes: u64,
}

/// A log as a workload, and counts of its lines.
#[derive(Clone)]
pub struct Log {
    /// None if no line is a request.
    pub workload: Option<Workload>,
    /// Lines that are requests.
    pub served: u64,
    /// Lines that were not understood.
    pub misread: u64,
}

/// Makes a workload of the lines of a log; none stands for a line that was not understood.
pub fn read_log(name: &str, lines: impl IntoIterator<Item = Option<LogLine>>) -> Log {
    let (mut ids, mut sizes, mut requests) = (HashMap::<String, FileId>::new(), Vec::new(), Vec::new());
    let (mut served, mut misread) = (0, 0);
    for line in lines {
        let Some(line) = line else {
            misread += 1;
            continue;
        };
        if !matches!(line.method.as_str(), "GET" | "HEAD") || !matches!(line.status, 200 | 206 | 304) {
            continue;
        }
        served += 1;
        let path = line.path.split(['?', '#']).next().unwrap_or_default();
        let id = *ids.entry(path.to_owned()).or_insert_with(|| {
            sizes.push(0_u64);
            sizes.len() as FileId - 1
        });
        if line.status == 200 {
            sizes[id as usize] = sizes[id as usize].max(line.bytes);
        }
        requests.push(id);
    }
    let workload = (!requests.is_empty()).then(|| Workload::log(name, sizes, requests));
    Log { workload, served, misread }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_as_large_as_its_largest_whole_answer_and_a_query_is_no_other_file() {
        let line = |path: &str, status, bytes| Some(LogLine { method: "GET".into(), path: path.into(), status, bytes });
        let log = read_log(
            "any",
            [line("/a?v=1", 200, 10), line("/a", 304, 0), line("/b", 404, 5), None, line("/a", 206, 99)],
        );
        assert_eq!((log.served, log.misread), (3, 1));
        assert_eq!(log.workload.map(|workload| workload.sizes.to_vec()), Some(vec![10]));
    }
}
