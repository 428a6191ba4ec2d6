//! The file of a profile: what engines cost on a machine, as `lamna tune` measured it.
//!
//! Owns: reading of the TOML form, which [`Profile::to_toml`] writes. A profile names its origin in comments, and the
//! figures it rests on; what counts is a table for each kind of load with a ratio, and the doubt of it, for each
//! engine.
//!
//! ```toml
//! [cached]
//! amped = { ratio = 1.0, doubt = 0.02 }
//! proactor = { ratio = 0.97, doubt = 0.02 }
//! ```

use std::collections::BTreeMap;
use std::path::Path;

use lamna_policy::control::{Engine, Estimate, Load, Profile};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    ratio: f64,
    doubt: f64,
}

/// Reads a profile. Engines and loads that it does not name are as built in.
///
/// # Errors
/// The file cannot be read or is no profile: why, in words.
pub fn read(file: &Path) -> Result<Profile, String> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
    parse(&text).map_err(|why| format!("{} is not a profile: {why}", file.display()))
}

fn parse(text: &str) -> Result<Profile, String> {
    let tables: BTreeMap<String, BTreeMap<String, Entry>> =
        toml::from_str(text).map_err(|error| error.message().to_owned())?;
    let mut profile = Profile::built_in();
    for (load, engines) in tables {
        let known = || Load::ALL.map(Load::name).join(", ");
        let load = Load::from_name(&load).ok_or_else(|| format!("there is no load {load:?}; there are {}", known()))?;
        for (name, Entry { ratio, doubt }) in engines {
            let engine = Engine::from_name(&name).ok_or_else(|| format!("there is no engine {name:?}"))?;
            if !(ratio > 0.0 && ratio.is_finite() && (0.0..=10.0).contains(&doubt)) {
                return Err(format!("{}.{name}: a ratio is greater than 0, and a doubt from 0 to 10", load.name()));
            }
            profile.set(load, engine, Estimate { ratio, doubt });
        }
    }
    Ok(profile)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let mut profile = Profile::built_in();
        profile.set(Load::Large, Engine::Proactor, Estimate { ratio: 0.75, doubt: 0.01 });
        let text = profile.to_toml("measured here\nand now");
        assert!(text.starts_with("# measured here\n# and now\n"), "{text}");
        assert_eq!(parse(&text).unwrap(), profile);
    }

    #[test]
    fn what_is_not_a_profile_is_said_to_be_none() {
        for (text, why) in [
            ("[cached]\namped = 1", "invalid type"),
            ("[idle]\n", "there is no load \"idle\"; there are cached"),
            ("[cached]\nmp = { ratio = 1.0, doubt = 0.0 }", "there is no engine \"mp\""),
            ("[cached]\nsped = { ratio = 0.0, doubt = 0.0 }", "cached.sped: a ratio is greater than 0"),
            ("[cached]\nsped = { ratio = nan, doubt = 0.0 }", "cached.sped"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
        assert!(read(Path::new("/does/not/exist")).unwrap_err().contains("cannot read /does/not/exist"));
    }
}
