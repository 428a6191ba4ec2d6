//! Applications of nginx: `upstream`, `proxy_pass`, `fastcgi_pass`, `uwsgi_pass`, `scgi_pass`, and what stands beside.
//!
//! Owns: which of them mean the same here, and words for the others. nginx tells an application another `Host` than the
//! client's unless it is told to, and puts what stands behind the address in place of what the location begins with.

use lamna_config::render::quoted;
use lamna_config::route::is_plain_path;
use lamna_config::route::pattern::Pattern;
use lamna_config::upstream_address::UpstreamAddress;

use super::limit::bytes;
use super::request_fields::{self, RequestField};
use super::scripts::{self, Scripts};
use super::syntax::Directive;
use super::{Draft, milliseconds};
use crate::told::is_believed;
use crate::{PASSED_WORDS, list};

/// Several places under one name.
#[derive(Clone, Debug)]
pub(super) struct Upstream {
    name: String,
    places: Vec<(String, u32)>,
    /// The value of `sticky`.
    sticky: Option<String>,
}

/// The directives of a block about an application.
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
    /// Answers are kept apart by more than what they are asked for by, or some of them are not kept.
    tells_answers_apart: bool,
    /// For how many seconds, if they do not say so themselves.
    fresh_s: Option<u64>,
    /// The most bytes of content.
    body_bytes_max: Option<u64>,
    /// Answers are compressed.
    compresses: bool,
    /// Its errors are answered with pages.
    intercepts_errors: bool,
    /// Fields that are written in the place of a client's, each over one way.
    fields: Vec<(Way, RequestField)>,
    /// Addresses that are changed in answers.
    addresses: Vec<Addresses>,
}

/// `proxy_redirect` or `proxy_cookie_path`: its line and text, and what becomes of which addresses.
#[derive(Clone, Debug)]
struct Addresses {
    line: usize,
    text: String,
    from: String,
    to: String,
}

impl Addresses {
    /// Whether they are those of the application, which are put behind `prefix`.
    fn are_behind(&self, prefix: &str) -> bool {
        let scheme = ["http://", "https://", "$scheme://"].iter().find_map(|scheme| self.to.strip_prefix(scheme));
        let hosts = ["$host", "$http_host", "$host:$server_port"];
        let path = match scheme {
            None => Some(&*self.to),
            Some(rest) => hosts
                .iter()
                .find_map(|host| rest.strip_prefix(host).filter(|rest| matches!(rest.as_bytes(), [] | [b'/', ..]))),
        };
        let is_own = self.from == "/" || self.from.starts_with("http://") && !self.from.contains('$');
        is_own && path.is_some_and(|path| path.trim_end_matches('/') == prefix)
    }
}

/// Keys of kept answers that say no more than what is asked for.
const USUAL_KEYS: [&str; 4] = [
    "$scheme$proxy_host$request_uri",
    "$scheme$host$request_uri",
    "$scheme$request_method$host$request_uri",
    "$scheme$proxy_host$uri$is_args$args",
];

/// How an application is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Http,
    FastCgi,
    Uwsgi,
    Scgi,
}

impl Way {
    /// The way of a directive as in `uwsgi_pass`, by what stands in front of `_pass` or `_param`.
    fn of(directive: &str, end: &str) -> Option<Way> {
        Some(match directive.strip_suffix(end)? {
            "proxy" => Way::Http,
            "fastcgi" => Way::FastCgi,
            "uwsgi" => Way::Uwsgi,
            "scgi" => Way::Scgi,
            _ => return None,
        })
    }

    /// As it is called.
    fn name(self) -> &'static str {
        match self {
            Way::Http => "HTTP",
            Way::FastCgi => "FastCGI",
            Way::Uwsgi => "uwsgi",
            Way::Scgi => "SCGI",
        }
    }

    /// The key of a route.
    fn key(self) -> &'static str {
        match self {
            Way::Http => "proxy",
            Way::FastCgi => "fastcgi",
            Way::Uwsgi => "uwsgi",
            Way::Scgi => "scgi",
        }
    }
}

