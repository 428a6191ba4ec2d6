//! Scenarios: what is compared, and what one expects. Each is a small TOML file with its question and its source.
//!
//! Owns: the form of the files, the ones that come with the program, and the points of a sweep. Guarantees: a file that
//! parses names metrics and parameters that exist; unknown keys are errors.

use std::fmt;

use serde::Deserialize;

use crate::metric::Metric;
use crate::peers;

/// The scenarios that come with the program, in the order of the report.
static BUILT_IN: &[&str] = &[
    include_str!("../scenarios/cached.toml"),
    include_str!("../scenarios/pipelined.toml"),
    include_str!("../scenarios/close.toml"),
    include_str!("../scenarios/large.toml"),
    include_str!("../scenarios/idle.toml"),
    include_str!("../scenarios/text.toml"),
    include_str!("../scenarios/disk.toml"),
    include_str!("../scenarios/memory.toml"),
    include_str!("../scenarios/flash-06-single-file.toml"),
    include_str!("../scenarios/flash-08-traces.toml"),
    include_str!("../scenarios/flash-09-data-set.toml"),
    include_str!("../scenarios/flash-11-caches.toml"),
    include_str!("../scenarios/flash-12-clients.toml"),
    include_str!("../scenarios/jaws-02-servers.toml"),
    include_str!("../scenarios/jaws-06-whitebox.toml"),
    include_str!("../scenarios/jaws-12-protocol.toml"),
    include_str!("../scenarios/jaws-13-pool.toml"),
    include_str!("../scenarios/jaws-14-locking.toml"),
    include_str!("../scenarios/jaws-15-optimised.toml"),
    include_str!("../scenarios/jaws-17-best.toml"),
    include_str!("../scenarios/jaws-19-strategies.toml"),
    include_str!("../scenarios/pipelined-02-memory.toml"),
    include_str!("../scenarios/pipelined-06-workloads.toml"),
    include_str!("../scenarios/pipelined-07-memory-size.toml"),
    include_str!("../scenarios/pipelined-08-clients.toml"),
];

/// A comparison.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// In commands and file names.
    pub name: String,
    /// For people.
    pub title: String,
    /// The question.
    pub question: String,
    /// Where it is from: paper and figure.
    pub source: String,
    /// The finding of the source.
    pub finding: String,
    /// The shape expected here, and what differs from the source.
    pub expected: String,
    /// How it is measured.
    pub procedure: Procedure,
    /// Names of servers.
    pub servers: Vec<String>,
    /// Servers among them that are others with further arguments.
    #[serde(default)]
    pub variant: Vec<Variant>,
    /// Another scenario whose measurements this one shows, from another point of view; it has none of its own then.
    #[serde(default)]
    pub results_of: Option<String>,
    /// Our reading of the figures: why they agree with the source or do not.
    #[serde(default)]
    pub reading: String,
    /// Metrics to show, the most important first.
    pub metrics: Vec<String>,
    /// The files served.
    #[serde(default)]
    pub site: Site,
    /// The requests.
    #[serde(default)]
    pub load: Load,
    /// The limits of the servers.
    #[serde(default)]
    pub limits: Limits,
    /// The parameter varied along the axis.
    #[serde(default)]
    pub sweep: Option<Sweep>,
    /// The parameter varied from plot to plot.
    #[serde(default)]
    pub panel: Option<Sweep>,
    /// Checks that have to hold for the source to be confirmed.
    #[serde(default)]
    pub check: Vec<Check>,
}

/// How a scenario is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Procedure {
    /// Load for a time, servers in turn.
    Throughput,
    /// Memory with many connections that are silent.
    Idle,
    /// A hot file while others read cold files from a slow disk.
    Disk,
    /// A trace as fast as it is answered, beside a hot file, with less memory than the site has bytes.
    Memory,
    /// A breakdown of the server's time, by a trace of its system calls or by its own account.
    Whitebox,
}

/// One of Lamna's engines with further arguments.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// In results.
    pub name: String,
    /// Which engine, as `lamna-ENGINE`.
    pub of: String,
    /// Further arguments of `lamna serve`.
    #[serde(default)]
    pub arguments: Vec<String>,
    /// It keeps its own account, which is shown instead of a trace.
    #[serde(default)]
    pub account: bool,
}

