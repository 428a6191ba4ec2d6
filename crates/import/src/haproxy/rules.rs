//! Rules of HAProxy: what is done with which requests.
//!
//! Owns: the routes of a frontend and of the backends that it leads to. Guarantees: routes have priorities in the order
//! of the rules, so the first that fits counts. A refusal whose condition cannot be said refuses more, unless it is for
//! an unusual state of the server; another rule about such requests has them answered with 404, unless its condition is
//! about the state of the server.

use lamna_config::render::quoted;

use super::acl::{Acls, Condition, Conjunction};
use super::changed::Changed;
use super::fields::{self, Change};
use super::syntax::Line;
use super::users::Lists;
use super::{Section, listen, map, server};
use crate::matching::{self, Kind, Literal, PathTest, Test, Unsaid};
use crate::{DENIED_WORDS, Draft, Files, Route, Site, respond};

/// The outcome of a frontend.
pub(super) struct Made {
    /// All that it does is to lead to the same with TLS.
    pub(super) leads_to_tls: bool,
    /// Requests in clear text are led to the same with TLS.
    pub(super) leads_clear_to_tls: bool,
}

/// The priority of the first rule.
const FIRST_PRIORITY: i32 = 90_000;

/// Something that a rule does.
#[derive(Clone, Debug)]
enum Action {
    /// Answers, refuses or leads elsewhere; whether it restricts.
    Answer {
        keys: Vec<(&'static str, String)>,
        restricts: bool,
    },
    /// Asks for a password, if none of a list is shown.
    Password,
    Change(Change),
    /// Takes a prefix away for the application.
    Strip(String),
    /// Asks the application for another path, which cannot be said.
    Elsewhere,
}

/// A rule.
struct Rule<'l> {
    line: &'l Line,
    condition: Condition,
    action: Action,
}

/// The routes that are being made.
struct Rules<'c> {
    lists: &'c Lists,
    is_tls: Option<bool>,
    routes: Vec<Route>,
}

