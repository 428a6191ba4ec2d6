//! Why a URL is answered as it is: the words of `lamna explain`, and of `lamna ctl explain`.
//!
//! Owns: [`Asked`], [`Explanation`], and what can be said of a path beyond the answer: which routes fit, and what the
//! file system has there. The answer itself is found by the steps of a worker, in `worker::explain` of the crate
//! `lamna_engine`. Looks at the file system as the user that runs it. Waits.

use std::ffi::OsStr;
use std::fmt;
use std::net::IpAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use lamna_config::settings::Settings;
use lamna_config::suggest::nearest;
use lamna_policy::words::count;
use lamna_proto::exchange::negotiate::{Coding, CodingSet};
use lamna_proto::parse::{host, path};
use lamna_proto::resource::{Resource, Variants};
use lamna_sys::denied::denied;
use serde::{Deserialize, Serialize};

use super::route::Effective;
use super::site::{Site, Sites};
use crate::cache::Store;
use crate::cache::two_generation_map::Key;

/// A URL, as a client would ask for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// The `Host` field as a client sends it: the host, and the port if it is not that of the scheme. None for a client
    /// that names no host.
    pub host: Option<String>,
    /// The path as it stands in a request, with an optional query.
    pub target: String,
    /// How it is asked for; none for the way that its site answers.
    #[serde(default)]
    pub scheme: Option<Scheme>,
    /// The address of the client; none for one of this machine.
    #[serde(default)]
    pub client: Option<IpAddr>,
}

/// The scheme of a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scheme {
    /// In clear text.
    Http,
    /// By TLS.
    Https,
}

impl Asked {
    /// The path, normalised, without the query.
    ///
    /// # Errors
    /// No request has it.
    pub fn path(&self) -> Result<Vec<u8>, String> {
        let (target, _) = self.target.split_once('?').unwrap_or((&self.target, ""));
        let mut normal = Vec::new();
        path::normalise_for_rules(target.as_bytes(), &mut normal)
            .map_err(|_| format!("no request has the path {target}"))?;
        Ok(normal)
    }

    /// The host without its port, as requests are read; none if none is named.
    ///
    /// # Errors
    /// No request is answered that has this field.
    pub fn host_name(&self) -> Result<Option<&str>, String> {
        let Some(field) = &self.host else { return Ok(None) };
        let host =
            host::parse_field(field.as_bytes()).map_err(|error| format!("no request has the host {field}: {error}"))?;
        Ok(host.and_then(|host| str::from_utf8(host.name).ok()))
    }

    /// The site that is asked.
    pub fn site<'s>(&self, sites: &'s Sites) -> &'s Site {
        sites.find(self.host_name().ok().flatten().map(str::as_bytes))
    }
}

/// The answer to a plain GET, and why it is this one.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Explanation {
    /// The site that answers, by its first host name or its number.
    pub site: String,
    /// Why this site.
    pub site_because: String,
    /// The decoded and normalised path; empty if it is malformed.
    pub path: String,
    /// The words of the steps that the request has taken, in order: `NAME: WORDS`.
    pub steps: Vec<String>,
    /// The answer.
    #[serde(flatten)]
    pub answer: Answer,
    /// The answer to clients that are let in, if this one is kept out.
    #[serde(default)]
    pub let_in: Option<Answer>,
    /// Facts about the path: the routes that fit it, and what the file system has there.
    pub because: Vec<String>,
    /// The access log that the request is in, and how; none where all requests are in the same.
    #[serde(default)]
    pub log: Option<String>,
    /// The state of the target in the server's cache; none without a server.
    #[serde(default)]
    pub cache: Option<String>,
}

/// An answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The file that is sent; if none is, the path in the file system that the target maps to, if a file was looked
    /// for.
    pub file: Option<String>,
    /// The status; none if an application says it, or if there is no answer.
    pub status: Option<u16>,
    /// The application that answers, or that is asked first whether the request is let in.
    pub application: Option<String>,
    /// The fields of the answer, without `Date`.
    pub fields: Vec<String>,
    /// The codings of the content, and how they are made; empty if an application answers.
    pub codings: String,
}

