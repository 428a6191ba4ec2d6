//! The report: one HTML file with everything in it, for screen (light and dark) and paper.
//!
//! Owns: the page. Guarantees: no network, no script needed to read it; all text from results is escaped. The script
//! only lets one hide servers by clicking on their names.

use std::fmt::Write as _;

use lamna_policy::words::count;
use lamna_sim::report::escaped;

use super::check::{sentence, verdicts};
use super::headline::{MEASURES, lines, peers};
use super::svg::{self, Series};
use super::table::{Row, metrics, rows};
use crate::compare::store::Results;
use crate::metric::{METRICS, Metric, format_number};
use crate::peers::PEERS;
use crate::scenario::{Point, Procedure, Scenario};
use crate::whitebox::category::Category;

const STYLE: &str = include_str!("report.css");
const SCRIPT: &str = include_str!("report.js");

/// The whole report on these scenarios and what is known of each.
pub fn report(results: &[(Scenario, Option<Results>)]) -> String {
    let mut page = format!(
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>\
         <meta name=color-scheme content='light dark'><title>Lamna's laboratory</title><style>{STYLE}</style>\
         <h1>Lamna's laboratory</h1>"
    );
    let measured: Vec<(&Scenario, &Results)> =
        results.iter().filter_map(|(scenario, results)| Some((scenario, results.as_ref()?))).collect();
    introduction(&mut page, &measured);
    headline(&mut page, &measured);
    page.push_str("<nav><h2>Scenarios</h2><ol>");
    for (scenario, results) in results {
        let state = results.as_ref().map_or(" (not measured)".to_owned(), |results| tally(scenario, results));
        _ = write!(page, "<li><a href='#{}'>{}</a>{state}", escaped(&scenario.name), escaped(&scenario.title));
    }
    page.push_str("</ol></nav>");
    for (scenario, results) in results {
        section(&mut page, scenario, results.as_ref());
    }
    set_up(&mut page);
    _ = writeln!(page, "<script>{SCRIPT}</script></html>");
    page
}

fn introduction(page: &mut String, measured: &[(&Scenario, &Results)]) {
    page.push_str(
        "<p>Servers side by side on one machine, in turn, round by round. Figures are medians; in brackets and as thin \
         lines the interval that holds the true median with the confidence that the samples allow (94 % with five, 75 % \
         with three). CPU time is that of the server's whole process tree, user and system, divided by the answers. \
         Latency counts from the moment a request is made to the last byte of its answer.",
    );
    if let Some((_, results)) = measured.first() {
        let header = &results.header;
        _ = write!(page, "<p>Machine: {}. ", escaped(&header.machine.describe()));
        _ = write!(
            page,
            "Servers on processors {:?}, load on {:?}.",
            header.server_processors, header.client_processors
        );
        let quick = measured.iter().filter(|(_, results)| results.header.quick).count();
        if quick > 0 {
            let were = if quick == 1 { "was" } else { "were" };
            _ = write!(
                page,
                " <strong>{quick} of {} {were} run with --quick</strong>: fewer points and rounds.",
                count(measured.len(), "scenario")
            );
        }
    }
}

/// Lamna against every peer, scenario by scenario.
fn headline(page: &mut String, measured: &[(&Scenario, &Results)]) {
    for measure in &MEASURES {
        _ = write!(page, "<h2>Lamna and every peer: {}</h2>", escaped(&measure.title.replace('`', "")));
        page.push_str(
            "<p>Lamna's figure divided by the peer's; below 1 Lamna needs less. For each scenario the best engine and, as \
             <i>lamna</i>, the one that the server chooses itself; the geometric mean over all places of a sweep.\
             <div class=wide><table><tr><th>scenario<th>Lamna",
        );
        peers().iter().for_each(|peer| _ = write!(page, "<th>{peer}"));
        for line in lines(measured, measure) {
            let (scenario, server) = (escaped(&line.scenario), escaped(&line.server));
            _ = write!(page, "<tr><th><a href='#{scenario}'>{scenario}</a><td>{server}");
            for ratio in &line.ratios {
                match ratio {
                    Some(ratio) => {
                        let class = if *ratio <= 1.0 { "good" } else { "bad" };
                        _ = write!(page, "<td class='number {class}'>{}", format_number(*ratio));
                    }
                    None => page.push_str("<td>"),
                }
            }
        }
        page.push_str("</table></div>");
    }
}

