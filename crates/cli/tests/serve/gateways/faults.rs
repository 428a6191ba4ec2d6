//! A storm of faults behind the server: applications that are killed, hang, answer garbage, half of an answer or two,
//! and clients that leave, with every engine, over HTTP and FastCGI.
//!
//! Clients of HTTP/1.1 and HTTP/2 check every byte and every status. An answer that breaks off is never whole for them;
//! none is another's; what may have an effect reaches the application once; content that was cut never seems whole to
//! it; in the end no socket is left over. Every second request is a fault. `LAMNA_FAULTS` is how many each test makes:
//! `LAMNA_FAULTS=10000 cargo test -p lamna --test serve gateways::faults::amped -- --nocapture`.

mod application;
mod fastcgi;
mod http;

use std::collections::BTreeMap;
use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use application::{Application, Asked, Protocol};

use crate::client::{Client, PATIENCE, Response};
use crate::engine::{Engine, for_engines};
use crate::http2::{Http2, request};
use crate::server::{Launch, Server, eventually, processes_of};
use crate::storm::Random;
use crate::tree::pattern;

for_engines!(all every_architecture_meets_the_faults_of_applications: [
    mp = MP_OF_SIXTEEN,
    thread_pool = THREAD_POOL,
    thread_per_request = THREAD_PER_REQUEST,
    thread_per_session = THREAD_PER_SESSION,
    sped = SPED,
    amped = AMPED,
    amped_with_helper_processes = AMPED_WITH_HELPER_PROCESSES,
    co_amped = CO_AMPED,
    pipelined = PIPELINED,
    proactor = PROACTOR,
] => [
    faults_over_http_are_told_and_disturb_nobody,
    faults_over_fastcgi_are_told_and_disturb_nobody,
]);

/// What an application is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Manner {
    // As it should be.
    Sized,
    Unframed,
    Dripped,
    Hinted,
    Echo,
    // Not so.
    Closes,
    Garbage,
    HalfHead,
    LongHead,
    TwoLengths,
    Short,
    Long,
    TwoAnswers,
    CutFrames,
    BadFrames,
    Refuses,
    Unwanted,
    HintsOnly,
    HintsForEver,
    Hangs,
    HangsInHead,
    HangsInContent,
    /// Answers when the client has left.
    Leaves,
    /// The client leaves before it has sent everything.
    CutUpload,
    /// Answers before the content has come.
    Early,
    DiesInUpload,
}

use Manner::*;

const SOUND: [Manner; 5] = [Sized, Unframed, Dripped, Hinted, Echo];
const FAULTS: [Manner; 21] = [
    Closes,
    Garbage,
    HalfHead,
    LongHead,
    TwoLengths,
    Short,
    Long,
    TwoAnswers,
    CutFrames,
    BadFrames,
    Refuses,
    Unwanted,
    HintsOnly,
    HintsForEver,
    Hangs,
    HangsInHead,
    HangsInContent,
    Leaves,
    CutUpload,
    Early,
    DiesInUpload,
];

/// What a client has to see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    /// All of it.
    Whole,
    /// One of these.
    Status(&'static [u16]),
    /// Something that breaks off, or 502 if nothing of it had come.
    Broken,
    /// The same, or 504 if the application was so slow that nothing had come in time.
    BrokenOrLate,
}

/// What it saw.
#[derive(Debug)]
enum Seen {
    Answer { status: u16, number: Option<u64>, content: Vec<u8> },
    Broken,
}

impl Manner {
    fn name(self) -> String {
        format!("{self:?}")
    }

    fn by_name(name: &str) -> Option<Manner> {
        SOUND.into_iter().chain(FAULTS).find(|manner| manner.name() == name)
    }

    fn expected(self, protocol: Protocol) -> Expected {
        let is_http = protocol == Protocol::Http;
        match self {
            Sized | Unframed | Dripped | Hinted | Echo | Long | TwoAnswers => Expected::Whole,
            Closes | Garbage | HalfHead | LongHead | TwoLengths | Refuses | HintsOnly | DiesInUpload => {
                Expected::Status(&[502])
            }
            Unwanted | HintsForEver if is_http => Expected::Status(&[502]),
            // FastCGI has a word for it.
            Unwanted => Expected::Status(&[503]),
            HintsForEver | Hangs | HangsInHead => Expected::Status(&[504]),
            // The end of the connection may overtake the answer.
            Early => Expected::Status(&[413, 502]),
            Short | CutFrames | BadFrames => Expected::Broken,
            HangsInContent => Expected::BrokenOrLate,
            Leaves | CutUpload => unreachable!("nobody waits for it"),
        }
    }