/// The part of a route by which an application answers it.
pub(super) enum Routed {
    /// Nothing is passed on.
    Nothing,
    /// It cannot be passed on, and is not to be served.
    Denied,
    By {
        /// This key,
        key: &'static str,
        /// with this value,
        value: String,
        /// for paths that fit this expression, which is narrower than that of the location.
        narrowed: Option<String>,
    },
}

/// The places of an `upstream`.
pub(super) fn upstream(directive: &Directive, draft: &mut Draft) -> Upstream {
    let (mut places, mut sticky) = (Vec::new(), None);
    for inner in directive.block.as_deref().unwrap_or_default() {
        match &*inner.name {
            "server" => {
                let has = |word: &str| inner.arguments.iter().any(|one| one == word);
                let is_known = |word: &&String| word.starts_with("weight=") || matches!(&***word, "down" | "backup");
                for word in inner.arguments.iter().skip(1).filter(|word| !is_known(word)) {
                    let why = "a place that fails is left out for a while, and is asked whether it is well by `check` (docs/gateways.md)";
                    draft.lose(inner.line, format!("`{word}` of `{}`: {why}", inner.text()));
                }
                let weight = inner.arguments.iter().find_map(|word| word.strip_prefix("weight=")?.parse().ok());
                if !has("down") {
                    places.push((inner.argument(0).to_owned(), if has("backup") { 0 } else { weight.unwrap_or(1) }));
                }
            }
            "keepalive" | "keepalive_timeout" | "keepalive_requests" | "keepalive_time" | "zone" => {
                draft.need_not(
                    inner.line,
                    format!("`{}`: connections are kept, and known to all workers", inner.text()),
                );
            }
            "least_conn" => draft.need_not(inner.line, format!("`{}`: the less busy of two is asked", inner.text())),
            "ip_hash" | "hash" if sticky_of(inner).is_some() => sticky = sticky_of(inner),
            _ => draft.lose(inner.line, format!("`{}`: places share requests by their weights", inner.text())),
        }
    }
    Upstream { name: directive.argument(0).to_owned(), places, sticky }
}

/// The value of `sticky` for `ip_hash` or `hash`, if it can be said.
fn sticky_of(directive: &Directive) -> Option<String> {
    let by = directive.argument(0);
    let is_name = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    match (&*directive.name, by) {
        ("ip_hash", _) | (_, "$remote_addr" | "$binary_remote_addr") => Some(quoted("client")),
        _ => match (by.strip_prefix("$cookie_"), by.strip_prefix("$http_")) {
            (Some(name), _) if is_name(name) => Some(format!("{{ cookie = {} }}", quoted(name))),
            (_, Some(name)) if is_name(name) => Some(format!("{{ header = {} }}", quoted(&name.replace('_', "-")))),
            _ => None,
        },
    }
}

impl Gateway {
    /// A block says itself what an application is told.
    pub(super) fn forget_host(&mut self) {
        self.host = None;
        self.fields.retain(|(way, _)| *way != Way::Http);
    }

    /// A block says itself what becomes of addresses in answers.
    pub(super) fn forget_addresses(&mut self) {
        self.addresses.retain(|one| !one.text.starts_with("proxy_redirect"));
    }

    /// A block within is not passed on unless it says so itself.
    pub(super) fn forget_pass(&mut self) {
        self.pass = None;
    }

