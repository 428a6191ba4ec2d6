//! Sections of Apache: `Directory`, `Files`, `Location`, and what stands in none.
//!
//! Owns: for which paths a section is ([`parts`]), in the order in which they are merged there, and what its directives
//! are here. Guarantees: a section whose paths cannot be said is for more of them where it keeps clients out, and for
//! none where it lets them in.

use lamna_config::render::quoted;
use lamna_config::route::pattern::compile;

use super::access::{self, Passwords};
use super::routes::{Routes, Strength};
use super::syntax::Directive;
use super::{headers, proxy, redirect, rewrite};
use crate::haproxy::fields::{self, Change};
use crate::matching::{Kind, Literal, PathTest, Test};
use crate::respond::is_error;
use crate::{Draft, Files, Site, is_program};

/// A section and its paths.
#[derive(Debug)]
pub(super) struct Part<'d> {
    pub(super) directives: Vec<&'d Directive>,
    /// Tests of the path, of which all have to fit; none for every path.
    tests: Vec<Literal>,
    /// The beginning of the paths of a folder, with a slash at its end; none for what is no folder.
    folder: Option<String>,
    line: usize,
    text: String,
    /// Its paths are more than those of the section.
    is_wider: bool,
    is_location: bool,
}

impl Part<'_> {
    /// Whether it is for every path.
    pub(super) fn is_whole(&self) -> bool {
        self.tests.is_empty()
    }
}

/// The surroundings of the sections of a site.
pub(super) struct Around<'a> {
    pub(super) files: Files<'a>,
    pub(super) is_tls: Option<bool>,
    /// The configuration is that of a folder.
    pub(super) is_folder: bool,
}

/// The sections of a site, in the order in which they are merged.
pub(super) fn parts<'d>(
    all: &[&'d Directive],
    root: Option<&str>,
    aliases: &[(String, String)],
    draft: &mut Draft,
) -> Vec<Part<'d>> {
    let plain: Vec<&Directive> = all.iter().copied().filter(|one| !is_section(one)).collect();
    let line = plain.first().map_or(1, |one| one.line);
    let first = Part {
        directives: plain,
        tests: Vec::new(),
        folder: None,
        line,
        text: String::new(),
        is_wider: false,
        is_location: false,
    };
    let (mut folders, mut matches, mut names, mut locations) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for section in all.iter().copied().filter(|one| is_section(one)) {
        match &*section.name {
            "directory" if section.argument(0) != "~" => {
                let path = section.argument(0).trim_end_matches('/');
                for (prefix, is_exact) in urls(path, root, aliases) {
                    of_folder(section, &prefix, !is_exact, path.matches('/').count(), &mut folders, &mut names);
                }
            }
            "directory" | "directorymatch" => {
                let regex = section.arguments().last().map_or("", String::as_str);
                let regex = crate::nginx::restricting(regex.trim_start_matches('^'));
                let (tests, is_wider) = match compile(&regex) {
                    Ok(_) => (vec![(Test::Path(vec![PathTest::new(Kind::Regex, &regex, false)]), false)], true),
                    Err(_) => (Vec::new(), true),
                };
                matches.push(part(section, tests, None, is_wider, false));
            }
            "files" | "filesmatch" => names.push(of_names(section, &[])),
            "location" | "locationmatch" => {
                let path = section.arguments().last().map_or("", String::as_str);
                let is_regex = section.name == "locationmatch" || section.argument(0) == "~";
                let (tests, is_wider) = match is_regex {
                    true => {
                        let regex = crate::nginx::restricting(path);
                        match compile(&regex) {
                            Ok(_) => {
                                (vec![(Test::Path(vec![PathTest::new(Kind::Regex, &regex, false)]), false)], false)
                            }
                            Err(_) => (Vec::new(), true),
                        }
                    }
                    false if matches!(path, "/" | "") => (Vec::new(), false),
                    false if path.contains(['*', '?', '[']) => {
                        let regex = format!("^{}(?:/|$)", glob(path));
                        (vec![(Test::Path(vec![PathTest::new(Kind::Regex, &regex, false)]), false)], false)
                    }
                    false => (vec![(Test::Path(redirect::beneath(path)), false)], false),
                };
                locations.push(part(section, tests, None, is_wider, true));
            }
            "proxy" | "proxymatch" | "macro" | "if" | "ifelse" | "elseif" | "else" => {
                let restricts = section.within().iter().any(access::is_about);
                if section.name.starts_with("proxy") {
                    continue;
                }
                draft.lose(
                    section.line,
                    format!("`{}` and all that it says: conditions of this kind are not understood", section.text()),
                );
                if restricts {
                    locations.push(part(section, Vec::new(), None, true, true));
                }
            }
            _ => draft
                .lose(section.line, format!("`{}` and all that it says: Lamna has nothing like it", section.text())),
        }
    }
    folders.sort_by_key(|(depth, _)| *depth);
    [first]
        .into_iter()
        .chain(folders.into_iter().map(|(_, part)| part))
        .chain(matches)
        .chain(names)
        .chain(locations)
        .collect()
}

