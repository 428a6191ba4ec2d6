//! Every setting of the server, in the order of documentation.
//!
//! Owns: the rows. The header of [`setting`](super) says what comes from a row, and docs/extending.md how to add one.

use lamna_policy::cache::{Algorithm, Objective};
use lamna_policy::schedule::Schedule;

use super::row::{Kind, Objection, Part, Section, Setting, Unit};
use super::values::{account_name, at, listen_at, path, put, text_of};
use crate::address::{AdminAddress, host_name};
use crate::architecture::Architecture;
use crate::cache_switches::{self, CacheSwitches};
use crate::compression::Compression;
use crate::environment::{check_admin, check_log, check_log_file};
use crate::error_log::{ErrorLogFormat, Level};
use crate::proxies::{ForwardedField, UNIX};
use crate::reload::Reload;
use crate::route::condition::Network;
use crate::sending::SendStrategy;
use crate::settings::{CachePages, Choice, HELPERS_MAX, HelperKind, LogFormat, LogTarget, Settings};
use crate::{profile, token};

/// Far more than processors are event loops that wait for each other.
const WORKERS: u64 = 1024;
/// Half of what Linux lets a process have by default.
const THREADS: u64 = 16_384;
const PROCESSES: u64 = 1024;
/// That much of a file is sent at once at most, and that much is held in memory.
const COPY_BYTES: u64 = 256 * 1024;
/// More would hold a processor for minutes.
const COMPRESS_BYTES: u64 = 64 << 20;
/// More than a system has ports.
const CONNECTIONS: u64 = 1_000_000;
/// Faster than any machine has today.
const UPLINK_BYTES_PER_S: u64 = 1 << 40;
const DAY_MS: u64 = 86_400_000;

mod certificates;
#[macro_use]
mod forms;
mod hints;

