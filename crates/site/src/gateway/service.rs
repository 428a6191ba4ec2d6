//! Asks a service whether a request is let in, before anything else is done about it.
//!
//! ```text
//!  judge: Ask ──> AuthRequest: GET to the service ── 2xx ──> Found(AuthAssertions): the request is resolved again
//!                                                 ├── 3xx, 401, 403, 429 ──> the client gets this answer
//!                                                 └── another status, or none ──> 502, 503 or 504
//! ```
//!
//! Owns: [`AuthRequest`], a [`Gateway`] with what becomes of its answer, and [`AuthAssertions`], what is known of a
//! request that is let in. Guarantees: nothing of the request's content is read or sent; only a clear yes lets a
//! request in; of the content of a yes no more is received than a bounded number of bytes. What the service is told is
//! written by `request.rs`.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use lamna_config::access::ServiceSettings;
use lamna_proto::exchange::program::{Holds, Input, Next, Part, Program, StepResult, StreamHead};
use lamna_proto::gateway::fields::{Fields, LineEnds};

use super::exchange::Gateway;
use super::report;
use crate::content::access::AuthAssertions;
use crate::content::answers;
use crate::content::route::Effective;

/// See the module.
#[derive(Debug)]
pub struct AuthRequest {
    gateway: Box<Gateway>,
    service: Arc<ServiceSettings>,
    /// The assertions of other auth services about the request.
    before: Option<Arc<AuthAssertions>>,
    rules: Arc<Effective>,
    /// Site and request, as the error log calls them.
    called: (String, Box<str>),
    progress: Progress,
}

/// How far the answer is.
#[derive(Debug)]
enum Progress {
    /// Its head has not come.
    Head,
    /// It is a yes: what it says, and how much content has come with it.
    Yes(Arc<AuthAssertions>, u64),
    /// It is a no, which the client gets.
    No,
}

/// Bytes of content of a yes that are received, so that the connection can be used again.
const CONTENT_BYTES_MAX: u64 = 64 * 1024;

impl AuthRequest {
    pub(super) fn new(
        gateway: Box<Gateway>,
        service: &Arc<ServiceSettings>,
        before: Option<Arc<AuthAssertions>>,
        rules: &Arc<Effective>,
        called: (String, Box<str>),
    ) -> AuthRequest {
        let (service, rules) = (service.clone(), rules.clone());
        AuthRequest { gateway, service, before, rules, called, progress: Progress::Head }
    }

    /// Takes a part of the answer.
    fn handle_part(&mut self, mut part: Box<Part>, next: Next) -> StepResult {
        // What it says before its answer is not about what the client has asked for.
        part.interim.clear();
        if let Some(head) = &mut part.head {
            match head.status.0 {
                200..300 => self.progress = Progress::Yes(self.assertions(head), 0),
                300..=303 | 305..=399 | 401 | 403 | 429 => {
                    self.dress(head);
                    self.progress = Progress::No;
                }
                status => {
                    report::service((&self.called.0, &self.called.1), &self.service.path, status);
                    return self.fail(502);
                }
            }
        }
        match &mut self.progress {
            Progress::Head => StepResult::Waits(next),
            Progress::Yes(assertions, content_bytes) => {
                *content_bytes += part.content.map_or(0, |content| content.bytes().len() as u64);
                if part.end.is_some() || *content_bytes > CONTENT_BYTES_MAX {
                    return StepResult::Found(assertions.clone());
                }
                StepResult::Waits(next)
            }
            Progress::No if part.head.is_none() && part.content.is_none() && part.end.is_none() => {
                StepResult::Waits(next)
            }
            Progress::No => StepResult::Gives(part, next),
        }
    }

    /// The assertions of a yes.
    fn assertions(&self, head: &StreamHead) -> Arc<AuthAssertions> {
        let fields = Fields::check(&head.fields, LineEnds::CrLf).unwrap_or_default();
        let mut assertions = self.before.as_deref().cloned().unwrap_or_default();
        for name in &self.service.fields {
            for value in fields.values(name) {
                [name.as_bytes(), b": ", value, b"\r\n"]
                    .iter()
                    .for_each(|part| assertions.lines.extend_from_slice(part));
            }
        }
        let user = self.service.user.as_deref().and_then(|name| fields.values(name).find(|value| !value.is_empty()));
        if let Some(user) = user {
            assertions.user = Some(String::from_utf8_lossy(user).into());
        }
        assertions.services.push(self.service.clone());
        Arc::new(assertions)
    }

    /// Does to the head of a no what the routes say. For how long it is kept says the service, if it says anything.
    fn dress(&self, head: &mut StreamHead) {
        if !self.rules.changes_answers() {
            return;
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let given = Fields::check(&head.fields, LineEnds::CrLf).unwrap_or_default();
        let mut fields: Vec<_> = given.iter().map(|(name, value)| (text(name), text(value))).collect();
        let is_kept = |name: &str| name.eq_ignore_ascii_case("cache-control");
        let kept: Vec<_> = fields.iter().filter(|(name, _)| is_kept(name)).cloned().collect();
        self.rules.change(head.status.0, &mut fields);
        if !kept.is_empty() {
            fields.retain(|(name, _)| !is_kept(name));
            fields.extend(kept);
        }
        let mut lines = Vec::with_capacity(head.fields.len());
        for (name, value) in &fields {
            [name, ": ", value, "\r\n"].iter().for_each(|part| lines.extend_from_slice(part.as_bytes()));
        }
        head.fields = lines;
    }

    /// The client's answer if the service gives no clear one.
    fn fail(&self, status: u16) -> StepResult {
        let cause = match status {
            503 => "The service that decides about access here is not available at the moment.",
            504 => "The service that decides about access here did not answer in time.",
            _ => "The service that decides about access here cannot be reached, or did not answer as it should.",
        };
        match answers::error(status, cause, &self.rules.extras(status)) {
            Ok(page) => StepResult::Answer(Arc::new(page)),
            Err(_) => StepResult::Failed,
        }
    }
}

impl Program for AuthRequest {
    fn content_bytes_max(&self) -> u64 {
        // The content is for the responder that answers once access is decided.
        u64::MAX
    }

    fn begins_with(&self) -> Next {
        Next::ROOM
    }

    fn may_block(&self) -> bool {
        false
    }

    fn holds(&self) -> Holds {
        self.gateway.holds()
    }

    fn run(&mut self, input: Input<'_>) -> StepResult {
        // The question has no content, whatever the request has.
        match self.gateway.run(Input { content: &[], is_last: true, ..input }) {
            StepResult::Gives(part, next) => self.handle_part(part, next),
            StepResult::Answer(page) => self.fail(page.status.0),
            StepResult::Failed if matches!(self.progress, Progress::No) => StepResult::Failed,
            StepResult::Failed => self.fail(502),
            StepResult::Waits(next) => StepResult::Waits(next),
            StepResult::Redirected(_) => self.fail(502),
            step_result @ (StepResult::Continue | StepResult::Again | StepResult::Found(_)) => step_result,
        }
    }

    fn asks(&self) -> Option<String> {
        self.gateway.asks().map(|service| format!("{service}, which says whether the request is let in"))
    }

    fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.gateway.socket()
    }
}
