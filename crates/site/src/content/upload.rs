//! Changes by clients: uploads by PUT or with a form, deletions, and new directories.
//!
//! Owns: which client may change which path, where a file goes, and the answer. Guarantees: a file is moved into place
//! whole, in one step, or not at all, and nothing is left behind of one that is not, unless its sender asked to go on
//! with it later (`partial`); nothing is changed outside of the root or under a hidden name. A request is begun without
//! touching the disk: everything that may wait is in the steps of the program.

mod delete;
mod form;
mod mkdir;
mod move_form;
pub(super) mod multipart;
pub mod partial;
pub mod webdav;

use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use lamna_config::access::AccessRule;
use lamna_config::route::condition::Asked;
use lamna_io::file_state::{self, Kind};
use lamna_io::new_file::{Before, NewFile};
use lamna_io::{Blocked, KernelFeatures, Wait, open};
use lamna_proto::exchange::RequestedResource;
use lamna_proto::exchange::conditional::{self, Outcome, Preconditions, Validators};
use lamna_proto::exchange::negotiate::Coding;
use lamna_proto::exchange::program::{Holds, Input, Program, StepResult};
use lamna_proto::message::{Field, Head, Method, Request, Status};
use lamna_proto::parse::path;
use lamna_proto::resource::{Description, Representation, Resource};
use lamna_sys::clock::Clock;
use rustix::io::Errno;

use crate::cache::Store;
use crate::cache::two_generation_map::Key;
use crate::content::action::{Action, move_of};
use crate::content::answers;
use crate::content::at_once::ClientNetwork;
use crate::content::listing::View;
use crate::content::permitted::other_places;
use crate::content::route::{Clearance, Effective};
use crate::content::site::{Site, Sites};

/// The server's resources that uploads use.
#[derive(Clone, Copy, Debug)]
pub struct Resources<'a> {
    /// Where they go.
    pub sites: &'a Arc<Sites>,
    /// The cache, whose entries for changed targets are no longer true.
    pub store: &'a Arc<Store>,
    /// The kernel's features.
    pub abilities: &'a Arc<KernelFeatures>,
    /// The server's clock.
    pub clock: Clock,
}

/// The sender of a request that changes something.
#[derive(Clone, Debug, Default)]
pub struct Sender {
    /// Its address, if that is known.
    pub address: Option<IpAddr>,
    /// The network that its work counts for; none for a proxy that does not name its client.
    pub network: Option<ClientNetwork>,
    /// The name by which the server knows it, where rules ask for one.
    pub user: Option<Box<str>>,
    /// The rules of access that it fulfils.
    pub clearance: Clearance,
    /// Its rights at the destination of a copy.
    pub rights: webdav::Rights,
}

