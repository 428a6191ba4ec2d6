//! Status and figures for Prometheus: its text format, version 0.0.4.
//!
//! Owns: names, units, help. The standard HTTP metrics have the names of OpenTelemetry's semantic conventions as they are
//! translated for Prometheus; what OpenTelemetry has no name for begins with `lamna_`.

use std::fmt::Write as _;

use lamna_proto::tally::{BUCKETS, bound_us};
use lamna_site::early_hints;
use lamna_site::upstream::status::PlaceStatus;
use lamna_sys::metrics::step_timer::StepTimes;
use lamna_tls::acme::Ordered;

use super::api::{Handshakes, HitStats, Now, Phase, Stats, Status, TlsStats};
use super::applications::ApplicationStatus;
use super::duration::Distribution;
use super::hints::HintStats;
use super::thread_stats::Task;
use crate::admin::services::ServiceStatus;

/// What it is sent as.
pub(super) const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The exposition.
pub(super) fn render(status: &Status, stats: &Stats) -> String {
    let mut page = Page::default();
    about_requests(stats, &mut page);
    about_connections(status, stats, &mut page);
    stats.tls.iter().for_each(|tls| about_tls(tls, &mut page));
    about_caches_and_disk(status, stats, &mut page);
    about_hints(stats, &mut page);
    about_the_server(status, stats, &mut page);
    stats.now.iter().for_each(|now| about_now(now, &mut page));
    about_certificates(&status.certificates, &mut page);
    about_upstreams(&status.upstreams, &mut page);
    about_services(&status.services, &mut page);
    about_applications(&status.applications, &mut page);
    about_tasks(&stats.tasks, &mut page);
    stats.account.iter().for_each(|account| about_steps(account, &mut page));
    page.text
}

fn about_steps(account: &StepTimes, page: &mut Page) {
    page.family("lamna_step_nanoseconds_total", "counter", "Time in each step of serving, without steps within.");
    for step in &account.steps {
        page.sample(&format!("lamna_step_nanoseconds_total{{step=\"{}\"}}", step.step), step.ns);
    }
    page.family("lamna_steps_total", "counter", "How often each step of serving was taken.");
    for step in &account.steps {
        page.sample(&format!("lamna_steps_total{{step=\"{}\"}}", step.step), step.times);
    }
}

fn about_requests(stats: &Stats, page: &mut Page) {
    let responses = &stats.responses;
    page.distribution(
        "http_server_request_duration_seconds",
        "From a complete request to its last byte given to the socket. Estimated from samples below a clock tick.",
        &responses.duration,
    );
    page.family("http_server_responses_total", "counter", "Responses by the class of their status.");
    for (class, count) in (1..).zip(responses.by_class) {
        page.sample(&format!("http_server_responses_total{{class=\"{class}xx\"}}"), count);
    }
    page.family("lamna_protocol_responses_total", "counter", "Responses by the protocol that they went over.");
    for (protocol, count) in [("http/1", stats.protocols.http1), ("h2", stats.protocols.http2)] {
        page.sample(&format!("lamna_protocol_responses_total{{protocol=\"{protocol}\"}}"), count);
    }
    page.family(
        "lamna_http2_abuses_total",
        "counter",
        "What peers of HTTP/2 did that costs and carries nothing: docs/http2.md.",
    );
    for (kind, count) in &responses.http2_abuses {
        page.sample(&format!("lamna_http2_abuses_total{{kind=\"{kind}\"}}"), *count);
    }
    page.counter("http_server_response_body_bytes_total", "Bytes of content answered with.", responses.content_bytes);
    page.counter("lamna_requests_total", "Requests whose target was looked up.", stats.requests);
}

fn about_tls(tls: &TlsStats, page: &mut Page) {
    page.family("lamna_tls_handshakes_total", "counter", "TLS handshakes that have ended well.");
    for Handshakes { version, protocol, resumed, count } in &tls.handshakes {
        let labels = format!("version=\"{version}\",protocol=\"{protocol}\",resumed=\"{resumed}\"");
        page.sample(&format!("lamna_tls_handshakes_total{{{labels}}}"), count);
    }
    page.counter("lamna_tls_handshakes_failed_total", "TLS handshakes that have failed.", tls.failed);
    let agreed = [
        ("lamna_tls_ciphers_total", "TLS handshakes by cipher suite.", "cipher", &tls.ciphers),
        ("lamna_tls_groups_total", "TLS handshakes by group of the key exchange.", "group", &tls.groups),
    ];
    for (name, help, label, counts) in agreed {
        page.family(name, "counter", help);
        for (value, count) in counts {
            page.sample(&format!("{name}{{{label}=\"{value}\"}}"), count);
        }
    }
}

