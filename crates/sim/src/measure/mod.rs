//! Measuring the real server on this machine: parameters for the models, and how well they predict.
//!
//! Owns: everything in this crate that touches a socket, a process or a disk. [`calibrate`] writes a parameter set from
//! measurements, [`validate`] holds predictions against others. Both start real servers (`lamna serve`) on loopback and
//! use a load client of their own. Nothing here is deterministic, and nothing in the models depends on it.

pub mod calibrate;
pub mod cgroup;
pub mod disk;
mod kept;
mod limited;
pub mod load;
pub mod micro;
mod quiet;
pub mod server;
mod spread;
pub mod trial;
pub mod validate;
mod written;