/// The files served.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Site {
    /// One file of this size, /f.html; beside a workload, which does not ask for it, the hot file.
    pub file_bytes: Option<u64>,
    /// The files of the WebSTONE mix.
    pub webstone: bool,
    /// A page of 50 KB of text that compresses.
    pub text: bool,
    /// The files of a workload: `profile:NAME`, `zipf:FILES,EXPONENT,BYTES` or `trace:LOG`, a file whose requests come
    /// in its order, again and again.
    pub workload: Option<String>,
    /// Cold files beside the hot one.
    pub cold_files: u64,
    /// The workload is cut off where its files reach this size.
    pub data_set_mib: Option<u64>,
}

/// The requests.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Load {
    /// Connections.
    pub connections: usize,
    /// A new connection for each request.
    pub new_connections: bool,
    /// HTTP/1.0.
    pub http_1_0: bool,
    /// Requests under way on a connection.
    pub pipelining: usize,
    /// Further lines of each request.
    pub headers: Vec<String>,
    /// Requests a second; closed loop if absent.
    pub rate: Option<f64>,
    /// Length of a measurement.
    pub seconds: f64,
    /// Measurements of each server at each point.
    pub rounds: usize,
    /// Length of a measurement when it has to be quick.
    pub quick_seconds: f64,
    /// Measurements of each server at each point when it has to be quick.
    pub quick_rounds: usize,
    /// Event loops or processes of servers that have a number of them.
    pub workers: usize,
    /// Threads of Lamna's pool; its own default if absent.
    pub threads: Option<usize>,
}

impl Default for Load {
    fn default() -> Self {
        Load {
            connections: 64,
            new_connections: false,
            http_1_0: false,
            pipelining: 1,
            headers: Vec::new(),
            rate: None,
            seconds: 2.0,
            rounds: 5,
            quick_seconds: 0.4,
            quick_rounds: 3,
            workers: 1,
            threads: None,
        }
    }
}

/// The limits of the servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Memory, page cache included.
    pub memory_mib: Option<u64>,
    /// Memory, page cache included, as one part in so many of the site's bytes. At least one.
    pub memory_part: Option<u64>,
    /// Reads a second from the disk.
    pub read_iops: Option<u32>,
}

/// A parameter and its values.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sweep {
    /// Which parameter.
    pub parameter: Parameter,
    /// Its values.
    pub values: Vec<Value>,
    /// Its values when it has to be quick.
    pub quick: Vec<Value>,
}

/// The parameters that can be varied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Parameter {
    /// `load.connections`.
    Connections,
    /// `site.file_bytes`.
    FileBytes,
    /// `site.data_set_mib`.
    DataSetMib,
    /// `site.workload`.
    Workload,
    /// `load.workers`.
    Workers,
    /// `load.threads`.
    Threads,
    /// `limits.memory_mib`.
    MemoryMib,
}

/// A value of a parameter.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// Most of them.
    Number(u64),
    /// Workloads.
    Text(String),
}

/// A claim that can be checked: the ratio of two servers' medians of a metric is within bounds.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// In words.
    pub claim: String,
    /// The metric.
    pub metric: String,
    /// The ratio's numerator.
    pub left: String,
    /// The ratio's denominator.
    pub right: String,
    /// Where on the axis.
    #[serde(default)]
    pub at: At,
    /// Instead of `at`: the left server's figure is that at this value of the sweep.
    pub left_at: Option<Value>,
    /// The right server's figure is that at this value of the sweep.
    pub right_at: Option<Value>,
    /// The ratio is at most this.
    pub at_most: Option<f64>,
    /// The ratio is at least this.
    pub at_least: Option<f64>,
}

/// Where on the axis a check applies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum At {
    /// Everywhere.
    #[default]
    All,
    /// At the first value of the sweep.
    First,
    /// At the last value of the sweep.
    Last,
}

/// One place of a sweep: the scenario's settings with the values of the place.
#[derive(Clone, Debug)]
pub struct Point {
    /// Panel and place on the axis, as in results: `file_bytes=500 connections=5`; empty without sweeps.
    pub label: String,
    /// The panel's value, for people.
    pub panel: Option<String>,
    /// The value on the axis, for people.
    pub place: Option<String>,
    /// With the values of this place.
    pub site: Site,
    /// With the values of this place.
    pub load: Load,
    /// With the values of this place.
    pub limits: Limits,
}

/// A file that is no scenario.
#[derive(Debug)]
pub struct ScenarioError(String);

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ScenarioError {}