fn about_connections(status: &Status, stats: &Stats, page: &mut Page) {
    let connections = &stats.connections;
    if let Some(workers) = &status.workers {
        page.family("lamna_connections_open", "gauge", "Open connections of each worker.");
        open_connections(workers, page);
    }
    for (name, help, count) in [
        ("lamna_connections_idle", "Open connections that wait for a request.", connections.idle),
        ("lamna_connections_slow", "Open connections whose peers do not take what is sent.", connections.slow),
    ] {
        count.into_iter().for_each(|count| page.gauge(name, help, count));
    }
    page.counter("lamna_connections_total", "Connections accepted.", connections.accepted);
    page.counter("lamna_accept_pauses_total", "Pauses for want of descriptors.", connections.accept_pauses);
    page.counter(
        "lamna_requests_limited_total",
        "Requests refused with 429 because their client network was over a limit.",
        connections.requests_limited,
    );
    page.counter(
        "lamna_connections_limited_total",
        "Connections refused or closed because their client network had as many, or held as much memory, as it may.",
        connections.limited,
    );
    page.counter("lamna_connections_shed_total", "Connections closed for descriptors.", connections.idle_shed);
}

fn open_connections(workers: &[u32], page: &mut Page) {
    for (worker, open) in workers.iter().enumerate() {
        page.sample(&format!("lamna_connections_open{{worker=\"{worker}\"}}"), open);
    }
}

fn about_early_hints(hints: &early_hints::Figures, page: &mut Page) {
    page.family("lamna_early_hints_total", "counter", "Hints to clients, by what became of them.");
    let withheld = [
        ("withheld_known", hints.withheld_known),
        ("withheld_budget", hints.withheld_budget),
        ("withheld_control", hints.withheld_control),
    ];
    let sent = [("sent", hints.sent), ("used", hints.used), ("wasted", hints.wasted)];
    for (fate, count) in sent.into_iter().chain(withheld) {
        page.sample(&format!("lamna_early_hints_total{{fate=\"{fate}\"}}"), count);
    }
    page.family("lamna_early_hints_bytes_total", "counter", "Bytes of what they name.");
    for (fate, bytes) in [("sent", hints.sent_bytes), ("used", hints.used_bytes), ("wasted", hints.wasted_bytes)] {
        page.sample(&format!("lamna_early_hints_bytes_total{{fate=\"{fate}\"}}"), bytes);
    }
    page.gauge("lamna_early_hint_pages", "Pages whose needs are known.", hints.pages);
    about_link_prefetch(&hints.link_prefetch, page);
}

fn about_link_prefetch(links: &early_hints::LinkPrefetchFigures, page: &mut Page) {
    page.family("lamna_link_prefetch_total", "counter", "Links to likely next pages, by what became of them.");
    for (fate, count) in [
        ("sent", links.sent),
        ("fetched", links.fetched),
        ("shown", links.shown),
        ("asked", links.asked),
        ("control_asked", links.control_asked),
        ("withheld_control", links.withheld_control),
        ("withheld_known", links.withheld_known),
        ("withheld_budget", links.withheld_budget),
    ] {
        page.sample(&format!("lamna_link_prefetch_total{{fate=\"{fate}\"}}"), count);
    }
    page.family("lamna_link_prefetch_bytes_total", "counter", "Bytes of the pages that they name.");
    for (fate, bytes) in
        [("fetched", links.fetched_bytes), ("asked", links.asked_bytes), ("control_asked", links.control_asked_bytes)]
    {
        page.sample(&format!("lamna_link_prefetch_bytes_total{{fate=\"{fate}\"}}"), bytes);
    }
    let wasted = links.wasted_bytes();
    page.gauge(
        "lamna_link_prefetch_wasted_bytes",
        "Of the bytes fetched ahead, those not wanted: an estimate.",
        wasted,
    );
}