    fn is_post(self) -> bool {
        matches!(self, Echo | CutUpload | Early | DiesInUpload)
    }

    fn bytes(self, random: &mut Random) -> usize {
        let of = |sizes: &[usize], random: &mut Random| sizes[random.below(sizes.len())];
        match self {
            Dripped => random.below(300),
            // What is beyond the answer comes together with it.
            Long | TwoAnswers => of(&[0, 1, 700, 8_000], random),
            CutUpload | Early | DiesInUpload => of(&[1_000, 20_000, 500_000], random),
            _ => of(&[0, 1, 700, 5_000, 70_000, 300_000], random),
        }
    }
}

/// What the content of number `number` is a pattern of.
fn factor(number: u64) -> usize {
    number as usize * 2 + 1
}

/// Pieces of at most `most` bytes.
fn cut(mut bytes: &[u8], most: usize, random: &mut Random) -> Vec<Vec<u8>> {
    let mut pieces = Vec::new();
    while !bytes.is_empty() {
        let (piece, rest) = bytes.split_at(bytes.len().min(1 + random.below(most)));
        pieces.push(piece.to_vec());
        bytes = rest;
    }
    pieces
}

fn asked_for(method: &str, path: &str) -> Option<Asked> {
    let parts: Vec<&str> = path.split('/').collect();
    let [_, _, manner, number, bytes] = parts[..] else { return None };
    Some(Asked {
        manner: Manner::by_name(manner)?,
        number: number.parse().ok()?,
        bytes: bytes.parse().ok()?,
        is_head: method == "HEAD",
        is_post: method == "POST",
        announced: None,
    })
}

/// One request of the storm.
#[derive(Debug)]
struct Question {
    manner: Manner,
    number: u64,
    bytes: usize,
    method: &'static str,
    path: String,
    /// Content without a length said before.
    is_chunked: bool,
}

impl Question {
    /// Every second is a fault; which, only the number decides.
    fn new(number: u64, protocol: Protocol) -> Question {
        let mut random = Random::seeded(number + 1);
        let manners = if number % 2 == 1 { &FAULTS[..] } else { &SOUND[..] };
        let manner = manners[random.below(manners.len())];
        let bytes = manner.bytes(&mut random);
        let method = match manner {
            Sized if random.below(4) == 0 => "HEAD",
            _ if manner.is_post() => "POST",
            _ => "GET",
        };
        // Hints for ever have an end over HTTP, whatever the time.
        let hangs = matches!(manner, Hangs | HangsInHead | HangsInContent)
            || manner == HintsForEver && protocol == Protocol::FastCgi;
        let is_kept = manner.is_post() && random.below(2) == 0;
        let prefix = match (hangs, is_kept) {
            (true, _) => "hang",
            (false, true) => "kept",
            (false, false) => "app",
        };
        let path = format!("/{prefix}/{}/{number}/{bytes}", manner.name());
        // FastCGI has to know the length before.
        let may_be_chunked = protocol == Protocol::Http || is_kept;
        let is_chunked = may_be_chunked && manner.is_post() && random.below(2) == 0;
        Question { manner, number, bytes, method, path, is_chunked }
    }

    fn content(&self) -> Vec<u8> {
        pattern(self.bytes, factor(self.number))
    }

    fn head(&self) -> String {
        let framing = match (self.manner.is_post(), self.is_chunked) {
            (false, _) => String::new(),
            (true, true) => "Transfer-Encoding: chunked\r\n".to_owned(),
            (true, false) => format!("Content-Length: {}\r\n", self.bytes),
        };
        format!("{} {} HTTP/1.1\r\nHost: a\r\n{framing}\r\n", self.method, self.path)
    }

