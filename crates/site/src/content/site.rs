//! Sites at run time: which one a host names, and the open directories that each serves from.
//!
//! Owns: the host table, root directories (reopened when their path comes to name another directory, so that deploying
//! by switching a link works), home directories of users, and the pages that a site answers errors with.
//! Does not look at files beneath the roots.

mod applications;
mod users;

use std::borrow::Cow;
use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use lamna_config::compression::Compression;
use lamna_config::own_files::{self, OwnPath};
use lamna_config::route::condition::Condition;
use lamna_config::settings::{Settings, SiteSettings};
use lamna_config::site_limit::LimitKey;
use lamna_filter::Structure;
use lamna_io::{Blocked, Wait, open};
use lamna_proto::error::Refusal;
use lamna_proto::exchange::RequestedResource;
use lamna_proto::message::Request;
use lamna_proto::parse::path;
use lamna_proto::resource::{HeadTooLong, Resource};
use lamna_proto::workspace::{Pages, PagesByHost};
use rustix::io::Errno;

use crate::cache::Store;
use crate::content::access::Guard;
use crate::content::action::Action;
use crate::content::admission::Demand;
use crate::content::answers;
use crate::content::change_poller::ChangePoller;
use crate::content::fair_lock::FormCounts;
use crate::content::file_state_cache::FileStateCache;
use crate::content::page_file::PageFiles;
use crate::content::page_files;
use crate::content::route::{Effective, Routes, variant_of};
use crate::content::site::users::Users;
use crate::content::texts::Texts;
use crate::content::tree::leads_to_files;
use crate::service::Registry;
use crate::upstream::group::Group;

/// All sites. One answers for hosts that no site names: see `default_site` of the settings.
#[derive(Debug)]
pub struct Sites {
    sites: Vec<Site>,
    /// The one for hosts that no site names.
    default: usize,
    by_host: HashMap<Vec<u8>, usize>,
    by_suffix: HashMap<Vec<u8>, usize>,
    look_at_clients: bool,
    /// Whether a route of some site names an application, or has a fixed answer: to requests of every method.
    answer_all_methods: bool,
    have_limits: bool,
    have_guards: bool,
    /// Whether any site demands something of connections.
    have_demands: bool,
}

/// One site.
#[derive(Debug)]
pub struct Site {
    /// Its number, part of cache keys.
    pub index: u32,
    /// The configuration.
    pub settings: SiteSettings,
    /// The directory that is served.
    pub root: Root,
    /// Prefixes served from elsewhere, the longest first.
    pub aliases: Vec<(Vec<u8>, Root)>,
    /// The compression of content that has no precompressed sibling.
    pub compression: Compression,
    /// Routes: further rules for some requests.
    pub routes: Routes,
    /// Answers that the core gives by itself where no route matches. Sites with the same further fields share them.
    pub pages: Arc<Pages>,
    /// Access control; none if every client is let in.
    pub guard: Option<Arc<Guard>>,
    /// How many forms of its files were made.
    pub forms: FormCounts,
    /// How its pages are divided, where sections of them were asked for.
    pub structures: FileStateCache<Structure>,
    /// The texts of its pages, if they are searched.
    pub texts: Option<Arc<Texts>>,
    /// The state of its files, if pages are to load themselves again when that changes.
    pub change_poller: Option<Arc<ChangePoller>>,
    /// Its demand on connections.
    pub demand: Demand,
    users: Users,
}

impl Sites {
    /// Opens what `settings` names, without services.
    ///
    /// # Errors
    /// The first root that cannot be opened, and why: `E2BIG` if the fields of its site are too long for a head, which
    /// a configuration that was checked never has.
    pub fn open(settings: &Settings) -> Result<Sites, (PathBuf, Errno)> {
        Sites::with_services(settings, &Arc::default())
    }

