//! Files that pass through the filters of their route (`filters`, `lamna_filter`).
//!
//! Owns: the result of a chain over a file as a resource, made once for each state of the file and kept as any file in
//! memory is, with a strong validator of its own. Guarantees: with [`Wait::No`] no filter runs, so that it runs where
//! the engine carries out long work. A recipe of a query takes long and much memory: only the holder of the turn makes
//! it ([`Translation::makes_until`]), and nothing is read for it before. A file that cannot be filtered is answered
//! with 500, never as it is. But where a request only prefers the filtered form (a preference), it is given the file
//! without. Answers of applications are filtered as they arrive (`gateway`).

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use lamna_filter::{Bounds, Content as Filtered, Fault, Leave, NoRoom, Room, Run, Source};
use lamna_io::file_state::{self, Stamp, Stamps};
use lamna_io::log::errors::{Level, Peer};
use lamna_io::{Blocked, Wait};
use lamna_policy::limit::{Period, Rate};
use lamna_proto::codings::Codings;
use lamna_proto::exchange::negotiate::Coding;
use lamna_proto::message::Status;
use lamna_proto::resource::{HeadTooLong, Resource, Variants};
use lamna_sys::background;
use rustix::io::Errno;

use super::parts::Part;
use super::structured::Divided;
use super::{CommonMetadata, Content, Open, Previous, READ_TRIES, State, Translation};
use crate::cache::two_generation_map::Key;
use crate::cache::{Entry, Store};
use crate::content::workroom::{Taken, Workroom};
use crate::content::{answers, media_type};
use crate::service::Unavailable;

/// The most bytes of a file that is filtered, and of what becomes of it: both are held in memory.
pub(super) const BYTES_MAX: u64 = 16 << 20;

/// How much memory is asked for to filter a file, in times its size: for what is read, for what a filter that needs the
/// whole of it keeps, and for what is made of it.
const READ_SHARE: u64 = 3;

/// How many different ones are made of one file at once, unless the filter says it, and after how many seconds as many
/// again. No page needs so many forms of a picture, and a client that asks for ever new ones is answered with 429.
const FORMS_MAX: u32 = 100;
const FORMS_PERIOD_S: u32 = 1000;

/// The filters of a file.
pub(super) struct Filters {
    run: Run,
    /// The metadata of the result.
    made: Filtered,
    /// The metadata of the input, if the chain may have to run again with parts.
    before: Option<Filtered>,
    /// Where it gives parts of the file, which the structure of the file tells.
    pub(super) division: Option<Division>,
}

/// How a file is divided.
pub(super) struct Division {
    /// The markup language of the page.
    source: Source,
    /// The run that produces the whole document, if there is one, and its metadata.
    whole: Option<(Run, Filtered)>,
}

/// The result of filters over a file.
struct Made {
    content: Vec<u8>,
    media_type: String,
    /// Fields that say what was made.
    fields: Vec<(&'static str, &'static str)>,
    /// The other files that it was put together from, by path.
    parts: Vec<(String, Part)>,
}

impl Filters {
    /// The result of the file alone.
    fn made(self, content: Vec<u8>) -> Made {
        let Filtered { media_type, fields, .. } = self.made;
        Made { content, media_type, fields, parts: Vec::new() }
    }
}