/// The program that answers a request that changes something, or that is of WebDAV; none if that may not be done so
/// here. What is left in part counts for the client's network.
pub fn begin(
    site: &Site,
    requested: &RequestedResource<'_>,
    sender: Sender,
    resources: Resources<'_>,
) -> Option<Box<dyn Program>> {
    let request = requested.request?;
    let mut path = Vec::new();
    // What cannot be normalised is refused by the first step.
    let _ = path::normalise(requested.path, &mut path);
    // Directories of users are theirs alone, however the path is spelled.
    if site.in_user_directory(&path).is_some() {
        return None;
    }
    let (client, network) = (sender.address, sender.network);
    let target = ChangeTarget {
        sites: resources.sites.clone(),
        store: resources.store.clone(),
        abilities: resources.abilities.clone(),
        clock: resources.clock,
        site: site.index,
        path,
        is_form: request.head.method == Method::Post,
        is_from_elsewhere: is_from_elsewhere(request),
        route_facts: site.routes.depends_on_requests().then(|| RouteFacts::of(requested, request, client)),
        locker: webdav::Locker::of(requested, &sender),
        clearance: sender.clearance.clone(),
    };
    if request.head.method.is_of_webdav() {
        return webdav::begin(target, site, requested, &sender, resources);
    }
    let action = Action::of(requested)?;
    let is_form = target.is_form;
    if !target.permits(action, &target.path) {
        return None;
    }
    if let Some(destination) = requested.query.filter(|_| is_form).and_then(move_of) {
        return match destination {
            None => Some(Box::new(move_form::MoveForm::new(target))),
            Some(_) => webdav::begin_move(target, site, (requested, request), &sender, resources),
        };
    }
    let conditions = Conditions::of(request);
    Some(match action {
        Action::Read => return None,
        Action::Upload if is_form => {
            let boundary = multipart::boundary(request.lines_named(b"content-type").next()?)?;
            Box::new(form::Form::new(target, &boundary))
        }
        Action::Upload => match partial::Given::of(request) {
            Some(given) => Box::new(partial::PartialPut::new(target, conditions, given, network)),
            None => Box::new(Put { target, conditions, file: None, gathered: Gathered::default() }),
        },
        Action::Delete if !is_form && target.mounts() => {
            Box::new(webdav::remove::Remove::new(target, conditions, network))
        }
        Action::Delete => Box::new(delete::Delete::new(target, conditions, is_form)),
        Action::Mkdir => Box::new(mkdir::Mkdir::new(target, is_form)),
    })
}

/// The path that a request is to change, with its site.
#[derive(Clone, Debug)]
struct ChangeTarget {
    sites: Arc<Sites>,
    store: Arc<Store>,
    abilities: Arc<KernelFeatures>,
    clock: Clock,
    site: u32,
    /// The path, normalised; empty if it cannot be.
    path: Vec<u8>,
    /// A form of a listing has sent the request: its sender sees pages, and may not speak WebDAV.
    is_form: bool,
    /// A page of another site has sent the request.
    is_from_elsewhere: bool,
    /// The request's facts, if routes of the site look at more than paths.
    route_facts: Option<RouteFacts>,
    /// The evidence of the client about locks.
    locker: webdav::Locker,
    /// The rules of access that the client fulfils.
    clearance: Clearance,
}

/// Owned copies of the facts besides the path that routes look at: the names of files in a form are known later.
#[derive(Clone, Debug)]
pub(super) struct RouteFacts {
    host: Option<Vec<u8>>,
    query: Option<Vec<u8>>,
    bytes: Vec<u8>,
    head: Head,
    client: Option<IpAddr>,
}

impl RouteFacts {
    pub(super) fn of(requested: &RequestedResource<'_>, request: Request<'_>, client: Option<IpAddr>) -> RouteFacts {
        RouteFacts {
            host: requested.host.map(<[u8]>::to_vec),
            query: requested.query.map(<[u8]>::to_vec),
            bytes: request.bytes[..usize::from(request.head.length)].to_vec(),
            head: *request.head,
            client,
        }
    }

    pub(super) fn asked(&self) -> Asked<'_> {
        let request = Some(Request { bytes: &self.bytes, head: &self.head });
        Asked { host: self.host.as_deref(), query: self.query.as_deref(), method: None, request, client: self.client }
    }
}

/// Whether a page of another site has sent `request`: a browser sends forms of any page anywhere (cross-site request
/// forgery). Browsers say so in Sec-Fetch-Site; older ones say where the page is from, and that has to be the host that
/// is asked.
fn is_from_elsewhere(request: Request<'_>) -> bool {
    let named = |name| request.lines_named(name).next();
    match (named(b"sec-fetch-site"), named(b"origin")) {
        (Some(site), _) => site != b"same-origin" && site != b"none",
        (None, Some(origin)) => {
            let host = origin.strip_prefix(b"https://").or_else(|| origin.strip_prefix(b"http://"));
            !host.zip(request.field(Field::Host)).is_some_and(|(one, other)| one.eq_ignore_ascii_case(other))
        }
        (None, None) => false,
    }
}

