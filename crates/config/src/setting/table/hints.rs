//! Rows of learning from requests, and of the uses of what is learned: docs/hints.md.

use super::super::row::{Kind, Section, Setting, Unit};
use super::super::values::{path, text_of};
use lamna_policy::hints::Probability;

pub(super) const HINTS: Setting = Setting::new(
    "hints",
    switch!(hints.is_on),
    "Learn from requests what is asked for next, for sites that do not say whether they want that",
)
.more(": docs/hints.md")
.flag(Section::Memory)
.order();

pub(super) const MEMORY: Setting = Setting::new(
    "hints_memory",
    number!(Bytes, 2 << 20..=1 << 30, hints.bytes_max),
    "Memory of what is learned, names included; processes have equal parts of it, of 1MiB at least",
)
.order();

pub(super) const FILE: Setting = Setting::new(
    "hints_file",
    Kind::Text {
        form: "FILE",
        get: |settings| settings.hints.file.as_deref().map(text_of),
        set: |settings, text, base| {
            settings.hints.file = Some(path(text, base)?);
            Ok(())
        },
    },
    "Where what is learned is kept over restarts and upgrades",
)
.default("`hints/ADDRESS.table` in the state directory")
.empties_cache();

pub(super) const PERCENT: Setting = Setting::new(
    "hints_percent",
    Kind::Number {
        unit: Unit::Count,
        bounds: 1..=100,
        get: |settings| u64::from(settings.hints.probability_least.thousandths() / 10),
        set: |settings, percent| settings.hints.probability_least = Probability::per_mille(percent as u16 * 10),
    },
    "How probable in percent a URL has to be to be expected or read ahead",
)
.order();

pub(super) const PRECACHE: Setting = Setting::new(
    "precache",
    switch!(hints.reads_ahead),
    "Read what is likely next into the cache before it is asked for, where hints are on",
)
.order();

pub(super) const PRECACHE_PERCENT: Setting = Setting::new(
    "precache_percent",
    number!(Count, 0..=100, hints.reads_ahead_percent),
    "Reads ahead of requests that may be in vain, in percent of those that were needed",
)
.order();
