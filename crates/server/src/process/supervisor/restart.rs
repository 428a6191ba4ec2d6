//! When workers that died, processes or threads, are replaced: at once, and ever later if they die young again and again.
//!
//! Owns: the count of early deaths and the pause that follows from it. Starts and ends nothing.

use std::time::{Duration, Instant};

/// Who dies before this age may have died of its own beginning.
const YOUNG: Duration = Duration::from_millis(100);
/// So many early deaths in a row are bad luck; more are a reason to wait.
const DEATHS_FREE: u32 = 5;
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Says when to start the next worker.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Restart {
    young_deaths: u32,
    not_before: Option<Instant>,
}

impl Restart {
    /// The time before which no worker is to be started.
    pub(crate) fn not_before(&self) -> Option<Instant> {
        self.not_before
    }

    /// A worker that was started at `started` has died. Returns how long to wait before replacing it.
    pub(crate) fn handle_death(&mut self, started: Instant, now: Instant) -> Duration {
        if now.saturating_duration_since(started) >= YOUNG {
            self.young_deaths = 0;
            return Duration::ZERO;
        }
        self.young_deaths += 1;
        let Some(excess) = self.young_deaths.checked_sub(DEATHS_FREE + 1) else { return Duration::ZERO };
        let pause = PAUSE_MIN.saturating_mul(1 << excess.min(10)).min(PAUSE_MAX);
        self.not_before = Some(now + pause);
        pause
    }

    /// A worker could not be started at `now`: waits a second.
    pub(crate) fn pause(&mut self, now: Instant) {
        self.not_before = Some(now + Duration::from_secs(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_that_lived_are_replaced_at_once_however_many_die() {
        let mut restart = Restart::default();
        let start = Instant::now();
        for death in 1..100u32 {
            assert_eq!(restart.handle_death(start, start + YOUNG * death), Duration::ZERO);
        }
        assert_eq!(restart.not_before(), None);
    }

    #[test]
    fn workers_that_keep_dying_young_are_replaced_ever_later() {
        let mut restart = Restart::default();
        let now = Instant::now();
        let pauses: Vec<_> = (0..14).map(|_| restart.handle_death(now, now)).collect();
        assert_eq!(pauses[..5], [Duration::ZERO; 5]);
        assert_eq!(pauses[5..8], [PAUSE_MIN, PAUSE_MIN * 2, PAUSE_MIN * 4]);
        assert_eq!(pauses[13], PAUSE_MAX);
        assert_eq!(restart.not_before(), Some(now + PAUSE_MAX));
        assert_eq!(restart.handle_death(now, now + YOUNG), Duration::ZERO);
        assert_eq!(restart.handle_death(now, now), Duration::ZERO, "one that lived ends the row");
    }
}
