//! Configurations of Apache: virtual hosts, and files of folders (`.htaccess`).
//!
//! Owns: what their directives are here. A virtual host is a site; its sections are routes, of which a later one counts
//! as there. Guarantees: a program that Apache runs is run by an application that is named, or is not sent; who is not
//! let in there is not let in here.

mod access;
mod condition;
mod directives;
mod headers;
mod proxy;
mod redirect;
mod rewrite;
mod routes;
mod section;
#[cfg(test)]
mod section_tests;
mod syntax;
#[cfg(test)]
mod tests;

use lamna_config::render::quoted;

use crate::proof::{SCRIPT_NAMES, Source, Use};
use crate::{Draft, Files, Imported, Note, Site, audit, list};
use routes::{Routes, Strength};
use section::{Part, parts};
use syntax::Directive;

/// The words of the caller about a configuration of Apache.
#[derive(Clone, Debug, Default)]
pub struct ApacheOptions {
    /// The directory that a `.htaccess` is in; none for another file.
    pub folder: Option<String>,
    /// The address of FastCGI at which scripts of PHP are run, where Apache runs them itself.
    pub php: Option<String>,
}

pub(super) fn import(text: &str, files: Files<'_>, options: &ApacheOptions) -> Result<Imported, Note> {
    let mut base = Draft::default();
    let mut directives = syntax::expand(syntax::parse(text, 0)?, files, &mut base);
    with_folders(&mut directives, options.folder.as_deref(), files, &mut base);
    let of = |directives: &[Directive]| {
        let mut draft = Draft {
            file_names: base.file_names.clone(),
            lost: base.lost.clone(),
            needless: base.needless.clone(),
            ..Draft::default()
        };
        whole(directives, files, options, &mut draft);
        draft
    };
    let mut draft = of(&directives);
    if draft.sites.is_empty() {
        return Err(Note::new(
            1,
            "there is no virtual host in it, and no `DocumentRoot`: of a .htaccess, --root says in which directory it is",
        ));
    }
    let outcome = |directives: &[Directive]| Some(of(directives).outcome());
    let indifferent = audit::indifferent(&directives, &outcome, &|line, text| draft.says(line, text));
    indifferent.into_iter().for_each(|(line, words)| draft.need_not(line, words));
    draft.finish("Apache")
}

/// Names beneath a root of which each may be a folder with a file of its own, and how deep they are.
const NAMES_MAX: usize = 50_000;
const DEPTH_MAX: usize = 24;

/// Takes files of folders over as sections, where they are believed. Of one that is imported alone, those beneath
/// `folder`, where it is.
fn with_folders(directives: &mut Vec<Directive>, folder: Option<&str>, files: Files<'_>, draft: &mut Draft) {
    let mut roots: Vec<String> = Vec::new();
    let (mut is_believed, mut names) = (false, Vec::new());
    each(directives, &mut |directive| match &*directive.name {
        "documentroot" => roots.push(directive.argument(0).trim_end_matches('/').to_owned()),
        "accessfilename" => names.extend(directive.arguments().iter().cloned()),
        "allowoverride" => is_believed |= !directive.argument(0).eq_ignore_ascii_case("none"),
        _ => {}
    });
    roots.sort();
    roots.dedup();
    if names.is_empty() {
        names.push(".htaccess".to_owned());
    }
    let alone = folder.map(|folder| folder.trim_end_matches('/').to_owned());
    let mut folders = if is_believed { roots } else { Vec::new() };
    folders.extend(alone.clone());
    let (mut at, mut is_whole) = (0, true);
    while at < folders.len() {
        let folder = folders[at].clone();
        at += 1;
        // Nothing is found beneath a file. Hidden names are not served.
        let beneath = (files.list)(&format!("{folder}/*"));
        let is_looked_at = folder.matches('/').count() < DEPTH_MAX && folders.len() + beneath.len() <= NAMES_MAX;
        is_whole &= is_looked_at || beneath.is_empty();
        if is_looked_at {
            folders.extend(beneath);
        }
        if alone.as_ref() == Some(&folder) {
            continue;
        }
        // The first of them that is there counts.
        let read = |own: &String| {
            let name = format!("{folder}/{own}");
            (files.read)(&name).ok().map(|text| (name, text))
        };
        let Some((name, text)) = names.iter().find_map(read) else { continue };
        draft.file_names.push(name.clone());
        match syntax::parse(&text, draft.file_names.len() * crate::FILE_LINES) {
            Ok(inner) => {
                let inner = syntax::expand(inner, files, draft);
                let words = vec!["Directory".to_owned(), folder];
                let line = draft.file_names.len() * crate::FILE_LINES + 1;
                directives.push(Directive { line, name: section::OF_FILE.into(), words, inner: Some(inner) });
            }
            Err(note) => {
                draft.lose(note.line, format!("`{name}` cannot be read, so nobody is let in: {}", note.words));
                let denied = Directive {
                    line: note.line,
                    name: "require".into(),
                    words: ["Require", "all", "denied"].map(str::to_owned).to_vec(),
                    inner: None,
                };
                let words = vec!["Directory".to_owned(), folder];
                directives.push(Directive {
                    line: note.line,
                    name: section::OF_FILE.into(),
                    words,
                    inner: Some(vec![denied]),
                });
            }
        }
    }
    if !is_whole {
        let why = "there are too many folders: what a `.htaccess` in some of them says is not carried over";
        draft.lose(1, why.to_owned());
    }
}

