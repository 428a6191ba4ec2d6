//! The trace of one request: an operator chooses a target, and the next request for it leaves an account of its steps.
//!
//! Owns: [`Trace`], in memory that all processes of a server share. Guarantees: while no trace is open a request costs
//! one load; one connection at most writes; a process that dies leaves a trace that can be started again. Does not know
//! requests: the worker that takes their steps does.
//!
//! ```text
//!   Idle --start--> Waiting --claim--> Claimed --end, too late--> Over      start: from any phase
//!                      '----- too late ----> Idle
//! ```

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, AtomicUsize};

use lamna_proto::time::Instant;

use crate::shared_memory::process_shared;

/// The longest target that can be chosen, in bytes.
pub const TARGET_BYTES_MAX: usize = 8 * TARGET_WORDS;
/// The longest account, in bytes. Lines that do not fit are left out.
pub const ACCOUNT_BYTES_MAX: usize = 8 * ACCOUNT_WORDS;

/// How long a request that has claimed a trace may take to be answered: as long as an authentication service, and more.
const ANSWER_MS: u64 = 60_000;
const TARGET_WORDS: usize = 256;
const ACCOUNT_WORDS: usize = 2048;

/// How far a trace has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Nothing was asked for.
    Idle,
    /// No request for the target has come yet.
    Waiting,
    /// One has come, and is not answered yet.
    Claimed,
    /// It was answered.
    Over,
}

impl Phase {
    const ALL: [Phase; 4] = [Phase::Idle, Phase::Waiting, Phase::Claimed, Phase::Over];

    fn of(word: u64) -> Phase {
        Phase::ALL[(word & 3) as usize]
    }
}

process_shared! {
    /// The trace of a server: there is one at a time.
    #[derive(Debug)]
    pub struct Trace {
        /// The number of the trace, times four, and its phase.
        state: AtomicU64,
        /// The connection that has claimed it.
        connection: AtomicU64,
        /// When it is too late to claim it, in milliseconds of the server's clock.
        until_ms: AtomicU64,
        target_bytes: AtomicUsize,
        target: [AtomicU64; TARGET_WORDS],
        account_bytes: AtomicUsize,
        account: [AtomicU64; ACCOUNT_WORDS],
    }
}

impl Trace {
    /// Waits for the next request for `target` until `until`. The trace before is forgotten. Returns its number; none
    /// if the target is too long.
    pub fn start(&self, target: &[u8], until: Instant) -> Option<u64> {
        if target.len() > TARGET_BYTES_MAX {
            return None;
        }
        let number = 1 + self.state.load(Acquire) / 4;
        self.state.store(number * 4 + Phase::Idle as u64, Release);
        self.connection.store(0, Relaxed);
        self.until_ms.store(until.ms(), Relaxed);
        self.account_bytes.store(0, Relaxed);
        self.account.iter().for_each(|word| word.store(0, Relaxed));
        self.target.iter().for_each(|word| word.store(0, Relaxed));
        put(&self.target, 0, target);
        self.target_bytes.store(target.len(), Relaxed);
        self.state.store(number * 4 + Phase::Waiting as u64, Release);
        Some(number)
    }

    /// Whether a request may have to be accounted for. A trace that has lasted too long is closed: nobody came, or the
    /// connection has gone.
    #[inline]
    pub fn is_open(&self, now: Instant) -> bool {
        let state = self.state.load(Relaxed);
        !matches!(Phase::of(state), Phase::Idle | Phase::Over) && self.is_open_still(state, now)
    }

    fn is_open_still(&self, state: u64, now: Instant) -> bool {
        let after = match Phase::of(state) {
            Phase::Idle | Phase::Over => return false,
            Phase::Waiting => Phase::Idle,
            Phase::Claimed => Phase::Over,
        };
        let is_late = now.ms() > self.until_ms.load(Relaxed);
        if is_late {
            // Somebody else may have been quicker: it is closed or another one then.
            let _ = self.state.compare_exchange(state, state / 4 * 4 + after as u64, AcqRel, Relaxed);
        }
        !is_late
    }

    /// The target that was chosen.
    pub fn target(&self) -> Vec<u8> {
        get(&self.target, self.target_bytes.load(Relaxed).min(TARGET_BYTES_MAX))
    }

    /// Whether `connection`, which has a request for the target, accounts for it: because it has claimed the trace, or
    /// does so now, which it `may` at the first step of a request.
    pub fn claim(&self, connection: u64, may: bool, now: Instant) -> bool {
        let state = self.state.load(Acquire);
        let to = |phase| state / 4 * 4 + phase as u64;
        match Phase::of(state) {
            Phase::Claimed => self.is_claimed_by(connection),
            Phase::Waiting if may => {
                let is_first = self.state.compare_exchange(state, to(Phase::Claimed), AcqRel, Relaxed).is_ok();
                if is_first {
                    self.until_ms.store(now.ms() + ANSWER_MS, Relaxed);
                    self.connection.store(connection, Release);
                }
                is_first
            }
            _ => false,
        }
    }

