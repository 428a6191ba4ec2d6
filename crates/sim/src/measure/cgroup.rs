//! Control groups (version 1) that hold a server to a machine smaller or slower than this one.
//!
//! Owns: making and removing them. Guarantees: groups of its own only, removed when dropped. Needs root and the `memory` and
//! `blkio` controllers at their usual places; says so where it cannot have them.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// One group. Processes enter by writing themselves to `cgroup.procs` in it.
#[derive(Debug)]
pub struct Group {
    /// Its folder.
    pub path: PathBuf,
}

/// Requests to disks by the processes of the groups with these folders, since they were made:
/// `blkio.throttle.io_serviced`. None where they are not counted.
pub fn disk_reads(groups: &[PathBuf]) -> u64 {
    let of = |group: &PathBuf| fs::read_to_string(group.join("blkio.throttle.io_serviced")).unwrap_or_default();
    groups.iter().map(|group| reads_of_all_disks(&of(group))).sum()
}

/// What the groups with these folders hold of files in memory, in bytes, and what else: processes' own, and what the kernel keeps
/// for them (sockets, page tables). Zeros where that is not counted.
pub fn memory_use(groups: &[PathBuf]) -> MemoryUse {
    let read = |group: &PathBuf, name: &str| fs::read_to_string(group.join(name)).unwrap_or_default();
    let page_cache_bytes = groups.iter().map(|group| stat_value(&read(group, "memory.stat"), "total_cache")).sum();
    let total = |group| read(group, "memory.usage_in_bytes").trim().parse::<u64>().unwrap_or(0);
    let total_bytes: u64 = groups.iter().map(total).sum();
    MemoryUse { page_cache_bytes, other_bytes: total_bytes.saturating_sub(page_cache_bytes) }
}

/// See [`memory_use`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// Pages of files.
    pub page_cache_bytes: u64,
    /// Everything else.
    pub other_bytes: u64,
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

    /// Processes in it read at most so many times a second from the disk beneath `folder`, and their reads are counted.
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
        static MADE: AtomicU32 = AtomicU32::new(0);
        let name = format!("lamna-sim-{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let path = Path::new(ROOT).join(controller).join(name);
        match fs::create_dir(&path) {
            Ok(()) => Ok(Group { path }),
            Err(error) => {
                let reason = format!("control group {} (root and cgroup v1 are needed): {error}", path.display());
                Err(io::Error::new(error.kind(), reason))
            }
        }
    }
}

/// Lines `8:0 Read 12`, one for each disk and kind.
fn reads_of_all_disks(text: &str) -> u64 {
    let reads = |line: &str| line.split_once(" Read ")?.1.trim().parse::<u64>().ok();
    text.lines().filter_map(reads).sum()
}

/// Lines `name value`.
fn stat_value(text: &str, name: &str) -> u64 {
    let value = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse::<u64>().ok();
    text.lines().find_map(value).unwrap_or(0)
}

impl Drop for Group {
    fn drop(&mut self) {
        // Whoever was in it has ended; if not, an empty group stays behind, which harms nobody.
        _ = fs::remove_dir(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_are_summed_over_disks_and_nothing_else_is() {
        assert_eq!(reads_of_all_disks("8:0 Read 12\n8:0 Write 3\n8:16 Read 30\nTotal 45\n"), 42);
        assert_eq!(reads_of_all_disks(""), 0);
    }

    #[test]
    fn values_are_found_by_their_whole_names() {
        let stat = "cache 1\ntotal_cache_more 2\ntotal_cache 3\n";
        assert_eq!(stat_value(stat, "total_cache"), 3);
        assert_eq!(stat_value(stat, "rss"), 0);
    }
}
