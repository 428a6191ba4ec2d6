//! The servers that are compared, and how each is configured.
//!
//! Owns: the list, the configurations and their reasons; `docs/internals/laboratory.md` shows them. Guarantees of
//! fairness: all serve the same directory, on the same processors, without an access log, with keep-alive and sendfile,
//! with limits that no scenario reaches; each is tuned as its own documentation advises. What differs is said in its
//! note.
//!
//! A new peer is an entry in [`PEERS`] and a function that writes its configuration.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::Invocation;

/// Prefix of the names of Lamna's engines: `lamna-amped` is `lamna serve --arch amped`.
pub const LAMNA: &str = "lamna-";

/// Lamna as it decides for itself: `lamna serve --arch auto`.
pub const LAMNA_AUTO: &str = "lamna";

/// The least that a server of one event loop can cost: see [`floor`](crate::floor).
pub const FLOOR: &str = "floor";

/// Suffix that runs Lamna with the smallest content cache it accepts, 1 MiB, which holds next to nothing of most sites.
const SMALL_CACHE: &str = "-small-cache";

/// Begins a suffix that runs Lamna with some of its three caches only, by their initials: `-caches-te` with
/// translations and entries, `-caches-off` with none.
const SOME_CACHES: &str = "-caches-";

/// Whether `name` is Lamna under one of its engines, or under the one that it chooses.
pub fn is_lamna(name: &str) -> bool {
    name == LAMNA_AUTO || name.starts_with(LAMNA)
}

/// How a peer is to be set up.
#[derive(Clone, Debug)]
pub struct Setup {
    /// On 127.0.0.1.
    pub port: u16,
    /// The directory to serve.
    pub site: PathBuf,
    /// For configurations and logs; its own for each server.
    pub directory: PathBuf,
    /// Event loops or processes, for those that have a number of them.
    pub workers: usize,
    /// Whether HTML is compressed when the client accepts it.
    pub compress: bool,
    /// Lamna's program.
    pub lamna: PathBuf,
    /// The laboratory's program, which is also the server `floor`.
    pub laboratory: PathBuf,
    /// Further arguments of Lamna.
    pub lamna_arguments: Vec<String>,
}

/// A server that people use.
#[derive(Clone, Copy)]
pub struct Peer {
    /// As in scenarios.
    pub name: &'static str,
    /// The program, looked for in the path and in the places for system programs.
    pub program: &'static str,
    /// Arguments that make it say its version.
    pub version: &'static [&'static str],
    /// How to install it on Debian.
    pub install: &'static str,
    /// A note on its configuration.
    pub note: &'static str,
    configure: fn(&str, &Setup) -> io::Result<Invocation>,
}

/// All peers.
pub static PEERS: &[Peer] = &[
    Peer {
        name: "nginx",
        program: "nginx",
        version: &["-v"],
        install: "apt-get install nginx-light",
        note: "tuned: one worker, cache of open files, sendfile with tcp_nopush, accepts several at once",
        configure: |program, setup| nginx(program, setup, NGINX_TUNED),
    },
    Peer {
        name: "nginx-stock",
        program: "nginx",
        version: &["-v"],
        install: "apt-get install nginx-light",
        note: "as Debian installs it, but for the access log, which is off for all, and one worker",
        configure: |program, setup| nginx(program, setup, NGINX_STOCK),
    },
    Peer {
        name: "nginx-threads",
        program: "nginx",
        version: &["-v"],
        install: "apt-get install nginx-light",
        note: "as nginx, and files are read by its pool of 32 threads (aio threads)",
        configure: |program, setup| nginx(program, setup, &format!("{NGINX_TUNED} aio threads;")),
    },
    Peer {
        name: "h2o",
        program: "h2o",
        version: &["-v"],
        install: "apt-get install h2o",
        note: "one thread; its cache of open files is always on",
        configure: h2o,
    },
    Peer {
        name: "lighttpd",
        program: "lighttpd",
        version: &["-v"],
        install: "apt-get install lighttpd",
        note: "one process; the stat cache is on by default",
        configure: lighttpd,
    },
    Peer {
        name: "apache",
        program: "apache2",
        version: &["-v"],
        install: "apt-get install apache2",
        note: "event MPM, 4 processes of 64 threads, sendfile on, no .htaccess",
        configure: |program, setup| apache(program, setup, "event", APACHE_EVENT),
    },
    Peer {
        name: "apache-prefork",
        program: "apache2",
        version: &["-v"],
        install: "apt-get install apache2",
        note: "prefork MPM, up to 256 processes, 32 at the start as in Flash",
        configure: |program, setup| apache(program, setup, "prefork", APACHE_PREFORK),
    },
    Peer {
        name: "caddy",
        program: "caddy",
        version: &["version"],
        install: "apt-get install caddy",
        note: "GOMAXPROCS as many as workers, no admin interface, no TLS",
        configure: caddy,
    },
];

