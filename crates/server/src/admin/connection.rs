//! One connection to the endpoint, for one request, driven through the same core as all others.
//!
//! Owns: the connection and its bounds. Guarantees: never waits; what a peer sends or does not read costs bounded
//! memory for a bounded time. The content of a request is gathered here, and the answer is asked for when it is whole:
//! once, and again at each look if the answer takes its time.

use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use lamna_proto::conn::{Connection, Fate};
use lamna_proto::error::Refusal;
use lamna_proto::exchange::program::{Holds, Input, Program, Step, StepResult};
use lamna_proto::exchange::{Done, ExchangeId, Need};
use lamna_proto::limits::Limits;
use lamna_proto::message::Status;
use lamna_proto::resource::{Description, HeadTooLong, Representation, Resource};
use lamna_proto::time::Instant as Moment;
use lamna_proto::transmit::Segment;
use lamna_proto::workspace::{Pages, Workspace};
use lamna_sys::clock::unix_ms;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};

use super::request::Request;

/// How long a visit may last in all.
pub(super) const TIME_MAX: Duration = Duration::from_secs(5);
/// How long one may last that waits for what takes its time: somewhat longer than a new process has to begin to serve.
const WAIT_MAX: Duration = Duration::from_secs(15);
/// Receives of one look: what is discarded of a peer that never stops must not hold up everybody else.
const RECEIVES_MAX: usize = 16;

/// The rights of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rights {
    /// Everything.
    All,
    /// Everything that changes nothing.
    Read,
    /// To be told that it may not.
    None,
}

/// Where a visit comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// A process of this machine, over the Unix socket.
    Unix(Rights),
    /// This address, over TCP.
    Tcp(IpAddr),
}

impl Origin {
    /// Whether both are bounded together: everything over Unix sockets, and what one host can have of addresses.
    pub(super) fn is_together_with(self, other: Origin) -> bool {
        match (self, other) {
            (Origin::Unix(_), Origin::Unix(_)) => true,
            (Origin::Tcp(one), Origin::Tcp(other)) => network(one) == network(other),
            _ => false,
        }
    }
}

/// An address of IPv4; the 64 bits that a host does not choose of one of IPv6 (RFC 4291 2.5.4).
fn network(address: IpAddr) -> u64 {
    match address.to_canonical() {
        IpAddr::V4(address) => u64::from(u32::from(address)),
        IpAddr::V6(address) if address.is_loopback() => u64::MAX,
        IpAddr::V6(address) => (u128::from(address) >> 64) as u64,
    }
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) media_type: &'static str,
    /// The methods that would have been allowed, for 405 (RFC 9110 15.5.6).
    pub(super) allow: Option<&'static str>,
    pub(super) content: Vec<u8>,
}

/// A question to the api.
#[derive(Clone, Debug)]
pub(super) enum Ask {
    /// A request.
    Request(Request),
    /// The outcome of the request, which takes its time.
    Completed,
}

/// Bytes of the longest content: an order with the page of a site in maintenance, as JSON.
const CONTENT_BYTES_MAX: u64 = 160 * 1024;

/// The workspace with which all visits are driven. Each is for one request.
pub(super) fn workspace() -> Result<Box<Workspace>, HeadTooLong> {
    let limits = Limits { head_bytes_max: 8 * 1024, fields_max: 64, exchanges_max: 1, ..Limits::default() };
    let page = |refusal: &Refusal| super::routes::failure(refusal.status().0, refusal.cause()).resource().map(Arc::new);
    let options = Answer { status: 204, media_type: "", allow: Some("GET, HEAD, POST"), content: Vec::new() };
    let pages = Pages {
        refusals: Refusal::ALL.iter().map(page).collect::<Result<_, _>>()?,
        options: Arc::new(options.resource()?),
    };
    let mut workspace = Workspace::new(Arc::new(limits), Arc::new(pages), 0, unix_ms() / 1000);
    workspace.drain();
    Ok(workspace)
}

/// One connection.
#[derive(Debug)]
pub(super) struct Visit {
    socket: OwnedFd,
    /// Where it comes from.
    pub(super) origin: Origin,
    connection: Connection,
    /// The request whose content is being received.
    request: Option<Request>,
    /// The request whose answer takes its time.
    waiting: Option<(ExchangeId, Box<dyn Program>)>,
    has_ended_sending: bool,
    until: Instant,
}

/// Stands for the handler that answers: the visit gathers the content and asks.
#[derive(Debug)]
struct Gathered;

impl Program for Gathered {
    fn content_bytes_max(&self) -> u64 {
        CONTENT_BYTES_MAX
    }

    fn holds(&self) -> Holds {
        Holds::default()
    }

    fn run(&mut self, _: Input<'_>) -> StepResult {
        StepResult::Failed
    }
}

/// The core counts no time here: a visit has one bound for all of it.
const NOW: Moment = Moment::from_ms(0);