fn each(directives: &[Directive], does: &mut dyn FnMut(&Directive)) {
    for directive in directives {
        does(directive);
        each(directive.within(), does);
    }
}

fn whole(directives: &[Directive], files: Files<'_>, options: &ApacheOptions, draft: &mut Draft) {
    let (hosts, outer): (Vec<&Directive>, Vec<&Directive>) =
        directives.iter().partition(|one| one.name == "virtualhost");
    let mut listened = false;
    for directive in &outer {
        match &*directive.name {
            "listen" => {
                if let (true, Some(address)) = (hosts.is_empty(), address(directive.argument(0))) {
                    draft.listen(directive.line, address, true);
                    listened = true;
                }
            }
            "errorlog"
                if !directive.argument(0).starts_with(['|', '$'])
                    && !directive.argument(0).contains("${")
                    && !directive.argument(0).starts_with("syslog") =>
            {
                let path = if directive.argument(0).starts_with("/dev/std") { "-" } else { directive.argument(0) };
                draft.key("error_log", quoted(path));
            }
            _ => {}
        }
    }
    _ = listened;
    if hosts.is_empty() {
        let has_root = outer.iter().any(|one| one.name == "documentroot") || options.folder.is_some();
        let answers =
            |one: &&Directive| matches!(&*one.name, "proxypass" | "proxypassmatch" | "redirect" | "redirectmatch");
        if has_root || outer.iter().any(answers) {
            let line = outer.first().map_or(1, |one| one.line);
            site(line, &[], &outer, None, files, options, draft);
        }
        return;
    }
    for host in &hosts {
        let inner: Vec<&Directive> = host.within().iter().collect();
        site(host.line, &outer, &inner, Some(host), files, options, draft);
    }
}

/// An address as it is written here. Without a port it is 80.
fn address(text: &str) -> Option<String> {
    if let Ok(port) = text.parse::<u16>() {
        return Some(format!("0.0.0.0:{port}"));
    }
    let text = if text.contains(':') && !text.ends_with(']') { text.to_owned() } else { format!("{text}:80") };
    let (host, port) = text.rsplit_once(':')?;
    let port: u16 = if port == "*" { 80 } else { port.parse().ok()? };
    match host.trim_matches(['[', ']']) {
        "*" | "_default_" | "" => Some(format!("0.0.0.0:{port}")),
        host => match host.parse::<std::net::IpAddr>().ok()? {
            std::net::IpAddr::V4(host) => Some(format!("{host}:{port}")),
            std::net::IpAddr::V6(host) => Some(format!("[{host}]:{port}")),
        },
    }
}

