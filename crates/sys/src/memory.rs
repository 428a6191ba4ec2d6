//! How much memory this process may use, and the cache size that follows.
//!
//! Owns: reading the memory limits of the control groups (both versions, see cgroups(7)) and `MemTotal` of
//! proc_meminfo(5). Guarantees an answer on any machine. Reads once, at start: a limit that changes later is not seen.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::process::{Resource, getrlimit};

const MIB: u64 = 1 << 20;

/// Bytes of cache when nothing was said, at least 1 MiB and at most 512 MiB, because a server that takes gigabytes
/// without having been asked to is a surprise.
///
/// A quarter of a machine's memory: the page cache holds the same files for free, as far as there is room. A half of a
/// control group's limit: the page cache is within the limit, so its content has to be chosen, and a cache that knows
/// requests chooses better. Not more, because memory of the cache cannot be reclaimed, and connections and reads under
/// way count within the limit as well; and a quarter of a small limit. 64 MiB where the machine does not say what it
/// has.
pub fn default_cache_bytes() -> u64 {
    // The page cache does not count as address space: a quarter is enough.
    let address_space = getrlimit(Resource::As).current.map_or(u64::MAX, |bytes| bytes / 4);
    cache_bytes(read_memory()).min(address_space).max(MIB)
}

/// The most processes of `mp` when nothing was said: 256, or as many as a limit of a control group has room for.
pub fn default_processes_max() -> usize {
    processes_max(read_memory())
}

/// Bytes of cache of each of `processes_max` processes of `mp` when nothing was said: 4 MiB, or what makes all of them
/// together an eighth of a limit of a control group; at least 64 KiB. Not more, because each of them needs memory to
/// run, and holds what it is sending as well.
pub fn default_process_cache_bytes(processes_max: usize) -> u64 {
    process_cache_bytes(read_memory(), processes_max)
}

/// Whether a cache of `cache_bytes` is most of the file content that this process can have in memory: then what it
/// holds should not be in the page cache as well, which would hold little else.
pub fn is_most_of_memory(cache_bytes: u64) -> bool {
    let Memory { total_bytes, limit_bytes } = read_memory();
    // A machine has more beside this server than a control group has.
    let share = limit_bytes.map(|bytes| bytes / 3).or(total_bytes.map(|bytes| bytes / 2));
    share.is_some_and(|share| cache_bytes >= share)
}

/// Bytes of memory that this process may use, the page cache of what it reads included. 256 MiB where the machine does
/// not say what it has.
pub fn memory_bytes() -> u64 {
    let Memory { total_bytes, limit_bytes } = read_memory();
    limit_bytes.or(total_bytes).unwrap_or(256 * MIB)
}

/// Whether there is a limit so small that only engines fit which hold next to nothing for a connection: no buffers that
/// belong to the kernel meanwhile, and no threads that wait.
pub fn is_small() -> bool {
    read_memory().limit_bytes.is_some_and(|bytes| bytes < SMALL_LIMIT_BYTES)
}

/// The most connections of this process that a limit of a control group has room for, if there is one. Read once.
pub fn connections_max() -> Option<u64> {
    static MOST: OnceLock<Option<u64>> = OnceLock::new();
    *MOST.get_or_init(|| connections_within(read_memory()))
}

/// Bytes of memory that making content may take for a while, beyond what caches and connections count: a quarter of a
/// limit of a control group, of which the cache has a half, or a half of the machine's memory. Read once.
pub fn work_bytes_max() -> u64 {
    static MOST: OnceLock<u64> = OnceLock::new();
    *MOST.get_or_init(|| work_bytes(read_memory()))
}

fn work_bytes(Memory { limit_bytes, total_bytes }: Memory) -> u64 {
    limit_bytes.map(|bytes| bytes / 4).or(total_bytes.map(|bytes| bytes / 2)).unwrap_or(256 * MIB)
}

/// The smallest limit of a control group that this process is in, in bytes, if there is one. Read once.
pub fn limit_bytes() -> Option<u64> {
    static LIMIT: OnceLock<Option<u64>> = OnceLock::new();
    *LIMIT.get_or_init(|| read_memory().limit_bytes)
}

