//! The answer that a server would give: for `lamna explain`, and for `lamna ctl explain`.
//!
//! ```text
//!   Settings ──> Shared::alone ──> a GET of its own ──> the core ──> STEPS, RESPONDERS, the target ──> the head of the answer
//!                                                          '── a program that asks an application: never begun
//! ```
//!
//! Owns: [`Explainer`], which gives such requests to a worker without connections, and has their trace kept.
//! Guarantees: status, fields, file and application are those of the steps that serve (`context::steps`), and the
//! certificate is the one that handshakes choose (`lamna_tls::selection`), by the same functions; nobody outside is
//! asked, and nothing is sent. What is said beyond that is `content::explain`'s. Waits for the disk.

mod handshake;
mod spelling;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{self, Duration};

use lamna_config::access::{AccessRule, AccessRules, Allowed};
use lamna_config::access_log::AccessLogs;
use lamna_config::listen::PLAIN_PORT;
use lamna_config::proxies::Peer;
use lamna_config::route::condition::Network;
use lamna_config::settings::{Settings, SiteSettings};
use lamna_io::{KernelFeatures, Wait};
use lamna_proto::conn::Connection;
use lamna_proto::exchange::program::Step;
use lamna_proto::exchange::{Done, Need};
use lamna_proto::parse::path;
use lamna_proto::resource::Resource;
use lamna_proto::time::Instant;
use lamna_proto::transmit::Segment;
use lamna_site::cache::Entry;
use lamna_site::content::admission::Demand;
use lamna_site::content::explain::{Account, Answer, Asked, Explanation, codings, why_site};
use lamna_site::content::handler::Handlers;
use lamna_site::content::route::Effective;
use lamna_site::content::site::{Site, Sites};
use lamna_site::content::translate::{Translation, translate};
use lamna_site::service::Registry;
use lamna_sys::denied::denied;
use lamna_sys::metrics::operator_state::OperatorState;
use lamna_sys::shared_memory::SharedMemory;
use lamna_tls::{Alpn, ConfiguredCertificates, Endpoint, Over, Way};

use crate::worker::context::{InLine, Outcome, TranslationTarget, WorkerContext, target_of};
use crate::worker::explain::handshake::Handshake;
use crate::worker::explain::spelling::spelling_asked;
use crate::worker::helpers::runners;
use crate::worker::shared::Shared;

/// The parts of a server that its settings do not have.
#[derive(Clone, Debug, Default)]
pub struct Parts {
    /// The services that its filters may be.
    pub services: Arc<Registry>,
    /// The handlers of the program that it is a part of. They are not asked.
    pub handlers: Arc<Handlers>,
    /// Its TLS endpoint, if it runs.
    pub tls: Option<Arc<Endpoint>>,
    /// The orders of its operator, if it runs.
    pub operator_state: Option<SharedMemory<OperatorState>>,
}

/// Finds out what servers with certain settings answer.
#[derive(Debug)]
pub struct Explainer {
    settings: Settings,
    shared: Shared,
    /// The same, where each client is let in; none where no rule keeps anybody out.
    open: Option<Shared>,
    /// The endpoint that serves, if one does.
    endpoint: Option<Arc<Endpoint>>,
    /// The certificates among which one would choose that does not.
    certificates: ConfiguredCertificates,
    begin_time_max: Duration,
}

/// The outcome of one request.
#[derive(Default)]
struct Walk {
    /// The words of its steps.
    steps: Vec<String>,
    /// The head of its answer; empty if an application is to give it.
    head: Vec<u8>,
    /// The application that would be asked.
    asks: Option<String>,
    rules: Option<Arc<Effective>>,
    /// Its target, if that was asked.
    found: Option<(TranslationTarget, Arc<Entry>)>,
    resource: Option<Arc<Resource>>,
}

/// Steps that one request takes at most: programs that never end are left.
const STEPS_MAX: usize = 10_000;
/// How long an answer may take to begin. The server that is asked does nothing else meanwhile.
const BEGIN_TIME_MAX: Duration = Duration::from_secs(1);
/// How long a trace is open.
const TRACE_MS: u32 = 60_000;

impl Explainer {
    /// For a server with these settings and parts.
    ///
    /// # Errors
    /// A root cannot be opened, a name of `without` is unknown, or the system has no room: why, in words.
    pub fn new(settings: &Settings, parts: Parts) -> Result<Explainer, String> {
        let endpoint = parts.tls.clone();
        let certificates = ConfiguredCertificates::of(settings);
        let parts = Parts { tls: parts.tls.or_else(|| endpoint_for_clients(settings)), ..parts };
        let shared = shared_of(settings, &parts)?;
        let open = open_to_all(settings).map(|open| shared_of(&open, &parts)).transpose()?;
        let (settings, begin_time_max) = (settings.clone(), BEGIN_TIME_MAX);
        Ok(Explainer { settings, shared, open, endpoint, certificates, begin_time_max })
    }

