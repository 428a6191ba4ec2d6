//! `lamna-lab load`: asks a server for things and says what it answered, and when.
//!
//! Owns: the options and their translation into a job of `lamna_lab`, the bar while it runs, and the exit code.

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use lamna_lab::load::content::attach_contents;
use lamna_lab::load::plan::{Order, Pace, Plan, RequestForm, Target, WEBSTONE};
use lamna_lab::load::summary::summary;
use lamna_lab::load::url::Url;
use lamna_lab::load::{LoadError, Outcome, run};

use crate::exit::{Failed, failure, usage};

/// The arguments of `load`.
#[derive(Debug, Args)]
pub(crate) struct LoadArgs {
    /// The URL to ask for, as http://HOST:PORT/PATH. Several have to be of one server
    #[arg(value_name = "URL", required = true)]
    urls: Vec<Url>,

    /// How often each URL is asked for, in comparison [default: all alike]
    #[arg(long, value_name = "W,W", value_delimiter = ',')]
    weights: Vec<f64>,

    /// A mix of files below the URL: webstone is 500 B 35 %, 5 KB 50 %, 50 KB 14 %, 5 MB 1 %
    #[arg(long, value_name = "MIX")]
    mix: Option<Mix>,

    /// A file with a path to ask for on each line, and optionally its weight
    #[arg(long, value_name = "FILE")]
    paths: Option<PathBuf>,

    /// Length of the measurement [default: 10, or until --requests are made]
    #[arg(short = 'd', long, value_name = "S")]
    seconds: Option<f64>,

    /// Requests to make altogether
    #[arg(short = 'n', long, value_name = "N")]
    requests: Option<u64>,

    /// Open loop: requests a second, whether the server keeps up or not. Latency counts from the time each was due
    #[arg(long, value_name = "PER_SECOND")]
    rate: Option<f64>,

    /// With --rate: independent arrivals instead of equal intervals
    #[arg(long, requires = "rate")]
    poisson: bool,

    /// Closed loop: time between an answer and the next request of a connection
    #[arg(long, value_name = "MS", default_value_t = 0, conflicts_with = "rate")]
    think_ms: u64,

    #[command(flatten)]
    traffic: TrafficArgs,
}

/// Options about connections and reports that `load` and `replay` share.
#[derive(Debug, Args)]
pub(crate) struct TrafficArgs {
    /// Connections that carry requests
    #[arg(short, long, value_name = "N", default_value_t = 64)]
    pub(crate) connections: usize,

    /// Event loops to spread them over
    #[arg(short, long, value_name = "N", default_value_t = 1)]
    threads: usize,

    /// Processors to pin the event loops to
    #[arg(long, value_name = "CPU,CPU", value_delimiter = ',')]
    processors: Vec<usize>,

    /// Further connections that ask once and then stay silent
    #[arg(long, value_name = "N", default_value_t = 0)]
    idle: usize,

    /// A new connection for each request
    #[arg(long)]
    new_connections: bool,

    /// HTTP/1.0 requests
    #[arg(long = "http1.0")]
    http_1_0: bool,

    /// Requests under way on each connection
    #[arg(long, value_name = "DEPTH", default_value_t = 1)]
    pipelining: usize,

    /// Slow readers: bytes a second that each connection reads
    #[arg(long, value_name = "BYTES")]
    read_rate: Option<u32>,

    /// Slow writers: bytes a second of its requests that each connection writes
    #[arg(long, value_name = "BYTES")]
    write_rate: Option<u32>,

    /// A further line of every request, as in 'Accept-Encoding: gzip'. Can be repeated
    #[arg(short = 'H', long = "header", value_name = "LINE", value_parser = header)]
    headers: Vec<String>,

    /// HEAD instead of GET
    #[arg(long)]
    head: bool,

    /// Compare what comes with the files of this directory
    #[arg(long, value_name = "DIR")]
    check: Option<PathBuf>,

    /// Time at the beginning whose requests are not measured
    #[arg(long, value_name = "S", default_value_t = 0.0)]
    warmup: f64,

