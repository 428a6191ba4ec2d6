//! The serving part of a server, as the control plane sees it: threads of this process, or worker processes.
//!
//! Owns: [`Phase`], the stages in the life of a server, and [`Body`], the questions and orders that every kind of
//! server answers. Decides nothing: the control plane ([`control_plane`](super::control_plane)) says when.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lamna_config::service::ServiceDefinition;
use lamna_config::settings::Settings;
use lamna_engine::worker::migration::transfer::Sender;
use lamna_engine::worker::shared::Shared;
use lamna_io::listen::Listener;
use lamna_sys::sandbox::Kind as SandboxKind;

use crate::process::administration::StartConfig;
use crate::process::autotune::Adapter;
use crate::process::error::ServeError;
use crate::process::orders::{Order, Orders};
use crate::process::running_engine::SwitchError;
use crate::process::shared_metrics::SharedMetrics;
use crate::process::upgrade::{Purpose, Succession};

/// Where in its life a server is.
///
/// ```text
///             another process serves
///   Serving ──────────────────────────> Leaving
///      │                                │    │
///      │ Drain                    Drain │    │ the time is over
///      v                                │    v
///   Draining <──────────────────────────┘  Stopping <──┐
///      │                                    ^     │    │ the time is over: the rest is
///      └────────────────────────────────────┘     └────┘ killed, or left behind
///               the time is over
/// ```
///
/// [`Order::Stop`] leads from each phase to `Stopping`. The server ends in any phase in which nothing is left of what
/// serves ([`Body::is_over`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It takes connections, and orders that change it.
    Serving,
    /// It takes no connection and finishes those that there are, until this moment at most.
    Draining { until: Instant },
    /// Another process serves in its place, and gets its connections. With `drains` that process does not understand
    /// them, and they are finished here. Without `until` that may take as long as it takes.
    Leaving { until: Option<Instant>, drains: bool },
    /// It has been told to end at once, and should have by this moment.
    Stopping { until: Instant },
}

impl Phase {
    pub(crate) fn is_serving(self) -> bool {
        self == Phase::Serving
    }

    pub(crate) fn is_stopping(self) -> bool {
        matches!(self, Phase::Stopping { .. })
    }

    /// Whether connections are finished in this process.
    pub(crate) fn drains(self) -> bool {
        matches!(self, Phase::Draining { .. } | Phase::Leaving { drains: true, .. })
    }

    /// When the time of the phase is over.
    pub(crate) fn until(self) -> Option<Instant> {
        match self {
            Phase::Serving => None,
            Phase::Draining { until } | Phase::Stopping { until } => Some(until),
            Phase::Leaving { until, .. } => until,
        }
    }
}

/// How far a change has come by what serves alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Changed {
    /// Nothing was to be changed.
    Needless,
    /// It is done.
    Done,
    /// It takes another process.
    TakesProcess,
}

/// The serving part of a server.
pub(crate) trait Body {
    /// The settings that it serves with.
    fn settings(&self) -> &Settings;

    /// The metrics that all its processes share.
    fn shared_metrics(&self) -> &SharedMetrics;

    /// Where connections come from.
    fn listeners(&self) -> &[Arc<Listener>];

    /// Open connections of each worker.
    fn connections(&self) -> Vec<u32>;

    /// All open connections, with those on their way from one worker to another.
    fn open_connections(&self) -> usize {
        self.connections().into_iter().map(|count| count as usize).sum()
    }

    /// The sandbox of the workers.
    fn confined(&self) -> Option<SandboxKind>;

    /// The state that the workers share, if they are threads of this process.
    fn shared(&self) -> Option<&Shared> {
        None
    }

    /// The part of it that looks at the server and changes it, if it is to adapt.
    fn adapter(&self) -> Option<&Adapter> {
        None
    }

    /// The processes that serve, beside this one.
    fn process_ids(&self) -> Vec<u32> {
        Vec::new()
    }

    /// Whether it has begun to serve.
    fn is_ready(&self) -> bool {
        true
    }

    /// Whether nothing is left of it in this phase.
    fn is_over(&mut self, phase: Phase) -> bool;