    /// What follows the head over HTTP/1.1.
    fn framed_content(&self) -> Vec<u8> {
        let content = self.content();
        match (self.manner.is_post(), self.is_chunked) {
            (false, _) => Vec::new(),
            (true, false) => content,
            (true, true) => {
                let chunks = content.chunks(7_000);
                let mut framed: Vec<u8> = chunks
                    .flat_map(|chunk| [format!("{:x}\r\n", chunk.len()).as_bytes(), chunk, b"\r\n"].concat())
                    .collect();
                framed.extend_from_slice(b"0\r\n\r\n");
                framed
            }
        }
    }

    /// That `seen` is what has to be seen. `is_calm`: the application was there all the time.
    fn check(&self, seen: &Seen, protocol: Protocol, is_calm: bool) {
        let expected = self.manner.expected(protocol);
        let is_right = match (seen, expected) {
            (Seen::Answer { status: 200, number, content }, Expected::Whole) => {
                let right = if self.method == "HEAD" { Vec::new() } else { self.content() };
                *number == Some(self.number) && *content == right
            }
            (Seen::Answer { status: 200, .. }, _) => false,
            (Seen::Answer { status, .. }, Expected::Status(statuses)) if statuses.contains(status) => true,
            (Seen::Answer { status: 502, .. } | Seen::Broken, Expected::Broken | Expected::BrokenOrLate) => true,
            (Seen::Answer { status: 504, .. }, Expected::BrokenOrLate) => true,
            (Seen::Answer { status: 502..=504, .. } | Seen::Broken, _) => !is_calm,
            _ => false,
        };
        let told = match seen {
            Seen::Answer { status, number, content } => {
                format!("{status}, number {number:?}, {} bytes", content.len())
            }
            Seen::Broken => "broken off".to_owned(),
        };
        let calm = if is_calm { "" } else { ", while the application was killed" };
        assert!(is_right, "{self:?} was to be {expected:?}{calm}, and was {told}");
    }
}

/// Asks over a connection that is kept as long as both sides keep it.
fn ask(connection: &mut Option<Client<TcpStream>>, address: SocketAddr, question: &Question) -> Option<Seen> {
    let client = connection.get_or_insert_with(|| Client::connect(address));
    client.send(question.head().as_bytes());
    let content = question.framed_content();
    if question.manner == CutUpload {
        client.send(&content[..content.len() / 2]);
    }
    if matches!(question.manner, CutUpload | Leaves) {
        *connection = None;
        return None;
    }
    client.send(&content);
    let seen = match receive(client, question.method != "HEAD") {
        Ok(answer) => {
            if answer.field("Connection") == Some("close") {
                *connection = None;
            }
            let number = answer.field("X-Number").and_then(|number| number.parse().ok());
            Seen::Answer { status: answer.status, number, content: answer.content }
        }
        Err(fault) => {
            let is_end = fault.contains("the connection ended") || fault.contains("receiving failed");
            assert!(is_end, "{question:?}: {fault}");
            *connection = None;
            Seen::Broken
        }
    };
    Some(seen)
}

/// The answer behind those before the answer.
fn receive(client: &mut Client<TcpStream>, has_content: bool) -> Result<Response, String> {
    loop {
        let answer = client.receive(has_content)?;
        if answer.status >= 200 {
            return Ok(answer);
        }
        assert_eq!((answer.status, answer.field("Link")), (103, Some("</a.css>")));
    }
}

/// A storm: who asks, and what has been asked so far.
struct Storm {
    address: SocketAddr,
    protocol: Protocol,
    next: AtomicU64,
    all: u64,
    /// How often each manner was met.
    met: Mutex<BTreeMap<Manner, u64>>,
}

/// Requests beside each other on a connection of HTTP/2.
const STREAMS: usize = 3;
/// Clients of HTTP/1.1, beside one of HTTP/2.
const CLIENTS: usize = 3;

impl Storm {
    fn next(&self) -> Option<Question> {
        let number = self.next.fetch_add(1, Relaxed);
        (number < self.all).then(|| Question::new(number, self.protocol))
    }

    fn meet(&self, question: &Question) {
        *self.met.lock().unwrap().entry(question.manner).or_default() += 1;
    }

