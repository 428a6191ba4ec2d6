//! Lamna's deeds: engines, I/O strategies, caches and content. The only serving crate that makes system calls.
//!
//! The way of a request: [`listen`] and [`engine`] take the connection; `lamna_proto` reads the request from it and says
//! what it needs; [`cache`] has it, or [`content`] finds it by the strategies of [`io`]; `lamna_proto` makes the answer;
//! [`io::send`] sends it, and [`log`] writes it down.

pub mod acme;
pub mod admin;
pub mod cache;
pub mod config;
pub mod content;
pub mod early_hints;
pub mod embed;
pub mod engine;
pub mod gateway;
pub mod hints;
pub mod io;
pub mod listen;
pub mod log;
#[cfg(test)]
mod loom_support;
pub mod metrics;
pub mod process;
pub mod service;
pub mod sys;
pub mod tls;
pub mod upstream;
pub mod worker;

pub use crate::process::error::ServeError;
pub use crate::process::server::{Server, serve};
