//! Uploads and downloads over TLS, by HTTP/1.1 and HTTP/2, with a connection that is driven as event loops drive it,
//! over sockets and an edge-triggered epoll set of this machine, in an order that a seed decides: records are cut
//! anywhere, steps of programs come back at any time, the client stops reading and goes on. They always come to the
//! end. A run that does not prints its seed: `LAMNA_SEED=7` runs it alone, `LAMNA_SEEDS=10000` so many.

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use lamna_config::settings::{Settings, SiteSettings, SiteTls};
use lamna_io::wait::{Poll, Token};
use lamna_proto::exchange::program::{Input, Program, StepResult};
use lamna_proto::time::Instant;
use lamna_site::cache::Entry;
use lamna_site::content::site::Sites;
use lamna_sys::shared_memory::SharedMemory;
use lamna_tls::testing::{self as made, client, client_config};
use lamna_tls::{Alpn, Endpoint, Tickets};
use rustls::ClientConnection;

use super::*;
use crate::worker::context::{FileRange, TranslationTarget, WorkerContext};
use crate::worker::drive::{self, OnSockets, Turn};
use crate::worker::executor::{Completed, Executor, PendingId, run_elsewhere, translate_in_line};
use crate::worker::helpers::runners::Step;
use crate::worker::shared::Shared;
use crate::worker::testing;
use crate::worker::transport::Transport;

const SEEDS: u64 = 60;
/// The seed that found a socket whose event was forgotten together with bytes that the session had left.
const FOUND: u64 = 970;
const ACTIONS_MAX: usize = 100_000;
const TOKEN: Token = Token { index: 1, generation: 1 };

/// SplitMix64.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % bound.max(1) as u64) as usize
    }

    fn size(&mut self, most: usize) -> usize {
        let shift = self.below(17);
        1 + self.below((1 << shift).min(most))
    }
}

/// Steps of programs are carried out later, as in the engines that have helpers.
#[derive(Default)]
struct Later {
    steps: Vec<Step>,
}

impl OnSockets for Later {}

impl Executor for Later {
    fn translate(
        &mut self,
        context: &mut WorkerContext<'_>,
        _: PendingId,
        target: TranslationTarget,
    ) -> Option<Arc<Entry>> {
        Some(translate_in_line(context, &target))
    }

    fn refresh(&mut self, _: &mut WorkerContext<'_>, _: TranslationTarget) {}

    fn make_ready(&mut self, shared: &Shared, pending: PendingId, range: FileRange) -> Option<Completed> {
        Some(Completed::of_range(shared, pending, &range))
    }

    fn run(
        &mut self,
        pending: PendingId,
        program: Box<dyn Program>,
        input: Input<'_>,
    ) -> Option<(Box<dyn Program>, StepResult)> {
        run_elsewhere(program, input, |program, input| self.steps.push(Step::new(pending, program, input)))
    }
}

/// Both ends.
struct World<'a> {
    dice: Dice,
    shared: &'a Shared,
    context: WorkerContext<'a>,
    poll: Poll,
    connection: ConnectionState,
    later: Later,
    is_queued: bool,
    is_over: bool,
    client: ClientConnection,
    socket: UnixStream,
    /// Bytes that the client has still to say, and records that have not left.
    unsaid: Vec<u8>,
    records: Vec<u8>,
    talk: Talk,
}

/// The client's reading of the bytes that it is sent.
enum Talk {
    /// Answers of HTTP/1.1, one after the other.
    Http1 { got: Vec<u8> },
    /// Frames of HTTP/2. Windows that the client has not opened again yet: stream and bytes.
    Http2 { got: Vec<u8>, owed: Vec<(u32, u32)>, ended: usize },
}

impl Talk {
    /// It is sent `plain`. What it says about it is added to `unsaid`.
    fn hear(&mut self, plain: &[u8], unsaid: &mut Vec<u8>) {
        let (got, owed, ended) = match self {
            Talk::Http1 { got } => return got.extend(plain),
            Talk::Http2 { got, owed, ended } => (got, owed, ended),
        };
        got.extend(plain);
        while let Some((head, rest)) = got.split_first_chunk::<9>() {
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
            if rest.len() < length as usize {
                break;
            }
            let (kind, flags, stream) = (head[3], head[4], u32::from_be_bytes([head[5], head[6], head[7], head[8]]));
            match kind {
                DATA if length > 0 => owed.extend([(stream, length), (0, length)]),
                SETTINGS if flags & ACK == 0 => unsaid.extend(frame(SETTINGS, ACK, 0, b"")),
                PING if flags & ACK == 0 => unsaid.extend(frame(PING, ACK, 0, &rest[..8])),
                RST_STREAM | GOAWAY => panic!("{kind} {:?}", &rest[..length as usize]),
                _ => {}
            }
            *ended += usize::from(matches!(kind, DATA | HEADERS) && flags & END_STREAM != 0);
            got.drain(..9 + length as usize);
        }
    }

