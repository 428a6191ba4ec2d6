//! Helpers of an AMPED worker that are processes, as Flash had them (Flash 3.4): the worker's side.
//!
//! Owns: which helper does what, spawned as jobs wait, kept in reserve for a while, bounded in number. Guarantees: a
//! job is finished exactly once, also when its helper dies or stands still; nothing but a notification comes back. So
//! what cannot be had without waiting even after a helper has just read it (listings; file systems that cannot tell) is
//! carried out here, in line, in the hope that it still is in memory.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use lamna_io::wait::{Poll, Token};
use lamna_io::{Counters, Wait, scm_rights};
use lamna_proto::time::Instant;
use lamna_site::content::translate::translate;
use rustix::io::Errno;

use crate::worker::helpers::fork_server::{FAILED, Task};
use crate::worker::helpers::job_queue::{JobId, JobQueue};
use crate::worker::helpers::{Finished, Helpers, Job, JobOutcome};
use crate::worker::shared::Shared;

/// The helper processes of one worker.
pub struct HelperProcesses {
    shared: Arc<Shared>,
    worker: usize,
    /// By token.
    helpers: Vec<Option<Helper>>,
    /// Those without a job, the one that was busy last at the end.
    idle: Vec<usize>,
    waiting: JobQueue<Job>,
    finished: VecDeque<Finished>,
    poll: Poll,
    message: Vec<u8>,
    /// No job is late before.
    due: Option<Instant>,
}

struct Helper {
    tasks: OwnedFd,
    /// The number by which the fork server knows it.
    number: u64,
    job: Option<Job>,
    /// Its job is one that another helper did not finish in time.
    is_second: bool,
    /// When its job is late.
    late_at: Instant,
    idle_since: Instant,
}

/// How long a helper without work stays.
const RESERVE_TIME_MS: u64 = 10_000;
/// How long a helper may take for one job: a path, or 256 KiB of a file. A disk that has to spin up takes some seconds;
/// a process that is stopped takes for ever. A helper that takes longer is killed, and a new helper has the same time
/// once more.
const JOB_TIME_MAX_MS: u32 = 5_000;
/// Large ranges are read through a buffer of this many bytes.
const SCRATCH_BYTES: usize = 64 * 1024;

impl HelperProcesses {
    /// Helpers for worker `worker`, none yet, at most `helpers_max`.
    ///
    /// # Errors
    /// No descriptors or memory.
    pub fn new(shared: Arc<Shared>, worker: usize, helpers_max: usize) -> Result<HelperProcesses, Errno> {
        let helpers = (0..helpers_max.max(1)).map(|_| None).collect();
        let (idle, waiting, finished) = (Vec::new(), JobQueue::new(shared.schedule), VecDeque::new());
        Ok(HelperProcesses {
            shared,
            worker,
            helpers,
            idle,
            waiting,
            finished,
            poll: Poll::new()?,
            message: Vec::new(),
            due: None,
        })
    }

    /// Gives waiting jobs to helpers, as far as there are any.
    fn assign(&mut self) {
        while !self.waiting.is_empty() {
            let helper = match self.idle.pop() {
                Some(index) => Ok(index),
                None => match self.helpers.iter().position(Option::is_none) {
                    Some(index) => self.spawn(index),
                    None => return,
                },
            };
            if helper.is_err() && self.helpers.iter().any(Option::is_some) {
                return;
            }
            let Some(job) = self.waiting.take() else { return };
            match helper {
                Ok(index) => self.give(index, job, false),
                // Not even one helper: better slow than never.
                Err(_) => {
                    self.counters().begin_helper_job(0);
                    self.carry_out(job);
                    self.counters().end_helper_job();
                }
            }
        }
    }

    fn spawn(&mut self, index: usize) -> Result<usize, Errno> {
        let fork_server = self.shared.fork_server.as_ref().ok_or(Errno::CHILD)?;
        let (tasks, number) = fork_server.helper()?;
        self.poll.add_waker(tasks.as_fd(), Token { index: index as u32, generation: 0 })?;
        let now = self.shared.clock.now();
        self.helpers[index] =
            Some(Helper { tasks, number, job: None, is_second: false, late_at: now, idle_since: now });
        Ok(index)
    }

    fn give(&mut self, index: usize, job: Job, is_second: bool) {
        let Some(helper) = &mut self.helpers[index] else {
            self.waiting.add_at_once(job);
            return;
        };
        self.shared.abilities.counters.begin_helper_job(0);
        let given = match &job {
            Job::Translate { target, .. } => {
                let task = Task::Translate { site: target.site, key: target.key().path };
                scm_rights::send(helper.tasks.as_fd(), &task.encode(), None)
            }
            Job::PageIn { range, .. } => {
                let task = Task::PageIn { offset: range.offset, length: range.quantum() };
                let file = range.representation.file.as_ref().map(AsFd::as_fd);
                scm_rights::send(helper.tasks.as_fd(), &task.encode(), file)
            }
        };
        helper.job = Some(job);
        helper.is_second = is_second;
        helper.late_at = self.shared.clock.now().after_ms(JOB_TIME_MAX_MS);
        self.due.get_or_insert(helper.late_at);
        if given.is_err() {
            self.dismiss(index);
        }
    }

