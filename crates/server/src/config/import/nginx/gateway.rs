//! Applications of nginx: `upstream`, `proxy_pass` and `fastcgi_pass`, and what stands beside them.
//!
//! Owns: which of them mean the same here, and words for the others. nginx tells an application another `Host` than the client's unless it
//! is told to, and puts what stands behind the address in place of what the location begins with.

use super::limit::bytes;
use super::syntax::Directive;
use super::{Draft, milliseconds};
use crate::config::import::{PASSED_WORDS, list};
use crate::config::render::quoted;
use crate::config::route::pattern::Pattern;
use crate::config::upstream_address::UpstreamAddress;

/// Several places under one name.
#[derive(Clone, Debug)]
pub(super) struct Upstream {
    name: String,
    places: Vec<(String, u32)>,
}

/// What a block says about an application.
#[derive(Clone, Debug, Default)]
pub(super) struct Gateway {
    /// The directive that passes requests on: its line, its text, and where to.
    pass: Option<(usize, String, Way, String)>,
    host: Option<String>,
    /// Keys and milliseconds.
    timeouts: Vec<(&'static str, u64)>,
    /// Content is kept until it is whole. nginx does so unless it is told not to; here it is said.
    keeps_content: bool,
    /// How much of it in memory.
    memory_bytes: Option<u64>,
    /// Answers are kept.
    keeps_answers: bool,
    /// For how many seconds, if they do not say so themselves.
    fresh_s: Option<u64>,
}

/// How an application is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Http,
    FastCgi,
}

