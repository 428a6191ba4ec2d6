//! A program that answers a request, between its steps: what it waits for, what it has given, and what follows from a
//! step.
//!
//! Owns: [`Running`], for every version of HTTP. Guarantees: steps are in order and none is handed out twice; a program
//! is asked for the next part of its answer when there is room for it, and let go of as soon as it has given all. Does
//! not run anything, and does not know where content comes from: who has the connection says what has arrived, and what
//! there is room for.

use std::sync::Arc;

use super::given::ContentBuffer;
use super::program::{Holds, Part, Program, SocketWait, StepResult};
use super::saved::Saved;
use super::sending::{Given, Sending};
use super::wake::Wake;
use crate::encoding::Malformed;
use crate::resource::Resource;
use crate::time::Instant;

/// A program that answers a request, or has given all of its answer, which is being sent.
#[derive(Debug)]
pub(crate) struct Running {
    /// Absent while a driver carries out a step, if the driver has lost it, and when it has given all of its answer.
    program: Option<Box<dyn Program>>,
    /// The events that the next step waits for.
    wake: Wake,
    /// Since when it does not wait for content.
    away_since: Instant,
    /// It will not come back.
    is_lost: bool,
    /// It gave a part that there was no room for, and is not asked for more before there is.
    is_ahead: bool,
    /// The resources that it held when a driver took it to carry out a step.
    away: Holds,
    /// Its answer, if that has begun.
    sending: Option<Box<Sending>>,
}

/// The consequence of a step.
#[derive(Debug)]
pub(crate) enum After {
    /// Nothing but the next step, when it is time.
    GoOn,
    /// This is given, which is in order.
    Give(Box<Part>),
    /// This is the answer.
    Answer(Arc<Resource>),
    /// The program is done, and the request is resolved once more.
    ResolveAgain,
    /// The same, with another target in the place of the request's, which has no content.
    ResolveOther,
    /// The program does not go on.
    Fail,
}

// Steps.
impl Running {
    pub(crate) fn new(program: Box<dyn Program>) -> Running {
        Running {
            wake: Wake::new(program.begins_with()),
            program: Some(program),
            away_since: Instant::from_ms(0),
            is_lost: false,
            is_ahead: false,
            away: Holds::default(),
            sending: None,
        }
    }

    /// Whether a step can be carried out now: content has arrived or not, or has ended, and there is room for a part or
    /// not.
    pub(crate) fn can_run(&self, has_content: bool, has_ended: bool, has_room: bool) -> bool {
        let is_due = self.wake.is_due(has_content, has_ended, has_room);
        self.program.is_some() && is_due && (has_room || !self.is_ahead)
    }

    /// The program, for a driver that carries out its next step. `is_last`: it is told that no content follows. The
    /// peer sent something last when it was `received`.
    pub(crate) fn begin_step(&mut self, is_last: bool, received: Instant) -> Option<Box<dyn Program>> {
        if self.wake.wants_content() {
            self.away_since = received;
        }
        if is_last {
            self.wake.told_end();
        }
        let program = self.program.take()?;
        self.away = Holds::of(&*program);
        Some(program)
    }

    /// A step has been carried out, and `program` is back: what follows. `request` is the one that it answers.
    pub(crate) fn handle_step_result(
        &mut self,
        program: Box<dyn Program>,
        step_result: StepResult,
        request: Option<&mut Saved>,
    ) -> After {
        self.program = Some(program);
        match &step_result {
            StepResult::Waits(next) | StepResult::Gives(_, next) => self.wake.wait_for(*next),
            _ => self.wake.go_on(),
        }
        let goes_round = request.as_ref().is_some_and(|saved| saved.goes_round());
        match (step_result, request) {
            (StepResult::Continue | StepResult::Waits(_), _) => After::GoOn,
            (StepResult::Gives(part, _), _) if part.is_in_order(self.has_begun()) => After::Give(part),
            // Only the parts of an answer follow its beginning.
            _ if self.has_begun() => After::Fail,
            (StepResult::Answer(resource), _) => After::Answer(resource),
            (StepResult::Again | StepResult::Found(_), _) if goes_round => After::Fail,
            (StepResult::Again, _) => After::ResolveAgain,
            (StepResult::Found(found), saved) => {
                if let Some(saved) = saved {
                    saved.found = Some(found);
                }
                After::ResolveAgain
            }
            (StepResult::Redirected(target), Some(saved)) => match saved.redirect(&target) {
                Ok(()) => After::ResolveOther,
                Err(Malformed) => After::Fail,
            },
            (StepResult::Gives(..) | StepResult::Redirected(_) | StepResult::Failed, _) => After::Fail,
        }
    }

    /// How long the client was not waited for, if it is for it again to send content.
    pub(crate) fn away_ms(&self, now: Instant) -> Option<u64> {
        self.wake.wants_content().then(|| now.since(self.away_since))
    }

    /// Whether it has given all of its answer, or no more of that is sent.
    pub(crate) fn is_done(&self) -> bool {
        self.sending.as_ref().is_some_and(|sending| sending.is_ended() || sending.is_cut())
    }

