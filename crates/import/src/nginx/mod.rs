//! The configuration of nginx: what its directives are here.
//!
//! Owns: which directives are carried over and how; locations are in `location`. What blocks inherit, they inherit
//! here.

mod access;
mod action;
mod caching;
mod continuation;
mod directory;
mod gateway;
mod include;
mod limit;
mod listen;
mod location;
mod log;
mod mapped;
mod needless;
mod passed;
mod pattern;
mod proxies;
mod refusal;
mod request_fields;
#[cfg(test)]
mod restraint_tests;
mod rewrite;
#[cfg(test)]
mod script_tests;
mod scripts;
mod service;
mod source;
mod syntax;
#[cfg(test)]
mod tests;
mod tls;
mod tried;
mod turn;
#[cfg(test)]
mod upstream_tests;
mod variables;

use lamna_config::render::quoted;
use lamna_config::route::pattern::Pattern;
use lamna_config::site::{FieldUse, is_sendable, is_single};
use lamna_policy::limit::Period;

use super::{
    DENIED_WORDS, Draft, Files, Imported, Note, PASSED_WORDS, Route, Site, audit, beside_applications, is_program,
    list, values_of,
};
use access::{Access, Let};
use action::Action;
use caching::{Caching, caching, milliseconds, with_caching};
use gateway::{Gateway, Routed, Upstream};
use limit::Limit;
use limit::Speed;
use listen::listen;
use location::{Location, push_action, push_location, turned};
use log::Log;
pub(super) use pattern::restricting;
use proxies::Proxies;
pub(super) use proxies::Said as Proxied;
use service::Services;
use syntax::Directive;
use tls::Tls;
use turn::Turn;
use variables::{location_of, template};

use crate::plain::Beside;
use crate::respond::{self, is_error};

pub(super) fn import(text: &str, files: Files<'_>) -> Result<Imported, Note> {
    let mut base = Draft::default();
    let mut directives = include::expand(syntax::parse(text)?, files, &mut base);
    mapped::expand(&mut directives, &mut base);
    passed::expand(&mut directives);
    access::read_files(&directives, files.read, &mut base);
    let of = |directives: &[Directive]| {
        let mut draft = Draft {
            files: base.files.clone(),
            file_names: base.file_names.clone(),
            lost: base.lost.clone(),
            ..Draft::default()
        };
        main(directives, &Scope { plain: turn::plain_variables(directives), ..Scope::default() }, &mut draft);
        limit::finish_connections(&mut draft);
        proxies::finish(&mut draft);
        leftovers(directives, &mut draft);
        draft
    };
    let mut draft = of(&directives);
    if draft.sites.is_empty() {
        return Err(Note::new(1, "there is no server block in it, nor in what it includes"));
    }
    let outcome = |directives: &[Directive]| Some(of(directives).outcome());
    let indifferent = audit::indifferent(&directives, &outcome, &|line, text| draft.says(line, text));
    indifferent.into_iter().for_each(|(line, words)| draft.need_not(line, words));
    draft.finish("nginx")
}

/// Notes every directive without a note as lost: so none is dropped without a word.
fn leftovers(directives: &[Directive], draft: &mut Draft) {
    for directive in directives {
        if !directive.is_carried() && !draft.says(directive.line, &directive.text()) {
            draft.lose(directive.line, format!("`{}`: nothing was made of it", directive.text()));
        }
        if directive.is_carried() && matches!(&*directive.name, "http" | "server" | "location") {
            leftovers(directive.block.as_deref().unwrap_or_default(), draft);
        }
    }
}

