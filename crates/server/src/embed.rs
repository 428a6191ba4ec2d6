//! The server as a part of another program: a directory, and the program's own handlers, filters, cache policy and
//! engine.
//!
//! ```no_run
//! use lamna_server::embed::{Builder, Reply};
//!
//! let server = Builder::new("site")
//!     .listen(([127, 0, 0, 1], 8080))
//!     .handler("/hello/*", |asked| Reply::text(format!("hello {}\n", asked.path)))
//!     .start()?;
//! println!("serving at {}", server.address());
//! server.wait();
//! # Ok::<(), lamna_server::embed::StartError>(())
//! ```
//!
//! Owns: [`Builder`] and the life of what it starts. Guarantees: what cannot be served is an error of
//! [`Builder::start`], and never a panic; a server that is dropped has ended. Everything else that a server can do is
//! in [`Settings`], which [`Builder::settings`] hands out. Engines of processes are not for programs with threads.

pub mod engine;

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use lamna_filter::{Make, Step};
use lamna_policy::cache::{Objective, Replacement};

pub use lamna_site::content::handler::{Answering, Asked, Handler, Reply};
pub use lamna_site::service::Registry;

use lamna_config::route::pattern::Pattern;
use lamna_config::route::{RouteSettings, Switch};
use lamna_config::service::{OnFailure, ServiceDefinition, What, check_name};
use lamna_config::settings::{ListenAddress, LogTarget, Settings, SiteSettings};
use lamna_engine::engine::Engine;
use lamna_io::listen;
use lamna_site::cache::OwnPolicy;

use crate::process::embedded::Embedded;
use crate::process::server::Server;

/// The builder of a server.
#[derive(Debug)]
pub struct Builder {
    settings: Settings,
    filters: BTreeMap<String, Arc<dyn Make>>,
    handlers: BTreeMap<String, Arc<dyn Handler>>,
    engine: Option<Arc<dyn Engine>>,
    cache_policy: Option<OwnPolicy>,
    /// The fault in the request so far.
    wrong: Option<String>,
}

/// Why nothing is served: in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartError(String);

impl fmt::Display for StartError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for StartError {}

/// A server that serves.
#[derive(Debug)]
pub struct Running {
    address: SocketAddr,
    services: Arc<Registry>,
    /// Hung up when it is to end.
    orders: Option<Sender<()>>,
    looking: Option<JoinHandle<()>>,
}

/// How often the server looks after itself: certificates, roots that were replaced, services that have failed.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

impl Builder {
    /// Serves the files of `directory`. Relative paths are relative to the working directory.
    pub fn new(directory: impl AsRef<Path>) -> Builder {
        let directory = directory.as_ref();
        let directory: PathBuf = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
        let settings =
            Settings { sites: vec![SiteSettings::new(directory)], log: LogTarget::Off, ..Settings::default() };
        Builder {
            settings,
            filters: BTreeMap::new(),
            handlers: BTreeMap::new(),
            engine: None,
            cache_policy: None,
            wrong: None,
        }
    }

    /// At this address; a free port of loopback otherwise.
    pub fn listen(mut self, address: impl Into<SocketAddr>) -> Builder {
        self.settings.listen = vec![ListenAddress::Tcp(address.into()).into()];
        self
    }

    /// Has requests whose path matches `pattern` (as in `match` of a route) answered by `handler`, whatever their
    /// method is.
    pub fn handler<F>(self, pattern: &str, handler: F) -> Builder
    where
        F: Fn(&Asked) -> Reply + Send + Sync + 'static,
    {
        self.handler_of(pattern, Answering(handler))
    }

    /// The same with a handler that is more than a function.
    pub fn handler_of(mut self, pattern: &str, handler: impl Handler + 'static) -> Builder {
        let name = format!("handler-{}", self.handlers.len() + 1);
        self.handlers.insert(name.clone(), Arc::new(handler));
        self.route(pattern, RouteSettings { handler: Some(name), ..RouteSettings::default() })
    }

    /// Has files whose path matches `pattern` pass through `filter`, which is a service of this name.
    pub fn filter(mut self, pattern: &str, name: &str, filter: impl Make + 'static) -> Builder {
        if let Err(why) = check_name(name) {
            self.wrong.get_or_insert(why);
        }
        self.filters.insert(name.to_owned(), Arc::new(filter));
        self.settings.services.push(ServiceDefinition {
            name: name.to_owned(),
            what: What::Embedded,
            on_failure: OnFailure::Error,
            is_suspended: false,
        });
        let step = Step { name: name.to_owned(), parameters: BTreeMap::new() };
        self.route(pattern, RouteSettings { filters: Some(vec![step]), ..RouteSettings::default() })
    }