impl Scenario {
    /// The ones that come with the program.
    pub fn built_in() -> Vec<Scenario> {
        // A test reads them all.
        BUILT_IN.iter().map(|text| Scenario::parse(text).expect("they are tested")).collect()
    }

    /// Reads a file.
    ///
    /// # Errors
    /// If it is not of the form, or names something that does not exist.
    pub fn parse(text: &str) -> Result<Scenario, ScenarioError> {
        let scenario: Scenario = toml::from_str(text).map_err(|error| ScenarioError(error.to_string()))?;
        let wrong = |what: String| Err(ScenarioError(format!("{}: {what}", scenario.name)));
        let named = scenario.metrics.iter().chain(scenario.check.iter().map(|check| &check.metric));
        if let Some(name) = named.into_iter().find(|name| Metric::named(name).is_none()) {
            return wrong(format!("there is no metric {name}"));
        }
        if scenario.metrics.is_empty() || scenario.servers.is_empty() {
            return wrong("servers and metrics are needed".to_owned());
        }
        let compared = scenario.check.iter().flat_map(|check| [&check.left, &check.right]);
        if let Some(name) = compared.into_iter().find(|name| !scenario.servers.contains(name)) {
            return wrong(format!("a check names {name}, which is not among the servers"));
        }
        let is_engine = |variant: &Variant| peers::is_lamna(&variant.of);
        if let Some(variant) = scenario.variant.iter().find(|variant| !is_engine(variant)) {
            return wrong(format!("{} is a variant of {}, which is no engine of Lamna's", variant.name, variant.of));
        }
        let load = &scenario.load;
        let timed = [load.seconds, load.quick_seconds].iter().all(|seconds| seconds.is_finite() && *seconds > 0.0);
        if load.connections == 0 || load.rounds == 0 || load.quick_rounds == 0 || !timed {
            return wrong("connections, rounds and seconds are positive".to_owned());
        }
        if scenario.limits.memory_part == Some(0) {
            return wrong("memory_part is at least one".to_owned());
        }
        Ok(scenario)
    }

    /// The scenario whose measurements it shows: itself, or another.
    pub fn measured(&self) -> &str {
        self.results_of.as_deref().unwrap_or(&self.name)
    }

    /// The variant called `name`.
    pub fn variant_named(&self, name: &str) -> Option<&Variant> {
        self.variant.iter().find(|variant| variant.name == name)
    }

    /// A digest of the circumstances: measurements of another value are not comparable. Words, servers, metrics and
    /// places may change: existing measurements stay, and missing ones are made.
    pub fn circumstances(&self) -> String {
        let swept = |sweep: &Option<Sweep>| sweep.as_ref().map(|sweep| sweep.parameter);
        let (site, load, limits) = (&self.site, &self.load, &self.limits);
        format!("{:?}", (self.procedure, site, load, limits, &self.variant, swept(&self.sweep), swept(&self.panel)))
    }

    /// The places of its sweeps, panel by panel.
    pub fn points(&self, quick: bool) -> Vec<Point> {
        let values = |sweep: &Option<Sweep>| match sweep {
            None => vec![None],
            Some(sweep) => {
                let values = if quick { &sweep.quick } else { &sweep.values };
                values.iter().map(|value| Some((sweep.parameter, value.clone()))).collect()
            }
        };
        let mut points = Vec::new();
        for panel in values(&self.panel) {
            for place in values(&self.sweep) {
                points.push(self.point(panel.clone(), place));
            }
        }
        points
    }

    /// The seconds and rounds of a measurement.
    pub fn effort(&self, quick: bool) -> (f64, usize) {
        if quick { (self.load.quick_seconds, self.load.quick_rounds) } else { (self.load.seconds, self.load.rounds) }
    }

    fn point(&self, panel: Option<(Parameter, Value)>, place: Option<(Parameter, Value)>) -> Point {
        let text = |value: &Option<(Parameter, Value)>| value.as_ref().map(|(_, value)| value.to_string());
        let mut point = Point {
            label: String::new(),
            panel: text(&panel),
            place: text(&place),
            site: self.site.clone(),
            load: self.load.clone(),
            limits: self.limits,
        };
        for (parameter, value) in panel.into_iter().chain(place) {
            let separator = if point.label.is_empty() { "" } else { " " };
            point.label += &format!("{separator}{}={value}", parameter.name());
            point.set(parameter, value);
        }
        point
    }
}

