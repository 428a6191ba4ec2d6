//! Reading files and finding out whether reading would wait for the disk.
//!
//! Owns: the strategies for data: `preadv2(RWF_NOWAIT)`, whose miss starts the reading, and so is preceded by
//! `cachestat`, lest the disk's queue be filled in the order in which things are looked for; `cachestat`; a
//! page-by-page test for files that we may read but do not own; and plain blocking reads. `mincore` is not among them:
//! for a file that the caller neither owns nor may write it reports every page as resident.

use std::io::IoSliceMut;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering::Relaxed;

use lamna_sys::cachestat;
use lamna_sys::metrics::step_timer;
use lamna_sys::metrics::step_timer::Step;
use rustix::io::{Errno, ReadWriteFlags};

use crate::{Blocked, Counters, KernelFeatures, Wait};

/// Bytes of a page.
pub const PAGE_BYTES: u64 = 4096;

/// Fills `buffer` from `offset` on. Fewer bytes than asked for mean the end of the file.
///
/// # Errors
/// [`Blocked::Disk`] with [`Wait::No`] if not all of it is in the page cache, or if this file system cannot tell. If
/// some of it is there, or whether any is can be asked by the file's owner only, the rest is on its way then.
pub fn read(
    file: BorrowedFd<'_>,
    buffer: &mut [u8],
    offset: u64,
    wait: Wait,
    abilities: &KernelFeatures,
) -> Result<usize, Blocked> {
    let _step = step_timer::step(Step::Read);
    match wait {
        Wait::Yes => touch(buffer),
        Wait::No if is_absent(file, offset, buffer.len() as u64, abilities) => {
            Counters::count(&abilities.counters.read_blocked);
            return Err(Blocked::Disk);
        }
        Wait::No => {}
    }
    let mut filled = 0;
    while filled < buffer.len() {
        let bytes = match wait {
            Wait::Yes => {
                rustix::io::retry_on_intr(|| rustix::io::pread(file, &mut buffer[filled..], offset + filled as u64))?
            }
            Wait::No => read_nowait(file, &mut buffer[filled..], offset + filled as u64, abilities)?,
        };
        if bytes == 0 {
            break;
        }
        filled += bytes;
    }
    Ok(filled)
}

/// As [`read`], for reads that no request has asked for: they are not counted. None if it cannot be read, or not
/// without waiting.
pub fn read_unobserved(
    file: BorrowedFd<'_>,
    buffer: &mut [u8],
    offset: u64,
    wait: Wait,
    abilities: &KernelFeatures,
) -> Option<usize> {
    if wait == Wait::Yes {
        return rustix::io::retry_on_intr(|| rustix::io::pread(file, &mut *buffer, offset)).ok();
    }
    if !abilities.nowait.load(Relaxed) || is_absent(file, offset, buffer.len() as u64, abilities) {
        return None;
    }
    let slices = &mut [IoSliceMut::new(buffer)];
    rustix::io::retry_on_intr(|| rustix::io::preadv2(file, slices, offset, ReadWriteFlags::NOWAIT)).ok()
}

/// Whether nothing of `length` bytes from `offset` on is in the page cache, as far as that can be said without reading.
fn is_absent(file: BorrowedFd<'_>, offset: u64, length: u64, abilities: &KernelFeatures) -> bool {
    if length == 0 || !abilities.cachestat.load(Relaxed) {
        return false;
    }
    let cached = cachestat::pages_cached(file, offset, length);
    if cached == Err(Errno::NOSYS) {
        abilities.cachestat.store(false, Relaxed);
    }
    cached == Ok(0)
}

/// Has the kernel read no further ahead in `file` than a reader asks for, whichever process has it open.
pub fn forgo_read_ahead(file: BorrowedFd<'_>) {
    // Advice only: what does not take it reads as it does.
    let _ = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::Random);
}

