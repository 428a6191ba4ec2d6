//! Messages of a server about itself in the course of its life: one line each, on standard error and in the error
//! log, and to a service manager.
//!
//! Owns: the wording. Errors word themselves.

use std::io::IsTerminal;
use std::sync::Arc;

use lamna_config::settings::{Architecture, ListenAddress, ListenAt, Settings, SiteSettings, SiteTls};
use lamna_engine::worker::confinement;
use lamna_engine::worker::migration::transfer::Sender;
use lamna_io::listen::Listener;
use lamna_io::log::errors::{self, Level};
use lamna_policy::words;
use lamna_sys::sandbox::Kind;
use lamna_tls::automatic::StateFiles;
use lamna_tls::local_ca::{LocalFiles, how_to_trust};

use crate::admin::api::{Progress, Refusal};
use crate::process::orders::{ControlChannel, Report};
use crate::process::running_engine::SwitchError;
use crate::process::sd_notify::{notify, notify_reloading};
use crate::process::shared_metrics::SharedMetrics;
use crate::process::upgrade::{NoSuccessor, Purpose, Successor};

/// Says one line in one piece: several processes write to the same place while one takes the place of another.
macro_rules! say {
    ($($part:tt)*) => {
        errors::tell(Level::Info, format_args!($($part)*))
    };
}

/// The same of what is not as it was asked for, or should be: with the time, as a line of the error log.
macro_rules! report {
    ($level:ident, $($part:tt)*) => {
        errors::report(Level::$level, format_args!($($part)*))
    };
}

/// The summary, in lines, at the end.
pub(crate) fn report_done(shared_metrics: &SharedMetrics) {
    shared_metrics.to_string().lines().for_each(|line| say!("{line}"));
}

/// One line: where, how, and how many.
pub(crate) fn announce(settings: &Settings, listeners: &[Arc<Listener>], confined: Option<Kind>) {
    notify("READY=1");
    let addresses: Vec<String> = listeners.iter().map(|listener| url(listener, settings)).collect();
    let roots: Vec<String> = settings.sites.iter().map(SiteSettings::describe_root).collect();
    let count = match settings.architecture {
        Architecture::Mp => settings.processes,
        _ => settings.workers,
    };
    let kind = if settings.architecture.is_of_processes() { "process" } else { "worker" };
    let workers = words::count(count, kind);
    say!(
        "serving {} at {} ({}, {workers})",
        roots.join(", "),
        addresses.join(", "),
        settings.choice().describe(settings.architecture)
    );
    if settings.listen.iter().any(|one| matches!(one.at, ListenAt::EveryAddress(_))) {
        say!("a port alone is listened at on every address: 127.0.0.1:PORT is for this machine alone");
    }
    say!("sandbox: {}", confinement::describe(confined));
    if settings.sites.iter().any(|site| site.tls == Some(SiteTls::Local))
        && let Ok(files) = LocalFiles::of_user()
    {
        how_to_trust(&files).lines().for_each(|line| say!("{line}"));
    }
    tell_what_is_ordered(settings, listeners);
    if rustix::process::geteuid().is_root() {
        errors::tell(
            Level::Warning,
            format_args!("{}", root_doubt(listeners.iter().map(|listener| listener.address()))),
        );
    }
    if std::io::stderr().is_terminal() {
        say!("press Ctrl-C to stop");
    }
}

/// The URL to type into a browser, or into curl's `--unix-socket`.
pub(crate) fn url(listener: &Listener, settings: &Settings) -> String {
    match listener.address() {
        ListenAddress::Tcp(address) if settings.speak_tls() && listener.speaks_tls() => format!("https://{address}"),
        ListenAddress::Tcp(address) => format!("http://{address}"),
        unix @ ListenAddress::Unix(_) => unix.to_string(),
    }
}

