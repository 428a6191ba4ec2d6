//! Services: what can be exchanged while the server serves (JAWS framework paper, 3.6: the service configurator).
//!
//! ```text
//!             add                    replace (another generation)
//!   absent ───────> in use <──────────────────────────────────┐
//!     ^              │   │ a call fails or exceeds its bound   │
//!     │ remove       │   └──────────────> failed ──────────────┤ resume
//!     └──────────────┤ suspend                                 │
//!                    └──────────────────> suspended ───────────┘
//! ```
//!
//! Owns: the table of services of this process ([`Registry`]), what each of them is made of, and the [`board`] on which
//! all processes see which has failed. Guarantees: a change is whole or has not happened; a stream that has begun with
//! a generation of a service finishes with it, and the code of a generation is let go with its last user; a failure of
//! one generation says nothing of the next. Does not decide who may change what: the administrator's endpoint does, and
//! `config::service` judges what services can be.

pub(crate) mod board;
mod current;
mod file;
mod guard;
#[cfg(test)]
mod model;
mod native;
#[cfg(test)]
mod tests;
#[cfg(feature = "wasm")]
mod wasm;
#[cfg(not(feature = "wasm"))]
#[path = "without_wasm.rs"]
mod wasm;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Acquire, Ordering::Release};

use lamna_config::service::{OnFailure, SERVICES_MAX, ServiceDefinition, What};
use lamna_filter::{Chain, Link, Make, Step};
use lamna_sys::shared_memory::SharedMemory;

use crate::service::board::Board;
use crate::service::current::Current;
use crate::service::guard::{Guard, Guarded};

/// Primitives of hand-overs; the loom models substitute their own.
mod sync {
    pub(super) use std::sync::RwLock;
    pub(super) use std::sync::atomic::{AtomicU64, Ordering};
}

/// The services of this process.
#[derive(Debug, Default)]
pub struct Registry {
    board: SharedMemory<Board>,
    /// Filters that the program brings itself, by name.
    embedded: BTreeMap<String, Arc<dyn Make>>,
    table: Current<Table>,
    /// Gateways that are suspended.
    suspended_gateways: AtomicUsize,
}

/// All services at one moment.
#[derive(Debug, Default)]
struct Table {
    services: Vec<Arc<Service>>,
    /// Generations are numbers that no other generation of any service of this server has.
    last_generation: u64,
}

/// One generation of a service.
#[derive(Debug)]
struct Service {
    definition: ServiceDefinition,
    generation: u64,
    /// Its place on the board.
    slot: usize,
    /// Its filters; nothing while it is absent or suspended.
    links: Vec<Link>,
}

/// A service of a table, as one process tells it another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The generation that is current.
    pub generation: u64,
    /// The place of its counters.
    pub slot: usize,
    /// As it was defined.
    pub definition: ServiceDefinition,
}

/// A service of a route cannot be used: why, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unavailable(pub String);

/// How a service is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// Nothing has been added yet.
    Absent,
    /// Routes use it.
    InUse,
    /// It was suspended by order.
    Suspended,
    /// It was suspended because it failed.
    Failed,
}

impl Life {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Life::Absent => "absent",
            Life::InUse => "in use",
            Life::Suspended => "suspended",
            Life::Failed => "failed",
        }
    }
}

/// A service and how it is.
#[derive(Clone, Debug)]
pub struct Known {
    /// Its definition.
    pub definition: ServiceDefinition,
    /// Which of all generations it is.
    pub generation: u64,
    /// How it is.
    pub life: Life,
    /// Why, if it has failed.
    pub why: Option<String>,
    /// Streams that it has begun to filter, in all its generations and processes.
    pub runs: u64,
    /// How often it has failed.
    pub failures: u64,
}

impl Registry {
    /// One without services, of a program that brings these filters.
    pub fn with_embedded(embedded: BTreeMap<String, Arc<dyn Make>>) -> Registry {
        Registry { embedded, ..Registry::default() }
    }