/// Writes to each page of `buffer`, so that all of it is in memory before the kernel writes to it. A page fault of ours
/// holds the lock of its mapping (Linux 6.4), one of the kernel's for us that of the address space; and where the
/// kernel has to make room under a limit first, it holds it for as long as 100 ms, and every change of the address
/// space waits for that.
fn touch(buffer: &mut [u8]) {
    for page in buffer.chunks_mut(PAGE_BYTES as usize) {
        // The last byte as well, as the buffer may begin within a page.
        for at in [0, page.len() - 1] {
            // Opaque to the compiler, which would know otherwise that fresh memory is zero already.
            *std::hint::black_box(&mut page[at]) = 0;
        }
    }
}

fn read_nowait(
    file: BorrowedFd<'_>,
    buffer: &mut [u8],
    offset: u64,
    abilities: &KernelFeatures,
) -> Result<usize, Blocked> {
    try_read(file, buffer, offset, abilities).map_err(|untold| match untold {
        Untold::NotThere | Untold::NoTest => Blocked::Disk,
        Untold::Failed(errno) => Blocked::Failed(errno),
    })
}

/// Why nothing could be read without waiting.
enum Untold {
    /// It is not in the page cache.
    NotThere,
    /// Neither this kernel nor this file system says.
    NoTest,
    Failed(Errno),
}

fn try_read(file: BorrowedFd<'_>, buffer: &mut [u8], offset: u64, abilities: &KernelFeatures) -> Result<usize, Untold> {
    if !abilities.nowait.load(Relaxed) {
        return Err(Untold::NoTest);
    }
    let slices = &mut [IoSliceMut::new(buffer)];
    match rustix::io::retry_on_intr(|| rustix::io::preadv2(file, slices, offset, ReadWriteFlags::NOWAIT)) {
        Ok(bytes) => {
            Counters::count(&abilities.counters.read_cached);
            Ok(bytes)
        }
        Err(Errno::NOSYS) => {
            abilities.nowait.store(false, Relaxed);
            Err(Untold::NoTest)
        }
        Err(Errno::AGAIN) => {
            Counters::count(&abilities.counters.read_blocked);
            Err(Untold::NotThere)
        }
        // OPNOTSUPP: this file system has no test. PERM: a seccomp filter.
        Err(Errno::OPNOTSUPP | Errno::PERM) => {
            Counters::count(&abilities.counters.read_blocked);
            Err(Untold::NoTest)
        }
        Err(errno) => Err(Untold::Failed(errno)),
    }
}

/// The result of testing a range of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resident {
    /// All of it is in the page cache.
    Yes,
    /// Some of it is not.
    No,
    /// No test works here.
    Unknown,
}

/// How careful a test is with pages that are in the page cache and still being read from the disk, for which a sender
/// waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Care {
    /// There will be none.
    Counted,
    /// There may be some that are read together.
    Sampled,
    /// There may be single ones.
    Each,
}

/// Whether all of `length` bytes from `offset` on (within the file) are in the page cache. A miss starts nothing.
pub fn test_resident(
    file: BorrowedFd<'_>,
    offset: u64,
    length: u64,
    care: Care,
    abilities: &KernelFeatures,
) -> Resident {
    let _step = step_timer::step(Step::Read);
    let first_page = offset / PAGE_BYTES;
    let pages = (offset + length).div_ceil(PAGE_BYTES) - first_page;
    if abilities.cachestat.load(Relaxed) {
        match cachestat::pages_cached(file, first_page * PAGE_BYTES, pages * PAGE_BYTES) {
            Ok(cached) => {
                Counters::count(&abilities.counters.tested_by_cachestat);
                if cached < pages {
                    return Resident::No;
                }
                let step = match care {
                    Care::Counted => return Resident::Yes,
                    Care::Sampled => READ_PAGES,
                    Care::Each => 1,
                };
                return test_pages(file, offset, first_page..first_page + pages, step, abilities);
            }
            Err(Errno::NOSYS) => abilities.cachestat.store(false, Relaxed),
            // Not our file: test it page by page.
            Err(_) => {}
        }
    }
    Counters::count(&abilities.counters.tested_by_page);
    test_pages(file, offset, first_page..first_page + pages, 1, abilities)
}