    /// Takes over what a directive says. False if it says nothing about applications.
    pub(super) fn take(&mut self, directive: &Directive, draft: &mut Draft) -> bool {
        let name = &*directive.name;
        if let Some(way) = Way::of(name, "_param") {
            let field = request_fields::of_variable(directive.argument(0));
            field.iter().for_each(|field| self.field(way, field, directive, draft));
            return field.is_some();
        }
        match name {
            "proxy_pass" | "fastcgi_pass" | "uwsgi_pass" | "scgi_pass" => {
                let way = Way::of(name, "_pass").expect("it is one of them");
                self.pass = Some((directive.line, directive.text(), way, directive.argument(0).to_owned()));
            }
            "proxy_redirect" | "proxy_cookie_path" => {
                let (line, text) = (directive.line, directive.text());
                let (from, to) = (directive.argument(0).to_owned(), directive.argument(1).to_owned());
                self.addresses.push(Addresses { line, text, from, to });
            }
            "proxy_set_header" => self.header(directive, draft),
            "proxy_connect_timeout" | "fastcgi_connect_timeout" | "uwsgi_connect_timeout" | "scgi_connect_timeout" => {
                self.timeout("connect_timeout_ms", directive, draft)
            }
            "proxy_read_timeout" | "fastcgi_read_timeout" | "uwsgi_read_timeout" | "scgi_read_timeout" => {
                self.timeout("timeout_ms", directive, draft)
            }
            "proxy_request_buffering"
            | "fastcgi_request_buffering"
            | "uwsgi_request_buffering"
            | "scgi_request_buffering" => {
                self.keeps_content = directive.argument(0) == "on";
            }
            "proxy_intercept_errors"
            | "fastcgi_intercept_errors"
            | "uwsgi_intercept_errors"
            | "scgi_intercept_errors" => {
                self.intercepts_errors = directive.argument(0) == "on";
            }
            "client_body_buffer_size" => {
                self.memory_bytes = bytes(directive.argument(0)).map(|bytes| bytes.min(64 << 20))
            }
            "client_max_body_size" => match bytes(directive.argument(0)) {
                Some(bytes) => self.body_bytes_max = Some(bytes).filter(|bytes| *bytes > 0),
                None => draft.lose(directive.line, format!("`{}`: it is no number of bytes", directive.text())),
            },
            "gzip" => {
                self.compresses = directive.argument(0) == "on";
                if !self.compresses {
                    draft.lose(directive.line, format!("`{}`: files that are texts are compressed", directive.text()));
                }
            }
            "proxy_cache" | "fastcgi_cache" | "uwsgi_cache" | "scgi_cache" => {
                self.keeps_answers = directive.argument(0) != "off"
            }
            "proxy_cache_key" | "fastcgi_cache_key" | "uwsgi_cache_key" | "scgi_cache_key"
                if USUAL_KEYS.contains(&directive.arguments.join("").as_str()) => {}
            "proxy_cache_key"
            | "fastcgi_cache_key"
            | "proxy_no_cache"
            | "fastcgi_no_cache"
            | "proxy_cache_bypass"
            | "fastcgi_cache_bypass"
            | "uwsgi_cache_key"
            | "uwsgi_no_cache"
            | "uwsgi_cache_bypass"
            | "scgi_cache_key"
            | "scgi_no_cache"
            | "scgi_cache_bypass" => {
                let why = "by this some answers are kept apart or not at all, so that none is kept here";
                draft.lose(directive.line, format!("`{}`: {why}", directive.text()));
                self.tells_answers_apart = true;
            }
            "proxy_cache_valid" | "fastcgi_cache_valid" | "uwsgi_cache_valid" | "scgi_cache_valid" => {
                self.valid(directive, draft)
            }
            _ => return false,
        }
        true
    }

    fn header(&mut self, directive: &Directive, draft: &mut Draft) {
        let (name, value) = (directive.argument(0).to_ascii_lowercase(), directive.argument(1));
        match &*name {
            "host" => self.host = Some(value.to_owned()),
            "x-forwarded-host" if value == "$server_name" => {
                let why = "an application is told the host that is asked, whatever the names of its site are";
                draft.lose(directive.line, format!("`{}`: {why}", directive.text()));
            }
            name if is_told(name, value) => {
                draft.need_not(directive.line, format!("`{}`: an application is told so", directive.text()));
            }
            _ => self.field(Way::Http, directive.argument(0), directive, draft),
        }
    }