/// Every setting.
pub static SETTINGS: &[Setting] = &[
    Setting::new(
        "listen",
        Kind::Listeners,
        "Where to listen: PORT or :PORT (every address), IPV4:PORT, [IPV6]:PORT, localhost:PORT, unix:PATH",
    )
    .more("; or a table that says more: `[[listen]]` below; `-l`, `--listen`")
    .default("see below")
    .reload(Reload::Connections)
    // The file of a Unix socket is hidden from the sites.
    .empties_cache(),
    Setting::new(
        "arch",
        Kind::Word {
            words: || Choice::all().map(Choice::name).collect(),
            aliases: || Architecture::ALL.into_iter().filter_map(|each| each.character().alias).collect(),
            get: |settings| settings.choice().name(),
            set: |settings, word| Choice::from_name(word).map(|choice| settings.choose(choice)),
        },
        "Concurrency architecture: `auto` begins with amped and changes to what is better under the load; sped is event loops \
         alone, amped has helper threads for what would block, proactor hands every step to the kernel through io_uring, \
         the thread engines and mp wait in a thread or process for each connection that is being served, co-amped is amped \
         with worker processes",
    )
    .more(" (`\"mt\"` is another name of thread-pool): docs/engines.md, docs/internals/adaptive.md")
    .flag(Section::Engines)
    .order_as("architecture", None)
    .carried_in(&[
        Part {
            name: "arch",
            write: |settings| settings.architecture.name().to_owned(),
            read: |settings, text| put(&mut settings.architecture, Architecture::from_name(text)),
        },
        part!("adapts", adapts, |_| true),
    ]),
    Setting::new(
        "workers",
        Kind::NumberOrAuto {
            bounds: 1..=WORKERS,
            get: |settings| (!settings.workers_adapt).then_some(settings.workers as u64),
            set: |settings, count| {
                settings.workers_adapt = count.is_none();
                settings.workers = count.map_or_else(|| Settings::default().workers, |count| count as usize);
            },
        },
        "Event loops: threads, or processes with co-amped; `auto` is 1, and with `arch = \"auto\"` as many as are busy",
    )
    .flag(Section::Engines)
    .order()
    .concerns("every architecture but mp, which has processes", |serving| serving != Architecture::Mp)
    .carried_in(&[
        part!("workers", workers, |count| (1..=WORKERS as usize).contains(count)),
        part!("workers_adapt", workers_adapt, |_| true),
    ]),
    Setting::new(
        "profile",
        Kind::Text {
            form: "FILE",
            get: |settings| settings.profile_file.as_deref().map(text_of),
            set: |settings, text, base| {
                settings.profile_file = Some(path(text, base)?);
                Ok(())
            },
        },
        "The profile that `arch = \"auto\"` goes by, as `lamna tune` writes it",
    )
    .default("built in")
    .flag(Section::Engines)
    .environment_check(|settings, _| {
        let read = settings.profile_file.as_deref().map(profile::read).transpose();
        settings.profile = read.map_err(|why| (why, None))?;
        Ok(())
    })
    .empties_cache(),
    Setting::new("pin", switch!(pin), "Keep each worker, with all its threads, on one processor").flag(Section::Engines),
    Setting::new(
        "h2c",
        switch!(h2c),
        "Speak HTTP/2 in clear text with clients that begin with it: behind a proxy, or for tests",
    )
    .more(": docs/http2.md")
    .flag(Section::Engines)
    .reload(Reload::Connections),
    Setting::new(
        "trusted_proxies",
        Kind::List {
            form: "networks, `\"unix\"`",
            none: "none",
            get: |settings| {
                let unix = settings.proxies.unix.then(|| UNIX.to_owned());
                settings.proxies.networks.iter().map(ToString::to_string).chain(unix).collect()
            },
            clear: |settings| (settings.proxies.unix, settings.proxies.networks) = (false, Vec::new()),
            add: |settings, text, _| {
                match text.parse::<Network>() {
                    Ok(network) => settings.proxies.networks.push(network),
                    Err(_) if text == UNIX => settings.proxies.unix = true,
                    Err(why) => return Err(format!("{why}, or unix")),
                }
                Ok(())
            },
        },
        "Proxies that are believed about their clients",
    )
    .more(": docs/limits.md")
    .admits(),
    Setting::new("forwarded_field", word!(ForwardedField, proxies.field), "The field in which trusted proxies name their clients")
        .more(": docs/limits.md")
    .admits(),
    Setting::new(
        "proxy_protocol",
        Kind::List {
            form: "addresses",
            none: "none",
            get: |settings| settings.proxy_protocol.iter().map(ToString::to_string).collect(),
            clear: |settings| settings.proxy_protocol.clear(),
            add: |settings, text, base| {
                settings.proxy_protocol.push(listen_at(text, base)?);
                Ok(())
            },
        },
        "Those of `listen` where trusted proxies connect with the PROXY protocol",
    )
    .more(": docs/limits.md")
    .environment_check(|settings, _| match settings.proxies.is_empty() {
        true => Err((
            "`proxy_protocol` needs `trusted_proxies`".to_owned(),
            Some("name the proxies: trusted_proxies = [\"10.0.0.0/8\"]. Nobody else may connect there".to_owned()),
        )),
        false => Ok(()),
    })
    .reload(Reload::Connections).admits(),
    Setting::new(
        "request_limit",
        Kind::Text {
            form: "off|RATE",
            get: |settings| Some(settings.request_limit.map_or_else(|| "off".to_owned(), |rate| rate.to_string())),
            set: |settings, text, _| {
                settings.request_limit = if text == "off" { None } else { Some(text.parse().map_err(str::to_owned)?) };
                Ok(())
            },
        },
        "How much each client network may ask for, as in `20/s burst 100`",
    )
    .more(": docs/limits.md"),
    Setting::new(
        "connection_limit",
        number!(Count, 0..=CONNECTIONS, connection_limit),
        "How many connections each client network may have open at once; 0 for any number: docs/limits.md",
    )
    .reload(Reload::Connections),
    Setting::new(
        "application_limit",
        number!(Count, 0..=CONNECTIONS, application_limit),
        "How many connections to applications each client network may have at once; 0 for any number: docs/limits.md",
    ),
    Setting::new(
        "network_bytes_max",
        number!(Bytes, 0..=16 << 40, network_bytes_max),
        "The most memory that waiting connections of each client network hold in a process; 0 for any amount: docs/limits.md",
    ),
    Setting::new(
        "network_buffer_bytes_max",
        number!(Bytes, 0..=16 << 40, network_buffer_bytes_max),
        "The most content of each client network that a process keeps in files for applications, but always as much as a request may have; four times as much of all; 0 for any amount: docs/limits.md",
    ),
    Setting::new(
        "limit_exempt",
        Kind::List {
            form: "networks",
            none: "none",
            get: |settings| settings.limit_exempt.iter().map(ToString::to_string).collect(),
            clear: |settings| settings.limit_exempt.clear(),
            add: |settings, text, _| {
                settings.limit_exempt.push(text.parse()?);
                Ok(())
            },
        },
        "Clients that no limit is for",
    ),
    Setting::new(
        "account",
        switch!(account),
        "Keep books of where the time goes, by step of a request: `lamna ctl stats` shows them, and the end of the server does",
    )
    .flag(Section::Engines),
    Setting::new(
        "helpers",
        word!(HelperKind, helpers),
        "Helpers of amped and co-amped: threads, or processes as Flash had them",
    )
    .more("; a reload that turns threads into processes is refused")
    .flag(Section::Engines),
    Setting::new(
        "helpers_max",
        number!(Count, 1..=HELPERS_MAX as u64, helpers_max),
        "The most helpers of each worker of amped and co-amped",
    )
    .more(", and the most lookups under way, and kernel threads that wait for the disk, for each worker of proactor")
    .flag(Section::Engines)
    .order()
    .concerns("amped, co-amped and proactor", |serving| {
        matches!(serving, Architecture::Amped | Architecture::CoAmped | Architecture::Proactor)
    })
    .reload(Reload::AtOnce),
    Setting::new(
        "threads",
        Kind::NumberOrAuto {
            bounds: 1..=THREADS,
            get: |settings| (!settings.threads_adapt).then_some(settings.threads as u64),
            set: |settings, count| {
                settings.threads_adapt = count.is_none();
                settings.threads = count.map_or_else(|| Settings::default().threads, |count| count as usize);
            },
        },
        "Threads of each worker of thread-pool; `auto` is 64, and with `arch = \"auto\"` as many as are busy",
    )
    .more("; each takes four mappings of `vm.max_map_count`")
    .flag(Section::Engines)
    .order()
    .concerns("thread-pool", |serving| serving == Architecture::ThreadPool)
    .carried_in(&[
        part!("threads", threads, |count| (1..=THREADS as usize).contains(count)),
        part!("threads_adapt", threads_adapt, |_| true),
    ])
    .reload(Reload::AtOnce),
    Setting::new(
        "threads_max",
        number!(Count, 1..=THREADS, threads_max),
        "The most threads for connections of each worker of the thread engines",
    )
    .flag(Section::Engines)
    .carried(),
    Setting::new("processes", number!(Count, 1..=PROCESSES, processes), "Processes of mp: to begin with, and at least")
        .default("32, or `processes_max` if that is less")
        .flag(Section::Engines)
        .carried(),
    Setting::new(
        "processes_max",
        number!(Count, 1..=PROCESSES, processes_max),
        "The most processes of mp, which is how many connections it serves at a time",
    )
    .default("256, or one for each 768 KiB of a control group's memory limit")
    .flag(Section::Engines)
    .carried(),
    Setting::new(
        "process_cache_bytes",
        number!(Bytes, 64 << 10..=16 << 40, process_cache_bytes_max),
        "The most memory for cached content in each process of mp",
    )
    .default("4MiB, or all together an eighth of a control group's memory limit"),
    Setting::new(
        "process_translations_max",
        number!(Count, 1..=1_000_000, process_translations_max),
        "The most translations of targets cached in each process of mp",
    ),
    Setting::new(
        "cache_bytes",
        // 1 MiB holds the cache's own structures; no machine has 16 TiB to give.
        number!(Bytes, 1 << 20..=16 << 40, cache_bytes_max),
        "The most memory for cached content, as in 64MiB; the processes of co-amped have equal parts of it",
    )
    .default("a part of the memory that there is")
    .more(", see below")
    .flag(Section::Memory)
    .empties_cache(),
    Setting::new(
        "cache_files_max",
        Kind::NumberOrAuto {
            bounds: 16..=1_000_000,
            get: |settings| settings.cache_files_max,
            set: |settings, count| settings.cache_files_max = count,
        },
        "The most files that the cache holds open; `auto` is a quarter of what the process may open",
    )
    .flag(Section::Memory)
    .empties_cache(),
    Setting::new(
        "caches",
        Kind::Words {
            words: &cache_switches::NAMES,
            get: |settings| settings.caches.text(),
            set: |settings, text| put(&mut settings.caches, CacheSwitches::from_text(text).ok()),
        },
        "Which caches are used, to measure what each contributes",
    )
    .more(": docs/internals/caches.md")
    .flag(Section::Memory)
    .empties_cache(),
    Setting::new(
        "cache_policy",
        Kind::Word {
            words: || Algorithm::OF_SERVERS.map(Algorithm::name).to_vec(),
            aliases: Vec::new,
            get: |settings| settings.cache_policy.algorithm.name(),
            set: |settings, word| put(&mut settings.cache_policy.algorithm, word.parse().ok()),
        },
        "Which cached content goes when room is needed",
    )
    .flag(Section::Memory)
    .order()
    .reload(Reload::AtOnce),
    Setting::new(
        "cache_objective",
        word!(Objective, cache_policy.objective),
        "Whether as many requests or as many bytes as possible are answered from memory, for policies that know the difference",
    )
    .order()
    .reload(Reload::AtOnce),
    Setting::new(
        "cache_filter",
        switch!(cache_policy.is_filtered),
        "Admit a new object to a full cache only if it is requested more often than those that it would evict",
    )
    .order()
    .reload(Reload::AtOnce),
    hints::HINTS,
    hints::MEMORY,
    hints::FILE,
    hints::PERCENT,
    hints::PRECACHE,
    hints::PRECACHE_PERCENT,
    Setting::new(
        "cache_pages",
        word!(CachePages, cache_pages),
        "Whether the page cache keeps its copy of content that the cache holds",
    )
    .more(
        "; `auto` releases it where the cache has most of the memory, but leaves there what comes back while memory is free: \
         docs/internals/caches.md",
    )
    .empties_cache(),
    Setting::new(
        "cache_watch",
        switch!(cache_watch),
        "Watch directories of cached files with inotify, instead of comparing each file every second",
    )
    .empties_cache(),
    Setting::new(
        "compress",
        Kind::Words {
            words: &["br", "zstd", "gzip"],
            get: |settings| settings.compression.codings_text(),
            set: |settings, text| put(&mut settings.compression.codings, Compression::codings_from_text(text).ok()),
        },
        "Codings that text is compressed into while it is served",
    )
    .flag(Section::Memory)
    .empties_cache(),
    Setting::new(
        "compress_bytes_min",
        number!(Bytes, 1..=COMPRESS_BYTES, compression.bytes_min),
        "Content of fewer bytes is not compressed",
    )
    .empties_cache(),
    Setting::new(
        "compress_bytes_max",
        number!(Bytes, 1..=COMPRESS_BYTES, compression.bytes_max),
        "Content of more bytes is not compressed",
    )
    .more(", nor of more than an eighth of a shard of the cache (docs/internals/caches.md)")
    .empties_cache(),
    Setting::new(
        "schedule",
        Kind::Word {
            words: || Schedule::ALL.map(Schedule::name).to_vec(),
            aliases: Vec::new,
            get: |settings| settings.schedule.name(),
            set: |settings, word| put(&mut settings.schedule, word.parse().ok()),
        },
        "Which connection goes on when several can, and which job when several wait for the disk: in order, by turns, or the one with the least left; `auto` goes by turns, or by the least while many differ",
    )
    .more(": docs/scheduling.md")
    .flag(Section::Engines)
    .order(),
    Setting::new(
        "uplink_bytes_per_s",
        number!(Bytes, 0..=UPLINK_BYTES_PER_S, uplink_bytes_per_s),
        "What the link carries in a second that answers are sent over, as in 12MB: no more is sent, so that `schedule` decides what \
         waits; 0 if nothing is to be kept to",
    )
    .flag(Section::Engines)
    .order(),
    Setting::new(
        "send",
        word!(SendStrategy, sending.strategy),
        "How files that are not held in memory are sent: read and sent, sent from a mapping, or with sendfile; `auto` copies \
         what is short",
    )
    .more(", see below")
    .flag(Section::Memory)
    .order(),
    Setting::new(
        "stretch_copy_bytes_max",
        number!(Bytes, 0..=COPY_BYTES, sending.stretch_copy_bytes_max),
        "The longest stretch of a file that is copied with `send = \"auto\"`",
    )
    .order(),
    Setting::new(
        "message_copy_bytes_max",
        number!(Bytes, 0..=COPY_BYTES, sending.message_copy_bytes_max),
        "The longest message, head and content, that is copied from the cache behind the answers before it",
    )
    .more("; longer content is sent from the cache")
    .order_as("message_copy_bytes_max", Some("copy_bytes_max")),
    Setting::new(
        "log",
        Kind::Text {
            form: "off|-|FILE",
            get: |settings| {
                Some(settings.log.text())
            },
            set: |settings, text, base| {
                settings.log = match LogTarget::from_text(text) {
                    LogTarget::File(_) => LogTarget::File(path(text, base)?),
                    other => other,
                };
                Ok(())
            },
        },
        "Access log: `off`, `-` for standard output, or a file",
    )
    .flag(Section::Logs)
    .environment_check(|settings, depth| advised(check_log(&settings.log, depth)))
    .empties_cache(),
    Setting::new(
        "log_format",
        Kind::Text {
            form: "combined|vhost-combined|json|TEMPLATE",
            get: |settings| Some(settings.log_format.text().to_owned()),
            set: |settings, text, _| {
                settings.log_format = LogFormat::from_text(text)?;
                Ok(())
            },
        },
        "How access log lines are written",
    )
    .more("; a template has variables, as in `$host $status`: [logs.md](logs.md)")
    .flag(Section::Logs),
    Setting::new(
        "request_id",
        switch!(request_id),
        "Tell clients what their request is called, in `X-Request-Id`, and add it to lines of the combined log",
    )
    .more(": docs/security.md")
    .flag(Section::Logs),
    Setting::new(
        "error_log",
        Kind::Text {
            form: "-|FILE",
            get: |settings| Some(settings.error_log.file.as_deref().map_or_else(|| "-".to_owned(), text_of)),
            set: |settings, text, base| {
                settings.error_log.file = if text == "-" { None } else { Some(path(text, base)?) };
                Ok(())
            },
        },
        "Error log: `-` for standard error, or a file",
    )
    .flag(Section::Logs)
    .environment_check(|settings, depth| match &settings.error_log.file {
        Some(file) => advised(check_log_file(file, "error log", depth)),
        None => Ok(()),
    })
    .empties_cache(),
    Setting::new("error_log_format", word!(ErrorLogFormat, error_log.format), "How error log lines are written")
        .flag(Section::Logs),
    Setting::new("error_log_level", word!(Level, error_log.level), "The least important lines of the error log")
        .more("; `--quiet` is `\"warning\"` with `log = \"off\"`"),
    Setting::new(
        "admin",
        Kind::Text {
            form: "unix:PATH|ADDR|auto|off",
            get: |settings| Some(settings.admin.address.to_string()),
            set: |settings, text, base| {
                settings.admin.address = match text.parse() {
                    Ok(AdminAddress::At(address)) => AdminAddress::At(at(address, base)?),
                    Ok(other) => other,
                    Err(error) => return Err(format!("{error}, or off, or auto")),
                };
                Ok(())
            },
        },
        "Where `lamna ctl`, probes and monitoring reach this server: unix:PATH, an address as for `listen` (loopback, unless \
         one is named) in addition to the Unix socket that `lamna ctl` finds, that socket alone (auto), or off",
    )
    .more(": docs/control.md")
    .flag(Section::Control)
    .environment_check(|settings, depth| advised(check_admin(&settings.admin.address, &settings.listen, depth)))
    .reload(Reload::Restart("another way to control the server")),
    Setting::new(
        "admin_hosts",
        Kind::List {
            form: "names",
            none: "none",
            get: |settings| settings.admin.hosts.clone(),
            clear: |settings| settings.admin.hosts.clear(),
            add: |settings, text, _| {
                settings.admin.hosts.push(host_name(text)?);
                Ok(())
            },
        },
        "Names by which the control address may be asked over TCP, beside those that can only be this machine's",
    )
    .reload(Reload::Restart("another way to control the server")),
    Setting::new(
        "admin_token_file",
        Kind::Text {
            form: "FILE",
            get: |settings| settings.admin.token_file.as_deref().map(text_of),
            set: |settings, text, base| {
                settings.admin.token_file = Some(path(text, base)?);
                Ok(())
            },
        },
        "A file with the token that orders over TCP need",
    )
    .default("a token is made")
    .environment_check(|settings, _| match settings.admin.token_file.as_deref().map(|file| (file, token::read(file))) {
        Some((file, Err(error))) => Err((format!("`{}` has no token: {error}", file.display()), None)),
        _ => Ok(()),
    })
    .reload(Reload::Restart("another way to control the server")),
    Setting::new(
        "user",
        Kind::Text {
            form: "NAME",
            get: |settings| settings.user.clone(),
            set: |settings, text, _| account_name(text).map(|name| settings.user = Some(name)),
        },
        "The user that the server becomes once it listens, if it is started as root: by name or by number",
    )
    .more(": docs/security.md")
    .default("the user that starts it")
    .flag(Section::Control)
    .reload(Reload::Restart("another user or group to become")),
    Setting::new(
        "group",
        Kind::Text {
            form: "NAME",
            get: |settings| settings.group.clone(),
            set: |settings, text, _| account_name(text).map(|name| settings.group = Some(name)),
        },
        "The group that it becomes with `user`, beside those that the user is in",
    )
    .default("that of the user")
    .flag(Section::Control)
    .environment_check(|settings, _| match settings.user {
        None => Err((
            "`group` needs `user`".to_owned(),
            Some("name the user that the server becomes, too: user = \"www-data\"".to_owned()),
        )),
        Some(_) => Ok(()),
    })
    .reload(Reload::Restart("another user or group to become")),
    Setting::new(
        "sandbox",
        switch!(sandbox),
        "Confine the threads that serve to the files that are served, with Landlock, and keep them from starting programs, with seccomp",
    )
    .more(": docs/security.md")
    .flag(Section::Control),
    Setting::new(
        "native_services",
        switch!(native_services),
        "Whether shared objects may be services: code that is loaded into the server, and can do what it can",
    )
    .more(": docs/services.md"),
    certificates::DIRECTORY,
    certificates::CONTACT,
    certificates::PROFILE,
    certificates::ROOTS,
    Setting::new(
        "drain_timeout_ms",
        number!(Milliseconds, 0..=DAY_MS, drain_timeout_ms),
        "How long requests under way may take to end when the server drains, in milliseconds",
    )
    .flag(Section::Control)
    .order()
    .reload(Reload::AtOnce),
];

