//! The engines under test: each architecture, with one worker and with two, and with each optional system call taken
//! away.

use lamna_server::config::settings::Architecture;

/// One way of serving.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Engine {
    /// What `--arch` takes.
    pub(crate) architecture: &'static str,
    /// What `--without` takes.
    pub(crate) without: Option<&'static str>,
    /// Further arguments.
    pub(crate) arguments: &'static [&'static str],
}

const TWO_WORKERS: &[&str] = &["--workers", "2"];

/// Everything in line.
pub(crate) const SPED: Engine = Engine { architecture: "sped", without: None, arguments: &[] };
/// Two loops that share a cache.
pub(crate) const SPED_2: Engine = Engine { arguments: TWO_WORKERS, ..SPED };
/// Names are opened by path and checked afterwards, in line.
pub(crate) const SPED_WITHOUT_OPENAT2: Engine = Engine { without: Some("openat2"), ..SPED };
/// With helpers.
pub(crate) const AMPED: Engine = Engine { architecture: "amped", ..SPED };
/// Files are read and sent.
pub(crate) const AMPED_COPY: Engine = Engine { arguments: &["--send", "copy"], ..AMPED };
/// Files are sent from mappings.
pub(crate) const AMPED_MAPPED: Engine = Engine { arguments: &["--send", "mapped"], ..AMPED };
/// Files are sent by the kernel.
pub(crate) const AMPED_SENDFILE: Engine = Engine { arguments: &["--send", "sendfile"], ..AMPED };
/// Two loops, each with helpers.
pub(crate) const AMPED_2: Engine = Engine { arguments: TWO_WORKERS, ..AMPED };
/// Names are opened by path and checked afterwards.
pub(crate) const AMPED_WITHOUT_OPENAT2: Engine = Engine { without: Some("openat2"), ..AMPED };
/// Every read goes to a helper.
pub(crate) const AMPED_WITHOUT_NOWAIT: Engine = Engine { without: Some("nowait"), ..AMPED };
/// Residency is tested page by page.
pub(crate) const AMPED_WITHOUT_CACHESTAT: Engine = Engine { without: Some("cachestat"), ..AMPED };
/// Helpers as Flash had them.
pub(crate) const AMPED_WITH_HELPER_PROCESSES: Engine = Engine { arguments: &["--helpers", "processes"], ..AMPED };
/// Helper processes open names by path.
pub(crate) const HELPER_PROCESSES_WITHOUT_OPENAT2: Engine =
    Engine { without: Some("openat2"), ..AMPED_WITH_HELPER_PROCESSES };
/// Helper processes are asked for every stretch.
pub(crate) const HELPER_PROCESSES_WITHOUT_NOWAIT: Engine =
    Engine { without: Some("nowait"), ..AMPED_WITH_HELPER_PROCESSES };
/// One worker process.
pub(crate) const CO_AMPED_1: Engine = Engine { architecture: "co-amped", ..AMPED };
/// Two worker processes.
pub(crate) const CO_AMPED: Engine = Engine { arguments: TWO_WORKERS, ..CO_AMPED_1 };
/// In each process names are opened by path.
pub(crate) const CO_AMPED_WITHOUT_OPENAT2: Engine = Engine { without: Some("openat2"), ..CO_AMPED };
/// In each process every read goes to a helper.
pub(crate) const CO_AMPED_WITHOUT_NOWAIT: Engine = Engine { without: Some("nowait"), ..CO_AMPED };
/// A process for each connection.
pub(crate) const MP: Engine = Engine { architecture: "mp", arguments: &["--processes", "4"], ..AMPED };
/// With room for some connections from the beginning.
pub(crate) const MP_OF_SIXTEEN: Engine = Engine { arguments: &["--processes", "16"], ..MP };
/// A few processes and no more, each of which serves one connection.
pub(crate) const MP_OF_SOME: Engine = Engine { arguments: &["--processes", "4", "--processes-max", "32"], ..MP };
/// One process and no more.
pub(crate) const MP_OF_ONE: Engine = Engine { arguments: &["--processes", "1", "--processes-max", "1"], ..MP };
/// Two processes and no more.
pub(crate) const MP_OF_TWO: Engine = Engine { arguments: &["--processes", "2", "--processes-max", "2"], ..MP };
/// In each process names are opened by path.
pub(crate) const MP_WITHOUT_OPENAT2: Engine = Engine { without: Some("openat2"), ..MP };
/// Stages and helpers in threads of their own.
pub(crate) const PIPELINED: Engine = Engine { architecture: "pipelined", ..SPED };
/// Files are read and sent.
pub(crate) const PIPELINED_COPY: Engine = Engine { arguments: &["--send", "copy"], ..PIPELINED };
/// Files are sent from mappings.
pub(crate) const PIPELINED_MAPPED: Engine = Engine { arguments: &["--send", "mapped"], ..PIPELINED };
/// Files are sent by the kernel.
pub(crate) const PIPELINED_SENDFILE: Engine = Engine { arguments: &["--send", "sendfile"], ..PIPELINED };
/// All threads of a pool on one processor.
pub(crate) const PIPELINED_PINNED: Engine = Engine { arguments: &["--pin", "--workers", "2"], ..PIPELINED };
/// Two pools that share a cache.
pub(crate) const PIPELINED_2: Engine = Engine { arguments: TWO_WORKERS, ..PIPELINED };
/// Names are opened by path and checked afterwards, all by the path helper.
pub(crate) const PIPELINED_WITHOUT_OPENAT2: Engine = Engine { without: Some("openat2"), ..PIPELINED };
/// Every read goes to a helper.
pub(crate) const PIPELINED_WITHOUT_NOWAIT: Engine = Engine { without: Some("nowait"), ..PIPELINED };

