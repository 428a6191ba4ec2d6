//! From a file and a command line to settings.
//!
//! Owns: reading the file, what overrides what, and the site that a bare directory makes. Every path in the settings
//! is absolute, so that they mean the same wherever they are rendered to or the process goes.

use std::fs;
use std::path::{Path, PathBuf, absolute};

use super::checker::{EnvironmentChecks, Finding};
use super::depth::{Depth, Probe, check_directory};
use super::environment::check_listen;
use super::error_log::Level;
use super::explain::{ConfigError, Problem};
use super::service::ServiceDefinition;
use super::setting::row::Objection;
use super::setting::table::find;
use super::setting::{SETTINGS, Value};
use super::settings::{ListenAddress, ListenAt, ListenSettings, LogTarget, Settings, SiteSettings, SiteTls, TlsFiles};
use super::shapes::{self, Shapes};
use super::site::check_headers;
#[cfg(doc)]
use super::site::field_from_text;
use super::validate;
use crate::access::AccessRules;
use crate::gateway::GatewaySettings;
use crate::password::PasswordHash;
use crate::route::pattern::Pattern;
use crate::route::{RouteSettings, Switch};

/// The settings of the command line. A value that is given overrides the file; relative paths are relative to the
/// working directory. Values fit their settings: the parser of the arguments checks that.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overrides {
    /// The directory to serve. Only without a file, or with one that has no site.
    pub directory: Option<PathBuf>,
    /// See [`Settings::listen`]. Not empty: replaces the addresses of the file.
    pub listen: Vec<ListenAt>,
    /// Names of settings, and what they are to be. In the order of their table.
    pub settings: Vec<(&'static str, Value)>,
    /// Turns [`SiteSettings::upload`] on for every site.
    pub upload: bool,
    /// Turns [`SiteSettings::delete`] on for every site.
    pub delete: bool,
    /// Turns [`SiteSettings::mkdir`] on for every site.
    pub mkdir: bool,
    /// Turns [`SiteSettings::webdav`] on for every site.
    pub webdav: bool,
    /// Nothing is said but what is wrong, and the access log is off unless the settings say where it goes.
    pub quiet: bool,
    /// See [`SiteSettings::browse`], of every site.
    pub browse: Option<bool>,
    /// Turns [`SiteSettings::live_reload`] on for every site.
    pub live_reload: bool,
    /// Further [`SiteSettings::headers`] of every site, each in the place of those of the same name. What
    /// [`field_from_text`] has accepted.
    pub headers: Vec<(String, String)>,
    /// The origin whose pages may read what every site serves, or `*`: the fields that say so are among the headers.
    pub cors: Option<String>,
    /// Turns [`SiteSettings::spa`] on for every site.
    pub spa: bool,
    /// Further users of every site, by name with the hash of the password: what is not for anybody in particular is for
    /// users. What [`check_user`](super::access::check_user) has accepted.
    pub users: Vec<(String, PasswordHash)>,
    /// The application that answers whatever no route of a site answers, or runs the scripts of all sites. Without a
    /// file and a directory, one that answers everything is all that is served; one that runs scripts finds them in the
    /// working directory.
    pub gateway: Option<GatewaySettings>,
    /// The certificate and the key of every site that has none; both or neither.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// Every site that has no certificate gets one of the authority of this machine.
    pub tls: bool,
    /// The hosts of the site that is made of the directory, with certificates that are ordered. What
    /// [`check_name`](super::acme::check_name) has accepted.
    pub domains: Vec<String>,
    /// See [`Settings::without`].
    pub without: Vec<String>,
}

/// The settings of a file, if there is one, and of the command line.
///
/// Without a file, or with one that has no site while a directory is given, there is one site for any host that serves
/// this directory, or the working directory.
///
/// # Errors
/// The file cannot be read, is not a configuration, or does not fit the command line; a directory does not exist.
pub fn load(file: Option<&Path>, overrides: &Overrides) -> Result<Settings, ConfigError> {
    load_to(file, overrides, Depth::Serve)
}

/// The same, looking also at what only a server needs that binds its addresses itself: whether they are addresses of
/// this machine, and whether sockets can be made where they are to be. Binds nothing that another server may listen at.
///
/// # Errors
/// As [`load`], and what `probe` says of addresses.
pub fn check(file: Option<&Path>, overrides: &Overrides, probe: Probe) -> Result<Settings, ConfigError> {
    load_to(file, overrides, Depth::Check(probe))
}

