//! Access lists of HAProxy and conditions made of them.
//!
//! Owns: what an `acl` and `if`, `unless`, `or` and `!` mean as tests of requests. Guarantees: what cannot be asked of
//! a request is said to be so ([`Test::Unsaid`]), and is never taken for true or false.

use std::collections::BTreeMap;

use lamna_config::render::quoted;

use super::syntax::Line;
use crate::list;
use crate::matching::{Kind, Literal, PathTest, Test, Unsaid, is_network};
use crate::{Draft, ReadFile};

/// The tests by their names: one of them has to fit.
#[derive(Clone, Debug, Default)]
pub(super) struct Acls {
    by_name: BTreeMap<String, Vec<One>>,
}

/// A test of an access list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum One {
    Test(Test),
    Not(Test),
    /// A password of this list, of users in one of these groups if some are named.
    Users(String, Vec<String>),
}

/// Some conditions that all have to fit, and the passwords that are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Conjunction {
    pub(super) literals: Vec<Literal>,
    /// The list, its groups, and whether it applies to those without such a password.
    pub(super) users: Vec<(String, Vec<String>, bool)>,
}

/// Conditions of which one has to fit.
pub(super) type Condition = Vec<Conjunction>;

/// Conditions of one line, beyond which it is not understood.
const CONJUNCTIONS_MAX: usize = 48;

/// Values of one list, beyond which it is not understood.
const VALUES_MAX: usize = 2_000;

impl Acls {
    /// Takes over a definition.
    pub(super) fn define(&mut self, line: &Line, read: ReadFile<'_>, draft: &mut Draft) {
        let one = test(&line.words[line.words.len().min(2)..], read);
        if let One::Test(Test::Unsaid(Unsaid { why, .. })) | One::Not(Test::Unsaid(Unsaid { why, .. })) = &one {
            draft.lose(line.line, format!("`{}`: {why}", line.text()));
        }
        self.by_name.entry(line.word(1).to_owned()).or_default().push(one);
    }

    fn named(&self, name: &str) -> Vec<One> {
        if let Some(found) = self.by_name.get(name) {
            return found.clone();
        }
        let methods =
            |names: &[&str]| vec![One::Test(Test::Method(names.iter().map(|one| (*one).to_owned()).collect()))];
        match name {
            "TRUE" => vec![One::Test(Test::Always)],
            "FALSE" => vec![One::Test(Test::Never)],
            "HTTP" | "HTTP_URL_ABS" | "HTTP_URL_SLASH" | "WAIT_END" => vec![One::Test(Test::Always)],
            "LOCALHOST" => vec![One::Test(Test::Client(vec!["127.0.0.0/8".into(), "::1".into()]))],
            "METH_GET" => methods(&["GET"]),
            name if name.starts_with("METH_") => methods(&[&name["METH_".len()..]]),
            _ => vec![One::Test(Test::Unsaid(Unsaid::of_request(format!("no access list is called `{name}`"))))],
        }
    }

    /// The condition of a line, from the word `if` or `unless` on. No words: always.
    pub(super) fn condition(&self, words: &[String], read: ReadFile<'_>) -> Condition {
        let (is_unless, words) = match words.split_first() {
            None => return vec![Conjunction::default()],
            Some((first, rest)) => (first == "unless", rest),
        };
        // Each of them has to fit: one of the tests, or none.
        let mut any: Vec<Vec<(Vec<One>, bool)>> = vec![Vec::new()];
        let mut at = 0;
        let mut is_not = false;
        while at < words.len() {
            let mut word = &*words[at];
            at += 1;
            if matches!(word, "or" | "||") {
                any.push(Vec::new());
                continue;
            }
            while let Some(rest) = word.strip_prefix('!') {
                is_not = !is_not;
                word = rest;
            }
            if word.is_empty() {
                continue;
            }
            let tests = if word == "{" {
                let end = words[at..].iter().position(|one| one == "}").map_or(words.len(), |length| at + length);
                let tests = vec![test(&words[at..end], read)];
                at = end + 1;
                tests
            } else {
                self.named(word)
            };
            any.last_mut().expect("it begins with one").push((tests, is_not));
            is_not = false;
        }
        let condition = if is_unless { negated(&any) } else { any };
        let mut found: Vec<Conjunction> = Vec::new();
        for all in condition {
            found.extend(expanded(&all));
            if found.len() > CONJUNCTIONS_MAX {
                let unsaid = Test::Unsaid(Unsaid::of_request("it has too many alternatives"));
                return vec![Conjunction { literals: vec![(unsaid, false)], users: Vec::new() }];
            }
        }
        found
    }
}

