//! Gateways: which application answers the requests of a route, where it is, and how long it may take.
//!
//! Owns: [`GatewaySettings`] as plain values. Where they are written and judged is in `route`. Knows nothing of
//! connections.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::num::NonZero;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lamna_policy::upstream::Balance;
use lamna_proto::gateway::proxy::ProxyVersion;

use crate::upstream_address::UpstreamAddress;

/// An application that answers requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewaySettings {
    /// Its name, if routes name it.
    pub name: Option<String>,
    /// The protocol that it is asked by.
    pub protocol: GatewayProtocol,
    /// Where it is: at any of these, at least one.
    pub upstreams: Vec<UpstreamSettings>,
    /// The path beneath which it is asked: empty, or without a slash at its end.
    pub base_path: String,
    /// The value of `Host`; none for the host that the client asked for.
    pub host: Option<String>,
    /// How long a connection to it may take to be established.
    pub connect_timeout_ms: u32,
    /// How long it may take to begin its answer, to go on with it, or to take more of the request.
    pub timeout_ms: u32,
    /// How long nothing may pass over a WebSocket, in either direction; none for any time.
    pub websocket_timeout_ms: Option<u32>,
    /// Bytes of content that a request may have; none for any number.
    pub body_bytes_max: Option<u64>,
    /// How content is kept until it is whole, before the application is asked; none if it goes on as it comes.
    pub buffer: Option<BufferSettings>,
    /// Which of two places that a request may get to is asked.
    pub balance: Balance,
    /// Which answers are not given to a client while another place may do better; none if each is.
    pub retry: Option<RetrySettings>,
    /// The property by which requests get to the same place; none if any place will do.
    pub sticky: Option<Sticky>,
    /// How places are asked whether they are well; none if they are not.
    pub check: Option<CheckSettings>,
    /// How places are told who the client is, before anything else; none if they are not.
    pub send_proxy: Option<ProxyVersion>,
    /// How TLS is spoken with those places that are asked by `https`.
    pub tls: UpstreamTls,
    /// Which files it runs; none if it answers every request.
    pub scripts: Option<ScriptSettings>,
    /// How it is started, if the server does that.
    pub command: Option<CommandSettings>,
    /// Limits on its programs, if it is the server's own runner of CGI programs, started by `command`.
    pub cgi: Option<CgiSettings>,
    /// The processes of an application that listens itself, if the server starts it: one for each place.
    pub programs: Vec<ProgramSettings>,
}

/// Answers after which a request with an idempotent method is tried again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetrySettings {
    /// Their statuses.
    pub statuses: Vec<RangeInclusive<u16>>,
    /// How often one request is tried at most, the first time included.
    pub tries: u32,
    /// The part of all requests, in percent, that may be tried again so.
    pub percent_max: u32,
}

impl RetrySettings {
    /// Whether an answer of this status is not the last word.
    pub fn is_for(&self, status: u16) -> bool {
        self.statuses.iter().any(|statuses| statuses.contains(&status))
    }
}

/// A property by which requests get to the same place of an application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sticky {
    /// The address of the client; of IPv6 its first 64 bits.
    Client,
    /// The value of the field of this name, in small letters.
    Header(String),
    /// The value of the cookie of this name.
    Cookie(String),
    /// The place that a cookie of the server names. Clients get it, and cannot read it.
    SetCookie {
        /// The name of the cookie.
        name: String,
        /// The path for which clients send it.
        path: String,
    },
}

/// How CGI programs are run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CgiSettings {
    /// By the end of a file's name, without the dot: the program that runs such files.
    pub interpreters: BTreeMap<String, String>,
    /// Programs at once.
    pub programs_max: u32,
    /// How long one may take.
    pub time_max_ms: u64,
    /// Bytes that one may print.
    pub output_bytes_max: u64,
}

impl Default for CgiSettings {
    fn default() -> CgiSettings {
        let (programs_max, time_max_ms) = (16, 60_000);
        CgiSettings { interpreters: BTreeMap::new(), programs_max, time_max_ms, output_bytes_max: 1 << 30 }
    }
}

/// How the content of requests is kept until all of it has arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufferSettings {
    /// The content that is kept.
    pub content: BufferedContent,
    /// Bytes of the content of one request.
    pub bytes_max: u64,
    /// Bytes that are kept in memory. What is longer is kept in a file.
    pub memory_bytes: u64,
    /// The file system of such files.
    pub directory: Arc<Path>,
}

impl BufferSettings {
    /// Those of content whose length the client does not say.
    pub fn of_unsized() -> BufferSettings {
        BufferSettings { content: BufferedContent::Unsized, bytes_max: UNSIZED_BYTES_MAX, ..BufferSettings::default() }
    }
}

