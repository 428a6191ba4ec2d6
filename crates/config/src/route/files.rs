//! The files `_headers` and `_redirects`, which site generators and hosts of static sites have in common, as routes.
//!
//! Owns: their syntax, and what of it is done. Reads them beneath the root of a site when settings are loaded.
//! Guarantees: a line that is not done is said, with its number and why; none is passed over in silence.

use std::cmp::Reverse;
use std::path::Path;

use super::headers::HeaderRule;
use super::matcher::Matcher;
use super::pattern::Pattern;
use super::template::Template;
use super::{RouteRedirect, RouteSettings, Source, Switch};
use crate::site::{FieldUse, is_sendable};

/// Names beneath a root that are not served where they are read.
pub const RULE_FILES: [&str; 2] = ["_headers", "_redirects"];

/// A line that is not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// The file.
    pub file: &'static str,
    /// Counted from 1; none if it is the whole file.
    pub line: Option<usize>,
    /// Why.
    pub why: String,
}

/// The rules that a site brings with it: routes, and the lines that are not done.
#[derive(Debug, Default)]
pub(crate) struct RuleFiles {
    pub routes: Vec<RouteSettings>,
    pub skipped: Vec<Skipped>,
}

/// Bytes of a file that are read. Hosts of such sites allow much less.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Reads the files of `root`. One that is not there says nothing.
fn read_rule_files(root: &Path) -> RuleFiles {
    let mut found = RuleFiles::default();
    for (name, read) in [(RULE_FILES[0], headers as fn(&str, &mut RuleFiles)), (RULE_FILES[1], redirects)] {
        let path = root.join(name);
        let skip = |why| Skipped { file: name, line: None, why };
        match std::fs::metadata(&path) {
            Ok(metadata) if metadata.len() > FILE_BYTES_MAX => {
                found.skipped.push(skip("it is larger than 1 MiB".into()))
            }
            Ok(metadata) if !metadata.is_file() => found.skipped.push(skip("it is not a file".into())),
            Ok(_) => match std::fs::read_to_string(&path) {
                Ok(text) => read(&text, &mut found),
                Err(error) => found.skipped.push(skip(error.to_string())),
            },
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => found.skipped.push(skip(error.to_string())),
        }
    }
    found
}

/// Adds what `root` brings with it to the routes that are configured for it, and says what of it is not done.
pub(crate) fn add_rule_files(root: &Path, routes: &mut Vec<RouteSettings>) -> Vec<Skipped> {
    let configured = routes.len();
    let RuleFiles { routes: found, mut skipped } = read_rule_files(root);
    routes.extend(found);
    if let Err(why) = Matcher::new(routes) {
        routes.truncate(configured);
        skipped.extend(RULE_FILES.map(|file| Skipped { file, line: None, why: why.clone() }));
    }
    skipped
}

/// Paths at the beginning of lines, and below each, indented, its fields.
fn headers(text: &str, found: &mut RuleFiles) {
    let mut current: Option<RouteSettings> = None;
    for (number, line) in lines(text) {
        let mut skip = |why: &str| {
            found.skipped.push(Skipped { file: RULE_FILES[0], line: Some(number), why: why.to_owned() });
        };
        if !line.starts_with([' ', '\t']) {
            found.routes.extend(current.take().filter(|route| !route.headers.iter().all(HeaderRule::is_empty)));
            let mut skip = |why: &str| {
                found.skipped.push(Skipped { file: RULE_FILES[0], line: Some(number), why: why.to_owned() });
            };
            match path_patterns(line.trim()) {
                Ok(paths) => {
                    current = Some(RouteSettings {
                        source: Source::HeadersLine(number),
                        paths,
                        headers: vec![HeaderRule::default()],
                        ..RouteSettings::default()
                    });
                }
                Err(why) => skip(&why),
            }
            continue;
        }
        let Some(rule) = current.as_mut().and_then(|route| route.headers.first_mut()) else {
            skip("there is no path above it whose fields these could be");
            continue;
        };
        let line = line.trim();
        if let Some(name) = line.strip_prefix('!') {
            rule.remove.push(name.trim().to_owned());
            continue;
        }
        let Some((name, value)) = line.split_once(':').map(|(name, value)| (name.trim(), value.trim())) else {
            skip("it is not a field: expected a name, a colon and a value");
            continue;
        };
        match is_sendable(name, value, FieldUse::Route) {
            Err(why) => skip(&format!("`{name}` {why}")),
            Ok(()) => match rule.set.iter_mut().find(|(other, _)| other.eq_ignore_ascii_case(name)) {
                Some((_, values)) if !crate::site::is_single(name) => values.push(value.to_owned()),
                Some(_) => skip(&format!("`{name}` has one value in an answer, and has been given already")),
                None => rule.set.push((name.to_owned(), vec![value.to_owned()])),
            },
        }
    }
    found.routes.extend(current.filter(|route| !route.headers.iter().all(HeaderRule::is_empty)));
}

