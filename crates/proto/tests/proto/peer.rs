//! Both ends of a connection without a wire: a driver that keeps the contract of `lamna_proto::conn`, and its peer.
//!
//! Owns: what a socket, a disk and a clock would do, as plain data under the test's control ([`Habits`]). Guarantees:
//! deterministic. Checks nothing but the contract itself.

use std::collections::VecDeque;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use lamna_proto::conn::{Connection, Interest};
use lamna_proto::counter::CounterSet;
use lamna_proto::encoding::{Encoded, Malformed};
use lamna_proto::error::Refusal;
use lamna_proto::exchange::program::{Input, Program, Step};
use lamna_proto::exchange::{ContentBuffer, Done, ExchangeId, Need, Read};
use lamna_proto::held::Held;
use lamna_proto::resource::{Representation, Resource};
use lamna_proto::tally::{Abuse, BUCKETS, Tally, bound_us};
use lamna_proto::time::Instant;
use lamna_proto::transmit::{Segment, Transmit};
use lamna_proto::workspace::Workspace;

use crate::site::{LARGE_BYTES, Route, Site, pattern};

/// Values that are used one after another, for ever.
#[derive(Clone, Debug)]
pub(crate) struct Cycle<T> {
    values: Vec<T>,
    next: usize,
}

impl<T: Copy> Cycle<T> {
    /// Goes round `values`, of which there is at least one.
    pub(crate) fn new(values: Vec<T>) -> Cycle<T> {
        assert!(!values.is_empty(), "a cycle has values");
        Cycle { values, next: 0 }
    }

    fn take(&mut self) -> T {
        let value = self.values[self.next % self.values.len()];
        self.next += 1;
        value
    }
}

/// How the world around a connection behaves.
#[derive(Clone, Debug)]
pub(crate) struct Habits {
    /// Bytes of each receive, at least 1.
    pub(crate) receive_bytes: Cycle<usize>,
    /// Bytes that the socket takes of each send, at least 1.
    pub(crate) send_bytes: Cycle<usize>,
    /// Whether a need is met later.
    pub(crate) defers: Cycle<bool>,
    /// Which of the deferred needs is met next.
    pub(crate) order: Cycle<usize>,
    /// Bytes of each Read that are made ready, at least 1.
    pub(crate) ready_bytes: Cycle<u64>,
    /// Whether a Read of a file brings its bytes into memory of the connection's own.
    pub(crate) copies: Cycle<bool>,
    /// Whether the connection is parked after a step.
    pub(crate) parks: Cycle<bool>,
    /// Whether the next need is looked for before anything is sent.
    pub(crate) batches: Cycle<bool>,
    /// Whether a Read fails.
    pub(crate) fails: Cycle<bool>,
    /// Each time that nothing is left to do the connection moves to another driver, as long as there are values: so
    /// many bytes had been received ahead, or taken back from what was sent.
    pub(crate) moves: Vec<usize>,
    /// Whether that driver is in another process.
    pub(crate) travels: Cycle<bool>,
    /// So many times a connection that is parked after a step goes on in another process.
    pub(crate) hops: usize,
}

impl Default for Habits {
    /// A world that never waits.
    fn default() -> Habits {
        Habits {
            receive_bytes: Cycle::new(vec![usize::MAX]),
            send_bytes: Cycle::new(vec![usize::MAX]),
            defers: Cycle::new(vec![false]),
            order: Cycle::new(vec![0]),
            ready_bytes: Cycle::new(vec![u64::MAX]),
            copies: Cycle::new(vec![false]),
            parks: Cycle::new(vec![false]),
            batches: Cycle::new(vec![true]),
            fails: Cycle::new(vec![false]),
            moves: Vec::new(),
            travels: Cycle::new(vec![false]),
            hops: 0,
        }
    }
}

/// What was reported for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Report {
    /// Method and target, if the head could be read.
    pub(crate) request: Option<String>,
    pub(crate) status: u16,
    pub(crate) content_bytes: u64,
}

impl Report {
    /// Whether the response has no content because of the method.
    pub(crate) fn is_head(&self) -> bool {
        self.request.as_ref().is_some_and(|request| request.starts_with("HEAD "))
    }
}

