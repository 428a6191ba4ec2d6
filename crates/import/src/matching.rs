//! Conditions of other servers as `match` of a route.
//!
//! Owns: [`Test`], of which other servers make conditions, and the `match` for several of them together. A path that
//! must not fit is said by an expression for all other paths. Guarantees: what is said fits exactly the same requests,
//! or, where it is asked for something wider, those and more. Paths are compared as this server knows them, decoded and
//! without `.` and `..`. Pure.

use lamna_config::render::quoted;
use lamna_config::route::condition::Network;
use lamna_config::route::pattern::Pattern;

use crate::list;

/// A test of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Test {
    Always,
    Never,
    /// One of these.
    Path(Vec<PathTest>),
    /// One of these names; `*.example.org` for any beneath.
    Host(Vec<String>),
    Method(Vec<String>),
    Client(Vec<String>),
    /// A field, and the value of the test as it is written here.
    Header(String, String),
    Query(String, String),
    /// Over TLS.
    Tls,
    /// Something that no route can ask.
    Unsaid(Unsaid),
}

/// Something that no route can ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unsaid {
    pub(crate) why: String,
    /// Whether it is about the request or its client, rather than about the state of the server or a rate.
    pub(crate) is_of_request: bool,
    /// A test that fits only where this would; `None` if there is none.
    pub(crate) at_least: Option<Box<Test>>,
    /// A test that fits wherever this would; `None`: any request may.
    pub(crate) at_most: Option<Box<Test>>,
}

impl Unsaid {
    pub(crate) fn of_request(why: impl Into<String>) -> Unsaid {
        Unsaid { why: why.into(), is_of_request: true, at_least: None, at_most: None }
    }

    /// Something of the state of the server, or of a rate.
    pub(crate) fn of_state(why: impl Into<String>) -> Unsaid {
        Unsaid { is_of_request: false, ..Unsaid::of_request(why) }
    }

    pub(crate) fn between(why: impl Into<String>, at_least: Option<Test>, at_most: Option<Test>) -> Unsaid {
        Unsaid { at_least: at_least.map(Box::new), at_most: at_most.map(Box::new), ..Unsaid::of_request(why) }
    }
}

/// A test of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PathTest {
    pub(crate) kind: Kind,
    pub(crate) text: String,
    /// Capitals and small letters are the same.
    pub(crate) is_any_case: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Exact,
    Prefix,
    Suffix,
    Contains,
    Regex,
}

impl PathTest {
    pub(crate) fn new(kind: Kind, text: &str, is_any_case: bool) -> PathTest {
        PathTest { kind, text: text.to_owned(), is_any_case }
    }

    /// As an expression.
    fn to_regex(&self) -> String {
        let case = if self.is_any_case { "(?i)" } else { "" };
        let text = if self.kind == Kind::Regex { self.text.clone() } else { regex::escape(&self.text) };
        match self.kind {
            Kind::Exact => format!("{case}^{text}$"),
            Kind::Prefix => format!("{case}^{text}"),
            Kind::Suffix => format!("{case}{text}$"),
            Kind::Contains | Kind::Regex => format!("{case}{text}"),
        }
    }

    /// As a pattern; an expression where a star or a brace would mean something.
    fn to_pattern(&self) -> Pattern {
        let plain = match self.kind {
            _ if self.is_any_case => None,
            Kind::Exact => Some(Pattern::Exact(self.text.clone())),
            Kind::Prefix => Some(Pattern::Prefix(self.text.clone())),
            Kind::Suffix if !self.text.contains('*') => Some(Pattern::Glob(format!("*{}", self.text))),
            _ => None,
        };
        let is_plain = |pattern: &Pattern| Pattern::from_glob(&pattern.text()) == Ok(vec![pattern.clone()]);
        plain.filter(is_plain).unwrap_or_else(|| Pattern::Regex(self.to_regex()))
    }

    fn is_plain_beginning(&self) -> bool {
        matches!(self.kind, Kind::Exact | Kind::Prefix)
    }