/// The smallest limit of a control group that this process is in, in bytes, and the file that says how much of it is in
/// use.
pub fn least_limit() -> Option<(u64, PathBuf)> {
    least_limit_of(total_bytes(&read), &read).map(|(bytes, file)| (bytes, usage_file(&file)))
}

fn read(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok()
}

fn read_memory() -> Memory {
    Memory::of(&read)
}

/// The memory that this process may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Memory {
    /// Physical memory.
    total_bytes: Option<u64>,
    /// The smallest limit of a control group, if it is less.
    limit_bytes: Option<u64>,
}

fn cache_bytes(memory: Memory) -> u64 {
    let bytes = match (memory.limit_bytes, memory.total_bytes) {
        (Some(limit_bytes), _) if limit_bytes >= SMALL_LIMIT_BYTES => limit_bytes / 2,
        (Some(limit_bytes), _) => limit_bytes / 4,
        (None, Some(total_bytes)) => total_bytes / 4,
        (None, None) => 64 * MIB,
    };
    bytes.clamp(MIB, 512 * MIB)
}

fn processes_max(memory: Memory) -> usize {
    let room = memory.limit_bytes.map_or(u64::MAX, |bytes| bytes / PROCESS_BYTES);
    // At most 256, so that the conversion loses nothing.
    room.clamp(1, 256) as usize
}

fn process_cache_bytes(memory: Memory, processes_max: usize) -> u64 {
    let share = memory.limit_bytes.map_or(u64::MAX, |bytes| bytes / 8 / processes_max.max(1) as u64);
    share.clamp(64 << 10, 4 * MIB)
}

/// Connections within three eighths of a limit: the cache may have a half.
fn connections_within(memory: Memory) -> Option<u64> {
    memory.limit_bytes.map(|bytes| (bytes / 8 * 3 / CONNECTION_BYTES).max(CONNECTIONS_LEAST))
}

/// Bytes of a silent connection: the kernel's socket, file and watch, and an engine's state.
const CONNECTION_BYTES: u64 = 4 << 10;
/// However small the limit is.
const CONNECTIONS_LEAST: u64 = 32;

/// Bytes of a process of `mp` within a limit, its part of the cache included: 400 KiB of its own and 160 of the
/// kernel's when it has just begun.
const PROCESS_BYTES: u64 = 768 << 10;

/// Below this, the memory that the cache does not have is what the rest of the server needs: about 4 MiB, and 256 KiB
/// for each of 32 helpers that reads a file.
const SMALL_LIMIT_BYTES: u64 = 32 * MIB;

impl Memory {
    /// Physical memory, and the smallest limit on the way from this process's control group up to the root.
    fn of(read: &impl Fn(&Path) -> Option<String>) -> Memory {
        let total_bytes = total_bytes(read);
        Memory { total_bytes, limit_bytes: least_limit_of(total_bytes, read).map(|(bytes, _)| bytes) }
    }
}

/// The smallest limit, if it is less than the physical memory, and the file that says so.
fn least_limit_of(total_bytes: Option<u64>, read: &impl Fn(&Path) -> Option<String>) -> Option<(u64, PathBuf)> {
    let groups = read(Path::new("/proc/self/cgroup")).unwrap_or_default();
    // Version 2 says `max` where there is no limit; version 1 a number larger than any memory.
    let limits = limit_files(&groups).into_iter().filter_map(|file| Some((read(&file)?.trim().parse().ok()?, file)));
    limits.min().filter(|(limit, _)| total_bytes.map_or(*limit < UNLIMITED_BYTES, |all| *limit < all))
}

fn total_bytes(read: &impl Fn(&Path) -> Option<String>) -> Option<u64> {
    read(Path::new("/proc/meminfo")).and_then(|text| mem_total_bytes(&text))
}

/// Beside a file with a limit.
fn usage_file(limit: &Path) -> PathBuf {
    let is_of_version_2 = limit.ends_with("memory.max");
    limit.with_file_name(if is_of_version_2 { "memory.current" } else { "memory.usage_in_bytes" })
}

