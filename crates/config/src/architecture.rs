//! The concurrency architectures, as a table of data.
//!
//! Owns: the properties of each: the unit that waits, its way of waiting, the place of blocking steps, and the reports.
//! Everything that has to tell architectures apart reads this table, so a new one is a variant, a row here, its file in
//! `engine/` and its line in `engine::run` (docs/extending.md). Runs nothing.

use super::settings::Settings;

/// Which concurrency architecture serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// Multi-process: pre-forked processes that serve one connection at a time with blocking calls (Flash 3.1).
    Mp,
    /// A bounded number of threads for the connections that are being served (Flash-MT, JAWS).
    ThreadPool,
    /// A thread for each request (JAWS).
    ThreadPerRequest,
    /// A thread for each connection as long as it is open (JAWS).
    ThreadPerSession,
    /// Single-process event-driven: one event loop per worker, every step in line (Flash 3.3).
    Sped,
    /// Asymmetric multi-process event-driven: the same loop, with helpers for steps that would block (Flash 3.4).
    Amped,
    /// AMPED processes that have nothing in common but the listening sockets.
    CoAmped,
    /// Per worker five stages in threads of their own, and two helpers for what would block (PIPELINED).
    Pipelined,
    /// One io_uring per worker: every step is handed to the kernel, which says when it is done (JAWS).
    Proactor,
}

/// The properties of an architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Character {
    /// Which one it is.
    pub architecture: Architecture,
    /// The name in configuration, on the command line and in reports.
    pub name: &'static str,
    /// Another name that is understood.
    pub alias: Option<&'static str>,
    /// The unit of work that gets a thread or process of its own.
    pub unit: Unit,
    /// How its threads wait for sockets.
    pub waits_with: Waits,
    /// Where a step is carried out that may wait for the disk.
    pub blocking_steps: Blocking,
    /// Its workers are processes, with a supervisor.
    pub is_of_processes: bool,
    /// The figures that its workers report of their connections.
    pub reports: Reports,
}

/// The unit of work that gets a thread or process of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A connection, while it is being served.
    Connection,
    /// A request.
    Request,
    /// A connection, as long as it is open.
    Session,
    /// All connections of a worker.
    Worker,
    /// A step of all connections of a worker.
    Stage,
}

/// How threads wait for sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waits {
    /// One socket each, with poll(2).
    Poll,
    /// All at once, with epoll(7).
    Epoll,
    /// With io_uring(7), for what has been done instead of what can be.
    Ring,
    /// With epoll(7), and for queues between threads.
    Queues,
}

/// Where a step is carried out that may wait for the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocking {
    /// By the thread that drives the connection.
    InLine,
    /// By helpers.
    Helpers,
    /// By the kernel, and by helpers where it cannot.
    Kernel,
}

/// The figures that workers report of their connections. The others are not known without asking each worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reports {
    /// How many there are, on the scoreboard. The connections of others are counted by what they carry.
    pub connections: bool,
    /// How many of them are idle. A thread or process that waits for its only connection does not write down for what.
    pub idle: bool,
    /// How many of them wait for slow peers.
    pub slow: bool,
}

const ALL_REPORTED: Reports = Reports { connections: true, idle: true, slow: true };
const IDLE_REPORTED: Reports = Reports { connections: false, idle: true, slow: false };

/// Every architecture, in the order of documentation.
const CHARACTERS: [Character; 9] = [
    Character {
        architecture: Architecture::Mp,
        name: "mp",
        alias: None,
        unit: Unit::Connection,
        waits_with: Waits::Poll,
        blocking_steps: Blocking::InLine,
        is_of_processes: true,
        reports: Reports { connections: true, idle: false, slow: false },
    },
    Character {
        architecture: Architecture::ThreadPool,
        name: "thread-pool",
        alias: Some("mt"),
        unit: Unit::Connection,
        waits_with: Waits::Poll,
        blocking_steps: Blocking::InLine,
        is_of_processes: false,
        reports: IDLE_REPORTED,
    },
    Character {
        architecture: Architecture::ThreadPerRequest,
        name: "thread-per-request",
        alias: None,
        unit: Unit::Request,
        waits_with: Waits::Poll,
        blocking_steps: Blocking::InLine,
        is_of_processes: false,
        reports: IDLE_REPORTED,
    },
    Character {
        architecture: Architecture::ThreadPerSession,
        name: "thread-per-session",
        alias: None,
        unit: Unit::Session,
        waits_with: Waits::Poll,
        blocking_steps: Blocking::InLine,
        is_of_processes: false,
        reports: Reports { connections: false, idle: false, slow: false },
    },
    Character {
        architecture: Architecture::Sped,
        name: "sped",
        alias: None,
        unit: Unit::Worker,
        waits_with: Waits::Epoll,
        blocking_steps: Blocking::InLine,
        is_of_processes: false,
        reports: ALL_REPORTED,
    },
    Character {
        architecture: Architecture::Amped,
        name: "amped",
        alias: None,
        unit: Unit::Worker,
        waits_with: Waits::Epoll,
        blocking_steps: Blocking::Helpers,
        is_of_processes: false,
        reports: ALL_REPORTED,
    },
    Character {
        architecture: Architecture::CoAmped,
        name: "co-amped",
        alias: None,
        unit: Unit::Worker,
        waits_with: Waits::Epoll,
        blocking_steps: Blocking::Helpers,
        is_of_processes: true,
        reports: ALL_REPORTED,
    },
    Character {
        architecture: Architecture::Pipelined,
        name: "pipelined",
        alias: None,
        unit: Unit::Stage,
        waits_with: Waits::Queues,
        blocking_steps: Blocking::Helpers,
        is_of_processes: false,
        reports: Reports { connections: false, idle: true, slow: true },
    },
    Character {
        architecture: Architecture::Proactor,
        name: "proactor",
        alias: None,
        unit: Unit::Worker,
        waits_with: Waits::Ring,
        blocking_steps: Blocking::Kernel,
        is_of_processes: false,
        reports: ALL_REPORTED,
    },
];