/// A need that is to be met later, with what it takes.
#[derive(Debug)]
enum Deferred {
    Resolve(Arc<Resource>),
    Refuse(Refusal),
    Begin(Box<dyn Program>),
    Step { program: Box<dyn Program>, content: Vec<u8>, is_last: bool, room: bool },
    Read { representation: Arc<Representation>, offset: u64, length: u64 },
}

/// More requests than any conversation here has.
const NAMES_MAX: u32 = 10_000;

/// A connection, its driver and its peer.
pub(crate) struct Peer {
    pub(crate) connection: Connection,
    pub(crate) habits: Habits,
    pub(crate) now: Instant,
    /// All bytes that arrived at the peer.
    pub(crate) output: Vec<u8>,
    pub(crate) reports: Vec<Report>,
    /// When the head of each reported request had been received, and when the last byte of its answer left.
    pub(crate) spans: Vec<(Instant, Instant)>,
    /// Host, path and query of each resolution.
    pub(crate) asked: Vec<(Option<String>, String, Option<String>)>,
    /// The most that the connection held while parked, in bytes.
    pub(crate) memory_bytes_max: usize,
    /// Whether the socket takes bytes at all.
    pub(crate) reads_answers: bool,
    /// Whether a buffer takes what the socket is offered, which `flush` empties.
    pub(crate) has_buffer: bool,
    /// Whether what is needed was foreseen.
    foresees: bool,
    site: &'static Site,
    tally: Arc<Tally>,
    workspace: Option<Box<Workspace>>,
    /// Sent by the peer and not yet received.
    socket: VecDeque<u8>,
    deferred: Vec<(ExchangeId, Deferred)>,
    /// Those whose program's socket is waited for.
    sockets: VecDeque<ExchangeId>,
    /// The connection has come to another process, where its needs have to be asked for again.
    hopped: bool,
}

// What the peer does.
impl Peer {
    pub(crate) fn new(habits: Habits) -> Peer {
        let site = Site::shared();
        let mut workspace = site.workspace();
        workspace.keep_requests();
        workspace.speak_h2c();
        let tally = Arc::<Tally>::default();
        workspace.count_in(tally.clone());
        let now = Instant::from_ms(1_000);
        Peer {
            connection: Connection::new(now),
            habits,
            now,
            output: Vec::new(),
            reports: Vec::new(),
            spans: Vec::new(),
            asked: Vec::new(),
            memory_bytes_max: 0,
            reads_answers: true,
            has_buffer: false,
            foresees: false,
            site,
            tally,
            workspace: Some(workspace),
            socket: VecDeque::new(),
            deferred: Vec::new(),
            sockets: VecDeque::new(),
            hopped: false,
        }
    }

    /// Sends bytes, and lets everything happen that does not wait for a deferred need.
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) -> &mut Peer {
        self.socket.extend(bytes.as_ref());
        self.run();
        self
    }

    /// The driver goes on with another connection, whatever has become of the one that it had.
    pub(crate) fn adopt(&mut self, connection: Connection) {
        self.deferred.clear();
        self.habits.moves.clear();
        self.connection = connection;
        self.run();
    }

    /// Closes the peer's side.
    pub(crate) fn end(&mut self) -> &mut Peer {
        self.connection.handle_end();
        self.run();
        self
    }

    /// The peer is gone.
    pub(crate) fn break_off(&mut self) -> &mut Peer {
        self.connection.handle_broken();
        self.run();
        self
    }

    /// Sends bytes, meets all deferred needs, and goes on until nothing is left to do.
    pub(crate) fn converse(&mut self, bytes: impl AsRef<[u8]>) -> &mut Peer {
        self.send(bytes).settle()
    }

    /// Meets all deferred needs, and goes on until nothing is left to do.
    pub(crate) fn settle(&mut self) -> &mut Peer {
        self.run();
        while self.meet_next() || self.meet_socket() || self.wait() {
            self.run();
        }
        self
    }

    /// What a program waits for at its socket is there. False if none does.
    pub(crate) fn meet_socket(&mut self) -> bool {
        let Some(id) = self.sockets.pop_front() else { return false };
        self.connection.handle_socket(id);
        true
    }

    /// Waits as long as a program wants to. False if none does.
    fn wait(&mut self) -> bool {
        let Interest { send, done, .. } = self.interest();
        let is_late = done && (!send || self.reads_answers) && !self.connection.is_running();
        let until = self.connection.poll_timeout(self.site.limits()).filter(|_| is_late);
        if until.is_some() {
            self.time_out();
        }
        until.is_some()
    }

    /// The output since the last call, as text.
    pub(crate) fn take_output(&mut self) -> String {
        String::from_utf8(std::mem::take(&mut self.output)).expect("the tests' content is ASCII")
    }
}