/// Makes a site.
fn site(
    line: usize,
    outer: &[&Directive],
    own: &[&Directive],
    host: Option<&Directive>,
    files: Files<'_>,
    options: &ApacheOptions,
    draft: &mut Draft,
) {
    let mut site = Site { line, ..Site::default() };
    let last = |name: &str| own.iter().rev().chain(outer.iter().rev()).find(|one| one.name == name).copied();
    names(own, &mut site, draft);
    let has_tls = own.iter().any(|one| one.name == "sslengine" && !one.argument(0).eq_ignore_ascii_case("off"));
    let certificate = has_tls
        .then(|| Some((last("sslcertificatefile")?, last("sslcertificatekeyfile").or(last("sslcertificatefile"))?)))
        .flatten();
    if let Some((certificate, key)) = certificate {
        site.keys.push(("certificate", quoted(certificate.argument(0))));
        site.keys.push(("key", quoted(key.argument(0))));
    }
    for word in host.map_or(&[][..], |host| host.arguments()) {
        let host = host.expect("it has the word");
        match address(word) {
            _ if has_tls && certificate.is_none() => {
                draft.lose(
                    host.line,
                    format!(
                        "`{word}` of `{}`: TLS takes `SSLCertificateFile` and `SSLCertificateKeyFile`",
                        host.text()
                    ),
                );
            }
            Some(address) => {
                draft.listen(host.line, address.clone(), !has_tls);
                site.listens.push(address);
            }
            None => {
                draft.lose(host.line, format!("`{word}` of `{}`: an address is an IP address and a port", host.text()))
            }
        }
    }
    let root =
        last("documentroot").map(|one| one.argument(0).trim_end_matches('/').to_owned()).or(options.folder.clone());
    let root = root.map(|root| if root.is_empty() { "/".to_owned() } else { root });
    let mut routes = Routes::default();
    let all: Vec<&Directive> = outer.iter().chain(own).copied().collect();
    let aliases = aliases(&all, &mut site, &mut routes, draft);
    let parts = parts(&all, root.as_deref(), &aliases, draft);
    routes.fastcgi = runner(&all, options).map(|to| quoted(&to));
    let is_tls = Some(has_tls);
    let place = section::Around {
        files,
        is_tls: if options.folder.is_some() { None } else { is_tls },
        is_folder: options.folder.is_some(),
    };
    let made = section::carry(&parts, &place, &mut site, &mut routes, draft);
    runs(line, &all, &parts, &made.tried, options, &mut site, &mut routes, draft);
    let says =
        |key: &str, routes: &Routes| routes.all.iter().any(|route| route.keys.iter().any(|(name, _)| *name == key));
    let answers_all = routes.all.iter().any(|route| {
        let is_whole = route.keys.iter().any(|(key, value)| *key == "match" && value == "\"*\"");
        is_whole
            && route
                .keys
                .iter()
                .any(|(key, value)| matches!(*key, "redirect" | "respond") || *key == "proxy" && value != "false")
    });
    let leads = |route: &crate::Route| {
        route.keys.iter().any(|(key, value)| {
            *key == "redirect"
                && (value.contains("\"https://$host$path\"")
                    || site.hosts.iter().any(|host| value.contains(&format!("\"https://{host}$path\""))))
        })
    };
    site.leads_to_tls = !has_tls
        && (made.leads_to_tls
            || routes.all.iter().any(|route| {
                leads(route) && route.keys.iter().any(|(key, value)| *key == "match" && value == "\"*\"")
            }));
    if site.leads_to_tls && made.leads_to_tls && options.folder.is_none() {
        routes.push(
            Strength::Rewrite,
            line,
            quoted("*"),
            vec![("redirect", "{ to = \"https://$host$path\", status = 301 }".into())],
        );
    }
    match root {
        Some(root) => site.keys.insert(0, ("root", quoted(&root))),
        None if answers_all || says("proxy", &routes) || says("redirect", &routes) => {}
        None => {
            draft.lose(line, "this site has no `DocumentRoot`: everything is answered with 404");
            routes.push(Strength::Rewrite, line, quoted("*"), vec![("respond", "404".into())]);
        }
    }
    tls_of_clients(&last, has_tls, &mut site, &mut routes, draft);
    site.source = source(&routes, &aliases, &all);
    site.routes = routes.all;
    site.is_default = draft.sites.is_empty();
    draft.add(site);
}

/// Names of a site.
fn names(own: &[&Directive], site: &mut Site, draft: &mut Draft) {
    for directive in own.iter().filter(|one| matches!(&*one.name, "servername" | "serveralias")) {
        for word in directive.arguments() {
            let name = word.split_once("://").map_or(&**word, |(_, rest)| rest);
            let name =
                name.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok()).map_or(name, |(name, _)| name);
            let whole = name.strip_prefix("*.").unwrap_or(name);
            match lamna_config::address::host_name(whole) {
                Ok(host) => {
                    let host = if name.starts_with("*.") { format!("*.{host}") } else { host };
                    if !site.hosts.contains(&host) {
                        site.hosts.push(host);
                    }
                }
                Err(why) => draft.lose(directive.line, format!("`{word}` of `{}` {why}", directive.text())),
            }
        }
    }
}