/// The content that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferedContent {
    /// All.
    All,
    /// Content whose length the client does not say: an application that is told of it by variables has to know it.
    Unsized,
}

impl Default for BufferSettings {
    fn default() -> BufferSettings {
        BufferSettings {
            content: BufferedContent::All,
            bytes_max: BUFFERED_BYTES_MAX,
            memory_bytes: BUFFER_BYTES,
            directory: Path::new(BUFFER_DIRECTORY).into(),
        }
    }
}

/// An application that the server starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandSettings {
    /// The program and its arguments; at least the program.
    pub program: Vec<String>,
    /// How many processes of it.
    pub instances: Instances,
    /// Where it listens: the server binds the socket, and passes it as descriptor 0.
    pub socket: PathBuf,
}

/// A process that the server starts, and that listens itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramSettings {
    /// The program and its arguments; at least the program.
    pub program: Vec<String>,
    /// Where it has to listen.
    pub place: ProgramPlace,
}

/// Where a program listens that the server starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProgramPlace {
    /// At an address of this machine.
    Port(SocketAddr),
    /// At a Unix socket.
    Socket(PathBuf),
}

impl ProgramPlace {
    /// The names of variables that may tell a program where it has to listen.
    pub const VARIABLES: [&str; 3] = ["HOST", "PORT", "SOCKET"];

    /// Variables that tell the program where it has to listen, by their names.
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        match self {
            ProgramPlace::Port(address) => {
                vec![("HOST", address.ip().to_string()), ("PORT", address.port().to_string())]
            }
            ProgramPlace::Socket(path) => vec![("SOCKET", path.display().to_string())],
        }
    }

    /// An argument of the program: `{host}`, `{port}` and `{socket}` are what the variables say.
    pub fn fill(&self, argument: &str) -> String {
        self.variables().into_iter().fold(argument.to_owned(), |text, (name, value)| {
            text.replace(&format!("{{{}}}", name.to_ascii_lowercase()), &value)
        })
    }
}

impl fmt::Display for ProgramPlace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProgramPlace::Port(address) => address.fmt(formatter),
            ProgramPlace::Socket(path) => write!(formatter, "unix:{}", path.display()),
        }
    }
}

/// How many processes an application has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instances {
    /// So many.
    Fixed(NonZero<u32>),
    /// As many as the listen queue of its socket asks for.
    Auto,
}

/// The protocol that an application is asked by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GatewayProtocol {
    /// HTTP/1.1: a reverse proxy.
    Http,
    /// FastCGI.
    FastCgi,
    /// SCGI.
    Scgi,
    /// uwsgi, the protocol of uWSGI.
    Uwsgi,
}

impl GatewayProtocol {
    /// The name in words.
    pub fn name(self) -> &'static str {
        match self {
            GatewayProtocol::Http => "HTTP",
            GatewayProtocol::FastCgi => "FastCGI",
            GatewayProtocol::Scgi => "SCGI",
            GatewayProtocol::Uwsgi => "uwsgi",
        }
    }

    /// Whether an application is told of a request by the variables of CGI, and the length of its content with them.
    pub fn has_variables(self) -> bool {
        self != GatewayProtocol::Http
    }
}

/// How the places of an application are asked whether they are well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckSettings {
    /// The path that is asked for, with its query.
    pub path: String,
    /// From one check to the next.
    pub interval_ms: u32,
    /// How long the head of an answer may take, and the connection with it.
    pub timeout_ms: u32,
    /// The statuses that a healthy place answers with.
    pub statuses: Vec<RangeInclusive<u16>>,
    /// Checks in a row that have to pass before a place that was down is asked again.
    pub passes: u32,
    /// Checks in a row that have to fail before a place is held to be down.
    pub misses: u32,
}

impl CheckSettings {
    /// Checks of `path`, with everything else as usual.
    pub fn new(path: String) -> CheckSettings {
        let statuses = vec![200..=299, 300..=399];
        CheckSettings { path, interval_ms: 10_000, timeout_ms: 5_000, statuses, passes: 2, misses: 3 }
    }
}

/// The certificates that a gateway accepts of an application that it asks by `https`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamTls {
    /// Certificates that have signed that of the application; none for those that the system trusts.
    pub ca: Option<PathBuf>,
    /// The name that its certificate has to have; none for the host of its address.
    pub server_name: Option<String>,
    /// Whether its certificate is looked at.
    pub verify: bool,
}

impl Default for UpstreamTls {
    fn default() -> UpstreamTls {
        UpstreamTls { ca: None, server_name: None, verify: true }
    }
}

