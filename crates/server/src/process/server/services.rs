//! Services of a server in one process, and of one worker process of several.
//!
//! Owns: when they change, and what follows from it for the cache. Guarantees: while an engine leaves that was made
//! with other routes, the services that only these name are kept; what has failed in another process is noticed here as
//! well.

use std::fs::File;
use std::os::unix::fs::FileExt;

use lamna_config::service::ServiceDefinition;
use lamna_config::settings::Settings;
use lamna_io::log::errors::{self, Level};

use super::Server;
use crate::process::orders::Orders;
use crate::process::running_engine::SwitchError;
use crate::process::service_orders;

/// A longer table of services than any that is ordered.
const TABLE_BYTES_MAX: usize = 256 << 10;

impl Server {
    /// Begins with the services of `settings`, for a change of engines that can still fail. Returns the services before
    /// it. Those that only they have stay until the last use of them ends ([`Server::end_services`]).
    pub(super) fn begin_services(&self, settings: &Settings) -> Result<Vec<ServiceDefinition>, SwitchError> {
        let registry = &self.shared_metrics.services;
        let before = registry.definitions();
        let is_gone = |one: &&ServiceDefinition| settings.services.iter().all(|other| other.name != one.name);
        let gone = before.iter().filter(is_gone).cloned();
        let both: Vec<ServiceDefinition> = settings.services.iter().cloned().chain(gone).collect();
        registry.set(&both).map_err(SwitchError::Impossible)?;
        Ok(before)
    }

    /// Ends the services that are not in the settings, once no engine that is leaving can use them.
    pub(super) fn end_services(&self) {
        if self.leaving.is_empty() {
            // They are there: nothing is made.
            let _ = self.shared_metrics.services.set(&self.running.settings.services);
        }
    }

    /// Has what was made with services that have changed or failed made again.
    pub(super) fn look_at_services(&mut self) {
        let epoch = self.shared_metrics.services.epoch();
        if std::mem::replace(&mut self.services_seen, epoch) != epoch {
            self.running.shared.store.handle_services();
        }
    }

    /// Takes the services that its supervisor has.
    pub(super) fn take_services(&mut self, orders: &mut Orders) {
        let Some(table) = orders.take_services() else { return };
        let mut message = vec![0; TABLE_BYTES_MAX];
        let read = File::from(table).read_at(&mut message, 0).unwrap_or(0);
        let natives_are_allowed = self.settings().native_services;
        let rows = service_orders::decode(&message[..read], natives_are_allowed);
        let taken = rows.ok_or_else(|| "its table cannot be read".to_owned());
        match taken.and_then(|rows| self.shared_metrics.services.take(&rows)) {
            Ok(_) => {
                self.running.settings.services = self.shared_metrics.services.definitions();
                self.look_at_services();
            }
            Err(why) => {
                errors::report(Level::Error, format_args!("a worker process keeps the services that it has: {why}"));
            }
        }
    }
}