    /// Whether `path` fits.
    pub(crate) fn fits(&self, path: &str) -> bool {
        let lower = |text: &str| if self.is_any_case { text.to_ascii_lowercase() } else { text.to_owned() };
        let (path, text) = (lower(path), lower(&self.text));
        match self.kind {
            Kind::Exact => path == text,
            Kind::Prefix => path.starts_with(&text),
            Kind::Suffix => path.ends_with(&text),
            Kind::Contains => path.contains(&text),
            Kind::Regex => lamna_config::route::pattern::compile(&self.to_regex())
                .is_ok_and(|regex| regex.is_match(path.as_bytes())),
        }
    }

    /// The paths that fit both. None if that cannot be said.
    fn and(&self, other: &PathTest) -> Option<Vec<PathTest>> {
        let both = |prefix: &PathTest, suffix: &PathTest| {
            let is_any_case = prefix.is_any_case || suffix.is_any_case;
            let text = format!("^{}(?s:.)*{}$", regex::escape(&prefix.text), regex::escape(&suffix.text));
            (prefix.is_any_case == suffix.is_any_case).then(|| vec![PathTest { kind: Kind::Regex, text, is_any_case }])
        };
        match (self.kind, other.kind) {
            _ if self == other => Some(vec![self.clone()]),
            (Kind::Exact, _) if !self.is_any_case => {
                Some(other.fits(&self.text).then(|| self.clone()).into_iter().collect())
            }
            (_, Kind::Exact) if !other.is_any_case => {
                Some(self.fits(&other.text).then(|| other.clone()).into_iter().collect())
            }
            (Kind::Prefix, Kind::Prefix) if !self.is_any_case && !other.is_any_case => {
                let (short, long) = if self.text.len() < other.text.len() { (self, other) } else { (other, self) };
                Some(long.text.starts_with(&short.text).then(|| long.clone()).into_iter().collect())
            }
            // Where the end of the one is the beginning of the other, a short path would be left out.
            (Kind::Prefix, Kind::Suffix) if !overlap(&self.text, &other.text) => both(self, other),
            (Kind::Suffix, Kind::Prefix) if !overlap(&other.text, &self.text) => both(other, self),
            _ => None,
        }
    }
}

/// Whether an end of `one` is a beginning of `other`.
fn overlap(one: &str, other: &str) -> bool {
    (1..=one.len().min(other.len())).any(|length| one.as_bytes().ends_with(&other.as_bytes()[..length]))
}

/// A test, and whether it must not fit.
pub(crate) type Literal = (Test, bool);

/// Everything that has to fit, so far.
#[derive(Clone, Debug, Default)]
struct Asks {
    paths: Option<Vec<PathTest>>,
    others: Vec<PathTest>,
    hosts: Option<Vec<String>>,
    methods: Option<Vec<String>>,
    clients: Option<Vec<String>>,
    headers: Vec<(String, String)>,
    queries: Vec<(String, String)>,
    not: Option<(&'static str, Vec<String>)>,
    never: bool,
}

fn unsaid<T>(why: &str) -> Result<T, Unsaid> {
    Err(Unsaid::of_request(why))
}

impl Asks {
    fn add(&mut self, test: &Test, is_not: bool) -> Result<(), Unsaid> {
        match (test, is_not) {
            (Test::Always, false) | (Test::Never, true) => Ok(()),
            (Test::Always, true) | (Test::Never, false) => {
                self.never = true;
                Ok(())
            }
            (Test::Unsaid(why), _) => Err(why.clone()),
            (Test::Tls, _) => unsaid("whether a request came over TLS cannot be asked where both are served alike"),
            (Test::Path(paths), true) => {
                if !paths.iter().all(PathTest::is_plain_beginning) {
                    return unsaid("paths that must not fit are said by their beginnings");
                }
                self.others.extend(paths.iter().cloned());
                self.paths_said().map(|_| ())
            }
            (Test::Path(paths), false) => {
                let Some(path) = paths.iter().find(|path| Pattern::from_regex(&path.to_regex()).is_err()) else {
                    let had = self.paths.take();
                    let both = match &had {
                        None => Some(paths.clone()),
                        Some(had) => {
                            let pairs = had.iter().flat_map(|one| paths.iter().map(|other| one.and(other)));
                            pairs.collect::<Option<Vec<_>>>().map(|all| all.concat())
                        }
                    };
                    let Some(both) = both else {
                        self.paths = had;
                        return unsaid("two conditions of the path that have to fit both cannot be said as one");
                    };
                    self.never |= both.is_empty();
                    self.paths = Some(both);
                    return self.paths_said().map(|_| ());
                };
                unsaid(&format!("the expression `{}` cannot be read here", path.text))
            }
            (Test::Host(hosts), false) => narrow(&mut self.hosts, hosts, "two conditions of the host"),
            (Test::Method(methods), false) => narrow(&mut self.methods, methods, "two conditions of the method"),
            (Test::Client(clients), false) => narrow(&mut self.clients, clients, "two conditions of the client"),
            (Test::Host(hosts), true) => self.not("host", hosts),
            (Test::Method(methods), true) => self.not("method", methods),
            (Test::Client(clients), true) => self.not("client", clients),
            (Test::Header(name, value), false) => another(&mut self.headers, name, value),
            (Test::Query(name, value), false) => another(&mut self.queries, name, value),
            (Test::Header(name, value), true) | (Test::Query(name, value), true) if is_presence(value) => {
                let value = if value == "true" { "false" } else { "true" };
                let of_header = matches!(test, Test::Header(..));
                another(if of_header { &mut self.headers } else { &mut self.queries }, name, value)
            }
            (Test::Header(name, value), true) => self.not("header", &[format!("{} = {value}", quoted(name))]),
            (Test::Query(name, value), true) => self.not("query", &[format!("{} = {value}", quoted(name))]),
        }
    }

