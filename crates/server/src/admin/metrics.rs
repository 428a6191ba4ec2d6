//! Status and figures for Prometheus: its text format, version 0.0.4.
//!
//! Owns: the format. Names, kinds and help are those of rows: of counters ([`super::figures`]), and of things
//! ([`FAMILIES`]). The standard HTTP metrics have the names of OpenTelemetry's semantic conventions as they are
//! translated for Prometheus; what OpenTelemetry has no name for begins with `lamna_`.

use std::fmt::{self, Write as _};

use lamna_proto::counter::{Kind, Unit};
use lamna_proto::tally::{BUCKETS, bound_us};

use super::api::{Stats, Status};
use super::duration::Distribution;
use super::families::FAMILIES;
use super::figures::{Figure, Figures};

/// The media type of the exposition.
pub(super) const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The exposition.
pub(super) fn render(status: &Status, stats: &Stats) -> String {
    let mut page = Page::default();
    page.figures(&stats.figures);
    for family in FAMILIES {
        let samples = family.samples(status, stats);
        if !samples.is_empty() {
            page.family(family.name, family.kind, family.help);
        }
        for (values, value) in samples {
            let labels: Vec<_> = family.labels.iter().copied().zip(values).collect();
            page.sample(family.name, &labels, &value);
        }
    }
    page.text
}

/// Microseconds as seconds, exactly.
pub(super) fn seconds(microseconds: u64) -> String {
    let text = format!("{}.{:06}", microseconds / 1_000_000, microseconds % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A label's value (exposition formats, "Comments, help text, and type information").
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// The text so far.
#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    /// Rows of the same metric stand together, behind what all of them are.
    fn figures(&mut self, figures: &Figures) {
        let all: Vec<&Figure> = figures.iter().collect();
        for (index, first) in all.iter().enumerate() {
            let name = first.row.name;
            if all[..index].iter().any(|other| other.row.name == name) {
                continue;
            }
            let of_family: Vec<&Figure> = all[index..].iter().filter(|other| other.row.name == name).copied().collect();
            if of_family.iter().all(|figure| figure.values.is_none()) {
                continue;
            }
            let help = of_family.iter().find_map(|figure| figure.row.family).unwrap_or(first.row.help);
            self.family(name, first.row.kind, help);
            of_family.iter().for_each(|figure| self.figure(figure));
        }
    }

    fn figure(&mut self, figure: &Figure) {
        if let Some(durations) = figure.distribution() {
            return self.distribution(figure.row.name, &durations);
        }
        for (labels, value) in figure.samples() {
            let value = match figure.row.unit {
                Unit::Count | Unit::Bytes => value.to_string(),
                Unit::Microseconds => seconds(value),
                Unit::Milliseconds => seconds(value * 1000),
            };
            self.sample(figure.row.name, &labels, &value);
        }
    }

    fn distribution(&mut self, name: &str, durations: &Distribution) {
        let mut below = 0;
        for bucket in 0..BUCKETS {
            below += durations.buckets[bucket];
            let bound = bound_us(bucket).map_or("+Inf".to_owned(), seconds);
            self.sample(&format!("{name}_bucket"), &[("le", bound)], &below.to_string());
        }
        self.sample(&format!("{name}_sum"), &[], &seconds(durations.sum_us));
        self.sample(&format!("{name}_count"), &[], &below.to_string());
    }

    fn family(&mut self, name: &str, kind: Kind, help: &str) {
        self.line(format_args!("# HELP {name} {help}"));
        self.line(format_args!("# TYPE {name} {}", kind.name()));
    }

    fn sample(&mut self, name: &str, labels: &[(&str, String)], value: &str) {
        let labels: Vec<String> = labels.iter().map(|(label, of)| format!("{label}=\"{}\"", escaped(of))).collect();
        match labels.is_empty() {
            true => self.line(format_args!("{name} {value}")),
            false => self.line(format_args!("{name}{{{}}} {value}", labels.join(","))),
        }
    }

    fn line(&mut self, line: fmt::Arguments<'_>) {
        writeln!(self.text, "{line}").expect("writing to a string does not fail");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_exact() {
        for (microseconds, text) in [(0, "0"), (1, "0.000001"), (1024, "0.001024"), (2_500_000, "2.5")] {
            assert_eq!(seconds(microseconds), text);
        }
    }

    #[test]
    fn buckets_are_cumulative_and_end_with_the_count() {
        let mut durations = Distribution { sum_us: 3_000_010, ..Distribution::default() };
        durations.buckets[0] = 1;
        durations.buckets[3] = 2;
        durations.buckets[BUCKETS - 1] = 1;
        let mut page = Page::default();
        page.distribution("d", &durations);
        for line in ["d_bucket{le=\"0.000001\"} 1", "d_bucket{le=\"0.000008\"} 3", "d_bucket{le=\"+Inf\"} 4"] {
            assert!(page.text.contains(&format!("{line}\n")), "{}", page.text);
        }
        assert!(page.text.ends_with("d_sum 3.00001\nd_count 4\n"), "{}", page.text);
    }

    #[test]
    fn a_label_of_any_value_keeps_the_format() {
        let mut page = Page::default();
        page.sample("t", &[("thread", "a\"b\\c\nd".to_owned()), ("pid", "0".to_owned())], "1");
        assert_eq!(page.text, "t{thread=\"a\\\"b\\\\c\\nd\",pid=\"0\"} 1\n");
    }
}
