//! Fetch methods of HAProxy: what of a request each looks at, and tests of that.
//!
//! Owns: the table [`FETCHES`], and the test that an `acl` or an anonymous condition writes out. Guarantees: a test
//! fits what HAProxy compares, as far as that can be asked here; what it fits beyond or short of that is a bound of
//! [`Unsaid`]. Paths are compared decoded. Source: HAProxy configuration manual, 7.1 and 7.3.6. Pure but for lists in
//! files.

use lamna_config::render::quoted;
use lamna_config::route::condition::decoded as decoded_parameter;
use regex_syntax::hir::{Class, Hir, HirKind, Look};

use super::acl::One;
use super::element::{Elements, Lines};
use crate::matching::{Kind, PathTest, Test, Unsaid, is_network};
use crate::{ReadFile, list};

/// The part of a request that a fetch method gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sample {
    /// The path as it was sent, without the query.
    Path,
    /// The path as it was sent, with the query.
    Target,
    /// Each element of each line of a field.
    Element,
    /// Each line of a field.
    Line,
    /// Each cookie of the name.
    Cookie,
    /// Each parameter of the name, as it was sent; they are separated by `&` and `;`.
    Parameter,
    ServerName,
    Method,
    Client,
    Tls,
    Users,
    Groups,
    Always,
    Never,
}

const FETCHES: [(&str, Sample); 20] = [
    ("path", Sample::Path),
    ("pathq", Sample::Target),
    ("url", Sample::Target),
    ("uri", Sample::Target),
    ("hdr", Sample::Element),
    ("fhdr", Sample::Line),
    ("cook", Sample::Cookie),
    ("cookie", Sample::Cookie),
    ("url_param", Sample::Parameter),
    ("urlp", Sample::Parameter),
    ("ssl_fc_sni", Sample::ServerName),
    ("method", Sample::Method),
    ("src", Sample::Client),
    ("ssl_fc", Sample::Tls),
    ("http_auth", Sample::Users),
    ("http_auth_group", Sample::Groups),
    ("always_true", Sample::Always),
    ("wait", Sample::Always),
    ("wait_end", Sample::Always),
    ("always_false", Sample::Never),
];

/// Endings of names that say how a sample is compared.
const ENDINGS: [&str; 9] = ["beg", "end", "sub", "reg", "dir", "dom", "cnt", "len", "str"];

/// Values of one list, beyond which it is not understood.
const VALUES_MAX: usize = 2_000;

/// A criterion as it is written, with its values.
#[derive(Debug)]
struct Criterion<'w> {
    text: &'w str,
    /// The name without what it is compared by.
    stem: &'w str,
    argument: &'w str,
    converters: &'w str,
    /// The comparison: empty, an ending of a name, or what follows `-m`.
    how: &'w str,
    is_any_case: bool,
    values: Vec<String>,
}

/// A test that is written out, without its name.
pub(super) fn test(words: &[String], read: ReadFile<'_>) -> One {
    let criterion = match criterion(words, read) {
        Ok(criterion) => criterion,
        Err(why) => return One::Test(Test::Unsaid(Unsaid::of_request(why))),
    };
    let sample = FETCHES.iter().find(|(name, _)| *name == criterion.stem).map(|(_, sample)| *sample);
    match sample {
        Some(sample) if !criterion.is_plain(sample) => {
            let why = format!("what `{}` makes of a value is not done here", criterion.text);
            One::Test(Test::Unsaid(Unsaid::of_request(why)))
        }
        Some(sample) => criterion.test(sample).unwrap_or_else(|unsaid| One::Test(Test::Unsaid(unsaid))),
        None => criterion.unknown(),
    }
}