/// Makes routes of a frontend.
pub(super) fn of_front(
    section: &Section<'_>,
    binds: &listen::Binds,
    sections: &[Section<'_>],
    lists: &Lists,
    files: Files<'_>,
    site: &mut Site,
    draft: &mut Draft,
) -> Made {
    let mut rules = Rules { lists, is_tls: binds.is_tls(), routes: Vec::new() };
    let mut made = Made { leads_to_tls: false, leads_clear_to_tls: false };
    let acls = acls(section, files, draft);
    let mut changed = Changed::default();
    let mut own = read(section, &acls, &mut changed, files, draft);
    if binds.shuts() {
        rules.push(section.line.line, quoted("*"), vec![("access", quoted("deny"))]);
    }
    // What is asked for in clear text is led to TLS by the server itself where both are served.
    own.retain(|rule| {
        let is_to_tls = matches!(&rule.action, Action::Answer { keys, .. } if keys.iter().any(|(key, value)| *key == "redirect" && value.contains("\"https://$host$path\"")));
        let asks_tls = |one: &Conjunction| one.literals.iter().any(|(test, is_not)| *test == Test::Tls && *is_not);
        let is_whole = |one: &Conjunction| one.literals.is_empty() && one.users.is_empty();
        if is_to_tls && rules.is_tls.is_none() && !rule.condition.is_empty() && rule.condition.iter().all(asks_tls) {
            made.leads_clear_to_tls = true;
            let text = rule.line.text();
            if rule.condition.iter().all(|one| one.literals.len() == 1) {
                draft.need_not(rule.line.line, format!("`{text}`: clear text is led to https where there is a certificate"));
            } else {
                draft.lose(rule.line.line, format!("`{text}`: all requests in clear text are led to https"));
            }
            return false;
        }
        if is_to_tls && rules.is_tls == Some(false) {
            made.leads_clear_to_tls = true;
            let is_always = |one: &Conjunction| is_whole(&one.clone().over(Some(false)).without_always());
            made.leads_to_tls |= rule.condition.iter().any(is_always);
        }
        true
    });
    for line in section.all("monitor-uri") {
        rules.monitor(section, line, &acls, files, draft);
    }
    let always = Conjunction::default();
    rules.answers(&own, &always, site, draft);
    let mut targets = targets(section, &acls, sections, files, draft);
    for target in &mut targets {
        target.condition = changed.settle(std::mem::take(&mut target.condition));
    }
    let backends: Vec<(Vec<Rule<'_>>, Option<&Section<'_>>)> = targets
        .iter()
        .map(|target| {
            let backend = sections.iter().find(|one| target.name == Some(one.name()) && one.line.word(0) != "frontend");
            let backend = backend.or(target.is_itself.then_some(section));
            let inner = backend.filter(|_| !target.is_itself);
            (
                inner.map_or(Vec::new(), |backend| {
                    let acls = self::acls(backend, files, draft);
                    read(backend, &acls, &mut changed.clone(), files, draft)
                }),
                backend,
            )
        })
        .collect();
    let own_asks = own.iter().any(|rule| matches!(rule.action, Action::Password));
    for (at, (target, (inner, backend))) in targets.iter().zip(&backends).enumerate() {
        let others = backends.iter().enumerate().filter(|(other, _)| *other != at).flat_map(|(_, (rules, _))| rules);
        let others: Vec<&Rule<'_>> = others.collect();
        let mut last = Vec::new();
        match backend.filter(|one| target.is_itself || one.is_http() || one.all("mode").next().is_none()) {
            None => {
                let why = "it is no backend of HTTP: requests for it are answered with 503";
                draft.lose(target.line.line, format!("`{}`: {why}", target.line.text()));
                last.push(("respond", "503".to_owned()));
            }
            Some(backend) => match server::value(backend, draft) {
                Some(value) => {
                    last.push(("proxy", value));
                    if let Some(line) = backend.all("compression").find(|line| line.word(1) == "algo") {
                        _ = line;
                        last.push(("filters", "[\"compress\"]".into()));
                    }
                    for line in backend.all("option forwardfor") {
                        if let Some(at) = line.words.iter().position(|word| word == "header") {
                            let words = ["set-header".to_owned(), line.word(at + 1).to_owned(), "%[src]".to_owned()];
                            let change = fields::read(line, true, &words, draft);
                            last.extend(change.iter().flat_map(|change| fields::keys(&[change], &[])));
                        }
                    }
                }
                None => {
                    let is_answered = inner.iter().any(|rule| {
                        matches!(rule.action, Action::Answer { .. }) && rule.condition.contains(&Conjunction::default())
                    });
                    if !is_answered && !target.is_itself {
                        let why = "no server of it can be asked: requests for it are answered with 503";
                        draft.lose(target.line.line, format!("`{}`: {why}", target.line.text()));
                    }
                    last.push(("respond", "503".to_owned()));
                }
            },
        }
        if others.iter().any(|rule| matches!(rule.action, Action::Password)) && !own_asks {
            last.push(("access", quoted("anyone")));
        }
        for condition in &target.condition {
            rules.backend(target.line, condition, &own, inner, &others, &last, site, draft);
        }
    }
    site.routes = rules.routes;
    made
}

/// A backend, and for which requests.
struct Target<'l> {
    line: &'l Line,
    condition: Condition,
    name: Option<&'l str>,
    /// It is the section itself that has servers.
    is_itself: bool,
}

