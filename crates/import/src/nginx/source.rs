//! nginx's treatment of a path: the locations of a server as nginx chooses among them.
//!
//! Owns: the choice (`ngx_http_core_find_location`), what `rewrite` makes of a path before and in it, and paths that
//! are worth asking about. What is asked is only whether a program answers; all else that a location says does not
//! count. Nothing of the configuration that comes out is known here, so that the one can be held against the other.

use lamna_config::route::pattern::{Pattern, compile};
use regex::bytes::Regex;
use regex_syntax::hir::{Class, Hir, HirKind};

use super::pattern::{spelled, without_looks};
use super::syntax::Directive;
use super::{PASSES, access, continuation, rewrite, turn};
use crate::proof::{SCRIPT_NAMES, Source, Use};

/// A location, or a server as a whole.
struct Place {
    kind: Kind,
    does: Use,
    /// Whether it is refused to every client, however it comes to it.
    is_refused: bool,
    /// Which other paths are looked for, in their order.
    rewrites: Vec<Rewrite>,
    /// With those in which others stand.
    within: Vec<Place>,
}

/// A `rewrite` whose expression can be read here.
struct Rewrite {
    regex: Regex,
    to: String,
    then: Then,
}

/// The step behind a `rewrite` that fits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    /// The next one.
    Next,
    /// The location of the new path.
    Last,
    /// Nothing else: the location stays.
    Break,
    /// The client is led elsewhere.
    Away,
}

enum Kind {
    Exact(String),
    /// A prefix, and whether no expression is looked at once it is chosen.
    Prefix(String, bool),
    /// An expression.
    Regex(Regex),
    /// One that cannot be compiled here, as one that fits more; none if there is none.
    Unread(Option<Regex>),
    /// It is never chosen for a path.
    Named,
}

/// nginx's treatment of the paths of a server; none if it sends files and nothing else.
pub(super) fn of(server: &[Directive]) -> Option<Source> {
    let root = whole(server);
    let mut paths = Vec::new();
    gather(&root, "/", &mut paths);
    gather_rewrites(server, &mut paths);
    let (mut bases, mut expressions) = (Vec::new(), Vec::new());
    sort(&root, &mut bases, &mut expressions);
    bases.truncate(BASES_MAX);
    for regex in expressions {
        let samples = samples_of(regex.as_str());
        let both = |base: &&str| {
            samples.iter().map(|one| format!("{base}{}", one.trim_start_matches('/'))).collect::<Vec<_>>()
        };
        paths.extend(bases.iter().flat_map(both).filter(|path| regex.is_match(path.as_bytes())));
    }
    paths.sort_unstable();
    paths.dedup();
    decides(&root).then(|| Source { paths, does: Box::new(move |path| use_at(&root, path)) })
}

/// Whether a location has a program answer, or restricts access, or one within it.
pub(super) fn is_decided_in(location: &Directive) -> bool {
    decides(&place(location)) || restricts(location)
}

/// Whether a directive in a block is about access.
fn restricts(block: &Directive) -> bool {
    let opens = |one: &Directive| matches!(one.argument(0), "off" | "all") && one.name != "deny";
    block
        .block
        .iter()
        .flatten()
        .any(|one| access::is_about(one) && !opens(one) || turn::may_restrict(one) || leads_in(one) || restricts(one))
}

/// Whether a directive has another path of the server answer, which may be a program's.
fn leads_in(directive: &Directive) -> bool {
    directive.name == "rewrite" && !rewrite::leads_away(directive)
}

/// Whether requests are passed on to applications somewhere in a block.
pub(super) fn passes_within(block: &[Directive]) -> bool {
    block.iter().any(|one| passes(one) || passes_within(one.block.as_deref().unwrap_or_default()))
}

/// Whether what a `rewrite` of a server leads to is refused there.
pub(super) fn leads_to_refused(server: &[Directive], rewrite: &Directive) -> bool {
    let (root, alone) = (whole(server), rewrites(std::slice::from_ref(rewrite)));
    let samples = samples_of(rewrite.argument(0)).into_iter();
    let mut paths = samples.map(|one| format!("/{}", one.trim_start_matches('/')));
    paths.any(|path| {
        let to = rewritten(&alone, &path);
        to.is_some_and(|(to, _)| find(&root, &to).is_some_and(|(place, _)| place.is_refused))
    })
}

