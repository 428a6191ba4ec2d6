//! Line charts as one SVG without scripts, fonts or references: panels in rows of two, one legend for all.

use std::fmt::Write;

const COLOURS: [&str; 10] =
    ["#c1121f", "#0077b6", "#2a9d8f", "#e09f3e", "#5f0f99", "#6c757d", "#9c6644", "#ff70a6", "#386641", "#000000"];
const PANEL: (f64, f64) = (430.0, 300.0);
const MARGIN: (f64, f64, f64, f64) = (62.0, 14.0, 34.0, 44.0);
const LEGEND_HEIGHT: f64 = 34.0;

/// One curve.
pub struct Series {
    /// In the legend. Series of the same name have the same colour in every panel.
    pub name: String,
    /// In order of x.
    pub points: Vec<(f64, f64)>,
}

/// One pair of axes. Both start at zero.
pub struct Panel {
    /// Above it.
    pub title: String,
    /// With its unit.
    pub x: String,
    /// With its unit.
    pub y: String,
    /// Curves.
    pub series: Vec<Series>,
}

/// Draws the panels.
pub fn svg(title: &str, panels: &[Panel]) -> String {
    let columns = panels.len().clamp(1, 2);
    let rows = panels.len().div_ceil(columns);
    let (width, height) = (PANEL.0 * columns as f64, PANEL.1 * rows as f64 + LEGEND_HEIGHT + 24.0);
    let mut names: Vec<&str> = Vec::new();
    for series in panels.iter().flat_map(|panel| &panel.series) {
        if !names.contains(&series.name.as_str()) {
            names.push(&series.name);
        }
    }
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
         font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"12\" y=\"18\" font-size=\"14\" font-weight=\"bold\">{}</text>\n",
        escaped(title)
    );
    let step = width / names.len().max(1) as f64;
    for (index, name) in names.iter().enumerate() {
        let x = 12.0 + index as f64 * step;
        let colour = COLOURS[index % COLOURS.len()];
        let _ = writeln!(
            out,
            "<line x1=\"{x:.1}\" y1=\"36\" x2=\"{:.1}\" y2=\"36\" stroke=\"{colour}\" stroke-width=\"3\"/>\
             <text x=\"{:.1}\" y=\"40\">{}</text>",
            x + 16.0,
            x + 20.0,
            escaped(name)
        );
    }
    for (index, panel) in panels.iter().enumerate() {
        let x = (index % columns) as f64 * PANEL.0;
        let y = (index / columns) as f64 * PANEL.1 + LEGEND_HEIGHT + 16.0;
        let _ = writeln!(out, "<g transform=\"translate({x},{y})\">");
        draw(&mut out, panel, &names);
        out.push_str("</g>\n");
    }
    out.push_str("</svg>\n");
    out
}

fn draw(out: &mut String, panel: &Panel, names: &[&str]) {
    let (left, right, top, bottom) = (MARGIN.0, PANEL.0 - MARGIN.1, MARGIN.2, PANEL.1 - MARGIN.3);
    let points = || panel.series.iter().flat_map(|series| &series.points);
    let x_max = points().map(|point| point.0).fold(0.0, f64::max).max(1e-9);
    let (y_step, y_count) = ticks(points().map(|point| point.1).fold(0.0, f64::max).max(1e-9));
    let (x_step, x_count) = ticks(x_max);
    let y_max = y_step * y_count as f64;
    let at = |(x, y): (f64, f64)| (left + x / x_max * (right - left), bottom - y / y_max * (bottom - top));
    let _ = writeln!(
        out,
        "<text x=\"{left}\" y=\"{}\" font-weight=\"bold\">{}</text><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\
         <text transform=\"translate(12,{:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
        top - 8.0,
        escaped(&panel.title),
        (left + right) / 2.0,
        PANEL.1 - 10.0,
        escaped(&panel.x),
        (top + bottom) / 2.0,
        escaped(&panel.y)
    );
    for tick in 0..=y_count {
        let value = tick as f64 * y_step;
        let (_, y) = at((0.0, value));
        let _ = writeln!(
            out,
            "<line x1=\"{left}\" y1=\"{y:.1}\" x2=\"{right}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            left - 5.0,
            y + 4.0,
            number(value)
        );
    }
    for value in (0..=x_count).map(|tick| tick as f64 * x_step).filter(|&value| value <= x_max * 1.0001) {
        let (x, _) = at((value, 0.0));
        let _ = writeln!(
            out,
            "<line x1=\"{x:.1}\" y1=\"{bottom}\" x2=\"{x:.1}\" y2=\"{:.1}\" stroke=\"#888\"/>\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            bottom + 4.0,
            bottom + 16.0,
            number(value)
        );
    }
    for series in &panel.series {
        let colour = names.iter().position(|name| *name == series.name).unwrap_or(0) % COLOURS.len();
        let path: String =
            series.points.iter().map(|&point| at(point)).map(|(x, y)| format!("{x:.1},{y:.1} ")).collect();
        let _ = writeln!(
            out,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.8\"><title>{}</title></polyline>",
            path.trim_end(),
            COLOURS[colour],
            escaped(&series.name)
        );
    }
}

/// Distance and number of about five ticks that reach `max`, at 1, 2 or 5 times a power of ten.
fn ticks(max: f64) -> (f64, usize) {
    let raw = max / 5.0;
    let power = 10_f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|factor| factor * power).find(|step| *step >= raw * 0.999);
    let step = step.unwrap_or(10.0 * power);
    (step, (max / step - 1e-9).ceil().max(1.0) as usize)
}

fn number(value: f64) -> String {
    let text = format!("{value:.3}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// `text` between tags of HTML or SVG, and in attributes in quotes of either kind.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;").replace('\'', "&#39;")
}
