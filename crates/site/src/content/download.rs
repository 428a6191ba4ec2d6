//! Folders as archives: what a visitor can reach from a listing, sent while it is read.
//!
//! Owns: what is in an archive, and in which order. Guarantees: nothing is in it that its listings do not lead to, or
//! that is answered in another way than as a file (a route redirects it, an application answers it); the same tree
//! gives the same bytes; memory is bounded by one part and the names of the directories on the way to the file that is
//! read. A file that becomes shorter while it is read breaks the download off, so that no client takes it for whole;
//! one that is gone before is left out.

mod tar;
mod zip;

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use lamna_io::file_state;
use lamna_io::{Wait, open};
use lamna_proto::exchange::ContentBuffer;
use lamna_proto::exchange::program::{Holds, Input, Next, Part, Program, StepResult, StreamHead};
use lamna_proto::message::Status;
use lamna_proto::parse::path;
use lamna_proto::resource::Resource;
use rustix::io::{pread, retry_on_intr};

use self::zip::{TooMany, Zip};
use super::answers::{self, Extras};
use super::at_once::{AtOnce, ClientNetwork, Permit};
use super::listing::Kind;
use super::responder::{Client, Incoming};
use super::tree::Tree;
use super::walk::{self, Entry};

/// The queries that ask for a folder as an archive.
const TAR_QUERY: &[u8] = b"download=tar";
const ZIP_QUERY: &[u8] = b"download=zip";
/// Archives that are being sent at once by each process: all of them, and those of one client network. Each costs what
/// reading and compressing its files costs, for as long as its client likes.
static UNDER_WAY: AtOnce = AtOnce::new(16, 4);
/// Directories within each other. Links to directories are not followed, so that there are no circles.
const DEPTH_MAX: usize = 64;
/// Bytes of a part, and what a file may add to it beyond.
const PART_BYTES: usize = 128 * 1024;
/// Entries and pieces of files of one step, whatever becomes of them: bounds the time that it takes.
const PIECES_MAX: usize = 128;

/// The program that answers a request for a folder as an archive; none if it is no such request, or archives are off
/// here.
pub(super) fn begin(&Incoming { site, requested, resources, client }: &Incoming<'_>) -> Option<Box<dyn Program>> {
    let form = match requested.query? {
        TAR_QUERY => Form::Tar,
        ZIP_QUERY => Form::Zip(Box::default()),
        _ => return None,
    };
    let request = requested.request.filter(|request| request.head.method.reads())?;
    if !site.settings.browse {
        return None;
    }
    let mut path = Vec::new();
    path::normalise(requested.path, &mut path).ok()?;
    let is_of_user = site.in_user_directory(&path).is_some();
    if is_of_user || !path.ends_with(b"/") {
        return None;
    }
    let Client { address, network: of, clearance } = client();
    let tree = Tree::of(site, &path, (requested, request, address), clearance, resources);
    // What is answered in another way is, here as well.
    tree.serves(&path).then(|| Box::new(Download { tree, path, form, of, walk: None }) as Box<dyn Program>)
}

/// Sends a folder.
#[derive(Debug)]
struct Download {
    tree: Tree,
    /// The requested path, which ends with a slash.
    path: Vec<u8>,
    form: Form,
    /// Whose it is, if that is known.
    of: Option<ClientNetwork>,
    walk: Option<Walk>,
}

/// The form of an archive.
#[derive(Debug)]
enum Form {
    Tar,
    Zip(Box<Zip>),
}

/// On the way through a tree.
#[derive(Debug)]
struct Walk {
    /// Its place in the count of archives that are under way.
    _permit: Permit,
    root: Arc<OwnedFd>,
    /// The directories on the way, the innermost last.
    levels: Vec<Level>,
    /// The file that is read: its size, and how much of it has been.
    file: Option<(OwnedFd, u64, u64)>,
    /// Buffer of file content before compression.
    coded: Vec<u8>,
}

/// A directory, and what of it has not been sent.
#[derive(Debug)]
struct Level {
    folder: walk::Level,
    /// Its name in the archive, with a slash at the end.
    shown: Vec<u8>,
}

/// The next part of the archive.
#[derive(Debug)]
pub(in crate::content) struct Bytes(pub(in crate::content) Vec<u8>);

impl ContentBuffer for Bytes {
    fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn own_bytes(&self) -> usize {
        self.0.capacity()
    }
}

