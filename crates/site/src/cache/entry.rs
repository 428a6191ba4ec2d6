//! A cache entry: the resource that a target was resolved to, and the evidence for that.
//!
//! Owns: the resource, and what it holds in memory; when it was last compared with the file system and whether changes
//! would be noticed is in `validity`, what it counts in `account`. Does not look at files.

mod charge;
mod validity;

use std::borrow::Cow;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use arc_swap::{ArcSwapOption, Guard};
use lamna_io::file_state::{self, Stamps};
use lamna_proto::resource::{Representation, Resource};
use lamna_sys::metrics::memory_accounting::{MemoryAccount, allocated};
use lamna_sys::prefetch::{Ahead, FileRange};

use crate::cache::answer::StoredResponse;
use crate::cache::entry::charge::Charge;
use crate::cache::predictions::Predictions;
use crate::upstream::group::Group;
use validity::Validity;

pub(super) use validity::Freshness;

/// Synchronisation primitives of the entry and its validity; the loom model substitutes its own.
mod sync {
    pub(super) use std::sync::OnceLock;
    pub(super) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed};
}

/// The resource that a target was resolved to, and the evidence for that.
///
/// How long it may be used is for its [`Validity`] to say, what it counts for its [`Charge`].
#[derive(Debug)]
pub struct Entry {
    /// The answer to requests for the target.
    pub resource: Arc<Resource>,
    /// The kind of entry, if it was not derived from files alone.
    special: Option<Box<Special>>,
    /// The state of the files that the resource was made from.
    pub stamps: Stamps,
    validity: Validity,
    /// Distinguishes content produced by services from other content: zero if no service was involved.
    services_mark: u32,
    /// Whether watching was asked for.
    is_submitted: AtomicBool,
    /// Whether the resource is this entry's alone, and counts as such.
    owns_resource: bool,
    account: Arc<Charge>,
    /// Pages likely to be asked for next, once the learner has told.
    predictions: ArcSwapOption<Predictions>,
    /// Where the first representation is in memory, for [`Entry::foresee_description`] alone. The allocator had these
    /// eight bytes to spare.
    representation_at: usize,
}

/// Kinds of entries that are not about files alone.
#[derive(Debug)]
enum Special {
    Script(Script),
    /// No file is there, and this application answers.
    Application(Arc<Group>),
    /// The cached response of an application.
    StoredResponse(StoredResponse),
    /// It was put together from files at these paths, beside its own.
    Parts(Box<[String]>),
    /// It has not been made yet: the request whose turn it is makes it.
    Unmade,
}

/// A file that an application runs.
#[derive(Debug)]
pub struct Script {
    /// The application.
    pub group: Arc<Group>,
    /// The directory that it is beneath, as a path.
    pub root: PathBuf,
    /// Which paths lead to that directory: `/`, or the prefix of an alias.
    pub prefix: Vec<u8>,
    /// Its path beneath the directory; begins with a slash.
    pub name: Vec<u8>,
    /// The rest of the requested path behind the script: empty, or beginning with a slash.
    pub path_info: Vec<u8>,
    /// Other paths of the same file, where the rules of these count: a link, or another prefix, has led to it.
    pub other_places: Vec<Vec<u8>>,
}

impl Script {
    /// The paths at which it is, normalised: what is said of them is said of it.
    pub fn places(&self) -> impl Iterator<Item = Cow<'_, [u8]>> {
        [Cow::Owned(self.own_path())].into_iter().chain(self.other_places.iter().map(|place| Cow::Borrowed(&place[..])))
    }

    /// The paths of the site that its path information may be for the application, normalised: from the root on, and
    /// from the folder of the script on.
    pub fn paths_within(&self) -> impl Iterator<Item = Cow<'_, [u8]>> {
        let mut folder = self.own_path();
        folder.truncate(memchr::memrchr(b'/', &folder).unwrap_or(0));
        let from_folder = (!folder.is_empty()).then(|| Cow::Owned([&folder, &self.path_info[..]].concat()));
        let paths = [Cow::Borrowed(&self.path_info[..])].into_iter().chain(from_folder);
        paths.filter(|_| !self.path_info.is_empty())
    }

    fn own_path(&self) -> Vec<u8> {
        [&self.prefix[..], &self.name[1..]].concat()
    }
}

