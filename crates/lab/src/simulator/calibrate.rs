//! Measuring a parameter set: what each step of a request costs Lamna on this machine.
//!
//! Owns: which trial gives which parameter, and how. Guarantees: each trial is repeated in rounds, so that a drift of
//! the machine meets all of them, and what counts is [`undisturbed`]; every figure carries a sentence on how it was
//! got. What is not measured keeps the value of the estimate (`linux-2026`) and says so.
//!
//! Three ways are combined. Sums come from the real server under load: processor time for each request, slopes over
//! sizes. How a sum divides into steps comes from single calls ([`super::micro`]), so errors in the division move time
//! from one step to another, and never invent any. And what an engine costs beyond the steps is the value with which
//! the model of a trial takes the processor time that the trial took, so nothing is counted twice.
//!
//! None of the trials is one of the scenarios of the validation: clients and content are others.

mod calibration;
mod derive;
mod invert;
mod name;
mod reads;
mod sentences;
mod site;
pub(super) mod steps;

use std::fs;
use std::io;

use self::calibration::Results;
use self::derive::derive;
use self::steps::Steps;

pub use self::calibration::{Calibration, Plan};
pub(super) use self::name::Name;
pub(super) use self::site::Site;
use super::disk;
use super::measurements::Measurements;
use super::trial::undisturbed;

/// Measures. `progress` hears how many trials are done, of how many.
///
/// # Errors
/// The server cannot be run, or an engine is missing that calibration needs.
pub fn calibrate(plan: &Plan, progress: impl Fn(usize, usize)) -> io::Result<Calibration> {
    fs::create_dir_all(&plan.scratch)?;
    let mut kept = Measurements::open(None)?;
    let result = Site::make(plan).and_then(|site| {
        let (names, rounds) = (Name::all(), plan.rounds.max(1) as usize);
        for round in 0..rounds {
            for (place, &name) in names.iter().enumerate() {
                kept.add(&name.key(), site.run(name)?)?;
                progress(round * names.len() + place + 1, rounds * names.len());
            }
        }
        let (steps, disk) = site.single_steps()?;
        kept.add_steps(steps, disk)?;
        derive_kept(&plan.name, &kept)
    });
    fs::remove_dir_all(&plan.scratch)?;
    result
}

/// The set that follows from the kept trials.
///
/// # Errors
/// A trial is missing.
pub(super) fn derive_kept(name: &str, kept: &Measurements) -> io::Result<Calibration> {
    let yardstick_us = kept.yardstick_us();
    let missing = |name: Name| io::Error::other(format!("the trial `{}` is missing", name.key().scenario));
    let results = |name: Name| match kept.trials(&name.key()) {
        none if none.is_empty() => Err(missing(name)),
        trials => Ok((name, undisturbed(&name.telling(trials)).at_speed(yardstick_us))),
    };
    let results = Results(Name::all().into_iter().map(results).collect::<io::Result<_>>()?);
    let (steps, disks) = kept.steps();
    let steps: Vec<_> = steps.iter().map(|steps| steps.at_speed(yardstick_us)).collect();
    if steps.is_empty() {
        return Err(io::Error::other("single steps were not measured"));
    }
    Ok(derive(name, &results, &Steps::median(&steps), disk::median(disks), yardstick_us))
}

#[cfg(test)]
mod tests {
    use super::derive::{line, round};
    use super::name::{ENGINES, LONG_SENDERS, PAGE_CACHERS, READERS, SHARERS, VARIED};
    use super::sentences::sentences;
    use super::*;
    use crate::simulator::trial::Observed;
    use lamna_sim::parameters::Parameters;

    #[test]
    fn the_line_through_points_on_a_line_is_found() {
        let (intercept, slope) = line(&[(1.0, 5.0), (10.0, 23.0), (4.0, 11.0)]);
        assert!((intercept - 3.0).abs() < 1e-9 && (slope - 2.0).abs() < 1e-9);
    }

    #[test]
    fn every_measured_field_is_commented_in_the_file() {
        let mut parameters = Parameters::linux();
        parameters.disks.insert("this".into(), parameters.disks["ssd"]);
        parameters.engines = ["amped", "co-amped", "proactor", "thread-pool"].map(|engine| (engine.into(), 1.0)).into();
        parameters.reads = READERS[1..].iter().map(|&engine| (engine.into(), 1.0)).collect();
        parameters.read_units = PAGE_CACHERS.map(|engine| (engine.into(), 1.0)).into();
        parameters.long_units = LONG_SENDERS.map(|engine| (engine.into(), 1.0)).into();
        parameters.long_units.insert("pipelined".into(), 1.0);
        parameters.long_segments = parameters.long_units.clone();
        parameters.shared = SHARERS.map(|engine| (engine.into(), 1.0)).into();
        parameters.varied = VARIED[1..].iter().map(|&engine| (engine.into(), 1.0)).collect();
        parameters.contents = ENGINES.map(|engine| (engine.into(), vec![(1_000, 0.0), (5_000, 1.0)])).into();
        let observed = Observed { server_us: 1.0, per_wait: 1.0, ..Observed::default() };
        round(&mut parameters);
        let how = sentences(&observed, &observed, 1.0);
        let count = how.len();
        let text = Calibration { parameters: parameters.clone(), how }.to_toml();
        assert_eq!(text.matches("  # ").count(), count, "{text}");
        assert_eq!(toml::from_str::<Parameters>(&text).expect("it is TOML"), parameters);
    }
}
