//! Engines take each other's place under load, and clients that look at every byte do not notice.
//!
//! Owns: a server in this process, clients of several kinds, and the switching. `LAMNA_SWITCHES` is how many switches
//! are made beyond one for each ordered pair of engines, `LAMNA_SEED` which; `LAMNA_LARGE_BYTES` is the size of the
//! large file. Timing decides when switches meet requests and nothing else: the checks are on bytes, descriptors and
//! threads.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use lamna_server::Server;
use lamna_server::config::settings::{Architecture, ListenAddress, LogTarget, Settings, SiteSettings};

/// Engines whose workers are threads.
const ENGINES: [Architecture; 7] = [
    Architecture::Sped,
    Architecture::Amped,
    Architecture::Pipelined,
    Architecture::Proactor,
    Architecture::ThreadPool,
    Architecture::ThreadPerRequest,
    Architecture::ThreadPerSession,
];

/// One test at a time, because threads and descriptors of the process are counted.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn engines_change_under_load_without_a_lost_byte_connection_descriptor_or_thread() {
    let _alone = alone();
    let site = tempfile::tempdir().unwrap();
    make_files(site.path());
    let (mut server, address) = open(site.path());
    warm_up(&mut server, address);
    let (threads, descriptors) = (threads(), descriptors());

    let load = Load { address, over: AtomicBool::new(false), requests: AtomicU64::new(0), failures: Mutex::default() };
    thread::scope(|scope| {
        for client in 0..3 {
            scope.spawn({
                let load = &load;
                move || load.repeat(|random| one_by_one(load, random), client)
            });
        }
        scope.spawn(|| load.repeat(|random| pipelined(&load, random), 10));
        scope.spawn(|| load.repeat(|random| pipelined(&load, random), 11));
        scope.spawn(|| load.repeat(|random| byte_by_byte(&load, random), 12));
        scope.spawn(|| load.repeat(|_| reading_slowly(&load), 13));
        scope.spawn(|| load.repeat(|_| reading_slowly(&load), 14));
        scope.spawn(|| load.repeat(|random| new_connections(&load, random), 15));
        scope.spawn(|| load.repeat(|_| idling(&load), 16));
        let switched = switch_all(&mut server, &load);
        load.over.store(true, Relaxed);
        println!("{switched}");
    });
    let failures = load.failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{} failures, the first: {:?}", failures.len(), &failures[..failures.len().min(5)]);
    let requests = load.requests.load(Relaxed);
    println!("{requests} requests answered as they should be");
    assert!(requests > 100, "{requests}");

    go(&mut server, ENGINES[0]);
    settle(
        || (self::threads() <= threads && self::descriptors() <= descriptors).then_some(()),
        || format!("threads {threads} -> {:?}, descriptors {descriptors} -> {}", thread_names(), self::descriptors()),
    );
    server.stop();
}

#[test]
fn an_engine_that_cannot_begin_changes_nothing() {
    let _alone = alone();
    let site = tempfile::tempdir().unwrap();
    make_files(site.path());
    let (mut server, address) = open(site.path());
    let mut stream = connect(address).unwrap();
    ask(&mut stream, 0).unwrap();
    let before = server.settings().clone();
    for (settings, why) in [
        (Settings { architecture: Architecture::Mp, ..before.clone() }, "was not started by the program itself"),
        (
            Settings { architecture: Architecture::Proactor, without: vec!["io_uring".to_owned()], ..before.clone() },
            "io_uring is refused",
        ),
        (
            Settings { architecture: Architecture::ThreadPerSession, threads_max: 0, ..before.clone() },
            "holds 0 connections at most",
        ),
        (Settings { sites: vec![SiteSettings::new("/does/not/exist".into())], ..before.clone() }, "/does/not/exist"),
    ] {
        let error = server.change(&settings).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
        assert_eq!(*server.settings(), before);
    }
    ask(&mut stream, 1).unwrap();
    server.stop();
}

