//! The engines under test: each architecture, and AMPED with each optional system call taken away.

/// One way of serving.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Engine {
    /// What `--arch` takes.
    pub(crate) architecture: &'static str,
    /// What `--without` takes.
    pub(crate) without: Option<&'static str>,
}

/// Everything in line.
pub(crate) const SPED: Engine = Engine { architecture: "sped", without: None };
/// With helpers.
pub(crate) const AMPED: Engine = Engine { architecture: "amped", without: None };
/// Names are opened by path and checked afterwards.
pub(crate) const AMPED_WITHOUT_OPENAT2: Engine = Engine { without: Some("openat2"), ..AMPED };
/// Every read goes to a helper.
pub(crate) const AMPED_WITHOUT_NOWAIT: Engine = Engine { without: Some("nowait"), ..AMPED };
/// Residency is tested page by page.
pub(crate) const AMPED_WITHOUT_CACHESTAT: Engine = Engine { without: Some("cachestat"), ..AMPED };

/// A pool of threads, one for each connection that is active.
pub(crate) const THREAD_POOL: Engine = Engine { architecture: "thread-pool", without: None };
/// A thread for each request.
pub(crate) const THREAD_PER_REQUEST: Engine = Engine { architecture: "thread-per-request", without: None };
/// A thread for each connection.
pub(crate) const THREAD_PER_SESSION: Engine = Engine { architecture: "thread-per-session", without: None };
/// One ring per worker.
pub(crate) const PROACTOR: Engine = Engine { architecture: "proactor", without: None };
/// Names are looked up by helpers.
pub(crate) const PROACTOR_WITHOUT_OPENAT2: Engine = Engine { without: Some("openat2"), ..PROACTOR };
/// Every stretch is read by the ring.
pub(crate) const PROACTOR_WITHOUT_NOWAIT: Engine = Engine { without: Some("nowait"), ..PROACTOR };
/// Another engine takes its place.
pub(crate) const PROACTOR_WITHOUT_IO_URING: Engine = Engine { without: Some("io_uring"), ..PROACTOR };

/// Declares tests that take an [`Engine`], once for each of these engines, in a module of the engine's name.
macro_rules! for_engines {
    ([$($module:ident = $engine:ident),* $(,)?] => $tests:tt) => {
        $(mod $module {
            crate::engine::tests_of!($engine, $tests);
        })*
    };
}

macro_rules! tests_of {
    ($engine:ident, [$($test:ident),* $(,)?]) => {
        $(
            #[test]
            fn $test() {
                super::$test(crate::engine::$engine);
            }
        )*
    };
}

pub(crate) use {for_engines, tests_of};
