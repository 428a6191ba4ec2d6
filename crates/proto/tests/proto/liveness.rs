//! Whatever can go on does: connections with streams, programs and uploads of every kind between a client and a driver
//! that wait as real ones do, in an order that a seed decides. They always come to the end, and at every rest something
//! is there that wakes them.
//!
//! Owns: pipes with little room, a driver that is told of changes only (as `epoll` edge-triggered tells), and a client
//! that stops reading and goes on. What is deferred is met in any order; sockets of programs become ready at any time;
//! frames and heads are cut anywhere. A run that does not come to its end prints its seed: `LAMNA_SEED=7 cargo test -p
//! lamna-proto liveness` runs it alone, `LAMNA_SEEDS=10000` so many.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, OnceLock};

use lamna_proto::conn::{Connection, Fate};
use lamna_proto::exchange::program::{Holds, Input, Next, Part, Program, Step, StepResult, StreamHead};
use lamna_proto::exchange::{ContentBuffer, Done, ExchangeId, Need, Read};
use lamna_proto::message::Status;
use lamna_proto::resource::{Representation, Resource};
use lamna_proto::time::Instant;
use lamna_proto::workspace::Workspace;

use crate::http2_client::{ACK, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PREFACE, RST_STREAM, SETTINGS};
use crate::http2_client::{WINDOW_UPDATE, frame, setting};
use crate::peer::bytes_of;
use crate::script::{Bytes, alive};
use crate::site::{FILE_BYTES, LARGE_BYTES, Route, SMALL, Site, pattern};

/// Runs by default.
const SEEDS: u64 = 400;
/// More than any run takes.
const ACTIONS_MAX: usize = 200_000;
/// No program here waits longer for a moment; whatever does is a peer's patience.
const WAIT_MS_MAX: u64 = 2_000;

/// A generator of numbers that look random: SplitMix64.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    /// True once in so many times.
    fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// Small and large ones.
    fn size(&mut self, most: usize) -> usize {
        let shift = self.below(16);
        1 + self.below((1 << shift).min(most.max(1)))
    }
}

/// An answer that is received from elsewhere as fast as it comes, whether there is room for it or not: as kept answers
/// are.
#[derive(Debug)]
struct Ahead {
    dice: u64,
    left: usize,
    made: usize,
    has_begun: bool,
    parts: VecDeque<Part>,
    next: Next,
}

impl Ahead {
    fn next(&mut self) -> Next {
        let is_over = self.has_begun && self.left == 0;
        self.next = Next { room: !self.parts.is_empty(), readable: !is_over, ..Next::default() };
        self.next
    }

    /// What comes from elsewhere, if anything has.
    fn receive(&mut self) -> Option<Part> {
        let mut dice = Dice(self.dice);
        let bytes = dice.size(9_000).min(self.left);
        let has_come = !dice.once_in(3);
        self.dice = dice.0;
        if !has_come {
            return None;
        }
        let head = StreamHead {
            status: Status(200),
            reason: None,
            fields: Vec::new(),
            length: Some(self.left as u64),
            tunnels: false,
        };
        let content = pattern(self.made + bytes).split_off(self.made);
        (self.left, self.made) = (self.left - bytes, self.made + bytes);
        let head = (!std::mem::replace(&mut self.has_begun, true)).then_some(head);
        let content = Some(Arc::new(Bytes(content)) as Arc<dyn ContentBuffer>);
        Some(Part { head, content, end: (self.left == 0).then(Vec::new), ..Part::default() })
    }
}

impl Program for Ahead {
    fn content_bytes_max(&self) -> u64 {
        1_000
    }

    fn holds(&self) -> Holds {
        Holds::default()
    }

