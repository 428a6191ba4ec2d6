//! Configurations of other servers as one of Lamna: `lamna import`.
//!
//! Owns: the text that comes out, and the list of what is not in it. Guarantees: every directive of the other configuration is
//! carried over, needs nothing, or is in the list with its line. What comes out is a configuration, as far as directories of the
//! other one exist. What cannot be restricted here, or is another program's, is answered with 404 and not served: a source file
//! that PHP would have run must not be sent. Reads no file: whoever asks has read it, and reads those of passwords (`ReadFile`).

mod caddy;
mod nginx;

use std::collections::BTreeMap;
use std::fmt::Write;

use super::render::quoted;

/// What came of a configuration.
#[derive(Debug, Default)]
pub struct Imported {
    /// The configuration file, with what is not in it as comments.
    pub text: String,
    /// What is not in it.
    pub lost: Vec<Note>,
}

/// Something about a line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Note {
    /// Counted from 1.
    pub line: usize,
    /// What stands there, and why it is not carried over.
    pub words: String,
}

/// Reads a file that a configuration names, by the path that stands there: its text, or why not.
pub type ReadFile<'a> = &'a dyn Fn(&str) -> Result<String, String>;

/// Imports the configuration of nginx. Files of passwords are read with `read`.
///
/// # Errors
/// It cannot be read: where, and why.
pub fn nginx(text: &str, read: ReadFile<'_>) -> Result<Imported, Note> {
    nginx::import(text, read)
}

/// Imports a Caddyfile.
///
/// # Errors
/// It cannot be read: where, and why.
pub fn caddy(text: &str) -> Result<Imported, Note> {
    caddy::import(text)
}