    /// Descriptors whose events it is to hear of.
    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        Vec::new()
    }

    /// In how long it is to be looked after if nothing happens.
    fn due(&self, phase: Phase) -> Duration;

    /// Starts the workers that are missing. Where that forks, the new process calls `forget` first, to let go of what
    /// is its parent's.
    ///
    /// # Errors
    /// Why the server cannot go on.
    fn fill(&mut self, _forget: &mut dyn FnMut()) -> Result<(), ServeError> {
        Ok(())
    }

    /// Does what is to be done now and then, before administrators and orders are heard. If `may_change`, no other
    /// process is about to serve.
    fn look(&mut self, _may_change: bool) {}

    /// Hears its workers, after the orders have been carried out.
    ///
    /// # Errors
    /// Why the server cannot go on.
    fn look_after(&mut self, _phase: Phase) -> Result<(), ServeError> {
        Ok(())
    }

    /// Goes on with other settings, as far as that takes no other process.
    ///
    /// # Errors
    /// Why not; then everything is as it was.
    fn take_settings(&mut self, settings: &Settings) -> Result<Changed, SwitchError>;

    /// Goes on with what the files hold now that its settings name: certificates, and authorities of clients and of
    /// applications.
    ///
    /// # Errors
    /// Why not; then those from before count.
    fn take_files(&mut self) -> Result<Changed, SwitchError> {
        Ok(Changed::TakesProcess)
    }

    /// Goes on with the services `definitions`, of which `renewed` is made anew in any case.
    ///
    /// # Errors
    /// Why not; then everything is as it was.
    fn change_services(
        &mut self,
        definitions: Vec<ServiceDefinition>,
        renewed: Option<&str>,
    ) -> Result<(), SwitchError>;

    /// Has other threads serve if those that do cannot reach what is to be served.
    ///
    /// # Errors
    /// Why not.
    fn renew(&mut self) -> Result<Changed, SwitchError>;

    /// Carries out an order that ends nothing.
    fn carry_out(&mut self, order: Order, orders: &mut Orders);

    /// Another process is about to be started that begins with what is known here.
    ///
    /// # Errors
    /// Why it cannot be.
    fn prepare_succession(&self) -> Result<(), SwitchError>;

    /// Gives all connections to the process at the other end of `sender`, if that `takes_connections`.
    fn leave_to(&mut self, sender: &Arc<Sender>, takes_connections: bool);

    /// Waits until no request that arrives is answered here any more, for `time_max` at most: until then, some are
    /// answered here although another process serves.
    fn await_leaving(&mut self, _time_max: Duration) {}

    /// How long leaving may take.
    fn leaving_time_max(&self, takes_connections: bool) -> Option<Duration>;

    /// Takes no more connections and finishes those that there are, as soon as everything is here that is to be
    /// finished. Whether that has begun just now.
    fn drain(&mut self) -> bool;

    /// Ends at once.
    fn stop(&mut self);

    /// How long that may take.
    fn stop_time_max(&self) -> Duration;

    /// Ends what has not ended in that time. What cannot be ended is left behind.
    fn kill(&mut self);

    /// Lets go of everything when it is over.
    ///
    /// # Errors
    /// The failure while it served.
    fn finish(self) -> Result<(), ServeError>
    where
        Self: Sized;
}

/// Starts the program as it is on disk now, which is to serve with `settings` in the place of this process. What
/// services have become while serving goes with them, unless the configuration is another one. It would read the
/// certificates that the files have now, so none of those may be worse than the one that is served.
///
/// # Errors
/// Why not; then everything is as it was.
pub(crate) fn begin_succession(
    body: &dyn Body,
    succession: &mut Succession,
    start_config: &StartConfig,
    settings: &Settings,
    purpose: Purpose,
) -> Result<(), SwitchError> {
    body.prepare_succession()?;
    start_config.files_of(body, settings)?;
    let services = match purpose {
        Purpose::Reload(_) => settings.services.clone(),
        _ => body.shared_metrics().services.definitions(),
    };
    let settings = Settings { services, ..settings.clone() };
    succession.begin(&settings, body.listeners(), body.shared_metrics().clock, purpose)
}
