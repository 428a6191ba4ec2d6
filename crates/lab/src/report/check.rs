//! Whether what a source found holds here: the checks of a scenario, as sentences.

use crate::compare::store::Results;
use crate::metric::{Metric, format_number};
use crate::scenario::{At, Check, Point, Scenario};

/// What came of a check.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The claim, in words.
    pub claim: String,
    /// Whether it holds; none if it could not be checked.
    pub holds: Option<bool>,
    /// The figures, or why there are none.
    pub detail: String,
}

/// Checks all claims of a scenario.
pub fn verdicts(scenario: &Scenario, results: &Results) -> Vec<Verdict> {
    let points = scenario.points(results.header.quick);
    scenario.check.iter().map(|check| verdict(check, &points, results)).collect()
}

fn verdict(check: &Check, points: &[Point], results: &Results) -> Verdict {
    let ratios: Vec<f64> =
        chosen(check.at, points).into_iter().filter_map(|point| ratio(check, point, results)).collect();
    let claim = check.claim.clone();
    if ratios.is_empty() {
        let missing = [&check.left, &check.right].into_iter().find_map(|server| {
            let reason = points.iter().find_map(|point| results.failure(server, &point.label))?;
            Some(format!("{server}: {}", reason.lines().next().unwrap_or_default()))
        });
        let detail = missing.unwrap_or_else(|| "it was not measured".to_owned());
        return Verdict { claim, holds: None, detail };
    }
    let (low, high) = ratios.iter().fold((f64::MAX, f64::MIN), |(low, high), &ratio| (low.min(ratio), high.max(ratio)));
    let holds = check.at_most.is_none_or(|most| high <= most) && check.at_least.is_none_or(|least| low >= least);
    let title = Metric::named(&check.metric).map_or(check.metric.as_str(), |metric| metric.title);
    let found = if ratios.len() == 1 {
        format_number(low)
    } else {
        format!("{} to {}", format_number(low), format_number(high))
    };
    let bound =
        |word: &str, bound: Option<f64>| bound.map_or(String::new(), |bound| format!(", {word} {bound} expected"));
    let (most, least) = (bound("at most", check.at_most), bound("at least", check.at_least));
    let (left, right) = (&check.left, &check.right);
    Verdict { claim, holds: Some(holds), detail: format!("{title}: {left} / {right} = {found}{most}{least}") }
}

/// In each panel: all places, the first, or the last.
fn chosen(at: At, points: &[Point]) -> Vec<&Point> {
    let panels = points.chunk_by(|a, b| a.panel == b.panel);
    match at {
        At::All => points.iter().collect(),
        At::First => panels.filter_map(<[Point]>::first).collect(),
        At::Last => panels.filter_map(<[Point]>::last).collect(),
    }
}

fn ratio(check: &Check, point: &Point, results: &Results) -> Option<f64> {
    let median = |server: &str| results.estimate(server, &point.label, &check.metric).map(|estimate| estimate.median);
    let (left, right) = (median(&check.left)?, median(&check.right)?);
    (right != 0.0).then(|| left / right)
}
