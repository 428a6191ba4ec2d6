//! The way of a gateway to a connection: the choice of a place, its address, and handshakes before the request.
//!
//! Owns: the states of [`Gateway`] before `Connected`, and how long a process is awaited that the server has started.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use lamna_policy::upstream::retry::{Effect, Retries};
use lamna_policy::upstream::{Attempt, Outcome};
use lamna_proto::exchange::program::{Holds, Next, StepResult};
use lamna_proto::gateway::GatewayError;
use rustix::io::Errno;

use super::buffer::ContentBuffer;
use super::progress::{Reuse, Source, Told, Upload, UpstreamConnection};
use super::{Gateway, Problem, RETRIES_MAX, State};
use crate::content::answers;
use crate::gateway::report;
use crate::upstream::dial::Dial;
use crate::upstream::group::Located;
use crate::upstream::link::{Link, send_preface};
use crate::upstream::shares::{Crowded, Payer};

/// How often it is tried whether a process listens that the server has started.
const PAUSE_MS: u32 = 20;
/// How long that is awaited where another place is left.
const PAUSES_MS: u32 = 1_000;
/// How often a name is looked at that is being looked up.
const LOCATE_MS: u32 = 20;

/// Whether the server has run out of something, which is no fault of the application's.
pub(super) fn is_shortage(errno: Errno) -> bool {
    matches!(errno, Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS)
}

impl Gateway {
    /// Whether what has failed may have failed because of the request: an application was there to see it.
    pub(in crate::gateway) fn has_asked(&self) -> bool {
        !matches!(
            self.failed,
            Some(GatewayError::Unreachable | GatewayError::Handshake | GatewayError::ConnectTimedOut)
        )
    }

    /// Its memory and descriptors between two steps: outgoing bytes, its connection, buffered and filtered content.
    pub(super) fn held(&self) -> Holds {
        let Gateway { head, preface, outgoing, received, buffer, filtered, .. } = self;
        let heads = head.capacity() + preface.capacity() + self.site.capacity() + self.called.len();
        let buffers = outgoing.bytes.capacity() + received.capacity();
        let link = match &self.state {
            State::Handshaking(link) | State::Connected(UpstreamConnection { link, .. }) => link.holds(),
            State::Dialling(_) => Holds { bytes: 0, descriptors: 1 },
            State::Selecting | State::Resolving(_) | State::BackingOff(..) | State::Over => Holds::default(),
        };
        let filtered = filtered.as_ref().map_or(0, |filtered| filtered.memory_bytes());
        let kept = buffer.as_ref().map_or(Holds::default(), ContentBuffer::holds);
        link.and(kept).and(Holds::of_bytes(heads + buffers + filtered))
    }

    /// A refusal if the client's network has as many connections to applications as it may. Otherwise the connection
    /// counts from now on.
    pub(in super::super) fn refuse_if_crowded(&mut self) -> Option<StepResult> {
        let Payer { shares, client } = self.payer.as_ref().filter(|_| self.share.is_none())?;
        match shares.clone().take(*client) {
            Ok(share) => {
                self.share = Some(share);
                None
            }
            Err(Crowded) => Some(self.refuse(
                "Applications are asked as much for your network as they may be. Please try again in a moment.",
            )),
        }
    }

    /// It asks no application for now: it counts no more.
    pub(in super::super) fn give_share_back(&mut self) {
        self.share = None;
    }

    /// It was refused before it had asked anybody, and may ask later.
    pub(in super::super) fn begin_again(&mut self) {
        self.state = State::Selecting;
    }

    /// It has no client, so its connection counts for none.
    pub(in super::super) fn ask_for_nobody(&mut self) {
        (self.payer, self.share) = (None, None);
    }

    /// The client's answer if there is no descriptor, or no memory, for a connection.
    pub(super) fn refuse_for_shortage(&mut self) -> StepResult {
        if let Some(attempt) = self.attempt.take() {
            self.group.end(attempt, self.now, Outcome::Unknown);
        }
        self.refuse("The server is out of descriptors or memory for a moment.")
    }

