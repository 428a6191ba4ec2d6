//! The server's end of TLS: which certificate belongs to which name, and what becomes of renewed ones.
//!
//! Owns: the choice of a site's certificate by the name that a client asks for, and the watch over files. A name that no site has gets
//! no certificate, and never that of another site. Renewed files are taken while serving; a pair that does not fit together is not, and
//! the one before stays. Both are said once. Shared by all workers of a process; [`Endpoint::look`] is called by its main thread.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::SingleCertAndKey;

use super::certificates::{self, Pair, PairError, Stamp};
use super::crypto::provider;
use super::negotiated::{Alpn, Chosen};
use super::tickets::Tickets;
use crate::config::settings::{Settings, SiteTls, TlsFiles};
use crate::log::errors::Level;
use crate::metrics::counters::Counters;
use crate::sys::shared_memory::SharedMemory;
use crate::tls::local_ca;

/// Tickets that a client of TLS 1.3 is given: browsers open a second connection now and then.
const TICKETS_OF_A_CLIENT: usize = 2;

/// Which certificate belongs to which name.
pub struct Endpoint {
    provider: Arc<CryptoProvider>,
    tickets: Arc<Tickets>,
    counters: SharedMemory<Counters>,
    protocols: Vec<Alpn>,
    selection: RwLock<Arc<Selection>>,
    /// What the selection was made of.
    sources: Mutex<Vec<Source>>,
}

/// A site and where its pair comes from.
struct Source {
    hosts: Vec<String>,
    identity: u64,
    files: Option<TlsFiles>,
    loaded: Option<Loaded>,
    /// The state in which the files were looked at last.
    seen: Vec<Option<Stamp>>,
}

#[derive(Clone)]
struct Loaded {
    pair: Arc<Pair>,
    chosen: Chosen,
}

/// Sites by name, as they are found for a request.
#[derive(Default)]
struct Selection {
    exact: HashMap<String, Option<Chosen>>,
    /// By what follows the asterisk and the dot.
    patterns: HashMap<String, Option<Chosen>>,
    /// The site that has every other name.
    any: Option<Loaded>,
    /// For clients that ask for no name.
    first: Option<Chosen>,
}

/// Why TLS cannot be spoken.
#[derive(Debug)]
pub enum TlsError {
    /// A pair of files.
    Pair(PairError),
    /// The local authority.
    Local(local_ca::LocalError),
    /// rustls does not take what it was given.
    Config(String),
}

impl fmt::Display for TlsError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TlsError::Pair(error) => error.fmt(formatter),
            TlsError::Local(error) => error.fmt(formatter),
            TlsError::Config(words) => write!(formatter, "TLS cannot be set up: {words}"),
        }
    }
}

impl std::error::Error for TlsError {}

impl From<PairError> for TlsError {
    fn from(error: PairError) -> TlsError {
        TlsError::Pair(error)
    }
}

/// A name that a client has made up, as it can be shown.
pub fn printable(name: &str) -> String {
    name.chars().take(255).map(|character| if character.is_ascii_graphic() { character } else { '?' }).collect()
}

impl Endpoint {
    /// For the sites of `settings` that speak TLS; none if none does. Speaks `protocols`, best first, and counts handshakes in `counters`.
    ///
    /// # Errors
    /// A pair that cannot be used.
    pub fn open(
        settings: &Settings,
        tickets: Arc<Tickets>,
        counters: SharedMemory<Counters>,
        protocols: &[Alpn],
    ) -> Result<Option<Arc<Endpoint>>, TlsError> {
        if !settings.speak_tls() {
            return Ok(None);
        }
        let provider = provider();
        let mut sources = Vec::new();
        for site in &settings.sites {
            let files = match &site.tls {
                None => None,
                Some(SiteTls::Files(files)) => Some(files.clone()),
                Some(SiteTls::Local) => Some(local_ca::pair_for(settings).map_err(TlsError::Local)?),
            };
            let identity = site.tls.as_ref().map_or(0, SiteTls::identity);
            let (mut loaded, mut seen) = (None, Vec::new());
            if let Some(files) = &files {
                let pair = load(files, identity, &provider, &tickets, protocols)?;
                seen = pair.pair.stamps.clone();
                loaded = Some(pair);
            }
            sources.push(Source { hosts: site.hosts.clone(), identity, files, loaded, seen });
        }
        let selection = RwLock::new(Arc::new(Selection::of(&sources)));
        let protocols = protocols.to_vec();
        Ok(Some(Arc::new(Endpoint { provider, tickets, counters, protocols, selection, sources: Mutex::new(sources) })))
    }

    /// Where handshakes are counted.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// What a client gets that asks for `name`; none if no site with a certificate has it.
    pub fn choose(&self, name: Option<&str>) -> Option<Chosen> {
        let selection = self.selection.read().unwrap_or_else(PoisonError::into_inner).clone();
        selection.choose(name)
    }

