//! Keeping the answers of an application: for how long, how large, and what of requests does not matter.
//!
//! Owns: [`AnswerCache`] as plain values. Where it is written and judged is in `route`. Decides nothing about answers:
//! that is `lamna_proto::caching`'s.

use lamna_proto::caching;

/// How the answers of an application are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnswerCache {
    /// Terms for answers that set none themselves.
    pub terms: caching::Settings,
    /// Bytes of content of the largest answer that is kept.
    pub bytes_max: u64,
    /// Parameters of queries that do not tell answers apart: names, or the beginnings of names with `*` behind them.
    pub ignore_query: Vec<String>,
    /// Cookies that do not tell clients apart: as above.
    pub ignore_cookies: Vec<String>,
    /// Whether cache directives of requests are ignored: no client makes the application answer by reloading.
    pub ignore_reload: bool,
}

impl Default for AnswerCache {
    fn default() -> AnswerCache {
        AnswerCache {
            terms: caching::Settings::default(),
            bytes_max: BYTES_MAX,
            ignore_query: Vec::new(),
            ignore_cookies: Vec::new(),
            ignore_reload: false,
        }
    }
}

/// Answers that are asked for often and are longer than this are files, as a rule.
const BYTES_MAX: u64 = 1 << 20;

/// Whether `name` is one of `names`.
pub fn is_among(names: &[String], name: &[u8]) -> bool {
    names.iter().any(|one| match one.strip_suffix('*') {
        Some(start) => name.starts_with(start.as_bytes()),
        None => name == one.as_bytes(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_whole_or_beginnings() {
        let names = ["utm_*".to_owned(), "fbclid".to_owned()];
        for (name, expected) in
            [("utm_source", true), ("utm_", true), ("fbclid", true), ("fbclid2", false), ("utm", false)]
        {
            assert_eq!(is_among(&names, name.as_bytes()), expected, "{name}");
        }
        assert!(is_among(&["*".to_owned()], b"anything"));
    }
}
