//! Global allocator: large blocks come from one reserved mapping, so allocation never takes the lock of the address
//! space exclusively, and freed memory is reusable by any thread.
//!
//! Owns: [`Allocator`], which large blocks come from, and the settings of glibc's, which small ones come from.
//! Guarantees: taking and giving back a large block never changes the process's mappings; what is given back is the
//! kernel's at once, but for an eighth of what is in use, and 4 MiB at most. Settings of the user by the variables of
//! mallopt(3) stay; where the C library is another than glibc nothing is set.
//!
//! Three habits of glibc are in the way of a cache. It gives up to eight arenas a processor to threads that allocate at
//! the same time, each of which keeps what was freed in it; with thirty helpers that is all they ever had in flight.
//! Once a large block was freed, blocks up to its size no longer are mappings of their own, which go back to the kernel
//! when they are freed, but pieces of an arena. And where they are, `mmap(2)` and `munmap(2)` want the lock of the
//! address space for themselves: they wait until every page fault that holds it is over, those of other threads for
//! which the kernel has to make room under a limit first, and meanwhile glibc holds the lock of an arena, for which the
//! next one waits. That was 100 ms.
//!
//! So large blocks are pages of one mapping that is made once, of address space only. A block that is taken is memory
//! when it is written to, and no longer when it is given back (`MADV_DONTNEED`): both need the lock of the address
//! space at most together with others, and since Linux 6.4 and 6.17 not even that. But memory that is new costs eight
//! times as much as writing to what was there before: a page fault, and a page that is made zero, for each 4 KiB; under
//! a limit the kernel looks for each page anew. So a little of what was given back stays memory for who takes next
//! (`reserve`): a cache that is full gives back as much as it takes.
#![allow(unsafe_code)]

mod reserve;
mod runs;

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr::{NonNull, null_mut};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
use rustix::param::page_size;

use self::reserve::Reserve;
use self::runs::Runs;

/// Blocks of at least this many bytes are large: of whole pages, so that a 16th is lost at most, and half of that
/// usually.
pub const LARGE_BYTES_MIN: usize = 32 * 1024;

/// The program's allocator: large blocks from pages of one mapping, others, and all where there is no such mapping,
/// from the system's.
///
/// ```
/// use lamna_sys::allocator::Allocator;
///
/// #[global_allocator]
/// static ALLOCATOR: Allocator = Allocator;
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Allocator;

// SAFETY: a block comes from the region or from `System`, and goes back to where it came from, which its address tells.
// The region hands out addresses of its own mapping exclusively, aligned to pages, for as many pages as the layout
// needs. Nothing unwinds: the lock's poison is passed over.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match region_for(layout).and_then(|region| region.take(layout.size())) {
            Some(block) => block.start.as_ptr(),
            // SAFETY: the caller keeps the promises of `GlobalAlloc::alloc`, which are those of the same function here.
            None => unsafe { System.alloc(layout) },
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        match region_for(layout).and_then(|region| region.take(layout.size())) {
            Some(block) => {
                if !block.is_zero {
                    // SAFETY: the block is at least that long, writable, and this caller's alone.
                    unsafe { block.start.as_ptr().write_bytes(0, layout.size()) };
                }
                block.start.as_ptr()
            }
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
            // SAFETY: two blocks that are in use at the same time do not overlap, and each is at least that long. The
            // old one is no longer the caller's.
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
    pages: Mutex<Pages>,
}

/// Whose the pages of a region are: of `used` ones a block's each, and for the rest the reserve's, or free and not in
/// memory.
#[derive(Debug)]
struct Pages {
    runs: Runs,
    reserve: Reserve,
    used: u32,
}

/// A block that was taken.
#[derive(Clone, Copy, Debug)]
struct Block {
    start: NonNull<u8>,
    /// Whether it has not been written to since it became memory.
    is_zero: bool,
}

/// Address space of the region: what is not in use costs nothing.
#[cfg(target_pointer_width = "64")]
const REGION_BYTES: usize = 256 << 30;
/// Likewise, where there is little.
#[cfg(not(target_pointer_width = "64"))]
const REGION_BYTES: usize = 256 << 20;
/// The smallest page that a kernel has.
const PAGE_BYTES_MIN: usize = 4096;
/// The share of the used memory that may stay as a reserve, as a divisor. Each of many small processes has a reserve of
/// its own.
const RESERVE_SHARE: u32 = 8;
/// And never more than this: a few files of those that are held in memory, and of the pieces in which longer ones are
/// read.
const RESERVE_BYTES_MAX: usize = 4 << 20;