/// Bytes of a message to prefetch. The processor fetches the rest by itself, as it is read in order.
const MESSAGE_BYTES: usize = 1024;

impl Entry {
    /// An entry of its own `resource`, compared at `now_ms`.
    pub fn new(resource: Resource, stamps: Stamps, now_ms: u64) -> Entry {
        Entry::of(Arc::new(resource), true, stamps, now_ms)
    }

    /// An entry of a resource that others have as well: the page of an error.
    pub fn shared(resource: Arc<Resource>, stamps: Stamps, now_ms: u64) -> Entry {
        Entry::of(resource, false, stamps, now_ms)
    }

    /// An entry of a target that a script answers. `resource` is what is answered where scripts are not run.
    pub fn of_script(script: Script, resource: Arc<Resource>, stamps: Stamps, now_ms: u64) -> Entry {
        Entry { special: Some(Box::new(Special::Script(script))), ..Entry::of(resource, false, stamps, now_ms) }
    }

    /// An entry of a target at which no file is, and which `application` answers. `resource` is what is answered where
    /// no application is asked.
    pub fn of_application(application: Arc<Group>, resource: Arc<Resource>, now_ms: u64) -> Entry {
        let special = Some(Box::new(Special::Application(application)));
        Entry { special, ..Entry::of(resource, false, Stamps::none(), now_ms) }
    }

    /// An entry of a target that is to be made when there is a turn for it. `resource` is what is answered where there
    /// is none. It is not used again.
    pub fn of_unmade(resource: Arc<Resource>) -> Entry {
        Entry { special: Some(Box::new(Special::Unmade)), ..Entry::of(resource, false, Stamps::unsettled(), 0) }
    }

    /// Whether it is to be made first.
    pub fn is_unmade(&self) -> bool {
        matches!(self.special.as_deref(), Some(Special::Unmade))
    }

    /// The entry of a cached response of an application. Its `resource` is its own if it `is_answer`, and otherwise
    /// shared.
    pub fn of_stored_response(resource: Arc<Resource>, kept: StoredResponse) -> Entry {
        let is_answer = matches!(kept, StoredResponse::Answer(_));
        Entry {
            special: Some(Box::new(Special::StoredResponse(kept))),
            ..Entry::of(resource, is_answer, Stamps::none(), 1)
        }
    }

    /// The cached response of an application, if the entry is one.
    pub fn stored_response(&self) -> Option<&StoredResponse> {
        match self.special.as_deref() {
            Some(Special::StoredResponse(kept)) => Some(kept),
            _ => None,
        }
    }

    /// A script that answers in place of the resource.
    pub fn script(&self) -> Option<&Script> {
        match self.special.as_deref() {
            Some(Special::Script(script)) => Some(script),
            _ => None,
        }
    }

    /// The application that answers in place of the resource, because no file is there.
    pub fn application(&self) -> Option<&Arc<Group>> {
        match self.special.as_deref() {
            Some(Special::Application(application)) => Some(application),
            _ => None,
        }
    }

    /// Whether an application answers, by a script or without one.
    pub fn asks_an_application(&self) -> bool {
        matches!(self.special.as_deref(), Some(Special::Script(_) | Special::Application(_)))
    }

    /// The same, put together from files at these `paths` as well, whose states its stamps have behind that of its own.
    pub fn with_parts(self, paths: Vec<String>) -> Entry {
        let special = (!paths.is_empty()).then(|| Box::new(Special::Parts(paths.into())));
        Entry { special: special.or(self.special), ..self }
    }

    /// The paths of the files that it was put together from, beside its own.
    pub fn parts(&self) -> &[String] {
        match self.special.as_deref() {
            Some(Special::Parts(paths)) => paths,
            _ => &[],
        }
    }

    /// The same, made with services that are told from others by `mark`.
    pub fn with_services(self, mark: u32) -> Entry {
        Entry { services_mark: mark, ..self }
    }

    /// Identifies the services that produced the content; zero if none was involved.
    pub fn services_mark(&self) -> u32 {
        self.services_mark
    }