fn about_caches_and_disk(status: &Status, stats: &Stats, page: &mut Page) {
    let (lookups, disk) = (&stats.lookups, &stats.disk);
    page.family("lamna_cache_lookups_total", "counter", "What workers knew of the targets that were asked for.");
    for (result, count) in [("hit", lookups.hits), ("stale", lookups.stale), ("miss", lookups.misses)] {
        page.sample(&format!("lamna_cache_lookups_total{{result=\"{result}\"}}"), count);
    }
    page.family("lamna_cache_requests_total", "counter", "Requests for which a cache had what was needed, or had not.");
    let caches = &stats.caches;
    let each = [("translations", caches.translations), ("entries", caches.entries), ("content", caches.content)];
    for (cache, HitStats { hits, misses }) in each {
        page.sample(&format!("lamna_cache_requests_total{{cache=\"{cache}\",result=\"hit\"}}"), hits);
        page.sample(&format!("lamna_cache_requests_total{{cache=\"{cache}\",result=\"miss\"}}"), misses);
    }
    page.family(
        "lamna_kept_answers_total",
        "counter",
        "Requests by what was known of the answer of their application.",
    );
    for (result, count) in &stats.kept_answers {
        page.sample(&format!("lamna_kept_answers_total{{result=\"{result}\"}}"), *count);
    }
    if let Some(waiting) = stats.kept_answers_waiting {
        page.gauge(
            "lamna_kept_answers_waiting",
            "Requests that wait for the answer that another one is getting.",
            waiting,
        );
    }
    about_early_hints(&stats.early_hints, page);
    page.family("lamna_cache_content_bytes_total", "counter", "Bytes of content from memory, or from files.");
    for (result, bytes) in [("hit", caches.content_bytes.hits), ("miss", caches.content_bytes.misses)] {
        page.sample(&format!("lamna_cache_content_bytes_total{{result=\"{result}\"}}"), bytes);
    }
    if let Some(bytes) = status.cache_bytes {
        page.gauge("lamna_cache_bytes", "Bytes in the cache.", bytes);
    }
    page.gauge("lamna_cache_limit_bytes", "Bytes that the cache may hold.", status.arch.cache_bytes_max);
    page.family("lamna_disk_operations_total", "counter", "Disk operations, and whether they would have blocked.");
    let operations = [
        ("open", "cached", disk.open_cached),
        ("open", "blocked", disk.open_blocked),
        ("read", "cached", disk.read_cached),
        ("read", "blocked", disk.read_blocked),
        ("test", "cachestat", disk.tested_by_cachestat),
        ("test", "page", disk.tested_by_page),
        ("test", "none", disk.untested),
    ];
    for (operation, result, count) in operations {
        let labels = format!("operation=\"{operation}\",result=\"{result}\"");
        page.sample(&format!("lamna_disk_operations_total{{{labels}}}"), count);
    }
    page.counter("lamna_helper_jobs_total", "Jobs given to helpers.", disk.helper_jobs);
    page.gauge("lamna_helper_queue", "Jobs that no helper has begun yet.", disk.helper_queue);
    page.family("lamna_helper_wait_seconds_total", "counter", "Time that jobs have waited for a helper thread.");
    page.sample("lamna_helper_wait_seconds_total", seconds(disk.helper_wait_us));
    let waits = &stats.waits;
    page.family("lamna_loop_stalled_seconds_total", "counter", "Time of event loops in batches of 20 ms and more.");
    page.sample("lamna_loop_stalled_seconds_total", seconds(waits.stalled_ms * 1000));
    page.gauge("lamna_thread_queue", "Connections that wait for a thread of a pool.", waits.thread_queue);
    page.counter("lamna_thread_waits_total", "Connections that threads of pools have taken up.", waits.thread_waits);
    page.family("lamna_thread_wait_seconds_total", "counter", "Time that these have waited for a thread.");
    page.sample("lamna_thread_wait_seconds_total", seconds(waits.thread_wait_ms * 1000));
}

/// Nothing if nothing is learned.
fn about_hints(stats: &Stats, page: &mut Page) {
    if stats.hints != HintStats::default() {
        for (name, kind, help, value) in stats.hints.families() {
            page.family(name, kind, help);
            page.sample(name, value);
        }
    }
}

fn about_the_server(status: &Status, stats: &Stats, page: &mut Page) {
    let (version, arch) = (&status.version, &status.arch);
    page.family("lamna_info", "gauge", "The program and its architecture.");
    let labels = format!("version=\"{version}\",architecture=\"{}\"", arch.architecture);
    page.sample(&format!("lamna_info{{{labels}}}"), 1);
    page.gauge("lamna_workers", "Workers.", arch.workers as u64);
    page.gauge("lamna_uptime_seconds", "Since the server started.", status.uptime_s);
    page.gauge("lamna_ready", "Whether it takes connections.", u64::from(status.phase == Phase::Serving));
    page.family("lamna_log_lines_missing_total", "counter", "Access log lines that were not written.");
    page.sample("lamna_log_lines_missing_total{cause=\"dropped\"}", stats.log_lines_dropped);
    page.sample("lamna_log_lines_missing_total{cause=\"lost\"}", stats.log_lines_lost);
    if let Some(percent) = stats.memory_pressure_percent {
        page.family(
            "lamna_memory_pressure_ratio",
            "gauge",
            "Share of ten seconds in which something waited for memory.",
        );
        page.sample("lamna_memory_pressure_ratio", percent / 100.0);
    }
}