/// What of a route says that an application answers it.
pub(super) enum Routed {
    /// Nothing is passed on.
    Nothing,
    /// It cannot be passed on, and is not to be served.
    Denied,
    /// This key with this value.
    By(&'static str, String),
    /// Scripts are run, wherever the files of the site have some: for all of the site.
    Scripts(String),
}

/// Fields that applications are told here as well.
const TOLD: &[&str] =
    &["x-real-ip", "x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "upgrade", "connection", "x-scheme"];

/// What is so here without a word about it.
const NEEDLESS: &[&str] = &[
    "proxy_http_version",
    "proxy_buffering",
    "proxy_buffers",
    "proxy_buffer_size",
    "proxy_busy_buffers_size",
    "proxy_cache_bypass",
    "proxy_no_cache",
    "proxy_cache_path",
    "proxy_cache_lock",
    "proxy_cache_lock_age",
    "proxy_cache_lock_timeout",
    "proxy_cache_methods",
    "proxy_cache_min_uses",
    "proxy_cache_revalidate",
    "proxy_cache_background_update",
    "fastcgi_cache_path",
    "fastcgi_cache_lock",
    "fastcgi_param",
    "fastcgi_index",
    "fastcgi_split_path_info",
    "fastcgi_buffers",
    "fastcgi_buffer_size",
    "fastcgi_buffering",
];

/// The places of an `upstream`.
pub(super) fn upstream(directive: &Directive, draft: &mut Draft) -> Upstream {
    let mut places = Vec::new();
    for inner in directive.block.as_deref().unwrap_or_default() {
        match &*inner.name {
            "server" => {
                let has = |word: &str| inner.arguments.iter().any(|one| one == word);
                let weight = inner.arguments.iter().find_map(|word| word.strip_prefix("weight=")?.parse().ok());
                if !has("down") {
                    places.push((inner.argument(0).to_owned(), if has("backup") { 0 } else { weight.unwrap_or(1) }));
                }
            }
            "keepalive" | "keepalive_timeout" | "keepalive_requests" | "zone" | "random" | "least_conn" => {}
            _ => draft.lose(inner.line, format!("`{}`: places share requests by their weights", inner.text())),
        }
    }
    Upstream { name: directive.argument(0).to_owned(), places }
}

impl Gateway {
    /// A block says itself what an application is told.
    pub(super) fn forget_host(&mut self) {
        self.host = None;
    }

    /// A block within is not passed on unless it says so itself.
    pub(super) fn forget_pass(&mut self) {
        self.pass = None;
    }

    /// Takes over what a directive says. False if it says nothing about applications.
    pub(super) fn take(&mut self, directive: &Directive, draft: &mut Draft) -> bool {
        let name = &*directive.name;
        match name {
            "proxy_pass" | "fastcgi_pass" => {
                let way = if name == "proxy_pass" { Way::Http } else { Way::FastCgi };
                self.pass = Some((directive.line, directive.text(), way, directive.argument(0).to_owned()));
            }
            "proxy_set_header" => self.header(directive, draft),
            "proxy_connect_timeout" | "fastcgi_connect_timeout" => self.timeout("connect_timeout_ms", directive, draft),
            "proxy_read_timeout" | "fastcgi_read_timeout" => self.timeout("timeout_ms", directive, draft),
            "proxy_request_buffering" | "fastcgi_request_buffering" => {
                self.keeps_content = directive.argument(0) == "on";
            }
            "client_body_buffer_size" => {
                self.memory_bytes = bytes(directive.argument(0)).map(|bytes| bytes.min(64 << 20))
            }
            "proxy_cache" | "fastcgi_cache" => self.keeps_answers = directive.argument(0) != "off",
            "proxy_cache_valid" | "fastcgi_cache_valid" => self.valid(directive, draft),
            // That of reading is for both.
            "proxy_send_timeout" | "fastcgi_send_timeout" => {}
            "proxy_redirect" if matches!(directive.argument(0), "off" | "default") => {}
            "include" if includes_parameters(directive.argument(0)) => {}
            name if NEEDLESS.contains(&name) => {}
            _ => return false,
        }
        true
    }

    fn header(&mut self, directive: &Directive, draft: &mut Draft) {
        let (name, value) = (directive.argument(0).to_ascii_lowercase(), directive.argument(1));
        let why = match &*name {
            "host" => return self.host = Some(value.to_owned()),
            name if TOLD.contains(&name) => return,
            _ => "which fields an application is told is in docs/gateways.md",
        };
        draft.lose(directive.line, format!("`{}`: {why}", directive.text()));
    }

    /// How long answers are fresh. Here it is the same for all that may be kept.
    fn valid(&mut self, directive: &Directive, draft: &mut Draft) {
        let Some((time, statuses)) = directive.arguments.split_last() else { return };
        let is_for_content = statuses.is_empty() || statuses.iter().any(|status| matches!(&**status, "200" | "any"));
        match milliseconds(time).filter(|_| is_for_content) {
            Some(ms) => self.fresh_s = Some((ms / 1000).min(31_536_000)),
            None => {
                draft.lose(directive.line, format!("`{}`: one time is for all statuses (`fresh_s`)", directive.text()))
            }
        }
    }

    /// The value of `cache` beside an application, if its answers are kept.
    pub(super) fn cache(&self) -> Option<String> {
        let value = self.fresh_s.map_or_else(|| "true".to_owned(), |seconds| format!("{{ fresh_s = {seconds} }}"));
        self.keeps_answers.then_some(value)
    }

    fn timeout(&mut self, key: &'static str, directive: &Directive, draft: &mut Draft) {
        match milliseconds(directive.argument(0)).filter(|ms| (1..=3_600_000).contains(ms)) {
            Some(ms) => {
                self.timeouts.retain(|(other, _)| *other != key);
                self.timeouts.push((key, ms));
            }
            None => draft.lose(directive.line, format!("`{}`: it is longer than an hour", directive.text())),
        }
    }

    /// What becomes of it for a location of `pattern`; none for a server.
    pub(super) fn route(&self, pattern: Option<&Pattern>, upstreams: &[Upstream], draft: &mut Draft) -> Routed {
        let Some((line, text, way, to)) = &self.pass else { return Routed::Nothing };
        let are_scripts = matches!(pattern, Some(Pattern::Regex(text)) if text.contains("php"));
        match self.value(*way, to, pattern, upstreams, are_scripts) {
            Ok(value) if *way == Way::Http => Routed::By("proxy", value),
            Ok(value) if are_scripts => Routed::Scripts(value),
            Ok(value) => Routed::By("fastcgi", value),
            Err(why) => {
                draft.lose(*line, format!("`{text}`: {why}, so what it is for is answered with 404"));
                Routed::Denied
            }
        }
    }

    fn value(
        &self,
        way: Way,
        to: &str,
        pattern: Option<&Pattern>,
        upstreams: &[Upstream],
        are_scripts: bool,
    ) -> Result<String, String> {
        if to.contains('$') {
            return Err("an address is written out".to_owned());
        }
        let authority = match way {
            Way::Http => {
                let unverified = "nginx does not verify the certificate of an application, and this server does";
                let rest = to.strip_prefix("http://").ok_or(unverified)?;
                // `http://unix:/run/a.sock:/path`
                let (authority, path) = match rest.strip_prefix("unix:") {
                    Some(rest) => rest.split_once(':').map_or((rest, ""), |(socket, path)| (socket, path)),
                    None => rest.split_at(rest.find('/').unwrap_or(rest.len())),
                };
                let begins = match pattern {
                    Some(Pattern::Prefix(prefix) | Pattern::Exact(prefix)) => prefix.as_str(),
                    Some(_) => "",
                    None => "/",
                };
                if !path.is_empty() && path != begins {
                    return Err(format!("the application would be asked for `{path}` in place of `{begins}`"));
                }
                if rest.starts_with("unix:") { format!("unix:{authority}") } else { authority.to_owned() }
            }
            Way::FastCgi if to.contains("://") => return Err("it is no address of FastCGI".to_owned()),
            Way::FastCgi => to.to_owned(),
        };
        let named = upstreams.iter().find(|one| one.name == authority);
        let places = named.map_or_else(|| vec![(authority.clone(), 1)], |one| one.places.clone());
        let mut addresses = Vec::new();
        for (place, _) in &places {
            let is_path = place.starts_with("unix:");
            let address = if is_path || way == Way::FastCgi { place.clone() } else { format!("http://{place}") };
            let read = address.parse::<UpstreamAddress>().map_err(|why| format!("`{place}` {why}"))?;
            if read.is_secure {
                return Err(format!("`{place}` uses TLS, and FastCGI has none"));
            }
            addresses.push(address);
        }
        if addresses.is_empty() {
            return Err("it has no places".to_owned());
        }
        let mut keys = self.keys(way, &places, &authority);
        if way == Way::FastCgi && !are_scripts {
            keys.push("extensions = []".to_owned());
        }
        let to = match &addresses[..] {
            [one] => quoted(one),
            several => list(several),
        };
        let is_plain = keys.is_empty() && addresses.len() == 1;
        keys.insert(0, format!("to = {to}"));
        Ok(if is_plain { to } else { format!("{{ {} }}", keys.join(", ")) })
    }

    /// The keys that say where a service is, which is asked for who is let in by a location of `path`.
    pub(super) fn service(&self, path: &str, upstreams: &[Upstream]) -> Result<String, String> {
        let Some((_, _, Way::Http, to)) = &self.pass else {
            return Err("its location passes no request on by `proxy_pass`".to_owned());
        };
        let (scheme, rest) = to.split_once("://").unwrap_or(("", to));
        let (authority, own) =
            rest.split_at(rest.find('/').filter(|_| !rest.starts_with("unix:")).unwrap_or(rest.len()));
        if own.contains('$') {
            return Err("the path that a service is asked for is written out".to_owned());
        }
        let value = self.value(Way::Http, &format!("{scheme}://{authority}"), None, upstreams, false)?;
        let keys = value.strip_prefix("{ ").and_then(|keys| keys.strip_suffix(" }"));
        let keys = keys.map_or_else(|| format!("to = {value}"), str::to_owned);
        if keys.contains("weights = ") {
            return Err("its places have weights".to_owned());
        }
        Ok(format!("{keys}, path = {}", quoted(if own.is_empty() { path } else { own })))
    }

    /// Keys beside the places.
    fn keys(&self, way: Way, places: &[(String, u32)], authority: &str) -> Vec<String> {
        let mut keys = Vec::new();
        if places.iter().any(|(_, weight)| *weight != 1) {
            let weights: Vec<String> = places.iter().map(|(_, weight)| weight.to_string()).collect();
            keys.push(format!("weights = [{}]", weights.join(", ")));
        }
        let is_clients = |host: &str| matches!(host, "$host" | "$http_host");
        match &self.host {
            _ if way == Way::FastCgi => {}
            Some(host) if is_clients(host) => {}
            Some(host) if !host.contains('$') => keys.push(format!("host = {}", quoted(host))),
            _ if authority.starts_with("unix:") => keys.push(format!("host = {}", quoted("localhost"))),
            _ => keys.push(format!("host = {}", quoted(authority))),
        }
        if self.keeps_content {
            keys.push(
                self.memory_bytes.map_or_else(|| "buffer = true".to_owned(), |bytes| format!("buffer = {bytes}")),
            );
        }
        keys.extend(self.timeouts.iter().map(|(key, ms)| format!("{key} = {ms}")));
        keys
    }
}

/// Files that set the parameters of FastCGI.
pub(super) fn includes_parameters(file: &str) -> bool {
    ["fastcgi_params", "fastcgi.conf", "fastcgi-php.conf", "proxy_params"].iter().any(|name| file.ends_with(name))
}

/// Why requests for programs of another kind are not passed on.
pub(super) fn passed_words(name: &str) -> String {
    format!("{name} is not spoken: {PASSED_WORDS}")
}
