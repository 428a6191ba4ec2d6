//! The command line: names, help and the syntax of values.
//!
//! Owns: what can be typed. Judges single values only; what depends on the file or the machine is `config`'s business.

// Help texts: brackets belong to addresses.
#![allow(rustdoc::broken_intra_doc_links)]

use std::ffi::OsString;
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};
use lamna_policy::cache::{Algorithm, Objective};
use lamna_policy::size::{format_size, parse_size};
use lamna_server::admin::Change;
use lamna_server::config::acme::{check_contact, check_directory_url, check_name};
use lamna_server::config::address::AdminAddress;
use lamna_server::config::cache_switches::CacheSwitches;
use lamna_server::config::compression::{CodingSet, Compression};
use lamna_server::config::error_log::ErrorLogFormat;
use lamna_server::config::gateway::{GatewayProtocol, GatewaySettings, UpstreamSettings};
use lamna_server::config::sending::SendStrategy;
use lamna_server::config::settings::{
    CACHE_BYTES, Choice, DRAIN_TIMEOUT_MS, HELPERS, HelperKind, ListenAddress, LogFormat, LogTarget, PROCESSES,
    THREADS, WORKERS,
};
use lamna_server::config::upstream_address::UpstreamAddress;
use lamna_server::config::{Overrides, Workers, field_from_text};

use crate::exit;

const SIGNALS: &str = "\
Signals:
  TERM, INT  drain: refuse new connections, finish what has begun, then exit; a second one: stop now
  HUP        reload the configuration and reopen the access log
  USR2       start the program as it is now, and hand over to it";

/// What most people do.
const EXAMPLES: &str = "\
Examples:
  lamna                                       this directory, for this machine alone
  lamna ~/site --open                         that one, opened in the browser
  lamna --listen 0.0.0.0:8080 --browse --qr   for everybody in this network, phones included
  lamna serve --config lamna.toml             several sites, redirects, fields";

/// A web server for static files. Without a command it serves a directory.
#[derive(Debug, Parser)]
#[command(
    version,
    args_conflicts_with_subcommands = true,
    before_help = EXAMPLES,
    help_template = "{about-with-newline}\n{usage-heading} {usage}\n\n{before-help}{all-args}{after-help}",
    subcommand_help_heading = "Commands",
    after_help = format!("{}\n\n{SIGNALS}", exit::HELP)
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) serve: ServeArgs,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve a directory, or the sites of a configuration file
    #[command(after_help = format!("{}\n\n{SIGNALS}", exit::HELP))]
    Serve(ServeArgs),
    /// Check what `serve` would do with the same arguments, and print the settings as a configuration file
    #[command(after_help = exit::HELP)]
    Check(CheckArgs),
    /// Say what a URL is answered with, and why: site, rule, file, permission, fields
    #[command(after_help = exit::HELP)]
    Explain(ExplainArgs),
    /// Print a configuration of nginx or Caddy as one of this server
    #[command(after_help = exit::HELP)]
    Import(ImportArgs),
    /// Ask or order a running server: status, figures, engine, reload, upgrade, drain
    #[command(after_help = exit::HELP)]
    Ctl(CtlArgs),
    /// Measure the engines with these files, and write a profile for them (runs lamna-lab)
    #[command(disable_help_flag = true)]
    Tune(LaboratoryArgs),
    /// Ask a server for things again and again: a load test (runs lamna-lab)
    #[command(disable_help_flag = true)]
    Load(LaboratoryArgs),
    /// Ask a server for what a log says it was asked for (runs lamna-lab)
    #[command(disable_help_flag = true)]
    Replay(LaboratoryArgs),
    /// Compare servers and report on them (runs lamna-lab)
    #[command(disable_help_flag = true)]
    Lab(LaboratoryArgs),
    /// Simulate each architecture on other machines (runs lamna-lab)
    #[command(disable_help_flag = true)]
    Sim(LaboratoryArgs),
}

/// What to check.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Print the JSON Schema of configuration files instead, for editors
    #[arg(long)]
    pub(crate) schema: bool,

    #[command(flatten)]
    pub(crate) serve: ServeArgs,
}

/// What to explain, by which configuration.
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// What a client would ask for: http://HOST/PATH, or /PATH for a client that names no host
    #[arg(value_name = "URL")]
    pub(crate) url: String,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// As it would be served with these arguments
    #[command(flatten)]
    pub(crate) serve: ServeArgs,
}

