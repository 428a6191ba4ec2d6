//! From the shapes of a file to settings: every value is judged, and every problem found is reported.
//!
//! Owns: the judgement of the top level and of `[limits]`, and what is common to all tables ([`Checker`]); sites are
//! judged in `site`. A value that is refused is replaced by its default, so that one problem does not cause another.

use std::collections::BTreeMap;
use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};

use lamna_policy::cache::{Algorithm, Objective};
use lamna_policy::limit::Rate;
use lamna_proto::limits::Limits;
use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags, accessat, open};
use rustix::io::Errno;
use rustix::process::geteuid;
use toml::Spanned;

use super::acme::{AcmeSettings, check_contact, check_directory_url};
use super::address::AdminAddress;
use super::explain::{Finding, key_hint};
use super::file::{Amount, File, Text};
use super::limits::{ROWS, Unit};
use super::profile;
use super::proxies::{ForwardedField, UNIX};
use super::settings::{
    CACHE_BYTES, COMPRESS_BYTES, COPY_BYTES, CachePages, Choice, DRAIN_TIMEOUT_MS, HELPERS, HelperKind, ListenAddress,
    LogFormat, LogTarget, PROCESS_CACHE_BYTES, PROCESSES, Settings, THREADS, TRANSLATIONS, WORKERS,
};
use super::shapes::Taken;
use super::site;
use super::suggest::nearest;
use super::token;
use crate::config::cache_switches::CacheSwitches;
use crate::config::compression::Compression;
use crate::config::error_log::{ErrorLogFormat, ErrorLogSettings, Level};
use crate::config::route::condition::Network;
use crate::config::sending::{Plan, SendStrategy};
use lamna_policy::size::{format_size, parse_size};

/// The settings of a file whose relative paths are relative to `base`, and what is wrong with them.
/// Having no site is not a problem yet: the command line may give one. `taken` is what was there and did not fit.
pub(super) fn settings(file: &File, taken: Vec<Taken>, base: &Path, looks: Looks) -> (Settings, Vec<Finding>) {
    let mut checker = Checker { base, taken, looks, findings: Vec::new() };
    let mut settings = Settings { listen: checker.listen_addresses(file.listen.as_deref()), ..Settings::default() };
    if let Some(name) = &file.arch {
        let names: Vec<&str> = Choice::all().map(Choice::name).collect();
        if let Some(found) = checker.name("arch", name, &names, Choice::from_name) {
            settings.choose(found);
        }
    }
    if let Some(name) = &file.log_format {
        let names = LogFormat::ALL.map(LogFormat::name);
        if let Some(found) = checker.name("log_format", name, &names, LogFormat::from_name) {
            settings.log_format = found;
        }
    }
    if let Some(text) = &file.log {
        settings.log = checker.log_target(text);
    }
    error_log(file, &mut checker, &mut settings.error_log);
    if let Some(given) = file.workers.as_ref().filter(|given| !given.get_ref().is_text("auto")) {
        settings.workers_adapt = false;
        settings.workers = checker.count("workers", given, &WORKERS, settings.workers);
    }
    settings.pin = file.pin.unwrap_or(settings.pin);
    settings.h2c = file.h2c.unwrap_or(settings.h2c);
    proxies(file, &mut checker, &mut settings);
    if let Some(text) = &file.request_limit {
        settings.request_limit =
            if text.get_ref() == "off" { None } else { checker.rate(text).or(settings.request_limit) };
    }
    if let Some(exempt) = &file.limit_exempt {
        settings.limit_exempt = exempt.iter().filter_map(|text| checker.network(text)).collect();
    }
    settings.account = file.account.unwrap_or(settings.account);
    if let Some(given) = &file.helpers_max {
        settings.helpers_max = checker.count("helpers_max", given, &HELPERS, settings.helpers_max);
    }
    if let Some(given) = file.threads.as_ref().filter(|given| !given.get_ref().is_text("auto")) {
        settings.threads_adapt = false;
        settings.threads = checker.count("threads", given, &THREADS, settings.threads);
    }
    if let Some(given) = &file.threads_max {
        settings.threads_max = checker.count("threads_max", given, &THREADS, settings.threads_max);
    }
    processes(file, &mut checker, &mut settings);
    sending(file, &mut checker, &mut settings.sending);
    if let Some(given) = &file.cache_bytes {
        let bytes = checker.amount("cache_bytes", given, Unit::Bytes, &CACHE_BYTES);
        settings.cache_bytes_max = bytes.unwrap_or(settings.cache_bytes_max);
    }
    cache(file, &mut checker, &mut settings);
    compression(file, &mut checker, &mut settings.compression);
    admin(file, &mut checker, &mut settings);
    acme(file, &mut checker, &mut settings.acme);
    settings.limits = checker.limits(&file.limits);
    settings.sites = site::sites(&file.site, &mut checker);
    (settings, checker.into_findings())
}

