//! `lamna ctl`: asks or orders a running server, and puts the answer into words.
//!
//! Owns: the choice of the server and the layout for people. With `--json` the answer of the endpoint is printed as it
//! is. Does not know how a server does what it is told.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::Path;
use std::time::Duration;

use lamna_policy::size::format_size;
use lamna_policy::words::{self, Align, Table};
use lamna_server::admin::api::{Arch, Now, Phase, ProtocolStats, TlsStats};
use lamna_server::admin::client::{Reply, ask, ask_with};
use lamna_server::admin::figures::Figures;
use lamna_server::admin::process_stats::ProcessStats;
use lamna_server::admin::socket_path::{Servers, find};
use lamna_server::admin::thread_stats::Task;
use lamna_server::admin::trace::TraceOrder;
use lamna_server::admin::upstreams::tell_places;
use lamna_server::admin::{Stats, Status};
use lamna_server::config::setting::SETTINGS;
use lamna_server::config::settings::ListenAddress;
use lamna_server::config::token;
use lamna_server::content::explain::{Asked, Explanation};
use lamna_server::content::purge::Purge;
use lamna_server::hints::HintReport;
use lamna_server::upstream::status::PlaceStatus;
use serde_json::Value;

use crate::args::{ArchCommand, CacheCommand, CtlArgs, CtlCommand, UpstreamCommand};
use crate::exit::{Exit, Failed};
use crate::explain;
use crate::operators;
use crate::service::{self, ServiceCommand};
use crate::trace;

/// A request of the endpoint, and how its answer is told.
struct HelperJob {
    method: &'static str,
    path: &'static str,
    content: String,
    tell: fn(&str) -> Option<String>,
}

/// Carries `args` out.
pub(crate) fn run(args: &CtlArgs) -> Result<(), Failed> {
    let errand = errand(&args.command)?;
    let address = match &args.admin {
        Some(address) => address.clone(),
        None => the_only_server(find())?,
    };
    let token = args.token_file.as_deref().map(read_token).transpose()?;
    let request = |method, path, content: &str| match &token {
        Some(token) => ask_with(Some(token), &address, method, path, content),
        None => ask(&address, method, path, content),
    };
    let mut reply = request(errand.method, errand.path, &errand.content)?;
    if reply.status != 200 {
        return Err(refused(&reply, args.json));
    }
    if let CtlCommand::Trace { wait, .. } = &args.command {
        reply.content = trace::follow(&reply.content, Duration::from_secs(*wait), || {
            let reply = request("POST", trace::REPORT, "")?;
            if reply.status == 200 { Ok(reply.content) } else { Err(refused(&reply, args.json)) }
        })?;
    }
    let told = match &args.command {
        _ if args.json => None,
        CtlCommand::Upstream { command: Some(UpstreamCommand::List { site: Some(site) }) } => {
            Some(operators::tell_upstreams_of(&reply.content, site, ago)?)
        }
        CtlCommand::Service { command: ServiceCommand::List } => Some(service::tell(&reply.content, None)?),
        CtlCommand::Service { command: ServiceCommand::Info { name } } => {
            Some(service::tell(&reply.content, Some(name))?)
        }
        _ => (errand.tell)(&reply.content),
    };
    // What this program cannot tell, an endpoint of another version, is printed as it is.
    let text = told.unwrap_or(reply.content);
    // The server may be another user's: it must not be able to steer the terminal.
    let text: String =
        text.chars().map(|each| if each.is_control() && each != '\n' { '\u{fffd}' } else { each }).collect();
    Ok(io::stdout().write_all(text.as_bytes())?)
}

fn read_token(file: &Path) -> Result<String, Failed> {
    token::read(file).map_err(|error| Failed {
        exit: Exit::Usage,
        report: format!("lamna: cannot read the token in {}: {error}", file.display()),
    })
}

