//! Resources that a server waits for: processors, locks, disks, the network, memory. Each is a queue with its own
//! statistics and no clock: instants are arguments, and what has to be scheduled is handed back to the caller.

mod disk;
mod fair;
mod link;
mod lock;
mod memory;
mod processors;

pub use disk::Disk;
pub use link::Link;
pub use lock::{Handover, Lock};
pub use memory::{Division, Overhead};
pub use processors::{Discipline, Finished, Processors, Start, TaskId};
