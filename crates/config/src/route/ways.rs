//! How a route leads from a path to another address or to a file: `redirect`, `rewrite` and `try`.
//!
//! Owns: their judgement, with words for what is wrong, and what several routes come to. Captures are `template`'s.

use std::ops::Range;

use super::pattern::Pattern;
use super::row::{Answer, Field, Matching, Objection, Order, RouteKey, Section};
use super::shapes::{RedirectTable, SwitchOr};
use super::template::Template;
use super::{RouteSettings, RouteTable, Switch, applications, gateways};
use crate::checker::Checker;
use crate::page::{list, quoted};
use crate::redirect;

/// Where a route redirects to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteRedirect {
    /// A path or an absolute URL.
    pub to: Template,
    /// 301, 302, 303, 307 or 308.
    pub status: u16,
    /// Whether only where there is nothing at the path.
    pub if_missing: bool,
}

/// They stand first, and contradict each other as one: see `conflicts`.
const OF_WAYS: Order = Order { shown: 0, reported: Section::Ways, judged: 0 };

/// `redirect`.
pub(super) struct Redirect;

impl RouteKey for Redirect {
    const ORDER: Order = OF_WAYS;
    const ANSWER: Answer = Answer::Elsewhere;
    const NOTHING: &'static str = "false";

    fn judge(given: &RouteTable, paths: &[Pattern], checker: &mut Checker<'_>) -> Switch<RouteRedirect> {
        let given = given.redirect.as_ref();
        given.map_or(Switch::Unset, |given| redirect(given.get_ref(), given.span(), paths, checker))
    }

    fn render(said: &Switch<RouteRedirect>) -> Option<String> {
        said.render(|to| {
            let missing = if to.if_missing { ", if_missing = true" } else { "" };
            format!("{{ to = {}, status = {}{missing} }}", quoted(to.to.text()), to.status)
        })
    }

    /// A route that rewrites or tries paths is not redirected by a less specific one, as it says that there is
    /// something: but for a redirect where there is nothing.
    fn merge(routes: &Matching<'_>) -> Option<(RouteRedirect, usize)> {
        let mut is_looked_for = false;
        for (number, route) in routes {
            match &route.redirect {
                Switch::Set(to) if !is_looked_for || to.if_missing => return Some((to.clone(), *number)),
                Switch::Unset if route.is_looked_for() => {}
                Switch::Unset if !route.directs() => {}
                _ => return None,
            }
            is_looked_for |= route.is_looked_for();
        }
        None
    }

    fn conflict(route: &RouteSettings) -> Option<Objection> {
        (redirects(route) && looks(route)).then(|| {
            let message = "this route redirects every request, so that `rewrite` and `try` have nothing to do";
            (message.to_owned(), Some("with if_missing = true it is redirected only where there is nothing"))
        })
    }

    fn report(rule: &Option<(RouteRedirect, usize)>) -> Vec<String> {
        let Some((redirect, _)) = rule else { return Vec::new() };
        let missing = if redirect.if_missing { ", where there is nothing" } else { "" };
        vec![format!("redirect to {} with {}{missing}", redirect.to.text(), redirect.status)]
    }
}

/// Whether it redirects every request.
pub(super) fn redirects(route: &RouteSettings) -> bool {
    matches!(&route.redirect, Switch::Set(redirect) if !redirect.if_missing)
}

/// Whether it looks for another path than that of the request.
pub(super) fn looks(route: &RouteSettings) -> bool {
    matches!(route.rewrite, Switch::Set(_)) || route.try_files.as_ref().is_some_and(|tried| !tried.is_empty())
}

/// `rewrite`.
pub(super) struct Rewrite;

impl RouteKey for Rewrite {
    const ORDER: Order = OF_WAYS;
    const ANSWER: Answer = Answer::Elsewhere;
    const NOTHING: &'static str = "false";

    fn judge(given: &RouteTable, paths: &[Pattern], checker: &mut Checker<'_>) -> Switch<Template> {
        let Some(given) = &given.rewrite else { return Switch::Unset };
        match given.get_ref() {
            SwitchOr::Is(false) => Switch::Off,
            SwitchOr::Text(text) => inner(&given.span(), text, paths, checker).map_or(Switch::Unset, Switch::Set),
            _ => {
                checker.problem(given.span(), "`rewrite` is a path, or false");
                Switch::Unset
            }
        }
    }

    fn render(said: &Switch<Template>) -> Option<String> {
        said.render(|path| quoted(path.text()))
    }

    /// None where an application answers whatever there is.
    fn merge(routes: &Matching<'_>) -> Option<(Template, usize)> {
        if gateways::answering(routes).is_some() {
            return None;
        }
        let (number, route) = routes.iter().find(|(_, route)| Rewrite::is_said(route))?;
        Some((route.rewrite.clone().into_set()?, *number))
    }

    fn report(rule: &Option<(Template, usize)>) -> Vec<String> {
        rule.iter().map(|(path, _)| format!("look for {}", path.text())).collect()
    }
}

/// `try`.
pub(super) struct TryFiles;

impl RouteKey for TryFiles {
    const ORDER: Order = OF_WAYS;
    const ANSWER: Answer = Answer::OneOfSeveral;
    const NOTHING: &'static str = "[]";