fn errand(command: &CtlCommand) -> Result<HelperJob, Failed> {
    let get = |path, tell| HelperJob { method: "GET", path, content: String::new(), tell };
    let order = |path, content| HelperJob { method: "POST", path, content, tell: tell_done };
    Ok(match command {
        CtlCommand::Status => get("/v1/status", tell_status),
        CtlCommand::Stats => get("/v1/stats", tell_stats),
        CtlCommand::Arch { command: None | Some(ArchCommand::Get) } => get("/v1/arch", tell_arch),
        CtlCommand::Arch { command: Some(ArchCommand::Why) } => get("/v1/arch/why", tell_done),
        CtlCommand::Set(args) | CtlCommand::Arch { command: Some(ArchCommand::Set(args)) } => {
            let change = serde_json::to_string(&args.change()).expect("plain data can be written as JSON");
            order("/v1/arch", change)
        }
        CtlCommand::Explain { url, from } => {
            let asked = Asked { client: *from, ..explain::asked(url)? };
            let content = serde_json::to_string(&asked).expect("plain data can be written as JSON");
            HelperJob { tell: tell_explanation, ..order("/v1/explain", content) }
        }
        CtlCommand::Hints { url } => {
            let content = serde_json::to_string(&explain::asked(url)?).expect("plain data can be written as JSON");
            HelperJob { tell: tell_hints, ..order("/v1/hints", content) }
        }
        CtlCommand::Trace { url, wait } => {
            let trace = TraceOrder { asked: trace::asked(url)?, wait_s: *wait };
            let content = serde_json::to_string(&trace).expect("plain data can be written as JSON");
            HelperJob { tell: trace::tell, ..order(trace::START, content) }
        }
        CtlCommand::Cache { command: CacheCommand::Purge { url, prefix, .. } } => {
            let of = |url: &Option<String>| url.as_deref().map(explain::asked).transpose();
            let purge = Purge { url: of(url)?, prefix: of(prefix)? };
            order("/v1/cache/purge", serde_json::to_string(&purge).expect("plain data can be written as JSON"))
        }
        CtlCommand::Maintenance { command } => match operators::maintenance(command.as_ref())? {
            None => get("/v1/maintenance", operators::tell_maintenance),
            Some(content) => order("/v1/maintenance", content),
        },
        CtlCommand::Upstream { command } => match operators::upstream(command.as_ref()) {
            None => get("/v1/upstreams", tell_upstreams),
            Some(content) => order("/v1/upstreams", content),
        },
        CtlCommand::Service { command } => match command.order()? {
            None => get("/v1/services", |_| None),
            Some(order_of_service) => {
                let content = serde_json::to_string(&order_of_service).expect("plain data can be written as JSON");
                order("/v1/services", content)
            }
        },
        CtlCommand::Drain => order("/v1/drain", String::new()),
        CtlCommand::Upgrade => order("/v1/upgrade", String::new()),
        CtlCommand::Reload => order("/v1/reload", String::new()),
    })
}

/// The only server that there is; several are listed, so that one can be chosen.
fn the_only_server(servers: Servers) -> Result<ListenAddress, Failed> {
    let stale = match servers.stale {
        0 => String::new(),
        1 => " The stale socket of one that died has been removed.".to_owned(),
        many => format!(" The stale sockets of {many} that died have been removed."),
    };
    match servers.sockets.as_slice() {
        [only] => Ok(ListenAddress::Unix(only.clone())),
        [] => Err(Failed {
            exit: Exit::Unavailable,
            report: format!(
                "lamna: no server of this user is running.{stale}\n  One that was started with --admin, or by another \
                 user, is reached with --admin ADDR."
            ),
        }),
        several => {
            let mut report = format!("lamna: {} servers are running: choose one with --admin.{stale}", several.len());
            for path in several {
                let address = ListenAddress::Unix(path.clone());
                let _ = write!(report, "\n  --admin {address}  {}", describe(&address));
            }
            Err(Failed { exit: Exit::Usage, report })
        }
    }
}

fn describe(address: &ListenAddress) -> String {
    let status = ask(address, "GET", "/v1/status", "").map(|reply| serde_json::from_str::<Status>(&reply.content));
    match status {
        Ok(Ok(status)) => format!("process {}, {}", status.pid, status.addresses.join(", ")),
        Ok(Err(_)) => "of another version".to_owned(),
        Err(_) => "does not answer".to_owned(),
    }
}

