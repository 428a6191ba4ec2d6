//! The settings chosen while serving, which differ from those of arguments and files.
//!
//! Owns: what of it is passed to another process. Which settings these are, and their names, is in the rows of
//! `config::setting`.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use lamna_config::setting::SETTINGS;
use lamna_config::settings::Settings;
use lamna_config::{parse_services, render_services};

/// Settings that differ from those that were configured: their values as text, by name. There is no space in them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Choice {
    chosen: BTreeMap<String, String>,
}

impl Choice {
    /// The choice that makes `wanted` of `configured`, as far as it can be chosen.
    pub(crate) fn between(configured: &Settings, wanted: &Settings) -> Choice {
        let words = |settings| SETTINGS.iter().flat_map(move |setting| setting.carried_words(settings));
        let differ = words(configured).zip(words(wanted)).filter(|(before, after)| before != after);
        let services = (configured.services != wanted.services).then(|| to_hex(&render_services(&wanted.services)));
        let services = services.map(|text| (SERVICES.to_owned(), text));
        Choice { chosen: differ.map(|(_, (name, text))| (name.to_owned(), text)).chain(services).collect() }
    }

    /// Whether `wanted` can be made of `configured` by choosing.
    pub(crate) fn is_all(configured: &Settings, wanted: &Settings) -> bool {
        let mut made = configured.clone();
        Choice::between(configured, wanted).apply(&mut made);
        made == *wanted
    }

    /// Puts what was chosen in the place of what was configured.
    pub(crate) fn apply(&self, settings: &mut Settings) {
        for (name, text) in &self.chosen {
            // It was written or checked here, so it is a value.
            let _ = take(settings, name, text);
        }
    }

    /// Takes a value by its name. Unknown names are passed over; none if the value is not one.
    pub(super) fn take(&mut self, name: &str, value: &str) -> Option<()> {
        // Whether they are allowed is judged where they are put in place.
        let mut settings = Settings { native_services: true, ..Settings::default() };
        match take(&mut settings, name, value) {
            Some(true) => drop(self.chosen.insert(name.to_owned(), value.to_owned())),
            Some(false) => return None,
            None => {}
        }
        Some(())
    }
}

/// None if there is no such name; false if the text is not a value.
fn take(settings: &mut Settings, name: &str, text: &str) -> Option<bool> {
    if name == SERVICES {
        let services =
            from_hex(text).and_then(|text| parse_services(&text, Path::new("/"), settings.native_services).ok());
        return Some(services.map(|services| settings.services = services).is_some());
    }
    SETTINGS.iter().find_map(|setting| setting.take_carried(settings, name, text))
}

/// The name of what services have become while serving.
const SERVICES: &str = "services";

/// Text without a space in it.
fn to_hex(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(hex: &str) -> Option<String> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let byte = |pair: &[u8]| Some((digit(pair[0])? * 16 + digit(pair[1])?) as u8);
    let bytes: Option<Vec<u8>> = hex.as_bytes().chunks_exact(2).map(byte).collect();
    String::from_utf8(bytes?).ok()
}

/// ` NAME=VALUE` for each.
impl fmt::Display for Choice {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.chosen.iter().try_for_each(|(name, text)| write!(formatter, " {name}={text}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lamna_config::sending::SendStrategy;
    use lamna_config::settings::Architecture;
    use lamna_policy::cache::Objective;

    /// Programs of other versions read these.
    #[test]
    fn names_that_are_passed_do_not_change() {
        let names: Vec<&str> = SETTINGS
            .iter()
            .flat_map(|setting| setting.carried_words(&Settings::default()))
            .map(|(name, _)| name)
            .collect();
        for name in [
            "arch",
            "adapts",
            "workers_adapt",
            "threads_adapt",
            "workers",
            "threads",
            "threads_max",
            "helpers_max",
            "processes",
            "processes_max",
            "drain_timeout_ms",
            "cache_policy",
            "cache_objective",
            "cache_filter",
            "send",
            "stretch_copy_bytes_max",
            "message_copy_bytes_max",
        ] {
            assert!(names.contains(&name), "{name} in {names:?}");
        }
    }

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
