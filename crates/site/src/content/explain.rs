//! Why a URL is answered as it is: for `lamna explain`, and `lamna ctl explain`.
//!
//! Owns: the account of one translation, in sentences. The answer itself is that of [`translate`], which a server asks, so status and
//! fields are true whatever is said about them. Looks at the file system as the user that runs it. Waits.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lamna_config::access::AccessRule;
use lamna_config::route::describe_gateway as describe;
use lamna_config::settings::Settings;
use lamna_config::suggest::nearest;
use lamna_io::{KernelFeatures, Wait};
use lamna_policy::words::count;
use lamna_proto::exchange::negotiate::{Coding, CodingSet};
use lamna_proto::parse::path;
use lamna_proto::resource::{Resource, Variants};
use lamna_sys::denied::denied;
use serde::{Deserialize, Serialize};

use super::action::Action;
use super::listing::{Order, View};
use super::route::Effective;
use super::site::{Site, Sites};
use super::translate::{Question, translate};
use crate::cache::two_generation_map::Key;
use crate::cache::{Entry, Store};
use crate::service::Registry;

/// A URL, as a client would ask for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// The host, without port; none for a client that names none.
    pub host: Option<String>,
    /// The path as it stands in a request, with an optional query.
    pub target: String,
}

impl Asked {
    /// The path, normalised, without the query.
    ///
    /// # Errors
    /// No request has it.
    pub fn path(&self) -> Result<Vec<u8>, String> {
        let (target, _) = self.target.split_once('?').unwrap_or((&self.target, ""));
        let mut normal = Vec::new();
        path::normalise(target.as_bytes(), &mut normal).map_err(|_| format!("no request has the path {target}"))?;
        Ok(normal)
    }
}

/// The answer, and why it is this one.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Explanation {
    /// The site that answers, by its first host name or its number.
    pub site: String,
    /// Why this site.
    pub site_because: String,
    /// The decoded and normalised path; empty if it is malformed.
    pub path: String,
    /// The path in the file system that the target maps to, if there is one.
    pub file: Option<String>,
    /// The status of a plain GET; none if an application says it.
    pub status: Option<u16>,
    /// The outcome for a client without credentials, where access is restricted.
    #[serde(default)]
    pub kept_out: Option<String>,
    /// The application that answers.
    #[serde(default)]
    pub application: Option<String>,
    /// Why, and why nothing else.
    pub because: Vec<String>,
    /// The fields of the answer, without `Date`.
    pub fields: Vec<String>,
    /// The codings of the content, and how they are made; empty if an application answers.
    pub codings: String,
    /// The state of the target in the server's cache; none without a server.
    #[serde(default)]
    pub cache: Option<String>,
}

/// Explains what a server with these settings and services answers to a plain GET.
///
/// # Errors
/// A root cannot be opened, or a name of `without` is unknown: why, in words.
pub fn explain(settings: &Settings, services: &Arc<Registry>, asked: &Asked) -> Result<Explanation, String> {
    let sites = Sites::with_services(settings, services).map_err(|(root, errno)| match denied(&root) {
        Some(denied) => format!("cannot serve {}: {denied}", root.display()),
        None => format!("cannot serve {}: {errno}", root.display()),
    })?;
    let abilities = KernelFeatures::without(&settings.without)
        .map_err(|name| format!("`{name}` is not something to do without"))?;
    let site = sites.find(asked.host.as_deref().map(str::as_bytes));
    let (target, query) = asked.target.split_once('?').unwrap_or((&asked.target, ""));
    let mut normal = Vec::new();
    // What cannot be normalised leaves nothing.
    let _ = path::normalise(target.as_bytes(), &mut normal);
    let rules = site.routes.effective(&normal, &[]);
    let question = Question {
        site,
        rules: &rules,
        host: asked.host.as_deref().unwrap_or_default().as_bytes(),
        recipe: None,
        path: &normal,
        view: View { order: Order::from_query(query), is_json: false },
        wait: Wait::Yes,
        makes_until: Some(std::time::Instant::now() + std::time::Duration::from_secs(30)),
        request: "",
        previous: None,
        now_ms: 0,
        abilities: &abilities,
        holder: None,
        store: None,
        content_bytes_max: Store::content_bytes_max_of(settings.cache_bytes_max, settings.caches),
        caches: settings.caches,
    };
    let Ok(entry) = translate(&question) else { return Err("the translation would have had to wait".to_owned()) };
    let resource = &entry.resource;
    // Without the slash at its end.
    let file = question.file_path().map(|file| file.components().collect::<PathBuf>());
    let application = application(&rules, &entry);
    // An application that answers everything is asked whatever the files are.
    let is_of_file = application.is_none() || entry.script().is_some();
    let account =
        Account { site, path: &normal, file: file.as_deref().filter(|_| is_of_file), status: resource.status.0 };
    let because = if is_of_file { account.sentences() } else { account.rules() };
    let answers = application.is_none();
    Ok(Explanation {
        site: site.label(),
        site_because: why_site(settings, site, asked.host.as_deref()),
        path: String::from_utf8_lossy(&normal).into_owned(),
        because,
        file: file.filter(|_| is_of_file).map(|file| file.display().to_string()),
        status: answers.then_some(resource.status.0),
        kept_out: rules.whom(Action::Read).map(kept_out),
        application,
        fields: if answers { fields(resource) } else { Vec::new() },
        codings: if answers { codings(resource) } else { String::new() },
        cache: None,
    })
}