/// `from to [status][!]`, of which the first line that matches counts.
fn redirects(text: &str, found: &mut RuleFiles) {
    for (number, line) in lines(text) {
        match redirect(line.trim(), number) {
            Ok(route) => found.routes.push(route),
            Err(why) => found.skipped.push(Skipped { file: RULE_FILES[1], line: Some(number), why }),
        }
    }
}

fn redirect(line: &str, number: usize) -> Result<RouteSettings, String> {
    // A comment may follow.
    let words: Vec<&str> = line.split_whitespace().take_while(|word| !word.starts_with('#')).collect();
    let (from, to, status, more) = match words[..] {
        [from, to] => (from, to, "302", &[][..]),
        [from, to, status, ref more @ ..] => (from, to, status, more),
        _ => return Err("it is not `from to` or `from to status`".into()),
    };
    let is_condition = |word: &&str| word.contains('=');
    if is_condition(&to) || is_condition(&status) {
        return Err(
            "conditions on parameters of the query are not done here: write a [[site.route]] with `query`".into()
        );
    }
    if let Some(condition) = more.first() {
        return Err(format!("the condition `{condition}` is not known here"));
    }
    let (status, is_forced) = status.strip_suffix('!').map_or((status, false), |status| (status, true));
    let paths = path_patterns(from)?;
    let template = target(to, paths.iter().any(Pattern::is_regex))?;
    if let Some(missing) = template.missing_from(paths.first()) {
        let name = if missing == "$1" { "splat" } else { missing.trim_start_matches("${").trim_end_matches('}') };
        return Err(format!("`:{name}` stands in `{to}` and not in `{from}`"));
    }
    let mut route = RouteSettings {
        source: Source::RedirectsLine(Reverse(number)),
        paths,
        // Nothing is left to lines further down.
        redirect: Switch::Off,
        rewrite: Switch::Off,
        try_files: Some(Vec::new()),
        ..RouteSettings::default()
    };
    let is_elsewhere = !to.starts_with('/');
    match status.parse() {
        Ok(status @ (301 | 302 | 303 | 307 | 308)) => {
            if !template.closes_host() {
                return Err("it would make a part of the host of what the client asks for".into());
            }
            route.redirect = Switch::Set(RouteRedirect { to: template, status, if_missing: !is_forced });
        }
        Ok(200 | 404) if is_elsewhere => {
            return Err("it would fetch from another server, which is not done here".into());
        }
        Ok(200) if is_forced => route.rewrite = Switch::Set(template),
        Ok(200) => route.try_files = Some(vec![Template::parse("$path")?, template]),
        Ok(404) if template.is_fixed() => {
            route.error_pages.insert(404, to.to_owned());
        }
        Ok(404) => return Err("the page of an error cannot depend on the path".into()),
        _ => return Err(format!("the status `{status}` is not known here")),
    }
    Ok(route)
}

