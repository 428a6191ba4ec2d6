//! Upstream requests without a client: refreshing stale responses, and completing fetches whose first client has left.
//!
//! Owns: one thread, as long as there is something to do. Guarantees: no program is carried out twice; no more than
//! [`PROGRAMS_MAX`] at once, others are dropped; who hands one over waits for nothing. What the programs give is thrown
//! away: they keep it themselves. A server that ends does not wait for them.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lamna_io::waker::Waker;
use lamna_proto::exchange::program::{Input, Next, Program, StepResult};
use lamna_proto::time::Instant;
use lamna_sys::clock::Clock;
use lamna_sys::contain::contain;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Carries programs out.
#[derive(Debug, Default)]
pub struct Background {
    queue: Arc<Mutex<Queue>>,
}

#[derive(Debug, Default)]
struct Queue {
    new: Vec<Box<dyn Program>>,
    /// Programs that the thread has.
    running: usize,
    /// Wakes the thread, if there is one.
    waker: Option<Arc<Waker>>,
}

/// Programs at once.
pub const PROGRAMS_MAX: usize = 256;

/// A program, and what its next step waits for.
struct Job {
    program: Box<dyn Program>,
    next: Next,
    is_due: bool,
}

impl Background {
    /// Carries `program` out, whose client is not there. Whatever its next step waits for, it is carried out at once.
    pub fn carry_out(&self, program: Box<dyn Program>, clock: Clock) {
        // What is refused is dropped without the lock: programs may come here when they are dropped.
        let refused = self.submit(program, clock);
        drop(refused);
    }

    /// Whether no program is carried out, and no thread is there.
    pub fn is_idle(&self) -> bool {
        lock(&self.queue).waker.is_none()
    }

    fn submit(&self, program: Box<dyn Program>, clock: Clock) -> Option<Box<dyn Program>> {
        let mut queue = lock(&self.queue);
        if queue.running + queue.new.len() >= PROGRAMS_MAX {
            return Some(program);
        }
        if let Some(waker) = &queue.waker {
            waker.wake();
            queue.new.push(program);
            return None;
        }
        let Ok(waker) = Waker::new() else { return Some(program) };
        let waker = Arc::new(waker);
        let (of_thread, its_waker) = (self.queue.clone(), waker.clone());
        let thread = std::thread::Builder::new().name("background".to_owned());
        if thread.spawn(move || work(&of_thread, &its_waker, clock)).is_err() {
            return Some(program);
        }
        queue.waker = Some(waker);
        queue.new.push(program);
        None
    }
}

/// The life of the thread.
fn work(queue: &Mutex<Queue>, waker: &Waker, clock: Clock) {
    let mut jobs: Vec<Job> = Vec::new();
    loop {
        {
            let mut queue = lock(queue);
            let new = std::mem::take(&mut queue.new);
            jobs.extend(new.into_iter().map(|program| Job { program, next: Next::default(), is_due: true }));
            queue.running = jobs.len();
            if jobs.is_empty() {
                queue.waker = None;
                return;
            }
        }
        jobs.retain_mut(|job| !job.is_due || job.go_on(clock.now()));
        lock(queue).running = jobs.len();
        if !jobs.is_empty() {
            wait(&mut jobs, waker, clock);
        }
    }
}

impl Job {
    /// Carries steps out until it has to wait. Whether it goes on.
    fn go_on(&mut self, now: Instant) -> bool {
        self.is_due = false;
        loop {
            let input = Input { content: &[], is_last: true, room: true, now };
            let program = &mut self.program;
            let step_result = contain("Its answer is not kept.", || program.run(input)).unwrap_or(StepResult::Failed);
            match step_result {
                StepResult::Continue => {}
                StepResult::Waits(next) if next.room => {}
                StepResult::Waits(next) => {
                    self.next = next;
                    return true;
                }
                StepResult::Gives(part, _) if part.end.is_some() => return false,
                StepResult::Gives(..) => {}
                StepResult::Again
                | StepResult::Found(_)
                | StepResult::Redirected(_)
                | StepResult::Answer(_)
                | StepResult::Failed => return false,
            }
        }
    }

    /// The events that it waits for at its socket.
    fn awaits(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, self.next.readable);
        flags.set(PollFlags::OUT, self.next.writable);
        self.program.socket().filter(|_| !flags.is_empty()).map(|socket| (socket, flags))
    }
}