/// The inherited state of a block.
#[derive(Clone, Debug, Default)]
struct Scope {
    root: Option<String>,
    /// Names of index files, and where they are said.
    index: Option<(usize, String, Vec<String>)>,
    autoindex: bool,
    fields: Vec<(String, Vec<String>)>,
    /// The value of `expires`.
    caching: Option<Caching>,
    error_pages: Vec<(String, String)>,
    /// Names of zones, and the rates that requests of one client have in them.
    zones: Vec<(String, u32, Period)>,
    /// Places under names.
    upstreams: Vec<Upstream>,
    /// The access rules, unless a block has its own.
    access: Access,
    /// Locations of auth services.
    services: Services,
    /// Directives about applications.
    gateway: Gateway,
    speed: Speed,
    /// Names of zones that count connections by client address.
    connection_zones: Vec<String>,
    /// The most connections of a client: line, text and number.
    connections: Option<(usize, String, u64)>,
    tls: Tls,
    /// Whose word counts of who a client is.
    proxies: Proxies,
    /// The access log.
    log: Log,
    /// Variables that do not come from who the client is.
    plain: Vec<String>,
}

/// Beyond that of all locations.
const TURN_PRIORITY: i32 = 50_000;

/// Directives by which requests leave for another program, in a way that is not spoken here.
const PASSES: &[&str] = &[
    "grpc_pass",
    "memcached_pass",
    "passenger_enabled",
    "content_by_lua",
    "content_by_lua_block",
    "content_by_lua_file",
    "js_content",
    "perl",
    "ssi",
    "xslt_stylesheet",
    "empty_gif",
    "stub_status",
    "status",
    "api",
];

fn main(directives: &[Directive], outer: &Scope, draft: &mut Draft) {
    let mut scope = Scope { log: outer.log.within(), ..outer.clone() };
    let (blocks, plain): (Vec<&Directive>, Vec<&Directive>) =
        directives.iter().partition(|one| matches!(&*one.name, "http" | "server"));
    let upstreams = plain.iter().filter(|one| one.name == "upstream");
    scope.upstreams.extend(upstreams.inspect(|one| one.carry()).map(|one| gateway::upstream(one, draft)));
    scope.access = outer.access.inherited_by(&plain);
    for directive in plain.into_iter().filter(|one| one.name != "upstream") {
        let mut fields = Vec::new();
        if PASSES.contains(&&*directive.name) && directive.argument(0) != "off" {
            passed(directive, draft);
            scope.access.shut();
            continue;
        }
        match inherited(directive, &mut scope, &mut fields, draft) {
            true => directive.carry(),
            false => unknown(directive, draft),
        }
        scope.fields.extend(fields);
    }
    scope.log.of_server(draft);
    for directive in blocks {
        let inner = directive.block.as_deref().unwrap_or_default();
        directive.carry();
        match &*directive.name {
            "http" => main(inner, &scope, draft),
            _ => server(directive.line, inner, &scope, draft),
        }
    }
}

/// Notes a directive that is neither carried over nor needless.
fn unknown(directive: &Directive, draft: &mut Draft) {
    if let Some(why) = needless::why(directive) {
        return draft.need_not(directive.line, format!("`{}`: {why}", directive.text()));
    }
    let why = match &*directive.name {
        "error_log" => return error_log(directive, draft),
        "keepalive_timeout" => match milliseconds(directive.argument(0)).filter(|ms| (100..=3_600_000).contains(ms)) {
            Some(_) if draft.limits.iter().any(|(key, _)| key == "idle_timeout_ms") => "there is one for all sites",
            Some(ms) => {
                directive.carry();
                return draft.limits.push(("idle_timeout_ms".into(), ms.to_string()));
            }
            None => "it is outside of 100 ms to an hour",
        },
        "if" => "conditions of this kind are not understood: a [[site.route]] with `match` may say the same",
        name if name.starts_with("ssl") => tls::lost_words(name),
        _ => "Lamna has nothing like it",
    };
    draft.lose(directive.line, format!("`{}`: {why}", directive.text()));
}

/// The path of a log, with that of a standard stream as it is written here.
fn of_standard(path: &str) -> &str {
    if matches!(path, "/dev/stdout" | "/dev/stderr" | "stderr") { "-" } else { path }
}

