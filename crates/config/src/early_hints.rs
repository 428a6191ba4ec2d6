//! How a site hints to clients what they will need: `early_hints` and `link_prefetch` of a `[[site]]`.
//!
//! Owns: the settings as values. What is done by them is `lamna_site::early_hints`'s.

use std::ops::RangeInclusive;

/// Bounds of what is said in percent here.
pub const PERCENT: RangeInclusive<u64> = 0..=100;

/// Hints of what a page needs: `early_hints`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EarlyHintSettings {
    /// Whether clients get hints where no route says otherwise.
    pub is_on: bool,
    /// Whether clients of HTTP/1.1 that say that they navigate get hints as well.
    pub http1: bool,
    /// The most bytes that may be hinted in vain, in percent of the bytes hinted.
    pub waste_percent_max: u8,
    /// The least probability, in percent, that a view of a page is followed by a request for a hinted resource.
    pub probability_percent_min: u8,
}

impl Default for EarlyHintSettings {
    fn default() -> EarlyHintSettings {
        EarlyHintSettings { is_on: false, http1: false, waste_percent_max: 10, probability_percent_min: 75 }
    }
}

/// Which page is likely to be next: `link_prefetch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkPrefetchSettings {
    /// Whether pages may be fetched ahead where no route says otherwise.
    pub is_on: bool,
    /// The most bytes that may be fetched ahead in vain, in percent of the bytes fetched ahead.
    pub waste_percent_max: u8,
    /// The least probability, in percent, that a view of a page is followed by a view of one fetched ahead.
    pub probability_percent_min: u8,
}

impl Default for LinkPrefetchSettings {
    fn default() -> LinkPrefetchSettings {
        LinkPrefetchSettings { is_on: false, waste_percent_max: 50, probability_percent_min: 50 }
    }
}
