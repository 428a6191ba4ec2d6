//! The lines of a kernel trace, and what they say about where time on a processor went.
//!
//! Owns: the arithmetic. A thread is on a processor from the moment that it is switched to until it is switched away;
//! within that time it is in a system call or, between them, in its own code. Lines that are not understood are
//! skipped. What a thread did before its first line is not known and not counted.
//!
//! ```text
//!   unknown --first line--> Own code <--enter, exit--> In a call
//!                              |                           |
//!                              +--away--> (no time) --back-+
//! ```

use std::collections::HashMap;

use super::category::{Category, Descriptors};

/// An event of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// It enters the kernel, with the number of the call and its first three arguments.
    Enter {
        /// Which call.
        call: i64,
        /// Its arguments.
        arguments: [i64; 3],
    },
    /// It leaves the kernel.
    Exit {
        /// The call's return value.
        result: i64,
    },
    /// It loses its processor to another thread.
    Switch {
        /// The other one.
        next: u32,
    },
}

/// A line: which thread, when in microseconds, what.
pub type Line = (u32, f64, Event);

/// Reads a line of tracefs's `trace` file (Documentation/trace/ftrace.rst):
/// `NAME-THREAD [CPU] FLAGS SECONDS: EVENT: DETAILS`.
pub fn parse(line: &str) -> Option<Line> {
    let (head, rest) =
        line.split_once(": sys_enter: NR ").map(|(head, rest)| (head, Details::Enter(rest))).or_else(|| {
            let exit = line.split_once(": sys_exit: NR ").map(|(head, rest)| (head, Details::Exit(rest)));
            exit.or_else(|| line.split_once(": sched_switch: ").map(|(head, rest)| (head, Details::Switch(rest))))
        })?;
    let (task, marks) = head.rsplit_once('[')?;
    let thread = task.trim_end().rsplit_once('-')?.1.parse().ok()?;
    let at_us = marks.split_ascii_whitespace().last()?.parse::<f64>().ok()? * 1e6;
    Some((thread, at_us, rest.event()?))
}

enum Details<'a> {
    Enter(&'a str),
    Exit(&'a str),
    Switch(&'a str),
}

impl Details<'_> {
    fn event(self) -> Option<Event> {
        match self {
            Details::Enter(text) => {
                let (call, arguments) = text.split_once(" (")?;
                // Arguments are words of the machine: small negative numbers look like large ones.
                let mut words = arguments.trim_end_matches(')').split(", ").map(|word| u64::from_str_radix(word, 16));
                let mut next = || words.next().and_then(Result::ok).map_or(0, |word| word as i64);
                Some(Event::Enter { call: call.parse().ok()?, arguments: [next(), next(), next()] })
            }
            Details::Exit(text) => Some(Event::Exit { result: text.rsplit_once("= ")?.1.trim().parse().ok()? }),
            Details::Switch(text) => {
                let next = text.rsplit_once("next_pid=")?.1.split(' ').next()?;
                Some(Event::Switch { next: next.parse().ok()? })
            }
        }
    }
}

/// The breakdown.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shares {
    /// Time on a processor by category, in microseconds.
    pub time_us: HashMap<Category, f64>,
    /// Stretches of time that were added up, by category: each was lengthened by the trace itself.
    pub stretches: HashMap<Category, u64>,
    /// System calls.
    pub calls: u64,
    /// Times that a thread lost its processor.
    pub switches: u64,
}

impl Shares {
    /// With all stretches shortened alike, so that their sum is `total_us`, the time without a trace; none is shortened
    /// below zero.
    pub fn corrected(&self, total_us: f64) -> HashMap<Category, f64> {
        let traced_us: f64 = self.time_us.values().sum();
        let stretches: u64 = self.stretches.values().sum();
        let each_us = ((traced_us - total_us) / stretches.max(1) as f64).max(0.0);
        let shorter = |(category, us): (&Category, &f64)| {
            let by_us = each_us * self.stretches.get(category).copied().unwrap_or(0) as f64;
            (*category, (us - by_us).max(0.0))
        };
        let shorter: HashMap<Category, f64> = self.time_us.iter().map(shorter).collect();
        let factor = total_us / shorter.values().sum::<f64>().max(f64::MIN_POSITIVE);
        shorter.into_iter().map(|(category, us)| (category, us * factor)).collect()
    }
}

/// Follows the threads of one server.
#[derive(Debug, Default)]
pub struct Follower {
    threads: HashMap<u32, Thread>,
    /// The descriptors of each process.
    descriptors: HashMap<u32, Descriptors>,
    /// The process of threads that appear: the server's, if it has one only.
    only_process: Option<u32>,
    shares: Shares,
}

#[derive(Debug, Default)]
struct Thread {
    process: u32,
    /// Since when it has been on a processor and in the present category.
    since_us: Option<f64>,
    call: Option<(i64, [i64; 3])>,
}

impl Follower {
    /// For a server of these processes, each with its threads and descriptors.
    pub fn new(processes: Vec<(u32, Vec<u32>, Descriptors)>) -> Follower {
        let mut follower = Follower::default();
        if let [(process, ..)] = &processes[..] {
            follower.only_process = Some(*process);
        }
        for (process, threads, descriptors) in processes {
            follower.descriptors.insert(process, descriptors);
            let thread = |id| (id, Thread { process, ..Thread::default() });
            follower.threads.extend(threads.into_iter().map(thread));
        }
        follower
    }