// What the driver does.
impl Peer {
    pub(crate) fn interest(&self) -> Interest {
        self.connection.interest()
    }

    /// Bytes that the peer has sent and that have not been received.
    pub(crate) fn unreceived(&self) -> usize {
        self.socket.len()
    }

    /// The socket takes bytes once, whatever it does otherwise.
    pub(crate) fn run_once(&mut self) {
        let reads_answers = std::mem::replace(&mut self.reads_answers, true);
        self.lend();
        self.poll();
        self.reads_answers = reads_answers;
        self.park();
    }

    /// The buffer before the socket is empty.
    pub(crate) fn flush(&mut self) {
        let now = self.now;
        self.driven(|connection| connection.handle_left(now));
    }

    /// How many answers have taken so long, as they are counted: by the bounds of their buckets, in microseconds.
    pub(crate) fn durations(&self) -> Vec<(u64, u64)> {
        let taken = Tally::default();
        self.tally.hand_over(&taken);
        let durations = taken.durations[..BUCKETS].iter().map(|count| count.load(Relaxed));
        let counted = durations.enumerate().filter(|(_, count)| *count > 0);
        counted.map(|(index, count)| (bound_us(index).unwrap_or(u64::MAX), count)).collect()
    }

    pub(crate) fn deferred_count(&self) -> usize {
        self.deferred.len()
    }

    /// Milliseconds until the wait is over.
    pub(crate) fn timeout_ms(&self) -> Option<u64> {
        let until = self.connection.poll_timeout(self.site.limits())?;
        Some(until.since(self.now))
    }

    /// Waits until the timeout, and says so.
    pub(crate) fn time_out(&mut self) -> &mut Peer {
        self.now = self.connection.poll_timeout(self.site.limits()).unwrap_or(self.now);
        let now = self.now;
        self.driven(|connection| connection.handle_timeout(now));
        self.run();
        self
    }

    /// How often the peer has done this.
    pub(crate) fn counted(&self, abuse: Abuse) -> u64 {
        self.tally.abuses(abuse)
    }

    pub(crate) fn drain(&mut self) -> &mut Peer {
        self.driven(Connection::drain);
        self.run();
        self
    }

    /// From now on the workspace drains what it is lent to.
    pub(crate) fn drain_worker(&mut self) -> &mut Peer {
        self.workspace.as_mut().expect("between two calls the connection is parked").drain();
        self.run();
        self
    }

    /// From now on clients of HTTP/2 are told of tunnels.
    pub(crate) fn offer_tunnels(&mut self) {
        self.workspace.as_mut().expect("between two calls the connection is parked").offer_tunnels();
    }

    /// All connections together hold as much as they may, or no longer.
    pub(crate) fn press(&mut self, is_over_budget: bool) {
        self.workspace.as_mut().expect("between two calls the connection is parked").handle_pressure(is_over_budget);
    }

    /// What the connection holds counts in this from now on.
    pub(crate) fn count_held(&mut self) -> Arc<Held> {
        let held = Arc::new(Held::default());
        let workspace = self.workspace.as_mut().expect("between two calls the connection is parked");
        workspace.count_held_in(held.clone());
        held
    }

    /// Meets the deferred need that is next in `Habits::order`. False if there is none.
    pub(crate) fn meet_next(&mut self) -> bool {
        if self.deferred.is_empty() {
            return false;
        }
        let index = self.habits.order.take() % self.deferred.len();
        self.meet(index);
        true
    }

    /// Meets one of the deferred needs, the oldest being 0.
    pub(crate) fn meet(&mut self, index: usize) {
        let (id, deferred) = self.deferred.remove(index);
        self.lend();
        self.carry_out(id, deferred);
        self.take_reports();
        self.run();
    }