    fn run(&mut self, Input { room, .. }: Input<'_>) -> StepResult {
        if room && let Some(part) = self.parts.pop_front() {
            return StepResult::Gives(Box::new(part), self.next());
        }
        if self.left > 0 || !self.has_begun {
            let part = self.receive();
            match part {
                Some(part) if room => return StepResult::Gives(Box::new(part), self.next()),
                part => self.parts.extend(part),
            }
        }
        StepResult::Waits(self.next())
    }

    fn socket(&self) -> Option<BorrowedFd<'_>> {
        static ELSEWHERE: OnceLock<File> = OnceLock::new();
        Some(ELSEWHERE.get_or_init(|| File::open("/dev/null").expect("it is there")).as_fd())
    }
}

/// What is asked, and what has to come back.
struct Asked {
    method: &'static str,
    target: String,
    content: Vec<u8>,
    expected: Vec<u8>,
}

fn ask(dice: &mut Dice, content_max: usize) -> Asked {
    let get = |target: String, expected: Vec<u8>| Asked { method: "GET", target, content: Vec::new(), expected };
    let (one, other) = (dice.size(40_000), dice.size(40_000));
    let wait = ["", "w.", "u.", "w.w."][dice.below(4)];
    let content = pattern(dice.below(content_max));
    match dice.below(12) {
        0 => get("/small".into(), SMALL.to_vec()),
        1 => get("/large".into(), pattern(LARGE_BYTES)),
        2 => get("/file".into(), pattern(FILE_BYTES)),
        3 => get("/lazy".into(), pattern(5_000)),
        4 => get("/empty".into(), Vec::new()),
        5 => get(format!("/stream?{wait}h.c{one}.{wait}c{other}.e"), pattern(one + other)),
        6 => get(format!("/stream?i.{wait}h{}.c{one}.c{other}.{wait}e", one + other), pattern(one + other)),
        7 => Asked { method: "POST", target: "/stream?h.x.e".into(), expected: content.clone(), content },
        8 => Asked { method: "POST", target: format!("/stream?{wait}d.h.c{one}.e"), expected: pattern(one), content },
        _ => get(format!("/ahead?{}", one + other), pattern(one + other)),
    }
}

/// A direction of a wire, with little room.
struct Pipe {
    bytes: VecDeque<u8>,
    bytes_max: usize,
}

impl Pipe {
    fn room(&self) -> usize {
        self.bytes_max - self.bytes.len()
    }
}

/// A need that is met later.
enum Deferred {
    Resolve(Arc<Resource>),
    Begin(Box<dyn Program>),
    Step { program: Box<dyn Program>, content: Vec<u8>, is_last: bool, room: bool },
    Read { representation: Arc<Representation>, length: u64 },
}

/// A connection and its driver, as the event loops are.
struct Driver {
    connection: Connection,
    workspace: Option<Box<Workspace>>,
    now: Instant,
    readable: bool,
    writable: bool,
    is_queued: bool,
    is_over: bool,
    deferred: Vec<(ExchangeId, Deferred)>,
    sockets: Vec<ExchangeId>,
}

/// The whole.
struct World {
    dice: Dice,
    to_server: Pipe,
    to_client: Pipe,
    has_input_event: bool,
    has_room_event: bool,
    driver: Driver,
    client: Client,
    is_reading: bool,
    /// The client ends its side behind what it asks.
    ends: bool,
    has_ended: bool,
}

/// Of either version.
struct Client {
    is_http2: bool,
    asked: Vec<Asked>,
    /// Frames of each stream that are to be sent, in order; of HTTP/1.1 all are of the first.
    frames: Vec<VecDeque<Vec<u8>>>,
    outgoing: VecDeque<u8>,
    received: Vec<u8>,
    got: BTreeMap<u32, (Vec<u8>, bool)>,
    /// Content that no window has been opened for yet.
    owed: BTreeMap<u32, u32>,
}