/// What to import.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// The other configuration, as in /etc/nginx/sites-enabled/default or /etc/caddy/Caddyfile
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// Whose it is [default: Caddy's if the name of the file begins with Caddyfile, or else nginx's]
    #[arg(long, value_name = "SERVER", value_parser = ["nginx", "caddy"])]
    pub(crate) from: Option<String>,
}

/// Words for `lamna-lab`, which judges them, and has the help.
#[derive(Debug, Args)]
pub(crate) struct LaboratoryArgs {
    /// Arguments; --help shows them
    #[arg(value_name = "ARG", trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) words: Vec<OsString>,
}

/// Which server, and what of it.
#[derive(Debug, Args)]
pub(crate) struct CtlArgs {
    /// The server's endpoint: unix:PATH, or the address that it was given with --admin [default: the only server of
    /// this user that is running]
    #[arg(id = "server", long = "admin", value_name = "ADDR", global = true)]
    pub(crate) admin: Option<ListenAddress>,

    /// The file with the token that orders over TCP need [default: the one that the server has made, if this user may
    /// read it]
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) token_file: Option<PathBuf>,

    /// Print JSON, as the endpoint gives it
    #[arg(long, global = true)]
    pub(crate) json: bool,

    #[command(subcommand)]
    pub(crate) command: CtlCommand,
}

/// What to ask or order.
#[derive(Debug, Subcommand)]
pub(crate) enum CtlCommand {
    /// What the server is and how it is
    Status,
    /// The architecture: what it is, what it is to be, and why
    Arch {
        #[command(subcommand)]
        command: Option<ArchCommand>,
    },
    /// Change how it works while it serves: the same as arch set
    Set(SetArgs),
    /// What was done so far, and what the server's threads cost
    Stats,
    /// Say what the server answers a URL with, and why, by the configuration that is in force and with its rights
    Explain {
        /// What a client would ask for: http://HOST/PATH, or /PATH for a client that names no host
        url: String,
    },
    /// Take no new connection, finish what has begun, end
    Drain,
    /// Hand everything over to a new process of the executable
    Upgrade,
    /// Read the configuration again, and open the access log again
    Reload,
}

/// What about the architecture.
#[derive(Debug, Subcommand)]
pub(crate) enum ArchCommand {
    /// What it is
    Get,
    /// Change it while serving
    Set(SetArgs),
    /// Why it is what it is
    Why,
}

/// What is to become different.
#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
pub(crate) struct SetArgs {
    /// The architecture
    #[arg(value_name = "NAME", value_parser = architecture_parser())]
    name: Option<Choice>,

    /// Event loops
    #[arg(long, value_name = "N", value_parser = count_parser(WORKERS))]
    workers: Option<usize>,

    /// Threads of each worker of thread-pool
    #[arg(long, value_name = "N", value_parser = count_parser(THREADS))]
    threads: Option<usize>,

    /// The most helpers of each worker
    #[arg(long, value_name = "N", value_parser = count_parser(HELPERS))]
    helpers_max: Option<usize>,

    /// How long what has begun may take to end when the server drains, in milliseconds
    #[arg(long, value_name = "MS", value_parser = drain_timeout)]
    drain_timeout_ms: Option<u32>,

    /// Which cached content goes when room is needed: lru, lfu, gdsf, s3-fifo or sieve. What is cached stays
    #[arg(long, value_name = "NAME", value_parser = policy_parser())]
    cache_policy: Option<Algorithm>,

    /// What the cache is to have many of: requests or bytes
    #[arg(long, value_name = "NAME", value_parser = objective_parser())]
    cache_objective: Option<Objective>,

    /// Whether what was asked for once only is kept out of a full cache: true or false
    #[arg(long, value_name = "BOOL")]
    cache_filter: Option<bool>,

    /// How files that are not held in memory are sent
    #[arg(long, value_parser = strategy_parser())]
    send: Option<SendStrategy>,

    /// The longest stretch of a file that is copied with --send auto, as in 32KiB
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    stretch_copy_bytes_max: Option<u64>,

    /// Messages up to this size are copied behind those before them, as in 16KiB
    #[arg(long, alias = "copy-bytes-max", value_name = "SIZE", value_parser = parse_size)]
    message_copy_bytes_max: Option<u64>,
}