/// A pool of threads, one for each connection that is active.
pub(crate) const THREAD_POOL: Engine = Engine { architecture: "thread-pool", ..SPED };
/// A pool whose size does not follow the load, so that nobody looks at its threads twice a second.
pub(crate) const THREAD_POOL_FIXED: Engine = Engine { arguments: &["--threads", "64"], ..THREAD_POOL };
/// Two threads and no more.
pub(crate) const THREAD_POOL_OF_TWO: Engine = Engine { arguments: &["--threads", "2"], ..THREAD_POOL };
/// Files are read and sent.
pub(crate) const THREAD_POOL_COPY: Engine = Engine { arguments: &["--send", "copy"], ..THREAD_POOL };
/// Files are sent from mappings.
pub(crate) const THREAD_POOL_MAPPED: Engine = Engine { arguments: &["--send", "mapped"], ..THREAD_POOL };
/// Files are sent by the kernel.
pub(crate) const THREAD_POOL_SENDFILE: Engine = Engine { arguments: &["--send", "sendfile"], ..THREAD_POOL };
/// Two pools.
pub(crate) const THREAD_POOL_2: Engine = Engine { arguments: TWO_WORKERS, ..THREAD_POOL };
/// Names are opened by path.
pub(crate) const THREAD_POOL_WITHOUT_OPENAT2: Engine = Engine { without: Some("openat2"), ..THREAD_POOL };
/// A thread for each request.
pub(crate) const THREAD_PER_REQUEST: Engine = Engine { architecture: "thread-per-request", ..SPED };
/// Two threads that wait for requests.
pub(crate) const THREAD_PER_REQUEST_2: Engine = Engine { arguments: TWO_WORKERS, ..THREAD_PER_REQUEST };
/// A thread for each connection.
pub(crate) const THREAD_PER_SESSION: Engine = Engine { architecture: "thread-per-session", ..SPED };
/// Two threads and no more.
pub(crate) const THREAD_PER_SESSION_OF_TWO: Engine =
    Engine { arguments: &["--threads-max", "2"], ..THREAD_PER_SESSION };
/// Two threads that wait for connections.
pub(crate) const THREAD_PER_SESSION_2: Engine = Engine { arguments: TWO_WORKERS, ..THREAD_PER_SESSION };
/// One ring per worker.
pub(crate) const PROACTOR: Engine = Engine { architecture: "proactor", ..SPED };
/// Files in memory are sent from mappings.
pub(crate) const PROACTOR_MAPPED: Engine = Engine { arguments: &["--send", "mapped"], ..PROACTOR };
/// Two rings.
pub(crate) const PROACTOR_2: Engine = Engine { arguments: TWO_WORKERS, ..PROACTOR };
/// Names are looked up by helpers.
pub(crate) const PROACTOR_WITHOUT_OPENAT2: Engine = Engine { without: Some("openat2"), ..PROACTOR };
/// Every stretch is read by the ring.
pub(crate) const PROACTOR_WITHOUT_NOWAIT: Engine = Engine { without: Some("nowait"), ..PROACTOR };
/// Another engine takes its place.
pub(crate) const PROACTOR_WITHOUT_IO_URING: Engine = Engine { without: Some("io_uring"), ..PROACTOR };