impl Client {
    fn new(dice: &mut Dice, is_http2: bool) -> Client {
        let count = 1 + dice.below(8);
        let asked: Vec<Asked> = (0..count).map(|_| ask(dice, 60_000 / count)).collect();
        let mut client = Client {
            is_http2,
            frames: Vec::new(),
            outgoing: VecDeque::new(),
            received: Vec::new(),
            got: BTreeMap::new(),
            owed: BTreeMap::new(),
            asked,
        };
        if is_http2 {
            let window = [1_500, 16_384, 65_535, 200_000][dice.below(4)];
            client.outgoing.extend([PREFACE, &frame(SETTINGS, 0, 0, &setting(4, window))].concat());
        }
        for at in 0..client.asked.len() {
            let frames = if is_http2 { client.streams_frames(dice, at) } else { client.request(dice, at) };
            match client.frames.first_mut().filter(|_| !is_http2) {
                Some(first) => first.extend(frames),
                None => client.frames.push(frames),
            }
        }
        client
    }

    fn request(&self, dice: &mut Dice, at: usize) -> VecDeque<Vec<u8>> {
        let Asked { method, target, content, .. } = &self.asked[at];
        let mut head = format!("{method} {target} HTTP/1.1\r\nHost: a\r\n");
        let is_chunked = *method == "POST" && dice.once_in(2);
        match is_chunked {
            true => head += "Transfer-Encoding: chunked\r\n\r\n",
            false if *method == "POST" => head += &format!("Content-Length: {}\r\n\r\n", content.len()),
            false => head += "\r\n",
        }
        let mut frames = VecDeque::from([head.into_bytes()]);
        let mut rest = &content[..];
        while !rest.is_empty() {
            let (piece, behind) = rest.split_at(dice.size(20_000).min(rest.len()));
            rest = behind;
            let chunk = [format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat();
            frames.push_back(if is_chunked { chunk } else { piece.to_vec() });
        }
        frames.extend(is_chunked.then(|| b"0\r\n\r\n".to_vec()));
        frames
    }

    fn streams_frames(&self, dice: &mut Dice, at: usize) -> VecDeque<Vec<u8>> {
        let Asked { method, target, content, .. } = &self.asked[at];
        let (id, mut block) = (1 + 2 * at as u32, Vec::new());
        for (name, value) in [(":method", *method), (":scheme", "http"), (":authority", "a"), (":path", target)] {
            block.extend([&[0, name.len() as u8], name.as_bytes(), &[value.len() as u8], value.as_bytes()].concat());
        }
        let ends = *method == "GET" || content.is_empty() && dice.once_in(2);
        let flags = END_HEADERS | if ends { END_STREAM } else { 0 };
        let mut frames = VecDeque::from([frame(HEADERS, flags, id, &block)]);
        let mut rest = &content[..];
        if ends {
            return frames;
        }
        loop {
            let (piece, behind) = rest.split_at(dice.size(16_000).min(rest.len()));
            rest = behind;
            let is_last = rest.is_empty() && dice.once_in(2);
            frames.push_back(frame(DATA, if is_last { END_STREAM } else { 0 }, id, piece));
            if is_last {
                return frames;
            }
        }
    }

    /// Takes what has come, and opens windows for it sooner or later.
    fn take(&mut self, bytes: impl Iterator<Item = u8>) {
        self.received.extend(bytes);
        if !self.is_http2 {
            return;
        }
        while let Some(head) = self.received.first_chunk::<9>() {
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            let (kind, flags) = (head[3], head[4]);
            let id = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
            if self.received.len() < 9 + length {
                return;
            }
            let payload: Vec<u8> = self.received.drain(..9 + length).skip(9).collect();
            assert!(!matches!(kind, RST_STREAM | GOAWAY), "{kind} {payload:?}");
            match kind {
                SETTINGS if flags & ACK == 0 => self.outgoing.extend(frame(SETTINGS, ACK, 0, &[])),
                DATA | HEADERS => {
                    let (content, ended) = self.got.entry(id).or_default();
                    assert!(!*ended, "nothing comes behind the end");
                    *ended = flags & END_STREAM != 0;
                    if kind == DATA {
                        content.extend(&payload);
                        [0, id].into_iter().for_each(|id| *self.owed.entry(id).or_default() += length as u32);
                    }
                }
                _ => {}
            }
        }
    }

    /// Opens windows by what was taken. Few bytes at a time are an abuse.
    fn open_windows(&mut self) {
        for (id, owed) in self.owed.iter_mut().filter(|(_, owed)| **owed >= 700) {
            self.outgoing.extend(frame(WINDOW_UPDATE, 0, *id, &std::mem::take(owed).to_be_bytes()));
        }
    }

    /// Whether all answers have come; panics if one is wrong.
    fn is_served(&self) -> bool {
        let expected = self.asked.iter().map(|asked| &asked.expected);
        if self.is_http2 {
            let got = |at: usize| self.got.get(&(1 + 2 * at as u32)).filter(|(_, ended)| *ended);
            return expected.enumerate().all(|(at, expected)| {
                got(at).is_some_and(|(content, _)| {
                    assert!(content == expected, "{}: {} of {}", self.asked[at].target, content.len(), expected.len());
                    true
                })
            });
        }
        let (responses, rest) = crate::responses::read(&self.received, |_| false);
        for (response, asked) in responses.iter().zip(&self.asked) {
            assert!(response.content == asked.expected, "{}: {}", asked.target, response.content.len());
        }
        responses.len() == self.asked.len() && rest.is_empty()
    }
}

impl Driver {
    fn lend(&mut self) {
        self.connection.lend(self.workspace.take().expect("it is parked"));
    }