    fn not(&mut self, kind: &'static str, values: &[String]) -> Result<(), Unsaid> {
        let is_list = !matches!(kind, "header" | "query");
        match &mut self.not {
            None => self.not = Some((kind, values.to_vec())),
            Some((other, had)) if *other == kind && is_list => had.extend(values.iter().cloned()),
            Some(_) => return unsaid("of conditions that must not fit, one can be said"),
        }
        Ok(())
    }

    /// The patterns, without those that must not fit. None for every path.
    fn paths_said(&self) -> Result<Option<Vec<Pattern>>, Unsaid> {
        let whole = vec![PathTest::new(Kind::Prefix, "", false)];
        if self.others.is_empty() {
            return Ok(self.paths.as_ref().map(|paths| paths.iter().map(PathTest::to_pattern).collect()));
        }
        let mut said = Vec::new();
        for path in self.paths.as_ref().unwrap_or(&whole) {
            match path.kind {
                Kind::Exact if !path.is_any_case => {
                    if !self.others.iter().any(|other| other.fits(&path.text)) {
                        said.push(path.to_pattern());
                    }
                }
                Kind::Prefix if !path.is_any_case => {
                    if self.others.iter().any(|other| other.kind == Kind::Prefix && other.fits(&path.text)) {
                        continue;
                    }
                    let inner = self.others.iter().filter_map(|other| {
                        let start = other.text.get(..path.text.len())?;
                        let is_same = start == path.text || other.is_any_case && start.eq_ignore_ascii_case(&path.text);
                        is_same.then(|| (&other.text.as_bytes()[path.text.len()..], other))
                    });
                    let inner: Vec<(&[u8], &PathTest)> = inner.collect();
                    if inner.is_empty() {
                        said.push(path.to_pattern());
                    } else if let Some(rest) = beyond(&inner) {
                        said.push(Pattern::Regex(format!("^{}{rest}", regex::escape(&path.text))));
                    }
                }
                _ => return unsaid("paths that must fit one condition and not another cannot be said as one"),
            }
        }
        Ok(Some(said))
    }