    /// The same, with filters that are services.
    ///
    /// # Errors
    /// As [`Sites::open`].
    pub fn with_services(settings: &Settings, registry: &Arc<Registry>) -> Result<Sites, (PathBuf, Errno)> {
        let mut sites = Sites {
            sites: Vec::new(),
            default: settings.default_site(),
            by_host: HashMap::new(),
            by_suffix: HashMap::new(),
            look_at_clients: false,
            answer_all_methods: false,
            have_limits: settings.sites.iter().any(|site| !site.limits.is_empty()),
            have_guards: false,
            have_demands: settings.speak_tls(),
        };
        let bytes_max = settings.compression.bytes_max.min(Store::object_bytes_max(settings.cache_bytes_max));
        let compression = match settings.caches.keep_codings() {
            true => Compression { bytes_max, ..settings.compression },
            false => Compression::OFF,
        };
        for (index, site) in settings.sites.iter().enumerate() {
            for host in &site.hosts {
                match host.strip_prefix("*.") {
                    Some(suffix) => sites.by_suffix.insert(suffix.as_bytes().to_vec(), index),
                    None => sites.by_host.insert(host.as_bytes().to_vec(), index),
                };
            }
            let is_alike = |other: &&Site| {
                let of = |site: &SiteSettings| (site.headers.clone(), site.changes(), site.access.clone());
                of(&other.settings) == of(site) && other.settings.error_pages.is_empty()
            };
            let alike = sites.sites.iter().find(is_alike).filter(|_| site.error_pages.is_empty());
            let pages = alike.map(|other| other.pages.clone());
            sites.look_at_clients |=
                site.routes.iter().any(|route| route.conditions.iter().any(Condition::looks_at_client));
            sites.sites.push(Site::open(
                index as u32,
                site,
                own_files::of(settings, site),
                compression,
                pages,
                registry,
            )?);
        }
        let answers_all = |site: &Site| site.routes.respond() || !site.routes.groups().is_empty();
        sites.answer_all_methods = sites.sites.iter().any(answers_all);
        sites.have_guards = sites.sites.iter().any(|site| site.guard.is_some());
        Ok(sites)
    }

    /// Whether pages and fixed answers are what their files hold now.
    pub fn have_current_pages(&self, now_ms: u64) -> bool {
        let is_current = |site: &Site| *site.routes.files() == page_files::read(site, now_ms);
        self.sites.iter().filter(|site| page_files::are_named(&site.settings)).all(is_current)
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &Site> {
        self.sites.iter()
    }

    /// Whether any site limits how much clients may ask for.
    pub fn have_limits(&self) -> bool {
        self.have_limits
    }

    /// Whether any site asks who its clients are.
    pub fn have_guards(&self) -> bool {
        self.have_guards
    }

    /// The paths of all roots that are known from the beginning.
    pub fn root_paths(&self) -> Vec<PathBuf> {
        let roots = |site: &Site| {
            let aliases = site.aliases.iter().map(|(_, root)| root.path.clone());
            let own = site.settings.has_root().then(|| site.root.path.clone());
            aliases.chain(own).collect::<Vec<_>>()
        };
        self.sites.iter().flat_map(roots).collect()
    }

    /// Whether a route of some site asks who the client is.
    pub fn look_at_clients(&self) -> bool {
        self.look_at_clients
    }

    /// The site that `host` (in any case of letters, without port) names.
    #[inline]
    pub fn find(&self, host: Option<&[u8]>) -> &Site {
        let index = match host {
            Some(host) if !(self.by_host.is_empty() && self.by_suffix.is_empty()) => self.find_named(host),
            _ => self.default,
        };
        &self.sites[index]
    }

    /// The site of this index.
    ///
    /// # Panics
    /// If there is none: indexes come from sites.
    #[inline]
    pub fn at(&self, index: u32) -> &Site {
        &self.sites[index as usize]
    }

    fn find_named(&self, host: &[u8]) -> usize {
        let mut lower = [0; HOST_BYTES_MAX];
        let host = host.strip_suffix(b".").unwrap_or(host);
        let Some(lower) = lower.get_mut(..host.len()) else { return self.default };
        lower.copy_from_slice(host);
        lower.make_ascii_lowercase();
        if let Some(&index) = self.by_host.get(&*lower) {
            return index;
        }
        let mut rest = &*lower;
        while let Some(dot) = memchr::memchr(b'.', rest) {
            rest = &rest[dot + 1..];
            if let Some(&index) = self.by_suffix.get(rest) {
                return index;
            }
        }
        self.default
    }
}

impl PagesByHost for Sites {
    fn pages_of(&self, host: Option<&[u8]>) -> &Pages {
        &self.find(host).pages
    }

