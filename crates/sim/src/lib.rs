//! A discrete-event simulator: predicts each server architecture's performance on machines we do not have.
//!
//! Owns: the kernel ([`kernel`]), the resources a server waits for ([`resource`]), a model of each architecture under
//! the name of its engine ([`arch`]), workloads ([`workload`]), named sets of measured costs ([`parameters`]), and the
//! experiments: [`run`] one scenario, [`sweep`] a grid, reproduce the [`paper`], [`advise`] on a machine; [`policies`],
//! [`schedules`] and [`hints`] without a server around them.
//!
//! Guarantees: a result is a function of scenario, parameter set and seed, to the byte. Replacement policies, orders of
//! service and tables of hints are those of the server (`lamna_policy`), not imitations.
//!
//! Does not: open sockets, start processes or measure anything. Measuring parameters, and holding predictions against
//! the real server, is the laboratory's (`lamna_lab::simulator`). What the models leave out is listed in
//! `docs/internals/simulator.md`.

pub mod advise;
pub mod arch;
pub mod hints;
pub mod kernel;
pub mod machine;
pub mod paper;
pub mod parameters;
pub mod policies;
pub mod report;
pub mod resource;
pub mod run;
pub mod scenario;
pub mod schedules;
pub mod sweep;
pub mod workload;
