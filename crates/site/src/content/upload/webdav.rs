//! WebDAV (RFC 4918): folders that clients mount.
//!
//! Owns: which of its methods are answered where, what a client shows about locks, the rights at a destination, and the
//! answers that several methods have in common. Guarantees: each path that is read, written or removed goes by a
//! verdict on that path, those of a copy by one on the path of the copy as well; a change of what is locked needs the
//! token, by whatever method it comes. All that waits is in the steps of programs.

#[cfg(test)]
mod condition_checks;
mod conditions;
mod dead;
mod destination;
mod erase;
mod lock;
mod locks;
mod place;
mod properties;
mod propfind;
mod proppatch;
pub(super) mod remove;
mod survey;
mod transfer;
mod tree_copy;
mod walk;
mod xml;

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use lamna_proto::exchange::RequestedResource;
use lamna_proto::exchange::program::{Program, StepResult};
use lamna_proto::message::{Method, Request, Status};
use lamna_proto::parse::path;
use lamna_proto::resource::{Description, Representation, Resource};

use self::conditions::IfField;
use super::{Action, ChangeTarget, Conditions, Refused, Resources, Sender, name_of};
use crate::content::at_once::{AtOnce, ClientNetwork};
use crate::content::permitted::other_places;
use crate::content::site::Site;
use crate::content::tree::Tree;

pub use self::destination::destination_of;
pub(super) use self::destination::path_of_url;
pub(super) use self::place::Change;

/// Work on trees at once in each process: all of it, and that of one client network.
static UNDER_WAY: AtOnce = AtOnce::new(16, 4);
/// Folders within each other, in work on a tree.
const DEPTH_MAX: usize = 64;
/// Entries of one step, whatever becomes of them: bounds the time that it takes.
const ENTRIES_MAX: usize = 256;

const IS_BUSY: Refused = Refused(503, "Other folders are being worked on. Please try again in a moment.");
const BAD_BODY: Refused = Refused(400, "The content is not the XML that this method takes.");
const BAD_DEPTH: Refused = Refused(400, "This method does not take such a Depth.");
const NOTHING: Refused = Refused(404, "There is nothing at this address.");
const LOCKED: Refused = Refused(423, "This is locked.");

/// The rights of a client at the destination of a copy, beyond storing files. Where the rules do not say, it has all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rights {
    /// Remove what is there.
    pub delete: bool,
    /// Make folders.
    pub mkdir: bool,
}

impl Default for Rights {
    fn default() -> Rights {
        Rights { delete: true, mkdir: true }
    }
}

/// The evidence of a client about locks.
#[derive(Clone, Debug, Default)]
pub(super) struct Locker {
    /// The `If` field; none within if it is malformed.
    field: Option<Option<IfField>>,
    /// The host that was asked for, to which URLs have to lead.
    host: Option<Vec<u8>>,
    user: Option<Box<str>>,
    network: Option<ClientNetwork>,
}

impl Locker {
    pub(super) fn of(requested: &RequestedResource<'_>, sender: &Sender) -> Locker {
        let Some(request) = requested.request else { return Locker::default() };
        let mut lines = request.lines_named(b"if");
        let field = lines.next().map(|line| IfField::parse(line).filter(|_| lines.next().is_none()));
        let host = destination::authority_of(request).map(<[u8]>::to_vec);
        Locker { field, host, user: sender.user.clone(), network: sender.network }
    }

    fn shows(&self, token: &str) -> bool {
        self.field.iter().flatten().any(|field| field.shows(token))
    }
}

/// Deletes locks of `root` that have expired.
pub(super) fn sweep(root: BorrowedFd<'_>) {
    locks::sweep(root);
}

/// The value of `Depth`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Depth {
    Zero,
    One,
    Infinity,
    Unknown,
}

/// The program that answers a request of such a method; none if it is not answered so here.
pub(super) fn begin(
    target: ChangeTarget,
    site: &Site,
    requested: &RequestedResource<'_>,
    sender: &Sender,
    resources: Resources<'_>,
) -> Option<Box<dyn Program>> {
    let request = requested.request?;
    let method = request.head.method;
    let is_allowed = match method {
        Method::Propfind => true,
        Method::Move => target.permits(Action::Delete, &target.path),
        // What may be stored is for the destination to say.
        Method::Copy => true,
        _ => target.permits(Action::Upload, &target.path),
    };
    if !target.mounts() || !is_allowed || site.routes.runner(&target.path).is_some() {
        return None;
    }
    let field = |name: &'static [u8]| request.lines_named(name).next();
    let depth = match field(b"depth") {
        None => Depth::Infinity,
        Some(b"0") => Depth::Zero,
        Some(b"1") => Depth::One,
        Some(depth) if depth.eq_ignore_ascii_case(b"infinity") => Depth::Infinity,
        Some(_) => Depth::Unknown,
    };
    let tree =
        || Tree::of(site, &target.path, (requested, request, sender.address), sender.clearance.clone(), resources);
    Some(match method {
        Method::Propfind => {
            let tree = tree();
            Box::new(propfind::Propfind::new(target, tree, depth))
        }
        Method::Copy | Method::Move => {
            let tree = tree();
            let overwrites = !field(b"overwrite").is_some_and(|value| value.eq_ignore_ascii_case(b"f"));
            let place = destination::of(requested);
            let asked = transfer::Asked { is_move: method == Method::Move, depth, overwrites, rights: sender.rights };
            Box::new(transfer::Transfer::new((target, place), tree, asked))
        }
        Method::Proppatch => Box::new(proppatch::Proppatch::new(target, Conditions::of(request))),
        Method::Lock => {
            let seconds = lock::seconds_in(field(b"timeout").unwrap_or_default());
            Box::new(lock::TakeLock::new(target, depth, seconds))
        }
        Method::Unlock => {
            let token = field(b"lock-token").and_then(|value| value.strip_prefix(b"<")?.strip_suffix(b">"));
            Box::new(lock::Unlock::new(target, token.map(|token| String::from_utf8_lossy(token).into_owned())))
        }
        _ => return None,
    })
}

