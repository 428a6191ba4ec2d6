//! Filters of the Lamna web server: steps over content, and chains of them (JAWS framework paper, 3.5: a pipeline of
//! filters).
//!
//! ```text
//! pieces of content --> Filter --> pieces --> Filter --> pieces of another content
//!                       └──────────── Chain ───────────┘
//! ```
//!
//! Owns: the contract of a filter ([`Filter`], [`Make`]), the table of those that there are ([`KINDS`]), and [`Chain`],
//! which puts them one behind the other. Guarantees: a filter makes no system call and reads no clock; equal inputs
//! give equal outputs, so that what a chain makes of a file can be kept; a chain never gives more than its bound. Does
//! not decide where a chain runs: the server's engines do.
//!
//! A chain runs over a whole file at once, or over an answer of an application while it comes. Most filters need not
//! know which.

mod chain;
mod client_hints;
mod compress;
mod content;
mod decompress;
mod encoder;
mod html;
mod images;
mod include;
mod insert;
mod markdown;
mod omit;
pub mod search;
mod structured;
pub mod subresources;
mod substitute;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

pub use chain::{Bounds, Chain, ChainError, Link, Run, Step, Then, Wrong, change_files, is_in_table, keep_words};
pub use content::{Content, Held, Leave, NoRoom, Room};
pub use encoder::{Effort, encode};
pub use include::{Parts, has_choices};
pub use structured::{Excerpt, Section, Source, Structure};

/// A step over a stream of content.
pub trait Filter: Send {
    /// Takes the next piece, and writes what can be given already behind `out`.
    ///
    /// # Errors
    /// See [`Fault`]. The filter is not used again then.
    fn take(&mut self, piece: &[u8], out: &mut Vec<u8>) -> Result<(), Fault>;

    /// For filters that may make much of little: writes more of what it has taken behind `out`, about [`PIECE_BYTES`]
    /// of it. False if nothing was left. It is called until then before anything else is.
    ///
    /// # Errors
    /// See [`Fault`].
    fn more(&mut self, _out: &mut Vec<u8>) -> Result<bool, Fault> {
        Ok(false)
    }

    /// Nothing else comes for a while: writes what it holds back only to do better behind `out`.
    ///
    /// # Errors
    /// See [`Fault`].
    fn flush(&mut self, _out: &mut Vec<u8>) -> Result<(), Fault> {
        Ok(())
    }

    /// There are no more pieces. Writes the rest behind `out`.
    ///
    /// # Errors
    /// See [`Fault`].
    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Fault>;
}

/// A factory of filters: a kind of them with its parameters. Many streams may be filtered at the same time, each by its
/// own.
pub trait Make: fmt::Debug + Send + Sync {
    /// A filter for one stream, if it has anything to do with content like this. What it makes of it is said in
    /// `content` then.
    fn start(&self, content: &mut Content) -> Option<Box<dyn Filter>>;

    /// The content codings that it can read, as in `Accept-Encoding`; none if what is in the content does not matter to
    /// it.
    fn reads(&self) -> Option<&'static str> {
        Some("identity")
    }

    /// The recipe in a request with this query and these fields, in its one spelling: the output is cached under it,
    /// and it is in [`Content::query`] then. None if nothing is for this filter.
    fn recipe(&self, _query: &[u8], _lines: Lines<'_>) -> Option<String> {
        None
    }

    /// Whether a request with this recipe only prefers what is made: it is given the content without it where that
    /// cannot be made.
    fn is_preference(&self, _recipe: &str) -> bool {
        false
    }

    /// How many different things may be asked for of content of so many bytes in a short time, if a request with this
    /// recipe asks this filter; none if it does not, or if that is for who runs the filter to say.
    fn recipes_max(&self, _recipe: &str, _bytes: u64) -> Option<u32> {
        None
    }

    /// Whether a request can ask it for pictures in another size.
    fn scales_pictures(&self) -> bool {
        false
    }

    /// The fields of a request that decide what is made of any file, for `Vary`.
    fn varies_by(&self) -> &'static [&'static str] {
        &[]
    }

    /// The client hints that it would like to be sent, for `Accept-CH` (RFC 8942).
    fn client_hints(&self) -> &'static [&'static str] {
        &[]
    }

    /// Whether a request can ask it for something.
    fn has_recipes(&self) -> bool {
        false
    }

    /// Whether its output depends on the codings that the client accepts.
    fn varies(&self) -> bool {
        false
    }

    /// Whether it puts content together from other files: where it is given [`Parts`], and nowhere else.
    fn has_parts(&self) -> bool {
        false
    }

    /// Whether it gives nothing before it has taken all: then it holds all.
    fn needs_whole(&self) -> bool {
        false
    }

    /// The markup of content like this, if it gives parts of it, which a [`Structure`] of the content tells.
    fn divides(&self, _content: &Content) -> Option<Source> {
        None
    }

    /// The markup of content like this, if it makes HTML of each part of it that can stand alone.
    fn writes_html_of(&self, _content: &Content) -> Option<Source> {
        None
    }
}