    /// A field that is set or removed in what an application is sent.
    fn field(&mut self, way: Way, name: &str, directive: &Directive, draft: &mut Draft) {
        if let Some(field) = request_fields::read(name, directive, draft) {
            self.fields.retain(|(of, other)| *of != way || !other.name.eq_ignore_ascii_case(&field.name));
            self.fields.push((way, field));
        }
    }

    /// The fields of requests that the application of this block is sent, or not sent.
    pub(super) fn request_fields(&self) -> Vec<&RequestField> {
        let Some((_, _, way, _)) = &self.pass else { return Vec::new() };
        self.fields.iter().filter(|(of, _)| of == way).map(|(_, field)| field).collect()
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

    /// Keys beside that of the application.
    pub(super) fn beside(&self) -> Vec<(&'static str, String)> {
        let filters = self.compresses.then(|| ("filters", "[\"compress\"]".to_owned()));
        let intercepts = self.intercepts_errors.then(|| ("intercept_errors", "true".to_owned()));
        self.cache().map(|cache| ("cache", cache)).into_iter().chain(filters).chain(intercepts).collect()
    }

    /// The value of `cache` beside an application, if its answers are kept.
    fn cache(&self) -> Option<String> {
        let value = self.fresh_s.map_or_else(|| "true".to_owned(), |seconds| format!("{{ fresh_s = {seconds} }}"));
        (self.keeps_answers && !self.tells_answers_apart).then_some(value)
    }

    fn timeout(&mut self, key: &'static str, directive: &Directive, draft: &mut Draft) {
        match milliseconds(directive.argument(0)).filter(|ms| (1..=86_400_000).contains(ms)) {
            Some(ms) => {
                self.timeouts.retain(|(other, _)| *other != key);
                self.timeouts.push((key, ms));
            }
            None => draft.lose(directive.line, format!("`{}`: it is longer than a day", directive.text())),
        }
    }

    /// The route for a location of `pattern`; none for a server.
    pub(super) fn route(&self, pattern: Option<&Pattern>, upstreams: &[Upstream], draft: &mut Draft) -> Routed {
        let Some((line, text, way, to)) = &self.pass else { return Routed::Nothing };
        let scripts = scripts::of(pattern);
        match self.value(*way, to, pattern, upstreams, &scripts) {
            Ok(value) => {
                let prefix = stripped(*way, to, pattern).unwrap_or_default();
                let is_off = self.addresses.iter().any(|one| one.from == "off");
                for one in &self.addresses {
                    let text = &one.text;
                    match &*one.from {
                        "off" => draft.need_not(one.line, format!("`{text}`: `Location` is as the application has it")),
                        "default" => {
                            draft.need_not(one.line, format!("`{text}`: that is so where a prefix is taken away"))
                        }
                        _ if one.are_behind(&prefix) && !is_off => {}
                        _ => {
                            let why =
                                "`restore_prefix` puts an application's own addresses behind its prefix, and no others";
                            draft.lose(one.line, format!("`{text}`: {why}"));
                        }
                    }
                }
                let key = way.key();
                let narrowed = match scripts {
                    Scripts::Narrowed(expression, _) if *way == Way::FastCgi => Some(expression),
                    _ => None,
                };
                Routed::By { key, value, narrowed }
            }
            Err(why) => {
                draft.lose(*line, format!("`{text}`: {why}, so what it is for is answered with 404"));
                Routed::Denied
            }
        }
    }

    /// Keys about the prefix that is taken away from the paths of `pattern` before the application is asked, and put
    /// back in its answers.
    pub(super) fn prefix(&self, pattern: &Pattern) -> Vec<(&'static str, String)> {
        let Some((_, _, way, to)) = &self.pass else { return Vec::new() };
        let prefix = stripped(*way, to, Some(pattern));
        let is_off = self.addresses.iter().any(|one| one.from == "off");
        let is_said = || self.addresses.iter().any(|one| one.are_behind(prefix.as_deref().unwrap_or_default()));
        let restores = *way == Way::Http && !is_off && (prefix.is_some() || is_said());
        let restored = restores.then(|| ("restore_prefix", "true".to_owned()));
        prefix.as_ref().map(|prefix| ("strip_prefix", quoted(prefix))).into_iter().chain(restored).collect()
    }

    fn value(
        &self,
        way: Way,
        to: &str,
        pattern: Option<&Pattern>,
        upstreams: &[Upstream],
        scripts: &Scripts,
    ) -> Result<String, String> {
        if to.contains('$') {
            return Err("an address is written out".to_owned());
        }
        // The path that the application is beneath.
        let mut base = "";
        let authority = match way {
            Way::Http => {
                let unverified = "nginx does not verify the certificate of an application, and this server does";
                let rest = to.strip_prefix("http://").ok_or(unverified)?;
                let (authority, path) = authority_and_path(rest);
                let begins = match pattern {
                    Some(Pattern::Prefix(prefix) | Pattern::Exact(prefix)) => prefix.as_str(),
                    Some(_) => "",
                    None => "/",
                };
                if stripped(way, to, pattern).is_some() {
                    base = path.trim_end_matches('/');
                } else if !path.is_empty() && path != begins {
                    return Err(format!("the application would be asked for `{path}` in place of `{begins}`"));
                }
                if rest.starts_with("unix:") { format!("unix:{authority}") } else { authority.to_owned() }
            }
            Way::Uwsgi if to.starts_with("uwsgi://") => to["uwsgi://".len()..].to_owned(),
            _ if to.contains("://") => return Err(format!("it is no address of {}", way.name())),
            _ => to.to_owned(),
        };
        let named = upstreams.iter().find(|one| one.name == authority);
        let places = named.map_or_else(|| vec![(authority.clone(), 1)], |one| one.places.clone());
        let mut addresses = Vec::new();
        for (place, _) in &places {
            let is_path = place.starts_with("unix:");
            let address = if is_path || way != Way::Http { place.clone() } else { format!("http://{place}") };
            let read = address.parse::<UpstreamAddress>().map_err(|why| format!("`{place}` {why}"))?;
            if read.is_secure {
                return Err(format!("`{place}` uses TLS, and {} has none", way.name()));
            }
            addresses.push(address + base);
        }
        if addresses.is_empty() {
            return Err("it has no places".to_owned());
        }
        let mut keys = self.keys(way, &places, &authority);
        keys.extend(named.and_then(|one| one.sticky.as_ref()).map(|sticky| format!("sticky = {sticky}")));
        match scripts {
            _ if way != Way::FastCgi => {}
            Scripts::Whole => keys.push("extensions = []".to_owned()),
            Scripts::Files(extensions) | Scripts::Narrowed(_, extensions) if *extensions == ["php"] => {}
            Scripts::Files(extensions) | Scripts::Narrowed(_, extensions) => {
                keys.push(format!("extensions = {}", list(extensions)));
            }
        }
        let to = match &addresses[..] {
            [one] => quoted(one),
            several => list(several),
        };
        let is_plain = keys.is_empty() && addresses.len() == 1;
        keys.insert(0, format!("to = {to}"));
        Ok(if is_plain { to } else { format!("{{ {} }}", keys.join(", ")) })
    }

    /// The keys that name the auth service behind a location of `path`.
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
        let value = self.value(Way::Http, &format!("{scheme}://{authority}"), None, upstreams, &Scripts::Whole)?;
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
            _ if way != Way::Http => {}
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
        keys.extend(self.body_bytes_max.map(|bytes| format!("body_bytes_max = {bytes}")));
        keys.extend(self.timeouts.iter().map(|(key, ms)| format!("{key} = {ms}")));
        keys
    }
}