fn refused(reply: &Reply, json: bool) -> Failed {
    let exit = match reply.status {
        403 => Exit::NoPermission,
        _ => Exit::Failure,
    };
    let value: Option<Value> = serde_json::from_str(&reply.content).ok();
    let why = value.as_ref().and_then(|value| value.get("error")?.as_str()).unwrap_or(&reply.content);
    let report = if json { reply.content.trim_end().to_owned() } else { format!("lamna: {why}") };
    Failed { exit, report }
}

fn tell_done(json: &str) -> Option<String> {
    let value: Value = serde_json::from_str(json).ok()?;
    Some(format!("{}\n", value.get("done")?.as_str()?))
}

fn tell_explanation(json: &str) -> Option<String> {
    serde_json::from_str::<Explanation>(json).ok().map(|explanation| explanation.to_string())
}

fn tell_hints(json: &str) -> Option<String> {
    serde_json::from_str::<HintReport>(json).ok().map(|report| report.to_string())
}

fn tell_upstreams(json: &str) -> Option<String> {
    serde_json::from_str::<Vec<PlaceStatus>>(json).ok().map(|places| tell_places(&places, ago))
}

fn tell_status(json: &str) -> Option<String> {
    let status: Status = serde_json::from_str(json).ok()?;
    let phase = match status.phase {
        Phase::Starting => "starting",
        Phase::Serving => "serving",
        Phase::Draining => "draining",
    };
    let mut page = Page::default();
    page.line("server", format!("lamna {}, process {}", status.version, status.pid));
    page.line("state", format!("{phase}, up {}", duration(status.uptime_s)));
    let at = if status.listeners.is_empty() { &status.addresses } else { &status.listeners };
    page.line("at", at.join(", "));
    page.line("serves", status.roots.join(", "));
    page.line("architecture", architecture(&status.arch));
    let each: Vec<String> = status.workers.iter().flatten().map(u32::to_string).collect();
    let each = if each.len() > 1 { format!(" ({})", each.join(" + ")) } else { String::new() };
    let open = status.connections_open.map(|open| format!("{open} open{each}, ")).unwrap_or_default();
    page.line("connections", format!("{open}{} so far", status.connections));
    page.line("requests", status.requests.to_string());
    let ProtocolStats { http1, http2 } = status.protocols;
    page.line("protocols", format!("HTTP/1 {http1}, HTTP/2 {http2} responses"));
    status.tls.iter().for_each(|tls| tell_tls(tls, &mut page));
    let used = status.cache_bytes.map_or("divided among processes".to_owned(), |bytes| format!("{bytes} bytes"));
    page.line("cache", format!("{used} of {}", format_size(status.arch.cache_bytes_max)));
    let said = [("user", &status.user), ("sandbox", &status.sandbox)];
    said.into_iter().for_each(|(name, text)| text.iter().for_each(|text| page.line(name, text.clone())));
    for certificate in &status.certificates {
        page.line("certificate", certificate.describe(lamna_server::acme::status::now()));
    }
    for certificate in &status.certificate_files {
        page.line("certificate", certificate.describe(lamna_server::acme::status::now()));
    }
    status.maintenance.iter().for_each(|one| page.line("maintenance", one.describe()));
    for upstream in &status.upstreams {
        page.line("application", upstream.describe(ago));
    }
    for application in &status.applications {
        page.line("started", application.describe(duration, ago));
    }
    Some(page.text())
}

/// How long ago a time in seconds since 1970 was.
fn ago(at: u64) -> String {
    format!("{} ago", duration(lamna_server::acme::status::now().saturating_sub(at)))
}