    fn refusal_of(&self, host: Option<&[u8]>, request: Option<Request<'_>>, refusal: Refusal) -> Arc<Resource> {
        let site = self.find(host);
        let own = request.filter(|_| !site.routes.is_empty());
        let own = own.and_then(|request| site.routes.refusal(refusal, host, request));
        own.unwrap_or_else(|| site.pages.refusals[refusal as usize].clone())
    }

    fn asks_for_every_method(&self, host: Option<&[u8]>) -> bool {
        // Where a connection may be the wrong one, what the core answers by itself waits for that to be known.
        let answers_all = || {
            let routes = &self.find(host).routes;
            routes.respond() || !routes.groups().is_empty()
        };
        self.have_demands || self.answer_all_methods && answers_all()
    }

    fn options_of(&self, host: Option<&[u8]>, request: Request<'_>) -> Arc<Resource> {
        let site = self.find(host);
        let own = if site.routes.is_empty() { None } else { site.routes.options(host, request) };
        own.unwrap_or_else(|| site.pages.options.clone())
    }
}

/// A domain name has at most 253 bytes (RFC 1035 2.3.4); an address in brackets has fewer.
const HOST_BYTES_MAX: usize = 255;

/// Bytes of memory that the structures of a site's pages may take in one process.
const STRUCTURES_BYTES_MAX: u64 = 16 << 20;

impl Site {
    /// Whether it has a limit per user.
    #[inline]
    pub fn limits_users(&self) -> bool {
        self.settings.limits.iter().any(|limit| limit.key == LimitKey::User)
    }

    fn open(
        index: u32,
        settings: &SiteSettings,
        own: Vec<OwnPath>,
        compression: Compression,
        pages: Option<Arc<Pages>>,
        registry: &Arc<Registry>,
    ) -> Result<Site, (PathBuf, Errno)> {
        let too_long = |HeadTooLong| (settings.root.clone(), Errno::TOOBIG);
        let root = |path: &Path| Root::open(path).map_err(|errno| (path.to_owned(), errno));
        let mut aliases = Vec::new();
        for alias in &settings.aliases {
            aliases.push((alias.prefix.as_bytes().to_vec(), root(&alias.root)?));
        }
        aliases.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
        let routes = Routes::new(settings, own.clone(), registry, PageFiles::new()).map_err(too_long)?;
        let mut site = Site {
            index,
            root: if settings.has_root() { root(&settings.root)? } else { Root::none() },
            aliases,
            compression,
            pages: match pages {
                Some(pages) => pages,
                None => {
                    let extras = |status| routes.plain().extras(status);
                    Arc::new(answers::pages(extras, settings.changes()).map_err(too_long)?)
                }
            },
            guard: routes.keep_out().then(|| Arc::new(Guard::new(&settings.accounts))),
            routes,
            users: Users::default(),
            forms: FormCounts::default(),
            structures: FileStateCache::new(STRUCTURES_BYTES_MAX),
            texts: settings.routes.iter().any(|route| route.search == Some(true)).then(Arc::default),
            change_poller: settings.live_reload.then(Arc::default),
            demand: Demand::of(settings.tls.as_ref()),
            settings: settings.clone(),
        };
        // Which files may be held is for routes to say, and what they answer with is made of these.
        if page_files::are_named(settings) {
            site.routes = Routes::new(settings, own, registry, page_files::read(&site, 0)).map_err(too_long)?;
            let extras = |status| site.routes.plain().extras(status);
            site.pages = Arc::new(answers::pages(extras, settings.changes()).map_err(too_long)?);
        }
        Ok(site)
    }

