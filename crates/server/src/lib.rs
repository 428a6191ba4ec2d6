//! Lamna's deeds: engines, I/O strategies, caches and content. The only serving crate that makes system calls.
//!
//! The way of a request: [`listen`] and [`engine`] take the connection; `lamna_proto` reads the request from it and
//! says what it needs; [`cache`] has it, or [`content`] finds it by the strategies of [`io`]; `lamna_proto` makes the
//! answer; [`io::send`] sends it, and [`log`] writes it down.

#![forbid(unsafe_code)]

pub mod admin;
pub mod embed;
pub mod process;

pub use lamna_config as config;
pub use lamna_engine::{engine, worker};
pub use lamna_io as io;
pub use lamna_io::{listen, log};
pub use lamna_site::{cache, content, early_hints, gateway, hints, service, upstream};
pub use lamna_sys as sys;
pub use lamna_sys::metrics;
pub use lamna_tls as tls;
pub use lamna_tls::acme;

pub use crate::process::error::ServeError;
pub use crate::process::serve;
pub use crate::process::server::Server;