/// Which proxies are trusted.
fn proxies(file: &File, checker: &mut Checker<'_>, settings: &mut Settings) {
    let proxies = &mut settings.proxies;
    for text in &file.trusted_proxies {
        match text.get_ref().parse() {
            Ok(network) => proxies.networks.push(network),
            Err(_) if text.get_ref() == UNIX => proxies.unix = true,
            Err(why) => checker.problem(text.span(), format!("`{}` {why}, or unix", text.get_ref().escape_debug())),
        }
    }
    for text in &file.proxy_protocol {
        settings.proxy_protocol.extend(checker.listen_address(text));
        if file.trusted_proxies.is_empty() {
            let hint = "name the proxies: trusted_proxies = [\"10.0.0.0/8\"]. Nobody else may connect there".to_owned();
            checker.problem_with_hint(text.span(), "`proxy_protocol` needs `trusted_proxies`", Some(hint));
        }
    }
    let proxies = &mut settings.proxies;
    if let Some(name) = &file.forwarded_field {
        let names = ForwardedField::ALL.map(ForwardedField::name);
        let found = checker.name("forwarded_field", name, &names, ForwardedField::from_name);
        proxies.field = found.unwrap_or(proxies.field);
    }
}

/// Where the error log goes.
fn error_log(file: &File, checker: &mut Checker<'_>, settings: &mut ErrorLogSettings) {
    if let Some(text) = file.error_log.as_ref().filter(|text| text.get_ref() != "-") {
        let found = checker.findings.len();
        let path = checker.path(text);
        if checker.looks.at_error_log
            && checker.findings.len() == found
            && let Err((message, hint)) = check_log_file(&path, "error log", checker.looks.depth)
        {
            checker.problem_with_hint(text.span(), message, Some(hint));
        }
        settings.file = Some(path);
    }
    if let Some(name) = &file.error_log_format {
        let names = ErrorLogFormat::ALL.map(ErrorLogFormat::name);
        let found = checker.name("error_log_format", name, &names, ErrorLogFormat::from_name);
        settings.format = found.unwrap_or(settings.format);
    }
    if let Some(name) = &file.error_log_level {
        let found = checker.name("error_log_level", name, &Level::ALL.map(Level::name), Level::from_name);
        settings.level = found.unwrap_or(settings.level);
    }
}

/// How the server is controlled, and what it goes by.
fn admin(file: &File, checker: &mut Checker<'_>, settings: &mut Settings) {
    if let Some(text) = &file.admin {
        match text.get_ref().parse() {
            Ok(AdminAddress::At(ListenAddress::Unix(path))) => {
                settings.admin.address = AdminAddress::At(ListenAddress::Unix(checker.base.join(path)));
            }
            Ok(address) => settings.admin.address = address,
            Err(error) => checker.expect(false, text, &format!("{error}, or off, or auto")),
        }
        if checker.looks.at_admin
            && let Err((message, hint)) = check_admin(&settings.admin.address, &settings.listen, checker.looks.depth)
        {
            checker.problem_with_hint(text.span(), message, Some(hint));
        }
    }
    for host in &file.admin_hosts {
        settings.admin.hosts.push(site::host(host, checker));
    }
    settings.admin.token_file = file.admin_token_file.as_ref().map(|text| {
        let path = checker.path(text);
        if let Err(error) = token::read(&path) {
            checker.problem(text.span(), format!("`{}` has no token: {error}", path.display()));
        }
        path
    });
    settings.profile_file = file.profile.as_ref().map(|text| checker.path(text));
    if let (Some(text), Some(path)) = (&file.profile, &settings.profile_file) {
        match profile::read(path) {
            Ok(profile) => settings.profile = Some(profile),
            Err(why) => checker.problem(text.span(), why),
        }
    }
}