const NOT_FOR_ALL: Refused = Refused(403, "This is for others than the address that the request was sent to.");

/// Why something cannot be stored: the status, and a sentence for the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Refused(u16, &'static str);

impl ChangeTarget {
    fn bytes_max(&self) -> u64 {
        self.site().settings.upload_bytes_max.unwrap_or(u64::MAX)
    }

    fn site(&self) -> &Site {
        self.sites.at(self.site)
    }

    /// The rules of the path.
    fn rules(&self) -> Arc<Effective> {
        self.rules_of(&self.path)
    }

    /// The rules of `path` for this request.
    fn rules_of(&self, path: &[u8]) -> Arc<Effective> {
        match &self.route_facts {
            Some(route_facts) => self.site().routes.applying(path, &route_facts.asked()),
            None => self.site().routes.effective(path, &[]),
        }
    }

    /// Whether clients may do this to `path`, be that a file or a directory: nothing where no file is sent.
    fn permits(&self, action: Action, path: &[u8]) -> bool {
        let changes = self.rules_of(path).changes;
        let is_on = match action {
            Action::Read => return true,
            Action::Upload => changes.upload,
            Action::Delete => changes.delete,
            Action::Mkdir => changes.mkdir,
        };
        let is_withheld = || !path.ends_with(b"/") && self.rules_of(&[path, b"/"].concat()).is_withheld;
        is_on && !(self.site().routes.have_withheld() && is_withheld())
    }

    /// Whether who was let in to do this at the path that was asked for may do it to `path`, be that a file or a
    /// directory.
    fn lets_on(&self, action: Action, path: &[u8]) -> bool {
        if !self.site().routes.keep_out() {
            return true;
        }
        let (entered, inner) = (self.rules(), [path, b"/"].concat());
        let may = |path: &[u8]| {
            let is_cleared = |rule: &AccessRule| self.site().routes.clears(&self.clearance, rule);
            self.rules_of(path).whom(action).is_none_or(|whom| entered.whom(action) == Some(whom) || is_cleared(whom))
        };
        may(path) && may(&inner)
    }

    /// The verdict on one place: whether this may be done to what is at `path`, which may be one of several paths of
    /// it.
    fn judge(&self, action: Action, path: &[u8]) -> Result<(), Refused> {
        match () {
            () if path::is_hidden(path) => Err(HIDDEN),
            () if self.site().routes.hides(path) => Err(OWN),
            () if !self.permits(action, path) => Err(NOT_HERE),
            () if !self.lets_on(action, path) => Err(NOT_FOR_ALL),
            () => Ok(()),
        }
    }

    /// The directory that `path` is in, in which this is to be done to it. A link may lead to it, or a prefix: what is
    /// said of its other paths counts as well.
    fn directory(&self, action: Action, path: &[u8]) -> Result<OwnedFd, Refused> {
        let directory = self.open_directory(parent_of(path))?;
        for other in other_places(self.site(), parent_of(path), directory.as_fd()).map_err(refused)? {
            let other = [&other, name_of(path)].concat();
            self.judge(action, &other)?;
            // What is stored here would be run there.
            if !self.leaves_to_files(&other) {
                return Err(NOT_HERE);
            }
        }
        Ok(directory)
    }

    /// Whether this may be done to the root that is asked for, by all paths of it.
    fn check_root(&self, action: Action) -> Result<(), Refused> {
        let directory = self.open_directory(&self.path)?;
        let others = other_places(self.site(), &self.path, directory.as_fd()).map_err(refused)?;
        others.iter().try_for_each(|other| self.judge(action, other))
    }

