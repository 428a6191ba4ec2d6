//! The architectures, and the workers that they are made of.
//!
//! Owns: connections, from being accepted to being closed or handed over, and all waiting for them. Does not know the
//! control plane: it is told by `worker::control`.

#![forbid(unsafe_code)]

pub mod engine;
pub mod worker;
