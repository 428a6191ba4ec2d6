//! The engines under test: each architecture, and AMPED with each optional system call taken away.

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

/// Everything in line.
pub(crate) const SPED: Engine = Engine { architecture: "sped", without: None, arguments: &[] };
/// With helpers.
pub(crate) const AMPED: Engine = Engine { architecture: "amped", ..SPED };
/// Names are opened by path and checked afterwards.
pub(crate) const AMPED_WITHOUT_OPENAT2: Engine = Engine { without: Some("openat2"), ..AMPED };
/// Every read goes to a helper.
pub(crate) const AMPED_WITHOUT_NOWAIT: Engine = Engine { without: Some("nowait"), ..AMPED };
/// Residency is tested page by page.
pub(crate) const AMPED_WITHOUT_CACHESTAT: Engine = Engine { without: Some("cachestat"), ..AMPED };
/// Helpers as Flash had them.
pub(crate) const AMPED_WITH_HELPER_PROCESSES: Engine = Engine { arguments: &["--helpers", "processes"], ..AMPED };
/// Two worker processes.
pub(crate) const CO_AMPED: Engine = Engine { architecture: "co-amped", arguments: &["--workers", "2"], ..AMPED };
/// A process for each connection.
pub(crate) const MP: Engine = Engine { architecture: "mp", arguments: &["--processes", "4"], ..AMPED };
/// Stages and helpers in threads of their own.
pub(crate) const PIPELINED: Engine = Engine { architecture: "pipelined", ..SPED };
/// Names are opened by path and checked afterwards, all by the path helper.
pub(crate) const PIPELINED_WITHOUT_OPENAT2: Engine = Engine { without: Some("openat2"), ..PIPELINED };
/// Every read goes to a helper.
pub(crate) const PIPELINED_WITHOUT_NOWAIT: Engine = Engine { without: Some("nowait"), ..PIPELINED };

/// A pool of threads, one for each connection that is active.
pub(crate) const THREAD_POOL: Engine = Engine { architecture: "thread-pool", ..SPED };
/// A thread for each request.
pub(crate) const THREAD_PER_REQUEST: Engine = Engine { architecture: "thread-per-request", ..SPED };
/// A thread for each connection.
pub(crate) const THREAD_PER_SESSION: Engine = Engine { architecture: "thread-per-session", ..SPED };

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
