//! The hints of a page, as a report.
//!
//! Owns: [`HintReport`], as `lamna ctl hints` shows it. Changes nothing.

use std::fmt;

use lamna_policy::words::count;
use serde::{Deserialize, Serialize};

/// The predictions for a page, and their grounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HintReport {
    /// The site, by its first host name or its number.
    pub site: String,
    /// The path, normalised.
    pub path: String,
    /// How often it was asked for, as far as that has not faded.
    pub visits: u16,
    /// Its successors, the most probable first.
    pub following: Vec<FollowingReport>,
    /// Sentences about the resources that it may need, and those that clients are told of (`early_hints`).
    #[serde(default)]
    pub early_hints: Vec<String>,
    /// URLs that are known of all sites.
    pub urls: usize,
    /// Those of them that may be predicted.
    pub names: usize,
    /// Bytes of memory that all of it takes.
    pub bytes: usize,
    /// Where that was learned.
    pub source: String,
}

/// One URL that follows a page.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FollowingReport {
    /// Its path.
    pub path: String,
    /// In percent of the visits of the page.
    pub percent: f64,
    /// How long after the page, in milliseconds.
    pub after_ms: u32,
    /// Bytes of its content, if the cache knows it.
    pub bytes: Option<u64>,
    /// Whether the cache has it.
    pub is_held: bool,
    /// Whether it was read ahead and has not been asked for since.
    pub is_ahead: bool,
    /// Whether it is likely enough to be acted on.
    pub is_expected: bool,
}

impl fmt::Display for HintReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "site     {}", self.site)?;
        writeln!(f, "path     {}", self.path.escape_debug())?;
        writeln!(f, "visits   {} (older ones count less)", self.visits)?;
        if self.following.is_empty() {
            writeln!(f, "follows  nothing that is known")?;
        }
        for (one, mark) in self.following.iter().zip(["follows"].into_iter().chain(std::iter::repeat(""))) {
            writeln!(f, "{mark:8} {one}")?;
        }
        for (one, mark) in self.early_hints.iter().zip(["needs"].into_iter().chain(std::iter::repeat(""))) {
            writeln!(f, "{mark:8} {one}")?;
        }
        let (urls, names) = (count(self.urls, "URL"), count(self.names, "name"));
        writeln!(f, "known    {urls} and {names} in {} bytes, {}", self.bytes, self.source)
    }
}

impl fmt::Display for FollowingReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FollowingReport { path, percent, after_ms, bytes, is_held, is_ahead, is_expected } = self;
        write!(f, "{} in {percent:.1} % of the visits, {after_ms} ms after", path.escape_debug())?;
        bytes.iter().try_for_each(|bytes| write!(f, ", {bytes} bytes"))?;
        let state = match (is_ahead, is_held) {
            (true, _) => "read ahead and not asked for yet",
            (false, true) => "in the cache",
            (false, false) => "not in the cache",
        };
        write!(f, "; {state}")?;
        if *is_expected { Ok(()) } else { write!(f, "; not likely enough to be acted on") }
    }
}
