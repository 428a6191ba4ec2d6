//! Configurations of HAProxy: what their sections are here.
//!
//! Owns: sections, their defaults, addresses and what of them is a site. A frontend is a site for any host, because its
//! rules ask for the host themselves; rules are in `rules`. Rules are routes with priorities, because HAProxy takes the
//! first that fits. Guarantees: what a rule refuses to some requests is refused to them here, or to more; a rule whose
//! condition cannot be said never lets more through.

mod acl;
mod changed;
mod element;
mod fetch;
#[cfg(test)]
mod fetch_tests;
pub(crate) mod fields;
mod listen;
mod map;
mod rules;
mod server;
mod syntax;
#[cfg(test)]
mod tests;
mod users;

use crate::{Draft, Files, Imported, Note, Site, audit};
use syntax::Line;
use users::Lists;

pub(super) fn import(text: &str, files: Files<'_>) -> Result<Imported, Note> {
    let mut lines = syntax::parse(text)?;
    users::forget_passwords(&mut lines);
    let Some(mut draft) = of_lines(&lines, files) else {
        return Err(Note::new(1, "there is no frontend of HTTP in it that could be a site"));
    };
    let outcome = |lines: &[Line]| of_lines(lines, files).map(Draft::outcome);
    let indifferent = audit::indifferent(&lines, &outcome, &|line, text| draft.says(line, text));
    indifferent.into_iter().for_each(|(line, words)| draft.need_not(line, words));
    draft.finish("HAProxy")
}

/// A section with what applies to it.
struct Section<'l> {
    line: &'l Line,
    own: &'l [Line],
    /// Those of `defaults`.
    defaults: &'l [Line],
}

impl<'l> Section<'l> {
    fn name(&self) -> &'l str {
        self.line.word(1)
    }

    /// The lines of a keyword of one or two words: its own, or else those of the defaults; none if it is turned off.
    fn all(&self, keyword: &str) -> impl Iterator<Item = &'l Line> + use<'l> {
        let fits = |line: &&Line| {
            let mut words = keyword.split(' ');
            words.next() == Some(line.word(0)) && words.next().is_none_or(|second| second == line.word(1))
        };
        let is_off = |line: &Line| line.word(0) == "no" && line.words[1..].join(" ") == keyword;
        let own: Vec<&Line> = self.own.iter().filter(fits).collect();
        let found = match own.is_empty() && !self.own.iter().any(is_off) {
            true => self.defaults.iter().filter(fits).collect(),
            false => own,
        };
        found.into_iter()
    }

    /// A timeout, in milliseconds.
    fn timeout(&self, name: &str, draft: &mut Draft) -> Option<u64> {
        let fits = |line: &&Line| {
            line.word(0) == "timeout" && line.word(1) == name
                || matches!(
                    (line.word(0), name),
                    ("contimeout", "connect") | ("clitimeout", "client") | ("srvtimeout", "server")
                )
        };
        let own = self.own.iter().rev().find(fits);
        let line = own.or_else(|| self.defaults.iter().rev().find(fits))?;
        let value = if line.word(0) == "timeout" { line.word(2) } else { line.word(1) };
        let found = milliseconds(value).filter(|ms| (1..=3_600_000).contains(ms)).map(|ms| ms.max(100));
        if found.is_none() {
            draft.lose(line.line, format!("`{}`: it is no time of at most an hour", line.text()));
        }
        found
    }

    /// Whether it is about HTTP.
    fn is_http(&self) -> bool {
        let is_about_http = |line: &Line| {
            matches!(
                line.word(0),
                "http-request" | "http-response" | "redirect" | "cookie" | "reqrep" | "rspadd" | "http-check"
            ) || line.word(0) == "option" && (line.word(1).starts_with("http") || line.word(1) == "forwardfor")
        };
        match self.all("mode").last() {
            Some(line) => line.word(1) == "http",
            None => self.own.iter().any(is_about_http),
        }
    }
}

