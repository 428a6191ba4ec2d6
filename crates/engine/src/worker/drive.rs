//! The one interpreter of the contract between the core and those that drive it (`lamna_proto::conn`).
//!
//! Owns: the order in which a connection's needs are met, its output is sent and its input is received, and how long
//! its turn lasts. Guarantees: a turn does bounded work; every engine drives a connection in the same way. Does not
//! wait, and does not decide how bytes move or who carries out what may block: its [`Io`] and its [`Executor`] do, and
//! these are all that engines differ in.
//!
//! ```text
//!        +--> needs --> send --> is there more to do without waiting? --no--> Waits(for what)
//!        |                           | yes, and the turn is not over            yes, but it is: GoesOn
//!        +------- receive <----------+
//! ```

use lamna_io::send::Sent;
use lamna_io::wait::Token;
use lamna_proto::conn::{Fate, Interest};
use lamna_proto::error::Refusal;
use lamna_proto::exchange::program::Step;
use lamna_proto::exchange::{Done, ExchangeId, Need, Read};
use lamna_proto::time::Instant;
use lamna_site::cache::Entry;

use crate::worker::connection_state::{ConnectionState, Extras};
use crate::worker::context::{FileRange, Found, Outcome, TranslationTarget, WorkerContext, needs_program};
use crate::worker::executor::{Completed, Executor, PendingId, run_in_line};
use crate::worker::turn_budget::TURN_BYTES;

/// Receives of one connection before others get their turn.
const TURN_RECEIVES: u32 = 16;

/// How bytes move between a connection and its socket.
pub trait Io {
    /// Whether it receives. If not, what can be received waits for another that drives the connection.
    fn receives(&self) -> bool {
        true
    }

    /// Whether it sends. If not, what is to be sent waits for another that drives the connection.
    fn sends(&self) -> bool {
        true
    }

    /// Hands the connection what has been received, or can be without waiting, and notes whether there may be more.
    fn receive(&mut self, connection: &mut ConnectionState, now: Instant);

    /// Sends what the connection has to send next, of which a turn that has moved `used` bytes may move so many more.
    /// Nothing if there is nothing to send.
    fn send(&mut self, connection: &mut ConnectionState, context: &mut WorkerContext<'_>, used: u64) -> Option<Moved>;
}

/// The result of sending once.
#[derive(Clone, Copy, Debug)]
pub struct Moved {
    /// The part that the socket took, or the kernel in its place.
    pub sent: Sent,
    /// How many bytes of a turn each byte counts as.
    pub weight: u64,
}

/// How a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The connection waits for this.
    Waits(Interest),
    /// It could go on, but others are to have their turn.
    GoesOn(Interest),
}

impl Turn {
    /// The events that the connection waits for, or would wait for if it could not go on.
    pub fn interest(self) -> Interest {
        match self {
            Turn::Waits(interest) | Turn::GoesOn(interest) => interest,
        }
    }
}

/// The sending that a turn leaves for later. A send wakes its receiver, which costs the sender more than the rest of
/// the call. Where connections that are ready at once send one right after the other, most of their receivers are awake
/// already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaves {
    /// Nothing: the turn goes to its end.
    Nothing,
    /// Steps of programs: what has come from the client is for an application, most likely.
    Steps,
    /// Parts for the client that a step has given.
    Parts,
}

/// Lets the connection of `token` go on until it has to wait or its turn is over. It has a workspace.
pub fn turn(
    connection: &mut ConnectionState,
    token: Token,
    context: &mut WorkerContext<'_>,
    hands: &mut (impl Io + Executor),
) -> Turn {
    let turn = turn_leaving(connection, token, context, hands, Leaves::Nothing);
    // Of what is left nothing is begun.
    turn.unwrap_or(Turn::Waits(Interest::default()))
}

/// The same up to where something is to be left: nothing then, and the next turn goes on from there.
pub fn turn_leaving(
    connection: &mut ConnectionState,
    token: Token,
    context: &mut WorkerContext<'_>,
    hands: &mut (impl Io + Executor),
    leaves: Leaves,
) -> Option<Turn> {
    connection.enforce_memory_limit();
    context.set_connection(connection.number());
    let turn = within_bounds(connection, token, context, hands, leaves);
    connection.transport.settle();
    turn
}