/// The same, with what is done there.
pub(crate) fn described(listener: &Listener, settings: &Settings) -> String {
    let words = listener.describe(settings);
    match words.is_empty() {
        true => url(listener, settings),
        false => format!("{} ({})", url(listener, settings), words.join(", ")),
    }
}

/// Which certificates are ordered, from which authority, and what may keep that from working.
fn tell_what_is_ordered(settings: &Settings, listeners: &[Arc<Listener>]) {
    let names = settings.automatic_names();
    if names.is_empty() {
        return;
    }
    let directory = &settings.acme.directory;
    let place = StateFiles::of(settings).map(|files| files.directory().display().to_string()).unwrap_or_default();
    say!(
        "certificates for {} are ordered from {directory}, which means to agree to its terms; they are kept in {place}",
        names.join(", ")
    );
    if let Some(doubt) = doors_doubt(listeners.iter().map(|listener| listener.address())) {
        errors::tell(Level::Warning, format_args!("{doubt}"));
    }
}

/// The reason why a certificate authority cannot reach a server at these addresses, unless something in front forwards
/// it.
fn doors_doubt<'a>(addresses: impl Iterator<Item = &'a ListenAddress>) -> Option<&'static str> {
    let tcp = addresses.filter_map(|address| match address {
        ListenAddress::Tcp(tcp) => Some(tcp),
        ListenAddress::Unix(_) => None,
    });
    let tcp: Vec<_> = tcp.collect();
    let listens_at = |port: u16| tcp.iter().any(|tcp| tcp.port() == port);
    if !tcp.is_empty() && tcp.iter().all(|tcp| tcp.ip().is_loopback()) {
        return Some(
            "certificates are ordered, and only this machine reaches the server: a certificate authority has to reach \
             port 80 or 443 of it from the internet",
        );
    }
    match (listens_at(80), listens_at(443)) {
        (true, true) => None,
        (true, false) => {
            Some("nothing listens at port 443, where browsers look for https: forward it to the port of this server")
        }
        (false, true) => Some(
            "nothing listens at port 80: certificates are ordered by a handshake at port 443 alone (tls-alpn-01), which \
             fails behind a proxy that ends TLS, and http:// addresses lead nowhere; add --listen :80",
        ),
        (false, false) => Some(
            "nothing listens at port 80 or 443: a certificate authority reaches this server only if port 443 is forwarded to it",
        ),
    }
}

/// Why not to serve as root on these addresses: nothing that serves files needs it.
fn root_doubt<'a>(mut addresses: impl Iterator<Item = &'a ListenAddress>) -> &'static str {
    let is_privileged =
        |address: &ListenAddress| matches!(address, ListenAddress::Tcp(tcp) if (1..1024).contains(&tcp.port()));
    if addresses.any(is_privileged) {
        "serving as root: for a port below 1024 it is enough to begin as root, and to become another user with `user`. \
         CAP_NET_BIND_SERVICE or a socket passed by a service manager is enough as well"
    } else {
        "serving as root, which nothing here needs: start it as another user, or name one with `user`"
    }
}

/// One line that says that draining has begun.
pub(crate) fn report_draining(drain_timeout_ms: u32) {
    notify("STOPPING=1");
    say!("finishing what has begun, at most {} (drain_timeout_ms)", seconds(drain_timeout_ms));
}

/// One line if connections were cut because draining took too long.
pub(crate) fn report_cut(connections: usize, drain_timeout_ms: u32) {
    let what = match connections {
        0 => return,
        1 => "1 connection was".to_owned(),
        many => format!("{many} connections were"),
    };
    report!(Warning, "{what} cut off, not having ended within {} (drain_timeout_ms)", seconds(drain_timeout_ms));
}

fn seconds(ms: u32) -> String {
    match ms {
        ms if ms % 1000 == 0 => format!("{} s", ms / 1000),
        ms => format!("{}.{:03} s", ms / 1000, ms % 1000),
    }
}