fn tally(scenario: &Scenario, results: &Results) -> String {
    let verdicts = verdicts(scenario, results);
    let count = |holds| verdicts.iter().filter(|verdict| verdict.holds == holds).count();
    let parts = [(count(Some(true)), "hold"), (count(Some(false)), "do not hold"), (count(None), "not checked")];
    let parts: Vec<String> =
        parts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
    if parts.is_empty() { String::new() } else { format!(": of its claims {}", parts.join(", ")) }
}

fn section(page: &mut String, scenario: &Scenario, results: Option<&Results>) {
    let text = |text: &str| escaped(text);
    _ = write!(
        page,
        "<section id='{}'><h2>{}</h2><p class=question>{}<dl><dt>Source<dd>{}<dt>Found there<dd>{}<dt>Expected here<dd>{}",
        text(&scenario.name),
        text(&scenario.title),
        text(&scenario.question),
        text(&scenario.source),
        text(&scenario.finding),
        text(&scenario.expected)
    );
    let Some(results) = results else {
        page.push_str("</dl><p><strong>Not measured.</strong></section>");
        return;
    };
    let verdicts = verdicts(scenario, results);
    _ = write!(page, "<dt>Found here<dd><p><b>{}.</b> {}<ul>", text(&sentence(&verdicts)), text(&scenario.reading));
    for verdict in verdicts {
        let (class, word) = match verdict.holds {
            Some(true) => ("good", "Holds"),
            Some(false) => ("bad", "Does not hold"),
            None => ("", "Not checked"),
        };
        _ = write!(page, "<li><b class={class}>{word}</b>: {}. {}", text(&verdict.claim), text(&verdict.detail));
    }
    page.push_str("</ul></dl>");
    let points = scenario.points(results.header.quick);
    if scenario.procedure == Procedure::Whitebox {
        points.iter().for_each(|point| stack(page, results, point));
    }
    let is_alone = |metric: &&&Metric| scenario.procedure != Procedure::Whitebox || !is_share(metric);
    for metric in metrics(scenario).iter().filter(is_alone) {
        points.chunk_by(|a, b| a.panel == b.panel).for_each(|panel| plot(page, scenario, results, panel, metric));
    }
    page.push_str("<details><summary>Figures</summary>");
    points.iter().for_each(|point| table(page, scenario, point, &rows(scenario, results, point)));
    page.push_str("</details>");
    circumstances(page, results);
    page.push_str("</section>");
}

/// Whether it is one of the shares that are drawn as one bar.
fn is_share(metric: &Metric) -> bool {
    Category::ALL.iter().any(|category| category.metric() == metric.name)
}

/// The breakdown of each server's time.
fn stack(page: &mut String, results: &Results, point: &Point) {
    let median = |server: &str, category: Category| {
        results.estimate(server, &point.label, category.metric()).map_or(0.0, |estimate| estimate.median)
    };
    let bar = |server: &str| (server.to_owned(), Category::ALL.map(|category| median(server, category)).to_vec());
    let mut bars: Vec<(String, Vec<f64>)> = results.servers().into_iter().map(bar).collect();
    bars.retain(|(_, parts)| parts.iter().sum::<f64>() > 0.0);
    let titles = Category::ALL.map(|category| Metric::named(category.metric()).map_or("", |metric| metric.title));
    if !bars.is_empty() {
        _ = write!(page, "<figure>{}</figure>", svg::stacks("Share of CPU time per request (%)", &titles, &bars));
    }
}

