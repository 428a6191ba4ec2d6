//! The command line: names, help and the syntax of values.
//!
//! Owns: what can be typed; flags of settings come from their rows (`setting_args`). Judges single values only; what
//! depends on the file or the machine is `config`'s business.

// Help texts: brackets belong to addresses, and addresses are no links.
#![allow(rustdoc::broken_intra_doc_links, rustdoc::bare_urls)]

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use lamna_policy::limit::Rate;
use lamna_server::config::access::{check_user, hash_password};
use lamna_server::config::acme::check_name;
use lamna_server::config::gateway::{GatewayProtocol, GatewaySettings, UpstreamSettings};
use lamna_server::config::password::PasswordHash;
use lamna_server::config::settings::{ListenAddress, ListenAt};
use lamna_server::config::upstream_address::{AddressError, UpstreamAddress};
use lamna_server::config::{Overrides, field_from_text};
use lamna_server::process::cgi_runner::{self, Limits};

use crate::exit::{self, Exit, Failed};
use crate::service::ServiceCommand;
use crate::setting_args::{SetArgs, SettingArgs};

const SIGNALS: &str = "\
Signals:
  TERM, INT  drain: refuse new connections, finish what has begun, then exit; a second one: stop now
  HUP        reload the configuration and reopen the access log
  USR2       start the program as it is now, and hand over to it";

/// The usual invocations.
const EXAMPLES: &str = "\
Examples:
  lamna                                       this directory, for this machine alone
  lamna ~/site --open                         that one, opened in the browser
  lamna --listen :8080 --browse --qr          for everybody in this network, phones included
  lamna serve --config lamna.toml             several sites, redirects, fields";

/// A web server: files, uploads, reverse proxy, FastCGI and CGI, with TLS and HTTP/2. Without a command it serves a
/// directory.
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

/// The subcommands.
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
    /// Print the hash of a password or of a token, for a configuration: docs/access.md
    #[command(after_help = exit::HELP)]
    HashPassword(HashPasswordArgs),
    /// Print a configuration of nginx, Caddy, HAProxy or Apache as one of this server
    #[command(after_help = exit::HELP)]
    Import(ImportArgs),
    /// Replay an access log and report which clients the limits would have refused: docs/limits.md
    #[command(after_help = exit::HELP)]
    Limit(LimitArgs),
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
    /// Run CGI programs for a server, which starts this itself
    #[command(hide = true)]
    CgiRunner(CgiRunnerArgs),
}

/// The bounds of programs, and how they are started.
#[derive(Debug, Args)]
pub(crate) struct CgiRunnerArgs {
    #[arg(long)]
    programs_max: usize,
    #[arg(long)]
    time_max_ms: u64,
    #[arg(long)]
    output_bytes_max: u64,
    /// END=PROGRAM
    #[arg(long)]
    interpreter: Vec<String>,
}

impl CgiRunnerArgs {
    /// Runs programs until it is told to end.
    pub(crate) fn run(&self) -> Result<(), Failed> {
        let pairs = self.interpreter.iter().filter_map(|pair| pair.split_once('='));
        let limits = Limits {
            programs_max: self.programs_max,
            time_max: Duration::from_millis(self.time_max_ms),
            output_bytes_max: self.output_bytes_max,
            interpreters: pairs.map(|(end, program)| (end.to_owned(), program.to_owned())).collect(),
        };
        let refused = |error| Failed { exit: Exit::Usage, report: format!("lamna: a server starts this: {error}") };
        cgi_runner::run(&limits).map_err(refused)
    }
}

/// The arguments of `check`.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Print the JSON Schema of configuration files instead, for editors
    #[arg(long)]
    pub(crate) schema: bool,

    #[command(flatten)]
    pub(crate) serve: ServeArgs,
}

/// The arguments of `explain`.
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// The requested URL: http://HOST/PATH, or /PATH for a client that names no host
    #[arg(value_name = "URL")]
    pub(crate) url: String,

    /// The address of the client, if not one of this machine
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) from: Option<IpAddr>,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// As it would be served with these arguments
    #[command(flatten)]
    pub(crate) serve: ServeArgs,
}

/// The arguments of `hash-password`. The secret is read from standard input: a terminal does not show it.
#[derive(Debug, Args)]
pub(crate) struct HashPasswordArgs {
    /// The user whose password it is: prints the line NAME:HASH of a users file
    #[arg(value_name = "NAME", conflicts_with = "token")]
    pub(crate) name: Option<String>,

    /// Hash a token, which is long and random, and not a password
    #[arg(long)]
    pub(crate) token: bool,
}

