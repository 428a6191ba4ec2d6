//! Flags that come from the rows of the settings: those of `lamna serve`, and what `lamna ctl set` takes.
//!
//! Owns: how a row looks on the command line. What it means and takes is in the row (`lamna_server::config::setting`).

use std::ffi::OsString;
use std::sync::LazyLock;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser, ValueParser};
use clap::error::ErrorKind;
use clap::{Arg, ArgGroup, ArgMatches, Args, Command, FromArgMatches};
use lamna_server::admin::Change;
use lamna_server::config::setting::{Kind, SETTINGS, Section, Setting, Unit, Value};

/// Settings that are given as flags.
#[derive(Clone, Debug, Default)]
pub(crate) struct SettingArgs {
    given: Vec<(&'static Setting, Value)>,
}

/// The changes for a running server.
#[derive(Clone, Debug, Default)]
pub(crate) struct SetArgs {
    given: Vec<(&'static Setting, Value)>,
}

impl SettingArgs {
    /// The names of the settings, and what they are to be.
    pub(crate) fn values(&self) -> Vec<(&'static str, Value)> {
        self.given.iter().map(|(setting, value)| (setting.name, value.clone())).collect()
    }
}

impl SetArgs {
    /// The change for the endpoint.
    pub(crate) fn change(&self) -> Change {
        Change::of(self.given.iter().cloned())
    }
}

impl Args for SettingArgs {
    fn augment_args(command: Command) -> Command {
        let flags = Section::ALL.into_iter().flat_map(|section| {
            SETTINGS.iter().filter(move |setting| setting.section == Some(section)).map(move |setting| {
                let flag = flag(setting).help(help(setting)).help_heading(section.heading());
                match setting.kind {
                    Kind::Switch { .. } => flag.num_args(0..=1).require_equals(true).default_missing_value("true"),
                    _ => flag,
                }
            })
        });
        command.args(flags)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl Args for SetArgs {
    fn augment_args(command: Command) -> Command {
        let changeable = || SETTINGS.iter().filter(|setting| setting.order.is_some());
        let flags = changeable().map(|setting| {
            let flag = flag(setting).help(setting.text);
            match setting.name {
                // What most people change is said without its name.
                "arch" => flag.long(None).value_name("NAME").index(1),
                _ => flag,
            }
        });
        let any = ArgGroup::new("change").args(changeable().map(|setting| setting.name)).required(true).multiple(true);
        command.args(flags).group(any)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// A command line in which `ctl set NAME VALUE` and `ctl set NAME=VALUE` are written as the flags that they mean.
pub(crate) fn as_flags(words: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut words: Vec<OsString> = words.into_iter().collect();
    let Some(set) = position_of_set(&words) else { return words };
    let mut at = set + 1;
    while let Some(word) = words.get(at).and_then(|word| word.to_str()) {
        let is_named = words.get(at + 1).is_some();
        let (name, value) = word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
        let is_flag = name.starts_with('-');
        // What names a flag that takes a value stands before it.
        let steps = if is_flag && value.is_none() && name != "--json" { 2 } else { 1 };
        match (long_name(name), value) {
            (Some("arch"), Some(value)) => words[at] = value.into(),
            (Some("arch"), None) if is_named => drop(words.remove(at)),
            (Some(name), Some(value)) => words[at] = format!("--{name}={value}").into(),
            (Some(name), None) if is_named => {
                words[at] = format!("--{name}").into();
                at += 1;
            }
            _ => {}
        }
        at += steps;
    }
    words
}

/// Where `set` stands behind `ctl`, or behind `ctl arch`; flags may stand between them.
fn position_of_set(words: &[OsString]) -> Option<usize> {
    let mut at = words.iter().position(|word| word == "ctl")? + 1;
    loop {
        match words.get(at)?.to_str()? {
            "set" => return Some(at),
            "arch" | "--json" => at += 1,
            flag if flag.starts_with("--") => at += if flag.contains('=') { 1 } else { 2 },
            _ => return None,
        }
    }
}

/// The flag of a setting that can be changed while serving, by its name in the configuration or as a flag.
fn long_name(word: &str) -> Option<&'static str> {
    let word = word.replace('_', "-");
    let mut named = SETTINGS.iter().zip(FLAGS.iter()).filter(|(setting, _)| setting.order.is_some());
    named.find(|(_, (name, alias))| *name == word || alias.as_ref() == Some(&word)).map(|(_, (name, _))| name.as_str())
}

impl FromArgMatches for SettingArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(SettingArgs { given: given(matches)? })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.given = given(matches)?;
        Ok(())
    }
}

impl FromArgMatches for SetArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(SetArgs { given: given(matches)? })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.given = given(matches)?;
        Ok(())
    }
}

/// The given values, in the order of the settings.
fn given(matches: &ArgMatches) -> Result<Vec<(&'static Setting, Value)>, clap::Error> {
    let mut given = Vec::new();
    for setting in SETTINGS {
        match matches.try_get_one::<Value>(setting.name) {
            Ok(value) => given.extend(value.map(|value| (setting, value.clone()))),
            // It is no argument of this command.
            Err(clap::parser::MatchesError::UnknownArgument { .. }) => {}
            Err(error) => return Err(clap::Error::raw(ErrorKind::InvalidValue, error)),
        }
    }
    Ok(given)
}

/// The flag of a setting, with what it takes.
fn flag(setting: &'static Setting) -> Arg {
    let place = SETTINGS.iter().position(|each| each.name == setting.name).unwrap_or_default();
    let (name, alias) = &FLAGS[place];
    let flag = Arg::new(setting.name).long(name.as_str()).value_parser(parser(setting)).value_name(value_name(setting));
    match alias {
        Some(alias) => flag.alias(alias.as_str()),
        None => flag,
    }
}

/// The text, with what the value name does not say.
fn help(setting: &Setting) -> String {
    let default = match (setting.default, &setting.kind) {
        (Some(words), _) => words.to_owned(),
        // What is off is switched on.
        (None, Kind::Switch { .. }) => String::new(),
        (None, _) => setting.show(&DEFAULTS),
    };
    let words = match setting.kind {
        Kind::Words { .. } => format!(": {}", setting.expectation()),
        _ => String::new(),
    };
    let default = if default.is_empty() { default } else { format!(" [default: {default}]") };
    format!("{}{words}{default}", setting.text)
}

/// The names of flags, and other names that are understood: as those of settings, with dashes.
static FLAGS: LazyLock<Vec<(String, Option<String>)>> = LazyLock::new(|| {
    let dashes = |name: &str| name.replace('_', "-");
    let alias = |setting: &Setting| setting.order.as_ref().and_then(|order| order.alias).map(dashes);
    SETTINGS.iter().map(|setting| (dashes(setting.name), alias(setting))).collect()
});

static DEFAULTS: LazyLock<lamna_server::config::settings::Settings> = LazyLock::new(Default::default);

fn parser(setting: &'static Setting) -> ValueParser {
    match &setting.kind {
        Kind::Word { words, aliases, .. } => {
            let offered = words().into_iter().map(PossibleValue::new);
            let others = aliases().into_iter().map(|alias| PossibleValue::new(alias).hide(true));
            PossibleValuesParser::new(offered.chain(others)).map(Value::Text).into()
        }
        _ => ValueParser::new(move |text: &str| setting.parse(text)),
    }
}

fn value_name(setting: &Setting) -> &'static str {
    match &setting.kind {
        Kind::Switch { .. } => "BOOL",
        Kind::Number { unit: Unit::Count, .. } => "N",
        Kind::Number { unit: Unit::Bytes, .. } => "SIZE",
        Kind::Number { unit: Unit::Milliseconds, .. } => "MS",
        Kind::Number { unit: Unit::Seconds, .. } => "S",
        Kind::Number { unit: Unit::Percent, .. } => "PERCENT",
        Kind::NumberOrAuto { .. } => "N|auto",
        Kind::Word { .. } => "NAME",
        Kind::Words { .. } => "off|LIST",
        Kind::Text { form, .. } | Kind::List { form, .. } => form,
        Kind::Listeners => "ADDR",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(line: &str) -> String {
        let words = as_flags(line.split(' ').map(OsString::from));
        words.join(" ".as_ref()).into_string().unwrap()
    }

    #[test]
    fn settings_are_changed_by_name_and_value() {
        assert_eq!(flags("lamna ctl set schedule srpt"), "lamna ctl set --schedule srpt");
        assert_eq!(flags("lamna ctl set workers=2 helpers_max 4"), "lamna ctl set --workers=2 --helpers-max 4");
        assert_eq!(flags("lamna ctl set arch sped"), "lamna ctl set sped");
        assert_eq!(flags("lamna ctl arch set arch=sped"), "lamna ctl arch set sped");
        let flags_before = "lamna ctl --admin set --json set schedule srpt";
        assert_eq!(flags(flags_before), "lamna ctl --admin set --json set --schedule srpt");
        assert_eq!(flags("lamna ctl --admin=set set schedule srpt"), "lamna ctl --admin=set set --schedule srpt");
    }

    #[test]
    fn other_words_are_left_as_they_are() {
        for line in [
            "lamna ctl set sped --schedule srpt",
            "lamna ctl set --admin schedule --json sped",
            "lamna ctl set schedule",
            "lamna ctl set nonsense 3",
            "lamna ctl set",
            "lamna serve set schedule srpt",
        ] {
            assert_eq!(flags(line), line);
        }
    }
}