    /// Time without a byte after which a request is given up
    #[arg(long, value_name = "MS", default_value_t = 10_000)]
    timeout_ms: u64,

    /// An address to connect from. Can be repeated [default: the kernel's choice; on loopback as many as are needed]
    #[arg(long = "source", value_name = "ADDR")]
    sources: Vec<IpAddr>,

    /// Where chance begins
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Write the result as JSON to standard output
    #[arg(long)]
    json: bool,

    /// No bar while it runs
    #[arg(short, long)]
    quiet: bool,
}

/// A mix of files.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Mix {
    Webstone,
}

/// Does the job and reports it.
pub(crate) fn load(args: &LoadArgs) -> Result<(), Failed> {
    let plan = args.plan()?;
    args.traffic.execute(&plan, &format!("Asking {}", plan.address))
}

impl LoadArgs {
    fn plan(&self) -> Result<Plan, Failed> {
        // clap has seen to it that there is one.
        let first = &self.urls[0];
        if self.urls.iter().any(|url| (&url.host, url.port) != (&first.host, first.port)) {
            return Err(usage("all URLs have to be of one server"));
        }
        let targets = self.targets(&self.traffic.form(first))?;
        let pace = match self.rate {
            Some(per_second) => Pace::Rate { per_second, poisson: self.poisson },
            None => Pace::Closed { think: Duration::from_millis(self.think_ms) },
        };
        let seconds = self.seconds.or(self.requests.is_none().then_some(10.0));
        let duration = seconds.map(seconds_of).transpose()?;
        let plan = self.traffic.plan(first, targets, Order::Weighted, pace)?;
        Ok(Plan { duration, requests: self.requests, ..plan })
    }

    fn targets(&self, form: &RequestForm) -> Result<Vec<Target>, Failed> {
        let base = self.urls[0].path.trim_end_matches('/');
        let of = |path: &str, weight: f64| Target { weight, ..self.traffic.target(form, path) };
        if let Some(Mix::Webstone) = self.mix {
            return Ok(WEBSTONE.iter().map(|(path, _, share)| of(&format!("{base}{path}"), *share)).collect());
        }
        if let Some(file) = &self.paths {
            let text = fs::read_to_string(file).map_err(|error| failure(format!("{}: {error}", file.display())))?;
            return text.lines().filter(|line| !line.trim().is_empty()).map(|line| path_line(line, &of)).collect();
        }
        if !self.weights.is_empty() && self.weights.len() != self.urls.len() {
            return Err(usage("as many weights as URLs are needed"));
        }
        if self.weights.iter().any(|weight| !(*weight >= 0.0 && weight.is_finite())) {
            return Err(usage("weights are numbers from zero on"));
        }
        let weight = |number: usize| self.weights.get(number).copied().unwrap_or(1.0);
        Ok(self.urls.iter().enumerate().map(|(number, url)| of(&url.path, weight(number))).collect())
    }
}

fn path_line(line: &str, of: &impl Fn(&str, f64) -> Target) -> Result<Target, Failed> {
    let mut words = line.split_ascii_whitespace();
    let path = words.next().filter(|path| path.starts_with('/'));
    let weight = words.next().map_or(Some(1.0), |word| word.parse().ok().filter(|weight: &f64| *weight >= 0.0));
    match (path, weight, words.next()) {
        (Some(path), Some(weight), None) => Ok(of(path, weight)),
        _ => Err(failure(format!("not a path and a weight: {line}"))),
    }
}

impl TrafficArgs {
    /// How requests to the server of `url` are written.
    pub(crate) fn form(&self, url: &Url) -> RequestForm {
        let (http_1_0, close) = (self.http_1_0, self.new_connections);
        RequestForm { host: url.authority(), http_1_0, close, fields: self.headers.clone() }
    }

    /// A target of weight one.
    pub(crate) fn target(&self, form: &RequestForm, path: &str) -> Target {
        match self.head {
            true => Target { request: form.write("HEAD", path), is_head: true, ..form.target(path) },
            false => form.target(path),
        }
    }

