//! Confinement of a server's threads: each keeps access to the files and ports that the settings name, and to nothing
//! else.
//!
//! ```text
//!   main thread: orders, reloads, upgrades      free: it reads the configuration, and starts the program again
//!   └─ workers, helpers, log, arrivals ...      workers: roots, logs, files of sockets; ports of applications
//!   └─ resolver, ACME                           agents: what names are looked up by, certificates of authorities; the state directory
//! ```
//!
//! Owns: [`Confinement`], and the lists of files that a server needs ([`workers`], [`agents`]). Guarantees: a thread
//! that serves can neither read private keys nor the configuration, nor start a program. Threads share memory, so this
//! keeps code from being led astray; an attacker who can write all memory of a worker can write that of the main
//! thread. The access that a thread is left with cannot be widened. Other settings, or a root that has been replaced by
//! another directory, take other threads (`process::running_engine`) or processes. Does not start threads.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use lamna_config::access_log::AccessLogs;
use lamna_config::gateway::GatewaySettings;
use lamna_config::hints;
use lamna_config::settings::{Settings, SiteSettings};
use lamna_config::upstream_address::Place;
use lamna_sys::sandbox::{Kind, Reach, Sandbox, Use};
use lamna_tls::automatic::StateFiles;

/// The sandboxes that the threads of an engine enter.
#[derive(Debug)]
pub struct Confinement {
    /// For all that serves.
    pub workers: Sandbox,
    /// For what asks other servers: whose names belong to which addresses, and for certificates.
    pub agents: Sandbox,
    is_wanted: bool,
}

impl Confinement {
    /// The confinement for `settings`.
    ///
    /// # Errors
    /// No memory, descriptors or threads.
    pub fn of(settings: &Settings) -> io::Result<Confinement> {
        if !settings.sandbox {
            return Ok(Confinement::none());
        }
        Ok(Confinement {
            workers: Sandbox::new(&workers(settings), &settings.without)?,
            agents: Sandbox::new(&agents(settings), &settings.without)?,
            is_wanted: true,
        })
    }

    /// None at all.
    pub fn none() -> Confinement {
        Confinement { workers: Sandbox::open(), agents: Sandbox::open(), is_wanted: false }
    }

    /// Whether what can be reached is still what is named.
    pub fn is_current(&self) -> bool {
        self.workers.is_current() && self.agents.is_current()
    }

    /// The kind of confinement that is in force; none if none was wanted.
    pub fn kind(&self) -> Option<Kind> {
        self.is_wanted.then(|| self.workers.kind())
    }
}

/// In words, what confines the threads that serve.
pub fn describe(kind: Option<Kind>) -> String {
    kind.map_or_else(|| "off (sandbox = false)".to_owned(), |kind| kind.to_string())
}

/// The reach that the threads that serve need.
fn workers(settings: &Settings) -> Reach {
    let mut paths = Vec::new();
    for site in &settings.sites {
        let use_of = if may_change(site) { Use::Change } else { Use::Read };
        let own = site.has_root().then_some(&site.root);
        for root in site.aliases.iter().map(|alias| &alias.root).chain(own) {
            paths.push((root.clone(), use_of));
            paths.extend(switched(root).map(|folder| (folder, use_of)));
        }
        if let Some(name) = &site.user_directory {
            paths.extend(of_users(name).into_iter().map(|path| (path, Use::Read)));
        }
    }
    let logs = AccessLogs::files(settings).into_iter().chain(settings.error_log.file.clone());
    paths.extend(logs.map(|log| (folder_of(&log).unwrap_or(&log).to_owned(), Use::Log)));
    // The file of a socket goes with whoever is the last to hold it.
    let sockets = settings.listen.iter().filter_map(|one| one.at.socket());
    paths.extend(sockets.filter_map(folder_of).map(|folder| (folder.to_owned(), Use::Remove)));
    if !settings.automatic_names().is_empty()
        && let Ok(files) = StateFiles::of(settings)
    {
        // Challenges are answered by whoever is asked. Beside them are keys.
        paths.push((files.challenges(), Use::Read));
    }
    // Files there have no names, or lose them at once.
    let buffers = gateways(settings).filter_map(|gateway| gateway.buffer.as_ref());
    paths.extend(buffers.map(|buffer| (buffer.directory.to_path_buf(), Use::Change)));
    Reach { paths, ports: Some(ports(settings)) }
}

