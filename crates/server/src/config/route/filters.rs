//! `filters` of a route: from what is written to a chain, and back to text.
//!
//! Owns: their judgement, with words for what is wrong. What filters there are is `lamna_filter`'s.

use lamna_filter::{Chain, Step};
use toml::Spanned;

use super::shapes::FilterStep;
use crate::config::render::quoted;
use crate::config::validate::Checker;

/// The steps, in the order written, if all of them are right.
pub(super) fn judge(given: &[Spanned<FilterStep>], checker: &mut Checker<'_>) -> Option<Vec<Step>> {
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
    match Chain::new(&steps) {
        Ok(_) => Some(steps),
        Err(error) => {
            checker.problem(given[error.step].span(), error.to_string());
            None
        }
    }
}

/// As it is written.
pub(super) fn render(steps: &[Step]) -> String {
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
pub(super) fn describe(steps: &[Step]) -> String {
    let one = |step: &Step| {
        let parameters = step.parameters.iter().map(|(name, value)| format!("{name} `{value}`"));
        let parameters: Vec<String> = parameters.collect();
        if parameters.is_empty() { step.name.clone() } else { format!("{} ({})", step.name, parameters.join(", ")) }
    };
    format!("filters {}", steps.iter().map(one).collect::<Vec<_>>().join(", then "))
}
