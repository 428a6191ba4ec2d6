//! What a process has used so far (getrusage(2)).
#![allow(unsafe_code)]

use std::mem::MaybeUninit;

/// Context switches of this process, voluntary and not, those of threads that have ended included; 0 if the kernel does not
/// say.
pub(crate) fn context_switches() -> u64 {
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

#[cfg(test)]
mod tests {
    #[test]
    fn waiting_switches_contexts() {
        let before = super::context_switches();
        std::thread::sleep(std::time::Duration::from_millis(1));
        assert!(super::context_switches() > before);
    }
}