fn within_bounds(
    connection: &mut ConnectionState,
    token: Token,
    context: &mut WorkerContext<'_>,
    hands: &mut (impl Io + Executor),
    leaves: Leaves,
) -> Option<Turn> {
    let mut bytes_left = context.turn_bytes();
    let mut receives_left = TURN_RECEIVES;
    loop {
        let has_left_step = meet_needs(connection, token, context, hands, leaves == Leaves::Steps);
        let has_part = leaves == Leaves::Parts && connection.writable && connection.interest().send;
        if has_left_step || has_part {
            return None;
        }
        let must_wait = context.needs_send_permit() && must_wait(connection, context, hands);
        let (sent, is_unsettled) = if must_wait { (0, false) } else { send(connection, context, hands) };
        bytes_left = bytes_left.saturating_sub(sent);
        let interest = connection.interest();
        // What has been handed to the kernel has to leave before the next request is begun, and before the end.
        let has_left = connection.writable;
        if interest.fate == Fate::Linger && has_left {
            connection.transport.end_sending();
        }
        let may_send = interest.send && connection.writable && hands.sends();
        let may_receive = interest.receive && (has_left || interest.send) && hands.receives();
        // What was sent may have been what an exchange waited for to go on.
        let may_go_on = (interest.done || may_receive) && sent > 0;
        if interest.is_over() || !(may_send || may_go_on || may_receive && connection.readable) {
            return Some(Turn::Waits(or_over(connection, interest, context)));
        }
        if bytes_left == 0 || receives_left == 0 || must_wait || is_unsettled {
            return Some(Turn::GoesOn(interest));
        }
        if connection.transport.is_handshaking() && !context.handshakes.take() {
            return Some(Turn::GoesOn(interest));
        }
        if may_receive && connection.readable && sent == 0 {
            receives_left -= 1;
            hands.receive(connection, context.now);
            context.report(&mut connection.http, &connection.transport, connection.peer);
        }
    }
}

/// The events that a connection with `interest` waits for: none if its socket has failed and it would not try it. One
/// whose peer has closed its side only goes on: the peer may be reading.
fn or_over(connection: &mut ConnectionState, interest: Interest, context: &mut WorkerContext<'_>) -> Interest {
    if !connection.transport.failed || interest.receive || interest.fate != Fate::Open {
        return interest;
    }
    connection.handle_broken();
    context.report(&mut connection.http, &connection.transport, connection.peer);
    connection.interest()
}

/// Whether something could be sent, and there is no permit.
fn must_wait(connection: &mut ConnectionState, context: &WorkerContext<'_>, io: &impl Io) -> bool {
    connection.writable && io.sends() && connection.interest().send && !context.has_send_permit()
}

/// Sends what there is to send, as far as the socket takes it. Returns how many bytes of a turn that was, and whether
/// it is for a file to be written that more is not sent: others go on meanwhile.
fn send(connection: &mut ConnectionState, context: &mut WorkerContext<'_>, io: &mut impl Io) -> (u64, bool) {
    // A turn that is shorter begins as if so much had been sent.
    let begins = TURN_BYTES - context.turn_bytes();
    let (mut used, mut is_unsettled) = (begins, false);
    while connection.writable && used < TURN_BYTES && io.sends() && !is_unsettled {
        let Some(Moved { sent, weight }) = io.send(connection, context, used) else { break };
        match sent {
            Sent::Part(0) => connection.writable = false,
            Sent::All(bytes) | Sent::Part(bytes) => {
                used += bytes * weight;
                handle_sent(connection, bytes, context);
            }
            Sent::Unsettled => is_unsettled = true,
            Sent::Changed => connection.http.handle_broken(),
            Sent::Broken => connection.handle_broken(),
        }
        context.report(&mut connection.http, &connection.transport, connection.peer);
    }
    end_sending(connection, context);
    (used - begins, is_unsettled)
}

/// `bytes` of what `connection` sends were taken, by the socket or by a session that encrypts them.
pub fn handle_sent(connection: &mut ConnectionState, bytes: u64, context: &mut WorkerContext<'_>) {
    connection.count_sent(bytes, context.now);
    if connection.transport.holds_output() {
        context.count_sent(bytes);
        return connection.http.handle_taken(bytes, context.now);
    }
    context.handle_sent(bytes);
    connection.http.handle_sent(bytes, context.now);
}

