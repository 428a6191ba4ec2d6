//! Applications with a name: `[[site.application]]`, and the routes that name one.
//!
//! Owns: their tables, and which application the name in a route means. Guarantees: each has a name of its own that
//! some route says, and a route that says a name has that application. None names another, so that no name leads in a
//! circle.

use serde::Deserialize;
use serde_json::{Value, json};
use toml::Spanned;

use super::gateways::{self, APPLICATION_KEYS, ONE_APPLICATION};
use super::shapes::{GatewayTable, SwitchOr};
use super::{RouteTable, Switch};
use crate::checker::Checker;
use crate::gateway::{GatewayProtocol, GatewaySettings};
use crate::page::{Page, quoted};
use crate::schema::values::{list_of, pattern, table};
use crate::suggest::nearest;
use crate::written::Text;

/// `[[site.application]]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(crate) struct ApplicationTable {
    name: Option<Text>,
    proxy: Option<Spanned<SwitchOr<GatewayTable>>>,
    fastcgi: Option<Spanned<SwitchOr<GatewayTable>>>,
    scgi: Option<Spanned<SwitchOr<GatewayTable>>>,
    uwsgi: Option<Spanned<SwitchOr<GatewayTable>>>,
}

/// The mark of an application among paths that are tried.
const MARK: char = '@';
/// The longest name: it is a label of metrics.
const NAME_BYTES_MAX: usize = 64;

impl ApplicationTable {
    /// Whether it is called so, and needs no files.
    fn is_without_files(&self, name: &str) -> bool {
        let is_without = answers_all([&self.proxy, &self.scgi, &self.uwsgi], &self.fastcgi);
        is_without && self.name.as_ref().is_some_and(|own| own.get_ref() == name)
    }
}

impl RouteTable {
    /// The application that the route names, and where: by `application`, or behind the paths that are tried.
    fn named_application(&self) -> Option<(&str, std::ops::Range<usize>)> {
        let own = self.application.as_ref().map(|name| (name.get_ref().as_str(), name.span()));
        let last = || {
            let tried = self.try_files.as_ref()?;
            Some((marked(tried.get_ref().0.last()?)?, tried.span()))
        };
        own.or_else(last)
    }

    /// Whether an application answers it that needs no files: its own, or one of `applications`.
    pub(crate) fn is_passed_on(&self, applications: &[Spanned<ApplicationTable>]) -> bool {
        let is_named = |name: &str| applications.iter().any(|table| table.get_ref().is_without_files(name));
        answers_all([&self.proxy, &self.scgi, &self.uwsgi], &self.fastcgi)
            || self.named_application().is_some_and(|(name, _)| is_named(name))
    }
}

type GatewayKey = Option<Spanned<SwitchOr<GatewayTable>>>;

/// Whether an application is named that answers every request: by one of `keys`, or by `fastcgi` if that runs no files.
fn answers_all(keys: [&GatewayKey; 3], fastcgi: &GatewayKey) -> bool {
    let runs_none = |table: &GatewayTable| table.extensions.as_ref().is_some_and(|ends| ends.get_ref().0.is_empty());
    let is_all = |given: &SwitchOr<GatewayTable>| matches!(given, SwitchOr::Table(table) if runs_none(table));
    keys.iter().any(|key| key.is_some()) || fastcgi.as_ref().is_some_and(|given| is_all(given.get_ref()))
}

/// The name of an application among paths that are tried.
pub(super) fn marked(tried: &str) -> Option<&str> {
    tried.strip_prefix(MARK)
}

/// The applications of a site, in the order of the file. Its routes may name them from now on.
pub(crate) fn judge(tables: &[Spanned<ApplicationTable>], checker: &mut Checker<'_>) -> Vec<GatewaySettings> {
    checker.applications.clear();
    for table in tables {
        let Some(name) = name_of(table, checker) else { continue };
        if checker.applications.iter().any(|(other, _)| *other == name) {
            checker.problem(table.span(), format!("two applications of this site have the name `{name}`"));
            continue;
        }
        let application = application(table, checker);
        let application = application.map(|settings| GatewaySettings { name: Some(name.clone()), ..settings });
        checker.applications.push((name, application));
    }
    checker.applications.iter().filter_map(|(_, application)| application.clone()).collect()
}

fn name_of(table: &Spanned<ApplicationTable>, checker: &mut Checker<'_>) -> Option<String> {
    let Some(name) = &table.get_ref().name else {
        if !checker.was_taken("name", &table.span()) {
            let hint = Some("write name = \"app\": routes say it as application = \"app\"".to_owned());
            checker.problem_with_hint(table.span(), "this application has no `name`", hint);
        }
        return None;
    };
    let is_sign = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let is_name = (1..=NAME_BYTES_MAX).contains(&name.get_ref().len()) && name.get_ref().bytes().all(is_sign);
    checker.expect(is_name, name, "is no name: it has 1 to 64 letters, digits and -_.");
    Some(name.get_ref().clone())
}