/// Where the error log is, and from which level on. Without one it is `error` there.
fn error_log(directive: &Directive, draft: &mut Draft) {
    let (path, level) = (directive.argument(0), directive.argument(1));
    let why = match path {
        _ if draft.keys.iter().any(|(key, _)| *key == "error_log") => "there is one error log for all sites",
        path if path.starts_with("syslog:") || path.starts_with("memory:") => "only a file can be written to",
        "/dev/null" => "it is written to standard error",
        path => {
            let level = match level {
                "debug" | "debug_http" | "info" | "notice" => "info",
                "warn" => "warning",
                _ => "error",
            };
            directive.carry();
            draft.key("error_log", quoted(of_standard(path)));
            return draft.key("error_log_level", quoted(level));
        }
    };
    draft.lose(directive.line, format!("`{}`: {why}", directive.text()));
}

/// Takes over what blocks inherit, and what they set instead of what they inherit. False if it is something else.
fn inherited(
    directive: &Directive,
    scope: &mut Scope,
    fields: &mut Vec<(String, Vec<String>)>,
    draft: &mut Draft,
) -> bool {
    let words = &directive.arguments;
    match &*directive.name {
        "root" if !directive.argument(0).contains('$') => scope.root = Some(directive.argument(0).to_owned()),
        "index" => {
            let is_name = |word: &&String| !word.contains(['/', '$']);
            let names = words.iter().filter(is_name).cloned().collect();
            scope.index = Some((directive.line, directive.text(), names));
            for word in words.iter().filter(|word| !is_name(word)) {
                draft.lose(
                    directive.line,
                    format!("`{word}` of `{}`: an index file is the name of one that can be sent", directive.text()),
                );
            }
        }
        "autoindex" => scope.autoindex = directive.argument(0) == "on",
        "add_header" => {
            let (name, value) = (directive.argument(0), directive.argument(1));
            let is_twice = is_single(name) && fields.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
            let why = match is_sendable(name, value, FieldUse::Site) {
                Err(why) => why,
                Ok(()) if value.contains('$') => "has a variable in its value",
                Ok(()) if is_twice => "has one value in an answer, and has been given already",
                Ok(()) => {
                    match fields.iter_mut().find(|(other, _)| other.eq_ignore_ascii_case(name)) {
                        Some((_, values)) => values.push(value.to_owned()),
                        None => fields.push((name.to_owned(), vec![value.to_owned()])),
                    }
                    return true;
                }
            };
            draft.lose(directive.line, format!("`{}`: the field {why}", directive.text()));
        }
        "expires" => match caching(directive.argument(0)) {
            Some(value) if words.len() == 1 => {
                let (line, text) = (directive.line, directive.text());
                scope.caching = value.map(|value| Caching { line, text, value });
            }
            _ => return false,
        },
        "limit_rate" | "limit_rate_after" => scope.speed.take(directive, draft),
        _ if scope.proxies.take(directive) => {}
        _ if scope.log.take(directive, draft) => {}
        "limit_conn_zone" => scope.connection_zones.extend(limit::connection_zone(directive)),
        "limit_conn" => scope.connections = limit::connections(directive, scope, draft).or(scope.connections.take()),
        _ if scope.tls.take(directive) => {}
        _ if access::is_about(directive) => {
            scope.access.take(directive, draft);
        }
        _ if scope.access.take_field(directive, draft) => {}
        _ if scope.gateway.take(directive, draft) => {}
        "limit_req_zone" => match limit::zone(directive) {
            Some(zone) => scope.zones.push(zone),
            None => return false,
        },
        "error_page" => error_page(directive, scope, draft),
        _ => return false,
    }
    true
}

fn error_page(directive: &Directive, scope: &mut Scope, draft: &mut Draft) {
    let Some((page, statuses)) = directive.arguments.split_last() else { return };
    for status in statuses {
        let why = match &**status {
            changed if changed.starts_with('=') => "the status stays what it is",
            other if !is_error(other) => "there are pages for 400 to 599, but not for those of nginx alone",
            _ if is_program(page) => "a page is a file that is sent, and this one is run",
            _ if page.starts_with('/') && !page.contains('$') => {
                scope.error_pages.retain(|(other, _)| other != status);
                scope.error_pages.push((status.clone(), page.clone()));
                continue;
            }
            _ => "a page is a path of the site",
        };
        draft.lose(directive.line, format!("`{status}` of `{}`: {why}", directive.text()));
    }
}