impl SetArgs {
    /// What the arguments say, for the endpoint.
    pub(crate) fn change(&self) -> Change {
        Change {
            architecture: self.name.map(|choice| choice.name().to_owned()),
            workers: self.workers,
            threads: self.threads,
            helpers_max: self.helpers_max,
            drain_timeout_ms: self.drain_timeout_ms,
            cache_policy: self.cache_policy.map(|algorithm| algorithm.name().to_owned()),
            cache_objective: self.cache_objective.map(|objective| objective.name().to_owned()),
            cache_filter: self.cache_filter,
            send: self.send.map(|strategy| strategy.name().to_owned()),
            stretch_copy_bytes_max: self.stretch_copy_bytes_max,
            message_copy_bytes_max: self.message_copy_bytes_max,
        }
    }
}

/// What to serve, and how. Overrides the configuration file. What most people need comes first.
#[derive(Clone, Debug, Args)]
pub(crate) struct ServeArgs {
    /// The directory to serve [default: the working directory]
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,

    /// List directories that have no index file. Without a configuration this is on where only this machine reaches the server
    /// and the directory has no index file; --browse=false switches it off
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    browse: Option<bool>,

    /// Let clients store files: PUT, and a form in listings. Anyone who reaches the server can write into the directory
    #[arg(long)]
    upload: bool,

    /// Let clients delete files and empty directories: DELETE, and buttons in listings. Anyone who reaches the server can
    #[arg(long)]
    delete: bool,

    /// Let clients make directories: MKCOL, and a form in listings. Anyone who reaches the server can
    #[arg(long)]
    mkdir: bool,

    /// Answer paths that are not found with the index file, for single-page applications
    #[arg(long)]
    spa: bool,

    /// Pass every request on to the application there, as in http://127.0.0.1:3000 or unix:/run/app.sock: a reverse proxy
    #[arg(long, value_name = "ADDR", conflicts_with = "directory")]
    proxy: Option<UpstreamAddress>,

    /// Listen at this port of loopback: the same as --listen PORT
    #[arg(short, long, value_name = "PORT", conflicts_with = "listen")]
    port: Option<u16>,

    /// Where to listen: PORT or :PORT (loopback), IPV4:PORT, [IPV6]:PORT, localhost:PORT, unix:PATH. Can be repeated.
    /// 0.0.0.0:PORT and [::]:PORT are every interface [default: the first free port of loopback from 8080 to 8099]
    #[arg(short, long, value_name = "ADDR")]
    listen: Vec<ListenAddress>,

    /// Let pages of other origins read what is served, preflight requests included: of this one, or of all
    #[arg(long, value_name = "ORIGIN", num_args = 0..=1, require_equals = true, default_missing_value = "*", value_parser = origin)]
    cors: Option<String>,

    /// Send this field with every answer. Can be repeated
    #[arg(long, value_name = "NAME: VALUE", value_parser = field_from_text)]
    header: Vec<(String, String)>,

    /// Open the site in the browser
    #[arg(long)]
    pub(crate) open: bool,

    /// Print a QR code of the address by which phones in this network reach the server
    #[arg(long)]
    pub(crate) qr: bool,

    /// Say nothing but what is wrong; no access log unless --log is given
    #[arg(short, long)]
    quiet: bool,

    /// Configuration file (TOML): several sites, redirects, fields by site
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Access log: `off`, `-` for standard output, or a file
    #[arg(long, value_name = "off|-|FILE", value_parser = log_target, help_heading = LOGS)]
    log: Option<LogTarget>,

    /// How access log lines are written
    #[arg(long, value_parser = log_format_parser(), help_heading = LOGS)]
    log_format: Option<LogFormat>,

    /// Error log: `-` for standard error, or a file [default: -]
    #[arg(long, value_name = "-|FILE", help_heading = LOGS)]
    error_log: Option<PathBuf>,

    /// How error log lines are written
    #[arg(long, value_parser = error_log_format_parser(), help_heading = LOGS)]
    error_log_format: Option<ErrorLogFormat>,
    /// Speak TLS with this certificate, in PEM, followed by those that lead to one that clients know
    #[arg(long, value_name = "FILE", requires = "key")]
    certificate: Option<PathBuf>,

    /// The private key of the certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "certificate")]
    key: Option<PathBuf>,

    /// Speak TLS. Sites without a certificate get one of a certificate authority of this machine, for local names only
    #[arg(long)]
    tls: bool,