/// About the value of version 1 where there is no limit.
const UNLIMITED_BYTES: u64 = 1 << 62;

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

    fn memory(files: &[(&str, &str)]) -> Memory {
        Memory::of(&|path: &Path| {
            let found = files.iter().find(|(name, _)| Path::new(name) == path);
            found.map(|(_, text)| text.to_string())
        })
    }

    fn limit(files: &[(&str, &str)]) -> Option<u64> {
        memory(files).limit_bytes
    }

    #[test]
    fn without_control_groups_there_is_only_physical_memory() {
        let expected = Memory { total_bytes: Some(4096000 * 1024), limit_bytes: None };
        assert_eq!(memory(&[("/proc/meminfo", MEMINFO)]), expected);
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
        assert_eq!(limit(&files), None);
        assert_eq!(limit(&files[1..]), None);
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
    fn what_is_in_use_is_said_beside_the_limit() {
        let file = |limit: &str| usage_file(Path::new(limit)).display().to_string();
        assert_eq!(file("/sys/fs/cgroup/a/memory.max"), "/sys/fs/cgroup/a/memory.current");
        let version_1 = "/sys/fs/cgroup/memory/a/memory.limit_in_bytes";
        assert_eq!(file(version_1), "/sys/fs/cgroup/memory/a/memory.usage_in_bytes");
    }

    #[test]
    fn unreadable_or_odd_files_are_passed_over() {
        assert_eq!(limit(&[]), None);
        assert_eq!(limit(&[("/proc/meminfo", "MemTotal: lots\n"), ("/proc/self/cgroup", "x\n:\n")]), None);
    }

    #[test]
    fn a_limit_leaves_room_for_everything_else() {
        let cache = |limit_bytes| cache_bytes(Memory { total_bytes: Some(64 << 30), limit_bytes });
        for limit_mib in [4, 8, 16, 24, 32, 35, 64, 100, 256, 1024, 16 << 10] {
            let limit = limit_mib * MIB;
            let rest = limit - cache(Some(limit));
            assert!(rest >= limit / 2, "{limit_mib} MiB");
            // What runs, and what all helpers read at the same time.
            assert!(rest >= 12 * MIB || rest >= limit * 3 / 4, "{limit_mib} MiB");
        }
        assert_eq!(cache(Some(100 * MIB)), 50 * MIB);
        assert_eq!(cache(None), 512 * MIB);
        assert_eq!(cache_bytes(Memory { total_bytes: Some(1 << 30), limit_bytes: None }), 256 * MIB);
        assert_eq!(cache_bytes(Memory { total_bytes: None, limit_bytes: None }), 64 * MIB);
    }

    #[test]
    fn within_a_limit_there_is_room_for_all_processes_and_their_caches() {
        for limit_mib in [4, 16, 35, 100, 256, 1024, 16 << 10] {
            let memory = Memory { total_bytes: Some(64 << 30), limit_bytes: Some(limit_mib * MIB) };
            let processes = processes_max(memory);
            let cache = process_cache_bytes(memory, processes);
            assert!(processes as u64 * (cache + (560 << 10)) <= limit_mib * MIB, "{limit_mib} MiB");
        }
        let memory = Memory { total_bytes: Some(1 << 30), limit_bytes: None };
        assert_eq!((processes_max(memory), process_cache_bytes(memory, 256)), (256, 4 * MIB));
    }

    #[test]
    fn connections_are_bounded_where_memory_is() {
        let most = |limit_bytes| connections_within(Memory { total_bytes: Some(64 << 30), limit_bytes });
        assert_eq!(most(None), None);
        assert_eq!((most(Some(12 * MIB)), most(Some(128 * MIB))), (Some(1152), Some(12288)));
        assert_eq!(most(Some(100)), Some(CONNECTIONS_LEAST));
    }

    #[test]
    fn what_is_made_for_a_while_has_what_the_cache_does_not_have() {
        let work = |limit_bytes| work_bytes(Memory { total_bytes: Some(8 << 30), limit_bytes });
        assert_eq!((work(Some(64 * MIB)), work(None)), (16 * MIB, 4 << 30));
        assert!(
            work(Some(64 * MIB)) + cache_bytes(Memory { total_bytes: None, limit_bytes: Some(64 * MIB) }) <= 48 * MIB
        );
    }

    #[test]
    fn the_default_is_within_its_bounds() {
        assert!((MIB..=512 * MIB).contains(&default_cache_bytes()));
    }
}
