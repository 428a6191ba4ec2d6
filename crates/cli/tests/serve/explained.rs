//! That `lamna explain` says what the server does: generated requests, put to a running server and to the explanation
//! of its configuration.
//!
//! Owns: the configurations, the requests, and the comparison: status, fields, the file or the application. Each file
//! says its own name, and so do applications, so what has answered is seen in the answer. `LAMNA_SEED=7` asks other
//! requests.

mod handshakes;

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use lamna_server::config;
use lamna_server::content::explain::{Answer, Asked, Explanation};
use lamna_server::worker::explain::{Explainer, Parts};

use crate::access::{ADA, SESAME};
use crate::client::Response;
use crate::control::{ctl, runtime};
use crate::engine::{AMPED, Engine, for_engines};
use crate::server::{Launch, Server};

for_engines!(all explanations_have_every_engine: [
    amped = AMPED,
    sped = SPED,
    co_amped = CO_AMPED,
    proactor = PROACTOR,
    thread_pool = THREAD_POOL,
    thread_per_request = THREAD_PER_REQUEST,
    thread_per_session = THREAD_PER_SESSION,
    pipelined = PIPELINED,
    mp = MP,
] => [generated_requests_are_answered_as_explained]);

/// Requests for each configuration, and for those with users: more than a thousand together.
const REQUESTS: usize = 120;
const REQUESTS_OF_USERS: usize = 300;

/// Its clients: the last one is of the network that rules let in.
const CLIENTS: [u8; 3] = [1, 7, 9];
const LET_IN: u8 = 9;

/// An application that answers each request with its name, and lets in those with credentials if it is asked about
/// that.
struct Application {
    address: SocketAddr,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Application {
    fn start(name: &'static str) -> Application {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has ports");
        let address = listener.local_addr().expect("it is bound");
        let ends = Arc::new(AtomicBool::new(false));
        let over = ends.clone();
        let thread = thread::spawn(move || {
            for stream in listener.incoming() {
                if over.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(mut stream) = stream else { continue };
                thread::spawn(move || answer(&mut stream, name));
            }
        });
        Application { address, ends, thread: Some(thread) }
    }
}

impl Drop for Application {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::SeqCst);
        let _ = std::net::TcpStream::connect(self.address);
        self.thread.take().into_iter().for_each(|thread| thread.join().expect("it only listens"));
    }
}

/// Answers one request: by 403 if it is a question about a client without credentials.
fn answer(stream: &mut std::net::TcpStream, name: &str) {
    let (mut head, mut space) = (Vec::new(), [0; 4096]);
    while !head.windows(4).any(|four| four == b"\r\n\r\n") {
        match stream.read(&mut space) {
            Ok(bytes) if bytes > 0 => head.extend_from_slice(&space[..bytes]),
            _ => return,
        }
    }
    let head = String::from_utf8_lossy(&head).to_ascii_lowercase();
    let is_refused = head.starts_with("get /verify") && !head.contains("\r\nauthorization:");
    let status = if is_refused { "403 Forbidden" } else { "200 OK" };
    let content = format!("application {name}");
    let length = content.len();
    // The server may have left.
    let _ = write!(stream, "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{content}");
}

/// Numbers that look random and are the same in every run (SplitMix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    }

    fn one<'a, T: ?Sized>(&mut self, of: &[&'a T]) -> &'a T {
        of[self.below(of.len())]
    }

    fn happens(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// A target: mostly one that something is about, spelled in some way.
    fn target(&mut self) -> String {
        let mut path = match self.happens(70) {
            true => self.one(&PATHS).to_owned(),
            false => (0..1 + self.below(3)).map(|_| format!("/{}", self.one(&NAMES))).collect(),
        };
        for _ in 0..self.below(3) {
            path = self.spelled_otherwise(&path);
        }
        match self.below(9) {
            3 => format!("{path}?download=tar"),
            0 => format!("{path}?sort=size"),
            1 => format!("{path}?a=b&to=/c"),
            2 => format!("{path}?q=page"),
            _ => path,
        }
    }

    fn spelled_otherwise(&mut self, path: &str) -> String {
        let slashes: Vec<usize> = path.match_indices('/').map(|(at, _)| at).collect();
        let slash = slashes[self.below(slashes.len())];
        let (before, after) = path.split_at(slash);
        match self.below(10) {
            0 => format!("{before}/{after}"),
            1 => format!("{before}/.{after}"),
            2 => format!("{before}/gone/..{after}"),
            3 => format!("{path}/"),
            4 => format!("{path}/y"),
            5 => path.strip_suffix('/').filter(|path| !path.is_empty()).unwrap_or(path).to_owned(),
            6 => format!("{path}.html"),
            7 => format!("/..{path}"),
            8 => format!("{path}%2"),
            _ => {
                let places: Vec<usize> =
                    path.bytes().enumerate().filter(|(_, byte)| *byte != b'%').map(|(at, _)| at).collect();
                let at = places[self.below(places.len())];
                // The first slash is what a target begins with.
                if at == 0 {
                    path.to_owned()
                } else {
                    format!("{}%{:02x}{}", &path[..at], path.as_bytes()[at], &path[at + 1..])
                }
            }
        }
    }
}

