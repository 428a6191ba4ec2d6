//! Overviews and sections of pages ([`lamna_filter::Structure`]) without reading the page.
//!
//! ```text
//!   first request ── read whole, divide, keep the structure (a twentieth of the page at most) ──> overview or section
//!   later ones    ── structure of this state of the file ──> overview; section: its range and what sections share are read
//! ```
//!
//! Owns: when the structure of a page is kept and used. Guarantees: what is made is the same in both ways; a structure
//! is used for the state of the file alone that it was made of.

use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::Arc;

use lamna_filter::{Fault, Source};
use lamna_io::file_state::{self, Stamp, Stamps};
use lamna_io::{Blocked, read};

use super::filtered::BYTES_MAX;
use super::{Open, Translation};
use crate::cache::two_generation_map::Key;

/// The result of dividing a page.
pub(super) enum Divided {
    /// The requested part.
    Part(Vec<u8>),
    /// That was the whole.
    Whole,
    /// It cannot be divided.
    Not,
}

impl Translation<'_> {
    /// The requested excerpt of a page whose structure is known. None if it is not, or if the whole is to be read for
    /// it.
    pub(super) fn excerpt(&self, open: &Open) -> Result<Option<Result<Vec<u8>, Fault>>, Blocked> {
        let Some(structure) = self.site.structures.lookup(self.structure_key(), &open.stamp) else { return Ok(None) };
        let excerpt = match structure.excerpt(self.recipe.unwrap_or_default()) {
            Ok(Some(excerpt)) => excerpt,
            Ok(None) => return Ok(None),
            Err(fault) => return Ok(Some(Err(fault))),
        };
        let mut pieces = Vec::new();
        for range in excerpt.ranges() {
            match self.read_range(open, range)? {
                Some(piece) => pieces.push(piece),
                None => return Ok(None),
            }
        }
        if file_state::inspect(open.file.as_fd())?.1 != open.stamp {
            return Ok(None);
        }
        let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
        Ok(Some(bounded(excerpt.page(&pieces))))
    }

    /// Divides the page `content`, which was read in this state, as `recipe` asks.
    pub(super) fn divide(&self, source: &Source, content: &[u8], stamp: Stamp, recipe: &str) -> Result<Divided, Fault> {
        let Some(structure) = source.structure(content).map(Arc::new) else { return Ok(Divided::Not) };
        // One that has just changed may change again without a trace.
        if Stamps::new(vec![stamp]).settled && content.len() as u64 == stamp.size {
            self.site.structures.keep(self.structure_key(), stamp, &structure, structure.memory_bytes());
        }
        let Some(excerpt) = structure.excerpt(recipe)? else { return Ok(Divided::Whole) };
        bounded(excerpt.page_of(content)).map(Divided::Part)
    }

    fn structure_key(&self) -> Key<'_> {
        Key { site: self.site.index, path: self.path }
    }

    /// A part of the file. None if the file ends before.
    fn read_range(&self, open: &Open, range: &Range<usize>) -> Result<Option<Vec<u8>>, Blocked> {
        // It is a part of a page that was read as a whole.
        let mut piece = vec![0; range.len()];
        let bytes = read::read(open.file.as_fd(), &mut piece, range.start as u64, self.wait, self.abilities)?;
        Ok((bytes == piece.len()).then_some(piece))
    }
}

fn bounded(made: Vec<u8>) -> Result<Vec<u8>, Fault> {
    if made.len() as u64 > BYTES_MAX { Err(Fault::TooLarge(BYTES_MAX)) } else { Ok(made) }
}