/// The backends of a frontend, in their order.
fn targets<'l>(
    section: &Section<'l>,
    acls: &Acls,
    sections: &[Section<'l>],
    files: Files<'_>,
    draft: &mut Draft,
) -> Vec<Target<'l>> {
    let mut targets = Vec::new();
    for line in section.own.iter().filter(|line| line.word(0) == "use_backend") {
        let condition = acls.condition(&line.words[line.words.len().min(2)..], files.read);
        let Some(dynamic) = line.word(1).strip_prefix("%[") else {
            targets.push(Target { line, condition, name: Some(line.word(1)), is_itself: false });
            continue;
        };
        match map::by_map(dynamic.trim_end_matches(']'), files) {
            Ok((hosts, otherwise)) => {
                for (host, name) in hosts {
                    let Some(backend) = sections.iter().find(|one| one.name() == name) else { continue };
                    let of_host = Conjunction { literals: vec![(Test::Host(vec![host]), false)], users: Vec::new() };
                    let condition = condition.iter().map(|one| one.and(&of_host)).collect();
                    targets.push(Target { line, condition, name: Some(backend.name()), is_itself: false });
                }
                let otherwise = otherwise.and_then(|name| sections.iter().find(|one| one.name() == name));
                targets.extend(otherwise.map(|one| Target {
                    line,
                    condition,
                    name: Some(one.name()),
                    is_itself: false,
                }));
            }
            Err(why) => {
                draft.lose(
                    line.line,
                    format!("`{}`: {why}; requests that it may be for are answered with 503", line.text()),
                );
                targets.push(Target { line, condition, name: None, is_itself: false });
            }
        }
    }
    let always = vec![Conjunction::default()];
    match section.all("default_backend").last() {
        Some(line) => targets.push(Target { line, condition: always, name: Some(line.word(1)), is_itself: false }),
        None => targets.push(Target { line: section.line, condition: always, name: None, is_itself: true }),
    }
    targets
}

fn acls(section: &Section<'_>, files: Files<'_>, draft: &mut Draft) -> Acls {
    let mut acls = Acls::default();
    for line in section.defaults.iter().chain(section.own).filter(|line| line.word(0) == "acl") {
        acls.define(line, files.read, draft);
    }
    acls
}

/// The kind of lines that are no rules.
const OTHERS: u8 = 8;

/// Conditions under which rules go on, beyond which they are not told apart.
const GOING_ON_MAX: usize = 64;

/// The rules of a section, in the order in which they are carried out. They change what is asked after them.
fn read<'l>(
    section: &Section<'l>,
    acls: &Acls,
    changed: &mut Changed,
    files: Files<'_>,
    draft: &mut Draft,
) -> Vec<Rule<'l>> {
    // Rules of one kind go on after those of another have accepted a request.
    let order = |line: &Line| match (line.word(0), line.word(1)) {
        ("tcp-request", "connection") => 0,
        ("tcp-request", "session") => 1,
        ("tcp-request", _) => 2,
        ("block", _) => 3,
        ("http-request", _) => 4,
        (
            "reqdeny" | "reqideny" | "reqrep" | "reqirep" | "reqadd" | "reqdel" | "reqidel" | "reqtarpit"
            | "reqitarpit" | "reqallow" | "reqiallow" | "reqpass",
            _,
        ) => 5,
        ("redirect", _) => 6,
        (
            "http-response"
            | "http-after-response"
            | "rspadd"
            | "rspdel"
            | "rspidel"
            | "rsprep"
            | "rspirep"
            | "rspdeny"
            | "tcp-response",
            _,
        ) => 7,
        _ => OTHERS,
    };
    let mut lines: Vec<&Line> =
        section.defaults.iter().chain(section.own).filter(|line| order(line) < OTHERS).collect();
    lines.sort_by_key(|line| order(line));
    let mut rules: Vec<Rule<'l>> = Vec::new();
    // For which requests rules of this kind go on.
    let (mut going_on, mut of_kind): (Condition, u8) = (vec![Conjunction::default()], 0);
    for line in lines {
        let kind = order(line);
        if kind != of_kind {
            (going_on, of_kind) = (vec![Conjunction::default()], kind);
        }
        let at = line.words.iter().position(|word| word == "if" || word == "unless").unwrap_or(line.words.len());
        let (words, condition) = line.words.split_at(at);
        let condition = changed.settle(acls.condition(condition, files.read));
        changed.by(line);
        let is_accept = matches!(
            (words.first().map(String::as_str), words.get(1).map(String::as_str), words.get(2).map(String::as_str)),
            (Some("http-request"), Some("allow"), _) | (Some("tcp-request"), _, Some("accept"))
        );
        if is_accept {
            let beyond: Condition = condition.iter().fold(going_on.clone(), |rest, fits| {
                let each = |one: &Conjunction| fits.opposites().iter().map(|other| one.and(other)).collect::<Vec<_>>();
                rest.iter().flat_map(each).take(GOING_ON_MAX + 1).collect()
            });
            let unsaid = Test::Unsaid(Unsaid::of_request("too many requests are accepted before"));
            going_on = match beyond.len() <= GOING_ON_MAX {
                true => beyond,
                false => vec![Conjunction { literals: vec![(unsaid, false)], users: Vec::new() }],
            };
            continue;
        }
        let Some(action) = action(line, words, draft) else { continue };
        let condition: Condition = condition.iter().flat_map(|one| going_on.iter().map(|more| one.and(more))).collect();
        rules.push(Rule { line, condition, action });
    }
    rules
}