    /// One with the services of `definitions`, for who only wants to look: no code is loaded, and content passes by
    /// them.
    pub fn to_look_at(definitions: &[ServiceDefinition]) -> Registry {
        let unloaded = |definition: &ServiceDefinition| match definition.what {
            What::Native(_) | What::Wasm(_) | What::Embedded => {
                ServiceDefinition { what: What::Absent, on_failure: OnFailure::Pass, ..definition.clone() }
            }
            What::Absent | What::Chain(_) | What::Gateway => definition.clone(),
        };
        let registry = Registry::default();
        // Chains were judged with the settings: nothing is left that could fail.
        let _ = registry.set(&definitions.iter().map(unloaded).collect::<Vec<_>>());
        registry
    }

    /// Another number than before whenever a service has changed or failed. To be read before what it is compared for.
    pub fn epoch(&self) -> u64 {
        self.table.changes() + self.board.failures()
    }

    /// The definitions of the services, in the order in which they were defined.
    pub fn definitions(&self) -> Vec<ServiceDefinition> {
        self.table().services.iter().map(|service| service.definition.clone()).collect()
    }

    /// The services are `definitions` from now on. Those that are the same go on as they are; the others are made anew.
    /// True if anything has changed.
    ///
    /// # Errors
    /// The service that cannot be made, and why, in words. Then nothing has changed.
    pub fn set(&self, definitions: &[ServiceDefinition]) -> Result<bool, String> {
        self.renew(definitions, None)
    }

    /// The same, but the service `renewed` is made anew in any case.
    ///
    /// # Errors
    /// As [`Registry::set`].
    pub fn renew(&self, definitions: &[ServiceDefinition], renewed: Option<&str>) -> Result<bool, String> {
        let before = self.table();
        let mut last_generation = before.last_generation;
        let mut rows: Vec<Row> = Vec::new();
        for definition in definitions {
            let known = before.find(&definition.name);
            let kept = known.filter(|known| known.definition == *definition && renewed != Some(&definition.name));
            let generation = kept.map_or_else(
                || {
                    last_generation += 1;
                    last_generation
                },
                |kept| kept.generation,
            );
            let is_taken = |slot: &usize| {
                before.services.iter().any(|service| service.slot == *slot) || rows.iter().any(|row| row.slot == *slot)
            };
            let slot = known.map(|known| known.slot).or_else(|| (0..SERVICES_MAX).find(|slot| !is_taken(slot)));
            let slot = slot.ok_or_else(|| format!("there may be {SERVICES_MAX} services at most"))?;
            rows.push(Row { generation, slot, definition: definition.clone() });
        }
        self.take(&rows)
    }

    /// The services are `rows` from now on, which another process has numbered. True if anything has changed.
    ///
    /// # Errors
    /// As [`Registry::set`].
    pub fn take(&self, rows: &[Row]) -> Result<bool, String> {
        let before = self.table();
        let mut table = Table { services: Vec::new(), last_generation: before.last_generation };
        for row in rows {
            let is_same = |service: &&Arc<Service>| service.generation == row.generation;
            table.services.push(match before.services.iter().find(is_same) {
                Some(service) => service.clone(),
                None => Arc::new(self.make(row)?),
            });
            table.last_generation = table.last_generation.max(row.generation);
        }
        let generations = |table: &Table| table.services.iter().map(|one| one.generation).collect::<Vec<_>>();
        if generations(&before) == generations(&table) {
            return Ok(false);
        }
        let is_suspended = |service: &&Arc<Service>| service.suspends_gateway();
        let suspended_gateways = table.services.iter().filter(is_suspended).count();
        self.table.replace(table);
        self.suspended_gateways.store(suspended_gateways, Release);
        Ok(true)
    }

    /// Whether requests are not to go to the application of this name.
    pub fn suspends_gateway(&self, name: &str) -> bool {
        // Asked for each of its requests, and none is suspended as a rule.
        self.suspended_gateways.load(Acquire) > 0
            && self.table().find(name).is_some_and(|service| service.suspends_gateway())
    }

    /// The table by which another process gets the same services.
    pub fn rows(&self) -> Vec<Row> {
        let row = |service: &Arc<Service>| {
            let Service { definition, generation, slot, .. } = &**service;
            Row { generation: *generation, slot: *slot, definition: definition.clone() }
        };
        self.table().services.iter().map(row).collect()
    }