fn application(table: &Spanned<ApplicationTable>, checker: &mut Checker<'_>) -> Option<GatewaySettings> {
    let given = table.get_ref();
    let keys = [
        (GatewayProtocol::Http, &given.proxy),
        (GatewayProtocol::FastCgi, &given.fastcgi),
        (GatewayProtocol::Scgi, &given.scgi),
        (GatewayProtocol::Uwsgi, &given.uwsgi),
    ];
    let said: Vec<_> = keys.into_iter().filter_map(|(protocol, given)| Some((protocol, given.as_ref()?))).collect();
    match said[..] {
        [(protocol, where_to)] => match gateways::of_key(protocol, where_to, &[], checker) {
            Switch::Set(application) => Some(application),
            Switch::Off => {
                checker.problem(where_to.span(), "an application is somewhere: this says that there is none");
                None
            }
            Switch::Unset => None,
        },
        [] if APPLICATION_KEYS.iter().any(|key| checker.was_taken(key, &table.span())) => None,
        [] => {
            let hint = Some("write proxy = \"http://127.0.0.1:3000\", fastcgi, scgi or uwsgi".to_owned());
            checker.problem_with_hint(table.span(), "this application is nowhere", hint);
            None
        }
        [_, (_, other), ..] => {
            checker.problem(other.span(), "an application is asked in one way: `proxy`, `fastcgi`, `scgi` or `uwsgi`");
            None
        }
    }
}

/// The application that the route names, if it does.
pub(super) fn named(given: &RouteTable, checker: &mut Checker<'_>) -> Option<Switch<GatewaySettings>> {
    let (name, span) = given.named_application()?;
    let is_twice = given.application.is_some()
        && given.try_files.as_ref().is_some_and(|tried| tried.get_ref().0.iter().any(|one| marked(one).is_some()));
    if is_twice {
        checker.problem(span, ONE_APPLICATION);
        return Some(Switch::Unset);
    }
    let found = match checker.applications.iter().find(|(own, _)| own == name) {
        Some((_, Some(found))) => found.clone(),
        // Why it was refused has been told.
        Some((_, None)) => return Some(Switch::Unset),
        None => {
            unknown(name, span, checker);
            return Some(Switch::Unset);
        }
    };
    if given.application.is_none() && found.scripts.is_some() {
        let message = format!("`{name}` runs files, and has none at a path of its own");
        let hint = format!("name the script: try = [\"$path\", \"/index.php\"] with application = \"{name}\"");
        checker.problem_with_hint(span, message, Some(hint));
        return Some(Switch::Unset);
    }
    Some(Switch::Set(found))
}

fn unknown(name: &str, span: std::ops::Range<usize>, checker: &mut Checker<'_>) {
    let names: Vec<String> = checker.applications.iter().map(|(name, _)| name.clone()).collect();
    let message = format!("this site has no application with the name `{}`", name.escape_debug());
    let hint = match nearest(name, names.iter().map(String::as_str)) {
        Some(near) => format!("did you mean `{near}`?"),
        None if names.is_empty() => "give it one: [[site.application]] with `name` and `proxy`".to_owned(),
        None => format!("it has {}", names.join(", ")),
    };
    checker.problem_with_hint(span, message, Some(hint));
}

/// Applications that no route names.
pub(crate) fn unused(tables: &[Spanned<ApplicationTable>], routes: &[Spanned<RouteTable>], checker: &mut Checker<'_>) {
    for table in tables {
        let Some(name) = table.get_ref().name.as_ref().map(|name| name.get_ref()) else { continue };
        let is_said =
            |route: &Spanned<RouteTable>| route.get_ref().named_application().is_some_and(|(own, _)| own == name);
        if !routes.iter().any(is_said) {
            let hint = format!("write application = \"{name}\" in a route, or take the application out");
            checker.problem_with_hint(table.span(), format!("no route names the application `{name}`"), Some(hint));
        }
    }
}

/// As they are written in a configuration.
pub(crate) fn render(applications: &[GatewaySettings], page: &mut Page) {
    for application in applications {
        page.table("[[site.application]]");
        page.line("name", quoted(application.name.as_deref().unwrap_or_default()));
        page.line(application.protocol_key(), gateways::render(application));
    }
}

/// The schema of `application` of a site.
pub(crate) fn schema() -> Value {
    let without_off = |mut schema: Value| {
        if let Some(ways) = schema["anyOf"].as_array_mut() {
            ways.remove(0);
        }
        schema
    };
    let keys = [
        ("name", pattern("^[0-9A-Za-z._-]{1,64}$", "The name that routes say")),
        ("proxy", without_off(gateways::proxy_schema())),
        ("fastcgi", without_off(gateways::fastcgi_schema())),
        ("scgi", without_off(gateways::stream_schema())),
        ("uwsgi", without_off(gateways::stream_schema())),
    ];
    list_of(table(keys, &["name"], "An application that routes name"))
}

/// The schema of `application` of a route.
pub(super) fn name_schema() -> Value {
    json!({ "type": "string", "pattern": "^[0-9A-Za-z._-]{1,64}$" })
}
