//! Breakdown of a server's time: its processor time without a trace, and its shares under one; or, of a server that
//! keeps its own account, that account.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use serde::Deserialize;

use super::prepare::Site;
use super::throughput::load;
use super::{Bench, Failure, Values, WARM_UP};
use crate::load::plan::Plan;
use crate::process::Server;
use crate::scenario::Point;
use crate::whitebox::category::Category;
use crate::whitebox::trace::Trace;

/// Requests on each connection under the trace, as in JAWS over ATM, section 2.4.
const REQUESTS: u64 = 1000;
const REQUESTS_QUICK: u64 = 300;

/// How long a server may take to balance its books, which it does twice a second.
const BALANCED: Duration = Duration::from_millis(700);

/// Where a server that keeps an account can be asked for it. Below the limit of 107 bytes for names of sockets.
pub(super) fn admin_path(directory: &Path) -> PathBuf {
    directory.join("admin")
}

/// One measurement.
pub(super) fn measure(
    bench: &Bench,
    name: &str,
    point: &Point,
    site: &Site,
    server: &Server,
) -> Result<(Values, Vec<String>), Failure> {
    load(bench, point, site, server, WARM_UP)?;
    let own = bench.scenario.variant_named(name).is_some_and(|variant| variant.account);
    let before = if own { Some(account(bench, name, server)?) } else { None };
    let cpu = server.cpu_time();
    let outcome = load(bench, point, site, server, Duration::from_secs_f64(bench.seconds))?;
    let answers = outcome.counts.answered.max(1) as f64;
    let cpu_us = server.cpu_time().saturating_sub(cpu).as_secs_f64() * 1e6 / answers;
    let mut values: Values = [
        ("cpu_us".to_owned(), cpu_us),
        ("requests_per_second".to_owned(), outcome.requests_per_second),
        ("errors".to_owned(), outcome.counts.failures() as f64),
    ]
    .into();
    let shares = match before {
        Some(before) => account(bench, name, server)?.since(&before).shares_us(),
        None => traced(bench, point, site, server, cpu_us, &mut values)?,
    };
    let divisor = if own { answers } else { 1.0 };
    let by_answer = |category: Category| shares.get(&category).copied().unwrap_or(0.0) / divisor;
    values.extend(Category::ALL.map(|category| (category.metric().to_owned(), by_answer(category))));
    Ok((values, outcome.doubts.iter().map(|doubt| doubt.title().to_owned()).collect()))
}

/// The shares by answer under a trace, made as long together as `cpu_us`.
fn traced(
    bench: &Bench,
    point: &Point,
    site: &Site,
    server: &Server,
    cpu_us: f64,
    values: &mut Values,
) -> Result<HashMap<Category, f64>, Failure> {
    let requests = if bench.options.quick { REQUESTS_QUICK } else { REQUESTS };
    let plan =
        Plan { requests: Some(requests * point.load.connections as u64), ..site.plan(point, server, bench.options) };
    let trace = Trace::begin(&server.processes()).map_err(|error| Failure::Server(error.to_string()))?;
    let outcome = bench.execute(&plan, |_| {})?;
    let shares = trace.end().map_err(|error| Failure::Server(error.to_string()))?;
    let answers = outcome.counts.answered.max(1) as f64;
    let traced_us = shares.time_us.values().sum::<f64>() / answers;
    values.insert("trace_factor".to_owned(), traced_us / cpu_us.max(f64::MIN_POSITIVE));
    values.insert("system_calls".to_owned(), shares.calls as f64 / answers);
    values.insert("context_switches".to_owned(), shares.switches as f64 / answers);
    let corrected = shares.corrected(cpu_us * answers);
    Ok(corrected.into_iter().map(|(category, us)| (category, us / answers)).collect())
}

/// The times in `lamna ctl --json stats`; the rest of it is of no interest here.
#[derive(Clone, Debug, Deserialize)]
struct Told {
    account: Account,
}

#[derive(Clone, Debug, Deserialize)]
struct Account {
    steps: Vec<Step>,
    processor_ns: u64,
}

#[derive(Clone, Debug, Deserialize)]
struct Step {
    step: String,
    ns: u64,
}

fn account(bench: &Bench, name: &str, server: &Server) -> Result<Account, Failure> {
    thread::sleep(BALANCED);
    let directory = bench.directory(name, server.address.port());
    let admin = format!("unix:{}", admin_path(&directory).display());
    let failed = |what: String| Failure::Server(format!("its account: {what}"));
    let output = Command::new(&bench.options.lamna)
        .args(["ctl", "--json", "--admin", &admin, "stats"])
        .output()
        .map_err(|error| failed(error.to_string()))?;
    let told: Told = serde_json::from_slice(&output.stdout)
        .map_err(|error| failed(format!("{error}: {}", String::from_utf8_lossy(&output.stderr).trim())))?;
    Ok(told.account)
}

impl Account {
    fn since(mut self, before: &Account) -> Account {
        for (step, earlier) in self.steps.iter_mut().zip(&before.steps) {
            step.ns = step.ns.saturating_sub(earlier.ns);
        }
        self.processor_ns = self.processor_ns.saturating_sub(before.processor_ns);
        self
    }

    /// Time by category. Waiting counts with its processor time only: the part that the other steps leave over.
    fn shares_us(&self) -> HashMap<Category, f64> {
        let mut shares: HashMap<Category, f64> = HashMap::new();
        let mut rest_ns = self.processor_ns;
        for step in self.steps.iter().filter(|step| Category::of_step(&step.step) != Category::Switching) {
            *shares.entry(Category::of_step(&step.step)).or_default() += step.ns as f64 / 1000.0;
            rest_ns = rest_ns.saturating_sub(step.ns);
        }
        shares.insert(Category::Switching, rest_ns as f64 / 1000.0);
        shares
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_what_was_added_and_waiting_what_is_left_over() {
        let account = |send_ns, wait_ns, processor_ns| Account {
            steps: vec![Step { step: "send".into(), ns: send_ns }, Step { step: "wait".into(), ns: wait_ns }],
            processor_ns,
        };
        let shares = account(5000, 90_000, 8000).since(&account(1000, 10, 1000)).shares_us();
        assert_eq!(shares, [(Category::Writing, 4.0), (Category::Switching, 3.0)].into());
    }
}
