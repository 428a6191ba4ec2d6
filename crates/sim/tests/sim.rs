//! The simulator against closed forms, conservation laws and itself.

mod determinism;
mod hints;
mod kernel;
mod laws;
mod paper;
mod queueing;
mod schedules;
mod workload;