fn is_section(directive: &Directive) -> bool {
    directive.inner.is_some() && !access::is_about(directive)
}

fn part<'d>(
    section: &'d Directive,
    tests: Vec<Literal>,
    folder: Option<String>,
    is_wider: bool,
    is_location: bool,
) -> Part<'d> {
    let directives = section.within().iter().filter(|one| !is_section(one)).collect();
    Part { directives, tests, folder, line: section.line, text: section.text(), is_wider, is_location }
}

fn of_folder<'d>(
    section: &'d Directive,
    prefix: &str,
    is_wider: bool,
    depth: usize,
    folders: &mut Vec<(usize, Part<'d>)>,
    names: &mut Vec<Part<'d>>,
) {
    let tests = match prefix {
        "/" => Vec::new(),
        prefix => vec![(Test::Path(vec![PathTest::new(Kind::Prefix, prefix, false)]), false)],
    };
    folders.push((depth, part(section, tests.clone(), Some(prefix.to_owned()), is_wider, false)));
    let inner = section.within().iter().filter(|one| matches!(&*one.name, "files" | "filesmatch"));
    names.extend(inner.map(|inner| of_names(inner, &tests)));
}

/// A section for names of files, beneath some paths.
fn of_names<'d>(section: &'d Directive, around: &[Literal]) -> Part<'d> {
    let name = section.arguments().last().map_or("", String::as_str);
    let is_regex = section.name == "filesmatch" || section.argument(0) == "~";
    let regex = if is_regex { of_name(name) } else { format!("/{}(?:/|$)", glob(name)) };
    let (tests, is_wider) = match compile(&regex) {
        _ if name == "*" => (around.to_vec(), false),
        // One expression for both: a beginning and an expression.
        Ok(_) => match around {
            [(Test::Path(paths), false)] => {
                let start = regex::escape(paths[0].text.trim_end_matches('/'));
                let (flags, rest) = regex.strip_prefix("(?i)").map_or(("", &*regex), |rest| ("(?i)", rest));
                (
                    vec![(
                        Test::Path(vec![PathTest::new(
                            Kind::Regex,
                            &format!("{flags}^{start}(?s:.*)(?:{rest})"),
                            false,
                        )]),
                        false,
                    )],
                    is_regex,
                )
            }
            _ => (vec![(Test::Path(vec![PathTest::new(Kind::Regex, &regex, false)]), false)], is_regex),
        },
        Err(_) => (around.to_vec(), true),
    };
    part(section, tests, None, is_wider, false)
}

/// An expression over names of files as one over paths. It fits more: folders of such names as well.
fn of_name(regex: &str) -> String {
    let (mut out, mut is_escaped, mut in_class) = (String::new(), false, false);
    for one in regex.chars() {
        let was_escaped = is_escaped;
        is_escaped = one == '\\' && !was_escaped;
        match one {
            '^' if !was_escaped && !in_class => out.push('/'),
            '$' if !was_escaped && !in_class => out.push_str("(?:/|\\n?$)"),
            _ => {
                if !was_escaped {
                    in_class = match one {
                        '[' => true,
                        ']' => false,
                        _ => in_class,
                    };
                }
                out.push(one);
            }
        }
    }
    out
}