/// The field that a directive writes in the place of one that an application believes.
pub(super) fn told_field(directive: &Directive) -> Option<String> {
    let (name, value) = (directive.argument(0), directive.argument(1));
    let name = match &*directive.name {
        "fastcgi_param" | "uwsgi_param" | "scgi_param" => name.strip_prefix("HTTP_")?.replace('_', "-"),
        _ => name.to_owned(),
    };
    let own = format!("$http_{}", name.to_ascii_lowercase().replace('-', "_"));
    (is_believed(&name) && value != own).then_some(name)
}

/// Whether an application is told a field with what a variable stands for.
fn is_told(name: &str, value: &str) -> bool {
    match name {
        "x-forwarded-for" => matches!(value, "$proxy_add_x_forwarded_for" | "$remote_addr"),
        "x-forwarded-proto" => matches!(value, "$scheme" | "$http_x_forwarded_proto"),
        "x-forwarded-host" => matches!(value, "$host" | "$http_host"),
        "x-request-id" => value == "$request_id",
        "upgrade" => value == "$http_upgrade",
        "connection" => {
            matches!(value.to_ascii_lowercase().as_str(), "" | "upgrade" | "$connection_upgrade" | "$http_connection")
        }
        _ => false,
    }
}

/// Why requests for programs of another kind are not passed on.
pub(super) fn passed_words(name: &str) -> String {
    match name.strip_suffix("_pass") {
        Some(way) => format!("{way} is not spoken: {PASSED_WORDS}"),
        None => format!("`{name}` is not done here: {PASSED_WORDS}"),
    }
}

