//! From a `[[site]]` table to the settings of a site.
//!
//! Owns: the judgement of everything in a site and of what sites must not have in common. Header names and values are
//! judged so that whatever passes can be written into a response as it is (RFC 9110 5.1 and 5.5).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::ops::Range;
use std::str::FromStr;

use lamna_policy::volume::Bandwidth;
use toml::Spanned;

use super::access;
use super::acme::check_name;
use super::address::host_name;
use super::checker::Checker;
use super::early_hints::{EarlyHintSettings, LinkPrefetchSettings, PERCENT};
use super::file::{AliasTable, LimitTable, SiteTable};
use super::gateway::{CommandSettings, ProgramSettings};
use super::redirect;
use super::route;
use super::settings::{Alias, ClientCa, SiteSettings, SiteTls, TlsFiles};
use super::site_limit::SiteLimit;
use super::unit::Unit;
use super::written::{Amount, Text, Texts};
use lamna_policy::size::format_size;

/// Bounds of [`SiteSettings::upload_bytes_max`].
pub(super) const UPLOAD_BYTES: std::ops::RangeInclusive<u64> = 1..=1 << 50;
/// Bounds of [`SiteSettings::upload_resume_s`].
pub(super) const RESUME_S: std::ops::RangeInclusive<u64> = 0..=31_536_000;

/// Fields that the server computes for each response, or that are about the connection: a fixed value would contradict it.
const OWNED_FIELDS: [&str; 19] = [
    "Accept-Ranges",
    "Allow",
    "Connection",
    "Content-Encoding",
    "Content-Length",
    "Content-Range",
    "Content-Type",
    "Date",
    "ETag",
    "Keep-Alive",
    "Last-Modified",
    "Location",
    "Proxy-Connection",
    "Retry-After",
    "TE",
    "Trailer",
    "Transfer-Encoding",
    "Upgrade",
    "Vary",
];

/// Fields that have one value in a response: a second line would contradict the first. `Server` and `X-Content-Type-Options`
/// replace what the server sends by itself.
const SINGLE_FIELDS: [&str; 12] = [
    "Access-Control-Allow-Credentials",
    "Access-Control-Allow-Origin",
    "Access-Control-Max-Age",
    "Age",
    "Content-Disposition",
    "Content-Location",
    "Cross-Origin-Resource-Policy",
    "Expires",
    "Server",
    "Strict-Transport-Security",
    "X-Content-Type-Options",
    "X-Frame-Options",
];

/// Bytes of all further fields of a site, names, separators and line ends included. Clients refuse heads that are much longer.
pub(super) const HEADERS_BYTES_MAX: usize = 16 * 1024;

/// The sites of a file, in its order.
pub(super) fn sites(tables: &[Spanned<SiteTable>], checker: &mut Checker<'_>) -> Vec<SiteSettings> {
    let sites: Vec<SiteSettings> = tables.iter().map(|table| site(table, checker)).collect();
    unique_hosts(tables, checker);
    unique_commands(tables, &sites, checker);
    sites
}

/// At one socket there is one application.
fn unique_commands(tables: &[Spanned<SiteTable>], sites: &[SiteSettings], checker: &mut Checker<'_>) {
    let mut seen: Vec<&CommandSettings> = Vec::new();
    for (table, site) in tables.iter().zip(sites) {
        for command in site.commands() {
            match seen.iter().find(|one| one.socket == command.socket) {
                None => seen.push(command),
                Some(one) if *one == command => {}
                Some(_) => {
                    let socket = command.socket.display();
                    let message = format!("two routes start different applications at unix:{socket}");
                    let hint = "write the same `command` and `instances` for both, or another `to`".to_owned();
                    checker.problem_with_hint(table.span(), &message, Some(hint));
                }
            }
        }
    }
    let mut seen: Vec<&ProgramSettings> = Vec::new();
    for (table, site) in tables.iter().zip(sites) {
        for program in site.programs() {
            match seen.iter().find(|one| one.place == program.place) {
                None => seen.push(program),
                Some(one) if *one == program => {}
                Some(_) => {
                    let message = format!("two routes start different applications at {}", program.place);
                    let hint = "write the same `command` for both, or another `to`".to_owned();
                    checker.problem_with_hint(table.span(), &message, Some(hint));
                }
            }
        }
    }
}