/// Waits until one of them can go on, or there is a new one.
fn wait(jobs: &mut [Job], waker: &Waker, clock: Clock) {
    let now = clock.now();
    let first = jobs.iter().filter_map(|job| job.next.until).min();
    let timeout = first.map(|until| {
        let ms = until.since(now) + u64::from(until > now);
        Timespec { tv_sec: (ms / 1000) as i64, tv_nsec: (ms % 1000 * 1_000_000) as i64 } // Not too large: deadlines are.
    });
    let mut places = Vec::new();
    {
        let mut waits = vec![PollFd::from_borrowed_fd(waker.descriptor().as_fd(), PollFlags::IN)];
        for (place, job) in jobs.iter().enumerate() {
            if let Some((socket, flags)) = job.awaits() {
                waits.push(PollFd::from_borrowed_fd(socket, flags));
                places.push((place, waits.len() - 1));
            }
        }
        // Whatever went wrong, looking at everything is right.
        let has_failed = poll(&mut waits, timeout.as_ref()).is_err();
        if !waits[0].revents().is_empty() {
            waker.reset();
        }
        places.retain(|(_, wait)| has_failed || !waits[*wait].revents().is_empty());
    }
    places.iter().for_each(|(place, _)| jobs[*place].is_due = true);
    let now = clock.now();
    jobs.iter_mut().filter(|job| job.next.until.is_some_and(|until| until <= now)).for_each(|job| job.is_due = true);
}

/// Locks; the value behind a poisoned lock is whole, as it is after every statement.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lamna_proto::exchange::program::Holds;
    use std::sync::mpsc::{Receiver, Sender, channel};

    /// Waits to be woken, then for a moment, and says when it is dropped.
    #[derive(Debug)]
    struct Waits {
        waker: Arc<Waker>,
        steps: u32,
        until: Option<Instant>,
        dropped: Sender<u32>,
    }

    impl Program for Waits {
        fn content_bytes_max(&self) -> u64 {
            0
        }

        fn holds(&self) -> Holds {
            Holds::default()
        }

        fn run(&mut self, input: Input<'_>) -> StepResult {
            self.steps += 1;
            match self.until {
                Some(until) if input.now >= until => StepResult::Failed,
                Some(_) => StepResult::Waits(Next { until: self.until, ..Next::default() }),
                None if self.steps == 1 => StepResult::Waits(Next { readable: true, ..Next::default() }),
                None => {
                    self.until = Some(input.now.after_ms(5));
                    StepResult::Continue
                }
            }
        }

        fn socket(&self) -> Option<BorrowedFd<'_>> {
            Some(self.waker.descriptor().as_fd())
        }
    }

    impl Drop for Waits {
        fn drop(&mut self) {
            _ = self.dropped.send(self.steps);
        }
    }

    fn waits() -> (Box<Waits>, Arc<Waker>, Receiver<u32>) {
        let (dropped, is_dropped) = channel();
        let waker = Arc::new(Waker::new().unwrap());
        (Box::new(Waits { waker: waker.clone(), steps: 0, until: None, dropped }), waker, is_dropped)
    }

    #[test]
    fn programs_go_on_when_what_they_wait_for_is_there_and_the_thread_ends_with_the_last() {
        let background = Background::default();
        let clock = Clock::start();
        for _ in 0..3 {
            let (one, waker, one_is_dropped) = waits();
            let (other, other_bell, other_is_dropped) = waits();
            background.carry_out(one, clock);
            background.carry_out(other, clock);
            other_bell.wake();
            assert!(other_is_dropped.recv().unwrap() >= 3);
            waker.wake();
            assert!(one_is_dropped.recv().unwrap() >= 3);
        }
        while lock(&background.queue).waker.is_some() {
            std::thread::yield_now();
        }
    }

    #[test]
    fn what_is_too_much_is_dropped() {
        let background = Background::default();
        let clock = Clock::start();
        let all: Vec<_> = (0..PROGRAMS_MAX).map(|_| waits()).collect();
        let mut wakers = Vec::new();
        for (program, waker, is_dropped) in all {
            background.carry_out(program, clock);
            wakers.push((waker, is_dropped));
        }
        let (program, _, is_dropped) = waits();
        background.carry_out(program, clock);
        assert_eq!(is_dropped.recv().unwrap(), 0);
        for (waker, is_dropped) in wakers {
            waker.wake();
            is_dropped.recv().unwrap();
        }
    }
}
