//! One trial: a server, a load on it, and what both of them did in a stretch of time.
//!
//! Owns: which processors they run on. The load has the last processor; a server with one worker has the first to itself, one
//! with more may use all, and its loops are bound to one each. Left to itself, Linux puts a loop and the load that it
//! exchanges messages with on one processor in one run and on two in the next, which halves or doubles the result and is
//! nothing that a model of an architecture could predict.

use std::io;
use std::num::NonZeroUsize;
use std::thread::available_parallelism;
use std::time::Duration;

use super::load::{Load, Target, Use};
use super::server::{Server, ServerSettings, confined};

/// What is tried.
#[derive(Clone, Debug)]
pub struct Trial<'a> {
    /// The server; its processors are chosen here.
    pub server: ServerSettings,
    /// Connections of the load.
    pub connections: u32,
    /// How they are used.
    pub usage: Use,
    /// What is asked for.
    pub targets: &'a [Target],
    /// Before anything is counted.
    pub warm_up: Duration,
    /// While it is counted.
    pub measured: Duration,
}

/// What was seen.
#[derive(Clone, Copy, Debug)]
pub struct Observed {
    /// Requests answered per second.
    pub requests_per_s: f64,
    /// Median latency as the client sees it, in microseconds.
    pub latency_p50_us: f64,
    /// 99 of 100 are faster.
    pub latency_p99_us: f64,
    /// Processor time of the server for each request, in microseconds.
    pub server_us: f64,
    /// Processor time of the load for each request, in microseconds.
    pub load_us: f64,
    /// Requests answered for each wait of the load.
    pub per_wait: f64,
}

/// Processors of this machine that may be used.
pub fn processors() -> usize {
    available_parallelism().map_or(1, NonZeroUsize::get)
}

impl Trial<'_> {
    /// Runs it; `next` names the target that a client asks for next. `None`: the program has no such engine.
    ///
    /// # Errors
    /// The server does not start, or does not answer as it should.
    pub fn run(&self, next: impl FnMut(usize) -> usize) -> io::Result<Option<Observed>> {
        let mut settings = self.server.clone();
        settings.processors = if settings.workers == 1 { vec![0] } else { Vec::new() };
        let Some(server) = Server::start(&settings)? else { return Ok(None) };
        if settings.workers > 1 && !settings.architecture.starts_with("thread") {
            server.bind_workers(processors())?;
        }
        confined(&[processors() - 1], || self.load(&server, next)).map(Some)
    }

    fn load(&self, server: &Server, mut next: impl FnMut(usize) -> usize) -> io::Result<Observed> {
        let mut load = Load::connect(server.address, self.connections, self.targets, self.usage)?;
        load.run(self.warm_up, &mut next)?;
        let before_s = server.cpu_s()?;
        let seen = load.run(self.measured, &mut next)?;
        let server_s = server.cpu_s()? - before_s;
        let completed = seen.completed.max(1) as f64;
        let quantile_us = |share| seen.latency.quantile(share) as f64 / 1e3;
        Ok(Observed {
            requests_per_s: seen.requests_per_s(),
            latency_p50_us: quantile_us(0.5),
            latency_p99_us: quantile_us(0.99),
            server_us: server_s * 1e6 / completed,
            load_us: seen.cpu_s * 1e6 / completed,
            per_wait: completed / seen.waits.max(1) as f64,
        })
    }
}
