//! Caddyfiles: what their directives are here.
//!
//! Owns: which directives are carried over and how; matchers are in `matcher`. Caddy compares paths without regard to
//! case: what keeps somebody out does so here (`case`), and the rest is not carried over and stands in no list.

mod address;
mod case;
mod changed;
mod deny;
mod errors;
mod fields;
mod gateway;
mod handle;
mod hide;
mod matcher;
mod order;
#[cfg(test)]
mod order_tests;
#[cfg(test)]
mod restraint_tests;
mod settle;
mod syntax;
#[cfg(test)]
mod tests;
mod tls;
mod values;
mod who;

use std::collections::BTreeMap;

use lamna_config::render::quoted;

use super::{
    DENIED_PRIORITY, DENIED_WORDS, Draft, Imported, Note, PASSED_WORDS, Route, Site, audit, denied, is_program, list,
    may_be_run,
};
use deny::{deny, deny_beyond, deny_changed, deny_keys, is_denied};
pub(crate) use fields::RequestField;
use handle::handle;
use matcher::{Matcher, Matchers, Unsaid};
pub(crate) use order::Order;
pub(crate) use settle::{FileServer, Handle};
use syntax::Line;
use values::{headers, path, redirect, try_files};
use who::About;

type Snippets = BTreeMap<String, Vec<Line>>;

pub(super) fn import(text: &str) -> Result<Imported, Note> {
    let lines = syntax::parse(text)?;
    let Some(mut draft) = of_lines(&lines) else { return Err(Note::new(1, "there is no site in it")) };
    let outcome = |lines: &[Line]| of_lines(lines).map(Draft::outcome);
    let indifferent = audit::indifferent(&lines, &outcome, &|line, text| draft.says(line, text));
    indifferent.into_iter().for_each(|(line, words)| draft.need_not(line, words));
    draft.finish("Caddy")
}

/// Imports these lines; none if there is no site among them.
fn of_lines(lines: &[Line]) -> Option<Draft> {
    let mut draft = Draft::default();
    let mut snippets = Snippets::new();
    let has_blocks = lines.iter().any(|line| line.block.is_some() && is_address_line(line));
    if !has_blocks {
        // One site without braces: its addresses are the first line.
        let first = lines.iter().position(|line| !line.words.is_empty() && !line.word(0).starts_with('('))?;
        let (before, of_site) = lines.split_at(first);
        before.iter().for_each(|line| beside_sites(line, &mut snippets, &mut draft));
        site(&of_site[0], &of_site[1..], &snippets, &mut draft);
        return Some(draft);
    }
    for line in lines {
        match &line.block {
            Some(block) if is_address_line(line) => site(line, block, &snippets, &mut draft),
            _ => beside_sites(line, &mut snippets, &mut draft),
        }
    }
    Some(draft)
}

fn is_address_line(line: &Line) -> bool {
    let first = line.word(0);
    !first.is_empty()
        && !first.starts_with('(')
        && (first.contains(['.', ':', '/']) || first.trim_end_matches(',') == "localhost")
}

/// The ports of HTTP and of HTTPS, where others are named than 80 and 443.
#[derive(Debug, Default)]
pub(super) struct Ports {
    http: Option<u16>,
    https: Option<u16>,
}

impl Ports {
    fn http(&self) -> u16 {
        self.http.unwrap_or(80)
    }

    fn https(&self) -> u16 {
        self.https.unwrap_or(443)
    }
}

/// Global options, snippets, and what is neither.
fn beside_sites(line: &Line, snippets: &mut Snippets, draft: &mut Draft) {
    match (&line.block, line.word(0)) {
        (Some(options), "") => {
            for option in options.iter() {
                match (option.word(0), option.word(1)) {
                    ("email", email) if !email.contains('{') => draft.key("acme_contact", quoted(email)),
                    ("http_port", port) if port.parse::<u16>().is_ok() => draft.ports.http = port.parse().ok(),
                    ("https_port", port) if port.parse::<u16>().is_ok() => draft.ports.https = port.parse().ok(),
                    ("default_bind", _) => draft.interfaces = Some(addresses_of(&[option], draft)),
                    ("order", _) if draft.order.take(&option.words) => {}
                    ("admin" | "debug", _) => {
                        let why =
                            "how the server is controlled and what it says is told in another way (docs/control.md)";
                        draft.need_not(option.line, format!("`{}`: {why}", option.text()));
                    }
                    _ => draft.lose(option.line, format!("`{}`: Lamna has nothing like it", option.text())),
                }
            }
        }
        (Some(block), name) if name.starts_with('(') => {
            snippets.insert(name.trim_matches(['(', ')']).to_owned(), block.clone());
        }
        _ => draft.lose(line.line, format!("`{}`: it belongs to no site", line.text())),
    }
}

