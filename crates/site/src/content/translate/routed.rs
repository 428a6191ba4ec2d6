//! The effect of routes on a translation: redirects, other paths, paths that are tried in turn.
//!
//! Owns: the order of these, and which names a translation looks at. Opens files by what `translate` has for it.

use std::borrow::Cow;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use lamna_config::route::RouteRedirect;
use lamna_config::route::template::Template;
use lamna_io::Blocked;
use lamna_io::file_state::{self, Kind, Stamps};
use lamna_proto::error::Refusal;
use lamna_proto::message::Status;
use lamna_proto::parse::path;
use rustix::io::Errno;

use super::{NameAt, Open, Previous, Translation, index_name};
use crate::cache::Entry;
use crate::content::answers;
use crate::content::media_type;
use crate::content::route::SIBLINGS;
use crate::upstream::group::Group;

/// The name of the page for 404 of a root, if nothing else is configured.
const NOT_FOUND_PAGE: &str = "/404.html";

impl Translation<'_> {
    /// Resolves the path by the routes of the site.
    pub(super) fn routed(&self) -> Result<Arc<Entry>, Blocked> {
        let redirect = self.rules.rules.redirect.as_ref();
        let at_once = redirect.filter(|(redirect, _)| !redirect.if_missing);
        if let Some(redirected) = at_once.and_then(|(redirect, from)| self.routed_redirect(redirect, *from)) {
            return Ok(redirected);
        }
        let found = self.look();
        match (&found, redirect) {
            (Err(Blocked::Failed(errno)), Some((redirect, from))) if is_missing(*errno) => {
                self.routed_redirect(redirect, *from).map_or(found, Ok)
            }
            _ => found,
        }
    }

    fn look(&self) -> Result<Arc<Entry>, Blocked> {
        let path = self.rewritten()?;
        let Some((tried, from)) = self.tried() else {
            return match self.at(&path) {
                Err(Blocked::Failed(errno)) if is_missing(errno) => {
                    self.script_before_its_end(&path)?.ok_or(Blocked::Failed(errno))
                }
                found => found,
            };
        };
        // Nothing is in the place of what is hidden.
        if self.rules.rules.rewrite.is_none() && self.is_hidden(&path) {
            return self.at_no_file();
        }
        for template in tried {
            let Some(candidate) = self.filled(template, from, &path).filter(|path| !self.is_hidden(path)) else {
                continue;
            };
            let found = match template.is_fixed() {
                true => self.for_many(&candidate, &path)?,
                false => match self.candidate(&candidate)? {
                    None => self.script_before_its_end(&candidate)?,
                    found => found,
                },
            };
            if let Some(found) = found {
                return Ok(found);
            }
        }
        self.at_no_file()
    }

    /// None of the paths that are tried leads to a file: the application of the route answers, if it has one that does.
    fn at_no_file(&self) -> Result<Arc<Entry>, Blocked> {
        let Some(application) = self.application_behind_files() else { return Err(Blocked::Failed(Errno::NOENT)) };
        let known = self
            .previous
            .filter(|previous| previous.entry.application().is_some_and(|known| Arc::ptr_eq(known, application)));
        if let Some(Previous { entry, events }) = known {
            entry.confirm(self.now_ms, events);
            return Ok(entry.clone());
        }
        let not_found = self.rules.errors.not_found.clone();
        Ok(Arc::new(Entry::of_application(application.clone(), not_found, self.now_ms)))
    }

    /// The application that answers where no file is.
    fn application_behind_files(&self) -> Option<&Arc<Group>> {
        self.rules.gateway.as_ref().filter(|_| self.rules.rules.try_files_first())
    }

    /// The meaning of a path with an encoded slash, `before` which are so many bytes: it names no file.
    pub(super) fn at_encoded_slash(&self, before: usize) -> Result<Arc<Entry>, Blocked> {
        if self.application_behind_files().is_some() {
            return self.at_no_file();
        }
        let malformed = || self.ready(&self.rules.errors.malformed, Stamps::none());
        Ok(self.script_before_slash(before)?.unwrap_or_else(malformed))
    }

    /// The script of a path with an encoded slash, `before` which are so many bytes: the path names no file itself, so
    /// that what is tried is a script before that slash, or one that stands for many targets. None if there is none.
    fn script_before_slash(&self, before: usize) -> Result<Option<Arc<Entry>>, Blocked> {
        let redirects = self.rules.rules.redirect.as_ref().is_some_and(|(redirect, _)| !redirect.if_missing);
        if !self.site.routes.run_files() || redirects || self.is_hidden(self.path) {
            return Ok(None);
        }
        // What the slash is in, behind whatever a template has put before it.
        let script_in = |path: &[u8]| match path.strip_suffix(self.path) {
            Some(added) => self.script_before(path, added.len() + before),
            None => Ok(None),
        };
        let path = self.rewritten()?;
        let Some((tried, from)) = self.tried() else { return script_in(&path) };
        for template in tried {
            let filled = self.filled(template, from, &path).filter(|path| !self.is_hidden(path));
            let found = match filled {
                Some(candidate) if template.is_fixed() => self.script_for_many(&candidate, &path)?,
                Some(candidate) => script_in(&candidate)?,
                None => None,
            };
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// The path that is looked for.
    fn rewritten(&self) -> Result<Cow<'_, [u8]>, Blocked> {
        match &self.rules.rules.rewrite {
            None => Ok(Cow::Borrowed(self.path)),
            Some((template, from)) => {
                let path = self.filled(template, *from, self.path);
                path.map(Cow::Owned).ok_or(Blocked::Failed(Errno::NOENT))
            }
        }
    }

    fn tried(&self) -> Option<(&[Template], usize)> {
        let (tried, from) = self.rules.rules.try_files.as_ref()?;
        (!tried.is_empty()).then_some((tried, *from))
    }

    /// Fills a template of the route `from`, and normalises the path. None if that is no path.
    fn filled(&self, template: &Template, from: usize, path: &[u8]) -> Option<Vec<u8>> {
        self.site.routes.filled(template, from, path, self.path)
    }

    /// Resolves a path that is tried: a file, or a directory with an index or a listing.
    fn candidate(&self, path: &[u8]) -> Result<Option<Arc<Entry>>, Blocked> {
        let found = self.name_at(path).and_then(|name_at| {
            let name = name_at.name.strip_suffix(b"/").unwrap_or(name_at.name);
            let opened = self.open(&name_at.directory, name)?;
            let (kind, stamp) = file_state::inspect(opened.as_fd())?;
            let slash = name_at.name.is_empty() || name_at.name.ends_with(b"/");
            match kind {
                Kind::Regular if !slash => {
                    let open = Open { file: opened, stamp, name: name.to_vec() };
                    self.file(&name_at.directory, open, Status(200)).map(Some)
                }
                Kind::Directory if self.site.settings.browse || self.has_index(&name_at, name)? => {
                    let is_asked_without =
                        !self.path.ends_with(b"/") && path.strip_suffix(b"/").unwrap_or(path) == self.path;
                    match slash && !is_asked_without {
                        true => self.directory(&name_at, name, opened).map(Some),
                        false => Ok(Some(self.slash_redirect(path.strip_suffix(b"/").unwrap_or(path))?)),
                    }
                }
                Kind::Regular | Kind::Directory => Ok(None),
                Kind::Special => Err(Blocked::Failed(Errno::ACCESS)),
            }
        });
        match found {
            Err(Blocked::Failed(errno)) if is_missing(errno) => Ok(None),
            other => other,
        }
    }

    /// The file at a path that is the same for many targets, of which one is `looked_for`.
    fn for_many(&self, path: &[u8], looked_for: &[u8]) -> Result<Option<Arc<Entry>>, Blocked> {
        if let Some(script) = self.script_for_many(path, looked_for)? {
            return Ok(Some(script));
        }
        let name_at = self.name_at(path)?;
        match self.open_regular(&name_at.directory, name_at.name)? {
            Some(open) => self.page(&name_at.directory, open, (path, Status(200))).map(Some),
            None => Ok(None),
        }
    }

    fn routed_redirect(&self, redirect: &RouteRedirect, from: usize) -> Option<Arc<Entry>> {
        let captures = self.site.routes.captures(from, self.path);
        if redirect.to.names_host() && self.host.is_empty() {
            return None;
        }
        let location = redirect.to.fill_encoded(self.path, self.host, &captures);
        if location.starts_with("//") {
            // It would lead to any host that the client names.
            return None;
        }
        Some(self.redirect(redirect.status, &location).unwrap_or_else(|_| {
            // What captures stand for is the client's: escaped, it is three times as long.
            let page = answers::refusal_page(Refusal::TargetTooLong, &self.rules.extras(414), self.rules.changes);
            match page {
                Ok(page) => self.entry(page, Stamps::none()),
                Err(_) => self.ready(&self.site.pages.refusals[Refusal::TargetTooLong as usize], Stamps::none()),
            }
        }))
    }
}

