//! The phases as a plot over time: one SVG with everything in it.
//!
//! Above, good answers a second of every engine on a logarithmic scale, because the phases differ by a factor of a
//! thousand; below, `auto` by the best fixed engine at the same moment. Changes of engine are lines through both.
//! Guarantees: no script and no external reference; readable on a light and a dark page; all text is escaped.

use std::fmt::Write as _;

use lamna_sim::report::escaped;

use super::run::{Run, STEP_MS, switches};
use super::verdict::{REACHED, comparable, standing};
use super::workload::Phase;
use super::{AUTO, ENGINES};

const WIDTH: f64 = 1100.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 930.0;
/// The upper drawing, from its top to its bottom, and the lower one.
const UPPER: (f64, f64) = (40.0, 360.0);
const LOWER: (f64, f64) = (400.0, 540.0);
const HEIGHT: f64 = 570.0;
/// The scales' ends.
const RATES: (f64, f64) = (100.0, 200_000.0);
const RATIO_MAX: f64 = 1.25;
/// As many colours as fixed engines, in their order; told apart on white and on black.
const COLOURS: [&str; 9] =
    ["#e8590c", "#1c7ed6", "#0ca678", "#9c36b5", "#e03131", "#868e96", "#c2a200", "#74b816", "#15aabf"];

/// The plot of the first round of each engine.
pub(super) fn svg(runs: &[Run]) -> String {
    let runs: Vec<&Run> = runs.chunk_by(|a, b| a.engine == b.engine).map(|rounds| &rounds[0]).collect();
    let mut text = format!(
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {HEIGHT}' font-family='sans-serif' font-size='12' \
         fill='currentColor' role='img'><title>Requests a second over time, phase by phase</title><style>\
         svg {{ color: #1c1e21; background: #fff }} @media (prefers-color-scheme: dark) {{ svg {{ color: #e6e8ea; \
         background: #15171a }} }}</style>"
    );
    let seconds = runs.first().map_or(1.0, |run| run.seconds);
    frame(&mut text, seconds);
    for (place, run) in runs.iter().enumerate() {
        engine(&mut text, run, seconds, place);
    }
    if let Some(auto) = runs.iter().find(|run| run.engine == AUTO) {
        ratio(&mut text, auto, &runs, seconds);
        changes(&mut text, auto, seconds);
    }
    text + "</svg>\n"
}

/// Where a moment of a phase is: phases are drawn side by side, without the pauses between them.
fn x(phase: usize, at_s: f64, seconds: f64) -> f64 {
    let width = (RIGHT - LEFT) / Phase::ALL.len() as f64;
    LEFT + (phase as f64 + (at_s / seconds).clamp(0.0, 1.0)) * width
}

fn rate_y(per_second: f64) -> f64 {
    let share = (per_second.clamp(RATES.0, RATES.1) / RATES.0).ln() / (RATES.1 / RATES.0).ln();
    UPPER.1 - share * (UPPER.1 - UPPER.0)
}

fn ratio_y(ratio: f64) -> f64 {
    LOWER.1 - ratio.clamp(0.0, RATIO_MAX) / RATIO_MAX * (LOWER.1 - LOWER.0)
}

fn frame(text: &mut String, seconds: f64) {
    let mut rule = |y: f64, label: &str, dashes: &str| {
        _ = write!(
            text,
            "<line x1='{LEFT}' x2='{RIGHT}' y1='{y:.1}' y2='{y:.1}' stroke='currentColor' stroke-opacity='.2'{dashes}/>\
             <text x='{:.1}' y='{:.1}' text-anchor='end'>{label}</text>",
            LEFT - 6.0,
            y + 4.0
        );
    };
    for (rate, label) in [(100.0, "100"), (1e3, "1,000"), (1e4, "10,000"), (1e5, "100,000")] {
        rule(rate_y(rate), label, "");
    }
    for (ratio, label) in [(0.0, "0 %"), (0.5, "50 %"), (1.0, "100 %")] {
        rule(ratio_y(ratio), label, "");
    }
    rule(ratio_y(REACHED), "", " stroke-dasharray='4 3'");
    let (beside, y) = (RIGHT + 6.0, ratio_y(REACHED) + 4.0);
    _ = write!(text, "<text x='{beside}' y='{y:.1}'>{:.0} %</text>", REACHED * 100.0);
    for (number, phase) in Phase::ALL.into_iter().enumerate() {
        let (from, to) = (x(number, 0.0, seconds), x(number, seconds, seconds));
        _ = write!(
            text,
            "<line x1='{to:.1}' x2='{to:.1}' y1='{}' y2='{}' stroke='currentColor' stroke-opacity='.4'/>\
             <text x='{:.1}' y='{:.1}' text-anchor='middle' font-weight='bold'>{}</text>\
             <text x='{:.1}' y='{:.1}' text-anchor='middle'>{seconds:.0} s</text>",
            UPPER.0,
            LOWER.1,
            (from + to) / 2.0,
            UPPER.0 - 20.0,
            escaped(phase.name()),
            (from + to) / 2.0,
            LOWER.1 + 18.0
        );
    }
    for (y, title) in [((UPPER.0 + UPPER.1) / 2.0, "good answers a second"), ((LOWER.0 + LOWER.1) / 2.0, "auto / best")]
    {
        _ = write!(text, "<text x='14' y='{y}' text-anchor='middle' transform='rotate(-90 14 {y})'>{title}</text>");
    }
}