/// The reach that looking up names and ordering certificates need. They may connect to any port, because the servers
/// that they ask are configured or discovered.
fn agents(settings: &Settings) -> Reach {
    let read = ["/etc", "/run", "/usr", "/lib", "/lib64", "/var/lib/ca-certificates", "/nix/store"];
    let mut paths: Vec<(PathBuf, Use)> = read.map(|path| (path.into(), Use::Read)).to_vec();
    let named = ["SSL_CERT_FILE", "SSL_CERT_DIR"].into_iter().filter_map(std::env::var_os).map(PathBuf::from);
    let of_gateways = gateways(settings).filter_map(|gateway| gateway.tls.ca.clone());
    paths.extend(named.chain(settings.acme.roots.clone()).chain(of_gateways).map(|path| (path, Use::Read)));
    if !settings.automatic_names().is_empty()
        && let Ok(files) = StateFiles::of(settings)
    {
        paths.push((files.directory().to_owned(), Use::Change));
    }
    if hints::are_wanted(settings)
        && let Some(folder) = hints::state_file(settings).as_deref().and_then(folder_of)
    {
        paths.push((folder.to_owned(), Use::Change));
    }
    let logs = settings.error_log.file.iter();
    paths.extend(logs.map(|log| (folder_of(log).unwrap_or(log).to_owned(), Use::Log)));
    Reach { paths, ports: None }
}

fn may_change(site: &SiteSettings) -> bool {
    let changes = site.changes();
    let of_routes = site.routes.iter().flat_map(|route| [route.upload, route.delete, route.mkdir]);
    changes.upload || changes.delete || changes.mkdir || of_routes.flatten().any(|may| may)
}

/// The directory in which what a link at `root` leads to has its siblings, one of which the link may lead to tomorrow.
fn switched(root: &Path) -> Option<PathBuf> {
    let real = root.canonicalize().ok()?;
    (real != root).then(|| folder_of(&real).map(Path::to_owned)).flatten()
}

/// The directory of a file; none for what stands directly beneath `/`, whose directory has everything.
fn folder_of(path: &Path) -> Option<&Path> {
    path.parent().filter(|folder| folder.parent().is_some())
}

/// The files for finding users, and the users' directories.
fn of_users(name: &str) -> Vec<PathBuf> {
    let database = ["/etc/passwd", "/etc/nsswitch.conf", "/var/lib/sss", "/usr/lib", "/usr/lib64", "/lib", "/lib64"];
    let text = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let homes = text.lines().filter_map(|line| line.split(':').nth(5)).map(PathBuf::from);
    let mut folders: BTreeSet<PathBuf> = BTreeSet::from(["/home".into()]);
    for home in homes.filter(|home| home.join(name).is_dir()) {
        // Beside it are those of users who come later.
        folders.insert(folder_of(&home).map_or_else(|| home.clone(), Path::to_owned));
    }
    database.into_iter().map(PathBuf::from).chain(folders).collect()
}

fn gateways(settings: &Settings) -> impl Iterator<Item = &GatewaySettings> {
    settings.sites.iter().flat_map(SiteSettings::gateways)
}

/// The ports of applications.
fn ports(settings: &Settings) -> Vec<u16> {
    let mut ports = BTreeSet::new();
    for gateway in gateways(settings) {
        for upstream in &gateway.upstreams {
            match &upstream.address.place {
                Place::Fixed { addresses, .. } => ports.extend(addresses.iter().map(|address| address.port())),
                Place::Named { port, .. } => _ = ports.insert(*port),
                Place::Unix(_) => {}
            }
        }
    }
    ports.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use lamna_config::settings::LogTarget;

    #[test]
    fn a_root_is_read_and_changed_only_where_clients_may() {
        let directory = tempfile::tempdir().unwrap();
        let mut settings =
            Settings { sites: vec![SiteSettings::new(directory.path().to_owned())], ..Settings::default() };
        assert!(workers(&settings).paths.contains(&(directory.path().to_owned(), Use::Read)));
        settings.sites[0].upload = true;
        assert!(workers(&settings).paths.contains(&(directory.path().to_owned(), Use::Change)));
    }

    #[test]
    fn beside_a_root_that_is_a_link_its_other_targets_are_reached() {
        let directory = tempfile::tempdir().unwrap();
        let real = directory.path().canonicalize().unwrap();
        std::fs::create_dir_all(real.join("releases/1")).unwrap();
        std::os::unix::fs::symlink("releases/1", real.join("current")).unwrap();
        assert_eq!(switched(&real.join("current")), Some(real.join("releases")));
        assert_eq!(switched(&real.join("releases/1")), None);
    }

    #[test]
    fn nothing_opens_what_stands_at_the_top() {
        assert_eq!(folder_of(Path::new("/access.log")), None);
        assert_eq!(folder_of(Path::new("/var/access.log")), Some(Path::new("/var")));
        let settings = Settings { log: LogTarget::File("/access.log".into()), ..Settings::default() };
        assert!(workers(&settings).paths.contains(&("/access.log".into(), Use::Log)));
    }
}
