//! `request_headers` of a route: fields of requests that are set, added and removed in what an application is sent.
//!
//! Owns: their judgement, and what several routes come to. The tables are those of `headers` (`fields`), and are merged
//! as these are; values are templates. Guarantees: no field is named that frames a request, belongs to one connection
//! or is written by the server from what it knows, and none that an interface as CGI takes for another.

use std::ops::Range;

use serde_json::Value;

use super::fields::{self, Sender};
use super::headers::{self, HeaderRule};
use super::pattern::Pattern;
use super::row::{Answer, Matching, Objection, Order, RouteKey, Section};
use super::template::{Template, Variable};
use super::{RouteSettings, RouteTable, Switch, gateways};
use crate::checker::Checker;
use crate::site;
use crate::written::Text;

/// `request_headers`.
pub(super) struct RequestFields;

/// The changes of fields of requests that a route says, with the number of the route.
pub type RequestRules = Vec<(HeaderRule, usize)>;

impl RouteKey for RequestFields {
    const ORDER: Order = Order { shown: 1, reported: Section::Application, judged: 8 };
    const ANSWER: Answer = Answer::There;

    fn judge(given: &RouteTable, paths: &[Pattern], checker: &mut Checker<'_>) -> Vec<HeaderRule> {
        let given = given.request_headers.as_ref();
        given.map(|given| fields::header_rules(given, Sender::Client(paths), checker)).unwrap_or_default()
    }

    fn render(said: &Vec<HeaderRule>) -> Option<String> {
        fields::header_tables(said)
    }

    /// By name, where an application answers.
    fn merge(routes: &Matching<'_>) -> RequestRules {
        if gateways::applying(routes).is_none() {
            return Vec::new();
        }
        let of = |(number, route): &(usize, &RouteSettings)| {
            let number = *number;
            route.request_headers.iter().map(move |rule| (rule.clone(), number)).collect::<Vec<_>>()
        };
        let (mut rules, numbers): (Vec<_>, Vec<_>) = routes.iter().rev().flat_map(of).unzip();
        headers::settle(&mut rules);
        rules.into_iter().zip(numbers).filter(|(rule, _)| !rule.is_empty()).collect()
    }

    fn contradiction(one: &RouteSettings, two: &RouteSettings) -> Option<String> {
        let name = fields::shared_name(&one.request_headers, &two.request_headers);
        name.map(|name| format!("the field `{name}` of requests"))
    }

    fn conflict(route: &RouteSettings) -> Option<Objection> {
        let rules = &route.request_headers;
        let names_host = || rules.iter().flat_map(HeaderRule::names).any(|name| name.eq_ignore_ascii_case("Host"));
        if matches!(&route.gateway, Switch::Set(gateway) if gateway.host.is_some()) && names_host() {
            return Some(("`Host` is said twice: by `host` of the application, and by `request_headers`".into(), None));
        }
        let (bytes, most) = (rules.iter().map(HeaderRule::bytes).sum::<usize>(), BYTES_MAX);
        (bytes > most).then(|| (format!("these fields of requests have {bytes} bytes: at most {most} are sent"), None))
    }

    fn report(rules: &RequestRules) -> Vec<String> {
        let mut lines: Vec<(String, String)> = Vec::new();
        for (rule, _) in rules {
            let HeaderRule { set, add, remove, default, keep: _, statuses: _ } = rule;
            let line = |name: &str, value: &str, how: &str| {
                (name.to_ascii_lowercase(), format!("it is sent {name}: {value}{how}"))
            };
            let is_of = |name: &str| {
                let name = name.to_ascii_lowercase();
                move |(other, _): &(String, String)| *other == name
            };
            for name in remove.iter().chain(set.iter().map(|(name, _)| name)) {
                let is_same = is_of(name);
                lines.retain(|line| !is_same(line));
            }
            lines.extend(remove.iter().map(|name| (name.to_ascii_lowercase(), format!("it is not sent {name}"))));
            for (name, values) in set {
                lines.extend(values.iter().map(|value| line(name, value, "")));
            }
            for (name, values) in default {
                if !lines.iter().any(is_of(name)) {
                    lines.extend(values.iter().map(|value| line(name, value, ", where the client sends none")));
                }
            }
            lines.extend(add.iter().map(|(name, value)| line(name, value, ", beside what there is")));
        }
        lines.into_iter().map(|(_, line)| line).collect()
    }
}

/// Bytes of all fields that one route adds to a request, names, separators and line ends included, with variables as
/// they are written.
const BYTES_MAX: usize = 4096;

/// The schema of `request_headers`.
pub(super) fn schema() -> Value {
    fields::schema_with(Vec::new())
}

/// Fields of one connection, and of the framing of a request and of what it asks for.
const OF_CONNECTION: [&str; 15] = [
    "Connection",
    "Content-Length",
    "Expect",
    "HTTP2-Settings",
    "Keep-Alive",
    "Max-Forwards",
    "Proxy-Authenticate",
    "Proxy-Authorization",
    "Proxy-Connection",
    "Sec-WebSocket-Extensions",
    "Sec-WebSocket-Key",
    "TE",
    "Trailer",
    "Transfer-Encoding",
    "Upgrade",
];