/// Prefixes that stand for other directories, and their directories.
fn aliases(all: &[&Directive], site: &mut Site, routes: &mut Routes, draft: &mut Draft) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    for directive in all.iter().filter(|one| matches!(&*one.name, "alias" | "scriptalias")) {
        let (from, to) = (directive.argument(0), directive.argument(1));
        if from.ends_with('/') == to.ends_with('/')
            && from.starts_with('/')
            && from != "/"
            && !to.is_empty()
            && !from.contains(['*', '{', '%', '?'])
        {
            let prefix = format!("{}/", from.trim_end_matches('/'));
            if found.iter().any(|(other, _)| *other == prefix) {
                draft.need_not(directive.line, format!("`{}`: an earlier one counts", directive.text()));
                continue;
            }
            let to = to.trim_end_matches('/').to_owned();
            site.aliases.push((prefix.clone(), to.clone()));
            if directive.name == "scriptalias" {
                let matches = format!("\"{prefix}*\"");
                routes.push(Strength::Proxy, directive.line, matches, vec![("cgi", "true".into())]);
            }
            found.push((prefix, to));
            continue;
        }
        draft.lose(
            directive.line,
            format!("`{}`: a path as in /x/ stands for a directory; {}", directive.text(), crate::DENIED_WORDS),
        );
        let tests = vec![(crate::matching::Test::Path(redirect::beneath(from)), false)];
        routes.emit(Strength::Proxy, directive, &tests, vec![("respond", "404".into())], true, draft);
    }
    for directive in all.iter().filter(|one| matches!(&*one.name, "aliasmatch" | "scriptaliasmatch")) {
        draft.lose(
            directive.line,
            format!("`{}`: a path as in /x/ stands for a directory; {}", directive.text(), crate::DENIED_WORDS),
        );
        let path = crate::matching::PathTest::new(
            crate::matching::Kind::Regex,
            &crate::nginx::restricting(directive.argument(0)),
            false,
        );
        routes.emit(
            Strength::Proxy,
            directive,
            &[(crate::matching::Test::Path(vec![path]), false)],
            vec![("respond", "404".into())],
            true,
            draft,
        );
    }
    found
}

/// The address of the application that runs scripts.
fn runner(all: &[&Directive], options: &ApacheOptions) -> Option<String> {
    let mut found = None;
    let mut take = |directive: &Directive| match &*directive.name {
        "sethandler" | "addhandler" => found = proxy::runner(directive.argument(0)).or(found.take()),
        "proxypassmatch" if directive.argument(0).contains("php") => {
            found = proxy::runner(directive.argument(1)).or(found.take())
        }
        _ => {}
    };
    all.iter().for_each(|one| {
        take(one);
        each(one.within(), &mut take);
    });
    found.or(options.php.clone())
}