/// Directives of modules that let in by something that has no counterpart here.
const RESTRICTS: &[&str] = &[
    "authorize",
    "authenticate",
    "authp",
    "jwtauth",
    "jwt",
    "crowdsec",
    "appsec",
    "coraza_waf",
    "waf",
    "ipfilter",
    "geoip",
    "defender",
    "webauth",
    "security",
];

/// Parts of names of further ones, whatever module they are of.
const RESTRICTING: [&str; 12] =
    ["auth", "jwt", "oidc", "saml", "sso", "acl", "waf", "rate", "firewall", "captcha", "bouncer", "signed"];

/// Whether a directive that is not known restricts.
fn restricts(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    RESTRICTS.contains(&&*name) || RESTRICTING.iter().any(|part| name.contains(part))
}

/// Directives by which something else answers than files as they are.
const PASSES: &[&str] =
    &["php_server", "php", "proxy", "templates", "cgi", "exec", "webdav", "frankenphp", "invoke", "s3proxy"];

/// Where directives stand.
struct Place<'p> {
    snippets: &'p Snippets,
    /// Those of what it stands in.
    matchers: &'p Matchers,
    /// The matcher of the site as a whole, or of a `handle`.
    matcher: Matcher,
    /// Whether it has a path of its own.
    is_site: bool,
    /// The beginning of paths that is taken away before matchers are asked.
    stripped: Option<String>,
    /// Names of fields that are changed before matchers are asked.
    changed: Vec<String>,
    /// Whether answers of applications are compressed.
    encodes: bool,
    /// Whether directives are carried out in the order in which they stand.
    is_ordered: bool,
    /// Whether something of the site is answered by applications.
    asks_applications: bool,
}

fn site(addresses: &Line, directives: &[Line], snippets: &Snippets, draft: &mut Draft) {
    let mut site = Site { line: addresses.line, ..Site::default() };
    let text = addresses.text();
    let mut has_tls = false;
    let interfaces = interfaces(directives, draft);
    let http = draft.ports.http();
    let listened = interfaces.iter().map(|one| format!("{one}:{http}"));
    site.listens.extend(listened);
    let mut paths = Vec::new();
    for address in text.split([',', ' ']).filter(|one| !one.is_empty()) {
        let (is_tls, path) = address::take(address, addresses.line, &interfaces, &mut site, draft);
        has_tls |= is_tls;
        paths.push(path);
    }
    let asks_applications = asks_applications(directives, snippets, 0);
    if has_tls {
        tls::settle(addresses.line, directives, &mut site, draft);
    }
    let place = Place {
        snippets,
        matchers: &Matchers::default(),
        matcher: Matcher::any(),
        is_site: true,
        stripped: None,
        changed: Vec::new(),
        encodes: false,
        is_ordered: false,
        asks_applications,
    };
    within(directives, &place, &mut site, draft);
    finish_routes(directives, snippets, &mut site, draft);
    address::keep_paths(addresses, &paths, &mut site, draft);
    let has = |name: &str| site.routes.iter().any(|route| route.keys.iter().any(|(key, _)| *key == name));
    let has_root = site.keys.iter().any(|(key, _)| *key == "root");
    let serves_files = directives.iter().any(|line| line.word(0) == "file_server");
    if !has_root && !has("redirect") && (!has("proxy") || serves_files) {
        if serves_files {
            draft.lose(
                site.line,
                "this site has no `root`: Caddy takes the directory that it is started in, and this that of the file",
            );
            site.keys.insert(0, ("root", quoted(".")));
        } else if !has("respond") {
            // Its hosts are not to get what another site has.
            let why = "this site: nothing that it does is carried over, so everything is answered with 404";
            draft.lose(site.line, why);
            site.routes =
                vec![Route { line: site.line, keys: vec![("match", quoted("*")), ("respond", "404".into())] }];
        }
    }
    // Hosts that no site names are answered by it.
    site.is_default = site.hosts.is_empty();
    let own = |route: &Route| route.keys.iter().any(|(_, value)| value.contains("\"https://$host"));
    site.leads_to_tls = !has_root && site.routes.iter().all(own);
    draft.add(site);
}