    /// Lets go of a helper. If it died with a job, that is carried out here: another might die of it as well.
    fn dismiss(&mut self, index: usize) {
        self.idle.retain(|idle| *idle != index);
        let Some(helper) = self.helpers[index].take() else { return };
        self.poll.remove(helper.tasks.as_fd());
        if let Some(job) = helper.job {
            self.carry_out(job);
            self.counters().end_helper_job();
        }
    }

    /// Gives up those whose jobs are late. The idle ones go as well: what stopped one has likely stopped all.
    fn give_up_late(&mut self) {
        let now = self.shared.clock.now();
        if self.due.is_none_or(|due| due > now) {
            return;
        }
        let is_late = |helper: &Helper| helper.job.is_some() && helper.late_at <= now;
        let late: Vec<usize> =
            (0..self.helpers.len()).filter(|index| self.helpers[*index].as_ref().is_some_and(is_late)).collect();
        if !late.is_empty() {
            for index in std::mem::take(&mut self.idle) {
                self.kill(index);
            }
        }
        for index in late {
            self.replace(index);
        }
        let busy = self.helpers.iter().flatten().filter(|helper| helper.job.is_some());
        self.due = busy.map(|helper| helper.late_at).min();
    }

    /// Gives a late helper up and its job to a new one, or to none if that was the second.
    fn replace(&mut self, index: usize) {
        let Some(helper) = self.kill(index) else { return };
        let Some(job) = helper.job else { return };
        self.counters().end_helper_job();
        if !helper.is_second && self.spawn(index).is_ok() {
            return self.give(index, job, true);
        }
        // Not in line: what keeps two processes waiting might keep the worker waiting, and with it everybody.
        self.finished.push_back(Finished { job, outcome: JobOutcome::Late });
    }

    fn kill(&mut self, index: usize) -> Option<Helper> {
        let helper = self.helpers[index].take()?;
        self.poll.remove(helper.tasks.as_fd());
        if let Some(fork_server) = &self.shared.fork_server {
            fork_server.kill(helper.number);
        }
        Some(helper)
    }

    fn counters(&self) -> &Counters {
        &self.shared.abilities.counters
    }

    /// Takes what helpers have sent.
    fn receive(&mut self) {
        // It fails only for what makes all waiting impossible, which the worker finds itself.
        let _ = self.poll.wait(Some(0));
        for event in 0..self.poll.event_count() {
            let index = self.poll.event(event).token.index as usize;
            self.receive_from(index);
        }
        self.give_up_late();
        self.assign();
        let now = self.shared.clock.now();
        while let Some(&index) = self.idle.first()
            && self.helpers[index].as_ref().is_none_or(|helper| now.since(helper.idle_since) >= RESERVE_TIME_MS)
        {
            self.dismiss(index);
        }
    }

    fn receive_from(&mut self, index: usize) {
        let Some(helper) = &mut self.helpers[index] else { return };
        match scm_rights::receive(helper.tasks.as_fd(), &mut self.message, false) {
            Err(Errno::AGAIN) => {}
            Ok(_) if !self.message.is_empty() => {
                let outcome = if self.message == [FAILED] { JobOutcome::Failed } else { JobOutcome::InMemory };
                let job = helper.job.take();
                self.shared.abilities.counters.end_helper_job();
                if let Some(Job::PageIn { range, .. }) = &job
                    && matches!(outcome, JobOutcome::InMemory)
                {
                    // Whether that took the disk was counted in its process.
                    range.handle_read(&self.shared, range.quantum(), true);
                }
                self.finished.extend(job.map(|job| Finished { job, outcome }));
                helper.idle_since = self.shared.clock.now();
                self.idle.push(index);
            }
            _ => self.dismiss(index),
        }
    }

    /// Carries a job out in line.
    fn carry_out(&mut self, job: Job) {
        let outcome = match &job {
            Job::Translate { target, .. } => {
                let entry = translate(&target.translation(&self.shared, Wait::Yes, self.shared.clock.now()));
                entry.map_or(JobOutcome::InMemory, JobOutcome::Found)
            }
            Job::PageIn { range, .. } => match range.page_in(&self.shared, &mut vec![0; SCRATCH_BYTES]) {
                true => JobOutcome::InMemory,
                false => JobOutcome::Failed,
            },
        };
        self.finished.push_back(Finished { job, outcome });
        self.shared.control.waker(self.worker).wake();
    }
}

impl Helpers for HelperProcesses {
    fn submit(&mut self, job: Job, wanted: usize) -> Option<JobId> {
        if matches!(job, Job::Translate { again: true, .. }) {
            self.carry_out(job);
            return None;
        }
        Counters::count(&self.shared.abilities.counters.helper_jobs);
        let reads = job.reads();
        let number = self.waiting.add(job, wanted, reads);
        self.assign();
        Some(number)
    }

    fn want(&mut self, number: JobId) {
        self.waiting.want(number);
    }

    fn finished(&mut self) -> Option<Finished> {
        if self.finished.is_empty() {
            self.receive();
        }
        self.finished.pop_front()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.poll.as_fd())
    }

    fn due(&self) -> Option<Instant> {
        self.due
    }
}
