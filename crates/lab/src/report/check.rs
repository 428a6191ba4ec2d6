//! Whether what a source found holds here: the checks of a scenario, as sentences.

use crate::compare::store::Results;
use crate::metric::{Metric, format_number};
use crate::scenario::{At, Check, Point, Scenario, Value};

/// The result of a check.
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

/// All of it in one sentence.
pub fn sentence(verdicts: &[Verdict]) -> String {
    let count = |holds| verdicts.iter().filter(|verdict| verdict.holds == holds).count();
    let (held, failed, unchecked) = (count(Some(true)), count(Some(false)), count(None));
    let found = match (held, failed) {
        (0, 0) => "No claim could be checked against figures".to_owned(),
        (1, 0) => "The figures agree: the claim holds".to_owned(),
        (_, 0) => format!("The figures agree: all {held} claims hold"),
        (0, 1) => "The figures do not agree: the claim does not hold".to_owned(),
        (0, _) => format!("The figures do not agree: none of {failed} claims holds"),
        _ => format!("The figures agree in part: {held} of {} claims hold", held + failed),
    };
    if unchecked > 0 && held + failed > 0 { format!("{found}, {unchecked} not checked") } else { found }
}

fn verdict(check: &Check, points: &[Point], results: &Results) -> Verdict {
    let pairs = match (&check.left_at, &check.right_at) {
        (Some(left), Some(right)) => between(left, right, points),
        _ => chosen(check.at, points).into_iter().map(|point| (point, point)).collect(),
    };
    let ratios: Vec<f64> = pairs.into_iter().filter_map(|(left, right)| ratio(check, left, right, results)).collect();
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
    let found = match (ratios.as_slice(), high.is_finite()) {
        ([_], true) => format_number(low),
        ([_], false) => BEYOND.to_owned(),
        (_, true) => format!("{} to {}", format_number(low), format_number(high)),
        (_, false) => format!("{} to {BEYOND}", format_number(low)),
    };
    let bound =
        |word: &str, bound: Option<f64>| bound.map_or(String::new(), |bound| format!(", {word} {bound} expected"));
    let (most, least) = (bound("at most", check.at_most), bound("at least", check.at_least));
    let named =
        |server: &str, at: &Option<Value>| at.as_ref().map_or(server.to_owned(), |at| format!("{server} at {at}"));
    let (left, right) = (named(&check.left, &check.left_at), named(&check.right, &check.right_at));
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

/// In each panel, the places of two values of the sweep.
fn between<'a>(left: &Value, right: &Value, points: &'a [Point]) -> Vec<(&'a Point, &'a Point)> {
    let place = |panel: &'a [Point], value: &Value| {
        panel.iter().find(|point| point.place.as_ref().is_some_and(|place| *place == value.to_string()))
    };
    let panels = points.chunk_by(|a, b| a.panel == b.panel);
    panels.filter_map(|panel| Some((place(panel, left)?, place(panel, right)?))).collect()
}

/// How many times as much something is as nothing.
const BEYOND: &str = "any multiple (there, it is none)";

