//! Metrics of things that a server has some of: places of applications, services, certificates, threads, steps; and of
//! what the server is.
//!
//! Owns: [`FAMILIES`], their rows. Guarantees: a row here is a metric and a line of the documentation. A metric without
//! samples is left out. What the values are, in JSON, is for `api` to say; counters have rows of their own
//! (`lamna_proto::counter`).

use std::collections::BTreeMap;
use std::fmt::Display;

use lamna_proto::counter::Kind;
use lamna_site::upstream::status::PlaceStatus;
use lamna_tls::FileCertificate;

use super::api::{Now, Phase, Stats, Status};
use super::metrics::seconds;
use super::thread_stats::Task;

/// A metric, and how its samples are made.
pub(super) struct Family {
    /// Its name.
    pub(super) name: &'static str,
    /// How its values behave.
    pub(super) kind: Kind,
    /// The names of its labels.
    pub(super) labels: &'static [&'static str],
    /// Its help.
    pub(super) help: &'static str,
    samples: fn(&Told<'_>, &mut Samples),
}

/// The sources of samples.
struct Told<'a> {
    status: &'a Status,
    stats: &'a Stats,
}

/// The values of labels, in the order of the row's, and what is told for them.
type Samples = Vec<(Vec<String>, String)>;

impl Family {
    /// Its samples: labels, and values.
    pub(super) fn samples(&self, status: &Status, stats: &Stats) -> Samples {
        let mut samples = Vec::new();
        (self.samples)(&Told { status, stats }, &mut samples);
        samples
    }
}

/// A time of each certificate from files, by the hosts of its sites: `*` for a site of every host.
fn of_files(told: &Told<'_>, samples: &mut Samples, time_of: fn(&FileCertificate) -> Option<u64>) {
    for one in &told.status.certificate_files {
        let any = (one.hosts.is_empty()).then(|| "*".to_owned());
        let times = time_of(one)
            .into_iter()
            .flat_map(|at| one.hosts.iter().cloned().chain(any.clone()).map(move |host| (vec![host], at.to_string())));
        samples.extend(times);
    }
}