    fn refuse(&mut self, cause: &str) -> StepResult {
        (self.state, self.share) = (State::Over, None);
        match answers::error(503, cause, &self.rules.extras(503)) {
            Ok(page) if self.told != Told::Head => StepResult::Answer(Arc::new(page)),
            _ => StepResult::Failed,
        }
    }

    /// Chooses a place, and a connection to it.
    pub(super) fn choose(&mut self) -> Result<(), Problem> {
        // Content that comes later cannot be sent twice.
        let may_retry = self.upload == Upload::Whole
            && match self.retries_of() {
                Retries::Idempotent => self.effect != Effect::Any,
                _ => self.effect == Effect::Safe,
            };
        if self.failed.is_none() && self.retries == 0 {
            self.group.allow_retry();
        }
        let attempt = self.group.begin(self.now, &self.tried, may_retry, self.affinity);
        // Where no other place is left, the client is told why the last one failed.
        let none_left = || Problem::of(self.failed.unwrap_or(GatewayError::NoneAvailable));
        let attempt = attempt.ok_or_else(none_left)?;
        let index = attempt.index();
        self.attempt = Some(attempt);
        // What cannot be asked again is not sent to who has just closed, if that can be helped.
        let looks = self.effect != Effect::Safe;
        let kept = match self.reuse {
            Reuse::Allowed => self.group.take(index, self.now, looks),
            Reuse::Refused => None,
        };
        match kept {
            Some(link) => self.use_link(link, Source::Reused),
            None => {
                let is_last = self.retries == RETRIES_MAX || self.is_last_place();
                let timeout = self.group.settings.connect_timeout_ms;
                self.deadline = match self.group.settings.programs.is_empty() || is_last {
                    true => self.now.after_ms(timeout),
                    false => self.now.after_ms(timeout.min(PAUSES_MS)),
                };
                self.state = State::Resolving(index);
            }
        }
        Ok(())
    }

    /// Whether all other places have been tried.
    pub(super) fn is_last_place(&self) -> bool {
        self.tried.len() + 1 >= self.group.settings.upstreams.len()
    }

    /// No process listens. One that the server has started may only just begin to: it is tried again after a while.
    pub(super) fn pause(&mut self, errno: Errno) -> Result<(), Problem> {
        let index = self.attempt.as_ref().map(Attempt::index);
        match index.filter(|_| !self.group.settings.programs.is_empty() && self.now < self.deadline) {
            Some(index) => {
                self.state = State::BackingOff(index, self.now.after_ms(PAUSE_MS).min(self.deadline));
                Ok(())
            }
            None => Err(Problem::with(GatewayError::Unreachable, &errno)),
        }
    }

    /// Where the place is. Nothing if it is known.
    pub(super) fn locate(&mut self, index: usize) -> Result<Option<StepResult>, Problem> {
        match self.group.locate(index) {
            Located::At(destination) => {
                self.state = State::Dialling(Dial::new(destination));
                Ok(None)
            }
            Located::Unknown if self.now < self.deadline => {
                let again = self.now.after_ms(LOCATE_MS).min(self.deadline);
                Ok(Some(StepResult::Waits(Next { until: Some(again), ..Next::default() })))
            }
            Located::Unknown => Err(Problem::of(GatewayError::ConnectTimedOut)),
            Located::Failed(why) => {
                report::unresolved((&self.site, &self.called), &self.group.name(index), &why);
                Err(Problem::of(GatewayError::Unreachable))
            }
        }
    }

    /// The connection is there. Where TLS is spoken, it is not to be talked over yet.
    pub(super) fn greet(&mut self, socket: OwnedFd) -> Result<(), Problem> {
        let index = self.attempt.as_ref().map_or(0, Attempt::index);
        send_preface(&socket, &self.preface).map_err(|errno| Problem::with(GatewayError::Closed, &errno))?;
        match self.group.session(index) {
            Ok(None) => self.use_link(Link::new(socket, None), Source::Dialled),
            Ok(session) => self.state = State::Handshaking(Link::new(socket, session)),
            Err(why) => return Err(Problem::with(GatewayError::Handshake, &why)),
        }
        Ok(())
    }
}