    /// Ends its use, because another entry has taken its place.
    pub(super) fn retire(&self) {
        self.validity.end_watch();
    }

    fn of(resource: Arc<Resource>, owns_resource: bool, stamps: Stamps, now_ms: u64) -> Entry {
        let account: Arc<Charge> = Arc::default();
        if owns_resource {
            resource.variants.all().for_each(|one| drop(one.keeper.set(account.clone())));
        }
        Entry {
            representation_at: Arc::as_ptr(resource.variants.first()).addr(),
            resource,
            special: None,
            validity: Validity::new(if stamps.settled { now_ms } else { 0 }),
            stamps,
            services_mark: 0,
            is_submitted: AtomicBool::new(false),
            owns_resource,
            account,
            predictions: ArcSwapOption::empty(),
        }
    }

    /// Pages likely to be asked for after it, if known. Takes no lock and allocates nothing.
    pub fn predictions(&self) -> Guard<Option<Arc<Predictions>>> {
        self.predictions.load()
    }

    /// Takes the place of what was predicted before.
    pub(super) fn set_predictions(&self, predictions: Arc<Predictions>) {
        self.predictions.store(Some(predictions));
    }

    /// The event count to be handed to [`Entry::confirm`]: read it before the comparison begins.
    pub fn events(&self) -> u32 {
        self.validity.events()
    }

    /// It was compared at `now_ms` and still holds; `events` was read before.
    pub fn confirm(&self, now_ms: u64, events: u32) {
        if self.stamps.settled {
            self.validity.confirm(now_ms, events);
        }
    }

    /// When it was last compared, in the server's milliseconds; zero if it must be compared at each use.
    pub fn confirmed_ms(&self) -> u64 {
        self.validity.confirmed_ms()
    }

    /// Something happened to one of its names. Nothing is answered from it until it has been compared.
    pub fn disturb(&self) {
        self.validity.disturb();
    }

    /// One of its names has been changed: it is to be compared before it is used again.
    pub(crate) fn handle_change(&self) {
        self.validity.handle_change();
    }

    /// Whether something happened since it was compared.
    pub fn is_disturbed(&self) -> bool {
        self.validity.is_disturbed()
    }

    /// Its names are being watched from now on.
    pub(super) fn begin_watch(&self) {
        self.validity.begin_watch();
    }

    /// Records that something has happened to its names, and that later changes go unnoticed.
    pub(super) fn end_watch(&self) {
        self.validity.end_watch();
        self.want_watch_again();
    }

    /// Whether changes of its names will be noticed.
    pub fn is_watched(&self) -> bool {
        self.validity.is_watched()
    }

    /// Whether it should be watched and that has not been requested yet: true once.
    pub fn wants_watch(&self) -> bool {
        // An entry that shares a resource has a different name from the file, and one with parts depends on several
        // files.
        let is_one_name = self.owns_resource && self.parts().is_empty();
        let can_be = is_one_name && self.stamps.are_watchable() && !self.validity.is_being_watched();
        can_be && !self.is_submitted.swap(true, Relaxed)
    }

    /// Watching could not be asked for now.
    pub(super) fn want_watch_again(&self) {
        self.is_submitted.store(false, Relaxed);
    }

    /// Whether clients asked for codings that could be made.
    pub fn has_requested_codings(&self) -> bool {
        self.resource.variants.codings().is_some_and(|codings| codings.has_requested_codings())
    }

    /// Says where what an answer is made of is described. The entry itself has been fetched.
    pub(super) fn foresee_description(&self, ahead: &mut Ahead) {
        ahead.add(FileRange::of_shared(&self.resource));
        ahead.add(FileRange::of_shared_at::<Representation>(self.representation_at));
    }

    /// Says where the message of a plain answer is. What describes it has been fetched.
    pub(super) fn foresee_message(&self, ahead: &mut Ahead) {
        if let Some(message) = self.resource.variants.first().message() {
            ahead.add(FileRange::of(message.as_ptr(), message.len().min(MESSAGE_BYTES)));
        }
    }

