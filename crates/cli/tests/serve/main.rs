//! The behaviour of the server over real sockets: conversations, faults, and counts of system calls.
//!
//! Every test runs the built program as a child process on a port and in a directory of its own. All waits are bounded;
//! no test asserts how long something takes.

mod access;
mod acme;
mod changes;
mod client;
mod compare;
mod compression;
mod control;
mod counts;
mod crowds;
mod downloads;
mod ends;
mod engine;
mod errors;
mod faults;
mod filters;
mod foresight;
mod gateways;
mod goaway;
mod held;
mod http2;
mod limits;
mod live_reload;
mod negotiated;
mod panics;
mod preview;
mod processes;
mod protocols;
mod request_id;
mod residency;
mod routes;
mod sandbox;
mod schedule;
mod script;
mod search;
mod server;
mod skip;
mod storm;
mod suite;
mod switching;
mod tls;
mod tree;
mod upgrade;
mod uploads;
mod user;