const NAMES: [&str; 16] = [
    "docs",
    "private",
    "net",
    "api",
    "pub",
    "img",
    "a.txt",
    "index.html",
    "x.cgi",
    "page",
    "none",
    ".git",
    "old",
    "empty",
    "more",
    "b.css",
];

const PATHS: [&str; 34] = [
    "/",
    "/a.txt",
    "/docs/",
    "/docs",
    "/docs/a.txt",
    "/docs/install",
    "/docs/instal.html",
    "/empty/",
    "/empty",
    "/private/b.txt",
    "/private/",
    "/private/x.cgi",
    "/private/x.cgi/y",
    "/net/c.txt",
    "/net/",
    "/both/d.txt",
    "/asked/e.txt",
    "/asked/x.cgi",
    "/api/list",
    "/api/private/x",
    "/pub/x.cgi",
    "/img/x.cgi/y",
    "/x.cgi",
    "/x.cgi/y",
    "/old/thing",
    "/moved/x/y",
    "/way/b.txt",
    "/link.txt",
    "/out/passwd",
    "/more/b.txt",
    "/users.txt",
    "/.well-known/w.txt",
    "/.hidden",
    "/gz.css",
];

/// As clients send them: with a port, if it is not that of the scheme.
const HOSTS: [Option<&str>; 8] = [
    Some("a.test"),
    Some("www.b.test"),
    Some("A.Test."),
    Some("unknown.test"),
    Some("c.test:80"),
    Some("a.test:8080"),
    Some("a.test:65536"),
    None,
];

const FILES: [&str; 19] = [
    "index.html",
    "a.txt",
    "docs/index.html",
    "docs/a.txt",
    "docs/install.html",
    "private/b.txt",
    "private/index.html",
    "net/c.txt",
    "net/index.html",
    "both/d.txt",
    "asked/e.txt",
    "page.html",
    "more/b.txt",
    ".well-known/w.txt",
    ".hidden",
    "users.txt",
    "gz.css",
    "deep/er/f.txt",
    "api/list",
];

const SCRIPTS: [&str; 6] = ["x.cgi", "private/x.cgi", "pub/x.cgi", "img/x.cgi", "asked/x.cgi", "both/index.cgi"];
const SCRIPT: &str = "#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\nscript %s' \"$SCRIPT_FILENAME\"\n";

