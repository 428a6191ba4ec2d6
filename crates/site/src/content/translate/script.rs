//! Files that an application runs, found on the way from a path to a file.
//!
//! Owns: which files are scripts, by the route of the path. Guarantees: where a route has an application that runs
//! files of some extension, no such file is ever served as text; a script is a regular file beneath the root, found
//! from the root down, so that `/image.png/x.php` never has a picture run.

use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::Arc;

use lamna_io::file_state::Stamps;
use lamna_io::{Blocked, open};
use rustix::io::Errno;

use super::{Open, Previous, Translation};
use crate::cache::{Entry, Script};
use crate::content::route::runs;
use crate::content::site::Root;
use crate::upstream::group::Group;

/// The application that runs a file.
pub(super) struct Runner<'a> {
    group: &'a Arc<Group>,
    /// Which paths lead beneath the root.
    prefix: &'a [u8],
    /// The root that the file is beneath; none for the directory of a user.
    root: Option<&'a Root>,
    /// The open directory of that root.
    directory: &'a OwnedFd,
}

impl Runner<'_> {
    /// Where the root is for the application. Without links, unless it is to have them: a program that keeps what it
    /// knows of a path, as PHP does, would go on with what a link led to before.
    fn root_path(&self, root: &Root) -> PathBuf {
        let is_resolved = self.group.settings.scripts.as_ref().is_some_and(|scripts| scripts.resolve_root);
        let real = is_resolved.then(|| open::real_path(self.directory.as_fd()).ok()).flatten();
        real.map_or_else(|| root.path(), |path| PathBuf::from(OsString::from_vec(path)))
    }
}

impl Translation<'_> {
    /// The application that runs the file `name` beneath `directory`, if it is a script: by the routes of the request,
    /// or else by those of the file's own path. So a script that a request reaches in another way, as an index file or
    /// by `try`, is never served as text.
    pub(super) fn runner<'a>(&'a self, directory: &'a OwnedFd, name: &[u8]) -> Option<Runner<'a>> {
        let routes = &self.site.routes;
        if !routes.run_files() {
            return None;
        }
        let place = self.site.root_with(directory);
        let (prefix, root) = place.map_or((&b"/"[..], None), |(prefix, root)| (prefix, Some(root)));
        let of_request = self.rules.gateway.as_ref().filter(|group| runs(group, name));
        let group = of_request.or_else(|| routes.runner(&[prefix, name].concat()))?;
        Some(Runner { group, prefix, root, directory })
    }

    /// Whether the file `name` beneath `directory` is left to files at its own path, though the application of the
    /// request runs such files: then it neither runs for a folder nor is shown in its place.
    pub(super) fn is_left_to_files(&self, directory: &OwnedFd, name: &[u8]) -> bool {
        let would_run = self.rules.gateway.as_ref().is_some_and(|group| runs(group, name));
        let own = || self.site.root_with(directory).map(|(prefix, _)| [prefix, name].concat());
        would_run && own().is_some_and(|own| self.site.routes.leave_to_files(&own))
    }

    /// Index files that are scripts, where the route says nothing of index files.
    pub(super) fn index_scripts(&self) -> &[String] {
        let scripts = self.rules.rules.gateway.as_ref().and_then(|gateway| gateway.scripts.as_ref());
        scripts.map_or(&[], |scripts| &scripts.index)
    }

    /// The entry of a script.
    pub(super) fn script(&self, runner: &Runner<'_>, open: &Open, path_info: &[u8]) -> Result<Arc<Entry>, Blocked> {
        // Directories of users are theirs alone: nothing of them is run by the application of the site.
        let root = runner.root_path(runner.root.ok_or(Blocked::Failed(Errno::NOENT))?);
        let stamps = Stamps::new(vec![open.stamp]);
        let prefix = runner.prefix;
        let other_places = self.other_places(&[prefix, &open.name].concat(), &open.file)?;
        // A script that is left to files at one of its paths runs at none of them.
        if other_places.iter().any(|place| self.site.routes.leave_to_files(place)) {
            return Err(Blocked::Failed(Errno::NOENT));
        }
        let is_same = |known: &Script| {
            let is_file = known.root == root && known.prefix == prefix && known.name[1..] == *open.name;
            is_file && known.path_info == path_info && known.other_places == other_places
        };
        let holds = |previous: &Previous<'_>| {
            previous.entry.script().is_some_and(is_same) && previous.entry.stamps == stamps && stamps.settled
        };
        if let Some(Previous { entry, events }) = self.previous.filter(holds) {
            entry.confirm(self.now_ms, events);
            return Ok(entry.clone());
        }
        let (group, name) = (runner.group.clone(), [b"/", &*open.name].concat());
        let (prefix, path_info) = (prefix.to_vec(), path_info.to_vec());
        let script = Script { group, root, prefix, name, path_info, other_places };
        Ok(Arc::new(Entry::of_script(script, self.rules.errors.not_found.clone(), stamps, self.now_ms)))
    }

    /// The script that `path`, which is looked for, goes beyond, as `/a.php` in `/a.php/b`: the first file on the way
    /// down (RFC 3875 4.1.5). Where the client asks for that, and no route leads to it, a request for the path of the
    /// script has to run it as well.
    pub(super) fn script_before_its_end(&self, path: &[u8]) -> Result<Option<Arc<Entry>>, Blocked> {
        self.script_before(path, path.len())
    }

    /// The same for a script within the first `length` bytes of `path`.
    pub(super) fn script_before(&self, path: &[u8], length: usize) -> Result<Option<Arc<Entry>>, Blocked> {
        if !self.site.routes.run_files() || self.is_hidden(path) {
            return Ok(None);
        }
        for end in memchr::memchr_iter(b'/', path).skip(1).take_while(|end| *end < length) {
            let name_at = self.name_at(&path[..end])?;
            let Some(runner) = self.runner(&name_at.directory, name_at.name) else { continue };
            let Some(open) = self.open_regular(&name_at.directory, name_at.name)? else { continue };
            let own = &path[..end];
            let rules = || self.site.routes.elsewhere(self.rules, own);
            return match path != self.path || self.site.runs_at(own, &rules(), runner.group) {
                true => self.script(&runner, &open, &path[end..]).map(Some),
                false => Ok(None),
            };
        }
        Ok(None)
    }

    /// The script at `path`, which stands for many that are asked for: what is `looked_for` is its path information,
    /// from the folder of the script on.
    pub(super) fn script_for_many(&self, path: &[u8], looked_for: &[u8]) -> Result<Option<Arc<Entry>>, Blocked> {
        let name_at = self.name_at(path)?;
        let Some(runner) = self.runner(&name_at.directory, name_at.name) else { return Ok(None) };
        let Some(open) = self.open_regular(&name_at.directory, name_at.name)? else { return Ok(None) };
        let folder = memchr::memrchr(b'/', path).unwrap_or(0);
        let beneath = looked_for.strip_prefix(&path[..folder]).filter(|rest| rest.starts_with(b"/"));
        let rest = beneath.unwrap_or(looked_for);
        // A request for the script itself, or for its folder, asks for nothing within it.
        let is_itself = looked_for == path || rest == b"/";
        self.script(&runner, &open, if is_itself { b"" } else { rest }).map(Some)
    }
}
