//! How far a process is on the way to its successor: the decisions, without processes, sockets or clocks.
//!
//! ```text
//!            begin              ready
//!   Alone ──────────> Begun ──────────> Left      nothing begins any more, for good
//!     │ ^               │
//!     │ └──── failed ───┤
//!     │                 │
//!     └───── end ───────┴─────────────> Ending    nothing begins any more, for good
//! ```
//!
//! Owns: the rule that a process is succeeded once at most. Guarantees: there is one candidate at a time; from the look
//! that finds it ready on, no other can begin, whatever is ordered meanwhile; a process that ends has no candidate.
//! Starts and kills nothing: the caller does, and is told when.

/// Where a process stands. `C` is a process that may become its successor.
#[derive(Debug, Default)]
pub(super) enum Stage<C> {
    /// It serves, and no other has been started.
    #[default]
    Alone,
    /// It serves, and another process has been started that has not said yet that it serves.
    Begun(C),
    /// Another process serves in its place.
    Left,
    /// It finishes what has begun, or stops. No process takes its place.
    Ending,
}

/// Why a process does not begin to be succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotNow {
    /// A candidate has begun: what comes of it is known soon.
    Begun,
    /// Another process serves: it can be asked.
    Left,
    /// The server ends.
    Ending,
}

/// The result of a look at a candidate.
#[derive(Debug)]
pub(super) enum Look<C, S> {
    /// Nothing yet.
    Nothing(C),
    /// It serves.
    Ready(S),
    /// It does not, and has gone.
    Failed(String),
}

impl<C> Stage<C> {
    /// Whether a candidate may be started.
    ///
    /// # Errors
    /// Why not.
    pub(super) fn may_begin(&self) -> Result<(), NotNow> {
        match self {
            Stage::Alone => Ok(()),
            Stage::Begun(_) => Err(NotNow::Begun),
            Stage::Left => Err(NotNow::Left),
            Stage::Ending => Err(NotNow::Ending),
        }
    }

    /// A candidate has been started.
    ///
    /// # Errors
    /// There may be none: it is given back.
    pub(super) fn begin(&mut self, candidate: C) -> Result<(), C> {
        match self {
            Stage::Alone => *self = Stage::Begun(candidate),
            _ => return Err(candidate),
        }
        Ok(())
    }

    /// Looks what has come of the candidate. The successor is returned once, and then the place is left.
    pub(super) fn look<S>(&mut self, look: impl FnOnce(C) -> Look<C, S>) -> Option<Result<S, String>> {
        let candidate = match std::mem::take(self) {
            Stage::Begun(candidate) => candidate,
            other => {
                *self = other;
                return None;
            }
        };
        let (stage, result) = match look(candidate) {
            Look::Nothing(candidate) => (Stage::Begun(candidate), None),
            Look::Ready(successor) => (Stage::Left, Some(Ok(successor))),
            Look::Failed(why) => (Stage::Alone, Some(Err(why))),
        };
        *self = stage;
        result
    }

