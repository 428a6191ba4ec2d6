//! The values of a text that `toml` has parsed, given to the shapes that they are read into.
//!
//! Owns: [`Node`], which reads the tree. Guarantees: what the reader of `toml` gives, with the same words and places
//! for what does not fit; but no list is empty, unless its type is [`MayBeEmpty`](super::written::MayBeEmpty), and no
//! table that is [`Filled`](super::written::Filled). That reader has a type for each kind of table, and the code of a
//! shape is made once for each of them. This one has one type, and a third of the code.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use serde::de::value::BorrowedStrDeserializer;
use serde::de::{self, DeserializeSeed, Error, Visitor};
use serde::forward_to_deserialize_any;
use toml::Spanned;
use toml::de::{DeInteger, DeString, DeTable, DeValue};

use super::written::{FILLED, MAY_BE_EMPTY};

/// An entry or value that does not fit, and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Misfit {
    pub(super) message: String,
    pub(super) span: Option<Range<usize>>,
    /// Whether it would fit if it were not empty.
    pub(super) is_empty: bool,
}

impl Misfit {
    /// It is at this place, if nothing within that is.
    fn at(mut self, span: Option<Range<usize>>) -> Misfit {
        self.span = self.span.or(span);
        self
    }
}

impl fmt::Display for Misfit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for Misfit {}

impl Error for Misfit {
    fn custom<T: fmt::Display>(message: T) -> Misfit {
        Misfit { message: message.to_string(), span: None, is_empty: false }
    }
}

/// A part of the tree.
pub(super) enum Node<'t> {
    /// The whole text.
    Root(&'t DeTable<'t>),
    Value(Valued<'t>),
    Key(&'t Spanned<DeString<'t>>),
    /// The name of a part of what is read like a table, or the text of a date.
    Text(Cow<'t, str>),
    /// An end of a span.
    Offset(usize),
}

/// A value, and whether it may be empty.
#[derive(Clone, Copy)]
pub(super) struct Valued<'t> {
    value: &'t Spanned<DeValue<'t>>,
    /// The key that it is given for, itself or in a list.
    key: &'t str,
    /// Whether it may be an empty list.
    may_be_empty: bool,
    /// Whether it must not be an empty table.
    is_filled: bool,
}

impl<'t> Valued<'t> {
    fn new(value: &'t Spanned<DeValue<'t>>, key: &'t str) -> Valued<'t> {
        Valued { value, key, may_be_empty: false, is_filled: false }
    }

    /// Reads it as what it is. What does not fit at all is told before it is told to be empty.
    fn read<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, Misfit> {
        let read = read(self.value.get_ref(), self.key, visitor)?;
        let empty = |kind: &str| {
            let message =
                format!("the {kind} `{}` is empty: say what is meant, or leave it out", self.key.escape_debug());
            Misfit { message, span: None, is_empty: true }
        };
        match self.value.get_ref() {
            DeValue::Array(list) if list.is_empty() && !self.may_be_empty => Err(empty("list")),
            DeValue::Table(table) if table.is_empty() && self.is_filled => Err(empty("table")),
            _ => Ok(read),
        }
    }
}

impl<'t> Node<'t> {
    fn span(&self) -> Option<Range<usize>> {
        match self {
            Node::Value(Valued { value, .. }) => Some(value.span()),
            Node::Key(key) => Some(key.span()),
            Node::Root(_) | Node::Text(_) | Node::Offset(_) => None,
        }
    }
}

fn read<'t, V: Visitor<'t>>(value: &'t DeValue<'t>, key: &'t str, visitor: V) -> Result<V::Value, Misfit> {
    match value {
        DeValue::String(text) => visitor.visit_borrowed_str(text),
        DeValue::Integer(number) => read_integer(number, visitor),
        DeValue::Float(number) => match number.as_str().parse::<f64>() {
            Ok(read) if !read.is_infinite() || number.as_str().contains("inf") => visitor.visit_f64(read),
            _ => Err(Misfit::custom("floating-point number overflowed")),
        },
        DeValue::Boolean(is) => visitor.visit_bool(*is),
        DeValue::Datetime(date) => visitor.visit_map(Entries::made(vec![(DATE, Node::Text(date.to_string().into()))])),
        DeValue::Array(elements) => visitor.visit_seq(Elements { key, rest: elements.iter() }),
        DeValue::Table(table) => visitor.visit_map(Entries::of(table)),
    }
}

fn read_integer<'t, V: Visitor<'t>>(number: &DeInteger<'_>, visitor: V) -> Result<V::Value, Misfit> {
    let (text, radix) = (number.as_str(), number.radix());
    if let Ok(number) = i64::from_str_radix(text, radix) {
        visitor.visit_i64(number)
    } else if let Ok(number) = u64::from_str_radix(text, radix) {
        visitor.visit_u64(number)
    } else if let Ok(number) = i128::from_str_radix(text, radix) {
        visitor.visit_i128(number)
    } else if let Ok(number) = u128::from_str_radix(text, radix) {
        visitor.visit_u128(number)
    } else {
        Err(Misfit::custom("integer number overflowed"))
    }
}

/// The names by which `toml` knows its own types.
const SPANNED: &str = "$__serde_spanned_private_Spanned";
const DATE: &str = "$__toml_private_datetime";

impl<'t> de::Deserializer<'t> for Node<'t> {
    type Error = Misfit;