    /// Has `make` decide which entries of the cache go when room is needed, in the place of `cache_policy` of the
    /// settings.
    ///
    /// The cache has up to 16 shards, each behind a lock and with a policy of its own: `make` is given the bytes that
    /// the shard may hold, and what the settings want many of. What a policy owes is in [`lamna_policy::cache`]. Where
    /// one names no victim that is held, nothing more is kept.
    pub fn cache_policy<F>(mut self, make: F) -> Builder
    where
        F: Fn(u64, Objective) -> Box<dyn Replacement> + Send + Sync + 'static,
    {
        self.cache_policy = Some(OwnPolicy::new(make));
        self
    }

    /// Has `engine` serve, in the place of `architecture` of the settings; see [`engine`]. The server goes over to no
    /// other then.
    pub fn engine(mut self, engine: impl Engine + 'static) -> Builder {
        let architecture = engine.architecture();
        if architecture.is_of_processes() {
            let why = format!(
                "an engine of the program cannot take the place of {}, which is of processes",
                architecture.name()
            );
            self.wrong.get_or_insert(why);
        }
        self.engine = Some(Arc::new(engine));
        self
    }

    /// Everything else: engine, caches, limits, further sites.
    pub fn settings(mut self, change: impl FnOnce(&mut Settings)) -> Builder {
        change(&mut self.settings);
        self
    }

    fn route(mut self, pattern: &str, route: RouteSettings) -> Builder {
        match (Pattern::from_glob(pattern), self.settings.sites.first_mut()) {
            (Ok(paths), Some(site)) => {
                // A handler stands in the place of an application, and files are not looked for.
                let gateway = if route.handler.is_some() { Switch::Off } else { Switch::Unset };
                site.routes.push(RouteSettings { paths, gateway, ..route });
            }
            (Err(why), _) => _ = self.wrong.get_or_insert(format!("`{pattern}` {why}")),
            (Ok(_), None) => _ = self.wrong.get_or_insert("there is no site".to_owned()),
        }
        self
    }

    /// Serves from now on, in threads of its own.
    ///
    /// # Errors
    /// A pattern, a name, the directory or the address cannot be used.
    pub fn start(self) -> Result<Running, StartError> {
        let Builder { mut settings, filters, handlers, engine, cache_policy, wrong } = self;
        if let Some(why) = wrong {
            return Err(StartError(why));
        }
        if let Some(engine) = &engine {
            (settings.architecture, settings.adapts) = (engine.architecture(), false);
        }
        let any_port = [ListenAddress::Tcp(SocketAddr::from(([127, 0, 0, 1], 0))).into()];
        let addresses = if settings.listen.is_empty() { &any_port[..] } else { &settings.listen };
        let listeners = listen::bind(addresses).map_err(|error| StartError(error.to_string()))?;
        let address = listeners.iter().find_map(|listener| match listener.address() {
            ListenAddress::Tcp(address) => Some(*address),
            ListenAddress::Unix(_) => None,
        });
        let address =
            address.ok_or_else(|| StartError("there is no TCP address among those to listen at".to_owned()))?;
        let registry = Arc::new(Registry::with_embedded(filters));
        let embedded = Embedded { handlers: Arc::new(handlers), engine, cache_policy };
        let server = Server::open_with(&settings, listeners, registry.clone(), embedded);
        let mut server = server.map_err(|error| StartError(error.to_string()))?;
        let (orders, told): (Sender<()>, Receiver<()>) = channel();
        let look_after = move || {
            while let Err(std::sync::mpsc::RecvTimeoutError::Timeout) = told.recv_timeout(LOOK_INTERVAL) {
                server.look_after();
            }
            server.stop();
        };
        let looking = thread::Builder::new().name("lamna".to_owned()).spawn(look_after);
        let looking = looking.map_err(|error| StartError(format!("no thread can be started: {error}")))?;
        Ok(Running { address, services: registry, orders: Some(orders), looking: Some(looking) })
    }
}

impl Running {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its services, and how they are.
    pub fn services(&self) -> &Registry {
        &self.services
    }

    /// Serves until the process ends.
    pub fn wait(mut self) {
        if let Some(looking) = self.looking.take() {
            // The channel stays open until it has ended.
            let _ = looking.join();
        }
    }

    /// Ends. Returns when all is over.
    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.orders.take());
        if let Some(looking) = self.looking.take() {
            let _ = looking.join();
        }
    }
}