fn criterion<'w>(words: &'w [String], read: ReadFile<'_>) -> Result<Criterion<'w>, String> {
    let Some(text) = words.first() else { return Err("it says nothing".into()) };
    let (mut is_any_case, mut how, mut values) = (false, None::<&str>, Vec::new());
    let mut at = 1;
    while at < words.len() {
        let word = &*words[at];
        at += 1;
        match word {
            "-i" => is_any_case = true,
            "-n" => {}
            "-u" => at += 1,
            "-m" => {
                how = words.get(at).map(String::as_str);
                at += 1;
            }
            "-f" => {
                let file = words.get(at).map_or("", String::as_str);
                at += 1;
                let text = read(file).map_err(|why| format!("`{file}` cannot be read: {why}"))?;
                let lines = text.lines().map(str::trim).filter(|one| !one.is_empty() && !one.starts_with('#'));
                values.extend(lines.map(str::to_owned));
            }
            "-M" => return Err("its values are in a map".into()),
            "--" => {
                values.extend(words[at..].iter().cloned());
                break;
            }
            _ => values.push(word.to_owned()),
        }
    }
    if values.len() > VALUES_MAX {
        return Err(format!("it has more than {VALUES_MAX} values"));
    }
    let (name, argument, converters) = match text.split_once('(') {
        Some((name, rest)) => {
            let (argument, converters) = rest.split_once(')').unwrap_or((rest, ""));
            (name, argument.trim(), converters)
        }
        None => {
            let (name, converters) = text.split_at(text.find(',').unwrap_or(text.len()));
            (name, "", converters)
        }
    };
    is_any_case |= converters.contains(",lower");
    let name = name.strip_prefix("req.").unwrap_or(name);
    let name = name.strip_suffix("_i").unwrap_or(name);
    let (stem, how) = match name.rsplit_once('_') {
        Some((stem, ending)) if ENDINGS.contains(&ending) => (stem, ending),
        _ => (name, how.unwrap_or_default()),
    };
    Ok(Criterion { text, stem, argument, converters, how, is_any_case, values })
}