/// None of both is as much on the left as on the right; some beside none is more than any multiple.
fn ratio(check: &Check, left: &Point, right: &Point, results: &Results) -> Option<f64> {
    let median = |server: &str, point: &Point| {
        results.estimate(server, &point.label, &check.metric).map(|estimate| estimate.median)
    };
    let (left, right) = (median(&check.left, left)?, median(&check.right, right)?);
    Some(if left == right { 1.0 } else { left / right })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::compare::store::{Header, Record};
    use crate::machine::Machine;
    use crate::report::table::markdown;

    const SCENARIO: &str = r#"
        name = "s"
        title = "t"
        question = "q"
        source = ""
        finding = ""
        expected = ""
        procedure = "throughput"
        servers = ["nginx", "caddy", "h2o"]
        metrics = ["cpu_us", "latency_p99_ms"]

        [sweep]
        parameter = "connections"
        values = [1, 2]
        quick = [1]

        [[check]]
        claim = "a"
        metric = "cpu_us"
        left = "nginx"
        right = "caddy"
        at_most = 0.5

        [[check]]
        claim = "b"
        metric = "cpu_us"
        left = "nginx"
        right = "caddy"
        at = "last"
        at_most = 0.2

        [[check]]
        claim = "d"
        metric = "cpu_us"
        left = "nginx"
        left_at = 2
        right = "nginx"
        right_at = 1
        at_least = 1.1

        [[check]]
        claim = "c"
        metric = "cpu_us"
        left = "h2o"
        right = "caddy"
        at_least = 1.0
    "#;

    fn results(samples: &[(&str, &str, f64)], failures: &[(&str, &str)]) -> Results {
        let header = Header {
            scenario: "s".into(),
            digest: String::new(),
            quick: false,
            machine: Machine::default(),
            versions: Default::default(),
            command: String::new(),
            seconds: 1.0,
            server_processors: vec![],
            client_processors: vec![],
        };
        let sample = |&(server, point, value): &(&str, &str, f64)| Record::Sample {
            server: server.into(),
            point: point.into(),
            round: 0,
            values: [("cpu_us".to_owned(), value)].into(),
            doubts: vec![],
        };
        let failure = |&(server, point): &(&str, &str)| Record::Failure {
            server: server.into(),
            point: point.into(),
            reason: "not | installed".into(),
        };
        Results { header, records: samples.iter().map(sample).chain(failures.iter().map(failure)).collect() }
    }

    /// A sample of `cpu_us`.
    pub(in crate::report) fn sample<'a>(server: &'a str, point: &'a str, value: f64) -> (&'a str, &'a str, f64) {
        (server, point, value)
    }

    /// A scenario called `s` with two places, and these samples.
    pub(in crate::report) fn measured_by(samples: &[(&str, &str, f64)]) -> (Scenario, Results) {
        (Scenario::parse(SCENARIO).expect("it is valid"), results(samples, &[]))
    }

    fn measured() -> (Scenario, Results) {
        let samples = [
            ("nginx", "connections=1", 10.0),
            ("caddy", "connections=1", 40.0),
            ("nginx", "connections=2", 12.0),
            ("caddy", "connections=2", 40.0),
        ];
        let results = results(&samples, &[("h2o", "connections=1"), ("h2o", "connections=2")]);
        (Scenario::parse(SCENARIO).expect("it is valid"), results)
    }

    #[test]
    fn claims_hold_fail_or_cannot_be_checked() {
        let (scenario, results) = measured();
        let found = verdicts(&scenario, &results);
        assert_eq!(
            found.iter().map(|verdict| verdict.holds).collect::<Vec<_>>(),
            [Some(true), Some(false), Some(true), None]
        );
        assert_eq!(found[0].detail, "CPU time per request: nginx / caddy = 0.250 to 0.300, at most 0.5 expected");
        assert_eq!(found[1].detail, "CPU time per request: nginx / caddy = 0.300, at most 0.2 expected");
        assert_eq!(found[2].detail, "CPU time per request: nginx at 2 / nginx at 1 = 1.20, at least 1.1 expected");
        assert_eq!(found[3].detail, "h2o: not | installed");
        assert_eq!(sentence(&found), "The figures agree in part: 2 of 3 claims hold, 1 not checked");
    }

    #[test]
    fn something_beside_nothing_is_more_than_any_multiple() {
        let samples =
            [("nginx", "connections=1", 10.0), ("caddy", "connections=1", 0.0), ("h2o", "connections=1", 0.0)];
        let (mut scenario, _) = measured();
        scenario.check[3].at_most = Some(1.0);
        let found = verdicts(&scenario, &results(&samples, &[]));
        assert_eq!(found[0].holds, Some(false));
        assert_eq!(
            found[0].detail,
            "CPU time per request: nginx / caddy = any multiple (there, it is none), at most 0.5 expected"
        );
        assert_eq!(found[3].holds, Some(true), "{}", found[3].detail);
    }

    #[test]
    fn tables_have_the_best_first_and_failures_last() {
        let (scenario, results) = measured();
        let text = markdown(&scenario, &results);
        let rows: Vec<&str> =
            text.lines().filter(|line| line.starts_with("| ") && !line.contains("---")).skip(1).collect();
        assert_eq!(rows[0], "| nginx | 10.0 (10.0 to 10.0) | - |");
        assert_eq!(rows[1], "| caddy | 40.0 (40.0 to 40.0) | - |");
        assert_eq!(rows[2], "| h2o | not / installed |  |");
    }
}