/// Lines about the clients of TLS.
fn tell_tls(tls: &TlsStats, page: &mut Page) {
    let (all, resumed) = (tls.count(|_| true), tls.count(|kind| kind.resumed));
    let versions = ["1.3", "1.2"].map(|version| (version, tls.count(|kind| kind.version == version)));
    let versions = versions.into_iter().filter(|(_, count)| *count > 0);
    let versions: Vec<String> = versions.map(|(version, count)| format!("TLS {version} {count}")).collect();
    let h2 = tls.count(|kind| kind.protocol == "h2");
    page.line("TLS", format!("{all} handshakes, {resumed} resumed, {h2} for HTTP/2; {} failed", tls.failed));
    if all > 0 {
        let named = |counts: &BTreeMap<String, u64>| {
            counts.iter().map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ")
        };
        for agreed in [versions.join(", "), named(&tls.ciphers), named(&tls.groups)] {
            page.line("", agreed);
        }
    }
}

fn tell_arch(json: &str) -> Option<String> {
    let arch: Arch = serde_json::from_str(json).ok()?;
    let mut page = Page::default();
    page.line("architecture", architecture(&arch));
    page.line("threads", format!("{}, at most {}", arch.threads, arch.threads_max));
    page.line("cache", format!("at most {}", format_size(arch.cache_bytes_max)));
    for setting in SETTINGS {
        if let Some(value) = arch.show(setting) {
            let chosen = arch.schedule_in_force.as_ref().filter(|_| setting.name == "schedule");
            page.line(setting.name, chosen.map_or_else(|| value.clone(), |chosen| format!("{value}: {chosen} now")));
        }
    }
    Some(page.text())
}

fn tell_stats(json: &str) -> Option<String> {
    let Stats { figures, tls, now, tasks, process, memory_pressure_percent, account } =
        serde_json::from_str(json).ok()?;
    let mut page = Page::default();
    for (name, told) in figures.lines() {
        page.line(name, told);
    }
    tell_hits(&figures, &mut page);
    tls.iter().for_each(|tls| tell_tls(tls, &mut page));
    now.iter().for_each(|now| tell_now(now, &mut page));
    if let Some(account) = account {
        account.to_string().lines().for_each(|line| page.line("time", line));
    }
    if let Some(percent) = memory_pressure_percent {
        page.line("memory", format!("{percent} % of the last 10 s in want of it"));
    }
    let ProcessStats { cpu_ms, resident_bytes, descriptors, descriptors_max, .. } = process;
    let [open, most] = [descriptors, descriptors_max].map(|n| n.map_or_else(|| "?".to_owned(), |n| n.to_string()));
    let memory = format_size(resident_bytes);
    page.line("processes", format!("{cpu_ms} ms CPU, {memory} of memory, {open} descriptors of {most} for each"));
    Some(page.text() + &tell_tasks(&tasks))
}

/// The share of hits of each cache.
fn tell_hits(figures: &Figures, page: &mut Page) {
    let caches = ["translations", "entries", "content", "content_bytes"].map(|cache| {
        let [hits, misses] = ["hits", "misses"].map(|result| figures.get(&format!("caches.{cache}.{result}")));
        (cache.replace('_', " "), hits, hits + misses)
    });
    let asked = caches.iter().filter(|(_, _, all)| *all > 0);
    let told: Vec<String> =
        asked.map(|(cache, hits, all)| format!("{cache} {:.1} %", 100.0 * *hits as f64 / *all as f64)).collect();
    if !told.is_empty() {
        page.line("cache hits", told.join(", "));
    }
}

/// The costs of threads: a table of its own, because their names are longer than those of figures.
fn tell_tasks(tasks: &[Task]) -> String {
    let mut table = Table::new(&[Align::Left, Align::Right, Align::Right, Align::Right, Align::Right]);
    table.row(["thread", "ms CPU", "ms waiting for it", "voluntary switches", "involuntary"]);
    for task in tasks.iter().take(TASKS_TOLD) {
        table.row([
            task.name.clone(),
            (task.cpu_us / 1000).to_string(),
            (task.run_queue_us / 1000).to_string(),
            task.voluntary_switches.to_string(),
            task.involuntary_switches.to_string(),
        ]);
    }
    match tasks.len().saturating_sub(TASKS_TOLD) {
        0 => format!("\n{table}"),
        more => format!("\n{table}and {} more\n", words::count(more, "thread")),
    }
}

