//! `ProxyPass`, `ProxyPassMatch`, balancers and `SetHandler` of programs.
//!
//! Owns: the values of `proxy` and `fastcgi`.

use lamna_config::render::quoted;
use lamna_config::upstream_address::UpstreamAddress;

use super::redirect::beneath;
use super::routes::{Routes, Strength};
use super::syntax::Directive;
use crate::matching::{Kind, Literal, PathTest, Test};
use crate::{DENIED_WORDS, Draft, LOCATION_WORDS, list};

/// Balancers by their names: places, weights and keys.
#[derive(Debug, Default)]
pub(super) struct Balancers(Vec<Balancer>);

/// Its name, places, weights and keys.
type Balancer = (String, Vec<String>, Vec<String>, Vec<String>);

impl Balancers {
    /// Takes over `<Proxy balancer://x>`.
    pub(super) fn take(&mut self, directive: &Directive, draft: &mut Draft) {
        let Some(name) = directive.argument(0).strip_prefix("balancer://") else { return };
        let (mut places, mut weights, mut keys) = (Vec::new(), Vec::new(), Vec::new());
        for one in directive.within() {
            match &*one.name {
                "balancermember" => {
                    let place = one.argument(0).trim_end_matches('/');
                    let option = |name: &str| one.arguments().iter().find_map(|word| word.strip_prefix(name));
                    if place.parse::<UpstreamAddress>().is_err() || !place.starts_with("http") {
                        draft.lose(one.line, format!("`{}`: it is no place of HTTP", one.text()));
                        continue;
                    }
                    let is_spare = option("status=").is_some_and(|status| status.contains(['H', 'h', 'D', 'd']));
                    places.push(place.to_owned());
                    weights.push(
                        if is_spare {
                            "0"
                        } else {
                            option("loadfactor=").filter(|number| number.parse::<u32>().is_ok()).unwrap_or("1")
                        }
                        .to_owned(),
                    );
                }
                "proxyset" => {
                    for word in one.arguments() {
                        match word.strip_prefix("stickysession=") {
                            Some(name) => keys.push(format!(
                                "sticky = {{ cookie = {} }}",
                                quoted(name.split('|').next().unwrap_or(name))
                            )),
                            None => draft.need_not(
                                one.line,
                                format!("`{word}` of `{}`: places share requests by their weights", one.text()),
                            ),
                        }
                    }
                }
                _ => {}
            }
        }
        if weights.iter().all(|weight| weight == "0") {
            weights.iter_mut().for_each(|weight| "1".clone_into(weight));
        }
        self.0.push((name.trim_end_matches('/').to_owned(), places, weights, keys));
    }
}

/// The key and the value for a place that is written out.
pub(super) fn place(address: &str) -> Option<(&'static str, String)> {
    let (key, address) = match address.split_once("://")? {
        ("ws", rest) => ("proxy", format!("http://{rest}")),
        ("wss", rest) => ("proxy", format!("https://{rest}")),
        ("http" | "https", _) => ("proxy", address.to_owned()),
        ("fcgi", rest) => ("fastcgi", rest.to_owned()),
        _ => return None,
    };
    let address = match key == "fastcgi" && !address.contains(':') {
        true => format!("{address}:9000"),
        false => address,
    };
    address.parse::<UpstreamAddress>().ok()?;
    Some((
        key,
        if key == "fastcgi" { format!("{{ to = {}, extensions = [] }}", quoted(&address)) } else { quoted(&address) },
    ))
}

/// The address of the program that runs scripts, which `SetHandler` or `ProxyPassMatch` names.
pub(super) fn runner(text: &str) -> Option<String> {
    let text = text.strip_prefix("proxy:").unwrap_or(text);
    if let Some(rest) = text.strip_prefix("unix:") {
        return rest
            .split_once('|')
            .filter(|(_, scheme)| scheme.starts_with("fcgi:"))
            .map(|(path, _)| format!("unix:{path}"));
    }
    let rest = text.strip_prefix("fcgi://")?;
    let host = rest.split('/').next()?;
    let host = if host.contains(':') { host.to_owned() } else { format!("{host}:9000") };
    host.parse::<UpstreamAddress>().is_ok().then_some(host)
}

/// Directives about all applications of a site.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Said {
    pub(super) preserves_host: bool,
    pub(super) timeout_s: Option<u64>,
}