    /// Takes files that have changed. Says what was taken, and what could not be.
    pub fn look(&self) -> Vec<(Level, String)> {
        let mut sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut words, mut has_changed) = (Vec::new(), false);
        for source in sources.iter_mut() {
            let Some(files) = &source.files else { continue };
            let stamps = certificates::stamps(files);
            if stamps == source.seen {
                continue;
            }
            // Whatever comes of it: it is tried again when something changes again.
            source.seen = stamps;
            match load(files, source.identity, &self.provider, &self.tickets, &self.protocols) {
                Ok(loaded) => {
                    words
                        .push((Level::Info, format!("{}: the new certificate is served", files.certificate.display())));
                    let doubts = doubts_of(files, &loaded.pair, &source.hosts);
                    words.extend(doubts.into_iter().map(|doubt| (Level::Warning, doubt)));
                    (source.loaded, has_changed) = (Some(loaded), true);
                }
                Err(error) => {
                    words.push((Level::Error, format!("the certificate before is still served, because {error}")));
                }
            }
        }
        if has_changed {
            *self.selection.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(Selection::of(&sources));
        }
        words
    }

    /// What is doubtful about the pairs.
    pub fn doubts(&self) -> Vec<String> {
        let sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        let doubts = sources
            .iter()
            .filter_map(|source| Some(doubts_of(source.files.as_ref()?, &source.loaded.as_ref()?.pair, &source.hosts)));
        let mut all: Vec<String> = doubts.flatten().collect();
        all.dedup();
        all
    }
}

fn doubts_of(files: &TlsFiles, pair: &Pair, hosts: &[String]) -> Vec<String> {
    let now = i64::try_from(crate::sys::clock::unix_ms() / 1000).unwrap_or(i64::MAX);
    let doubt = |doubt: String| format!("{}: {doubt}", files.certificate.display());
    pair.doubts(hosts, now).into_iter().map(doubt).collect()
}

/// Judges the pairs of `settings` without serving them. Returns what is doubtful.
///
/// # Errors
/// A pair that cannot be used.
pub fn check(settings: &Settings) -> Result<Vec<String>, TlsError> {
    let provider = provider();
    let mut doubts = Vec::new();
    for site in &settings.sites {
        if let Some(SiteTls::Files(files)) = &site.tls {
            let pair = certificates::load(files, &provider)?;
            doubts.extend(doubts_of(files, &pair, &site.hosts));
        }
    }
    Ok(doubts)
}

fn load(
    files: &TlsFiles,
    identity: u64,
    provider: &Arc<CryptoProvider>,
    tickets: &Arc<Tickets>,
    protocols: &[Alpn],
) -> Result<Loaded, TlsError> {
    let pair = Arc::new(certificates::load(files, provider)?);
    let config = Arc::new(config_of(&pair, provider, tickets, protocols)?);
    Ok(Loaded { pair, chosen: Chosen { config, identity } })
}

fn config_of(
    pair: &Pair,
    provider: &Arc<CryptoProvider>,
    tickets: &Arc<Tickets>,
    protocols: &[Alpn],
) -> Result<ServerConfig, TlsError> {
    let wrong = |error: &dyn fmt::Display| TlsError::Config(error.to_string());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(rustls::ALL_VERSIONS)
        .map_err(|error| wrong(&error))?;
    let builder = match &pair.client_roots {
        None => builder.with_no_client_auth(),
        Some(roots) => {
            let verifier = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone()).build();
            builder.with_client_cert_verifier(verifier.map_err(|error| wrong(&error))?)
        }
    };
    let resolver = SingleCertAndKey::from(pair.certified.clone());
    let mut config = builder.with_cert_resolver(Arc::new(resolver));
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.name().to_vec()).collect();
    // Tickets hold what a session needs; the server holds nothing for clients that are not there.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.ticketer = tickets.clone();
    config.send_tls13_tickets = TICKETS_OF_A_CLIENT;
    // The record layer is ours (`record`).
    config.enable_secret_extraction = true;
    Ok(config)
}

impl Selection {
    fn of(sources: &[Source]) -> Selection {
        let mut selection = Selection::default();
        for source in sources {
            let config = source.loaded.as_ref().map(|loaded| loaded.chosen.clone());
            if selection.first.is_none() {
                selection.first = config.clone();
            }
            if source.hosts.is_empty() && selection.any.is_none() {
                selection.any = source.loaded.clone();
            }
            for host in &source.hosts {
                match host.strip_prefix("*.") {
                    Some(parent) => selection.patterns.insert(parent.to_owned(), config.clone()),
                    None => selection.exact.insert(host.clone(), config.clone()),
                };
            }
        }
        selection
    }

    fn choose(&self, name: Option<&str>) -> Option<Chosen> {
        let Some(name) = name else { return self.first.clone() };
        let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
        if let Some(chosen) = self.exact.get(&name) {
            return chosen.clone();
        }
        let parents = name.match_indices('.').map(|(at, _)| &name[at + 1..]);
        for parent in parents {
            if let Some(chosen) = self.patterns.get(parent) {
                return chosen.clone();
            }
        }
        // A site for every name answers for those that its certificate has.
        let any = self.any.as_ref()?;
        any.pair.covers(&name).then(|| any.chosen.clone())
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Endpoint").field("protocols", &self.protocols).finish_non_exhaustive()
    }
}
