//! Whether an upstream is in use: what requests have found (passive health), what checks have found (active health),
//! and how it comes back.
//!
//! Owns: [`Health`], of one upstream. Guarantees: an upstream that is out because requests failed is tried again, after
//! a pause that grows and is bounded; by one request at a time; and gets its full share only some time later, because
//! caches and connections of its own have to fill first (slow start). What a request finds that began before the
//! upstream went out says nothing about it now.
//!
//! ```text
//!          failures_max within window_ms
//!   Up ------------------------------------> Out(until) <----failed---+
//!   ^ ^                                        |    |                 |
//!   | |                                        |    +--pause over--> Trial
//!   | |              last resort answered      v                      |
//!   | +-slow_start_ms--- Rising <--------------+<-------answered------+
//!   |                      |  ^
//!   |                      |  +-- passes_min checks passed -- (down by checks, whatever the state)
//!   |                      +-- failures_max within window_ms --> Out
//! ```

use super::choice::WHOLE;
use super::{Kind, Outcome};

/// When an upstream goes out of use, and how it comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HealthSettings {
    /// Failures within `window_ms` with which it goes out. At least 1; 0 counts as 1.
    pub failures_max: u32,
    /// Time in which failures are counted together.
    pub window_ms: u64,
    /// The first pause. Each that follows is twice as long, until requests have been answered for as long as the last
    /// one was.
    pub pause_ms: u64,
    /// The longest pause.
    pub pause_max_ms: u64,
    /// Time from coming back to the full share.
    pub slow_start_ms: u64,
    /// Checks in a row that have to pass before an upstream that checks found down is used again. 0 counts as 1.
    pub passes_min: u32,
    /// Checks in a row that fail before an upstream is held to be down. 0 counts as 1.
    pub misses_max: u32,
}

impl Default for HealthSettings {
    /// Defaults of the order of other servers' (nginx: one failure, 10 s; Envoy: 5 in a row, 30 s growing).
    fn default() -> HealthSettings {
        HealthSettings {
            failures_max: 3,
            window_ms: 10_000,
            pause_ms: 1_000,
            pause_max_ms: 60_000,
            slow_start_ms: 10_000,
            passes_min: 2,
            misses_max: 3,
        }
    }
}

/// Whether an upstream is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Availability {
    /// Yes, with this part of its weight, of [`WHOLE`]; at least 1.
    InUse {
        /// The part.
        share: u32,
    },
    /// It is time to try it with one request.
    Trial,
    /// Not before this instant.
    Out {
        /// When its pause is over, or another may try if the one that does is not heard of.
        until_ms: u64,
    },
    /// Checks hold it to be down.
    Down,
}

/// The health of one upstream. It begins in use: the first requests find out more than waiting would.
#[derive(Clone, Debug, Default)]
pub struct Health {
    state: State,
    /// When requests failed, those within the window, oldest first; fewer than `failures_max`.
    failures_ms: Vec<u64>,
    /// The last pause, 0 if the next is the first.
    pause_ms: u64,
    checks: Checks,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Up,
    Out {
        until_ms: u64,
    },
    Trial {
        /// When another may try.
        until_ms: u64,
    },
    Rising {
        since_ms: u64,
    },
}

/// The results of checks.
#[derive(Clone, Copy, Debug, Default)]
struct Checks {
    is_down: bool,
    /// How many in a row say the contrary.
    contrary: u32,
}

/// Pauses for which the clients of an upstream have it to themselves to find out whether it is back.
const OVERDUE_PAUSES: u64 = 3;
/// The least share: or a slow start would begin with nothing.
const SHARE_MIN: u32 = WHOLE / 16;

impl Health {
    /// Whether it is in use.
    pub fn availability(&self, now_ms: u64, settings: &HealthSettings) -> Availability {
        if self.checks.is_down {
            return Availability::Down;
        }
        match self.state {
            State::Up => Availability::InUse { share: WHOLE },
            State::Rising { since_ms } => {
                let passed = now_ms.saturating_sub(since_ms).min(settings.slow_start_ms);
                let share = (u64::from(WHOLE) * passed).checked_div(settings.slow_start_ms);
                Availability::InUse { share: share.map_or(WHOLE, |share| (share as u32).max(SHARE_MIN)) }
            }
            State::Out { until_ms } | State::Trial { until_ms } if now_ms < until_ms => Availability::Out { until_ms },
            State::Out { .. } | State::Trial { .. } => Availability::Trial,
        }
    }

    /// Whether it has been due to be tried for so long that any request may find out.
    pub(super) fn is_overdue(&self, now_ms: u64, settings: &HealthSettings) -> bool {
        match self.state {
            State::Out { until_ms } | State::Trial { until_ms } => {
                now_ms >= until_ms.saturating_add(settings.pause_ms.saturating_mul(OVERDUE_PAUSES))
            }
            State::Up | State::Rising { .. } => false,
        }
    }