/// How certificates are ordered.
fn acme(file: &File, checker: &mut Checker<'_>, settings: &mut AcmeSettings) {
    if let Some(text) = &file.acme_directory {
        match check_directory_url(text.get_ref()) {
            Ok(()) => settings.directory.clone_from(text.get_ref()),
            Err(expectation) => checker.expect(false, text, expectation),
        }
    }
    if let Some(text) = &file.acme_contact {
        match check_contact(text.get_ref()) {
            Ok(()) => settings.contact = Some(text.get_ref().clone()),
            Err(expectation) => checker.expect(false, text, expectation),
        }
    }
    if let Some(text) = &file.acme_profile {
        checker.expect(!text.get_ref().is_empty(), text, "is not the name of a profile");
        settings.profile = Some(text.get_ref().clone());
    }
    settings.roots = file.acme_roots.as_ref().map(|text| checker.path(text));
}

/// Which caches there are, how they choose, and how they notice changes.
fn cache(file: &File, checker: &mut Checker<'_>, settings: &mut Settings) {
    if let Some(text) = &file.caches {
        match CacheSwitches::from_text(text.get_ref()) {
            Ok(caches) => settings.caches = caches,
            Err(expectation) => checker.problem(text.span(), expectation),
        }
    }
    let policy = &mut settings.cache_policy;
    if let Some(name) = &file.cache_policy {
        let names = Algorithm::ALL.map(Algorithm::name);
        let found = checker.name("cache_policy", name, &names, |name| name.parse().ok());
        policy.algorithm = found.unwrap_or(policy.algorithm);
    }
    if let Some(name) = &file.cache_objective {
        let names = Objective::ALL.map(Objective::name);
        policy.objective =
            checker.name("cache_objective", name, &names, Objective::from_name).unwrap_or(policy.objective);
    }
    policy.is_filtered = file.cache_filter.unwrap_or(policy.is_filtered);
    if let Some(name) = &file.cache_pages {
        let names = CachePages::ALL.map(CachePages::name);
        let found = checker.name("cache_pages", name, &names, CachePages::from_name);
        settings.cache_pages = found.unwrap_or(settings.cache_pages);
    }
    settings.cache_watch = file.cache_watch.unwrap_or(settings.cache_watch);
}

/// What is compressed.
fn compression(file: &File, checker: &mut Checker<'_>, compression: &mut Compression) {
    if let Some(text) = &file.compress {
        match Compression::codings_from_text(text.get_ref()) {
            Ok(codings) => compression.codings = codings,
            Err(expectation) => checker.problem(text.span(), expectation),
        }
    }
    if let Some(given) = &file.compress_bytes_min {
        let bytes = checker.amount("compress_bytes_min", given, Unit::Bytes, &COMPRESS_BYTES);
        compression.bytes_min = bytes.unwrap_or(compression.bytes_min);
    }
    if let Some(given) = &file.compress_bytes_max {
        let bytes = checker.amount("compress_bytes_max", given, Unit::Bytes, &COMPRESS_BYTES);
        compression.bytes_max = bytes.unwrap_or(compression.bytes_max);
    }
}

/// What concerns worker and helper processes.
fn processes(file: &File, checker: &mut Checker<'_>, settings: &mut Settings) {
    if let Some(name) = &file.helpers {
        let names = HelperKind::ALL.map(HelperKind::name);
        settings.helpers = checker.name("helpers", name, &names, HelperKind::from_name).unwrap_or(settings.helpers);
    }
    if let Some(given) = &file.drain_timeout_ms {
        let ms = checker.amount("drain_timeout_ms", given, Unit::Milliseconds, &DRAIN_TIMEOUT_MS);
        // Within bounds that fit 32 bits.
        settings.drain_timeout_ms = ms.map_or(settings.drain_timeout_ms, |ms| ms as u32);
    }
    if let Some(given) = &file.processes {
        settings.processes = checker.count("processes", given, &PROCESSES, settings.processes);
    }
    if let Some(given) = &file.processes_max {
        settings.processes_max = checker.count("processes_max", given, &PROCESSES, settings.processes_max);
    }
    if let Some(given) = &file.process_cache_bytes {
        let bytes = checker.amount("process_cache_bytes", given, Unit::Bytes, &PROCESS_CACHE_BYTES);
        settings.process_cache_bytes_max = bytes.unwrap_or(settings.process_cache_bytes_max);
    }
    if let Some(given) = &file.process_translations_max {
        let (key, otherwise) = ("process_translations_max", settings.process_translations_max);
        settings.process_translations_max = checker.count(key, given, &TRANSLATIONS, otherwise);
    }
}