/// Pages that are read at once: `sendfile(2)` and helpers ask for 64 KiB, and readahead for more. Pages count as cached
/// from the moment on at which their reading begins; of those that are read together one stands for the others. Smaller
/// reads may be overlooked, which costs a wait. A test of every 16 KiB cost a tenth of a large download, so that is for
/// times in which the kernel takes back single pages.
const READ_PAGES: usize = 16;

/// Reads a byte of every so many of `pages`, and of the last, without waiting. Nothing before `offset` is read.
fn test_pages(
    file: BorrowedFd<'_>,
    offset: u64,
    pages: std::ops::Range<u64>,
    step: usize,
    abilities: &KernelFeatures,
) -> Resident {
    let last = pages.end - 1;
    let mut byte = [0];
    for page in pages.step_by(step).chain([last]) {
        match try_read(file, &mut byte, (page * PAGE_BYTES).max(offset), abilities) {
            Ok(_) => {}
            Err(Untold::NotThere) => return Resident::No,
            Err(Untold::NoTest | Untold::Failed(_)) => return Resident::Unknown,
        }
    }
    Resident::Yes
}

/// Brings `length` bytes from `offset` on into the page cache, waiting for the disk. `scratch` is read into.
///
/// # Errors
/// The error of `read(2)`.
pub fn page_in(file: BorrowedFd<'_>, offset: u64, length: u64, scratch: &mut [u8]) -> Result<(), Errno> {
    let _step = step_timer::step(Step::Read);
    touch(scratch);
    let end = offset + length;
    let mut at = offset;
    while at < end {
        let wanted = scratch.len().min(usize::try_from(end - at).unwrap_or(usize::MAX));
        let bytes = rustix::io::retry_on_intr(|| rustix::io::pread(file, &mut scratch[..wanted], at))?;
        if bytes == 0 {
            break;
        }
        at += bytes as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn what_was_just_written_is_resident_by_every_test() {
        let file = tempfile::tempfile().unwrap();
        rustix::io::pwrite(&file, &[7; 20_000], 0).unwrap();
        for without in [vec![], vec!["cachestat".to_owned()]] {
            let abilities = KernelFeatures::without(&without).unwrap();
            let resident = test_resident(file.as_fd(), 100, 19_000, Care::Sampled, &abilities);
            // A temporary directory on a file system without RWF_NOWAIT cannot tell, and must say so.
            let supported = abilities.counters.read_blocked.load(Relaxed) == 0;
            assert_eq!(resident, if supported { Resident::Yes } else { Resident::Unknown }, "{without:?}");
        }
    }

    #[test]
    fn the_end_of_the_file_is_not_taken_for_a_miss() {
        let file = tempfile::tempfile().unwrap();
        rustix::io::pwrite(&file, b"abc", 0).unwrap();
        let mut buffer = [0; 10];
        assert_eq!(read(file.as_fd(), &mut buffer, 0, Wait::Yes, &KernelFeatures::default()), Ok(3));
    }

    #[test]
    fn without_nowait_every_read_counts_as_blocking() {
        let file = tempfile::tempfile().unwrap();
        let abilities = KernelFeatures::without(&["nowait".to_owned()]).unwrap();
        assert_eq!(read(file.as_fd(), &mut [0], 0, Wait::No, &abilities), Err(Blocked::Disk));
    }

    #[test]
    fn without_any_test_nothing_is_said_about_residency() {
        let file = tempfile::tempfile().unwrap();
        rustix::io::pwrite(&file, &[7; 4096], 0).unwrap();
        let abilities = KernelFeatures::without(&["nowait".to_owned(), "cachestat".to_owned()]).unwrap();
        assert_eq!(test_resident(file.as_fd(), 0, 4096, Care::Each, &abilities), Resident::Unknown);
    }
}