impl Answer {
    /// Whether both say the same, but for fields.
    pub fn is_like(&self, other: &Answer) -> bool {
        let words = |answer: &Answer| (answer.status, answer.application.clone(), answer.location().map(str::to_owned));
        words(self) == words(other)
    }

    /// Where it leads, if it is a redirect.
    pub fn location(&self) -> Option<&str> {
        self.fields.iter().find_map(|field| field.strip_prefix("Location: "))
    }
}

/// The state of a target in the cache that a running server's workers share, whose clock says `now_ms`.
pub fn cache_state(sites: &Sites, store: &Store, asked: &Asked, now_ms: u64) -> String {
    let site = asked.site(sites);
    let target = asked.target.split('?').next().unwrap_or_default();
    let mut normal = Vec::new();
    if path::normalise(target.as_bytes(), &mut normal).is_err() {
        return "nothing is kept of it".to_owned();
    }
    if site.routes.depends_on_requests() {
        return "not looked at: what is kept of this site depends on more of a request than its path".to_owned();
    }
    let Some(entry) = store.lookup(Key { site: site.index, path: &normal }, 0) else {
        return "nothing is kept of it: it is looked for at the next request".to_owned();
    };
    let state = match (entry.is_watched(), entry.confirmed_ms()) {
        (true, _) => "its directory is watched".to_owned(),
        (false, 0) => "compared with the file system at each use, as it has just changed".to_owned(),
        (false, at) => format!("last compared with the file system {} ms ago", now_ms.saturating_sub(at)),
    };
    let form = match entry.resource.variants.first().file {
        Some(_) => "its file is held open",
        None => "with its content",
    };
    format!("held, {form}: {} of memory; {state}", count(entry.memory_bytes(), "byte"))
}

/// Why a request with this `host`, without its port, is for `site`.
pub fn why_site(settings: &Settings, site: &Site, host: Option<&str>) -> String {
    let answers =
        if site.settings.hosts.is_empty() { "the site without hosts answers" } else { "the first site answers" };
    match host {
        _ if settings.sites.len() == 1 => "there is no other".to_owned(),
        None => format!("no host is named: {answers}"),
        Some(host) => {
            let bare = host.trim_end_matches('.').to_ascii_lowercase();
            let is_exact = |name: &&String| **name == bare;
            let is_wild = |name: &&String| name.strip_prefix('*').is_some_and(|suffix| bare.ends_with(suffix));
            let hosts = &site.settings.hosts;
            match hosts.iter().find(is_exact).or_else(|| hosts.iter().find(is_wild)) {
                Some(name) => format!("`{name}` is among its hosts"),
                None => format!("no site has the host `{bare}`: {answers}"),
            }
        }
    }
}

/// The codings of what is answered with, and how they are made.
pub fn codings(resource: &Resource) -> String {
    let names = |of: &mut dyn Iterator<Item = Coding>| of.map(Coding::name).collect::<Vec<_>>().join(", ");
    match &resource.variants {
        Variants::Made(codings) => {
            let permitted = codings.permitted();
            let mut made = Coding::BY_PREFERENCE.into_iter().filter(|coding| is_among(*coding, permitted));
            format!("{}: made when a client asks for it", names(&mut made))
        }
        Variants::Coded(several) => {
            let mut others = several.iter().map(|one| one.coding).filter(|coding| *coding != Coding::Identity);
            format!("{}: there already", names(&mut others))
        }
        Variants::Typed(several) => {
            let types: Vec<&str> = several.iter().map(|one| one.media_type()).collect();
            format!("none; as {}", types.join(", "))
        }
        Variants::One(_) => "none".to_owned(),
    }
}

fn is_among(coding: Coding, set: CodingSet) -> bool {
    coding != Coding::Identity && set.contains(coding)
}

/// The facts by which a path is described.
#[derive(Clone, Copy, Debug)]
pub struct Account<'a> {
    /// The site that is asked.
    pub site: &'a Site,
    /// The effective rules of the request.
    pub rules: &'a Effective,
    /// The path, normalised.
    pub path: &'a [u8],
    /// The path in the file system that it maps to.
    pub file: Option<&'a Path>,
    /// The status of the answer.
    pub status: u16,
}

