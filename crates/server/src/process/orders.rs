//! Orders to a running server: by signals, or by another process over a line: its supervisor, the process whose place
//! it has taken, or the first process of its container.
//!
//! Owns: what signals mean, and the lines between processes. Guarantees: a worker process learns
//! of the end of its supervisor, whatever ended it, because the line ends with it. Carries nothing out.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use lamna_io::scm_rights;
use lamna_sys::signals::{Signal, Signals};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::net::{AddressFamily, SocketFlags, SocketType};

/// An order to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Take no new connection, finish what has begun, end.
    Drain,
    /// End now.
    Stop,
    /// Open the access log again by its name.
    Reopen,
    /// Read the configuration again, and open the access log again.
    Reload,
    /// Start the program as it is now, and let it take over.
    Upgrade,
    /// Give all connections to the process whose socket comes with the order ([`Orders::take_handover_target`]), end.
    HandOver,
    /// Take no new connection, serve those that there are until they end by themselves, end.
    Retire,
    /// Use no kept answer of an application any more.
    PurgeAnswers,
    /// The place of another process is this one's: it has left the files of sockets, and hears no more orders.
    TakeOver,
    /// Services are those of the table that comes with the order ([`Orders::take_services`]).
    TakeServices,
    /// Another process serves that lets other clients in: begin no answer on connections that stay.
    Supersede,
}

/// A report of a worker process to its supervisor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// It serves.
    Ready,
    /// It cannot begin.
    Failed {
        /// Why, in words.
        cause: String,
        /// Whether a missing permission is the cause.
        permission: bool,
    },
    /// Another process serves in its place: its id.
    Succeeded(u32),
    /// It answers no request that arrives from now on: it has begun to hand its connections over.
    Leaving,
}

/// Where orders come from.
#[derive(Debug)]
pub struct Orders {
    signals: Signals,
    interrupted: bool,
    supervisor: Option<ControlChannel>,
    /// The process whose place this one has taken, which passes on what it was ordered at the last moment.
    predecessor: Option<ControlChannel>,
    /// The first process of a container, which passes on what it is ordered.
    keeper: Option<Arc<ControlChannel>>,
    /// Orders that this process has given itself, for an administrator.
    given: VecDeque<Order>,
    /// The socket that came with the last order to hand over.
    handover_target: Option<OwnedFd>,
    /// The descriptor that came with the last order to take services.
    services: Option<OwnedFd>,
}

impl Orders {
    /// Orders by signals: TERM and INT drain, a second one of either stops, HUP reloads, USR2 upgrades. To be called
    /// before there are threads. XFSZ is ignored: a full log file is an error like others. CHLD interrupts waiting, and
    /// orders nothing.
    ///
    /// # Errors
    /// No descriptors or memory.
    pub fn by_signals() -> Result<Orders, Errno> {
        let signals = [Signal::TERM, Signal::INT, Signal::HUP, Signal::USR2, Signal::XFSZ, Signal::CHILD];
        Ok(Orders::new(Signals::take(&signals)?, None))
    }

    /// Orders by a supervisor, whose end means stopping. INT and HUP reach the supervisor as well as its workers when
    /// they come from a terminal: here they are ignored. TERM drains, so that an administrator can replace one worker.
    ///
    /// # Errors
    /// No descriptors or memory.
    pub fn by_supervisor(line: ControlChannel) -> Result<Orders, Errno> {
        Ok(Orders::new(Signals::take(&[Signal::TERM])?, Some(line)))
    }

    fn new(signals: Signals, supervisor: Option<ControlChannel>) -> Orders {
        let given = VecDeque::new();
        Orders {
            signals,
            interrupted: false,
            supervisor,
            predecessor: None,
            keeper: None,
            given,
            handover_target: None,
            services: None,
        }
    }

    /// Takes orders also from the process whose place this one has taken.
    pub(crate) fn follow(&mut self, predecessor: ControlChannel) {
        self.predecessor = Some(predecessor);
    }

    /// Takes orders also from the first process of a container.
    pub(crate) fn keep(&mut self, keeper: Arc<ControlChannel>) {
        self.keeper = Some(keeper);
    }

    /// Leaves the orders of others to the process that has taken the place of this one.
    pub(crate) fn leave(&mut self) {
        (self.predecessor, self.keeper) = (None, None);
    }

    /// The socket that came with the last [`Order::HandOver`].
    pub fn take_handover_target(&mut self) -> Option<OwnedFd> {
        self.handover_target.take()
    }

    /// The table that came with the last [`Order::TakeServices`].
    pub(crate) fn take_services(&mut self) -> Option<OwnedFd> {
        self.services.take()
    }

    /// Whether there is a supervisor, who speaks to the administrator for this process.
    pub fn have_supervisor(&self) -> bool {
        self.supervisor.is_some()
    }

    /// Makes a report to the supervisor, if there is one.
    pub(crate) fn report(&self, report: &Report) {
        self.supervisor.iter().for_each(|supervisor| supervisor.report(report));
    }