    /// The job, without an end.
    pub(crate) fn plan(&self, url: &Url, targets: Vec<Target>, order: Order, pace: Pace) -> Result<Plan, Failed> {
        let address = url.resolve().map_err(|error| failure(format!("{}: {error}", url.host)))?;
        let mut plan = Plan {
            sources: self.sources.clone(),
            order,
            pace,
            connections: self.connections,
            idle_connections: self.idle,
            threads: self.threads.min(self.connections),
            processors: self.processors.clone(),
            new_connections: self.new_connections,
            pipelining: self.pipelining,
            read_rate: self.read_rate,
            write_rate: self.write_rate,
            timeout: Duration::from_millis(self.timeout_ms),
            warmup: seconds_of(self.warmup)?,
            seed: self.seed,
            duration: None,
            ..Plan::simple(address, targets)
        };
        plan.spread_sources();
        if let Some(directory) = &self.check {
            attach_contents(&mut plan.targets, directory).map_err(|error| failure(error.to_string()))?;
        }
        Ok(plan)
    }

    /// Where chance begins.
    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    /// Does the job and reports it. An interruption ends it early and keeps what was measured.
    pub(crate) fn execute(&self, plan: &Plan, title: &str) -> Result<(), Failed> {
        let interrupted = Arc::new(AtomicBool::new(false));
        // The second interruption kills, in case the first one has no effect.
        let signal = signal_hook::consts::SIGINT;
        let hooked = signal_hook::flag::register_conditional_shutdown(signal, 130, interrupted.clone())
            .and_then(|_| signal_hook::flag::register(signal, interrupted.clone()));
        hooked.map_err(|error| failure(format!("signals: {error}")))?;
        let bar = self.bar(plan, title);
        let outcome = run(plan, &mut |progress| {
            let seconds = progress.elapsed.as_secs_f64();
            bar.set_position(progress.elapsed.as_millis() as u64);
            bar.set_message(format!(
                "{} answers, {:.0}/s",
                progress.responses,
                progress.responses as f64 / seconds.max(0.05)
            ));
            !interrupted.load(Ordering::Relaxed)
        });
        bar.finish_and_clear();
        self.report(&outcome.map_err(into_failed)?, title)
    }

    fn bar(&self, plan: &Plan, title: &str) -> ProgressBar {
        if self.quiet || !io::stderr().is_terminal() {
            return ProgressBar::hidden();
        }
        let Some(duration) = plan.duration else {
            let bar = ProgressBar::new_spinner();
            bar.set_prefix(title.to_owned());
            return bar.with_style(style("{prefix} {spinner} {elapsed} {msg}"));
        };
        let bar = ProgressBar::new((plan.warmup + duration).as_millis() as u64);
        bar.set_prefix(title.to_owned());
        bar.with_style(style("{prefix} {wide_bar} {elapsed} {msg}"))
    }

    fn report(&self, outcome: &Outcome, title: &str) -> Result<(), Failed> {
        let text = match self.json {
            // Plain data: it can always be written.
            true => serde_json::to_string(outcome).expect("plain data") + "\n",
            false => format!("{title}\n{}", summary(outcome)),
        };
        io::stdout().write_all(text.as_bytes())?;
        if self.json {
            for doubt in &outcome.doubts {
                _ = writeln!(io::stderr(), "lamna-lab: {doubt}");
            }
        }
        match outcome.counts.wrong_content {
            0 => Ok(()),
            count => Err(failure(format!("{count} answers had the wrong content"))),
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

fn seconds_of(seconds: f64) -> Result<Duration, Failed> {
    Duration::try_from_secs_f64(seconds).map_err(|_| usage("a number of seconds is not negative"))
}

fn header(line: &str) -> Result<String, String> {
    let named = line.split_once(':').is_some_and(|(name, _)| !name.is_empty() && !name.contains(' '));
    match named && !line.contains(['\r', '\n']) {
        true => Ok(line.to_owned()),
        false => Err("not of the form 'Name: value'".to_owned()),
    }
}

fn into_failed(error: LoadError) -> Failed {
    match error {
        LoadError::Plan(what) => usage(what),
        error => failure(error),
    }
}