/// The values of all lines of a field of a request, whose name is in lower case.
pub type Lines<'a> = &'a dyn Fn(&'static str) -> Vec<&'a [u8]>;

/// How much content filters are given at once, and about how much they give at once.
pub const PIECE_BYTES: usize = 16 << 10;

/// Why content cannot be filtered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It would be larger than so many bytes.
    TooLarge(u64),
    /// It is not what the filter takes: a reason for the site's owner.
    Content(String),
    /// The content is malformed, or more than is read of a stranger's: no other request for it does better.
    Unreadable(String),
    /// The request asks for something that does not exist.
    Request(String),
    /// It was not done in the time that it had: see [`Leave`].
    TooSlow,
    /// There is not enough memory for it now: see [`Room`].
    NoRoom,
    /// The filter itself has failed, which says nothing of the content.
    Failed(String),
    /// The request asks for a part that the content does not have.
    Absent(String),
    /// It is put together from files at these paths, which are absolute and decoded: it is to be filtered again when
    /// they are in [`Content::parts`].
    Wants(Vec<String>),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::TooLarge(most) => write!(f, "the content has more than {most} bytes"),
            Fault::TooSlow => f.write_str("it takes too long"),
            Fault::NoRoom => f.write_str("there is not enough memory for it now"),
            Fault::Wants(paths) => write!(f, "it is put together from {}", paths.join(", ")),
            Fault::Content(why)
            | Fault::Unreadable(why)
            | Fault::Request(why)
            | Fault::Failed(why)
            | Fault::Absent(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Fault {}

/// Parameters by name, as they are written in the configuration.
pub type Parameters = BTreeMap<String, String>;

/// A kind of filters: a row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// Its name in the configuration.
    pub name: &'static str,
    /// Its effect, as a sentence.
    pub about: &'static str,
    /// Another number for each way it has ever worked: what was made by an older one is not taken for what this one
    /// makes.
    pub version: u32,
    /// Its effect on the words of a file.
    pub effect: Effect,
    /// Parameters that there must be.
    pub required: &'static [(&'static str, &'static str)],
    /// Parameters that there may be.
    pub optional: &'static [(&'static str, &'static str)],
    /// Makes one of known parameters, of which no required one is missing.
    ///
    /// # Errors
    /// Why a parameter is wrong.
    pub make: fn(&Parameters) -> Result<Arc<dyn Make>, String>,
}

/// The effect of a filter on a file without a recipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing: it waits for a request that asks for something, or codes content.
    None,
    /// Another form, in which all words of the file are read.
    Form,
    /// The same, unless the file says itself that something is left out.
    Choice,
    /// Another file: words may be taken out or replaced.
    Words,
}

/// The kinds of filters that there are, by name.
pub const KINDS: &[Kind] = &[
    compress::KIND,
    decompress::KIND,
    images::KIND,
    include::KIND,
    insert::KIND,
    markdown::KIND,
    omit::KIND,
    structured::KIND,
    substitute::KIND,
];