/// Makes of all that was said routes that can stand together.
fn finish_routes(directives: &[Line], snippets: &Snippets, site: &mut Site, draft: &mut Draft) {
    let handles = std::mem::take(&mut draft.handles);
    let inside = |line: &&Line| !line.word(0).starts_with("handle");
    let has_scripts = runs_scripts(directives.iter().filter(inside), snippets, 0);
    settle::deny_two_passwords(&handles, site, draft);
    settle::settle_handles(&handles, site);
    settle::deny_rewritten(site, draft);
    fields::settle(site, draft);
    settle::merge(site, draft);
    case::keep_out_any_case(site);
    site.source = settle::source(&handles, has_scripts, site);
    let file_servers = std::mem::take(&mut draft.file_servers);
    settle::list_folders(&file_servers, site, draft);
    settle::refuse_unserved(&file_servers, site);
    settle::hide_source(&file_servers, site);
    hide::settle(&file_servers, site, draft);
    // What said nothing kept a place.
    site.routes.retain(|route| route.keys.len() > 1);
    order::settle(site);
    let runs = site.routes.iter().any(|route| route.keys.iter().any(|(key, _)| *key == "fastcgi"));
    for (key, value) in site.keys.iter_mut().filter(|(key, value)| *key == "index" && value.contains(".php") && !runs) {
        draft.lose(site.line, format!("`{key}` of `file_server`, {value}: {PASSED_WORDS}"));
        *value = list(&["index.html"]);
    }
}

/// Whether one of these has PHP run scripts for all of its paths.
fn runs_scripts<'l>(mut lines: impl Iterator<Item = &'l Line>, snippets: &Snippets, depth: usize) -> bool {
    let of_block = |block: &[Line]| depth < DEPTH_MAX && runs_scripts(block.iter(), snippets, depth + 1);
    lines.any(|line| match line.word(0) {
        "php_fastcgi" | "php_server" | "php" => !line.word(1).starts_with(['@', '/']),
        "route" if line.words.len() == 1 => line.block.as_deref().is_some_and(of_block),
        "import" => snippets.get(line.word(1)).is_some_and(|block| of_block(block)),
        _ => false,
    })
}

/// The addresses of interfaces that are listened at. Without a word about it Caddy listens for IPv4 and IPv6.
fn interfaces(directives: &[Line], draft: &mut Draft) -> Vec<String> {
    let own: Vec<&Line> = directives.iter().filter(|line| line.word(0) == "bind").collect();
    if own.is_empty() {
        let of_all = draft.interfaces.clone();
        return of_all.unwrap_or_else(|| ["0.0.0.0", "[::]"].map(str::to_owned).to_vec());
    }
    addresses_of(&own, draft)
}

/// Those that lines name.
fn addresses_of(lines: &[&Line], draft: &mut Draft) -> Vec<String> {
    let mut interfaces = Vec::new();
    for line in lines {
        for word in &line.words[1..] {
            match word.trim_matches(['[', ']']).parse::<std::net::IpAddr>() {
                Ok(std::net::IpAddr::V4(address)) => interfaces.push(address.to_string()),
                Ok(std::net::IpAddr::V6(address)) => interfaces.push(format!("[{address}]")),
                Err(_) => {
                    let why = "an interface is named by its address, and this one is not listened at";
                    draft.lose(line.line, format!("`{word}` of `{}`: {why}", line.text()));
                }
            }
        }
    }
    interfaces
}

/// Whether one of these has an application answer.
fn asks_applications(lines: &[Line], snippets: &Snippets, depth: usize) -> bool {
    depth < DEPTH_MAX
        && lines.iter().any(|line| match line.word(0) {
            "reverse_proxy" => true,
            "import" => snippets.get(line.word(1)).is_some_and(|block| asks_applications(block, snippets, depth + 1)),
            name if name.starts_with("php") || PASSES.contains(&name) => true,
            _ => line.block.as_deref().is_some_and(|block| asks_applications(block, snippets, depth + 1)),
        })
}