/// The opposite.
fn negated(any: &[Vec<(Vec<One>, bool)>]) -> Vec<Vec<(Vec<One>, bool)>> {
    let mut found: Vec<Vec<(Vec<One>, bool)>> = vec![Vec::new()];
    for all in any {
        let each = |before: &Vec<(Vec<One>, bool)>| {
            let with = |(tests, is_not): &(Vec<One>, bool)| [before.clone(), vec![(tests.clone(), !is_not)]].concat();
            all.iter().map(with).collect::<Vec<_>>()
        };
        found = found.iter().flat_map(each).take(CONJUNCTIONS_MAX * 2).collect();
    }
    found
}

/// Without alternatives.
fn expanded(all: &[(Vec<One>, bool)]) -> Vec<Conjunction> {
    let mut found = vec![Conjunction::default()];
    for (tests, is_not) in all {
        if *is_not {
            for one in tests {
                found.iter_mut().for_each(|conjunction| conjunction.push(one, true));
            }
            continue;
        }
        let with = |one: &One| {
            let more = found.iter().cloned().map(|mut conjunction| {
                conjunction.push(one, false);
                conjunction
            });
            more.collect::<Vec<_>>()
        };
        found = joined(tests).iter().flat_map(with).take(CONJUNCTIONS_MAX * 2).collect();
    }
    found
}

/// Tests of one kind as one.
fn joined(tests: &[One]) -> Vec<One> {
    let mut found: Vec<One> = Vec::new();
    for test in tests {
        let last = found.iter_mut().find_map(|other| match (other, test) {
            (One::Test(Test::Path(had)), One::Test(Test::Path(more))) => {
                had.extend(more.iter().cloned());
                Some(())
            }
            (One::Test(Test::Host(had)), One::Test(Test::Host(more)))
            | (One::Test(Test::Method(had)), One::Test(Test::Method(more)))
            | (One::Test(Test::Client(had)), One::Test(Test::Client(more))) => {
                had.extend(more.iter().cloned());
                Some(())
            }
            _ => None,
        });
        if last.is_none() {
            found.push(test.clone());
        }
    }
    found
}

impl Conjunction {
    fn push(&mut self, one: &One, is_not: bool) {
        match one {
            One::Test(test) => self.literals.push((test.clone(), is_not)),
            One::Not(test) => self.literals.push((test.clone(), !is_not)),
            One::Users(name, groups) => self.users.push((name.clone(), groups.clone(), is_not)),
        }
    }

    /// Both.
    pub(super) fn and(&self, other: &Conjunction) -> Conjunction {
        Conjunction {
            literals: [&self.literals[..], &other.literals[..]].concat(),
            users: [&self.users[..], &other.users[..]].concat(),
        }
    }

    /// With the words about TLS settled where all requests have come by it, or none.
    pub(super) fn over(mut self, is_tls: Option<bool>) -> Conjunction {
        for (test, _) in &mut self.literals {
            if let (Test::Tls, Some(is_tls)) = (&*test, is_tls) {
                *test = if is_tls { Test::Always } else { Test::Never };
            }
        }
        self
    }
}