/// With `:name` for a segment and `*` at the end for everything. A slash at the end does not matter.
fn path_patterns(from: &str) -> Result<Vec<Pattern>, String> {
    if !from.starts_with('/') {
        return Err(match from.contains("://") {
            true => "rules for one host only are not done here: write a [[site.route]] with `host`".into(),
            false => "a path begins with a slash".into(),
        });
    }
    if from.trim_end_matches('*').contains('*') {
        return Err("a star stands at the end of a path".into());
    }
    let path = from.trim_end_matches('*');
    if !path.contains("/:") {
        if path.len() < from.len() {
            return Ok(vec![Pattern::Prefix(path.to_owned())]);
        }
        let bare = path.trim_end_matches('/');
        let both = [bare.to_owned(), format!("{bare}/")].into_iter().filter(|path| !path.is_empty());
        return Ok(both.map(Pattern::Exact).collect());
    }
    let mut regex = "(?s)\\A".to_owned();
    for segment in path.strip_suffix('/').unwrap_or(path).split('/').skip(1) {
        regex.push('/');
        match segment.strip_prefix(':') {
            Some(name) if !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') => {
                regex.push_str(&format!("(?<{name}>[^/]+)"));
            }
            _ => regex.push_str(&regex::escape(segment)),
        }
    }
    regex.push_str(match (path.len() < from.len(), path.ends_with('/')) {
        (true, true) => "/(?<splat>.*)\\z",
        (true, false) => "(?<splat>.*)\\z",
        (false, _) => "/?\\z",
    });
    Pattern::from_regex(&regex).map(|pattern| vec![pattern])
}

/// With `:splat` and `:name` for what stands in the path.
fn target(to: &str, has_names: bool) -> Result<Template, String> {
    if !to.starts_with('/') && !to.starts_with("http://") && !to.starts_with("https://") {
        return Err(format!("`{to}` is neither a path nor an address"));
    }
    if to.starts_with("//") || !to.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\') {
        return Err(format!("`{}` cannot be sent as it is", to.escape_debug()));
    }
    let mut text = String::new();
    let mut rest = to;
    while let Some(at) = rest.find(':') {
        let word = rest[at + 1..].bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count();
        let name = &rest[at + 1..at + 1 + word];
        text.push_str(&rest[..at].replace('$', "$$"));
        match name.as_bytes().first() {
            Some(first) if first.is_ascii_alphabetic() && name == "splat" && !has_names => text.push_str("${1}"),
            Some(first) if first.is_ascii_alphabetic() => text.push_str(&format!("${{{name}}}")),
            _ => text.push_str(&format!(":{name}")),
        }
        rest = &rest[at + 1 + word..];
    }
    text.push_str(&rest.replace('$', "$$"));
    Template::parse(&text)
}

/// Lines that say something, with their numbers.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let numbered = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim_end()));
    numbered.filter(|(_, line)| !line.is_empty() && !line.trim_start().starts_with('#'))
}

#[cfg(test)]
mod tests {
    use super::super::matcher::ROUTES_MAX;
    use super::super::merge;
    use super::*;

    fn read(read: fn(&str, &mut RuleFiles), text: &str) -> RuleFiles {
        let mut found = RuleFiles::default();
        read(text, &mut found);
        found
    }

    fn location(text: &str, path: &str) -> Option<String> {
        let found = read(redirects, text);
        assert_eq!(found.skipped, [], "{text}");
        let matcher = Matcher::new(&found.routes).unwrap();
        let ids = matcher.by_path(path.as_bytes());
        let rules = merge(ids.iter().map(|id| (usize::from(*id), matcher.route(*id))));
        let (redirect, id) = rules.redirect?;
        let captures = matcher.captures(id as u16, path.as_bytes());
        Some(format!("{} {}", redirect.status, redirect.to.fill_encoded(path.as_bytes(), b"", &captures)))
    }

    #[test]
    fn the_first_line_that_matches_redirects() {
        let text = "# moved\n/blog/*  https://blog.example.org/:splat 301\n/news/:year/:slug /archive/:slug/:year\n\n\
                    /blog/kept /never 302\n/old /new 308! # comment\n";
        assert_eq!(location(text, "/blog/kept"), Some("301 https://blog.example.org/kept".into()));
        assert_eq!(location(text, "/news/2024/a b"), Some("302 /archive/a%20b/2024".into()));
        assert_eq!(location(text, "/old/"), Some("308 /new".into()));
        assert_eq!(location(text, "/other"), None);
    }