    fn by_http1(&self, epoch: &(impl Fn() -> u64 + Sync)) {
        let mut connection = None;
        while let Some(question) = self.next() {
            self.ask(&mut connection, &question, epoch);
        }
    }

    fn ask(&self, connection: &mut Option<Client<TcpStream>>, question: &Question, epoch: &(impl Fn() -> u64 + Sync)) {
        let before = epoch();
        let seen = ask(connection, self.address, question);
        let is_calm = before.is_multiple_of(2) && epoch() == before;
        if let Some(seen) = seen {
            question.check(&seen, self.protocol, is_calm);
        }
        self.meet(question);
    }

    /// The connection itself never ends.
    fn by_http2(&self, epoch: &(impl Fn() -> u64 + Sync)) {
        let (mut client, mut beside) = (Http2::connect(self.address), None);
        loop {
            let questions: Vec<Question> = (0..STREAMS).map_while(|_| self.next()).collect();
            if questions.is_empty() {
                return;
            }
            // Who takes a stream back, or is answered before it has sent everything, is asked over HTTP/1.1.
            let (asked, others): (Vec<&Question>, Vec<&Question>) =
                questions.iter().partition(|one| !matches!(one.manner, CutUpload | Leaves | Early | DiesInUpload));
            others.into_iter().for_each(|question| self.ask(&mut beside, question, epoch));
            let before = epoch();
            let answers = client.ask(asked.iter().map(|question| as_request(question)).collect());
            let is_calm = before.is_multiple_of(2) && epoch() == before;
            for (question, answer) in asked.into_iter().zip(answers) {
                let seen = match answer {
                    Ok(answer) => {
                        let number = answer.fields.iter().find(|(name, _)| name == "x-number");
                        let number = number.and_then(|(_, number)| number.parse().ok());
                        Seen::Answer { status: answer.status, number, content: answer.content }
                    }
                    Err(error) => {
                        assert!(error.is_reset(), "{question:?}: {error}");
                        Seen::Broken
                    }
                };
                question.check(&seen, self.protocol, is_calm);
                self.meet(question);
            }
        }
    }

    /// Kills the application now and then, and starts it again when somebody has missed it.
    fn kill_now_and_then(&self, application: &mut Application, is_over: impl Fn() -> bool) {
        let kills = 2.max(self.all / 150);
        let wait_for = |number: u64| {
            while self.next.load(Relaxed) < number.min(self.all) && !is_over() {
                thread::sleep(Duration::from_millis(1));
            }
        };
        for kill in 0..kills {
            wait_for(self.all * (2 * kill + 1) / (2 * kills));
            application.go_down();
            wait_for(self.next.load(Relaxed) + 2 * STREAMS as u64);
            application.come_up();
        }
    }
}

fn as_request(question: &Question) -> ::http::Request<Vec<u8>> {
    if !question.manner.is_post() {
        return request(question.method, &question.path, &[]);
    }
    let length = question.bytes.to_string();
    let fields = [("content-length", &*length)];
    let fields = if question.is_chunked { &fields[..0] } else { &fields[..] };
    request(question.method, &question.path, fields).map(|_| question.content())
}

fn start(launch: Launch, application: &Application, protocol: Protocol) -> Server {
    let to = application.name();
    let route = |prefix: &str, more: &str| match protocol {
        Protocol::Http => format!("[[site.route]]\nmatch = \"/{prefix}/*\"\nproxy = {{ to = \"{to}\", {more} }}\n"),
        Protocol::FastCgi => {
            format!("[[site.route]]\nmatch = \"/{prefix}/*\"\nfastcgi = {{ to = \"{to}\", extensions = [], {more} }}\n")
        }
    };
    // Content of a request to `kept` is whole before the application is asked.
    let kept = route("kept", "buffer = \"4 KiB\", buffer_directory = \"site\"");
    launch
        .argument("--h2c")
        .config(&format!(
            "[[site]]\nroot = \"site\"\n{}{}{kept}",
            route("app", "timeout_ms = 60000"),
            route("hang", "timeout_ms = 250")
        ))
        .start()
}