fn plot(page: &mut String, scenario: &Scenario, results: &Results, panel: &[Point], metric: &Metric) {
    let servers = results.servers();
    let value = |server: &str, point: &Point| results.estimate(server, &point.label, metric.name);
    if let (Some(name), Some(sweep)) = (panel.first().and_then(|point| point.panel.as_ref()), &scenario.panel) {
        _ = write!(page, "<h3>{}: {}</h3>", escaped(sweep.parameter.title()), escaped(name));
    }
    let drawing = match &scenario.sweep {
        Some(sweep) => {
            let places: Vec<String> = panel.iter().filter_map(|point| point.place.clone()).collect();
            let series: Vec<Series> = servers
                .iter()
                .map(|server| Series {
                    name: (*server).to_owned(),
                    colour: colour(server),
                    values: panel.iter().map(|point| value(server, point)).collect(),
                })
                .filter(|series| series.values.iter().any(Option::is_some))
                .collect();
            svg::lines(sweep.parameter.title(), &metric.label(), &places, &series)
        }
        None => {
            let Some(point) = panel.first() else { return };
            let mut bars: Vec<_> = servers
                .iter()
                .filter_map(|server| Some(((*server).to_owned(), colour(server), value(server, point)?)))
                .collect();
            bars.sort_by(|a, b| a.2.median.total_cmp(&b.2.median));
            if !metric.less_is_better {
                bars.reverse();
            }
            svg::bars(&metric.label(), &bars)
        }
    };
    _ = write!(page, "<figure>{drawing}</figure>");
}

/// The same server has the same colour everywhere.
fn colour(server: &str) -> usize {
    const NAMES: [&str; 17] = [
        "lamna-amped",
        "lamna-sped",
        "lamna-pipelined",
        "lamna-thread-pool",
        "lamna-thread-per-session",
        "lamna-thread-per-request",
        "nginx",
        "h2o",
        "lighttpd",
        "apache",
        "caddy",
        "apache-prefork",
        "nginx-threads",
        "nginx-stock",
        "lamna-proactor",
        "lamna-auto",
        "lamna-mp",
    ];
    NAMES.iter().position(|name| *name == server).unwrap_or(server.len())
}

fn table(page: &mut String, scenario: &Scenario, point: &Point, rows: &[Row]) {
    if rows.is_empty() {
        return;
    }
    _ = write!(page, "<h3>{}</h3><div class=wide><table><tr><th>server", escaped(&point.label));
    metrics(scenario).iter().for_each(|metric| _ = write!(page, "<th>{}", escaped(&metric.label())));
    for row in rows {
        _ = write!(page, "<tr><th>{}", escaped(&row.server));
        row.cells.iter().for_each(|cell| _ = write!(page, "<td class=number>{}", escaped(cell)));
    }
    page.push_str("</table></div>");
}

fn circumstances(page: &mut String, results: &Results) {
    let header = &results.header;
    let doubts = results.doubts();
    for (doubt, count) in &doubts {
        _ = write!(page, "<p class=doubt>{count} measurements in doubt: {}", escaped(doubt));
    }
    _ = write!(page, "<details><summary>Command and versions</summary><pre>{}</pre><ul>", escaped(&header.command));
    for (server, version) in &header.versions {
        _ = write!(page, "<li>{}: {}", escaped(server), escaped(version));
    }
    _ = write!(
        page,
        "</ul><p>{}. Each measurement {} s.</details>",
        escaped(&header.machine.describe()),
        header.seconds
    );
}

fn set_up(page: &mut String) {
    page.push_str("<section id=peers><h2>How the peers are set up</h2><dl>");
    for peer in PEERS {
        _ = write!(page, "<dt>{}<dd>{}", escaped(peer.name), escaped(peer.note));
    }
    page.push_str("</dl><h2>Metrics</h2><dl>");
    for metric in METRICS {
        let better = if metric.less_is_better { "less is better" } else { "more is better" };
        _ = write!(page, "<dt>{}<dd>{}, {better}", metric.name, escaped(&metric.label()));
    }
    page.push_str("</dl></section>");
}
