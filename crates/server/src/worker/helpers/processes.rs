//! Helpers of an AMPED worker that are processes, as Flash had them (Flash 3.4): the worker's side.
//!
//! Owns: which helper does what, spawned as jobs wait, kept in reserve for a while, bounded in number. Guarantees: a job
//! is finished exactly once, also when its helper dies; nothing but a notification comes back. So what cannot be had
//! without waiting even after a helper has just read it (listings; file systems that cannot tell) is carried out here, in
//! line, in the hope that it still is in memory.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use lamna_proto::time::Instant;
use rustix::io::Errno;

use crate::content::translate::translate;
use crate::io::wait::{Poll, Token};
use crate::io::{Counters, Wait, scm_rights};
use crate::worker::helpers::fork_server::{FAILED, Task};
use crate::worker::helpers::job_queue::{JobId, JobQueue};
use crate::worker::helpers::{Finished, Helpers, Job};
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
}

struct Helper {
    tasks: OwnedFd,
    job: Option<Job>,
    idle_since: Instant,
}

/// How long a helper without work stays.
const RESERVE_TIME_MS: u64 = 10_000;
/// Large ranges are read through a buffer of this many bytes.
const SCRATCH_BYTES: usize = 64 * 1024;

impl HelperProcesses {
    /// Helpers for worker `worker`, none yet, at most `helpers_max`.
    ///
    /// # Errors
    /// No descriptors or memory.
    pub fn new(shared: Arc<Shared>, worker: usize, helpers_max: usize) -> Result<HelperProcesses, Errno> {
        let helpers = (0..helpers_max.max(1)).map(|_| None).collect();
        let (idle, waiting, finished) = (Vec::new(), JobQueue::default(), VecDeque::new());
        Ok(HelperProcesses {
            shared,
            worker,
            helpers,
            idle,
            waiting,
            finished,
            poll: Poll::new()?,
            message: Vec::new(),
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
                Ok(index) => self.give(index, job),
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
        let tasks = fork_server.helper()?;
        self.poll.add_waker(tasks.as_fd(), Token { index: index as u32, generation: 0 })?;
        self.helpers[index] = Some(Helper { tasks, job: None, idle_since: self.shared.clock.now() });
        Ok(index)
    }

    fn give(&mut self, index: usize, job: Job) {
        let Some(helper) = &mut self.helpers[index] else {
            self.waiting.add_at_once(job);
            return;
        };
        self.shared.abilities.counters.begin_helper_job(0);
        let given = match &job {
            Job::Translate { target, .. } => {
                let task = Task::Translate { site: target.site, path: target.path() };
                scm_rights::send(helper.tasks.as_fd(), &task.encode(), None)
            }
            Job::PageIn { range, .. } => {
                let task = Task::PageIn { offset: range.offset, length: range.quantum() };
                let file = range.representation.file.as_ref().map(AsFd::as_fd);
                scm_rights::send(helper.tasks.as_fd(), &task.encode(), file)
            }
        };
        helper.job = Some(job);
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
                let failed = self.message == [FAILED];
                let job = helper.job.take();
                self.shared.abilities.counters.end_helper_job();
                if let Some(Job::PageIn { range, .. }) = job.as_ref().filter(|_| !failed) {
                    // Whether that took the disk was counted in its process.
                    range.handle_read(&self.shared, range.quantum(), true);
                }
                self.finished.extend(job.map(|job| Finished { job, entry: None, portion: None, failed }));
                helper.idle_since = self.shared.clock.now();
                self.idle.push(index);
            }
            _ => self.dismiss(index),
        }
    }

    /// Carries a job out in line.
    fn carry_out(&mut self, job: Job) {
        let (entry, failed) = match &job {
            Job::Translate { target, .. } => {
                (translate(&target.question(&self.shared, Wait::Yes, self.shared.clock.now())).ok(), false)
            }
            Job::PageIn { range, .. } => {
                let mut scratch = vec![0; SCRATCH_BYTES];
                (None, !range.page_in(&self.shared, &mut scratch))
            }
        };
        self.finished.push_back(Finished { job, entry, portion: None, failed });
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
        let number = self.waiting.add(job, wanted);
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
}
