//! Values of the file that stand in several tables, exactly as written: texts, lists of them, and numbers.
//!
//! Owns: their types, where they stand, and which of them may be empty ([`MayBeEmpty`], [`Filled`]). Does not judge
//! them (`checker`).

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

use serde::Deserialize;
use serde::de::{Deserializer, Error, SeqAccess, Visitor};
use toml::Spanned;

/// A text and where it stands.
pub(crate) type Text = Spanned<String>;

/// A number, as an integer or as text with a unit.
#[derive(Clone, Debug)]
pub(crate) enum Amount {
    Number(i64),
    Text(String),
}

impl Amount {
    /// Whether it is this text.
    pub(crate) fn is_text(&self, expected: &str) -> bool {
        matches!(self, Amount::Text(text) if text == expected)
    }
}

/// A list that says something by being empty. The reader (`tree`) refuses any other list that is: taken for no list, it
/// would leave out what it was to restrict.
#[derive(Clone, Debug)]
pub(crate) struct MayBeEmpty<T>(T);

/// A table that must not be empty: each of its entries restricts something.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filled<T>(T);

/// The names by which the reader knows them.
pub(crate) const MAY_BE_EMPTY: &str = "MayBeEmpty";
pub(crate) const FILLED: &str = "Filled";

/// One text or a list of texts.
#[derive(Clone, Debug)]
pub(crate) struct Texts(pub(crate) Vec<String>);

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AmountVisitor)
    }
}

struct InnerVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for InnerVisitor<T> {
    type Value = T;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list or a table")
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<T, D::Error> {
        T::deserialize(inner)
    }
}

macro_rules! read_as_inner {
    ($($type:ident = $name:ident),*) => {$(
        impl<'de, T: Deserialize<'de>> Deserialize<'de> for $type<T> {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_newtype_struct($name, InnerVisitor(PhantomData)).map($type)
            }
        }

        impl<T> Deref for $type<T> {
            type Target = T;

            fn deref(&self) -> &T {
                &self.0
            }
        }
    )*};
}

read_as_inner!(MayBeEmpty = MAY_BE_EMPTY, Filled = FILLED);

struct AmountVisitor;

impl Visitor<'_> for AmountVisitor {
    type Value = Amount;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a whole number")
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Amount, E> {
        Ok(Amount::Number(number))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Amount, E> {
        Ok(Amount::Text(text.to_owned()))
    }
}

impl<'de> Deserialize<'de> for Texts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextsVisitor)
    }
}

struct TextsVisitor;

impl<'de> Visitor<'de> for TextsVisitor {
    type Value = Texts;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a string or a list of strings")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Texts, E> {
        Ok(Texts(vec![text.to_owned()]))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Texts, A::Error> {
        let mut texts = Vec::new();
        while let Some(text) = items.next_element()? {
            texts.push(text);
        }
        Ok(Texts(texts))
    }
}