// What the rules of a target say instead of the site.
impl Translation<'_> {
    /// Names of index files.
    pub(super) fn indices(&self) -> impl Iterator<Item = &String> {
        let own = self.rules.rules.index.as_deref();
        let scripts = if own.is_some() { &[] } else { self.index_scripts() };
        scripts.iter().chain(own.unwrap_or(&self.site.settings.index))
    }

    /// The index file of the directory `name`, if it has one.
    pub(super) fn index(&self, name_at: &NameAt<'_>, name: &[u8]) -> Result<Option<Open>, Blocked> {
        for index in self.indices() {
            let name = index_name(name, index);
            if self.is_left_to_files(&name_at.directory, &name) {
                continue;
            }
            if let Some(open) = self.open_regular(&name_at.directory, &name)? {
                return Ok(Some(open));
            }
        }
        Ok(None)
    }

    pub(super) fn has_index(&self, name_at: &NameAt<'_>, name: &[u8]) -> Result<bool, Blocked> {
        let bare = if name == b"." { b"" } else { name };
        self.index(name_at, bare).map(|open| open.is_some())
    }

    /// Whether a directory without anything to show is the business of a single-page application.
    pub(super) fn is_for_application(&self) -> bool {
        self.site.settings.spa && !self.site.settings.browse
    }

    /// Whether nothing is told about a path, whatever is there.
    pub(super) fn is_hidden(&self, path: &[u8]) -> bool {
        path::is_hidden(path) || self.site.routes.hides(path)
    }

    /// The media type of a file whose name says `by_name`.
    pub(super) fn media_type<'m>(&'m self, by_name: &'m str, status: Status) -> &'m str {
        let configured = self.rules.rules.media_type.as_deref().filter(|_| status.0 == 200);
        configured.unwrap_or(by_name)
    }

    /// The path beneath the root of the page for `status`.
    pub(super) fn page_for(&self, status: u16) -> Option<&str> {
        self.rules.error_pages.get(status).or_else(|| (status == 404).then_some(NOT_FOUND_PAGE))
    }
}