/// Fields that the server writes from what it knows of the request.
const OF_SERVER: [&str; 7] = [
    "Forwarded",
    "Via",
    "X-Forwarded-For",
    "X-Forwarded-Host",
    "X-Forwarded-Prefix",
    "X-Forwarded-Proto",
    "X-Request-Id",
];

/// Fields by which a client asks for a part, or for what it does not have yet.
const OF_CLIENT: [&str; 6] =
    ["If-Match", "If-Modified-Since", "If-None-Match", "If-Range", "If-Unmodified-Since", "Range"];

/// Fields that have one value in a request.
const SINGLE: [&str; 7] = ["Authorization", "Content-Type", "Cookie", "From", "Host", "Referer", "User-Agent"];

fn is_among(name: &str, names: &[&str]) -> bool {
    names.iter().any(|other| other.eq_ignore_ascii_case(name))
}

/// Whether a field has one value in a request.
pub fn is_single(name: &str) -> bool {
    is_among(name, &SINGLE)
}

/// Why no field of this name can be set, added or removed in a request.
pub fn objection(name: &str) -> Option<&'static str> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    Some(match () {
        () if name.is_empty() || !name.bytes().all(is_plain) => {
            "is not a name of letters, digits and hyphens: applications may take another sign for a hyphen, and the \
             field for another one"
        }
        () if is_among(name, &OF_CONNECTION) => {
            "belongs to the connection or to the framing of the request, which the server writes itself"
        }
        () if is_among(name, &OF_SERVER) => {
            "is written by the server from what it knows of the request, and from what `trusted_proxies` say"
        }
        () if name.eq_ignore_ascii_case("Proxy") => {
            "is taken by programs for the proxy that they are to use (HTTP_PROXY)"
        }
        () => return None,
    })
}

/// The name of a field of requests.
pub(super) fn judge_name(name: &Text, checker: &mut Checker<'_>) {
    let why = objection(name.get_ref());
    checker.expect(why.is_none(), name, why.unwrap_or_default());
}

/// The values that a field of requests gets, on a route with these paths.
pub(super) fn judge_values(
    name: &Text,
    values: &[String],
    span: &Range<usize>,
    paths: &[Pattern],
    checker: &mut Checker<'_>,
) {
    let is_of_client = is_among(name.get_ref(), &OF_CLIENT);
    checker.expect(!is_of_client, name, "is what the client has asked for: it can be removed, and not be set");
    if values.len() > 1 && is_single(name.get_ref()) {
        checker.problem(span.clone(), format!("`{}` has one value: give one string", name.get_ref()));
    }
    site::field_values(name, &values[..values.len().min(1)], span, checker);
    for text in values {
        if let Err(why) = value(text, paths) {
            let hint = "known are $client, $scheme, $host, $path, $request_id, $user, $certificate_subject, $http_NAME \
                        and captures; `$$` is the sign";
            checker.problem_with_hint(span.clone(), format!("`{}` {why}", text.escape_debug()), Some(hint.into()));
        }
    }
}

/// The variables in the values of these rules, which were judged.
pub(crate) fn variables(rules: &[HeaderRule]) -> Vec<Variable> {
    let several = rules.iter().flat_map(|rule| rule.set.iter().chain(&rule.default)).flat_map(|(_, values)| values);
    let all = several.chain(rules.iter().flat_map(|rule| &rule.add).map(|(_, value)| value));
    let of = |text: &String| Template::of_field(text).map(|template| template.variables().cloned().collect::<Vec<_>>());
    all.filter_map(|text| of(text).ok()).flatten().collect()
}

