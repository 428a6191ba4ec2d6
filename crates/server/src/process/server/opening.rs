//! A server as a part of another program.
//!
//! Owns: how it is opened and looked after without orders and without an endpoint. The program stops it.

use std::sync::Arc;

use lamna_config::settings::Settings;
use lamna_io::listen::Listener;
use lamna_site::service::Registry;
use lamna_sys::clock::Clock;

use super::{Server, possible};
use crate::process::embedded::Embedded;
use crate::process::error::ServeError;
use crate::process::shared_metrics::SharedMetrics;

impl Server {
    /// A server for programs that are more than a server: it starts at once, and goes on until it is stopped.
    ///
    /// # Errors
    /// The reason why it cannot start.
    pub fn open(settings: &Settings, listeners: Vec<Arc<Listener>>) -> Result<Server, ServeError> {
        Server::open_with(settings, listeners, Arc::default(), Embedded::default())
    }

    /// The same of a program that brings filters, and more, itself.
    ///
    /// # Errors
    /// As [`Server::open`].
    pub(crate) fn open_with(
        settings: &Settings,
        listeners: Vec<Arc<Listener>>,
        services: Arc<Registry>,
        embedded: Embedded,
    ) -> Result<Server, ServeError> {
        let mut shared_metrics = SharedMetrics::new(Clock::start())?;
        (shared_metrics.services, shared_metrics.embedded) = (services, embedded);
        shared_metrics.services.set(&settings.services).map_err(ServeError::Service)?;
        Server::start(&possible(settings)?, listeners, &shared_metrics, 0, None)
    }

    /// Does what its owner has to do now and then, which does nothing else with it.
    pub(crate) fn look_after(&mut self) {
        self.look_at_certificates();
        self.look_at_services();
        self.reap();
    }
}