/// A time of HAProxy.
fn milliseconds(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let number: u64 = text[..digits].parse().ok()?;
    let factor = match &text[digits..] {
        "us" => return Some(number / 1000),
        "" | "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    number.checked_mul(factor)
}

/// Imports these sections; none if no site is among them.
fn of_lines(lines: &[Line], files: Files<'_>) -> Option<Draft> {
    let mut draft = Draft::default();
    let sections = sections(lines);
    let lists = Lists::of(&sections, &mut draft);
    lines.iter().for_each(|line| beside(line, &mut draft));
    let is_front = |section: &&Section<'_>| matches!(section.line.word(0), "frontend" | "listen");
    let mut fronts: Vec<(&Section<'_>, listen::Binds)> = Vec::new();
    for section in sections.iter().filter(is_front) {
        if section.is_http() {
            let binds = listen::binds(section, files, &mut draft);
            fronts.push((section, binds));
        } else {
            let why = "connections are not passed on as they are: only HTTP is spoken (`mode http`)";
            draft.lose(section.line.line, format!("`{}` and all that it says: {why}", section.line.text()));
        }
    }
    fronts.retain(|(section, _)| {
        let answers = |line: &Line| {
            matches!(
                line.word(0),
                "server" | "server-template" | "use_backend" | "redirect" | "http-request" | "monitor-uri"
            )
        };
        let is_of_requests = section.own.iter().any(answers) || section.all("default_backend").next().is_some();
        if !is_of_requests {
            let why = "it only tells figures: `lamna ctl stats` does (docs/control.md)";
            draft.lose(section.line.line, format!("`{}` and all that it says: {why}", section.line.text()));
        }
        is_of_requests
    });
    // Of several that answer for any host, the one that speaks TLS is the site, or else the one that clients find.
    fronts.sort_by_key(|(_, binds)| (!binds.has_tls(), !binds.addresses().iter().any(|one| one.ends_with(":80"))));
    for (section, binds) in fronts {
        front(section, &binds, &sections, &lists, files, &mut draft);
    }
    if draft.sites.is_empty() {
        return None;
    }
    let used = |name: &str| {
        let names = |line: &Line| matches!(line.word(0), "use_backend" | "default_backend") && line.word(1) == name;
        sections.iter().any(|section| section.own.iter().chain(section.defaults).any(names))
    };
    for section in sections.iter().filter(|section| section.line.word(0) == "backend" && !used(section.name())) {
        draft.need_not(
            section.line.line,
            format!("`{}` and all that it says: nothing leads to it", section.line.text()),
        );
    }
    Some(draft)
}

/// The sections with what applies to them.
fn sections(lines: &[Line]) -> Vec<Section<'_>> {
    let mut defaults: &[Line] = &[];
    let mut found = Vec::new();
    for line in lines {
        if line.word(0) == "defaults" {
            defaults = line.lines();
            continue;
        }
        let from = line.words.iter().position(|word| word == "from").map(|at| line.word(at + 1));
        let named = from.and_then(|name| lines.iter().find(|one| one.word(0) == "defaults" && one.word(1) == name));
        found.push(Section { line, own: line.lines(), defaults: named.map_or(defaults, |one| one.lines()) });
    }
    found
}

/// Sections and lines that are about something else than requests.
fn beside(section: &Line, draft: &mut Draft) {
    match section.word(0) {
        "frontend" | "backend" | "listen" | "defaults" => section.lines().iter().for_each(|line| needless(line, draft)),
        "userlist" => {}
        "global" => {
            for line in section.lines() {
                let text = line.text();
                match line.word(0) {
                    "log" | "log-send-hostname" | "log-tag" => {
                        draft.lose(line.line, format!("`{text}`: logs are files or standard output (docs/logs.md)"));
                    }
                    "stats" => {
                        draft.need_not(line.line, format!("`{text}`: `lamna ctl` is for that (docs/control.md)"))
                    }
                    "maxconn" | "nbproc" | "nbthread" | "cpu-map" | "ulimit-n" | "spread-checks" | "maxconnrate"
                    | "maxsslconn" | "maxpipes" => {
                        draft.need_not(line.line, format!("`{text}`: the server finds out by itself"))
                    }
                    name if name.starts_with("tune.") => {
                        draft.need_not(line.line, format!("`{text}`: the server finds out by itself"));
                    }
                    "chroot" | "user" | "group" | "uid" | "gid" | "daemon" | "pidfile" | "master-worker" | "node"
                    | "description" | "hard-stop-after" | "quiet" | "debug" | "unix-bind" => {
                        let why = "the service manager starts the server, with the rights that it is to have";
                        draft.need_not(line.line, format!("`{text}`: {why}"));
                    }
                    name if name.starts_with("ssl-") || name == "crt-base" || name == "ca-base" => match name {
                        "crt-base" => {}
                        _ => draft.need_not(
                            line.line,
                            format!("`{text}`: TLS 1.2 and 1.3 are spoken, with suites that are safe"),
                        ),
                    },
                    _ => draft.lose(line.line, format!("`{text}`: Lamna has nothing like it")),
                }
            }
        }
        _ => draft.lose(section.line, format!("`{}` and all that it says: Lamna has nothing like it", section.text())),
    }
}

/// Notes lines that need nothing or of which there is nothing, whatever section they are in.
fn needless(line: &Line, draft: &mut Draft) {
    let text = line.text();
    let why = match (line.word(0), line.word(1)) {
        (
            "option",
            "httplog"
            | "tcplog"
            | "dontlognull"
            | "dontlog-normal"
            | "logasap"
            | "log-separate-errors"
            | "log-health-checks"
            | "http-server-close"
            | "httpclose"
            | "forceclose"
            | "http-keep-alive"
            | "http-tunnel"
            | "http-pretend-keepalive"
            | "prefer-last-server"
            | "redispatch"
            | "tcp-smart-accept"
            | "tcp-smart-connect"
            | "splice-auto"
            | "splice-request"
            | "splice-response"
            | "http-no-delay"
            | "nolinger"
            | "clitcpka"
            | "srvtcpka"
            | "tcpka"
            | "socket-stats"
            | "contstats"
            | "abortonclose"
            | "allbackups"
            | "http-ignore-probes"
            | "http-buffer-request"
            | "http-use-htx"
            | "idle-close-on-response"
            | "http-use-proxy-header"
            | "checkcache"
            | "independent-streams"
            | "accept-invalid-http-request"
            | "accept-invalid-http-response",
        ) => "the server does what is right there by itself",
        ("option", "forwardfor") if !line.words.iter().any(|word| word == "header") => {
            "an application is told the client in X-Forwarded-For"
        }
        ("option", "originalto") => return draft.lose(line.line, format!("`{text}`: an application is not told that")),
        (
            "retries"
            | "maxconn"
            | "fullconn"
            | "backlog"
            | "bind-process"
            | "rate-limit"
            | "grace"
            | "retry-on"
            | "hash-type"
            | "hash-balance-factor"
            | "id"
            | "description"
            | "enabled"
            | "log-tag"
            | "unique-id-format"
            | "unique-id-header"
            | "dynamic-cookie-key"
            | "load-server-state-from-file"
            | "http-reuse"
            | "email-alert",
            _,
        ) => "the server decides that by itself",
        ("timeout", "queue" | "tarpit" | "client-fin" | "server-fin") => {
            "there is no such time here, or it is bounded otherwise"
        }
        ("log" | "log-format" | "log-format-sd" | "capture" | "declare", _) => {
            return draft.lose(line.line, format!("`{text}`: logs are files or standard output (docs/logs.md)"));
        }
        ("errorfile" | "errorloc" | "errorloc302" | "errorloc303" | "errorfiles" | "http-error", _) => {
            let why = "it is a whole answer with its head: pages for errors are files (`error_pages`, docs/pages.md)";
            return draft.lose(line.line, format!("`{text}`: {why}"));
        }
        ("stats", _) => {
            let why = "figures are told by `lamna ctl stats` and at /metrics of the control address (docs/metrics.md)";
            return draft.lose(line.line, format!("`{text}`: {why}"));
        }
        ("stick-table", _) => {
            return draft.lose(line.line, format!("`{text}`: `[[site.limit]]` limits requests (docs/limits.md)"));
        }
        ("compression", "type" | "offload" | "direction") => "text is compressed where that is asked for",
        (
            "filter" | "email" | "dispatch" | "transparent" | "source" | "usesrc" | "external-check" | "persist"
            | "force-persist" | "ignore-persist" | "use-server" | "use-fcgi-app",
            _,
        ) => {
            return draft.lose(line.line, format!("`{text}`: Lamna has nothing like it"));
        }
        _ => return,
    };
    draft.need_not(line.line, format!("`{text}`: {why}"));
}

/// Makes a site of a frontend.
fn front(
    section: &Section<'_>,
    binds: &listen::Binds,
    sections: &[Section<'_>],
    lists: &Lists,
    files: Files<'_>,
    draft: &mut Draft,
) {
    let mut site = Site { line: section.line.line, is_default: true, ..Site::default() };
    let before = (draft.lost.len(), draft.needless.len());
    let made = rules::of_front(section, binds, sections, lists, files, &mut site, draft);
    site.leads_to_tls = made.leads_to_tls;
    site.listens = binds.addresses();
    // Without their lines.
    let says = |site: &Site| site.routes.iter().map(|route| route.keys.clone()).collect::<Vec<_>>();
    let text = section.line.text();
    let Some(earlier) = draft.sites.first() else {
        binds.listen(&mut site, made.leads_clear_to_tls, draft);
        limits(section, draft);
        draft.sites.push(site);
        return;
    };
    let (line, has_tls) = (earlier.line, earlier.keys.iter().any(|(key, _)| *key == "certificate"));
    if says(earlier) == says(&site) && !binds.has_tls() {
        let mut earlier = draft.sites.remove(0);
        binds.listen(&mut earlier, false, draft);
        earlier.listens.extend(binds.addresses());
        return draft.sites.insert(0, earlier);
    }
    draft.lost.truncate(before.0);
    draft.needless.truncate(before.1);
    if made.leads_clear_to_tls && has_tls {
        // What is asked for in clear text is led to TLS here anyway.
        let mut earlier = draft.sites.remove(0);
        binds.listen(&mut earlier, true, draft);
        draft.sites.insert(0, earlier);
        if site.leads_to_tls {
            return draft.need_not(site.line, format!("`{text}` and all that it says: clear text is led to https"));
        }
        let why = "requests in clear text are led to https, and nothing else is done there";
        return draft.lose(site.line, format!("`{text}` and all that it says: {why}"));
    }
    let why = format!("the one of line {line} answers at every address: import this one for another server");
    draft.lose(site.line, format!("`{text}` and all that it says: {why}"));
}

/// Times of clients, which are for all sites.
fn limits(section: &Section<'_>, draft: &mut Draft) {
    for (name, key) in
        [("http-request", "head_timeout_ms"), ("http-keep-alive", "idle_timeout_ms"), ("client", "body_timeout_ms")]
    {
        if let Some(ms) = section.timeout(name, draft) {
            draft.limits.push((key.to_owned(), ms.to_string()));
        }
    }
}
