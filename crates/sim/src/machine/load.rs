//! The clients as one thread of the server's own machine: a load generator on the same processors, as in a measurement
//! over loopback. It takes all responses that are there, one after the other, and sends the next request of each.

use std::collections::{BTreeMap, VecDeque};

use super::costs::more_segments;
use super::{RequestId, Step};
use crate::kernel::Nanos;
use crate::parameters::{Parameters, nanos};
use crate::scenario::Scenario;

/// The last step of the thread.
#[derive(Clone, Copy)]
enum Phase {
    /// Nothing: waits for responses.
    Idle,
    /// Heard of responses, and of how many.
    Polled,
    /// Received one.
    Received(RequestId),
    /// Sent the next request of this client.
    Sent(RequestId),
}

/// The outcome of a stretch of work of the thread.
pub(super) enum Turn {
    /// It works or waits on.
    Step(Step),
    /// The response has been received; the client's next request is made now, and sent by [`LoadThread::send`].
    Received(RequestId),
    /// The request is at the server; [`LoadThread::turn`] goes on.
    Sent(RequestId),
}

/// A response that has arrived.
struct Response {
    request: RequestId,
    bytes: u64,
    /// The cost of the segments after the first one.
    further: Nanos,
}

/// The thread.
pub(super) struct LoadThread {
    poll: Nanos,
    receive: Nanos,
    receive_unit: Nanos,
    send: Nanos,
    rouse: Nanos,
    /// Work that is still to be done: waking those who slept until a request came.
    owed: Nanos,
    unit_bytes: u64,
    segment: Nanos,
    long_segment: Nanos,
    segment_at_once: Nanos,
    varied: Nanos,
    /// Bytes of the last response.
    received_bytes: u64,
    segment_bytes: u64,
    spins: bool,
    phase: Phase,
    ready: VecDeque<Response>,
    /// The number of responses in `ready` that it knows of.
    known: usize,
    blocked: bool,
}

impl LoadThread {
    /// One that spins never sleeps.
    pub(super) fn new(parameters: &Parameters, scenario: &Scenario) -> Self {
        let own = |times: &BTreeMap<String, f64>| times.get(scenario.architecture.name()).copied().unwrap_or(0.0);
        let (own_segment_us, own_shared_us) = (own(&parameters.long_segments), own(&parameters.shared));
        let (costs, parameters) = (&parameters.costs, &parameters.load);
        let (shared_us, shared_unit_us) = match scenario.clients_spin {
            true => (0.0, 0.0),
            false => (parameters.shared_us + own_shared_us, parameters.shared_unit_us),
        };
        LoadThread {
            poll: nanos(parameters.poll_us),
            receive: nanos((parameters.receive_us + shared_us).max(0.0)),
            receive_unit: nanos(parameters.receive_unit_us + shared_unit_us),
            send: nanos(parameters.send_us),
            rouse: nanos(parameters.rouse_us),
            owed: 0,
            unit_bytes: costs.transmit_unit_bytes,
            segment: nanos(parameters.segment_us),
            long_segment: nanos((parameters.segment_us + own_segment_us).max(0.0)),
            segment_at_once: nanos(parameters.segment_at_once_us),
            varied: nanos(parameters.varied_us),
            received_bytes: 0,
            segment_bytes: costs.segment_bytes,
            spins: scenario.clients_spin,
            phase: Phase::Idle,
            ready: VecDeque::new(),
            known: 0,
            blocked: true,
        }
    }

    /// A response of `bytes` has arrived, which was sent by turns or at once. Whether the thread has to be woken. What
    /// is sent at once is there before a thread that spins has looked again; one that sleeps is woken for the beginning
    /// of it.
    pub(super) fn arrive(&mut self, request: RequestId, bytes: u64, by_turns: bool) -> bool {
        let each = match by_turns {
            true => self.long_segment,
            false if self.spins => self.segment_at_once,
            false => self.segment,
        };
        let further = more_segments(bytes, self.segment_bytes) * each;
        self.ready.push_back(Response { request, bytes, further });
        std::mem::take(&mut self.blocked)
    }

    /// Goes on after a stretch of work.
    pub(super) fn turn(&mut self) -> Turn {
        match std::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Received(request) => return Turn::Received(request),
            Phase::Sent(request) => {
                self.phase = if self.known > 0 { Phase::Polled } else { Phase::Idle };
                return Turn::Sent(request);
            }
            Phase::Polled => {}
            Phase::Idle if self.ready.is_empty() => {
                self.blocked = true;
                return Turn::Step(Step::Block);
            }
            Phase::Idle => {
                self.known = self.ready.len();
                self.phase = Phase::Polled;
                return Turn::Step(Step::Run(self.poll));
            }
        }
        self.known -= 1;
        let Some(Response { request, bytes, further }) = self.ready.pop_front() else {
            unreachable!("what is known of is there");
        };
        self.phase = Phase::Received(request);
        let owed = std::mem::take(&mut self.owed);
        let content = bytes.div_ceil(self.unit_bytes) * self.receive_unit;
        let varied = if std::mem::replace(&mut self.received_bytes, bytes) == bytes { 0 } else { self.varied };
        Turn::Step(Step::Run(owed + self.receive + content + further + varied))
    }

    /// A task slept until the request came that was sent last.
    pub(super) fn rouse(&mut self) {
        self.owed += self.rouse;
    }

    /// Sends the next request of the client whose response was received last.
    pub(super) fn send(&mut self, request: RequestId) -> Step {
        self.phase = Phase::Sent(request);
        Step::Run(self.send)
    }
}
