//! The phases as tables in Markdown: what was asked, how each engine did, and whether `auto` reaches what it should.

use std::fmt::Write as _;

use super::AUTO;
use super::run::{Run, switches};
use super::verdict::{FAILED_MAX, Figures, REACHED, Standing, beside, comparable, of_all, of_phase, standing};
use super::workload::Phase;
use crate::metric::format_number;
use crate::statistics::Estimate;

/// All of it; without runs a line that says so.
pub fn markdown(runs: &[Run]) -> String {
    let Some(first) = runs.first() else { return "Nothing has been measured.\n".to_owned() };
    let mut text = String::new();
    // Writing to a string cannot fail.
    _ = write_all(&mut text, runs, first);
    text
}

fn write_all(text: &mut String, runs: &[Run], first: &Run) -> std::fmt::Result {
    let iops = first.read_iops.map_or("as fast as it is".to_owned(), |iops| format!("held to {iops} reads a second"));
    writeln!(
        text,
        "# Six phases\n\nMade by {} with {}, on {}; server on processors {:?}, load on {:?}; phases of {} s; disk {iops}. \
         What the phases are is said in docs/internals/laboratory.md. Figures are of the time after the first two seconds of \
         each phase, except in the last column; medians of {}. † failed, refused or did not hold \
         more than {:.0} % of what the phase asks for, and does not count as the best.",
        commands(runs),
        first.version,
        first.machine.describe(),
        first.server_processors,
        first.client_processors,
        first.seconds,
        rounds(runs),
        FAILED_MAX * 100.0
    )?;
    let compared = comparable(runs);
    let standings: Vec<Standing> = Phase::ALL.into_iter().filter_map(|phase| standing(&compared, phase)).collect();
    let throughput = |standing: &Standing| percent(standing.throughput());
    let economy = |standing: &Standing| percent(standing.economy());
    table(text, runs, "Good answers a second; in all", &standings, Some(&throughput), |figures, is_all| {
        format!("{:.0}", if is_all { figures.answered } else { figures.per_second })
    })?;
    table(
        text,
        runs,
        "CPU time of the server for each good answer, microseconds",
        &standings,
        Some(&economy),
        |f, _| format_number(f.cpu_us),
    )?;
    table(text, runs, "The visitor's 99th percentile, milliseconds", &standings, None, |f, _| ms(f.visitor_p99_ms))?;
    let load = "99th percentile of those who ask as fast as they are answered, milliseconds";
    table(text, runs, load, &standings, None, |figures, _| ms(figures.load_p99_ms))?;
    verdicts(text, &compared, &standings)?;
    round_by_round(text, runs)?;
    changes(text, runs)
}

fn table(
    text: &mut String,
    runs: &[Run],
    title: &str,
    standings: &[Standing],
    ratio: Option<&dyn Fn(&Standing) -> String>,
    cell: impl Fn(&Figures, bool) -> String,
) -> std::fmt::Result {
    let names: Vec<&str> = Phase::ALL.iter().map(|phase| phase.name()).collect();
    writeln!(text, "\n## {title}\n\n| | {} | whole run |\n| --- |{}", names.join(" | "), " ---: |".repeat(7))?;
    for whole in of_all(runs) {
        write!(text, "| {} |", whole.engine)?;
        for phase in Phase::ALL {
            let of_phase = of_phase(runs, phase);
            let figures = of_phase.iter().find(|figures| figures.engine == whole.engine);
            let mark = figures.map_or("", |figures| if figures.has_failed { " †" } else { "" });
            write!(text, " {}{mark} |", figures.map_or("-".to_owned(), |figures| cell(figures, false)))?;
        }
        writeln!(text, " {}{} |", cell(&whole, true), if whole.has_failed { " †" } else { "" })?;
    }
    let Some(ratio) = ratio.filter(|_| !standings.is_empty()) else { return Ok(()) };
    write!(text, "| **`{AUTO}` and the best** |")?;
    for phase in Phase::ALL {
        let standing = standings.iter().find(|standing| standing.phase == phase);
        write!(text, " {} |", standing.map_or("-".to_owned(), ratio))?;
    }
    writeln!(text, " |")
}

