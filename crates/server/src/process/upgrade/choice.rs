//! What of the settings was chosen while serving, and so is not what arguments and files come to.
//!
//! Owns: which settings these are, and their names.

use std::fmt;
use std::ops::RangeInclusive;

use lamna_policy::cache::Objective;

use crate::config::sending::SendStrategy;
use crate::config::settings::{
    Architecture, COPY_BYTES, DRAIN_TIMEOUT_MS, HELPERS, PROCESSES, Settings, THREADS, WORKERS,
};

/// Settings that differ from those that were configured: their values as text, in the order of [`ITEMS`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Choice {
    chosen: [Option<String>; ITEMS.len()],
}

/// Something that can be chosen. Values are words: there is no space in them.
struct Item {
    name: &'static str,
    write: fn(&Settings) -> String,
    /// None if the text is not a value; then nothing has changed.
    read: fn(&mut Settings, &str) -> Option<()>,
}

const ITEMS: [Item; 17] = [
    Item {
        name: "arch",
        write: |settings| settings.architecture.name().to_owned(),
        read: |settings, text| put(&mut settings.architecture, Architecture::from_name(text)),
    },
    Item {
        name: "adapts",
        write: |settings| settings.adapts.to_string(),
        read: |settings, text| put(&mut settings.adapts, text.parse().ok()),
    },
    Item {
        name: "workers_adapt",
        write: |settings| settings.workers_adapt.to_string(),
        read: |settings, text| put(&mut settings.workers_adapt, text.parse().ok()),
    },
    Item {
        name: "threads_adapt",
        write: |settings| settings.threads_adapt.to_string(),
        read: |settings, text| put(&mut settings.threads_adapt, text.parse().ok()),
    },
    Item {
        name: "workers",
        write: |settings| settings.workers.to_string(),
        read: |settings, text| put(&mut settings.workers, count(text, WORKERS)),
    },
    Item {
        name: "threads",
        write: |settings| settings.threads.to_string(),
        read: |settings, text| put(&mut settings.threads, count(text, THREADS)),
    },
    Item {
        name: "threads_max",
        write: |settings| settings.threads_max.to_string(),
        read: |settings, text| put(&mut settings.threads_max, count(text, THREADS)),
    },
    Item {
        name: "helpers_max",
        write: |settings| settings.helpers_max.to_string(),
        read: |settings, text| put(&mut settings.helpers_max, count(text, HELPERS)),
    },
    Item {
        name: "processes",
        write: |settings| settings.processes.to_string(),
        read: |settings, text| put(&mut settings.processes, count(text, PROCESSES)),
    },
    Item {
        name: "processes_max",
        write: |settings| settings.processes_max.to_string(),
        read: |settings, text| put(&mut settings.processes_max, count(text, PROCESSES)),
    },
    Item {
        name: "drain_timeout_ms",
        write: |settings| settings.drain_timeout_ms.to_string(),
        read: |settings, text| put(&mut settings.drain_timeout_ms, milliseconds(text)),
    },
    Item {
        name: "cache_policy",
        write: |settings| settings.cache_policy.algorithm.name().to_owned(),
        read: |settings, text| put(&mut settings.cache_policy.algorithm, text.parse().ok()),
    },
    Item {
        name: "cache_objective",
        write: |settings| settings.cache_policy.objective.name().to_owned(),
        read: |settings, text| put(&mut settings.cache_policy.objective, Objective::from_name(text)),
    },
    Item {
        name: "cache_filter",
        write: |settings| settings.cache_policy.is_filtered.to_string(),
        read: |settings, text| put(&mut settings.cache_policy.is_filtered, text.parse().ok()),
    },
    Item {
        name: "send",
        write: |settings| settings.sending.strategy.name().to_owned(),
        read: |settings, text| put(&mut settings.sending.strategy, SendStrategy::from_name(text)),
    },
    Item {
        name: "stretch_copy_bytes_max",
        write: |settings| settings.sending.stretch_copy_bytes_max.to_string(),
        read: |settings, text| put(&mut settings.sending.stretch_copy_bytes_max, bytes(text)),
    },
    Item {
        name: "message_copy_bytes_max",
        write: |settings| settings.sending.message_copy_bytes_max.to_string(),
        read: |settings, text| {
            put(&mut settings.sending.message_copy_bytes_max, bytes(text).map(|bytes| bytes as usize))
        },
    },
];