fn server(line: usize, directives: &[Directive], outer: &Scope, draft: &mut Draft) {
    let mut scope = Scope { log: outer.log.within(), ..outer.clone() };
    let mut site = Site { line, ..Site::default() };
    let (mut own, mut limits, mut listens) = (Vec::new(), Vec::new(), Vec::new());
    let (locations, plain): (Vec<&Directive>, Vec<&Directive>) =
        directives.iter().partition(|one| one.name == "location");
    // What is said of names is needed by what refers to them.
    for directive in &plain {
        match &*directive.name {
            "listen" => listens.extend(listen(directive, &mut site, draft)),
            "server_name" => names(directive, &mut site, draft),
            _ => continue,
        }
        directive.carry();
    }
    site.listens.extend(listens.iter().map(|one| one.address.clone()));
    let has_tls = listens.iter().any(|one| one.has_tls);
    let leads_to_tls = !has_tls && plain.iter().any(|one| tls::is_redirect_to_itself(one));
    let asked = [service::asked_by(directives), outer.access.asked_path().into_iter().collect()].concat();
    let root = location::root_of_all(&locations).or_else(|| plain.iter().rev().find(|one| one.name == "root").copied());
    let root = root.map(|one| one.argument(0).to_owned()).or_else(|| outer.root.clone());
    let asks_applications = source::passes_within(directives);
    let (hosts, variables) = (site.hosts.clone(), scope.plain.clone());
    let names = Names {
        hosts,
        asked,
        has_tls,
        root,
        plain: variables,
        asks_applications,
        tried: tried::targets(directives),
        indexes: tried::indexes(directives),
    };
    let (mut action, mut is_reached) = (Action::default(), true);
    scope.access = outer.access.inherited_by(&plain);
    for directive in plain {
        match &*directive.name {
            "listen" | "server_name" => {}
            // As certbot writes it, with a 404 for other hosts.
            "if" if leads_to_tls && tls::is_redirect_to_itself(directive) => {
                action.redirect = Some(format!("{{ to = {}, status = 301 }}", quoted("https://$host$path")));
            }
            "return" if leads_to_tls && directive.argument(0) == "404" => {}
            "if" if refusal::whom(directive, has_tls).is_some() => {
                let whom = refusal::whom(directive, has_tls);
                let routes = whom.into_iter().flat_map(|whom| refusal::said(directive, whom, None, draft));
                site.routes.extend(routes.collect::<Vec<_>>());
            }
            "if" if turn::of(directive, &names).is_some() => match turn::of(directive, &names) {
                Some(Turn::Carried(keys, does)) => {
                    let priority = TURN_PRIORITY - i32::try_from(site.routes.len()).unwrap_or(0);
                    site.routes.extend(turned(directive.line, &keys, &does, None, priority));
                }
                Some(Turn::Denied(whom)) => {
                    refusal::lose_turn(directive, draft);
                    action.is_denied |= whom.is_none();
                    let routes = whom.into_iter().flat_map(|whom| refusal::routes(directive.line, whom, None));
                    site.routes.extend(routes);
                }
                None => {}
            },
            "rewrite" if !rewrite::leads_away(directive) && source::leads_to_refused(directives, directive) => {
                rewrite::lose(directive, "what it leads to is refused", &mut site, draft);
            }
            "rewrite" => {
                rewrite::of_server(directive, is_reached, &names, &mut site, draft);
                is_reached &= !rewrite::ends(directive, None);
            }
            "limit_req" => limits.extend(Limit::new(directive, &scope, draft)),
            _ if inherited(directive, &mut scope, &mut own, draft) => {}
            _ if acts(directive, &names, &mut action, draft) => {}
            _ => {
                unknown(directive, draft);
                continue;
            }
        }
        directive.carry();
    }
    if !own.is_empty() {
        scope.fields = own;
    }
    let redirects_all = !action.is_denied && (action.redirect.is_some() || action.respond.is_some());
    let leads_to_itself = leads_to_itself(&site.hosts, has_tls);
    site.leads_to_tls = leads_to_itself(&action);
    scope.tls.settle(&listens, &mut site, draft);
    scope.log.of_site(&outer.log, &mut site);
    scope.services = Services::of(&locations, &scope.gateway);
    draft.connections.push(scope.connections.clone());
    draft.proxies.push(scope.proxies.said());
    settle(&scope, None, &mut action, &mut site, draft);
    site.source = source::of(directives);
    if scope.autoindex && location::stop_listings(&locations) {
        scope.autoindex = false;
        let why = "listings are for a whole site, and a location has none: there are none";
        draft.lose(line, format!("`autoindex on` of this server: {why}"));
    }
    site_keys(&scope, redirects_all, asks_applications, &mut site, draft);
    if let Some(value) = &action.access {
        site.keys.push(("access", value.clone()));
    }
    if redirects_all {
        // Nothing gets as far as a location.
        action.forget_programs(draft);
        push_action(line, &action, (&scope, false), &mut site);
        return draft.add(site);
    }
    let mut read = location::read(&locations, &scope, &names, &mut site, draft);
    let is_challenge =
        |one: &Location| matches!(&one.pattern, Pattern::Prefix(prefix) if prefix.starts_with("/.well-known/"));
    let leads = |one: &Location| leads_to_itself(&one.action);
    let is_all = |one: &Location| leads(one) && one.pattern == Pattern::Prefix("/".to_owned());
    site.leads_to_tls |=
        read.iter().any(leads) && read.iter().all(|one| leads(one) || is_challenge(one)) || read.iter().any(is_all);
    let beside = |one: &Location| Beside { line: one.line, pattern: one.pattern.text() };
    site.beside_tls = read.iter().filter(|one| !leads(one)).map(beside).collect();
    limit::push(&limits, &read, &mut site, draft);
    limit::push_speeds(&scope.speed, &read, &mut site, draft);
    let runs_scripts = read.iter().any(|one| one.runs_scripts());
    if !runs_scripts {
        action.forget_programs(draft);
        read.iter_mut().for_each(|one| one.action.forget_programs(draft));
    }
    if let Some(names) = index_names(&scope, runs_scripts, draft) {
        site.keys.push(("index", names));
    }
    push_action(line, &action, (&scope, runs_scripts), &mut site);
    location::refuse_behind_scripts(&mut read, &mut site, draft);
    if location::keep_indexes(directives, &scope, asks_applications, &mut site) {
        let why = "it is answered with 404, where an application answers what is not there";
        draft.lose(line, format!("a folder of which an index file is refused: {why}"));
    }
    for one in &read {
        one.say_fields_of_tried(&names, &scope, draft);
        push_location(one, &read, &scope, (runs_scripts, asks_applications), &mut site, draft);
    }
    draft.add(site);
}