/// Certificates that are ordered. Names are those of the configuration, which have no characters to escape.
fn about_certificates(certificates: &[Ordered], page: &mut Page) {
    if certificates.is_empty() {
        return;
    }
    let name = "lamna_certificate_expiry_timestamp_seconds";
    page.family(name, "gauge", "Until when a certificate is valid.");
    for (host, at) in certificates.iter().filter_map(|one| Some((&one.name, one.valid_until?))) {
        page.sample(&format!("{name}{{host=\"{host}\"}}"), at);
    }
    let name = "lamna_certificate_renewal_timestamp_seconds";
    page.family(name, "gauge", "When it is to be renewed.");
    for (host, at) in certificates.iter().filter_map(|one| Some((&one.name, one.renewed_at?))) {
        page.sample(&format!("{name}{{host=\"{host}\"}}"), at);
    }
    page.family("lamna_certificate_orders_total", "counter", "Certificates issued, and attempts that have failed.");
    for one in certificates {
        for (result, count) in [("issued", one.issued), ("failed", one.failed)] {
            page.sample(&format!("lamna_certificate_orders_total{{host=\"{}\",result=\"{result}\"}}", one.name), count);
        }
    }
    let name = "lamna_certificate_failures";
    page.family(name, "gauge", "Attempts that have failed since the last certificate.");
    for one in certificates {
        page.sample(&format!("{name}{{host=\"{}\"}}", one.name), one.failures);
    }
}

/// Places of applications: as many as are counted.
/// The services that filters may be.
fn about_services(services: &[ServiceStatus], page: &mut Page) {
    if services.is_empty() {
        return;
    }
    let mut family = |name: &str, kind: &str, help: &str, value: &dyn Fn(&ServiceStatus) -> u64| {
        page.family(name, kind, help);
        for service in services {
            // It has no character that would have to be written otherwise.
            page.sample(&format!("{name}{{service=\"{}\"}}", service.name), value(service));
        }
    };
    let runs = "Streams that a service has begun to filter.";
    family("lamna_service_runs_total", "counter", runs, &|service| service.runs.unwrap_or(0));
    let failures = "Times that a service has been suspended because it has failed.";
    family("lamna_service_failures_total", "counter", failures, &|service| service.failures.unwrap_or(0));
    family("lamna_service_in_use", "gauge", "Whether a service is in use.", &|service| {
        u64::from(service.state == "in use")
    });
}

fn about_upstreams(upstreams: &[PlaceStatus], page: &mut Page) {
    if upstreams.is_empty() {
        return;
    }
    let mut family = |name: &str, kind: &str, help: &str, value: &dyn Fn(&PlaceStatus) -> Option<u64>| {
        let samples: Vec<_> = upstreams.iter().filter_map(|one| Some((one, value(one)?))).collect();
        if samples.is_empty() {
            return;
        }
        page.family(name, kind, help);
        for (one, value) in samples {
            let (site, address) = (escaped(&one.site), escaped(&one.address));
            page.sample(&format!("{name}{{site=\"{site}\",upstream=\"{address}\"}}"), value);
        }
    };
    let requests = "Requests that a place of an application was given.";
    family("lamna_upstream_requests_total", "counter", requests, &|one| Some(one.asked));
    family("lamna_upstream_failures_total", "counter", "Those of them that have failed.", &|one| Some(one.failed));
    family("lamna_upstream_requests_active", "gauge", "Those of them that are under way.", &|one| {
        one.under_way.map(u64::from)
    });
    family("lamna_upstream_connections_kept", "gauge", "Idle connections to a place.", &|one| {
        one.kept.map(|kept| kept as u64)
    });
    family("lamna_upstream_up", "gauge", "Whether requests are given to a place.", &|one| {
        one.state.map(|state| u64::from(state.is_up()))
    });
}

/// Applications that the server has started.
fn about_applications(applications: &[ApplicationStatus], page: &mut Page) {
    if applications.is_empty() {
        return;
    }
    let mut family = |name: &str, kind: &str, help: &str, value: &dyn Fn(&ApplicationStatus) -> u64| {
        page.family(name, kind, help);
        for one in applications {
            page.sample(&format!("{name}{{application=\"{}\"}}", escaped(&one.address)), value(one));
        }
    };
    family(
        "lamna_application_processes",
        "gauge",
        "Processes of an application that the server has started.",
        &|one| one.processes.len() as u64,
    );
    let help = "Processes of an application that have ended by themselves, or could not be started.";
    family("lamna_application_ends_total", "counter", help, &|one| one.ends);
}

