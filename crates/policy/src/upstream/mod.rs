//! Which of several upstreams gets a request, which are out of use, and which failures are tried again elsewhere.
//!
//! Owns: [`Upstreams`], the choice of one gateway route; its parts are [`choice`] (weights and load), [`affinity`] (the
//! same for the same clients), [`health`] (which are out, until when) and [`retry`] (requests that may be sent twice).
//! Guarantees: pure and seeded, so the same events lead to the same choices; instants are arguments, in milliseconds
//! since an origin that the caller chooses, and never go back. As long as an upstream is left that active checks do not
//! hold to be down, that is not drained and that was not tried for this request, it gets it: the only one left is asked
//! even if it has failed, since refusing without asking helps no client. Does not connect, resolve or wait.
//!
//! The gateways of the server use it, an instance for each application, behind a lock that is held for a choice.

pub mod affinity;
pub mod choice;
pub mod health;
pub mod response_time;
pub mod retry;

use choice::Candidate;
use health::{Availability, Health, HealthSettings};
use response_time::ResponseTime;

use crate::random::Random;

/// The upstreams of one route.
#[derive(Clone, Debug)]
pub struct Upstreams {
    each: Vec<Upstream>,
    settings: HealthSettings,
    random: Random,
    /// A number for each, by which it is told from others whatever its place in the list.
    numbers: Vec<u64>,
    balance: Balance,
    /// Used by each choice, so that none allocates.
    candidates: Vec<Candidate>,
}

/// Which of two upstreams is the less busy one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Balance {
    /// That with fewer requests under way for its weight.
    #[default]
    LeastBusy,
    /// That with less time to come for its weight: its time to begin an answer, times the requests that it would have.
    LeastTime,
}

#[derive(Clone, Debug)]
struct Upstream {
    weight: u32,
    load: u32,
    health: Health,
    /// It gets no request.
    is_drained: bool,
    /// The time that it takes to begin an answer.
    time: ResponseTime,
}

/// A request that was given to an upstream. It has to be given back with [`Upstreams::handle_ended`], whatever becomes
/// of it.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub struct Attempt {
    index: usize,
    kind: Kind,
    begun_ms: u64,
}

/// Why an upstream was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It is in use.
    Usual,
    /// To find out whether it can be used again.
    Trial,
    /// There was no other.
    LastResort,
}

/// The outcome of an attempt, as far as it says something about the upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It answered.
    Answered,
    /// It could not be reached, did not answer in time, or answered with nonsense.
    Failed,
    /// It is not known: the client left first.
    Unknown,
}

impl Attempt {
    /// Which upstream, in the order of the settings.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Why.
    pub fn kind(&self) -> Kind {
        self.kind
    }
}

impl Upstreams {
    /// For upstreams of these weights. One of weight 0 is asked only as a last resort: a spare.
    pub fn new(weights: &[u32], settings: HealthSettings, seed: u64) -> Upstreams {
        let upstream = |weight: &u32| Upstream {
            weight: *weight,
            load: 0,
            health: Health::default(),
            is_drained: false,
            time: ResponseTime::default(),
        };
        Upstreams {
            each: weights.iter().map(upstream).collect(),
            settings,
            random: Random::seeded(seed),
            numbers: (0..weights.len() as u64).collect(),
            balance: Balance::default(),
            candidates: Vec::with_capacity(weights.len()),
        }
    }

    /// The same, of these numbers: with them an affinity leads to the same upstream though the list changes.
    pub fn with_numbers(self, numbers: Vec<u64>) -> Upstreams {
        debug_assert_eq!(numbers.len(), self.each.len());
        Upstreams { numbers, ..self }
    }

    /// The same, with this way to tell the less busy of two.
    pub fn with_balance(self, balance: Balance) -> Upstreams {
        Upstreams { balance, ..self }
    }

