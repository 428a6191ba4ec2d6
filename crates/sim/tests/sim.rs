//! The simulator against closed forms, conservation laws and itself.

mod determinism;
mod kernel;
mod laws;
mod paper;
mod queueing;
mod workload;