/// The expression of a pattern of a shell.
fn glob(pattern: &str) -> String {
    let mut out = String::new();
    for one in pattern.chars() {
        match one {
            '*' => out.push_str("[^/]*"),
            '?' => out.push_str("[^/]"),
            '[' | ']' => out.push(one),
            one => out.push_str(&regex::escape(&one.to_string())),
        }
    }
    out
}

/// Beginnings of the paths of a directory, and whether they are no more than those.
fn urls(path: &str, root: Option<&str>, aliases: &[(String, String)]) -> Vec<(String, bool)> {
    let mut found = Vec::new();
    let is_pattern = path.contains(['*', '?', '[']);
    let start = path.split(['*', '?', '[']).next().unwrap_or_default();
    let start = if is_pattern { start.rsplit_once('/').map_or("", |(start, _)| start) } else { start };
    for (prefix, directory) in
        root.iter().map(|root| ("/", *root)).chain(aliases.iter().map(|(prefix, root)| (&**prefix, &**root)))
    {
        let directory = directory.trim_end_matches('/');
        let is_around = start.is_empty() || directory == start || directory.starts_with(&format!("{start}/"));
        if is_around {
            found.push((prefix.to_owned(), !is_pattern));
        } else if let Some(rest) = start.strip_prefix(&format!("{directory}/")) {
            found.push((format!("{prefix}{rest}/"), !is_pattern));
        }
    }
    found
}

