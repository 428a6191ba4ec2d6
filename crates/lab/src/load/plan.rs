//! The plan of a load job: plain data that the command line, the replay and the scenarios fill in.
//!
//! Owns: the shape of a job and the bytes of its requests. Does not execute anything.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// A job.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where the server listens.
    pub address: SocketAddr,
    /// Addresses to connect from, in turn; none leaves it to the kernel. One address has about 28,000 ports for one
    /// server.
    pub sources: Vec<IpAddr>,
    /// The targets to ask for. At least one.
    pub targets: Vec<Target>,
    /// The order of requests.
    pub order: Order,
    /// When.
    pub pace: Pace,
    /// Connections that carry requests, over all threads. At least one.
    pub connections: usize,
    /// Connections beside them that ask once, are answered, and stay silent.
    pub idle_connections: usize,
    /// Event loops. At least one, at most `connections`.
    pub threads: usize,
    /// Processors to pin the event loops to, in turn; none leaves it to the kernel.
    pub processors: Vec<usize>,
    /// Whether each request has a connection of its own.
    pub new_connections: bool,
    /// Requests under way on one connection. At least one.
    pub pipelining: usize,
    /// Bytes a second that each connection reads.
    pub read_rate: Option<u32>,
    /// Bytes a second of its requests that each connection writes.
    pub write_rate: Option<u32>,
    /// Time without progress after which a request is given up.
    pub timeout: Duration,
    /// Time from the beginning of the run whose requests are sent but not measured.
    pub warmup: Duration,
    /// Length of the measurement; none runs until `requests` are made or the order ends.
    pub duration: Option<Duration>,
    /// Requests of the whole run, warm-up included.
    pub requests: Option<u64>,
    /// Where chance begins.
    pub seed: u64,
}

impl Plan {
    /// The simplest job against `address`: 64 connections in one thread that ask as fast as they are answered, for 10
    /// s.
    pub fn simple(address: SocketAddr, targets: Vec<Target>) -> Plan {
        Plan {
            address,
            sources: Vec::new(),
            targets,
            order: Order::Weighted,
            pace: Pace::Closed { think: Duration::ZERO },
            connections: 64,
            idle_connections: 0,
            threads: 1,
            processors: Vec::new(),
            new_connections: false,
            pipelining: 1,
            read_rate: None,
            write_rate: None,
            timeout: Duration::from_secs(10),
            warmup: Duration::ZERO,
            duration: Some(Duration::from_secs(10)),
            requests: None,
            seed: 1,
        }
    }

    /// Connects from several addresses if the server is on IPv4 loopback, no address was chosen, and one has too few
    /// ports.
    pub fn spread_sources(&mut self) {
        let needed = (self.connections + self.idle_connections).div_ceil(CONNECTIONS_OF_SOURCE);
        if needed > 1 && self.sources.is_empty() && matches!(self.address.ip(), IpAddr::V4(ip) if ip.is_loopback()) {
            // 127.0.0.0/8 is all loopback (RFC 1122 3.2.1.3).
            let address = |number: usize| Ipv4Addr::new(127, 0, (number / 250) as u8, (number % 250 + 1) as u8).into();
            self.sources = (0..needed).map(address).collect();
        }
    }
}

/// Connections from one address to one server: the kernel has 28,232 ports for them unless told otherwise.
const CONNECTIONS_OF_SOURCE: usize = 20_000;

/// Something that can be asked for.
#[derive(Clone, Debug)]
pub struct Target {
    /// For reports.
    pub path: String,
    /// The request, to the byte.
    pub request: Arc<[u8]>,
    /// Whether it is a HEAD request, whose answer has no content.
    pub is_head: bool,
    /// How often, in comparison. Not negative; used by [`Order::Weighted`].
    pub weight: f64,
    /// The expected content of a 200, if that is to be checked.
    pub content: Option<Arc<[u8]>>,
}