    /// An answer to a need of an exchange that is gone, or never was: each exchange that is gone has been reported, and
    /// names are given in turn. One that waits for its turn would be answered twice, which no driver does.
    pub(crate) fn meet_unknown(&mut self, id: u32) {
        let now = self.now;
        let is_gone = id as usize <= self.reports.len() || id > NAMES_MAX;
        if is_gone && self.deferred.iter().all(|(known, _)| *known != ExchangeId(id)) {
            self.driven(|connection| connection.handle_done(ExchangeId(id), Done::Failed, now));
        }
    }

    /// Goes on until the connection waits for something that has not happened, and parks it.
    pub(crate) fn run(&mut self) {
        self.lend();
        loop {
            let before = self.output.len();
            if self.reads_answers {
                self.connection.handle_writable();
            }
            self.poll();
            if std::mem::take(&mut self.hopped) {
                continue;
            }
            let progressed = !self.interest().send || !self.reads_answers || self.output.len() > before;
            assert!(progressed, "stuck");
            let waits_for_input = self.interest().receive;
            if self.interest().send && self.reads_answers {
                continue;
            }
            if !waits_for_input || self.socket.is_empty() {
                break;
            }
            self.receive();
        }
        self.park();
        let is_woken = self.reads_answers || !self.interest().send;
        assert!(!is_woken || self.connection.standstill().is_none(), "{:?}", self.connection.standstill());
        // A connection stays where a step of a program of it is carried out.
        if !self.connection.is_running()
            && let Some(bytes) = self.habits.moves.pop()
        {
            self.move_on(bytes);
            self.run();
        }
    }

    /// Another driver takes over, and knows nothing of what this one has deferred.
    fn move_on(&mut self, bytes: usize) {
        self.deferred.clear();
        self.sockets.clear();
        match self.habits.travels.take() {
            true if self.connection.is_transferable() => self.travel(),
            _ => self.connection.recall_needs(),
        }
        let received: Vec<u8> = self.socket.drain(..bytes.min(self.socket.len())).collect();
        self.connection.return_received(&received, self.now);
        if self.reads_answers {
            let unsent = self.output.split_off(self.output.len().saturating_sub(bytes));
            self.connection.return_unsent(&unsent);
            if !self.interest().send {
                // Nobody sends what remained when the connection broke: to the peer it has been sent.
                self.output.extend(unsent);
            }
        }
    }

    /// The connection goes to another process.
    fn travel(&mut self) {
        let interest = self.interest();
        let encoded = self.connection.encode().expect("it can travel");
        let arrived = decode(&encoded, self.site).expect("what was encoded can be decoded");
        assert_eq!(arrived.encode().map(|one| one.bytes).as_ref(), Some(&encoded.bytes), "nothing is lost on the way");
        self.connection = arrived;
        // What was ready to be sent is to be made ready again, and what a request whose content is awaited stands for
        // is to be found again.
        let may_need = interest == Interest::SEND || self.interest() == Interest::DONE;
        assert!(
            may_need || self.interest() == interest,
            "travelling changes nothing: {interest:?} {:?}",
            self.interest()
        );
    }

    fn driven(&mut self, step: impl FnOnce(&mut Connection)) {
        self.lend();
        step(&mut self.connection);
        self.take_reports();
        self.park();
    }

    fn receive(&mut self) {
        let wanted = self.habits.receive_bytes.take().min(self.socket.len());
        let space = self.connection.receive_space();
        assert!(!space.is_empty(), "what waits for bytes has room for them");
        let bytes = wanted.min(space.len());
        for (place, byte) in space.iter_mut().zip(self.socket.drain(..bytes)) {
            *place = byte;
        }
        self.connection.handle_received(bytes, self.now);
    }

    /// Polls until there is nothing more, or the socket takes less than it is offered.
    fn poll(&mut self) {
        loop {
            let mut needed = false;
            while self.poll_need() {
                needed = true;
                self.may_park();
                if !self.habits.batches.take() {
                    break;
                }
            }
            while let Some((id, wait)) = self.connection.poll_socket() {
                assert!(wait.readable || wait.writable, "it is waited for something");
                if self.habits.defers.take() {
                    self.sockets.push_back(id);
                } else {
                    self.connection.handle_socket(id);
                    needed = true;
                }
            }
            let sent = self.poll_transmit();
            self.may_park();
            if sent == Sent::Part || (sent == Sent::Nothing && !needed) {
                return;
            }
        }
    }