    /// Whether clients are asked for certificates.
    pub fn asks_for_certificates(&self) -> bool {
        matches!(self.demand, Demand::Client { .. })
    }

    /// A redirect to the same target over https: at the requested host, or the site's first if there was none. At
    /// `port`, or that of https.
    ///
    /// # Errors
    /// There is no such host, or the way there is longer than a head.
    pub fn secure_redirect(&self, requested: &RequestedResource<'_>, port: Option<u16>) -> Result<Resource, Refusal> {
        let host = match requested.host {
            Some(host) if !host.is_empty() => str::from_utf8(host).map_err(|_| Refusal::HostInvalid)?,
            _ => self.settings.hosts.iter().find(|host| !host.contains('*')).ok_or(Refusal::HostMissing)?,
        };
        let target = path::to_ascii(requested.path_and_query);
        let extras = answers::Extras::of(&self.settings.headers);
        let port = port.map(|port| format!(":{port}")).unwrap_or_default();
        answers::redirect(308, &format!("https://{host}{port}{target}"), false, &extras)
            .map_err(|_| Refusal::TargetTooLong)
    }

    /// The root that serves `path`, which is normalised, and the name beneath it. Directories of users are others.
    pub fn root_of<'p>(&self, path: &'p [u8]) -> (&Root, &'p [u8]) {
        let alias = self.aliases.iter().find_map(|(prefix, root)| {
            let bare = path == &prefix[..prefix.len() - 1];
            if bare { Some((root, &b"."[..])) } else { path.strip_prefix(&prefix[..]).map(|name| (root, name)) }
        });
        alias.unwrap_or((&self.root, &path[1..]))
    }

    /// The root whose open directory this is, and what the paths of its files begin with; none if it is a user's
    /// ([`Site::prefix_with`]).
    pub fn root_with(&self, directory: &OwnedFd) -> Option<(&[u8], &Root)> {
        self.roots().find(|(_, root)| root.is_open_as(directory))
    }

    /// Whether a request for `path`, to which `rules` apply, has `group` run the file there.
    pub fn runs_at(&self, path: &[u8], rules: &Effective, group: &Arc<Group>) -> bool {
        let mut redirects = self.settings.redirects.iter();
        let is_led_away =
            std::str::from_utf8(path).is_ok_and(|path| redirects.any(|redirect| redirect.location(path).is_some()));
        !is_led_away && self.routes.run_at(path, rules, group)
    }