/// The arguments of `import`.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// The other configuration, of nginx, Caddy, HAProxy or Apache, as in /etc/caddy/Caddyfile
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// Whose it is [default: found out by the name of the file and by its lines]
    #[arg(long, value_name = "SERVER", value_parser = ["nginx", "caddy", "haproxy", "apache"])]
    pub(crate) from: Option<String>,

    /// The directory that a .htaccess of Apache is in
    #[arg(long, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,

    /// Where php-fpm is, for Apache with PHP in it: as in unix:/run/php/php-fpm.sock
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) php: Option<String>,
}

/// The arguments of `limit`.
#[derive(Debug, Args)]
pub(crate) struct LimitArgs {
    #[command(subcommand)]
    pub(crate) command: LimitCommand,
}

/// The subcommands of `limit`.
#[derive(Debug, Subcommand)]
pub(crate) enum LimitCommand {
    /// Count the requests of a log, and say which networks the limits of a configuration, or another limit, would have
    /// met, and when
    #[command(after_help = exit::HELP)]
    Preview(PreviewArgs),
}

/// Which log, and which limits.
#[derive(Debug, Args)]
pub(crate) struct PreviewArgs {
    /// An access log of this server, in either format, or of nginx or Apache in the combined format; `-` for standard
    /// input. Several are read one after the other, so the oldest comes first
    #[arg(id = "logs", long = "log", value_name = "FILE", required = true)]
    pub(crate) logs: Vec<PathBuf>,

    /// This limit in place of the configured ones, as in \"20/s burst 100\"
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub(crate) requests: Option<Rate>,

    /// Only paths that begin with this
    #[arg(long, value_name = "PATH", requires = "requests")]
    pub(crate) path: Option<String>,