/// Carries one over. `around` are the paths of a section that it stands in, which begins with `prefix`.
pub(super) fn carry(
    directive: &Directive,
    around: Option<(&[Literal], &str)>,
    balancers: &Balancers,
    said: Said,
    has_reverse: bool,
    routes: &mut Routes,
    draft: &mut Draft,
) {
    let text = directive.text();
    let words: Vec<&str> = directive.arguments().iter().map(String::as_str).collect();
    let (path, to, options) = match (around, &words[..]) {
        (Some((_, prefix)), [to, options @ ..]) => (prefix, *to, options),
        (None, [path, to, options @ ..]) => (*path, *to, options),
        _ => return draft.lose(directive.line, format!("`{text}`: it says no path and no place")),
    };
    let tests: Vec<Literal> = match around {
        Some((tests, _)) => tests.to_vec(),
        None if directive.name == "proxypassmatch" => {
            vec![(Test::Path(vec![PathTest::new(Kind::Regex, path, false)]), false)]
        }
        None if path == "/" => Vec::new(),
        None => vec![(Test::Path(beneath(path)), false)],
    };
    let lose = |why: &str, routes: &mut Routes, draft: &mut Draft| {
        draft.lose(directive.line, format!("`{text}`: {why}; {DENIED_WORDS}"));
        routes.emit(Strength::Proxy, directive, &tests, vec![("respond", "404".into())], true, draft);
    };
    if to == "!" {
        let mut keys = vec![("proxy", "false".to_owned())];
        if let Some(value) = &routes.fastcgi {
            keys = vec![("fastcgi", value.clone())];
        }
        return routes.emit(Strength::Proxy, directive, &tests, keys, false, draft);
    }
    let (socket, target) = match to.strip_prefix("unix:").and_then(|rest| rest.split_once('|')) {
        Some((socket, target)) => (Some(socket), target),
        None => (None, to),
    };
    let Some((scheme, rest)) = target.split_once("://") else { return lose("it names no place", routes, draft) };
    let (host, rest) = rest.split_at(rest.find(['/', '$']).unwrap_or(rest.len()));
    let mut keys = Vec::new();
    let is_fastcgi = scheme == "fcgi";
    match scheme {
        "balancer" => {
            let Some((_, places, weights, more)) =
                balancers.0.iter().find(|(name, places, ..)| name == host && !places.is_empty())
            else {
                return lose("no such balancer is there", routes, draft);
            };
            keys.push(format!("to = {}", list(places)));
            if places.len() > 1 && weights.iter().any(|weight| weight != &weights[0]) {
                keys.push(format!("weights = [{}]", weights.join(", ")));
            }
            if places.len() > 1 {
                keys.extend(more.iter().cloned());
            }
        }
        "http" | "https" | "ws" | "wss" | "fcgi" => {
            let address = match socket {
                Some(socket) => format!("unix:{socket}"),
                None if is_fastcgi => runner(&format!("fcgi://{host}")).unwrap_or_default(),
                None => format!("{}://{host}", scheme.replace("ws", "http")),
            };
            if address.parse::<UpstreamAddress>().is_err() {
                return lose("it names no place that can be asked", routes, draft);
            }
            keys.push(format!("to = {}", quoted(&address)));
            if !said.preserves_host && !is_fastcgi {
                keys.push(format!("host = {}", quoted(host)));
            }
            if is_fastcgi {
                keys.push("extensions = []".into());
            }
        }
        _ => return lose("an application is asked over HTTP or FastCGI", routes, draft),
    }
    let mut timeout = said.timeout_s;
    for option in options {
        match option.split_once('=') {
            Some(("timeout", seconds)) => timeout = seconds.parse().ok(),
            Some(("connectiontimeout", seconds))
                if seconds.parse::<u64>().is_ok_and(|one| (1..3600).contains(&one)) =>
            {
                keys.push(format!("connect_timeout_ms = {seconds}000"));
            }
            Some(("stickysession", name)) if scheme == "balancer" => {
                keys.push(format!("sticky = {{ cookie = {} }}", quoted(name.split('|').next().unwrap_or(name))))
            }
            _ => draft.need_not(directive.line, format!("`{option}` of `{text}`: the server decides that by itself")),
        }
    }
    keys.extend(
        timeout.filter(|seconds| (1..=86_400).contains(seconds)).map(|seconds| format!("timeout_ms = {seconds}000")),
    );
    // The same path, or one without the prefix.
    let is_match = directive.name == "proxypassmatch";
    let (own, other) = (path.trim_end_matches('/'), rest.trim_end_matches('/'));
    let is_same = match is_match {
        true => {
            let start = path.strip_prefix('^').map(|path| path.strip_suffix('$').unwrap_or(path));
            start.is_some_and(|start| {
                start.strip_suffix("(.*)").is_some_and(|start| rest.strip_suffix("$1") == Some(start))
                    || rest == "$1" && start.starts_with("(/")
            }) || rest.is_empty()
        }
        false => own == other,
    };
    let is_stripped = !is_match && !is_same && other.is_empty() && lamna_config::route::is_plain_path(own);
    let key = if is_fastcgi { "fastcgi" } else { "proxy" };
    let value = if let [one] = &keys[..] {
        one.strip_prefix("to = ").filter(|_| one.starts_with("to = \"")).map(str::to_owned)
    } else {
        None
    };
    let value = value.unwrap_or_else(|| format!("{{ {} }}", keys.join(", ")));
    let mut keys = vec![(key, value)];
    if is_stripped && !is_fastcgi {
        keys.push(("strip_prefix", quoted(own)));
        if has_reverse {
            keys.push(("restore_prefix", "true".into()));
        } else {
            draft.lose(directive.line, format!("`{text}`: {LOCATION_WORDS}"));
        }
    } else if !is_same && !is_fastcgi {
        return lose("an application is asked for the path of the request, or for it without a prefix", routes, draft);
    }
    routes.emit(Strength::Proxy, directive, &tests, keys, false, draft);
}
