//! Configurations of other servers as one of Lamna: `lamna import`.
//!
//! Owns: the text that comes out, and the list of what is not in it. Guarantees: every directive of the other
//! configuration is carried over, or is in one of two lists with its line: what is not carried over, and what needs
//! nothing here. What comes out is a configuration, as far as directories of the other one exist, and sends no file
//! that the other server would have had a program run: both are made sure of at the result (`proof`), which is refused
//! otherwise. What cannot be restricted here, or is another program's, is answered with 404 and not served. Reads no
//! file: the caller has read it, and reads those that it names ([`Files`]).

#![forbid(unsafe_code)]

mod apache;
#[cfg(test)]
mod asked;
mod audit;
mod caddy;
mod haproxy;
mod kind;
mod listen;
mod matching;
mod nginx;
mod plain;
mod proof;
mod reach;
mod respond;
mod told;

use std::collections::BTreeMap;
use std::fmt::Write;

pub use apache::ApacheOptions;
pub use kind::Kind;
use lamna_config::render::quoted;
use lamna_config::site::is_single;
use proof::Source;

/// The result of an import.
#[derive(Debug, Default)]
pub struct Imported {
    /// The configuration file, with what is not in it as comments.
    pub text: String,
    /// Directives that are not in it.
    pub lost: Vec<Note>,
    /// Directives that need nothing here, and why.
    pub needless: Vec<Note>,
}

/// Something about a line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Note {
    /// The file, if it is one that the configuration includes.
    pub file: Option<String>,
    /// Counted from 1.
    pub line: usize,
    /// The directive, and why it is not carried over.
    pub words: String,
}

/// Reads a file that a configuration names, by the path that stands there: its text, or why not.
pub type ReadFile<'a> = &'a dyn Fn(&str) -> Result<String, String>;

/// Access to files beside a configuration.
#[derive(Clone, Copy)]
pub struct Files<'a> {
    /// Reads a file.
    pub read: ReadFile<'a>,
    /// The paths that a pattern of a shell stands for, in their order.
    pub list: &'a dyn Fn(&str) -> Vec<String>,
}

/// Lines of the files that a configuration includes begin at a multiple of this, so that a number says the file as
/// well.
const FILE_LINES: usize = 1 << 24;

impl Note {
    /// About a line of the configuration itself.
    fn new(line: usize, words: impl Into<String>) -> Note {
        Note { file: None, line, words: words.into() }
    }

    /// Where it is about, as it is written before the words.
    pub fn place(&self) -> String {
        match &self.file {
            Some(file) => format!("{file}, line {}", self.line),
            None => format!("line {}", self.line),
        }
    }
}

/// Imports the configuration of nginx, with the files that it names.
///
/// # Errors
/// It cannot be read, or what comes of it may not be served: where, and why.
pub fn nginx(text: &str, files: Files<'_>) -> Result<Imported, Note> {
    nginx::import(text, files)
}

/// Imports a Caddyfile.
///
/// # Errors
/// It cannot be read: where, and why.
pub fn caddy(text: &str) -> Result<Imported, Note> {
    caddy::import(text)
}

/// Imports the configuration of HAProxy, with the files that it names.
///
/// # Errors
/// It cannot be read, or what comes of it may not be served: where, and why.
pub fn haproxy(text: &str, files: Files<'_>) -> Result<Imported, Note> {
    haproxy::import(text, files)
}

/// Imports the configuration of Apache, with the files that it names, or a `.htaccess`.
///
/// # Errors
/// It cannot be read, or what comes of it may not be served: where, and why.
pub fn apache(text: &str, files: Files<'_>, options: &ApacheOptions) -> Result<Imported, Note> {
    apache::import(text, files, options)
}