/// A file that is being written.
#[derive(Debug, Default)]
struct Draft {
    listen: Vec<String>,
    /// Addresses at which plain HTTP is spoken, with their lines.
    plain: Vec<(usize, String)>,
    log: Option<String>,
    /// Further keys before the first table, and values as they are written.
    keys: Vec<(&'static str, String)>,
    limits: Vec<(String, String)>,
    /// Files of passwords by their paths: what is in them, or why they cannot be read.
    files: BTreeMap<String, Result<String, String>>,
    /// What servers say about connections of a client: line, text and the most, for those that say something.
    connections: Vec<Option<(usize, String, u64)>>,
    /// The most connections of a client network.
    connection_limit: Option<u64>,
    sites: Vec<Site>,
    lost: Vec<Note>,
}

/// A `[[site]]`.
#[derive(Debug, Default)]
struct Site {
    line: usize,
    is_default: bool,
    hosts: Vec<String>,
    /// Whether all that it does is to lead to the same with TLS.
    leads_to_tls: bool,
    /// Keys and values, as they are written.
    keys: Vec<(&'static str, String)>,
    aliases: Vec<(String, String)>,
    /// The paths that begin so, a key and its value.
    limits: Vec<(String, &'static str, String)>,
    routes: Vec<Route>,
    /// Names and hashes of passwords.
    users: Vec<(String, String)>,
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
        self.lost.push(Note { line, words: words.into() });
    }

    /// Listens at an address, for plain HTTP or for TLS.
    fn listen(&mut self, line: usize, address: String, is_plain: bool) {
        if is_plain {
            self.plain.push((line, address.clone()));
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

    /// Adds a site, for the hosts that no other one has. Sites answer on every address: of two with the same host, of which one
    /// leads to the other by TLS, the other is the site. If it has a certificate, nothing is missing: port 80 leads to it.
    fn add(&mut self, mut site: Site) {
        let shares = |one: &Site, other: &Site| {
            one.hosts.is_empty() && other.hosts.is_empty() || one.hosts.iter().any(|host| other.hosts.contains(host))
        };
        let left_out = "it leads to the same with TLS, which is not carried over: the site itself answers";
        let has_tls = |site: &Site| site.keys.iter().any(|(key, _)| matches!(*key, "tls" | "certificate"));
        if site.leads_to_tls {
            let is_done = |host: &String| self.sites.iter().any(|other| has_tls(other) && other.hosts.contains(host));
            let had_hosts = !site.hosts.is_empty();
            site.hosts.retain(|host| !is_done(host));
            let is_default = !had_hosts && self.sites.iter().any(|other| has_tls(other) && other.hosts.is_empty());
            if had_hosts && site.hosts.is_empty() || is_default {
                return self.forget_root(site.line);
            }
        }
        for at in (0..self.sites.len()).rev().filter(|_| !site.leads_to_tls) {
            if self.sites[at].leads_to_tls && shares(&self.sites[at], &site) {
                self.forget_root(self.sites[at].line);
                if !has_tls(&site) {
                    self.lose(self.sites[at].line, format!("this redirect of {}: {left_out}", names_of(&site)));
                }
                let earlier = &mut self.sites[at];
                earlier.hosts.retain(|host| !site.hosts.contains(host));
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

    fn finish(mut self, of: &str) -> Imported {
        let speaks_tls =
            self.sites.iter().any(|site| site.keys.iter().any(|(key, _)| matches!(*key, "tls" | "certificate")));
        let why = "TLS is spoken at every address but port 80 where a site has a certificate (docs/tls.md)";
        for (line, address) in std::mem::take(&mut self.plain).into_iter().filter(|_| speaks_tls) {
            if !address.ends_with(":80") && !address.starts_with("unix:") {
                self.lose(line, format!("plain HTTP at {address}: {why}"));
            }
        }
        self.lost.sort();
        self.lost.dedup();
        // The first site answers for hosts that no site names.
        self.sites.sort_by_key(|site| !site.is_default);
        let mut text = format!(
            "# Made from a configuration of {of} by `lamna import`. `lamna check` shows what applies in the end.\n"
        );
        match self.lost.is_empty() {
            true => text.push_str("# Everything in it is carried over.\n"),
            false => text.push_str("#\n# Not carried over:\n"),
        }
        let mut line = |words: std::fmt::Arguments<'_>| {
            writeln!(text, "{words}").expect("writing to a string does not fail");
        };
        for Note { line: number, words } in &self.lost {
            line(format_args!("# line {number}: {}", one_line(words)));
        }
        line(format_args!(""));
        if !self.listen.is_empty() {
            line(format_args!("listen = {}", list(&self.listen)));
        }
        if let Some(log) = &self.log {
            line(format_args!("log = {}", quoted(log)));
        }
        self.keys.iter().for_each(|(key, value)| line(format_args!("{key} = {value}")));
        if let Some(most) = self.connection_limit {
            line(format_args!("connection_limit = {most}"));
        }
        if !self.limits.is_empty() {
            line(format_args!("\n[limits]"));
            self.limits.iter().for_each(|(key, value)| line(format_args!("{key} = {value}")));
        }
        for site in &self.sites {
            line(format_args!("\n# line {}\n[[site]]", site.line));
            if !site.hosts.is_empty() {
                line(format_args!("hosts = {}", list(&site.hosts)));
            }
            site.keys.iter().for_each(|(key, value)| line(format_args!("{key} = {value}")));
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
                line(format_args!("\n# line {}\n[[site.route]]", route.line));
                route.keys.iter().for_each(|(key, value)| line(format_args!("{key} = {value}")));
            }
        }
        Imported { text, lost: self.lost }
    }
}

fn names_of(site: &Site) -> String {
    if site.hosts.is_empty() { "any host".to_owned() } else { format!("`{}`", site.hosts.join("`, `")) }
}

/// Whether a file is a program for another server to run, and nothing to be sent.
fn is_program(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    [".php", ".phtml", ".cgi", ".fcgi", ".pl", ".py", ".asp", ".aspx", ".jsp"].iter().any(|end| lower.ends_with(end))
}

/// Keys of a route for which there is nothing, whatever other routes say.
fn denied() -> [(&'static str, String); 2] {
    [("rewrite", quoted("/.denied")), ("try", "[]".to_owned())]
}

const DENIED_WORDS: &str = "until then what it is for is answered with 404";
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
