//! Redirects: from a `[[site.redirect]]` table to settings, and where a path then leads.
//!
//! Owns: the judgement of redirects, and applying them, which is the same for the server and for finding loops.
//! Guarantees: a redirect never leads to a host that its `to` does not name, whatever the client asks for.

use std::ops::Range;

use lamna_proto::parse::path::{self, PathError};
use serde::Deserialize;
use serde_json::{Value, json};
use toml::Spanned;

use super::checker::Checker;
use super::page::{Page, quoted};
use super::route::pattern::has_escape;
use super::schema::values::{list_of, pattern, table};
use super::site::SiteTable;
use super::site::row::SiteKey;
use super::unit::Unit;
use super::written::{Amount, Text};
use lamna_policy::size::format_size;

const STATUSES: [u64; 5] = [301, 302, 303, 307, 308];

/// Bytes of a `to`. Clients refuse longer locations; and it leaves room in a head for what `*` stands for.
pub(super) const LOCATION_BYTES_MAX: usize = 8 * 1024;

/// One redirect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// The path this applies to, decoded, starting with `/`. With a `*` at the end: every path with that prefix.
    pub from: String,
    /// Where it goes: a path or an absolute URL. A `*` at its end is replaced by what `*` in `from` matched.
    pub to: String,
    /// 301, 302, 303, 307 or 308.
    pub status: u16,
}

/// `[[site.redirect]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub(crate) struct RedirectTable {
    from: Text,
    to: Text,
    status: Option<Spanned<Amount>>,
}

/// `redirect` of a site.
pub(super) struct Redirects;

impl SiteKey for Redirects {
    type Value = Vec<Redirect>;

    fn judge(given: &SiteTable, _: &Range<usize>, all: &mut Vec<Redirect>, checker: &mut Checker<'_>) {
        *all = redirects(&given.redirect, checker);
    }

    fn render(all: &Vec<Redirect>, page: &mut Page) {
        for redirect in all {
            page.table("[[site.redirect]]");
            page.line("from", quoted(&redirect.from));
            page.line("to", quoted(&redirect.to));
            page.line("status", redirect.status);
        }
    }
}

/// The schema of `redirect` of a site.
pub(super) fn schema() -> Value {
    let keys = [
        ("from", pattern("^/", "The decoded path; with a * at its end all that begin so")),
        ("to", pattern("^(/|https?://)", "Where to; a * at its end is what * in from stands for")),
        ("status", json!({ "enum": STATUSES, "description": "301 unless it is given" })),
    ];
    list_of(table(keys, &["from", "to"], "Requests for a path go elsewhere"))
}

impl Redirect {
    /// The location to which this leads from `path` (decoded and normalised); nothing if it does not apply to it.
    pub fn location(&self, path: &str) -> Option<String> {
        let rest = match self.from.strip_suffix('*') {
            Some(prefix) => path.strip_prefix(prefix)?,
            None if self.from == path => "",
            None => return None,
        };
        match self.to.strip_suffix('*') {
            None => Some(self.to.clone()),
            Some(prefix) => {
                let location = format!("{prefix}{}", path::encode(rest.as_bytes()));
                (!is_host_open(prefix) && !location.starts_with("//")).then_some(location)
            }
        }
    }
}

/// Whether what is written behind `prefix` would become a part of its host: a name or a port.
fn is_host_open(prefix: &str) -> bool {
    prefix.split_once("://").is_some_and(|(_, rest)| !rest.contains(['/', '?', '#']))
}

/// The redirects of a site, in the order of the file.
fn redirects(tables: &[RedirectTable], checker: &mut Checker<'_>) -> Vec<Redirect> {
    let before = checker.count_findings();
    let redirects: Vec<Redirect> = tables.iter().map(|table| redirect(table, checker)).collect();
    if checker.count_findings() == before {
        for at in (0..redirects.len()).filter(|at| goes_round(&redirects, *at)) {
            checker.expect(
                false,
                &tables[at].to,
                "leads back to a redirect of this site that leads here: clients would go round for ever",
            );
        }
    }
    redirects
}

fn redirect(table: &RedirectTable, checker: &mut Checker<'_>) -> Redirect {
    from(&table.from, checker);
    to(&table.to, table.from.get_ref(), checker);
    Redirect {
        from: table.from.get_ref().clone(),
        to: table.to.get_ref().clone(),
        status: status(table.status.as_ref(), checker),
    }
}