/// Reads the value of a field of a route with these paths.
///
/// # Errors
/// The fault of the text, as words that follow it.
pub fn value(text: &str, paths: &[Pattern]) -> Result<Template, String> {
    if text.chars().any(char::is_control) {
        return Err("has a control character, which no field can have".into());
    }
    let template = Template::of_field(text)?;
    let patterns: Vec<Option<&Pattern>> = if paths.is_empty() { vec![None] } else { paths.iter().map(Some).collect() };
    if let Some(missing) = patterns.iter().find_map(|pattern| template.missing_from(*pattern)) {
        return Err(format!("has {missing}, which is neither a variable nor a capture of `match`"));
    }
    if let Some(name) = patterns.into_iter().flatten().find_map(|pattern| template.shadows(pattern)) {
        return Err(format!("has `{name}`, which is a variable and a capture of `match`: name the capture otherwise"));
    }
    Ok(template)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::parse;

    fn faults_of(text: &str) -> String {
        parse(text, Path::new("/a.toml")).expect_err("something is wrong with it").to_string()
    }

    fn settings_of(text: &str) {
        parse(text, Path::new("/a.toml")).unwrap_or_else(|fault| panic!("{fault}"));
    }

    fn route(keys: &str) -> String {
        format!("[[site]]\n[[site.route]]\nmatch = \"/a/*\"\nproxy = \"http://a.test\"\n{keys}\n")
    }

    #[test]
    fn fields_that_are_not_for_a_route_to_say_are_refused_by_name() {
        for (name, words) in [
            ("Connection", "belongs to the connection"),
            ("content-length", "belongs to the connection"),
            ("Transfer-Encoding", "belongs to the connection"),
            ("TE", "belongs to the connection"),
            ("Upgrade", "belongs to the connection"),
            ("Trailer", "belongs to the connection"),
            ("X-Forwarded-For", "is written by the server"),
            ("x-request-id", "is written by the server"),
            ("X_User", "letters, digits and hyphens"),
            ("Proxy", "HTTP_PROXY"),
        ] {
            for said in [
                format!("{{ {name} = \"x\" }}"),
                format!("{{ {name} = false }}"),
                format!("[{{ keep = [\"{name}\"] }}]"),
            ] {
                let faults = faults_of(&route(&format!("request_headers = {said}")));
                assert!(faults.contains(words) && faults.contains(name), "{said}: {faults}");
            }
        }
        for name in ["Host", "X-Real-IP", "X-Forwarded-Port", "Cookie", "Accept-Encoding", "Authorization"] {
            settings_of(&route(&format!("request_headers = {{ {name} = \"x\" }}")));
        }
    }

    #[test]
    fn what_nothing_verifies_is_warned_of() {
        let warnings = |keys: &str| {
            let settings = parse(&route(keys), Path::new("/a.toml")).unwrap_or_else(|fault| panic!("{fault}"));
            crate::warnings(&settings).join("\n")
        };
        for (value, words) in [("$user", "no `access` asks for one"), ("${certificate_subject}", "has no `client_ca`")]
        {
            let said = warnings(&format!("request_headers = {{ X-A = \"{value}\" }}"));
            assert!(said.contains(words), "{value}: {said}");
        }
        let known = "request_headers = { X-A = \"$user\", X-B = \"$client\" }\n\
                     access = { service = { to = \"http://a.test\", path = \"/v\" } }";
        assert!(!warnings(known).contains("request_headers"), "{}", warnings(known));
    }

    #[test]
    fn values_that_cannot_be_filled_in_are_refused() {
        for (said, words) in [
            ("{ X-A = \"$2\" }", "has $2, which is neither a variable nor a capture"),
            ("{ X-A = \"$nothing\" }", "has ${nothing}, which is neither"),
            ("{ X-A = \"$http_\" }", "has ${http_}, which is neither"),
            ("{ X-A = \"a$\" }", "has a `$` that names no capture"),
            ("{ X-A = \"a\\nb\" }", "control character"),
            ("{ Range = \"bytes=0-1\" }", "can be removed, and not be set"),
            ("{ Host = false }", "can be set, and not be removed"),
            ("[{ default = { Host = \"a\" } }]", "is in every request"),
            ("[{ add = { Cookie = \"a\" } }]", "has one value in a request: `set` it"),
            ("[{ set = { X-A = \"a\" }, status = 404 }]", "a request has none"),
            ("{ Cookie = [\"a\", \"b\"] }", "has one value"),
        ] {
            let faults = faults_of(&route(&format!("request_headers = {said}")));
            assert!(faults.contains(words), "{said}: {faults}");
        }
        let both = "[[site]]\n[[site.route]]\nmatch = \"*\"\nproxy = { to = \"http://a.test\", host = \"b\" }\n\
                    request_headers = { Host = \"c\" }\n";
        assert!(faults_of(both).contains("is said twice"));
        let shadowed = "[[site]]\n[[site.route]]\nmatch = { regex = \"^/(?<user>[a-z]+)$\" }\nproxy = \"http://a.test\"\n\
                        request_headers = { X-User = \"$user\" }\n";
        assert!(faults_of(shadowed).contains("is a variable and a capture"));
    }

    #[test]
    fn routes_are_merged_by_name_where_an_application_answers() {
        let keys = |routes: &str| {
            let text = format!(
                "[[site]]\n[[site.route]]\nmatch = \"*\"\nrequest_headers = {{ X-A = \"1\", X-B = \"1\" }}\n{routes}"
            );
            let settings = parse(&text, Path::new("/a.toml")).unwrap_or_else(|fault| panic!("{fault}"));
            let matcher = crate::route::matcher::Matcher::new(&settings.sites[0].routes).unwrap();
            let ids = matcher.by_path(b"/a/b");
            let rules = crate::route::merge(ids.iter().map(|id| (usize::from(*id), matcher.route(*id))));
            RequestFields::report(&rules.request_headers)
        };
        let more = "[[site.route]]\nmatch = \"/a/*\"\nrequest_headers = { X-A = \"2\", X-B = true }\n";
        let proxy = "proxy = \"http://a.test\"\n";
        assert_eq!(keys(&format!("{more}{proxy}")), ["it is sent X-A: 2"]);
        assert_eq!(keys(&format!("{more}respond = 404\n")), [""; 0], "no application is asked");
    }
}