/// Something that a rule does. None if there is nothing to do, which is told.
fn action(line: &Line, words: &[String], draft: &mut Draft) -> Option<Action> {
    let text = line.text();
    let word = |at: usize| words.get(at).map_or("", String::as_str);
    let after =
        |name: &str| words.iter().position(|one| one == name).and_then(|at| words.get(at + 1)).map(String::as_str);
    let refuse = |default: &str, draft: &mut Draft| {
        let status = after("deny_status").or(after("status")).unwrap_or(default);
        let keys = vec![("respond", respond::value(status, "").unwrap_or_else(|| "403".to_owned()))];
        if words.iter().any(|one| matches!(&**one, "content-type" | "string" | "lf-string" | "errorfile" | "file")) {
            draft.lose(line.line, format!("the content of `{text}`: it is refused without"));
        }
        Some(Action::Answer { keys, restricts: true })
    };
    let changes = |is_of_request: bool, words: &[String], draft: &mut Draft| {
        fields::read(line, is_of_request, words, draft).map(Action::Change)
    };
    match (word(0), word(1)) {
        ("block" | "reqdeny" | "reqideny" | "reqtarpit" | "reqitarpit", _) if word(0) != "block" => {
            draft.lose(line.line, format!("`{text}`: which requests it refuses is not known here; all are refused"));
            Some(Action::Answer { keys: vec![("respond", "403".into())], restricts: true })
        }
        ("block", _) => refuse("403", draft),
        ("tcp-request", "inspect-delay") => {
            draft.need_not(line.line, format!("`{text}`: the server waits for a whole request"));
            None
        }
        ("tcp-request", _) => match word(2) {
            "reject" | "silent-drop" | "close" => refuse("403", draft),
            "expect-proxy" => refuse("403", draft),
            _ => {
                draft.lose(line.line, format!("`{text}`: `[[site.limit]]` limits requests (docs/limits.md)"));
                None
            }
        },
        ("http-request", "deny" | "reject" | "silent-drop") => refuse("403", draft),
        ("http-request", "tarpit") => refuse("500", draft),
        ("http-request", "auth") => Some(Action::Password),
        ("http-request" | "redirect", _) if word(0) == "redirect" || word(1) == "redirect" => {
            redirect(line, &words[if word(0) == "redirect" { 1 } else { 2 }..], draft)
        }
        ("http-request", "return") => {
            let content = after("string").or(after("lf-string")).unwrap_or("");
            let plain =
                !words.iter().any(|one| matches!(&**one, "file" | "lf-file" | "errorfile" | "errorfiles" | "hdr"));
            let value =
                respond::value(after("status").unwrap_or("200"), content).filter(|_| plain && !content.contains("%["));
            let keys = match value {
                Some(value) => {
                    if after("content-type").is_some_and(|kind| !kind.starts_with("text/plain")) {
                        draft.lose(line.line, format!("`content-type` of `{text}`: it is sent as text/plain"));
                    }
                    vec![("respond", value)]
                }
                None => {
                    draft.lose(
                        line.line,
                        format!("`{text}`: this answer cannot be said (docs/pages.md); {DENIED_WORDS}"),
                    );
                    vec![("respond", "404".to_owned())]
                }
            };
            Some(Action::Answer { keys, restricts: false })
        }
        ("http-request", "set-header" | "add-header" | "del-header" | "replace-header" | "replace-value") => {
            changes(true, &words[1..], draft)
        }
        (
            "http-response" | "http-after-response",
            "set-header" | "add-header" | "del-header" | "replace-header" | "replace-value",
        ) => changes(false, &words[1..], draft),
        ("reqadd" | "rspadd", _) => {
            let (name, value) = word(1).split_once(':')?;
            let words = ["add-header".to_owned(), name.trim().to_owned(), value.trim().to_owned()];
            changes(word(0) == "reqadd", &words, draft)
        }
        ("reqdel" | "reqidel" | "rspdel" | "rspidel", _) => {
            let name = word(1).trim_start_matches('^').trim_end_matches(".*").trim_end_matches(':').to_owned();
            changes(word(0).starts_with("req"), &["del-header".to_owned(), name], draft)
        }
        ("http-request", "set-path" | "replace-path" | "replace-pathq" | "set-uri" | "replace-uri" | "set-pathq")
        | ("reqrep" | "reqirep", _) => {
            let found = stripped(words).map(Action::Strip);
            if found.is_none() {
                let why =
                    "an application is asked for the path of the request, or for it without a prefix (`strip_prefix`)";
                draft.lose(line.line, format!("`{text}`: {why}; {DENIED_WORDS}"));
            }
            Some(found.unwrap_or(Action::Elsewhere))
        }
        ("http-request", "use-service") => {
            draft.lose(line.line, format!("`{text}`: Lamna has nothing like it; {DENIED_WORDS}"));
            Some(Action::Answer { keys: vec![("respond", "404".into())], restricts: false })
        }
        ("http-request", name) if name.starts_with("lua.") => {
            draft.lose(line.line, format!("`{text}`: what it decides is not known here; {DENIED_WORDS}"));
            Some(Action::Answer { keys: vec![("respond", "404".into())], restricts: true })
        }
        (
            "http-request",
            "set-var" | "unset-var" | "track-sc0" | "track-sc1" | "track-sc2" | "set-log-level" | "capture" | "set-tos"
            | "set-mark" | "set-nice" | "wait-for-body" | "disable-l7-retry" | "normalize-uri" | "set-priority-class"
            | "early-hint" | "set-timeout" | "cache-use" | "do-resolve" | "wait-for-handshake" | "strict-mode"
            | "sc-inc-gpc0",
        ) => {
            let why = match word(1) {
                "wait-for-body" | "wait-for-handshake" | "normalize-uri" => {
                    draft.need_not(line.line, format!("`{text}`: the server does that by itself"));
                    return None;
                }
                "cache-use" => "`cache` of a route keeps answers (docs/caching-answers.md)",
                _ => "Lamna has nothing like it",
            };
            draft.lose(line.line, format!("`{text}`: {why}"));
            None
        }
        ("http-request", "set-src" | "set-method" | "set-query" | "set-dst" | "set-dst-port" | "replace-query") => {
            draft.lose(line.line, format!("`{text}`: an application is asked as the client asks; {DENIED_WORDS}"));
            Some(Action::Elsewhere)
        }
        ("http-response", "deny") | ("rspdeny", _) => {
            draft.lose(line.line, format!("`{text}`: answers are not looked at; {DENIED_WORDS}"));
            Some(Action::Answer { keys: vec![("respond", "404".into())], restricts: true })
        }
        _ => {
            draft.lose(line.line, format!("`{text}`: Lamna has nothing like it"));
            None
        }
    }
}

