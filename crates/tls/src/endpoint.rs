//! The server's end of TLS: the certificates of sites, and what becomes of renewed ones.
//!
//! Owns: the certificates among which [`selection`](super::selection) chooses by the name that a client asks for, and
//! the watch over files. Renewed files are taken while serving; a pair that does not fit together, or that clients
//! would refuse for its dates, is not, and the one before stays. Both are said once, as is that the end of a
//! certificate has come near. Shared by all workers of a process; [`Endpoint::look`] is called by its main thread.
//!
//! A site whose certificates are ordered has one for each host, which `acme` puts into files ([`automatic`]). Before
//! the first one is there, a handshake for the host ends with an alert. The handshake of a TLS-ALPN-01 challenge is the
//! one for which a file is read while it is under way: another process may have ordered, and has written the file just
//! before.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use lamna_config::gateway::GatewaySettings;
use lamna_config::settings::{Settings, SiteSettings, SiteTls, TlsFiles};
use lamna_io::log::calendar::minute;
use lamna_io::log::errors::Level;
use lamna_sys::metrics::counters::Counters;
use lamna_sys::shared_memory::SharedMemory;
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::SingleCertAndKey;
use serde::{Deserialize, Serialize};

use super::alert::Failure;
use super::automatic::{self, StateError, StateFiles};
use super::certificates::{self, Clients, Pair, PairError, Stamp, Term, Validities};
use super::client::{Trust, TrustError};
use super::client_hello::ClientHello;
use super::crypto::provider;
use super::der::Validity;
use super::negotiated::{Alpn, Chosen};
use super::selection::{Choice, Selection};
use super::tickets::Tickets;
use crate::local_ca;

/// Tickets that a client of TLS 1.3 is given. Each costs 2 us, and a client that comes again gets another.
const TICKETS_OF_A_CLIENT: usize = 1;

/// Which certificate belongs to which name.
pub struct Endpoint {
    provider: Arc<CryptoProvider>,
    tickets: Arc<Tickets>,
    counters: SharedMemory<Counters>,
    protocols: Vec<Alpn>,
    selection: RwLock<Arc<Selection<Loaded>>>,
    /// The sources of the selection.
    sources: Mutex<Vec<Source>>,
    /// Where certificates are that are ordered; none if no site has such.
    state: Option<State>,
    /// The digest of the client authorities of each certificate: see [`Endpoint::authorities`].
    authorities: HashMap<u64, AtomicU64>,
    /// How near to its end each certificate from files was said to be.
    terms: Mutex<HashMap<PathBuf, Term>>,
}

/// A certificate from files that is served.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileCertificate {
    /// The file.
    pub file: String,
    /// The hosts of its sites; empty if a site has every host.
    pub hosts: Vec<String>,
    /// From when on it is valid, in seconds since 1970.
    pub valid_from: Option<u64>,
    /// Until when.
    pub valid_until: Option<u64>,
}

impl FileCertificate {
    /// In words, at a time in seconds since 1970.
    pub fn describe(&self, now: u64) -> String {
        let hosts = if self.hosts.is_empty() { "every host".to_owned() } else { self.hosts.join(", ") };
        let [from, until] = [self.valid_from, self.valid_until].map(|at| at.unwrap_or_default());
        let dates = match self.valid_until {
            None => "its dates cannot be read".to_owned(),
            Some(_) if until < now => format!("expired on {}", minute(until)),
            Some(_) if from > now => format!("not valid before {}", minute(from)),
            Some(_) => format!("from {} until {}", minute(from), minute(until)),
        };
        format!("{hosts}: {dates} ({})", self.file)
    }
}

/// The state of certificates that are ordered.
struct State {
    files: StateFiles,
    /// The thumbprint of the account that orders them.
    thumbprint: String,
}

/// A site and where its pair comes from.
struct Source {
    hosts: Vec<String>,
    identity: u64,
    files: Option<TlsFiles>,
    loaded: Option<Loaded>,
    /// The ACME service looks after its dates, and it may not be there yet.
    is_ordered: bool,
    /// The state in which the files were looked at last.
    seen: Vec<Option<Stamp>>,
    /// The state in which they were refused because of their dates, which are looked at again.
    refused: Vec<Option<Stamp>>,
}

#[derive(Clone)]
struct Loaded {
    pair: Arc<Pair>,
    chosen: Chosen,
}

