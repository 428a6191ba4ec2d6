//! A model of each architecture, under the name of its engine.
//!
//! An architecture is a choice of who waits, where each step is carried out, and who owns the caches. A model here says
//! that and nothing else. The steps and their costs belong to the machine ([`crate::machine`]).
//!
//! A model owes this: [`Architecture::arrive`] keeps the request until a task takes it. Every request is completed
//! exactly once. A task is woken only while it blocks.
//!
//! Each file describes one architecture and states its memory overhead (Table 1 of the PIPELINED paper, 2005, and its
//! section 4). Three kinds of model carry them: [`threads`](self) with a task for each request, loops for event loops,
//! and the pipeline.

mod amped;
mod co_amped;
mod event_loops;
pub(crate) mod kind;
mod loops;
mod mp;
mod pipelined;
mod proactor;
mod sped;
mod thread_per_request;
mod thread_per_session;
mod thread_pool;
mod threads;

pub use self::kind::{Kind, UnknownArchitecture};
use crate::machine::{Machine, Observation, RequestId, Step, Waiter};
use crate::parameters::{DataCopies, Parameters};
use crate::resource::{Division, Overhead, TaskId};
use crate::scenario::Scenario;

/// The decisions of an architecture. See the module.
pub trait Architecture {
    /// A client's request is at the server.
    fn arrive(&mut self, request: RequestId, machine: &mut Machine);

    /// `task` runs and has finished what it last asked to do: what it does next.
    fn step(&mut self, task: TaskId, machine: &mut Machine) -> Step;

    /// The read that `waiter` waited for is in memory.
    fn read_done(&mut self, waiter: Waiter, machine: &mut Machine);

    /// For each task the worker that it belongs to; empty if tasks belong to no worker.
    fn workers(&self) -> Vec<usize>;

    /// The last byte of `request` is with the client. Only heard if that takes time after
    /// [`Machine::complete`].
    fn sent(&mut self, _request: RequestId, _machine: &mut Machine) {}
}

impl Kind {
    /// Its memory beside the content, in a scenario.
    pub fn overhead(self, scenario: &Scenario, parameters: &Parameters) -> Overhead {
        match self {
            Kind::Mp => mp::overhead(scenario, parameters),
            Kind::ThreadPool => thread_pool::overhead(scenario, parameters),
            Kind::ThreadPerRequest => thread_per_request::overhead(scenario, parameters),
            Kind::ThreadPerSession => thread_per_session::overhead(scenario, parameters),
            Kind::Sped => sped::overhead(scenario, parameters),
            Kind::Amped => amped::overhead(scenario, parameters),
            Kind::CoAmped => co_amped::overhead(scenario, parameters),
            Kind::Pipelined => pipelined::overhead(scenario, parameters),
            Kind::Proactor => proactor::overhead(scenario, parameters),
            Kind::EventLoops => event_loops::overhead(scenario, parameters),
        }
    }

    /// How a scenario's memory is divided. With private copies of the content, the division of one process's share:
    /// what one process can find in its own memory. Requests are spread over processes at random, so each sees the same
    /// popularity and one cache of that size stands for all.
    pub fn divide(self, scenario: &Scenario, parameters: &Parameters) -> Division {
        let overhead = self.overhead(scenario, parameters);
        let file_bytes_mean = parameters.memory.file_bytes_mean as f64;
        match parameters.memory.data_copies {
            DataCopies::PrivateMp if self != Kind::Mp => overhead.divide(scenario.system_memory_bytes, file_bytes_mean),
            DataCopies::Shared => overhead.divide(scenario.system_memory_bytes, file_bytes_mean),
            DataCopies::Private | DataCopies::PrivateMp => {
                let fixed_bytes = overhead.fixed_bytes / overhead.copies;
                let one = Overhead { copies: 1.0, fixed_bytes, ..overhead };
                one.divide((scenario.system_memory_bytes as f64 / overhead.copies) as u64, file_bytes_mean)
            }
        }
    }

    pub(crate) fn run(self, scenario: &Scenario, parameters: &Parameters, machine: &mut Machine) -> Observation {
        match self {
            Kind::Mp => drive(mp::model(scenario, parameters), scenario, machine),
            Kind::ThreadPool => drive(thread_pool::model(scenario, parameters), scenario, machine),
            Kind::ThreadPerRequest => drive(thread_per_request::model(scenario), scenario, machine),
            Kind::ThreadPerSession => drive(thread_per_session::model(scenario), scenario, machine),
            Kind::Sped => drive(sped::model(scenario), scenario, machine),
            Kind::Amped => drive(amped::model(scenario, parameters), scenario, machine),
            Kind::CoAmped => drive(co_amped::model(scenario, parameters), scenario, machine),
            Kind::Pipelined => drive(pipelined::model(scenario, parameters), scenario, machine),
            Kind::Proactor => drive(proactor::model(scenario, parameters), scenario, machine),
            Kind::EventLoops => drive(event_loops::model(scenario), scenario, machine),
        }
    }
}

fn drive(mut model: impl Architecture, scenario: &Scenario, machine: &mut Machine) -> Observation {
    let workers = if scenario.bound_workers { model.workers() } else { Vec::new() };
    for (task, worker) in (0..).zip(workers) {
        machine.bind(TaskId(task), worker);
    }
    machine.run(&mut model, scenario.warm_up_requests, scenario.requests)
}