/// What concerns sending.
fn sending(file: &File, checker: &mut Checker<'_>, plan: &mut Plan) {
    if let Some(name) = &file.send {
        let names = SendStrategy::ALL.map(SendStrategy::name);
        plan.strategy = checker.name("send", name, &names, SendStrategy::from_name).unwrap_or(plan.strategy);
    }
    let mut bytes = |key, given: &Option<_>| checker.amount(key, given.as_ref()?, Unit::Bytes, &COPY_BYTES);
    if let Some(bytes) = bytes("stretch_copy_bytes_max", &file.stretch_copy_bytes_max) {
        plan.stretch_copy_bytes_max = bytes;
    }
    if let Some(bytes) = bytes("message_copy_bytes_max", &file.message_copy_bytes_max) {
        plan.message_copy_bytes_max = bytes as usize;
    }
}

/// How much of what is outside of the file is looked at.
#[derive(Clone, Copy, Debug)]
pub(super) enum Depth {
    /// What every process needs that serves with these settings.
    Serve,
    /// Also what one needs that binds its addresses itself, which one that takes the place of another does not.
    Check(Probe),
}

/// Finds out whether one could listen at an address: a message and what to do about it if not.
pub type Probe = fn(&ListenAddress) -> Result<(), (String, String)>;

/// What of the file's values is looked for outside of it: what the command line overrides is nobody's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Looks {
    pub(super) depth: Depth,
    pub(super) at_addresses: bool,
    pub(super) at_log: bool,
    pub(super) at_error_log: bool,
    pub(super) at_admin: bool,
}

impl Looks {
    /// At everything.
    pub(super) fn all(depth: Depth) -> Looks {
        Looks { depth, at_addresses: true, at_log: true, at_error_log: true, at_admin: true }
    }
}

/// Collects problems, and judges what occurs in more than one table.
pub(super) struct Checker<'a> {
    base: &'a Path,
    taken: Vec<Taken>,
    looks: Looks,
    findings: Vec<Finding>,
}

