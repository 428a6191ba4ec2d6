//! A worker that serves from its cache allocates nothing: counted by the allocator, in the worker's thread, while 1,000
//! requests are answered over a real socket.
//!
//! A binary of its own, because there is one global allocator in a program.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use lamna_server::cache::Store;
use lamna_server::config::access_log::{AccessLogs, LogFormat, LogTarget, RouteLog};
use lamna_server::config::answer_cache::AnswerCache;
use lamna_server::config::early_hints::{EarlyHintSettings, LinkPrefetchSettings};
use lamna_server::config::gateway::{GatewayProtocol, GatewaySettings, UpstreamSettings};
use lamna_server::config::route::condition::{Condition, ValueTest};
use lamna_server::config::route::headers::HeaderRule;
use lamna_server::config::route::pattern::Pattern;
use lamna_server::config::route::{RouteSettings, Switch};
use lamna_server::config::sending::Plan;
use lamna_server::config::settings::{ListenAddress, Settings, SiteSettings, SiteTls, TlsFiles};
use lamna_server::content::site::Sites;
use lamna_server::early_hints::EarlyHints;
use lamna_server::engine::{amped, sped};
use lamna_server::hints::Hints;
use lamna_server::io::KernelFeatures;
use lamna_server::io::waker::Waker;
use lamna_server::log::AccessLog;
use lamna_server::metrics::counters::Counters;
use lamna_server::sys::clock::Clock;
use lamna_server::sys::shared_memory::SharedMemory;
use lamna_server::tls::{Alpn, Endpoint, Tickets};
use lamna_server::worker::confinement::Confinement;
use lamna_server::worker::connection_counter::ConnectionCounter;
use lamna_server::worker::control::Control;
use lamna_server::worker::limiter::{Counted, Limiter};
use lamna_server::worker::migration::handover::Handover;
use lamna_server::worker::shared::Shared;
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// Counts what threads allocate that asked for it.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations and reallocations in threads that are counted.
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Constant and without a destructor, so that looking at it allocates nothing, at any time in the life of a thread.
    static IS_COUNTED: Cell<bool> = const { Cell::new(false) };
}

fn count() {
    if IS_COUNTED.get() {
        ALLOCATIONS.fetch_add(1, SeqCst);
    }
}

// SAFETY: everything is handed on to the system's allocator as it is; counting neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the promises of `GlobalAlloc::alloc`, which are those of the same function here.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: as above; `pointer` came from `System` with this layout.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above; `pointer` came from `System` with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// One test, so that no other thread is counted meanwhile.
#[test]
fn a_thousand_cached_requests_allocate_nothing() {
    type Run = fn(&Arc<Shared>);
    let engines: [(&str, Run); 2] = [
        ("sped", |shared| sped::run(shared, 0).expect("the engine can wait")),
        ("amped", |shared| amped::run(shared, 0, 4).expect("the engine can wait")),
    ];
    for ((name, run), has_tls) in engines.iter().flat_map(|engine| [(engine, false), (engine, true)]) {
        let directory = tempfile::tempdir().expect("a temporary directory can be made");
        for (file, bytes) in [("small.txt", 500), ("medium.txt", 50 * 1024)] {
            std::fs::write(directory.path().join(file), vec![b'x'; bytes]).expect("a file can be written");
        }
        let page = format!("<link rel=stylesheet href=/a.css>{}", "x".repeat(467));
        std::fs::write(directory.path().join("page.html"), page).expect("a file can be written");
        let pair = has_tls.then(|| pair(directory.path()));
        let tls = pair.as_ref().map(|(files, _)| files);
        for mut routes in [Vec::new(), routes(1000), with_conditions(routes(1000))] {
            let count = routes.len();
            // Without any route there is no application either.
            routes.extend((count > 0).then(kept_answer));
            let (shared, address) = shared(directory.path(), routes, tls);
            let worker = thread::spawn({
                let (shared, run) = (shared.clone(), *run);
                move || {
                    IS_COUNTED.set(true);
                    run(&shared);
                }
            });
            for (file, bytes) in [("small.txt", 500), ("medium.txt", 50 * 1024), ("page.html", 500), ("kept.txt", 500)]
                .into_iter()
                .take(3 + count.min(1))
            {
                for batch in [1, 8] {
                    let stream = connect(address);
                    let least = match &pair {
                        None => least_allocations(stream, file, bytes, batch),
                        Some((_, trusted)) => least_allocations(over_tls(stream, trusted), file, bytes, batch),
                    };
                    assert_eq!(
                        least, 0,
                        "{name} allocates in 1,000 requests for {file}, {batch} at a time, with {count} routes, TLS: {has_tls}"
                    );
                }
            }
            shared.control.drain();
            worker.join().expect("the worker does not panic");
        }
    }
}