    fn park(&mut self) {
        while self.connection.poll_answered().is_some() {}
        self.workspace = Some(self.connection.reclaim());
    }

    fn meet_needs(&mut self, dice: &mut Dice) {
        while let Some((id, need)) = self.connection.poll_need() {
            let deferred = match need {
                Need::Resolve(requested) if requested.path == b"/ahead" => {
                    let text = String::from_utf8_lossy(requested.query.unwrap_or_default()).into_owned();
                    let left = text.parse().expect("it is a number");
                    let (dice, parts, next) = (dice.next(), VecDeque::new(), Next::default());
                    Deferred::Begin(Box::new(Ahead { dice, left, made: 0, has_begun: false, parts, next }))
                }
                Need::Resolve(requested) => match Site::shared().route(&requested) {
                    Route::Resource(resource) => Deferred::Resolve(resource.clone()),
                    Route::Program(program) => Deferred::Begin(program),
                    Route::Refused(refusal) => panic!("{refusal:?}"),
                },
                Need::Read(Read { representation, length, .. }) => {
                    Deferred::Read { representation: representation.clone(), length }
                }
                Need::Run => {
                    let Some(Step { program, input }) = self.connection.step(id, self.now) else { continue };
                    let Input { content, is_last, room, .. } = input;
                    Deferred::Step { program, content: content.to_vec(), is_last, room }
                }
            };
            if dice.once_in(2) {
                if !matches!(deferred, Deferred::Step { .. }) {
                    self.connection.defer(id);
                }
                self.deferred.push((id, deferred));
            } else {
                self.carry_out(id, deferred, dice);
            }
        }
    }