const WITHOUT_TESTS: &[&str] = &["--without", "nowait", "--without", "cachestat"];
/// Nothing tells what is in memory.
pub(crate) const AMPED_WITHOUT_TESTS: Engine = Engine { arguments: WITHOUT_TESTS, ..AMPED };
/// Likewise, and files are sent from mappings.
pub(crate) const AMPED_MAPPED_WITHOUT_TESTS: Engine =
    Engine { arguments: &["--without", "nowait", "--without", "cachestat", "--send", "mapped"], ..AMPED };
/// Nothing tells what is in memory.
pub(crate) const PIPELINED_WITHOUT_TESTS: Engine = Engine { arguments: WITHOUT_TESTS, ..PIPELINED };
/// Nothing tells what is in memory.
pub(crate) const PROACTOR_WITHOUT_TESTS: Engine = Engine { arguments: WITHOUT_TESTS, ..PROACTOR };

/// Nothing is kept from one request to the next.
const CACHES_OFF: &[&str] = &["--caches", "off"];
/// Heads are built again for each request.
const ENTRIES_OFF: &[&str] = &["--caches", "translations,content"];
/// With no other caches.
pub(crate) const AMPED_TRANSLATIONS: Engine = Engine { arguments: &["--caches", "translations"], ..AMPED };
/// With no other caches.
pub(crate) const AMPED_ENTRIES: Engine = Engine { arguments: &["--caches", "entries"], ..AMPED };
/// With no other caches.
pub(crate) const AMPED_CONTENT: Engine = Engine { arguments: &["--caches", "content"], ..AMPED };
/// With no other caches.
pub(crate) const AMPED_TRANSLATIONS_AND_ENTRIES: Engine =
    Engine { arguments: &["--caches", "translations,entries"], ..AMPED };
/// With no other caches.
pub(crate) const AMPED_ENTRIES_AND_CONTENT: Engine = Engine { arguments: &["--caches", "entries,content"], ..AMPED };
/// Everything is found out for each request.
pub(crate) const AMPED_CACHES_OFF: Engine = Engine { arguments: CACHES_OFF, ..AMPED };
/// Targets and content are kept.
pub(crate) const AMPED_ENTRIES_OFF: Engine = Engine { arguments: ENTRIES_OFF, ..AMPED };
/// Everything is found out for each request.
pub(crate) const SPED_CACHES_OFF: Engine = Engine { arguments: CACHES_OFF, ..SPED };
/// Targets and content are kept.
pub(crate) const SPED_ENTRIES_OFF: Engine = Engine { arguments: ENTRIES_OFF, ..SPED };
/// Everything is found out for each request.
pub(crate) const PIPELINED_CACHES_OFF: Engine = Engine { arguments: CACHES_OFF, ..PIPELINED };
/// Targets and content are kept.
pub(crate) const PIPELINED_ENTRIES_OFF: Engine = Engine { arguments: ENTRIES_OFF, ..PIPELINED };
/// Everything is found out for each request.
pub(crate) const THREAD_POOL_CACHES_OFF: Engine = Engine { arguments: CACHES_OFF, ..THREAD_POOL };
/// Targets and content are kept.
pub(crate) const THREAD_POOL_ENTRIES_OFF: Engine = Engine { arguments: ENTRIES_OFF, ..THREAD_POOL };
/// Everything is found out for each request.
pub(crate) const THREAD_PER_REQUEST_CACHES_OFF: Engine = Engine { arguments: CACHES_OFF, ..THREAD_PER_REQUEST };
/// Targets and content are kept.
pub(crate) const THREAD_PER_REQUEST_ENTRIES_OFF: Engine = Engine { arguments: ENTRIES_OFF, ..THREAD_PER_REQUEST };
/// Everything is found out for each request.
pub(crate) const THREAD_PER_SESSION_CACHES_OFF: Engine = Engine { arguments: CACHES_OFF, ..THREAD_PER_SESSION };
/// Targets and content are kept.
pub(crate) const THREAD_PER_SESSION_ENTRIES_OFF: Engine = Engine { arguments: ENTRIES_OFF, ..THREAD_PER_SESSION };
/// Everything is found out for each request.
pub(crate) const PROACTOR_CACHES_OFF: Engine = Engine { arguments: CACHES_OFF, ..PROACTOR };
/// Targets and content are kept.
pub(crate) const PROACTOR_ENTRIES_OFF: Engine = Engine { arguments: ENTRIES_OFF, ..PROACTOR };
/// Everything is found out for each request.
pub(crate) const MP_CACHES_OFF: Engine = Engine { arguments: &["--processes", "4", "--caches", "off"], ..MP };
/// Everything is found out for each request.
pub(crate) const HELPER_PROCESSES_CACHES_OFF: Engine =
    Engine { arguments: &["--helpers", "processes", "--caches", "off"], ..AMPED_WITH_HELPER_PROCESSES };

