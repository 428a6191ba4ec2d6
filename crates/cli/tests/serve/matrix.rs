//! Crossing matrices: every way in meets every rule, and every way to a thing; every framing meets every gateway.
//!
//! Owns: what the matrices share. A verdict is computed by a model of some lines, and the server has to agree with it,
//! case by case. The gate runs them on one engine; `LAMNA_MATRIX=all` runs them on all. Does not look at what answers
//! say besides, which other tests do.

mod admission;
mod backends;
mod changes;
mod content;
mod early;
mod fields;
mod kept;
mod paths;
mod things;
mod transport;
mod ways;

use crate::engine::{
    AMPED, CO_AMPED, Engine, MP, PIPELINED, PROACTOR, SPED, THREAD_PER_REQUEST, THREAD_PER_SESSION, THREAD_POOL,
    assert_complete,
};

const ALL: [Engine; 9] =
    [AMPED, SPED, PROACTOR, PIPELINED, THREAD_POOL, THREAD_PER_REQUEST, THREAD_PER_SESSION, CO_AMPED, MP];

/// Whether every engine is to be tried.
fn is_whole() -> bool {
    std::env::var("LAMNA_MATRIX").is_ok_and(|value| value == "all")
}

/// The engines that the matrices are run on.
fn engines() -> &'static [Engine] {
    if is_whole() { &ALL } else { &ALL[..1] }
}

#[test]
fn the_matrices_have_every_engine() {
    assert_complete("matrices", &ALL);
}

/// The cases in which the server and the model differ.
#[derive(Default)]
struct Differences {
    cases: u64,
    found: Vec<String>,
}

impl Differences {
    /// Counts a case, and notes it if there is a `fault`.
    fn count(&mut self, case: impl FnOnce() -> String, fault: Option<String>) {
        self.cases += 1;
        if let Some(fault) = fault {
            self.found.push(format!("{}: {fault}", case()));
        }
    }

    /// # Panics
    /// There are some, or fewer cases than `cases_min` were tried.
    fn settle(self, name: &str, cases_min: u64) {
        const SHOWN: usize = 60;
        eprintln!("{name}: {} cases", self.cases);
        assert!(self.cases >= cases_min, "{name}: {} cases are fewer than {cases_min}", self.cases);
        let shown = self.found.iter().take(SHOWN).cloned().collect::<Vec<_>>().join("\n");
        let found = self.found.len();
        assert!(found == 0, "{name}: the server and the model differ in {found} of {} cases:\n{shown}", self.cases);
    }
}