    fn judge(given: &RouteTable, paths: &[Pattern], checker: &mut Checker<'_>) -> Option<Vec<Template>> {
        let given = given.try_files.as_ref()?;
        let (last, before) = match given.get_ref().0.split_last() {
            // It is the route's, behind what else is tried.
            Some((last, before)) if applications::marked(last).is_some() => (true, before),
            _ => (false, &given.get_ref().0[..]),
        };
        if before.iter().any(|text| applications::marked(text).is_some()) {
            let message = "an application answers everything: `@NAME` is the last that is tried";
            checker.problem(given.span(), message);
            return None;
        }
        let tried: Vec<Template> =
            before.iter().filter_map(|text| inner(&given.span(), text, paths, checker)).collect();
        (!last || !tried.is_empty()).then_some(tried)
    }

    fn render(said: &Option<Vec<Template>>) -> Option<String> {
        said.as_ref().map(|tried| list(tried.iter().map(|one| one.text())))
    }

    /// An application comes behind the paths of its own route, and not behind those of a less specific one.
    fn merge(routes: &Matching<'_>) -> Option<(Vec<Template>, usize)> {
        match gateways::answering(routes) {
            Some((number, route)) => Some((route.try_files.clone()?, number)),
            None => routes.iter().find_map(|(number, route)| Some((route.try_files.clone()?, *number))),
        }
    }

    fn report(rule: &Option<(Vec<Template>, usize)>) -> Vec<String> {
        let tried = rule.iter().filter(|(tried, _)| !tried.is_empty());
        tried
            .map(|(tried, _)| format!("try {}", tried.iter().map(|one| one.text()).collect::<Vec<_>>().join(", then ")))
            .collect()
    }
}

fn redirect(
    given: &SwitchOr<RedirectTable>,
    span: Range<usize>,
    paths: &[Pattern],
    checker: &mut Checker<'_>,
) -> Switch<RouteRedirect> {
    let (span, text, status, if_missing) = match given {
        SwitchOr::Is(false) => return Switch::Off,
        SwitchOr::Is(true) => {
            checker.problem(span, "`redirect` is where to, as in \"/new/$1\", or false");
            return Switch::Unset;
        }
        SwitchOr::Text(text) => (span, text, None, false),
        SwitchOr::Table(table) => (table.to.span(), table.to.get_ref(), table.status.as_ref(), table.if_missing),
    };
    let status = redirect::status(status, checker);
    match template(&span, text, paths, checker).filter(|to| is_location(&span, to, checker)) {
        Some(to) => Switch::Set(RouteRedirect { to, status, if_missing }),
        None => Switch::Unset,
    }
}

fn template(span: &Range<usize>, text: &str, paths: &[Pattern], checker: &mut Checker<'_>) -> Option<Template> {
    let shown = text.escape_debug();
    let template = match Template::parse(text) {
        Ok(template) => template,
        Err(why) => {
            checker.problem(span.clone(), format!("`{shown}` {why}"));
            return None;
        }
    };
    let patterns: Vec<Option<&Pattern>> = if paths.is_empty() { vec![None] } else { paths.iter().map(Some).collect() };
    let missing = patterns.into_iter().find_map(|pattern| template.missing_from(pattern));
    if let Some(missing) = missing {
        let message = format!("`{shown}` has {missing}, and `match` has no such capture");
        let hint =
            "`$1` is what the first `*` or group stands for, `${name}` what (?<name>...) does, `$path` the whole path";
        checker.problem_with_hint(span.clone(), message, Some(hint.into()));
        return None;
    }
    Some(template)
}

/// Whether a redirect may lead there: to no host that is not named, whatever the client asks for.
fn is_location(span: &Range<usize>, to: &Template, checker: &mut Checker<'_>) -> bool {
    let (shown, beginning) = (to.text().escape_debug().to_string(), to.beginning());
    let is_path = beginning.starts_with('/') || beginning.is_empty() && to.leads_with_path() && !to.is_fixed();
    let is_url = ["http://", "https://"].iter().any(|scheme| beginning.starts_with(scheme));
    let mut problem = |is_right: bool, message: String| {
        if !is_right {
            checker.problem(span.clone(), message);
        }
        is_right
    };
    let has_host_end = to.closes_host();
    problem(is_path || is_url, format!("`{shown}` must start with `/` or `$path`, or with http:// or https://"))
        && problem(
            !to.text().starts_with("//"),
            format!("`{shown}` begins with the name of a host: write https: before it"),
        )
        && problem(
            to.text().bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\'),
            format!(
                "`{shown}` is sent as it is: write spaces, backslashes and other than ASCII characters percent-encoded"
            ),
        )
        && problem(
            has_host_end,
            format!("`{shown}` would make a part of the host of what a capture stands for: end the host with `/`"),
        )
        && problem(to.text().len() <= redirect::LOCATION_BYTES_MAX, "this location is too long to be sent".into())
}

/// A path that is looked for.
fn inner(span: &Range<usize>, text: &str, paths: &[Pattern], checker: &mut Checker<'_>) -> Option<Template> {
    let template = template(span, text, paths, checker)?;
    if template.names_host() {
        checker.problem(span.clone(), format!("`{}` has a host, and is a path of this site", text.escape_debug()));
        return None;
    }
    let is_path =
        template.beginning().starts_with('/') || template.beginning().is_empty() && template.leads_with_path();
    if !is_path || template.text().is_empty() {
        checker.problem(
            span.clone(),
            format!("`{}` must start with `/` or `$path`: it is a path of this site", text.escape_debug()),
        );
        return None;
    }
    if text.contains('?') {
        checker.problem(span.clone(), format!("`{}` has a query, and files have none", text.escape_debug()));
        return None;
    }
    Some(template)
}