fn load_to(file: Option<&Path>, overrides: &Overrides, depth: Depth) -> Result<Settings, ConfigError> {
    let checks = EnvironmentChecks { depth, overridden: overrides.overridden() };
    let mut settings = match file {
        Some(file) => read_file(file, checks)?,
        None => Settings::default(),
    };
    settings.without.clone_from(&overrides.without);
    settings.read_files.extend(file.map(absolute_path));
    match (&overrides.directory, file) {
        (Some(directory), Some(file)) if !settings.sites.is_empty() => {
            let (directory, file) = (directory.clone(), file.to_owned());
            return Err(ConfigError::DirectoryAndSites { directory, file });
        }
        (Some(directory), _) => settings.sites.push(overrides.directory_site(directory, &settings)?),
        (None, None) if overrides.answers_all() => settings.sites.push(SiteSettings::new(PathBuf::new())),
        (None, None) => settings.sites.push(overrides.directory_site(Path::new("."), &settings)?),
        (None, Some(file)) => require_site(&settings, file)?,
    }
    overrides.apply(&mut settings).map_err(invalid)?;
    listen_to_the_public(&mut settings);
    overrides.check(&mut settings, depth)?;
    Ok(settings)
}

/// The settings of a file with these contents and this name, which need not exist: its directory is what relative
/// paths are relative to.
///
/// # Errors
/// The text is not a configuration, or has no site.
pub fn parse(text: &str, file: &Path) -> Result<Settings, ConfigError> {
    let settings = parse_sites_optional(text, file, EnvironmentChecks::all(Depth::Serve))?;
    require_site(&settings, file)?;
    Ok(settings)
}

/// As [`parse`], of what no file has yet: nothing outside of the text is looked at, neither directories nor addresses.
pub fn parse_unseen(text: &str, file: &Path) -> Result<Settings, ConfigError> {
    parse_sites_optional(text, file, EnvironmentChecks::all(Depth::Text))
}