impl Criterion<'_> {
    /// Whether its converters change nothing that counts here.
    fn is_plain(&self, sample: Sample) -> bool {
        let rest = self.converters.strip_prefix(",lower").unwrap_or(self.converters);
        match sample {
            _ if rest.is_empty() => true,
            Sample::Path => rest == ",url_dec",
            Sample::Element | Sample::Line if self.is_host() => {
                rest.starts_with(",field(1,:)") || rest.starts_with(",host_only")
            }
            _ => false,
        }
    }

    /// The name of a field, and which of its elements or lines counts, if one does.
    fn field(&self) -> (&str, Option<&str>) {
        match self.argument.split_once(',') {
            Some((name, at)) => (name.trim(), Some(at.trim())),
            None => (self.argument, None),
        }
    }

    fn is_host(&self) -> bool {
        self.field().0.eq_ignore_ascii_case("host")
    }

    fn kind(&self) -> Option<Kind> {
        match self.how {
            "" | "str" | "string" => Some(Kind::Exact),
            "beg" => Some(Kind::Prefix),
            "end" => Some(Kind::Suffix),
            "sub" => Some(Kind::Contains),
            "reg" => Some(Kind::Regex),
            _ => None,
        }
    }

    fn unsaid<T>(&self, why: &str) -> Result<T, Unsaid> {
        Err(Unsaid::of_request(format!("`{}`: {why}", self.text)))
    }

    fn test(&self, sample: Sample) -> Result<One, Unsaid> {
        let values = &self.values;
        Ok(One::Test(match sample {
            Sample::Path => self.path()?,
            Sample::Target => self.target()?,
            Sample::Element | Sample::Line if self.is_host() => self.host()?,
            Sample::Element | Sample::Line => return self.of_field(sample),
            Sample::Cookie => self.cookie()?,
            Sample::Parameter => self.parameter()?,
            Sample::ServerName if matches!(self.how, "" | "str" | "end") => self.host()?,
            Sample::ServerName => return self.unsaid("no route asks that"),
            Sample::Method if self.kind() != Some(Kind::Exact) => return self.unsaid("methods are compared whole"),
            Sample::Method if values.iter().all(|one| one.bytes().all(|byte| byte.is_ascii_uppercase())) => {
                Test::Method(values.clone())
            }
            Sample::Method => return self.unsaid("methods are written in capitals"),
            Sample::Client if !values.is_empty() && values.iter().all(|one| is_network(one)) => {
                Test::Client(values.clone())
            }
            Sample::Client => return self.unsaid("clients are named by their networks"),
            Sample::Tls => match values.first().map(String::as_str) {
                None | Some("1" | "true") => Test::Tls,
                Some("0" | "false") => return Ok(One::Not(Test::Tls)),
                Some(_) => return self.unsaid("it is yes or no"),
            },
            Sample::Users => return Ok(One::Users(self.argument.to_owned(), Vec::new())),
            Sample::Groups => return Ok(One::Users(self.argument.to_owned(), values.clone())),
            Sample::Always => Test::Always,
            Sample::Never => Test::Never,
        }))
    }

    /// A criterion that is not in the table.
    fn unknown(&self) -> One {
        let is_state = STATES.iter().any(|state| self.stem.starts_with(state));
        let unsaid = match is_state {
            true => Unsaid::of_state(format!(
                "`{}`: it is a state of the server or a rate, which no route asks for: `[[site.limit]]` limits requests (docs/limits.md)",
                self.text
            )),
            false => Unsaid::of_request(format!("`{}`: no route asks for that", self.text)),
        };
        let test = Test::Unsaid(unsaid);
        // A state beyond a bound is unusual; one below, or exactly so, may be the usual one.
        let is_beyond = self.values.is_empty() || matches!(self.values.first().map(String::as_str), Some("gt" | "ge"));
        let is_few = ["nbsrv", "connslots"].iter().any(|few| self.stem.starts_with(few));
        if is_state && is_beyond == is_few { One::Not(test) } else { One::Test(test) }
    }

    /// The path alone.
    fn path(&self) -> Result<Test, Unsaid> {
        let is_decoded = self.converters.ends_with(",url_dec");
        let tests = self.values.iter().map(|value| match (self.how, self.kind()) {
            ("dir", _) => self.directory(value),
            (_, Some(kind)) if is_decoded => {
                normal(value, PathTest::new(kind, &pattern(kind, value), self.is_any_case))
            }
            (_, Some(kind)) => of_path(kind, value, self.is_any_case),
            _ => self.unsaid("that cannot be asked of a path"),
        });
        any_of(tests)
    }

    /// A row of whole segments.
    fn directory(&self, value: &str) -> Result<PathTest, Unsaid> {
        let PathTest { text, .. } = of_path(Kind::Contains, value.trim_matches('/'), self.is_any_case)?;
        let regex = format!("/{}(?:/|$)", regex::escape(&text));
        Ok(PathTest::new(Kind::Regex, &regex, self.is_any_case))
    }

    /// The path and the query.
    fn target(&self) -> Result<Test, Unsaid> {
        let why = "it is compared with the query as well, of which only parameters are asked for here";
        let within = |test: PathTest| Err(Unsaid::between(why, None, Some(Test::Path(vec![test]))));
        let tests = self.values.iter().map(|value| match (self.kind(), value.split_once('?')) {
            (Some(Kind::Regex), _) if is_of_path(value, self.is_any_case) => {
                of_path(Kind::Regex, value, self.is_any_case)
            }
            (Some(Kind::Exact | Kind::Prefix), _) if !value.starts_with('/') => Err(Unsaid::of_request(why)),
            (Some(Kind::Prefix), None) => of_path(Kind::Prefix, value, self.is_any_case),
            (Some(Kind::Exact | Kind::Prefix), Some((path, _))) => {
                within(of_path(Kind::Exact, path, self.is_any_case)?)
            }
            (Some(Kind::Exact), None) => within(of_path(Kind::Exact, value, self.is_any_case)?),
            _ => Err(Unsaid::of_request(why)),
        });
        any_of(tests)
    }

    /// Hosts as they are written here.
    fn host(&self) -> Result<Test, Unsaid> {
        let mut hosts = Vec::new();
        for value in &self.values {
            match hosts_of(self.how, value) {
                Some(read) => {
                    hosts.extend(read.into_iter().filter(|one| lamna_config::address::host_name(one).is_ok()))
                }
                None => {
                    return self.unsaid(&format!("hosts are compared whole, or by all beneath one: `{value}` is not"));
                }
            }
        }
        if hosts.is_empty() { self.unsaid("it names no host that can be one here") } else { Ok(Test::Host(hosts)) }
    }

    /// A field: one of its elements, or one of its lines.
    fn of_field(&self, sample: Sample) -> Result<One, Unsaid> {
        let (name, occurrence) = self.field();
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
            return self.unsaid("a field is named by letters, digits and hyphens");
        }
        let present = Test::Header(name.to_owned(), "true".into());
        let is_one = matches!(occurrence, Some("1" | "-1"));
        let values: Vec<&str> = self.values.iter().map(String::as_str).collect();
        match (self.how, &values[..]) {
            ("found", _) if occurrence.is_none() || is_one => return Ok(One::Test(present)),
            ("cnt", ["0"] | ["eq", "0"]) => return Ok(One::Not(present)),
            ("cnt", ["gt", "0"] | ["ge", "1"]) => return Ok(One::Test(present)),
            ("cnt", _) => return self.unsaid("no route counts that"),
            _ => {}
        }
        let test = match (self.kind(), sample) {
            _ if values.is_empty() => Err(Unsaid::between("it names no value", None, Some(present))),
            (None, _) => Err(Unsaid::between(format!("`{}`: no route asks that", self.text), None, Some(present))),
            (Some(kind), Sample::Line) => of_lines(&self.line(kind), name),
            (Some(kind), _) => {
                of_lines(&Elements { separators: ",", lead: "" }.of(kind, &self.values, self.is_any_case), name)
            }
        };
        match (test, occurrence) {
            (test, None) => test.map(One::Test),
            (Ok(test), _) => {
                let why = format!("`{}`: any of the field counts here, and not one by its place", self.text);
                Err(Unsaid::between(why, None, Some(test)))
            }
            (Err(unsaid), _) => Err(Unsaid { at_least: None, ..unsaid }),
        }
    }

    /// Whole lines of a field.
    fn line(&self, kind: Kind) -> Lines {
        let case = if self.is_any_case { "i" } else { "" };
        let text = |value: &String| match kind {
            Kind::Exact => format!("^{}$", regex::escape(value)),
            Kind::Prefix => format!("^{}", regex::escape(value)),
            Kind::Suffix => format!("{}$", regex::escape(value)),
            Kind::Contains => regex::escape(value),
            Kind::Regex => value.clone(),
        };
        let regex = self.values.iter().map(|value| format!("(?{case}:{})", text(value))).collect::<Vec<_>>().join("|");
        match lamna_config::route::pattern::compile(&regex) {
            Ok(_) => Lines::Exactly(regex),
            Err(_) => Lines::Between(None, None),
        }
    }

    fn cookie(&self) -> Result<Test, Unsaid> {
        if self.argument.is_empty() {
            return self.unsaid("a cookie has a name");
        }
        let lead = format!("{}[ \\t]*=[ \\t]*", regex::escape(self.argument));
        let cookies = Elements { separators: ",;", lead: &lead };
        let present = Lines::Exactly(cookies.present());
        match (self.how, self.kind()) {
            ("found", _) => of_lines(&present, "Cookie"),
            (_, Some(kind)) if !self.values.is_empty() => {
                let lines = match cookies.of(kind, &self.values, self.is_any_case) {
                    Lines::Between(at_least, None) => Lines::Between(at_least, Some(cookies.present())),
                    lines => lines,
                };
                of_lines(&lines, "Cookie")
            }
            _ => self.unsaid("that cannot be asked of a cookie"),
        }
    }

    /// A parameter. The first of its name counts here, as forms are sent.
    fn parameter(&self) -> Result<Test, Unsaid> {
        let decoded = |value: &String| String::from_utf8(decoded_parameter(value.as_bytes()).into_owned()).ok();
        let values = self.values.iter().map(decoded).collect::<Option<Vec<_>>>();
        let at_least = match (self.how, values) {
            _ if self.argument.is_empty() || self.argument.contains(',') => None,
            ("found", _) => Some("true".to_owned()),
            ("" | "str", Some(values)) if !self.is_any_case && !values.is_empty() => Some(list(&values)),
            _ => None,
        };
        let name = String::from_utf8_lossy(&decoded_parameter(self.argument.as_bytes())).into_owned();
        let at_least = at_least.map(|value| Test::Query(name, value));
        let why = "the first parameter of a name counts here, and there each, also behind `;`";
        Err(Unsaid::between(format!("`{}`: {why}", self.text), at_least, None))
    }
}