    #[test]
    fn a_line_with_200_looks_for_the_file_first_unless_it_is_forced() {
        let found = read(redirects, "/app/* /index.html 200\n/v1/* /v2/:splat 200!\n/* /404.html 404\n");
        let texts = |templates: &[Template]| templates.iter().map(|one| one.text().to_owned()).collect::<Vec<_>>();
        assert_eq!(texts(found.routes[0].try_files.as_ref().unwrap()), ["$path", "/index.html"]);
        assert_eq!(found.routes[1].rewrite, Switch::Set(Template::parse("/v2/${1}").unwrap()));
        assert_eq!(found.routes[2].error_pages.get(404), Some("/404.html"));
    }

    #[test]
    fn what_is_not_done_is_said_with_its_line() {
        let text = "/a /b 200 Country=de\n/a\nhttps://x.example/* /b\n/api/* https://api.example/:splat 200\n/a id=:id /b\n\
                    /a /:nothing\n/a*b /c\n/a /b 999\n/x* https://a.example:splat\n/x b\n";
        let found = read(redirects, text);
        let lines: Vec<usize> = found.skipped.iter().filter_map(|one| one.line).collect();
        assert_eq!(lines, (1..=10).collect::<Vec<_>>(), "{:#?}", found.skipped);
        assert!(found.routes.is_empty());
        let found =
            read(headers, "  X-A: 1\n/a\n  nothing\n  Content-Length: 7\n  X-B: 1\nhttps://a.example/\n  X-C: 1\n");
        let lines: Vec<usize> = found.skipped.iter().filter_map(|one| one.line).collect();
        assert_eq!(lines, [1, 3, 4, 6, 7], "{:#?}", found.skipped);
        assert_eq!(found.routes.len(), 1);
    }

    #[test]
    fn files_with_more_routes_than_there_may_be_are_not_done_and_said() {
        let root = tempfile::tempdir().unwrap();
        let lines: String = (0..=ROUTES_MAX).map(|number| format!("/{number} /x\n")).collect();
        std::fs::write(root.path().join("_redirects"), lines).unwrap();
        let mut routes = vec![RouteSettings::default()];
        let skipped = add_rule_files(root.path(), &mut routes);
        assert_eq!(routes.len(), 1);
        assert!(skipped.iter().any(|one| one.file == "_redirects" && one.why.contains("10000")), "{skipped:?}");
    }

    #[test]
    fn fields_stand_below_their_path_and_the_more_specific_counts() {
        let text = "/*\n  X-Frame-Options: DENY\n  Link: <a>\n  Link: <b>\n/assets/*\n\tX-Frame-Options: SAMEORIGIN\n  ! Link\n";
        let found = read(headers, text);
        assert_eq!(found.skipped, []);
        let matcher = Matcher::new(&found.routes).unwrap();
        let fields = |path: &str| {
            let ids = matcher.by_path(path.as_bytes());
            let rules = merge(ids.iter().map(|id| (usize::from(*id), matcher.route(*id))));
            let fields = super::super::headers::fields(&rules.headers, 200);
            fields.into_iter().map(|(name, value)| format!("{name}: {value}")).collect::<Vec<_>>()
        };
        assert_eq!(fields("/a"), ["X-Frame-Options: DENY", "Link: <a>", "Link: <b>"]);
        assert_eq!(fields("/assets/a"), ["X-Frame-Options: SAMEORIGIN"]);
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_and_every_line_is_a_route_or_is_said(text in "([/a:* .\t]{0,12}(https://a| 200| 301!)?\n){0,6}") {
            let count = lines(&text).count();
            let found = read(redirects, &text);
            proptest::prop_assert_eq!(found.routes.len() + found.skipped.len(), count);
            let _ = read(headers, &text);
        }
    }
}