/// The lines of the head of what is made while it is sent: its `own` ones, and those that are configured, but for the
/// same names.
pub(super) fn stream_fields(own: &[(&str, &[u8])], extras: &Extras<'_>) -> Vec<u8> {
    let mut fields = Vec::new();
    let mut line = |name: &str, value: &[u8]| {
        for part in [name.as_bytes(), b": ", value, b"\r\n"] {
            fields.extend_from_slice(part);
        }
    };
    own.iter().for_each(|(name, value)| line(name, value));
    if let Some(vary) = extras.vary_with(None) {
        line("Vary", vary.as_bytes());
    }
    let is_said = |name: &str| extras.fields.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
    for (name, value) in [("X-Content-Type-Options", "nosniff"), ("Cache-Control", "no-cache")] {
        if !is_said(name) {
            line(name, value.as_bytes());
        }
    }
    let is_own = |name: &str| own.iter().any(|(own, _)| own.eq_ignore_ascii_case(name));
    for (name, value) in extras.fields.iter().filter(|(name, _)| !is_own(name)) {
        line(name, value.as_bytes());
    }
    fields
}

/// It cannot be gone on with.
struct Broken;

impl From<TooMany> for Broken {
    fn from(TooMany: TooMany) -> Broken {
        Broken
    }
}

impl Program for Download {
    fn content_bytes_max(&self) -> u64 {
        0
    }

    fn begins_with(&self) -> Next {
        Next::ROOM
    }

    fn holds(&self) -> Holds {
        let walk = self.walk.as_ref().map_or(Holds::default(), Walk::holds);
        let zip = if let Form::Zip(zip) = &self.form { zip.memory_bytes() } else { 0 };
        walk.and(Holds::of_bytes(zip + self.path.capacity()))
    }

    fn run(&mut self, input: Input<'_>) -> StepResult {
        if !input.room {
            return StepResult::Waits(Next::ROOM);
        }
        let mut part = Part::default();
        if self.walk.is_none() {
            match self.begin() {
                Ok(walk) => self.walk = Some(walk),
                Err(answer) => return StepResult::Answer(answer),
            }
            part.head = Some(self.head());
        }
        let Download { tree, form, walk: Some(walk), .. } = self else { return StepResult::Failed };
        let mut content = Vec::with_capacity(PART_BYTES + PART_BYTES / 4);
        match walk.fill(tree, form, &mut content) {
            Ok(true) => {}
            Ok(false) => {
                match form {
                    Form::Tar => content.extend_from_slice(&tar::END),
                    Form::Zip(zip) => zip.end(&mut content),
                }
                part.end = Some(Vec::new());
            }
            Err(Broken) => return StepResult::Failed,
        }
        part.content = Some(Arc::new(Bytes(content)));
        StepResult::Gives(Box::new(part), Next::ROOM)
    }
}

impl Download {
    /// Opens the folder; or what is answered if it is none that is listed.
    fn begin(&self) -> Result<Walk, Arc<Resource>> {
        let tree = &self.tree;
        let (root, mut folder) = walk::begin(tree, &self.path)?;
        // One with an index file is not listed.
        if leave_index(tree, &mut folder) {
            return Err(tree.rules_of(&self.path).errors.not_found.clone());
        }
        let Ok(_permit) = UNDER_WAY.begin(self.of) else { return Err(self.busy()) };
        let shown = [self.title(), b"/"].concat();
        Ok(Walk { _permit, root, levels: vec![Level { folder, shown }], file: None, coded: Vec::new() })
    }

    /// The answer while enough archives are being sent.
    fn busy(&self) -> Arc<Resource> {
        let rules = self.tree.rules_of(&self.path);
        let cause = "Other archives are being sent. Please try again in a moment.";
        answers::error(503, cause, &rules.extras(503)).map_or_else(|_| rules.errors.overloaded.clone(), Arc::new)
    }

    /// The name of the folder.
    fn title(&self) -> &[u8] {
        let inner = self.path.strip_suffix(b"/").unwrap_or(&self.path);
        match memchr::memrchr(b'/', inner).map(|at| &inner[at + 1..]) {
            None | Some([]) => b"files",
            Some(name) => name,
        }
    }

    fn head(&self) -> StreamHead {
        let extras = self.tree.entered().extras_for_one(200);
        let (media_type, suffix): (&[u8], &[u8]) = match self.form {
            Form::Tar => (b"application/x-tar", b".tar"),
            Form::Zip(_) => (b"application/zip", b".zip"),
        };
        // RFC 6266 and RFC 8187: names of any bytes.
        let mut disposition = b"attachment; filename*=UTF-8''".to_vec();
        for byte in self.title() {
            match byte {
                byte if byte.is_ascii_alphanumeric() || b"-._~".contains(byte) => disposition.push(*byte),
                byte => disposition.extend_from_slice(format!("%{byte:02X}").as_bytes()),
            }
        }
        disposition.extend_from_slice(suffix);
        let own = [("Content-Type", media_type), ("Content-Disposition", &disposition)];
        let fields = stream_fields(&own, &extras);
        StreamHead { status: Status(200), reason: None, fields, length: None, tunnels: false }
    }
}