    /// Waits for an order, for one of `others` to become readable, or for the end of `timeout`.
    pub fn wait<'a>(&'a self, others: impl Iterator<Item = BorrowedFd<'a>>, timeout: Option<Duration>) {
        let keeper = self.keeper.as_deref();
        let lines = self.supervisor.iter().chain(&self.predecessor).chain(keeper).map(AsFd::as_fd);
        let waits = [self.signals.as_fd()].into_iter().chain(lines).chain(others);
        let mut waits: Vec<PollFd<'_>> =
            waits.map(|descriptor| PollFd::from_borrowed_fd(descriptor, PollFlags::IN)).collect();
        let timeout = timeout
            .map(|timeout| Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: i64::from(timeout.subsec_nanos()) });
        // Whatever went wrong, looking at everything is right.
        let _ = poll(&mut waits, timeout.as_ref());
    }

    /// The next order that has arrived, if one has.
    pub fn receive(&mut self) -> Option<Order> {
        let given = self.given.pop_front().or_else(|| self.next_of_supervisor());
        given.or_else(|| self.next_of_predecessor()).or_else(|| self.next_of_keeper()).or_else(|| self.next_signal())
    }

    /// Gives an order to this process itself. It is received before any other.
    pub fn give(&mut self, order: Order) {
        self.given.push_back(order);
    }

    fn next_of_supervisor(&mut self) -> Option<Order> {
        match self.supervisor.as_ref()?.receive() {
            Received::Message(message, passed) => {
                let order = Order::decode(&message);
                match order {
                    Some(Order::TakeServices) => self.services = passed,
                    _ => self.handover_target = passed.or(self.handover_target.take()),
                }
                order
            }
            Received::Nothing => None,
            Received::End => {
                self.supervisor = None;
                Some(Order::Stop)
            }
        }
    }

    fn next_of_predecessor(&mut self) -> Option<Order> {
        loop {
            match self.predecessor.as_ref()?.receive() {
                Received::Message(message, _) if Order::decode(&message) != Some(Order::TakeOver) => {
                    return Order::decode(&message);
                }
                // It has been said late.
                Received::Message(..) => {}
                Received::Nothing => return None,
                Received::End => self.predecessor = None,
            }
        }
    }

    fn next_of_keeper(&mut self) -> Option<Order> {
        match self.keeper.as_ref()?.receive() {
            Received::Message(message, _) => Order::decode(&message),
            Received::Nothing => None,
            // With it everything ends.
            Received::End => {
                self.keeper = None;
                None
            }
        }
    }

    fn next_signal(&mut self) -> Option<Order> {
        loop {
            match self.signals.receive()? {
                Signal::HUP => return Some(Order::Reload),
                Signal::USR2 => return Some(Order::Upgrade),
                // An operator who says it twice does not want to wait.
                Signal::TERM | Signal::INT if self.interrupted => return Some(Order::Stop),
                Signal::TERM | Signal::INT => {
                    self.interrupted = true;
                    return Some(Order::Drain);
                }
                _ => {}
            }
        }
    }
}

/// One end of the line between a supervisor and a worker process. Messages keep their bounds; neither end ever waits.
#[derive(Debug)]
pub struct ControlChannel {
    socket: OwnedFd,
}

/// The result of receiving from a line.
#[derive(Debug)]
pub enum Received {
    /// A message, and the descriptor that was passed with it.
    Message(Vec<u8>, Option<OwnedFd>),
    /// Nothing yet.
    Nothing,
    /// The other end is gone.
    End,
}

/// Bytes of the longest message: a failure with the longest path in it.
const MESSAGE_BYTES_MAX: usize = 8192;

impl ControlChannel {
    /// Both ends of a new line.
    ///
    /// # Errors
    /// No descriptors or memory.
    pub fn pair() -> Result<(ControlChannel, ControlChannel), Errno> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (one, other) = rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        Ok((ControlChannel { socket: one }, ControlChannel { socket: other }))
    }

    /// The end of which `descriptor` is passed to this process.
    ///
    /// # Errors
    /// It is no socket.
    pub(crate) fn inherit(descriptor: OwnedFd) -> Result<ControlChannel, Errno> {
        fcntl_setfd(&descriptor, FdFlags::CLOEXEC)?;
        let flags = fcntl_getfl(&descriptor)?;
        fcntl_setfl(&descriptor, flags | OFlags::NONBLOCK)?;
        Ok(ControlChannel { socket: descriptor })
    }

    /// Gives an order. Lost if the other end is gone, or has not listened to the last hundred.
    pub fn order(&self, order: Order) {
        self.send(&[order as u8], None);
    }

    /// Orders to hand over to the process at the other end of `handover_target`.
    pub fn order_handover(&self, handover_target: BorrowedFd<'_>) {
        self.send(&[Order::HandOver as u8], Some(handover_target));
    }

    /// Orders to take the services of the table in this file.
    pub fn order_services(&self, table: BorrowedFd<'_>) {
        self.send(&[Order::TakeServices as u8], Some(table));
    }

    /// Makes a report.
    pub fn report(&self, report: &Report) {
        self.send(&report.encode(), None);
    }

    /// Receives from the line. An end, once reached, is found again each time.
    pub fn receive(&self) -> Received {
        let mut message = vec![0; MESSAGE_BYTES_MAX];
        match scm_rights::receive_with(self.socket.as_fd(), &mut message, false) {
            Ok((0, _)) => Received::End,
            Ok((bytes, passed)) => {
                message.truncate(bytes);
                Received::Message(message, passed.into_iter().next())
            }
            Err(Errno::AGAIN) => Received::Nothing,
            Err(_) => Received::End,
        }
    }

    fn send(&self, message: &[u8], passed: Option<BorrowedFd<'_>>) {
        let message = &message[..message.len().min(MESSAGE_BYTES_MAX)];
        // A worker that is gone is noticed by its supervisor, and the other way round.
        let _ = scm_rights::send(self.socket.as_fd(), message, passed);
    }
}

