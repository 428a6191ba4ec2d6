//! One connection of the load generator: its socket, the requests under way on it, and the answer that is arriving.
//!
//! Owns: the dialogue on one socket. Guarantees: each request that was asked is answered, given back for another
//! connection, or counted as failed; what the server sends is never a panic. Does not decide when to ask or when to
//! connect.
//!
//! ```text
//!   Closed --open--> Connecting --writable--> Open --end, error, nonsense, timeout, last answer--> Closed
//!      ^                  |
//!      +----refused-------+
//! ```

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};

use lamna_proto::client::{ResponseDecoder, Step};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, connect, recv, send, socket_with, sockopt,
};

use super::plan::Plan;
use super::thread_state::ThreadState;
use super::timers::{Alarm, Timer};

/// Bytes read at once. Large enough for a 5 MB answer to take few calls, small enough for the processor's cache.
pub(super) const BUFFER_BYTES: usize = 256 * 1024;

/// Time between two portions of a slow reader or writer.
const PORTION_NS: u64 = 100_000_000;

/// Content that is not checked is thrown away in the kernel from this many bytes on.
const DISCARD_BYTES_MIN: u64 = 16 * 1024;

/// The role of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Asks again and again.
    Active,
    /// Asks once and is then silent.
    Idle,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Closed,
    Connecting,
    Open,
}

/// The state of a connection after an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Turn {
    /// Nothing to decide.
    Waits,
    /// Established, or an answer is whole: it may be asked again.
    Free,
    /// The socket is gone, as the last answer or we had said.
    Ended,
    /// The socket is gone although no end was announced.
    Broken,
    /// It could not be established.
    Refused,
}

#[derive(Clone, Copy, Debug)]
struct Asked {
    due_ns: u64,
    target: u32,
}

/// The answer that is arriving.
#[derive(Clone, Copy, Debug)]
struct Arriving {
    status: u16,
    keep_alive: bool,
    content_bytes: u64,
    wrong: bool,
}

pub(super) struct Connection {
    index: u32,
    generation: u32,
    pub(super) role: Role,
    pub(super) state: State,
    socket: Option<OwnedFd>,
    interest: EventFlags,
    decoder: ResponseDecoder,
    /// The beginning of a head whose end has not come.
    held: Vec<u8>,
    /// Requests that the socket has not taken yet.
    unsent: Vec<u8>,
    asked: VecDeque<Asked>,
    arriving: Option<Arriving>,
    since_ns: u64,
    deadline_ns: u64,
    /// Whether it is in the list of free connections.
    pub(super) is_queued: bool,
    /// Whether it has ever been asked or, if idle, answered.
    pub(super) is_settled: bool,
}

impl Connection {
    pub(super) fn new(index: u32, role: Role) -> Connection {
        Connection {
            index,
            generation: 0,
            role,
            state: State::Closed,
            socket: None,
            interest: EventFlags::empty(),
            decoder: ResponseDecoder::new(),
            held: Vec::new(),
            unsent: Vec::new(),
            asked: VecDeque::new(),
            arriving: None,
            since_ns: 0,
            deadline_ns: u64::MAX,
            is_queued: false,
            is_settled: false,
        }
    }

    pub(super) fn generation(&self) -> u32 {
        self.generation
    }

    /// Requests under way.
    pub(super) fn asked(&self) -> usize {
        self.asked.len()
    }

    /// Whether another request may be put on it.
    pub(super) fn has_room(&self, plan: &Plan) -> bool {
        let most = if plan.new_connections { 1 } else { plan.pipelining };
        self.role == Role::Active && self.asked.len() < most
    }

    /// Takes a request; it is sent with the next [`Connection::flush`], or when the connection is established.
    pub(super) fn ask(&mut self, thread_state: &mut ThreadState, due_ns: u64, target: u32, now_ns: u64) {
        self.asked.push_back(Asked { due_ns, target });
        if self.state == State::Open {
            self.unsent.extend_from_slice(&thread_state.plan.targets[target as usize].request);
        }
        self.is_settled |= self.role == Role::Active;
        self.deadline_ns = now_ns + thread_state.plan.timeout.as_nanos() as u64;
        thread_state.in_flight += 1;
        thread_state.recorder.counts.requests += 1;
    }

    /// Starts to connect; what was asked before is sent when that has worked.
    pub(super) fn open(&mut self, thread_state: &mut ThreadState) -> Turn {
        debug_assert_eq!(self.state, State::Closed);
        self.since_ns = thread_state.shared.clock.now_ns();
        match self.try_open(thread_state) {
            Ok(State::Open) => self.established(thread_state),
            Ok(_) => {
                self.state = State::Connecting;
                thread_state.connecting += 1;
                Turn::Waits
            }
            Err(_) => self.refused(thread_state),
        }
    }