/// Expressions for folders, and those of the index files `names` that are refused in them by their own path.
pub(super) fn refused_indexes<'n>(server: &[Directive], names: &'n [String]) -> Vec<(String, Vec<&'n str>)> {
    let root = whole(server);
    let mut found = Vec::new();
    let is_refused_at =
        |folder: &str, name: &str| find(&root, &format!("{folder}{name}")).is_some_and(|(place, _)| place.is_refused);
    let mut push = |regex: String, samples: &[String]| {
        let is_refused = |name: &&String| samples.iter().any(|folder| is_refused_at(folder, name));
        let refused: Vec<&str> = names.iter().filter(is_refused).map(String::as_str).collect();
        if !refused.is_empty() {
            found.push((regex, refused));
        }
    };
    let mut rest: Vec<&Place> = root.within.iter().collect();
    while let Some(place) = rest.pop() {
        rest.extend(&place.within);
        match &place.kind {
            _ if !place.is_refused => {}
            Kind::Exact(path) => {
                let folder = path[..path.rfind('/').map_or(0, |at| at + 1)].to_owned();
                push(format!("^{}$", regex::escape(&folder)), &[folder]);
            }
            Kind::Regex(regex) => {
                let folders = folders_of(regex.as_str());
                let samples = samples_of(&folders).into_iter().map(|one| match one.starts_with('/') {
                    true => format!("{}/", one.trim_end_matches('/')),
                    false => format!("/x{}/", one.trim_end_matches('/')),
                });
                push(folders.clone(), &samples.collect::<Vec<_>>());
                push("^/$".to_owned(), &["/".to_owned()]);
            }
            Kind::Prefix(..) | Kind::Unread(_) | Kind::Named => {}
        }
    }
    found
}

/// An expression for the folders of the files that `regex` fits, and for more rather than less: all but the root where
/// that is not plain.
fn folders_of(regex: &str) -> String {
    const ENDS: [&str; 4] = ["(/|$)", "(?:/|$)", "(?:$|/)", "$"];
    let rest = ENDS.iter().find_map(|end| regex.strip_suffix(end)).unwrap_or(regex);
    let head = rest.rfind("\\.").map_or("", |at| &rest[..at]);
    let head =
        [".*", ".+", "[^/]*", "[^/]+", ".*?", ".+?"].iter().find_map(|any| head.strip_suffix(any)).unwrap_or_default();
    match head.trim_start_matches("(?i)").is_empty() || compile(head).is_err() {
        true => "^/.+/$".to_owned(),
        false => head.to_owned(),
    }
}

/// Whether a file with one of these names may be among the paths of a location, and its folder not: so that it is
/// reached as an index file.
pub(super) fn has_file(pattern: &Pattern, names: &[&str]) -> bool {
    let folder = |path: &str| path[..path.rfind('/').map_or(0, |at| at + 1)].to_owned();
    match pattern {
        Pattern::Exact(path) => names.iter().any(|name| path.ends_with(&format!("/{name}"))),
        Pattern::Regex(text) => {
            let Ok(regex) = compile(text) else { return true };
            let folders =
                samples_of(text).into_iter().map(|path| folder(&path)).chain(["/".to_owned(), "/x/".to_owned()]);
            let mut files = folders.flat_map(|folder| names.iter().map(move |name| format!("{folder}{name}")));
            files.any(|path| regex.is_match(path.as_bytes()))
        }
        // A folder among its paths is among them itself.
        Pattern::Prefix(_) | Pattern::Glob(_) => false,
    }
}

/// Beginnings of paths with which the samples of each expression are asked about.
const BASES_MAX: usize = 40;

/// The prefixes that end with a slash, and the expressions.
fn sort<'p>(place: &'p Place, bases: &mut Vec<&'p str>, expressions: &mut Vec<&'p Regex>) {
    match &place.kind {
        Kind::Prefix(path, _) if path.ends_with('/') => bases.push(path),
        Kind::Regex(regex) | Kind::Unread(Some(regex)) => expressions.push(regex),
        _ => {}
    }
    place.within.iter().for_each(|inner| sort(inner, bases, expressions));
}

/// Paths that are rewritten.
fn gather_rewrites(block: &[Directive], paths: &mut Vec<String>) {
    for directive in block {
        if directive.name == "rewrite" {
            let samples = samples_of(directive.argument(0)).into_iter();
            paths.extend(samples.flat_map(|one| [format!("/{}", one.trim_start_matches('/')), format!("/x{one}")]));
        }
        gather_rewrites(directive.block.as_deref().unwrap_or_default(), paths);
    }
}

