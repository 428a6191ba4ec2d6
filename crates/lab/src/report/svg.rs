//! Plots as SVG: lines over a sweep, bars without one.
//!
//! Guarantees: readable without scripts and styles (every mark has a title with its figures), drawn in the colours of
//! the page (`currentColor` and the classes `s0` to `s11`), no external references. All text is escaped.

use std::fmt::Write as _;

use lamna_sim::report::escaped;

use crate::metric::format_number;
use crate::statistics::Estimate;

/// Colours before they repeat; the page gives them.
pub const COLOURS: usize = 12;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 70.0;
const BOTTOM: f64 = 46.0;
const TOP: f64 = 12.0;
const LEGEND: f64 = 190.0;
const BAR: f64 = 22.0;

/// One line of a plot.
#[derive(Clone, Debug)]
pub struct Series {
    /// In the legend.
    pub name: String,
    /// Which colour.
    pub colour: usize,
    /// One for each place; none where it was not measured.
    pub values: Vec<Option<Estimate>>,
}

/// Lines over places in their order, evenly spaced, since sweeps are chosen so.
pub fn lines(x_title: &str, y_title: &str, places: &[String], series: &[Series]) -> String {
    let highest = series.iter().flat_map(|series| &series.values).flatten().map(|value| value.high).fold(0.0, f64::max);
    let scale = Scale::new(highest);
    let right = WIDTH - LEGEND;
    let step = (right - LEFT) / places.len().max(1) as f64;
    let x = |place: usize| LEFT + (place as f64 + 0.5) * step;
    let y = |value: f64| HEIGHT - BOTTOM - value / scale.top * (HEIGHT - BOTTOM - TOP);
    let mut text = open(WIDTH, HEIGHT, y_title);
    for tick in scale.ticks() {
        let at = y(tick);
        _ = write!(
            text,
            "<line class=grid x1={LEFT} y1={at:.1} x2={right} y2={at:.1} stroke=currentColor stroke-opacity=.15 />\
             <text x={:.1} y={:.1} text-anchor=end>{}</text>",
            LEFT - 6.0,
            at + 4.0,
            format_number(tick)
        );
    }
    for (number, place) in places.iter().enumerate() {
        let (at, below) = (x(number), HEIGHT - BOTTOM + 18.0);
        _ = write!(text, "<text x={at:.1} y={below:.1} text-anchor=middle>{}</text>", escaped(place));
    }
    _ = write!(
        text,
        "<text x={:.1} y={:.1} text-anchor=middle>{}</text>\
         <text x=14 y={:.1} text-anchor=middle transform='rotate(-90 14 {:.1})'>{}</text>",
        (LEFT + right) / 2.0,
        HEIGHT - 6.0,
        escaped(x_title),
        HEIGHT / 2.0,
        HEIGHT / 2.0,
        escaped(y_title)
    );
    for (number, series) in series.iter().enumerate() {
        line(&mut text, series, places, &x, &y);
        let at = TOP + 10.0 + number as f64 * 18.0;
        _ = write!(
            text,
            "<g class='key s{}' data-series='{}'><rect x={:.1} y={:.1} width=12 height=4 fill=currentColor />\
             <text x={:.1} y={:.1}>{}</text></g>",
            series.colour % COLOURS,
            escaped(&series.name),
            right + 12.0,
            at - 6.0,
            right + 30.0,
            at,
            escaped(&series.name)
        );
    }
    text + "</svg>"
}