/// Which files an application runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptSettings {
    /// Those with one of these at the end of their name, behind a dot. Without any it runs every file.
    pub extensions: Vec<String>,
    /// Names that stand for a directory before those of the site.
    pub index: Vec<String>,
    /// Whether scripts are named by where the root really is, if its path has links.
    pub resolve_root: bool,
}

impl Default for ScriptSettings {
    /// PHP.
    fn default() -> ScriptSettings {
        ScriptSettings { extensions: vec!["php".to_owned()], index: vec!["index.php".to_owned()], resolve_root: true }
    }
}

impl ScriptSettings {
    /// Whether the file at `path` is run: the last part of it ends with one of these, and is more than that.
    pub fn run(&self, path: &[u8]) -> bool {
        if self.extensions.is_empty() {
            return true;
        }
        let file = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        let dot = memchr::memrchr(b'.', file);
        dot.is_some_and(|dot| dot > 0 && self.extensions.iter().any(|one| file[dot + 1..] == *one.as_bytes()))
    }
}

/// One place where an application is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamSettings {
    /// Where.
    pub address: UpstreamAddress,
    /// Its share of the requests beside the others. 0 for a spare: it is asked only when no other can be.
    pub weight: u32,
}

impl GatewaySettings {
    /// The key of the route, or the flag, that names such an application.
    pub fn key(&self) -> &'static str {
        if self.name.is_some() { "application" } else { self.protocol_key() }
    }

    /// The key that says how it is asked.
    pub fn protocol_key(&self) -> &'static str {
        match self.protocol {
            GatewayProtocol::Http => "proxy",
            GatewayProtocol::FastCgi if self.cgi.is_some() => "cgi",
            GatewayProtocol::FastCgi => "fastcgi",
            GatewayProtocol::Scgi => "scgi",
            GatewayProtocol::Uwsgi => "uwsgi",
        }
    }

    /// Whether some place is asked by `https`.
    pub fn speaks_tls(&self) -> bool {
        self.upstreams.iter().any(|upstream| upstream.address.is_secure)
    }

    /// An application at `upstreams`, with everything else as usual.
    pub fn new(protocol: GatewayProtocol, upstreams: Vec<UpstreamSettings>) -> GatewaySettings {
        GatewaySettings {
            name: None,
            protocol,
            upstreams,
            base_path: String::new(),
            host: None,
            connect_timeout_ms: CONNECT_TIMEOUT_MS,
            timeout_ms: TIMEOUT_MS,
            websocket_timeout_ms: None,
            body_bytes_max: None,
            buffer: protocol.has_variables().then(BufferSettings::of_unsized),
            balance: Balance::default(),
            retry: None,
            sticky: None,
            check: None,
            send_proxy: None,
            tls: UpstreamTls::default(),
            scripts: (protocol == GatewayProtocol::FastCgi).then(ScriptSettings::default),
            command: None,
            cgi: None,
            programs: Vec::new(),
        }
    }

    /// Whether connections are kept for further requests. SCGI and uwsgi have no further ones. A process of FastCGI
    /// serves one connection at a time: one that is kept, perhaps by another process of the server, would keep it from
    /// serving others. An application that the server starts is so near that a connection costs nothing. One that tells
    /// of its client by the PROXY protocol is that client's alone.
    pub fn keeps_connections(&self) -> bool {
        let has_further = matches!(self.protocol, GatewayProtocol::Http | GatewayProtocol::FastCgi);
        has_further && self.command.is_none() && self.send_proxy.is_none()
    }
}

impl UpstreamSettings {
    /// An application at `address`, with the same share as others.
    pub fn new(address: UpstreamAddress) -> UpstreamSettings {
        UpstreamSettings { address, weight: 1 }
    }
}

/// A connection within one data centre takes less than a millisecond: this is for lost packets (1 s, 2 s) and for
/// little else.
pub const CONNECT_TIMEOUT_MS: u32 = 5_000;
/// Forms without files are shorter, and it is what is received at once.
pub const BUFFER_BYTES: u64 = 64 * 1024;
/// For temporary files that may be large (file-hierarchy(7)): `/tmp` is in memory on many systems.
pub const BUFFER_DIRECTORY: &str = "/var/tmp";
/// The most bytes of a buffered request where `body_bytes_max` does not say: so that one client does not fill a disk.
pub const BUFFERED_BYTES_MAX: u64 = 1 << 30;
/// The same of content whose length the client does not say, where no route asks for that: anybody may send it.
pub const UNSIZED_BYTES_MAX: u64 = 16 << 20;
/// The time that other servers wait for an answer (nginx, Apache, HAProxy's examples).
pub const TIMEOUT_MS: u32 = 60_000;