/// Beginnings of criteria that are about the server, and not about who asks for what.
const STATES: [&str; 19] = [
    "nbsrv",
    "be_",
    "fe_",
    "srv_",
    "avg_queue",
    "connslots",
    "queue",
    "rand",
    "sc_",
    "sc0_",
    "sc1_",
    "sc2_",
    "src_conn",
    "src_http",
    "src_get",
    "src_inc",
    "table_",
    "stopping",
    "src_bytes",
];

/// Hosts as they are written here. None if they are compared otherwise.
fn hosts_of(how: &str, value: &str) -> Option<Vec<String>> {
    let name = match value.rsplit_once(':') {
        Some((name, port)) if port.parse::<u16>().is_ok() => name,
        _ => value,
    };
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte));
    let name = is_name.then(|| name.trim_end_matches('.').to_ascii_lowercase())?;
    match how {
        "" | "str" if !name.starts_with('.') => Some(vec![name]),
        "end" if name.starts_with('.') => Some(vec![format!("*{name}")]),
        "end" if name.contains('.') => Some(vec![name.clone(), format!("*.{name}")]),
        "dom" if name.contains('.') && !name.starts_with('.') => Some(vec![name.clone(), format!("*.{name}")]),
        _ => None,
    }
}

fn of_lines(lines: &Lines, name: &str) -> Result<Test, Unsaid> {
    let test = |regex: &String| Test::Header(name.to_owned(), format!("{{ regex = {} }}", quoted(regex)));
    let (at_least, at_most) = match lines {
        Lines::Exactly(regex) => return Ok(test(regex)),
        Lines::Between(at_least, at_most) => (at_least.as_ref().map(test), at_most.as_ref().map(test)),
    };
    let why = match at_most {
        Some(_) => format!("what stands in quotation marks in `{name}` is not taken apart here"),
        None => format!("an expression for `{name}` cannot be read here"),
    };
    let present = Test::Header(name.to_owned(), "true".into());
    Err(Unsaid::between(why, at_least, Some(at_most.unwrap_or(present))))
}

