//! The type of a row, which is a setting, and operations on all rows.
//!
//! Owns: kinds of values, and how each is read from text and written as text. Does not know which settings there are
//! (`table`).

use std::fmt;
use std::ops::RangeInclusive;
use std::path::Path;

use lamna_policy::size::parse_size;

use super::values::listen_at;
use crate::architecture::Architecture;
use crate::depth::Depth;
use crate::reload::Reload;
use crate::settings::Settings;
pub use crate::unit::Unit;

/// The values that a setting can be set to, and access to the one in force. A value that is set has been judged by
/// [`Setting::parse`] or as it does.
#[derive(Debug)]
pub enum Kind {
    /// On or off.
    Switch {
        /// The value.
        get: fn(&Settings) -> bool,
        /// Sets it.
        set: fn(&mut Settings, bool),
    },
    /// A whole number.
    Number {
        /// The unit of the number.
        unit: Unit,
        /// The least and the most.
        bounds: RangeInclusive<u64>,
        /// The value.
        get: fn(&Settings) -> u64,
        /// Sets it.
        set: fn(&mut Settings, u64),
    },
    /// A count that can be left to the server.
    NumberOrAuto {
        /// The least and the most.
        bounds: RangeInclusive<u64>,
        /// The value; none for `auto`.
        get: fn(&Settings) -> Option<u64>,
        /// Sets it; none for `auto`, which begins with the default.
        set: fn(&mut Settings, Option<u64>),
    },
    /// One of several words.
    Word {
        /// The words.
        words: fn() -> Vec<&'static str>,
        /// Others that are understood, and not offered.
        aliases: fn() -> Vec<&'static str>,
        /// The value.
        get: fn(&Settings) -> &'static str,
        /// Sets it; none if there is no such word.
        set: fn(&mut Settings, &str) -> Option<()>,
    },
    /// Some of several words with commas between, or `off`.
    Words {
        /// The words.
        words: &'static [&'static str],
        /// The value.
        get: fn(&Settings) -> String,
        /// Sets it; none if there is no such word.
        set: fn(&mut Settings, &str) -> Option<()>,
    },
    /// A path, an address, or a word that stands for one.
    Text {
        /// The accepted texts, as help writes them: words, and `FILE`, `ADDR` or `unix:PATH`, with `|` between.
        form: &'static str,
        /// The value; none if nothing was given.
        get: fn(&Settings) -> Option<String>,
        /// Sets it. Paths are relative to a directory. The error is the rest of a sentence that begins with the text.
        set: fn(&mut Settings, &str, &Path) -> Result<(), String>,
    },
    /// Several texts.
    List {
        /// The form of each text, in the plural.
        form: &'static str,
        /// The meaning of an empty list, as the end of a sentence.
        none: &'static str,
        /// The values.
        get: fn(&Settings) -> Vec<String>,
        /// Leaves none: what is given takes the place of the default.
        clear: fn(&mut Settings),
        /// Adds one, as `set` of a text.
        add: fn(&mut Settings, &str, &Path) -> Result<(), String>,
    },
    /// The entries of `listen`: addresses, and tables that say more of them.
    Listeners,
}

/// The value of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// On or off.
    Switch(bool),
    /// A number, in the unit of the setting.
    Number(u64),
    /// The value that the server finds right.
    Auto,
    /// A word, words, a path or an address.
    Text(String),
}

/// As it is passed to another process: sizes in bytes.
impl fmt::Display for Value {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Switch(on) => write!(formatter, "{on}"),
            Value::Number(number) => write!(formatter, "{number}"),
            Value::Auto => formatter.write_str("auto"),
            Value::Text(text) => formatter.write_str(text),
        }
    }
}

/// Where help has a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// Certificates that are ordered.
    Certificates,
    /// Access log and error log.
    Logs,
    /// Control, and the end of the server.
    Control,
    /// Compression, caches and sending.
    Memory,
    /// Engines.
    Engines,
}