impl Account<'_> {
    /// Sentences about a path for which the file system was asked, in the order in which a translation finds things
    /// out.
    pub fn sentences(&self) -> Vec<String> {
        if self.path.is_empty() {
            return vec![
                "the path is malformed: a percent sign without two digits, a NUL, or steps above the root".to_owned(),
            ];
        }
        let redirects = &self.site.settings.redirects;
        let text = std::str::from_utf8(self.path).ok();
        if let Some(at) = text.and_then(|text| redirects.iter().position(|one| one.location(text).is_some())) {
            let redirect = &redirects[at];
            let rule =
                format!("redirect {} of {}: from `{}` to `{}`", at + 1, redirects.len(), redirect.from, redirect.to);
            let hides = self.file.filter(|file| file.exists()).map(|file| format!("it hides {}", file.display()));
            return [rule].into_iter().chain(hides).collect();
        }
        let mut sentences = self.rules();
        if !redirects.is_empty() {
            sentences.push(format!("none of its redirects applies ({})", redirects.len()));
        }
        if path::is_hidden(self.path) {
            sentences.push("a name in it begins with a dot: hidden, but for /.well-known/".to_owned());
            return self.fallen_back(sentences);
        }
        if let Some(alias) = self.alias() {
            sentences.push(alias);
        }
        let Some(file) = self.file else {
            sentences.push("no user of this name has anything to serve".to_owned());
            return self.fallen_back(sentences);
        };
        self.look_at(file, &mut sentences);
        self.fallen_back(sentences)
    }

    /// Sentences about the routes.
    pub fn rules(&self) -> Vec<String> {
        let effective = self.rules;
        let mut sentences = self.site.routes.describe(self.path, effective);
        sentences.extend(effective.rules.describe_ways());
        sentences.extend(effective.rules.describe_filters());
        if effective.rules.early_hints.unwrap_or(self.site.settings.early_hints.is_on) {
            sentences.push("clients that navigate to it are told first what it needs (103 Early Hints)".to_owned());
        }
        if let Some(told) = self.fetched_ahead(effective) {
            sentences.push(told.to_owned());
        }
        sentences.extend(effective.access_in_words());
        sentences
    }

    /// Whether clients may be told to fetch it ahead, where they may be told of any page of the site.
    fn fetched_ahead(&self, effective: &Effective) -> Option<&'static str> {
        self.site.settings.link_prefetch_anywhere()?;
        let may_be = self.site.may_be_fetched_ahead(self.path, effective);
        Some(match (may_be, effective.rules.link_prefetch) {
            (true, Some(true)) => "if it is a page, clients may be told to fetch it ahead, whoever makes it",
            (true, _) => "if it is a page from a file, clients may be told to fetch it ahead",
            (false, _) => "clients are not told to fetch it ahead",
        })
    }

    fn alias(&self) -> Option<String> {
        let aliases = &self.site.settings.aliases;
        let is_of =
            |prefix: &str| self.path.starts_with(prefix.as_bytes()) || [self.path, b"/"].concat() == prefix.as_bytes();
        let alias = aliases.iter().find(|alias| is_of(&alias.prefix))?;
        Some(format!("the alias `{}` stands for {}", alias.prefix, alias.root.display()))
    }

    fn look_at(&self, file: &Path, sentences: &mut Vec<String>) {
        let has_slash = self.path.ends_with(b"/");
        let shown = file.display();
        let found = match std::fs::metadata(file) {
            Ok(found) => found,
            Err(error) => {
                sentences.push(match denied(file) {
                    Some(denied) => denied.to_string(),
                    None => missing(file).unwrap_or_else(|| format!("{shown}: {error}")),
                });
                return;
            }
        };
        if let Some(outside) = self.outside(file) {
            sentences.push(outside);
        } else if found.is_dir() && !has_slash {
            sentences.push(format!("{shown} is a directory, which is found at its name with a slash"));
        } else if found.is_dir() {
            self.look_at_directory(file, sentences);
        } else if !found.is_file() {
            sentences.push(format!("{shown} is neither a file nor a directory"));
        } else if has_slash {
            sentences.push(format!("{shown} is a file, and the path asks for a directory"));
        } else if let Some(denied) = denied(file) {
            sentences.push(denied.to_string());
        } else {
            sentences.push(format!("{shown} is a file of {}", count(found.len(), "byte")));
            sentences.extend(old_sibling(file, &found));
        }
    }

    fn look_at_directory(&self, directory: &Path, sentences: &mut Vec<String>) {
        let settings = &self.site.settings;
        let shown = directory.display();
        if let Some(index) = settings.index.iter().map(|name| directory.join(name)).find(|index| index.is_file()) {
            sentences.push(match denied(&index) {
                Some(denied) => denied.to_string(),
                None => format!("{} is the index file of the directory", index.display()),
            });
            return;
        }
        if let Some(denied) = denied(directory).or_else(|| denied(&directory.join("index"))) {
            return sentences.push(denied.to_string());
        }
        let names = if settings.index.is_empty() { "any index file".to_owned() } else { settings.index.join(" or ") };
        sentences.push(format!("{shown} is a directory without {names}"));
        sentences.push(match settings.browse {
            true => "it is listed: `browse` is on".to_owned(),
            false => "it is not listed: `browse` is off (--browse)".to_owned(),
        });
    }

    /// The sentence about a link that leads out of the root.
    fn outside(&self, file: &Path) -> Option<String> {
        let real = file.canonicalize().ok()?;
        let settings = &self.site.settings;
        let roots = settings.aliases.iter().map(|alias| &alias.root).chain([&settings.root]);
        let own = roots.filter(|root| file.starts_with(root)).max_by_key(|root| root.as_os_str().len())?;
        let is_inside = real.starts_with(own.canonicalize().ok()?);
        (!is_inside)
            .then(|| format!("a link leads out of the root, to {}: what lies there is not served", real.display()))
    }

    /// The same, with what stands in for what is not there.
    fn fallen_back(&self, mut sentences: Vec<String>) -> Vec<String> {
        let settings = &self.site.settings;
        let is_found = self.file.is_some_and(|file| file.is_file());
        if self.status == 200 && settings.spa && !is_found && !self.path.ends_with(b"/") {
            sentences.push(
                "`spa` is on, and the last name is of no known type of file: the index file of the root answers"
                    .to_owned(),
            );
        } else if self.status == 404 && settings.spa {
            sentences.push("`spa` is on, but not for names of a known type of file".to_owned());
        }
        if let Some(page) = self.rules.error_pages.get(self.status) {
            sentences.push(format!("the page for {} is `{page}`", self.status));
        }
        sentences
    }
}