/// A path that HAProxy compares as it was sent.
fn of_path(kind: Kind, value: &str, is_any_case: bool) -> Result<PathTest, Unsaid> {
    let why = "paths are compared decoded here, and there as they are sent";
    if kind == Kind::Regex {
        let test = PathTest::new(kind, &pattern(kind, value), is_any_case);
        return if value.contains('%') { Err(Unsaid::of_request(why)) } else { normal(value, test) };
    }
    let (decoded, is_needed) = decoded_path(value).ok_or_else(|| Unsaid::of_request(why))?;
    let test = normal(&decoded, PathTest::new(kind, &decoded, is_any_case))?;
    if is_needed { Ok(test) } else { Err(Unsaid::between(why, None, Some(Test::Path(vec![test])))) }
}

/// A test of paths as they are known here, without `//`, `.` and `..`.
fn normal(text: &str, test: PathTest) -> Result<PathTest, Unsaid> {
    let has = |parts: &[&str]| parts.iter().any(|part| text.contains(part));
    if has(&["//"]) {
        return Err(Unsaid::of_request(format!("`{text}`: paths are compared without `//` here")));
    }
    if test.kind != Kind::Regex && has(&["/./", "/../"]) {
        let why = format!("`{text}`: `.` and `..` are resolved before, and no application is asked for them");
        return Err(Unsaid::between(why, None, Some(Test::Never)));
    }
    Ok(test)
}

