//! Answers that pass through the filters of their route (`lamna_filter`) on their way to the client.
//!
//! ```text
//! application ── part ──> head: which filters take it? ── none ──> the part as it is
//!                           └─ some ──> the head is changed, content passes through ──> a part of about 64 KiB
//! ```
//!
//! Owns: [`Filtered`], what becomes of the parts of one answer, and what its head says then. Guarantees: no more is
//! made at once than a part; what is left is made when the client has room, and nothing is received from the
//! application before, so that a slow client slows it down; an answer that breaks off, and one that cannot be filtered,
//! is never given as whole. Filters run where the bytes are moved.

use std::sync::Arc;

use lamna_filter::{Bounds, Content, Fault, Run, Then};
use lamna_io::log::errors::Level;
use lamna_policy::upstream::Outcome;
use lamna_proto::exchange::ContentBuffer;
use lamna_proto::exchange::negotiate::Coding;
use lamna_proto::exchange::program::{Input, Next, Part, StepResult, StreamHead};
use lamna_proto::gateway::GatewayError;
use lamna_proto::gateway::fields::{Fields, LineEnds};
use lamna_proto::message::{Method, Request};

use super::{Gateway, State};
use crate::content::answers;
use crate::content::route::Effective;
use crate::gateway::{piece, report};
use crate::service::Unavailable;

/// The answer to one request, as far as it has been filtered.
#[derive(Debug)]
pub(super) struct Filtered {
    rules: Arc<Effective>,
    is_head: bool,
    /// The content codings that the client accepts.
    accepts: Box<[u8]>,
    /// None before the head, and if no filter has to do with the answer.
    run: Option<Box<Run>>,
    /// Nothing is held back whenever the application pauses.
    flushes: bool,
    /// Given with the first content: until then it can still become another one.
    head: Option<StreamHead>,
    /// The unfiltered content, and its offset.
    content: Option<(Arc<dyn ContentBuffer>, usize)>,
    then: Then,
    /// The end of the answer, with its trailers.
    end: Option<Vec<u8>>,
    /// More can be given.
    has_more: bool,
    /// Filters would have to do with it if it were under no content coding: to be reported.
    is_unreadable: bool,
}

/// Content of a part, about.
const PART_BYTES: usize = 64 << 10;
/// The most that one filter of one answer may hold.
const BOUNDS: Bounds = Bounds { given: u64::MAX, held: 1 << 20 };

impl Filtered {
    /// For the answer to `request`; none if there are no filters.
    pub(super) fn new(rules: &Arc<Effective>, request: Request<'_>) -> Option<Box<Filtered>> {
        if rules.filters.is_empty() || request.head.method == Method::Connect {
            return None;
        }
        let accepted: Vec<&[u8]> = Fields::of(request).values("accept-encoding").collect();
        Some(Box::new(Filtered {
            rules: rules.clone(),
            is_head: request.head.method == Method::Head,
            accepts: accepted.join(&b","[..]).into(),
            run: None,
            flushes: false,
            head: None,
            content: None,
            then: Then::More,
            end: None,
            has_more: false,
            is_unreadable: false,
        }))
    }

    /// Bytes of memory that it holds, about: what filters keep is bounded, and not told.
    pub(super) fn memory_bytes(&self) -> usize {
        const RUN_BYTES: usize = 128 << 10;
        let content = self.content.as_ref().map_or(0, |(content, _)| content.own_bytes());
        content + self.accepts.len() + if self.run.is_some() { RUN_BYTES } else { 0 }
    }

    /// Whether it has something to give before the application is heard again.
    pub(super) fn has_more(&self) -> bool {
        self.has_more
    }

    /// Takes a part, and whether more is at hand behind it.
    fn take(&mut self, part: &mut Part, is_more_at_hand: bool) -> Result<(), Fault> {
        if let Some(head) = &mut part.head {
            self.begin(head);
        }
        if self.run.is_none() {
            return Ok(());
        }
        if self.run.as_ref().is_some_and(|run| run.needs_whole()) && part.head.is_some() {
            self.head = part.head.take();
        }
        self.content = part.content.take().map(|content| (content, 0));
        self.end = part.end.take();
        self.then = match () {
            () if self.end.is_some() => Then::End,
            () if self.flushes && !is_more_at_hand && self.content.is_some() => Then::Pause,
            () => Then::More,
        };
        self.go_on(part)
    }