    fn carry_out(&mut self, id: ExchangeId, deferred: Deferred, dice: &mut Dice) {
        let now = self.now;
        match deferred {
            Deferred::Resolve(resource) => self.connection.handle_done(id, Done::Resolved(&resource), now),
            Deferred::Begin(program) => self.connection.handle_done(id, Done::Run(program), now),
            Deferred::Step { mut program, content, is_last, room } => {
                let step_result = program.run(Input { content: &content, is_last, room, now });
                self.connection.handle_step_result(id, program, step_result, now);
            }
            Deferred::Read { representation, length } => {
                if representation.file.is_none() {
                    representation.fill(&pattern(representation.size as usize));
                }
                let ready = dice.size(length as usize).min(length as usize) as u64;
                self.connection.handle_done(id, Done::Ready(ready), now);
            }
        }
    }
}

impl World {
    fn new(seed: u64) -> World {
        let mut dice = Dice(seed);
        let is_http2 = !dice.once_in(3);
        let client = Client::new(&mut dice, is_http2);
        let mut workspace = Site::shared().workspace();
        workspace.speak_h2c();
        let mut pipe = || Pipe { bytes: VecDeque::new(), bytes_max: 200 + dice.size(60_000) };
        let (to_server, to_client) = (pipe(), pipe());
        let now = Instant::from_ms(1_000);
        let driver = Driver {
            connection: Connection::new(now),
            workspace: Some(workspace),
            now,
            readable: true,
            writable: true,
            is_queued: false,
            is_over: false,
            deferred: Vec::new(),
            sockets: Vec::new(),
        };
        let ends = !is_http2 && dice.once_in(3);
        World {
            dice,
            to_server,
            to_client,
            has_input_event: true,
            has_room_event: false,
            driver,
            client,
            is_reading: true,
            ends,
            has_ended: false,
        }
    }

    /// Until the end, or until nothing can happen any more.
    fn run(&mut self) {
        for _ in 0..ACTIONS_MAX {
            if self.client.is_served() {
                return;
            }
            let is_cut = self.driver.is_over && self.to_client.bytes.is_empty();
            assert!(
                !is_cut,
                "it ends before all answers have come: {:?}",
                String::from_utf8_lossy(&self.client.received)
            );
            let actions: Vec<usize> = (0..8).filter(|action| self.can(*action)).collect();
            if actions.is_empty() {
                self.wait();
                continue;
            }
            let action = actions[self.dice.below(actions.len())];
            self.act(action);
        }
        panic!("it goes on for ever");
    }

    fn can(&self, action: usize) -> bool {
        let Client { frames, outgoing, owed, .. } = &self.client;
        match action {
            0 => frames.iter().any(|frames| !frames.is_empty()),
            1 => !outgoing.is_empty() && self.to_server.room() > 0,
            2 => self.is_reading && !self.to_client.bytes.is_empty(),
            3 => owed.values().any(|owed| *owed >= 700),
            4 => self.has_input_event || self.has_room_event || self.driver.is_queued,
            5 => !self.driver.deferred.is_empty(),
            6 => !self.driver.sockets.is_empty(),
            _ => !self.is_reading,
        }
    }

    fn act(&mut self, action: usize) {
        let Client { frames, outgoing, .. } = &mut self.client;
        match action {
            0 => {
                let ready: Vec<usize> = (0..frames.len()).filter(|at| !frames[*at].is_empty()).collect();
                // Streams begin in their order.
                let begins =
                    |at: &usize| frames[..*at].iter().all(|before| before.front().is_none_or(|f| f[3] == DATA));
                let ready: Vec<usize> = ready.into_iter().filter(begins).collect();
                let at = ready[self.dice.below(ready.len())];
                outgoing.extend(frames[at].pop_front().unwrap_or_default());
            }
            1 => {
                let bytes = self.dice.size(20_000).min(outgoing.len()).min(self.to_server.room());
                self.to_server.bytes.extend(outgoing.drain(..bytes));
                self.has_ended = self.ends && outgoing.is_empty() && frames.iter().all(VecDeque::is_empty);
                self.has_input_event = true;
            }
            2 => {
                let bytes = self.dice.size(30_000).min(self.to_client.bytes.len());
                self.client.take(self.to_client.bytes.drain(..bytes));
                self.has_room_event |= !self.driver.writable;
                self.is_reading = !self.dice.once_in(20);
            }
            3 => self.client.open_windows(),
            4 => {
                self.driver.readable |= std::mem::take(&mut self.has_input_event);
                self.driver.writable |= std::mem::take(&mut self.has_room_event);
                self.driver.is_queued = false;
                self.drive();
            }
            5 => {
                let at = self.dice.below(self.driver.deferred.len());
                let (id, deferred) = self.driver.deferred.swap_remove(at);
                self.driver.lend();
                self.driver.carry_out(id, deferred, &mut self.dice);
                self.driver.park();
                self.drive();
            }
            6 => {
                let at = self.dice.below(self.driver.sockets.len());
                let id = self.driver.sockets.swap_remove(at);
                self.driver.connection.handle_socket(id);
                self.drive();
            }
            _ => self.is_reading = true,
        }
    }