/// Why TLS cannot be spoken.
#[derive(Debug)]
pub enum TlsError {
    /// A pair of files.
    Pair(PairError),
    /// The local authority.
    Local(local_ca::LocalError),
    /// The state directory of certificates that are ordered.
    State(StateError),
    /// rustls does not take what it was given.
    Config(String),
    /// An application that is asked by `https` cannot be known: which, and why.
    Application(String, TrustError),
}

impl fmt::Display for TlsError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TlsError::Pair(error) => error.fmt(formatter),
            TlsError::Local(error) => error.fmt(formatter),
            TlsError::State(error) => error.fmt(formatter),
            TlsError::Config(words) => write!(formatter, "TLS cannot be set up: {words}"),
            TlsError::Application(place, error) => {
                write!(formatter, "there is no authority to verify the certificate of {place}: {error}")
            }
        }
    }
}

impl std::error::Error for TlsError {}

impl From<PairError> for TlsError {
    fn from(error: PairError) -> TlsError {
        TlsError::Pair(error)
    }
}

impl Endpoint {
    /// For the sites of `settings` that speak TLS; none if none does. Speaks `protocols`, best first, and counts
    /// handshakes in `counters`.
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
        let state = state_of(settings)?;
        for site in &settings.sites {
            if let (Some(SiteTls::Auto), Some(state)) = (&site.tls, &state) {
                for host in &site.hosts {
                    let (files, identity) = (state.files.pair(host), SiteTls::Auto.identity());
                    // What is not there yet, or is no pair, is ordered.
                    let loaded = load(&files, identity, &provider, &tickets, protocols).ok();
                    let looked = || certificates::stamps(&files);
                    let seen = loaded.as_ref().map_or_else(looked, |loaded| loaded.pair.stamps.clone());
                    let (hosts, files) = (vec![host.clone()], Some(files));
                    sources.push(Source {
                        hosts,
                        identity,
                        files,
                        loaded,
                        is_ordered: true,
                        seen,
                        refused: Vec::new(),
                    });
                }
                continue;
            }
            let files = match &site.tls {
                None | Some(SiteTls::Auto) => None,
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
            sources.push(Source {
                hosts: site.hosts.clone(),
                identity,
                files,
                loaded,
                is_ordered: false,
                seen,
                refused: Vec::new(),
            });
        }
        let selection = RwLock::new(Arc::new(selection_of(&sources)));
        let protocols = protocols.to_vec();
        let judged = sources.iter().filter_map(|source| source.loaded.as_ref()?.chosen.judges());
        let authorities = judged.map(|(identity, authorities)| (identity, AtomicU64::new(authorities))).collect();
        Ok(Some(Arc::new(Endpoint {
            provider,
            tickets,
            counters,
            protocols,
            selection,
            terms: Mutex::new(terms_of(&sources)),
            sources: Mutex::new(sources),
            state,
            authorities,
        })))
    }

    /// Where handshakes are counted.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The authorities by which the clients of the site that shows this certificate are judged now, as a number that
    /// others do not have. None if they are not asked for certificates. It changes with the content of the file.
    pub fn authorities(&self, identity: u64) -> Option<u64> {
        self.authorities.get(&identity).map(|authorities| authorities.load(Relaxed))
    }

    /// The certificate and configuration for a client that asks for `name`; none if no site with a certificate has it.
    pub fn choose(&self, name: Option<&str>) -> Option<Chosen> {
        match self.selection().choose(name) {
            Choice::Nothing => None,
            Choice::Certificate(loaded) => Some(loaded.chosen.clone()),
            Choice::IfItCovers(loaded, name) => loaded.pair.covers(&name).then(|| loaded.chosen.clone()),
        }
    }

    /// The same for a client whose `hello` begins a TLS-ALPN-01 challenge for the name that it asks for (RFC 8737 3).
    /// None if it begins something else, or no challenge for this name is under way.
    pub fn choose_for_challenge(&self, hello: &ClientHello<'_>) -> Option<Chosen> {
        let (state, name) = (self.state.as_ref()?, hello.name()?.trim_end_matches('.'));
        if !hello.offers_only(automatic::CHALLENGE_PROTOCOL) || !self.selection().orders(name) {
            return None;
        }
        let pair = certificates::load_unjudged(&state.files.challenge(name), &self.provider).ok()?;
        let mut config = config_of(&pair, &self.provider, false, &[]).ok()?;
        config.alpn_protocols = vec![automatic::CHALLENGE_PROTOCOL.to_vec()];
        // No site shows it: a request over such a connection is for none.
        Some(Chosen { config: Arc::new(config), identity: !SiteTls::Auto.identity(), authorities: None, tickets: None })
    }