    fn deserialize_any<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, Misfit> {
        match self {
            Node::Root(table) => visitor.visit_map(Entries::of(table)),
            Node::Value(given) => given.read(visitor).map_err(|misfit| misfit.at(Some(given.value.span()))),
            Node::Key(key) => visitor.visit_borrowed_str(key.get_ref()),
            Node::Text(Cow::Borrowed(text)) => visitor.visit_borrowed_str(text),
            Node::Text(Cow::Owned(text)) => visitor.visit_string(text),
            Node::Offset(offset) => visitor.visit_u64(offset as u64),
        }
    }

    /// A value that is there.
    fn deserialize_option<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, Misfit> {
        let span = self.span();
        visitor.visit_some(self).map_err(|misfit| misfit.at(span))
    }

    fn deserialize_newtype_struct<V: Visitor<'t>>(
        mut self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        let span = self.span();
        if let Node::Value(given) = &mut self {
            given.may_be_empty |= name == MAY_BE_EMPTY;
            given.is_filled |= name == FILLED;
        }
        visitor.visit_newtype_struct(self).map_err(|misfit| misfit.at(span))
    }

    /// A `Spanned` is a struct of a start, an end and a value, in this order.
    fn deserialize_struct<V: Visitor<'t>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        match (self.span(), fields) {
            (Some(Range { start, end }), [first, second, third]) if name == SPANNED => {
                visitor.visit_map(Entries::made(vec![
                    (*first, Node::Offset(start)),
                    (*second, Node::Offset(end)),
                    (*third, self),
                ]))
            }
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_enum<V: Visitor<'t>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        let span = self.span();
        let read = match &self {
            Node::Value(given) => match given.value.get_ref() {
                DeValue::String(text) => visitor.visit_enum(BorrowedStrDeserializer::new(text)),
                _ => Err(Misfit::custom("expected a string")),
            },
            _ => Err(Misfit::custom("expected a string")),
        };
        read.map_err(|misfit| misfit.at(span))
    }

    forward_to_deserialize_any! {
        <W: Visitor<'t>>
        bool u8 u16 u32 u64 u128 i8 i16 i32 i64 i128 f32 f64 char str string seq bytes byte_buf map unit ignored_any unit_struct
        tuple_struct tuple identifier
    }
}

/// The elements of a list.
struct Elements<'t> {
    key: &'t str,
    rest: std::slice::Iter<'t, Spanned<DeValue<'t>>>,
}

impl<'t> de::SeqAccess<'t> for Elements<'t> {
    type Error = Misfit;

    fn next_element_seed<S: DeserializeSeed<'t>>(&mut self, seed: S) -> Result<Option<S::Value>, Misfit> {
        let key = self.key;
        self.rest.next().map(|element| seed.deserialize(Node::Value(Valued::new(element, key)))).transpose()
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.rest.len())
    }
}

/// The entries of a table, or of what is read like one.
struct Entries<'t> {
    source: Source<'t>,
    /// The value of the key that was given last.
    value: Option<Node<'t>>,
}

enum Source<'t> {
    Table(toml::map::Iter<'t, Spanned<DeString<'t>>, Spanned<DeValue<'t>>>),
    Made(std::vec::IntoIter<(&'static str, Node<'t>)>),
}

