//! Filters of the Lamna web server: steps over content, and chains of them (JAWS framework paper, 3.5: a pipeline of filters).
//!
//! ```text
//! pieces of content --> Filter --> pieces --> Filter --> pieces of another content
//!                       └──────────── Chain ───────────┘
//! ```
//!
//! Owns: the contract of a filter ([`Filter`], [`Make`]), the table of those that there are ([`KINDS`]), and [`Chain`], which puts
//! them one behind the other. Guarantees: a filter makes no system call and reads no clock; equal inputs give equal outputs, so that
//! what a chain makes of a file can be kept; a chain never gives more than its bound. Does not decide where a chain runs: the
//! server's engines do.

mod chain;
mod insert;
mod markdown;
mod substitute;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

pub use chain::{Chain, ChainError, Run, Step};

/// A step over a stream of content.
pub trait Filter: Send {
    /// Takes the next piece, and writes what can be given already behind `out`.
    ///
    /// # Errors
    /// See [`Fault`]. The filter is not used again then.
    fn take(&mut self, piece: &[u8], out: &mut Vec<u8>) -> Result<(), Fault>;

    /// There are no more pieces. Writes the rest behind `out`.
    ///
    /// # Errors
    /// See [`Fault`].
    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Fault>;
}

/// What makes filters: a kind of them with its parameters. Many streams may be filtered at the same time, each by its own.
pub trait Make: fmt::Debug + Send + Sync {
    /// Whether it has anything to do with content of this media type: type and subtype, without parameters, in lower case. It is left
    /// out of chains over others.
    fn takes(&self, essence: &str) -> bool;

    /// The media type, with parameters, of what it makes of `media_type`.
    fn gives<'a>(&self, media_type: &'a str) -> Cow<'a, str> {
        media_type.into()
    }

    /// A filter for one stream.
    fn start(&self) -> Box<dyn Filter>;
}

/// Why content cannot be filtered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It would be larger than so many bytes.
    TooLarge(u64),
    /// It is not what the filter takes: a reason for the site's owner.
    Content(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::TooLarge(most) => write!(f, "the content has more than {most} bytes"),
            Fault::Content(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Fault {}

/// Parameters by name, as they are written in the configuration.
pub type Parameters = BTreeMap<String, String>;

/// A kind of filters: a row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// What it is called in the configuration.
    pub name: &'static str,
    /// What it does, as a sentence.
    pub about: &'static str,
    /// Another number for each way it has ever worked: what was made by an older one is not taken for what this one makes.
    pub version: u32,
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

/// The kinds of filters that there are, by name.
pub const KINDS: [Kind; 3] = [insert::KIND, markdown::KIND, substitute::KIND];

/// The type and subtype of a media type.
fn essence(media_type: &str) -> &str {
    media_type.split(';').next().unwrap_or_default().trim_end()
}

/// Whether content of this type is text to which bytes can be added.
fn is_text(essence: &str) -> bool {
    let (_, subtype) = essence.split_once('/').unwrap_or_default();
    essence.starts_with("text/")
        || matches!(subtype, "json" | "javascript" | "xml" | "x-yaml" | "yaml" | "toml")
        || subtype.ends_with("+xml")
        || subtype.ends_with("+json")
}
