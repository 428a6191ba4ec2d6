//! Servers of HAProxy as places of an application.
//!
//! Owns: the value of `proxy` for a backend. Guarantees: a server that is not carried over is named.

use lamna_config::render::quoted;
use lamna_config::upstream_address::UpstreamAddress;

use super::Section;
use super::syntax::Line;
use crate::{Draft, list};

/// The servers of a backend.
#[derive(Debug, Default)]
struct Servers {
    places: Vec<String>,
    weights: Vec<u32>,
    is_checked: bool,
    keys: Vec<String>,
}

/// The options of a server.
#[derive(Clone, Debug, Default)]
struct Options {
    weight: Option<u32>,
    is_backup: bool,
    is_checked: bool,
    has_tls: bool,
    /// Keys of a `proxy`, which are the same for all of its places.
    keys: Vec<String>,
    /// Keys of its `check`.
    check: Vec<(&'static str, String)>,
}

/// The value of `proxy` for a backend. None if it has no server that can be asked.
pub(super) fn value(section: &Section<'_>, draft: &mut Draft) -> Option<String> {
    let mut servers = Servers::default();
    let mut check: Vec<(&'static str, String)> = Vec::new();
    let mut default = Options::default();
    for line in section.all("default-server") {
        options(line, 1, &mut default, draft);
    }
    for line in section.own.iter().filter(|line| matches!(line.word(0), "server" | "server-template")) {
        let at = if line.word(0) == "server" { 2 } else { 3 };
        if line.words[at.min(line.words.len())..].iter().any(|word| word == "disabled") {
            draft.need_not(line.line, format!("`{}`: it is disabled", line.text()));
            continue;
        }
        let mut own = default.clone();
        options(line, at + 1, &mut own, draft);
        let address = line.word(at);
        let address = address.strip_prefix("ipv4@").or(address.strip_prefix("ipv6@")).unwrap_or(address);
        let place = match address.strip_prefix("unix@").or(address.starts_with('/').then_some(address)) {
            Some(path) => format!("unix:{path}"),
            None if own.has_tls => format!("https://{address}"),
            None => format!("http://{address}"),
        };
        let has_port =
            place.starts_with("unix:") || address.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let why = match place.parse::<UpstreamAddress>() {
            Err(why) => format!("it {why}"),
            Ok(_) if !has_port => "the port of the request is not taken for that of a server: write it out".to_owned(),
            Ok(_) if own.has_tls && place.starts_with("unix:") => "TLS is not spoken over a Unix socket".to_owned(),
            Ok(_) if servers.places.contains(&place) => "it is there twice".to_owned(),
            Ok(_) if !servers.places.is_empty() && servers.keys != own.keys => {
                "all places of an application are spoken with alike".to_owned()
            }
            Ok(_) => {
                servers.keys = own.keys;
                servers.places.push(place);
                servers.weights.push(if own.is_backup { 0 } else { own.weight.unwrap_or(1) });
                servers.is_checked |= own.is_checked;
                check = own.check;
                continue;
            }
        };
        draft.lose(line.line, format!("`{}`: {why}", line.text()));
    }
    if servers.places.is_empty() {
        return None;
    }
    let to = if let [one] = &servers.places[..] { quoted(one) } else { list(&servers.places) };
    let mut keys = vec![format!("to = {to}")];
    if servers.weights.iter().all(|weight| *weight == 0) {
        // A spare is asked where there is nothing else.
        servers.weights.iter_mut().for_each(|weight| *weight = 1);
    }
    let most = servers.weights.iter().copied().max().unwrap_or(1);
    if servers.places.len() > 1 && servers.weights.iter().any(|weight| *weight != most) {
        let weights: Vec<String> = servers.weights.iter().map(u32::to_string).collect();
        keys.push(format!("weights = [{}]", weights.join(", ")));
    }
    if servers.places.len() > 1 {
        keys.extend(sticky(section, draft).map(|value| format!("sticky = {value}")));
    } else {
        for line in section.all("balance").chain(section.all("cookie")) {
            draft.need_not(line.line, format!("`{}`: there is one place", line.text()));
        }
    }
    for (name, key) in [("connect", "connect_timeout_ms"), ("server", "timeout_ms"), ("tunnel", "websocket_timeout_ms")]
    {
        keys.extend(section.timeout(name, draft).map(|ms| format!("{key} = {ms}")));
    }
    if servers.is_checked {
        keys.extend(checked(section, check, draft).map(|value| format!("check = {value}")));
    } else {
        for name in ["option httpchk", "http-check"] {
            for line in section.all(name) {
                draft.need_not(line.line, format!("`{}`: no server has `check`", line.text()));
            }
        }
    }
    keys.extend(servers.keys);
    Some(if keys.len() == 1 && servers.places.len() == 1 { to } else { format!("{{ {} }}", keys.join(", ")) })
}

/// Takes over options of a server, from a word on.
fn options(line: &Line, from: usize, found: &mut Options, draft: &mut Draft) {
    let mut at = from;
    let mut lose = |word: &str, why: &str| draft.lose(line.line, format!("`{word}` of `{}`: {why}", line.text()));
    while at < line.words.len() {
        let (word, next) = (line.word(at), line.word(at + 1));
        at += 1;
        match word {
            "check" => found.is_checked = true,
            "no-check" => found.is_checked = false,
            "backup" => found.is_backup = true,
            "ssl" => found.has_tls = true,
            "no-ssl" => found.has_tls = false,
            "send-proxy" => found.keys.push("send_proxy = \"v1\"".into()),
            "send-proxy-v2" => found.keys.push("send_proxy = \"v2\"".into()),
            "check-ssl" | "enabled" | "check-send-proxy" | "allow-0rtt" | "no-sslv3" | "no-tlsv10" | "no-tlsv11"
            | "force-tlsv12" | "force-tlsv13" | "no-tls-tickets" | "stick" | "agent-check" | "non-stick"
            | "no-ssl-reuse" | "tfo" => {}
            "weight" => {
                at += 1;
                found.weight = next.parse().ok().filter(|weight| (0..=256).contains(weight));
            }
            "verify" => {
                at += 1;
                found.keys.retain(|key| !key.starts_with("verify"));
                if next == "none" {
                    found.keys.push("verify = false".into());
                }
            }
            "ca-file" => {
                at += 1;
                if next != "@system-ca" && !next.ends_with("ca-certificates.crt") {
                    found.keys.push(format!("ca = {}", quoted(next)));
                }
            }
            "verifyhost" => {
                at += 1;
                found.keys.push(format!("server_name = {}", quoted(next)));
            }
            "sni" => {
                at += 1;
                match next.strip_prefix("str(").and_then(|rest| rest.strip_suffix(')')) {
                    Some(name) if !found.keys.iter().any(|key| key.starts_with("server_name")) => {
                        found.keys.push(format!("server_name = {}", quoted(name)));
                    }
                    _ => lose(word, "the name in the certificate is that of the address"),
                }
            }
            "inter" => {
                at += 1;
                match super::milliseconds(next).filter(|ms| (100..=3_600_000).contains(ms)) {
                    Some(ms) => found.check.push(("interval_ms", ms.to_string())),
                    None => lose(word, "it is no time from 100 ms to an hour"),
                }
            }
            "fall" | "rise" if next.parse::<u32>().is_ok_and(|count| (1..=100).contains(&count)) => {
                at += 1;
                found.check.push((if word == "fall" { "misses" } else { "passes" }, next.to_owned()));
            }
            "cookie" | "resolvers" | "resolve-prefer" | "init-addr" | "fastinter" | "downinter" | "slowstart"
            | "id" | "alpn" | "check-alpn" | "ssl-min-ver" | "ssl-max-ver" | "track" | "observe" | "on-error"
            | "on-marked-down" | "error-limit" | "agent-port" | "agent-inter" | "pool-purge-delay"
            | "pool-max-conn" | "minconn" | "resolve-opts" | "on-marked-up" | "ciphers" | "ciphersuites"
            | "log-proto" => at += 1,
            "maxconn" => {
                at += 1;
                lose(
                    &format!("maxconn {next}"),
                    "requests are not kept waiting for a place: `application_limit` is for each client (docs/limits.md)",
                );
            }
            "proto" | "check-proto" => {
                at += 1;
                if next == "h2" {
                    lose("proto h2", "applications are asked over HTTP/1.1");
                }
            }
            "port" | "addr" => {
                at += 1;
                lose(word, "a place is checked where it is asked");
            }
            "crt" => {
                at += 1;
                lose(word, "an application is shown no certificate");
            }
            _ => lose(word, "Lamna has nothing like it"),
        }
    }
}

/// By what requests get to the same place.
fn sticky(section: &Section<'_>, draft: &mut Draft) -> Option<String> {
    if let Some(line) = section.all("cookie").last() {
        let is_own = line.words.iter().any(|word| matches!(&**word, "insert" | "rewrite"));
        if is_own {
            let why = "the server sets no cookie of its own: clients are kept to a place by their address";
            draft.lose(line.line, format!("`{}`: {why}", line.text()));
            return Some(quoted("client"));
        }
        return Some(format!("{{ cookie = {} }}", quoted(line.word(1))));
    }
    for line in section.all("stick").filter(|line| line.word(1) == "on" || line.word(1) == "store-request") {
        if line.word(2) == "src" {
            return Some(quoted("client"));
        }
        draft.lose(line.line, format!("`{}`: places are kept by address, cookie or field", line.text()));
    }
    let line = section.all("balance").last()?;
    let header = line.word(1).strip_prefix("hdr(").and_then(|rest| rest.strip_suffix(')'));
    match (line.word(1), header) {
        ("source", _) => Some(quoted("client")),
        ("hash", _) if line.word(2) == "src" => Some(quoted("client")),
        (_, Some(name)) if !name.contains(',') => Some(format!("{{ header = {} }}", quoted(name))),
        ("roundrobin" | "static-rr" | "leastconn" | "first" | "random", _) => {
            draft.need_not(line.line, format!("`{}`: places share requests by their weights", line.text()));
            None
        }
        _ => {
            draft.lose(line.line, format!("`{}`: places are kept by address, cookie or field", line.text()));
            None
        }
    }
}

/// The value of `check`.
fn checked(section: &Section<'_>, mut keys: Vec<(&'static str, String)>, draft: &mut Draft) -> Option<String> {
    let Some(line) = section.all("option httpchk").last() else {
        for line in section.own.iter().filter(|line| matches!(line.word(0), "server" | "default-server")) {
            if line.words.iter().any(|word| word == "check") {
                let why = "a place is checked by a request, of which there is none: one that fails gets less of them";
                draft.need_not(line.line, format!("`check` of `{}`: {why}", line.text()));
            }
        }
        return None;
    };
    let (mut method, mut path, mut status) = match (line.word(2), line.word(3)) {
        ("", _) => ("OPTIONS".to_owned(), "/".to_owned(), None),
        (path, "") => ("OPTIONS".to_owned(), path.to_owned(), None),
        (method, path) => (method.to_owned(), path.to_owned(), None),
    };
    if line.words.len() > 4 {
        let why = "checks are HTTP/1.1, and `Host` is as for requests";
        draft.need_not(line.line, format!("`{}` of `{}`: {why}", line.words[4..].join(" "), line.text()));
    }
    for line in section.all("http-check") {
        match (line.word(1), line.word(2), line.word(3)) {
            ("send", ..) => {
                for pair in line.words[2..].windows(2) {
                    match (&*pair[0], &pair[1]) {
                        ("meth", value) => method.clone_from(value),
                        ("uri", value) => path.clone_from(value),
                        ("hdr", name) => draft.lose(
                            line.line,
                            format!("`hdr {name}` of `{}`: a check has the fields of the server", line.text()),
                        ),
                        _ => {}
                    }
                }
            }
            ("expect", "status", value) if !value.contains('-') => {
                let all: Vec<&str> = value.split(',').collect();
                if all.iter().all(|one| one.parse::<u16>().is_ok_and(|one| (100..=599).contains(&one))) {
                    status = Some(format!("[{}]", all.join(", ")));
                }
            }
            ("expect", "status", "200-399") => {}
            ("expect", "status", "200-299") => status = Some("\"2xx\"".into()),
            ("disable-on-404", ..) | ("connect", ..) | ("comment", ..) => {}
            _ => draft.lose(line.line, format!("`{}`: a check looks at the status of the answer", line.text())),
        }
    }
    if method != "GET" {
        draft.lose(line.line, format!("`{method}` of `{}`: a place is asked by GET", line.text()));
    }
    if !path.starts_with('/') || path.contains(|one: char| one.is_control() || one.is_whitespace()) {
        draft.lose(line.line, format!("`{}`: it names no path", line.text()));
        return None;
    }
    keys.extend(status.map(|status| ("status", status)));
    if let Some(ms) = section.timeout("check", draft).filter(|ms| (100..=3_600_000).contains(ms)) {
        keys.push(("timeout_ms", ms.to_string()));
    }
    if keys.is_empty() {
        return Some(quoted(&path));
    }
    let mut members = vec![format!("path = {}", quoted(&path))];
    let mut names: Vec<&str> = Vec::new();
    for (key, value) in keys.iter().rev() {
        if !names.contains(key) {
            names.push(key);
            members.push(format!("{key} = {value}"));
        }
    }
    Some(format!("{{ {} }}", members.join(", ")))
}