fn whole(server: &[Directive]) -> Place {
    // What is denied to all may be allowed in a location again.
    let returns = server.iter().any(|one| one.name == "return");
    let does = Some(use_of(server)).filter(|does| *does != Use::Never || returns).unwrap_or(Use::File);
    let kind = Kind::Prefix(String::new(), false);
    Place { kind, does, is_refused: false, rewrites: rewrites(server), within: places(server) }
}

/// The first place in it where a program answers; itself if there is none.
fn running(place: &Place) -> &Place {
    let within = || place.within.iter().map(running).find(|one| one.does == Use::Run);
    if place.does == Use::Run { place } else { within().unwrap_or(place) }
}

/// Whether a program answers there, or within it.
fn decides_itself(place: &Place) -> bool {
    place.does == Use::Run || place.within.iter().any(decides_itself)
}

/// Whether something in it has a program answer, or nothing.
fn decides(place: &Place) -> bool {
    place.does != Use::File || place.within.iter().any(decides)
}

fn places(block: &[Directive]) -> Vec<Place> {
    block.iter().filter(|one| one.name == "location").map(place).collect()
}

fn place(location: &Directive) -> Place {
    let block = location.block.as_deref().unwrap_or_default();
    let regex = |text: &str| match compile(text) {
        Ok(regex) => Kind::Regex(regex),
        Err(_) => Kind::Unread(compile(&without_looks(text)).ok()),
    };
    let kind = match spelled(location) {
        ("=", path) => Kind::Exact(path.to_owned()),
        ("^~", path) => Kind::Prefix(path.to_owned(), true),
        ("~", text) => regex(text),
        ("~*", text) => regex(&format!("(?i){text}")),
        (_, name) if name.starts_with('@') => Kind::Named,
        (_, path) => Kind::Prefix(path.to_owned(), false),
    };
    Place { kind, does: use_of(block), is_refused: is_refused(block), rewrites: rewrites(block), within: places(block) }
}

fn passes(directive: &Directive) -> bool {
    let name = &*directive.name;
    matches!(name, "proxy_pass" | "fastcgi_pass" | "uwsgi_pass" | "scgi_pass")
        || PASSES.contains(&name) && directive.argument(0) != "off"
}

/// Whether a block lets no client in.
fn is_refused(block: &[Directive]) -> bool {
    let is_shut = block.iter().any(|one| one.name == "deny" && one.argument(0) == "all")
        && !block.iter().any(|one| one.name == "allow");
    is_shut || block.iter().any(|one| one.name == "return" && one.argument(0).starts_with('4'))
}

/// The use of a path for which the block is chosen.
fn use_of(block: &[Directive]) -> Use {
    let may_pass = |one: &Directive| {
        let inner = one.block.as_deref().unwrap_or_default();
        passes(one) || matches!(&*one.name, "if" | "limit_except") && inner.iter().any(passes)
    };
    if block.iter().any(|one| one.name == "return" || one.name == "internal") || is_refused(block) {
        Use::Never
    } else if block.iter().any(may_pass) && !continuation::is_behind_files(block) {
        Use::Run
    } else {
        Use::File
    }
}

fn rewrites(block: &[Directive]) -> Vec<Rewrite> {
    let rewrite = |one: &Directive| {
        let to = one.argument(1);
        let then = match one.argument(2) {
            "redirect" | "permanent" => Then::Away,
            _ if to.contains("://") || to.starts_with("$scheme") => Then::Away,
            "last" => Then::Last,
            "break" => Then::Break,
            _ => Then::Next,
        };
        Some(Rewrite { regex: compile(one.argument(0)).ok()?, to: to.to_owned(), then })
    };
    block.iter().filter(|one| one.name == "rewrite").filter_map(rewrite).collect()
}

/// How often nginx looks for a location anew.
const ROUNDS_MAX: usize = 10;

fn use_at(root: &Place, path: &str) -> Use {
    let mut path = match rewritten(&root.rewrites, path) {
        Some((_, Then::Away)) => return Use::Never,
        Some((path, _)) => path,
        None => path.to_owned(),
    };
    if root.does == Use::Never {
        return Use::Never;
    }
    for _ in 0..ROUNDS_MAX {
        let Some((place, _)) = find(root, &path) else { return root.does };
        path = match rewritten(&place.rewrites, &path) {
            None | Some((_, Then::Break)) => return place.does,
            Some((_, Then::Away)) => return Use::Never,
            Some((path, Then::Next | Then::Last)) => path,
        };
    }
    Use::Never
}