impl Section {
    /// Every section, in the order of help.
    pub const ALL: [Section; 5] =
        [Section::Certificates, Section::Logs, Section::Control, Section::Memory, Section::Engines];

    /// Its heading.
    pub fn heading(self) -> &'static str {
        match self {
            Section::Certificates => "Certificates",
            Section::Logs => "Logs",
            Section::Control => "Control and end",
            Section::Memory => "Compression, caches and sending",
            Section::Engines => "Engines",
        }
    }
}

/// That a running server can be ordered to change a setting.
#[derive(Clone, Copy, Debug)]
pub struct Order {
    /// The name in the order.
    pub name: &'static str,
    /// An older name that is understood as well.
    pub alias: Option<&'static str>,
    /// The engines that it concerns; none for all.
    pub concerns: Option<Concern>,
}

/// That a setting means something to some engines only.
#[derive(Clone, Copy, Debug)]
pub struct Concern {
    /// Whether it concerns this one.
    pub is_of: fn(Architecture) -> bool,
    /// Which these are, in words.
    pub whose: &'static str,
}

/// The form in which an upgrade carries a setting that was changed while serving.
#[derive(Clone, Copy, Debug)]
pub(super) enum Carry {
    /// Nothing: the other process reads the configuration.
    Nothing,
    /// The value, by the name of the setting.
    Value,
    /// Several things, because what the server has chosen is not what it was set to.
    Parts(&'static [Part]),
}

/// One thing that an upgrade takes along, as a word without space. Names never change: a program of another version
/// reads them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) name: &'static str,
    pub(super) write: fn(&Settings) -> String,
    /// None if the text is not a value; then nothing has changed.
    pub(super) read: fn(&mut Settings, &str) -> Option<()>,
}

/// The objection to a value because of something outside of the configuration, and the advice about it.
pub type Objection = (String, Option<String>);

/// Looks at what is outside of the configuration, after the setting has been set. Reads what a path leads to.
pub(crate) type EnvironmentCheck = fn(&mut Settings, Depth) -> Result<(), Objection>;

/// A setting of the server.
#[derive(Debug)]
pub struct Setting {
    /// The key in the file. With dashes for underscores, the flag.
    pub name: &'static str,
    /// The values that it can be set to.
    pub kind: Kind,
    /// The meaning, in one line.
    pub text: &'static str,
    /// The words that the manual adds to `text`.
    pub more: &'static str,
    /// The default in words, where it depends on the machine.
    pub default: Option<&'static str>,
    /// Where help has its flag; none if it has none, or one that is written by hand.
    pub section: Option<Section>,
    /// How a running server is ordered to change it.
    pub order: Option<Order>,
    /// When a new value is in force after a reload.
    pub reload: Reload,
    /// Whether a reload that changes it begins with an empty cache.
    pub empties_cache: bool,
    /// Whether it decides which clients are let in.
    pub(crate) admits: bool,
    pub(super) carry: Carry,
    pub(crate) environment_check: Option<EnvironmentCheck>,
}

/// How rows are written.
impl Setting {
    pub(crate) const fn new(name: &'static str, kind: Kind, text: &'static str) -> Setting {
        Setting {
            name,
            kind,
            text,
            more: "",
            default: None,
            section: None,
            order: None,
            reload: Reload::Requests,
            empties_cache: false,
            admits: false,
            carry: Carry::Nothing,
            environment_check: None,
        }
    }

    /// It has a flag.
    pub(super) const fn flag(mut self, section: Section) -> Setting {
        self.section = Some(section);
        self
    }

    pub(super) const fn more(mut self, more: &'static str) -> Setting {
        self.more = more;
        self
    }

    pub(super) const fn default(mut self, words: &'static str) -> Setting {
        self.default = Some(words);
        self
    }

    /// It can be changed while serving, by this name, and is carried to another process.
    pub(super) const fn order(mut self) -> Setting {
        self.order = Some(Order { name: self.name, alias: None, concerns: None });
        self.carry = Carry::Value;
        self
    }