    /// The directory that `path` names, which ends with a slash.
    fn open_directory(&self, path: &[u8]) -> Result<OwnedFd, Refused> {
        let (root, name) = self.site().root_of(path);
        let root = root.directory(Wait::Yes, self.clock.now().ms()).map_err(refused_by)?;
        let name = name.strip_suffix(b"/").unwrap_or(name);
        let opened = open::open_beneath(root.as_fd(), name, Wait::Yes, &self.abilities).map_err(refused_by)?;
        match file_state::inspect(opened.as_fd()).map_err(|_| FAILED)?.0 {
            Kind::Directory => Ok(opened),
            _ => Err(NO_DIRECTORY),
        }
    }

    /// Whether a file may be stored as `path`, or a directory made there. Paths of directories have no slash
    /// at the end here.
    fn check(&self, action: Action, path: &[u8]) -> Result<(), Refused> {
        match path {
            _ if self.is_from_elsewhere => Err(ELSEWHERE),
            [] | [.., b'/'] => Err(MALFORMED),
            path => self.judge(action, path),
        }
    }

    /// `path`, of a file or of a directory, without a slash at its end, has changed: what was found out about it is not
    /// used any more, nor are listings of its directory.
    fn handle_change(&self, path: &[u8]) {
        self.forget(path);
        self.forget_directory(&[path, b"/"].concat());
        self.forget_directory(parent_of(path));
    }

    /// Removes the entries of `directory`, whose path ends with a slash, from the cache.
    fn forget_directory(&self, directory: &[u8]) {
        self.forget(directory);
        let mut cleared = Vec::new();
        self.clearance.push(&mut cleared);
        for number in View::numbers() {
            self.forget(&[directory, &[0, number]].concat());
            // The sender is shown others at once as well; clients with other rights, within a second.
            if !cleared.is_empty() {
                self.forget(&[directory, &[0, number], &cleared].concat());
            }
        }
    }

    fn forget(&self, path: &[u8]) {
        if let Some(entry) = self.store.lookup(Key { site: self.site, path }, 0) {
            entry.handle_change();
        }
    }

    fn refusal(&self, refused: Refused) -> StepResult {
        self.refusal_with(refused, None)
    }

    /// A refusal that says more in `field`.
    fn refusal_with(&self, Refused(status, cause): Refused, field: Option<(String, String)>) -> StepResult {
        if status == 423 && !self.is_form {
            return self.locked();
        }
        let rules = self.rules();
        let mut extras = rules.extras(status);
        extras.fields.to_mut().extend(field);
        match answers::error(status, cause, &extras) {
            Ok(resource) => StepResult::Answer(Arc::new(resource)),
            Err(_) => StepResult::Failed,
        }
    }

    /// The listing of the directory `path`, to which a form leads back: the browser asks for it next, and a reload does
    /// not send the form again.
    fn back_to(&self, path: &[u8]) -> StepResult {
        match answers::redirect(303, &path::encode(path), false, &self.rules().extras(303)) {
            Ok(resource) => StepResult::Answer(Arc::new(resource)),
            Err(_) => StepResult::Failed,
        }
    }

    /// An answer without content.
    fn done(&self, status: u16, location: Option<&str>) -> StepResult {
        self.done_with(status, location, None)
    }

    /// An answer without content that says more in `field`.
    fn done_with(&self, status: u16, location: Option<&str>, field: Option<(String, String)>) -> StepResult {
        let status = Status(status);
        let rules = self.rules();
        let mut extras = rules.extras(status.0);
        extras.fields.to_mut().extend(field);
        let (fields, vary) = (&*extras.fields, extras.vary);
        let description = Description { location, fields, vary, ..Description::of(status) };
        match Representation::with_content(&description, b"") {
            Ok(representation) => StepResult::Answer(Arc::new(Resource::one(status, representation))),
            Err(_) => StepResult::Failed,
        }
    }
}