    /// Now and then says of some windows that they are open again, and of all if it has nothing else to say.
    fn open_windows(&mut self, unsaid: &mut Vec<u8>, dice: &mut Dice) {
        let Talk::Http2 { owed, .. } = self else { return };
        let count = match unsaid.is_empty() {
            true => owed.len(),
            false if dice.below(3) == 0 => dice.below(owed.len() + 1),
            false => 0,
        };
        for (stream, bytes) in owed.drain(..count) {
            unsaid.extend(frame(WINDOW_UPDATE, 0, stream, &bytes.to_be_bytes()));
        }
    }

    /// How many requests have been answered.
    fn answered(&self) -> usize {
        match self {
            Talk::Http1 { got } => got.windows(10).filter(|ten| ten == b"HTTP/1.1 2").count(),
            Talk::Http2 { ended, .. } => *ended,
        }
    }
}

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

fn content(at: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|place| (at * 31 + place / 7 + (place >> 8)) as u8).collect()
}

impl World<'_> {
    /// Whether anything could be done.
    fn act(&mut self) -> bool {
        let first = self.dice.below(4);
        (0..4).any(|action| match (first + action) % 4 {
            0 => self.say(),
            1 => self.look(),
            2 => self.complete(),
            _ => self.read(),
        })
    }

    /// The client encrypts some of what it has to say, or sends some of its records.
    fn say(&mut self) -> bool {
        self.talk.open_windows(&mut self.unsaid, &mut self.dice);
        if !self.client.is_handshaking() && !self.unsaid.is_empty() && self.records.is_empty() {
            let bytes = self.dice.size(40_000).min(self.unsaid.len());
            let taken = self.client.writer().write(&self.unsaid[..bytes]).expect("it is in memory");
            self.unsaid.drain(..taken);
        }
        while self.client.wants_write() {
            self.client.write_tls(&mut self.records).expect("it is in memory");
        }
        let bytes = self.dice.size(20_000).min(self.records.len());
        match self.socket.write(&self.records[..bytes]) {
            Ok(sent) => {
                self.records.drain(..sent);
                sent > 0
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => false,
            Err(error) => panic!("{error}"),
        }
    }

    /// The driver looks for events, and at who stands in its queue.
    fn look(&mut self) -> bool {
        self.poll.wait(Some(0)).expect("it can be waited for");
        let events: Vec<_> = (0..self.poll.event_count()).map(|index| self.poll.event(index)).collect();
        events.iter().for_each(|event| self.connection.notice(event));
        let goes_on = !events.is_empty() || std::mem::take(&mut self.is_queued);
        if goes_on {
            self.drive();
        }
        goes_on
    }

    fn complete(&mut self) -> bool {
        if self.later.steps.is_empty() {
            return false;
        }
        let at = self.dice.below(self.later.steps.len());
        let completed = self.later.steps.swap_remove(at).carry_out();
        self.lend();
        drive::handle_completed(&mut self.connection, completed, &mut self.context);
        self.connection.reclaim();
        self.drive();
        true
    }

    fn read(&mut self) -> bool {
        let mut space = vec![0; self.dice.size(60_000)];
        let bytes = match self.socket.read(&mut space) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
            Err(error) => panic!("{error}"),
        };
        let mut rest = &space[..bytes];
        while !rest.is_empty() {
            self.client.read_tls(&mut rest).expect("there is room");
            let state = self.client.process_new_packets().expect("it is what it said");
            let mut plain = vec![0; state.plaintext_bytes_to_read()];
            self.client.reader().read_exact(&mut plain).expect("it is there");
            self.talk.hear(&plain, &mut self.unsaid);
        }
        bytes > 0
    }

    fn lend(&mut self) {
        let mut workspace = self.context.workspace();
        self.context.update_time(&mut workspace);
        self.connection.http.lend(workspace);
    }

    fn drive(&mut self) {
        if self.is_over {
            return;
        }
        self.lend();
        let turn = drive::turn(&mut self.connection, TOKEN, &mut self.context, &mut self.later);
        self.connection.reclaim();
        self.is_over = turn.interest().is_over();
        self.is_queued = matches!(turn, Turn::GoesOn(_));
        let (tells_input, tells_room, is_room_first) = (true, true, false);
        let deadline = self.connection.poll_timeout(&self.shared.limits);
        let arranged = Arranged { is_queued: self.is_queued, tells_input, tells_room, is_room_first, deadline };
        assert_woken(&mut self.connection, turn.interest(), arranged);
    }
}

/// A site over TLS: a directory that takes uploads, and has a file.
fn serve(protocol: Alpn) -> (Shared, Arc<Endpoint>, made::Made, tempfile::TempDir) {
    let (shared, root) = testing::shared(1, 1);
    let pair = made::pair("example.org");
    let files = made::files_of(root.path(), &pair);
    std::fs::write(root.path().join("large"), content(7, LARGE_BYTES)).unwrap();
    let (hosts, tls) = (vec!["example.org".to_owned()], Some(SiteTls::Files(files)));
    let site = SiteSettings { upload: true, hosts, tls, ..SiteSettings::new(root.path().to_owned()) };
    let settings = Settings { sites: vec![site], ..Settings::default() };
    let tickets = Arc::new(Tickets::new().unwrap());
    let endpoint = Endpoint::open(&settings, tickets, SharedMemory::default(), &[protocol]).unwrap().unwrap();
    let sites = Arc::new(Sites::open(&settings).unwrap());
    (Shared { sites, ..shared }, endpoint, pair, root)
}

