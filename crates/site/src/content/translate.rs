//! From a request target to what it stands for: the one way from names to resources.
//!
//! Owns: the order of the rules: path syntax, redirects, routes (`routed`), hidden names, users, aliases, files, index
//! files, listings, single-page fallback, error pages; and building resources of files with their precompressed
//! siblings. Guarantees: with [`Wait::No`] it never waits for the disk; a resource that holds content was read in one
//! state of its file. Keeps only pages that stand for many targets: the caller keeps the rest.

mod again;
mod filtered;
mod parts;
mod permission;
mod reports;
mod routed;
mod script;
mod structured;
#[cfg(test)]
mod tests;
mod text;
#[cfg(test)]
mod verdicts;

use std::borrow::Cow;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use lamna_config::cache_switches::CacheSwitches;
use lamna_io::file_state::{self, Kind, Stamp, Stamps};
use lamna_io::growth::described;
use lamna_io::log::errors::{Level, Peer};
use lamna_io::{Blocked, KernelFeatures, Wait, open};
use lamna_proto::codings::Codings;
use lamna_proto::error::Refusal;
use lamna_proto::exchange::negotiate::Coding;
use lamna_proto::message::Status;
use lamna_proto::resource::{Description, HeadTooLong, Representation, Resource, Variants};
use lamna_sys::contain::{Point, contain, fail_if_asked};
use lamna_sys::metrics::step_timer::{self, Step};
use rustix::io::Errno;

use super::answers;
use super::listing::{Controls, View};
use super::media_type;
use super::permitted::Permitted;
use super::{directory, tree};
use crate::cache::two_generation_map::Key;
use crate::cache::{Entry, Store};
use crate::content::route::{Effective, SIBLINGS};
use crate::content::site::{Root, Site};

/// One translation: what is asked, and how.
#[derive(Clone, Copy, Debug)]
pub struct Translation<'a> {
    /// The site that is asked.
    pub site: &'a Site,
    /// The effective rules for this target.
    pub rules: &'a Effective,
    /// The host that is asked, where a redirect leads to it; else empty.
    pub host: &'a [u8],
    /// The recipe in the query, for a filter.
    pub recipe: Option<&'a str>,
    /// The path, [normalised](lamna_proto::parse::path::normalise); empty if it cannot be.
    pub path: &'a [u8],
    /// The bytes of it that come before an encoded slash; none if it has none. No file is beyond them.
    pub before_encoded_slash: Option<usize>,
    /// The form of a listing.
    pub view: View,
    /// Whether it may wait.
    pub wait: Wait,
    /// Until when it has the turn to make what takes long; none if it has not lined up for it.
    pub makes_until: Option<std::time::Instant>,
    /// The ID of the request, for the error log; empty if it is not known.
    pub request: &'a str,
    /// The previous result: returned again, and marked as confirmed, if nothing has changed.
    pub previous: Option<Previous<'a>>,
    /// The server's clock in milliseconds.
    pub now_ms: u64,
    /// The kernel's features.
    pub abilities: &'a KernelFeatures,
    /// The store that holds content in the place of the page cache, if one does, and its key: then a caller that may
    /// not wait does not ask the page cache.
    pub holder: Option<(&'a Store, Key<'a>)>,
    /// Where pages are kept that stand for many targets, and what knows whether there is memory for more.
    pub store: Option<&'a Store>,
    /// Files up to this many bytes are held in memory with their head. Larger ones are sent from the page cache.
    pub content_bytes_max: u64,
    /// Which caches are on for the answer.
    pub caches: CacheSwitches,
}

/// The previous result.
#[derive(Clone, Copy, Debug)]
pub struct Previous<'a> {
    entry: &'a Arc<Entry>,
    /// Its event count when the comparison began.
    events: u32,
}

impl Previous<'_> {
    /// `entry`, which is compared from now on.
    pub fn of(entry: &Arc<Entry>) -> Previous<'_> {
        Previous { entry, events: entry.events() }
    }
}

/// The translation would have had to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WouldBlock;