    /// In orders it has, or had, other names.
    pub(super) const fn order_as(mut self, name: &'static str, alias: Option<&'static str>) -> Setting {
        self.order = Some(Order { name, alias, concerns: None });
        self.carry = Carry::Value;
        self
    }

    /// Orders to change it are refused where it concerns no engine.
    pub(super) const fn concerns(mut self, whose: &'static str, is_of: fn(Architecture) -> bool) -> Setting {
        if let Some(order) = &mut self.order {
            order.concerns = Some(Concern { is_of, whose });
        }
        self
    }

    /// It is not changed by orders, but by the server, and carried to another process.
    pub(super) const fn carried(mut self) -> Setting {
        self.carry = Carry::Value;
        self
    }

    pub(super) const fn carried_in(mut self, parts: &'static [Part]) -> Setting {
        self.carry = Carry::Parts(parts);
        self
    }

    pub(super) const fn reload(mut self, reload: Reload) -> Setting {
        self.reload = reload;
        self
    }

    /// A change of it by a reload begins with an empty cache.
    pub(super) const fn empties_cache(mut self) -> Setting {
        self.empties_cache = true;
        self
    }

    /// It decides which clients are let in.
    pub(super) const fn admits(mut self) -> Setting {
        self.admits = true;
        self
    }

    pub(super) const fn environment_check(mut self, environment_check: EnvironmentCheck) -> Setting {
        self.environment_check = Some(environment_check);
        self
    }
}

impl Setting {
    /// Reads a value as it is typed and passed on.
    ///
    /// # Errors
    /// The expectation, or the rest of a sentence that begins with the text.
    pub fn parse(&self, text: &str) -> Result<Value, String> {
        let expected = || format!("expected {}", self.expectation());
        match &self.kind {
            Kind::Switch { .. } => text.parse().map(Value::Switch).map_err(|_| expected()),
            Kind::Number { unit, bounds, .. } => {
                let number =
                    if *unit == Unit::Bytes { parse_size(text)? } else { text.parse().map_err(|_| expected())? };
                bounds.contains(&number).then_some(Value::Number(number)).ok_or_else(expected)
            }
            Kind::NumberOrAuto { .. } if text == "auto" => Ok(Value::Auto),
            Kind::NumberOrAuto { bounds, .. } => {
                let number = text.parse().ok().filter(|number| bounds.contains(number));
                number.map(Value::Number).ok_or_else(expected)
            }
            Kind::Word { set, .. } | Kind::Words { set, .. } => {
                let known = set(&mut Settings::default(), text);
                known.map(|()| Value::Text(text.to_owned())).ok_or_else(expected)
            }
            Kind::Text { set, .. } | Kind::List { add: set, .. } => {
                set(&mut Settings::default(), text, Path::new("/")).map(|()| Value::Text(text.to_owned()))
            }
            Kind::Listeners => listen_at(text, Path::new("/")).map(|_| Value::Text(text.to_owned())),
        }
    }

    /// Sets it to a value that was read for it. Paths are relative to `base`. Of several texts it adds one.
    ///
    /// # Errors
    /// The value is none of this setting: the rest of a sentence that begins with it.
    pub fn put(&self, settings: &mut Settings, value: &Value, base: &Path) -> Result<(), String> {
        let expected = || format!("is not {}", self.expectation());
        match (&self.kind, value) {
            (Kind::Switch { set, .. }, Value::Switch(on)) => set(settings, *on),
            (Kind::Number { set, .. }, Value::Number(number)) => set(settings, *number),
            (Kind::NumberOrAuto { set, .. }, Value::Number(number)) => set(settings, Some(*number)),
            (Kind::NumberOrAuto { set, .. }, Value::Auto) => set(settings, None),
            (Kind::Word { set, .. } | Kind::Words { set, .. }, Value::Text(text)) => {
                return set(settings, text).ok_or_else(expected);
            }
            (Kind::Text { set, .. } | Kind::List { add: set, .. }, Value::Text(text)) => {
                return set(settings, text, base);
            }
            (Kind::Listeners, Value::Text(text)) => settings.listen.push(listen_at(text, base)?.into()),
            _ => return Err(expected()),
        }
        Ok(())
    }

