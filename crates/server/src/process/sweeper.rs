//! Looking after leftovers of clients: partial files that no client goes on with.
//!
//! Owns: [`Sweeper`], which has them deleted when their time has come, in a thread of its own that ends with that:
//! looking may wait for the disk.

use std::time::{Duration, Instant};

use lamna_engine::worker::shared::Shared;
use lamna_site::content::upload::partial::sweep;

/// The sweeper, which has old partial files deleted from time to time, beginning when the server starts.
#[derive(Debug, Default)]
pub(super) struct Sweeper {
    swept: Option<Instant>,
}

/// How often.
const INTERVAL: Duration = Duration::from_secs(600);

impl Sweeper {
    /// Has them deleted if it is time. Of several processes with the same roots the first does it.
    pub(super) fn look(&mut self, shared: &Shared) {
        if shared.first_score != 0 || self.swept.is_some_and(|swept| swept.elapsed() < INTERVAL) {
            return;
        }
        self.swept = Some(Instant::now());
        let (sites, clock, confinement) = (shared.sites.clone(), shared.clock, shared.confinement.clone());
        let sweep = move || {
            if confinement.workers.enter().is_ok() {
                sweep(&sites, clock);
            }
        };
        // If there is no thread for it now, there will be one the next time.
        let _ = std::thread::Builder::new().name("sweeper".to_owned()).spawn(sweep);
    }
}