impl Checker<'_> {
    fn into_findings(self) -> Vec<Finding> {
        self.findings
    }

    /// How many problems have been found so far.
    pub(super) fn count_findings(&self) -> usize {
        self.findings.len()
    }

    /// Whether the table with this span has this key, with a value that did not fit and has been reported.
    pub(super) fn was_taken(&self, key: &str, table: &Range<usize>) -> bool {
        self.taken.iter().any(|taken| taken.is(key, table))
    }

    pub(super) fn problem(&mut self, span: Range<usize>, message: impl Into<String>) {
        self.problem_with_hint(span, message, None);
    }

    pub(super) fn problem_with_hint(&mut self, span: Range<usize>, message: impl Into<String>, hint: Option<String>) {
        self.findings.push(Finding { span: Some(span), message: message.into(), hint });
    }

    /// Reports `text` unless `ok`, with what is expected of it.
    pub(super) fn expect(&mut self, ok: bool, text: &Text, expectation: &str) {
        if !ok {
            let message = format!("`{}` {expectation}", text.get_ref().escape_debug());
            self.problem(text.span(), message);
        }
    }

    /// The path that a text means: absolute, relative texts being relative to the file's directory.
    pub(super) fn path(&mut self, text: &Text) -> PathBuf {
        let ok = !text.get_ref().is_empty() && !text.get_ref().contains('\0');
        self.expect(ok, text, "is not a path");
        self.base.join(text.get_ref())
    }

    /// A directory that must exist.
    pub(super) fn directory(&mut self, text: &Text) -> PathBuf {
        let path = self.path(text);
        if let Err(message) = check_directory(&path) {
            self.problem(text.span(), message);
        }
        path
    }

    /// A number within bounds, or none, which has been reported.
    pub(super) fn amount(
        &mut self,
        key: &str,
        given: &Spanned<Amount>,
        unit: Unit,
        bounds: &RangeInclusive<u64>,
    ) -> Option<u64> {
        let value = match given.get_ref() {
            // A negative number is out of any bounds that there are, and reported as such.
            Amount::Number(number) => u64::try_from(*number).ok(),
            Amount::Text(text) if unit == Unit::Bytes => match parse_size(text) {
                Ok(bytes) => Some(bytes),
                Err(message) => {
                    let message = format!("`{key}`: `{}` {message}", text.escape_debug());
                    self.problem(given.span(), message);
                    return None;
                }
            },
            Amount::Text(_) => {
                let what = if unit == Unit::Milliseconds { " of milliseconds" } else { "" };
                let message = format!("`{key}` must be a whole number{what}, without quotation marks");
                self.problem(given.span(), message);
                return None;
            }
        };
        let within = value.filter(|value| bounds.contains(value));
        if within.is_none() {
            let (least, most) = (in_unit(*bounds.start(), unit), in_unit(*bounds.end(), unit));
            let message = format!("`{key}` must be between {least} and {most}");
            self.problem(given.span(), message);
        }
        within
    }

    fn count(&mut self, key: &str, given: &Spanned<Amount>, bounds: &RangeInclusive<usize>, default: usize) -> usize {
        let bounds = *bounds.start() as u64..=*bounds.end() as u64;
        self.amount(key, given, Unit::Count, &bounds).map_or(default, |count| count as usize) // Within bounds that were a usize.
    }

    fn name<T>(&mut self, key: &str, text: &Text, names: &[&str], find: impl Fn(&str) -> Option<T>) -> Option<T> {
        let found = find(text.get_ref());
        if found.is_none() {
            let hint = match nearest(text.get_ref(), names.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("known: {}", names.join(", ")),
            };
            let message = format!("unknown {key} `{}`", text.get_ref().escape_debug());
            self.problem_with_hint(text.span(), message, Some(hint));
        }
        found
    }

    fn listen_addresses(&mut self, texts: Option<&[Text]>) -> Vec<ListenAddress> {
        let mut addresses: Vec<ListenAddress> = Vec::new();
        let depth = if self.looks.at_addresses { self.looks.depth } else { Depth::Serve };
        for text in texts.into_iter().flatten() {
            let Some(address) = self.listen_address(text) else { continue };
            match check_address(&address, &addresses, depth) {
                Ok(()) => {}
                Err((message, hint)) => self.problem_with_hint(text.span(), message, Some(hint)),
            }
            addresses.push(address);
        }
        addresses
    }

    fn listen_address(&mut self, text: &Text) -> Option<ListenAddress> {
        match text.get_ref().parse() {
            Ok(ListenAddress::Unix(path)) => Some(ListenAddress::Unix(self.base.join(path))),
            Ok(address) => Some(address),
            Err(error) => {
                self.expect(false, text, &format!("{error}"));
                None
            }
        }
    }

    fn log_target(&mut self, text: &Text) -> LogTarget {
        let LogTarget::File(_) = LogTarget::from_text(text.get_ref()) else {
            return LogTarget::from_text(text.get_ref());
        };
        let found = self.findings.len();
        let target = LogTarget::File(self.path(text));
        if self.looks.at_log
            && self.findings.len() == found
            && let Err((message, hint)) = check_log(&target, self.looks.depth)
        {
            self.problem_with_hint(text.span(), message, Some(hint));
        }
        target
    }

    /// A rate of requests.
    pub(super) fn rate(&mut self, text: &Text) -> Option<Rate> {
        let rate = text.get_ref().parse();
        rate.map_err(|why| self.problem(text.span(), format!("`{}` {why}", text.get_ref().escape_debug()))).ok()
    }

    fn network(&mut self, text: &Text) -> Option<Network> {
        let network = text.get_ref().parse();
        network.map_err(|why| self.problem(text.span(), format!("`{}` {why}", text.get_ref().escape_debug()))).ok()
    }

    fn limits(&mut self, given: &BTreeMap<Text, Spanned<Amount>>) -> Limits {
        let mut limits = Limits::default();
        for (key, amount) in given {
            let Some(row) = ROWS.iter().find(|row| row.name == key.get_ref()) else {
                let names: Vec<&str> = ROWS.iter().map(|row| row.name).collect();
                let message = format!("unknown limit `{}`", key.get_ref().escape_debug());
                self.problem_with_hint(key.span(), message, Some(key_hint(key.get_ref(), &names)));
                continue;
            };
            if let Some(value) = self.amount(row.name, amount, row.unit, &row.bounds) {
                (row.write)(&mut limits, value);
            }
        }
        if limits.target_bytes_max >= limits.head_bytes_max {
            self.target_within_head(&limits, given);
        }
        limits
    }

    /// The target is a part of the head, so its bound must be the smaller one.
    fn target_within_head(&mut self, limits: &Limits, given: &BTreeMap<Text, Spanned<Amount>>) {
        let at = ["target_bytes_max", "head_bytes_max"]
            .iter()
            .find_map(|name| given.iter().find(|(key, _)| key.get_ref() == name));
        let message = format!(
            "`target_bytes_max` ({}) must be less than `head_bytes_max` ({}), of which the target is a part",
            limits.target_bytes_max, limits.head_bytes_max
        );
        // The defaults fit each other: one of the two was given.
        let span = at.map_or(0..0, |(_, amount)| amount.span());
        self.problem(span, message);
    }
}