#[test]
fn other_settings_hold_for_connections_that_are_open() {
    let _alone = alone();
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(one.path().join("a"), "before").unwrap();
    fs::write(other.path().join("a"), "after!").unwrap();
    let (mut server, address) = open(one.path());
    let mut stream = BufReader::new(connect(address).unwrap());
    let ask = |stream: &mut BufReader<TcpStream>| {
        stream.get_mut().write_all(b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        String::from_utf8(response(stream).unwrap()).unwrap()
    };
    assert_eq!(ask(&mut stream), "before");
    let sites = vec![SiteSettings::new(other.path().to_owned())];
    server.change(&Settings { sites, ..server.settings().clone() }).unwrap();
    // Until it is handed over, the connection is served as before.
    settle(|| (!server.is_changing()).then_some(()), || "the engine before does not end".to_owned());
    assert_eq!(ask(&mut stream), "after!");
    server.stop();
}

// The server.

fn open(root: &Path) -> (Server, SocketAddr) {
    let any_port = ListenAddress::Tcp(([127, 0, 0, 1], 0).into()).into();
    let listeners = lamna_server::listen::bind(&[any_port]).unwrap();
    let ListenAddress::Tcp(address) = *listeners[0].address() else { unreachable!("it is a TCP address") };
    let settings = Settings {
        sites: vec![SiteSettings::new(root.to_owned())],
        architecture: ENGINES[0],
        log: LogTarget::Off,
        threads: 8,
        cache_bytes_max: 64 << 20,
        // The watcher begins when it has something to watch: a thread and a descriptor that are counted or not.
        cache_watch: false,
        ..Settings::default()
    };
    (Server::open(&settings, listeners).unwrap(), address)
}

/// Changes to `architecture` and waits until the change is complete.
fn go(server: &mut Server, architecture: Architecture) -> Duration {
    let settings = Settings { architecture, workers: 1, ..server.settings().clone() };
    let begun = Instant::now();
    server.change(&settings).unwrap();
    settle(|| (!server.is_changing()).then_some(()), || "the engine before does not end".to_owned());
    begun.elapsed()
}

/// Has everything been made that is made once.
fn warm_up(server: &mut Server, address: SocketAddr) {
    for engine in ENGINES {
        go(server, engine);
    }
    go(server, ENGINES[0]);
    // Large files stay open.
    let load = Load { address, over: AtomicBool::new(true), requests: AtomicU64::new(0), failures: Mutex::default() };
    reading_slowly(&load).unwrap();
    let mut stream = connect(address).unwrap();
    (0..SIZES.len() as u64).for_each(|file| ask(&mut stream, file).unwrap());
}

/// All ordered pairs, then any, with one and with two workers.
fn switch_all(server: &mut Server, load: &Load) -> String {
    let seed = std::env::var("LAMNA_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(7);
    let mut random = Random(seed);
    let mut pairs: Vec<_> =
        ENGINES.iter().flat_map(|from| ENGINES.iter().map(move |to| (*from, *to))).filter(|(a, b)| a != b).collect();
    let extra = std::env::var("LAMNA_SWITCHES").ok().and_then(|count| count.parse().ok()).unwrap_or(20);
    let any = |random: &mut Random| ENGINES[random.below(ENGINES.len() as u64) as usize];
    pairs.extend((0..extra).map(|_| (any(&mut random), any(&mut random))));
    let mut took = Vec::new();
    for (from, to) in pairs {
        for engine in [from, to] {
            if server.settings().architecture != engine {
                let workers = 1 + random.below(2) as usize;
                let settings = Settings { architecture: engine, workers, ..server.settings().clone() };
                let begun = Instant::now();
                if let Err(error) = server.change(&settings) {
                    load.fail(format!("{engine:?}: {error}"));
                }
                settle(
                    || (!server.is_changing()).then_some(()),
                    || format!("the engine before {engine:?} does not end: {:?}", thread_names()),
                );
                took.push(begun.elapsed());
            }
        }
        thread::sleep(Duration::from_millis(5 + random.below(195)));
    }
    took.sort_unstable();
    format!("{} switches; median {:?}, longest {:?}", took.len(), took[took.len() / 2], took[took.len() - 1])
}

fn settle(mut check: impl FnMut() -> Option<()>, complaint: impl Fn() -> String) {
    let end = Instant::now() + Duration::from_secs(30);
    while check().is_none() {
        assert!(Instant::now() < end, "{}", complaint());
        thread::sleep(Duration::from_millis(1));
    }
}

fn threads() -> usize {
    fs::read_dir("/proc/self/task").unwrap().count()
}

/// For complaints.
fn thread_names() -> Vec<String> {
    let names = fs::read_dir("/proc/self/task").unwrap().flatten().map(|task| task.path().join("comm"));
    names.filter_map(|name| fs::read_to_string(name).ok()).map(|name| name.trim().to_owned()).collect()
}

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

// The files.

const SIZES: [u64; 5] = [0, 500, 50_000, 300_000, 2_000_000];

fn large_bytes() -> u64 {
    std::env::var("LAMNA_LARGE_BYTES").ok().and_then(|bytes| bytes.parse().ok()).unwrap_or(24 << 20)
}

fn make_files(root: &Path) {
    for (file, size) in SIZES.iter().enumerate() {
        fs::write(root.join(format!("{file}")), content(file as u64, 0, *size)).unwrap();
    }
    let mut large = fs::File::create(root.join("large")).unwrap();
    let mut at = 0;
    while at < large_bytes() {
        let bytes = (large_bytes() - at).min(1 << 20);
        large.write_all(&content(LARGE, at, bytes)).unwrap();
        at += bytes;
    }
}

const LARGE: u64 = 99;

/// What is in `file` from `offset` on.
fn content(file: u64, offset: u64, bytes: u64) -> Vec<u8> {
    (offset..offset + bytes).map(|at| ((at * 31 + (at >> 8) * 7 + (at >> 20)) as u8) ^ file as u8).collect()
}

// The clients.

struct Load {
    address: SocketAddr,
    over: AtomicBool,
    requests: AtomicU64,
    failures: Mutex<Vec<String>>,
}

impl Load {
    fn repeat(&self, mut visit: impl FnMut(&mut Random) -> io::Result<()>, seed: u64) {
        let mut random = Random(seed + 1);
        while !self.over.load(Relaxed) {
            if let Err(error) = visit(&mut random) {
                self.fail(format!("client {seed}: {error}"));
                return;
            }
        }
    }

    fn fail(&self, failure: String) {
        self.failures.lock().unwrap().push(failure);
    }

    fn count(&self) {
        self.requests.fetch_add(1, Relaxed);
    }
}

/// Requests on one connection, each after the answer to the last.
fn one_by_one(load: &Load, random: &mut Random) -> io::Result<()> {
    let mut stream = connect(load.address)?;
    for _ in 0..300 {
        ask(&mut stream, random.below(SIZES.len() as u64))?;
        load.count();
    }
    Ok(())
}

/// Batches of requests whose answers are read afterwards.
fn pipelined(load: &Load, random: &mut Random) -> io::Result<()> {
    let mut stream = BufReader::new(connect(load.address)?);
    for _ in 0..30 {
        let files: Vec<u64> = (0..1 + random.below(20)).map(|_| random.below(SIZES.len() as u64)).collect();
        let requests: String = files.iter().map(|file| request(&file.to_string())).collect();
        // More than the server takes at once: it is written while answers are read.
        let mut writer = stream.get_ref().try_clone()?;
        let writing = thread::spawn(move || writer.write_all(requests.as_bytes()));
        for file in files {
            expect(&response(&mut stream)?, file)?;
            load.count();
        }
        writing.join().expect("writing does not panic")?;
    }
    Ok(())
}

fn byte_by_byte(load: &Load, random: &mut Random) -> io::Result<()> {
    let mut stream = connect(load.address)?;
    let file = random.below(SIZES.len() as u64);
    for byte in request(&file.to_string()).bytes() {
        stream.write_all(&[byte])?;
        thread::sleep(Duration::from_millis(2));
    }
    expect(&response(&mut BufReader::new(stream))?, file)?;
    load.count();
    Ok(())
}

/// A download that goes on through many switches.
fn reading_slowly(load: &Load) -> io::Result<()> {
    let mut stream = BufReader::with_capacity(64 * 1024, connect(load.address)?);
    stream.get_mut().write_all(request("large").as_bytes())?;
    let length = head(&mut stream)?;
    if length != large_bytes() {
        return Err(io::Error::other(format!("{length} bytes of large content")));
    }
    let (mut at, mut buffer) = (0, vec![0; 64 * 1024]);
    while at < length {
        let bytes = stream.read(&mut buffer)?;
        if bytes == 0 || buffer[..bytes] != content(LARGE, at, bytes as u64) {
            return Err(io::Error::other(format!("wrong content at {at} of large content ({bytes} bytes)")));
        }
        at += bytes as u64;
        if !load.over.load(Relaxed) {
            thread::sleep(Duration::from_millis(4));
        }
    }
    load.count();
    Ok(())
}

fn new_connections(load: &Load, random: &mut Random) -> io::Result<()> {
    let file = random.below(SIZES.len() as u64);
    let mut stream = connect(load.address)?;
    write!(stream, "GET /{file} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")?;
    let mut stream = BufReader::new(stream);
    expect(&response(&mut stream)?, file)?;
    if stream.read(&mut [0])? != 0 {
        return Err(io::Error::other("more after the last response"));
    }
    load.count();
    Ok(())
}

/// Connections that are idle through several switches, and are still there.
fn idling(load: &Load) -> io::Result<()> {
    let mut streams = (0..20).map(|_| connect(load.address)).collect::<io::Result<Vec<_>>>()?;
    for _ in 0..3 {
        for stream in &mut streams {
            ask(stream, 1)?;
            load.count();
        }
        thread::sleep(Duration::from_millis(300));
    }
    Ok(())
}

fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_secs(15)))?;
    Ok(stream)
}