    /// How long it may be used at `now_ms`, the watcher having been awake at `awake_ms`, and if it is watched for
    /// `recheck_ms` after it was compared. Nothing: it has to be compared.
    pub(super) fn freshness(&self, now_ms: u64, awake_ms: u64, recheck_ms: u64) -> Option<Freshness> {
        match self.stored_response() {
            Some(kept) if !self.is_disturbed() => kept.freshness(now_ms),
            Some(_) => None,
            None => self.validity.freshness(now_ms, awake_ms, recheck_ms),
        }
    }

    /// Whether the files that are read when it is sent are as they were found, as far as one look tells. What is
    /// watched is told to be otherwise, and is not looked at; nor is what is in memory.
    pub fn is_as_found(&self) -> bool {
        let is_as_found = |file: &OwnedFd| {
            let Ok((_, now)) = file_state::inspect(file.as_fd()) else { return false };
            // What was made of a file, and is kept in another, is not among them.
            self.stamps.files.iter().all(|found| *found == now || !found.is_of_same_file(&now))
        };
        let mut files = self.resource.variants.all().filter_map(|one| one.file.as_deref());
        files.all(|file| self.is_watched() || is_as_found(file))
    }

    /// For how many targets the store keeps it.
    pub(super) fn targets(&self) -> u64 {
        self.account.counted().0
    }

    /// Bytes of it that the account of memory knows of.
    pub(super) fn counted_bytes(&self) -> u64 {
        self.account.counted().1
    }

    /// Files that it holds open.
    pub(super) fn descriptors(&self) -> u64 {
        self.resource.variants.all().filter(|one| one.file.is_some()).count() as u64
    }

    /// Bytes of memory that it holds.
    pub fn memory_bytes(&self) -> u64 {
        self.own_bytes() + if self.owns_resource { self.resource_bytes() } else { 0 }
    }

    fn own_bytes(&self) -> u64 {
        let account = allocated(size_of::<Charge>() + ARC_BYTES);
        let kept =
            self.stored_response().map_or(0, |kept| allocated(size_of::<Special>()) + allocated(kept.memory_bytes()));
        let parts = match self.parts() {
            [] => 0,
            paths => {
                allocated(size_of::<Special>())
                    + paths.iter().map(|path| allocated(path.len() + size_of::<String>())).sum::<u64>()
            }
        };
        let predictions = self.predictions().as_ref().map_or(0, |predictions| predictions.memory_bytes());
        account
            + kept
            + parts
            + predictions
            + allocated(size_of::<Entry>() + ARC_BYTES)
            + allocated(size_of_val(&*self.stamps.files))
    }

    fn resource_bytes(&self) -> u64 {
        let variants = &self.resource.variants;
        let mut held = allocated(size_of::<Resource>() + ARC_BYTES) + allocated(variants.memory_bytes());
        for one in variants.all() {
            held += allocated(size_of_val(&**one) + ARC_BYTES);
            held += one.buffer_bytes().map(allocated).iter().sum::<u64>();
            held += one.file.as_ref().map_or(0, |_| OPEN_FILE_BYTES);
        }
        held
    }
}

// Accounting.
impl Entry {
    /// The store keeps it for one target more.
    pub(super) fn keep(&self, memory_account: &Arc<MemoryAccount>) {
        self.account.keep(memory_account, self.memory_bytes());
    }

    /// It counts from now on, whether the store keeps it or not, until no part of it is held any more.
    pub(super) fn count(&self, memory_account: &Arc<MemoryAccount>) {
        self.account.count(memory_account, self.memory_bytes());
    }

    /// The store keeps it for one target less.
    pub(super) fn release(&self) {
        self.account.release();
    }

    /// Lets the account of memory know what it holds now.
    pub(super) fn weigh(&self) {
        let keeper = self.resource.variants.first().keeper.get();
        match keeper.and_then(|keeper| keeper.downcast_ref::<Charge>()) {
            // The resource counts for the entry that owns it.
            Some(account) => account.weigh(self.own_bytes() + self.resource_bytes()),
            None => self.account.weigh(self.memory_bytes()),
        }
    }
}