/// An application whose answer may be kept, for as long as the test runs, and the route that keeps it.
fn kept_answer() -> RouteSettings {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let address = listener.local_addr().expect("it is bound");
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            // A head is a segment here, and its end is not looked for.
            let _ = stream.read(&mut [0; 4096]);
            // The age keeps its digits.
            let head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=900\r\nAge: 100\r\nConnection: close\r\nContent-Length: 500\r\n\r\n";
            let _ = stream.write_all(&[head.as_bytes(), &[b'x'; 500]].concat());
        }
    });
    let upstream = UpstreamSettings::new(address.to_string().parse().expect("it is an address"));
    RouteSettings {
        paths: Pattern::from_glob("/kept.txt").expect("it is a pattern"),
        gateway: Switch::Set(GatewaySettings::new(GatewayProtocol::Http, vec![upstream])),
        answer_cache: Switch::Set(AnswerCache::default()),
        ..RouteSettings::default()
    }
}

/// A request. For pages as browsers ask for them that navigate.
fn request(file: &str) -> String {
    let fields = match file.ends_with(".html") {
        true => "Accept: text/html\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\n",
        false => "",
    };
    format!("GET /{file} HTTP/1.1\r\nHost: test\r\nReferer: http://test/page\r\n{fields}\r\n")
}

/// Asks for `file` once: the first answer of an application has another head than those that are kept. For pages until
/// hints have come before one.
fn prime(stream: &mut (impl Read + Write), file: &str, bytes: usize) {
    for _ in 0..400 {
        stream.write_all(request(file).as_bytes()).expect("the server reads");
        let (mut answer, mut length) = (vec![0; bytes + 4096], 0);
        while !answer[..length].ends_with(&[b'x'; 100]) || length < bytes {
            length += stream.read(&mut answer[length..]).expect("the server answers");
        }
        if !file.ends_with(".html") || answer.starts_with(b"HTTP/1.1 103 ") {
            return;
        }
        thread::sleep(Duration::from_millis(50));
    }
    panic!("no hints came in 20 s");
}

/// Routes of regular expressions, of which one is for everything.
fn routes(count: usize) -> Vec<RouteSettings> {
    let regex = |number: usize| match number {
        0 => "[.]txt$".to_owned(),
        number => format!("^/item{number}/[a-z]+/(\\d+)$"),
    };
    let headers = |number: usize| vec![HeaderRule::of_fields(&[(format!("X-{number}"), "1".to_owned())])];
    let route = |number| RouteSettings {
        paths: vec![Pattern::from_regex(&regex(number)).expect("it is a regular expression")],
        headers: headers(number),
        ..RouteSettings::default()
    };
    (0..count).map(route).collect()
}

/// With one more, which looks at a field and the query of every request, and one whose requests are not logged: then
/// all others are.
fn with_conditions(mut routes: Vec<RouteSettings>) -> Vec<RouteSettings> {
    let conditions = vec![
        Condition::Header("Host".to_owned(), ValueTest::Regex("^te".to_owned())),
        Condition::Query("x".to_owned(), ValueTest::Absent),
    ];
    let headers = vec![HeaderRule::of_fields(&[("X-Asked".to_owned(), "1".to_owned())])];
    routes.push(RouteSettings { conditions, headers, ..RouteSettings::default() });
    let paths = Pattern::from_glob("/medium.txt").expect("it is a pattern");
    routes.push(RouteSettings { paths, log: Some(RouteLog::Own(LogTarget::Off)), ..RouteSettings::default() });
    routes
}

/// How often a cached file is compared with the file system at most.
const COMPARED_MS: u64 = 500;

/// The fewest requests that allocated, in several rounds of 1,000, beyond those for which time passed: twice a second a
/// cached file is compared with the file system, which may allocate in one request. A round of less than half a second
/// has to have none.
fn least_allocations(mut stream: impl Read + Write, file: &str, bytes: usize, batch: usize) -> u64 {
    prime(&mut stream, file, bytes);
    let request = request(file).repeat(batch);
    // The first is translated, and shows how long an answer is.
    let mut answer = vec![0; bytes + 4096];
    stream.write_all(&request.as_bytes()[..request.len() / batch]).expect("the server reads");
    let mut length = 0;
    while !answer[..length].ends_with(&[b'x'; 100]) || length < bytes {
        length += stream.read(&mut answer[length..]).expect("the server answers");
    }
    assert_ne!(ALLOCATIONS.load(SeqCst), 0, "translating allocates, so nothing is being counted");
    let mut answers = vec![0; length * batch];
    let mut round = || {
        let (begun, mut allocating) = (Instant::now(), 0);
        let mut before = ALLOCATIONS.load(SeqCst);
        for _ in 0..1000 / batch {
            stream.write_all(request.as_bytes()).expect("the server reads");
            stream.read_exact(&mut answers).expect("the server answers");
            // With those behind the answer before.
            let now = ALLOCATIONS.load(SeqCst);
            allocating += u64::from(now != before);
            before = now;
        }
        allocating.saturating_sub(begun.elapsed().as_millis() as u64 / COMPARED_MS)
    };
    round();
    let mut least = u64::MAX;
    for _ in 0..50 {
        least = least.min(round());
        if least == 0 {
            break;
        }
    }
    least
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("the server listens");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a fresh socket takes options");
    stream.set_nodelay(true).expect("a fresh socket takes options");
    stream
}