fn from(text: &Text, checker: &mut Checker<'_>) {
    let from = text.get_ref();
    if !from.starts_with('/') {
        return checker.expect(false, text, "must start with `/`: it is compared with the path");
    }
    if !star_is_last(from) {
        return checker.expect(false, text, "may have a `*` at its end only");
    }
    if from.contains('?') {
        return checker.expect(false, text, "is compared with the path alone, which has no query");
    }
    let mut decoded = Vec::new();
    if has_escape(from) {
        let hint = match path::normalise(from.as_bytes(), &mut decoded) {
            Ok(()) => format!("write `{}`", String::from_utf8_lossy(&decoded).escape_debug()),
            Err(PathError::EncodedSlash) => "no name has an encoded slash in it".to_owned(),
            Err(error) => error.to_string(),
        };
        let message = format!("`{}` never fits: it is compared with the decoded path", from.escape_debug());
        return checker.problem_with_hint(text.span(), message, Some(hint));
    }
    // The beginning of a name stands before a star: it may be anything.
    let whole = if from.ends_with('*') { from.rfind('/').map_or("", |slash| &from[..=slash]) } else { from };
    let is_normal = path::normalise(path::encode(whole.as_bytes()).as_bytes(), &mut decoded).is_ok();
    checker.expect(
        is_normal && decoded == whole.as_bytes(),
        text,
        "never fits: it is compared with the path without `//`, `.` and `..` in it",
    );
}

fn to(text: &Text, from: &str, checker: &mut Checker<'_>) {
    let to = text.get_ref();
    let is_path = to.starts_with('/');
    let is_url = to.starts_with("http://") || to.starts_with("https://");
    if !is_path && !is_url {
        return checker.expect(false, text, "must be a path that starts with `/`, or start with http:// or https://");
    }
    checker.expect(
        to.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\'),
        text,
        "is sent as it is: write spaces, backslashes and other than ASCII characters percent-encoded",
    );
    checker.expect(!to.starts_with("//"), text, "begins with the name of a host: write http: or https: before it");
    if to.len() > LOCATION_BYTES_MAX {
        let most = format_size(LOCATION_BYTES_MAX as u64);
        checker.problem(text.span(), format!("this location has {} bytes: at most {most} can be sent", to.len()));
    }
    if !star_is_last(to) {
        return checker.expect(false, text, "may have a `*` at its end only");
    }
    let Some(prefix) = to.strip_suffix('*') else { return };
    let Some(from) = from.strip_suffix('*') else {
        return checker.expect(false, text, "has a `*`, and `from` has none that it could stand for");
    };
    if is_host_open(prefix) {
        let message = format!("`{to}` would make a part of the host of what `*` stands for: anybody's host");
        return checker.problem_with_hint(text.span(), message, Some(format!("write `{prefix}/*`")));
    }
    if prefix == "/" && !from.ends_with('/') {
        let message = "`/*` would begin with `//`, and lead to any host, where what `*` stands for begins with `/`";
        checker.problem_with_hint(text.span(), message, Some(format!("end `from` with a slash: `{from}/*`")));
    }
}

fn star_is_last(pattern: &str) -> bool {
    pattern.find('*').is_none_or(|at| at + 1 == pattern.len())
}

/// Whether a client that follows the redirect `first` of these would never arrive. Tried for the shortest path that it
/// applies to, and for one that is longer. What leads to another host, or this one by its name, is not followed.
fn goes_round(redirects: &[Redirect], first: usize) -> bool {
    // More hops than this take a redirect at least twice, and none of a chain that ends does so for these paths.
    let hops_max = 2 * redirects.len() + 2;
    let from = &redirects[first].from;
    let samples = match from.strip_suffix('*') {
        Some(prefix) => vec![prefix.to_owned(), format!("{prefix}x")],
        None => vec![from.clone()],
    };
    samples.iter().any(|sample| {
        let mut location = redirects[first].location(sample);
        for _ in 0..hops_max {
            let Some(path) = location.as_deref().and_then(path_of) else { return false };
            location = redirects.iter().find_map(|redirect| redirect.location(&path));
        }
        location.is_some()
    })
}