/// `connection` sends no more for now: what was encrypted may have left.
pub fn end_sending(connection: &mut ConnectionState, context: &mut WorkerContext<'_>) {
    if connection.http.is_leaving() && !connection.transport.holds_output() {
        context.handle_sent(0);
        connection.http.handle_left(context.now);
        context.report(&mut connection.http, &connection.transport, connection.peer);
    }
}

/// Carries out what the connection needs, or has it carried out. With `leaves_steps`, up to the first step of a
/// program: whether that is left.
fn meet_needs(
    connection: &mut ConnectionState,
    token: Token,
    context: &mut WorkerContext<'_>,
    executor: &mut impl Executor,
    leaves_steps: bool,
) -> bool {
    if connection.writable {
        connection.http.handle_writable();
    }
    while let Some((exchange, need)) = connection.http.poll_need() {
        let now = context.now;
        let id = PendingId { token, exchange };
        match need {
            Need::Resolve(requested) => {
                let (peer, over) = (connection.peer, connection.transport.over());
                let mut viewing = Extras::take_viewing(&mut connection.extras);
                let asked = context.asked(&requested, peer, over);
                let (outcome, hints) = context.decide(&asked, &mut viewing);
                let again;
                let asked = match hints {
                    None => Some(asked),
                    Some(hints) => {
                        hints.give(&mut connection.http, exchange, context, &mut viewing);
                        again = connection.http.requested_of(exchange);
                        again.as_ref().map(|requested| context.asked(requested, peer, over))
                    }
                };
                Extras::put_viewing(&mut connection.extras, viewing);
                let Some(asked) = asked else { continue };
                if !matches!(outcome, Outcome::LookUp) {
                    if let Some(done) = context.done(outcome) {
                        connection.http.handle_done(exchange, done, now);
                    }
                    connection.apply_rate_limits(context);
                    continue;
                }
                if executor.leaves_look_up(id) {
                    connection.http.defer(exchange);
                    connection.apply_rate_limits(context);
                    continue;
                }
                match context.look_up(&asked) {
                    Found::Fresh(entry) if needs_program(entry, asked.requested) => {
                        let entry = entry.clone();
                        answer(connection, exchange, &entry, context);
                    }
                    Found::Aging(entry, target) if needs_program(entry, asked.requested) => {
                        let entry = entry.clone();
                        answer(connection, exchange, &entry, context);
                        executor.refresh(context, target);
                    }
                    Found::Fresh(entry) => {
                        connection.http.handle_done(exchange, Done::Resolved(&entry.resource), now);
                    }
                    Found::Aging(entry, target) => {
                        connection.http.handle_done(exchange, Done::Resolved(&entry.resource), now);
                        executor.refresh(context, target);
                    }
                    Found::Missing(target) => translate_missing(connection, id, target, context, executor),
                }
                connection.apply_rate_limits(context);
            }
            Need::Read(Read { representation, offset, length }) => {
                let range = FileRange { representation: representation.clone(), offset, length };
                read(connection, id, range, context, executor);
            }
            Need::Run if leaves_steps => return true,
            Need::Run => run(connection, id, now, executor),
        }
        context.report(&mut connection.http, &connection.transport, connection.peer);
    }
    false
}

/// Looks up the target of an exchange for which that was left by another that drives the connection.
pub fn look_up(
    connection: &mut ConnectionState,
    id: PendingId,
    context: &mut WorkerContext<'_>,
    executor: &mut impl Executor,
) {
    context.set_connection(connection.number());
    let Some(requested) = connection.http.requested_of(id.exchange) else { return };
    let asked = context.asked(&requested, connection.peer, connection.transport.over());
    let (entry, aging) = match context.look_up(&asked) {
        Found::Fresh(entry) => (entry.clone(), None),
        Found::Aging(entry, target) => (entry.clone(), Some(target)),
        Found::Missing(target) => return translate_missing(connection, id, target, context, executor),
    };
    answer(connection, id.exchange, &entry, context);
    if let Some(target) = aging {
        executor.refresh(context, target);
    }
}

fn translate_missing(
    connection: &mut ConnectionState,
    id: PendingId,
    target: TranslationTarget,
    context: &mut WorkerContext<'_>,
    executor: &mut impl Executor,
) {
    match executor.translate(context, id, target) {
        Some(entry) => answer_found(connection, id.exchange, &entry, context),
        None => connection.http.defer(id.exchange),
    }
}