impl AsFd for ControlChannel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Order {
    fn decode(message: &[u8]) -> Option<Order> {
        let orders = [
            Order::Drain,
            Order::Stop,
            Order::Reopen,
            Order::Reload,
            Order::Upgrade,
            Order::HandOver,
            Order::Retire,
            Order::PurgeAnswers,
            Order::TakeOver,
            Order::TakeServices,
            Order::Supersede,
        ];
        orders.into_iter().find(|order| message == [*order as u8])
    }
}

/// First bytes of reports.
const READY: u8 = b'r';
const FAILED: u8 = b'f';
const FORBIDDEN: u8 = b'p';
const SUCCEEDED: u8 = b's';
const LEAVING: u8 = b'l';

impl Report {
    fn encode(&self) -> Vec<u8> {
        match self {
            Report::Ready => vec![READY],
            Report::Failed { cause, permission } => {
                let kind = if *permission { FORBIDDEN } else { FAILED };
                [&[kind], cause.as_bytes()].concat()
            }
            Report::Succeeded(process) => [&[SUCCEEDED][..], &process.to_le_bytes()].concat(),
            Report::Leaving => vec![LEAVING],
        }
    }

    /// The report in a message; none if it is not one.
    pub fn decode(message: &[u8]) -> Option<Report> {
        let (kind, rest) = message.split_first()?;
        let cause = || String::from_utf8_lossy(rest).into_owned();
        match *kind {
            READY => Some(Report::Ready),
            FAILED => Some(Report::Failed { cause: cause(), permission: false }),
            FORBIDDEN => Some(Report::Failed { cause: cause(), permission: true }),
            SUCCEEDED => Some(Report::Succeeded(u32::from_le_bytes(rest.try_into().ok()?))),
            LEAVING => Some(Report::Leaving),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn received(line: &ControlChannel) -> Vec<u8> {
        match line.receive() {
            Received::Message(message, _) => message,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn orders_arrive_in_their_order_and_the_end_of_the_supervisor_means_stopping() {
        let (supervisor, worker) = ControlChannel::pair().unwrap();
        supervisor.order(Order::Reopen);
        supervisor.order(Order::Drain);
        drop(supervisor);
        // In a thread of its own, because signals are taken over.
        std::thread::spawn(move || {
            let mut orders = Orders::by_supervisor(worker).unwrap();
            let given: Vec<_> = (0..4).map(|_| orders.receive()).collect();
            assert_eq!(given, [Some(Order::Reopen), Some(Order::Drain), Some(Order::Stop), None]);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn the_order_to_hand_over_comes_with_a_socket() {
        let (supervisor, worker) = ControlChannel::pair().unwrap();
        let (handover_target, other) = scm_rights::pair().unwrap();
        supervisor.order_handover(handover_target.as_fd());
        supervisor.order(Order::Drain);
        std::thread::spawn(move || {
            let mut orders = Orders::by_supervisor(worker).unwrap();
            assert_eq!((orders.receive(), orders.receive()), (Some(Order::HandOver), Some(Order::Drain)));
            let handover_target = orders.take_handover_target().unwrap();
            scm_rights::send(handover_target.as_fd(), b"x", None).unwrap();
        })
        .join()
        .unwrap();
        let mut message = Vec::new();
        scm_rights::receive(other.as_fd(), &mut message, true).unwrap();
        assert_eq!(message, b"x");
    }

    #[test]
    fn a_line_on_which_nothing_has_come_says_so() {
        let (one, _other) = ControlChannel::pair().unwrap();
        assert!(matches!(one.receive(), Received::Nothing));
    }

    #[test]
    fn a_report_arrives_as_it_was_made() {
        let (worker, supervisor) = ControlChannel::pair().unwrap();
        for report in [
            Report::Ready,
            Report::Succeeded(7),
            Report::Leaving,
            Report::Failed { cause: "no such directory".to_owned(), permission: true },
        ] {
            worker.report(&report);
            assert_eq!(Report::decode(&received(&supervisor)), Some(report));
        }
    }

    proptest! {
        #[test]
        fn any_message_is_a_report_or_none(message in proptest::collection::vec(any::<u8>(), 0..40)) {
            let report = Report::decode(&message);
            prop_assert!(report.is_none() || Report::decode(&report.clone().unwrap().encode()) == report);
        }
    }
}