    /// Chooses for a request that was tried with `tried` before. `may_retry`: should the attempt fail, it may be tried
    /// elsewhere, so it may serve to find out whether an upstream that was out can be used again. None if each is held
    /// to be down by checks, is drained, or was tried. Requests of the same `affinity` get the same upstream as long as
    /// it is in use, and those of one that is out are spread over the others ([`affinity`]).
    ///
    /// The work is bounded by the number of upstreams.
    pub fn choose(&mut self, now_ms: u64, tried: &[usize], may_retry: bool, affinity: Option<u64>) -> Option<Attempt> {
        let (index, kind) = self
            .trial(now_ms, tried, may_retry, affinity)
            .map(|index| (index, Kind::Trial))
            .or_else(|| self.usual(now_ms, tried, affinity).map(|index| (index, Kind::Usual)))
            .or_else(|| self.last_resort(now_ms, tried).map(|index| (index, Kind::LastResort)))?;
        let upstream = &mut self.each[index];
        upstream.load += 1;
        if kind == Kind::Trial {
            upstream.health.begin_trial(now_ms);
        }
        Some(Attempt { index, kind, begun_ms: now_ms })
    }

    /// Chooses this upstream, if it is in use, is not drained and was not tried.
    pub fn choose_this(&mut self, index: usize, now_ms: u64, tried: &[usize]) -> Option<Attempt> {
        let settings = &self.settings;
        let upstream = self.each.get_mut(index).filter(|upstream| !upstream.is_drained && !tried.contains(&index))?;
        matches!(upstream.health.availability(now_ms, settings), Availability::InUse { .. }).then(|| {
            upstream.load += 1;
            Attempt { index, kind: Kind::Usual, begun_ms: now_ms }
        })
    }

    /// From now on an upstream gets no request, or may get some again. Those that it has are not concerned.
    pub fn set_drained(&mut self, index: usize, is_drained: bool) {
        if let Some(upstream) = self.each.get_mut(index) {
            upstream.is_drained = is_drained;
        }
    }

    /// The answer to an attempt has begun.
    pub fn handle_answer(&mut self, attempt: &Attempt, now_ms: u64) {
        if let Some(upstream) = self.each.get_mut(attempt.index) {
            upstream.time.observe(now_ms.saturating_sub(attempt.begun_ms), now_ms);
        }
    }

    /// Whether an upstream is left for a request that was tried with `tried`.
    pub fn has_left(&self, now_ms: u64, tried: &[usize]) -> bool {
        self.last_resort(now_ms, tried).is_some()
    }

    /// The time that an upstream is expected to take to begin an answer; none before its first answer.
    pub fn time_ms(&self, index: usize, now_ms: u64) -> Option<u32> {
        self.each.get(index)?.time.expected_ms(now_ms)
    }

    /// An attempt is over.
    pub fn handle_ended(&mut self, attempt: Attempt, now_ms: u64, outcome: Outcome) {
        let Some(upstream) = self.each.get_mut(attempt.index) else { return };
        debug_assert!(upstream.load > 0, "a request ends that was not given to this upstream");
        upstream.load = upstream.load.saturating_sub(1);
        upstream.health.handle_ended(now_ms, attempt.kind, outcome, &self.settings);
    }

    /// An active check of an upstream has passed or not.
    pub fn handle_check(&mut self, index: usize, now_ms: u64, has_passed: bool) {
        if let Some(upstream) = self.each.get_mut(index) {
            upstream.health.handle_check(now_ms, has_passed, &self.settings);
        }
    }

    /// Requests under way with an upstream.
    pub fn load(&self, index: usize) -> u32 {
        self.each.get(index).map_or(0, |upstream| upstream.load)
    }

    /// Whether an upstream is in use, and how much of its weight.
    pub fn availability(&self, index: usize, now_ms: u64) -> Option<Availability> {
        Some(self.each.get(index)?.health.availability(now_ms, &self.settings))
    }

    /// The client of another upstream is not sent there to find out, unless no own one has come for a while.
    fn trial(&self, now_ms: u64, tried: &[usize], may_retry: bool, affinity: Option<u64>) -> Option<usize> {
        let is_due = |index: &usize| {
            let health = &self.each[*index].health;
            let is_for = |affinity| self.is_own(*index, affinity) || health.is_overdue(now_ms, &self.settings);
            health.availability(now_ms, &self.settings) == Availability::Trial
                && !self.each[*index].is_drained
                && !tried.contains(index)
                && affinity.is_none_or(is_for)
        };
        if may_retry { (0..self.each.len()).find(is_due) } else { None }
    }

    /// Whether requests of this affinity would get to an upstream if all were in use.
    fn is_own(&self, index: usize, affinity: u64) -> bool {
        let weights = self.each.iter().map(|upstream| upstream.weight);
        affinity::choose(weights.zip(&self.numbers), affinity) == Some(index)
    }