/// The keys of the site, and its routes. `{api}` and `{service}` are the applications.
const CONFIGURATIONS: [(&str, &str); 8] = [
    ("", ""),
    ("browse = true\nspa = true\nupload = true", "[[site.route]]\nmatch = \"/docs/*\"\nsearch = true\n"),
    (
        "redirect = [{ from = \"/old/*\", to = \"/new/*\", status = 308 }, { from = \"/a.txt\", to = \"/docs/?x\" }]\n\
         alias = [{ prefix = \"/more/\", root = \"site/docs\" }]\nerror_pages = { \"404\" = \"/page.html\", \"403\" = \"/a.txt\" }",
        "[[site.route]]\nmatch = \"/moved/*\"\nredirect = \"/docs/$1\"\n\
         [[site.route]]\nmatch = \"/way/*\"\nrewrite = \"/more/$1\"\n\
         [[site.route]]\nmatch = \"/docs/*\"\ntry = [\"$path\", \"$path.html\", \"$path/index.html\", \"/page.html\"]\n\
         [[site.route]]\nmatch = { path = \"/net/*\", query = { a = \"b\" } }\nredirect = \"/led\"\n\
         [[site.route]]\nmatch = { path = \"/docs*\", header = { Host = \"a.test:8080\" } }\nredirect = \"/by-port\"\n\
         [[site.route]]\nmatch = { path = \"/none*\", client = [\"127.0.0.7\"] }\nrewrite = \"/a.txt\"\n",
    ),
    (
        "users_file = \"site/users.txt\"\nusers = { ada = \"{ada}\" }\nbrowse = true\nerror_pages = { \"401\" = \"/page.html\" }",
        "[[site.route]]\nmatch = \"/private/*\"\naccess = { users = [\"ada\"] }\n\
         [[site.route]]\nmatch = \"/net/*\"\naccess = { allow = [\"127.0.0.9\"] }\n\
         [[site.route]]\nmatch = \"/both/*\"\naccess = { users = [\"ada\"], allow = [\"127.0.0.0/28\"], deny = [\"127.0.0.1\"] }\n\
         [[site.route]]\nmatch = \"/asked/*\"\naccess = { service = { to = \"http://{service}\", path = \"/verify\" } }\n\
         [[site.route]]\nmatch = \"/way/*\"\nrewrite = \"/private/$1\"\n\
         [[site.route]]\nmatch = \"/moved/*\"\ntry = [\"/net/c.txt\"]\n",
    ),
    (
        "users = { ada = \"{ada}\" }",
        "[[site.route]]\nmatch = \"/*\"\ncgi = { extensions = [\"cgi\"], index = [\"index.cgi\"] }\n\
         [[site.route]]\nmatch = \"/pub/*.cgi\"\ncgi = false\n\
         [[site.route]]\nmatch = \"/img/*.cgi\"\nredirect = \"/gone\"\n\
         [[site.route]]\nmatch = \"/private/*\"\naccess = { users = [\"ada\"] }\n\
         [[site.route]]\nmatch = \"/asked/*\"\naccess = { allow = [\"127.0.0.9\"] }\n\
         [[site.route]]\nmatch = \"/way/*\"\nrewrite = \"/private/x.cgi/$1\"\n\
         [[site.route]]\nmatch = \"/moved/*\"\ntry = [\"$path\", \"/x.cgi\"]\n",
    ),
    (
        "users = { ada = \"{ada}\" }\nspa = true",
        "[[site.route]]\nmatch = \"/api/*\"\nproxy = \"http://{api}\"\n\
         [[site.route]]\nmatch = \"/api/private/*\"\naccess = { users = [\"ada\"] }\n\
         [[site.route]]\nmatch = \"/api/list\"\nproxy = false\n\
         [[site.route]]\nmatch = \"/asked/*\"\nproxy = \"http://{api}\"\naccess = { service = { to = \"http://{service}\", path = \"/verify\" } }\n\
         [[site.route]]\nmatch = { path = \"/docs/*\", query = { q = \"page\" } }\nproxy = \"http://{service}\"\n",
    ),
    (
        "users = { ada = \"{ada}\" }\nerror_pages = { \"410\" = \"/page.html\" }",
        "[[site.route]]\nmatch = \"/*\"\ntry = [\"$path\", \"$path.html\", \"/more$path\"]\nproxy = \"http://{api}\"\n\
         [[site.route]]\nmatch = \"/private/*\"\naccess = { users = [\"ada\"] }\n\
         [[site.route]]\nmatch = \"/asked/*\"\naccess = { service = { to = \"http://{service}\", path = \"/verify\" } }\n\
         [[site.route]]\nmatch = \"/api/*\"\nproxy = \"http://{api}\"\nstrip_prefix = \"/api\"\n\
         [[site.route]]\nmatch = \"/docs/*\"\nindex = []\n\
         [[site.route]]\nmatch = \"/pub/*\"\nproxy = false\ntry = []\n\
         [[site.route]]\nmatch = \"/old/*\"\nrespond = { status = 200, text = \"fixed\" }\n\
         [[site.route]]\nmatch = \"/moved/*\"\nrespond = 410\n",
    ),
    ("headers = { X-Site = \"a\" }\nrule_files = true\nindex = [\"install.html\"]", ""),
];