/// Which target comes next.
#[derive(Clone, Debug)]
pub enum Order {
    /// Independent draws by weight.
    Weighted,
    /// These, as indices of targets; from the beginning again if `looped`.
    Sequence {
        /// Indices of targets. At least one.
        targets: Arc<[u32]>,
        /// Whether the end is followed by the beginning.
        looped: bool,
    },
}

/// When the next request is made.
#[derive(Clone, Debug)]
pub enum Pace {
    /// When a connection has its answer, and has thought about it.
    Closed {
        /// Time between an answer and the next request of a connection.
        think: Duration,
    },
    /// A number of requests a second, whatever the server does.
    Rate {
        /// Requests a second over all threads. Positive.
        per_second: f64,
        /// Independent arrivals (exponential intervals) instead of equal intervals.
        poisson: bool,
    },
    /// At these times from the beginning, one for each request of an [`Order::Sequence`]. In ascending order.
    Times {
        /// Nanoseconds from the beginning of the run.
        due_ns: Arc<[u64]>,
        /// The time added with each further turn if the sequence is looped.
        period_ns: u64,
    },
}

impl Pace {
    /// Whether requests wait for answers.
    pub fn is_closed(&self) -> bool {
        matches!(self, Pace::Closed { .. })
    }
}

/// How requests are written.
#[derive(Clone, Debug, Default)]
pub struct RequestForm {
    /// `Host`.
    pub host: String,
    /// HTTP/1.0 instead of 1.1.
    pub http_1_0: bool,
    /// Says `Connection: close`; with HTTP/1.0 the absence of `keep-alive` says so.
    pub close: bool,
    /// Further lines, as `Name: value`.
    pub fields: Vec<String>,
}

impl RequestForm {
    /// The request for `path` by `method`.
    pub fn write(&self, method: &str, path: &str) -> Arc<[u8]> {
        let version = if self.http_1_0 { "1.0" } else { "1.1" };
        let mut text = format!("{method} {path} HTTP/{version}\r\nHost: {}\r\n", self.host);
        match (self.http_1_0, self.close) {
            (false, true) => text.push_str("Connection: close\r\n"),
            (true, false) => text.push_str("Connection: keep-alive\r\n"),
            _ => {}
        }
        for field in &self.fields {
            text.push_str(field);
            text.push_str("\r\n");
        }
        text.push_str("\r\n");
        text.into_bytes().into()
    }

    /// A target of weight one for a GET of `path`.
    pub fn target(&self, path: &str) -> Target {
        let request = self.write("GET", path);
        Target { path: path.to_owned(), request, is_head: false, weight: 1.0, content: None }
    }
}

/// The file mix of WebSTONE as the JAWS papers use it (Table 1): path, bytes, share in percent.
pub const WEBSTONE: [(&str, u64, f64); 4] = [
    ("/file500.html", 500, 35.0),
    ("/file5k.html", 5 * 1024, 50.0),
    ("/file50k.html", 50 * 1024, 14.0),
    ("/file5m.html", 5 * 1024 * 1024, 1.0),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_says_how_the_connection_goes_on() {
        let form = |http_1_0, close| RequestForm { host: "h".into(), http_1_0, close, fields: vec!["A: b".into()] };
        let cases = [
            (false, false, "GET / HTTP/1.1\r\nHost: h\r\nA: b\r\n\r\n"),
            (false, true, "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nA: b\r\n\r\n"),
            (true, false, "GET / HTTP/1.0\r\nHost: h\r\nConnection: keep-alive\r\nA: b\r\n\r\n"),
            (true, true, "GET / HTTP/1.0\r\nHost: h\r\nA: b\r\n\r\n"),
        ];
        for (http_1_0, close, text) in cases {
            assert_eq!(
                form(http_1_0, close).write("GET", "/").escape_ascii().to_string(),
                text.as_bytes().escape_ascii().to_string()
            );
        }
    }

    #[test]
    fn the_shares_of_the_mix_add_up() {
        assert_eq!(WEBSTONE.iter().map(|(.., share)| share).sum::<f64>(), 100.0);
    }
}