/// An engine's line and its name.
fn engine(text: &mut String, run: &Run, seconds: f64, place: usize) {
    let number = ENGINES.iter().position(|engine| *engine == run.engine).unwrap_or(0);
    let is_auto = run.engine == AUTO;
    let colour = if is_auto { "currentColor" } else { COLOURS[(number + COLOURS.len() - 1) % COLOURS.len()] };
    let (width, opacity) = if is_auto { (2.4, 1.0) } else { (1.3, 0.75) };
    _ = write!(text, "<g fill='none' stroke='{colour}' stroke-width='{width}' stroke-opacity='{opacity}'>");
    for (number, phase) in Phase::ALL.into_iter().enumerate() {
        let Some(phase) = run.phases.iter().find(|found| found.phase == phase.name()) else { continue };
        polyline(text, &phase.series, |at_s, rate| (x(number, at_s, seconds), rate_y(rate)));
    }
    let y = UPPER.0 + 14.0 + place as f64 * 20.0;
    _ = write!(
        text,
        "<line x1='{:.1}' x2='{:.1}' y1='{y:.1}' y2='{y:.1}'/></g><text x='{:.1}' y='{:.1}'>{}</text>",
        RIGHT + 14.0,
        RIGHT + 38.0,
        RIGHT + 44.0,
        y + 4.0,
        escaped(&run.engine)
    );
}

/// `auto` by the engine that is the best of each phase, step by step.
fn ratio(text: &mut String, auto: &Run, runs: &[&Run], seconds: f64) {
    let all = comparable(&runs.iter().map(|run| (*run).clone()).collect::<Vec<_>>());
    text.push_str("<g fill='none' stroke='currentColor' stroke-width='2'>");
    for (number, phase) in Phase::ALL.into_iter().enumerate() {
        let Some(standing) = standing(&all, phase) else { continue };
        let series = |run: &Run| {
            let found = run.phases.iter().find(|found| found.phase == phase.name());
            found.map_or_else(Vec::new, |found| found.series.clone())
        };
        let best = runs.iter().find(|run| run.engine == standing.best.engine).map_or_else(Vec::new, |run| series(run));
        let ratios: Vec<f64> = series(auto).iter().zip(&best).map(|(own, best)| own / best.max(1.0)).collect();
        polyline(text, &ratios, |at_s, ratio| (x(number, at_s, seconds), ratio_y(ratio)));
    }
    text.push_str("</g>");
}

fn changes(text: &mut String, auto: &Run, seconds: f64) {
    let mut place = 0;
    for (said, engine) in switches(&auto.said) {
        let Some(number) = auto.phases.iter().rposition(|phase| phase.began_s <= said.at_s) else { continue };
        let at = x(number, said.at_s - auto.phases[number].began_s, seconds);
        // Names of changes that follow each other closely stand below each other.
        let y = LOWER.0 - 26.0 + f64::from(place % 3) * 12.0;
        place += 1;
        _ = write!(
            text,
            "<g><title>{}</title><line x1='{at:.1}' x2='{at:.1}' y1='{}' y2='{}' stroke='currentColor' stroke-dasharray='2 2'/>\
             <text x='{:.1}' y='{y:.1}' font-size='10'>{}</text></g>",
            escaped(&said.line),
            UPPER.0,
            LOWER.1,
            at + 3.0,
            escaped(engine)
        );
    }
}

fn polyline(text: &mut String, values: &[f64], place: impl Fn(f64, f64) -> (f64, f64)) {
    let points = values.iter().enumerate().map(|(step, value)| {
        let (x, y) = place((step as f64 + 0.5) * STEP_MS as f64 / 1e3, *value);
        format!("{x:.1},{y:.1}")
    });
    _ = write!(text, "<polyline points='{}'/>", points.collect::<Vec<_>>().join(" "));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scales_stay_within_their_drawings() {
        for rate in [0.0, 100.0, 5e4, 1e9] {
            assert!((UPPER.0..=UPPER.1).contains(&rate_y(rate)), "{rate}");
        }
        for ratio in [0.0, 0.92, 7.0] {
            assert!((LOWER.0..=LOWER.1).contains(&ratio_y(ratio)), "{ratio}");
        }
        assert!(x(5, 99.0, 8.0) <= RIGHT && x(0, 0.0, 8.0) >= LEFT);
    }

    #[test]
    fn without_runs_there_is_an_empty_frame() {
        let text = svg(&[]);
        assert!(text.starts_with("<svg") && text.trim_end().ends_with("</svg>") && !text.contains("polyline"));
    }
}