    fn poll_need(&mut self) -> bool {
        // Every other time, so that it is seen to change nothing.
        self.foresees = !self.foresees;
        let foreseen = if self.foresees { self.connection.peek_requested() } else { None };
        let foreseen = foreseen.map(|requested| requested.path_and_query.to_vec());
        let Some((id, need)) = self.connection.poll_need() else {
            assert_eq!(foreseen, None, "what is foreseen is needed");
            self.take_reports();
            return false;
        };
        let (mut is_hinted, mut has_next) = (false, false);
        let deferred = match need {
            Need::Resolve(requested) => {
                is_hinted = requested.query.is_some_and(|query| query.starts_with(b"links"));
                has_next = requested.query.is_some_and(|query| query.starts_with(b"later"));
                assert!(foreseen.is_none_or(|path_and_query| path_and_query == requested.path_and_query));
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                self.asked.push((requested.host.map(text), text(requested.path), requested.query.map(text)));
                match self.site.route(&requested) {
                    Route::Resource(resource) => Deferred::Resolve(resource.clone()),
                    Route::Refused(refusal) => Deferred::Refuse(refusal),
                    Route::Program(program) => Deferred::Begin(program),
                }
            }
            Need::Read(Read { representation, offset, length }) => {
                Deferred::Read { representation: representation.clone(), offset, length }
            }
            Need::Run => {
                let Some(Step { program, input: Input { content, is_last, room, .. } }) =
                    self.connection.step(id, self.now)
                else {
                    self.take_reports();
                    return true;
                };
                Deferred::Step { program, content: content.to_vec(), is_last, room }
            }
        };
        if is_hinted {
            self.connection.give_early_hints(id, self.site.links.iter());
        }
        if has_next {
            self.connection.give_link(id, &self.site.next);
        }
        if self.habits.defers.take() {
            if !matches!(deferred, Deferred::Step { .. }) {
                self.connection.defer(id);
            }
            self.deferred.push((id, deferred));
        } else {
            self.carry_out(id, deferred);
        }
        self.take_reports();
        true
    }

    fn carry_out(&mut self, id: ExchangeId, deferred: Deferred) {
        let done = match &deferred {
            Deferred::Resolve(resource) => Done::Resolved(resource),
            Deferred::Refuse(refusal) => Done::Refused(*refusal),
            Deferred::Begin(_) | Deferred::Step { .. } => return self.run_program(id, deferred),
            Deferred::Read { .. } if self.habits.fails.take() => Done::Failed,
            Deferred::Read { representation, offset, length } => {
                assert!(*length > 0 && offset + length <= representation.size, "a Read lies within the content");
                if !is_as_described(representation) {
                    return self.connection.handle_done(id, Done::Failed, self.now);
                }
                if representation.file.is_none() {
                    representation.fill(&pattern(representation.size as usize));
                }
                let ready = self.habits.ready_bytes.take().clamp(1, *length);
                if let Some(file) = representation.file.as_deref().filter(|_| self.habits.copies.take()) {
                    let buffer: Arc<dyn ContentBuffer> = Arc::new(Copied::of(file, *offset, ready));
                    return self.connection.handle_done(id, Done::Content(&buffer), self.now);
                }
                Done::Ready(ready)
            }
        };
        self.connection.handle_done(id, done, self.now);
    }

    fn run_program(&mut self, id: ExchangeId, deferred: Deferred) {
        match deferred {
            Deferred::Begin(program) => self.connection.handle_done(id, Done::Run(program), self.now),
            Deferred::Step { mut program, content, is_last, room } => {
                let step_result = program.run(Input { content: &content, is_last, room, now: self.now });
                self.connection.handle_step_result(id, program, step_result, self.now);
            }
            _ => unreachable!("nothing else is a program's"),
        }
    }