/// Authority and path of an address without its scheme, as in `http://unix:/run/a.sock:/path`.
fn authority_and_path(rest: &str) -> (&str, &str) {
    match rest.strip_prefix("unix:") {
        Some(rest) => rest.split_once(':').map_or((rest, ""), |(socket, path)| (socket, path)),
        None => rest.split_at(rest.find('/').unwrap_or(rest.len())),
    }
}

/// The prefix that nginx takes away for the path of `to`: where that and the location end with a slash. What is put in
/// its place is the path of the application.
fn stripped(way: Way, to: &str, pattern: Option<&Pattern>) -> Option<String> {
    let Some(Pattern::Prefix(prefix)) = pattern.filter(|_| way == Way::Http) else { return None };
    let rest = to.strip_prefix("http://")?;
    let (_, path) = authority_and_path(rest);
    let is_put_in_place = path.ends_with('/') && prefix.ends_with('/') && path != prefix;
    // A socket has no path of its own here.
    let is_sayable = path == "/" || !rest.starts_with("unix:") && is_plain_path(path.trim_end_matches('/'));
    let prefix = prefix.trim_end_matches('/');
    (is_put_in_place && is_sayable && is_plain_path(prefix)).then(|| prefix.to_owned())
}

#[cfg(test)]
mod tests {
    use crate::{Files, nginx};

    #[test]
    fn addresses_in_answers_are_put_behind_a_prefix_where_nginx_does_so() {
        let files = Files { read: &|_| Err("no such file".into()), list: &|_| Vec::new() };
        for (location, said, is_restored, is_lost) in [
            ("/app/", "", true, false),
            ("/app/", "proxy_redirect default;", true, false),
            ("/app/", "proxy_redirect off;", false, false),
            ("/app/", "proxy_redirect / /app/;", true, false),
            ("/app/", "proxy_redirect http://a/ https://$host/app/;", true, false),
            ("/app/", "proxy_cookie_path / /app/;", true, false),
            ("/app/", "proxy_cookie_path /x/ /y/;", true, true),
            ("/app/", "proxy_redirect ~^/x(.*) /app/$1;", true, true),
            ("/", "", false, false),
            ("/", "proxy_redirect http://a/ /;", true, false),
            ("/", "proxy_redirect http://a/ https://$hostile/;", false, true),
            ("/", "proxy_redirect http://a/ http://b/;", false, true),
        ] {
            let text = format!("server {{ root /srv; location {location} {{ proxy_pass http://a/; {said} }} }}");
            let made = nginx(&text, files).unwrap_or_else(|note| panic!("{text}: {note:?}")).text;
            assert_eq!(made.contains("\nrestore_prefix = true"), is_restored, "{text}: {made}");
            assert_eq!(made.contains("Not carried over"), is_lost, "{text}: {made}");
        }
    }