fn request(target: &str) -> String {
    format!("GET /{target} HTTP/1.1\r\nHost: x\r\n\r\n")
}

fn ask(stream: &mut TcpStream, file: u64) -> io::Result<()> {
    stream.write_all(request(&file.to_string()).as_bytes())?;
    // Nothing follows the answer, so nothing is lost with the reader.
    expect(&response(&mut BufReader::new(&mut *stream))?, file)
}

fn expect(received: &[u8], file: u64) -> io::Result<()> {
    match received == content(file, 0, SIZES[file as usize]) {
        true => Ok(()),
        false => Err(io::Error::other(format!("{} bytes that are not file {file}", received.len()))),
    }
}

/// The content of the next response.
fn response(stream: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut content = vec![0; head(stream)? as usize];
    stream.read_exact(&mut content)?;
    Ok(content)
}

/// Reads a head; the length of the content that follows.
fn head(stream: &mut impl BufRead) -> io::Result<u64> {
    let (mut length, mut line, mut lines) = (None, String::new(), 0);
    loop {
        line.clear();
        stream.read_line(&mut line)?;
        lines += 1;
        if lines == 1 && line != "HTTP/1.1 200 OK\r\n" {
            return Err(io::Error::other(format!("status line {line:?}")));
        }
        if let Some(value) = line.strip_prefix("Content-Length: ") {
            length = value.trim().parse().ok();
        }
        if line == "\r\n" {
            return length.ok_or_else(|| io::Error::other("no Content-Length"));
        }
        if line.is_empty() {
            return Err(io::Error::other("the connection ended within a head"));
        }
    }
}

/// Numbers that look random and are the same in every run (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) % end
    }
}