/// The two counts of an `Arc`.
const ARC_BYTES: usize = 16;
/// An open file in an `Arc`.
const OPEN_FILE_BYTES: u64 = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::{FRESH_MS, RECHECK_MS_MIN};
    use lamna_io::file_state::inspect;
    use lamna_proto::message::Status;
    use lamna_proto::resource::Description;

    fn entry() -> Entry {
        let file = tempfile::NamedTempFile::new().unwrap();
        let stamps = Stamps { files: [inspect(file.as_file().as_fd()).unwrap().1].into(), settled: true };
        let representation = Representation::with_content(&Description::of(Status(200)), b"x").unwrap();
        Entry::new(Resource::one(Status(200), representation), stamps, 5000)
    }

    fn until(entry: &Entry, now_ms: u64, awake_ms: u64) -> Option<u64> {
        entry.freshness(now_ms, awake_ms, RECHECK_MS_MIN).map(|freshness| freshness.until_ms)
    }

    #[test]
    fn unwatched_it_is_good_for_a_while_after_each_comparison() {
        let entry = entry();
        assert_eq!(until(&entry, 5000, 0), Some(5000 + FRESH_MS));
        assert_eq!(until(&entry, 5000 + FRESH_MS, 0), None);
        entry.confirm(6000, entry.events());
        assert_eq!(until(&entry, 6000, 0), Some(6000 + FRESH_MS));
    }

    #[test]
    fn watching_counts_from_the_first_comparison_that_begins_after_it() {
        let entry = entry();
        let before = entry.events();
        entry.begin_watch();
        entry.confirm(5100, before);
        assert!(!entry.is_watched());
        assert_eq!(until(&entry, 9000, 8900), None);
        entry.confirm(5200, entry.events());
        assert!(entry.is_watched());
        assert_eq!(until(&entry, 9000, 8900), Some(8900 + FRESH_MS));
    }

    #[test]
    fn it_is_good_only_as_long_as_the_watcher_is_awake_and_not_for_ever() {
        let entry = entry();
        entry.begin_watch();
        entry.confirm(5000, entry.events());
        assert_eq!(until(&entry, 9000, 9000 - FRESH_MS), None);
        assert_eq!(until(&entry, 5000 + RECHECK_MS_MIN, 5000 + RECHECK_MS_MIN), None);
    }

    #[test]
    fn what_happens_during_a_comparison_is_not_covered_by_it() {
        let entry = entry();
        entry.begin_watch();
        entry.confirm(5000, entry.events());
        let begun = entry.events();
        entry.disturb();
        assert_eq!(until(&entry, 5001, 5001), None);
        entry.confirm(5002, begun);
        assert!(entry.is_disturbed());
        entry.confirm(5003, entry.events());
        assert!(entry.is_watched() && !entry.is_disturbed());
    }

    #[test]
    fn what_is_no_longer_watched_is_compared_at_once_and_then_as_if_it_never_had_been() {
        let entry = entry();
        assert!(entry.wants_watch() && !entry.wants_watch());
        entry.begin_watch();
        entry.confirm(5000, entry.events());
        entry.end_watch();
        assert_eq!(until(&entry, 5001, 5001), None);
        entry.confirm(5002, entry.events());
        assert_eq!(until(&entry, 5003, 5003), Some(5002 + FRESH_MS));
        assert!(entry.wants_watch());
        entry.begin_watch();
        entry.confirm(5004, entry.events());
        assert!(entry.is_watched());
    }

    #[test]
    fn it_counts_once_in_the_ledger_until_it_is_gone() {
        let memory_account = Arc::new(MemoryAccount::default());
        let entry = entry();
        let bytes = entry.memory_bytes();
        entry.keep(&memory_account);
        entry.keep(&memory_account);
        assert_eq!((memory_account.alive_bytes(), memory_account.lingering_bytes()), (bytes, 0));
        entry.release();
        assert_eq!(memory_account.lingering_bytes(), 0);
        entry.release();
        assert_eq!((memory_account.alive_bytes(), memory_account.lingering_bytes()), (bytes, bytes));
        drop(entry);
        assert_eq!((memory_account.alive_bytes(), memory_account.lingering_bytes()), (0, 0));
    }
}
