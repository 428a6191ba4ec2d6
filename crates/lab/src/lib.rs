//! The laboratory: measures any HTTP/1 server from outside, over real sockets. The program `lamna-lab` is its command
//! line.
//!
//! Owns: the load generator ([`load`]), logs as workloads ([`replay`]), the servers that are compared ([`peers`]) and
//! what the kernel says about them ([`process`], [`perf`], [`whitebox`], [`cgroup`]), scenarios ([`scenario`]) and
//! their execution ([`compare`]), Lamna's engines under loads that change ([`phases`]), and what is made of the results
//! ([`statistics`], [`report`]), and the simulator's parameters and predictions beside the real server ([`simulator`]).
//!
//! Guarantees: a figure that the generator itself spoiled is said to be spoiled; what was cut short is reported as far
//! as it went. Does not see the inside of any server, Lamna's included.

pub mod cgroup;
pub mod compare;
pub mod floor;
pub mod load;
pub mod machine;
pub mod metric;
pub mod peers;
pub mod perf;
pub mod phases;
pub mod process;
pub mod replay;
pub mod report;
pub mod scenario;
pub mod simulator;
pub mod statistics;
pub mod whitebox;
