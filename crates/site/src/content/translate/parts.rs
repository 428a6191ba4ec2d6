//! Other files that a page is put together from (the filter `include`).
//!
//! Owns: which file a path means that a page names, whether the page may have it, and the states of all of them.
//! Guarantees: a page has nothing of what is hidden, is run by an application, or is kept from those who see the page.
//! Caching is that of the page: its stamps are those of all its files, looked at whenever its own is.

use std::borrow::Cow;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use lamna_filter::Parts;
use lamna_io::Blocked;
use lamna_io::file_state::{Stamp, Stamps, now_ns};
use lamna_io::log::errors::{Level, Peer};

use super::{Open, Translation};

/// A file that a page is made of.
pub(super) struct Part {
    /// Its content, if the page has it; until that is handed to the filter.
    pub(super) content: Option<Arc<[u8]>>,
    /// Its state, when it was looked at.
    pub(super) stamp: Stamp,
    /// Whether it was read in that state.
    pub(super) is_steady: bool,
}

impl Translation<'_> {
    /// The page's location for the filters of the page `open` in `directory`, with no part read yet.
    pub(super) fn no_parts(&self, directory: &OwnedFd, open: &Open) -> Arc<Parts> {
        let prefix = self.site.prefix_with(directory).unwrap_or(Cow::Borrowed(b"/"));
        let path = [&*prefix, &open.name].concat();
        let path = String::from_utf8_lossy(&path).into_owned();
        Arc::new(Parts { path, modified_s: open.stamp.last_modified(now_ns()), ..Parts::default() })
    }

    /// The states of `open` and of the files at `paths`, of which it was put together.
    pub(super) fn stamps_with_parts(&self, open: &Open, paths: &[String]) -> Result<Stamps, Blocked> {
        let mut stamps = vec![open.stamp];
        for path in paths {
            stamps.push(self.part(path)?.map_or_else(Stamp::absent, |part| part.stamp));
        }
        Ok(Stamps::new(stamps))
    }

    /// The content of the file at `path`, if the page may have it, and its state.
    pub(super) fn read_part(&self, path: &str) -> Result<Part, Blocked> {
        let Some(open) = self.part(path)? else {
            self.report(Peer::Failed, || {
                (Level::Warning, format!("it includes `{}`, which it cannot have", path.escape_debug()))
            });
            return Ok(Part { content: None, stamp: Stamp::absent(), is_steady: true });
        };
        match self.read(&open)? {
            Some((content, stamp)) => {
                Ok(Part { content: Some(content.into()), stamp: open.stamp, is_steady: stamp == open.stamp })
            }
            None => {
                self.report(Peer::Failed, || {
                    (Level::Warning, format!("it includes `{}`, which is too large", path.escape_debug()))
                });
                Ok(Part { content: None, stamp: open.stamp, is_steady: true })
            }
        }
    }

    /// The file at `path`, if the page may have it.
    fn part(&self, path: &str) -> Result<Option<Open>, Blocked> {
        let path = path.as_bytes();
        let is_name = path.first() == Some(&b'/') && !path.contains(&0) && !path.ends_with(b"/");
        if !is_name || self.is_hidden(path) {
            return Ok(None);
        }
        let name_at = match self.name_at(path) {
            Err(Blocked::Failed(_)) => return Ok(None),
            name_at => name_at?,
        };
        let open = match self.open_regular(&name_at.directory, name_at.name) {
            // Whatever it is that keeps it from us: the page goes on without.
            Err(Blocked::Failed(_)) => return Ok(None),
            open => open?,
        };
        Ok(open.filter(|open| {
            self.runner(&name_at.directory, &open.name).is_none()
                && self.permit(&name_at.directory, &open.name, &open.file).is_some()
        }))
    }
}