fn within(directives: &[Line], place: &Place<'_>, site: &mut Site, draft: &mut Draft) {
    let mut matchers = place.matchers.clone();
    let directives = order::expanded(directives, place.snippets, 0);
    let (named, mut directives): (Vec<Line>, Vec<Line>) =
        directives.into_iter().partition(|line| line.word(0).starts_with('@'));
    named.iter().for_each(|line| matchers.define(line, draft));
    if !place.is_ordered {
        draft.order.sort(&mut directives, &matchers);
    }
    let handles_try = |line: &Line| {
        line.word(0).starts_with("handle") && line.block.iter().flatten().any(|inner| inner.word(0) == "try_files")
    };
    let encodes = place.encodes || encodes(&directives);
    let (matcher, stripped, changed) = (place.matcher.clone(), place.stripped.clone(), place.changed.clone());
    let mut place = Place { matcher, stripped, changed, matchers: &matchers, encodes, ..*place };
    let some_try = directives.iter().any(|line| line.word(0) == "try_files" || handles_try(line));
    let mut stripping = None;
    for line in &directives {
        match place.matcher.to_toml() {
            Ok(matches) if line.word(0) == "uri" && is_prefix(&place.matcher, &line.words[1..]) => {
                place.stripped = place.matcher.prefix().map(|prefix| prefix.trim_end_matches('/').to_owned());
                stripping = stripping.or(Some(handle::strips(line, matches)));
            }
            _ => directive(line, &place, &matchers, some_try, site, draft),
        }
        place.changed.extend(changed::fields(line, &matchers));
    }
    site.routes.extend(stripping);
}

/// Whether one of these has answers compressed.
fn encodes(directives: &[Line]) -> bool {
    directives.iter().any(|line| line.word(0) == "encode")
}