impl Overrides {
    /// The names of settings whose values in the file are not checked outside of it: the command line overrides them.
    fn overridden(&self) -> Vec<&'static str> {
        let listen: &[&str] = if self.listen.is_empty() { &[] } else { &["listen", "admin"] };
        let quiet = self.quiet.then_some("log");
        self.settings.iter().map(|(name, _)| *name).chain(listen.iter().copied()).chain(quiet).collect()
    }

    /// Judges the values of the command line, once their paths are absolute.
    fn check(&self, settings: &mut Settings, depth: Depth) -> Result<(), ConfigError> {
        let mut found = Vec::new();
        let listen: &[ListenSettings] = if self.listen.is_empty() { &[] } else { &settings.listen };
        for (index, one) in listen.iter().enumerate() {
            found.extend(check_listen(&one.at, &listen[..index], depth).err());
        }
        let mut found: Vec<Objection> = found.into_iter().map(|(message, hint)| (message, Some(hint))).collect();
        let is_looked_at = |name: &str| {
            let is_given = self.settings.iter().any(|(given, _)| *given == name);
            // One address must not be both.
            is_given || name == "admin" && !self.listen.is_empty()
        };
        for setting in SETTINGS.iter().filter(|setting| is_looked_at(setting.name)) {
            found.extend(
                setting.environment_check.and_then(|environment_check| environment_check(settings, depth).err()),
            );
        }
        let headers = settings.sites.iter().find_map(|site| check_headers(&site.headers).err());
        found.extend(headers.map(|(message, hint)| (message, Some(hint))));
        // A site of the file keeps its own hosts.
        if !self.domains.is_empty() && !settings.sites.iter().any(|site| site.hosts == self.hosts()) {
            let message =
                "--domain names the hosts of a directory, and the sites of the configuration file have their own";
            let hint = "in the file, give the site `hosts = [...]` and `tls = \"auto\"`";
            found.push((message.to_owned(), Some(hint.to_owned())));
        }
        let problem = |(message, hint)| Problem { place: None, message, hint };
        match found.is_empty() {
            true => Ok(()),
            false => Err(ConfigError::Invalid { file: None, problems: found.into_iter().map(problem).collect() }),
        }
    }

    /// How sites speak TLS that do not say so themselves.
    fn tls(&self) -> Option<SiteTls> {
        let files = self.certificate.as_ref().map(|(certificate, key)| {
            let [certificate, key] = [certificate, key].map(|file| absolute_path(file));
            SiteTls::Files(TlsFiles { certificate, key, client_ca: None })
        });
        files.or(self.tls.then_some(SiteTls::Local))
    }

    /// The error is a message.
    fn apply(&self, settings: &mut Settings) -> Result<(), String> {
        if !self.listen.is_empty() {
            settings.listen = self.listen.iter().map(|at| absolute_at(at).into()).collect();
        }
        if self.quiet {
            settings.log = LogTarget::Off;
            settings.error_log.level = settings.error_log.level.min(Level::Warning);
        }
        // Without a working directory, what uses a path says what is wrong with it.
        let base = std::env::current_dir().unwrap_or_default();
        for (name, value) in &self.settings {
            let put = find(name).map(|setting| setting.put(settings, value, &base));
            put.unwrap_or_else(|| Err("is no setting".to_owned())).map_err(|why| format!("{name}: `{value}` {why}"))?;
        }
        let fields = [self.cors.as_deref().map(cors_fields).unwrap_or_default(), self.headers.clone()].concat();
        for site in &mut settings.sites {
            site.upload |= self.upload;
            site.delete |= self.delete;
            site.mkdir |= self.mkdir;
            site.webdav |= self.webdav;
            site.browse = self.browse.unwrap_or(site.browse);
            site.spa |= self.spa;
            site.live_reload |= self.live_reload;
            if !self.users.is_empty() {
                site.accounts.users.extend(self.users.iter().cloned());
                site.access = std::mem::take(&mut site.access).or(&AccessRules::for_all_users());
            }
            let paths = Pattern::from_glob("*").unwrap_or_default(); // It is one.
            site.routes.extend(self.gateway.iter().map(|gateway| RouteSettings {
                paths: paths.clone(),
                gateway: Switch::Set(gateway.clone()),
                ..RouteSettings::default()
            }));
            site.headers.retain(|(name, _)| !fields.iter().any(|(other, _)| other.eq_ignore_ascii_case(name)));
            site.headers.extend(fields.iter().cloned());
            site.tls = site.tls.take().or_else(|| self.tls());
        }
        Ok(())
    }

    /// Whether an application answers every request, so that no directory is needed.
    fn answers_all(&self) -> bool {
        self.gateway.as_ref().is_some_and(|gateway| gateway.scripts.is_none())
    }

    /// The domains, each once.
    fn hosts(&self) -> Vec<String> {
        let mut hosts = Vec::new();
        for domain in &self.domains {
            if !hosts.contains(domain) {
                hosts.push(domain.clone());
            }
        }
        hosts
    }

    /// The site that a directory of the command line makes. The user of a folder without an index file, served to this
    /// machine alone, wants to see what is in it.
    fn directory_site(&self, directory: &Path, settings: &Settings) -> Result<SiteSettings, ConfigError> {
        let configured = settings.listen.iter().map(|one| &one.at);
        let listen: Vec<&ListenAt> =
            if self.listen.is_empty() { configured.collect() } else { self.listen.iter().collect() };
        let site = directory_site(directory)?;
        if !self.domains.is_empty() {
            return Ok(SiteSettings { hosts: self.hosts(), tls: Some(SiteTls::Auto), ..site });
        }
        // Who has an application run scripts has no use for a list of them.
        let lists = is_for_this_machine(&listen) && self.gateway.is_none() && !has_index(&site);
        Ok(SiteSettings { browse: lists, ..site })
    }
}

/// A site with a certificate of a public authority is for the public: where no address is set, it is at the ports of
/// HTTPS and of HTTP, which answers challenges and sends clients to the other.
fn listen_to_the_public(settings: &mut Settings) {
    let are_passed = std::env::var_os("LISTEN_FDS").is_some();
    if settings.automatic_names().is_empty() || !settings.listen.is_empty() || are_passed {
        return;
    }
    settings.listen = [443, 80].map(|port| ListenAt::EveryAddress(port).into()).to_vec();
}

/// Whether only this machine reaches a server at these addresses. False for Unix sockets, which have a proxy in front.
fn is_for_this_machine(listen: &[&ListenAt]) -> bool {
    // Sockets that a service manager passes are whatever it likes.
    let are_passed = listen.is_empty() && std::env::var_os("LISTEN_FDS").is_some();
    !are_passed && listen.iter().all(|at| at.is_loopback())
}

/// Whether the root of a site has one of its index files.
pub fn has_index(site: &SiteSettings) -> bool {
    site.index.iter().any(|name| site.root.join(name).is_file())
}