const FAILED: Refused = Refused(500, "The file system reported an error.");
const FULL: Refused = Refused(507, "There is no room left to store this.");
const NO_DIRECTORY: Refused = Refused(409, "The directory that this would be in does not exist.");
const IS_DIRECTORY: Refused = Refused(409, "A directory has this name.");
const FORBIDDEN: Refused = Refused(403, "The server may not write this.");
const HIDDEN: Refused = Refused(403, "Names that begin with a dot are not stored.");
const OWN: Refused = Refused(403, "The server itself uses what has this name.");
const ELSEWHERE: Refused = Refused(403, "A page of another site has sent this.");
const MALFORMED: Refused = Refused(400, "The path of the request target does not name a file.");
const NOT_HERE: Refused = Refused(403, "This may not be changed by clients.");
const CONDITION: Refused = Refused(412, "A precondition of the request does not hold for the file as it is now.");

fn refused_by(blocked: Blocked) -> Refused {
    match blocked {
        Blocked::Failed(errno) => refused(errno),
        Blocked::Disk => FAILED,
    }
}

/// The client's answer for an error.
fn refused(errno: Errno) -> Refused {
    match errno {
        Errno::NOSPC | Errno::DQUOT => FULL,
        Errno::FBIG => Refused(413, "The file is larger than the file system takes."),
        Errno::ACCESS | Errno::PERM | Errno::ROFS | Errno::XDEV | Errno::LOOP => FORBIDDEN,
        Errno::NOENT | Errno::NOTDIR => NO_DIRECTORY,
        Errno::ISDIR => IS_DIRECTORY,
        Errno::NAMETOOLONG | Errno::INVAL | Errno::ILSEQ => Refused(400, "The file system does not take this name."),
        Errno::MFILE | Errno::NFILE | Errno::NOMEM => {
            Refused(503, "The server is out of descriptors or memory for a moment.")
        }
        _ => FAILED,
    }
}

/// Content on its way to the file, gathered so that many small pieces are one step.
#[derive(Debug, Default)]
struct Gathered(Vec<u8>);

/// Bytes gathered for one step: a step costs a change of threads, some 10 microseconds.
const GATHERED_BYTES_MAX: usize = 128 * 1024;

/// The memory and descriptors of an upload: its file and the directory of that, if it has begun, and the gathered
/// content.
fn held(has_file: bool, gathered: &Gathered) -> Holds {
    Holds { bytes: gathered.0.capacity(), descriptors: 2 * usize::from(has_file) }
}

impl Gathered {
    /// Whether there was room for it.
    fn add(&mut self, content: &[u8]) -> bool {
        let has_room = self.0.len() + content.len() <= GATHERED_BYTES_MAX;
        if has_room {
            self.0.extend_from_slice(content);
        }
        has_room
    }

    fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.0)
    }
}

/// A file to be stored under the path of the request (RFC 9110 9.3.4).
#[derive(Debug)]
struct Put {
    target: ChangeTarget,
    conditions: Conditions,
    /// The file that is being written. None before the first step.
    file: Option<NewFile>,
    /// Content that has not been written.
    gathered: Gathered,
}

impl Put {
    fn store(&mut self, content: &[u8], is_last: bool) -> Result<Option<Before>, Refused> {
        let mut file = match self.file.take() {
            Some(file) => file,
            None => self.create()?,
        };
        file.write(&self.gathered.take()).map_err(refused)?;
        file.write(content).map_err(refused)?;
        if !is_last {
            self.file = Some(file);
            return Ok(None);
        }
        let name = name_of(&self.target.path);
        // One may have come since the first step.
        self.target.check_locks(&self.target.path, webdav::Change::Store)?;
        if self.target.mounts() {
            file.keep_properties(name);
        }
        let before = match self.conditions.is_for_nothing() {
            // Another request may have stored one since the first step.
            true => file.move_to_unused(name).map(|()| Before::Nothing).map_err(|errno| match errno {
                Errno::EXIST => CONDITION,
                other => refused(other),
            })?,
            false => file.move_to(name).map_err(refused)?,
        };
        self.target.handle_change(&self.target.path);
        Ok(Some(before))
    }