    /// Filters what there is to be filtered, up to a part.
    fn go_on(&mut self, part: &mut Part) -> Result<(), Fault> {
        let Some(run) = &mut self.run else { return Ok(()) };
        let mut out = Vec::new();
        let (mut unread, whole) = match &self.content {
            Some((content, at)) => (&content.bytes()[*at..], content.bytes().len()),
            None => (&[][..], 0),
        };
        let is_done = run.go_on(&mut unread, self.then, &mut out, PART_BYTES)?;
        let at = whole - unread.len();
        self.has_more = !is_done;
        if let (Some((_, read)), false) = (&mut self.content, is_done) {
            *read = at;
        } else {
            self.content = None;
        }
        let bytes = out.len();
        part.content = piece::take(&mut out, std::slice::from_ref(&(0..bytes)));
        if is_done {
            part.end = self.end.take().map(without_digests);
        }
        if part.content.is_some() || part.end.is_some() {
            part.head = self.head.take().or(part.head.take());
        }
        Ok(())
    }

    /// Finds out which filters take an answer, and changes its head for them.
    fn begin(&mut self, head: &mut StreamHead) {
        let chain = &self.rules.filters;
        let fields = Fields::check(&head.fields, LineEnds::CrLf).unwrap_or_default();
        // The filtered form of a single range is unknown.
        if head.tunnels || head.status.0 == 206 || fields.has_member("cache-control", "no-transform") {
            return;
        }
        let mut content = self.content_of(head, fields);
        if head.status.0 == 304 && content.media_type.is_empty() {
            // It is about an answer that may have been filtered.
            content.varies = chain.varies();
            head.fields = fields_of(fields, &content, &content, true);
            return;
        }
        let before = content.clone();
        let run = chain.start(&mut content, BOUNDS);
        self.is_unreadable = run.is_none() && !before.is_plain() && chain.reads().is_some() && {
            let mut plain = Content { coding: Some(Coding::Identity), accepts: Box::default(), ..before.clone() };
            chain.start(&mut plain, BOUNDS).is_some()
        };
        if run.is_none() && !content.varies {
            return;
        }
        head.fields = fields_of(fields, &before, &content, run.is_some());
        if run.is_some() {
            let is_events = content.is_of(&["text/event-stream"]);
            self.flushes = head.length.is_none() || is_events;
            head.length = None;
        }
        let has_content = !self.is_head && !matches!(head.status.0, 204 | 205 | 304);
        self.run = run.filter(|_| has_content).map(Box::new);
    }

    fn content_of(&self, head: &StreamHead, fields: Fields<'_>) -> Content {
        let media_type = fields.values("content-type").next().unwrap_or_default();
        let mut coding = Some(Coding::Identity);
        let members = fields.values("content-encoding").flat_map(|value| value.split(|byte| *byte == b','));
        for member in members.map(<[u8]>::trim_ascii).filter(|member| !member.is_empty()) {
            coding = match (coding, Coding::from_name(member)) {
                (coding, Some(Coding::Identity)) => coding,
                (Some(Coding::Identity), one) => one,
                _ => None,
            };
        }
        let media_type = String::from_utf8_lossy(media_type);
        Content { coding, bytes: head.length, accepts: self.accepts.clone(), ..Content::new(&media_type) }
    }
}

/// The fields of an answer as filters leave it.
fn fields_of(fields: Fields<'_>, before: &Content, after: &Content, is_changed: bool) -> Vec<u8> {
    let mut lines = Vec::new();
    let mut push = |name: &[u8], value: &[u8]| {
        [name, b": ", value, b"\r\n"].iter().for_each(|part| lines.extend_from_slice(part));
    };
    let mut is_typed = false;
    let is_recoded = before.coding != after.coding;
    let is_said = fields.has_member("vary", "accept-encoding") || fields.has_member("vary", "*");
    let mut varies = after.varies && !is_said;
    for (name, value) in fields.iter() {
        let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
        match () {
            () if is("vary") && varies => {
                push(name, &[value, b", Accept-Encoding"].concat());
                varies = false;
            }
            () if !is_changed => push(name, value),
            () if is("accept-ranges") || is_digest(name) || is("content-encoding") && is_recoded => {}
            () if is("etag") && !value.starts_with(b"W/") => push(name, &[b"W/", value].concat()),
            () if is("content-type") && after.media_type != before.media_type => {
                if !is_typed {
                    push(name, after.media_type.as_bytes());
                }
                is_typed = true;
            }
            () => push(name, value),
        }
    }
    if let Some(coding) = after.coding.filter(|coding| is_changed && is_recoded && *coding != Coding::Identity) {
        push(b"Content-Encoding", coding.name().as_bytes());
    }
    if varies {
        push(b"Vary", b"Accept-Encoding");
    }
    lines
}