    fn usual(&mut self, now_ms: u64, tried: &[usize], affinity: Option<u64>) -> Option<usize> {
        self.candidates.clear();
        let usual_ms = self.usual_ms(now_ms);
        for (index, upstream) in self.each.iter().enumerate() {
            let share = match upstream.health.availability(now_ms, &self.settings) {
                Availability::InUse { share } if !upstream.is_drained && !tried.contains(&index) => share,
                _ => 0,
            };
            let load = match self.balance {
                Balance::LeastBusy => upstream.load,
                Balance::LeastTime => {
                    let ms = upstream.time.expected_ms(now_ms).unwrap_or(usual_ms);
                    ms.saturating_add(1).saturating_mul(upstream.load.saturating_add(1))
                }
            };
            self.candidates.push(Candidate { weight: upstream.weight, share, load });
        }
        match affinity {
            None => choice::choose(&self.candidates, &mut self.random),
            Some(affinity) => {
                let in_use = |one: &Candidate| if one.share > 0 { one.weight } else { 0 };
                affinity::choose(self.candidates.iter().map(in_use).zip(&self.numbers), affinity)
            }
        }
    }

    /// The time that is expected of an upstream of which nothing is known yet: that of the others.
    fn usual_ms(&self, now_ms: u64) -> u32 {
        let known = || self.each.iter().filter_map(|upstream| upstream.time.expected_ms(now_ms));
        let sum: u64 = known().map(u64::from).sum();
        // An average of numbers of 32 bits is one.
        sum.checked_div(known().count() as u64).unwrap_or(0) as u32
    }