const NGINX_TUNED: &str = "sendfile on; tcp_nopush on; tcp_nodelay on; keepalive_timeout 300; keepalive_requests 1000000000; \
                           open_file_cache max=100000 inactive=60s; open_file_cache_valid 60s;";

/// Debian's nginx.conf, and a keep-alive limit that does not end connections in the middle of a comparison.
const NGINX_STOCK: &str = "sendfile on; tcp_nopush on; types_hash_max_size 2048; keepalive_requests 1000000000;";

const APACHE_EVENT: &str = "StartServers 1\nServerLimit 4\nThreadsPerChild 64\nMaxRequestWorkers 256";

const APACHE_PREFORK: &str =
    "StartServers 32\nMinSpareServers 32\nMaxSpareServers 256\nServerLimit 256\nMaxRequestWorkers 256";

impl Peer {
    /// The peer called `name`.
    pub fn named(name: &str) -> Option<&'static Peer> {
        PEERS.iter().find(|peer| peer.name == name)
    }

    /// Where its program is, if it is installed.
    pub fn program_path(&self) -> Option<PathBuf> {
        find_program(self.program)
    }

    /// The first line of what it says about its version.
    pub fn version_line(&self) -> Option<String> {
        let output = Command::new(self.program_path()?).args(self.version).output().ok()?;
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        text.lines().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned)
    }
}

/// The invocation of the server `name`: one of [`PEERS`], `lamna`, `lamna-ENGINE`, `lamna-ENGINE-small-cache`,
/// `lamna-ENGINE-caches-WHICH`, or `floor`.
///
/// # Errors
/// In words, if there is none, it is not installed, or its configuration cannot be written.
pub fn configure(name: &str, setup: &Setup) -> Result<Invocation, String> {
    fs::create_dir_all(&setup.directory).map_err(|error| format!("{}: {error}", setup.directory.display()))?;
    if name == LAMNA_AUTO {
        return Ok(lamna("auto", setup));
    }
    if let Some(engine) = name.strip_prefix(LAMNA) {
        return Ok(lamna(engine, setup));
    }
    if name == FLOOR {
        return Ok(floor(setup));
    }
    let peer = Peer::named(name).ok_or_else(|| format!("there is no server called {name}"))?;
    let program = peer.program_path().ok_or_else(|| format!("not installed: {}", peer.install))?;
    (peer.configure)(&program.display().to_string(), setup).map_err(|error| format!("its configuration: {error}"))
}

/// The program of this name, looked for in PATH and in the places for system programs.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/usr/local/sbin", "/sbin"].map(PathBuf::from);
    let candidates = std::env::split_paths(&path).chain(system).map(|directory| directory.join(name));
    candidates.into_iter().find(|candidate| candidate.is_file())
}

fn lamna(engine: &str, setup: &Setup) -> Invocation {
    let (engine, is_small) = match engine.strip_suffix(SMALL_CACHE) {
        Some(engine) => (engine, true),
        None => (engine, false),
    };
    let (engine, caches) = match engine.split_once(SOME_CACHES) {
        Some((engine, initials)) => (engine, Some(caches_of(initials))),
        None => (engine, None),
    };
    let mut invocation =
        Invocation::new([setup.lamna.clone().into_os_string(), "serve".into(), setup.site.clone().into()]);
    let listen = format!("127.0.0.1:{}", setup.port);
    let workers = setup.workers.to_string();
    let words = ["--listen", &listen, "--arch", engine, "--workers", &workers, "--log", "off"];
    invocation.words.extend(words.map(Into::into));
    if is_small {
        invocation.words.extend(["--cache-bytes", "1MiB"].map(Into::into));
    }
    if let Some(caches) = caches {
        invocation.words.extend(["--caches".into(), caches.into()]);
    }
    invocation.words.extend(setup.lamna_arguments.iter().map(Into::into));
    invocation
}

