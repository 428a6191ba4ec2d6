//! The simulator beside the real server on this machine: parameters for its models, and how well they predict.
//!
//! Owns: [`calibrate`], which writes a parameter set from measurements, and [`validate`], which holds predictions
//! against others. Both start real servers (`lamna serve`) on loopback. Processes and control groups are the
//! laboratory's ([`crate::process`],
//! [`crate::cgroup`]). The load is a client of its own ([`load`]), because the models need of it what the generator of
//! [`crate::load`] does not do: it goes on with the same connections from one stretch to the next, never sleeps where
//! it has a processor to itself, and its own processor time is a parameter of the sets that exist. Nothing here is
//! deterministic, and nothing in the models depends on it.

pub mod calibrate;
pub mod disk;
mod limited;
pub mod load;
mod measurements;
pub mod micro;
mod quiet;
pub mod server;
mod spread;
pub mod trial;
pub mod validate;
mod written;
