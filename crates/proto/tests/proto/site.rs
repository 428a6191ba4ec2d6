//! A site for the tests: resources of every kind that the core distinguishes, and the pages of the core itself.
//!
//! Owns: the resources, fixed and the same in every run. Does not imitate a file system: a path is looked up as it is.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock};

use lamna_proto::error::Refusal;
use lamna_proto::exchange::RequestedResource;
use lamna_proto::exchange::early_hints::LinkField;
use lamna_proto::exchange::negotiate::Coding;
use lamna_proto::exchange::program::{Holds, Input, Next, Program, StepResult};
use lamna_proto::limits::Limits;
use lamna_proto::message::{Method, Status};
use lamna_proto::resource::{Description, Representation, Resource, Variants};
use lamna_proto::workspace::{Pages, Workspace};

use crate::script::Script;

/// Sun, 06 Nov 1994 08:49:37 GMT: when everything was last modified.
pub(crate) const MODIFIED: u64 = 784_111_777;
/// Sun, 06 Nov 1994 08:50:37 GMT: when all answers are given.
pub(crate) const NOW: u64 = MODIFIED + 60;
/// The content of `/small`.
pub(crate) const SMALL: &[u8] = b"Hello, world\n";
/// Bytes of `/large`, which is in memory and larger than [`COPY_BYTES_MAX`].
pub(crate) const LARGE_BYTES: usize = 20_000;
/// Bytes of `/file`, which is in a file.
pub(crate) const FILE_BYTES: usize = 10_000;
/// The largest message that is copied to the output.
pub(crate) const COPY_BYTES_MAX: usize = 4_096;

/// See [`Site::next`].
pub(crate) const NEXT: &str = "</next.html>; rel=prefetch";

/// See [`Site::links`].
pub(crate) const LINKS: [&str; 2] =
    ["</a.css>; rel=preload; as=style", "</a.woff2>; rel=preload; as=font; crossorigin"];

/// What the paths stand for, and what the core answers by itself.
pub(crate) struct Site {
    resources: Vec<(&'static str, Arc<Resource>)>,
    not_found: Arc<Resource>,
    pages: Arc<Pages>,
    limits: Arc<Limits>,
    /// What is hinted to whose query begins with `links`.
    pub(crate) links: Vec<LinkField>,
    /// Goes with the answer to whose query begins with `later`.
    pub(crate) next: Arc<LinkField>,
}

impl Site {
    /// The site, made once for each process.
    pub(crate) fn shared() -> &'static Site {
        static SITE: OnceLock<Site> = OnceLock::new();
        SITE.get_or_init(Site::new)
    }

    fn new() -> Site {
        let page = |refusal: &Refusal| {
            let allow = [("Allow".to_string(), "GET, HEAD, OPTIONS".to_string())];
            let fields = if refusal.status() == Status(405) { &allow[..] } else { &[] };
            let plain = Description { status: refusal.status(), fields, ..plain() };
            let html = Description { media_type: Some("text/html"), ..plain.clone() };
            let variants = [html, plain].map(|one| Arc::new(with_content(&one, refusal.cause().as_bytes())));
            let variants = Variants::Typed(Box::new(variants));
            Arc::new(Resource { status: refusal.status(), variants, query_follows: false })
        };
        let allow = [("Allow".to_string(), "GET, HEAD, OPTIONS".to_string())];
        let options = Description { status: Status(204), media_type: None, fields: &allow, ..plain() };
        let pages = Pages {
            refusals: Refusal::ALL.iter().map(page).collect(),
            options: Arc::new(Resource::one(Status(204), with_content(&options, b""))),
        };
        let missing = Description { status: Status(404), ..plain() };
        let not_found = Resource::one(Status(404), with_content(&missing, b"No such page.\n"));
        Site {
            resources: resources(),
            not_found: Arc::new(not_found),
            pages: Arc::new(pages),
            limits: Arc::new(limits()),
            links: LINKS.iter().filter_map(|link| LinkField::new(link)).collect(),
            next: Arc::new(LinkField::new(NEXT).expect("it is the value of a field")),
        }
    }

    /// What a request is answered with.
    pub(crate) fn route(&self, requested: &RequestedResource<'_>) -> Route<'_> {
        let reads = requested.request.is_none_or(|request| request.head.method.reads());
        match requested.path {
            b"/stream" => Route::Program(Box::new(self.script(requested))),
            b"/found" if requested.found.is_some_and(|found| found.is::<Vouched>()) => {
                Route::Program(Box::new(Echo::new(b"/echo")))
            }
            b"/found" => Route::Program(Box::new(Finds)),
            b"/echo" | b"/early" | b"/fails" if !reads => Route::Program(Box::new(Echo::new(requested.path))),
            _ if !reads => Route::Refused(Refusal::MethodNotAllowed),
            _ => Route::Resource(self.requested(requested)),
        }
    }

    fn script(&self, requested: &RequestedResource<'_>) -> Script {
        let is_connect = requested.request.is_some_and(|request| request.head.method == Method::Connect);
        Script::new(requested.query.unwrap_or_default(), is_connect, &self.not_found)
    }

    /// What a target stands for.
    pub(crate) fn requested(&self, requested: &RequestedResource<'_>) -> &Arc<Resource> {
        let found = self.resources.iter().find(|(path, _)| path.as_bytes() == requested.path);
        found.map_or(&self.not_found, |(_, resource)| resource)
    }

    /// A workspace for connections to this site.
    pub(crate) fn workspace(&self) -> Box<Workspace> {
        Workspace::new(self.limits.clone(), self.pages.clone(), COPY_BYTES_MAX, NOW)
    }

    /// What the core answers by itself.
    pub(crate) fn pages(&self) -> &Pages {
        &self.pages
    }

    /// The bounds that hold here: smaller than by default, so that tests reach them.
    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }
}