/// It serves one file whatever is asked for: that of scenarios with one file.
fn floor(setup: &Setup) -> Invocation {
    let (file, port) = (setup.site.join("f.html"), setup.port.to_string());
    Invocation::new([setup.laboratory.as_os_str(), "floor".as_ref(), file.as_os_str(), port.as_ref()])
}

/// The value of `lamna serve --caches` for these initials. Unknown initials stay as they are, for it to complain.
fn caches_of(initials: &str) -> String {
    if initials == "off" {
        return initials.to_owned();
    }
    let name = |initial| match initial {
        't' => "translations".to_owned(),
        'e' => "entries".to_owned(),
        'c' => "content".to_owned(),
        other => other.to_string(),
    };
    initials.chars().map(name).collect::<Vec<_>>().join(",")
}

fn nginx(program: &str, setup: &Setup, http: &str) -> io::Result<Invocation> {
    let Setup { port, site, directory, workers, .. } = setup;
    let (site, own) = (site.display(), directory.display());
    let compress = if setup.compress { "gzip on; gzip_types text/html;" } else { "" };
    let text = format!(
        "daemon off; pid {own}/pid; error_log {own}/error crit; worker_processes {workers}; worker_rlimit_nofile 20000;\n\
         events {{ worker_connections 16384; multi_accept on; }}\n\
         http {{ access_log off; types {{ text/html html; }} {http} {compress}\n\
         client_body_temp_path {own}/body; proxy_temp_path {own}/proxy; fastcgi_temp_path {own}/fastcgi;\n\
         uwsgi_temp_path {own}/uwsgi; scgi_temp_path {own}/scgi;\n\
         server {{ listen 127.0.0.1:{port} backlog=4096; root {site}; }} }}\n"
    );
    let file = write(directory, "nginx.conf", &text)?;
    Ok(Invocation::new([program.into(), "-c".into(), file]))
}

fn h2o(program: &str, setup: &Setup) -> io::Result<Invocation> {
    let Setup { port, site, workers, .. } = setup;
    // Started by root, it would give up root, and wants to know for whom.
    let user = if rustix::process::geteuid().is_root() { "user: root\n" } else { "" };
    let compress = if setup.compress { "compress: [ gzip ]\n" } else { "" };
    let text = format!(
        "num-threads: {workers}\n{user}{compress}max-connections: 16384\nhttp1-request-timeout: 300\nhosts:\n  default:\n    \
         listen: {{ host: 127.0.0.1, port: {port} }}\n    paths: {{ /: {{ file.dir: {} }} }}\n",
        site.display()
    );
    let file = write(&setup.directory, "h2o.conf", &text)?;
    Ok(Invocation::new([program.into(), "-c".into(), file]))
}

fn lighttpd(program: &str, setup: &Setup) -> io::Result<Invocation> {
    // With workers it shares no caches among them and its documentation advises against it: one process is its best.
    let text = format!(
        "server.document-root = \"{}\"\nserver.port = {}\nserver.bind = \"127.0.0.1\"\nserver.max-connections = 8192\n\
         server.max-fds = 20000\nserver.max-keep-alive-requests = 65535\nserver.max-keep-alive-idle = 300\n\
         server.listen-backlog = 4096\nmimetype.assign = ( \".html\" => \"text/html\" )\n",
        setup.site.display(),
        setup.port
    );
    let file = write(&setup.directory, "lighttpd.conf", &text)?;
    Ok(Invocation::new([program.into(), "-D".into(), "-f".into(), file]))
}