/// Lines about the last measurements of the sensors of a server that adapts.
fn tell_now(now: &Now, page: &mut Page) {
    let percent = |ratio: f64| format!("{:.1} %", ratio * 100.0);
    let busy: Vec<String> = now.workers_busy.iter().map(|busy| percent(*busy)).collect();
    page.line(
        "now",
        format!(
            "{:.0} requests a second, {:.1} us CPU and {:.0} bytes each, {:.2} switches",
            now.requests_per_s, now.cpu_us_per_request, now.bytes_per_request, now.switches_per_request
        ),
    );
    page.line("", format!("{} hits, {} would block", percent(now.hit_ratio), percent(now.would_block_ratio)));
    page.line("", format!("workers busy {}, stalled {}", busy.join(" + "), percent(now.stalled_ratio)));
    page.line("", format!("{:.2} processors waited for", now.run_queue_processors));
    page.line(
        "",
        format!(
            "helpers: {} at once, {:.1} ms waited for; threads: {} at once, {:.1} ms waited for",
            now.helpers_busy_peak,
            now.helper_delay_us / 1000.0,
            now.threads_busy_peak,
            now.thread_delay_us / 1000.0
        ),
    );
}

/// Threads that are told of one by one.
const TASKS_TOLD: usize = 16;

fn architecture(arch: &Arch) -> String {
    let noun = if arch.processes { "process" } else { "worker" };
    format!("{}, {}", arch.architecture, words::count(arch.workers, noun))
}

/// Seconds in the two largest units.
fn duration(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, minutes) => format!("{minutes} min {} s", seconds % 60),
        (0, hours, minutes) => format!("{hours} h {minutes} min"),
        (days, hours, _) => format!("{days} d {hours} h"),
    }
}

/// Names and values, one a line.
#[derive(Default)]
struct Page {
    table: Table,
}

impl Page {
    fn line(&mut self, name: &str, value: impl std::fmt::Display) {
        self.table.row([name.to_owned(), value.to_string()]);
    }

    fn text(&self) -> String {
        self.table.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_the_two_largest_units() {
        for (seconds, text) in [(0, "0 s"), (61, "1 min 1 s"), (3_660, "1 h 1 min"), (90_000, "1 d 1 h")] {
            assert_eq!(duration(seconds), text);
        }
    }

    #[test]
    fn names_of_threads_do_not_run_into_their_figures() {
        let task = |name: &str| Task { name: name.to_owned(), cpu_us: 570_000, ..Task::default() };
        let stats = Stats { tasks: vec![task("worker-0"), task("fifteen-letters")], ..Stats::default() };
        let told = tell_stats(&serde_json::to_string(&stats).unwrap()).unwrap();
        let of = |name: &str| {
            let line = told.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name} in {told}"));
            line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(of("worker-0"), ["worker-0", "570", "0", "0", "0"]);
        assert_eq!(of("fifteen-letters"), ["fifteen-letters", "570", "0", "0", "0"]);
    }

    #[test]
    fn figures_are_told_a_line_for_each_name_and_zero_is_not() {
        let json = r#"{"requests": 5, "lookups": {"hits": 3, "stale": 0, "misses": 2}, "tasks": [],
            "caches": {"entries": {"hits": 3, "misses": 1}}, "responses": {"by_class": [0, 4, 0, 1, 0]}}"#;
        let told = tell_stats(json).unwrap();
        let lines: Vec<Vec<&str>> = told.lines().map(|line| line.split_whitespace().collect()).collect();
        for line in ["requests 5", "lookups 3 hits, 2 misses", "responses 2xx 4, 4xx 1", "cache hits entries 75.0 %"] {
            assert!(lines.contains(&line.split(' ').collect()), "{line} in {told}");
        }
        assert!(!told.contains("stale") && !told.contains("connections"), "{told}");
    }

    #[test]
    fn what_cannot_be_told_is_left_as_it_is() {
        for tell in [tell_done, tell_status, tell_arch, tell_stats] {
            assert_eq!(tell("{\"unknown\": 1}"), None);
            assert_eq!(tell("nonsense"), None);
        }
    }
}