fn pattern(kind: Kind, value: &str) -> String {
    if kind == Kind::Regex { crate::nginx::restricting(value) } else { value.to_owned() }
}

/// A path without percent-encoding, and whether each escape stands for what a path cannot have otherwise. None if an
/// escape is not whole, or stands for what no path here has.
fn decoded_path(value: &str) -> Option<(String, bool)> {
    let (mut bytes, mut is_needed) = (Vec::new(), true);
    let mut rest = value.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        if byte != b'%' {
            bytes.push(byte);
            rest = after;
            continue;
        }
        let digits = std::str::from_utf8(after.get(..2)?).ok()?;
        let byte = u8::from_str_radix(digits, 16).ok().filter(|_| digits.bytes().all(|one| one.is_ascii_hexdigit()))?;
        is_needed &= !(byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/".contains(&byte));
        bytes.push(byte);
        rest = &after[2..];
    }
    String::from_utf8(bytes).ok().filter(|text| !text.contains('\0')).map(|text| (text, is_needed))
}

/// Whether what fits an expression for path and query lies in the path, whatever the query is.
fn is_of_path(regex: &str, is_any_case: bool) -> bool {
    let mut parser = regex_syntax::ParserBuilder::new();
    let parsed = parser.unicode(false).utf8(false).case_insensitive(is_any_case).build().parse(regex);
    parsed.is_ok_and(|hir| {
        hir.properties().look_set_prefix().contains(Look::Start)
            && !hir.properties().look_set().contains(Look::End)
            && !takes_query(&hir)
    })
}

/// Whether it may fit a question mark.
fn takes_query(hir: &Hir) -> bool {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => false,
        HirKind::Literal(literal) => literal.0.contains(&b'?'),
        HirKind::Class(Class::Bytes(class)) => class.iter().any(|one| (one.start()..=one.end()).contains(&b'?')),
        HirKind::Class(Class::Unicode(class)) => class.iter().any(|one| (one.start()..=one.end()).contains(&'?')),
        HirKind::Repetition(repeated) => takes_query(&repeated.sub),
        HirKind::Capture(capture) => takes_query(&capture.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => parts.iter().any(takes_query),
    }
}

/// One of these paths has to fit.
fn any_of(tests: impl Iterator<Item = Result<PathTest, Unsaid>>) -> Result<Test, Unsaid> {
    let (mut exact, mut beyond, mut is_bounded, mut missing) = (Vec::new(), Vec::new(), true, None);
    for test in tests {
        match test {
            Ok(test) => exact.push(test),
            Err(unsaid) => {
                match unsaid.at_most.as_deref() {
                    Some(Test::Path(more)) => beyond.extend(more.iter().cloned()),
                    Some(Test::Never) => {}
                    _ => is_bounded = false,
                }
                missing = missing.or(Some(unsaid.why));
            }
        }
    }
    let Some(why) = missing else { return Ok(Test::Path(exact)) };
    let test = |paths: Vec<PathTest>| if paths.is_empty() { Test::Never } else { Test::Path(paths) };
    let at_most = is_bounded.then(|| test([&exact[..], &beyond].concat()));
    let at_least = Some(Test::Path(exact)).filter(|test| *test != Test::Path(Vec::new()));
    Err(Unsaid::between(why, at_least, at_most))
}