    fn poll_transmit(&mut self) -> Sent {
        let limit = if self.reads_answers { self.habits.send_bytes.take() } else { 0 };
        let buffer = self.connection.segment_buffer();
        let Some(transmit) = self.connection.poll_transmit() else {
            return Sent::Nothing;
        };
        let is_in_memory = matches!(transmit.segment, Some(Segment::Shared(_)));
        assert_eq!(buffer.is_some(), is_in_memory, "what is sent from memory is held by somebody");
        if let (Some((buffer, offset)), Some(Segment::Shared(content))) = (&buffer, &transmit.segment) {
            let at = *offset as usize;
            assert_eq!(&buffer.bytes()[at..at + content.len()], *content);
        }
        let owed = transmit.bytes.len() as u64 + transmit.segment.as_ref().map_or(0, Segment::length);
        assert!(owed > 0, "a transmit is not empty");
        let offered = bytes_of(&transmit, limit);
        let all = offered.len() as u64 == owed;
        match self.has_buffer {
            true => self.connection.handle_taken(offered.len() as u64, self.now),
            false => self.connection.handle_sent(offered.len() as u64, self.now),
        }
        self.output.extend(offered);
        self.take_reports();
        if all { Sent::All } else { Sent::Part }
    }

    fn take_reports(&mut self) {
        while let Some(answered) = self.connection.poll_answered() {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let request = answered.request.map(|one| text(one.method_token()) + " " + &text(one.target()));
            let (status, content_bytes) = (answered.status, answered.content_bytes);
            self.spans.push((answered.started, answered.ended));
            self.reports.push(Report { request, status, content_bytes });
        }
    }

    fn may_park(&mut self) {
        if self.habits.parks.take() {
            self.park();
            if self.habits.hops > 0 && self.connection.is_transferable() {
                self.habits.hops -= 1;
                self.deferred.clear();
                self.travel();
                self.hopped = true;
            }
            self.lend();
        }
    }

    fn lend(&mut self) {
        if let Some(workspace) = self.workspace.take() {
            self.connection.lend(workspace);
        }
    }

    fn park(&mut self) {
        if self.workspace.is_some() {
            return;
        }
        self.take_reports();
        let interest = self.interest();
        self.workspace = Some(self.connection.reclaim());
        assert_eq!(self.interest(), interest, "parking changes nothing");
        self.memory_bytes_max = self.memory_bytes_max.max(self.connection.memory_bytes());
    }
}

#[derive(PartialEq, Eq)]
enum Sent {
    Nothing,
    Part,
    All,
}

/// Whether a file is as long as its representation says, and content that is nowhere yet is not more than there is.
fn is_as_described(representation: &Representation) -> bool {
    let length = |file: &OwnedFd| File::from(file.try_clone().expect("there are descriptors")).metadata();
    match &representation.file {
        Some(file) => length(file).is_ok_and(|found| found.len() == representation.size),
        None => representation.size <= LARGE_BYTES as u64,
    }
}

/// Bytes of a file in memory.
#[derive(Debug)]
struct Copied(Vec<u8>);

impl Copied {
    fn of(file: &OwnedFd, offset: u64, length: u64) -> Copied {
        let file = File::from(file.try_clone().expect("there are descriptors"));
        let mut bytes = vec![0; usize::try_from(length).expect("it fits into memory")];
        file.read_exact_at(&mut bytes, offset).expect("the file is as described");
        Copied(bytes)
    }
}

impl ContentBuffer for Copied {
    fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn own_bytes(&self) -> usize {
        self.0.capacity()
    }
}

/// What arrives of an encoded connection.
pub(crate) fn decode(encoded: &Encoded, site: &Site) -> Result<Connection, Malformed> {
    let duplicate = |file: &Arc<OwnedFd>| file.try_clone().expect("there are descriptors");
    Connection::decode(&encoded.bytes, encoded.files.iter().map(duplicate).collect(), site.pages())
}

/// The first bytes of a transmit, at most `limit` of them.
pub(crate) fn bytes_of(transmit: &Transmit<'_>, limit: usize) -> Vec<u8> {
    let mut bytes = transmit.bytes[..transmit.bytes.len().min(limit)].to_vec();
    let room = limit - bytes.len();
    match transmit.segment {
        Some(Segment::Shared(content)) => bytes.extend_from_slice(&content[..content.len().min(room)]),
        Some(Segment::File { file, offset, length, .. }) => {
            assert!(length > 0, "a segment is not empty");
            let mut content = vec![0; usize::try_from(length).map_or(room, |length| length.min(room))];
            let file = File::from(file.try_clone().expect("the file is open"));
            file.read_exact_at(&mut content, offset).expect("the file is as long as it is said to be");
            bytes.extend_from_slice(&content);
        }
        None => {}
    }
    bytes
}