// SAFETY: it is never read or written through the address but for pages that are no block's; what is known of them is
// behind a lock.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// That of this process, which is made when it is first needed. Nothing if the kernel refuses as much address
    /// space. Of a process that is forked it is a copy, as all memory.
    fn of_process() -> Option<&'static Region> {
        static REGION: OnceLock<Option<Region>> = OnceLock::new();
        REGION.get_or_init(Region::new).as_ref()
    }

    fn new() -> Option<Region> {
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory that is in use.
        let base = unsafe { mmap_anonymous(null_mut(), REGION_BYTES, access, flags) }.ok()?;
        // SAFETY: advice on a mapping that is not used yet. A huge page would be memory that no block asked for. A
        // kernel that knows none refuses.
        let _ = unsafe { madvise(base, REGION_BYTES, Advice::LinuxNoHugepage) };
        let pages = Mutex::new(Pages { runs: Runs::new(), reserve: Reserve::new(), used: 0 });
        Some(Region { base: NonNull::new(base.cast())?, page_bytes: page_size(), pages })
    }

    /// A block of at least `bytes` bytes, if there is room.
    fn take(&self, bytes: usize) -> Option<Block> {
        let count = self.page_count(bytes)?;
        let (first, is_zero) = {
            let mut pages = self.pages();
            let taken = match pages.reserve.take(count) {
                Some(first) => (first, false),
                None => (pages.runs.take(count, self.bound())?, true),
            };
            pages.used += count;
            taken
        };
        // SAFETY: the run lies within the mapping.
        Some(Block { start: unsafe { self.base.add(first as usize * self.page_bytes) }, is_zero })
    }

    /// Takes back a block.
    ///
    /// # Safety
    /// It was taken with this size, and is not used from now on.
    unsafe fn give(&self, pointer: *mut u8, bytes: usize) {
        let Some(count) = self.page_count(bytes) else { return };
        // SAFETY: as the caller promises.
        unsafe { self.give_pages(self.page_of(pointer), count) };
    }

    /// Takes back `count` pages of a block from `first` on: into the reserve, which gives what is too much for it to
    /// the kernel.
    ///
    /// # Safety
    /// They were taken, and are not used from now on.
    unsafe fn give_pages(&self, first: u32, count: u32) {
        let bound = {
            let mut pages = self.pages();
            pages.used -= count;
            pages.reserve.put(first, count);
            (pages.used / RESERVE_SHARE).min((RESERVE_BYTES_MAX / self.page_bytes) as u32)
        };
        loop {
            let excess = self.pages().reserve.take_excess(bound);
            let Some((first, count)) = excess else { return };
            // SAFETY: they were the reserve's, so they are not in use.
            unsafe { self.release(first, count) };
        }
    }

    /// Gives `count` pages from `first` on to the kernel; then they are free.
    ///
    /// # Safety
    /// They are the region's, and neither a block's nor the reserve's nor free.
    unsafe fn release(&self, first: u32, count: u32) {
        // SAFETY: within the mapping, as the caller promises.
        let start = unsafe { self.base.add(first as usize * self.page_bytes) };
        // SAFETY: they are not in use, as the caller promises.
        unsafe { self.empty(start.as_ptr(), count) };
        self.pages().runs.give(first, count);
    }

    /// Makes a block longer or shorter where it is. False, and nothing is done, if there is no room.
    ///
    /// # Safety
    /// It was taken with this size, and is the caller's.
    unsafe fn resize(&self, pointer: *mut u8, bytes: usize, wanted: usize) -> bool {
        let (Some(has), Some(needs)) = (self.page_count(bytes), self.page_count(wanted)) else { return false };
        let first = self.page_of(pointer);
        if needs < has {
            // SAFETY: pages of the block, whose end the caller gives up.
            unsafe { self.give_pages(first + needs, has - needs) };
        }
        needs <= has || self.pages().lengthen(first + has, needs - has, self.bound())
    }

    /// Has `pages` pages zero again, and the memory the kernel's.
    ///
    /// # Safety
    /// They are the region's, and not in use.
    unsafe fn empty(&self, pointer: *mut u8, pages: u32) {
        let bytes = pages as usize * self.page_bytes;
        // SAFETY: these pages are not in use, as the caller promises.
        if unsafe { madvise(pointer.cast(), bytes, Advice::LinuxDontNeed) }.is_err() {
            // Locked memory stays: the next taker finds zeros as well. SAFETY: as above, and they are mapped and
            // writable.
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

    fn page_count(&self, bytes: usize) -> Option<u32> {
        u32::try_from(bytes.div_ceil(self.page_bytes)).ok()
    }

    /// How many pages there are.
    fn bound(&self) -> u32 {
        (REGION_BYTES / self.page_bytes) as u32
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pages {
    /// Takes the `count` pages from `first` on for the block before them, if they are free. They are zero.
    fn lengthen(&mut self, first: u32, count: u32, bound: u32) -> bool {
        let is_taken = self.runs.take_at(first, count, bound);
        self.used += if is_taken { count } else { 0 };
        is_taken
    }
}

/// The most mappings that large blocks may be where they have to come from glibc: half of what Linux lets a process
/// have (`vm.max_map_count`), as threads need some, too.
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
            // SAFETY: it only changes numbers that the allocator reads under its own locks. That it does not know one,
            // which it says by its result, does no harm.
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
    use proptest::prelude::*;

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
        let block = region.take(length).unwrap().start.as_ptr();
        // SAFETY: the region has given the block to this test alone.
        unsafe { bytes(block, length) }.fill(7);
        assert_eq!(pages_in_memory(block, length), 20);
        // SAFETY: it was taken with this size, and is not used again as that block.
        unsafe { region.give(block, length) };
        assert_eq!(pages_in_memory(block, length), 0);
        let again = region.take(length).unwrap();
        assert_eq!((again.start.as_ptr(), again.is_zero), (block, true));
        // SAFETY: as above.
        assert_eq!(unsafe { bytes(block, length) }, vec![0; length]);
    }

    #[test]
    fn a_little_of_what_is_given_back_stays_memory_for_who_takes_next_and_is_zero_for_who_asks_for_that() {
        let region = Region::new().unwrap();
        let page = region.page_bytes;
        let [block, _, other] = [20, 1, 10].map(|count| region.take(count * page).unwrap().start.as_ptr());
        let rest = region.take((15 * RESERVE_SHARE as usize - 1) * page).unwrap().start.as_ptr();
        // SAFETY: the blocks are this test's, are given back as they were taken, and are not used afterwards.
        unsafe {
            [(block, 20), (other, 10)].into_iter().for_each(|(block, count)| bytes(block, count * page).fill(7));
            region.give(other, 10 * page);
            assert_eq!(pages_in_memory(other, 10 * page), 10);
            // More than an eighth of what is left: what came first goes first.
            region.give(block, 20 * page);
            assert_eq!((pages_in_memory(other, 10 * page), pages_in_memory(block, 20 * page)), (0, 15));
            let again = region.take(4 * page).unwrap();
            assert_eq!((again.start.as_ptr(), again.is_zero), (block, false));
            // Nothing is in use any more, and so nothing stays.
            region.give(again.start.as_ptr(), 4 * page);
            region.give(rest, (15 * RESERVE_SHARE as usize - 1) * page);
            assert_eq!(pages_in_memory(block, 20 * page), 0);
        }
    }

    #[test]
    fn zeros_are_zeros_whoever_had_the_memory_before() {
        const LENGTH: usize = 64 * 1024;
        // SAFETY: the blocks are this test's, and each is given back as it was taken.
        unsafe {
            let much = Allocator.alloc(layout(16 * 4 * LENGTH));
            for _ in 0..100 {
                let block = Allocator.alloc_zeroed(layout(LENGTH));
                assert!(bytes(block, LENGTH).iter().all(|byte| *byte == 0));
                bytes(block, LENGTH).fill(7);
                Allocator.dealloc(block, layout(LENGTH));
            }
            Allocator.dealloc(much, layout(16 * 4 * LENGTH));
        }
    }

    /// A block, what it was asked for with, and what it is full of.
    struct Held(*mut u8, usize, u8);

    proptest! {
        #[test]
        fn whatever_is_taken_and_given_back_nobody_writes_to_anothers_block(
            steps in prop::collection::vec((0..4_u8, any::<usize>(), 1..200_000_usize), 1..50),
        ) {
            let mut held = Vec::<Held>::new();
            // SAFETY: each block is as long as what it was last asked for with, and is given back once.
            unsafe {
                for (number, (step, which, length)) in (1..).zip(steps) {
                    match step {
                        0 | 1 => {
                            let zeros = step == 1;
                            let block = if zeros { Allocator.alloc_zeroed(layout(length)) } else { Allocator.alloc(layout(length)) };
                            prop_assert!(!zeros || bytes(block, length).iter().all(|byte| *byte == 0));
                            bytes(block, length).fill(number);
                            held.push(Held(block, length, number));
                        }
                        _ if held.is_empty() => {}
                        _ => {
                            let Held(block, old, number) = held.swap_remove(which % held.len());
                            prop_assert!(bytes(block, old).iter().all(|byte| *byte == number));
                            if step == 2 {
                                Allocator.dealloc(block, layout(old));
                            } else {
                                let block = Allocator.realloc(block, layout(old), length);
                                prop_assert!(bytes(block, old.min(length)).iter().all(|byte| *byte == number));
                                bytes(block, length).fill(number);
                                held.push(Held(block, length, number));
                            }
                        }
                    }
                }
                for Held(block, length, number) in held {
                    prop_assert!(bytes(block, length).iter().all(|byte| *byte == number));
                    Allocator.dealloc(block, layout(length));
                }
            }
        }
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
                // Another owner's block behind it, so that it cannot always grow where it is.
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
        let block = region.take(10 * page).unwrap().start.as_ptr();
        // SAFETY: the block is this test's, and of this size at each step.
        unsafe {
            bytes(block, 10 * page).fill(7);
            assert!(region.resize(block, 10 * page, 4 * page));
            assert_eq!(pages_in_memory(block, 10 * page), 4);
            let behind = region.take(3 * page).unwrap().start.as_ptr();
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
