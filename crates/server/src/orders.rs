//! What a running server is told to do: by signals, or by its supervisor over a line.
//!
//! Owns: what signals mean, and the line between a supervisor and a worker process. Guarantees: a worker process learns
//! of the end of its supervisor, whatever ended it, because the line ends with it. Carries nothing out.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

use crate::sys::signals::{Signal, Signals};

/// What a server is told to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Take no new connection, finish what has begun, end.
    Drain,
    /// End now.
    Stop,
    /// Open the access log again by its name.
    Reopen,
}

/// What a worker process tells its supervisor.
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
}

/// Where orders come from.
#[derive(Debug)]
pub struct Orders {
    signals: Signals,
    interrupted: bool,
    supervisor: Option<Line>,
}

impl Orders {
    /// Orders by signals: TERM and INT drain, the second INT stops, HUP reopens. To be called before there are threads.
    /// XFSZ is ignored: a full log file is an error like others. CHLD interrupts waiting, and orders nothing.
    ///
    /// # Errors
    /// No descriptors or memory.
    pub fn by_signals() -> Result<Orders, Errno> {
        let signals = [Signal::TERM, Signal::INT, Signal::HUP, Signal::XFSZ, Signal::CHILD];
        Ok(Orders { signals: Signals::take(&signals)?, interrupted: false, supervisor: None })
    }

    /// Orders by a supervisor, whose end means stopping. INT and HUP reach the supervisor as well as its workers when
    /// they come from a terminal: here they are ignored. TERM drains, so that an administrator can replace one worker.
    ///
    /// # Errors
    /// No descriptors or memory.
    pub fn by_supervisor(line: Line) -> Result<Orders, Errno> {
        Ok(Orders { signals: Signals::take(&[Signal::TERM])?, interrupted: false, supervisor: Some(line) })
    }

    /// Whether there is a supervisor, who speaks to the administrator for this process.
    pub fn have_supervisor(&self) -> bool {
        self.supervisor.is_some()
    }

    /// Waits for an order, for one of `others` to become readable, or for the end of `timeout`.
    pub fn wait<'a>(&'a self, others: impl Iterator<Item = BorrowedFd<'a>>, timeout: Option<Duration>) {
        let line = self.supervisor.iter().map(AsFd::as_fd);
        let waits = [self.signals.as_fd()].into_iter().chain(line).chain(others);
        let mut waits: Vec<PollFd<'_>> =
            waits.map(|descriptor| PollFd::from_borrowed_fd(descriptor, PollFlags::IN)).collect();
        let timeout = timeout
            .map(|timeout| Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: i64::from(timeout.subsec_nanos()) });
        // Whatever went wrong, looking at everything is right.
        let _ = poll(&mut waits, timeout.as_ref());
    }

    /// The next order that has arrived, if one has.
    pub fn receive(&mut self) -> Option<Order> {
        self.next_of_supervisor().or_else(|| self.next_signal())
    }

    fn next_of_supervisor(&mut self) -> Option<Order> {
        match self.supervisor.as_ref()?.receive() {
            Received::Message(message) => Order::decode(&message),
            Received::Nothing => None,
            Received::End => {
                self.supervisor = None;
                Some(Order::Stop)
            }
        }
    }

    fn next_signal(&mut self) -> Option<Order> {
        loop {
            match self.signals.receive()? {
                Signal::HUP => return Some(Order::Reopen),
                Signal::TERM => return Some(Order::Drain),
                Signal::INT if self.interrupted => return Some(Order::Stop),
                Signal::INT => {
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
pub struct Line {
    socket: OwnedFd,
}

/// What has come over a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    /// A message.
    Message(Vec<u8>),
    /// Nothing yet.
    Nothing,
    /// The other end is gone.
    End,
}

/// Bytes of the longest message: a failure with the longest path in it.
const MESSAGE_BYTES_MAX: usize = 8192;

impl Line {
    /// Both ends of a new line.
    ///
    /// # Errors
    /// No descriptors or memory.
    pub fn pair() -> Result<(Line, Line), Errno> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (one, other) = rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        Ok((Line { socket: one }, Line { socket: other }))
    }

    /// Gives an order. Lost if the other end is gone, or has not listened to the last hundred.
    pub fn order(&self, order: Order) {
        self.send(&[order as u8]);
    }

    /// Makes a report.
    pub fn report(&self, report: &Report) {
        self.send(&report.encode());
    }

    /// What has come. An end, once reached, is found again each time.
    pub fn receive(&self) -> Received {
        let mut message = vec![0; MESSAGE_BYTES_MAX];
        match rustix::io::retry_on_intr(|| rustix::net::recv(&self.socket, &mut *message, RecvFlags::empty())) {
            Ok((0, _)) => Received::End,
            Ok((bytes, _)) => {
                message.truncate(bytes);
                Received::Message(message)
            }
            Err(Errno::AGAIN) => Received::Nothing,
            Err(_) => Received::End,
        }
    }

    fn send(&self, message: &[u8]) {
        let message = &message[..message.len().min(MESSAGE_BYTES_MAX)];
        // A worker that is gone is noticed by its supervisor, and the other way round.
        let _ = rustix::io::retry_on_intr(|| rustix::net::send(&self.socket, message, SendFlags::NOSIGNAL));
    }
}

impl AsFd for Line {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Order {
    fn decode(message: &[u8]) -> Option<Order> {
        let orders = [Order::Drain, Order::Stop, Order::Reopen];
        orders.into_iter().find(|order| message == [*order as u8])
    }
}

/// First bytes of reports.
const READY: u8 = b'r';
const FAILED: u8 = b'f';
const FORBIDDEN: u8 = b'p';

impl Report {
    fn encode(&self) -> Vec<u8> {
        match self {
            Report::Ready => vec![READY],
            Report::Failed { cause, permission } => {
                let kind = if *permission { FORBIDDEN } else { FAILED };
                [&[kind], cause.as_bytes()].concat()
            }
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
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn received(line: &Line) -> Vec<u8> {
        match line.receive() {
            Received::Message(message) => message,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn orders_arrive_in_their_order_and_the_end_of_the_supervisor_means_stopping() {
        let (supervisor, worker) = Line::pair().unwrap();
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
    fn a_line_on_which_nothing_has_come_says_so() {
        let (one, _other) = Line::pair().unwrap();
        assert_eq!(one.receive(), Received::Nothing);
    }

    #[test]
    fn a_report_arrives_as_it_was_made() {
        let (worker, supervisor) = Line::pair().unwrap();
        for report in [Report::Ready, Report::Failed { cause: "no such directory".to_owned(), permission: true }] {
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
