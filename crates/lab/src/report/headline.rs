//! The headline: Lamna's best engine, and the one that it chooses itself, against every peer in every scenario.
//!
//! Owns: which figures are compared and how places of a sweep become one number: the geometric mean of the ratios at
//! all places, so that no place and no unit has more weight than another. Losses are in it like gains.

use crate::compare::store::Results;
use crate::metric::format_number;
use crate::peers::{self, LAMNA_AUTO, PEERS};
use crate::scenario::Scenario;

/// A question to which each scenario has one answer.
#[derive(Clone, Copy, Debug)]
pub struct Measure {
    /// For people.
    pub title: &'static str,
    /// Metrics, less being better; of those that a scenario has, the first counts.
    pub metrics: &'static [&'static str],
}

/// The cost of a request, and the time of the slowest.
pub static MEASURES: [Measure; 2] = [
    Measure {
        title: "CPU time per request (`idle`: memory per connection)",
        metrics: &["cpu_us", "bytes_per_connection"],
    },
    Measure { title: "99th percentile of latency", metrics: &["latency_p99_ms", "hot_p99_ms"] },
];

/// A line of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// The scenario's name.
    pub scenario: String,
    /// Which Lamna.
    pub server: String,
    /// To each of [`peers()`], below one if Lamna needs less; none where that peer was not measured.
    pub ratios: Vec<Option<f64>>,
}

/// The peers that are compared with, in the order of the columns.
pub fn peers() -> Vec<&'static str> {
    PEERS.iter().map(|peer| peer.name).collect()
}

/// The lines of a measure: for each scenario with a peer the best engine, and `auto` where it was measured.
pub fn lines(measured: &[(&Scenario, &Results)], measure: &Measure) -> Vec<Line> {
    let own = measured.iter().filter(|(scenario, _)| scenario.results_of.is_none());
    own.flat_map(|(scenario, results)| lines_of(scenario, results, measure)).collect()
}

/// Both measures as Markdown tables.
pub fn markdown(measured: &[(&Scenario, &Results)]) -> String {
    let mut text = String::new();
    for measure in &MEASURES {
        text += &format!("\n{}, Lamna's divided by the peer's:\n\n", measure.title);
        text += &format!(
            "| scenario | Lamna | {} |\n| --- | --- |{}\n",
            peers().join(" | "),
            " ---: |".repeat(PEERS.len())
        );
        for line in lines(measured, measure) {
            let cell = |ratio: &Option<f64>| ratio.map_or(String::new(), format_number);
            let cells: Vec<String> = line.ratios.iter().map(cell).collect();
            text += &format!("| {} | {} | {} |\n", line.scenario, line.server, cells.join(" | "));
        }
    }
    text
}

fn lines_of(scenario: &Scenario, results: &Results, measure: &Measure) -> Vec<Line> {
    let table = Table { scenario, results };
    let Some(metric) = measure.metrics.iter().find(|metric| table.has(metric)) else { return Vec::new() };
    let best = table.best_engine(metric);
    let auto = results.servers().into_iter().find(|server| *server == LAMNA_AUTO);
    let line = |server: &str| Line {
        scenario: scenario.name.clone(),
        server: server.to_owned(),
        ratios: peers().iter().map(|peer| table.ratio(server, peer, metric)).collect(),
    };
    let lines = best.into_iter().chain(auto).map(line);
    lines.filter(|line| line.ratios.iter().any(Option::is_some)).collect()
}

struct Table<'a> {
    scenario: &'a Scenario,
    results: &'a Results,
}

impl<'a> Table<'a> {
    fn has(&self, metric: &str) -> bool {
        self.results.servers().into_iter().any(|server| !self.medians(server, metric).iter().all(Option::is_none))
    }

    /// At each place.
    fn medians(&self, server: &str, metric: &str) -> Vec<Option<f64>> {
        let points = self.scenario.points(self.results.header.quick);
        let median = |label: &str| self.results.estimate(server, label, metric).map(|estimate| estimate.median);
        points.iter().map(|point| median(&point.label).filter(|median| *median > 0.0)).collect()
    }

    /// The engine that needs least, of those that were measured everywhere.
    fn best_engine(&self, metric: &str) -> Option<&'a str> {
        let is_engine = |server: &&str| {
            peers::is_lamna(server) && *server != LAMNA_AUTO && self.scenario.variant_named(server).is_none()
        };
        let mean =
            |server: &str| geometric_mean(self.medians(server, metric).into_iter().collect::<Option<Vec<f64>>>()?);
        let engines = self.results.servers().into_iter().filter(is_engine);
        let means = engines.filter_map(|server| Some((server, mean(server)?)));
        means.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(server, _)| server)
    }

    fn ratio(&self, left: &str, right: &str, metric: &str) -> Option<f64> {
        let pairs = self.medians(left, metric).into_iter().zip(self.medians(right, metric));
        geometric_mean(pairs.filter_map(|(left, right)| Some(left? / right?)).collect())
    }
}

fn geometric_mean(values: Vec<f64>) -> Option<f64> {
    let sum: f64 = values.iter().map(|value| value.ln()).sum();
    (!values.is_empty()).then(|| (sum / values.len() as f64).exp())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::check::tests::{measured_by, sample};

    #[test]
    fn places_are_averaged_as_ratios_and_losses_stay() {
        let samples = [
            sample("lamna-sped", "connections=1", 10.0),
            sample("lamna-sped", "connections=2", 10.0),
            sample("lamna-amped", "connections=1", 5.0),
            sample("lamna", "connections=1", 20.0),
            sample("lamna", "connections=2", 20.0),
            sample("nginx", "connections=1", 5.0),
            sample("nginx", "connections=2", 80.0),
        ];
        let (scenario, results) = measured_by(&samples);
        let lines = lines(&[(&scenario, &results)], &MEASURES[0]);
        let nginx = peers().iter().position(|peer| *peer == "nginx").expect("it is a peer");
        // lamna-amped is better, but was not measured everywhere.
        assert_eq!(lines.iter().map(|line| line.server.as_str()).collect::<Vec<_>>(), ["lamna-sped", "lamna"]);
        let ratios: Vec<f64> = lines.iter().filter_map(|line| line.ratios[nginx]).collect();
        assert!((ratios[0] - 0.5).abs() < 1e-9 && (ratios[1] - 1.0).abs() < 1e-9, "{ratios:?}");
        assert!(markdown(&[(&scenario, &results)]).contains("| s | lamna-sped | 0.500 |"));
    }
}
