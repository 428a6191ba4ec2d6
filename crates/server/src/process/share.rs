//! How a server with several processes divides what it has among them.
//!
//! Owns: how many processes there may be, and the settings of each. Guarantees: all together have no more than the
//! settings of the server say.

use lamna_config::settings::{Architecture, Settings};

/// How many processes there are at most that serve for `settings`.
pub(crate) fn processes_max(settings: &Settings) -> usize {
    match settings.architecture {
        Architecture::Mp => settings.processes.max(settings.processes_max),
        Architecture::CoAmped => settings.workers,
        _ => 1,
    }
}

/// The settings of each process that serves: its share of what the server has.
pub(crate) fn share(settings: &Settings) -> Settings {
    let (cache_bytes_max, processes) = match settings.architecture {
        Architecture::Mp => (settings.process_cache_bytes_max, settings.processes_max),
        Architecture::CoAmped => (settings.cache_bytes_max / settings.workers as u64, settings.workers),
        _ => return settings.clone(),
    };
    let hints = settings.hints.share_of(processes);
    Settings { workers: 1, cache_bytes_max, hints, ..settings.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processes_of_co_amped_have_equal_parts_of_the_cache() {
        let settings =
            Settings { architecture: Architecture::CoAmped, workers: 4, cache_bytes_max: 400, ..Settings::default() };
        assert_eq!((share(&settings).workers, share(&settings).cache_bytes_max), (1, 100));
    }
}
