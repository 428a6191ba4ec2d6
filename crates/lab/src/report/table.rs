//! Results as plain tables: for a terminal and for READMEs.

use crate::compare::store::Results;
use crate::metric::{Metric, format_number};
use crate::scenario::{Point, Scenario};

/// A table in Markdown: servers down, metrics across, the best first by the first metric; one table for each point.
pub fn markdown(scenario: &Scenario, results: &Results) -> String {
    let mut text = format!("### {}\n\n{}\n", scenario.title, scenario.question);
    for point in scenario.points(results.header.quick) {
        let rows = rows(scenario, results, &point);
        if rows.is_empty() {
            continue;
        }
        if !point.label.is_empty() {
            text += &format!("\n{}\n", point.label);
        }
        let metrics = metrics(scenario);
        text += &format!(
            "\n| server | {} |\n",
            metrics.iter().map(|metric| metric.label()).collect::<Vec<_>>().join(" | ")
        );
        text += &format!("| --- |{}\n", " ---: |".repeat(metrics.len()));
        for row in rows {
            text += &format!("| {} | {} |\n", row.server, row.cells.join(" | "));
        }
    }
    text
}

/// A server's line in a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Its name.
    pub server: String,
    /// Medians, in the order of the scenario's metrics, the first with its interval; or the reason that there are none.
    pub cells: Vec<String>,
}

/// The lines of a point, the best first; servers that failed last.
pub fn rows(scenario: &Scenario, results: &Results, point: &Point) -> Vec<Row> {
    let metrics = metrics(scenario);
    let Some(first) = metrics.first() else { return Vec::new() };
    let mut measured: Vec<(f64, Row)> = Vec::new();
    let mut failed = Vec::new();
    for server in results.servers() {
        match results.estimate(server, &point.label, first.name) {
            Some(estimate) => {
                let cell = |metric: &&Metric| cell(results, server, point, metric);
                let mut cells: Vec<String> = metrics.iter().map(cell).collect();
                let (low, high) = (format_number(estimate.low), format_number(estimate.high));
                cells[0] += &format!(" ({low} to {high})");
                let order = if first.less_is_better { estimate.median } else { -estimate.median };
                measured.push((order, Row { server: server.to_owned(), cells }));
            }
            None => {
                let Some(reason) = results.failure(server, &point.label) else { continue };
                let mut cells = vec![String::new(); metrics.len()];
                cells[0] = short(reason);
                failed.push(Row { server: server.to_owned(), cells });
            }
        }
    }
    measured.sort_by(|a, b| a.0.total_cmp(&b.0));
    measured.into_iter().map(|(_, row)| row).chain(failed).collect()
}

/// The metrics of a scenario.
pub fn metrics(scenario: &Scenario) -> Vec<&'static Metric> {
    // Their names were checked when the scenario was read.
    scenario.metrics.iter().filter_map(|name| Metric::named(name)).collect()
}

fn cell(results: &Results, server: &str, point: &Point, metric: &Metric) -> String {
    results
        .estimate(server, &point.label, metric.name)
        .map_or("-".to_owned(), |estimate| format_number(estimate.median))
}

/// The part of a reason that fits into a cell.
fn short(reason: &str) -> String {
    let line = reason.lines().next().unwrap_or_default().replace('|', "/");
    if line.chars().count() > 160 { line.chars().take(157).chain("...".chars()).collect() } else { line }
}