/// The path that comes of one, and what comes next; none if nothing fits.
fn rewritten(rewrites: &[Rewrite], path: &str) -> Option<(String, Then)> {
    let mut found: Option<(String, Then)> = None;
    for one in rewrites {
        let path = found.as_ref().map_or(path, |(path, _)| path);
        let Some(groups) = one.regex.captures(path.as_bytes()) else { continue };
        let filled = filled(&one.to, path, &groups);
        found = Some((filled, one.then));
        if one.then != Then::Next {
            break;
        }
    }
    found
}

/// A target without its query, with the groups of an expression. What is not known of it is an `x`.
fn filled(to: &str, path: &str, groups: &regex::bytes::Captures<'_>) -> String {
    let mut out = String::new();
    let mut rest = to.split('?').next().unwrap_or_default();
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        let braced = after.strip_prefix('{').and_then(|inner| inner.split_once('}'));
        let word = after.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count();
        let length = if after.starts_with(|one: char| one.is_ascii_digit()) { 1 } else { word };
        let (name, tail) = braced.unwrap_or((&after[..length], &after[length..]));
        match (name, name.parse::<usize>()) {
            ("uri" | "request_uri" | "document_uri", _) => out.push_str(path),
            ("is_args" | "args" | "query_string", _) => {}
            (_, Ok(number)) => {
                let group = groups.get(number).map_or(&b""[..], |group| group.as_bytes());
                out.push_str(&String::from_utf8_lossy(group));
            }
            _ => out.push('x'),
        }
        rest = tail;
    }
    out.push_str(rest);
    out
}

/// The location that is chosen within `place`, and whether nothing else is looked at.
fn find<'p>(place: &'p Place, path: &str) -> Option<(&'p Place, bool)> {
    let exact = |one: &&Place| matches!(&one.kind, Kind::Exact(exact) if exact == path);
    if let Some(found) = place.within.iter().find(exact) {
        return Some((found, true));
    }
    let prefix = |one: &&'p Place| match &one.kind {
        Kind::Prefix(prefix, _) if path.starts_with(prefix.as_str()) => prefix.len() + 1,
        _ => 0,
    };
    let chosen = place.within.iter().max_by_key(prefix).filter(|one| prefix(one) > 0);
    let mut fallback = None;
    if let Some(one) = chosen {
        match find(one, path) {
            Some((found, true)) => return Some((found, true)),
            Some((found, false)) => fallback = Some((found, false)),
            None => fallback = Some((one, false)),
        }
        if matches!(one.kind, Kind::Prefix(_, true)) {
            return fallback;
        }
    }
    let fits = |one: &&Place| match &one.kind {
        Kind::Regex(regex) => regex.is_match(path.as_bytes()),
        // As far as is known: it fits some of these, and others go on to what comes after it.
        Kind::Unread(Some(wider)) => decides(one) && wider.is_match(path.as_bytes()),
        Kind::Unread(None) => decides_itself(one),
        _ => false,
    };
    match place.within.iter().find(fits) {
        // Of one that is not known, those within it are not either.
        Some(one) if matches!(one.kind, Kind::Unread(_)) => Some((running(one), true)),
        Some(one) => Some((find(one, path).map_or(one, |(found, _)| found), true)),
        None => fallback,
    }
}

/// Paths about which a location, and those within it, might say something.
fn gather(place: &Place, around: &str, paths: &mut Vec<String>) {
    let beneath = |start: &str, paths: &mut Vec<String>| {
        let folder = format!("{}/", start.trim_end_matches('/'));
        paths.extend(SCRIPT_NAMES.iter().flat_map(|name| [format!("{folder}{name}"), format!("{start}{name}")]));
        paths.push(start.to_owned());
    };
    let base = match &place.kind {
        Kind::Exact(path) | Kind::Prefix(path, _) if path.starts_with('/') => path.clone(),
        _ => around.to_owned(),
    };
    beneath(&base, paths);
    if let Kind::Regex(regex) | Kind::Unread(Some(regex)) = &place.kind {
        let samples = samples_of(regex.as_str());
        let starts =
            samples.iter().flat_map(|one| [one.clone(), format!("/{one}"), format!("{base}{one}"), format!("/x{one}")]);
        let fitting = starts.filter(|path| path.starts_with('/') && !path.contains("//"));
        for path in fitting.collect::<Vec<_>>() {
            if regex.is_match(path.as_bytes()) {
                if path.ends_with('/') {
                    beneath(&path, paths);
                }
                paths.extend([path.to_ascii_uppercase(), format!("{path}/info"), path]);
            }
        }
    }
    place.within.iter().for_each(|inner| gather(inner, &base, paths));
}

