//! Where the program's memory comes from, so that nobody waits for another's, and what was let go of is had again by whoever
//! needs it.
//!
//! Owns: [`Allocator`], which large blocks come from, and the settings of glibc's, which small ones come from. Guarantees:
//! taking and giving back a large block never changes the process's mappings; what is given back is the kernel's at once.
//! What a user has set by the variables of mallopt(3) stays; where the C library is another than glibc nothing is set.
//!
//! Three habits of glibc are in the way of a cache. It gives up to eight arenas a processor to threads that allocate at the same
//! time, each of which keeps what was freed in it; with thirty helpers that is all they ever had in flight. Once a large
//! block was freed, blocks up to its size no longer are mappings of their own, which go back to the kernel when they are
//! freed, but pieces of an arena. And where they are, `mmap(2)` and `munmap(2)` want the lock of the address space for themselves:
//! they wait until every page fault that holds it is over, those of other threads for which the kernel has to make room under
//! a limit first, and meanwhile glibc holds the lock of an arena, for which the next one waits. That was 100 ms.
//!
//! So large blocks are pages of one mapping that is made once, of address space only. A block that is taken is memory when it is
//! written to, and no longer when it is given back (`MADV_DONTNEED`): both need the lock of the address space at most
//! together with others, and since Linux 6.4 and 6.17 not even that.
#![allow(unsafe_code)]

mod runs;

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr::{NonNull, null_mut};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
use rustix::param::page_size;

use self::runs::Runs;

/// Blocks of at least this many bytes are large: of whole pages, so that a 16th is lost at most, and half of that usually.
pub const LARGE_BYTES_MIN: usize = 32 * 1024;

/// The program's allocator: large blocks from pages of one mapping, others, and all where there is no such mapping, from the
/// system's.
///
/// ```
/// use lamna_server::sys::allocator::Allocator;
///
/// #[global_allocator]
/// static ALLOCATOR: Allocator = Allocator;
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Allocator;

// SAFETY: a block comes from the region or from `System`, and goes back to where it came from, which its address tells. The
// region hands out addresses of its own mapping that nobody else has, aligned to pages, for as many pages as the layout
// needs. Nothing unwinds: the lock's poison is passed over.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match region_for(layout).and_then(|region| region.take(layout.size())) {
            Some(block) => block.as_ptr(),
            // SAFETY: the caller keeps the promises of `GlobalAlloc::alloc`, which are those of the same function here.
            None => unsafe { System.alloc(layout) },
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        match region_for(layout).and_then(|region| region.take(layout.size())) {
            // What nobody has taken is zero.
            Some(block) => block.as_ptr(),
            // SAFETY: as in `alloc`.
            None => unsafe { System.alloc_zeroed(layout) },
        }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        match region_for(layout).filter(|region| region.has(pointer)) {
            // SAFETY: the block was taken with this size, and is the caller's to give back.
            Some(region) => unsafe { region.give(pointer, layout.size()) },
            // SAFETY: the block is not the region's, so it came from `System`; for the rest as in `alloc`.
            None => unsafe { System.dealloc(pointer, layout) },
        }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let region = region_for(layout).filter(|region| region.has(pointer));
        // SAFETY: that `size` makes a layout with this alignment is the caller's promise.
        let wanted = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        match region {
            // A large block of the system's stays there: the kernel moves its pages without copying.
            None if is_large(layout) || !is_large(wanted) => {
                // SAFETY: the block is not the region's, so it came from `System`; for the rest as in `alloc`.
                unsafe { System.realloc(pointer, layout, size) }
            }
            // SAFETY: the block was taken with this size, and is the caller's.
            Some(region) if is_large(wanted) && unsafe { region.resize(pointer, layout.size(), size) } => pointer,
            // SAFETY: `pointer` is a block of `layout`, as the caller promises.
            _ => unsafe { self.move_to(wanted, pointer, layout) },
        }
    }
}

impl Allocator {
    /// Has the content of a block in another one. Returns null, and lets the block be, if there is no memory.
    ///
    /// # Safety
    /// As of [`GlobalAlloc::realloc`].
    unsafe fn move_to(&self, wanted: Layout, pointer: *mut u8, layout: Layout) -> *mut u8 {
        // SAFETY: the size of neither is zero, as the caller promises.
        let moved = unsafe { self.alloc(wanted) };
        if !moved.is_null() {
            // SAFETY: two blocks that are in use at the same time do not overlap, and each is at least that long. The old one
            // is no longer the caller's.
            unsafe {
                moved.copy_from_nonoverlapping(pointer, layout.size().min(wanted.size()));
                self.dealloc(pointer, layout);
            }
        }
        moved
    }
}

fn is_large(layout: Layout) -> bool {
    layout.size() >= LARGE_BYTES_MIN && layout.align() <= PAGE_BYTES_MIN
}