/// Finds out something about its request, and leaves it to others.
#[derive(Debug)]
struct Finds;

/// What it finds out.
struct Vouched;

impl Program for Finds {
    fn content_bytes_max(&self) -> u64 {
        u64::MAX
    }

    fn begins_with(&self) -> Next {
        Next::ROOM
    }

    fn holds(&self) -> Holds {
        Holds::default()
    }

    fn run(&mut self, _: Input<'_>) -> StepResult {
        StepResult::Found(Arc::new(Vouched))
    }
}

/// What a request is answered with.
pub(crate) enum Route<'a> {
    Resource(&'a Arc<Resource>),
    Refused(Refusal),
    Program(Box<dyn Program>),
}

/// Answers with the content of the request, after that of `/echo` has ended, and of `/early` when it has begun;
/// `/fails` does not.
#[derive(Debug)]
pub(crate) struct Echo {
    path: Vec<u8>,
    content: Vec<u8>,
    ended: bool,
}

/// Content that an echo takes.
pub(crate) const ECHO_BYTES_MAX: u64 = 8_000;

impl Echo {
    fn new(path: &[u8]) -> Echo {
        Echo { path: path.to_vec(), content: Vec::new(), ended: false }
    }
}

impl Program for Echo {
    fn content_bytes_max(&self) -> u64 {
        ECHO_BYTES_MAX
    }

    fn holds(&self) -> Holds {
        Holds::of_bytes(self.content.capacity())
    }

    fn run(&mut self, Input { content, is_last, .. }: Input<'_>) -> StepResult {
        assert!(!content.is_empty() || is_last, "each step has something new");
        assert!(!self.ended, "nothing comes behind the end");
        self.ended = is_last;
        self.content.extend_from_slice(content);
        match &self.path[..] {
            b"/early" => {
                let conflict = Description { status: Status(409), ..plain() };
                StepResult::Answer(Arc::new(Resource::one(Status(409), with_content(&conflict, b"No."))))
            }
            b"/fails" => StepResult::Failed,
            _ if is_last => {
                StepResult::Answer(Arc::new(Resource::one(Status(200), with_content(&plain(), &self.content))))
            }
            _ => StepResult::Continue,
        }
    }
}

fn limits() -> Limits {
    Limits {
        head_bytes_max: 2_048,
        target_bytes_max: 512,
        fields_max: 20,
        body_bytes_max: 5_000,
        chunk_overhead_bytes_max: 200,
        ranges_max: 4,
        exchanges_max: 4,
        held_bytes_max: LARGE_BYTES as u64,
        ..Limits::default()
    }
}

/// Content in which every position can be recognised.
pub(crate) fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|index| b'a' + (index % 23) as u8 + ((index / 256) % 3) as u8).collect()
}

fn with_content(description: &Description<'_>, content: &[u8]) -> Representation {
    Representation::with_content(description, content).expect("these fields are short")
}

fn new(description: &Description<'_>, file: Option<Arc<OwnedFd>>) -> Representation {
    Representation::new(description, file).expect("these fields are short")
}

fn plain() -> Description<'static> {
    Description { media_type: Some("text/plain"), ..Description::of(Status(200)) }
}

fn validated(etag: &'static str) -> Description<'static> {
    Description { modified: Some(MODIFIED), etag: Some(etag), ranges: true, ..plain() }
}

fn resources() -> Vec<(&'static str, Arc<Resource>)> {
    let ok = |representation| Resource::one(Status(200), representation);
    let file = Description { size: FILE_BYTES as u64, ..validated("\"file\"") };
    let lazy = Description { size: 5_000, ..validated("\"lazy\"") };
    let moved = Description { status: Status(308), location: Some("/there/"), ..plain() };
    let redirect = Resource::one(Status(308), with_content(&moved, b"Moved.\n"));
    let resources = [
        ("/small", ok(with_content(&validated("\"small\""), SMALL))),
        ("/large", ok(with_content(&validated("\"large\""), &pattern(LARGE_BYTES)))),
        ("/empty", ok(with_content(&validated("\"empty\""), b""))),
        ("/weak", ok(with_content(&validated("W/\"weak\""), SMALL))),
        ("/file", ok(new(&file, Some(Arc::new(temporary_file(&pattern(FILE_BYTES))))))),
        // Nowhere yet: whoever carries out the Read fills it in.
        ("/lazy", ok(new(&lazy, None))),
        ("/coded", coded()),
        ("/typed", typed()),
        ("/redirect", Resource { query_follows: true, ..redirect }),
    ];
    resources.into_iter().map(|(path, resource)| (path, Arc::new(resource))).collect()
}

fn coded() -> Resource {
    let codings = [(Coding::Identity, "\"i\""), (Coding::Gzip, "\"g\""), (Coding::Brotli, "\"b\"")];
    let variants = codings.map(|(coding, etag)| {
        let description = Description { coding, vary: Some("Accept-Encoding"), ..validated(etag) };
        Arc::new(with_content(&description, coding.name().as_bytes()))
    });
    Resource { status: Status(200), variants: Variants::Coded(Box::new(variants)), query_follows: false }
}

fn typed() -> Resource {
    let variants = ["text/html; charset=utf-8", "application/json"].map(|media_type| {
        let description = Description { media_type: Some(media_type), vary: Some("Accept"), ..plain() };
        Arc::new(with_content(&description, media_type.as_bytes()))
    });
    Resource { status: Status(200), variants: Variants::Typed(Box::new(variants)), query_follows: false }
}

fn temporary_file(content: &[u8]) -> OwnedFd {
    let mut file: File = tempfile::tempfile().expect("tests may write temporary files");
    file.write_all(content).expect("tests may write temporary files");
    file.into()
}