    #[test]
    fn applications_of_uwsgi_and_scgi_answer_every_path() {
        use crate::asked::Asked;
        let text_of = |text: &str| {
            let files = Files { read: &|_| Err("no such file".into()), list: &|_| Vec::new() };
            nginx(text, files).unwrap_or_else(|note| panic!("{text}: {note:?}")).text
        };
        for way in ["uwsgi", "scgi"] {
            for (lines, expected) in [
                ("WAY_pass 127.0.0.1:9;", "WAY = \"127.0.0.1:9\""),
                ("WAY_pass unix:/run/a.sock;", "WAY = \"unix:/run/a.sock\""),
                ("WAY_pass a;", "WAY = { to = [\"10.0.0.1:9\", \"unix:/b.sock\"], weights = [2, 1] }"),
                (
                    "WAY_pass 127.0.0.1:9; WAY_read_timeout 5s; WAY_connect_timeout 1s; WAY_request_buffering on;",
                    "WAY = { to = \"127.0.0.1:9\", buffer = true, timeout_ms = 5000, connect_timeout_ms = 1000 }",
                ),
                ("WAY_pass 127.0.0.1:9; WAY_cache c; WAY_cache_valid 5s;", "cache = { fresh_s = 5 }"),
                ("WAY_pass 127.0.0.1:9; WAY_param HTTP_X_A b;", "\"X-A\" = \"b\""),
                ("WAY_pass 127.0.0.1:9; WAY_intercept_errors on;", "intercept_errors = true"),
                ("WAY_pass 127.0.0.1:9; fastcgi_param HTTP_X_B b; WAY_param HTTP_X_A b;", "{ \"X-A\" = \"b\" }"),
            ] {
                let upstream = "upstream a { server 10.0.0.1:9 weight=2; server unix:/b.sock; }";
                let lines = format!(
                    "http {{ {upstream} server {{ root /srv; location / {{ include WAY_params; {lines} }} }} }}"
                );
                let (lines, expected) = (lines.replace("WAY", way), expected.replace("WAY", way));
                let text = text_of(&lines);
                assert!(text.contains(&expected), "{expected}: {text}");
                for path in ["/x", "/x.php", "/.env"] {
                    assert_eq!(Asked::of(path).answer(&text, ""), "application", "{lines} {path}: {text}");
                }
            }
            // A prefix that is the application's own is listed, and so is another plugin of uWSGI.
            for line in ["WAY_param SCRIPT_NAME /app", "uwsgi_modifier1 14", "WAY_param SCRIPT_FILENAME /x"] {
                let line = line.replace("WAY", way);
                let text =
                    text_of(&format!("server {{ root /srv; location / {{ {line}; {way}_pass 127.0.0.1:9; }} }}"));
                let lost = text.split("# Needs nothing").next().unwrap_or_default();
                assert!(lost.contains(&line), "{line}: {text}");
            }
            let text = text_of(&format!(
                "server {{ root /srv; location / {{ try_files $uri @app; }} location @app {{ {way}_pass 127.0.0.1:9; {way}_read_timeout 5s; }} \
                 location /static/ {{ }} }}"
            ));
            assert_eq!(Asked::of("/x").answer(&text, ""), "file $path, else application", "{text}");
            assert_eq!(Asked::of("/static/x").answer(&text, ""), "file /static/x", "{text}");
            // Without a root there is nothing but the application.
            let text = text_of(&format!("server {{ location / {{ {way}_pass 127.0.0.1:9; }} }}"));
            assert_eq!(Asked::of("/x").place(&text, ""), "127.0.0.1:9", "{text}");
        }
        let text = text_of("server { root /srv; location / { uwsgi_pass uwsgi://127.0.0.1:9; } }");
        assert!(text.contains("uwsgi = \"127.0.0.1:9\""), "{text}");
    }
}
