//! The start of a server, from settings to the control plane that leads it.
//!
//! Owns: the order in which things start, and which kind of server serves. Guarantees: what a process inherits from the
//! one whose place it takes is in force before anything serves.

use std::sync::Arc;

use lamna_config::settings::Settings;
use lamna_io::listen::Listener;
use lamna_sys::allocator;
use lamna_sys::clock::Clock;

use crate::process::administration::Administration;
use crate::process::applications::Applications;
use crate::process::control_plane::{ControlPlane, Place};
use crate::process::error::ServeError;
use crate::process::messages::report_done;
use crate::process::operator_orders;
use crate::process::orders::Orders;
use crate::process::server::{Server, possible};
use crate::process::share::processes_max;
use crate::process::shared_metrics::SharedMetrics;
use crate::process::startup_limits;
use crate::process::supervisor::Supervisor;
use crate::process::upgrade::{Inherited, Succession};

/// Serves until an order ends it, in the place of the process that `inherited` comes from, if there is one. To be
/// called before the process has threads.
///
/// # Errors
/// The reason why it cannot start.
pub fn serve(
    settings: &Settings,
    listeners: Vec<Arc<Listener>>,
    mut administration: Administration,
    inherited: Option<Inherited>,
) -> Result<(), ServeError> {
    allocator::set();
    // Before anything else: the process whose place is taken, or an administrator, may already have something to say.
    let orders = Orders::by_signals()?;
    startup_limits::raise_descriptor_limit();
    let (mut inherited, mut predecessor) = (inherited, None);
    let mut keeper = administration.keeper.take();
    if let Some(inherited) = &mut inherited {
        predecessor = inherited.predecessor.take();
        keeper = inherited.keeper.take();
    }
    let keeper = keeper.map(Arc::new);
    let mut succession = Succession::of_program(settings, administration.admin.listeners(), keeper.clone());
    let mut settings = settings.clone();
    inherited.iter().for_each(|inherited| inherited.apply(&mut settings));
    if inherited.is_some() && settings.architecture != succession.configured().architecture {
        administration.start_config.set_chosen(settings.architecture);
    }
    // Whether there can be a ring is found out by making one, which takes memory.
    startup_limits::check_memory_at_start(&settings)?;
    let settings = &possible(&settings)?;
    if settings.architecture != succession.configured().architecture && inherited.is_none() {
        // What this kernel does not carry was not chosen.
        succession.set_configured(settings.clone());
    }
    startup_limits::check_memory_at_start(settings)?;
    let clock = inherited.as_ref().map_or_else(Clock::start, |inherited| inherited.clock);
    let mut shared_metrics = SharedMetrics::new(clock)?;
    shared_metrics.services.set(&settings.services).map_err(ServeError::Service)?;
    if let Some(tickets) = inherited.as_mut().and_then(|inherited| inherited.tickets.take()) {
        shared_metrics.tickets = Arc::new(tickets);
    }
    if let Some(orders) = inherited.as_mut().and_then(|inherited| inherited.operator.take()) {
        let SharedMetrics { operator_state, done, .. } = &shared_metrics;
        operator_orders::take(&orders, settings, operator_state, &done.places);
    }
    succession.set_operator(shared_metrics.operator_state.clone());
    // Cookies of places are made with these keys as well, also where TLS is not spoken.
    succession.set_tickets(shared_metrics.tickets.clone());
    shared_metrics.counted = shared_metrics.counted.among(processes_max(settings));
    let removed = inherited.as_mut().map(|inherited| std::mem::take(&mut inherited.removed)).unwrap_or_default();
    let receiver = inherited.map(|inherited| inherited.receiver);
    let mut applications = Applications::new();
    if receiver.is_none() {
        applications.follow(settings);
    }
    let place = Place { receiver: receiver.clone(), predecessor, keeper, removed };
    let control_plane = ControlPlane::new(orders, administration, succession, applications, place);
    let result = if settings.architecture.is_of_processes() {
        Supervisor::new(settings, &shared_metrics, listeners, receiver).and_then(|body| control_plane.run(body))
    } else {
        control_plane.run(Server::start(settings, listeners, &shared_metrics, 0, receiver)?)
    };
    report_done(&shared_metrics);
    result
}