// What it will look at.
impl Translation<'_> {
    /// A directory, and the names beneath it that translating may open: for those who bring them into memory first.
    /// Nothing if that cannot be told without waiting, if nothing will be opened, or if they are not all beneath one
    /// directory. Names that decide about errors are not among them.
    pub fn names(&self) -> Option<(Arc<OwnedFd>, Vec<Vec<u8>>)> {
        let is_redirected = self.rules.rules.redirect.as_ref().is_some_and(|(redirect, _)| !redirect.if_missing);
        if self.path.is_empty() || is_redirected {
            return None;
        }
        let path = self.rewritten().ok()?;
        let paths: Vec<Vec<u8>> = match self.tried() {
            None => vec![path.into_owned()],
            Some((tried, from)) => tried.iter().filter_map(|template| self.filled(template, from, &path)).collect(),
        };
        let mut beneath: Option<Arc<OwnedFd>> = None;
        let mut names = Vec::new();
        for path in paths.iter().filter(|path| !self.is_hidden(path)) {
            let NameAt { directory, name } = self.name_at(path).ok()?;
            if !Arc::ptr_eq(beneath.get_or_insert_with(|| directory.clone()), &directory) {
                return None;
            }
            self.push_names(name, &mut names);
        }
        beneath.map(|directory| (directory, names))
    }

    fn push_names(&self, name: &[u8], names: &mut Vec<Vec<u8>>) {
        let start = names.len();
        let bare = name.strip_suffix(b"/").unwrap_or(name);
        let is_directory = name.is_empty() || bare.len() < name.len();
        let indices = self.indices().filter(|_| is_directory);
        names.extend(indices.map(|index| index_name(bare, index)));
        names.push(bare.to_vec());
        for at in start..names.len() {
            if media_type::by_name(&names[at]).compressible {
                let siblings = SIBLINGS.map(|(_, suffix)| [&names[at], suffix.as_bytes()].concat());
                names.extend(siblings);
            }
        }
    }
}

/// Whether there is nothing of a name that is served.
fn is_missing(errno: Errno) -> bool {
    matches!(errno, Errno::NOENT | Errno::NOTDIR | Errno::XDEV | Errno::LOOP | Errno::NAMETOOLONG | Errno::ISDIR)
}
