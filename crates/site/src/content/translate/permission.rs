//! Whether a client may have what a translation has found.
//!
//! Owns: the verdict on the paths at which a file or a folder is that a translation has opened, in whatever way it came
//! to it: as it was asked for, by `rewrite` or `try`, as an index file, as the page of an error or of an application,
//! as a part of a page, by a link.

use std::borrow::Cow;
use std::os::fd::{AsFd, OwnedFd};

use lamna_io::Blocked;

use super::Translation;
use crate::content::permitted::{Permitted, other_places};

impl Translation<'_> {
    /// The client's permission to have `file`, which is open and was found as `name` beneath `directory`. None if a
    /// path at which the file is excludes the client, even where the requested path does not.
    pub(super) fn permit(&self, directory: &OwnedFd, name: &[u8], file: &OwnedFd) -> Option<Permitted<'_>> {
        let routes = &self.site.routes;
        if !routes.judge_files() {
            return Some(Permitted::unjudged(Cow::Borrowed(self.path)));
        }
        // Without one it is not known whose directory it was, and what may be said of it.
        let prefix = self.site.prefix_with(directory)?;
        let path = [&*prefix, name].concat();
        Permitted::judge(self.site, Cow::Owned(path), file.as_fd(), |path| routes.lets_on(self.rules, path))
    }

    /// Whether `file`, which is withheld, is sent to no client: the server itself uses it, or an application runs it at
    /// another path. Then no client is told that it is there.
    pub(super) fn is_for_nobody(&self, directory: &OwnedFd, name: &[u8], file: &OwnedFd) -> bool {
        let routes = &self.site.routes;
        let own = self.site.root_with(directory).map(|(prefix, _)| [prefix, name].concat());
        own.is_some_and(|own| {
            let others = self.other_places(&own, file).unwrap_or_default();
            [own].iter().chain(&others).any(|place| routes.hides(place) || routes.is_run(place))
        })
    }

    /// The paths at which a script is beside that of its name, `own`: each request is judged by the rules of these as
    /// well.
    ///
    /// # Errors
    /// They cannot be found out.
    pub(super) fn other_places(&self, own: &[u8], file: &OwnedFd) -> Result<Vec<Vec<u8>>, Blocked> {
        other_places(self.site, own, file.as_fd()).map_err(Blocked::Failed)
    }
}