/// The files of the site, each with its name as its content.
fn planted(engine: Engine) -> Launch {
    let launch = FILES.iter().fold(Launch::new(engine), |launch, name| launch.file(name, format!("file {name}\n")));
    let launch = SCRIPTS.iter().fold(launch, |launch, name| launch.file(name, SCRIPT));
    for name in SCRIPTS {
        fs::set_permissions(launch.site().join(name), fs::Permissions::from_mode(0o755)).expect("they are ours");
    }
    fs::write(launch.site().join("_redirects"), "/old/* /new/:splat 301\n/moved/* /docs/:splat 200\n").expect("a file");
    fs::write(launch.site().join("_headers"), "/docs/*\n  X-Docs: yes\n").expect("a file can be written");
    fs::create_dir(launch.site().join("empty")).expect("it is new");
    fs::write(launch.site().join("users.txt"), format!("bob:{SESAME}\n")).expect("a file can be written");
    symlink("docs/a.txt", launch.site().join("link.txt")).expect("links can be made");
    symlink("/etc", launch.site().join("out")).expect("links can be made");
    launch
}

/// One configuration: its server, and the explainer of its file.
struct World<'a> {
    server: &'a Server,
    explainer: Explainer,
    seed: u64,
}

fn generated_requests_are_answered_as_explained(engine: Engine) {
    let (api, service) = (Application::start("api"), Application::start("service"));
    let seed = std::env::var("LAMNA_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let (mut asked, mut let_in, mut applications) = (0, 0, 0);
    let mut faults = Vec::new();
    for (number, (site, routes)) in CONFIGURATIONS.iter().enumerate() {
        let text = format!(
            "limit_exempt = []\nrequest_limit = \"off\"\n[[site]]\nroot = \"site\"\nhosts = [\"a.test\", \"*.b.test\"]\n{site}\n\
             [[site.limit]]\npath = \"/docs/\"\nrequests = \"60000/s\"\n{routes}\
             [[site]]\nroot = \"site/docs\"\nhosts = [\"c.test\"]\nbrowse = true\n"
        );
        let named =
            [("{ada}", SESAME), ("{api}", &api.address.to_string()), ("{service}", &service.address.to_string())];
        let text = named.iter().fold(text, |text, (name, value)| text.replace(name, value));
        let launch = planted(engine).config(&text);
        let file = launch.directory().join("lamna.toml");
        let server = launch.start();
        let settings = config::parse(&text, &file).unwrap_or_else(|error| panic!("{number}: {error}"));
        let explainer = Explainer::new(&settings, Parts::default()).expect("it serves");
        let world = World { server: &server, explainer, seed: seed + number as u64 };
        let mut dice = Dice(world.seed);
        let requests = if site.contains("users = ") { REQUESTS_OF_USERS } else { REQUESTS };
        for _ in 0..requests {
            let explained = world.ask(&mut dice, &mut faults);
            asked += 1;
            let_in += usize::from(explained.let_in.is_some());
            applications += usize::from(explained.answer.application.is_some());
        }
        server.finish();
    }
    assert!(faults.is_empty(), "{} of {asked}:\n{}", faults.len(), faults[..faults.len().min(20)].join("\n\n"));
    assert!(asked > 1000 && let_in > 50 && applications > 30, "{asked} {let_in} {applications}");
}

impl World<'_> {
    /// Asks for something, and compares: differences are added to `faults`.
    fn ask(&self, dice: &mut Dice, faults: &mut Vec<String>) -> Explanation {
        let (host, target) = (HOSTS[dice.below(HOSTS.len())], dice.target());
        let client = CLIENTS[dice.below(CLIENTS.len())];
        let address = Some(Ipv4Addr::new(127, 0, 0, client).into());
        let asked = Asked { host: host.map(str::to_owned), target, client: address, ..Asked::default() };
        let explained = self.explainer.explain(&asked).unwrap_or_else(|why| panic!("{asked:?}: {why}"));
        let site = match host {
            Some("c.test:80") => "c.test",
            _ => "a.test",
        };
        assert_eq!(explained.site, site, "{asked:?}: {explained}");
        let mut hold = |answer: &Answer, who: &str, response: Response| {
            let seen =
                format!("{} {:?}\n{}", response.status, response.fields, String::from_utf8_lossy(&response.content));
            let fault = self.difference(answer, &response);
            faults.extend(
                fault.map(|what| format!("seed {}, {asked:?}, {who}: {what}\n{explained}\nbut: {seen}", self.seed)),
            );
        };
        hold(&explained.answer, "anybody", self.response(&asked, client, ""));
        if let Some(let_in) = &explained.let_in {
            hold(let_in, "let in", self.response(&asked, LET_IN, ADA));
        }
        explained
    }

    fn response(&self, asked: &Asked, client: u8, fields: &str) -> Response {
        let mut connection = self.server.connect_from(client);
        let line = match &asked.host {
            Some(host) => format!("GET {} HTTP/1.1\r\nHost: {host}\r\n", asked.target),
            None => format!("GET {} HTTP/1.0\r\n", asked.target),
        };
        connection.send(format!("{line}{fields}\r\n").as_bytes());
        let response = match asked.host {
            Some(_) => connection.receive(true),
            // The end of the connection is that of the answer.
            None => connection.receive_head().map(|head| Response { content: connection.receive_rest(), ..head }),
        };
        response.unwrap_or_else(|fault| panic!("{asked:?}: {fault}"))
    }

    /// The difference between `response` and what `answer` says, if there is one.
    fn difference(&self, answer: &Answer, response: &Response) -> Option<&'static str> {
        let content = String::from_utf8_lossy(&response.content);
        let (by, name) = content.split_once(' ').unwrap_or_default();
        if let Some(application) = &answer.application {
            let is_named = match by {
                "script" => application.ends_with(&format!(", for {name}")),
                "application" => application.contains(&self.address_of(name)),
                _ => false,
            };
            return (!is_named).then_some("another application");
        }
        let is_of_application = ["script", "application"].contains(&by);
        let sent = answer.file.as_ref().filter(|_| response.status == 200).and_then(|file| fs::read(file).ok());
        let is_sent = match sent {
            Some(sent) => response.content == sent,
            None => response.status != 200 || by != "file",
        };
        match () {
            () if answer.status != Some(response.status) => Some("another status"),
            () if fields_of(&answer.fields) != fields_of(&lines_of(response)) => Some("other fields"),
            () if is_of_application || !is_sent => Some("another file"),
            () => None,
        }
    }

    fn address_of(&self, name: &str) -> String {
        let config = fs::read_to_string(self.server.directory().join("lamna.toml")).expect("it is there");
        let key = if name == "api" { "proxy = \"http://" } else { "to = \"http://" };
        config.split(key).nth(1).and_then(|rest| rest.split('"').next()).unwrap_or("no address").to_owned()
    }
}

