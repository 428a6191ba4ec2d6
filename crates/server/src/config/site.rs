//! From a `[[site]]` table to the settings of a site.
//!
//! Owns: the judgement of everything in a site and of what sites must not have in common. Header names and values are
//! judged so that whatever passes can be written into a response as it is (RFC 9110 5.1 and 5.5).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use toml::Spanned;

use super::file::{AliasTable, Amount, RedirectTable, SiteTable, Text, Texts};
use super::limits::Unit;
use super::settings::{Alias, Redirect, SiteSettings};
use super::validate::Checker;

/// Fields that the server computes for each response: a fixed value would contradict it.
const OWNED_FIELDS: [&str; 10] = [
    "Date",
    "Content-Length",
    "Transfer-Encoding",
    "Connection",
    "Content-Range",
    "Content-Encoding",
    "Last-Modified",
    "ETag",
    "Accept-Ranges",
    "Vary",
];

const REDIRECT_STATUSES: [u64; 5] = [301, 302, 303, 307, 308];

/// The sites of a file, in its order.
pub(super) fn sites(tables: &[Spanned<SiteTable>], checker: &mut Checker<'_>) -> Vec<SiteSettings> {
    let sites = tables.iter().map(|table| site(table, checker)).collect();
    unique_hosts(tables, checker);
    sites
}

fn site(table: &Spanned<SiteTable>, checker: &mut Checker<'_>) -> SiteSettings {
    let given = table.get_ref();
    let root = match &given.root {
        Some(root) => checker.directory(root),
        None => {
            let hint = Some("give the directory to serve: root = \"/srv/www\"".into());
            checker.problem_with_hint(table.span(), "this site has no `root`", hint);
            Default::default()
        }
    };
    let mut site = SiteSettings::new(root);
    site.hosts = given.hosts.iter().map(|host| self::host(host, checker)).collect();
    if let Some(names) = &given.index {
        site.index = names.iter().map(|name| index_name(name, checker)).collect();
    }
    site.browse = given.browse;
    site.spa = given.spa;
    site.headers = headers(&given.headers, checker);
    site.redirects = given.redirect.iter().map(|table| redirect(table, checker)).collect();
    site.error_pages = error_pages(&given.error_pages, checker);
    site.aliases = aliases(&given.alias, checker);
    site.user_directory = given.user_directory.as_ref().map(|name| user_directory(name, checker));
    site
}

fn host(text: &Text, checker: &mut Checker<'_>) -> String {
    let host = text.get_ref().to_ascii_lowercase();
    if let Some((name, port)) = host.rsplit_once(':')
        && !name.contains(':')
        && port.bytes().all(|byte| byte.is_ascii_digit())
    {
        checker.expect(false, text, "has a port: a host is named without one");
        return host;
    }
    let is_ipv6 = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .is_some_and(|address| address.parse::<std::net::Ipv6Addr>().is_ok());
    let name = host.strip_prefix("*.").unwrap_or(&host);
    checker.expect(
        is_ipv6 || name.split('.').all(is_host_label),
        text,
        "is not a host name: expected one as in example.org, *.example.org, 192.0.2.1 or [2001:db8::1]",
    );
    host
}

/// DNS labels (RFC 1035 2.3.4), with the underscore that is common in private networks.
fn is_host_label(label: &str) -> bool {
    let is_label_byte = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=63).contains(&label.len()) && label.bytes().all(is_label_byte)
}

fn unique_hosts(tables: &[Spanned<SiteTable>], checker: &mut Checker<'_>) {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut any_host: Option<usize> = None;
    for (index, table) in tables.iter().enumerate() {
        let number = index + 1;
        let hosts = &table.get_ref().hosts;
        if hosts.is_empty() {
            if let Some(first) = any_host {
                let message =
                    format!("no request reaches this site: site {first} has no `hosts` either, and takes any");
                checker.problem(table.span(), message);
            }
            any_host = any_host.or(Some(number));
        }
        for host in hosts {
            match seen.insert(host.get_ref().to_ascii_lowercase(), number) {
                Some(first) if first == number => {
                    checker.expect(false, host, "is named twice by this site");
                }
                Some(first) => {
                    checker.expect(false, host, &format!("is already a host of site {first}"));
                }
                None => {}
            }
        }
    }
}

fn index_name(text: &Text, checker: &mut Checker<'_>) -> String {
    let name = text.get_ref();
    let ok = is_segment(name) && !name.contains('/');
    checker.expect(ok, text, "is not the name of a file: expected one as in index.html");
    name.clone()
}

/// Whether a text can be one segment of a path.
fn is_segment(text: &str) -> bool {
    !matches!(text, "" | "." | "..") && !text.contains('\0')
}

/// Fields in the order of the file.
fn headers(given: &BTreeMap<Text, Spanned<Texts>>, checker: &mut Checker<'_>) -> Vec<(String, String)> {
    let mut in_order: Vec<_> = given.iter().collect();
    in_order.sort_by_key(|(name, _)| name.span().start);
    let mut seen = BTreeSet::new();
    let mut headers = Vec::new();
    for (name, values) in in_order {
        field_name(name, &mut seen, checker);
        for value in &values.get_ref().0 {
            if value.chars().any(char::is_control) {
                checker.problem(values.span(), "a field value must not contain control characters");
            }
            headers.push((name.get_ref().clone(), value.clone()));
        }
    }
    headers
}