/// Whether a directory is there, and this user may look for names in it, as a message if not.
pub(super) fn check_directory(path: &Path) -> Result<(), String> {
    let shown = path.display();
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => {}
        Ok(_) => return Err(format!("`{shown}` is not a directory")),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(format!("the directory `{shown}` does not exist"));
        }
        Err(error) => return Err(format!("the directory `{shown}` cannot be looked at: {error}")),
    }
    match accessat(CWD, path, Access::EXEC_OK, AtFlags::EACCESS) {
        Err(Errno::ACCESS) => {
            Err(format!("this user ({}) may not search the directory `{shown}`: change its owner or mode", geteuid()))
        }
        _ => Ok(()),
    }
}

/// Whether one can listen at an address beside `others`: a message and what to do about it if not.
pub(super) fn check_address(
    address: &ListenAddress,
    others: &[ListenAddress],
    depth: Depth,
) -> Result<(), (String, String)> {
    if let Some(other) = others.iter().find(|other| other.overlaps(address)) {
        let is_same = other == address;
        let message = match is_same {
            true => format!("`{address}` is named twice"),
            false => format!("`{address}` and `{other}` overlap: only one socket can listen there"),
        };
        return Err((message, "leave one of them out".to_owned()));
    }
    match depth {
        Depth::Serve => Ok(()),
        Depth::Check(probe) => probe(address),
    }
}

/// Whether the server can be controlled here beside what it listens at: as [`check_address`].
pub(super) fn check_admin(
    admin: &AdminAddress,
    listen: &[ListenAddress],
    depth: Depth,
) -> Result<(), (String, String)> {
    let AdminAddress::At(address) = admin else { return Ok(()) };
    let rename = |(message, hint): (String, String)| (message, hint.replace("--listen", "--admin"));
    check_address(address, listen, depth).map_err(rename)
}

/// Whether the access log can be opened: a message and what to do about it if not. Makes nothing.
pub(super) fn check_log(target: &LogTarget, depth: Depth) -> Result<(), (String, String)> {
    let LogTarget::File(path) = target else { return Ok(()) };
    check_log_file(path, "access log", depth).map_err(|(message, hint)| match path.is_dir() {
        true => (message, "name a file, `-` or `off`".to_owned()),
        false => (message, hint),
    })
}

/// Whether lines can be appended to `path`, which is to be the `log` of this name.
pub(super) fn check_log_file(path: &Path, log: &str, depth: Depth) -> Result<(), (String, String)> {
    let shown = path.display();
    let directory = path.parent().unwrap_or(Path::new("/"));
    let may = |path: &Path, access| accessat(CWD, path, access, AtFlags::EACCESS);
    let change = || format!("change its owner or mode for this user ({}), or choose another place", geteuid());
    match std::fs::metadata(path) {
        Ok(found) if found.is_dir() => {
            Err((format!("the {log} `{shown}` is a directory"), "name a file or `-`".to_owned()))
        }
        Ok(_) => {
            let may = match depth {
                Depth::Serve => may(path, Access::WRITE_OK),
                // What is a socket, say, may be written and not be opened. Without a reader a pipe would keep us waiting.
                Depth::Check(_) => {
                    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::NONBLOCK | OFlags::CLOEXEC;
                    open(path, flags, Mode::empty()).map(drop)
                }
            };
            may.map_err(|errno| (format!("the {log} `{shown}` cannot be written: {errno}"), change()))
        }
        Err(_) => may(directory, Access::WRITE_OK | Access::EXEC_OK).map_err(|errno| match errno {
            Errno::NOENT => (
                format!("the directory `{}` of the {log} does not exist", directory.display()),
                "make it first, or choose another place".to_owned(),
            ),
            _ if directory.exists() && !directory.is_dir() => (
                format!("`{}`, where the {log} is to be, is not a directory", directory.display()),
                "choose another place".to_owned(),
            ),
            errno => (format!("no {log} can be made in `{}`: {errno}", directory.display()), change()),
        }),
    }
}

fn in_unit(value: u64, unit: Unit) -> String {
    match unit {
        Unit::Count => value.to_string(),
        Unit::Bytes => format_size(value),
        Unit::Milliseconds => format!("{value} ms"),
    }
}