    /// The answer to an HTTP-01 challenge (RFC 8555 8.3), if `path` is one for a host whose certificates are ordered.
    pub fn answer_challenge(&self, host: Option<&[u8]>, path: &[u8]) -> Option<String> {
        let answer = automatic::answer_challenge(path, &self.state.as_ref()?.thumbprint)?;
        let host = str::from_utf8(host?).ok()?;
        self.selection().orders(host).then_some(answer)
    }

    /// Why a client that asks for `name` gets no certificate.
    pub fn refusal(&self, name: Option<&str>) -> Failure {
        self.selection().refusal(name)
    }

    fn selection(&self) -> Arc<Selection<Loaded>> {
        self.selection.read().unwrap_or_else(PoisonError::into_inner).clone()
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
            // Whatever comes of it: it is tried again when something changes again, or when its day may have come.
            let before = std::mem::replace(&mut source.seen, stamps);
            match load(files, source.identity, &self.provider, &self.tickets, &self.protocols) {
                Ok(loaded) => match source.worsens(files, &loaded) {
                    Some(error) => {
                        let stamps = std::mem::replace(&mut source.seen, before);
                        if source.refused != stamps {
                            words.push((Level::Error, still_served(&error)));
                        }
                        source.refused = stamps;
                    }
                    None => {
                        words.extend(self.take(source, loaded));
                        has_changed = true;
                    }
                },
                Err(error) => words.push((Level::Error, still_served(&error))),
            }
        }
        if has_changed {
            self.publish(&sources);
        }
        words.extend(self.nearer_ends(&sources));
        once(words)
    }

    /// The certificates from files whose end has come nearer than was said before.
    fn nearer_ends(&self, sources: &[Source]) -> Vec<(Level, String)> {
        let (mut said, now) = (self.terms.lock().unwrap_or_else(PoisonError::into_inner), now());
        let mut words = Vec::new();
        for (file, validity) in sources.iter().filter_map(Source::dated) {
            let (term, before) = (validity.term(now), said.get(file).copied().unwrap_or(Term::Far));
            if let Some(doubt) = validity.doubt(now).filter(|_| term > before) {
                words.push((Level::Warning, format!("{}: the certificate {doubt}", file.display())));
            }
            if term != before {
                said.insert(file.to_owned(), term);
            }
        }
        words
    }

    /// When the certificates from files that are served are valid.
    pub fn validities(&self) -> Validities {
        let sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        sources.iter().filter_map(Source::dated).map(|(file, validity)| (file.to_owned(), validity)).collect()
    }

    /// The certificates from files that are served.
    pub fn of_files(&self) -> Vec<FileCertificate> {
        let sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        let loaded = sources.iter().filter(|source| !source.is_ordered);
        let pairs = loaded
            .filter_map(|source| Some((source.files.as_ref()?, &source.hosts, source.loaded.as_ref()?.pair.validity)));
        told(pairs)
    }

    /// Reads all files again, whatever their state, so that every handshake from now on is by what they hold now. Says
    /// what was taken.
    ///
    /// # Errors
    /// A pair that cannot be used; then nothing has changed.
    pub fn read_again(&self) -> Result<Vec<(Level, String)>, TlsError> {
        let mut sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        let read = |source: &Source| {
            let Some(files) = &source.files else { return Ok(None) };
            match load(files, source.identity, &self.provider, &self.tickets, &self.protocols) {
                // What is ordered may not be there yet.
                Err(_) if source.is_ordered => Ok(None),
                loaded => loaded.map(Some),
            }
        };
        let all = sources.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        for (source, loaded) in sources.iter().zip(&all) {
            let files = source.files.as_ref().zip(loaded.as_ref());
            if let Some(error) = files.and_then(|(files, loaded)| source.worsens(files, loaded)) {
                return Err(error.into());
            }
        }
        let mut words = Vec::new();
        for (source, loaded) in sources.iter_mut().zip(all) {
            words.extend(loaded.into_iter().flat_map(|loaded| self.take(source, loaded)));
        }
        self.publish(&sources);
        *self.terms.lock().unwrap_or_else(PoisonError::into_inner) = terms_of(&sources);
        Ok(once(words))
    }

    /// Has `source` show what was read of it. Says so if its files are others than before.
    fn take(&self, source: &mut Source, loaded: Loaded) -> Vec<(Level, String)> {
        // Who was judged by others, or comes in a moment with the choice of before, is sent away to be judged again.
        if let Some((identity, now)) = loaded.chosen.judges()
            && let Some(authorities) = self.authorities.get(&identity)
        {
            authorities.store(now, Relaxed);
        }
        let mut words = Vec::new();
        let is_new = source.loaded.as_ref().is_none_or(|before| before.pair.stamps != loaded.pair.stamps);
        if let Some(files) = source.files.as_ref().filter(|_| is_new) {
            words.push((Level::Info, format!("{}: the new certificate is served", files.certificate.display())));
            let warnings = source.warnings(files, &loaded.pair);
            words.extend(warnings.into_iter().map(|warning| (Level::Warning, warning)));
        }
        source.seen.clone_from(&loaded.pair.stamps);
        source.loaded = Some(loaded);
        words
    }

    fn publish(&self, sources: &[Source]) {
        *self.selection.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(selection_of(sources));
    }
}