    /// Handles the kernel's events at the socket.
    pub(super) fn handle(&mut self, thread_state: &mut ThreadState, flags: EventFlags) -> Turn {
        if self.state == State::Connecting {
            return self.finish_connecting(thread_state);
        }
        if flags.contains(EventFlags::OUT) {
            self.flush(thread_state);
        }
        if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR | EventFlags::RDHUP) {
            return self.receive(thread_state);
        }
        Turn::Waits
    }

    /// A slow reader or writer may go on.
    pub(super) fn resume(&mut self, thread_state: &mut ThreadState, alarm: Alarm) {
        match alarm {
            Alarm::Read => self.set_interest(thread_state, self.interest | EventFlags::IN),
            Alarm::Write => self.flush(thread_state),
            Alarm::Ask => {}
        }
    }

    /// Gives up if nothing has come for too long.
    pub(super) fn check_deadline(&mut self, thread_state: &mut ThreadState, now_ns: u64) -> Turn {
        if now_ns < self.deadline_ns || self.asked.is_empty() {
            return Turn::Waits;
        }
        thread_state.recorder.counts.timed_out += self.fail_all(thread_state);
        self.close(thread_state);
        Turn::Broken
    }

    /// Forgets what is under way, at the end of the job. How many requests that were.
    pub(super) fn abandon(&mut self, thread_state: &mut ThreadState) -> u64 {
        let count = self.fail_all(thread_state);
        self.close(thread_state);
        count
    }

    /// Sends as much of what was asked as the socket takes.
    pub(super) fn flush(&mut self, thread_state: &mut ThreadState) {
        let Some(socket) = &self.socket else { return };
        if self.unsent.is_empty() || self.state != State::Open {
            return;
        }
        let portion =
            thread_state.plan.write_rate.map_or(self.unsent.len(), |rate| portion(rate).min(self.unsent.len()));
        let sent = match send(socket, &self.unsent[..portion], SendFlags::NOSIGNAL) {
            Ok(sent) => sent,
            Err(Errno::AGAIN | Errno::INTR) => 0,
            // The reading side learns of it, together with whatever the server said before.
            Err(_) => return self.unsent.clear(),
        };
        if sent == self.unsent.len() {
            self.unsent.clear();
            return self.set_interest(thread_state, self.interest & !EventFlags::OUT);
        }
        self.unsent.drain(..sent);
        if thread_state.plan.write_rate.is_some() {
            self.set_timer(thread_state, Alarm::Write);
        } else {
            self.set_interest(thread_state, self.interest | EventFlags::OUT);
        }
    }

    fn try_open(&mut self, thread_state: &mut ThreadState) -> Result<State, Errno> {
        let plan = thread_state.plan;
        let family = if plan.address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let socket = socket_with(family, SocketType::STREAM, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC, None)?;
        if let Some(source) = source(plan, thread_state.opened) {
            bind(&socket, &SocketAddr::new(source, 0))?;
        }
        thread_state.opened += 1;
        if !plan.new_connections {
            sockopt::set_tcp_nodelay(&socket, true)?;
        }
        if plan.read_rate.is_some() {
            // Or the kernel would take megabytes in advance, and no reader would be slow.
            sockopt::set_socket_recv_buffer_size(&socket, 4096)?;
        }
        let (state, interest) = match connect(&socket, &plan.address) {
            Ok(()) => (State::Open, EventFlags::IN),
            Err(Errno::INPROGRESS) => (State::Connecting, EventFlags::OUT),
            Err(error) => return Err(error),
        };
        epoll::add(&thread_state.epoll, &socket, EventData::new_u64(u64::from(self.index)), interest)?;
        self.interest = interest;
        self.socket = Some(socket);
        Ok(state)
    }

    fn finish_connecting(&mut self, thread_state: &mut ThreadState) -> Turn {
        thread_state.connecting -= 1;
        let failed = self.socket.as_ref().is_none_or(|socket| !matches!(sockopt::socket_error(socket), Ok(Ok(()))));
        if failed {
            return self.refused(thread_state);
        }
        self.set_interest(thread_state, EventFlags::IN);
        self.established(thread_state)
    }

    fn established(&mut self, thread_state: &mut ThreadState) -> Turn {
        self.state = State::Open;
        let now_ns = thread_state.shared.clock.now_ns();
        thread_state.recorder.connect.record(now_ns - self.since_ns);
        thread_state.recorder.counts.connections += 1;
        self.unsent.clear();
        for asked in &self.asked {
            self.unsent.extend_from_slice(&thread_state.plan.targets[asked.target as usize].request);
        }
        self.flush(thread_state);
        Turn::Free
    }

    fn refused(&mut self, thread_state: &mut ThreadState) -> Turn {
        self.forget_socket();
        thread_state.recorder.counts.refused += 1;
        Turn::Refused
    }

    fn receive(&mut self, thread_state: &mut ThreadState) -> Turn {
        let Some(socket) = &self.socket else { return Turn::Waits };
        let unseen = self.content_unseen(thread_state);
        let (flags, most) = match (unseen, thread_state.plan.read_rate) {
            (_, Some(rate)) => (RecvFlags::empty(), portion(rate)),
            (Some(left), None) => (RecvFlags::TRUNC, usize::try_from(left).unwrap_or(usize::MAX)),
            (None, None) => (RecvFlags::empty(), BUFFER_BYTES),
        };
        let most = most.min(BUFFER_BYTES);
        let received = match recv(socket, &mut thread_state.buffer[..most], flags) {
            Ok((_, received)) => received,
            Err(Errno::AGAIN | Errno::INTR) => return Turn::Waits,
            Err(_) => return self.broken(thread_state),
        };
        let now_ns = thread_state.shared.clock.now_ns();
        thread_state.now_ns = now_ns;
        self.deadline_ns = now_ns + thread_state.plan.timeout.as_nanos() as u64;
        if received == 0 {
            return self.ended(thread_state, now_ns);
        }
        if thread_state.plan.read_rate.is_some() {
            self.set_interest(thread_state, self.interest & !EventFlags::IN);
            self.set_timer(thread_state, Alarm::Read);
        }
        if flags == RecvFlags::TRUNC {
            return self.discarded(thread_state, received as u64, now_ns);
        }
        self.take(thread_state, received, now_ns)
    }

    /// Bytes of content that come next and are not checked, if they are worth a special call.
    fn content_unseen(&self, thread_state: &ThreadState) -> Option<u64> {
        let left = self.decoder.content_bytes_left().filter(|&left| left >= DISCARD_BYTES_MIN)?;
        let checked =
            self.asked.front().is_some_and(|asked| thread_state.plan.targets[asked.target as usize].content.is_some());
        (!checked).then_some(left)
    }

    fn discarded(&mut self, thread_state: &mut ThreadState, bytes: u64, now_ns: u64) -> Turn {
        if let Some(arriving) = &mut self.arriving {
            arriving.content_bytes += bytes;
        }
        if !self.decoder.skip(bytes) {
            return Turn::Waits;
        }
        if self.answered(thread_state, now_ns) { Turn::Free } else { self.closed_by_answer(thread_state) }
    }

    /// Takes apart what is in the buffer, behind what was held back.
    fn take(&mut self, thread_state: &mut ThreadState, received: usize, now_ns: u64) -> Turn {
        let buffer = std::mem::take(&mut thread_state.buffer);
        let turn = if self.held.is_empty() {
            self.read_responses(thread_state, &buffer[..received], now_ns)
        } else {
            let mut held = std::mem::take(&mut self.held);
            held.extend_from_slice(&buffer[..received]);
            self.read_responses(thread_state, &held, now_ns)
        };
        thread_state.buffer = buffer;
        turn
    }

    fn read_responses(&mut self, thread_state: &mut ThreadState, mut input: &[u8], now_ns: u64) -> Turn {
        let mut turn = Turn::Waits;
        while !input.is_empty() || self.decoder.content_bytes_left() == Some(0) {
            let Some(&asked) = self.asked.front() else {
                // It was not asked for: a server that says why it closes, or nonsense. Either way the connection is
                // over.
                self.close(thread_state);
                return Turn::Broken;
            };
            let is_head = thread_state.plan.targets[asked.target as usize].is_head;
            let consumed = match self.decoder.decode(input, is_head) {
                Ok(Step::Incomplete) => {
                    self.held = input.to_vec();
                    break;
                }
                Ok(Step::Head(consumed, head)) => {
                    let (status, keep_alive) = (head.status, head.keep_alive);
                    self.arriving = Some(Arriving { status, keep_alive, content_bytes: 0, wrong: false });
                    consumed
                }
                Ok(Step::Content { consumed, content }) => {
                    self.look_at(thread_state, asked.target, &input[content]);
                    consumed
                }
                Ok(Step::Ended(consumed)) => {
                    turn = Turn::Free;
                    if !self.answered(thread_state, now_ns) {
                        return self.closed_by_answer(thread_state);
                    }
                    consumed
                }
                Err(_) => {
                    thread_state.recorder.counts.malformed += self.fail_all(thread_state);
                    self.close(thread_state);
                    return Turn::Broken;
                }
            };
            input = &input[consumed..];
        }
        turn
    }

    fn look_at(&mut self, thread_state: &mut ThreadState, target: u32, content: &[u8]) {
        let Some(arriving) = &mut self.arriving else { return };
        let at = arriving.content_bytes as usize;
        arriving.content_bytes += content.len() as u64;
        let target = &thread_state.plan.targets[target as usize];
        if let Some(expected) = target.content.as_deref().filter(|_| arriving.status == 200) {
            let same = expected.get(at..at + content.len()) == Some(content);
            if !same && !arriving.wrong {
                arriving.wrong = true;
                note_wrong(&mut thread_state.first_wrong, &target.path, || first_difference(expected, content, at));
            }
        }
    }

    /// The answer to the first request is whole. Whether the connection can go on.
    fn answered(&mut self, thread_state: &mut ThreadState, now_ns: u64) -> bool {
        let (Some(arriving), Some(asked)) = (self.arriving.take(), self.asked.pop_front()) else { return false };
        thread_state.in_flight -= 1;
        let target = &thread_state.plan.targets[asked.target as usize];
        let expected = target.content.as_ref().filter(|_| arriving.status == 200 && !target.is_head);
        let short = expected.is_some_and(|expected| arriving.content_bytes < expected.len() as u64);
        if short {
            note_wrong(&mut thread_state.first_wrong, &target.path, || {
                format!("only {} bytes", arriving.content_bytes)
            });
        }
        thread_state.recorder.counts.wrong_content += u64::from(arriving.wrong || short);
        thread_state.recorder.answered(asked.due_ns, now_ns, arriving.status, arriving.content_bytes);
        self.is_settled = true;
        arriving.keep_alive && !thread_state.plan.new_connections
    }

    /// The server will not answer more on this connection. What it was asked beyond goes to the next one.
    fn closed_by_answer(&mut self, thread_state: &mut ThreadState) -> Turn {
        thread_state.recorder.counts.resent += self.asked.len() as u64;
        self.close(thread_state);
        Turn::Ended
    }

    fn ended(&mut self, thread_state: &mut ThreadState, now_ns: u64) -> Turn {
        match self.decoder.handle_end() {
            Ok(true) => {
                self.answered(thread_state, now_ns);
                self.closed_by_answer(thread_state)
            }
            _ => self.broken(thread_state),
        }
    }

    fn broken(&mut self, thread_state: &mut ThreadState) -> Turn {
        thread_state.recorder.counts.lost += self.fail_all(thread_state);
        self.close(thread_state);
        Turn::Broken
    }

    fn fail_all(&mut self, thread_state: &mut ThreadState) -> u64 {
        let count = self.asked.len();
        self.asked.clear();
        thread_state.in_flight -= count;
        count as u64
    }

    fn close(&mut self, thread_state: &mut ThreadState) {
        if self.state == State::Connecting {
            thread_state.connecting -= 1;
        }
        if self.role == Role::Idle && self.is_settled {
            thread_state.recorder.counts.idle_closed += 1;
        }
        self.forget_socket();
    }

    fn forget_socket(&mut self) {
        self.socket = None;
        self.state = State::Closed;
        self.generation = self.generation.wrapping_add(1);
        self.decoder = ResponseDecoder::new();
        self.held = Vec::new();
        self.unsent.clear();
        self.arriving = None;
    }

    fn set_interest(&mut self, thread_state: &ThreadState, interest: EventFlags) {
        let Some(socket) = self.socket.as_ref().filter(|_| interest != self.interest) else { return };
        // Cannot fail for a socket that was added, short of the kernel's memory; then the timeout ends it.
        _ = epoll::modify(&thread_state.epoll, socket.as_fd(), EventData::new_u64(u64::from(self.index)), interest);
        self.interest = interest;
    }

    fn set_timer(&self, thread_state: &mut ThreadState, alarm: Alarm) {
        let due_ns = thread_state.shared.clock.now_ns() + PORTION_NS;
        thread_state.timers.set(Timer { due_ns, connection: self.index, generation: self.generation, alarm });
    }
}

/// Bytes of one portion of a slow reader or writer.
fn portion(rate: u32) -> usize {
    (u64::from(rate) * PORTION_NS / 1_000_000_000).max(1) as usize
}

fn source(plan: &Plan, number: usize) -> Option<IpAddr> {
    plan.sources.get(number % plan.sources.len().max(1)).copied()
}

fn note_wrong(first: &mut Option<String>, path: &str, what: impl FnOnce() -> String) {
    if first.is_none() {
        *first = Some(format!("{path}: {}", what()));
    }
}

fn first_difference(expected: &[u8], content: &[u8], at: usize) -> String {
    let rest = expected.get(at..).unwrap_or_default();
    let same = rest.iter().zip(content).take_while(|(a, b)| a == b).count();
    format!("differs from byte {} on", at + same)
}