impl Architecture {
    /// Every architecture, in the order of documentation.
    pub const ALL: [Architecture; 9] = {
        let mut all = [Architecture::Mp; 9];
        let mut index = 0;
        while index < all.len() {
            all[index] = CHARACTERS[index].architecture;
            index += 1;
        }
        all
    };

    /// Its properties.
    pub fn character(self) -> &'static Character {
        // Rows stand in the order of the variants, which a test holds.
        &CHARACTERS[self as usize]
    }

    /// The name in configuration, on the command line and in reports.
    pub fn name(self) -> &'static str {
        self.character().name
    }

    /// The architecture of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        let found = CHARACTERS.iter().find(|one| one.name == name || one.alias == Some(name));
        found.map(|one| one.architecture)
    }

    /// Whether a thread or process that sends to a slow peer serves no other meanwhile.
    pub fn waits_for_peers(self) -> bool {
        self.character().waits_with == Waits::Poll
    }

    /// Whether its workers are processes, with a supervisor.
    pub fn is_of_processes(self) -> bool {
        self.character().is_of_processes
    }

    /// Whether workers take connections of other processes when they are free for one, as they accept new ones.
    pub fn takes_arrivals_itself(self) -> bool {
        self.is_of_processes() && self.character().unit == Unit::Connection
    }

    /// How many connections it can hold with `settings`, if that is bounded by the number of its threads.
    pub fn connections_max(self, settings: &Settings) -> Option<usize> {
        let is_bounded = matches!(self.character().unit, Unit::Request | Unit::Session);
        is_bounded.then(|| settings.threads_max.saturating_mul(settings.workers))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = include_str!("../../../docs/engines.md");

    /// The row of an architecture in the document.
    fn row(character: &Character) -> String {
        let unit = match (character.unit, character.is_of_processes) {
            (Unit::Connection, true) => "a process for a connection being served",
            (Unit::Connection, false) => "a thread for a connection being served",
            (Unit::Request, _) => "a thread for a request",
            (Unit::Session, _) => "a thread for an open connection",
            (Unit::Worker, true) => "a process for many connections",
            (Unit::Worker, false) => "a thread for many connections",
            (Unit::Stage, _) => "a thread for a stage",
        };
        let waits_with = match character.waits_with {
            Waits::Poll => "poll",
            Waits::Epoll => "epoll",
            Waits::Ring => "io_uring",
            Waits::Queues => "queues, epoll",
        };
        let blocking_steps = match character.blocking_steps {
            Blocking::InLine => "in line",
            Blocking::Helpers => "helpers",
            Blocking::Kernel => "the kernel",
        };
        format!("| `{}` | {unit} | {waits_with} | {blocking_steps} |\n", character.name)
    }

    #[test]
    fn the_document_has_the_table() {
        for character in &CHARACTERS {
            assert!(DOCUMENT.contains(&row(character)), "{}", row(character));
        }
    }

    #[test]
    fn every_architecture_is_found_by_its_row_and_its_names() {
        for (index, character) in CHARACTERS.iter().enumerate() {
            assert_eq!(character.architecture as usize, index);
            assert_eq!(character.architecture.character(), character);
            for name in [Some(character.name), character.alias].into_iter().flatten() {
                assert_eq!(Architecture::from_name(name), Some(character.architecture));
            }
        }
        assert_eq!(Architecture::from_name("none"), None);
    }
}