/// A test that is written out, without its name.
fn test(words: &[String], read: ReadFile<'_>) -> One {
    let unsaid = |why: String| One::Test(Test::Unsaid(Unsaid::of_request(why)));
    let Some(criterion) = words.first() else { return unsaid("it says nothing".into()) };
    let (mut is_any_case, mut how, mut values) = (false, None::<String>, Vec::new());
    let mut at = 1;
    while at < words.len() {
        let word = &*words[at];
        at += 1;
        match word {
            "-i" => is_any_case = true,
            "-n" | "-u" => {}
            "-m" => {
                how = words.get(at).cloned();
                at += 1;
            }
            "-f" => {
                let file = words.get(at).map_or("", String::as_str);
                at += 1;
                match read(file) {
                    Ok(text) => {
                        let lines = text.lines().map(str::trim).filter(|one| !one.is_empty() && !one.starts_with('#'));
                        values.extend(lines.map(str::to_owned));
                    }
                    Err(why) => return unsaid(format!("`{file}` cannot be read: {why}")),
                }
            }
            "-M" => return unsaid("its values are in a map".into()),
            "--" => {
                values.extend(words[at..].iter().cloned());
                break;
            }
            _ => values.push(word.to_owned()),
        }
    }
    if values.len() > VALUES_MAX {
        return unsaid(format!("it has more than {VALUES_MAX} values"));
    }
    let (name, arguments) = match criterion.split_once('(') {
        Some((name, rest)) => (name, rest.split_once(')').unwrap_or((rest, ""))),
        None => (
            criterion.split(',').next().unwrap_or_default(),
            ("", criterion.find(',').map_or("", |at| &criterion[at..])),
        ),
    };
    let (argument, converters) = (arguments.0.trim(), arguments.1);
    is_any_case |= converters.contains(",lower");
    let is_plain = matches!(converters, "" | ",lower");
    let name = name.strip_prefix("req.").unwrap_or(name);
    let name = match name {
        "payload" | "len" | "fhdr_cnt" => "",
        name => name.strip_suffix("_i").unwrap_or(name),
    };
    if !is_plain
        && !matches!(name, "hdr" if converters.starts_with(",field(1,:)") || converters.starts_with(",lower,field(1,:)") || converters.starts_with(",host_only"))
    {
        return unsaid(format!("what `{criterion}` makes of a value is not done here"));
    }
    let of = |kind: &str| match kind {
        "" | "str" | "string" => Some(Kind::Exact),
        "beg" => Some(Kind::Prefix),
        "end" => Some(Kind::Suffix),
        "sub" => Some(Kind::Contains),
        "reg" => Some(Kind::Regex),
        _ => None,
    };
    let (stem, ending) = match name.rsplit_once('_') {
        Some((stem, ending @ ("beg" | "end" | "sub" | "reg" | "dir" | "dom" | "cnt" | "len" | "str"))) => {
            (stem, ending)
        }
        _ => (name, how.as_deref().unwrap_or_default()),
    };
    match stem {
        "path" | "pathq" | "url" | "uri" => match of(ending) {
            Some(_) if stem != "path" && values.iter().any(|one| one.contains('?')) => {
                unsaid("a query is asked for by its parameters".into())
            }
            Some(kind) => {
                let text = |value: &String| match kind {
                    Kind::Regex => crate::nginx::restricting(value),
                    _ => value.clone(),
                };
                One::Test(Test::Path(values.iter().map(|one| PathTest::new(kind, &text(one), is_any_case)).collect()))
            }
            None if ending == "dir" => {
                let regex = |value: &String| format!("/{}(?:/|$)", regex::escape(value.trim_matches('/')));
                let tests = values.iter().map(|one| PathTest::new(Kind::Regex, &regex(one), is_any_case));
                One::Test(Test::Path(tests.collect()))
            }
            None => unsaid(format!("`{criterion}` cannot be asked of a path")),
        },
        "hdr" | "fhdr" | "host"
            if argument.split(',').next().is_some_and(|one| one.trim().eq_ignore_ascii_case("host")) =>
        {
            host(ending, &values).map_or_else(unsaid, |hosts| One::Test(Test::Host(hosts)))
        }
        "ssl_fc_sni" if matches!(ending, "" | "str" | "end") => {
            host(ending, &values).map_or_else(unsaid, |hosts| One::Test(Test::Host(hosts)))
        }
        "hdr" | "fhdr" => {
            let name = argument.split(',').next().unwrap_or_default().trim();
            field(name, ending, &values, is_any_case)
        }
        "cook" | "cookie" => {
            let tested = match ending {
                "found" => Some("[^;]*".to_owned()),
                kind => of(kind).and_then(|kind| alternatives(&values, kind, "[^;]*")),
            };
            match tested {
                Some(tested) if !argument.is_empty() => {
                    let case = if is_any_case { "(?i)" } else { "" };
                    let regex = format!("{case}(?:^|;)[ \\t]*{}=(?:{tested})(?:;|$)", regex::escape(argument));
                    One::Test(Test::Header("Cookie".into(), format!("{{ regex = {} }}", quoted(&regex))))
                }
                _ => unsaid(format!("`{criterion}` cannot be asked of a cookie")),
            }
        }
        "url_param" | "urlp" => match (ending, &values[..]) {
            ("found", _) => One::Test(Test::Query(argument.to_owned(), "true".into())),
            ("" | "str", [_, ..]) if !is_any_case => One::Test(Test::Query(argument.to_owned(), list(&values))),
            _ => unsaid(format!("`{criterion}` cannot be asked of a parameter")),
        },
        "method" if ending.is_empty() || ending == "str" => {
            // What is for GET is for HEAD as well here.
            let has_head_only =
                |methods: &[String]| methods.iter().any(|one| one == "GET") && !methods.iter().any(|one| one == "HEAD");
            match values.iter().all(|one| one.bytes().all(|byte| byte.is_ascii_uppercase())) {
                true if has_head_only(&values) => One::Test(Test::Method(values)),
                true => One::Test(Test::Method(values)),
                false => unsaid("methods are written in capitals".into()),
            }
        }
        "src" if values.iter().all(|one| is_network(one)) && !values.is_empty() => One::Test(Test::Client(values)),
        "src" => unsaid("clients are named by their networks".into()),
        "ssl_fc" => match values.first().map(String::as_str) {
            None | Some("1" | "true") => One::Test(Test::Tls),
            Some("0" | "false") => One::Not(Test::Tls),
            Some(_) => unsaid(format!("`{criterion}` is yes or no")),
        },
        "http_auth" => One::Users(argument.to_owned(), Vec::new()),
        "http_auth_group" => One::Users(argument.to_owned(), values),
        "always_true" | "wait" | "wait_end" => One::Test(Test::Always),
        "always_false" => One::Test(Test::Never),
        _ => {
            let is_state = STATES.iter().any(|state| stem.starts_with(state));
            let why = match is_state {
                true => {
                    "it is a state of the server or a rate, which no route asks for: `[[site.limit]]` limits requests (docs/limits.md)"
                }
                false => "no route asks for that",
            };
            let test = Test::Unsaid(Unsaid { why: format!("`{criterion}`: {why}"), is_of_request: !is_state });
            // A state beyond a bound is unusual; one below, or exactly so, may be the usual one.
            let is_beyond = values.is_empty() || matches!(values.first().map(String::as_str), Some("gt" | "ge"));
            let is_few = ["nbsrv", "connslots"].iter().any(|few| stem.starts_with(few));
            if is_state && is_beyond == is_few { One::Not(test) } else { One::Test(test) }
        }
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

/// Hosts as they are written here.
fn host(kind: &str, values: &[String]) -> Result<Vec<String>, String> {
    let name = |value: &String| {
        let name = match value.rsplit_once(':') {
            Some((name, port)) if port.parse::<u16>().is_ok() => name,
            _ => value,
        };
        let is_name =
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte));
        is_name.then(|| name.trim_end_matches('.').to_ascii_lowercase())
    };
    let mut hosts = Vec::new();
    for value in values {
        let read = match kind {
            "" | "str" => name(value).filter(|name| !name.starts_with('.')).map(|name| vec![name]),
            "end" => name(value).and_then(|name| match name.strip_prefix('.') {
                Some(rest) => Some(vec![format!("*.{rest}")]),
                None if name.contains('.') => Some(vec![name.clone(), format!("*.{name}")]),
                None => None,
            }),
            "dom" => name(value)
                .filter(|name| name.contains('.') && !name.starts_with('.'))
                .map(|name| vec![name.clone(), format!("*.{name}")]),
            _ => None,
        };
        match read {
            Some(read) => hosts.extend(read.into_iter().filter(|one| lamna_config::address::host_name(one).is_ok())),
            None => return Err(format!("hosts are compared whole, or by all beneath one: `{value}` is not")),
        }
    }
    if hosts.is_empty() { Err("it names no host that can be one here".into()) } else { Ok(hosts) }
}