/// That every architecture of the server's table is among `engines`: a new one is not forgotten by the tests named
/// `what`.
pub(crate) fn assert_complete(what: &str, engines: &[Engine]) {
    for architecture in Architecture::ALL {
        let is_there = engines.iter().any(|engine| engine.architecture == architecture.name());
        assert!(is_there, "{what}: {} is not among the engines", architecture.name());
    }
}

/// The architectures of the server's table that can take each other's place in one process.
pub(crate) fn names_of_one_process() -> Vec<&'static str> {
    let architectures = Architecture::ALL.into_iter().filter(|architecture| !architecture.is_of_processes());
    architectures.map(Architecture::name).collect()
}

/// Declares tests that take an [`Engine`], once for each of these engines, in a module of the engine's name. With
/// `all NAME`, these are to be of every architecture, and the test `NAME` says so.
///
/// `cargo test` runs each test on `amped`, and on every eighth of the other engines in turn, so that each engine meets
/// each list of eight tests. The gate runs the rest as well: `--include-ignored`.
macro_rules! for_engines {
    (all $name:ident: [$($module:ident = $engine:ident),* $(,)?] => $tests:tt) => {
        crate::engine::for_engines!([$($module = $engine),*] => $tests);

        #[test]
        fn $name() {
            crate::engine::assert_complete(stringify!($name), &[$(crate::engine::$engine),*]);
        }
    };
    ([$($module:ident = $engine:ident),* $(,)?] => [$($test:ident),* $(,)?]) => {
        crate::engine::modules_of!([now later later later later later later later] [$($module = $engine,)*] [$($test,)*]);
    };
}

/// A module for each engine. The first list says which of the first eight tests are run now; it is turned by one with
/// each engine.
macro_rules! modules_of {
    ($turns:tt [] $tests:tt) => {};
    ([$first:ident $($turns:ident)*] [amped = $engine:ident, $($others:tt)*] $tests:tt) => {
        mod amped {
            crate::engine::tests_of!([now] $engine $tests);
        }
        crate::engine::modules_of!([$($turns)* $first] [$($others)*] $tests);
    };
    ([$first:ident $($turns:ident)*] [$module:ident = $engine:ident, $($others:tt)*] $tests:tt) => {
        mod $module {
            crate::engine::tests_of!([$first $($turns)*] $engine $tests);
        }
        crate::engine::modules_of!([$($turns)* $first] [$($others)*] $tests);
    };
}

/// The tests of one engine. The list of turns is turned by one with each test.
macro_rules! tests_of {
    ($turns:tt $engine:ident []) => {};
    ([now $($turns:ident)*] $engine:ident [$test:ident, $($others:tt)*]) => {
        #[test]
        fn $test() {
            super::$test(crate::engine::$engine);
        }
        crate::engine::tests_of!([$($turns)* now] $engine [$($others)*]);
    };
    ([later $($turns:ident)*] $engine:ident [$test:ident, $($others:tt)*]) => {
        #[test]
        #[ignore = "the gate runs it: --include-ignored"]
        fn $test() {
            super::$test(crate::engine::$engine);
        }
        crate::engine::tests_of!([$($turns)* later] $engine [$($others)*]);
    };
}

pub(crate) use {for_engines, modules_of, tests_of};