/// Resolves the target to a resource. Every failure is an answer as well, a panic included: the client gets a 500.
///
/// # Errors
/// [`WouldBlock`], with [`Wait::No`] only.
pub fn translate(translation: &Translation<'_>) -> Result<Arc<Entry>, WouldBlock> {
    let _step = step_timer::step(Step::Translate);
    let resolve = || {
        fail_if_asked(Point::Translate, translation.path);
        translation.resolve().or_else(|blocked| translation.error_entry(blocked))
    };
    let outcome = contain("The request is answered with 500.", resolve).unwrap_or(Err(Blocked::Failed(Errno::IO)));
    match outcome {
        Ok(entry) => Ok(entry),
        Err(Blocked::Disk) => Err(WouldBlock),
        Err(Blocked::Failed(_)) => Ok(translation.ready(&translation.rules.errors.failed, Stamps::unsettled())),
    }
}

/// A name beneath a root, as `openat` takes it.
struct NameAt<'a> {
    directory: Arc<OwnedFd>,
    name: &'a [u8],
}

/// An open file and its state.
struct Open {
    file: OwnedFd,
    stamp: Stamp,
    name: Vec<u8>,
}

/// Metadata that all representations of a file share.
#[derive(Clone, Copy)]
struct CommonMetadata<'a> {
    media_type: &'a str,
    vary: Option<&'a str>,
    status: Status,
    /// Whether caches may keep it for a year.
    is_immutable: bool,
    /// Fields that say what was made of it.
    fields: &'a [(&'static str, &'static str)],
}

/// The state of a file that is described.
struct State {
    coding: Coding,
    stamp: Stamp,
    is_steady: bool,
}

/// Where content is.
enum Content<'a> {
    Held(&'a [u8]),
    In(Arc<OwnedFd>),
}