/// A redirect.
fn redirect(line: &Line, words: &[String], draft: &mut Draft) -> Option<Action> {
    let text = line.text();
    let (mut to, mut status, mut at) = (None, "302", 0);
    while at < words.len() {
        let next = words.get(at + 1).map_or("", String::as_str);
        match &*words[at] {
            "location" => to = fields::location(next),
            "prefix" => to = fields::location(next).map(|to| format!("{}$path", to.trim_end_matches('/'))),
            "scheme" => to = Some(format!("{next}://$host$path")),
            "code" => status = next,
            "drop-query" | "append-slash" | "ignore-empty" | "keep-query" => {
                at += 1;
                continue;
            }
            word => draft.lose(line.line, format!("`{word}` of `{text}`: Lamna has nothing like it")),
        }
        at += 2;
    }
    let is_known = matches!(status, "301" | "302" | "303" | "307" | "308");
    let is_good = |to: &String| {
        let is_place =
            to.starts_with('/') && !to.starts_with("//") || to.starts_with("http://") || to.starts_with("https://");
        let host = to.split_once("://").map(|(_, rest)| rest.split('/').next().unwrap_or_default());
        let host = host.map(|host| host.strip_suffix("$path").unwrap_or(host));
        let is_whole = host.is_none_or(|host| !host.contains('$') || host == "$host");
        let ends = host.is_none_or(|host| !host.is_empty());
        is_place && is_whole && ends && to.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\')
            || to == "https://$host$path"
    };
    let to = to.filter(|to| is_known && (is_good(to) || to == "$path"));
    let keys = match to {
        Some(to) => vec![("redirect", format!("{{ to = {}, status = {status} }}", quoted(&to)))],
        None => {
            draft.lose(line.line, format!("`{text}`: where it leads cannot be said here; {DENIED_WORDS}"));
            vec![("respond", "404".to_owned())]
        }
    };
    Some(Action::Answer { keys, restricts: false })
}

