//! The control plane's questions and orders to worker processes.
//!
//! Owns: from an order to what workers are told, and how long they are waited for. Decides nothing.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use lamna_config::service::ServiceDefinition;
use lamna_config::settings::Settings;
use lamna_engine::worker::confinement::Confinement;
use lamna_engine::worker::migration::transfer::Sender;
use lamna_io::listen::Listener;
use lamna_sys::sandbox::Kind as SandboxKind;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;

use super::{LOOK_INTERVAL, Supervisor};
use crate::process::body::{Body, Changed, Phase};
use crate::process::error::ServeError;
use crate::process::messages::report_lost;
use crate::process::orders::{Order, Orders};
use crate::process::running_engine::SwitchError;
use crate::process::shared_metrics::SharedMetrics;
use crate::process::supervisor::worker::Worker;

/// How long workers may take to hand their connections over, or to finish them: a process that serves one connection at
/// a time takes the next one when it is free.
const HANDOVER_TIME_MAX: Duration = Duration::from_secs(3600);
/// How long a worker takes connections that have been waiting when the server begins to drain, and somewhat more.
const LAST_CALL_MAX: Duration = Duration::from_millis(1100);
/// How often it is looked whether a connection still waits to be accepted.
const LAST_CALL_POLL: Duration = Duration::from_millis(10);
/// How long a worker may take to stop before it is killed: longer than it waits for its own threads.
const STOP_TIME_MAX: Duration = Duration::from_secs(3);

impl Body for Supervisor<'_> {
    fn settings(&self) -> &Settings {
        self.settings
    }

    fn shared_metrics(&self) -> &SharedMetrics {
        self.shared_metrics
    }

    fn listeners(&self) -> &[Arc<Listener>] {
        &self.listeners
    }

    fn connections(&self) -> Vec<u32> {
        self.shared_metrics.scoreboard.connections().collect()
    }

    fn confined(&self) -> Option<SandboxKind> {
        self.confinement.kind()
    }

    fn process_ids(&self) -> Vec<u32> {
        self.workers.iter().flatten().map(|worker| worker.process.as_raw_pid() as u32).collect()
    }

    fn is_ready(&self) -> bool {
        self.is_ready
    }

    /// Workers that have ended while it serves are replaced.
    fn is_over(&mut self, phase: Phase) -> bool {
        !phase.is_serving() && self.is_alone()
    }

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let lines = self.workers.iter().flatten().map(|worker| worker.line.as_fd());
        lines.chain([self.shared_metrics.alarm.descriptor().as_fd()]).collect()
    }

    fn due(&self, phase: Phase) -> Duration {
        if self.last_call.is_some() {
            return LAST_CALL_POLL;
        }
        if !phase.is_serving() {
            return LOOK_INTERVAL;
        }
        let now = Instant::now();
        let restart = self.restart.not_before().filter(|at| *at > now);
        restart.map_or(self.look_at, |at| at.min(self.look_at)).saturating_duration_since(now)
    }

    fn fill(&mut self, forget: &mut dyn FnMut()) -> Result<(), ServeError> {
        self.hire_missing(forget)
    }

    fn look_after(&mut self, phase: Phase) -> Result<(), ServeError> {
        self.finish_closing();
        (0..self.workers.len()).try_for_each(|slot| self.look_after_worker(slot, phase))?;
        if phase.is_serving() {
            self.adapt();
        }
        Ok(())
    }

    /// Worker processes are changed by others that take their place, and in no other way.
    fn take_settings(&mut self, _settings: &Settings) -> Result<Changed, SwitchError> {
        Ok(Changed::TakesProcess)
    }

    fn change_services(
        &mut self,
        definitions: Vec<ServiceDefinition>,
        renewed: Option<&str>,
    ) -> Result<(), SwitchError> {
        self.shared_metrics.services.renew(&definitions, renewed).map_err(SwitchError::Impossible)?;
        self.pass_on_services();
        Ok(())
    }

    fn renew(&mut self) -> Result<Changed, SwitchError> {
        if self.confinement.is_current() {
            return Ok(Changed::Needless);
        }
        // Once for each directory that is replaced.
        if let Ok(confinement) = Confinement::of(self.settings) {
            self.confinement = confinement;
        }
        Ok(Changed::TakesProcess)
    }

    fn carry_out(&mut self, order: Order, _orders: &mut Orders) {
        match order {
            Order::Reopen | Order::PurgeAnswers | Order::Supersede => self.order_all(order),
            // The control plane carries them out.
            Order::Drain | Order::Stop | Order::Reload | Order::Upgrade | Order::HandOver | Order::TakeOver => {}
            // Only a supervisor gives them.
            Order::Retire | Order::TakeServices => {}
        }
    }

    fn prepare_succession(&self) -> Result<(), SwitchError> {
        match self.is_ready {
            true => Ok(()),
            false => Err(SwitchError::NotNow("the server has not begun to serve yet".to_owned())),
        }
    }

    fn leave_to(&mut self, sender: &Arc<Sender>, takes_connections: bool) {
        if takes_connections {
            self.workers.iter().flatten().for_each(|worker| worker.line.order_handover(sender.as_fd()));
            self.target = Some(sender.clone());
        }
    }

    /// Workers hear it by the lines that their reports come on. One that has ended answers nothing either.
    fn await_leaving(&mut self, time_max: Duration) {
        let until = Instant::now() + time_max;
        while let Some(worker) = self.workers.iter().flatten().find(|worker| !worker.has_left) {
            let left = until.saturating_duration_since(Instant::now());
            let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
            // Whatever it returns, looking tells.
            let _ = poll(&mut [PollFd::new(&worker.line, PollFlags::IN)], Some(&timeout));
            self.workers.iter_mut().flatten().for_each(Worker::look_for_leaving);
            if left.is_zero() {
                return;
            }
        }
    }

    fn leaving_time_max(&self, _takes_connections: bool) -> Option<Duration> {
        Some(HANDOVER_TIME_MAX)
    }

    fn drain(&mut self) -> bool {
        let begins = !std::mem::replace(&mut self.is_draining, true);
        if begins {
            self.listeners.iter().for_each(|listener| listener.begin_to_close());
            self.last_call = Some(Instant::now() + LAST_CALL_MAX);
            self.order_all(Order::Drain);
            // A stopped process could not follow.
            self.signal_all(Signal::CONT);
        }
        begins
    }

    fn stop(&mut self) {
        self.order_all(Order::Stop);
        self.signal_all(Signal::CONT);
    }

    fn stop_time_max(&self) -> Duration {
        STOP_TIME_MAX
    }

    fn kill(&mut self) {
        self.signal_all(Signal::KILL);
    }

    /// Sees to it that nothing is left over that arrived for workers of this process and was not taken by any.
    fn finish(self) -> Result<(), ServeError> {
        if let (Some(sender), Some(receiver)) = (&self.target, &self.receiver) {
            sender.mailboxes(receiver);
            report_lost(sender);
        }
        Ok(())
    }
}
