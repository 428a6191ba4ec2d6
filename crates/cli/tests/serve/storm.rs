//! A storm of changes: files replaced, edited in place, truncated, deleted and renamed while clients ask for them all
//! the time. Every answer is exactly one version that existed, under its validators, and none is old.
//!
//! How old answers were is reported, with `LAMNA_STORM_SECONDS` for longer; what fails a test is an age that only a
//! broken server has. In-place edits change eight bytes, because that is what a file system changes at once: whoever
//! edits more without replacing the file shows mixtures to everybody who reads it meanwhile.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Read;
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use crate::client::{Client, Response};
use crate::engine::{Engine, for_engines};
use crate::server::Launch;

for_engines!(all every_architecture_meets_the_storm: [
    mp = MP,
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
    every_answer_is_one_version_that_existed,
]);

const FILES: usize = 100;
const CLIENTS: usize = 3;
const CHANGES_PER_SECOND: u32 = 1000;
/// One file in this many is sent from the file instead of from memory.
const LARGE_EVERY: usize = 20;
const LARGE_BYTES: usize = 300_000;
/// Only a broken server answers from what was replaced so long ago.
const OLD: Duration = Duration::from_secs(10);

fn every_answer_is_one_version_that_existed(engine: Engine) {
    let seconds = std::env::var("LAMNA_STORM_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(2);
    let server = Launch::new(engine).start();
    let storm = Storm::new(server.site());
    let (over, address) = (AtomicBool::new(false), server.address());
    let changes = thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (storm, over) = (&storm, &over);
            scope.spawn(move || storm.ask_until(over, address, client as u64 + 1));
        }
        let changes = storm.change_for(Duration::from_secs(seconds));
        over.store(true, Relaxed);
        changes
    });
    let oldest = Duration::from_micros(storm.oldest_us.load(Relaxed));
    eprintln!(
        "storm {}: {changes} changes in {seconds} s, {} answers checked, oldest {} ms, {} older than 1 s, {} coded, {} cut off",
        engine.architecture,
        storm.answers.load(Relaxed),
        oldest.as_millis(),
        storm.older_than_a_second.load(Relaxed),
        storm.coded.load(Relaxed),
        storm.cut.load(Relaxed),
    );
    assert!(storm.answers.load(Relaxed) > changes / 100, "clients were answered");
    server.finish();
}

/// What a file was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Gone,
    Empty,
    /// Written as `base`, edited in place to `edit`.
    Full {
        base: u32,
        edit: u32,
    },
}

/// When it was that, at most: from before it became it until after it became something else.
#[derive(Clone, Copy, Debug)]
struct Span {
    state: State,
    begin: Instant,
    end: Option<Instant>,
}

#[derive(Debug, Default)]
struct History {
    spans: Vec<Span>,
    /// By entity tag.
    contents: HashMap<String, Vec<u8>>,
}

struct Storm {
    directory: PathBuf,
    histories: Vec<Mutex<History>>,
    answers: AtomicU64,
    coded: AtomicU64,
    cut: AtomicU64,
    oldest_us: AtomicU64,
    older_than_a_second: AtomicU64,
}

// Changing.
impl Storm {
    fn new(site: PathBuf) -> Storm {
        let directory = site.join("storm");
        fs::create_dir(&directory).unwrap();
        let storm = Storm {
            directory,
            histories: (0..FILES).map(|_| Mutex::default()).collect(),
            answers: AtomicU64::new(0),
            coded: AtomicU64::new(0),
            cut: AtomicU64::new(0),
            oldest_us: AtomicU64::new(0),
            older_than_a_second: AtomicU64::new(0),
        };
        for file in 0..FILES {
            storm.change(file, &[State::Full { base: 0, edit: 0 }], || storm.replace(file, 0));
        }
        storm
    }

    fn change_for(&self, time: Duration) -> u64 {
        let (begin, mut changes) = (Instant::now(), 0);
        let mut random = Random(7);
        while begin.elapsed() < time {
            let due = begin + Duration::from_secs(1) / CHANGES_PER_SECOND * changes as u32;
            thread::sleep(due.saturating_duration_since(Instant::now()));
            self.change_somehow(random.below(FILES), changes as u32 + 1, &mut random);
            changes += 1;
        }
        changes
    }

    fn change_somehow(&self, file: usize, version: u32, random: &mut Random) {
        let full = State::Full { base: version, edit: version };
        let is_large = file.is_multiple_of(LARGE_EVERY);
        let now = self.histories[file].lock().unwrap().spans.last().expect("it was written").state;
        match (random.below(6), now) {
            (0, State::Full { .. }) => self.change(file, &[State::Gone], || fs::remove_file(self.path(file)).unwrap()),
            (1, State::Full { .. }) => {
                let aside = self.directory.join(format!("aside-{file}"));
                self.change(file, &[State::Gone, now], || {
                    fs::rename(self.path(file), &aside).unwrap();
                    fs::rename(&aside, self.path(file)).unwrap();
                });
            }
            (2, State::Full { .. }) if !is_large => {
                self.change(file, &[State::Empty], || self.open(file).set_len(0).unwrap());
            }
            (3, State::Full { .. } | State::Empty) if !is_large => {
                self.change(file, &[State::Empty, full], || fs::write(self.path(file), content(file, full)).unwrap());
            }
            (4, State::Full { base, .. }) if !is_large => {
                self.change(file, &[State::Full { base, edit: version }], || {
                    self.open(file).write_all_at(format!("{version:08}").as_bytes(), 0).unwrap();
                });
            }
            _ => self.change(file, &[full], || self.replace(file, version)),
        }
    }

