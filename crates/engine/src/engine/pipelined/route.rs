//! The threads of a pool, and how connections get from one to another: the drawing, and the table that it shows.
//!
//! ```text
//!  Accept ──> Read ─────────> Find ─────────> Header ─────────> Data
//!              ^              ^  v              │              ^  v │
//!              │              Path              │              Page │
//!              └────────────────────────────────┴───────────────────┘ persistent connections
//! ```
//!
//! Owns: [`Duty`], in which the threads differ, [`EDGES`], the wiring, and [`route`], which of the edges a connection
//! takes. Guarantees: a connection goes along an edge, rests where it is, or leaves the pool. Does not move it.

use super::job::Task;
use crate::worker::drive::Turn;

/// The part of a thread of a pool in serving connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Duty {
    /// A stage: receives. Idle connections rest here.
    Read,
    /// A stage: looks targets up, in the caches or without waiting.
    Find,
    /// A stage: sends what is in memory.
    Header,
    /// A stage: makes ranges of files ready without waiting, and sends. Connections whose peers are slow rest here.
    Data,
    /// A helper: translates paths that take waiting, and carries out steps of programs.
    Path,
    /// A helper: reads ranges of files that take waiting.
    Page,
    /// Takes connections. No other thread gives it any.
    Accept,
}

/// Those that are given connections, in the order of their inboxes: the stages, and the helpers.
pub(super) const STAGES: [Duty; 4] = [Duty::Read, Duty::Find, Duty::Header, Duty::Data];
pub(super) const HELPERS: [Duty; 2] = [Duty::Path, Duty::Page];

/// From which thread connections go to which.
pub(super) const EDGES: [(Duty, Duty); 10] = [
    (Duty::Accept, Duty::Read),
    (Duty::Read, Duty::Find),
    (Duty::Find, Duty::Path),
    (Duty::Path, Duty::Find),
    (Duty::Find, Duty::Header),
    (Duty::Header, Duty::Read),
    (Duty::Header, Duty::Data),
    (Duty::Data, Duty::Read),
    (Duty::Data, Duty::Page),
    (Duty::Page, Duty::Data),
];

/// The way of a connection after its turn with a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Output {
    /// It goes along this edge.
    To(Duty),
    /// It goes back to the read stage, which waits for its peer or closes it.
    Home,
    /// It rests with this stage.
    Rest,
    /// An application answers: no stage has anything to do for it.
    Applications,
}

/// The way of a connection after `turn` with the stage of `duty`, which leaves it with `tasks`.
pub(super) fn route(duty: Duty, turn: Turn, tasks: &[Task]) -> Output {
    let interest = turn.interest();
    let has = |duty| tasks.iter().any(|task| task.duty() == Some(duty));
    match duty {
        // What can be sent already does not wait for what cannot: the connection will be back.
        Duty::Find if has(Duty::Path) && !interest.send => Output::To(Duty::Path),
        Duty::Find => Output::To(Duty::Header),
        _ if interest.is_over() => Output::Home,
        Duty::Read if interest.send || !tasks.is_empty() => Output::To(Duty::Find),
        Duty::Read if interest.done => Output::Applications,
        Duty::Read => Output::Rest,
        Duty::Header if interest.send || has(Duty::Data) => Output::To(Duty::Data),
        Duty::Data if has(Duty::Page) => Output::To(Duty::Page),
        Duty::Data if interest.send || matches!(turn, Turn::GoesOn(_)) => Output::Rest,
        // The others are no stages.
        _ => Output::Home,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::context::FileRange;
    use crate::worker::executor::{Completed, PendingId};
    use lamna_io::wait::Token;
    use lamna_proto::conn::{Fate, Interest};
    use lamna_proto::exchange::ExchangeId;
    use lamna_proto::message::Status;
    use lamna_proto::resource::{Description, Representation};

    fn tasks() -> Vec<Task> {
        let pending = || PendingId { token: Token { index: 1, generation: 1 }, exchange: ExchangeId(0) };
        let range = || {
            let representation = Representation::with_content(&Description::of(Status(200)), b"x").unwrap();
            FileRange { representation: representation.into(), offset: 0, length: 1 }
        };
        vec![
            Task::LookUp(pending()),
            Task::MakeReady(pending(), range()),
            Task::Read(pending(), range()),
            Task::Completed(Completed::Failed(pending())),
        ]
    }

    fn turns() -> Vec<Turn> {
        let mut turns = Vec::new();
        for bits in 0..8 {
            let (receive, send, done) = (bits & 1 > 0, bits & 2 > 0, bits & 4 > 0);
            for fate in [Fate::Open, Fate::Linger, Fate::Close] {
                let interest = Interest { receive, send, done, fate };
                turns.extend([Turn::Waits(interest), Turn::GoesOn(interest)]);
            }
        }
        turns
    }

    #[test]
    fn a_connection_goes_along_edges_of_the_drawing_only_and_rests_where_sockets_are_waited_for() {
        for duty in STAGES {
            for turn in turns() {
                for task in tasks() {
                    match route(duty, turn, &[task]) {
                        Output::To(to) => assert!(EDGES.contains(&(duty, to)), "{duty:?} to {to:?}"),
                        Output::Home => assert!(duty == Duty::Read || EDGES.contains(&(duty, Duty::Read))),
                        Output::Rest => assert!(matches!(duty, Duty::Read | Duty::Data), "{duty:?}"),
                        Output::Applications => assert_eq!(duty, Duty::Read),
                    }
                }
            }
        }
    }

    #[test]
    fn what_waits_for_another_thread_goes_to_that_thread() {
        let turn = Turn::Waits(Interest::DONE);
        let [look_up, make_ready, read, _] = <[Task; 4]>::try_from(tasks()).unwrap();
        assert_eq!(route(Duty::Read, turn, &[look_up]), Output::To(Duty::Find));
        assert_eq!(route(Duty::Header, turn, &[make_ready]), Output::To(Duty::Data));
        assert_eq!(route(Duty::Data, turn, &[read]), Output::To(Duty::Page));
        assert_eq!(route(Duty::Read, turn, &[]), Output::Applications);
        for duty in STAGES {
            let is_home = [Output::Home, Output::Rest].contains(&route(duty, Turn::Waits(Interest::RECEIVE), &[]));
            assert_eq!(is_home, duty != Duty::Find, "{duty:?}");
        }
    }

    #[test]
    fn every_thread_but_the_first_is_reached_from_it_and_leads_home() {
        let reached = |from: Duty| {
            let mut reached = vec![from];
            for _ in EDGES {
                let further = EDGES.iter().filter(|(from, to)| reached.contains(from) && !reached.contains(to));
                let further: Vec<Duty> = further.map(|(_, to)| *to).collect();
                reached.extend(further);
            }
            reached
        };
        for duty in STAGES.into_iter().chain(HELPERS) {
            assert!(reached(Duty::Accept).contains(&duty), "{duty:?} gets nothing");
            assert!(reached(duty).contains(&Duty::Read), "{duty:?} keeps what it gets");
        }
    }
}