    /// Takes a line.
    pub fn handle(&mut self, (thread, at_us, event): Line) {
        match event {
            Event::Enter { call, arguments } => {
                let thread = self.present(thread, at_us);
                thread.call = Some((call, arguments));
                self.shares.calls += 1;
            }
            Event::Exit { result } => self.exit(thread, at_us, result),
            Event::Switch { next } => {
                if self.threads.contains_key(&thread) {
                    self.present(thread, at_us).since_us = None;
                    self.shares.switches += 1;
                }
                if let Some(next) = self.threads.get_mut(&next) {
                    next.since_us = Some(at_us);
                }
            }
        }
    }

    /// The sum of all events.
    pub fn shares(self) -> Shares {
        self.shares
    }

    fn exit(&mut self, id: u32, at_us: f64, result: i64) {
        let thread = self.present(id, at_us);
        let process = thread.process;
        if let Some((call, arguments)) = thread.call.take() {
            self.descriptors.entry(process).or_default().handle_result(call, arguments[0], result);
        }
    }

    /// The thread, its time until now added up.
    fn present(&mut self, id: u32, at_us: f64) -> &mut Thread {
        let process = self.only_process.unwrap_or(id);
        let thread = self.threads.entry(id).or_insert_with(|| Thread { process, ..Thread::default() });
        if let Some(since_us) = thread.since_us.replace(at_us) {
            let category = match thread.call {
                None => Category::Http,
                Some((call, arguments)) => {
                    let descriptors = self.descriptors.entry(thread.process).or_default();
                    // sendfile(2) and splice(2) name the destination first and third.
                    descriptors.category(call, arguments[0], arguments[2])
                }
            };
            *self.shares.time_us.entry(category).or_default() += at_us - since_us;
            *self.shares.stretches.entry(category).or_default() += 1;
        }
        thread
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::whitebox::category::Kind;

    const ENTER: &str = "        worker-0-4566    [000] ..... 23303.667327: sys_enter: NR 45 (c, 7f56dc00e3c0, ffffffffffffff9c, 0, 0, 0)";
    const SWITCH: &str = "  lamna [x]-4576    [001] d..2. 23303.667286: sched_switch: prev_comm=lamna [x] prev_pid=4576 \
                          prev_prio=120 prev_state=S ==> next_comm=worker-0 next_pid=4566 next_prio=120";

    #[test]
    fn lines_of_all_three_kinds_are_read() {
        let (thread, at_us, event) = parse(ENTER).expect("it is of the format");
        assert_eq!((thread, event), (4566, Event::Enter { call: 45, arguments: [12, 0x7f56_dc00_e3c0, -100] }));
        assert!((at_us - 23_303_667_327.0).abs() < 0.5);
        let exit = "        worker-0-4566    [000] ..... 23303.667331: sys_exit: NR 45 = -11";
        assert_eq!(parse(exit).map(|(_, _, event)| event), Some(Event::Exit { result: -11 }));
        assert_eq!(parse(SWITCH).map(|(thread, _, event)| (thread, event)), Some((4576, Event::Switch { next: 4566 })));
        assert_eq!(parse("# tracer: nop"), None);
    }

    proptest! {
        #[test]
        fn any_line_is_read_or_skipped(line in ".{0,120}", at in 0usize..120, with in ".{0,3}") {
            _ = parse(&line);
            for known in [ENTER, SWITCH] {
                let at = at.min(known.len());
                _ = parse(&format!("{}{with}{}", &known[..at], &known[at..]));
                _ = parse(&known[..at]);
            }
        }
    }

    fn follower() -> Follower {
        let mut descriptors = Descriptors::default();
        descriptors.insert(5, Kind::Socket);
        Follower::new(vec![(1, vec![1], descriptors)])
    }

    fn enter(call: i64, first: i64) -> Event {
        Event::Enter { call, arguments: [first, 0, 0] }
    }

    #[test]
    fn time_without_a_processor_is_nobodys() {
        let mut follower = follower();
        let events = [
            (10.0, enter(libc::SYS_epoll_pwait, 3)),
            (12.0, Event::Switch { next: 99 }),
            (1000.0, Event::Exit { result: 1 }),
        ];
        for (at_us, event) in events.into_iter().take(2) {
            follower.handle((1, at_us, event));
        }
        follower.handle((99, 998.0, Event::Switch { next: 1 }));
        follower.handle((1, events[2].0, events[2].1));
        follower.handle((1, 1003.0, enter(libc::SYS_read, 5)));
        follower.handle((1, 1007.0, Event::Exit { result: 40 }));
        let shares = follower.shares();
        let expected = [(Category::Switching, 4.0), (Category::Http, 3.0), (Category::Reading, 4.0)].into();
        assert_eq!(shares.time_us, expected);
        assert_eq!((shares.calls, shares.switches), (2, 1));
    }

    #[test]
    fn threads_that_appear_share_the_descriptors_of_the_only_process() {
        let mut follower = follower();
        for (at_us, event) in
            [(1.0, Event::Exit { result: 0 }), (2.0, enter(libc::SYS_write, 5)), (5.0, Event::Exit { result: 1 })]
        {
            follower.handle((77, at_us, event));
        }
        assert_eq!(follower.shares().time_us[&Category::Writing], 3.0);
    }

    #[test]
    fn the_trace_itself_is_taken_off_evenly() {
        let shares = Shares {
            time_us: [(Category::Http, 10.0), (Category::Writing, 30.0)].into(),
            stretches: [(Category::Http, 10), (Category::Writing, 10)].into(),
            ..Shares::default()
        };
        let corrected = shares.corrected(30.0);
        assert!((corrected[&Category::Http] - 5.0).abs() < 1e-9 && (corrected[&Category::Writing] - 25.0).abs() < 1e-9);
        assert!((shares.corrected(5.0).values().sum::<f64>() - 5.0).abs() < 1e-9);
    }
}