/// If there is an index file in it, that is all that a visitor gets to see. Whether there is.
fn leave_index(tree: &Tree, folder: &mut walk::Level) -> bool {
    let rules = tree.rules_of(&folder.path);
    let indices = rules.rules.index.as_deref().unwrap_or(&tree.site().settings.index);
    folder.narrow(|name, kind| kind == Kind::File && indices.iter().any(|index| index.as_bytes() == name))
}

impl Walk {
    fn holds(&self) -> Holds {
        let levels: usize = self.levels.iter().map(|level| level.shown.capacity() + level.folder.memory_bytes()).sum();
        Holds { bytes: levels + self.coded.capacity(), descriptors: 1 + usize::from(self.file.is_some()) }
    }

    /// Writes what comes next, until there is enough for a part. False if that was all.
    fn fill(&mut self, tree: &Tree, form: &mut Form, out: &mut Vec<u8>) -> Result<bool, Broken> {
        // What compresses well is read for long.
        for _ in 0..PIECES_MAX {
            if out.len() >= PART_BYTES {
                break;
            }
            if self.file.is_some() {
                self.read(form, out)?;
            } else if !self.next(tree, form, out)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Writes the head of the next entry, if there is one that is served. False if there is none left.
    fn next(&mut self, tree: &Tree, form: &mut Form, out: &mut Vec<u8>) -> Result<bool, Broken> {
        let Some(level) = self.levels.last_mut() else { return Ok(false) };
        let Some(Entry { own, path, name, kind }) = level.folder.next() else {
            self.levels.pop();
            return Ok(true);
        };
        if !tree.serves(&path) || tree.is_elsewhere(&level.folder.path, &path) {
            return Ok(true);
        }
        let slash = if kind == Kind::Directory { &b"/"[..] } else { b"" };
        let shown = [&level.shown, &own[..], slash].concat();
        match kind {
            Kind::File => self.open_file(tree, (&path, &name), &shown, form, out)?,
            Kind::Directory if self.levels.len() >= DEPTH_MAX => {}
            // One that cannot be read is shown and is empty, as in listings.
            Kind::Directory => {
                match form {
                    Form::Tar => tar::write_head(&shown, tar::Kind::Directory, 0, out),
                    Form::Zip(zip) => zip.begin(&shown, None, 0, out)?,
                }
                let opened = walk::Level::open(tree, &self.root, path, name);
                if let Some(mut folder) = opened.ok().flatten() {
                    leave_index(tree, &mut folder);
                    self.levels.push(Level { folder, shown });
                }
            }
        }
        Ok(true)
    }

    /// Writes the head of a file, if it is still there.
    fn open_file(
        &mut self,
        tree: &Tree,
        (path, name): (&[u8], &[u8]),
        shown: &[u8],
        form: &mut Form,
        out: &mut Vec<u8>,
    ) -> Result<(), Broken> {
        let Ok(file) = open::open_beneath(self.root.as_fd(), name, Wait::Yes, &tree.abilities) else { return Ok(()) };
        let Ok((file_state::Kind::Regular, stamp)) = file_state::inspect(file.as_fd()) else { return Ok(()) };
        let Some(_permitted) = tree.permit(path, &file) else { return Ok(()) };
        let modified_unix_seconds = stamp.modified_unix_seconds().unwrap_or(0);
        match form {
            Form::Tar => tar::write_head(shown, tar::Kind::File(stamp.size), modified_unix_seconds, out),
            Form::Zip(zip) => zip.begin(shown, Some(stamp.size), modified_unix_seconds, out)?,
        }
        self.file = Some((file, stamp.size, 0));
        Ok(())
    }

    /// Reads on in the file.
    fn read(&mut self, form: &mut Form, out: &mut Vec<u8>) -> Result<(), Broken> {
        let Walk { file: Some((file, size, at)), coded, .. } = self else { return Ok(()) };
        let wanted = (*size - *at).min(PART_BYTES as u64) as usize;
        if wanted > 0 {
            let before = out.len();
            let bytes = match form {
                Form::Tar => {
                    out.resize(before + wanted, 0);
                    let bytes = retry_on_intr(|| pread(&*file, &mut out[before..], *at)).map_err(|_| Broken)?;
                    out.truncate(before + bytes);
                    bytes
                }
                Form::Zip(zip) => {
                    coded.resize(PART_BYTES, 0);
                    let bytes = retry_on_intr(|| pread(&*file, &mut coded[..wanted], *at)).map_err(|_| Broken)?;
                    zip.write(&coded[..bytes], out);
                    bytes
                }
            };
            if bytes == 0 {
                return Err(Broken);
            }
            *at += bytes as u64;
        }
        if *at == *size {
            match form {
                Form::Tar => out.extend(std::iter::repeat_n(0, tar::padding(*size))),
                Form::Zip(zip) => zip.end_file(out)?,
            }
            self.file = None;
        }
        Ok(())
    }
}
