//! How the C library's allocator is set, so that memory that was let go of is had again by whoever needs it.
//!
//! Owns: the settings and their reasons. Guarantees: none that correctness rests on; what a user has set by the variables of
//! mallopt(3) stays. Does nothing where the C library is another than glibc.
//!
//! Two habits of glibc make a cache take several times the bytes that it holds. It gives up to eight arenas a processor to
//! threads that allocate at the same time, each of which keeps what was freed in it; with thirty helpers that is all they ever
//! had in flight. And once a large block was freed, blocks up to its size no longer are mappings of their own, which go back to
//! the kernel when they are freed, but pieces of an arena.
#![allow(unsafe_code)]

/// Blocks of at least this many bytes are mappings of their own: a 16th is lost to whole pages at most, and half of that
/// usually.
pub const MAPPED_BYTES_MIN: usize = 32 * 1024;

/// The most such mappings: half of what Linux lets a process have (`vm.max_map_count`), as threads need some, too.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const MAPPINGS_MAX: libc::c_int = 32_000;

/// Sets the allocator. To be called before the process has threads.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub fn set() {
    let arenas = std::thread::available_parallelism().map_or(1, |processors| processors.get());
    let settings = [
        ("MALLOC_ARENA_MAX", libc::M_ARENA_MAX, arenas as libc::c_int),
        ("MALLOC_MMAP_THRESHOLD_", libc::M_MMAP_THRESHOLD, MAPPED_BYTES_MIN as libc::c_int),
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