/// Sockets that the processes of a server hold. Threads, which come and go, hold other descriptors.
fn sockets(server: &Server) -> Vec<String> {
    let of = |process: i32| {
        let links = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
        links.filter_map(move |link| Some(format!("{process}: {}", fs::read_link(link.path()).ok()?.display())))
    };
    let processes = processes_of(&server.directory().join("lamna.toml"));
    processes.into_keys().flat_map(of).filter(|link| link.contains("socket:")).collect()
}

/// Has the processes of a server that get a connection find that their application is not there, which makes them close
/// what they have kept for it. The others close it when it is old.
fn forget_application(server: &Server) {
    // One after the other: an engine may have as many connections as processes.
    for _ in 0..4 * processes_of(&server.directory().join("lamna.toml")).len() {
        let mut client = server.connect();
        for prefix in ["app", "hang", "kept"] {
            let answer = client.get(&format!("/{prefix}/Sized/0/0")).expect("it is answered");
            assert!(matches!(answer.status, 502 | 503), "the application is not there: {}", answer.status);
        }
    }
}

/// Sockets when nobody asks and no application is there: as many three times in a row.
fn settled(server: &Server) -> usize {
    let mut found = Vec::new();
    eventually("sockets are neither opened nor closed", PATIENCE, || {
        forget_application(server);
        thread::sleep(Duration::from_millis(30));
        found.push(sockets(server).len());
        let last = &found[found.len().saturating_sub(3)..];
        (last.len() == 3 && last.iter().all(|count| *count == last[0])).then(|| last[0])
    })
}

/// That there are no more sockets in the end than there were before.
fn at_most(server: &Server, before: usize) -> usize {
    let end = Instant::now() + PATIENCE;
    loop {
        forget_application(server);
        thread::sleep(Duration::from_millis(30));
        let after = sockets(server);
        if after.len() <= before {
            return after.len();
        }
        assert!(Instant::now() < end, "more than {before} sockets are left over: {after:#?}");
    }
}

fn faults_over_http_are_told_and_disturb_nobody(engine: Engine) {
    storm(engine, Protocol::Http);
}

fn faults_over_fastcgi_are_told_and_disturb_nobody(engine: Engine) {
    storm(engine, Protocol::FastCgi);
}

fn storm(engine: Engine, protocol: Protocol) {
    let faults: u64 = std::env::var("LAMNA_FAULTS").ok().and_then(|text| text.parse().ok()).unwrap_or(50);
    let launch = Launch::new(engine);
    let mut application = Application::start(protocol, launch.directory());
    let server = start(launch, &application, protocol);
    let blow = |first: u64, all: u64, application: Option<&mut Application>, epoch: &(dyn Fn() -> u64 + Sync)| {
        let (next, met) = (AtomicU64::new(first), Mutex::default());
        let storm = Storm { address: server.address(), protocol, next, all, met };
        thread::scope(|scope| {
            let mut clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(|| storm.by_http1(&epoch))).collect();
            clients.push(scope.spawn(|| storm.by_http2(&epoch)));
            if let Some(application) = application {
                storm.kill_now_and_then(application, || clients.iter().all(thread::ScopedJoinHandle::is_finished));
            }
        });
        storm.met.into_inner().unwrap()
    };
    let epoch = application.epoch();
    // What the server opens once is open then.
    blow(0, 60, None, &epoch);
    application.go_down();
    let before = settled(&server);
    application.come_up();
    let met = blow(1_000, 1_000 + 2 * faults, Some(&mut application), &epoch);
    let wrong: u64 = met.iter().filter(|(manner, _)| FAULTS.contains(manner)).map(|(_, count)| count).sum();
    application.go_down();
    let after = at_most(&server, before);
    application.come_up();
    assert_eq!(application.violations(), Vec::<String>::new());
    // And all is well again.
    let mut connection = None;
    for number in (0..20).map(|number| 1_000_000 + 2 * number) {
        let question = Question::new(number, protocol);
        let seen = ask(&mut connection, server.address(), &question).expect("it is waited for");
        question.check(&seen, protocol, true);
    }
    eprintln!(
        "faults {} {protocol:?}: {wrong} faults among {} requests, {before} sockets before and {after} after",
        engine.architecture,
        met.values().sum::<u64>(),
    );
    server.finish();
}
