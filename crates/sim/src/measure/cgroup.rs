//! Control groups (version 1) that hold a server to a machine smaller or slower than this one.
//!
//! Owns: making and removing them. Guarantees: groups of its own only, removed when dropped. Needs root and the `memory` and
//! `blkio` controllers at their usual places; says so where it cannot have them.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// One group. Processes enter by writing themselves to `cgroup.procs` in it.
#[derive(Debug)]
pub struct Group {
    /// Its folder.
    pub path: PathBuf,
}

const ROOT: &str = "/sys/fs/cgroup";

impl Group {
    /// Processes in it have this much memory, page cache included.
    ///
    /// # Errors
    /// Not permitted, or no such controller.
    pub fn with_memory(bytes: u64) -> io::Result<Group> {
        let group = Group::make("memory")?;
        fs::write(group.path.join("memory.limit_in_bytes"), bytes.to_string())?;
        Ok(group)
    }

    /// Processes in it read at most so many times a second from the disk beneath `folder`.
    ///
    /// # Errors
    /// Not permitted, no such controller, or no such disk.
    pub fn with_reads_per_s(folder: &Path, reads_per_s: u64) -> io::Result<Group> {
        let group = Group::make("blkio")?;
        let device = fs::metadata(folder)?.dev();
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let rule = format!("{major}:{minor} {reads_per_s}");
        fs::write(group.path.join("blkio.throttle.read_iops_device"), rule)?;
        Ok(group)
    }

    fn make(controller: &str) -> io::Result<Group> {
        let path = Path::new(ROOT).join(controller).join(format!("lamna-sim-{}", std::process::id()));
        match fs::create_dir(&path) {
            Ok(()) => Ok(Group { path }),
            Err(error) => {
                let reason = format!("control group {} (root and cgroup v1 are needed): {error}", path.display());
                Err(io::Error::new(error.kind(), reason))
            }
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Whoever was in it has ended; if not, an empty group stays behind, which harms nobody.
        _ = fs::remove_dir(&self.path);
    }
}