    /// Nothing happens but that time passes.
    fn wait(&mut self) {
        let driver = &mut self.driver;
        let until = driver
            .connection
            .poll_timeout(Site::shared().limits())
            .filter(|until| until.since(driver.now) <= WAIT_MS_MAX);
        let Some(until) = until else {
            panic!("it hangs: {:?} {:?}", driver.connection.interest(), driver.connection);
        };
        driver.now = until;
        driver.lend();
        driver.connection.handle_timeout(until);
        driver.park();
        self.drive();
    }

    /// A turn, as drivers give it.
    fn drive(&mut self) {
        let World { dice, to_server, to_client, driver, .. } = self;
        if driver.is_over {
            return;
        }
        driver.lend();
        let mut rounds = 1 + dice.below(6);
        loop {
            if driver.writable {
                driver.connection.handle_writable();
            }
            driver.meet_needs(dice);
            let mut sent = 0;
            while driver.writable {
                let Some(transmit) = driver.connection.poll_transmit() else { break };
                let bytes = bytes_of(&transmit, to_client.room().min(dice.size(30_000)));
                driver.writable = !bytes.is_empty();
                sent += bytes.len();
                driver.connection.handle_sent(bytes.len() as u64, driver.now);
                to_client.bytes.extend(bytes);
            }
            let interest = driver.connection.interest();
            let may_send = interest.send && driver.writable;
            let may_receive = interest.receive && (driver.writable || interest.send);
            let may_go_on = (interest.done || may_receive) && sent > 0;
            if interest.is_over() || !(may_send || may_go_on || may_receive && driver.readable) {
                break;
            }
            if rounds == 0 {
                driver.is_queued = true;
                break;
            }
            rounds -= 1;
            if may_receive && driver.readable && sent == 0 {
                let space = driver.connection.receive_space();
                let bytes = dice.size(space.len()).min(space.len()).min(to_server.bytes.len());
                for (place, byte) in space.iter_mut().zip(to_server.bytes.drain(..bytes)) {
                    *place = byte;
                }
                if bytes > 0 {
                    driver.connection.handle_received(bytes, driver.now);
                }
                let ends = to_server.bytes.is_empty() && self.has_ended;
                if ends {
                    driver.connection.handle_end();
                }
                driver.readable = !to_server.bytes.is_empty();
            }
        }
        driver.park();
        let interest = driver.connection.interest();
        driver.is_over = interest.fate != Fate::Open;
        while let Some((id, _)) = driver.connection.poll_socket() {
            driver.sockets.retain(|other| *other != id);
            driver.sockets.push(id);
        }
        if !driver.is_queued && !driver.is_over {
            let why = driver.connection.standstill();
            assert_eq!(why, None, "nothing wakes it: {interest:?} {:?}", driver.connection);
        }
    }
}

/// Says which seed it was that failed.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("LAMNA_SEED={}", self.0);
        }
    }
}

#[test]
fn whatever_can_go_on_comes_to_its_end() {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seeds = match number("LAMNA_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("LAMNA_SEEDS").unwrap_or(SEEDS),
    };
    for seed in seeds {
        let said = Seed(seed);
        World::new(seed).run();
        assert_eq!(alive(), 0, "programs are gone with what they answer");
        drop(said);
    }
}