/// A file that is being written.
#[derive(Debug, Default)]
struct Draft {
    listen: Vec<String>,
    /// The words of the other server about addresses.
    entries: BTreeMap<String, listen::Entry>,
    /// The ports that Caddy takes for those of HTTP and of HTTPS, if it is told to take others.
    ports: caddy::Ports,
    /// The order of Caddy's directives.
    order: caddy::Order,
    log: Option<String>,
    /// Further keys before the first table, and values as they are written.
    keys: Vec<(&'static str, String)>,
    limits: Vec<(String, String)>,
    /// Files of passwords by their paths: what is in them, or why they cannot be read.
    files: BTreeMap<String, Result<String, String>>,
    /// The connection limits of servers per client: line, text and the most, for servers that have one.
    connections: Vec<Option<(usize, String, u64)>>,
    /// The most connections of a client network.
    connection_limit: Option<u64>,
    /// The trusted proxies of servers.
    proxies: Vec<nginx::Proxied>,
    sites: Vec<Site>,
    lost: Vec<Note>,
    /// Directives that need nothing here.
    needless: Vec<Note>,
    /// Blocks of a site of which one is taken.
    handles: Vec<caddy::Handle>,
    /// Rewrites in a site of Caddy: line and text, `match`, and the path.
    rewritten: Vec<(usize, String, String, String)>,
    /// Changes of fields of requests by Caddy.
    request_fields: Vec<caddy::RequestField>,
    /// Where Caddy sends files.
    file_servers: Vec<caddy::FileServer>,
    /// Where all sites of Caddy listen that do not say it themselves.
    interfaces: Option<Vec<String>>,
    /// Paths of files that are included.
    file_names: Vec<String>,
}

/// A `[[site]]`.
#[derive(Debug, Default)]
struct Site {
    line: usize,
    is_default: bool,
    hosts: Vec<String>,
    /// Addresses at which the other server has it answer; none where that is not said.
    listens: Vec<String>,
    /// Whether it leads to the same with TLS, but for what is `beside_tls`.
    leads_to_tls: bool,
    beside_tls: Vec<plain::Beside>,
    /// Keys and values, as they are written.
    keys: Vec<(&'static str, String)>,
    aliases: Vec<(String, String)>,
    /// The paths that begin so, a key and its value.
    limits: Vec<(String, &'static str, String)>,
    routes: Vec<Route>,
    /// Names and hashes of passwords.
    users: Vec<(String, String)>,
    /// The other server's treatment of some paths.
    source: Option<Source>,
}

/// A `[[site.route]]`.
#[derive(Clone, Debug, Default)]
struct Route {
    line: usize,
    /// Keys and values, as they are written.
    keys: Vec<(&'static str, String)>,
}

impl Draft {
    fn lose(&mut self, line: usize, words: impl Into<String>) {
        self.lost.push(Note::new(line, words));
    }

    /// Notes a directive that asks for the behaviour here, or for one that has no meaning here.
    fn need_not(&mut self, line: usize, words: impl Into<String>) {
        self.needless.push(Note::new(line, words));
    }

    /// With the file in the place of a number that says it as well.
    fn placed(&self, mut note: Note) -> Note {
        if let Some(file) = (note.line / FILE_LINES).checked_sub(1) {
            note.file = self.file_names.get(file).cloned();
            note.line %= FILE_LINES;
        }
        note
    }

    /// Listens at an address, for plain HTTP or for TLS.
    fn listen(&mut self, line: usize, address: String, is_plain: bool) {
        let entry = self.entries.entry(address.clone()).or_default();
        match is_plain {
            true => entry.plain = entry.plain.or(Some(line)),
            false => entry.is_secure = true,
        }
        if !self.listen.contains(&address) {
            self.listen.push(address);
        }
    }

    /// A key before the first table. The first one counts.
    fn key(&mut self, key: &'static str, value: String) {
        if !self.keys.iter().any(|(other, _)| *other == key) {
            self.keys.push((key, value));
        }
    }

    /// Adds a site, for the hosts that no other one has. Sites answer on every address: of two with the same host, of
    /// which one leads to the other by TLS, the other is the site. If it has a certificate, nothing is missing: port 80
    /// leads to it.
    fn add(&mut self, mut site: Site) {
        let shares = |one: &Site, other: &Site| {
            one.hosts.is_empty() && other.hosts.is_empty() || one.hosts.iter().any(|host| plain::is_for(other, host))
        };
        let left_out = "it leads to the same with TLS, which is not carried over: the site itself answers";
        if site.leads_to_tls {
            let (is_needless, notes) = plain::give_way(&mut site, &mut self.sites);
            self.lost.extend(notes);
            if is_needless {
                return self.forget_root(site.line);
            }
        }
        let places = if site.leads_to_tls { 0..0 } else { 0..self.sites.len() };
        for at in places.rev() {
            if self.sites[at].leads_to_tls && shares(&self.sites[at], &site) {
                self.forget_root(self.sites[at].line);
                self.lost.extend(plain::hand_on(&self.sites[at], &mut site));
                if !plain::has_tls(&site) {
                    self.lose(self.sites[at].line, format!("this redirect of {}: {left_out}", names_of(&site)));
                }
                let earlier = &mut self.sites[at];
                earlier.hosts.retain(|host| !plain::is_for(&site, host));
                if earlier.hosts.is_empty() {
                    site.is_default |= earlier.is_default;
                    self.sites.remove(at);
                }
            }
        }
        let (line, had_hosts) = (site.line, !site.hosts.is_empty());
        let is_taken = |host: &String| self.sites.iter().any(|other| other.hosts.contains(host));
        let (taken, own): (Vec<String>, Vec<String>) = std::mem::take(&mut site.hosts).into_iter().partition(is_taken);
        site.hosts = own;
        let why =
            if site.leads_to_tls { left_out } else { "an earlier one has this name, and answers on every address" };
        for host in taken {
            self.lose(line, format!("`{host}`: {why}"));
        }
        let is_second = site.hosts.is_empty() && self.sites.iter().any(|other| other.hosts.is_empty());
        if !had_hosts && is_second {
            let why =
                if site.leads_to_tls { left_out } else { "an earlier one is for any host already, on every address" };
            return self.lose(line, format!("this site and all that it says: {why}"));
        }
        if !had_hosts || !site.hosts.is_empty() {
            self.sites.push(site);
        }
    }

    /// A site that only leads elsewhere needs no root.
    fn forget_root(&mut self, line: usize) {
        self.lost.retain(|note| note.line != line || !note.words.contains("has no `root`"));
    }

    /// Nothing is said any more: what is left is to be written.
    fn settle(&mut self) {
        listen::settle(self);
        reach::keep(self);
        for notes in [&mut self.lost, &mut self.needless] {
            notes.sort();
            notes.dedup();
        }
        // The first site answers for hosts that no site names: beside it, one without names has those without a host.
        self.sites.sort_by_key(|site| !site.is_default);
        if self.sites.first().is_some_and(|first| !first.hosts.is_empty()) {
            let (kept, nameless) = std::mem::take(&mut self.sites).into_iter().partition(|site| !site.hosts.is_empty());
            self.sites = kept;
            for site in nameless {
                let why = "only requests without a host are for it, as another one answers for hosts that none names";
                self.lose(site.line, format!("this site and all that it says: {why}"));
            }
        }
    }

    /// All that comes out.
    fn outcome(mut self) -> String {
        self.settle();
        format!("{}{:?}{:?}", self.body(), self.lost, self.needless)
    }

    /// Whether something is said of a directive in a line.
    fn says(&self, line: usize, text: &str) -> bool {
        let text = format!("`{text}`");
        self.lost.iter().chain(&self.needless).any(|note| note.line == line && note.words.contains(&text))
    }

    /// # Errors
    /// It would send what the other server runs, or cannot be loaded.
    fn finish(mut self, of: &str) -> Result<Imported, Note> {
        self.settle();
        let mut text = format!(
            "# Made from a configuration of {of} by `lamna import`. `lamna check` shows what applies in the end.\n"
        );
        let [lost, needless] = [&self.lost, &self.needless]
            .map(|notes| notes.iter().map(|note| self.placed(note.clone())).collect::<Vec<Note>>());
        if lost.is_empty() {
            text.push_str("# Everything in it is carried over.\n");
        }
        for (title, notes) in [("Not carried over:", &lost), ("Needs nothing here:", &needless)] {
            if !notes.is_empty() {
                text.push_str(&format!("#\n# {title}\n"));
            }
            for note in notes {
                text.push_str(&format!("# {}: {}\n", one_line(&note.place()), one_line(&note.words)));
            }
        }
        self.keep_rootless();
        let head = text.clone();
        text.push_str(&self.body());
        if let Err(note) = proof::prove(&text, &self.sites) {
            // Of two refusals or more for the same paths none counts for another: the first does.
            if !note.words.contains("are equally specific") || !self.put_refusals_first() {
                return Err(self.placed(note));
            }
            text = head + &self.body();
            proof::prove(&text, &self.sites).map_err(|note| self.placed(note))?;
        }
        Ok(Imported { text, lost, needless })
    }

    /// A site without a root of which nothing is left but refusals refuses everything.
    fn keep_rootless(&mut self) {
        let is_answer = |(key, value): &(&str, String)| {
            matches!(*key, "respond" | "redirect") || matches!(*key, "proxy" | "uwsgi" | "scgi") && value != "false"
        };
        for site in &mut self.sites {
            let has_root = site.keys.iter().any(|(key, _)| *key == "root");
            if !has_root && !site.routes.iter().flat_map(|route| &route.keys).any(is_answer) {
                let keys = [("match", quoted("*")), ("priority", "-100000".to_owned()), ("respond", "404".to_owned())];
                site.routes.push(Route { line: site.line, keys: keys.into() });
            }
        }
    }

    /// Gives routes that only refuse the first places, one after the other. Whether there are some.
    fn put_refusals_first(&mut self) -> bool {
        let mut place = 200_000;
        let denied = denied();
        for route in self.sites.iter_mut().flat_map(|site| &mut site.routes) {
            let refuses = |(key, value): &(&'static str, String)| match *key {
                "match" => true,
                "respond" => value.starts_with(['4', '5']),
                "priority" => value == DENIED_PRIORITY,
                _ => denied.contains(&(*key, value.clone())),
            };
            if route.keys.len() > 1 && route.keys.iter().all(refuses) {
                place -= 1;
                route.keys.retain(|(key, _)| *key != "priority");
                route.keys.push(("priority", place.to_string()));
            }
        }
        place < 200_000
    }

    /// The configuration, without what is said of it.
    fn body(&self) -> String {
        let mut text = String::new();
        let mut line = |words: std::fmt::Arguments<'_>| {
            writeln!(text, "{words}").expect("writing to a string does not fail");
        };
        line(format_args!(""));
        if !self.listen.is_empty() {
            line(format_args!("listen = {}", listen::render(self)));
        }
        if let Some(log) = &self.log {
            line(format_args!("log = {}", quoted(log)));
        }
        let is_alone = self.log.is_none() && self.sites.len() == 1;
        let is_of_log = |key: &str| is_alone && matches!(key, "log" | "log_format");
        let of_log = self.sites.iter().flat_map(|site| &site.keys).filter(|(key, _)| is_of_log(key));
        // What the only site has is that of the server, which flags can change.
        of_log.for_each(|(key, value)| line(format_args!("{key} = {value}")));
        self.keys.iter().for_each(|(key, value)| line(format_args!("{key} = {value}")));
        if let Some(most) = self.connection_limit {
            line(format_args!("connection_limit = {most}"));
        }
        if !self.limits.is_empty() {
            line(format_args!("\n[limits]"));
            self.limits.iter().for_each(|(key, value)| line(format_args!("{key} = {value}")));
        }
        for site in &self.sites {
            line(format_args!("\n# {}\n[[site]]", one_line(&self.placed(Note::new(site.line, "")).place())));
            if !site.hosts.is_empty() {
                line(format_args!("hosts = {}", list(&site.hosts)));
            }
            let keys = site.keys.iter().filter(|(key, _)| !is_of_log(key));
            keys.for_each(|(key, value)| line(format_args!("{key} = {value}")));
            if !site.users.is_empty() {
                let users = site.users.iter().map(|(name, hash)| format!("{} = {}", quoted(name), quoted(hash)));
                line(format_args!("users = {{ {} }}", users.collect::<Vec<_>>().join(", ")));
            }
            for (prefix, root) in &site.aliases {
                line(format_args!("\n[[site.alias]]\nprefix = {}\nroot = {}", quoted(prefix), quoted(root)));
            }
            for (path, key, value) in &site.limits {
                line(format_args!("\n[[site.limit]]\npath = {}\n{key} = {}", quoted(path), quoted(value)));
            }
            for route in &site.routes {
                line(format_args!("\n# {}\n[[site.route]]", one_line(&self.placed(Note::new(route.line, "")).place())));
                route.keys.iter().for_each(|(key, value)| line(format_args!("{key} = {value}")));
            }
        }
        text
    }
}

/// The value of `headers` for fields that stand beside what an application says: nothing of its own is replaced or
/// removed. Of the names in `kept` nothing counts that is said for more paths.
fn beside_applications(fields: &[(String, Vec<String>)], kept: &[String]) -> String {
    let is_default = |name: &str| is_single(name) || name.eq_ignore_ascii_case("Cache-Control");
    let (default, added): (Vec<_>, Vec<_>) = fields.iter().partition(|(name, _)| is_default(name));
    let mut keys = Vec::new();
    for (key, fields) in [("default", default), ("add", added)] {
        if !fields.is_empty() {
            let fields = fields.into_iter().map(|(name, values)| format!("{} = {}", quoted(name), values_of(values)));
            keys.push(format!("{key} = {{ {} }}", fields.collect::<Vec<_>>().join(", ")));
        }
    }
    if !kept.is_empty() {
        keys.push(format!("keep = {}", list(kept)));
    }
    format!("[{{ {} }}]", keys.join(", "))
}

/// One value, or a list of them.
fn values_of(values: &[String]) -> String {
    if let [one] = values { quoted(one) } else { list(values) }
}

fn names_of(site: &Site) -> String {
    if site.hosts.is_empty() { "any host".to_owned() } else { format!("`{}`", site.hosts.join("`, `")) }
}

/// Whether a file is a program for another server to run, and nothing to be sent.
fn is_program(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let name = lower.split(['?', '#']).next().unwrap_or_default();
    [
        ".php", ".php3", ".php4", ".php5", ".php7", ".php8", ".phps", ".phtml", ".cgi", ".fcgi", ".pl", ".py", ".asp",
        ".aspx", ".jsp",
    ]
    .iter()
    .any(|end| name.ends_with(end))
}

/// Whether what is looked for may be answered by a program: any that does not end like a file that is sent.
fn may_be_run(to: &str) -> bool {
    let path = to.split('?').next().unwrap_or_default();
    let name = path.rsplit('/').next().unwrap_or_default();
    let end = name.rsplit_once('.').map_or("", |(_, end)| end);
    end.is_empty() || !end.bytes().all(|byte| byte.is_ascii_alphanumeric()) || is_program(path)
}

/// Keys of a route for which there is nothing, whatever other routes say.
fn denied() -> [(&'static str, String); 2] {
    [("rewrite", quoted("/.denied")), ("try", "[]".to_owned())]
}

const DENIED_WORDS: &str = "until then what it is for is answered with 404";
const LOCATION_WORDS: &str = "`Location` and cookies of the application go to the client as they are, without the \
                              prefix, unless `restore_prefix = true` is said";
const PASSED_WORDS: &str = "what another program answers, and cannot be asked for here, is answered with 404";

/// A priority beyond that of all that is allowed.
const DENIED_PRIORITY: &str = "100000";

fn one_line(words: &str) -> String {
    words.chars().map(|each| if each.is_control() { ' ' } else { each }).collect()
}

/// A list of strings.
fn list(texts: &[impl AsRef<str>]) -> String {
    let texts: Vec<String> = texts.iter().map(|text| quoted(text.as_ref())).collect();
    format!("[{}]", texts.join(", "))
}