/// Settles access and the application, once a block has been read to its end.
fn settle(scope: &Scope, pattern: Option<&Pattern>, action: &mut Action, site: &mut Site, draft: &mut Draft) {
    let access = scope.access.clone();
    match access.decide(&|path| scope.services.keys(path, &scope.upstreams), draft) {
        Let::All => {}
        Let::Nobody => action.is_denied = true,
        Let::Some(_) if !access.add_users(site, draft) => action.is_denied = true,
        Let::Some(value) => action.access = Some(value),
    }
    match scope.gateway.route(pattern, &scope.upstreams, draft) {
        Routed::Nothing => {}
        Routed::Denied => action.is_denied = true,
        Routed::By { key, value, narrowed } => {
            action.gateway = Some((key, value));
            action.narrowed = narrowed;
        }
    }
}

/// Names of index files as a list. Those that are programs are among them if programs are run.
fn index_names(scope: &Scope, runs_scripts: bool, draft: &mut Draft) -> Option<String> {
    let (line, text, names) = scope.index.as_ref()?;
    let (kept, programs): (Vec<&String>, Vec<&String>) =
        names.iter().partition(|name| runs_scripts || !is_program(name));
    for name in programs {
        draft.lose(*line, format!("`{name}` of `{text}`: an index file is the name of one that can be sent"));
    }
    (!kept.is_empty()).then(|| list(&kept))
}