    /// The prefix of the paths of the root, or the user, whose open directory this is.
    pub fn prefix_with(&self, directory: &OwnedFd) -> Option<Cow<'_, [u8]>> {
        let of_user = || self.users.with_directory(directory).map(|(name, _)| Cow::Owned(user_prefix(&name)));
        self.root_with(directory).map(|(prefix, _)| Cow::Borrowed(prefix)).or_else(of_user)
    }

    /// The directory of the user whose files `path` is among, if that is remembered, and what the paths of those begin
    /// with.
    pub fn user_of(&self, path: &[u8]) -> Option<(Vec<u8>, Arc<Root>)> {
        let name = self.in_user_directory(path)?;
        Some((user_prefix(name), self.users.remembered(name)?))
    }

    /// The name of the user that `path` is about, if users have directories here: none of the site's roots has such a
    /// path.
    pub fn in_user_directory<'a>(&self, path: &'a [u8]) -> Option<&'a [u8]> {
        self.settings.user_directory.as_ref()?;
        let rest = path.strip_prefix(b"/~")?;
        Some(&rest[..memchr::memchr(b'/', rest).unwrap_or(rest.len())])
    }

    /// Its roots, and what the paths of their files begin with. Directories of users are others.
    pub fn roots(&self) -> impl Iterator<Item = (&[u8], &Root)> {
        let aliases = self.aliases.iter().map(|(prefix, root)| (&prefix[..], root));
        aliases.chain([(&b"/"[..], &self.root)])
    }

    /// Its name in messages: its first host name, or its place in the configuration.
    pub fn label(&self) -> String {
        self.settings.label(self.index as usize + 1)
    }

    /// Whether what is read at `path`, normalised, is the same for all requests, and may be seen by anybody.
    /// `effective` applies to it.
    fn is_the_same_for_everybody(&self, path: &[u8], effective: &Effective) -> bool {
        let depends = self.routes.depends_on_requests() && !self.routes.dependence(path).is_of_path();
        // A variant of a file is as much as the file.
        let is_open = |file: &[u8]| self.routes.effective(file, b"").whom(Action::Read).is_none();
        !depends && effective.whom(Action::Read).is_none() && variant_of(path).is_none_or(is_open)
    }

    /// The same, and whether it is a file: what an application makes is not, wherever routes lead to it.
    pub fn is_file_for_everybody(&self, path: &[u8]) -> bool {
        let effective = self.routes.effective(path, b"");
        let is_file = self.routes.groups().is_empty() || leads_to_files(&effective.rules);
        is_file && self.is_the_same_for_everybody(path, &effective)
    }

    /// Whether clients may be told to fetch `path`, normalised, ahead, if it is a page. `effective` applies to it.
    pub fn may_be_fetched_ahead(&self, path: &[u8], effective: &Effective) -> bool {
        let said = effective.rules.link_prefetch;
        let is_made = effective.gateway.is_some() || effective.rules.handler.is_some();
        // What an application does when it is asked is for the route to know.
        let is_allowed = said.unwrap_or(self.settings.link_prefetch.is_on) && (said.is_some() || !is_made);
        is_allowed && self.routes.is_for_anybody(path) && self.is_the_same_for_everybody(path, effective)
    }

    /// The directory that `/~user/` stands for. Looking a user up may ask the network, so that it waits.
    ///
    /// # Errors
    /// [`Blocked::Disk`] with [`Wait::No`] if the user is not known yet; `ENOENT` if there is none or nothing to serve;
    /// `EBUSY` if too many names are looked up.
    pub fn user_root(&self, user: &[u8], wait: Wait, now_ms: u64) -> Result<Arc<Root>, Blocked> {
        self.users.root(user, wait, now_ms, |name| self.open_user(name))
    }

    /// Registers `directory` as that of the user `name`, who need not exist.
    #[cfg(test)]
    pub(super) fn remember_user(&self, name: &str, directory: &Path, now_ms: u64) {
        let root = || Root::open(directory).ok().map(Arc::new);
        self.users.root(name.as_bytes(), Wait::Yes, now_ms, |_| root()).unwrap();
    }

    fn open_user(&self, name: &str) -> Option<Arc<Root>> {
        let directory = self.settings.user_directory.as_ref()?;
        let user = uzers::get_user_by_name(name)?;
        // The administrator's home is never served.
        let home = (user.uid() != 0).then(|| uzers::os::unix::UserExt::home_dir(&user).to_owned())?;
        Root::open_owned(home, directory.clone(), user.uid()).ok().map(Arc::new)
    }
}

/// The prefix of the paths of a user's files.
fn user_prefix(name: &[u8]) -> Vec<u8> {
    [b"/~", name, b"/"].concat()
}

/// An open directory that follows its path.
#[derive(Debug)]
pub struct Root {
    path: PathBuf,
    /// None if there is no directory.
    current: Option<Mutex<Current>>,
    /// If it is a user's: its name beneath `path`, which is the home, and the number of the user.
    owned: Option<(String, u32)>,
}

#[derive(Debug)]
struct Current {
    directory: Arc<OwnedFd>,
    identity: (u64, u64),
    checked_ms: u64,
}

impl Root {
    /// Where there is nothing.
    fn none() -> Root {
        Root { path: PathBuf::new(), current: None, owned: None }
    }

    fn open(path: &Path) -> Result<Root, Errno> {
        Root::with(path.to_owned(), None, open::open_root(path)?)
    }

    /// The directory `name` in the home of the user `owner`.
    fn open_owned(home: PathBuf, name: String, owner: u32) -> Result<Root, Blocked> {
        let directory = open::open_owned(&home, &name, owner, Wait::Yes)?;
        Ok(Root::with(home, Some((name, owner)), directory)?)
    }