fn site(table: &Spanned<SiteTable>, checker: &mut Checker<'_>) -> SiteSettings {
    let given = table.get_ref();
    let redirects = !given.redirect.is_empty() || given.route.iter().any(|route| route.get_ref().needs_no_root());
    let root = match &given.root {
        Some(root) => checker.directory(root),
        None if redirects || checker.was_taken("root", &table.span()) => Default::default(),
        None => {
            let hint =
                Some("give the directory to serve: root = \"/srv/www\". A site that only redirects, or passes requests on, needs none".into());
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
    site.live_reload = given.live_reload;
    site.hints = given.hints;
    site.early_hints = early_hints(given, checker);
    site.link_prefetch = link_prefetch(given, checker);
    site.upload = given.upload;
    if let Some(bytes) = &given.upload_bytes_max {
        site.upload_bytes_max = checker.amount("upload_bytes_max", bytes, Unit::Bytes, &UPLOAD_BYTES);
    }
    if let Some(seconds) = &given.upload_resume_s {
        let judged = checker.amount("upload_resume_s", seconds, Unit::Count, &RESUME_S);
        site.upload_resume_s = judged.unwrap_or(site.upload_resume_s);
    }
    if let Some(bytes) = &given.upload_resume_bytes_max {
        let judged = checker.amount("upload_resume_bytes_max", bytes, Unit::Bytes, &UPLOAD_BYTES);
        site.upload_resume_bytes_max = judged.unwrap_or(site.upload_resume_bytes_max);
    }
    site.delete = given.delete;
    site.mkdir = given.mkdir;
    site.access = given.access.as_ref().map(|given| route::access(given, checker)).unwrap_or_default();
    site.accounts = route::accounts(&given.users, given.users_file.as_ref(), &given.tokens, checker);
    site.spa = given.spa;
    site.headers = headers(&given.headers, checker);
    site.redirects = redirect::redirects(&given.redirect, checker);
    site.error_pages = error_pages(&given.error_pages, checker);
    site.aliases = aliases(&given.alias, checker);
    site.limits = site_limits(&given.limit, checker);
    site.user_directory = given.user_directory.as_ref().map(|name| user_directory(name, checker));
    site.routes = route::routes(&given.route, checker);
    site.rule_files = given.rule_files;
    if site.rule_files && site.has_root() && !checker.reads_only() {
        site.skipped_lines = route::add_rule_files(&site.root, &mut site.routes);
    }
    let accesses = [&site.access].into_iter().chain(site.routes.iter().map(|route| &route.access));
    let unknown =
        accesses.filter_map(|rules| access::check_names(rules, &site.accounts, given.client_ca.is_some()).err()).next();
    if let Some(why) = unknown {
        checker.problem(table.span(), why);
    }
    site.tls = tls(table, checker);
    site
}

/// The settings of a site's hints to clients of resources that pages need.
fn early_hints(given: &SiteTable, checker: &mut Checker<'_>) -> EarlyHintSettings {
    let [waste, probability] = [&given.early_hints_waste_percent_max, &given.early_hints_probability_percent_min];
    let EarlyHintSettings { waste_percent_max, probability_percent_min, .. } = EarlyHintSettings::default();
    EarlyHintSettings {
        is_on: given.early_hints,
        http1: given.early_hints_http1,
        waste_percent_max: percent("early_hints_waste_percent_max", waste, waste_percent_max, checker),
        probability_percent_min: percent(
            "early_hints_probability_percent_min",
            probability,
            probability_percent_min,
            checker,
        ),
    }
}

/// And of which page is next.
fn link_prefetch(given: &SiteTable, checker: &mut Checker<'_>) -> LinkPrefetchSettings {
    let [waste, probability] = [&given.link_prefetch_waste_percent_max, &given.link_prefetch_probability_percent_min];
    let LinkPrefetchSettings { waste_percent_max, probability_percent_min, .. } = LinkPrefetchSettings::default();
    LinkPrefetchSettings {
        is_on: given.link_prefetch,
        waste_percent_max: percent("link_prefetch_waste_percent_max", waste, waste_percent_max, checker),
        probability_percent_min: percent(
            "link_prefetch_probability_percent_min",
            probability,
            probability_percent_min,
            checker,
        ),
    }
}

fn percent(key: &str, given: &Option<Spanned<Amount>>, otherwise: u8, checker: &mut Checker<'_>) -> u8 {
    let judged = given.as_ref().and_then(|given| checker.amount(key, given, Unit::Count, &PERCENT));
    // Within the bounds, so within a byte.
    judged.map_or(otherwise, |percent| percent as u8)
}

/// The limits of a site. Those that limit nothing are left out.
fn site_limits(tables: &[Spanned<LimitTable>], checker: &mut Checker<'_>) -> Vec<SiteLimit> {
    tables.iter().map(|table| site_limit(table, checker)).filter(SiteLimit::is_any).collect()
}

fn site_limit(table: &Spanned<LimitTable>, checker: &mut Checker<'_>) -> SiteLimit {
    let given = table.get_ref();
    if let Some(path) = &given.path {
        checker.expect(path.get_ref().starts_with('/'), path, "does not start with /");
    }
    let path = given.path.as_ref().map_or("/", |path| path.get_ref());
    let said = [&given.requests, &given.bytes, &given.bandwidth, &given.shared_bandwidth];
    if said.iter().all(|one| one.is_none()) {
        let hint = "say what: requests = \"10/m burst 5\", bytes = \"10GB/d\", bandwidth = \"500kB/s after 5MB\" or \
                    shared_bandwidth = \"5MB/s\"";
        checker.problem_with_hint(table.span(), "this limit limits nothing", Some(hint.to_owned()));
    }
    let shared_bandwidth: Option<Bandwidth> = unless_off(given.shared_bandwidth.as_ref(), checker);
    if let (Some(text), Some(Bandwidth { after: 1.., .. })) = (&given.shared_bandwidth, shared_bandwidth) {
        checker.expect(false, text, "has an `after`: what connections share begins with their first byte");
    }
    SiteLimit {
        key: given.key.as_ref().and_then(|key| checker.parsed(key)).unwrap_or_default(),
        rate: unless_off(given.requests.as_ref(), checker),
        volume: unless_off(given.bytes.as_ref(), checker),
        bandwidth: unless_off(given.bandwidth.as_ref(), checker),
        shared_bandwidth,
        ..SiteLimit::new(path)
    }
}

/// A limit as a value; none for any amount.
fn unless_off<T: FromStr<Err: Display>>(text: Option<&Text>, checker: &mut Checker<'_>) -> Option<T> {
    text.filter(|text| text.get_ref() != "off").and_then(|text| checker.parsed(text))
}

/// Whether the files make a pair is found out when they are loaded.
fn tls(table: &Spanned<SiteTable>, checker: &mut Checker<'_>) -> Option<SiteTls> {
    let given = table.get_ref();
    let ordered = given.tls.as_ref().map(|tls| {
        let ordered = if tls.get_ref() == "auto" { SiteTls::Auto } else { SiteTls::Local };
        let is_known = ["auto", "local"].contains(&&**tls.get_ref());
        checker.expect(is_known, tls, "is not a way to get a certificate: expected \"auto\" or \"local\"");
        ordered
    });
    if ordered == Some(SiteTls::Auto) {
        if given.hosts.is_empty() && !checker.was_taken("hosts", &table.span()) {
            let message = "certificates are ordered for names, and this site has no `hosts`";
            let hint = "name them: hosts = [\"example.org\", \"www.example.org\"]".to_owned();
            checker.problem_with_hint(table.span(), message, Some(hint));
        }
        for host in &given.hosts {
            if let Err(why) = check_name(&host.get_ref().to_ascii_lowercase()) {
                checker.expect(false, host, why);
            }
        }
    }
    let files = match (&given.certificate, &given.key) {
        (Some(certificate), Some(key)) => {
            let is_optional = client_certificates(given, checker);
            let client_ca = given.client_ca.as_ref().map(|file| ClientCa { file: checker.path(file), is_optional });
            Some(TlsFiles { certificate: checker.path(certificate), key: checker.path(key), client_ca })
        }
        (Some(certificate), None) => {
            checker.problem(certificate.span(), "a `certificate` needs its `key`".to_owned());
            None
        }
        (None, Some(key)) => {
            checker.problem(key.span(), "a `key` needs its `certificate`".to_owned());
            None
        }
        (None, None) => {
            if let Some(client_ca) = &given.client_ca {
                checker.problem(client_ca.span(), "a `client_ca` needs a `certificate` and a `key`".to_owned());
            }
            client_certificates(given, checker);
            None
        }
    };
    if let (Some(tls), Some(_)) = (&given.tls, &files) {
        checker.problem(tls.span(), "this site has a `certificate`: leave one of them out".to_owned());
    }
    files.map(SiteTls::Files).or(ordered)
}

/// Whether clients may come without a certificate.
fn client_certificates(given: &SiteTable, checker: &mut Checker<'_>) -> bool {
    let Some(word) = &given.client_certificates else { return false };
    let is_known = ["required", "optional"].contains(&&**word.get_ref());
    checker.expect(
        is_known,
        word,
        "does not say whether clients need a certificate: expected \"required\" or \"optional\"",
    );
    if given.client_ca.is_none() {
        checker
            .problem(word.span(), "`client_certificates` needs a `client_ca`, which says whose are taken".to_owned());
    }
    word.get_ref() == "optional"
}

pub(super) fn host(text: &Text, checker: &mut Checker<'_>) -> String {
    host_name(text.get_ref()).unwrap_or_else(|expectation| {
        checker.expect(false, text, &expectation);
        text.get_ref().to_ascii_lowercase()
    })
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

pub(super) fn index_name(text: &Text, checker: &mut Checker<'_>) -> String {
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
        field_name(name, FieldUse::Site, checker);
        checker.expect(
            seen.insert(name.get_ref().to_ascii_lowercase()),
            name,
            "is given twice: write its values as one list",
        );
        field_values(name, &values.get_ref().0, &values.span(), checker);
        headers.extend(values.get_ref().0.iter().map(|value| (name.get_ref().clone(), value.clone())));
    }
    let bytes = headers_bytes(&headers);
    if let (true, Some((first, _))) =
        (bytes > HEADERS_BYTES_MAX, given.iter().min_by_key(|(name, _)| name.span().start))
    {
        let most = format_size(HEADERS_BYTES_MAX as u64);
        checker
            .problem(first.span(), format!("the fields of this site have {bytes} bytes: at most {most} can be sent"));
    }
    headers
}

/// Where a field is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldUse {
    /// It is sent with every answer of a site.
    Site,
    /// It is sent with answers of a route, which may say of what type its files are.
    Route,
    /// It is looked for in requests.
    Request,
}

fn is_among(name: &str, names: &[&str]) -> bool {
    names.iter().any(|other| other.eq_ignore_ascii_case(name))
}

/// Whether a field has one value in an answer.
pub fn is_single(name: &str) -> bool {
    is_among(name, &SINGLE_FIELDS) || name.eq_ignore_ascii_case("Content-Type")
}

pub(super) fn field_name(name: &Text, of: FieldUse, checker: &mut Checker<'_>) {
    if let Err(why) = check_field_name(name.get_ref(), of) {
        checker.expect(false, name, why);
    }
}

fn check_field_name(name: &str, of: FieldUse) -> Result<(), &'static str> {
    if name.is_empty() || !name.bytes().all(is_token_byte) {
        return Err("is not the name of a field: expected letters, digits and !#$%&'*+-.^_`|~");
    }
    let is_type_of_files = of == FieldUse::Route && name.eq_ignore_ascii_case("Content-Type");
    if of != FieldUse::Request && is_among(name, &OWNED_FIELDS) && !is_type_of_files {
        return Err("is computed by the server for each response and cannot be fixed");
    }
    Ok(())
}

