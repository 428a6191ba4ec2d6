//! How a server leaves its place to another process (docs/upgrade.md).
//!
//! Owns: the order in which what a process has is left: the files of sockets and the endpoint, orders, connections. Guarantees: an order that this process was
//! given in time is carried out by it or by its successor, and never by both. Does not say when a process may be succeeded
//! (`process/upgrade/stage.rs`), and carries no connections over (`worker/migration`).

use std::sync::Arc;
use std::time::Instant;

use lamna_config::settings::Settings;
use lamna_engine::worker::migration::transfer::Sender;
use lamna_io::listen::Listener;

use super::{Departure, Server};
use crate::process::administration::Administration;
use crate::process::messages::{report_not_succeeded, report_succession};
use crate::process::orders::{Order, Orders};
use crate::process::running_engine::SwitchError;
use crate::process::upgrade::{Purpose, Successor};

impl Server {
    /// Starts the program as it is on disk now, which is to serve with `settings` in the place of this process, connections
    /// included. Of [`Server::succession_outcome`] one learns what has come of it.
    ///
    /// # Errors
    /// Why not; then everything is as it was.
    pub(crate) fn begin_succession(&mut self, settings: &Settings, purpose: Purpose) -> Result<(), SwitchError> {
        self.check_staying()?;
        let shared = &self.running.shared;
        // The other one begins with what is known now.
        shared.hints.iter().for_each(|hints| hints.save());
        self.upgrade_in_progress.begin(settings, &shared.listeners, shared.clock, purpose)
    }

    /// What has come of it, once; none if that is not known yet.
    pub(crate) fn succession_outcome(&mut self) -> Option<Result<String, String>> {
        self.upgrade_in_progress.outcome()
    }

    /// Whether a process has been started that may take the place of this one.
    pub(crate) fn is_succession_begun(&self) -> bool {
        self.upgrade_in_progress.is_begun()
    }

    /// Whether no other process takes the place of this one, nor has taken it.
    ///
    /// # Errors
    /// Why the server cannot be changed.
    pub(crate) fn check_open(&self) -> Result<(), SwitchError> {
        self.upgrade_in_progress.check_open()
    }

    pub(super) fn check_staying(&self) -> Result<(), SwitchError> {
        match self.running.shared.control.is_closing() || self.successor.is_some() {
            true => Err(SwitchError::Impossible("the server is about to end".to_owned())),
            false => Ok(()),
        }
    }

    /// If another process has taken the place of this one, leaves it to it: first the files of sockets and the endpoint, then
    /// orders, then connections. True if that has just happened.
    pub(super) fn look_at_succession(
        &mut self,
        orders: &mut Orders,
        administration: &mut Option<Administration>,
    ) -> bool {
        let successor = match self.upgrade_in_progress.look() {
            None => return false,
            Some(Err(why)) => {
                report_not_succeeded(&why);
                return false;
            }
            Some(Ok(successor)) => successor,
        };
        report_succession(&successor, self.upgrade_in_progress.keeper());
        if administration.as_ref().is_some_and(|one| one.standing.is_outdated()) {
            self.running.shared.control.supersede();
        }
        if let Some(Administration { admin, standing, .. }) = administration {
            // Whoever waits to hear of it.
            admin.handle(&mut self.service(standing, orders, true));
            admin.retire();
        }
        self.running.shared.listeners.iter().for_each(Listener::leave_file);
        orders.leave();
        successor.confirm();
        let (sender, takes_connections) = (successor.sender.clone(), successor.takes_connections);
        self.leave_to(sender, takes_connections, Some(successor));
        true
    }

    pub(super) fn leave_to(&mut self, sender: Arc<Sender>, takes_connections: bool, successor: Option<Successor>) {
        self.orderer.stop();
        self.running.shared.hints.iter().for_each(|hints| hints.retire());
        if takes_connections {
            self.running.leave_to_process(sender.clone());
        }
        self.successor = Some(Departure { sender, since: Instant::now(), drains: !takes_connections, successor });
    }

    /// The server is to end. If another process has just taken its place it is that one's to end, and it is told so; else
    /// none will. Whether this one ends.
    pub(super) fn end_succession(
        &mut self,
        order: Order,
        orders: &mut Orders,
        administration: &mut Option<Administration>,
    ) -> bool {
        if self.look_at_succession(orders, administration) {
            self.pass_on(order);
            return false;
        }
        self.upgrade_in_progress.end();
        true
    }

    /// Leaves an order that this process was given in time, and has not carried out, to the one that serves.
    pub(super) fn pass_on(&self, order: Order) {
        let successor = self.successor.iter().find_map(|departure| departure.successor.as_ref());
        successor.into_iter().for_each(|successor| successor.order(order));
    }
}