/// The sentence about a missing path: its first part that does not exist, and a similar name that may have been meant.
fn missing(file: &Path) -> Option<String> {
    let mut ancestors = file.ancestors();
    let absent = ancestors.by_ref().take_while(|path| !path.exists()).last()?;
    let (directory, name) = (absent.parent()?, absent.file_name()?);
    if directory.is_file() {
        return Some(format!("{} is a file, and nothing lies beneath it", directory.display()));
    }
    if absent.is_symlink() {
        return Some(format!("{} is a link that leads nowhere", absent.display()));
    }
    let said = format!("there is no `{}` in {}", name.to_string_lossy().escape_debug(), directory.display());
    let names = std::fs::read_dir(directory).into_iter().flatten().flatten().take(NAMES_MAX);
    let names: Vec<String> = names.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    let visible = names.iter().map(String::as_str).filter(|name| !name.starts_with('.'));
    match name.to_str().and_then(|name| nearest(name, visible)) {
        Some(near) => Some(format!("{said}; there is `{}`", near.escape_debug())),
        None => Some(said),
    }
}

/// Names of a directory that are compared with one that is not there.
const NAMES_MAX: usize = 10_000;

/// The sentence about a precompressed sibling that is not sent because it is older than the file.
fn old_sibling(file: &Path, found: &std::fs::Metadata) -> Option<String> {
    let is_old = |suffix: &&str| {
        let sibling = PathBuf::from(OsStr::from_bytes(&[file.as_os_str().as_bytes(), suffix.as_bytes()].concat()));
        let times = (sibling.metadata().and_then(|sibling| sibling.modified()), found.modified());
        matches!(times, (Ok(sibling), Ok(file)) if sibling < file)
    };
    let suffix = [".br", ".zst", ".gz"].into_iter().find(|suffix| is_old(suffix))?;
    Some(format!("{}{suffix} is older than it, and not sent", file.display()))
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "site     {}: {}", self.site, self.site_because)?;
        let path = if self.path.is_empty() { "none".into() } else { self.path.escape_debug().to_string() };
        writeln!(f, "path     {path}")?;
        write_steps(&self.steps, f)?;
        for (sentence, mark) in self.because.iter().zip(["because"].into_iter().chain(std::iter::repeat(""))) {
            writeln!(f, "{mark:8} {}", sentence.escape_debug())?;
        }
        self.answer.write("answer", f)?;
        self.let_in.as_ref().map_or(Ok(()), |answer| answer.write("let in", f))?;
        self.log.as_ref().map_or(Ok(()), |log| writeln!(f, "log      {log}"))?;
        match &self.cache {
            Some(cache) => writeln!(f, "cache    {cache}"),
            None => Ok(()),
        }
    }
}