    fn with(path: PathBuf, owned: Option<(String, u32)>, directory: OwnedFd) -> Result<Root, Errno> {
        let identity = identity(&directory)?;
        let current = Current { directory: Arc::new(directory), identity, checked_ms: 0 };
        Ok(Root { path, current: Some(Mutex::new(current)), owned })
    }

    /// Whether `directory` is the one that is open for it.
    fn is_open_as(&self, directory: &OwnedFd) -> bool {
        let current = self.current.as_ref().map(|current| current.lock().unwrap_or_else(PoisonError::into_inner));
        current.is_some_and(|current| current.directory.as_raw_fd() == directory.as_raw_fd())
    }

    /// Where the directory really is that is open for it, or what the system says in its place; none if none is open.
    pub fn real_path(&self) -> Option<Result<Vec<u8>, Errno>> {
        let current = self.current.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner).directory.clone();
        Some(open::real_path(current.as_fd()))
    }

    /// All that is beneath it by rules: where the directory really is that is open for it, and where its path leads
    /// now. These differ from the moment that another directory takes its place until that is noticed, and what is in
    /// either has the rules of this root.
    ///
    /// # Errors
    /// The system cannot say where one of them is.
    pub(super) fn real_paths(&self) -> Result<Vec<Vec<u8>>, Errno> {
        let open = self.real_path();
        let named = self.owned.is_none() && self.current.is_some();
        let named = named.then(|| match open::open_root(&self.path) {
            Ok(directory) => open::real_path(directory.as_fd()),
            // Whatever is there by and by is at this path, unless links lead to it.
            Err(_) => Ok(self.path.as_os_str().as_bytes().to_vec()),
        });
        let mut paths = Vec::with_capacity(2);
        for path in open.into_iter().chain(named) {
            match path {
                // No way to tell.
                Err(Errno::NOENT) => {}
                path => paths.push(path?),
            }
        }
        paths.dedup();
        Ok(paths)
    }

    /// Where it is.
    pub fn path(&self) -> PathBuf {
        match &self.owned {
            Some((name, _)) => self.path.join(name),
            None => self.path.clone(),
        }
    }

    /// The directory that the path names, looked at within [`ROOT_FRESH_MS`].
    ///
    /// # Errors
    /// [`Blocked::Disk`] with [`Wait::No`] if looking might wait; `ENOENT` if there is no directory; else what
    /// `open(2)` says.
    pub fn directory(&self, wait: Wait, now_ms: u64) -> Result<Arc<OwnedFd>, Blocked> {
        let current = self.current.as_ref().ok_or(Blocked::Failed(Errno::NOENT))?;
        let lock = || current.lock().unwrap_or_else(PoisonError::into_inner);
        {
            let current = lock();
            if current.checked_ms + ROOT_FRESH_MS > now_ms {
                return Ok(current.directory.clone());
            }
        }
        let directory = match (&self.owned, wait) {
            (Some((name, owner)), wait) => open::open_owned(&self.path, name, *owner, wait)?,
            (None, Wait::Yes) => open::open_root(&self.path)?,
            (None, Wait::No) => open::open_root_cached(&self.path)?,
        };
        let identity = identity(&directory)?;
        let mut current = lock();
        current.checked_ms = now_ms;
        if identity != current.identity && !open::is_out_of_reach(&directory) {
            current.directory = Arc::new(directory);
            current.identity = identity;
        }
        Ok(current.directory.clone())
    }
}

/// How long a root is taken to be what its path names, in milliseconds.
pub const ROOT_FRESH_MS: u64 = 100;