impl Translation<'_> {
    /// The filters that have something to do with a file of `media_type` in `directory`, if any has.
    pub(super) fn filters(
        &self,
        media_type: &str,
        status: Status,
        directory: &OwnedFd,
        open: &Open,
    ) -> Option<Filters> {
        let chain = &self.rules.filters;
        if chain.is_empty() {
            return None;
        }
        let bytes = open.stamp.size;
        // A page for an error is not what is asked for.
        let is_possible = status.0 == 200 && (bytes <= BYTES_MAX || !self.is_preference());
        let query = self.recipe.filter(|_| is_possible).map(str::to_owned);
        let until = self.makes_until.filter(|_| query.is_some());
        let leave = until.map(|until| Leave::new(move || Instant::now() < until));
        let room = query.is_some().then(|| Room::new(|bytes| Ok(Box::new(Workroom::get().take(bytes)?))));
        let parts = chain.has_parts().then(|| self.no_parts(directory, open));
        let mut made = Filtered { query, leave, room, parts, bytes: Some(bytes), ..Filtered::new(media_type) };
        let before = made.parts.is_some().then(|| made.clone());
        let source = self.recipe.and_then(|_| chain.divides(&made));
        let division = source.map(|source| {
            let mut made = Filtered { query: None, leave: None, ..made.clone() };
            let run = chain.start(&mut made, Bounds::whole(BYTES_MAX));
            Division { source, whole: run.map(|run| (run, made)) }
        });
        let run = chain.start(&mut made, Bounds::whole(BYTES_MAX))?;
        Some(Filters { run, made, before, division })
    }

    /// Whether what a filter is asked for is only preferred.
    pub(super) fn is_preference(&self) -> bool {
        self.recipe.is_some_and(|recipe| self.rules.filters.is_preference(recipe))
    }

    /// Runs the filters over a file; the file as it is if the filters were only preferred and failed.
    pub(super) fn through(
        &self,
        filters: Filters,
        directory: &OwnedFd,
        (open, status, is_immutable): (Open, Status, bool),
    ) -> Result<Arc<Entry>, Blocked> {
        let filtered = self.filtered(&open, status, is_immutable, filters)?;
        let is_unmade = filtered.as_ref().is_some_and(|entry| entry.is_unmade());
        match filtered.filter(|_| !(is_unmade && self.is_preference())) {
            Some(entry) => Ok(entry),
            None => {
                let as_it_is = Translation { recipe: None, ..*self }.file_as(directory, open, status, is_immutable)?;
                Ok(if is_unmade { Arc::new(Entry::of_unmade(as_it_is.resource.clone())) } else { as_it_is })
            }
        }
    }

    /// Runs the filters over a file. None if they were only preferred and failed.
    fn filtered(
        &self,
        open: &Open,
        status: Status,
        is_immutable: bool,
        filters: Filters,
    ) -> Result<Option<Arc<Entry>>, Blocked> {
        let paths = self.previous.map_or(&[][..], |previous| previous.entry.parts());
        let stamps = self.stamps_with_parts(open, paths)?;
        if let Some(Previous { entry, events }) = self.previous.filter(|previous| self.holds(previous, &stamps)) {
            entry.confirm(self.now_ms, events);
            return Ok(Some(entry.clone()));
        }
        let has_turn = self.recipe.is_none() || self.makes_until.is_some();
        if self.wait == Wait::No && (has_turn || filters.division.is_some()) {
            return Err(Blocked::Disk);
        }
        if self.store.is_some_and(Store::is_over_budget) {
            return Err(Blocked::Failed(Errno::NOMEM));
        }
        let excerpt = if filters.division.is_some() { self.excerpt(open)? } else { None };
        // A page has a bounded number of sections, and those that it has cost little where its structure is known.
        let limited = self.recipe.filter(|_| !matches!(excerpt, Some(Ok(_))));
        if let Some(wait_s) = limited.and_then(|recipe| self.forms_wait_s(recipe, open.stamp.size)) {
            return if self.is_preference() { Ok(None) } else { self.too_many_forms(wait_s).map(Some) };
        }
        if excerpt.is_none() && !has_turn {
            return Ok(Some(self.unmade()));
        }
        let (made, stamp) = match excerpt {
            Some(made) => (made.map(|content| filters.made(content)), open.stamp),
            // What is read, and what may become of it.
            None => match self.read_within(open)? {
                Some((content, stamp, _room)) => (self.make(filters, &content, stamp)?, stamp),
                None if self.is_preference() => return Ok(None),
                None => return self.fault(&Fault::TooLarge(BYTES_MAX), status, stamps).map(Some),
            },
        };
        let Made { content: made, media_type, fields, parts } = match made {
            Ok(made) => made,
            // That a service has failed is not about the preference.
            Err(fault) if self.is_preference() && !matches!(fault, Fault::Failed(_)) => return Ok(None),
            Err(Fault::TooSlow) => return Err(Blocked::Failed(Errno::BUSY)),
            Err(Fault::NoRoom) => return Err(Blocked::Failed(Errno::NOMEM)),
            Err(fault) => return self.fault(&fault, status, stamps).map(Some),
        };
        let (paths, parts): (Vec<String>, Vec<Part>) = parts.into_iter().unzip();
        let stamps = Stamps::new([open.stamp].into_iter().chain(parts.iter().map(|part| part.stamp)).collect());
        let is_steady = stamps.settled && stamp == open.stamp && parts.iter().all(|part| part.is_steady);
        let media = media_type::by_name(&open.name);
        let makes_codings =
            media.compressible && is_steady && status.0 == 200 && self.site.compression.applies_to(made.len() as u64);
        let by_format = self.recipe.filter(|recipe| recipe.contains("format=auto")).map(|_| "Accept");
        let vary = makes_codings.then_some("Accept-Encoding").or(by_format);
        let kind = CommonMetadata { media_type: &media_type, vary, status, is_immutable, fields: &fields };
        let kind = self.without_false_charset(&kind, Coding::Identity, &made, true).unwrap_or(kind);
        let stamp = stamp.of_derived(self.rules.filters.number(self.recipe), made.len() as u64);
        let stamp = parts.iter().fold(stamp, |stamp, part| stamp.with_part(&part.stamp));
        let state = State { coding: Coding::Identity, stamp, is_steady };
        let representation = Arc::new(self.describe(&state, &kind, Content::Held(&made))?);
        let variants = match makes_codings {
            true => Variants::Made(Box::new(Codings::new(representation, self.site.compression.codings))),
            false => Variants::One(representation),
        };
        let stamps = Stamps { settled: is_steady, ..stamps };
        let entry = Entry::new(Resource { status, variants, query_follows: false }, stamps, self.now_ms);
        Ok(Some(Arc::new(entry.with_parts(paths).with_services(self.rules.services_mark()))))
    }

    /// Whether what was made the last time is what would be made now.
    fn holds(&self, previous: &Previous<'_>, stamps: &Stamps) -> bool {
        let is_kept = self.caches.entries || self.caches.translations;
        is_kept
            && stamps.settled
            && previous.entry.stamps == *stamps
            && self.is_described_as_now(previous.entry)
            && previous.entry.services_mark() == self.rules.services_mark()
    }

    /// Filters `content`, which was read in this state.
    fn make(&self, mut filters: Filters, content: &[u8], stamp: Stamp) -> Result<Result<Made, Fault>, Blocked> {
        let Some(recipe) = self.recipe else { return self.apply(filters, content) };
        let Some(Division { source, whole }) = filters.division.take() else {
            return background::run(|| self.apply(filters, content));
        };
        match (background::run(|| self.divide(&source, content, stamp, recipe)), whole) {
            (Ok(Divided::Part(page)), _) => Ok(Ok(filters.made(page))),
            (Ok(Divided::Whole), None) => Ok(Ok(filters.made(content.to_vec()))),
            (Ok(Divided::Whole), Some((run, made))) => {
                background::run(|| self.apply(Filters { run, made, before: None, division: None }, content))
            }
            (Ok(Divided::Not), _) => background::run(|| self.apply(filters, content)),
            (Err(fault), _) => Ok(Err(fault)),
        }
    }

    /// Runs `filters` over `content`, again as often as they want further parts, of which they have a bounded number.
    fn apply(&self, filters: Filters, content: &[u8]) -> Result<Result<Made, Fault>, Blocked> {
        let Filters { mut run, mut made, mut before, .. } = filters;
        let mut parts: Vec<(String, Part)> = Vec::new();
        let mut bytes: u64 = 0;
        loop {
            let (paths, known) = match (apply(run, content), &mut before) {
                (Err(Fault::Wants(paths)), Some(Filtered { parts: Some(known), .. })) => (paths, Arc::make_mut(known)),
                (Ok(content), _) => {
                    let Filtered { media_type, fields, .. } = made;
                    return Ok(Ok(Made { content, media_type, fields, parts }));
                }
                (Err(fault), _) => return Ok(Err(fault)),
            };
            for path in paths {
                let mut part = self.read_part(&path)?;
                bytes += part.content.as_ref().map_or(0, |content| content.len() as u64);
                if bytes > BYTES_MAX {
                    return Ok(Err(Fault::TooLarge(BYTES_MAX)));
                }
                known.found.insert(path.clone(), part.content.take());
                parts.push((path, part));
            }
            let again = before.clone().and_then(|mut again| {
                let run = self.rules.filters.start(&mut again, Bounds::whole(BYTES_MAX))?;
                Some((run, again))
            });
            // What had something to do has it again.
            let Some(again) = again else { return Err(Blocked::Failed(Errno::IO)) };
            (run, made) = again;
        }
    }

    /// The same as `read`, where there is room for it and for what becomes of it. None if there will never be.
    fn read_within(&self, open: &Open) -> Result<Option<(Vec<u8>, Stamp, Taken)>, Blocked> {
        match Workroom::get().take(READ_SHARE * open.stamp.size.min(BYTES_MAX)) {
            Ok(room) => Ok(self.read(open)?.map(|(content, stamp)| (content, stamp, room))),
            Err(NoRoom::Now) => Err(Blocked::Failed(Errno::NOMEM)),
            Err(NoRoom::Ever) => Ok(None),
        }
    }

    /// The content of a file, and the state in which it was read. None if it is too large. A file that changes faster
    /// than it can be read is taken as it comes: the stamp is not the one it was opened with then.
    pub(super) fn read(&self, open: &Open) -> Result<Option<(Vec<u8>, Stamp)>, Blocked> {
        let mut stamp = open.stamp;
        for last in (0..READ_TRIES).rev() {
            if stamp.size > BYTES_MAX {
                return Ok(None);
            }
            // It is no more than the bound.
            let mut content = vec![0; stamp.size as usize];
            if file_state::read_whole(&open.file, &stamp, &mut content, self.wait, self.abilities)? {
                return Ok(Some((content, stamp)));
            }
            if last == 0 {
                break;
            }
            stamp = file_state::inspect(open.file.as_fd())?.1;
        }
        Err(Blocked::Failed(Errno::BUSY))
    }

    /// In how many seconds another form of this file is made, if none is now.
    fn forms_wait_s(&self, recipe: &str, bytes: u64) -> Option<u64> {
        let burst = self.rules.filters.recipes_max(recipe, bytes).unwrap_or(FORMS_MAX);
        let rate = Rate::new((60 * burst / FORMS_PERIOD_S).max(1), Period::Minute, burst).ok()?;
        let key = Key { site: self.site.index, path: self.path };
        self.site.forms.take(rate, key, self.rules.filters.number(self.recipe), self.now_ms)
    }

    /// It is to be made when there is a turn for it.
    fn unmade(&self) -> Arc<Entry> {
        Arc::new(Entry::of_unmade(self.rules.errors.overloaded.clone()))
    }

    /// The answer when too many forms of a file were asked for. It is not kept, because a client can invent any number
    /// of such targets.
    fn too_many_forms(&self, wait_s: u64) -> Result<Arc<Entry>, Blocked> {
        let mut extras = self.rules.extras(429);
        extras.fields.to_mut().push(("Retry-After".to_owned(), wait_s.to_string()));
        let cause = "Too many different forms of this file were asked for. Please wait a little.";
        self.error_page(429, self.made_page(answers::error(429, cause, &extras), Stamps::unsettled()))
    }

    /// The answer while a service of the route cannot be used.
    pub(super) fn unavailable(&self, unavailable: &Unavailable, stamps: Stamps) -> Result<Arc<Entry>, Blocked> {
        let Unavailable(why) = unavailable;
        self.report(Peer::Failed, || (Level::Error, format!("answered with 503: {why}")));
        let page = answers::error(503, answers::NOT_AVAILABLE, &self.rules.extras(503));
        Ok(self.made_page(page, stamps))
    }

    /// The answer in place of a file that cannot be filtered, for as long as it stays as it is.
    fn fault(&self, fault: &Fault, status: Status, stamps: Stamps) -> Result<Arc<Entry>, Blocked> {
        let asked_for = match fault {
            Fault::Request(_) => Some(400),
            Fault::Unreadable(_) => Some(422),
            Fault::Absent(_) => Some(404),
            // It would have done without what was asked for.
            Fault::TooLarge(_) if self.recipe.is_some() => Some(422),
            Fault::TooLarge(_)
            | Fault::Content(_)
            | Fault::TooSlow
            | Fault::NoRoom
            | Fault::Failed(_)
            | Fault::Wants(_) => None,
        };
        if let Some(code) = asked_for {
            let page = answers::error(code, &format!("{fault}."), &self.rules.extras(code));
            return self.error_page(code, self.made_page(page, stamps));
        }
        if let Fault::Failed(why) = fault {
            return self.unavailable(&Unavailable(format!("a service has failed: {why}")), Stamps::unsettled());
        }
        self.report(Peer::Failed, || (Level::Error, format!("it cannot be filtered: {fault}")));
        match status.0 {
            200 => self.error_page(500, self.ready(&self.rules.errors.failed, stamps)),
            // It was to be the page of another error.
            _ => Ok(self.ready(&self.rules.errors.failed, stamps)),
        }
    }

    /// A page that was made for this target alone, and counts as what it holds.
    fn made_page(&self, page: Result<Resource, HeadTooLong>, stamps: Stamps) -> Arc<Entry> {
        match page {
            Ok(page) => self.entry(page, stamps),
            Err(HeadTooLong) => self.ready(&self.rules.errors.failed, stamps),
        }
    }
}

fn apply(mut run: Run, content: &[u8]) -> Result<Vec<u8>, Fault> {
    let mut made = Vec::new();
    run.take(content, &mut made)?;
    run.finish(&mut made)?;
    Ok(made)
}
