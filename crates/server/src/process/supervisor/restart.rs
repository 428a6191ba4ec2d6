//! When workers that died, processes or threads, are replaced: at once, and ever later if they die young again and
//! again.
//!
//! Owns: the count of early deaths and the pause that follows from it. Starts and ends nothing.

use std::time::{Duration, Instant};

/// A worker that dies before this age may have died of its own beginning.
const YOUNG: Duration = Duration::from_millis(100);
/// So many early deaths in a row are bad luck; more are a reason to wait.
const DEATHS_FREE: u32 = 5;
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// A program that an application starts may take a while to find out that it cannot go on, and fails in the same way
/// again.
const APPLICATION_YOUNG: Duration = Duration::from_secs(2);
const APPLICATION_PAUSE_MAX: Duration = Duration::from_secs(30);

/// Says when to start the next worker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Restart {
    young_deaths: u32,
    not_before: Option<Instant>,
    young: Duration,
    deaths_free: u32,
    pause_max: Duration,
}

impl Default for Restart {
    /// The pause for workers.
    fn default() -> Restart {
        let (young, deaths_free, pause_max) = (YOUNG, DEATHS_FREE, PAUSE_MAX);
        Restart { young_deaths: 0, not_before: None, young, deaths_free, pause_max }
    }
}

impl Restart {
    /// The pause for programs that are not the server's own: the first early death is a reason to wait.
    pub(crate) fn of_applications() -> Restart {
        Restart { young: APPLICATION_YOUNG, deaths_free: 0, pause_max: APPLICATION_PAUSE_MAX, ..Restart::default() }
    }

    /// The time before which no worker is to be started.
    pub(crate) fn not_before(&self) -> Option<Instant> {
        self.not_before
    }

    /// A worker that was started at `started` has died. Returns how long to wait before replacing it.
    pub(crate) fn handle_death(&mut self, started: Instant, now: Instant) -> Duration {
        if now.saturating_duration_since(started) >= self.young {
            self.young_deaths = 0;
            return Duration::ZERO;
        }
        self.young_deaths += 1;
        let Some(excess) = self.young_deaths.checked_sub(self.deaths_free + 1) else { return Duration::ZERO };
        let pause = PAUSE_MIN.saturating_mul(1 << excess.min(10)).min(self.pause_max);
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

    #[test]
    fn applications_that_die_young_are_waited_with_from_the_first_death_on() {
        let mut restart = Restart::of_applications();
        let now = Instant::now();
        let pauses: Vec<_> = (0..12).map(|_| restart.handle_death(now, now)).collect();
        assert_eq!(pauses[..3], [PAUSE_MIN, PAUSE_MIN * 2, PAUSE_MIN * 4]);
        assert_eq!(pauses[11], APPLICATION_PAUSE_MAX);
        assert_eq!(restart.handle_death(now, now + APPLICATION_YOUNG), Duration::ZERO);
    }
}