fn lines_of(response: &Response) -> Vec<String> {
    response.fields.iter().map(|(name, value)| format!("{name}: {value}")).collect()
}

/// Those of the answer: validators come when a file has been at rest for a while.
fn fields_of(lines: &[String]) -> Vec<String> {
    const OTHERS: [&str; 4] = ["Date: ", "Connection: ", "ETag: ", "Last-Modified: "];
    let mut fields: Vec<String> =
        lines.iter().filter(|line| !OTHERS.iter().any(|other| line.starts_with(other))).cloned().collect();
    fields.sort();
    fields
}

/// A server that runs explains by the same steps.
#[test]
fn a_running_server_says_the_same_as_its_configuration() {
    let launch = planted(AMPED).config(
        "[[site]]\nroot = \"site\"\n[[site.route]]\nmatch = \"/net/*\"\naccess = { allow = [\"127.0.0.9\"] }\n",
    );
    let server = launch.start();
    let runtime = runtime(&server);
    let explained = |arguments: &[&str]| ctl(&runtime, &[&["explain"], arguments].concat()).output;
    let refused = explained(&["/net/c.txt"]);
    assert!(
        refused.contains("step     access: answers 403 Forbidden") && refused.contains("let in   200 OK"),
        "{refused}"
    );
    let let_in = explained(&["/net/c.txt", "--from", "127.0.0.9"]);
    assert!(let_in.contains("answer   200 OK") && !let_in.contains("let in"), "{let_in}");
}
