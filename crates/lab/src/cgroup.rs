//! Limits on memory and disk for a server under test, by control groups of either version.
//!
//! Owns: groups of the laboratory's own, removed with the value. Guarantees: where the kernel or the permissions do not
//! allow a limit, that is an error with its reason, never a measurement without the limit.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use rustix::fs::{major, minor};

/// Where control groups are mounted.
const ROOT: &str = "/sys/fs/cgroup";

/// Limits of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of memory, page cache included.
    pub memory_bytes: Option<u64>,
    /// Reads a second from the device that holds the site.
    pub read_iops: Option<u32>,
}

/// Resources that the processes of a group have used, as far as its controllers tell; zero where they do not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// The most memory at any time, page cache included.
    pub memory_peak_bytes: u64,
    /// Memory now, page cache and what the kernel keeps for the processes included.
    pub total_bytes: u64,
    /// Memory of the processes now.
    pub own_bytes: u64,
    /// Page cache that counts as theirs now.
    pub page_cache_bytes: u64,
    /// Processes that the kernel killed for want of memory.
    pub oom_kills: u64,
    /// Reads from the disk.
    pub reads: u64,
}

/// A limit that cannot be had.
#[derive(Debug)]
pub struct NotPermitted {
    /// The attempt.
    pub what: String,
    /// Why it failed.
    pub error: io::Error,
}

impl fmt::Display for NotPermitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} (control groups need root or delegation)", self.what, self.error)
    }
}

impl std::error::Error for NotPermitted {}

impl From<NotPermitted> for io::Error {
    fn from(refused: NotPermitted) -> io::Error {
        io::Error::new(refused.error.kind(), refused)
    }
}

/// Groups with limits. Removed when the value goes; the processes in them have to have ended.
#[derive(Debug)]
pub struct Groups {
    directories: Vec<PathBuf>,
    reads: Option<Throttle>,
}

/// Where the limit of reads is set.
#[derive(Debug)]
struct Throttle {
    file: PathBuf,
    /// The text before the number, and the word for no limit.
    device: String,
    unlimited: &'static str,
}

impl Groups {
    /// None: no limit.
    pub fn none() -> Groups {
        Groups { directories: Vec::new(), reads: None }
    }

    /// Groups with `limits`; reads are limited on the device of `site`.
    ///
    /// # Errors
    /// If a limit cannot be set here.
    pub fn new(limits: &Limits, site: &Path) -> Result<Groups, NotPermitted> {
        let mut groups = Groups::none();
        if limits == &Limits::default() {
            return Ok(groups);
        }
        if Path::new(ROOT).join("cgroup.controllers").exists() {
            groups.version_2(limits, site)
        } else {
            groups.version_1(limits, site)
        }?;
        groups.limit_reads(limits.read_iops)?;
        Ok(groups)
    }

    /// Limits reads a second from now on, or lets them go. Nothing without groups that limit reads.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn limit_reads(&self, read_iops: Option<u32>) -> Result<(), NotPermitted> {
        let Some(throttle) = &self.reads else { return Ok(()) };
        let number = read_iops.map_or(throttle.unlimited.to_owned(), |iops| iops.to_string());
        set(&throttle.file, &format!("{}{number}", throttle.device))
    }

    /// The files into which a process writes its number to enter.
    pub fn entrances(&self) -> Vec<PathBuf> {
        self.directories.iter().map(|directory| directory.join("cgroup.procs")).collect()
    }

    /// Resources that the processes in these groups have used so far.
    pub fn usage(&self) -> Usage {
        let read = |file: &str| {
            self.directories.iter().filter_map(|directory| fs::read_to_string(directory.join(file)).ok()).next()
        };
        Usage::of(&read)
    }

    /// blkio.throttle.read_iops_device and memory.limit_in_bytes (Documentation/admin-guide/cgroup-v1).
    fn version_1(&mut self, limits: &Limits, site: &Path) -> Result<(), NotPermitted> {
        if let Some(bytes) = limits.memory_bytes {
            let group = self.create(&Path::new(ROOT).join("memory"))?;
            set(&group.join("memory.limit_in_bytes"), &bytes.to_string())?;
        }
        if limits.read_iops.is_some() {
            let group = self.create(&Path::new(ROOT).join("blkio"))?;
            let (file, device) = (group.join("blkio.throttle.read_iops_device"), format!("{} ", device(site)?));
            self.reads = Some(Throttle { file, device, unlimited: "0" });
        }
        Ok(())
    }

    /// memory.max and io.max (Documentation/admin-guide/cgroup-v2.rst).
    fn version_2(&mut self, limits: &Limits, site: &Path) -> Result<(), NotPermitted> {
        let root = Path::new(ROOT);
        set(&root.join("cgroup.subtree_control"), "+memory +io")?;
        let group = self.create(root)?;
        if let Some(bytes) = limits.memory_bytes {
            set(&group.join("memory.max"), &bytes.to_string())?;
        }
        if limits.read_iops.is_some() {
            let (file, device) = (group.join("io.max"), format!("{} riops=", device(site)?));
            self.reads = Some(Throttle { file, device, unlimited: "max" });
        }
        Ok(())
    }

    fn create(&mut self, parent: &Path) -> Result<PathBuf, NotPermitted> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let directory = parent.join(format!("lamna-lab-{}-{number}", std::process::id()));
        fs::create_dir(&directory).map_err(|error| NotPermitted { what: directory.display().to_string(), error })?;
        self.directories.push(directory.clone());
        Ok(directory)
    }
}