    /// Serve this name to the world: order a certificate for it, install it and renew it. For several names, give it several times.
    /// Listens at ports 443 and 80, unless --listen says otherwise. Agrees to the terms of the certificate authority, Let's Encrypt
    #[arg(long = "domain", value_name = "NAME", value_parser = domain, conflicts_with_all = ["certificate", "tls"])]
    domains: Vec<String>,

    /// Another certificate authority that speaks ACME: the URL of its directory
    #[arg(long, value_name = "URL", value_parser = acme_directory)]
    acme_directory: Option<String>,

    /// An e-mail address that the certificate authority may write to
    #[arg(long, value_name = "EMAIL", value_parser = acme_contact)]
    acme_contact: Option<String>,

    /// Where `lamna ctl`, probes and monitoring reach this server: unix:PATH, an address as for --listen (loopback, unless
    /// one is named) in addition to the Unix socket that `lamna ctl` finds, that socket alone (auto), or off [default: auto]
    #[arg(long, value_name = "unix:PATH|ADDR|auto|off", help_heading = CONTROL)]
    pub(crate) admin: Option<AdminAddress>,

    /// How long what has begun may take to end when the server drains, in milliseconds
    #[arg(long, value_name = "MS", value_parser = drain_timeout, help_heading = CONTROL)]
    drain_timeout_ms: Option<u32>,

    /// Codings that text is compressed into while it is served: some of br, zstd and gzip, or `off`
    #[arg(long, value_name = "off|LIST", value_parser = Compression::codings_from_text, help_heading = MEMORY)]
    compress: Option<CodingSet>,

    /// The most memory for cached content, as in 64MiB
    #[arg(long, value_name = "SIZE", value_parser = cache_bytes, help_heading = MEMORY)]
    cache_bytes: Option<u64>,

    /// Which cached content goes when room is needed: lru, lfu, gdsf, s3-fifo or sieve
    #[arg(long, value_name = "NAME", value_parser = policy_parser(), help_heading = MEMORY)]
    cache_policy: Option<Algorithm>,

    /// Which caches are used, to measure what each contributes: some of translations, entries and content, or `off`
    #[arg(long, value_name = "off|LIST", value_parser = CacheSwitches::from_text, help_heading = MEMORY)]
    caches: Option<CacheSwitches>,

    /// How files that are not held in memory are sent: read and sent, sent from a mapping, or with sendfile; auto
    /// copies what is short
    #[arg(long, value_parser = strategy_parser(), help_heading = MEMORY)]
    send: Option<SendStrategy>,

    /// Concurrency architecture: auto begins with amped and changes to what is better under the load; sped is event loops
    /// alone, amped has helper threads for what would block, proactor hands every step to the kernel through io_uring,
    /// the thread engines and mp wait in a thread or process for each connection that is being served, co-amped is amped
    /// with worker processes [default: auto]
    #[arg(long, value_parser = architecture_parser(), help_heading = ENGINES)]
    arch: Option<Choice>,

    /// Event loops; auto: as many as are busy, with --arch auto
    #[arg(long, value_name = "N|auto", value_parser = workers, help_heading = ENGINES)]
    workers: Option<Workers>,

    /// What --arch auto goes by: a profile, as `lamna tune` writes it
    #[arg(long, value_name = "FILE", help_heading = ENGINES)]
    profile: Option<PathBuf>,

    /// Keep each worker, with all its threads, on one processor
    #[arg(long, help_heading = ENGINES)]
    pin: bool,

    /// Speak HTTP/2 in clear text with clients that begin with it: behind a proxy, or for tests
    #[arg(long, help_heading = ENGINES)]
    h2c: bool,

    /// Keep books of where the time goes, by step of a request: `lamna ctl stats` shows them, and the end of the server does
    #[arg(long, help_heading = ENGINES)]
    account: bool,

    /// What helpers are: threads, or processes as Flash had them
    #[arg(long, value_parser = helper_kind_parser(), help_heading = ENGINES)]
    helpers: Option<HelperKind>,

    /// The most helpers of each worker
    #[arg(long, value_name = "N", value_parser = count_parser(HELPERS), help_heading = ENGINES)]
    helpers_max: Option<usize>,

    /// Threads of each worker of thread-pool
    #[arg(long, value_name = "N", value_parser = count_parser(THREADS), help_heading = ENGINES)]
    threads: Option<usize>,