/// The prefix that a change of the path takes away.
fn stripped(words: &[String]) -> Option<String> {
    let word = |at: usize| words.get(at).map_or("", String::as_str);
    let (pattern, to) = match word(0) {
        "http-request" if word(1).starts_with("replace-") => (word(2).to_owned(), word(3).to_owned()),
        "reqrep" | "reqirep" => {
            let method = regex::Regex::new(r"^\^\(\[\^\\? ?:?\\? ?\]\*\)\\? ").ok()?;
            let rest = method.replace(word(1), "^");
            (rest.into_owned(), word(2).strip_prefix("\\1 ")?.replace("\\2", "\\1"))
        }
        _ => {
            let inner = word(2).strip_prefix("%[path,regsub(")?.strip_suffix(")]")?;
            let (pattern, to) = inner.split_once(',')?;
            let pattern = pattern.trim_matches(['"', '\'']);
            (
                format!("{}(.*)", pattern.trim_end_matches('/').trim_end_matches("/?")),
                format!("{}\\1", to.trim_matches(['"', '\''])),
            )
        }
    };
    let shape = regex::Regex::new(r"^\^?(?<prefix>(?:/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)+)(?:/\(\.\*\)|\(/\.\*\)|\(/\)\?\(\.\*\)|/\?\(\.\*\)|\(\.\*\))\$?$").ok()?;
    let prefix = shape.captures(&pattern)?["prefix"].to_owned();
    matches!(&*to, "/\\1" | "\\1" | "/\\2" | "/" | "\\2").then_some(prefix)
}

/// Whether what these ask of the state of the server is so as a rule.
fn is_usual(literals: &[Literal]) -> bool {
    literals.iter().all(|(test, is_not)| *is_not || !matches!(test, Test::Unsaid(why) if !why.is_of_request))
}