/// Where blocks like this come from, unless there is no room.
fn region_for(layout: Layout) -> Option<&'static Region> {
    is_large(layout).then(Region::of_process).flatten()
}

/// The pages that large blocks are made of.
#[derive(Debug)]
struct Region {
    base: NonNull<u8>,
    page_bytes: usize,
    runs: Mutex<Runs>,
}

/// Address space of the region: what is not in use costs nothing.
#[cfg(target_pointer_width = "64")]
const REGION_BYTES: usize = 256 << 30;
/// Likewise, where there is little.
#[cfg(not(target_pointer_width = "64"))]
const REGION_BYTES: usize = 256 << 20;
/// The smallest page that a kernel has.
const PAGE_BYTES_MIN: usize = 4096;

// SAFETY: it is never read or written through the address but for pages that are no block's; what is known of them is behind
// a lock.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// That of this process, which is made when it is first needed. Nothing if the kernel refuses as much address space. Of a
    /// process that is forked it is a copy, as all memory.
    fn of_process() -> Option<&'static Region> {
        static REGION: OnceLock<Option<Region>> = OnceLock::new();
        REGION.get_or_init(Region::new).as_ref()
    }

    fn new() -> Option<Region> {
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory that is in use.
        let base = unsafe { mmap_anonymous(null_mut(), REGION_BYTES, access, flags) }.ok()?;
        // SAFETY: advice on a mapping that nobody uses yet. A huge page would be memory that no block asked for. A kernel that
        // knows none refuses.
        let _ = unsafe { madvise(base, REGION_BYTES, Advice::LinuxNoHugepage) };
        Some(Region { base: NonNull::new(base.cast())?, page_bytes: page_size(), runs: Mutex::new(Runs::new()) })
    }

    /// A block of zeros of at least `bytes` bytes, if there is room.
    fn take(&self, bytes: usize) -> Option<NonNull<u8>> {
        let first = self.runs().take(self.pages(bytes)?, self.bound())?;
        // SAFETY: the run lies within the mapping.
        Some(unsafe { self.base.add(first as usize * self.page_bytes) })
    }

    /// Takes back a block.
    ///
    /// # Safety
    /// It was taken with this size, and nobody uses it from now on.
    unsafe fn give(&self, pointer: *mut u8, bytes: usize) {
        let Some(pages) = self.pages(bytes) else { return };
        // SAFETY: as the caller promises, these pages are nobody's.
        unsafe { self.empty(pointer, pages) };
        self.runs().give(self.page_of(pointer), pages);
    }

    /// Makes a block longer or shorter where it is. False, and nothing is done, if there is no room.
    ///
    /// # Safety
    /// It was taken with this size, and is the caller's.
    unsafe fn resize(&self, pointer: *mut u8, bytes: usize, wanted: usize) -> bool {
        let (Some(has), Some(needs)) = (self.pages(bytes), self.pages(wanted)) else { return false };
        let first = self.page_of(pointer);
        if needs < has {
            // SAFETY: pages of the block, whose end the caller gives up.
            unsafe { self.empty(pointer.add(needs as usize * self.page_bytes), has - needs) };
            self.runs().give(first + needs, has - needs);
        }
        needs <= has || self.runs().take_at(first + has, needs - has, self.bound())
    }

    /// Has `pages` pages zero again, and the memory the kernel's.
    ///
    /// # Safety
    /// They are the region's, and nobody uses them.
    unsafe fn empty(&self, pointer: *mut u8, pages: u32) {
        let bytes = pages as usize * self.page_bytes;
        // SAFETY: nobody uses these pages, as the caller promises.
        if unsafe { madvise(pointer.cast(), bytes, Advice::LinuxDontNeed) }.is_err() {
            // Memory that is locked stays: whoever takes it next finds zeros as well.
            // SAFETY: as above, and they are mapped and writable.
            unsafe { pointer.write_bytes(0, bytes) };
        }
    }

    fn has(&self, pointer: *mut u8) -> bool {
        (pointer as usize).checked_sub(self.base.as_ptr() as usize).is_some_and(|at| at < REGION_BYTES)
    }

    /// The page that begins at `pointer`, which is the region's.
    fn page_of(&self, pointer: *mut u8) -> u32 {
        ((pointer as usize - self.base.as_ptr() as usize) / self.page_bytes) as u32
    }

    fn pages(&self, bytes: usize) -> Option<u32> {
        u32::try_from(bytes.div_ceil(self.page_bytes)).ok()
    }

    /// How many pages there are.
    fn bound(&self) -> u32 {
        (REGION_BYTES / self.page_bytes) as u32
    }

    fn runs(&self) -> MutexGuard<'_, Runs> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The most mappings that large blocks may be where they have to come from glibc: half of what Linux lets a process have
/// (`vm.max_map_count`), as threads need some, too.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const MAPPINGS_MAX: libc::c_int = 32_000;