/// The facts about a server that its directives refer to.
struct Names {
    hosts: Vec<String>,
    /// Paths of auth services.
    asked: Vec<String>,
    has_tls: bool,
    /// The directory of the site.
    root: Option<String>,
    /// Variables that do not come from who the client is.
    plain: Vec<String>,
    /// Whether applications are asked.
    asks_applications: bool,
    /// The paths that are tried.
    tried: Vec<String>,
    /// Index files that are named in some location.
    indexes: Vec<String>,
}

/// Whether an action leads to the same with TLS: for a server of these hosts that does not speak TLS itself.
fn leads_to_itself(hosts: &[String], has_tls: bool) -> impl Fn(&Action) -> bool + use<> {
    let own = hosts.iter().map(|host| format!("\"https://{host}$path"));
    let starts: Vec<String> = own.chain(["\"https://$host".to_owned()]).collect();
    move |action| !has_tls && action.redirect.as_ref().is_some_and(|to| starts.iter().any(|start| to.contains(start)))
}

fn names(directive: &Directive, site: &mut Site, draft: &mut Draft) {
    for name in &directive.arguments {
        let lower = name.to_ascii_lowercase();
        let is_label = |label: &str| {
            (1..=63).contains(&label.len())
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
        };
        let bare = lower.strip_prefix("*.").or_else(|| lower.strip_prefix('.')).unwrap_or(&lower);
        if lower == "_" || lower.is_empty() {
            // It answers for any host if no name stands beside it.
        } else if !bare.split('.').all(is_label) {
            draft.lose(
                directive.line,
                format!("`{name}` of `{}`: a host is a name, or `*.` and a name", directive.text()),
            );
        } else {
            let both = match lower.strip_prefix('.') {
                Some(bare) => vec![bare.to_owned(), format!("*.{bare}")],
                None => vec![lower.clone()],
            };
            for host in both {
                if !site.hosts.contains(&host) {
                    site.hosts.push(host);
                }
            }
        }
    }
}

fn site_keys(scope: &Scope, redirects_all: bool, asks_applications: bool, site: &mut Site, draft: &mut Draft) {
    match &scope.root {
        Some(root) => {
            if !root.starts_with('/') {
                draft.lose(
                    site.line,
                    format!("`root {root}` is beneath the directory of nginx there, and beside this file here"),
                );
            }
            site.keys.push(("root", quoted(root)));
        }
        None if redirects_all => {}
        None => {
            draft.lose(
                site.line,
                "this server has no `root`, and nginx has one of its own: /usr/share/nginx/html is taken",
            );
            site.keys.push(("root", quoted("/usr/share/nginx/html")));
        }
    }
    if scope.autoindex {
        site.keys.push(("browse", "true".into()));
    }
    let mut fields = scope.fields.clone();
    with_caching(scope.caching.as_ref(), &mut fields);
    if asks_applications && !fields.is_empty() {
        let keys = [("match", quoted("*")), ("priority", "-2".to_owned())];
        let headers = ("headers", beside_applications(&fields, &[]));
        site.routes.push(Route { line: site.line, keys: keys.into_iter().chain([headers]).collect() });
    } else if !fields.is_empty() {
        site.keys.push(("headers", table(&fields, &[])));
    }
    if !scope.error_pages.is_empty() {
        site.keys.push(("error_pages", pages(&scope.error_pages)));
    }
}