    /// A request is on its way to find out. Who began it may be gone before it ends; then another may try after as long
    /// as the last pause was.
    pub(super) fn begin_trial(&mut self, now_ms: u64) {
        self.state = State::Trial { until_ms: now_ms.saturating_add(self.pause_ms) };
    }

    /// A request is over.
    pub(super) fn handle_ended(&mut self, now_ms: u64, kind: Kind, outcome: Outcome, settings: &HealthSettings) {
        match (self.state, kind, outcome) {
            (State::Up | State::Rising { .. }, _, Outcome::Failed) => self.count_failure(now_ms, settings),
            (State::Rising { since_ms }, _, Outcome::Answered) => self.go_on_rising(now_ms, since_ms, settings),
            (State::Trial { .. }, Kind::Trial, Outcome::Failed) => self.go_out(now_ms, settings),
            // Nothing was found out: the next request may.
            (State::Trial { .. }, Kind::Trial, Outcome::Unknown) => self.state = State::Out { until_ms: now_ms },
            (State::Trial { .. }, Kind::Trial, Outcome::Answered)
            | (State::Out { .. } | State::Trial { .. }, Kind::LastResort, Outcome::Answered) => self.come_back(now_ms),
            _ => {}
        }
    }

    /// A check has passed or not.
    pub(super) fn handle_check(&mut self, now_ms: u64, has_passed: bool, settings: &HealthSettings) {
        if has_passed != self.checks.is_down {
            self.checks.contrary = 0;
            return;
        }
        self.checks.contrary += 1;
        let needed = if has_passed { settings.passes_min } else { settings.misses_max };
        if self.checks.contrary >= needed {
            self.checks = Checks { is_down: !has_passed, contrary: 0 };
            if has_passed {
                self.pause_ms = 0;
                self.come_back(now_ms);
            }
        }
    }

    fn count_failure(&mut self, now_ms: u64, settings: &HealthSettings) {
        self.failures_ms.retain(|at_ms| now_ms.saturating_sub(*at_ms) < settings.window_ms);
        self.failures_ms.push(now_ms);
        if self.failures_ms.len() >= settings.failures_max.max(1) as usize {
            self.go_out(now_ms, settings);
        }
    }

    fn go_out(&mut self, now_ms: u64, settings: &HealthSettings) {
        self.failures_ms.clear();
        let next = if self.pause_ms == 0 { settings.pause_ms } else { self.pause_ms.saturating_mul(2) };
        self.pause_ms = next.min(settings.pause_max_ms);
        self.state = State::Out { until_ms: now_ms.saturating_add(self.pause_ms) };
    }

    fn come_back(&mut self, now_ms: u64) {
        self.failures_ms.clear();
        self.state = State::Rising { since_ms: now_ms };
    }