    /// How many networks to list for each limit
    #[arg(long, value_name = "NUMBER", default_value_t = 10)]
    pub(crate) most: usize,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// The configuration whose limits they are
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

fn rate(text: &str) -> Result<Rate, String> {
    text.parse().map_err(|why| format!("`{text}` {why}"))
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

/// The subcommands of `ctl`.
#[derive(Debug, Subcommand)]
pub(crate) enum CtlCommand {
    /// Print the server's version, state, architecture and connections
    Status,
    /// The architecture: what it is, what it is to be, and why
    Arch {
        #[command(subcommand)]
        command: Option<ArchCommand>,
    },
    /// Change how it works while it serves: the same as arch set
    Set(SetArgs),
    /// Print counters, and the costs of the server's threads
    Stats,
    /// Say what the server answers a URL with, and why, by the configuration that is in force and with its rights
    Explain {
        /// The requested URL: http://HOST/PATH, or /PATH for a client that names no host
        url: String,
        /// The address of the client, if not one of this machine
        #[arg(long, value_name = "ADDRESS")]
        from: Option<IpAddr>,
    },
    /// Say what is known of what is asked for after a page, and why
    Hints {
        /// The page: http://HOST/PATH, or /PATH for a client that names no host
        url: String,
    },
    /// Wait for the next request for a URL, and say what each step makes of it
    Trace {
        /// The URL that a client will ask for: http://HOST/PATH, or /PATH for every host
        url: String,
        /// Seconds to wait for it
        #[arg(long, value_name = "SECONDS", default_value_t = 60)]
        wait: u64,
    },
    /// The answers of applications that are kept
    Cache {
        #[command(subcommand)]
        command: CacheCommand,
    },
    /// Answer every request to a site with 503, and serve it again: docs/control.md
    Maintenance {
        #[command(subcommand)]
        command: Option<MaintenanceCommand>,
    },
    /// The places of applications: list them, have one get no request, and get some again: docs/gateways.md
    Upstream {
        #[command(subcommand)]
        command: Option<UpstreamCommand>,
    },
    /// Filters and what else can be exchanged while the server serves: docs/services.md
    Service {
        #[command(subcommand)]
        command: ServiceCommand,
    },
    /// Take no new connection, finish what has begun, end
    Drain,
    /// Hand everything over to a new process of the executable
    Upgrade,
    /// Read the configuration again, and open the access log again
    Reload,
}

/// The subcommands of `ctl cache`.
#[derive(Debug, Subcommand)]
pub(crate) enum CacheCommand {
    /// Use none of these any more: the next request asks the application
    Purge {
        /// This URL, with all its variants: http://HOST/PATH?QUERY, or /PATH of any host
        #[arg(required_unless_present_any = ["prefix", "all"], conflicts_with_all = ["prefix", "all"])]
        url: Option<String>,
        /// All URLs with this prefix
        #[arg(long, value_name = "URL", conflicts_with = "all")]
        prefix: Option<String>,
        /// All URLs
        #[arg(long)]
        all: bool,
    },
}

/// The subcommands of `ctl maintenance`.
#[derive(Debug, Subcommand)]
pub(crate) enum MaintenanceCommand {
    /// Which sites are in maintenance
    List,
    /// Answer with 503 until it is off
    On {
        /// The site: one of its hosts, or its place in the configuration
        site: String,
        /// A page in HTML, in a file of this machine [default: what the configuration has for the site]
        #[arg(long, value_name = "FILE")]
        page: Option<PathBuf>,
        /// Seconds in Retry-After [default: what the configuration has for the site, or 300]
        #[arg(long = "retry-after", value_name = "SECONDS")]
        retry_after_s: Option<u64>,
        /// A network whose clients are served as ever, as 192.0.2.0/24; may be given several times
        #[arg(long, value_name = "NETWORK")]
        except: Vec<String>,
    },
    /// Serve it again, whatever its key in the configuration says
    Off {
        /// The site
        site: String,
    },
}

/// The subcommands of `ctl upstream`.
#[derive(Debug, Subcommand)]
pub(crate) enum UpstreamCommand {
    /// Each place: whether it is asked, requests under way, connections kept, requests, failures
    List {
        /// Only of this site
        #[arg(long, value_name = "SITE")]
        site: Option<String>,
    },
    /// Give it no request from now on; what is under way goes on
    Drain {
        /// The address, as it is configured
        address: String,
        /// Only for this site [default: every site that asks it]
        #[arg(long, value_name = "SITE")]
        site: Option<String>,
    },
    /// Give it requests again
    Undrain {
        /// The address
        address: String,
        /// Only for this site [default: every site that asks it]
        #[arg(long, value_name = "SITE")]
        site: Option<String>,
    },
}

/// The subcommands of `ctl arch`.
#[derive(Debug, Subcommand)]
pub(crate) enum ArchCommand {
    /// Print it
    Get,
    /// Change it while serving
    Set(SetArgs),
    /// Why it is what it is
    Why,
}

/// The arguments of `serve`, which override the configuration file. The most common come first.
#[derive(Clone, Debug, Args)]
pub(crate) struct ServeArgs {
    /// The directory to serve [default: the working directory]
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,

    /// List directories that have no index file. Without a configuration this is on where only this machine reaches the
    /// server and the directory has no index file and no --fastcgi; --browse=false switches it off
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    browse: Option<bool>,

    /// Pages load themselves again in the browser when files change: for authors
    #[arg(long)]
    watch: bool,

    /// Let clients store files: PUT, and a form in listings. Without --auth every client can write into the directory
    #[arg(long)]
    upload: bool,

    /// Let clients delete files and empty directories: DELETE, and buttons in listings. Without --auth every client can
    #[arg(long)]
    delete: bool,

    /// Let clients make directories: MKCOL, and a form in listings. Without --auth every client can
    #[arg(long)]
    mkdir: bool,

    /// Let clients mount the directory by WebDAV; they change what --upload, --delete and --mkdir let them
    #[arg(long)]
    webdav: bool,

    /// Answer paths that are not found with the index file, for single-page applications
    #[arg(long)]
    spa: bool,

    /// Ask for this name and password, whatever is asked for. In the place of the password, its hash by lamna
    /// hash-password: other users of this machine see arguments. Can be repeated
    #[arg(long, value_name = "NAME:PASSWORD", value_parser = user)]
    auth: Vec<(String, PasswordHash)>,

    /// Pass every request on to the application there, as in http://127.0.0.1:3000, https://app.internal or
    /// unix:/run/app.sock: a reverse proxy
    #[arg(long, value_name = "ADDR", conflicts_with = "directory")]
    proxy: Option<UpstreamAddress>,

    /// Have the PHP files in the directory run by the FastCGI application there, as in unix:/run/php/php-fpm.sock or
    /// 127.0.0.1:9000. index.php stands for its directory; other files are served
    #[arg(long, value_name = "ADDR", conflicts_with = "proxy", value_parser = plain_upstream)]
    fastcgi: Option<UpstreamAddress>,

    /// Listen at this port of loopback: the same as --listen PORT
    #[arg(short, long, value_name = "PORT", conflicts_with = "listen")]
    port: Option<u16>,

    /// Where to listen: PORT or :PORT (every address), IPV4:PORT, [IPV6]:PORT, localhost:PORT, unix:PATH. Can be
    /// repeated; --port is for this machine alone [default: the first free port of loopback from 8080 to 8099]
    #[arg(short, long, value_name = "ADDR")]
    listen: Vec<ListenAt>,

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

    /// Speak TLS with this certificate, in PEM, followed by those that lead to one that clients know
    #[arg(long, value_name = "FILE", requires = "key")]
    certificate: Option<PathBuf>,

    /// The private key of the certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "certificate")]
    key: Option<PathBuf>,

    /// Speak TLS. Sites without a certificate get one of a certificate authority of this machine, for local names only
    #[arg(long)]
    tls: bool,

    /// Serve this name to the world: order a certificate for it, install it and renew it. For several names, give it
    /// several times. Listens at ports 443 and 80, unless --listen says otherwise. Agrees to the terms of the
    /// certificate authority, Let's Encrypt
    #[arg(long = "domain", value_name = "NAME", value_parser = domain, conflicts_with_all = ["certificate", "tls"])]
    domains: Vec<String>,

    /// Every other setting that has a flag.
    #[command(flatten)]
    settings: SettingArgs,

    /// A system call to do without, to see what happens where the kernel lacks it. Can be repeated
    #[arg(long, value_name = "NAME", hide = true)]
    without: Vec<String>,
}

impl ServeArgs {
    /// The directory that is named.
    pub(crate) fn directory(&self) -> Option<&Path> {
        self.directory.as_deref()
    }

    /// The overrides for `config::load`.
    pub(crate) fn overrides(&self) -> Overrides {
        let port = self.port.map(|port| ListenAddress::Tcp((Ipv4Addr::LOCALHOST, port).into()).into());
        Overrides {
            directory: self.directory.clone(),
            listen: port.into_iter().chain(self.listen.iter().cloned()).collect(),
            settings: self.settings.values(),
            quiet: self.quiet,
            headers: self.header.clone(),
            cors: self.cors.clone(),
            browse: self.browse,
            live_reload: self.watch,
            upload: self.upload,
            delete: self.delete,
            mkdir: self.mkdir,
            webdav: self.webdav,
            spa: self.spa,
            users: self.auth.clone(),
            gateway: self.gateway(),
            certificate: self.certificate.clone().zip(self.key.clone()),
            tls: self.tls,
            domains: self.domains.clone(),
            without: self.without.clone(),
        }
    }

    fn gateway(&self) -> Option<GatewaySettings> {
        let (protocol, address) = match (&self.proxy, &self.fastcgi) {
            (Some(address), _) => (GatewayProtocol::Http, address), // Not both: they conflict.
            (None, Some(address)) => (GatewayProtocol::FastCgi, address),
            (None, None) => return None,
        };
        Some(GatewaySettings::new(protocol, vec![UpstreamSettings::new(address.clone())]))
    }
}

fn plain_upstream(text: &str) -> Result<UpstreamAddress, String> {
    let address: UpstreamAddress = text.parse().map_err(|error: AddressError| error.to_string())?;
    match address.is_secure {
        true => Err("uses TLS, and FastCGI has none: write HOST:PORT or unix:PATH".to_owned()),
        false => Ok(address),
    }
}

fn domain(text: &str) -> Result<String, String> {
    let name = text.trim_end_matches('.').to_ascii_lowercase();
    check_name(&name).map(|()| name).map_err(str::to_owned)
}

/// The name of a user, and the hash of the password.
fn user(text: &str) -> Result<(String, PasswordHash), String> {
    let Some((name, password)) = text.split_once(':').filter(|(_, password)| !password.is_empty()) else {
        return Err("expected a name, a colon and a password, or its hash".to_owned());
    };
    let hash = match PasswordHash::is_meant(password) {
        true => password.to_owned(),
        false => hash_password(password.as_bytes())?,
    };
    let hash = check_user(name, &hash).map_err(|why| format!("this user {why}"))?;
    Ok((name.to_owned(), hash))
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use lamna_server::config::setting::Value;

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
        assert_eq!(overrides.listen, ["8080".parse().unwrap()]);
        assert_eq!(overrides.settings, [("log", Value::Text("-".into()))]);
    }

    #[test]
    fn a_switch_is_on_without_a_value_and_can_be_switched_off() {
        for (argument, on) in [("--pin", true), ("--pin=true", true), ("--pin=false", false)] {
            let cli = Cli::try_parse_from(["lamna", argument, "www"]).unwrap();
            let overrides = cli.serve.overrides();
            assert_eq!(overrides.settings, [("pin", Value::Switch(on))]);
            assert_eq!(overrides.directory, Some("www".into()), "what follows is no value");
        }
    }

    #[test]
    fn everything_that_can_be_changed_while_serving_can_be_said() {
        let cli = Cli::try_parse_from(["lamna", "ctl", "set", "mt", "--workers", "auto", "--copy-bytes-max", "1k"]);
        let Some(Command::Ctl(CtlArgs { command: CtlCommand::Set(set), .. })) = cli.unwrap().command else { panic!() };
        let change = serde_json::to_string(&set.change()).unwrap();
        assert_eq!(change, r#"{"architecture":"mt","message_copy_bytes_max":1024,"workers":"auto"}"#);
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
