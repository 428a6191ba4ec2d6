//! `filters` of a route: from what is written to a chain, and back to text.
//!
//! Owns: their judgement, with words for what is wrong. What filters there are is `lamna_filter`'s; which services
//! there are, the checker knows.

use lamna_filter::{Chain, Link, Step, Wrong};
use serde_json::{Value, json};
use toml::Spanned;

use super::RouteTable;
use super::pattern::Pattern;
use super::row::{Answer, Field, Matching, Order, RouteKey};
use super::shapes::{FilterStep, StructuredTable, SwitchOr};
use crate::checker::Checker;
use crate::page::quoted;
use crate::schema::values::{list_or_none, switch, table, text};

/// `filters`, and `structured`, which is short for one of them.
pub(super) struct Filters;

impl RouteKey for Filters {
    const ORDER: Order = Order::OF_CONTENT;
    const ANSWER: Answer = Answer::There;

    fn judge(given: &RouteTable, _: &[Pattern], checker: &mut Checker<'_>) -> Option<Vec<Step>> {
        let mut steps = given.filters.as_ref().and_then(|given| judge(given, checker));
        if let Some(given) = &given.structured {
            steps.get_or_insert_default().extend(structured(given, checker));
        }
        steps
    }

    fn render(said: &Option<Vec<Step>>) -> Option<String> {
        said.as_deref().map(render)
    }

    fn merge(routes: &Matching<'_>) -> Option<Vec<Step>> {
        Filters::first(routes)
    }

    fn report(rule: &Option<Vec<Step>>) -> Vec<String> {
        rule.iter().filter(|steps| !steps.is_empty()).map(|steps| describe(steps)).collect()
    }
}

/// The steps of a route, in the order written, if all of them are right: filters of the table, and services.
fn judge(given: &[Spanned<FilterStep>], checker: &mut Checker<'_>) -> Option<Vec<Step>> {
    let steps = steps(given, checker)?;
    let is_right = steps.iter().zip(given).all(|(step, one)| {
        let problem = match checker.services().contains(&step.name) {
            true if step.parameters.is_empty() => return true,
            true => format!("`{}` is a service: its parameters are in its [[service]] table", step.name),
            false => match Link::of_table(step) {
                Ok(_) => return true,
                Err(Wrong::Unknown(_)) if !checker.services().is_empty() => {
                    let (unknown, services) = (Wrong::Unknown(step.name.clone()), checker.services().join(", "));
                    format!("{unknown}, and the services {services}")
                }
                Err(wrong) => wrong.to_string(),
            },
        };
        checker.problem(one.span(), problem);
        false
    });
    is_right.then_some(steps)
}

/// The steps of a service, in the order written, if all of them are right: filters of the table.
pub(crate) fn judge_chain(given: &[Spanned<FilterStep>], checker: &mut Checker<'_>) -> Option<Vec<Step>> {
    let steps = steps(given, checker)?;
    match Chain::new(&steps) {
        Ok(_) => Some(steps),
        Err(error) => {
            checker.problem(given[error.step].span(), error.to_string());
            None
        }
    }
}

/// The steps as they are written.
fn steps(given: &[Spanned<FilterStep>], checker: &mut Checker<'_>) -> Option<Vec<Step>> {
    let mut steps = Vec::new();
    for one in given {
        match one.get_ref() {
            FilterStep::Name(name) => steps.push(Step { name: name.clone(), parameters: Default::default() }),
            FilterStep::Table(table) => {
                let mut parameters = table.iter().map(|(key, value)| (key.get_ref().clone(), value.get_ref().clone()));
                let (names, others): (Vec<_>, Vec<_>) = parameters.by_ref().partition(|(key, _)| key == "name");
                let Some((_, name)) = names.into_iter().next() else {
                    let hint = Some("write { name = \"substitute\", from = \"a\", to = \"b\" }".into());
                    checker.problem_with_hint(one.span(), "this filter has no `name`", hint);
                    return None;
                };
                steps.push(Step { name, parameters: others.into_iter().collect() });
            }
        }
    }
    Some(steps)
}

/// `structured`, which is short for the filter of this name behind the others.
fn structured(given: &Spanned<SwitchOr<StructuredTable>>, checker: &mut Checker<'_>) -> Option<Step> {
    let parameters = match given.get_ref() {
        SwitchOr::Is(true) => Default::default(),
        SwitchOr::Table(table) => [("save_data".to_owned(), table.save_data.to_string())].into(),
        SwitchOr::Is(false) | SwitchOr::Text(_) => {
            let hint = Some("a more specific route turns it off with its own `filters`, as in filters = []".into());
            checker.problem_with_hint(given.span(), "`structured` is true, or a table", hint);
            return None;
        }
    };
    Some(Step { name: "structured".into(), parameters })
}

/// As it is written.
pub(crate) fn render(steps: &[Step]) -> String {
    let one = |step: &Step| {
        let parameters = step.parameters.iter().map(|(name, value)| format!(", {name} = {}", quoted(value)));
        match step.parameters.is_empty() {
            true => quoted(&step.name),
            false => format!("{{ name = {}{} }}", quoted(&step.name), parameters.collect::<String>()),
        }
    };
    format!("[{}]", steps.iter().map(one).collect::<Vec<_>>().join(", "))
}

/// For people.
pub fn describe(steps: &[Step]) -> String {
    let one = |step: &Step| {
        let parameters = step.parameters.iter().map(|(name, value)| format!("{name} `{value}`"));
        let parameters: Vec<String> = parameters.collect();
        if parameters.is_empty() { step.name.clone() } else { format!("{} ({})", step.name, parameters.join(", ")) }
    };
    format!("filters {}", steps.iter().map(one).collect::<Vec<_>>().join(", then "))
}

/// The schema of a list of filters, of a service as well.
pub(crate) fn schema(description: &str) -> Value {
    let step = json!({ "anyOf": [text(""), { "type": "object", "required": ["name"], "additionalProperties": { "type": "string" } }] });
    let mut list = list_or_none(step);
    list["description"] = json!(description);
    list
}

/// The schema of `filters` of a route.
pub(super) fn schema_of_route() -> Value {
    schema(
        "What files and answers of applications pass through, one filter after the other: its name, or a table with `name` and its parameters",
    )
}

/// The schema of `structured`.
pub(super) fn structured_schema() -> Value {
    let keys = [("save_data", switch("Clients that save data (Save-Data: on) are given the overview"))];
    json!({
        "description": "Whether clients may ask for an overview of a page and for its sections",
        "anyOf": [{ "type": "boolean", "const": true }, table(keys, &[], "Who else is given the overview")],
    })
}