impl Visit {
    pub(super) fn new(socket: OwnedFd, origin: Origin, now: Instant) -> Visit {
        let (connection, until) = (Connection::new(NOW), now + TIME_MAX);
        Visit { socket, origin, connection, request: None, waiting: None, has_ended_sending: false, until }
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Goes on as far as that is possible without waiting. `answer` is asked for a whole request, and at each look for
    /// one that it had no answer to. False when the visit is over.
    pub(super) fn resume(
        &mut self,
        now: Instant,
        workspace: &mut Option<Box<Workspace>>,
        mut answer: impl FnMut(Origin, Ask) -> Option<Answer>,
    ) -> bool {
        if self.until <= now {
            return false;
        }
        let mut lent = workspace.take().expect("one visit is looked at at a time");
        lent.handle_unix_seconds(unix_ms() / 1000);
        self.connection.lend(lent);
        self.ask_again(&mut answer);
        let goes_on = self.drive(now, &mut answer);
        *workspace = Some(self.connection.reclaim());
        goes_on
    }

    fn drive(&mut self, now: Instant, answer: &mut impl FnMut(Origin, Ask) -> Option<Answer>) -> bool {
        for _ in 0..RECEIVES_MAX {
            self.meet_needs(now, answer);
            let is_sent = self.send();
            let interest = self.connection.interest();
            if interest.is_over() {
                return false;
            }
            if interest.fate == Fate::Linger && is_sent && !std::mem::replace(&mut self.has_ended_sending, true) {
                // It fails if the peer is gone, which receiving will tell.
                let _ = shutdown(&self.socket, Shutdown::Write);
            }
            if !interest.receive || !self.receive() {
                return true;
            }
        }
        // It sends and sends.
        self.connection.interest().fate == Fate::Open
    }

    fn meet_needs(&mut self, now: Instant, answer: &mut impl FnMut(Origin, Ask) -> Option<Answer>) {
        while let Some((id, need)) = self.connection.poll_need() {
            match need {
                Need::Resolve(requested) => {
                    self.request = requested.request.map(Request::of);
                    self.connection.handle_done(id, Done::Run(Box::new(Gathered)), NOW);
                }
                Need::Run => self.gather(id, now, answer),
                Need::Read(_) => self.connection.handle_done(id, Done::Failed, NOW),
            }
        }
    }

    /// Takes what there is of the content, and has the request answered that is whole.
    fn gather(&mut self, id: ExchangeId, now: Instant, answer: &mut impl FnMut(Origin, Ask) -> Option<Answer>) {
        let Some(Step { program, input: Input { content, is_last, .. } }) = self.connection.step(id, NOW) else {
            return;
        };
        if let Some(request) = &mut self.request {
            request.content.extend_from_slice(content);
        }
        let Some(request) = self.request.take_if(|_| is_last) else {
            return self.connection.handle_step_result(id, program, StepResult::Continue, NOW);
        };
        match answer(self.origin, Ask::Request(request)) {
            Some(answer) => self.connection.handle_step_result(id, program, answer.into(), NOW),
            None => (self.waiting, self.until) = (Some((id, program)), now + WAIT_MAX),
        }
    }

    fn ask_again(&mut self, answer: &mut impl FnMut(Origin, Ask) -> Option<Answer>) {
        let Some((id, program)) = self.waiting.take() else { return };
        match answer(self.origin, Ask::Completed) {
            Some(answer) => self.connection.handle_step_result(id, program, answer.into(), NOW),
            None => self.waiting = Some((id, program)),
        }
    }

    /// Whether there may be more to receive.
    fn receive(&mut self) -> bool {
        match recv(&self.socket, self.connection.receive_space(), RecvFlags::empty()) {
            Ok((_, 0)) => self.connection.handle_end(),
            Ok((_, bytes)) => self.connection.handle_received(bytes, NOW),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return false,
            Err(_) => self.connection.handle_broken(),
        }
        true
    }

    /// Whether everything has been sent.
    fn send(&mut self) -> bool {
        while let Some(transmit) = self.connection.poll_transmit() {
            let bytes = match transmit.segment {
                Some(Segment::Shared(content)) if transmit.bytes.is_empty() => content,
                _ => transmit.bytes,
            };
            match send(&self.socket, bytes, SendFlags::NOSIGNAL) {
                Ok(sent) => self.connection.handle_sent(sent as u64, NOW),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return false,
                Err(_) => self.connection.handle_broken(),
            }
        }
        true
    }
}

impl Answer {
    fn resource(self) -> Result<Resource, HeadTooLong> {
        let Answer { status, media_type, allow, content } = self;
        let allow = allow.map(|methods| ("Allow".to_owned(), methods.to_owned()));
        let fields: Vec<_> = allow.into_iter().chain([("Cache-Control".to_owned(), "no-store".to_owned())]).collect();
        let status = Status(status);
        let media_type = Some(media_type).filter(|media_type| !media_type.is_empty());
        let description = Description { media_type, fields: &fields, ..Description::of(status) };
        Ok(Resource::one(status, Representation::with_content(&description, &content)?))
    }
}

impl From<Answer> for StepResult {
    fn from(answer: Answer) -> StepResult {
        answer.resource().map_or(StepResult::Failed, |resource| StepResult::Answer(Arc::new(resource)))
    }
}
