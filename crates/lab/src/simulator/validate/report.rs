//! The table of predictions and measurements: its lines, when one holds, and how it is written.

use std::fmt::Write as _;

use lamna_sim::run::Outcome;

use super::Name;
use super::reason::reason;
use crate::simulator::trial::{Observed, undisturbed};

/// The report: lines, and what had to be left out and why.
#[derive(Debug, Default)]
pub struct Report {
    /// In the order of scenarios, engines and workers.
    pub rows: Vec<Row>,
    /// In words.
    pub left_out: Vec<String>,
}

/// One line of the table.
#[derive(Clone, Debug)]
pub struct Row {
    /// Which scenario.
    pub scenario: Name,
    /// The real engine.
    pub engine: &'static str,
    /// Its workers.
    pub workers: u32,
    /// The prediction of the models.
    pub predicted: Outcome,
    /// The measurement: the joint result of the trials, [`undisturbed`].
    pub observed: Observed,
    /// The trials.
    pub trials: Vec<Observed>,
}

/// Throughput is to be within this of what was measured.
pub const THROUGHPUT_TOLERANCE: f64 = 0.15;
/// Median latency likewise.
pub const LATENCY_TOLERANCE: f64 = 0.25;

impl Row {
    /// Predicted over measured throughput, less one.
    pub fn throughput_error(&self) -> f64 {
        self.predicted.requests_per_s.mean / self.observed.requests_per_s - 1.0
    }

    /// Predicted over measured median latency, less one.
    pub fn latency_error(&self) -> f64 {
        self.predicted.latency_p50_us / self.observed.latency_p50_us - 1.0
    }

    /// Whether both are within what is asked for.
    pub fn holds(&self) -> bool {
        is_within(self.throughput_error(), self.latency_error())
    }

    /// Whether the measurement would hold as a prediction of itself: what every other trial says, held against those of
    /// the others. Nothing if there is one trial only.
    pub fn is_repeated(&self) -> Option<bool> {
        is_repeated(&self.trials)
    }
}

fn is_repeated(trials: &[Observed]) -> Option<bool> {
    let every_other = |first: usize| -> Vec<Observed> { trials.iter().skip(first).step_by(2).cloned().collect() };
    let (ones, others) = (every_other(0), every_other(1));
    if others.is_empty() {
        return None;
    }
    let (one, other) = (undisturbed(&ones), undisturbed(&others));
    let error = |of: fn(&Observed) -> f64| of(&other) / of(&one) - 1.0;
    Some(is_within(error(|seen| seen.requests_per_s), error(|seen| seen.latency_p50_us)))
}

fn is_within(throughput_error: f64, latency_error: f64) -> bool {
    throughput_error.abs() <= THROUGHPUT_TOLERANCE && latency_error.abs() <= LATENCY_TOLERANCE
}

impl Row {
    /// Measured processor time of the server for each request. Where it makes a thread for each, what the kernel does
    /// for that in threads of its own is included.
    pub fn server_us(&self) -> f64 {
        match self.engine {
            "thread-per-request" => self.observed.server_and_kernel_us(),
            _ => self.observed.server_us,
        }
    }

    /// How far the trials are from one another: the fastest less the slowest, as a share of what counts.
    pub fn spread(&self) -> f64 {
        let rates = || self.trials.iter().map(|trial| trial.requests_per_s);
        (rates().fold(0.0, f64::max) - rates().fold(f64::INFINITY, f64::min)) / self.observed.requests_per_s
    }
}