fn directive(line: &Line, place: &Place<'_>, matchers: &Matchers, some_try: bool, site: &mut Site, draft: &mut Draft) {
    let text = line.text();
    let (own, words) = matchers.of(line);
    let is_for_all = own.as_ref().is_ok_and(Matcher::is_any);
    let own = own.and_then(|own| changed::without(own, &place.changed));
    let own = own.map_err(|unsaid| unsaid.beneath(place.stripped.as_deref()));
    let beneath_place = |own: Matcher| match &place.stripped {
        None => Ok(own),
        Some(prefix) => own.beneath(prefix).map_err(|why| {
            let about = About { asks_who: own.asks_who(), leaves_files: false };
            Unsaid { why, wider: Matcher::any(), about }
        }),
    };
    let within_place = |own: Matcher| {
        place.matcher.and(&own).map_err(|why| {
            let about = About { asks_who: own.asks_who() || place.matcher.asks_who(), leaves_files: false };
            Unsaid { why, wider: if own.is_any() { place.matcher.clone() } else { own }, about }
        })
    };
    let matcher = match own.and_then(beneath_place).and_then(within_place) {
        Ok(matcher) => matcher,
        // What cannot be said for some is not served for more.
        Err(Unsaid { why, wider, about }) if decides(line, about, 0) => {
            let wider = if wider.is_any() { place.matcher.clone() } else { wider };
            let all = all_of(line);
            draft.lose(line.line, format!("`{text}`{all}: {why}; {DENIED_WORDS}, for {}", wider.to_wider_toml()));
            return deny(line, &wider, site);
        }
        Err(Unsaid { why, .. }) => return draft.lose(line.line, format!("`{text}`{}: {why}", all_of(line))),
    };
    if matches!(line.word(0), "reverse_proxy" | "php_fastcgi" | "rewrite") {
        deny_beyond(line, &matcher, site, draft);
    }
    let mut keys_so_far = site.routes.iter().flat_map(|route| &route.keys);
    let has_service = keys_so_far.any(|(_, value)| value.starts_with("{ service"));
    // Who has to say who he is, is asked for more rather than less.
    let guarded = matcher.widened();
    let matches_of = |key: &str| if key == "access" { guarded.to_toml() } else { matcher.to_toml() };
    let mut push = |key: &'static str, value: String, draft: &mut Draft| match matches_of(key) {
        Ok(matches) => site.routes.push(Route { line: line.line, keys: vec![("match", matches), (key, value)] }),
        Err(why) if matches!(key, "access" | "rewrite" | "try") || key == "redirect" && matcher.asks_who() => {
            draft.lose(line.line, format!("`{text}`: {why}; {DENIED_WORDS}"));
            deny(line, &matcher, site);
        }
        Err(why) => draft.lose(line.line, format!("`{text}`: {why}")),
    };
    match line.word(0) {
        "encode" => {
            let why = "files that are texts are compressed, and answers of applications here by `filters`";
            draft.need_not(line.line, format!("`{text}`: {why}"));
        }
        "vars" => draft.lose(line.line, format!("`{text}`: there are no variables")),
        "root" => root(line, words.last(), &matcher, place, site, draft),
        "file_server" => {
            let whole = matcher.is_any();
            let lists = file_server(line, words, place, site, draft);
            let hidden = line.block.iter().flatten().filter(|one| one.word(0) == "hide").cloned().collect();
            let matches = if whole { Some(quoted("*")) } else { matcher.to_toml().ok() };
            // It has its place in the order, also where nothing has to be said of it.
            let place = matches.clone().filter(|_| !whole).map(|matches| vec![("match", matches)]);
            site.routes.extend(place.map(|keys| Route { line: line.line, keys }));
            draft.file_servers.push(FileServer { line: line.line, text, matches, whole, lists, hidden });
        }
        "header" => {
            for value in headers(line, words, place.asks_applications, draft) {
                push("headers", value, draft);
            }
        }
        "redir" => match redirect(words) {
            Ok(value) => push("redirect", value, draft),
            Err(why) => {
                draft.lose(line.line, format!("`{text}`: {why}; {DENIED_WORDS}"));
                deny(line, &matcher, site);
            }
        },
        "rewrite" => match words.first().map(|to| path(to)) {
            Some(Ok(to)) => {
                if let Some(matches) = matcher.to_toml().ok().filter(|_| place.is_site) {
                    draft.rewritten.push((line.line, text.clone(), matches, to.clone()));
                }
                push("rewrite", quoted(&to), draft);
            }
            // What another path is looked for may be another program's.
            Some(Err(why)) => {
                draft.lose(line.line, format!("`{text}`: {why}; {DENIED_WORDS}"));
                deny(line, &matcher, site);
            }
            None => draft.lose(line.line, format!("`{text}`: it says no path")),
        },
        "uri" if is_prefix(&matcher, words) && !is_for_all && !place.asks_applications => {
            push("rewrite", quoted("/$1"), draft);
        }
        "uri" => deny_changed(line, words, &matcher, site, draft),
        "request_header" if place.asks_applications && fields::take(line, words, &matcher, draft) => {}
        "try_files" => match try_files(line, words, draft) {
            Some(tried) => push("try", list(&tried), draft),
            None => {
                draft.lose(line.line, format!("`{text}`: what is looked for first cannot be; {DENIED_WORDS}"));
                deny(line, &matcher, site);
            }
        },
        "respond" | "error" | "abort" => {
            errors::respond(line, words, &matcher, site, draft);
        }
        "log" => log(line, site, draft),
        "handle_errors" => errors::handle_errors(line, site, draft),
        "route" | "handle" | "handle_path" => handle(line, matcher, place, site, draft),
        // Other snippets stand here already. What it says is not known: it may restrict.
        "import" => {
            let is_snippet = place.snippets.contains_key(line.word(1));
            let why = if is_snippet { "snippets with arguments are not done" } else { "import that file by itself" };
            draft.lose(line.line, format!("`{text}`: {why}; {DENIED_WORDS}"));
            deny(line, &place.matcher, site);
        }
        "reverse_proxy" | "php_fastcgi" => match gateway::value(line, words, &matcher, draft) {
            // As Caddy does without a word about it.
            Ok((key, value)) => match matcher.to_toml() {
                Ok(matches) => {
                    let tried = (key == "fastcgi" && !some_try).then(|| ("try", list(&["$path", "/index.php"])));
                    let filters = place.encodes.then(|| ("filters", "[\"compress\"]".to_owned()));
                    let keys = [("match", matches), (key, value)].into_iter().chain(tried).chain(filters);
                    let route = Route { line: line.line, keys: keys.collect() };
                    let dressed = gateway::answer_fields(line, draft)
                        .into_iter()
                        .map(|value| Route { line: line.line, keys: vec![route.keys[0].clone(), ("headers", value)] });
                    site.routes.extend(dressed.collect::<Vec<_>>());
                    site.routes.push(route);
                }
                Err(why) => {
                    draft.lose(line.line, format!("`{text}`: {why}; {PASSED_WORDS}"));
                    deny(line, &matcher, site);
                }
            },
            Err(why) => {
                draft.lose(line.line, format!("`{text}`: {why}, so what it is for is answered with 404"));
                let are_scripts = line.word(0) == "php_fastcgi" && matcher.is_any();
                let matcher = if are_scripts { Matcher::of_paths(&["*.php", "*.php/*"]) } else { matcher };
                deny(line, &matcher, site);
            }
        },
        "forward_auth" => match gateway::service(line, words, draft).and_then(|value| alone(value, site)) {
            Ok(value) => match guarded.to_toml() {
                Ok(matches) => {
                    let keys = vec![("match", matches), ("access", value)];
                    site.routes.push(Route { line: line.line, keys });
                }
                Err(why) => {
                    draft.lose(line.line, format!("`{text}`: {why}; {DENIED_WORDS}"));
                    deny(line, &matcher, site);
                }
            },
            Err(why) => {
                draft.lose(line.line, format!("`{text}`: {why}; {DENIED_WORDS}"));
                deny(line, &matcher, site);
            }
        },
        "basicauth" | "basic_auth" => match gateway::users(line, words) {
            Ok(_) if has_service => {
                draft.lose(line.line, format!("`{text}`: a service decides as well; {DENIED_WORDS}"));
                deny(line, &matcher, site);
            }
            Ok(users) => {
                let names: Vec<&String> = users.iter().map(|(name, _)| name).collect();
                push("access", format!("{{ users = {} }}", list(&names)), draft);
                for (name, hash) in users {
                    if !site.users.iter().any(|(other, _)| *other == name) {
                        site.users.push((name, hash));
                    }
                }
            }
            Err(why) => {
                draft.lose(line.line, format!("`{text}`: {why}; {DENIED_WORDS}"));
                deny(line, &matcher, site);
            }
        },
        name if restricts(name) || PASSES.contains(&name) => {
            let why = match restricts(name) {
                true => format!("no other server is asked who is let in; {DENIED_WORDS}"),
                false => PASSED_WORDS.to_owned(),
            };
            draft.lose(line.line, format!("`{text}`: {why}"));
            let is_of_programs = name.starts_with("php") && matcher.is_any();
            let matcher = if is_of_programs { Matcher::of_paths(&["*.php", "*.php/*"]) } else { matcher };
            deny(line, &matcher, site);
        }
        "intercept" if line.block.iter().any(|all| all.iter().any(|one| gateway::replaces_answers(one, all))) => {
            draft.lose(line.line, format!("`{text}`: answers of an application are not looked at; {DENIED_WORDS}"));
            deny(line, &matcher, site);
        }
        // It is read with the addresses.
        "tls" | "bind" if place.is_site => {}
        _ => draft.lose(line.line, format!("`{text}`{}: Lamna has nothing like it", all_of(line))),
    }
}