fn apache(program: &str, setup: &Setup, mpm: &str, sizes: &str) -> io::Result<Invocation> {
    let Setup { port, site, directory, .. } = setup;
    let (site, own) = (site.display(), directory.display());
    let modules = "/usr/lib/apache2/modules";
    let user = if rustix::process::geteuid().is_root() { "User www-data\nGroup www-data\n" } else { "" };
    let deflate = match setup.compress {
        true => format!(
            "LoadModule filter_module {modules}/mod_filter.so\nLoadModule deflate_module {modules}/mod_deflate.so\n\
             AddOutputFilterByType DEFLATE text/html\n"
        ),
        false => String::new(),
    };
    let text = format!(
        "ServerRoot {own}\nPidFile {own}/pid\nDefaultRuntimeDir {own}\nListen 127.0.0.1:{port}\nListenBacklog 4096\n\
         LoadModule mpm_{mpm}_module {modules}/mod_mpm_{mpm}.so\n\
         LoadModule authz_core_module {modules}/mod_authz_core.so\nLoadModule mime_module {modules}/mod_mime.so\n\
         LoadModule dir_module {modules}/mod_dir.so\n{deflate}TypesConfig /etc/mime.types\nServerName localhost\n{user}\
         DocumentRoot {site}\nErrorLog {own}/error\nKeepAlive On\nMaxKeepAliveRequests 0\nKeepAliveTimeout 300\n\
         EnableSendfile On\n{sizes}\n<Directory {site}>\nAllowOverride None\nRequire all granted\n</Directory>\n"
    );
    let file = write(directory, "apache.conf", &text)?;
    Ok(Invocation::new([program.into(), "-DFOREGROUND".into(), "-f".into(), file]))
}

fn caddy(program: &str, setup: &Setup) -> io::Result<Invocation> {
    let compress = if setup.compress { "encode gzip" } else { "" };
    let text = format!(
        "{{\n auto_https off\n admin off\n log {{\n  output discard\n }}\n}}\nhttp://:{} {{\n bind 127.0.0.1\n root * {}\n {compress}\n \
         file_server\n}}\n",
        setup.port,
        setup.site.display()
    );
    let file = write(&setup.directory, "Caddyfile", &text)?;
    let words = [program.into(), "run".into(), "--adapter".into(), "caddyfile".into(), "--config".into(), file];
    let home = setup.directory.display().to_string();
    let environment = vec![("GOMAXPROCS".to_owned(), setup.workers.to_string()), ("HOME".to_owned(), home)];
    Ok(Invocation { environment, ..Invocation::new(words) })
}

fn write(directory: &Path, name: &str, text: &str) -> io::Result<std::ffi::OsString> {
    let file = directory.join(name);
    fs::write(&file, text)?;
    Ok(file.into_os_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setup(directory: &Path) -> Setup {
        Setup {
            port: 18999,
            site: "/srv/site".into(),
            directory: directory.into(),
            workers: 1,
            compress: false,
            lamna: "/bin/lamna".into(),
            laboratory: "/bin/lamna-lab".into(),
            lamna_arguments: vec!["--threads".into(), "4".into()],
        }
    }

    #[test]
    fn engines_of_lamna_are_names() {
        let directory = tempfile::tempdir().expect("a temporary directory can be made");
        let words = configure("lamna-sped-small-cache", &setup(directory.path()))
            .expect("any engine has a command")
            .to_string();
        let expected = "/bin/lamna serve /srv/site --listen 127.0.0.1:18999 --arch sped --workers 1 --log off \
                        --cache-bytes 1MiB --threads 4";
        assert_eq!(words, expected);
    }

    #[test]
    fn caches_of_lamna_are_initials() {
        let directory = tempfile::tempdir().expect("a temporary directory can be made");
        let words = |name| configure(name, &setup(directory.path())).expect("any engine has a command").to_string();
        assert!(words("lamna-amped-caches-tc").contains("--arch amped "));
        assert!(words("lamna-amped-caches-tc").contains(" --caches translations,content"));
        assert!(words("lamna-co-amped-caches-off").contains(" --caches off"));
    }

    #[test]
    fn unknown_servers_are_named() {
        let directory = tempfile::tempdir().expect("a temporary directory can be made");
        let said = configure("iis", &setup(directory.path())).expect_err("no such server");
        assert_eq!(said, "there is no server called iis");
    }

    #[test]
    fn every_installed_peer_can_be_configured_for_all_that_scenarios_ask() {
        let directory = tempfile::tempdir().expect("a temporary directory can be made");
        for peer in PEERS.iter().filter(|peer| peer.program_path().is_some()) {
            for compress in [false, true] {
                let setup = Setup { compress, ..setup(&directory.path().join(peer.name)) };
                let invocation = configure(peer.name, &setup).expect("it is installed");
                assert!(invocation.words.len() > 1, "{}", peer.name);
            }
        }
    }
}
