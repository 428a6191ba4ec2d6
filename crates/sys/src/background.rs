//! Work that computes for long, beside threads that serve.
//!
//! Owns: what the kernel's scheduler is told of the threads that do it (sched(7)). Guarantees: they need no privilege,
//! and get a part of every processor, however busy it is: about a thirtieth of what a serving thread gets there. Where
//! the kernel does not do what it is told, the work is done as any other.
#![allow(unsafe_code)]

use std::thread;

/// The priority (setpriority(2)): a serving thread counts thirty times as much.
const NICE: i32 = 15;
/// After so long on a processor the thread leaves it to one that has woken up: the least that the kernel takes (Linux
/// 6.12). Without it that one would wait until the usual slice is over, which is some milliseconds.
const SLICE_NS: u64 = 100_000;

/// From now on this thread works in the background, and cannot do otherwise any more.
pub fn enter() {
    let attributes = libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_policy: libc::SCHED_BATCH as u32,
        sched_flags: 0,
        sched_nice: NICE,
        sched_priority: 0,
        sched_runtime: SLICE_NS,
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: 0 is the calling thread, and the pointer is that of a live value of the size that it says, which the
    // kernel only reads.
    let told = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    if told != 0 {
        // A kernel that does not know the slice, or a policy that forbids the call. If this fails, too, it goes on as
        // it is.
        let _ = rustix::process::setpriority_process(None, NICE);
    }
}

/// Does `work` in the background, and waits for it. Where there is no room for another thread, this one does it.
pub fn run<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    let mut work = Some(work);
    let mut take = || work.take().expect("it is done once");
    let done = thread::scope(|scope| {
        let in_background = || {
            enter();
            take()()
        };
        let thread = thread::Builder::new().name("background".to_owned()).spawn_scoped(scope, in_background);
        thread.ok().map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    done.unwrap_or_else(|| take()())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_done_in_the_background_and_who_waits_stays_where_it_is() {
        let priority = || rustix::process::getpriority_process(None).unwrap();
        let before = priority();
        assert_eq!(run(priority), before.max(NICE));
        assert_eq!(priority(), before);
        let failed = std::panic::catch_unwind(|| run(|| std::panic::resume_unwind(Box::new(7))));
        assert_eq!(failed.unwrap_err().downcast_ref(), Some(&7));
    }
}
