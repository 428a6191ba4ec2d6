//! Lamna's deeds: engines, I/O strategies, caches and content. The only serving crate that makes system calls.
//!
//! The way of a request: [`listen`] and [`engine`] take the connection; `lamna_proto` reads the request from it and says
//! what it needs; [`cache`] has it, or [`content`] finds it by the strategies of [`io`]; `lamna_proto` makes the answer;
//! [`io::send`] sends it, and [`log`] writes it down.

pub mod account;
mod adapt;
pub mod admin;
mod announce;
pub mod board;
pub mod cache;
mod calendar;
pub mod commons;
pub mod config;
mod contain;
pub mod content;
pub mod engine;
pub mod io;
pub mod keeper;
pub mod lifecycle;
pub mod listen;
pub mod log;
#[cfg(test)]
mod models;
mod notify;
pub mod orders;
mod room;
pub mod sensors;
mod shift;
pub mod site;
pub mod supervisor;
pub mod sys;
pub mod upgrade;

pub use lifecycle::{ServeError, Server, serve};
