//! Services of worker processes: what their supervisor has, they are told.
//!
//! Owns: telling them. Each process makes what it is told of itself; a worker that is started later has what its
//! supervisor has by being forked from it.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;

use lamna_io::log::errors::{self, Level};
use rustix::fs::{MemfdFlags, memfd_create};

use super::Supervisor;
use crate::process::service_orders;

impl Supervisor<'_> {
    /// Tells the workers what services there are.
    pub(super) fn pass_on_services(&self) {
        let table = service_orders::encode(&self.shared_metrics.services.rows());
        match file_of(&table) {
            Ok(file) => self.workers.iter().flatten().for_each(|worker| worker.line.order_services(file.as_fd())),
            Err(error) => {
                errors::report(
                    Level::Error,
                    format_args!("worker processes keep the services that they have: {error}"),
                );
            }
        }
    }
}

/// A file without a name, which its receiver reads from the beginning.
fn file_of(bytes: &[u8]) -> io::Result<File> {
    let mut file = File::from(memfd_create("lamna-services", MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    Ok(file)
}