/// One line that says which process serves now. The process that looks after this one is told as well.
pub(crate) fn report_succession(successor: &Successor, keeper: Option<&Arc<ControlChannel>>) {
    let (process, own) = (successor.process, std::process::id());
    match keeper {
        // It is the main process, and stays.
        Some(keeper) => keeper.report(&Report::Succeeded(process)),
        None => notify(&format!("MAINPID={process}")),
    }
    match successor.takes_connections {
        true => say!("process {process} has taken over; this one ({own}) hands over what it has, and ends"),
        false => say!(
            "process {process} has taken over, and cannot take the connections of this version; this one ({own}) \
             finishes them, and ends"
        ),
    }
}

/// One line that says why no process has taken over.
pub(crate) fn report_not_succeeded(NoSuccessor { purpose, why }: &NoSuccessor) {
    if matches!(purpose, Purpose::Reload(_)) {
        notify("READY=1");
    }
    match purpose {
        Purpose::Upgrade => report!(Error, "not upgraded, going on as before: {why}"),
        Purpose::Reload(_) => report!(Error, "not reloaded, going on as before: {why}"),
        Purpose::Change(_) => report!(Error, "not changed, going on as before: {why}"),
    }
}

/// One line that says why no process is to take over.
pub(crate) fn report_not_upgraded(error: &SwitchError) {
    report!(Error, "not upgraded, going on as before: {error}");
}

/// One line if connections were lost on their way.
pub(crate) fn report_lost(sender: &Sender) {
    match sender.lost() {
        0 => {}
        1 => report!(Warning, "1 connection could not be handed over, and was closed"),
        lost => report!(Warning, "{lost} connections could not be handed over, and were closed"),
    }
}

/// The service manager is told that the configuration is read again. [`report_reload`] or a successor ends it.
pub(crate) fn report_reloading() {
    notify_reloading();
}

/// One line that says what came of reloading, if that is known already.
pub(crate) fn report_reload(result: &Result<Progress, Refusal>) {
    if !matches!(result, Ok(Progress::Begun)) {
        notify("READY=1");
    }
    match result {
        Ok(Progress::Done(done)) => say!("reloaded: {done}"),
        Ok(Progress::Begun) => {}
        Err(Refusal { why, .. }) => report!(Error, "not reloaded, going on as before: {why}"),
    }
}

/// One line that says what an administrator has changed, if it is done already.
pub(crate) fn report_set(progress: &Progress) {
    if let Progress::Done(done) = progress {
        say!("an administrator has changed it: {done}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_cannot_be_reached_by_a_certificate_authority_is_told() {
        let doubt = |addresses: &[&str]| {
            let addresses: Vec<ListenAddress> = addresses.iter().map(|text| text.parse().unwrap()).collect();
            doors_doubt(addresses.iter())
        };
        assert_eq!(doubt(&["0.0.0.0:443", "0.0.0.0:80", "unix:/x"]), None);
        assert!(doubt(&["0.0.0.0:443"]).unwrap().contains("nothing listens at port 80"));
        assert!(doubt(&["0.0.0.0:80"]).unwrap().contains("port 443"));
        assert!(doubt(&["0.0.0.0:8443"]).unwrap().contains("port 80 or 443"));
        assert!(doubt(&["127.0.0.1:443", "127.0.0.1:80"]).unwrap().contains("only this machine"));
    }

    #[test]
    fn who_serves_as_root_is_told_what_is_enough() {
        let doubt = |addresses: &[&str]| {
            let addresses: Vec<ListenAddress> = addresses.iter().map(|text| text.parse().unwrap()).collect();
            root_doubt(addresses.iter())
        };
        for needless in [&["8080"][..], &["127.0.0.1:1024", "unix:/x"], &["127.0.0.1:0"]] {
            assert!(doubt(needless).contains("which nothing here needs"), "{needless:?}");
        }
        for remedy in ["CAP_NET_BIND_SERVICE", "`user`"] {
            assert!(doubt(&["8080", "[::]:443"]).contains(remedy), "{remedy}");
        }
    }
}