    /// Explains the answer to a plain GET.
    ///
    /// # Errors
    /// It cannot be found out here: why, in words.
    pub fn explain(&self, asked: &Asked) -> Result<Explanation, String> {
        let site = asked.site(&self.shared.sites);
        let site_because = why_site(&self.settings, site, asked.host_name().ok().flatten());
        let mut normal = Vec::new();
        // What cannot be normalised leaves nothing.
        let target = asked.target.split('?').next().unwrap_or_default();
        let _ = path::normalise_for_rules(target.as_bytes(), &mut normal);
        let path = String::from_utf8_lossy(&normal).into_owned();
        let handshake = match self.handshake(asked, site)? {
            Handshake::Ends(why) => {
                let target = asked.target.escape_debug();
                let steps = vec![format!("request: GET {target} is not sent"), format!("handshake: {why}")];
                let (site, answer) = (site.label(), Answer::default());
                return Ok(Explanation { site, site_because, path, steps, answer, ..Explanation::default() });
            }
            Handshake::None => None,
            Handshake::Done(negotiated) => Some(*negotiated),
        };
        let clear = || clear_way(&self.settings, asked.host.as_deref());
        let way = handshake.as_ref().map_or_else(clear, Way::Secured);
        let walk = walk(&self.shared, asked, &normal, (way, self.begin_time_max));
        let answer = walk.answer(&self.shared);
        let mut let_in = None;
        if let Some(open) = &self.open {
            let walk = self::walk(open, asked, &normal, (way, self.begin_time_max));
            let other = walk.answer(open);
            let_in = (!other.is_like(&answer)).then_some((other, walk));
        }
        let rules = walk.rules.clone();
        let rule = rules.as_ref().and_then(|rules| rules.rules.log.as_ref());
        let log = AccessLogs::of(&self.settings).describe(site.index, rule);
        let furthest = let_in.as_ref().map_or(&walk, |(_, walk)| walk);
        let because = rules.map_or_else(Vec::new, |rules| {
            let by_application = match &furthest.found {
                Some((_, entry)) => entry.application().is_some(),
                None => rules.asks_an_application(),
            };
            let spelling = spelling_asked(site, &rules, target, by_application);
            spelling.into_iter().chain(furthest.because(site, &normal, &rules, &self.shared)).collect()
        });
        Ok(Explanation {
            site: site.label(),
            site_because,
            path,
            steps: walk.steps,
            answer,
            let_in: let_in.map(|(answer, _)| answer),
            because,
            log,
            cache: None,
        })
    }
}

/// The way of a request in clear text to `host`: whether the address at its port serves sites that speak TLS so.
fn clear_way(settings: &Settings, host: Option<&str>) -> Way<'static> {
    let named = || host?.rsplit(']').next()?.rsplit_once(':')?.1.parse().ok();
    let port: u16 = named().unwrap_or(PLAIN_PORT);
    let entries = settings.listen.iter().filter(|one| one.at.port() == Some(port));
    let serves = entries.flat_map(|one| one.rules(settings)).any(|(_, rules)| !rules.tls && !rules.redirect);
    if serves { Way::Open } else { Way::Clear }
}

/// The state of workers for `settings`.
fn shared_of(settings: &Settings, parts: &Parts) -> Result<Shared, String> {
    let Parts { services, handlers, tls, operator_state } = parts.clone();
    let sites = Sites::with_services(settings, &services).map_err(|(root, errno)| match denied(&root) {
        Some(denied) => format!("cannot serve {}: {denied}", root.display()),
        None => format!("cannot serve {}: {errno}", root.display()),
    })?;
    let abilities = KernelFeatures::without(&settings.without)
        .map_err(|name| format!("`{name}` is not something to do without"))?;
    let alone =
        Shared::alone(settings, sites, abilities).map_err(|errno| format!("the system has no room: {errno}"))?;
    let operator_state = operator_state.unwrap_or_else(|| alone.operator_state.clone());
    Ok(Shared { services, handlers, tls, operator_state, ..alone })
}

/// The TLS endpoint of the sites that ask clients for certificates, by whose authorities requests are judged. None if
/// there are none, or if their keys cannot be read here.
fn endpoint_for_clients(settings: &Settings) -> Option<Arc<Endpoint>> {
    let asks = |site: &&SiteSettings| matches!(Demand::of(site.tls.as_ref()), Demand::Client { .. });
    let sites: Vec<SiteSettings> = settings.sites.iter().filter(asks).cloned().collect();
    let asking = Settings { sites, ..settings.clone() };
    let tickets = Arc::new(lamna_tls::Tickets::new().ok()?);
    Endpoint::open(&asking, tickets, SharedMemory::default(), &[Alpn::Http1]).ok().flatten()
}

