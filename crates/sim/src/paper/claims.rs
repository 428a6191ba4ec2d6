//! Every claim of the paper's text that says a number or an order, with our value beside it.
//!
//! Rules, the same for all claims: *level* and *comparable* is within 5 %; *best*, *above* and *worst* is by more than
//! 1 % (replications differ by less); *drops* is by more than 10 %; a percentage is met within 5 points, or a fifth of
//! it if that is more. The reason is printed where a claim fails.

mod clients;
mod data_cache;
mod grid;
mod memory;
mod validation;
mod workload;

use std::fmt::Write;

use super::Figures;
use crate::parameters::Parameters;

/// Whether a claim holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// By the rules above.
    Holds,
    /// By the rules above, it does not.
    Fails,
    /// The figure was not run.
    Unknown,
}

impl Verdict {
    /// One word.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Holds => "holds",
            Verdict::Fails => "fails",
            Verdict::Unknown => "not run",
        }
    }
}

/// A claim and what became of it.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Section of the paper.
    pub section: &'static str,
    /// The claim, in our words.
    pub says: &'static str,
    /// Our finding.
    pub ours: String,
    /// Whether that is the same.
    pub verdict: Verdict,
    /// Where it is not: why, as far as we know.
    pub why: &'static str,
}

/// A finding: what to print, and whether the claim holds. `None` if the data is not there.
type Finding = Option<(String, bool)>;

/// All claims, in the order of the paper.
pub fn claims(figures: &Figures, parameters: &Parameters) -> Vec<Claim> {
    let mut claims = memory::claims(parameters);
    claims.extend(validation::claims(figures));
    claims.extend(workload::claims(figures));
    claims.extend(data_cache::claims(figures));
    claims.extend(clients::claims(figures));
    claims
}

/// As a Markdown table: the main reading's values and reasons, and what holds under every reading. Each list is in the
/// order of [`claims`]; the first is the main one's.
pub fn claims_markdown(readings: &[(&str, Vec<Claim>)]) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    for (name, claims) in readings {
        let count = |verdict| claims.iter().filter(|claim| claim.verdict == verdict).count();
        let (holds, fails, unknown) = (count(Verdict::Holds), count(Verdict::Fails), count(Verdict::Unknown));
        let _ =
            writeln!(text, "- `{name}`: of {} claims {holds} hold, {fails} fail, {unknown} were not run", claims.len());
    }
    let Some((main, claims)) = readings.first() else {
        return text;
    };
    let names: Vec<_> = readings.iter().map(|(name, _)| *name).collect();
    let _ =
        writeln!(text, "\n| section | the paper says | ours (`{main}`) | {} | why not (`{main}`) |", names.join(" | "));
    let _ = writeln!(text, "|{}", " --- |".repeat(4 + names.len()));
    for (row, claim) in claims.iter().enumerate() {
        let verdicts: Vec<_> =
            readings.iter().filter_map(|(_, claims)| Some(claims.get(row)?.verdict.name())).collect();
        let why = if claim.verdict == Verdict::Fails { claim.why } else { "" };
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {why} |",
            claim.section,
            claim.says,
            claim.ours,
            verdicts.join(" | ")
        );
    }
    text
}

/// As CSV, one line for each claim and reading; texts are quoted.
pub fn claims_csv(readings: &[(&str, Vec<Claim>)]) -> String {
    let mut text = String::from("reading,section,claim,ours,verdict\n");
    for (name, claims) in readings {
        for claim in claims {
            let quoted = |text: &str| text.replace('"', "'");
            let (says, ours) = (quoted(claim.says), quoted(&claim.ours));
            let _ = writeln!(text, "{name},{},\"{says}\",\"{ours}\",{}", claim.section, claim.verdict.name());
        }
    }
    text
}

fn claim(section: &'static str, says: &'static str, finding: Finding, why: &'static str) -> Claim {
    let (ours, verdict) = match finding {
        Some((ours, true)) => (ours, Verdict::Holds),
        Some((ours, false)) => (ours, Verdict::Fails),
        None => (String::from("-"), Verdict::Unknown),
    };
    Claim { section, says, ours, verdict, why }
}

/// How much more `a` is than `b`, in per cent.
fn above(a: f64, b: f64) -> f64 {
    (a / b - 1.0) * 100.0
}

/// Whether a percentage meets the paper's.
fn meets(found: f64, said: f64) -> bool {
    (found - said).abs() <= (said / 5.0).max(5.0)
}