    /// The services and how they are.
    pub fn known(&self) -> Vec<Known> {
        let known = |service: &Arc<Service>| {
            let (failed, slot) =
                (self.board.failure(service.slot, service.generation), &self.board.slots[service.slot]);
            let life = match &service.definition {
                ServiceDefinition { what: What::Absent, .. } => Life::Absent,
                definition if definition.is_suspended => Life::Suspended,
                _ if failed.is_some() => Life::Failed,
                _ => Life::InUse,
            };
            Known {
                definition: service.definition.clone(),
                generation: service.generation,
                life,
                why: failed.filter(|_| life == Life::Failed),
                runs: slot.runs(),
                failures: slot.failures(),
            }
        };
        self.table().services.iter().map(known).collect()
    }

    /// The chain of `steps`, which are filters of the table and services.
    ///
    /// # Errors
    /// A service of it cannot be used, and its routes are not to do without it.
    pub fn chain(&self, steps: &[Step]) -> Result<Chain, Unavailable> {
        let table = self.table();
        let mut links = Vec::new();
        for step in steps {
            match table.find(&step.name) {
                Some(service) => links.extend(self.links(service)?.iter().cloned()),
                // What cannot be made was refused with the settings.
                None => links.extend(Link::of_table(step).ok()),
            }
        }
        Ok(Chain::of(&links))
    }

    fn links<'a>(&self, service: &'a Service) -> Result<&'a [Link], Unavailable> {
        let ServiceDefinition { name, what, on_failure, is_suspended } = &service.definition;
        let why = match what {
            // A gateway has no name that a filter can have.
            What::Absent | What::Gateway => Some("nothing has been added for it".to_owned()),
            _ if *is_suspended => Some("it is suspended".to_owned()),
            _ => self.board.failure(service.slot, service.generation).map(|why| format!("it has failed: {why}")),
        };
        match (why, on_failure) {
            (None, _) => Ok(&service.links),
            (Some(_), OnFailure::Pass) => Ok(&[]),
            (Some(why), OnFailure::Error) => Err(Unavailable(format!("the service `{name}` cannot be used: {why}"))),
        }
    }

    /// One generation of a service, begun.
    fn make(&self, row: &Row) -> Result<Service, String> {
        let Row { generation, slot, definition } = row;
        let failed = |why: String| format!("the service `{}` cannot be used: {why}", definition.name);
        let guarded = |name: String, make: Arc<dyn Make>, time_max_ms: u64| {
            let guard = Guard::new(self.board.clone(), *slot, *generation, &definition.name, time_max_ms);
            vec![Link::new(name, Arc::new(Guarded::new(make, guard)))]
        };
        let links = match &definition.what {
            _ if definition.is_suspended => Vec::new(),
            What::Absent | What::Gateway => Vec::new(),
            What::Chain(steps) => {
                let links: Result<_, _> = steps.iter().map(Link::of_table).collect();
                links.map_err(|wrong| failed(wrong.to_string()))?
            }
            What::Native(settings) => {
                let (make, name) = native::load(settings).map_err(failed)?;
                guarded(name, make, settings.time_max_ms)
            }
            What::Wasm(settings) => {
                let (make, name) = wasm::load(settings).map_err(failed)?;
                guarded(name, make, settings.time_max_ms)
            }
            What::Embedded => {
                let make = self.embedded.get(&definition.name).cloned();
                let make = make.ok_or_else(|| failed("the program has no filter of this name".to_owned()))?;
                guarded(format!("embedded {}", definition.name), make, EMBEDDED_TIME_MAX_MS)
            }
        };
        Ok(Service { definition: definition.clone(), generation: *generation, slot: *slot, links })
    }

    fn table(&self) -> Arc<Table> {
        self.table.get()
    }
}

/// Processor time of one call of a filter that the program brings itself, in milliseconds.
const EMBEDDED_TIME_MAX_MS: u64 = 1000;

impl Service {
    fn suspends_gateway(&self) -> bool {
        self.definition.what == What::Gateway && self.definition.is_suspended
    }
}

impl Table {
    fn find(&self, name: &str) -> Option<&Arc<Service>> {
        self.services.iter().find(|service| service.definition.name == name)
    }
}