impl Source {
    fn warnings(&self, files: &TlsFiles, pair: &Pair) -> Vec<String> {
        if self.is_ordered { Vec::new() } else { warnings_of(files, pair, &self.hosts) }
    }

    /// Why what was read would take the place of a certificate that clients take with one that they refuse.
    fn worsens(&self, files: &TlsFiles, loaded: &Loaded) -> Option<PairError> {
        let (before, now) = (self.loaded.as_ref()?.pair.validity, now());
        let fault = loaded.pair.validity?.fault(now)?;
        let is_valid = before.is_none_or(|before| before.fault(now).is_none());
        is_valid.then(|| PairError { file: files.certificate.clone(), words: format!("the certificate {fault}") })
    }

    /// The file of a certificate that is not ordered, and its dates.
    fn dated(&self) -> Option<(&Path, Validity)> {
        let files = self.files.as_ref().filter(|_| !self.is_ordered)?;
        Some((&files.certificate, self.loaded.as_ref()?.pair.validity?))
    }
}

fn now() -> i64 {
    i64::try_from(lamna_sys::clock::unix_ms() / 1000).unwrap_or(i64::MAX)
}

fn still_served(error: &dyn fmt::Display) -> String {
    format!("the certificate before is still served, because {error}")
}

/// Each of `all` once, in their order: several sites have one file.
fn once<T: PartialEq>(all: Vec<T>) -> Vec<T> {
    let mut said = Vec::new();
    for one in all {
        if !said.contains(&one) {
            said.push(one);
        }
    }
    said
}

/// How near to their ends certificates from files are. What is said of that at the start is not said again.
fn terms_of(sources: &[Source]) -> HashMap<PathBuf, Term> {
    let now = now();
    sources.iter().filter_map(Source::dated).map(|(file, validity)| (file.to_owned(), validity.term(now))).collect()
}

/// Certificates from files, each once with the hosts of all its sites.
fn told<'a>(pairs: impl Iterator<Item = (&'a TlsFiles, &'a Vec<String>, Option<Validity>)>) -> Vec<FileCertificate> {
    let mut all: Vec<FileCertificate> = Vec::new();
    for (files, hosts, validity) in pairs {
        let file = files.certificate.display().to_string();
        match all.iter_mut().find(|one| one.file == file) {
            Some(one) if one.hosts.is_empty() || hosts.is_empty() => one.hosts.clear(),
            Some(one) => one.hosts.extend_from_slice(hosts),
            None => all.push(FileCertificate {
                file,
                hosts: hosts.clone(),
                valid_from: validity.and_then(|validity| u64::try_from(validity.from).ok()),
                valid_until: validity.and_then(|validity| u64::try_from(validity.until).ok()),
            }),
        }
    }
    all
}

/// The certificates in the files that `settings` name, where no endpoint of this process serves them.
pub fn in_files(settings: &Settings) -> Vec<FileCertificate> {
    let of_site = |site: &SiteSettings| match &site.tls {
        Some(SiteTls::Files(files)) => Some(files.clone()),
        None | Some(SiteTls::Auto | SiteTls::Local) => None,
    };
    let read: Vec<_> =
        settings.sites.iter().filter_map(|site| of_site(site).map(|files| (files, &site.hosts))).collect();
    told(read.iter().map(|(files, hosts)| (files, *hosts, certificates::validity_of(files))))
}

