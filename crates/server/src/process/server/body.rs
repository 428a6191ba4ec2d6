//! The control plane's questions and orders to a server in one process.
//!
//! Owns: from an order to what is said to the workers. Decides nothing.

use std::sync::Arc;
use std::time::Duration;

use lamna_config::own_files::hide_the_same;
use lamna_config::service::ServiceDefinition;
use lamna_config::settings::Settings;
use lamna_engine::worker::migration::transfer::Sender;
use lamna_engine::worker::shared::Shared;
use lamna_io::listen::Listener;
use lamna_sys::sandbox::Kind as SandboxKind;

use super::{DRAIN_POLL, IDLE_POLL, STOP_TIME_MAX, Server};
use crate::process::autotune::Adapter;
use crate::process::body::{Body, Changed, Phase};
use crate::process::error::ServeError;
use crate::process::orders::{Order, Orders};
use crate::process::running_engine::{SiteFiles, SwitchError};
use crate::process::shared_metrics::SharedMetrics;

impl Body for Server {
    fn settings(&self) -> &Settings {
        Server::settings(self)
    }

    fn shared_metrics(&self) -> &SharedMetrics {
        &self.shared_metrics
    }

    fn listeners(&self) -> &[Arc<Listener>] {
        &self.running.shared.listeners
    }

    fn connections(&self) -> Vec<u32> {
        self.running.connections()
    }

    fn open_connections(&self) -> usize {
        Server::open_connections(self)
    }

    fn confined(&self) -> Option<SandboxKind> {
        self.running.shared.confinement.kind()
    }

    fn shared(&self) -> Option<&Shared> {
        Some(&self.running.shared)
    }

    fn adapter(&self) -> Option<&Adapter> {
        self.adapter.as_ref()
    }

    /// Connections on their way to an engine that has left go on to the other process.
    fn is_over(&mut self, _phase: Phase) -> bool {
        let moved = self.target.is_none() || self.leaving.is_empty() && !self.is_receiving();
        if moved && self.running.has_left() {
            // No worker accepts here any more. Those for whom the kernel has woken one go on to the successor, or
            // stay.
            self.running.end_remainder(|| self.take_missed());
        }
        self.abandoned || self.running.is_over() && (moved || self.running.shared.control.is_stopping())
    }

    fn due(&self, phase: Phase) -> Duration {
        let is_changing = !phase.is_serving() || !self.leaving.is_empty() || self.is_receiving();
        let poll = if is_changing { DRAIN_POLL } else { IDLE_POLL };
        self.adapter.as_ref().map_or(poll, |adapter| adapter.due().min(poll))
    }

    fn look(&mut self, may_change: bool) {
        self.look_at_certificates();
        self.look_at_services();
        self.sweeper.look(&self.running.shared);
        let now = self.running.shared.clock.now();
        self.running.shared.sites.groups().for_each(|(_, group)| group.close_old(now));
        self.reap();
        if may_change {
            self.adapt();
        }
    }

    fn take_settings(&mut self, settings: &Settings) -> Result<Changed, SwitchError> {
        if settings.architecture.is_of_processes() || self.takes_other_helpers(settings) {
            return Ok(Changed::TakesProcess);
        }
        self.change(settings).map(|()| Changed::Done)
    }

    fn take_files(&mut self) -> Result<Changed, SwitchError> {
        self.read_files().map(|()| Changed::Done)
    }

    fn change_services(
        &mut self,
        definitions: Vec<ServiceDefinition>,
        renewed: Option<&str>,
    ) -> Result<(), SwitchError> {
        self.check_staying()?;
        let before = self.shared_metrics.services.definitions();
        self.shared_metrics.services.renew(&definitions, renewed).map_err(SwitchError::Impossible)?;
        let settings = Settings { services: definitions, ..self.settings().clone() };
        if hide_the_same(&settings, self.settings()) || self.takes_other_helpers(&settings) {
            self.running.settings.services = settings.services;
        } else {
            // A shared object beneath a root is for no client from now on, and another one may be again.
            let changed = self.go_over(&settings, SiteFiles::AsOpened);
            changed.inspect_err(|_| drop(self.shared_metrics.services.set(&before)))?;
        }
        self.look_at_services();
        Ok(())
    }

    fn renew(&mut self) -> Result<Changed, SwitchError> {
        if self.running.shared.confinement.is_current() {
            return Ok(Changed::Needless);
        }
        if self.running.shared.fork_server.is_some() {
            return Ok(Changed::TakesProcess);
        }
        let settings = self.settings().clone();
        self.go_over(&settings, SiteFiles::AsOpened).map(|_| Changed::Done)
    }

    fn carry_out(&mut self, order: Order, orders: &mut Orders) {
        let shared = &self.running.shared;
        match order {
            Order::Reopen => shared.log.iter().for_each(|log| log.reopen()),
            Order::PurgeAnswers => _ = shared.store.purge_answers(&|_| true),
            Order::TakeServices => self.take_services(orders),
            Order::Retire => shared.control.retire(),
            Order::Supersede => shared.control.supersede(),
            // The control plane carries them out.
            Order::Drain | Order::Stop | Order::Reload | Order::Upgrade | Order::HandOver | Order::TakeOver => {}
        }
    }

    fn prepare_succession(&self) -> Result<(), SwitchError> {
        self.check_staying()?;
        self.running.shared.hints.iter().for_each(|hints| hints.save());
        Ok(())
    }

    fn leave_to(&mut self, sender: &Arc<Sender>, takes_connections: bool) {
        self.acme_service.stop();
        self.running.shared.hints.iter().for_each(|hints| hints.retire());
        if takes_connections {
            self.running.leave_to_process(sender.clone());
        }
        self.target = Some(sender.clone());
    }

    /// Connections that the other process does not take end by themselves.
    fn leaving_time_max(&self, takes_connections: bool) -> Option<Duration> {
        takes_connections.then(|| Duration::from_millis(u64::from(self.settings().drain_timeout_ms)))
    }

    fn drain(&mut self) -> bool {
        // What is still being handed over is to be finished as well.
        let is_here = self.leaving.is_empty() && !self.is_receiving();
        let begins = is_here && !self.running.shared.control.is_draining();
        if begins {
            self.begin_to_drain();
        }
        begins
    }

    fn stop(&mut self) {
        self.running.stop();
    }

    fn stop_time_max(&self) -> Duration {
        STOP_TIME_MAX
    }

    /// Threads cannot be ended.
    fn kill(&mut self) {
        self.abandoned = true;
    }

    fn finish(self) -> Result<(), ServeError> {
        match self.end() {
            0 => Ok(()),
            failed => Err(ServeError::Workers(failed)),
        }
    }
}