    /// Whether `connection` has claimed the trace, and its request is not answered yet.
    pub fn is_claimed_by(&self, connection: u64) -> bool {
        Phase::of(self.state.load(Acquire)) == Phase::Claimed && self.connection.load(Acquire) == connection
    }

    /// Adds a line to the account. For the connection that has claimed the trace; if that has been started again since,
    /// nothing is added.
    pub fn add(&self, line: &str) {
        if Phase::of(self.state.load(Acquire)) != Phase::Claimed {
            return;
        }
        let at = self.account_bytes.load(Relaxed);
        if at + line.len() < ACCOUNT_BYTES_MAX {
            put(&self.account, at, line.as_bytes());
            put(&self.account, at + line.len(), b"\n");
            self.account_bytes.store(at + line.len() + 1, Release);
        }
    }

    /// The request is answered.
    pub fn end(&self) {
        let state = self.state.load(Acquire);
        if Phase::of(state) == Phase::Claimed {
            // It may have been started again.
            let _ = self.state.compare_exchange(state, state / 4 * 4 + Phase::Over as u64, AcqRel, Relaxed);
        }
    }

    /// The number of the trace, its phase, and the account so far.
    pub fn read(&self) -> (u64, Phase, String) {
        let state = self.state.load(Acquire);
        let account = get(&self.account, self.account_bytes.load(Acquire).min(ACCOUNT_BYTES_MAX));
        (state / 4, Phase::of(state), String::from_utf8_lossy(&account).into_owned())
    }
}

/// Adds `bytes` to words that are zero there.
fn put(words: &[AtomicU64], at: usize, bytes: &[u8]) {
    for (place, byte) in (at..).zip(bytes) {
        words[place / 8].fetch_or(u64::from(*byte) << (8 * (place % 8)), Relaxed);
    }
}

fn get(words: &[AtomicU64], length: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.load(Relaxed).to_le_bytes()).collect();
    bytes.truncate(length);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared_memory::SharedMemory;

    fn at(ms: u64) -> Instant {
        Instant::from_ms(ms)
    }

    #[test]
    fn the_first_connection_that_asks_for_the_target_gives_the_account() {
        let trace = SharedMemory::<Trace>::zeroed().unwrap();
        assert!(!trace.is_open(at(1)));
        let number = trace.start(b"site.test\0/a", at(1000)).unwrap();
        assert!(trace.is_open(at(1)));
        assert_eq!(trace.target(), b"site.test\0/a");
        assert!(!trace.claim(7, false, at(1)), "it has begun before");
        assert!(trace.claim(7, true, at(1)));
        assert!(!trace.claim(8, true, at(1)), "another one has it");
        assert!(trace.claim(7, false, at(2000)), "it goes on");
        assert!(trace.is_claimed_by(7) && !trace.is_claimed_by(8));
        trace.add("site: site.test");
        trace.add("access: passes");
        trace.end();
        assert!(!trace.is_open(at(1)) && !trace.claim(7, true, at(1)) && !trace.is_claimed_by(7));
        assert_eq!(trace.read(), (number, Phase::Over, "site: site.test\naccess: passes\n".to_owned()));
    }

    #[test]
    fn a_trace_that_nobody_claims_in_time_is_closed() {
        let trace = SharedMemory::<Trace>::zeroed().unwrap();
        trace.start(b"\0/", at(1000)).unwrap();
        assert!(trace.is_open(at(1000)) && !trace.is_open(at(1001)));
        assert!(!trace.claim(7, true, at(1)), "it is closed, and costs no request anything");
    }

    #[test]
    fn a_trace_whose_connection_has_gone_is_closed() {
        let trace = SharedMemory::<Trace>::zeroed().unwrap();
        trace.start(b"\0/", at(1000)).unwrap();
        assert!(trace.claim(7, true, at(900)));
        assert!(trace.is_open(at(900 + ANSWER_MS)) && !trace.is_open(at(901 + ANSWER_MS)));
        assert_eq!(trace.read().1, Phase::Over);
    }

    #[test]
    fn what_is_too_long_is_refused_or_left_out() {
        let trace = SharedMemory::<Trace>::zeroed().unwrap();
        assert_eq!(trace.start(&[b'a'; TARGET_BYTES_MAX + 1], at(1)), None);
        let first = trace.start(b"\0/", at(1)).unwrap();
        trace.add("of the request before");
        assert_eq!(trace.read().2, "");
        assert!(trace.claim(1, true, at(1)));
        (0..ACCOUNT_BYTES_MAX).for_each(|_| trace.add("a line"));
        assert!((ACCOUNT_BYTES_MAX - 8..=ACCOUNT_BYTES_MAX).contains(&trace.read().2.len()));
        assert_eq!(trace.start(b"\0/", at(1)), Some(first + 1), "and what was before is gone");
        assert_eq!(trace.read(), (first + 1, Phase::Waiting, String::new()));
    }
}
