//! `path` of a route: the spelling in which an application is asked for a path.
//!
//! Owns: its judgement. What each spelling is, `lamna_proto::gateway::path` says.

use lamna_proto::gateway::path::Spelling;

use super::pattern::Pattern;
use super::row::{Answer, Field, Matching, Order, RouteKey, Section};
use super::{RouteTable, gateways};
use crate::checker::Checker;
use crate::page::quoted;

/// `path`.
pub(super) struct PathSpelling;

const NAMES: [(&str, Spelling); 2] = [("as-sent", Spelling::AsSent), ("normal", Spelling::Normal)];

/// The schema of `path`.
pub(super) fn schema() -> serde_json::Value {
    serde_json::json!({ "enum": NAMES.map(|(name, _)| name) })
}

impl RouteKey for PathSpelling {
    const ORDER: Order = Order { shown: 1, reported: Section::Application, judged: 4 };
    const ANSWER: Answer = Answer::There;

    fn judge(given: &RouteTable, _: &[Pattern], checker: &mut Checker<'_>) -> Option<Spelling> {
        let given = given.path.as_ref()?;
        let named = NAMES.iter().find(|(name, _)| *name == given.get_ref().as_str());
        if named.is_none() {
            let message = "`path` is \"as-sent\", the path as the client has sent it, or \"normal\", in one spelling";
            checker.problem(given.span(), message);
        }
        named.map(|(_, spelling)| *spelling)
    }

    fn render(said: &Option<Spelling>) -> Option<String> {
        NAMES.iter().find(|(_, spelling)| Some(*spelling) == *said).map(|(name, _)| quoted(name))
    }

    fn merge(routes: &Matching<'_>) -> Option<Spelling> {
        gateways::applying(routes)?;
        PathSpelling::first(routes)
    }

    fn report(rule: &Option<Spelling>) -> Vec<String> {
        let words = rule.map(|spelling| match spelling {
            Spelling::AsSent => "it is asked for paths as clients send them",
            Spelling::Normal => "it is asked for paths in one spelling",
        });
        words.map(str::to_owned).into_iter().collect()
    }
}