/// Whether `uri strip_prefix` takes away the prefix that all paths of `matcher` have.
fn is_prefix(matcher: &Matcher, words: &[String]) -> bool {
    let bare = |path: &str| path.trim_end_matches('/').to_owned();
    matches!((matcher.prefix(), words), (Some(prefix), [verb, stripped])
        if verb == "strip_prefix" && prefix.ends_with('/') && bare(prefix) == bare(stripped))
}

/// A value of `access`, unless another kind of it is there: Caddy asks for both, and here one would stand in the place
/// of the other.
fn alone(value: String, site: &Site) -> Result<String, String> {
    let mut others = site.routes.iter().flat_map(|route| &route.keys).filter(|(key, _)| *key == "access");
    match others.all(|(_, other)| *other == value) {
        true => Ok(value),
        false => Err("who is let in is decided in another way as well".to_owned()),
    }
}

/// Directives after which Caddy looks for no file, or not for everybody.
const DECIDES: &[&str] = &[
    "respond",
    "error",
    "abort",
    "basic_auth",
    "basicauth",
    "forward_auth",
    "reverse_proxy",
    "php_fastcgi",
    "templates",
    "import",
    "root",
    "invoke",
    "uri",
];

/// Whether a directive, or one in its block, has something else answer than a file, or lets not everybody in. `about`
/// is what its matcher is about.
fn decides(line: &Line, about: About, depth: usize) -> bool {
    let name = line.word(0);
    let in_block = || line.block.iter().flatten().any(|inner| depth >= DEPTH_MAX || decides(inner, about, depth + 1));
    match name {
        "handle" | "handle_path" | "route" => in_block(),
        "root" => depth > 0,
        "request_header" => fields::overwrites(line.words.get(2..).unwrap_or_default()),
        "redir" => about.asks_who,
        "rewrite" => !about.leaves_files && (about.asks_who || line.words.last().is_some_and(|to| may_be_run(to))),
        "try_files" => about.asks_who || line.words.iter().any(|word| is_program(word)),
        _ => DECIDES.contains(&name) || restricts(name) || PASSES.contains(&name),
    }
}