impl Usage {
    /// From the files of either version; `read` gives the text of one by its name, if there is such a file.
    fn of(read: &impl Fn(&str) -> Option<String>) -> Usage {
        let either = |names: [&str; 2]| names.into_iter().find_map(read).unwrap_or_default();
        let events = either(["memory.oom_control", "memory.events"]);
        let memory = either(["memory.stat", "memory.stat"]);
        let value = |text: &str, names: [&str; 2]| {
            let is_named = |line: &&str| line.split(' ').next().is_some_and(|name| names.contains(&name));
            text.lines().find(is_named).and_then(|line| line.split(' ').nth(1)?.parse().ok()).unwrap_or(0)
        };
        Usage {
            memory_peak_bytes: either(["memory.max_usage_in_bytes", "memory.peak"]).trim().parse().unwrap_or(0),
            total_bytes: either(["memory.usage_in_bytes", "memory.current"]).trim().parse().unwrap_or(0),
            own_bytes: value(&memory, ["rss", "anon"]),
            page_cache_bytes: value(&memory, ["cache", "file"]),
            oom_kills: value(&events, ["oom_kill", "oom_kill"]),
            reads: reads(&either(["blkio.throttle.io_serviced", "io.stat"])),
        }
    }
}

/// The reads in `DEVICE Read NUMBER` of version 1 and `DEVICE rbytes=.. wbytes=.. rios=NUMBER ..` of version 2, of all
/// devices.
fn reads(text: &str) -> u64 {
    let of_line = |line: &str| {
        let mut words = line.split_ascii_whitespace().skip_while(|word| *word != "Read" && !word.starts_with("rios="));
        let number = match words.next()? {
            "Read" => words.next()?,
            word => word.strip_prefix("rios=")?,
        };
        number.parse::<u64>().ok()
    };
    text.lines().filter_map(of_line).sum()
}

impl Drop for Groups {
    fn drop(&mut self) {
        for directory in &self.directories {
            // A group can be removed a moment after its last process has ended.
            for _ in 0..100 {
                if fs::remove_dir(directory).is_ok() || !directory.exists() {
                    break;
                }
                thread::sleep(Duration::from_millis(10));
            }
        }
    }
}

fn set(file: &Path, value: &str) -> Result<(), NotPermitted> {
    let what = || format!("{} to {}", value, file.display());
    fs::write(file, value).map_err(|error| NotPermitted { what: what(), error })
}

/// The disk that holds `path`, as `major:minor`; of a partition, the whole disk, which is what can be limited.
fn device(path: &Path) -> Result<String, NotPermitted> {
    let failed = |error| NotPermitted { what: format!("the disk of {}", path.display()), error };
    let number = fs::metadata(path).map_err(failed)?.dev();
    let name = format!("{}:{}", major(number), minor(number));
    let entry = PathBuf::from(format!("/sys/dev/block/{name}"));
    if !entry.exists() {
        return Err(failed(io::Error::new(io::ErrorKind::Unsupported, "it is not on a block device")));
    }
    if !entry.join("partition").exists() {
        return Ok(name);
    }
    let disk = fs::read_to_string(entry.join("../dev")).map_err(failed)?;
    Ok(disk.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_limits_there_are_no_groups() {
        let groups = Groups::new(&Limits::default(), Path::new("/")).expect("nothing is asked for");
        assert!(groups.entrances().is_empty());
    }

    fn usage(files: &[(&str, &str)]) -> Usage {
        Usage::of(&|name| files.iter().find(|(file, _)| *file == name).map(|(_, text)| text.to_string()))
    }

    #[test]
    fn both_versions_tell_what_was_used() {
        let first = usage(&[
            ("memory.max_usage_in_bytes", "9000\n"),
            ("memory.usage_in_bytes", "8500\n"),
            ("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"),
            ("memory.stat", "cache 4096\nrss 8192\nrss_huge 1\ntotal_rss 1\n"),
            ("blkio.throttle.io_serviced", "254:0 Read 7\n254:0 Write 3\n254:0 Total 10\n7:0 Read 1\nTotal 11\n"),
        ]);
        let second = usage(&[
            ("memory.peak", "9000\n"),
            ("memory.current", "8500\n"),
            ("memory.events", "low 0\nmax 5\noom 1\noom_kill 2\noom_group_kill 0\n"),
            ("memory.stat", "anon 8192\nfile 4096\nanon_thp 1\n"),
            ("io.stat", "254:0 rbytes=1 wbytes=2 rios=7 wios=3 dbytes=0 dios=0\n7:0 rbytes=1 wbytes=0 rios=1 wios=0\n"),
        ]);
        let expected = Usage {
            memory_peak_bytes: 9000,
            total_bytes: 8500,
            own_bytes: 8192,
            page_cache_bytes: 4096,
            oom_kills: 2,
            reads: 8,
        };
        assert_eq!((first, second), (expected, expected));
        assert_eq!(usage(&[]), Usage::default());
    }

    #[test]
    fn what_is_on_no_disk_cannot_be_limited() {
        let said = device(Path::new("/proc")).expect_err("proc is no disk").to_string();
        assert!(said.contains("not on a block device"), "{said}");
    }

    #[test]
    fn groups_are_removed_with_the_value_or_refused_with_a_reason() {
        match Groups::new(&Limits { memory_bytes: Some(1 << 30), read_iops: None }, Path::new("/")) {
            Ok(groups) => {
                let directories = groups.directories.clone();
                assert!(directories.iter().all(|directory| directory.exists()));
                drop(groups);
                assert!(directories.iter().all(|directory| !directory.exists()));
            }
            Err(error) => assert!(error.to_string().contains("control groups need root")),
        }
    }
}
