//! A model of each architecture, under the name of its engine.
//!
//! An architecture is a choice of who waits, where each step is carried out, and who owns the caches. A model here says that and
//! nothing else. The steps and their costs belong to the machine ([`crate::machine`]).
//!
//! A model owes this: [`Architecture::arrive`] keeps the request until a task takes it. Every request is completed exactly once. A
//! task is woken only while it blocks.
//!
//! Each file describes one architecture and states its memory overhead (Table 1 of the PIPELINED paper, 2005, and its section 4).
//! Three kinds of model carry them: [`threads`](self) with a task for each request, loops for event loops, and the pipeline.

mod amped;
mod co_amped;
mod event_loops;
mod loops;
mod mp;
mod pipelined;
mod proactor;
mod sped;
mod thread_per_request;
mod thread_per_session;
mod thread_pool;
mod threads;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

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

/// The architectures by the names of the engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A process per connection being served.
    Mp,
    /// A thread per connection being served.
    ThreadPool,
    /// A thread spawned per request.
    ThreadPerRequest,
    /// A thread per client.
    ThreadPerSession,
    /// One event loop per processor, in processes of their own; disk reads stall the loop.
    Sped,
    /// Event loops and helpers, one process, shared caches.
    Amped,
    /// AMPED processes that share nothing but content: the AMPED of the PIPELINED paper on several processors.
    CoAmped,
    /// Stage threads per processor.
    Pipelined,
    /// One completion ring per worker, shared caches, the kernel reads.
    Proactor,
    /// Event loops as threads that share the caches; disk reads stall the loop.
    EventLoops,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 10] = [
        Kind::Mp,
        Kind::ThreadPool,
        Kind::ThreadPerRequest,
        Kind::ThreadPerSession,
        Kind::Sped,
        Kind::Amped,
        Kind::CoAmped,
        Kind::Pipelined,
        Kind::Proactor,
        Kind::EventLoops,
    ];

    /// The five of the PIPELINED paper, in its order.
    pub const PAPER: [Kind; 5] = [Kind::Mp, Kind::ThreadPool, Kind::Sped, Kind::CoAmped, Kind::Pipelined];

    /// The engine's name.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Mp => "mp",
            Kind::ThreadPool => "thread-pool",
            Kind::ThreadPerRequest => "thread-per-request",
            Kind::ThreadPerSession => "thread-per-session",
            Kind::Sped => "sped",
            Kind::Amped => "amped",
            Kind::CoAmped => "co-amped",
            Kind::Pipelined => "pipelined",
            Kind::Proactor => "proactor",
            Kind::EventLoops => "event-loops",
        }
    }

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

    /// How a scenario's memory is divided. With private copies of the content, the division of one process's share: what
    /// one process can find in its own memory. Requests are spread over processes at random, so each sees the same
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

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Not the name of an architecture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownArchitecture(pub String);

impl fmt::Display for UnknownArchitecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = Kind::ALL.iter().map(|kind| kind.name()).collect();
        write!(f, "no architecture is called `{}`; there are {}", self.0, names.join(", "))
    }
}

impl std::error::Error for UnknownArchitecture {}

impl FromStr for Kind {
    type Err = UnknownArchitecture;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Kind::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(|| UnknownArchitecture(name.into()))
    }
}