/// A certificate for `site.test` in files, and the certificate.
fn pair(directory: &Path) -> (TlsFiles, CertificateDer<'static>) {
    let made = rcgen::generate_simple_self_signed(vec!["site.test".to_owned()]).expect("a certificate can be made");
    let files = TlsFiles { certificate: directory.join("c.pem"), key: directory.join("k.pem"), client_ca: None };
    std::fs::write(&files.certificate, made.cert.pem()).expect("a file can be written");
    std::fs::write(&files.key, made.signing_key.serialize_pem()).expect("a file can be written");
    (files, made.cert.der().clone())
}

fn over_tls(stream: TcpStream, trusted: &CertificateDer<'static>) -> StreamOwned<ClientConnection, TcpStream> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).expect("it can be trusted");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.expect("they are spoken").with_root_certificates(roots).with_no_client_auth();
    let name = "site.test".try_into().expect("it is a name");
    StreamOwned::new(ClientConnection::new(Arc::new(config), name).expect("the configuration is whole"), stream)
}

/// What a server of `root` has in common, and where it listens.
fn shared(root: &Path, routes: Vec<RouteSettings>, tls: Option<&TlsFiles>) -> (Arc<Shared>, SocketAddr) {
    let any_port = ListenAddress::Tcp(([127, 0, 0, 1], 0).into()).into();
    let tls = tls.cloned().map(SiteTls::Files);
    let early_hints = EarlyHintSettings { is_on: true, http1: true, ..EarlyHintSettings::default() };
    let link_prefetch = LinkPrefetchSettings { is_on: true, ..LinkPrefetchSettings::default() };
    let is_logged = routes.iter().any(|route| route.log.is_some());
    let log = is_logged.then(|| LogTarget::File(root.join("access.log")));
    let log_format = LogFormat::from_text("$host \"$request\" $status $http_referer").ok();
    let sites = vec![SiteSettings {
        log,
        log_format,
        routes,
        tls,
        early_hints,
        link_prefetch,
        ..SiteSettings::new(root.to_owned())
    }];
    // A limit that is looked at with each request and never met.
    let request_limit = "60000/s burst 10000000".parse().ok();
    let mut settings =
        Settings { sites, log: LogTarget::Off, request_limit, limit_exempt: Vec::new(), ..Settings::default() };
    // Every request is told to the learner.
    settings.hints.is_on = true;
    let listeners = lamna_server::listen::bind(&[any_port]).expect("loopback has a free port");
    let ListenAddress::Tcp(address) = *listeners[0].address() else { unreachable!("it is a TCP address") };
    let tickets = Arc::new(Tickets::new().expect("the kernel gives random bytes"));
    let sites = Arc::new(Sites::open(&settings).expect("the directory is there"));
    let store = Arc::new(Store::new(1 << 26, 100));
    let shared = Shared {
        hints: Hints::begin(&settings, false, SharedMemory::default(), None),
        hint_counters: SharedMemory::default(),
        early_hints: EarlyHints::begin(&sites, &store, &SharedMemory::default()),
        early_hint_counters: SharedMemory::default(),
        handlers: Arc::default(),
        services: Arc::default(),
        tls: Endpoint::open(&settings, tickets.clone(), SharedMemory::default(), &[Alpn::Http1])
            .expect("the pair is good"),
        sites,
        store,
        abilities: Arc::new(KernelFeatures::default()),
        sending: Plan::default(),
        h2c: true,
        making_lock: Arc::default(),
        proxies: settings.proxies.clone(),
        schedule: settings.schedule,
        uplink: None,
        uplink_clock: SharedMemory::default(),
        limiter: Limiter::new(&settings, Counted::new().expect("there is room"), SharedMemory::default()),
        limits: Arc::new(settings.limits.clone()),
        listeners: Arc::new(listeners),
        tickets,
        log: AccessLog::open(AccessLogs::of(&settings), SharedMemory::default()).expect("it is a file").map(Arc::new),
        clock: Clock::start(),
        control: Control::new(1, 1, 1).expect("there are descriptors"),
        handover: Handover::new(1),
        receiver: None,
        counters: SharedMemory::<Counters>::default(),
        log_counters: SharedMemory::default(),
        cache_counters: SharedMemory::default(),
        operator_state: SharedMemory::zeroed().expect("there is room"),
        trace: SharedMemory::zeroed().unwrap(),
        scoreboard: SharedMemory::default(),
        connection_counters: vec![ConnectionCounter::default()],
        first_score: 0,
        alarm: Arc::new(Waker::new().unwrap()),
        fork_server: None,
        request_id: false,
        confinement: Arc::new(Confinement::none()),
    };
    (Arc::new(shared), address)
}