    /// As it is written. None if no request fits.
    fn to_toml(&self) -> Result<Option<String>, Unsaid> {
        let paths = self.paths_said()?;
        if self.never || paths.as_ref().is_some_and(Vec::is_empty) {
            return Ok(None);
        }
        let mut keys = Vec::new();
        let (regexes, globs): (Vec<Pattern>, Vec<Pattern>) =
            paths.unwrap_or_default().into_iter().partition(Pattern::is_regex);
        if !globs.is_empty() {
            let globs: Vec<String> = globs.iter().map(Pattern::text).collect();
            let text = if let [one] = &globs[..] { quoted(one) } else { list(&globs) };
            keys.push(format!("path = {text}"));
        }
        if !regexes.is_empty() {
            let regexes: Vec<String> = regexes.iter().map(Pattern::to_regex).collect();
            keys.push(format!("regex = {}", list(&regexes)));
        }
        for (key, values) in [("host", &self.hosts), ("method", &self.methods), ("client", &self.clients)] {
            keys.extend(values.iter().map(|values| format!("{key} = {}", list(values))));
        }
        for (key, values) in [("header", &self.headers), ("query", &self.queries)] {
            if !values.is_empty() {
                let values: Vec<String> =
                    values.iter().map(|(name, value)| format!("{} = {value}", quoted(name))).collect();
                keys.push(format!("{key} = {{ {} }}", values.join(", ")));
            }
        }
        if let Some((kind, values)) = &self.not {
            let value = match *kind {
                "header" | "query" => format!("{{ {} }}", values.join(", ")),
                _ => list(values),
            };
            keys.push(format!("not = {{ {kind} = {value} }}"));
        }
        Ok(Some(match (keys.as_slice(), keys.first().and_then(|one| one.strip_prefix("path = "))) {
            ([], _) => quoted("*"),
            ([_], Some(globs)) => globs.to_owned(),
            _ => format!("{{ {} }}", keys.join(", ")),
        }))
    }
}

fn is_presence(value: &str) -> bool {
    matches!(value, "true" | "false")
}

fn narrow(had: &mut Option<Vec<String>>, values: &[String], what: &str) -> Result<(), Unsaid> {
    let is_plain = |values: &[String]| !values.iter().any(|one| one.contains(['*', '/']));
    match had {
        None => *had = Some(values.to_vec()),
        Some(had) if *had == values => {}
        Some(had) if is_plain(had) && is_plain(values) && had.iter().any(|one| values.contains(one)) => {
            had.retain(|one| values.contains(one));
        }
        Some(_) => return unsaid(&format!("{what} that have to fit both cannot be said as one")),
    }
    Ok(())
}

fn another(had: &mut Vec<(String, String)>, name: &str, value: &str) -> Result<(), Unsaid> {
    match had.iter().find(|(other, _)| other.eq_ignore_ascii_case(name)) {
        None => had.push((name.to_owned(), value.to_owned())),
        Some((_, other)) if other == value => {}
        Some(_) => return unsaid(&format!("two conditions of `{name}` that have to fit both cannot be said as one")),
    }
    Ok(())
}

/// An expression for all that none of these fits: each a text, exact or as a beginning. None if each fits one.
fn beyond(texts: &[(&[u8], &PathTest)]) -> Option<String> {
    if texts.is_empty() {
        return Some(String::new());
    }
    if texts.iter().any(|(rest, test)| rest.is_empty() && test.kind == Kind::Prefix) {
        return None;
    }
    let mut ways = Vec::new();
    if !texts.iter().any(|(rest, _)| rest.is_empty()) {
        ways.push("$".to_owned());
    }
    let fits = |byte: u8, (rest, test): &(&[u8], &PathTest)| {
        rest.first().is_some_and(|first| *first == byte || test.is_any_case && first.eq_ignore_ascii_case(&byte))
    };
    let firsts: Vec<u8> = (0..=255).filter(|byte| texts.iter().any(|one| fits(*byte, one))).collect();
    let class: String = firsts.iter().map(|byte| escaped(*byte)).collect();
    ways.push(if class.is_empty() { "(?s:.)".to_owned() } else { format!("[^{class}]") });
    for byte in firsts {
        let rests: Vec<(&[u8], &PathTest)> =
            texts.iter().filter(|one| fits(byte, one)).map(|(rest, test)| (&rest[1..], *test)).collect();
        ways.extend(beyond(&rests).map(|rest| format!("{}{rest}", escaped(byte))));
    }
    Some(format!("(?:{})", ways.join("|")))
}

fn escaped(byte: u8) -> String {
    if byte.is_ascii_alphanumeric() || byte == b'/' || byte == b'_' {
        char::from(byte).to_string()
    } else {
        format!("\\x{byte:02x}")
    }
}

/// The `match` for requests that fit all of these. None if none does.
///
/// # Errors
/// Why it cannot be said.
pub(crate) fn said(literals: &[Literal]) -> Result<Option<String>, Unsaid> {
    let mut asks = Asks::default();
    for (test, is_not) in literals {
        asks.add(test, *is_not)?;
    }
    asks.to_toml()
}

/// The `match` for these requests, and for more where something cannot be said. None if none fits.
pub(crate) fn wider(literals: &[Literal]) -> Option<String> {
    let mut asks = Asks::default();
    for (test, is_not) in literals {
        let before = asks.clone();
        let bound = match test {
            Test::Unsaid(unsaid) => if *is_not { &unsaid.at_least } else { &unsaid.at_most }.as_deref(),
            test => Some(test),
        };
        if bound.is_none_or(|bound| asks.add(bound, *is_not).is_err()) {
            asks = before;
        }
    }
    asks.to_toml().unwrap_or_else(|_| Some(quoted("*")))
}

/// The `match` for some of these requests and for no others, where something cannot be said. None if there is none.
pub(crate) fn narrower(literals: &[Literal]) -> Option<String> {
    let bound = |(test, is_not): &Literal| match test {
        Test::Unsaid(unsaid) => {
            let bound = if *is_not { &unsaid.at_most } else { &unsaid.at_least };
            bound.as_ref().map(|bound| ((**bound).clone(), *is_not))
        }
        test => Some((test.clone(), *is_not)),
    };
    said(&literals.iter().map(bound).collect::<Option<Vec<_>>>()?).ok().flatten()
}

/// Whether a word is a network.
pub(crate) fn is_network(word: &str) -> bool {
    word.parse::<Network>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(kind: Kind, texts: &[&str]) -> Test {
        Test::Path(texts.iter().map(|text| PathTest::new(kind, text, false)).collect())
    }

    #[test]
    fn paths_that_must_not_fit_are_said_by_all_others() {
        let toml = said(&[(paths(Kind::Prefix, &["/api", "/adm"]), true), (paths(Kind::Exact, &["/"]), true)])
            .unwrap()
            .unwrap();
        let regex = toml.strip_prefix("{ regex = [\"").and_then(|rest| rest.strip_suffix("\"] }")).unwrap();
        let regex = lamna_config::route::pattern::compile(&regex.replace("\\\\", "\\")).unwrap();
        for (path, fits) in [
            ("/", false),
            ("/a", true),
            ("/ap", true),
            ("/api", false),
            ("/apis", false),
            ("/adm/x", false),
            ("/ad", true),
            ("/ax\n", true),
            ("/b", true),
            ("/\u{e9}", true),
        ] {
            assert_eq!(regex.is_match(path.as_bytes()), fits, "{path} {regex}");
        }
        assert!(regex.is_match(b"/\xff"));
    }

    #[test]
    fn conditions_that_cannot_be_said_are_left_out_where_more_is_meant() {
        let unsaid = Test::Unsaid(Unsaid::of_request("no"));
        let host = Test::Host(vec!["a.example".into()]);
        assert!(said(&[(host.clone(), false), (unsaid.clone(), false)]).is_err());
        assert_eq!(wider(&[(host.clone(), false), (unsaid, true)]).unwrap(), "{ host = [\"a.example\"] }");
        let both = said(&[(paths(Kind::Prefix, &["/a/"]), false), (paths(Kind::Prefix, &["/a/b/", "/c"]), false)]);
        assert_eq!(both.unwrap().unwrap(), "\"/a/b/*\"");
        assert_eq!(said(&[(paths(Kind::Prefix, &["/a"]), false), (paths(Kind::Prefix, &["/b"]), false)]), Ok(None));
        let other = Test::Client(vec!["10.0.0.0/8".into()]);
        assert!(said(&[(host.clone(), true), (other.clone(), true)]).is_err());
        assert_eq!(wider(&[(host, true), (other, true)]).unwrap(), "{ not = { host = [\"a.example\"] } }");
    }
}