fn line(text: &mut String, series: &Series, places: &[String], x: &dyn Fn(usize) -> f64, y: &dyn Fn(f64) -> f64) {
    let points: Vec<(usize, &Estimate)> =
        series.values.iter().enumerate().filter_map(|(place, value)| Some((place, value.as_ref()?))).collect();
    _ = write!(text, "<g class='series s{}' data-series='{}'>", series.colour % COLOURS, escaped(&series.name));
    let path: Vec<String> =
        points.iter().map(|(place, value)| format!("{:.1},{:.1}", x(*place), y(value.median))).collect();
    _ = write!(
        text,
        "<polyline points='{}' fill=none stroke=currentColor stroke-width=1.8{} />",
        path.join(" "),
        // Colours that come round again are dashed.
        if series.colour < COLOURS { "" } else { " stroke-dasharray='6 4'" }
    );
    for (place, value) in points {
        let (at, title) = (x(place), title(&series.name, &places[place], value));
        _ = write!(
            text,
            "<line x1={at:.1} x2={at:.1} y1={:.1} y2={:.1} stroke=currentColor stroke-opacity=.5 />\
             <circle cx={at:.1} cy={:.1} r=3.4 fill=currentColor><title>{}</title></circle>",
            y(value.low),
            y(value.high),
            y(value.median),
            escaped(&title)
        );
    }
    text.push_str("</g>");
}

/// A bar for each name, in the order given, with the interval as a whisker.
pub fn bars(title: &str, bars: &[(String, usize, Estimate)]) -> String {
    let highest = bars.iter().map(|(.., value)| value.high).fold(0.0, f64::max);
    let scale = Scale::new(highest);
    let left = 190.0;
    let height = TOP + bars.len() as f64 * BAR + 30.0;
    let x = |value: f64| left + value / scale.top * (WIDTH - left - 90.0);
    let mut text = open(WIDTH, height, title);
    for (number, (name, colour, value)) in bars.iter().enumerate() {
        let y = TOP + number as f64 * BAR;
        let middle = y + BAR / 2.0;
        _ = write!(
            text,
            "<g class='series s{}' data-series='{name}'><rect x={left} y={:.1} width={:.1} height={:.1} fill=currentColor \
             fill-opacity=.75><title>{}</title></rect><line x1={:.1} x2={:.1} y1={middle:.1} y2={middle:.1} \
             stroke=currentColor stroke-width=2 /></g><text x={:.1} y={:.1} text-anchor=end>{name}</text>\
             <text x={:.1} y={:.1}>{}</text>",
            colour % COLOURS,
            y + 3.0,
            x(value.median) - left,
            BAR - 6.0,
            escaped(&self::title(name, "", value)),
            x(value.low),
            x(value.high),
            left - 8.0,
            middle + 4.0,
            x(value.high) + 8.0,
            middle + 4.0,
            format_number(value.median),
            name = escaped(name),
        );
    }
    _ = write!(
        text,
        "<text x={:.1} y={:.1} text-anchor=middle>{}</text>",
        (left + WIDTH) / 2.0,
        height - 8.0,
        escaped(title)
    );
    text + "</svg>"
}

/// For each name a bar of parts, as shares of their sum, with the sum behind it.
pub fn stacks(title: &str, parts: &[&str], bars: &[(String, Vec<f64>)]) -> String {
    let left = 190.0;
    let columns = 3;
    let legend = (parts.len().div_ceil(columns) as f64) * 18.0 + 8.0;
    let height = TOP + bars.len() as f64 * BAR + 34.0 + legend;
    let whole = WIDTH - left - 90.0;
    let mut text = open(WIDTH, height, title);
    for (number, (name, values)) in bars.iter().enumerate() {
        let top = TOP + number as f64 * BAR;
        let sum = values.iter().sum::<f64>().max(f64::MIN_POSITIVE);
        let mut at = left;
        _ = write!(text, "<text x={:.1} y={:.1} text-anchor=end>{}</text>", left - 8.0, top + 15.0, escaped(name));
        for (colour, (part, value)) in parts.iter().zip(values).enumerate() {
            let (share, width) = (value / sum * 100.0, value / sum * whole);
            _ = write!(
                text,
                "<g class=s{colour}><rect x={at:.1} y={:.1} width={width:.1} height={:.1} fill=currentColor \
                 fill-opacity=.8><title>{}: {} {share:.1} % ({})</title></rect></g>",
                top + 3.0,
                BAR - 6.0,
                escaped(name),
                escaped(part),
                format_number(*value)
            );
            if share >= 6.0 {
                let middle = at + width / 2.0;
                _ = write!(
                    text,
                    "<text x={middle:.1} y={:.1} text-anchor=middle class=inside>{share:.0}</text>",
                    top + 15.0
                );
            }
            at += width;
        }
        _ = write!(text, "<text x={:.1} y={:.1}>{} us</text>", left + whole + 8.0, top + 15.0, format_number(sum));
    }
    let below = TOP + bars.len() as f64 * BAR + 18.0;
    _ = write!(text, "<text x={:.1} y={below:.1} text-anchor=middle>{}</text>", left + whole / 2.0, escaped(title));
    for (number, part) in parts.iter().enumerate() {
        let x = 20.0 + (number % columns) as f64 * 245.0;
        let y = below + 24.0 + (number / columns) as f64 * 18.0;
        _ = write!(
            text,
            "<g class=s{number}><rect x={x:.1} y={:.1} width=12 height=12 fill=currentColor fill-opacity=.8 /></g>\
             <text x={:.1} y={y:.1}>{}</text>",
            y - 11.0,
            x + 18.0,
            escaped(part)
        );
    }
    text + "</svg>"
}