/// Has scripts be run, or not be sent.
#[allow(clippy::too_many_arguments)]
fn runs(
    line: usize,
    all: &[&Directive],
    parts: &[Part<'_>],
    tried: &[String],
    options: &ApacheOptions,
    site: &mut Site,
    routes: &mut Routes,
    draft: &mut Draft,
) {
    let mut has_php = tried.iter().any(|path| path.contains(".php"));
    let mut index: Option<Vec<String>> = None;
    for part in parts.iter().filter(|part| part.is_whole()) {
        for one in part.directives.iter().filter(|one| one.name == "directoryindex") {
            index = Some(
                one.arguments()
                    .iter()
                    .filter(|name| !name.contains('/') && !name.eq_ignore_ascii_case("disabled"))
                    .cloned()
                    .collect(),
            );
        }
    }
    let mut look = |directive: &Directive| {
        has_php |= directive.name.starts_with("php_")
            || matches!(&*directive.name, "addhandler" | "addtype" | "sethandler") && directive.text().contains("php")
            || directive.name == "directoryindex" && directive.text().contains(".php")
            || directive.name == "rewriterule" && directive.argument(1).contains(".php");
    };
    all.iter().for_each(|one| {
        look(one);
        each(one.within(), &mut look);
    });
    let mut tries = vec!["$path".to_owned()];
    match &routes.fastcgi {
        Some(to) => {
            let scripts: Vec<String> = index.iter().flatten().filter(|name| name.ends_with(".php")).cloned().collect();
            let value = match &scripts[..] {
                [one] if one == "index.php" => to.clone(),
                _ if index.is_none() => format!("{{ to = {to}, index = [] }}"),
                [] => format!("{{ to = {to}, index = [] }}"),
                several => format!("{{ to = {to}, index = {} }}", list(several)),
            };
            tries.extend(tried.iter().cloned());
            let mut keys = vec![("fastcgi", value)];
            if tries.len() > 1 {
                keys.push(("try", list(&tries)));
            }
            routes.push(Strength::Whole, line, quoted("*"), keys);
            routes.refuse(line, r"\.(?:P[Hh][Pp]|p(?:H[Pp]|hP)|[Pp][Hh][Pp][0-9]|[Pp][Hh][Tt][Mm]?[Ll]?|[Pp][Hh][Pp][Ss]|[Pp][Hh][Aa][Rr])(?:/|\n?$)");
        }
        None => {
            tries.extend(tried.iter().filter(|path| !path.contains(".php")).cloned());
            if tries.len() > 1 {
                routes.push(Strength::Whole, line, quoted("*"), vec![("try", list(&tries))]);
            }
            routes.refuse(line, r"(?i)\.(?:php[0-9s]?|pht(?:ml)?|phar)(?:/|\n?$)");
            if has_php {
                let why = if options.folder.is_some() || options.php.is_none() {
                    "Apache runs scripts of PHP itself, and no application that does is named: they are answered with 404. `--php ADDRESS` names php-fpm, as in \
                     --php unix:/run/php/php-fpm.sock"
                } else {
                    "scripts of PHP are answered with 404"
                };
                draft.lose(line, why);
            }
        }
    }
    let sent: Option<Vec<String>> =
        index.map(|names| names.into_iter().filter(|name| !crate::is_program(name)).collect());
    if let Some(names) = sent.filter(|names| *names != ["index.html"]) {
        site.keys.push(("index", list(&names)));
    }
    // Programs by their endings.
    let mut endings = Vec::new();
    let mut gather = |directive: &Directive| {
        if directive.name == "addhandler" && directive.argument(0) == "cgi-script" {
            endings.extend(directive.arguments()[1..].iter().map(|one| one.trim_start_matches('.').to_owned()));
        }
    };
    all.iter().for_each(|one| {
        gather(one);
        each(one.within(), &mut gather);
    });
    endings.retain(|one| !one.is_empty() && one.bytes().all(|byte| byte.is_ascii_alphanumeric()));
    endings.sort();
    endings.dedup();
    if !endings.is_empty() {
        draft.lose(line, "programs by their endings (`AddHandler cgi-script`) are answered with 404, but for those of `ScriptAlias`: `cgi` of a route runs them (docs/gateways.md)");
        let others: Vec<String> = endings.iter().map(|one| regex::escape(one)).collect();
        routes.refuse(line, &format!(r"(?i)\.(?:{})(?:/|\n?$)", others.join("|")));
    }
}

/// Certificates that clients have to show.
fn tls_of_clients<'d>(
    last: &dyn Fn(&str) -> Option<&'d Directive>,
    has_tls: bool,
    site: &mut Site,
    routes: &mut Routes,
    draft: &mut Draft,
) {
    let Some(verify) = last("sslverifyclient").filter(|one| has_tls && !one.argument(0).eq_ignore_ascii_case("none"))
    else {
        return;
    };
    match (verify.argument(0), last("sslcacertificatefile")) {
        ("optional_no_ca", _) => {}
        (how, Some(file)) if last("sslcarevocationfile").is_none() => {
            site.keys.push(("client_ca", quoted(file.argument(0))));
            if how == "optional" {
                site.keys.push(("client_certificates", quoted("optional")));
            }
        }
        _ => {
            let why = "which certificates are good cannot be said here: nobody is let in";
            draft.lose(verify.line, format!("`{}`: {why}", verify.text()));
            routes.push(Strength::Rewrite, verify.line, quoted("*"), vec![("access", quoted("deny"))]);
        }
    }
}

/// Apache's treatment of paths: scripts of PHP are programs everywhere, and those of CGI where it is told so.
fn source(routes: &Routes, aliases: &[(String, String)], all: &[&Directive]) -> Option<Source> {
    let mut folders: Vec<String> = ["/", "/sub/"].map(str::to_owned).to_vec();
    folders.extend(aliases.iter().map(|(prefix, _)| prefix.clone()));
    for route in &routes.all {
        for (_, value) in route.keys.iter().filter(|(key, _)| *key == "match") {
            let start = value.trim_matches(['[', '"', ' ']).split(['*', '"', ',']).next().unwrap_or_default();
            if start.starts_with('/') && start.ends_with('/') {
                folders.push(start.to_owned());
            }
        }
    }
    let paths =
        folders.iter().flat_map(|folder| SCRIPT_NAMES.iter().map(move |name| format!("{folder}{name}"))).collect();
    let scripts: Vec<String> = all
        .iter()
        .filter(|one| one.name == "scriptalias")
        .map(|one| format!("{}/", one.argument(0).trim_end_matches('/')))
        .collect();
    let does = move |path: &str| {
        let lower = path.to_ascii_lowercase();
        let is_php = [".php", ".php3", ".php4", ".php5", ".php7", ".php8", ".phps", ".phtml"]
            .iter()
            .any(|end| lower.ends_with(end));
        if is_php || scripts.iter().any(|prefix| path.starts_with(&**prefix)) { Use::Run } else { Use::File }
    };
    Some(Source { paths, does: Box::new(does) })
}