/// The target of an exchange was not known, and has been found out.
fn answer_found(
    connection: &mut ConnectionState,
    exchange: ExchangeId,
    entry: &Entry,
    context: &mut WorkerContext<'_>,
) {
    if let Some(requested) = connection.http.requested_of(exchange) {
        let asked = context.asked(&requested, connection.peer, connection.transport.over());
        if !entry.is_unmade() {
            context.sample_found(&asked, entry);
        }
        context.trace_looked_up(&asked, entry);
    }
    answer(connection, exchange, entry, context);
}

/// It is known what the target of an exchange stands for.
fn answer(connection: &mut ConnectionState, exchange: ExchangeId, entry: &Entry, context: &mut WorkerContext<'_>) {
    let (peer, over, now) = (connection.peer, connection.transport.over(), context.now);
    let done = match connection.http.requested_of(exchange) {
        Some(requested) if needs_program(entry, &requested) => {
            let asked = context.asked(&requested, peer, over);
            let outcome = context.run_script(&asked, entry);
            context.done(outcome).unwrap_or(Done::Refused(Refusal::RunFailed))
        }
        _ => Done::Resolved(&entry.resource),
    };
    connection.http.handle_done(exchange, done, now);
    // Those of a script are known when it has been found.
    if context.rate_limits.is_some() {
        connection.apply_rate_limits(context);
    }
}

fn read(
    connection: &mut ConnectionState,
    id: PendingId,
    range: FileRange,
    context: &mut WorkerContext<'_>,
    executor: &mut impl Executor,
) {
    if let Some(completed) = executor.make_ready(context.shared, id, range) {
        handle_completed(connection, completed, context);
    }
}

fn run(connection: &mut ConnectionState, id: PendingId, now: Instant, executor: &mut impl Executor) {
    let Some(Step { program, input }) = connection.http.step(id.exchange, now) else { return };
    let step_result = match program.may_block() {
        true => executor.run(id, program, input),
        false => Some(run_in_line(program, input)),
    };
    if let Some((program, step_result)) = step_result {
        connection.http.handle_step_result(id.exchange, program, step_result, now);
    }
}

/// A step that `connection` needs has been carried out. Content that was read for it is its own from now on.
pub fn handle_completed(connection: &mut ConnectionState, completed: Completed, context: &mut WorkerContext<'_>) {
    let now = context.now;
    let exchange = completed.pending().exchange;
    context.set_connection(connection.number());
    match completed {
        Completed::Translated(_, entry) => answer_found(connection, exchange, &entry, context),
        Completed::Late(_, resource) => {
            connection.http.handle_done(exchange, Done::Resolved(&resource), now);
        }
        Completed::Ready(_, bytes) => connection.http.handle_done(exchange, Done::Ready(bytes), now),
        Completed::Content(_, content) => {
            context.sender.file_bytes += content.bytes().len() as u64;
            connection.http.handle_done(exchange, Done::Content(&content), now);
        }
        Completed::Failed(_) => connection.http.handle_done(exchange, Done::Failed, now),
        Completed::Stepped(_, program, step_result) => {
            connection.http.handle_step_result(exchange, program, step_result, now)
        }
    }
}

/// An executor of connections whose bytes move by system calls, when epoll or poll has said that they can.
pub trait OnSockets: Executor {
    /// See [`Io::receives`].
    fn receives(&self) -> bool {
        true
    }

    /// See [`Io::sends`].
    fn sends(&self) -> bool {
        true
    }
}

impl<E: OnSockets> Io for E {
    fn receives(&self) -> bool {
        OnSockets::receives(self)
    }

    fn sends(&self) -> bool {
        OnSockets::sends(self)
    }

    fn receive(&mut self, connection: &mut ConnectionState, now: Instant) {
        connection.receive(now);
    }

    fn send(&mut self, connection: &mut ConnectionState, context: &mut WorkerContext<'_>, used: u64) -> Option<Moved> {
        let ConnectionState { transport, http, .. } = connection;
        let (sent, weight) = transport.send(http, &mut context.sender, used, context.now)?;
        Some(Moved { sent, weight })
    }
}