/// The program that answers a form which moves something: as MOVE does, wherever clients may delete, and nothing is
/// replaced. None if an application runs what is there.
pub(super) fn begin_move(
    target: ChangeTarget,
    site: &Site,
    (requested, request): (&RequestedResource<'_>, Request<'_>),
    sender: &Sender,
    resources: Resources<'_>,
) -> Option<Box<dyn Program>> {
    if site.routes.runner(&target.path).is_some() {
        return None;
    }
    let tree = Tree::of(site, &target.path, (requested, request, sender.address), sender.clearance.clone(), resources);
    let place = destination::of(requested);
    let asked = transfer::Asked { is_move: true, depth: Depth::Infinity, overwrites: false, rights: sender.rights };
    Some(Box::new(transfer::Transfer::new((target, place), tree, asked)))
}

impl ChangeTarget {
    /// Whether clients mount what is there.
    pub(super) fn mounts(&self) -> bool {
        self.rules().changes.webdav
    }

    /// The path without a slash at its end.
    fn bare_path(&self) -> &[u8] {
        self.path.strip_suffix(b"/").unwrap_or(&self.path)
    }

    /// Whether `path`, of a file or of a folder, is the root of the site or of an alias.
    fn is_root(&self, path: &[u8]) -> bool {
        path.is_empty() || matches!(self.site().root_of(path).1, b"" | b".")
    }

    /// Whether the client may do this to `path`, which has no slash at the end: a file or a folder there.
    fn may(&self, action: Action, path: &[u8]) -> bool {
        self.judge(action, path).is_ok() && (self.is_form || self.rules_of(path).changes.webdav)
    }

    /// Whether a file or a folder may come to be at `path`.
    fn takes(&self, path: &[u8], is_folder: bool) -> bool {
        self.may(Action::Upload, path) && (!is_folder || self.may(Action::Mkdir, path)) && self.leaves_to_files(path)
    }

    /// Whether what is at `path` is a file or a folder and nothing else: nothing else answers there, and no application
    /// runs it. A request to change it by itself would be for that.
    pub(super) fn leaves_to_files(&self, path: &[u8]) -> bool {
        let rules = self.rules_of(path);
        self.site().routes.runner(path).is_none() && !rules.answers_every_method() && !rules.rules.replace_files()
    }

    /// Everything at `path`, without a slash at the end, and beneath it, has changed.
    fn handle_change_of_tree(&self, path: &[u8]) {
        self.handle_change(path);
        self.store.handle_change_beneath(self.site, &[path, b"/"].concat());
    }

    /// The paths of what is at `path`, which has no slash at its end: this one first, and those by which its folder is
    /// reached besides.
    fn all_paths(&self, path: &[u8]) -> Result<Vec<Vec<u8>>, Refused> {
        let parent = self.open_directory(super::parent_of(path))?;
        let others = other_places(self.site(), super::parent_of(path), parent.as_fd()).map_err(super::refused)?;
        let others = others.into_iter().map(|other| [&*other, name_of(path)].concat());
        Ok([path.to_vec()].into_iter().chain(others).collect())
    }

    /// An answer with content in XML.
    fn xml(&self, status: u16, content: &str, field: Option<(String, String)>) -> StepResult {
        let (rules, status) = (self.rules(), Status(status));
        let mut extras = rules.extras(status.0);
        extras.fields.to_mut().push(("Cache-Control".to_owned(), "no-cache".to_owned()));
        extras.fields.to_mut().extend(field);
        let (fields, vary, media_type) = (&*extras.fields, extras.vary, Some(properties::MEDIA_TYPE));
        let description = Description { fields, vary, media_type, ..Description::of(status) };
        match Representation::with_content(&description, content.as_bytes()) {
            Ok(representation) => StepResult::Answer(Arc::new(Resource::one(status, representation))),
            Err(_) => StepResult::Failed,
        }
    }

    /// A refusal by a condition that WebDAV has a name for, with paths that it is about.
    fn refused_for(&self, status: u16, condition: &str, paths: &[&[u8]]) -> StepResult {
        let mut hrefs = String::new();
        for path in paths {
            hrefs.push_str("<D:href>");
            xml::push_text(&path::encode(path), &mut hrefs);
            hrefs.push_str("</D:href>");
        }
        let content = format!(
            "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:error xmlns:D=\"DAV:\"><D:{condition}>{hrefs}</D:{condition}></D:error>\n"
        );
        self.xml(status, &content, None)
    }

    /// The refusal of a change whose token was not shown.
    pub(super) fn locked(&self) -> StepResult {
        self.refused_for(423, "lock-token-submitted", &[&self.path])
    }

    /// The answer about several resources.
    fn multistatus(&self, responses: &str) -> StepResult {
        let content = [properties::MULTISTATUS, responses, properties::MULTISTATUS_END].concat();
        self.xml(207, &content, None)
    }
}

/// A status as a line has it, without the version.
fn status_line(status: u16) -> String {
    format!("{status} {}", Status(status).reason_phrase())
}