impl Rules<'_> {
    fn push(&mut self, line: usize, matches: String, keys: Vec<(&'static str, String)>) {
        let priority = FIRST_PRIORITY - i32::try_from(self.routes.len()).unwrap_or(0);
        let first = [("match", matches), ("priority", priority.to_string())];
        self.routes.push(Route { line, keys: first.into_iter().chain(keys).collect() });
    }

    /// A route with these keys for requests that fit. What cannot be said is refused to more where the rule restricts,
    /// and answered with 404 where it is about requests.
    fn emit(
        &mut self,
        line: &Line,
        conjunction: &Conjunction,
        keys: Vec<(&'static str, String)>,
        restricts: bool,
        draft: &mut Draft,
    ) {
        let mut literals = conjunction.clone().over(self.is_tls).literals;
        if !conjunction.users.is_empty() {
            let why = "whether a password is shown is asked by `access` alone";
            literals.push((Test::Unsaid(Unsaid::of_request(why)), false));
        }
        match matching::said(&literals) {
            Ok(None) => {}
            Ok(Some(matches)) => self.push(line.line, matches, keys),
            Err(why) if !(why.is_of_request || restricts && is_usual(&literals)) => {
                draft.lose(line.line, format!("`{}`: {}", line.text(), why.why));
            }
            Err(why) => {
                let wider = matching::wider(&literals);
                let what = match (&wider, restricts) {
                    (None, _) => "it is for no request".to_owned(),
                    (Some(wider), true) => format!("it is for more requests, for {wider}"),
                    (Some(wider), false) => format!("{DENIED_WORDS}, for {wider}"),
                };
                draft.lose(line.line, format!("`{}`: {}; {what}", line.text(), why.why));
                if let (false, Some(narrower)) = (restricts, matching::narrower(&literals)) {
                    self.push(line.line, narrower, keys.clone());
                }
                let keys = if restricts { keys } else { vec![("respond", "404".to_owned())] };
                wider.into_iter().for_each(|wider| self.push(line.line, wider, keys.clone()));
            }
        }
    }

    /// The answer to who asks whether the server is well; another one comes first where it fails.
    fn monitor(&mut self, section: &Section<'_>, line: &Line, acls: &Acls, files: Files<'_>, draft: &mut Draft) {
        let path = Test::Path(vec![PathTest::new(Kind::Exact, line.word(1), false)]);
        let asked = Conjunction { literals: vec![(path, false)], users: Vec::new() };
        for fail in section.all("monitor fail") {
            for condition in acls.condition(&fail.words[fail.words.len().min(2)..], files.read) {
                self.emit(fail, &asked.and(&condition), vec![("respond", "503".into())], true, draft);
            }
        }
        self.emit(line, &asked, vec![("respond", "200".into())], false, draft);
    }

    /// Routes for what answers, refuses or asks for a password, within `around`.
    fn answers(&mut self, rules: &[Rule<'_>], around: &Conjunction, site: &mut Site, draft: &mut Draft) {
        for rule in rules {
            for condition in &rule.condition {
                let both = around.and(condition);
                match &rule.action {
                    Action::Answer { keys, restricts } => self.emit(rule.line, &both, keys.clone(), *restricts, draft),
                    Action::Password => {
                        let asked = both.users.iter().find(|(.., is_not)| *is_not);
                        let value =
                            asked.map_or(quoted("deny"), |(name, groups, _)| self.lists.access(name, groups, site));
                        // Those who show one of another list are asked as well.
                        let both = Conjunction { users: Vec::new(), ..both };
                        self.emit(rule.line, &both, vec![("access", value)], true, draft);
                    }
                    Action::Change(_) | Action::Strip(_) | Action::Elsewhere => {}
                }
            }
        }
    }

    /// Routes of a backend, for requests that fit `around`.
    #[allow(clippy::too_many_arguments)]
    fn backend(
        &mut self,
        line: &Line,
        around: &Conjunction,
        own: &[Rule<'_>],
        inner: &[Rule<'_>],
        others: &[&Rule<'_>],
        last: &[(&'static str, String)],
        site: &mut Site,
        draft: &mut Draft,
    ) {
        self.answers(inner, around, site, draft);
        let rules: Vec<&Rule<'_>> = own.iter().chain(inner).collect();
        let is_tls = self.is_tls;
        let is_always = |rule: &&&Rule<'_>| {
            rule.condition.iter().any(|one| {
                let one = one.clone().over(is_tls).without_always();
                one.literals.is_empty() && one.users.is_empty()
            })
        };
        let change = |rule: &&Rule<'_>| match &rule.action {
            Action::Change(change) => Some((change.is_of_request, change.name.clone())),
            _ => None,
        };
        let elsewhere: Vec<(bool, String)> = others.iter().filter_map(change).collect();
        let always: Vec<&Change> = rules
            .iter()
            .filter(is_always)
            .filter_map(|rule| if let Action::Change(change) = &rule.action { Some(change) } else { None })
            .collect();
        // The last rule about a field counts: it stands before the others.
        for (at, rule) in rules.iter().enumerate().rev() {
            let is_overridden = |change: &Change| {
                rules[at + 1..].iter().filter(is_always).any(|later| match &later.action {
                    Action::Change(other) => other.replaces(change),
                    _ => false,
                })
            };
            if matches!(&rule.action, Action::Change(change) if is_always(&rule) || is_overridden(change)) {
                continue;
            }
            for condition in &rule.condition {
                let both = around.and(condition);
                match &rule.action {
                    Action::Change(change) => self.change(rule.line, &both, change, draft),
                    Action::Strip(prefix) => {
                        let mut both = both;
                        let path = PathTest::new(Kind::Prefix, &format!("{prefix}/"), false);
                        both.literals.push((Test::Path(vec![path]), false));
                        if last.iter().any(|(key, _)| *key == "proxy") {
                            let mut keys = last.to_vec();
                            keys.push(("strip_prefix", quoted(prefix)));
                            let fields = fields::keys(&always, &elsewhere);
                            keys.retain(|(key, _)| !fields.iter().any(|(other, _)| other == key));
                            keys.extend(fields);
                            self.emit(rule.line, &both, keys, false, draft);
                        }
                    }
                    Action::Elsewhere => self.emit(rule.line, &both, vec![("respond", "404".into())], true, draft),
                    Action::Answer { .. } | Action::Password => {}
                }
            }
        }
        let mut keys = last.to_vec();
        let fields = fields::keys(&always, &elsewhere);
        keys.retain(|(key, _)| !fields.iter().any(|(other, _)| other == key));
        keys.extend(fields);
        self.emit(line, around, keys, false, draft);
    }

    /// A change of a field for some requests only. A client is believed in none that HAProxy takes away.
    fn change(&mut self, line: &Line, both: &Conjunction, change: &Change, draft: &mut Draft) {
        let literals = both.clone().over(self.is_tls).literals;
        let keys = fields::keys(&[change], &[]);
        let said = if both.users.is_empty() {
            matching::said(&literals)
        } else {
            Err(Unsaid::of_request("a password is asked for by `access` alone"))
        };
        match said {
            Ok(None) => {}
            Ok(Some(matches)) => self.push(line.line, matches, keys),
            Err(why) => {
                let is_believed = change.is_of_request
                    && crate::told::is_believed(&change.name)
                    && !matches!(change.does, fields::Does::Add(_));
                let what = if is_believed { "; it is removed, for more requests" } else { "" };
                draft.lose(line.line, format!("`{}`: {}{what}", line.text(), why.why));
                if let (true, Some(wider)) = (is_believed, matching::wider(&literals)) {
                    let removed = Change { does: fields::Does::Remove, ..change.clone() };
                    self.push(line.line, wider, fields::keys(&[&removed], &[]));
                }
            }
        }
    }
}