/// The setting of this name.
pub fn find(name: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.name == name)
}

/// Why a server with the settings `before` does not go on with `after` when it reads the configuration again, in words.
/// None if it does, as far as rows tell.
pub fn refused_by_reload(before: &Settings, after: &Settings) -> Option<String> {
    let names = |setting: &Setting| match setting.reload {
        Reload::Restart(what) if setting.values(before) != setting.values(after) => Some(what),
        _ => None,
    };
    if after.listen.is_empty() && !before.listen.is_empty() {
        return Some("the configuration names no address to listen at any more, which takes a restart".to_owned());
    }
    let what = SETTINGS.iter().find_map(names)?;
    Some(format!("the configuration names {what}, which takes a restart"))
}

/// The setting that an order calls so.
pub fn find_by_order(name: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| {
        let order = setting.order.as_ref();
        order.is_some_and(|order| order.name == name || order.alias == Some(name) || setting.name == name)
    })
}

/// The names of all settings.
pub const NAMES: [&str; SETTINGS.len()] = {
    let mut names = [""; SETTINGS.len()];
    let mut index = 0;
    while index < names.len() {
        names[index] = SETTINGS[index].name;
        index += 1;
    }
    names
};

/// The outcome of a look, as an objection.
fn advised(found: Result<(), (String, String)>) -> Result<(), Objection> {
    found.map_err(|(message, hint)| (message, Some(hint)))
}

#[cfg(test)]
mod tests;