/// A test of a field: of one of the values between commas.
fn field(name: &str, kind: &str, values: &[String], is_any_case: bool) -> One {
    let unsaid = |why: &str| One::Test(Test::Unsaid(Unsaid::of_request(why)));
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        return unsaid("a field is named by letters, digits and hyphens");
    }
    let kind = match (kind, values) {
        ("found", _) => return One::Test(Test::Header(name.to_owned(), "true".into())),
        ("cnt", [one]) if one == "0" => return One::Not(Test::Header(name.to_owned(), "true".into())),
        ("cnt", [how, one]) if how == "eq" && one == "0" => {
            return One::Not(Test::Header(name.to_owned(), "true".into()));
        }
        ("cnt", [how, one]) if how == "gt" && one == "0" || how == "ge" && one == "1" => {
            return One::Test(Test::Header(name.to_owned(), "true".into()));
        }
        ("" | "str", _) => Kind::Exact,
        ("beg", _) => Kind::Prefix,
        ("end", _) => Kind::Suffix,
        ("sub", _) => Kind::Contains,
        ("reg", _) => Kind::Regex,
        _ => return unsaid("no route asks that of a field"),
    };
    let case = if is_any_case { "(?i)" } else { "" };
    let regex = match alternatives(values, kind, "[^,]*") {
        Some(tested) if kind == Kind::Contains => format!("{case}(?:{tested})"),
        Some(tested) if kind == Kind::Regex => format!("{case}{tested}"),
        Some(tested) => format!("{case}(?:^|,)[ \\t]*(?:{tested})[ \\t]*(?:,|$)"),
        None => return unsaid("it names no value, or one that cannot be read here"),
    };
    if lamna_config::route::pattern::compile(&regex).is_err() {
        return unsaid("its expression cannot be read here");
    }
    One::Test(Test::Header(name.to_owned(), format!("{{ regex = {} }}", quoted(&regex))))
}

/// One of these values, with anything in front or behind.
fn alternatives(values: &[String], kind: Kind, anything: &str) -> Option<String> {
    let one = |value: &String| match kind {
        Kind::Exact | Kind::Contains => regex::escape(value),
        Kind::Prefix => format!("{}{anything}", regex::escape(value)),
        Kind::Suffix => format!("{anything}{}", regex::escape(value)),
        Kind::Regex => format!("(?:{value})"),
    };
    (!values.is_empty()).then(|| values.iter().map(one).collect::<Vec<_>>().join("|"))
}
