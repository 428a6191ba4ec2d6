//! A key of a table in the file, as people and editors read about it.
//!
//! Owns: [`Key`], which rows of sites and routes are made of, and its schema. Settings of the server are rows of
//! another form (`setting::row`), because they are also flags and orders.

use std::ops::RangeInclusive;

use serde_json::{Value, json};

use super::reload::Reload;
use super::schema::values::{bytes, list_of, list_or_none, names, number, switch, text};
use super::unit::Unit;

/// A key.
#[derive(Debug)]
pub struct Key {
    /// As it is written. It is the name of the field in the macro of rows.
    pub name: &'static str,
    /// The values that it can have.
    pub form: Form,
    /// The default in words; none where its value in a new table says it, or where there is none.
    pub default: Option<&'static str>,
    /// The meaning, in one line.
    pub text: &'static str,
    /// The words that the manual adds.
    pub more: &'static str,
    /// When a new value is in force after a reload.
    pub reload: Reload,
    /// Whether it decides which clients are let in.
    pub admits: bool,
}

/// The form of a value: its type, its unit and its range.
#[derive(Debug)]
pub enum Form {
    /// True or false.
    Switch,
    /// A whole number.
    Number {
        /// Its unit.
        unit: Unit,
        /// The least and the most.
        bounds: RangeInclusive<u64>,
    },
    /// One of these words.
    Words(&'static [&'static str]),
    /// A text, as the manual calls it.
    Text(&'static str),
    /// Several texts.
    Texts {
        /// As the manual calls them.
        what: &'static str,
        /// The meaning of each.
        each: &'static str,
        /// Whether there may be none: the manual says what that means.
        may_be_empty: bool,
    },
    /// Something else.
    Other {
        /// As the manual calls it.
        what: &'static str,
        /// Its schema.
        schema: fn() -> Value,
    },
}

/// How keys are written in rows.
impl Key {
    const fn new(form: Form, text: &'static str) -> Key {
        Key { name: "", form, default: None, text, more: "", reload: Reload::Requests, admits: false }
    }

    pub(crate) const fn switch(text: &'static str) -> Key {
        Key::new(Form::Switch, text)
    }

    pub(crate) const fn number(unit: Unit, bounds: RangeInclusive<u64>, text: &'static str) -> Key {
        Key::new(Form::Number { unit, bounds }, text)
    }

    pub(crate) const fn words(words: &'static [&'static str], text: &'static str) -> Key {
        Key::new(Form::Words(words), text)
    }

    pub(crate) const fn text(what: &'static str, text: &'static str) -> Key {
        Key::new(Form::Text(what), text)
    }

    pub(crate) const fn texts(what: &'static str, each: &'static str, text: &'static str) -> Key {
        Key::new(Form::Texts { what, each, may_be_empty: false }, text)
    }

    /// Several texts or none.
    pub(crate) const fn texts_or_none(what: &'static str, each: &'static str, text: &'static str) -> Key {
        Key::new(Form::Texts { what, each, may_be_empty: true }, text)
    }

    pub(crate) const fn other(what: &'static str, schema: fn() -> Value, text: &'static str) -> Key {
        Key::new(Form::Other { what, schema }, text)
    }

    pub(crate) const fn named(mut self, name: &'static str) -> Key {
        self.name = name;
        self
    }

    pub(crate) const fn default(mut self, words: &'static str) -> Key {
        self.default = Some(words);
        self
    }

    pub(crate) const fn more(mut self, more: &'static str) -> Key {
        self.more = more;
        self
    }

    pub(crate) const fn reload(mut self, reload: Reload) -> Key {
        self.reload = reload;
        self
    }

    /// It decides which clients are let in.
    pub(crate) const fn admits(mut self) -> Key {
        self.admits = true;
        self
    }
}

impl Key {
    /// Its schema, under its name.
    pub(crate) fn schema(&self) -> (&'static str, Value) {
        let mut schema = match &self.form {
            Form::Switch => switch(""),
            Form::Number { unit: Unit::Bytes, bounds } => bytes(bounds, ""),
            Form::Number { bounds, .. } => number(bounds, ""),
            Form::Words(words) => names(words, ""),
            Form::Text(_) => text(""),
            Form::Texts { each, may_be_empty: true, .. } => list_or_none(text(each)),
            Form::Texts { each, .. } => list_of(text(each)),
            Form::Other { schema, .. } => schema(),
        };
        let is_of_none = |more: &&str| more.contains("`[]`");
        let none = self.more.split("; ").find(is_of_none).map_or_else(String::new, |more| format!("; {more}"));
        schema["description"] = json!(format!("{}{none}", self.text));
        (self.name, schema)
    }
}