/// What the sensors of a server that adapts have measured last.
fn about_now(now: &Now, page: &mut Page) {
    let figures = [
        ("requests_per_second", "Requests a second.", now.requests_per_s),
        ("request_cpu_seconds", "CPU time for each request.", now.cpu_us_per_request / 1e6),
        ("request_bytes", "Bytes sent for each request.", now.bytes_per_request),
        ("hit_ratio", "Targets that were in the cache and fresh.", now.hit_ratio),
        ("would_block_ratio", "Names and reads that would have blocked.", now.would_block_ratio),
        ("stalled_ratio", "Time for which loops stood still; 1 is one loop all the time.", now.stalled_ratio),
        ("helper_delay_seconds", "Wait of a job for a helper thread.", now.helper_delay_us / 1e6),
        ("thread_delay_seconds", "Wait of a connection for a thread of a pool.", now.thread_delay_us / 1e6),
        ("run_queue_processors", "Threads that could run and wait for a processor.", now.run_queue_processors),
        ("request_switches", "Context switches for each request.", now.switches_per_request),
    ];
    for (name, help, value) in figures {
        let name = format!("lamna_sensor_{name}");
        page.family(&name, "gauge", &format!("{help} In the last half second."));
        page.sample(&name, value);
    }
}

fn about_tasks(tasks: &[Task], page: &mut Page) {
    page.tasks("lamna_thread_cpu_seconds_total", "Time on a processor.", tasks, |task| seconds(task.cpu_us));
    page.tasks("lamna_thread_run_queue_seconds_total", "Time waiting for a processor.", tasks, |task| {
        seconds(task.run_queue_us)
    });
    page.tasks("lamna_thread_voluntary_switches_total", "Times that it waited.", tasks, |task| {
        task.voluntary_switches.to_string()
    });
    page.tasks("lamna_thread_involuntary_switches_total", "Times that it was preempted.", tasks, |task| {
        task.involuntary_switches.to_string()
    });
}

/// Microseconds as seconds, exactly.
fn seconds(microseconds: u64) -> String {
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
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}").expect("writing to a string does not fail");
    }

    fn sample(&mut self, name: &str, value: impl std::fmt::Display) {
        writeln!(self.text, "{name} {value}").expect("writing to a string does not fail");
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.family(name, "counter", help);
        self.sample(name, value);
    }

    fn gauge(&mut self, name: &str, help: &str, value: u64) {
        self.family(name, "gauge", help);
        self.sample(name, value);
    }

    fn distribution(&mut self, name: &str, help: &str, durations: &Distribution) {
        self.family(name, "histogram", help);
        let mut below = 0;
        for bucket in 0..BUCKETS {
            below += durations.buckets[bucket];
            let bound = bound_us(bucket).map_or("+Inf".to_owned(), seconds);
            self.sample(&format!("{name}_bucket{{le=\"{bound}\"}}"), below);
        }
        self.sample(&format!("{name}_sum"), seconds(durations.sum_us));
        self.sample(&format!("{name}_count"), below);
    }

    fn tasks(&mut self, name: &str, help: &str, tasks: &[Task], value: impl Fn(&Task) -> String) {
        self.family(name, "counter", help);
        for task in tasks {
            let (thread, pid, tid) = (escaped(&task.name), task.pid, task.tid);
            self.sample(&format!("{name}{{thread=\"{thread}\",pid=\"{pid}\",tid=\"{tid}\"}}"), value(task));
        }
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
        page.distribution("d", "h", &durations);
        for line in ["d_bucket{le=\"0.000001\"} 1", "d_bucket{le=\"0.000008\"} 3", "d_bucket{le=\"+Inf\"} 4"] {
            assert!(page.text.contains(&format!("{line}\n")), "{}", page.text);
        }
        assert!(page.text.ends_with("d_sum 3.00001\nd_count 4\n"), "{}", page.text);
    }

    #[test]
    fn a_thread_of_any_name_keeps_the_format() {
        let task = Task { name: "a\"b\\c\nd".to_owned(), ..Task::default() };
        let mut page = Page::default();
        page.tasks("t", "h", &[task], |_| "1".to_owned());
        assert!(page.text.contains(r#"t{thread="a\"b\\c\nd",pid="0",tid="0"} 1"#), "{}", page.text);
    }
}
