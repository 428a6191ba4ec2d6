//! Resource usage of a process, and whether a step of a thread has waited for the disk (getrusage(2)).
#![allow(unsafe_code)]

use std::mem::MaybeUninit;

/// Context switches of this process, voluntary and not, those of threads that have ended included; 0 if the kernel does
/// not say.
pub fn context_switches() -> u64 {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the kernel writes a `rusage` to where there is room for one.
    let result = unsafe { libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) };
    if result != 0 {
        return 0;
    }
    // SAFETY: it was zeroed, of which every field is valid, and has been written.
    let usage = unsafe { usage.assume_init() };
    u64::try_from(usage.ru_nvcsw + usage.ru_nivcsw).unwrap_or(0)
}

/// Counts since the thread began.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// Page faults that took the disk, and blocks that it was asked for.
    disk: i64,
    /// Times that the thread gave the processor up by itself.
    waits: i64,
}

impl Usage {
    /// The usage of the calling thread, now.
    pub fn now() -> Usage {
        // SAFETY: a plain structure of the C library, for which all zeros are valid.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: the pointer is to a live value of the type that the call fills in. With these arguments it cannot
        // fail; if it did, zeros are the answer.
        unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
        Usage { disk: usage.ru_majflt + usage.ru_inblock, waits: usage.ru_nvcsw }
    }

    /// Whether the thread has waited for the disk since `before`: it was asked for something, and the thread slept.
    /// Reading ahead without waiting is no wait.
    pub fn has_waited_since(&self, before: Usage) -> bool {
        self.disk > before.disk && self.waits > before.waits
    }
}

#[cfg(test)]
mod tests {
    use super::Usage;

    #[test]
    fn waiting_switches_contexts() {
        let before = super::context_switches();
        std::thread::sleep(std::time::Duration::from_millis(1));
        assert!(super::context_switches() > before);
    }

    #[test]
    fn what_is_in_memory_does_not_wait() {
        let file = tempfile::tempfile().unwrap();
        rustix::io::pwrite(&file, &[7; 4096], 0).unwrap();
        let before = Usage::now();
        rustix::io::pread(&file, &mut [0; 4096][..], 0).unwrap();
        assert!(!Usage::now().has_waited_since(before));
    }
}
