//! How a route leads from a path to another address or to a file: `redirect`, `rewrite` and `try`.
//!
//! Owns: their judgement, with words for what is wrong. Captures are `template`'s.

use std::ops::Range;

use super::Switch;
use super::pattern::Pattern;
use super::shapes::{RedirectTable, SwitchOr};
use super::template::Template;
use crate::redirect;
use crate::validate::Checker;

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

pub(super) fn redirect(
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
pub(super) fn inner(span: &Range<usize>, text: &str, paths: &[Pattern], checker: &mut Checker<'_>) -> Option<Template> {
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