const fn counter(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
    samples: fn(&Told<'_>, &mut Samples),
) -> Family {
    Family { name, kind: Kind::Counter, labels, help, samples }
}

const fn gauge(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
    samples: fn(&Told<'_>, &mut Samples),
) -> Family {
    Family { name, kind: Kind::Gauge, labels, help, samples }
}

/// All of them.
pub(super) const FAMILIES: &[Family] = &[
    gauge("lamna_info", &["version", "architecture"], "The program and its architecture.", |told, samples| {
        let Status { version, arch, .. } = told.status;
        samples.push((vec![version.clone(), arch.architecture.clone()], "1".to_owned()));
    }),
    gauge("lamna_build_info", &["version", "target"], "The program, as it was built.", |told, samples| {
        let target = format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS);
        samples.push((vec![told.status.version.clone(), target], "1".to_owned()));
    }),
    counter(
        "process_cpu_seconds_total",
        &[],
        "Time on processors of all processes of the server, those that have ended included.",
        |told, samples| only(samples, told.stats.process.cpu_ms as f64 / 1e3),
    ),
    gauge(
        "process_resident_memory_bytes",
        &[],
        "Resident memory of all processes of the server. What they share counts for each.",
        |told, samples| only(samples, told.stats.process.resident_bytes),
    ),
    gauge("process_open_fds", &[], "Open descriptors of all processes of the server.", |told, samples| {
        told.stats.process.descriptors.iter().for_each(|open| only(samples, open));
    }),
    gauge("process_max_fds", &[], "The most descriptors that a process may have.", |told, samples| {
        told.stats.process.descriptors_max.iter().for_each(|most| only(samples, most));
    }),
    gauge(
        "process_start_time_seconds",
        &[],
        "When the main process started, in seconds since 1970.",
        |told, samples| {
            told.stats.process.started_unix_ms.iter().for_each(|at| only(samples, *at as f64 / 1e3));
        },
    ),
    gauge("lamna_workers", &[], "Workers.", |told, samples| {
        only(samples, told.status.arch.workers);
    }),
    gauge("lamna_uptime_seconds", &[], "Since the server started.", |told, samples| {
        only(samples, told.status.uptime_s);
    }),
    gauge("lamna_ready", &[], "Whether it takes connections.", |told, samples| {
        only(samples, u64::from(told.status.phase == Phase::Serving));
    }),
    gauge("lamna_cache_limit_bytes", &[], "Bytes that the cache may hold.", |told, samples| {
        only(samples, told.status.arch.cache_bytes_max);
    }),
    gauge(
        "lamna_memory_pressure_ratio",
        &[],
        "Share of ten seconds in which something waited for memory.",
        |told, samples| told.stats.memory_pressure_percent.iter().for_each(|percent| only(samples, percent / 100.0)),
    ),
    counter(
        "lamna_tls_handshakes_total",
        &["version", "protocol", "resumed"],
        "TLS handshakes that have ended well.",
        |told, samples| {
            for kind in told.stats.tls.iter().flat_map(|tls| &tls.handshakes) {
                let labels = vec![kind.version.clone(), kind.protocol.clone(), kind.resumed.to_string()];
                samples.push((labels, kind.count.to_string()));
            }
        },
    ),
    counter("lamna_tls_handshakes_failed_total", &[], "TLS handshakes that have failed.", |told, samples| {
        told.stats.tls.iter().for_each(|tls| only(samples, tls.failed));
    }),
    counter("lamna_tls_ciphers_total", &["cipher"], "TLS handshakes by cipher suite.", |told, samples| {
        told.stats.tls.iter().for_each(|tls| by_name(samples, &tls.ciphers));
    }),
    counter("lamna_tls_groups_total", &["group"], "TLS handshakes by group of the key exchange.", |told, samples| {
        told.stats.tls.iter().for_each(|tls| by_name(samples, &tls.groups));
    }),
    sensor("lamna_sensor_requests_per_second", "Requests a second, in the last half second.", |told, samples| {
        sensed(told, samples, |now| now.requests_per_s);
    }),
    sensor(
        "lamna_sensor_request_cpu_seconds",
        "CPU time for each request, in the last half second.",
        |told, samples| {
            sensed(told, samples, |now| now.cpu_us_per_request / 1e6);
        },
    ),
    sensor("lamna_sensor_request_bytes", "Bytes sent for each request, in the last half second.", |told, samples| {
        sensed(told, samples, |now| now.bytes_per_request);
    }),
    sensor(
        "lamna_sensor_hit_ratio",
        "Targets that were in the cache and fresh, in the last half second.",
        |told, samples| sensed(told, samples, |now| now.hit_ratio),
    ),
    sensor(
        "lamna_sensor_would_block_ratio",
        "Names and reads that would have blocked, in the last half second.",
        |told, samples| sensed(told, samples, |now| now.would_block_ratio),
    ),
    sensor(
        "lamna_sensor_stalled_ratio",
        "Time for which loops stood still, in the last half second; 1 is one loop all the time.",
        |told, samples| sensed(told, samples, |now| now.stalled_ratio),
    ),
    sensor(
        "lamna_sensor_helper_delay_seconds",
        "Wait of a job for a helper thread, in the last half second.",
        |told, samples| sensed(told, samples, |now| now.helper_delay_us / 1e6),
    ),
    sensor(
        "lamna_sensor_thread_delay_seconds",
        "Wait of a connection for a thread of a pool, in the last half second.",
        |told, samples| sensed(told, samples, |now| now.thread_delay_us / 1e6),
    ),
    sensor(
        "lamna_sensor_run_queue_processors",
        "Threads that could run and wait for a processor, in the last half second.",
        |told, samples| sensed(told, samples, |now| now.run_queue_processors),
    ),
    sensor(
        "lamna_sensor_request_switches",
        "Context switches for each request, in the last half second.",
        |told, samples| sensed(told, samples, |now| now.switches_per_request),
    ),
    gauge(
        "lamna_certificate_expiry_timestamp_seconds",
        &["host"],
        "Until when a certificate is valid, ordered or from files.",
        |told, samples| {
            for one in &told.status.certificates {
                one.valid_until.iter().for_each(|at| samples.push((vec![one.name.clone()], at.to_string())));
            }
            of_files(told, samples, |one| one.valid_until);
        },
    ),
    gauge(
        "lamna_certificate_not_before_timestamp_seconds",
        &["host"],
        "From when on a certificate is valid, ordered or from files.",
        |told, samples| {
            for one in &told.status.certificates {
                one.valid_from.iter().for_each(|at| samples.push((vec![one.name.clone()], at.to_string())));
            }
            of_files(told, samples, |one| one.valid_from);
        },
    ),
    gauge("lamna_certificate_renewal_timestamp_seconds", &["host"], "When it is to be renewed.", |told, samples| {
        for one in &told.status.certificates {
            one.renewed_at.iter().for_each(|at| samples.push((vec![one.name.clone()], at.to_string())));
        }
    }),
    counter(
        "lamna_certificate_orders_total",
        &["host", "result"],
        "Certificates issued, and attempts that have failed.",
        |told, samples| {
            for one in &told.status.certificates {
                for (result, count) in [("issued", one.issued), ("failed", one.failed)] {
                    samples.push((vec![one.name.clone(), result.to_owned()], count.to_string()));
                }
            }
        },
    ),
    gauge(
        "lamna_certificate_failures",
        &["host"],
        "Attempts that have failed since the last certificate.",
        |told, samples| {
            let certificates = &told.status.certificates;
            samples.extend(certificates.iter().map(|one| (vec![one.name.clone()], one.failures.to_string())));
        },
    ),
    counter(
        "lamna_upstream_requests_total",
        &["site", "upstream"],
        "Requests that a place of an application was given.",
        |told, samples| of_places(told, samples, |place| Some(place.asked)),
    ),
    counter(
        "lamna_upstream_failures_total",
        &["site", "upstream"],
        "Those of them that have failed.",
        |told, samples| of_places(told, samples, |place| Some(place.failed)),
    ),
    gauge(
        "lamna_upstream_requests_active",
        &["site", "upstream"],
        "Those of them that are under way.",
        |told, samples| of_places(told, samples, |place| place.under_way.map(u64::from)),
    ),
    gauge("lamna_upstream_connections_kept", &["site", "upstream"], "Idle connections to a place.", |told, samples| {
        of_places(told, samples, |place| place.kept.map(|kept| kept as u64))
    }),
    gauge(
        "lamna_upstream_drained",
        &["site", "upstream"],
        "Whether an operator has a place get no request.",
        |told, samples| of_places(told, samples, |place| Some(u64::from(place.drained))),
    ),
    gauge("lamna_upstream_up", &["site", "upstream"], "Whether requests are given to a place.", |told, samples| {
        of_places(told, samples, |place| place.is_up().map(u64::from))
    }),
    gauge(
        "lamna_upstream_info",
        &["site", "upstream", "application"],
        "1 for each application with a name, and each place of it.",
        |told, samples| {
            for place in &told.status.upstreams {
                let labels = |name: &String| vec![place.site.clone(), place.address.clone(), name.clone()];
                samples.extend(place.applications.iter().map(|name| (labels(name), "1".to_owned())));
            }
        },
    ),
    gauge(
        "lamna_maintenance",
        &["site"],
        "Whether a site is in maintenance, of which the operator or its key says something.",
        |told, samples| {
            let sites = told.status.maintenance.iter();
            samples.extend(sites.map(|one| (vec![one.site.clone()], u64::from(one.on).to_string())));
        },
    ),
    counter(
        "lamna_service_runs_total",
        &["service"],
        "Streams that a service has begun to filter.",
        |told, samples| {
            let services = told.status.services.iter();
            samples.extend(services.map(|one| (vec![one.name.clone()], one.runs.unwrap_or(0).to_string())));
        },
    ),
    counter(
        "lamna_service_failures_total",
        &["service"],
        "Times that a service has been suspended because it has failed.",
        |told, samples| {
            let services = told.status.services.iter();
            samples.extend(services.map(|one| (vec![one.name.clone()], one.failures.unwrap_or(0).to_string())));
        },
    ),
    gauge("lamna_service_in_use", &["service"], "Whether a service is in use.", |told, samples| {
        let services = told.status.services.iter();
        samples.extend(services.map(|one| (vec![one.name.clone()], u64::from(one.state == "in use").to_string())));
    }),
    gauge(
        "lamna_application_processes",
        &["application"],
        "Processes of an application that the server has started.",
        |told, samples| {
            let applications = told.status.applications.iter();
            samples.extend(applications.map(|one| (vec![one.address.clone()], one.processes.len().to_string())));
        },
    ),
    counter(
        "lamna_application_ends_total",
        &["application"],
        "Processes of an application that have ended by themselves, or could not be started.",
        |told, samples| {
            let applications = told.status.applications.iter();
            samples.extend(applications.map(|one| (vec![one.address.clone()], one.ends.to_string())));
        },
    ),
    counter(
        "lamna_thread_cpu_seconds_total",
        &["thread", "pid", "tid"],
        "Time of a thread on a processor.",
        |told, samples| of_threads(told, samples, |task| seconds(task.cpu_us)),
    ),
    counter(
        "lamna_thread_run_queue_seconds_total",
        &["thread", "pid", "tid"],
        "Time that a thread was ready and waited for a processor.",
        |told, samples| of_threads(told, samples, |task| seconds(task.run_queue_us)),
    ),
    counter(
        "lamna_thread_voluntary_switches_total",
        &["thread", "pid", "tid"],
        "Times that a thread waited.",
        |told, samples| of_threads(told, samples, |task| task.voluntary_switches.to_string()),
    ),
    counter(
        "lamna_thread_involuntary_switches_total",
        &["thread", "pid", "tid"],
        "Times that a thread was preempted.",
        |told, samples| of_threads(told, samples, |task| task.involuntary_switches.to_string()),
    ),
    counter(
        "lamna_step_nanoseconds_total",
        &["step"],
        "Time in each step of serving, without steps within; with `account`.",
        |told, samples| {
            let steps = told.stats.account.iter().flat_map(|account| &account.steps);
            samples.extend(steps.map(|step| (vec![step.step.clone()], step.ns.to_string())));
        },
    ),
    counter(
        "lamna_steps_total",
        &["step"],
        "How often each step of serving was taken; with `account`.",
        |told, samples| {
            let steps = told.stats.account.iter().flat_map(|account| &account.steps);
            samples.extend(steps.map(|step| (vec![step.step.clone()], step.times.to_string())));
        },
    ),
];

/// A gauge of a server that adapts.
const fn sensor(name: &'static str, help: &'static str, samples: fn(&Told<'_>, &mut Samples)) -> Family {
    gauge(name, &[], help, samples)
}

fn sensed(told: &Told<'_>, samples: &mut Samples, value: impl Fn(&Now) -> f64) {
    told.stats.now.iter().for_each(|now| only(samples, value(now)));
}

fn only(samples: &mut Samples, value: impl Display) {
    samples.push((Vec::new(), value.to_string()));
}

fn by_name(samples: &mut Samples, counts: &BTreeMap<String, u64>) {
    samples.extend(counts.iter().map(|(name, count)| (vec![name.clone()], count.to_string())));
}

fn of_places(told: &Told<'_>, samples: &mut Samples, value: impl Fn(&PlaceStatus) -> Option<u64>) {
    for place in &told.status.upstreams {
        let labels = vec![place.site.clone(), place.address.clone()];
        value(place).into_iter().for_each(|value| samples.push((labels.clone(), value.to_string())));
    }
}

fn of_threads(told: &Told<'_>, samples: &mut Samples, value: impl Fn(&Task) -> String) {
    for task in &told.stats.tasks {
        samples.push((vec![task.name.clone(), task.pid.to_string(), task.tid.to_string()], value(task)));
    }
}