fn open(width: f64, height: f64, title: &str) -> String {
    format!(
        "<svg viewBox='0 0 {width} {height}' role=img aria-label='{0}' font-family=sans-serif font-size=12 fill=currentColor>\
         <title>{0}</title>",
        escaped(title)
    )
}

fn title(name: &str, place: &str, value: &Estimate) -> String {
    let at = if place.is_empty() { String::new() } else { format!(" at {place}") };
    format!(
        "{name}{at}: {} ({} to {}, {} samples)",
        format_number(value.median),
        format_number(value.low),
        format_number(value.high),
        value.samples
    )
}

/// From zero to a round number.
struct Scale {
    top: f64,
    step: f64,
}

impl Scale {
    fn new(highest: f64) -> Scale {
        if !(highest > 0.0 && highest.is_finite()) {
            return Scale { top: 1.0, step: 0.25 };
        }
        let rough = highest / 5.0;
        let magnitude = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().map(|factor| factor * magnitude).find(|&step| step >= rough);
        let step = step.unwrap_or(10.0 * magnitude);
        Scale { top: (highest / step).ceil() * step, step }
    }

    fn ticks(&self) -> impl Iterator<Item = f64> + '_ {
        (0..=(self.top / self.step).round() as usize).map(|number| number as f64 * self.step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::estimate;

    #[test]
    fn scales_end_on_round_numbers() {
        for (highest, top) in [(7.3, 8.0), (100.0, 100.0), (0.011, 0.0125), (0.0, 1.0), (f64::NAN, 1.0)] {
            let scale = Scale::new(highest);
            assert!((scale.top - top).abs() < 1e-9, "{highest}: {}", scale.top);
            assert!(scale.ticks().count() <= 7);
        }
    }

    #[test]
    fn every_mark_has_a_title_and_names_are_escaped() {
        let value = estimate([1.0, 2.0, 3.0]).expect("there are samples");
        let series = Series { name: "<a&'b'>".into(), colour: 13, values: vec![Some(value), None] };
        let text = lines("x", "y", &["1".into(), "2".into()], &[series]);
        assert_eq!(text.matches("<circle").count(), 1);
        assert!(
            text.contains("<title>&lt;a&amp;&#39;b&#39;&gt; at 1: 2.00 (1.00 to 3.00, 3 samples)</title>"),
            "{text}"
        );
        assert!(!text.contains("<a&"));
        let text = stacks("t", &["<p>"], &[("<b>".into(), vec![2.0])]);
        assert!(text.contains("&lt;b&gt;: &lt;p&gt; 100.0 % (2.00)") && !text.contains("<b>"));
        let text = bars("t", &[("<b>".into(), 0, value)]);
        assert!(text.contains("&lt;b&gt;") && !text.contains("<b>"));
    }
}