/// The most samples of a part of an expression.
const SAMPLES_MAX: usize = 48;

/// Texts that an expression matches, so that each of its alternatives is in one of them.
fn samples_of(regex: &str) -> Vec<String> {
    let parsed = regex_syntax::ParserBuilder::new().unicode(false).utf8(false).build().parse(regex);
    let samples = parsed.map(|hir| samples(&hir)).unwrap_or_default();
    samples.into_iter().filter_map(|one| String::from_utf8(one).ok()).collect()
}

fn samples(hir: &Hir) -> Vec<Vec<u8>> {
    let mut found = match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => vec![Vec::new()],
        HirKind::Literal(literal) => vec![literal.0.to_vec()],
        HirKind::Class(class) => of_class(class),
        HirKind::Repetition(repetition) => {
            let once = samples(&repetition.sub);
            let times = |times: u32| once.iter().map(move |one| one.repeat(times as usize));
            let least = repetition.min.min(64);
            let more = if repetition.max.is_none_or(|most| most > least) { least + 1 } else { least };
            times(least).take(1).chain(times(more)).collect()
        }
        HirKind::Capture(capture) => samples(&capture.sub),
        HirKind::Alternation(branches) => branches.iter().flat_map(samples).collect(),
        HirKind::Concat(parts) => parts.iter().fold(vec![Vec::new()], |starts, part| {
            let ends = samples(part);
            let most = starts.len().max(ends.len());
            let both = |start: &Vec<u8>, end: &Vec<u8>| [&start[..], &end[..]].concat();
            // Each once at least; all of both where they are few.
            match starts.len() * ends.len() <= SAMPLES_MAX {
                true => starts.iter().flat_map(|start| ends.iter().map(move |end| both(start, end))).collect(),
                false => (0..most).map(|at| both(&starts[at % starts.len()], &ends[at % ends.len()])).collect(),
            }
        }),
    };
    found.truncate(SAMPLES_MAX);
    if found.is_empty() { vec![Vec::new()] } else { found }
}

/// Usual characters of a class, or its first ones.
fn of_class(class: &Class) -> Vec<Vec<u8>> {
    let Class::Bytes(class) = class else { return vec![b"x".to_vec()] };
    let holds = |byte: u8| class.ranges().iter().any(|range| (range.start()..=range.end()).contains(&byte));
    let usual: Vec<u8> = b"xa1/pPhH-_.".iter().copied().filter(|byte| holds(*byte)).collect();
    let first = class.ranges().iter().map(|range| range.start());
    let chosen: Vec<u8> = if usual.is_empty() { first.collect() } else { usual };
    chosen.into_iter().take(4).map(|byte| vec![byte]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nginx::syntax::parse;

    /// As nginx 1.22 chooses them, tried there.
    #[test]
    fn a_location_is_chosen_as_nginx_chooses() {
        let text = "location / { return 404; } location /a/ { proxy_pass http://a; } location ^~ /s/ { } location = /e.php { } \
                    location ~ \\.php$ { fastcgi_pass b; } location /n/ { location ~ \\.php$ { return 403; } } \
                    location ~ ^/(status|ping)$ { fastcgi_pass b; }";
        let root = whole(&parse(text).unwrap());
        for (path, does) in [
            ("/", Use::Never),
            ("/a/b", Use::Run),
            ("/a/x.php", Use::Run),
            ("/s/x.php", Use::File),
            ("/e.php", Use::File),
            ("/n/x.php", Use::Never),
            ("/n/x", Use::File),
            ("/ping", Use::Run),
            ("/pings", Use::Never),
        ] {
            assert_eq!(use_at(&root, path), does, "{path}");
        }
    }

    #[test]
    fn each_alternative_has_a_sample() {
        let samples = samples_of("^/(status|ping)[0-9]{2}\\.php(/|$)");
        for expected in ["/status11.php", "/ping11.php", "/ping11.php/"] {
            assert!(samples.iter().any(|one| one == expected), "{expected}: {samples:?}");
        }
    }
}
