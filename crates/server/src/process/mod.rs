//! The control plane: processes, engines that start and end, orders, upgrades.
//!
//! Owns: the life of a server from start to end. Uses everything below; nothing below uses it. Serves nothing itself.

mod admin_service;
pub mod administration;
pub mod applications;
pub(crate) mod autotune;
pub(crate) mod body;
pub mod cgi_runner;
pub mod container;
pub(crate) mod control_plane;
pub(crate) mod embedded;
pub mod error;
mod hint_report;
pub(crate) mod messages;
mod opened_store;
pub(crate) mod operator_orders;
pub mod orders;
pub(crate) mod reload;
mod remainder;
pub(crate) mod renewal;
pub(crate) mod running_engine;
pub(crate) mod sd_notify;
pub mod sensors;
mod serve;
pub mod server;
mod service_orders;
mod share;
pub mod shared_metrics;
pub(crate) mod startup_limits;
pub mod supervisor;
mod sweeper;
pub mod upgrade;

pub use serve::serve;