    /// Whether a driver carries out a step.
    pub(crate) fn is_away(&self) -> bool {
        self.program.is_none() && !self.is_lost && !self.is_done()
    }

    /// Whether the program is here.
    pub(crate) fn is_here(&self) -> bool {
        self.program.is_some()
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// The driver that had the program, if any, does not bring it back, nor does it wait for its socket.
    pub(crate) fn lose(&mut self) {
        self.is_lost |= self.is_away();
        self.wake.recall();
    }
}

// What it waits for.
impl Running {
    /// Content that the program takes; none if it has been lost.
    pub(crate) fn content_bytes_max(&self) -> Option<u64> {
        self.program.as_ref().map(|program| program.content_bytes_max())
    }

    /// Whether the next step may be given content.
    pub(crate) fn wants_content(&self) -> bool {
        self.is_here() && self.wake.wants_content()
    }

    /// Whether the peer has to send content now: unwanted content is not awaited. While an answer that has begun is
    /// being made, only content is awaited that nothing else can take the place of.
    pub(crate) fn awaits_content(&self) -> bool {
        self.wants_content() && (!self.has_begun() || self.wake.wants_only_content())
    }

    /// Whether a client that waits to be told to send its content is told so.
    pub(crate) fn invites_content(&self) -> bool {
        self.wants_content() && !self.has_begun()
    }

    /// Whether it waits for something that is not the peer's.
    pub(crate) fn waits_elsewhere(&self) -> bool {
        self.is_here() && self.wake.waits_elsewhere()
    }

    /// Until when it waits.
    pub(crate) fn until(&self) -> Option<Instant> {
        self.wake.until().filter(|_| self.is_here())
    }

    /// Whether the moment has come that it waits for.
    pub(crate) fn handle_time(&mut self, now: Instant) -> bool {
        self.is_here() && self.wake.handle_time(now)
    }

    /// The socket to wait for, once for each wait.
    pub(crate) fn poll_socket(&mut self) -> Option<SocketWait<'_>> {
        self.wake.ask(self.program.as_deref()?)
    }

    /// The awaited socket event has come.
    pub(crate) fn handle_socket(&mut self) {
        if self.is_here() {
            self.wake.handle_socket();
        }
    }

    /// Content follows after all, of another kind.
    pub(crate) fn forget_end(&mut self) {
        self.wake.forget_end();
    }

    /// Whether nothing that it waits for can come about. Then it has failed: else its client would wait as well.
    pub(crate) fn is_in_vain(&self, has_ended: bool) -> bool {
        self.program.as_deref().is_some_and(|program| self.wake.is_in_vain(program, has_ended))
    }

    /// Why nothing will bring about what it waits for.
    pub(crate) fn standstill(&self, has_ended: bool) -> Option<&'static str> {
        if self.is_lost {
            return Some("a program is lost, and nobody is told");
        }
        self.wake.standstill(self.program.as_deref()?, has_ended)
    }
}

// What it gives.
impl Running {
    /// Whether its answer has begun.
    pub(crate) fn has_begun(&self) -> bool {
        self.sending.is_some()
    }

    /// Its answer, if that has begun.
    pub(crate) fn sending(&self) -> Option<&Sending> {
        self.sending.as_deref()
    }

    pub(crate) fn sending_mut(&mut self) -> Option<&mut Sending> {
        self.sending.as_deref_mut()
    }

    /// The head of its answer has been written.
    pub(crate) fn begin_sending(&mut self, sending: Sending) {
        self.sending = Some(Box::new(sending));
    }

    /// The program gives content of its answer and the end of it, if they are there, when there is room for them or
    /// not.
    pub(crate) fn give(
        &mut self,
        content: Option<Arc<dyn ContentBuffer>>,
        end: Option<Vec<u8>>,
        has_room: bool,
    ) -> Given {
        let Some(sending) = &mut self.sending else { return Given::Part };
        self.is_ahead = !has_room && content.is_some();
        let given = sending.give(content, end);
        if given != Given::Part {
            self.program = None;
        }
        given
    }

    /// Its answer is broken off behind what has been given.
    pub(crate) fn cut(&mut self) {
        self.program = None;
        if let Some(sending) = &mut self.sending {
            sending.cut();
        }
    }

    /// The resources that its program holds, or held when a driver took it.
    pub(crate) fn holds(&self) -> Holds {
        match &self.program {
            Some(program) => Holds::of(&**program),
            None if self.is_away() => self.away,
            None => Holds::default(),
        }
    }

    /// Checks that its parts agree.
    ///
    /// # Panics
    /// If they do not.
    pub(crate) fn check_invariants(&self) {
        assert!(!(self.is_lost && self.is_here()), "a program that is lost is here");
        assert!(!(self.is_done() && self.is_here()), "a program that has given all is here");
        assert!(!self.is_ahead || self.has_begun(), "an answer that has not begun is ahead");
        if let Some(sending) = self.sending() {
            sending.check_invariants();
        }
    }

    /// Bytes of memory that it takes, with its program and what that has given.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.sending.as_ref().map_or(0, |sending| sending.memory_bytes()) + self.holds().bytes
    }
}