/// Snippets within snippets.
const DEPTH_MAX: usize = 8;

fn all_of(line: &Line) -> &'static str {
    if line.block.is_some() { " and all that it says" } else { "" }
}

fn root(line: &Line, to: Option<&String>, matcher: &Matcher, place: &Place<'_>, site: &mut Site, draft: &mut Draft) {
    let to = to.filter(|to| !to.contains('{'));
    match (to, matcher.prefix()) {
        (Some(to), _) if place.is_site && matcher.is_any() => {
            match site.keys.iter().find(|(key, _)| *key == "root").is_some_and(|(_, other)| *other != quoted(to)) {
                false if site.keys.iter().any(|(key, _)| *key == "root") => {}
                false => site.keys.insert(0, ("root", quoted(to))),
                true => {
                    draft.lose(
                        line.line,
                        format!("`{}`: another directory is said as well; {DENIED_WORDS}", line.text()),
                    );
                    deny(line, matcher, site);
                }
            }
        }
        (Some(to), Some(prefix)) if prefix.ends_with('/') && prefix != "/" => {
            site.aliases.push((prefix.to_owned(), format!("{}{prefix}", to.trim_end_matches('/'))));
        }
        // What is in another directory there is not in that of the site here.
        _ => {
            let why = "another directory is for a path as in /x/*";
            draft.lose(line.line, format!("`{}`: {why}; {DENIED_WORDS}", line.text()));
            deny(line, matcher, site);
        }
    }
}

/// Whether it lists folders.
fn file_server(line: &Line, words: &[String], place: &Place<'_>, site: &mut Site, draft: &mut Draft) -> bool {
    let inner = line.block.as_deref().unwrap_or_default();
    for one in inner {
        match one.word(0) {
            "browse" => {}
            "precompressed" => {
                let why = "files beside others that are compressed already are sent";
                draft.need_not(one.line, format!("`{}`: {why}", one.text()));
            }
            "index" if place.is_site => site.keys.push(("index", list(&one.words[1..]))),
            "hide" => {}
            _ => draft.lose(one.line, format!("`{}`: Lamna has nothing like it", one.text())),
        }
    }
    words.iter().any(|word| word == "browse") || inner.iter().any(|one| one.word(0) == "browse")
}

/// The log of a site. Its lines are JSON there, by other names; `format json` alone asks for them here.
fn log(line: &Line, site: &mut Site, draft: &mut Draft) {
    let inner = line.block.as_deref().unwrap_or_default();
    let (mut target, mut format) = ("-".to_owned(), None);
    for one in inner {
        match (one.word(0), one.word(1)) {
            ("output", "file") => target = one.word(2).to_owned(),
            ("output", "stdout" | "stderr") => {}
            ("output", "discard") => target = "off".to_owned(),
            ("format", "json") if one.block.is_none() => format = Some("json"),
            _ => draft.lose(one.line, format!("`{}`: Lamna has nothing like it", one.text())),
        }
    }
    if site.keys.iter().any(|(key, _)| *key == "log") {
        return draft.lose(line.line, "`log`: a site has one log");
    }
    site.keys.push(("log", quoted(&target)));
    site.keys.extend(format.map(|format| ("log_format", quoted(format))));
}