    /// Spares that are in use first, then the upstream that is soonest to be tried again.
    fn last_resort(&self, now_ms: u64, tried: &[usize]) -> Option<usize> {
        let wait = |index: usize| match self.each[index].health.availability(now_ms, &self.settings) {
            Availability::InUse { .. } => Some(0),
            Availability::Trial => Some(1),
            Availability::Out { until_ms } => Some(until_ms.saturating_sub(now_ms).saturating_add(2)),
            Availability::Down => None,
        };
        let left = (0..self.each.len()).filter(|index| !self.each[*index].is_drained && !tried.contains(index));
        left.filter_map(|index| Some((wait(index)?, index))).min().map(|(_, index)| index)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SETTINGS: HealthSettings = HealthSettings {
        failures_max: 3,
        window_ms: 10_000,
        pause_ms: 1_000,
        pause_max_ms: 60_000,
        slow_start_ms: 0,
        passes_min: 2,
        misses_max: 2,
    };

    fn fail(upstreams: &mut Upstreams, index: usize, now_ms: u64, times: usize) {
        for _ in 0..times {
            let others: Vec<usize> = (0..upstreams.each.len()).filter(|other| *other != index).collect();
            let attempt = upstreams.choose(now_ms, &others, false, None).unwrap();
            upstreams.handle_ended(attempt, now_ms, Outcome::Failed);
        }
    }

    #[test]
    fn who_fails_is_not_asked_until_its_pause_is_over() {
        let mut upstreams = Upstreams::new(&[1, 1], SETTINGS, 7);
        fail(&mut upstreams, 0, 100, 3);
        for _ in 0..50 {
            let attempt = upstreams.choose(500, &[], true, None).unwrap();
            assert_eq!((attempt.index(), attempt.kind()), (1, Kind::Usual));
            upstreams.handle_ended(attempt, 500, Outcome::Answered);
        }
        let trial = upstreams.choose(1_100, &[], true, None).unwrap();
        assert_eq!((trial.index(), trial.kind()), (0, Kind::Trial));
        let meanwhile = upstreams.choose(1_100, &[], true, None).unwrap();
        assert_eq!(meanwhile.index(), 1, "one request is enough to find out");
        upstreams.handle_ended(trial, 1_200, Outcome::Answered);
        assert!(matches!(upstreams.availability(0, 1_200), Some(Availability::InUse { .. })));
        upstreams.handle_ended(meanwhile, 1_300, Outcome::Answered);
    }

    #[test]
    fn nobody_pays_for_a_trial_who_cannot_be_served_elsewhere() {
        let mut upstreams = Upstreams::new(&[1, 1], SETTINGS, 7);
        fail(&mut upstreams, 0, 0, 3);
        let attempt = upstreams.choose(5_000, &[], false, None).unwrap();
        assert_eq!((attempt.index(), attempt.kind()), (1, Kind::Usual));
        upstreams.handle_ended(attempt, 5_000, Outcome::Unknown);
    }

    #[test]
    fn who_is_alone_is_asked_whatever_it_did() {
        let mut upstreams = Upstreams::new(&[1], SETTINGS, 7);
        fail(&mut upstreams, 0, 0, 50);
        let attempt = upstreams.choose(1, &[], false, None).unwrap();
        assert_eq!(attempt.kind(), Kind::LastResort);
        upstreams.handle_ended(attempt, 2, Outcome::Answered);
        assert!(
            matches!(upstreams.availability(0, 2), Some(Availability::InUse { .. })),
            "it has shown that it is back"
        );
    }

    #[test]
    fn who_checks_hold_to_be_down_is_not_asked() {
        let mut upstreams = Upstreams::new(&[1, 1], SETTINGS, 7);
        (0..2).for_each(|_| upstreams.handle_check(0, 0, false));
        assert_eq!(upstreams.choose(0, &[1], true, None), None);
        (0..2).for_each(|_| upstreams.handle_check(1, 0, false));
        assert_eq!(upstreams.choose(0, &[], true, None), None);
        (0..2).for_each(|_| upstreams.handle_check(0, 0, true));
        let attempt = upstreams.choose(0, &[], true, None).unwrap();
        assert_eq!(attempt.index(), 0);
        upstreams.handle_ended(attempt, 0, Outcome::Answered);
    }

    #[test]
    fn a_spare_is_asked_when_the_others_are_out_or_tried() {
        let mut upstreams = Upstreams::new(&[1, 0], SETTINGS, 7);
        for _ in 0..20 {
            let attempt = upstreams.choose(0, &[], true, None).unwrap();
            assert_eq!(attempt.index(), 0);
            upstreams.handle_ended(attempt, 0, Outcome::Answered);
        }
        assert_eq!(upstreams.choose(0, &[0], true, None).map(|attempt| attempt.index()), Some(1));
        fail(&mut upstreams, 0, 0, 3);
        assert_eq!(upstreams.choose(1, &[], true, None).map(|attempt| attempt.index()), Some(1));
    }

    #[test]
    fn who_is_drained_gets_nothing_and_has_its_share_again_afterwards() {
        let mut upstreams = Upstreams::new(&[1, 1, 0], SETTINGS, 7);
        let ask = |upstreams: &mut Upstreams, affinity| {
            let attempt = upstreams.choose(0, &[], true, affinity);
            attempt.map(|attempt| {
                let index = attempt.index();
                upstreams.handle_ended(attempt, 0, Outcome::Answered);
                index
            })
        };
        let under_way = upstreams.choose(0, &[1, 2], true, None).unwrap();
        upstreams.set_drained(0, true);
        assert!((0..50).all(|affinity| ask(&mut upstreams, Some(affinity)) == Some(1)));
        assert!((0..50).all(|_| ask(&mut upstreams, None) == Some(1)));
        assert_eq!(upstreams.load(0), 1, "what is under way goes on");
        upstreams.handle_ended(under_way, 0, Outcome::Answered);
        upstreams.set_drained(1, true);
        assert_eq!(ask(&mut upstreams, None), Some(2), "the spare");
        upstreams.set_drained(2, true);
        assert_eq!(ask(&mut upstreams, None), None, "the only one left is not asked either");
        upstreams.set_drained(0, false);
        assert_eq!(ask(&mut upstreams, None), Some(0));
    }

    #[test]
    fn by_time_who_begins_answers_sooner_gets_more_and_the_slow_one_is_found_out_about() {
        let mut upstreams = Upstreams::new(&[1, 1], SETTINGS, 7).with_balance(Balance::LeastTime);
        let (mut counts, mut now_ms) = ([0_u32; 2], 0);
        for _ in 0..20_000 {
            let attempt = upstreams.choose(now_ms, &[], true, None).unwrap();
            let index = attempt.index();
            counts[index] += 1;
            now_ms += [5, 50][index];
            upstreams.handle_answer(&attempt, now_ms);
            upstreams.handle_ended(attempt, now_ms, Outcome::Answered);
        }
        assert!(counts[0] > 20 * counts[1] && counts[1] > 1, "{counts:?}");
        // Many at once are divided as the times are.
        let under_way: Vec<Attempt> = (0..110).map(|_| upstreams.choose(now_ms, &[], true, None).unwrap()).collect();
        let (fast, slow) = (upstreams.load(0), upstreams.load(1));
        assert!(2 * fast > 3 * slow && slow > 0, "{fast} {slow}");
        under_way.into_iter().for_each(|attempt| upstreams.handle_ended(attempt, now_ms, Outcome::Unknown));
    }

    #[test]
    fn by_time_before_any_answer_the_one_with_fewer_requests_is_asked() {
        let mut upstreams = Upstreams::new(&[1, 1, 1], SETTINGS, 7).with_balance(Balance::LeastTime);
        let under_way: Vec<Attempt> = (0..30).map(|_| upstreams.choose(0, &[], true, None).unwrap()).collect();
        let loads = [0, 1, 2].map(|index| upstreams.load(index));
        assert!(loads.iter().all(|load| (8..=12).contains(load)), "{loads:?}");
        under_way.into_iter().for_each(|attempt| upstreams.handle_ended(attempt, 0, Outcome::Unknown));
    }

    #[test]
    fn who_is_drained_is_not_tried() {
        let mut upstreams = Upstreams::new(&[1, 1], SETTINGS, 7);
        fail(&mut upstreams, 0, 0, 3);
        upstreams.set_drained(0, true);
        assert_eq!(upstreams.choose(5_000, &[], true, None).map(|attempt| attempt.index()), Some(1));
    }

    #[test]
    fn requests_of_one_affinity_get_to_the_same_upstream_unless_it_is_out() {
        let mut upstreams = Upstreams::new(&[1, 1, 1, 0], SETTINGS, 7);
        let ask = |upstreams: &mut Upstreams, now_ms, affinity| {
            let attempt = upstreams.choose(now_ms, &[], true, Some(affinity)).unwrap();
            let index = attempt.index();
            upstreams.handle_ended(attempt, now_ms, Outcome::Answered);
            index
        };
        let own: Vec<usize> = (0..60).map(|affinity| ask(&mut upstreams, 0, affinity)).collect();
        assert!((0..3).all(|index| own.iter().filter(|own| **own == index).count() > 5), "{own:?}");
        fail(&mut upstreams, 1, 100, 3);
        let meanwhile: Vec<usize> = (0..60).map(|affinity| ask(&mut upstreams, 500, affinity)).collect();
        for (own, meanwhile) in own.iter().zip(&meanwhile) {
            assert!(*meanwhile != 1 && (*own == 1 || own == meanwhile));
        }
        // A client of its own finds out that it is back, and no other is sent there.
        let after: Vec<usize> = (0..60).map(|affinity| ask(&mut upstreams, 1_500, affinity)).collect();
        assert_eq!(after, own);
    }

    #[test]
    fn of_several_that_are_due_each_is_tried_by_its_own_clients_and_in_the_end_by_any() {
        let mut upstreams = Upstreams::new(&[1, 1, 1], SETTINGS, 7);
        let own = |upstreams: &Upstreams, index| (0..).find(|affinity| upstreams.is_own(index, *affinity)).unwrap();
        fail(&mut upstreams, 0, 0, 3);
        fail(&mut upstreams, 1, 0, 3);
        let trial = upstreams.choose(1_100, &[], true, Some(own(&upstreams, 1))).unwrap();
        assert_eq!((trial.index(), trial.kind()), (1, Kind::Trial), "though another is due before it");
        upstreams.handle_ended(trial, 1_100, Outcome::Answered);
        let of_third = Some(own(&upstreams, 2));
        let other = upstreams.choose(1_200, &[], true, of_third).unwrap();
        assert_eq!(other.index(), 2);
        upstreams.handle_ended(other, 1_200, Outcome::Answered);
        let late = upstreams.choose(4_100, &[], true, of_third).unwrap();
        assert_eq!((late.index(), late.kind()), (0, Kind::Trial), "its clients have not come");
        upstreams.handle_ended(late, 4_100, Outcome::Answered);
    }

    #[derive(Clone, Debug)]
    enum Event {
        Choose { tried: Vec<usize>, may_retry: bool },
        End { which: prop::sample::Index, outcome: Outcome },
        Check { index: usize, has_passed: bool },
        Wait(u64),
    }

    fn event() -> impl Strategy<Value = Event> {
        let outcome = prop_oneof![Just(Outcome::Answered), Just(Outcome::Failed), Just(Outcome::Unknown)];
        prop_oneof![
            6 => (prop::collection::vec(0..4_usize, 0..3), any::<bool>())
                .prop_map(|(tried, may_retry)| Event::Choose { tried, may_retry }),
            5 => (any::<prop::sample::Index>(), outcome).prop_map(|(which, outcome)| Event::End { which, outcome }),
            2 => (0..5_usize, any::<bool>()).prop_map(|(index, has_passed)| Event::Check { index, has_passed }),
            2 => (0..30_000_u64).prop_map(Event::Wait),
        ]
    }

    proptest! {
        #[test]
        fn whatever_happens_who_can_be_asked_is_asked(
            weights in prop::collection::vec(0..4_u32, 1..5), events in prop::collection::vec(event(), 0..80), seed: u64,
        ) {
            let mut upstreams = Upstreams::new(&weights, SETTINGS, seed);
            let mut again = upstreams.clone();
            let (mut under_way, mut now_ms): (Vec<Attempt>, u64) = (Vec::new(), 0);
            for event in events {
                match event {
                    Event::Choose { tried, may_retry } => {
                        let can_be_asked = |index: &usize| {
                            !tried.contains(index) && upstreams.availability(*index, now_ms) != Some(Availability::Down)
                        };
                        let any_left = (0..weights.len()).any(|index| can_be_asked(&index));
                        let chosen = upstreams.choose(now_ms, &tried, may_retry, None);
                        prop_assert_eq!(&again.choose(now_ms, &tried, may_retry, None), &chosen, "the same seed, the same choice");
                        prop_assert_eq!(chosen.is_some(), any_left);
                        if let Some(attempt) = chosen {
                            prop_assert!(!tried.contains(&attempt.index()));
                            let is_trial = attempt.kind() == Kind::Trial;
                            prop_assert!(!is_trial || may_retry);
                            prop_assert!(attempt.kind() != Kind::Usual || weights[attempt.index()] > 0);
                            under_way.push(attempt);
                        }
                    }
                    Event::End { which, outcome } if !under_way.is_empty() => {
                        let attempt = under_way.swap_remove(which.index(under_way.len()));
                        let copy = Attempt { index: attempt.index, kind: attempt.kind, begun_ms: attempt.begun_ms };
                        upstreams.handle_ended(attempt, now_ms, outcome);
                        again.handle_ended(copy, now_ms, outcome);
                    }
                    Event::End { .. } => {}
                    Event::Check { index, has_passed } => {
                        upstreams.handle_check(index, now_ms, has_passed);
                        again.handle_check(index, now_ms, has_passed);
                    }
                    Event::Wait(ms) => now_ms += ms,
                }
                for index in 0..weights.len() {
                    let count = under_way.iter().filter(|attempt| attempt.index() == index).count();
                    prop_assert_eq!(upstreams.load(index) as usize, count);
                }
            }
        }

        #[test]
        fn everybody_who_is_not_checked_to_be_down_comes_back(
            events in prop::collection::vec(0..3_usize, 0..60), seed: u64,
        ) {
            let mut upstreams = Upstreams::new(&[1, 1, 1], SETTINGS, seed);
            for (at, index) in events.iter().enumerate() {
                fail(&mut upstreams, *index, at as u64 * 100, 1);
            }
            // The longest pause is over, and each answers.
            let now_ms = events.len() as u64 * 100 + SETTINGS.pause_max_ms;
            for _ in 0..3 {
                let attempt = upstreams.choose(now_ms, &[], true, None).unwrap();
                upstreams.handle_ended(attempt, now_ms, Outcome::Answered);
            }
            for index in 0..3 {
                let is_in_use = matches!(upstreams.availability(index, now_ms), Some(Availability::InUse { .. }));
                prop_assert!(is_in_use, "{} is out", index);
            }
        }
    }
}
