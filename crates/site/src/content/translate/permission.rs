//! Whether what has been found may be had by who asks.
//!
//! Owns: the verdict on the paths at which a file or a folder is that a translation has opened, in whatever way it came to it: as it was asked for, by
//! `rewrite` or `try`, as an index file, as the page of an error or of an application, as a part of a page, by a link.

use std::borrow::Cow;
use std::os::fd::{AsFd, OwnedFd};

use lamna_io::Blocked;

use super::Question;
use crate::content::permitted::{Permitted, other_places};

impl Question<'_> {
    /// That who asks may have `file`, which is open and was found as `name` beneath `directory`. None if he is not let in at some path at which it is, though he
    /// is where he asks.
    pub(super) fn permit(&self, directory: &OwnedFd, name: &[u8], file: &OwnedFd) -> Option<Permitted<'_>> {
        let routes = &self.site.routes;
        let unjudged = || Permitted::unjudged(Cow::Borrowed(self.path));
        if !routes.judge_files() {
            return Some(unjudged());
        }
        let Some((prefix, _)) = self.site.root_with(directory) else {
            // In a directory of a user the path that is asked for is the only one.
            let is_of_user = self.site.settings.user_directory.is_some() && self.path.starts_with(b"/~");
            return is_of_user.then(unjudged);
        };
        let path = [prefix, name].concat();
        Permitted::judge(self.site, Cow::Owned(path), file.as_fd(), |path| routes.lets_on(self.rules, path))
    }

    /// Whether `file`, which is withheld, is read as rules by the server: nobody is told that it is there.
    pub(super) fn is_rule_file(&self, directory: &OwnedFd, name: &[u8], file: &OwnedFd) -> bool {
        let routes = &self.site.routes;
        let own = self.site.root_with(directory).map(|(prefix, _)| [prefix, name].concat());
        own.is_some_and(|own| {
            let others = self.other_places(&own, file).unwrap_or_default();
            routes.hides(&own) || others.iter().any(|place| routes.hides(place))
        })
    }

    /// The paths at which a script is beside that of its name, `own`: each request is judged by the rules of these as well.
    ///
    /// # Errors
    /// They cannot be found out.
    pub(super) fn other_places(&self, own: &[u8], file: &OwnedFd) -> Result<Vec<Vec<u8>>, Blocked> {
        other_places(self.site, own, file.as_fd()).map_err(Blocked::Failed)
    }
}
