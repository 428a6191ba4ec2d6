//! Between what numbers of a route may be.
//!
//! Owns: these bounds, which the reader and the schema for editors both go by, so that they do not differ.

use std::ops::RangeInclusive;

const DAY_MS: u64 = 86_400_000;

/// Milliseconds that something may take.
pub(crate) const TIME_MS: RangeInclusive<u64> = 1..=DAY_MS;
/// Milliseconds from one check of a place to the next: they are requests to the application, from every process that
/// asks it.
pub(crate) const INTERVAL_MS: RangeInclusive<u64> = 100..=DAY_MS;
/// How often in a row something has to be so before it is believed.
pub(crate) const TIMES: RangeInclusive<u64> = 1..=100;
/// Seconds that something is kept for; a year is for ever.
pub(crate) const SECONDS: RangeInclusive<u64> = 0..=31_536_000;
/// Bytes, or none.
pub(crate) const BYTES: RangeInclusive<u64> = 0..=i64::MAX as u64;
/// Bytes, and some of them.
pub(crate) const BYTES_SOME: RangeInclusive<u64> = 1..=i64::MAX as u64;
/// Bytes of one request that may be kept in memory.
pub(crate) const MEMORY_BYTES: RangeInclusive<u64> = 0..=64 << 20;
/// Bytes of the largest answer that is kept: no longer one is worth memory.
pub(crate) const ANSWER_BYTES: RangeInclusive<u64> = 1..=1 << 30;
/// Processes of an application.
pub(crate) const INSTANCES: RangeInclusive<u64> = 1..=1024;
/// Programs that run at once.
pub(crate) const PROGRAMS: RangeInclusive<u64> = 1..=1024;
/// The share of a place.
pub(crate) const WEIGHT: RangeInclusive<u64> = 0..=1_000_000;
