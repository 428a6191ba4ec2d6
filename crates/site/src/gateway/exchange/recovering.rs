//! Recovery when a place fails, or answers that another one may do better.
//!
//! Owns: which requests are sent again ([`Gateway::recovers`], [`Gateway::leaves_answer`]), and what the client is told
//! when none is. Guarantees: a request is sent again only if the client has been told nothing, its content is at hand,
//! and its method lets it (`lamna_policy::upstream::retry`); after an answer it is a bounded part of all requests.

use std::sync::Arc;

use lamna_policy::upstream::retry::{Effect, Failed, Failure};
use lamna_policy::upstream::{Attempt, Outcome};
use lamna_proto::exchange::program::StepResult;
use lamna_proto::gateway::{AnswerHead, GatewayError};

use super::progress::{Phase, Purpose, Reuse, Source, Told};
use super::{Gateway, Problem, RETRIES_MAX, State};
use crate::content::answers;
use crate::gateway::report;
use crate::upstream::group::Group;

/// Whether an answer with this head is not the last word of the application, and whether it says when it is to be asked
/// again.
pub(super) fn refusal(group: &Group, head: &AnswerHead<'_>) -> Option<bool> {
    group.settings.retry.as_ref().filter(|retry| retry.is_for(head.status))?;
    Some(head.fields.iter().any(|(name, _)| name.eq_ignore_ascii_case(b"retry-after")))
}

impl Gateway {
    /// Leaves the answer that has begun, and has the request sent again: to another place, or to the same one if there
    /// is no other, unless it asks to be left alone (`is_later`). Whether it does.
    pub(super) fn leaves_answer(&mut self, is_later: bool) -> bool {
        let tries = self.group.settings.retry.as_ref().map_or(0, |retry| retry.tries);
        let may = self.told == Told::Nothing
            && self.effect != Effect::Any
            && self.upload.is_at_hand()
            && self.purpose == Purpose::Answer
            && self.retries + 1 < tries.min(RETRIES_MAX + 1);
        let Some(index) = self.attempt.as_ref().map(Attempt::index).filter(|_| may) else { return false };
        self.tried.push(index);
        let has_other = self.group.has_left(self.now, &self.tried);
        if !has_other {
            self.tried.pop();
        }
        let is_alone = !has_other && !is_later && self.group.has_left(self.now, &self.tried);
        if !(has_other || is_alone) || !self.group.takes_retry() {
            self.tried.retain(|other| *other != index);
            return false;
        }
        // The rest of the answer is not waited for, and its connection ends with the state.
        self.state = State::Selecting;
        if let Some(attempt) = self.attempt.take() {
            self.group.end(attempt, self.now, Outcome::Answered);
        }
        self.retries += 1;
        self.reuse = Reuse::Allowed;
        self.begin_request();
        true
    }

    /// Whether the request is tried again.
    pub(super) fn recovers(&mut self, problem: &Problem) -> bool {
        if problem.is_left {
            return true;
        }
        let (source, phase) = match std::mem::replace(&mut self.state, State::Over) {
            State::Connected(connection) => (connection.source, connection.phase),
            _ => (Source::Dialled, Phase::Unsent),
        };
        let is_closed = problem.error == GatewayError::Closed;
        let was_stale = is_closed && source == Source::Reused && !self.codec.has_begun();
        let attempt = self.attempt.take();
        let index = attempt.as_ref().map(Attempt::index);
        if let Some(attempt) = attempt {
            let outcome = if was_stale { Outcome::Unknown } else { Outcome::Failed };
            self.group.end(attempt, self.now, outcome);
        }
        let failure = match problem.error {
            GatewayError::Unreachable | GatewayError::Handshake | GatewayError::ConnectTimedOut => Failure::NothingSent,
            GatewayError::Closed if phase == Phase::Unsent => Failure::NothingSent,
            GatewayError::Closed if was_stale => Failure::KeptClosed,
            GatewayError::Closed | GatewayError::BrokenOff => Failure::Closed,
            GatewayError::Overloaded => Failure::NotTaken,
            GatewayError::SendTimedOut | GatewayError::AnswerTimedOut => Failure::TimedOut,
            _ => Failure::Malformed,
        };
        // What has been taken from the client stands behind the head, as long as nothing of both has left.
        let is_unsent = failure == Failure::NothingSent;
        let failed = Failed {
            effect: self.effect,
            failure,
            is_content_at_hand: self.upload.is_at_hand() || is_unsent,
            is_client_told: self.told != Told::Nothing,
            retries: self.retries,
        };
        match index {
            Some(index) if !was_stale => {
                let why = problem.why.as_deref();
                self.group.note_failure(index, problem.error, why);
                report::failure((&self.site, &self.called), &self.group.name(index), problem.error, why);
            }
            None if self.failed.is_none() => report::none_available((&self.site, &self.called)),
            _ => {}
        }
        self.failed = (!was_stale).then_some(problem.error).or(self.failed);
        if index.is_none() || !failed.may_be_retried(self.retries_of(), RETRIES_MAX) {
            return false;
        }
        match was_stale {
            // It had been closed before it was used, as connections are: that is no failure of the place.
            true => self.reuse = Reuse::Refused,
            // What the server has started is perhaps started again at the only place that there is.
            false if !self.group.settings.programs.is_empty() && self.is_last_place() => {}
            false => self.tried.extend(index),
        }
        self.retries += u32::from(!was_stale);
        if self.upload.is_at_hand() {
            self.begin_request();
        }
        self.state = State::Selecting;
        true
    }

    /// The client's answer after a failure.
    pub(super) fn give_up(&mut self, error: GatewayError) -> StepResult {
        if self.told == Told::Head { StepResult::Failed } else { self.page_of(error) }
    }

    pub(super) fn page_of(&self, error: GatewayError) -> StepResult {
        let status = error.status().0;
        let cause = match status {
            503 => "The application that answers here is not available at the moment.",
            504 => "The application that answers here did not answer in time.",
            _ => "The application that answers here cannot be reached, or did not answer as it should.",
        };
        self.page(status, cause)
    }

    /// A page in the place of an answer.
    pub(super) fn page(&self, status: u16, cause: &str) -> StepResult {
        match answers::error(status, cause, &self.rules.extras(status)) {
            Ok(page) => StepResult::Answer(Arc::new(page)),
            Err(_) => StepResult::Failed,
        }
    }
}
