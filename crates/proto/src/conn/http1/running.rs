//! Exchanges that are answered by a program: handing out its steps, and what comes of them.
//!
//! Owns: [`Running`]. Guarantees: steps are in order and none is handed out twice; content is taken from the peer only as fast as
//! the program takes it; a request runs when those before it have been answered. Does not run anything.

use super::incoming::CONTINUE;
use super::{Connection, DRIVEN};
use crate::error::Refusal;
use crate::exchange::program::{Input, Program, Ran, SocketWait, Step};
use crate::exchange::{Exchange, ExchangeId, State};
use crate::time::Instant;

/// A program that answers a request.
#[derive(Debug)]
pub(crate) struct Running {
    /// Absent while a driver carries out a step, or if the driver has lost it.
    pub(super) program: Option<Box<dyn Program>>,
    /// Since when it has been absent.
    away_since: Instant,
    /// It will not come back.
    pub(super) is_lost: bool,
}

/// Content that has been taken from the input.
struct Taken {
    /// Where in the input it is.
    at: usize,
    length: usize,
    is_last: bool,
}

impl Running {
    pub(super) fn new(program: Box<dyn Program>) -> Running {
        Running { program: Some(program), away_since: Instant(0), is_lost: false }
    }
}

impl Connection {
    /// The first in line, if it is a program's.
    fn front_running(&self) -> Option<(&Exchange, &Running)> {
        let exchange = self.active.as_ref()?.exchanges.front()?;
        match &exchange.state {
            State::Running(running) => Some((exchange, running)),
            _ => None,
        }
    }

    /// The exchange for which a step can be carried out now.
    pub(super) fn runnable(&self) -> Option<ExchangeId> {
        let (exchange, running) = self.front_running()?;
        let has_input = || self.workspace.as_ref().is_some_and(|workspace| !workspace.input.unread().is_empty());
        let can_run = running.program.is_some() && (!exchange.awaits_content || has_input() || self.ended);
        can_run.then_some(exchange.id)
    }

    /// Whether a program waits for its peer to send content.
    pub(super) fn awaits_content(&self) -> bool {
        self.front_running().is_some_and(|(exchange, running)| exchange.awaits_content && running.program.is_some())
    }

    /// Whether a driver carries out a step of a program: until `handle_ran` the connection has to stay where it is.
    pub fn is_running(&self) -> bool {
        self.front_running().is_some_and(|(_, running)| running.program.is_none() && !running.is_lost)
    }

    /// Whether it can go on in another process: a program cannot.
    pub fn can_travel(&self) -> bool {
        let mut exchanges = self.active.iter().flat_map(|active| &active.exchanges);
        !exchanges.any(|exchange| matches!(exchange.state, State::Running(_)))
    }

    /// The step that `Need::Run` asks for; none if there is nothing in what has arrived but framing. Until `handle_ran` the
    /// program is the driver's.
    pub fn step(&mut self, id: ExchangeId, now: Instant) -> Option<Step<'_>> {
        debug_assert_eq!(self.runnable(), Some(id), "a step is taken when it is asked for");
        let Taken { at, length, is_last } = match self.next_piece() {
            Ok(piece) => piece?,
            Err(refusal) => {
                self.refuse(refusal);
                return None;
            }
        };
        let front = self.active.as_mut().and_then(|active| active.exchanges.front_mut())?;
        let State::Running(running) = &mut front.state else { return None };
        running.away_since = self.received;
        let program = running.program.take()?;
        let input = &self.workspace.as_ref().expect(DRIVEN).input;
        Some(Step { program, input: Input { content: input.at(at, length), is_last, room: true, now } })
    }

    /// Takes the next content from the input.
    fn next_piece(&mut self) -> Result<Option<Taken>, Refusal> {
        let awaits_content = self.front_running().is_some_and(|(exchange, _)| exchange.awaits_content);
        if !awaits_content {
            return Ok(Some(Taken { at: 0, length: 0, is_last: true }));
        }
        let workspace = self.workspace.as_mut().expect(DRIVEN);
        let Some(incoming) = self.active.as_mut().and_then(|active| active.receiving.as_mut()) else { return Ok(None) };
        let taken = loop {
            if workspace.input.unread().is_empty() {
                return if self.ended { Err(Refusal::Incomplete) } else { Ok(None) };
            }
            let at = workspace.input.position();
            let piece = incoming.take(workspace.input.unread(), self.received)?;
            workspace.input.consume(piece.consumed);
            let taken = Taken { at: at + piece.content.start, length: piece.content.len(), is_last: piece.ended };
            if taken.is_last || taken.length > 0 {
                break taken;
            }
        };
        if taken.is_last {
            self.end_content();
        }
        Ok(Some(taken))
    }

    /// See [`Connection::poll_socket`](crate::conn::Connection::poll_socket).
    pub fn poll_socket(&mut self) -> Option<(ExchangeId, SocketWait<'_>)> {
        None
    }

    /// See [`Connection::handle_socket`](crate::conn::Connection::handle_socket).
    pub fn handle_socket(&mut self, _id: ExchangeId) {}

    /// A step of `program`, which answers exchange `id`, has been carried out. If the exchange is gone, so is the program.
    pub fn handle_ran(&mut self, id: ExchangeId, program: Box<dyn Program>, ran: Ran, now: Instant) {
        let Some(active) = &mut self.active else { return };
        let Some(exchange) = active.exchanges.iter_mut().find(|exchange| exchange.id == id) else { return };
        let State::Running(running) = &mut exchange.state else { return };
        if let Some(incoming) = &mut active.receiving {
            incoming.forgive(now.since(running.away_since));
        }
        self.since = now;
        match ran {
            Ran::Continue => running.program = Some(program),
            Ran::Answer(resource) => {
                exchange.state = State::Translated(resource);
                self.close_unread();
            }
            Ran::Failed | Ran::Waits(_) | Ran::Gives(..) => {
                let request = exchange.request.as_ref().map(crate::exchange::Saved::request);
                let host = request.and_then(crate::exchange::answer::host_of);
                let outlet = &self.workspace.as_ref().expect(DRIVEN).outlet;
                let page = outlet.pages.refusal_of(host, request, Refusal::RunFailed);
                exchange.state = State::Translated(page);
                self.close_unread();
            }
        }
        self.advance();
    }

    /// The answer is known before the content has been received: the rest of it is not waited for.
    fn close_unread(&mut self) {
        let Some(active) = &mut self.active else { return };
        let unread = active.exchanges.front_mut().filter(|exchange| exchange.awaits_content);
        if let Some(exchange) = unread {
            exchange.awaits_content = false;
            self.stop_receiving();
        }
    }

    /// A program takes the content of the request: it begins.
    pub(super) fn begin_running(&mut self, bytes_max: u64) -> Result<(), Refusal> {
        let workspace = self.workspace.as_mut().expect(DRIVEN);
        let Some(incoming) = self.active.as_mut().and_then(|active| active.receiving.as_mut()) else { return Ok(()) };
        incoming.limit(bytes_max)?;
        if std::mem::take(&mut incoming.continues) {
            workspace.outlet.output.extend_from_slice(CONTINUE);
        }
        Ok(())
    }
}