/// The fields that let pages of `origin` read everything: answers to preflight requests carry the same as others.
fn cors_fields(origin: &str) -> Vec<(String, String)> {
    let fields = [
        ("Access-Control-Allow-Origin", origin),
        ("Access-Control-Allow-Methods", "GET, HEAD, OPTIONS"),
        ("Access-Control-Allow-Headers", "*"),
        ("Access-Control-Expose-Headers", "*"),
        ("Access-Control-Max-Age", "600"),
    ];
    fields.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()
}

fn read_file(file: &Path, checks: EnvironmentChecks) -> Result<Settings, ConfigError> {
    let bytes = fs::read(file).map_err(|error| ConfigError::Read { file: file.to_owned(), error })?;
    match str::from_utf8(&bytes) {
        Ok(text) => parse_sites_optional(text, file, checks),
        Err(error) => Err(not_utf8(&bytes, error.valid_up_to(), file)),
    }
}

fn parse_sites_optional(text: &str, file: &Path, checks: EnvironmentChecks) -> Result<Settings, ConfigError> {
    let Shapes { file: shapes, mut findings, taken } = shapes::read(text);
    let mut settings = Settings::default();
    if let Some(shapes) = &shapes {
        let (judged, more) = validate::settings(shapes, taken, &directory_of(file), checks);
        settings = judged;
        findings.extend(more);
        // Stable: of two at one place the shape comes first.
        findings.sort_by_key(|finding| finding.span.as_ref().map(|span| span.start));
    }
    if findings.is_empty() {
        return Ok(settings);
    }
    Err(ConfigError::Invalid {
        file: Some(file.to_owned()),
        problems: findings.into_iter().map(|finding| finding.located(text)).collect(),
    })
}

/// The services of a text that has nothing else, with paths relative to `base`.
///
/// # Errors
/// The faults of the text, as with a file, in words.
pub fn parse_services(text: &str, base: &Path, natives_are_allowed: bool) -> Result<Vec<ServiceDefinition>, String> {
    let text = format!("native_services = {natives_are_allowed}\n{text}");
    let settings = parse_sites_optional(&text, &base.join("service"), EnvironmentChecks::all(Depth::Serve));
    let settings = settings.map_err(|error| error.to_string())?;
    let others = Settings { services: Vec::new(), native_services: false, ..settings.clone() };
    match others == Settings::default() {
        true => Ok(settings.services),
        false => Err("only [[service]] is meant here".to_owned()),
    }
}

fn not_utf8(bytes: &[u8], valid_up_to: usize, file: &Path) -> ConfigError {
    let finding = Finding {
        span: Some(valid_up_to..valid_up_to + 1),
        message: "this is not UTF-8 text".into(),
        hint: Some("save the file as UTF-8".into()),
    };
    ConfigError::Invalid {
        file: Some(file.to_owned()),
        problems: vec![finding.located(&String::from_utf8_lossy(bytes))],
    }
}

fn invalid(message: String) -> ConfigError {
    ConfigError::Invalid { file: None, problems: vec![Problem { place: None, message, hint: None }] }
}

fn require_site(settings: &Settings, file: &Path) -> Result<(), ConfigError> {
    if !settings.sites.is_empty() {
        return Ok(());
    }
    Err(ConfigError::Invalid {
        file: Some(file.to_owned()),
        problems: vec![Problem {
            place: None,
            message: "there is no site".into(),
            hint: Some("add a [[site]] table with a `root`, or name a directory to serve on the command line".into()),
        }],
    })
}

fn directory_site(directory: &Path) -> Result<SiteSettings, ConfigError> {
    check_directory(directory).map_err(|message| ConfigError::Invalid {
        file: None,
        problems: vec![Problem { place: None, message, hint: None }],
    })?;
    Ok(SiteSettings::new(absolute_path(directory)))
}

/// The directory that a file is in, absolute.
fn directory_of(file: &Path) -> PathBuf {
    let mut directory = absolute_path(file);
    directory.pop();
    directory
}

fn absolute_at(at: &ListenAt) -> ListenAt {
    match at.socket() {
        Some(path) => ListenAddress::Unix(absolute_path(path)).into(),
        None => at.clone(),
    }
}

/// Fails only for the empty path and without a working directory; what uses the path then says what is wrong with it.
fn absolute_path(path: &Path) -> PathBuf {
    absolute(path).unwrap_or_else(|_| path.to_owned())
}