/// The state of a target in the cache that a running server's workers share, whose clock says `now_ms`.
pub fn cache_state(sites: &Sites, store: &Store, asked: &Asked, now_ms: u64) -> String {
    let site = sites.find(asked.host.as_deref().map(str::as_bytes));
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

/// The application that answers, by the rules of the path or because the file is a script.
fn application(rules: &Effective, entry: &Entry) -> Option<String> {
    match entry.script() {
        Some(script) => {
            let file = script.root.join(String::from_utf8_lossy(&script.name).trim_start_matches('/'));
            Some(format!("{} runs {}", describe(&script.group.settings), file.display()))
        }
        None => rules.rules.gateway.as_ref().filter(|gateway| gateway.scripts.is_none()).map(describe),
    }
}

/// The outcome of a rule for a client with neither password nor token nor certificate.
fn kept_out(rule: &AccessRule) -> String {
    if !rule.users.is_empty() || !rule.tokens.is_empty() {
        "401 without credentials; below is the answer to clients that have them".to_owned()
    } else if !rule.certificates.is_empty() {
        "403 without a client certificate; below is the answer to clients that have one".to_owned()
    } else if rule.service.is_some() {
        "the service decides; below is the answer to clients that it lets in".to_owned()
    } else {
        "403 to other networks; below is the answer to clients of the permitted ones".to_owned()
    }
}

fn why_site(settings: &Settings, site: &Site, host: Option<&str>) -> String {
    let first = "the first site answers";
    match host {
        _ if settings.sites.len() == 1 => "there is no other".to_owned(),
        None => format!("no host is named: {first}"),
        Some(host) => {
            let bare = host.trim_end_matches('.').to_ascii_lowercase();
            let is_exact = |name: &&String| **name == bare;
            let is_wild = |name: &&String| name.strip_prefix('*').is_some_and(|suffix| bare.ends_with(suffix));
            let hosts = &site.settings.hosts;
            match hosts.iter().find(is_exact).or_else(|| hosts.iter().find(is_wild)) {
                Some(name) => format!("`{name}` is among its hosts"),
                None => format!("no site has the host `{bare}`: {first}"),
            }
        }
    }
}

fn fields(resource: &Resource) -> Vec<String> {
    let head = String::from_utf8_lossy(resource.variants.first().head()).into_owned();
    let lines = head.lines().skip(1).filter(|line| !line.is_empty() && !line.starts_with("Date:"));
    lines.map(str::to_owned).collect()
}

fn codings(resource: &Resource) -> String {
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

/// The facts from which an answer is explained.
struct Account<'a> {
    site: &'a Site,
    path: &'a [u8],
    file: Option<&'a Path>,
    status: u16,
}

impl Account<'_> {
    /// In the order in which a translation finds things out.
    fn sentences(&self) -> Vec<String> {
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
    fn rules(&self) -> Vec<String> {
        let effective = self.site.routes.effective(self.path, &[]);
        let mut sentences = self.site.routes.describe(self.path);
        sentences.extend(effective.rules.describe_ways());
        sentences.extend(effective.rules.describe_filters());
        if effective.rules.early_hints.unwrap_or(self.site.settings.early_hints.is_on) {
            sentences.push("clients that navigate to it are told first what it needs (103 Early Hints)".to_owned());
        }
        if let Some(told) = self.fetched_ahead(&effective) {
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
        if let Some(page) = settings.error_pages.get(&self.status) {
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
        writeln!(
            f,
            "path     {}",
            if self.path.is_empty() { "none".into() } else { self.path.escape_debug().to_string() }
        )?;
        if let Some(file) = &self.file {
            writeln!(f, "file     {}", file.escape_debug())?;
        }
        for (sentence, mark) in self.because.iter().zip(["because"].into_iter().chain(std::iter::repeat(""))) {
            writeln!(f, "{mark:8} {}", sentence.escape_debug())?;
        }
        if let Some(kept_out) = &self.kept_out {
            writeln!(f, "access   {kept_out}")?;
        }
        if let Some(application) = &self.application {
            writeln!(f, "answer   that of the application: {}", application.escape_debug())?;
        }
        if let Some(status) = self.status {
            writeln!(f, "answer   {status} {}", lamna_proto::message::Status(status).reason_phrase())?;
        }
        self.fields.iter().try_for_each(|field| writeln!(f, "         {field}"))?;
        if !self.codings.is_empty() {
            writeln!(f, "codings  {}", self.codings)?;
        }
        match &self.cache {
            Some(cache) => writeln!(f, "cache    {cache}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lamna_config::settings::{Alias, Redirect, SiteSettings};
    use lamna_io::file_state::Stamps;
    use std::fs::{create_dir_all, write};
    use std::os::unix::fs::symlink;

    /// Two sites with one of each.
    fn settings(root: &Path) -> Settings {
        for (name, content) in
            [("www/index.html", "home"), ("www/docs/a.txt", "a"), ("www/old.css", "body{}"), ("more/b.txt", "b")]
        {
            create_dir_all(root.join(name).parent().unwrap()).unwrap();
            write(root.join(name), content).unwrap();
        }
        symlink("/etc", root.join("www/out")).unwrap();
        let mut site = SiteSettings::new(root.join("www"));
        site.hosts = vec!["a.example".into(), "*.a.example".into()];
        site.redirects = vec![Redirect { from: "/old*".into(), to: "/new*".into(), status: 308 }];
        site.aliases = vec![Alias { prefix: "/more/".into(), root: root.join("more") }];
        site.error_pages = [(404, "/index.html".into())].into();
        let mut other = SiteSettings::new(root.join("www"));
        (other.hosts, other.spa, other.browse) = (vec!["b.example".into()], true, true);
        Settings { sites: vec![site, other], ..Settings::default() }
    }

    fn asked(host: Option<&str>, target: &str) -> Asked {
        Asked { host: host.map(str::to_owned), target: target.to_owned() }
    }

    #[test]
    fn every_rule_is_named_by_what_it_did() {
        let root = tempfile::tempdir().unwrap();
        let settings = settings(root.path());
        for (host, target, status, said) in [
            ("a.example", "/", 200, "is the index file of the directory"),
            ("a.example", "/docs/a.txt", 200, "is a file of 1 byte"),
            ("a.example", "/docs", 301, "found at its name with a slash"),
            ("a.example", "/docs/", 403, "--browse"),
            ("b.example", "/docs/?sort=size", 200, "`browse` is on"),
            ("a.example", "/docs/b.txt", 404, "there is `a.txt`"),
            ("a.example", "/dosc/x/y", 404, "there is `docs`"),
            ("a.example", "/docs/a.txt/b", 404, "is a file, and nothing lies beneath it"),
            ("a.example", "/docs/a.txt/", 404, "asks for a directory"),
            ("a.example", "/old.css", 308, "it hides "),
            ("a.example", "/more/b.txt", 200, "the alias `/more/` stands for"),
            ("a.example", "/.git/config", 404, "begins with a dot"),
            ("a.example", "/out/passwd", 404, "leads out of the root"),
            ("a.example", "/%zz", 400, "malformed"),
            ("a.example", "/nothing", 404, "the page for 404 is `/index.html`"),
            ("b.example", "/users/jane", 200, "`spa` is on, and"),
            ("b.example", "/users/jane.doe", 200, "`spa` is on, and"),
            ("b.example", "/users/jane.css", 404, "`spa` is on, but"),
        ] {
            let explained = explain(&settings, &Arc::default(), &asked(Some(host), target)).unwrap();
            let because = explained.because.join("; ");
            assert_eq!(explained.status, Some(status), "{host}{target}: {explained}");
            assert!(because.contains(said), "{host}{target}: {because}");
        }
    }

    #[test]
    fn the_site_is_named_with_the_reason_for_it() {
        let root = tempfile::tempdir().unwrap();
        let settings = settings(root.path());
        let why = |host| {
            explain(&settings, &Arc::default(), &asked(host, "/"))
                .map(|found| (found.site, found.site_because))
                .unwrap()
        };
        assert_eq!(why(Some("B.example")), ("b.example".into(), "`b.example` is among its hosts".into()));
        assert_eq!(why(Some("x.a.example")), ("a.example".into(), "`*.a.example` is among its hosts".into()));
        let (site, because) = why(Some("c.example"));
        assert!(site == "a.example" && because.contains("no site has the host"), "{because}");
        assert!(why(None).1.contains("no host is named"));
    }

    #[test]
    fn who_answers_and_who_is_kept_out_is_said() {
        let root = tempfile::tempdir().unwrap();
        write(root.path().join("a.php"), "<?php").unwrap();
        let text = format!(
            "[[site]]\nroot = {:?}\nusers = {{ ada = \"$argon2id$v=19$m=64,t=1,p=1$c2FsdHNhbHRzYWx0c2FsdA$\
             kyj4KAQPkDHofxQqmZFrtcrDql5eltyrs3W6/tB5JPs\" }}\n\
             [[site.route]]\nmatch = \"/api/*\"\nproxy = \"127.0.0.1:3000\"\naccess = {{ users = [\"ada\"] }}\n\
             [[site.route]]\nmatch = \"*.php\"\nfastcgi = \"127.0.0.1:9000\"\n",
            root.path()
        );
        let settings = lamna_config::parse(&text, &root.path().join("a.toml")).unwrap();
        let of = |target: &str| explain(&settings, &Arc::default(), &asked(None, target)).unwrap();
        let proxied = of("/api/x");
        assert_eq!((proxied.status, proxied.file.as_deref(), &proxied.fields[..]), (None, None, &[][..]));
        let shown = proxied.to_string();
        for part in ["401 without credentials", "answer   that of the application", "127.0.0.1:3000"] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        assert!(!shown.contains("there is no `"), "files do not matter: {shown}");
        let script = of("/a.php");
        let application = script.application.unwrap();
        assert!(application.contains("127.0.0.1:9000") && application.contains("a.php"), "{application}");
        assert_eq!(of("/b.php").status, Some(404));
    }

    #[test]
    fn rules_are_named_with_where_they_stand_and_what_they_do() {
        let root = tempfile::tempdir().unwrap();
        write(root.path().join("a.html"), "a").unwrap();
        write(root.path().join("_redirects"), "/old/* /new/:splat 301\n").unwrap();
        let text = format!(
            "[[site]]\nroot = {:?}\nrule_files = true\n[[site.route]]\nmatch = \"*\"\ntry = [\"$path\", \"$path.html\"]\n",
            root.path()
        );
        let settings = lamna_config::parse(&text, &root.path().join("a.toml")).unwrap();
        let of = |target: &str| explain(&settings, &Arc::default(), &asked(None, target)).unwrap();
        let tried = of("/a");
        assert!(
            tried.status == Some(200) && tried.because.iter().any(|one| one == "try $path, then $path.html"),
            "{tried}"
        );
        let moved = of("/old/b");
        let said = moved.because.join("; ");
        assert!(
            moved.status == Some(301) && said.contains("the route `/old/*` (_redirects, line 1) applies"),
            "{said}"
        );
        assert!(said.contains("with 301, where there is nothing"), "{said}");
    }

    #[test]
    fn what_is_cached_is_said() {
        let root = tempfile::tempdir().unwrap();
        let settings = settings(root.path());
        let sites = Sites::with_services(&settings, &Arc::default()).unwrap();
        let store = Store::new(1 << 20, 16);
        let asked = asked(Some("a.example"), "/docs/a.txt?x");
        assert!(cache_state(&sites, &store, &asked, 0).contains("nothing is kept"));
        let resource = sites.find(None).pages.refusals[0].clone();
        store.insert(Key { site: 0, path: b"/docs/a.txt" }, Arc::new(Entry::shared(resource, Stamps::none(), 1000)));
        let said = cache_state(&sites, &store, &asked, 1500);
        assert!(said.contains("held") && said.contains("of memory"), "{said}");
    }

    #[test]
    fn fields_and_codings_are_those_of_the_answer() {
        let root = tempfile::tempdir().unwrap();
        let mut settings = settings(root.path());
        write(root.path().join("www/large.css"), "a{b:c}".repeat(1000)).unwrap();
        settings.sites[0].headers = vec![("Cache-Control".into(), "no-store".into())];
        let explained = explain(&settings, &Arc::default(), &asked(Some("a.example"), "/large.css")).unwrap();
        assert!(explained.fields.iter().any(|field| field == "Cache-Control: no-store"), "{explained}");
        assert!(explained.fields.iter().any(|field| field == "Content-Length: 6000"), "{explained}");
        let json = serde_json::to_value(&explained).unwrap();
        assert_eq!(json["status"], 200);
    }
}