/// The files of certificates that are ordered, ready to be used; none if no site has such.
fn state_of(settings: &Settings) -> Result<Option<State>, TlsError> {
    if settings.automatic_names().is_empty() {
        return Ok(None);
    }
    let files = StateFiles::of(settings).map_err(TlsError::State)?;
    files.prepare().map_err(TlsError::State)?;
    let thumbprint = files.thumbprint().map_err(TlsError::State)?;
    Ok(Some(State { files, thumbprint }))
}

fn warnings_of(files: &TlsFiles, pair: &Pair, hosts: &[String]) -> Vec<String> {
    let warning = |warning: String| format!("{}: {warning}", files.certificate.display());
    pair.warnings(hosts, now()).into_iter().map(warning).collect()
}

/// Judges the pairs of `settings` without serving them. Returns what is doubtful.
///
/// # Errors
/// A pair that cannot be used.
pub fn check(settings: &Settings) -> Result<Vec<String>, TlsError> {
    let provider = provider();
    let mut warnings = Vec::new();
    if !settings.automatic_names().is_empty() {
        // Nothing is made: a check may run as another user.
        StateFiles::of(settings).map_err(TlsError::State)?;
    }
    for site in &settings.sites {
        if let Some(SiteTls::Files(files)) = &site.tls {
            let pair = certificates::load(files, &provider)?;
            warnings.extend(warnings_of(files, &pair, &site.hosts));
        }
        for gateway in site.gateways() {
            trust_of(gateway)?;
        }
    }
    Ok(once(warnings))
}

/// The trust of a gateway; none if it asks no application by `https`.
///
/// # Errors
/// There are no certificates to trust.
pub fn trust_of(gateway: &GatewaySettings) -> Result<Option<Trust>, TlsError> {
    let Some(upstream) = gateway.upstreams.iter().find(|upstream| upstream.address.is_secure) else { return Ok(None) };
    let trust = Trust::of_gateway(&gateway.tls);
    trust.map(Some).map_err(|error| TlsError::Application(upstream.address.to_string(), error))
}

fn load(
    files: &TlsFiles,
    identity: u64,
    provider: &Arc<CryptoProvider>,
    tickets: &Arc<Tickets>,
    protocols: &[Alpn],
) -> Result<Loaded, TlsError> {
    let pair = Arc::new(certificates::load(files, provider)?);
    // A ticket stands for a handshake, and so it would for the judgement of a client's certificate of whatever day:
    // there is none.
    let tickets = pair.clients.is_none().then(|| tickets.bound_to(pair.chain_digest()));
    let config = Arc::new(config_of(&pair, provider, tickets.is_some(), protocols)?);
    let authorities = pair.clients.as_ref().map(|clients| clients.digest);
    Ok(Loaded { pair, chosen: Chosen { config, identity, authorities, tickets } })
}

fn config_of(
    pair: &Pair,
    provider: &Arc<CryptoProvider>,
    gives_tickets: bool,
    protocols: &[Alpn],
) -> Result<ServerConfig, TlsError> {
    let wrong = |error: &dyn fmt::Display| TlsError::Config(error.to_string());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(rustls::ALL_VERSIONS)
        .map_err(|error| wrong(&error))?;
    let builder = match &pair.clients {
        None => builder.with_no_client_auth(),
        Some(Clients { roots, may_lack, .. }) => {
            let mut verifier = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone());
            if *may_lack {
                verifier = verifier.allow_unauthenticated();
            }
            builder.with_client_cert_verifier(verifier.build().map_err(|error| wrong(&error))?)
        }
    };
    let resolver = SingleCertAndKey::from(pair.certified.clone());
    let mut config = builder.with_cert_resolver(Arc::new(resolver));
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.name().to_vec()).collect();
    // Tickets hold what a session needs; the server holds nothing for clients that are not there. What has no tickets
    // takes none either.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    // Each handshake has its own: see `ClientHello::config`.
    config.send_tls13_tickets = if gives_tickets { TICKETS_OF_A_CLIENT } else { 0 };
    // What costs least is chosen, but for clients for which it would not: see `ClientHello::config`.
    config.ignore_client_order = true;
    // The record layer is ours (`record`).
    config.enable_secret_extraction = true;
    Ok(config)
}

/// The choice of the certificates of `sources`.
fn selection_of(sources: &[Source]) -> Selection<Loaded> {
    let mut selection = Selection::default();
    for source in sources {
        selection.add(&source.hosts, source.loaded.as_ref(), source.is_ordered);
    }
    selection
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Endpoint").field("protocols", &self.protocols).finish_non_exhaustive()
    }
}