    /// The values that it is set to: none of a text that was not given, all of a list.
    pub fn values(&self, settings: &Settings) -> Vec<Value> {
        let one = match &self.kind {
            Kind::Switch { get, .. } => Value::Switch(get(settings)),
            Kind::Number { get, .. } => Value::Number(get(settings)),
            Kind::NumberOrAuto { get, .. } => get(settings).map_or(Value::Auto, Value::Number),
            Kind::Word { get, .. } => Value::Text(get(settings).to_owned()),
            Kind::Words { get, .. } => Value::Text(get(settings)),
            Kind::Text { get, .. } => return get(settings).map(Value::Text).into_iter().collect(),
            Kind::List { get, .. } => return get(settings).into_iter().map(Value::Text).collect(),
            Kind::Listeners => {
                let entries = settings.listen.iter().map(ToString::to_string);
                return entries.map(|entry| Value::Text(entry.trim_matches('"').to_owned())).collect();
            }
        };
        vec![one]
    }

    /// The value that it is set to, as people read it.
    pub fn show(&self, settings: &Settings) -> String {
        let show = |value: &Value| match (&self.kind, value) {
            (Kind::Number { unit, .. }, Value::Number(number)) => unit.show(*number),
            _ => value.to_string(),
        };
        self.values(settings).iter().map(show).collect::<Vec<_>>().join(", ")
    }

    /// The expected values, as the object of a sentence.
    pub fn expectation(&self) -> String {
        match &self.kind {
            Kind::Switch { .. } => "true or false".to_owned(),
            Kind::Number { unit, bounds, .. } => {
                let noun = match unit {
                    Unit::Count => "a number",
                    Unit::Bytes => "a size",
                    Unit::Milliseconds => "a number of milliseconds",
                    Unit::Seconds => "a number of seconds",
                    Unit::Percent => "a percentage",
                };
                match *bounds.start() {
                    0 => format!("{noun} up to {}", unit.show(*bounds.end())),
                    least => format!("{noun} from {} to {}", unit.show(least), unit.show(*bounds.end())),
                }
            }
            Kind::NumberOrAuto { bounds, .. } => {
                format!("a number from {} to {}, or auto", bounds.start(), bounds.end())
            }
            Kind::Word { words, .. } => format!("one of {}", listed(&words())),
            Kind::Words { words, .. } => format!("`off`, or some of {} with commas between", listed(words)),
            Kind::Text { form, .. } => form.replace('|', ", "),
            Kind::List { form, .. } => (*form).to_owned(),
            Kind::Listeners => "addresses".to_owned(),
        }
    }

    /// The words that an upgrade carries, by name.
    pub fn carried_words(&self, settings: &Settings) -> Vec<(&'static str, String)> {
        match self.carry {
            Carry::Nothing => Vec::new(),
            Carry::Value => self.values(settings).into_iter().map(|value| (self.name, value.to_string())).collect(),
            Carry::Parts(parts) => parts.iter().map(|part| (part.name, (part.write)(settings))).collect(),
        }
    }

    /// Takes what an upgrade has taken along by this name. None if it is not of this setting; false if the text is no
    /// value of it, and nothing has changed.
    pub fn take_carried(&self, settings: &mut Settings, name: &str, text: &str) -> Option<bool> {
        match self.carry {
            Carry::Value if name == self.name => {
                let value = self.parse(text).ok();
                Some(value.is_some_and(|value| self.put(settings, &value, Path::new("/")).is_ok()))
            }
            Carry::Parts(parts) => {
                let part = parts.iter().find(|part| part.name == name)?;
                Some((part.read)(settings, text).is_some())
            }
            _ => None,
        }
    }
}

/// Words with commas between, and `and` before the last.
fn listed(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}