/// The values of a field that is sent.
pub(super) fn field_values(name: &Text, values: &[String], span: &Range<usize>, checker: &mut Checker<'_>) {
    if values.iter().any(|value| value.chars().any(char::is_control)) {
        checker.problem(span.clone(), "a field value must not contain control characters");
    }
    if values.len() > 1 && is_single(name.get_ref()) {
        checker.problem(span.clone(), format!("`{}` has one value: give one string", name.get_ref()));
    }
}

/// Whether a field can be sent as it is.
pub fn is_sendable(name: &str, value: &str, of: FieldUse) -> Result<(), &'static str> {
    check_field_name(name, of)?;
    if value.chars().any(char::is_control) { Err("has a control character in its value") } else { Ok(()) }
}

/// A field as in `X-Frame-Options: DENY`, judged as one of a file is.
///
/// # Errors
/// The fault of the text.
pub fn field_from_text(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("expected NAME: VALUE, as in X-Frame-Options: DENY")?;
    let (name, value) = (name.trim_end(), value.trim());
    if name.is_empty() || !name.bytes().all(is_token_byte) {
        return Err(format!("`{}` is not the name of a field", name.escape_debug()));
    }
    if is_among(name, &OWNED_FIELDS) {
        return Err(format!("`{name}` is computed by the server for each response and cannot be fixed"));
    }
    if value.chars().any(char::is_control) {
        return Err("a field value must not contain control characters".to_owned());
    }
    Ok((name.to_owned(), value.to_owned()))
}

/// Whether the fields of a site can be sent together: what is wrong if not, and what to do.
pub(super) fn check_headers(headers: &[(String, String)]) -> Result<(), (String, String)> {
    let same = |name: &str| headers.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name)).count();
    if let Some(name) = SINGLE_FIELDS.iter().find(|name| same(name) > 1) {
        return Err((format!("`{name}` has one value, and is given several times"), "give it once".to_owned()));
    }
    let bytes = headers_bytes(headers);
    if bytes > HEADERS_BYTES_MAX {
        let most = format_size(HEADERS_BYTES_MAX as u64);
        let message = format!("the fields of a site have {bytes} bytes, and at most {most} can be sent");
        return Err((message, "leave some of them out".to_owned()));
    }
    Ok(())
}

fn headers_bytes(headers: &[(String, String)]) -> usize {
    headers.iter().map(|(name, value)| name.len() + value.len() + ": \r\n".len()).sum()
}

/// RFC 9110 5.6.2.
pub(super) fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

pub(super) fn error_pages(given: &BTreeMap<Text, Text>, checker: &mut Checker<'_>) -> BTreeMap<u16, String> {
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