/// Carries the sections of a site over.
pub(super) fn carry(
    parts: &[Part<'_>],
    around: &Around<'_>,
    site: &mut Site,
    routes: &mut Routes,
    draft: &mut Draft,
) -> rewrite::Made {
    let mut made = rewrite::Made::default();
    let mut passwords = Passwords::default();
    let mut balancers = proxy::Balancers::default();
    let mut said = proxy::Said::default();
    let mut has_access = false;
    let every = parts.iter().flat_map(|part| &part.directives);
    for directive in every.clone() {
        match &*directive.name {
            "proxypreservehost" => said.preserves_host = directive.argument(0).eq_ignore_ascii_case("on"),
            "proxytimeout" => said.timeout_s = directive.argument(0).parse().ok(),
            _ => {}
        }
    }
    let has_reverse = every.clone().any(|one| one.name == "proxypassreverse");
    for part in parts {
        for section in part.directives.iter().filter(|one| one.name == "proxy") {
            balancers.take(section, draft);
        }
    }
    for part in parts {
        let mut own = passwords.clone();
        for directive in &part.directives {
            own.take(directive);
        }
        if part.is_whole() {
            passwords = own.clone();
        }
        if let Some(rules) = access::of(&part.directives, &own, around.files, site, draft) {
            let lets_in = rules.iter().all(|(_, value)| value == "\"anyone\"");
            if part.is_wider && lets_in && has_access {
                draft.lose(
                    part.line,
                    format!(
                        "`{}`: its paths cannot be said exactly, so it lets nobody in who is not let in around it",
                        part.text
                    ),
                );
            } else if has_access || !lets_in {
                has_access = true;
                for (clients, value) in rules.iter().rev() {
                    let mut tests = part.tests.clone();
                    tests.extend(clients.iter().map(|clients| (Test::Client(clients.clone()), false)));
                    let line =
                        Directive { line: part.line, name: String::new(), words: vec![part.text.clone()], inner: None };
                    routes.emit(Strength::Section, &line, &tests, vec![("access", value.clone())], true, draft);
                }
            }
        }
        let base = part.folder.clone().or((around.is_folder && part.is_whole()).then(|| "/".to_owned()));
        let place = rewrite::Place { base: base.as_deref().unwrap_or(""), is_tls: around.is_tls };
        if part.directives.iter().any(|one| one.name == "rewriterule") {
            let is_known = part.is_whole() || part.folder.is_some();
            if is_known && !part.is_wider {
                let found = rewrite::carry(&part.directives, &place, routes, draft);
                made.leads_to_tls |= found.leads_to_tls;
                if part.is_whole() {
                    made.tried.extend(found.tried);
                } else {
                    in_folder(part, found.tried, routes, draft);
                }
            } else {
                for one in part.directives.iter().filter(|one| one.name == "rewriterule") {
                    draft.lose(one.line, format!("`{}`: rules stand in a server or a folder", one.text()));
                }
            }
        }
        plain(part, around, &balancers, said, has_reverse, site, routes, draft);
    }
    made
}

/// Paths that are tried in a folder alone.
fn in_folder(part: &Part<'_>, tried: Vec<String>, routes: &mut Routes, draft: &mut Draft) {
    if tried.is_empty() {
        return;
    }
    let has_program = tried.iter().any(|path| path.contains(".php"));
    match &routes.fastcgi {
        None if has_program => {
            draft.lose(
                part.line,
                format!("`{}`: what is not there is a script's, and no application that runs it is named", part.text),
            );
        }
        fastcgi => {
            let paths = [vec!["$path".to_owned()], tried].concat();
            let mut keys = vec![("try", crate::list(&paths))];
            keys.extend(fastcgi.clone().map(|value| ("fastcgi", value)));
            let line = Directive { line: part.line, name: String::new(), words: vec![part.text.clone()], inner: None };
            routes.emit(Strength::Whole, &line, &part.tests, keys, false, draft);
        }
    }
}

/// All other directives of a section.
#[allow(clippy::too_many_arguments)]
fn plain(
    part: &Part<'_>,
    around: &Around<'_>,
    balancers: &proxy::Balancers,
    said: proxy::Said,
    has_reverse: bool,
    site: &mut Site,
    routes: &mut Routes,
    draft: &mut Draft,
) {
    let mut changes: Vec<Change> = Vec::new();
    let mut pages: Vec<(String, String)> = Vec::new();
    let is_active =
        part.directives.iter().any(|one| one.name == "expiresactive" && one.argument(0).eq_ignore_ascii_case("on"));
    let mut keys: Vec<(&'static str, String)> = Vec::new();
    for directive in &part.directives {
        let text = directive.text();
        match &*directive.name {
            "header" | "requestheader" => changes.extend(headers::change(directive, draft)),
            "redirect" | "redirectmatch" | "redirectpermanent" | "redirecttemp" => {
                let tests = if part.folder.is_some() { &[][..] } else { &part.tests };
                redirect::carry(directive, tests, routes, draft);
            }
            "proxypass" | "proxypassmatch"
                if super::proxy::runner(directive.argument(1)).is_some() && directive.argument(0).contains("php") => {}
            "proxypass" | "proxypassmatch" => {
                let prefix = match &part.tests[..] {
                    [(Test::Path(tests), false)] => tests.first().map_or("/", |test| &*test.text),
                    _ => "/",
                };
                let section = part.is_location.then_some((&part.tests[..], prefix));
                proxy::carry(directive, section, balancers, said, has_reverse, routes, draft);
            }
            "errordocument" => {
                let (status, page) = (directive.argument(0), directive.argument(1));
                let why = match () {
                    () if !is_error(status) => "there are pages for 400 to 599",
                    () if !page.starts_with('/') || directive.arguments().len() > 2 => "a page is a path of the site",
                    () if is_program(page) || page.contains(['?', '#']) => {
                        "a page is a file that is sent, and this one is run"
                    }
                    () => {
                        pages.retain(|(other, _)| other != status);
                        pages.push((status.to_owned(), page.to_owned()));
                        continue;
                    }
                };
                draft.lose(directive.line, format!("`{text}`: {why}"));
            }
            "expiresdefault" if is_active => {
                match headers::seconds(directive.arguments().join(" ").trim_matches('"')) {
                    Some(seconds) => {
                        keys.push((
                            "headers",
                            format!("[{{ default = {{ Cache-Control = \"max-age={seconds}\" }} }}]"),
                        ));
                    }
                    None => draft.lose(directive.line, format!("`{text}`: an age is counted from the request")),
                }
            }
            "expiresbytype" if is_active => {
                let seconds = headers::seconds(directive.arguments()[1..].join(" ").trim_matches('"'));
                match (headers::endings(directive.argument(0)), seconds) {
                    (Some(endings), Some(seconds)) => {
                        let tests: Vec<PathTest> =
                            endings.iter().map(|end| PathTest::new(Kind::Suffix, &format!(".{end}"), false)).collect();
                        let all = [part.tests.clone(), vec![(Test::Path(tests), false)]].concat();
                        let value = format!("[{{ set = {{ Cache-Control = \"max-age={seconds}\" }} }}]");
                        match crate::matching::said(&all) {
                            Ok(Some(matches)) => {
                                routes.push(Strength::Section, directive.line, matches, vec![("headers", value)])
                            }
                            _ => draft.lose(directive.line, format!("`{text}`: its paths cannot be said")),
                        }
                    }
                    _ => draft.lose(
                        directive.line,
                        format!("`{text}`: files are told apart by their endings, and ages counted from the request"),
                    ),
                }
            }
            "addtype" if directive.text().contains("httpd-php") => {}
            "addtype" => {
                let mut tests = Vec::new();
                for end in &directive.arguments()[1.min(directive.arguments().len())..] {
                    tests.push(PathTest::new(Kind::Suffix, &format!(".{}", end.trim_start_matches('.')), false));
                }
                let all = [part.tests.clone(), vec![(Test::Path(tests), false)]].concat();
                let kind = directive.argument(0);
                let is_kind = kind.contains('/') && kind.bytes().all(|byte| byte.is_ascii_graphic());
                match crate::matching::said(&all) {
                    Ok(Some(matches)) if is_kind => {
                        routes.push(
                            Strength::Section,
                            directive.line,
                            matches,
                            vec![("headers", format!("{{ Content-Type = {} }}", quoted(kind)))],
                        );
                    }
                    _ => draft.lose(directive.line, format!("`{text}`: it names no type or no endings")),
                }
            }
            "options" => {
                let lists = directive
                    .arguments()
                    .iter()
                    .any(|one| matches!(&*one.to_ascii_lowercase(), "indexes" | "+indexes" | "all"));
                let stops = directive
                    .arguments()
                    .iter()
                    .any(|one| one.eq_ignore_ascii_case("-indexes") || one.eq_ignore_ascii_case("none"));
                if lists || stops {
                    site.keys.retain(|(key, _)| *key != "browse" || !part.is_whole());
                }
                match lists {
                    true if part.is_whole() => site.keys.push(("browse", "true".into())),
                    true => draft
                        .lose(directive.line, format!("`{text}` of `{}`: listings are for a whole site", part.text)),
                    false if stops && !part.is_whole() && site.keys.iter().any(|(key, _)| *key == "browse") => {
                        site.keys.retain(|(key, _)| *key != "browse");
                        draft.lose(
                            directive.line,
                            format!("`{text}` of `{}`: listings are for a whole site: there are none", part.text),
                        );
                    }
                    false => draft.need_not(
                        directive.line,
                        format!(
                            "`{text}`: folders are listed where that is said, and links lead where access is judged"
                        ),
                    ),
                }
                if directive.arguments().iter().any(|one| one.to_ascii_lowercase().contains("includes")) {
                    draft.lose(
                        directive.line,
                        format!("`{text}`: pages are not made of others by SSI: they are answered with 404"),
                    );
                    routes.refuse(directive.line, r"(?i)\.shtml?(?:/|\n?$)");
                }
            }
            "directoryindex" if !part.is_whole() => {
                let names: Vec<&String> =
                    directive.arguments().iter().filter(|name| !name.contains('/') && !is_program(name)).collect();
                keys.push(("index", crate::list(&names)));
            }
            "customlog" | "transferlog" if part.folder.is_none() && part.is_whole() => {
                let target = directive.argument(0);
                let is_file = !target.starts_with('|') && !target.contains("${") && !target.is_empty();
                match is_file && !site.keys.iter().any(|(key, _)| *key == "log") {
                    true => {
                        let target = if target.starts_with("/dev/std") || target.starts_with("/proc/self") {
                            "-"
                        } else {
                            target
                        };
                        site.keys.push(("log", quoted(target)));
                    }
                    false => draft
                        .lose(directive.line, format!("`{text}`: a site has one log, in a file or on standard output")),
                }
            }
            "sethandler" | "addhandler"
                if super::proxy::runner(directive.argument(0)).is_some()
                    || text.contains("php")
                    || directive.argument(0) == "cgi-script" => {}
            "sethandler" if matches!(&*directive.argument(0).to_ascii_lowercase(), "none" | "default-handler") => {
                draft.need_not(directive.line, format!("`{text}`: files are sent where no application is named"));
            }
            "sethandler" => {
                let why = "what it answers is another program's";
                draft.lose(directive.line, format!("`{text}`: {why}; {}", crate::DENIED_WORDS));
                routes.emit(Strength::Rewrite, directive, &part.tests, vec![("respond", "404".into())], true, draft);
            }
            name => other(name, directive, part, around, routes, draft),
        }
    }
    if !pages.is_empty() {
        let pages: Vec<String> =
            pages.iter().map(|(status, page)| format!("{} = {}", quoted(status), quoted(page))).collect();
        let value = format!("{{ {} }}", pages.join(", "));
        match part.is_whole() {
            true => {
                site.keys.retain(|(key, _)| *key != "error_pages");
                site.keys.push(("error_pages", value));
            }
            false => keys.push(("error_pages", value)),
        }
    }
    let refs: Vec<&Change> = changes.iter().collect();
    let of_fields = fields::keys(&refs, &[]);
    if of_fields.iter().any(|(key, _)| *key == "headers") {
        // An age beside it counts for files that say none.
        let own: Vec<(&'static str, String)> = keys.iter().filter(|(key, _)| *key == "headers").cloned().collect();
        keys.retain(|(key, _)| *key != "headers");
        for (key, value) in own {
            push(part, vec![(key, value)], routes, draft);
        }
    }
    keys.extend(of_fields);
    if !keys.is_empty() {
        push(part, keys, routes, draft);
    }
}

fn push(part: &Part<'_>, keys: Vec<(&'static str, String)>, routes: &mut Routes, draft: &mut Draft) {
    match crate::matching::said(&part.tests) {
        Ok(Some(matches)) => routes.push(Strength::Section, part.line, matches, keys),
        Ok(None) => {}
        Err(why) => draft.lose(part.line, format!("`{}`: {}", part.text, why.why)),
    }
}

/// Directives that need nothing, and those that are not carried over.
fn other(name: &str, directive: &Directive, part: &Part<'_>, _: &Around<'_>, routes: &mut Routes, draft: &mut Draft) {
    let text = directive.text();
    let why = match name {
        "documentroot"
        | "servername"
        | "serveralias"
        | "listen"
        | "sslengine"
        | "sslcertificatefile"
        | "sslcertificatekeyfile"
        | "alias"
        | "scriptalias"
        | "aliasmatch"
        | "scriptaliasmatch"
        | "directoryindex"
        | "rewriteengine"
        | "rewriterule"
        | "rewritecond"
        | "rewritebase"
        | "proxypreservehost"
        | "proxytimeout"
        | "authtype"
        | "authname"
        | "authuserfile"
        | "authgroupfile"
        | "authbasicprovider"
        | "errorlog"
        | "sslverifyclient"
        | "sslcacertificatefile"
        | "expiresactive"
        | "define"
        | "proxypassreverse" => return,
        name if access::is_about(directive) || name == "virtualhost" => return,
        "serveradmin"
        | "serversignature"
        | "servertokens"
        | "usecanonicalname"
        | "hostnamelookups"
        | "fileetag"
        | "directoryslash"
        | "traceenable"
        | "serverroot"
        | "loadmodule"
        | "user"
        | "group"
        | "pidfile"
        | "mutex"
        | "timeout"
        | "keepalive"
        | "maxkeepaliverequests"
        | "keepalivetimeout"
        | "startservers"
        | "minspareservers"
        | "maxspareservers"
        | "minsparethreads"
        | "maxsparethreads"
        | "threadlimit"
        | "threadsperchild"
        | "maxrequestworkers"
        | "maxconnectionsperchild"
        | "maxclients"
        | "maxrequestsperchild"
        | "serverlimit"
        | "enablesendfile"
        | "enablemmap"
        | "acceptfilter"
        | "accessfilename"
        | "allowoverride"
        | "allowoverridelist"
        | "namevirtualhost"
        | "sslprotocol"
        | "sslhonorcipherorder"
        | "sslsessioncache"
        | "sslsessioncachetimeout"
        | "sslsessiontickets"
        | "sslrandomseed"
        | "sslpassphrasedialog"
        | "sslcompression"
        | "sslproxyengine"
        | "sslusestapling"
        | "sslstaplingcache"
        | "sslciphersuite"
        | "sslstrictsnivhostcheck"
        | "ssloptions"
        | "protocols"
        | "h2direct"
        | "h2push"
        | "loglevel"
        | "rewriteoptions"
        | "contentdigest"
        | "checkspelling"
        | "multiviewsmatch"
        | "typesconfig"
        | "mimemagicfile"
        | "defaulttype"
        | "coredumpdirectory"
        | "defaultruntimedir"
        | "proxyrequests"
        | "proxyvia"
        | "deflatecompressionlevel"
        | "addoutputfilterbytype"
        | "addlanguage"
        | "languagepriority"
        | "forcelanguagepriority"
        | "indexoptions"
        | "indexignore"
        | "readmename"
        | "headername"
        | "addicon"
        | "addiconbytype"
        | "addiconbyencoding"
        | "defaulticon"
        | "adddescription"
        | "indexorderdefault"
        | "addalt"
        | "addaltbytype"
        | "addaltbyencoding"
        | "proxyaddheaders"
        | "proxyiobuffersize"
        | "acceptpathinfo"
        | "setenvif"
        | "setenvifnocase"
        | "browsermatch"
        | "browsermatchnocase"
        | "passenv"
        | "unsetenv"
        | "cgipassauth"
        | "bufferedlogs"
        | "logformat"
        | "proxybadheader"
        | "regexdefaultoptions"
        | "httpprotocoloptions"
        | "setenv"
        | "addcharset"
        | "adddefaultcharset"
        | "addencoding"
        | "removetype"
        | "removehandler"
        | "fcgidwrapper"
        | "addinputfilter"
        | "allowencodedslashes"
        | "rewritelog"
        | "rewriteloglevel"
        | "graceful"
        | "gracefulshutdowntimeout"
        | "listenbacklog"
        | "receivebuffersize" => "the server does what is right there by itself, or it tells programs something",
        "addoutputfilter" | "setoutputfilter" if text.to_ascii_uppercase().contains("DEFLATE") => "text is compressed",
        _ => {
            let restricts = [
                "auth",
                "sec",
                "require",
                "limit",
                "shib",
                "oidc",
                "qs_",
                "evasive",
                "geoip",
                "maxmind",
                "deny",
                "sslrequire",
            ]
            .iter()
            .any(|start| name.starts_with(start))
                && !matches!(
                    name,
                    "limitrequestbody"
                        | "limitrequestfields"
                        | "limitrequestfieldsize"
                        | "limitrequestline"
                        | "limitinternalrecursion"
                        | "limitxmlrequestbody"
                );
            if name == "include" || restricts {
                let why = "whom it lets in is not known here; what it is for is answered with 404";
                draft.lose(directive.line, format!("`{text}`: {why}"));
                routes.emit(Strength::Rewrite, directive, &part.tests, vec![("respond", "404".into())], true, draft);
                return;
            }
            return draft.lose(directive.line, format!("`{text}`: Lamna has nothing like it"));
        }
    };
    draft.need_not(directive.line, format!("`{text}`: {why}"));
}