    /// What may be seen from now on is noted before it can be, and what can no longer be seen after that.
    fn change(&self, file: usize, states: &[State], act: impl FnOnce()) {
        let begin = Instant::now();
        let known = {
            let mut history = self.histories[file].lock().unwrap();
            let known = history.spans.len();
            history.spans.extend(states.iter().map(|&state| Span { state, begin, end: None }));
            known
        };
        act();
        let end = Some(Instant::now());
        let spans = &mut self.histories[file].lock().unwrap().spans;
        let last = spans.len() - 1;
        spans[known.saturating_sub(1)..last].iter_mut().for_each(|span| span.end = end);
    }

    fn replace(&self, file: usize, version: u32) {
        let aside = self.directory.join("aside");
        fs::write(&aside, content(file, State::Full { base: version, edit: version })).unwrap();
        fs::rename(&aside, self.path(file)).unwrap();
    }

    fn open(&self, file: usize) -> File {
        File::options().write(true).open(self.path(file)).unwrap()
    }

    fn path(&self, file: usize) -> PathBuf {
        self.directory.join(format!("{file}.txt"))
    }
}

// Asking.
impl Storm {
    fn ask_until(&self, over: &AtomicBool, address: SocketAddr, seed: u64) {
        let mut random = Random(seed);
        let mut client = Client::connect(address);
        while !over.load(Relaxed) {
            let file = random.below(FILES);
            let coding = if random.below(2) == 0 { "Accept-Encoding: gzip\r\n" } else { "" };
            let asked = Instant::now();
            client.send(format!("GET /storm/{file}.txt HTTP/1.1\r\nHost: a\r\n{coding}\r\n").as_bytes());
            match client.receive(true) {
                Ok(response) => self.check(file, &response, asked),
                // One that changed while it was being sent from the file.
                Err(_) => {
                    self.cut.fetch_add(1, Relaxed);
                    assert!(file.is_multiple_of(LARGE_EVERY) || over.load(Relaxed), "file {file} was cut off");
                    client = Client::connect(address);
                }
            }
        }
    }

    fn check(&self, file: usize, response: &Response, asked: Instant) {
        response.check().expect("a sound response");
        let answered = Instant::now();
        let mut received = response.content.clone();
        if response.field("Content-Encoding") == Some("gzip") {
            self.coded.fetch_add(1, Relaxed);
            received.clear();
            flate2::read::GzDecoder::new(&*response.content).read_to_end(&mut received).expect("it is gzip");
        }
        let state = match response.status {
            404 => State::Gone,
            200 if received.is_empty() => State::Empty,
            200 => state_of(&received),
            status => panic!("file {file}: {status}"),
        };
        assert!(
            response.status == 404 || received == content(file, state),
            "file {file}: not a version, but a mixture"
        );
        let mut history = self.histories[file].lock().unwrap();
        let matching = history.spans.iter().rev().filter(|span| span.state == state && span.begin <= answered);
        let end = matching.map(|span| span.end.unwrap_or(answered)).max();
        let end = end.unwrap_or_else(|| panic!("file {file}: {state:?} never was"));
        let age = asked.saturating_duration_since(end);
        assert!(age < OLD, "file {file}: {state:?} is {age:?} old: {:?}", history.spans.last());
        self.oldest_us.fetch_max(age.as_micros() as u64, Relaxed);
        self.older_than_a_second.fetch_add(u64::from(age > Duration::from_secs(1)), Relaxed);
        if let (200, Some(etag)) = (response.status, response.field("ETag")) {
            let known = history.contents.entry(etag.to_owned()).or_insert_with(|| response.content.clone());
            assert!(*known == response.content, "file {file}: {etag} of two contents");
        }
        self.answers.fetch_add(1, Relaxed);
    }
}

/// The content of a version: its numbers, and filling that only this base has.
fn content(file: usize, state: State) -> Vec<u8> {
    let State::Full { base, edit } = state else { return Vec::new() };
    let bytes = if file.is_multiple_of(LARGE_EVERY) { LARGE_BYTES } else { 100 + base as usize * 37 % 3000 };
    let filling = format!("file {file} base {base} ");
    let mut content = format!("{edit:08}\n{base:08}\n").into_bytes();
    content.extend(filling.bytes().cycle().take(bytes));
    content
}

fn state_of(content: &[u8]) -> State {
    let number = |at: usize| std::str::from_utf8(content.get(at..at + 8)?).ok()?.parse().ok();
    match (number(0), number(9)) {
        (Some(edit), Some(base)) => State::Full { base, edit },
        _ => panic!("not a version: {:?}", String::from_utf8_lossy(&content[..content.len().min(40)])),
    }
}

pub(crate) struct Random(u64);

impl Random {
    /// With a state of its own for each `seed`, which is not 0.
    pub(crate) fn seeded(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}
