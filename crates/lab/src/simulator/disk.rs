//! The disk beneath a folder, measured by reading files that are not in memory.
//!
//! Owns: making files and putting them out of memory, one by one (`posix_fadvise`); the machine's page cache as a whole
//! is never touched. Guarantees: reads only what it has written. What a host beneath a virtual disk keeps in memory
//! cannot be put out, and counts as the disk's speed.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use lamna_sim::parameters::DiskParameters;
use rustix::fs::{Advice, fadvise};

use super::micro::middle;

/// Writes files of the given sizes to `folder`, named by their numbers, with content that does not compress. A folder
/// that has the last of them is believed to have all.
///
/// # Errors
/// The error of writing.
pub fn make_files(folder: &Path, sizes: &[u64]) -> io::Result<()> {
    let last = || fs::metadata(folder.join((sizes.len().checked_sub(1)?).to_string())).ok();
    if last().is_some_and(|last| Some(&last.len()) == sizes.last()) {
        return Ok(());
    }
    fs::create_dir_all(folder)?;
    let noise: Vec<u8> = (0..65_536_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    for (number, &size) in sizes.iter().enumerate() {
        let mut file = File::create(folder.join(number.to_string()))?;
        let mut left = size as usize;
        while left > 0 {
            let part = left.min(noise.len());
            file.write_all(&noise[..part])?;
            left -= part;
        }
    }
    Ok(())
}

/// Puts every file of `folder` out of memory. What has not been written to disk yet is written first.
///
/// # Errors
/// The error of opening.
pub fn forget_files(folder: &Path) -> io::Result<()> {
    rustix::fs::syncfs(File::open(folder)?)?;
    for entry in fs::read_dir(folder)? {
        fadvise(File::open(entry?.path())?, 0, None, Advice::DontNeed)?;
    }
    Ok(())
}

/// Puts every file of `folder` into memory, as far as that goes.
///
/// # Errors
/// The error of reading.
pub fn fetch_files(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        io::copy(&mut File::open(entry?.path())?, &mut io::sink())?;
    }
    Ok(())
}

/// Puts one file out of memory.
///
/// # Errors
/// It cannot be written to disk.
pub fn forget(file: &File) -> io::Result<()> {
    rustix::fs::fdatasync(file)?;
    Ok(fadvise(file, 0, None, Advice::DontNeed)?)
}

/// Measures with files of its own in `folder`, which must not exist, and removes them.
///
/// # Errors
/// The error of reading or writing.
pub fn measure(folder: &Path) -> io::Result<DiskParameters> {
    let (small, large) = (vec![4_096; 512], vec![64 << 20; 1]);
    make_files(&folder.join("small"), &small)?;
    make_files(&folder.join("large"), &large)?;
    let result = measure_in(folder);
    fs::remove_dir_all(folder)?;
    result
}

/// The medians of several measurements, value by value.
///
/// # Panics
/// If there are none.
pub fn median(all: &[DiskParameters]) -> DiskParameters {
    let of = |value: fn(&DiskParameters) -> f64| middle(all.iter().map(value).collect());
    DiskParameters {
        latency_us: of(|disk| disk.latency_us),
        spread: of(|disk| disk.spread),
        bytes_per_s: of(|disk| disk.bytes_per_s),
        parallelism: of(|disk| disk.parallelism.into()) as u32,
        request_bytes: of(|disk| disk.request_bytes as f64) as u64,
        ..all[0]
    }
}

fn measure_in(folder: &Path) -> io::Result<DiskParameters> {
    let files: Vec<PathBuf> = (0..512).map(|number| folder.join("small").join(number.to_string())).collect();
    let mut latencies = cold_latencies_us(&files)?;
    latencies.sort_by(f64::total_cmp);
    let (low, latency_us, high) = (latencies[51], middle(latencies.clone()), latencies[460]);
    // Half the width of the uniform distribution with the same spread between the tenths at both ends.
    let spread = ((high - low) / 2.0 / 0.8 / latency_us).min(1.0);
    let alone = cold_reads_per_s(&files, 1)?;
    let together = cold_reads_per_s(&files, 32)?;
    let large = File::open(folder.join("large/0"))?;
    let rates: io::Result<Vec<f64>> = (0..3).map(|_| cold_bytes_per_s(&large, READ_BYTES_MOST)).collect();
    let bytes_per_s = middle(rates?);
    let before = requests_of_device(&large);
    cold_bytes_per_s(&large, READ_BYTES_LEAST)?;
    let requests = requests_of_device(&large).saturating_sub(before);
    let request_bytes = large.metadata()?.len().checked_div(requests).unwrap_or(0);
    let parallelism = (together / alone).round().clamp(1.0, 32.0) as u32;
    Ok(DiskParameters { latency_us, spread, bytes_per_s, parallelism, request_bytes, ..DiskParameters::default() })
}

/// Bytes of one call, for the disk's rate.
const READ_BYTES_MOST: usize = 1 << 20;
/// So little that the kernel reads ahead as it does for a file that is sent.
const READ_BYTES_LEAST: usize = 16 * 1024;

/// Reads that the device of `file` has completed, for all processes: the first field of its `stat` in sysfs. 0 if it
/// has none.
fn requests_of_device(file: &File) -> u64 {
    let Ok(device) = file.metadata().map(|metadata| metadata.dev()) else { return 0 };
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let stat = fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/stat")).unwrap_or_default();
    stat.split_whitespace().next().and_then(|field| field.parse().ok()).unwrap_or(0)
}

fn cold_latencies_us(files: &[PathBuf]) -> io::Result<Vec<f64>> {
    let mut latencies = Vec::new();
    for path in files {
        let file = File::open(path)?;
        forget(&file)?;
        let begun = Instant::now();
        file.read_at(&mut [0; 4_096], 0)?;
        latencies.push(begun.elapsed().as_secs_f64() * 1e6);
    }
    Ok(latencies)
}

fn cold_reads_per_s(files: &[PathBuf], threads: usize) -> io::Result<f64> {
    let open: Vec<File> = files.iter().map(File::open).collect::<io::Result<_>>()?;
    open.iter().try_for_each(forget)?;
    let next = AtomicUsize::new(0);
    let read_some = || {
        while let Some(file) = open.get(next.fetch_add(1, Ordering::Relaxed)) {
            // Counted as read either way: a failure shows in the latencies first.
            _ = file.read_at(&mut [0; 4_096], 0);
        }
    };
    let begun = Instant::now();
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(read_some);
        }
    });
    Ok(files.len() as f64 / begun.elapsed().as_secs_f64())
}

fn cold_bytes_per_s(file: &File, read_bytes: usize) -> io::Result<f64> {
    forget(file)?;
    let bytes = file.metadata()?.len();
    let mut buffer = vec![0; read_bytes];
    let begun = Instant::now();
    let mut at = 0;
    while at < bytes {
        at += file.read_at(&mut buffer, at)? as u64;
    }
    Ok(bytes as f64 / begun.elapsed().as_secs_f64())
}
