//! Metadata of content before its first piece.
//!
//! Owns: [`Content`], as the next filter of a chain finds it and as it leaves it. Media types are compared without
//! parameters and in any case.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use lamna_proto::exchange::negotiate::Coding;

use crate::{Fault, Parts};

/// Metadata of content.
#[derive(Clone, Debug)]
pub struct Content {
    /// The media type, with parameters; empty if it is not known.
    pub media_type: String,
    /// The content coding that it is under; none if that is an unknown one, or several.
    pub coding: Option<Coding>,
    /// Bytes, if that is known.
    pub bytes: Option<u64>,
    /// The content codings that the client accepts: the members of `Accept-Encoding`. Empty where something else
    /// chooses the coding.
    pub accepts: Box<[u8]>,
    /// The output depends on `accepts`.
    pub varies: bool,
    /// The request's recipe for a filter, as its [`recipe`](crate::Make::recipe) says it.
    pub query: Option<String>,
    /// Fields of the answer that say what was made.
    pub fields: Vec<(&'static str, &'static str)>,
    /// Other files that it may be put together from; none where it cannot be.
    pub parts: Option<Arc<Parts>>,
    /// Whether a filter that takes long may go on; none if it may.
    pub leave: Option<Leave>,
    /// Where a filter asks for much memory before it takes it; none if it may take what it needs.
    pub room: Option<Room>,
}

/// Says whether there is room for much memory: the caller that runs a filter knows how much there is.
#[derive(Clone)]
pub struct Room(Arc<dyn Fn(u64) -> Result<Held, NoRoom> + Send + Sync>);

/// Memory that was asked for. It is given back with the value.
pub type Held = Box<dyn Any + Send>;

/// There is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoRoom {
    /// Others have it for the moment.
    Now,
    /// There will never be so much.
    Ever,
}

impl Room {
    /// A room that asks `take` for so many bytes.
    pub fn new(take: impl Fn(u64) -> Result<Held, NoRoom> + Send + Sync + 'static) -> Room {
        Room(Arc::new(take))
    }

    /// So many bytes.
    ///
    /// # Errors
    /// There is no room for them.
    pub fn take(&self, bytes: u64) -> Result<Held, Fault> {
        (self.0)(bytes).map_err(|no_room| match no_room {
            NoRoom::Now => Fault::NoRoom,
            NoRoom::Ever => Fault::Unreadable(format!("it takes {} MiB of memory, which is too much", bytes >> 20)),
        })
    }
}

impl fmt::Debug for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Room").finish_non_exhaustive()
    }
}

/// Says whether a filter that takes long may go on: the caller that runs it has a clock, and filters have none.
#[derive(Clone)]
pub struct Leave(Arc<dyn Fn() -> bool + Send + Sync>);

impl Leave {
    /// A leave that asks `is_given`.
    pub fn new(is_given: impl Fn() -> bool + Send + Sync + 'static) -> Leave {
        Leave(Arc::new(is_given))
    }

    /// Whether it may go on.
    pub fn is_given(&self) -> bool {
        (self.0)()
    }
}

impl fmt::Debug for Leave {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leave").finish_non_exhaustive()
    }
}

impl Content {
    /// Content of this media type, under no coding, without a time limit.
    pub fn new(media_type: &str) -> Content {
        let media_type = media_type.to_owned();
        let coding = Some(Coding::Identity);
        Content {
            media_type,
            coding,
            bytes: None,
            accepts: Box::default(),
            varies: false,
            query: None,
            fields: Vec::new(),
            parts: None,
            leave: None,
            room: None,
        }
    }

    /// Whether it can be read as it is.
    pub fn is_plain(&self) -> bool {
        self.coding == Some(Coding::Identity)
    }

    /// Whether it is of one of these media types, which are in lower case.
    pub fn is_of(&self, types: &[&str]) -> bool {
        types.iter().any(|one| one.eq_ignore_ascii_case(self.essence()))
    }

    /// Whether it is text to which bytes can be added.
    pub fn is_text(&self) -> bool {
        let essence = self.essence().to_ascii_lowercase();
        let (_, subtype) = essence.split_once('/').unwrap_or_default();
        essence.starts_with("text/")
            || matches!(
                subtype,
                "json" | "javascript" | "x-javascript" | "xml" | "x-yaml" | "yaml" | "toml" | "x-ndjson" | "ndjson"
            )
            || subtype.ends_with("+xml")
            || subtype.ends_with("+json")
    }

    /// Whether it gets smaller when it is compressed, as a rule.
    pub fn is_compressible(&self) -> bool {
        self.is_text()
            || self.is_of(&[
                "application/wasm",
                "application/x-tar",
                "application/rtf",
                "application/vnd.ms-fontobject",
                "font/otf",
                "font/ttf",
                "image/bmp",
                "image/vnd.microsoft.icon",
                "image/x-icon",
            ])
    }

    fn essence(&self) -> &str {
        self.media_type.split(';').next().unwrap_or_default().trim()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_types_are_compared_without_parameters_and_in_any_case() {
        let page = Content::new("Text/HTML ; charset=utf-8");
        assert!(page.is_of(&["text/html"]) && page.is_text() && page.is_compressible());
        for media_type in ["application/problem+json", "image/svg+xml", "application/x-ndjson", "text/event-stream"] {
            assert!(Content::new(media_type).is_text(), "{media_type}");
        }
        for media_type in ["", "image/png", "application/zip", "application/octet-stream", "texts"] {
            let content = Content::new(media_type);
            assert!(!content.is_text() && !content.is_compressible(), "{media_type}");
        }
        assert!(!Content::new("font/ttf").is_text() && Content::new("font/ttf").is_compressible());
    }
}