/// The same settings, where each rule of access lets in everybody. Rules that differ still do, because what is found at
/// another path than the requested one has to have an equal rule. None if there is no rule.
fn open_to_all(settings: &Settings) -> Option<Settings> {
    let mut open = settings.clone();
    let mut known = Vec::new();
    for site in &mut open.sites {
        open_rules(&mut site.access, &mut known);
        site.routes.iter_mut().for_each(|route| open_rules(&mut route.access, &mut known));
    }
    (!known.is_empty()).then_some(open)
}

fn open_rules(rules: &mut AccessRules, known: &mut Vec<Arc<AccessRule>>) {
    for whom in rules.0.iter_mut().flatten() {
        let Allowed::Only(rule) = whom else { continue };
        let number = known.iter().position(|one| one == rule).unwrap_or_else(|| {
            known.push(rule.clone());
            known.len() - 1
        });
        *rule = Arc::new(AccessRule { deny: vec![nobody(number)], ..AccessRule::default() });
    }
}

/// A network that no client is of, another one for each number (RFC 1112 4: reserved).
fn nobody(number: usize) -> Network {
    let address = u32::from(Ipv4Addr::new(240, 0, 0, 0)) + number as u32;
    Network::from(IpAddr::V4(address.into()))
}

/// Has a worker answer the request for what is asked, which comes in this way, as far as nobody outside is needed and
/// the answer begins in time.
fn walk(shared: &Shared, asked: &Asked, normal: &[u8], (way, begin_time_max): (Way<'_>, Duration)) -> Walk {
    let peer = Peer::from(asked.client.or(Some(IpAddr::V4(Ipv4Addr::LOCALHOST))));
    let mut context = WorkerContext::new(shared);
    let mut workspace = context.workspace();
    context.update_time(&mut workspace);
    shared.trace.start(&target_of(b"", normal), context.now.after_ms(TRACE_MS));
    let mut connection = Connection::new(context.now);
    connection.lend(workspace);
    let mut walk = Walk::default();
    let mut request = &*request_of(asked);
    let (begun, mut is_late) = (time::Instant::now(), false);
    for _ in 0..STEPS_MAX {
        is_late = begun.elapsed() > begin_time_max;
        if is_late {
            break;
        }
        receive(&mut connection, &mut request, context.now);
        let goes_on = walk.meet_need(&mut connection, &mut context, peer, Over { way, socket: None });
        walk.hear(&mut connection, context.now);
        if walk.asks.is_some() || walk.has_head() || !goes_on && request.is_empty() {
            break;
        }
    }
    walk.steps = shared.trace.read().2.lines().map(str::to_owned).collect();
    if walk.steps.is_empty() {
        let why = if walk.rules.is_none() { "refused before a site is asked" } else { "too long for a trace" };
        walk.steps.push(format!("request: GET {} is {why}", asked.target.escape_debug()));
    }
    if is_late {
        let ms = begin_time_max.as_millis();
        walk.steps.push(format!("answer: it does not begin within {ms} ms, so it is not made for an explanation"));
    }
    walk
}

/// The request, as a client sends it. One that names no host speaks HTTP/1.0.
fn request_of(asked: &Asked) -> Vec<u8> {
    let target = &asked.target;
    let request = match &asked.host {
        Some(host) => format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"),
        None => format!("GET {target} HTTP/1.0\r\n\r\n"),
    };
    request.into_bytes()
}

/// Whether a field line says something of the moment or of the connection, and nothing of the answer.
fn is_of_moment(line: &str) -> bool {
    ["Date: ", "Connection: "].iter().any(|field| line.starts_with(field))
}

/// Gives `connection` as much of `request` as it has room for.
fn receive(connection: &mut Connection, request: &mut &[u8], now: Instant) {
    let space = connection.receive_space();
    let (taken, rest) = request.split_at(space.len().min(request.len()));
    space[..taken.len()].copy_from_slice(taken);
    *request = rest;
    if !taken.is_empty() {
        connection.handle_received(taken.len(), now);
    }
}

impl Walk {
    /// Does what the connection needs next. Whether there was anything to do.
    fn meet_need(
        &mut self,
        connection: &mut Connection,
        context: &mut WorkerContext<'_>,
        peer: Peer,
        over: Over<'_>,
    ) -> bool {
        let now = context.now;
        let Some((exchange, need)) = connection.poll_need() else { return self.wait(connection, context) };
        let done = match need {
            Need::Resolve(requested) => {
                let InLine { outcome, rules, found } = context.answer_in_line(&context.asked(&requested, peer, over));
                self.rules = Some(rules);
                self.found = found;
                if let Outcome::Run(program) = &outcome {
                    self.asks = program.asks();
                    if self.asks.is_some() {
                        return false;
                    }
                }
                if let Outcome::Answer(resource) = &outcome {
                    self.resource = Some(resource.clone());
                }
                context.done(outcome)
            }
            Need::Read(read) => Some(Done::Ready(read.length)),
            Need::Run => {
                if let Some(Step { mut program, input }) = connection.step(exchange, now) {
                    let step_result = runners::run(&mut program, input);
                    connection.handle_step_result(exchange, program, step_result, now);
                }
                None
            }
        };
        if let Some(done) = done {
            connection.handle_done(exchange, done, now);
        }
        true
    }

    /// A program that waits for a time goes on at that time.
    fn wait(&self, connection: &mut Connection, context: &WorkerContext<'_>) -> bool {
        let due = connection.poll_timeout(context.shared.limits.as_ref()).filter(|due| *due <= context.now);
        due.inspect(|due| connection.handle_timeout(*due)).is_some()
    }

    /// Takes what there is of the head of the answer.
    fn hear(&mut self, connection: &mut Connection, now: Instant) {
        while !self.has_head() {
            let Some(transmit) = connection.poll_transmit() else { return };
            let mut sent = transmit.bytes.len() as u64;
            self.head.extend_from_slice(transmit.bytes);
            if let Some(Segment::Shared(bytes)) = transmit.segment {
                sent += bytes.len() as u64;
                self.head.extend_from_slice(bytes);
            }
            if sent == 0 {
                return;
            }
            connection.handle_sent(sent, now);
        }
    }

    fn has_head(&self) -> bool {
        memchr::memmem::find(&self.head, b"\r\n\r\n").is_some()
    }

    /// The lines of the head of the answer.
    fn lines(&self) -> Vec<String> {
        let end = memchr::memmem::find(&self.head, b"\r\n\r\n").unwrap_or(0);
        String::from_utf8_lossy(&self.head[..end]).lines().map(str::to_owned).collect()
    }

    /// The answer to the client.
    fn answer(&self, shared: &Shared) -> Answer {
        let lines = self.lines();
        let status = lines.first().and_then(|line| line.split(' ').nth(1)?.parse().ok());
        let script = self.found.as_ref().and_then(|(_, entry)| entry.script());
        let script =
            script.map(|script| script.root.join(String::from_utf8_lossy(&script.name).trim_start_matches('/')));
        let application = self.asks.as_ref().map(|asks| match &script {
            Some(file) => format!("{asks}, for {}", file.display()),
            None => asks.clone(),
        });
        let is_no_file = self.found.as_ref().is_some_and(|(_, entry)| entry.application().is_some());
        let file = match (&script, status) {
            _ if is_no_file => None,
            (Some(file), _) => Some(file.clone()),
            (None, Some(200)) => self.sent_file(shared).or_else(|| self.mapped(shared).filter(|file| file.exists())),
            (None, _) => self.mapped(shared),
        };
        Answer {
            file: file.map(|file| file.display().to_string()),
            status,
            application,
            fields: lines.into_iter().skip(1).filter(|line| !is_of_moment(line)).collect(),
            codings: self.resource.as_ref().map(|resource| codings(resource)).unwrap_or_default(),
        }
    }

    fn translation<'q>(&'q self, shared: &'q Shared) -> Option<Translation<'q>> {
        let (target, _) = self.found.as_ref()?;
        Some(target.translation(shared, Wait::Yes, shared.clock.now()))
    }

    /// The path in the file system that the target maps to, without a slash at its end.
    fn mapped(&self, shared: &Shared) -> Option<PathBuf> {
        self.translation(shared)?.file_path().map(|file| file.components().collect())
    }

    /// The file whose content is sent as it is: the one that the translation opens if nothing is to be held in memory.
    fn sent_file(&self, shared: &Shared) -> Option<PathBuf> {
        let translation = Translation { content_bytes_max: 0, store: None, ..self.translation(shared)? };
        let entry = translate(&translation).ok()?;
        let file = entry.resource.variants.first().file.as_ref()?;
        std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()
    }

    /// Facts about the path, to which `rules` apply.
    fn because(&self, site: &Site, path: &[u8], rules: &Effective, shared: &Shared) -> Vec<String> {
        let file = self.mapped(shared);
        let status = self.found.as_ref().map_or(0, |(_, entry)| entry.resource.status.0);
        let account = Account { site, rules, path, file: file.as_deref(), status };
        if self.found.is_some() { account.sentences() } else { account.rules() }
    }
}