/// Fields of files. Of the names in `kept` nothing counts that is said for more paths.
fn table(fields: &[(String, Vec<String>)], kept: &[String]) -> String {
    let set = fields.iter().map(|(name, values)| format!("{} = {}", quoted(name), values_of(values)));
    let kept = kept.iter().map(|name| format!("{} = true", quoted(name)));
    format!("{{ {} }}", set.chain(kept).collect::<Vec<_>>().join(", "))
}

fn pages(pages: &[(String, String)]) -> String {
    let pages = pages.iter().map(|(status, page)| format!("{} = {}", quoted(status), quoted(page)));
    format!("{{ {} }}", pages.collect::<Vec<_>>().join(", "))
}

/// Takes over where answers come from. False if it is something else.
fn acts(directive: &Directive, names: &Names, action: &mut Action, draft: &mut Draft) -> bool {
    match &*directive.name {
        "return" => {
            let (status, to) = match &directive.arguments[..] {
                [to] if to.contains("://") => ("302", &**to),
                [status, to] => (&**status, &**to),
                [status] => (&**status, ""),
                _ => ("", ""),
            };
            match (status, to) {
                ("301" | "302" | "303" | "307" | "308", to) if !to.is_empty() => match location_of(to, names) {
                    Ok(to) => action.redirect = Some(format!("{{ to = {}, status = {status} }}", quoted(&to))),
                    Err(why) => lose_answer(directive, &why, action, draft),
                },
                ("404", "") => action.is_denied = true,
                (status, text) => match respond::value(status, text) {
                    Some(value) => action.respond = Some(value),
                    None => lose_answer(directive, "it cannot be answered so", action, draft),
                },
            }
        }
        "try_files" => {
            let mut tried: Vec<String> = Vec::new();
            let looks_for_file = directive.arguments.iter().any(|one| one == "$uri" || one == "$fastcgi_script_name");
            // What comes before all that can be said, and may be another program's.
            let mut is_open = false;
            for word in &directive.arguments {
                let why = match &**word {
                    "$uri" | "$uri/" | "$fastcgi_script_name" => {
                        let path = if looks_for_file { "$path" } else { "$path/" };
                        tried.extend((!tried.iter().any(|one| one == path)).then(|| path.to_owned()));
                        continue;
                    }
                    "=404" | continuation::APPLICATION => continue,
                    word if word.starts_with(['@', '=']) => "only files can be tried, and 404 be the end",
                    word => match template(word, names) {
                        Ok(path) if path.contains('?') => "files have no query",
                        Ok(path) if is_program(&path) => {
                            action.programs.push((directive.line, directive.text(), word.to_owned()));
                            tried.push(path);
                            continue;
                        }
                        Ok(path) if path.starts_with(['/', '$']) => {
                            tried.push(path);
                            continue;
                        }
                        Ok(_) => "it is no path",
                        Err(_) => "it has a variable that is not known here",
                    },
                };
                is_open |= tried.is_empty() && is_program(word);
                draft.lose(directive.line, format!("`{word}` of `{}`: {why}", directive.text()));
            }
            if tried.is_empty() || is_open {
                lose_answer(directive, "what is looked for first cannot be", action, draft);
            }
            action.tried = Some(tried);
        }
        name if PASSES.contains(&name) && directive.argument(0) != "off" => {
            passed(directive, draft);
            action.is_denied = true;
        }
        _ => return false,
    }
    true
}

/// Says that something else answers there, in a way that is not done here.
fn passed(directive: &Directive, draft: &mut Draft) {
    draft.lose(directive.line, format!("`{}`: {}", directive.text(), gateway::passed_words(&directive.name)));
}

/// Denies a path that nginx answers by itself, so that no file is served for it here either.
fn lose_answer(directive: &Directive, why: &str, action: &mut Action, draft: &mut Draft) {
    draft.lose(directive.line, format!("`{}`: {why}; {DENIED_WORDS}", directive.text()));
    action.is_denied = true;
}
