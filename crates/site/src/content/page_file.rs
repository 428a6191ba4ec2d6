//! A file in memory that is sent in place of the server's own page, or as a fixed answer.
//!
//! Owns: [`PageFile`], as plain data. `page_files` reads it, and sees to it that every client may have it.

use std::collections::BTreeMap;
use std::sync::Arc;

use lamna_proto::exchange::ContentBuffer;

/// The content of a file, and its media type.
#[derive(Debug, PartialEq, Eq)]
pub struct PageFile {
    /// Its media type.
    pub media_type: &'static str,
    /// All of it.
    pub content: Box<[u8]>,
}

/// It is the site's, whoever sends it.
impl ContentBuffer for PageFile {
    fn bytes(&self) -> &[u8] {
        &self.content
    }

    fn own_bytes(&self) -> usize {
        0
    }
}

/// By the path beneath the root.
pub type PageFiles = BTreeMap<String, Arc<PageFile>>;