impl<'t> Entries<'t> {
    fn of(table: &'t DeTable<'t>) -> Entries<'t> {
        Entries { source: Source::Table(table.iter()), value: None }
    }

    fn made(entries: Vec<(&'static str, Node<'t>)>) -> Entries<'t> {
        Entries { source: Source::Made(entries.into_iter()), value: None }
    }

    /// The next key. Its value is the next one.
    fn advance(&mut self) -> Option<Node<'t>> {
        let (key, value) = match &mut self.source {
            Source::Table(entries) => {
                let (key, value) = entries.next()?;
                (Node::Key(key), Node::Value(Valued::new(value, key.get_ref())))
            }
            Source::Made(entries) => entries.next().map(|(key, value)| (Node::Text(key.into()), value))?,
        };
        self.value = Some(value);
        Some(key)
    }
}

impl<'t> de::MapAccess<'t> for Entries<'t> {
    type Error = Misfit;

    fn next_key_seed<S: DeserializeSeed<'t>>(&mut self, seed: S) -> Result<Option<S::Value>, Misfit> {
        let Some(key) = self.advance() else { return Ok(None) };
        let span = key.span();
        seed.deserialize(key).map(Some).map_err(|misfit| misfit.at(span))
    }

    fn next_value_seed<S: DeserializeSeed<'t>>(&mut self, seed: S) -> Result<S::Value, Misfit> {
        let value = self.value.take().ok_or_else(|| Misfit::custom("a value is asked for before its key"))?;
        let span = value.span();
        seed.deserialize(value).map_err(|misfit| misfit.at(span))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::File;
    use proptest::prelude::*;
    use serde::Deserialize;

    /// The debugging form of what is read of `text`, or what does not fit: by this reader, and by that of `toml`.
    fn both(text: &str) -> Option<[Result<String, Misfit>; 2]> {
        let tree = DeTable::parse(text).ok()?;
        let ours = File::deserialize(Node::Root(tree.get_ref()));
        let theirs = File::deserialize(toml::de::Deserializer::from(tree.clone()));
        let theirs =
            theirs.map_err(|error| Misfit { message: error.message().to_owned(), span: error.span(), is_empty: false });
        let ours = ours.map(|file| format!("{file:?}"));
        let is_empty = ours.as_ref().is_err_and(|misfit| misfit.is_empty);
        // The reader of `toml` takes what is empty.
        let theirs = if is_empty { ours.clone() } else { theirs.map(|file| format!("{file:?}")) };
        Some([ours, theirs])
    }

    #[test]
    fn each_kind_of_value_is_read_as_the_reader_of_toml_reads_it() {
        let values = [
            "1",
            "-1",
            "0x1f",
            "9223372036854775808",
            "99999999999999999999",
            "9e400",
            "1.5",
            "inf",
            "true",
            "\"a\"",
            "\"\\u0041\"",
            "[]",
            "[1]",
            "[\"a\", 2]",
            "{}",
            "{ a = 1 }",
            "1979-05-27",
            "07:32:00",
            "9999999999999999999999999999999999999999999",
        ];
        let keys = [
            "workers",
            "root",
            "hosts",
            "limits",
            "site",
            "service",
            "pin",
            "listen",
            "site.root",
            "limits.sends",
            "none",
        ];
        let in_site = ["root", "hosts", "headers", "route", "redirect", "limit", "alias", "mistyped"];
        for value in values {
            for key in keys {
                let [ours, theirs] = both(&format!("{key} = {value}\n")).unwrap();
                assert_eq!(ours, theirs, "{key} = {value}");
            }
            for key in in_site {
                let [ours, theirs] = both(&format!("[[site]]\n{key} = {value}\n")).unwrap();
                assert_eq!(ours, theirs, "{key} = {value}");
            }
            for key in [
                "access", "headers", "proxy", "fastcgi", "scgi", "uwsgi", "cgi", "filters", "redirect", "cors",
                "cache", "text",
            ] {
                let route = format!("[[site]]\nroot = \"a\"\n[site.route.\"/x/*\"]\n{key} = {value}\n");
                let [ours, theirs] = both(&route).unwrap();
                assert_eq!(ours, theirs, "{route}");
                let [ours, theirs] = both(&route.replace(value, &format!("{{ to = {value} }}"))).unwrap();
                assert_eq!(ours, theirs, "{route}");
            }
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_as_the_reader_of_toml_reads_it(
            text in "([a-z_]{1,8}|[\\[\\]=\"'.#{},0-9-]|\n|site|root|limits|listen|headers|alias|route| = |\\[\\[site\\]\\]\n){0,40}",
        ) {
            if let Some([ours, theirs]) = both(&text) {
                prop_assert_eq!(ours, theirs);
            }
        }
    }
}
