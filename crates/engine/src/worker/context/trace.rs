//! The account of the request that an operator traces (`lamna ctl trace`).
//!
//! Owns: which request that is, and its lines; [`Traced`] adds the last one of what has to be made. Guarantees: the
//! steps are those that the request takes, by the same table; where no trace is open a request costs one load. Decides
//! nothing.

use lamna_proto::parse::path;
use lamna_proto::resource::Resource;
use lamna_site::cache::Entry;
use lamna_sys::metrics::trace::Trace;
use lamna_sys::shared_memory::SharedMemory;

use super::asked::Asked;
use super::steps::Outcome;
use super::{Found, WorkerContext, needs_program};

/// The words by which a trace is found: the host in lower case, empty for any, and the normalised path.
pub fn target_of(host: &[u8], normal: &[u8]) -> Vec<u8> {
    [&host.to_ascii_lowercase(), &b"\0"[..], normal].concat()
}

impl WorkerContext<'_> {
    /// Whether the step that is taken for `asked` has to be accounted for. The first step of a request `begins` a trace
    /// that waits for it.
    pub(super) fn traces(&self, asked: &Asked<'_>, begins: bool) -> bool {
        self.shared.trace.is_open(self.now) && self.is_traced(asked, begins)
    }

    #[cold]
    fn is_traced(&self, asked: &Asked<'_>, begins: bool) -> bool {
        let trace = &self.shared.trace;
        let requested = asked.requested;
        let mut normal = Vec::new();
        // What cannot be normalised leaves nothing, as in the keys of caches.
        let _ = path::normalise_for_rules(requested.path, &mut normal);
        let target = trace.target();
        let is_meant =
            target == target_of(requested.host.unwrap_or_default(), &normal) || target == target_of(b"", &normal);
        is_meant && trace.claim(self.connection, begins && !requested.is_again, self.now)
    }

    /// The line about the request itself.
    #[cold]
    pub(super) fn trace_request(&self, asked: &Asked<'_>) {
        let method =
            asked.requested.request.map(|request| String::from_utf8_lossy(request.method_token()).into_owned());
        let client = asked.client().map_or_else(|| "a local socket".to_owned(), |client| client.to_string());
        let transport = if asked.over.is_secure() { "TLS" } else { "clear text" };
        let target = String::from_utf8_lossy(asked.requested.path_and_query).into_owned();
        let again = if asked.requested.is_again { ", once more" } else { "" };
        let method = method.as_deref().unwrap_or("a request");
        self.shared
            .trace
            .add(&format!("request: {method} {} from {client} over {transport}{again}", target.escape_debug()));
        self.shared.trace.add(&format!("site: {}", asked.site.label()));
    }

    /// The line about a step, whose program, if it has one, `does` this.
    #[cold]
    pub(super) fn trace_step(&self, step: &str, outcome: &Outcome, does: Does) {
        let words = match outcome {
            Outcome::Next => "passes".to_owned(),
            Outcome::LookUp => "leaves it to what the target stands for".to_owned(),
            Outcome::Answer(resource) => format!("answers {}", status(resource)),
            Outcome::Stored(_) => "answers with a kept answer".to_owned(),
            Outcome::Run(program) => match (program.asks(), does) {
                (Some(asked), _) => format!("goes on with {asked}"),
                (None, Does::Verify) => "verifies the client first".to_owned(),
                (None, Does::Make) => "makes the answer".to_owned(),
            },
            Outcome::Refuse(refusal) => {
                format!("refuses with {}: {}", refusal.status().0, refusal.cause())
            }
        };
        self.shared.trace.add(&format!("{step}: {words}"));
    }

    /// Accounts for what was found out about the target of `asked`.
    pub fn trace_looked_up(&self, asked: &Asked<'_>, entry: &Entry) {
        if self.traces(asked, false) {
            self::entry(&self.shared.trace, asked, entry, "looked up");
        }
    }

    /// The request of `asked`, if it is traced.
    pub(super) fn traced(&self, asked: &Asked<'_>) -> Option<Traced> {
        self.traces(asked, false).then(|| Traced { trace: self.shared.trace.clone(), connection: self.connection })
    }

    /// The line about a method that reads nothing, where there is no script. It is the last one.
    pub(super) fn trace_method(&self, asked: &Asked<'_>, outcome: &Outcome) {
        if self.traces(asked, false) {
            self.trace_step("method", outcome, Does::Make);
            self.shared.trace.end();
        }
    }

    /// The line about an application that was come to by files: `step` is what was found. The account is over unless
    /// the client has to show first that it is let in.
    pub(super) fn trace_found(&self, asked: &Asked<'_>, step: &str, outcome: &Outcome, is_over: bool) {
        if !self.traces(asked, false) {
            return;
        }
        self.trace_step(step, outcome, if is_over { Does::Make } else { Does::Verify });
        if is_over {
            self.shared.trace.end();
        }
    }
}

/// The work of a program that a step runs in this process.
#[derive(Clone, Copy, Debug)]
pub(super) enum Does {
    /// It finds out whether the client is let in.
    Verify,
    /// It makes the answer.
    Make,
}

/// The request that is traced, for what makes its answer.
#[derive(Clone, Debug)]
pub struct Traced {
    trace: SharedMemory<Trace>,
    connection: u64,
}

impl Traced {
    /// Ends the trace with what was made: `resource` is the answer.
    pub fn made(&self, resource: &Resource) {
        if self.goes_on() {
            self.trace.add(&format!("made: answers {}", status(resource)));
            self.trace.end();
        }
    }

    /// There is nothing to make any more: the request takes its steps again.
    pub fn not_made(&self) {
        if self.goes_on() {
            self.trace.add("made: nothing any more, the steps are taken again");
        }
    }

    fn goes_on(&self) -> bool {
        self.trace.is_claimed_by(self.connection)
    }
}

/// The line about what the cache has. It is the last one, unless the target has to be found out, or is a script.
#[cold]
pub(super) fn found(trace: &Trace, asked: &Asked<'_>, found: &Found<'_>) {
    match found {
        Found::Fresh(fresh) => entry(trace, asked, fresh, "from the cache"),
        Found::Aging(aging, _) => entry(trace, asked, aging, "from the cache, to be compared with the file system"),
        Found::Missing(_) => trace.add("target: not in the cache, it is looked up"),
    }
}

/// The line about what the target stands for.
#[cold]
fn entry(trace: &Trace, asked: &Asked<'_>, entry: &Entry, from: &str) {
    match entry.script() {
        Some(script) => {
            let file = script.root.join(String::from_utf8_lossy(&script.name).trim_start_matches('/'));
            trace.add(&format!("target: the script {}, {from}", file.display().to_string().escape_debug()));
        }
        None if entry.application().is_some() => {
            trace.add(&format!("target: no file, the application answers, {from}"))
        }
        None if entry.is_unmade() => trace.add(&format!("target: has to be made first, {from}")),
        None if needs_program(entry, asked.requested) => {
            trace.add(&format!("target: answers {} to methods that read, {from}", status(&entry.resource)));
        }
        None => {
            trace.add(&format!("target: answers {}, {from}", status(&entry.resource)));
            trace.end();
        }
    }
}

fn status(resource: &Resource) -> String {
    format!("{} {}", resource.status.0, resource.status.reason_phrase())
}