/// Writes what the steps have said: those that have passed by name only.
fn write_steps(steps: &[String], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (request, steps) = match steps.split_first() {
        Some((first, steps)) => (first.strip_prefix("request: "), steps),
        None => (None, steps),
    };
    request.map_or(Ok(()), |request| writeln!(f, "request  {request}"))?;
    let passed: Vec<&str> = steps.iter().filter_map(|step| step.strip_suffix(": passes")).collect();
    if !passed.is_empty() {
        writeln!(f, "passes   {}", passed.join(", "))?;
    }
    let is_told = |step: &&String| !step.ends_with(": passes") && !step.starts_with("site: ");
    steps.iter().filter(is_told).try_for_each(|step| writeln!(f, "step     {step}"))
}

impl Answer {
    /// Writes it, with this `mark` before its first line.
    fn write(&self, mark: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            writeln!(f, "file     {}", file.escape_debug())?;
        }
        if let Some(application) = &self.application {
            writeln!(f, "{mark:8} that of the application: {}", application.escape_debug())?;
        }
        match self.status {
            Some(status) => writeln!(f, "{mark:8} {status} {}", lamna_proto::message::Status(status).reason_phrase())?,
            None if self.application.is_none() => writeln!(f, "{mark:8} none")?,
            None => {}
        }
        self.fields.iter().try_for_each(|field| writeln!(f, "         {field}"))?;
        match self.codings.is_empty() {
            true => Ok(()),
            false => writeln!(f, "codings  {}", self.codings),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::Entry;
    use lamna_config::settings::Settings;
    use lamna_io::file_state::Stamps;
    use std::sync::Arc;

    #[test]
    fn what_is_cached_is_said() {
        let root = tempfile::tempdir().unwrap();
        let settings = Settings {
            sites: vec![lamna_config::settings::SiteSettings::new(root.path().to_owned())],
            ..Settings::default()
        };
        let sites = Sites::with_services(&settings, &Arc::default()).unwrap();
        let store = Store::new(1 << 20, 16);
        let asked = Asked { target: "/docs/a.txt?x".to_owned(), ..Asked::default() };
        assert!(cache_state(&sites, &store, &asked, 0).contains("nothing is kept"));
        let resource = sites.find(None).pages.refusals[0].clone();
        store.insert(Key { site: 0, path: b"/docs/a.txt" }, Arc::new(Entry::shared(resource, Stamps::none(), 1000)));
        let said = cache_state(&sites, &store, &asked, 1500);
        assert!(said.contains("held") && said.contains("of memory"), "{said}");
    }
}
