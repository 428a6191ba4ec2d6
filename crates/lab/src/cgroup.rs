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

/// What a server may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of memory, page cache included.
    pub memory_bytes: Option<u64>,
    /// Reads a second from the device that holds the site.
    pub read_iops: Option<u32>,
}

/// A limit that cannot be had.
#[derive(Debug)]
pub struct NotPermitted {
    /// What was tried.
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

/// Groups with limits. Removed when the value goes; the processes in them have to have ended.
#[derive(Debug)]
pub struct Groups {
    directories: Vec<PathBuf>,
}

impl Groups {
    /// Groups with `limits`; reads are limited on the device of `site`.
    ///
    /// # Errors
    /// If a limit cannot be set here.
    pub fn new(limits: &Limits, site: &Path) -> Result<Groups, NotPermitted> {
        let mut groups = Groups { directories: Vec::new() };
        if limits == &Limits::default() {
            return Ok(groups);
        }
        if Path::new(ROOT).join("cgroup.controllers").exists() {
            groups.version_2(limits, site)
        } else {
            groups.version_1(limits, site)
        }?;
        Ok(groups)
    }

    /// The files into which a process writes its number to enter.
    pub fn entrances(&self) -> Vec<PathBuf> {
        self.directories.iter().map(|directory| directory.join("cgroup.procs")).collect()
    }

    /// blkio.throttle.read_iops_device and memory.limit_in_bytes (Documentation/admin-guide/cgroup-v1).
    fn version_1(&mut self, limits: &Limits, site: &Path) -> Result<(), NotPermitted> {
        if let Some(bytes) = limits.memory_bytes {
            let group = self.create(&Path::new(ROOT).join("memory"))?;
            set(&group.join("memory.limit_in_bytes"), &bytes.to_string())?;
        }
        if let Some(iops) = limits.read_iops {
            let group = self.create(&Path::new(ROOT).join("blkio"))?;
            set(&group.join("blkio.throttle.read_iops_device"), &format!("{} {iops}", device(site)?))?;
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
        if let Some(iops) = limits.read_iops {
            set(&group.join("io.max"), &format!("{} riops={iops}", device(site)?))?;
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
