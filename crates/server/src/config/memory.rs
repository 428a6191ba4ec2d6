//! How much memory this process may use, and the cache size that follows.
//!
//! Owns: reading the memory limits of the control groups (both versions, see cgroups(7)) and `MemTotal` of
//! proc_meminfo(5). Guarantees an answer on any machine. Reads once, at start: a limit that changes later is not seen.

use std::fs;
use std::path::{Path, PathBuf};

const MIB: u64 = 1 << 20;

/// Bytes of cache when nothing was said: a quarter of what this process may use, at least 1 MiB and at most 512 MiB.
///
/// A quarter, because the page cache holds the same files for free and needs room too; 512 MiB, because a server that
/// takes gigabytes without having been asked to is a surprise. 64 MiB where the machine does not say what it has.
pub fn default_cache_bytes() -> u64 {
    (memory_bytes() / 4).clamp(MIB, 512 * MIB)
}

/// Bytes of memory that this process may use, the page cache of what it reads included. 256 MiB where the machine does not
/// say what it has.
pub fn memory_bytes() -> u64 {
    memory_limit_bytes(&|path: &Path| fs::read_to_string(path).ok()).unwrap_or(256 * MIB)
}

/// The smallest of physical memory and every limit on the way from this process's control group up to the root.
fn memory_limit_bytes(read: &impl Fn(&Path) -> Option<String>) -> Option<u64> {
    let total = read(Path::new("/proc/meminfo")).and_then(|text| mem_total_bytes(&text));
    let groups = read(Path::new("/proc/self/cgroup")).unwrap_or_default();
    limit_files(&groups)
        .iter()
        .filter_map(|file| read(file))
        // Version 2 says `max` where there is no limit; version 1 a number larger than any memory.
        .filter_map(|text| text.trim().parse().ok())
        .chain(total)
        .min()
}

/// The files that may hold a limit, from the contents of `/proc/self/cgroup`: lines of `ID:CONTROLLERS:PATH`. Inside a
/// container the path may be one of the host that is not mounted here; the root of the mount is then the container's
/// own group, which is why the root is always asked as well.
fn limit_files(groups: &str) -> Vec<PathBuf> {
    groups.lines().flat_map(limit_files_of_line).collect()
}

fn limit_files_of_line(line: &str) -> Vec<PathBuf> {
    let mut fields = line.splitn(3, ':').skip(1);
    let (Some(controllers), Some(group)) = (fields.next(), fields.next()) else {
        return Vec::new();
    };
    let (mount, file) = match controllers {
        "" => ("/sys/fs/cgroup", "memory.max"),
        names if names.split(',').any(|name| name == "memory") => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
        _ => return Vec::new(),
    };
    Path::new(group.trim_start_matches('/')).ancestors().map(|group| Path::new(mount).join(group).join(file)).collect()
}

fn mem_total_bytes(meminfo: &str) -> Option<u64> {
    let kibibytes = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?.trim().strip_suffix("kB")?;
    kibibytes.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMINFO: &str = "MemTotal:        4096000 kB\nMemFree:          102400 kB\n";

    fn limit(files: &[(&str, &str)]) -> Option<u64> {
        memory_limit_bytes(&|path: &Path| {
            let found = files.iter().find(|(name, _)| Path::new(name) == path);
            found.map(|(_, text)| text.to_string())
        })
    }

    #[test]
    fn without_control_groups_physical_memory_is_the_limit() {
        assert_eq!(limit(&[("/proc/meminfo", MEMINFO)]), Some(4096000 * 1024));
    }

    #[test]
    fn a_version_2_limit_of_an_ancestor_counts() {
        let files = [
            ("/proc/meminfo", MEMINFO),
            ("/proc/self/cgroup", "0::/system.slice/lamna.service\n"),
            ("/sys/fs/cgroup/system.slice/lamna.service/memory.max", "max\n"),
            ("/sys/fs/cgroup/system.slice/memory.max", "268435456\n"),
        ];
        assert_eq!(limit(&files), Some(268435456));
    }

    #[test]
    fn a_version_1_number_that_means_no_limit_is_none() {
        let files = [
            ("/proc/meminfo", MEMINFO),
            ("/proc/self/cgroup", "4:cpu,memory:/a/b\n3:cpuset:/\n0::/\n"),
            ("/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n"),
        ];
        assert_eq!(limit(&files), Some(4096000 * 1024));
    }

    #[test]
    fn in_a_container_the_root_of_the_mount_is_asked() {
        let files = [
            ("/proc/meminfo", MEMINFO),
            ("/proc/self/cgroup", "4:memory:/docker/0123\n"),
            ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "1048576\n"),
        ];
        assert_eq!(limit(&files), Some(1048576));
    }

    #[test]
    fn unreadable_or_odd_files_are_passed_over() {
        assert_eq!(limit(&[]), None);
        assert_eq!(limit(&[("/proc/meminfo", "MemTotal: lots\n"), ("/proc/self/cgroup", "x\n:\n")]), None);
    }

    #[test]
    fn the_default_is_within_its_bounds() {
        assert!((MIB..=512 * MIB).contains(&default_cache_bytes()));
    }
}