/// Whether a field is a digest of the content.
fn is_digest(name: &[u8]) -> bool {
    const DIGESTS: [&str; 4] = ["content-digest", "repr-digest", "digest", "content-md5"];
    DIGESTS.iter().any(|one| name.eq_ignore_ascii_case(one.as_bytes()))
}

/// Trailers but for those that are about the content as it was.
fn without_digests(trailers: Vec<u8>) -> Vec<u8> {
    let fields = Fields::check(&trailers, LineEnds::CrLf).unwrap_or_default();
    let is_of_content = |name: &[u8]| is_digest(name) || name.eq_ignore_ascii_case(b"etag");
    let mut kept = Vec::new();
    for (name, value) in fields.iter().filter(|(name, _)| !is_of_content(name)) {
        [name, b": ", value, b"\r\n"].iter().for_each(|part| kept.extend_from_slice(part));
    }
    kept
}

impl Gateway {
    /// A step whose part is as it has come.
    pub(super) fn run_plain(&mut self, input: Input<'_>) -> StepResult {
        if let Some(step_result) = self.keep(&input).or_else(|| self.lacks_length(&input)) {
            return step_result;
        }
        let mut taken = self.take_content(&input);
        loop {
            match taken.and_then(|()| self.step(&input)) {
                Ok(step_result) => return step_result,
                Err(problem) if self.recovers(&problem) => taken = Ok(()),
                Err(problem) => return self.give_up(problem.error),
            }
        }
    }

    /// A step whose part passes through filters.
    pub(super) fn run_filtered(&mut self, filtered: &mut Filtered, input: Input<'_>) -> StepResult {
        let (mut part, next) = match filtered.has_more {
            // The application is sent what there is for it, and is not heard.
            true => {
                let next = match self.state {
                    State::Over => Next::ROOM,
                    _ => match self.run_plain(Input { room: false, ..input }) {
                        StepResult::Waits(next) => next,
                        step_result => return step_result,
                    },
                };
                if !input.room {
                    return StepResult::Waits(next);
                }
                (Box::default(), next)
            }
            false => match self.run_plain(input) {
                StepResult::Gives(part, next) => (part, next),
                StepResult::Failed if filtered.head.take().is_some() => return self.page_of(GatewayError::BrokenOff),
                step_result => return step_result,
            },
        };
        // What TLS has decrypted is at hand as well.
        let is_more_at_hand = next.room && !next.readable || next.until == Some(self.now);
        let made = match filtered.has_more {
            true => filtered.go_on(&mut part),
            false => filtered.take(&mut part, is_more_at_hand),
        };
        if std::mem::take(&mut filtered.is_unreadable) {
            let why = "the answer has a content coding and is not filtered: `decompress` would have it filtered";
            report::filtering((&self.site, &self.called), Level::Warning, why);
        }
        if let Err(fault) = made {
            let is_head_left = filtered.head.take().or(part.head).is_some();
            return self.give_up_filtering(filtered, &fault, is_head_left);
        }
        // Of what the filters still have, no more is made before there is room; the application is not heard before.
        let next = if filtered.has_more { Next { room: true, readable: false, ..next } } else { next };
        let is_empty = part.interim.is_empty() && part.head.is_none() && part.content.is_none() && part.end.is_none();
        if is_empty { StepResult::Waits(next) } else { StepResult::Gives(part, next) }
    }

    /// The client's answer while a service of the filters cannot be used.
    pub(super) fn page_of_service(&self) -> StepResult {
        if let Some(Unavailable(why)) = &self.rules.unavailable {
            report::filtering((&self.site, &self.called), Level::Error, &format!("answered with 503: {why}"));
        }
        match answers::error(503, answers::NOT_AVAILABLE, &self.rules.extras(503)) {
            Ok(page) => StepResult::Answer(Arc::new(page)),
            Err(_) => StepResult::Failed,
        }
    }

    /// The answer cannot be filtered: no client gets it as whole.
    fn give_up_filtering(&mut self, filtered: &mut Filtered, fault: &Fault, is_head_left: bool) -> StepResult {
        let why = format!("the answer cannot be filtered: {fault}");
        report::filtering((&self.site, &self.called), Level::Error, &why);
        self.state = State::Over;
        if let Some(attempt) = self.attempt.take() {
            self.group.end(attempt, self.now, Outcome::Unknown);
        }
        filtered.has_more = false;
        if matches!(fault, Fault::Failed(_)) && is_head_left {
            return self.page_of_service();
        }
        if is_head_left { self.page_of(GatewayError::BrokenOff) } else { StepResult::Failed }
    }
}