/// The path that a request for `location` has, decoded, if it stays on this host.
fn path_of(location: &str) -> Option<String> {
    let path = location.split(['?', '#']).next()?;
    let mut decoded = Vec::new();
    path::normalise(path.as_bytes(), &mut decoded).ok()?;
    String::from_utf8(decoded).ok()
}

/// The default is 302: browsers keep a 301 for good, which no one wants from a first attempt.
pub(crate) fn status(given: Option<&Spanned<Amount>>, checker: &mut Checker<'_>) -> u16 {
    let default = 302;
    let Some(given) = given else {
        return default;
    };
    let Some(status) = checker.amount("status", given, Unit::Count, &(300..=399)) else {
        return default;
    };
    if !STATUSES.contains(&status) {
        let message = format!("{status} does not redirect: expected 301, 302, 303, 307 or 308");
        checker.problem(given.span(), message);
    }
    status as u16 // Between 300 and 399.
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn redirect(from: &str, to: &str) -> Redirect {
        Redirect { from: from.to_owned(), to: to.to_owned(), status: 302 }
    }

    #[test]
    fn a_star_stands_for_the_rest_percent_encoded() {
        let moved = redirect("/blog/*", "https://blog.example.org/*");
        assert_eq!(moved.location("/blog/a b/\r\n\\@"), Some("https://blog.example.org/a%20b/%0D%0A%5C%40".into()));
        assert_eq!(moved.location("/blog"), None);
        assert_eq!(redirect("/a", "/b").location("/a"), Some("/b".into()));
        assert_eq!(redirect("/a", "/b").location("/a/"), None);
    }

    #[test]
    fn no_path_becomes_a_host_even_if_nobody_checked_the_redirect() {
        assert_eq!(redirect("/blog*", "https://blog.example.org*").location("/blog.evil.net/"), None);
        assert_eq!(redirect("/old*", "/*").location("/old/evil.com"), None);
        assert_eq!(redirect("/old*", "/*").location("/old"), Some("/".into()));
        assert_eq!(
            redirect("/q/*", "https://example.org?q=*").location("/q/.x"),
            Some("https://example.org?q=.x".into())
        );
    }

    #[test]
    fn loops_of_one_redirect_and_of_several_are_found_and_chains_that_end_are_not() {
        let rounds = |pairs: &[(&str, &str)]| {
            let redirects: Vec<Redirect> = pairs.iter().map(|(from, to)| redirect(from, to)).collect();
            (0..redirects.len()).filter(|at| goes_round(&redirects, *at)).collect::<Vec<_>>()
        };
        assert_eq!(rounds(&[("/loop*", "/loop*")]), [0]);
        assert_eq!(rounds(&[("/a", "/%61?b#c")]), [0]);
        assert_eq!(rounds(&[("/a*", "/a/b")]), [0]);
        assert_eq!(rounds(&[("/a/*", "/a/b/*")]), [0]);
        assert_eq!(rounds(&[("/a", "/b"), ("/b", "/c"), ("/c", "/a"), ("/d", "/a"), ("/e", "/f")]), [0, 1, 2, 3]);
        assert!(rounds(&[("/a", "/b"), ("/b", "/c"), ("/c", "/d"), ("/d", "/e")]).is_empty());
        assert!(rounds(&[("/a/*", "/*"), ("/b/*", "/a/*")]).is_empty());
        assert!(rounds(&[("/a*", "https://example.org/a*"), ("/b", "/b/")]).is_empty());
        assert!(rounds(&[]).is_empty());
    }

    proptest! {
        #[test]
        fn no_path_leads_to_a_host_that_is_not_named(
            from in "/[a-z/]{0,4}[*]", path in "/[a-z/.@:\\\\]{0,12}",
            to in "(https?://example[.]org|/)[a-z/?]{0,4}[*]",
        ) {
            let Some(location) = redirect(&from, &to).location(&path) else { return Ok(()) };
            let is_own = location.starts_with('/') && !location.starts_with("//") && !location.starts_with("/\\");
            let host = location.split_once("://").and_then(|(_, rest)| rest.split(['/', '?']).next());
            let named = to.split_once("://").and_then(|(_, rest)| rest.split(['/', '?', '*']).next());
            prop_assert!(is_own || host.is_some() && host == named, "{location}");
        }
    }
}