fn identity(directory: &OwnedFd) -> Result<(u64, u64), Errno> {
    let stat = rustix::fs::fstat(directory.as_fd())?;
    Ok((stat.st_dev, stat.st_ino))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(hosts: &[&str], root: &Path) -> SiteSettings {
        SiteSettings {
            hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
            ..SiteSettings::new(root.to_owned())
        }
    }

    #[test]
    fn a_host_names_its_site_exactly_or_by_suffix_and_others_get_the_first() {
        let directory = tempfile::tempdir().unwrap();
        let sites = [site(&["a.example"], directory.path()), site(&["*.b.example", "b.example"], directory.path())];
        let settings = Settings { sites: sites.to_vec(), ..Settings::default() };
        let sites = Sites::open(&settings).unwrap();
        let find = |host: &str| sites.find(Some(host.as_bytes())).index;
        assert_eq!(find("A.EXAMPLE"), 0);
        assert_eq!(find("b.example."), 1);
        assert_eq!(find("x.y.b.example"), 1);
        assert_eq!(find("xb.example"), 0);
        assert_eq!(find(&"long.".repeat(100)), 0);
        assert_eq!(sites.find(None).index, 0);
    }

    #[test]
    fn a_site_without_hosts_answers_for_those_that_no_site_names_wherever_it_stands() {
        let directory = tempfile::tempdir().unwrap();
        let sites = [site(&["a.example"], directory.path()), site(&[], directory.path())];
        let settings = Settings { sites: sites.to_vec(), ..Settings::default() };
        let sites = Sites::open(&settings).unwrap();
        let find = |host: &str| sites.find(Some(host.as_bytes())).index;
        assert_eq!([find("a.example"), find("b.example"), find(&"long.".repeat(100))], [0, 1, 1]);
        assert_eq!(sites.find(None).index, 1);
    }

    #[test]
    fn settings_find_the_site_of_a_host_as_the_server_does() {
        let directory = tempfile::tempdir().unwrap();
        let hosts: [&[&str]; 4] = [&["a.example"], &["*.b.example", "b.example"], &["*.example"], &[]];
        for count in 1..=hosts.len() {
            let sites = hosts[..count].iter().map(|hosts| site(hosts, directory.path())).collect();
            let settings = Settings { sites, ..Settings::default() };
            let sites = Sites::open(&settings).unwrap();
            for host in
                ["A.example.", "b.example", "x.Y.b.example", "xb.example", "x.a.example", "example", "c", "", "."]
            {
                let served = sites.find(Some(host.as_bytes())).index as usize;
                assert_eq!(settings.site_of(Some(host)), served, "{host} among {count}");
            }
            assert_eq!(settings.site_of(None), sites.find(None).index as usize);
        }
    }

    #[test]
    fn a_users_directory_that_becomes_a_link_or_somebody_elses_is_not_followed() {
        let outer = tempfile::tempdir().unwrap();
        let (home, own) = (outer.path().join("home"), rustix::process::geteuid().as_raw());
        std::fs::create_dir_all(home.join("pages")).unwrap();
        assert!(Root::open_owned(home.clone(), "pages".to_owned(), own + 1).is_err());
        let root = Root::open_owned(home.clone(), "pages".to_owned(), own).unwrap();
        assert!(root.directory(Wait::Yes, 5000).is_ok());
        std::fs::remove_dir(home.join("pages")).unwrap();
        std::os::unix::fs::symlink("/", home.join("pages")).unwrap();
        assert!(matches!(root.directory(Wait::Yes, 5100), Err(Blocked::Failed(_))));
    }

    #[test]
    fn a_root_that_is_switched_is_followed() {
        let outer = tempfile::tempdir().unwrap();
        for name in ["one", "two"] {
            std::fs::create_dir(outer.path().join(name)).unwrap();
        }
        let link = outer.path().join("current");
        std::os::unix::fs::symlink("one", &link).unwrap();
        let root = Root::open(&link).unwrap();
        let before = identity(&root.directory(Wait::Yes, 5000).unwrap()).unwrap();
        std::fs::remove_file(&link).unwrap();
        std::os::unix::fs::symlink("two", &link).unwrap();
        assert_eq!(identity(&root.directory(Wait::Yes, 5099).unwrap()).unwrap(), before);
        assert_ne!(identity(&root.directory(Wait::Yes, 5100).unwrap()).unwrap(), before);
    }
}