fn verdicts(text: &mut String, runs: &[Run], standings: &[Standing]) -> std::fmt::Result {
    if standings.is_empty() {
        return Ok(());
    }
    let mut engines: Vec<String> =
        runs.iter().filter(|run| run.engine != AUTO).map(|run| format!("`{}`", run.engine)).collect();
    engines.dedup();
    writeln!(
        text,
        "\n## Whether `{AUTO}` reaches {} of the best fixed engine\n\nBeside those that took turns with it: {}. The speed of \
         the machine differs from one turn to the next.\n",
        percent(REACHED),
        engines.join(", ")
    )?;
    for standing in standings {
        let bound = match standing.is_of_generator {
            true => format!("; the generator had no reserve: CPU time {}", percent(standing.economy())),
            false => String::new(),
        };
        writeln!(
            text,
            "- {}: **{}**, {} of `{}`{bound}",
            standing.phase.name(),
            if standing.is_reached() { "reached" } else { "not reached" },
            percent(standing.throughput()),
            standing.best.engine
        )?;
    }
    let whole = of_all(runs);
    let Some(auto) = whole.iter().find(|figures| figures.engine == AUTO) else { return Ok(()) };
    let beside = |figure: fn(&Figures) -> f64, is_better: fn(f64, f64) -> bool| {
        let fixed = whole.iter().filter(|figures| figures.engine != AUTO);
        let not_beaten = fixed.filter(|other| !is_better(figure(auto), figure(other)));
        not_beaten.map(|other| format!("`{}`", other.engine)).collect::<Vec<_>>()
    };
    let answered = beside(|figures| figures.answered, |own, others| own > others);
    let visitor = beside(|figures| figures.visitor_p99_ms, |own, others| own < others);
    let load = beside(|figures| figures.load_p99_ms, |own, others| own < others);
    let lists =
        [("requests in all", answered), ("the visitor's p99", visitor), ("p99 of all the others' requests", load)];
    for (what, not_beaten) in lists {
        let verdict = match not_beaten.is_empty() {
            true => "**beats every fixed engine**".to_owned(),
            false => format!("**not better than {}**", not_beaten.join(", ")),
        };
        writeln!(text, "- whole run, {what}: {verdict}")?;
    }
    Ok(())
}

/// `auto` by the engines that it took turns with more than once.
fn round_by_round(text: &mut String, runs: &[Run]) -> std::fmt::Result {
    let mut several = beside(runs);
    several.retain(|beside| beside.answered.samples > 1);
    let Some(confidence) = several.iter().map(|beside| beside.answered.confidence).min_by(f64::total_cmp) else {
        return Ok(());
    };
    writeln!(
        text,
        "\n## `{AUTO}` by each fixed engine, over whole runs of the same turn\n\nMedians of the rounds' ratios, and the interval in \
         which the true one lies with a probability of at least {}. Where 1 is in it, the two cannot be told apart.\n\n\
         | | rounds | good answers | CPU time for each | visitor's p99 |\n| --- | ---: | ---: | ---: | ---: |",
        percent(confidence)
    )?;
    for beside in several {
        let cell = |ratio: Estimate| format!("{:.3} ({:.3} to {:.3})", ratio.median, ratio.low, ratio.high);
        let [answered, cpu, visitor] = [beside.answered, beside.cpu, beside.visitor].map(cell);
        writeln!(text, "| {} | {} | {answered} | {cpu} | {visitor} |", beside.engine, beside.answered.samples)?;
    }
    Ok(())
}

/// The changes that `auto` made, in its own words.
fn changes(text: &mut String, runs: &[Run]) -> std::fmt::Result {
    for (round, run) in runs.iter().filter(|run| run.engine == AUTO).enumerate() {
        writeln!(text, "\n## What `{AUTO}` did in round {}\n\n| phase | at | |\n| --- | ---: | --- |", round + 1)?;
        for (said, _) in switches(&run.said) {
            let Some(phase) = run.phases.iter().rev().find(|phase| phase.began_s <= said.at_s) else { continue };
            let line = said.line.trim_start_matches("lamna: ").replace('|', "/");
            writeln!(text, "| {} | {:.1} s | {line} |", phase.phase, said.at_s - phase.began_s)?;
        }
    }
    Ok(())
}

/// The command lines, each once.
fn commands(runs: &[Run]) -> String {
    let mut commands: Vec<String> = runs.iter().map(|run| format!("`{}`", run.command)).collect();
    commands.sort_unstable();
    commands.dedup();
    commands.join(", ")
}

/// How often each engine was measured.
fn rounds(runs: &[Run]) -> String {
    let of_engines = runs.chunk_by(|one, other| one.engine == other.engine);
    let each: Vec<String> = of_engines.map(|rounds| format!("{} of `{}`", rounds.len(), rounds[0].engine)).collect();
    each.join(", ") + " (rounds)"
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn ms(ms: f64) -> String {
    if ms.is_finite() { format_number(ms) } else { "never".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_runs_it_says_so() {
        assert_eq!(markdown(&[]), "Nothing has been measured.\n");
    }

    #[test]
    fn shares_and_times_are_readable() {
        assert_eq!((percent(0.923), ms(f64::INFINITY), ms(1.5)), ("92 %".into(), "never".into(), "1.50".into()));
    }
}
