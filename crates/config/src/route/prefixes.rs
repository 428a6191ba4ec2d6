//! `strip_prefix` and `restore_prefix` of a route: an application that does not know the prefix that it is beneath.
//!
//! Owns: its judgement. Guarantees: every path of a route with `strip_prefix` begins with that, byte by byte, in the
//! spelling that rules go by.

use super::pattern::Pattern;
use super::row::{Answer, Field, Matching, Objection, Order, RouteKey, Section, SwitchKey};
use super::{RouteSettings, RouteTable, Switch, gateways};
use crate::checker::Checker;
use crate::page::quoted;

/// `strip_prefix`.
pub(super) struct StripPrefix;

impl RouteKey for StripPrefix {
    const ORDER: Order = Order { shown: 1, reported: Section::Application, judged: 4 };
    const ANSWER: Answer = Answer::There;

    fn judge(given: &RouteTable, paths: &[Pattern], checker: &mut Checker<'_>) -> Option<String> {
        let given = given.strip_prefix.as_ref()?;
        let prefix = given.get_ref().strip_suffix('/').unwrap_or(given.get_ref());
        if !is_plain_path(prefix) {
            let message = "`strip_prefix` is a path as /app, of letters, digits and -._~, which is taken away";
            checker.problem(given.span(), message);
            return None;
        }
        let beneath = format!("{prefix}/");
        let is_beneath = |pattern: &Pattern| match pattern {
            Pattern::Exact(path) if path == prefix => true,
            pattern => pattern.prefix().starts_with(&beneath),
        };
        if paths.is_empty() || !paths.iter().all(is_beneath) {
            let hint = Some(format!("write match = \"{beneath}*\", or [\"{prefix}\", \"{beneath}*\"]"));
            let message = format!("not every path of this route is beneath `{prefix}`, so it cannot be taken away");
            checker.problem_with_hint(given.span(), message, hint);
            return None;
        }
        Some(prefix.to_owned())
    }

    fn render(said: &Option<String>) -> Option<String> {
        said.as_deref().map(quoted)
    }

    /// That of the route that names the application, or of a more specific one.
    fn merge(routes: &Matching<'_>) -> Option<String> {
        gateways::applying(routes)?;
        let decides = |route: &&RouteSettings| StripPrefix::is_said(route) || matches!(route.gateway, Switch::Set(_));
        routes.iter().map(|(_, route)| *route).find(decides)?.strip_prefix.clone()
    }

    fn conflict(route: &RouteSettings) -> Option<Objection> {
        let runs_files = matches!(&route.gateway, Switch::Set(gateway) if gateway.scripts.is_some());
        (runs_files && StripPrefix::is_said(route)).then(|| {
            let message = "an application that runs files is told of the path by the file: `alias` of the site leads \
                           a prefix to a folder";
            (message.to_owned(), None)
        })
    }

    fn report(rule: &Option<String>) -> Vec<String> {
        rule.iter().map(|prefix| format!("it is asked for paths without {prefix}")).collect()
    }
}

/// `restore_prefix`.
pub(super) struct RestorePrefix;

impl SwitchKey for RestorePrefix {
    const ORDER: Order = Order { shown: 1, reported: Section::Application, judged: 4 };

    fn given(table: &RouteTable) -> Option<bool> {
        table.restore_prefix
    }

    fn report(is_on: bool) -> Option<String> {
        is_on.then(|| "its own addresses in its answers are put behind the prefix".to_owned())
    }
}

/// Whether a path is spelled in one way only: of unreserved characters (RFC 3986 2.3), and without empty and dot
/// segments.
pub fn is_plain_path(path: &str) -> bool {
    let is_plain = |segment: &str| {
        !matches!(segment, "" | "." | "..")
            && segment.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte))
    };
    path.strip_prefix('/').is_some_and(|rest| rest.split('/').all(is_plain))
}