impl Point {
    fn set(&mut self, parameter: Parameter, value: Value) {
        let number = match value {
            Value::Number(number) => number,
            Value::Text(text) => {
                self.site.workload = Some(text);
                return;
            }
        };
        match parameter {
            Parameter::Connections => self.load.connections = number as usize,
            Parameter::FileBytes => self.site.file_bytes = Some(number),
            Parameter::DataSetMib => self.site.data_set_mib = Some(number),
            Parameter::Workers => self.load.workers = number as usize,
            Parameter::Threads => self.load.threads = Some(number as usize),
            Parameter::MemoryMib => self.limits.memory_mib = Some(number),
            Parameter::Workload => {}
        }
    }
}

impl Parameter {
    /// As in files and results.
    pub fn name(self) -> &'static str {
        match self {
            Parameter::Connections => "connections",
            Parameter::FileBytes => "file_bytes",
            Parameter::DataSetMib => "data_set_mib",
            Parameter::Workload => "workload",
            Parameter::Workers => "workers",
            Parameter::Threads => "threads",
            Parameter::MemoryMib => "memory_mib",
        }
    }

    /// For people.
    pub fn title(self) -> &'static str {
        match self {
            Parameter::Connections => "Connections",
            Parameter::FileBytes => "File size (bytes)",
            Parameter::DataSetMib => "Data set (MiB)",
            Parameter::Workload => "Workload",
            Parameter::Workers => "Workers",
            Parameter::Threads => "Threads of the pool",
            Parameter::MemoryMib => "Memory limit (MiB)",
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Number(number) => number.fmt(f),
            Value::Text(text) => text.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::peers::Peer;

    #[test]
    fn the_scenarios_that_come_with_the_program_are_valid_and_differ() {
        let scenarios: Vec<Scenario> =
            BUILT_IN.iter().map(|text| Scenario::parse(text).unwrap_or_else(|error| panic!("{error}"))).collect();
        let names: HashSet<&str> = scenarios.iter().map(|scenario| scenario.name.as_str()).collect();
        assert_eq!(names.len(), scenarios.len());
        for scenario in &scenarios {
            for server in &scenario.servers {
                let server = scenario.variant_named(server).map_or(server, |variant| &variant.of);
                let is_known = peers::is_lamna(server) || server == peers::FLOOR || Peer::named(server).is_some();
                assert!(is_known, "{}: {server}", scenario.name);
            }
            let shown = scenario.results_of.as_ref();
            assert!(shown.is_none_or(|shown| names.contains(shown.as_str())), "{}: {shown:?}", scenario.name);
            assert!(!scenario.points(true).is_empty() && !scenario.points(false).is_empty(), "{}", scenario.name);
        }
    }

    const SMALL: &str = r#"
        name = "s"
        title = ""
        question = ""
        source = ""
        finding = ""
        expected = ""
        procedure = "throughput"
        servers = ["nginx"]
        metrics = ["cpu_us"]
    "#;

    #[test]
    fn a_sweep_and_a_panel_give_all_combinations() {
        let sweeps = "[panel]\nparameter='file_bytes'\nvalues=[1, 2]\nquick=[1]\n\
                      [sweep]\nparameter='connections'\nvalues=[3, 4]\nquick=[4]\n";
        let scenario = Scenario::parse(&format!("{SMALL}\n{sweeps}")).expect("it is valid");
        let labels: Vec<String> = scenario.points(false).into_iter().map(|point| point.label).collect();
        let expected = ["1 connections=3", "1 connections=4", "2 connections=3", "2 connections=4"];
        assert_eq!(labels, expected.map(|label| format!("file_bytes={label}")));
        let quick = scenario.points(true);
        assert_eq!(quick.len(), 1);
        assert_eq!((quick[0].load.connections, quick[0].site.file_bytes), (4, Some(1)));
    }

    #[test]
    fn mistakes_are_named() {
        let said = |text: &str| Scenario::parse(text).expect_err("it is wrong").to_string();
        assert!(said(&SMALL.replace("cpu_us", "speed")).contains("there is no metric speed"));
        assert!(said(&format!("{SMALL}\nspeling = 1")).contains("speling"));
        let check = "[[check]]\nclaim=''\nmetric='cpu_us'\nleft='nginx'\nright='caddy'\nat_most=1.0";
        assert!(said(&format!("{SMALL}\n{check}")).contains("a check names caddy"));
    }
}
