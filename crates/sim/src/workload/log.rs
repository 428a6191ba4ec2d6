//! Reading access logs in the common and combined formats (those of NCSA httpd, still the default everywhere):
//! `host ident user [time] "METHOD target PROTOCOL" status bytes ...`.
//!
//! Only GET and HEAD with a status of 200, 206 or 304 become requests: the rest is not served from files. A file's size is
//! the largest number of bytes logged for it with 200.

use std::collections::HashMap;
use std::io::{self, BufRead};

use super::{FileId, Workload};

/// What matters of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogLine<'a> {
    /// As logged.
    pub method: &'a str,
    /// The path, without query and fragment.
    pub path: &'a str,
    /// HTTP status.
    pub status: u16,
    /// Zero for `-`.
    pub bytes: u64,
}

/// Takes a line apart; `None` if it is not of the format. A target may contain anything but the closing quote, which is
/// searched from behind the status, because some servers log quotes unescaped.
pub fn parse_line(line: &str) -> Option<LogLine<'_>> {
    let (_, rest) = line.split_once('"')?;
    for (at, _) in rest.match_indices("\" ") {
        if let Some((status, bytes)) = parse_numbers(&rest[at + 2..]) {
            let (method, target) = rest[..at].split_once(' ')?;
            let target = target.rsplit_once(" HTTP/").map_or(target, |(target, _)| target).trim();
            let path = target.split(['?', '#']).next().unwrap_or(target);
            return Some(LogLine { method, path, status, bytes });
        }
    }
    None
}

/// Reads a log into a workload, with the number of lines that were requests and of lines that were not understood.
/// `None` in place of the workload if no line is a request.
pub fn read_log(name: &str, mut lines: impl BufRead) -> io::Result<(Option<Workload>, u64, u64)> {
    let (mut ids, mut sizes, mut requests) = (HashMap::<String, FileId>::new(), Vec::new(), Vec::new());
    let (mut served, mut misread) = (0, 0);
    let mut raw = Vec::new();
    loop {
        raw.clear();
        if lines.read_until(b'\n', &mut raw)? == 0 {
            break;
        }
        let text = String::from_utf8_lossy(&raw);
        let Some(line) = parse_line(text.trim_end()) else {
            misread += 1;
            continue;
        };
        if !matches!(line.method, "GET" | "HEAD") || !matches!(line.status, 200 | 206 | 304) {
            continue;
        }
        served += 1;
        let id = *ids.entry(line.path.to_owned()).or_insert_with(|| {
            sizes.push(0_u64);
            sizes.len() as FileId - 1
        });
        if line.status == 200 {
            sizes[id as usize] = sizes[id as usize].max(line.bytes);
        }
        requests.push(id);
    }
    let workload = (!requests.is_empty()).then(|| Workload::log(name, sizes, requests));
    Ok((workload, served, misread))
}

fn parse_numbers(text: &str) -> Option<(u16, u64)> {
    let mut words = text.split_ascii_whitespace();
    let status = words.next().filter(|word| word.len() == 3)?.parse().ok()?;
    let bytes = match words.next()? {
        "-" => 0,
        number => number.parse().ok()?,
    };
    Some((status, bytes))
}