fn put<T>(place: &mut T, value: Option<T>) -> Option<()> {
    *place = value?;
    Some(())
}

fn count(text: &str, bounds: RangeInclusive<usize>) -> Option<usize> {
    text.parse().ok().filter(|count| bounds.contains(count))
}

fn milliseconds(text: &str) -> Option<u32> {
    text.parse().ok().filter(|ms| DRAIN_TIMEOUT_MS.contains(&u64::from(*ms)))
}

fn bytes(text: &str) -> Option<u64> {
    text.parse().ok().filter(|bytes| COPY_BYTES.contains(bytes))
}

impl Choice {
    /// What makes `wanted` of `configured`, as far as it can be chosen.
    pub(crate) fn between(configured: &Settings, wanted: &Settings) -> Choice {
        let chosen = ITEMS.each_ref().map(|item| {
            let (before, after) = ((item.write)(configured), (item.write)(wanted));
            (before != after).then_some(after)
        });
        Choice { chosen }
    }

    /// Whether `wanted` can be made of `configured` by choosing.
    pub(crate) fn is_all(configured: &Settings, wanted: &Settings) -> bool {
        let mut made = configured.clone();
        Choice::between(configured, wanted).apply(&mut made);
        made == *wanted
    }

    /// Puts what was chosen in the place of what was configured.
    pub(crate) fn apply(&self, settings: &mut Settings) {
        for (item, text) in ITEMS.iter().zip(&self.chosen) {
            if let Some(text) = text {
                // It was written or checked here, so it is a value.
                let _ = (item.read)(settings, text);
            }
        }
    }

    /// Takes a value by its name. Unknown names are passed over; none if the value is not one.
    pub(super) fn take(&mut self, name: &str, value: &str) -> Option<()> {
        if let Some(at) = ITEMS.iter().position(|item| item.name == name) {
            (ITEMS[at].read)(&mut Settings::default(), value)?;
            self.chosen[at] = Some(value.to_owned());
        }
        Some(())
    }
}

/// ` NAME=VALUE` for each.
impl fmt::Display for Choice {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (item, text) in ITEMS.iter().zip(&self.chosen) {
            if let Some(text) = text {
                write!(formatter, " {}={text}", item.name)?;
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
        let wanted = Settings {
            architecture: Architecture::Mp,
            adapts: false,
            processes: 7,
            drain_timeout_ms: 9,
            ..configured.clone()
        };
        let mut other = Settings { helpers_max: 3, ..configured.clone() };
        Choice::between(&configured, &wanted).apply(&mut other);
        assert_eq!(other, Settings { helpers_max: 3, ..wanted.clone() });
        assert!(Choice::is_all(&configured, &wanted));
        assert!(!Choice::is_all(&configured, &Settings { cache_bytes_max: 1 << 20, ..wanted }));
    }

    #[test]
    fn the_cache_policy_and_ways_to_send_can_be_chosen_and_written() {
        let mut wanted = Settings::default();
        wanted.cache_policy.algorithm = lamna_policy::cache::Algorithm::Sieve;
        wanted.cache_policy.objective = Objective::Bytes;
        wanted.cache_policy.is_filtered ^= true;
        wanted.sending.strategy = SendStrategy::Mapped;
        wanted.sending.stretch_copy_bytes_max = 1;
        wanted.sending.message_copy_bytes_max = 2;
        let written = Choice::between(&Settings::default(), &wanted).to_string();
        let mut read = Choice::default();
        for word in written.split_ascii_whitespace() {
            let (name, value) = word.split_once('=').unwrap();
            assert_eq!(read.take(name, value), Some(()), "{written}");
        }
        let mut made = Settings::default();
        read.apply(&mut made);
        assert_eq!(made, wanted);
        assert_eq!(read.take("send", "executor-pigeon"), None);
    }
}
