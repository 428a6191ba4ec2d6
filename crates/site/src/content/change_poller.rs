//! Live reload: the script inserted into pages, and the schedule of file-system scans.
//!
//! Owns: the script, and [`ChangePoller`], which has one client at a time scan for all. Guarantees: a state is told
//! when two scans agree. Scans nothing itself.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use lamna_filter::Step;
use lamna_sys::clock::Clock;

/// Where the script asks. Nothing else is answered there: hidden files are not served.
pub(super) const PATH: &[u8] = b"/.lamna/changes";

/// A page knows the first state that it is told, and loads itself again at any other. The browser asks again by itself
/// when the stream ends.
const SCRIPT: &str = "<script>(()=>{let known;new EventSource(\"/.lamna/changes\").onmessage=event=>{\
                      if(known&&known!==event.data)location.reload();known=event.data}})()</script>";

/// How long until the next look.
pub(super) const LOOK_MS: u32 = 300;
/// A look that takes long is made less often, so that it takes at most a tenth of the time.
const REST_PER_LOOK: u64 = 10;
/// The filter step that inserts the script into pages.
pub(super) fn step() -> Step {
    let parameters = [("where", "body"), ("html", SCRIPT)].map(|(name, value)| (name.to_owned(), value.to_owned()));
    Step { name: "insert".to_owned(), parameters: BTreeMap::from(parameters) }
}

/// The state that the files of a site are in, as far as it has been looked at.
#[derive(Debug, Default)]
pub struct ChangePoller {
    /// When the next look is due, in the server's milliseconds.
    due_ms: AtomicU64,
    /// The state that the last scan found; 0 before the first.
    seen: AtomicU64,
    /// The state that two consecutive scans agreed on, or the first one.
    settled: AtomicU64,
}

impl ChangePoller {
    /// The number of the state, or 0 while another client runs the first scan.
    pub(super) fn state(&self, clock: Clock, look: impl FnOnce() -> u64) -> u64 {
        let (now_ms, due_ms) = (clock.now().ms(), self.due_ms.load(Relaxed));
        let later_ms = now_ms + u64::from(LOOK_MS);
        let is_ours = now_ms >= due_ms && self.due_ms.compare_exchange(due_ms, later_ms, Relaxed, Relaxed).is_ok();
        if is_ours {
            let found = look().max(1);
            let took_ms = clock.now().ms().saturating_sub(now_ms);
            self.due_ms.store(later_ms.max(now_ms + took_ms * (1 + REST_PER_LOOK)), Relaxed);
            let before = self.seen.swap(found, Relaxed);
            if before == found || before == 0 {
                self.settled.store(found, Relaxed);
            }
        }
        self.settled.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_told_when_two_looks_agree() {
        let (change_poller, clock) = (ChangePoller::default(), Clock::start());
        let look = |found: u64| {
            change_poller.due_ms.store(0, Relaxed);
            change_poller.state(clock, || found)
        };
        let told: Vec<u64> = [7, 8, 9, 9, 7, 9].into_iter().map(look).collect();
        assert_eq!(told, [7, 7, 7, 9, 9, 9]);
        // A request in between scans nothing.
        change_poller.due_ms.store(u64::MAX, Relaxed);
        assert_eq!(change_poller.state(clock, || unreachable!()), 9);
    }
}
