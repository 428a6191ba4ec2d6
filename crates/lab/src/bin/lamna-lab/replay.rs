//! `lamna-lab replay`: asks a server again for what a log says it was asked for.
//!
//! Owns: the options, and the reading of what names a workload (shared with `lamna-lab site`).

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use clap::Args;
use lamna_lab::load::plan::Plan;
use lamna_lab::load::url::Url;
use lamna_lab::replay::synthetic::{is_synthetic, synthetic};
use lamna_lab::replay::{Speed, Trace, read};
use lamna_policy::words::count;

use crate::exit::{Failed, failure, usage};
use crate::load::TrafficArgs;
use lamna_policy::size::parse_size;

/// The arguments of `replay`.
#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    #[command(flatten)]
    workload: WorkloadArgs,

    /// The server, as http://HOST:PORT
    #[arg(value_name = "URL")]
    url: Url,

    /// How many times as fast as it was recorded, or `max`: as fast as the server answers
    #[arg(long, value_name = "N|max", default_value = "1", value_parser = speed)]
    speed: Speed,

    /// Begin again at the end
    #[arg(long = "loop")]
    looped: bool,

    /// Length of the measurement [default: until the log ends]
    #[arg(short = 'd', long, value_name = "S")]
    seconds: Option<f64>,

    #[command(flatten)]
    traffic: TrafficArgs,
}

/// Which workload.
#[derive(Debug, Args)]
pub(crate) struct WorkloadArgs {
    /// An access log (common, combined or JSON; .gz, .zst), an anonymous trace (NAME.csv beside NAME.files.csv),
    /// zipf:FILES,EXPONENT,BYTES, or profile:NAME of the PIPELINED paper (cse, ucb, psu, clarknet, nasa, worldcup98)
    #[arg(value_name = "LOG")]
    log: String,

    /// Requests, from the beginning [default: all of a log, 100000 of a synthetic workload]
    #[arg(short = 'n', long, value_name = "N")]
    requests: Option<u64>,

    /// Cut off where the files asked for reach this size, as in 64MiB
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    data_set: Option<u64>,
}

impl WorkloadArgs {
    /// Whether it is the file mix of WebSTONE, which is no log.
    pub(crate) fn is_webstone(&self) -> bool {
        self.log == "webstone"
    }

    /// Reads or makes it, and says on standard error what was left out.
    pub(crate) fn trace(&self, seed: u64) -> Result<Trace, Failed> {
        let mut trace = if is_synthetic(&self.log) {
            synthetic(&self.log, self.requests, seed).map_err(failure)?
        } else {
            read::read(Path::new(&self.log)).map_err(failure)?
        };
        if let Some(requests) = self.requests {
            trace.requests.truncate(usize::try_from(requests).unwrap_or(usize::MAX));
        }
        if let Some(bytes) = self.data_set {
            trace.truncate(bytes);
        }
        if let Some(skipped) = trace.skipped.describe() {
            _ = writeln!(std::io::stderr(), "lamna-lab: {}: {skipped}", self.log);
        }
        if trace.requests.is_empty() { Err(usage("there is nothing left to replay")) } else { Ok(trace) }
    }
}

/// Does the job and reports it.
pub(crate) fn replay(args: &ReplayArgs) -> Result<(), Failed> {
    let traffic = &args.traffic;
    let trace = args.workload.trace(traffic.seed())?;
    let form = traffic.form(&args.url);
    let targets = trace.targets(|path| traffic.target(&form, path));
    let plan = traffic.plan(&args.url, targets, trace.order(args.looped), trace.pace(args.speed))?;
    let duration = args.seconds.map(Duration::try_from_secs_f64).transpose();
    let duration = duration.map_err(|_| usage("a number of seconds is not negative"))?;
    let title = format!(
        "Replaying {}: {}, {}",
        trace.name,
        count(trace.requests.len(), "request"),
        count(trace.files.len(), "file")
    );
    traffic.execute(&Plan { duration, ..plan }, &title)
}

fn speed(text: &str) -> Result<Speed, String> {
    if text == "max" {
        return Ok(Speed::AsAnswered);
    }
    let factor = text.trim_start_matches('x').parse().ok().filter(|factor: &f64| *factor > 0.0 && factor.is_finite());
    factor.map(Speed::Times).ok_or_else(|| "expected a positive number or max".to_owned())
}