    /// The most threads for connections of each worker of the thread engines
    #[arg(long, value_name = "N", value_parser = count_parser(THREADS), help_heading = ENGINES)]
    threads_max: Option<usize>,

    /// Processes of mp: to begin with, and at least
    #[arg(long, value_name = "N", value_parser = count_parser(PROCESSES), help_heading = ENGINES)]
    processes: Option<usize>,

    /// The most processes of mp, which is how many connections it serves at a time
    #[arg(long, value_name = "N", value_parser = count_parser(PROCESSES), help_heading = ENGINES)]
    processes_max: Option<usize>,

    /// A system call to do without, to see what happens where the kernel lacks it. Can be repeated
    #[arg(long, value_name = "NAME", hide = true)]
    without: Vec<String>,
}

const LOGS: &str = "Logs";
const CONTROL: &str = "Control and end";
const MEMORY: &str = "Compression, caches and sending";
const ENGINES: &str = "Engines";

impl ServeArgs {
    /// The directory that is named.
    pub(crate) fn directory(&self) -> Option<&Path> {
        self.directory.as_deref()
    }

    /// What the arguments say, for `config::load`.
    pub(crate) fn overrides(&self) -> Overrides {
        let port = self.port.map(|port| ListenAddress::Tcp((Ipv4Addr::LOCALHOST, port).into()));
        Overrides {
            directory: self.directory.clone(),
            listen: port.into_iter().chain(self.listen.iter().cloned()).collect(),
            architecture: self.arch,
            workers: self.workers,
            profile: self.profile.clone(),
            pin: self.pin,
            h2c: self.h2c,
            account: self.account,
            helpers_max: self.helpers_max,
            threads: self.threads,
            threads_max: self.threads_max,
            helpers: self.helpers,
            processes: self.processes,
            processes_max: self.processes_max,
            drain_timeout_ms: self.drain_timeout_ms,
            send: self.send,
            cache_bytes_max: self.cache_bytes,
            caches: self.caches,
            cache_policy: self.cache_policy,
            compress: self.compress,
            log: self.log.clone(),
            log_format: self.log_format,
            error_log: self.error_log.clone(),
            error_log_format: self.error_log_format,
            quiet: self.quiet,
            headers: self.header.clone(),
            cors: self.cors.clone(),
            browse: self.browse,
            upload: self.upload,
            delete: self.delete,
            mkdir: self.mkdir,
            spa: self.spa,
            gateway: self.proxy.clone().map(gateway),
            admin: self.admin.clone(),
            certificate: self.certificate.clone().zip(self.key.clone()),
            tls: self.tls,
            domains: self.domains.clone(),
            acme_directory: self.acme_directory.clone(),
            acme_contact: self.acme_contact.clone(),
            without: self.without.clone(),
        }
    }
}

fn gateway(address: UpstreamAddress) -> GatewaySettings {
    GatewaySettings::new(GatewayProtocol::Http, vec![UpstreamSettings::new(address)])
}

fn domain(text: &str) -> Result<String, String> {
    let name = text.trim_end_matches('.').to_ascii_lowercase();
    check_name(&name).map(|()| name).map_err(str::to_owned)
}

fn acme_directory(text: &str) -> Result<String, String> {
    check_directory_url(text).map(|()| text.to_owned()).map_err(str::to_owned)
}

fn acme_contact(text: &str) -> Result<String, String> {
    let address = text.strip_prefix("mailto:").unwrap_or(text);
    check_contact(address).map(|()| address.to_owned()).map_err(str::to_owned)
}

fn architecture_parser() -> impl TypedValueParser<Value = Choice> {
    let value = |each: Choice| {
        let alias = if let Choice::Fixed(architecture) = each { architecture.character().alias } else { None };
        PossibleValue::new(each.name()).aliases(alias)
    };
    PossibleValuesParser::new(Choice::all().map(value))
        .try_map(|name| Choice::from_name(&name).ok_or("unknown architecture"))
}

fn workers(text: &str) -> Result<Workers, String> {
    match text {
        "auto" => Ok(Workers::Auto),
        count => count_parser(WORKERS)(count).map(Workers::Count),
    }
}

fn policy_parser() -> impl TypedValueParser<Value = Algorithm> {
    PossibleValuesParser::new(Algorithm::ALL.map(Algorithm::name)).try_map(|name| name.parse::<Algorithm>())
}

