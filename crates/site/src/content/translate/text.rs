//! The encoding of a file of text, which its media type names.
//!
//! Owns: when a file is looked at for it: once for each state of it, when it is described. Guarantees: a type that the
//! configuration gives is left as it is.

use std::os::fd::{AsFd, OwnedFd};

use lamna_io::{Blocked, read};
use lamna_proto::exchange::negotiate::Coding;

use super::{CommonMetadata, Translation};
use crate::content::charset::{self, LOOKED_AT_BYTES};

impl Translation<'_> {
    /// `kind` with a media type that says nothing of the encoding, if it says what `content` is not. `is_whole`: that
    /// is all of it.
    pub(super) fn without_false_charset<'k>(
        &self,
        kind: &CommonMetadata<'k>,
        coding: Coding,
        content: &[u8],
        is_whole: bool,
    ) -> Option<CommonMetadata<'k>> {
        let media_type = self.assumed(kind, coding)?;
        (!charset::is_utf8(content, is_whole)).then_some(CommonMetadata { media_type, ..*kind })
    }

    /// The kind of a file that is not held, by its beginning.
    ///
    /// # Errors
    /// It cannot be read, or not without waiting.
    pub(super) fn kind_of_file<'k>(
        &self,
        kind: &CommonMetadata<'k>,
        coding: Coding,
        file: &OwnedFd,
    ) -> Result<CommonMetadata<'k>, Blocked> {
        if self.assumed(kind, coding).is_none() {
            return Ok(*kind);
        }
        let mut beginning = [0; LOOKED_AT_BYTES];
        let bytes = read::read(file.as_fd(), &mut beginning, 0, self.wait, self.abilities)?;
        let is_whole = bytes < beginning.len();
        Ok(self.without_false_charset(kind, coding, &beginning[..bytes], is_whole).unwrap_or(*kind))
    }

    /// The media type without an encoding, if it has one that nothing says but the name of the file.
    fn assumed<'k>(&self, kind: &CommonMetadata<'k>, coding: Coding) -> Option<&'k str> {
        let is_configured = self.rules.rules.media_type.is_some() && kind.status.0 == 200;
        if is_configured || coding != Coding::Identity { None } else { charset::without_charset(kind.media_type) }
    }
}