impl Translation<'_> {
    fn resolve(&self) -> Result<Arc<Entry>, Blocked> {
        if self.path.is_empty() {
            return Ok(self.ready(&self.rules.errors.malformed, Stamps::none()));
        }
        if let Some(before) = self.before_encoded_slash {
            return self.at_encoded_slash(before);
        }
        match self.configured_redirect(self.path) {
            Some(redirect) => Ok(redirect),
            None => self.routed(),
        }
    }

    /// Resolves `path`, which is normalised.
    fn at(&self, path: &[u8]) -> Result<Arc<Entry>, Blocked> {
        if self.is_hidden(path) {
            return Err(Blocked::Failed(Errno::NOENT));
        }
        let name_at = self.name_at(path)?;
        let name = name_at.name.strip_suffix(b"/").unwrap_or(name_at.name);
        let opened = self.open(&name_at.directory, name)?;
        let (kind, stamp) = file_state::inspect(opened.as_fd())?;
        let slash = name_at.name.is_empty() || name_at.name.ends_with(b"/");
        match (kind, slash) {
            (Kind::Regular, false) => {
                let open = Open { file: opened, stamp, name: name.to_vec() };
                self.file(&name_at.directory, open, Status(200))
            }
            (Kind::Directory, false) if self.is_for_application() && !self.has_index(&name_at, name)? => {
                Err(Blocked::Failed(Errno::NOENT))
            }
            (Kind::Directory, false) => Ok(self.slash_redirect(self.path)?),
            (Kind::Directory, true) => self.directory(&name_at, name, opened),
            (Kind::Regular, true) => Err(Blocked::Failed(Errno::NOTDIR)),
            (Kind::Special, _) => Err(Blocked::Failed(Errno::NXIO)),
        }
    }

    /// The root that serves `path`, and the name beneath it.
    fn name_at<'a>(&self, path: &'a [u8]) -> Result<NameAt<'a>, Blocked> {
        if let Some(user) = self.site.in_user_directory(path) {
            let root = self.site.user_root(user, self.wait, self.now_ms)?;
            // Without the slash the name is empty, and what is asked for is not the directory but its redirect.
            let name = path.get(b"/~".len() + user.len() + 1..).unwrap_or(b".");
            return Ok(NameAt { directory: root.directory(self.wait, self.now_ms)?, name });
        }
        let (root, name) = self.site.root_of(path);
        Ok(NameAt { directory: root.directory(self.wait, self.now_ms)?, name })
    }

    /// The root that serves `path`, and the name beneath it; none if that is a user's.
    fn alias_or_root<'a>(&self, path: &'a [u8]) -> Option<(&Root, &'a [u8])> {
        let is_of_user = self.site.in_user_directory(path).is_some();
        (!is_of_user && !path.is_empty()).then(|| self.site.root_of(path))
    }

    fn open(&self, directory: &OwnedFd, name: &[u8]) -> Result<OwnedFd, Blocked> {
        open::open_beneath(directory.as_fd(), name, self.wait, self.abilities)
    }

    /// The regular file of this name, if there is one.
    fn open_regular(&self, directory: &OwnedFd, name: &[u8]) -> Result<Option<Open>, Blocked> {
        let file = match self.open(directory, name) {
            Ok(file) => file,
            Err(Blocked::Failed(Errno::NOENT | Errno::NOTDIR | Errno::XDEV | Errno::LOOP | Errno::NAMETOOLONG)) => {
                return Ok(None);
            }
            Err(blocked) => return Err(blocked),
        };
        let (kind, stamp) = file_state::inspect(file.as_fd())?;
        Ok((kind == Kind::Regular).then(|| Open { file, stamp, name: name.to_vec() }))
    }

    fn directory(&self, name_at: &NameAt<'_>, name: &[u8], opened: OwnedFd) -> Result<Arc<Entry>, Blocked> {
        if let Some(open) = self.index(name_at, name)? {
            return self.file(&name_at.directory, open, Status(200));
        }
        if !self.site.settings.browse {
            if self.is_for_application() {
                return Err(Blocked::Failed(Errno::NOENT));
            }
            self.report(Peer::Unlisted, || {
                (Level::Info, "it has no index file and is not listed (--browse)".to_owned())
            });
            return self.error_page(403, self.ready(&self.rules.errors.unlisted, Stamps::none()));
        }
        if self.wait == Wait::No {
            return Err(Blocked::Disk);
        }
        if self.store.is_some_and(Store::is_over_budget) {
            // It would have to be held in memory for as long as its reader takes.
            return Err(Blocked::Failed(Errno::NOMEM));
        }
        let Some(permitted) = self.permit(&name_at.directory, &index_name(name, ""), &opened) else {
            return Err(Blocked::Failed(WITHHELD));
        };
        let root = name_at.directory.as_fd();
        let is_users = self.site.in_user_directory(self.path).is_some();
        let controls = self.controls(is_users);
        let shows = self.site.routes.judge_files().then_some((self.site, self.rules));
        // What is in it is kept by the path at which it is, though it was asked for by another.
        let path = if shows.is_some() { permitted.path() } else { self.path };
        let listed = directory::ListedDirectory { root, name, path, controls, shows, abilities: self.abilities };
        let mut extras = self.rules.extras_for_one(200);
        let vary = extras.vary_with(self.site.routes.keep_out().then_some("Authorization")).map(Cow::into_owned);
        extras.vary = vary.as_deref();
        let resource = directory::list(opened, &listed, self.view, &self.site.compression, &extras)?;
        // Sizes and times of what is listed change without a trace in the directory itself. So it rests on no file, and
        // is shared as long as any entry that is not watched: less than a second.
        Ok(self.entry(resource, Stamps::none()))
    }

    /// The controls of the listing of a folder. Directories of users are theirs alone.
    fn controls(&self, is_users: bool) -> Controls {
        let (site, rules) = (self.site, self.rules);
        let thumbnails = rules.filters.scales_pictures();
        if is_users {
            return Controls { thumbnails, ..Controls::default() };
        }
        Controls {
            changes: site.routes.changes_of(rules),
            downloads: tree::leads_to_files(&rules.rules),
            thumbnails,
            searches: site.texts.is_some() && rules.rules.search == Some(true),
            signs_in: site.routes.offers_sign_in(rules),
        }
    }

    /// The resource of a file that is at the path, and its precompressed siblings.
    fn file(&self, directory: &OwnedFd, open: Open, status: Status) -> Result<Arc<Entry>, Blocked> {
        self.file_as(directory, open, status, status.0 == 200 && self.rules.is_immutable(self.path))
    }

    fn file_as(
        &self,
        directory: &OwnedFd,
        open: Open,
        status: Status,
        is_immutable: bool,
    ) -> Result<Arc<Entry>, Blocked> {
        if let Some(runner) = self.runner(directory, &open.name) {
            return self.script(&runner, &open, &[]);
        }
        match self.permit(directory, &open.name, &open.file) {
            Some(permitted) => self.permitted_file(directory, open, status, is_immutable, &permitted),
            None if self.is_for_nobody(directory, &open.name, &open.file) => Err(Blocked::Failed(Errno::NOENT)),
            None => Err(Blocked::Failed(WITHHELD)),
        }
    }

    /// The same, once it is known that the client may have it.
    fn permitted_file(
        &self,
        directory: &OwnedFd,
        open: Open,
        status: Status,
        is_immutable: bool,
        _: &Permitted<'_>,
    ) -> Result<Arc<Entry>, Blocked> {
        let media = media_type::by_name(&open.name);
        if let Some(unavailable) = &self.rules.unavailable {
            return self.unavailable(unavailable, Stamps::new(vec![open.stamp]));
        }
        let coding = media_type::coding_by_name(&open.name);
        let text_type = self.media_type(media.essence, status);
        let filters = (coding == Coding::Identity).then(|| self.filters(text_type, status, directory, &open)).flatten();
        if let Some(filters) = filters {
            return self.through(filters, directory, (open, status, is_immutable));
        }
        let mut files = vec![(coding, open)];
        if media.compressible && status.0 == 200 {
            self.add_siblings(directory, &mut files)?;
        }
        let stamps = Stamps::new(files.iter().map(|(_, open)| open.stamp).collect());
        // What was read while the file was changing is not to be trusted, though the stamps are the same.
        let holds = |previous: &Previous<'_>| {
            previous.entry.stamps == stamps
                && stamps.settled
                && self.is_described_as_now(previous.entry)
                && previous.entry.services_mark() == self.rules.services_mark()
        };
        let known = self.previous.filter(holds);
        if let Some(Previous { entry, events }) = known.filter(|_| self.caches.entries || self.caches.translations) {
            entry.confirm(self.now_ms, events);
            return Ok(entry.clone());
        }
        let known = known.filter(|_| self.caches.content).map(|previous| previous.entry);
        let made = self.makes_codings(&files, media.compressible, status);
        let vary = (made || files.len() > 1).then_some("Accept-Encoding");
        let kind = CommonMetadata {
            media_type: self.media_type(media.essence, status),
            vary,
            status,
            is_immutable,
            fields: &[],
        };
        let mut steady = stamps.settled;
        let mut representations = Vec::with_capacity(files.len());
        for (coding, open) in files {
            // The type is that of the text, in whichever coding it is.
            let first: Option<Arc<Representation>> = representations.first().cloned();
            let kind = first.as_ref().map_or(kind, |first| CommonMetadata { media_type: first.media_type(), ..kind });
            let (representation, held) = match known.and_then(|entry| held(entry, coding)) {
                Some(content) => {
                    let state = State { coding, stamp: open.stamp, is_steady: true };
                    let kind = self.without_false_charset(&kind, coding, content, true).unwrap_or(kind);
                    (self.describe(&state, &kind, Content::Held(content))?, true)
                }
                None => self.represent(coding, open, &kind, stamps.settled)?,
            };
            steady &= held;
            representations.push(Arc::new(representation));
        }
        let variants = match representations.len() {
            1 if made && steady => {
                Variants::Made(Box::new(Codings::new(representations.remove(0), self.site.compression.codings)))
            }
            1 => Variants::One(representations.remove(0)),
            _ => Variants::Coded(representations.into()),
        };
        let stamps = Stamps { settled: steady, ..stamps };
        Ok(self.entry(Resource { status, variants, query_follows: false }, stamps))
    }

    /// Whether `entry` would be described now as it was then: not if its content was not held because there was no
    /// memory, nor if it says that it was modified later than now, the clock having been set back.
    fn is_described_as_now(&self, entry: &Entry) -> bool {
        let now_s = u64::try_from(file_state::now_ns() / 1_000_000_000).unwrap_or(0);
        entry.resource.variants.all().all(|one| {
            let is_held = one.file.is_none() || one.size > self.content_bytes_max;
            is_held && one.modified().is_none_or(|modified| modified <= now_s)
        })
    }

    /// Whether codings of a file are made while it is served: of text without precompressed siblings.
    fn makes_codings(&self, files: &[(Coding, Open)], compressible: bool, status: Status) -> bool {
        let size = files[0].1.stamp.size;
        compressible && status.0 == 200 && files.len() == 1 && self.site.compression.applies_to(size)
    }

    /// `NAME.br`, `NAME.zst` and `NAME.gz` beside `NAME`, unless they are older than it.
    fn add_siblings(&self, directory: &OwnedFd, files: &mut Vec<(Coding, Open)>) -> Result<(), Blocked> {
        for (coding, suffix) in SIBLINGS {
            let name = [&files[0].1.name, suffix.as_bytes()].concat();
            let sibling = match self.open_regular(directory, &name) {
                Err(Blocked::Failed(_)) => None,
                other => other?,
            };
            match sibling {
                Some(sibling)
                    if !files[0].1.stamp.is_newer_than(&sibling.stamp)
                        && self.permit(directory, &name, &sibling.file).is_some() =>
                {
                    files.push((coding, sibling));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// A representation, and whether the file was at rest while it was made. If it was not, or is not `settled`, it
    /// carries no validators: the next state might have the same.
    fn represent(
        &self,
        coding: Coding,
        open: Open,
        kind: &CommonMetadata<'_>,
        settled: bool,
    ) -> Result<(Representation, bool), Blocked> {
        let Open { file, mut stamp, .. } = open;
        let mut is_steady = settled;
        for _ in 0..READ_TRIES {
            let description = State { coding, stamp, is_steady };
            if stamp.size > self.content_bytes_max {
                // Of a file that is written to all the time a length is told, and no state.
                let kind = self.kind_of_file(kind, coding, &file)?;
                if !is_steady || file_state::inspect(file.as_fd())?.1 == stamp {
                    return Ok((self.describe(&description, &kind, Content::In(Arc::new(file)))?, is_steady));
                }
            } else if let Some(representation) = self.describe_and_read(&description, kind, &file)? {
                return Ok((representation, is_steady));
            }
            stamp = file_state::inspect(file.as_fd())?.1;
            is_steady = false;
        }
        // It changes faster than it can be read: send it from the file, where every range is checked.
        let state = State { coding, stamp, is_steady: false };
        let kind = self.kind_of_file(kind, coding, &file)?;
        Ok((self.describe(&state, &kind, Content::In(Arc::new(file)))?, false))
    }

    fn describe(
        &self,
        state: &State,
        kind: &CommonMetadata<'_>,
        content: Content<'_>,
    ) -> Result<Representation, HeadTooLong> {
        let representation = self.with_description(state, kind, |description| match content {
            Content::Held(content) => Representation::with_content(description, content),
            Content::In(file) => Representation::new(description, Some(file)),
        })?;
        Ok(described(representation, (&state.stamp, state.is_steady), self.abilities))
    }

    /// With the content of `file`, which is read to where it stays. Nothing if it is in another state than it is
    /// described in.
    fn describe_and_read(
        &self,
        state: &State,
        kind: &CommonMetadata<'_>,
        file: &OwnedFd,
    ) -> Result<Option<Representation>, Blocked> {
        let stamp = &state.stamp;
        let read = |content: &mut [u8]| match (self.wait, self.holder) {
            (Wait::Yes, Some((store, key))) => file_state::take_whole(file, stamp, content, self.abilities, || {
                store.keeps_in_page_cache(key, stamp.size)
            }),
            (Wait::No, Some(_)) => Err(Blocked::Disk),
            (wait, None) => file_state::read_whole(file, stamp, content, wait, self.abilities),
        };
        let make = |description: &Description<'_>| Representation::with_content_read(description, read);
        let Some(mut made) = self.with_description(state, kind, make)? else { return Ok(None) };
        let content = made.content().unwrap_or_default();
        if let Some(kind) = self.without_false_charset(kind, state.coding, content, true) {
            made =
                self.with_description(state, &kind, |description| Representation::with_content(description, content))?;
        }
        Ok(Some(described(made, (stamp, state.is_steady), self.abilities)))
    }

    fn with_description<T>(
        &self,
        state: &State,
        kind: &CommonMetadata<'_>,
        make: impl FnOnce(&Description<'_>) -> T,
    ) -> T {
        let State { coding, stamp, is_steady } = *state;
        let etag = stamp.etag(coding);
        let is_content = kind.status.0 == 200;
        let is_validated = is_content && is_steady;
        let mut extras = self.rules.extras_of_file(kind.status.0, kind.is_immutable);
        if !kind.fields.is_empty() {
            let own = kind.fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            extras.fields.to_mut().extend(own);
        }
        let vary = extras.vary_with(kind.vary);
        make(&Description {
            media_type: Some(kind.media_type),
            coding,
            size: stamp.size,
            modified: stamp.last_modified(file_state::now_ns()).filter(|_| is_validated),
            etag: is_validated.then_some(&*etag),
            ranges: is_content,
            vary: vary.as_deref(),
            fields: &extras.fields,
            ..Description::of(kind.status)
        })
    }

    fn configured_redirect(&self, path: &[u8]) -> Option<Arc<Entry>> {
        let text = std::str::from_utf8(path).ok()?;
        self.site.settings.redirects.iter().find_map(|redirect| {
            let location = redirect.location(text)?;
            Some(self.redirect(redirect.status, &location).unwrap_or_else(|HeadTooLong| {
                // What `*` stands for is the client's: escaped, it is three times as long.
                let page = &self.site.pages.refusals[Refusal::TargetTooLong as usize];
                self.ready(page, Stamps::none())
            }))
        })
    }

    /// The query of the request follows, unless `location` has one of its own. What is behind `#` is none.
    fn redirect(&self, status: u16, location: &str) -> Result<Arc<Entry>, HeadTooLong> {
        let query_follows = !location.split('#').next().unwrap_or_default().contains('?');
        let resource = answers::redirect(status, location, query_follows, &self.rules.extras(status))?;
        Ok(self.entry(resource, Stamps::none()))
    }

    /// A directory is found at its name with a slash, so that relative links in it work.
    fn slash_redirect(&self, path: &[u8]) -> Result<Arc<Entry>, HeadTooLong> {
        self.redirect(301, &format!("{}/", lamna_proto::parse::path::encode(path)))
    }

    /// The answer when a name cannot be served.
    fn error_entry(&self, blocked: Blocked) -> Result<Arc<Entry>, Blocked> {
        let Blocked::Failed(errno) = blocked else { return Err(blocked) };
        let errors = &self.rules.errors;
        match errno {
            // It is configured so: nothing to report.
            WITHHELD => self.error_page(403, self.ready(&errors.forbidden, Stamps::none())),
            // NXIO: a socket, which cannot be opened, or a device.
            Errno::ACCESS | Errno::PERM | Errno::NXIO => {
                self.report(Peer::Denied, || (Level::Warning, self.why_denied(errno)));
                self.error_page(403, self.ready(&errors.forbidden, Stamps::none()))
            }
            Errno::NOENT | Errno::NOTDIR | Errno::XDEV | Errno::LOOP | Errno::NAMETOOLONG | Errno::ISDIR => {
                if self.site.settings.spa
                    && let Some(entry) = self.single_page()?
                {
                    return Ok(entry);
                }
                self.error_page(404, self.ready(&errors.not_found, Stamps::none()))
            }
            // BUSY: too many unknown users are looked up.
            Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::BUSY => {
                Ok(self.ready(&errors.overloaded, Stamps::unsettled()))
            }
            _ => {
                self.report(Peer::Failed, || (Level::Error, format!("the file system failed: {errno}")));
                self.error_page(500, self.ready(&errors.failed, Stamps::unsettled()))
            }
        }
    }

    /// The root's index file, for names that a single-page application routes itself: those whose extension does not
    /// say that a file of a certain type is meant.
    fn single_page(&self) -> Result<Option<Arc<Entry>>, Blocked> {
        if media_type::is_told_by(self.path) || self.is_hidden(self.path) {
            return Ok(None);
        }
        let directory = self.site.root.directory(self.wait, self.now_ms)?;
        for index in self.indices() {
            if self.is_left_to_files(&directory, index.as_bytes()) {
                continue;
            }
            let Some(open) = self.open_regular(&directory, index.as_bytes())? else { continue };
            let is_judged = self.runner(&directory, &open.name).is_some();
            let may_be_had = is_judged || self.permit(&directory, &open.name, &open.file).is_some();
            return if may_be_had {
                self.page(&directory, open, (index.as_bytes(), Status(200))).map(Some)
            } else {
                Ok(None)
            };
        }
        Ok(None)
    }

    /// The page that the site has for `status`, or ours.
    fn error_page(&self, status: u16, ours: Arc<Entry>) -> Result<Arc<Entry>, Blocked> {
        let Some(page) = self.page_for(status).filter(|_| self.site.settings.has_root()) else {
            return Ok(ours);
        };
        let (root, name) = self.site.root_of(page.as_bytes());
        let directory = root.directory(self.wait, self.now_ms)?;
        match self.open_regular(&directory, name) {
            // A script is no page: it has a status of its own.
            Ok(Some(open))
                if self.runner(&directory, &open.name).is_none()
                    && self.permit(&directory, &open.name, &open.file).is_some() =>
            {
                self.page(&directory, open, (page.as_bytes(), Status(status)))
            }
            Ok(_) | Err(Blocked::Failed(_)) => Ok(ours),
            Err(Blocked::Disk) => Err(Blocked::Disk),
        }
    }

    /// A file that stands for many targets: its resource is made once for all of them, and kept under a name of its
    /// own, which is that of no path.
    fn page(&self, directory: &OwnedFd, open: Open, (path, status): (&[u8], Status)) -> Result<Arc<Entry>, Blocked> {
        let shares = self.caches == CacheSwitches::ALL && self.runner(directory, &open.name).is_none();
        let Some(store) = self.store.filter(|_| shares) else {
            return self.file_as(directory, open, status, false);
        };
        let recipe = self.recipe.filter(|_| status.0 == 200).unwrap_or_default().as_bytes();
        let number = self.rules.number.to_ne_bytes();
        let name = [b"\0", &status.0.to_ne_bytes()[..], &number, recipe, b"\0", path].concat();
        let key = Key { site: self.site.index, path: &name };
        let kept = store.lookup(key, 1);
        let previous = kept.as_ref().map(Previous::of);
        let page = Translation { previous, ..*self }.file_as(directory, open, status, false)?;
        if kept.is_none_or(|kept| !Arc::ptr_eq(&kept, &page)) {
            store.insert(key, page.clone());
        }
        if let Some(Previous { entry, events }) = self.previous
            && Arc::ptr_eq(&entry.resource, &page.resource)
        {
            entry.confirm(self.now_ms, events);
            return Ok(entry.clone());
        }
        Ok(self.ready(&page.resource, page.stamps.clone()))
    }

    fn ready(&self, resource: &Arc<Resource>, stamps: Stamps) -> Arc<Entry> {
        Arc::new(Entry::shared(resource.clone(), stamps, self.now_ms).with_services(self.rules.services_mark()))
    }

    fn entry(&self, resource: Resource, stamps: Stamps) -> Arc<Entry> {
        Arc::new(Entry::new(resource, stamps, self.now_ms).with_services(self.rules.services_mark()))
    }
}

/// The content that `entry` holds under `coding`.
fn held(entry: &Entry, coding: Coding) -> Option<&[u8]> {
    entry.resource.variants.all().find(|one| one.coding == coding)?.content()
}

/// The name of an index file of the directory `name`.
fn index_name(name: &[u8], index: &str) -> Vec<u8> {
    if name.is_empty() { index.as_bytes().to_vec() } else { [name, b"/", index.as_bytes()].concat() }
}

/// The client has no access to the target that it is led to. No error of the file system has this number.
const WITHHELD: Errno = Errno::KEYREJECTED;

/// How often a file that changes under our hands is read before it is sent from where it is.
const READ_TRIES: usize = 3;