fn field_name(name: &Text, seen: &mut BTreeSet<String>, checker: &mut Checker<'_>) {
    checker.expect(
        !name.get_ref().is_empty() && name.get_ref().bytes().all(is_token_byte),
        name,
        "is not the name of a field: expected letters, digits and !#$%&'*+-.^_`|~",
    );
    if OWNED_FIELDS.iter().any(|owned| owned.eq_ignore_ascii_case(name.get_ref())) {
        checker.expect(false, name, "is computed by the server for each response and cannot be fixed");
    }
    checker.expect(
        seen.insert(name.get_ref().to_ascii_lowercase()),
        name,
        "is given twice: write its values as one list",
    );
}

/// RFC 9110 5.6.2.
fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn redirect(table: &RedirectTable, checker: &mut Checker<'_>) -> Redirect {
    let (from, to) = (table.from.get_ref(), table.to.get_ref());
    checker.expect(from.starts_with('/'), &table.from, "must start with `/`: it is compared with the path");
    checker.expect(star_is_last(from), &table.from, "may have a `*` at its end only");
    checker.expect(
        to.starts_with('/') || to.starts_with("http://") || to.starts_with("https://"),
        &table.to,
        "must be a path that starts with `/`, or start with http:// or https://",
    );
    checker.expect(
        to.bytes().all(|byte| byte.is_ascii_graphic()),
        &table.to,
        "is sent as it is: write spaces and other than ASCII characters percent-encoded",
    );
    checker.expect(star_is_last(to), &table.to, "may have a `*` at its end only");
    checker.expect(
        !to.ends_with('*') || from.ends_with('*'),
        &table.to,
        "has a `*`, and `from` has none that it could stand for",
    );
    Redirect { from: from.clone(), to: to.clone(), status: redirect_status(table.status.as_ref(), checker) }
}

fn star_is_last(pattern: &str) -> bool {
    pattern.find('*').is_none_or(|at| at + 1 == pattern.len())
}

/// The default is 302: browsers keep a 301 for good, which no one wants from a first attempt.
fn redirect_status(given: Option<&Spanned<Amount>>, checker: &mut Checker<'_>) -> u16 {
    let default = 302;
    let Some(given) = given else {
        return default;
    };
    let Some(status) = checker.amount("status", given, Unit::Count, &(300..=399)) else {
        return default;
    };
    if !REDIRECT_STATUSES.contains(&status) {
        let message = format!("{status} does not redirect: expected 301, 302, 303, 307 or 308");
        checker.problem(given.span(), message);
    }
    status as u16 // Between 300 and 399.
}

fn error_pages(given: &BTreeMap<Text, Text>, checker: &mut Checker<'_>) -> BTreeMap<u16, String> {
    let mut pages = BTreeMap::new();
    for (status, page) in given {
        checker.expect(
            page.get_ref().starts_with('/') && !page.get_ref().contains('\0'),
            page,
            "must start with `/`: it is a path beneath the root",
        );
        match error_status(status.get_ref()) {
            Some(number) => _ = pages.insert(number, page.get_ref().clone()),
            None => checker.expect(false, status, "is not the status of an error: expected 400 to 599"),
        }
    }
    pages
}

/// Three digits, so that there is one way to write a status.
fn error_status(text: &str) -> Option<u16> {
    let is_number = text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_digit());
    let status = text.parse().ok().filter(|_| is_number)?;
    (400..=599).contains(&status).then_some(status)
}

/// Longest prefix first, so that the first match is the closest.
fn aliases(given: &[AliasTable], checker: &mut Checker<'_>) -> Vec<Alias> {
    let mut seen = BTreeSet::new();
    let mut aliases: Vec<Alias> = given.iter().map(|table| alias(table, &mut seen, checker)).collect();
    aliases.sort_by_key(|alias| Reverse(alias.prefix.len()));
    aliases
}

fn alias<'a>(table: &'a AliasTable, seen: &mut BTreeSet<&'a str>, checker: &mut Checker<'_>) -> Alias {
    let prefix = table.prefix.get_ref();
    let delimited = prefix.starts_with('/') && prefix.ends_with('/');
    checker.expect(delimited, &table.prefix, "must start and end with `/`");
    checker.expect(prefix != "/", &table.prefix, "is every path: set the `root` of the site instead");
    checker.expect(seen.insert(prefix), &table.prefix, "is the prefix of an earlier alias of this site");
    Alias { prefix: prefix.clone(), root: checker.directory(&table.root) }
}

fn user_directory(text: &Text, checker: &mut Checker<'_>) -> String {
    checker.expect(
        text.get_ref().split('/').all(is_segment),
        text,
        "must be a path beneath a home directory, as in public_html",
    );
    text.get_ref().clone()
}