const LARGE_BYTES: usize = 120_000;

/// Uploads one after the other, and the number of answers that they have.
fn over_http1(dice: &mut Dice) -> (Vec<u8>, Talk, usize) {
    let mut unsaid = Vec::new();
    let count = 1 + dice.below(4);
    for at in 0..count {
        let sent = content(at, dice.size(100_000));
        let head = format!("PUT /f{at} HTTP/1.1\r\nHost: example.org\r\nContent-Length: {}\r\n\r\n", sent.len());
        unsaid.extend([head.as_bytes(), &sent].concat());
    }
    (unsaid, Talk::Http1 { got: Vec::new() }, count)
}

/// Uploads that need no window but the first, and downloads within narrow ones, at the same time.
fn over_http2(dice: &mut Dice) -> (Vec<u8>, Talk, usize) {
    let window = 1_000 + dice.size(60_000) as u32;
    let mut unsaid = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    // SETTINGS_INITIAL_WINDOW_SIZE.
    unsaid.extend(frame(SETTINGS, 0, 0, &[&[0, 4][..], &window.to_be_bytes()].concat()));
    let (count, mut left) = (1 + dice.below(6), Vec::new());
    for at in 0..count {
        let stream = 2 * at as u32 + 1;
        let is_upload = dice.below(2) == 0;
        let path = if is_upload { format!("/f{at}") } else { "/large".to_owned() };
        // GET and https of the static table, the others in full (RFC 7541).
        let method = if is_upload { &b"\x02\x03PUT"[..] } else { b"\x82" };
        let block = [method, &[0x87, 0x04, path.len() as u8], path.as_bytes(), &[0x01, 11], b"example.org"].concat();
        let flags = if is_upload { END_HEADERS } else { END_HEADERS | END_STREAM };
        unsaid.extend(frame(HEADERS, flags, stream, &block));
        if is_upload {
            left.push((stream, content(at, dice.size(10_000))));
        }
    }
    while !left.is_empty() {
        let which = dice.below(left.len());
        let (stream, rest) = &mut left[which];
        let bytes = dice.size(10_000).min(rest.len());
        let flags = if bytes == rest.len() { END_STREAM } else { 0 };
        unsaid.extend(frame(DATA, flags, *stream, &rest[..bytes]));
        rest.drain(..bytes);
        left.retain(|(_, rest)| !rest.is_empty());
    }
    (unsaid, Talk::Http2 { got: Vec::new(), owed: Vec::new(), ended: 0 }, count)
}

#[test]
fn uploads_over_tls_come_to_their_end_however_records_arrive_and_steps_come_back() {
    run_seeds(Alpn::Http1, over_http1);
}

#[test]
fn streams_over_tls_come_to_their_end_however_records_arrive_and_windows_open() {
    run_seeds(Alpn::Http2, over_http2);
}

fn run_seeds(protocol: Alpn, requests: impl Fn(&mut Dice) -> (Vec<u8>, Talk, usize)) {
    let (shared, endpoint, pair, _root) = serve(protocol);
    let mut config = client_config(&[&pair], rustls::ALL_VERSIONS);
    config.alpn_protocols = vec![protocol.name().to_vec()];
    let config = Arc::new(config);
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seeds = match number("LAMNA_SEED") {
        Some(seed) => vec![seed],
        None => (0..number("LAMNA_SEEDS").unwrap_or(SEEDS)).chain([FOUND]).collect(),
    };
    for seed in seeds {
        let (ours, socket) = UnixStream::pair().unwrap();
        [&ours, &socket].into_iter().for_each(|end| end.set_nonblocking(true).unwrap());
        let mut dice = Dice(seed);
        let (unsaid, talk, count) = requests(&mut dice);
        let context = WorkerContext::new(&shared);
        let poll = Poll::new().unwrap();
        poll.add_connection(ours.as_fd(), TOKEN).unwrap();
        let now = Instant::from_ms(1_000);
        let mut connection = ConnectionState::new(socket.try_clone().unwrap().into(), None, now);
        connection.transport = Transport::over_tls(ours.into(), &endpoint, &shared.limits, now);
        let (later, client) = (Later::default(), client(&config, "example.org"));
        let (is_queued, is_over, records, shared) = (false, false, Vec::new(), &shared);
        let mut world = World {
            dice,
            shared,
            context,
            poll,
            connection,
            later,
            is_queued,
            is_over,
            client,
            socket,
            unsaid,
            records,
            talk,
        };
        for action in 0.. {
            let has_acted = world.act();
            let World { connection, talk, unsaid, .. } = &world;
            let answered = talk.answered();
            if answered == count {
                break;
            }
            let left = unsaid.len();
            assert!(
                has_acted && action < ACTIONS_MAX,
                "LAMNA_SEED={seed}: {answered} answered, {left} unsaid {connection:?}"
            );
        }
    }
}