fn objective_parser() -> impl TypedValueParser<Value = Objective> {
    PossibleValuesParser::new(Objective::ALL.map(Objective::name))
        .try_map(|name| Objective::from_name(&name).ok_or("unknown objective"))
}

fn helper_kind_parser() -> impl TypedValueParser<Value = HelperKind> {
    PossibleValuesParser::new(HelperKind::ALL.map(HelperKind::name))
        .try_map(|name| HelperKind::from_name(&name).ok_or("unknown kind"))
}

fn strategy_parser() -> impl TypedValueParser<Value = SendStrategy> {
    PossibleValuesParser::new(SendStrategy::ALL.map(SendStrategy::name))
        .try_map(|name| SendStrategy::from_name(&name).ok_or("unknown strategy"))
}

fn log_format_parser() -> impl TypedValueParser<Value = LogFormat> {
    PossibleValuesParser::new(LogFormat::ALL.map(LogFormat::name))
        .try_map(|name| LogFormat::from_name(&name).ok_or("unknown format"))
}

fn error_log_format_parser() -> impl TypedValueParser<Value = ErrorLogFormat> {
    PossibleValuesParser::new(ErrorLogFormat::ALL.map(ErrorLogFormat::name))
        .try_map(|name| ErrorLogFormat::from_name(&name).ok_or("unknown format"))
}

/// As it stands in a field: RFC 6454 7.
fn origin(text: &str) -> Result<String, String> {
    let is_origin = |rest: &str| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/');
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    if text == "*" || text == "null" || host.is_some_and(is_origin) {
        return Ok(text.to_owned());
    }
    Err("expected an origin as in https://example.org, without a path, or * for all".to_owned())
}

fn count_parser(
    bounds: RangeInclusive<usize>,
) -> impl Fn(&str) -> Result<usize, String> + Clone + Send + Sync + 'static {
    move |text| {
        text.parse()
            .ok()
            .filter(|count| bounds.contains(count))
            .ok_or_else(|| format!("expected a number from {} to {}", bounds.start(), bounds.end()))
    }
}

fn drain_timeout(text: &str) -> Result<u32, String> {
    let ms = text.parse().ok().filter(|ms| DRAIN_TIMEOUT_MS.contains(&u64::from(*ms)));
    ms.ok_or_else(|| format!("expected a number of milliseconds from 0 to {}", DRAIN_TIMEOUT_MS.end()))
}

fn cache_bytes(text: &str) -> Result<u64, String> {
    let bytes = parse_size(text)?;
    if CACHE_BYTES.contains(&bytes) {
        return Ok(bytes);
    }
    let (least, most) = (*CACHE_BYTES.start(), *CACHE_BYTES.end());
    Err(format!("expected between {} and {}", format_size(least), format_size(most)))
}

fn log_target(text: &str) -> Result<LogTarget, String> {
    if text.is_empty() {
        return Err("expected off, - or a file".into());
    }
    Ok(LogTarget::from_text(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_directory_without_a_command_is_served() {
        let cli = Cli::try_parse_from(["lamna", "www", "-l", "8080", "--log", "-"]).unwrap();
        assert!(cli.command.is_none());
        let overrides = cli.serve.overrides();
        assert_eq!(overrides.directory, Some("www".into()));
        assert_eq!(overrides.listen, ["127.0.0.1:8080".parse().unwrap()]);
        assert_eq!(overrides.log, Some(LogTarget::Stdout));
    }

    #[test]
    fn words_for_the_laboratory_are_taken_as_they_are() {
        for words in [&["--help"][..], &["run", "cached", "--quick"], &["-n", "5", "--", "http://a/"], &[]] {
            let line = ["lamna", "load"].into_iter().chain(words.iter().copied());
            let Some(Command::Load(args)) = Cli::try_parse_from(line).unwrap().command else { panic!("{words:?}") };
            assert_eq!(args.words, words);
        }
    }

    #[test]
    fn values_out_of_bounds_are_usage_errors() {
        for arguments in [
            ["--workers", "0"],
            ["--helpers-max", "1025"],
            ["--cache-bytes", "64PB"],
            ["--cache-bytes", "1"],
            ["--listen", "example.org:80"],
            ["--arch", "mpm"],
            ["--processes", "1025"],
            ["--log", ""],
        ] {
            let line = ["lamna", "serve"].into_iter().chain(arguments);
            let error = Cli::try_parse_from(line).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{arguments:?}");
        }
    }
}