    /// Full use after the slow start, and a short pause next time after it has answered for as long as the last pause
    /// was.
    fn go_on_rising(&mut self, now_ms: u64, since_ms: u64, settings: &HealthSettings) {
        let passed = now_ms.saturating_sub(since_ms);
        if passed >= settings.slow_start_ms.max(self.pause_ms) {
            self.state = State::Up;
            self.pause_ms = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SETTINGS: HealthSettings = HealthSettings {
        failures_max: 3,
        window_ms: 1_000,
        pause_ms: 100,
        pause_max_ms: 1_000,
        slow_start_ms: 400,
        passes_min: 2,
        misses_max: 3,
    };

    fn ended(health: &mut Health, now_ms: u64, kind: Kind, outcome: Outcome) {
        health.handle_ended(now_ms, kind, outcome, &SETTINGS);
    }

    fn is_in_use(health: &Health, now_ms: u64) -> bool {
        matches!(health.availability(now_ms, &SETTINGS), Availability::InUse { .. })
    }

    /// Fails until it is out; the length of the pause.
    fn go_out(health: &mut Health, now_ms: u64) -> u64 {
        (0..3).for_each(|_| ended(health, now_ms, Kind::Usual, Outcome::Failed));
        match health.availability(now_ms, &SETTINGS) {
            Availability::Out { until_ms } => until_ms - now_ms,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn failures_count_together_within_the_window_only() {
        let mut health = Health::default();
        for now_ms in [0, 600, 1_200, 1_800, 2_400] {
            ended(&mut health, now_ms, Kind::Usual, Outcome::Failed);
            assert!(is_in_use(&health, now_ms), "{now_ms}");
        }
        ended(&mut health, 2_500, Kind::Usual, Outcome::Failed);
        assert!(!is_in_use(&health, 2_500));
    }

    #[test]
    fn pauses_grow_while_trials_fail_and_are_bounded() {
        let mut health = Health::default();
        let mut now_ms = 0;
        let mut pauses = vec![go_out(&mut health, now_ms)];
        for _ in 0..5 {
            now_ms += pauses[pauses.len() - 1];
            assert_eq!(health.availability(now_ms - 1, &SETTINGS), Availability::Out { until_ms: now_ms });
            assert_eq!(health.availability(now_ms, &SETTINGS), Availability::Trial);
            health.begin_trial(now_ms);
            assert!(matches!(health.availability(now_ms, &SETTINGS), Availability::Out { .. }), "one at a time");
            ended(&mut health, now_ms, Kind::Trial, Outcome::Failed);
            let Availability::Out { until_ms } = health.availability(now_ms, &SETTINGS) else {
                panic!("it is not out")
            };
            pauses.push(until_ms - now_ms);
        }
        assert_eq!(pauses, [100, 200, 400, 800, 1_000, 1_000]);
    }

    #[test]
    fn who_comes_back_gets_its_share_slowly() {
        let mut health = Health::default();
        go_out(&mut health, 0);
        health.begin_trial(100);
        ended(&mut health, 100, Kind::Trial, Outcome::Answered);
        let share = |now_ms| match health.availability(now_ms, &SETTINGS) {
            Availability::InUse { share } => share,
            other => panic!("{other:?}"),
        };
        assert_eq!([100, 200, 300, 500, 9_000].map(share), [SHARE_MIN, 64, 128, WHOLE, WHOLE]);
    }

    #[test]
    fn who_fails_again_soon_waits_longer_and_who_was_well_for_long_does_not() {
        let mut health = Health::default();
        assert_eq!(go_out(&mut health, 0), 100);
        health.begin_trial(100);
        ended(&mut health, 100, Kind::Trial, Outcome::Answered);
        assert_eq!(go_out(&mut health, 150), 200);
        health.begin_trial(350);
        ended(&mut health, 350, Kind::Trial, Outcome::Answered);
        ended(&mut health, 800, Kind::Usual, Outcome::Answered);
        assert_eq!(go_out(&mut health, 900), 100);
    }

    #[test]
    fn a_request_from_before_says_nothing() {
        let mut health = Health::default();
        go_out(&mut health, 0);
        ended(&mut health, 50, Kind::Usual, Outcome::Answered);
        assert!(!is_in_use(&health, 50));
        health.begin_trial(100);
        ended(&mut health, 110, Kind::Usual, Outcome::Answered);
        ended(&mut health, 110, Kind::Usual, Outcome::Failed);
        assert!(!is_in_use(&health, 110));
        ended(&mut health, 120, Kind::Trial, Outcome::Answered);
        assert!(is_in_use(&health, 120));
    }

    #[test]
    fn a_trial_of_which_nothing_is_heard_is_made_again() {
        let mut health = Health::default();
        go_out(&mut health, 0);
        health.begin_trial(100);
        ended(&mut health, 110, Kind::Trial, Outcome::Unknown);
        assert_eq!(health.availability(110, &SETTINGS), Availability::Trial);
        health.begin_trial(110);
        assert_eq!(health.availability(209, &SETTINGS), Availability::Out { until_ms: 210 });
        assert_eq!(health.availability(210, &SETTINGS), Availability::Trial);
    }

    #[test]
    fn checks_count_in_a_row() {
        let mut health = Health::default();
        let mut check = |has_passed| {
            health.handle_check(5, has_passed, &SETTINGS);
            health.availability(5, &SETTINGS) == Availability::Down
        };
        let found = [false, false, true, false, false, false, true, false, true, true].map(&mut check);
        assert_eq!(found, [false, false, false, false, false, true, true, true, true, false]);
    }

    #[test]
    fn checks_that_pass_do_not_excuse_requests_that_fail() {
        let mut health = Health::default();
        go_out(&mut health, 0);
        (0..5).for_each(|_| health.handle_check(10, true, &SETTINGS));
        assert!(!is_in_use(&health, 10));
    }

    proptest! {
        #[test]
        fn it_never_holds_more_than_it_counts_and_pauses_are_bounded(
            events in prop::collection::vec((0..500_u64, 0..3_usize, 0..4_usize, any::<bool>()), 0..100),
        ) {
            let (mut health, mut now_ms) = (Health::default(), 0);
            for (wait_ms, kind, event, has_passed) in events {
                now_ms += wait_ms;
                let outcomes = [Outcome::Answered, Outcome::Failed, Outcome::Unknown];
                match event {
                    0..3 => ended(&mut health, now_ms, [Kind::Usual, Kind::Trial, Kind::LastResort][kind], outcomes[event]),
                    _ => health.handle_check(now_ms, has_passed, &SETTINGS),
                }
                if health.availability(now_ms, &SETTINGS) == Availability::Trial {
                    health.begin_trial(now_ms);
                }
                prop_assert!(health.failures_ms.len() < SETTINGS.failures_max as usize);
                match health.availability(now_ms, &SETTINGS) {
                    Availability::InUse { share } => prop_assert!((1..=WHOLE).contains(&share)),
                    Availability::Out { until_ms } => prop_assert!(until_ms <= now_ms + SETTINGS.pause_max_ms),
                    Availability::Trial | Availability::Down => {}
                }
            }
        }
    }
}