    fn create(&self) -> Result<NewFile, Refused> {
        let path = &self.target.path;
        self.target.check(Action::Upload, path)?;
        let directory = self.target.directory(Action::Upload, path)?;
        self.target.check_if()?;
        self.target.check_locks(path, webdav::Change::Store)?;
        self.conditions.check(&directory, name_of(path), &self.target.abilities)?;
        NewFile::create(directory).map_err(refused)
    }
}

impl Program for Put {
    fn content_bytes_max(&self) -> u64 {
        self.target.bytes_max()
    }

    fn gather(&mut self, content: &[u8]) -> bool {
        self.file.is_some() && self.gathered.add(content)
    }

    fn holds(&self) -> Holds {
        held(self.file.is_some(), &self.gathered)
    }

    fn run(&mut self, input: Input<'_>) -> StepResult {
        match self.store(input.content, input.is_last) {
            Ok(None) => StepResult::Continue,
            Ok(Some(Before::Nothing)) => self.target.done(201, Some(&path::encode(&self.target.path))),
            Ok(Some(Before::File)) => self.target.done(204, None),
            Err(refused) => self.target.refusal(refused),
        }
    }
}

/// The last segment of `path`.
fn name_of(path: &[u8]) -> &[u8] {
    &path[parent_of(path).len()..]
}

/// The directory that `path`, which does not end with a slash, is in; with a slash at its end.
fn parent_of(path: &[u8]) -> &[u8] {
    &path[..memchr::memrchr(b'/', path).map_or(0, |at| at + 1)]
}

/// The preconditions of a request (RFC 9110 13.1), in values of their own.
#[derive(Debug)]
struct Conditions {
    if_match: Vec<Vec<u8>>,
    if_none_match: Vec<Vec<u8>>,
    if_unmodified_since: Option<Vec<u8>>,
}

impl Conditions {
    fn of(request: Request<'_>) -> Conditions {
        let lines = |field| request.field_lines(field).map(<[u8]>::to_vec).collect();
        Conditions {
            if_match: lines(Field::IfMatch),
            if_none_match: lines(Field::IfNoneMatch),
            if_unmodified_since: request.field(Field::IfUnmodifiedSince).map(<[u8]>::to_vec),
        }
    }

    /// Whether there must be nothing under the name (`If-None-Match: *`).
    fn is_for_nothing(&self) -> bool {
        self.if_none_match.iter().any(|line| line.trim_ascii() == b"*")
    }

    fn are_none(&self) -> bool {
        self.if_match.is_empty() && self.if_none_match.is_empty() && self.if_unmodified_since.is_none()
    }

    fn check(&self, directory: &OwnedFd, name: &[u8], abilities: &KernelFeatures) -> Result<(), Refused> {
        if self.are_none() {
            return Ok(());
        }
        let stamp = match open::open_beneath(directory.as_fd(), name, Wait::Yes, abilities) {
            Ok(file) => Some(file_state::inspect(file.as_fd()).map_err(|_| FAILED)?.1),
            Err(Blocked::Failed(Errno::NOENT)) => None,
            Err(blocked) => return Err(refused_by(blocked)),
        };
        let Some(stamp) = stamp else {
            return if self.if_match.is_empty() { Ok(()) } else { Err(CONDITION) };
        };
        let etag = stamp.etag(Coding::Identity);
        let validators =
            Validators { etag: Some(etag.as_bytes()), modified_unix_seconds: stamp.modified_unix_seconds() };
        let preconditions = Preconditions {
            if_match: self.if_match.iter().map(|line| &**line),
            if_none_match: self.if_none_match.iter().map(|line| &**line),
            if_modified_since: None,
            if_unmodified_since: self.if_unmodified_since.as_deref(),
        };
        match conditional::evaluate(preconditions, false, validators) {
            Outcome::Proceed => Ok(()),
            Outcome::NotModified | Outcome::PreconditionFailed => Err(CONDITION),
        }
    }
}
