//! What of the settings was chosen while serving, and so is not what arguments and files come to.
//!
//! Owns: which settings these are, and their names.

use std::fmt;
use std::ops::RangeInclusive;

use crate::config::settings::{Architecture, HELPERS, PROCESSES, Settings, THREADS, WORKERS};

/// Settings that differ from those that were configured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Choice {
    architecture: Option<Architecture>,
    /// Those of [`COUNTS`], in its order.
    counts: [Option<usize>; COUNTS.len()],
    /// Those of [`FLAGS`], in its order.
    flags: [Option<bool>; FLAGS.len()],
}

/// A number that can be chosen.
struct Count {
    name: &'static str,
    bounds: RangeInclusive<usize>,
    of: fn(&mut Settings) -> &mut usize,
}

/// Something that is so or not.
struct Flag {
    name: &'static str,
    of: fn(&mut Settings) -> &mut bool,
}

const ARCHITECTURE: &str = "arch";
const FLAGS: [Flag; 2] = [
    Flag { name: "adapts", of: |settings| &mut settings.adapts },
    Flag { name: "workers_adapt", of: |settings| &mut settings.workers_adapt },
];
const COUNTS: [Count; 6] = [
    Count { name: "workers", bounds: WORKERS, of: |settings| &mut settings.workers },
    Count { name: "threads", bounds: THREADS, of: |settings| &mut settings.threads },
    Count { name: "threads_max", bounds: THREADS, of: |settings| &mut settings.threads_max },
    Count { name: "helpers_max", bounds: HELPERS, of: |settings| &mut settings.helpers_max },
    Count { name: "processes", bounds: PROCESSES, of: |settings| &mut settings.processes },
    Count { name: "processes_max", bounds: PROCESSES, of: |settings| &mut settings.processes_max },
];

impl Choice {
    /// What makes `wanted` of `configured`, as far as it can be chosen.
    pub(crate) fn between(configured: &Settings, wanted: &Settings) -> Choice {
        let (mut configured, mut wanted) = (configured.clone(), wanted.clone());
        let differs = configured.architecture != wanted.architecture;
        let counts = COUNTS.each_ref().map(|count| {
            let (before, after) = (*(count.of)(&mut configured), *(count.of)(&mut wanted));
            (before != after).then_some(after)
        });
        let flags = FLAGS.each_ref().map(|flag| {
            let (before, after) = (*(flag.of)(&mut configured), *(flag.of)(&mut wanted));
            (before != after).then_some(after)
        });
        Choice { architecture: differs.then_some(wanted.architecture), counts, flags }
    }

    /// Whether `wanted` can be made of `configured` by choosing.
    pub(crate) fn is_all(configured: &Settings, wanted: &Settings) -> bool {
        let mut made = configured.clone();
        Choice::between(configured, wanted).apply(&mut made);
        made == *wanted
    }

    /// Puts what was chosen in the place of what was configured.
    pub(crate) fn apply(&self, settings: &mut Settings) {
        settings.architecture = self.architecture.unwrap_or(settings.architecture);
        for (count, chosen) in COUNTS.iter().zip(self.counts) {
            let place = (count.of)(settings);
            *place = chosen.unwrap_or(*place);
        }
        for (flag, chosen) in FLAGS.iter().zip(self.flags) {
            let place = (flag.of)(settings);
            *place = chosen.unwrap_or(*place);
        }
    }

    /// Takes a value by its name. Unknown names are passed over; none if the value is not one.
    pub(super) fn take(&mut self, name: &str, value: &str) -> Option<()> {
        if name == ARCHITECTURE {
            self.architecture = Some(Architecture::from_name(value)?);
        } else if let Some(at) = COUNTS.iter().position(|count| count.name == name) {
            self.counts[at] = Some(value.parse().ok().filter(|count| COUNTS[at].bounds.contains(count))?);
        } else if let Some(at) = FLAGS.iter().position(|flag| flag.name == name) {
            self.flags[at] = Some(value.parse().ok()?);
        }
        Some(())
    }
}

/// ` NAME=VALUE` for each.
impl fmt::Display for Choice {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(architecture) = self.architecture {
            write!(formatter, " {ARCHITECTURE}={}", architecture.name())?;
        }
        for (count, chosen) in COUNTS.iter().zip(self.counts) {
            if let Some(chosen) = chosen {
                write!(formatter, " {}={chosen}", count.name)?;
            }
        }
        for (flag, chosen) in FLAGS.iter().zip(self.flags) {
            if let Some(chosen) = chosen {
                write!(formatter, " {}={chosen}", flag.name)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_chosen_stays_chosen_when_the_configuration_has_changed() {
        let configured = Settings::default();
        let wanted = Settings { architecture: Architecture::Mp, adapts: false, processes: 7, ..configured.clone() };
        let mut other = Settings { helpers_max: 3, ..configured.clone() };
        Choice::between(&configured, &wanted).apply(&mut other);
        assert_eq!(other, Settings { helpers_max: 3, ..wanted.clone() });
        assert!(Choice::is_all(&configured, &wanted));
        assert!(!Choice::is_all(&configured, &Settings { cache_bytes_max: 1 << 20, ..wanted }));
    }
}