/// Sets glibc's allocator. To be called before the process has threads.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub fn set() {
    let arenas = std::thread::available_parallelism().map_or(1, |processors| processors.get());
    let settings = [
        ("MALLOC_ARENA_MAX", libc::M_ARENA_MAX, arenas as libc::c_int),
        ("MALLOC_MMAP_THRESHOLD_", libc::M_MMAP_THRESHOLD, LARGE_BYTES_MIN as libc::c_int),
        ("MALLOC_MMAP_MAX_", libc::M_MMAP_MAX, MAPPINGS_MAX),
    ];
    for (variable, parameter, value) in settings {
        if std::env::var_os(variable).is_none() {
            // SAFETY: it only changes numbers that the allocator reads under its own locks. That it does not know one, which
            // it says by its result, does no harm.
            unsafe { libc::mallopt(parameter, value) };
        }
    }
}

/// Nothing that is known could be set.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn set() {}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(bytes: usize) -> Layout {
        Layout::from_size_align(bytes, 8).unwrap()
    }

    /// The bytes of a block.
    ///
    /// # Safety
    /// It is as long as that, is the caller's, and has been written to or was zero from the beginning.
    unsafe fn bytes<'a>(block: *mut u8, length: usize) -> &'a mut [u8] {
        // SAFETY: as the caller promises.
        unsafe { std::slice::from_raw_parts_mut(block, length) }
    }

    fn pages_in_memory(block: *mut u8, length: usize) -> usize {
        let mut found = vec![0; length.div_ceil(page_size())];
        // SAFETY: mincore(2) reads nothing of the block, and writes a byte for each page of it.
        assert_eq!(unsafe { libc::mincore(block.cast(), length, found.as_mut_ptr()) }, 0);
        found.iter().filter(|page| **page & 1 == 1).count()
    }

    #[test]
    fn what_is_given_back_is_no_longer_in_memory_and_zero_for_who_takes_it_next() {
        let region = Region::new().unwrap();
        let length = 20 * region.page_bytes;
        let block = region.take(length).unwrap().as_ptr();
        // SAFETY: the region has given the block to this test alone.
        unsafe { bytes(block, length) }.fill(7);
        assert_eq!(pages_in_memory(block, length), 20);
        // SAFETY: it was taken with this size, and is not used again as that block.
        unsafe { region.give(block, length) };
        assert_eq!(pages_in_memory(block, length), 0);
        assert_eq!(region.take(length).unwrap().as_ptr(), block);
        // SAFETY: as above.
        assert_eq!(unsafe { bytes(block, length) }, vec![0; length]);
    }

    #[test]
    fn a_block_keeps_its_bytes_and_knows_where_it_came_from_whatever_size_it_is_given() {
        let sizes = [100, LARGE_BYTES_MIN - 1, LARGE_BYTES_MIN, 5_000_000, 90_000, 300_000, 40, 64 * 1024, 8];
        let mut length = 8;
        // SAFETY: the block is this test's, and each layout is the one that it was last given.
        unsafe {
            let mut block = Allocator.alloc(layout(length));
            bytes(block, 8).copy_from_slice(b"contents");
            for size in sizes {
                block = Allocator.realloc(block, layout(length), size);
                assert_eq!(bytes(block, 8), b"contents", "{size}");
                assert_eq!(region_for(layout(size)).is_some_and(|region| region.has(block)), size >= LARGE_BYTES_MIN);
                // Somebody else's block behind it, so that it cannot always grow where it is.
                let other = Allocator.alloc_zeroed(layout(LARGE_BYTES_MIN));
                bytes(other, LARGE_BYTES_MIN).fill(1);
                bytes(block, size)[8..].fill(2);
                assert!(bytes(other, LARGE_BYTES_MIN).iter().all(|byte| *byte == 1));
                Allocator.dealloc(other, layout(LARGE_BYTES_MIN));
                length = size;
            }
            Allocator.dealloc(block, layout(length));
        }
    }

    #[test]
    fn what_is_cut_off_is_given_back() {
        let region = Region::new().unwrap();
        let page = region.page_bytes;
        let block = region.take(10 * page).unwrap().as_ptr();
        // SAFETY: the block is this test's, and of this size at each step.
        unsafe {
            bytes(block, 10 * page).fill(7);
            assert!(region.resize(block, 10 * page, 4 * page));
            assert_eq!(pages_in_memory(block, 10 * page), 4);
            let behind = region.take(3 * page).unwrap().as_ptr();
            assert_eq!(behind, block.add(4 * page));
            assert!(!region.resize(block, 4 * page, 5 * page));
        }
    }

    #[test]
    fn blocks_that_pages_are_not_aligned_enough_for_are_the_systems() {
        let wide = Layout::from_size_align(1 << 20, 1 << 16).unwrap();
        // SAFETY: the block is this test's.
        unsafe {
            let block = Allocator.alloc(wide);
            assert_eq!(block.align_offset(1 << 16), 0);
            Allocator.dealloc(block, wide);
        }
    }
}