    /// The server ends. Returns the candidate that there was, which must not live on.
    pub(super) fn end(&mut self) -> Option<C> {
        match std::mem::replace(self, Stage::Ending) {
            Stage::Begun(candidate) => Some(candidate),
            Stage::Left => {
                *self = Stage::Left;
                None
            }
            Stage::Alone | Stage::Ending => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An event that may happen, in any order. Numbers choose among the processes that there have been.
    #[derive(Clone, Copy, Debug)]
    enum Event {
        /// An order that takes another process comes to one that hears orders.
        Order(usize),
        /// A candidate says that it serves.
        Ready(usize),
        /// A candidate ends before that.
        Death(usize),
        /// A process looks what has come of its candidate.
        Look(usize),
        /// The order to end comes to one that hears orders. It looks first.
        End(usize),
    }

    #[derive(Debug, Default)]
    struct Process {
        stage: Stage<usize>,
        /// It has been told that the place is its own. Only then does it hear orders.
        confirmed: bool,
        ready: bool,
        gone: bool,
    }

    /// A line of processes, each started by one before it.
    #[derive(Debug)]
    struct World {
        processes: Vec<Process>,
        ended: bool,
    }

    impl World {
        fn new() -> World {
            World { processes: vec![Process { confirmed: true, ready: true, ..Process::default() }], ended: false }
        }

        fn at(&mut self, number: usize) -> usize {
            number % self.processes.len()
        }

        fn handle(&mut self, event: Event) {
            match event {
                Event::Order(number) => {
                    let (at, new) = (self.at(number), self.processes.len());
                    let process = &mut self.processes[at];
                    if process.confirmed && process.stage.may_begin().is_ok() {
                        assert_eq!(process.stage.begin(new), Ok(()));
                        self.processes.push(Process::default());
                    }
                }
                Event::Ready(number) => {
                    let at = self.at(number);
                    self.processes[at].ready = true;
                }
                Event::Death(number) => {
                    let at = self.at(number);
                    let process = &mut self.processes[at];
                    process.gone |= !process.ready;
                }
                Event::Look(number) => {
                    let at = self.at(number);
                    self.look(at);
                }
                Event::End(number) => {
                    let at = self.at(number);
                    if self.processes[at].confirmed {
                        self.end(at);
                    }
                }
            }
        }

        fn look(&mut self, at: usize) -> Option<usize> {
            let mut stage = std::mem::take(&mut self.processes[at].stage);
            let found = stage.look(|candidate| match &self.processes[candidate] {
                Process { gone: true, .. } => Look::Failed("gone".to_owned()),
                Process { ready: true, .. } => Look::Ready(candidate),
                _ => Look::Nothing(candidate),
            });
            self.processes[at].stage = stage;
            let successor = found?.ok()?;
            self.processes[successor].confirmed = true;
            Some(successor)
        }

        fn end(&mut self, at: usize) {
            // Who has just been found ready is told to end as well.
            if let Some(successor) = self.look(at) {
                return self.end(successor);
            }
            let serves = matches!(self.processes[at].stage, Stage::Alone | Stage::Begun(_));
            self.ended |= serves;
            if let Some(candidate) = self.processes[at].stage.end() {
                self.processes[candidate].gone = true;
            }
        }

        /// Those that serve, and would go on doing so.
        fn servers(&self) -> usize {
            let stays = |process: &&Process| matches!(process.stage, Stage::Alone | Stage::Begun(_));
            self.processes.iter().filter(|process| process.confirmed && !process.gone).filter(stays).count()
        }

        /// Orphans: they would go on for ever, or end without being noticed.
        fn orphans(&self) -> usize {
            let candidates =
                || self.processes.iter().enumerate().filter(|(_, process)| !process.confirmed && !process.gone);
            let is_looked_after = |number: usize| {
                self.processes.iter().any(|one| matches!(one.stage, Stage::Begun(candidate) if candidate == number))
            };
            candidates().filter(|(number, _)| !is_looked_after(*number)).count()
        }
    }

    fn event() -> impl Strategy<Value = Event> {
        let number = || 0..8_usize;
        prop_oneof![
            4 => number().prop_map(Event::Order),
            4 => number().prop_map(Event::Ready),
            2 => number().prop_map(Event::Death),
            6 => number().prop_map(Event::Look),
            1 => number().prop_map(Event::End),
        ]
    }

    proptest! {
        #[test]
        fn there_is_exactly_one_server_until_it_is_told_to_end_and_none_after(
            events in prop::collection::vec(event(), 0..60)
        ) {
            let mut world = World::new();
            for event in events {
                world.handle(event);
                let expected = usize::from(!world.ended);
                prop_assert_eq!(world.servers(), expected, "after {:?}: {:?}", event, world);
                prop_assert_eq!(world.orphans(), 0, "after {:?}: {:?}", event, world);
            }
        }

        #[test]
        fn a_process_is_succeeded_once_at_most(events in prop::collection::vec(0..4_u8, 0..40)) {
            let (mut stage, mut started, mut successors) = (Stage::Alone, 0, 0);
            for event in events {
                let was_open = matches!(stage, Stage::Alone);
                match event {
                    0 => started += usize::from(stage.begin(started).is_ok()),
                    1 => successors += usize::from(matches!(stage.look(Look::<usize, usize>::Ready), Some(Ok(_)))),
                    2 => drop(stage.look(|_| Look::<usize, usize>::Failed(String::new()))),
                    _ => drop(stage.end()),
                }
                prop_assert!(successors <= 1);
                prop_assert!(successors == 0 || matches!(stage, Stage::Left));
                prop_assert_eq!(stage.may_begin().is_ok(), matches!(stage, Stage::Alone));
                prop_assert!(was_open || event != 0 || stage.may_begin().is_err());
            }
        }
    }
}