impl Report {
    /// As a document for people.
    pub fn to_markdown(&self) -> String {
        let mut text = self.introduction();
        text.push_str(
            "| scenario | engine | workers | requests/s predicted | measured | spread | error | p50 us predicted | measured | error | within | repeated | others | why not |\n\
             | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- | --- | ---: | --- |\n",
        );
        for row in &self.rows {
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "| {} | {} | {} | {:.0} | {:.0} | {:.0} % | {:+.0} % | {:.0} | {:.0} | {:+.0} % | {} | {} | {:.0} % | {} |",
                row.scenario.name(),
                row.engine,
                row.workers,
                row.predicted.requests_per_s.mean,
                row.observed.requests_per_s,
                row.spread() * 100.0,
                row.throughput_error() * 100.0,
                row.predicted.latency_p50_us,
                row.observed.latency_p50_us,
                row.latency_error() * 100.0,
                if row.holds() { "yes" } else { "no" },
                row.is_repeated().map_or("", |is_repeated| if is_repeated { "yes" } else { "no" }),
                row.observed.foreign * 100.0,
                reason(row)
            );
        }
        for one in &self.left_out {
            let _ = writeln!(text, "\nLeft out: {one}.");
        }
        text
    }

    /// How many lines hold, and what the columns mean.
    fn introduction(&self) -> String {
        let held = |rows: &[&Row]| rows.iter().filter(|row| row.holds()).count();
        let all: Vec<&Row> = self.rows.iter().collect();
        let scenarios = Name::ALL.iter().map(|&name| {
            let of: Vec<&Row> = self.rows.iter().filter(|row| row.scenario == name).collect();
            format!("`{}` {} of {}", name.name(), held(&of), of.len())
        });
        let trials = self.rows.iter().map(|row| row.trials.len()).min().unwrap_or(0);
        let repeated = |holds: bool| {
            let rows = self.rows.iter().filter(|row| row.is_repeated() == Some(true));
            rows.filter(|row| row.holds() || !holds).count()
        };
        format!(
            "# Predicted against measured\n\n\
             **{} of {} lines are within {:.0} % of throughput and {:.0} % of median latency**: {}. The measurement is within as much \
             of itself, every other trial against the others, in {} lines (`repeated`); of these the prediction holds in {}.\n\n\
             Measured values are those than which a quarter of at least {trials} trials were better, since others on the same host only make \
             trials slower; between the trials throughput differed by `spread` (fastest less slowest). Latencies are those of the load on the same machine. `others`: share of the processors' time that neither the \
             server nor the load used. `why not`: by rule, the counters of the trial that differ from the prediction's by more than \
             a tenth (requests to the disk 15 %, switches 30 %); not what made them differ.\n\n",
            held(&all),
            all.len(),
            THROUGHPUT_TOLERANCE * 100.0,
            LATENCY_TOLERANCE * 100.0,
            scenarios.collect::<Vec<_>>().join(", "),
            repeated(false),
            repeated(true),
        )
    }

    /// As CSV.
    pub fn to_csv(&self) -> String {
        let mut text = String::from(
            "scenario,engine,workers,predicted_requests_per_s,measured_requests_per_s,predicted_p50_us,measured_p50_us,\
             predicted_p99_us,measured_p99_us,predicted_server_us,server_us,predicted_load_us,load_us,predicted_switches,switches,foreign_share,predicted_hit_ratio,predicted_page_hit_ratio,\
             predicted_disk_reads,measured_disk_reads,measured_loaded_bytes,page_cache_bytes,measured_page_cache_bytes,\
             measured_resident_bytes,measured_group_bytes,clients_of_workers,trials,spread,within\n",
        );
        for row in &self.rows {
            let (predicted, observed) = (&row.predicted, &row.observed);
            let clients =
                |worker: u32| observed.client_workers.iter().filter(|&&own| own == worker).count().to_string();
            let clients: Vec<String> = (0..row.workers).map(clients).collect();
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "{},{},{},{:.1},{:.1},{:.1},{:.1},{:.1},{:.1},{:.3},{:.3},{:.3},{:.3},{:.3},{:.3},{:.4},{:.4},{:.4},{:.5},{:.5},{:.0},{},{:.0},{:.0},{:.0},{},{},{:.3},{}",
                row.scenario.name(),
                row.engine,
                row.workers,
                predicted.requests_per_s.mean,
                observed.requests_per_s,
                predicted.latency_p50_us,
                observed.latency_p50_us,
                predicted.latency_p99_us,
                observed.latency_p99_us,
                predicted.server_us,
                row.server_us(),
                predicted.load_us,
                observed.load_us - observed.vain_us,
                predicted.departures_per_request,
                observed.switches,
                observed.foreign,
                predicted.hit_ratio,
                predicted.page_hit_ratio,
                predicted.disk_requests_per_request,
                observed.disk_reads,
                observed.loaded_bytes,
                predicted.scenario.page_cache_bytes,
                observed.page_cache_bytes,
                observed.resident_bytes,
                observed.group_bytes,
                clients.join("+"),
                row.trials.len(),
                row.spread(),
                row.holds()
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(requests_per_s: f64, latency_p50_us: f64) -> Observed {
        Observed { requests_per_s, latency_p50_us, ..Observed::default() }
    }

    #[test]
    fn a_measurement_is_repeated_if_half_of_its_trials_would_hold_as_a_prediction_of_the_others() {
        assert_eq!(is_repeated(&[trial(100.0, 50.0)]), None);
        assert_eq!(is_repeated(&[trial(100.0, 50.0), trial(110.0, 60.0)]), Some(true));
        assert_eq!(is_repeated(&[trial(100.0, 50.0), trial(120.0, 50.0)]), Some(false), "20 % of throughput");
        assert_eq!(is_repeated(&[trial(100.0, 50.0), trial(100.0, 70.0)]), Some(false), "40 % of latency");
        let one_was_disturbed = [100.0, 100.0, 20.0, 100.0, 100.0, 100.0].map(|rate| trial(rate, 50.0));
        assert_eq!(is_repeated(&one_was_disturbed), Some(true), "one of three");
    }
}
